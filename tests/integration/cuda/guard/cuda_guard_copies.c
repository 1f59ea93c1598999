// SPDX-License-Identifier: Apache-2.0
/* Graphs whose kernels are stopped between their blocks, and what stands between the kernels. */
#include "cuda_guard_graph.h"

/* What waits for kernels in front of it, in a graph as in a stream, and what they wait for. On a
 * stream in which nothing was launched before. */
static CUgraph mixed(struct conform *c, struct guard *g, CUdeviceptr x, CUdeviceptr y,
	struct witness *w, void *pinned)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUgraph graph;

	begin(s);
	CU(cuMemcpyDtoDAsync_v2(y, x, BYTES, s));
	for (uint32_t i = 0; i < 3; i++) {
		toil(g, s, x);
		step(g, s, x);
		CU(cuMemcpyDtoDAsync_v2(y, x, BYTES / 2, s));
		CU(cuMemsetD32Async(x + 4 * i, i, 40, s));
		toil(g, s, y);
		chain(g, s, y, i);
		CU(cuMemcpyDtoHAsync_v2(pinned, y, BYTES, s));
		CU(cuLaunchHostFunc(s, on_host, w));
		join(c, s, x, x, y);
		CU(cuStreamWriteValue32_v2(s, y + 4 * i, i, 0));
	}
	toil(g, s, x);
	graph = end(s);
	CU(cuStreamDestroy_v2(s));
	return graph;
}

static void copies(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(28), y = new_words(29);
	struct witness w = {0};
	CUgraphExec exec[2];
	CUgraph graph;
	struct guard g;
	void *pinned;

	guard_open(&g);
	CU(cuMemAllocHost_v2(&pinned, BYTES));
	memset(pinned, 0, BYTES);
	w.words = pinned;
	graph = mixed(c, &g, x, y, &w, pinned);
	exec[0] = instantiate(graph);
	exec[1] = instantiate(graph);
	CU(cuGraphDestroy(graph));
	for (int i = 0; i < 12; i++) {
		CU(cuGraphLaunch(exec[i % 3 == 2], s));
		if (i % 4 == 1)
			chain(&g, s, x, 1);
	}
	note_words(c, "x", x, s);
	note_words(c, "y", y, s);
	note(c, "%u calls saw %08x", w.calls, w.sum);
	CU(cuGraphExecDestroy(exec[0]));
	CU(cuGraphExecDestroy(exec[1]));
	CU(cuMemFreeHost(pinned));
	guard_close(&g);
	free_all((CUdeviceptr[]){x, y}, 2);
	CU(cuStreamDestroy_v2(s));
}

int main(int argc, char **argv)
{
	static const struct conform_case cases[] = {
		{"copies", copies},
		{NULL, NULL},
	};

	return conform_main(argc, argv, cases);
}
