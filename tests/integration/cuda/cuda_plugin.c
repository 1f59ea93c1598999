/* SPDX-License-Identifier: Apache-2.0 */
/* A library that is linked with the driver, for a program that is not (cuda_access.c). */
#define CU_EXPORT extern
#include "../../cuda.h"
#include <dlfcn.h>

#define VISIBLE __attribute__((visibility("default")))

VISIBLE int plugin_work(uint32_t *words, unsigned n, unsigned times);
VISIBLE void *plugin_look_up(void *handle, const char *symbol);

/* With RTLD_DEFAULT and RTLD_NEXT the answer depends on who asks. */
void *plugin_look_up(void *handle, const char *symbol)
{
	void *volatile found = dlsym(handle, symbol); /* no jump: this library asks */

	return found;
}

int plugin_work(uint32_t *words, unsigned n, unsigned times)
{
	CUcontext ctx;
	CUdeviceptr x;
	CUstream s;
	int rc = cuInit(0);

	rc = rc ? rc : cuDevicePrimaryCtxRetain(&ctx, 0);
	rc = rc ? rc : cuCtxSetCurrent(ctx);
	rc = rc ? rc : cuMemAlloc_v2(&x, n * sizeof(*words));
	rc = rc ? rc : cuStreamCreate(&s, CU_STREAM_NON_BLOCKING);
	for (unsigned i = 0; i < times && !rc; i++)
		rc = cuMemsetD32Async(x, i, n - i, s);
	rc = rc ? rc : cuMemcpyDtoHAsync_v2(words, x, n * sizeof(*words), s);
	rc = rc ? rc : cuStreamSynchronize(s);
	rc = rc ? rc : cuStreamDestroy_v2(s);
	return rc ? rc : cuDevicePrimaryCtxRelease_v2(0);
}
