/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that wait, and the lives of streams and events. */
#include "api/cuda/shim/graph/graph_guard.h"
#include "api/cuda/shim/memory/memory.h"
#include "events.h"
#include "order.h"
#include "sets.h"

/* --- waiting for a stream --- */

struct wait {
	struct fm_cuda_queue *q;
	struct fm_cuda_mark mark;
	bool idle; /* as is known before */
	uint64_t since;
};

/* Another thread may launch meanwhile, before there is a gate for that launch. A stop can leave
 * such a launch out, so it does not count as finished. What we have put into the stream does. */
static struct wait wait_begin(CUstream given, bool per_thread)
{
	CUstream stream = fm_cuda_stream(given, per_thread);
	struct wait w = {.q = fm_cuda_find_governed(stream)};

	if (w.q) {
		fm_xq_use(w.q->xq);
		w.mark = fm_cuda_mark(w.q);
	}
	fm_cuda_cover(stream);
	if (w.q) {
		w.mark.ours = atomic_load(&w.q->hw.ours_put);
		w.idle = fm_cuda_known_idle(w.q);
		w.since = fm_now();
		fm_xq_waits(w.q->xq, w.since);
	}
	return w;
}

static fm_cu_result wait_end(struct wait w, fm_cu_result rc)
{
	if (!w.q)
		return rc;
	if (rc == FM_CU_SUCCESS)
		fm_cuda_finished(w.q, &w.mark, w.since);
	fm_xq_used(w.q->xq);
	return rc;
}

/* A stream that was idle stays idle for the program until the program puts something there,
 * whatever we have put there since. If we have put nothing there and the driver says that it is
 * busy, then the program did it, by a call that is not known here. */
static fm_cu_result query_end(struct wait w, fm_cu_result rc)
{
	if (w.idle && rc == FM_CU_ERROR_NOT_READY &&
		atomic_load(&w.q->hw.ours) != atomic_load(&w.q->hw.ours_at)) {
		fm_xq_used(w.q->xq);
		return FM_CU_SUCCESS;
	}
	return wait_end(w, rc);
}

/* --- capture --- */

/* A thread that captures may not make what gates in a graph need. So this makes it before, and the
 * first graph has gates, too. */
static void find_queue(CUstream stream)
{
	struct fm_cuda_queue *q = fm_cuda_find(stream);

	if (!q)
		fm_cuda_first(stream, q, "cuStreamBeginCapture");
}

/* During a capture only the program touches streams, and no launch is guarded. */
static void capture_begins(CUstream given, bool per_thread)
{
	find_queue(fm_cuda_stream(given, per_thread));
	fm_cuda_exec_stream_leaves(fm_cuda_stream(given, per_thread));
	if (!atomic_load(&fm_cu_captures))
		fm_cuda_exec_stream_leaves(FM_CU_STREAM_LEGACY);
	fm_cuda_capture_begin();
	fm_cuda_cover_capture();
}

static fm_cu_result capture_begun(CUstream given, bool per_thread, bool fresh, fm_cu_result rc)
{
	CUstream stream = fm_cuda_stream(given, per_thread);
	struct fm_cuda_queue *q = fm_cuda_find_governed(stream);

	fm_cuda_capture_begun(stream, rc);
	if (q && fresh && rc == FM_CU_SUCCESS)
		atomic_store(&q->unsealed, false);
	if (!fresh)
		fm_cuda_graph_entered();
	else if (rc == FM_CU_SUCCESS)
		fm_cuda_graph_begun(stream, q && fm_cuda_by_wish_whole(q));
	return rc;
}

/* The call fails if there was no capture, or in the wrong thread. The capture then goes on. */
static fm_cu_result capture_ended(CUstream given, bool per_thread, fm_cu_result rc)
{
	CUstream stream = fm_cuda_stream(given, per_thread);

	if (rc == FM_CU_SUCCESS || !fm_cuda_capturing(stream))
		fm_cuda_capture_ended(stream);
	return rc;
}

/* A set puts things into its streams at any time. */
static bool not_to_capture(CUstream stream)
{
	return fm_cuda_sets_own(stream) &&
	       !(fm_cuda_enqueues && fm_cuda_enqueues->stream == stream);
}

#define CAPTURE_BEGIN(symbol, per_thread, params, stream, anew)                                  \
	fm_cu_result symbol CALL_PARAMS(params)                                                  \
	{                                                                                        \
		if (FM_UNLIKELY(not_to_capture(stream)))                                         \
			return FM_CU_ERROR_NOT_PERMITTED;                                        \
		capture_begins(stream, per_thread);                                              \
		return capture_begun(stream, per_thread, anew, NEXT(symbol, CALL_ARGS(params))); \
	}
#define CAPTURE_AGAIN(symbol, per_thread, params, stream, graph)                                  \
	fm_cu_result symbol CALL_PARAMS(params)                                                   \
	{                                                                                         \
		if (FM_UNLIKELY(not_to_capture(stream)))                                          \
			return FM_CU_ERROR_NOT_PERMITTED;                                         \
		fm_cuda_graph_recaptured(graph);                                                  \
		capture_begins(stream, per_thread);                                               \
		return capture_begun(stream, per_thread, false, NEXT(symbol, CALL_ARGS(params))); \
	}
#define CAPTURE_END(symbol, per_thread, params, stream)                                    \
	fm_cu_result symbol CALL_PARAMS(params)                                            \
	{                                                                                  \
		return capture_ended(stream, per_thread, NEXT(symbol, CALL_ARGS(params))); \
	}
#define ON_capture(symbol, per_thread, name, since, note, params, what, ...) \
	CAPTURE_##what(symbol, per_thread, params, __VA_ARGS__)
#include "api/cuda/calls.def"

/* --- lives of streams --- */

/* The driver reuses addresses. The new stream is not the old one with that address, even if we have
 * not seen the old one end. */
static fm_cu_result created(CUstream *stream, int priority, fm_cu_result rc)
{
	if (rc == FM_CU_SUCCESS && stream) {
		fm_cuda_close_stream(*stream);
		fm_cuda_priority_created(*stream, priority);
	}
	return rc;
}

/* A context takes memory of the device for its first streams, and again for many. Libraries make
 * some when they are first used, and fail for good if they get none. */
#define MAKES(call) FM_CUDA_LOAD_WITH_ROOM(call)

fm_cu_result cuStreamCreate(CUstream *stream, unsigned flags)
{
	return created(stream, 0, MAKES(NEXT(cuStreamCreate, (stream, flags))));
}

/* The highest priority is kept for our own streams (guard.c), whose work must reach the
 * multiprocessors before the program's. The program is told that this priority does not exist. */
static int spared(int priority)
{
	const struct fm_cu_driver *cu = fm_cuda_driver();
	int least = 0, greatest = 0;

	if (FM_LIKELY(!atomic_load_explicit(&fm_cuda_rewrites, memory_order_relaxed)) ||
		fm_cu_inside || !cu || !cu->priority_range ||
		cu->priority_range(&least, &greatest) || greatest >= least)
		return priority;
	return FM_MAX(priority, greatest + 1);
}

fm_cu_result cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	fm_cu_result rc = NEXT(cuCtxGetStreamPriorityRange, (least, greatest));

	if (rc == FM_CU_SUCCESS && greatest)
		*greatest = spared(*greatest);
	return rc;
}

fm_cu_result cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
	return created(stream, priority,
		MAKES(NEXT(cuStreamCreateWithPriority, (stream, flags, spared(priority)))));
}

fm_cu_result cuGreenCtxStreamCreate(CUstream *stream, CUgreenCtx ctx, unsigned flags, int priority)
{
	fm_cuda_green_stream();
	return created(stream, priority,
		MAKES(NEXT(cuGreenCtxStreamCreate, (stream, ctx, flags, spared(priority)))));
}

static void stream_ends(CUstream stream)
{
	fm_cuda_exec_stream_leaves(stream);
	fm_cuda_close_stream(stream);
	fm_cuda_priority_ends(stream);
	if (!fm_cuda_is_default(stream) && atomic_load(&fm_cu_captures))
		fm_cuda_capture_ended(stream);
}

/* --- waiting for a context --- */

struct ctx_wait {
	struct fm_cuda_mark mark[FM_BOARD_SLOTS];
	size_t n;
	uint64_t since;
};

/* As in wait_begin(). */
static FM_COLD void cover_marked(struct ctx_wait *w, CUcontext ctx)
{
	struct fm_cuda_mark behind[FM_BOARD_SLOTS];
	size_t n;

	fm_cuda_cover_all(ctx);
	n = fm_cuda_marks(ctx, behind);
	for (size_t i = 0; i < w->n; i++)
		for (size_t k = 0; k < n; k++)
			if (behind[k].key == w->mark[i].key &&
				behind[k].generation == w->mark[i].generation)
				w->mark[i].ours = behind[k].ours;
}

static void ctx_wait_begin(struct ctx_wait *w, CUcontext ctx)
{
	w->n = 0;
	if (!fm_shim_has_client())
		return;
	if (!ctx)
		ctx = fm_cuda_current();
	if (ctx)
		w->n = fm_cuda_marks(ctx, w->mark);
	if (ctx && fm_cuda_order_heeds())
		cover_marked(w, ctx);
	w->since = fm_now();
}

static fm_cu_result ctx_wait_end(const struct ctx_wait *w, fm_cu_result rc)
{
	if (rc == FM_CU_SUCCESS && w->n)
		fm_cuda_synced(w->mark, w->n, w->since);
	return rc;
}

/* --- events --- */

/* What the event is behind is read before the call, because the event may be recorded again later.
 * It is read again after the call: if it has changed, it is not known which record the driver
 * waited for. */
static fm_cu_result event_wait(enum fm_cuda_id id, CUevent event)
{
	struct fm_cuda_mark m, again;
	bool known = fm_cuda_event_get(event, &m);
	fm_cu_result rc = NEXT_AS(cuEventSynchronize, id, (event));

	if (known && rc == FM_CU_SUCCESS && fm_cuda_event_get(event, &again) &&
		m.generation == again.generation && m.all == again.all)
		fm_cuda_synced(&m, 1, 0);
	return rc;
}

/* The event stands behind all streams of a context. No mark can say that. */
fm_cu_result cuCtxRecordEvent(CUcontext ctx, CUevent event)
{
	fm_cuda_cover_all(ctx);
	fm_cuda_event_forget(event);
	return NEXT(cuCtxRecordEvent, (ctx, event));
}

fm_cu_result cuGreenCtxRecordEvent(CUgreenCtx ctx, CUevent event)
{
	fm_cuda_cover_all(NULL);
	fm_cuda_event_forget(event);
	return NEXT(cuGreenCtxRecordEvent, (ctx, event));
}

/* --- the functions that wait, and those that end a stream or an event --- */

#define SYNC_STREAM(symbol, per_thread, params, stream)              \
	fm_cu_result symbol CALL_PARAMS(params)                      \
	{                                                            \
		struct wait w;                                       \
                                                                     \
		if (FM_UNLIKELY(fm_cuda_enqueue_refuses()))          \
			return FM_CU_ERROR_NOT_PERMITTED;            \
		w = wait_begin(stream, per_thread);                  \
		return wait_end(w, NEXT(symbol, CALL_ARGS(params))); \
	}
#define SYNC_QUERY(symbol, per_thread, params, stream)                \
	fm_cu_result symbol CALL_PARAMS(params)                       \
	{                                                             \
		struct wait w = wait_begin(stream, per_thread);       \
                                                                      \
		return query_end(w, NEXT(symbol, CALL_ARGS(params))); \
	}
#define SYNC_CONTEXT(symbol, per_thread, params, ctx)       \
	fm_cu_result symbol CALL_PARAMS(params)             \
	{                                                   \
		struct ctx_wait w;                          \
		fm_cu_result rc;                            \
		bool left;                                  \
                                                            \
		if (FM_UNLIKELY(fm_cuda_enqueue_refuses())) \
			return FM_CU_ERROR_NOT_PERMITTED;   \
		left = fm_cuda_sets_leave_residents();      \
		ctx_wait_begin(&w, ctx);                    \
		rc = NEXT(symbol, CALL_ARGS(params));       \
		if (FM_UNLIKELY(left))                      \
			fm_cuda_sets_stay();                \
		return ctx_wait_end(&w, rc);                \
	}
#define SYNC_EVENT(symbol, per_thread, params, event)       \
	fm_cu_result symbol CALL_PARAMS(params)             \
	{                                                   \
		if (FM_UNLIKELY(fm_cuda_enqueue_refuses())) \
			return FM_CU_ERROR_NOT_PERMITTED;   \
		return event_wait(FM_CUDA_##symbol, event); \
	}
#define ON_sync(symbol, per_thread, name, since, note, params, of, handle) \
	SYNC_##of(symbol, per_thread, params, handle)

#define END_STREAM(symbol, params, stream)                 \
	fm_cu_result symbol CALL_PARAMS(params)            \
	{                                                  \
		if (FM_UNLIKELY(fm_cuda_sets_own(stream))) \
			return FM_CU_ERROR_NOT_PERMITTED;  \
		stream_ends(stream);                       \
		return NEXT(symbol, CALL_ARGS(params));    \
	}
#define END_EVENT(symbol, params, event)                \
	fm_cu_result symbol CALL_PARAMS(params)         \
	{                                               \
		fm_cuda_event_forget(event);            \
		return NEXT(symbol, CALL_ARGS(params)); \
	}
#define END_(...) /* by hand: contexts.c, graph.c */
#define ON_end(symbol, per_thread, name, since, note, params, of, ...) \
	END_##of(symbol, params, __VA_ARGS__)
#include "api/cuda/calls.def"
