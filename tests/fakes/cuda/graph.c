/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: lists of works that a launch executes as one command. */
#include "fake.h"
#include <stdlib.h>

static CUgraph graphs;
static CUgraphExec execs;

CUgraph fk_graph_new(void)
{
	CUgraph g = calloc(1, sizeof(*g));

	if (!g)
		abort();
	g->refs = 1;
	g->last = &g->first;
	return g;
}

void fk_graph_put(CUgraph g)
{
	CUgraphNode n;

	if (atomic_fetch_sub(&g->refs, 1) != 1)
		return;
	if (g->source) {
		fk_graph_put(g->source);
		g->first = NULL;
	}
	while ((n = g->first)) {
		g->first = n->next;
		fk_work_end(&n->work);
		free(n->after);
		free(n);
	}
	free(g);
}

void fk_graph_publish(CUgraph g)
{
	g->next = graphs;
	graphs = g;
}

fm_cu_result fk_graph_add(
	CUgraph g, const struct fk_work *work, struct fk_nodes *after, CUgraphNode *node)
{
	CUgraphNode n = g->source ? NULL : calloc(1, sizeof(*n)); /* enough for the tests */

	if (!n) {
		free(after);
		return CU_OUT_OF_MEMORY;
	}
	n->work = *work;
	n->after = after;
	*g->last = n;
	g->last = &n->next;
	g->n++;
	*node = n;
	return FM_CU_SUCCESS;
}

static CUgraph *find_graph(CUgraph graph)
{
	CUgraph *g = &graphs;

	while (*g && *g != graph)
		g = &(*g)->next;
	return g;
}

static void run_graph(struct fk_work *w)
{
	for (CUgraphNode n = w->graph->first; n; n = n->next)
		if (n->work.run)
			n->work.run(&n->work);
}

static void end_graph(struct fk_work *w)
{
	fk_graph_put(w->graph);
}

/* Also one that is a part of another. */
bool fk_graph_known(CUgraph graph)
{
	for (CUgraph g = graphs; g; g = g->next) {
		if (g == graph)
			return true;
		for (CUgraphNode n = g->first; n; n = n->next)
			if (n->work.run == run_graph && n->work.graph == graph)
				return true;
	}
	return false;
}

struct fk_nodes *fk_nodes_copy(const CUgraphNode *node, size_t n)
{
	struct fk_nodes *copy = calloc(1, sizeof(*copy) + n * sizeof(*node));

	if (!copy)
		abort();
	for (; copy->n < n; copy->n++)
		copy->node[copy->n] = node[copy->n];
	return copy;
}

static CUgraphExec *find_exec(CUgraphExec exec)
{
	CUgraphExec *e = &execs;

	while (*e && *e != exec)
		e = &(*e)->next;
	return e;
}

fm_cu_result cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *n)
{
	size_t i = 0;

	FK_TRY(fk_enter());
	if (!fk_graph_known(graph) || !n)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	for (CUgraphNode node = graph->first; nodes && node && i < *n; node = node->next)
		nodes[i++] = node;
	*n = nodes ? i : graph->n;
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuGraphDestroy(CUgraph graph)
{
	CUgraph *g;

	FK_TRY(fk_enter());
	g = find_graph(graph);
	if (!*g)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	*g = graph->next;
	fk_graph_put(graph);
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
	CUgraphExec e;

	FK_TRY(fk_enter_ctx());
	if (!exec || !*find_graph(graph) || flags > 15)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	e = calloc(1, sizeof(*e));
	if (!e)
		return fk_leave(CU_OUT_OF_MEMORY);
	e->graph = graph;
	atomic_fetch_add(&graph->refs, 1);
	e->next = execs;
	execs = e;
	*exec = e;
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuGraphInstantiate_v2(
	CUgraphExec *exec, CUgraph graph, CUgraphNode *node, char *log, size_t size)
{
	if (node)
		*node = NULL;
	if (log && size)
		*log = 0;
	return cuGraphInstantiateWithFlags(exec, graph, 0);
}

fm_cu_result cuGraphInstantiateWithParams(
	CUgraphExec *exec, CUgraph graph, struct cu_instantiate *how)
{
	fm_cu_result rc = how ? cuGraphInstantiateWithFlags(exec, graph, how->flags)
			      : FM_CU_ERROR_INVALID_VALUE;

	if (how) {
		how->failed = NULL;
		how->result = rc ? 1 : 0;
	}
	return rc;
}

/* The shape must be the same: here, the number of nodes. */
fm_cu_result cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, struct cu_update *result)
{
	FK_TRY(fk_enter());
	if (!*find_exec(exec) || !*find_graph(graph) || !result)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	*result = (struct cu_update){0};
	if (exec->graph->n != graph->n) {
		result->result = 2; /* CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED */
		return fk_leave(910);
	}
	atomic_fetch_add(&graph->refs, 1);
	fk_graph_put(exec->graph);
	exec->graph = graph;
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuGraphExecDestroy(CUgraphExec exec)
{
	CUgraphExec *e;

	FK_TRY(fk_enter());
	e = find_exec(exec);
	if (!*e)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	*e = exec->next;
	fk_graph_put(exec->graph);
	free(exec);
	return fk_leave(FM_CU_SUCCESS);
}

static bool records(const struct fk_work *w)
{
	return !w->run && w->record.event;
}

static fm_cu_result launch(CUgraphExec exec, CUstream stream)
{
	struct fk_work w = {.run = run_graph, .end = end_graph, .graph = exec->graph};
	CUstream s;

	FK_TRY(fk_stream_find(stream, &s));
	FK_TRY(fk_implicit(s));
	atomic_fetch_add(&exec->graph->refs, 1); /* the work's */
	if (s->capture)
		FK_TRY(fk_capture_add(s, &w));
	else
		FK_TRY(fk_submit(s, &w, &exec->last, 1, &exec->last));
	for (CUgraphNode n = exec->graph->first; n && !s->capture; n = n->next)
		if (records(&n->work) && fk_event_known(n->work.record.event))
			FK_TRY(fk_record_on(n->work.record.event, s));
	return FM_CU_SUCCESS;
}

fm_cu_result cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
	FK_TRY(fk_enter());
	if (!*find_exec(exec))
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	return fk_leave(launch(exec, stream));
}

fm_cu_result cuGraphUpload(CUgraphExec exec, CUstream stream)
{
	struct fk_work nothing = {0};

	FK_TRY(fk_enter());
	if (!*find_exec(exec))
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	return fk_leave(fk_enqueue(stream, &nothing, NULL));
}

/* --- graphs composed node by node --- */

fm_cu_result cuGraphCreate(CUgraph *graph, unsigned flags)
{
	FK_TRY(fk_enter());
	if (!graph || flags)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	*graph = fk_graph_new();
	fk_graph_publish(*graph);
	return fk_leave(FM_CU_SUCCESS);
}

static CUgraph copy(CUgraph graph)
{
	CUgraph g = fk_graph_new();

	if (!graph->n)
		return g;
	atomic_fetch_add(&graph->refs, 1);
	g->source = graph;
	g->first = graph->first;
	g->n = graph->n;
	return g;
}

fm_cu_result cuGraphClone(CUgraph *clone, CUgraph graph)
{
	FK_TRY(fk_enter());
	if (!clone || !*find_graph(graph))
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	*clone = copy(graph);
	fk_graph_publish(*clone);
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
	size_t n, const struct cu_kernel_node *k)
{
	struct fk_work w;
	fm_cu_result rc;

	FK_TRY(fk_enter_ctx());
	if (!node || !*find_graph(graph) || !k || (n && !deps))
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	rc = fk_kernel_work(&w, k->f, k->grid, k->block, k->shared, k->params, k->extra);
	return fk_leave(rc ? rc : fk_graph_add(graph, &w, fk_nodes_copy(deps, n), node));
}

fm_cu_result cuGraphAddChildGraphNode(
	CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n, CUgraph child)
{
	struct fk_work w = {.run = run_graph, .end = end_graph};

	FK_TRY(fk_enter());
	if (!node || !*find_graph(graph) || !*find_graph(child) || graph == child || (n && !deps))
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	w.graph = copy(child);
	return fk_leave(fk_graph_add(graph, &w, fk_nodes_copy(deps, n), node));
}

fm_cu_result cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *graph)
{
	FK_TRY(fk_enter());
	if (!node || !graph || node->work.run != run_graph)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	*graph = node->work.graph;
	return fk_leave(FM_CU_SUCCESS);
}
