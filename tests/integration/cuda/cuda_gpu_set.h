/* SPDX-License-Identifier: Apache-2.0 */
/* For programs that have sets of tasks which decide on the device (<fermata/gpu_sched.h>, engine
 * "gates"). Whatever is not as it should be ends them with a text. They are linked with libfermata;
 * what is preloaded has the engine. */
#pragma once
#define CU_EXPORT extern
#include "../../cuda.h"
#include "../../fakes/cuda/fake_cuda.h"
#include <errno.h>
#include <fermata/gpu_sched.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Not on a device. */
extern __attribute__((weak)) fake_cuda_fail_fn fake_cuda_fail;
extern __attribute__((weak)) fake_cuda_counted_fn fake_cuda_counted;
extern __attribute__((weak)) fake_cuda_at_fn fake_cuda_at;

#define TASKS    32
#define PATIENCE UINT64_C(120000000000)

static __attribute__((noreturn, format(printf, 1, 2))) void die(const char *text, ...)
{
	va_list args;

	va_start(args, text);
	vfprintf(stderr, text, args);
	va_end(args);
	fputc('\n', stderr);
	_exit(1);
}

#define MUST(condition)                                                            \
	do {                                                                       \
		if (!(condition))                                                  \
			die("%s:%d: it must be: " #condition, __FILE__, __LINE__); \
	} while (0)
#define IS(value, call)                                                                    \
	do {                                                                               \
		int rc_ = (call);                                                          \
		if (rc_ != (value))                                                        \
			die("%s:%d: %s is %d: %s", __FILE__, __LINE__, #call, rc_, why()); \
	} while (0)

/* 1 if it is wrong, and says what: for programs that count that. */
#define WRONG_UNLESS(condition)                                                          \
	((condition) ? 0u                                                                \
		     : (fprintf(stderr, "%s:%d: it must be: " #condition "\n", __FILE__, \
				__LINE__),                                               \
			       1u))

/* --- what chunks do: each word is the same whatever the order among tasks is --- */

struct task {
	unsigned number, chunks, next;
	int (*first)(struct CUstream_st *stream); /* instead of work; NULL */
	_Atomic unsigned ran, wrong;
};

static struct task task[TASKS];
static _Atomic unsigned ran, order[4096];
static struct fm_gpu_set *set;

static const char *why(void)
{
	static char text[256];

	text[0] = 0;
	fm_gpu_set_why(set, text, sizeof(text));
	return text;
}

static void run_chunk(void *arg)
{
	struct task *t = arg;

	order[atomic_fetch_add(&ran, 1) % 4096] = t->number;
	t->ran++;
}

static int enqueue(struct CUstream_st *stream, unsigned chunk, void *ctx)
{
	struct task *t = ctx;

	if (t->first)
		return t->first(stream);
	t->wrong += chunk != t->next;
	t->next = (t->next + 1) % t->chunks;
	return cuLaunchHostFunc(stream, run_chunk, t) ? -EIO : 0;
}

/* --- a set --- */

static bool resident; /* is that the kind of the sets that are made? */
static unsigned depth;
static const char *engine = "gates";

static inline struct fm_gpu_set *make(const char *policy, unsigned slots, int *error)
{
	const struct fm_gpu_set_options options = {.size = sizeof(options),
		.policy = policy,
		.slots = slots,
		.depth = depth,
		.engine = engine,
		.resident = resident};

	return fm_gpu_set_new(&options, error);
}

static inline int add(struct fm_gpu_set *s, unsigned chunks, int priority, const unsigned *after)
{
	struct fm_gpu_task t = {.size = sizeof(t),
		.enqueue = enqueue,
		.n_chunks = chunks,
		.priority = priority,
		.after = after,
		.n_after = after != NULL};
	static unsigned n;
	unsigned number = n++ % TASKS;
	int rc;

	task[number] = (struct task){.number = number, .chunks = chunks};
	t.ctx = &task[number];
	rc = fm_gpu_task_add(s, &t);
	return rc;
}

static struct fm_gpu_stats stats(unsigned of)
{
	struct fm_gpu_stats s = {.size = sizeof(s)};

	IS(0, fm_gpu_set_stats(set, of, &s));
	return s;
}

/* Of a set that is drained: each job that is done of `before` has released one of `of`, which
 * nothing else releases. What was beyond the backlog, as `of` had too few turns, was dropped. */
static inline bool came_after(unsigned of, unsigned before)
{
	struct fm_gpu_stats s = stats(of);

	return s.done + s.dropped == stats(before).done;
}

static inline CUcontext begin(void)
{
	CUcontext ctx;

	MUST(!cuInit(0) && !cuCtxCreate_v2(&ctx, 0, 0));
	return ctx;
}

static inline int launch_nothing(struct CUstream_st *stream)
{
	(void)stream;
	return 0;
}

/* --- as tests/fault/cuda_worker.c: "at CHUNKS TIME", until it is told to stop --- */

static inline bool told_to_stop(void)
{
	struct pollfd in = {.fd = 0, .events = POLLIN};

	return poll(&in, 1, 5) > 0;
}

static inline double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* Tells the test that the set is idle, until that says that its group has not got the device, nor
 * will while it has nothing for it. */
static inline void idle(void)
{
	char line[16];

	puts("idle");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		_exit(1);
}

/* The shortest of some drains of a set that is idle as above: a set that waits for its group's turn
 * where there is none does so for 10 s, each time. */
static inline void drains_in_time(void (*works)(void))
{
	double least = 10, from;

	for (unsigned i = 0; i < 3; i++) {
		works();
		idle();
		from = seconds();
		IS(0, fm_gpu_set_drain(set, PATIENCE));
		least = seconds() - from < least ? seconds() - from : least;
		IS(0, fm_gpu_set_start(set));
	}
	MUST(least < 10);
}

static inline int by_time(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}
