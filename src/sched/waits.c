/* SPDX-License-Identifier: Apache-2.0 */
/* Lengths of the waits of an entity that ended with running, ever and of late. */
#include "core.h"
#include <string.h>

/* Far coarser than fm_hist, because each entity has one: four buckets in a power of two, and one
 * for all waits below 1 us. */
#define BITS  2
#define FIRST ((10 - BITS + 1) << BITS) /* of fm_log_bucket(), from 2^10 ns on */

static unsigned bucket_of(uint64_t ns)
{
	unsigned i = fm_log_bucket(ns, BITS) + 1;

	return i <= FIRST ? 0 : FM_MIN(i - FIRST, FM_WAIT_BUCKETS - 1u);
}

static uint64_t bucket_top(unsigned i)
{
	return fm_log_end(i + FIRST - 1, BITS) - 1;
}

static void forget(struct fm_blame *b, uint64_t stretch)
{
	uint32_t *from = b->bucket[stretch & 1], *to = b->bucket[FM_WAIT_PAST];

	for (unsigned i = 0; i < FM_WAIT_BUCKETS; i++)
		to[i] += from[i];
	memset(from, 0, sizeof(b->bucket[0]));
}

/* Begins the stretch of t. Counts from before the last stretch move to the past. */
static void turn_to(struct fm_blame *b, uint64_t t)
{
	uint64_t stretch = t / FM_RECENT;

	if (stretch <= b->stretch)
		return;
	forget(b, stretch);
	if (stretch > b->stretch + 1)
		forget(b, stretch + 1);
	b->stretch = stretch;
}

void fm_waits_add(struct fm_spend *p, uint64_t ns)
{
	struct fm_blame *b;

	if (!ns)
		return;
	p->waits++;
	p->longest = FM_MAX(p->longest, ns);
	b = fm_blame_of(p);
	if (!b)
		return;
	turn_to(b, p->to);
	b->bucket[b->stretch & 1][bucket_of(ns)]++;
}

/* The number of waits in bucket i, of late or ever. */
static uint64_t in_bucket(const struct fm_blame *b, unsigned i, bool recent)
{
	uint64_t n = (uint64_t)b->bucket[0][i] + b->bucket[1][i];

	return recent ? n : n + b->bucket[FM_WAIT_PAST][i];
}

static uint64_t quantile(const struct fm_spend *p, uint64_t waits, double q, bool recent)
{
	uint64_t rank = (uint64_t)(q * (double)waits + 0.5), seen = 0;

	rank = FM_MAX(rank, UINT64_C(1));
	for (unsigned i = 0; p->blame && waits && i < FM_WAIT_BUCKETS; i++) {
		seen += in_bucket(p->blame, i, recent);
		if (seen >= rank)
			return FM_MIN(bucket_top(i), p->longest);
	}
	return waits ? p->longest : 0;
}

void fm_waits_tell(const struct fm_spend *p, struct fm_account *a)
{
	struct fm_blame *b = p->blame;

	a->waits = p->waits;
	a->wait_p50 = quantile(p, a->waits, 0.50, false);
	a->wait_p99 = quantile(p, a->waits, 0.99, false);
	a->wait_max = p->longest;
	if (!b)
		return;
	turn_to(b, p->to);
	for (unsigned i = 0; i < FM_WAIT_BUCKETS; i++)
		a->recent += in_bucket(b, i, true);
	a->recent_p50 = quantile(p, a->recent, 0.50, true);
	a->recent_p99 = quantile(p, a->recent, 0.99, true);
}

const uint64_t fm_wait_bounds[FM_WAIT_BOUNDS] = {
	10 * FM_US, 100 * FM_US, FM_MS, 10 * FM_MS, 100 * FM_MS, FM_S, 10 * FM_S};

void fm_sched_ent_waits(const struct fm_sched_ent *e, uint64_t upto[FM_WAIT_BOUNDS])
{
	const struct fm_blame *b = e->spend->blame;
	uint64_t seen = 0;
	unsigned i = 0;

	/* The last bucket has no end. */
	for (unsigned n = 0; n < FM_WAIT_BOUNDS; n++) {
		for (; b && i < FM_WAIT_BUCKETS - 1 && bucket_top(i) <= fm_wait_bounds[n]; i++)
			seen += in_bucket(b, i, false);
		upto[n] = seen;
	}
}
