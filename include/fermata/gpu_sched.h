/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of tasks that schedule themselves: the end of each piece of work decides which piece comes
 * next, by a real-time policy, and no thread of a processor is asked in between.
 *
 *	#include <fermata/gpu_sched.h>
 *
 *	struct fm_gpu_set_options options = {.size = sizeof(options), .policy = "edf",
 *		.slots = 1, .engine = "cpu"};
 *	struct fm_gpu_task camera = {.size = sizeof(camera), .name = "camera",
 *		.deadline_ns = 33000000, .wcet_ns = 4000000, .n_chunks = 4, .enqueue = launch_part};
 *	struct fm_gpu_set *set = fm_gpu_set_new(&options, &error);
 *	int number = fm_gpu_task_add(set, &camera);
 *
 *	fm_gpu_set_start(set);
 *	fm_gpu_release(set, number, 1);
 *	fm_gpu_set_drain(set, FM_FOREVER);
 *	fm_gpu_set_free(set);
 *
 * The idea of decisions on the device is that of the on-GPU scheduling paper (docs/gpu-sched.md has
 * the reference and what is different here): the paper changes the driver and goes round robin.
 *
 * Words. A task is work that comes again and again; each time is a job. A job is released, by one
 * of four things: by the host (fm_gpu_release), by a store of any code (fm_gpu_release_word), by a
 * period, or by the completion of other tasks (`after`); by the last alone, or by some of the
 * others, and in any case by the host. It runs as n_chunks chunks, one after the
 * other; between two chunks it can be preempted. On each slot one chunk runs at a time. The jobs of
 * a task run in order.
 *
 * Engines.
 *   "cpu"    a software device, in both libraries. Its slots are threads, or it has virtual time,
 *            where the same calls always lead to the same order. It is there for tests, for
 *            learning, and for devices that cannot decide by themselves: then a chunk's work waits
 *            for the device.
 *   "gates"  CUDA, in libfermata-cuda: programs started by `fermata run`, or linked to it. Each
 *            task has a stream of the context that is current at fm_gpu_set_new(), and the end of
 *            each chunk decides there, or in a set that is `resident` a warp that stays on the
 *            device while there is something for it. Sets have 32 tasks at most.
 *   "graphs" CUDA, likewise. Each chunk is a graph, which the device launches itself: what enqueue
 *            launches, captured, or one of the program's (`graph`). It needs the device runtime of
 *            a CUDA toolkit where the program runs, and has 16 slots at most. In a set that is
 *            `resident` a chain of graphs stays on the device in place of that warp. It has run
 *            on no device yet.
 *   NULL     the best one that there is for a device: "gates". Without one: -ENOSYS.
 *
 * Policies; with all of them a chunk that runs is not stopped (but with "graphs", on one slot and
 * not `resident`, in a program with Fermata's guardian: docs/gpu-sched.md), and what is equal goes
 * by number:
 *   "fixed-priority"  the largest priority.
 *   "edf", "k-edf"    the earliest deadline; with several slots this is global EDF. Tasks without a
 *                     deadline come last.
 *   "least-laxity"    a job that may wait no longer, as long as its need is known; else the largest
 *                     priority, and among equals the least time that it may wait.
 *   "fifo"            the earliest release.
 *   "fair"            the least device time so far, in proportion to weight.
 *
 * Units: times are nanoseconds. They begin at fm_gpu_set_start in virtual time, and are those of
 * CLOCK_MONOTONIC otherwise.
 *
 * Errors: functions return 0 or a negative errno; a call that fails has no effect.
 * fm_gpu_set_why() has a text about the last one. -EINVAL: an argument is invalid, such as a `size`
 * that is too small, or NULL. -ENODEV: the set's context has ended, or its device has failed; the
 * set is over, and others live. -EBADF: the set was made by the parent of this process. -EBUSY: not
 * in this state of the set, or from within a function that the set has called. No function prints,
 * exits, or blocks without bound, except for the waits asked for, and for those of "gates" while
 * the daemon lets others run.
 *
 * Ownership: texts, structures and arrays that are given are copied. `ctx` and what is behind it
 * stay the program's, and must live until the set is freed.
 *
 * Threads: every function may be called from any thread; fm_gpu_set_free as the last. enqueue and
 * functions that are launched are called by threads of the set, or by the threads that call
 * fm_gpu_release and fm_gpu_set_advance; for one task by one at a time. They may call
 * fm_gpu_release, fm_gpu_set_stats and fm_gpu_set_now. With "gates" the set's context is current in
 * enqueue, and what enqueue launches are the program's own calls of the driver.
 */
#ifndef FERMATA_GPU_SCHED_H
#define FERMATA_GPU_SCHED_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;
struct CUgraphExec_st;
struct fm_gpu_set;

#ifndef FM_FOREVER
#define FM_FOREVER UINT64_MAX
#endif

#define FM_GPU_TASKS_MAX    1024u /* of a set */
#define FM_GPU_SLOTS_MAX    64u
#define FM_GPU_DEPTH_MAX    64u
#define FM_GPU_CHUNKS_MAX   4096u
#define FM_GPU_BACKLOG      64u /* jobs of a task that are released and not complete */
#define FM_GPU_TIME_MAX     (UINT64_C(1) << 62)
#define FM_GPU_PERIOD_MIN   1000u
#define FM_GPU_DECISION_MAX UINT64_C(1000000000)

/*
 * NULL, and the error in *error (may be NULL). -EINVAL: no such policy or engine, no slots, too
 * many, or too deep, or a group or device without a name, or with a long one. -ENOSYS: this library
 * does not have the engine. -EOPNOTSUPP: the engine has no sets that are `resident`, of virtual
 * time, of so many slots, or of another group or device than the process's. -ENODEV: no context is
 * current. -ENOMEM.
 */
struct fm_gpu_set_options {
	size_t size; /* sizeof(struct fm_gpu_set_options) */
	const char *policy;
	unsigned slots; /* chunks that run at once, at least 1 */
	unsigned depth; /* jobs that stand in a task's stream in advance; 0: 2 */
	const char *engine;
	/* What releases by period or by a word needs something that looks at the clock and at words
	 * for as long as the set is started; with "cpu" a thread that wakes each 100 us, with
	 * "gates" a warp, and with "graphs" one for each slot that has nothing to run. Those take
	 * device time from other programs, and are not there while the
	 * group may not run, while the set is suspended, and in a set without words while nothing
	 * is released in the next 3 ms. A set that does not say so has neither periods nor words,
	 * and nothing on the device while nothing is released. */
	bool resident;
	/* "cpu": time passes in fm_gpu_set_advance() and fm_gpu_set_drain() only. */
	bool virtual_time;
	/* From a decision to the begin of what it opens, at most FM_GPU_DECISION_MAX. In virtual
	 * time it takes that long. `admit` charges it for each chunk; in real time twice, since
	 * another decision may be under way. Otherwise it must be 0. */
	uint64_t decision_ns;
	/* Start only what keeps its deadlines for certain. */
	bool admit;
	/* In real time a set is a queue of the scheduler's (fermata/fermata.h): in the group of
	 * that name, NULL: the process's own; on the device of that name, which queues of other
	 * programs may share, NULL: on one of its own. While its group may not run, no chunk
	 * begins. Not in virtual time. With "gates" NULL alone: the process's group, and the device
	 * of the context. */
	const char *group, *device;
};
struct fm_gpu_set *fm_gpu_set_new(const struct fm_gpu_set_options *options, int *error);

/*
 * A task, before the set is started (else -EBUSY). Returns its number, from 0 on. -E2BIG: a task
 * more than FM_GPU_TASKS_MAX, or than 32 with "gates" and "graphs". -EOPNOTSUPP: a graph, which the
 * engine cannot launch. -EINVAL: a name that has no 1 to 63 printable characters without spaces,
 * quotes and slashes; a time of FM_GPU_TIME_MAX or more; a period of less than 1 us, or in a set
 * that is not `resident`; a phase without a period; a deadline beyond the period; a weight beyond
 * 2^20; too many chunks; neither enqueue nor wcet_ns, or with "gates" no enqueue, or with "graphs"
 * not one of enqueue and graph, or a chunk without one; a period of a task that comes after others:
 * for jobs that need both, give the period to a task whose enqueue launches nothing, and let this
 * one come after that, too.
 */
struct fm_gpu_task {
	size_t size;          /* sizeof(struct fm_gpu_task) */
	const char *name;     /* NULL: "task" and its number */
	uint64_t period_ns;   /* 0: it is not released by period */
	uint64_t deadline_ns; /* after the release; 0: the period, or none */
	uint64_t phase_ns;    /* from the start to the first release by period */
	uint64_t wcet_ns;     /* device time of a job, at most; 0: not known */
	int32_t priority;     /* larger: more urgent */
	unsigned weight;      /* for "fair"; 0: 1024 */
	/* Puts the work of one chunk, 0 to n_chunks - 1, into the stream, and returns 0 or a
	 * negative errno. The stream is only there for this call. It is called in advance, and must
	 * not wait for the stream, in which nothing runs before the set says so. A chunk that gets
	 * no work ends at once. After an error the task is off: its jobs are dropped, and further
	 * releases return that error; the other tasks go on. With "gates" it is likewise -EDEADLK
	 * if enqueue has called something that waits for the device, which failed then; -EINVAL if
	 * it has left the stream in a capture; -ETIME if it took more than 10 s. NULL ("cpu"): each
	 * chunk lasts its part of wcet_ns. */
	int (*enqueue)(struct CUstream_st *stream, unsigned chunk, void *ctx);
	/* With "graphs" enqueue is called by fm_gpu_set_start(), once for each chunk, while the
	 * stream is captured; the chunk does that again for each job. Its error is that of the
	 * start. */
	/* "graphs", instead of enqueue: a graph for each chunk, instantiated for launch by the
	 * device, in the set's context. Nothing else launches, changes or destroys it until the set
	 * is freed; one graph may be that of several chunks of the set, on several slots of several
	 * chunks of one task. NULL */
	struct CUgraphExec_st **graph;
	unsigned n_chunks; /* 0: 1 */
	/* Its k-th job is released when each of these tasks has completed its k-th, whatever
	 * releases those. They may be added later; fm_gpu_set_start() checks them. Jobs that the
	 * host releases come in addition. */
	const unsigned *after;
	unsigned n_after;
	void *ctx;
};
int fm_gpu_task_add(struct fm_gpu_set *set, const struct fm_gpu_task *task);

/*
 * Starts the set: periods begin now. -EINVAL: no task, more slots than tasks, or an `after` that is
 * no task, or leads back to its own task; or a name that no group can have. -EBUSY: it is started.
 * -ENOSPC: the process has too many queues, or groups. -ENOMEM, -EAGAIN: no memory or threads.
 * With "gates", -E2BIG: more tasks than there are channels of the device for them, with "graphs"
 * more slots;
 * fm_gpu_set_why() has the number. -ENOSYS, -EIO: the driver lacks what it takes, or refuses it.
 * With "graphs", -ENOSYS: or there is no device runtime (docs/gpu-sched.md); -EINVAL: a graph that
 * the device cannot launch, or work that cannot be captured, and fm_gpu_set_why() names the chunk,
 * the node and the reason; or an error of enqueue. With either engine, -EPERM: the set is
 * `resident`, and the daemon is strict (docs/strict.md).
 *
 * With `admit`, also -EDQUOT: a task may miss its deadline; fm_gpu_set_why() tells which. That is
 * decided by sufficient tests, so a set that is refused need not miss any. -EOPNOTSUPP: another
 * policy than "edf" and "k-edf". -EINVAL: a task without wcet_ns, or with a deadline and releases
 * by anything but a period. Chunks count as equally long, and tasks without a deadline only by
 * theirs.
 */
int fm_gpu_set_start(struct fm_gpu_set *set);

/*
 * No more releases, and waits for the jobs that are released, and for those that they release: from
 * the call on fm_gpu_release() is -ESHUTDOWN, no period releases, and what is added to a word stays
 * there, and is released when the set is started again. What was added before the call counts;
 * what is added until the device has heard of it, too.
 * -ETIMEDOUT: they are not complete; call it again. In virtual time time passes up to timeout_ns.
 * Afterwards the set may be started again, or get more tasks: what was counted stays. -EINVAL: it
 * was never started. A set that is suspended is never done.
 */
int fm_gpu_set_drain(struct fm_gpu_set *set, uint64_t timeout_ns);

/*
 * With "gates" and `resident`, up to `depth` jobs of a task with a period or a word stand in its
 * stream in advance, and cannot be taken back. When the set is drained or freed, or when something
 * waits for the device meanwhile (memory is freed, code is loaded), they run without a release, and
 * count as `spare`. Code that must know can tell by its word, which is not changed by that.
 */

/* Chunks that run end, or are cut short where they only pass time; others do not begin, but with
 * "gates" those that stand in streams, which run one beside the other. NULL, and a
 * set of the parent process, is nothing. Not from within a function that the set has called. */
void fm_gpu_set_free(struct fm_gpu_set *set);

/*
 * Releases jobs. If so many wait that it would be more than FM_GPU_BACKLOG, the rest is dropped and
 * counted; nothing wraps. -EINVAL: no such task, or no jobs, or a task with a deadline in a set
 * with `admit`, which is released by its period alone. -ESHUTDOWN: the set is not started, or
 * drains. Else the error with which the task has ended.
 */
int fm_gpu_release(struct fm_gpu_set *set, unsigned task, unsigned jobs);

/* A word that any code may add to, atomically: each 1 is a job. -EINVAL: the set is not `resident`,
 * or no such task, or one as above, or one that comes after others, as with a period. With "cpu"
 * the address is one of this process, with the others one of the device, for kernels, copies and
 * stream memory operations. It lives as long as the set. */
int fm_gpu_release_word(struct fm_gpu_set *set, unsigned task, uint64_t **word);

/*
 * No chunk begins until fm_gpu_set_resume(). What runs, ends; jobs are released as before. Both are
 * idempotent. Deadlines that pass meanwhile are missed.
 */
int fm_gpu_set_suspend(struct fm_gpu_set *set);
int fm_gpu_set_resume(struct fm_gpu_set *set);

/* What has happened to a task. FM_GPU_SET: to all of them together. */
#define FM_GPU_SET UINT32_MAX
struct fm_gpu_stats {
	size_t size;       /* set by the caller: sizeof(struct fm_gpu_stats) */
	uint64_t released; /* jobs that were, or will be, run */
	uint64_t done, missed;
	/* Of those missed: the deadline passed while the set was stopped, by the scheduler or by
	 * fm_gpu_set_suspend(). */
	uint64_t missed_stopped;
	uint64_t dropped;   /* releases beyond FM_GPU_BACKLOG, or of a task that is off */
	uint64_t overruns;  /* jobs that had more device time than wcet_ns */
	uint64_t spare;     /* "gates": of those released, jobs that stood in the stream in advance,
			     * and ran since something waited for the device */
	uint64_t device_ns; /* of chunks, from the decision on; in virtual time from the begin on */
	/* From the release to the end. P99 is told by 6 % too high at most. */
	uint64_t response_max_ns, response_p99_ns;
	/* Of the whole set, in each task's answer, too. */
	uint64_t decisions, decision_ns, decision_max_ns;
	uint64_t started; /* chunks */
	unsigned running; /* chunks */
	int error;        /* of its enqueue; FM_GPU_SET: of the first task that has one */
};
int fm_gpu_set_stats(struct fm_gpu_set *set, unsigned task, struct fm_gpu_stats *stats);

/* What was wrong with the last call that failed, and what to do; "" if none has. */
int fm_gpu_set_why(struct fm_gpu_set *set, char *text, size_t size);

/* The set's clock. */
uint64_t fm_gpu_set_now(struct fm_gpu_set *set);

/* In virtual time, else -EINVAL: time passes. -ELOOP: a million things happen at one time; it stays
 * at that time. */
int fm_gpu_set_advance(struct fm_gpu_set *set, uint64_t ns);

/*
 * For enqueue, with the engine "cpu": work that lasts ns, less than FM_GPU_TIME_MAX, and then calls
 * fn(arg), if there is one. In virtual time fn takes no time. Else the work lasts until fn has
 * returned, so with 0 ns fn may itself do the work, or launch it on a device and wait. -EINVAL: not
 * a stream that enqueue has just been given. -ENOMEM.
 */
int fm_gpu_cpu_launch(struct CUstream_st *stream, uint64_t ns, void (*fn)(void *arg), void *arg);

#ifdef __cplusplus
}
#endif
#endif
