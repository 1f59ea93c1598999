/* SPDX-License-Identifier: Apache-2.0 */
/* What is put into streams besides commands, and only orders those. It occupies a channel of the
 * device as commands do, and its end is not reported. */
#include "internal.h"

static bool is_ordered(struct fm_cu_queue *q, uint64_t done)
{
	if (atomic_load(&q->coming))
		return true;
	return atomic_load(&q->order_from) > done &&
	       atomic_load(&q->order_all) > atomic_load(&q->idle_at);
}

void fm_cu_order_put(struct fm_cu_queue *q, uint64_t begun, uint64_t mark)
{
	fm_count_raise(&q->ordered, q->owner == &fm_cu_inside);
	atomic_store_explicit(&q->order_all, fm_cu_all(q, mark), memory_order_release);
	atomic_store_explicit(&q->order_from, begun + 1, memory_order_release);
}

void fm_cu_look_before(struct fm_cu_queue *q)
{
	int mode = fm_cu_enter(q->cu);
	bool idle = q->cu->stream_query && q->cu->stream_query(q->stream) == FM_CU_SUCCESS;

	fm_cu_leave(q->cu, mode);
	if (idle)
		return;
	fm_count_raise(&q->orders, true);
	fm_cu_order_put(q, 0, 0);
}

static void raise_to(_Atomic uint64_t *to, uint64_t n)
{
	uint64_t before = atomic_load_explicit(to, memory_order_relaxed);

	while (before < n && !atomic_compare_exchange_weak(to, &before, n))
		;
}

void fm_cu_idle_at(struct fm_cu_queue *q, uint64_t all, uint64_t ours)
{
	raise_to(&q->ours_at, ours);
	raise_to(&q->idle_at, all);
}

static void ask_driver(struct fm_cu_queue *q, uint64_t passed)
{
	uint64_t all = fm_cu_all(q, passed), ours = atomic_load(&q->ours_put);
	fm_cu_result rc;

	if (!q->cu->stream_query || fm_cu_touch(q))
		return;
	rc = q->cu->stream_query(q->stream);
	fm_cu_untouch(q);
	if (!rc)
		fm_cu_idle_at(q, all, ours);
}

bool fm_cu_query(void *hwq, uint64_t done, uint64_t passed, bool ask)
{
	struct fm_cu_queue *q = hwq;

	if (is_ordered(q, done) && ask)
		ask_driver(q, passed);
	return is_ordered(q, done);
}
