/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What only orders work (events, waits, host functions) takes the device no time, stands behind the
 * gates of the work before it anyway, and is no command. It is counted apart, for what queries
 * answer, before the driver's call, which is made as the program made it, and after.
 */
#pragma once
#include "api/cuda/shim/guard/guarded.h"

/* Small enough to be returned in registers. */
struct fm_cuda_order {
	struct fm_cuda_queue *q; /* that was counted for; NULL: there is nothing to be done */
	enum fm_cuda_way way;
	bool joins; /* its stream may, by this, take part in a capture */
};

/* While graphs are captured: in front of what must not run ahead of kernels that were captured
 * before it; and this may fork a graph, or join one, or become a node that nothing covers. */
FM_COLD void fm_cuda_seal(struct fm_cuda_queue *q, CUstream stream);
FM_COLD void fm_cuda_captured_besides(struct fm_cuda_queue *q, CUstream stream);

/* Does what only orders have to be more than counted? Then this does it. q: NULL if there is none.
 */
static inline bool fm_cuda_order_heeds(void)
{
	return atomic_load_explicit(&fm_cu_captures, memory_order_relaxed) |
	       atomic_load_explicit(&fm_cuda_guards, memory_order_relaxed);
}
struct fm_cuda_order fm_cuda_order_heeded(
	struct fm_cuda_queue *q, CUstream stream, enum fm_cuda_id id);

static inline void fm_cuda_order_count(struct fm_cuda_queue *q)
{
	fm_count_raise(&q->hw.orders, fm_xq_is_own(q->xq));
}

/* Captured, it may be a node, which records the event whenever its graph is launched. */
static inline bool fm_cuda_records_in_graphs(enum fm_cuda_id id)
{
	return id == FM_CUDA_cuEventRecordWithFlags || id == FM_CUDA_cuEventRecordWithFlags_ptsz;
}

/* Captured, it is no node. */
static inline bool fm_cuda_waits_for_event(enum fm_cuda_id id)
{
	return id == FM_CUDA_cuStreamWaitEvent || id == FM_CUDA_cuStreamWaitEvent_ptsz;
}

/* May the stream come to wait in it for the program, which knows nothing of the device? */
#define CALL(name) (id == FM_CUDA_##name || id == FM_CUDA_##name##_ptsz)
static inline bool fm_cuda_waits_for_program(enum fm_cuda_id id)
{
	return CALL(cuLaunchHostFunc) || CALL(cuLaunchHostFunc_v2) || CALL(cuStreamAddCallback) ||
	       CALL(cuStreamWaitValue32) || CALL(cuStreamWaitValue32_v2) ||
	       CALL(cuStreamWaitValue64) || CALL(cuStreamWaitValue64_v2) ||
	       CALL(cuStreamBatchMemOp) || CALL(cuStreamBatchMemOp_v2) ||
	       CALL(cuWaitExternalSemaphoresAsync);
}
#undef CALL

FM_PART struct fm_cuda_order fm_cuda_ordering_part(
	CUstream given, bool per_thread, enum fm_cuda_id id)
{
	CUstream stream = fm_cuda_stream(given, per_thread);
	struct fm_cuda_queue *q;

	if (FM_UNLIKELY(fm_cu_inside))
		return (struct fm_cuda_order){0};
	q = fm_cuda_find_governed(stream);
	if (fm_cuda_waits_for_program(id))
		fm_cuda_awaits_program(q, stream);
	else if (fm_cuda_waits_for_event(id))
		fm_cuda_awaits_others(q, stream);
	if (FM_UNLIKELY(fm_cuda_order_heeds()))
		return fm_cuda_order_heeded(q, stream, id);
	if (FM_UNLIKELY(!q))
		return (struct fm_cuda_order){0};
	fm_cuda_order_count(q);
	atomic_store_explicit(&q->ordered, true, memory_order_relaxed);
	return (struct fm_cuda_order){.q = q};
}

/* Before the driver's call. Programs that have streams wait for each other make one of them as
 * often as launches. */
struct fm_cuda_order fm_cuda_ordering_seldom(CUstream given, bool per_thread, enum fm_cuda_id id);
FM_PART struct fm_cuda_order fm_cuda_ordering(CUstream given, bool per_thread, enum fm_cuda_id id)
{
	return fm_cuda_waits_for_event(id) ? fm_cuda_ordering_part(given, per_thread, id)
					   : fm_cuda_ordering_seldom(given, per_thread, id);
}

/* And after it. */
static inline void fm_cuda_ordered(struct fm_cuda_order o, CUstream stream)
{
	if (FM_UNLIKELY(o.joins))
		fm_cuda_captured_besides(o.q, stream);
	if (FM_LIKELY(!o.way)) {
		if (FM_LIKELY(o.q))
			fm_count_raise(&o.q->hw.ordered, fm_xq_is_own(o.q->xq));
		return;
	}
	fm_cuda_order_put(o.q);
	fm_cuda_way_end(o.q, o.way);
}
