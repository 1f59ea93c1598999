/* SPDX-License-Identifier: Apache-2.0 */
/* Admitted tasks on a bridge in virtual time: who is admitted, and that budgets and bounds are
 * watched to the nanosecond. */
#include "../bridge/bridge_world.h"
#include "admit/admit.h"

struct admission {
	struct world *w;
	struct fm_admit *admit;
	struct fm_bridge_group *group[2]; /* of clients a and z; data of their tasks is the index */
	unsigned overran[2], violated[2];
	uint64_t used, took;
	bool ended;
	char why[FM_ADMIT_WHY];
};

static uint64_t on_used(void *ctx, void *data, uint64_t now, unsigned *devices)
{
	struct admission *a = ctx;

	return fm_bridge_group_used(a->group[(uintptr_t)data], now, devices);
}

static void on_place(void *ctx, void *data, enum fm_astate state, int64_t place, uint64_t now)
{
	static const enum fm_grant grant[] = {FM_GRANT_PLACE, FM_GRANT_DEMOTED, FM_GRANT_STOPPED};
	struct admission *a = ctx;

	fm_bridge_group_grant(a->w->b, a->group[(uintptr_t)data], grant[state], place, now);
}

static void on_overran(void *ctx, void *data, uint64_t used, int64_t budget)
{
	struct admission *a = ctx;

	a->overran[(uintptr_t)data]++;
	a->used = used;
}

static void on_violated(void *ctx, void *data, uint64_t took, bool ended, const char *why)
{
	struct admission *a = ctx;

	a->violated[(uintptr_t)data]++;
	a->took = took;
	a->ended = ended;
	snprintf(a->why, sizeof(a->why), "%s", why);
}

static void on_edge(void *ctx, void *watch, const struct fm_bridge_group_edge *e)
{
	struct admission *a = ctx;

	fm_atask_edge(a->admit, watch, e->busy, e->declared, e->at, a->w->now);
}

static void on_rested(void *ctx, const struct fm_bridge_group *g, uint64_t took, uint64_t at)
{
	struct fm_bridge_group_info info;
	struct admission *a = ctx;

	fm_bridge_group_info(g, &info);
	fm_admit_rested(a->admit, info.name, info.uid, took, at);
}

static int setup_admission(void **state)
{
	static const struct fm_admit_host host = {on_used, on_place, on_overran, on_violated};
	struct admission *a = calloc(1, sizeof(*a));
	void *w;

	setup(&w);
	a->w = w;
	assert_int_equal(fm_admit_new(&a->admit, &host, a), 0);
	fm_bridge_watcher(a->w->b,
		&(struct fm_bridge_watcher){.ctx = a, .edge = on_edge, .rested = on_rested});
	assert_int_equal(add_queue(a->w, &a->w->a, 0), 0);
	assert_int_equal(add_queue(a->w, &a->w->z, 0), 0);
	a->group[0] = group_of(&a->w->a, 0);
	a->group[1] = group_of(&a->w->z, 0);
	*state = a;
	return 0;
}

static int teardown_admission(void **state)
{
	struct admission *a = *state;
	void *w = a->w;

	fm_bridge_watcher(a->w->b, &(struct fm_bridge_watcher){0});
	fm_admit_free(a->admit);
	free(a);
	return teardown(&w);
}

static struct fm_admit_spec spec(const char *name, int64_t period_ms, int64_t gpu_ms, uintptr_t who)
{
	struct fm_admit_spec s = {.own_cpu = true,
		.period = period_ms * (int64_t)FM_MS,
		.deadline = period_ms * (int64_t)FM_MS,
		.gpu_total = FM_RTA_UNSET,
		.segments = 1,
		.segment = {{gpu_ms * (int64_t)FM_MS, 0, gpu_ms * (int64_t)FM_MS}},
		.epsilon = 100000,
		.data = (void *)who};

	snprintf(s.name, sizeof(s.name), "%s", name);
	return s;
}

/* NULL: refused, or wrong; then *answer and the return of ask() say which. */
static struct fm_atask *ask(
	struct admission *a, struct fm_admit_spec s, struct fm_admit_answer *answer)
{
	struct fm_atask *t;
	struct fm_err err;

	assert_int_equal(
		fm_admit_ask(a->admit, &s, 1, false, true, &t, answer, a->w->now, &err), 0);
	assert_int_equal(answer->admitted, t != NULL);
	return t;
}

static struct fm_atask *admit(struct admission *a, struct fm_admit_spec s)
{
	struct fm_admit_answer answer = {0};
	struct fm_atask *t = ask(a, s, &answer);

	assert_non_null(t);
	fm_atask_bound(a->admit, t, true, a->w->now);
	fm_bridge_group_watch(a->w->b, a->group[(uintptr_t)s.data], t, a->w->now);
	return t;
}

/* Let time pass for both, doing what is due on the way. */
static void live(struct admission *a, uint64_t ns)
{
	struct world *w = a->w;
	uint64_t end = w->now + ns, next;

	for (;;) {
		fm_admit_run(a->admit, w->now);
		next = FM_MIN(fm_bridge_run(w->b, w->now), fm_admit_next(a->admit));
		if (next > end)
			break;
		w->now = FM_MAX(next, w->now + 1);
	}
	w->now = end;
	fm_admit_run(a->admit, w->now);
	fm_bridge_run(w->b, w->now);
}

/* n commands, of which so many are let past; a client that is alone is believed its device time. */
static void start(struct admission *a, struct client *c, uint64_t n, uint64_t past)
{
	struct fm_slot *s = &c->board->slot[0];

	atomic_fetch_add(&s->begun, n);
	atomic_fetch_add(&s->released, past);
	atomic_store(&s->busy_since, a->w->now);
	ring(a->w, c);
	fm_admit_run(a->admit, a->w->now);
}

static void end(struct admission *a, struct client *c)
{
	struct fm_slot *s = &c->board->slot[0];

	atomic_fetch_add(&s->device_ns, a->w->now - atomic_exchange(&s->busy_since, 0));
	atomic_store(&s->released, atomic_load(&s->begun));
	finish(a->w, c, 0);
	ring(a->w, c);
	fm_admit_run(a->admit, a->w->now);
}

/* Work without end, which stalls at once when its gate closes. */
static void keep_busy(struct admission *a, struct client *c)
{
	start(a, c, 1000, 0);
}

static void work(struct admission *a, struct client *c, uint64_t ns)
{
	start(a, c, 1, 1);
	live(a, ns);
	end(a, c);
}

static bool a_runs(const struct admission *a)
{
	return open_gate(&a->w->a, 0);
}

static bool z_runs(const struct admission *a)
{
	return open_gate(&a->w->z, 0);
}

static void demoted_for_the_rest_of_the_period(void **state)
{
	struct admission *a = *state;

	give_hint(a->w, &a->w->z, FM_HINT_PRIORITY, FM_PRIORITY_MAX);
	admit(a, spec("a", 20, 5, 0));
	keep_busy(a, &a->w->z);
	keep_busy(a, &a->w->a);
	for (unsigned period = 1; period <= 3; period++) {
		assert_true(a_runs(a) && !z_runs(a)); /* above every priority */
		live(a, 5 * FM_MS);
		assert_true(a_runs(a) && !z_runs(a)); /* all of its budget, and no more */
		assert_int_equal(a->overran[0], period - 1);
		live(a, 1);
		assert_true(!a_runs(a) && z_runs(a));
		assert_int_equal(a->overran[0], period);
		assert_int_equal(a->used, 5 * FM_MS + 1);
		live(a, 15 * FM_MS - 2);
		assert_true(!a_runs(a) && z_runs(a));
		live(a, 1);
	}
}

static void demoted_runs_where_nobody_waits(void **state)
{
	struct admission *a = *state;

	admit(a, spec("a", 20, 5, 0));
	keep_busy(a, &a->w->a);
	live(a, 10 * FM_MS);
	assert_int_equal(a->overran[0], 1);
	assert_true(a_runs(a));
}

static void stopped_until_the_next_period(void **state)
{
	struct fm_admit_spec s = spec("a", 20, 5, 0);
	struct admission *a = *state;
	struct fm_atask_info i;
	struct fm_atask *t;

	s.overrun = FM_OVERRUN_STOP;
	t = admit(a, s);
	keep_busy(a, &a->w->a);
	live(a, 5 * FM_MS);
	assert_true(a_runs(a));
	live(a, 1);
	assert_false(a_runs(a));
	fm_atask_info(a->admit, t, a->w->now, &i);
	assert_int_equal(i.state, FM_ATASK_STOPPED);
	live(a, 15 * FM_MS - 2);
	assert_false(a_runs(a));
	live(a, 1);
	assert_true(a_runs(a));
	fm_bridge_group_suspend(
		a->w->b, a->group[0], true, a->w->now); /* both, one after the other */
	live(a, 40 * FM_MS);
	assert_false(a_runs(a));
	fm_bridge_group_suspend(a->w->b, a->group[0], false, a->w->now);
	assert_true(a_runs(a));
}

static void reported_and_left_alone(void **state)
{
	struct fm_admit_spec s = spec("a", 20, 5, 0);
	struct admission *a = *state;

	s.overrun = FM_OVERRUN_REPORT;
	admit(a, s);
	keep_busy(a, &a->w->z);
	keep_busy(a, &a->w->a);
	live(a, 59 * FM_MS);
	assert_int_equal(a->overran[0], 3);
	assert_true(a_runs(a) && !z_runs(a));
}

static void response_times_of_jobs(void **state)
{
	struct fm_admit_spec s = spec("a", 20, 5, 0);
	struct admission *a = *state;
	struct fm_atask_info i;
	struct fm_atask *t;

	s.segments = 2; /* a job is two stretches */
	s.segment[1] = s.segment[0];
	t = admit(a, s);
	for (unsigned job = 1; job <= 3; job++) {
		work(a, &a->w->a, FM_MS);
		live(a, 50 * FM_US); /* a pause within the stretch */
		work(a, &a->w->a, FM_MS);
		live(a, FM_MS);
		fm_atask_info(a->admit, t, a->w->now, &i);
		assert_int_equal(i.jobs, job - 1);
		work(a, &a->w->a, 2 * FM_MS);
		live(a, FM_MS);
		fm_atask_info(a->admit, t, a->w->now, &i);
		assert_int_equal(i.jobs, job);
		assert_int_equal(i.response->min, 5050 * FM_US);
		assert_int_equal(i.response->max, 5050 * FM_US);
		live(a, 20 * FM_MS - 6050 * FM_US);
	}
	assert_int_equal(i.overruns + i.violations, 0);
}

static void segments_that_are_declared_are_stretches(void **state)
{
	struct admission *a = *state;
	struct fm_atask *t = admit(a, spec("a", 20, 5, 0));
	struct fm_atask_info i;

	for (unsigned job = 1; job <= 2; job++) {
		segment(a->w, &a->w->a, 1, FM_SEGMENT_KEEP);
		work(a, &a->w->a, FM_MS);
		live(a, FM_MS);
		work(a, &a->w->a, FM_MS);
		segment(a->w, &a->w->a, 0, FM_SEGMENT_KEEP);
		fm_admit_run(a->admit, a->w->now); /* ends at once: no pause is awaited */
		fm_atask_info(a->admit, t, a->w->now, &i);
		assert_int_equal(i.jobs, job);
		assert_int_equal(i.response->max, 3 * FM_MS);
	}
}

/* Its period is not over: it is another job, but of the same budget. */
static void early_jobs_share_a_budget(void **state)
{
	struct admission *a = *state;
	struct fm_atask *t = admit(a, spec("a", 20, 5, 0));
	struct fm_atask_info i;

	keep_busy(a, &a->w->z);
	work(a, &a->w->a, 3 * FM_MS);
	live(a, 3 * FM_MS);
	start(a, &a->w->a, 1, 0);
	live(a, 2 * FM_MS - 200 * FM_US); /* it lingered, and was charged for that */
	assert_true(a_runs(a));
	live(a, 200 * FM_US + 1);
	assert_int_equal(a->overran[0], 1);
	fm_atask_info(a->admit, t, a->w->now, &i);
	assert_int_equal(i.jobs, 1);
}

static void late_by_the_overrun_of_another(void **state)
{
	struct fm_admit_spec urgent = spec("urgent", 20, 5, 0);
	struct admission *a = *state;
	struct fm_atask_info i;
	struct fm_atask *t;

	urgent.overrun = FM_OVERRUN_REPORT;
	urgent.user = 1;
	admit(a, urgent);
	t = admit(a, spec("other", 100, 10, 1));
	fm_atask_info(a->admit, t, a->w->now, &i);
	assert_true(i.bound > 10 * (int64_t)FM_MS && i.bound < 30 * (int64_t)FM_MS);
	keep_busy(a, &a->w->z);
	keep_busy(a, &a->w->a);
	live(a, (uint64_t)i.bound);
	assert_int_equal(a->violated[1], 0);
	live(a, 1);
	assert_int_equal(a->violated[1], 1);
	assert_false(a->ended);
	assert_int_equal(a->took, i.bound + 1);
	assert_string_equal(a->why, "overrun of task urgent");
	fm_atask_info(a->admit, t, a->w->now, &i);
	assert_string_equal(i.why_own, "overrun of a task of another user");
	live(a, 100 * FM_MS);
	assert_int_equal(a->violated[1], 1); /* once a job */
}

static void late_by_itself_by_hand_or_by_who_does_not_let_go(void **state)
{
	struct admission *a = *state;
	struct fm_atask *t = admit(a, spec("a", 20, 5, 0));
	struct fm_atask_info i;

	keep_busy(a, &a->w->a);
	live(a, 20 * FM_MS - 1);
	assert_string_equal(a->why, "it used more of the device than it had declared");
	end(a, &a->w->a);
	live(a, 40 * FM_MS);

	fm_bridge_group_suspend(a->w->b, a->group[0], true, a->w->now);
	start(a, &a->w->a, 1, 0);
	fm_atask_suspended(t, true, a->w->now);
	live(a, 19 * FM_MS);
	assert_int_equal(a->violated[0], 2);
	assert_string_equal(a->why, "its group was suspended by hand");
	fm_bridge_group_suspend(a->w->b, a->group[0], false, a->w->now);
	fm_atask_suspended(t, false, a->w->now);
	end(a, &a->w->a);
	live(a, 40 * FM_MS);

	start(a, &a->w->z, 1, 1); /* let past: it ends when it ends */
	live(a, FM_MS);
	start(a, &a->w->a, 1, 0);
	live(a, 4 * FM_MS);
	end(a, &a->w->z);
	live(a, 4 * FM_MS);
	assert_int_equal(a->violated[0], 3);
	assert_string_equal(a->why, "zeta-22 let go of the device 4.000 ms after its gates closed");
	fm_atask_info(a->admit, t, a->w->now, &i);
	assert_string_equal(i.why_own,
		"a group of another user let go of the device 4.000 ms after its gates closed");
	end(a, &a->w->a);
	live(a, 40 * FM_MS);
}

static void late_by_a_wait_of_its_own(void **state)
{
	struct fm_admit_spec s = spec("a", 40, 5, 0);
	struct admission *a = *state;

	s.segments = 2;
	s.segment[1] = s.segment[0];
	admit(a, s);
	work(a, &a->w->a, FM_MS);
	live(a, 20 * FM_MS);
	assert_int_equal(a->violated[0], 0); /* who knows whether there is a second stretch */
	work(a, &a->w->a, FM_MS);
	assert_int_equal(a->violated[0], 1);
	assert_string_equal(a->why,
		"not the device, but its processor, or more segments than it had "
		"declared");
}

/* Where the device is not to blame, and it was not over its budget, either. */
static void late_because_it_came_early(void **state)
{
	struct fm_admit_spec s = spec("a", 40, 5, 0);
	struct admission *a = *state;

	s.segments = 2;
	s.segment[1] = s.segment[0];
	admit(a, s);
	work(a, &a->w->a, FM_MS);
	live(a, FM_MS);
	work(a, &a->w->a, FM_MS);
	live(a, 5 * FM_MS);
	work(a, &a->w->a, FM_MS);
	live(a, 20 * FM_MS);
	work(a, &a->w->a, FM_MS);
	assert_int_equal(a->violated[0], 1);
	assert_int_equal(a->overran[0], 0);
	assert_string_equal(a->why, "it came before its period was over");
}

static void all_of_the_budget_is_not_too_much(void **state)
{
	struct admission *a = *state;
	struct fm_atask *t = admit(a, spec("a", 20, 5, 0));
	struct fm_atask_info i;

	for (unsigned job = 0; job < 3; job++) {
		work(a, &a->w->a, 5 * FM_MS);
		live(a, 18 * FM_MS); /* sporadic: its period begins with its job */
	}
	fm_atask_info(a->admit, t, a->w->now, &i);
	assert_int_equal(i.jobs, 3);
	assert_int_equal(i.overruns + i.violations, 0);

	work(a, &a->w->a, 3 * FM_MS);
	live(a, 12 * FM_MS);
	work(a, &a->w->a, 3 * FM_MS); /* the same period, as it began with the use before */
	fm_atask_info(a->admit, t, a->w->now, &i);
	assert_int_equal(i.overruns, 1);
	assert_int_equal(i.state, FM_ATASK_DEMOTED);
	live(a, 3 * FM_MS); /* it rests, and its period ends */
	fm_atask_info(a->admit, t, a->w->now, &i);
	assert_int_equal(i.state, FM_ATASK_PLACED);
}

/* The daemon was away for a while. */
static void looks_may_be_late(void **state)
{
	struct admission *a = *state;

	keep_busy(a, &a->w->z);
	admit(a, spec("a", 20, 5, 0));
	keep_busy(a, &a->w->a);
	live(a, 6 * FM_MS);
	assert_false(a_runs(a));
	a->w->now += 36 * FM_MS;
	live(a, 0);
	assert_true(a_runs(a)); /* since 2 ms ago, in the third period */
	live(a, 5 * FM_MS + 1);
	assert_false(a_runs(a));
	live(a, 13 * FM_MS - 2);
	assert_false(a_runs(a));
	live(a, 1);
	assert_true(a_runs(a));

	end(a, &a->w->a);
	live(a, 40 * FM_MS);
	a->violated[0] = 0;
	start(a, &a->w->a, 1, 1);
	a->w->now += 8 * FM_MS;
	finish(a->w, &a->w->a, 0);
	ring(a->w, &a->w->a);
	live(a, FM_MS);
	assert_int_equal(a->violated[0], 1);
	assert_true(a->ended);
	assert_int_equal(a->took, 8 * FM_MS);
}

static void refused_by_name_until_there_is_room(void **state)
{
	struct admission *a = *state;
	struct fm_admit_answer answer = {0};
	struct fm_atask *first = admit(a, spec("first", 20, 12, 0));
	struct fm_admit_spec second = spec("second", 30, 15, 1);

	assert_null(ask(a, second, &answer));
	assert_string_equal(answer.who.name, "second");
	assert_true(answer.is_new && answer.verdict == FM_RTA_MISSES);
	assert_true(answer.wcrt > second.deadline);
	second.priority = 1; /* then it is the other that misses */
	assert_null(ask(a, second, &answer));
	assert_string_equal(answer.who.name, "first");
	assert_false(answer.is_new);
	assert_int_equal(fm_admit_count(a->admit), 1);
	fm_bridge_group_watch(a->w->b, a->group[0], NULL, a->w->now);
	fm_admit_remove(a->admit, first);
	assert_non_null(ask(a, second, &answer));
}

static void what_makes_no_sense_changes_nothing(void **state)
{
	struct admission *a = *state;
	struct fm_admit_spec s[] = {spec("", 20, 5, 0), spec("p", 20, 5, 0), spec("d", 20, 5, 0),
		spec("c", 20, 5, 0), spec("g", 20, 5, 0), spec("e", 20, 5, 0)};
	struct fm_admit_answer answer = {0};
	struct fm_admit_spec both[2] = {spec("good", 20, 5, 0)};
	struct fm_atask *out[2];
	struct fm_err err;

	s[0].period = 0;
	s[1].priority = -1;
	s[2].deadline = s[2].period + 1;
	s[3].cpu_time = INT64_MAX;
	s[4].segment[0].gpu = -1;
	s[5].epsilon = -2;
	for (size_t i = 0; i < FM_ARRAY_LEN(s); i++) {
		both[1] = s[i];
		assert_int_equal(
			fm_admit_ask(a->admit, both, 2, false, true, out, &answer, a->w->now, &err),
			-EINVAL);
		assert_true(err.text[0] && !out[0] && !out[1]);
		assert_int_equal(fm_admit_count(a->admit), 0);
	}
	both[0].epsilon = FM_RTA_UNSET;
	assert_int_equal(
		fm_admit_ask(a->admit, both, 1, false, true, out, &answer, a->w->now, &err),
		-ENODATA);
	assert_int_equal(fm_admit_count(a->admit), 0);
}

/* What was found step by step is what is found at once. */
static void bounds_do_not_depend_on_the_order_of_asking(void **state)
{
	struct admission *a = *state;
	struct fm_admit_spec s[6];
	struct fm_admit_answer answer = {0};
	struct fm_atask *one[6], *all[6];
	struct fm_atask_info i, k;
	struct fm_admit *other;
	struct fm_err err;

	for (unsigned n = 0; n < 6; n++) {
		s[n] = spec("n", 200 - 20 * (int64_t)n, 5 + n, 0);
		assert_int_equal(
			fm_admit_ask(a->admit, &s[n], 1, false, true, &one[n], &answer, 0, &err),
			0);
		assert_non_null(one[n]);
	}
	assert_int_equal(fm_admit_new(&other, &(struct fm_admit_host){0}, NULL), 0);
	assert_int_equal(fm_admit_ask(other, s, 6, false, true, all, &answer, 0, &err), 0);
	for (unsigned n = 0; n < 6; n++) {
		fm_atask_info(a->admit, one[n], 0, &i);
		fm_atask_info(other, all[n], 0, &k);
		assert_int_equal(i.bound, k.bound);
		assert_true(i.bound > 0);
	}
	fm_admit_free(other);
}

/* In three parts: the answer is that of one, and of no use when the tasks are others by then. */
static void decided_elsewhere(void **state)
{
	struct admission *a = *state;
	struct fm_admit_spec s = spec("b", 50, 10, 1);
	struct fm_admit_answer answer = {0};
	struct fm_admit_question *q;
	struct fm_atask *t, *first = admit(a, spec("a", 20, 5, 0));
	struct fm_atask_info before, after;
	struct fm_err err;

	assert_int_equal(fm_admit_prepare(a->admit, &s, 1, false, true, &q, &err), 0);
	assert_int_equal(fm_admit_count(a->admit), 1);
	fm_admit_decide(q);
	assert_false(fm_admit_gave_up(q));
	fm_atask_info(a->admit, first, a->w->now, &before);
	assert_int_equal(
		fm_admit_finish(a->admit, q, &s, 1, true, &t, &answer, a->w->now, &err), 0);
	assert_true(answer.admitted && t && fm_admit_count(a->admit) == 2);
	fm_atask_info(a->admit, first, a->w->now, &after);
	assert_true(after.bound >= before.bound);
	assert_int_equal(
		fm_admit_finish(a->admit, q, &s, 1, true, &t, &answer, a->w->now, &err), -ESTALE);
	assert_null(t);
	fm_admit_question_free(q);
	assert_int_equal(fm_admit_count(a->admit), 2);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup_admission, teardown_admission)
	const struct CMUnitTest tests[] = {
		CASE(demoted_for_the_rest_of_the_period),
		CASE(demoted_runs_where_nobody_waits),
		CASE(stopped_until_the_next_period),
		CASE(reported_and_left_alone),
		CASE(response_times_of_jobs),
		CASE(segments_that_are_declared_are_stretches),
		CASE(early_jobs_share_a_budget),
		CASE(late_by_the_overrun_of_another),
		CASE(late_by_itself_by_hand_or_by_who_does_not_let_go),
		CASE(late_by_a_wait_of_its_own),
		CASE(late_because_it_came_early),
		CASE(all_of_the_budget_is_not_too_much),
		CASE(looks_may_be_late),
		CASE(refused_by_name_until_there_is_room),
		CASE(what_makes_no_sense_changes_nothing),
		CASE(bounds_do_not_depend_on_the_order_of_asking),
		CASE(decided_elsewhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
