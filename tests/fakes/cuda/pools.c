/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory in the order of streams. What is freed in a stream is given to the next allocation of that
 * stream at once, to others when the stream has got so far; a pool gives to the device what nobody
 * has at the next synchronization, above its threshold.
 */
#include "pools.h"
#include <stdlib.h>
#include <string.h>

struct CUmemPool_st {
	struct CUmemPool_st *next;
	CUdevice dev;
	bool own, dead; /* the device's own; destroyed, with memory that is in use still */
	uint64_t threshold, most, reserved_high, used_high;
	int reuse[3];
	unsigned char access[FK_DEVICES];
};

static CUmemoryPool pools;
static CUmemoryPool defaults[FK_DEVICES], current[FK_DEVICES];

static bool known(CUmemoryPool pool)
{
	CUmemoryPool p = pools;

	while (p && p != pool)
		p = p->next;
	return p && !p->dead;
}

static CUmemoryPool new_pool(CUdevice dev)
{
	CUmemoryPool p = calloc(1, sizeof(*p));

	if (!p)
		fk_die("no memory for a pool");
	*p = (struct CUmemPool_st){.next = pools, .dev = dev, .reuse = {1, 1, 1}};
	pools = p;
	return p;
}

static CUmemoryPool default_of(CUdevice dev)
{
	if (!defaults[dev]) {
		defaults[dev] = new_pool(dev);
		defaults[dev]->own = true;
	}
	return defaults[dev];
}

static CUmemoryPool current_of(CUdevice dev)
{
	return current[dev] ? current[dev] : default_of(dev);
}

static uint64_t reserved(CUmemoryPool pool)
{
	uint64_t n = 0;

	for (const struct fk_alloc *b = fk_allocs; b; b = b->next)
		n += b->pool == pool ? b->takes : 0;
	return n;
}

static uint64_t used(CUmemoryPool pool)
{
	uint64_t n = 0;

	for (const struct fk_alloc *b = fk_allocs; b; b = b->next)
		n += b->pool == pool && !b->freed ? b->takes : 0;
	return n;
}

static void trim(CUmemoryPool pool, uint64_t keep)
{
	struct fk_alloc *b, *next;
	uint64_t has = reserved(pool);

	for (b = fk_allocs; b && has > keep; b = next) {
		next = b->next;
		if (b->pool != pool || !b->freed || !fk_passed(b->after))
			continue;
		has -= b->takes;
		fk_alloc_drop(b);
	}
}

static void end_dead(void)
{
	CUmemoryPool *at = &pools, p;

	while ((p = *at)) {
		if (p->dead)
			trim(p, 0);
		if (!p->dead || reserved(p)) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		free(p);
	}
}

void fk_pools_synced(void)
{
	for (CUmemoryPool p = pools; p; p = p->next)
		trim(p, p->threshold);
	end_dead();
}

/* --- allocations --- */

static struct fk_alloc *reuse(CUmemoryPool pool, size_t size, CUstream s)
{
	struct fk_alloc *b = fk_allocs;

	while (b && (b->pool != pool || !b->freed || b->size < size || b->size / 2 > size ||
			    (b->after.stream != s && !fk_passed(b->after))))
		b = b->next;
	if (b)
		b->freed = false;
	return b;
}

static struct fk_alloc *fresh(CUmemoryPool pool, size_t size)
{
	struct fk_alloc *b;

	if (pool->most && (size > pool->most || reserved(pool) > pool->most - size))
		return NULL;
	b = fk_alloc_new(size);
	for (CUmemoryPool p = pools; p && !b; p = p->next)
		trim(p, 0);
	b = b ? b : fk_alloc_new(size);
	if (b)
		b->pool = pool;
	return b;
}

static fm_cu_result from_pool(CUdeviceptr *d, size_t size, CUmemoryPool pool, CUstream s)
{
	struct fk_alloc *b = reuse(pool, size, s);
	uint64_t n;

	b = b ? b : fresh(pool, size);
	if (!b)
		return CU_OUT_OF_MEMORY;
	n = reserved(pool);
	pool->reserved_high = n > pool->reserved_high ? n : pool->reserved_high;
	n = used(pool);
	pool->used_high = n > pool->used_high ? n : pool->used_high;
	*d = (uintptr_t)b->p;
	return FM_CU_SUCCESS;
}

/* An address; the memory comes with a launch. */
static struct fk_alloc *for_graph(size_t size)
{
	struct fk_alloc *b = fk_alloc_new(size);

	if (b) {
		fk_alloc_uncharge(b);
		b->of_graph = true;
	}
	return b;
}

static fm_cu_result capture(CUdeviceptr *d, size_t size, CUstream stream)
{
	struct fk_alloc *b = for_graph(size);
	struct fk_work w = {.what = FK_ALLOC, .set = {.n = size}};

	if (!b)
		return CU_OUT_OF_MEMORY;
	w.set.dst = b->p;
	*d = (uintptr_t)b->p;
	return fk_enqueue(stream, &w, NULL);
}

/* The pointer is valid at once. */
static fm_cu_result allocate(CUdeviceptr *d, size_t size, CUmemoryPool pool, CUstream stream)
{
	struct fk_work nothing = {0};
	fm_cu_result rc;
	CUstream s;

	FK_TRY(fk_enter_ctx());
	if (!d || !size || (pool && !known(pool)))
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	rc = fk_stream_find(stream, &s);
	if (!rc && s->capture)
		return fk_leave(capture(d, size, stream));
	rc = rc ? rc : fk_enqueue(stream, &nothing, NULL);
	return fk_leave(rc ? rc : from_pool(d, size, pool ? pool : current_of(s->ctx->dev), s));
}

fm_cu_result cuMemAllocAsync(CUdeviceptr *d, size_t size, CUstream stream)
{
	FK_TRY(fk_fails(__func__));
	return allocate(d, size, NULL, stream);
}

fm_cu_result cuMemAllocFromPoolAsync(
	CUdeviceptr *d, size_t size, CUmemoryPool pool, CUstream stream)
{
	FK_TRY(fk_fails(__func__));
	return pool ? allocate(d, size, pool, stream) : FM_CU_ERROR_INVALID_VALUE;
}

bool fk_pool_takes_back(struct fk_alloc *b)
{
	if (b->of_graph)
		b->allocated = false;
	else if (b->pool)
		b->freed = true;
	b->after = (struct fk_point){0};
	end_dead();
	return b->of_graph || b->pool;
}

/* What others have in their order is not theirs any more: they may find anything there. */
static void run_free(struct fk_work *w)
{
	struct fk_alloc *b;

	if (fk_env("FAKE_CUDA_DIRTY"))
		memset(w->set.dst, 0xdb, w->set.n);
	pthread_mutex_lock(&fk.lock);
	for (b = fk_allocs; b && b->p != w->set.dst;)
		b = b->next;
	if (b && b->freed && !b->pool)
		fk_alloc_drop(b);
	pthread_mutex_unlock(&fk.lock);
}

fm_cu_result cuMemFreeAsync(CUdeviceptr d, CUstream stream)
{
	struct fk_work w = {.what = FK_FREE, .set.dst = (void *)(uintptr_t)d};
	struct fk_alloc *b;
	fm_cu_result rc;
	CUstream s;

	FK_TRY(fk_fails(__func__));
	FK_TRY(fk_enter_ctx());
	b = fk_alloc_at(w.set.dst);
	if (!b)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	rc = fk_stream_find(stream, &s);
	if (!rc && s->capture && !b->of_graph)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	if (rc || s->capture)
		return fk_leave(rc ? rc : fk_enqueue(stream, &w, NULL));
	if (b->of_graph && !b->allocated)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	w.run = b->of_graph ? NULL : run_free;
	w.set.n = b->size;
	b->allocated = false;
	b->freed = !b->of_graph;
	rc = fk_enqueue(stream, &w, &b->after);
	b->freed &= !rc;
	return fk_leave(rc);
}

/* --- pools --- */

fm_cu_result cuMemPoolCreate(CUmemoryPool *pool, const struct cu_pool_prop *prop)
{
	fm_cu_result rc;

	FK_TRY(fk_fails(__func__));
	FK_TRY(fk_enter());
	if (!pool || !prop || prop->type != CU_CHUNK_PINNED)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	if (prop->location.type != CU_LOCATION_DEVICE)
		return fk_leave(FM_CU_ERROR_NOT_SUPPORTED);
	rc = fk_device(pool, prop->location.id);
	if (rc)
		return fk_leave(rc);
	*pool = new_pool(prop->location.id);
	(*pool)->most = prop->most;
	return fk_leave(FM_CU_SUCCESS);
}

/* What is in use is freed in its order. */
fm_cu_result cuMemPoolDestroy(CUmemoryPool pool)
{
	FK_TRY(fk_enter());
	if (!known(pool) || pool->own)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	if (current[pool->dev] == pool)
		current[pool->dev] = NULL;
	pool->dead = true;
	end_dead();
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
	FK_TRY(fk_fails(__func__));
	FK_TRY(fk_enter());
	if (!known(pool))
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	trim(pool, keep);
	return fk_leave(FM_CU_SUCCESS);
}

/* A pool's own device always has access. */
fm_cu_result cuMemPoolSetAccess(CUmemoryPool pool, const struct cu_access *access, size_t n)
{
	FK_TRY(fk_enter());
	if (!known(pool) || !access)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	for (size_t i = 0; i < n; i++) {
		if (access[i].location.type != CU_LOCATION_DEVICE ||
			fk_device(access, access[i].location.id) ||
			(access[i].flags != CU_ACCESS_NONE && access[i].flags != CU_ACCESS_BOTH) ||
			(access[i].location.id == pool->dev && !access[i].flags))
			return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	}
	for (size_t i = 0; i < n; i++)
		pool->access[access[i].location.id] = (unsigned char)access[i].flags;
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuMemPoolGetAccess(int *flags, CUmemoryPool pool, struct cu_location *location)
{
	FK_TRY(fk_enter());
	if (!known(pool) || !flags || !location || location->type != CU_LOCATION_DEVICE ||
		fk_device(location, location->id))
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	*flags = location->id == pool->dev ? CU_ACCESS_BOTH : pool->access[location->id];
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuMemPoolGetAttribute(CUmemoryPool pool, int which, void *value)
{
	uint64_t *v = value;

	FK_TRY(fk_enter());
	if (!known(pool) || !value || which < 1 || which > CU_POOL_USED_HIGH)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	if (which < CU_POOL_THRESHOLD)
		*(int *)value = pool->reuse[which - 1];
	else if (which == CU_POOL_THRESHOLD)
		*v = pool->threshold;
	else if (which == CU_POOL_RESERVED)
		*v = reserved(pool);
	else if (which == CU_POOL_RESERVED_HIGH)
		*v = pool->reserved_high;
	else
		*v = which == CU_POOL_USED ? used(pool) : pool->used_high;
	return fk_leave(FM_CU_SUCCESS);
}

/* The greatest figures can be set to nought alone. */
fm_cu_result cuMemPoolSetAttribute(CUmemoryPool pool, int which, void *value)
{
	fm_cu_result rc = FM_CU_SUCCESS;

	FK_TRY(fk_enter());
	if (!known(pool) || !value)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	if (which >= 1 && which < CU_POOL_THRESHOLD)
		pool->reuse[which - 1] = *(int *)value;
	else if (which == CU_POOL_THRESHOLD)
		pool->threshold = *(uint64_t *)value;
	else if (which == CU_POOL_RESERVED_HIGH && !*(uint64_t *)value)
		pool->reserved_high = reserved(pool);
	else if (which == CU_POOL_USED_HIGH && !*(uint64_t *)value)
		pool->used_high = used(pool);
	else
		rc = FM_CU_ERROR_INVALID_VALUE;
	return fk_leave(rc);
}

static fm_cu_result pool_of(CUmemoryPool *pool, CUdevice dev, CUmemoryPool (*of)(CUdevice dev))
{
	fm_cu_result rc;

	FK_TRY(fk_enter());
	rc = fk_device(pool, dev);
	if (!rc)
		*pool = of(dev);
	return fk_leave_any(rc);
}

fm_cu_result cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice dev)
{
	return pool_of(pool, dev, default_of);
}

fm_cu_result cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
	return pool_of(pool, dev, current_of);
}

fm_cu_result cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
	fm_cu_result rc;

	FK_TRY(fk_enter());
	rc = fk_device(&pool, dev);
	if (!rc && (!known(pool) || pool->dev != dev))
		rc = FM_CU_ERROR_INVALID_VALUE;
	if (!rc)
		current[dev] = pool;
	return fk_leave(rc);
}

/* --- graphs --- */

static uint64_t graph_high[FK_DEVICES][2];

static uint64_t of_graphs(CUdevice dev, bool in_use)
{
	uint64_t n = 0;

	for (const struct fk_alloc *b = fk_allocs; b; b = b->next)
		if (b->of_graph && b->ctx->dev == dev && (b->allocated || !in_use))
			n += b->takes;
	return n;
}

static void note_high(CUdevice dev)
{
	for (int i = 0; i < 2; i++) {
		uint64_t n = of_graphs(dev, !i);

		graph_high[dev][i] = n > graph_high[dev][i] ? n : graph_high[dev][i];
	}
}

static fm_cu_result step(const struct fk_work *w, bool frees_on_launch)
{
	struct fk_alloc *b = fk_alloc_at(w->set.dst);

	if (!b || !b->of_graph)
		return FM_CU_SUCCESS;
	if (w->what == FK_FREE) {
		b->allocated = false;
		return FM_CU_SUCCESS;
	}
	if (b->allocated && !frees_on_launch)
		return FM_CU_ERROR_INVALID_VALUE;
	if (!b->takes && !fk_alloc_charge(b))
		return CU_OUT_OF_MEMORY;
	b->allocated = true;
	note_high(b->ctx->dev);
	return FM_CU_SUCCESS;
}

fm_cu_result fk_graph_memory(const struct fk_plan *p, bool frees_on_launch)
{
	const struct fk_work *w;

	for (size_t i = 0; (w = fk_plan_next(p, &i));)
		if (w->what == FK_ALLOC || w->what == FK_FREE)
			FK_TRY(step(w, frees_on_launch));
	return FM_CU_SUCCESS;
}

bool fk_graph_allocates(CUgraph graph)
{
	for (CUgraphNode n = graph->first; n; n = n->next)
		if (n->work.what == FK_ALLOC || n->work.what == FK_FREE)
			return true;
	return false;
}

fm_cu_result cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
	size_t n, struct cu_alloc_node *what)
{
	struct fk_work w = {.what = FK_ALLOC};
	struct fk_alloc *b;

	FK_TRY(fk_fails(__func__));
	FK_TRY(fk_enter_ctx());
	if (!what || !what->size || what->pool.location.type != CU_LOCATION_DEVICE ||
		!fk_graph_known(graph))
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	b = for_graph(what->size);
	if (!b)
		return fk_leave(CU_OUT_OF_MEMORY);
	w.set.dst = b->p;
	w.set.n = what->size;
	what->d = (uintptr_t)b->p;
	return fk_leave(fk_graph_compose(node, graph, deps, n, &w));
}

fm_cu_result cuGraphMemAllocNodeGetParams(CUgraphNode node, struct cu_alloc_node *what)
{
	FK_TRY(fk_enter());
	if (!node || !what || node->work.what != FK_ALLOC)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	*what = (struct cu_alloc_node){
		.pool = {.type = CU_CHUNK_PINNED, .location = {.type = CU_LOCATION_DEVICE}},
		.size = node->work.set.n,
		.d = (uintptr_t)node->work.set.dst};
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuGraphAddMemFreeNode(
	CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n, CUdeviceptr d)
{
	struct fk_work w = {.what = FK_FREE, .set.dst = (void *)(uintptr_t)d};
	struct fk_alloc *b;

	FK_TRY(fk_fails(__func__));
	FK_TRY(fk_enter_ctx());
	b = fk_alloc_at(w.set.dst);
	if (!b || !b->of_graph)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	return fk_leave(fk_graph_compose(node, graph, deps, n, &w));
}

fm_cu_result cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *d)
{
	FK_TRY(fk_enter());
	if (!node || !d || node->work.what != FK_FREE)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	*d = (uintptr_t)node->work.set.dst;
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuDeviceGetGraphMemAttribute(CUdevice dev, int which, void *value)
{
	fm_cu_result rc;

	FK_TRY(fk_enter());
	rc = which < 0 || which > 3 ? FM_CU_ERROR_INVALID_VALUE : fk_device(value, dev);
	if (!rc && which & 1)
		*(uint64_t *)value = graph_high[dev][which / 2];
	else if (!rc)
		*(uint64_t *)value = of_graphs(dev, !which);
	return fk_leave(rc);
}

fm_cu_result cuDeviceGraphMemTrim(CUdevice dev)
{
	fm_cu_result rc;

	FK_TRY(fk_enter());
	rc = fk_device(&dev, dev);
	for (struct fk_alloc *b = fk_allocs; b && !rc; b = b->next)
		if (b->of_graph && !b->allocated && b->ctx->dev == dev)
			fk_alloc_uncharge(b);
	return fk_leave(rc);
}
