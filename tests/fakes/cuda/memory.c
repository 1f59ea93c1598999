/* SPDX-License-Identifier: Apache-2.0 */
/* Memory: of the device (which is the host's), page-locked, registered. */
#include "capacity.h"
#include "pools.h"
#include "vmm.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fk_alloc *fk_allocs;

static struct fk_alloc **find(const void *p, size_t size)
{
	struct fk_alloc **b = &fk_allocs;
	uintptr_t at = (uintptr_t)p;

	while (*b && (at + size <= (uintptr_t)(*b)->p || at >= (uintptr_t)(*b)->p + (*b)->size))
		b = &(*b)->next;
	return b;
}

enum fk_place fk_place(const void *p)
{
	struct fk_mapped m;
	struct fk_alloc *b;

	if (fk_vmm_find(p, &m))
		return !m.there ? FK_HOLE : m.device ? FK_DEVICE : FK_PINNED;
	b = *find(p, 1);
	return b ? b->place : FK_PAGEABLE;
}

bool fk_reachable(const void *p)
{
	enum fk_place place = fk_place(p);

	return place == FK_PINNED || place == FK_DEVICE;
}

bool fk_memory_find(const void *p, struct fk_memory *m)
{
	const struct fk_alloc *b = *find(p, 1);

	if (b && b->freed)
		return false;
	if (b)
		*m = (struct fk_memory){
			b->ctx, b->p, b->size, b->id, b->place, b->registered, b->managed};
	return b;
}

bool fk_touches(CUdeviceptr at)
{
	bool there;

	pthread_mutex_lock(&fk.lock);
	there = fk_reachable((void *)(uintptr_t)at);
	if (!there)
		fk_lose(CU_ILLEGAL_ADDRESS);
	there = there && !fk.lost;
	pthread_mutex_unlock(&fk.lock);
	return there;
}

bool fk_writable(const void *p)
{
	struct fk_mapped m;
	struct fk_alloc *b;

	if (fk_vmm_find(p, &m))
		return m.there && m.access == CU_ACCESS_BOTH;
	b = *find(p, 1);
	return b && !b->read_only;
}

bool fk_within(const void *p, size_t n)
{
	struct fk_mapped m;
	struct fk_alloc *b;

	if (fk_vmm_find(p, &m))
		return fk_vmm_whole(p, n);
	b = *find(p, 1);
	return b && n <= b->size - (size_t)((const unsigned char *)p - b->p);
}

/* Memory is never a green context's. */
static CUcontext owner(void)
{
	return fk_ctx()->green ? &fk.primary[fk_ctx()->dev] : fk_ctx();
}

/* What is taken of the device's: pieces of 512 bytes. */
static uint64_t whole(size_t size)
{
	return (size + 511) & ~(uint64_t)511;
}

static fm_cu_result add(void *p, size_t size, enum fk_place place, bool registered)
{
	uint64_t takes = place == FK_DEVICE ? whole(size) : 0;
	struct fk_alloc *b = p ? malloc(sizeof(*b)) : NULL;
	static uint64_t ids;

	if (!b || (takes && !fk_memory_take(owner()->dev, takes))) {
		free(b);
		return CU_OUT_OF_MEMORY;
	}
	*b = (struct fk_alloc){.next = fk_allocs,
		.ctx = owner(),
		.p = p,
		.size = size,
		.id = ++ids,
		.place = place,
		.registered = registered,
		.takes = takes};
	fk_allocs = b;
	return FM_CU_SUCCESS;
}

void fk_alloc_uncharge(struct fk_alloc *b)
{
	if (b->takes)
		fk_memory_give(b->ctx->dev, b->takes);
	b->takes = 0;
}

bool fk_alloc_charge(struct fk_alloc *b)
{
	uint64_t takes = whole(b->size);

	if (!fk_memory_take(b->ctx->dev, takes))
		return false;
	b->takes = takes;
	return true;
}

static void drop(struct fk_alloc **at)
{
	struct fk_alloc *b = *at;

	*at = b->next;
	fk_alloc_uncharge(b);
	if (!b->registered)
		free(b->p);
	free(b);
}

/* As a tool counts it: what code brings along is the module's. */
static void note_leaks(CUcontext ctx)
{
	const char *path = fk_env("FAKE_CUDA_LEAKS");
	FILE *f = path ? fopen(path, "ae") : NULL;

	for (const struct fk_alloc *b = fk_allocs; f && b; b = b->next)
		if ((!ctx || b->ctx == ctx) && !b->freed && (!b->of_graph || b->allocated) &&
			!(b->registered && b->place == FK_DEVICE))
			fprintf(f, "%s %zu\n",
				b->registered           ? "registered"
				: b->place == FK_DEVICE ? "device"
							: "host",
				b->size);
	if (f && !ctx) /* chunks are no context's */
		fk_vmm_leaks(f);
	if (f)
		fclose(f);
}

static void note_all_leaks(void)
{
	note_leaks(NULL);
}

void fk_memory_init(void)
{
	if (fk_env("FAKE_CUDA_LEAKS"))
		atexit(note_all_leaks);
}

void fk_memory_ctx_gone(CUcontext ctx)
{
	struct fk_alloc **b = &fk_allocs;

	note_leaks(ctx);

	while (*b)
		if ((*b)->ctx == ctx)
			drop(b);
		else
			b = &(*b)->next;
}

static fm_cu_result allocate(void **p, size_t size, enum fk_place place)
{
	fm_cu_result rc;

	if (!p || !size)
		return FM_CU_ERROR_INVALID_VALUE;
	if (size > (place == FK_DEVICE ? fk_memory_left(owner()->dev) : UINT64_C(1) << 32) ||
		fk.refuse[FAKE_CUDA_MEMORY])
		return CU_OUT_OF_MEMORY;
	*p = aligned_alloc(256, (size + 255) & ~(size_t)255);
	rc = add(*p, size, place, false);
	if (rc)
		free(*p);
	else if (place == FK_DEVICE && fk_env("FAKE_CUDA_DIRTY"))
		memset(*p, 0xdb, size);
	return rc;
}

void *fk_memory_static(size_t size)
{
	void *p = aligned_alloc(256, (size + 256) & ~(size_t)255);

	if (p && add(p, size ? size : 1, FK_DEVICE, true)) {
		free(p);
		return NULL;
	}
	return p ? memset(p, 0, size) : NULL;
}

static struct fk_alloc **begins_at(const void *p, enum fk_place place, bool registered)
{
	struct fk_alloc **b = find(p, 1);

	return p && *b && (*b)->p == p && (*b)->place == place && (*b)->registered == registered &&
			       !(*b)->freed
		       ? b
		       : NULL;
}

struct fk_alloc *fk_alloc_at(const void *p)
{
	struct fk_alloc **b = begins_at(p, FK_DEVICE, false);

	return b ? *b : NULL;
}

struct fk_alloc *fk_alloc_new(size_t size)
{
	void *p;

	return allocate(&p, size, FK_DEVICE) ? NULL : fk_allocs;
}

void fk_alloc_drop(struct fk_alloc *gone)
{
	struct fk_alloc **b = &fk_allocs;

	while (*b != gone)
		b = &(*b)->next;
	drop(b);
}

void fk_memory_static_gone(void *p)
{
	struct fk_alloc **b = begins_at(p, FK_DEVICE, true);

	if (b)
		drop(b);
}

/* All that was submitted may still use the memory, so it is waited for, with the context's lock. */
void fk_wait_device(void)
{
	CUcontext ctx = owner();
	bool held = fk_hw_hold(ctx);

	fk_at("the wait for the device");
	fk_wait_ctx(ctx);
	fk_hw_let_go(ctx, held);
}

static fm_cu_result release(void *p, enum fk_place place)
{
	struct fk_alloc **b = begins_at(p, place, false);

	FK_TRY(fk_unsafe());
	if (!b || ((*b)->of_graph && !(*b)->allocated))
		return FM_CU_ERROR_INVALID_VALUE;
	fk_wait_device();
	b = begins_at(p, place, false);
	if (fk.lost || !b)
		return FM_CU_ERROR_INVALID_VALUE;
	if (!fk_pool_takes_back(*b))
		drop(b);
	return FM_CU_SUCCESS;
}

fm_cu_result cuMemGetInfo_v2(size_t *left, size_t *total)
{
	FK_TRY(fk_enter_ctx());
	*left = fk_memory_left(owner()->dev);
	*total = fk_capacity_total();
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuMemAlloc_v2(CUdeviceptr *d, size_t size)
{
	fm_cu_result rc;
	void *p = NULL;

	FK_TRY(fk_fails(__func__));
	FK_TRY(fk_enter_ctx());
	rc = fk_unsafe();
	if (!rc)
		rc = d ? allocate(&p, size, FK_DEVICE) : FM_CU_ERROR_INVALID_VALUE;
	if (!rc)
		*d = (uintptr_t)p;
	return fk_leave(rc);
}

fm_cu_result cuMemAllocPitch_v2(
	CUdeviceptr *d, size_t *pitch, size_t width, size_t height, unsigned element)
{
	if (!pitch || !width || !height || (element != 4 && element != 8 && element != 16))
		return FM_CU_ERROR_INVALID_VALUE;
	*pitch = (width + 511) & ~(size_t)511;
	return cuMemAlloc_v2(d, *pitch * height);
}

/* It stays on the device. */
fm_cu_result cuMemAllocManaged(CUdeviceptr *d, size_t size, unsigned flags)
{
	if (flags != 1 && flags != 2)
		return FM_CU_ERROR_INVALID_VALUE;
	FK_TRY(cuMemAlloc_v2(d, size));
	FK_TRY(fk_enter_ctx());
	(*find((void *)(uintptr_t)*d, 1))->managed = true;
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuMemFree_v2(CUdeviceptr d)
{
	FK_TRY(fk_fails(__func__));
	FK_TRY(fk_enter_ctx());
	return fk_leave(d ? release((void *)(uintptr_t)d, FK_DEVICE) : FM_CU_SUCCESS);
}

fm_cu_result cuMemHostAlloc(void **p, size_t size, unsigned flags)
{
	fm_cu_result rc;

	FK_TRY(fk_fails(__func__));
	FK_TRY(fk_enter_ctx());
	rc = fk_unsafe();
	return fk_leave(rc ? rc : allocate(p, size, FK_PINNED));
}

fm_cu_result cuMemAllocHost_v2(void **p, size_t size)
{
	return cuMemHostAlloc(p, size, 0);
}

fm_cu_result cuMemFreeHost(void *p)
{
	FK_TRY(fk_fails(__func__));
	FK_TRY(fk_enter_ctx());
	return fk_leave(release(p, FK_PINNED));
}

/* May the process write there? As it is mapped; by the first page. */
static bool mapped_writable(const void *p)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long from, to;
	bool found = false;
	char line[512], w = '-';

	while (maps && !found && fgets(line, sizeof(line), maps))
		found = sscanf(line, "%lx-%lx %*c%c", &from, &to, &w) == 3 &&
			(uintptr_t)p >= from && (uintptr_t)p < to;
	if (maps)
		fclose(maps);
	return found && w == 'w';
}

/* As the real one: what cannot be written must be registered as such. */
static fm_cu_result register_as(void *p, size_t size, unsigned flags)
{
	bool read_only = flags & FM_CU_HOST_REGISTER_READ_ONLY;
	fm_cu_result rc;

	if (read_only && fk_env("FAKE_CUDA_NO_READ_ONLY"))
		return FM_CU_ERROR_NOT_SUPPORTED;
	if (!read_only && !mapped_writable(p))
		return FM_CU_ERROR_INVALID_VALUE;
	rc = add(p, size, FK_PINNED, true);
	if (!rc)
		fk_allocs->read_only = read_only;
	return rc;
}

fm_cu_result cuMemHostRegister_v2(void *p, size_t size, unsigned flags)
{
	const char *fails = fk_env("FAKE_CUDA_FAIL_REGISTER");
	struct fk_mapped m;
	fm_cu_result rc;

	FK_TRY(fk_fails(__func__));
	FK_TRY(fk_enter_ctx());
	rc = fk_unsafe();
	if (rc)
		return fk_leave(rc);
	if (fails)
		return fk_leave(atoi(fails) > 1 ? atoi(fails) : FM_CU_ERROR_NOT_SUPPORTED);
	if (!p || !size)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	if (fk_vmm_find(p, &m))
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	if (*find(p, size))
		return fk_leave(CU_ALREADY_REGISTERED);
	return fk_leave(register_as(p, size, flags));
}

fm_cu_result cuMemHostUnregister(void *p)
{
	struct fk_alloc **b;

	fk_at("cuMemHostUnregister");
	FK_TRY(fk_fails(__func__));
	FK_TRY(fk_enter_ctx());
	if (begins_at(p, FK_PINNED, true))
		fk_wait_device();
	b = begins_at(p, FK_PINNED, true);
	if (b)
		drop(b);
	return fk_leave(b ? FM_CU_SUCCESS : CU_NOT_REGISTERED);
}

/* Chunks pass, also those of the device. */
static bool mapped(const void *p)
{
	struct fk_mapped m;

	return fk_vmm_find(p, &m) && m.there;
}

fm_cu_result cuMemHostGetDevicePointer_v2(CUdeviceptr *d, void *p, unsigned flags)
{
	FK_TRY(fk_fails(__func__));
	FK_TRY(fk_enter_ctx());
	if (!d || flags || (fk_place(p) != FK_PINNED && !mapped(p)))
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	*d = (uintptr_t)p;
	return fk_leave(FM_CU_SUCCESS);
}
