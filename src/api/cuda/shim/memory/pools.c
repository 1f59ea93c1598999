/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory in the order of a stream, and of graphs. The driver takes it from pools, which keep what
 * is freed for a while. So the pool counts: what the driver says that it has reserved, as of the
 * program's last call about memory. What is freed in a stream counts until the pool has given it
 * back, and that is when the driver can use it for something else. A driver that does not tell has
 * the sum of the program's allocations counted instead.
 */
#include "api/cuda/shim/managed/managed.h"
#include "api/cuda/shim/order.h"
#include "memory.h"
#include <errno.h>
#include <pthread.h>

#define POOLS 64 /* of a process: the rest are looked at when they are used */

enum { POOL_RESERVED = 5, GRAPH_RESERVED = 2 }; /* CUmemPool_attribute, CUgraphMem_attribute */

/* X(name here, symbol, parameters) */
/* clang-format off */
#define POOL_CALLS(X) \
	X(get_attribute, "cuMemPoolGetAttribute", (CUmemoryPool pool, int which, void *value)) \
	X(get_pool, "cuDeviceGetMemPool", (CUmemoryPool *pool, CUdevice dev)) \
	X(get_default, "cuDeviceGetDefaultMemPool", (CUmemoryPool *pool, CUdevice dev)) \
	X(trim, "cuMemPoolTrimTo", (CUmemoryPool pool, size_t keep)) \
	X(graph_trim, "cuDeviceGraphMemTrim", (CUdevice dev)) \
	X(graph_attribute, "cuDeviceGetGraphMemAttribute", (CUdevice dev, int which, void *value))
/* clang-format on */

static struct pool_calls {
	POOL_CALLS(FM_CUDA_MEMBER)
} calls;

static void find_calls(void)
{
	struct pool_calls *c = &calls;
	bool all = true;

	POOL_CALLS(FM_CUDA_FIND)
	(void)all;
}

static const struct pool_calls *driver_calls(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_calls);
	return &calls;
}

_Atomic bool fm_cuda_graphs_allocate;

/* --- what the driver has reserved --- */

static struct fm_cuda_block *find(uint64_t pool)
{
	return fm_cuda_blocks_find(&fm_cuda_memory.blocks, FM_CUDA_POOL, pool);
}

/* A pool that was destroyed lives on while something of it is allocated, but cannot be asked. */
#define DESTROYED 2u

static void settle_pool(uint64_t pool)
{
	const struct pool_calls *c = driver_calls();
	uint64_t reserved = 0, used;
	struct fm_cuda_block *b;
	bool asks;

	pthread_mutex_lock(&fm_cuda_memory.lock);
	b = find(pool);
	used = b ? FM_MIN(b->used, (uint64_t)b->bytes) : 0;
	asks = b && b->refs != DESTROYED && c->get_attribute;
	pthread_mutex_unlock(&fm_cuda_memory.lock);
	if (!asks || c->get_attribute((CUmemoryPool)(uintptr_t)pool, POOL_RESERVED, &reserved))
		reserved = used;
	fm_cuda_mem_settle(FM_CUDA_POOL, pool, reserved);
}

static void settle_graphs(CUdevice dev)
{
	const struct pool_calls *c = driver_calls();
	uint64_t reserved;

	if (c->graph_attribute && !c->graph_attribute(dev, GRAPH_RESERVED, &reserved))
		fm_cuda_mem_settle(FM_CUDA_GRAPHS, (uint64_t)dev + 1, reserved);
}

/* What nobody has in use goes back to the device. The driver does that itself before it says that
 * there is no memory. */
static void trim(const struct fm_cuda_block *b)
{
	const struct pool_calls *c = driver_calls();

	if (b->space == FM_CUDA_GRAPHS && c->graph_trim)
		c->graph_trim((CUdevice)b->key - 1);
	else if (b->space == FM_CUDA_POOL && b->refs != DESTROYED && c->trim)
		c->trim((CUmemoryPool)(uintptr_t)b->key, 0);
}

static void settle_all(bool trims)
{
	struct fm_cuda_block all[POOLS], *b;
	size_t n = 0;

	pthread_mutex_lock(&fm_cuda_memory.lock);
	for (size_t at = 0; n < POOLS && (b = fm_cuda_blocks_next(&fm_cuda_memory.blocks, &at));
		at++)
		if (b->space == FM_CUDA_POOL || b->space == FM_CUDA_GRAPHS)
			all[n++] = *b;
	pthread_mutex_unlock(&fm_cuda_memory.lock);
	for (size_t i = 0; i < n; i++) {
		if (trims)
			trim(&all[i]);
		if (all[i].space == FM_CUDA_POOL)
			settle_pool(all[i].key);
		else
			settle_graphs((CUdevice)all[i].key - 1);
	}
}

void fm_cuda_mem_settle_all(void)
{
	fm_cuda_async_look();
	settle_all(false);
}

void fm_cuda_mem_make_room(void)
{
	settle_all(!atomic_load(&fm_cu_captures));
}

/* --- graphs --- */

void fm_cuda_graph_settle_slow(void)
{
	struct fm_cuda_mem_at at = fm_cuda_mem_here();

	if (at.counts)
		settle_graphs(at.dev);
}

/* The driver makes the memory when the graph is first launched, and says then how much it is. So
 * nothing counts yet; but what would not fit now is refused. */
bool fm_cuda_graph_allocates(uint64_t size)
{
	struct fm_cuda_mem_at at = fm_cuda_mem_here();
	const struct fm_cuda_block b = {.key = (uint64_t)at.dev + 1,
		.dev = (int16_t)at.dev,
		.space = FM_CUDA_GRAPHS,
		.kind = FM_MEM_GRAPH};

	if (!at.counts || !size || size > FM_CUDA_MEM_MOST)
		return true;
	size = fm_cuda_mem_round(size, FM_CUDA_MEM_GRANULE);
	if (at.c && !fm_cuda_mem_claim(&at, FM_MEM_GRAPH, size))
		return false;
	if (at.c)
		fm_account_return(at.c, at.row, FM_MEM_GRAPH, size);
	pthread_mutex_lock(&fm_cuda_memory.lock);
	if (!fm_cuda_blocks_find(&fm_cuda_memory.blocks, FM_CUDA_GRAPHS, b.key))
		fm_cuda_blocks_put(&fm_cuda_memory.blocks, &b);
	pthread_mutex_unlock(&fm_cuda_memory.lock);
	atomic_store(&fm_cuda_graphs_allocate, true);
	return true;
}

fm_cu_result cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
	size_t n, struct CUDA_MEM_ALLOC_NODE_PARAMS_st *what)
{
	const struct fm_cu_alloc_node *w = (const void *)what;

	if (w && !fm_cuda_graph_allocates(w->bytes))
		return FM_CU_ERROR_OUT_OF_MEMORY;
	return NEXT(cuGraphAddMemAllocNode, (node, graph, deps, n, what));
}

fm_cu_result cuDeviceGraphMemTrim(CUdevice dev)
{
	fm_cu_result rc = NEXT(cuDeviceGraphMemTrim, (dev));

	if (rc == FM_CU_SUCCESS && atomic_load(&fm_cuda_graphs_allocate))
		settle_graphs(dev);
	return rc;
}

/* --- pools --- */

/* A block that a stream allocates, or one that is captured into a graph. */
struct ordering {
	struct fm_cuda_mem_at at;
	uint64_t pool, size;
};

CUmemoryPool fm_cuda_pool_in_use(CUdevice dev)
{
	const struct pool_calls *c = driver_calls();
	CUmemoryPool pool = NULL;

	return c->get_pool && !c->get_pool(&pool, dev) ? pool : NULL;
}

CUmemoryPool fm_cuda_pool_default(CUdevice dev)
{
	const struct pool_calls *c = driver_calls();
	CUmemoryPool pool = NULL;

	return c->get_default && !c->get_default(&pool, dev) ? pool : NULL;
}

/* Lock held. As many bytes more are in use; a pool that is new has the row of that device. Returns
 * the pool, or NULL. */
static struct fm_cuda_block *use(const struct ordering *o)
{
	struct fm_cuda_block *b = find(o->pool);
	const struct fm_cuda_block anew = {.key = o->pool,
		.dev = (int16_t)o->at.dev,
		.space = FM_CUDA_POOL,
		.kind = FM_MEM_POOL};

	if (!b)
		b = fm_cuda_blocks_put(&fm_cuda_memory.blocks, &anew);
	if (b)
		b->used += o->size;
	return b;
}

/* Lock is not held. How much the pool may have to reserve. */
static int64_t lacking(struct ordering *o, bool begins)
{
	struct fm_cuda_block *b;
	CUdevice dev = o->at.dev;
	int64_t more = 0;

	pthread_mutex_lock(&fm_cuda_memory.lock);
	b = begins ? use(o) : find(o->pool);
	if (b) {
		dev = b->dev;
		more = (int64_t)b->used - b->bytes;
	}
	pthread_mutex_unlock(&fm_cuda_memory.lock);
	o->at.counts = b != NULL;
	if (FM_UNLIKELY(dev != o->at.dev))
		o->at = fm_cuda_mem_on(dev);
	return more;
}

/* The pool counts so much more, and so much more of it is in use. */
static void pool_differs(const struct ordering *o, int64_t counts, int64_t used)
{
	struct fm_cuda_block *b;

	pthread_mutex_lock(&fm_cuda_memory.lock);
	b = find(o->pool);
	if (b) {
		b->bytes += counts;
		b->used += (uint64_t)used;
	}
	pthread_mutex_unlock(&fm_cuda_memory.lock);
}

/* Claims what the pool has not reserved yet. */
static int pool_claim(struct ordering *o)
{
	int64_t more = lacking(o, false);
	int rc = 0;

	if (more > 0 && o->at.c)
		rc = fm_account_claim(o->at.c, o->at.row, FM_MEM_POOL, (uint64_t)more);
	if (!rc && more > 0 && o->at.c)
		pool_differs(o, more, 0);
	return rc;
}

static bool pool_claims(struct ordering *o)
{
	uint64_t until = 0;
	int rc;

	lacking(o, true);
	rc = pool_claim(o);
	if (rc)
		fm_cuda_mem_make_room();
	while (rc && (rc = pool_claim(o)) == -ENOSPC && fm_cuda_mem_room(&o->at, o->size, &until))
		;
	fm_cuda_mem_room_end(&o->at, until);
	if (rc)
		pool_differs(o, 0, -(int64_t)o->size);
	return !rc;
}

static bool order_begin(
	struct ordering *o, CUmemoryPool pool, uint64_t size, CUstream stream, bool per_thread)
{
	o->at = fm_cuda_mem_here();
	o->size = fm_cuda_mem_round(size, 512);
	if (!o->at.counts)
		return true;
	if (FM_UNLIKELY(atomic_load(&fm_cu_captures)) &&
		fm_cuda_capturing(fm_cuda_stream(stream, per_thread))) {
		o->at.counts = false;
		return fm_cuda_graph_allocates(size);
	}
	pool = pool ? pool : fm_cuda_pool_in_use(o->at.dev);
	/* Without a name of its own, the device's own pool has a name of ours. */
	o->pool = pool ? (uintptr_t)pool : (uint64_t)o->at.dev + 1;
	if (!size || size > FM_CUDA_MEM_MOST)
		o->at.counts = false;
	return !o->at.counts || pool_claims(o);
}

static void order_end(const struct ordering *o, const CUdeviceptr *ptr, fm_cu_result rc)
{
	const struct fm_cuda_block b = {.key = rc ? 0 : *ptr,
		.bytes = (int64_t)o->size,
		.of = o->pool,
		.dev = (int16_t)o->at.dev,
		.space = FM_CUDA_ADDRESS,
		.kind = FM_MEM_POOL};
	bool kept;

	if (!o->at.counts)
		return;
	pthread_mutex_lock(&fm_cuda_memory.lock);
	kept = fm_cuda_blocks_put(&fm_cuda_memory.blocks, &b);
	pthread_mutex_unlock(&fm_cuda_memory.lock);
	if (!kept)
		pool_differs(o, 0, -(int64_t)o->size);
	settle_pool(o->pool);
}

void fm_cuda_pool_freed(uint64_t pool, uint64_t size)
{
	struct fm_cuda_block *b;
	bool ended;

	pthread_mutex_lock(&fm_cuda_memory.lock);
	b = find(pool);
	if (b)
		b->used -= size;
	ended = b && b->refs == DESTROYED && !b->used;
	pthread_mutex_unlock(&fm_cuda_memory.lock);
	if (b)
		settle_pool(pool);
	if (!ended)
		return;
	pthread_mutex_lock(&fm_cuda_memory.lock);
	b = find(pool);
	if (b && b->refs == DESTROYED && !b->used && !b->bytes)
		fm_cuda_blocks_erase(&fm_cuda_memory.blocks, b);
	pthread_mutex_unlock(&fm_cuda_memory.lock);
}

#define IN_ORDER(call, stream, per_thread)                                       \
	({                                                                       \
		struct fm_cuda_order order_ =                                    \
			fm_cuda_ordering(stream, per_thread, FM_CUDA_FOR_PLAIN); \
		fm_cu_result did_;                                               \
                                                                                 \
		fm_cu_inside++;                                                  \
		did_ = (call);                                                   \
		fm_cu_inside--;                                                  \
		fm_cuda_ordered(order_, fm_cuda_stream(stream, per_thread));     \
		did_;                                                            \
	})

/* NULL in the place of a pool is the driver's to refuse. */
#define IS_NO_POOL(pool) _Generic((pool), CUmemoryPool : !(pool), default : false)

#define ALLOC_ORDERED(symbol, per_thread, params, ptr, n, pool, stream)                     \
	fm_cu_result symbol CALL_PARAMS(params)                                             \
	{                                                                                   \
		struct ordering o;                                                          \
		fm_cu_result rc = FM_CUDA_NOT_MANAGED;                                      \
                                                                                            \
		if (IS_NO_POOL(pool))                                                       \
			return NEXT(symbol, CALL_ARGS(params));                             \
		rc = fm_cuda_async_alloc(ptr, n, pool, fm_cuda_stream(stream, per_thread)); \
		if (rc != FM_CUDA_NOT_MANAGED)                                              \
			return rc;                                                          \
		if (!order_begin(&o, pool, n, stream, per_thread))                          \
			return FM_CU_ERROR_OUT_OF_MEMORY;                                   \
		rc = FM_CUDA_WITH_ROOM(&o.at, o.size,                                       \
			IN_ORDER(NEXT(symbol, CALL_ARGS(params)), stream, per_thread));     \
		order_end(&o, ptr, rc);                                                     \
		return rc;                                                                  \
	}
#define ALLOC_LINEAR(...)
#define ALLOC_PLAIN(...)
#define ALLOC_PITCH(...)
#define ALLOC_MANAGED(...)
#define ALLOC_ARRAY(...)
#define ALLOC_(...)
#define ON_alloc(symbol, per_thread, name, since, note, params, how, ...) \
	ALLOC_##how(symbol, per_thread, params, __VA_ARGS__)

/* What a graph will free each time that it is launched is not ended by this call. Memory of
 * cuMemAlloc() counts no more from here on, though the stream may have to come here first. */
static struct fm_cuda_ending order_take(CUdeviceptr ptr, CUstream stream, bool per_thread)
{
	if (FM_UNLIKELY(atomic_load(&fm_cu_captures)) &&
		fm_cuda_capturing(fm_cuda_stream(stream, per_thread)))
		return (struct fm_cuda_ending){.contexts = 0};
	return fm_cuda_mem_take(FM_CUDA_ADDRESS, ptr);
}

#define RELEASE_ORDERED(symbol, per_thread, params, ptr, stream)                               \
	fm_cu_result symbol CALL_PARAMS(params)                                                \
	{                                                                                      \
		fm_cu_result rc = fm_cuda_async_free(ptr, fm_cuda_stream(stream, per_thread)); \
		struct fm_cuda_ending e;                                                       \
                                                                                               \
		if (rc != FM_CUDA_NOT_MANAGED)                                                 \
			return rc;                                                             \
		e = order_take(ptr, stream, per_thread);                                       \
		rc = IN_ORDER(NEXT(symbol, CALL_ARGS(params)), stream, per_thread);            \
		return fm_cuda_mem_ended(&e, rc);                                              \
	}
#define RELEASE_HOST(...)
#define RELEASE_DEVICE(...)
#define RELEASE_ARRAY(...)
#define RELEASE_(...)
#define ON_release(symbol, per_thread, name, since, note, params, what, ...) \
	RELEASE_##what(symbol, per_thread, params, __VA_ARGS__)
#include "api/cuda/calls.def"

/* The pool's device is not always the current one's. */
fm_cu_result cuMemPoolCreate(CUmemoryPool *pool, const struct CUmemPoolProps_st *props)
{
	fm_cu_result rc = NEXT(cuMemPoolCreate, (pool, props));
	const struct fm_cu_pool_props *p = (const void *)props;
	struct ordering o = {.size = 0};
	struct fm_cuda_block *b;

	if (rc != FM_CU_SUCCESS || p->location.type != FM_CU_LOCATION_DEVICE)
		return rc;
	o.at = fm_cuda_mem_on(p->location.id);
	o.pool = (uintptr_t)*pool;
	fm_cuda_async_pool_made(*pool, p);
	if (!o.at.counts)
		return rc;
	pthread_mutex_lock(&fm_cuda_memory.lock);
	b = use(&o);
	if (b)
		b->refs = 0;
	pthread_mutex_unlock(&fm_cuda_memory.lock);
	return rc;
}

fm_cu_result cuMemPoolDestroy(CUmemoryPool pool)
{
	fm_cu_result rc;
	struct fm_cuda_block *b;

	pthread_mutex_lock(&fm_cuda_memory.lock);
	b = find((uintptr_t)pool);
	if (b)
		b->refs = DESTROYED;
	pthread_mutex_unlock(&fm_cuda_memory.lock);
	rc = NEXT(cuMemPoolDestroy, (pool));
	if (rc == FM_CU_SUCCESS && !fm_cu_inside)
		fm_cuda_async_pool_ends(pool);
	if (!b)
		return rc;
	if (rc != FM_CU_SUCCESS) {
		pthread_mutex_lock(&fm_cuda_memory.lock);
		b = find((uintptr_t)pool);
		if (b)
			b->refs = 0;
		pthread_mutex_unlock(&fm_cuda_memory.lock);
	}
	fm_cuda_pool_freed((uintptr_t)pool, 0);
	return rc;
}

fm_cu_result cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
	fm_cu_result rc = NEXT(cuMemPoolTrimTo, (pool, keep));

	if (rc == FM_CU_SUCCESS && !fm_cu_inside) {
		fm_cuda_async_trim(pool, keep);
		settle_pool((uintptr_t)pool);
	}
	return rc;
}
