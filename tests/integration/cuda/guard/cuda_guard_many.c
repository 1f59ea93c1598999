// SPDX-License-Identifier: Apache-2.0
/*
 * A program that lives long, and makes graphs that could be guarded.
 *
 * usage: own | thread    it launches each once, and destroys them, more of them than there may be
 * at one time: in a stream that goes before them, or in the default stream of the thread. Then it
 * waits for a line.
 *        full            as many as there may be, of which it destroys one that is under way in the
 * default stream of the thread; then three more, and waits for a line. It lets that one end, makes
 * three more, then room, and one that cannot be guarded; and waits again.
 *        reverse         a chain whose last node is made first, and one that cannot be guarded
 */
#include "cuda_guard_graph.h"

#define STREAMS 100
#define GRAPHS  100
#define MOST    8192 /* at one time */
#define CHAIN   1000 /* nodes */

static CUgraph nodes(struct guard *g, CUdeviceptr x, CUgraphNode *node, unsigned n)
{
	struct cu_kernel_node k = {
		.f = g->step, .grid = {1, 1, 1}, .block = {32, 1, 1}, .params = (void *[]){&x}};
	CUgraph graph;

	CU(cuGraphCreate(&graph, 0));
	while (n--)
		CU(cuGraphAddKernelNode_v2(&node[n], graph, NULL, 0, &k));
	return graph;
}

static CUgraph two_roots(struct guard *g, CUdeviceptr x)
{
	CUgraphNode node[2];

	return nodes(g, x, node, 2);
}

static CUgraph reverse(struct guard *g, CUdeviceptr x)
{
	CUgraphNode node[CHAIN];
	CUgraph graph = nodes(g, x, node, CHAIN);

	CU(cuGraphAddDependencies_v2(graph, &node[0], &node[1], NULL, CHAIN - 1));
	return graph;
}

static void wait_for_a_line(void)
{
	int c;

	puts("ready");
	fflush(stdout);
	do
		c = getchar();
	while (c != '\n' && c != EOF);
}

static void one_after_the_other(CUgraph graph, bool own)
{
	CUgraphExec exec[GRAPHS];

	for (unsigned i = 0; i < STREAMS; i++) {
		CUstream in = own ? new_stream(CU_STREAM_NON_BLOCKING) : FM_CU_STREAM_PER_THREAD;

		for (unsigned n = 0; n < GRAPHS; n++) {
			exec[n] = instantiate(graph);
			CU(cuGraphLaunch(exec[n], in));
		}
		CU(cuStreamSynchronize(in));
		if (own)
			CU(cuStreamDestroy_v2(in));
		for (unsigned n = 0; n < GRAPHS; n++)
			CU(cuGraphExecDestroy(exec[n]));
	}
	wait_for_a_line();
}

static void full(CUgraph graph, CUgraph branches)
{
	CUgraphExec first = instantiate(graph), last = NULL;
	CUdeviceptr at;
	volatile uint32_t *word = (volatile uint32_t *)mapped_words(&at);

	*word = 0;
	CU(cuGraphLaunch(first, FM_CU_STREAM_PER_THREAD));
	CU(cuStreamWaitValue32_v2(FM_CU_STREAM_PER_THREAD, at, 1, CU_WAIT_GEQ));
	CU(cuGraphLaunch(first, FM_CU_STREAM_PER_THREAD));
	CU(cuGraphExecDestroy(first));
	for (unsigned i = 1; i < MOST; i++)
		last = instantiate(graph);
	for (unsigned i = 0; i < 3; i++)
		instantiate(graph);
	wait_for_a_line();
	*word = 1;
	CU(cuStreamSynchronize(FM_CU_STREAM_PER_THREAD));
	for (unsigned i = 0; i < 3; i++)
		instantiate(graph);
	CU(cuGraphExecDestroy(last));
	instantiate(branches);
	wait_for_a_line();
}

static void made_in_reverse(CUgraph graph, CUgraph branches)
{
	instantiate(graph);
	instantiate(branches);
	wait_for_a_line();
}

int main(int argc, char **argv)
{
	CUgraph graph, branches;
	struct conform c;
	struct guard g;
	CUdeviceptr x;
	CUstream s;

	if (argc != 2)
		die("usage: cuda_guard_many own|thread|full|reverse");
	load_dlsym(false);
	conform_open(&c);
	guard_open(&g);
	x = new_words(1);
	s = new_stream(CU_STREAM_NON_BLOCKING);
	begin(s);
	chain(&g, s, x, 1);
	chain(&g, s, x, 2);
	graph = end(s);
	branches = two_roots(&g, x);
	if (!strcmp(argv[1], "full"))
		full(graph, branches);
	else if (!strcmp(argv[1], "reverse"))
		made_in_reverse(reverse(&g, x), branches);
	else
		one_after_the_other(graph, !strcmp(argv[1], "own"));
	CU(cuStreamDestroy_v2(s));
	return 0;
}
