// SPDX-License-Identifier: Apache-2.0
/* Graphs whose kernels are stopped between their blocks: what is launched again and again with the
 * same numbers, changed, copied, launched elsewhere and given back, while it is under way. */
#include "cuda_guard_graph.h"

/* So long, in us, until nobody asks after what is left of a stream, and a stop can come. */
#define LEFT_BEHIND 100000

/* One kernel behind the other, that all depend on all blocks of the one before. */
static CUgraph chains(struct guard *g, CUstream s, CUdeviceptr x, uint32_t n)
{
	begin(s);
	for (uint32_t i = 0; i < n; i++) {
		chain(g, s, x, i);
		if (i % 5 == 2)
			toil(g, s, x);
		if (i % 5 == 3)
			step(g, s, x);
	}
	return end(s);
}

static CUgraphExec chains_exec(struct guard *g, CUstream s, CUdeviceptr x, uint32_t n)
{
	CUgraph graph = chains(g, s, x, n);
	CUgraphExec exec = instantiate(graph);

	CU(cuGraphDestroy(graph));
	return exec;
}

static void replays(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(1);
	CUgraphExec exec;
	struct guard g;

	guard_open(&g);
	exec = chains_exec(&g, s, x, 20);
	for (int i = 0; i < 30; i++)
		CU(cuGraphLaunch(exec, s));
	note_words(c, "30 launches behind each other", x, s);
	CU(cuGraphExecDestroy(exec));
	guard_close(&g);
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

/* No gate of the graph's own is in its way. */
static void one_kernel(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(27);
	CUgraphExec exec;
	CUgraph graph;
	struct guard g;

	guard_open(&g);
	begin(s);
	toil(&g, s, x);
	graph = end(s);
	exec = instantiate(graph);
	CU(cuGraphDestroy(graph));
	for (int i = 0; i < 30; i++)
		CU(cuGraphLaunch(exec, s));
	note_words(c, "30 launches of one kernel", x, s);
	CU(cuGraphExecDestroy(exec));
	guard_close(&g);
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

/* More kernels than are launched again at a time. */
static void long_graph(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(2);
	CUgraphExec exec;
	struct guard g;

	guard_open(&g);
	exec = chains_exec(&g, s, x, 600);
	CU(cuGraphUpload(exec, s));
	for (int i = 0; i < 3; i++)
		CU(cuGraphLaunch(exec, s));
	note_words(c, "3 times 840 kernels", x, s);
	CU(cuGraphExecDestroy(exec));
	guard_close(&g);
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

static void meet(struct guard *g, CUstream s, CUdeviceptr x, CUdeviceptr arrived)
{
	uint32_t n = WORDS / 2, rounds = 5;
	void *params[] = {&x, &n, &rounds, &arrived};

	CU(cuLaunchCooperativeKernel(g->meet, 8, 1, 1, BLOCK, 1, 1, 0, s, params));
}

/* Kernels that stop as a whole or not at all: one in a graph, and two. */
static void all_or_nothing(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(3), arrived = new_words(4);
	CUgraphExec exec[2];
	CUgraph graph;
	struct guard g;

	guard_open(&g);
	for (unsigned n = 1; n <= 2; n++) {
		begin(s);
		for (unsigned i = 0; i < n; i++) {
			toil(&g, s, x);
			meet(&g, s, x, arrived + 4 * i);
			chain(&g, s, x, i);
		}
		graph = end(s);
		exec[n - 1] = instantiate(graph);
		CU(cuGraphDestroy(graph));
	}
	for (int i = 0; i < 30; i++) {
		CU(cuMemsetD32Async(arrived, 0, 2, s));
		CU(cuGraphLaunch(exec[i % 3 == 2], s));
	}
	note_words(c, "x", x, s);
	CU(cuGraphExecDestroy(exec[0]));
	CU(cuGraphExecDestroy(exec[1]));
	guard_close(&g);
	free_all((CUdeviceptr[]){x, arrived}, 2);
	CU(cuStreamDestroy_v2(s));
}

/* All kinds of work around launches of a graph. */
static void among_work(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(5), y = new_words(6), word = new_words(7);
	struct witness w = {0};
	CUgraphExec exec;
	struct guard g;
	void *pinned;

	guard_open(&g);
	CU(cuMemAllocHost_v2(&pinned, BYTES));
	w.words = pinned;
	exec = chains_exec(&g, s, x, 12);
	for (uint32_t i = 0; i < 12; i++) {
		toil(&g, s, x);
		CU(cuGraphLaunch(exec, s));
		chain(&g, s, x, i);
		CU(cuGraphLaunch(exec, s));
		CU(cuMemcpyDtoDAsync_v2(y, x, BYTES, s));
		CU(cuGraphLaunch(exec, s));
		CU(cuMemsetD32Async(x + 4 * i, i, 40, s));
		CU(cuGraphLaunch(exec, s));
		CU(cuMemcpyDtoHAsync_v2(pinned, x, BYTES, s));
		CU(cuLaunchHostFunc(s, on_host, &w));
		CU(cuGraphLaunch(exec, s));
		CU(cuStreamWriteValue32_v2(s, word, i, 0));
		CU(cuStreamWaitValue32_v2(s, word, i, CU_WAIT_EQ));
		mix(c, s, x, i);
	}
	note_words(c, "x", x, s);
	note_words(c, "y", y, s);
	note(c, "%u calls saw %08x", w.calls, w.sum);
	CU(cuGraphExecDestroy(exec));
	CU(cuMemFreeHost(pinned));
	guard_close(&g);
	free_all((CUdeviceptr[]){x, y, word}, 3);
	CU(cuStreamDestroy_v2(s));
}

/* A launch waits for the one before, in whatever stream that was; its streams come and go. */
static void many_streams(struct conform *c)
{
	CUstream s[3] = {new_stream(CU_STREAM_NON_BLOCKING), new_stream(0), FM_CU_STREAM_LEGACY};
	CUdeviceptr x = new_words(8), y = new_words(9);
	CUgraphExec exec, other;
	struct guard g;

	guard_open(&g);
	CU(cuCtxSynchronize());
	exec = chains_exec(&g, s[0], x, 10);
	other = chains_exec(&g, s[0], y, 10);
	for (int i = 0; i < 24; i++) {
		CU(cuGraphLaunch(exec, s[i % 3]));
		CU(cuGraphLaunch(other, FM_CU_STREAM_PER_THREAD));
	}
	for (int i = 0; i < 8; i++) {
		CUstream t = new_stream(CU_STREAM_NON_BLOCKING);

		CU(cuGraphLaunch(exec, t));
		CU(cuStreamDestroy_v2(t));
	}
	CU(cuGraphLaunch(exec, s[0]));
	note_words(c, "x", x, s[0]);
	note_words(c, "y", y, FM_CU_STREAM_PER_THREAD);
	CU(cuGraphExecDestroy(exec));
	CU(cuGraphExecDestroy(other));
	guard_close(&g);
	free_all((CUdeviceptr[]){x, y}, 2);
	CU(cuStreamDestroy_v2(s[0]));
	CU(cuStreamDestroy_v2(s[1]));
}

/* What its stream has left behind does not move, and comes to its end long after that is gone. */
static void stream_gone(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(28), at;
	_Atomic uint32_t *word = (void *)mapped_words(&at);
	CUgraphExec exec;
	struct guard g;

	guard_open(&g);
	CU(cuCtxSynchronize());
	exec = chains_exec(&g, s, x, 10);
	toil(&g, s, x);
	CU(cuGraphLaunch(exec, s)); /* a first launch may wait for all that is under way */
	CU(cuStreamSynchronize(s));
	for (uint32_t i = 1; i <= 2; i++) {
		CUstream t = new_stream(CU_STREAM_NON_BLOCKING);

		CU(cuStreamWaitValue32_v2(t, at, i, CU_WAIT_EQ));
		toil(&g, t, x);
		usleep(LEFT_BEHIND / 4); /* until it is known that it shares the device */
		CU(cuGraphLaunch(exec, t));
		CU(cuStreamDestroy_v2(t));
		usleep(LEFT_BEHIND);
		CU(cuGraphLaunch(exec, s));
		usleep(LEFT_BEHIND);
		atomic_store(word, i);
		CU(cuStreamSynchronize(s)); /* nothing orders toil of the next round behind this */
	}
	note_words(c, "x", x, s);
	CU(cuGraphExecDestroy(exec));
	guard_close(&g);
	CU(cuMemFreeHost((void *)word));
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

/* Two of one graph, and one of its copy; each runs beside the others, on memory of its own. */
static void several_of_one(struct conform *c)
{
	CUstream s[3];
	CUdeviceptr x = new_words(10), sum[3];
	CUgraphExec exec[3];
	CUgraph graph, clone;
	struct guard g;

	guard_open(&g);
	for (uint32_t i = 0; i < 3; i++) {
		s[i] = new_stream(CU_STREAM_NON_BLOCKING);
		sum[i] = new_words(11 + i);
	}
	CU(cuCtxSynchronize());
	graph = chains(&g, s[0], x, 8);
	CU(cuGraphClone(&clone, graph));
	exec[0] = instantiate(graph);
	exec[1] = instantiate(graph);
	exec[2] = instantiate(clone);
	CU(cuGraphDestroy(graph));
	CU(cuGraphDestroy(clone));
	for (int i = 0; i < 21; i++) {
		toil(&g, s[i % 3], sum[i % 3]);
		CU(cuGraphLaunch(exec[i % 3], s[i % 3]));
		join(c, s[i % 3], sum[i % 3], x, sum[i % 3]);
		order(s[i % 3], s[(i + 1) % 3]);
	}
	for (int i = 0; i < 3; i++)
		note_words(c, "sum", sum[i], s[0]);
	for (int i = 0; i < 3; i++)
		CU(cuGraphExecDestroy(exec[i]));
	guard_close(&g);
	free_all((CUdeviceptr[]){x, sum[0], sum[1], sum[2]}, 4);
	for (int i = 0; i < 3; i++)
		CU(cuStreamDestroy_v2(s[i]));
}

/* The nodes of a graph in the order in which they were captured, gates left out. */
static size_t kernels_of(CUgraph graph, CUgraphNode *nodes, size_t most)
{
	size_t n = 0, kernels = 0;
	CUgraphNode *all;

	CU(cuGraphGetNodes(graph, NULL, &n));
	all = calloc(n, sizeof(*all));
	CU(cuGraphGetNodes(graph, all, &n));
	for (size_t i = 0; i < n && kernels < most; i++) {
		int type;

		CU(cuGraphNodeGetType(all[i], &type));
		if (!type)
			nodes[kernels++] = all[i];
	}
	free(all);
	return kernels;
}

/* Parameters, kernels that are left out, and all of it at once, for launches from then on. */
static void changed(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(14);
	uint32_t n = WORDS / 2, number = 77;
	void *params[] = {&x, &n, &number};
	struct cu_kernel_node k;
	struct cu_update result;
	CUgraphNode nodes[8];
	CUgraph graph, other;
	CUgraphExec exec[3];
	struct guard g;

	guard_open(&g);
	graph = chains(&g, s, x, 6);
	other = chains(&g, s, x, 6);
	for (int i = 0; i < 3; i++)
		exec[i] = instantiate(graph);
	note(c, "%zu kernels", kernels_of(graph, nodes, 8));
	k = (struct cu_kernel_node){
		.f = g.chain, .grid = {16, 1, 1}, .block = {BLOCK, 1, 1}, .params = params};
	for (uint32_t i = 0; i < 36; i++) {
		CU(cuGraphLaunch(exec[i % 3], s));
		if (i == 3)
			CU(cuGraphExecKernelNodeSetParams_v2(exec[0], nodes[4], &k));
		if (i == 4)
			CU(cuGraphNodeSetEnabled(exec[1], nodes[3], 0));
		if (i == 22)
			CU(cuGraphNodeSetEnabled(exec[1], nodes[3], 1));
		if (i == 17)
			note(c, "updated: %d", cu.cuGraphExecUpdate_v2(exec[2], other, &result));
	}
	note_words(c, "x", x, s);
	for (int i = 0; i < 3; i++)
		CU(cuGraphExecDestroy(exec[i]));
	CU(cuGraphDestroy(graph));
	CU(cuGraphDestroy(other));
	guard_close(&g);
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

/* And launched in another stream then: launches of one graph wait for each other all the same. */
static void changed_elsewhere(struct conform *c)
{
	CUdeviceptr x = new_words(15);
	uint32_t n = WORDS / 2, number = 78;
	void *params[] = {&x, &n, &number};
	struct cu_kernel_node k;
	CUgraphNode nodes[8];
	CUgraphExec exec[8];
	CUstream s[2];
	CUgraph graph;
	struct guard g;

	guard_open(&g);
	for (int i = 0; i < 2; i++)
		s[i] = new_stream(CU_STREAM_NON_BLOCKING);
	graph = chains(&g, s[0], x, 6);
	note(c, "%zu kernels", kernels_of(graph, nodes, 8));
	k = (struct cu_kernel_node){
		.f = g.chain, .grid = {16, 1, 1}, .block = {BLOCK, 1, 1}, .params = params};
	for (int i = 0; i < 8; i++) {
		exec[i] = instantiate(graph);
		for (int j = 0; j < 3; j++)
			CU(cuGraphLaunch(exec[i], s[0]));
		CU(cuGraphExecKernelNodeSetParams_v2(exec[i], nodes[4], &k));
		CU(cuGraphLaunch(exec[i], s[1]));
		order(s[1], s[0]);
	}
	note_words(c, "x", x, s[0]);
	for (int i = 0; i < 8; i++)
		CU(cuGraphExecDestroy(exec[i]));
	CU(cuGraphDestroy(graph));
	guard_close(&g);
	CU(cuMemFree_v2(x));
	for (int i = 0; i < 2; i++)
		CU(cuStreamDestroy_v2(s[i]));
}

/* Right behind the launch. */
static void given_back(struct conform *c)
{
	CUdeviceptr sum = new_words(15);

	for (uint32_t i = 0; i < 8; i++) {
		CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
		CUdeviceptr x = new_words(16 + i);
		CUgraphExec exec;
		struct guard g;

		CU(cuCtxSynchronize());
		guard_open(&g);
		exec = chains_exec(&g, s, x, 10);
		CU(cuGraphLaunch(exec, s));
		if (i & 1)
			CU(cuGraphLaunch(exec, s));
		CU(cuGraphExecDestroy(exec));
		join(c, s, sum, x, sum);
		CU(cuMemFree_v2(x));
		exec = chains_exec(&g, s, sum, 4);
		CU(cuGraphLaunch(exec, s));
		CU(cuGraphExecDestroy(exec));
		CU(cuModuleUnload(g.module));
		CU(cuStreamDestroy_v2(s));
		CU(cuCtxSynchronize());
	}
	note_words(c, "sum", sum, NULL);
	CU(cuMemFree_v2(sum));
}

/* What is not a chain of kernels: copies and fills, host functions, words, branches. */
static void other_nodes(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING), t = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(24), y = new_words(25);
	struct witness w = {0};
	CUgraphExec exec[4];
	struct guard g;
	void *pinned;

	guard_open(&g);
	CU(cuMemAllocHost_v2(&pinned, BYTES));
	memset(pinned, 0, BYTES);
	w.words = pinned;
	for (int i = 0; i < 4; i++) {
		CUgraph graph;

		begin(s);
		toil(&g, s, x);
		if (i == 0)
			CU(cuMemcpyDtoDAsync_v2(y, x, BYTES, s));
		if (i == 1)
			CU(cuLaunchHostFunc(s, on_host, &w));
		if (i == 2)
			CU(cuStreamWriteValue32_v2(s, y, 5, 0));
		if (i == 3) {
			order(s, t);
			toil(&g, t, y);
		}
		toil(&g, s, x);
		if (i == 3)
			order(t, s);
		chain(&g, s, x, 1);
		graph = end(s);
		exec[i] = instantiate(graph);
		CU(cuGraphDestroy(graph));
	}
	for (int i = 0; i < 24; i++) {
		CU(cuGraphLaunch(exec[i % 4], s));
		toil(&g, s, x);
	}
	note_words(c, "x", x, s);
	note_words(c, "y", y, s);
	note(c, "%u calls", w.calls);
	for (int i = 0; i < 4; i++)
		CU(cuGraphExecDestroy(exec[i]));
	CU(cuMemFreeHost(pinned));
	guard_close(&g);
	free_all((CUdeviceptr[]){x, y}, 2);
	CU(cuStreamDestroy_v2(s));
	CU(cuStreamDestroy_v2(t));
}

/* A graph in a graph, as a node and, where the driver takes that, as a launch that is captured,
 * beside launches of its own. */
static void graphs_in_graphs(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(26);
	CUgraph child, graph;
	CUgraphExec inner, outer[2];
	CUgraphNode node;
	struct guard g;
	fm_cu_result launched, ended;

	guard_open(&g);
	child = chains(&g, s, x, 6);
	inner = instantiate(child);
	CU(cuGraphLaunch(inner, s));
	CU(cuGraphCreate(&graph, 0));
	CU(cuGraphAddChildGraphNode(&node, graph, NULL, 0, child));
	outer[0] = outer[1] = instantiate(graph);
	CU(cuGraphDestroy(graph));
	begin(s);
	chain(&g, s, x, 1);
	launched = cu.cuGraphLaunch(inner, s);
	if (!launched)
		toil(&g, s, x);
	graph = NULL;
	ended = cu.cuStreamEndCapture(s, &graph);
	note(c, "captured %d, ended %d", launched, ended);
	if (!launched && !ended) {
		outer[1] = instantiate(graph);
		CU(cuGraphDestroy(graph));
	}
	for (int i = 0; i < 18; i++)
		CU(cuGraphLaunch(i % 3 ? outer[i % 3 - 1] : inner, s));
	note_words(c, "x", x, s);
	CU(cuGraphExecDestroy(inner));
	CU(cuGraphExecDestroy(outer[0]));
	if (outer[1] != outer[0])
		CU(cuGraphExecDestroy(outer[1]));
	CU(cuGraphDestroy(child));
	guard_close(&g);
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

/* By queries alone: a graph is done when they say so. */
static void queries(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUevent e = new_event();
	CUgraphExec exec;
	struct guard g;
	CUdeviceptr d;
	CUgraph graph;
	_Atomic uint32_t *words;

	guard_open(&g);
	words = (void *)mapped_words(&d);
	begin(s);
	toil(&g, s, d);
	toil(&g, s, d);
	graph = end(s);
	exec = instantiate(graph);
	CU(cuGraphDestroy(graph));
	for (uint32_t i = 1; i <= 12; i++) {
		uint32_t done = 0;

		CU(cuGraphLaunch(exec, s));
		CU(cuEventRecord(e, s));
		while ((i & 1 ? cu.cuEventQuery(e) : cu.cuStreamQuery(s)) == FM_CU_ERROR_NOT_READY)
			usleep(100);
		for (uint32_t b = 0; b < BLOCKS; b++)
			done += atomic_load(&words[b]) == 2 * i;
		note(c, "%u blocks", done);
	}
	CU(cuGraphExecDestroy(exec));
	guard_close(&g);
	CU(cuMemFreeHost((void *)words));
	CU(cuEventDestroy_v2(e));
	CU(cuStreamDestroy_v2(s));
}

static void *thread_main(void *arg)
{
	struct thread *t = arg;
	CUstream s;

	CU(cuCtxSetCurrent(t->c->ctx));
	s = new_stream(CU_STREAM_NON_BLOCKING);
	for (uint32_t i = 0; i < 4; i++) {
		CUgraphExec exec = chains_exec(t->g, s, t->x, 6 + i);

		for (uint32_t k = 0; k < 4; k++) {
			CU(cuGraphLaunch(exec, s));
			toil(t->g, s, t->x);
		}
		CU(cuGraphExecDestroy(exec));
	}
	CU(cuStreamSynchronize(s));
	CU(cuStreamDestroy_v2(s));
	return NULL;
}

/* Each with graphs of its own, captured while others launch. */
static void threads(struct conform *c)
{
	in_threads(c, 3, thread_main);
}

int main(int argc, char **argv)
{
	static const struct conform_case cases[] = {
		{"replays", replays},
		{"one kernel", one_kernel},
		{"long graph", long_graph},
		{"all or nothing", all_or_nothing},
		{"among work", among_work},
		{"many streams", many_streams},
		{"stream gone", stream_gone},
		{"several of one", several_of_one},
		{"changed", changed},
		{"changed elsewhere", changed_elsewhere},
		{"given back", given_back},
		{"other nodes", other_nodes},
		{"graphs in graphs", graphs_in_graphs},
		{"queries", queries},
		{"threads", threads},
		{NULL, NULL},
	};

	return conform_main(argc, argv, cases);
}
