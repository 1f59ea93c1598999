/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What we use of the CUDA driver API (docs.nvidia.com/cuda/cuda-driver-api): its types and numbers,
 * as its binary interface has them, and a table of the functions that we call ourselves. No toolkit
 * is needed to build; the types are those of <cuda.h>, so that both can be included.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int fm_cu_result; /* CUresult */
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUlinkState_st *CUlinkState;
typedef struct CUgreenCtx_st *CUgreenCtx;
typedef struct CUfunc_st *CUfunction;
typedef struct CUmod_st *CUmodule;

enum {
	FM_CU_SUCCESS = 0,
	FM_CU_ERROR_INVALID_VALUE = 1,
	FM_CU_ERROR_OUT_OF_MEMORY = 2,
	FM_CU_ERROR_NOT_INITIALIZED = 3,
	FM_CU_ERROR_DEINITIALIZED = 4,
	FM_CU_ERROR_NOT_READY = 600,
	FM_CU_ERROR_ALREADY_REGISTERED = 712,
	FM_CU_ERROR_NOT_SUPPORTED = 801,
};

/* Handles that are no streams of their own: the two default streams. */
#define FM_CU_STREAM_LEGACY     ((CUstream)0x1)
#define FM_CU_STREAM_PER_THREAD ((CUstream)0x2)

enum {
	FM_CU_HOST_REGISTER_PORTABLE = 1,
	FM_CU_HOST_REGISTER_DEVICEMAP = 2,
	FM_CU_HOST_REGISTER_READ_ONLY = 8,
	FM_CU_WAIT_VALUE_GEQ = 0, /* as signed numbers */
	FM_CU_WAIT_VALUE_EQ = 1,
	FM_CU_WAIT_VALUE_NOR = 3, /* ~(word | value) is not 0 */
	FM_CU_EVENT_DEFAULT = 0,
	FM_CU_EVENT_NO_TIMING = 2,
	FM_CU_STREAM_NON_BLOCKING = 1,
	FM_CU_ATTRIBUTE_PCI_BUS = 33,      /* CU_DEVICE_ATTRIBUTE_PCI_BUS_ID */
	FM_CU_ATTRIBUTE_PCI_DEVICE = 34,   /* CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID */
	FM_CU_ATTRIBUTE_PCI_DOMAIN = 50,   /* CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID */
	FM_CU_ATTRIBUTE_MPS_ENABLED = 133, /* CU_DEVICE_ATTRIBUTE_MPS_ENABLED */
	FM_CU_CAPTURE_NONE = 0,            /* CUstreamCaptureStatus */
	FM_CU_CAPTURE_ACTIVE = 1,
	FM_CU_CAPTURE_MODE_RELAXED = 2,
};

/* CUstreamBatchMemOpParams: 48 bytes, of which an operation uses these. */
union fm_cu_mem_op {
	struct {
		uint32_t operation; /* FM_CU_OP_* */
		CUdeviceptr address;
		uint64_t value; /* the low half for 32-bit operations */
		uint32_t flags;
		CUdeviceptr alias;
	} op;
	uint64_t pad[6];
};
enum {
	FM_CU_OP_WAIT_VALUE_32 = 1,
	FM_CU_OP_WRITE_VALUE_32 = 2,
	FM_CU_OP_WAIT_VALUE_64 = 4,
	FM_CU_OP_WRITE_VALUE_64 = 5,
};
_Static_assert(sizeof(union fm_cu_mem_op) == 48, "as CUstreamBatchMemOpParams");

/* CUlaunchAttribute, CUlaunchConfig */
struct fm_cu_attribute {
	uint32_t id; /* FM_CU_LAUNCH_* */
	uint32_t pad;
	uint64_t value[8];
};
struct fm_cu_launch_config {
	unsigned grid[3], block[3], shared;
	CUstream stream;
	const struct fm_cu_attribute *attributes;
	unsigned n_attributes;
};
enum {
	FM_CU_LAUNCH_IGNORE = 0,
	FM_CU_LAUNCH_WINDOW = 1, /* of accesses that stay in the cache */
	FM_CU_LAUNCH_COOPERATIVE = 2,
	FM_CU_LAUNCH_CLUSTER = 4,
	FM_CU_LAUNCH_CLUSTER_POLICY = 5,
	FM_CU_LAUNCH_OVERLAPS = 6, /* programmatic stream serialization */
	FM_CU_LAUNCH_EVENT = 7,    /* records one */
	FM_CU_LAUNCH_PRIORITY = 8,
	FM_CU_LAUNCH_DOMAIN_MAP = 9,
	FM_CU_LAUNCH_DOMAIN = 10,
	FM_CU_LAUNCH_PREFERRED_CLUSTER = 11,
	FM_CU_LAUNCH_BEGUN_EVENT = 12,
	FM_CU_LAUNCH_UPDATABLE = 13, /* of a node: by the device */
	FM_CU_LAUNCH_CARVEOUT = 14,
};

/* Such a list gives a kernel's parameters as one buffer. */
#define FM_CU_EXTRA_END    ((void *)0)
#define FM_CU_EXTRA_BUFFER ((void *)1)
#define FM_CU_EXTRA_SIZE   ((void *)2) /* the address of a size_t */

struct fm_cu_uuid { /* CUuuid */
	unsigned char bytes[16];
};

/* CUmemAllocationProp, and CUmemAccessDesc: memory of one device, apart from its addresses. */
struct fm_cu_location {
	int type, id; /* FM_CU_LOCATION_DEVICE, _HOST_NODE, and which; _HOST_NEAR */
};
struct fm_cu_memory_kind {
	int type, handle_types; /* FM_CU_MEMORY_PINNED; none */
	struct fm_cu_location location;
	void *win32;
	unsigned char flags[8]; /* [FM_CU_MEMORY_CARDS]: network cards reach it */
};
struct fm_cu_memory_access {
	struct fm_cu_location location;
	int flags; /* FM_CU_MEMORY_READ_WRITE */
};
enum {
	FM_CU_LOCATION_DEVICE = 1,
	FM_CU_LOCATION_HOST_NODE = 3, /* a NUMA node of the host, */
	FM_CU_LOCATION_HOST_NEAR = 4, /* and that of the calling thread */
	FM_CU_MEMORY_CARDS = 1,
	FM_CU_MEMORY_PINNED = 1,
	FM_CU_MEMORY_READ_WRITE = 3,
	FM_CU_MEMORY_FD = 1 /* of handle_types: a descriptor, for other processes */
};

/* CUDA_GRAPH_INSTANTIATE_PARAMS */
struct fm_cu_instantiate {
	uint64_t flags;
	CUstream upload;
	CUgraphNode failed; /* which node was in the way; or NULL */
	int result;         /* why */
};
enum {
	FM_CU_GRAPH_BY_DEVICE = 4, /* CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH */
	FM_CU_GRAPH_NODE = 3,      /* `result': the device cannot launch such a node, */
	FM_CU_GRAPH_CONTEXTS = 4,  /* or the nodes are of several contexts */
	FM_CU_LINK_PTX = 1,        /* CUjitInputType */
	FM_CU_LINK_LIBRARY = 4,
	FM_CU_LINK_LOG = 5, /* CUjit_option: of errors */
	FM_CU_LINK_LOG_SIZE = 6,
};

/* X(name here, symbol of the library, parameters) */
/* clang-format off */
#define FM_CU_DRIVER(X) \
	X(ctx_get_current, "cuCtxGetCurrent", (CUcontext *ctx)) \
	X(ctx_push, "cuCtxPushCurrent_v2", (CUcontext ctx)) \
	X(ctx_pop, "cuCtxPopCurrent_v2", (CUcontext *ctx)) \
	X(ctx_get_device, "cuCtxGetDevice", (CUdevice *dev)) \
	X(device_get_attribute, "cuDeviceGetAttribute", (int *value, int attribute, CUdevice dev)) \
	X(device_get_whole_uuid, "cuDeviceGetUuid", (struct fm_cu_uuid *uuid, CUdevice dev)) \
	X(device_get_uuid, "cuDeviceGetUuid_v2", (struct fm_cu_uuid *uuid, CUdevice dev)) \
	X(host_register, "cuMemHostRegister_v2", (void *p, size_t size, unsigned flags)) \
	X(host_unregister, "cuMemHostUnregister", (void *p)) \
	X(host_alloc, "cuMemHostAlloc", (void **p, size_t size, unsigned flags)) \
	X(host_free, "cuMemFreeHost", (void *p)) \
	X(mem_alloc, "cuMemAlloc_v2", (CUdeviceptr *d, size_t size)) \
	X(mem_free, "cuMemFree_v2", (CUdeviceptr d)) \
	X(mem_info, "cuMemGetInfo_v2", (size_t *left, size_t *total)) \
	X(mem_reserve, "cuMemAddressReserve", (CUdeviceptr *at, size_t size, size_t align, CUdeviceptr wish, uint64_t flags)) \
	X(mem_unreserve, "cuMemAddressFree", (CUdeviceptr at, size_t size)) \
	X(mem_create, "cuMemCreate", (unsigned long long *handle, size_t size, const struct fm_cu_memory_kind *kind, uint64_t flags)) \
	X(mem_release, "cuMemRelease", (unsigned long long handle)) \
	X(mem_map, "cuMemMap", (CUdeviceptr at, size_t size, size_t offset, unsigned long long handle, uint64_t flags)) \
	X(mem_unmap, "cuMemUnmap", (CUdeviceptr at, size_t size)) \
	X(mem_access, "cuMemSetAccess", (CUdeviceptr at, size_t size, const struct fm_cu_memory_access *access, size_t n)) \
	X(mem_export, "cuMemExportToShareableHandle", (void *to, unsigned long long handle, int type, uint64_t flags)) \
	X(mem_import, "cuMemImportFromShareableHandle", (unsigned long long *handle, void *from, int type)) \
	X(copy_to_device, "cuMemcpyHtoDAsync_v2", (CUdeviceptr to, const void *from, size_t size, CUstream stream)) \
	X(copy_to_host, "cuMemcpyDtoHAsync_v2", (void *to, CUdeviceptr from, size_t size, CUstream stream)) \
	X(copy_within, "cuMemcpyDtoDAsync_v2", (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)) \
	X(fill, "cuMemsetD32Async", (CUdeviceptr to, unsigned value, size_t n, CUstream stream)) \
	X(module_load, "cuModuleLoadData", (CUmodule *module, const void *image)) \
	X(link_create, "cuLinkCreate_v2", (unsigned n, int *options, void **values, CUlinkState *state)) \
	X(link_data, "cuLinkAddData_v2", (CUlinkState state, int type, void *data, size_t size, const char *name, unsigned n, int *options, void **values)) \
	X(link_file, "cuLinkAddFile_v2", (CUlinkState state, int type, const char *path, unsigned n, int *options, void **values)) \
	X(link_complete, "cuLinkComplete", (CUlinkState state, void **image, size_t *size)) \
	X(link_destroy, "cuLinkDestroy", (CUlinkState state)) \
	X(module_function, "cuModuleGetFunction", (CUfunction *f, CUmodule module, const char *name)) \
	X(module_unload, "cuModuleUnload", (CUmodule module)) \
	X(launch, "cuLaunchKernelEx", (const struct fm_cu_launch_config *config, CUfunction f, void **params, void **extra)) \
	X(priority_range, "cuCtxGetStreamPriorityRange", (int *least, int *greatest)) \
	X(stream_create, "cuStreamCreateWithPriority", (CUstream *stream, unsigned flags, int priority)) \
	X(green_stream_create, "cuGreenCtxStreamCreate", (CUstream *stream, CUgreenCtx green, unsigned flags, int priority)) \
	X(green_destroy, "cuGreenCtxDestroy", (CUgreenCtx green)) \
	X(stream_destroy, "cuStreamDestroy_v2", (CUstream stream)) \
	X(stream_flags, "cuStreamGetFlags", (CUstream stream, unsigned *flags)) \
	X(host_device_pointer, "cuMemHostGetDevicePointer_v2", (CUdeviceptr *d, void *p, unsigned flags)) \
	X(stream_get_ctx, "cuStreamGetCtx", (CUstream stream, CUcontext *ctx)) \
	X(stream_id, "cuStreamGetId", (CUstream stream, unsigned long long *id)) \
	X(stream_get_both, "cuStreamGetCtx_v2", (CUstream stream, CUcontext *ctx, CUgreenCtx *green)) \
	X(stream_is_capturing, "cuStreamIsCapturing", (CUstream stream, int *status)) \
	X(stream_capture_info, "cuStreamGetCaptureInfo_v2", (CUstream stream, int *status, uint64_t *id, CUgraph *graph, const void *deps, size_t *n)) \
	X(stream_synchronize, "cuStreamSynchronize", (CUstream stream)) \
	X(stream_query, "cuStreamQuery", (CUstream stream)) \
	X(stream_mem_ops, "cuStreamBatchMemOp_v2", (CUstream stream, unsigned n, union fm_cu_mem_op *ops, unsigned flags)) \
	X(capture_begin, "cuStreamBeginCapture_v2", (CUstream stream, int mode)) \
	X(capture_end, "cuStreamEndCapture", (CUstream stream, CUgraph *graph)) \
	X(graph_instantiate, "cuGraphInstantiateWithParams", (CUgraphExec *exec, CUgraph graph, struct fm_cu_instantiate *how)) \
	X(graph_destroy, "cuGraphDestroy", (CUgraph graph)) \
	X(graph_nodes, "cuGraphGetNodes", (CUgraph graph, CUgraphNode *node, size_t *n)) \
	X(graph_node_deps, "cuGraphNodeGetDependencies", (CUgraphNode node, CUgraphNode *deps, size_t *n)) \
	X(graph_node_type, "cuGraphNodeGetType", (CUgraphNode node, int *type)) \
	X(graph_upload, "cuGraphUpload", (CUgraphExec exec, CUstream stream)) \
	X(graph_launch, "cuGraphLaunch", (CUgraphExec exec, CUstream stream)) \
	X(graph_flags, "cuGraphExecGetFlags", (CUgraphExec exec, uint64_t *flags)) \
	X(graph_end, "cuGraphExecDestroy", (CUgraphExec exec)) \
	X(thread_capture_mode, "cuThreadExchangeStreamCaptureMode", (int *mode)) \
	X(event_create, "cuEventCreate", (CUevent *event, unsigned flags)) \
	X(event_record, "cuEventRecord", (CUevent event, CUstream stream)) \
	X(event_query, "cuEventQuery", (CUevent event)) \
	X(event_elapsed, "cuEventElapsedTime", (float *ms, CUevent start, CUevent end)) \
	X(event_destroy, "cuEventDestroy_v2", (CUevent event))
/* clang-format on */

/* The driver's own functions, never our wrappers. One that the driver lacks is NULL. */
struct fm_cu_driver {
#define MEMBER(name, symbol, params) fm_cu_result(*name) params;
	FM_CU_DRIVER(MEMBER)
#undef MEMBER
};
