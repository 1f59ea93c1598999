/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA program that needs no toolkit, for script/lib/cuda_bench:
 *   bench_cuda launch                     what launches, waits and streams cost; one line of JSON
 *   bench_cuda serve N KERNEL_US PERIOD_US   a request of N kernels each period
 *   bench_cuda batch KERNEL_US BLOCKS        as many kernels as the device takes, 200 queued
 * serve and batch say "ready", wait for "go BEGIN END" (CLOCK_MONOTONIC, ns), and answer in JSON.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct CUstream_st *stream;
typedef struct CUevent_st *event;

#define DRIVER(X)                                                                              \
	X(cuInit, (unsigned))                                                                  \
	X(cuDeviceGet, (int *, int))                                                           \
	X(cuDevicePrimaryCtxRetain, (void **, int))                                            \
	X(cuCtxSetCurrent, (void *))                                                           \
	X(cuModuleLoadData, (void **, const void *))                                           \
	X(cuModuleGetFunction, (void **, void *, const char *))                                \
	X(cuMemAlloc_v2, (unsigned long long *, size_t))                                       \
	X(cuStreamCreate, (stream *, unsigned))                                                \
	X(cuStreamSynchronize, (stream))                                                       \
	X(cuStreamWaitEvent, (stream, event, unsigned))                                        \
	X(cuEventCreate, (event *, unsigned))                                                  \
	X(cuEventRecord, (event, stream))                                                      \
	X(cuEventSynchronize, (event))                                                         \
	X(cuLaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, \
				  unsigned, stream, void **, void **))

static struct {
#define MEMBER(name, params) int(*name) params;
	DRIVER(MEMBER)
} cu;

/* spin: every thread, for so many ns. fill: nothing. The parameters are those of the kernels of the
 * tests, so that this runs on their driver, too. */
static const char ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry spin(.param .u64 out, .param .u64 ns)\n{\n"
	"	.reg .u64 %rd<4>;\n	.reg .pred %p;\n"
	"	ld.param.u64 %rd0, [ns];\n"
	"	mov.u64 %rd1, %globaltimer;\n"
	"	add.u64 %rd1, %rd1, %rd0;\n"
	"again:\n"
	"	mov.u64 %rd2, %globaltimer;\n"
	"	setp.lt.u64 %p, %rd2, %rd1;\n"
	"	@%p bra again;\n	ret;\n}\n"
	".visible .entry fill(.param .u64 x, .param .u32 n, .param .u32 v)\n{\n	ret;\n}\n";

static void *kernel_spin, *kernel_empty;
static unsigned long long scratch; /* of the device */

static _Noreturn void die(const char *what, int rc)
{
	fprintf(stderr, "bench_cuda: %s: %d\n", what, rc);
	exit(1);
}

#define CU(call)                         \
	do {                             \
		int rc_ = cu.call;       \
		if (rc_)                 \
			die(#call, rc_); \
	} while (0)

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void open_device(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW), *ctx, *module;
	int dev;

	if (!lib)
		die(dlerror(), 0);
#define FIND(name, params)                      \
	*(void **)&cu.name = dlsym(lib, #name); \
	if (!cu.name)                           \
		die("the driver lacks " #name, 0);
	DRIVER(FIND)
	CU(cuInit(0));
	CU(cuDeviceGet(&dev, 0));
	CU(cuDevicePrimaryCtxRetain(&ctx, dev));
	CU(cuCtxSetCurrent(ctx));
	CU(cuModuleLoadData(&module, ptx));
	CU(cuMemAlloc_v2(&scratch, 64));
	CU(cuModuleGetFunction(&kernel_spin, module, "spin"));
	CU(cuModuleGetFunction(&kernel_empty, module, "fill"));
}

static void spin(stream s, uint64_t ns, unsigned blocks)
{
	void *params[] = {&scratch, &ns};

	CU(cuLaunchKernel(kernel_spin, blocks, 1, 1, 64, 1, 1, 0, s, params, NULL));
}

static void empty(stream s)
{
	unsigned none = 0;
	void *params[] = {&scratch, &none, &none};

	CU(cuLaunchKernel(kernel_empty, 1, 1, 1, 1, 1, 1, 0, s, params, NULL));
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double part(double *v, int n, double p)
{
	qsort(v, (size_t)n, sizeof(*v), by_value);
	return n ? v[(int)(p * (n - 1) + 0.5)] : 0;
}

static stream new_stream(void)
{
	stream s;

	CU(cuStreamCreate(&s, 1)); /* non-blocking */
	return s;
}

/* The call alone: bursts that the driver's queue takes at once; the median of their means. */
static double launch_ns(stream s)
{
	enum { ROUNDS = 40, BURST = 200 };
	double v[ROUNDS];

	for (int r = 0; r < ROUNDS; r++) {
		uint64_t start = now_ns();

		for (int i = 0; i < BURST; i++)
			empty(s);
		v[r] = (double)(now_ns() - start) / BURST;
		CU(cuStreamSynchronize(s));
	}
	return part(v, ROUNDS, 0.5);
}

static void sync_us(stream s, double *p50, double *p99)
{
	enum { N = 4000 };
	static double v[N];

	for (int i = 0; i < N; i++) {
		uint64_t start = now_ns();

		empty(s);
		CU(cuStreamSynchronize(s));
		v[i] = (double)(now_ns() - start) / 1e3;
	}
	*p50 = part(v, N, 0.5);
	*p99 = part(v, N, 0.99);
}

static double ping_pong_us(stream a, stream b)
{
	enum { ROUNDS = 2000 };
	event ea, eb;
	uint64_t start;

	CU(cuEventCreate(&ea, 2));
	CU(cuEventCreate(&eb, 2));
	CU(cuStreamSynchronize(a));
	start = now_ns();
	for (int i = 0; i < ROUNDS; i++) {
		empty(a);
		CU(cuEventRecord(ea, a));
		CU(cuStreamWaitEvent(b, ea, 0));
		empty(b);
		CU(cuEventRecord(eb, b));
		CU(cuStreamWaitEvent(a, eb, 0));
	}
	CU(cuStreamSynchronize(a));
	return (double)(now_ns() - start) / 1e3 / ROUNDS;
}

static double stream_us(stream s, uint64_t ns)
{
	int n = (int)(100000000 / ns);
	uint64_t start;

	for (int i = 0; i < 50; i++)
		spin(s, ns, 132);
	CU(cuStreamSynchronize(s));
	start = now_ns();
	for (int i = 0; i < n; i++)
		spin(s, ns, 132);
	CU(cuStreamSynchronize(s));
	return (double)(now_ns() - start) / 1e3 / n;
}

static void bench_launch(void)
{
	stream a = new_stream(), b = new_stream();
	double p50, p99, call, pong;

	stream_us(a, 10000); /* what is learnt at the start is learnt */
	stream_us(b, 10000);
	call = launch_ns(a);
	sync_us(a, &p50, &p99);
	pong = ping_pong_us(a, b);
	printf("{\"launch_ns\": %.0f, \"sync_p50_us\": %.2f, \"sync_p99_us\": %.2f, "
	       "\"ping_pong_us\": %.2f",
		call, p50, p99, pong);
	for (int us = 3; us <= 300; us *= 10)
		printf(", \"stream_%d_us\": %.3f", us, stream_us(a, (uint64_t)us * 1000));
	printf("}\n");
}

static void wait_for_go(uint64_t *begin, uint64_t *end)
{
	puts("ready");
	fflush(stdout);
	if (scanf("go %" SCNu64 " %" SCNu64, begin, end) != 2)
		exit(1);
}

static void sleep_until(uint64_t ns)
{
	struct timespec t = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static void serve(int kernels, uint64_t kernel_ns, uint64_t period_ns)
{
	static double v[200000];
	stream s = new_stream();
	uint64_t begin, end;
	int n = 0;

	spin(s, kernel_ns, 132);
	CU(cuStreamSynchronize(s));
	wait_for_go(&begin, &end);
	for (uint64_t next = begin; next < end && n < 200000; next += period_ns) {
		uint64_t start;

		sleep_until(next);
		start = now_ns();
		for (int i = 0; i < kernels; i++)
			spin(s, kernel_ns, 132);
		CU(cuStreamSynchronize(s));
		v[n++] = (double)(now_ns() - start) / 1e3;
		while (next + period_ns <
			now_ns()) /* requests that were missed are not made up for */
			next += period_ns;
	}
	printf("{\"requests\": %d, \"p50_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f}\n", n,
		part(v, n, 0.5), part(v, n, 0.99), part(v, n, 1));
}

static void batch(uint64_t kernel_ns, unsigned blocks)
{
	enum { QUEUED = 200, PART = 20 };
	event e[QUEUED / PART];
	stream s = new_stream();
	uint64_t begin, end, n = 0, last;
	unsigned per = kernel_ns > 5000000 ? 1 : PART;

	for (int i = 0; i < QUEUED / PART; i++)
		CU(cuEventCreate(&e[i], 2));
	spin(s, kernel_ns, blocks);
	CU(cuStreamSynchronize(s));
	wait_for_go(&begin, &end);
	sleep_until(begin);
	for (unsigned i = 0; (last = now_ns()) < end; i++) {
		unsigned at = i % (QUEUED / PART);

		if (i >= QUEUED / PART) {
			CU(cuEventSynchronize(e[at]));
			n += per;
		}
		for (unsigned k = 0; k < per; k++)
			spin(s, kernel_ns, blocks);
		CU(cuEventRecord(e[at], s));
	}
	printf("{\"kernels\": %" PRIu64 ", \"per_s\": %.2f}\n", n,
		(double)n * 1e9 / (double)(last - begin));
	fflush(stdout);
	CU(cuStreamSynchronize(s));
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!(strcmp(what, "launch") == 0 && argc == 2) &&
		!(strcmp(what, "serve") == 0 && argc == 5) &&
		!(strcmp(what, "batch") == 0 && argc == 4)) {
		fputs("usage: bench_cuda launch | serve N KERNEL_US PERIOD_US | batch KERNEL_US "
		      "BLOCKS\n",
			stderr);
		return 2;
	}
	open_device();
	if (*what == 'l')
		bench_launch();
	else if (*what == 's')
		serve(atoi(argv[2]), strtoull(argv[3], NULL, 10) * 1000,
			strtoull(argv[4], NULL, 10) * 1000);
	else
		batch(strtoull(argv[2], NULL, 10) * 1000, (unsigned)atoi(argv[3]));
	return 0;
}
