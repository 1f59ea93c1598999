/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory in the order of streams, which is blocks of ours: of pools (cuMemAllocAsync), and what
 * cuMemFreeAsync() frees of any. A block that is freed in a stream is given to the stream's next
 * allocation that it fits at once, for what that does comes after; to others when an event that was
 * recorded behind the free has passed.
 *
 * A pool is still the driver's: it has nothing, and its figures are the driver's and ours together.
 * Pools with properties that are not kept here are the driver's altogether: those that can be
 * exported, that have a limit of their own, or that do not use memory again for other streams. So
 * is what is allocated while a graph is captured into.
 *
 * What is free goes back to the arena above the pool's threshold, and above what was in use at
 * most.
 */
#include "async.h"
#include "api/cuda/shim/order.h"
#include "base/lockorder.h"
#include "base/util.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A block that was freed in a stream. */
struct freed {
	struct freed *next;
	CUdeviceptr at;
	size_t size;
	struct fm_cuda_pool *pool; /* NULL: it was of cuMemAlloc() */
	CUdevice dev;
	uint64_t stream; /* the driver's number of it; 0: nobody's order */
	uint64_t number; /* of the free */
	CUevent event;   /* NULL: until all of the arena's context has finished, or `passed` */
	CUcontext ctx;   /* the event's */
	bool passed;
	bool elsewhere; /* freed in a stream of another context, without an event: never passes */
};

pthread_mutex_t fm_cuda_async_lock = PTHREAD_MUTEX_INITIALIZER;
FM_LOCK_RANK(fm_cuda_async_lock, CUDA_ASYNC);

static struct {
	struct freed *first, **end; /* in the order of the frees */
	struct fm_cuda_blocks live; /* of pools */
	struct {
		CUevent event;
		CUdevice dev;
	} idle[64];
	unsigned n_idle;
	uint64_t frees;
	_Atomic size_t n_freed;
} async = {.end = &async.first};

void fm_cuda_async_fork_child(void)
{
	fm_cuda_async_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	async.first = NULL;
	async.end = &async.first;
	fm_cuda_pools = NULL;
	memset(&async.live, 0, sizeof(async.live));
	async.n_idle = 0;
	atomic_store(&async.n_freed, 0);
}

/* --- events; with the lock, but new_event() --- */

static void keep_event(struct freed *f)
{
	if (!f->event)
		return;
	/* Which of several contexts an event is of is not known here. */
	if (async.n_idle < FM_ARRAY_LEN(async.idle) && !fm_cuda_several_contexts()) {
		async.idle[async.n_idle].event = f->event;
		async.idle[async.n_idle++].dev = f->dev;
	} else {
		fm_cuda_driver()->event_destroy(f->event);
	}
	f->event = NULL;
}

/* Of the current context, which is the device's arena's. */
static CUevent new_event(CUdevice dev)
{
	CUevent e = NULL;

	pthread_mutex_lock(&fm_cuda_async_lock);
	for (unsigned i = fm_cuda_several_contexts() ? 0 : async.n_idle; i && !e; i--)
		if (async.idle[i - 1].dev == dev) {
			e = async.idle[i - 1].event;
			async.idle[i - 1] = async.idle[--async.n_idle];
		}
	pthread_mutex_unlock(&fm_cuda_async_lock);
	if (!e && fm_cuda_driver()->event_create(&e, FM_CU_EVENT_NO_TIMING))
		e = NULL;
	return e;
}

/* --- what is free; with the lock --- */

static struct freed *cut(struct freed **at)
{
	struct freed *f = *at;

	*at = f->next;
	if (!f->next)
		async.end = at;
	f->next = NULL;
	if (f->pool)
		f->pool->held -= f->size;
	atomic_fetch_sub(&async.n_freed, 1);
	return f;
}

static void put(struct freed *f)
{
	f->next = NULL;
	f->number = ++async.frees;
	*async.end = f;
	async.end = &f->next;
	if (f->pool)
		f->pool->held += f->size;
	atomic_fetch_add(&async.n_freed, 1);
}

static struct freed *freed_at(CUdeviceptr at)
{
	struct freed *f = async.first;

	while (f && f->at != at)
		f = f->next;
	return f;
}

/* Its event has passed. Queries from here end no capture of another thread. */
static bool has_passed(struct freed *f)
{
	const struct fm_cu_driver *cu = fm_cuda_driver();

	if (!f->passed && f->event && !cu->event_query(f->event)) {
		keep_event(f);
		f->passed = true;
	}
	return f->passed;
}

/* What is to go of what nobody uses: what a pool does not keep; or all; or what one pool has above
 * some size. */
struct unused {
	bool all;
	const struct fm_cuda_pool *of;
	uint64_t keep;
};

static bool is_too_much(const struct fm_cuda_pool *p, const struct unused *u)
{
	if (u->all || !p || !p->handle)
		return true;
	if (p == u->of && p->used + p->held > u->keep)
		return true;
	return p->used + p->held > FM_MIN(p->threshold, p->used_high);
}

/* Events pass in the order of their streams, so a look ends at some that have not. */
#define LOOKS 16
static struct freed *cut_unused(const struct unused *u)
{
	struct freed **at = &async.first, *out = NULL, *f;
	unsigned pending = 0;

	while ((f = *at) && pending < LOOKS) {
		if (!has_passed(f))
			pending++;
		if (!f->passed || !is_too_much(f->pool, u)) {
			at = &f->next;
			continue;
		}
		f = cut(at);
		f->next = out;
		out = f;
	}
	fm_cuda_pools_end();
	return out;
}

static void give_all(struct freed *f)
{
	for (struct freed *next; f; f = next) {
		next = f->next;
		fm_cuda_managed_give(f->at);
		free(f);
	}
}

/* Events are asked for in a mode of the thread in which no capture minds. */
static void look(const struct unused *u)
{
	const struct fm_cu_driver *cu = fm_cuda_driver();
	struct freed *out;
	int mode;

	if (!atomic_load_explicit(&async.n_freed, memory_order_relaxed))
		return;
	mode = fm_cu_enter(cu);
	pthread_mutex_lock(&fm_cuda_async_lock);
	out = cut_unused(u);
	pthread_mutex_unlock(&fm_cuda_async_lock);
	fm_cu_leave(cu, mode);
	give_all(out);
}

void fm_cuda_async_look(void)
{
	if (!fm_cu_inside)
		look(&(struct unused){.all = false});
}

void fm_cuda_async_trim(CUmemoryPool pool, uint64_t keep)
{
	struct unused u = {.keep = keep};

	pthread_mutex_lock(&fm_cuda_async_lock);
	u.of = fm_cuda_pool_known(pool); /* which is compared only */
	pthread_mutex_unlock(&fm_cuda_async_lock);
	if (u.of)
		look(&u);
}

/* --- when all of a device's context has finished --- */

bool fm_cuda_async_any(void)
{
	return atomic_load(&async.n_freed);
}

bool fm_cuda_async_is_freed(CUdeviceptr at)
{
	bool is;

	if (!fm_cuda_async_any())
		return false;
	pthread_mutex_lock(&fm_cuda_async_lock);
	is = freed_at(at);
	pthread_mutex_unlock(&fm_cuda_async_lock);
	return is;
}

uint64_t fm_cuda_async_mark(void)
{
	uint64_t frees;

	pthread_mutex_lock(&fm_cuda_async_lock);
	frees = async.frees;
	pthread_mutex_unlock(&fm_cuda_async_lock);
	return frees;
}

void fm_cuda_async_finished(CUdevice dev, uint64_t mark, bool all)
{
	pthread_mutex_lock(&fm_cuda_async_lock);
	for (struct freed *f = async.first; f && f->number <= mark; f = f->next)
		if (f->dev == dev && !f->event && !f->elsewhere)
			f->passed = true;
	pthread_mutex_unlock(&fm_cuda_async_lock);
	look(&(struct unused){.all = all});
}

/* A driver must not be asked for events of a context that has ended, not by a thread that works on
 * another device, either. */
void fm_cuda_async_context_ends(CUcontext ctx, CUcontext base)
{
	struct fm_cuda_mem_at at = {.ctx = base};

	if (!fm_cuda_async_any())
		return;
	pthread_mutex_lock(&fm_cuda_async_lock);
	for (struct freed *f = async.first; f; f = f->next) {
		if (!f->event || f->ctx != ctx)
			continue;
		fm_cuda_driver()->event_destroy(f->event);
		f->event = NULL;
		at.dev = f->dev;
		f->elsewhere = !fm_cuda_managed_owns(&at);
	}
	pthread_mutex_unlock(&fm_cuda_async_lock);
}

/* Nothing of it uses a block any more. */
void fm_cuda_async_context_gone(CUcontext ctx)
{
	if (!fm_cuda_async_any())
		return;
	pthread_mutex_lock(&fm_cuda_async_lock);
	for (struct freed *f = async.first; f; f = f->next)
		f->passed |= f->ctx == ctx && !f->event;
	pthread_mutex_unlock(&fm_cuda_async_lock);
}

/* The context has ended, and its events and blocks with it. */
void fm_cuda_async_gone(CUdevice dev)
{
	struct freed **at = &async.first;
	struct fm_cuda_block *b;
	size_t slot = 0;

	pthread_mutex_lock(&fm_cuda_async_lock);
	while (*at) {
		if ((*at)->dev == dev)
			free(cut(at));
		else
			at = &(*at)->next;
	}
	while ((b = fm_cuda_blocks_next(&async.live, &slot))) {
		if (b->dev != dev) {
			slot++;
			continue;
		}
		((struct fm_cuda_pool *)(uintptr_t)b->of)->used -= (uint64_t)b->bytes;
		fm_cuda_blocks_erase(&async.live, b);
	}
	for (unsigned i = async.n_idle; i--;)
		if (async.idle[i].dev == dev)
			async.idle[i] = async.idle[--async.n_idle];
	fm_cuda_pools_end();
	pthread_mutex_unlock(&fm_cuda_async_lock);
}

/* --- blocks --- */

/* Numbers of streams are never given again, handles are. 0: there is none. */
static uint64_t number_of(CUstream stream)
{
	const struct fm_cu_driver *cu = fm_cuda_driver();
	unsigned long long id = 0;

	return cu->stream_id && !cu->stream_id(stream, &id) ? id + 1 : 0;
}

/* Is the stream of the current context, in which the arena is? */
static bool is_here(CUstream stream)
{
	const struct fm_cu_driver *cu = fm_cuda_driver();
	CUcontext ctx;

	return FM_LIKELY(!fm_cuda_several_contexts()) ||
	       (cu->stream_get_ctx && !cu->stream_get_ctx(stream, &ctx) &&
		       ctx == fm_cuda_current());
}

/* Lock held. It fits, and is not twice as large. */
static struct freed *reuse(struct fm_cuda_pool *p, size_t size, uint64_t stream)
{
	struct freed **at = &async.first, *f;
	unsigned pending = 0;

	for (; (f = *at); at = &f->next) {
		if (f->pool != p || f->size < size || f->size / 2 > size)
			continue;
		if (f->stream == stream || (pending < LOOKS && has_passed(f)))
			return cut(at);
		pending++;
	}
	return NULL;
}

/* Lock held. False: out of memory. */
static bool is_used(struct fm_cuda_pool *p, CUdeviceptr at, size_t asked, size_t block)
{
	const struct fm_cuda_block b = {.key = at,
		.bytes = (int64_t)block,
		.of = (uintptr_t)p,
		.used = asked,
		.dev = (int16_t)p->dev,
		.space = FM_CUDA_ADDRESS};

	if (!fm_cuda_blocks_put(&async.live, &b))
		return false;
	p->used += block;
	p->used_high = FM_MAX(p->used_high, p->used);
	p->reserved_high = FM_MAX(p->reserved_high, p->used + p->held);
	return true;
}

static bool take_freed(
	struct fm_cuda_pool *p, size_t asked, size_t size, uint64_t stream, CUdeviceptr *at)
{
	const struct fm_cu_driver *cu = fm_cuda_driver();
	struct freed *f;
	bool took;
	int mode;

	if (!atomic_load_explicit(&async.n_freed, memory_order_relaxed))
		return false;
	mode = fm_cu_enter(cu);
	pthread_mutex_lock(&fm_cuda_async_lock);
	f = reuse(p, size, stream);
	took = f && is_used(p, f->at, asked, f->size);
	if (took) {
		*at = f->at;
		keep_event(f);
	} else if (f) {
		put(f);
		f = NULL;
	}
	pthread_mutex_unlock(&fm_cuda_async_lock);
	fm_cu_leave(cu, mode);
	free(f);
	return took;
}

static bool is_captured(CUstream stream)
{
	return FM_UNLIKELY(atomic_load(&fm_cu_captures)) && fm_cuda_capturing(stream);
}

fm_cu_result fm_cuda_async_alloc(CUdeviceptr *at, size_t size, CUmemoryPool pool, CUstream stream)
{
	size_t block = fm_cuda_mem_round(size, 512);
	CUdeviceptr p = 0;
	struct fm_cuda_pool *of;
	struct fm_cuda_mem_at here;
	uint64_t number;
	fm_cu_result rc;
	bool kept;

	if (FM_LIKELY(!fm_cuda_managed_here()) || !at || !size || size > FM_CUDA_MEM_MOST ||
		is_captured(stream))
		return FM_CUDA_NOT_MANAGED;
	number = number_of(stream);
	here = fm_cuda_mem_here();
	of = number && is_here(stream) ? fm_cuda_pool_of(pool, here.dev) : NULL;
	if (!of)
		return FM_CUDA_NOT_MANAGED;
	if (fm_cuda_managed_owns(&here) && take_freed(of, size, block, number, at))
		return FM_CU_SUCCESS;
	fm_cuda_async_look();
	rc = fm_cuda_managed_alloc(&p, block);
	if (rc)
		return rc;
	pthread_mutex_lock(&fm_cuda_async_lock);
	kept = is_used(of, p, size, block);
	pthread_mutex_unlock(&fm_cuda_async_lock);
	if (!kept) {
		fm_cuda_managed_give(p);
		return FM_CU_ERROR_OUT_OF_MEMORY;
	}
	*at = p;
	return FM_CU_SUCCESS;
}

/* Lock held. It is nobody's from now on: f has its size and its pool. */
static bool is_ended(CUdeviceptr at, struct freed *f)
{
	struct fm_cuda_block *b = fm_cuda_blocks_find(&async.live, FM_CUDA_ADDRESS, at);

	if (!b)
		return false;
	f->pool = (struct fm_cuda_pool *)(uintptr_t)b->of;
	f->size = (size_t)b->bytes;
	f->pool->used -= f->size;
	fm_cuda_blocks_erase(&async.live, b);
	return true;
}

void fm_cuda_async_ended(CUdeviceptr at)
{
	struct freed f;

	pthread_mutex_lock(&fm_cuda_async_lock);
	is_ended(at, &f);
	fm_cuda_pools_end();
	pthread_mutex_unlock(&fm_cuda_async_lock);
}

/* An event behind the free. NULL: there is none, and all of the context will be waited for. */
static CUevent mark_stream(CUstream stream, CUdevice dev)
{
	const struct fm_cu_driver *cu = fm_cuda_driver();
	struct fm_cuda_order order;
	fm_cu_result rc;
	CUevent e;

	if (!stream || (stream == FM_CU_STREAM_LEGACY && atomic_load(&fm_cu_captures)))
		return NULL;
	e = new_event(dev);
	if (!e)
		return NULL;
	order = fm_cuda_ordering(stream, false, FM_CUDA_FOR_PLAIN);
	fm_cu_inside++;
	rc = cu->event_record(e, stream);
	fm_cu_inside--;
	fm_cuda_ordered(order, stream);
	if (!rc)
		return e;
	cu->event_destroy(e);
	return NULL;
}

fm_cu_result fm_cuda_async_free(CUdeviceptr at, CUstream stream)
{
	struct fm_cuda_mem_at here;
	struct fm_cu_block block;
	struct fm_cuda_managed *m;
	struct freed *f;
	bool again;

	if (fm_cu_inside ||
		FM_LIKELY(!atomic_load_explicit(&fm_cuda_managed_any, memory_order_relaxed)))
		return FM_CUDA_NOT_MANAGED;
	m = fm_cuda_managed_find(at, &block);
	/* In a graph only memory of the graph can be freed, as the driver says. */
	if (!m || (stream && is_captured(stream)))
		return FM_CUDA_NOT_MANAGED;
	if (block.at != at || !block.size || fm_cuda_async_is_freed(at))
		return FM_CU_ERROR_INVALID_VALUE;
	f = calloc(1, sizeof(*f));
	if (!f)
		return FM_CU_ERROR_OUT_OF_MEMORY;
	f->at = at;
	f->size = block.size;
	f->dev = m->dev;
	f->event = mark_stream(stream, f->dev);
	f->ctx = f->event ? fm_cuda_current() : NULL;
	f->stream = f->event ? number_of(stream) : 0;
	here = fm_cuda_mem_here();
	f->elsewhere = !f->event && stream && !(is_here(stream) && fm_cuda_managed_owns(&here));
	pthread_mutex_lock(&fm_cuda_async_lock);
	again = freed_at(at);
	if (!again) {
		is_ended(at, f);
		put(f);
	} else {
		keep_event(f);
	}
	pthread_mutex_unlock(&fm_cuda_async_lock);
	if (again)
		free(f);
	fm_cuda_async_look();
	return again ? FM_CU_ERROR_INVALID_VALUE : FM_CU_SUCCESS;
}

bool fm_cuda_async_find(CUdeviceptr at, size_t *size, CUmemoryPool *pool)
{
	const struct fm_cuda_block *b;

	pthread_mutex_lock(&fm_cuda_async_lock);
	b = fm_cuda_blocks_find(&async.live, FM_CUDA_ADDRESS, at);
	if (b) {
		*size = (size_t)b->used;
		*pool = ((struct fm_cuda_pool *)(uintptr_t)b->of)->handle;
	}
	pthread_mutex_unlock(&fm_cuda_async_lock);
	return b;
}
