// SPDX-License-Identifier: Apache-2.0
/*
 * A program that lives long: it makes graphs that could be guarded, launches each once, and
 * destroys them, more of them than there may be at one time. Then it waits for a line.
 *
 * usage: own | thread    where they are launched: in a stream that goes before them, or in the
 * default stream of the thread
 */
#include "cuda_guard_graph.h"

#define STREAMS 100
#define GRAPHS  100

int main(int argc, char **argv)
{
	CUgraphExec exec[GRAPHS];
	CUdeviceptr x;
	struct conform c;
	struct guard g;
	CUgraph graph;
	CUstream s;
	bool own;

	if (argc != 2)
		die("usage: cuda_guard_many own|thread");
	own = !strcmp(argv[1], "own");
	load_dlsym(false);
	conform_open(&c);
	guard_open(&g);
	x = new_words(1);
	s = new_stream(CU_STREAM_NON_BLOCKING);
	begin(s);
	chain(&g, s, x, 1);
	chain(&g, s, x, 2);
	graph = end(s);
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
	puts("ready");
	fflush(stdout);
	getchar();
	CU(cuStreamDestroy_v2(s));
	return 0;
}
