// SPDX-License-Identifier: Apache-2.0
// A program with CUDA's runtime linked in, as nvcc does it: kernels on the default stream and on others, copies, a graph that is
// captured. It prints a digest of what they leave. usage: cudart ROUNDS
#include "scramble.cuh"

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? std::atoi(argv[1]) : 1;
	cudaGraphExec_t exec;
	Words w;

	w.scrambled(0, 1000, 0);
	ok(cudaDeviceSynchronize());
	w.begin_capture();
	for (int i = 0; i < 50; i++)
		w.scrambled(i, 5000, w.s);
	exec = w.captured(0);
	for (int r = 0; r < rounds; r++) {
		for (int i = 0; i < 50; i++)
			w.scrambled(i + r, 5000, w.s);
		ok(cudaGraphLaunch(exec, w.s));
		w.note();
		w.scrambled(r, 1000, 0);
		ok(cudaDeviceSynchronize());
	}
	w.print();
	return 0;
}
