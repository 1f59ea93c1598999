/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recorded events: who has waited for one knows that all before it has finished. A table of fixed
 * size, in which a later event may take an earlier one's place; what was forgotten is found out
 * otherwise, only later.
 */
#include "shim.h"

#define EVENTS 1024u

/* seq is odd while it is written. */
static struct entry {
	_Atomic uint32_t seq;
	_Atomic uintptr_t event;
	_Atomic uintptr_t key;
	_Atomic uint64_t generation, mark, all;
} entries[EVENTS];

static struct entry *entry_of(CUevent event)
{
	return &entries[(uintptr_t)event * UINT64_C(0x9e3779b97f4a7c15) >> 54];
}

static bool is(struct entry *e, CUevent event)
{
	return atomic_load_explicit(&e->event, memory_order_relaxed) == (uintptr_t)event;
}

/* The entry of one event is seldom written by two threads at once; another event that shares it
 * then goes without. */
static bool lock(struct entry *e)
{
	for (unsigned tries = 0; tries < 1000; tries++) {
		uint32_t seq = atomic_load_explicit(&e->seq, memory_order_relaxed);

		if (!(seq & 1) && atomic_compare_exchange_weak_explicit(&e->seq, &seq, seq + 1,
					  memory_order_acquire, memory_order_relaxed)) {
			atomic_thread_fence(memory_order_release);
			return true;
		}
	}
	return false;
}

static void unlock(struct entry *e)
{
	uint32_t seq = atomic_load_explicit(&e->seq, memory_order_relaxed);

	atomic_store_explicit(&e->seq, seq + 1, memory_order_release);
}

/* Without the lock: at worst an event that takes the entry at this moment goes without. Seen before
 * what the caller does next. */
FM_HOT void fm_cuda_event_forget(CUevent event)
{
	struct entry *e = entry_of(event);

	if (!event || !is(e, event))
		return;
	atomic_store_explicit(&e->event, 0, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
}

FM_HOT void fm_cuda_event_set(CUevent event, const struct fm_cuda_mark *m)
{
	struct entry *e = entry_of(event);

	if (!event || !lock(e))
		return;
	atomic_store_explicit(&e->event, (uintptr_t)event, memory_order_relaxed);
	atomic_store_explicit(&e->key, m->key, memory_order_relaxed);
	atomic_store_explicit(&e->generation, m->generation, memory_order_relaxed);
	atomic_store_explicit(&e->mark, m->mark, memory_order_relaxed);
	atomic_store_explicit(&e->all, m->all, memory_order_relaxed);
	unlock(e);
}

FM_HOT bool fm_cuda_event_get(CUevent event, struct fm_cuda_mark *m)
{
	struct entry *e = entry_of(event);
	uint32_t seq = atomic_load_explicit(&e->seq, memory_order_acquire);

	if (!event || seq & 1 || !is(e, event))
		return false;
	m->key = atomic_load_explicit(&e->key, memory_order_relaxed);
	m->generation = atomic_load_explicit(&e->generation, memory_order_relaxed);
	m->mark = atomic_load_explicit(&e->mark, memory_order_relaxed);
	m->all = atomic_load_explicit(&e->all, memory_order_relaxed);
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&e->seq, memory_order_relaxed) == seq;
}

void fm_cuda_events_clear(void)
{
	for (size_t i = 0; i < EVENTS; i++) {
		atomic_store(&entries[i].event, 0);
		atomic_store(&entries[i].seq, 0);
	}
}
