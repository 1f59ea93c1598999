/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations of managed memory, and what ends with what. */
#include "api/cuda/core/memory/able.h"
#include "api/cuda/shim/guard/guarded.h"
#include "api/cuda/shim/sets.h"
#include "base/cancel.h"
#include "base/lockorder.h"
#include "base/pci.h"
#include "named.h"
#include "registered.h"
#include "trace/trace.h"
#include "xqueue/link.h"
#include "xqueue/rest.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#define DEVICES FM_CUDA_MEM_DEVICES

static struct {
	pthread_mutex_t lock; /* while an arena is made, and over what the ledger is told */
	struct fm_cuda_managed device[DEVICES];
	_Atomic unsigned reached; /* devices from here on have no arena */
	_Atomic bool refused;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};
FM_LOCK_RANK(all.lock, CUDA_MANAGED);

_Atomic bool fm_cuda_managed_any, fm_cuda_managed_mapped;

/* --- whether --- */

static bool wished;
static enum fm_mem_trouble refusal;

static void look(void)
{
	const char *said = secure_getenv("FERMATA_MEMORY");

	wished = said && *said && strcmp(said, "0") != 0 && !fm_client_switched_off();
	if (wished && fm_cuda_managed_tools())
		refusal = FM_MEM_REFUSED_TOOL;
}

static void look_once(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, look);
}

bool fm_cuda_managed_wished(void)
{
	look_once();
	return wished && !refusal;
}

bool fm_cuda_manages(void)
{
	return fm_cuda_managed_wished() &&
	       !atomic_load_explicit(&all.refused, memory_order_relaxed);
}

/* --- what the ledger is told --- */

static void note_trouble(int row, enum fm_mem_trouble trouble)
{
	struct fm_client *c = fm_shim_has_client();
	struct fm_ledger_device *d = c ? fm_account_row(c, row) : NULL;

	if (d)
		atomic_store(&d->trouble, (uint32_t)trouble);
}

static void note_one(struct fm_cuda_managed *m, void *trouble)
{
	note_trouble(m->row, *(enum fm_mem_trouble *)trouble);
}

void fm_cuda_managed_trouble(enum fm_mem_trouble trouble)
{
	if (trouble == FM_MEM_FINE && fm_cuda_managed_all_pinned())
		trouble = FM_MEM_PINNED_ALL;
	fm_cuda_managed_each(note_one, &trouble);
}

void fm_cuda_managed_trouble_on(
	struct fm_cuda_managed *m, enum fm_mem_trouble was, enum fm_mem_trouble is)
{
	struct fm_client *c = fm_shim_has_client();
	struct fm_ledger_device *d = c ? fm_account_row(c, m->row) : NULL;
	uint32_t seen = (uint32_t)was;

	if (d)
		atomic_compare_exchange_strong(&d->trouble, &seen, (uint32_t)is);
}

static void forget_one(struct fm_cuda_managed *m, void *unused)
{
	struct fm_client *c = fm_shim_has_client();
	struct fm_ledger_device *d = c ? fm_account_row(c, m->row) : NULL;

	if (d && atomic_load(&d->trouble) < FM_MEM_PINNED_ALL)
		atomic_store(&d->trouble, FM_MEM_FINE);
}

void fm_cuda_managed_forget_trouble(void)
{
	fm_cuda_managed_each(forget_one, NULL);
}

/* Lock held. */
static bool any_borrows(void)
{
	bool any = false;

	for (unsigned i = 0; i < atomic_load(&all.reached); i++)
		any |= all.device[i].borrows;
	return any;
}

void fm_cuda_managed_tell(struct fm_cuda_managed *m)
{
	struct fm_client *c = fm_shim_has_client();
	struct fm_ledger_device *d = c ? fm_account_row(c, m->row) : NULL;
	struct fm_cu_arena_sums s;

	if (!d)
		return;
	pthread_mutex_lock(&all.lock);
	fm_cu_arena_sum(atomic_load(&m->arena), &s);
	atomic_store(&d->resident, s.here - FM_MIN(s.here, s.pinned));
	atomic_store(&d->host, s.host);
	if (atomic_exchange(&d->mapped, s.borrowed) != s.borrowed)
		FM_TRACE(memory_mapped, fm_now(), FM_TRACE_NO_SLOT, 0, s.borrowed, s.here, 0);
	m->borrows = s.borrowed;
	atomic_store(&fm_cuda_managed_mapped, any_borrows());
	atomic_store(&d->grain, s.grain);
	atomic_store(&d->host_strayed, s.strayed);
	pthread_mutex_unlock(&all.lock);
}

static __thread bool changed __attribute__((tls_model("initial-exec")));
static __thread bool limited __attribute__((tls_model("initial-exec"))); /* not by the driver */

static int claim(void *arg, uint64_t bytes, unsigned pinned)
{
	struct fm_cuda_managed *m = arg;
	const struct fm_cuda_mem_at at = {.c = fm_shim_has_client(), .dev = m->dev, .row = m->row};
	int rc;

	changed = true;
	rc = fm_cuda_mem_try(&at, pinned ? (enum fm_mem_kind)pinned : FM_MEM_MOVABLE, bytes);
	limited |= rc == -ENOMEM;
	if (rc || !fm_account_full(at.c, m->row))
		return rc ? -ENOMEM : 0;
	atomic_store(&m->smaller, true);
	return 1;
}

static void unclaim(void *arg, uint64_t bytes, unsigned pinned)
{
	struct fm_cuda_managed *m = arg;

	changed = true;
	fm_cuda_mem_differs(fm_shim_has_client(), m->dev,
		pinned ? (enum fm_mem_kind)pinned : FM_MEM_MOVABLE, -(int64_t)bytes);
}

static void recount(void *arg, uint64_t bytes, unsigned from, unsigned to)
{
	struct fm_cuda_managed *m = arg;
	enum fm_mem_kind was = from ? (enum fm_mem_kind)from : FM_MEM_MOVABLE;

	fm_account_change(fm_shim_has_client(), m->row, was,
		to ? (enum fm_mem_kind)to : FM_MEM_MOVABLE, bytes);
}

static void unkept(void *arg, uint64_t bytes)
{
	struct fm_cuda_managed *m = arg;

	fm_account_unkeep(fm_shim_has_client(), m->row, bytes);
}

static bool host_take(void *arg, uint64_t bytes)
{
	struct fm_cuda_managed *m = arg;

	return fm_account_host(fm_shim_has_client(), m->row, bytes);
}

static uint64_t host_may(void *arg)
{
	struct fm_cuda_managed *m = arg;

	return fm_account_host_may(fm_shim_has_client(), m->row);
}

/* --- arenas --- */

void fm_cuda_managed_each(void (*fn)(struct fm_cuda_managed *m, void *arg), void *arg)
{
	unsigned n = atomic_load(&all.reached);

	for (unsigned i = 0; i < n; i++)
		if (atomic_load(&all.device[i].arena))
			fn(&all.device[i], arg);
}

/* of: a device, or all of the process. */
static FM_COLD void refuse(_Atomic bool *of, int row, enum fm_mem_trouble why)
{
	atomic_store(of, true);
	note_trouble(row, why);
}

/* Why a device has no arena: what it is able to do, or the error of making one. */
static FM_COLD enum fm_mem_trouble why_none(enum fm_cu_memory_able able, int rc)
{
	if (able == FM_CU_MEMORY_SHARED)
		return FM_MEM_REFUSED_MPS;
	return able == FM_CU_MEMORY_ABLE && rc == -ENOMEM ? FM_MEM_REFUSED_ADDRESSES
							  : FM_MEM_REFUSED;
}

/* Does unchanged memory stay on the host? */
static bool keeps(void)
{
	const char *said = secure_getenv("FERMATA_MEMORY_KEEP");

	return !said || strcmp(said, "0") != 0;
}

static int node_of(const struct fm_cu_driver *cu, CUdevice dev)
{
	char bus[FM_BUS_MAX];

	fm_cu_device_bus_of(cu, dev, bus, sizeof(bus));
	return fm_pci_node(bus);
}

/* Lock held. */
static void make_arena(struct fm_cuda_managed *m, const struct fm_cuda_mem_at *at, bool kept)
{
	const struct fm_cu_driver *cu = fm_cuda_driver();
	const struct fm_cu_arena_use use = {claim, unclaim, m, fm_cu_memory_host_most(), kept,
		recount, unkept, host_take, host_may, node_of(cu, at->dev)};
	enum fm_cu_memory_able able = fm_cu_memory_able(cu, at->dev);
	struct fm_cu_arena *a = NULL;
	int rc = 0;

	m->dev = at->dev;
	m->row = at->row;
	if (able == FM_CU_MEMORY_ABLE)
		rc = fm_cu_arena_create(&a, cu, at->ctx, at->dev, &use);
	if (!a) {
		refuse(&m->refused, at->row, why_none(able, rc));
		return;
	}
	atomic_store(&m->arena, a);
	fm_cuda_named_arena(m);
	atomic_store(&fm_cuda_managed_any, true);
	fm_cuda_managed_open(m);
	if (atomic_load(&all.reached) <= (unsigned)at->dev)
		atomic_store(&all.reached, (unsigned)at->dev + 1);
	fm_cuda_managed_pin_new(m); /* last: who pins all has seen the arena, or is seen here */
}

static bool has_context(struct fm_cuda_managed *m)
{
	struct fm_cu_arena *a = atomic_load(&m->arena);

	return a && fm_cu_arena_context(a);
}

static bool has_work(const struct fm_cuda_queue *q)
{
	return fm_slot_pending(q->xq->slot);
}

/* Code is loaded for what compares memory with its copy, and a driver may wait for the device in
 * that. What runs may wait for this very thread; then there is no such code. */
static bool may_keep(CUcontext ctx)
{
	struct fm_xq *busy[FM_BOARD_SLOTS];
	size_t n = fm_cuda_keep(ctx, busy, has_work, NULL);

	for (size_t i = 0; i < n; i++)
		fm_xq_unref(busy[i]);
	return !n && keeps();
}

/* It waits outside the driver, and without a lock that the mover needs: not while memory is out,
 * and for gates that are closed. */
static FM_COLD void make_ready(struct fm_cuda_managed *m, const struct fm_cuda_mem_at *at)
{
	struct fm_cu_turnstile *t;
	struct fm_cu_arena *a;
	unsigned shard;
	bool kept;
	FM_NO_CANCEL;

	fm_cu_turnstile(at->ctx, true);
	t = fm_cuda_wait_begin(at->ctx);
	shard = fm_rest_call_begin(at->c); /* without queues there is nothing to wait for */
	kept = may_keep(at->ctx);
	pthread_mutex_lock(&all.lock);
	a = atomic_load(&m->arena);
	if (!a)
		make_arena(m, at, kept);
	else if (!fm_cu_arena_context(a))
		fm_cu_arena_context_is(a, at->ctx, kept);
	pthread_mutex_unlock(&all.lock);
	fm_rest_call_end(at->c, shard);
	fm_cuda_wait_end(t);
}

/* The arena of the current context's device. NULL: what is allocated there is the driver's: the
 * process cannot rest, or the arena is another context's. */
static struct fm_cuda_managed *here(void)
{
	struct fm_cuda_mem_at at = fm_cuda_mem_here();
	struct fm_cuda_managed *m;
	struct fm_cu_arena *a;

	if (!at.c || !at.ctx || (unsigned)at.dev >= DEVICES)
		return NULL;
	if (!fm_rest_able(at.c)) {
		refuse(&all.refused, at.row, FM_MEM_REFUSED);
		return NULL;
	}
	m = &all.device[at.dev];
	if (FM_UNLIKELY(atomic_load_explicit(&m->refused, memory_order_relaxed)))
		return NULL;
	if (FM_UNLIKELY(!has_context(m)))
		make_ready(m, &at);
	a = atomic_load(&m->arena);
	return a && fm_cu_arena_context(a) == at.ctx ? m : NULL;
}

/* --- blocks --- */

/* While a graph is captured, a thread may allocate only if it has relaxed its mode: the driver says
 * what becomes of the others. */
static bool may_allocate(void)
{
	const struct fm_cu_driver *cu = fm_cuda_driver();
	int mode;

	if (FM_LIKELY(!atomic_load(&fm_cu_captures)))
		return true;
	mode = fm_cu_enter(cu);
	fm_cu_leave(cu, mode);
	return mode == FM_CU_CAPTURE_MODE_RELAXED;
}

static void tell_if_changed(struct fm_cuda_managed *m)
{
	if (changed)
		fm_cuda_managed_tell(m);
}

static void give(struct fm_cuda_managed *m, CUdeviceptr at)
{
	unsigned shard = fm_rest_call_begin(fm_shim_has_client());

	changed = false;
	fm_cu_inside++;
	fm_cu_arena_free(atomic_load(&m->arena), at);
	fm_cu_inside--;
	fm_rest_call_end(fm_shim_has_client(), shard);
	tell_if_changed(m);
}

/* The driver returns when the context has finished what it has, and so do we: nothing uses the
 * block any more. What stands in the streams of a set that is suspended runs before, as it does
 * before calls of the driver's that free memory. */
static fm_cu_result finish(struct fm_cuda_managed *m)
{
	const struct fm_cu_driver *cu = fm_cuda_driver();
	CUcontext ctx = fm_cu_arena_context(atomic_load(&m->arena)), old;
	bool push = fm_cuda_current() != ctx;
	fm_cu_result rc = FM_CU_SUCCESS;

	if (push)
		rc = cu->ctx_push(ctx);
	if (rc)
		return rc;
	fm_cuda_sets_leave();
	rc = cuCtxSynchronize(); /* ours: it waits for gates outside the driver */
	fm_cuda_sets_stay();
	if (push)
		cu->ctx_pop(&old);
	return rc;
}

/* Waits until nothing uses blocks that were freed in streams, and gives them back: all of them, or
 * those that no pool keeps. What is freed meanwhile may be used by work that nobody has waited for.
 */
static fm_cu_result finish_freed(struct fm_cuda_managed *m, bool all_of_them)
{
	uint64_t mark = fm_cuda_async_mark();
	fm_cu_result rc = finish(m);

	if (!rc)
		fm_cuda_async_finished(m->dev, mark, all_of_them);
	return rc;
}

static bool has_freed(void)
{
	return fm_cuda_async_any() && !atomic_load(&fm_cu_captures);
}

/* A block, or with a kind memory that the program maps. */
struct wanted {
	size_t size;
	const struct fm_cu_memory_kind *kind;
	bool borrows; /* it may be memory of the host */
	CUdeviceptr at;
	struct fm_cu_vmm *vmm;
};

/* Not while memory is out, for this would take what others were given. */
static int take(struct fm_cuda_managed *m, struct wanted *w)
{
	unsigned shard = fm_rest_call_begin(fm_shim_has_client());
	int rc;

	changed = limited = false;
	fm_cu_inside++;
	if (w->kind)
		rc = fm_cu_vmm_create(
			atomic_load(&m->arena), w->size, w->kind, w->borrows, &w->vmm);
	else if (w->borrows)
		rc = fm_cu_arena_borrow(atomic_load(&m->arena), w->size, &w->at);
	else
		rc = fm_cu_arena_alloc(atomic_load(&m->arena), w->size, &w->at);
	fm_cu_inside--;
	fm_rest_call_end(fm_shim_has_client(), shard);
	tell_if_changed(m);
	return rc;
}

/* The driver has none: others may make room. */
static int take_waiting(struct fm_cuda_managed *m, struct wanted *w)
{
	struct fm_cuda_mem_at at = {.c = fm_shim_has_client(), .dev = m->dev, .row = m->row};
	int rc = take(m, w);
	uint64_t until = 0;

	while (FM_UNLIKELY(rc == -ENOMEM) && !limited && fm_cuda_mem_room(&at, w->size, &until))
		rc = take(m, w);
	fm_cuda_mem_room_end(&at, until);
	return rc;
}

/* Nobody makes room, or not for so much. The mover brings it to the device later. */
static int take_from_host(struct fm_cuda_managed *m, struct wanted *w)
{
	int rc;

	w->borrows = true;
	rc = take(m, w);
	if (!rc) {
		fm_cuda_mover_wake();
		fm_client_wake(fm_shim_has_client());
	}
	return rc;
}

static fm_cu_result take_at_last(struct fm_cuda_managed *m, struct wanted *w)
{
	int rc = take(m, w);

	if (rc == -ENOMEM && has_freed() && !finish_freed(m, true))
		rc = take(m, w);
	if (rc == -ENOMEM)
		rc = take_waiting(m, w);
	if (rc == -ENOMEM && !limited && fm_account_exceeds(fm_shim_has_client(), m->row))
		rc = take_from_host(m, w);
	if (rc == -EIO) /* the driver may know a way */
		return FM_CUDA_NOT_MANAGED;
	return rc ? FM_CU_ERROR_OUT_OF_MEMORY : FM_CU_SUCCESS;
}

bool fm_cuda_managed_here(void)
{
	if (fm_cu_inside)
		return false;
	if (FM_LIKELY(fm_cuda_manages()))
		return true;
	if (FM_UNLIKELY(wished && refusal))
		note_trouble(fm_cuda_mem_here().row, refusal);
	return false;
}

fm_cu_result fm_cuda_managed_alloc(CUdeviceptr *at, size_t size)
{
	struct wanted w = {.size = size};
	struct fm_cuda_managed *m;
	fm_cu_result rc;

	if (!fm_cuda_managed_here())
		return FM_CUDA_NOT_MANAGED;
	if (!at || !size || !may_allocate() || !(m = here()))
		return FM_CUDA_NOT_MANAGED;
	rc = take_at_last(m, &w);
	if (!rc)
		*at = w.at;
	return rc;
}

/* The device's, whatever context is current; or it becomes that of the current one. */
static struct fm_cuda_managed *on(CUdevice dev)
{
	if ((unsigned)dev >= DEVICES)
		return NULL;
	if (has_context(&all.device[dev]))
		return &all.device[dev];
	return fm_cuda_mem_here().dev == dev && may_allocate() ? here() : NULL;
}

bool fm_cuda_managed_owns(const struct fm_cuda_mem_at *at)
{
	struct fm_cu_arena *a =
		(unsigned)at->dev < DEVICES ? atomic_load(&all.device[at->dev].arena) : NULL;

	return a && at->ctx && fm_cu_arena_context(a) == at->ctx;
}

fm_cu_result fm_cuda_managed_make(struct fm_cuda_managed **m, size_t size,
	const struct fm_cu_memory_kind *kind, struct fm_cu_vmm **vmm)
{
	struct wanted w = {.size = size, .kind = kind};
	fm_cu_result rc;

	*m = on(kind->location.id);
	if (!*m)
		return FM_CUDA_NOT_MANAGED;
	rc = take_at_last(*m, &w);
	if (!rc)
		*vmm = w.vmm;
	return rc;
}

/* Rows as the driver makes them. */
#define PITCH 512
fm_cu_result fm_cuda_managed_alloc_pitch(
	CUdeviceptr *at, size_t *pitch, size_t width, size_t height, unsigned element)
{
	size_t row, size;
	fm_cu_result rc;

	if (!pitch || !width || (element != 4 && element != 8 && element != 16) ||
		width > SIZE_MAX - PITCH)
		return FM_CUDA_NOT_MANAGED;
	row = fm_cuda_mem_round(width, PITCH);
	if (__builtin_mul_overflow(row, height, &size))
		return FM_CUDA_NOT_MANAGED;
	rc = fm_cuda_managed_alloc(at, size);
	if (rc == FM_CU_SUCCESS)
		*pitch = row;
	return rc;
}

struct fm_cuda_managed *fm_cuda_managed_find(CUdeviceptr p, struct fm_cu_block *block)
{
	unsigned n = atomic_load_explicit(&all.reached, memory_order_relaxed);

	*block = (struct fm_cu_block){0};
	for (unsigned i = 0; i < n; i++) {
		struct fm_cu_arena *a = atomic_load(&all.device[i].arena);
		struct fm_cu_range r = a ? fm_cu_arena_range(a) : (struct fm_cu_range){0};

		if (p - r.at >= r.size)
			continue;
		fm_cu_arena_find(a, p, block);
		return &all.device[i];
	}
	return NULL;
}

fm_cu_result fm_cuda_managed_free(CUdeviceptr at)
{
	struct fm_cu_block block;
	struct fm_cuda_managed *m;
	fm_cu_result rc;

	if (fm_cu_inside || !atomic_load_explicit(&all.reached, memory_order_relaxed))
		return FM_CUDA_NOT_MANAGED;
	m = fm_cuda_managed_find(at, &block);
	if (!m)
		return FM_CUDA_NOT_MANAGED;
	if (block.at != at || !block.size || fm_cuda_async_is_freed(at))
		return FM_CU_ERROR_INVALID_VALUE;
	if (FM_UNLIKELY(atomic_load(&fm_cu_captures))) /* nothing may be waited for */
		return fm_cuda_async_free(at, NULL);
	rc = finish_freed(m, false);
	if (rc)
		return rc;
	fm_cuda_async_ended(at);
	give(m, at);
	return rc;
}

void fm_cuda_managed_give(CUdeviceptr at)
{
	struct fm_cu_block block;
	struct fm_cuda_managed *m = fm_cuda_managed_find(at, &block);

	if (m)
		give(m, at);
}

/* --- ends --- */

/* This thread ends a context: what fm_rest_call_begin() gave, and one. */
static __thread unsigned ending __attribute__((tls_model("initial-exec")));

static void one_ends(struct fm_cuda_managed *m, void *ctx)
{
	if (fm_cu_arena_context(atomic_load(&m->arena)) != ctx)
		return;
	if (!ending)
		ending = fm_rest_call_begin(fm_shim_has_client()) + 1;
	fm_cuda_mover_context_ends(m);
}

/* Its memory comes in first, and stays until the driver has said what became of the context. */
void fm_cuda_managed_context_ends(CUcontext ctx)
{
	if (!ctx)
		return;
	fm_cuda_async_context_ends(ctx, ctx);
	fm_cuda_managed_each(one_ends, ctx);
}

static void one_gone(struct fm_cuda_managed *m, void *ctx)
{
	struct fm_cu_arena *a = atomic_load(&m->arena);

	if (fm_cu_arena_context(a) != ctx)
		return;
	fm_cuda_async_gone(m->dev);
	fm_cu_inside++;
	fm_cu_arena_context_gone(a);
	fm_cu_inside--;
	fm_cuda_managed_tell(m);
}

void fm_cuda_managed_context_gone(CUcontext ctx)
{
	if (ctx)
		fm_cuda_managed_each(one_gone, ctx);
	if (ctx) {
		fm_cuda_managed_peers_gone(ctx);
		fm_cuda_async_context_gone(ctx);
		fm_cuda_named_unloaded(NULL);
	}
	if (ending)
		fm_rest_call_end(fm_shim_has_client(), ending - 1);
	ending = 0;
}

/* The child has no context of its parent's, and none of its memory. */
void fm_cuda_managed_fork_child(void)
{
	all.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	atomic_store(&all.reached, 0);
	atomic_store(&fm_cuda_managed_any, false);
	atomic_store(&fm_cuda_managed_mapped, false);
	for (unsigned i = 0; i < DEVICES; i++) {
		atomic_store(&all.device[i].arena, NULL);
		atomic_store(&all.device[i].refused, false);
		atomic_store(&all.device[i].smaller, false);
		all.device[i].borrows = false;
	}
	fm_cuda_managed_peers_fork_child();
	fm_cuda_named_fork_child();
	fm_cuda_vmm_fork_child();
	fm_cuda_multicast_fork_child();
	fm_cuda_want_fork_child();
	fm_cuda_async_fork_child();
	fm_cuda_ipc_fork_child();
	fm_cuda_registers_fork_child();
	fm_cuda_mover_fork_child();
}
