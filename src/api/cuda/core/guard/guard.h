/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Level 3 on CUDA: launches of rewritten kernels (docs/cuda-images.md) that stop between two of
 * their blocks, and are launched again for what they have left out (docs/cuda-guardian.md).
 *
 * A guard is what one queue has for that: a control block in device memory, which the guardian
 * knows, a word of the host's that gates wait for besides the board's (hold), records of the
 * launches that may have to be made again, and two streams of its context.
 *
 * Threads. Who launches, and who puts a gate, holds the queue's order (xqueue.h, fm_xq_order_take);
 * gates are put, and the rest is done, under the XQueue's lock. So the numbers of launches are in
 * the order of the stream, and what stands in front of a gate is known exactly.
 */
#pragma once
#include "api/cuda/core/driver.h"
#include <stdatomic.h>

struct fm_cu_queue;
struct fm_cu_guard;

/* In a context of that name, which is current; green: for a stream of that green context on it, or
 * NULL. NULL: the driver has not all it takes, or no memory. loops: with a save area, for kernels
 * that can be left in a loop, if there is memory for it. */
struct fm_cu_guard *fm_cu_guard_new(
	const struct fm_cu_driver *cu, CUcontext ctx, CUgreenCtx green, bool loops);
/* No more calls for it. It may serve again, in the same context. */
void fm_cu_guard_release(struct fm_cu_guard *g);
/* Its context ends: nothing will be launched again, and nothing is held back. */
void fm_cu_guard_abandon(struct fm_cu_guard *g);
/* What a green context stands on; NULL: it has no guards. When it is about to end, and nothing of
 * that is stopped. */
CUcontext fm_cu_guard_green_base(CUgreenCtx green);
void fm_cu_guard_green_ends(const struct fm_cu_driver *cu, CUgreenCtx green);
/* Before a context ends, while nothing of it is stopped: none of its guards is used any more, those
 * of streams that were destroyed included. */
void fm_cu_guards_end(CUcontext ctx);
/* Guards of a context that has ended, and, in the child after a fork, all. */
void fm_cu_guards_forget(CUcontext ctx);
void fm_cu_guard_fork_child(void);

/* A launch as the program makes it, of a kernel whose parameters, ours included, have so many
 * bytes. whole: all blocks or none (FM_GUARD_GRID). */
struct fm_cu_guarded {
	CUfunction function;
	const struct fm_cu_launch_config *config;
	size_t bytes;
	bool whole;
};

/* Do its attributes mean the same when the launch is made again? Not those that record an event.
 * whole: becomes true if they make it one of all blocks or none. */
bool fm_cu_guard_repeats(const struct fm_cu_launch_config *c, bool *whole);

/*
 * The launch is to be guarded. Returns where its parameters, without ours, are to be copied,
 * aligned to 16; and ours. NULL: this one goes unguarded, behind a gate: no room, or something in
 * it that cannot be made again. No lock, no allocation, no system call. With the order held, until
 * after fm_cu_guard_end(): did the driver take it?
 */
void *fm_cu_guard_begin(struct fm_cu_guard *g, const struct fm_cu_guarded *l, uint64_t ours[3]);
void fm_cu_guard_end(struct fm_cu_guard *g, bool launched);

/*
 * A launch of a graph whose kernels are guarded (guard_graph.h) is one launch here. Nothing
 * uncovered may stand in front of it, and a gate has to come before the next launch, whatever it
 * is: the two would not stop by one word. False: it goes unguarded. Then fm_cu_guard_end().
 */
struct fm_cu_graph;
bool fm_cu_guard_graph(struct fm_cu_guard *g, struct fm_cu_graph *graph, CUstream stream);
/* The last launch was a graph's, and no gate stands behind it. With the order held. */
bool fm_cu_guard_graph_open(const struct fm_cu_guard *g);
/* What the last gate has said, or will say, is finished. With the order held. */
uint64_t fm_cu_guard_said(const struct fm_cu_guard *g);

/*
 * Between fm_cu_guard_begin(), or fm_cu_guard_graph(), and the launch, where the stream may come to
 * wait in front of it for something that is no launch of its own: a mark. Nothing behind it is
 * stopped before the stream has gone past. False: the driver refuses.
 */
bool fm_cu_guard_mark(struct fm_cu_guard *g, CUstream stream);

/* Were there guarded launches since the last gate? Any thread; exact with the order held. */
bool fm_cu_guard_uncovered(const struct fm_cu_guard *g);

/* How many were there? With the order held. */
uint64_t fm_cu_guard_open(const struct fm_cu_guard *g);

/* --- within the room: gates (cuda.c) --- */

/* What the queue says of itself while it waits at the next gate, in place of 2 * finished + 1: what
 * is finished for certain, which is what the last gate has said. */
uint64_t fm_cu_guard_waiting(const struct fm_cu_guard *g);
/* To wait for, besides the board's gate word. */
union fm_cu_mem_op fm_cu_guard_wait(const struct fm_cu_guard *g);
/* The stream has taken a gate, or (of nothing uncovered) a word alone, that says so many are
 * finished. progress: where. */
void fm_cu_guard_gated(struct fm_cu_guard *g, _Atomic uint64_t *progress, uint64_t finished);

/* Operations of level 3, for a queue with a guard (hwqueue.h). */
int fm_cu_interrupt(void *hwq);
int fm_cu_restore(void *hwq);
/* There are launches that will be made again, once it may go on. */
bool fm_cu_stopped(void *hwq);
bool fm_cu_unfenced(void *hwq);
unsigned fm_cu_max_unfenced(void *hwq, unsigned n);
/* That, or a guarded launch has not finished. Under the XQueue's lock. */
bool fm_cu_pending(void *hwq);
