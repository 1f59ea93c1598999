/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Histogram of durations with log-linear buckets (32 per power of two, at most 3.2 % relative
 * error), the layout that HdrHistogram made common. Fixed size, no allocation, exact count, sum,
 * min and max. One writer; a reader of a live histogram may see a sample's count before its bucket.
 */
#pragma once
#include <stdint.h>

/* Log-linear buckets, 2^bits of them in each power of two, and one for each value below 2^bits:
 * which one a value is in, and the first value beyond one, 0 after the last. */
static inline unsigned fm_log_bucket(uint64_t v, unsigned bits)
{
	unsigned exp;

	if (v >> bits == 0)
		return (unsigned)v;
	exp = 63 - (unsigned)__builtin_clzll(v) - bits;
	return (exp << bits) + (unsigned)(v >> exp);
}

static inline uint64_t fm_log_end(unsigned bucket, unsigned bits)
{
	unsigned exp = bucket >> bits ? (bucket >> bits) - 1 : 0;

	return ((uint64_t)bucket - (exp << bits) + 1) << exp;
}

#define FM_HIST_SUB_BITS 5
#define FM_HIST_BUCKETS  ((64 - FM_HIST_SUB_BITS + 1) << FM_HIST_SUB_BITS)

struct fm_hist {
	uint64_t count, sum, min, max;
	uint32_t bucket[FM_HIST_BUCKETS];
};

void fm_hist_reset(struct fm_hist *h);
void fm_hist_add(struct fm_hist *h, uint64_t ns);
void fm_hist_merge(struct fm_hist *into, const struct fm_hist *from);

/* For people who count by fixed bounds, in ns: 1, 2, 5, 10 us and so on up to 10 s. */
#define FM_HIST_BOUNDS 22
extern const uint64_t fm_hist_bounds[FM_HIST_BOUNDS];
/* How many were not above each of them. What shares a bucket with a bound counts as above it. */
void fm_hist_upto(const struct fm_hist *h, uint64_t upto[FM_HIST_BOUNDS]);

/* How many are in a bucket, and up to which value they are: the upper edge of the bucket, but no
 * value beyond the least and the greatest. */
uint64_t fm_hist_bucket(const struct fm_hist *h, unsigned bucket, uint64_t *upto);

/* The value at quantile q in [0, 1]: the upper edge of its bucket, never above the maximum. 0 when
 * empty. */
uint64_t fm_hist_quantile(const struct fm_hist *h, double q);
