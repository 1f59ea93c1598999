/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which pages of a range are free, in two sizes: up to 64 pages as bits of a word, or any number as
 * a list of runs. Pure. Not thread-safe.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* The lowest run of n free pages, 1 <= n <= 64, where `used` has a bit for each of `pages`.
 * Negative: there is none. */
int fm_cu_run_find(uint64_t used, unsigned pages, unsigned n);

static inline uint64_t fm_cu_run_mask(unsigned first, unsigned n)
{
	return (n >= 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1) << first;
}

/* The next run of set bits from *at on: its first bit, with *at behind it and *n its length.
 * Negative: no more. */
int fm_cu_run_next(uint64_t used, unsigned *at, unsigned *n);

struct fm_cu_places {
	struct fm_cu_run {
		uint32_t first, n;
	} * run; /* free ones, by address; no two touch */
	unsigned runs, room, taken;
};

int fm_cu_places_init(struct fm_cu_places *p, uint32_t pages);
void fm_cu_places_end(struct fm_cu_places *p);
/* 0, and *first of n pages, which come back in so many parts; -ENOSPC; -ENOMEM. */
int fm_cu_places_take(struct fm_cu_places *p, uint32_t n, unsigned parts, uint32_t *first);
void fm_cu_places_give(struct fm_cu_places *p, uint32_t first, uint32_t n);
/* What was taken comes back in one part more (0; -ENOMEM), or in one less. */
int fm_cu_places_cut(struct fm_cu_places *p);
void fm_cu_places_join(struct fm_cu_places *p);
