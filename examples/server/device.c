/* SPDX-License-Identifier: Apache-2.0 */
#include "device.h"
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cu cu;

const char *wrong(const char *format, ...)
{
	static _Thread_local char text[256];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	return text;
}

/* what: the call with its arguments, of which the name is of interest. */
const char *cu_wrong(const char *what, int error)
{
	const char *text = NULL;

	cu.cuGetErrorString(error, &text);
	return wrong("%.*s: %s (%d)", (int)strcspn(what, "("), what, text ? text : "unknown error",
		error);
}

const char *driver_load(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!lib)
		return wrong("there is no CUDA driver: %s", dlerror());
#define CU_FIND(symbol, params)                     \
	*(void **)&cu.symbol = dlsym(lib, #symbol); \
	if (!cu.symbol)                             \
		return wrong("the CUDA driver is too old: it has no " #symbol);
	CU_FUNCTIONS(CU_FIND)
#undef CU_FIND
	return NULL;
}

const char *device_open(struct device *d, int index)
{
	int device;

	/* Streams share so many queues of the device, usually 8: one that is stopped must not stand
	 * in front of another. */
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
	CU(cuInit(0));
	CU(cuDeviceGet(&device, index));
	CU(cuDeviceGetAttribute(&d->sms, MULTIPROCESSOR_COUNT, device));
	CU(cuDeviceGetName(d->name, sizeof(d->name) - 1, device));
	CU(cuDevicePrimaryCtxRetain(&d->ctx, device));
	CU(cuCtxSetCurrent(d->ctx));
	CU(cuCtxGetStreamPriorityRange(&d->least, &d->greatest));
	return NULL;
}

const char *device_use(const struct device *d)
{
	CU(cuCtxSetCurrent(d->ctx));
	return NULL;
}
