/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels in graphs: captured or added by hand, and with other parameters later on. */
#include "cuda_guard.h"

/* chain, as a node; the parameters are the caller's. */
static struct cu_kernel_node chain_node(
	struct guard *g, CUdeviceptr *x, uint32_t *n, uint32_t *number, void *params[3])
{
	params[0] = x;
	params[1] = n;
	params[2] = number;
	return (struct cu_kernel_node){
		.f = g->chain, .grid = {16, 1, 1}, .block = {BLOCK, 1, 1}, .params = params};
}

static struct cu_kernel_node toil_node(
	struct guard *g, CUdeviceptr *x, uint64_t *ns, CUdeviceptr *gate, void *params[3])
{
	*ns = TOIL_NS;
	*gate = 0;
	params[0] = x;
	params[1] = ns;
	params[2] = gate;
	return (struct cu_kernel_node){
		.f = g->toil, .grid = {BLOCKS, 1, 1}, .block = {32, 1, 1}, .params = params};
}

static CUgraphNode add(CUgraph graph, CUgraphNode after, const struct cu_kernel_node *k)
{
	CUgraphNode node;

	CU(cuGraphAddKernelNode_v2(&node, graph, after ? &after : NULL, after != NULL, k));
	return node;
}

/* toil, then six times chain; the nodes of chain. */
static CUgraph by_hand(struct guard *g, CUdeviceptr x, uint32_t first, CUgraphNode chains[6])
{
	uint32_t n = WORDS / 2, number;
	CUgraphNode node = NULL;
	struct cu_kernel_node k;
	void *params[3];
	CUdeviceptr gate;
	CUgraph graph;
	uint64_t ns;

	CU(cuGraphCreate(&graph, 0));
	k = toil_node(g, &x, &ns, &gate, params);
	node = add(graph, node, &k);
	for (uint32_t i = 0; i < 6; i++) {
		number = first + i;
		k = chain_node(g, &x, &n, &number, params);
		chains[i] = node = add(graph, node, &k);
	}
	return graph;
}

static void replayed(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(1), y = new_words(1);
	CUgraph graph, captured;
	CUgraphExec exec[2];
	CUgraphNode nodes[6];
	struct guard g;

	guard_open(&g);
	graph = by_hand(&g, x, 0, nodes);
	CU(cuStreamBeginCapture_v2(s, CU_CAPTURE_GLOBAL));
	toil(&g, s, y);
	for (uint32_t i = 0; i < 6; i++)
		chain(&g, s, y, i);
	CU(cuStreamEndCapture(s, &captured));
	CU(cuGraphInstantiateWithFlags(&exec[0], graph, 0));
	CU(cuGraphInstantiateWithFlags(&exec[1], captured, 0));
	CU(cuGraphDestroy(graph));
	CU(cuGraphDestroy(captured));
	for (int i = 0; i < 20; i++) {
		CU(cuGraphLaunch(exec[0], s));
		CU(cuGraphLaunch(exec[1], s));
		toil(&g, s, i & 1 ? x : y);
	}
	note_words(c, "by hand", x, s);
	note_words(c, "captured", y, s);
	CU(cuGraphExecDestroy(exec[0]));
	CU(cuGraphExecDestroy(exec[1]));
	guard_close(&g);
	free_all((CUdeviceptr[]){x, y}, 2);
	CU(cuStreamDestroy_v2(s));
}

/* In each way there is to add a node, and to give it parameters. */
static void added(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(2);
	struct {
		CUdeviceptr x;
		uint32_t n, number;
	} bytes = {x, WORDS / 2, 2};
	size_t size = sizeof(bytes);
	void *params[3], *extra[] = {(void *)1, &bytes, (void *)2, &size, NULL};
	uint32_t n = WORDS / 2, number = 0;
	struct cu_node any = {0};
	struct cu_kernel_node k;
	CUgraphNode node[5];
	CUgraphExec exec;
	CUgraph graph;
	struct guard g;
	int type;

	guard_open(&g);
	CU(cuGraphCreate(&graph, 0));
	k = chain_node(&g, &x, &n, &number, params);
	CU(cuGraphAddKernelNode(&node[0], graph, NULL, 0, &k));
	number = 1;
	CU(cuGraphAddKernelNode_v2(&node[1], graph, &node[0], 1, &k));
	k.params = NULL;
	k.extra = extra;
	CU(cuGraphAddKernelNode_v2(&node[2], graph, &node[1], 1, &k));
	k.params = params;
	k.extra = NULL;
	number = 3;
	any.kernel = k;
	CU(cuGraphAddNode(&node[3], graph, &node[2], 1, &any));
	any.kernel.f = g.tick;
	any.kernel.params = NULL;
	CU(cuGraphAddNode_v2(&node[4], graph, &node[3], NULL, 1, &any));
	number = 77;
	for (int i = 0; i < 5; i++) {
		CU(cuGraphNodeGetType(node[i], &type));
		note(c, "type %d", type);
	}
	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CU(cuGraphDestroy(graph));
	for (int i = 0; i < 10; i++) {
		toil(&g, s, x);
		CU(cuGraphLaunch(exec, s));
	}
	note_words(c, "x", x, s);
	CU(cuGraphExecDestroy(exec));
	guard_close(&g);
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

/* What a node says of itself can be given to another. */
static void parameters_read(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(3);
	struct cu_kernel_node k = {0};
	CUgraphNode nodes[6], last;
	CUgraphExec exec;
	CUgraph graph;
	struct guard g;

	guard_open(&g);
	graph = by_hand(&g, x, 0, nodes);
	last = nodes[5];
	for (int i = 0; i < 6; i++) {
		CU(cuGraphKernelNodeGetParams_v2(nodes[i], &k));
		note(c, "%ux%u, the same function: %s, word %u", k.grid[0], k.block[0],
			k.f == g.chain ? "yes" : "no", *(uint32_t *)k.params[2]);
		last = add(graph, last, &k);
	}
	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (int i = 0; i < 10; i++)
		CU(cuGraphLaunch(exec, s));
	note_words(c, "x", x, s);
	CU(cuGraphExecDestroy(exec));
	CU(cuGraphDestroy(graph));
	guard_close(&g);
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

/* Of a graph, for what is made of it later; of what was made, for launches from then on. */
static void parameters_set(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(4);
	uint32_t n = WORDS / 2, number;
	struct cu_node any = {0};
	struct cu_kernel_node k;
	CUgraphNode nodes[6];
	CUgraphExec exec[2];
	void *params[3];
	CUgraph graph;
	struct guard g;

	guard_open(&g);
	graph = by_hand(&g, x, 0, nodes);
	CU(cuGraphInstantiateWithFlags(&exec[0], graph, 0));
	for (uint32_t i = 0; i < 6; i++) {
		number = 100 + i;
		k = chain_node(&g, &x, &n, &number, params);
		if (i & 1)
			CU(cuGraphKernelNodeSetParams(nodes[i], &k));
		else
			CU(cuGraphKernelNodeSetParams_v2(nodes[i], &k));
	}
	CU(cuGraphInstantiateWithFlags(&exec[1], graph, 0));
	for (uint32_t i = 0; i < 24; i++) {
		CU(cuGraphLaunch(exec[i & 1], s));
		number = 200 + i;
		k = chain_node(&g, &x, &n, &number, params);
		any.kernel = k;
		if (i % 3 == 0)
			CU(cuGraphExecKernelNodeSetParams(exec[0], nodes[i % 6], &k));
		else if (i % 3 == 1)
			CU(cuGraphExecKernelNodeSetParams_v2(exec[1], nodes[i % 6], &k));
		else
			CU(cuGraphExecNodeSetParams(exec[i & 1], nodes[i % 6], &any));
	}
	note_words(c, "x", x, s);
	any.kernel.params[2] = &(uint32_t){5};
	CU(cuGraphNodeSetParams(nodes[0], &any));
	CU(cuGraphKernelNodeGetParams_v2(nodes[0], &k));
	note(c, "word %u", *(uint32_t *)k.params[2]);
	CU(cuGraphExecDestroy(exec[0]));
	CU(cuGraphExecDestroy(exec[1]));
	CU(cuGraphDestroy(graph));
	guard_close(&g);
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

/* A copy of a graph, another graph's part, and what a graph takes over from one of its shape. */
static void graphs_of_graphs(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(5);
	CUgraph part, graph, clone, other;
	CUgraphNode nodes[6], node;
	struct cu_update result;
	CUgraphExec exec[2];
	struct guard g;

	guard_open(&g);
	part = by_hand(&g, x, 0, nodes);
	other = by_hand(&g, x, 50, nodes);
	CU(cuGraphClone(&clone, part));
	CU(cuGraphCreate(&graph, 0));
	CU(cuGraphAddChildGraphNode(&node, graph, NULL, 0, part));
	CU(cuGraphAddChildGraphNode(&node, graph, &node, 1, other));
	CU(cuGraphInstantiateWithFlags(&exec[0], clone, 0));
	CU(cuGraphInstantiateWithFlags(&exec[1], graph, 0));
	for (int i = 0; i < 12; i++) {
		CU(cuGraphLaunch(exec[i & 1], s));
		if (i == 6)
			CU(cuGraphExecUpdate_v2(exec[0], other, &result));
	}
	note_words(c, "x", x, s);
	CU(cuGraphExecDestroy(exec[0]));
	CU(cuGraphExecDestroy(exec[1]));
	CU(cuGraphDestroy(graph));
	CU(cuGraphDestroy(clone));
	CU(cuGraphDestroy(part));
	CU(cuGraphDestroy(other));
	guard_close(&g);
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

/* Cooperative launches, large parameters and kernels of a library, captured. */
static void captured(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(6), arrived = new_words(7);
	uint32_t n = WORDS / 2, rounds = 3, *words = malloc(1500 * sizeof(*words));
	void *params[] = {&x, &n, &rounds, &arrived};
	CUgraphExec exec;
	CUgraph graph;
	CUlibrary l;
	CUkernel k;
	struct guard g;

	guard_open(&g);
	CU(cuLibraryLoadData(&l, guard_fatbin, NULL, NULL, 0, NULL, NULL, 0));
	CU(cuLibraryGetKernel(&k, l, "step"));
	seed_words(words, 1500, 8);
	CU(cuStreamBeginCapture_v2(s, CU_CAPTURE_GLOBAL));
	toil(&g, s, x);
	CU(cuMemsetD32Async(arrived, 0, 1, s));
	CU(cuLaunchCooperativeKernel(g.meet, 8, 1, 1, BLOCK, 1, 1, 0, s, params));
	launch(g.beyond, 7, 64, s, (void *[]){words, &x});
	launch((CUfunction)(void *)k, BLOCKS, 32, s, (void *[]){&x});
	CU(cuStreamEndCapture(s, &graph));
	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CU(cuGraphDestroy(graph));
	free(words);
	for (int i = 0; i < 15; i++) {
		CU(cuGraphLaunch(exec, s));
		toil(&g, s, x);
	}
	note_words(c, "x", x, s);
	CU(cuGraphExecDestroy(exec));
	CU(cuLibraryUnload(l));
	guard_close(&g);
	free_all((CUdeviceptr[]){x, arrived}, 2);
	CU(cuStreamDestroy_v2(s));
}

int main(int argc, char **argv)
{
	static const struct conform_case cases[] = {
		{"replayed", replayed},
		{"added", added},
		{"parameters read", parameters_read},
		{"parameters set", parameters_set},
		{"graphs of graphs", graphs_of_graphs},
		{"captured", captured},
		{NULL, NULL},
	};

	return conform_main(argc, argv, cases);
}
