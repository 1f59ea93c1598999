/* SPDX-License-Identifier: Apache-2.0 */
/* What each policy promises, over the real core and a device in virtual time. */
#include "../sched/sched_model.h"
#include <errno.h>

#define ALWAYS (20 * FM_MS) /* length of the jobs of clients that are always busy */
#define POINTS 2.0          /* share error allowed, in percentage points */

static void table_is_whole(void **state)
{
	assert_null(fm_policy_find("no-such-policy"));
	for (const struct fm_policy_ops *const *p = fm_policies; *p; p++) {
		size_t n = 0;

		assert_ptr_equal(fm_policy_find((*p)->name), *p);
		assert_int_equal(strspn((*p)->name, "abcdefghijklmnopqrstuvwxyz0123456789-"),
			strlen((*p)->name));
		assert_non_null((*p)->summary);
		assert_non_null((*p)->decide);
		for (const struct fm_policy_param *q = (*p)->params; q && q->name; q++, n++) {
			assert_true(q->min <= q->def && q->def <= q->max);
			assert_non_null(q->help);
		}
		assert_true(n <= FM_POLICY_PARAMS);
	}
}

/* Advice to give a hint helps where that hint is read, and there alone. */
static void advice_is_about_hints_that_are_read(void **state)
{
	static const struct {
		enum fm_advice kind;
		uint32_t hints; /* one of these; 0: none at all */
	} about[] = {
		{FM_ADVICE_PRIORITY, FM_READS(FM_HINT_PRIORITY)},
		{FM_ADVICE_FOREGROUND, FM_READS(FM_HINT_FOREGROUND)},
		{FM_ADVICE_SLICE, FM_READS(FM_HINT_SLICE)},
		{FM_ADVICE_WEIGHT, FM_READS(FM_HINT_WEIGHT)},
		{FM_ADVICE_SHARE, FM_READS(FM_HINT_SHARE)},
		{FM_ADVICE_DEADLINE, FM_READS(FM_HINT_DEADLINE)},
		{FM_ADVICE_RUNTIME, FM_READS(FM_HINT_RUNTIME)},
		{FM_ADVICE_NO_HINT, 0},
		{FM_ADVICE_LIMIT, FM_READS(FM_HINT_SHARE)},
		{FM_ADVICE_ELSEWHERE, FM_READS(FM_HINT_PRIORITY)},
	};

	for (const struct fm_policy_ops *const *p = fm_policies; *p; p++) {
		uint32_t left = (*p)->advice;

		for (size_t i = 0; i < FM_ARRAY_LEN(about); i++) {
			if (!((*p)->advice & about[i].kind))
				continue;
			left &= ~(uint32_t)about[i].kind;
			if (about[i].hints ? !((*p)->reads & about[i].hints) : (*p)->reads)
				fail_msg("%s: advice %zu", (*p)->name, i);
		}
		assert_int_equal(left, 0);
		assert_int_equal(!(*p)->reads, !((*p)->advice & ~(uint32_t)FM_ADVICE_NO_HINT));
	}
}

static void promises_are_of_settings_that_there_are(void **state)
{
	for (const struct fm_policy_ops *const *p = fm_policies; *p; p++) {
		const struct fm_policy_promise *s = (*p)->promises;

		assert_non_null(s);
		for (; s->bits; s++) {
			int64_t v[FM_POLICY_PARAMS];
			struct fm_err err = {0};
			size_t n = 0;

			while (n < FM_PROMISE_SETTINGS && s->setting[n])
				n++;
			if (fm_policy_parse(*p, s->setting, n, v, &err))
				fail_msg("%s: %s", (*p)->name, err.text);
			assert_int_equal(s->bits >> FM_PROMISE_COUNT, 0);
			assert_true(s->at_once <= FM_RUN_MAX);
			assert_int_equal(!s->at_once, !(s->bits & FM_PROMISE(ALONE)));
		}
	}
}

static int parse(const char *policy, const char *kv, int64_t *values, struct fm_err *err)
{
	return fm_policy_parse(fm_policy_find(policy), &kv, 1, values, err);
}

static void params_take_units(void **state)
{
	int64_t v[FM_POLICY_PARAMS];
	struct fm_err err = {0};

	assert_int_equal(fm_policy_parse(fm_policy_find("fair"), NULL, 0, v, &err), 0);
	assert_int_equal(v[0], 5 * FM_MS);
	assert_int_equal(v[1], FM_MS);
	assert_int_equal(parse("fair", "slice=7", v, &err), 0);
	assert_int_equal(v[0], 7 * FM_MS);
	assert_int_equal(parse("fair", "slice=700us", v, &err), 0);
	assert_int_equal(v[0], 700 * FM_US);
	assert_int_equal(parse("fair", "granularity=0.5", v, &err), 0);
	assert_int_equal(v[1], 500 * FM_US);
	assert_int_equal(parse("bandwidth", "capped=1", v, &err), 0);
	assert_int_equal(v[0], 50 * FM_MS);
	assert_int_equal(v[1], 1);
	assert_int_equal(err.code, 0);
}

static void params_refuse_clearly(void **state)
{
	static const struct {
		const char *policy, *kv;
		int rc;
		const char *hint;
	} bad[] = {
		{"fair", "slcie=5", -EINVAL, "did you mean 'slice'?"},
		{"fair", "colour=5", -EINVAL, "slice, granularity"},
		{"fair", "slice", -EINVAL, "slice, granularity"},
		{"fair", "=5", -EINVAL, "slice, granularity"},
		{"fair", "", -EINVAL, "slice, granularity"},
		{"fair", "slic=5", -EINVAL, "slice"},
		{"fifo", "slice=5", -EINVAL, "no settings"},
		{"fair", "slice=", -EINVAL, "number"},
		{"fair", "slice=5m", -EINVAL, "number"},
		{"fair", "slice=-5", -EINVAL, "number"},
		{"fair", "slice=0", -ERANGE, "0.1 to 10000 ms"},
		{"fair", "slice=11s", -ERANGE, "0.1 to 10000 ms"},
		{"bandwidth", "capped=2", -ERANGE, "0 to 1"},
		{"bandwidth", "capped=yes", -EINVAL, "0 to 1"},
		{"fair", "slice=99999999999999999999999999999999999999999999999999999", -EINVAL,
			""},
	};

	for (size_t i = 0; i < FM_ARRAY_LEN(bad); i++) {
		int64_t v[FM_POLICY_PARAMS];
		struct fm_err err = {0};

		assert_int_equal(parse(bad[i].policy, bad[i].kv, v, &err), bad[i].rc);
		assert_int_equal(err.code, bad[i].rc);
		assert_true(*err.text);
		if (!strstr(err.hint, bad[i].hint))
			fail_msg("'%s': hint '%s' lacks '%s'", bad[i].kv, err.hint, bad[i].hint);
	}
}

static void fifo_lets_all_run(void **state)
{
	struct model m;
	struct client *a, *b;

	model_init(&m, "fifo", NULL, 0);
	a = model_client(&m, 0, ALWAYS, 0);
	b = model_client(&m, 0, ALWAYS, 0);
	assert_true(a->open && b->open);
	fm_sched_ready(m.s, a->e, m.now, m.now);
	fm_sched_ready(m.s, b->e, m.now, m.now);
	assert_true(a->open && b->open);
	assert_int_equal(fm_sched_next(m.s), FM_NEVER);
	assert_false(a->bell_ready || a->bell_idle || b->bell_ready || b->bell_idle);
	fm_sched_free(m.s);
}

static void priority_comes_first(void **state)
{
	struct model m;
	struct client *low, *high;

	model_init(&m, "fixed-priority", NULL, 0);
	m.conserve_work = true;
	low = model_client(&m, 0, ALWAYS, 0);
	high = model_client(&m, 5 * FM_MS, 10 * FM_MS, 10 * FM_MS);
	model_hint(&m, high, FM_HINT_PRIORITY, FM_PRIORITY_HIGH);
	model_run(&m, FM_S);
	/* Each of its jobs of 10 ms is served at once: one job every 20 ms. */
	assert_near(model_share(&m, high, FM_S, 0), 50, 1);
	assert_near(model_share(&m, low, FM_S, 0), 50, 1);
	model_hint(&m, low, FM_HINT_PRIORITY, FM_PRIORITY_REALTIME);
	high->served = 0;
	model_run(&m, FM_S);
	assert_int_equal(high->served, 0);
	fm_sched_free(m.s);
}

static void equal_priorities_take_turns(void **state)
{
	struct model m;
	struct client *c[3];

	model_init(&m, "fixed-priority", PARAMS("slice=2"));
	m.conserve_work = true;
	for (int i = 0; i < 3; i++)
		c[i] = model_client(&m, 0, ALWAYS, 0);
	model_hint(&m, c[2], FM_HINT_PRIORITY, FM_PRIORITY_LOW);
	model_run(&m, 2 * FM_S);
	assert_near(model_share(&m, c[0], FM_S, 0), 50, 0.5);
	assert_near(model_share(&m, c[1], FM_S, 0), 50, 0.5);
	assert_int_equal(c[2]->served, 0);
	/* About a thousand turns of 2 ms, each one store to open and one to close. */
	assert_in_range(c[0]->gates, 900, 1100);
	fm_sched_free(m.s);
}

static void round_robin_takes_turns(void **state)
{
	struct model m;
	struct client *c[4];

	model_init(&m, "round-robin", NULL, 0);
	m.conserve_work = true;
	for (int i = 0; i < 4; i++)
		c[i] = model_client(&m, 0, ALWAYS, 0);
	model_hint(&m, c[3], FM_HINT_SLICE, 15 * FM_MS);
	model_hint(&m, c[0], FM_HINT_PRIORITY, FM_PRIORITY_HIGH); /* not its business */
	model_run(&m, 3 * FM_S);
	for (int i = 0; i < 3; i++)
		assert_near(model_share(&m, c[i], FM_S, 0), 100.0 / 6, 1);
	assert_near(model_share(&m, c[3], FM_S, 0), 50, 1);
	fm_sched_free(m.s);
}

/* Whatever programs wish: changing turns costs all of them. */
static void turns_are_not_too_short(void **state)
{
	struct model m;
	struct client *c[2];

	model_init(&m, "round-robin", NULL, 0);
	m.conserve_work = true;
	for (int i = 0; i < 2; i++) {
		c[i] = model_client(&m, 0, ALWAYS, 0);
		model_hint(&m, c[i], FM_HINT_SLICE, 1);
	}
	model_run(&m, 100 * FM_MS);
	/* 500 turns of 100 us, each one store to open and one to close. */
	for (int i = 0; i < 2; i++)
		assert_in_range(c[i]->gates, 500, 1100);
	fm_sched_free(m.s);
}

static void edf_meets_deadlines(void **state)
{
	struct model m;
	struct client *rest1, *rest2, *tight, *loose;
	uint64_t wait;
	struct fm_ent_info info;

	model_init(&m, "edf", NULL, 0);
	m.conserve_work = true;
	rest1 = model_client(&m, 0, ALWAYS, 0);
	rest2 = model_client(&m, 0, ALWAYS, 0);
	tight = model_client(&m, 0, 2 * FM_MS, 8 * FM_MS);
	loose = model_client(&m, 0, 10 * FM_MS, 30 * FM_MS);
	model_hint(&m, tight, FM_HINT_DEADLINE, 5 * FM_MS);
	model_hint(&m, loose, FM_HINT_PERIOD, 50 * FM_MS);
	model_run(&m, 4 * FM_S);
	assert_near(model_share(&m, tight, FM_S, 0), 20, 1);
	fm_sched_ent_info(tight->e, m.now, &info);
	wait = info.ready_wait_ns;
	assert_true(wait < 10 * FM_MS); /* of 4 s: it never waits for the looser deadline */
	/* 10 ms of work within about 12 ms of response, then a rest of 30 ms. */
	assert_near(model_share(&m, loose, FM_S, 0), 23.5, 2);
	assert_near(model_share(&m, rest1, FM_S, 0), model_share(&m, rest2, FM_S, 0), 1);
	fm_sched_free(m.s);
}

static void fair_divides_by_weight(void **state)
{
	struct model m;
	struct client *a, *b, *c;

	model_init(&m, "fair", NULL, 0);
	m.conserve_work = true;
	a = model_client(&m, 0, ALWAYS, 0);
	b = model_client(&m, 0, ALWAYS, 0);
	c = model_client(&m, 0, ALWAYS, 0);
	model_hint(&m, a, FM_HINT_WEIGHT, 300); /* b: 100 by default */
	model_hint(&m, c, FM_HINT_SHARE, 50);   /* stands in for a weight */
	model_run(&m, 10 * FM_S);
	assert_near(model_share(&m, a, FM_S, 0), 300 / 4.5, POINTS);
	assert_near(model_share(&m, b, FM_S, 0), 100 / 4.5, POINTS);
	assert_near(model_share(&m, c, FM_S, 0), 50 / 4.5, POINTS);
	fm_sched_free(m.s);
}

/* Stalls that come late are charged, so the one who is late waits longer for the next turn. */
static void fair_charges_late_stalls(void **state)
{
	struct model m;
	struct client *a, *b, *c;

	model_init(&m, "fair", NULL, 0);
	a = model_client(&m, 0, ALWAYS, 0);
	b = model_client(&m, 0, ALWAYS, 0);
	c = model_client(&m, 0, ALWAYS, 0);
	a->late = 2 * FM_MS;
	b->late = FM_MS;
	model_hint(&m, c, FM_HINT_WEIGHT, 200);
	model_run(&m, 10 * FM_S);
	assert_near(model_share(&m, a, FM_S, 0), 25, POINTS);
	assert_near(model_share(&m, b, FM_S, 0), 25, POINTS);
	assert_near(model_share(&m, c, FM_S, 0), 50, POINTS);
	fm_sched_free(m.s);
}

static void fair_late_joiner_gets_its_share_only(void **state)
{
	struct model m;
	struct client *a, *b, *sleeper;
	uint64_t from, sa, sb, ss;

	model_init(&m, "fair", NULL, 0);
	m.conserve_work = true;
	a = model_client(&m, 0, ALWAYS, 0);
	b = model_client(&m, 3 * FM_S, ALWAYS, 0);
	a->late = FM_MS;
	sleeper = model_client(&m, 0, FM_MS, 5 * FM_S);
	model_run(&m, 3 * FM_S);
	from = m.now, sa = a->served, sb = b->served;
	model_run(&m, 20 * FM_MS);
	assert_true(b->served - sb <= 14 * FM_MS); /* no claim on the 3 s before it came */
	model_run(&m, 10 * FM_S);
	assert_near(model_share(&m, a, from, sa), 50, POINTS);
	assert_near(model_share(&m, b, from, sb), 50, POINTS);
	sleeper->job = ALWAYS; /* wakes after a long sleep, and stays */
	sleeper->rest = 0;
	model_run(&m, 6 * FM_S);
	from = m.now, sa = a->served, sb = b->served, ss = sleeper->served;
	model_run(&m, 10 * FM_S);
	assert_near(model_share(&m, sleeper, from, ss), 100.0 / 3, POINTS);
	assert_near(model_share(&m, a, from, sa), 100.0 / 3, POINTS);
	fm_sched_free(m.s);
}

static void fair_waker_takes_over(void **state)
{
	struct model m;
	struct client *hog, *brief;
	struct fm_ent_info info;

	model_init(&m, "fair", PARAMS("slice=50"));
	hog = model_client(&m, 0, ALWAYS, 0);
	brief = model_client(&m, 10 * FM_MS, FM_MS, 19 * FM_MS);
	model_run(&m, 5 * FM_S);
	assert_non_null(hog);
	fm_sched_ent_info(brief->e, m.now, &info);
	/* 250 wake-ups: it does not wait for the end of slices of 50 ms. */
	assert_true(info.ready_wait_ns < 50 * FM_MS);
	assert_near(model_share(&m, brief, FM_S, 0), 5, 0.1);
	fm_sched_free(m.s);
}

static void bandwidth_capped_keeps_to_shares(void **state)
{
	struct model m;
	struct client *a, *b;

	model_init(&m, "bandwidth", PARAMS("capped=1"));
	a = model_client(&m, 0, ALWAYS, 0);
	b = model_client(&m, 330 * FM_MS, ALWAYS, 0);
	model_hint(&m, a, FM_HINT_SHARE, 30);
	model_hint(&m, b, FM_HINT_SHARE, 20);
	a->late = 2 * FM_MS;
	b->late = FM_MS;
	model_run(&m, 10 * FM_S);
	assert_near(model_share(&m, a, FM_S, 0), 30, POINTS);
	assert_near(model_share(&m, b, FM_S, 0), 20, POINTS);
	assert_near(100.0 * (double)m.idle_ns / (10.0 * (double)FM_S), 50, 2 * POINTS);
	fm_sched_free(m.s);
}

static void bandwidth_caps_one_alone(void **state)
{
	struct model m;
	struct client *a;

	model_init(&m, "bandwidth", PARAMS("capped=1", "period=20"));
	a = model_client(&m, 0, 3 * FM_MS, FM_MS);
	assert_true(a->bell_ready);
	model_hint(&m, a, FM_HINT_SHARE, 25);
	a->late = FM_MS;
	model_run(&m, 10 * FM_S);
	assert_near(model_share(&m, a, FM_S, 0), 25, POINTS);
	fm_sched_free(m.s);
}

static void bandwidth_gives_spare_time_away(void **state)
{
	struct model m;
	struct client *a, *b, *free1, *free2;
	uint64_t from, sa, sb;

	model_init(&m, "bandwidth", NULL, 0);
	m.conserve_work = true;
	a = model_client(&m, 0, ALWAYS, 0);
	b = model_client(&m, 0, ALWAYS, 0);
	model_hint(&m, a, FM_HINT_SHARE, 30);
	model_hint(&m, b, FM_HINT_SHARE, 20);
	a->late = FM_MS;
	b->late = 2 * FM_MS;
	model_run(&m, 10 * FM_S); /* spare time in proportion to the shares */
	assert_near(model_share(&m, a, FM_S, 0), 60, POINTS);
	assert_near(model_share(&m, b, FM_S, 0), 40, POINTS);
	free1 = model_client(&m, 10 * FM_MS, ALWAYS, 0);
	free2 = model_client(&m, 200 * FM_MS, ALWAYS, 0);
	free1->late = 2 * FM_MS;
	from = m.now, sa = a->served, sb = b->served;
	model_run(&m, 10 * FM_S); /* those without a reservation share the rest */
	assert_near(model_share(&m, a, from, sa), 30, POINTS);
	assert_near(model_share(&m, b, from, sb), 20, POINTS);
	assert_near(model_share(&m, free1, from, 0), 25, POINTS);
	assert_near(model_share(&m, free2, from, 0), 25, POINTS);
	fm_sched_free(m.s);
}

static void bandwidth_scales_down(void **state)
{
	struct model m;
	struct client *a, *b;
	uint64_t from, sa;

	for (int capped = 0; capped < 2; capped++) {
		model_init(&m, "bandwidth", PARAMS(capped ? "capped=1" : "capped=0"));
		a = model_client(&m, 0, ALWAYS, 0);
		b = model_client(&m, 5 * FM_S, ALWAYS, 0);
		model_hint(&m, a, FM_HINT_SHARE, 90);
		model_hint(&m, b, FM_HINT_SHARE, 60);
		a->late = 2 * FM_MS;
		model_run(&m, 5 * FM_S);
		assert_near(model_share(&m, a, FM_S, 0), capped ? 60 : 100, POINTS);
		from = m.now, sa = a->served;
		model_run(&m, 10 * FM_S);
		assert_near(model_share(&m, a, from, sa), 60, POINTS);
		assert_near(model_share(&m, b, from, 0), 40, POINTS);
		fm_sched_free(m.s);
	}
}

/* A reservation holds for one who sleeps between jobs, and sleep earns no burst. */
static void bandwidth_with_uneven_arrivals(void **state)
{
	struct model m;
	struct client *bursty, *steady, *rest;

	model_init(&m, "bandwidth", NULL, 0);
	bursty = model_client(&m, 0, 40 * FM_MS, 13 * FM_MS);
	steady = model_client(&m, 0, ALWAYS, 0);
	rest = model_client(&m, 77 * FM_MS, 7 * FM_MS, FM_MS);
	model_hint(&m, bursty, FM_HINT_SHARE, 25);
	model_hint(&m, steady, FM_HINT_SHARE, 40);
	bursty->late = FM_MS;
	rest->late = 2 * FM_MS;
	model_run(&m, 10 * FM_S);
	assert_near(
		model_share(&m, steady, FM_S, 0), 42, 2 * POINTS); /* and crumbs of spare time */
	assert_true(model_share(&m, bursty, FM_S, 0) < 25 + POINTS);
	assert_true(model_share(&m, bursty, FM_S, 0) > 21);
	assert_true(model_share(&m, rest, FM_S, 0) > 28);
	fm_sched_free(m.s);
}

/* Alone for long it took much, and owes nothing when others come. */
static void bandwidth_past_alone_is_free(void **state)
{
	struct model m;
	struct client *a, *b;
	uint64_t from, sa;

	model_init(&m, "bandwidth", NULL, 0);
	a = model_client(&m, 0, ALWAYS, 0);
	b = model_client(&m, 5 * FM_S, ALWAYS, 0);
	model_hint(&m, a, FM_HINT_SHARE, 50);
	model_hint(&m, b, FM_HINT_SHARE, 50);
	model_run(&m, 5 * FM_S);
	assert_near(model_share(&m, a, FM_S, 0), 100, 0.1);
	from = m.now, sa = a->served;
	model_run(&m, 4 * FM_S);
	assert_near(model_share(&m, a, from, sa), 50, POINTS);
	assert_near(model_share(&m, b, from, 0), 50, POINTS);
	fm_sched_free(m.s);
}

/* Toggling one's own hint is no way to fresh budgets. */
static void bandwidth_hint_toggling_gains_nothing(void **state)
{
	struct model m;
	struct client *cheat, *other;

	model_init(&m, "bandwidth", NULL, 0);
	cheat = model_client(&m, 0, ALWAYS, 0);
	other = model_client(&m, 0, ALWAYS, 0);
	model_hint(&m, cheat, FM_HINT_SHARE, 20);
	for (int i = 0; i < 4000; i++) {
		model_hint(&m, cheat, FM_HINT_SHARE, i % 2 ? 20 : 21);
		model_run(&m, FM_MS);
	}
	assert_near(model_share(&m, cheat, FM_S, 0), 20, POINTS);
	assert_near(model_share(&m, other, FM_S, 0), 80, POINTS);
	fm_sched_free(m.s);
}

static uint64_t decisions(const struct model *m)
{
	struct fm_sched_stats st;

	fm_sched_get_stats(m->s, &st);
	return st.decisions;
}

/* Between events a policy asks to be called when a turn ends or a claim changes, not all the time.
 */
static void rests(const char *policy, bool equals)
{
	struct model m;
	uint64_t before;

	model_init(&m, policy, NULL, 0);
	m.at_once = CLIENTS;
	for (int i = 0; i < CLIENTS; i++) {
		struct client *c = model_client(&m, 0, ALWAYS, 0);

		model_hint(&m, c, FM_HINT_PRIORITY, equals ? 0 : i);
		model_hint(&m, c, FM_HINT_DEADLINE, i % 4 ? i * 700 * (int64_t)FM_MS : 0);
		model_hint(&m, c, FM_HINT_SHARE, i % 3 ? 0 : 10);
		model_hint(&m, c, FM_HINT_FOREGROUND, i == 3);
	}
	model_run(&m, FM_MS);
	before = decisions(&m);
	model_run(&m, 3 * FM_S);
	/* Turns of 2 ms at the shortest, and a change of claims beside each. */
	if (decisions(&m) - before > 3000)
		fail_msg("%s: %lu decisions", policy, (unsigned long)(decisions(&m) - before));
	fm_sched_free(m.s);
}

static void no_policy_is_restless(void **state)
{
	for (const struct fm_policy_ops *const *p = fm_policies; *p; p++) {
		rests((*p)->name, true);
		rests((*p)->name, false);
	}
}

/* It pauses for half a millisecond after each 1.3: in the pauses the other has all, and half
 * besides. So of each 3.1 ms it has 1.3. But who sleeps for long comes back with no more claims
 * than it went with, however heavy it is. */
static void fair_pauses_cost_no_turns(void **state)
{
	struct client *pauses, *busy;
	struct model m;
	uint64_t from;

	model_init(&m, "fair", PARAMS("slice=20"));
	pauses = model_client(&m, 0, 1300 * FM_US, 500 * FM_US);
	busy = model_client(&m, 0, FM_MS, 0);
	model_run(&m, FM_S);
	from = m.now;
	model_mark(&m);
	model_run(&m, 10 * FM_S);
	assert_near(model_share(&m, pauses, from, 0), 100 * 1.3 / 3.1, 2);
	model_hint(&m, pauses, FM_HINT_WEIGHT, 10000);
	pauses->rest = 5 * FM_S;
	pauses->job = FM_S;
	model_run(&m, 7 * FM_S); /* it sleeps, and is back */
	model_hint(&m, pauses, FM_HINT_WEIGHT, 100);
	model_mark(&m);
	from = m.now;
	model_run(&m, 200 * FM_MS);
	assert_true(busy->served > 50 * FM_MS);
	fm_sched_free(m.s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(table_is_whole),
		cmocka_unit_test(advice_is_about_hints_that_are_read),
		cmocka_unit_test(promises_are_of_settings_that_there_are),
		cmocka_unit_test(params_take_units),
		cmocka_unit_test(params_refuse_clearly),
		cmocka_unit_test(no_policy_is_restless),
		cmocka_unit_test(fifo_lets_all_run),
		cmocka_unit_test(priority_comes_first),
		cmocka_unit_test(equal_priorities_take_turns),
		cmocka_unit_test(round_robin_takes_turns),
		cmocka_unit_test(turns_are_not_too_short),
		cmocka_unit_test(edf_meets_deadlines),
		cmocka_unit_test(fair_divides_by_weight),
		cmocka_unit_test(fair_charges_late_stalls),
		cmocka_unit_test(fair_late_joiner_gets_its_share_only),
		cmocka_unit_test(fair_waker_takes_over),
		cmocka_unit_test(bandwidth_capped_keeps_to_shares),
		cmocka_unit_test(bandwidth_caps_one_alone),
		cmocka_unit_test(bandwidth_gives_spare_time_away),
		cmocka_unit_test(bandwidth_scales_down),
		cmocka_unit_test(bandwidth_with_uneven_arrivals),
		cmocka_unit_test(bandwidth_past_alone_is_free),
		cmocka_unit_test(bandwidth_hint_toggling_gains_nothing),
		cmocka_unit_test(fair_pauses_cost_no_turns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
