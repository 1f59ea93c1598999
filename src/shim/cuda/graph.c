/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In which graphs gates stand. They get there while a stream is captured; a graph that is composed
 * node by node has none, and so has one that was captured while nobody scheduled us. What is made
 * of a graph, by instantiation or as a clone, has gates if the graph has.
 *
 * A table of fixed size by handle, a word each: the handle and, in its lowest bits, what is known.
 * A later one may take an earlier one's place. Of what is not there nothing is known, and nothing
 * is said.
 */
#include "graph_guard.h"
#include "graph_read.h"
#include "modules.h"
#include "order.h"
#include "shim.h"

#define GRAPHS 4096u

/* WHOLE besides: its kernels are not to be stopped in their middle. */
enum { UNKNOWN, PLAIN, GATED, WHOLE = 4, STATES = 7 };

static _Atomic uintptr_t graphs[GRAPHS];
static _Atomic bool entered; /* graphs that were there are captured into */

static _Atomic uintptr_t *slot_of(uintptr_t h)
{
	return &graphs[h * UINT64_C(0x9e3779b97f4a7c15) >> 52];
}

static unsigned known(const void *handle)
{
	uintptr_t h = (uintptr_t)handle;
	uintptr_t word = atomic_load_explicit(slot_of(h), memory_order_relaxed);

	return (word & ~(uintptr_t)STATES) == h ? word & STATES : UNKNOWN;
}

/* UNKNOWN: forget it. */
static void set(const void *handle, unsigned state)
{
	uintptr_t h = (uintptr_t)handle, word = h | known(handle);

	if (!h || h & STATES)
		return;
	if (state != UNKNOWN)
		atomic_store_explicit(slot_of(h), h | state, memory_order_relaxed);
	else
		atomic_compare_exchange_strong(slot_of(h), &word, 0);
}

/* Something known by `part` becomes a part of the graph. */
static void add(CUgraph graph, unsigned part)
{
	if (part & GATED)
		set(graph, GATED | (known(graph) & WHOLE));
	else if (part == UNKNOWN && known(graph) & PLAIN)
		set(graph, UNKNOWN);
}

/* It has no gates from here on. Where the driver does not let them go, it says so itself. */
static void make_bare(CUgraph graph, bool covers)
{
	if (fm_cuda_driver() && fm_cuda_graph_bare(graph, covers))
		set(graph, PLAIN | (known(graph) & WHOLE));
}

/* Of what we have not seen made, it may be the body of a conditional node. */
static void add_part(CUgraph graph, CUgraph part)
{
	if (known(graph) == UNKNOWN && known(part) & GATED)
		make_bare(part, true);
	add(graph, known(part));
}

bool fm_cuda_graph_plain(CUgraphExec exec)
{
	return known(exec) & PLAIN;
}

void fm_cuda_graphs_clear(void)
{
	for (size_t i = 0; i < GRAPHS; i++)
		atomic_store(&graphs[i], 0);
	fm_cuda_exec_fork_child();
}

/* --- captures --- */

static CUgraph captured(CUstream stream)
{
	const struct fm_cu_driver *cu = fm_cuda_driver();
	int status = FM_CU_CAPTURE_NONE;
	CUgraph graph = NULL;

	if (!cu || !cu->stream_capture_info ||
		cu->stream_capture_info(stream, &status, NULL, &graph, NULL, NULL))
		return NULL;
	return status == FM_CU_CAPTURE_ACTIVE ? graph : NULL;
}

uint64_t fm_cuda_graph_number(CUstream stream)
{
	const struct fm_cu_driver *cu = fm_cuda_driver();
	int status = FM_CU_CAPTURE_NONE;
	uint64_t id;

	if (!cu || !cu->stream_capture_info ||
		cu->stream_capture_info(stream, &status, &id, NULL, NULL, NULL) ||
		status != FM_CU_CAPTURE_ACTIVE)
		return atomic_load(&fm_cu_capture_no);
	return id + 1;
}

void fm_cuda_graph_begun(CUstream stream, bool whole)
{
	set(captured(stream), PLAIN | (whole ? WHOLE : 0));
}

void fm_cuda_graph_entered(void)
{
	atomic_store(&entered, true);
}

void fm_cuda_graph_recaptured(CUgraph graph)
{
	if (known(graph) & PLAIN)
		set(graph, UNKNOWN);
}

bool fm_cuda_graph_takes_gates(CUstream stream)
{
	return !atomic_load(&entered) || known(captured(stream)) != UNKNOWN;
}

void fm_cuda_graph_gated(CUstream stream)
{
	add(captured(stream), GATED);
}

void fm_cuda_graph_nested(CUstream stream, CUgraphExec exec)
{
	add(captured(stream), known(exec));
	fm_cuda_exec_nested(exec);
}

/* --- composition --- */

fm_cu_result cuGraphCreate(CUgraph *graph, unsigned flags)
{
	fm_cu_result rc = NEXT(FM_CUDA_cuGraphCreate, (CUgraph *, unsigned), (graph, flags));

	if (rc == FM_CU_SUCCESS)
		set(*graph, PLAIN);
	return rc;
}

fm_cu_result cuGraphClone(CUgraph *graph, CUgraph from)
{
	fm_cu_result rc = NEXT(FM_CUDA_cuGraphClone, (CUgraph *, CUgraph), (graph, from));

	if (rc == FM_CU_SUCCESS)
		set(*graph, known(from));
	return rc;
}

fm_cu_result cuGraphAddChildGraphNode(
	CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n, CUgraph child)
{
	add_part(graph, child);
	return NEXT(FM_CUDA_cuGraphAddChildGraphNode,
		(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUgraph),
		(node, graph, deps, n, child));
}

fm_cu_result cuGraphAddEventRecordNode(
	CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n, CUevent event)
{
	fm_cuda_events_in_graph();
	return NEXT(FM_CUDA_cuGraphAddEventRecordNode,
		(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUevent),
		(node, graph, deps, n, event));
}

/* Other graphs may be in the node. */
static void node_added(CUgraph graph, const struct CUgraphNodeParams_st *what)
{
	if (what && what->type == FM_CU_NODE_RECORD)
		fm_cuda_events_in_graph();
	if (what && what->type == FM_CU_NODE_GRAPH)
		add_part(graph, what->part);
	if (what && what->type == FM_CU_NODE_CONDITIONAL)
		add(graph, UNKNOWN);
}

fm_cu_result cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n,
	struct CUgraphNodeParams_st *what)
{
	struct CUgraphNodeParams_st copy;
	struct fm_cuda_args a;

	node_added(graph, what);
	what = fm_cuda_node(what, &copy, &a, __builtin_alloca(fm_cuda_node_room(what)));
	if (!what)
		return FM_CU_ERROR_INVALID_VALUE;
	return NEXT(FM_CUDA_cuGraphAddNode,
		(CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
			struct CUgraphNodeParams_st *),
		(node, graph, deps, n, what));
}

fm_cu_result cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
	const struct CUgraphEdgeData_st *data, size_t n, struct CUgraphNodeParams_st *what)
{
	struct CUgraphNodeParams_st copy;
	struct fm_cuda_args a;

	node_added(graph, what);
	what = fm_cuda_node(what, &copy, &a, __builtin_alloca(fm_cuda_node_room(what)));
	if (!what)
		return FM_CU_ERROR_INVALID_VALUE;
	return NEXT(FM_CUDA_cuGraphAddNode_v2,
		(CUgraphNode *, CUgraph, const CUgraphNode *, const struct CUgraphEdgeData_st *,
			size_t, struct CUgraphNodeParams_st *),
		(node, graph, deps, data, n, what));
}

/* A handle may be used again as soon as the driver has it back: it is forgotten before. */
fm_cu_result cuGraphDestroy(CUgraph graph)
{
	set(graph, UNKNOWN);
	return NEXT(FM_CUDA_cuGraphDestroy, (CUgraph), (graph));
}

/* --- what is launched --- */

/* Before the driver's call, which may load what the nodes launch. */
static struct fm_cuda_loading instantiates(CUgraph graph, uint64_t flags)
{
	if (flags & FM_CUDA_BY_DEVICE)
		make_bare(graph, true);
	return fm_cuda_load_begin(NULL);
}

static fm_cu_result instantiated(struct fm_cuda_loading l, const CUgraphExec *exec, CUgraph graph,
	uint64_t flags, fm_cu_result rc)
{
	fm_cuda_load_end(l, rc);
	if (rc != FM_CU_SUCCESS)
		return rc;
	set(*exec, known(graph));
	fm_cuda_exec_made(*exec, graph, flags, known(graph) & WHOLE);
	return rc;
}

fm_cu_result cuGraphInstantiate(
	CUgraphExec *exec, CUgraph graph, CUgraphNode *node, char *log, size_t size)
{
	struct fm_cuda_loading l = instantiates(graph, 0);

	return instantiated(l, exec, graph, 0,
		NEXT(FM_CUDA_cuGraphInstantiate,
			(CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t),
			(exec, graph, node, log, size)));
}

fm_cu_result cuGraphInstantiate_v2(
	CUgraphExec *exec, CUgraph graph, CUgraphNode *node, char *log, size_t size)
{
	struct fm_cuda_loading l = instantiates(graph, 0);

	return instantiated(l, exec, graph, 0,
		NEXT(FM_CUDA_cuGraphInstantiate_v2,
			(CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t),
			(exec, graph, node, log, size)));
}

fm_cu_result cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
	struct fm_cuda_loading l = instantiates(graph, flags);

	return instantiated(l, exec, graph, flags,
		NEXT(FM_CUDA_cuGraphInstantiateWithFlags,
			(CUgraphExec *, CUgraph, unsigned long long), (exec, graph, flags)));
}

#define WITH_PARAMS \
	(CUgraphExec * exec, CUgraph graph, struct CUDA_GRAPH_INSTANTIATE_PARAMS_st * how)

/* They begin with the flags, and the driver writes into what follows. */
static uint64_t flags_of(const struct CUDA_GRAPH_INSTANTIATE_PARAMS_st *how)
{
	return how ? *(const uint64_t *)(const void *)how : 0;
}

fm_cu_result cuGraphInstantiateWithParams WITH_PARAMS
{
	struct fm_cuda_loading l = instantiates(graph, flags_of(how));

	return instantiated(l, exec, graph, flags_of(how),
		NEXT(FM_CUDA_cuGraphInstantiateWithParams, WITH_PARAMS, (exec, graph, how)));
}

fm_cu_result cuGraphInstantiateWithParams_ptsz WITH_PARAMS
{
	struct fm_cuda_loading l = instantiates(graph, flags_of(how));

	return instantiated(l, exec, graph, flags_of(how),
		NEXT(FM_CUDA_cuGraphInstantiateWithParams_ptsz, WITH_PARAMS, (exec, graph, how)));
}

void fm_cuda_graph_becomes(CUgraphExec exec, CUgraph graph)
{
	if (known(exec) & PLAIN && known(graph) & GATED)
		make_bare(graph, false);
}

/* The driver takes a graph of the same shape alone: with the same gates, or without any. */
static void updates(CUgraphExec exec, CUgraph graph)
{
	fm_cuda_graph_becomes(exec, graph);
	fm_cuda_exec_changes(exec);
}

static fm_cu_result updated(CUgraphExec exec, CUgraph graph, fm_cu_result rc)
{
	if (rc == FM_CU_SUCCESS && known(exec) == UNKNOWN)
		set(exec, known(graph));
	return rc;
}

fm_cu_result cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *node, int *result)
{
	updates(exec, graph);
	return updated(exec, graph,
		NEXT(FM_CUDA_cuGraphExecUpdate, (CUgraphExec, CUgraph, CUgraphNode *, int *),
			(exec, graph, node, result)));
}

fm_cu_result cuGraphExecUpdate_v2(
	CUgraphExec exec, CUgraph graph, struct CUgraphExecUpdateResultInfo_st *result)
{
	updates(exec, graph);
	return updated(exec, graph,
		NEXT(FM_CUDA_cuGraphExecUpdate_v2,
			(CUgraphExec, CUgraph, struct CUgraphExecUpdateResultInfo_st *),
			(exec, graph, result)));
}

fm_cu_result cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child)
{
	updates(exec, child);
	return NEXT(FM_CUDA_cuGraphExecChildGraphNodeSetParams, (CUgraphExec, CUgraphNode, CUgraph),
		(exec, node, child));
}

/* Behind the launches of before. */
static fm_cu_result upload(CUgraphExec graph, CUstream given, bool per_thread, enum fm_cuda_id id)
{
	struct fm_cuda_exec *e = fm_cu_inside ? NULL : fm_cuda_exec_find(graph);
	CUstream stream = fm_cuda_stream(given, per_thread);
	CUgraphExec own = graph;
	struct fm_cuda_order o;
	fm_cu_result rc;

	if (e)
		fm_cuda_exec_settle(e, stream);
	o = fm_cuda_ordering_seldom(given, per_thread, id);
	if (e)
		graph = fm_cuda_exec_uploaded(e, stream);
	fm_cu_inside++;
	rc = NEXT(id, (CUgraphExec, CUstream), (graph, given));
	if (FM_UNLIKELY(rc != FM_CU_SUCCESS && graph != own) &&
		fm_cuda_exec_refused(e, graph, stream, rc))
		rc = NEXT(id, (CUgraphExec, CUstream), (own, given));
	fm_cu_inside--;
	fm_cuda_ordered(o, stream);
	return rc;
}

fm_cu_result cuGraphUpload(CUgraphExec graph, CUstream stream)
{
	return upload(graph, stream, false, FM_CUDA_cuGraphUpload);
}

fm_cu_result cuGraphUpload_ptsz(CUgraphExec graph, CUstream stream)
{
	return upload(graph, stream, true, FM_CUDA_cuGraphUpload_ptsz);
}

fm_cu_result cuGraphExecDestroy(CUgraphExec exec)
{
	set(exec, UNKNOWN);
	fm_cuda_exec_ends(exec);
	return NEXT(FM_CUDA_cuGraphExecDestroy, (CUgraphExec), (exec));
}
