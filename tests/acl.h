/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of AscendCL that the tests use, as its binary interface has it: what the fake library
 * (fakes/acl) exports and what the programs call. No CANN is needed.
 *
 * X(symbol, parameters); in libopapi.so: ACL_OPERATORS.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifndef ACL_EXPORT
#define ACL_EXPORT
#endif

typedef int aclError;
typedef void *aclrtStream;
typedef void *aclrtEvent;
typedef void *aclrtContext;
typedef void *aclrtBinHandle;
typedef void *aclrtFuncHandle;
typedef void *aclmdlRI;
typedef void (*aclrtCallback)(void *arg);
typedef struct {
	uint32_t x, y, z;
} acl_dim3;
typedef struct aclOpExecutor aclOpExecutor;
typedef struct aclTensor aclTensor;

enum {
	ACL_SUCCESS = 0,
	ACL_ERROR_UNINITIALIZE = 100001,
	ACL_ERROR_REPEAT_INITIALIZE = 100002,
	ACL_ERROR_RT_PARAM_INVALID = 107000,
	ACL_ERROR_RT_INVALID_DEVICEID = 107001,
	ACL_ERROR_RT_CONTEXT_NULL = 107002,
	ACL_ERROR_RT_STREAM_CONTEXT = 107003,
	ACL_ERROR_RT_STREAM_NO_CB_REG = 107015,
	ACL_ERROR_RT_STREAM_CAPTURED = 107027,
	ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT = 107030,
	ACL_ERROR_RT_STREAM_SYNC_TIMEOUT = 507046,
	ACL_ERROR_RT_EVENT_SYNC_TIMEOUT = 507047,
	ACL_ERROR_RT_FEATURE_NOT_SUPPORT = 207000,
	ACL_ERROR_RT_MEMORY_ALLOCATION = 207001,
	ACL_ERROR_INTERNAL_ERROR = 500000,
};
enum { ACL_EVENT_SYNC = 1, ACL_EVENT_PROGRESS = 2, ACL_EVENT_TIME_LINE = 8 };
enum { ACL_EVENT_NOT_READY, ACL_EVENT_COMPLETE };
enum { ACL_STREAM_COMPLETE, ACL_STREAM_NOT_READY };
enum { ACL_STREAM_PERSISTENT = 4 };
enum { ACL_COPY_H2H, ACL_COPY_H2D, ACL_COPY_D2H, ACL_COPY_D2D, ACL_COPY_DEFAULT };
enum { ACL_CAPTURE_GLOBAL, ACL_CAPTURE_THREAD_LOCAL, ACL_CAPTURE_RELAXED };
enum { ACL_WAIT_GEQ, ACL_WAIT_EQ, ACL_WAIT_AND, ACL_WAIT_NOR };
enum { ACL_CALLBACK_NO_BLOCK, ACL_CALLBACK_BLOCK };

/* clang-format off */
#define ACL_DEVICE_API(X) \
	X(aclInit, (const char *config)) \
	X(aclFinalize, (void)) \
	X(aclrtGetDeviceCount, (uint32_t *n)) \
	X(aclrtSetDevice, (int32_t device)) \
	X(aclrtGetDevice, (int32_t *device)) \
	X(aclrtResetDevice, (int32_t device)) \
	X(aclrtResetDeviceForce, (int32_t device)) \
	X(aclrtDeviceGetPCIBusId, (int32_t device, char *id, int32_t size)) \
	X(aclrtCreateContext, (aclrtContext *context, int32_t device)) \
	X(aclrtDestroyContext, (aclrtContext context)) \
	X(aclrtSetCurrentContext, (aclrtContext context)) \
	X(aclrtGetCurrentContext, (aclrtContext *context)) \
	X(aclrtCtxGetCurrentDefaultStream, (aclrtStream *stream)) \
	X(aclrtSynchronizeDevice, (void)) \
	X(aclrtSynchronizeDeviceWithTimeout, (int32_t timeout)) \
	X(aclrtPeekAtLastError, (int level)) \
	X(aclrtGetLastError, (int level))

#define ACL_STREAM_API(X) \
	X(aclrtCreateStream, (aclrtStream *stream)) \
	X(aclrtCreateStreamWithConfig, (aclrtStream *stream, uint32_t priority, uint32_t flags)) \
	X(aclrtDestroyStream, (aclrtStream stream)) \
	X(aclrtDestroyStreamForce, (aclrtStream stream)) \
	X(aclrtStreamAbort, (aclrtStream stream)) \
	X(aclrtStreamGetFlags, (aclrtStream stream, uint32_t *flags)) \
	X(aclrtStreamQuery, (aclrtStream stream, int *status)) \
	X(aclrtSynchronizeStream, (aclrtStream stream)) \
	X(aclrtSynchronizeStreamWithTimeout, (aclrtStream stream, int32_t timeout)) \
	X(aclrtStreamWaitEvent, (aclrtStream stream, aclrtEvent event)) \
	X(aclrtValueWrite, (void *p, uint64_t value, uint32_t flags, aclrtStream stream)) \
	X(aclrtValueWait, (void *p, uint64_t value, uint32_t flags, aclrtStream stream)) \
	X(aclrtLaunchHostFunc, (aclrtStream stream, aclrtCallback fn, void *arg)) \
	X(aclrtLaunchCallback, (aclrtCallback fn, void *arg, int block, aclrtStream stream)) \
	X(aclrtSubscribeReport, (uint64_t thread, aclrtStream stream)) \
	X(aclrtUnSubscribeReport, (uint64_t thread, aclrtStream stream)) \
	X(aclrtProcessReport, (int32_t timeout)) \
	X(aclrtCreateEvent, (aclrtEvent *event)) \
	X(aclrtCreateEventWithFlag, (aclrtEvent *event, uint32_t flags)) \
	X(aclrtCreateEventExWithFlag, (aclrtEvent *event, uint32_t flags)) \
	X(aclrtDestroyEvent, (aclrtEvent event)) \
	X(aclrtRecordEvent, (aclrtEvent event, aclrtStream stream)) \
	X(aclrtQueryEventStatus, (aclrtEvent event, int *status)) \
	X(aclrtSynchronizeEvent, (aclrtEvent event)) \
	X(aclrtSynchronizeEventWithTimeout, (aclrtEvent event, int32_t timeout)) \
	X(aclrtEventElapsedTime, (float *ms, aclrtEvent start, aclrtEvent end)) \
	X(aclmdlRICaptureBegin, (aclrtStream stream, int mode)) \
	X(aclmdlRICaptureEnd, (aclrtStream stream, aclmdlRI *model)) \
	X(aclmdlRICaptureGetInfo, (aclrtStream stream, int *status, aclmdlRI *model)) \
	X(aclmdlRICaptureThreadExchangeMode, (int *mode)) \
	X(aclmdlRIExecuteAsync, (aclmdlRI model, aclrtStream stream)) \
	X(aclmdlRIExecute, (aclmdlRI model, int32_t timeout)) \
	X(aclmdlRIDestroy, (aclmdlRI model))

#define ACL_MEMORY_API(X) \
	X(aclrtMalloc, (void **p, size_t size, int policy)) \
	X(aclrtFree, (void *p)) \
	X(aclrtMallocHost, (void **p, size_t size)) \
	X(aclrtFreeHost, (void *p)) \
	X(aclrtHostRegister, (void *p, uint64_t size, int type, void **device)) \
	X(aclrtHostUnregister, (void *p)) \
	X(aclrtHostGetDevicePointer, (void *p, void **device, uint32_t flags)) \
	X(aclrtMemcpy, (void *dst, size_t room, const void *src, size_t n, int kind)) \
	X(aclrtMemcpyAsync, (void *dst, size_t room, const void *src, size_t n, int kind, aclrtStream stream)) \
	X(aclrtMemset, (void *dst, size_t room, int32_t value, size_t n)) \
	X(aclrtMemsetAsync, (void *dst, size_t room, int32_t value, size_t n, aclrtStream stream)) \
	X(aclrtMemsetD32Async, (void *dst, size_t room, uint32_t value, size_t n, aclrtStream stream)) \
	X(aclrtBinaryLoadFromData, (const void *data, size_t size, const void *options, aclrtBinHandle *binary)) \
	X(aclrtBinaryUnLoad, (aclrtBinHandle binary)) \
	X(aclrtBinaryGetFunction, (aclrtBinHandle binary, const char *name, aclrtFuncHandle *f)) \
	X(aclrtLaunchKernelWithArgsArray, (void *f, uint32_t blocks, aclrtStream stream, void *cfg, void **args)) \
	X(aclrtLaunchSIMTKernelWithArgsArray, (void *f, acl_dim3 grid, acl_dim3 block, size_t ub, aclrtStream stream, void *cfg, void **args))

/* Two calls for each operator. */
#define ACL_OPERATORS(X) \
	X(aclnnInplaceZeroGetWorkspaceSize, (aclTensor *self, uint64_t *size, aclOpExecutor **executor)) \
	X(aclnnInplaceZero, (void *workspace, uint64_t size, aclOpExecutor *executor, aclrtStream stream)) \
	X(aclnnInplaceOneGetWorkspaceSize, (aclTensor *self, uint64_t *size, aclOpExecutor **executor)) \
	X(aclnnInplaceOne, (void *workspace, uint64_t size, aclOpExecutor *executor, aclrtStream stream)) \
	X(aclDestroyTensor, (const aclTensor *tensor))
/* clang-format on */
#define ACL_API(X) ACL_DEVICE_API(X) ACL_STREAM_API(X) ACL_MEMORY_API(X)

#ifndef ACL_NO_LINK
#define ACL_DECLARE(symbol, params) ACL_EXPORT aclError symbol params;
ACL_API(ACL_DECLARE)
ACL_OPERATORS(ACL_DECLARE)
#undef ACL_DECLARE
ACL_EXPORT const char *aclrtGetSocName(void);
ACL_EXPORT aclTensor *aclCreateTensor(const int64_t *dims, uint64_t n, int type,
	const int64_t *stride, int64_t offset, int format, const int64_t *storage, uint64_t m,
	void *data);
#endif
