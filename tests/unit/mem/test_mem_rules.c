/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan never does, in worlds at random and in those that are built for it; what may be
 * promised. */
#include "mem_world.h"
#include <errno.h>

static uint64_t rnd_state;

static uint64_t rnd(uint64_t n)
{
	rnd_state = rnd_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return n ? (rnd_state >> 33) % n : 0;
}

static unsigned group_of(const struct small *s, unsigned extent)
{
	unsigned g = 0;

	while (extent >= s->group[g].first + s->group[g].n)
		g++;
	return g;
}

static void random_extents(struct small *s)
{
	for (unsigned i = 0; i < s->w.extents; i++) {
		struct fm_extent *e = &s->extent[i];

		e->bytes = 1 + rnd(4);
		e->next = rnd(4) ? rnd(6) * TICK : rnd(2) ? 0 : FM_NEVER;
		e->last = rnd(10) * TICK;
		e->where = (uint8_t)rnd(FM_WHERES);
		e->pinned = e->where == FM_ON_DEVICE && !rnd(8);
		e->kept = e->where == FM_ON_DEVICE && !rnd(3);
		e->client = (uint32_t)rnd(s->w.clients);
	}
}

static void random_turns(struct small *s)
{
	uint64_t from = s->w.now;

	s->w.turns = (unsigned)rnd(20);
	for (unsigned k = 0; k < s->w.turns; k++) {
		uint64_t until = from + rnd(5) * TICK;

		s->turn[k] = (struct fm_mem_turn){(unsigned)rnd(s->w.groups), from, until};
		from = rnd(4) ? until : from;
	}
}

/* Groups of any size, one behind the other. */
static void random_world(struct small *s, uint64_t seed)
{
	static const char *const policies[] = {"jit", "jit", "opt", "lru", "whole", "none"};
	unsigned first = 0;

	rnd_state = seed;
	small_init(s, policies[rnd(FM_ARRAY_LEN(policies))], 1 + (unsigned)rnd(GROUPS), 0, 0);
	for (unsigned i = 0; i < s->w.groups; i++) {
		struct fm_mem_group *g = &s->group[i];

		g->first = first;
		g->n = (unsigned)rnd(16);
		g->running = !rnd(5);
		g->request = rnd(3) ? 0 : rnd(12);
		first += g->n;
	}
	s->w.extents = first;
	s->w.clients = s->w.groups;
	s->w.capacity = rnd(100);
	s->w.host_left = rnd(2) ? UINT64_MAX : rnd(20);
	s->w.window = rnd(2) ? 0 : 1 + rnd(8);
	s->w.overtime = rnd(2);
	s->w.slack = rnd(3) * TICK;
	s->w.link.flip = rnd(2) * TICK / 10;
	random_extents(s);
	random_turns(s);
}

static uint64_t on_device(const struct small *s, unsigned group)
{
	uint64_t sum = 0;

	for (unsigned i = s->group[group].first; i < s->group[group].first + s->group[group].n; i++)
		if (s->extent[i].where != FM_ON_HOST && s->extent[i].where != FM_EMPTY)
			sum += s->extent[i].bytes;
	return sum;
}

static void check_out(const struct small *s)
{
	uint64_t left[GROUPS], host = s->w.host_left;
	bool gone[GROUPS * EXTENTS] = {0};

	for (unsigned g = 0; g < s->w.groups; g++)
		left[g] = on_device(s, g);
	for (unsigned i = 0; i < s->plan.n_drop; i++) {
		const struct fm_extent *e = &s->extent[s->plan.drop[i]];

		assert_true(e->kept && e->where == FM_ON_DEVICE && !e->pinned);
		assert_false(gone[s->plan.drop[i]]);
		gone[s->plan.drop[i]] = true;
		host = fm_add_sat(host, e->bytes);
	}
	for (unsigned i = 0; i < s->plan.n_out; i++) {
		unsigned id = s->plan.out[i], g = group_of(s, id);
		const struct fm_extent *e = &s->extent[id];

		assert_int_equal(e->where, FM_ON_DEVICE);
		assert_false(e->pinned || gone[id] || s->group[g].running);
		assert_true(s->plan.group[g].held);
		gone[id] = true;
		left[g] -= e->bytes;
		assert_true(left[g] >= s->group[g].request);
		assert_true(e->kept || host >= e->bytes);
		host -= e->kept ? 0 : e->bytes;
	}
}

static void check_in(const struct small *s)
{
	bool came[GROUPS * EXTENTS] = {0};

	for (unsigned i = 0; i < s->plan.n_in; i++) {
		unsigned id = s->plan.in[i], g = group_of(s, id);

		assert_int_equal(s->extent[id].where, FM_ON_HOST);
		assert_false(came[id] || s->group[g].running);
		assert_true(s->plan.group[g].held);
		came[id] = true;
	}
}

/* Whatever the order in which movers do what they may, the device is never over its capacity. */
static void check_grants(const struct small *s)
{
	uint64_t has[GROUPS] = {0}, most = 0, now = 0;

	for (unsigned i = 0; i < s->w.extents; i++)
		if (s->extent[i].where != FM_ON_HOST && s->extent[i].where != FM_EMPTY)
			has[s->extent[i].client] += s->extent[i].bytes;
	for (unsigned c = 0; c < s->w.clients; c++) {
		now += has[c];
		most += FM_MAX(has[c], s->plan.grant[c]);
	}
	assert_true(most <= FM_MAX(s->w.capacity, now));
}

static void check_states(const struct small *s)
{
	for (unsigned g = 0; g < s->w.groups; g++) {
		const struct fm_mem_state *st = &s->plan.group[g];

		if (s->w.policy->victims != FM_VICTIMS_ALL)
			assert_true(st->missing + st->remote <= st->set);
		if (!s->w.policy->moves)
			assert_false(st->held || st->missing);
		else if (!s->group[g].running && st->missing)
			assert_true(st->held);
		if (!st->missing)
			assert_int_equal(st->ready_at, s->w.now);
		else if (s->w.policy->victims != FM_VICTIMS_ALL)
			assert_true(st->ready_at > s->w.now);
	}
}

static void test_random_worlds(void **state)
{
	struct small s, again;
	uint64_t moved = 0, dropped = 0;

	for (uint64_t seed = 1; seed <= 20000; seed++) {
		random_world(&s, seed);
		small_plan(&s);
		check_out(&s);
		check_in(&s);
		check_grants(&s);
		check_states(&s);
		if (!s.w.policy->moves)
			assert_int_equal(s.plan.n_in + s.plan.n_out, 0);
		moved += s.plan.n_in + s.plan.n_out;
		dropped += s.plan.n_drop;
		if (seed % 100 == 0) { /* the same answer, with arrays that were used before */
			unsigned first = s.plan.n_in ? s.plan.in[0] : 0, n = s.plan.n_in;

			random_world(&again, seed + 1);
			again.plan = s.plan;
			small_plan(&again);
			s.plan = again.plan;
			small_plan(&s);
			assert_int_equal(s.plan.n_in, n);
			assert_int_equal(s.plan.n_in ? s.plan.in[0] : 0, first);
		}
		fm_mem_plan_free(&s.plan);
	}
	assert_true(moved > 10000 && dropped > 10);
}

/* Numbers that no device has: an error, or an answer, but no overflow. */
static void test_wild_numbers(void **state)
{
	unsigned refused = 0;
	struct small s;

	for (uint64_t seed = 1; seed <= 20000; seed++) {
		random_world(&s, seed);
		for (unsigned i = 0; i < s.w.extents; i++)
			if (!rnd(6))
				s.extent[i].bytes = UINT64_MAX >> rnd(64);
		for (unsigned i = 0; i < s.w.groups; i++)
			if (!rnd(6))
				s.group[i].request = s.group[i].turn = UINT64_MAX >> rnd(64);
		for (unsigned k = 0; k < s.w.turns; k++)
			if (!rnd(8))
				s.turn[k].until = UINT64_MAX >> rnd(3);
		s.w.capacity = rnd(2) ? s.w.capacity : UINT64_MAX >> rnd(64);
		s.w.now = rnd(3) ? s.w.now : UINT64_MAX - rnd(5);
		s.w.link.in = rnd(9) ? UINT64_MAX >> rnd(64) : 0;
		s.w.link.flip = UINT64_MAX >> rnd(64);
		s.w.slack = UINT64_MAX >> rnd(64);
		if (!rnd(50) && s.w.extents)
			s.extent[0].where = FM_WHERES;
		if (!rnd(50) && s.w.extents)
			s.extent[0].client = GROUPS;
		if (!rnd(50) && s.w.turns)
			s.turn[0].group = GROUPS;
		if (!rnd(50))
			s.group[0].first = 1;
		if (fm_mem_plan(&s.plan, &s.w)) {
			refused++;
		} else {
			check_in(&s);
			check_out(&s);
		}
		fm_mem_plan_free(&s.plan);
	}
	assert_in_range(refused, 1000, 12000);
}

/* Group 0 runs, 1 is next and lacks all, 2 to 4 come later; the device is full. */
static void five(struct small *s, const char *policy)
{
	static const unsigned char seq[] = {0, 1, 2, 3, 4, 0, 1, 2, 3, 4};

	small_init(s, policy, 5, 4, 16);
	s->w.window = 0;
	s->w.slack = FM_S;
	for (unsigned i = 0; i < s->w.extents; i++)
		s->extent[i].where = i / 4 == 1 ? FM_ON_HOST : FM_ON_DEVICE;
	s->group[0].running = true;
	small_turns(s, seq, sizeof(seq), 0, 5, 5);
}

static void assert_ids(const unsigned *id, unsigned n, const unsigned *want, unsigned wanted)
{
	assert_int_equal(n, wanted);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(id[i], want[i]);
}

#define IDS(list, ...)                                                            \
	assert_ids(s.plan.list, s.plan.n_##list, (const unsigned[]){__VA_ARGS__}, \
		sizeof((unsigned[]){__VA_ARGS__}) / sizeof(unsigned))

static void test_victims(void **state)
{
	struct small s;

	/* The latest turn first, of equals the least number; what comes in, by its number, too. */
	five(&s, "jit");
	small_plan(&s);
	IDS(in, 4, 5, 6, 7);
	IDS(out, 16, 17, 18, 19);
	assert_true(s.plan.group[1].held && s.plan.group[4].held && !s.plan.group[0].held);
	assert_int_equal(s.plan.residue, 0);
	assert_int_equal(s.plan.group[1].ready_at, s.w.now + 4 * TICK);
	/* Access order, and the use within the turn. */
	s.extent[6].next = 0;
	s.extent[4].next = 2 * TICK;
	s.extent[17].next = TICK;
	small_plan(&s);
	IDS(in, 5, 6, 7, 4);
	IDS(out, 17, 16, 18, 19);
	/* Cold memory goes before all, kept copies before their equals; pinned memory stays. */
	s.extent[8].next = FM_NEVER;
	s.extent[13].kept = s.extent[19].kept = true;
	s.extent[16].pinned = true;
	small_plan(&s);
	IDS(out, 8, 17, 19, 18);
	/* A request keeps what its group would lose. Empty memory neither comes nor goes. */
	s.group[4].request = 4;
	s.extent[4].where = s.extent[12].where = FM_EMPTY;
	s.w.capacity = 15;
	small_plan(&s);
	IDS(in, 5, 6, 7);
	IDS(out, 8, 13, 14);
	fm_mem_plan_free(&s.plan);
}

static void test_time(void **state)
{
	struct small s;

	/* The latest start: turn 1 is 5 ms away and needs 4. */
	five(&s, "jit");
	s.w.slack = 0;
	small_plan(&s);
	assert_int_equal(s.plan.n_in + s.plan.n_out, 0);
	assert_int_equal(s.plan.next, s.w.now + TICK);
	s.w.slack = TICK;
	small_plan(&s);
	assert_int_equal(s.plan.n_in, 4);
	/* Nothing to copy out: both ways are faster than one. */
	for (unsigned i = 16; i < 20; i++)
		s.extent[i].kept = true;
	s.w.link.both = 1000;
	small_plan(&s);
	assert_int_equal(s.plan.group[1].ready_at, s.w.now + 4 * TICK);
	for (unsigned i = 16; i < 20; i++)
		s.extent[i].kept = false;
	small_plan(&s);
	assert_int_equal(s.plan.group[1].ready_at, s.w.now + 8 * TICK);
	assert_int_equal(s.plan.late, 3 * TICK);
	/* A flip for each. */
	s.w.link.flip = TICK / 4;
	small_plan(&s);
	assert_int_equal(s.plan.late, 4 * TICK);
	fm_mem_plan_free(&s.plan);
}

static void test_residue(void **state)
{
	static const unsigned char seq[] = {0, 1, 0, 1};
	struct small s;

	/* Two groups of 4 in 6: two of the second wait for the first. */
	small_init(&s, "jit", 2, 4, 6);
	s.w.window = 0;
	for (unsigned i = 0; i < 4; i++)
		s.extent[i].where = FM_ON_DEVICE;
	s.group[0].running = true;
	small_turns(&s, seq, 4, 0, 1, 5);
	small_plan(&s);
	IDS(in, 4, 5);
	assert_int_equal(s.plan.n_out, 0);
	assert_int_equal(s.plan.residue, 2);
	assert_int_equal(s.plan.late, 3 * TICK);
	assert_false(s.plan.group[0].held);
	/* Its turn is over: it computes on only if overtime is allowed, and only while that helps.
	 */
	small_turns(&s, seq + 1, 3, 0, 5, 5);
	small_plan(&s);
	assert_true(s.plan.group[0].held);
	s.w.overtime = true;
	small_plan(&s);
	assert_false(s.plan.group[0].held);
	s.extent[4].where = s.extent[5].where = FM_ON_DEVICE;
	small_plan(&s);
	assert_true(s.plan.group[0].held);
	assert_int_equal(s.plan.n_in + s.plan.n_out, 0);
	s.group[0].running = false;
	small_plan(&s);
	IDS(in, 6, 7);
	IDS(out, 0, 1);
	assert_true(s.plan.group[0].held);
	fm_mem_plan_free(&s.plan);
}

/* Its turn has come, and it runs from the host: its memory comes in the place of the other's, and
 * neither waits for that. */
static void test_early(void **state)
{
	static const unsigned char seq[] = {0, 1, 0, 1};
	struct small s;

	(void)state;
	small_init(&s, "jit", 2, 4, 4);
	s.w.window = 2;
	s.w.slack = TICK / 2;
	for (unsigned i = 4; i < 8; i++)
		s.extent[i].where = FM_ON_DEVICE;
	small_turns(&s, seq, 4, 0, 5, 5);
	small_plan(&s);
	assert_true(s.plan.group[0].held);
	assert_false(fm_mem_starts_early(&s.plan, &s.w, 0));
	s.group[0].early = true;
	small_plan(&s);
	assert_true(s.plan.group[0].held); /* that is the caller's to decide */
	assert_true(fm_mem_starts_early(&s.plan, &s.w, 0));
	assert_false(fm_mem_starts_early(&s.plan, &s.w, 1));
	s.group[0].running = true;
	small_plan(&s);
	assert_false(s.plan.group[0].held);
	IDS(out, 4, 5);
	IDS(in, 0, 1);
	for (unsigned i = 0; i < 8; i++)
		s.extent[i].where = i < 4 ? FM_ON_DEVICE : FM_ON_HOST;
	small_plan(&s);
	assert_false(fm_mem_starts_early(&s.plan, &s.w, 0));
	/* What will be in in a moment is waited for. */
	s.group[0].running = false;
	s.extent[0].where = FM_COMING;
	s.w.slack = 2 * TICK;
	small_plan(&s);
	assert_int_equal(s.plan.group[0].missing, 1);
	assert_false(fm_mem_starts_early(&s.plan, &s.w, 0));
	/* Nothing is ahead of time under a policy that moves at the switch. */
	s.w.slack = 0;
	s.w.policy = fm_mem_policy_find("opt");
	small_plan(&s);
	assert_false(fm_mem_starts_early(&s.plan, &s.w, 0));
	fm_mem_plan_free(&s.plan);
}

/* Three groups of 6 in 12: the first runs, the second is in, the third has its room from nobody but
 * the first, which has run. */
static void three(struct small *s)
{
	static const unsigned char seq[] = {1, 2, 0, 1, 2, 0};

	small_init(s, "jit", 3, 6, 12);
	for (unsigned i = 0; i < 12; i++)
		s->extent[i].where = FM_ON_DEVICE;
	s->group[1].running = true;
	s->w.window = 3;
	small_turns(s, seq, 6, 0, 20, 20);
}

static void test_window(void **state)
{
	struct small s;

	/* No more room is made than the link takes: what is coming in has its part of the window.
	 */
	three(&s);
	s.w.now = s.turn[1].from - 2 * TICK;
	small_plan(&s);
	IDS(in, 12, 13, 14);
	IDS(out, 0, 1, 2);
	s.extent[0].where = s.extent[1].where = FM_ON_HOST;
	s.extent[12].where = s.extent[13].where = FM_COMING;
	small_plan(&s);
	IDS(in, 14);
	IDS(out, 2);
	s.extent[2].where = FM_ON_HOST;
	s.extent[14].where = FM_COMING;
	small_plan(&s);
	assert_int_equal(s.plan.n_in + s.plan.n_out, 0);
	fm_mem_plan_free(&s.plan);
}

static void test_begun(void **state)
{
	struct small s;

	/* It is early yet; but what has begun to come in does not pause. */
	three(&s);
	small_plan(&s);
	assert_int_equal(s.plan.n_in + s.plan.n_out, 0);
	assert_true(s.plan.next > s.w.now && s.plan.next < s.turn[1].from);
	s.group[2].begun = true;
	small_plan(&s);
	IDS(in, 12, 13, 14);
	fm_mem_plan_free(&s.plan);
}

static void test_waiting_comes_first(void **state)
{
	struct small s;

	/* The last of the second's memory is coming in, and its turn has come: it has the link to
	 * itself. For the third room is made meanwhile. */
	three(&s);
	s.group[1].running = false;
	s.extent[11].where = FM_COMING;
	for (unsigned k = 1; k < s.w.turns; k++)
		s.turn[k].from = s.turn[k].until = s.w.now + k * TICK;
	small_plan(&s);
	assert_int_equal(s.plan.group[1].missing, 1);
	assert_int_equal(s.plan.n_in, 0);
	IDS(out, 0, 1);
	s.extent[11].where = FM_ON_DEVICE;
	small_plan(&s);
	IDS(in, 12, 13, 14);
	fm_mem_plan_free(&s.plan);
}

static void test_too_large(void **state)
{
	static const unsigned char seq[] = {0, 1, 0, 1};
	struct small s;

	/* A set that never fits is not waited for beyond what fits. */
	small_init(&s, "jit", 2, 8, 6);
	s.w.window = 0;
	small_turns(&s, seq, 4, 0, 5, 5);
	small_plan(&s);
	assert_int_equal(s.plan.n_in, 6);
	assert_int_equal(s.plan.group[0].remote, 2);
	assert_int_equal(s.plan.group[0].missing, 6);
	assert_true(small_move(&s));
	small_plan(&s);
	assert_int_equal(s.plan.group[0].missing, 0);
	assert_false(s.plan.group[0].held);
	assert_int_equal(s.plan.group[0].ready_at, s.w.now);
	fm_mem_plan_free(&s.plan);
}

static void test_less_capacity(void **state)
{
	struct small s;

	/* Others have taken some of the device: the latest go out, without a turn that needs it. */
	five(&s, "jit");
	s.w.capacity = 14;
	s.w.slack = 0;
	s.w.overtime = true;
	small_plan(&s);
	IDS(out, 16, 17);
	assert_int_equal(s.plan.n_in, 0);
	fm_mem_plan_free(&s.plan);
}

static void test_host(void **state)
{
	struct small s;

	/* No room on the host: only what has a copy there goes out, and copies make room. */
	five(&s, "jit");
	s.w.host_left = 0;
	small_plan(&s);
	assert_int_equal(s.plan.n_out, 0);
	s.extent[9].kept = s.extent[18].kept = true;
	small_plan(&s);
	IDS(out, 18, 16);
	IDS(drop, 9);
	fm_mem_plan_free(&s.plan);
}

static void test_policies(void **state)
{
	static const unsigned char seq[] = {1, 2, 3, 4, 0};
	struct small s;

	/* At the switch: nothing moves while a group runs, which is to stop. */
	five(&s, "opt");
	small_plan(&s);
	assert_int_equal(s.plan.n_in, 0);
	assert_false(s.plan.group[0].held);
	small_turns(&s, seq, 5, 0, 5, 5);
	small_plan(&s);
	assert_int_equal(s.plan.n_in, 0);
	assert_true(s.plan.group[0].held);
	s.group[0].running = false;
	small_plan(&s);
	IDS(in, 4, 5, 6, 7);
	IDS(out, 0, 1, 2, 3);
	for (unsigned i = 0; i < s.w.extents; i++)
		s.extent[i].last = (10 - i / 4) * TICK;
	s.w.policy = fm_mem_policy_find("lru");
	small_plan(&s);
	IDS(out, 16, 17, 18, 19);
	s.w.policy = fm_mem_policy_find("whole");
	small_plan(&s);
	assert_int_equal(s.plan.n_in, 4);
	assert_int_equal(s.plan.n_out, 16);
	s.w.policy = fm_mem_policy_find("none");
	small_plan(&s);
	assert_int_equal(s.plan.n_in + s.plan.n_out, 0);
	assert_int_equal(s.plan.group[1].remote, 4);
	assert_null(fm_mem_policy_find("best"));
	fm_mem_plan_free(&s.plan);
}

/* Several have their turn at once: none takes from another, and none waits. */
static void test_at_once(void **state)
{
	struct small s;

	for (unsigned i = 0; i < 4; i++) {
		five(&s, fm_mem_policies[i]->name);
		for (unsigned k = 0; k < 5; k++)
			s.turn[k].from = s.turn[0].from;
		s.extent[19].where = FM_ON_HOST;
		small_plan(&s);
		assert_int_equal(s.plan.n_out, 0);
		if (s.w.policy->ahead) { /* there is room for one */
			IDS(in, 4);
			assert_int_equal(s.plan.group[1].remote, 3);
		} else {
			assert_int_equal(s.plan.n_in, 0);
		}
		assert_false(s.plan.group[2].held || s.plan.group[0].held);
		fm_mem_plan_free(&s.plan);
	}
}

static void test_guess(void **state)
{
	struct fm_mem_past past[] = {{7, 50, 10}, {3, 40, 20}, {5, 30, 0}, {4, 30, 5}};
	struct fm_mem_turn turn[6];
	unsigned n = fm_mem_guess(past, 4, 100, FM_NEVER, turn, 6);

	assert_int_equal(n, 6);
	assert_int_equal(turn[0].group, 7);
	assert_int_equal(turn[1].group, 4);
	assert_int_equal(turn[2].group, 5);
	assert_int_equal(turn[3].group, 3);
	assert_int_equal(turn[4].group, 7);
	assert_int_equal(turn[1].from, 110);
	assert_int_equal(turn[2].from, 115);
	assert_int_equal(fm_mem_guess(past, 1, 100, FM_NEVER, turn, 6), 1);
	assert_true(turn[0].until == FM_NEVER);
	assert_int_equal(fm_mem_guess(past, 0, 100, FM_NEVER, turn, 6), 0);
	assert_int_equal(fm_mem_guess(past, 4, 100, 112, turn, 6), 2);
}

static void test_promises(void **state)
{
	struct fm_mem_claim c[] = {{.limit = 10, .request = 4, .committed = 8},
		{.request = 5, .committed = 20}, {.committed = 0}};
	struct fm_mem_budget b = {
		.capacity = 30, .reserve = 2, .host = 10, .claim = c, .claims = 3};
	uint64_t left;

	assert_int_equal(fm_mem_may_commit(&b, 0, 2), FM_MEM_YES);
	assert_int_equal(fm_mem_may_commit(&b, 0, 3), FM_MEM_LIMIT);
	assert_int_equal(fm_mem_may_commit(&b, 1, 10), FM_MEM_YES);
	assert_int_equal(fm_mem_may_commit(&b, 1, 11), FM_MEM_LIMIT); /* of its device */
	assert_int_equal(fm_mem_may_commit(&b, 2, 10), FM_MEM_YES);
	assert_int_equal(fm_mem_may_commit(&b, 2, 11), FM_MEM_FULL);
	assert_int_equal(fm_mem_may_commit(&b, 2, UINT64_MAX), FM_MEM_LIMIT);
	c[2].limit = UINT64_MAX;
	assert_int_equal(fm_mem_may_commit(&b, 2, UINT64_MAX), FM_MEM_FULL);
	assert_int_equal(fm_mem_may_request(&b, 2, 19, &left), 0);
	assert_int_equal(fm_mem_may_request(&b, 2, 20, &left), -ENOSPC);
	assert_int_equal(left, 19);
	assert_int_equal(fm_mem_may_request(&b, 0, 23, &left), 0);
	c[1].request = UINT64_MAX;
	assert_int_equal(fm_mem_may_request(&b, 0, 1, &left), -ENOSPC);
	assert_int_equal(left, 0);
	assert_int_equal(fm_mem_reserve(UINT64_C(80) << 30), (UINT64_C(80) << 30) / 50);
	assert_int_equal(fm_mem_reserve(UINT64_C(16) << 30), UINT64_C(512) << 20);
	assert_int_equal(fm_mem_reserve(UINT64_C(64) << 20), UINT64_C(4) << 20);
	assert_int_equal(fm_mem_ns(1, 0), FM_NEVER);
	assert_int_equal(fm_mem_ns(0, 0), 0);
	assert_int_equal(fm_mem_ns(UINT64_MAX, 1), FM_NEVER);
	assert_int_equal(fm_mem_ns(39, 39), FM_S);
}

static void a_bridge_is_shared(void **state)
{
	const struct fm_mem_link link = {50, 40, 70, 3};
	struct fm_mem_link l;
	uint64_t part[4];

	(void)state;
	fm_mem_divide(60, (uint64_t[]){50, 0, 50}, 3, part);
	assert_true(part[0] == 30 && part[1] == 0 && part[2] == 30);
	/* What one does not want the others have. */
	fm_mem_divide(60, (uint64_t[]){50, 10, 50, 20}, 4, part);
	assert_true(part[0] == 16 && part[1] == 10 && part[2] == 16 && part[3] == 16);
	fm_mem_divide(100, (uint64_t[]){10, 70, 15}, 3, part);
	assert_true(part[0] == 10 && part[1] == 70 && part[2] == 15);
	fm_mem_divide(0, (uint64_t[]){10, 70}, 2, part);
	assert_true(!part[0] && !part[1]);
	for (unsigned i = 0; i < 1000; i++) {
		uint64_t wants[4], rate = rnd(100), sum = 0;

		for (unsigned k = 0; k < 4; k++)
			wants[k] = rnd(60);
		fm_mem_divide(rate, wants, 4, part);
		for (unsigned k = 0; k < 4; k++) {
			assert_true(part[k] <= wants[k]);
			sum += part[k];
		}
		assert_true(sum <= rate);
		assert_true(sum + 4 > FM_MIN(rate, wants[0] + wants[1] + wants[2] + wants[3]));
	}
	l = fm_mem_link_beside(&link, 70, 1);
	assert_true(l.in == 35 && l.out == 35 && l.both == 35 && l.flip == 3);
	l = fm_mem_link_beside(&link, 1000, 3);
	assert_memory_equal(&l, &link, sizeof(l));
	assert_true(fm_mem_link_beside(&link, 1, 7).in == 1);
	/* Of four groups each has to have a third of what is too much when its turn comes. */
	l = (struct fm_mem_link){.in = 50, .out = 60, .both = 80};
	assert_int_equal(fm_mem_handover_ns(12, 4, &l), 100 * FM_MS);
	l.in = 20;
	assert_int_equal(fm_mem_handover_ns(12, 4, &l), 200 * FM_MS);
	assert_int_equal(fm_mem_handover_ns(0, 4, &l) + fm_mem_handover_ns(12, 1, &l), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_bridge_is_shared),
		cmocka_unit_test(test_random_worlds),
		cmocka_unit_test(test_wild_numbers),
		cmocka_unit_test(test_victims),
		cmocka_unit_test(test_time),
		cmocka_unit_test(test_residue),
		cmocka_unit_test(test_early),
		cmocka_unit_test(test_window),
		cmocka_unit_test(test_begun),
		cmocka_unit_test(test_waiting_comes_first),
		cmocka_unit_test(test_too_large),
		cmocka_unit_test(test_less_capacity),
		cmocka_unit_test(test_host),
		cmocka_unit_test(test_policies),
		cmocka_unit_test(test_at_once),
		cmocka_unit_test(test_guess),
		cmocka_unit_test(test_promises),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
