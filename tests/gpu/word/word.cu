/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How soon a word that the host sends reaches the blocks of a kernel that fills the device, by the
 * way in which that kernel was launched, and by what sends the word. The engine "graphs" sends it
 * by a kernel in a stream of the highest priority (docs/gpu-sched.md, stops inside kernels), and
 * kernels that were stopped so began to leave out blocks only when all of them had begun.
 *
 * A row: how the kernel was launched (by the host into a stream; in a graph by the host; in a graph
 * that a device can launch, by the host; in one that a kernel launches beside or behind itself),
 * its blocks' time, and what sends the word (a kernel of one warp; a write of the stream's front
 * end; a copy of four bytes), the sender's priority; P50 and P99 in us from the host's call to the
 * first block that saw the word, and P50 to the kernel's end; a time without a word last.
 *
 * usage: word [TIMES of each row]
 * build: nvcc -O2 -std=c++17 -arch=sm_90 -rdc=true -o word word.cu -lcudadevrt -lcuda
 */
#include "../check.cuh"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cuda.h>
#include <cuda_runtime.h>
#include <functional>
#include <time.h>
#include <unistd.h>
#include <vector>

#define THREADS 1024
#define WAVES   40 /* two blocks a multiprocessor each */

struct told { /* in memory of the host */
	volatile unsigned begun, seen, ended;
};

__global__ void __launch_bounds__(THREADS)
	fill(unsigned *stop, unsigned *left, struct told *told, unsigned ns)
{
	unsigned long long begin, now;
	unsigned stops;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
	asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(stops) : "l"(stop) : "memory");
	if (!threadIdx.x && !blockIdx.x)
		told->begun = 1;
	if (stops) {
		if (!threadIdx.x)
			told->seen = 1;
	} else {
		do
			asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
		while (now - begin < ns);
	}
	if (!threadIdx.x && atomicAdd(left, -1u) == 1)
		told->ended = 1;
}

__global__ void say(unsigned *stop)
{
	if (!threadIdx.x)
		atomicExch(stop, 1u);
}

__global__ void launch(cudaGraphExec_t graph, bool behind, unsigned *error)
{
	cudaError_t rc = cudaGraphLaunch(
		graph, behind ? cudaStreamGraphTailLaunch : cudaStreamGraphFireAndForget);

	if (rc)
		*error = rc;
}

static double now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static void await(volatile unsigned *word, const char *what)
{
	double from = now_us();

	while (!*word)
		if (now_us() - from > 5e6) {
			fprintf(stderr, "never: %s\n", what);
			_exit(1);
		}
}

static cudaGraphExec_t graph_of(cudaStream_t stream, unsigned flags, std::function<void()> put)
{
	cudaGraph_t graph;
	cudaGraphExec_t exec;

	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
	put();
	CHECK(cudaStreamEndCapture(stream, &graph));
	CHECK(cudaGraphInstantiate(&exec, graph, flags));
	if (flags) {
		CHECK(cudaGraphUpload(exec, stream));
		CHECK(cudaStreamSynchronize(stream));
	}
	return exec;
}

static double percentile(std::vector<double> v, unsigned p)
{
	std::sort(v.begin(), v.end());
	return v[v.size() * p / 100];
}

int main(int argc, char **argv)
{
	static const char *const ways[] = {"by the host", "in a graph, by the host",
		"in a device graph, by the host", "beside a kernel of the device's",
		"behind a kernel of the device's"};
	static const char *const senders[] = {
		"a kernel", "a kernel, least", "a write of the stream", "a copy", "nothing"};
	unsigned times = argc > 1 ? (unsigned)atoi(argv[1]) : 40, *words, *stop, *left, *error,
		 blocks;
	int multiprocessors, least, greatest;
	cudaStream_t chain, first, last;
	struct told *told;
	unsigned *one;

	CHECK(cudaSetDevice(0));
	CHECK(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
	CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
	CHECK(cudaStreamCreateWithPriority(&chain, cudaStreamNonBlocking, least));
	CHECK(cudaStreamCreateWithPriority(&first, cudaStreamNonBlocking, greatest));
	CHECK(cudaStreamCreateWithPriority(&last, cudaStreamNonBlocking, least));
	CHECK(cudaMalloc(&words, 4096));
	CHECK(cudaMemset(words, 0, 4096));
	CHECK(cudaMallocHost(&told, sizeof(*told)));
	CHECK(cudaMallocHost(&one, 4));
	*one = 1;
	stop = words;
	left = words + 64;
	error = words + 128;
	blocks = 2u * (unsigned)multiprocessors * WAVES;
	printf("%-34s %6s  %-22s %9s %9s %9s\n", "the kernel was launched", "us", "the word by",
		"P50", "P99", "end P50");
	for (unsigned us : {20u, 100u}) {
		unsigned ns = us * 1000;
		auto put = [&] { fill<<<blocks, THREADS, 0, chain>>>(stop, left, told, ns); };
		cudaGraphExec_t plain = graph_of(chain, 0, put);
		cudaGraphExec_t of_device =
			graph_of(chain, cudaGraphInstantiateFlagDeviceLaunch, put);
		cudaGraphExec_t begin[2];

		for (int behind = 0; behind < 2; behind++)
			begin[behind] = graph_of(chain, cudaGraphInstantiateFlagDeviceLaunch,
				[&] { launch<<<1, 1, 0, chain>>>(of_device, behind, error); });
		for (int way = 0; way < 5; way++)
			for (int sender = 0; sender < 5; sender++) {
				std::vector<double> seen, ended;

				for (unsigned i = 0; i <= times; i++) {
					double from;

					CHECK(cudaMemsetAsync(stop, 0, 4, chain));
					CHECK(cuMemsetD32Async(
						(CUdeviceptr)left, blocks, 1, chain));
					CHECK(cudaStreamSynchronize(chain));
					told->begun = told->seen = told->ended = 0;
					if (way == 0)
						put();
					else
						CHECK(cudaGraphLaunch(way == 1   ? plain
								      : way == 2 ? of_device
										 : begin[way - 3],
							chain));
					await(&told->begun, "the begin");
					from = now_us();
					while (now_us() - from < 2.5 * us)
						;
					from = now_us();
					if (sender < 2)
						say<<<1, 32, 0, sender ? last : first>>>(stop);
					else if (sender == 2)
						CHECK(cuStreamWriteValue32(
							first, (CUdeviceptr)stop, 1, 0));
					else if (sender == 3)
						CHECK(cudaMemcpyAsync(stop, one, 4,
							cudaMemcpyHostToDevice, first));
					if (sender < 4) {
						/* If the word comes too late, no block is left to
						 * see it. */
						while (!told->seen && !told->ended)
							;
						if (i)
							seen.push_back(now_us() - from);
					}
					await(&told->ended, "the end");
					if (i)
						ended.push_back(now_us() - from);
					CHECK(cudaDeviceSynchronize());
				}
				if (seen.empty())
					seen.push_back(0);
				printf("%-34s %6u  %-22s %9.1f %9.1f %9.1f\n", ways[way], us,
					senders[sender], percentile(seen, 50), percentile(seen, 99),
					percentile(ended, 50));
				fflush(stdout);
			}
	}
	CHECK(cudaMemcpy(one, error, 4, cudaMemcpyDeviceToHost));
	if (*one)
		printf("a graph was not launched from the device: %u\n", *one);
	return *one != 0;
}
