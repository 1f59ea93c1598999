/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the fake CUDA driver in the order of streams, and by graphs. */
#include "fake_world.h"

#define BAD       FM_CU_ERROR_INVALID_VALUE
#define FOR_A_CTX (MIB / 2)

static _Atomic uint32_t *gate;

static void open_world(void)
{
	void *p;

	setenv("FAKE_CUDA_CAPACITY", "64M", 1);
	world_open();
	OK(cuMemHostAlloc(&p, 4096, 0));
	gate = memset(p, 0, 4096);
}

static size_t left(void)
{
	size_t n, total;

	OK(cuMemGetInfo_v2(&n, &total));
	return n;
}

static uint64_t attribute(CUmemoryPool pool, int which)
{
	uint64_t v = 0;

	OK(cuMemPoolGetAttribute(pool, which, &v));
	return v;
}

/* A stream gets back at once what was freed in it, others when it has got so far. */
static void in_order(void)
{
	CUdeviceptr a, b, c;
	CUstream t;

	open_world();
	OK(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
	OK(cuMemAllocAsync(&a, MIB, w.s));
	world_fill(a, 16, 5);
	EXPECT(5, world_word(a));
	OK(cuStreamWaitValue32_v2(w.s, (uintptr_t)gate, 1, CU_WAIT_EQ));
	OK(cuMemFreeAsync(a, w.s));
	EXPECT(BAD, cuMemFreeAsync(a, w.s));
	EXPECT(BAD, cuMemFree_v2(a));
	OK(cuMemAllocAsync(&b, MIB, t));
	EXPECT(true, b != a);
	OK(cuMemAllocAsync(&c, MIB, w.s));
	EXPECT(a, c);
	for (int i = 0; i < 1000; i++) { /* behind a closed gate: it does not grow */
		OK(cuMemFreeAsync(c, w.s));
		OK(cuMemAllocAsync(&c, MIB, w.s));
	}
	OK(cuMemFreeAsync(c, w.s));
	atomic_store(gate, 1);
	OK(cuStreamSynchronize(w.s));
	OK(cuMemAllocAsync(&c, MIB, t));
	OK(cuMemFree_v2(c));
	OK(cuMemFree_v2(b));
}

static void figures(void)
{
	CUmemoryPool pool, current;
	uint64_t keep = UINT64_MAX;
	size_t all;
	CUdeviceptr a, b;

	open_world();
	all = left();
	EXPECT(64 * MIB - FOR_A_CTX, all);
	OK(cuDeviceGetDefaultMemPool(&pool, 0));
	OK(cuDeviceGetMemPool(&current, 0));
	EXPECT(pool, current);
	OK(cuMemAllocAsync(&a, MIB, w.s));
	OK(cuMemAllocAsync(&b, 3 * MIB, w.s));
	EXPECT(4 * MIB, attribute(pool, CU_POOL_USED));
	OK(cuMemFreeAsync(b, w.s));
	EXPECT(MIB, attribute(pool, CU_POOL_USED));
	EXPECT(4 * MIB, attribute(pool, CU_POOL_USED_HIGH));
	EXPECT(4 * MIB, attribute(pool, CU_POOL_RESERVED));
	EXPECT(all - 4 * MIB, left());
	OK(cuStreamSynchronize(w.s)); /* what is above the threshold goes: 0 */
	EXPECT(all - MIB, left());
	OK(cuMemPoolSetAttribute(pool, CU_POOL_THRESHOLD, &keep));
	OK(cuMemFreeAsync(a, w.s));
	OK(cuStreamSynchronize(w.s));
	EXPECT(all - MIB, left());
	OK(cuMemPoolTrimTo(pool, 0));
	EXPECT(all, left());
	EXPECT(4 * MIB, attribute(pool, CU_POOL_RESERVED_HIGH));
	keep = 0;
	OK(cuMemPoolSetAttribute(pool, CU_POOL_RESERVED_HIGH, &keep));
	EXPECT(0, attribute(pool, CU_POOL_RESERVED_HIGH));
	EXPECT(BAD, cuMemPoolSetAttribute(pool, CU_POOL_USED, &keep));
	EXPECT(BAD, cuMemPoolGetAttribute(pool, 99, &keep));
	EXPECT(BAD, cuMemPoolDestroy(pool));
}

static void full(void)
{
	struct cu_pool_prop prop = {
		.type = CU_CHUNK_PINNED, .location = {.type = CU_LOCATION_DEVICE}, .most = 4 * MIB};
	CUdeviceptr a, b;
	CUmemoryPool pool;
	size_t all;

	open_world();
	all = left();
	EXPECT(CU_OUT_OF_MEMORY, cuMemAllocAsync(&a, 64 * MIB, w.s));
	OK(cuMemAllocAsync(&a, 40 * MIB, w.s));
	EXPECT(CU_OUT_OF_MEMORY, cuMemAllocAsync(&b, 30 * MIB, w.s));
	OK(cuMemFreeAsync(a, w.s));
	while (cuStreamQuery(w.s))
		usleep(100);
	OK(cuMemAllocAsync(&b, 15 * MIB, w.s)); /* 40 are kept by the pool */
	OK(cuMemAllocAsync(&a, 45 * MIB, w.s)); /* and here they are not */
	OK(cuMemFree_v2(a));
	OK(cuMemFree_v2(b));
	OK(cuStreamSynchronize(w.s));
	EXPECT(all, left());
	OK(cuMemPoolCreate(&pool, &prop));
	OK(cuMemAllocFromPoolAsync(&a, 3 * MIB, pool, w.s));
	EXPECT(CU_OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&b, 2 * MIB, pool, w.s));
	OK(cuMemPoolDestroy(pool));
	EXPECT(BAD, cuMemAllocFromPoolAsync(&b, 1, pool, w.s));
	EXPECT(all - 3 * MIB, left()); /* it is in use still */
	OK(cuMemFreeAsync(a, w.s));
	OK(cuStreamSynchronize(w.s));
	EXPECT(all, left());
}

static uint64_t of_graphs(int which)
{
	uint64_t v;

	OK(cuDeviceGetGraphMemAttribute(0, which, &v));
	return v;
}

static void graphs(void)
{
	struct cu_alloc_node what = {
		.pool = {.type = CU_CHUNK_PINNED, .location = {.type = CU_LOCATION_DEVICE}},
		.size = 8 * MIB};
	struct cu_fill_node fill = {.value = 6, .width = 4, .n = 16, .height = 1};
	CUgraphNode alloc, set, release;
	CUgraph graph, other;
	CUgraphExec exec;
	size_t all;
	int type;

	open_world();
	all = left();
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddMemAllocNode(&alloc, graph, NULL, 0, &what));
	OK(cuGraphNodeGetType(alloc, &type));
	EXPECT(10, type);
	fill.dst = what.d;
	OK(cuGraphAddMemsetNode(&set, graph, &alloc, 1, &fill, w.ctx));
	EXPECT(FM_CU_ERROR_NOT_SUPPORTED, cuGraphClone(&other, graph));
	EXPECT(FM_CU_ERROR_NOT_SUPPORTED, cuGraphDestroyNode(set));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	EXPECT(all, left());
	OK(cuGraphLaunch(exec, w.s));
	EXPECT(6, world_word(what.d + 60));
	EXPECT(all - 8 * MIB, left());
	EXPECT(8 * MIB, of_graphs(CU_GRAPH_USED));
	EXPECT(BAD, cuGraphLaunch(exec, w.s)); /* it has its memory still */
	OK(cuMemFreeAsync(what.d, w.s));
	EXPECT(BAD, cuMemFreeAsync(what.d, w.s));
	EXPECT(0, of_graphs(CU_GRAPH_USED));
	EXPECT(8 * MIB, of_graphs(CU_GRAPH_RESERVED));
	OK(cuGraphLaunch(exec, w.s));
	OK(cuMemFree_v2(what.d));
	OK(cuDeviceGraphMemTrim(0));
	EXPECT(all, left());
	OK(cuGraphAddMemFreeNode(&release, graph, &set, 1, what.d));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphLaunch(exec, w.s));
	OK(cuGraphLaunch(exec, w.s));
	OK(cuStreamSynchronize(w.s));
	EXPECT(0, of_graphs(CU_GRAPH_USED));
	EXPECT(8 * MIB, of_graphs(CU_GRAPH_USED_HIGH));
}

static void captured(void)
{
	CUgraphExec exec;
	CUdeviceptr d, rest;
	CUgraph graph;

	open_world();
	OK(cuStreamBeginCapture_v2(w.s, CU_CAPTURE_RELAXED));
	OK(cuMemAllocAsync(&d, 8 * MIB, w.s));
	world_fill(d, 16, 9);
	OK(cuMemFreeAsync(d, w.s));
	OK(cuStreamEndCapture(w.s, &graph));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuMemAlloc_v2(&rest, left() - 4 * MIB));
	EXPECT(CU_OUT_OF_MEMORY, cuGraphLaunch(exec, w.s));
	OK(cuMemFree_v2(rest));
	OK(cuGraphLaunch(exec, w.s));
	OK(cuGraphLaunch(exec, w.s));
	OK(cuStreamSynchronize(w.s));
	EXPECT(0, of_graphs(CU_GRAPH_USED));
}

/* What is freed in its order is not the program's any more. */
static void garbage(void)
{
	CUdeviceptr d;
	uint32_t v;
	void *p;

	setenv("FAKE_CUDA_DIRTY", "1", 1);
	open_world();
	OK(cuMemHostAlloc(&p, 4096, 0));
	OK(cuMemAllocAsync(&d, 4096, w.s));
	world_fill(d, 16, 1);
	OK(cuMemcpyDtoHAsync_v2(p, d, 4, w.s));
	OK(cuMemFreeAsync(d, w.s));
	OK(cuMemcpyDtoHAsync_v2(&v, d, 4, w.s)); /* a mistake */
	EXPECT(0xdbdbdbdb, v);
	EXPECT(1, *(uint32_t *)p);
}

static void host_memory(void)
{
	CUdeviceptr d;
	void *own, *p;

	open_world();
	OK(posix_memalign(&own, 4096, 8192));
	OK(cuMemHostRegister_v2(own, 8192, 2));
	EXPECT(CU_ALREADY_REGISTERED, cuMemHostRegister_v2(own, 8192, 2));
	OK(cuMemHostGetDevicePointer_v2(&d, own, 0));
	world_fill(d, 16, 3);
	OK(cuStreamSynchronize(w.s));
	EXPECT(3 + 2, ((uint32_t *)own)[2]);
	OK(cuMemHostUnregister(own));
	EXPECT(CU_NOT_REGISTERED, cuMemHostUnregister(own));
	EXPECT(BAD, cuMemHostGetDevicePointer_v2(&d, own, 0));
	OK(cuMemHostAlloc(&p, 4096, 2));
	OK(cuMemHostGetDevicePointer_v2(&d, p, 0));
	OK(cuMemFreeHost(p));
	EXPECT(64 * MIB - FOR_A_CTX, left()); /* it is the host's */
}

CASE(in_order)
CASE(figures)
CASE(full)
CASE(graphs)
CASE(captured)
CASE(garbage)
CASE(host_memory)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_in_order),
		cmocka_unit_test(test_figures),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_graphs),
		cmocka_unit_test(test_captured),
		cmocka_unit_test(test_garbage),
		cmocka_unit_test(test_host_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
