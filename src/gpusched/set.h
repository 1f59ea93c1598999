/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the module and for engines (engine.h): what is behind the handle of <fermata/gpu_sched.h>.
 *
 * Owns: sets of tasks, their streams and their threads.
 *
 * Locks: one for each set, over its state and its streams. It is held over no function of the
 * program's, and over no decision.
 *
 * Threads: any of the program's; in real time one for each slot, which runs chunks.
 */
#pragma once
/* Everything is compiled hidden; what the public header declares is exported. */
#pragma GCC visibility push(default)
#include <fermata/gpu_sched.h>
#pragma GCC visibility pop
#include "base/lockorder.h"
#include "beside.h"
#include <pthread.h>
#include <sys/types.h>

#define FM_GPU_NAME_MAX 64
#define FM_GPU_WHY_MAX  256
#define FM_GPU_DEPTH    2
#define FM_GPU_LOOK     UINT64_C(100000) /* ns: how often an idle thread looks at words */

struct fm_gpu_engine;

struct fm_gpu_command {
	uint64_t ns;
	void (*fn)(void *arg);
	void *arg;
	bool last; /* of its chunk */
};

/* Commands in a ring, whose capacity is a power of two. */
struct fm_gpu_commands {
	struct fm_gpu_command *at;
	size_t first, n, cap;
};

/* What the host knows of a task, beside the words in host.g.task. */
struct fm_gpu_work {
	char name[FM_GPU_NAME_MAX];
	int (*enqueue)(struct CUstream_st *stream, unsigned chunk, void *ctx);
	void *ctx;
	struct CUgraphExec_st **graph; /* of each chunk; NULL */
	uint32_t *after;
	bool has_word;
	uint64_t word;      /* of the engine "cpu" */
	int error;          /* of enqueue; then the task is off, */
	const char *reason; /* and why, if that is known better; NULL */

	bool filling;   /* a thread puts chunks into the stream */
	uint32_t chunk; /* the next one of the job that is being put there */
	uint64_t jobs;  /* that stand in the stream, or stood there, as a whole */
	uint64_t begun; /* chunks */
	struct fm_gpu_commands stream;

	struct fm_gpu_seen seen; /* the decider's */

	uint64_t until; /* virtual time: the end of the command that runs */
};

enum fm_gpu_state { FM_GPU_NEW, FM_GPU_STARTED, FM_GPU_DRAINS, FM_GPU_DRAINED };

struct fm_gpu_set {
	struct fm_gs_host host;
	struct fm_gpu_beside beside;
	const struct fm_gpu_engine *engine;
	void *device; /* of the engine */
	pid_t owner;
	unsigned depth;
	bool resident, admit;
	uint64_t decision; /* what one costs, as the options say; ns */

	pthread_mutex_t lock; /* of all that follows */
	pthread_cond_t cond;  /* gates were opened, or chunks have ended, or the set ends */
	enum fm_gpu_state state;
	char why[FM_GPU_WHY_MAX];
	struct fm_gpu_work *work;
	uint32_t *after; /* host.g.after */
	bool stop, looking;
	uint64_t words_seen; /* sum of what words have told */

	pthread_t thread[FM_GPU_SLOTS_MAX];
	unsigned threads;

	bool advancing; /* virtual time: a thread is in fm_gpu_cpu_advance() */
	uint32_t on[FM_GPU_SLOTS_MAX];
	unsigned n_on;
};

static inline bool fm_gpu_ahead(const struct fm_gpu_set *s, uint32_t task)
{
	const struct fm_gs_task *t = &s->host.g.task[task];

	return t->period || t->n_after || s->work[task].has_word;
}

/* The set that calls the program's function in which this thread is. */
extern __thread const struct fm_gpu_set *fm_gpu_inside;

/* stream.c: the lock is not held. Puts as many chunks into the task's stream as may stand there.
 * Returns whether there is news for the core: chunks, or that the task is off. */
bool fm_gpu_fill(struct fm_gpu_set *s, uint32_t task);
/* The lock is held, and the stream is not empty. */
struct fm_gpu_command fm_gpu_take(struct fm_gpu_commands *c);
/* Without the lock. */
void fm_gpu_call(const struct fm_gpu_set *s, const struct fm_gpu_command *c);

/* cpu.c: the lock is not held. */
void fm_gpu_cpu_kick(struct fm_gpu_set *s);
void fm_gpu_cpu_leave(struct fm_gpu_set *s); /* after fm_gs_host_enter() */
/* Up to that time; `until_idle`: or until nothing is released that is not complete. */
int fm_gpu_cpu_advance(struct fm_gpu_set *s, uint64_t to, bool until_idle);
