/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that programs call, by kinds of the table. */
#include "hip.h"
#include "keys.h"

/* --- commands --- */

struct launch {
	struct fm_hip_queue *q; /* NULL: the call only goes to the runtime */
	uint64_t mark;
};

static inline struct launch begin(
	hipStream_t given, bool per_thread, uint64_t key, bool waits, const char *call)
{
	hipStream_t stream = fm_hip_stream(given, per_thread);
	struct launch l = {.q = NULL};
	bool full;

	if (FM_UNLIKELY(fm_hip_inside++))
		return l;
	if (FM_UNLIKELY(atomic_load_explicit(&fm_shim_captures, memory_order_relaxed)) &&
		fm_hip_capturing(per_thread ? stream : given))
		return l;
	l.q = fm_hip_queue(stream, call);
	if (FM_UNLIKELY(!l.q))
		return l;
	full = fm_hip_backlog(l.q) > FM_HIP_DEEP;
	if (FM_UNLIKELY(full)) {
		fm_xq_use(l.q->xq);
		fm_hip_await_room(l.q);
	}
	l.mark = fm_xq_mark(l.q->xq);
	fm_shim_launches = true;
	fm_xq_begin(l.q->xq, key, waits);
	fm_shim_launches = false;
	if (FM_UNLIKELY(full))
		fm_xq_used(l.q->xq);
	return l;
}

static inline hipError_t end(struct launch l, bool waited, hipError_t rc)
{
	fm_hip_inside--;
	if (FM_UNLIKELY(!l.q))
		return rc;
	if (waited && rc == FM_HIP_SUCCESS)
		fm_xq_end_synced(l.q->xq, l.mark);
	else
		fm_xq_end(l.q->xq);
	return rc;
}

/* The older way to launch: hipConfigureCall puts the stream of a launch to come onto a pile of the
 * thread's, and hipLaunchByPtr takes it from there. */
#define CONFIGURED 8

static __thread struct {
	size_t n;
	hipStream_t of[CONFIGURED];
} pile __attribute__((tls_model("initial-exec")));

static void configure(hipStream_t stream)
{
	if (pile.n < CONFIGURED)
		pile.of[pile.n] = stream;
	pile.n++;
}

static hipStream_t configured(void)
{
	if (!pile.n)
		return NULL;
	return --pile.n < CONFIGURED ? pile.of[pile.n] : NULL;
}

#define LAUNCH(symbol, per_thread, params, stream, key, waits, waited)            \
	hipError_t symbol CALL_PARAMS(params)                                     \
	{                                                                         \
		struct launch l = begin(stream, per_thread, key, waits, #symbol); \
                                                                                  \
		return end(l, waited, NEXT(symbol, params));                      \
	}
#define ON_kernel(symbol, per_thread, name, since, note, params, stream, key) \
	LAUNCH(symbol, per_thread, params, stream, key, false, false)

static hipError_t count_long(struct launch l, uint64_t kind, const char *call, hipError_t rc)
{
	if (l.q && rc == FM_HIP_SUCCESS && fm_xq_long(l.q->xq, kind))
		fm_client_count_undivided(l.q->xq->client, call);
	return rc;
}

/* The runtime takes no waits for values into a graph, so it has no gates. It runs to its end once
 * it has begun, so long ones are counted. */
#define ON_graph(symbol, per_thread, name, since, note, params, stream, key)              \
	hipError_t symbol CALL_PARAMS(params)                                             \
	{                                                                                 \
		const uint64_t kind = key;                                                \
		struct launch l = begin(stream, per_thread, kind, false, #symbol);        \
                                                                                          \
		return end(l, false, count_long(l, kind, #symbol, NEXT(symbol, params))); \
	}
#define ON_work(symbol, per_thread, name, since, note, params, stream, key, waited) \
	LAUNCH(symbol, per_thread, params, stream, key, true, waited)
#include "api/hip/calls.def"

/* Also NULL for a call that the runtime itself makes. */
static struct fm_hip_queue *known(hipStream_t given, bool per_thread)
{
	if (!fm_shim_has_client() || fm_hip_inside)
		return NULL;
	return fm_hip_find(fm_hip_stream(given, per_thread));
}

/* A call that only orders. A stream without launches has no state that it would change.
 */
static void order(hipStream_t given, bool per_thread)
{
	struct fm_hip_queue *q = known(given, per_thread);

	if (q)
		fm_shim_order(&q->progress);
}

#define ON_order(symbol, per_thread, name, since, note, params, stream) \
	CALLS_RETURN(symbol, params, (order(stream, per_thread), NEXT(symbol, params)))
#include "api/hip/calls.def"

/* Launches on several devices by one call. One that waited for its turn would keep the devices
 * of the others waiting, and two programs might each have what the other one waits for. */
#define OWN_MULTI(symbol, params)                                          \
	hipError_t symbol CALL_PARAMS(params)                              \
	{                                                                  \
		hipError_t rc;                                             \
                                                                           \
		if (!fm_hip_inside)                                        \
			fm_shim_ungoverned(#symbol);                       \
		fm_hip_inside++;                                           \
		rc = NEXT(symbol, params);                                 \
		fm_hip_inside--;                                           \
		/* The runtime has looked whether there are so many. */    \
		for (long i = 0; rc == FM_HIP_SUCCESS && i < (long)n; i++) \
			order(list[i].stream, false);                      \
		return rc;                                                 \
	}
#define OWN_CONFIGURE(symbol, params)                 \
	hipError_t symbol CALL_PARAMS(params)         \
	{                                             \
		hipError_t rc = NEXT(symbol, params); \
                                                      \
		if (rc == FM_HIP_SUCCESS)             \
			configure(stream);            \
		return rc;                            \
	}
#define OWN_LOOKUP(...)
#define ON_own(symbol, per_thread, name, since, note, params, how) OWN_##how(symbol, params)
#include "api/hip/calls.def"

/* --- waiting --- */

struct wait {
	struct fm_hip_queue *q;
	struct fm_shim_mark mark;
	uint64_t since;
};

static struct wait wait_begin(hipStream_t given, bool per_thread)
{
	struct wait w = {.q = known(given, per_thread)};

	if (!w.q)
		return w;
	fm_xq_use(w.q->xq);
	w.mark = fm_hip_mark(w.q);
	w.since = fm_now();
	fm_xq_waits(w.q->xq, w.since);
	return w;
}

/* A query sees our trackers, which must be invisible to the program. Some runtimes keep its answer
 * as the thread's last error. */
static hipError_t wait_end(struct wait w, hipError_t rc)
{
	if (!w.q)
		return rc;
	if (rc == FM_HIP_NOT_READY &&
		fm_shim_idle_but_for_us(&w.q->entry, &w.q->progress, atomic_load(&w.q->ours))) {
		if (w.q->hip->peek_error() == FM_HIP_NOT_READY)
			w.q->hip->take_error();
		rc = FM_HIP_SUCCESS;
	} else if (rc == FM_HIP_SUCCESS) {
		fm_shim_finished(&w.q->entry, &w.q->progress, &w.mark, w.since);
	}
	fm_xq_used(w.q->xq);
	return rc;
}

#define WAIT_QUEUE(symbol, per_thread, params, stream)          \
	hipError_t symbol CALL_PARAMS(params)                   \
	{                                                       \
		struct wait w = wait_begin(stream, per_thread); \
                                                                \
		return wait_end(w, NEXT(symbol, params));       \
	}

#define WAIT_DEVICE(symbol, per_thread, params, none) \
	hipError_t symbol CALL_PARAMS(params)         \
	{                                             \
		struct fm_shim_marks m;               \
		hipError_t rc;                        \
                                                      \
		fm_hip_marks(&m);                     \
		rc = NEXT(symbol, params);            \
		if (rc == FM_HIP_SUCCESS && m.n)      \
			fm_hip_synced(&m);            \
		return rc;                            \
	}
#define ON_sync(symbol, per_thread, name, since, note, params, of, what) \
	WAIT_##of(symbol, per_thread, params, what)
#include "api/hip/calls.def"

/* --- lives --- */

/* If the runtime uses an address again, it is another stream. */
static hipError_t made(const hipStream_t *stream, hipError_t rc)
{
	if (rc == FM_HIP_SUCCESS && stream && !fm_hip_inside && fm_shim_has_client())
		fm_shim_close((uintptr_t)*stream, false);
	return rc;
}

#define ON_make(symbol, per_thread, name, since, note, params, stream) \
	CALLS_RETURN(symbol, params, made(stream, NEXT(symbol, params)))
#include "api/hip/calls.def"

static void stream_ends(hipStream_t stream)
{
	if (fm_hip_is_default(stream) || fm_hip_inside)
		return;
	if (fm_shim_has_client())
		fm_shim_close((uintptr_t)stream, false);
	fm_shim_capture_ended((uintptr_t)stream);
}

static hipError_t device_ended(hipError_t rc)
{
	const struct fm_hip_driver *hip = fm_hip_driver();
	int device;

	if (rc == FM_HIP_SUCCESS && hip && !hip->get_device(&device))
		fm_hip_gates_forget(device);
	return rc;
}

#define END_STREAM(stream, call) (stream_ends(stream), call)
#define END_DEVICE(none, call)   device_ended((fm_hip_close_device(), call))
#define ON_end(symbol, per_thread, name, since, note, params, what, handle) \
	CALLS_RETURN(symbol, params, END_##what(handle, NEXT(symbol, params)))
#include "api/hip/calls.def"

/* --- captures --- */

/* The queue is made before the capture, because a thread that captures may not make one. */
static void capture_begins(hipStream_t stream)
{
	if (fm_hip_driver() && !fm_hip_inside)
		fm_hip_queue(stream, "hipStreamBeginCapture");
	fm_shim_capture_begins();
}

static hipError_t capture_begun(hipStream_t stream, hipError_t rc)
{
	fm_shim_capture_begun(rc ? 0 : fm_hip_key(stream), !rc);
	return rc;
}

/* It may fail because there was no capture. In the wrong thread it fails, too, and then the capture
 * goes on. */
static hipError_t capture_ended(hipStream_t stream, hipError_t rc)
{
	if (rc == FM_HIP_SUCCESS || !fm_hip_capturing(stream))
		fm_shim_capture_ended(fm_hip_key(stream));
	return rc;
}

#define CAPTURE_BEGIN(stream, call) capture_begun(stream, (capture_begins(stream), call))
#define CAPTURE_END(stream, call)   capture_ended(stream, call)
#define ON_capture(symbol, per_thread, name, since, note, params, which, given) \
	hipError_t symbol CALL_PARAMS(params)                                   \
	{                                                                       \
		hipStream_t of = fm_hip_stream(given, per_thread);              \
                                                                                \
		return CAPTURE_##which(of, NEXT(symbol, params));               \
	}
#include "api/hip/calls.def"
