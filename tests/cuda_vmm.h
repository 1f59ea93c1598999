/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual memory of the CUDA driver API: ranges of addresses, chunks, and what is asked about
 * pointers. A part of cuda.h. */
#pragma once

typedef unsigned long long cu_chunk; /* CUmemGenericAllocationHandle */

enum { CU_LOCATION_DEVICE = 1, CU_LOCATION_HOST, CU_LOCATION_NUMA, CU_LOCATION_NUMA_CURRENT };
enum { CU_HANDLE_FD = 1, CU_CHUNK_PINNED = 1 };
enum { CU_ACCESS_NONE, CU_ACCESS_READ, CU_ACCESS_BOTH = 3 };

struct cu_location {
	int type, id;
};

struct cu_chunk_prop { /* CUmemAllocationProp */
	int type, handles;
	struct cu_location location;
	void *win32;
	unsigned char compression, rdma;
	unsigned short usage;
	unsigned char reserved[4];
};

struct cu_access { /* CUmemAccessDesc */
	struct cu_location location;
	int flags;
};

struct cu_multicast_prop { /* CUmulticastObjectProp */
	unsigned devices;
	size_t size;
	unsigned long long handles, flags;
};

typedef struct CUarray_st *CUarray, *CUmipmappedArray;

struct cu_array_2d { /* CUDA_ARRAY_DESCRIPTOR */
	size_t width, height;
	int format;
	unsigned channels;
};

struct cu_array { /* CUDA_ARRAY3D_DESCRIPTOR */
	size_t width, height, depth;
	int format;
	unsigned channels, flags;
};

enum { CU_TEXTURE_ARRAY, CU_TEXTURE_MIPMAPPED, CU_TEXTURE_LINEAR, CU_TEXTURE_PITCHED };

struct cu_texture { /* CUDA_RESOURCE_DESC */
	int type;
	union {
		CUarray array;
		struct {
			CUdeviceptr d;
			int format;
			unsigned channels;
			size_t size;
		} linear;
		struct {
			CUdeviceptr d;
			int format;
			unsigned channels;
			size_t width, height, pitch;
		} pitched;
		int reserved[32];
	};
	unsigned flags;
};

struct cu_tensor_map { /* CUtensorMap */
	_Alignas(64) uint64_t words[16];
};

typedef struct CUmemPool_st *CUmemoryPool;

struct cu_pool_prop { /* CUmemPoolProps */
	int type, handles;
	struct cu_location location;
	void *win32;
	size_t most;
	unsigned short usage;
	unsigned char reserved[54];
};

struct cu_alloc_node { /* CUDA_MEM_ALLOC_NODE_PARAMS */
	struct cu_pool_prop pool;
	const struct cu_access *access;
	size_t n, size;
	CUdeviceptr d;
};

enum { /* CUmemPool_attribute; those before: which memory is used again */
	CU_POOL_THRESHOLD = 4,
	CU_POOL_RESERVED,
	CU_POOL_RESERVED_HIGH,
	CU_POOL_USED,
	CU_POOL_USED_HIGH
};
enum { CU_GRAPH_USED, CU_GRAPH_USED_HIGH, CU_GRAPH_RESERVED, CU_GRAPH_RESERVED_HIGH };

struct cu_ipc { /* CUipcMemHandle */
	char bytes[64];
};

enum { /* CUpointer_attribute */
	CU_POINTER_CONTEXT = 1,
	CU_POINTER_TYPE,
	CU_POINTER_DEVICE,
	CU_POINTER_HOST,
	CU_POINTER_SYNC = 6,
	CU_POINTER_ID,
	CU_POINTER_MANAGED,
	CU_POINTER_ORDINAL,
	CU_POINTER_IPC,
	CU_POINTER_START,
	CU_POINTER_SIZE,
	CU_POINTER_MAPPED,
	CU_POINTER_HANDLES,
	CU_POINTER_RDMA,
	CU_POINTER_ACCESS,
	CU_POINTER_POOL,
	CU_POINTER_MAPPING_SIZE,
	CU_POINTER_MAPPING_START,
	CU_POINTER_CHUNK_ID
};

/* clang-format off */
#define CUDA_VMM_API(X, P) \
	X(cuMemAddressReserve, cuMemAddressReserve, 10020, (CUdeviceptr *at, size_t size, size_t alignment, CUdeviceptr hint, unsigned long long flags)) \
	X(cuMemAddressFree, cuMemAddressFree, 10020, (CUdeviceptr at, size_t size)) \
	X(cuMemCreate, cuMemCreate, 10020, (cu_chunk *chunk, size_t size, const struct cu_chunk_prop *prop, unsigned long long flags)) \
	X(cuMemRelease, cuMemRelease, 10020, (cu_chunk chunk)) \
	X(cuMemMap, cuMemMap, 10020, (CUdeviceptr at, size_t size, size_t offset, cu_chunk chunk, unsigned long long flags)) \
	X(cuMemUnmap, cuMemUnmap, 10020, (CUdeviceptr at, size_t size)) \
	X(cuMemSetAccess, cuMemSetAccess, 10020, (CUdeviceptr at, size_t size, const struct cu_access *access, size_t n)) \
	X(cuMemGetAccess, cuMemGetAccess, 10020, (unsigned long long *flags, const struct cu_location *location, CUdeviceptr at)) \
	X(cuMemGetAllocationGranularity, cuMemGetAllocationGranularity, 10020, (size_t *size, const struct cu_chunk_prop *prop, int option)) \
	X(cuMemGetAllocationPropertiesFromHandle, cuMemGetAllocationPropertiesFromHandle, 10020, (struct cu_chunk_prop *prop, cu_chunk chunk)) \
	X(cuMemRetainAllocationHandle, cuMemRetainAllocationHandle, 11000, (cu_chunk *chunk, void *at)) \
	X(cuGetExportTable, cuGetExportTable, 3000, (const void **table, const struct fm_cu_uuid *id)) \
	X(cuMemExportToShareableHandle, cuMemExportToShareableHandle, 10020, (void *handle, cu_chunk chunk, int type, unsigned long long flags)) \
	X(cuMemImportFromShareableHandle, cuMemImportFromShareableHandle, 10020, (cu_chunk *chunk, void *handle, int type)) \
	X(cuMulticastGetGranularity, cuMulticastGetGranularity, 12010, (size_t *size, const struct cu_multicast_prop *prop, int option)) \
	X(cuMulticastCreate, cuMulticastCreate, 12010, (cu_chunk *group, const struct cu_multicast_prop *prop)) \
	X(cuMulticastAddDevice, cuMulticastAddDevice, 12010, (cu_chunk group, CUdevice dev)) \
	X(cuMulticastBindMem, cuMulticastBindMem, 12010, (cu_chunk group, size_t at, cu_chunk chunk, size_t offset, size_t size, unsigned long long flags)) \
	X(cuMulticastBindMem_v2, cuMulticastBindMem, 13010, (cu_chunk group, CUdevice dev, size_t at, cu_chunk chunk, size_t offset, size_t size, unsigned long long flags)) \
	X(cuMulticastBindAddr, cuMulticastBindAddr, 12010, (cu_chunk group, size_t at, CUdeviceptr p, size_t size, unsigned long long flags)) \
	X(cuMulticastBindAddr_v2, cuMulticastBindAddr, 13010, (cu_chunk group, CUdevice dev, size_t at, CUdeviceptr p, size_t size, unsigned long long flags)) \
	X(cuMulticastUnbind, cuMulticastUnbind, 12010, (cu_chunk group, CUdevice dev, size_t at, size_t size)) \
	X(cuMemGetHandleForAddressRange, cuMemGetHandleForAddressRange, 11070, (void *handle, CUdeviceptr at, size_t size, int type, unsigned long long flags)) \
	X(cuMemAllocPitch_v2, cuMemAllocPitch, 3020, (CUdeviceptr *d, size_t *pitch, size_t width, size_t height, unsigned element)) \
	X(cuMemAllocManaged, cuMemAllocManaged, 6000, (CUdeviceptr *d, size_t size, unsigned flags)) \
	X(cuMemAdvise, cuMemAdvise, 8000, (CUdeviceptr at, size_t n, int advice, CUdevice dev)) \
	X(cuMemAdvise_v2, cuMemAdvise, 12020, (CUdeviceptr at, size_t n, int advice, struct cu_location to)) \
	P(cuMemPrefetchAsync, cuMemPrefetchAsync, 8000, _ptsz, (CUdeviceptr at, size_t n, CUdevice to, CUstream stream), (at, n, to, stream)) \
	P(cuMemPrefetchAsync_v2, cuMemPrefetchAsync, 12020, _ptsz, (CUdeviceptr at, size_t n, struct cu_location to, unsigned flags, CUstream stream), (at, n, to, flags, stream)) \
	X(cuArrayCreate_v2, cuArrayCreate, 3020, (CUarray *array, const struct cu_array_2d *a)) \
	X(cuArray3DCreate_v2, cuArray3DCreate, 3020, (CUarray *array, const struct cu_array *a)) \
	X(cuArrayDestroy, cuArrayDestroy, 2000, (CUarray array)) \
	X(cuMipmappedArrayCreate, cuMipmappedArrayCreate, 5000, (CUmipmappedArray *array, const struct cu_array *a, unsigned n)) \
	X(cuMipmappedArrayDestroy, cuMipmappedArrayDestroy, 5000, (CUmipmappedArray array)) \
	X(cuTexObjectCreate, cuTexObjectCreate, 5000, (uint64_t *texture, const struct cu_texture *what, const void *how, const void *view)) \
	X(cuTexObjectDestroy, cuTexObjectDestroy, 5000, (uint64_t texture)) \
	X(cuTensorMapEncodeTiled, cuTensorMapEncodeTiled, 12000, (struct cu_tensor_map *map, int type, unsigned rank, void *at, const uint64_t *size, const uint64_t *strides, const unsigned *box, const unsigned *element_strides, int interleave, int swizzle, int promotion, int fill)) \
	X(cuTensorMapEncodeIm2col, cuTensorMapEncodeIm2col, 12000, (struct cu_tensor_map *map, int type, unsigned rank, void *at, const uint64_t *size, const uint64_t *strides, const int *lower, const int *upper, unsigned channels, unsigned pixels, const unsigned *element_strides, int interleave, int swizzle, int promotion, int fill)) \
	X(cuTensorMapReplaceAddress, cuTensorMapReplaceAddress, 12000, (struct cu_tensor_map *map, void *at)) \
	X(cuMemGetAddressRange_v2, cuMemGetAddressRange, 3020, (CUdeviceptr *base, size_t *size, CUdeviceptr at)) \
	X(cuPointerGetAttribute, cuPointerGetAttribute, 4000, (void *value, int which, CUdeviceptr d)) \
	X(cuPointerGetAttributes, cuPointerGetAttributes, 7000, (unsigned n, int *which, void **values, CUdeviceptr d)) \
	X(cuPointerSetAttribute, cuPointerSetAttribute, 6000, (const void *value, int which, CUdeviceptr d)) \
	X(cuIpcGetMemHandle, cuIpcGetMemHandle, 4010, (struct cu_ipc *handle, CUdeviceptr d)) \
	X(cuIpcOpenMemHandle_v2, cuIpcOpenMemHandle, 11000, (CUdeviceptr *d, struct cu_ipc handle, unsigned flags)) \
	X(cuIpcCloseMemHandle, cuIpcCloseMemHandle, 4010, (CUdeviceptr d))

#define CUDA_POOL_API(X, P) \
	P(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 11020, _ptsz, (CUdeviceptr *d, size_t size, CUmemoryPool pool, CUstream stream), (d, size, pool, stream)) \
	X(cuMemPoolCreate, cuMemPoolCreate, 11020, (CUmemoryPool *pool, const struct cu_pool_prop *prop)) \
	X(cuMemPoolDestroy, cuMemPoolDestroy, 11020, (CUmemoryPool pool)) \
	X(cuMemPoolTrimTo, cuMemPoolTrimTo, 11020, (CUmemoryPool pool, size_t keep)) \
	X(cuMemPoolGetAttribute, cuMemPoolGetAttribute, 11020, (CUmemoryPool pool, int which, void *value)) \
	X(cuMemPoolSetAttribute, cuMemPoolSetAttribute, 11020, (CUmemoryPool pool, int which, void *value)) \
	X(cuMemPoolSetAccess, cuMemPoolSetAccess, 11020, (CUmemoryPool pool, const struct cu_access *access, size_t n)) \
	X(cuMemPoolGetAccess, cuMemPoolGetAccess, 11020, (int *flags, CUmemoryPool pool, struct cu_location *location)) \
	X(cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, 11020, (CUmemoryPool *pool, CUdevice dev)) \
	X(cuDeviceGetMemPool, cuDeviceGetMemPool, 11020, (CUmemoryPool *pool, CUdevice dev)) \
	X(cuDeviceSetMemPool, cuDeviceSetMemPool, 11020, (CUdevice dev, CUmemoryPool pool)) \
	X(cuGraphAddMemAllocNode, cuGraphAddMemAllocNode, 11040, (CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n, struct cu_alloc_node *what)) \
	X(cuGraphMemAllocNodeGetParams, cuGraphMemAllocNodeGetParams, 11040, (CUgraphNode node, struct cu_alloc_node *what)) \
	X(cuGraphAddMemFreeNode, cuGraphAddMemFreeNode, 11040, (CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n, CUdeviceptr d)) \
	X(cuGraphMemFreeNodeGetParams, cuGraphMemFreeNodeGetParams, 11040, (CUgraphNode node, CUdeviceptr *d)) \
	X(cuDeviceGetGraphMemAttribute, cuDeviceGetGraphMemAttribute, 11040, (CUdevice dev, int which, void *value)) \
	X(cuDeviceGraphMemTrim, cuDeviceGraphMemTrim, 11040, (CUdevice dev))
/* clang-format on */

_Static_assert(sizeof(struct cu_chunk_prop) == 32, "as CUmemAllocationProp");
_Static_assert(sizeof(struct cu_texture) == 144, "as CUDA_RESOURCE_DESC");
_Static_assert(sizeof(struct cu_access) == 12, "as CUmemAccessDesc");
_Static_assert(sizeof(struct cu_pool_prop) == 88, "as CUmemPoolProps");
_Static_assert(sizeof(struct cu_alloc_node) == 120, "as CUDA_MEM_ALLOC_NODE_PARAMS");
