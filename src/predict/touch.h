/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which memory the work of a program names: addresses in parameters of kernels, in structs within
 * them, in copies and fills, and in tables of pointers that the program has copied to the device.
 * What was named long ago can leave the device first. Nothing here decides what is right: memory
 * that is away although it is used is only slow.
 *
 * Memory is in pages of 2 MiB, in a range of addresses that never changes (an arena). Time is
 * counted in turns. A word that is an address of the range names the whole block around it, a copy
 * only the pages that it copies. What cannot be followed names everything (fm_touch_all).
 *
 * How often memory is named is counted only while somebody asks for it (fm_touch_count).
 *
 * Owns: a word or four for each page, three more where uses are counted, and the tables of
 * pointers. Locks: none. Words are atomic, and whoever reads them while they change sees a mix of
 * both, which costs bytes and nothing else. Blocks come and go under a lock of the caller's.
 * Threads: any. Naming takes no lock, no memory and no call of the system.
 */
#pragma once
#include "base/util.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FM_TOUCH_PAGE    ((uint64_t)2 << 20)
#define FM_TOUCH_TABLE   ((size_t)64 << 10) /* the longest copy that is looked at for pointers */
#define FM_TOUCH_TARGETS 32                 /* of one table; with more it names everything */

struct fm_touch_page {
	_Atomic uint32_t named;  /* the turn in which a copy named the page; 0: never */
	_Atomic uint32_t whole;  /* of a block's first page: in which turn the block was named */
	_Atomic uint32_t first;  /* the block's first page, plus one; 0: nothing is there */
	_Atomic uint32_t points; /* of a block's first page: FM_TOUCH_POINTS_* */
	_Atomic uint32_t pages;  /* of a block's first page: how many it has */
	/* Of the first page of 64: in which turn all of these were named, which are one block's. */
	_Atomic uint32_t wide;
	/* The segment in which any of that was first named in its last turn. */
	_Atomic uint32_t segment;
};
#define FM_TOUCH_WIDE 64u

/* So often was it named, as by words of fm_touch_page. named: by a copy, in parts of a page. */
struct fm_touch_uses {
	_Atomic uint32_t named, whole, wide;
};
#define FM_TOUCH_USE 16u /* one use, in parts */

enum { FM_TOUCH_POINTS_NOT, FM_TOUCH_POINTS_TABLES, FM_TOUCH_POINTS_ANYWHERE };

struct fm_touch_table;
struct fm_tensor_maps;

struct fm_touch {
	uint64_t base, size;
	struct fm_touch_page *page;
	_Atomic(struct fm_touch_uses *) uses; /* of each page; NULL: they are not counted */
	struct fm_touch_uses *counts;         /* that, also while they are not */
	struct fm_touch_table *table;
	const struct fm_tensor_maps *maps; /* of the program; NULL: it has none */
	bool parts;                        /* tensor maps name their box, not the block */
	const _Atomic uint32_t *segment;   /* the present one, by number; NULL: there are none */
	_Atomic uint32_t turn;             /* from 1 on */
	_Atomic uint32_t any;              /* the last turn in which something was named, */
	_Atomic uint32_t all; /* and the last in which it was not known what; 0: never */
};

/* base and size are multiples of pages, at most 2^31 of them. 0 or -ENOMEM. */
int fm_touch_init(struct fm_touch *t, uint64_t base, uint64_t size);
void fm_touch_free(struct fm_touch *t);

/* A block of these pages is there from now on, and named: somebody is about to use it. Pages of
 * small blocks are a block each. */
void fm_touch_block(struct fm_touch *t, uint32_t first, uint32_t pages);
void fm_touch_gone(struct fm_touch *t, uint32_t first, uint32_t pages);

/* --- what is named --- */

void fm_touch_hit(struct fm_touch *t, uint64_t word);
/* A word that may be an address. */
static inline void fm_touch_word(struct fm_touch *t, uint64_t word)
{
	if (word - t->base < t->size)
		fm_touch_hit(t, word);
}
/* n words, whatever the alignment of their own address. */
void fm_touch_words(struct fm_touch *t, const void *words, size_t n);
/* Exactly these bytes; those outside of the range do not count. */
void fm_touch_range(struct fm_touch *t, uint64_t at, uint64_t bytes);
/* These spans, relative to an address, of the block around it; what lies outside of the block does
 * not count, and then the answer is false. */
/* Bytes [from, to), relative to something. */
struct fm_span {
	int64_t from, to;
};
bool fm_touch_spans(struct fm_touch *t, uint64_t word, const struct fm_span *span, unsigned n);
/* So many bytes from an address on, of the block around it. */
static inline void fm_touch_box(struct fm_touch *t, uint64_t at, uint64_t bytes)
{
	const struct fm_span box = {0, bytes < INT64_MAX ? (int64_t)bytes : INT64_MAX};

	fm_touch_spans(t, at, &box, 1);
}
/* The block is in use, though nothing names it. That alone is no turn. */
void fm_touch_keep(struct fm_touch *t, uint64_t word);
/* Work of which it is not known what it names. */
void fm_touch_all(struct fm_touch *t);

/* --- tables of pointers --- */

/* The program copies these bytes to an address of the range: what pointed there does so no more;
 * and if there are addresses of the range among them, whoever is given that block is given those
 * blocks as well. */
void fm_touch_points(struct fm_touch *t, uint64_t at, const void *content, size_t bytes);
/* The same for content that is not known. from: where it is copied from; 0: it holds no pointers.
 */
void fm_touch_copied(struct fm_touch *t, uint64_t at, uint64_t bytes, uint64_t from);

/* --- turns --- */

/* A turn is over; one in which nothing was named was none. Returns the present one. */
uint32_t fm_touch_turn(struct fm_touch *t);
/* The last turn in which any of these pages was named; 0: never. */
uint32_t fm_touch_last(const struct fm_touch *t, uint32_t first, uint32_t pages);
/* Has any of them been named in the present turn? Then the first segment in which that was so. */
bool fm_touch_first(const struct fm_touch *t, uint32_t first, uint32_t pages, uint32_t *segment);

/* --- how often --- */

/* Uses are counted from now on, or are no more. 0 or -ENOMEM. One thread at a time. */
int fm_touch_count(struct fm_touch *t, bool on);
/* None of these pages has been used. */
void fm_touch_count_anew(struct fm_touch *t, uint32_t first, uint32_t pages);
/* How often each of these pages, at most 64, has been named on the average, in parts of a use.
 * Pages with a bit in `without' count as never named. */
uint64_t fm_touch_uses(const struct fm_touch *t, uint32_t first, uint32_t pages, uint64_t without);

/* The first of the last n turns, so that what was named in it or since is in use. */
static inline uint32_t fm_touch_since(const struct fm_touch *t, uint32_t n)
{
	uint32_t now = atomic_load_explicit(&t->turn, memory_order_relaxed);

	return now > n ? now - n + 1 : 1;
}
/* Is all known that was named since that turn? */
static inline bool fm_touch_known(const struct fm_touch *t, uint32_t since)
{
	return atomic_load_explicit(&t->all, memory_order_relaxed) < since;
}
