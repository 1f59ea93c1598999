/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that only order work (order.h), where counting them is not enough; and those that record
 * events. */
#include "order.h"
#include "events.h"

void fm_cuda_seal(struct fm_cuda_queue *q, CUstream stream)
{
	if (FM_LIKELY(!atomic_load_explicit(&q->unsealed, memory_order_relaxed)))
		return;
	if (fm_cuda_graph_takes_gates(stream) && fm_xq_capture_seam(q->xq))
		atomic_store(&q->unsealed, false);
}

void fm_cuda_captured_besides(struct fm_cuda_queue *q, CUstream stream)
{
	if (fm_cuda_capturing(stream))
		fm_xq_capture_whole(q->xq, fm_cuda_graph_number(stream));
}

/* While graphs are captured. */
static FM_COLD void captured_order(struct fm_cuda_queue *q, CUstream stream)
{
	if (!fm_cuda_capturing(stream))
		return;
	fm_cuda_seal(q, stream);
	if (atomic_load(&q->unsealed))
		fm_cuda_captured_besides(q, stream);
}

FM_HOT struct fm_cuda_order fm_cuda_order_heeded(
	struct fm_cuda_queue *q, CUstream stream, enum fm_cuda_for what)
{
	struct fm_cuda_order o;

	if (FM_UNLIKELY(!q) && what != FM_CUDA_FOR_PLAIN)
		q = fm_cuda_order_first(stream);
	o = (struct fm_cuda_order){.q = q};
	if (!q) {
		fm_cuda_cover(stream);
		return o;
	}
	if (FM_UNLIKELY(atomic_load_explicit(&fm_cu_captures, memory_order_relaxed))) {
		if (what != FM_CUDA_FOR_EVENT)
			captured_order(q, stream);
		else /* a query of the legacy stream would invalidate captures */
			o.joins = stream != FM_CU_STREAM_LEGACY;
	}
	o.way = fm_cuda_order_enter(q);
	fm_cuda_cover(stream);
	if (FM_UNLIKELY(what != FM_CUDA_FOR_PLAIN && fm_cuda_may_pad(q)))
		fm_cuda_guard_heavy(q);
	fm_cuda_order_count(q);
	atomic_store_explicit(&q->ordered, true, memory_order_relaxed);
	if (what != FM_CUDA_FOR_PLAIN)
		o.way = fm_cuda_order_stands(q, o.way);
	return o;
}

FM_HOT struct fm_cuda_order fm_cuda_ordering_seldom(
	CUstream given, bool per_thread, enum fm_cuda_for what)
{
	return fm_cuda_ordering_part(given, per_thread, what);
}

/* --- events that are recorded --- */

/* What the event will be behind. It has no queue if the event is recorded into a graph, because it
 * is not known then when it is recorded. */
struct recorded {
	struct fm_cuda_queue *of;
	uint64_t mark, all;
};

/* Does the event stand behind what is in the stream? node: in a capture the call may make a node,
 * which records the event whenever its graph is launched. */
static __attribute__((noinline)) FM_HOT bool record_heeded(
	struct fm_cuda_queue *q, CUstream stream, bool node, enum fm_cuda_call_kind *way)
{
	bool captured;

	if (q && FM_UNLIKELY(atomic_load_explicit(&fm_cu_captures, memory_order_relaxed)))
		fm_cuda_captured_besides(q, stream);
	if (q)
		*way = fm_cuda_order_enter(q);
	fm_cuda_cover(stream);
	captured = FM_UNLIKELY(atomic_load_explicit(&fm_cu_captures, memory_order_relaxed)) &&
		   fm_cuda_capturing(stream);
	if (captured && node)
		fm_cuda_events_in_graph();
	return q && !captured;
}

FM_INLINE_HOT struct fm_cuda_order recording(
	CUstream given, bool per_thread, bool node, struct recorded *r)
{
	CUstream stream = fm_cuda_stream(given, per_thread);
	struct fm_cuda_order o = {0};
	enum fm_cuda_call_kind way = FM_CUDA_FREE;

	r->of = NULL;
	if (FM_UNLIKELY(fm_cu_inside))
		return o;
	r->of = o.q = fm_cuda_find_governed(stream);
	if (FM_LIKELY(o.q)) { /* before the cover, because what comes behind it may be left out */
		r->mark = fm_xq_mark(o.q->xq);
		r->all = fm_cu_all(&o.q->hw, fm_xq_own_mark(o.q->xq, r->mark)) + 1;
	}
	if (FM_UNLIKELY(fm_cuda_order_heeds())) {
		if (!record_heeded(o.q, stream, node, &way))
			r->of = NULL;
		o.way = way;
	}
	if (FM_LIKELY(o.q))
		fm_cuda_order_count(o.q);
	return o;
}

/* The event is forgotten before the call and known after it. In between, a thread that waits for it
 * learns nothing from it. */
#define ON_record(symbol, per_thread, name, since, note, params, stream, event, node) \
	FM_HOT fm_cu_result symbol CALL_PARAMS(params)                                \
	{                                                                             \
		struct recorded r = {0};                                              \
		struct fm_cuda_order o = recording(stream, per_thread, node, &r);     \
		struct fm_cuda_event *e = fm_cuda_event_forget(event);                \
		fm_cu_result rc;                                                      \
                                                                                      \
		fm_cu_inside++;                                                       \
		rc = NEXT(symbol, CALL_ARGS(params));                                 \
		fm_cu_inside--;                                                       \
		fm_cuda_ordered(o, stream);                                           \
		if (FM_LIKELY(r.of) && rc == FM_CU_SUCCESS)                           \
			fm_cuda_event_set(e, event, r.of, r.mark, r.all);             \
		return rc;                                                            \
	}
#include "api/cuda/calls.def"
