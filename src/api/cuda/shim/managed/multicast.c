/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups of memory to which several devices write at once (multicast). What is bound to one stays
 * on the device. Memory of ours may be of several pieces where the driver's would be of one, so one
 * binding of the program's may be several of the driver's; and the driver wants each of them to be
 * ended as it was made.
 */
#include "base/lockorder.h"
#include "managed.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

/* A binding of the program's that is several. */
struct bound {
	struct bound *next;
	CUmemGenericAllocationHandle group;
	CUdevice dev; /* the memory's: each has one of its own there */
	size_t at, size;
	unsigned n;
	size_t piece[];
};

static struct {
	pthread_mutex_t lock;
	struct bound *all;
} bound = {.lock = PTHREAD_MUTEX_INITIALIZER};
FM_LOCK_RANK(bound.lock, CUDA_MULTICAST);

static _Atomic bool any; /* has there been one? */

void fm_cuda_multicast_fork_child(void)
{
	bound.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	bound.all = NULL;
}

/* What is to be bound, and how the driver is asked for it. */
struct binding {
	CUmemGenericAllocationHandle group, handle;
	CUdevice dev; /* of the calls that have it */
	size_t at, offset, size;
	CUdeviceptr p; /* of the calls by address */
	unsigned long long flags;
	fm_cu_result (*call)(const struct binding *b);
};

static fm_cu_result by_handle(const struct binding *b)
{
	return NEXT(cuMulticastBindMem, (b->group, b->at, b->handle, b->offset, b->size, b->flags));
}

static fm_cu_result by_handle_v2(const struct binding *b)
{
	return NEXT(cuMulticastBindMem_v2,
		(b->group, b->dev, b->at, b->handle, b->offset, b->size, b->flags));
}

static fm_cu_result by_address(const struct binding *b)
{
	return NEXT(cuMulticastBindAddr, (b->group, b->at, b->p, b->size, b->flags));
}

static fm_cu_result by_address_v2(const struct binding *b)
{
	return NEXT(cuMulticastBindAddr_v2, (b->group, b->dev, b->at, b->p, b->size, b->flags));
}

static struct bound *take(CUmemGenericAllocationHandle group, CUdevice dev, size_t at)
{
	struct bound **p, *b;

	pthread_mutex_lock(&bound.lock);
	for (p = &bound.all; (b = *p) && (b->group != group || b->dev != dev || b->at != at);
		p = &b->next)
		;
	if (b)
		*p = b->next;
	pthread_mutex_unlock(&bound.lock);
	return b;
}

static void put(struct bound *b)
{
	pthread_mutex_lock(&bound.lock);
	b->next = bound.all;
	bound.all = b;
	atomic_store(&any, true);
	pthread_mutex_unlock(&bound.lock);
}

/* What the driver says to the last of those that it refuses. */
static fm_cu_result unbind(const struct bound *b)
{
	fm_cu_result rc = FM_CU_SUCCESS, is;
	size_t at = b->at;

	for (unsigned i = 0; i < b->n; at += b->piece[i++]) {
		is = NEXT(cuMulticastUnbind, (b->group, b->dev, at, b->piece[i]));
		rc = is ? is : rc;
	}
	return rc;
}

static fm_cu_result bind_pieces(
	const struct binding *b, const struct fm_cuda_passed *list, unsigned n, CUdevice dev)
{
	struct bound *made = malloc(sizeof(*made) + n * sizeof(*made->piece));
	struct binding one = *b;
	fm_cu_result rc = made ? FM_CU_SUCCESS : FM_CU_ERROR_OUT_OF_MEMORY;

	if (rc)
		return rc;
	*made = (struct bound){.group = b->group, .dev = dev, .at = b->at, .size = b->size};
	for (unsigned i = 0; i < n && !rc; i++) {
		one.handle = list[i].handle;
		one.offset = list[i].offset;
		one.size = made->piece[i] = list[i].size;
		rc = b->call(&one);
		one.at += one.size;
		one.p += one.size;
		made->n += !rc;
	}
	if (rc) {
		unbind(made);
		free(made);
		return rc;
	}
	put(made);
	return rc;
}

static fm_cu_result bind(
	struct binding *b, const struct fm_cuda_passed *list, unsigned n, CUdevice dev)
{
	if (n > 1)
		return bind_pieces(b, list, n, dev);
	if (n) {
		b->handle = list->handle;
		b->offset = list->offset;
	}
	return b->call(b);
}

/* --- by handle --- */

static fm_cu_result bind_memory(struct binding *b, const struct fm_cuda_pinner *by)
{
	struct fm_cuda_passed *list = NULL;
	struct fm_cu_memory_kind kind = {0};
	fm_cu_result rc = FM_CU_ERROR_INVALID_VALUE;
	unsigned n = 0;

	switch (fm_cuda_vmm_pass(b->handle, b->offset, b->size, false, &list, &n, by)) {
	case 0:
		if (!cuMemGetAllocationPropertiesFromHandle((void *)&kind, b->handle))
			rc = bind(b, list, n, kind.location.id);
		break;
	case -ENOENT:
		rc = bind(b, NULL, 0, 0);
		break;
	case -EBUSY:
	case -ENOMEM:
		rc = FM_CU_ERROR_OUT_OF_MEMORY;
		break;
	default:
		break;
	}
	free(list);
	return rc;
}

/* These wait for other processes. */
fm_cu_result cuMulticastBindMem(CUmemGenericAllocationHandle group, size_t at,
	CUmemGenericAllocationHandle handle, size_t offset, size_t size, unsigned long long flags)
{
	return bind_memory(&(struct binding){.group = group,
				   .at = at,
				   .handle = handle,
				   .offset = offset,
				   .size = size,
				   .flags = flags,
				   .call = by_handle},
		FM_CUDA_PINNER(__func__));
}

fm_cu_result cuMulticastBindMem_v2(CUmemGenericAllocationHandle group, CUdevice dev, size_t at,
	CUmemGenericAllocationHandle handle, size_t offset, size_t size, unsigned long long flags)
{
	return bind_memory(&(struct binding){.group = group,
				   .dev = dev,
				   .at = at,
				   .handle = handle,
				   .offset = offset,
				   .size = size,
				   .flags = flags,
				   .call = by_handle_v2},
		FM_CUDA_PINNER(__func__));
}

/* --- by address --- */

/* Parts of what is mapped there, each of one piece. */
struct parts {
	struct fm_cuda_passed *list;
	unsigned n, room;
	size_t sum;
	CUdevice dev;
};

static void add_part(struct fm_cuda_managed *m, CUdeviceptr at, size_t size, void *arg)
{
	struct parts *p = arg;
	unsigned room = p->room ? 2 * p->room : 8;
	struct fm_cuda_passed *more;

	(void)at;
	if (p->n == p->room) {
		more = realloc(p->list, room * sizeof(*more));
		if (!more)
			return;
		p->list = more;
		p->room = room;
	}
	p->list[p->n++] = (struct fm_cuda_passed){.size = size};
	p->sum += size;
	p->dev = m->dev;
}

/* What is not all ours is for the driver to judge. */
static fm_cu_result bind_address(struct binding *b, const struct fm_cuda_pinner *by)
{
	struct parts p = {0};
	fm_cu_result rc;

	fm_cuda_managed_pin(b->p, FM_MEM_PIN_SHARED, by);
	fm_cuda_vmm_pin(b->p, b->size, FM_MEM_PIN_SHARED, by);
	fm_cuda_vmm_each(b->p, b->size, add_part, &p);
	rc = bind(b, p.list, p.sum == b->size && p.n > 1 ? p.n : 0, p.dev);
	free(p.list);
	return rc;
}

fm_cu_result cuMulticastBindAddr(CUmemGenericAllocationHandle group, size_t at, CUdeviceptr p,
	size_t size, unsigned long long flags)
{
	return bind_address(&(struct binding){.group = group,
				    .at = at,
				    .p = p,
				    .size = size,
				    .flags = flags,
				    .call = by_address},
		FM_CUDA_PINNER(__func__));
}

fm_cu_result cuMulticastBindAddr_v2(CUmemGenericAllocationHandle group, CUdevice dev, size_t at,
	CUdeviceptr p, size_t size, unsigned long long flags)
{
	return bind_address(&(struct binding){.group = group,
				    .dev = dev,
				    .at = at,
				    .p = p,
				    .size = size,
				    .flags = flags,
				    .call = by_address_v2},
		FM_CUDA_PINNER(__func__));
}

/* --- the end --- */

fm_cu_result cuMulticastUnbind(
	CUmemGenericAllocationHandle group, CUdevice dev, size_t at, size_t size)
{
	struct bound *b = take(group, dev, at);
	fm_cu_result rc;

	if (!b || b->size != size) {
		if (b)
			put(b);
		return NEXT(cuMulticastUnbind, (group, dev, at, size));
	}
	rc = unbind(b);
	free(b);
	return rc;
}

/* The handle may be another group's from now on. */
void fm_cuda_multicast_released(CUmemGenericAllocationHandle group)
{
	struct bound **p = &bound.all, *b;

	if (FM_LIKELY(!atomic_load_explicit(&any, memory_order_relaxed)))
		return;
	pthread_mutex_lock(&bound.lock);
	while ((b = *p)) {
		if (b->group != group) {
			p = &b->next;
			continue;
		}
		*p = b->next;
		free(b);
	}
	pthread_mutex_unlock(&bound.lock);
}
