/* SPDX-License-Identifier: Apache-2.0 */
/* A set that decides on the device, beside the fake driver: of whose calls one can fail; what its
 * chunks do; and the maker of a feed. */
#pragma once
#define CU_EXPORT extern
#include "../../cuda.h"
#include "api/cuda/gpusched/feed.h"
#include "base/clock.h"
#include "base/util.h"
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE (120 * FM_S)

/* --- the driver, of whose calls one can fail --- */

static struct fm_cu_driver real, cu;
static _Atomic unsigned calls, failing; /* the failing-th call fails; 0: none */

static inline bool fails(void)
{
	return ++calls == failing;
}

#define FAILS(name, params, args)                      \
	static inline fm_cu_result name##_ params      \
	{                                              \
		return fails() ? 999 : real.name args; \
	}

FAILS(module_load, (CUmodule * m, const void *image), (m, image))
FAILS(module_function, (CUfunction * f, CUmodule m, const char *name), (f, m, name))
FAILS(mem_alloc, (CUdeviceptr * d, size_t size), (d, size))
FAILS(host_alloc, (void **p, size_t size, unsigned flags), (p, size, flags))
FAILS(host_device_pointer, (CUdeviceptr * d, void *p, unsigned flags), (d, p, flags))
FAILS(priority_range, (int *least, int *greatest), (least, greatest))
FAILS(stream_create, (CUstream * s, unsigned flags, int priority), (s, flags, priority))
FAILS(copy_to_device, (CUdeviceptr to, const void *from, size_t size, CUstream s),
	(to, from, size, s))
FAILS(stream_mem_ops, (CUstream s, unsigned n, union fm_cu_mem_op *ops, unsigned flags),
	(s, n, ops, flags))
FAILS(launch, (const struct fm_cu_launch_config *c, CUfunction f, void **params, void **extra),
	(c, f, params, extra))

static inline int open_driver(void **state)
{
	CUcontext ctx;

	(void)state;
#define FIND(name, symbol, params) real.name = (fm_cu_result(*) params)dlsym(RTLD_DEFAULT, symbol);
	FM_CU_DRIVER(FIND)
	cu = real;
	cu.module_load = module_load_;
	cu.module_function = module_function_;
	cu.mem_alloc = mem_alloc_;
	cu.host_alloc = host_alloc_;
	cu.host_device_pointer = host_device_pointer_;
	cu.priority_range = priority_range_;
	cu.stream_create = stream_create_;
	cu.copy_to_device = copy_to_device_;
	cu.stream_mem_ops = stream_mem_ops_;
	cu.launch = launch_;
	return cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0) || cuCtxSetCurrent(ctx);
}

/* --- a set, and what its chunks do --- */

#define MANY   FM_GATES_TASKS
#define CHUNKS 4096

static struct world {
	struct fm_gs set;
	struct fm_gs_task task[MANY];
	uint32_t after[MANY];
	unsigned kind;
	CUdeviceptr words;
	struct fm_cu_gates *gates;
	unsigned queued[MANY], wanted[MANY], number[MANY]; /* number: its ctx */
	_Atomic int error;                                 /* of enqueue */
	_Atomic unsigned running, most, n;
	unsigned order[CHUNKS]; /* tasks, as their chunks began */
} w;

static inline void begin_chunk(void *arg)
{
	unsigned now = atomic_fetch_add(&w.running, 1) + 1, most = atomic_load(&w.most);

	while (now > most && !atomic_compare_exchange_weak(&w.most, &most, now))
		;
	w.order[atomic_fetch_add(&w.n, 1) % CHUNKS] = *(unsigned *)arg;
}

static inline void end_chunk(void *arg)
{
	(void)arg;
	atomic_fetch_sub(&w.running, 1);
}

static inline int enqueue(struct CUstream_st *stream, unsigned chunk, void *ctx)
{
	(void)chunk;
	if (w.error)
		return -ENOTTY;
	return cuLaunchHostFunc(stream, begin_chunk, ctx) ||
			       cuLaunchHostFunc(stream, end_chunk, ctx)
		       ? -EIO
		       : 0;
}

static inline void describe(uint32_t n, uint32_t slots, enum fm_gs_policy policy)
{
	memset(&w, 0, sizeof(w));
	w.set = (struct fm_gs){.n = n,
		.slots = slots,
		.policy = policy,
		.wake = FM_GS_NEVER,
		.task = w.task,
		.after = w.after};
	for (uint32_t i = 0; i < n; i++) {
		w.task[i] = (struct fm_gs_task){
			.chunks = 1, .weight = FM_GS_WEIGHT, .next = FM_GS_NEVER, .first_after = i};
		w.number[i] = i;
	}
}

static inline void start(void)
{
	assert_int_equal(fm_cu_gates_create(&cu, &w.set, MANY, w.kind, &w.gates, NULL), 0);
}

/* As many chunks of the wanted jobs as may stand in the streams; no more than two jobs. */
static inline void refill(uint32_t what)
{
	for (uint32_t i = 0; i < w.set.n; i++) {
		uint64_t done =
			__atomic_load_n(&fm_cu_gates_told(w.gates)->done[i], __ATOMIC_SEQ_CST);
		unsigned most = (unsigned)FM_MIN(w.wanted[i], done + 2) * w.task[i].chunks;
		unsigned from = w.queued[i];

		while (w.queued[i] < most) {
			assert_int_equal(fm_cu_gates_put(w.gates, i, enqueue,
						 w.queued[i] % w.task[i].chunks, &w.number[i]),
				0);
			w.queued[i]++;
		}
		if (w.queued[i] != from)
			assert_int_equal(
				fm_cu_gates_tell(w.gates, i, what, 0, w.queued[i] - from), 0);
	}
}

static inline void release(uint32_t task, unsigned jobs, uint32_t what)
{
	w.wanted[task] += jobs;
	assert_int_equal(fm_cu_gates_tell(w.gates, task, what, jobs, 0), 0);
}

static inline bool all_done(void)
{
	for (uint32_t i = 0; i < w.set.n; i++)
		if (__atomic_load_n(&fm_cu_gates_told(w.gates)->done[i], __ATOMIC_SEQ_CST) !=
			w.wanted[i])
			return false;
	return true;
}

static inline void run(void)
{
	uint64_t end = fm_now() + PATIENCE;

	while (!all_done()) {
		assert_true(fm_now() < end);
		refill(FM_GATES_KICK);
		usleep(200);
	}
}

/* Nothing stands in the streams. The feed's thread may have something done just now, which ends. */
static inline void assert_streams_are_empty(void)
{
	uint64_t end = fm_now() + PATIENCE;
	bool busy;

	while (assert_int_equal(fm_cu_gates_look(w.gates, &busy), 0), busy) {
		assert_true(fm_now() < end);
		usleep(200);
	}
}

static inline void stop(void)
{
	assert_int_equal(fm_cu_gates_destroy(w.gates), 0);
	assert_int_equal(w.running, 0);
}

/* --- with the thread that fills streams --- */
static struct {
	_Atomic bool shut, leaves, bars;
	_Atomic unsigned begun, ended, stands;
	_Atomic uint64_t finished;
} maker;

static inline void begins(void *arg, uint32_t task)
{
	(void)arg;
	(void)task;
	maker.begun++;
}

static inline void ends(void *arg, uint32_t task)
{
	(void)arg;
	(void)task;
	maker.ended++;
}

static inline void has_finished(void *arg, uint64_t jobs)
{
	(void)arg;
	maker.finished = jobs;
}

static inline bool may_run(void *arg)
{
	(void)arg;
	return !maker.shut;
}

static inline void stands(void *arg)
{
	(void)arg;
	maker.stands++;
}

static inline bool leaves(void *arg)
{
	(void)arg;
	return maker.leaves;
}

static inline bool bars(void *arg)
{
	(void)arg;
	return maker.bars;
}

static const struct fm_cu_feed_hooks hooks = {.begin = begins,
	.end = ends,
	.finished = has_finished,
	.may_run = may_run,
	.stands = stands,
	.leaves = leaves,
	.bars = bars};

static inline int release_fed(struct fm_cu_feed *f, uint32_t task, uint64_t jobs)
{
	int rc = fm_cu_feed_ask(f, task, jobs);

	return rc ? rc : fm_cu_feed_release(f, task, jobs);
}

static inline struct fm_cu_feed *start_fed(unsigned depth)
{
	struct fm_cu_feed_task task[MANY];
	struct fm_cu_feed *f;
	CUcontext ctx;

	for (uint32_t i = 0; i < w.set.n; i++)
		task[i] = (struct fm_cu_feed_task){.enqueue = enqueue,
			.ctx = &w.number[i],
			.period = w.task[i].period != 0,
			.chunks = w.task[i].chunks,
			.n_after = w.task[i].n_after,
			.after = w.after + w.task[i].first_after};
	memset(&maker, 0, sizeof(maker));
	start();
	assert_int_equal(cu.ctx_get_current(&ctx), 0);
	assert_int_equal(
		fm_cu_feed_create(&cu, ctx, w.gates, task, w.set.n, depth, w.words, &hooks, &f), 0);
	return f;
}

static inline void stop_fed(struct fm_cu_feed *f)
{
	unsigned n = w.n;

	fm_cu_feed_destroy(f);
	stop();
	assert_int_equal(w.n, n); /* nothing stood in the streams */
}
