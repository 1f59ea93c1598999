/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that only order work: events, waits, host functions. They take the device no time, stand
 * behind the gates of the work before them anyway, and are no commands. They are counted apart,
 * before and after the driver's call, so that queries of streams are answered correctly. The
 * driver's call is the program's own.
 */
#pragma once
#include "api/cuda/shim/guard/guarded.h"

/* Small enough to be returned in registers. */
struct fm_cuda_order {
	struct fm_cuda_queue *q; /* that was counted for; NULL: there is nothing to be done */
	enum fm_cuda_call_kind way;
	bool joins; /* its stream may, by this, take part in a capture */
};

/* What the stream may come to wait for. The table of calls has PLAIN, EVENT and PROGRAM. */
enum fm_cuda_for {
	FM_CUDA_FOR_PLAIN,
	FM_CUDA_FOR_EVENT,   /* in a capture it makes no node */
	FM_CUDA_FOR_PROGRAM, /* which knows nothing of the device */
};

/* While graphs are captured. fm_cuda_seal: called in front of what must not run ahead of kernels
 * that were captured before. fm_cuda_captured_besides: the call may fork a graph, join one, or
 * become a node that nothing covers. */
FM_COLD void fm_cuda_seal(struct fm_cuda_queue *q, CUstream stream);
FM_COLD void fm_cuda_captured_besides(struct fm_cuda_queue *q, CUstream stream);

/* Do such calls need more than to be counted? If so, fm_cuda_order_heeded() does it. q: NULL if the
 * stream has no queue. */
static inline bool fm_cuda_order_heeds(void)
{
	return atomic_load_explicit(&fm_cu_captures, memory_order_relaxed) |
	       atomic_load_explicit(&fm_cuda_guards, memory_order_relaxed);
}
struct fm_cuda_order fm_cuda_order_heeded(
	struct fm_cuda_queue *q, CUstream stream, enum fm_cuda_for what);

static inline void fm_cuda_order_count(struct fm_cuda_queue *q)
{
	fm_count_raise(&q->hw.orders, fm_xq_is_own(q->xq));
}

FM_INLINE_HOT struct fm_cuda_order fm_cuda_ordering_part(
	CUstream given, bool per_thread, enum fm_cuda_for what)
{
	CUstream stream = fm_cuda_stream(given, per_thread);
	struct fm_cuda_queue *q;

	if (FM_UNLIKELY(fm_cu_inside))
		return (struct fm_cuda_order){0};
	q = fm_cuda_find_governed(stream);
	if (what == FM_CUDA_FOR_PROGRAM)
		fm_cuda_awaits_program(q, stream);
	else if (what == FM_CUDA_FOR_EVENT)
		fm_cuda_awaits_others(q, stream);
	if (FM_UNLIKELY(fm_cuda_order_heeds()))
		return fm_cuda_order_heeded(q, stream, what);
	if (FM_UNLIKELY(!q))
		return (struct fm_cuda_order){0};
	fm_cuda_order_count(q);
	atomic_store_explicit(&q->ordered, true, memory_order_relaxed);
	return (struct fm_cuda_order){.q = q};
}

/* Called before the driver's call. Programs whose streams wait for each other wait for an event as
 * often as they launch, so that case is inlined. */
struct fm_cuda_order fm_cuda_ordering_seldom(
	CUstream given, bool per_thread, enum fm_cuda_for what);
FM_INLINE_HOT struct fm_cuda_order fm_cuda_ordering(
	CUstream given, bool per_thread, enum fm_cuda_for what)
{
	return what == FM_CUDA_FOR_EVENT ? fm_cuda_ordering_part(given, per_thread, what)
					 : fm_cuda_ordering_seldom(given, per_thread, what);
}

/* Called after it. */
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
