/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies and fills of a process that can rest (xqueue/rest.h). Such a call may wait in the driver,
 * for a gate that is closed or for what is in front of it. It would count as inside for as long,
 * and keep memory from moving. So it waits in front of the driver instead: where the call is
 * counted and its command announced already, and where only processes pay that can rest, in a
 * function that stands between the shim's and the driver's.
 *
 * Calls that name addresses otherwise have such a function, too: they wait while memory is out.
 */
#include "api/cuda/shim/managed/named.h"
#include "base/cancel.h"
#include "guarded.h"
#include "xqueue/rest.h"
#include <sched.h>
#include <string.h>
#include <time.h>

#define POINTER_MEMORY_TYPE 2 /* CU_POINTER_ATTRIBUTE_MEMORY_TYPE */
#define STAGED_AT_ONCE      ((size_t)64 << 10)

static _Atomic(void *) real[FM_CUDA_CALLS];

/* Is this memory of the host that the driver does not know? A copy of the device's to such memory
 * returns when it is made. One from there waits for what is before it, if it is large, or one of
 * several. As measured: bench/results/h200/memory-probes.txt. */
bool fm_cuda_is_pageable(uintptr_t p)
{
	static _Atomic(void *) found;
	void *fn = atomic_load_explicit(&found, memory_order_relaxed);
	fm_cu_result (*ask)(void *to, int what, CUdeviceptr p);
	unsigned type;

	if (FM_UNLIKELY(!fn)) {
		fn = fm_cuda_symbol("cuPointerGetAttribute");
		atomic_store_explicit(&found, fn, memory_order_relaxed);
	}
	ask = (__typeof__(ask))fn;
	return p && ask && ask(&type, POINTER_MEMORY_TYPE, p);
}

static bool to_end(unsigned type, const void *host, CUdeviceptr device)
{
	return (type == FM_CU_MEMORY_HOST && fm_cuda_is_pageable((uintptr_t)host)) ||
	       (type == FM_CU_MEMORY_UNIFIED && fm_cuda_is_pageable(device));
}

static bool to_2d(const struct CUDA_MEMCPY2D_st *copy)
{
	const struct fm_cu_copy_2d *c = (const void *)copy;

	return c && to_end(c->dst.type, c->dst.host, c->dst.device);
}

static bool to_3d(const struct CUDA_MEMCPY3D_st *copy)
{
	const struct fm_cu_copy_3d *c = (const void *)copy;

	return c && to_end(c->dst.type, c->dst.host, c->dst.device);
}

static bool of_list(const CUdeviceptr *srcs, size_t n)
{
	for (size_t i = 0; srcs && i < n; i++)
		if (fm_cuda_is_pageable(srcs[i]))
			return true;
	return false;
}

static bool of_ops(const struct CUDA_MEMCPY3D_BATCH_OP_st *ops, size_t n)
{
	const struct fm_cu_copy_op *op = (const void *)ops;

	for (size_t i = 0; op && i < n; i++)
		if ((uint32_t)op[i].src[0] == FM_CU_OPERAND_POINTER &&
			fm_cuda_is_pageable(op[i].src[1]))
			return true;
	return false;
}

static bool is_staged_late(uintptr_t src, size_t n)
{
	return n > STAGED_AT_ONCE && fm_cuda_is_pageable(src);
}

/* The facts of the table. */
#define HOST(...)                 ONE_OF_HOST(__VA_ARGS__)
#define ONE_OF_HOST(fact)         HOST_##fact
#define HOST_                     false
#define HOST_TO(p)                fm_cuda_is_pageable((uintptr_t)(p))
#define HOST_FROM(p, n)           is_staged_late((uintptr_t)(p), n)
#define HOST_BETWEEN(to, from, n) (fm_cuda_is_pageable(to) || is_staged_late(from, n))
#define HOST_TO_2D(copy)          to_2d(copy)
#define HOST_TO_3D(copy)          to_3d(copy)
#define HOST_OF_LIST(from, n)     of_list(from, n)
#define HOST_OF_OPS(list, n)      of_ops(list, n)

/* What is in front of the call, in its own stream. The stream may wait for this very thread, so
 * this ends: only the time counts in which nothing of ours holds it, and it does not move. A caller
 * that goes in too early stays in the driver when the gate closes, and memory cannot move before it
 * opens. So a look that took long counts as a short one: neither this thread nor the gate was
 * watched meanwhile. */
static void await_what_is_before(struct fm_cuda_queue *q, CUstream stream)
{
	const struct timespec nap = {.tv_nsec = FM_CU_WAIT_LOOK};
	const struct fm_cu_driver *cu = q->hw.cu;
	uint64_t now = fm_now(), open = 0, moved = 0;
	bool runs = fm_xq_may_run(q->xq);

	for (unsigned looks = 0; open < FM_CU_BEFORE_MOST; looks++) {
		uint64_t since = now, done = atomic_load(&q->xq->slot->progress) >> 1;
		bool ran = runs;

		open = done == moved ? open : 0;
		moved = done;
		if (!cu->stream_query || cu->stream_query(stream) != FM_CU_ERROR_NOT_READY)
			return;
		if (looks < FM_CU_WAIT_LOOKS)
			sched_yield();
		else
			nanosleep(&nap, NULL);
		now = fm_now();
		runs = fm_xq_may_run(q->xq);
		open += ran && runs ? FM_MIN(now - since, FM_CU_BEFORE_LOOK_MOST) : 0;
	}
}

/* The caller is inside a turnstile, and leaves it meanwhile. */
static FM_COLD void wait_outside(struct fm_cuda_queue *q, CUstream stream, bool ends)
{
	const struct timespec nap = {.tv_nsec = FM_CU_WAIT_LOOK};
	struct fm_cu_turnstile *t = fm_cu_queue_turnstile(&q->hw);
	FM_NO_CANCEL;

	fm_cu_push_end(t);
	if (!fm_xq_may_run(q->xq))
		fm_xq_await_gates(q->xq);
	if (ends)
		await_what_is_before(q, stream);
	fm_rest_miss(q->xq->client, true);
	while (!fm_cu_push_begin(t, true) && fm_cu_kept_out()) {
		fm_cu_push_end(t);
		nanosleep(&nap, NULL);
	}
	fm_rest_miss(q->xq->client, false);
}

/* The call is the program's own, and counted: not one that the driver makes in another. */
static void come_in(CUstream stream, bool ends)
{
	struct fm_cuda_queue *q;

	if (fm_cu_inside != 1 || atomic_load(&fm_cu_captures))
		return;
	q = fm_cuda_find_governed(stream);
	if (q && q->xq->level >= FM_LEVEL_QUEUED && fm_cu_queue_turnstile(&q->hw) &&
		(ends || !fm_xq_may_run(q->xq)))
		wait_outside(q, stream, ends);
}

/* A copy that is not asynchronous. */
static bool waits_for_end(const char *name)
{
	return !strstr(name, "Async") && strncmp(name, "cuMemcpy", 8) == 0;
}

/* Is it a call that the program has asked to return at its end alone? */
static bool syncs(const char *name)
{
	return FM_UNLIKELY(atomic_load_explicit(&fm_cuda_managed_syncs, memory_order_relaxed)) &&
	       fm_cu_inside == 1 && !strstr(name, "Async") && !atomic_load(&fm_cu_captures);
}

static FM_COLD fm_cu_result sync_behind(CUstream stream)
{
	const struct fm_cu_driver *cu = fm_cuda_driver();

	return cu && cu->stream_synchronize ? cu->stream_synchronize(stream) : FM_CU_SUCCESS;
}

#define ON_work(symbol, per_thread, name, since, note, params, stream, key, waits, ...)            \
	static fm_cu_result outside_##symbol CALL_PARAMS(params)                                   \
	{                                                                                          \
		unsigned naming;                                                                   \
		fm_cu_result rc;                                                                   \
                                                                                                   \
		if (key_waits(key))                                                                \
			come_in(fm_cuda_stream(stream, per_thread),                                \
				(waits) || waits_for_end(#symbol) || syncs(#symbol) ||             \
					HOST(__VA_ARGS__));                                        \
		naming = fm_cuda_naming_begin();                                                   \
		rc = ((__typeof__(&symbol))atomic_load(&real[FM_CUDA_##symbol]))CALL_ARGS(params); \
		if (!rc && syncs(#symbol))                                                         \
			rc = sync_behind(fm_cuda_stream(stream, per_thread));                      \
		fm_cuda_naming_end(naming);                                                        \
		return rc;                                                                         \
	}
#define NAMES(symbol, params)                                                      \
	static fm_cu_result outside_##symbol CALL_PARAMS(params)                   \
	{                                                                          \
		__typeof__(&symbol) next =                                         \
			(__typeof__(&symbol))atomic_load(&real[FM_CUDA_##symbol]); \
                                                                                   \
		return FM_CUDA_NAMING(next CALL_ARGS(params));                     \
	}
/* By the facts of the table. */
#define IF_(...)
#define IF_MAP(...)
#define IF_LOADS(...)
#define IF_NAMES(f, ...)                                           f(__VA_ARGS__)
#define IF_NAMES_BY_HAND(f, ...)                                   f(__VA_ARGS__)
#define IF_KERNEL_NODE(f, ...)                                     f(__VA_ARGS__)
#define IF_OLD_KERNEL_NODE(f, ...)                                 f(__VA_ARGS__)
#define IF_OTHER_NODE(f, ...)                                      f(__VA_ARGS__)
#define IF_WORDS_NODE(f, ...)                                      f(__VA_ARGS__)
#define ON_own(symbol, per_thread, name, since, note, params, how) IF_##how(NAMES, symbol, params)
#define ON_code(symbol, per_thread, name, since, note, params, what, ...) \
	IF_##what(NAMES, symbol, params)
#include "api/cuda/calls.def"

#define ENTRY(symbol, ...) [FM_CUDA_##symbol] = (void *)outside_##symbol,
static void *const outside[FM_CUDA_CALLS] = {
#define ON_work(symbol, ...)                                       ENTRY(symbol)
#define ON_own(symbol, per_thread, name, since, note, params, how) IF_##how(ENTRY, symbol, params)
#define ON_code(symbol, per_thread, name, since, note, params, what, ...) \
	IF_##what(ENTRY, symbol, params)
#include "api/cuda/calls.def"
};

void *fm_cuda_outside(enum fm_cuda_id id, void *next)
{
	if (!fm_cuda_managed_wished())
		return next;
	next = fm_cuda_named_outside(id, next);
	if (!outside[id])
		return next;
	atomic_store(&real[id], fm_cuda_batch(id, next));
	return outside[id];
}
