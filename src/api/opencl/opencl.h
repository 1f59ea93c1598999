/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The OpenCL backend: levels 1 and 2 on any OpenCL 1.2 device, level 3 where memory is shared with
 * a running kernel (fine-grained SVM).
 *
 * A gate is a barrier that waits for a user event: commands behind it, in an in-order or an
 * out-of-order queue, stay in the driver until the event is set. A tracker is a marker with a
 * callback. Both are separate commands between the program's, so the program's calls reach the
 * driver unchanged. Level 3 is for launches of rewritten kernels (guard.h) in in-order queues.
 *
 * Owns: one struct fm_cl_queue for each command queue: its gates, trackers and guard.
 * Locks: `barrier_lock` of a queue (opencl.c), g->lock of a guard (guard.h), the watcher's
 * (api/watch.h), and with some drivers `waiting` of a queue, which is only tried with an XQueue's
 * lock (api/queue_lock.h).
 * Threads: the program's, the agent, the watcher; callbacks of the driver, which take no lock that
 * is held over its calls.
 */
#pragma once
#include "api/hwqueue.h"
#include "api/queue_lock.h"
#include "api/watch.h"
#include "base/list.h"
#include "base/lockorder.h"
#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 300
#endif
#define CL_USE_DEPRECATED_OPENCL_1_0_APIS
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#define CL_USE_DEPRECATED_OPENCL_2_0_APIS
#define CL_USE_DEPRECATED_OPENCL_2_1_APIS
#define CL_USE_DEPRECATED_OPENCL_2_2_APIS
#include <CL/cl.h>
#include <CL/cl_icd.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct fm_cl_guard;

/* Types of the program's functions that are parameters of calls (calls.def). */
typedef void(CL_CALLBACK *fm_cl_native_fn)(void *);
typedef void(CL_CALLBACK *fm_cl_svm_free_fn)(cl_command_queue, cl_uint, void **, void *);
typedef void(CL_CALLBACK *fm_cl_program_fn)(cl_program, void *);

/* Calls go to the driver below the layer (cl), never through libOpenCL again. */
struct fm_cl_queue {
	const cl_icd_dispatch *cl;
	cl_command_queue queue; /* the program's, borrowed */
	cl_context context;
	bool in_order;
	void (*release)(struct fm_cl_queue *q); /* the XQueue no longer uses it; may be NULL */

	/* The program's last barrier in an out-of-order queue, or NULL (fm_cl_queue_barrier()). */
	pthread_mutex_t barrier_lock;
	cl_event barrier;

	/* Set by the backend: the driver's callbacks come late, so a thread polls its events
	 * (api/watch.h). */
	bool watched;
	/* Set by the backend: an unmap must not be enqueued behind a closed gate
	 * (fm_xq_await_gates()). */
	bool unmaps_at_once;
	/* Set by the backend: while a call of the program waits for the queue, other calls that use
	 * it wait in the driver, too. Such a call has `waiting` (fm_cl_wait_begin()), and the
	 * backend puts nothing into the queue meanwhile. */
	bool waits_exclude;
	struct fm_queue_lock waiting;
	struct fm_cl_guard *guard; /* level 3; NULL: unavailable, for the reason in no_guard */
	const char *no_guard;
	struct fm_watched watch;
};

extern const struct fm_hw_ops fm_cl_ops;

void fm_cl_queue_init(struct fm_cl_queue *q, const cl_icd_dispatch *cl, cl_command_queue queue,
	cl_context context, bool in_order, void (*release)(struct fm_cl_queue *q));

/* For a queue that no XQueue was made of: does what release would do. */
void fm_cl_queue_drop(struct fm_cl_queue *q);

/* Around a call of the program's that waits for the queue. Not with an XQueue's lock. */
static inline void fm_cl_wait_begin(struct fm_cl_queue *q)
{
	if (FM_UNLIKELY(q->waits_exclude))
		fm_queue_lock_take(&q->waiting);
}

static inline void fm_cl_wait_end(struct fm_cl_queue *q)
{
	if (FM_UNLIKELY(q->waits_exclude))
		fm_queue_lock_give(&q->waiting);
}

/* The program has put a barrier with this event into an out-of-order queue. Some drivers remember
 * only the last barrier (PoCL 3.1), so a gate behind it must wait for the event, too. Retains the
 * event. */
void fm_cl_queue_barrier(struct fm_cl_queue *q, cl_event event);

/* The same text for the same device in every process: a GPU's UUID, as of CUDA, Level Zero and
 * Vulkan, or else its name and its index among the platform's devices. A sub-device has that of its
 * parent. */
void fm_cl_device_key(const cl_icd_dispatch *cl, cl_device_id device, char *key, size_t size);
