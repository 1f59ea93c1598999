/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarded launches: which launches are guarded, and what must have a gate in front of it, because
 * it could take them for ended although they are not (docs/cuda-guardian.md).
 */
#pragma once
#include "api/cuda/core/guard/guard_pad.h"
#include "api/cuda/shim/shim.h"
#include "modules.h"

/* guards: some stream has or had a guard. bound: some stream is or was bound. ways: either, so
 * calls into the driver may obstruct each other. awaited: something that waits for the program was
 * ever put into some stream. */
extern _Atomic bool fm_cuda_guards, fm_cuda_bound, fm_cuda_ways, fm_cuda_awaited;

/* Wishes a guard for a new queue, if this process rewrites images; call it before fm_xq_create().
 * The second notes what came of it; call it after. */
void fm_cuda_guard_wish(struct fm_cuda_queue *q);
void fm_cuda_guard_made(struct fm_cuda_queue *q);
/* Likewise, if the process can rest (xqueue/rest.h): its calls pass a turnstile, too. */
void fm_cuda_guard_rests(struct fm_cuda_queue *q);
/* outside.c: what to call instead of the driver's function of that call. */
void *fm_cuda_outside(enum fm_cuda_id id, void *next);
/* Is this memory of the host that the driver does not know? It copies from the device to such
 * memory before it returns. */
bool fm_cuda_is_pageable(uintptr_t p);
/* batch.c: what to call instead, if the call makes a batch of copies. */
void *fm_cuda_batch(enum fm_cuda_id id, void *next);
/* The queue was bound. */
void fm_cuda_guard_bound(struct fm_cuda_queue *q);
void fm_cuda_guard_fork_child(void);
/* The queue is about to be freed. */
void fm_cuda_guard_gone(struct fm_cuda_queue *q);

/* --- covers: gates in front of what comes next --- */

/* Called in front of something on this stream (of fm_cuda_stream()) that is no guarded launch.
 * Covers that stream, and the streams that it waits for by the driver's rules. */
void fm_cuda_cover_slow(CUstream stream);
static inline void fm_cuda_cover(CUstream stream)
{
	if (FM_UNLIKELY(atomic_load_explicit(&fm_cuda_guards, memory_order_relaxed)))
		fm_cuda_cover_slow(stream);
}
/* Called in front of something that waits for all streams of a context; NULL: of all contexts. */
void fm_cuda_cover_all(CUcontext ctx);
/* While something is captured, the agent can put nothing behind what is stopped. Called in front of
 * a capture that was announced, so that no launch is left uncovered. */
void fm_cuda_cover_capture(void);

/* --- calls into the driver (turnstile.h) --- */

/* How a call is made that puts something into a stream, and may wait for the device in that. */
enum fm_cuda_call_kind {
	FM_CUDA_FREE,
	FM_CUDA_PUSHES,
	FM_CUDA_COMES,
	FM_CUDA_WAITS,
	FM_CUDA_STANDS,      /* PUSHES, and there is a gate around it (fm_xq_part_begin) */
	FM_CUDA_COMES_STANDS /* likewise COMES */
};
void fm_cuda_way_end(struct fm_cuda_queue *q, enum fm_cuda_call_kind way);
/* A call that only orders is made between this and fm_cuda_way_end(); before the latter it is noted
 * as put. */
enum fm_cuda_call_kind fm_cuda_order_push(struct fm_cuda_queue *q);
static inline enum fm_cuda_call_kind fm_cuda_order_enter(struct fm_cuda_queue *q)
{
	return FM_LIKELY(!atomic_load_explicit(&fm_cuda_guards, memory_order_relaxed))
		       ? FM_CUDA_FREE
		       : fm_cuda_order_push(q);
}
void fm_cuda_order_put(struct fm_cuda_queue *q);
/* The stream has no queue yet. If the process can rest it is given one, since it may come to wait
 * before anything is launched there. Or NULL. */
struct fm_cuda_queue *fm_cuda_order_first(CUstream stream);
/* The call that was begun in this way puts something into the stream that may wait long. */
enum fm_cuda_call_kind fm_cuda_order_stands(struct fm_cuda_queue *q, enum fm_cuda_call_kind way);
/* A copy that has come so far in this way: waits until no gate is in front of it, if that matters
 * to other streams of the process. */
FM_COLD enum fm_cuda_call_kind fm_cuda_copy_enter(
	struct fm_cuda_queue *q, CUstream stream, enum fm_cuda_call_kind way);
/* Around a call that may wait for all of the device, or that ends something that launches need when
 * they are made again. For one context, and for all. */
struct fm_cu_turnstile *fm_cuda_wait_begin(CUcontext ctx);
void fm_cuda_wait_end(struct fm_cu_turnstile *t); /* follows it in any case */
bool fm_cuda_wait_begin_all(void);
void fm_cuda_wait_end_all(bool begun);

/*
 * Something is put into this stream (NULL: one without a queue) that may make it wait for a thread
 * of the program's: a host function, or a wait for a word. From then on an event is such a thing,
 * too, because streams wait for each other. Then there is a mark in front of the next guarded
 * launch, so that the stream is not stopped while it waits (guard.h): that thread may have to wait
 * for what is stopped.
 */
void fm_cuda_awaits_program(struct fm_cuda_queue *q, CUstream stream);
void fm_cuda_awaits_others_slow(struct fm_cuda_queue *q, CUstream stream);
static inline void fm_cuda_awaits_others(struct fm_cuda_queue *q, CUstream stream)
{
	if (FM_UNLIKELY(atomic_load_explicit(&fm_cuda_awaited, memory_order_relaxed)))
		fm_cuda_awaits_others_slow(q, stream);
}
/* Call this between fm_cu_guard_begin(), or fm_cu_guard_graph(), and the launch. */
void fm_cuda_guard_mark(struct fm_cuda_queue *q);

/* --- first.c: what a driver may load, waiting for the device meanwhile --- */

/* Has a function, a kernel or a graph never been launched in this queue's context? The second notes
 * that it was. kernel: set if it takes parameters of ours; or NULL. */
bool fm_cuda_is_first(
	const struct fm_cuda_queue *q, const void *what, const struct fm_cuda_kernel *kernel);
FM_COLD void fm_cuda_first_launched(
	struct fm_cuda_queue *q, const void *what, struct fm_cuda_kernel *kernel, CUstream stream);
/* Handles are reused, so everything known is forgotten; for graphs, also when they change. */
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

/* Around another call that may load it; NULL: it is not known what it loads. */
struct fm_cuda_loading {
	CUcontext ctx;
	const void *what;
	struct fm_cu_turnstile *turnstile;
	bool waits; /* fm_cuda_wait_end() must follow */
};
FM_COLD struct fm_cuda_loading fm_cuda_load_begin(const void *what);
FM_COLD void fm_cuda_load_end(struct fm_cuda_loading l, fm_cu_result rc);
/* Both load the code of a function, which may be a CUkernel. The second does so within a call that
 * waits and has begun. */
FM_COLD void fm_cuda_load(const void *function);
FM_COLD fm_cu_result fm_cuda_load_now(const void *function);
#define FM_CUDA_LOADING(what, call)                                         \
	({                                                                  \
		struct fm_cuda_loading loading_ = fm_cuda_load_begin(what); \
		fm_cu_result is_ = (call);                                  \
                                                                            \
		fm_cuda_load_end(loading_, is_);                            \
		is_;                                                        \
	})

/* --- launches: around fm_xq_begin() and fm_xq_end() --- */

/* Covers what the driver makes the launch wait for; takes the order of a queue that has a guard.
 * function: `what` is one, and no graph.
 * *first: this is the first launch of `what` (NULL: it loads nothing) and of `kernel`. Then
 * fm_cuda_first_launched() must follow, before fm_cuda_way_end(). */
enum fm_cuda_call_kind fm_cuda_guard_enter(struct fm_cuda_queue *q, CUstream stream,
	const void *what, bool function, const struct fm_cuda_kernel *kernel, bool *first);
/* The launch is not guarded: places a gate if it needs one, and gives the order back. The second is
 * for all but copies and fills: it is a kernel, or may wait for something, so that a queue that
 * pads must not come to it. */
void fm_cuda_guard_pass(struct fm_cuda_queue *q);
void fm_cuda_guard_pass_heavy(struct fm_cuda_queue *q);
/* Such a thing is about to be put into a queue that may pad; the order is not held. */
FM_COLD void fm_cuda_guard_heavy(struct fm_cuda_queue *q);
static inline bool fm_cuda_may_pad(const struct fm_cuda_queue *q)
{
	return q->hw.guard && fm_cu_guard_numbered(q->hw.guard);
}
/* True: the launch is guarded. Then `a` has our parameters, and fm_cuda_guard_leave() must follow,
 * after fm_xq_end(). */
bool fm_cuda_guard_launch(struct fm_cuda_queue *q, struct fm_cuda_kernel *kernel, CUfunction f,
	const struct fm_cu_launch_config *config, bool cooperative, struct fm_cuda_args *a);
void fm_cuda_guard_leave(struct fm_cuda_queue *q, bool launched);

/* --- early.c: launches that may begin before what is in front of them has ended --- */

/* For a kernel that takes parameters of ours; not for a captured or a first launch. */
bool fm_cuda_may_be_early(
	const struct fm_cuda_kernel *kernel, const struct fm_cu_launch_config *config);
/* Launches it in this way, in this stream. False: the driver does not take it, so it is to be
 * launched as the program does. */
bool fm_cuda_early(const struct fm_cu_launch_config *given, CUstream stream, CUfunction f,
	void **params, void **extra, fm_cu_result *rc);

/* --- lists.c: what users say of kernels --- */

/* What is said of a kernel by its name, from FERMATA_GUARDIAN_LEAVE and FERMATA_GUARDIAN_GRID.
 * True: it is never guarded. */
bool fm_cuda_guard_list(const char *name, enum fm_guard_mode *mode);
/* The kernels that may also be left in the middle of a loop: FERMATA_GUARDIAN_LOOPS. NULL: none. */
const char *fm_cuda_loops(void);
