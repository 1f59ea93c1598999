/* SPDX-License-Identifier: Apache-2.0 */
/* Trying CUDA's devices, in the probe's process: does a stream stall at a closed gate, and go on
 * when it opens? The same operations as the backend's, on memory of our own. */
#include "backend/cuda/driver.h"
#include "base/clock.h"
#include "probe.h"
#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#define DEVICES   16
#define PAGE      4096
#define STALL_NS  (20 * FM_MS)
#define FINISH_NS (5 * FM_S)

#define OWN_FUNCTIONS(X)                                                        \
	X(init, "cuInit", (unsigned flags))                                     \
	X(driver_version, "cuDriverGetVersion", (int *version))                 \
	X(device_count, "cuDeviceGetCount", (int *n))                           \
	X(device_name, "cuDeviceGetName", (char *name, int size, CUdevice d))   \
	X(retain, "cuDevicePrimaryCtxRetain", (CUcontext * ctx, CUdevice d))    \
	X(set_current, "cuCtxSetCurrent", (CUcontext ctx))                      \
	X(stream_create, "cuStreamCreate", (CUstream * stream, unsigned flags)) \
	X(error_name, "cuGetErrorName", (fm_cu_result rc, const char **name))

struct cuda {
	struct fm_cu_driver cu;
#define MEMBER(name, symbol, params) fm_cu_result(*name) params;
	OWN_FUNCTIONS(MEMBER)
#undef MEMBER
};

static bool load(struct cuda *c, FILE *out)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	const char *missing = NULL;

	if (!lib) {
		probe_tell(out, json_pack("{s:s, s:b, s:s}", "step", "cuda", "absent", true,
					"error", dlerror()));
		return false;
	}
#define LOAD(name, symbol, params) *(void **)&c->cu.name = dlsym(lib, symbol);
	FM_CU_DRIVER(LOAD)
#undef LOAD
#define LOAD(name, symbol, params)               \
	*(void **)&c->name = dlsym(lib, symbol); \
	missing = c->name ? missing : symbol;
	OWN_FUNCTIONS(LOAD)
#undef LOAD
	if (missing)
		probe_tell(out, json_pack("{s:s, s:s+}", "step", "cuda", "error",
					"the driver is too old, it lacks ", missing));
	return !missing;
}

static const char *error_name(struct cuda *c, fm_cu_result rc)
{
	const char *name = NULL;

	return !c->error_name(rc, &name) && name ? name : "an unknown error";
}

struct words {
	_Atomic uint32_t gate, waiting, passed;
};

static bool await(_Atomic uint32_t *word, uint64_t limit)
{
	const struct timespec pause = fm_timespec(100 * FM_US);
	uint64_t end = fm_now() + limit;

	while (!atomic_load(word) && fm_now() < end)
		nanosleep(&pause, NULL);
	return atomic_load(word);
}

static fm_cu_result enqueue(struct cuda *c, CUdevice d, struct words *w)
{
	union fm_cu_mem_op ops[3] = {{.pad = {0}}, {.pad = {0}}, {.pad = {0}}};
	CUcontext ctx;
	CUstream stream;
	fm_cu_result rc;

	ops[0].op.operation = ops[2].op.operation = FM_CU_OP_WRITE_VALUE_32;
	ops[0].op.address = (uintptr_t)&w->waiting;
	ops[2].op.address = (uintptr_t)&w->passed;
	ops[0].op.value = ops[2].op.value = 1;
	ops[1].op.operation = FM_CU_OP_WAIT_VALUE_32;
	ops[1].op.address = (uintptr_t)&w->gate;
	ops[1].op.flags = FM_CU_WAIT_VALUE_EQ;
	rc = c->retain(&ctx, d);
	rc = rc ? rc : c->set_current(ctx);
	rc = rc ? rc : c->stream_create(&stream, 1);
	rc = rc ? rc : c->cu.host_register(w, PAGE, FM_CU_HOST_REGISTER_DEVICEMAP);
	return rc ? rc : c->cu.stream_mem_ops(stream, 3, ops, 0);
}

/* Returns the deepest level. */
static int try_gate(struct cuda *c, CUdevice d, char *text, size_t size)
{
	struct words *w =
		mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	bool stalled, finished;
	fm_cu_result rc;

	if (w == MAP_FAILED || !c->cu.stream_mem_ops || !c->cu.host_register) {
		snprintf(text, size, "the driver has no stream memory operations");
		return 0;
	}
	atomic_store(&w->gate, 1);
	rc = enqueue(c, d, w);
	if (rc) {
		snprintf(text, size, "the driver refuses: %s", error_name(c, rc));
		return 0;
	}
	stalled = await(&w->waiting, FINISH_NS) && !await(&w->passed, STALL_NS);
	atomic_store(&w->gate, 0);
	finished = await(&w->passed, FINISH_NS);
	snprintf(text, size, "%s",
		!finished ? "a stream did not go on when its gate opened"
		: stalled ? "streams stall at a closed gate and go on when it opens"
			  : "streams do not stall at a closed gate");
	return finished && stalled ? 2 : 0;
}

static void try_device(struct cuda *c, FILE *out, CUdevice d, const char *version)
{
	char name[256] = "-", text[256];
	json_t *levels = json_array();
	int deepest;

	c->device_name(name, sizeof(name) - 1, d);
	probe_tell(out, json_pack("{s:s, s:s, s:s, s:s, s:s}", "step", "device", "name", name,
				"platform", "CUDA", "version", version, "type", "gpu"));
	deepest = try_gate(c, d, text, sizeof(text));
	for (int l = 1; l <= deepest; l++)
		json_array_append_new(levels, json_integer(l));
	probe_tell(out,
		json_pack("{s:s, s:o, s:s}", "step", "levels", "levels", levels, "text", text));
}

void probe_cuda(FILE *out)
{
	struct cuda c = {0};
	char version[32] = "-";
	fm_cu_result rc;
	int v = 0, n = 0;

	if (!load(&c, out))
		return;
	rc = c.init(0);
	rc = rc ? rc : c.device_count(&n);
	if (rc) {
		probe_tell(out, json_pack("{s:s, s:s+}", "step", "cuda", "error",
					"it does not start: ", error_name(&c, rc)));
		return;
	}
	if (!c.driver_version(&v))
		snprintf(version, sizeof(version), "%d.%d", v / 1000, v % 1000 / 10);
	probe_tell(out, json_pack("{s:s, s:s}", "step", "cuda", "version", version));
	for (CUdevice d = 0; d < n && d < DEVICES; d++)
		try_device(&c, out, d, version);
}
