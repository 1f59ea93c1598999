/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that moves before its turn, in virtual time: programs with more memory together than the
 * device has, under round-robin. Their movers are played, a chunk at a time; and the device is
 * never fuller than it can be. */
#include "bridge/planner.h"
#include "bridge_world.h"
#include "mem/mem.h"

#define MIB   (UINT64_C(1) << 20)
#define CHUNK (128 * MIB)
static uint64_t capacity = 16384 * MIB;
static const char *device = DEVICE; /* of those that are added */
static bool starts_early;           /* those that are added do */
#define SET      (64 * CHUNK)       /* two fit */
#define PROGRAMS 8
#define STEP     FM_MS

struct program {
	struct client c;
	struct fm_ledger *l;
	uint64_t ran, early, out, in;
	uint64_t hot;  /* 0: it uses all of its memory, and says so */
	uint64_t maps; /* bytes that its mover may map from the host in this step */
	bool stuck;    /* it never comes to rest */
	bool dead, idle;
	bool says_all, no_map; /* it does not know what it uses; the host has no room */
	bool trickles;         /* it comes in by pages */
};

struct play {
	struct world w;
	struct program p[PROGRAMS];
	unsigned n;
	uint64_t rate;      /* bytes in a step, each way, of all movers together */
	unsigned faster;    /* so much faster memory goes out than it comes in, for it is kept */
	uint64_t begins[2]; /* bytes that may go out, and come in, in this step */
	unsigned next[2];   /* whose turn it is at the link */
	uint64_t stood, most;
	unsigned both; /* chunks that came in while others were to go out */
};

static struct fm_ledger_device *row(const struct program *p)
{
	return &p->l->device[0];
}

static uint64_t get(_Atomic uint64_t *word)
{
	return atomic_load(word);
}

static uint64_t full(const struct play *y)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < y->n; i++)
		sum += y->p[i].dead || strcmp(row(&y->p[i])->key, DEVICE)
			       ? 0
			       : get(&row(&y->p[i])->resident);
	return sum;
}

static void set_resident(struct program *p, uint64_t bytes)
{
	atomic_store(&row(p)->resident, bytes);
	atomic_store(
		&row(p)->host, get(&row(p)->kind[FM_MEM_MOVABLE]) - bytes - get(&row(p)->mapped));
}

/* What it uses is in front in its list, and so the first that is on the device. */
static void set_hot(struct program *p, uint64_t hot)
{
	uint64_t other = get(&row(p)->kind[FM_MEM_MOVABLE]) - get(&row(p)->mapped);

	p->hot = hot;
	atomic_store(&row(p)->hot, p->says_all ? UINT64_MAX : hot);
	atomic_store(&row(p)->hot_out, fm_sub_sat(FM_MIN(hot, other), get(&row(p)->resident)));
	atomic_store(
		&row(p)->hot_mapped, p->says_all ? get(&row(p)->mapped) : fm_sub_sat(hot, other));
}

static void add_of(struct play *y, uid_t uid, unsigned i, uint64_t bytes, uint64_t resident)
{
	struct program *p = &y->p[i];
	char name[16];

	snprintf(name, sizeof(name), "p%u", i);
	assert_int_equal(attach(&y->w, &p->c, uid, (pid_t)(100 + i), name), 0);
	assert_int_equal(add_queue_on(&y->w, &p->c, 0, 0, device), 0);
	assert_int_equal(fm_ledger_create(&p->l, NULL), 0);
	p->l->managed = starts_early ? FM_LEDGER_MANAGED | FM_LEDGER_EARLY : FM_LEDGER_MANAGED;
	snprintf(row(p)->key, sizeof(row(p)->key), "%s", device);
	atomic_store(&row(p)->claimed, bytes);
	atomic_store(&row(p)->kind[FM_MEM_MOVABLE], bytes);
	atomic_store(&row(p)->grain, CHUNK);
	set_resident(p, resident);
	atomic_store(&row(p)->capacity, capacity);
	assert_int_equal(fm_bridge_ledger(y->w.b, p->c.c, p->l), 0);
	begin(&p->c, 0, 1);
	ring(&y->w, &p->c);
	y->n = i + 1;
}

static void add(struct play *y, unsigned i, uint64_t bytes, uint64_t resident)
{
	add_of(y, ALICE, i, bytes, resident);
}

static struct play *start_with(
	unsigned n, uint64_t set, const char *slice, const struct fm_bridge_memory *settings)
{
	static const struct fm_bridge_host host = {.wake = on_wake, .hint = on_hint};
	struct play *y = calloc(1, sizeof(*y));
	uint64_t left = capacity;

	y->w.now = T0;
	y->rate = 40 * MIB; /* 40 GB/s */
	y->faster = 1;
	assert_int_equal(fm_bridge_new(&y->w.b, &host), 0);
	if (settings)
		fm_bridge_memory_settings(y->w.b, settings);
	assert_int_equal(
		fm_sched_policy(fm_bridge_sched(y->w.b), "round-robin", &slice, 1, T0, NULL), 0);
	for (unsigned i = 0; i < n; i++) {
		add(y, i, set, FM_MIN(left, set));
		left -= FM_MIN(left, set);
	}
	return y;
}

static struct play *start(unsigned n)
{
	return start_with(n, SET, "slice=300", NULL);
}

static void end(struct play *y)
{
	fm_bridge_free(y->w.b);
	for (unsigned i = 0; i < y->n; i++) {
		fm_board_unmap(y->p[i].c.board);
		fm_ledger_unmap(y->p[i].l);
	}
	free(y);
}

/* The program's commands: one is on the device while the gate is open, and one is always waiting.
 */
static bool runs(struct program *p)
{
	struct fm_slot *s = &p->c.board->slot[0];
	uint64_t there = get(&row(p)->resident) + get(&row(p)->mapped);
	bool open = open_gate(&p->c, 0), here = there == get(&row(p)->kind[0]);

	if (open)
		atomic_store(&s->released, atomic_load(&s->begun));
	if (open || p->stuck || p->idle)
		return open && here && !p->idle;
	if (atomic_load(&s->done) != atomic_load(&s->released))
		atomic_store(&s->done, atomic_load(&s->released));
	atomic_store(&s->begun, atomic_load(&s->released) + 1);
	return false;
}

static bool has_moved(struct play *y, struct program *p)
{
	if (p->hot)
		set_hot(p, p->hot);
	assert_int_equal(tell(&y->w, &p->c, (union fm_msg){0}, FM_MSG_MEMORY_BELL), 0);
	return true;
}

/* The next chunk from the host to where it runs from there. */
static bool map_one(struct play *y, struct program *p)
{
	if (p->maps < CHUNK || !get(&row(p)->host))
		return false;
	p->maps -= CHUNK;
	atomic_fetch_add(&row(p)->mapped, CHUNK);
	set_resident(p, get(&row(p)->resident));
	return has_moved(y, p);
}

/* What comes to the device may be what runs from the host and is in use. */
static void come_home(struct program *p)
{
	if (!get(&row(p)->host) && get(&row(p)->hot_mapped) >= CHUNK)
		atomic_fetch_sub(&row(p)->mapped, CHUNK);
}

static bool is_early(const struct program *p)
{
	return p->l->managed & FM_LEDGER_EARLY;
}

static bool is_to_go(struct program *p)
{
	return atomic_load(&row(p)->wish) == FM_MEM_OUT &&
	       get(&row(p)->resident) > get(&row(p)->share);
}

static bool goes_out(struct play *y, struct program *p)
{
	uint64_t here = get(&row(p)->resident);

	if (!is_to_go(p))
		return false;
	if (is_early(p))
		atomic_fetch_add(&row(p)->mapped, FM_MIN(here, CHUNK));
	set_resident(p, here - FM_MIN(here, CHUNK));
	atomic_fetch_add(&row(p)->went_out, CHUNK);
	p->out += CHUNK;
	return has_moved(y, p);
}

static bool comes_in(struct play *y, struct program *p, bool others_run)
{
	uint64_t mapped = get(&row(p)->mapped), back = FM_MIN(get(&row(p)->hot_mapped), mapped);
	uint64_t here = get(&row(p)->resident), most = get(&row(p)->kind[FM_MEM_MOVABLE]);
	uint64_t share = get(&row(p)->share);
	uint32_t wish = atomic_load(&row(p)->wish);
	bool out = wish == FM_MEM_OUT, no = full(y) + CHUNK > capacity;

	if ((wish == FM_MEM_STAY && !is_early(p)) || (!out && share == UINT64_MAX))
		share = most - mapped;
	share = FM_MIN(share, most - mapped + back);
	if (wish == FM_MEM_IN && here + CHUNK > share && !p->no_map)
		return map_one(y, p);
	if (wish == FM_MEM_IN && p->no_map) /* it waits for room on the device */
		share = most - mapped;
	if (here > share)
		return false;
	if (here + CHUNK > share) {
		atomic_store(&row(p)->reached, out ? get(&row(p)->share) : UINT64_MAX);
		return false;
	}
	atomic_store(&row(p)->trouble, no ? FM_MEM_DEVICE_FULL : FM_MEM_FINE);
	if (no)
		return false;
	if (p->trickles) {
		set_resident(p, here + 4096);
		return false;
	}
	come_home(p);
	set_resident(p, here + CHUNK);
	atomic_fetch_add(&row(p)->came_in, CHUNK);
	p->in += CHUNK;
	p->early += others_run ? CHUNK : 0;
	for (unsigned i = 0; i < y->n; i++)
		y->both += is_to_go(&y->p[i]);
	return has_moved(y, p);
}

/* One after the other, a chunk each, as the link takes them. */
static void move(struct play *y, bool in, bool running)
{
	unsigned still = 0;

	uint64_t rate = in ? y->rate : y->faster * y->rate;

	y->begins[in] = FM_MIN(y->begins[in] + rate, CHUNK + rate);
	while (y->begins[in] >= CHUNK && still < y->n) {
		struct program *p = &y->p[y->next[in]++ % y->n];

		still++;
		if (p->dead || p->stuck || (open_gate(&p->c, 0) && !(in && is_early(p))) ||
			!(in ? comes_in(y, p, running) : goes_out(y, p)))
			continue;
		y->begins[in] -= CHUNK;
		still = 0;
	}
}

static void step(struct play *y)
{
	unsigned running = 0;

	pass(&y->w, STEP);
	for (unsigned i = 0; i < y->n; i++)
		if (!y->p[i].dead && runs(&y->p[i])) {
			y->p[i].ran += STEP;
			running++;
		}
	for (unsigned i = 0; i < y->n; i++)
		y->p[i].maps = FM_MIN(y->p[i].maps + 5 * MIB, 2 * CHUNK);
	move(y, false, running);
	move(y, true, running);
	y->stood += running ? 0 : STEP;
	y->most = FM_MAX(y->most, full(y));
	assert_true(full(y) <= capacity);
}

static void play(struct play *y, uint64_t ns)
{
	for (uint64_t end_at = y->w.now + ns; y->w.now < end_at;)
		step(y);
}

static void forget(struct play *y)
{
	y->stood = y->both = 0;
	for (unsigned i = 0; i < y->n; i++)
		y->p[i].ran = y->p[i].early = y->p[i].in = y->p[i].out = 0;
}

static uint64_t sum_in(const struct play *y)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < y->n; i++)
		sum += y->p[i].in;
	return sum;
}

static uint64_t sum_ran(const struct play *y)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < y->n; i++)
		sum += y->p[i].ran;
	return sum;
}

static uint64_t draw(uint64_t *seed)
{
	static const uint64_t few[] = {0, 1, CHUNK, SET, UINT64_C(1) << 40, UINT64_MAX};

	*seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return *seed >> 62 ? few[(*seed >> 33) % FM_ARRAY_LEN(few)] : *seed >> 20;
}

#define GIB (UINT64_C(1) << 30)

/* Programs of 10 GiB, of which so much is in use, on 12 GiB. */
static struct play *start_hot(unsigned n, uint64_t hot, uint64_t all)
{
	struct play *y;

	capacity = 12 * GIB;
	y = start_with(n, all, "slice=300", &(struct fm_bridge_memory){.keep_percent = 100});
	for (unsigned i = 0; i < n; i++)
		set_hot(&y->p[i], hot);
	return y;
}

static void end_hot(struct play *y)
{
	end(y);
	capacity = 16 * GIB;
}

static uint64_t sum_out(const struct play *y)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < y->n; i++)
		sum += y->p[i].out;
	return sum;
}

/* Two of 10 GiB with 4 GiB in use each: when each has had its turn nothing moves any more. */
static void what_is_not_in_use_does_not_move(void **state)
{
	struct play *y = start_hot(2, 4 * GIB, 10 * GIB);

	(void)state;
	play(y, 4 * FM_S);
	for (unsigned i = 0; i < 2; i++) {
		assert_true(get(&row(&y->p[i])->resident) >= 4 * GIB);
		assert_int_equal(get(&row(&y->p[i])->host), 0);
	}
	assert_true(sum_in(y) <= 2 * GIB + 2 * CHUNK);
	assert_true(sum_out(y) <= 2 * GIB + 2 * CHUNK);
	forget(y);
	play(y, 6 * FM_S);
	assert_int_equal(sum_in(y) + sum_out(y), 0);
	assert_int_equal(y->stood, 0);
	for (unsigned i = 0; i < 2; i++)
		assert_true(y->p[i].ran >= 2500 * FM_MS);
	end_hot(y);
}

/* The same of programs that do not know, or that say that all is in use: as without that. */
static void where_all_may_be_in_use_all_moves(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct play *y = start_hot(2, 10 * GIB, 10 * GIB);

		for (unsigned k = 0; k < 2; k++) {
			y->p[k].says_all = i;
			set_hot(&y->p[k], 10 * GIB);
		}
		play(y, 2 * FM_S);
		forget(y);
		play(y, 6 * FM_S);
		assert_true(sum_in(y) >= 20 * GIB);
		for (unsigned k = 0; k < 2; k++)
			assert_int_equal(get(&row(&y->p[k])->mapped), 0);
		end_hot(y);
	}
}

/* Three with 6 GiB in use: only that moves, and what is not in use goes first. */
static void only_what_is_in_use_comes_in(void **state)
{
	struct play *y = start_hot(3, 6 * GIB, 10 * GIB);
	uint64_t turns;

	(void)state;
	play(y, 10 * FM_S);
	for (unsigned i = 0; i < 3; i++)
		assert_true(get(&row(&y->p[i])->mapped) >= 3 * GIB);
	forget(y);
	play(y, 6 * FM_S);
	turns = sum_ran(y) / (300 * FM_MS);
	assert_in_range(sum_in(y) / turns, 2 * GIB, 6 * GIB + 2 * CHUNK);
	assert_true(sum_ran(y) >= 5 * FM_S);
	end_hot(y);
}

/* What it begins to use comes to the device, and takes the place of what is not in use. */
static void what_comes_to_be_in_use_comes_to_the_device(void **state)
{
	struct play *y = start_hot(2, 4 * GIB, 10 * GIB);

	(void)state;
	play(y, 4 * FM_S);
	assert_true(get(&row(&y->p[1])->mapped) >= 5 * GIB);
	set_hot(&y->p[1], 7 * GIB);
	set_hot(&y->p[0], 4 * GIB);
	assert_int_equal(tell(&y->w, &y->p[1].c, (union fm_msg){0}, FM_MSG_MEMORY_BELL), 0);
	play(y, 6 * FM_S);
	assert_int_equal(get(&row(&y->p[1])->hot_mapped), 0);
	assert_true(get(&row(&y->p[1])->resident) >= 7 * GIB);
	forget(y);
	play(y, 4 * FM_S);
	assert_int_equal(sum_in(y) + sum_out(y), 0);
	end_hot(y);
}

/* What runs from the host could come to the device, but its program never rests: it goes on. */
static void what_cannot_come_home_is_not_waited_for(void **state)
{
	struct play *y = start_hot(2, 4 * GIB, 10 * GIB);

	(void)state;
	play(y, 4 * FM_S);
	assert_true(get(&row(&y->p[1])->mapped) >= 5 * GIB);
	set_hot(&y->p[1], 7 * GIB);
	y->p[1].stuck = true;
	assert_int_equal(tell(&y->w, &y->p[1].c, (union fm_msg){0}, FM_MSG_MEMORY_BELL), 0);
	play(y, 4 * FM_S);
	forget(y);
	play(y, 12 * FM_S);
	assert_true(get(&row(&y->p[1])->hot_mapped) > 0);
	assert_true(y->p[0].ran >= 3 * FM_S);
	assert_true(y->p[1].ran >= 3 * FM_S);
	end_hot(y);
}

/* Nobody else needs the room: it comes in, which is faster. */
static void where_there_is_room_it_comes_in(void **state)
{
	struct play *y = start_hot(2, 2 * GIB, 10 * GIB);

	(void)state;
	play(y, 4 * FM_S);
	y->p[0].idle = true;
	atomic_store(&y->p[0].c.board->slot[0].done, atomic_load(&y->p[0].c.board->slot[0].begun));
	ring(&y->w, &y->p[0].c);
	assert_int_equal(fm_bridge_group_out(y->w.b, group_of(&y->p[1].c, 0), y->w.now, NULL), 0);
	play(y, FM_S);
	assert_true(fm_bridge_group_back(y->w.b, group_of(&y->p[1].c, 0), y->w.now));
	play(y, 2 * FM_S);
	assert_int_equal(get(&row(&y->p[1])->host), 0);
	end_hot(y);
}

/* Nobody foresees when the second has work. It goes on in its turn, and its memory comes in
 * meanwhile, in the place of the first's; without an early start it waits for that. */
static void one_that_starts_early(void **state)
{
	(void)state;
	for (unsigned early = 0; early < 2; early++) {
		struct play *y = start_with(0, 0, "slice=300", NULL);
		uint64_t there;

		add(y, 0, 12 * GIB, 12 * GIB);
		starts_early = early;
		add(y, 1, 8 * GIB, 4 * GIB);
		starts_early = false;
		if (early)
			atomic_store(&row(&y->p[1])->mapped, 4 * GIB);
		set_resident(&y->p[1], 4 * GIB);
		set_hot(&y->p[0], 12 * GIB);
		set_hot(&y->p[1], 8 * GIB);
		y->p[1].idle = true;
		atomic_store(&y->p[1].c.board->slot[0].done,
			atomic_load(&y->p[1].c.board->slot[0].begun));
		ring(&y->w, &y->p[1].c);
		play(y, FM_S);
		assert_int_equal(get(&row(&y->p[0])->resident), 12 * GIB);
		assert_int_equal(get(&row(&y->p[1])->mapped) > 0, early);
		y->p[1].idle = false;
		y->p[1].ran = 0;
		begin(&y->p[1].c, 0, 1);
		ring(&y->w, &y->p[1].c);
		for (unsigned i = 0; i < 3000 && !y->p[1].ran; i++)
			step(y);
		assert_true(y->p[1].ran > 0);
		there = get(&row(&y->p[1])->resident);
		assert_int_equal(there < 8 * GIB, early);
		play(y, 2 * FM_S);
		y->p[0].idle = true;
		atomic_store(&y->p[0].c.board->slot[0].done,
			atomic_load(&y->p[0].c.board->slot[0].begun));
		ring(&y->w, &y->p[0].c);
		play(y, FM_S);
		assert_int_equal(get(&row(&y->p[1])->resident), 8 * GIB);
		assert_int_equal(get(&row(&y->p[1])->mapped), 0);
		end(y);
	}
}

/* The other has ended, and this one pauses: what it had in use comes to the device all the same. */
static void an_idle_ones_comes_home(void **state)
{
	struct play *y = start_hot(2, 4 * GIB, 10 * GIB);
	struct program *p = &y->p[1];

	(void)state;
	play(y, 4 * FM_S);
	assert_true(get(&row(p)->mapped) >= 5 * GIB);
	fm_bridge_detach(y->w.b, y->p[0].c.c, y->w.now);
	y->p[0].dead = p->idle = true;
	atomic_store(&p->c.board->slot[0].done, atomic_load(&p->c.board->slot[0].begun));
	set_hot(p, 10 * GIB);
	ring(&y->w, &p->c);
	play(y, 8 * FM_S);
	assert_int_equal(get(&row(p)->hot_mapped), 0);
	end_hot(y);
}

/* A host that cannot map it: all of it comes in again, and the others go on. */
static void a_host_without_room_for_it(void **state)
{
	struct play *y = start_hot(3, 4 * GIB, 10 * GIB);

	(void)state;
	y->p[1].no_map = true;
	play(y, 10 * FM_S);
	forget(y);
	play(y, 20 * FM_S);
	for (unsigned i = 0; i < 3; i++)
		assert_true(y->p[i].ran >= 2 * FM_S);
	end_hot(y);
}

/* Claims of what is in use that change all the time harm nobody else. */
static void claims_of_what_is_in_use(void **state)
{
	struct play *y = start_hot(3, 4 * GIB, 10 * GIB);
	uint64_t seed = 11;

	(void)state;
	play(y, 4 * FM_S);
	y->p[2].dead = true;
	forget(y);
	for (unsigned i = 0; i < 20000; i++) {
		struct fm_ledger_device *lies = row(&y->p[2]);
		_Atomic uint64_t *word[] = {&lies->hot, &lies->hot_mapped, &lies->hot_out,
			&lies->mapped, &lies->resident, &lies->host, &lies->missed};

		atomic_store(word[draw(&seed) % FM_ARRAY_LEN(word)], draw(&seed));
		tell(&y->w, &y->p[2].c, (union fm_msg){0}, FM_MSG_MEMORY_BELL);
		step(y);
	}
	for (unsigned i = 0; i < 2; i++)
		assert_true(y->p[i].ran >= 2 * FM_S);
	end_hot(y);
}

/* Three of 8 GiB on 16: while one computes, the next one's memory comes in. */
static void the_next_ones_memory_comes_in_beside(void **state)
{
	struct play *y = start(3);

	(void)state;
	play(y, 2 * FM_S);
	forget(y);
	play(y, 4 * FM_S);
	for (unsigned i = 0; i < 3; i++) {
		assert_true(y->p[i].ran >= FM_S);
		assert_true(y->p[i].in > 0);
		assert_int_equal(y->p[i].early, y->p[i].in);
	}
	assert_int_equal(y->stood, 0);
	end(y);
}

static void note_turn(void *arg, const struct fm_bmemory_info *i)
{
	*(uint64_t *)arg = i->turn;
}

/* What people are told of memory that is missing. Once it is to be in within 200 ms, it is. */
static void what_is_foretold_comes(void **state)
{
	struct play *y = start(3);
	uint64_t due[3] = {0}, worst = 0, next;
	struct fm_bridge_out_info i;
	unsigned told = 0;

	play(y, 500 * FM_MS);
	for (unsigned k = 0; k < 2500; k++) {
		step(y);
		for (unsigned n = 0; n < y->n; n++) {
			fm_bridge_group_out_info(group_of(&y->p[n].c, 0), y->w.now, &i);
			assert_int_equal(i.movable, SET);
			assert_int_equal(i.missing, SET - get(&row(&y->p[n])->resident));
			if (!i.missing && due[n]) {
				worst = FM_MAX(worst,
					y->w.now > due[n] ? y->w.now - due[n] : due[n] - y->w.now);
				told++;
			}
			due[n] = i.missing && due[n] ? due[n] : 0;
			if (!i.missing || i.in > 200 * FM_MS || due[n])
				continue;
			due[n] = y->w.now + i.in;
			assert_int_equal(i.together, 3);
			assert_int_equal(i.over, 3 * SET - capacity);
			fm_bridge_group_each_memory(group_of(&y->p[n].c, 0), note_turn, &next);
			assert_in_range(next, y->w.now - 300 * FM_MS, y->w.now + 900 * FM_MS);
		}
	}
	assert_true(told > 3);
	assert_in_range(worst, 0, 150 * FM_MS);
	fm_bridge_detach(y->w.b, y->p[1].c.c, y->w.now); /* the plan knows of it no more */
	fm_bridge_group_out_info(group_of(&y->p[0].c, 0), y->w.now, &i);
	y->p[1].dead = true;
	end(y);
}

/* With less in common only that moves: of 18 GiB on 16 two in each turn. */
static void no_more_moves_than_is_needed(void **state)
{
	static const struct fm_bridge_memory whole = {.keep_percent = 100};
	struct fm_bridge_memory m = whole;
	struct play *y = start_with(3, 48 * CHUNK, "slice=300", NULL);
	uint64_t each;

	(void)state;
	play(y, 2 * FM_S);
	forget(y);
	play(y, 6 * FM_S);
	each = sum_in(y) / (sum_ran(y) / (300 * FM_MS));
	assert_in_range(each, 14 * CHUNK, 20 * CHUNK);
	assert_int_equal(y->stood, 0);
	end(y);
	m.policy = fm_mem_policy_find("whole");
	y = start_with(3, 48 * CHUNK, "slice=300", &m);
	play(y, 2 * FM_S);
	forget(y);
	play(y, 6 * FM_S);
	assert_in_range(sum_in(y) / (sum_ran(y) / (300 * FM_MS)), 40 * CHUNK, 56 * CHUNK);
	assert_true(y->stood > FM_S);
	end(y);
}

/* Three of 8.5 GiB, of which two do not fit: only what has no room beside the one that runs is
 * waited for. At the switch all of it is. */
static void only_the_residue_is_waited_for(void **state)
{
	struct fm_bridge_memory m = {.turns = true};
	uint64_t ran[2];

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct play *y;

		m.policy = fm_mem_policy_find(i ? "whole" : "jit");
		y = start_with(3, 68 * CHUNK, "slice=272", &m);
		play(y, 2 * FM_S);
		forget(y);
		play(y, 6 * FM_S);
		ran[i] = sum_ran(y);
		end(y);
	}
	assert_true(ran[0] >= 6 * FM_S * 85 / 100);
	assert_true(ran[0] >= ran[1] * 13 / 10);
}

/* Nothing comes in while something is to go out, and all have their turns. */
static void one_way_at_a_time(void **state)
{
	struct fm_bridge_memory m = {.turns = true};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct play *y;

		m.one_way = i;
		y = start_with(4, 64 * CHUNK, "slice=170", &m);
		play(y, 2 * FM_S);
		forget(y);
		play(y, 6 * FM_S);
		assert_int_equal(y->both != 0, !i);
		for (unsigned k = 0; k < 4; k++)
			assert_true(y->p[k].ran >= FM_S / 2);
		end(y);
	}
}

/* Six that never have enough time. All of a program's memory takes 202 ms; where room is not made
 * before the link needs it, some of it stays. And nothing comes in before what is waited for. */
static void the_link_is_never_idle(void **state)
{
	(void)state;
	for (unsigned faster = 1; faster <= 8; faster += 7) {
		struct play *y = start_with(
			6, 63 * CHUNK, "slice=102", &(struct fm_bridge_memory){.turns = true});

		y->faster = faster;
		play(y, 2 * FM_S);
		forget(y);
		play(y, 3 * FM_S);
		assert_true(sum_in(y) >= 3 * FM_S / STEP * y->rate * 97 / 100);
		assert_true(sum_ran(y) >= 3 * FM_S * 53 / 100);
		end(y);
	}
}

/* Turns that are far too short for their memory: what has come in stays for as long. */
static void short_turns_do_not_throw_all_out(void **state)
{
	struct play *y = start_with(4, 64 * CHUNK, "slice=5",
		&(struct fm_bridge_memory){.keep_percent = 100, .turns = true});

	(void)state;
	play(y, 2 * FM_S);
	forget(y);
	play(y, 5 * FM_S);
	assert_true(sum_ran(y) >= 15 * FM_S / 8);
	for (unsigned i = 0; i < 4; i++)
		assert_true(y->p[i].ran >= 180 * FM_MS);
	end(y);
}

/* Where the policy lets all of them run they take turns with their memory. */
static void those_that_run_at_once_give_way(void **state)
{
	struct play *y = start(3);

	(void)state;
	assert_int_equal(
		fm_sched_policy(fm_bridge_sched(y->w.b), "fifo", NULL, 0, y->w.now, NULL), 0);
	play(y, 3 * FM_S);
	forget(y);
	play(y, 9 * FM_S);
	for (unsigned i = 0; i < 3; i++)
		assert_true(y->p[i].ran >= 3 * FM_S);
	end(y);
}

/* One that never comes to rest keeps its memory, and the others have the rest. */
static void one_that_never_rests(void **state)
{
	struct play *y = start(3);

	(void)state;
	play(y, 100 * FM_MS);
	y->p[0].stuck = true;
	play(y, 3 * FM_S);
	forget(y);
	play(y, 10 * FM_S);
	assert_true(y->p[1].ran >= FM_S);
	assert_true(y->p[2].ran >= FM_S);
	end(y);
}

/* A ledger of another user that says anything. The others go on. */
static void a_ledger_that_lies(void **state)
{
	struct play *y = start(3);
	struct fm_ledger_device *lies;
	uint64_t seed = 7;

	(void)state;
	play(y, FM_S);
	add(y, 3, SET, 0);
	y->p[3].dead = true; /* it moves nothing */
	lies = row(&y->p[3]);
	forget(y);
	for (unsigned i = 0; i < 4000; i++) {
		_Atomic uint64_t *word[] = {&lies->claimed, &lies->kind[FM_MEM_MOVABLE],
			&lies->kind[FM_MEM_PLAIN], &lies->resident, &lies->host, &lies->went_out,
			&lies->came_in, &lies->lacks, &lies->grain, &lies->reached};

		atomic_store(word[draw(&seed) % FM_ARRAY_LEN(word)], draw(&seed));
		atomic_store(&lies->trouble, (uint32_t)(draw(&seed) % 12));
		atomic_store(&lies->misses, (uint32_t)(draw(&seed) % 2));
		if (draw(&seed) % 16 == 0)
			atomic_fetch_add(&lies->lacking, 1);
		tell(&y->w, &y->p[3].c, (union fm_msg){0}, FM_MSG_MEMORY_BELL);
		step(y);
	}
	for (unsigned i = 0; i < 3; i++)
		assert_true(y->p[i].ran >= 200 * FM_MS);
	end(y);
}

static struct bdevice *device_at(struct play *y, const char *key)
{
	struct bdevice *d;

	fm_list_each (d, &y->w.b->devices, link)
		if (!strcmp(d->key, key))
			return d;
	return NULL;
}

static void ends_unheard(struct program *p)
{
	p->idle = true;
	atomic_store(&p->c.board->slot[0].done, atomic_load(&p->c.board->slot[0].begun));
}

static void pauses(struct play *y, unsigned i)
{
	ends_unheard(&y->p[i]);
	ring(&y->w, &y->p[i].c);
}

/* One that has nothing to do gives its memory first, and one that comes late has its turn. */
static void one_that_is_idle_goes_first(void **state)
{
	struct play *y = start(2);

	(void)state;
	pauses(y, 0);
	play(y, FM_S);
	add(y, 2, SET, 0);
	atomic_store(&row(&y->p[2])->host, SET);
	play(y, 2 * FM_S);
	forget(y);
	play(y, 2 * FM_S);
	assert_int_equal(get(&row(&y->p[0])->resident), 0);
	assert_int_equal(y->stood, 0);
	assert_int_equal(sum_in(y), 0);
	assert_true(y->p[2].ran >= 900 * FM_MS);
	end(y);
}

/* The device was full, though by the ledgers it was not: all went for the one that came in. That it
 * is there then shows that there is room for it, and it stays where nobody needs the room. */
static void what_came_in_beside_the_unseen(void **state)
{
	struct play *y = start(1);
	struct program *p = &y->p[1];

	(void)state;
	pauses(y, 0);
	add(y, 1, SET, 0);
	p->dead = true;
	atomic_store(&row(p)->grain, SET);
	atomic_store(&row(p)->trouble, FM_MEM_DEVICE_FULL);
	play(y, FM_S);
	assert_int_equal(get(&row(&y->p[0])->resident), 0);
	p->dead = false;
	play(y, FM_S);
	assert_int_equal(get(&row(p)->resident), SET);
	pauses(y, 1);
	play(y, FM_S);
	tell(&y->w, &p->c, (union fm_msg){0}, FM_MSG_MEMORY_BELL);
	play(y, FM_S);
	assert_int_equal(get(&row(p)->resident), SET);
	end(y);
}

/* The driver has less than the ledgers say: a program that Fermata does not know has the rest. */
static void set_driver(struct play *y, uint64_t has)
{
	assert_true(full(y) <= has);
	capacity = has;
}

/* By fixed priorities p1 comes first; its memory is out, and p0 has all the driver has but `left',
 * and runs. */
static struct play *start_beside_the_unseen(uint64_t left, uint64_t set)
{
	struct play *y = start(0);
	struct program *p = y->p;

	assert_int_equal(
		fm_sched_policy(fm_bridge_sched(y->w.b), "fixed-priority", NULL, 0, y->w.now, NULL),
		0);
	add(y, 0, SET, SET);
	assert_int_equal(give_hint(&y->w, &p[0].c, FM_HINT_PRIORITY, FM_PRIORITY_LOW), 0);
	play(y, 100 * FM_MS);
	add(y, 1, set, 0);
	atomic_store(&row(&p[1])->host, set);
	assert_int_equal(give_hint(&y->w, &p[1].c, FM_HINT_PRIORITY, FM_PRIORITY_HIGH), 0);
	set_driver(y, SET + left);
	return y;
}

static void end_beside_the_unseen(struct play *y)
{
	capacity = 16384 * MIB;
	end(y);
}

/* Though by the ledgers there is room, the one that runs goes out for the one that comes first, by
 * what that lacks; and comes in again when that has ended. */
static void one_that_runs_beside_the_unseen(void **state)
{
	struct play *y = start_beside_the_unseen(2 * CHUNK, 8 * CHUNK);
	struct program *p = y->p;

	(void)state;
	play(y, FM_S);
	assert_int_equal(get(&row(&p[1])->resident), 8 * CHUNK);
	assert_in_range(p[0].out, 6 * CHUNK, 12 * CHUNK);
	forget(y);
	play(y, 25 * FM_S); /* what is unseen is looked for again */
	assert_int_equal(p[1].ran, 25 * FM_S);
	assert_int_equal(p[1].in + p[1].out, 0);
	pauses(y, 1);
	play(y, 2 * FM_S);
	forget(y);
	play(y, FM_S);
	assert_int_equal(get(&row(&p[0])->resident), SET);
	assert_true(p[0].ran >= 900 * FM_MS);
	end_beside_the_unseen(y);
}

/* It comes, goes and grows while they work: both go on, for the one gives way while it waits. */
static void the_unseen_comes_and_goes(void **state)
{
	struct play *y = start_beside_the_unseen(2 * CHUNK, 8 * CHUNK);
	uint64_t seed = 5;

	(void)state;
	for (unsigned i = 0; i < 60; i++) {
		uint64_t has = SET + (draw(&seed) % 32) * CHUNK;

		set_driver(y, FM_MAX(has, full(y)));
		forget(y);
		play(y, 2 * FM_S);
		assert_true(y->p[!y->p[1].idle].ran >= FM_S);
		if (i % 4 == 3)
			pauses(y, 1);
		if (i % 4 == 1) {
			y->p[1].idle = false;
			begin(&y->p[1].c, 0, 1);
			ring(&y->w, &y->p[1].c);
		}
	}
	end_beside_the_unseen(y);
}

/* An urgent one that works each 200 ms: what was learnt of the unseen is not forgotten in between.
 */
static void one_that_pauses_beside_the_unseen(void **state)
{
	struct play *y = start_beside_the_unseen(2 * CHUNK, 8 * CHUNK);

	(void)state;
	play(y, 2 * FM_S);
	for (unsigned i = 0; i < 150; i++) {
		pauses(y, 1);
		play(y, 180 * FM_MS);
		y->p[1].idle = false;
		begin(&y->p[1].c, 0, 1);
		ring(&y->w, &y->p[1].c);
		forget(y);
		play(y, 100 * FM_MS);
		assert_true(y->p[1].ran >= 20 * FM_MS);
	}
	end_beside_the_unseen(y);
}

/* There is room for half a chunk beside the one that runs. Nothing comes in there, so that one
 * makes room. */
static void one_of_which_no_chunk_fits(void **state)
{
	struct play *y;
	struct program *p;

	(void)state;
	capacity = SET + CHUNK / 2;
	y = start_beside_the_unseen(CHUNK / 2, 8 * CHUNK);
	p = y->p;
	/* Its largest chunk is larger than others, and so one extent of it is smaller. */
	atomic_store(&row(&p[1])->grain, 5 * CHUNK / 4);
	play(y, 2 * FM_S);
	assert_true(p[0].out);
	assert_true(p[1].ran >= FM_S);
	end_beside_the_unseen(y);
}

/* Where nobody can go for it, it is told to come in as far as there is room: its program runs from
 * the host then, if that is all there is. */
static void none_goes_for_the_unseen(void **state)
{
	struct play *y = start_beside_the_unseen(2 * CHUNK, 8 * CHUNK);
	struct program *p = y->p;

	(void)state;
	assert_int_equal(give_hint(&y->w, &p[0].c, FM_HINT_MEMORY_PIN, 1), 0);
	play(y, FM_S);
	assert_int_equal(get(&row(&p[1])->resident), 2 * CHUNK);
	assert_int_equal(atomic_load(&row(&p[1])->wish), FM_MEM_IN);
	assert_int_equal(p[0].out, 0);
	forget(y);
	play(y, FM_S);
	assert_int_equal(p[0].ran, FM_S);
	end_beside_the_unseen(y);
}

/* Nobody is told that the work of a program has ended while it was held: the other has its turns.
 */
static void one_whose_work_ends_while_it_is_held(void **state)
{
	const struct fm_bridge_memory settings = {.policy = fm_mem_policy_find("whole")};
	struct play *y = start_with(2, SET, "slice=300", &settings);
	struct program *p;

	(void)state;
	add(y, 2, SET, 0);
	play(y, STEP);
	ends_unheard(&y->p[2]);
	group_of(&y->p[2].c, 0)->demand.needs = 0;
	play(y, 100 * FM_MS);
	p = &y->p[!open_gate(&y->p[0].c, 0)];
	assert_true(open_gate(&p->c, 0));
	demand_stop(y->w.b, group_of(&p->c, 0), true, y->w.now);
	group_of(&p->c, 0)->demand.stopped_by = device_at(y, DEVICE);
	ends_unheard(p);
	forget(y);
	play(y, 4 * FM_S);
	assert_true(y->p[p == y->p].ran >= FM_S);
	end(y);
}

/* A program frees all of its memory while it is held: nothing is to come in, or to be waited for.
 */
static void one_that_frees_all_goes_on(void **state)
{
	(void)state;
	for (unsigned stopped = 0; stopped < 2; stopped++) {
		struct play *y = start(3);
		struct program *p = NULL;

		while (!p) {
			play(y, 5 * FM_MS);
			for (unsigned i = 0; i < 3 && !p; i++) {
				const struct demand *d = &group_of(&y->p[i].c, 0)->demand;

				if (stopped ? d->place == PLACE_HERE && !open_gate(&y->p[i].c, 0)
					    : d->place == PLACE_OUT)
					p = &y->p[i];
			}
		}
		if (stopped)
			demand_stop(y->w.b, group_of(&p->c, 0), true, y->w.now);
		atomic_store(&row(p)->claimed, 0);
		atomic_store(&row(p)->kind[FM_MEM_MOVABLE], 0);
		set_resident(p, 0);
		assert_int_equal(tell(&y->w, &p->c, (union fm_msg){0}, FM_MSG_MEMORY_BELL), 0);
		forget(y);
		play(y, 4 * FM_S);
		for (unsigned i = 0; i < 3; i++)
			assert_true(y->p[i].ran >= FM_S);
		end(y);
	}
}

/* It says that the device has a thousand times as much, or that it has all of it itself. */
static void one_that_boasts(void **state)
{
	(void)state;
	for (unsigned claims = 0; claims < 2; claims++) {
		struct play *y = start(3);
		uint64_t is = capacity;

		play(y, FM_S);
		if (!claims)
			capacity *= 1000;
		add(y, 3, claims ? is : CHUNK, claims ? is : 0);
		capacity = is;
		y->p[3].dead = true;
		finish(&y->w, &y->p[3].c, 0);
		ring(&y->w, &y->p[3].c);
		play(y, 2 * FM_S);
		forget(y);
		play(y, 5 * FM_S);
		for (unsigned i = 0; i < 3; i++)
			assert_true(y->p[i].ran >= 800 * FM_MS);
		end(y);
	}
}

/* One that is at rest, and whose memory goes out by a byte a second: the longer it does so, the
 * less often it is asked. */
static void one_that_dawdles(void **state)
{
	struct play *y = start(3);
	struct program *p = &y->p[0];
	const struct demand *d;
	uint64_t going = 0, most = 0, at = 0;
	unsigned late = 0;

	(void)state;
	play(y, FM_S);
	p->dead = true;
	finish(&y->w, &p->c, 0);
	atomic_store(&p->c.board->rest, FM_REST_MOVING);
	ring(&y->w, &p->c);
	d = &group_of(&p->c, 0)->demand;
	group_of(&p->c, 0)->demand.late = 1;
	for (unsigned i = 0; i < 150000; i += 10) {
		if (i % 1000 == 0)
			set_resident(p, get(&row(p)->resident) - 1);
		play(y, 10 * FM_MS);
		if (d->place != PLACE_GOING)
			at = 0;
		else if (!at)
			at = d->at;
		going += at ? 10 * FM_MS : 0;
		late = FM_MAX(late, d->late);
		most = at ? FM_MAX(most, y->w.now - at) : most;
	}
	assert_in_range(going, FM_S, 60 * FM_S);
	assert_true(most <= 11 * FM_S);
	assert_int_equal(late, 3);
	for (unsigned i = 1; i < 3; i++)
		assert_true(y->p[i].ran >= 15 * FM_S);
	end(y);
}

/* Each bell may change the plan, but plans have their time. */
static void one_that_rings_on_and_on(void **state)
{
	struct play *y = start(3);
	const struct planner *p;
	uint64_t owed;

	(void)state;
	play(y, FM_S);
	p = fm_list_first(&y->w.b->devices, struct bdevice, link)->planner;
	owed = p->owes;
	atomic_store(&row(&y->p[2])->grain, 1);
	for (unsigned i = 0; i < 8000; i++) {
		assert_int_equal(tell(&y->w, &y->p[2].c, (union fm_msg){0}, FM_MSG_MEMORY_BELL), 0);
		fm_bridge_run(y->w.b, y->w.now);
		y->w.now += FM_US;
		assert_true(p->owes <= y->w.now + 5 * FM_MS);
	}
	assert_true(p->owes > owed);
	forget(y);
	play(y, 3 * FM_S);
	for (unsigned i = 0; i < 3; i++)
		assert_true(y->p[i].ran >= 500 * FM_MS);
	end(y);
}

/* Each bell makes the daemon look at all groups: those of one user as often as it can afford. The
 * bells of others are heard at once. */
static void a_user_that_rings_on_and_on(void **state)
{
	struct play *y = start(3);
	struct fm_bridge *b = y->w.b;
	uint64_t looks, each;

	(void)state;
	play(y, FM_S);
	add_of(y, BOB, 3, CHUNK, 0);
	each = b->demand_costs;
	looks = b->demand_looks;
	for (unsigned i = 0; i < 100000; i++) {
		assert_int_equal(tell(&y->w, &y->p[3].c, (union fm_msg){0}, FM_MSG_MEMORY_BELL), 0);
		fm_bridge_run(b, y->w.now);
		y->w.now += FM_US;
	}
	assert_in_range((b->demand_looks - looks) * each, FM_MS, 60 * FM_MS);
	b->demand_at = FM_NEVER;
	assert_int_equal(tell(&y->w, &y->p[3].c, (union fm_msg){0}, FM_MSG_MEMORY_BELL), 0);
	assert_in_range(b->demand_at, y->w.now + 1, y->w.now + FM_MS);
	assert_int_equal(tell(&y->w, &y->p[0].c, (union fm_msg){0}, FM_MSG_MEMORY_BELL), 0);
	assert_int_equal(b->demand_at, 0);
	forget(y);
	play(y, 3 * FM_S);
	for (unsigned i = 0; i < 3; i++)
		assert_true(y->p[i].ran >= 500 * FM_MS);
	end(y);
}

/* One of the group's processes has another device, whose plan sees all of its memory there. */
static void one_on_two_devices(void **state)
{
	struct play *y = start_with(3, 68 * CHUNK, "slice=272",
		&(struct fm_bridge_memory){.turns = true, .keep_percent = 100});

	(void)state;
	device = "sim:1";
	add(y, 3, CHUNK, CHUNK);
	device = DEVICE;
	assert_int_equal(name_group(&y->w, &y->p[0].c, 0, "both"), 0);
	assert_int_equal(name_group(&y->w, &y->p[3].c, 0, "both"), 0);
	play(y, FM_S);
	forget(y);
	play(y, 6 * FM_S);
	for (unsigned i = 0; i < 3; i++)
		assert_true(y->p[i].ran >= 1100 * FM_MS);
	end(y);
}

/* It moves, but a few pages at a time: it does not have the link for longer than that is worth, and
 * less and less often. */
static void one_that_trickles(void **state)
{
	struct play *y = start(3);

	(void)state;
	play(y, FM_S);
	y->p[0].trickles = true;
	play(y, 2 * FM_S);
	forget(y);
	play(y, 12 * FM_S);
	assert_true(y->p[1].ran + y->p[2].ran >= 6 * FM_S);
	assert_true(y->p[1].ran >= FM_S && y->p[2].ran >= FM_S);
	/* When it moves again it has its turns. */
	y->p[0].trickles = false;
	set_resident(&y->p[0], get(&row(&y->p[0])->resident) / CHUNK * CHUNK);
	play(y, 9 * FM_S);
	forget(y);
	play(y, 4 * FM_S);
	for (unsigned i = 0; i < 3; i++)
		assert_true(y->p[i].ran >= 500 * FM_MS);
	end(y);
}

/* Behind one bridge what moves on the other takes half of the rate, from the next plan on. */
static void devices_behind_one_bridge(void **state)
{
	struct play *y = start(3);
	struct bdevice *d, *other;
	uint64_t alone;

	(void)state;
	device = "sim:1";
	add(y, 3, CHUNK, CHUNK);
	device = DEVICE;
	play(y, FM_S);
	d = device_at(y, DEVICE);
	other = device_at(y, "sim:1");
	assert_non_null(d->planner);
	assert_non_null(other->planner);
	other->planner->rate = d->planner->rate;
	for (unsigned same = 0; same <= 1; same++) {
		strcpy(d->upstream, "pci0000:00");
		strcpy(other->upstream, same ? "pci0000:00" : "pci0000:40");
		other->tight = other->moves = true;
		d->planner->owes = 0;
		planner_run(y->w.b, d, y->w.now);
		alone = d->planner->rate;
		assert_int_equal(d->planner->others, same);
		assert_true(d->planner->w.link.in == (same ? (alone + alone / 2) / 2 : alone));
	}
	/* What is measured then is the rate beside others, and not its own. */
	play(y, 2 * FM_MS);
	other->tight = other->moves = false;
	d->planner->owes = 0;
	planner_run(y->w.b, d, y->w.now);
	assert_true(d->planner->w.link.in == d->planner->rate);
	end(y);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_next_ones_memory_comes_in_beside),
		cmocka_unit_test(what_is_foretold_comes),
		cmocka_unit_test(no_more_moves_than_is_needed),
		cmocka_unit_test(only_the_residue_is_waited_for),
		cmocka_unit_test(one_way_at_a_time),
		cmocka_unit_test(the_link_is_never_idle),
		cmocka_unit_test(short_turns_do_not_throw_all_out),
		cmocka_unit_test(those_that_run_at_once_give_way),
		cmocka_unit_test(one_that_never_rests),
		cmocka_unit_test(a_ledger_that_lies),
		cmocka_unit_test(one_that_starts_early),
		cmocka_unit_test(one_that_is_idle_goes_first),
		cmocka_unit_test(what_came_in_beside_the_unseen),
		cmocka_unit_test(one_that_runs_beside_the_unseen),
		cmocka_unit_test(the_unseen_comes_and_goes),
		cmocka_unit_test(one_that_pauses_beside_the_unseen),
		cmocka_unit_test(one_of_which_no_chunk_fits),
		cmocka_unit_test(none_goes_for_the_unseen),
		cmocka_unit_test(one_whose_work_ends_while_it_is_held),
		cmocka_unit_test(one_that_frees_all_goes_on),
		cmocka_unit_test(one_that_boasts),
		cmocka_unit_test(one_that_dawdles),
		cmocka_unit_test(one_on_two_devices),
		cmocka_unit_test(devices_behind_one_bridge),
		cmocka_unit_test(one_that_trickles),
		cmocka_unit_test(one_that_rings_on_and_on),
		cmocka_unit_test(a_user_that_rings_on_and_on),
		cmocka_unit_test(what_is_not_in_use_does_not_move),
		cmocka_unit_test(where_all_may_be_in_use_all_moves),
		cmocka_unit_test(only_what_is_in_use_comes_in),
		cmocka_unit_test(what_comes_to_be_in_use_comes_to_the_device),
		cmocka_unit_test(what_cannot_come_home_is_not_waited_for),
		cmocka_unit_test(where_there_is_room_it_comes_in),
		cmocka_unit_test(an_idle_ones_comes_home),
		cmocka_unit_test(a_host_without_room_for_it),
		cmocka_unit_test(claims_of_what_is_in_use),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
