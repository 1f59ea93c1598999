/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a kernel accesses memory, marked by the device itself while the kernel runs: which bytes it
 * reads, writes, writes before it reads them, and changes by atomics; and which ones several blocks
 * touch. The table is in the device's memory: it begins with the regions that are of interest, and
 * has a cell of 64 bits for each piece of them. A cell has four quarters. Where a region is small a
 * quarter is a byte, else it is more, and all errs to the safe side then: a thread that reads a
 * part of a quarter reads all of it, and one that writes a part of it has not written it first.
 *
 * accessed_text.c is the same for devices, made of accessed_text.cu: a function that is called in
 * front of each access in kernels whose text is rewritten (code/cuda/pass/marks.h).
 *
 * Owns: nothing.
 * Locks: none.
 * Threads: any, but for fm_accessed_mark(): one at a time.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FM_ACCESSED_REGIONS 256u

enum fm_accessed_kind {
	FM_ACCESSED_READ = 1,
	FM_ACCESSED_WRITE = 2,
	FM_ACCESSED_ATOMIC = 3,
	FM_ACCESSED_LATER = 4 /* a read that may come after what the thread does next */
};

/* A cell: five sets of quarters, a bit for several blocks, and above that the number of the thread
 * that touched the cell first, plus one. */
enum {
	FM_ACCESSED_R = 0,    /* read, by a thread that had not written it itself */
	FM_ACCESSED_W = 4,    /* written, at least in part */
	FM_ACCESSED_ALL = 8,  /* a single write covered it */
	FM_ACCESSED_OWN = 12, /* the same, by the first thread */
	FM_ACCESSED_A = 16,
	FM_ACCESSED_MANY = 20,
	FM_ACCESSED_WHO = 21
};
#define FM_ACCESSED_QUARTERS 4u
#define FM_ACCESSED_THREADS  (UINT64_C(1) << 42) /* of a launch, at most */

struct fm_accessed_region {
	uint64_t at, size;
	uint32_t shift; /* quarters of 1 << shift bytes, counted from `at` */
	uint32_t first; /* the first cell */
};

struct fm_accessed {
	uint32_t n;       /* regions; rising, apart from each other */
	uint32_t outside; /* 1: there was an access outside of all regions */
	struct fm_accessed_region region[FM_ACCESSED_REGIONS];
	uint64_t cell[];
};

static inline uint64_t fm_accessed_cells(const struct fm_accessed_region *r)
{
	return r->size ? ((r->size - 1) >> (r->shift + 2)) + 1 : 0;
}

/* What an access by that thread makes of a cell: of the quarters that it touches, and those that it
 * covers. */
static inline uint64_t fm_accessed_next(uint64_t cell, uint64_t thread, uint64_t block_threads,
	uint32_t touches, uint32_t covers, uint32_t kind)
{
	uint64_t who = cell >> FM_ACCESSED_WHO;
	bool mine = !who || who == thread + 1;
	uint32_t own = mine ? (uint32_t)(cell >> FM_ACCESSED_OWN) & 15 : 0;

	cell |= who ? 0 : (thread + 1) << FM_ACCESSED_WHO;
	if (!mine && (who - 1) / block_threads != thread / block_threads)
		cell |= UINT64_C(1) << FM_ACCESSED_MANY;
	if (kind == FM_ACCESSED_WRITE) {
		cell |= (uint64_t)touches << FM_ACCESSED_W | (uint64_t)covers << FM_ACCESSED_ALL;
		return mine ? cell | (uint64_t)covers << FM_ACCESSED_OWN : cell;
	}
	cell |= (uint64_t)(kind == FM_ACCESSED_READ ? touches & ~own : touches) << FM_ACCESSED_R;
	if (kind == FM_ACCESSED_ATOMIC)
		cell |= (uint64_t)touches << FM_ACCESSED_W | (uint64_t)touches << FM_ACCESSED_A;
	return cell;
}

/* What the device does for an access. */
static inline void fm_accessed_mark(struct fm_accessed *t, uint64_t thread, uint64_t block_threads,
	uint64_t at, uint64_t bytes, enum fm_accessed_kind kind)
{
	const struct fm_accessed_region *r = t->region;
	uint64_t from, to, quarter;

	while (r < t->region + t->n && at - r->at >= r->size)
		r++;
	if (r == t->region + t->n || bytes > r->size - (at - r->at)) {
		t->outside = 1;
		return;
	}
	quarter = UINT64_C(1) << r->shift;
	from = at - r->at;
	to = from + bytes;
	for (uint64_t q = from >> r->shift; q << r->shift < to; q++) {
		uint64_t *cell = &t->cell[r->first + (q >> 2)];
		uint64_t begin = q << r->shift;
		uint64_t end = begin + quarter < r->size ? begin + quarter : r->size;
		uint32_t bit = 1u << (q & 3);

		*cell = fm_accessed_next(*cell, thread, block_threads, bit,
			from <= begin && end <= to ? bit : 0, kind);
	}
}

/* The mark as text of PTX: a function (.b64 address, .b32 bytes, .b32 kind), and the word of the
 * module that it reads, which has the table's address, or 0. */
extern const char fm_accessed_text[];
#define FM_ACCESSED_MARK  "fermata_accessed_mark"
#define FM_ACCESSED_TABLE "fermata_accessed_table"
