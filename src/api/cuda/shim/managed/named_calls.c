/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls whose arguments are looked at, in functions that stand between the shim's and the
 * driver's, behind those of guard/outside.c.
 */
#include "api/cuda/shim/graph/graph_guard.h"
#include "named.h"
#include <string.h>

static _Atomic(void *) real[FM_CUDA_CALLS];

#define REAL(symbol, args)                           \
	(((__typeof__(&symbol))atomic_load_explicit( \
		&real[FM_CUDA_##symbol], memory_order_relaxed))args)

/* --- copies and fills --- */

/* What a copy or fill names, by the names that its row gives its parameters. */
struct work_args {
	struct fm_cuda_named_copy copy;
	const void *words; /* a list of the driver's, with addresses in it, */
	size_t n, each;    /* so many in number, and bytes each */
	size_t rows, pitch, element;
	const void *list[2]; /* of addresses */
};
#define ARG(type, name) ARG_##name(name)
#define ARG_dst(v)      a.copy.dst = (uintptr_t)(v)
#define ARG_src(v)      a.copy.src = (uintptr_t)(v)
#define ARG_ptr(v)      a.copy.dst = (uintptr_t)(v)
#define ARG_n(v)        a.n = (v)
#define ARG_w(v)        (void)(v)
#define ARG_h(v)        a.rows = (v)
#define ARG_pitch(v)    a.pitch = (v)
#define ARG_value(v)    a.element = sizeof(v)
#define ARG_copy(v)     a.words = (v), a.n = 1, a.each = COPY_SIZE(v)
#define ARG_op(v)       a.words = (v), a.n = 1, a.each = COPY_OP
#define ARG_ops(v)      a.words = (v), a.each = COPY_OP
#define ARG_list(v)     a.words = (v), a.each = DECOMPRESSION
#define ARG_dsts(v)     a.list[0] = (v)
#define ARG_srcs(v)     a.list[1] = (v)
#define ARG_ptrs(v)     a.list[0] = (v)
#define ARG_dst_ctx(v)  (void)(v)
#define ARG_src_ctx(v)  (void)(v)
#define ARG_at(v)       (void)(v)
#define ARG_dst_at(v)   (void)(v)
#define ARG_src_at(v)   (void)(v)
#define ARG_sizes(v)    (void)(v)
#define ARG_attrs(v)    (void)(v)
#define ARG_indices(v)  (void)(v)
#define ARG_n_attrs(v)  (void)(v)
#define ARG_failed(v)   (void)(v)
#define ARG_flags(v)    (void)(v)
#define ARG_to(v)       (void)(v)
#define ARG_n_to(v)     (void)(v)
#define ARG_stream(v)   (void)(v)
#define COPY_OP         112u /* CUDA_MEMCPY3D_BATCH_OP */
#define DECOMPRESSION   64u  /* CUmemDecompressParams */
#define COPY_SIZE(v) \
	_Generic((v), const struct CUDA_MEMCPY2D_st *: sizeof(struct fm_cu_copy_2d), \
		default: sizeof(struct fm_cu_copy_3d))

static void name_args(struct work_args *a)
{
	if (a->words) {
		fm_cuda_named_words(a->words, a->n * a->each / 8);
		return;
	}
	for (size_t i = 0; i < FM_ARRAY_LEN(a->list); i++)
		if (a->list[i])
			fm_cuda_named_words(a->list[i], a->n);
	a->copy.bytes = a->rows ? a->rows * a->pitch : a->n * (a->element ? a->element : 1);
	if (a->copy.dst || a->copy.src)
		fm_cuda_named_copy(&a->copy);
}

/* Is the source, if it is the host's, passed by its address? */
#define FROM_HOST(symbol)                                                                   \
	(!strncmp(#symbol, "cuMemcpyHtoD", 12) || !strncmp(#symbol, "cuMemcpyAsync", 13) || \
		!strcmp(#symbol, "cuMemcpy") || !strcmp(#symbol, "cuMemcpy_ptds"))

#define ON_work(symbol, per_thread, name, since, note, params, stream, ...)      \
	static fm_cu_result of_##symbol CALL_PARAMS(params)                      \
	{                                                                        \
		struct work_args a = {.copy = {.from_host = FROM_HOST(symbol)}}; \
                                                                                 \
		if (fm_cuda_names()) {                                           \
			(void)(CALL_EACH(ARG, params));                          \
			name_args(&a);                                           \
		}                                                                \
		return REAL(symbol, CALL_ARGS(params));                          \
	}
#include "api/cuda/calls.def"

/* --- kernels --- */

#define KERNEL(symbol, given, dims, packed)                            \
	static FM_HOT fm_cu_result of_##symbol CALL_PARAMS(given)      \
	{                                                              \
		void **none __attribute__((unused)) = NULL;            \
                                                                       \
		if (FM_LIKELY(fm_cuda_names()))                        \
			fm_cuda_named_kernel(f, dims, params, packed); \
		return REAL(symbol, CALL_ARGS(given));                 \
	}
/* A configuration begins with them. */
static inline const uint32_t *dims_of(const struct CUlaunchConfig_st *config)
{
	static const uint32_t none[6];
	const struct fm_cu_launch_config *c = (const void *)config;

	return c ? c->grid : none;
}
_Static_assert(offsetof(struct fm_cu_launch_config, block) ==
		       offsetof(struct fm_cu_launch_config, grid) + 3 * sizeof(uint32_t),
	"dimensions stand together");
#define BY_NUMBERS                        ((const uint32_t[]){gx, gy, gz, bx, by, bz})
#define KERNEL_BY_DIMS(symbol, given)     KERNEL(symbol, given, BY_NUMBERS, extra)
#define KERNEL_BY_CONFIG(symbol, given)   KERNEL(symbol, given, dims_of(config), extra)
#define KERNEL_COOPERATIVE(symbol, given) KERNEL(symbol, given, BY_NUMBERS, none)
/* Its parameters were set before. */
#define KERNEL_SET_BEFORE(symbol, given)                   \
	static fm_cu_result of_##symbol CALL_PARAMS(given) \
	{                                                  \
		if (fm_cuda_names())                       \
			fm_cuda_named_all();               \
		return REAL(symbol, CALL_ARGS(given));     \
	}
#define KERNEL_(...) /* below */
#define ON_kernel(symbol, per_thread, name, since, note, params, how, ...) \
	KERNEL_##how(symbol, params)
#include "api/cuda/calls.def"

static fm_cu_result of_cuLaunchCooperativeKernelMultiDevice(
	struct CUDA_LAUNCH_PARAMS_st *list, unsigned n, unsigned flags)
{
	const struct fm_cu_launch_params *given = (const void *)list;

	for (unsigned i = 0; given && fm_cuda_names() && i < n; i++)
		fm_cuda_named_kernel(given[i].function, given[i].grid, given[i].params, NULL);
	return REAL(cuLaunchCooperativeKernelMultiDevice, (list, n, flags));
}

/* --- graphs --- */

#define ON_graph(symbol, per_thread, name, since, note, params, stream, handle) \
	static fm_cu_result of_##symbol CALL_PARAMS(params)                     \
	{                                                                       \
		if (FM_LIKELY(fm_cuda_names()))                                 \
			fm_cuda_named_launch(handle);                           \
		return REAL(symbol, CALL_ARGS(params));                         \
	}
#include "api/cuda/calls.def"

static fm_cu_result made(CUgraphExec *exec, CUgraph graph, uint64_t flags, fm_cu_result rc)
{
	if (rc || !fm_cuda_names())
		return rc;
	if (flags & FM_CUDA_BY_DEVICE) /* nobody sees its launches */
		fm_cuda_named_never_known();
	fm_cuda_named_exec(*exec, graph);
	return rc;
}

static uint64_t flags_of(const struct CUDA_GRAPH_INSTANTIATE_PARAMS_st *how)
{
	return how ? *(const uint64_t *)(const void *)how : 0;
}

/* A function in front of the driver's, with the parameters of the table: rc is what that returns,
 * and `then` what is done after it. */
#define AFTER(symbol, params, args, then)             \
	static fm_cu_result of_##symbol params        \
	{                                             \
		fm_cu_result rc = REAL(symbol, args); \
                                                      \
		return then;                          \
	}
AFTER(cuGraphInstantiate,
	(CUgraphExec * exec, CUgraph graph, CUgraphNode *node, char *log, size_t size),
	(exec, graph, node, log, size), made(exec, graph, 0, rc))
AFTER(cuGraphInstantiate_v2,
	(CUgraphExec * exec, CUgraph graph, CUgraphNode *node, char *log, size_t size),
	(exec, graph, node, log, size), made(exec, graph, 0, rc))
AFTER(cuGraphInstantiateWithFlags, (CUgraphExec * exec, CUgraph graph, unsigned long long flags),
	(exec, graph, flags), made(exec, graph, flags, rc))
AFTER(cuGraphInstantiateWithParams,
	(CUgraphExec * exec, CUgraph graph, struct CUDA_GRAPH_INSTANTIATE_PARAMS_st *how),
	(exec, graph, how), made(exec, graph, flags_of(how), rc))
AFTER(cuGraphInstantiateWithParams_ptsz,
	(CUgraphExec * exec, CUgraph graph, struct CUDA_GRAPH_INSTANTIATE_PARAMS_st *how),
	(exec, graph, how), made(exec, graph, flags_of(how), rc))
AFTER(cuGraphExecUpdate, (CUgraphExec exec, CUgraph graph, CUgraphNode *node, int *result),
	(exec, graph, node, result), made(&exec, graph, 0, rc))
AFTER(cuGraphExecUpdate_v2,
	(CUgraphExec exec, CUgraph graph, struct CUgraphExecUpdateResultInfo_st *result),
	(exec, graph, result), made(&exec, graph, 0, rc))

static fm_cu_result unknown(CUgraphExec exec, fm_cu_result rc)
{
	if (!rc && fm_cuda_names())
		fm_cuda_named_exec_unknown(exec);
	return rc;
}

static fm_cu_result kernel_is(
	CUgraphExec exec, CUgraphNode node, const void *what, CUkernel k, fm_cu_result rc)
{
	if (!rc && fm_cuda_names() && what)
		fm_cuda_named_node(exec, node, what, k, NULL, 0);
	return rc;
}

static fm_cu_result words_are(
	CUgraphExec exec, CUgraphNode node, const void *what, size_t size, fm_cu_result rc)
{
	if (!rc && fm_cuda_names() && what)
		fm_cuda_named_node(exec, node, NULL, NULL, what, size / 8);
	return rc;
}

static CUkernel kernel_of(const struct CUDA_KERNEL_NODE_PARAMS_v2_st *what)
{
	return what ? ((const struct fm_cu_kernel_node *)(const void *)what)->kernel : NULL;
}

static fm_cu_result node_is(CUgraphExec exec, CUgraphNode node,
	const struct CUgraphNodeParams_st *what, fm_cu_result rc)
{
	if (!what || what->type == FM_CU_NODE_GRAPH || what->type == FM_CU_NODE_CONDITIONAL)
		return unknown(exec, rc);
	if (what->type == FM_CU_NODE_KERNEL)
		return kernel_is(exec, node, &what->kernel.old, what->kernel.kernel, rc);
	if (what->type == FM_CU_NODE_COPY || what->type == FM_CU_NODE_FILL)
		return words_are(exec, node, what->any, sizeof(what->any), rc);
	return rc;
}

AFTER(cuGraphExecChildGraphNodeSetParams, (CUgraphExec exec, CUgraphNode node, CUgraph child),
	(exec, node, child), unknown(exec, rc))
AFTER(cuGraphExecKernelNodeSetParams,
	(CUgraphExec exec, CUgraphNode node, const struct CUDA_KERNEL_NODE_PARAMS_st *what),
	(exec, node, what), kernel_is(exec, node, what, NULL, rc))
AFTER(cuGraphExecKernelNodeSetParams_v2,
	(CUgraphExec exec, CUgraphNode node, const struct CUDA_KERNEL_NODE_PARAMS_v2_st *what),
	(exec, node, what), kernel_is(exec, node, what, kernel_of(what), rc))
AFTER(cuGraphExecMemcpyNodeSetParams,
	(CUgraphExec exec, CUgraphNode node, const struct CUDA_MEMCPY3D_st *what, CUcontext ctx),
	(exec, node, what, ctx), words_are(exec, node, what, sizeof(struct fm_cu_copy_3d), rc))
AFTER(cuGraphExecMemsetNodeSetParams,
	(CUgraphExec exec, CUgraphNode node, const struct CUDA_MEMSET_NODE_PARAMS_st *what,
		CUcontext ctx),
	(exec, node, what, ctx), words_are(exec, node, what, sizeof(CUdeviceptr), rc))
AFTER(cuGraphExecNodeSetParams,
	(CUgraphExec exec, CUgraphNode node, struct CUgraphNodeParams_st *what), (exec, node, what),
	node_is(exec, node, what, rc))

/* The handle may be another's as soon as the driver has it back. */
static fm_cu_result of_cuGraphExecDestroy(CUgraphExec exec)
{
	if (fm_cuda_names())
		fm_cuda_named_exec_ends(exec);
	return REAL(cuGraphExecDestroy, (exec));
}

/* --- textures by their references --- */

static fm_cu_result texture_is(CUtexref texture, CUdeviceptr at, fm_cu_result rc)
{
	if (!rc && fm_cuda_names())
		fm_cuda_named_texture((uintptr_t)texture, at);
	return rc;
}

AFTER(cuTexRefSetAddress_v2, (size_t * offset, CUtexref texture, CUdeviceptr at, size_t size),
	(offset, texture, at, size), texture_is(texture, at, rc))
AFTER(cuTexRefSetAddress2D_v2,
	(CUtexref texture, const struct CUDA_ARRAY_DESCRIPTOR_st *what, CUdeviceptr at,
		size_t pitch),
	(texture, what, at, pitch), texture_is(texture, at, rc))
AFTER(cuTexRefSetAddress2D_v3,
	(CUtexref texture, const struct CUDA_ARRAY_DESCRIPTOR_st *what, CUdeviceptr at,
		size_t pitch),
	(texture, what, at, pitch), texture_is(texture, at, rc))

/* --- code --- */

static fm_cu_result of_cuModuleUnload(CUmodule module)
{
	fm_cuda_named_unloaded(module);
	return REAL(cuModuleUnload, (module));
}

static fm_cu_result of_cuLibraryUnload(CUlibrary library)
{
	fm_cuda_named_unloaded(library);
	return REAL(cuLibraryUnload, (library));
}

/* --- all of them --- */

#define ROW(symbol) [FM_CUDA_##symbol] = (void *)of_##symbol
static void *const named[FM_CUDA_CALLS] = {
#define ON_work(symbol, ...)   ROW(symbol),
#define ON_kernel(symbol, ...) ROW(symbol),
#define ON_graph(symbol, ...)  ROW(symbol),
#include "api/cuda/calls.def"
	ROW(cuGraphInstantiate),
	ROW(cuGraphInstantiate_v2),
	ROW(cuGraphInstantiateWithFlags),
	ROW(cuGraphInstantiateWithParams),
	ROW(cuGraphInstantiateWithParams_ptsz),
	ROW(cuGraphExecUpdate),
	ROW(cuGraphExecUpdate_v2),
	ROW(cuGraphExecChildGraphNodeSetParams),
	ROW(cuGraphExecKernelNodeSetParams),
	ROW(cuGraphExecKernelNodeSetParams_v2),
	ROW(cuGraphExecMemcpyNodeSetParams),
	ROW(cuGraphExecMemsetNodeSetParams),
	ROW(cuGraphExecNodeSetParams),
	ROW(cuGraphExecDestroy),
	ROW(cuTexRefSetAddress_v2),
	ROW(cuTexRefSetAddress2D_v2),
	ROW(cuTexRefSetAddress2D_v3),
	ROW(cuModuleUnload),
	ROW(cuLibraryUnload),
};

void *fm_cuda_named_outside(enum fm_cuda_id id, void *next)
{
	if (!named[id])
		return next;
	atomic_store(&real[id], next);
	return named[id];
}
