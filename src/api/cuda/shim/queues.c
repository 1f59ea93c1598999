/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cuda/core/timeslice.h"
#include "api/cuda/shim/graph/graph_guard.h"
#include "api/cuda/shim/managed/managed.h"
#include "base/cancel.h"
#include "functions.h"
#include "give_back.h"
#include "sets.h"
#include "shim/threads.h"
#include "xqueue/rest.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct fm_cuda_queue fm_cuda_refused;

static struct fm_cuda_queue *queue_of(struct fm_shim_entry *e)
{
	return (struct fm_cuda_queue *)e;
}

static void free_queue(struct fm_cu_queue *hw)
{
	struct fm_cuda_queue *q = fm_container(hw, struct fm_cuda_queue, hw);

	fm_cuda_watch_put(q->watch);
	fm_cuda_guard_gone(q);
	free(q);
}

static void end_watch(struct fm_shim_entry *e, bool wait)
{
	fm_cuda_watch_end(queue_of(e)->watch, wait);
}

static void note_entered(struct fm_shim_entry *e)
{
	fm_cuda_sole_made(queue_of(e));
}

static void note_left(struct fm_shim_entry *e)
{
	fm_cuda_sole_gone(queue_of(e));
}

/* --- keys --- */

static uintptr_t default_key(CUstream stream, CUcontext ctx)
{
	return stream == FM_CU_STREAM_LEGACY ? fm_shim_default_key(ctx) : fm_shim_thread_key(ctx);
}

FM_HOT CUcontext fm_cuda_current(void)
{
	const struct fm_cu_driver *cu = fm_cuda_driver();
	CUcontext ctx = NULL;

	if (!cu || cu->ctx_get_current(&ctx))
		return NULL;
	fm_cuda_becomes_current(ctx);
	return ctx;
}

uintptr_t fm_cuda_key(CUstream stream)
{
	CUcontext ctx;

	if (!fm_cuda_is_default(stream))
		return (uintptr_t)stream;
	ctx = fm_cuda_current();
	return ctx ? default_key(stream, ctx) : 0;
}

FM_HOT struct fm_cuda_queue *fm_cuda_find_default(CUstream stream)
{
	CUcontext ctx = fm_cuda_current();
	struct fm_cuda_queue *q;

	if (!ctx)
		return NULL;
	q = fm_shim_look_up(default_key(stream, ctx));
	if (q && q != &fm_cuda_refused &&
		(q->hw.ctx != ctx || (q->thread && q->thread != fm_this_thread())))
		return &fm_cuda_refused; /* two threads have one key: hardly possible */
	return q;
}

/* --- making --- */

/* The driver does not survive a fork, so the child has no stream of its parent's. */
static void forget_all(void)
{
	fm_cuda_driver_fork_child(); /* first: others may look for the driver */
	fm_cuda_code_fork_child();
	fm_cuda_functions_fork_child();
	fm_shim_forget_queues();
	fm_cuda_contexts_fork_child();
	fm_cu_fork_child();
	fm_cuda_events_clear();
	fm_cuda_captures_clear();
	fm_cuda_graphs_clear();
	fm_cuda_watch_fork_child();
	fm_cuda_partition_fork_child();
	fm_cuda_priority_fork_child();
	fm_cuda_guard_fork_child();
	fm_cuda_mem_fork_child();
	fm_cuda_managed_fork_child();
	fm_cuda_sets_fork_child();
}

/* A time slice this small lets other programs in while a kernel runs. Only one program on a device
 * may have it: two, or one beside programs that wait at their gates, would only change places. So
 * would a program that was told to stop, each time the other leaves the device for a moment: it has
 * a longer slice until it has come to its gate. */
static void makes_room(enum fm_slice_mode room)
{
	static const uint64_t us[] = {[FM_SLICE_AT_ONCE] = 1, [FM_SLICE_AT_GATE] = 1000};

	fm_cu_timeslice(us[room]);
}

#define REST ":rest"

/* The green context that the stream belongs to, if it is one of a partition's; else NULL. */
static CUgreenCtx green_of(const struct fm_cu_driver *cu, CUstream stream)
{
	CUgreenCtx green = NULL;
	CUcontext base;

	if (fm_cuda_is_default(stream) || !cu->stream_get_both ||
		cu->stream_get_both(stream, &base, &green))
		return NULL;
	return fm_cuda_place_of(green) == FM_CUDA_WHOLE ? NULL : green;
}

static void turned(void *hwq, bool stopped, uint64_t now)
{
	struct fm_cu_queue *hw = hwq;

	fm_cuda_watch_turned(fm_container(hw, struct fm_cuda_queue, hw)->watch, stopped, now);
}

/* Queues of one context run side by side, and so do those of all contexts of an MPS server. */
uint32_t fm_cuda_domain(const struct fm_cu_driver *cu, CUcontext base)
{
	uint64_t h = (uintptr_t)base * UINT64_C(0x9e3779b97f4a7c15);

	if (fm_cu_shares_context(cu))
		return FM_DOMAIN_SERVER | 1;
	return (uint32_t)(h >> 33) | 1;
}

/* A context of the queue's device is current. */
static struct fm_xq *make_xq(struct fm_client *c, struct fm_cuda_queue *q, enum fm_level level)
{
	const struct fm_cu_driver *cu = q->hw.cu;
	char key[FM_DEVKEY_MAX];
	const struct fm_xq_config config = {.device = key,
		.ops = &fm_cu_ops,
		.hwq = &q->hw,
		.in_order = true,
		.group = q->group,
		.level_wish = level,
		.steered = q->bound,
		.turned = q->watch ? turned : NULL,
		.domain = fm_cuda_domain(cu, q->hw.base),
		.interval_ns = fm_cu_shares_context(cu) ? FM_CU_INTERVAL_SHARED : FM_CU_INTERVAL};
	struct fm_xq *xq;

	fm_cu_timeslice_refresh(); /* the context may be new */
	if (!fm_cu_device_key(cu, key, FM_DEVKEY_MAX - sizeof(REST)))
		return NULL;
	/* The rest beside a partition counts as a device of its own: nothing there waits for the
	 * partition. */
	if (fm_cuda_place_of(q->green) == FM_CUDA_REST)
		strcat(key, REST);
	fm_cu_queue_words(&q->hw, fm_client_board(c), sizeof(struct fm_board));
	if (fm_xq_create(&xq, c, &config))
		return NULL;
	return xq;
}

/* terms: those of a stream that is bound; else NULL. */
static struct fm_cuda_queue *make_queue(
	struct fm_client *c, const struct fm_shim_place *at, const struct fm_cuda_terms *terms)
{
	const struct fm_cu_driver *cu = fm_cuda_driver();
	CUstream stream = (CUstream)at->handle;
	CUcontext ctx = (CUcontext)at->of, base = fm_cu_base_context(cu, ctx, stream);
	CUcontext now = fm_cuda_current(), old;
	bool push = now != ctx && now != base;
	struct fm_cuda_queue *q = fm_lines(sizeof(*q));
	FM_NO_CANCEL;

	if (!q || !cu->ctx_push || !cu->ctx_pop || (push && cu->ctx_push(base))) {
		free(q);
		return NULL;
	}
	fm_cu_queue_init(&q->hw, cu, ctx, base, stream, free_queue);
	q->key = at->key;
	q->thread = at->thread;
	q->green = green_of(cu, stream);
	fm_cuda_room_learn(q, stream);
	if (terms) {
		q->bound = true;
		q->group = terms->group;
		q->watch = terms->watch;
		/* It is idle, save for words of an earlier queue of this stream. */
		q->hw.ours = q->hw.ours_put = 1;
	} else {
		q->group = at->group ? at->group : fm_cuda_priority_group(c, stream);
		fm_cu_look_before(&q->hw);
	}
	fm_cuda_give_back_look();
	fm_cuda_guard_wish(q);
	q->xq = make_xq(c, q, terms ? terms->level : FM_LEVEL_NONE);
	fm_cuda_guard_made(q);
	if (fm_rest_able(c))
		fm_cuda_guard_rests(q);
	if (push)
		cu->ctx_pop(&old);
	if (q->xq)
		return q;
	free(q);
	return NULL;
}

static bool look_where(struct fm_shim_place *at)
{
	const struct fm_cu_driver *cu = fm_cuda_driver();
	CUstream stream = (CUstream)at->handle;
	CUcontext ctx = NULL;

	if (!cu)
		return false;
	if (fm_cuda_is_default(stream))
		ctx = fm_cuda_current();
	else if (cu->stream_get_ctx(stream, &ctx))
		ctx = NULL;
	if (!ctx)
		return false;
	at->of = ctx;
	at->key = fm_cuda_is_default(stream) ? default_key(stream, ctx) : at->handle;
	at->thread = stream == FM_CU_STREAM_PER_THREAD ? fm_this_thread() : NULL;
	return true;
}

static struct fm_shim_entry *make_first(struct fm_client *c, const struct fm_shim_place *at)
{
	struct fm_cuda_queue *q = make_queue(c, at, NULL);

	return q ? &q->entry : NULL;
}

static const struct fm_shim_queue_ops queue_ops = {
	.refused = &fm_cuda_refused.entry,
	.where = look_where,
	.make = make_first,
	.entered = note_entered,
	.left = note_left,
	.closing = end_watch,
	.bind = fm_cuda_bind_any,
	.unbind = fm_cuda_unbind_any,
};

static void end_thread(bool closes)
{
	fm_cuda_captures_of_thread_end();
	if (closes)
		fm_cuda_close_thread();
}

static void tell_client(struct fm_client *c)
{
	fm_cuda_code_tell(c);
	fm_cuda_mem_client_made(c);
}

const struct fm_shim_api fm_shim_api = {
	.name = "cuda",
	.counts_memory = true,
	.makes_room = makes_room,
	.rests = fm_cuda_managed_wished,
	.keep_out = fm_cu_keep_out,
	.looked = fm_cuda_mover_look,
	.client_made = tell_client,
	.fork_child = forget_all,
	.at_exit = fm_cuda_give_back_at_exit,
	.thread_ends = end_thread,
	.queues = &queue_ops,
};

/* A thread that captures may not make what a queue needs. */
struct fm_cuda_queue *fm_cuda_first(
	CUstream stream, const struct fm_cuda_queue *found, const char *call)
{
	bool captures = atomic_load(&fm_cu_captures);

	if (fm_cuda_enqueues && fm_cuda_sets_own(stream))
		return NULL; /* the set's queue counts its jobs */
	return queue_of(fm_shim_first((uintptr_t)stream, found, captures, call));
}

/* --- use by calls that do not launch --- */

void fm_cuda_synced(const struct fm_cuda_mark *m, size_t n, uint64_t since)
{
	fm_shim_lock();
	for (size_t i = 0; i < n; i++) {
		struct fm_cuda_queue *q = queue_of(fm_shim_at(m[i].key));

		if (q && q->generation == m[i].generation)
			fm_cuda_finished(q, &m[i], since);
	}
	fm_shim_unlock();
}

/* The stream is in this context, or in a green one on it. */
static bool of_context(const struct fm_cuda_queue *q, CUcontext ctx)
{
	return q->hw.ctx == ctx || q->hw.base == ctx;
}

struct marks {
	CUcontext ctx;
	struct fm_cuda_mark *m;
	size_t n;
};

static bool add_mark(struct fm_shim_entry *e, void *arg)
{
	struct fm_cuda_queue *q = queue_of(e);
	struct marks *to = arg;

	if (of_context(q, to->ctx))
		to->m[to->n++] = fm_cuda_mark(q);
	return to->n < FM_BOARD_SLOTS;
}

size_t fm_cuda_marks(CUcontext ctx, struct fm_cuda_mark *m)
{
	struct marks to = {.ctx = ctx, .m = m};

	if (fm_shim_has_client())
		fm_shim_each(add_mark, &to);
	return to.n;
}

struct wanted {
	CUcontext ctx;
	bool (*is)(const struct fm_cuda_queue *q);
	bool (*besides)(const struct fm_cuda_queue *q);
};

static bool is_wanted(const struct fm_shim_entry *e, const void *arg)
{
	const struct fm_cuda_queue *q = (const struct fm_cuda_queue *)e;
	const struct wanted *w = arg;

	return (!w->ctx || of_context(q, w->ctx)) && (!w->is || w->is(q)) &&
	       (!w->besides || w->besides(q));
}

size_t fm_cuda_keep(CUcontext ctx, struct fm_xq **xq, bool (*is)(const struct fm_cuda_queue *q),
	bool (*besides)(const struct fm_cuda_queue *q))
{
	return fm_shim_keep(xq, is_wanted, &(struct wanted){ctx, is, besides});
}

struct fm_cuda_queue *fm_cuda_find_legacy(CUcontext ctx)
{
	struct fm_cuda_queue *q = ctx ? fm_shim_look_up(fm_shim_default_key(ctx)) : NULL;

	return q && q != &fm_cuda_refused && q->hw.ctx == ctx ? q : NULL;
}

/* --- closing --- */

void fm_cuda_close_stream(CUstream stream)
{
	if (!fm_cuda_is_default(stream) && fm_shim_has_client())
		fm_shim_close((uintptr_t)stream, false);
}

static bool ends_with_context(struct fm_shim_entry *e, const void *ctx)
{
	struct fm_cuda_queue *q = queue_of(e);

	if (!of_context(q, (CUcontext)ctx))
		return false;
	q->hw.ctx_ends = (CUcontext)ctx;
	atomic_store(&q->hw.ends_in, NULL);
	return true;
}

static bool ends_with_thread(struct fm_shim_entry *e, const void *thread)
{
	struct fm_cuda_queue *q = queue_of(e);

	if (q->thread != thread)
		return false;
	q->hw.ctx_ends = NULL;
	atomic_store(&q->hw.ends_in, &fm_cu_inside);
	return true;
}

void fm_cuda_close_context(CUcontext ctx)
{
	struct fm_cu_turnstile *t;

	if (!ctx)
		return;
	fm_cuda_captures_look();
	if (!fm_shim_has_client())
		return;
	t = fm_cuda_wait_begin(ctx);
	fm_cuda_exec_context_ends(ctx);
	fm_shim_close_if(ends_with_context, ctx, fm_shim_default_key(ctx));
	fm_shim_threads_await();
	fm_cu_guards_end(ctx);
	fm_cuda_wait_end(t);
}

void fm_cuda_close_thread(void)
{
	fm_shim_close_if(ends_with_thread, fm_this_thread(), 0);
}

/* --- binding: no other thread uses the stream --- */

/* A context of its device is current. The driver tells whether the stream is idle, which also
 * settles what the XQueue counts. */
static int look_idle(CUstream stream)
{
	fm_cu_result rc = cuStreamQuery(stream);

	if (rc == FM_CU_SUCCESS)
		return 0;
	return rc == FM_CU_ERROR_NOT_READY ? -EBUSY : -EIO;
}

static int check_idle(CUstream stream, CUcontext *ctx)
{
	const struct fm_cu_driver *cu = fm_cuda_driver();
	CUcontext old;
	int rc;

	if (!cu || !cu->ctx_push || !cu->ctx_pop)
		return -ENODEV;
	if (fm_cuda_is_default(stream) || cu->stream_get_ctx(stream, ctx))
		return -EINVAL;
	if (atomic_load(&fm_cu_captures))
		return -EBUSY;
	if (cu->ctx_push(fm_cu_base_context(cu, *ctx, stream)))
		return -EIO;
	rc = look_idle(stream);
	cu->ctx_pop(&old);
	return rc;
}

int fm_cuda_bind_queue(CUstream stream, const struct fm_cuda_terms *terms)
{
	struct fm_client *c = fm_shim_client();
	struct fm_shim_place at = {.handle = (uintptr_t)stream, .key = (uintptr_t)stream};
	struct fm_shim_entry *was;
	struct fm_cuda_queue *q;
	CUcontext ctx;
	int rc = c ? check_idle(stream, &ctx) : -ENODEV;

	if (rc)
		return rc;
	at.of = ctx;
	q = make_queue(c, &at, terms);
	if (!q)
		return -ENOSPC;
	if (!fm_shim_replace(&q->entry, &was)) {
		q->watch = NULL; /* the caller's */
		fm_xq_close(q->xq);
		return -ENOSPC;
	}
	fm_cuda_guard_bound(q);
	fm_shim_close_entry(was, true);
	return 0;
}

int fm_cuda_unbind_queue(CUstream stream)
{
	struct fm_cuda_view v;
	CUcontext ctx;
	int rc;

	if (!fm_cuda_view(stream, &v))
		return -ENOENT;
	fm_xq_unref(v.xq);
	if (!v.bound)
		return -ENOENT;
	rc = check_idle(stream, &ctx);
	if (rc)
		return rc;
	fm_shim_close((uintptr_t)stream, true);
	return 0;
}

struct idleness {
	CUgreenCtx green;
	bool busy;
	uint64_t last; /* when the last stream of it became idle */
};

static bool look_how_idle(struct fm_shim_entry *e, void *arg)
{
	struct fm_cuda_queue *q = queue_of(e);
	struct idleness *of = arg;

	if (q->green != of->green)
		return true;
	of->busy = fm_slot_pending(q->xq->slot);
	of->last = FM_MAX(of->last, atomic_load(&q->xq->slot->done_at));
	return !of->busy;
}

bool fm_cuda_idle_for(CUgreenCtx green, uint64_t ns)
{
	struct idleness of = {.green = green};
	uint64_t now = fm_now();

	fm_shim_each(look_how_idle, &of);
	return !of.busy && (!of.last || fm_sub_sat(now, of.last) >= ns);
}

bool fm_cuda_view(CUstream stream, struct fm_cuda_view *v)
{
	struct fm_cuda_queue *q = NULL;

	fm_shim_lock();
	if (!fm_cuda_is_default(stream))
		q = queue_of(fm_shim_at((uintptr_t)stream));
	if (q) {
		fm_xq_keep(q->xq);
		*v = (struct fm_cuda_view){q->xq, q->bound, q->group, fm_cuda_watch_stops(q->watch),
			atomic_load(&q->guarded), q->all_sms, q->place_sms};
	}
	fm_shim_unlock();
	return q;
}
