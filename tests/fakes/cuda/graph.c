/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: lists of works, as a program composes them. exec.c makes of them what can be launched. */
#include "image.h"
#include "pools.h"
#include <stdlib.h>
#include <string.h>

#define OBJECTS 4u

static CUgraph graphs;

/* Of the program's: it ends with its last reference. */
struct CUuserObject_st {
	_Atomic unsigned refs;
	CUhostFn end;
	void *arg;
};

fm_cu_result cuUserObjectCreate(
	CUuserObject *object, void *arg, CUhostFn end, unsigned refs, unsigned flags)
{
	CUuserObject o = calloc(1, sizeof(*o));

	if (!o || !object || !end || !refs || flags != 1)
		return FM_CU_ERROR_INVALID_VALUE;
	o->refs = refs;
	o->end = end;
	o->arg = arg;
	*object = o;
	return FM_CU_SUCCESS;
}

/* One reference; flags: 1, which was the program's. */
fm_cu_result cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned n, unsigned flags)
{
	size_t i = 0;

	FK_TRY(fk_enter());
	if (!fk_graph_known(graph) || !object || n != 1 || flags > 1)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	while (i < OBJECTS && graph->object[i])
		i++;
	if (i == OBJECTS)
		return fk_leave(CU_OUT_OF_MEMORY);
	graph->object[i] = object;
	object->refs += !flags;
	return fk_leave(FM_CU_SUCCESS);
}

static void share_objects(CUgraph to, CUgraph from)
{
	memcpy(to->object, from->object, sizeof(to->object));
	for (size_t i = 0; i < OBJECTS && to->object[i]; i++)
		to->object[i]->refs++;
}

static void put_objects(CUgraph g)
{
	for (size_t i = 0; i < OBJECTS && g->object[i]; i++) {
		if (atomic_fetch_sub(&g->object[i]->refs, 1) != 1)
			continue;
		g->object[i]->end(g->object[i]->arg);
		free(g->object[i]);
	}
}

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
	put_objects(g);
	free(g);
}

void fk_graph_publish(CUgraph g)
{
	g->next = graphs;
	graphs = g;
}

/* What is made of a graph may have them, of which there may be several. */
static void check_launch(const struct fk_work *w)
{
	const struct fk_launch *l = fk_work_launch(w);

	if (l && fk_launch_guarded(l) && !fk_launch_in_row(l))
		fk_die("a launch of %s in a graph has a stop word", l->entry->name);
}

fm_cu_result fk_graph_add(
	CUgraph g, const struct fk_work *work, struct fk_nodes *after, CUgraphNode *node)
{
	CUgraphNode n = calloc(1, sizeof(*n));

	check_launch(work);
	if (!n) {
		free(after);
		return CU_OUT_OF_MEMORY;
	}
	n->work = *work;
	n->after = after;
	n->number = g->added++;
	*g->last = n;
	g->last = &n->next;
	g->n++;
	*node = n;
	return FM_CU_SUCCESS;
}

fm_cu_result fk_graph_compose(
	CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n, struct fk_work *work)
{
	if (!node || !fk_graph_known(graph) || (n && !deps)) {
		fk_work_end(work);
		return FM_CU_ERROR_INVALID_VALUE;
	}
	return fk_graph_add(graph, work, fk_nodes_copy(deps, n), node);
}

static CUgraph *find_graph(CUgraph graph)
{
	CUgraph *g = &graphs;

	fk_defined(graph);
	while (*g && *g != graph)
		g = &(*g)->next;
	return g;
}

/* --- graphs as parts of others --- */

/* What is launched is a plan of it. */
static void run_graph(struct fk_work *w)
{
	fk_die("a graph is executed that was not instantiated");
}

static void end_graph(struct fk_work *w)
{
	fk_graph_put(w->graph);
}

static CUgraph copy(CUgraph graph);

static void share_graph(struct fk_work *w)
{
	w->graph = copy(w->graph);
}

static struct fk_work part(CUgraph graph)
{
	return (struct fk_work){
		.run = run_graph, .end = end_graph, .share = share_graph, .graph = copy(graph)};
}

CUgraph fk_graph_of(const struct fk_work *w)
{
	return w->run == run_graph ? w->graph : fk_plan_graph(w);
}

/* The graph, or a part of it, that is `graph` or has `node`. */
static CUgraph search(CUgraph g, CUgraph graph, CUgraphNode node)
{
	CUgraph part, found = g == graph ? g : NULL;

	for (CUgraphNode n = g->first; n && !found; n = n->next) {
		part = fk_graph_of(&n->work);
		found = n == node ? g : part ? search(part, graph, node) : NULL;
	}
	return found;
}

static CUgraph search_all(CUgraph graph, CUgraphNode node)
{
	CUgraph found = NULL;

	for (CUgraph g = graphs; g && !found; g = g->next)
		found = search(g, graph, node);
	return found;
}

/* Also one that is a part of another. */
bool fk_graph_known(CUgraph graph)
{
	return graph && search_all(graph, NULL);
}

CUgraph fk_graph_with(CUgraphNode node)
{
	return search_all(NULL, node);
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

static CUgraphNode nth(CUgraph graph, size_t i)
{
	CUgraphNode n = graph->first;

	while (i--)
		n = n->next;
	return n;
}

static size_t index_of(CUgraph graph, CUgraphNode node)
{
	size_t i = 0;

	for (CUgraphNode n = graph->first; n != node; n = n->next)
		i++;
	return i;
}

static CUgraph copy(CUgraph graph)
{
	CUgraph g = fk_graph_new();
	CUgraphNode made;

	for (CUgraphNode n = graph->first; n; n = n->next) {
		struct fk_work w = n->work;

		fk_work_share(&w);
		if (fk_graph_add(g, &w, fk_nodes_copy(n->after->node, n->after->n), &made))
			abort();
		made->origin = n;
		made->number = n->number;
		made->early = n->early;
	}
	/* One may be behind one that was added later. */
	for (CUgraphNode n = g->first; n; n = n->next)
		for (unsigned i = 0; i < n->after->n; i++)
			n->after->node[i] = nth(g, index_of(graph, n->after->node[i]));
	g->added = graph->added;
	share_objects(g, graph);
	return g;
}

fm_cu_result cuGraphClone(CUgraph *clone, CUgraph graph)
{
	fm_cu_result fails = fk_fails("cuGraphClone");

	FK_TRY(fk_enter());
	if (!clone || !*find_graph(graph))
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	if (fails) {
		*clone = FK_UNDEFINED;
		return fk_leave(fails);
	}
	if (fk_graph_allocates(graph))
		return fk_leave(FM_CU_ERROR_NOT_SUPPORTED);
	*clone = copy(graph);
	fk_graph_publish(*clone);
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuGraphAddChildGraphNode(
	CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n, CUgraph child)
{
	struct fk_work w;

	FK_TRY(fk_enter());
	if (!node || !fk_graph_known(graph) || !*find_graph(child) || graph == child ||
		(n && !deps))
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	if (fk_graph_allocates(child))
		return fk_leave(FM_CU_ERROR_NOT_SUPPORTED);
	w = part(child);
	return fk_leave(fk_graph_add(graph, &w, fk_nodes_copy(deps, n), node));
}

fm_cu_result cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *graph)
{
	FK_TRY(fk_enter());
	if (!node || !graph || !fk_graph_of(&node->work))
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	*graph = fk_graph_of(&node->work);
	return fk_leave(FM_CU_SUCCESS);
}

/* --- kernels in graphs --- */

static fm_cu_result node_work(struct fk_work *w, const struct cu_kernel_node *k)
{
	CUfunction f = k->f ? k->f : (CUfunction)(void *)k->kernel;

	return fk_kernel_work(w, f, k->grid, k->block, k->shared, k->params, k->extra);
}

/* As it was before CUDA 12. */
struct cu_kernel_node fk_node_v1(const void *v1)
{
	struct cu_kernel_node k = {0};

	memcpy(&k, v1, offsetof(struct cu_kernel_node, kernel));
	return k;
}

fm_cu_result cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
	size_t n, const struct cu_kernel_node *k)
{
	struct fk_work w;
	fm_cu_result rc;

	FK_TRY(fk_enter_ctx());
	if (!node || !fk_graph_known(graph) || !k || (n && !deps))
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	rc = node_work(&w, k);
	return fk_leave(rc ? rc : fk_graph_add(graph, &w, fk_nodes_copy(deps, n), node));
}

fm_cu_result cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
	size_t n, const struct cu_kernel_node *v1)
{
	struct cu_kernel_node k;

	if (!v1)
		return FM_CU_ERROR_INVALID_VALUE;
	k = fk_node_v1(v1);
	return cuGraphAddKernelNode_v2(node, graph, deps, n, &k);
}

fm_cu_result cuGraphAddEventRecordNode(
	CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n, CUevent event)
{
	struct fk_work records = {.record.event = event};

	FK_TRY(fk_enter());
	if (!fk_event_known(event))
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	return fk_leave(fk_graph_compose(node, graph, deps, n, &records));
}

/* Of these types alone. */
fm_cu_result cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
	const void *edges, size_t n, struct cu_node *what)
{
	if (!what || edges)
		return FM_CU_ERROR_INVALID_VALUE;
	if (what->type == NODE_GRAPH)
		return cuGraphAddChildGraphNode(node, graph, deps, n, what->graph);
	if (what->type == NODE_ALLOC)
		return cuGraphAddMemAllocNode(node, graph, deps, n, &what->alloc);
	if (what->type == NODE_FREE)
		return cuGraphAddMemFreeNode(node, graph, deps, n, what->freed);
	if (what->type == NODE_RECORD)
		return cuGraphAddEventRecordNode(node, graph, deps, n, what->event);
	if (what->type != NODE_KERNEL)
		return FM_CU_ERROR_NOT_SUPPORTED;
	return cuGraphAddKernelNode_v2(node, graph, deps, n, &what->kernel);
}

fm_cu_result cuGraphAddNode(
	CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n, struct cu_node *what)
{
	return cuGraphAddNode_v2(node, graph, deps, NULL, n, what);
}

static fm_cu_result get_params(CUgraphNode node, struct cu_kernel_node *k, size_t size)
{
	struct cu_kernel_node all = {0};
	struct fk_launch *l;

	FK_TRY(fk_enter());
	l = node ? fk_work_launch(&node->work) : NULL;
	if (!l || !k)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	all.f = l->function;
	memcpy(all.grid, l->grid, sizeof(all.grid));
	memcpy(all.block, l->block, sizeof(all.block));
	all.shared = l->shared;
	all.params = l->param;
	memcpy(k, &all, size);
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuGraphKernelNodeGetParams_v2(CUgraphNode node, struct cu_kernel_node *k)
{
	return get_params(node, k, sizeof(*k));
}

fm_cu_result cuGraphKernelNodeGetParams(CUgraphNode node, struct cu_kernel_node *v1)
{
	return get_params(node, v1, offsetof(struct cu_kernel_node, kernel));
}

/* The attributes stay as they are. */
fm_cu_result fk_node_set(struct fk_work *at, const struct cu_kernel_node *k)
{
	struct fk_launch *was = at ? fk_work_launch(at) : NULL;
	struct fk_work w;

	if (!was || !k)
		return FM_CU_ERROR_INVALID_VALUE;
	FK_TRY(node_work(&w, k));
	w.launch->n_attr = was->n_attr;
	memcpy(w.launch->attr, was->attr, sizeof(was->attr));
	fk_work_end(at);
	*at = w;
	return FM_CU_SUCCESS;
}

static fm_cu_result set_params(CUgraphNode node, const struct cu_kernel_node *k)
{
	fm_cu_result rc = fk_node_set(node ? &node->work : NULL, k);

	if (!rc)
		check_launch(&node->work);
	return rc;
}

fm_cu_result cuGraphKernelNodeSetParams_v2(CUgraphNode node, const struct cu_kernel_node *k)
{
	FK_TRY(fk_enter_ctx());
	return fk_leave(set_params(node, k));
}

fm_cu_result cuGraphKernelNodeSetParams(CUgraphNode node, const struct cu_kernel_node *v1)
{
	struct cu_kernel_node k;

	if (!v1)
		return FM_CU_ERROR_INVALID_VALUE;
	k = fk_node_v1(v1);
	return cuGraphKernelNodeSetParams_v2(node, &k);
}

fm_cu_result cuGraphNodeSetParams(CUgraphNode node, struct cu_node *what)
{
	if (!what || what->type != NODE_KERNEL)
		return what ? FM_CU_ERROR_NOT_SUPPORTED : FM_CU_ERROR_INVALID_VALUE;
	return cuGraphKernelNodeSetParams_v2(node, &what->kernel);
}
