/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Within the module: the engine "gates" of <fermata/gpu_sched.h>, as far as the rest of the shim
 * has to do with it.
 *
 * The streams of a set bypass XQueues: the map has the refused entry for them, and no launch there
 * is counted. The set has an XQueue of its own, whose commands are its jobs. When its gate closes
 * the set parks at the end of the chunks that run.
 */
#pragma once
#include "api/cuda/gpusched/gates.h"
#include <stdatomic.h>
#include <stdbool.h>

/* The enqueue in which this thread is; NULL: none. */
struct fm_cuda_enqueue {
	CUstream stream;
	bool waited;                     /* it wanted to wait for the device */
	struct fm_cu_gates_guard *guard; /* of the chunk's kernels; NULL: they have none */
	struct fm_cuda_enqueue *outer;
};
extern __thread struct fm_cuda_enqueue *fm_cuda_enqueues
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

#define FM_CU_ERROR_NOT_PERMITTED 800

/* A call that waits for the device. True: this thread is in an enqueue, for whose stream it would
 * wait for ever, so that the call is refused (FM_CU_ERROR_NOT_PERMITTED). */
static inline bool fm_cuda_enqueue_refuses(void)
{
	if (__builtin_expect(!fm_cuda_enqueues, 1))
		return false;
	return fm_cuda_enqueues->waited = true;
}

extern _Atomic unsigned fm_cuda_sets_live __attribute__((visibility("hidden")));

bool fm_cuda_sets_own_slow(CUstream stream);
/* Is it a stream of a set's? Then the program does not capture it, but in its enqueue, nor end
 * it. */
static inline bool fm_cuda_sets_own(CUstream stream)
{
	return atomic_load_explicit(&fm_cuda_sets_live, memory_order_relaxed) &&
	       fm_cuda_sets_own_slow(stream);
}

/* Around a call of the driver that may wait for the device while it holds a lock: waits until
 * nothing stands in the streams of sets, and keeps it so. */
void fm_cuda_sets_leave(void);
void fm_cuda_sets_stay(void);
/* The same around a call that waits for a whole context, where sets reside: with those it would
 * wait for ever. Returns whether fm_cuda_sets_stay() is to follow. */
extern _Atomic unsigned fm_cuda_sets_residents __attribute__((visibility("hidden")));
static inline bool fm_cuda_sets_leave_residents(void)
{
	if (__builtin_expect(
		    !atomic_load_explicit(&fm_cuda_sets_residents, memory_order_relaxed), 1))
		return false;
	fm_cuda_sets_leave();
	return true;
}

/* Channels that sets have, whether or not they have work. */
unsigned fm_cuda_sets_channels(void);

/* Before the driver's call that ends the context: what stands in its sets runs, and they are
 * over. */
void fm_cuda_sets_context_ends(CUcontext ctx);
void fm_cuda_sets_fork_child(void);
