/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs whose kernels are guarded: which graphs they are, and what their launches need
 * (docs/cuda-guardian.md, "Graphs"). A graph that is not here has no guarded kernels and is
 * launched as usual. A program uses an executable graph in one thread at a time, as the driver
 * requires.
 */
#pragma once
#include "api/cuda/shim/guard/guarded.h"

/* A flag of an instantiation: the device itself launches the graph, and we do not see that. */
#define FM_CUDA_BY_DEVICE 4u

struct fm_cuda_exec;

/* Some graph is guarded, or was. */
extern _Atomic bool fm_cuda_exec_any;

/* The driver has made exec from the graph, with these flags. If its kernels can be guarded, their
 * nodes get parameters of ours. whole: it was captured where kernels must not be stopped in their
 * middle. */
void fm_cuda_exec_made(CUgraphExec exec, CUgraph graph, uint64_t flags, bool whole);
/* Can such a kernel be in a graph that is guarded? */
bool fm_cuda_exec_takes(
	const struct fm_cuda_kernel *kernel, const struct fm_cu_launch_config *config);
/* Call this before the driver's call. The graph's nodes are no longer what was read. */
void fm_cuda_exec_changes(CUgraphExec exec);
/* Likewise for a node that is no kernel: what is launched instead of the graph is not changed. */
void fm_cuda_exec_changes_besides(CUgraphExec exec);
/* A launch of the graph was captured, so its nodes are in another graph, too. */
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

/* Call this first: if the graph's last launch was in another stream, it waits for that launch. */
void fm_cuda_exec_settle(struct fm_cuda_exec *e, CUstream stream);
/* q has a guard, and its order is held until the end of the launch. True: this launch is
 * guarded. */
bool fm_cuda_exec_guard(struct fm_cuda_exec *e, struct fm_cuda_queue *q);
/* What the driver is to launch, and to upload, for the graph: the graph itself, or the one whose
 * kernels may begin early. If the latter was launched, or the launch strays, fm_cuda_exec_ran()
 * must follow. If it failed, fm_cuda_exec_refused() must follow; true: the graph itself is to be
 * launched instead, unguarded. */
CUgraphExec fm_cuda_exec_launched(struct fm_cuda_exec *e, CUstream stream);
CUgraphExec fm_cuda_exec_uploaded(struct fm_cuda_exec *e, CUstream stream);
bool fm_cuda_exec_strays(const struct fm_cuda_exec *e);
void fm_cuda_exec_ran(struct fm_cuda_exec *e, CUgraphExec launched, CUstream stream);
bool fm_cuda_exec_refused(
	struct fm_cuda_exec *e, CUgraphExec launched, CUstream stream, fm_cu_result rc);
/* Call this before the stream is destroyed or captured, because nothing can be put behind its
 * launches after that. */
void fm_cuda_exec_stream_leaves(CUstream stream);
/* The graph is launched in a stream without a guard. */
void fm_cuda_exec_astray(struct fm_cuda_exec *e, CUstream stream);
