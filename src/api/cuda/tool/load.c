/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that the device sets, by the CUDA driver API: work that needs no kernel of our own, and
 * whose length goes by its size. */
#include "api/cuda/core/driver.h"
#include "base/util.h"
#include "tool.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is set, in words, again and again: more than caches hold is the same to all. */
#define WORDS       (4u << 20)
#define NO_BLOCKING 1u
/* Times by the host: a thread that waits sleeps. */
#define EVENT_BLOCKING 1u
#define EVENT_NO_TIME  2u

#define FUNCTIONS(X)                                                            \
	X(init, "cuInit", (unsigned flags))                                     \
	X(driver_version, "cuDriverGetVersion", (int *version))                 \
	X(device_count, "cuDeviceGetCount", (int *n))                           \
	X(device_name, "cuDeviceGetName", (char *name, int size, CUdevice d))   \
	X(retain, "cuDevicePrimaryCtxRetain", (CUcontext * ctx, CUdevice d))    \
	X(set_current, "cuCtxSetCurrent", (CUcontext ctx))                      \
	X(stream_create, "cuStreamCreate", (CUstream * stream, unsigned flags)) \
	X(event_create, "cuEventCreate", (CUevent * event, unsigned flags))     \
	X(event_record, "cuEventRecord", (CUevent event, CUstream stream))      \
	X(event_synchronize, "cuEventSynchronize", (CUevent event))             \
	X(mem_alloc, "cuMemAlloc_v2", (CUdeviceptr * p, size_t size))           \
	X(memset_async, "cuMemsetD32Async",                                     \
		(CUdeviceptr dst, unsigned value, size_t n, CUstream stream))

struct cuda {
#define MEMBER(name, symbol, params) fm_cu_result(*name) params;
	FUNCTIONS(MEMBER)
#undef MEMBER
	CUstream stream;
	CUdeviceptr memory;
	CUevent event[LOAD_DEPTH];
};

static const char *load(struct cuda *c)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	bool whole = true;

	if (!lib)
		return "there is no CUDA driver";
#define LOAD(name, symbol, params)               \
	*(void **)&c->name = dlsym(lib, symbol); \
	whole = whole && c->name;
	FUNCTIONS(LOAD)
#undef LOAD
	return whole ? NULL : "the CUDA driver is too old";
}

static const char *prepare(struct cuda *c, CUdevice d)
{
	CUcontext ctx;

	if (c->retain(&ctx, d) || c->set_current(ctx))
		return "no context can be had";
	if (c->stream_create(&c->stream, NO_BLOCKING) ||
		c->mem_alloc(&c->memory, (size_t)WORDS * 4))
		return "no stream or memory can be had";
	for (unsigned i = 0; i < LOAD_DEPTH; i++)
		if (c->event_create(&c->event[i], EVENT_BLOCKING | EVENT_NO_TIME))
			return "no event can be had";
	return NULL;
}

static const char *cuda_open(struct load *l, unsigned index)
{
	struct cuda *c = calloc(1, sizeof(*c));
	struct fm_bench_device *a = &l->about;
	const char *wrong;
	int n = 0, v = 0;

	if (!c)
		return "out of memory";
	l->priv = c;
	wrong = load(c);
	if (wrong)
		return wrong;
	if (c->init(0) || c->device_count(&n))
		return "the CUDA driver does not start; `fermata doctor' says why";
	if (index >= (unsigned)n)
		return "CUDA has no such device";
	c->device_name(a->name, sizeof(a->name) - 1, (CUdevice)index);
	c->driver_version(&v);
	snprintf(a->driver, sizeof(a->driver), "%d.%d", v / 1000, v % 1000 / 10);
	strcpy(a->platform, "CUDA");
	return prepare(c, (CUdevice)index);
}

/* amount: words to set; as many calls as that takes, and what follows them is one command. */
static const char *cuda_launch(struct load *l, unsigned slot, uint64_t amount, uint32_t blocks)
{
	struct cuda *c = l->priv;

	(void)blocks; /* memory is set by as many as the driver likes */
	for (uint64_t left = amount; left;) {
		size_t n = (size_t)FM_MIN(left, (uint64_t)WORDS);

		if (c->memset_async(c->memory, slot, n, c->stream))
			return "a command was refused";
		left -= n;
	}
	if (slot == LOAD_NEVER)
		return NULL;
	return c->event_record(c->event[slot], c->stream) ? "an event was refused" : NULL;
}

static const char *cuda_wait(struct load *l, unsigned slot)
{
	struct cuda *c = l->priv;

	return c->event_synchronize(c->event[slot]) ? "a command failed" : NULL;
}

/* The driver's own things go with the process. */
static void cuda_close(struct load *l)
{
	free(l->priv);
	l->priv = NULL;
}

const struct load_ops tool_cuda_load = {.kind = "cuda",
	.native = true,
	.open = cuda_open,
	.launch = cuda_launch,
	.wait = cuda_wait,
	.close = cuda_close};
