/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the CUDA driver API that the tests use, as its binary interface has it: what the fake
 * driver (fakes/cuda) exports and what the programs call. No toolkit is needed.
 *
 * X(symbol, name for cuGetProcAddress, version since which that name means this symbol, parameters)
 * P(..., suffix of the variant for per-thread default streams, arguments)
 */
#pragma once
#include "api/cuda/core/driver.h"
#include "cuda_vmm.h"

typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUlib_st *CUlibrary;
typedef struct CUkern_st *CUkernel;
typedef struct CUlinkState_st *CUlinkState;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgreenCtx_st *CUgreenCtx;
typedef struct CUdevResourceDesc_st *CUdevResourceDesc;
typedef void (*CUhostFn)(void *arg);
typedef struct CUuserObject_st *CUuserObject;
typedef void (*CUstreamCallback)(CUstream stream, fm_cu_result status, void *arg);

enum {
	CU_OUT_OF_MEMORY = 2,
	CU_NO_DEVICE = 100,
	CU_INVALID_DEVICE = 101,
	CU_INVALID_IMAGE = 200,
	CU_INVALID_CONTEXT = 201,
	CU_NO_BINARY = 209,
	CU_ECC_UNCORRECTABLE = 214,
	CU_INVALID_PTX = 218,
	CU_UNSUPPORTED_PTX = 222,
	CU_FILE_NOT_FOUND = 301,
	CU_INVALID_HANDLE = 400,
	CU_NOT_FOUND = 500,
	CU_ILLEGAL_ADDRESS = 700,
	CU_OUT_OF_RESOURCES = 701, /* a launch, also one whose parameters are of another size */
	CU_PEER_ACCESS_ALREADY_ENABLED = 704,
	CU_CONTEXT_IS_DESTROYED = 709,
	CU_ALREADY_REGISTERED = 712,
	CU_NOT_REGISTERED = 713,
	CU_LAUNCH_FAILED = 719,
	CU_NOT_PERMITTED = 800,
	CU_CAPTURE_UNSUPPORTED = 900,
	CU_CAPTURE_INVALIDATED = 901,
	CU_CAPTURE_MERGE = 902,
	CU_CAPTURE_UNMATCHED = 903,
	CU_CAPTURE_UNJOINED = 904,
	CU_CAPTURE_ISOLATION = 905,
	CU_CAPTURE_IMPLICIT = 906,
	CU_CAPTURED_EVENT = 907,
	CU_CAPTURE_WRONG_THREAD = 908,
	CU_UPDATE_FAILURE = 910,
	CU_INVALID_RESOURCE_TYPE = 914,
	CU_INVALID_RESOURCE_CONFIGURATION = 915,
};
enum { CU_STREAM_NON_BLOCKING = 1 };
enum { CU_EVENT_DISABLE_TIMING = 2, CU_EVENT_EXTERNAL = 1 };
enum { CU_CAPTURE_GLOBAL, CU_CAPTURE_THREAD_LOCAL, CU_CAPTURE_RELAXED };
enum { CU_CAPTURE_ACTIVE = 1, CU_CAPTURE_STATUS_INVALIDATED };
enum { CU_WAIT_GEQ, CU_WAIT_EQ, CU_WAIT_AND, CU_WAIT_NOR };
enum { CU_PROC_LEGACY = 1, CU_PROC_PER_THREAD = 2 };
enum { CU_MEMORY_HOST = 1, CU_MEMORY_DEVICE, CU_MEMORY_ARRAY, CU_MEMORY_UNIFIED };
/* An edge of a graph; programmatic, from a kernel: both 1. */
struct cu_edge {
	unsigned char from_port, to_port, type, reserved[5];
};

struct cu_fill_node { /* CUDA_MEMSET_NODE_PARAMS */
	CUdeviceptr dst;
	size_t pitch;
	unsigned value, width; /* of an element, in bytes */
	size_t n, height;
};

struct cu_host_node { /* CUDA_HOST_NODE_PARAMS */
	CUhostFn fn;
	void *arg;
};

struct cu_place_3d {
	size_t x, y, z, lod;
	int type; /* CU_MEMORY_* */
	void *host;
	CUdeviceptr device;
	void *array, *reserved;
	size_t pitch, height;
};

struct cu_copy_3d { /* CUDA_MEMCPY3D */
	struct cu_place_3d src, dst;
	size_t width, height, depth;
};

enum {
	CU_LAUNCH_COOPERATIVE = 2,
	CU_LAUNCH_CLUSTER = 4,
	CU_LAUNCH_SERIALIZATION = 6,
	CU_LAUNCH_EVENT = 7,
	CU_LAUNCH_BEGUN_EVENT = 12
};

struct cu_launch_attribute {
	int id; /* CU_LAUNCH_* */
	char pad[4];
	union {
		char bytes[64];
		int cooperative, serialization; /* programmatic stream serialization */
		unsigned cluster[3];
		CUevent event;
	} value;
};

struct cu_launch_config {
	unsigned grid[3], block[3], shared;
	CUstream stream;
	struct cu_launch_attribute *attrs;
	unsigned attr_count;
};

struct cu_launch_params {
	CUfunction f;
	unsigned grid[3], block[3], shared;
	CUstream stream;
	void **params;
};

/* Before CUDA 12 it ended with `extra`. */
struct cu_kernel_node {
	CUfunction f;
	unsigned grid[3], block[3], shared;
	void **params, **extra;
	CUkernel kernel; /* if there is no function */
	CUcontext ctx;
};

/* CUgraphNodeParams */
struct cu_node {
	int type, pad[3];
	union {
		struct cu_kernel_node kernel; /* type 0 */
		CUgraph graph;                /* type 4 */
		CUevent event;                /* type 7 */
		struct cu_alloc_node alloc;   /* type 10 */
		CUdeviceptr freed;            /* type 11 */
		uint64_t room[29];
	};
	uint64_t pad2;
};

struct cu_words_node { /* CUDA_BATCH_MEM_OP_NODE_PARAMS */
	CUcontext ctx;
	unsigned n;
	union fm_cu_mem_op *op;
	unsigned flags;
};

struct cu_instantiate {
	uint64_t flags;
	CUstream upload;
	CUgraphNode failed;
	int result;
};

struct cu_update {
	int result;
	CUgraphNode failed, from;
};

struct cu_copy_attributes {
	int order; /* 1: the stream's */
	struct cu_location src, dst;
	unsigned flags;
};

/* CUdevResource: of multiprocessors. */
enum { CU_RESOURCE_SM = 1, CU_GREEN_DEFAULT_STREAM = 1 };
struct cu_resource {
	int type;
	unsigned char pad[92];
	union {
		struct {
			unsigned count, least, aligned;
		} sm;
		unsigned char bytes[48];
	};
};

struct cu_copy_2d {
	size_t src_x, src_y;
	int src_type;
	const void *src_host;
	CUdeviceptr src_device;
	void *src_array;
	size_t src_pitch;
	size_t dst_x, dst_y;
	int dst_type;
	void *dst_host;
	CUdeviceptr dst_device;
	void *dst_array;
	size_t dst_pitch;
	size_t width, height;
};

#define CU_LAUNCH_PARAMS                                                               \
	CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, \
		unsigned bz, unsigned shared, CUstream stream, void **params

/* clang-format off */
#define CUDA_DEVICE_API(X, P) \
	X(cuInit, cuInit, 2000, (unsigned flags)) \
	X(cuDriverGetVersion, cuDriverGetVersion, 2020, (int *version)) \
	X(cuGetErrorName, cuGetErrorName, 6000, (fm_cu_result e, const char **name)) \
	X(cuGetErrorString, cuGetErrorString, 6000, (fm_cu_result e, const char **text)) \
	X(cuDeviceGet, cuDeviceGet, 2000, (CUdevice *dev, int ordinal)) \
	X(cuDeviceGetCount, cuDeviceGetCount, 2000, (int *n)) \
	X(cuDeviceGetName, cuDeviceGetName, 2000, (char *name, int size, CUdevice dev)) \
	X(cuDeviceGetUuid, cuDeviceGetUuid, 9020, (struct fm_cu_uuid *uuid, CUdevice dev)) \
	X(cuDeviceGetUuid_v2, cuDeviceGetUuid, 11040, (struct fm_cu_uuid *uuid, CUdevice dev)) \
	X(cuDeviceTotalMem_v2, cuDeviceTotalMem, 3020, (size_t *bytes, CUdevice dev)) \
	X(cuDeviceGetAttribute, cuDeviceGetAttribute, 2000, (int *value, int which, CUdevice dev)) \
	X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000, (CUcontext *ctx, CUdevice dev)) \
	X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease, 7000, (CUdevice dev)) \
	X(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease, 11000, (CUdevice dev)) \
	X(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset, 7000, (CUdevice dev)) \
	X(cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset, 11000, (CUdevice dev)) \
	X(cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState, 7000, (CUdevice dev, unsigned *flags, int *active)) \
	X(cuCtxCreate_v2, cuCtxCreate, 3020, (CUcontext *ctx, unsigned flags, CUdevice dev)) \
	X(cuCtxCreate_v3, cuCtxCreate, 11040, (CUcontext *ctx, void *affinity, int n, unsigned flags, CUdevice dev)) \
	X(cuCtxCreate_v4, cuCtxCreate, 12050, (CUcontext *ctx, void *how, unsigned flags, CUdevice dev)) \
	X(cuCtxDestroy_v2, cuCtxDestroy, 4000, (CUcontext ctx)) \
	X(cuCtxSetCurrent, cuCtxSetCurrent, 4000, (CUcontext ctx)) \
	X(cuCtxGetCurrent, cuCtxGetCurrent, 4000, (CUcontext *ctx)) \
	X(cuCtxPushCurrent_v2, cuCtxPushCurrent, 4000, (CUcontext ctx)) \
	X(cuCtxPopCurrent_v2, cuCtxPopCurrent, 4000, (CUcontext *ctx)) \
	X(cuCtxGetDevice, cuCtxGetDevice, 2000, (CUdevice *dev)) \
	X(cuCtxGetDevice_v2, cuCtxGetDevice, 13000, (CUdevice *dev, CUcontext ctx)) \
	X(cuCtxGetApiVersion, cuCtxGetApiVersion, 3020, (CUcontext ctx, unsigned *version)) \
	X(cuCtxGetStreamPriorityRange, cuCtxGetStreamPriorityRange, 5050, (int *least, int *greatest)) \
	X(cuCtxSynchronize, cuCtxSynchronize, 2000, (void)) \
	X(cuCtxSynchronize_v2, cuCtxSynchronize, 13000, (CUcontext ctx)) \
	X(cuDeviceCanAccessPeer, cuDeviceCanAccessPeer, 4000, (int *can, CUdevice dev, CUdevice peer)) \
	X(cuCtxEnablePeerAccess, cuCtxEnablePeerAccess, 4000, (CUcontext peer, unsigned flags)) \
	X(cuCtxSetLimit, cuCtxSetLimit, 3010, (int limit, size_t value)) \
	X(cuCtxGetLimit, cuCtxGetLimit, 3010, (size_t *value, int limit)) \
	X(cuDeviceGetDevResource, cuDeviceGetDevResource, 12040, (CUdevice dev, struct cu_resource *r, int type)) \
	X(cuDevSmResourceSplitByCount, cuDevSmResourceSplitByCount, 12040, (struct cu_resource *parts, unsigned *n, const struct cu_resource *whole, struct cu_resource *rest, unsigned flags, unsigned least)) \
	X(cuDevResourceGenerateDesc, cuDevResourceGenerateDesc, 12040, (CUdevResourceDesc *desc, struct cu_resource *r, unsigned n)) \
	X(cuCtxGetDevResource, cuCtxGetDevResource, 12040, (CUcontext ctx, struct cu_resource *r, int type)) \
	X(cuGreenCtxGetDevResource, cuGreenCtxGetDevResource, 12040, (CUgreenCtx green, struct cu_resource *r, int type)) \
	X(cuGreenCtxCreate, cuGreenCtxCreate, 12040, (CUgreenCtx *green, CUdevResourceDesc desc, CUdevice dev, unsigned flags)) \
	X(cuGreenCtxDestroy, cuGreenCtxDestroy, 12040, (CUgreenCtx green)) \
	X(cuCtxFromGreenCtx, cuCtxFromGreenCtx, 12040, (CUcontext *ctx, CUgreenCtx green)) \
	X(cuGreenCtxStreamCreate, cuGreenCtxStreamCreate, 12050, (CUstream *stream, CUgreenCtx green, unsigned flags, int priority)) \
	X(cuStreamGetGreenCtx, cuStreamGetGreenCtx, 12040, (CUstream stream, CUgreenCtx *green))

#define CUDA_MEMORY_API(X, P) \
	X(cuMemGetInfo_v2, cuMemGetInfo, 3020, (size_t *left, size_t *total)) \
	X(cuMemAlloc_v2, cuMemAlloc, 3020, (CUdeviceptr *d, size_t size)) \
	X(cuMemFree_v2, cuMemFree, 3020, (CUdeviceptr d)) \
	X(cuMemHostAlloc, cuMemHostAlloc, 2020, (void **p, size_t size, unsigned flags)) \
	X(cuMemAllocHost_v2, cuMemAllocHost, 3020, (void **p, size_t size)) \
	X(cuMemFreeHost, cuMemFreeHost, 2000, (void *p)) \
	X(cuMemHostRegister_v2, cuMemHostRegister, 6050, (void *p, size_t size, unsigned flags)) \
	X(cuMemHostUnregister, cuMemHostUnregister, 4000, (void *p)) \
	X(cuMemHostGetDevicePointer_v2, cuMemHostGetDevicePointer, 3020, (CUdeviceptr *d, void *p, unsigned flags)) \
	P(cuMemAllocAsync, cuMemAllocAsync, 11020, _ptsz, (CUdeviceptr *d, size_t size, CUstream stream), (d, size, stream)) \
	P(cuMemFreeAsync, cuMemFreeAsync, 11020, _ptsz, (CUdeviceptr d, CUstream stream), (d, stream)) \
	P(cuMemcpy, cuMemcpy, 4000, _ptds, (CUdeviceptr dst, CUdeviceptr src, size_t size), (dst, src, size)) \
	P(cuMemcpyPeer, cuMemcpyPeer, 4000, _ptds, (CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx, size_t size), (dst, dst_ctx, src, src_ctx, size)) \
	P(cuMemcpyPeerAsync, cuMemcpyPeerAsync, 4000, _ptsz, (CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx, size_t size, CUstream stream), (dst, dst_ctx, src, src_ctx, size, stream)) \
	P(cuMemcpyHtoD_v2, cuMemcpyHtoD, 3020, _ptds, (CUdeviceptr dst, const void *src, size_t size), (dst, src, size)) \
	P(cuMemcpyDtoH_v2, cuMemcpyDtoH, 3020, _ptds, (void *dst, CUdeviceptr src, size_t size), (dst, src, size)) \
	P(cuMemcpyDtoD_v2, cuMemcpyDtoD, 3020, _ptds, (CUdeviceptr dst, CUdeviceptr src, size_t size), (dst, src, size)) \
	P(cuMemcpy2D_v2, cuMemcpy2D, 3020, _ptds, (const struct cu_copy_2d *copy), (copy)) \
	P(cuMemcpyAsync, cuMemcpyAsync, 4000, _ptsz, (CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream), (dst, src, size, stream)) \
	P(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync, 3020, _ptsz, (CUdeviceptr dst, const void *src, size_t size, CUstream stream), (dst, src, size, stream)) \
	P(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync, 3020, _ptsz, (void *dst, CUdeviceptr src, size_t size, CUstream stream), (dst, src, size, stream)) \
	P(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync, 3020, _ptsz, (CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream), (dst, src, size, stream)) \
	P(cuMemcpy3D_v2, cuMemcpy3D, 3020, _ptds, (const struct cu_copy_3d *copy), (copy)) \
	P(cuMemcpy2DAsync_v2, cuMemcpy2DAsync, 3020, _ptsz, (const struct cu_copy_2d *copy, CUstream stream), (copy, stream)) \
	P(cuMemcpy3DAsync_v2, cuMemcpy3DAsync, 3020, _ptsz, (const struct cu_copy_3d *copy, CUstream stream), (copy, stream)) \
	P(cuMemcpyBatchAsync, cuMemcpyBatchAsync, 12080, _ptsz, (CUdeviceptr *dst, CUdeviceptr *src, size_t *size, size_t n, struct cu_copy_attributes *attrs, size_t *attr_at, size_t attr_n, size_t *failed, CUstream stream), (dst, src, size, n, attrs, attr_at, attr_n, failed, stream)) \
	P(cuMemcpyBatchAsync_v2, cuMemcpyBatchAsync, 13000, _ptsz, (CUdeviceptr *dst, CUdeviceptr *src, size_t *size, size_t n, struct cu_copy_attributes *attrs, size_t *attr_at, size_t attr_n, CUstream stream), (dst, src, size, n, attrs, attr_at, attr_n, stream)) \
	P(cuMemsetD8_v2, cuMemsetD8, 3020, _ptds, (CUdeviceptr dst, unsigned char v, size_t n), (dst, v, n)) \
	P(cuMemsetD32_v2, cuMemsetD32, 3020, _ptds, (CUdeviceptr dst, unsigned v, size_t n), (dst, v, n)) \
	P(cuMemsetD8Async, cuMemsetD8Async, 3020, _ptsz, (CUdeviceptr dst, unsigned char v, size_t n, CUstream stream), (dst, v, n, stream)) \
	X(cuMemsetD8Async_v99, cuMemsetD8Async, 99000, (CUdeviceptr dst, unsigned char v, size_t n, unsigned flags, CUstream stream)) \
	P(cuMemsetD32Async, cuMemsetD32Async, 3020, _ptsz, (CUdeviceptr dst, unsigned v, size_t n, CUstream stream), (dst, v, n, stream))

#define CUDA_STREAM_API(X, P) \
	X(cuStreamCreate, cuStreamCreate, 2000, (CUstream *stream, unsigned flags)) \
	X(cuStreamCreateWithPriority, cuStreamCreateWithPriority, 5050, (CUstream *stream, unsigned flags, int priority)) \
	X(cuStreamDestroy_v2, cuStreamDestroy, 4000, (CUstream stream)) \
	P(cuStreamQuery, cuStreamQuery, 2000, _ptsz, (CUstream stream), (stream)) \
	P(cuStreamSynchronize, cuStreamSynchronize, 2000, _ptsz, (CUstream stream), (stream)) \
	P(cuStreamGetCtx, cuStreamGetCtx, 9020, _ptsz, (CUstream stream, CUcontext *ctx), (stream, ctx)) \
	P(cuStreamGetCtx_v2, cuStreamGetCtx, 12050, _ptsz, (CUstream stream, CUcontext *ctx, CUgreenCtx *green), (stream, ctx, green)) \
	P(cuStreamGetFlags, cuStreamGetFlags, 5050, _ptsz, (CUstream stream, unsigned *flags), (stream, flags)) \
	P(cuStreamGetId, cuStreamGetId, 12000, _ptsz, (CUstream stream, unsigned long long *id), (stream, id)) \
	P(cuStreamGetPriority, cuStreamGetPriority, 5050, _ptsz, (CUstream stream, int *priority), (stream, priority)) \
	P(cuStreamWaitEvent, cuStreamWaitEvent, 3020, _ptsz, (CUstream stream, CUevent event, unsigned flags), (stream, event, flags)) \
	P(cuStreamAddCallback, cuStreamAddCallback, 5000, _ptsz, (CUstream stream, CUstreamCallback fn, void *arg, unsigned flags), (stream, fn, arg, flags)) \
	P(cuLaunchHostFunc, cuLaunchHostFunc, 10000, _ptsz, (CUstream stream, CUhostFn fn, void *arg), (stream, fn, arg)) \
	P(cuStreamWaitValue32_v2, cuStreamWaitValue32, 11070, _ptsz, (CUstream stream, CUdeviceptr d, uint32_t v, unsigned flags), (stream, d, v, flags)) \
	P(cuStreamWaitValue64_v2, cuStreamWaitValue64, 11070, _ptsz, (CUstream stream, CUdeviceptr d, uint64_t v, unsigned flags), (stream, d, v, flags)) \
	P(cuStreamWriteValue32_v2, cuStreamWriteValue32, 11070, _ptsz, (CUstream stream, CUdeviceptr d, uint32_t v, unsigned flags), (stream, d, v, flags)) \
	P(cuStreamWriteValue64_v2, cuStreamWriteValue64, 11070, _ptsz, (CUstream stream, CUdeviceptr d, uint64_t v, unsigned flags), (stream, d, v, flags)) \
	P(cuStreamBatchMemOp_v2, cuStreamBatchMemOp, 11070, _ptsz, (CUstream stream, unsigned n, union fm_cu_mem_op *ops, unsigned flags), (stream, n, ops, flags)) \
	X(cuEventCreate, cuEventCreate, 2000, (CUevent *event, unsigned flags)) \
	X(cuEventDestroy_v2, cuEventDestroy, 4000, (CUevent event)) \
	X(cuEventQuery, cuEventQuery, 2000, (CUevent event)) \
	X(cuEventSynchronize, cuEventSynchronize, 2000, (CUevent event)) \
	X(cuEventElapsedTime, cuEventElapsedTime, 2000, (float *ms, CUevent start, CUevent end)) \
	X(cuEventElapsedTime_v2, cuEventElapsedTime, 12080, (float *ms, CUevent start, CUevent end)) \
	P(cuEventRecord, cuEventRecord, 2000, _ptsz, (CUevent event, CUstream stream), (event, stream)) \
	P(cuEventRecordWithFlags, cuEventRecordWithFlags, 11010, _ptsz, (CUevent event, CUstream stream, unsigned flags), (event, stream, flags))

#define CUDA_GRAPH_API(X, P) \
	X(cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, 10010, (int *mode)) \
	P(cuStreamBeginCapture_v2, cuStreamBeginCapture, 10010, _ptsz, (CUstream stream, int mode), (stream, mode)) \
	P(cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph, 12030, _ptsz, (CUstream stream, CUgraph graph, const CUgraphNode *deps, const void *edges, size_t n, int mode), (stream, graph, deps, edges, n, mode)) \
	P(cuStreamEndCapture, cuStreamEndCapture, 10000, _ptsz, (CUstream stream, CUgraph *graph), (stream, graph)) \
	P(cuStreamIsCapturing, cuStreamIsCapturing, 10000, _ptsz, (CUstream stream, int *status), (stream, status)) \
	P(cuStreamGetCaptureInfo_v2, cuStreamGetCaptureInfo, 11030, _ptsz, (CUstream stream, int *status, uint64_t *id, CUgraph *graph, const CUgraphNode **deps, size_t *n), (stream, status, id, graph, deps, n)) \
	P(cuStreamGetCaptureInfo_v3, cuStreamGetCaptureInfo, 12030, _ptsz, (CUstream stream, int *status, uint64_t *id, CUgraph *graph, const CUgraphNode **deps, const void **edges, size_t *n), (stream, status, id, graph, deps, edges, n)) \
	X(cuGraphCreate, cuGraphCreate, 10000, (CUgraph *graph, unsigned flags)) \
	X(cuGraphClone, cuGraphClone, 10000, (CUgraph *clone, CUgraph graph)) \
	X(cuGraphAddKernelNode_v2, cuGraphAddKernelNode, 12000, (CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n, const struct cu_kernel_node *kernel)) \
	X(cuGraphAddKernelNode, cuGraphAddKernelNode, 10000, (CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n, const struct cu_kernel_node *kernel)) \
	X(cuGraphAddNode, cuGraphAddNode, 12020, (CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n, struct cu_node *what)) \
	X(cuGraphAddNode_v2, cuGraphAddNode, 12030, (CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, const void *edges, size_t n, struct cu_node *what)) \
	X(cuGraphNodeGetType, cuGraphNodeGetType, 10000, (CUgraphNode node, int *type)) \
	X(cuGraphNodeFindInClone, cuGraphNodeFindInClone, 10000, (CUgraphNode *node, CUgraphNode was, CUgraph clone)) \
	X(cuGraphRemoveDependencies, cuGraphRemoveDependencies, 10000, (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t n)) \
	X(cuGraphAddDependencies_v2, cuGraphAddDependencies, 12030, (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, const struct cu_edge *edge, size_t n)) \
	X(cuGraphAddDependencies, cuGraphAddDependencies, 10000, (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t n)) \
	X(cuGraphNodeGetDependentNodes, cuGraphNodeGetDependentNodes, 10000, (CUgraphNode node, CUgraphNode *of, size_t *n)) \
	X(cuGraphDestroyNode, cuGraphDestroyNode, 10000, (CUgraphNode node)) \
	X(cuGraphNodeGetDependencies, cuGraphNodeGetDependencies, 10000, (CUgraphNode node, CUgraphNode *deps, size_t *n)) \
	X(cuGraphKernelNodeGetAttribute, cuGraphKernelNodeGetAttribute, 11000, (CUgraphNode node, int id, void *value)) \
	X(cuGraphExecBatchMemOpNodeSetParams, cuGraphExecBatchMemOpNodeSetParams, 11070, (CUgraphExec exec, CUgraphNode node, const struct cu_words_node *words)) \
	X(cuGraphExecMemcpyNodeSetParams, cuGraphExecMemcpyNodeSetParams, 10020, (CUgraphExec exec, CUgraphNode node, const struct cu_copy_3d *copy, CUcontext ctx)) \
	X(cuGraphExecMemsetNodeSetParams, cuGraphExecMemsetNodeSetParams, 10020, (CUgraphExec exec, CUgraphNode node, const struct cu_fill_node *fill, CUcontext ctx)) \
	X(cuGraphExecHostNodeSetParams, cuGraphExecHostNodeSetParams, 10020, (CUgraphExec exec, CUgraphNode node, const struct cu_host_node *host)) \
	X(cuGraphBatchMemOpNodeGetParams, cuGraphBatchMemOpNodeGetParams, 11070, (CUgraphNode node, struct cu_words_node *words)) \
	X(cuGraphNodeSetEnabled, cuGraphNodeSetEnabled, 11060, (CUgraphExec exec, CUgraphNode node, unsigned enabled)) \
	X(cuGraphKernelNodeGetParams, cuGraphKernelNodeGetParams, 10000, (CUgraphNode node, struct cu_kernel_node *kernel)) \
	X(cuGraphKernelNodeGetParams_v2, cuGraphKernelNodeGetParams, 12000, (CUgraphNode node, struct cu_kernel_node *kernel)) \
	X(cuGraphKernelNodeSetParams, cuGraphKernelNodeSetParams, 10000, (CUgraphNode node, const struct cu_kernel_node *kernel)) \
	X(cuGraphKernelNodeSetParams_v2, cuGraphKernelNodeSetParams, 12000, (CUgraphNode node, const struct cu_kernel_node *kernel)) \
	X(cuGraphNodeSetParams, cuGraphNodeSetParams, 12020, (CUgraphNode node, struct cu_node *what)) \
	X(cuGraphExecKernelNodeSetParams, cuGraphExecKernelNodeSetParams, 10010, (CUgraphExec exec, CUgraphNode node, const struct cu_kernel_node *kernel)) \
	X(cuGraphExecKernelNodeSetParams_v2, cuGraphExecKernelNodeSetParams, 12000, (CUgraphExec exec, CUgraphNode node, const struct cu_kernel_node *kernel)) \
	X(cuGraphExecChildGraphNodeSetParams, cuGraphExecChildGraphNodeSetParams, 11010, (CUgraphExec exec, CUgraphNode node, CUgraph child)) \
	X(cuGraphExecNodeSetParams, cuGraphExecNodeSetParams, 12020, (CUgraphExec exec, CUgraphNode node, struct cu_node *what)) \
	X(cuGraphAddMemcpyNode, cuGraphAddMemcpyNode, 10000, (CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n, const struct cu_copy_3d *copy, CUcontext ctx)) \
	X(cuGraphAddMemsetNode, cuGraphAddMemsetNode, 10000, (CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n, const struct cu_fill_node *fill, CUcontext ctx)) \
	X(cuGraphAddHostNode, cuGraphAddHostNode, 10000, (CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n, const struct cu_host_node *host)) \
	X(cuGraphAddBatchMemOpNode, cuGraphAddBatchMemOpNode, 11070, (CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n, const struct cu_words_node *words)) \
	X(cuGraphMemcpyNodeGetParams, cuGraphMemcpyNodeGetParams, 10000, (CUgraphNode node, struct cu_copy_3d *copy)) \
	X(cuGraphMemsetNodeGetParams, cuGraphMemsetNodeGetParams, 10000, (CUgraphNode node, struct cu_fill_node *fill)) \
	X(cuGraphHostNodeGetParams, cuGraphHostNodeGetParams, 10000, (CUgraphNode node, struct cu_host_node *host)) \
	X(cuGraphKernelNodeCopyAttributes, cuGraphKernelNodeCopyAttributes, 11000, (CUgraphNode dst, CUgraphNode src)) \
	X(cuGraphAddChildGraphNode, cuGraphAddChildGraphNode, 10000, (CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n, CUgraph child)) \
	X(cuGraphAddEventRecordNode, cuGraphAddEventRecordNode, 11010, (CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n, CUevent event)) \
	X(cuGraphChildGraphNodeGetGraph, cuGraphChildGraphNodeGetGraph, 10000, (CUgraphNode node, CUgraph *graph)) \
	P(cuGraphInstantiateWithParams, cuGraphInstantiateWithParams, 12000, _ptsz, (CUgraphExec *exec, CUgraph graph, struct cu_instantiate *how), (exec, graph, how)) \
	X(cuGraphExecGetFlags, cuGraphExecGetFlags, 12000, (CUgraphExec exec, uint64_t *flags)) \
	X(cuGraphExecUpdate_v2, cuGraphExecUpdate, 12000, (CUgraphExec exec, CUgraph graph, struct cu_update *result)) \
	X(cuGraphInstantiate_v2, cuGraphInstantiate, 11000, (CUgraphExec *exec, CUgraph graph, CUgraphNode *node, char *log, size_t size)) \
	X(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, 11040, (CUgraphExec *exec, CUgraph graph, unsigned long long flags)) \
	X(cuGraphGetNodes, cuGraphGetNodes, 10000, (CUgraph graph, CUgraphNode *nodes, size_t *n)) \
	X(cuUserObjectCreate, cuUserObjectCreate, 11030, (CUuserObject *object, void *arg, CUhostFn end, unsigned refs, unsigned flags)) \
	X(cuGraphRetainUserObject, cuGraphRetainUserObject, 11030, (CUgraph graph, CUuserObject object, unsigned n, unsigned flags)) \
	X(cuGraphDestroy, cuGraphDestroy, 10000, (CUgraph graph)) \
	X(cuGraphExecDestroy, cuGraphExecDestroy, 10000, (CUgraphExec exec)) \
	P(cuGraphUpload, cuGraphUpload, 11010, _ptsz, (CUgraphExec exec, CUstream stream), (exec, stream)) \
	P(cuGraphLaunch, cuGraphLaunch, 10000, _ptsz, (CUgraphExec exec, CUstream stream), (exec, stream))

#define CUDA_CODE_API(X, P) \
	X(cuModuleLoad, cuModuleLoad, 2000, (CUmodule *m, const char *path)) \
	X(cuModuleLoadFatBinary, cuModuleLoadFatBinary, 2000, (CUmodule *m, const void *fatbin)) \
	X(cuModuleGetGlobal_v2, cuModuleGetGlobal, 3020, (CUdeviceptr *d, size_t *size, CUmodule m, const char *name)) \
	X(cuModuleGetFunctionCount, cuModuleGetFunctionCount, 12040, (unsigned *n, CUmodule m)) \
	X(cuModuleEnumerateFunctions, cuModuleEnumerateFunctions, 12040, (CUfunction *f, unsigned n, CUmodule m)) \
	X(cuLinkCreate_v2, cuLinkCreate, 6050, (unsigned n, int *options, void **values, CUlinkState *state)) \
	X(cuLinkAddData_v2, cuLinkAddData, 6050, (CUlinkState state, int type, void *data, size_t size, const char *name, unsigned n, int *options, void **values)) \
	X(cuLinkAddFile_v2, cuLinkAddFile, 6050, (CUlinkState state, int type, const char *path, unsigned n, int *options, void **values)) \
	X(cuLinkComplete, cuLinkComplete, 5050, (CUlinkState state, void **cubin, size_t *size)) \
	X(cuLinkDestroy, cuLinkDestroy, 5050, (CUlinkState state)) \
	X(cuLibraryLoadData, cuLibraryLoadData, 12000, (CUlibrary *l, const void *image, int *jit, void **jit_values, unsigned n_jit, int *options, void **values, unsigned n)) \
	X(cuLibraryLoadFromFile, cuLibraryLoadFromFile, 12000, (CUlibrary *l, const char *path, int *jit, void **jit_values, unsigned n_jit, int *options, void **values, unsigned n)) \
	X(cuLibraryUnload, cuLibraryUnload, 12000, (CUlibrary l)) \
	X(cuLibraryGetKernel, cuLibraryGetKernel, 12000, (CUkernel *k, CUlibrary l, const char *name)) \
	X(cuLibraryGetKernelCount, cuLibraryGetKernelCount, 12040, (unsigned *n, CUlibrary l)) \
	X(cuLibraryEnumerateKernels, cuLibraryEnumerateKernels, 12040, (CUkernel *k, unsigned n, CUlibrary l)) \
	X(cuLibraryGetModule, cuLibraryGetModule, 12000, (CUmodule *m, CUlibrary l)) \
	X(cuLibraryGetGlobal, cuLibraryGetGlobal, 12000, (CUdeviceptr *d, size_t *size, CUlibrary l, const char *name)) \
	X(cuKernelGetFunction, cuKernelGetFunction, 12000, (CUfunction *f, CUkernel k)) \
	X(cuKernelGetLibrary, cuKernelGetLibrary, 12050, (CUlibrary *l, CUkernel k)) \
	X(cuKernelGetName, cuKernelGetName, 12030, (const char **name, CUkernel k)) \
	X(cuKernelGetParamInfo, cuKernelGetParamInfo, 12040, (CUkernel k, size_t i, size_t *at, size_t *size)) \
	X(cuKernelGetParamCount, cuKernelGetParamCount, 13020, (CUkernel k, size_t *n)) \
	X(cuKernelGetAttribute, cuKernelGetAttribute, 12000, (int *value, int which, CUkernel k, CUdevice dev)) \
	X(cuKernelSetAttribute, cuKernelSetAttribute, 12000, (int which, int value, CUkernel k, CUdevice dev)) \
	X(cuFuncGetModule, cuFuncGetModule, 11000, (CUmodule *m, CUfunction f)) \
	X(cuFuncGetName, cuFuncGetName, 12030, (const char **name, CUfunction f)) \
	X(cuFuncGetParamInfo, cuFuncGetParamInfo, 12040, (CUfunction f, size_t i, size_t *at, size_t *size)) \
	X(cuFuncGetParamCount, cuFuncGetParamCount, 13020, (CUfunction f, size_t *n)) \
	X(cuFuncGetAttribute, cuFuncGetAttribute, 2020, (int *value, int which, CUfunction f)) \
	X(cuFuncSetAttribute, cuFuncSetAttribute, 9000, (CUfunction f, int which, int value)) \
	X(cuFuncSetCacheConfig, cuFuncSetCacheConfig, 3000, (CUfunction f, int config)) \
	X(cuModuleGetLoadingMode, cuModuleGetLoadingMode, 11070, (int *mode)) \
	X(cuFuncIsLoaded, cuFuncIsLoaded, 12040, (int *loaded, CUfunction f)) \
	X(cuFuncLoad, cuFuncLoad, 12040, (CUfunction f)) \
	X(cuOccupancyMaxActiveBlocksPerMultiprocessor, cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050, (int *n, CUfunction f, int threads, size_t shared))

#define CUDA_LAUNCH_API(X, P) \
	X(cuModuleLoadData, cuModuleLoadData, 2000, (CUmodule *m, const void *image)) \
	X(cuModuleLoadDataEx, cuModuleLoadDataEx, 2010, (CUmodule *m, const void *image, unsigned n, int *options, void **values)) \
	X(cuModuleUnload, cuModuleUnload, 2000, (CUmodule m)) \
	X(cuModuleGetFunction, cuModuleGetFunction, 2000, (CUfunction *f, CUmodule m, const char *name)) \
	P(cuLaunchKernel, cuLaunchKernel, 4000, _ptsz, (CU_LAUNCH_PARAMS, void **extra), (f, gx, gy, gz, bx, by, bz, shared, stream, params, extra)) \
	P(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel, 9000, _ptsz, (CU_LAUNCH_PARAMS), (f, gx, gy, gz, bx, by, bz, shared, stream, params)) \
	P(cuLaunchKernelEx, cuLaunchKernelEx, 11060, _ptsz, (const struct cu_launch_config *config, CUfunction f, void **params, void **extra), (config, f, params, extra)) \
	X(cuLaunchCooperativeKernelMultiDevice, cuLaunchCooperativeKernelMultiDevice, 9000, (struct cu_launch_params *list, unsigned n, unsigned flags)) \
	X(cuFuncSetBlockShape, cuFuncSetBlockShape, 2000, (CUfunction f, int x, int y, int z)) \
	X(cuParamSetSize, cuParamSetSize, 2000, (CUfunction f, unsigned size)) \
	X(cuParamSeti, cuParamSeti, 2000, (CUfunction f, int at, unsigned v)) \
	X(cuParamSetf, cuParamSetf, 2000, (CUfunction f, int at, float v)) \
	X(cuParamSetv, cuParamSetv, 2000, (CUfunction f, int at, void *p, unsigned size)) \
	X(cuLaunch, cuLaunch, 2000, (CUfunction f)) \
	X(cuLaunchGrid, cuLaunchGrid, 2000, (CUfunction f, int w, int h)) \
	X(cuLaunchGridAsync, cuLaunchGridAsync, 2000, (CUfunction f, int w, int h, CUstream stream)) \
	X(cuGetProcAddress, cuGetProcAddress, 11030, (const char *name, void **fn, int version, uint64_t flags)) \
	X(cuGetProcAddress_v2, cuGetProcAddress, 12000, (const char *name, void **fn, int version, uint64_t flags, int *status))

#define CUDA_API(X, P) \
	CUDA_DEVICE_API(X, P) \
	CUDA_MEMORY_API(X, P) \
	CUDA_VMM_API(X, P) \
	CUDA_POOL_API(X, P) \
	CUDA_STREAM_API(X, P) \
	CUDA_GRAPH_API(X, P) \
	CUDA_CODE_API(X, P) \
	CUDA_LAUNCH_API(X, P)
/* clang-format on */

/* CU_EXPORT: how the symbols are declared where this is included. */
#ifdef CU_EXPORT
#define CU_DECLARE(symbol, base, since, params) CU_EXPORT fm_cu_result symbol params;
#define CU_DECLARE_BOTH(symbol, base, since, suffix, params, args) \
	CU_EXPORT fm_cu_result symbol params;                      \
	CU_EXPORT fm_cu_result symbol##suffix params;
CUDA_API(CU_DECLARE, CU_DECLARE_BOTH)
#undef CU_DECLARE
#undef CU_DECLARE_BOTH
#endif
