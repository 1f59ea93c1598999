/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What parking would give: best-effort kernels in persistent form, whose blocks take their numbers
 * from a counter and pause between two of them while the urgent model is stamped on their
 * multiprocessor, beside plain stream priorities and a plain split by green contexts.
 *
 * A row: the kind of urgent kernels (small: 7 to 104 blocks; wave: two blocks for each
 * multiprocessor, with 100 KB of shared memory; large: four, with 160 KB, which is more than the
 * device takes at once), the best-effort blocks' time, the way; the urgent model's P50 and P99, to
 * alone, and how much of its own pace the best-effort work kept. Closed loop. "lost" counts requests
 * that did not end in 200 ms: an urgent block that finds no room beside parked ones cannot stamp,
 * so these never leave.
 *
 * usage: park [MILLISECONDS of each row]
 * build: nvcc -O2 -std=c++17 -arch=sm_90 -o park park.cu -lcuda
 */
#include "../check.cuh"
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include <cuda_runtime.h>
#include <thread>
#include <time.h>
#include <unistd.h>
#include <vector>

#define THREADS 256
#define KERNELS 20
#define LATE_US 200000.0
#define WAVES 16 /* of a plain best-effort kernel, 8 blocks a multiprocessor each */

struct shared { /* of the device */
	unsigned next; /* the number of the next best-effort block */
	unsigned quit, epoch;
	unsigned long long done;
	unsigned stamp[1024]; /* by multiprocessor: the epoch of the last urgent block there */
	float sink;
};

__device__ static unsigned here()
{
	unsigned sm;

	asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
	return sm;
}

__device__ static void work(struct shared *s, unsigned seed, int n)
{
	float a = seed, b = a + 1;

#pragma unroll 4
	for (int i = 0; i < n; i++) {
		a = fmaf(a, 1.0001f, 0.5f);
		b = fmaf(b, 1.0001f, 0.5f);
	}
	if (a + b == 1.2345f)
		s->sink = a;
}

/* Each block stamps: without that, nobody leaves the multiprocessor that it came to. */
__global__ void __launch_bounds__(THREADS) urgent(struct shared *s, unsigned epoch, int n)
{
	if (epoch && !threadIdx.x) {
		*(volatile unsigned *)&s->epoch = epoch;
		*(volatile unsigned *)&s->stamp[here()] = epoch;
	}
	work(s, blockIdx.x, n);
}

__global__ void ends(struct shared *s)
{
	*(volatile unsigned *)&s->epoch = 0;
}

__global__ void __launch_bounds__(THREADS) plain(struct shared *s, int n)
{
	work(s, blockIdx.x, n);
	if (!threadIdx.x)
		atomicAdd(&s->done, 1ull);
}

__global__ void __launch_bounds__(THREADS) parks(struct shared *s, int n)
{
	__shared__ unsigned number;
	const unsigned sm = here();

	for (;;) {
		if (!threadIdx.x) {
			unsigned e;

			while (!*(volatile unsigned *)&s->quit &&
				(e = *(volatile unsigned *)&s->epoch) != 0 &&
				*(volatile unsigned *)&s->stamp[sm] == e)
				__nanosleep(300);
			number = *(volatile unsigned *)&s->quit ? ~0u : atomicAdd(&s->next, 1) & ~(1u << 31);
		}
		__syncthreads();
		if (number == ~0u)
			return;
		work(s, number, n);
		__syncthreads();
		if (!threadIdx.x)
			atomicAdd(&s->done, 1ull);
	}
}

static struct shared *s;
static int sms, low, high;
static cudaStream_t copies;

static double now_us()
{
	timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static cudaStream_t stream(int priority)
{
	cudaStream_t made;

	CHECK(cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, priority));
	return made;
}

/* Iterations that a block of so many microseconds has, where `blocks` of them share a multiprocessor. */
static int iterations(double us, int blocks)
{
	int n = 1000;

	for (int i = 0; i < 4; i++) {
		cudaEvent_t a, b;
		float ms;

		CHECK(cudaEventCreate(&a));
		CHECK(cudaEventCreate(&b));
		plain<<<sms * blocks, THREADS, 0, copies>>>(s, n);
		CHECK(cudaEventRecord(a, copies));
		for (int k = 0; k < 50; k++)
			plain<<<sms * blocks, THREADS, 0, copies>>>(s, n);
		CHECK(cudaEventRecord(b, copies));
		CHECK(cudaStreamSynchronize(copies));
		CHECK(cudaEventElapsedTime(&ms, a, b));
		n = std::max(20, (int)(n * us / (ms * 1000 / 50)));
	}
	return n;
}

/* --- a model: a graph of kernels --- */

struct urgent_kind {
	const char *name;
	size_t memory;
	unsigned per_sm; /* 0: of the shape of small kernels */
};

static const urgent_kind URGENT[] = {
	{"small", 0, 0}, {"wave", 100 << 10, 2}, {"large", 160 << 10, 4}};
static const unsigned SHAPE[KERNELS] = {
	104, 52, 52, 104, 26, 52, 26, 104, 13, 52, 26, 26, 7, 52, 13, 26, 7, 28, 13, 52};

enum way { ALONE, PRIORITIES, SPLIT, PARK };

struct row {
	way how;
	int cap; /* PARK: resident blocks a multiprocessor; SPLIT: multiprocessors of the best-effort work */
};

static const row ROWS[] = {
	{ALONE, 0}, {PRIORITIES, 0}, {SPLIT, 32}, {PARK, 1}, {PARK, 2}, {PARK, 4}};

static cudaGraphExec_t model(const urgent_kind &k, bool stamps, int n, cudaStream_t on)
{
	cudaGraph_t graph;
	cudaGraphExec_t exec;

	CHECK(cudaStreamBeginCapture(on, cudaStreamCaptureModeThreadLocal));
	for (unsigned i = 0; i < KERNELS; i++)
		urgent<<<k.per_sm ? k.per_sm * sms : SHAPE[i], THREADS, k.memory, on>>>(
			s, stamps ? i + 1 : 0, n);
	if (stamps)
		ends<<<1, 1, 0, on>>>(s);
	CHECK(cudaStreamEndCapture(on, &graph));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	CHECK(cudaGraphUpload(exec, on));
	CHECK(cudaGraphDestroy(graph));
	return exec;
}

struct green {
	CUgreenCtx part, rest;
	cudaStream_t low, high;
};

static green split(unsigned count)
{
	CUdevResource all, part, rest;
	CUdevResourceDesc what;
	unsigned groups = 1;
	CUdevice dev;
	CUstream a, b;
	green g;

	CHECK(cuDeviceGet(&dev, 0));
	CHECK(cuDeviceGetDevResource(dev, &all, CU_DEV_RESOURCE_TYPE_SM));
	CHECK(cuDevSmResourceSplitByCount(&part, &groups, &all, &rest, 0, count));
	CHECK(cuDevResourceGenerateDesc(&what, &part, 1));
	CHECK(cuGreenCtxCreate(&g.part, what, dev, CU_GREEN_CTX_DEFAULT_STREAM));
	CHECK(cuDevResourceGenerateDesc(&what, &rest, 1));
	CHECK(cuGreenCtxCreate(&g.rest, what, dev, CU_GREEN_CTX_DEFAULT_STREAM));
	CHECK(cuGreenCtxStreamCreate(&a, g.part, CU_STREAM_NON_BLOCKING, low));
	CHECK(cuGreenCtxStreamCreate(&b, g.rest, CU_STREAM_NON_BLOCKING, high));
	g.low = a;
	g.high = b;
	return g;
}

/* --- a row --- */

static unsigned long long done()
{
	unsigned long long n;

	CHECK(cudaMemcpyAsync(&n, &s->done, sizeof(n), cudaMemcpyDeviceToHost, copies));
	CHECK(cudaStreamSynchronize(copies));
	return n;
}

/* Never waits for work that was not begun: so much is under way at a time. */
static void feed(cudaStream_t on, int n, std::atomic<bool> *stop)
{
	cudaEvent_t ended[3];

	CHECK(cudaSetDevice(0));
	for (auto &e : ended)
		CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
	for (unsigned i = 0; !*stop; i++) {
		if (i >= 3)
			CHECK(cudaEventSynchronize(ended[i % 3]));
		plain<<<sms * 8 * WAVES, THREADS, 0, on>>>(s, n);
		CHECK(cudaEventRecord(ended[i % 3], on));
	}
	CHECK(cudaStreamSynchronize(on));
}

struct measured {
	double p50, p99, pace;
	size_t n, lost;
};

static void quit(unsigned value)
{
	CHECK(cudaMemcpyAsync(&s->quit, &value, sizeof(value), cudaMemcpyHostToDevice, copies));
	CHECK(cudaStreamSynchronize(copies));
}

/* False: it did not end in time, until the parked blocks were told to leave. */
static bool request(cudaGraphExec_t exec, cudaStream_t on, double *us)
{
	double begin = now_us();
	bool late = false;
	cudaError_t rc;

	CHECK(cudaGraphLaunch(exec, on));
	while ((rc = cudaStreamQuery(on)) == cudaErrorNotReady)
		if (!late && now_us() - begin > LATE_US) {
			late = true;
			quit(1);
		}
	CHECK(rc);
	*us = now_us() - begin;
	return !late;
}

static measured run(const urgent_kind *k, const row &r, int urgent_n, int be_n, double ms)
{
	green g = {};
	cudaStream_t u = stream(high), b = stream(low), own_u = u, own_b = b;
	std::atomic<bool> stop{false};
	cudaGraphExec_t exec = nullptr;
	std::vector<double> took;
	std::thread feeder;
	measured m = {};
	double begin, us;
	unsigned long long before;

	CHECK(cudaMemset(s, 0, sizeof(*s)));
	if (r.how == SPLIT) {
		g = split(r.cap);
		u = g.high;
		b = g.low;
	}
	if (k)
		exec = model(*k, r.how == PARK, urgent_n, u);
	CHECK(cudaDeviceSynchronize());
	if (r.how == PARK)
		parks<<<sms * r.cap, THREADS, 0, b>>>(s, be_n);
	else if (r.how != ALONE)
		feeder = std::thread(feed, b, be_n, &stop);
	usleep(20000);
	before = done();
	begin = now_us();
	while (now_us() - begin < ms * 1000 && !m.lost) {
		if (!exec)
			usleep(1000);
		else if (request(exec, u, &us))
			took.push_back(us);
		else
			m.lost++;
	}
	m.pace = (done() - before) / (now_us() - begin);
	stop = true;
	quit(1);
	if (feeder.joinable())
		feeder.join();
	CHECK(cudaDeviceSynchronize());
	if (exec)
		CHECK(cudaGraphExecDestroy(exec));
	if (r.how == SPLIT) {
		CHECK(cudaStreamDestroy(u));
		CHECK(cudaStreamDestroy(b));
		CHECK(cuGreenCtxDestroy(g.part));
		CHECK(cuGreenCtxDestroy(g.rest));
	}
	CHECK(cudaStreamDestroy(own_u));
	CHECK(cudaStreamDestroy(own_b));
	std::sort(took.begin(), took.end());
	m.n = took.size();
	if (m.n) {
		m.p50 = took[m.n / 2];
		m.p99 = took[std::min(m.n - 1, m.n * 99 / 100)];
	}
	return m;
}

static void show(const urgent_kind &k, double block, const row &r, const measured &m,
	const measured &alone, double pace)
{
	static const char *const NAMES[] = {"alone", "priorities", "split", "park"};
	char name[32];

	snprintf(name, sizeof(name), r.cap ? "%s %d" : "%s", NAMES[r.how], r.cap);
	printf("%-6s %5.0f  %-12s %8.1f %8.1f  %6.2f %6.2f  %6.3f  %6zu %4zu\n", k.name, block, name,
		m.p50, m.p99, m.p50 / alone.p50, m.p99 / alone.p99, m.pace / pace, m.n, m.lost);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	const double ms = argc > 1 ? atof(argv[1]) : 250;
	int n12;

	CHECK(cudaSetDevice(0));
	CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
	CHECK(cudaDeviceGetStreamPriorityRange(&low, &high));
	CHECK(cudaMalloc(&s, sizeof(*s)));
	CHECK(cudaMemset(s, 0, sizeof(*s)));
	CHECK(cudaFuncSetAttribute(urgent, cudaFuncAttributeMaxDynamicSharedMemorySize, 160 << 10));
	copies = stream(high);
	n12 = iterations(12, 1);
	printf("%-6s %5s  %-12s %8s %8s  %6s %6s  %6s  %6s %4s\n", "urgent", "block", "way", "P50 us",
		"P99 us", "to", "alone", "kept", "n", "lost");
	for (double block : {5.0, 20.0, 45.0}) {
		const int n = iterations(block, 8);
		const double pace = run(nullptr, {PRIORITIES, 0}, 0, n, ms).pace;

		for (const auto &k : URGENT) {
			measured alone = {};

			for (const auto &r : ROWS) {
				measured m = run(&k, r, n12, n, ms);

				if (r.how == ALONE)
					alone = m;
				show(k, block, r, m, alone, pace);
			}
		}
	}
	return 0;
}
