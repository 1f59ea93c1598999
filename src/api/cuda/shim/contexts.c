/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: which of them have ever been current, and their lives. */
#include "api/cuda/shim/graph/graph_guard.h"
#include "api/cuda/shim/managed/managed.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/lockorder.h"
#include "functions.h"
#include "give_back.h"
#include "sets.h"
#include <pthread.h>
#include <time.h>

#define DEVICES 64

/* --- contexts that end --- */

/*
 * A context is known by its address, and forgotten when the driver has ended it. By then another
 * thread may have been given a new context at that address. That thread goes on when the old
 * context is forgotten, or after FM_CU_CONTEXT_END_MOST if it never is.
 */
#define ENDINGS 32

static _Atomic(CUcontext) ending[ENDINGS];

static void ends(CUcontext ctx)
{
	bool gives_back = fm_cuda_gives_back(ctx);
	CUcontext none = NULL;

	fm_cuda_sets_context_ends(ctx);
	fm_cuda_close_context(ctx);
	if (ctx && fm_shim_has_client())
		fm_cu_context_ends(fm_cuda_driver(), ctx);
	fm_cuda_managed_context_ends(ctx);
	if (gives_back)
		fm_cuda_give_back(ctx);
	for (unsigned i = 0; ctx && i < ENDINGS; i++, none = NULL)
		if (atomic_compare_exchange_strong(&ending[i], &none, ctx))
			return;
}

static void ended(CUcontext ctx)
{
	for (unsigned i = 0; ctx && i < ENDINGS; i++) {
		CUcontext it = ctx;

		if (atomic_compare_exchange_strong(&ending[i], &it, NULL))
			return;
	}
}

static bool is_ending(CUcontext ctx)
{
	for (unsigned i = 0; i < ENDINGS; i++)
		if (atomic_load(&ending[i]) == ctx)
			return true;
	return false;
}

static void await_end(CUcontext ctx)
{
	const struct timespec nap = {.tv_nsec = FM_CU_CONTEXT_END_LOOK};
	uint64_t until = 0;
	FM_NO_CANCEL;

	while (ctx && is_ending(ctx)) {
		until = until ? until : fm_now() + FM_CU_CONTEXT_END_MOST;
		if (fm_now() > until)
			return;
		nanosleep(&nap, NULL);
	}
}

/* --- the one that is current --- */

/*
 * The driver would have to be asked at each launch to which context's default stream it goes. While
 * only one context has ever been current, there is nothing to ask. If a program gets at another
 * context by a call that is not in the tables, its launches there bypass us, and are counted in the
 * first context's queue.
 */
struct fm_cuda_hot fm_cuda_hot;
static _Atomic(CUcontext) only;
/* Protects `sole`. A thread that gets a second context goes on when no thread can find the first
 * context's queue there any more. Taken within the lock of the map. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
FM_LOCK_RANK(lock, CUDA_SOLE);
static _Atomic bool several; /* for good */

static void set_sole(struct fm_cuda_queue *q)
{
	atomic_store(&fm_cuda_hot.sole, q);
	atomic_store(&fm_cuda_hot.sole_xq, q ? q->xq : NULL);
}

void fm_cuda_becomes_current(CUcontext ctx)
{
	CUcontext none = NULL;

	if (!ctx || atomic_load(&several) ||
		atomic_load_explicit(&only, memory_order_relaxed) == ctx ||
		atomic_compare_exchange_strong(&only, &none, ctx) || none == ctx)
		return;
	pthread_mutex_lock(&lock);
	set_sole(NULL);
	atomic_store(&several, true); /* a thread that sees this finds no sole queue */
	pthread_mutex_unlock(&lock);
}

static _Atomic bool green_streams; /* for good: what they get is not the current context's */

void fm_cuda_green_stream(void)
{
	atomic_store(&green_streams, true);
}

bool fm_cuda_several_contexts(void)
{
	return atomic_load(&several) || atomic_load(&green_streams);
}

void fm_cuda_sole_made(struct fm_cuda_queue *q)
{
	if (q->hw.stream != FM_CU_STREAM_LEGACY || q->hw.ctx != atomic_load(&only))
		return;
	pthread_mutex_lock(&lock);
	if (!atomic_load(&several))
		set_sole(q);
	pthread_mutex_unlock(&lock);
}

/* No other thread makes this queue the sole one now. */
void fm_cuda_sole_gone(struct fm_cuda_queue *q)
{
	if (atomic_load(&fm_cuda_hot.sole) != q)
		return;
	pthread_mutex_lock(&lock);
	set_sole(NULL);
	pthread_mutex_unlock(&lock);
}

void fm_cuda_contexts_fork_child(void)
{
	lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	set_sole(NULL);
	atomic_store(&only, NULL);
	atomic_store(&several, false);
	for (unsigned i = 0; i < ENDINGS; i++)
		atomic_store(&ending[i], NULL);
}

static fm_cu_result current(CUcontext ctx, fm_cu_result rc)
{
	if (rc == FM_CU_SUCCESS)
		fm_cuda_becomes_current(ctx);
	return rc;
}

/* A call that makes a context makes it current. */
static fm_cu_result made(CUcontext *ctx, fm_cu_result rc)
{
	if (rc == FM_CU_SUCCESS)
		await_end(*ctx);
	return current(rc == FM_CU_SUCCESS ? *ctx : NULL, rc);
}

#define CONTEXT_WITH_ROOM(x, call) FM_CUDA_WITH_ROOM(&(x)->at, fm_cuda_mem_context_takes(x), call)

#define MAKE_CONTEXT(symbol, params, ctx)                                                  \
	fm_cu_result symbol CALL_PARAMS(params)                                            \
	{                                                                                  \
		struct fm_cuda_mem_context x = fm_cuda_mem_context_begin(dev);             \
		fm_cu_result rc =                                                          \
			made(ctx, CONTEXT_WITH_ROOM(&x, NEXT(symbol, CALL_ARGS(params)))); \
                                                                                           \
		fm_cuda_mem_context_made(&x, rc == FM_CU_SUCCESS ? *ctx : NULL, rc);       \
		return rc;                                                                 \
	}
#define MAKE_(...) /* by hand: here, stream.c, graph.c */
#define ON_make(symbol, per_thread, name, since, note, params, what, ...) \
	MAKE_##what(symbol, params, __VA_ARGS__)
#include "api/cuda/calls.def"

fm_cu_result cuCtxSetCurrent(CUcontext ctx)
{
	return current(ctx, NEXT(cuCtxSetCurrent, (ctx)));
}

fm_cu_result cuCtxPushCurrent(CUcontext ctx)
{
	return current(ctx, NEXT(cuCtxPushCurrent, (ctx)));
}

fm_cu_result cuCtxPushCurrent_v2(CUcontext ctx)
{
	return current(ctx, NEXT(cuCtxPushCurrent_v2, (ctx)));
}

/* --- their lives --- */

static fm_cu_result gone(CUcontext ctx, fm_cu_result rc)
{
	if (rc == FM_CU_SUCCESS && ctx && fm_shim_has_client()) {
		fm_cu_context_gone(ctx);
		fm_cuda_first_forget();
	}
	if (rc != FM_CU_SUCCESS && ctx)
		fm_cu_context_stays(ctx);
	if (rc == FM_CU_SUCCESS && ctx && atomic_load(&fm_cu_captures))
		fm_cuda_captures_gone(ctx);
	if (rc == FM_CU_SUCCESS)
		fm_cuda_code_context_gone(ctx);
	if (rc == FM_CU_SUCCESS && ctx) {
		fm_cuda_partition_gone(ctx);
		fm_cuda_mem_context_gone(ctx);
		fm_cu_gates_context_gone(ctx);
		fm_cuda_functions_context_gone(ctx);
	}
	fm_cuda_managed_context_gone(rc == FM_CU_SUCCESS ? ctx : NULL);
	ended(ctx);
	return rc;
}

/* While the process has never attached to a context, a detachment ends it. */
static _Atomic bool attached;

fm_cu_result cuCtxAttach(CUcontext *ctx, unsigned flags)
{
	atomic_store(&attached, true);
	return made(ctx, NEXT(cuCtxAttach, (ctx, flags)));
}

fm_cu_result cuCtxDetach(CUcontext ctx)
{
	bool last = !atomic_load(&attached);

	if (last)
		ends(ctx);
	return gone(last ? ctx : NULL, NEXT(cuCtxDetach, (ctx)));
}

fm_cu_result cuCtxDestroy(CUcontext ctx)
{
	ends(ctx);
	return gone(ctx, NEXT(cuCtxDestroy, (ctx)));
}

fm_cu_result cuCtxDestroy_v2(CUcontext ctx)
{
	ends(ctx);
	return gone(ctx, NEXT(cuCtxDestroy_v2, (ctx)));
}

fm_cu_result cuGreenCtxDestroy(CUgreenCtx green)
{
	fm_cu_result (*convert)(CUcontext *, CUgreenCtx) = fm_cuda_symbol("cuCtxFromGreenCtx");
	CUcontext base = fm_cu_guard_green_base(green), ctx = NULL;
	struct fm_cu_turnstile *t = base ? fm_cuda_wait_begin(base) : NULL;
	fm_cu_result rc;

	if (convert && convert(&ctx, green) == FM_CU_SUCCESS)
		fm_cuda_close_context(ctx);
	if (ctx)
		fm_cuda_async_context_ends(ctx, base);
	if (base)
		fm_cu_guard_green_ends(fm_cuda_driver(), green);
	rc = NEXT(cuGreenCtxDestroy, (green));
	if (rc == FM_CU_SUCCESS && ctx && atomic_load(&fm_cu_captures))
		fm_cuda_captures_gone(ctx);
	if (base)
		fm_cuda_wait_end(t);
	return rc;
}

/*
 * The primary context ends with its last release. The driver does not say which release is the
 * last, so retains are counted. If it is not the last, other threads may be launching, and their
 * queues must stay. If the context was in use although no retain was seen, there are retains that
 * we do not see, and no release counts as the last.
 */
static struct {
	_Atomic unsigned retains;
	_Atomic(CUcontext) ctx;
	_Atomic bool unseen;
} primary[DEVICES];

static bool used(CUcontext ctx)
{
	struct fm_cuda_mark m[FM_BOARD_SLOTS];

	return fm_cuda_marks(ctx, m) > 0;
}

static bool is_active(CUdevice dev)
{
	fm_cu_result (*state)(CUdevice, unsigned *, int *) =
		fm_cuda_symbol("cuDevicePrimaryCtxGetState");
	unsigned flags;
	int active = 0;

	return state && !state(dev, &flags, &active) && active;
}

fm_cu_result cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice dev)
{
	struct fm_cuda_mem_context x = {.at.c = NULL};
	fm_cu_result rc;

	if (!is_active(dev))
		x = fm_cuda_mem_context_begin(dev);
	rc = CONTEXT_WITH_ROOM(&x, NEXT(cuDevicePrimaryCtxRetain, (ctx, dev)));
	if (rc == FM_CU_SUCCESS) {
		await_end(*ctx);
		fm_cuda_mem_context_made(&x, *ctx, rc);
	}
	if (rc != FM_CU_SUCCESS || (unsigned)dev >= DEVICES)
		return rc;
	atomic_store(&primary[dev].ctx, *ctx);
	if (!atomic_fetch_add(&primary[dev].retains, 1) && used(*ctx))
		atomic_store(&primary[dev].unseen, true);
	return rc;
}

/* It makes the primary context, too, if there is none; which does not count then. */
fm_cu_result cuGreenCtxCreate(
	CUgreenCtx *green, CUdevResourceDesc desc, CUdevice dev, unsigned flags)
{
	struct fm_cuda_mem_context x = {.at = fm_cuda_mem_on(dev)};

	return CONTEXT_WITH_ROOM(&x, NEXT(cuGreenCtxCreate, (green, desc, dev, flags)));
}

/* The context that ends with this release, or NULL. */
static CUcontext releasing(CUdevice dev)
{
	CUcontext ctx;
	unsigned n;

	if ((unsigned)dev >= DEVICES)
		return NULL;
	n = atomic_load(&primary[dev].retains);
	while (n && !atomic_compare_exchange_weak(&primary[dev].retains, &n, n - 1))
		;
	if (n != 1 || atomic_load(&primary[dev].unseen))
		return NULL;
	ctx = atomic_load(&primary[dev].ctx);
	ends(ctx);
	fm_cuda_partition_ends(ctx);
	return ctx;
}

/* Somebody else retained it, and it has ended all the same: a new one may get its address. */
static void ended_unseen(CUdevice dev)
{
	CUcontext ctx = (unsigned)dev < DEVICES ? atomic_load(&primary[dev].ctx) : NULL;

	if (ctx && fm_cuda_functions_any() && !is_active(dev))
		fm_cuda_functions_context_gone(ctx);
}

static fm_cu_result released(CUdevice dev, CUcontext ctx, fm_cu_result rc)
{
	if (rc == FM_CU_SUCCESS && !ctx)
		ended_unseen(dev);
	return gone(ctx, rc);
}

fm_cu_result cuDevicePrimaryCtxRelease(CUdevice dev)
{
	CUcontext ctx = releasing(dev);

	return released(dev, ctx, NEXT(cuDevicePrimaryCtxRelease, (dev)));
}

fm_cu_result cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	CUcontext ctx = releasing(dev);

	return released(dev, ctx, NEXT(cuDevicePrimaryCtxRelease_v2, (dev)));
}

/* A reset ends the context whatever retains it. It is retained here to learn which context it
 * is. */
static CUcontext resetting(CUdevice dev)
{
	CUcontext ctx = NULL;
	bool kept;

	if ((!fm_shim_has_client() && !atomic_load(&fm_cuda_rewrites) &&
		    !atomic_load(&fm_cu_captures) && !fm_cuda_mem_any() &&
		    !fm_cuda_functions_any()) ||
		!is_active(dev))
		return NULL;
	kept = !NEXT(cuDevicePrimaryCtxRetain, (&ctx, dev));
	if (!kept) /* it may be dead, and is the one that was there */
		ctx = (unsigned)dev < DEVICES ? atomic_load(&primary[dev].ctx) : NULL;
	if (!ctx)
		return NULL;
	ends(ctx);
	fm_cuda_partition_ends(ctx);
	if (kept)
		NEXT(cuDevicePrimaryCtxRelease_v2, (dev));
	return ctx;
}

fm_cu_result cuDevicePrimaryCtxReset(CUdevice dev)
{
	CUcontext ctx = resetting(dev);

	return gone(ctx, NEXT(cuDevicePrimaryCtxReset, (dev)));
}

fm_cu_result cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
	CUcontext ctx = resetting(dev);

	return gone(ctx, NEXT(cuDevicePrimaryCtxReset_v2, (dev)));
}
