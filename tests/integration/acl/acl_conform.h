/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The conformance sets of CUDA (cuda_conform.h) over AscendCL: each call of CUDA's driver by the
 * calls of AscendCL that do the same. What AscendCL has no call for stays NULL, and the cases that
 * need it, or a default stream for which others wait, are left out by who runs the sets. A copy
 * without a stream is one in the default stream, and waits for it.
 */
#pragma once
#include "acl_load.h"

#define PTR(d) ((void *)(uintptr_t)(d))

/* A name here, parameters, and what it does. */
/* clang-format off */
#define CONFORM_CALLS(X) \
	X(cuDeviceGetCount, (int *n), acl.aclrtGetDeviceCount((uint32_t *)n)) \
	X(cuCtxSynchronize, (void), acl.aclrtSynchronizeDevice()) \
	X(cuMemAlloc_v2, (CUdeviceptr *d, size_t size), acl.aclrtMalloc((void **)d, size, 0)) \
	X(cuMemFree_v2, (CUdeviceptr d), acl.aclrtFree(PTR(d))) \
	X(cuMemHostAlloc, (void **p, size_t size, unsigned flags), acl.aclrtMallocHost(p, size)) \
	X(cuMemFreeHost, (void *p), acl.aclrtFreeHost(p)) \
	X(cuMemHostGetDevicePointer_v2, (CUdeviceptr *d, void *p, unsigned flags), acl.aclrtHostGetDevicePointer(p, (void **)d, 0)) \
	X(cuMemcpy, (CUdeviceptr dst, CUdeviceptr src, size_t n), conform_copy(PTR(dst), PTR(src), n)) \
	X(cuMemcpyHtoD_v2, (CUdeviceptr dst, const void *src, size_t n), conform_copy(PTR(dst), src, n)) \
	X(cuMemcpyDtoH_v2, (void *dst, CUdeviceptr src, size_t n), conform_copy(dst, PTR(src), n)) \
	X(cuMemcpyDtoD_v2, (CUdeviceptr dst, CUdeviceptr src, size_t n), conform_copy(PTR(dst), PTR(src), n)) \
	X(cuMemcpyAsync, (CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream s), acl.aclrtMemcpyAsync(PTR(dst), n, PTR(src), n, ACL_COPY_DEFAULT, s)) \
	X(cuMemcpyHtoDAsync_v2, (CUdeviceptr dst, const void *src, size_t n, CUstream s), acl.aclrtMemcpyAsync(PTR(dst), n, src, n, ACL_COPY_H2D, s)) \
	X(cuMemcpyDtoHAsync_v2, (void *dst, CUdeviceptr src, size_t n, CUstream s), acl.aclrtMemcpyAsync(dst, n, PTR(src), n, ACL_COPY_D2H, s)) \
	X(cuMemcpyDtoDAsync_v2, (CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream s), acl.aclrtMemcpyAsync(PTR(dst), n, PTR(src), n, ACL_COPY_D2D, s)) \
	X(cuMemsetD8Async, (CUdeviceptr dst, unsigned char v, size_t n, CUstream s), acl.aclrtMemsetAsync(PTR(dst), n, v, n, s)) \
	X(cuMemsetD32Async, (CUdeviceptr dst, unsigned v, size_t n, CUstream s), acl.aclrtMemsetD32Async(PTR(dst), 4 * n, v, n, s)) \
	X(cuMemsetD8_v2, (CUdeviceptr dst, unsigned char v, size_t n), acl.aclrtMemsetAsync(PTR(dst), n, v, n, NULL) ?: acl.aclrtSynchronizeStream(NULL)) \
	X(cuMemsetD32_v2, (CUdeviceptr dst, unsigned v, size_t n), acl.aclrtMemsetD32Async(PTR(dst), 4 * n, v, n, NULL) ?: acl.aclrtSynchronizeStream(NULL)) \
	X(cuStreamCreate, (CUstream *s, unsigned flags), acl.aclrtCreateStream((aclrtStream *)s)) \
	X(cuStreamDestroy_v2, (CUstream s), acl.aclrtDestroyStream(s)) \
	X(cuStreamSynchronize, (CUstream s), acl.aclrtSynchronizeStream(s)) \
	X(cuStreamWaitEvent, (CUstream s, CUevent e, unsigned flags), acl.aclrtStreamWaitEvent(s, e)) \
	X(cuLaunchHostFunc, (CUstream s, CUhostFn fn, void *arg), acl.aclrtLaunchHostFunc(s, fn, arg)) \
	X(cuStreamWaitValue64_v2, (CUstream s, CUdeviceptr d, uint64_t v, unsigned how), acl.aclrtValueWait(PTR(d), v, how, s)) \
	X(cuStreamWriteValue64_v2, (CUstream s, CUdeviceptr d, uint64_t v, unsigned flags), acl.aclrtValueWrite(PTR(d), v, 0, s)) \
	X(cuEventCreate, (CUevent *e, unsigned flags), acl.aclrtCreateEventWithFlag((aclrtEvent *)e, flags & CU_EVENT_DISABLE_TIMING ? ACL_EVENT_SYNC : ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE)) \
	X(cuEventDestroy_v2, (CUevent e), acl.aclrtDestroyEvent(e)) \
	X(cuEventSynchronize, (CUevent e), acl.aclrtSynchronizeEvent(e)) \
	X(cuEventElapsedTime, (float *ms, CUevent a, CUevent b), acl.aclrtEventElapsedTime(ms, a, b)) \
	X(cuEventRecord, (CUevent e, CUstream s), acl.aclrtRecordEvent(e, s)) \
	X(cuThreadExchangeStreamCaptureMode, (int *mode), acl.aclmdlRICaptureThreadExchangeMode(mode)) \
	X(cuStreamBeginCapture_v2, (CUstream s, int mode), acl.aclmdlRICaptureBegin(s, mode)) \
	X(cuStreamEndCapture, (CUstream s, CUgraph *g), acl.aclmdlRICaptureEnd(s, (aclmdlRI *)g)) \
	X(cuStreamIsCapturing, (CUstream s, int *status), acl.aclmdlRICaptureGetInfo(s, status, &(aclmdlRI){NULL})) \
	X(cuGraphLaunch, (CUgraphExec e, CUstream s), acl.aclmdlRIExecuteAsync(e, s)) \
	X(cuGraphExecDestroy, (CUgraphExec e), acl.aclmdlRIDestroy(e)) \
	X(cuModuleLoadData, (CUmodule *m, const void *image), acl.aclrtBinaryLoadFromData(image, 0, NULL, (aclrtBinHandle *)m)) \
	X(cuModuleUnload, (CUmodule m), acl.aclrtBinaryUnLoad(m)) \
	X(cuModuleGetFunction, (CUfunction *f, CUmodule m, const char *name), acl.aclrtBinaryGetFunction(m, name, (aclrtFuncHandle *)f)) \
	X(cuLaunchKernel, (CU_LAUNCH_PARAMS, void **extra), acl.aclrtLaunchSIMTKernelWithArgsArray(f, (acl_dim3){gx, gy, gz}, (acl_dim3){bx, by, bz}, shared, stream, NULL, params))
/* clang-format on */

static fm_cu_result conform_copy(void *dst, const void *src, size_t n)
{
	return acl.aclrtMemcpyAsync(dst, n, src, n, ACL_COPY_DEFAULT, NULL)
		       ?: acl.aclrtSynchronizeStream(NULL);
}

#define CONFORM_DEFINE(name, params, does)        \
	static fm_cu_result conform_##name params \
	{                                         \
		return does;                      \
	}
CONFORM_CALLS(CONFORM_DEFINE)

static fm_cu_result conform_init(unsigned flags)
{
	aclError rc = acl.aclInit(NULL);

	return rc == ACL_ERROR_REPEAT_INITIALIZE ? FM_CU_SUCCESS : (fm_cu_result)rc;
}

static fm_cu_result conform_device(CUdevice *dev, int ordinal)
{
	*dev = ordinal;
	return FM_CU_SUCCESS;
}

static fm_cu_result conform_retain(CUcontext *ctx, CUdevice dev)
{
	return acl.aclrtSetDevice(dev) ?: acl.aclrtGetCurrentContext((aclrtContext *)ctx);
}

static fm_cu_result conform_release(CUdevice dev)
{
	return acl.aclrtResetDevice(dev);
}

static fm_cu_result conform_set(CUcontext ctx)
{
	return ctx ? acl.aclrtSetCurrentContext(ctx) : FM_CU_SUCCESS;
}

static fm_cu_result conform_get(CUcontext *ctx)
{
	return acl.aclrtGetCurrentContext((aclrtContext *)ctx);
}

static fm_cu_result conform_query(CUstream s)
{
	int status;
	aclError rc = acl.aclrtStreamQuery(s, &status);

	return rc                               ? (fm_cu_result)rc
	       : status == ACL_STREAM_NOT_READY ? FM_CU_ERROR_NOT_READY
						: FM_CU_SUCCESS;
}

static fm_cu_result conform_event_query(CUevent e)
{
	int status;
	aclError rc = acl.aclrtQueryEventStatus(e, &status);

	return rc                              ? (fm_cu_result)rc
	       : status == ACL_EVENT_NOT_READY ? FM_CU_ERROR_NOT_READY
					       : FM_CU_SUCCESS;
}

/* What was captured can be launched as it is. */
static fm_cu_result conform_instantiate(CUgraphExec *e, CUgraph g, unsigned long long flags)
{
	*e = (CUgraphExec)g;
	return FM_CU_SUCCESS;
}

static fm_cu_result conform_destroy(CUgraph g)
{
	return FM_CU_SUCCESS;
}

static inline void conform_adapt(const char *via)
{
	acl_load(via);
#define CONFORM_SET(name, params, does) cu.name = conform_##name;
	CONFORM_CALLS(CONFORM_SET)
	cu.cuInit = conform_init;
	cu.cuDeviceGet = conform_device;
	cu.cuDevicePrimaryCtxRetain = conform_retain;
	cu.cuDevicePrimaryCtxRelease_v2 = conform_release;
	cu.cuCtxSetCurrent = conform_set;
	cu.cuCtxGetCurrent = conform_get;
	cu.cuStreamQuery = conform_query;
	cu.cuEventQuery = conform_event_query;
	cu.cuGraphInstantiateWithFlags = conform_instantiate;
	cu.cuGraphDestroy = conform_destroy;
}

static inline void load_linked(bool ptds)
{
	conform_adapt("link");
}

static inline void load_dlsym(bool ptds)
{
	conform_adapt("dlsym");
}

/* AscendCL has no look-up of its own. */
static inline void load_proc(bool ptds)
{
	conform_adapt("dlsym");
}

static inline void launches_apart(int yes)
{
}
