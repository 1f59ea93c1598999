/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MPCP with the GPU as its one global resource: a lock around each segment whose waiters are served
 * by priority, whose waiters leave their CPU, and whose holder is boosted above all that runs
 * without it. Since there is one lock, at most one boosted task exists at a time, and nothing
 * delays it: a segment holds the lock for no longer than its length.
 *
 *   W = C + G + lower + higher + boost + preemption
 *   lower       each request finds at most one lower-priority segment in its way (any CPU, best
 *               effort included): n times the longest.
 *   higher      the less of what is in the way of each request (Lakshmanan et al. 2009: n times the
 *               least b = longest lower + sum over GPU-using h of higher priority, on every CPU, of
 *               ceil((b + R_h - G_h)/T_h) G_h, less the lower one) and what those can ask for in
 * the whole job (Patel et al. 2018): sum of ceil((W + R_h - G_h)/T_h) G_h. boost       a
 * lower-priority task of the same CPU asks for the lock only while i is not ready, so that after
 * each of i's requests, and once before, it is boosted at most once: (n + 1) times its longest
 * segment's CPU part (suspend) or all of it (busy). preemption  higher-priority h of the same CPU:
 * ceil((W + R_h - e)/T_h) e, e = C_h + Gm_h (suspend) or C_h + G_h (busy): the jitter of a task
 * that suspends itself, by Chen et al. 2019.
 */
#include "internal.h"

static const struct task *longest_lower(const struct fm_rta *rta, size_t i)
{
	const struct task *found = NULL;

	for (size_t k = i + 1; k < rta->tasks; k++)
		if (rta->task[k].longest > (found ? found->longest : 0))
			found = &rta->task[k];
	return found;
}

static int64_t jobs_above(
	const struct fm_rta *rta, size_t k, const int64_t *wcrt, int64_t window, struct sum *s)
{
	const struct task *h = &rta->task[k];

	return h->segments ? sum_jobs(s, window, wcrt[k] - h->gpu, h->period) : 0;
}

/* What those of higher priority ask of the GPU in a window. */
static int64_t demand_above(
	const struct fm_rta *rta, size_t i, const int64_t *wcrt, int64_t window, struct sum *s)
{
	int64_t sum = 0;

	for (size_t k = 0; k < i; k++)
		sum = sum_plus(s, sum,
			sum_times(s, jobs_above(rta, k, wcrt, window, s), rta->task[k].gpu));
	return sum;
}

/* The window in which one request waits; beyond the deadline, or a failed sum: none is known, which
 * is no error, for the job's demand is a bound as well. */
static struct request wait_of_request(
	const struct fm_rta *rta, size_t i, const int64_t *wcrt, int64_t lower)
{
	struct request q = {.sought = true};
	int64_t b = lower, next;

	for (uint64_t step = steps_for(rta->tasks); step && b <= rta->task[i].deadline; step--) {
		struct sum s = {0};

		next = sum_plus(&s, lower, demand_above(rta, i, wcrt, b, &s));
		if (s.overflow)
			break;
		if (next == b) {
			q.found = true;
			q.window = b;
			break;
		}
		b = next;
	}
	return q;
}

/* By requests, if that is less than by the job: so often, with what comes in such a window. */
static void higher(const struct fm_rta *rta, size_t n, const int64_t *wcrt, int64_t lower,
	int64_t w, struct sum *s)
{
	struct request own = {0}, *q = s->request ? s->request : &own;
	int64_t times = 1, window = w, requests;
	struct sum job = {0}, each = {0};

	if (!q->sought)
		*q = wait_of_request(rta, n, wcrt, lower);
	requests = sum_times(&each, rta->task[n].segments, q->window - lower);
	if (q->found && !each.overflow &&
		(requests < demand_above(rta, n, wcrt, w, &job) || job.overflow)) {
		times = rta->task[n].segments;
		window = q->window;
	}
	for (size_t k = 0; k < n; k++)
		sum_add(s, FM_RTA_LOCK_OF, &rta->task[k],
			sum_times(s, times, jobs_above(rta, k, wcrt, window, s)), rta->task[k].gpu);
}

static void lock(const struct fm_rta *rta, size_t n, const int64_t *wcrt, int64_t w, struct sum *s)
{
	const struct task *l = longest_lower(rta, n);

	if (!rta->task[n].segments)
		return;
	if (l)
		sum_add(s, FM_RTA_LOCK_LOWER, l, rta->task[n].segments, l->longest);
	higher(rta, n, wcrt, l ? l->longest : 0, w, s);
}

static void boost(const struct fm_rta *rta, size_t n, bool busy, struct sum *s)
{
	const struct task *i = &rta->task[n];

	for (size_t k = n + 1; k < rta->tasks; k++) {
		const struct task *l = &rta->task[k];

		if (same_cpu(l, i))
			sum_add(s, FM_RTA_BOOST_OF, l, sum_plus(s, i->segments, 1),
				busy ? l->longest : l->longest_misc);
	}
}

static void bound(const struct fm_rta *rta, size_t n, const int64_t *wcrt, bool busy, int64_t w,
	struct sum *s)
{
	const struct task *i = &rta->task[n];

	sum_add(s, FM_RTA_OWN_CPU, NULL, 1, i->cpu_time);
	sum_add(s, FM_RTA_OWN_GPU, NULL, 1, i->gpu);
	sum_cpu_above(rta, n, wcrt, busy, w, s);
	lock(rta, n, wcrt, w, s);
	boost(rta, n, busy, s);
}

void mpcp_suspend_rhs(
	const struct fm_rta *rta, size_t i, const int64_t *wcrt, int64_t w, struct sum *s)
{
	bound(rta, i, wcrt, false, w, s);
}

void mpcp_busy_rhs(
	const struct fm_rta *rta, size_t i, const int64_t *wcrt, int64_t w, struct sum *s)
{
	bound(rta, i, wcrt, true, w, s);
}
