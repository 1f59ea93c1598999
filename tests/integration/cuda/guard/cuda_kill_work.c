/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: cuda_kill_work PTX KERNEL BLOCKS THREADS N SECONDS
 * Launches KERNEL(x, y, N) of tests/data/kill again and again, one at a time, and compares what
 * each leaves with what the first did. SECONDS 0: one launch, and how many ns it took, alone. Else:
 * how many there were, and how many differed.
 */
#include "api/cuda/core/driver.h"
#include "base/clock.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

fm_cu_result cuInit(unsigned flags);
fm_cu_result cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice dev);
fm_cu_result cuCtxSetCurrent(CUcontext ctx);
fm_cu_result cuModuleLoad(CUmodule *module, const char *path);
fm_cu_result cuModuleGetFunction(CUfunction *f, CUmodule module, const char *name);
fm_cu_result cuMemAlloc_v2(CUdeviceptr *p, size_t n);
fm_cu_result cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t n, CUstream stream);
fm_cu_result cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t n, CUstream stream);
fm_cu_result cuStreamSynchronize(CUstream stream);
fm_cu_result cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
	unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params, void **extra);

static void need(fm_cu_result rc, const char *what)
{
	if (!rc)
		return;
	fprintf(stderr, "%s: error %d\n", what, rc);
	exit(1);
}
#define NEED(call) need(call, #call)

struct work {
	CUfunction f;
	CUdeviceptr x, y;
	unsigned blocks, threads;
	uint32_t n;
	size_t bytes;
};

static uint64_t launch(struct work *w, uint32_t *result)
{
	void *params[] = {&w->x, &w->y, &w->n};
	uint64_t begin = fm_now(), ns;

	NEED(cuLaunchKernel(w->f, w->blocks, 1, 1, w->threads, 1, 1, 0, NULL, params, NULL));
	NEED(cuStreamSynchronize(NULL));
	ns = fm_now() - begin;
	NEED(cuMemcpyDtoHAsync_v2(result, w->x, w->bytes, NULL));
	NEED(cuStreamSynchronize(NULL));
	return ns;
}

static void open_all(struct work *w, const char *ptx, const char *kernel, uint32_t *data)
{
	CUcontext ctx;
	CUmodule module;

	NEED(cuInit(0));
	NEED(cuDevicePrimaryCtxRetain(&ctx, 0));
	NEED(cuCtxSetCurrent(ctx));
	NEED(cuModuleLoad(&module, ptx));
	NEED(cuModuleGetFunction(&w->f, module, kernel));
	NEED(cuMemAlloc_v2(&w->x, w->bytes));
	NEED(cuMemAlloc_v2(&w->y, w->bytes));
	for (size_t i = 0; i < w->bytes / 4; i++)
		data[i] = (uint32_t)i * 2654435761u;
	NEED(cuMemcpyHtoDAsync_v2(w->y, data, w->bytes, NULL));
	NEED(cuStreamSynchronize(NULL));
}

int main(int argc, char **argv)
{
	struct work w = {.n = argc > 6 ? (uint32_t)atoi(argv[5]) : 0};
	uint32_t *first, *result;
	unsigned launches = 0, differ = 0;
	uint64_t until, ns;

	if (argc < 7)
		return 2;
	w.blocks = (unsigned)atoi(argv[3]);
	w.threads = (unsigned)atoi(argv[4]);
	w.bytes = (size_t)w.blocks * w.threads * 4;
	first = malloc(w.bytes);
	result = malloc(w.bytes);
	if (!first || !result)
		return 1;
	open_all(&w, argv[1], argv[2], first);
	launch(&w, first); /* which loads it */
	ns = launch(&w, first);
	if (!atoi(argv[6])) {
		printf("%llu\n", (unsigned long long)ns);
		return 0;
	}
	puts("ready");
	fflush(stdout);
	for (until = fm_now() + (uint64_t)atoi(argv[6]) * 1000000000u; fm_now() < until;
		launches++) {
		launch(&w, result);
		differ += memcmp(first, result, w.bytes) != 0;
	}
	printf("%u %u\n", launches, differ);
	return differ != 0;
}
