/* SPDX-License-Identifier: Apache-2.0 */
/* The scheduler core, by hand: each event and what it does to gates, bells, timers and accounts. */
#include "sched_fix.h"

static void needs_a_gate(void **state)
{
	struct fm_sched *s;
	struct fm_sched_host none = {0};

	assert_int_equal(fm_sched_new(&s, &none, NULL), -EINVAL);
	assert_int_equal(fm_sched_new(&s, NULL, NULL), -EINVAL);
	fm_sched_free(NULL);
}

static void one_alone_is_left_in_peace(void **state)
{
	struct fix f;
	struct ent *a;

	setup(&f, &host, NULL);
	assert_string_equal(fm_sched_policy_ops(f.s)->name, "fixed-priority");
	assert_string_equal(fm_sched_dev_key(f.d), "dev");
	a = add(&f, 0);
	assert_ptr_equal(fm_sched_ent_device(a->e), f.d);
	assert_true(a->open);
	ready(&f, a, T0);
	assert_int_equal(info(a, T0).state, FM_ENT_RUNNING);
	idle(&f, a, T0 + FM_MS);
	assert_int_equal(info(a, T0 + FM_MS).state, FM_ENT_IDLE);
	assert_int_equal(a->gates, 1);
	assert_int_equal(a->bells, 0);
	assert_int_equal(fm_sched_next(f.s), FM_NEVER);
	fm_sched_free(f.s);
}

static void higher_priority_preempts(void **state)
{
	struct fix f;
	struct ent *a, *b;
	struct fm_sched_stats st;

	setup(&f, &host, NULL);
	a = add(&f, 0);
	b = add(&f, 10);
	ready(&f, a, T0);
	assert_true(a->open && b->open); /* b would run at once: its gate stays open */
	a->stalled = false;
	f.log[0] = '\0';
	ready(&f, b, T0 + FM_MS);
	assert_string_equal(f.log, "-a");
	assert_int_equal(info(a, T0 + 3 * FM_MS).state, FM_ENT_READY);
	assert_int_equal(info(b, T0 + FM_MS).state, FM_ENT_RUNNING);
	idle(&f, b, T0 + 5 * FM_MS);
	assert_true(!a->open); /* lingers */
	fm_sched_tick(f.s, T0 + 6 * FM_MS);
	assert_string_equal(f.log, "-a+a");
	assert_true(b->open);
	fm_sched_get_stats(f.s, &st);
	assert_int_equal(st.preemptions, 1);
	assert_int_equal(info(a, T0).preemptions, 1);
	assert_int_equal(st.events, 3);
	fm_sched_free(f.s);
}

static void closes_before_it_opens(void **state)
{
	struct fix f;
	struct ent *a, *b;

	setup(&f, &host, NULL);
	a = add(&f, 0);
	b = add(&f, -10);
	ready(&f, a, T0);
	ready(&f, b, T0);
	assert_true(a->open && !b->open);
	f.log[0] = '\0';
	assert_int_equal(fm_sched_hint(f.s, b->g, FM_HINT_PRIORITY, 1, T0 + FM_MS), 0);
	assert_string_equal(f.log, "-a+b");
	assert_int_equal(info(b, T0 + FM_MS).ready_wait_ns, FM_MS);
	assert_int_equal(info(a, T0 + 3 * FM_MS).ready_wait_ns, 2 * FM_MS);
	assert_string_equal(info(b, T0).reason, "highest priority");
	fm_sched_free(f.s);
}

static void linger_keeps_the_device(void **state)
{
	struct fix f;
	struct ent *a, *b;

	setup(&f, &host, NULL);
	fm_sched_linger(f.s, FM_MS);
	a = add(&f, 10);
	b = add(&f, 0);
	ready(&f, a, T0);
	ready(&f, b, T0);
	f.log[0] = '\0';
	idle(&f, a, T0 + FM_MS);
	assert_int_equal(fm_sched_next(f.s), T0 + 2 * FM_MS);
	ready(&f, a, T0 + FM_MS + 500 * FM_US); /* back in time: nothing happened */
	assert_string_equal(f.log, "");
	assert_int_equal(fm_sched_next(f.s), FM_NEVER);
	idle(&f, a, T0 + 3 * FM_MS);
	fm_sched_tick(f.s, T0 + 4 * FM_MS - 1);
	assert_string_equal(f.log, "");
	fm_sched_tick(f.s, T0 + 4 * FM_MS);
	assert_string_equal(f.log, "+b");
	assert_true(a->open); /* it would preempt */
	ready(&f, a, T0 + 5 * FM_MS);
	f.log[0] = '\0';
	/* A report that comes late finds the linger over. */
	fm_sched_idle(f.s, a->e, T0 + 6 * FM_MS, T0 + 7 * FM_MS);
	assert_string_equal(f.log, "+b");
	fm_sched_free(f.s);
}

/* Who has shown that its pauses are long gives the device up at once, until one is short. */
static void long_pauses_end_the_linger(void **state)
{
	struct fix f;
	struct ent *a, *b;
	uint64_t t = T0;

	setup(&f, &host, NULL);
	fm_sched_linger(f.s, FM_MS);
	a = add(&f, 10);
	b = add(&f, 0);
	ready(&f, b, t);
	for (unsigned i = 0; i < 20; i++, t += 10 * FM_MS) {
		ready(&f, a, t);
		f.log[0] = '\0';
		idle(&f, a, t + FM_MS);
		assert_string_equal(f.log, i < 8 ? "" : "+b");
		fm_sched_tick(f.s, t + 2 * FM_MS);
		assert_string_equal(f.log, "+b");
	}
	ready(&f, a, t);
	idle(&f, a, t + FM_MS);
	ready(&f, a, t + FM_MS + 500 * FM_US);
	f.log[0] = '\0';
	idle(&f, a, t + 2 * FM_MS);
	assert_string_equal(f.log, "");
	fm_sched_tick(f.s, t + 3 * FM_MS);
	assert_string_equal(f.log, "+b");
	fm_sched_free(f.s);
}

static void new_job_within_linger_renews_deadline(void **state)
{
	struct fix f;
	struct ent *a, *b;

	setup(&f, &host, "edf");
	fm_sched_linger(f.s, FM_MS);
	a = add(&f, 0);
	b = add(&f, 0);
	fm_sched_hint(f.s, a->g, FM_HINT_DEADLINE, 10 * FM_MS, T0);
	fm_sched_hint(f.s, b->g, FM_HINT_DEADLINE, 15 * FM_MS, T0);
	ready(&f, a, T0); /* due at 10 */
	ready(&f, b, T0); /* due at 15 */
	assert_true(a->open && !b->open);
	idle(&f, a, T0 + 6 * FM_MS);
	ready(&f, a, T0 + 6 * FM_MS + 1); /* due at 16 */
	assert_true(!a->open && b->open);
	fm_sched_free(f.s);
}

static void bells_only_where_needed(void **state)
{
	struct fix f;
	struct ent *a, *b, *c;

	setup(&f, &host, NULL);
	fm_sched_linger(f.s, 0);
	a = add(&f, 0);
	ready(&f, a, T0);
	assert_false(a->bell_ready || a->bell_idle);
	b = add(&f, 0);
	assert_true(b->bell_ready && !b->bell_idle);
	assert_false(a->bell_ready || a->bell_idle); /* nobody waits for its end */
	ready(&f, b, T0);
	assert_true(a->bell_idle && !a->bell_ready);
	assert_false(b->bell_ready || b->bell_idle);
	idle(&f, a, T0 + FM_MS);
	assert_true(a->bell_ready && !a->bell_idle);
	assert_false(b->bell_idle);
	c = add(&f, -5);
	ready(&f, c, T0 + FM_MS);
	assert_true(b->bell_idle && !c->bell_ready && !c->bell_idle);
	fm_sched_group_del(f.s, c->g, T0 + FM_MS);
	fm_sched_group_del(f.s, b->g, T0 + FM_MS);
	assert_false(a->bell_ready || a->bell_idle);
	fm_sched_free(f.s);
}

/* Where deadlines count from arrivals, the end of a job is wanted although nobody waits for it. */
static void exact_jobs_cost_bells(void **state)
{
	struct fix f;
	struct ent *a, *b;

	setup(&f, &host, "edf");
	a = add(&f, 0);
	ready(&f, a, T0);
	assert_false(a->bell_ready || a->bell_idle); /* alone on the device: none */
	b = add(&f, 0);
	assert_true(a->bell_idle && b->bell_ready);
	idle(&f, a, T0 + FM_MS);
	ready(&f, a, T0 + 2 * FM_MS);
	assert_true(a->bell_idle && !a->bell_ready);
	policy(&f, "fixed-priority", T0 + 2 * FM_MS);
	assert_false(a->bell_idle);
	fm_sched_free(f.s);
}

static void edge_reported_within_bells(void **state)
{
	struct fix f;
	struct ent *a, *b;

	setup(&f, &host, NULL);
	a = add(&f, 0);
	a->report_in_bell = true; /* its board shows work as soon as it is asked */
	b = add(&f, 1);
	assert_int_equal(info(a, T0).state, FM_ENT_RUNNING);
	assert_false(a->bell_ready);
	assert_true(b->bell_ready);
	ready(&f, b, T0 + FM_MS);
	assert_true(b->open && !a->open);
	fm_sched_free(f.s);
}

static void alone_is_charged_what_it_used(void **state)
{
	struct fix f;
	struct ent *a, *b;

	setup(&f, &host_usage, NULL);
	a = add(&f, 0);
	b = add(&f, 0);
	ready(&f, a, T0);
	a->usage = 3 * FM_MS;
	assert_int_equal(info(a, T0 + 10 * FM_MS).served_ns, 3 * FM_MS);
	fm_sched_tick(f.s, T0 + 10 * FM_MS);
	ready(&f, b, T0 + 10 * FM_MS);
	assert_int_equal(info(a, T0 + 10 * FM_MS).served_ns, 3 * FM_MS);
	/* Others wait: what it occupies is what it is charged. */
	fm_sched_tick(f.s, T0 + 12 * FM_MS);
	assert_int_equal(info(a, T0 + 12 * FM_MS).served_ns, 5 * FM_MS);
	a->usage = 0; /* a lie */
	fm_sched_tick(f.s, T0 + 13 * FM_MS);
	idle(&f, b, T0 + 13 * FM_MS);
	a->usage = UINT64_MAX;
	assert_true(info(a, T0 + 14 * FM_MS).served_ns <= 7 * FM_MS);
	fm_sched_free(f.s);
}

static void suspend_withholds(void **state)
{
	struct fix f;
	struct ent *a, *b;

	setup(&f, &host, NULL);
	a = add(&f, 10);
	b = add(&f, 0);
	ready(&f, a, T0);
	ready(&f, b, T0);
	a->stalled = false;
	f.log[0] = '\0';
	fm_sched_suspend(f.s, a->g, true, T0 + FM_MS);
	assert_string_equal(f.log, "-a+b");
	assert_true(fm_sched_group_suspended(a->g));
	assert_int_equal(info(a, T0 + FM_MS).state, FM_ENT_SUSPENDED);
	fm_sched_suspend(f.s, a->g, true, T0 + FM_MS);
	assert_string_equal(f.log, "-a+b");
	/* It drains, and is charged for that. */
	a->stalled = true;
	a->since = T0 + 3 * FM_MS;
	fm_sched_tick(f.s, T0 + 5 * FM_MS);
	assert_int_equal(info(a, T0 + 5 * FM_MS).served_ns, 3 * FM_MS);
	assert_int_equal(info(b, T0 + 5 * FM_MS).served_ns, 2 * FM_MS);
	/* What happens meanwhile is remembered. */
	idle(&f, a, T0 + 6 * FM_MS);
	fm_sched_suspend(f.s, a->g, false, T0 + 7 * FM_MS);
	assert_int_equal(info(a, T0 + 7 * FM_MS).state, FM_ENT_IDLE);
	assert_true(b->open);
	fm_sched_suspend(f.s, a->g, true, T0 + 8 * FM_MS);
	assert_false(a->open);
	ready(&f, a, T0 + 9 * FM_MS);
	assert_false(a->open);
	fm_sched_suspend(f.s, a->g, false, T0 + 10 * FM_MS);
	assert_true(a->open && !b->open);
	fm_sched_free(f.s);
}

static void suspended_alone_and_at_birth(void **state)
{
	struct fix f;
	struct fm_sched_dev *d2;
	struct ent *a, late = {.stalled = true};

	setup(&f, &host, NULL);
	a = add(&f, 0);
	fm_sched_suspend(f.s, a->g, true, T0);
	assert_false(a->open);
	f.ent[1] = late;
	assert_int_equal(fm_sched_device_add(f.s, &d2, "dev2"), 0);
	assert_int_equal(fm_sched_ent_add(f.s, &f.ent[1].e, a->g, f.d, &f.ent[1], T0), -EEXIST);
	assert_int_equal(fm_sched_ent_add(f.s, &f.ent[1].e, a->g, d2, &f.ent[1], T0), 0);
	assert_true(f.ent[1].told && !f.ent[1].open);
	fm_sched_suspend(f.s, a->g, false, T0);
	assert_true(a->open && f.ent[1].open);
	fm_sched_free(f.s);
}

static void segments_nest(void **state)
{
	struct fix f;
	struct ent *a, *b;

	setup(&f, &host, NULL);
	a = add(&f, 0);
	b = add(&f, 50);
	assert_int_equal(fm_sched_segment_end(f.s, a->g, T0), -EINVAL);
	assert_int_equal(fm_sched_segment_begin(f.s, a->g, 256, T0), -ERANGE);
	ready(&f, b, T0);
	assert_int_equal(fm_sched_segment_begin(f.s, a->g, 100, T0), 0);
	assert_true(a->open && !b->open); /* counts as ready without a command */
	assert_int_equal(info(a, T0).state, FM_ENT_RUNNING);
	assert_int_equal(fm_sched_group_hints(a->g)->value[FM_HINT_PRIORITY], 0);
	assert_int_equal(fm_sched_segment_begin(f.s, a->g, 10, T0), 0);
	assert_true(!a->open && b->open); /* the innermost wins */
	assert_int_equal(fm_sched_segment_begin(f.s, a->g, FM_SEGMENT_KEEP, T0), 0);
	assert_true(!a->open && b->open);
	assert_int_equal(fm_sched_segment_end(f.s, a->g, T0), 0);
	assert_int_equal(fm_sched_segment_end(f.s, a->g, T0), 0);
	assert_true(a->open && !b->open); /* restored */
	ready(&f, a, T0 + FM_US);
	idle(&f, a, T0 + FM_MS);
	assert_true(a->open && !b->open); /* between its commands too */
	assert_int_equal(fm_sched_hint(f.s, a->g, FM_HINT_PRIORITY, 60, T0 + FM_MS), 0);
	assert_true(a->open); /* the own priority waits behind the segment's */
	f.log[0] = '\0';
	assert_int_equal(fm_sched_segment_end(f.s, a->g, T0 + 2 * FM_MS), 0);
	assert_string_equal(f.log, "+b"); /* a would preempt with 60: its gate stays open */
	assert_int_equal(info(a, T0).state, FM_ENT_IDLE);
	for (int i = 0; i < 32; i++)
		assert_int_equal(fm_sched_segment_begin(f.s, a->g, FM_SEGMENT_KEEP, T0), 0);
	assert_int_equal(fm_sched_segment_begin(f.s, a->g, FM_SEGMENT_KEEP, T0), -EOVERFLOW);
	fm_sched_free(f.s);
}

static void joins_inside_a_segment(void **state)
{
	struct fix f;
	struct ent *a, *b;

	setup(&f, &host, NULL);
	a = add(&f, 0);
	ready(&f, a, T0);
	b = &f.ent[f.n++];
	assert_int_equal(fm_sched_group_add(f.s, &b->g), 0);
	assert_int_equal(fm_sched_segment_begin(f.s, b->g, 5, T0), 0);
	assert_int_equal(fm_sched_ent_add(f.s, &b->e, b->g, f.d, b, T0), 0);
	assert_true(b->open && !a->open);
	fm_sched_group_del(f.s, b->g, T0);
	assert_true(a->open);
	fm_sched_free(f.s);
}

static void hints_are_checked_and_kept(void **state)
{
	struct fix f;
	struct ent *a, *b;
	struct fm_err err = {0};
	const char *bad = "colour=red", *good = "slice=9";

	setup(&f, &host, NULL);
	a = add(&f, 7);
	b = add(&f, 3);
	assert_int_equal(fm_sched_hint(f.s, a->g, FM_HINT_SHARE, 101, T0), -ERANGE);
	assert_int_equal(fm_sched_hint(f.s, a->g, FM_HINT_COUNT, 1, T0), -ERANGE);
	assert_int_equal(fm_sched_hint(f.s, a->g, (enum fm_hint) - 1, 1, T0), -ERANGE);
	ready(&f, a, T0);
	ready(&f, b, T0);
	assert_int_equal(fm_sched_policy(f.s, "nonsense", NULL, 0, T0, &err), -ENOENT);
	assert_non_null(strstr(err.hint, "fixed-priority, heterogeneous-priority"));
	assert_int_equal(fm_sched_policy(f.s, "fair", &bad, 1, T0, &err), -EINVAL);
	assert_string_equal(fm_sched_policy_ops(f.s)->name, "fixed-priority");
	assert_int_equal(fm_sched_policy(f.s, "fair", &good, 1, T0, &err), 0);
	assert_int_equal(fm_sched_policy_params(f.s)[0], 9 * FM_MS);
	assert_int_equal(a->open + b->open, 1);
	policy(&f, "fifo", T0);
	assert_true(a->open && b->open);
	policy(&f, "fixed-priority", T0 + FM_MS);
	assert_true(a->open && !b->open); /* priorities survived it all */
	fm_sched_free(f.s);
}

static void only_the_hot_idle_keep_gates(void **state)
{
	struct fix f;
	unsigned open = 0;

	setup(&f, &host, NULL);
	for (int i = 0; i < 25; i++)
		add(&f, i == 0 ? -1 : 0);
	for (int i = 0; i < 25; i++)
		open += f.ent[i].open;
	assert_int_equal(open, 16); /* nobody runs: those who were idle last */
	ready(&f, &f.ent[0], T0);
	for (int i = 0; i < 25; i++)
		assert_int_equal(f.ent[i].open, i == 0 || i >= 9);
	ready(&f, &f.ent[3], T0);
	for (int i = 0; i < 25; i++)
		assert_int_equal(f.ent[i].open, i == 3); /* equals do not preempt */
	policy(&f, "fifo", T0);
	for (int i = 0; i < 25; i++)
		assert_true(f.ent[i].open);
	policy(&f, "round-robin", T0);
	for (int i = 0; i < 25; i++)
		assert_int_equal(f.ent[i].open, i == 0);
	for (int i = 1; i < 25; i++)
		fm_sched_group_del(f.s, f.ent[i].g, T0);
	assert_true(f.ent[0].open);
	fm_sched_free(f.s);
}

/* However often one user's groups go idle, the other user keeps places, and the other way round. */
static void one_user_takes_no_places_of_another(void **state)
{
	struct fix f;
	unsigned open = 0;

	setup(&f, &host, NULL);
	for (int i = 0; i < 3; i++)
		fm_sched_label(add(&f, 0)->g, 1, "a");
	for (int i = 3; i < 26; i++)
		fm_sched_label(add(&f, 0)->g, 2, "b");
	for (int round = 0; round < 3; round++)
		for (int i = 3; i < 26; i++) {
			ready(&f, &f.ent[i], T0 + (uint64_t)round * FM_S);
			idle(&f, &f.ent[i], T0 + (uint64_t)round * FM_S);
		}
	fm_sched_tick(f.s, T0 + 10 * FM_S);
	for (int i = 0; i < 26; i++)
		open += f.ent[i].open;
	assert_int_equal(open, 16);
	for (int i = 0; i < 3; i++)
		assert_true(f.ent[i].open);
	fm_sched_free(f.s);
}

static void visit(void *arg, void *data)
{
	struct fix *f = arg;
	struct ent *e = data;

	snprintf(f->log + strlen(f->log), sizeof(f->log) - strlen(f->log), "%c",
		(char)('a' + (e - f->ent)));
	if (e == &f->ent[1])
		fm_sched_idle(f->s, e->e, T0 + 2 * FM_MS, T0 + 3 * FM_MS);
}

static void active_ones_are_walked(void **state)
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
	f.log[0] = '\0';
	fm_sched_dev_each_active(f.d, visit, &f); /* b ends within: a is opened */
	assert_string_equal(f.log, "ab+a");
	fm_sched_free(f.s);
}

static void devices_are_apart(void **state)
{
	struct fix f;
	struct fm_sched_dev *d2;
	struct ent *a, *b;

	setup(&f, &host, NULL);
	a = add(&f, 0);
	b = &f.ent[f.n++];
	assert_int_equal(fm_sched_device_add(f.s, &d2, "dev2"), 0);
	assert_int_equal(fm_sched_group_add(f.s, &b->g), 0);
	assert_int_equal(fm_sched_ent_add(f.s, &b->e, b->g, d2, b, T0), 0);
	ready(&f, a, T0);
	ready(&f, b, T0);
	assert_true(a->open && b->open);
	fm_sched_free(f.s);
}

static void time_never_goes_back(void **state)
{
	struct fix f;
	struct ent *a, *b;

	setup(&f, &host, NULL);
	a = add(&f, 0);
	b = add(&f, 0);
	fm_sched_ready(f.s, a->e, T0 + FM_S, T0 + FM_MS); /* `at` after now: clamped */
	assert_int_equal(info(a, T0 + 2 * FM_MS).served_ns, FM_MS);
	fm_sched_ready(f.s, b->e, 0, 5); /* an old clock */
	fm_sched_idle(f.s, a->e, 0, 0);
	assert_true(info(a, T0 + FM_MS).served_ns < FM_S);
	fm_sched_tick(f.s, T0 + 2 * FM_MS);
	assert_true(b->open);
	fm_sched_free(f.s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(needs_a_gate),
		cmocka_unit_test(one_alone_is_left_in_peace),
		cmocka_unit_test(higher_priority_preempts),
		cmocka_unit_test(closes_before_it_opens),
		cmocka_unit_test(linger_keeps_the_device),
		cmocka_unit_test(long_pauses_end_the_linger),
		cmocka_unit_test(new_job_within_linger_renews_deadline),
		cmocka_unit_test(bells_only_where_needed),
		cmocka_unit_test(exact_jobs_cost_bells),
		cmocka_unit_test(edge_reported_within_bells),
		cmocka_unit_test(alone_is_charged_what_it_used),
		cmocka_unit_test(suspend_withholds),
		cmocka_unit_test(suspended_alone_and_at_birth),
		cmocka_unit_test(segments_nest),
		cmocka_unit_test(joins_inside_a_segment),
		cmocka_unit_test(hints_are_checked_and_kept),
		cmocka_unit_test(only_the_hot_idle_keep_gates),
		cmocka_unit_test(one_user_takes_no_places_of_another),
		cmocka_unit_test(active_ones_are_walked),
		cmocka_unit_test(devices_are_apart),
		cmocka_unit_test(time_never_goes_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
