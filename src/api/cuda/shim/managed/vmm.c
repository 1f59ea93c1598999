/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that the program maps itself (PyTorch's expandable segments, vLLM's sleep): the handle
 * that it gets is ours and never changes, and what is behind it may move (core/memory/vmm.h). What
 * cannot be kept so is the driver's, and the program has the driver's handle of it: see
 * fm_cu_vmm_able().
 *
 * All calls that change mappings wait while memory is out, for what is out is not mapped, and the
 * driver would say that there is nothing.
 */
#include "api/cuda/core/memory/hold.h"
#include "api/cuda/core/tune.h"
#include "api/cuda/shim/guard/kill.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/lockorder.h"
#include "base/util.h"
#include "managed.h"
#include "xqueue/rest.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Handles are no addresses, in no process: no driver's are like them. */
#define OURS(handle) ((handle) >> 32 == UINT64_C(0x6665726d))

struct handed {
	struct fm_cu_vmm *vmm;
	struct fm_cuda_managed *on;
	CUmemGenericAllocationHandle handle;
	uint64_t refs; /* as often as the program has the handle */
	size_t mapped;
};

static struct {
	pthread_mutex_t calls; /* over calls of the driver that change what follows; */
	pthread_mutex_t lock;  /* and over what follows, which is changed with both */
	struct fm_cuda_blocks handles;
	struct fm_cu_mapping **mapping; /* by address */
	size_t n, room;
	uint32_t given; /* handles, so far */
	_Atomic bool any;
} vmm = {.calls = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER};
FM_LOCK_RANK(vmm.calls, CUDA_VMM);
FM_LOCK_RANK(vmm.lock, CUDA_MAPPINGS);

void fm_cuda_vmm_fork_child(void)
{
	vmm.calls = vmm.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	memset(&vmm.handles, 0, sizeof(vmm.handles));
	vmm.mapping = NULL;
	vmm.n = vmm.room = 0;
	atomic_store(&vmm.any, false);
}

/* Is there, or was there, any? */
static bool any(void)
{
	return !fm_cu_inside && atomic_load_explicit(&vmm.any, memory_order_relaxed);
}

static unsigned begin(void)
{
	unsigned shard = fm_rest_call_begin(fm_shim_has_client());

	pthread_mutex_lock(&vmm.calls);
	fm_cu_inside++;
	return shard;
}

static void end(unsigned shard)
{
	fm_cu_inside--;
	pthread_mutex_unlock(&vmm.calls);
	fm_rest_call_end(fm_shim_has_client(), shard);
}

/* --- tables --- */

static struct handed *handed_of(const struct fm_cu_mapping *m)
{
	return m->of->cookie;
}

static struct handed *find_handle(CUmemGenericAllocationHandle handle)
{
	struct fm_cuda_block *b;

	pthread_mutex_lock(&vmm.lock);
	b = fm_cuda_blocks_find(&vmm.handles, FM_CUDA_HANDLE, handle);
	pthread_mutex_unlock(&vmm.lock);
	return b ? (struct handed *)(uintptr_t)b->of : NULL;
}

/* The handle serves from now on. */
static bool enter_handle(struct handed *h)
{
	const struct fm_cuda_block b = {
		.key = h->handle, .of = (uintptr_t)h, .space = FM_CUDA_HANDLE};
	bool entered;

	pthread_mutex_lock(&vmm.lock);
	entered = fm_cuda_blocks_put(&vmm.handles, &b);
	pthread_mutex_unlock(&vmm.lock);
	return entered;
}

static void leave_handle(const struct handed *h)
{
	struct fm_cuda_block *b;

	pthread_mutex_lock(&vmm.lock);
	b = fm_cuda_blocks_find(&vmm.handles, FM_CUDA_HANDLE, h->handle);
	if (b)
		fm_cuda_blocks_erase(&vmm.handles, b);
	pthread_mutex_unlock(&vmm.lock);
}

/* The first mapping that ends behind p. */
static size_t first_behind(CUdeviceptr p)
{
	size_t low = 0, high = vmm.n;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (vmm.mapping[mid]->at + vmm.mapping[mid]->size <= p)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* A mapping more, if there is memory for it. */
static bool has_room(void)
{
	size_t room = vmm.room ? 2 * vmm.room : 64;
	struct fm_cu_mapping **more;

	if (vmm.n < vmm.room)
		return true;
	pthread_mutex_lock(&vmm.lock);
	more = realloc(vmm.mapping, room * sizeof(struct fm_cu_mapping *));
	if (more) {
		vmm.mapping = more;
		vmm.room = room;
	}
	pthread_mutex_unlock(&vmm.lock);
	return more;
}

static void enter_mapping(struct fm_cu_mapping *m)
{
	size_t at = first_behind(m->at);

	pthread_mutex_lock(&vmm.lock);
	memmove(&vmm.mapping[at + 1], &vmm.mapping[at], (vmm.n - at) * sizeof(*vmm.mapping));
	vmm.mapping[at] = m;
	vmm.n++;
	pthread_mutex_unlock(&vmm.lock);
	handed_of(m)->mapped++;
}

/* The mappings in a range are those from the first on, n of them. False: it cuts one. */
struct span {
	size_t first, n;
};
static bool in_range(CUdeviceptr at, size_t size, struct span *s)
{
	size_t i = first_behind(at);

	*s = (struct span){.first = i};
	for (; i < vmm.n && vmm.mapping[i]->at - at < size; i++)
		s->n++;
	if (i < vmm.n && vmm.mapping[i]->at < at && at - vmm.mapping[i]->at < vmm.mapping[i]->size)
		return false; /* it begins before */
	return !s->n ||
	       vmm.mapping[i - 1]->at - at + vmm.mapping[i - 1]->size <= size; /* ends within */
}

bool fm_cuda_vmm_find(CUdeviceptr p, struct fm_cuda_mapped *m)
{
	const struct fm_cu_mapping *of = NULL;
	size_t i;

	if (FM_LIKELY(!atomic_load_explicit(&vmm.any, memory_order_relaxed)))
		return false;
	pthread_mutex_lock(&vmm.lock);
	i = first_behind(p);
	if (i < vmm.n && vmm.mapping[i]->at <= p)
		of = vmm.mapping[i];
	if (of)
		*m = (struct fm_cuda_mapped){of->at, of->size, of->of->id, handed_of(of)->on->dev};
	pthread_mutex_unlock(&vmm.lock);
	return of;
}

/* --- handles --- */

/* Nothing keeps it any more. */
static void drop_unused(struct handed *h)
{
	if (h->refs || h->mapped)
		return;
	fm_cu_vmm_end(h->vmm);
	fm_cuda_managed_tell(h->on);
	free(h);
}

fm_cu_result fm_cuda_vmm_create(CUmemGenericAllocationHandle *handle, size_t size,
	const struct fm_cu_memory_kind *kind, unsigned long long flags)
{
	fm_cu_result rc = FM_CUDA_NOT_MANAGED;
	struct handed *h;
	unsigned shard;

	if (FM_LIKELY(!fm_cuda_managed_here()) || !handle || !kind || flags ||
		!fm_cu_vmm_able(kind, size))
		return rc;
	h = calloc(1, sizeof(*h));
	if (h)
		rc = fm_cuda_managed_make(&h->on, size, kind, &h->vmm);
	if (!h || rc) {
		free(h);
		return rc;
	}
	shard = begin();
	h->vmm->cookie = h;
	h->refs = 1;
	h->handle = UINT64_C(0x6665726d) << 32 | ++vmm.given;
	atomic_store(&vmm.any, true);
	if (enter_handle(h)) {
		*handle = h->handle;
	} else {
		h->refs = 0;
		drop_unused(h);
		rc = FM_CU_ERROR_OUT_OF_MEMORY;
	}
	end(shard);
	return rc;
}

static fm_cu_result release(CUmemGenericAllocationHandle handle)
{
	struct handed *h = find_handle(handle);

	if (!h)
		return FM_CU_ERROR_INVALID_VALUE;
	if (--h->refs)
		return FM_CU_SUCCESS;
	leave_handle(h);
	drop_unused(h);
	return FM_CU_SUCCESS;
}

fm_cu_result fm_cuda_vmm_release(CUmemGenericAllocationHandle handle)
{
	fm_cu_result rc;
	unsigned shard;

	if (!OURS(handle) || !any())
		return FM_CUDA_NOT_MANAGED;
	shard = begin();
	rc = release(handle);
	end(shard);
	return rc;
}

/* The memory at an address: its handle serves again, if it had been released. */
static fm_cu_result retain(CUmemGenericAllocationHandle *handle, CUdeviceptr at)
{
	size_t i = first_behind(at);
	struct handed *h;

	if (i == vmm.n || vmm.mapping[i]->at > at)
		return FM_CUDA_NOT_MANAGED;
	h = handed_of(vmm.mapping[i]);
	if (!handle)
		return FM_CU_ERROR_INVALID_VALUE;
	if (!h->refs && !enter_handle(h))
		return FM_CU_ERROR_OUT_OF_MEMORY;
	h->refs++;
	*handle = h->handle;
	return FM_CU_SUCCESS;
}

fm_cu_result fm_cuda_vmm_retain(CUmemGenericAllocationHandle *handle, CUdeviceptr at)
{
	struct fm_cuda_mapped m;
	fm_cu_result rc;
	unsigned shard;

	if (!any() || !fm_cuda_vmm_find(at, &m))
		return FM_CUDA_NOT_MANAGED;
	shard = begin();
	rc = retain(handle, at);
	end(shard);
	return rc;
}

fm_cu_result cuMemGetAllocationPropertiesFromHandle(
	struct CUmemAllocationProp_st *prop, CUmemGenericAllocationHandle handle)
{
	fm_cu_result rc = FM_CU_ERROR_INVALID_VALUE;
	struct handed *h;

	if (!OURS(handle) || !any())
		return NEXT(cuMemGetAllocationPropertiesFromHandle, (prop, handle));
	pthread_mutex_lock(&vmm.calls);
	h = find_handle(handle);
	if (h && prop) {
		memcpy(prop, &h->vmm->kind, sizeof(h->vmm->kind));
		rc = FM_CU_SUCCESS;
	}
	pthread_mutex_unlock(&vmm.calls);
	return rc;
}

/* --- mappings --- */

static fm_cu_result map(
	CUdeviceptr at, size_t size, size_t offset, CUmemGenericAllocationHandle handle)
{
	struct handed *h = find_handle(handle);
	struct fm_cu_mapping *m;
	fm_cu_result rc;

	if (!h)
		return FM_CU_ERROR_INVALID_VALUE;
	if (!has_room())
		return FM_CU_ERROR_OUT_OF_MEMORY;
	rc = fm_cu_vmm_map(h->vmm, at, size, offset, &m);
	if (!rc)
		enter_mapping(m);
	return rc;
}

fm_cu_result fm_cuda_vmm_map(CUdeviceptr at, size_t size, size_t offset,
	CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	fm_cu_result rc;
	unsigned shard;

	if (!OURS(handle) || !any())
		return FM_CUDA_NOT_MANAGED;
	if (flags)
		return FM_CU_ERROR_INVALID_VALUE;
	shard = begin();
	rc = map(at, size, offset, handle);
	end(shard);
	return rc;
}

/* The driver has unmapped them. */
static void unmapped(const struct span *s)
{
	struct fm_cu_mapping *m;
	struct handed *h;

	for (size_t i = 0; i < s->n; i++) {
		m = vmm.mapping[s->first];
		pthread_mutex_lock(&vmm.lock);
		vmm.n--;
		memmove(&vmm.mapping[s->first], &vmm.mapping[s->first + 1],
			(vmm.n - s->first) * sizeof(*vmm.mapping));
		pthread_mutex_unlock(&vmm.lock);
		h = handed_of(m);
		h->mapped--;
		fm_cu_vmm_unmapped(m);
		drop_unused(h);
	}
}

/* A range may be of several mappings, also of some that are not ours. */
fm_cu_result fm_cuda_vmm_unmap(CUdeviceptr at, size_t size)
{
	struct span s = {0};
	fm_cu_result rc;
	unsigned shard;

	if (!any())
		return FM_CUDA_NOT_MANAGED;
	shard = begin();
	rc = in_range(at, size, &s) ? FM_CU_SUCCESS : FM_CU_ERROR_INVALID_VALUE;
	if (!rc)
		rc = NEXT(cuMemUnmap, (at, size));
	if (!rc)
		unmapped(&s);
	end(shard);
	return rc;
}

static fm_cu_result set_access(
	CUdeviceptr at, size_t size, const struct fm_cu_memory_access *what, size_t n)
{
	fm_cu_result rc;
	struct span s;

	if (!in_range(at, size, &s))
		return FM_CU_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < s.n && what; i++)
		if (fm_cu_vmm_grant_ready(vmm.mapping[s.first + i], n))
			return FM_CU_ERROR_OUT_OF_MEMORY;
	rc = NEXT(cuMemSetAccess, (at, size, what, n));
	for (size_t i = 0; i < s.n && !rc; i++)
		fm_cu_vmm_granted(vmm.mapping[s.first + i], what, n);
	return rc;
}

fm_cu_result cuMemSetAccess(
	CUdeviceptr at, size_t size, const struct fm_cu_memory_access *what, size_t n)
{
	fm_cu_result rc;
	unsigned shard;

	if (!any())
		return NEXT(cuMemSetAccess, (at, size, what, n));
	shard = begin();
	rc = set_access(at, size, what, n);
	end(shard);
	return rc;
}

/* --- what passes memory on: it stays where it is from then on --- */

/* borrowed: what runs from the host stays there, as blocks do. False: it is to come in first. */
static bool pin(
	struct handed *h, enum fm_mem_kind why, bool borrowed, const struct fm_cuda_pinner *by)
{
	uint64_t bytes = 0;

	if (fm_cu_vmm_pin(h->vmm, why, borrowed, &bytes))
		return false;
	fm_cuda_managed_pinned(h->on, why, bytes);
	if (bytes)
		fm_cuda_managed_named(why, by);
	return true;
}

void fm_cuda_vmm_pin(
	CUdeviceptr at, size_t size, enum fm_mem_kind why, const struct fm_cuda_pinner *by)
{
	unsigned shard;

	if (!any())
		return;
	shard = begin();
	for (size_t i = first_behind(at);
		i < vmm.n && (vmm.mapping[i]->at <= at || vmm.mapping[i]->at - at < size); i++)
		pin(handed_of(vmm.mapping[i]), why, true, by);
	end(shard);
}

static void piece_of(
	const struct fm_cu_alias *l, CUdeviceptr at, size_t size, fm_cuda_piece_fn *fn, void *arg)
{
	CUdeviceptr from = FM_MAX(at, l->at), end = FM_MIN(at + size, l->at + l->size);

	if (from < end)
		fn(handed_of(l->of)->on, l->chunk->at + l->offset + (from - l->at), end - from,
			arg);
}

void fm_cuda_vmm_each(CUdeviceptr at, size_t size, fm_cuda_piece_fn *fn, void *arg)
{
	if (!any())
		return;
	pthread_mutex_lock(&vmm.lock);
	for (size_t i = first_behind(at); i < vmm.n && vmm.mapping[i]->at < at + size; i++)
		for (unsigned k = 0; k < vmm.mapping[i]->n; k++)
			piece_of(&vmm.mapping[i]->alias[k], at, size, fn, arg);
	pthread_mutex_unlock(&vmm.lock);
}

static int hold(struct handed *h, enum fm_mem_kind why, bool anywhere, struct fm_cu_holds *holds,
	const struct fm_cuda_pinner *by)
{
	uint64_t bytes = 0;
	int rc = fm_cu_vmm_hold(h->vmm, why, anywhere, holds, &bytes);

	/* No memory to say for how long: for good, unless some of it is on the host. */
	if (rc == -ENOMEM && !pin(h, why, true, by))
		rc = -EBUSY;
	fm_cuda_managed_pinned(h->on, why, bytes);
	if (bytes)
		fm_cuda_managed_named(why, by);
	return rc == -EBUSY ? rc : 0;
}

/* -EBUSY: some of it is on the host, and the others are held. */
int fm_cuda_vmm_hold(CUdeviceptr at, size_t size, enum fm_mem_kind why, bool anywhere,
	struct fm_cu_holds *h, const struct fm_cuda_pinner *by)
{
	unsigned shard;
	int rc = 0;

	if (!any())
		return 0;
	shard = begin();
	for (size_t i = first_behind(at);
		i < vmm.n && (vmm.mapping[i]->at <= at || vmm.mapping[i]->at - at < size); i++)
		rc = hold(handed_of(vmm.mapping[i]), why, anywhere, h, by) ?: rc;
	end(shard);
	return rc;
}

/* Lock held. Pieces of the range; of which so many. */
static unsigned pieces_of(
	const struct fm_cu_vmm *v, size_t offset, size_t size, struct fm_cuda_passed *list)
{
	size_t at = 0, from, to;
	unsigned n = 0;

	for (unsigned i = 0; i < v->n; at += fm_cu_chunk_size(v->chunk[i++])) {
		from = FM_MAX(at, offset);
		to = FM_MIN(at + fm_cu_chunk_size(v->chunk[i]), offset + size);
		if (from < to)
			list[n++] =
				(struct fm_cuda_passed){v->chunk[i]->handle, from - at, to - from};
	}
	return n;
}

static int pass(struct handed *h, size_t offset, size_t size, bool anywhere,
	struct fm_cuda_passed **list, unsigned *n, const struct fm_cuda_pinner *by)
{
	if (!h || !size || offset > h->vmm->size || size > h->vmm->size - offset)
		return -EINVAL;
	*list = malloc(h->vmm->n * sizeof(**list));
	if (!*list)
		return -ENOMEM;
	if (pin(h, FM_MEM_PIN_SHARED, anywhere, by)) {
		*n = pieces_of(h->vmm, offset, size, *list);
		return 0;
	}
	free(*list);
	*list = NULL;
	return -EBUSY;
}

/* What runs from the host is to come to the device first. */
static void want_home(CUmemGenericAllocationHandle handle)
{
	CUdeviceptr at[FM_CUDA_PASSED_HOME];
	struct handed *h;
	unsigned n = 0;

	pthread_mutex_lock(&vmm.calls);
	h = find_handle(handle);
	for (unsigned i = 0; h && i < h->vmm->n && n < FM_CUDA_PASSED_HOME; i++)
		if (h->vmm->chunk[i]->borrowed)
			at[n++] = h->vmm->chunk[i]->at;
	pthread_mutex_unlock(&vmm.calls);
	for (unsigned i = 0; i < n; i++)
		fm_cuda_want_home(at[i], 1);
}

int fm_cuda_vmm_pass(CUmemGenericAllocationHandle handle, size_t offset, size_t size, bool anywhere,
	struct fm_cuda_passed **list, unsigned *n, const struct fm_cuda_pinner *by)
{
	const struct timespec look = {.tv_nsec = (long)FM_CU_HOLD_LOOK};
	uint64_t until = fm_add_sat(fm_now(), FM_CU_HOLD_MOST);
	bool waits = true;
	unsigned shard;
	int rc;
	FM_NO_CANCEL;

	if (!OURS(handle) || !any())
		return -ENOENT;
	for (;;) {
		shard = begin();
		rc = pass(find_handle(handle), offset, size, anywhere && !waits, list, n, by);
		end(shard);
		if (rc != -EBUSY || !waits)
			return rc;
		want_home(handle);
		nanosleep(&look, NULL);
		waits = fm_now() < until;
	}
}

/* How large the memory of a handle of ours is, if it may be passed on by that type; 0: it may not.
 */
static size_t exports(CUmemGenericAllocationHandle handle, int type)
{
	struct handed *h;
	size_t size = 0;

	pthread_mutex_lock(&vmm.calls);
	h = find_handle(handle);
	if (h && h->vmm->kind.handle_types & type)
		size = h->vmm->size;
	pthread_mutex_unlock(&vmm.calls);
	return size;
}

/* Memory that was made without types of handles is not passed on, whatever it is; what was made
 * with some is of one piece. What finds no room on the device is passed on where it is. */
fm_cu_result cuMemExportToShareableHandle(
	void *shared, CUmemGenericAllocationHandle handle, int type, unsigned long long flags)
{
	struct fm_cuda_passed *list = NULL;
	unsigned n = 0;
	size_t size;
	int rc;

	atomic_store(&fm_cuda_kill_exported, true);
	if (OURS(handle) && any()) {
		size = exports(handle, type);
		rc = size ? fm_cuda_vmm_pass(
				    handle, 0, size, true, &list, &n, FM_CUDA_PINNER(__func__))
			  : -EINVAL;
		if (!rc && n == 1)
			handle = list[0].handle;
		free(list);
		if (rc || n != 1)
			return rc == -ENOMEM ? FM_CU_ERROR_OUT_OF_MEMORY
					     : FM_CU_ERROR_INVALID_VALUE;
	}
	return NEXT(cuMemExportToShareableHandle, (shared, handle, type, flags));
}
