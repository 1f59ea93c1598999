/* SPDX-License-Identifier: Apache-2.0 */
/* The enqueue functions: begin, the program's own call of the driver, end. */
#include "layer.h"

struct launch {
	struct fm_opencl_queue *q;
	uint64_t mark, est;
};

static inline struct launch begin(cl_command_queue queue, uint64_t key, const char *call)
{
	struct launch l = {.q = fm_opencl_find(queue)};

	if (FM_UNLIKELY(!l.q)) {
		fm_shim_ungoverned(call);
		return l;
	}
	l.mark = fm_xq_mark(l.q->xq);
	l.est = fm_xq_begin(l.q->xq, key, true);
	return l;
}

/* A blocking call on an in-order queue has waited for itself and for all commands before it. */
static __attribute__((noinline)) void end_waited(struct launch l)
{
	fm_xq_use(l.q->xq);
	fm_xq_end(l.q->xq);
	if (l.q->in_order)
		fm_xq_synced(l.q->xq, l.mark + 1);
	else
		fm_xq_nudge(l.q->xq);
	fm_xq_used(l.q->xq);
}

static inline void end(struct launch l, bool waited)
{
	if (FM_UNLIKELY(!l.q))
		return;
	if (waited)
		end_waited(l);
	else
		fm_xq_end(l.q->xq);
}

/* Around the driver's call. */
static inline void wait_begins(struct launch l, bool waits)
{
	if (FM_LIKELY(l.q) && waits)
		fm_cl_wait_begin(&l.q->hw);
}

static inline void wait_ends(struct launch l, bool waits)
{
	if (FM_LIKELY(l.q) && waits)
		fm_cl_wait_end(&l.q->hw);
}

/* NVIDIA's driver (580) writes stale data back if an object is mapped again before an unmap that
 * waits for a user event has begun. Gates are user events. */
static inline struct launch begin_unmap(cl_command_queue queue, uint64_t key, const char *call)
{
	struct launch l = begin(queue, key, call);

	if (l.q && FM_UNLIKELY(l.q->hw.unmaps_at_once))
		fm_xq_await_gates(l.q->xq);
	return l;
}

/* In an out-of-order queue the backend must know the events of the program's barriers. */
static cl_int order(struct fm_opencl_queue *q, cl_uint n, const cl_event *wait, cl_event *event)
{
	cl_event own;
	cl_int rc;

	rc = fm_cl_layer.next.clEnqueueBarrierWithWaitList(
		q->hw.queue, n, wait, event ? event : &own);
	if (rc != CL_SUCCESS)
		return rc;
	fm_cl_queue_barrier(&q->hw, event ? *event : own);
	if (!event)
		fm_cl_layer.next.clReleaseEvent(own);
	return rc;
}

#define BARRIER(symbol, params, queue, valid, list_n, list, event)               \
	static CL_API_ENTRY cl_int CL_API_CALL shim_##symbol CALL_PARAMS(params) \
	{                                                                        \
		struct launch l = begin(queue, key_bytes(16, 0), #symbol);       \
		cl_int rc = l.q && !l.q->in_order && (valid)                     \
				    ? order(l.q, list_n, list, event)            \
				    : fm_cl_layer.next.symbol CALL_ARGS(params); \
                                                                                 \
		end(l, false);                                                   \
		return rc;                                                       \
	}

#define WORK(type, ok, begin, symbol, params, queue, key, waits)               \
	static CL_API_ENTRY type CL_API_CALL shim_##symbol CALL_PARAMS(params) \
	{                                                                      \
		struct launch l = begin(queue, key, #symbol);                  \
		type got;                                                      \
                                                                               \
		wait_begins(l, (waits));                                       \
		got = fm_cl_layer.next.symbol CALL_ARGS(params);               \
		wait_ends(l, (waits));                                         \
		end(l, (waits) && (ok));                                       \
		return got;                                                    \
	}
#define WORK_STATUS(...)  WORK(cl_int, got == CL_SUCCESS, begin, __VA_ARGS__)
#define WORK_POINTER(...) WORK(void *, got, begin, __VA_ARGS__)
#define WORK_UNMAP(...)   WORK(cl_int, got == CL_SUCCESS, begin_unmap, __VA_ARGS__)

#define ON_order(symbol, per_thread, name, since, note, ...) BARRIER(symbol, __VA_ARGS__)
#define ON_work(symbol, per_thread, name, since, note, params, queue, key, waits, how) \
	WORK_##how(symbol, params, queue, key, waits)
#include "api/opencl/calls.def"

/* A kernel that may take long is launched so that it can be stopped in its middle, if possible. */
static CL_API_ENTRY cl_int CL_API_CALL shim_clEnqueueNDRangeKernel(cl_command_queue queue,
	cl_kernel kernel, cl_uint dim, const size_t *offset, const size_t *global,
	const size_t *local, cl_uint n, const cl_event *wait, cl_event *event)
{
	uint64_t key = key_kernel(kernel, dim, global);
	struct launch l = begin(queue, key, "clEnqueueNDRangeKernel");
	cl_int rc = CL_SUCCESS;

	if (FM_LIKELY(!l.q || l.est < fm_xq_guard_from(l.q->xq, l.q->guard_from) ||
		      !fm_xq_scheduled(l.q->xq)) ||
		!fm_opencl_guarded(l.q,
			&(struct fm_opencl_range){
				kernel, dim, offset, global, local, n, wait, event},
			key, l.est))
		rc = fm_cl_layer.next.clEnqueueNDRangeKernel(
			queue, kernel, dim, offset, global, local, n, wait, event);
	end(l, false);
	return rc;
}

void fm_opencl_enqueues(cl_icd_dispatch *own)
{
#define ON_work   FM_CL_ENTRY
#define ON_kernel FM_CL_ENTRY
#define ON_order  FM_CL_ENTRY
#include "api/opencl/calls.def"
}
