/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a graph consists of, as the driver tells. A chain of kernels is guarded, with gates of ours
 * between them. A node that is no kernel would run ahead of a kernel that has left out blocks, and
 * needs a cover in front of it. A kernel beside the chain would run ahead, too.
 */
#include "graph_read.h"
#include "api/cuda/core/guard/guard_graph.h"
#include "api/cuda/core/reach.h"
#include "api/cuda/shim/guard/guarded.h"
#include <pthread.h>
#include <stdlib.h>

#define NODES_MAX 16384u

/* X(name here, symbol, parameters) */
#define GRAPH_CALLS(X)                                                                            \
	X(nodes, "cuGraphGetNodes", (CUgraph graph, CUgraphNode * nodes, size_t * n))             \
	X(type, "cuGraphNodeGetType", (CUgraphNode node, int *type))                              \
	X(deps, "cuGraphNodeGetDependencies", (CUgraphNode node, CUgraphNode * deps, size_t * n)) \
	X(params, "cuGraphKernelNodeGetParams_v2",                                                \
		(CUgraphNode node, struct fm_cu_kernel_node * params))                            \
	X(attribute, "cuGraphKernelNodeGetAttribute",                                             \
		(CUgraphNode node, uint32_t id, void *value))                                     \
	X(words, "cuGraphBatchMemOpNodeGetParams",                                                \
		(CUgraphNode node, struct fm_cu_words_node * params))

static struct calls {
	GRAPH_CALLS(FM_CUDA_MEMBER)
	bool all;
} calls;

static void find_calls(void)
{
	struct calls *c = &calls;
	bool all = true;

	GRAPH_CALLS(FM_CUDA_FIND)
	c->all = all;
}

struct name {
	CUgraphNode node;
	size_t at;
};

/* Nodes, and their order. */
struct order {
	CUgraphNode *node;
	uint32_t *next; /* plus one; 0: none */
	size_t n, first;
	struct name *names; /* sorted by node, once a node was looked for in it */
};

static void order_free(struct order *o)
{
	free(o->node);
	free(o->next);
	free(o->names);
}

static const char *order_nodes(struct order *o, CUgraph graph)
{
	if (calls.nodes(graph, NULL, &o->n))
		return "not told of";
	if (!o->n)
		return "empty";
	if (o->n > NODES_MAX)
		return "large";
	o->node = calloc(o->n, sizeof(*o->node));
	o->next = calloc(o->n, sizeof(*o->next));
	if (!o->node || !o->next || calls.nodes(graph, o->node, &o->n))
		return "not told of";
	return NULL;
}

static int by_node(const void *left, const void *right)
{
	uintptr_t a = (uintptr_t)((const struct name *)left)->node;
	uintptr_t b = (uintptr_t)((const struct name *)right)->node;

	return (a > b) - (a < b);
}

static bool sort_names(struct order *o)
{
	o->names = calloc(o->n, sizeof(*o->names));
	if (!o->names)
		return false;
	for (size_t i = 0; i < o->n; i++)
		o->names[i] = (struct name){o->node[i], i};
	qsort(o->names, o->n, sizeof(*o->names), by_node);
	return true;
}

/* The index of a node, usually that of the one before. n: there is none, or no memory to find
 * it. */
static size_t index_of(struct order *o, CUgraphNode node, size_t before)
{
	const struct name key = {.node = node}, *name;

	if (before && o->node[before - 1] == node)
		return before - 1;
	if (!o->names && !sort_names(o))
		return o->n;
	name = bsearch(&key, o->names, o->n, sizeof(*name), by_node);
	return name ? name->at : o->n;
}

/* This query fails if an edge says more than "after". */
static const char *order_edges(struct order *o)
{
	unsigned roots = 0;

	for (size_t i = 0; i < o->n; i++) {
		CUgraphNode before;
		size_t n = 0, at;

		if (calls.deps(o->node[i], NULL, &n))
			return "edges";
		if (n > 1 || (!n && roots++))
			return "branches";
		if (!n) {
			o->first = i;
			continue;
		}
		if (calls.deps(o->node[i], &before, &n) || n != 1)
			return "edges";
		at = index_of(o, before, i);
		if (at == o->n || o->next[at])
			return "branches";
		o->next[at] = (uint32_t)i + 1;
	}
	return roots == 1 ? NULL : "branches";
}

/* All its words are in the board, whose address the program does not know. */
static bool is_gate(struct fm_cuda_chain *c, CUgraphNode node)
{
	struct fm_cu_words_node words = {0};
	void *waiting;

	if (calls.words(node, &words) || !words.n || !words.op)
		return false;
	for (unsigned i = 0; i < words.n; i++)
		if (!fm_cu_reach_host(words.op[i].op.address))
			return false;
	waiting = fm_cu_reach_host(words.op[0].op.address);
	if (!c->waiting)
		c->waiting = waiting;
	return true;
}

/* As it is captured: all three operations are about one word of the board (cuda.h). */
static bool is_seam(struct fm_cuda_chain *c, CUgraphNode node)
{
	struct fm_cuda_seam s = {.node = node};

	if (calls.words(node, &s.words) || s.words.n != FM_CU_COVER_OPS || !s.words.op)
		return false;
	for (unsigned i = 0; i < FM_CU_COVER_OPS; i++)
		if (s.words.op[i].op.address != s.words.op[0].op.address)
			return false;
	if (!fm_cu_reach_host(s.words.op[0].op.address))
		return false;
	if (c->open) {
		c->last[c->seams] = c->n;
		c->seam[c->seams++] = s;
	}
	c->open = false;
	return true;
}

static bool is_set(const struct fm_cu_attribute *a)
{
	uint64_t any = 0;

	for (size_t i = 0; i < FM_ARRAY_LEN(a->value); i++)
		any |= a->value[i];
	return any;
}

/* If a driver does not know an attribute, no node has it; one attribute is known to all drivers. */
static bool has(CUgraphNode node, uint32_t id, struct fm_cu_attribute *a)
{
	*a = (struct fm_cu_attribute){.id = id};
	return !calls.attribute(node, id, a->value) && is_set(a);
}

static bool read_attributes(struct fm_cuda_link *l)
{
	static const uint32_t kept[FM_CUDA_ATTRIBUTES] = {FM_CU_LAUNCH_WINDOW,
		FM_CU_LAUNCH_COOPERATIVE, FM_CU_LAUNCH_CLUSTER, FM_CU_LAUNCH_CLUSTER_POLICY,
		FM_CU_LAUNCH_PRIORITY, FM_CU_LAUNCH_DOMAIN_MAP, FM_CU_LAUNCH_DOMAIN,
		FM_CU_LAUNCH_PREFERRED_CLUSTER, FM_CU_LAUNCH_CARVEOUT};
	static const uint32_t refused[] = {FM_CU_LAUNCH_OVERLAPS, FM_CU_LAUNCH_EVENT,
		FM_CU_LAUNCH_BEGUN_EVENT, FM_CU_LAUNCH_UPDATABLE};
	struct fm_cu_attribute a = {0};

	if (calls.attribute(l->node, FM_CU_LAUNCH_COOPERATIVE, a.value))
		return false;
	for (size_t i = 0; i < FM_ARRAY_LEN(refused); i++)
		if (has(l->node, refused[i], &a))
			return false;
	for (size_t i = 0; i < FM_ARRAY_LEN(kept); i++)
		if (has(l->node, kept[i], &a))
			l->attribute[l->config.n_attributes++] = a;
	l->config.attributes = l->attribute;
	return true;
}

static const char *read_kernel(struct fm_cuda_chain *c, CUgraphNode node)
{
	struct fm_cuda_link *l = &c->link[c->n];
	const struct fm_cu_kernel_node_old *k = &l->params.old;
	CUfunction f;
	bool whole = false;

	l->node = node;
	if (calls.params(node, &l->params))
		return "not told of";
	f = k->function ? k->function : (CUfunction)l->params.kernel;
	l->kernel = f ? fm_cuda_kernel(f) : NULL;
	if (!l->kernel || l->kernel->left)
		return c->open ? "a kernel that is left as it is" : NULL;
	if (l->params.ctx && l->params.ctx != fm_cuda_current())
		return "another context";
	l->config = (struct fm_cu_launch_config){.grid = {k->grid[0], k->grid[1], k->grid[2]},
		.block = {k->block[0], k->block[1], k->block[2]},
		.shared = k->shared};
	if (!read_attributes(l) || !fm_cu_guard_repeats(&l->config, &whole))
		return "attributes";
	c->open = true;
	l->front = c->front && fm_cuda_may_be_early(l->kernel, &l->config) ? c->front : NULL;
	c->early |= l->front != NULL;
	c->launch[c->n++] = (struct fm_cu_guarded){.function = f,
		.config = &l->config,
		.bytes = fm_cuda_args_bytes(l->kernel->image),
		.whole = whole || l->kernel->mode == FM_GUARD_GRID};
	return NULL;
}

/* A node of which nothing is left out, and that takes nothing but what is in front of it. */
static bool is_other(int type)
{
	return type == FM_CU_NODE_COPY || type == FM_CU_NODE_FILL || type == FM_CU_NODE_HOST ||
	       type == FM_CU_NODE_WORDS;
}

static const char *read_node(struct fm_cuda_chain *c, CUgraphNode node)
{
	const char *why;
	int type = -1;
	unsigned n;

	if (calls.type(node, &type))
		return "not told of";
	if (type == FM_CU_NODE_KERNEL) {
		n = c->n;
		why = read_kernel(c, node);
		c->front = c->n > n ? node : NULL; /* for others it is not known where they run */
		return why;
	}
	c->front = NULL;
	if (type == FM_CU_NODE_EMPTY)
		return NULL;
	if (type == FM_CU_NODE_WORDS && (is_seam(c, node) || is_gate(c, node)))
		return NULL;
	if (!is_other(type))
		return "other nodes";
	c->waits[c->seams] |= type == FM_CU_NODE_HOST || type == FM_CU_NODE_WORDS;
	return c->open ? "not covered" : NULL;
}

static const char *read_nodes(struct fm_cuda_chain *c, const struct order *o)
{
	const char *why = NULL;
	size_t seen = 0;

	for (size_t i = o->first + 1; i && !why; i = o->next[i - 1], seen++)
		why = read_node(c, o->node[i - 1]);
	if (!why && seen != o->n)
		why = "branches";
	return why || c->n ? why : "no kernel";
}

const char *fm_cuda_chain_read(struct fm_cuda_chain *c, CUgraph graph)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct order o = {0};
	const char *why;

	*c = (struct fm_cuda_chain){0};
	pthread_once(&once, find_calls);
	if (!calls.all)
		return "an old driver";
	why = order_nodes(&o, graph);
	if (!why)
		why = order_edges(&o);
	if (!why) {
		c->link = calloc(o.n, sizeof(*c->link));
		c->launch = calloc(o.n, sizeof(*c->launch));
		c->seam = calloc(o.n, sizeof(*c->seam));
		c->last = calloc(o.n, sizeof(*c->last));
		c->waits = calloc(o.n + 1, sizeof(*c->waits));
		why = c->link && c->launch && c->seam && c->last && c->waits ? read_nodes(c, &o)
									     : "no memory";
	}
	order_free(&o);
	if (why)
		fm_cuda_chain_free(c);
	return why;
}

void fm_cuda_chain_free(struct fm_cuda_chain *c)
{
	free(c->link);
	free(c->launch);
	free(c->seam);
	free(c->last);
	free(c->waits);
	c->waits = NULL;
	c->seam = NULL;
	c->last = NULL;
	c->link = NULL;
	c->launch = NULL;
}
