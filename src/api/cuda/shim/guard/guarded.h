/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarded launches: which they are, and what has to have a gate in front of it, since it might see
 * that they have ended although they have not (docs/cuda-guardian.md).
 */
#pragma once
#include "api/cuda/shim/shim.h"
#include "modules.h"

/* Some stream has a guard, or has had one; some stream is, or was, bound; the one or the other, so
 * that calls into the driver may come in each other's way; something that waits for the program was
 * ever put into some stream. */
extern _Atomic bool fm_cuda_guards, fm_cuda_bound, fm_cuda_ways, fm_cuda_awaited;

/* Does this process rewrite images, and is the queue to have a guard if it can? To be said of a new
 * one before fm_xq_create(); and what came of it, after. */
void fm_cuda_guard_wish(struct fm_cuda_queue *q);
void fm_cuda_guard_made(struct fm_cuda_queue *q);
/* It was bound. */
void fm_cuda_guard_bound(struct fm_cuda_queue *q);
void fm_cuda_guard_fork_child(void);
/* The queue goes. */
void fm_cuda_guard_gone(struct fm_cuda_queue *q);

/* --- covers: gates in front of what comes next --- */

/* In front of something on this stream (of fm_cuda_stream()) that is no guarded launch, for it and
 * for streams that it waits for by the driver's rules. */
void fm_cuda_cover_slow(CUstream stream);
static inline void fm_cuda_cover(CUstream stream)
{
	if (FM_UNLIKELY(atomic_load_explicit(&fm_cuda_guards, memory_order_relaxed)))
		fm_cuda_cover_slow(stream);
}
/* In front of something that waits for all streams of a context; NULL: of all contexts. */
void fm_cuda_cover_all(CUcontext ctx);
/* While something is captured nothing can be put behind what is stopped, by the agent: in front of
 * a capture that was announced, so that no launch is left uncovered. */
void fm_cuda_cover_capture(void);

/* --- calls into the driver (turnstile.h) --- */

/* A call that puts something into a stream, and may wait for the device in that, is made as... */
enum fm_cuda_call_kind { FM_CUDA_FREE, FM_CUDA_PUSHES, FM_CUDA_COMES, FM_CUDA_WAITS };
void fm_cuda_way_end(struct fm_cuda_queue *q, enum fm_cuda_call_kind way);
/* One that only orders: between this and fm_cuda_way_end(), before which it is noted that it was
 * put there. */
enum fm_cuda_call_kind fm_cuda_order_push(struct fm_cuda_queue *q);
static inline enum fm_cuda_call_kind fm_cuda_order_enter(struct fm_cuda_queue *q)
{
	return FM_LIKELY(!atomic_load_explicit(&fm_cuda_guards, memory_order_relaxed))
		       ? FM_CUDA_FREE
		       : fm_cuda_order_push(q);
}
void fm_cuda_order_put(struct fm_cuda_queue *q);
/* A copy, which so far has come that way: waits until no gate is in front of it, where that matters
 * to other streams of the process. */
FM_COLD enum fm_cuda_call_kind fm_cuda_copy_enter(
	struct fm_cuda_queue *q, CUstream stream, enum fm_cuda_call_kind way);
/* Around a call that may wait for all of the device, or ends what launches may use that are to be
 * made again. Of a context, and of all. */
struct fm_cu_turnstile *fm_cuda_wait_begin(CUcontext ctx);
bool fm_cuda_wait_begin_all(void);
void fm_cuda_wait_end_all(bool begun);

/*
 * What may keep a stream waiting for a thread of the program's is put into this one (NULL: one
 * without a queue): a host function, a wait for a word; and from then on, since streams wait for
 * each other, an event. In front of the next guarded launch there is a mark then, so that the
 * stream is not stopped while it waits (guard.h): that thread may have to wait for what is stopped.
 */
void fm_cuda_awaits_program(struct fm_cuda_queue *q, CUstream stream);
void fm_cuda_awaits_others_slow(struct fm_cuda_queue *q, CUstream stream);
static inline void fm_cuda_awaits_others(struct fm_cuda_queue *q, CUstream stream)
{
	if (FM_UNLIKELY(atomic_load_explicit(&fm_cuda_awaited, memory_order_relaxed)))
		fm_cuda_awaits_others_slow(q, stream);
}
/* Between fm_cu_guard_begin(), or fm_cu_guard_graph(), and the launch. */
void fm_cuda_guard_mark(struct fm_cuda_queue *q);

/* --- first.c: what a driver may load, and wait for the device in that --- */

/* Has it, a function, a kernel or a graph, not been launched in this queue's context? And now it
 * was. kernel: where it is one that takes parameters of ours; or NULL. */
bool fm_cuda_is_first(
	const struct fm_cuda_queue *q, const void *what, const struct fm_cuda_kernel *kernel);
FM_COLD void fm_cuda_first_launched(
	struct fm_cuda_queue *q, const void *what, struct fm_cuda_kernel *kernel, CUstream stream);
/* Handles are used again: what is known of all is forgotten; of graphs, also when they change. */
void fm_cuda_first_forget(void);
extern _Atomic uint64_t fm_cuda_graphs_age;
static inline void fm_cuda_first_forget_graphs(void)
{
	atomic_fetch_add(&fm_cuda_graphs_age, 1);
}
static inline const void *fm_cuda_first_graph(CUgraphExec exec)
{
	return (const void *)((uintptr_t)exec ^ atomic_load(&fm_cuda_graphs_age) << 48);
}

/* Around another call that may load it; NULL: nobody knows what. */
struct fm_cuda_loading {
	CUcontext ctx;
	const void *what;
	struct fm_cu_turnstile *turnstile;
};
FM_COLD struct fm_cuda_loading fm_cuda_load_begin(const void *what);
FM_COLD void fm_cuda_load_end(struct fm_cuda_loading l, fm_cu_result rc);

/* --- launches: around fm_xq_begin() and fm_xq_end() --- */

/* Covers what the driver has it wait for; of a queue with a guard, takes its order. *first: the
 * launch is the first of `what` (NULL: it is of nothing that is loaded), and of `kernel`;
 * fm_cuda_first_launched() has to follow, before fm_cuda_way_end(). */
enum fm_cuda_call_kind fm_cuda_guard_enter(struct fm_cuda_queue *q, CUstream stream,
	const void *what, const struct fm_cuda_kernel *kernel, bool *first);
/* It is no guarded launch: a gate if it needs one, and gives the order back. */
void fm_cuda_guard_pass(struct fm_cuda_queue *q);
/* It is one, if this is true: then `a` has our parameters, and fm_cuda_guard_leave() has to follow,
 * after fm_xq_end(). */
bool fm_cuda_guard_launch(struct fm_cuda_queue *q, const struct fm_cuda_kernel *kernel,
	CUfunction f, const struct fm_cu_launch_config *config, bool cooperative,
	struct fm_cuda_args *a);
void fm_cuda_guard_leave(struct fm_cuda_queue *q, bool launched);

/* --- early.c: launches that may begin before what is in front of them has ended --- */

/* Of a kernel that takes parameters of ours; not one that is captured, or a first one. */
bool fm_cuda_may_be_early(
	const struct fm_cuda_kernel *kernel, const struct fm_cu_launch_config *config);
/* Launches it so, in this stream. False: the driver does not take it: it is to be launched as the
 * program does it. */
bool fm_cuda_early(const struct fm_cu_launch_config *given, CUstream stream, CUfunction f,
	void **params, void **extra, fm_cu_result *rc);

/* --- lists.c: what users say of kernels --- */

/* By its name, from FERMATA_GUARDIAN_LEAVE and FERMATA_GUARDIAN_GRID. True: never guarded. */
bool fm_cuda_guard_list(const char *name, enum fm_guard_mode *mode);
/* Those that are to be left in the middle of a loop, too: FERMATA_GUARDIAN_LOOPS. NULL: none. */
const char *fm_cuda_loops(void);
