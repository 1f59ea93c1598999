/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A HIP runtime without a device: the functions of libamdhip64 over the engine of the fake CUDA
 * driver (../cuda/fake.h), whose rules of order are the same. Code is images as that engine reads
 * them, so that one set of kernels does for both. FAKE_CUDA_* (see there) hold here, too, besides:
 *
 *   FAKE_HIP_NO_WAIT_VALUE   the device has no stream memory operations
 *   FAKE_HIP_LEAKY_WAIT      a wait for a value is over at once, whatever the value
 *   FAKE_HIP_LAST_CALL       hipGetLastError() tells what the last call returned, also if it
 *                            worked, or has said that something is not ready: as before ROCm 7
 *   FAKE_HIP_OLD             a runtime of ROCm 5.5: with FAKE_CUDA_NARROW a call that waits for the
 *                            device has a lock meanwhile, for which nearly all calls wait
 *   FAKE_HIP_SLOW_EVENTS     a stream takes 2 ms to come past an event
 *   GPU_STREAMOPS_CP_WAIT=1  as of the real one: waits for values look at signal memory alone
 *
 * Where the real runtime differs from CUDA's driver this is as the real one: a device is current to
 * each thread from the start; errors stay until hipGetLastError(); a stream is waited for when it
 * is destroyed; operations on values cannot be captured; host functions of all streams are called
 * one at a time. With FAKE_CUDA_NARROW, too: streams share queues in which each packet waits for
 * the one in front of it, so a stream that waits for a value keeps back all that is put into its
 * queue later; and a call that waits for the device holds up no others.
 */
#pragma once
#define ihipStream_t       CUstream_st
#define ihipEvent_t        CUevent_st
#define ihipModule_t       CUmod_st
#define ihipModuleSymbol_t CUfunc_st
#define ihipGraph          CUgraph_st
#define hipGraphExec       CUgraphExec_st
#define hipGraphNode       CUgraphNode_st
#include "../cuda/fake.h"
#define HIP_EXPORT __attribute__((visibility("default")))
#include "../../hip.h"

struct fh_call {
	hip_dim3 grid, block;
	size_t shared;
	hipStream_t stream;
	unsigned char args[256]; /* of the older way to launch */
	size_t n_args;
};

struct fh_thread {
	int device;
	hipError_t last, latest;
	struct fh_call call[8]; /* pushed by <<<>>>, and not launched yet */
	unsigned calls;
};
extern _Thread_local struct fh_thread fh_self;
extern _Atomic unsigned fh_resets[FK_DEVICES];

/* Before each call: the device of the thread is current. */
fm_cu_result fh_ready(void);
/* What a call returns, which the thread may ask for later. */
hipError_t fh_done(fm_cu_result rc);

/* A call that is one of the engine's. */
#define FH_CALL(call)                             \
	do {                                      \
		fm_cu_result ready_ = fh_ready(); \
		return fh_done(ready_ ?: (call)); \
	} while (0)
#define FH_PTR(p) ((CUdeviceptr)(uintptr_t)(p))

/* The variant of a call for per-thread default streams. */
#define FH_NOTHING(symbol, node, params)
#define FH_SPT(symbol, node, spt, params, args) \
	hipError_t symbol##_spt params          \
	{                                       \
		bool was = fk_self.per_thread;  \
		hipError_t rc;                  \
                                                \
		fk_self.per_thread = true;      \
		rc = symbol args;               \
		fk_self.per_thread = was;       \
		return rc;                      \
	}
