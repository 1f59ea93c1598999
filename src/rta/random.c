/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers that are the same on every machine: xoshiro256** (Blackman, Vigna 2018), seeded by
 * splitmix64, and integers from there on. */
#include "internal.h"
#include <errno.h>
#include <stdlib.h>

static uint64_t splitmix(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static uint64_t rotate(uint64_t v, int by)
{
	return v << by | v >> (64 - by);
}

void fm_rta_seed(struct fm_rta_random *r, uint64_t seed, uint64_t stream)
{
	uint64_t s = seed;

	s = splitmix(&s) ^ stream;
	s = splitmix(&s);
	for (int k = 0; k < 4; k++)
		r->state[k] = splitmix(&s);
}

uint64_t fm_rta_next(struct fm_rta_random *r)
{
	uint64_t *s = r->state, out = rotate(s[1] * 5, 7) * 9, t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotate(s[3], 45);
	return out;
}

/* Lemire's multiplication, without its bias: what would favour small numbers is drawn again. */
int64_t fm_rta_uniform(struct fm_rta_random *r, int64_t min, int64_t max)
{
	uint64_t span = (uint64_t)max - (uint64_t)min + 1, floor;
	unsigned __int128 product;

	if (!span || max < min)
		return span ? min : (int64_t)fm_rta_next(r);
	floor = -span % span;
	do
		product = (unsigned __int128)fm_rta_next(r) * span;
	while ((uint64_t)product < floor);
	return (int64_t)((uint64_t)min + (uint64_t)(product >> 64));
}

/* The largest x with x^k <= v, all as parts of 2^32, each product rounded down. */
static uint64_t root(uint64_t v, size_t k)
{
	uint64_t x = 0;

	for (int bit = 31; bit >= 0; bit--) {
		uint64_t attempt = x | UINT64_C(1) << bit, power = attempt;

		for (size_t n = 1; n < k && power; n++)
			power = (uint64_t)((unsigned __int128)power * attempt >> 32);
		if (power <= v)
			x = attempt;
	}
	return x;
}

void fm_rta_uunifast(struct fm_rta_random *r, int64_t total, size_t n, int64_t *share)
{
	int64_t left = total;

	for (size_t k = 0; k + 1 < n; k++) {
		uint64_t part = root(fm_rta_next(r) >> 32, n - 1 - k);
		int64_t rest = (int64_t)((unsigned __int128)(uint64_t)left * part >> 32);

		share[k] = left - rest;
		left = rest;
	}
	if (n)
		share[n - 1] = left;
}

struct item {
	int64_t share;
	size_t place;
};

static int largest_first(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	if (x->share != y->share)
		return x->share < y->share ? 1 : -1;
	return x->place < y->place ? -1 : x->place > y->place;
}

int fm_rta_worst_fit(const int64_t *share, size_t n, uint32_t bins, uint32_t *bin)
{
	struct item *item;
	__int128 *load;
	bool made;

	if (!bins)
		return -EINVAL;
	item = calloc(n + 1, sizeof(*item));
	load = calloc(bins, sizeof(*load));
	made = item && load;
	for (size_t k = 0; made && k < n; k++)
		item[k] = (struct item){share[k], k};
	if (made)
		qsort(item, n, sizeof(*item), largest_first);
	for (size_t k = 0; made && k < n; k++) {
		uint32_t best = 0;

		for (uint32_t b = 1; b < bins; b++)
			best = load[b] < load[best] ? b : best;
		load[best] += item[k].share;
		bin[item[k].place] = best;
	}
	free(item);
	free(load);
	return made ? 0 : -ENOMEM;
}
