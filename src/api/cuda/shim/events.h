/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recorded events. A thread that has waited for an event knows that everything before it has
 * finished. This is a table of fixed size, in which a later event may replace an earlier one. What
 * was forgotten becomes known by other means, only later.
 */
#pragma once
#include "shim.h"

#define FM_CUDA_EVENTS 1024u

/* Written without a lock. If threads write at the same time, parts of each may remain, and then
 * `sum` matches neither. Nor does it match an entry that is just being written. */
struct fm_cuda_event {
	FM_LINE _Atomic uintptr_t event;
	_Atomic uintptr_t key;
	_Atomic uint64_t generation, mark, all, sum;
};
extern struct fm_cuda_event fm_cuda_events[FM_CUDA_EVENTS];

/* Any odd numbers. */
#define FM_CUDA_EVENT_A UINT64_C(0x9e3779b97f4a7c15)
#define FM_CUDA_EVENT_B UINT64_C(0xbf58476d1ce4e5b9)
#define FM_CUDA_EVENT_C UINT64_C(0x94d049bb133111eb)
#define FM_CUDA_EVENT_D UINT64_C(0xd6e8feb86659fd93)

static inline struct fm_cuda_event *fm_cuda_event_at(CUevent event)
{
	return &fm_cuda_events[(uintptr_t)event * FM_CUDA_EVENT_A >> 54];
}

/* The key need not be part of the sum: if it does not belong to the generation, that is noticed
 * later. */
static inline uint64_t fm_cuda_event_sum(
	CUevent event, uint64_t generation, uint64_t mark, uint64_t all)
{
	return (uintptr_t)event * FM_CUDA_EVENT_A + generation * FM_CUDA_EVENT_B +
	       mark * FM_CUDA_EVENT_C + all * FM_CUDA_EVENT_D;
}

/* At worst, an event that takes the entry at this moment is forgotten. Other threads see this
 * before what the caller does next. Returns the entry. */
static inline struct fm_cuda_event *fm_cuda_event_forget(CUevent event)
{
	struct fm_cuda_event *e = fm_cuda_event_at(event);

	if (atomic_load_explicit(&e->event, memory_order_relaxed) != (uintptr_t)event)
		return e;
	atomic_store_explicit(&e->event, 0, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	return e;
}

/* The event has been behind this much of q since the driver's call: `mark` and `all` of a mark. It
 * was forgotten before the call. If it is in the entry all the same, another thread has recorded it
 * meanwhile, and it is not known which record was last. */
static inline void fm_cuda_event_set(struct fm_cuda_event *e, CUevent event,
	const struct fm_cuda_queue *q, uint64_t mark, uint64_t all)
{
	const uint64_t sum = fm_cuda_event_sum(event, q->generation, mark, all);

	if (FM_UNLIKELY(
		    atomic_load_explicit(&e->event, memory_order_relaxed) == (uintptr_t)event)) {
		atomic_store_explicit(&e->event, 0, memory_order_relaxed);
		return;
	}
	atomic_store_explicit(&e->key, q->key, memory_order_relaxed);
	atomic_store_explicit(&e->generation, q->generation, memory_order_relaxed);
	atomic_store_explicit(&e->mark, mark, memory_order_relaxed);
	atomic_store_explicit(&e->all, all, memory_order_relaxed);
	atomic_store_explicit(&e->sum, sum, memory_order_relaxed);
	atomic_store_explicit(&e->event, (uintptr_t)event, memory_order_release);
}

/* What is known of the event. False: nothing. */
bool fm_cuda_event_get(CUevent event, struct fm_cuda_mark *m);
