/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs whose kernels are guarded: which they are, and what their launches need
 * (docs/cuda-guardian.md, "Graphs"). A graph that is not here has none, and goes as ever.
 *
 * A program uses an executable graph in one thread at a time, as the driver wants it.
 */
#pragma once
#include "api/cuda/shim/guard/guarded.h"

/* A flag of an instantiation: the device itself launches it, and nobody sees that. */
#define FM_CUDA_BY_DEVICE 4u

struct fm_cuda_exec;

/* Some graph is guarded, or was. */
extern _Atomic bool fm_cuda_exec_any;

/* The driver has made exec of the graph, with these flags: if its kernels can be guarded, their
 * nodes get parameters of ours. whole: it was captured where they are not to be. */
void fm_cuda_exec_made(CUgraphExec exec, CUgraph graph, uint64_t flags, bool whole);
/* Can such a kernel be in a graph that is guarded? */
bool fm_cuda_exec_takes(
	const struct fm_cuda_kernel *kernel, const struct fm_cu_launch_config *config);
/* Before the driver's call. What its nodes are is not what was seen any more. */
void fm_cuda_exec_changes(CUgraphExec exec);
/* Likewise, of a node that is no kernel: what is launched in place of it is not told. */
void fm_cuda_exec_changes_besides(CUgraphExec exec);
/* A launch of it was captured: its nodes are in another graph, too. */
void fm_cuda_exec_nested(CUgraphExec exec);
/* Before the driver's call. */
void fm_cuda_exec_ends(CUgraphExec exec);
void fm_cuda_exec_context_ends(CUcontext ctx);
void fm_cuda_exec_fork_child(void);

struct fm_cuda_exec *fm_cuda_exec_find_slow(CUgraphExec exec);
static inline struct fm_cuda_exec *fm_cuda_exec_find(CUgraphExec exec)
{
	if (FM_LIKELY(!atomic_load_explicit(&fm_cuda_exec_any, memory_order_relaxed)))
		return NULL;
	return fm_cuda_exec_find_slow(exec);
}

/* --- around a launch in a stream of fm_cuda_stream() --- */

/* Before all else: if its last launch was in another stream it waits for that one. */
void fm_cuda_exec_settle(struct fm_cuda_exec *e, CUstream stream);
/* q has a guard, and its order is held, to the end of the launch. True: this one is guarded. */
bool fm_cuda_exec_guard(struct fm_cuda_exec *e, struct fm_cuda_queue *q);
/* What the driver is to launch for it, and to upload: its own one, or the one whose kernels may
 * begin early. When that was launched, or the launch strays, fm_cuda_exec_ran() has to follow; and
 * if it failed fm_cuda_exec_refused(): true: its own one is to be launched in place of it,
 * unguarded. */
CUgraphExec fm_cuda_exec_launched(struct fm_cuda_exec *e, CUstream stream);
CUgraphExec fm_cuda_exec_uploaded(struct fm_cuda_exec *e, CUstream stream);
bool fm_cuda_exec_strays(const struct fm_cuda_exec *e);
void fm_cuda_exec_ran(struct fm_cuda_exec *e, CUgraphExec launched, CUstream stream);
bool fm_cuda_exec_refused(
	struct fm_cuda_exec *e, CUgraphExec launched, CUstream stream, fm_cu_result rc);
/* Before it is destroyed, or captured: nothing can be put behind what was launched there then. */
void fm_cuda_exec_stream_leaves(CUstream stream);
/* In a stream without. */
void fm_cuda_exec_astray(struct fm_cuda_exec *e, CUstream stream);
