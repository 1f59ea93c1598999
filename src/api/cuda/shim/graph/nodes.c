/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels in graphs that are composed node by node. Their nodes pass a stop word of address 0: what
 * is made of a graph may get others (graph_guard.h). What the driver tells of a node has our
 * parameters behind the program's own, where nobody looks for any; given back to it, they are ours
 * again.
 */
#include "api/cuda/shim/guard/modules.h"
#include "api/cuda/shim/shim.h"
#include "graph_guard.h"

static const uint64_t unguarded[FM_GUARD_PARAMS];

static const struct fm_cuda_kernel *rewritten(CUfunction f, CUkernel kernel)
{
	return fm_cu_inside ? NULL : fm_cuda_kernel(f ? f : (CUfunction)kernel);
}

static bool add_ours(struct fm_cu_kernel_node_old *node, const struct fm_cuda_kernel *kernel,
	struct fm_cuda_args *a, void *room)
{
	if (!fm_cuda_args(a, kernel->image, node->params, node->extra, unguarded, room))
		return false;
	node->params = a->params;
	node->extra = a->extra;
	return true;
}

/* --- nodes of any kind --- */

static const struct fm_cuda_kernel *kernel_of(const struct CUgraphNodeParams_st *what)
{
	return what && what->type == FM_CU_NODE_KERNEL
		       ? rewritten(what->kernel.old.function, what->kernel.kernel)
		       : NULL;
}

size_t fm_cuda_node_room(const struct CUgraphNodeParams_st *what)
{
	const struct fm_cuda_kernel *kernel = kernel_of(what);

	return kernel ? fm_cuda_args_room(kernel->image, what->kernel.old.extra != NULL) : 0;
}

struct CUgraphNodeParams_st *fm_cuda_node(struct CUgraphNodeParams_st *what,
	struct CUgraphNodeParams_st *copy, struct fm_cuda_args *a, void *room)
{
	const struct fm_cuda_kernel *kernel = kernel_of(what);

	if (!kernel)
		return what;
	*copy = *what;
	return add_ours(&copy->kernel.old, kernel, a, room) ? copy : NULL;
}

fm_cu_result cuGraphNodeSetParams(CUgraphNode node, struct CUgraphNodeParams_st *what)
{
	struct CUgraphNodeParams_st copy;
	struct fm_cuda_args a;

	what = fm_cuda_node(what, &copy, &a, __builtin_alloca(fm_cuda_node_room(what)));
	if (!what)
		return FM_CU_ERROR_INVALID_VALUE;
	return NEXT(FM_CUDA_cuGraphNodeSetParams, (CUgraphNode, struct CUgraphNodeParams_st *),
		(node, what));
}

/* --- nodes of kernels --- */

/* `old`: the part that came first. `handle`: what names the kernel if there is no function. */
#define ONE(id, symbol, change, type, old, handle, decl, call)                                   \
	fm_cu_result symbol decl                                                                 \
	{                                                                                        \
		const type *given = (const void *)what;                                          \
		const struct fm_cuda_kernel *kernel =                                            \
			given ? rewritten(given->old function, handle) : NULL;                   \
		type copy;                                                                       \
		struct fm_cuda_args a;                                                           \
                                                                                                 \
		if (kernel) {                                                                    \
			copy = *given;                                                           \
			if (!add_ours((struct fm_cu_kernel_node_old *)(void *)&copy, kernel, &a, \
				    __builtin_alloca(fm_cuda_args_room(                          \
					    kernel->image, copy.old extra != NULL))))            \
				return FM_CU_ERROR_INVALID_VALUE;                                \
			what = (const void *)&copy;                                              \
		}                                                                                \
		change;                                                                          \
		return NEXT(id, decl, call);                                                     \
	}
#define OLD(symbol, change, decl, call) \
	ONE(FM_CUDA_##symbol, symbol, change, struct fm_cu_kernel_node_old, , NULL, decl, call)
#define NEW(symbol, change, decl, call)                                                            \
	ONE(FM_CUDA_##symbol, symbol, change, struct fm_cu_kernel_node, old., given->kernel, decl, \
		call)

OLD(cuGraphAddKernelNode, (void)0,
	(CUgraphNode * node, CUgraph graph, const CUgraphNode *deps, size_t n,
		const struct CUDA_KERNEL_NODE_PARAMS_st *what),
	(node, graph, deps, n, what))
NEW(cuGraphAddKernelNode_v2, (void)0,
	(CUgraphNode * node, CUgraph graph, const CUgraphNode *deps, size_t n,
		const struct CUDA_KERNEL_NODE_PARAMS_v2_st *what),
	(node, graph, deps, n, what))
OLD(cuGraphKernelNodeSetParams, (void)0,
	(CUgraphNode node, const struct CUDA_KERNEL_NODE_PARAMS_st *what), (node, what))
NEW(cuGraphKernelNodeSetParams_v2, (void)0,
	(CUgraphNode node, const struct CUDA_KERNEL_NODE_PARAMS_v2_st *what), (node, what))
OLD(cuGraphExecKernelNodeSetParams, fm_cuda_exec_changes(exec),
	(CUgraphExec exec, CUgraphNode node, const struct CUDA_KERNEL_NODE_PARAMS_st *what),
	(exec, node, what))
NEW(cuGraphExecKernelNodeSetParams_v2, fm_cuda_exec_changes(exec),
	(CUgraphExec exec, CUgraphNode node, const struct CUDA_KERNEL_NODE_PARAMS_v2_st *what),
	(exec, node, what))

fm_cu_result cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned enabled)
{
	fm_cuda_exec_changes(exec);
	return NEXT(FM_CUDA_cuGraphNodeSetEnabled, (CUgraphExec, CUgraphNode, unsigned),
		(exec, node, enabled));
}

/* --- nodes of other kinds --- */

#define BESIDES(symbol, decl, call)                        \
	fm_cu_result symbol decl                           \
	{                                                  \
		fm_cuda_exec_changes_besides(exec);        \
		return NEXT(FM_CUDA_##symbol, decl, call); \
	}
BESIDES(cuGraphExecMemcpyNodeSetParams,
	(CUgraphExec exec, CUgraphNode node, const struct CUDA_MEMCPY3D_st *what, CUcontext ctx),
	(exec, node, what, ctx))
BESIDES(cuGraphExecMemsetNodeSetParams,
	(CUgraphExec exec, CUgraphNode node, const struct CUDA_MEMSET_NODE_PARAMS_st *what,
		CUcontext ctx),
	(exec, node, what, ctx))
BESIDES(cuGraphExecHostNodeSetParams,
	(CUgraphExec exec, CUgraphNode node, const struct CUDA_HOST_NODE_PARAMS_st *what),
	(exec, node, what))
BESIDES(cuGraphExecBatchMemOpNodeSetParams,
	(CUgraphExec exec, CUgraphNode node, const struct fm_cu_words_node *what),
	(exec, node, what))
