/* SPDX-License-Identifier: Apache-2.0 */
/* FMLP+: one lock around each GPU segment, served in the order of requests; its holder is boosted.
 * Brandenburg, ECRTS 2014. */
#include "internal.h"

/* Segments of x that fall into a window: of its jobs, and of one from before. */
static int64_t requests(const struct task *x, int64_t w, struct sum *s)
{
	return sum_times(s, x->segments, sum_plus(s, sum_jobs(s, w, 0, x->period), 1));
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Requests of one CPU that may stand before i's: each task's, at most one for each of i's. Beyond
 * as many as i has they are not counted. */
static int64_t of_cpu(
	const struct fm_rta *rta, const struct task *i, int64_t cpu, int64_t w, struct sum *s)
{
	int64_t n = 0;

	for (size_t k = 0; k < rta->tasks && n < i->segments; k++)
		if (rta->task[k].cpu == cpu && rta->task[k].segments)
			n = sum_plus(s, n, requests(&rta->task[k], w, s));
	return least(n, i->segments);
}

static int64_t of_others(const struct fm_rta *rta, const struct task *i, int64_t w, struct sum *s)
{
	int64_t n = 0;

	for (size_t k = 0; k < rta->tasks && n < i->segments; k++)
		if (!same_cpu(&rta->task[k], i) && rta->task[k].segments)
			n = sum_plus(s, n, requests(&rta->task[k], w, s));
	return least(n, i->segments);
}

static void remote(const struct fm_rta *rta, const struct task *i, int64_t w, struct sum *s)
{
	if (!i->segments)
		return;
	for (size_t k = 0; k < rta->tasks; k++) {
		const struct task *x = &rta->task[k];
		int64_t n;

		if (same_cpu(x, i) || !x->segments)
			continue;
		n = least(of_cpu(rta, i, x->cpu, w, s), requests(x, w, s));
		sum_add(s, FM_RTA_LOCK_OF, x, n, x->longest);
	}
}

/* Lower-priority tasks of the same CPU get hold of the lock, and are boosted, before the job begins
 * and as often as it suspends itself. */
static void local(const struct fm_rta *rta, size_t n, int64_t w, struct sum *s)
{
	const struct task *i = &rta->task[n];
	int64_t z = of_others(rta, i, w, s);

	for (size_t k = n + 1; k < rta->tasks; k++) {
		const struct task *x = &rta->task[k];

		if (same_cpu(x, i))
			sum_add(s, FM_RTA_BOOST_OF, x, least(z + 1, requests(x, w, s)), x->longest);
	}
}

static void bound(const struct fm_rta *rta, size_t n, const int64_t *wcrt, bool busy, int64_t w,
	struct sum *s)
{
	const struct task *i = &rta->task[n];

	sum_add(s, FM_RTA_OWN_CPU, NULL, 1, i->cpu_time);
	sum_add(s, FM_RTA_OWN_GPU, NULL, 1, i->gpu);
	sum_cpu_above(rta, n, wcrt, busy, w, s);
	remote(rta, i, w, s);
	local(rta, n, w, s);
}

void fmlp_suspend_rhs(
	const struct fm_rta *rta, size_t i, const int64_t *wcrt, int64_t w, struct sum *s)
{
	bound(rta, i, wcrt, false, w, s);
}

void fmlp_busy_rhs(
	const struct fm_rta *rta, size_t i, const int64_t *wcrt, int64_t w, struct sum *s)
{
	bound(rta, i, wcrt, true, w, s);
}
