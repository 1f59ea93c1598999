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
#include "api/cuda/shim/managed/managed.h"
#include "base/cancel.h"
#include "guarded.h"
#include "xqueue/rest.h"
#include <sched.h>
#include <string.h>
#include <time.h>

#define POINTER_MEMORY_TYPE 2 /* CU_POINTER_ATTRIBUTE_MEMORY_TYPE */

static _Atomic(void *) real[FM_CUDA_CALLS];

bool fm_cuda_is_pageable(uintptr_t p)
{
	fm_cu_result (*ask)(void *to, int what, CUdeviceptr p) =
		(fm_cu_result(*)(void *, int, CUdeviceptr))fm_cuda_symbol("cuPointerGetAttribute");
	unsigned type;

	return ask && ask(&type, POINTER_MEMORY_TYPE, p);
}

/* What is in front of the call, in its own stream. The stream may wait for this very thread, so
 * only the time counts in which nothing of ours holds it. */
static void await_what_is_before(struct fm_cuda_queue *q, CUstream stream)
{
	const struct timespec nap = {.tv_nsec = FM_CU_WAIT_LOOK};
	const struct fm_cu_driver *cu = q->hw.cu;
	uint64_t now = fm_now(), open = 0;

	for (unsigned looks = 0; open < FM_CU_COPY_IDLE_MOST; looks++) {
		bool runs = fm_xq_may_run(q->xq);
		uint64_t since = now;

		if (!cu->stream_query || cu->stream_query(stream) != FM_CU_ERROR_NOT_READY)
			return;
		if (looks < FM_CU_WAIT_LOOKS)
			sched_yield();
		else
			nanosleep(&nap, NULL);
		now = fm_now();
		open += runs ? now - since : 0;
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

/* Does the driver wait for the end of the copy? */
static bool waits_for_end(const char *name, uintptr_t to)
{
	if (!strstr(name, "Async"))
		return strncmp(name, "cuMemcpy", 8) == 0;
	return (!strncmp(name, "cuMemcpyDtoHAsync", 17) || !strncmp(name, "cuMemcpyAsync", 13)) &&
	       fm_cuda_is_pageable(to);
}

#define FIRST_OF(a, ...) a
#define FIRST(args)      FIRST_OF args
#define ON_work(symbol, per_thread, name, since, note, params, stream, key, waits)                 \
	static fm_cu_result outside_##symbol CALL_PARAMS(params)                                   \
	{                                                                                          \
		unsigned naming;                                                                   \
		fm_cu_result rc;                                                                   \
                                                                                                   \
		if (key_waits(key))                                                                \
			come_in(fm_cuda_stream(stream, per_thread),                                \
				(waits) || waits_for_end(                                          \
						   #symbol, (uintptr_t)FIRST(CALL_ARGS(params)))); \
		naming = fm_cuda_naming_begin();                                                   \
		rc = ((__typeof__(&symbol))atomic_load(&real[FM_CUDA_##symbol]))CALL_ARGS(params); \
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
	if (!outside[id] || !fm_cuda_managed_wished())
		return next;
	atomic_store(&real[id], fm_cuda_batch(id, next));
	return outside[id];
}
