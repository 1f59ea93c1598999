/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In which graphs gates stand. Gates get there while a stream is captured. A graph that is composed
 * node by node has none, and so has a graph that was captured while no scheduler was connected.
 * What is made of a graph, by instantiation or as a clone, has gates if the graph has.
 *
 * This is a table of fixed size by handle, a word each: the handle and, in its lowest bits, what is
 * known. A later graph may replace an earlier one. If a graph is not in the table, nothing is known
 * of it.
 */
#include "api/cuda/shim/guard/modules.h"
#include "api/cuda/shim/managed/managed.h"
#include "api/cuda/shim/memory/memory.h"
#include "api/cuda/shim/order.h"
#include "api/cuda/shim/shim.h"
#include "graph_guard.h"
#include "graph_read.h"

#define GRAPHS 4096u

/* WHOLE is added if its kernels must not be stopped in their middle. */
enum { UNKNOWN, PLAIN, GATED, WHOLE = 4, STATES = 7 };

static _Atomic uintptr_t graphs[GRAPHS];
static _Atomic bool entered; /* streams are captured into existing graphs */
static _Atomic bool keeping; /* some graph keeps an object of the program's */

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

/* A graph with the state `part` becomes a part of this graph. */
static void add(CUgraph graph, unsigned part)
{
	if (part & GATED)
		set(graph, GATED | (known(graph) & WHOLE));
	else if (part == UNKNOWN && known(graph) & PLAIN)
		set(graph, UNKNOWN);
}

/* The graph has no gates from here on. False: the driver does not let them go. */
static bool make_bare(CUgraph graph, bool covers)
{
	bool yes = fm_cuda_driver() && fm_cuda_graph_bare(graph, covers);

	if (yes)
		set(graph, PLAIN | (known(graph) & WHOLE));
	return yes;
}

static void clone_end(CUgraph clone)
{
	if (clone)
		NEXT(cuGraphDestroy, (clone));
}

/* A clone without gates, which the driver is given where it accepts no gates, while the program's
 * own graph stays as it is. NULL: the graph has no gates, or they cannot be removed. */
static CUgraph bare_clone(CUgraph graph, bool covers)
{
	CUgraph clone = NULL;

	if (!fm_cuda_driver() || !(known(graph) & GATED) || NEXT(cuGraphClone, (&clone, graph)))
		return NULL;
	if (fm_cuda_graph_bare(clone, covers))
		return clone;
	clone_end(clone);
	return NULL;
}

/* What the driver may be given instead of a graph. NULL: nothing. */
struct bared {
	CUgraph clone, anew; /* anew: as a part, like one that never had gates (graph_bare.c) */
};

/* Clones of a graph keep the objects that it keeps, but no call tells which these are. So a graph
 * that is made anew would not keep them. */
static struct bared bared(CUgraph graph, bool covers, bool part)
{
	struct bared b = {.clone = bare_clone(graph, covers)};

	if (b.clone && part && !atomic_load(&keeping))
		b.anew = fm_cuda_graph_anew(b.clone);
	return b;
}

static void bared_end(struct bared b)
{
	clone_end(b.clone);
	clone_end(b.anew);
}

/* A graph that we have not seen made may be the body of a conditional node. Then the part must have
 * no gates. Returns what is to be added. */
static CUgraph part_bared(CUgraph graph, CUgraph part, struct bared *b)
{
	*b = known(graph) == UNKNOWN ? bared(part, true, true) : (struct bared){0};
	if (!b->clone)
		add(graph, known(part));
	return b->anew ? b->anew : b->clone ? b->clone : part;
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
	fm_cu_result rc = NEXT(cuGraphCreate, (graph, flags));

	if (rc == FM_CU_SUCCESS)
		set(*graph, PLAIN);
	return rc;
}

fm_cu_result cuGraphClone(CUgraph *graph, CUgraph from)
{
	fm_cu_result rc = NEXT(cuGraphClone, (graph, from));

	if (rc == FM_CU_SUCCESS)
		set(*graph, known(from));
	return rc;
}

fm_cu_result cuGraphAddChildGraphNode(
	CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n, CUgraph child)
{
	struct bared b;
	CUgraph part = part_bared(graph, child, &b);
	fm_cu_result rc = NEXT(cuGraphAddChildGraphNode, (node, graph, deps, n, part));

	bared_end(b);
	return rc;
}

fm_cu_result cuGraphAddEventRecordNode(
	CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n, CUevent event)
{
	fm_cuda_events_in_graph();
	return NEXT(cuGraphAddEventRecordNode, (node, graph, deps, n, event));
}

/* The parameters of a node as the driver is given them. */
struct adding {
	struct CUgraphNodeParams_st *what, copy; /* what: NULL, if the driver would not take it */
	struct fm_cuda_args args;
	struct bared bared;
};

/* May the node be added? It may allocate memory. */
static bool fits(const struct CUgraphNodeParams_st *what)
{
	return !what || what->type != FM_CU_NODE_ALLOCATES ||
	       fm_cuda_graph_allocates(what->memory.bytes);
}

/* The node may contain other graphs. A graph that becomes the node's own cannot be a clone. */
static void adding_begin(
	struct adding *a, CUgraph graph, struct CUgraphNodeParams_st *what, void *room)
{
	const int type = what ? what->type : FM_CU_NODE_EMPTY;
	CUgraph part;

	a->bared = (struct bared){0};
	a->what = fm_cuda_node(what, &a->copy, &a->args, room);
	if (type == FM_CU_NODE_RECORD)
		fm_cuda_events_in_graph();
	if (type == FM_CU_NODE_CONDITIONAL)
		add(graph, UNKNOWN);
	if (type != FM_CU_NODE_GRAPH)
		return;
	if (what->moves && known(graph) == UNKNOWN && known(what->part) & GATED)
		make_bare(what->part, true);
	if (what->moves) {
		add(graph, known(what->part));
		return;
	}
	part = part_bared(graph, what->part, &a->bared);
	if (part == what->part)
		return;
	a->copy = *what;
	a->copy.part = part;
	a->what = &a->copy;
}

fm_cu_result cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n,
	struct CUgraphNodeParams_st *what)
{
	struct adding a;
	fm_cu_result rc;

	if (!fits(what))
		return FM_CU_ERROR_OUT_OF_MEMORY;
	adding_begin(&a, graph, what, __builtin_alloca(fm_cuda_node_room(what)));
	if (!a.what)
		return FM_CU_ERROR_INVALID_VALUE;
	rc = NEXT(cuGraphAddNode, (node, graph, deps, n, a.what));
	bared_end(a.bared);
	return rc;
}

fm_cu_result cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
	const struct CUgraphEdgeData_st *data, size_t n, struct CUgraphNodeParams_st *what)
{
	struct adding a;
	fm_cu_result rc;

	if (!fits(what))
		return FM_CU_ERROR_OUT_OF_MEMORY;
	adding_begin(&a, graph, what, __builtin_alloca(fm_cuda_node_room(what)));
	if (!a.what)
		return FM_CU_ERROR_INVALID_VALUE;
	rc = NEXT(cuGraphAddNode_v2, (node, graph, deps, data, n, a.what));
	bared_end(a.bared);
	return rc;
}

/* The driver may reuse a handle as soon as it has it back, so it is forgotten before. */
fm_cu_result cuGraphDestroy(CUgraph graph)
{
	set(graph, UNKNOWN);
	return NEXT(cuGraphDestroy, (graph));
}

fm_cu_result cuGraphRetainUserObject(
	CUgraph graph, CUuserObject object, unsigned count, unsigned flags)
{
	atomic_store(&keeping, true);
	return NEXT(cuGraphRetainUserObject, (graph, object, count, flags));
}

/* --- what is launched --- */

#define LOADS(call) FM_CUDA_LOAD_WITH_ROOM(FM_CUDA_LOADING(NULL, call))

/* The driver accepts no gates in a graph that the device launches. Then it is asked once more. The
 * result names the program's own nodes, so these must stay. */
static bool without_gates(CUgraph graph, uint64_t flags, fm_cu_result rc)
{
	return rc != FM_CU_SUCCESS && flags & FM_CUDA_BY_DEVICE && known(graph) != UNKNOWN &&
	       make_bare(graph, true);
}

static fm_cu_result instantiated(
	const CUgraphExec *exec, CUgraph graph, uint64_t flags, fm_cu_result rc)
{
	if (rc != FM_CU_SUCCESS)
		return rc;
	set(*exec, known(graph));
	fm_cuda_exec_made(*exec, graph, flags, known(graph) & WHOLE);
	fm_cuda_graph_settle();
	return rc;
}

fm_cu_result cuGraphInstantiate(
	CUgraphExec *exec, CUgraph graph, CUgraphNode *node, char *log, size_t size)
{
	return instantiated(
		exec, graph, 0, LOADS(NEXT(cuGraphInstantiate, (exec, graph, node, log, size))));
}

fm_cu_result cuGraphInstantiate_v2(
	CUgraphExec *exec, CUgraph graph, CUgraphNode *node, char *log, size_t size)
{
	return instantiated(
		exec, graph, 0, LOADS(NEXT(cuGraphInstantiate_v2, (exec, graph, node, log, size))));
}

fm_cu_result cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
	fm_cu_result rc = LOADS(NEXT(cuGraphInstantiateWithFlags, (exec, graph, flags)));

	if (without_gates(graph, flags, rc))
		rc = LOADS(NEXT(cuGraphInstantiateWithFlags, (exec, graph, flags)));
	return instantiated(exec, graph, flags, rc);
}

/* The parameters begin with the flags, and the driver writes into what follows. */
static uint64_t flags_of(const struct CUDA_GRAPH_INSTANTIATE_PARAMS_st *how)
{
	return how ? *(const uint64_t *)(const void *)how : 0;
}

static fm_cu_result with_params(CUgraphExec *exec, CUgraph graph,
	struct CUDA_GRAPH_INSTANTIATE_PARAMS_st *how, enum fm_cuda_id id)
{
	fm_cu_result rc = LOADS(NEXT_AS(cuGraphInstantiateWithParams, id, (exec, graph, how)));

	if (without_gates(graph, flags_of(how), rc))
		rc = LOADS(NEXT_AS(cuGraphInstantiateWithParams, id, (exec, graph, how)));
	return instantiated(exec, graph, flags_of(how), rc);
}

fm_cu_result cuGraphInstantiateWithParams(
	CUgraphExec *exec, CUgraph graph, struct CUDA_GRAPH_INSTANTIATE_PARAMS_st *how)
{
	return with_params(exec, graph, how, FM_CUDA_cuGraphInstantiateWithParams);
}

fm_cu_result cuGraphInstantiateWithParams_ptsz(
	CUgraphExec *exec, CUgraph graph, struct CUDA_GRAPH_INSTANTIATE_PARAMS_st *how)
{
	return with_params(exec, graph, how, FM_CUDA_cuGraphInstantiateWithParams_ptsz);
}

/* The driver accepts only a graph of the same shape: with the same gates, or without any. `call` is
 * made with `graph`; if that is refused, with a graph without gates; and if that does not help,
 * with `graph` again, so that what the driver writes concerns the program's own graph. */
#define IN_ITS_SHAPE(rc, graph, part, call)          \
	do {                                         \
		CUgraph own = graph;                 \
		struct bared b = {0};                \
                                                     \
		rc = call;                           \
		if (rc)                              \
			b = bared(own, false, part); \
		if ((graph = b.anew))                \
			rc = call;                   \
		if (rc && (graph = b.clone))         \
			rc = call;                   \
		graph = own;                         \
		bared_end(b);                        \
		if (rc && b.clone)                   \
			rc = call;                   \
	} while (0)

static fm_cu_result updated(CUgraphExec exec, CUgraph graph, fm_cu_result rc)
{
	if (rc == FM_CU_SUCCESS && known(exec) == UNKNOWN)
		set(exec, known(graph));
	return rc;
}

fm_cu_result cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *node, int *result)
{
	fm_cu_result rc;

	fm_cuda_exec_changes(exec);
	IN_ITS_SHAPE(rc, graph, false, NEXT(cuGraphExecUpdate, (exec, graph, node, result)));
	return updated(exec, graph, rc);
}

fm_cu_result cuGraphExecUpdate_v2(
	CUgraphExec exec, CUgraph graph, struct CUgraphExecUpdateResultInfo_st *result)
{
	fm_cu_result rc;

	fm_cuda_exec_changes(exec);
	IN_ITS_SHAPE(rc, graph, false, NEXT(cuGraphExecUpdate_v2, (exec, graph, result)));
	return updated(exec, graph, rc);
}

fm_cu_result cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child)
{
	fm_cu_result rc;

	fm_cuda_exec_changes(exec);
	IN_ITS_SHAPE(
		rc, child, true, NEXT(cuGraphExecChildGraphNodeSetParams, (exec, node, child)));
	return rc;
}

static fm_cu_result node_changes(
	CUgraphExec exec, CUgraphNode node, struct CUgraphNodeParams_st *what)
{
	return NEXT(cuGraphExecNodeSetParams, (exec, node, what));
}

fm_cu_result cuGraphExecNodeSetParams(
	CUgraphExec exec, CUgraphNode node, struct CUgraphNodeParams_st *what)
{
	const bool part = what && what->type == FM_CU_NODE_GRAPH;
	struct CUgraphNodeParams_st copy;
	struct fm_cuda_args args;
	fm_cu_result rc;

	what = fm_cuda_node(what, &copy, &args, __builtin_alloca(fm_cuda_node_room(what)));
	fm_cuda_exec_changes(exec);
	if (!part)
		return what ? node_changes(exec, node, what) : FM_CU_ERROR_INVALID_VALUE;
	copy = *what;
	IN_ITS_SHAPE(rc, copy.part, true, node_changes(exec, node, &copy));
	return rc;
}

/* The upload goes behind earlier launches. */
static fm_cu_result upload(CUgraphExec graph, CUstream given, bool per_thread, enum fm_cuda_id id)
{
	struct fm_cuda_exec *e = fm_cu_inside ? NULL : fm_cuda_exec_find(graph);
	CUstream stream = fm_cuda_stream(given, per_thread);
	CUgraphExec own = graph;
	struct fm_cuda_order o;
	fm_cu_result rc;

	if (e)
		fm_cuda_exec_settle(e, stream);
	o = fm_cuda_ordering_seldom(given, per_thread, FM_CUDA_FOR_PLAIN);
	if (e)
		graph = fm_cuda_exec_uploaded(e, stream);
	fm_cu_inside++;
	rc = NEXT_AS(cuGraphUpload, id, (graph, given));
	if (FM_UNLIKELY(rc != FM_CU_SUCCESS && graph != own) &&
		fm_cuda_exec_refused(e, graph, stream, rc))
		rc = NEXT_AS(cuGraphUpload, id, (own, given));
	fm_cu_inside--;
	fm_cuda_ordered(o, stream);
	fm_cuda_graph_settle();
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
	fm_cu_result rc;

	set(exec, UNKNOWN);
	fm_cuda_exec_ends(exec);
	rc = NEXT(cuGraphExecDestroy, (exec));
	fm_cuda_graph_settle();
	return rc;
}
