/* SPDX-License-Identifier: Apache-2.0 */
/* Trying CUDA's devices, in the probe's process: does a stream stall at a closed gate, and go on
 * when it opens? The same operations as the backend's, on memory of our own. Else, can it be said
 * when a stream has come so far (level 1)? */
#include "api/cuda/core/partition.h"
#include "api/cuda/core/timeslice.h"
#include "base/cleanup.h"
#include "base/util.h"
#include "probe_cuda.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#define PAGE      PROBE_PAGE
#define STALL_NS  (20 * FM_MS)
#define FINISH_NS PROBE_FINISH_NS

#define NO_DEVICE 100

/* In the driver's ioctls are the channel groups whose time slice can be set. */
__attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, ...)
{
	va_list ap;
	void *arg;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	return fm_cu_ioctl(fd, request, arg);
}

static void *lib;

void *probe_cuda_symbol(const char *name)
{
	return dlsym(lib, name);
}

bool probe_cuda_load(struct probe_cuda *c, FILE *out)
{
	const char *missing = NULL;

	lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
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
	PROBE_CUDA_FUNCTIONS(LOAD)
#undef LOAD
	if (missing)
		probe_tell(out, json_pack("{s:s, s:s+}", "step", "cuda", "error",
					"the driver is too old, it lacks ", missing));
	return !missing;
}

const char *probe_cuda_error(struct probe_cuda *c, fm_cu_result rc)
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

/* What is tried on one device, and where it ended. */
struct trial {
	CUstream stream;
	struct words *words;
	const char *refused; /* what the driver refused; NULL: nothing */
	fm_cu_result rc;     /* how */
	char text[256];
};

static bool refused(struct trial *t, fm_cu_result rc, const char *what)
{
	if (!rc)
		return false;
	t->refused = what;
	t->rc = rc;
	return true;
}

fm_cu_result probe_cuda_open(struct probe_cuda *c, CUdevice d, CUcontext *ctx, CUstream *stream)
{
	fm_cu_result rc = c->retain(ctx, d);

	rc = rc ? rc : c->set_current(*ctx);
	return rc ? rc : c->stream_create(stream, 1);
}

static fm_cu_result enqueue_gate(struct probe_cuda *c, struct trial *t)
{
	union fm_cu_mem_op ops[3] = {{.pad = {0}}, {.pad = {0}}, {.pad = {0}}};

	ops[0].op.operation = ops[2].op.operation = FM_CU_OP_WRITE_VALUE_32;
	ops[0].op.address = (uintptr_t)&t->words->waiting;
	ops[2].op.address = (uintptr_t)&t->words->passed;
	ops[0].op.value = ops[2].op.value = 1;
	ops[1].op.operation = FM_CU_OP_WAIT_VALUE_32;
	ops[1].op.address = (uintptr_t)&t->words->gate;
	ops[1].op.flags = FM_CU_WAIT_VALUE_EQ;
	return c->cu.stream_mem_ops(t->stream, 3, ops, 0);
}

/* Is a gate taken? */
static bool place_gate(struct probe_cuda *c, struct trial *t)
{
	if (!c->cu.stream_mem_ops || !c->cu.host_register)
		return !refused(
			t, FM_CU_ERROR_NOT_SUPPORTED, "the driver has no stream memory operations");
	atomic_store(&t->words->gate, 1);
	if (refused(t, c->cu.host_register(t->words, PAGE, FM_CU_HOST_REGISTER_DEVICEMAP),
		    "the driver cannot register memory"))
		return false;
	return !refused(t, enqueue_gate(c, t), "the driver refuses stream memory operations");
}

/* Does the stream stand at it, and go on? */
static bool pass_gate(struct trial *t)
{
	bool stalled, finished;

	stalled = await(&t->words->waiting, FINISH_NS) && !await(&t->words->passed, STALL_NS);
	atomic_store(&t->words->gate, 0);
	finished = await(&t->words->passed, FINISH_NS);
	if (!finished)
		t->refused = "a stream did not go on when its gate opened";
	else if (!stalled)
		t->refused = "streams do not stall at a closed gate";
	return finished && stalled;
}

/* Where there are no gates launches are held back, by how far events say that the device is. */
static bool track(struct probe_cuda *c, struct trial *t)
{
	const struct timespec pause = fm_timespec(100 * FM_US);
	uint64_t end = fm_now() + FINISH_NS;
	fm_cu_result rc;
	CUevent e;

	rc = c->cu.event_create ? c->cu.event_create(&e, FM_CU_EVENT_DEFAULT)
				: FM_CU_ERROR_NOT_SUPPORTED;
	rc = rc ? rc : c->cu.event_record(e, t->stream);
	while (!rc && (rc = c->cu.event_query(e)) == FM_CU_ERROR_NOT_READY && fm_now() < end) {
		nanosleep(&pause, NULL);
		rc = 0;
	}
	return !rc;
}

/* Returns the deepest level. */
static int try_levels(struct probe_cuda *c, CUdevice d, struct trial *t)
{
	CUcontext ctx;

	t->words = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (t->words == MAP_FAILED ||
		refused(t, probe_cuda_open(c, d, &ctx, &t->stream), "no context can be made"))
		return 0;
	if (place_gate(c, t)) {
		if (!pass_gate(t))
			return 0;
		snprintf(t->text, sizeof(t->text),
			"streams stall at a closed gate and go on when it opens");
		return 2;
	}
	return track(c, t) ? 1 : 0;
}

/* A page that this process can only read, of a memory file: as fermatad makes one. */
static void *map_read_only(void)
{
	FM_CLEAN_FD int fd = memfd_create("fermata-probe", MFD_CLOEXEC), reader = -1;
	char path[32];
	void *p;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (fd < 0 || ftruncate(fd, PAGE))
		return NULL;
	reader = open(path, O_RDONLY | O_CLOEXEC);
	p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, reader, 0);
	return p == MAP_FAILED ? NULL : p;
}

/* Strict mode: does a stream wait there? It is zero, so that it goes on at once. */
static fm_cu_result wait_read_only(struct probe_cuda *c, struct trial *t, void *page)
{
	unsigned flags = FM_CU_HOST_REGISTER_DEVICEMAP | FM_CU_HOST_REGISTER_READ_ONLY;
	union fm_cu_mem_op ops[2] = {{.pad = {0}}, {.pad = {0}}};
	CUdeviceptr d;
	fm_cu_result rc = c->cu.host_register(page, PAGE, flags);

	rc = rc ? rc : c->cu.host_device_pointer(&d, page, 0);
	if (rc)
		return rc;
	atomic_store(&t->words->passed, 0);
	ops[0].op.operation = FM_CU_OP_WAIT_VALUE_32;
	ops[0].op.address = d;
	ops[0].op.flags = FM_CU_WAIT_VALUE_EQ;
	ops[1].op.operation = FM_CU_OP_WRITE_VALUE_32;
	ops[1].op.address = (uintptr_t)&t->words->passed;
	ops[1].op.value = 1;
	rc = c->cu.stream_mem_ops(t->stream, FM_ARRAY_LEN(ops), ops, 0);
	return rc || await(&t->words->passed, FINISH_NS) ? rc : FM_CU_ERROR_NOT_READY;
}

static void try_strict(struct probe_cuda *c, FILE *out, struct trial *t)
{
	void *page = map_read_only();
	fm_cu_result rc;

	if (!page || !c->cu.host_device_pointer)
		return;
	rc = wait_read_only(c, t, page);
	probe_tell(out, json_pack("{s:s, s:b, s:s}", "step", "strict", "works", !rc, "error",
				rc ? probe_cuda_error(c, rc) : ""));
}

/* The smallest there is: does a stream in it run? */
static const char *use_partition(
	struct probe_cuda *c, CUdevice d, const struct fm_cu_green *g, struct fm_cu_partition *p)
{
	struct trial t = {.refused = NULL};
	int code = 0, rc = fm_cu_partition(p, g, d, 1, &code);
	bool runs;

	if (rc)
		return code ? probe_cuda_error(c, code) : "it has too few multiprocessors";
	code = g->stream_create(&t.stream, p->green, FM_CU_STREAM_NON_BLOCKING, 0);
	runs = !code && track(c, &t);
	g->destroy(p->green);
	g->destroy(p->rest);
	return runs ? NULL : code ? probe_cuda_error(c, code) : "a stream in one does not run";
}

static void try_partition(struct probe_cuda *c, FILE *out, CUdevice d)
{
	struct fm_cu_partition p = {0};
	struct fm_cu_green g;
	const char *error = fm_cu_green_load(&g, probe_cuda_symbol)
				    ? use_partition(c, d, &g, &p)
				    : "the driver has no green contexts";

	probe_tell(out, json_pack("{s:s, s:s, s:i, s:i}", "step", "partition", "error",
				error ? error : "", "sms", (int)p.sms, "rest", (int)p.rest_sms));
}

static void tell_refused(struct probe_cuda *c, FILE *out, struct trial *t, int deepest)
{
	if (!t->refused)
		return;
	snprintf(t->text, sizeof(t->text), "%s%s%s%s%s", t->refused, t->rc ? " (" : "",
		t->rc ? probe_cuda_error(c, t->rc) : "", t->rc ? ")" : "",
		deepest ? "; launches are held back instead" : "");
	probe_tell(out,
		json_pack("{s:s, s:s, s:i}", "step", "gates", "refused", t->text, "code", t->rc));
}

static void try_device(struct probe_cuda *c, FILE *out, CUdevice d, const char *version)
{
	struct trial t = {.text = "memory is short"};
	json_t *levels = json_array();
	char name[256] = "-";
	int deepest, shared = 0;

	c->device_name(name, sizeof(name) - 1, d);
	probe_tell(out, json_pack("{s:s, s:s, s:s, s:s, s:s}", "step", "device", "name", name,
				"platform", "CUDA", "version", version, "type", "gpu"));
	deepest = try_levels(c, d, &t);
	tell_refused(c, out, &t, deepest);
	for (int l = 1; l <= deepest; l++)
		json_array_append_new(levels, json_integer(l));
	probe_tell(out,
		json_pack("{s:s, s:o, s:s}", "step", "levels", "levels", levels, "text", t.text));
	if (deepest == 2)
		try_strict(c, out, &t);
	if (deepest == 2)
		probe_cuda_sets(c, out);
	if (deepest)
		try_partition(c, out, d);
	if (c->cu.device_get_attribute &&
		!c->cu.device_get_attribute(&shared, FM_CU_ATTRIBUTE_MPS_ENABLED, d) && shared)
		probe_tell(out, json_pack("{s:s}", "step", "shared"));
}

static void tell_error(struct probe_cuda *c, FILE *out, fm_cu_result rc)
{
	probe_tell(out, json_pack("{s:s, s:s+, s:i}", "step", "cuda", "error",
				"it does not start: ", probe_cuda_error(c, rc), "code", rc));
}

int probe_cuda_start(struct probe_cuda *c, FILE *out)
{
	fm_cu_result rc = c->init(0);
	int n = 0;

	rc = rc ? rc : c->device_count(&n);
	if (!rc && n > 0)
		return n < PROBE_DEVICES ? n : PROBE_DEVICES;
	tell_error(c, out, rc ? rc : NO_DEVICE);
	return 0;
}

void tool_cuda_probe(FILE *out)
{
	struct probe_cuda c = {0};
	char version[32] = "-";
	int v = 0, n, groups;

	if (!probe_cuda_load(&c, out))
		return;
	n = probe_cuda_start(&c, out);
	if (!n)
		return;
	if (!c.driver_version(&v))
		snprintf(version, sizeof(version), "%d.%d", v / 1000, v % 1000 / 10);
	probe_tell(
		out, json_pack("{s:s, s:s, s:i}", "step", "cuda", "version", version, "number", v));
	for (CUdevice d = 0; d < n; d++)
		try_device(&c, out, d, version);
	groups = fm_cu_timeslice_try();
	probe_tell(out, json_pack("{s:s, s:i, s:b}", "step", "slices", "groups",
				groups > 0 ? groups : 0, "refused", groups < 0));
}
