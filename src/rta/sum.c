/* SPDX-License-Identifier: Apache-2.0 */
#include "internal.h"

static int64_t fail(struct sum *s)
{
	s->overflow = true;
	return 0;
}

int64_t sum_times(struct sum *s, int64_t a, int64_t b)
{
	int64_t v;

	return __builtin_mul_overflow(a, b, &v) ? fail(s) : v;
}

int64_t sum_plus(struct sum *s, int64_t a, int64_t b)
{
	int64_t v;

	return __builtin_add_overflow(a, b, &v) ? fail(s) : v;
}

int64_t sum_jobs(struct sum *s, int64_t window, int64_t jitter, int64_t period)
{
	int64_t span = sum_plus(s, window, jitter);

	/* Rounded up; without adding period - 1, which might not fit. */
	return span <= 0 ? 0 : span / period + (span % period != 0);
}

void sum_add(
	struct sum *s, enum fm_rta_kind kind, const struct task *h, int64_t count, int64_t each)
{
	int64_t value = count <= 0 ? 0 : sum_times(s, count, each);

	s->total = sum_plus(s, s->total, value);
	if (!value)
		return;
	if (s->terms < s->cap)
		s->term[s->terms] = (struct fm_rta_term){.kind = kind,
			.task = h ? h->origin : FM_RTA_NONE,
			.count = count,
			.each = each,
			.total = value};
	s->terms++;
}

void sum_cpu_above(const struct fm_rta *rta, size_t i, const int64_t *wcrt, bool busy, int64_t w,
	struct sum *s)
{
	for (size_t k = 0; k < i; k++) {
		const struct task *h = &rta->task[k];
		int64_t load = busy ? sum_plus(s, h->cpu_time, h->gpu) : h->load;

		if (same_cpu(h, &rta->task[i]))
			sum_add(s, FM_RTA_CPU_OF, h, sum_jobs(s, w, wcrt[k] - load, h->period),
				load);
	}
}
