/* SPDX-License-Identifier: Apache-2.0 */
/* What a graph tells of its nodes. */
#include "image.h"
#include "pools.h"
#include <stdlib.h>
#include <string.h>

#define ATTRIBUTES 18 /* that there are */

bool fk_node_records(const struct fk_work *w)
{
	return w->what == FK_OTHER && !w->run && w->record.event;
}

int fk_work_type(const struct fk_work *w)
{
	static const int type[] = {[FK_COPY] = NODE_COPY,
		[FK_FILL] = NODE_FILL,
		[FK_HOST] = NODE_HOST,
		[FK_ALLOC] = NODE_ALLOC,
		[FK_FREE] = NODE_FREE,
		[FK_WORDS] = NODE_WORDS};

	if (w->what != FK_OTHER)
		return type[w->what];
	if (fk_work_launch(w))
		return NODE_KERNEL;
	if (fk_graph_of(w))
		return NODE_GRAPH;
	return fk_node_records(w) ? NODE_RECORD : NODE_EMPTY;
}

fm_cu_result cuGraphNodeGetType(CUgraphNode node, int *type)
{
	FK_TRY(fk_enter());
	if (!node || !type)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	*type = fk_work_type(&node->work);
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *deps, size_t *n)
{
	FK_TRY(fk_enter());
	if (!node || !n || node->early) /* a lossy query: of edges that say more */
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	for (size_t i = 0; deps && i < *n; i++)
		deps[i] = i < node->after->n ? node->after->node[i] : NULL;
	if (!deps || *n > node->after->n)
		*n = node->after->n;
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuGraphNodeFindInClone(CUgraphNode *node, CUgraphNode was, CUgraph clone)
{
	fm_cu_result fails = fk_fails("cuGraphNodeFindInClone");

	FK_TRY(fk_enter());
	if (fails)
		*node = FK_UNDEFINED;
	if (fails || !node || !was || !fk_graph_known(clone))
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	for (*node = clone->first; *node && (*node)->origin != was;)
		*node = (*node)->next;
	return fk_leave(*node ? FM_CU_SUCCESS : FM_CU_ERROR_INVALID_VALUE);
}

static bool has(CUgraph graph, CUgraphNode node)
{
	CUgraphNode n = fk_graph_known(graph) ? graph->first : NULL;

	while (n && n != node)
		n = n->next;
	return n;
}

/* Where it is among what the other comes behind; `n` if it is not. */
static unsigned edge_of(CUgraphNode from, CUgraphNode to)
{
	unsigned i = 0;

	while (i < to->after->n && to->after->node[i] != from)
		i++;
	return i;
}

fm_cu_result cuGraphRemoveDependencies(
	CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t n)
{
	FK_TRY(fk_fails("cuGraphRemoveDependencies"));
	FK_TRY(fk_enter());
	for (size_t i = 0; i < n; i++)
		if (!has(graph, from[i]) || !has(graph, to[i]) || to[i]->early ||
			edge_of(from[i], to[i]) == to[i]->after->n)
			return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	for (size_t i = 0; i < n; i++) {
		struct fk_nodes *after = to[i]->after;

		after->node[edge_of(from[i], to[i])] = after->node[after->n - 1];
		after->n--;
	}
	return fk_leave(FM_CU_SUCCESS);
}

static fm_cu_result add_edge(CUgraphNode from, CUgraphNode to, const struct cu_edge *e)
{
	struct fk_nodes *was = to->after;
	struct fk_launch *l = fk_work_launch(&to->work);
	CUgraphNode all[64];

	if (edge_of(from, to) != was->n || was->n == 64)
		return FM_CU_ERROR_INVALID_VALUE;
	if (e && e->type &&
		(e->type != 1 || e->from_port != 1 || !l || !fk_work_launch(&from->work)))
		return FM_CU_ERROR_INVALID_VALUE;
	if (e && e->type) {
		fk_launch_early(l);
		to->early = true;
	}
	memcpy(all, was->node, was->n * sizeof(CUgraphNode));
	all[was->n] = from;
	to->after = fk_nodes_copy(all, was->n + 1);
	free(was);
	return FM_CU_SUCCESS;
}

fm_cu_result cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from,
	const CUgraphNode *to, const struct cu_edge *edge, size_t n)
{
	fm_cu_result rc = FM_CU_SUCCESS;

	FK_TRY(fk_fails("cuGraphAddDependencies_v2"));
	FK_TRY(fk_enter());
	for (size_t i = 0; i < n && !rc; i++)
		rc = has(graph, from[i]) && has(graph, to[i])
			     ? add_edge(from[i], to[i], edge ? &edge[i] : NULL)
			     : FM_CU_ERROR_INVALID_VALUE;
	return fk_leave(rc);
}

fm_cu_result cuGraphAddDependencies(
	CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t n)
{
	return cuGraphAddDependencies_v2(graph, from, to, NULL, n);
}

fm_cu_result cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *of, size_t *n)
{
	CUgraph graph;
	size_t found = 0;

	FK_TRY(fk_enter());
	graph = node ? fk_graph_with(node) : NULL;
	if (!graph || !n)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	for (CUgraphNode k = graph->first; k; k = k->next) {
		if (edge_of(node, k) == k->after->n)
			continue;
		if (of && found < *n)
			of[found] = k;
		found++;
	}
	*n = found;
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuGraphDestroyNode(CUgraphNode node)
{
	CUgraph graph;
	CUgraphNode *at;

	FK_TRY(fk_fails("cuGraphDestroyNode"));
	FK_TRY(fk_enter());
	graph = node ? fk_graph_with(node) : NULL;
	if (!graph)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	if (fk_graph_allocates(graph)) /* then none can go */
		return fk_leave(FM_CU_ERROR_NOT_SUPPORTED);
	for (CUgraphNode k = graph->first; k; k = k->next) {
		unsigned i = edge_of(node, k);

		if (i < k->after->n)
			k->after->node[i] = k->after->node[--k->after->n];
	}
	for (at = &graph->first; *at != node;)
		at = &(*at)->next;
	*at = node->next;
	if (graph->last == &node->next)
		graph->last = at;
	graph->n--;
	fk_work_end(&node->work);
	free(node->after);
	free(node);
	return fk_leave(FM_CU_SUCCESS);
}

/* Kernels; fills, and copies that need no thread of the host; and graphs of these. */
static bool is_by_device(const struct fk_work *w)
{
	int type = fk_work_type(w);

	if (type == NODE_COPY)
		return !w->copy.staged && fk_reachable(w->copy.src) && fk_reachable(w->copy.dst);
	return type == NODE_KERNEL || type == NODE_FILL;
}

CUgraphNode fk_graph_not_by_device(CUgraph graph)
{
	for (CUgraphNode n = graph->first; n; n = n->next) {
		CUgraph part = fk_graph_of(&n->work);
		CUgraphNode within = part ? fk_graph_not_by_device(part) : NULL;

		if (within || (!part && !is_by_device(&n->work)))
			return within ? within : n;
	}
	return NULL;
}

fm_cu_result cuGraphKernelNodeGetAttribute(CUgraphNode node, int id, void *value)
{
	struct fk_launch *l;

	FK_TRY(fk_enter());
	l = node ? fk_work_launch(&node->work) : NULL;
	if (!l || !value || id < 1 || id > ATTRIBUTES)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	memset(value, 0, sizeof(l->attr[0].value));
	for (unsigned i = 0; i < l->n_attr; i++)
		if (l->attr[i].id == id)
			memcpy(value, &l->attr[i].value, sizeof(l->attr[i].value));
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuGraphBatchMemOpNodeGetParams(CUgraphNode node, struct cu_words_node *words)
{
	FK_TRY(fk_enter());
	if (!node || !words || node->work.what != FK_WORDS)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	*words = (struct cu_words_node){.n = node->work.memop.n, .op = node->work.memop.op};
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src)
{
	struct fk_launch *to, *from;

	FK_TRY(fk_enter());
	to = dst ? fk_work_launch(&dst->work) : NULL;
	from = src ? fk_work_launch(&src->work) : NULL;
	if (!to || !from)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	to->n_attr = from->n_attr;
	memcpy(to->attr, from->attr, sizeof(to->attr));
	return fk_leave(FM_CU_SUCCESS);
}
