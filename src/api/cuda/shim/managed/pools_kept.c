/* SPDX-License-Identifier: Apache-2.0 */
/* Pools whose blocks are ours (async.c): which they are, and what they say of themselves. */
#include "async.h"
#include "base/util.h"
#include <stdlib.h>
#include <string.h>

enum { /* CUmemPool_attribute */
	FOLLOWS_EVENTS = 1,
	ACROSS_INTERNALLY = 3,
	THRESHOLD,
	RESERVED,
	RESERVED_HIGH,
	USED,
	USED_HIGH
};

struct fm_cuda_pool *fm_cuda_pools;

/* Pools that were destroyed go with their last block. */
void fm_cuda_pools_end(void)
{
	struct fm_cuda_pool **at = &fm_cuda_pools, *p;

	while ((p = *at)) {
		if (p->handle || p->used || p->held) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		free(p);
	}
}

/* Lock held. */
struct fm_cuda_pool *fm_cuda_pool_known(CUmemoryPool handle)
{
	struct fm_cuda_pool *p = fm_cuda_pools;

	while (p && p->handle != handle)
		p = p->next;
	return p;
}

/* Lock held. */
static struct fm_cuda_pool *add_pool(CUmemoryPool handle, CUdevice dev)
{
	struct fm_cuda_pool *p = fm_cuda_pool_known(handle);

	p = p ? p : calloc(1, sizeof(*p));
	if (!p || p->handle)
		return p;
	p->handle = handle;
	p->dev = dev;
	p->next = fm_cuda_pools;
	fm_cuda_pools = p;
	return p;
}

/* As the driver has it now. */
static void set(struct fm_cuda_pool *p, int which, const void *value);
static void set_all(struct fm_cuda_pool *p)
{
	for (int which = FOLLOWS_EVENTS; which <= THRESHOLD; which++) {
		uint64_t value = 0;

		if (NEXT(cuMemPoolGetAttribute, (p->handle, which, &value)))
			p->drivers = true;
		else
			set(p, which, &value);
	}
}

/* The pool that the call means: NULL if what it gives is the driver's. */
struct fm_cuda_pool *fm_cuda_pool_of(CUmemoryPool handle, CUdevice dev)
{
	struct fm_cuda_pool *p;

	handle = handle ? handle : fm_cuda_pool_in_use(dev);
	if (!handle)
		return NULL;
	pthread_mutex_lock(&fm_cuda_async_lock);
	p = fm_cuda_pool_known(handle);
	pthread_mutex_unlock(&fm_cuda_async_lock);
	if (!p && fm_cuda_pool_default(dev) != handle)
		return NULL;
	if (!p) {
		pthread_mutex_lock(&fm_cuda_async_lock);
		p = add_pool(handle, dev);
		if (p)
			set_all(p);
		pthread_mutex_unlock(&fm_cuda_async_lock);
	}
	return p && !p->drivers && p->dev == dev ? p : NULL;
}

/* With properties that are kept here. */
void fm_cuda_async_pool_made(CUmemoryPool pool, const struct fm_cu_pool_props *props)
{
	static const char nothing[sizeof(props->reserved)];

	if (fm_cu_inside || !fm_cuda_manages() || props->handle_types || props->attributes ||
		props->most || props->usage || memcmp(props->reserved, nothing, sizeof(nothing)))
		return;
	pthread_mutex_lock(&fm_cuda_async_lock);
	add_pool(pool, props->location.id);
	pthread_mutex_unlock(&fm_cuda_async_lock);
}

void fm_cuda_async_pool_ends(CUmemoryPool pool)
{
	struct fm_cuda_pool *p;

	pthread_mutex_lock(&fm_cuda_async_lock);
	p = fm_cuda_pool_known(pool);
	if (p)
		p->handle = NULL;
	fm_cuda_pools_end();
	pthread_mutex_unlock(&fm_cuda_async_lock);
	fm_cuda_async_look();
}

fm_cu_result cuMemPoolGetAttribute(CUmemoryPool pool, int which, void *value)
{
	fm_cu_result rc = NEXT(cuMemPoolGetAttribute, (pool, which, value));
	const struct fm_cuda_pool *p;

	if (rc || fm_cu_inside || which < RESERVED || which > USED_HIGH)
		return rc;
	pthread_mutex_lock(&fm_cuda_async_lock);
	p = fm_cuda_pool_known(pool);
	if (p)
		*(uint64_t *)value += which == RESERVED        ? p->used + p->held
				      : which == RESERVED_HIGH ? p->reserved_high
				      : which == USED          ? p->used
							       : p->used_high;
	pthread_mutex_unlock(&fm_cuda_async_lock);
	return rc;
}

/* Lock held. */
static void set(struct fm_cuda_pool *p, int which, const void *value)
{
	if (which >= FOLLOWS_EVENTS && which <= ACROSS_INTERNALLY && !*(const int *)value)
		p->drivers = true;
	else if (which == THRESHOLD)
		p->threshold = *(const uint64_t *)value;
	else if (which == RESERVED_HIGH)
		p->reserved_high = p->used + p->held;
	else if (which == USED_HIGH)
		p->used_high = p->used;
}

fm_cu_result cuMemPoolSetAttribute(CUmemoryPool pool, int which, void *value)
{
	fm_cu_result rc = NEXT(cuMemPoolSetAttribute, (pool, which, value));
	struct fm_cuda_pool *p;

	if (rc || fm_cu_inside)
		return rc;
	pthread_mutex_lock(&fm_cuda_async_lock);
	p = fm_cuda_pool_known(pool);
	if (p)
		set(p, which, value);
	pthread_mutex_unlock(&fm_cuda_async_lock);
	return rc;
}

/* The pool's device, also of a default pool that nothing was taken of so far. Negative: none of its
 * blocks is ours. */
static CUdevice device_of(CUmemoryPool pool)
{
	const struct fm_cuda_pool *p;
	CUdevice dev = -1;
	CUmemoryPool own = pool;

	pthread_mutex_lock(&fm_cuda_async_lock);
	p = fm_cuda_pool_known(pool);
	if (p)
		dev = p->dev;
	pthread_mutex_unlock(&fm_cuda_async_lock);
	for (CUdevice d = 0; own && dev < 0 && d < FM_CUDA_MEM_DEVICES; d++) {
		own = fm_cuda_pool_default(d); /* NULL: there is no such device */
		dev = own && own == pool ? d : -1;
	}
	return dev;
}

/* What other devices reach of a pool they reach of the arena. */
fm_cu_result cuMemPoolSetAccess(CUmemoryPool pool, const struct fm_cu_memory_access *what, size_t n)
{
	fm_cu_result rc = NEXT(cuMemPoolSetAccess, (pool, what, n));
	CUdevice dev;

	if (rc || fm_cu_inside || !fm_cuda_manages())
		return rc;
	dev = device_of(pool);
	for (size_t i = 0; dev >= 0 && i < n; i++)
		if (what[i].flags && what[i].location.id != dev)
			fm_cuda_managed_reached(dev, what[i].location.id);
	return rc;
}
