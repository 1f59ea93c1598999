/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Level 3 on CUDA: launches of rewritten kernels (docs/cuda-images.md) that stop between two of
 * their blocks, and are launched again for the blocks that they have left out
 * (docs/cuda-guardian.md).
 *
 * A guard is what one queue has for that: a control block in device memory, which the guardian
 * reads; a word of host memory that gates wait for in addition to the board's (hold); records of
 * the launches that may have to be made again; and two streams of its context.
 *
 * Threads: a thread that launches or places a gate holds the queue's order (xqueue.h,
 * fm_xq_order_take). Gates are placed under the XQueue's lock, and so is the rest. So the numbers
 * of launches are in the order of the stream, and it is known exactly which launches are in front
 * of a gate.
 */
#pragma once
#include "api/cuda/core/driver.h"
#include <stdatomic.h>

struct fm_cu_queue;
struct fm_cu_guard;

/* Makes a guard in context ctx, which is current. green: its stream is of that green context on
 * ctx; or NULL. NULL: the driver lacks something, or there is no memory. loops: with a save area,
 * for kernels that can be left in a loop, if there is memory for it. */
struct fm_cu_guard *fm_cu_guard_new(
	const struct fm_cu_driver *cu, CUcontext ctx, CUgreenCtx green, bool loops);
/* No more calls for this queue follow. The guard may serve again, in the same context. */
void fm_cu_guard_release(struct fm_cu_guard *g);
/* Its context ends: nothing will be launched again, and nothing is held back. */
void fm_cu_guard_abandon(struct fm_cu_guard *g);
/* The driver has refused a call for this queue. If it refuses a query, too, the context has died (a
 * kernel's fault): what was stopped never goes on, and the guard is abandoned. The queue's lock is
 * held. */
void fm_cu_guard_doubt(struct fm_cu_guard *g);
/* fm_cu_guard_green_base: the context that a green context is based on; NULL: it has no guards.
 * fm_cu_guard_green_ends: call it when the green context is about to end, and nothing of its base
 * is stopped. */
CUcontext fm_cu_guard_green_base(CUgreenCtx green);
void fm_cu_guard_green_ends(const struct fm_cu_driver *cu, CUgreenCtx green);
/* Call this before a context ends, while nothing of it is stopped: none of its guards is used any
 * more, including those of destroyed streams. */
void fm_cu_guards_end(CUcontext ctx);
/* Forgets the guards of a context that has ended; in the child after a fork, all of them. */
void fm_cu_guards_forget(CUcontext ctx);
void fm_cu_guard_fork_child(void);

/* A launch as the program makes it, of a kernel whose parameters, ours included, have `bytes`
 * bytes. whole: all blocks or none (FM_GUARD_GRID). */
struct fm_cu_guarded {
	CUfunction function;
	const struct fm_cu_launch_config *config;
	size_t bytes;
	bool whole;
};

/* Do the attributes mean the same when the launch is made again? Those that record an event do not.
 * whole: becomes true if they make the launch one of all blocks or none. */
bool fm_cu_guard_repeats(const struct fm_cu_launch_config *c, bool *whole);

/*
 * Begins a guarded launch. Returns where its parameters, without ours, are to be copied, aligned to
 * 16; fills in ours. NULL: this launch is not guarded and goes behind a gate, because there is no
 * room, or something in it cannot be made again. Takes no lock, does not allocate and makes no
 * system call. The order is held until after fm_cu_guard_end(), which says whether the driver took
 * the launch.
 */
void *fm_cu_guard_begin(struct fm_cu_guard *g, const struct fm_cu_guarded *l, uint64_t ours[3]);
/* Between those two: the launch may be killed in the middle of its blocks, which then run again
 * (FM_GUARD_KILL). `ours' changes. */
void fm_cu_guard_kill(struct fm_cu_guard *g, uint64_t ours[3]);
void fm_cu_guard_end(struct fm_cu_guard *g, bool launched);

/*
 * A launch of a graph whose kernels are guarded (guard_graph.h) is one launch here. No uncovered
 * launch may be in front of it, and a gate must come before the next launch of any kind, because
 * one word would not stop both. False: it is not guarded. True: fm_cu_guard_end() must follow.
 */
struct fm_cu_graph;
bool fm_cu_guard_graph(struct fm_cu_guard *g, struct fm_cu_graph *graph, CUstream stream);
/* The last launch was a graph's, and there is no gate behind it. The order is held. */
bool fm_cu_guard_graph_open(const struct fm_cu_guard *g);
/* How many commands the last gate has reported as finished, or will report. The order is held. */
uint64_t fm_cu_guard_said(const struct fm_cu_guard *g);

/*
 * Call this between fm_cu_guard_begin(), or fm_cu_guard_graph(), and the launch, if the stream may
 * wait in front of the launch for something that is no launch of its own. It places a mark. Nothing
 * behind a mark is stopped before the stream has passed it. False: the driver refuses.
 */
bool fm_cu_guard_mark(struct fm_cu_guard *g, CUstream stream);

/* Were there guarded launches since the last gate? Any thread; exact while the order is held. */
bool fm_cu_guard_uncovered(const struct fm_cu_guard *g);

/* How many were there? The order is held. */
uint64_t fm_cu_guard_open(const struct fm_cu_guard *g);

/* --- within the module: gates (cuda.c) --- */

/* The progress of the queue while it waits at the next gate, instead of 2 * finished + 1: what is
 * finished for certain, which is what the last gate has reported. */
uint64_t fm_cu_guard_waiting(const struct fm_cu_guard *g);
/* What gates wait for in addition to the board's gate word. */
union fm_cu_mem_op fm_cu_guard_wait(const struct fm_cu_guard *g);
/* The stream has taken a gate that reports `finished` commands, or, if nothing is uncovered, only a
 * write of that. progress: the word that is written. */
void fm_cu_guard_gated(struct fm_cu_guard *g, _Atomic uint64_t *progress, uint64_t finished);

/* Operations of level 3, for a queue with a guard (hwqueue.h). */
int fm_cu_interrupt(void *hwq);
int fm_cu_restore(void *hwq);
/* Are there launches that will be made again, once the queue may go on? */
bool fm_cu_stopped(void *hwq);
bool fm_cu_unfenced(void *hwq);
unsigned fm_cu_max_unfenced(void *hwq, unsigned n);
/* That, or has a guarded launch not finished? Under the XQueue's lock. */
bool fm_cu_pending(void *hwq);
