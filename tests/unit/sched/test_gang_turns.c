/* SPDX-License-Identifier: Apache-2.0 */
/* Gangs among gangs, and over time: who stands in, who stands back, and what everybody gets. */
#include "../rounds.h"
#include "gang_model.h"

/* Each is first where the other is not: at once one of them has both. */
static void circle_is_broken_at_once(void **state)
{
	struct program *p[3];
	struct world w;

	world_init(&w, "round-robin", NULL, 3);
	for (unsigned i = 0; i < 3; i++) {
		p[i] = program_on(&w, 1u << i | 1u << (i + 1) % 3);
		set_work(&w, p[i], 1u << i, true);
	}
	for (unsigned i = 0; i < 3; i++)
		start(&w, p[i]);
	assert_int_equal(runs(p[0]) + runs(p[1]) + runs(p[2]), 1);
	for (int i = 0; i < 100; i++) {
		run(&w, 5 * FM_MS);
		assert_int_equal(runs(p[0]) + runs(p[1]) + runs(p[2]), 1);
	}
	fm_sched_free(w.s);
}

/* Of a circle the one who waits longest gets on. A moment between two refusals was no turn. */
static void moments_are_no_turns(void **state)
{
	struct program *g, *h, *u;
	struct world w;

	world_init(&w, "fixed-priority", NULL, 2);
	g = program_on(&w, A | B);
	h = program_on(&w, A | B);
	u = with_priority(&w, A, 10);
	start(&w, u);
	start(&w, g);
	run(&w, STEP);
	start(&w, h);
	run(&w, STEP);
	stop(&w, u);
	assert_true(runs(g));
	run(&w, STEP);
	start(&w, u);
	set_work(&w, g, B, false); /* h is before it there now */
	set_work(&w, g, B, true);
	stop(&w, u);
	assert_true(runs(g) && !h->rank[1].open);
	fm_sched_free(w.s);
}

/* g keeps two devices and waits for the third, which is somebody's for long. */
static void patience_is_short_where_another_gang_waits(void **state)
{
	struct program *g, *h, *u;
	struct world w;

	world_init(&w, "fixed-priority", NULL, 3);
	u = with_priority(&w, C, 10);
	g = with_priority(&w, A | B | C, 1);
	h = program_on(&w, A | B);
	start(&w, u);
	start(&w, g);
	assert_int_equal(fm_sched_next(w.s), FM_NEVER); /* nobody is after what it keeps */
	start(&w, h);
	assert_false(runs(h));
	run(&w, 3 * FM_MS);
	assert_true(runs(h) && runs(u));
	stop(&w, u);
	assert_true(runs(g) && !h->rank[0].open); /* it has lost no right */
	fm_sched_free(w.s);
}

/* B is crowded, and on A are gangs alone: the one that waits for B keeps A from use for moments. */
static void waiting_long_is_not_keeping_long(void **state)
{
	static const char *const policies[] = {"round-robin", "fair", "bandwidth"};
	struct program *g, *h;
	struct world w;

	for (unsigned i = 0; i < FM_ARRAY_LEN(policies); i++) {
		world_init(&w, policies[i], NULL, 3);
		for (unsigned k = 0; k < 10; k++)
			start(&w, program_on(&w, B));
		g = program_on(&w, A | B);
		h = program_on(&w, A | C);
		start(&w, g);
		start(&w, h);
		run(&w, 6 * FM_S);
		assert_share(g->progress, 6 * FM_S, 9, 1);
		assert_share(h->progress, 6 * FM_S, 89, 2);
		fm_sched_free(w.s);
	}
}

/* A gang that is one user's only group has that user's part, whatever crowd the other one has. */
static void a_gang_has_its_users_part(void **state)
{
	static const char *const policies[] = {"fair", "bandwidth"};
	struct program *g;
	struct world w;

	for (unsigned i = 0; i < FM_ARRAY_LEN(policies); i++)
		for (int user = 0; user < 2; user++) {
			uint64_t others[2] = {0};

			world_init(&w, policies[i], NULL, 2);
			fm_sched_fair_by(w.s, user);
			assert_int_equal(
				fm_sched_policy(w.s, policies[i], NULL, 0, w.now, NULL), 0);
			for (unsigned k = 0; k < 18; k++)
				start(&w, program_on(&w, k % 2 ? A : B));
			w.uid = 1;
			g = program_on(&w, A | B);
			start(&w, g);
			run(&w, 10 * FM_S);
			for (unsigned k = 0; k < 18; k++)
				others[k % 2] += w.p[k].progress;
			assert_share(g->progress, 10 * FM_S, user ? 50 : 10, user ? 3 : 2);
			assert_share(others[0], 10 * FM_S, user ? 50 : 90, user ? 4 : 3);
			assert_share(others[1], 10 * FM_S, user ? 50 : 90, user ? 4 : 3);
			fm_sched_free(w.s);
		}
}

/* More gangs in circles than one call looks at: time alone brings it to its end. */
static void too_much_for_one_call_goes_on(void **state)
{
	struct world w;
	unsigned n = 0;

	world_init(&w, "fifo", NULL, 2);
	for (unsigned i = 0; i < PROGRAMS; i++)
		program_on(&w, A);
	for (unsigned i = PROGRAMS; i-- > 0;)
		assert_int_equal(fm_sched_ent_add(w.s, &w.p[i].rank[1].e, w.p[i].g, w.d[1],
					 &w.p[i].rank[1], w.now),
			0);
	for (unsigned i = 0; i < PROGRAMS; i++)
		start(&w, &w.p[i]);
	assert_int_equal(fm_sched_policy(w.s, "round-robin", NULL, 0, w.now, NULL), 0);
	check_whole(&w);
	while (fm_sched_next(w.s) <= w.now + 20 * FM_US) {
		w.now = fm_sched_next(w.s);
		tick(&w);
		check_whole(&w);
		assert_true(n++ < 2 * PROGRAMS);
	}
	assert_true(n > 1);
	for (unsigned i = n = 0; i < PROGRAMS; i++)
		n += runs(&w.p[i]);
	assert_int_equal(n, 1);
	fm_sched_free(w.s);
}

/* While g keeps A and waits for B, those on A take its place by the rules of the policy. */
static void stand_ins_are_the_policys_choice(void **state)
{
	struct program *g, *u, *x, *y;
	struct world w;

	world_init(&w, "fixed-priority", NULL, 2);
	g = with_priority(&w, A | B, 5);
	u = with_priority(&w, B, 10);
	x = program_on(&w, A);
	y = program_on(&w, A);
	for (unsigned i = 0; i < w.n; i++)
		start(&w, &w.p[i]);
	assert_false(g->rank[0].open);
	run(&w, FM_S);
	assert_share(x->progress, FM_S, 50, 1);
	assert_share(y->progress, FM_S, 50, 1);
	hint(&w, y, FM_HINT_PRIORITY, 1);
	assert_true(runs(y) && !runs(x));
	hint(&w, x, FM_HINT_PRIORITY, 2);
	assert_true(runs(x) && !runs(y));
	hint(&w, x, FM_HINT_PRIORITY, 0);
	hint(&w, y, FM_HINT_PRIORITY, 0);
	assert_int_equal(fm_sched_policy(w.s, "fair", NULL, 0, w.now, NULL), 0);
	hint(&w, x, FM_HINT_WEIGHT, 300);
	hint(&w, u, FM_HINT_WEIGHT, 10000);
	x->progress = y->progress = g->progress = 0;
	run(&w, FM_S);
	assert_share(g->progress, FM_S, 1, 1);
	assert_share(x->progress, FM_S, 74, 2);
	assert_share(y->progress, FM_S, 25, 2);
	fm_sched_free(w.s);
}

/* One order over all devices: equals stand in, and nobody else. */
static void stand_ins_keep_the_order_of_all_devices(void **state)
{
	struct program *g, *y, *x, *z;
	struct world w;

	world_init(&w, "heterogeneous-priority", NULL, 2);
	y = with_priority(&w, B, 5);
	g = with_priority(&w, A | B, 5);
	x = with_priority(&w, A, 5);
	z = with_priority(&w, A, 4);
	start(&w, y);
	start(&w, g);
	assert_true(runs(y) && !g->rank[0].open);
	start(&w, z);
	assert_false(runs(z));
	start(&w, x);
	assert_true(runs(x) && runs(y) && !runs(z));
	stop(&w, y);
	assert_true(runs(g) && !runs(x) && !runs(z));
	stop(&w, g);
	assert_true(runs(x));
	stop(&w, x);
	assert_true(runs(z));
	fm_sched_free(w.s);
}

/* Whose gates stay open beside a stand-in: those of who would stand in. */
static void idle_gates_beside_a_stand_in(void **state)
{
	struct program *x, *z, *k;
	struct world w;

	world_init(&w, "fixed-priority", NULL, 3);
	x = program_on(&w, A);
	z = with_priority(&w, A, 1);
	k = with_priority(&w, A | C, 1);
	start(&w, with_priority(&w, B, 10));
	start(&w, with_priority(&w, A | B, 5));
	start(&w, x);
	assert_true(runs(x) && z->rank[0].open && k->rank[0].open);
	set_work(&w, k, C, true);
	assert_false(k->rank[0].open); /* it would be a gang, and so no stand-in */
	set_work(&w, k, A, true);
	assert_true(runs(x) && !k->rank[2].open);
	start(&w, z);
	assert_true(runs(z) && !runs(x));
	fm_sched_free(w.s);
}

/* Who stands in on one device could not on another as well, until it is idle there. */
static void standing_in_is_for_one_device(void **state)
{
	struct program *k;
	struct world w;

	world_init(&w, "fixed-priority", NULL, 3);
	fm_sched_linger(w.s, FM_MS);
	k = program_on(&w, A | C);
	program_on(&w, C);
	start(&w, with_priority(&w, B, 10));
	start(&w, with_priority(&w, A | B, 5));
	set_work(&w, k, A, true);
	assert_true(runs(k) && !k->rank[2].open);
	set_work(&w, k, A, false); /* it lingers there */
	assert_true(k->rank[2].open);
	fm_sched_free(w.s);
}

/* What is left of a turn does not pass while the gang waits, so no timer may wait for that. */
static void held_turn_is_no_alarm(void **state)
{
	struct program *g, *u;
	struct world w;
	uint64_t now;

	world_init(&w, "fixed-priority", NULL, 2);
	g = program_on(&w, A | B);
	u = with_priority(&w, B, 10);
	start(&w, g);
	start(&w, program_on(&w, A));
	run(&w, 5 * FM_MS - STEP);
	assert_true(runs(g));
	start(&w, u);
	assert_false(g->rank[0].open);
	for (int i = 0; i < 10; i++) {
		now = w.now;
		w.now = fm_sched_next(w.s);
		assert_true(w.now - now >= 500 * FM_US);
		tick(&w);
	}
	stop(&w, u);
	assert_true(runs(g)); /* and it takes the rest */
	run(&w, 2 * STEP);
	assert_false(runs(g));
	fm_sched_free(w.s);
}

/* Each is a user's only group, if users are told apart, which makes no difference. */
static void least_of_what_devices_give(bool user)
{
	static const char *const policies[] = {
		"fixed-priority", "round-robin", "fair", "bandwidth", "edf"};
	struct program *g, *x[3], *y;
	struct world w;

	for (unsigned i = 0; i < FM_ARRAY_LEN(policies); i++) {
		world_init(&w, policies[i], NULL, 2);
		fm_sched_fair_by(w.s, user);
		assert_int_equal(fm_sched_policy(w.s, policies[i], NULL, 0, w.now, NULL), 0);
		g = program_on(&w, A | B);
		w.uid++;
		y = program_on(&w, B);
		start(&w, g);
		start(&w, y);
		for (unsigned k = 0; k < 3; k++) {
			w.uid++;
			x[k] = program_on(&w, A);
			start(&w, x[k]);
		}
		run(&w, 4 * FM_S);
		assert_share(g->progress, 4 * FM_S, 25, 1);
		assert_share(y->progress, 4 * FM_S, 75, 1);
		assert_int_equal(w.spun + w.idle[0] + w.idle[1], 0);
		/* What it could not have there it does not claim back here. */
		for (unsigned k = 0; k < 3; k++)
			stop(&w, x[k]);
		g->progress = y->progress = 0;
		run(&w, 100 * FM_MS);
		assert_share(g->progress, 100 * FM_MS, 50, 6);
		assert_share(y->progress, 100 * FM_MS, 50, 6);
		fm_sched_free(w.s);
	}
}

static void each_gets_the_least_of_what_its_devices_give(void **state)
{
	least_of_what_devices_give(false);
	least_of_what_devices_give(true);
}

static void gangs_share_by_weight(void **state)
{
	struct program *g, *h, *x, *y;
	struct world w;

	world_init(&w, "fair", NULL, 2);
	g = program_on(&w, A | B);
	h = program_on(&w, A | B);
	x = program_on(&w, A);
	y = program_on(&w, B);
	hint(&w, h, FM_HINT_WEIGHT, 200);
	set_work(&w, g, A, true);
	set_work(&w, h, B, true);
	for (unsigned i = 0; i < w.n; i++)
		start(&w, &w.p[i]);
	run(&w, 8 * FM_S);
	assert_share(g->progress, 8 * FM_S, 25, 3);
	assert_share(h->progress, 8 * FM_S, 50, 3);
	assert_share(x->progress, 8 * FM_S, 25, 3);
	assert_share(y->progress, 8 * FM_S, 25, 3);
	assert_int_equal(w.spun + w.idle[0] + w.idle[1], 0);
	fm_sched_free(w.s);
}

static uint64_t rnd(uint64_t *r, uint64_t below)
{
	*r ^= *r << 13;
	*r ^= *r >> 7;
	*r ^= *r << 17;
	return *r % below;
}

static void populate(struct world *w, uint64_t *r)
{
	unsigned n = 3 + (unsigned)rnd(r, 8);

	for (unsigned i = 0; i < n; i++)
		program_on(w, 1 + (unsigned)rnd(r, (1u << w->n_devices) - 1));
	for (unsigned d = 0; d < w->n_devices; d++) /* in another order on each device */
		for (unsigned i = 0; i < n; i++)
			if (rnd(r, 2))
				set_work(w, &w->p[(i + d) % n], 1u << d, true);
	for (unsigned i = 0; i < n; i++)
		start(w, &w->p[i]);
}

/* How many programs the most crowded of its devices has. */
static unsigned crowd(const struct world *w, const struct program *p)
{
	unsigned most = 0;

	for (unsigned d = 0; d < w->n_devices; d++) {
		unsigned n = 0;

		for (unsigned i = 0; i < w->n; i++)
			n += w->p[i].rank[d].e != NULL;
		if (p->rank[d].e)
			most = FM_MAX(most, n);
	}
	return most;
}

#ifdef __SANITIZE_ADDRESS__
#define SEEDS rounds(10, 30) /* each takes ten times as long */
#else
#define SEEDS rounds(40, 180)
#endif

/* Whatever groups share whatever devices: nobody is torn (run() looks at each step), nobody
 * starves, and nobody is kept much below an equal share of the most crowded of his devices. */
static void nobody_starves_whoever_shares_what(void **state)
{
	/* Of those that serve one at a time, whoever has a turn to come. */
	static const char *const policies[] = {"fixed-priority", "round-robin", "fair", "bandwidth",
		"edf", "mlfq", "foreground", "least-laxity", "heterogeneous-priority"};

	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		uint64_t r = seed * UINT64_C(0x9e3779b97f4a7c15);
		struct world w;

		world_init(&w, policies[seed % FM_ARRAY_LEN(policies)], NULL,
			2 + (unsigned)rnd(&r, DEVICES - 1));
		populate(&w, &r);
		run(&w, FM_S); /* patience is learnt */
		for (unsigned i = 0; i < w.n; i++) {
			w.p[i].progress = w.p[i].gap = 0;
			w.p[i].ran = w.now;
		}
		run(&w, 4 * FM_S);
		assert_int_equal(w.spun, 0);
		for (unsigned i = 0; i < w.n; i++) {
			struct program *p = &w.p[i];
			double equal = 100.0 / crowd(&w, p);

			assert_share(p->progress, 4 * FM_S, 50 + equal / 5, 50);
			assert_true(w.now - p->ran < 2 * FM_S && p->gap < 2 * FM_S);
		}
		fm_sched_free(w.s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(circle_is_broken_at_once),
		cmocka_unit_test(moments_are_no_turns),
		cmocka_unit_test(patience_is_short_where_another_gang_waits),
		cmocka_unit_test(waiting_long_is_not_keeping_long),
		cmocka_unit_test(a_gang_has_its_users_part),
		cmocka_unit_test(too_much_for_one_call_goes_on),
		cmocka_unit_test(stand_ins_are_the_policys_choice),
		cmocka_unit_test(stand_ins_keep_the_order_of_all_devices),
		cmocka_unit_test(idle_gates_beside_a_stand_in),
		cmocka_unit_test(standing_in_is_for_one_device),
		cmocka_unit_test(held_turn_is_no_alarm),
		cmocka_unit_test(each_gets_the_least_of_what_its_devices_give),
		cmocka_unit_test(gangs_share_by_weight),
		cmocka_unit_test(nobody_starves_whoever_shares_what),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
