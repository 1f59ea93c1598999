/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's own round robin: everybody who has work on the GPU has a slice in turn, and each
 * turn costs a context switch. Wang et al., ECRTS 2024, Eq. 3 and 5 to 8. */
#include "internal.h"

/* nu others take turns during each slice of h's segments. */
static int64_t interleaving(
	const struct fm_rta *rta, int64_t nu, const struct task *h, struct sum *s)
{
	int64_t turn = sum_plus(s, rta->slice, rta->theta);

	return sum_times(s, sum_times(s, turn, nu), h->turns);
}

static bool local_above(const struct fm_rta *rta, size_t k, size_t i)
{
	return k < i && same_cpu(&rta->task[k], &rta->task[i]);
}

/* GPU-using tasks that h shares turns with while it is in front of i: all but those of hpp(i), of
 * which only one at a time spins, and h itself; i counts. */
static int64_t sharers(const struct fm_rta *rta, size_t i)
{
	int64_t nu = 1;

	for (size_t k = 0; k < rta->tasks; k++)
		nu += rta->task[k].segments > 0 && !local_above(rta, k, i);
	return nu;
}

static void own(const struct fm_rta *rta, size_t n, struct sum *s)
{
	const struct task *i = &rta->task[n];
	int64_t nu = 0;

	for (size_t k = 0; k < rta->tasks; k++)
		nu += k != n && rta->task[k].segments > 0;
	sum_add(s, FM_RTA_OWN_CPU, NULL, 1, i->cpu_time);
	sum_add(s, FM_RTA_OWN_GPU, NULL, 1, i->gpu);
	sum_add(s, FM_RTA_INTERLEAVE, NULL, 1, interleaving(rta, nu, i, s));
}

void rr_suspend_rhs(
	const struct fm_rta *rta, size_t i, const int64_t *wcrt, int64_t w, struct sum *s)
{
	own(rta, i, s);
	sum_cpu_above(rta, i, wcrt, false, w, s);
}

void rr_busy_rhs(const struct fm_rta *rta, size_t i, const int64_t *wcrt, int64_t w, struct sum *s)
{
	int64_t nu = sharers(rta, i);

	own(rta, i, s);
	for (size_t k = 0; k < i; k++) {
		const struct task *h = &rta->task[k];
		int64_t jobs;

		if (!local_above(rta, k, i))
			continue;
		jobs = sum_jobs(s, w, 0, h->period);
		sum_add(s, FM_RTA_CPU_OF, h, jobs, h->load);
		if (h->segments)
			sum_add(s, FM_RTA_INTERLEAVE_OF, h, jobs, interleaving(rta, nu, h, s));
	}
}
