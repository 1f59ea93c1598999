/* SPDX-License-Identifier: Apache-2.0 */
#include "hist.h"
#include "clock.h"
#include "util.h"
#include <string.h>

static uint64_t bucket_top(unsigned i)
{
	return fm_log_end(i, FM_HIST_SUB_BITS) - 1;
}

void fm_hist_reset(struct fm_hist *h)
{
	memset(h, 0, sizeof(*h));
	h->min = UINT64_MAX;
}

void fm_hist_add(struct fm_hist *h, uint64_t ns)
{
	if (!h->count)
		h->min = UINT64_MAX;
	h->count++;
	h->sum = fm_add_sat(h->sum, ns);
	h->min = FM_MIN(h->min, ns);
	h->max = FM_MAX(h->max, ns);
	h->bucket[fm_log_bucket(ns, FM_HIST_SUB_BITS)]++;
}

void fm_hist_merge(struct fm_hist *into, const struct fm_hist *from)
{
	if (!from->count)
		return;
	if (!into->count)
		into->min = UINT64_MAX;
	into->count += from->count;
	into->sum = fm_add_sat(into->sum, from->sum);
	into->min = FM_MIN(into->min, from->min);
	into->max = FM_MAX(into->max, from->max);
	for (unsigned i = 0; i < FM_HIST_BUCKETS; i++)
		into->bucket[i] += from->bucket[i];
}

#define DECADE(unit) (unit), 2 * (unit), 5 * (unit)
const uint64_t fm_hist_bounds[FM_HIST_BOUNDS] = {DECADE(FM_US), DECADE(10 * FM_US),
	DECADE(100 * FM_US), DECADE(FM_MS), DECADE(10 * FM_MS), DECADE(100 * FM_MS), DECADE(FM_S),
	10 * FM_S};

void fm_hist_upto(const struct fm_hist *h, uint64_t upto[FM_HIST_BOUNDS])
{
	uint64_t seen = 0;
	unsigned i = 0;

	for (unsigned n = 0; n < FM_HIST_BOUNDS; n++) {
		for (; i < FM_HIST_BUCKETS && bucket_top(i) <= fm_hist_bounds[n]; i++)
			seen += h->bucket[i];
		upto[n] = seen;
	}
}

uint64_t fm_hist_bucket(const struct fm_hist *h, unsigned bucket, uint64_t *upto)
{
	*upto = FM_MAX(FM_MIN(bucket_top(bucket), h->max), h->min);
	return h->bucket[bucket];
}

uint64_t fm_hist_quantile(const struct fm_hist *h, double q)
{
	uint64_t rank, seen = 0;

	if (!h->count)
		return 0;
	q = q < 0 ? 0 : q > 1 ? 1 : q;
	rank = (uint64_t)(q * (double)h->count + 0.5);
	rank = FM_MAX(rank, UINT64_C(1));
	for (unsigned i = 0; i < FM_HIST_BUCKETS; i++) {
		seen += h->bucket[i];
		if (seen >= rank)
			return FM_MAX(FM_MIN(bucket_top(i), h->max), h->min);
	}
	return h->max;
}
