/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA program that needs no toolkit, for script/lib/cuda_bench:
 *   bench_cuda launch                     what launches, waits and streams cost; one line of JSON
 *   bench_cuda serve N KERNEL_US PERIOD_US GAP_US   a request of N kernels each period, with so
 * much of the CPU's time between two launches bench_cuda batch KERNEL_US BLOCKS        as many
 * kernels as the device takes, 200 queued bench_cuda stall KERNEL_US GRAPH         the same
 * (GRAPH=0), or a graph of so many kernels; and how long after the close of its gate it stands All
 * but launch say "ready", wait for "go BEGIN END" (CLOCK_MONOTONIC, ns), and answer in JSON.
 */
#include "board/board.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

typedef struct CUstream_st *stream;
typedef struct CUevent_st *event;
typedef struct CUgraph_st *graph;
typedef struct CUgraphExec_st *graph_exec;

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
	X(cuStreamBeginCapture_v2, (stream, unsigned))                                         \
	X(cuStreamEndCapture, (stream, graph *))                                               \
	X(cuGraphInstantiateWithFlags, (graph_exec *, graph, unsigned long long))              \
	X(cuGraphLaunch, (graph_exec, stream))                                                 \
	X(cuLaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, \
				  unsigned, stream, void **, void **))

static struct {
#define MEMBER(name, params) int(*name) params;
	DRIVER(MEMBER)
} cu;

/* spin: every thread, for so many ns, whatever else the device does meanwhile. work: so many
 * rounds, which is what a kernel that is stopped has still to do. fill: nothing. The parameters are
 * those of the kernels of the tests, so that this runs on their driver, too, which has no work. */
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
	".visible .entry work(.param .u64 out, .param .u64 rounds)\n{\n"
	"	.reg .u64 %rd<4>;\n	.reg .u32 %r<2>;\n	.reg .pred %p;\n"
	"	ld.param.u64 %rd0, [rounds];\n"
	"	ld.param.u64 %rd1, [out];\n"
	"	mov.u32 %r0, %tid.x;\n"
	"again:\n"
	"	mad.lo.u32 %r0, %r0, 1664525, 1013904223;\n"
	"	sub.u64 %rd0, %rd0, 1;\n"
	"	setp.ne.u64 %p, %rd0, 0;\n"
	"	@%p bra again;\n"
	"	setp.eq.u32 %p, %r0, 42;\n"
	"	@%p st.global.u32 [%rd1], %r0;\n	ret;\n}\n"
	".visible .entry fill(.param .u64 x, .param .u32 n, .param .u32 v)\n{\n	ret;\n}\n";

static void *kernel_spin, *kernel_work, *kernel_empty;
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
	if (cu.cuModuleGetFunction(&kernel_work, module, "work"))
		kernel_work = NULL;
}

struct kernel {
	void *f;
	unsigned blocks, threads;
	uint64_t ns, amount; /* device time, and what the kernel takes for it */
};

static void launch(stream s, const struct kernel *k)
{
	void *params[] = {&scratch, (void *)&k->amount};

	CU(cuLaunchKernel(k->f, k->blocks, 1, 1, k->threads, 1, 1, 0, s, params, NULL));
}

static void spin(stream s, uint64_t ns, unsigned blocks)
{
	launch(s, &(struct kernel){kernel_spin, blocks, 64, ns, ns});
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

static double shortest(stream s, const struct kernel *k)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < 20; i++) {
		uint64_t start = now_ns(), took;

		launch(s, k);
		CU(cuStreamSynchronize(s));
		took = now_ns() - start;
		best = took < best ? took : best;
	}
	return (double)best;
}

/* Device time of a round of work, of so many threads, measured until it is the same twice. Who does
 * that has the device for himself: programs like this one take turns. */
static double round_ns(stream s, struct kernel k)
{
	enum { ROUNDS = 3000, TRIES = 20 };
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	double ns = 0, before = -1;

	flock(fd, LOCK_EX);
	for (int i = 0; i < TRIES && !(ns > 0 && fabs(ns - before) < 0.02 * ns); i++) {
		before = ns;
		k.amount = ROUNDS;
		ns = shortest(s, &k);
		k.amount = 3 * ROUNDS;
		ns = (shortest(s, &k) - ns) / (2 * ROUNDS);
	}
	close(fd);
	if (!(ns > 0 && fabs(ns - before) < 0.02 * ns))
		die("the device is too busy to be measured", 0);
	return ns;
}

/* A kernel of as much work as takes so long on a device that does nothing else. */
static struct kernel new_kernel(stream s, uint64_t ns, unsigned blocks, unsigned threads)
{
	struct kernel k = {kernel_work, blocks, threads, ns, 0};

	if (!kernel_work)
		return (struct kernel){kernel_spin, blocks, threads, ns, ns};
	k.amount = (uint64_t)((double)ns / round_ns(s, k)) + 1;
	return k;
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

static double ping_pongs_us(stream a, stream b, event ea, event eb)
{
	enum { ROUNDS = 2000 };
	uint64_t start;

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

static double ping_pong_us(stream a, stream b)
{
	double v[5];
	event ea, eb;

	CU(cuEventCreate(&ea, 2));
	CU(cuEventCreate(&eb, 2));
	for (int i = 0; i < 5; i++)
		v[i] = ping_pongs_us(a, b, ea, eb);
	return part(v, 5, 0.5);
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

static void spend(uint64_t ns)
{
	uint64_t end = now_ns() + ns;

	while (ns && now_ns() < end)
		;
}

static void serve(int kernels, uint64_t kernel_ns, uint64_t period_ns, uint64_t gap_ns)
{
	static double v[200000];
	stream s = new_stream();
	struct kernel k = new_kernel(s, kernel_ns, 132, 64);
	uint64_t begin, end;
	int n = 0;

	launch(s, &k);
	CU(cuStreamSynchronize(s));
	wait_for_go(&begin, &end);
	for (uint64_t next = begin; next < end && n < 200000; next += period_ns) {
		uint64_t start;

		sleep_until(next);
		start = now_ns();
		for (int i = 0; i < kernels; i++) {
			launch(s, &k);
			spend(gap_ns);
		}
		CU(cuStreamSynchronize(s));
		v[n++] = (double)(now_ns() - start) / 1e3;
		while (next + period_ns <
			now_ns()) /* requests that were missed are not made up for */
			next += period_ns;
	}
	printf("{\"requests\": %d, \"p50_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f}\n", n,
		part(v, n, 0.5), part(v, n, 0.99), part(v, n, 1));
}

/* --- programs that fill the device --- */

#define WIDE 1024 /* threads of a block: two such blocks fill a multiprocessor */

struct load {
	stream s;
	struct kernel kernel;
	graph_exec graph; /* NULL: kernels of their own */
	int graph_kernels;
};

static struct load new_load(uint64_t kernel_ns, unsigned blocks, int graph_kernels)
{
	struct load l = {.s = new_stream(), .graph_kernels = graph_kernels};
	graph g;

	l.kernel = new_kernel(l.s, kernel_ns, blocks, WIDE);
	/* What was learnt of the kernel while it was measured is forgotten. */
	for (uint64_t i = 0; i < 20 || i * kernel_ns < 100000000; i++)
		launch(l.s, &l.kernel);
	CU(cuStreamSynchronize(l.s));
	if (!graph_kernels)
		return l;
	CU(cuStreamBeginCapture_v2(l.s, 0));
	for (int i = 0; i < graph_kernels; i++)
		launch(l.s, &l.kernel);
	CU(cuStreamEndCapture(l.s, &g));
	CU(cuGraphInstantiateWithFlags(&l.graph, g, 0));
	CU(cuGraphLaunch(l.graph, l.s));
	CU(cuStreamSynchronize(l.s));
	return l;
}

static unsigned launch_some(const struct load *l)
{
	unsigned n = l->kernel.ns > 5000000 ? 1 : 20;

	if (l->graph) {
		CU(cuGraphLaunch(l->graph, l->s));
		return (unsigned)l->graph_kernels;
	}
	for (unsigned i = 0; i < n; i++)
		launch(l->s, &l->kernel);
	return n;
}

/* As many kernels as the device takes, 200 or so queued. */
static void keep_busy(const struct load *l, uint64_t begin, uint64_t end)
{
	enum { PARTS = 10 };
	event e[PARTS];
	uint64_t n = 0, last;

	for (int i = 0; i < PARTS; i++)
		CU(cuEventCreate(&e[i], 2));
	sleep_until(begin);
	for (unsigned i = 0, each = 0; (last = now_ns()) < end; i++) {
		if (i >= PARTS) {
			CU(cuEventSynchronize(e[i % PARTS]));
			n += each;
		}
		each = launch_some(l);
		CU(cuEventRecord(e[i % PARTS], l->s));
	}
	printf("{\"kernels\": %" PRIu64 ", \"per_s\": %.2f", n,
		(double)n * 1e9 / (double)(last - begin));
}

static void batch(uint64_t kernel_ns, unsigned blocks)
{
	struct load l = new_load(kernel_ns, blocks, 0);
	uint64_t begin, end;

	wait_for_go(&begin, &end);
	keep_busy(&l, begin, end);
	printf("}\n");
	fflush(stdout);
	CU(cuStreamSynchronize(l.s));
}

/* --- from the close of the gate to the stall, as the victim's own board shows it --- */

#define STALLS 20000

static struct watch {
	uint64_t end;
	int n;
	double stall_us[STALLS], go_us[STALLS];
} watching;

/* This process' board, by its mapping; NULL: nobody governs it. */
static struct fm_board *own_board(void)
{
	char line[512];
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned long at = 0;

	while (f && !at && fgets(line, sizeof(line), f))
		if (strstr(line, "memfd:fermata-board"))
			sscanf(line, "%lx", &at);
	if (f)
		fclose(f);
	return (struct fm_board *)at;
}

/* Spins until the gate is as wanted; when it was seen. 0: the time is over. */
static uint64_t gate_is(struct fm_slot *s, uint32_t wanted, uint64_t end)
{
	uint64_t now = now_ns();

	while (atomic_load_explicit(&s->gate, memory_order_acquire) != wanted)
		if ((now = now_ns()) >= end)
			return 0;
	return now;
}

/* The gate is closed: when the device began to wait there. A gate that it just passes makes it wait
 * for less than HOLD. 0: the gate opened first, or the time is over. */
static uint64_t stands_since(struct fm_slot *s, uint64_t end)
{
	enum { HOLD = 20000 };
	uint64_t since = 0, now = 0;

	while (!since || now - since < HOLD) {
		now = now_ns();
		if (now >= end || atomic_load(&s->gate) != FM_GATE_CLOSED)
			return 0;
		if (!fm_slot_waits(s))
			since = 0;
		else if (!since)
			since = now;
	}
	return since;
}

static void *watch(void *board)
{
	struct fm_slot *s = ((struct fm_board *)board)->slot;
	struct watch *w = &watching;
	uint64_t closed, stood, open;

	while (w->n < STALLS && (closed = gate_is(s, FM_GATE_CLOSED, w->end))) {
		stood = stands_since(s, w->end);
		open = gate_is(s, FM_GATE_OPEN, w->end);
		if (!stood || !open)
			continue;
		while (fm_slot_waits(s))
			;
		w->go_us[w->n] = (double)(now_ns() - open) / 1e3;
		w->stall_us[w->n++] = (double)(stood > closed ? stood - closed : 0) / 1e3;
	}
	return NULL;
}

static void stall(uint64_t kernel_ns, int graph_kernels)
{
	struct load l = new_load(kernel_ns, 264, graph_kernels);
	struct fm_board *board = own_board();
	struct watch *w = &watching;
	pthread_t thread;
	uint64_t begin;

	if (!board)
		die("this program is not governed", 0);
	wait_for_go(&begin, &w->end);
	if (pthread_create(&thread, NULL, watch, board))
		die("no thread", 0);
	keep_busy(&l, begin, w->end);
	pthread_join(thread, NULL);
	printf(", \"stalls\": %d, \"p50_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f, "
	       "\"go_p50_us\": %.1f, \"go_p99_us\": %.1f}\n",
		w->n, part(w->stall_us, w->n, 0.5), part(w->stall_us, w->n, 0.99),
		part(w->stall_us, w->n, 1), part(w->go_us, w->n, 0.5), part(w->go_us, w->n, 0.99));
	fflush(stdout);
	CU(cuStreamSynchronize(l.s));
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!(strcmp(what, "launch") == 0 && argc == 2) &&
		!(strcmp(what, "serve") == 0 && argc == 6) &&
		!(strcmp(what, "batch") == 0 && argc == 4) &&
		!(strcmp(what, "stall") == 0 && argc == 4)) {
		fputs("usage: bench_cuda launch | serve N KERNEL_US PERIOD_US GAP_US | batch "
		      "KERNEL_US "
		      "BLOCKS | stall KERNEL_US GRAPH\n",
			stderr);
		return 2;
	}
	open_device();
	if (*what == 'l')
		bench_launch();
	else if (strcmp(what, "serve") == 0)
		serve(atoi(argv[2]), strtoull(argv[3], NULL, 10) * 1000,
			strtoull(argv[4], NULL, 10) * 1000, strtoull(argv[5], NULL, 10) * 1000);
	else if (*what == 'b')
		batch(strtoull(argv[2], NULL, 10) * 1000, (unsigned)atoi(argv[3]));
	else
		stall(strtoull(argv[2], NULL, 10) * 1000, atoi(argv[3]));
	return 0;
}
