/* SPDX-License-Identifier: Apache-2.0 */
/* Trying what the management of memory needs of CUDA's devices, in a probe's process: memory that
 * is made, mapped and given back at addresses of ours, copies between it and the host, and the
 * digests by which unchanged memory is known. At most one chunk of the device and half as much of
 * the host are taken, and less where there is little. Nothing here waits for the device without a
 * limit; what the device may still use is left to the end of the process. */
#include "api/cuda/core/cuda.h"
#include "api/cuda/core/memory/able.h"
#include "api/cuda/core/memory/chunk.h"
#include "api/cuda/core/memory/digests.h"
#include "api/cuda/core/memory/host.h"
#include "base/pci.h"
#include "base/util.h"
#include "probe_cuda.h"
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <string.h>

#define COPY_PAGES   32u
#define DIGEST_PAGES 2u
#define SHARE        4 /* of what is left, one part at most is taken */

struct trial {
	struct probe_cuda *c;
	CUdevice dev;
	CUstream stream;
	size_t left, total; /* memory of the device: 0: not known */
	CUdeviceptr at;
	size_t addresses, granularity;
	unsigned pages;
	unsigned long long handle;
	uint64_t map_ns, unmap_ns, in_ns, out_ns;
	const char *refused; /* NULL: nothing was */
	int code;
};

static bool done(struct trial *t, fm_cu_result rc, const char *what)
{
	if (rc) {
		t->refused = what;
		t->code = rc;
	}
	return !rc;
}

static size_t size_of(const struct trial *t)
{
	return t->pages * FM_CU_PAGE;
}

/* --- chunks --- */

static unsigned pages_of(uint64_t left)
{
	uint64_t pages = left / SHARE / FM_CU_PAGE;

	return pages ? (unsigned)FM_MIN(pages, (uint64_t)FM_CU_CHUNK_PAGES) : 1;
}

static void look(struct trial *t)
{
	fm_cu_result (*info)(size_t * left, size_t * total) = NULL;

	*(void **)&info = probe_cuda_symbol("cuMemGetInfo_v2");
	if (!info || info(&t->left, &t->total))
		t->left = t->total = 0;
	t->pages = FM_CU_CHUNK_PAGES;
	if (t->total)
		t->pages = pages_of(t->left);
}

static struct fm_cu_memory_kind kind_of(const struct trial *t)
{
	return (struct fm_cu_memory_kind){
		.type = FM_CU_MEMORY_PINNED, .location = {FM_CU_LOCATION_DEVICE, t->dev}};
}

/* Chunks are multiples of pages, and the driver's unit must be so, too. */
static bool is_granular(struct trial *t)
{
	fm_cu_result (*ask)(size_t * n, const struct fm_cu_memory_kind *kind, int wish) = NULL;
	const struct fm_cu_memory_kind kind = kind_of(t);
	fm_cu_result rc = FM_CU_ERROR_NOT_SUPPORTED;

	*(void **)&ask = probe_cuda_symbol("cuMemGetAllocationGranularity");
	if (ask)
		rc = ask(&t->granularity, &kind, 0);
	if (!done(t, rc, "the driver does not tell in which units memory is made"))
		return false;
	return done(t,
		!t->granularity || FM_CU_PAGE % t->granularity ? FM_CU_ERROR_NOT_SUPPORTED : 0,
		"the units in which memory is made are larger than 2 MiB");
}

/* What the device does not have, half of it may be. */
static bool make(struct trial *t)
{
	const struct fm_cu_memory_kind kind = kind_of(t);
	fm_cu_result rc;

	while ((rc = t->c->cu.mem_create(&t->handle, size_of(t), &kind, 0)) ==
			FM_CU_ERROR_OUT_OF_MEMORY &&
		t->pages > 1)
		t->pages /= 2;
	return done(t, rc, "the driver makes no memory apart from addresses");
}

static bool map(struct trial *t)
{
	const struct fm_cu_memory_access access = {
		{FM_CU_LOCATION_DEVICE, t->dev}, FM_CU_MEMORY_READ_WRITE};
	const struct fm_cu_driver *cu = &t->c->cu;
	uint64_t begin = fm_now();
	bool mapped;

	if (!make(t))
		return false;
	mapped = done(t, cu->mem_map(t->at, size_of(t), 0, t->handle, 0),
			 "the driver cannot map memory") &&
		 done(t, cu->mem_access(t->at, size_of(t), &access, 1),
			 "the driver gives no access to memory that is mapped");
	t->map_ns = fm_now() - begin;
	return mapped;
}

static bool unmap(struct trial *t)
{
	const struct fm_cu_driver *cu = &t->c->cu;
	uint64_t begin = fm_now();
	bool unmapped;

	unmapped = done(t, cu->mem_unmap(t->at, size_of(t)), "the driver cannot unmap memory") &&
		   done(t, cu->mem_release(t->handle), "the driver does not take memory back");
	t->unmap_ns = fm_now() - begin;
	return unmapped;
}

/* --- NVML --- */

struct nvml_memory { /* nvmlMemory_v2_t */
	unsigned version;
	unsigned long long total, reserved, left, used;
};
#define NVML_VERSION ((unsigned)sizeof(struct nvml_memory) | 2u << 24)

static bool nvml_memory(const char *key, struct nvml_memory *m)
{
	static void *lib;
	int (*init)(void) = NULL, (*open_device)(const char *, void **) = NULL;
	int (*info)(void *, struct nvml_memory *) = NULL;
	void *dev;

	lib = lib ? lib : dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!lib)
		return false;
	*(void **)&init = dlsym(lib, "nvmlInit_v2");
	*(void **)&open_device = dlsym(lib, "nvmlDeviceGetHandleByUUID");
	*(void **)&info = dlsym(lib, "nvmlDeviceGetMemoryInfo_v2");
	*m = (struct nvml_memory){.version = NVML_VERSION};
	return init && open_device && info && !init() && !open_device(key, &dev) && !info(dev, m);
}

static void compare(struct trial *t, FILE *out)
{
	struct nvml_memory m;
	char key[64];

	if (!t->total || !fm_cu_device_key_of(&t->c->cu, t->dev, key, sizeof(key)) ||
		!nvml_memory(key, &m))
		return;
	probe_tell(
		out, json_pack("{s:s, s:I, s:I, s:I, s:I}", "step", "nvml", "total",
			     (json_int_t)t->total, "used", (json_int_t)(t->total - t->left),
			     "nvml_used", (json_int_t)m.used, "reserved", (json_int_t)m.reserved));
}

/* --- copies --- */

/* False: it has failed, or may still be under way. */
static bool finish(struct trial *t, const char *what)
{
	uint64_t end = fm_now() + PROBE_FINISH_NS;
	fm_cu_result rc;

	while ((rc = t->c->cu.stream_query(t->stream)) == FM_CU_ERROR_NOT_READY && fm_now() < end)
		sched_yield();
	return done(t, rc, what);
}

static bool copy(struct trial *t, char *host, size_t size, bool in, uint64_t *ns)
{
	static const char *const what[] = {
		"a copy from the device failed", "a copy to the device failed"};
	const struct fm_cu_driver *cu = &t->c->cu;
	uint64_t begin = fm_now();
	bool copied;

	copied = done(t,
			 in ? cu->copy_to_device(t->at, host, size, t->stream)
			    : cu->copy_to_host(host, t->at, size, t->stream),
			 what[in]) &&
		 finish(t, what[in]);
	*ns = fm_now() - begin;
	return copied;
}

static void draw(char *p, size_t size)
{
	uint64_t x = 88172645463325252u;

	for (size_t i = 0; i < size; i += sizeof(x)) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		memcpy(p + i, &x, sizeof(x));
	}
}

/* The digest looks at the rest. */
static bool begins_as_drawn(const char *p)
{
	char part[4096];

	draw(part, sizeof(part));
	return !memcmp(p, part, sizeof(part));
}

/* The first copies make what a driver keeps for copies. */
static bool copy_both_ways(struct trial *t, const struct fm_cu_host_run *run, FILE *out)
{
	char *host = fm_cu_host_at(run);
	size_t size = run->pages * FM_CU_PAGE,
	       drawn = FM_MIN(run->pages, DIGEST_PAGES) * FM_CU_PAGE;
	bool copied;

	draw(host, drawn);
	copied = copy(t, host, FM_CU_PAGE, true, &t->in_ns) &&
		 copy(t, host, FM_CU_PAGE, false, &t->out_ns) &&
		 copy(t, host, size, true, &t->in_ns);
	if (copied)
		memset(host, 0, drawn);
	copied = copied && copy(t, host, size, false, &t->out_ns);
	if (copied && !begins_as_drawn(host)) {
		t->refused = "what was copied to the device comes back as something else";
		copied = false;
	}
	probe_tell(out,
		json_pack("{s:s, s:s, s:s, s:I, s:f, s:f}", "step", "copies", "refused",
			copied ? "" : t->refused, "error",
			t->code ? probe_cuda_error(t->c, t->code) : "", "bytes", (json_int_t)size,
			"in", (double)size / (double)FM_MAX(t->in_ns, (uint64_t)1), "out",
			(double)size / (double)FM_MAX(t->out_ns, (uint64_t)1)));
	return copied;
}

/* False: the device may still be at work. */
static bool try_digest(struct trial *t, const struct fm_cu_host_run *run, FILE *out)
{
	struct fm_cu_digests *d = fm_cu_digests_create(&t->c->cu);
	int rc = d ? fm_cu_digests_try(
			     d, t->at, fm_cu_host_at(run), FM_MIN(run->pages, DIGEST_PAGES))
		   : -EOPNOTSUPP;

	probe_tell(out, json_pack("{s:s, s:s, s:b}", "step", "digest", "refused",
				!rc                 ? ""
				: rc == -EOPNOTSUPP ? "the driver does not load the kernel"
				: rc == -EILSEQ ? "the device computes another than the processor"
				: rc == -EBUSY  ? "the kernel does not end"
						: "the kernel failed",
				"wrong", rc == -EILSEQ));
	if (rc == -EBUSY)
		return false;
	fm_cu_digests_end(d, false);
	return true;
}

/* Where the host has no room, half of what is wished may do. */
static bool take_host(struct trial *t, struct fm_cu_host_pool *pool, struct fm_cu_host_run *run)
{
	struct fm_cu_host_room room = fm_cu_host_room();
	uint64_t left = FM_MIN(room.machine, room.cgroup);
	unsigned most = FM_MIN(t->pages, COPY_PAGES), pages = FM_MIN(pages_of(left), most);

	for (; pages; pages /= 2)
		if (!fm_cu_host_take(pool, &t->c->cu, pages, run))
			return true;
	return false;
}

/* False: the device may still use the memory. */
static bool try_copies(struct trial *t, FILE *out)
{
	struct fm_cu_host_pool pool;
	struct fm_cu_host_run run;
	char bus[16];
	bool ended;

	fm_cu_host_init(&pool, fm_cu_memory_host_most());
	fm_cu_device_bus_of(&t->c->cu, t->dev, bus, sizeof(bus));
	pool.node = fm_pci_node(bus);
	if (!take_host(t, &pool, &run)) {
		probe_tell(out, json_pack("{s:s, s:s, s:s, s:b}", "step", "copies", "refused",
					"no memory of the host can be taken and registered",
					"error", "", "host", true));
		return true;
	}
	if (pool.node >= 0)
		probe_tell(out, json_pack("{s:s, s:i, s:I, s:I}", "step", "node", "node", pool.node,
					"bytes", (json_int_t)pool.bytes, "strayed",
					(json_int_t)atomic_load(&pool.strayed)));
	ended = copy_both_ways(t, &run, out) && try_digest(t, &run, out);
	if (ended) {
		fm_cu_host_give(&pool, &run);
		fm_cu_host_trim(&pool, &t->c->cu);
	}
	return ended;
}

/* --- from the host --- */

static bool map_host(struct trial *t)
{
	const struct fm_cu_memory_access access = {
		{FM_CU_LOCATION_DEVICE, t->dev}, FM_CU_MEMORY_READ_WRITE};
	const struct fm_cu_driver *cu = &t->c->cu;

	return done(t, fm_cu_memory_on_host(cu, t->dev, size_of(t), &t->handle),
		       "the driver makes no memory of the host for it") &&
	       done(t, cu->mem_map(t->at, size_of(t), 0, t->handle, 0),
		       "the driver cannot map memory of the host") &&
	       done(t, cu->mem_access(t->at, size_of(t), &access, 1),
		       "the driver gives no access to memory of the host");
}

/* The device writes it all, at the second time against the clock; and it can be copied. */
static bool use_host(struct trial *t, uint64_t *ns)
{
	static const char what[] = "the device does not reach memory of the host";
	const struct fm_cu_driver *cu = &t->c->cu;
	char page[FM_CU_PAGE / 512];
	uint64_t begin = 0;

	for (unsigned i = 0; i < 2; i++) {
		begin = fm_now();
		if (!done(t, cu->fill(t->at, i, size_of(t) / 4, t->stream), what) ||
			!finish(t, what))
			return false;
	}
	*ns = fm_now() - begin;
	draw(page, sizeof(page));
	if (!copy(t, page, sizeof(page), true, &begin))
		return false;
	memset(page, 0, sizeof(page));
	return copy(t, page, sizeof(page), false, &begin) &&
	       done(t, begins_as_drawn(page) ? 0 : FM_CU_ERROR_INVALID_VALUE,
		       "what is copied to memory of the host comes back as something else");
}

static void try_host(struct trial *t, FILE *out)
{
	uint64_t ns = 1;
	bool works;

	t->pages = FM_MIN(t->pages, COPY_PAGES);
	works = fm_cu_host_has_room(size_of(t), 0)
			? map_host(t) && use_host(t, &ns) && unmap(t)
			: done(t, FM_CU_ERROR_OUT_OF_MEMORY, "the host has no room");
	probe_tell(out, json_pack("{s:s, s:s, s:s, s:I, s:f}", "step", "mapped", "refused",
				works ? "" : t->refused, "error",
				works ? "" : probe_cuda_error(t->c, t->code), "bytes",
				(json_int_t)size_of(t), "out",
				(double)size_of(t) / (double)FM_MAX(ns, (uint64_t)1)));
}

/* --- devices --- */

/* Twice, for the first time costs more. */
static bool try_chunks(struct trial *t, enum fm_cu_memory_able able)
{
	fm_cu_result rc = able == FM_CU_MEMORY_NO_VMM ? FM_CU_ERROR_NOT_SUPPORTED : FM_CU_SUCCESS;

	if (!done(t, rc, "the driver has no virtual memory management for it") || !is_granular(t))
		return false;
	if (fm_cu_memory_reserve(&t->c->cu, &t->at, &t->addresses))
		return done(t, FM_CU_ERROR_OUT_OF_MEMORY, "there are no addresses for it");
	return map(t) && unmap(t) && map(t) && unmap(t);
}

static void try_device(struct trial *t, FILE *out)
{
	enum fm_cu_memory_able able;
	CUcontext ctx;
	bool works;

	works = done(t, probe_cuda_open(t->c, t->dev, &ctx, &t->stream), "no context can be made");
	if (works) {
		look(t);
		compare(t, out);
	}
	able = works ? fm_cu_memory_able(&t->c->cu, t->dev) : FM_CU_MEMORY_ABLE;
	if (able == FM_CU_MEMORY_SHARED) {
		probe_tell(out, json_pack("{s:s}", "step", "shared"));
		return;
	}
	works = works && try_chunks(t, able);
	probe_tell(
		out, json_pack("{s:s, s:s, s:s, s:i, s:I, s:I, s:I, s:I, s:I, s:I}", "step", "vmm",
			     "refused", works ? "" : t->refused, "error",
			     works ? "" : probe_cuda_error(t->c, t->code), "code", t->code, "bytes",
			     (json_int_t)size_of(t), "unit", (json_int_t)t->granularity,
			     "addresses", (json_int_t)t->addresses, "total", (json_int_t)t->total,
			     "map_ns", (json_int_t)t->map_ns, "unmap_ns", (json_int_t)t->unmap_ns));
	if (works && map(t) && try_copies(t, out) && unmap(t))
		try_host(t, out);
}

void tool_cuda_probe_memory(FILE *out)
{
	struct probe_cuda c = {0};
	int n = probe_cuda_load(&c, out) ? probe_cuda_start(&c, out) : 0;

	for (CUdevice d = 0; d < n; d++) {
		struct trial t = {.c = &c, .dev = d};
		char name[256] = "-";

		c.device_name(name, sizeof(name) - 1, d);
		probe_tell(out, json_pack("{s:s, s:s}", "step", "device", "name", name));
		try_device(&t, out);
	}
}
