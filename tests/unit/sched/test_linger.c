/* SPDX-License-Identifier: Apache-2.0 */
/* How long one that pauses keeps the device while another wants it. */
#include "base/util.h"
#include "sched_fix.h"

#define SWITCH   (160 * FM_US) /* as the core takes it */
#define SEGMENT  (500 * FM_US)
#define BUSY     (1300 * FM_US)
#define HANDOVER (2 * SEGMENT + 4 * SWITCH) /* of an urgent one, from one that drains a segment */

/* a pauses again and again; b always has work. */
struct world {
	struct fix f;
	struct ent *a, *b;
	uint64_t t, drain, change; /* to come to rest; from one to the other */
	uint64_t delay;            /* of a's job */
	bool beside;               /* and the device works for it before b is at rest */
	uint64_t kept, handed; /* time that a kept the device in vain or not; how often b got it */
};

static void world(struct world *w, const char *name, int64_t priority, uint64_t drain)
{
	memset(w, 0, sizeof(*w));
	setup(&w->f, &host, name);
	w->a = add(&w->f, priority);
	w->b = add(&w->f, 0);
	w->t = T0;
	w->drain = drain;
	w->change = SWITCH;
	ready(&w->f, w->a, w->t);
	ready(&w->f, w->b, w->t);
	assert_true(w->a->open && !w->b->open);
}

static void run_to(struct world *w, uint64_t t)
{
	while (fm_sched_next(w->f.s) <= t)
		fm_sched_tick(w->f.s, w->t = FM_MAX(w->t, fm_sched_next(w->f.s)));
	w->t = t;
}

/* It computes, pauses for so long, and is back. Was the device b's meanwhile? */
static bool pauses(struct world *w, uint64_t ns)
{
	uint64_t from, back, begin;

	run_to(w, w->t + BUSY + w->delay);
	w->delay = 0;
	while (!w->a->open) /* it is b's turn */
		run_to(w, w->t + FM_MS);
	from = begin = w->t;
	back = from + ns;
	idle(&w->f, w->a, w->t);
	while (!w->b->open && fm_sched_next(w->f.s) <= back)
		run_to(w, fm_sched_next(w->f.s));
	if (!w->b->open) {
		run_to(w, back);
		w->kept += ns;
		ready(&w->f, w->a, back);
		return false;
	}
	w->kept += w->t - begin;
	w->handed++;
	run_to(w, back);
	w->b->since = back + w->drain;
	w->delay = w->change + (w->beside ? 0 : w->drain);
	ready(&w->f, w->a, back);
	return true;
}

static unsigned handed(struct world *w, unsigned n, uint64_t ns)
{
	unsigned sum = 0;

	for (unsigned i = 0; i < n; i++)
		sum += pauses(w, ns);
	return sum;
}

static struct fm_linger linger(const struct world *w)
{
	struct fm_linger l;

	fm_sched_ent_linger(w->a->e, &l);
	return l;
}

static void short_pauses_keep_the_device(void **state)
{
	struct fm_linger l;
	struct world w;

	world(&w, NULL, 10, SEGMENT);
	assert_int_equal(handed(&w, 1000, 150 * FM_US), 0);
	l = linger(&w);
	assert_true(l.learnt && l.pauses == 1000 && l.within == 1000);
	assert_in_range(l.keeps_ns, 150 * FM_US, 320 * FM_US);
	fm_sched_free(w.f.s);
}

static void long_pauses_give_it_up_at_once(void **state)
{
	struct world w;

	world(&w, NULL, 10, SEGMENT);
	assert_int_equal(handed(&w, 100, 5 * FM_MS), 100);
	assert_in_range(w.kept, 1, 4 * 2 * FM_MS); /* of the first ones, when nothing was known */
	assert_int_equal(linger(&w).keeps_ns, 0);
	w.kept = 0;
	assert_int_equal(handed(&w, 100, 5 * FM_MS), 100);
	assert_int_equal(w.kept, 0);
	assert_in_range(linger(&w).handover_ns, HANDOVER - FM_US, HANDOVER);
	fm_sched_free(w.f.s);
}

/* Among equals a pause of 1 ms is longer than a hand-over there and back, but not if memory has to
 * move for that. */
static void memory_that_moves_is_part_of_the_cost(void **state)
{
	struct world w;
	uint64_t before;

	world(&w, "round-robin", 0, SEGMENT);
	handed(&w, 20, FM_MS);
	assert_int_equal(linger(&w).keeps_ns, 0);
	before = linger(&w).handover_ns;
	fm_sched_dev_handover(w.f.d, 80 * FM_MS);
	assert_int_equal(linger(&w).handover_ns, before + 80 * FM_MS);
	assert_in_range(linger(&w).keeps_ns, FM_MS, FM_LINGER_MOST);
	handed(&w, 500, 50 * FM_MS);
	assert_int_equal(linger(&w).keeps_ns, 0);
	handed(&w, 100, FM_MS);
	fm_sched_dev_handover(w.f.d, FM_NEVER);
	assert_in_range(linger(&w).keeps_ns, FM_MS, FM_LINGER_MOST);
	fm_sched_dev_handover(w.f.d, 0);
	assert_int_equal(linger(&w).keeps_ns, 0);
	fm_sched_free(w.f.s);
}

/* A request of ten commands with short pauses, each 5 ms: what it keeps at its end is little more
 * than such a pause. */
static void two_lengths_of_pauses(void **state)
{
	struct world w;
	uint64_t before;

	world(&w, NULL, 10, SEGMENT);
	for (unsigned i = 0; i < 50; i++) {
		if (i == 25)
			w.handed = 0;
		for (unsigned k = 0; k < 9; k++)
			assert_false(pauses(&w, 50 * FM_US) && i >= 25);
		before = w.kept;
		assert_true(pauses(&w, 5 * FM_MS));
		assert_true(i < 25 || w.kept - before <= 100 * FM_US);
	}
	assert_int_equal(w.handed, 25);
	fm_sched_free(w.f.s);
}

/* pareto, 100 us at least, exponent 1.2: mostly short, and some of any length. */
static uint64_t heavy(unsigned i)
{
	double u = ((double)(i * 7919u % 1000u) + 0.5) / 1000, p = 1;

	/* u^(-1/1.2), without libm: the cube of the fourth root, times an eighth. */
	for (double low = 1e-4, high = 1; high - low > 1e-9;) {
		p = (low + high) / 2;
		if (p * p * p * p * p * p > u * u * u * u * u) /* p = u^(5/6) */
			high = p;
		else
			low = p;
	}
	return (uint64_t)(100e3 / p);
}

/* What it would have cost to keep it for that long always, by whom all of it is known. */
static uint64_t cost_of(uint64_t keeps, unsigned n)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < n; i++)
		sum += heavy(i) <= keeps ? heavy(i) : keeps + HANDOVER;
	return sum;
}

static void heavy_tail_is_nearly_as_cheap_as_can_be(void **state)
{
	const unsigned n = 1000;
	uint64_t best = UINT64_MAX, cost;
	struct world w;

	for (uint64_t t = 0; t <= 10 * FM_MS; t += 10 * FM_US)
		best = FM_MIN(best, cost_of(t, n));
	world(&w, NULL, 10, SEGMENT);
	for (unsigned i = 0; i < n; i++)
		pauses(&w, heavy(i));
	cost = w.kept + w.handed * HANDOVER;
	if (cost > best + best / 4)
		fail_msg("%.3f ms, but %.3f would have been enough", (double)cost / 1e6,
			(double)best / 1e6);
	assert_true(cost < cost_of(100 * FM_US, n)); /* what was a constant once */
	fm_sched_free(w.f.s);
}

static void what_changes_is_learnt_anew(void **state)
{
	struct world w;

	world(&w, NULL, 10, SEGMENT);
	for (unsigned i = 0; i < 3; i++) {
		handed(&w, 200, 150 * FM_US);
		assert_int_equal(handed(&w, 50, 150 * FM_US), 0);
		handed(&w, 200, 5 * FM_MS);
		assert_int_equal(linger(&w).keeps_ns, 0);
	}
	fm_sched_free(w.f.s);
}

/* A pause that is longer than two switches is worth a hand-over among equals, but not where it
 * makes an urgent one wait for a segment besides. */
static void delay_of_the_urgent_weighs_more(void **state)
{
	struct world w;

	world(&w, NULL, 10, SEGMENT);
	handed(&w, 100, 600 * FM_US);
	assert_true(linger(&w).urgent || !w.handed);
	w.handed = 0;
	handed(&w, 100, 5 * FM_MS); /* now it knows that others are stopped for it */
	assert_true(linger(&w).urgent);
	handed(&w, 200, 600 * FM_US);
	assert_int_equal(handed(&w, 100, 600 * FM_US), 0);
	/* It is more urgent no longer. */
	assert_int_equal(fm_sched_hint(w.f.s, w.a->g, FM_HINT_PRIORITY, 0, w.t), 0);
	assert_false(linger(&w).urgent);
	assert_int_equal(linger(&w).handover_ns, 2 * SWITCH);
	assert_int_equal(linger(&w).keeps_ns, 0);
	fm_sched_free(w.f.s);

	world(&w, "fair", 0, SEGMENT);
	assert_int_equal(handed(&w, 100, 600 * FM_US), 100);
	assert_false(linger(&w).urgent);
	fm_sched_free(w.f.s);
}

/* What it takes to go to another the core sees from how much longer jobs take. */
static void what_a_change_costs_is_learnt(void **state)
{
	static const uint64_t change[] = {100 * FM_US, 600 * FM_US, 5 * FM_MS};
	struct world w;

	world(&w, NULL, 10, SEGMENT);
	for (unsigned i = 0; i < FM_ARRAY_LEN(change); i++) {
		uint64_t want = 3 * (SEGMENT + change[i]) + FM_MIN(change[i], FM_MS) - SEGMENT;

		w.change = change[i];
		for (unsigned k = 0; k < 100; k++) {
			handed(&w, 4, 20 * FM_US);
			pauses(&w, 5 * FM_MS);
		}
		assert_in_range(linger(&w).handover_ns, want - want / 10, want + want / 10);
	}
	fm_sched_free(w.f.s);
}

/* The device may work for who comes back before the other is at rest: that is no delay. */
static void a_rest_that_delays_nobody_costs_nothing(void **state)
{
	struct world w;

	world(&w, NULL, 10, FM_MS);
	w.change = 100 * FM_US;
	w.beside = true;
	for (unsigned k = 0; k < 200; k++) {
		handed(&w, 4, 20 * FM_US);
		pauses(&w, 5 * FM_MS);
	}
	assert_in_range(linger(&w).handover_ns, 2 * w.change, 3 * w.change);
	fm_sched_free(w.f.s);
}

/* But not from jobs that are no more like each other than that. */
static void unlike_jobs_say_nothing_of_it(void **state)
{
	struct world w;
	uint64_t rnd = 1;

	world(&w, NULL, 10, SEGMENT);
	w.change = FM_MS;
	for (unsigned k = 0; k < 1000; k++) {
		rnd = rnd * 6364136223846793005u + 1442695040888963407u;
		w.delay += (rnd >> 33) % (10 * FM_MS);
		pauses(&w, k % 4 ? 20 * FM_US : 5 * FM_MS);
	}
	assert_in_range(linger(&w).handover_ns, HANDOVER - HANDOVER / 10, HANDOVER + HANDOVER / 10);
	fm_sched_free(w.f.s);
}

static void it_is_bounded(void **state)
{
	static const uint64_t each[] = {1, 50 * FM_US, 300 * FM_US, FM_MS, 3 * FM_MS, FM_S};
	struct world w;
	uint64_t rnd = 1;

	for (uint64_t drain = 0; drain <= FM_S; drain = 10 * drain + 100 * FM_US) {
		world(&w, NULL, 10, drain);
		for (unsigned i = 0; i < 500; i++) {
			rnd = rnd * 6364136223846793005u + 1442695040888963407u;
			pauses(&w, each[(rnd >> 33) % FM_ARRAY_LEN(each)]);
			run_to(&w, w.t + drain);
			assert_true(linger(&w).keeps_ns <= FM_LINGER_MOST);
			assert_true(linger(&w).keeps_ns <= 2 * linger(&w).handover_ns);
		}
		fm_sched_grant(w.f.s, w.a->g, FM_GRANT_PLACE, 1, w.t);
		assert_true(linger(&w).keeps_ns <= FM_LINGER_BOUND);
		fm_sched_grant(w.f.s, w.a->g, FM_GRANT_NONE, 0, w.t);
		fm_sched_free(w.f.s);
	}
}

/* Of a pause under way, too. */
static void an_admitted_one_promises_at_once(void **state)
{
	struct world w;

	world(&w, NULL, 10, SEGMENT);
	handed(&w, 100, FM_MS);
	assert_true(linger(&w).keeps_ns > 2 * FM_LINGER_BOUND);
	idle(&w.f, w.a, w.t);
	run_to(&w, w.t + 10 * FM_US);
	assert_false(w.b->open);
	fm_sched_grant(w.f.s, w.a->g, FM_GRANT_PLACE, 1, w.t);
	run_to(&w, w.t + FM_LINGER_BOUND);
	assert_true(w.b->open);
	fm_sched_free(w.f.s);
}

static void a_setting_is_kept_to(void **state)
{
	struct world w;

	world(&w, NULL, 10, SEGMENT);
	assert_int_equal(fm_sched_get_linger(w.f.s), FM_LINGER_AUTO);
	fm_sched_linger(w.f.s, 100 * FM_US);
	assert_false(linger(&w).learnt);
	handed(&w, 3, 150 * FM_US);
	assert_int_equal(w.handed, 3);
	assert_int_equal(linger(&w).keeps_ns, 100 * FM_US);
	handed(&w, 20, 50 * FM_US);
	assert_int_equal(w.handed, 3);
	/* What was seen meanwhile is known when it is learnt again. */
	fm_sched_linger(w.f.s, FM_LINGER_AUTO);
	assert_int_equal(linger(&w).pauses, 23);
	fm_sched_free(w.f.s);
}

/* Device time of a pause is its who keeps the device, where another waits. */
static void the_pause_is_charged(void **state)
{
	struct world w;
	uint64_t before;

	world(&w, "fair", 0, 0);
	handed(&w, 20, 150 * FM_US);
	while (w.a->open) /* until its next turn begins */
		run_to(&w, w.t + FM_MS);
	while (!w.a->open)
		run_to(&w, w.t + FM_MS);
	before = info(w.a, w.t).served_ns;
	idle(&w.f, w.a, w.t);
	assert_true(w.a->open);
	run_to(&w, w.t + 150 * FM_US);
	assert_int_equal(info(w.a, w.t).served_ns - before, 150 * FM_US);
	fm_sched_free(w.f.s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(short_pauses_keep_the_device),
		cmocka_unit_test(long_pauses_give_it_up_at_once),
		cmocka_unit_test(memory_that_moves_is_part_of_the_cost),
		cmocka_unit_test(two_lengths_of_pauses),
		cmocka_unit_test(heavy_tail_is_nearly_as_cheap_as_can_be),
		cmocka_unit_test(what_changes_is_learnt_anew),
		cmocka_unit_test(delay_of_the_urgent_weighs_more),
		cmocka_unit_test(what_a_change_costs_is_learnt),
		cmocka_unit_test(a_rest_that_delays_nobody_costs_nothing),
		cmocka_unit_test(unlike_jobs_say_nothing_of_it),
		cmocka_unit_test(it_is_bounded),
		cmocka_unit_test(an_admitted_one_promises_at_once),
		cmocka_unit_test(a_setting_is_kept_to),
		cmocka_unit_test(the_pause_is_charged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
