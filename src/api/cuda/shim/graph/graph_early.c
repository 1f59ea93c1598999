/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes, for a graph whose kernels are guarded, another one whose kernels may begin early where
 * their guardian waits for what is in front of them (early.c): in a graph the edge says that, not
 * the launch. The program's own graph stays as it is, and so does the executable graph that the
 * driver has made of it. If the nodes of that one change, it may have kernels that do not wait, and
 * it is launched itself from then on.
 */
#include "api/cuda/shim/managed/named.h"
#include "api/cuda/shim/shim.h"
#include "graph_read.h"
#include <stdlib.h>

/* From the driver's interface: an edge from a kernel whose blocks have all ended, or said that
 * others may begin. */
#define PORT_PROGRAMMATIC 1u
#define EDGE_PROGRAMMATIC 1u

#define BY_PRIORITY 8u /* a flag of an instantiation: each node has its own priority */

struct edge {
	uint8_t from_port, to_port, type, reserved[5];
};

/* X(name here, symbol, parameters) */
#define CALLS(X)                                                                                \
	X(clone, "cuGraphClone", (CUgraph * clone, CUgraph graph))                              \
	X(find, "cuGraphNodeFindInClone", (CUgraphNode * node, CUgraphNode was, CUgraph clone)) \
	X(remove, "cuGraphRemoveDependencies",                                                  \
		(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t n))      \
	X(add, "cuGraphAddDependencies_v2",                                                     \
		(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,                 \
			const struct edge *edge, size_t n))                                     \
	X(instantiate, "cuGraphInstantiateWithFlags",                                           \
		(CUgraphExec * exec, CUgraph graph, unsigned long long flags))

struct calls {
	CALLS(FM_CUDA_MEMBER)
};

static bool find_calls(struct calls *c)
{
	bool all = true;

	CALLS(FM_CUDA_FIND)
	return all;
}

/* In the clone: the nodes of the chain, then both ends of each edge that is to be another one. */
struct nodes {
	CUgraphNode *node, *from, *to;
	struct edge *edge;
	size_t edges;
};

static bool nodes_new(struct nodes *n, const struct fm_cuda_chain *c)
{
	n->node = calloc(c->n + c->seams, sizeof(*n->node));
	n->from = calloc(c->n, sizeof(*n->from));
	n->to = calloc(c->n, sizeof(*n->to));
	n->edge = calloc(c->n, sizeof(*n->edge));
	n->edges = 0;
	return n->node && n->from && n->to && n->edge;
}

static void nodes_free(struct nodes *n)
{
	free(n->node);
	free(n->from);
	free(n->to);
	free(n->edge);
}

static bool find_nodes(
	const struct calls *call, const struct fm_cuda_chain *c, CUgraph clone, struct nodes *n)
{
	for (unsigned i = 0; i < c->n; i++) {
		if (call->find(&n->node[i], c->link[i].node, clone))
			return false;
		if (!c->link[i].front)
			continue;
		if (call->find(&n->from[n->edges], c->link[i].front, clone))
			return false;
		n->to[n->edges] = n->node[i];
		n->edge[n->edges++] =
			(struct edge){.from_port = PORT_PROGRAMMATIC, .type = EDGE_PROGRAMMATIC};
	}
	for (unsigned i = 0; i < c->seams; i++)
		if (call->find(&n->node[c->n + i], c->seam[i].node, clone))
			return false;
	return true;
}

/* If a call fails, only that is known; its results are not. */
static bool make_clone(const struct calls *call, CUgraph graph, struct fm_cuda_early *e)
{
	bool yes = !call->clone(&e->clone, graph);

	if (!yes)
		e->clone = NULL;
	return yes;
}

static bool instantiate(const struct calls *call, uint64_t flags, struct fm_cuda_early *e)
{
	bool yes = !call->instantiate(&e->exec, e->clone, flags & BY_PRIORITY);

	if (!yes)
		e->exec = NULL;
	else if (fm_cuda_names())
		fm_cuda_named_exec(e->exec, e->clone);
	return yes;
}

static bool make(const struct calls *call, const struct fm_cuda_chain *c, uint64_t flags,
	struct nodes *n, struct fm_cuda_early *e)
{
	return nodes_new(n, c) && find_nodes(call, c, e->clone, n) &&
	       !call->remove(e->clone, n->from, n->to, n->edges) &&
	       !call->add(e->clone, n->from, n->to, n->edge, n->edges) &&
	       instantiate(call, flags, e);
}

bool fm_cuda_early_make(
	struct fm_cuda_chain *c, CUgraph graph, uint64_t flags, struct fm_cuda_early *e)
{
	struct calls call;
	struct nodes n = {0};
	bool made;

	*e = (struct fm_cuda_early){0};
	if (!c->early || !find_calls(&call))
		return false;
	fm_cu_inside++;
	made = make_clone(&call, graph, e) && make(&call, c, flags, &n, e);
	fm_cu_inside--;
	for (unsigned i = 0; made && i < c->n; i++)
		c->link[i].node = n.node[i];
	for (unsigned i = 0; made && i < c->seams; i++)
		c->seam[i].node = n.node[c->n + i];
	nodes_free(&n);
	if (!made)
		fm_cuda_early_made(e);
	return made;
}

static void call_of(const char *symbol, void *what)
{
	fm_cu_result (*call)(void *) = (fm_cu_result(*)(void *))fm_cuda_symbol(symbol);

	fm_cu_inside++;
	if (call && what)
		call(what);
	fm_cu_inside--;
}

void fm_cuda_early_made(struct fm_cuda_early *e)
{
	call_of("cuGraphDestroy", e->clone);
	e->clone = NULL;
}

void fm_cuda_early_end(struct fm_cuda_early *e)
{
	if (e->exec && fm_cuda_names())
		fm_cuda_named_exec_ends(e->exec);
	call_of("cuGraphExecDestroy", e->exec);
	e->exec = NULL;
}
