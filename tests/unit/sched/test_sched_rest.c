/* SPDX-License-Identifier: Apache-2.0 */
/* From a gate that closes to a device at rest: what that costs whom, and when somebody looks. */
#include "sched_fix.h"

static void late_stall_is_charged_and_measured(void **state)
{
	struct fix f;
	struct ent *a, *b;
	const struct fm_hist *h;
	uint64_t look;

	setup(&f, &host, NULL);
	a = add(&f, 0);
	b = add(&f, 10);
	h = fm_sched_dev_preempt_hist(f.d);
	ready(&f, a, T0);
	a->stalled = false;
	ready(&f, b, T0 + 5 * FM_MS);
	look = fm_sched_next(f.s); /* somebody must look */
	assert_true(look > T0 + 5 * FM_MS && look <= T0 + 6 * FM_MS);
	fm_sched_tick(f.s, look);
	assert_int_equal(fm_sched_next(f.s) - look, 2 * (look - T0 - 5 * FM_MS)); /* less often */
	assert_int_equal(info(a, T0 + 7 * FM_MS).served_ns, 7 * FM_MS);
	assert_int_equal(info(b, T0 + 7 * FM_MS).served_ns, 0);
	a->stalled = true;
	a->since = T0 + 7 * FM_MS;
	fm_sched_tick(f.s, T0 + 8 * FM_MS);
	assert_int_equal(info(a, T0 + 8 * FM_MS).served_ns, 7 * FM_MS);
	assert_int_equal(info(b, T0 + 8 * FM_MS).served_ns, FM_MS);
	assert_int_equal(h->count, 1);
	assert_int_equal(h->max, 2 * FM_MS);
	assert_int_equal(fm_sched_next(f.s), FM_NEVER); /* quiet again */
	fm_sched_free(f.s);
}

static void drain_that_ends_idle_or_reopened(void **state)
{
	struct fix f;
	struct ent *a, *b;
	const struct fm_hist *h;

	setup(&f, &host, NULL);
	fm_sched_linger(f.s, 0);
	a = add(&f, 0);
	b = add(&f, 10);
	h = fm_sched_dev_preempt_hist(f.d);
	ready(&f, a, T0);
	a->stalled = false;
	ready(&f, b, T0 + FM_MS);
	assert_true(a->bell_idle); /* still on the device */
	idle(&f, b, T0 + 2 * FM_MS);
	assert_true(a->open);
	assert_int_equal(h->count, 0); /* it never stalled: no sample, no gap */
	assert_int_equal(info(a, T0 + 2 * FM_MS).served_ns, 2 * FM_MS);
	ready(&f, b, T0 + 3 * FM_MS);
	idle(&f, a, T0 + 3 * FM_MS + 700 * FM_US);
	assert_int_equal(h->count, 1); /* its last command ended: that is a stall */
	assert_int_equal(h->max, 700 * FM_US);
	assert_int_equal(info(a, T0 + 9 * FM_MS).served_ns, 3 * FM_MS + 700 * FM_US);
	assert_int_equal(fm_sched_next(f.s), FM_NEVER);
	fm_sched_free(f.s);
}

static void deleted_while_it_drains(void **state)
{
	struct fix f;
	struct ent *a, *b;

	setup(&f, &host, NULL);
	a = add(&f, 0);
	b = add(&f, 10);
	add(&f, 0);
	a->stalled = false;
	ready(&f, a, T0);
	ready(&f, b, T0 + FM_MS);
	assert_int_not_equal(fm_sched_next(f.s), FM_NEVER);
	f.log[0] = '\0';
	fm_sched_ent_del(f.s, a->e, T0 + 2 * FM_MS);
	assert_null(strchr(f.log, 'a'));
	assert_int_equal(fm_sched_next(f.s), FM_NEVER);
	assert_int_equal(fm_sched_dev_preempt_hist(f.d)->count, 0);
	assert_int_equal(info(b, T0 + 3 * FM_MS).served_ns, FM_MS);
	fm_sched_ent_del(f.s, b->e, T0 + 3 * FM_MS); /* and while it runs */
	assert_int_equal(fm_sched_next(f.s), FM_NEVER);
	fm_sched_free(f.s);
}

static void nothing_in_flight_stalls_at_once(void **state)
{
	struct fix f;
	struct ent *a, *b;

	setup(&f, &host, NULL);
	a = add(&f, 0);
	b = add(&f, 10);
	ready(&f, a, T0);
	a->since = T0; /* its last command ended before the gate closed */
	ready(&f, b, T0 + FM_MS);
	assert_int_equal(fm_sched_dev_preempt_hist(f.d)->count, 1);
	assert_int_equal(fm_sched_dev_preempt_hist(f.d)->max, 0);
	assert_int_equal(fm_sched_next(f.s), FM_NEVER);
	fm_sched_free(f.s);
}

/* b takes the device from a at t, for 50 ms. a is at rest after took, and says so where it tells;
 * how often somebody had to look until that was seen, and when it was. */
static unsigned looks(struct fix *f, uint64_t t, uint64_t took, bool tells, uint64_t *seen)
{
	const struct fm_hist *h = fm_sched_dev_preempt_hist(f->d);
	struct ent *a = &f->ent[0], *b = &f->ent[1];
	uint64_t before = h->count;
	unsigned n = 0;

	a->stalled = false;
	ready(f, b, t);
	while (h->count == before && n < 100) {
		*seen = fm_sched_next(f->s);
		a->stalled = *seen >= t + took;
		a->since = tells ? t + took : *seen;
		fm_sched_tick(f->s, *seen);
		n++;
	}
	a->stalled = true;
	idle(f, b, t + 50 * FM_MS);
	return n;
}

static void start(struct fix *f)
{
	setup(f, &host, NULL);
	fm_sched_linger(f->s, 0);
	add(f, 0);
	add(f, 10);
	ready(f, &f->ent[0], T0);
}

static void looks_are_few_where_rest_is_told(void **state)
{
	const uint64_t took = 3 * FM_MS;
	uint64_t t = T0, seen;
	unsigned first;
	struct fix f;

	start(&f);
	first = looks(&f, t += FM_S, took, true, &seen);
	assert_true(first > 3); /* nothing is known yet */
	for (int i = 0; i < 30; i++)
		looks(&f, t += FM_S, took, true, &seen);
	assert_int_equal(looks(&f, t += FM_S, took, true, &seen), 1);
	assert_in_range(looks(&f, t += FM_S, 10 * took, true, &seen), 2, 4);
	assert_int_equal(fm_sched_dev_preempt_hist(f.d)->max, 10 * took);
	/* As told, whenever it was seen. */
	assert_int_equal(
		info(&f.ent[1], t + FM_S).served_ns, 33 * 50 * FM_MS - 32 * took - 10 * took);
	fm_sched_free(f.s);
}

static void rest_that_is_not_told_is_seen_soon(void **state)
{
	const uint64_t took[] = {200 * FM_US, 5 * FM_MS, 200 * FM_US};
	uint64_t t = T0, seen;
	struct fix f;

	start(&f);
	for (unsigned k = 0; k < 3; k++) {
		for (int i = 0; i < 60; i++)
			looks(&f, t += FM_S, took[k], false, &seen);
		assert_true(looks(&f, t += FM_S, took[k], false, &seen) <= 3);
		assert_true(seen - t <= took[k] + took[k] / 2);
	}
	fm_sched_free(f.s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(late_stall_is_charged_and_measured),
		cmocka_unit_test(drain_that_ends_idle_or_reopened),
		cmocka_unit_test(deleted_while_it_drains),
		cmocka_unit_test(nothing_in_flight_stalls_at_once),
		cmocka_unit_test(looks_are_few_where_rest_is_told),
		cmocka_unit_test(rest_that_is_not_told_is_seen_soon),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
