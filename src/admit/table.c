/* SPDX-License-Identifier: Apache-2.0 */
/* The table of tasks, and the analysis over all of them. */
#include "base/cleanup.h"
#include "internal.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Looks of one task at another in one analysis: the daemon decides for devices meanwhile. */
#define EFFORT       UINT64_C(3000000)
#define EFFORT_QUICK UINT64_C(250000)

static const char *const overruns[] = {
	[FM_OVERRUN_DEMOTE] = "demote", [FM_OVERRUN_STOP] = "stop", [FM_OVERRUN_REPORT] = "report"};

const char *fm_overrun_name(enum fm_overrun o)
{
	return (unsigned)o < FM_ARRAY_LEN(overruns) ? overruns[o] : "?";
}

int fm_overrun_find(const char *name, enum fm_overrun *o)
{
	for (unsigned i = 0; i < FM_ARRAY_LEN(overruns); i++) {
		if (strcmp(name, overruns[i]))
			continue;
		*o = (enum fm_overrun)i;
		return 0;
	}
	return -ENOENT;
}

int fm_admit_new(struct fm_admit **out, const struct fm_admit_host *host, void *ctx)
{
	struct fm_admit *a = calloc(1, sizeof(*a));

	if (!a)
		return -ENOMEM;
	a->host = *host;
	a->ctx = ctx;
	a->config = (struct fm_admit_config){FM_RTA_GCAPS_SUSPEND, FM_RTA_UNSET, 100 * FM_US};
	a->epsilon = FM_RTA_UNSET;
	*out = a;
	return 0;
}

static void task_free(struct fm_atask *t)
{
	free(t->response);
	free(t);
}

void fm_admit_free(struct fm_admit *a)
{
	if (!a)
		return;
	for (size_t i = 0; i < a->n; i++)
		task_free(a->task[i]);
	free(a->task);
	fm_heap_fini(&a->due);
	free(a);
}

/* What anybody knows, and the worst of it. */
static void find_epsilon(struct fm_admit *a)
{
	a->epsilon = a->config.epsilon;
	for (size_t i = 0; i < a->n; i++)
		a->epsilon = FM_MAX(a->epsilon, a->task[i]->spec.epsilon);
}

/* Bounds were found under other conditions: the next analysis begins from nothing. */
void fm_admit_configure(struct fm_admit *a, const struct fm_admit_config *c)
{
	a->config = *c;
	a->grows = false;
	a->version++;
	find_epsilon(a);
}

size_t fm_admit_count(const struct fm_admit *a)
{
	return a->n;
}

/* One number by which tasks are in order: priority (16 bits), deadline (34 bits of 256 ns, an hour
 * fits), slot (12 bits). Within FM_PLACE_MAX of the core. */
static int64_t order_of(const struct fm_admit_spec *s, uint32_t slot)
{
	int64_t urgency = (INT64_C(1) << 34) - 1 - (s->deadline >> 8);

	return s->priority << 46 | urgency << 12 | (FM_ADMIT_TASKS - 1 - slot);
}

static int free_slot(struct fm_admit *a, uint32_t *slot)
{
	for (uint32_t i = 0; i < FM_ADMIT_TASKS / 64; i++) {
		if (!~a->slot[i])
			continue;
		*slot = i * 64 + (uint32_t)__builtin_ctzll(~a->slot[i]);
		a->slot[i] |= UINT64_C(1) << *slot % 64;
		return 0;
	}
	return -ENOSPC;
}

static void give_slot_back(struct fm_admit *a, uint32_t slot)
{
	a->slot[slot / 64] &= ~(UINT64_C(1) << slot % 64);
}

static int reserve(struct fm_admit *a, size_t n)
{
	size_t cap = FM_MAX(a->n + n, (size_t)16);
	struct fm_atask **task;

	if (fm_heap_reserve(&a->due, cap))
		return -ENOMEM;
	if (a->n + n <= a->cap)
		return 0;
	cap = FM_MAX(cap, 2 * a->cap);
	task = realloc(a->task, cap * sizeof(*task));
	if (!task)
		return -ENOMEM;
	a->task = task;
	a->cap = cap;
	return 0;
}

static void insert(struct fm_admit *a, struct fm_atask *t)
{
	size_t i = a->n++;

	for (; i > 0 && a->task[i - 1]->order < t->order; i--)
		a->task[i] = a->task[i - 1];
	a->task[i] = t;
}

static void take_out(struct fm_admit *a, struct fm_atask *t)
{
	size_t i = 0;

	while (a->task[i] != t)
		i++;
	a->n--;
	memmove(&a->task[i], &a->task[i + 1], (a->n - i) * sizeof(a->task[0]));
	fm_heap_del(&a->due, &t->due);
	give_slot_back(a, t->slot);
	task_free(t);
}

void fm_admit_remove(struct fm_admit *a, struct fm_atask *t)
{
	take_out(a, t);
	a->grows = false;
	a->version++;
	find_epsilon(a);
}

static struct fm_atask *task_new(struct fm_admit *a, const struct fm_admit_spec *spec)
{
	struct fm_atask *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	if (free_slot(a, &t->slot)) {
		free(t);
		return NULL;
	}
	t->spec = *spec;
	t->order = t->place = order_of(spec, t->slot);
	t->period_at = FM_NEVER;
	for (size_t i = 0; i < spec->segments; i++)
		t->budget += spec->segment[i].gpu;
	return t;
}

static int check_range(
	const char *name, const char *what, int64_t v, int64_t min, int64_t max, struct fm_err *err)
{
	if (v >= min && v <= max)
		return 0;
	return fm_err_set(err, -EINVAL, "task '%s': %s is not within %" PRId64 " to %" PRId64, name,
		what, min, max);
}

static int check_spec(const struct fm_admit_spec *s, struct fm_err *err)
{
	int64_t left = FM_ADMIT_PERIOD_MAX;
	int rc = check_range(s->name, "the priority", s->priority, 0, FM_ADMIT_PRIORITY_MAX, err);

	if (!rc)
		rc = check_range(s->name, "the period in ns", s->period, FM_ADMIT_PERIOD_MIN,
			FM_ADMIT_PERIOD_MAX, err);
	if (!rc)
		rc = check_range(s->name, "the deadline in ns (of a period)", s->deadline, 1,
			s->period, err);
	if (!rc)
		rc = check_range(s->name, "the CPU time in ns", s->cpu_time, 0, left, err);
	if (!rc)
		rc = check_range(s->name, "epsilon in ns", s->epsilon, FM_RTA_UNSET, left, err);
	for (size_t i = 0; i < s->segments && !rc; i++) {
		rc = check_range(
			s->name, "a segment's total in ns", s->segment[i].total, 0, left, err);
		if (!rc) /* its parts are checked by the analysis, against this */
			left -= s->segment[i].total;
	}
	return rc;
}

/* The tasks as the analysis wants them. CPUs of their own are numbers that nobody names. */
static int make_set(const struct fm_admit *a, struct fm_rta_task *to, bool quick, fm_rta **rta,
	struct fm_err *err)
{
	struct fm_rta_set set = {.task = to,
		.tasks = a->n,
		.epsilon = a->epsilon,
		.slice = FM_RTA_UNSET,
		.theta = FM_RTA_UNSET,
		.effort = quick ? EFFORT_QUICK : EFFORT};
	struct fm_rta_fault fault = {.task = FM_RTA_NONE};
	int rc;

	for (size_t i = 0; i < a->n; i++) {
		const struct fm_atask *t = a->task[i];
		const struct fm_admit_spec *s = &t->spec;

		to[i] = (struct fm_rta_task){.priority = (int64_t)(a->n - i),
			.cpu = s->own_cpu ? INT64_MIN + t->slot : s->cpu,
			.period = s->period,
			.deadline = s->deadline,
			.cpu_time = s->cpu_time,
			.segment = s->segment,
			.segments = s->segments,
			.gpu_total = s->gpu_total,
			.at_least = a->grows ? t->bound : 0};
	}
	rc = fm_rta_new(rta, &set, &fault);
	if (rc && fault.task != FM_RTA_NONE && !a->task[fault.task]->admitted)
		return fm_err_set(err, rc, "task '%s': %s %s", a->task[fault.task]->spec.name,
			fault.field, fault.reason);
	if (rc == -EINVAL)
		return fm_err_set(err, rc,
			"the new tasks would break the bound of a task that is "
			"admitted already");
	return rc ? fm_err_set(err, rc, "out of memory for the analysis") : 0;
}

/* Milliseconds for people. */
static double ms(int64_t ns)
{
	return (double)ns / 1e6;
}

static size_t first_late(const struct fm_rta_bound *bound, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (bound[i].verdict != FM_RTA_MEETS && bound[i].verdict != FM_RTA_SKIPPED)
			return i;
	return n;
}

static void say_why(
	const struct fm_admit *a, const struct fm_rta_bound *bound, struct fm_admit_answer *answer)
{
	size_t i = FM_MIN(first_late(bound, a->n), a->n - 1);
	const struct fm_admit_spec *s = &a->task[i]->spec;

	answer->who = *s;
	answer->is_new = !a->task[i]->admitted;
	answer->verdict = bound[i].verdict;
	answer->wcrt = bound[i].wcrt;
	if (answer->verdict == FM_RTA_MISSES)
		snprintf(answer->why, sizeof(answer->why),
			"takes %.6g ms or more, %.6g ms beyond its deadline of %.6g ms",
			ms(answer->wcrt), ms(answer->wcrt - s->deadline), ms(s->deadline));
	else if (answer->verdict == FM_RTA_OVERFLOW)
		snprintf(answer->why, sizeof(answer->why), "has a bound that does not fit 64 bits");
	else
		snprintf(answer->why, sizeof(answer->why),
			"has no bound that can be found in the time of a decision");
}

/* Of the new tasks, in the order in which they were given. */
static void tell_bounds(
	const struct fm_admit *a, const struct fm_rta_bound *bound, struct fm_admit_answer *answer)
{
	for (size_t i = 0; i < a->n && answer->bound; i++)
		if (!a->task[i]->admitted)
			answer->bound[a->task[i]->asked] = bound[i].wcrt;
}

static void keep_bounds(
	struct fm_admit *a, const struct fm_rta_bound *bound, const uint32_t *level, uint64_t now)
{
	for (size_t i = 0; i < a->n; i++) {
		struct fm_atask *t = a->task[i];
		int64_t place = level ? (int64_t)level[i] : t->order;

		t->bound = bound[i].wcrt;
		t->admitted = true;
		if (t->place == place)
			continue;
		t->place = place;
		atask_place(a, t, t->state, now);
	}
	a->by_level = level != NULL;
	a->grows = !level;
	a->version++;
}

struct fm_admit_question {
	enum fm_rta_method method;
	bool reassign;
	uint64_t version;
	size_t n;
	fm_rta *rta;
	struct fm_rta_task *task;
	struct fm_rta_bound *bound, *other;
	uint32_t *level;

	/* The decision. */
	int rc;
	bool schedulable, by_level; /* by_level: with these GPU priorities, and `other` */
};

void fm_admit_question_free(struct fm_admit_question *q)
{
	if (!q)
		return;
	fm_rta_free(q->rta);
	free(q->task);
	free(q->bound);
	free(q->other);
	free(q->level);
	free(q);
}

static struct fm_admit_question *question_new(size_t n)
{
	struct fm_admit_question *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	q->task = calloc(n + 1, sizeof(*q->task));
	q->bound = calloc(n + 1, sizeof(*q->bound));
	q->other = calloc(n + 1, sizeof(*q->other));
	q->level = calloc(n + 1, sizeof(*q->level));
	if (q->task && q->bound && q->other && q->level)
		return q;
	fm_admit_question_free(q);
	return NULL;
}

/* By the tasks' own priorities, or by GPU priorities if that is allowed. */
void fm_admit_decide(struct fm_admit_question *q)
{
	q->rc = fm_rta_analyze(q->rta, q->method, q->bound, &q->schedulable);
	if (q->rc == -EOVERFLOW) /* a verdict, too: no task is admitted for it */
		q->rc = 0;
	if (q->rc || q->schedulable || !q->reassign)
		return;
	q->rc = fm_rta_gpu_priorities(q->rta, q->method, q->level, q->other, &q->by_level);
	q->schedulable = !q->rc && q->by_level;
}

bool fm_admit_gave_up(const struct fm_admit_question *q)
{
	if (q->rc || q->schedulable)
		return false;
	for (size_t i = 0; i < q->n; i++)
		if (q->bound[i].verdict == FM_RTA_GAVE_UP)
			return true;
	return q->reassign; /* which priorities were tried is not known */
}

static void answer_by(struct fm_admit *a, const struct fm_admit_question *q, bool keep,
	struct fm_admit_answer *answer, uint64_t now)
{
	const struct fm_rta_bound *bound = q->by_level ? q->other : q->bound;

	answer->epsilon = a->epsilon;
	answer->machine_epsilon = a->config.epsilon;
	answer->admitted = q->schedulable;
	answer->by_level = q->by_level;
	if (!answer->admitted)
		say_why(a, bound, answer);
	else
		tell_bounds(a, bound, answer);
	if (answer->admitted && keep)
		keep_bounds(a, bound, q->by_level ? q->level : NULL, now);
}

static int add_all(struct fm_admit *a, const struct fm_admit_spec *spec, size_t n,
	struct fm_atask **out, struct fm_err *err)
{
	for (size_t i = 0; i < n; i++) {
		int rc = check_spec(&spec[i], err);

		if (rc)
			return rc;
	}
	if (a->n + n > FM_ADMIT_TASKS)
		return fm_err_set(err, -ENOSPC, "more than %d tasks", FM_ADMIT_TASKS);
	if (reserve(a, n))
		return fm_err_set(err, -ENOMEM, "out of memory for another task");
	for (size_t i = 0; i < n; i++) {
		out[i] = task_new(a, &spec[i]);
		if (!out[i])
			return fm_err_set(err, -ENOMEM, "out of memory for another task");
		out[i]->asked = i;
		insert(a, out[i]);
	}
	find_epsilon(a);
	if (a->epsilon != FM_RTA_UNSET)
		return 0;
	fm_err_set(
		err, -ENODATA, "epsilon, what a change of the device's user costs, is not known");
	return fm_err_hint(err,
		"set epsilon_us or platform in [admission] of fermatad.conf, or say it with "
		"the tasks");
}

static void drop_all(struct fm_admit *a, size_t n, struct fm_atask **out)
{
	for (size_t i = 0; i < n; i++) {
		if (out[i])
			take_out(a, out[i]);
		out[i] = NULL;
	}
	find_epsilon(a);
}

/* The tasks are in the table as long as it takes to copy it. */
int fm_admit_prepare(struct fm_admit *a, const struct fm_admit_spec *spec, size_t n, bool reassign,
	bool quick, struct fm_admit_question **out, struct fm_err *err)
{
	FM_CLEAN_FREE struct fm_atask **task = calloc(n + 1, sizeof(*task));
	struct fm_admit_question *q;
	int rc = task ? 0 : -ENOMEM;

	if (!n)
		return fm_err_set(err, -EINVAL, "there is no task");
	rc = rc ? fm_err_set(err, rc, "out of memory for the analysis")
		: add_all(a, spec, n, task, err);
	q = rc ? NULL : question_new(a->n);
	if (!rc && !q)
		rc = fm_err_set(err, -ENOMEM, "out of memory for the analysis");
	if (!rc)
		rc = make_set(a, q->task, quick, &q->rta, err);
	if (!rc) {
		q->method = a->config.method;
		q->reassign = reassign || a->by_level;
		q->version = a->version;
		q->n = a->n;
	}
	if (task)
		drop_all(a, n, task);
	if (rc)
		fm_admit_question_free(q);
	else
		*out = q;
	return rc;
}

int fm_admit_finish(struct fm_admit *a, const struct fm_admit_question *q,
	const struct fm_admit_spec *spec, size_t n, bool keep, struct fm_atask **out,
	struct fm_admit_answer *answer, uint64_t now, struct fm_err *err)
{
	int rc;

	*answer = (struct fm_admit_answer){.bound = answer->bound};
	memset(out, 0, n * sizeof(*out));
	if (q->version != a->version)
		return fm_err_set(err, -ESTALE, "the tasks are others by now");
	if (q->rc)
		return fm_err_set(err, q->rc, "out of memory for the analysis");
	rc = add_all(a, spec, n, out, err);
	if (!rc)
		answer_by(a, q, keep, answer, now);
	if (rc || !answer->admitted || !keep)
		drop_all(a, n, out);
	return rc;
}

int fm_admit_ask(struct fm_admit *a, const struct fm_admit_spec *spec, size_t n, bool reassign,
	bool keep, struct fm_atask **out, struct fm_admit_answer *answer, uint64_t now,
	struct fm_err *err)
{
	struct fm_admit_question *q = NULL;
	int rc = fm_admit_prepare(a, spec, n, reassign, false, &q, err);

	*answer = (struct fm_admit_answer){.bound = answer->bound};
	memset(out, 0, n * sizeof(*out));
	if (rc)
		return rc;
	fm_admit_decide(q);
	rc = fm_admit_finish(a, q, spec, n, keep, out, answer, now, err);
	fm_admit_question_free(q);
	return rc;
}
