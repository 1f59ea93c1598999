/* SPDX-License-Identifier: Apache-2.0 */
/*
 * P12: how much slower kernels become beside copies that never stop: reading as a decoder does, a
 * matrix product, drawn rows; copies in, out and both, of the same process and of another.
 */
#include "gpu.h"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NONE = 0, IN = 1, OUT = 2, BOTH = 3, QUIT = 4, DEPTH = 4, TIMES = 5 };
#define PIECE (16 * MiB)

/* A copier, in a thread or a process: told by a word, says how much. */
static struct copier {
	_Atomic int mode, ready;
	_Atomic uint64_t bytes;
} * copiers; /* [0] of this process, [1] of the other */

struct lane {
	CUstream s;
	CUdeviceptr device, host;
	CUevent events[DEPTH];
	uint64_t n;
};

static void lane_init(struct lane *l)
{
	*l = (struct lane){
		.s = gpu_stream(), .host = (CUdeviceptr)(uintptr_t)host_pinned(DEPTH * PIECE)};
	CK(cu.cuMemAlloc_v2(&l->device, DEPTH * PIECE));
	for (int i = 0; i < DEPTH; i++)
		CK(cu.cuEventCreate(&l->events[i], CU_EVENT_DISABLE_TIMING));
}

static void lane_go(struct lane *l, bool out, struct copier *c)
{
	uint64_t k = l->n % DEPTH;
	CUdeviceptr device = l->device + k * PIECE, host = l->host + k * PIECE;

	if (l->n >= DEPTH) {
		if (cu.cuEventQuery(l->events[k]))
			return;
		atomic_fetch_add(&c->bytes, PIECE);
	}
	CK(cu.cuMemcpyAsync(out ? host : device, out ? device : host, PIECE, l->s));
	CK(cu.cuEventRecord(l->events[k], l->s));
	l->n++;
}

static void copy_on(struct copier *c)
{
	struct lane in, out;
	int mode;

	lane_init(&in);
	lane_init(&out);
	atomic_store(&c->ready, 1);
	while ((mode = atomic_load(&c->mode)) != QUIT) {
		if (mode & IN)
			lane_go(&in, false, c);
		if (mode & OUT)
			lane_go(&out, true, c);
		if (!mode)
			wait_us(200);
	}
}

static void *copy_thread(void *arg)
{
	cu.cuCtxSetCurrent(gpu.ctx);
	copy_on(arg);
	return NULL;
}

static struct {
	CUstream s;
	CUdeviceptr big, a, b, c, sink;
	CUfunction read, matmul, gather;
	CUevent from, to;
} w;
enum { N = 4096 };
#define BIG (4 * GiB)

static void launch_read(void)
{
	uint64_t n = BIG / 16;
	void *params[] = {&w.big, &n, &w.sink};

	for (int i = 0; i < 20; i++)
		CK(cu.cuLaunchKernel(w.read, 1056, 1, 1, 256, 1, 1, 0, w.s, params, NULL));
}

static void launch_matmul(void)
{
	int n = N;
	void *params[] = {&w.a, &w.b, &w.c, &n};

	for (int i = 0; i < 40; i++)
		CK(cu.cuLaunchKernel(
			w.matmul, N / 128, N / 128, 1, 256, 1, 1, 0, w.s, params, NULL));
}

static void launch_gather(void)
{
	uint64_t rows = BIG / 512;
	uint32_t times = 512;
	void *params[] = {&w.big, &rows, &times, &w.sink};

	for (int i = 0; i < 60; i++)
		CK(cu.cuLaunchKernel(w.gather, 1056, 1, 1, 256, 1, 1, 0, w.s, params, NULL));
}

static const struct {
	const char *name;
	void (*launch)(void);
} kinds[] = {{"weights read", launch_read}, {"matrix product", launch_matmul},
	{"rows gathered", launch_gather}};
enum { KINDS = sizeof(kinds) / sizeof(*kinds) };

/* ms; what was copied meanwhile to `rate`, GB/s. */
static double timed(void (*launch)(void), struct copier *c, double *rate, double *spread)
{
	double ms[TIMES], since = 0;
	uint64_t bytes = 0;
	float one;

	for (int i = -1; i < TIMES; i++) {
		if (i == 0) {
			since = now_us();
			bytes = c ? atomic_load(&c->bytes) : 0;
		}
		CK(cu.cuEventRecord(w.from, w.s));
		launch();
		CK(cu.cuEventRecord(w.to, w.s));
		CK(cu.cuEventSynchronize(w.to));
		CK(cu.cuEventElapsedTime(&one, w.from, w.to));
		if (i >= 0)
			ms[i] = (double)one;
	}
	*rate = c ? (double)(atomic_load(&c->bytes) - bytes) / (now_us() - since) / 1e3 : 0;
	since = part_of(ms, TIMES, 0.5);
	*spread = (ms[TIMES - 1] - ms[0]) / since;
	return since;
}

static void open_all(const char *kernels)
{
	CUmodule m;

	gpu_open(false);
	m = gpu_module(kernels);
	w.read = gpu_function(m, "big_read");
	w.matmul = gpu_function(m, "matmul");
	w.gather = gpu_function(m, "gather");
	w.s = gpu_stream();
	CK(cu.cuMemAlloc_v2(&w.big, BIG));
	CK(cu.cuMemAlloc_v2(&w.a, N * N * 2));
	CK(cu.cuMemAlloc_v2(&w.b, N * N * 2));
	CK(cu.cuMemAlloc_v2(&w.c, N * N * 4));
	CK(cu.cuMemAlloc_v2(&w.sink, 256));
	CK(cu.cuMemsetD8_v2(w.big, 1, BIG));
	CK(cu.cuMemsetD8_v2(w.a, 0, N * N * 2));
	CK(cu.cuMemsetD8_v2(w.b, 0, N * N * 2));
	CK(cu.cuEventCreate(&w.from, 0));
	CK(cu.cuEventCreate(&w.to, 0));
}

static bool wait_ready(struct copier *c)
{
	double since = now_us();

	while (!atomic_load(&c->ready))
		if (now_us() - since > 20e6)
			return false;
		else
			wait_us(200);
	return true;
}

static void measure(double both[2][KINDS], double rates[2])
{
	static const char *const modes[] = {"", "in", "out", "both ways"};
	static const char *const whose[] = {"its own", "another's"};

	for (int k = 0; k < KINDS; k++) {
		double rate, spread, alone = timed(kinds[k].launch, NULL, &rate, &spread);

		printf("P12 %s, alone: %.2f ms, spread %.1f %%\n", kinds[k].name, alone,
			spread * 100);
		for (int who = 0; who < 2; who++)
			for (int mode = IN; mode <= BOTH; mode++) {
				double ms;

				atomic_store(&copiers[who].mode, mode);
				wait_us(20e3);
				ms = timed(kinds[k].launch, &copiers[who], &rate, &spread);
				atomic_store(&copiers[who].mode, NONE);
				wait_us(20e3);
				printf("P12 %s, %s copies %s: %.3fx, spread %.1f %%, copies %.1f "
				       "GB/s\n",
					kinds[k].name, whose[who], modes[mode], ms / alone,
					spread * 100, rate);
				both[who][k] = ms / alone;
				rates[who] = rate;
			}
	}
}

int probe_slowed(int argc, char **argv)
{
	double both[2][KINDS], rates[2];
	pthread_t t;
	pid_t other;

	if (argc < 1) {
		fprintf(stderr, "usage: gpu_memory p12 KERNELS\n");
		return 2;
	}
	copiers = mmap(NULL, 2 * sizeof(*copiers), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (copiers == MAP_FAILED)
		return 1;
	other = fork();
	if (!other) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		gpu_open(false);
		copy_on(&copiers[1]);
		_exit(0);
	}
	open_all(argv[0]);
	if (pthread_create(&t, NULL, copy_thread, &copiers[0]) || !wait_ready(&copiers[0]) ||
		!wait_ready(&copiers[1])) {
		printf("P12: the copiers did not start\n");
	} else {
		measure(both, rates);
		printf("== P12 slower beside copies both ways, its own / another's:");
		for (int k = 0; k < KINDS; k++)
			printf(" %s %.3fx / %.3fx%s", kinds[k].name, both[0][k], both[1][k],
				k + 1 < KINDS ? "," : "");
		printf("; copies %.1f / %.1f GB/s\n", rates[0], rates[1]);
	}
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
	fflush(stdout);
	_exit(0); /* the thread copies on */
}
