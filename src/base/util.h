/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all modules use. Each header of this module stands alone.
 *
 * Owns: nothing: types and functions over what the caller owns.
 * Locks: none.
 * Threads: any, each with data of its own. Where several may share something (count.h), its header
 * says so.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FM_CACHE_LINE 64
#define FM_LINE       _Alignas(FM_CACHE_LINE)

#define FM_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define FM_LIKELY(x)    __builtin_expect(!!(x), 1)
#define FM_UNLIKELY(x)  __builtin_expect(!!(x), 0)
/* Called at each launch of a program whose own code fills the caches: all such functions stand
 * together. */
#define FM_HOT __attribute__((hot))
/* Of those: a part of each that uses it, so that nothing is passed in memory. */
#define FM_INLINE_HOT static inline __attribute__((always_inline))
/* Called from there now and then: what is done around such a call stands elsewhere, too. */
#define FM_COLD __attribute__((cold))
#define FM_MIN(a, b)                    \
	({                              \
		__typeof__(a) a_ = (a); \
		__typeof__(b) b_ = (b); \
		a_ < b_ ? a_ : b_;      \
	})
#define FM_MAX(a, b)                    \
	({                              \
		__typeof__(a) c_ = (a); \
		__typeof__(b) d_ = (b); \
		c_ > d_ ? c_ : d_;      \
	})

/* The structure around a member. */
#define fm_container(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* Saturating arithmetic for times: FM_NEVER stays never. */
static inline uint64_t fm_add_sat(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static inline uint64_t fm_sub_sat(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* As calloc, for what has members that are FM_LINE. */
static inline void *fm_lines(size_t size)
{
	void *p = aligned_alloc(FM_CACHE_LINE, size);

	return p ? memset(p, 0, size) : NULL;
}
