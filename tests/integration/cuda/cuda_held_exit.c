/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that exits while one of its threads is inside dl_iterate_phdr(), as one that a profiler
 * or a collector of garbage has stopped while it unwound its stack.
 */
#define CU_EXPORT extern
#include "../../cuda.h"
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static atomic_bool holds;

static int hold(struct dl_phdr_info *info, size_t size, void *unused)
{
	holds = true;
	for (;;)
		pause();
	return 0;
}

static void *looks(void *unused)
{
	dl_iterate_phdr(hold, NULL);
	return NULL;
}

static int work(void)
{
	CUcontext ctx;
	CUdeviceptr x;
	int rc = cuInit(0);

	rc = rc ? rc : cuDevicePrimaryCtxRetain(&ctx, 0);
	rc = rc ? rc : cuCtxSetCurrent(ctx);
	rc = rc ? rc : cuMemAlloc_v2(&x, 64);
	rc = rc ? rc : cuMemsetD32Async(x, 1, 16, NULL);
	return rc ? rc : cuCtxSynchronize();
}

int main(void)
{
	pthread_t thread;

	if (work() || pthread_create(&thread, NULL, looks, NULL))
		return 1;
	while (!holds)
		usleep(1000);
	puts("right");
	exit(0);
}
