/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that has handles, and is mapped by the program, where it is the driver's (what moves is
 * followed in managed/vmm.c); and memory of other processes. The first lives until its handle is
 * released as often as it was made or retained, and until it is mapped nowhere, even when its
 * context has ended. What is kept by an exported descriptor alone is not seen.
 */
#include "api/cuda/shim/guard/guarded.h"
#include "api/cuda/shim/managed/managed.h"
#include "api/cuda/shim/sets.h"
#include "memory.h"
#include <stdlib.h>

/* What a handle stands for; under the table's lock. */
struct fm_cuda_vmm {
	uint64_t number; /* of all; a handle and an address may serve again */
	uint64_t bytes;  /* that count */
	unsigned refs, mapped;
	CUdevice dev;
	enum fm_mem_kind kind;
	struct fm_client *c; /* with which it counted, when it has gone */
};

static uint64_t numbers; /* given so far */

/* A driver's call that makes no memory but tables of pages. */
#define WITH_TABLES(call)                                                             \
	({                                                                            \
		fm_cu_result made_ = (call);                                          \
		struct fm_cuda_mem_at here_;                                          \
                                                                                      \
		if (FM_UNLIKELY(made_ == FM_CU_ERROR_OUT_OF_MEMORY)) {                \
			here_ = fm_cuda_mem_here();                                   \
			made_ = FM_CUDA_WITH_ROOM(&here_, FM_CUDA_MEM_GRANULE, call); \
		}                                                                     \
		made_;                                                                \
	})

static struct fm_cuda_vmm *vmm_of(const struct fm_cuda_block *b)
{
	return b ? (struct fm_cuda_vmm *)(uintptr_t)b->of : NULL;
}

int64_t fm_cuda_handle_bytes(const struct fm_cuda_block *b)
{
	return (int64_t)vmm_of(b)->bytes;
}

static struct fm_cuda_block *find(enum fm_cuda_space space, uint64_t key)
{
	return fm_cuda_blocks_find(&fm_cuda_memory.blocks, space, key);
}

/* Lock held. If nothing keeps it any more, it is freed, and what it counts is to be returned:
 * *gone. The handle's row is erased. */
static void settle(struct fm_cuda_vmm *v, uint64_t handle, struct fm_cuda_vmm *gone)
{
	struct fm_cuda_block *b = find(FM_CUDA_HANDLE, handle);

	if (v->refs || v->mapped)
		return;
	if (b && vmm_of(b) == v)
		fm_cuda_blocks_erase(&fm_cuda_memory.blocks, b);
	*gone = *v;
	gone->c = fm_cuda_memory.client;
	free(v);
}

static void give_back(const struct fm_cuda_vmm *gone)
{
	fm_cuda_mem_differs(gone->c, gone->dev, gone->kind, -(int64_t)gone->bytes);
}

/* Of a handle that the driver has given; so much of it is claimed. False: out of memory. */
static bool handle_made(uint64_t handle, const struct fm_cuda_vmm *what, uint64_t claimed)
{
	struct fm_cuda_vmm *v = malloc(sizeof(*v)), *old, gone = {0};
	struct fm_client *c;
	const struct fm_cuda_block b = {.key = handle,
		.of = (uintptr_t)v,
		.dev = (int16_t)what->dev,
		.space = FM_CUDA_HANDLE,
		.kind = (uint8_t)what->kind};
	bool kept;

	if (!v)
		return false;
	*v = *what;
	pthread_mutex_lock(&fm_cuda_memory.lock);
	c = fm_cuda_memory.client;
	v->number = ++numbers;
	old = vmm_of(find(FM_CUDA_HANDLE, handle));
	kept = fm_cuda_blocks_put(&fm_cuda_memory.blocks, &b);
	if (kept && old) {
		old->refs = 0;
		settle(old, 0, &gone);
	}
	pthread_mutex_unlock(&fm_cuda_memory.lock);
	give_back(&gone);
	if (kept)
		fm_cuda_mem_differs(c, what->dev, what->kind, (int64_t)(what->bytes - claimed));
	else
		free(v);
	return kept;
}

/* The size is a multiple of the driver's granule, or the driver refuses it. */
fm_cu_result cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
	const struct CUmemAllocationProp_st *prop, unsigned long long flags)
{
	const struct fm_cu_memory_kind *p = (const void *)prop;
	struct fm_cuda_vmm v = {.bytes = size, .refs = 1, .kind = FM_MEM_VMM};
	struct fm_cuda_mem_at at = {.row = -1};
	fm_cu_result rc = fm_cuda_vmm_create(handle, size, p, flags);

	if (rc != FM_CUDA_NOT_MANAGED)
		return rc;
	if (p && p->location.type == FM_CU_LOCATION_DEVICE && size && size <= FM_CUDA_MEM_MOST)
		at = fm_cuda_mem_on(p->location.id);
	v.c = at.c;
	v.dev = at.dev;
	if (at.c && !fm_cuda_mem_claim(&at, v.kind, size))
		return FM_CU_ERROR_OUT_OF_MEMORY;
	rc = FM_CUDA_WITH_ROOM(&at, size, NEXT(cuMemCreate, (handle, size, prop, flags)));
	if (at.counts && (rc || !handle_made(*handle, &v, at.c ? size : 0)))
		give_back(&v); /* what was claimed */
	return rc;
}

fm_cu_result cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct fm_cuda_vmm *v, gone = {0};
	uint64_t number;
	fm_cu_result rc = fm_cuda_vmm_release(handle);

	if (rc != FM_CUDA_NOT_MANAGED)
		return rc;
	pthread_mutex_lock(&fm_cuda_memory.lock);
	v = vmm_of(find(FM_CUDA_HANDLE, handle));
	number = v ? v->number : 0;
	pthread_mutex_unlock(&fm_cuda_memory.lock);
	rc = NEXT(cuMemRelease, (handle));
	if (rc == FM_CU_SUCCESS)
		fm_cuda_multicast_released(handle);
	if (rc != FM_CU_SUCCESS || !number)
		return rc;
	pthread_mutex_lock(&fm_cuda_memory.lock);
	v = vmm_of(find(FM_CUDA_HANDLE, handle));
	if (v && v->number == number && v->refs) {
		v->refs--;
		settle(v, handle, &gone);
	}
	pthread_mutex_unlock(&fm_cuda_memory.lock);
	give_back(&gone);
	return rc;
}

/* Lock held. How much of memory that was imported is seen now for the first time. */
static int64_t imports(struct fm_cuda_vmm *v, uint64_t end)
{
	uint64_t before = v->bytes;

	if (v->kind == FM_MEM_IMPORTED && end > before)
		v->bytes = end;
	return (int64_t)(v->bytes - before);
}

/* What is out is not mapped, and would seem to be free. */
static fm_cu_result map_when_it_is_in(CUdeviceptr ptr, size_t size, size_t offset,
	CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	return FM_CUDA_NAMING(NEXT(cuMemMap, (ptr, size, offset, handle, flags)));
}

fm_cu_result cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
	CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	fm_cu_result rc = fm_cuda_vmm_map(ptr, size, offset, handle, flags);
	struct fm_client *c;
	struct fm_cuda_vmm *v;
	int64_t more = 0;
	CUdevice dev = 0;

	if (rc != FM_CUDA_NOT_MANAGED)
		return rc;
	rc = WITH_TABLES(map_when_it_is_in(ptr, size, offset, handle, flags));
	if (rc != FM_CU_SUCCESS || fm_cu_inside)
		return rc;
	pthread_mutex_lock(&fm_cuda_memory.lock);
	c = fm_cuda_memory.client;
	v = vmm_of(find(FM_CUDA_HANDLE, handle));
	if (v && fm_cuda_blocks_put(&fm_cuda_memory.blocks, &(struct fm_cuda_block){.key = ptr,
								    .bytes = (int64_t)size,
								    .of = (uintptr_t)v,
								    .used = handle,
								    .dev = (int16_t)v->dev,
								    .space = FM_CUDA_MAPPING,
								    .kind = (uint8_t)v->kind})) {
		v->mapped++;
		fm_cuda_memory.mappings++;
		more = imports(v, offset + size);
		dev = v->dev;
	}
	pthread_mutex_unlock(&fm_cuda_memory.lock);
	fm_cuda_mem_differs(c, dev, FM_MEM_IMPORTED, more);
	return rc;
}

/* Lock held. The mapping that begins there ends. Returns its size; 0: none is known. */
static uint64_t unmap(CUdeviceptr at, struct fm_cuda_vmm *gone)
{
	struct fm_cuda_block *b = find(FM_CUDA_MAPPING, at);
	struct fm_cuda_vmm *v = vmm_of(b);
	uint64_t size, handle;

	if (!b)
		return 0;
	size = (uint64_t)b->bytes;
	handle = b->used;
	fm_cuda_blocks_erase(&fm_cuda_memory.blocks, b);
	fm_cuda_memory.mappings--;
	v->mapped--;
	settle(v, handle, gone);
	return size;
}

/* A range may be of several mappings, side by side. */
fm_cu_result cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	fm_cu_result rc = fm_cuda_vmm_unmap(ptr, size);
	CUdeviceptr at = ptr;

	if (rc == FM_CUDA_NOT_MANAGED)
		rc = NEXT(cuMemUnmap, (ptr, size));
	while (rc == FM_CU_SUCCESS && at - ptr < size) {
		struct fm_cuda_vmm gone = {0};
		uint64_t n;
		bool more;

		pthread_mutex_lock(&fm_cuda_memory.lock);
		n = unmap(at, &gone);
		more = fm_cuda_memory.mappings;
		pthread_mutex_unlock(&fm_cuda_memory.lock);
		give_back(&gone);
		if (!more)
			break;
		at += n ? n : FM_CUDA_MEM_GRANULE;
	}
	return rc;
}

/* The driver gives the same handle for the same memory. */
fm_cu_result cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
	struct fm_cuda_vmm *v;
	fm_cu_result rc = fm_cuda_vmm_retain(handle, (uintptr_t)addr);

	if (rc != FM_CUDA_NOT_MANAGED)
		return rc;
	/* A handle can be mapped elsewhere, and would be another's after a move. */
	fm_cuda_managed_pin((uintptr_t)addr, FM_MEM_PIN_RETAINED, FM_CUDA_PINNER(__func__));
	rc = NEXT(cuMemRetainAllocationHandle, (handle, addr));

	if (rc != FM_CU_SUCCESS)
		return rc;
	pthread_mutex_lock(&fm_cuda_memory.lock);
	v = vmm_of(find(FM_CUDA_HANDLE, *handle));
	if (v)
		v->refs++;
	pthread_mutex_unlock(&fm_cuda_memory.lock);
	return rc;
}

/* How much it is shows when it is mapped. It may be memory of this process's own. */
fm_cu_result cuMemImportFromShareableHandle(
	CUmemGenericAllocationHandle *handle, void *from, int type)
{
	fm_cu_result rc = NEXT(cuMemImportFromShareableHandle, (handle, from, type));
	fm_cu_result (*props)(struct fm_cu_memory_kind *, CUmemGenericAllocationHandle) =
		fm_cuda_symbol("cuMemGetAllocationPropertiesFromHandle");
	struct fm_cuda_vmm v = {.refs = 1, .kind = FM_MEM_IMPORTED}, *known;
	struct fm_cu_memory_kind p = {0};
	struct fm_cuda_mem_at at;

	if (rc != FM_CU_SUCCESS || fm_cu_inside)
		return rc;
	atomic_store(&fm_cuda_kill_exported, true);
	pthread_mutex_lock(&fm_cuda_memory.lock);
	known = vmm_of(find(FM_CUDA_HANDLE, *handle));
	if (known)
		known->refs++;
	pthread_mutex_unlock(&fm_cuda_memory.lock);
	if (known || !props || props(&p, *handle) || p.location.type != FM_CU_LOCATION_DEVICE)
		return rc;
	at = fm_cuda_mem_on(p.location.id);
	v.dev = at.dev;
	if (at.counts)
		handle_made(*handle, &v, 0);
	return rc;
}

/* --- of other processes, by the older way --- */

void fm_cuda_mem_opened(CUdeviceptr ptr, size_t size)
{
	struct fm_cuda_mem_at at = fm_cuda_mem_here();
	struct fm_cuda_block b = {.key = ptr,
				     .of = (uintptr_t)at.ctx,
				     .refs = 1,
				     .dev = (int16_t)at.dev,
				     .space = FM_CUDA_ADDRESS,
				     .kind = FM_MEM_IMPORTED},
			     *again;
	struct fm_client *c;
	bool kept;

	if (!at.counts)
		return;
	b.bytes = (int64_t)fm_cuda_mem_round(size, FM_CUDA_MEM_GRANULE);
	pthread_mutex_lock(&fm_cuda_memory.lock);
	c = fm_cuda_memory.client;
	again = find(FM_CUDA_ADDRESS, ptr);
	again = again && again->kind == FM_MEM_IMPORTED ? again : NULL;
	if (again)
		again->refs++;
	kept = again || fm_cuda_blocks_put(&fm_cuda_memory.blocks, &b);
	pthread_mutex_unlock(&fm_cuda_memory.lock);
	if (kept && !again)
		fm_cuda_mem_differs(c, b.dev, FM_MEM_IMPORTED, b.bytes);
}

static void opened(CUdeviceptr ptr)
{
	fm_cu_result (*range)(CUdeviceptr *, size_t *, CUdeviceptr) =
		fm_cuda_symbol("cuMemGetAddressRange_v2");
	CUdeviceptr base;
	size_t size = 0;

	if (range && !range(&base, &size, ptr))
		fm_cuda_mem_opened(ptr, size);
}

fm_cu_result cuIpcOpenMemHandle(CUdeviceptr *ptr, struct fm_cu_ipc_handle handle, unsigned flags)
{
	fm_cu_result rc;

	atomic_store(&fm_cuda_kill_exported, true);
	rc = fm_cuda_ipc_open(ptr, &handle);
	if (rc != FM_CUDA_NOT_MANAGED)
		return rc;
	rc = WITH_TABLES(NEXT(cuIpcOpenMemHandle, (ptr, handle, flags)));
	if (rc == FM_CU_SUCCESS)
		opened(*ptr);
	return rc;
}

fm_cu_result cuIpcOpenMemHandle_v2(CUdeviceptr *ptr, struct fm_cu_ipc_handle handle, unsigned flags)
{
	fm_cu_result rc;

	atomic_store(&fm_cuda_kill_exported, true);
	rc = fm_cuda_ipc_open(ptr, &handle);
	if (rc != FM_CUDA_NOT_MANAGED)
		return rc;
	rc = WITH_TABLES(NEXT(cuIpcOpenMemHandle_v2, (ptr, handle, flags)));
	if (rc == FM_CU_SUCCESS)
		opened(*ptr);
	return rc;
}

/* The driver waits in it as in cuMemFree(). */
fm_cu_result cuIpcCloseMemHandle(CUdeviceptr ptr)
{
	fm_cu_result rc = fm_cuda_ipc_close(ptr);
	struct fm_cu_turnstile *t;
	struct fm_cuda_ending e;

	if (rc != FM_CUDA_NOT_MANAGED && rc)
		return rc;
	if (!rc) {
		e = fm_cuda_mem_take(FM_CUDA_ADDRESS, ptr);
		return fm_cuda_mem_ended(&e, rc);
	}
	t = FM_LIKELY(!fm_cu_inside) ? fm_cuda_wait_begin(NULL) : NULL;
	e = fm_cuda_mem_take(FM_CUDA_ADDRESS, ptr);
	rc = fm_cuda_mem_ended(&e, NEXT(cuIpcCloseMemHandle, (ptr)));
	if (FM_LIKELY(!fm_cu_inside))
		fm_cuda_wait_end(t);
	return rc;
}
