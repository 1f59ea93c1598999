/* SPDX-License-Identifier: Apache-2.0 */
/* The methods as a table, and what is the same for all of them: the iteration, the order, the
 * terms. */
#include "internal.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name, *summary;
} words[FM_RTA_METHODS] = {
#define WORDS(id, name, summary) [id] = {name, summary},
	FM_RTA_METHOD_MAP(WORDS)
#undef WORDS
};

static const struct {
	const char *name, *text;
} kinds[FM_RTA_KINDS] = {
#define KIND(id, name, text) [id] = {name, text},
	FM_RTA_TERM_MAP(KIND)
#undef KIND
};

static rhs_fn *const right_hand_side[FM_RTA_METHODS] = {
	[FM_RTA_GCAPS_SUSPEND] = gcaps_suspend_rhs,
	[FM_RTA_GCAPS_BUSY] = gcaps_busy_rhs,
	[FM_RTA_RR_SUSPEND] = rr_suspend_rhs,
	[FM_RTA_RR_BUSY] = rr_busy_rhs,
	[FM_RTA_FMLP_SUSPEND] = fmlp_suspend_rhs,
	[FM_RTA_FMLP_BUSY] = fmlp_busy_rhs,
	[FM_RTA_MPCP_SUSPEND] = mpcp_suspend_rhs,
	[FM_RTA_MPCP_BUSY] = mpcp_busy_rhs,
};

static bool known(enum fm_rta_method method)
{
	return (unsigned)method < FM_RTA_METHODS;
}

const char *fm_rta_method_name(enum fm_rta_method method)
{
	return known(method) ? words[method].name : NULL;
}

const char *fm_rta_method_summary(enum fm_rta_method method)
{
	return known(method) ? words[method].summary : NULL;
}

int fm_rta_method_find(const char *name, enum fm_rta_method *method)
{
	for (unsigned m = 0; m < FM_RTA_METHODS; m++) {
		if (strcmp(name, words[m].name))
			continue;
		*method = (enum fm_rta_method)m;
		return 0;
	}
	return -ENOENT;
}

bool fm_rta_method_gpu_priority(enum fm_rta_method method)
{
	return method == FM_RTA_GCAPS_SUSPEND || method == FM_RTA_GCAPS_BUSY;
}

const char *fm_rta_method_lacks(const fm_rta *rta, enum fm_rta_method method)
{
	if (fm_rta_method_gpu_priority(method))
		return rta->epsilon < 0 ? "epsilon" : NULL;
	if (method != FM_RTA_RR_SUSPEND && method != FM_RTA_RR_BUSY)
		return NULL;
	return rta->slice < 0 ? "slice" : rta->theta < 0 ? "theta" : NULL;
}

const char *fm_rta_kind_name(enum fm_rta_kind kind)
{
	return (unsigned)kind < FM_RTA_KINDS ? kinds[kind].name : NULL;
}

const char *fm_rta_kind_text(enum fm_rta_kind kind)
{
	return (unsigned)kind < FM_RTA_KINDS ? kinds[kind].text : NULL;
}

/* One task's equation. */
struct equation {
	const fm_rta *rta;
	size_t i;
	enum fm_rta_method method;
	const int64_t *wcrt; /* bounds of those before it; or NULL, and then: */
	const bool *above;   /* whose GPU priority is higher */
	uint64_t spent;      /* looks at other tasks, in this analysis */
};

static void evaluate(const struct equation *e, int64_t w, struct sum *s)
{
	if (e->wcrt)
		right_hand_side[e->method](e->rta, e->i, e->wcrt, w, s);
	else
		gcaps_above_rhs(e->rta, e->i, e->above, e->method == FM_RTA_GCAPS_BUSY, w, s);
}

static bool may_go_on(struct equation *e)
{
	e->spent += e->wcrt ? e->i + 1 : e->rta->real_time;
	return !e->rta->effort || e->spent <= e->rta->effort;
}

/* The least solution, by iteration from 0, or from what is known not to be above it: right-hand
 * sides do not fall as w grows. */
static struct fm_rta_bound solve(struct equation *e)
{
	struct fm_rta_bound b = {.verdict = FM_RTA_GAVE_UP};
	int64_t deadline = e->rta->task[e->i].deadline;
	struct request request = {0};

	b.wcrt = e->wcrt ? e->rta->task[e->i].at_least : 0;
	for (uint64_t step = steps_for(e->rta->tasks); step && may_go_on(e); step--) {
		struct sum s = {.request = &request};

		evaluate(e, b.wcrt, &s);
		b.at = b.wcrt;
		b.wcrt = s.total;
		if (s.overflow)
			b.verdict = FM_RTA_OVERFLOW;
		else if (s.total > deadline)
			b.verdict = FM_RTA_MISSES;
		else if (s.total == b.at)
			b.verdict = FM_RTA_MEETS;
		else
			continue;
		break;
	}
	return b;
}

int fm_rta_analyze(
	const fm_rta *rta, enum fm_rta_method method, struct fm_rta_bound *bound, bool *schedulable)
{
	struct equation e = {.rta = rta, .method = method};
	int64_t *wcrt;
	int rc = 0;

	if (!known(method) || fm_rta_method_lacks(rta, method))
		return -EINVAL;
	wcrt = calloc(rta->tasks + 1, sizeof(*wcrt));
	if (!wcrt)
		return -ENOMEM;
	e.wcrt = wcrt;
	for (size_t k = 0; k < rta->tasks; k++)
		bound[k] = (struct fm_rta_bound){.verdict = FM_RTA_SKIPPED};
	*schedulable = true;
	for (; *schedulable && e.i < rta->real_time; e.i++) {
		struct fm_rta_bound *b = &bound[rta->task[e.i].origin];

		*b = solve(&e);
		wcrt[e.i] = b->wcrt;
		*schedulable = b->verdict == FM_RTA_MEETS;
		rc = b->verdict == FM_RTA_OVERFLOW ? -EOVERFLOW : 0;
	}
	free(wcrt);
	return rc;
}

/* Tries i at the level, under all that have none yet. */
static bool takes_level(struct equation *e, struct fm_rta_bound *bound)
{
	struct fm_rta_bound b = solve(e);

	if (bound && b.verdict == FM_RTA_MEETS)
		bound[e->rta->task[e->i].origin] = b;
	return b.verdict == FM_RTA_MEETS;
}

/* Is a task after i, of its CPU, still without a level? That one's turn is first. */
static bool last_of_cpu(const fm_rta *rta, const bool *open, size_t i)
{
	for (size_t k = i + 1; k < rta->real_time; k++)
		if (open[k] && same_cpu(&rta->task[k], &rta->task[i]))
			return false;
	return true;
}

/* Who takes the lowest level that is left: FM_RTA_NONE if nobody can. */
static size_t next_level(struct equation *e, const bool *open, struct fm_rta_bound *bound)
{
	const fm_rta *rta = e->rta;

	for (size_t k = rta->real_time; k-- > 0;) {
		if (!open[k] || !last_of_cpu(rta, open, k))
			continue;
		e->i = k;
		if (takes_level(e, bound))
			return k;
	}
	return FM_RTA_NONE;
}

int fm_rta_gpu_priorities(const fm_rta *rta, enum fm_rta_method method, uint32_t *level,
	struct fm_rta_bound *bound, bool *assigned)
{
	struct equation e = {.rta = rta, .method = method};
	bool *open;

	if (!fm_rta_method_gpu_priority(method) || fm_rta_method_lacks(rta, method))
		return -EINVAL;
	open = calloc(rta->tasks + 1, sizeof(*open));
	if (!open)
		return -ENOMEM;
	for (size_t k = 0; k < rta->tasks; k++) {
		open[k] = k < rta->real_time;
		level[k] = 0;
		if (bound)
			bound[k] = (struct fm_rta_bound){.verdict = FM_RTA_SKIPPED};
	}
	e.above = open;
	*assigned = true;
	for (size_t n = 1; *assigned && n <= rta->real_time; n++) {
		size_t k = next_level(&e, open, bound);

		*assigned = k != FM_RTA_NONE;
		if (!*assigned)
			break;
		open[k] = false;
		level[rta->task[k].origin] = (uint32_t)n;
	}
	free(open);
	return 0;
}

static int explain_at(const struct equation *e, int64_t at, struct fm_rta_term *term, size_t cap)
{
	struct sum s = {.term = term, .cap = cap};

	evaluate(e, at, &s);
	return s.overflow ? -EOVERFLOW : (int)s.terms;
}

static size_t find(const fm_rta *rta, size_t origin)
{
	for (size_t k = 0; k < rta->tasks; k++)
		if (rta->task[k].origin == origin)
			return k;
	return FM_RTA_NONE;
}

int fm_rta_explain(const fm_rta *rta, enum fm_rta_method method, const struct fm_rta_bound *bound,
	const uint32_t *level, size_t task, struct fm_rta_term *term, size_t cap)
{
	struct equation e = {.rta = rta, .method = method, .i = find(rta, task)};
	int64_t *wcrt;
	bool *above;
	int rc;

	if (!known(method) || e.i == FM_RTA_NONE || fm_rta_method_lacks(rta, method) ||
		(level && !fm_rta_method_gpu_priority(method)))
		return -EINVAL;
	if (bound[task].verdict == FM_RTA_SKIPPED)
		return -ENOENT;
	wcrt = calloc(rta->tasks + 1, sizeof(*wcrt));
	above = calloc(rta->tasks + 1, sizeof(*above));
	for (size_t k = 0; wcrt && above && k < rta->tasks; k++) {
		size_t o = rta->task[k].origin;

		wcrt[k] = bound[o].wcrt;
		above[k] = level && level[o] > level[task];
	}
	e.wcrt = level ? NULL : wcrt;
	e.above = above;
	rc = wcrt && above ? explain_at(&e, bound[task].at, term, cap) : -ENOMEM;
	free(wcrt);
	free(above);
	return rc;
}
