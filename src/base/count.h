/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A count that mostly one thread raises, its owner: without a locked operation, which waits until
 * all that the thread has written before is out of the processor. Others may raise it, too: what
 * they do is counted apart, and the sum is what counts.
 */
#pragma once
#include "base/util.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Names the thread: one that comes when another has ended may have the same name. */
static inline const void *fm_this_thread(void)
{
#if defined __has_builtin
#if __has_builtin(__builtin_thread_pointer)
	return __builtin_thread_pointer(); /* a register, or next to it */
#endif
#endif
	return (const void *)(uintptr_t)pthread_self();
}

struct fm_count {
	_Atomic uint64_t own, others;
};

/* own: by the owner, who is the same thread until it ends. Published with release. */
static inline void fm_count_raise(struct fm_count *c, bool own)
{
	if (FM_LIKELY(own))
		atomic_store_explicit(&c->own,
			atomic_load_explicit(&c->own, memory_order_relaxed) + 1,
			memory_order_release);
	else
		atomic_fetch_add_explicit(&c->others, 1, memory_order_release);
}

/* It was so much at some moment between the call and the return. Read with acquire. */
static inline uint64_t fm_count_sum(struct fm_count *c)
{
	return atomic_load_explicit(&c->own, memory_order_acquire) +
	       atomic_load_explicit(&c->others, memory_order_acquire);
}
