/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The places of gates in graphs. A graph can update another only if both have the same shape, and
 * so the same gates, however large the grids and copies of either are. A row is the commands of a
 * graph up to one of them, identified by what they are and not by their sizes. Whether a row ends
 * in a gate is decided once, by estimates, when it is first captured; all rows like it follow.
 */
#include "segment.h"

#define SET_BITS 12
#define WAYS     16

/* The upper bits are a row's hash; the lowest bit says whether there is a gate. 0: free. */
struct set {
	_Alignas(64) _Atomic uint32_t row[WAYS];
};

static struct set sets[1 << SET_BITS]; /* pages of rows that are never captured are never touched */

bool fm_row_gated(uint64_t row, bool wanted)
{
	static _Atomic unsigned turn;
	struct set *set = &sets[row >> (64 - SET_BITS)];
	uint32_t tag = (uint32_t)row & ~1u, fresh, seen;

	tag = tag ? tag : 2;
	fresh = tag | wanted;
	for (unsigned i = 0; i < WAYS; i++) {
		seen = atomic_load_explicit(&set->row[i], memory_order_relaxed);
		if (!seen && atomic_compare_exchange_strong(&set->row[i], &seen, fresh))
			return wanted;
		if ((seen & ~1u) == tag)
			return seen & 1;
	}
	atomic_store_explicit(
		&set->row[atomic_fetch_add(&turn, 1) % WAYS], fresh, memory_order_relaxed);
	return wanted;
}
