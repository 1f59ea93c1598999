/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cuda/core/timeslice.h"
#include "api/cuda/shim/graph/graph_guard.h"
#include "base/cancel.h"
#include "ends.h"
#include "give_back.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct fm_map fm_cuda_map;
struct fm_cuda_queue fm_cuda_refused;

/* Writers of the map, and those who use a queue that is not the one they launch on. */
static pthread_mutex_t map_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t generations; /* under map_lock */

/* No client could be had for a first launch, and none is asked for again by the next. */
static _Atomic bool gave_up;

/* Names the thread by its address; the context whose stream of this thread was refused. */
static __thread CUcontext thread_refused __attribute__((tls_model("initial-exec")));

static const void *self(void)
{
	return &thread_refused;
}

static void release(struct fm_cu_queue *hw)
{
	struct fm_cuda_queue *q = fm_container(hw, struct fm_cuda_queue, hw);

	fm_cuda_watch_put(q->watch);
	fm_cuda_guard_gone(q);
	free(q);
}

/* It is in the map no more. */
static void close_queue(struct fm_cuda_queue *q, bool wait)
{
	fm_cuda_watch_end(q->watch, wait);
	fm_xq_close(q->xq); /* frees q in the end */
}

/* --- keys --- */

/* Handles of streams are addresses. A context's default stream is told from them by its lowest bit,
 * one of a thread by the next. */
static uintptr_t default_key(CUstream stream, CUcontext ctx)
{
	uintptr_t h = (uintptr_t)ctx;

	if (stream == FM_CU_STREAM_LEGACY)
		return h | 1;
	h = (h ^ (uintptr_t)self() * UINT64_C(0xbf58476d1ce4e5b9)) * UINT64_C(0x9e3779b97f4a7c15);
	return (h & ~(uintptr_t)3) | 2;
}

uintptr_t fm_cuda_thread_key(CUcontext ctx)
{
	return default_key(FM_CU_STREAM_PER_THREAD, ctx);
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
	q = fm_map_find(&fm_cuda_map, default_key(stream, ctx));
	if (q && q != &fm_cuda_refused && (q->hw.ctx != ctx || (q->thread && q->thread != self())))
		return &fm_cuda_refused; /* two threads by one key: all but impossible */
	return q;
}

/* --- making --- */

/* The child has no stream of its parent's: the driver does not survive a fork. */
static void fork_child(void)
{
	for (size_t i = 0; i < FM_MAP_SLOTS; i++)
		atomic_store(&fm_cuda_map.slot[i].key, 0);
	map_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	atomic_store(&gave_up, false);
	fm_cuda_contexts_fork_child();
	thread_refused = NULL;
	fm_cu_fork_child();
	fm_cuda_events_clear();
	fm_cuda_captures_clear();
	fm_cuda_graphs_clear();
	fm_cuda_watch_fork_child();
	fm_cuda_server_fork_child();
	fm_cuda_partition_fork_child();
	fm_cuda_guard_fork_child();
	fm_cuda_ends_fork_child();
}

/* With so small a time slice a kernel makes room in its middle. Only one program on a device may
 * have it: two, or one beside others that wait at their gates, would do nothing but change places.
 * So does one that was told to stop, each time the other leaves the device for a moment: until it
 * has come to its gate it has a longer one. */
static void makes_room(enum fm_room room)
{
	static const uint64_t us[] = {[FM_ROOM_AT_ONCE] = 1, [FM_ROOM_AT_GATE] = 1000};

	fm_cu_timeslice(us[room]);
}

const struct fm_shim_api fm_shim_api = {
	.name = "cuda",
	.makes_room = makes_room,
	.client_made = fm_cuda_code_tell,
	.fork_child = fork_child,
	.at_exit = fm_cuda_give_back_at_exit,
};

#define REST ":rest"

/* Whose streams it is one of; only where there are partitions. */
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

/* In a context on whose device it is. */
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
		.interval_ns = fm_cu_shares_context(cu) ? FM_CU_INTERVAL_SHARED : FM_CU_INTERVAL};
	struct fm_xq *xq;

	fm_cu_timeslice_refresh(); /* the context may be new */
	if (!fm_cu_device_key(cu, key, FM_DEVKEY_MAX - sizeof(REST)))
		return NULL;
	/* What a partition leaves is a device of its own: what runs there waits for nobody else. */
	if (fm_cuda_place_of(q->green) == FM_CUDA_REST)
		strcat(key, REST);
	fm_cu_queue_words(&q->hw, fm_client_board(c), sizeof(struct fm_board));
	if (fm_xq_create(&xq, c, &config))
		return NULL;
	return xq;
}

/* terms: NULL, or as it is bound. */
static struct fm_cuda_queue *make(
	struct fm_client *c, CUstream stream, CUcontext ctx, const struct fm_cuda_terms *terms)
{
	const struct fm_cu_driver *cu = fm_cuda_driver();
	CUcontext base = fm_cu_base_context(cu, ctx, stream), now = fm_cuda_current(), old;
	bool push = now != ctx && now != base;
	struct fm_cuda_queue *q = fm_lines(sizeof(*q));
	FM_NO_CANCEL;

	if (!q || !cu->ctx_push || !cu->ctx_pop || (push && cu->ctx_push(base))) {
		free(q);
		return NULL;
	}
	fm_cu_queue_init(&q->hw, cu, ctx, base, stream, release);
	q->key = fm_cuda_is_default(stream) ? default_key(stream, ctx) : (uintptr_t)stream;
	q->thread = stream == FM_CU_STREAM_PER_THREAD ? self() : NULL;
	q->green = green_of(cu, stream);
	if (terms) {
		q->bound = true;
		q->group = terms->group;
		q->watch = terms->watch;
		/* It is idle, but for words of a queue before this one. */
		q->hw.ours = q->hw.ours_put = 1;
	} else {
		fm_cu_look_before(&q->hw);
	}
	fm_cuda_give_back_look();
	fm_cuda_guard_wish(q);
	q->xq = make_xq(c, q, terms ? terms->level : FM_LEVEL_NONE);
	fm_cuda_guard_made(q);
	if (push)
		cu->ctx_pop(&old);
	if (q->xq)
		return q;
	free(q);
	return NULL;
}

/* Another thread may have made one for the same stream meanwhile: then that one is it. */
static struct fm_cuda_queue *insert(struct fm_cuda_queue *q, uintptr_t key)
{
	struct fm_cuda_queue *there;

	pthread_mutex_lock(&map_lock);
	there = fm_map_find(&fm_cuda_map, key);
	if (!there) {
		if (q != &fm_cuda_refused)
			q->generation = ++generations;
		there = fm_map_insert(&fm_cuda_map, key, q) ? q : &fm_cuda_refused;
		if (there != &fm_cuda_refused)
			fm_cuda_sole_made(there);
	}
	pthread_mutex_unlock(&map_lock);
	if (there != q && q != &fm_cuda_refused)
		fm_xq_close(q->xq); /* frees q in the end */
	return there;
}

/* A thread's stream is not remembered as refused in the map, where it would outlive the thread. */
static struct fm_cuda_queue *first_of_thread(struct fm_client *c, CUcontext ctx)
{
	struct fm_cuda_queue *q = NULL;

	if (thread_refused == ctx)
		return &fm_cuda_refused;
	if (fm_cuda_ends_hear())
		q = make(c, FM_CU_STREAM_PER_THREAD, ctx, NULL);
	if (!q) {
		thread_refused = ctx;
		return &fm_cuda_refused;
	}
	return insert(q, q->key);
}

static struct fm_cuda_queue *first(CUstream stream)
{
	const struct fm_cu_driver *cu = fm_cuda_driver();
	struct fm_cuda_queue *q;
	struct fm_client *c;
	CUcontext ctx = NULL;

	if (!cu)
		return NULL;
	if (fm_cuda_is_default(stream))
		ctx = fm_cuda_current();
	else if (cu->stream_get_ctx(stream, &ctx))
		ctx = NULL;
	if (!ctx)
		return NULL;
	c = fm_shim_client();
	if (!c) {
		atomic_store(&gave_up, true);
		return NULL;
	}
	if (stream == FM_CU_STREAM_PER_THREAD)
		return first_of_thread(c, ctx);
	q = make(c, stream, ctx, NULL);
	return q ? insert(q, q->key) : insert(&fm_cuda_refused, fm_cuda_key(stream));
}

struct fm_cuda_queue *fm_cuda_first(
	CUstream stream, const struct fm_cuda_queue *found, const char *call)
{
	struct fm_cuda_queue *q = NULL;

	if (atomic_load_explicit(&gave_up, memory_order_relaxed) && !fm_shim_has_client())
		return NULL;
	/* What it takes to make a queue is not allowed to a thread that captures: later. */
	if (found != &fm_cuda_refused && !atomic_load(&fm_cu_captures))
		q = first(stream);
	if (q && q != &fm_cuda_refused)
		return q;
	fm_shim_ungoverned(call);
	return NULL;
}

/* --- use by others than launches --- */

void fm_cuda_synced(const struct fm_cuda_mark *m, size_t n, uint64_t since)
{
	struct fm_cuda_queue *q;

	pthread_mutex_lock(&map_lock);
	for (size_t i = 0; i < n; i++) {
		q = fm_map_find(&fm_cuda_map, m[i].key);
		if (q && q != &fm_cuda_refused && q->generation == m[i].generation)
			fm_cuda_finished(q, &m[i], since);
	}
	pthread_mutex_unlock(&map_lock);
}

/* The queue in a slot of the map; NULL if there is none. Under map_lock. */
static struct fm_cuda_queue *at(size_t i)
{
	struct fm_cuda_queue *q;

	if (atomic_load(&fm_cuda_map.slot[i].key) <= FM_MAP_REMOVED)
		return NULL;
	q = atomic_load(&fm_cuda_map.slot[i].value);
	return q == &fm_cuda_refused ? NULL : q;
}

/* Of this context, or of a green one on it. */
static bool of_context(const struct fm_cuda_queue *q, CUcontext ctx)
{
	return q->hw.ctx == ctx || q->hw.base == ctx;
}

size_t fm_cuda_marks(CUcontext ctx, struct fm_cuda_mark *m)
{
	struct fm_cuda_queue *q;
	size_t n = 0;

	if (!fm_shim_has_client())
		return 0;
	pthread_mutex_lock(&map_lock);
	for (size_t i = 0; i < FM_MAP_SLOTS && n < FM_BOARD_SLOTS; i++) {
		q = at(i);
		if (q && of_context(q, ctx))
			m[n++] = fm_cuda_mark(q);
	}
	pthread_mutex_unlock(&map_lock);
	return n;
}

size_t fm_cuda_keep(CUcontext ctx, struct fm_xq **xq, bool (*is)(const struct fm_cuda_queue *q),
	bool (*besides)(const struct fm_cuda_queue *q))
{
	struct fm_cuda_queue *q;
	size_t n = 0;

	if (!fm_shim_has_client())
		return 0;
	pthread_mutex_lock(&map_lock);
	for (size_t i = 0; i < FM_MAP_SLOTS && n < FM_BOARD_SLOTS; i++) {
		q = at(i);
		if (!q || (ctx && !of_context(q, ctx)) || !is(q) || (besides && !besides(q)))
			continue;
		fm_xq_keep(q->xq);
		xq[n++] = q->xq;
	}
	pthread_mutex_unlock(&map_lock);
	return n;
}

struct fm_cuda_queue *fm_cuda_find_legacy(CUcontext ctx)
{
	struct fm_cuda_queue *q =
		ctx ? fm_map_find(&fm_cuda_map, default_key(FM_CU_STREAM_LEGACY, ctx)) : NULL;

	return q && q != &fm_cuda_refused && q->hw.ctx == ctx ? q : NULL;
}

/* --- closing: out of the map first, so that nobody finds it any more --- */

void fm_cuda_close_stream(CUstream stream)
{
	struct fm_cuda_queue *q;

	if (fm_cuda_is_default(stream) || !fm_shim_has_client())
		return;
	pthread_mutex_lock(&map_lock);
	q = fm_map_erase(&fm_cuda_map, (uintptr_t)stream);
	pthread_mutex_unlock(&map_lock);
	if (q && q != &fm_cuda_refused)
		close_queue(q, false);
}

/* All of a context, or, if ctx is NULL, of a thread. */
static void close_all(CUcontext ctx, const void *thread)
{
	uintptr_t legacy = ctx ? default_key(FM_CU_STREAM_LEGACY, ctx) : 0;
	struct fm_cuda_queue *q, *found[FM_BOARD_SLOTS];
	size_t n = 0;

	pthread_mutex_lock(&map_lock);
	for (size_t i = 0; i < FM_MAP_SLOTS && n < FM_BOARD_SLOTS; i++) {
		q = at(i);
		if (q && (ctx ? of_context(q, ctx) : q->thread == thread))
			found[n++] = q;
	}
	for (size_t i = 0; i < n; i++) {
		found[i]->hw.ctx_ends = ctx;
		atomic_store(&found[i]->hw.ends_in, thread ? &fm_cu_inside : NULL);
		fm_map_erase(&fm_cuda_map, found[i]->key);
		fm_cuda_sole_gone(found[i]);
	}
	if (legacy)
		fm_map_erase(&fm_cuda_map, legacy); /* if it was refused */
	pthread_mutex_unlock(&map_lock);
	for (size_t i = 0; i < n; i++)
		close_queue(found[i], false);
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
	close_all(ctx, NULL);
	fm_cuda_ends_await();
	fm_cu_guards_end(ctx);
	fm_cu_wait_end(t);
}

void fm_cuda_close_thread(void)
{
	close_all(NULL, self());
}

/* --- binding: by who is the only one to use the stream --- */

/* With a context of its device current. Whether it is idle the driver says, which settles what the
 * XQueue counts as well. */
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

/* In the place of what was there: its commands are finished. False: the map is full. */
static bool replace(struct fm_cuda_queue *q, struct fm_cuda_queue **was)
{
	bool ok;

	pthread_mutex_lock(&map_lock);
	*was = fm_map_erase(&fm_cuda_map, q->key);
	q->generation = ++generations;
	ok = fm_map_insert(&fm_cuda_map, q->key, q);
	pthread_mutex_unlock(&map_lock);
	return ok;
}

int fm_cuda_bind_queue(CUstream stream, const struct fm_cuda_terms *terms)
{
	struct fm_client *c = fm_shim_client();
	struct fm_cuda_queue *q, *was;
	CUcontext ctx;
	int rc = c ? check_idle(stream, &ctx) : -ENODEV;

	if (rc)
		return rc;
	q = make(c, stream, ctx, terms);
	if (!q)
		return -ENOSPC;
	if (!replace(q, &was)) {
		q->watch = NULL; /* the caller's */
		fm_xq_close(q->xq);
		return -ENOSPC;
	}
	fm_cuda_guard_bound(q);
	if (was && was != &fm_cuda_refused)
		close_queue(was, true);
	return 0;
}

int fm_cuda_unbind_queue(CUstream stream)
{
	struct fm_cuda_view v;
	struct fm_cuda_queue *q;
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
	pthread_mutex_lock(&map_lock);
	q = fm_map_erase(&fm_cuda_map, (uintptr_t)stream);
	pthread_mutex_unlock(&map_lock);
	if (q && q != &fm_cuda_refused)
		close_queue(q, true);
	return 0;
}

bool fm_cuda_idle_for(CUgreenCtx green, uint64_t ns)
{
	uint64_t now = fm_now(), last = 0;
	struct fm_cuda_queue *q;
	bool busy = false;

	pthread_mutex_lock(&map_lock);
	for (size_t i = 0; i < FM_MAP_SLOTS && !busy; i++) {
		q = at(i);
		if (!q || q->green != green)
			continue;
		busy = fm_slot_pending(q->xq->slot);
		last = FM_MAX(last, atomic_load(&q->xq->slot->done_at));
	}
	pthread_mutex_unlock(&map_lock);
	return !busy && (!last || fm_sub_sat(now, last) >= ns);
}

bool fm_cuda_view(CUstream stream, struct fm_cuda_view *v)
{
	struct fm_cuda_queue *q;

	pthread_mutex_lock(&map_lock);
	q = fm_cuda_is_default(stream) ? NULL : fm_map_find(&fm_cuda_map, (uintptr_t)stream);
	if (q == &fm_cuda_refused)
		q = NULL;
	if (q) {
		fm_xq_keep(q->xq);
		*v = (struct fm_cuda_view){q->xq, q->bound, q->group, fm_cuda_watch_stops(q->watch),
			atomic_load(&q->guarded)};
	}
	pthread_mutex_unlock(&map_lock);
	return q;
}
