// SPDX-License-Identifier: Apache-2.0
// A program with CUDA's runtime linked in, as nvcc does it: kernels on the default stream and on others, copies, a graph that is
// captured. It prints a digest of what they leave. usage: cudart ROUNDS
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

static const int N = 1 << 16;

static void ok(cudaError_t rc)
{
	if (rc == cudaSuccess)
		return;
	std::fprintf(stderr, "%s\n", cudaGetErrorString(rc));
	std::exit(1);
}

__global__ void scramble(uint32_t *x, uint32_t number, int rounds)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	uint32_t v = x[i] ^ (number + i);

	for (int k = 0; k < rounds; k++)
		v = v * 1664525u + 1013904223u;
	x[i] = v;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? std::atoi(argv[1]) : 1;
	std::vector<uint32_t> host(N, 1);
	cudaGraphExec_t exec;
	cudaGraph_t graph;
	cudaStream_t s;
	uint64_t digest = 0;
	uint32_t *x;

	ok(cudaMalloc(&x, N * sizeof(*x)));
	ok(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	ok(cudaMemcpy(x, host.data(), N * sizeof(*x), cudaMemcpyHostToDevice));
	scramble<<<N / 256, 256>>>(x, 0, 1000);
	ok(cudaDeviceSynchronize());
	ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
	for (int i = 0; i < 50; i++)
		scramble<<<N / 256, 256, 0, s>>>(x, i, 5000);
	ok(cudaStreamEndCapture(s, &graph));
	ok(cudaGraphInstantiate(&exec, graph, 0));
	for (int r = 0; r < rounds; r++) {
		for (int i = 0; i < 50; i++)
			scramble<<<N / 256, 256, 0, s>>>(x, i + r, 5000);
		ok(cudaGraphLaunch(exec, s));
		ok(cudaMemcpyAsync(host.data(), x, N * sizeof(*x), cudaMemcpyDeviceToHost, s));
		ok(cudaStreamSynchronize(s));
		scramble<<<N / 256, 256>>>(x, r, 1000);
		ok(cudaGetLastError());
		ok(cudaDeviceSynchronize());
		for (uint32_t v : host)
			digest = (digest ^ v) * UINT64_C(0x100000001b3);
	}
	std::printf("%016llx\n", static_cast<unsigned long long>(digest));
	return 0;
}
