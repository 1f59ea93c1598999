/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that put something onto a stream: begin, the driver's call as the program made it, end.
 */
#include "shim.h"

struct launch {
	struct fm_cuda_queue *q;
	uint64_t mark;
};

/* While graphs are captured. A launch that is captured runs later, with its graph, and counts then;
 * its stream is touched by nobody else. True: it is one, or nobody can tell. */
static bool captured(struct fm_cuda_queue *q, CUstream stream, uint64_t key, bool work)
{
	if (!fm_cuda_capturing(stream))
		return false;
	if (work && q && q != &fm_cuda_refused)
		fm_xq_capture(q->xq, key, atomic_load(&fm_cu_capture_no));
	return true;
}

static inline struct launch begin(CUstream given, bool per_thread, uint64_t key, bool work)
{
	CUstream stream = fm_cuda_stream(given, per_thread);
	struct launch l = {0};

	if (FM_UNLIKELY(fm_cu_inside))
		return l;
	l.q = fm_cuda_find(stream);

	if (FM_UNLIKELY(atomic_load_explicit(&fm_cu_captures, memory_order_relaxed)) &&
		captured(l.q, stream, key, work))
		return (struct launch){0};
	if (FM_UNLIKELY(!l.q || l.q == &fm_cuda_refused)) {
		l.q = fm_cuda_first(stream, l.q);
		if (!l.q)
			return l;
	}
	l.mark = fm_xq_mark(l.q->xq);
	fm_xq_begin(l.q->xq, work ? key : FM_KEY_FREE);
	return l;
}

/* A call that waited has waited for all before it on the stream, and for itself. */
static inline void end(struct launch l, bool waited)
{
	if (FM_UNLIKELY(!l.q))
		return;
	fm_xq_end(l.q->xq);
	if (waited)
		fm_xq_synced(l.q->xq, l.mark + 1);
}

#define ONE(id, symbol, per_thread, stream, work, waits, key, params, args) \
	fm_cu_result symbol params                                          \
	{                                                                   \
		struct launch l = begin(stream, per_thread, key, work);     \
		fm_cu_result rc;                                            \
                                                                            \
		fm_cu_inside++;                                             \
		rc = NEXT(id, params, args);                                \
		fm_cu_inside--;                                             \
		end(l, rc == FM_CU_SUCCESS && (waits));                     \
		return rc;                                                  \
	}
#define LAUNCH(name, suffix, clone, since, stream, work, waits, key, params, args)                 \
	ONE(FM_CUDA_ID(name, suffix, ), name##suffix, false, stream, work, waits, key, params,     \
		args)                                                                              \
	ONE(FM_CUDA_ID(name, suffix, _##clone), name##suffix##_##clone, true, stream, work, waits, \
		key, params, args)
FM_CUDA_LAUNCHES(LAUNCH)
#undef ONE

/* Forgotten before, known after: in between a thread that waits for the event claims nothing. */
static void recorded(struct launch l, CUevent event, fm_cu_result rc)
{
	if (l.q && rc == FM_CU_SUCCESS)
		fm_cuda_event_set(event, &(struct fm_cuda_mark){.key = l.q->key,
						 .generation = l.q->generation,
						 .mark = l.mark + 1});
}

#define ONE(id, symbol, per_thread, stream, work, waits, key, params, args) \
	fm_cu_result symbol params                                          \
	{                                                                   \
		struct launch l = begin(stream, per_thread, key, work);     \
		fm_cu_result rc;                                            \
                                                                            \
		fm_cuda_event_forget(event);                                \
		fm_cu_inside++;                                             \
		rc = NEXT(id, params, args);                                \
		fm_cu_inside--;                                             \
		end(l, false);                                              \
		recorded(l, event, rc);                                     \
		return rc;                                                  \
	}
FM_CUDA_RECORDS(LAUNCH)
