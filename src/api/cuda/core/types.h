/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the table of calls needs in addition to api/cuda/core/driver.h: handles, whose contents do
 * not matter, and the parts of parameter blocks from which the kind and size of a command are read.
 */
#pragma once
#include "api/cuda/core/driver.h"

typedef unsigned CUdeviceptr_v1; /* of before CUDA 3.2 */
typedef struct CUmod_st *CUmodule;
typedef struct CUlib_st *CUlibrary;
typedef struct CUkern_st *CUkernel;
typedef struct CUarray_st *CUarray;
typedef struct CUtexref_st *CUtexref;
typedef struct CUsurfref_st *CUsurfref;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphicsResource_st *CUgraphicsResource;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef unsigned long long CUmemGenericAllocationHandle;
typedef struct CUextSemaphore_st *CUexternalSemaphore;
typedef struct CUgreenCtx_st *CUgreenCtx;
typedef struct CUdevResourceDesc_st *CUdevResourceDesc;
typedef struct CUuserObject_st *CUuserObject;
typedef void (*fm_cu_host_fn)(void *user);
typedef void (*fm_cu_differs)(void);
typedef size_t (*fm_cu_shared_of)(int threads);
typedef void (*fm_cu_stream_callback)(CUstream stream, fm_cu_result status, void *user);

struct CUlaunchConfig_st;
struct CUexecAffinityParam_st;
struct CUctxCreateParams_st;
struct CUstreamCigCaptureParams_st;
struct CUmipmappedArray_st;
struct CUDA_LAUNCH_PARAMS_st;
struct CUDA_MEMCPY2D_st;
struct CUDA_MEMCPY3D_st;
struct CUDA_MEMCPY3D_PEER_st;
struct CUDA_MEMCPY3D_BATCH_OP_st;
struct CUmemcpyAttributes_st;
struct CUmemDecompressParams_st;
struct CUarrayMapInfo_st;
struct CUDA_ARRAY_DESCRIPTOR_st;
struct CUDA_RESOURCE_DESC_st;
struct CUDA_RESOURCE_VIEW_DESC_st;
struct CUDA_TEXTURE_DESC_st;
struct CUtensorMap_st;
struct CUDA_ARRAY_DESCRIPTOR_v1_st;
struct CUDA_ARRAY3D_DESCRIPTOR_st;
struct CUDA_ARRAY3D_DESCRIPTOR_v1_st;
struct CUmemPoolProps_st;
struct CUmemAllocationProp_st;
struct CUDA_MEM_ALLOC_NODE_PARAMS_st;
struct CUgraphEdgeData_st;
struct CUgraphExecUpdateResultInfo_st;
struct CUDA_GRAPH_INSTANTIATE_PARAMS_st;
struct CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS_st;
struct CUDA_MEMSET_NODE_PARAMS_st;
struct CUDA_HOST_NODE_PARAMS_st;
struct CUDA_KERNEL_NODE_PARAMS_st;
struct CUDA_KERNEL_NODE_PARAMS_v2_st;
struct CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS_st;

struct fm_cu_kernel_node_old { /* CUDA_KERNEL_NODE_PARAMS of before CUDA 12 */
	CUfunction function;
	unsigned grid[3], block[3], shared;
	void **params, **extra;
};

struct fm_cu_kernel_node { /* CUDA_KERNEL_NODE_PARAMS_v2, _v3 */
	struct fm_cu_kernel_node_old old;
	CUkernel kernel; /* if there is no function */
	CUcontext ctx;
};

struct fm_cu_pool_props { /* CUmemPoolProps */
	int type, handle_types;
	struct fm_cu_location location;
	void *attributes;
	size_t most;
	unsigned short usage;
	unsigned char reserved[54];
};

struct fm_cu_alloc_node { /* CUDA_MEM_ALLOC_NODE_PARAMS */
	struct fm_cu_pool_props pool;
	const void *access;
	size_t n_access, bytes;
	CUdeviceptr at;
};
_Static_assert(sizeof(struct fm_cu_alloc_node) == 120, "as CUDA_MEM_ALLOC_NODE_PARAMS");

struct CUgraphNodeParams_st {
	int type, reserved[3];
	union {
		struct fm_cu_kernel_node kernel; /* what we read of it */
		struct {
			CUgraph part; /* the graph, for a node that is one, */
			int moves;    /* whether it becomes the node's own */
		};
		struct fm_cu_alloc_node memory;
		long long any[29];
	};
	long long reserved_too;
};
_Static_assert(sizeof(struct CUgraphNodeParams_st) == 256, "as CUgraphNodeParams");

enum {
	FM_CU_NODE_KERNEL = 0,
	FM_CU_NODE_COPY = 1,
	FM_CU_NODE_FILL = 2,
	FM_CU_NODE_HOST = 3,
	FM_CU_NODE_GRAPH = 4,
	FM_CU_NODE_EMPTY = 5,
	FM_CU_NODE_RECORD = 7,
	FM_CU_NODE_ALLOCATES = 10,
	FM_CU_NODE_FREES = 11,
	FM_CU_NODE_WORDS = 12,
	FM_CU_NODE_CONDITIONAL = 13
};

struct fm_cu_words_node { /* CUDA_BATCH_MEM_OP_NODE_PARAMS */
	CUcontext ctx;
	unsigned n;
	union fm_cu_mem_op *op;
	unsigned flags;
};

enum { FM_CU_LIBRARY_PRESERVED = 1 }; /* CU_LIBRARY_BINARY_IS_PRESERVED */

struct fm_cu_ipc_handle { /* CUipcMemHandle, passed by value */
	char reserved[64];
};

struct fm_cu_array_2d { /* CUDA_ARRAY_DESCRIPTOR */
	size_t width, height;
	unsigned format, channels;
};

struct fm_cu_array_3d { /* CUDA_ARRAY3D_DESCRIPTOR */
	size_t width, height, depth;
	unsigned format, channels, flags;
};

struct fm_cu_old_array_2d { /* of before CUDA 3.2 */
	unsigned width, height, format, channels;
};

struct fm_cu_old_array_3d {
	unsigned width, height, depth, format, channels, flags;
};

enum { /* of an array */
	FM_CU_ARRAY_LAYERED = 1,
	FM_CU_ARRAY_CUBE = 4,
	FM_CU_ARRAY_SPARSE = 0x40,
	FM_CU_ARRAY_DEFERRED = 0x80, /* its memory is mapped later */
};

struct fm_cu_texture {  /* CUDA_RESOURCE_DESC, what we read of it */
	int type;       /* FM_CU_RESOURCE_* */
	CUdeviceptr at; /* of linear memory, with rows or without */
};
enum { FM_CU_RESOURCE_LINEAR = 2, FM_CU_RESOURCE_PITCHED = 3 };

enum { FM_CU_MEMORY_HOST = 1, FM_CU_MEMORY_UNIFIED = 4 }; /* CUmemorytype */

struct fm_cu_launch_params { /* CUDA_LAUNCH_PARAMS */
	CUfunction function;
	unsigned grid[3], block[3], shared;
	CUstream stream;
	void **params;
};

struct fm_cu_copy_end_2d {
	size_t x, y;
	unsigned type;
	void *host;
	CUdeviceptr device;
	void *array;
	size_t pitch;
};

struct fm_cu_copy_2d { /* CUDA_MEMCPY2D */
	struct fm_cu_copy_end_2d src, dst;
	size_t width, height;
};

struct fm_cu_copy_end_3d {
	size_t x, y, z, lod;
	unsigned type;
	void *host;
	CUdeviceptr device;
	void *array, *context;
	size_t pitch, height;
};

struct fm_cu_copy_3d { /* CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER */
	struct fm_cu_copy_end_3d src, dst;
	size_t width, height, depth;
};

enum { FM_CU_OPERAND_POINTER = 1 }; /* CUmemcpy3DOperandType */

struct fm_cu_copy_op { /* CUDA_MEMCPY3D_BATCH_OP */
	uint64_t src[5],
		dst[5]; /* each: the type, in 32 bits; the pointer, or an array; and more */
	size_t width, height, depth;
};
