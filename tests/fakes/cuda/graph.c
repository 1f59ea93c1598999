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
	CUgraphNode n = calloc(1, sizeof(*n));

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
	if (!*find_graph(graph) || !n)
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
	e->refs = 1;
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

static void put_exec(CUgraphExec e)
{
	if (atomic_fetch_sub(&e->refs, 1) != 1)
		return;
	fk_graph_put(e->graph);
	free(e);
}

fm_cu_result cuGraphExecDestroy(CUgraphExec exec)
{
	CUgraphExec *e;

	FK_TRY(fk_enter());
	e = find_exec(exec);
	if (!*e)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	*e = exec->next;
	put_exec(exec);
	return fk_leave(FM_CU_SUCCESS);
}

static void run_exec(struct fk_work *w)
{
	for (CUgraphNode n = w->exec->graph->first; n; n = n->next)
		if (n->work.run)
			n->work.run(&n->work);
}

static void end_exec(struct fk_work *w)
{
	put_exec(w->exec);
}

static bool records(const struct fk_work *w)
{
	return !w->run && w->record.event;
}

static fm_cu_result launch(CUgraphExec exec, CUstream stream)
{
	struct fk_work w = {.run = run_exec, .end = end_exec, .exec = exec};
	CUstream s;

	FK_TRY(fk_stream_find(stream, &s));
	FK_TRY(fk_implicit(s));
	if (s->capture)
		FK_TRY(fk_capture_add(s, &w));
	else
		FK_TRY(fk_submit(s, &w, &exec->last, 1, &exec->last));
	atomic_fetch_add(&exec->refs, 1);
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
