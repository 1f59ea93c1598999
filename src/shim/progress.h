/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far a queue has come, for drivers that show the program events and gates of ours when it asks
 * whether a queue is idle, or that say so only where the program waits.
 *
 * Owns: nothing.
 * Locks: none. The entry must stay meanwhile.
 * Threads: any of the program's.
 */
#pragma once
#include "queues.h"

/* Part of the API's struct of a queue. */
struct fm_shim_progress {
	_Atomic uint64_t orders;  /* calls of the program's that only order */
	_Atomic uint64_t idle_at; /* so many of its commands and orders are finished, as the driver
				     has said; */
	_Atomic uint64_t ours_at; /* so much of ours was there then */
};

/* How far a queue had come before a call that waits for it. By key, because the queue may be gone
 * afterwards. */
struct fm_shim_mark {
	uintptr_t key; /* 0: there is none */
	uint64_t generation, mark;
	uint64_t all, ours; /* with what only orders; what is ours there */
};

/* Of several queues, before a call that waits for all of them. */
struct fm_shim_marks {
	size_t n;
	uint64_t since;
	struct fm_shim_mark of[FM_BOARD_SLOTS];
};

static inline struct fm_shim_mark fm_shim_mark(
	const struct fm_shim_entry *e, const struct fm_shim_progress *p, uint64_t ours)
{
	uint64_t mark = fm_xq_mark(e->xq);

	return (struct fm_shim_mark){
		e->key, e->generation, mark, mark + atomic_load(&p->orders), ours};
}

/* One that only orders. A queue without commands has no state that it would change. */
static inline void fm_shim_order(struct fm_shim_progress *p)
{
	atomic_fetch_add_explicit(&p->orders, 1, memory_order_relaxed);
}

/* The driver has said that everything before the mark is finished. */
static inline void fm_shim_finished(const struct fm_shim_entry *e, struct fm_shim_progress *p,
	const struct fm_shim_mark *m, uint64_t since)
{
	uint64_t seen = atomic_load(&p->idle_at);

	while (seen < m->all && !atomic_compare_exchange_weak(&p->idle_at, &seen, m->all))
		;
	atomic_store(&p->ours_at, m->ours);
	fm_xq_waited(e->xq, m->mark, since);
}

/* The driver has said so, and the program has put nothing there since; only we may have, which must
 * be invisible to it. */
static inline bool fm_shim_idle_but_for_us(
	const struct fm_shim_entry *e, const struct fm_shim_progress *p, uint64_t ours)
{
	uint64_t all = atomic_load(&e->xq->slot->begun) + atomic_load(&p->orders);

	return atomic_load(&p->idle_at) >= all && ours != atomic_load(&p->ours_at);
}

/* add: puts the mark of the queue into the marks, if it is waited for. */
static inline void fm_shim_marks(
	struct fm_shim_marks *m, bool (*add)(struct fm_shim_entry *e, void *marks))
{
	m->n = 0;
	m->since = fm_now();
	if (fm_shim_has_client())
		fm_shim_each(add, m);
}
