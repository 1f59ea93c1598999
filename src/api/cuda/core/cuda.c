/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cuda/core/guard/guard_graph.h"
#include "api/cuda/core/guard/guard_pad.h"
#include "base/util.h"
#include "internal.h"
#include "reach.h"
#include "timeslice.h"
#include <errno.h>

__thread unsigned fm_cu_inside;

/* The mode is set each time, because another thread may begin a capture at any moment, and a query
 * of an event from here would spoil that capture. */
int fm_cu_enter(const struct fm_cu_driver *cu)
{
	int mode = FM_CU_CAPTURE_MODE_RELAXED;

	fm_cu_inside++;
	return !cu->thread_capture_mode || cu->thread_capture_mode(&mode) ? -1 : mode;
}

void fm_cu_leave(const struct fm_cu_driver *cu, int mode)
{
	if (mode >= 0)
		cu->thread_capture_mode(&mode);
	fm_cu_inside--;
}

static bool is_of(const struct fm_cu_reach *r, const struct fm_cu_queue *q)
{
	return r && atomic_load_explicit(&r->ctx, memory_order_acquire) == q->base;
}

bool fm_cu_reaches(const struct fm_cu_queue *q)
{
	return is_of(q->reach, q);
}

/* Strict mode. */
static bool is_apart(const struct fm_gate_words *w)
{
	return w->gate_map != w->map;
}

static bool reaches_gates(const struct fm_cu_queue *q, const struct fm_gate_words *w)
{
	return !is_apart(w) || is_of(q->page, q);
}

/* A context on the queue's base is current. */
static bool reach(struct fm_cu_queue *q)
{
	if (FM_UNLIKELY(!fm_cu_reaches(q)))
		q->reach = fm_cu_reach(q->cu, q->base, FM_CU_BOARD, q->map, q->map_size);
	return q->reach;
}

/* Any context is current. */
static bool reach_from_afar(struct fm_cu_queue *q)
{
	CUcontext old;
	bool ok;

	if (FM_LIKELY(fm_cu_reaches(q)))
		return true;
	if (q->cu->ctx_push(q->base))
		return false;
	ok = reach(q);
	q->cu->ctx_pop(&old);
	return ok;
}

/* The base is current, and this thread may use a stream of it. */
static bool reach_page(struct fm_cu_queue *q, const struct fm_gate_words *w)
{
	if (FM_UNLIKELY(!reaches_gates(q, w)))
		q->page =
			fm_cu_reach(q->cu, q->base, FM_CU_GATE_PAGE, w->gate_map, w->gate_map_size);
	return reaches_gates(q, w);
}

static bool reach_page_from_afar(struct fm_cu_queue *q, const struct fm_gate_words *w)
{
	CUcontext old;
	bool ok;

	if (FM_LIKELY(reaches_gates(q, w)))
		return true;
	if (q->cu->ctx_push(q->base))
		return false;
	ok = reach_page(q, w);
	q->cu->ctx_pop(&old);
	return ok;
}

static int reach_gates(void *hwq, const struct fm_gate_words *w)
{
	struct fm_cu_queue *q = hwq;
	int rc = fm_cu_visit(q);

	if (rc)
		return -EBUSY;
	rc = reach_page(q, w) ? 0 : -EOPNOTSUPP;
	fm_cu_untouch(q);
	return rc;
}

/* word: in the board. */
static union fm_cu_mem_op mem_op(
	const struct fm_cu_queue *q, uint32_t operation, const volatile void *word, uint64_t value)
{
	union fm_cu_mem_op o = {.pad = {0}};

	o.op.operation = operation;
	o.op.address = q->reach->device + ((uintptr_t)word - (uintptr_t)q->map);
	o.op.value = value;
	return o;
}

static union fm_cu_mem_op wait_op(const struct fm_cu_queue *q, const struct fm_gate_words *w)
{
	union fm_cu_mem_op o = mem_op(q, FM_CU_OP_WAIT_VALUE_32, w->gate, 0);

	if (is_apart(w))
		o.op.address = q->page->device + ((uintptr_t)w->gate - (uintptr_t)w->gate_map);
	o.op.flags = FM_CU_WAIT_VALUE_EQ;
	return o;
}

/* word: in the board. */
static union fm_cu_mem_op wait_for_zero(const struct fm_cu_queue *q, const volatile void *word)
{
	union fm_cu_mem_op o = mem_op(q, FM_CU_OP_WAIT_VALUE_32, word, 0);

	o.op.flags = FM_CU_WAIT_VALUE_EQ;
	return o;
}

/* Fills in what a gate waits for; returns how many operations that is. */
#define WAITS 2
static unsigned waits(
	const struct fm_cu_queue *q, const struct fm_gate_words *w, union fm_cu_mem_op ops[WAITS])
{
	ops[0] = wait_op(q, w);
	if (!w->hold)
		return 1;
	ops[1] = wait_for_zero(q, w->hold);
	return 2;
}

/* The lowest bit of the gate word decides (FM_GATE_PADS). */
static void look_at_lowest_bit(union fm_cu_mem_op *wait)
{
	wait->op.value = UINT32_MAX - 1;
	wait->op.flags = FM_CU_WAIT_VALUE_NOR;
}

static int enqueue(struct fm_cu_queue *q, union fm_cu_mem_op *ops, unsigned n)
{
	fm_cu_result rc;

	atomic_fetch_add(&q->ours, 1);
	rc = q->cu->stream_mem_ops(q->stream, n, ops, 0);
	atomic_fetch_add(&q->ours_put, 1);

	/* The context is a new one at the same address as an old one whose end we have not heard
	 * of. */
	if (rc == FM_CU_ERROR_INVALID_VALUE)
		fm_cu_reach_forget(q->base);
	return rc ? -EIO : 0;
}

/* Tests gates on the beginning of the board, which never changes: it is written as it is, then
 * waited for. */
static bool takes_gates(struct fm_cu_queue *q)
{
	uint64_t head = *(const uint64_t *)q->map;
	union fm_cu_mem_op ops[2] = {
		mem_op(q, FM_CU_OP_WRITE_VALUE_64, q->map, head),
		mem_op(q, FM_CU_OP_WAIT_VALUE_32, q->map, (uint32_t)head),
	};

	ops[1].op.flags = FM_CU_WAIT_VALUE_EQ;
	return !enqueue(q, ops, FM_ARRAY_LEN(ops));
}

/* Called with the context's first queue: the program has nothing under way there that a driver
 * might wait for. */
static enum fm_cu_gates try_context(struct fm_cu_queue *q)
{
	if (!takes_gates(q))
		return FM_CU_NO_GATES;
	fm_cu_spread_try(q);
	return FM_CU_GATES;
}

void fm_cu_queue_words(struct fm_cu_queue *q, void *map, size_t size)
{
	q->map = map;
	q->map_size = size;
}

/* A guard's resources belong to the base, which may not be current: a green context may be, or
 * none. */
static struct fm_cu_guard *new_guard(struct fm_cu_queue *q)
{
	const struct fm_cu_driver *cu = q->cu;
	struct fm_cu_guard *guard;
	CUgreenCtx green = NULL;
	CUcontext base, old;

	if (cu->stream_get_both && cu->stream_get_both(q->stream, &base, &green))
		return NULL;
	if (cu->ctx_push(q->base))
		return NULL;
	guard = fm_cu_guard_new(cu, q->base, green, q->loops);
	cu->ctx_pop(&old);
	return guard;
}

/* Gates are tested with the first queue of each context. */
static unsigned levels(void *hwq)
{
	struct fm_cu_queue *q = hwq;
	const struct fm_cu_driver *cu = q->cu;
	bool gates = false;
	int mode;

	if (!cu->stream_mem_ops || !cu->host_register || !cu->host_device_pointer || !q->map)
		return 1u << 1;
	mode = fm_cu_enter(cu);
	if (q->stream == FM_CU_STREAM_PER_THREAD &&
		(!cu->stream_id || cu->stream_id(q->stream, &q->id)))
		q->id = 0;
	if (reach(q)) {
		if (atomic_load(&q->reach->gates) == FM_CU_UNTRIED)
			atomic_store(&q->reach->gates, try_context(q));
		gates = atomic_load(&q->reach->gates) == FM_CU_GATES;
	}
	/* No guard for a stream in which only its own thread may place gates, because that thread
	 * might be anywhere when the stream is to stop. */
	if (gates && q->guarded && !fm_cu_bound(q))
		q->guard = new_guard(q);
	fm_cu_leave(cu, mode);
	return 1u << 1 | (unsigned)gates << 2 | (unsigned)!!q->guard << 3;
}

static int sync_stream(void *hwq)
{
	struct fm_cu_queue *q = hwq;

	return q->cu->stream_synchronize(q->stream) ? -EIO : 0;
}

/* The operation that reports that everything before it has finished. */
static union fm_cu_mem_op passed_op(
	const struct fm_cu_queue *q, const struct fm_gate_words *w, uint64_t finished)
{
	return mem_op(q, FM_CU_OP_WRITE_VALUE_64, w->progress, 2 * finished);
}

/* The operation that reports that the device stands at the gate. */
static union fm_cu_mem_op stands_op(
	const struct fm_cu_queue *q, const struct fm_gate_words *w, uint64_t finished)
{
	uint64_t waiting = q->guard ? fm_cu_guard_waiting(q->guard) : 2 * finished + 1;

	return mem_op(q, FM_CU_OP_WRITE_VALUE_64, w->progress, waiting);
}

/* Fills in the rest of a gate. A device that is about to go on says so, and then looks once more
 * whether the process rests: what it writes is in memory before it reads (hwqueue.h). */
#define GATE_ENDS (WAITS + 5)
static unsigned gate_ends(const struct fm_cu_queue *q, const struct fm_gate_words *w,
	uint64_t finished, bool numbered, union fm_cu_mem_op ops[GATE_ENDS])
{
	union fm_cu_mem_op *gate;
	unsigned n = 0;

	if (w->memory) {
		ops[n] = mem_op(q, FM_CU_OP_WAIT_VALUE_32, w->memory, w->number);
		ops[n++].op.flags = FM_CU_WAIT_VALUE_GEQ;
	}
	gate = ops + n;
	n += waits(q, w, gate);
	if (numbered)
		look_at_lowest_bit(gate);
	if (w->rest)
		ops[n++] = wait_for_zero(q, w->rest);
	if (q->guard)
		ops[n++] = numbered ? fm_cu_guard_limit(q->guard) : fm_cu_guard_wait(q->guard);
	ops[n++] = passed_op(q, w, finished);
	if (w->leave)
		ops[n++] = wait_for_zero(q, w->leave);
	return n;
}

static int enqueue_gate(struct fm_cu_queue *q, const struct fm_gate_words *w, uint64_t finished)
{
	bool numbered = q->guard && fm_cu_guard_numbers(q->guard, w->pads);
	union fm_cu_mem_op ops[2 + GATE_ENDS];
	unsigned n = 0;
	int rc;

	if (numbered)
		ops[n++] = fm_cu_guard_arrives(q->guard);
	ops[n++] = stands_op(q, w, finished);
	n += gate_ends(q, w, finished, numbered, ops + n);
	rc = enqueue(q, ops, n);
	if (rc && numbered && fm_cu_guard_refused(q->guard))
		return enqueue_gate(q, w, finished);
	if (!rc && q->guard)
		fm_cu_guard_counted(q->guard, numbered);
	if (!rc && q->guard)
		fm_cu_guard_gated(q->guard, w->progress, finished);
	return rc;
}

/* The default stream is that of the current context. In a program's call about its own context's
 * end another context may be current. 1: the context must be popped. */
static int push_for_default(struct fm_cu_queue *q)
{
	CUcontext now;

	if (q->stream != FM_CU_STREAM_LEGACY || q->cu->ctx_get_current(&now) || now == q->ctx)
		return 0;
	return q->cu->ctx_push(q->ctx) ? -EIO : 1;
}

static int gate(void *hwq, const struct fm_gate_words *w, uint64_t finished, bool sample)
{
	struct fm_cu_queue *q = hwq;
	int mode = fm_cu_enter(q->cu), pushed = push_for_default(q), rc = FM_MIN(pushed, 0);
	CUcontext old;

	if (!rc && !reach_page_from_afar(q, w)) {
		rc = -EOPNOTSUPP;
	} else if (!rc && !reach_from_afar(q)) {
		rc = -EIO;
	} else if (!rc) {
		fm_cu_sample_end(q);
		rc = enqueue_gate(q, w, finished);
		if (!rc && sample)
			fm_cu_sample_begin(q);
	}
	if (pushed > 0)
		q->cu->ctx_pop(&old);
	fm_cu_leave(q->cu, mode);
	return rc;
}

/* Not with a guard, which must know what is between two gates. */
static int gate_part(void *hwq, const struct fm_gate_words *w, uint64_t finished, bool second)
{
	struct fm_cu_queue *q = hwq;
	union fm_cu_mem_op ops[GATE_ENDS];
	unsigned n = 1;
	int rc, mode;

	if (q->guard || !fm_cu_reaches(q) || !reaches_gates(q, w))
		return -EOPNOTSUPP;
	mode = fm_cu_enter(q->cu);
	if (second)
		n = gate_ends(q, w, finished, false, ops);
	else
		ops[0] = stands_op(q, w, finished);
	rc = enqueue(q, ops, n);
	fm_cu_leave(q->cu, mode);
	return rc;
}

static int enqueue_inner(struct fm_cu_queue *q, const struct fm_gate_words *w)
{
	union fm_cu_mem_op ops[2 + WAITS] = {mem_op(q, FM_CU_OP_WRITE_VALUE_32, w->waiting, 1)};
	unsigned n = 1 + waits(q, w, ops + 1);
	int rc;

	ops[n++] = mem_op(q, FM_CU_OP_WRITE_VALUE_32, w->waiting, 0);
	fm_cu_inside++;
	rc = enqueue(q, ops, n);
	fm_cu_inside--;
	return rc;
}

/* The beginning of the board never changes, so this waits for nothing, wherever the graph is
 * launched. An executable graph whose kernels are guarded has other words there (guard_graph.h). */
static int enqueue_seam(struct fm_cu_queue *q)
{
	union fm_cu_mem_op ops[FM_CU_COVER_OPS];
	uint32_t head = *(const uint32_t *)q->map;
	int rc;

	for (unsigned i = 0; i < FM_CU_COVER_OPS; i++)
		ops[i] = mem_op(
			q, i == 1 ? FM_CU_OP_WAIT_VALUE_32 : FM_CU_OP_WRITE_VALUE_32, q->map, head);
	ops[1].op.flags = FM_CU_WAIT_VALUE_EQ;
	fm_cu_inside++;
	rc = enqueue(q, ops, FM_ARRAY_LEN(ops));
	fm_cu_inside--;
	return rc;
}

/* While the stream is captured no memory can be made known to the driver. */
static int inner(void *hwq, const struct fm_gate_words *w)
{
	if (!fm_cu_reaches(hwq) || (w && !reaches_gates(hwq, w)))
		return -EIO;
	return w ? enqueue_inner(hwq, w) : enqueue_seam(hwq);
}

/* It is not known what launches that left blocks out have finished: they need a gate. */
static int put_fence(struct fm_cu_queue *q, const struct fm_gate_words *w, uint64_t finished)
{
	int rc = -EIO;

	if (reach(q) && fm_cu_unfenced(q)) {
		if (reach_page(q, w))
			rc = enqueue_gate(q, w, finished);
	} else if (reach(q)) {
		union fm_cu_mem_op op = passed_op(q, w, finished);

		rc = enqueue(q, &op, 1);
		if (!rc && q->guard)
			fm_cu_guard_gated(q->guard, w->progress, finished);
	}
	return rc;
}

/* Called by the agent, or by the thread that destroys the stream, or that ends with it. */
static int write_fence(void *hwq, const struct fm_gate_words *w, uint64_t finished)
{
	struct fm_cu_queue *q = hwq;
	bool by_own = atomic_load(&q->ends_in) == &fm_cu_inside;
	int rc = by_own ? fm_cu_visit_own(q) : fm_cu_touch(q);

	if (rc)
		return rc;
	rc = put_fence(q, w, finished);
	if (by_own)
		fm_cu_leave_own(q);
	else
		fm_cu_untouch(q);
	if (rc && rc != -EBUSY && rc != -EAGAIN && q->guard)
		fm_cu_guard_doubt(q->guard);
	return rc;
}

/* If the device is lost, the driver returns an error for any query of any stream. */
static bool lost(void *hwq)
{
	struct fm_cu_queue *q = hwq;
	fm_cu_result rc;

	if (!q->cu->stream_query || fm_cu_visit(q))
		return false;
	rc = q->cu->stream_query(fm_cu_bound(q) ? FM_CU_STREAM_LEGACY : q->stream);
	fm_cu_untouch(q);
	return rc && rc != FM_CU_ERROR_NOT_READY;
}

static void close_stream(void *hwq)
{
	struct fm_cu_queue *q = hwq;

	fm_cu_sample_close(q);
	fm_cu_track_close(q);
	if (q->guard && q->ctx_ends)
		fm_cu_guard_abandon(q->guard);
}

/* The agent ends: what it has not finished, it never will. */
static void quiesce(void *hwq)
{
	fm_cu_turnstile_over();
}

/* orphaned: the queue is still at the hold of its guard, so the guard serves no other queue. */
static void release(void *hwq, bool orphaned)
{
	struct fm_cu_queue *q = hwq;

	if (q->guard && orphaned)
		fm_cu_guard_abandon(q->guard);
	if (q->guard)
		fm_cu_guard_release(q->guard);
	if (q->release)
		q->release(q);
}

CUcontext fm_cu_base_context(const struct fm_cu_driver *cu, CUcontext ctx, CUstream stream)
{
	CUgreenCtx green = NULL;
	CUcontext base = NULL;

	/* A green context has no per-thread default streams that could be queried. */
	if (stream == FM_CU_STREAM_PER_THREAD)
		stream = FM_CU_STREAM_LEGACY;
	if (!cu->stream_get_both || cu->stream_get_both(stream, &base, &green) || !green || !base)
		return ctx;
	return base;
}

void fm_cu_queue_init(struct fm_cu_queue *q, const struct fm_cu_driver *cu, CUcontext ctx,
	CUcontext base, CUstream stream, void (*on_release)(struct fm_cu_queue *q))
{
	*q = (struct fm_cu_queue){.cu = cu,
		.ctx = ctx,
		.base = base,
		.stream = stream,
		.release = on_release,
		.owner = &fm_cu_inside};
}

void fm_cu_context_ends(const struct fm_cu_driver *cu, CUcontext ctx)
{
	fm_cu_pads_end(cu, ctx);
}

void fm_cu_context_stays(CUcontext ctx)
{
	fm_cu_pads_stay(ctx);
}

static bool blocked(void *hwq)
{
	const struct fm_cu_queue *q = hwq;

	return fm_cu_pads_making(q->base);
}

void fm_cu_context_gone(CUcontext ctx)
{
	fm_cu_reach_forget(ctx);
	fm_cu_guards_forget(ctx);
}

void fm_cu_fork_child(void)
{
	fm_cu_visit_fork_child();
	fm_cu_reach_fork_child();
	fm_cu_guard_fork_child();
	fm_cu_timeslice_fork_child();
}

const struct fm_hw_ops fm_cu_ops = {
	.name = "cuda",
	.levels = levels,
	.sync = sync_stream,
	.track = fm_cu_track,
	.reap = fm_cu_reap,
	.close = close_stream,
	.release = release,
	.quiesce = quiesce,
	.lost = lost,
	.device_gate = {.gate = gate,
		.part = gate_part,
		.write_fence = write_fence,
		.sampled = fm_cu_sampled,
		.reach_gates = reach_gates,
		.inner = inner},
	.stop = {.interrupt = fm_cu_interrupt, .restore = fm_cu_restore},
	.guardian = {.unfenced = fm_cu_unfenced,
		.max_unfenced = fm_cu_max_unfenced,
		.stopped = fm_cu_stopped,
		.query = fm_cu_query,
		.pad_ready = fm_cu_pad_prepare,
		.pad_ahead = fm_cu_pad_ahead,
		.pad = fm_cu_pad,
		.pad_of = fm_cu_pad_all,
		.blocked = blocked,
		.enter = fm_cu_enter_first},
};
