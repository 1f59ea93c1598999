/* SPDX-License-Identifier: Apache-2.0 */
/* GCAPS: GPU segments preempt each other by priority, at a cost of epsilon for each change of who
 * may use the GPU. Wang et al., ECRTS 2024, sections 6.3 and 6.4. */
#include "internal.h"

/* Each segment asks for two changes and may wait for one that is under way; the last summand is one
 * that is under way when the job begins. */
static void own(const struct fm_rta *rta, const struct task *i, struct sum *s)
{
	sum_add(s, FM_RTA_OWN_CPU, NULL, 1, i->cpu_time);
	sum_add(s, FM_RTA_OWN_GPU, NULL, 1, i->gpu);
	sum_add(s, FM_RTA_OWN_UPDATE, NULL, sum_plus(s, 1, sum_times(s, 3, i->segments)),
		rta->epsilon);
}

static void updates(const struct fm_rta *rta, const struct task *h, int64_t jobs, struct sum *s)
{
	sum_add(s, FM_RTA_UPDATE_OF, h, jobs,
		sum_times(s, sum_times(s, 2, h->segments), rta->epsilon));
}

/* h of higher priority on the same CPU, when tasks leave it during their segments. */
static void local_suspend(const struct fm_rta *rta, const struct task *i, const struct task *h,
	int64_t w, int64_t cpu_jitter, int64_t gpu_jitter, struct sum *s)
{
	int64_t jobs;

	if (!h->segments) {
		sum_add(s, FM_RTA_CPU_OF, h, sum_jobs(s, w, 0, h->period), h->cpu_time);
		return;
	}
	jobs = sum_jobs(s, w, cpu_jitter, h->period);
	sum_add(s, FM_RTA_CPU_OF, h, jobs, h->load);
	updates(rta, h, jobs, s);
	if (i->segments)
		sum_add(s, FM_RTA_GPU_OF, h, sum_jobs(s, w, gpu_jitter, h->period), h->pure);
}

/* The same when they spin: also in front of a task that uses no GPU. */
static void local_busy(const struct fm_rta *rta, const struct task *h, int64_t w, struct sum *s)
{
	int64_t jobs = sum_jobs(s, w, 0, h->period);

	sum_add(s, FM_RTA_CPU_OF, h, jobs, h->cpu_time);
	if (!h->segments)
		return;
	sum_add(s, FM_RTA_GPU_OF, h, jobs, h->gpu);
	updates(rta, h, jobs, s);
}

/* h of higher priority on another CPU. */
static void cross(const struct fm_rta *rta, const struct task *i, const struct task *h, bool busy,
	int64_t w, int64_t jitter, struct sum *s)
{
	int64_t jobs;

	if (!h->gpu || (!busy && !i->gpu))
		return;
	jobs = sum_jobs(s, w, jitter, h->period);
	sum_add(s, FM_RTA_GPU_OF, h, jobs, h->pure);
	updates(rta, h, jobs, s);
}

static void base(const struct fm_rta *rta, size_t n, const int64_t *wcrt, bool busy, int64_t w,
	struct sum *s)
{
	const struct task *i = &rta->task[n];

	own(rta, i, s);
	for (size_t k = 0; k < n; k++) {
		const struct task *h = &rta->task[k];

		if (!same_cpu(h, i))
			cross(rta, i, h, busy, w, wcrt[k] - h->pure, s);
		else if (busy)
			local_busy(rta, h, w, s);
		else
			local_suspend(rta, i, h, w, wcrt[k] - h->load, wcrt[k] - h->pure, s);
	}
}

void gcaps_suspend_rhs(
	const struct fm_rta *rta, size_t i, const int64_t *wcrt, int64_t w, struct sum *s)
{
	base(rta, i, wcrt, false, w, s);
}

void gcaps_busy_rhs(
	const struct fm_rta *rta, size_t i, const int64_t *wcrt, int64_t w, struct sum *s)
{
	base(rta, i, wcrt, true, w, s);
}

/* While priorities are being assigned the bounds of those above are not known: instead of a bound
 * stands what it may be at most. On i's own CPU all of higher priority are above. */
void gcaps_above_rhs(
	const struct fm_rta *rta, size_t n, const bool *above, bool busy, int64_t w, struct sum *s)
{
	const struct task *i = &rta->task[n];

	own(rta, i, s);
	for (size_t k = 0; k < rta->real_time; k++) {
		const struct task *h = &rta->task[k];

		if (k == n)
			continue;
		if (!same_cpu(h, i)) {
			if (above[k])
				cross(rta, i, h, busy, w, h->period - h->pure, s);
		} else if (k < n) {
			if (busy)
				local_busy(rta, h, w, s);
			else
				local_suspend(rta, i, h, w, h->period - h->load,
					h->deadline - h->pure, s);
		}
	}
}
