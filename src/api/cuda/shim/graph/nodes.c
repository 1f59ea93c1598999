/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels in graphs that are composed node by node. Their nodes pass a stop word of address 0; what
 * is made of a graph may get others (graph_guard.h). The driver's description of a node has our
 * parameters behind the program's own, where programs do not look. If it is given back to the
 * driver, they are ours again.
 */
#include "api/cuda/shim/guard/modules.h"
#include "api/cuda/shim/managed/managed.h"
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

	if (what && what->type == FM_CU_NODE_WORDS)
		fm_cuda_pins_words_of((const void *)what->any);
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
	return NEXT(cuGraphNodeSetParams, (node, what));
}

fm_cu_result cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned enabled)
{
	fm_cuda_exec_changes(exec);
	return NEXT(cuGraphNodeSetEnabled, (exec, node, enabled));
}

/* `old`: the part of the parameters that came first. `handle`: what names the kernel if there is no
 * function. */
#define NODE(symbol, params, exec, type, old, handle)                                            \
	fm_cu_result symbol CALL_PARAMS(params)                                                  \
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
		if (exec)                                                                        \
			fm_cuda_exec_changes(exec);                                              \
		return NEXT(symbol, CALL_ARGS(params));                                          \
	}
#define CODE_OLD_KERNEL_NODE(symbol, params, exec) \
	NODE(symbol, params, exec, struct fm_cu_kernel_node_old, , NULL)
#define CODE_KERNEL_NODE(symbol, params, exec) \
	NODE(symbol, params, exec, struct fm_cu_kernel_node, old., given->kernel)
#define CODE_OTHER_NODE(symbol, params, exec)           \
	fm_cu_result symbol CALL_PARAMS(params)         \
	{                                               \
		fm_cuda_exec_changes_besides(exec);     \
		return NEXT(symbol, CALL_ARGS(params)); \
	}
#define CODE_WORDS_NODE(symbol, params, exec)           \
	fm_cu_result symbol CALL_PARAMS(params)         \
	{                                               \
		fm_cuda_exec_changes_besides(exec);     \
		fm_cuda_pins_words_of(what);            \
		return NEXT(symbol, CALL_ARGS(params)); \
	}
#define CODE_NAMES_BY_HAND(...)
#define CODE_LOADS(...)
#define CODE_(...) /* by hand: here, modules.c, stream.c */
#define ON_code(symbol, per_thread, name, since, note, params, what, ...) \
	CODE_##what(symbol, params, __VA_ARGS__)
#include "api/cuda/calls.def"
