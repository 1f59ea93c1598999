/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the driver wants no gates in a graph that was captured with some: the device itself is to
 * launch it (only kernels, copies, fills and graphs of these may be in it then), it becomes a part
 * of what may be the body of a conditional node, or it is to update an executable graph that has
 * none. The nodes of ours are taken out again, of a clone where the program's own graph need not be
 * touched (graph.c): what was behind one is behind what was in front of it. The program's own nodes
 * stay what they are, by name, too.
 */
#include "backend/cuda/guard_graph.h"
#include "backend/cuda/reach.h"
#include "base/cancel.h"
#include "graph_read.h"
#include "shim.h"
#include <stdlib.h>

#define DEPTH_MOST 16 /* of graphs in graphs */

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
	X(destroy, "cuGraphDestroyNode", (CUgraphNode node))

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

/* To be freed, also after an error. */
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

/* The driver takes no edge twice. */
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

/* All its words are of the board, of which the program does not know where it is; a cover's are
 * one and the same. */
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

/* Of a graph that allocates or frees memory the driver lets no node be destroyed. */
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
