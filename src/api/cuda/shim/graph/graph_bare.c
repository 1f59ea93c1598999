/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes gates from a captured graph where the driver accepts none: the device itself is to launch
 * it (then only kernels, copies, fills and graphs of these may be in it); it becomes a part of what
 * may be the body of a conditional node; or it is to update an executable graph that has none. Our
 * nodes are taken out, of a clone if the program's own graph need not be touched (graph.c): what
 * was behind such a node is then behind what was in front of it. The program's own nodes stay what
 * they are, and keep their names.
 *
 * The driver exchanges a part of an executable graph only for a graph whose nodes were added in the
 * same order. Removed nodes count, also in clones. So a part is made anew, node by node, to be like
 * a graph that never had gates.
 */
#include "api/cuda/core/guard/guard_graph.h"
#include "api/cuda/core/reach.h"
#include "api/cuda/shim/shim.h"
#include "base/cancel.h"
#include "graph_read.h"
#include <stdlib.h>

#define DEPTH_MOST 16 /* levels of graphs in graphs */

/* X(name here, symbol, parameters) */
#define CALLS(X)                                                                                   \
	X(nodes, "cuGraphGetNodes", (CUgraph graph, CUgraphNode * nodes, size_t * n))              \
	X(type, "cuGraphNodeGetType", (CUgraphNode node, int *type))                               \
	X(part, "cuGraphChildGraphNodeGetGraph", (CUgraphNode node, CUgraph * graph))              \
	X(words, "cuGraphBatchMemOpNodeGetParams",                                                 \
		(CUgraphNode node, struct fm_cu_words_node * params))                              \
	X(before, "cuGraphNodeGetDependencies", (CUgraphNode node, CUgraphNode * of, size_t * n))  \
	X(after, "cuGraphNodeGetDependentNodes", (CUgraphNode node, CUgraphNode * of, size_t * n)) \
	X(add, "cuGraphAddDependencies",                                                           \
		(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t n))         \
	X(destroy, "cuGraphDestroyNode", (CUgraphNode node))                                       \
	X(create, "cuGraphCreate", (CUgraph * graph, unsigned flags))                              \
	X(end, "cuGraphDestroy", (CUgraph graph))

struct calls {
	CALLS(FM_CUDA_MEMBER)
};

static bool find_calls(struct calls *c)
{
	bool all = true;

	CALLS(FM_CUDA_FIND)
	return all;
}

struct nodes {
	CUgraphNode *node;
	size_t n;
};

typedef fm_cu_result neighbours_fn(CUgraphNode node, CUgraphNode *of, size_t *n);

/* The result must be freed, also after an error. */
static bool neighbours(neighbours_fn *ask, CUgraphNode node, struct nodes *of)
{
	*of = (struct nodes){0};
	if (ask(node, NULL, &of->n))
		return false;
	of->node = calloc(of->n + 1, sizeof(CUgraphNode));
	return of->node && (!of->n || !ask(node, of->node, &of->n));
}

static bool comes_behind(const struct calls *c, CUgraphNode node, CUgraphNode other)
{
	struct nodes before;
	bool yes = false;

	if (neighbours(c->before, node, &before))
		for (size_t i = 0; i < before.n; i++)
			yes |= before.node[i] == other;
	free(before.node);
	return yes;
}

/* The driver accepts no edge twice. */
static bool link_all(
	const struct calls *c, CUgraph graph, const struct nodes *before, const struct nodes *after)
{
	for (size_t i = 0; i < before->n; i++)
		for (size_t k = 0; k < after->n; k++)
			if (!comes_behind(c, after->node[k], before->node[i]) &&
				c->add(graph, &before->node[i], &after->node[k], 1))
				return false;
	return true;
}

static bool take_out(const struct calls *c, CUgraph graph, CUgraphNode node)
{
	struct nodes before, after = {0};
	bool yes = neighbours(c->before, node, &before) && neighbours(c->after, node, &after) &&
		   link_all(c, graph, &before, &after) && !c->destroy(node);

	free(before.node);
	free(after.node);
	return yes;
}

/* All its words are in the board, whose address the program does not know; those of a cover are one
 * and the same word. */
static bool is_ours(const struct calls *c, CUgraphNode node, bool covers)
{
	struct fm_cu_words_node w = {0};
	bool one = true;

	if (c->words(node, &w) || !w.n || !w.op)
		return false;
	for (unsigned i = 0; i < w.n; i++) {
		if (!fm_cu_reach_host(w.op[i].op.address))
			return false;
		one &= w.op[i].op.address == w.op[0].op.address;
	}
	return covers || !one || w.n != FM_CU_COVER_OPS;
}

/* The driver lets no node of a graph be destroyed that allocates or frees memory. */
static bool all_can_go(const struct calls *c, const struct nodes *all)
{
	int type;

	for (size_t i = 0; i < all->n; i++)
		if (c->type(all->node[i], &type) || type == FM_CU_NODE_ALLOCATES ||
			type == FM_CU_NODE_FREES)
			return false;
	return true;
}

static bool all_nodes(const struct calls *c, CUgraph graph, struct nodes *all)
{
	*all = (struct nodes){0};
	if (c->nodes(graph, NULL, &all->n))
		return false;
	all->node = calloc(all->n + 1, sizeof(CUgraphNode));
	return all->node && (!all->n || !c->nodes(graph, all->node, &all->n));
}

static bool bare(const struct calls *c, CUgraph graph, bool covers, int depth)
{
	struct nodes all;
	CUgraph part;
	int type = -1;
	bool yes = all_nodes(c, graph, &all) && depth < DEPTH_MOST && all_can_go(c, &all);

	for (size_t i = 0; yes && i < all.n; i++) {
		yes = !c->type(all.node[i], &type);
		if (yes && type == FM_CU_NODE_GRAPH)
			yes = !c->part(all.node[i], &part) && bare(c, part, covers, depth + 1);
		else if (yes && type == FM_CU_NODE_WORDS && is_ours(c, all.node[i], covers))
			yes = take_out(c, graph, all.node[i]);
	}
	free(all.node);
	return yes;
}

bool fm_cuda_graph_bare(CUgraph graph, bool covers)
{
	struct calls c;
	bool yes;
	FM_NO_CANCEL;

	fm_cu_inside++;
	yes = find_calls(&c) && bare(&c, graph, covers, 0);
	fm_cu_inside--;
	return yes;
}

/* --- made anew --- */

typedef fm_cu_result get_fn(CUgraphNode node, void *what);
typedef fm_cu_result add_fn(
	CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t n, const void *what);
typedef fm_cu_result add_in_ctx_fn(CUgraphNode *node, CUgraph graph, const CUgraphNode *before,
	size_t n, const void *what, CUcontext ctx);

/* The driver does not tell the context of copies and fills, so there must be only one context.
 * Other kinds are not made anew. */
static const struct kind {
	const char *get, *add;
	bool in_ctx;
} kinds[] = {
	[FM_CU_NODE_KERNEL] = {"cuGraphKernelNodeGetParams_v2", "cuGraphAddKernelNode_v2", false},
	[FM_CU_NODE_COPY] = {"cuGraphMemcpyNodeGetParams", "cuGraphAddMemcpyNode", true},
	[FM_CU_NODE_FILL] = {"cuGraphMemsetNodeGetParams", "cuGraphAddMemsetNode", true},
	[FM_CU_NODE_HOST] = {"cuGraphHostNodeGetParams", "cuGraphAddHostNode", false},
	[FM_CU_NODE_GRAPH] = {"cuGraphChildGraphNodeGetGraph", "cuGraphAddChildGraphNode", false},
	[FM_CU_NODE_WORDS] = {"cuGraphBatchMemOpNodeGetParams", "cuGraphAddBatchMemOpNode", false},
};

/* Room for what the driver writes about a node of any kind: for a copy that is 200 bytes. */
union what {
	CUgraph part;
	uint64_t room[32];
};

/* A node of the graph, and its counterpart in the new graph. */
struct twin {
	CUgraphNode was, is;
};

static CUgraph anew(const struct calls *c, CUgraph graph, int depth);

static bool add(const struct kind *k, CUgraph to, const void *what, CUgraphNode *node)
{
	const struct fm_cu_driver *cu = fm_cuda_driver();
	void *fn = fm_cuda_symbol(k->add);
	CUcontext ctx;

	if (!fn || !cu)
		return false;
	if (!k->in_ctx)
		return !((add_fn *)fn)(node, to, NULL, 0, what);
	return !fm_cuda_several_contexts() && !cu->ctx_get_current(&ctx) && ctx &&
	       !((add_in_ctx_fn *)fn)(node, to, NULL, 0, what, ctx);
}

static bool add_part(const struct calls *c, const struct kind *k, CUgraph to, CUgraph part,
	CUgraphNode *node, int depth)
{
	CUgraph made = anew(c, part, depth + 1);
	bool yes = made && add(k, to, made, node);

	if (made)
		c->end(made);
	return yes;
}

static bool same_attributes(CUgraphNode node, CUgraphNode was)
{
	fm_cu_result (*copy)(CUgraphNode, CUgraphNode) = (fm_cu_result(*)(
		CUgraphNode, CUgraphNode))fm_cuda_symbol("cuGraphKernelNodeCopyAttributes");

	return copy && !copy(node, was);
}

static bool make_twin(const struct calls *c, CUgraph to, struct twin *t, int depth)
{
	union what what = {0};
	const struct kind *k;
	get_fn *get;
	int type;

	if (c->type(t->was, &type) || (size_t)type >= FM_ARRAY_LEN(kinds) || !kinds[type].get)
		return false;
	k = &kinds[type];
	get = (get_fn *)fm_cuda_symbol(k->get);
	if (!get || get(t->was, &what))
		return false;
	if (type == FM_CU_NODE_GRAPH)
		return add_part(c, k, to, what.part, &t->is, depth);
	return add(k, to, &what, &t->is) &&
	       (type != FM_CU_NODE_KERNEL || same_attributes(t->is, t->was));
}

static int by_name(const void *left, const void *right)
{
	uintptr_t a = (uintptr_t)((const struct twin *)left)->was;
	uintptr_t b = (uintptr_t)((const struct twin *)right)->was;

	return (a > b) - (a < b);
}

static CUgraphNode twin_of(const struct twin *sorted, size_t n, CUgraphNode node)
{
	const struct twin key = {.was = node};
	const struct twin *t = bsearch(&key, sorted, n, sizeof(*sorted), by_name);

	return t ? t->is : NULL;
}

static bool link_twin(
	const struct calls *c, CUgraph to, const struct twin *sorted, size_t n, CUgraphNode was)
{
	const CUgraphNode is = twin_of(sorted, n, was);
	struct nodes before;
	bool yes = neighbours(c->before, was, &before);

	for (size_t i = 0; yes && i < before.n; i++) {
		CUgraphNode from = twin_of(sorted, n, before.node[i]);

		yes = from && !c->add(to, &from, &is, 1);
	}
	free(before.node);
	return yes;
}

static bool fill(
	const struct calls *c, CUgraph to, const struct nodes *all, struct twin *twin, int depth)
{
	for (size_t i = 0; i < all->n; i++) {
		twin[i].was = all->node[i];
		if (!make_twin(c, to, &twin[i], depth))
			return false;
	}
	qsort(twin, all->n, sizeof(*twin), by_name);
	for (size_t i = 0; i < all->n; i++)
		if (!link_twin(c, to, twin, all->n, all->node[i]))
			return false;
	return true;
}

static CUgraph anew(const struct calls *c, CUgraph graph, int depth)
{
	CUgraph to = NULL;
	struct twin *twin;
	struct nodes all;

	if (!all_nodes(c, graph, &all) || depth >= DEPTH_MOST || c->create(&to, 0))
		to = NULL;
	twin = to ? calloc(all.n + 1, sizeof(*twin)) : NULL;
	if (to && (!twin || !fill(c, to, &all, twin, depth))) {
		c->end(to);
		to = NULL;
	}
	free(twin);
	free(all.node);
	return to;
}

CUgraph fm_cuda_graph_anew(CUgraph graph)
{
	struct calls c;
	CUgraph to;
	FM_NO_CANCEL;

	fm_cu_inside++;
	to = find_calls(&c) ? anew(&c, graph, 0) : NULL;
	fm_cu_inside--;
	return to;
}
