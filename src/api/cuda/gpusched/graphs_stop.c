// SPDX-License-Identifier: Apache-2.0
/* The part of gates.h for sets of graphs that stop inside their chunks. */
#include "api/cuda/core/types.h"
#include "gates_internal.h"
#include <stddef.h>
#include <stdlib.h>

#define BLOCK_BYTES (sizeof(struct fm_graphs_block) + FM_GRAPHS_BLOCKS / 8)

/* One for each task. Without them chunks are stopped at their ends. */
void fm_cu_graphs_make_blocks(struct fm_cu_gates *g)
{
	struct fm_cu_graphs *of = &g->graphs;
	size_t size = g->n * BLOCK_BYTES;

	if (!(g->kind & FM_CU_GATES_STOPS) || !g->cu->fill || !g->cu->graph_nodes ||
		!g->cu->graph_node_deps)
		return;
	if (g->cu->mem_alloc(&of->blocks, size))
		of->blocks = 0;
	if (!of->blocks || g->cu->fill(of->blocks, 0, size / 4, g->news))
		return;
	for (uint32_t i = 0; i < g->n; i++)
		of->guard[i].block = of->blocks + i * BLOCK_BYTES;
}

struct fm_cu_gates_guard *fm_cu_gates_guard(struct fm_cu_gates *g, uint32_t task)
{
	return g->graphs.guard[task].block ? &g->graphs.guard[task] : NULL;
}

CUdeviceptr fm_cu_gates_guard_stop(const struct fm_cu_gates_guard *guard)
{
	return guard->block + offsetof(struct fm_graphs_block, stop);
}

static int by_handle(const void *left, const void *right)
{
	uintptr_t a = (uintptr_t) * (CUgraphNode const *)left;
	uintptr_t b = (uintptr_t) * (CUgraphNode const *)right;

	return (a > b) - (a < b);
}

/* `before' has room for the n nodes, and they are there. The query fails if an edge says more than
 * "after". */
static bool is_chain(const struct fm_cu_driver *cu, const CUgraphNode *node, size_t n)
{
	CUgraphNode *before = calloc(n, sizeof(CUgraphNode));
	size_t edges = 0, found;
	bool is = before != NULL;
	int type;

	for (size_t i = 0; is && i < n; i++) {
		is = !cu->graph_node_type(node[i], &type) && type == FM_CU_NODE_KERNEL &&
		     !cu->graph_node_deps(node[i], NULL, &found) && found <= 1;
		if (is && found)
			is = !cu->graph_node_deps(node[i], &before[edges++], &found) && found == 1;
	}
	is = is && edges + 1 == n;
	if (is)
		qsort(before, edges, sizeof(*before), by_handle);
	for (size_t i = 1; is && i < edges; i++)
		is = before[i - 1] != before[i];
	free(before);
	return is;
}

/* Anything but kernels with the guardian, one behind the other, would run beside blocks that were
 * left out, or twice. The last node is the one that decides. */
bool fm_cu_graphs_stops(struct fm_cu_gates *g, uint32_t task, CUgraph graph)
{
	const struct fm_cu_gates_guard *guard = &g->graphs.guard[task];
	CUgraphNode *node;
	size_t n = 0;
	bool is;

	if (!guard->block || guard->whole || !guard->kernels ||
		g->cu->graph_nodes(graph, NULL, &n) || n != guard->kernels + 1)
		return false;
	node = calloc(n, sizeof(CUgraphNode));
	is = node && !g->cu->graph_nodes(graph, node, &n) && n == guard->kernels + 1 &&
	     is_chain(g->cu, node, n);
	free(node);
	return is;
}
