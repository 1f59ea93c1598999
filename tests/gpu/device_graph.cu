// SPDX-License-Identifier: Apache-2.0
// A graph that the device itself launches, again and again, from a kernel of another graph. It prints a digest of what is left.
// usage: device_graph ROUNDS
#include "scramble.cuh"

__global__ void launch(cudaGraphExec_t graph)
{
	cudaGraphLaunch(graph, cudaStreamGraphFireAndForget);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? std::atoi(argv[1]) : 1;
	cudaGraphExec_t inner, outer;
	Words w;

	for (int i = 0; i < 20; i++) { // how long it takes can be known when it is captured
		w.scrambled(i, 20000, w.s);
		ok(cudaStreamSynchronize(w.s));
	}
	w.begin_capture();
	for (int i = 0; i < 50; i++)
		w.scrambled(i, 20000, w.s);
	inner = w.captured(cudaGraphInstantiateFlagDeviceLaunch);
	ok(cudaGraphUpload(inner, w.s));
	w.begin_capture();
	w.scrambled(99, 20000, w.s);
	launch<<<1, 1, 0, w.s>>>(inner);
	outer = w.captured(0);
	for (int r = 0; r < rounds; r++) {
		ok(cudaGraphLaunch(outer, w.s));
		w.note();
	}
	w.print();
	return 0;
}
