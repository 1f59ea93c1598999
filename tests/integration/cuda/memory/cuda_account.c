/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA program that allocates memory of all kinds, and looks in the ledger of its own process
 * whether each counts as what it is, and no more when it has ended. It is to be run with a limit of
 * 256 MiB, on the fake driver.
 *
 * usage: [--via HOW] [--ptds] CASE... | serve | smi
 * smi: asks NVML alone, and prints what is free, used and there, in MiB
 * serve: obeys lines on stdin: "alloc MIB", "free" (the last one), "load" (code with 5 MiB of
 *     variables), "unload", "info"; answers by a line
 */
#include "../../../fakes/nvml/nvml.h"
#include "../cuda_conform.h"
#include "board/ledger.h"
#include <sys/wait.h>

#define MIB   ((size_t)1 << 20)
#define LIMIT (256 * MIB)
/* What the fake device has for one, FAKE_CUDA_CONTEXT. */
#define CONTEXT (20 * MIB)

static CUdevice dev;
static CUcontext ctx;
static const struct fm_ledger_device *row;
static uint64_t limit; /* LIMIT, or all of a smaller device */

/* The first row of the ledger, which is mapped somewhere. NULL: the program runs natively. */
static const struct fm_ledger_device *find_row(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	const struct fm_ledger *found = NULL;
	char line[512];

	while (maps && !found && fgets(line, sizeof(line), maps))
		if (strstr(line, "/memfd:fermata-ledger"))
			found = (const void *)(uintptr_t)strtoull(line, NULL, 16);
	if (maps)
		fclose(maps);
	return found ? &found->device[0] : NULL;
}

static void open_device(void)
{
	CUdeviceptr d;

	CU(cuInit(0));
	CU(cuDeviceGet(&dev, 0));
	CU(cuDevicePrimaryCtxRetain(&ctx, dev));
	CU(cuCtxSetCurrent(ctx));
	CU(cuMemAlloc_v2(&d, 2 * MIB)); /* from the first on there is a ledger */
	CU(cuMemFree_v2(d));
	row = find_row();
	limit = row && atomic_load(&row->capacity) < LIMIT ? atomic_load(&row->capacity) : LIMIT;
}

static uint64_t is_kind(enum fm_mem_kind kind)
{
	return atomic_load(&row->kind[kind]);
}

#define CHECK(x)                                              \
	do {                                                  \
		if (!(x))                                     \
			die("line %d: not %s", __LINE__, #x); \
	} while (0)
#define COUNTS(kind, bytes) counts(kind, bytes, __LINE__)

/* That kind counts so much; all of them, contexts apart, the same; and the program is told so. */
static void counts(enum fm_mem_kind kind, uint64_t bytes, int line)
{
	uint64_t all, sum = 0;
	size_t left, total;

	CU(cuMemGetInfo_v2(&left, &total));
	all = atomic_load(&row->claimed) - is_kind(FM_MEM_CONTEXT);
	for (unsigned k = 0; k < FM_MEM_KINDS; k++)
		sum += k == FM_MEM_CONTEXT ? 0 : is_kind((enum fm_mem_kind)k);
	if (is_kind(kind) != bytes || all != bytes || sum != bytes)
		die("line %d: kind %u counts %lu, all %lu, their sum %lu: not %lu", line, kind,
			(unsigned long)is_kind(kind), (unsigned long)all, (unsigned long)sum,
			(unsigned long)bytes);
	if (total != limit || left != limit - atomic_load(&row->claimed))
		die("line %d: told of %zu of %zu", line, left, total);
}

static const struct cu_chunk_prop on_device = {
	.type = CU_CHUNK_PINNED, .location = {.type = CU_LOCATION_DEVICE}, .handles = CU_HANDLE_FD};

/* --- kinds --- */

static void plain(void)
{
	CUdeviceptr d, e;
	size_t pitch;

	CU(cuMemAlloc_v2(&d, 3 * MIB));
	COUNTS(FM_MEM_PLAIN, 4 * MIB);
	CU(cuMemAllocPitch_v2(&e, &pitch, 5000, 1000, 4));
	CHECK(pitch >= 5000);
	COUNTS(FM_MEM_PLAIN, 4 * MIB + (pitch * 1000 + 2 * MIB - 1) / (2 * MIB) * (2 * MIB));
	CU(cuMemFree_v2(e));
	CU(cuMemFree_v2(d));
	COUNTS(FM_MEM_PLAIN, 0);
	CU(cuMemAllocManaged(&d, 5 * MIB, 1));
	COUNTS(FM_MEM_MANAGED, 6 * MIB);
	CU(cuMemFree_v2(d));
	COUNTS(FM_MEM_MANAGED, 0);
}

/* Small ones count by the 2 MiB of addresses that they are in. */
static void small(void)
{
	uint64_t in[300] = {0};
	CUdeviceptr d[300];
	unsigned n = 0;

	for (unsigned i = 0; i < 300; i++) {
		bool again = false;

		CU(cuMemAlloc_v2(&d[i], 100000));
		for (unsigned k = 0; k < n; k++)
			again |= in[k] == d[i] / (2 * MIB);
		if (!again)
			in[n++] = d[i] / (2 * MIB);
		COUNTS(FM_MEM_SMALL, n * 2 * MIB);
	}
	for (unsigned i = 0; i < 300; i++)
		CU(cuMemFree_v2(d[i]));
	COUNTS(FM_MEM_SMALL, 0);
}

static void arrays(void)
{
	const struct cu_array_2d flat = {1000, 1000, 0x20, 1};
	const struct cu_array deep = {1024, 1024, 0, 0x20, 4, 0};
	CUmipmappedArray mip;
	CUarray a, b;

	CU(cuArrayCreate_v2(&a, &flat)); /* lines of 4032 bytes, 1024 of them */
	COUNTS(FM_MEM_ARRAY, 4 * MIB);
	CU(cuArray3DCreate_v2(&b, &deep));
	COUNTS(FM_MEM_ARRAY, 20 * MIB);
	CU(cuMipmappedArrayCreate(&mip, &deep, 8));
	COUNTS(FM_MEM_ARRAY, 42 * MIB);
	CU(cuMipmappedArrayDestroy(mip));
	CU(cuArrayDestroy(b));
	CU(cuArrayDestroy(a));
	COUNTS(FM_MEM_ARRAY, 0);
}

static uint64_t reserved(CUmemoryPool pool)
{
	uint64_t n;

	CU(cuMemPoolGetAttribute(pool, CU_POOL_RESERVED, &n));
	return n;
}

/* What pools have reserved counts, also what the program has freed. */
static void pools(void)
{
	struct cu_pool_prop prop = {.type = CU_CHUNK_PINNED, .location = {CU_LOCATION_DEVICE, 0}};
	uint64_t keep = UINT64_MAX;
	CUmemoryPool pool, own;
	CUdeviceptr d, e, f;
	CUstream s;

	CU(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	CU(cuDeviceGetDefaultMemPool(&pool, dev));
	CU(cuMemAllocAsync(&d, 5 * MIB, s));
	COUNTS(FM_MEM_POOL, reserved(pool));
	CHECK(reserved(pool) >= 5 * MIB);
	CU(cuMemPoolSetAttribute(pool, CU_POOL_THRESHOLD, &keep));
	CU(cuMemFreeAsync(d, s));
	CU(cuStreamSynchronize(s));
	CHECK(reserved(pool) >= 5 * MIB);
	COUNTS(FM_MEM_POOL, reserved(pool));
	CU(cuMemPoolTrimTo(pool, 0));
	CHECK(reserved(pool) == 0);
	COUNTS(FM_MEM_POOL, 0);
	CU(cuMemPoolCreate(&own, &prop));
	CU(cuMemAllocFromPoolAsync(&d, 3 * MIB, own, s));
	CU(cuMemAllocFromPoolAsync(&f, 100, own, s));
	CU(cuMemAllocAsync(&e, 7 * MIB, s));
	COUNTS(FM_MEM_POOL, reserved(pool) + reserved(own));
	CU(cuMemFree_v2(e)); /* that way as well */
	CU(cuMemFreeAsync(d, s));
	CU(cuStreamSynchronize(s));
	CU(cuMemPoolTrimTo(pool, 0));
	CU(cuMemPoolDestroy(own));
	CHECK(is_kind(FM_MEM_POOL) >= 100); /* it lives on with what is in use */
	CU(cuMemFreeAsync(f, s));
	CU(cuStreamSynchronize(s));
	COUNTS(FM_MEM_POOL, 0);
	CU(cuMemAlloc_v2(&d, 4 * MIB)); /* and so is this freed in a stream's order */
	CU(cuMemFreeAsync(d, s));
	CU(cuStreamDestroy_v2(s));
	COUNTS(FM_MEM_PLAIN, 0);
}

static void graphs(void)
{
	struct cu_alloc_node what = {
		.pool = {.type = CU_CHUNK_PINNED, .location = {CU_LOCATION_DEVICE, 0}},
		.size = 10 * MIB};
	CUgraphNode a, b;
	CUgraphExec exec;
	CUgraph graph;
	uint64_t n;

	CU(cuGraphCreate(&graph, 0));
	CU(cuGraphAddMemAllocNode(&a, graph, NULL, 0, &what));
	CU(cuGraphAddMemFreeNode(&b, graph, &a, 1, what.d));
	COUNTS(FM_MEM_GRAPH, 0);
	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CU(cuGraphLaunch(exec, NULL));
	CU(cuStreamSynchronize(NULL));
	CU(cuDeviceGetGraphMemAttribute(dev, CU_GRAPH_RESERVED, &n));
	CHECK(n >= 10 * MIB);
	COUNTS(FM_MEM_GRAPH, n);
	what.size = LIMIT + 1;
	CHECK(cu.cuGraphAddMemAllocNode(&a, graph, NULL, 0, &what) == CU_OUT_OF_MEMORY);
	CU(cuGraphExecDestroy(exec));
	CU(cuGraphDestroy(graph));
	CU(cuDeviceGraphMemTrim(dev));
	COUNTS(FM_MEM_GRAPH, 0);
}

/* It lives until it is released as often as there are handles, and is mapped nowhere. */
static void handles(void)
{
	cu_chunk h, again, other;
	CUdeviceptr at;

	CU(cuMemCreate(&h, 4 * MIB, &on_device, 0));
	COUNTS(FM_MEM_VMM, 4 * MIB);
	CU(cuMemAddressReserve(&at, 16 * MIB, 0, 0, 0));
	CU(cuMemMap(at, 4 * MIB, 0, h, 0));
	CU(cuMemMap(at + 4 * MIB, 4 * MIB, 0, h, 0));
	CU(cuMemCreate(&other, 2 * MIB, &on_device, 0));
	CU(cuMemMap(at + 8 * MIB, 2 * MIB, 0, other, 0));
	COUNTS(FM_MEM_VMM, 6 * MIB);
	CU(cuMemRelease(h));
	CU(cuMemRelease(other));
	COUNTS(FM_MEM_VMM, 6 * MIB);
	CU(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)at));
	CU(cuMemUnmap(at, 10 * MIB));
	COUNTS(FM_MEM_VMM, 4 * MIB);
	CU(cuMemRelease(again));
	COUNTS(FM_MEM_VMM, 0);
	CU(cuMemCreate(&h, 2 * MIB, &on_device, 0));
	CHECK(cu.cuMemRelease(h + 12345) != FM_CU_SUCCESS);
	COUNTS(FM_MEM_VMM, 2 * MIB);
	CU(cuMemRelease(h));
	COUNTS(FM_MEM_VMM, 0);
	CU(cuMemAddressFree(at, 16 * MIB));
}

#define CODE(variables)                                             \
	".version 8.0\n.target sm_80\n.address_size 64\n" variables \
	".visible .entry nothing()\n{\n\tret;\n}\n"
#define LARGE CODE(".visible .global .align 4 .b8 large[5242880];\n")
/* Aligned as nothing is: we do not understand it. */
#define ODD CODE(".visible .global .align 8192 .b8 odd[3145728];\n")

/* Variables of code are there while it is loaded, whether anybody asks where they are. */
static void globals(void)
{
	CUmodule a, b;
	CUdeviceptr d;
	size_t size;

	CU(cuModuleLoadData(&a, CODE("")));
	COUNTS(FM_MEM_GLOBAL, 0);
	CU(cuModuleUnload(a));
	CU(cuModuleLoadData(&a, LARGE));
	COUNTS(FM_MEM_GLOBAL, 6 * MIB);
	CU(cuModuleGetGlobal_v2(&d, &size, a, "large"));
	CHECK(size == 5 * MIB);
	COUNTS(FM_MEM_GLOBAL, 6 * MIB);
	CU(cuModuleLoadDataEx(&b, CODE(".const .align 4 .u32 few[100];\n"), 0, NULL, NULL));
	COUNTS(FM_MEM_GLOBAL, 6 * MIB + 512);
	CU(cuModuleUnload(a));
	COUNTS(FM_MEM_GLOBAL, 512);
	CU(cuModuleUnload(b));
	CHECK(cu.cuModuleUnload(b) != FM_CU_SUCCESS);
	COUNTS(FM_MEM_GLOBAL, 0);
	CU(cuModuleLoadData(&a, ODD));
	COUNTS(FM_MEM_GLOBAL, 0);
	for (int i = 0; i < 2; i++) {
		CU(cuModuleGetGlobal_v2(&d, &size, a, "odd"));
		COUNTS(FM_MEM_GLOBAL, 4 * MIB);
	}
	CU(cuModuleUnload(a));
	COUNTS(FM_MEM_GLOBAL, 0);
}

/* A library has them in each context that uses it. */
static void libraries(void)
{
	CUcontext second;
	CUlibrary l, odd;
	CUfunction f;
	CUdeviceptr d;
	size_t size;
	CUmodule m;
	CUkernel k;

	CU(cuLibraryLoadData(&l, LARGE, NULL, NULL, 0, NULL, NULL, 0));
	CU(cuLibraryLoadData(&odd, ODD, NULL, NULL, 0, NULL, NULL, 0));
	COUNTS(FM_MEM_GLOBAL, 0);
	CHECK(cu.cuLibraryGetKernel(&k, l, "none") != FM_CU_SUCCESS);
	COUNTS(FM_MEM_GLOBAL, 0);
	CU(cuLibraryGetKernel(&k, l, "nothing"));
	COUNTS(FM_MEM_GLOBAL, 6 * MIB);
	CU(cuLibraryGetModule(&m, l));
	CU(cuLibraryGetGlobal(&d, &size, l, "large"));
	COUNTS(FM_MEM_GLOBAL, 6 * MIB);
	CU(cuCtxCreate_v2(&second, 0, dev));
	CU(cuKernelGetFunction(&f, k));
	CHECK(is_kind(FM_MEM_GLOBAL) == 12 * MIB);
	CU(cuLibraryGetGlobal(&d, &size, odd, "odd"));
	CHECK(is_kind(FM_MEM_GLOBAL) == 16 * MIB);
	CU(cuCtxDestroy_v2(second));
	CU(cuCtxSetCurrent(ctx));
	COUNTS(FM_MEM_GLOBAL, 6 * MIB);
	CU(cuLibraryUnload(l));
	CU(cuLibraryUnload(odd));
	COUNTS(FM_MEM_GLOBAL, 0);
}

/* --- what is odd --- */

static void odd(void)
{
	CUdeviceptr d, untouched = 77;
	CUcontext second;

	CHECK(cu.cuMemAlloc_v2(&untouched, 0) == FM_CU_ERROR_INVALID_VALUE);
	CHECK(cu.cuMemAlloc_v2(&untouched, (size_t)1 << 63) == CU_OUT_OF_MEMORY);
	CHECK(cu.cuMemAlloc_v2(&untouched, SIZE_MAX) == CU_OUT_OF_MEMORY);
	CHECK(cu.cuMemAlloc_v2(NULL, 4096) == FM_CU_ERROR_INVALID_VALUE);
	CHECK(untouched == 77);
	COUNTS(FM_MEM_PLAIN, 0);
	CU(cuMemAlloc_v2(&d, 4 * MIB));
	CHECK(cu.cuMemFree_v2(d + 4096) == FM_CU_ERROR_INVALID_VALUE);
	CU(cuMemFree_v2(0));
	COUNTS(FM_MEM_PLAIN, 4 * MIB);
	CU(cuCtxCreate_v2(&second, 0, dev));
	COUNTS(FM_MEM_PLAIN, 4 * MIB);
	CU(cuMemFree_v2(d)); /* from another context */
	CHECK(cu.cuMemFree_v2(d) == FM_CU_ERROR_INVALID_VALUE);
	COUNTS(FM_MEM_PLAIN, 0);
	CU(cuCtxDestroy_v2(second));
	CU(cuCtxSetCurrent(ctx));
	COUNTS(FM_MEM_PLAIN, 0);
}

/* All of a context's memory ends with it, but no pool and no handle. */
static void contexts(void)
{
	const struct cu_array_2d flat = {1000, 1000, 0x20, 1};
	uint64_t one = is_kind(FM_MEM_CONTEXT);
	CUmodule module;
	CUdeviceptr d[40], kept;
	CUcontext second;
	CUarray a;
	cu_chunk h;

	CHECK(one == CONTEXT);
	CU(cuMemAlloc_v2(&kept, 2 * MIB));
	CU(cuCtxCreate_v2(&second, 0, dev));
	CHECK(is_kind(FM_MEM_CONTEXT) == 2 * one);
	for (unsigned i = 0; i < 40; i++)
		CU(cuMemAlloc_v2(&d[i], i % 2 ? 4 * MIB : 1000));
	CU(cuArrayCreate_v2(&a, &flat));
	CU(cuMemCreate(&h, 2 * MIB, &on_device, 0));
	CU(cuModuleLoadData(&module, LARGE));
	CHECK(is_kind(FM_MEM_PLAIN) == 82 * MIB && is_kind(FM_MEM_ARRAY) == 4 * MIB);
	CHECK(is_kind(FM_MEM_SMALL) >= 2 * MIB && is_kind(FM_MEM_GLOBAL) == 6 * MIB);
	CU(cuCtxDestroy_v2(second));
	CHECK(is_kind(FM_MEM_CONTEXT) == one);
	CU(cuCtxSetCurrent(ctx));
	CHECK(is_kind(FM_MEM_PLAIN) == 2 * MIB && !is_kind(FM_MEM_ARRAY));
	CHECK(!is_kind(FM_MEM_GLOBAL));
	CHECK(!is_kind(FM_MEM_SMALL) && is_kind(FM_MEM_VMM) == 2 * MIB);
	CU(cuMemRelease(h));
	CHECK(cu.cuMemFree_v2(d[1]) != FM_CU_SUCCESS);
	COUNTS(FM_MEM_PLAIN, 2 * MIB);
	CU(cuDevicePrimaryCtxReset_v2(dev));
	CHECK(!is_kind(FM_MEM_PLAIN) && !is_kind(FM_MEM_CONTEXT));
	CU(cuDevicePrimaryCtxRelease_v2(dev));
	CU(cuDevicePrimaryCtxRetain(&ctx, dev));
	CU(cuCtxSetCurrent(ctx));
	CHECK(is_kind(FM_MEM_CONTEXT) == one);
	COUNTS(FM_MEM_PLAIN, 0);
}

/* --- a limit --- */

static void full(void)
{
	const struct cu_array deep = {4096, 4096, 0, 0x20, 4, 0}; /* 256 MiB */
	struct cu_alloc_node node = {
		.pool = {.type = CU_CHUNK_PINNED, .location = {CU_LOCATION_DEVICE, 0}},
		.size = 16 * MIB};
	uint64_t refused = atomic_load(&row->refused);
	CUdeviceptr d, none = 77, one;
	size_t pitch = 78, left, total;
	CUarray array = (CUarray)&d, was = array;
	CUmodule module = (CUmodule)&d, module_was = module;
	CUlibrary library;
	CUgraphNode a;
	CUgraph graph;
	CUkernel k;
	cu_chunk h = 79;

	CU(cuMemGetInfo_v2(&left, &total));
	CU(cuMemAlloc_v2(&d, left - 4 * MIB));
	CHECK(cu.cuMemAlloc_v2(&none, 5 * MIB) == CU_OUT_OF_MEMORY);
	CHECK(cu.cuMemAllocPitch_v2(&none, &pitch, 65536, 512, 4) == CU_OUT_OF_MEMORY);
	CHECK(cu.cuMemAllocManaged(&none, 16 * MIB, 1) == CU_OUT_OF_MEMORY);
	CHECK(cu.cuMemAllocAsync(&none, 16 * MIB, NULL) == CU_OUT_OF_MEMORY);
	CHECK(cu.cuMemCreate(&h, 16 * MIB, &on_device, 0) == CU_OUT_OF_MEMORY);
	CHECK(cu.cuArray3DCreate_v2(&array, &deep) == CU_OUT_OF_MEMORY);
	CHECK(cu.cuMipmappedArrayCreate(&array, &deep, 3) == CU_OUT_OF_MEMORY);
	CU(cuGraphCreate(&graph, 0));
	CHECK(cu.cuGraphAddMemAllocNode(&a, graph, NULL, 0, &node) == CU_OUT_OF_MEMORY);
	CU(cuGraphDestroy(graph));
	CHECK(cu.cuModuleLoadData(&module, LARGE) == CU_OUT_OF_MEMORY);
	CU(cuLibraryLoadData(&library, LARGE, NULL, NULL, 0, NULL, NULL, 0));
	CHECK(cu.cuLibraryGetKernel(&k, library, "nothing") == CU_OUT_OF_MEMORY);
	CU(cuLibraryUnload(library));
	CHECK(none == 77 && pitch == 78 && h == 79 && array == was && module == module_was);
	CHECK(atomic_load(&row->refused) >= refused + 10);
	CU(cuMemAlloc_v2(&one, 4 * MIB)); /* the last byte is the program's */
	CHECK(cu.cuMemAlloc_v2(&none, 1) == CU_OUT_OF_MEMORY && none == 77);
	CU(cuMemGetInfo_v2(&left, &total));
	CHECK(!left && total == limit);
	CU(cuMemFree_v2(one));
	CU(cuMemAlloc_v2(&one, 1000)); /* which takes a granule, */
	CU(cuMemFree_v2(one));
	CU(cuMemFree_v2(d));
	COUNTS(FM_MEM_PLAIN, 0);
}

/* A pool gives back what it has not in use before anything is refused, whether the program has
 * told it to keep that, or it has done so already, and said it to nobody. */
static void pool_makes_room(void)
{
	uint64_t keep[2] = {UINT64_MAX, 0};
	CUmemoryPool pool;
	CUdeviceptr d;

	CU(cuDeviceGetDefaultMemPool(&pool, dev));
	for (unsigned i = 0; i < 2; i++) {
		CU(cuMemPoolSetAttribute(pool, CU_POOL_THRESHOLD, &keep[i]));
		CU(cuMemAllocAsync(&d, 100 * MIB, NULL));
		CU(cuMemFreeAsync(d, NULL));
		CU(cuStreamSynchronize(NULL));
		CHECK(is_kind(FM_MEM_POOL) >= 100 * MIB);
		CU(cuMemAlloc_v2(&d, 200 * MIB));
		COUNTS(FM_MEM_PLAIN, 200 * MIB);
		CU(cuMemFree_v2(d));
		COUNTS(FM_MEM_PLAIN, 0);
	}
}

/* Without a limit: there is no client before the first command, and no ledger; then all counts that
 * is there, and ends as it would have. */
static void late(void)
{
	const struct cu_array_2d flat = {1000, 1000, 0x20, 1};
	CUdeviceptr d, small_one, ordered, ended;
	CUmemoryPool pool;
	CUmodule module;
	CUarray a;
	cu_chunk h;

	CU(cuMemAlloc_v2(&ended, 6 * MIB));
	CU(cuMemAlloc_v2(&d, 4 * MIB));
	CU(cuMemAlloc_v2(&small_one, 1000));
	CU(cuArrayCreate_v2(&a, &flat));
	CU(cuMemCreate(&h, 2 * MIB, &on_device, 0));
	CU(cuMemAllocAsync(&ordered, 3 * MIB, NULL));
	CU(cuModuleLoadData(&module, LARGE));
	CU(cuMemFree_v2(ended));
	CHECK(!find_row());
	CU(cuMemsetD8_v2(d, 0, 4096));
	row = find_row();
	CHECK(row && is_kind(FM_MEM_PLAIN) == 4 * MIB && is_kind(FM_MEM_SMALL) == 2 * MIB);
	CHECK(is_kind(FM_MEM_ARRAY) == 4 * MIB && is_kind(FM_MEM_VMM) == 2 * MIB);
	CHECK(is_kind(FM_MEM_GLOBAL) == 6 * MIB);
	CU(cuModuleUnload(module));
	CHECK(is_kind(FM_MEM_POOL) >= 3 * MIB && !is_kind(FM_MEM_CONTEXT));
	CU(cuMemFree_v2(d));
	CU(cuMemFree_v2(small_one));
	CU(cuArrayDestroy(a));
	CU(cuMemRelease(h));
	CU(cuMemFreeAsync(ordered, NULL));
	CU(cuStreamSynchronize(NULL));
	CU(cuDeviceGetDefaultMemPool(&pool, dev));
	CU(cuMemPoolTrimTo(pool, 0));
	CHECK(!atomic_load(&row->claimed));
}

/* --- NVML --- */

typedef int info_fn(nvmlDevice_t d, struct nvml_memory *m);
typedef int info_v2_fn(nvmlDevice_t d, struct nvml_memory_v2 *m);

static nvmlDevice_t nvml_device(void)
{
	nvmlDevice_t d;

	CHECK(!nvmlInit_v2());
	CHECK(!nvmlDeviceGetHandleByUUID("GPU-6665726d-6174-612d-6661-6b652d677075", &d));
	return d;
}

static void nvml_tells(nvmlDevice_t d, info_fn *info, info_v2_fn *info_v2)
{
	struct nvml_memory_v2 v2 = {.version = NVML_MEMORY_V2};
	struct nvml_memory m;
	size_t left, total;

	CHECK(info && info_v2);
	CU(cuMemGetInfo_v2(&left, &total));
	CHECK(!info(d, &m) && !info_v2(d, &v2));
	CHECK(m.total == total && m.free == left && m.used == total - left);
	CHECK(v2.total == total && v2.free == left && v2.used == total - left && !v2.reserved);
	v2.version = 1;
	CHECK(info_v2(d, &v2) == NVML_OTHER_VERSION);
	CHECK(info(NULL, &m) == NVML_INVALID);
}

/* However the program finds the functions. */
static void nvml(void)
{
	void *handle = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	nvmlDevice_t d = nvml_device();
	CUdeviceptr p;

	CHECK(handle);
	CU(cuMemAlloc_v2(&p, 50 * MIB));
	nvml_tells(d, nvmlDeviceGetMemoryInfo, nvmlDeviceGetMemoryInfo_v2);
	nvml_tells(d, (info_fn *)dlsym(handle, "nvmlDeviceGetMemoryInfo"),
		(info_v2_fn *)dlsym(handle, "nvmlDeviceGetMemoryInfo_v2"));
	nvml_tells(d, (info_fn *)dlsym(RTLD_DEFAULT, "nvmlDeviceGetMemoryInfo"),
		(info_v2_fn *)dlsym(RTLD_DEFAULT, "nvmlDeviceGetMemoryInfo_v2"));
	/* NVML has no versions, so that dlvsym() finds nothing of it: ours neither. */
	CHECK(!dlvsym(handle, "nvmlDeviceGetMemoryInfo", "libnvidia-ml.so.1"));
	CHECK(!dlvsym(RTLD_DEFAULT, "nvmlDeviceGetMemoryInfo", "libnvidia-ml.so.1"));
	CU(cuMemFree_v2(p));
	nvml_tells(d, nvmlDeviceGetMemoryInfo, nvmlDeviceGetMemoryInfo_v2);
	CHECK(!dlsym(handle, "nvmlDeviceGetMemoryInfo_v9"));
	CHECK(strstr(dlerror(), "nvmlDeviceGetMemoryInfo_v9"));
	CHECK(!dlclose(handle) && !nvmlShutdown());
}

static void smi(void)
{
	struct nvml_memory m;

	CHECK(!nvmlDeviceGetMemoryInfo(nvml_device(), &m));
	printf("%llu %llu %llu\n", m.free / MIB, m.used / MIB, m.total / MIB);
}

/* --- many --- */

static _Thread_local uint64_t drawn;

static uint64_t draw(uint64_t n)
{
	drawn ^= drawn << 13;
	drawn ^= drawn >> 7;
	drawn ^= drawn << 17;
	return drawn % n;
}

#define LIVE 48

struct piece {
	int what; /* 0: none */
	CUdeviceptr d;
	CUarray a;
	cu_chunk h;
};

static void drop(struct piece *p, CUstream s)
{
	if (p->what == 1 || p->what == 2)
		CU(cuMemFree_v2(p->d));
	else if (p->what == 3)
		CU(cuMemFreeAsync(p->d, s));
	else if (p->what == 4)
		CU(cuArrayDestroy(p->a));
	else if (p->what == 5)
		CU(cuMemRelease(p->h));
	p->what = 0;
}

/* Mostly small ones. Some are refused, by the limit. */
static void take(struct piece *p, CUstream s)
{
	const struct cu_array_2d flat = {1 + draw(400), 1 + draw(400), 0x20, 1};
	size_t size = draw(8) ? 1 + draw(70000) : 1 + draw(12 * MIB);
	int what = 1 + (int)(draw(4) ? draw(2) : draw(5));
	fm_cu_result rc;

	if (what <= 2)
		rc = cu.cuMemAlloc_v2(&p->d, size);
	else if (what == 3)
		rc = cu.cuMemAllocAsync(&p->d, size, s);
	else if (what == 4)
		rc = cu.cuArrayCreate_v2(&p->a, &flat);
	else
		rc = cu.cuMemCreate(&p->h, 2 * MIB, &on_device, 0);
	if (rc && rc != CU_OUT_OF_MEMORY)
		die("%d: error %d", what, rc);
	p->what = rc ? 0 : what;
}

static void *operate(void *arg)
{
	struct piece piece[LIVE] = {0};
	unsigned n = *(unsigned *)arg;
	CUstream s;

	drawn = n * 2654435761u + 1;
	CU(cuCtxSetCurrent(ctx));
	CU(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	while (n--) {
		struct piece *p = &piece[draw(LIVE)];

		if (p->what)
			drop(p, s);
		else
			take(p, s);
	}
	for (unsigned i = 0; i < LIVE; i++)
		drop(&piece[i], s);
	CU(cuStreamSynchronize(s));
	CU(cuStreamDestroy_v2(s));
	return NULL;
}

static void drained(void)
{
	CUmemoryPool pool;

	CU(cuCtxSynchronize());
	CU(cuDeviceGetDefaultMemPool(&pool, dev));
	CU(cuMemPoolTrimTo(pool, 0));
	COUNTS(FM_MEM_PLAIN, 0);
}

static void many(void)
{
	const char *said = getenv("OPERATIONS");

	operate(&(unsigned){said ? (unsigned)atoi(said) : 1000000});
	drained();
}

static void threads(void)
{
	unsigned n[4] = {20000, 20001, 20002, 20003};
	pthread_t t[4];

	for (unsigned i = 0; i < 4; i++)
		if (pthread_create(&t[i], NULL, operate, &n[i]))
			die("no thread");
	for (unsigned i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	drained();
}

/* The child has none of it, and what it does changes nothing for its parent. */
static void forks(void)
{
	CUdeviceptr d;
	int status;
	pid_t pid;

	CU(cuMemAlloc_v2(&d, 8 * MIB));
	pid = fork();
	if (!pid) {
		CUdeviceptr e;

		if (cu.cuMemFree_v2(d) == FM_CU_SUCCESS || cu.cuMemAlloc_v2(&e, MIB) == 0)
			_exit(1);
		_exit(0);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && !status);
	COUNTS(FM_MEM_PLAIN, 8 * MIB);
	CU(cuMemFree_v2(d));
	COUNTS(FM_MEM_PLAIN, 0);
}

/* --- told what to do --- */

static void serve(void)
{
	static CUdeviceptr d[64];
	unsigned n = 0, mib;
	CUmodule module;
	char line[64];

	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("ready");
	while (fgets(line, sizeof(line), stdin)) {
		size_t left, total;

		if (sscanf(line, "alloc %u", &mib) == 1 && n < 64) {
			fm_cu_result rc = cu.cuMemAlloc_v2(&d[n], mib * MIB);

			n += !rc;
			printf("%d\n", rc);
		} else if (!strncmp(line, "load", 4)) {
			printf("%d\n", cu.cuModuleLoadData(&module, LARGE));
		} else if (!strncmp(line, "unload", 6)) {
			CU(cuModuleUnload(module));
			puts("0");
		} else if (!strncmp(line, "free", 4) && n) {
			CU(cuMemFree_v2(d[--n]));
			puts("0");
		} else {
			CU(cuMemGetInfo_v2(&left, &total));
			printf("%zu %zu\n", left / MIB, total / MIB);
		}
	}
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {{"plain", plain}, {"small", small}, {"arrays", arrays}, {"pools", pools},
	{"graphs", graphs}, {"handles", handles}, {"globals", globals}, {"libraries", libraries},
	{"odd", odd}, {"contexts", contexts}, {"full", full}, {"pool_makes_room", pool_makes_room},
	{"many", many}, {"threads", threads}, {"forks", forks}, {"nvml", nvml}, {"late", late},
	{"serve", serve}};

int main(int argc, char **argv)
{
	conform_options(&argc, &argv);
	if (argc == 2 && !strcmp(argv[1], "smi")) {
		smi();
		return 0;
	}
	open_device();
	if (!row && strcmp(argv[argc - 1], "serve") != 0 && strcmp(argv[argc - 1], "late") != 0)
		die("no ledger");
	for (int i = 1; i < argc; i++) {
		unsigned k = 0;

		while (k < sizeof(cases) / sizeof(*cases) && strcmp(cases[k].name, argv[i]) != 0)
			k++;
		if (k == sizeof(cases) / sizeof(*cases))
			die("no case '%s'", argv[i]);
		cases[k].run();
		printf("%s\n", argv[i]);
	}
	return 0;
}
