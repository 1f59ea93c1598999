/* SPDX-License-Identifier: Apache-2.0 */
/* For bench_cuda*.c: the driver as a program without a toolkit finds it, and kernels for it. */
#pragma once
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

static inline _Noreturn void die(const char *what, int rc)
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

static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static inline void open_device(void)
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

static inline void launch(stream s, const struct kernel *k)
{
	void *params[] = {&scratch, (void *)&k->amount};

	CU(cuLaunchKernel(k->f, k->blocks, 1, 1, k->threads, 1, 1, 0, s, params, NULL));
}

static inline void spin(stream s, uint64_t ns, unsigned blocks)
{
	launch(s, &(struct kernel){kernel_spin, blocks, 64, ns, ns});
}

static inline void empty(stream s)
{
	unsigned none = 0;
	void *params[] = {&scratch, &none, &none};

	CU(cuLaunchKernel(kernel_empty, 1, 1, 1, 1, 1, 1, 0, s, params, NULL));
}

static inline int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static inline double part(double *v, int n, double p)
{
	qsort(v, (size_t)n, sizeof(*v), by_value);
	return n ? v[(int)(p * (n - 1) + 0.5)] : 0;
}

static inline stream new_stream(void)
{
	stream s;

	CU(cuStreamCreate(&s, 1)); /* non-blocking */
	return s;
}

static inline void wait_for_go(uint64_t *begin, uint64_t *end)
{
	puts("ready");
	fflush(stdout);
	if (scanf("go %" SCNu64 " %" SCNu64, begin, end) != 2)
		exit(1);
}

static inline void spend(uint64_t ns)
{
	uint64_t end = now_ns() + ns;

	while (ns && now_ns() < end)
		;
}

/* This process' board, by its mapping; NULL: nobody governs it. */
static inline struct fm_board *own_board(void)
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
