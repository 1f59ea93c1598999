/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The conformance sets of CUDA (cuda_conform.h) over HIP: each call of CUDA's driver by the call of
 * HIP that does the same. What HIP has no call for stays NULL, and the cases that need it are left
 * out by who runs the sets.
 */
#pragma once
#include "hip_load.h"

#define PTR(d)    ((void *)(uintptr_t)(d))
#define STREAM(s) ((hipStream_t)(s))
#define EVENT(e)  ((hipEvent_t)(e))
#define GRAPH(g)  ((hipGraph_t)(g))
#define EXEC(e)   ((hipGraphExec_t)(e))
/* Of a call without a variant for per-thread streams: as a program compiled for those names it. */
#define OWN(s) (!(s) && hip_spt ? HIP_STREAM_PER_THREAD : STREAM(s))

/* A name here, the call, parameters, and the arguments of the call. */
/* clang-format off */
#define CONFORM_CALLS(X) \
	X(cuInit, hipInit, (unsigned flags), (flags)) \
	X(cuDeviceGetCount, hipGetDeviceCount, (int *n), (n)) \
	X(cuCtxSynchronize, hipDeviceSynchronize, (void), ()) \
	X(cuMemAlloc_v2, hipMalloc, (CUdeviceptr *d, size_t size), ((void **)d, size)) \
	X(cuMemFree_v2, hipFree, (CUdeviceptr d), (PTR(d))) \
	X(cuMemHostAlloc, hipHostMalloc, (void **p, size_t size, unsigned flags), (p, size, flags)) \
	X(cuMemFreeHost, hipHostFree, (void *p), (p)) \
	X(cuMemHostGetDevicePointer_v2, hipHostGetDevicePointer, (CUdeviceptr *d, void *p, unsigned flags), ((void **)d, p, flags)) \
	X(cuMemAllocAsync, hipMallocAsync, (CUdeviceptr *d, size_t size, CUstream s), ((void **)d, size, OWN(s))) \
	X(cuMemFreeAsync, hipFreeAsync, (CUdeviceptr d, CUstream s), (PTR(d), OWN(s))) \
	X(cuMemcpy, hipMemcpy, (CUdeviceptr dst, CUdeviceptr src, size_t n), (PTR(dst), PTR(src), n, HIP_COPY_DEFAULT)) \
	X(cuMemcpyHtoD_v2, hipMemcpy, (CUdeviceptr dst, const void *src, size_t n), (PTR(dst), src, n, HIP_COPY_H2D)) \
	X(cuMemcpyDtoH_v2, hipMemcpy, (void *dst, CUdeviceptr src, size_t n), (dst, PTR(src), n, HIP_COPY_D2H)) \
	X(cuMemcpyDtoD_v2, hipMemcpy, (CUdeviceptr dst, CUdeviceptr src, size_t n), (PTR(dst), PTR(src), n, HIP_COPY_D2D)) \
	X(cuMemcpyAsync, hipMemcpyAsync, (CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream s), (PTR(dst), PTR(src), n, HIP_COPY_DEFAULT, STREAM(s))) \
	X(cuMemcpyHtoDAsync_v2, hipMemcpyHtoDAsync, (CUdeviceptr dst, const void *src, size_t n, CUstream s), (PTR(dst), PTR(src), n, OWN(s))) \
	X(cuMemcpyDtoHAsync_v2, hipMemcpyDtoHAsync, (void *dst, CUdeviceptr src, size_t n, CUstream s), (dst, PTR(src), n, OWN(s))) \
	X(cuMemcpyDtoDAsync_v2, hipMemcpyDtoDAsync, (CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream s), (PTR(dst), PTR(src), n, OWN(s))) \
	X(cuMemsetD8Async, hipMemsetAsync, (CUdeviceptr dst, unsigned char v, size_t n, CUstream s), (PTR(dst), v, n, STREAM(s))) \
	X(cuMemsetD32Async, hipMemsetD32Async, (CUdeviceptr dst, unsigned v, size_t n, CUstream s), (PTR(dst), (int)v, n, OWN(s))) \
	X(cuMemsetD8_v2, hipMemset, (CUdeviceptr dst, unsigned char v, size_t n), (PTR(dst), v, n)) \
	X(cuMemsetD32_v2, hipMemsetD32, (CUdeviceptr dst, unsigned v, size_t n), (PTR(dst), (int)v, n)) \
	X(cuMemHostRegister_v2, hipHostRegister, (void *p, size_t size, unsigned flags), (p, size, flags)) \
	X(cuMemHostUnregister, hipHostUnregister, (void *p), (p)) \
	X(cuStreamCreate, hipStreamCreateWithFlags, (CUstream *s, unsigned flags), ((hipStream_t *)s, flags)) \
	X(cuStreamCreateWithPriority, hipStreamCreateWithPriority, (CUstream *s, unsigned flags, int priority), ((hipStream_t *)s, flags, priority)) \
	X(cuStreamDestroy_v2, hipStreamDestroy, (CUstream s), (STREAM(s))) \
	X(cuStreamSynchronize, hipStreamSynchronize, (CUstream s), (STREAM(s))) \
	X(cuStreamWaitEvent, hipStreamWaitEvent, (CUstream s, CUevent e, unsigned flags), (STREAM(s), EVENT(e), flags)) \
	X(cuStreamAddCallback, hipStreamAddCallback, (CUstream s, CUstreamCallback fn, void *arg, unsigned flags), (STREAM(s), (hipStreamCallback_t)fn, arg, flags)) \
	X(cuLaunchHostFunc, hipLaunchHostFunc, (CUstream s, CUhostFn fn, void *arg), (STREAM(s), fn, arg)) \
	X(cuStreamWaitValue32_v2, hipStreamWaitValue32, (CUstream s, CUdeviceptr d, uint32_t v, unsigned how), (OWN(s), PTR(d), v, how, UINT32_MAX)) \
	X(cuStreamWaitValue64_v2, hipStreamWaitValue64, (CUstream s, CUdeviceptr d, uint64_t v, unsigned how), (OWN(s), PTR(d), v, how, UINT64_MAX)) \
	X(cuStreamWriteValue32_v2, hipStreamWriteValue32, (CUstream s, CUdeviceptr d, uint32_t v, unsigned flags), (OWN(s), PTR(d), v, flags)) \
	X(cuStreamWriteValue64_v2, hipStreamWriteValue64, (CUstream s, CUdeviceptr d, uint64_t v, unsigned flags), (OWN(s), PTR(d), v, flags)) \
	X(cuEventCreate, hipEventCreateWithFlags, (CUevent *e, unsigned flags), ((hipEvent_t *)e, flags)) \
	X(cuEventDestroy_v2, hipEventDestroy, (CUevent e), (EVENT(e))) \
	X(cuEventQuery, hipEventQuery, (CUevent e), (EVENT(e))) \
	X(cuEventSynchronize, hipEventSynchronize, (CUevent e), (EVENT(e))) \
	X(cuEventElapsedTime, hipEventElapsedTime, (float *ms, CUevent a, CUevent b), (ms, EVENT(a), EVENT(b))) \
	X(cuEventRecord, hipEventRecord, (CUevent e, CUstream s), (EVENT(e), STREAM(s))) \
	X(cuThreadExchangeStreamCaptureMode, hipThreadExchangeStreamCaptureMode, (int *mode), (mode)) \
	X(cuStreamBeginCapture_v2, hipStreamBeginCapture, (CUstream s, int mode), (STREAM(s), mode)) \
	X(cuStreamEndCapture, hipStreamEndCapture, (CUstream s, CUgraph *g), (STREAM(s), (hipGraph_t *)g)) \
	X(cuStreamIsCapturing, hipStreamIsCapturing, (CUstream s, int *status), (STREAM(s), status)) \
	X(cuStreamGetCaptureInfo_v2, hipStreamGetCaptureInfo_v2, (CUstream s, int *status, uint64_t *id, CUgraph *g, const CUgraphNode **deps, size_t *n), (STREAM(s), status, (unsigned long long *)id, (hipGraph_t *)g, (const hipGraphNode_t **)deps, n)) \
	X(cuGraphCreate, hipGraphCreate, (CUgraph *g, unsigned flags), ((hipGraph_t *)g, flags)) \
	X(cuGraphDestroy, hipGraphDestroy, (CUgraph g), (GRAPH(g))) \
	X(cuGraphClone, hipGraphClone, (CUgraph *clone, CUgraph g), ((hipGraph_t *)clone, GRAPH(g))) \
	X(cuGraphGetNodes, hipGraphGetNodes, (CUgraph g, CUgraphNode *nodes, size_t *n), (GRAPH(g), (hipGraphNode_t *)nodes, n)) \
	X(cuGraphAddChildGraphNode, hipGraphAddChildGraphNode, (CUgraphNode *node, CUgraph g, const CUgraphNode *deps, size_t n, CUgraph child), ((hipGraphNode_t *)node, GRAPH(g), (const hipGraphNode_t *)deps, n, GRAPH(child))) \
	X(cuGraphInstantiate_v2, hipGraphInstantiate, (CUgraphExec *e, CUgraph g, CUgraphNode *node, char *log, size_t size), ((hipGraphExec_t *)e, GRAPH(g), (hipGraphNode_t *)node, log, size)) \
	X(cuGraphInstantiateWithFlags, hipGraphInstantiateWithFlags, (CUgraphExec *e, CUgraph g, unsigned long long flags), ((hipGraphExec_t *)e, GRAPH(g), flags)) \
	X(cuGraphExecDestroy, hipGraphExecDestroy, (CUgraphExec e), (EXEC(e))) \
	X(cuGraphUpload, hipGraphUpload, (CUgraphExec e, CUstream s), (EXEC(e), OWN(s))) \
	X(cuGraphLaunch, hipGraphLaunch, (CUgraphExec e, CUstream s), (EXEC(e), STREAM(s))) \
	X(cuModuleLoadData, hipModuleLoadData, (CUmodule *m, const void *image), ((hipModule_t *)m, image)) \
	X(cuModuleUnload, hipModuleUnload, (CUmodule m), ((hipModule_t)m)) \
	X(cuModuleGetFunction, hipModuleGetFunction, (CUfunction *f, CUmodule m, const char *name), ((hipFunction_t *)f, (hipModule_t)m, name)) \
	X(cuLaunchKernel, hipModuleLaunchKernel, (CU_LAUNCH_PARAMS, void **extra), ((hipFunction_t)f, gx, gy, gz, bx, by, bz, shared, OWN(stream), params, extra)) \
	X(cuLaunchCooperativeKernel, hipModuleLaunchCooperativeKernel, (CU_LAUNCH_PARAMS), ((hipFunction_t)f, gx, gy, gz, bx, by, bz, shared, OWN(stream), params))
/* clang-format on */

#define CONFORM_DEFINE(name, call, params, args)  \
	static fm_cu_result conform_##name params \
	{                                         \
		return hip.call args;             \
	}
CONFORM_CALLS(CONFORM_DEFINE)

/* There are devices in place of contexts. */
static fm_cu_result conform_device(CUdevice *dev, int ordinal)
{
	*dev = ordinal;
	return FM_CU_SUCCESS;
}

static fm_cu_result conform_retain(CUcontext *ctx, CUdevice dev)
{
	*ctx = (CUcontext)(uintptr_t)(dev + 1);
	return FM_CU_SUCCESS;
}

static fm_cu_result conform_release(CUdevice dev)
{
	return FM_CU_SUCCESS;
}

static fm_cu_result conform_set(CUcontext ctx)
{
	return ctx ? hip.hipSetDevice((int)(uintptr_t)ctx - 1) : FM_CU_SUCCESS;
}

static fm_cu_result conform_get(CUcontext *ctx)
{
	int dev;
	fm_cu_result rc = hip.hipGetDevice(&dev);

	return rc ? rc : conform_retain(ctx, dev);
}

/* Of the attributes of a launch HIP has the cooperative one, as a call of its own. */
static fm_cu_result conform_launch(
	const struct cu_launch_config *c, CUfunction f, void **params, void **extra)
{
	const unsigned *g = c->grid, *b = c->block;

	if (c->attr_count == 1 && c->attrs->id == CU_LAUNCH_COOPERATIVE)
		return conform_cuLaunchCooperativeKernel(
			f, g[0], g[1], g[2], b[0], b[1], b[2], c->shared, c->stream, params);
	return c->attr_count ? FM_CU_ERROR_NOT_SUPPORTED
			     : conform_cuLaunchKernel(f, g[0], g[1], g[2], b[0], b[1], b[2],
				       c->shared, c->stream, params, extra);
}

/* One after the other, in the stream's order. */
static fm_cu_result conform_batch(CUstream s, unsigned n, union fm_cu_mem_op *ops, unsigned flags)
{
	for (unsigned i = 0; i < n; i++) {
		void *at = PTR(ops[i].op.address);
		uint64_t v = ops[i].op.value;
		unsigned how = ops[i].op.flags;
		hipError_t rc;

		if (ops[i].op.operation == FM_CU_OP_WAIT_VALUE_32)
			rc = hip.hipStreamWaitValue32(OWN(s), at, (uint32_t)v, how, UINT32_MAX);
		else if (ops[i].op.operation == FM_CU_OP_WAIT_VALUE_64)
			rc = hip.hipStreamWaitValue64(OWN(s), at, v, how, UINT64_MAX);
		else if (ops[i].op.operation == FM_CU_OP_WRITE_VALUE_32)
			rc = hip.hipStreamWriteValue32(OWN(s), at, (uint32_t)v, 0);
		else
			rc = hip.hipStreamWriteValue64(OWN(s), at, v, 0);
		if (rc)
			return rc;
	}
	return FM_CU_SUCCESS;
}

/* One that says yes leaves no error, which the next look at the last error would take for one. */
static fm_cu_result conform_query(CUstream s)
{
	hipError_t rc = hip.hipStreamQuery(STREAM(s));

	if (rc == HIP_SUCCESS && hip.hipPeekAtLastError() == HIP_NOT_READY) {
		fprintf(stderr, "the stream is idle, and the last error is that it is not\n");
		exit(1);
	}
	return rc;
}

static inline void conform_adapt(const char *via, bool spt)
{
	hip_load(via, spt);
#define CONFORM_SET(name, call, params, args) cu.name = hip.call ? conform_##name : NULL;
	CONFORM_CALLS(CONFORM_SET)
	cu.cuDeviceGet = conform_device;
	cu.cuDevicePrimaryCtxRetain = conform_retain;
	cu.cuDevicePrimaryCtxRelease_v2 = conform_release;
	cu.cuCtxSetCurrent = conform_set;
	cu.cuCtxGetCurrent = conform_get;
	cu.cuStreamQuery = conform_query;
	cu.cuLaunchKernelEx = conform_launch;
	cu.cuStreamBatchMemOp_v2 = conform_batch;
}

static inline void load_linked(bool ptds)
{
	conform_adapt("link", ptds);
}

static inline void load_dlsym(bool ptds)
{
	conform_adapt("dlsym", ptds);
}

static inline void load_proc(bool ptds)
{
	conform_adapt("proc", ptds);
}

/* No launch of HIP may begin early. */
static inline void launches_apart(int yes)
{
}
