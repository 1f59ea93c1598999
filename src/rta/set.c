/* SPDX-License-Identifier: Apache-2.0 */
/* Checks a set and prepares it: sums, and the order of priorities. */
#include "internal.h"
#include <errno.h>
#include <stdlib.h>

struct check {
	struct fm_rta_fault *fault;
	size_t task, segment;
};

static int wrong(const struct check *c, int code, const char *field, const char *reason)
{
	if (c->fault)
		*c->fault = (struct fm_rta_fault){
			.task = c->task, .segment = c->segment, .field = field, .reason = reason};
	return code;
}

static int too_long(const struct check *c, const char *field)
{
	return wrong(c, -EOVERFLOW, field, "overflow: all segments together do not fit 64 bits");
}

static int check_segment(const struct check *c, const struct fm_rta_segment *s)
{
	if (s->total < 0)
		return wrong(c, -EINVAL, "total", "is negative");
	if (s->misc < 0)
		return wrong(c, -EINVAL, "misc", "is negative");
	if (s->gpu < 0)
		return wrong(c, -EINVAL, "gpu", "is negative");
	if (s->total < s->misc || s->total - s->misc < s->gpu)
		return wrong(c, -EINVAL, "total", "is less than misc and gpu together");
	return 0;
}

static int add_segment(
	const struct check *c, struct task *t, const struct fm_rta_segment *s, int64_t slice)
{
	int64_t turns = slice > 0 ? s->gpu / slice + (s->gpu % slice != 0) : 0;
	int rc = check_segment(c, s);

	if (rc)
		return rc;
	if (__builtin_add_overflow(t->gpu, s->total, &t->gpu) ||
		__builtin_add_overflow(t->misc, s->misc, &t->misc) ||
		__builtin_add_overflow(t->pure, s->gpu, &t->pure) ||
		__builtin_add_overflow(t->turns, turns, &t->turns))
		return too_long(c, "total");
	t->longest = s->total > t->longest ? s->total : t->longest;
	t->longest_misc = s->misc > t->longest_misc ? s->misc : t->longest_misc;
	return 0;
}

static int check_times(const struct check *c, const struct fm_rta_task *t)
{
	if (t->priority < FM_RTA_BEST_EFFORT)
		return wrong(c, -EINVAL, "priority", "is neither -1 (best effort) nor 0 or above");
	if (t->period <= 0)
		return wrong(c, -EINVAL, "period", "is not above 0");
	if (t->deadline <= 0)
		return wrong(c, -EINVAL, "deadline", "is not above 0");
	if (t->deadline > t->period)
		return wrong(c, -EINVAL, "deadline",
			"is beyond the period, for which no method here holds");
	if (t->cpu_time < 0)
		return wrong(c, -EINVAL, "cpu_time", "is negative");
	if (t->gpu_total < FM_RTA_UNSET)
		return wrong(c, -EINVAL, "gpu_total", "is negative");
	if (t->at_least < 0)
		return wrong(c, -EINVAL, "at_least", "is negative");
	if (t->gpu_total > 0 && !t->segments)
		return wrong(c, -EINVAL, "gpu_total", "is given, but there are no segments");
	return 0;
}

static int prepare(struct check *c, struct task *to, const struct fm_rta_task *from, int64_t slice)
{
	int rc = check_times(c, from);

	if (rc)
		return rc;
	*to = (struct task){.origin = c->task,
		.priority = from->priority,
		.cpu = from->cpu,
		.period = from->period,
		.deadline = from->deadline,
		.cpu_time = from->cpu_time,
		.at_least = from->at_least,
		.segments = (int64_t)from->segments};
	for (c->segment = 0; c->segment < from->segments; c->segment++) {
		rc = add_segment(c, to, &from->segment[c->segment], slice);
		if (rc)
			return rc;
	}
	c->segment = FM_RTA_NONE;
	if (from->gpu_total != FM_RTA_UNSET)
		to->gpu = from->gpu_total;
	if (__builtin_add_overflow(to->cpu_time, to->misc, &to->load))
		return too_long(c, "cpu_time");
	return 0;
}

/* By priority from above; best effort (-1) is last; equals as they were given. */
static int by_priority(const void *a, const void *b)
{
	const struct task *x = a, *y = b;

	if (x->priority != y->priority)
		return x->priority < y->priority ? 1 : -1;
	return x->origin < y->origin ? -1 : x->origin > y->origin;
}

static int order(struct fm_rta *rta, struct check *c)
{
	qsort(rta->task, rta->tasks, sizeof(rta->task[0]), by_priority);
	while (rta->real_time < rta->tasks && !best_effort(&rta->task[rta->real_time]))
		rta->real_time++;
	for (size_t k = 1; k < rta->real_time; k++) {
		if (rta->task[k].priority != rta->task[k - 1].priority)
			continue;
		c->task = rta->task[k].origin;
		return wrong(c, -EINVAL, "priority", "is that of another real-time task");
	}
	return 0;
}

static int check_set(const struct fm_rta_set *set, const struct check *c)
{
	if (set->epsilon < FM_RTA_UNSET)
		return wrong(c, -EINVAL, "epsilon", "is negative");
	if (set->slice < FM_RTA_UNSET || set->slice == 0)
		return wrong(c, -EINVAL, "slice", "is not above 0");
	if (set->theta < FM_RTA_UNSET)
		return wrong(c, -EINVAL, "theta", "is negative");
	return 0;
}

int fm_rta_new(fm_rta **out, const struct fm_rta_set *set, struct fm_rta_fault *fault)
{
	struct check c = {.fault = fault, .task = FM_RTA_NONE, .segment = FM_RTA_NONE};
	struct fm_rta *rta;
	int rc = check_set(set, &c);

	if (rc)
		return rc;
	if (set->tasks > (SIZE_MAX - sizeof(*rta)) / sizeof(rta->task[0]))
		return -ENOMEM;
	rta = calloc(1, sizeof(*rta) + set->tasks * sizeof(rta->task[0]));
	if (!rta)
		return -ENOMEM;
	rta->tasks = set->tasks;
	rta->epsilon = set->epsilon;
	rta->slice = set->slice;
	rta->theta = set->theta;
	rta->effort = set->effort;
	for (c.task = 0; !rc && c.task < set->tasks; c.task++)
		rc = prepare(&c, &rta->task[c.task], &set->task[c.task], set->slice);
	if (!rc)
		rc = order(rta, &c);
	if (rc)
		free(rta);
	else
		*out = rta;
	return rc;
}

void fm_rta_free(fm_rta *rta)
{
	free(rta);
}
