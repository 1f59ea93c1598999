// SPDX-License-Identifier: Apache-2.0
// What programs of CUDA's runtime have in common here: words that kernels scramble, in whose order alone the same is left.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

static const int N = 1 << 16;

static inline void ok(cudaError_t rc)
{
	if (rc == cudaSuccess)
		return;
	std::fprintf(stderr, "%s\n", cudaGetErrorString(rc));
	std::exit(1);
}

static __global__ void scramble(uint32_t *x, uint32_t number, int rounds)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	uint32_t v = x[i] ^ (number + i);

	for (int k = 0; k < rounds; k++)
		v = v * 1664525u + 1013904223u;
	x[i] = v;
}

struct Words {
	std::vector<uint32_t> host = std::vector<uint32_t>(N, 1);
	uint64_t digest = 0;
	cudaStream_t s;
	uint32_t *x;

	Words()
	{
		ok(cudaMalloc(&x, N * sizeof(*x)));
		ok(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
		ok(cudaMemcpy(x, host.data(), N * sizeof(*x), cudaMemcpyHostToDevice));
	}
	void scrambled(uint32_t number, int rounds, cudaStream_t stream)
	{
		scramble<<<N / 256, 256, 0, stream>>>(x, number, rounds);
		ok(cudaGetLastError());
	}
	void begin_capture()
	{
		ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
	}
	cudaGraphExec_t captured(unsigned flags)
	{
		cudaGraphExec_t exec;
		cudaGraph_t graph;

		ok(cudaStreamEndCapture(s, &graph));
		ok(cudaGraphInstantiate(&exec, graph, flags));
		ok(cudaGraphDestroy(graph));
		return exec;
	}
	void note()
	{
		ok(cudaMemcpyAsync(host.data(), x, N * sizeof(*x), cudaMemcpyDeviceToHost, s));
		ok(cudaStreamSynchronize(s));
		for (uint32_t v : host)
			digest = (digest ^ v) * UINT64_C(0x100000001b3);
	}
	void print() const
	{
		std::printf("%016llx\n", static_cast<unsigned long long>(digest));
	}
};
