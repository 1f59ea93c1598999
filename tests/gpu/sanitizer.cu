// SPDX-License-Identifier: Apache-2.0
// What a tool that looks for leaks is to find: a buffer that is never freed, one of the device's and one of the host's; and
// nothing of what was done with them, in streams of each kind and in a graph. "reset": the device is reset in the end.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>

__global__ void step(float *a, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		a[i] = a[i] * 0.5f + i;
}

static void tried(cudaError_t e, const char *what)
{
	if (e == cudaSuccess)
		return;
	fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(e));
	exit(1);
}
#define TRY(call) tried(call, #call)

int main(int argc, char **argv)
{
	const int n = 1 << 14;
	float *a, *freed, *host, last = 0;
	cudaStream_t s;
	cudaGraph_t graph;
	cudaGraphExec_t exec;

	TRY(cudaMalloc(&a, n * sizeof(*a)));
	TRY(cudaMalloc(&freed, 4 * n * sizeof(*a)));
	TRY(cudaMallocHost(&host, 3 * n * sizeof(*a)));
	TRY(cudaStreamCreate(&s));
	TRY(cudaMemsetAsync(a, 0, n * sizeof(*a), s));
	for (int i = 0; i < 50; i++)
		step<<<n / 256, 256, 0, s>>>(a, n);
	step<<<n / 256, 256>>>(freed, n);
	TRY(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	for (int i = 0; i < 5; i++)
		step<<<n / 256, 256, 0, s>>>(a, n);
	TRY(cudaStreamEndCapture(s, &graph));
	TRY(cudaGraphInstantiate(&exec, graph, 0));
	for (int i = 0; i < 5; i++)
		TRY(cudaGraphLaunch(exec, s));
	TRY(cudaMemcpyAsync(&last, a + 100, sizeof(last), cudaMemcpyDeviceToHost, s));
	TRY(cudaStreamSynchronize(s));
	TRY(cudaGraphExecDestroy(exec));
	TRY(cudaGraphDestroy(graph));
	TRY(cudaFree(freed));
	if (argc > 1 && !strcmp(argv[1], "reset")) {
		TRY(cudaStreamDestroy(s));
		TRY(cudaDeviceReset());
	}
	printf("last %.3f\n", last);
	return 0;
}
