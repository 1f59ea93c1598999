/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that wait, and the lives of streams, contexts and events. */
#include "events.h"
#include "graph_guard.h"

#define DEVICES 64

/* --- waiting for a stream --- */

struct wait {
	struct fm_cuda_queue *q;
	struct fm_cuda_mark mark;
	bool idle; /* as is known before */
	uint64_t since;
};

static struct wait wait_begin(CUstream stream, bool per_thread)
{
	struct wait w;

	fm_cuda_cover(fm_cuda_stream(stream, per_thread));
	w = (struct wait){.q = fm_cuda_find_governed(fm_cuda_stream(stream, per_thread))};
	if (w.q) {
		w.mark = fm_cuda_mark(w.q);
		w.idle = fm_cuda_known_idle(w.q);
		w.since = fm_now();
		fm_xq_waits(w.q->xq, w.since);
	}
	return w;
}

static fm_cu_result wait_end(struct wait w, fm_cu_result rc)
{
	if (w.q && rc == FM_CU_SUCCESS)
		fm_cuda_finished(w.q, &w.mark, w.since);
	return rc;
}

/* Both clones of a call about a stream, by the same function. */
#define BOTH(name, suffix, params, before, after)            \
	fm_cu_result name##suffix params                     \
	{                                                    \
		const bool per_thread = false;               \
		before;                                      \
		return after(FM_CUDA_##name##suffix);        \
	}                                                    \
	fm_cu_result name##suffix##_ptsz params              \
	{                                                    \
		const bool per_thread = true;                \
		before;                                      \
		return after(FM_CUDA_##name##suffix##_ptsz); \
	}

#define WAIT(id) wait_end(w, NEXT(id, (CUstream), (stream)))
BOTH(cuStreamSynchronize, , (CUstream stream), struct wait w = wait_begin(stream, per_thread), WAIT)

/* Idle once, with nothing of the program's since, it stays idle, whatever we have put there. If
 * that is nothing, it was the program, by a call that is not known here. */
static fm_cu_result query_end(struct wait w, fm_cu_result rc)
{
	if (w.idle && rc == FM_CU_ERROR_NOT_READY &&
		atomic_load(&w.q->hw.ours) != atomic_load(&w.q->hw.ours_at))
		return FM_CU_SUCCESS;
	return wait_end(w, rc);
}

#define QUERY(id) query_end(w, NEXT(id, (CUstream), (stream)))
BOTH(cuStreamQuery, , (CUstream stream), struct wait w = wait_begin(stream, per_thread), QUERY)

/* --- capture --- */

/* What it takes to put gates into a graph is made before: a thread that captures may not. So gates
 * are in it the first time as later. */
static void find_queue(CUstream stream)
{
	struct fm_cuda_queue *q = fm_cuda_find(stream);

	if (!q)
		fm_cuda_first(stream, q, "cuStreamBeginCapture");
}

/* Nobody but the program touches streams then, and no launch is guarded. */
static void capture_begins(CUstream given, bool per_thread)
{
	find_queue(fm_cuda_stream(given, per_thread));
	fm_cuda_exec_stream_leaves(fm_cuda_stream(given, per_thread));
	if (!atomic_load(&fm_cu_captures))
		fm_cuda_exec_stream_leaves(FM_CU_STREAM_LEGACY);
	fm_cu_capture_begin();
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

#define BEGIN(id) capture_begun(stream, per_thread, true, NEXT(id, (CUstream), (stream)))
BOTH(cuStreamBeginCapture, , (CUstream stream), capture_begins(stream, per_thread), BEGIN)
#define BEGIN_V2(id) \
	capture_begun(stream, per_thread, true, NEXT(id, (CUstream, unsigned), (stream, mode)))
BOTH(cuStreamBeginCapture, _v2, (CUstream stream, unsigned mode),
	capture_begins(stream, per_thread), BEGIN_V2)

#define GRAPH_PARAMS                                              \
	(CUstream stream, CUgraph graph, const CUgraphNode *deps, \
		const struct CUgraphEdgeData_st *data, size_t n, unsigned mode)
#define BEGIN_GRAPH(id)                          \
	capture_begun(stream, per_thread, false, \
		NEXT(id, GRAPH_PARAMS, (stream, graph, deps, data, n, mode)))
BOTH(cuStreamBeginCaptureToGraph, , GRAPH_PARAMS, capture_begins(stream, per_thread), BEGIN_GRAPH)

/* It may fail because there was none, or in the wrong thread, and then goes on. */
static fm_cu_result capture_ended(CUstream given, bool per_thread, fm_cu_result rc)
{
	CUstream stream = fm_cuda_stream(given, per_thread);

	if (rc == FM_CU_SUCCESS || !fm_cuda_capturing(stream))
		fm_cuda_capture_ended(stream);
	return rc;
}

#define END(id) capture_ended(stream, per_thread, NEXT(id, (CUstream, CUgraph *), (stream, graph)))
BOTH(cuStreamEndCapture, , (CUstream stream, CUgraph *graph), (void)0, END)

/* --- lives of streams --- */

/* An address that the driver uses again is another stream, wherever the last one went. */
static fm_cu_result created(CUstream *stream, fm_cu_result rc)
{
	if (rc == FM_CU_SUCCESS && stream)
		fm_cuda_close_stream(*stream);
	return rc;
}

fm_cu_result cuStreamCreate(CUstream *stream, unsigned flags)
{
	return created(
		stream, NEXT(FM_CUDA_cuStreamCreate, (CUstream *, unsigned), (stream, flags)));
}

/* The highest is for streams of ours alone (guard.c): what they are to do comes onto the
 * multiprocessors before anything of the program's. To the program there is none such. */
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
	fm_cu_result rc =
		NEXT(FM_CUDA_cuCtxGetStreamPriorityRange, (int *, int *), (least, greatest));

	if (rc == FM_CU_SUCCESS && greatest)
		*greatest = spared(*greatest);
	return rc;
}

fm_cu_result cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
	return created(stream, NEXT(FM_CUDA_cuStreamCreateWithPriority, (CUstream *, unsigned, int),
				       (stream, flags, spared(priority))));
}

fm_cu_result cuGreenCtxStreamCreate(CUstream *stream, CUgreenCtx ctx, unsigned flags, int priority)
{
	return created(stream,
		NEXT(FM_CUDA_cuGreenCtxStreamCreate, (CUstream *, CUgreenCtx, unsigned, int),
			(stream, ctx, flags, spared(priority))));
}

static void destroying(CUstream stream)
{
	fm_cuda_exec_stream_leaves(stream);
	fm_cuda_close_stream(stream);
	if (!fm_cuda_is_default(stream) && atomic_load(&fm_cu_captures))
		fm_cuda_capture_ended(stream);
}

fm_cu_result cuStreamDestroy(CUstream stream)
{
	destroying(stream);
	return NEXT(FM_CUDA_cuStreamDestroy, (CUstream), (stream));
}

fm_cu_result cuStreamDestroy_v2(CUstream stream)
{
	destroying(stream);
	return NEXT(FM_CUDA_cuStreamDestroy_v2, (CUstream), (stream));
}

/* --- lives of contexts --- */

static fm_cu_result gone(CUcontext ctx, fm_cu_result rc)
{
	if (rc == FM_CU_SUCCESS && ctx && fm_cuda_has_client()) {
		fm_cu_context_gone(ctx);
		fm_cuda_first_forget();
	}
	if (rc == FM_CU_SUCCESS && ctx && atomic_load(&fm_cu_captures))
		fm_cuda_captures_gone(ctx);
	if (rc == FM_CU_SUCCESS)
		fm_cuda_code_context_gone(ctx);
	if (rc == FM_CU_SUCCESS && ctx)
		fm_cuda_partition_gone(ctx);
	return rc;
}

/* While the process has never attached to a context, a detachment ends it. */
static _Atomic bool attached;

fm_cu_result cuCtxAttach(CUcontext *ctx, unsigned flags)
{
	atomic_store(&attached, true);
	return NEXT(FM_CUDA_cuCtxAttach, (CUcontext *, unsigned), (ctx, flags));
}

fm_cu_result cuCtxDetach(CUcontext ctx)
{
	bool ends = !atomic_load(&attached);

	if (ends)
		fm_cuda_close_context(ctx);
	return gone(ends ? ctx : NULL, NEXT(FM_CUDA_cuCtxDetach, (CUcontext), (ctx)));
}

fm_cu_result cuCtxDestroy(CUcontext ctx)
{
	fm_cuda_close_context(ctx);
	return gone(ctx, NEXT(FM_CUDA_cuCtxDestroy, (CUcontext), (ctx)));
}

fm_cu_result cuCtxDestroy_v2(CUcontext ctx)
{
	fm_cuda_close_context(ctx);
	return gone(ctx, NEXT(FM_CUDA_cuCtxDestroy_v2, (CUcontext), (ctx)));
}

fm_cu_result cuGreenCtxDestroy(CUgreenCtx green)
{
	fm_cu_result (*convert)(CUcontext *, CUgreenCtx) = fm_cuda_symbol("cuCtxFromGreenCtx");
	CUcontext base = fm_cu_guard_green_base(green), ctx = NULL;
	struct fm_cu_turnstile *t = base ? fm_cuda_wait_begin(base) : NULL;
	fm_cu_result rc;

	if (convert && convert(&ctx, green) == FM_CU_SUCCESS)
		fm_cuda_close_context(ctx);
	if (base)
		fm_cu_guard_green_ends(fm_cuda_driver(), green);
	rc = NEXT(FM_CUDA_cuGreenCtxDestroy, (CUgreenCtx), (green));
	if (rc == FM_CU_SUCCESS && ctx && atomic_load(&fm_cu_captures))
		fm_cuda_captures_gone(ctx);
	fm_cu_wait_end(t);
	return rc;
}

/*
 * The primary context ends with its last release. Which one is the last the driver does not say, so
 * retains are counted. Other threads may be launching when it is not: their queues must stay. If
 * the context was in use although nobody had retained it, then there are retains that we do not
 * see, and no release is taken for the last.
 */
static struct {
	_Atomic unsigned retains;
	_Atomic(CUcontext) ctx;
	_Atomic bool unseen;
} primary[DEVICES];

static bool used(CUcontext ctx)
{
	struct fm_cuda_mark m[FM_BOARD_SLOTS];

	return fm_cuda_marks(ctx, m) > 0;
}

fm_cu_result cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice dev)
{
	fm_cu_result rc =
		NEXT(FM_CUDA_cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice), (ctx, dev));

	if (rc != FM_CU_SUCCESS || (unsigned)dev >= DEVICES)
		return rc;
	atomic_store(&primary[dev].ctx, *ctx);
	if (!atomic_fetch_add(&primary[dev].retains, 1) && used(*ctx))
		atomic_store(&primary[dev].unseen, true);
	return rc;
}

/* The context that ends with it, or NULL. */
static CUcontext releasing(CUdevice dev)
{
	CUcontext ctx;
	unsigned n;

	if ((unsigned)dev >= DEVICES)
		return NULL;
	n = atomic_load(&primary[dev].retains);
	while (n && !atomic_compare_exchange_weak(&primary[dev].retains, &n, n - 1))
		;
	if (n != 1 || atomic_load(&primary[dev].unseen))
		return NULL;
	ctx = atomic_load(&primary[dev].ctx);
	fm_cuda_close_context(ctx);
	return ctx;
}

fm_cu_result cuDevicePrimaryCtxRelease(CUdevice dev)
{
	CUcontext ctx = releasing(dev);

	return gone(ctx, NEXT(FM_CUDA_cuDevicePrimaryCtxRelease, (CUdevice), (dev)));
}

fm_cu_result cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	CUcontext ctx = releasing(dev);

	return gone(ctx, NEXT(FM_CUDA_cuDevicePrimaryCtxRelease_v2, (CUdevice), (dev)));
}

/* A reset ends the context whoever retains it. To hear which it is, it is retained. */
static CUcontext resetting(CUdevice dev)
{
	fm_cu_result (*state)(CUdevice, unsigned *, int *) =
		fm_cuda_symbol("cuDevicePrimaryCtxGetState");
	unsigned flags;
	int active = 0;
	CUcontext ctx = NULL;

	if ((!fm_cuda_has_client() && !atomic_load(&fm_cuda_rewrites) &&
		    !atomic_load(&fm_cu_captures)) ||
		!state || state(dev, &flags, &active) || !active)
		return NULL;
	if (NEXT(FM_CUDA_cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice), (&ctx, dev)))
		return NULL;
	fm_cuda_close_context(ctx);
	NEXT(FM_CUDA_cuDevicePrimaryCtxRelease_v2, (CUdevice), (dev));
	return ctx;
}

fm_cu_result cuDevicePrimaryCtxReset(CUdevice dev)
{
	CUcontext ctx = resetting(dev);

	return gone(ctx, NEXT(FM_CUDA_cuDevicePrimaryCtxReset, (CUdevice), (dev)));
}

fm_cu_result cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
	CUcontext ctx = resetting(dev);

	return gone(ctx, NEXT(FM_CUDA_cuDevicePrimaryCtxReset_v2, (CUdevice), (dev)));
}

/* --- waiting for a context --- */

struct ctx_wait {
	struct fm_cuda_mark mark[FM_BOARD_SLOTS];
	size_t n;
	uint64_t since;
};

static void ctx_wait_begin(struct ctx_wait *w, CUcontext ctx)
{
	w->n = 0;
	if (!fm_cuda_has_client())
		return;
	if (!ctx)
		ctx = fm_cuda_current();
	if (ctx)
		fm_cuda_cover_all(ctx);
	if (ctx)
		w->n = fm_cuda_marks(ctx, w->mark);
	w->since = fm_now();
}

static fm_cu_result ctx_wait_end(const struct ctx_wait *w, fm_cu_result rc)
{
	if (rc == FM_CU_SUCCESS && w->n)
		fm_cuda_synced(w->mark, w->n, w->since);
	return rc;
}

fm_cu_result cuCtxSynchronize(void)
{
	struct ctx_wait w;

	ctx_wait_begin(&w, NULL);
	return ctx_wait_end(&w, NEXT(FM_CUDA_cuCtxSynchronize, (void), ()));
}

fm_cu_result cuCtxSynchronize_v2(CUcontext ctx)
{
	struct ctx_wait w;

	ctx_wait_begin(&w, ctx);
	return ctx_wait_end(&w, NEXT(FM_CUDA_cuCtxSynchronize_v2, (CUcontext), (ctx)));
}

/* --- events --- */

/* What the event stands behind is read before: afterwards it may be recorded again. And after, for
 * that may have been before the driver looked. */
static fm_cu_result event_wait(enum fm_cuda_id id, CUevent event)
{
	struct fm_cuda_mark m, again;
	bool known = fm_cuda_event_get(event, &m);
	fm_cu_result rc = NEXT(id, (CUevent), (event));

	if (known && rc == FM_CU_SUCCESS && fm_cuda_event_get(event, &again) &&
		m.generation == again.generation && m.all == again.all)
		fm_cuda_synced(&m, 1, 0);
	return rc;
}

fm_cu_result cuEventSynchronize(CUevent event)
{
	return event_wait(FM_CUDA_cuEventSynchronize, event);
}

fm_cu_result cuEventQuery(CUevent event)
{
	return event_wait(FM_CUDA_cuEventQuery, event);
}

fm_cu_result cuEventDestroy(CUevent event)
{
	fm_cuda_event_forget(event);
	return NEXT(FM_CUDA_cuEventDestroy, (CUevent), (event));
}

fm_cu_result cuEventDestroy_v2(CUevent event)
{
	fm_cuda_event_forget(event);
	return NEXT(FM_CUDA_cuEventDestroy_v2, (CUevent), (event));
}

/* Behind all streams of a context: no mark says that. */
fm_cu_result cuCtxRecordEvent(CUcontext ctx, CUevent event)
{
	fm_cuda_cover_all(ctx);
	fm_cuda_event_forget(event);
	return NEXT(FM_CUDA_cuCtxRecordEvent, (CUcontext, CUevent), (ctx, event));
}

fm_cu_result cuGreenCtxRecordEvent(CUgreenCtx ctx, CUevent event)
{
	fm_cuda_cover_all(NULL);
	fm_cuda_event_forget(event);
	return NEXT(FM_CUDA_cuGreenCtxRecordEvent, (CUgreenCtx, CUevent), (ctx, event));
}
