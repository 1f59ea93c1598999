/* SPDX-License-Identifier: Apache-2.0 */
#include "guarded.h"
#include "api/cuda/shim/managed/managed.h"
#include "api/cuda/shim/sets.h"
#include "base/cancel.h"
#include "base/lockorder.h"
#include "xqueue/rest.h"
#include <pthread.h>
#include <string.h>
#include <time.h>

_Atomic bool fm_cuda_guards, fm_cuda_bound, fm_cuda_ways, fm_cuda_awaited;
static _Atomic unsigned guards; /* queues that have a guard */

/* Guarded launches on streams that the legacy stream waits for; and how many of them are known to
 * have gates behind them. */
static _Atomic uint64_t blocking_launches, blocking_covered;

void fm_cuda_guard_wish(struct fm_cuda_queue *q)
{
	const struct fm_cu_driver *cu = q->hw.cu;
	unsigned flags = 0;

	q->hw.guarded = atomic_load(&fm_cuda_rewrites);
	q->hw.loops = fm_cuda_loops();
	q->blocking = q->hw.stream != FM_CU_STREAM_LEGACY &&
		      (q->hw.stream == FM_CU_STREAM_PER_THREAD || !cu->stream_flags ||
			      cu->stream_flags(q->hw.stream, &flags) ||
			      !(flags & FM_CU_STREAM_NON_BLOCKING));
}

static bool has_room(struct fm_cuda_queue *q, unsigned more)
{
	if (fm_cu_channels_left(fm_xq_at_work(q->xq) + fm_cuda_sets_channels() + more))
		return true;
	fm_xq_crowded(q->xq);
	return false;
}

/* Room for a stop to begin, and for one more stream that gets work while it lasts. */
static bool has_room_to_stop(struct fm_cu_queue *hw)
{
	return has_room(fm_container(hw, struct fm_cuda_queue, hw), 1);
}

/* How far the queue may be ahead: an equal share, or, if it has used that, a share among the queues
 * that have something under way. If the program itself has suspended the queue, this thread may be
 * the one that lets it go on. */
static FM_COLD unsigned ahead(struct fm_cuda_queue *q)
{
	unsigned n = atomic_load_explicit(&guards, memory_order_relaxed), part;
	uint64_t begun = atomic_load_explicit(&q->xq->slot->begun, memory_order_relaxed);

	if (fm_xq_own_suspended(q->xq))
		return FM_CU_AHEAD;
	n = FM_MAX(n, 1u);
	part = FM_MAX(FM_CU_AHEAD / n, FM_CU_AHEAD_LEAST);
	if (n == 1 || fm_slot_pending(q->xq->slot) < part)
		return part;
	if (begun - atomic_load_explicit(&q->told_at, memory_order_relaxed) >= FM_CU_AHEAD_TOLD) {
		n = FM_MAX(fm_xq_at_work(q->xq), 1u);
		atomic_store_explicit(
			&q->part, FM_MAX(FM_CU_AHEAD / n, FM_CU_AHEAD_LEAST), memory_order_relaxed);
		atomic_store_explicit(&q->told_at, begun, memory_order_relaxed);
	}
	return FM_MAX(atomic_load_explicit(&q->part, memory_order_relaxed), part);
}

/* A thread that is ahead waits for the progress that the device writes at its gates, so there are
 * two gates before that. If nothing can be stopped in its middle because too many streams have
 * work, gates are all there is. */
static unsigned max_unfenced(struct fm_cu_queue *hw)
{
	struct fm_cuda_queue *q = fm_container(hw, struct fm_cuda_queue, hw);

	if (!fm_cu_channels_left(fm_xq_at_work(q->xq) + fm_cuda_sets_channels() + 1))
		return 0;
	return FM_MIN(FM_CU_UNFENCED_MOST, ahead(q) / 2);
}

void fm_cuda_guard_made(struct fm_cuda_queue *q)
{
	if (!q->hw.guard)
		return;
	if (q->xq) {
		q->hw.has_room = has_room_to_stop;
		q->hw.max_unfenced = max_unfenced;
		q->hw.pad_green = fm_cuda_pad_green;
		atomic_store(&q->xq->stops_alone, q->bound);
		atomic_fetch_add(&q->awaits, 1); /* this is not known */
		atomic_fetch_add(&guards, 1);
		atomic_store(&fm_cuda_guards, true);
		atomic_store(&fm_cuda_ways, true);
	} else {
		fm_cu_guard_release(q->hw.guard);
	}
}

static bool rests(void)
{
	struct fm_client *c = fm_shim_has_client();

	return c && fm_rest_able(c);
}

void fm_cuda_guard_rests(struct fm_cuda_queue *q)
{
	fm_cu_turnstile(q->hw.base, true);
	atomic_store(&fm_cuda_guards, true);
	atomic_store(&fm_cuda_ways, true);
	fm_cuda_be_careful();
}

void fm_cuda_guard_bound(struct fm_cuda_queue *q)
{
	fm_cu_turnstile(q->hw.base, true);
	atomic_store(&fm_cuda_bound, true);
	atomic_store(&fm_cuda_ways, true);
	fm_cuda_be_careful();
}

/* --- covers --- */

static bool uncovered(const struct fm_cuda_queue *q)
{
	return q->hw.guard && fm_cu_guard_uncovered(q->hw.guard);
}

static bool is_blocking(const struct fm_cuda_queue *q)
{
	return q->blocking;
}

static bool is_any(const struct fm_cuda_queue *q)
{
	return true;
}

static FM_COLD void for_all(CUcontext ctx, bool (*which)(const struct fm_cuda_queue *q),
	bool guarded, void (*call)(struct fm_xq *xq))
{
	struct fm_xq *found[FM_BOARD_SLOTS];
	size_t n = fm_cuda_keep(ctx, found, which, guarded ? NULL : uncovered);

	while (n) {
		call(found[--n]);
		fm_xq_unref(found[n]);
	}
}

static FM_COLD void cover_blocking(uint64_t launches)
{
	for_all(NULL, is_blocking, false, fm_xq_cover);
	atomic_store(&blocking_covered, launches);
}

static void cover_legacy(CUcontext ctx)
{
	struct fm_cuda_queue *legacy = fm_cuda_find_legacy(ctx);

	if (legacy && uncovered(legacy))
		fm_xq_cover(legacy->xq);
}

/* The legacy stream waits for the blocking streams of its context, and they wait for it. */
static inline void cover_implicit(CUstream stream, const struct fm_cuda_queue *q)
{
	uint64_t launches;

	if (stream == FM_CU_STREAM_LEGACY) {
		launches = atomic_load(&blocking_launches);
		if (FM_UNLIKELY(launches != atomic_load(&blocking_covered)))
			cover_blocking(launches);
	} else if (!q || q->blocking) {
		cover_legacy(q ? q->hw.base : fm_cuda_current());
	}
}

FM_HOT void fm_cuda_cover_slow(CUstream stream)
{
	struct fm_cuda_queue *q = fm_cuda_find_governed(stream);

	cover_implicit(stream, q);
	if (q && uncovered(q))
		fm_xq_cover(q->xq);
}

void fm_cuda_cover_all(CUcontext ctx)
{
	if (FM_UNLIKELY(atomic_load_explicit(&fm_cuda_guards, memory_order_relaxed)))
		for_all(ctx, is_any, false, fm_xq_cover);
}

static bool has_guard(const struct fm_cuda_queue *q)
{
	return q->hw.guard;
}

/* A launch under way in another thread cannot be seen yet. So its queue is covered when its order
 * can be taken, and later launches see the capture. */
void fm_cuda_cover_capture(void)
{
	if (FM_UNLIKELY(atomic_load_explicit(&fm_cuda_guards, memory_order_relaxed)))
		for_all(NULL, has_guard, true, fm_xq_cover);
}

void fm_cuda_guard_gone(struct fm_cuda_queue *q)
{
	if (q->hw.guard)
		atomic_fetch_sub(&guards, 1);
}

/* --- calls into the driver --- */

/* If a process has bound streams, its streams stop each other: a stream that runs does not wait for
 * a stopped one. */
static bool apart(void)
{
	return atomic_load_explicit(&fm_cuda_bound, memory_order_relaxed);
}

/* Threads that come at the same time must not all find the same channel free. */
static pthread_mutex_t one_by_one = PTHREAD_MUTEX_INITIALIZER;
FM_LOCK_RANK(one_by_one, CUDA_COMING);

void fm_cuda_guard_fork_child(void)
{
	one_by_one = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

/* Called while something is stopped. A stream that has work keeps its channel. If this thread sees
 * that after it has announced itself in `coming`, the stream counts as at work for all other
 * threads until this thread is done. */
static bool come(struct fm_cuda_queue *q)
{
	bool ok;

	atomic_fetch_add(&q->hw.coming, 1);
	if (fm_slot_pending(q->xq->slot))
		return true;
	atomic_fetch_sub(&q->hw.coming, 1);
	pthread_mutex_lock(&one_by_one);
	ok = has_room(q, !fm_xq_is_at_work(q->xq));
	atomic_fetch_add(&q->hw.coming, ok);
	pthread_mutex_unlock(&one_by_one);
	return ok;
}

/* While memory moves nothing needs this launch, and the mover needs the driver. The program may
 * need its memory: it says so. True: the push has begun, and nothing is stopped. */
static FM_COLD bool push_when_memory_is_back(struct fm_cuda_queue *q, struct fm_cu_turnstile *t)
{
	const struct timespec nap = {.tv_nsec = FM_CU_WAIT_LOOK};
	bool begun = false;

	fm_rest_miss(q->xq->client, true);
	while (!begun && fm_cu_kept_out()) {
		fm_cu_push_end(t);
		nanosleep(&nap, NULL);
		begun = fm_cu_push_begin(t, true);
	}
	fm_rest_miss(q->xq->client, false);
	return begun;
}

/* What is stopped may wait for what this thread launches next, and this thread may be the one that
 * lets it go on. */
static FM_COLD enum fm_cuda_call_kind push_beside(
	struct fm_cuda_queue *q, struct fm_cu_turnstile *t)
{
	const struct timespec nap = {.tv_nsec = FM_CU_WAIT_LOOK};
	uint64_t until = fm_now() + FM_CU_CHANNEL_MOST;
	FM_NO_CANCEL;

	if (fm_cu_kept_out() && push_when_memory_is_back(q, t))
		return FM_CUDA_PUSHES;
	while (!come(q)) {
		if (fm_now() > until && (apart() || fm_xq_may_run(q->xq)))
			return FM_CUDA_PUSHES;
		fm_cu_push_end(t);
		nanosleep(&nap, NULL);
		if (fm_cu_push_begin(t, true))
			return FM_CUDA_PUSHES;
	}
	return FM_CUDA_COMES;
}

static FM_HOT enum fm_cuda_call_kind push(struct fm_cuda_queue *q)
{
	struct fm_cu_turnstile *t = fm_cu_queue_turnstile(&q->hw);

	if (!t)
		return FM_CUDA_FREE;
	if (FM_LIKELY(fm_cu_push_begin(t, apart())) ||
		(atomic_load_explicit(&fm_cu_captures, memory_order_relaxed) && !fm_cu_kept_out()))
		return FM_CUDA_PUSHES;
	return push_beside(q, t);
}

/* A call that is likely to wait. */
static FM_COLD enum fm_cuda_call_kind wait(struct fm_cuda_queue *q)
{
	struct fm_cu_turnstile *t = fm_cu_queue_turnstile(&q->hw);

	if (apart() || !t || !fm_cu_wait_begin(t, FM_CU_COPY_WAIT_MOST))
		return push(q);
	return FM_CUDA_WAITS;
}

/* A driver that loads a function's code at its first launch waits for everything that runs then, in
 * any case. It holds its lock meanwhile, so what is stopped could not go on. */
#define LAZY 2
static bool loads_late(void)
{
	fm_cu_result (*ask)(int *mode) =
		(fm_cu_result(*)(int *))fm_cuda_symbol("cuModuleGetLoadingMode");
	int mode;

	return ask && !ask(&mode) && mode == LAZY;
}

/* A call that certainly waits. What is being stopped may itself wait for what this thread launches
 * next. What rests because it is suspended does not. */
static FM_COLD enum fm_cuda_call_kind wait_first(struct fm_cuda_queue *q)
{
	struct fm_cu_turnstile *t = fm_cu_queue_turnstile(&q->hw);

	if (!t)
		return FM_CUDA_FREE;
	while (!fm_cu_wait_begin(t, FM_CU_FIRST_MOST))
		if (!apart() && fm_xq_may_run(q->xq) && !loads_late())
			return push(q);
	return FM_CUDA_WAITS;
}

FM_HOT void fm_cuda_way_end(struct fm_cuda_queue *q, enum fm_cuda_call_kind way)
{
	if (way >= FM_CUDA_STANDS)
		fm_xq_part_end(q->xq);
	if (way == FM_CUDA_COMES || way == FM_CUDA_COMES_STANDS)
		atomic_fetch_sub(&q->hw.coming, 1);
	if (way == FM_CUDA_WAITS)
		fm_cu_wait_end(q->hw.turnstile);
	else if (way != FM_CUDA_FREE)
		fm_cu_push_end(q->hw.turnstile);
}

/* Has everything put into the stream finished, including what only orders? */
static bool is_idle(void *hwq)
{
	const struct fm_cu_queue *q = hwq;

	return !q->cu->stream_query || q->cu->stream_query(q->stream) != FM_CU_ERROR_NOT_READY;
}

static void await_idle(struct fm_cuda_queue *q)
{
	FM_NO_CANCEL;

	fm_cu_inside++;
	fm_xq_await_over(q->xq, FM_CU_COPY_IDLE_MOST, is_idle);
	fm_cu_inside--;
}

enum fm_cuda_call_kind fm_cuda_copy_enter(
	struct fm_cuda_queue *q, CUstream stream, enum fm_cuda_call_kind way)
{
	if (fm_xq_is_first(q->xq)) /* its gates stay open */
		return way;
	fm_cuda_way_end(q, way);
	if (!apart())
		return wait(q);
	if (stream == FM_CU_STREAM_LEGACY)
		for_all(fm_cuda_current(), is_blocking, true, fm_xq_await_gates);
	fm_xq_await_gates(q->xq);
	if (atomic_load(&q->ordered) && !fm_xq_own_suspended(q->xq)) {
		atomic_store(&q->ordered, false);
		await_idle(q);
	}
	return wait(q);
}

FM_HOT enum fm_cuda_call_kind fm_cuda_order_push(struct fm_cuda_queue *q)
{
	return push(q);
}

struct fm_cuda_queue *fm_cuda_order_first(CUstream stream)
{
	struct fm_cuda_queue *q = fm_cuda_find(stream);

	if (q || !rests() || atomic_load(&fm_cu_captures))
		return NULL;
	return fm_cuda_first(stream, NULL, "(a wait of a stream)");
}

enum fm_cuda_call_kind fm_cuda_order_stands(struct fm_cuda_queue *q, enum fm_cuda_call_kind way)
{
	bool pushes = way == FM_CUDA_PUSHES, captures = atomic_load(&fm_cu_captures);

	if ((!pushes && way != FM_CUDA_COMES) || captures || !fm_xq_part_begin(q->xq))
		return way;
	return pushes ? FM_CUDA_STANDS : FM_CUDA_COMES_STANDS;
}

FM_HOT void fm_cuda_order_put(struct fm_cuda_queue *q)
{
	fm_cu_order_put(
		&q->hw, atomic_load(&q->xq->slot->begun), fm_xq_own_mark(q->xq, fm_xq_mark(q->xq)));
}

/* A green context uses the turnstile of its base context. */
static struct fm_cu_turnstile *current_turnstile(void)
{
	CUcontext ctx = fm_cuda_current();
	struct fm_cu_turnstile *t = ctx ? fm_cu_turnstile(ctx, false) : NULL;

	if (t || !ctx)
		return t;
	ctx = fm_cu_base_context(fm_cuda_driver(), ctx, FM_CU_STREAM_LEGACY);
	return fm_cu_turnstile(ctx, false);
}

/* A thread that waited in the driver for what is behind a closed gate would keep memory from moving
 * for as long as the gate is closed. So it waits outside first. A capture allows no query. */
static FM_COLD void await_ends(CUcontext ctx)
{
	if (rests() && !atomic_load(&fm_cu_captures))
		for_all(ctx, is_any, true, fm_xq_await_end);
}

struct fm_cu_turnstile *fm_cuda_wait_begin(CUcontext ctx)
{
	struct fm_cu_turnstile *t = NULL;

	fm_cuda_kill_forget();
	fm_cuda_sets_leave();
	if (FM_UNLIKELY(atomic_load_explicit(&fm_cuda_ways, memory_order_relaxed)))
		await_ends(ctx);
	if (FM_UNLIKELY(atomic_load_explicit(&fm_cuda_ways, memory_order_relaxed)))
		t = ctx ? fm_cu_turnstile(ctx, false) : current_turnstile();
	fm_cu_wait_begin(t, FM_NEVER);
	return t;
}

void fm_cuda_wait_end(struct fm_cu_turnstile *t)
{
	fm_cu_wait_end(t);
	fm_cuda_sets_stay();
}

bool fm_cuda_wait_begin_all(void)
{
	fm_cuda_kill_forget();
	fm_cuda_sets_leave();
	if (FM_LIKELY(!atomic_load_explicit(&fm_cuda_ways, memory_order_relaxed)))
		return false;
	await_ends(NULL);
	fm_cu_wait_begin_all();
	return true;
}

void fm_cuda_wait_end_all(bool begun)
{
	if (begun)
		fm_cu_wait_end_all();
	fm_cuda_sets_stay();
}

/* --- what waits for a thread of the program's --- */

/* How many waits count for all streams that wait for each other by the driver's rules. */
static _Atomic uint32_t awaits_implicit;

void fm_cuda_awaits_others_slow(struct fm_cuda_queue *q, CUstream stream)
{
	if (q)
		atomic_fetch_add(&q->awaits, 1);
	if (!q || q->blocking || stream == FM_CU_STREAM_LEGACY)
		atomic_fetch_add(&awaits_implicit, 1);
}

void fm_cuda_awaits_program(struct fm_cuda_queue *q, CUstream stream)
{
	if (!atomic_load_explicit(&fm_cuda_awaited, memory_order_relaxed))
		atomic_store(&fm_cuda_awaited, true);
	fm_cuda_awaits_others(q, stream);
}

void fm_cuda_guard_mark(struct fm_cuda_queue *q)
{
	bool implicit = q->blocking || q->hw.stream == FM_CU_STREAM_LEGACY;
	uint32_t n = atomic_load(&q->awaits) + (implicit ? atomic_load(&awaits_implicit) : 0);

	if (FM_UNLIKELY(n != q->marked) && fm_cu_guard_mark(q->hw.guard, q->hw.stream))
		q->marked = n;
}

/* --- launches --- */

/* Nearly all queues have less than an equal share under way. */
static inline bool may_launch(struct fm_cuda_queue *q)
{
	uint64_t n = atomic_load_explicit(&guards, memory_order_relaxed);

	return FM_LIKELY(fm_slot_pending(q->xq->slot) * n < FM_CU_AHEAD) ||
	       fm_xq_ahead(q->xq, ahead(q));
}

/* A launch that is not guarded. While the process rests, or its gate is closed, a stream is given
 * no more than its channel takes: the driver would wait for the device, and hold what the mover
 * needs. At level 1 callers are held instead (fm_xq_hold), and count as such only outside a
 * turnstile. */
static FM_HOT enum fm_cuda_call_kind enter_plainly(struct fm_cuda_queue *q, bool first)
{
	if (q->xq->level < FM_LEVEL_QUEUED && rests())
		return FM_CUDA_FREE;
	if (FM_UNLIKELY(!fm_xq_may_run(q->xq)) && rests())
		fm_xq_ahead(q->xq, FM_CU_AHEAD);
	if (first)
		return wait_first(q);
	return atomic_load_explicit(&fm_cuda_guards, memory_order_relaxed) ? push(q) : FM_CUDA_FREE;
}

/* Between its gate and the end of what it loads a first launch waits in the driver for all that was
 * launched, and so for that gate. Where memory is to move meanwhile, the process would not come to
 * rest as long as the gate is closed. So the code is loaded before. */
static FM_COLD void load_ahead(const void *function)
{
	if (rests() && !atomic_load(&fm_cu_captures) && loads_late())
		fm_cuda_load(function);
}

FM_HOT enum fm_cuda_call_kind fm_cuda_guard_enter(struct fm_cuda_queue *q, CUstream stream,
	const void *what, bool function, const struct fm_cuda_kernel *kernel, bool *first)
{
	enum fm_cuda_call_kind way = FM_CUDA_FREE;

	*first = what && fm_cuda_is_first(q, what, kernel);
	if (FM_UNLIKELY(*first) && function)
		load_ahead(what);
	if (!q->hw.guard) {
		way = enter_plainly(q, *first);
		cover_implicit(stream, q);
		return way;
	}
	/* Going on takes calls to the driver, and a call of the program's that waits for the device
	 * in the driver may keep ours waiting. So a stopped queue makes none. If all that was
	 * launched has finished, one launch is made: a queue without work is never let go on, and
	 * what has the device may wait for this very thread. */
	if (FM_UNLIKELY(!fm_xq_may_run(q->xq)) && !fm_xq_is_padding(q->xq) &&
		fm_slot_pending(q->xq->slot))
		fm_xq_await_gates(q->xq);
	if (*first)
		way = wait_first(q);
	else
		way = may_launch(q) ? push(q) : wait(q);
	cover_implicit(stream, q);
	fm_xq_order_take(q->xq);
	return way;
}

/* The queue may be let past each gate that is put, but seldom twice. */
#define GATES_MOST 8
static FM_COLD void heavy_in_order(struct fm_cuda_queue *q)
{
	for (unsigned i = 0; i < GATES_MOST && fm_cu_guard_heavy(q->hw.guard); i++)
		fm_xq_gate_in_order(q->xq);
}

FM_COLD void fm_cuda_guard_heavy(struct fm_cuda_queue *q)
{
	fm_xq_order_take(q->xq);
	heavy_in_order(q);
	fm_xq_order_give(q->xq);
}

FM_HOT void fm_cuda_guard_pass(struct fm_cuda_queue *q)
{
	fm_xq_cover_in_order(q->xq);
	fm_xq_order_give(q->xq);
}

void fm_cuda_guard_pass_heavy(struct fm_cuda_queue *q)
{
	fm_xq_cover_in_order(q->xq);
	if (FM_UNLIKELY(fm_cuda_may_pad(q)))
		heavy_in_order(q);
	fm_xq_order_give(q->xq);
}

static FM_HOT bool to_be_guarded(struct fm_cuda_queue *q, const struct fm_cuda_kernel *kernel)
{
	return fm_xq_is_shared(q->xq) && !kernel->left &&
	       !atomic_load_explicit(&fm_cu_captures, memory_order_relaxed);
}

FM_HOT bool fm_cuda_guard_launch(struct fm_cuda_queue *q, struct fm_cuda_kernel *kernel,
	CUfunction f, const struct fm_cu_launch_config *config, bool cooperative,
	struct fm_cuda_args *a)
{
	const struct fm_cu_attribute together = {.id = FM_CU_LAUNCH_COOPERATIVE, .value = {1}};
	struct fm_cu_launch_config c = *config;
	struct fm_cu_guarded l = {.function = f,
		.config = &c,
		.bytes = fm_cuda_args_bytes(kernel->image),
		.whole = cooperative || kernel->mode == FM_GUARD_GRID};
	uint64_t ours[FM_GUARD_PARAMS];
	void *copy;

	if (!to_be_guarded(q, kernel))
		return false;
	if (cooperative) {
		c.attributes = &together;
		c.n_attributes = 1;
	}
	if (fm_cu_guard_graph_open(q->hw.guard))
		fm_xq_cover_in_order(q->xq);
	copy = fm_cu_guard_begin(q->hw.guard, &l, ours);
	if (!copy || !fm_cuda_args_copy(kernel->image, a->params, a->extra, copy))
		return false;
	if (FM_UNLIKELY(kernel->kills.n) && fm_cuda_may_kill(kernel, config, copy))
		fm_cu_guard_kill(q->hw.guard, ours);
	fm_cuda_args_put(a, kernel->image, ours);
	fm_cuda_guard_mark(q);
	return true;
}

FM_HOT void fm_cuda_guard_leave(struct fm_cuda_queue *q, bool launched)
{
	fm_cu_guard_end(q->hw.guard, launched);
	if (launched) /* only the thread that holds the order writes this */
		atomic_store_explicit(&q->guarded,
			atomic_load_explicit(&q->guarded, memory_order_relaxed) + 1,
			memory_order_relaxed);
	if (launched && q->blocking)
		atomic_fetch_add(&blocking_launches, 1);
	fm_xq_order_give(q->xq);
}
