/* SPDX-License-Identifier: Apache-2.0 */
#include "victims.h"
#include "base/clock.h"
#include "base/util.h"
#include <stdlib.h>

static int by_order(const void *x, const void *y)
{
	const struct victim *a = x, *b = y;

	if (a->state != b->state)
		return a->state < b->state ? -1 : 1;
	if (a->since != b->since)
		return a->since < b->since ? -1 : 1;
	return (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

/* When those that keep their memory have done so, is there enough? The time of the last of them
 * that is needed; FM_NEVER: there is not. */
static uint64_t enough_at(
	const struct victim *v, unsigned n, uint64_t sum, uint64_t least, uint64_t now)
{
	uint64_t at = now;

	while (sum < least) {
		uint64_t next = FM_NEVER;

		for (unsigned i = 0; i < n; i++)
			if (v[i].keeps > at)
				next = FM_MIN(next, v[i].keeps);
		if (next == FM_NEVER)
			return FM_NEVER;
		for (unsigned i = 0; i < n; i++)
			sum = v[i].keeps == next ? fm_add_sat(sum, v[i].bytes) : sum;
		at = next;
	}
	return at;
}

static uint64_t all_of(const struct victim *v, unsigned n, uint64_t now)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < n; i++)
		if (v[i].keeps <= now)
			sum = fm_add_sat(sum, v[i].bytes);
	return sum;
}

uint64_t victims_choose(
	struct victim *v, unsigned n, uint64_t want, uint64_t least, uint64_t now, uint64_t *when)
{
	uint64_t sum = all_of(v, n, now), got = 0;

	least = FM_MAX(least, UINT64_C(1));
	*when = FM_NEVER;
	for (unsigned i = 0; i < n; i++)
		v[i].goes = false;
	if (sum < least) {
		*when = enough_at(v, n, sum, least, now);
		return 0;
	}
	qsort(v, n, sizeof(*v), by_order);
	for (unsigned i = 0; i < n && got < want; i++) {
		v[i].goes = v[i].keeps <= now && v[i].bytes;
		got += v[i].goes ? v[i].bytes : 0;
	}
	/* Those that one would disturb most come back first. */
	for (unsigned i = n; i-- > 0;)
		if (v[i].goes && got - v[i].bytes >= want) {
			v[i].goes = false;
			got -= v[i].bytes;
		}
	return got;
}
