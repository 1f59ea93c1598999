/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the HIP runtime API that the tests use, as its binary interface has it: what the fake
 * runtime (fakes/hip) exports and what the programs call. No ROCm is needed.
 *
 * X(symbol, version of the symbol, parameters)
 * P(symbol, version, version of the variant for per-thread default streams, parameters, arguments)
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifndef HIP_EXPORT
#define HIP_EXPORT
#endif

typedef int hipError_t;
typedef int hipDevice_t;
typedef struct ihipStream_t *hipStream_t;
typedef struct ihipEvent_t *hipEvent_t;
typedef struct ihipModule_t *hipModule_t;
typedef struct ihipModuleSymbol_t *hipFunction_t;
typedef struct ihipGraph *hipGraph_t;
typedef struct hipGraphExec *hipGraphExec_t;
typedef struct hipGraphNode *hipGraphNode_t;
typedef void (*hipHostFn_t)(void *arg);
typedef void (*hipStreamCallback_t)(hipStream_t stream, hipError_t status, void *arg);
typedef struct {
	uint32_t x, y, z;
} hip_dim3;
typedef struct {
	char bytes[16];
} hip_uuid;

/* What the compiler puts in front of a program's code. */
struct hip_fat_binary {
	unsigned magic, version;
	const void *binary, *unused;
};
#define HIP_FAT_BINARY_MAGIC 0x48495046u

enum {
	HIP_SUCCESS = 0,
	HIP_INVALID_VALUE = 1,
	HIP_OUT_OF_MEMORY = 2,
	HIP_NOT_INITIALIZED = 3,
	HIP_INVALID_CONFIGURATION = 9,
	HIP_INVALID_FUNCTION = 98,
	HIP_INVALID_DEVICE = 101,
	HIP_INVALID_HANDLE = 400,
	HIP_NOT_READY = 600,
	HIP_ILLEGAL_ADDRESS = 700,
	HIP_NOT_SUPPORTED = 801,
	HIP_CAPTURE_UNSUPPORTED = 900,
	HIP_CAPTURE_INVALIDATED = 901,
	HIP_CAPTURE_IMPLICIT = 906,
	HIP_UNKNOWN = 999,
};
enum { HIP_STREAM_NON_BLOCKING = 1 };
enum { HIP_EVENT_DISABLE_TIMING = 2 };
enum { HIP_COPY_H2H, HIP_COPY_H2D, HIP_COPY_D2H, HIP_COPY_D2D, HIP_COPY_DEFAULT };
enum { HIP_WAIT_GTE, HIP_WAIT_EQ, HIP_WAIT_AND, HIP_WAIT_NOR };
enum { HIP_CAPTURE_GLOBAL, HIP_CAPTURE_THREAD_LOCAL, HIP_CAPTURE_RELAXED };
enum { HIP_PROC_DEFAULT, HIP_PROC_LEGACY, HIP_PROC_PER_THREAD };
enum { HIP_SIGNAL_MEMORY = 2 };
enum { HIP_ATTRIBUTE_WAIT_VALUE = 10013 };
#define HIP_STREAM_LEGACY     ((hipStream_t)1)
#define HIP_STREAM_PER_THREAD ((hipStream_t)2)
#define HIP_PARAM_BUFFER      ((void *)1)
#define HIP_PARAM_SIZE        ((void *)2)
#define HIP_PARAM_END         ((void *)3)

#define HIP_SHAPE unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz

/* clang-format off */
#define HIP_DEVICE_API(X, P) \
	X(hipInit, hip_4.2, (unsigned flags)) \
	X(hipDriverGetVersion, hip_4.2, (int *version)) \
	X(hipRuntimeGetVersion, hip_4.2, (int *version)) \
	X(hipGetDeviceCount, hip_4.2, (int *n)) \
	X(hipSetDevice, hip_4.2, (int device)) \
	X(hipGetDevice, hip_4.2, (int *device)) \
	X(hipDeviceGetName, hip_4.2, (char *name, int size, hipDevice_t device)) \
	X(hipDeviceGetPCIBusId, hip_4.2, (char *id, int size, int device)) \
	X(hipDeviceGetUuid, hip_5.1, (hip_uuid *uuid, hipDevice_t device)) \
	X(hipDeviceGetAttribute, hip_4.2, (int *value, int which, int device)) \
	X(hipDeviceGetStreamPriorityRange, hip_4.2, (int *least, int *greatest)) \
	X(hipDeviceSynchronize, hip_4.2, (void)) \
	X(hipDeviceReset, hip_4.2, (void)) \
	X(hipGetLastError, hip_4.2, (void)) \
	X(hipPeekAtLastError, hip_4.2, (void)) \
	X(hipExtGetLastError, hip_6.0, (void)) \
	X(hipGetProcAddress, hip_6.1, (const char *name, void **fn, int version, uint64_t flags, int *status)) \
	X(hipGetDriverEntryPoint, hip_7.1, (const char *name, void **fn, unsigned long long flags, int *status)) \
	X(hipGetDriverEntryPoint_spt, hip_7.1, (const char *name, void **fn, unsigned long long flags, int *status))

#define HIP_MEMORY_API(X, P) \
	X(hipMalloc, hip_4.2, (void **p, size_t size)) \
	X(hipFree, hip_4.2, (void *p)) \
	X(hipExtMallocWithFlags, hip_4.2, (void **p, size_t size, unsigned flags)) \
	X(hipHostMalloc, hip_4.2, (void **p, size_t size, unsigned flags)) \
	X(hipHostFree, hip_4.2, (void *p)) \
	X(hipHostRegister, hip_4.2, (void *p, size_t size, unsigned flags)) \
	X(hipHostUnregister, hip_4.2, (void *p)) \
	X(hipHostGetDevicePointer, hip_4.2, (void **d, void *p, unsigned flags)) \
	X(hipMallocAsync, hip_5.1, (void **p, size_t size, hipStream_t stream)) \
	X(hipFreeAsync, hip_5.1, (void *p, hipStream_t stream)) \
	P(hipMemcpy, hip_4.2, hip_5.2, (void *dst, const void *src, size_t size, int kind), (dst, src, size, kind)) \
	P(hipMemcpyAsync, hip_4.2, hip_5.2, (void *dst, const void *src, size_t size, int kind, hipStream_t stream), (dst, src, size, kind, stream)) \
	X(hipMemcpyWithStream, hip_4.2, (void *dst, const void *src, size_t size, int kind, hipStream_t stream)) \
	X(hipMemcpyHtoD, hip_4.2, (void *dst, void *src, size_t size)) \
	X(hipMemcpyDtoH, hip_4.2, (void *dst, void *src, size_t size)) \
	X(hipMemcpyDtoD, hip_4.2, (void *dst, void *src, size_t size)) \
	X(hipMemcpyHtoDAsync, hip_4.2, (void *dst, void *src, size_t size, hipStream_t stream)) \
	X(hipMemcpyDtoHAsync, hip_4.2, (void *dst, void *src, size_t size, hipStream_t stream)) \
	X(hipMemcpyDtoDAsync, hip_4.2, (void *dst, void *src, size_t size, hipStream_t stream)) \
	P(hipMemcpy2D, hip_4.2, hip_5.2, (void *dst, size_t to, const void *src, size_t from, size_t width, size_t height, int kind), (dst, to, src, from, width, height, kind)) \
	P(hipMemcpy2DAsync, hip_4.2, hip_5.3, (void *dst, size_t to, const void *src, size_t from, size_t width, size_t height, int kind, hipStream_t stream), (dst, to, src, from, width, height, kind, stream)) \
	P(hipMemset, hip_4.2, hip_5.2, (void *dst, int value, size_t size), (dst, value, size)) \
	P(hipMemsetAsync, hip_4.2, hip_5.3, (void *dst, int value, size_t size, hipStream_t stream), (dst, value, size, stream)) \
	X(hipMemsetD8, hip_4.2, (void *dst, unsigned char value, size_t n)) \
	X(hipMemsetD8Async, hip_4.2, (void *dst, unsigned char value, size_t n, hipStream_t stream)) \
	X(hipMemsetD32, hip_4.2, (void *dst, int value, size_t n)) \
	X(hipMemsetD32Async, hip_4.2, (void *dst, int value, size_t n, hipStream_t stream))

#define HIP_STREAM_API(X, P) \
	X(hipStreamCreate, hip_4.2, (hipStream_t *stream)) \
	X(hipStreamCreateWithFlags, hip_4.2, (hipStream_t *stream, unsigned flags)) \
	X(hipStreamCreateWithPriority, hip_4.2, (hipStream_t *stream, unsigned flags, int priority)) \
	X(hipStreamDestroy, hip_4.2, (hipStream_t stream)) \
	P(hipStreamQuery, hip_4.2, hip_5.2, (hipStream_t stream), (stream)) \
	P(hipStreamSynchronize, hip_4.2, hip_5.2, (hipStream_t stream), (stream)) \
	P(hipStreamWaitEvent, hip_4.2, hip_5.2, (hipStream_t stream, hipEvent_t event, unsigned flags), (stream, event, flags)) \
	P(hipStreamGetFlags, hip_4.2, hip_5.2, (hipStream_t stream, unsigned *flags), (stream, flags)) \
	P(hipStreamGetPriority, hip_4.2, hip_5.2, (hipStream_t stream, int *priority), (stream, priority)) \
	X(hipStreamGetDevice, hip_4.2, (hipStream_t stream, hipDevice_t *device)) \
	P(hipStreamAddCallback, hip_4.2, hip_5.3, (hipStream_t stream, hipStreamCallback_t fn, void *arg, unsigned flags), (stream, fn, arg, flags)) \
	P(hipLaunchHostFunc, hip_5.3, hip_5.3, (hipStream_t stream, hipHostFn_t fn, void *arg), (stream, fn, arg)) \
	X(hipStreamWaitValue32, hip_4.4, (hipStream_t stream, void *p, uint32_t value, unsigned flags, uint32_t mask)) \
	X(hipStreamWaitValue64, hip_4.4, (hipStream_t stream, void *p, uint64_t value, unsigned flags, uint64_t mask)) \
	X(hipStreamWriteValue32, hip_4.4, (hipStream_t stream, void *p, uint32_t value, unsigned flags)) \
	X(hipStreamWriteValue64, hip_4.4, (hipStream_t stream, void *p, uint64_t value, unsigned flags)) \
	X(hipEventCreate, hip_4.2, (hipEvent_t *event)) \
	X(hipEventCreateWithFlags, hip_4.2, (hipEvent_t *event, unsigned flags)) \
	X(hipEventDestroy, hip_4.2, (hipEvent_t event)) \
	X(hipEventQuery, hip_4.2, (hipEvent_t event)) \
	X(hipEventSynchronize, hip_4.2, (hipEvent_t event)) \
	X(hipEventElapsedTime, hip_4.2, (float *ms, hipEvent_t start, hipEvent_t stop)) \
	P(hipEventRecord, hip_4.2, hip_5.2, (hipEvent_t event, hipStream_t stream), (event, stream))

#define HIP_GRAPH_API(X, P) \
	X(hipThreadExchangeStreamCaptureMode, hip_5.0, (int *mode)) \
	P(hipStreamBeginCapture, hip_4.3, hip_5.3, (hipStream_t stream, int mode), (stream, mode)) \
	P(hipStreamEndCapture, hip_4.3, hip_5.3, (hipStream_t stream, hipGraph_t *graph), (stream, graph)) \
	P(hipStreamIsCapturing, hip_4.3, hip_5.3, (hipStream_t stream, int *status), (stream, status)) \
	P(hipStreamGetCaptureInfo_v2, hip_4.5, hip_5.3, (hipStream_t stream, int *status, unsigned long long *id, hipGraph_t *graph, const hipGraphNode_t **deps, size_t *n), (stream, status, id, graph, deps, n)) \
	X(hipGraphCreate, hip_4.3, (hipGraph_t *graph, unsigned flags)) \
	X(hipGraphDestroy, hip_4.3, (hipGraph_t graph)) \
	X(hipGraphClone, hip_4.5, (hipGraph_t *clone, hipGraph_t graph)) \
	X(hipGraphGetNodes, hip_4.4, (hipGraph_t graph, hipGraphNode_t *nodes, size_t *n)) \
	X(hipGraphAddChildGraphNode, hip_4.5, (hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *deps, size_t n, hipGraph_t child)) \
	X(hipGraphInstantiate, hip_4.3, (hipGraphExec_t *exec, hipGraph_t graph, hipGraphNode_t *node, char *log, size_t size)) \
	X(hipGraphInstantiateWithFlags, hip_4.5, (hipGraphExec_t *exec, hipGraph_t graph, unsigned long long flags)) \
	X(hipGraphExecUpdate, hip_4.5, (hipGraphExec_t exec, hipGraph_t graph, hipGraphNode_t *node, int *result)) \
	X(hipGraphExecDestroy, hip_4.3, (hipGraphExec_t exec)) \
	X(hipGraphUpload, hip_5.3, (hipGraphExec_t exec, hipStream_t stream)) \
	P(hipGraphLaunch, hip_4.3, hip_5.3, (hipGraphExec_t exec, hipStream_t stream), (exec, stream))

#define HIP_CODE_API(X, P) \
	X(hipModuleLoadData, hip_4.2, (hipModule_t *module, const void *image)) \
	X(hipModuleUnload, hip_4.2, (hipModule_t module)) \
	X(hipModuleGetFunction, hip_4.2, (hipFunction_t *f, hipModule_t module, const char *name)) \
	X(hipModuleLaunchKernel, hip_4.2, (hipFunction_t f, HIP_SHAPE, unsigned shared, hipStream_t stream, void **params, void **extra)) \
	X(hipExtModuleLaunchKernel, hip_4.2, (hipFunction_t f, HIP_SHAPE, size_t shared, hipStream_t stream, void **params, void **extra, hipEvent_t start, hipEvent_t stop, unsigned flags)) \
	X(hipModuleLaunchCooperativeKernel, hip_5.5, (hipFunction_t f, HIP_SHAPE, unsigned shared, hipStream_t stream, void **params)) \
	P(hipLaunchKernel, hip_4.2, hip_5.2, (const void *fn, hip_dim3 grid, hip_dim3 block, void **args, size_t shared, hipStream_t stream), (fn, grid, block, args, shared, stream)) \
	X(hipExtLaunchKernel, hip_4.2, (const void *fn, hip_dim3 grid, hip_dim3 block, void **args, size_t shared, hipStream_t stream, hipEvent_t start, hipEvent_t stop, int flags)) \
	P(hipLaunchCooperativeKernel, hip_4.2, hip_5.2, (const void *fn, hip_dim3 grid, hip_dim3 block, void **args, unsigned shared, hipStream_t stream), (fn, grid, block, args, shared, stream)) \
	X(hipConfigureCall, hip_4.2, (hip_dim3 grid, hip_dim3 block, size_t shared, hipStream_t stream)) \
	X(hipSetupArgument, hip_4.2, (const void *arg, size_t size, size_t offset)) \
	X(hipLaunchByPtr, hip_4.2, (const void *fn)) \
	X(__hipPushCallConfiguration, hip_4.2, (hip_dim3 grid, hip_dim3 block, size_t shared, hipStream_t stream)) \
	X(__hipPopCallConfiguration, hip_4.2, (hip_dim3 *grid, hip_dim3 *block, size_t *shared, hipStream_t *stream))

#define HIP_API(X, P) HIP_DEVICE_API(X, P) HIP_MEMORY_API(X, P) HIP_STREAM_API(X, P) HIP_GRAPH_API(X, P) HIP_CODE_API(X, P)
/* clang-format on */

#ifndef HIP_NO_LINK
#define HIP_DECLARE(symbol, node, params) HIP_EXPORT hipError_t symbol params;
#define HIP_DECLARE_BOTH(symbol, node, spt, params, args) \
	HIP_EXPORT hipError_t symbol params;              \
	HIP_EXPORT hipError_t symbol##_spt params;
HIP_API(HIP_DECLARE, HIP_DECLARE_BOTH)
#undef HIP_DECLARE
#undef HIP_DECLARE_BOTH
/* hip_4.2; what the compiler calls before main(). */
HIP_EXPORT void **__hipRegisterFatBinary(const void *fat);
HIP_EXPORT void __hipUnregisterFatBinary(void **module);
HIP_EXPORT void __hipRegisterFunction(void **module, const void *host, char *symbol,
	const char *name, unsigned threads, void *tid, void *bid, void *block, void *grid,
	int *warp);
/* hip_4.2 */
HIP_EXPORT const char *hipGetErrorName(hipError_t error);
HIP_EXPORT const char *hipGetErrorString(hipError_t error);
#endif
