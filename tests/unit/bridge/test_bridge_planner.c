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
#define SET      (64 * CHUNK)       /* two fit */
#define PROGRAMS 8
#define STEP     FM_MS

struct program {
	struct client c;
	struct fm_ledger *l;
	uint64_t begins; /* bytes that its mover may move in this step */
	uint64_t ran, early, out, in;
	bool stuck; /* it never comes to rest */
	bool dead, idle;
};

struct play {
	struct world w;
	struct program p[PROGRAMS];
	unsigned n;
	uint64_t rate; /* bytes in a step, each way */
	uint64_t stood, most;
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
	atomic_store(&row(p)->host, get(&row(p)->kind[FM_MEM_MOVABLE]) - bytes);
}

static void add(struct play *y, unsigned i, uint64_t bytes, uint64_t resident)
{
	struct program *p = &y->p[i];
	char name[16];

	snprintf(name, sizeof(name), "p%u", i);
	assert_int_equal(attach(&y->w, &p->c, ALICE, (pid_t)(100 + i), name), 0);
	assert_int_equal(add_queue_on(&y->w, &p->c, 0, 0, device), 0);
	assert_int_equal(fm_ledger_create(&p->l, NULL), 0);
	p->l->managed = true;
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

static struct play *start_with(
	unsigned n, uint64_t set, const char *slice, const struct fm_bridge_memory *settings)
{
	static const struct fm_bridge_host host = {.wake = on_wake, .hint = on_hint};
	struct play *y = calloc(1, sizeof(*y));
	uint64_t left = capacity;

	y->w.now = T0;
	y->rate = 40 * MIB; /* 40 GB/s */
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
	bool open = open_gate(&p->c, 0), here = get(&row(p)->resident) == get(&row(p)->kind[0]);

	if (open)
		atomic_store(&s->released, atomic_load(&s->begun));
	if (open || p->stuck || p->idle)
		return open && here && !p->idle;
	if (atomic_load(&s->done) != atomic_load(&s->released))
		atomic_store(&s->done, atomic_load(&s->released));
	atomic_store(&s->begun, atomic_load(&s->released) + 1);
	return false;
}

static bool chunk(struct play *y, struct program *p, bool others_run)
{
	uint64_t here = get(&row(p)->resident), most = get(&row(p)->kind[FM_MEM_MOVABLE]);
	uint64_t share = FM_MIN(get(&row(p)->share), most);
	bool out = atomic_load(&row(p)->wish) == FM_MEM_OUT;

	if (!out)
		share = most;
	if (here > share) {
		set_resident(p, here - CHUNK);
		atomic_fetch_add(&row(p)->went_out, CHUNK);
		p->out += CHUNK;
	} else if (here + CHUNK <= share) {
		bool no = full(y) + CHUNK > capacity;

		atomic_store(&row(p)->trouble, no ? FM_MEM_DEVICE_FULL : FM_MEM_FINE);
		if (no)
			return false;
		set_resident(p, here + CHUNK);
		atomic_fetch_add(&row(p)->came_in, CHUNK);
		p->in += CHUNK;
		p->early += others_run ? CHUNK : 0;
	} else {
		atomic_store(&row(p)->reached, out ? get(&row(p)->share) : UINT64_MAX);
		return false;
	}
	assert_int_equal(tell(&y->w, &p->c, (union fm_msg){0}, FM_MSG_MEMORY_BELL), 0);
	return true;
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
	for (unsigned i = 0; i < y->n; i++) {
		struct program *p = &y->p[i];

		if (p->dead || p->stuck || open_gate(&p->c, 0))
			continue;
		p->begins = FM_MIN(p->begins + y->rate, CHUNK + y->rate);
		while (p->begins >= CHUNK && chunk(y, p, running))
			p->begins -= CHUNK;
	}
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
	y->stood = 0;
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

/* Turns that are far too short for their memory: what has come in stays for as long. */
static void short_turns_do_not_throw_all_out(void **state)
{
	struct play *y = start_with(4, 64 * CHUNK, "slice=5",
		&(struct fm_bridge_memory){.keep_percent = 100, .turns = true});

	(void)state;
	play(y, 2 * FM_S);
	forget(y);
	play(y, 8 * FM_S);
	assert_true(sum_ran(y) >= 3 * FM_S);
	for (unsigned i = 0; i < 4; i++)
		assert_true(y->p[i].ran >= 300 * FM_MS);
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
	play(y, 20 * FM_S);
	assert_true(y->p[1].ran >= 2 * FM_S);
	assert_true(y->p[2].ran >= 2 * FM_S);
	end(y);
}

static uint64_t draw(uint64_t *seed)
{
	static const uint64_t few[] = {0, 1, CHUNK, SET, UINT64_C(1) << 40, UINT64_MAX};

	*seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return *seed >> 62 ? few[(*seed >> 33) % FM_ARRAY_LEN(few)] : *seed >> 20;
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
	for (unsigned i = 0; i < 8000; i++) {
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
		assert_true(y->p[i].ran >= 400 * FM_MS);
	end(y);
}

/* One that has nothing to do gives its memory first, and one that comes late has its turn. */
static void one_that_is_idle_goes_first(void **state)
{
	struct play *y = start(2);

	(void)state;
	y->p[0].idle = true;
	atomic_store(&y->p[0].c.board->slot[0].done, atomic_load(&y->p[0].c.board->slot[0].begun));
	ring(&y->w, &y->p[0].c);
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
		play(y, 12 * FM_S);
		for (unsigned i = 0; i < 3; i++)
			assert_true(y->p[i].ran >= 2 * FM_S);
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

	(void)state;
	play(y, FM_S);
	p->dead = true;
	finish(&y->w, &p->c, 0);
	atomic_store(&p->c.board->rest, FM_REST_MOVING);
	ring(&y->w, &p->c);
	d = &group_of(&p->c, 0)->demand;
	for (unsigned i = 0; i < 300000; i += 10) {
		if (i % 1000 == 0)
			set_resident(p, get(&row(p)->resident) - 1);
		play(y, 10 * FM_MS);
		if (d->place != PLACE_GOING)
			at = 0;
		else if (!at)
			at = d->at;
		going += at ? 10 * FM_MS : 0;
		most = at ? FM_MAX(most, y->w.now - at) : most;
	}
	assert_in_range(going, FM_S, 60 * FM_S);
	assert_true(most <= 11 * FM_S);
	assert_int_equal(d->late, 3);
	for (unsigned i = 1; i < 3; i++)
		assert_true(y->p[i].ran >= 30 * FM_S);
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
	for (unsigned i = 0; i < 20000; i++) {
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
		assert_true(y->p[i].ran >= 800 * FM_MS);
	end(y);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_next_ones_memory_comes_in_beside),
		cmocka_unit_test(no_more_moves_than_is_needed),
		cmocka_unit_test(only_the_residue_is_waited_for),
		cmocka_unit_test(short_turns_do_not_throw_all_out),
		cmocka_unit_test(those_that_run_at_once_give_way),
		cmocka_unit_test(one_that_never_rests),
		cmocka_unit_test(a_ledger_that_lies),
		cmocka_unit_test(one_that_is_idle_goes_first),
		cmocka_unit_test(one_that_frees_all_goes_on),
		cmocka_unit_test(one_that_boasts),
		cmocka_unit_test(one_that_dawdles),
		cmocka_unit_test(one_on_two_devices),
		cmocka_unit_test(one_that_rings_on_and_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
