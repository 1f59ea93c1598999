/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a kernel touches, marked by the device itself while the kernel runs. The table is in the
 * device's memory: it begins with the regions that are of interest, and has a cell for each granule
 * of them. A cell keeps the first and the last byte that was touched in its granule. The device
 * looks before it writes, so that a cell is written a few times and read often.
 *
 * touched.cu is the same for devices: functions that NVIDIA's Compute Sanitizer puts in front of
 * each access (api/cuda/profile/sanitizer.h). touched.ptx is the same for kernels whose text is
 * rewritten (code/cuda/pass/marks.h).
 *
 * Owns: nothing.
 * Locks: none.
 * Threads: any, but for fm_touched_mark(): one at a time.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FM_TOUCHED_REGIONS 64u
#define FM_TOUCHED_CELLS   65536u /* of a region, at most */
#define FM_TOUCHED_FINEST  9u     /* granules of 512 bytes at least */

struct fm_touched_region {
	uint64_t at, size;
	uint32_t shift; /* granules of 1 << shift bytes, counted from `at` */
	uint32_t first; /* the first cell */
};

struct fm_touched_cell {
	uint32_t before; /* bytes from the first that was touched to the granule's end; 0: none */
	uint32_t end;    /* bytes from the granule's beginning to behind the last */
};

struct fm_touched {
	uint32_t n;       /* regions; rising, apart from each other */
	uint32_t ran;     /* 1: a block has run that is looked at */
	uint32_t outside; /* 1: there was one outside of all regions */
	uint32_t pad;
	struct fm_touched_region region[FM_TOUCHED_REGIONS];
	struct fm_touched_cell cell[];
};

/* Granules of a region of that size, so that it has FM_TOUCHED_CELLS at most. */
static inline uint32_t fm_touched_shift(uint64_t size)
{
	uint32_t shift = FM_TOUCHED_FINEST;

	while ((size - 1) >> shift >= FM_TOUCHED_CELLS)
		shift++;
	return shift;
}
static inline uint32_t fm_touched_cells(const struct fm_touched_region *r)
{
	return r->size ? (uint32_t)((r->size - 1) >> r->shift) + 1 : 0;
}

/* What the device does for an access. */
static inline void fm_touched_mark(struct fm_touched *t, uint64_t at, uint64_t bytes)
{
	const struct fm_touched_region *r = t->region;
	uint64_t from, to, size;

	while (r < t->region + t->n && at - r->at >= r->size)
		r++;
	if (r == t->region + t->n) {
		t->outside = 1;
		return;
	}
	size = UINT64_C(1) << r->shift;
	to = at - r->at + bytes < r->size ? at - r->at + bytes : r->size;
	for (from = at - r->at; from < to; from = (from | (size - 1)) + 1) {
		struct fm_touched_cell *c = &t->cell[r->first + (from >> r->shift)];
		uint32_t before = (uint32_t)(size - (from & (size - 1)));
		uint32_t end =
			to - from < before ? (uint32_t)((to - 1) & (size - 1)) + 1 : (uint32_t)size;

		c->before = before > c->before ? before : c->before;
		c->end = end > c->end ? end : c->end;
	}
}

/* The functions of touched.cu, made by make-images: machine code for each architecture that it
 * names, to be loaded by the Sanitizer alone. */
extern const unsigned char fm_touched_image[];
extern const size_t fm_touched_image_size;
#define FM_TOUCHED_BLOCK  "fermata_touched_block"  /* a block begins */
#define FM_TOUCHED_ACCESS "fermata_touched_access" /* loads, stores, atomics */
#define FM_TOUCHED_ASYNC  "fermata_touched_async"  /* cp.async */
#define FM_TOUCHED_LOAD   "fermata_touched_load"   /* cp.async.bulk to shared memory, */
#define FM_TOUCHED_STORE  "fermata_touched_store"  /* from it, and reductions */

/* The mark as text of PTX, made of touched_text.cu: a function (.b64 address, .b32 bytes), and the
 * word of the module that it reads, which has the table's address, or 0. */
extern const char fm_touched_text[];
#define FM_TOUCHED_MARK  "fermata_touched_mark"
#define FM_TOUCHED_TABLE "fermata_touched_table"
