/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual memory of the fake CUDA driver: it answers as a real one does, and forgives as little. */
#include "fake_world.h"

#define BAD FM_CU_ERROR_INVALID_VALUE

static void ranges(void)
{
	CUdeviceptr a, b;

	world_open();
	EXPECT(BAD, cuMemAddressReserve(&a, 0, 0, 0, 0));
	EXPECT(BAD, cuMemAddressReserve(&a, 4096, 0, 0, 0));
	EXPECT(BAD, cuMemAddressReserve(&a, CHUNK, 3 * CHUNK, 0, 0));
	EXPECT(BAD, cuMemAddressReserve(&a, CHUNK, 0, 0, 1));
	EXPECT(BAD, cuMemAddressReserve(NULL, CHUNK, 0, 0, 0));
	OK(cuMemAddressReserve(&a, 4 * CHUNK, 16 * CHUNK, 0, 0));
	EXPECT(0, a % (16 * CHUNK));
	EXPECT(BAD, cuMemAddressFree(a, CHUNK));
	EXPECT(BAD, cuMemAddressFree(a + CHUNK, 3 * CHUNK));
	OK(cuMemAddressFree(a, 4 * CHUNK));
	OK(cuMemAddressReserve(&b, 4 * CHUNK, 0, a, 0));
	EXPECT(a, b);
	OK(cuMemAddressFree(b, 4 * CHUNK));
	EXPECT(BAD, cuMemAddressFree(b, 4 * CHUNK));
}

static void chunks(void)
{
	struct cu_chunk_prop prop = world_prop(CU_LOCATION_DEVICE), got;
	size_t granularity;
	cu_chunk c;

	world_open();
	OK(cuMemGetAllocationGranularity(&granularity, &prop, 0));
	EXPECT(CHUNK, granularity);
	EXPECT(BAD, cuMemCreate(&c, CHUNK + 4096, &prop, 0));
	EXPECT(BAD, cuMemCreate(&c, 0, &prop, 0));
	EXPECT(BAD, cuMemCreate(&c, CHUNK, NULL, 0));
	EXPECT(CU_OUT_OF_MEMORY, cuMemCreate(&c, (size_t)1 << 62, &prop, 0));
	prop.location.id = 7;
	EXPECT(CU_INVALID_DEVICE, cuMemCreate(&c, CHUNK, &prop, 0));
	prop.location.id = 0;
	OK(cuMemCreate(&c, CHUNK, &prop, 0));
	OK(cuMemGetAllocationPropertiesFromHandle(&got, c));
	EXPECT(0, memcmp(&got, &prop, sizeof(got)));
	OK(cuMemRelease(c));
	EXPECT(BAD, cuMemRelease(c));
	EXPECT(BAD, cuMemGetAllocationPropertiesFromHandle(&got, c));
}

static void mappings(void)
{
	struct cu_access both = {{CU_LOCATION_DEVICE, 0}, CU_ACCESS_BOTH};
	unsigned long long flags;
	CUdeviceptr at;
	cu_chunk c, d;

	world_open();
	at = world_range(4 * CHUNK);
	c = world_chunk(CU_LOCATION_DEVICE, CHUNK);
	d = world_chunk(CU_LOCATION_DEVICE, 2 * CHUNK);
	EXPECT(BAD, cuMemMap(at, CHUNK, CHUNK, c, 0));
	EXPECT(BAD, cuMemMap(at + 4096, CHUNK, 0, c, 0));
	EXPECT(BAD, cuMemMap(at, CHUNK, 0, d, 0));
	EXPECT(BAD, cuMemMap(at + 3 * CHUNK, 2 * CHUNK, 0, d, 0));
	EXPECT(BAD, cuMemMap(at + 64 * CHUNK, CHUNK, 0, c, 0));
	OK(cuMemMap(at, CHUNK, 0, c, 0));
	EXPECT(BAD, cuMemMap(at, 2 * CHUNK, 0, d, 0));
	OK(cuMemMap(at + CHUNK, 2 * CHUNK, 0, d, 0));
	OK(cuMemGetAccess(&flags, &both.location, at));
	EXPECT(CU_ACCESS_NONE, flags);
	EXPECT(BAD, cuMemSetAccess(at, 4 * CHUNK, &both, 1));
	EXPECT(BAD, cuMemSetAccess(at, 2 * CHUNK, &both, 1));
	OK(cuMemSetAccess(at, 3 * CHUNK, &both, 1));
	OK(cuMemGetAccess(&flags, &both.location, at + CHUNK));
	EXPECT(CU_ACCESS_BOTH, flags);
	EXPECT(BAD, cuMemAddressFree(at, 4 * CHUNK));
	EXPECT(BAD, cuMemUnmap(at + 2 * CHUNK, CHUNK));
	EXPECT(BAD, cuMemUnmap(at, 5 * CHUNK));
	EXPECT(BAD, cuMemUnmap(at, 4096));
	OK(cuMemUnmap(at, 4 * CHUNK)); /* the last one is a hole */
	EXPECT(BAD, cuMemGetAccess(&flags, &both.location, at + CHUNK));
	OK(cuMemUnmap(at, CHUNK));
	OK(cuMemAddressFree(at, 4 * CHUNK));
}

/* An address that never changes, and chunks that do; what is mapped lives without a handle. */
static void flips(void)
{
	CUdeviceptr at, window;
	cu_chunk device, host, again;

	world_open();
	at = world_range(CHUNK);
	window = world_range(CHUNK);
	device = world_chunk(CU_LOCATION_DEVICE, CHUNK);
	host = world_chunk(CU_LOCATION_NUMA, CHUNK);
	world_map(at, CHUNK, device);
	world_map(window, CHUNK, host);
	EXPECT(0, world_word(at)); /* it is cleared */
	world_fill(at, 1024, 7);
	OK(cuMemcpyDtoDAsync_v2(window, at, CHUNK, w.s));
	OK(cuStreamSynchronize(w.s));
	OK(cuMemUnmap(at, CHUNK));
	world_map(at, CHUNK, host);
	EXPECT(7 + 5, world_word(at + 20));
	world_fill(at, 1024, 100);
	EXPECT(100 + 5, world_word(window + 20)); /* the same chunk */
	OK(cuMemRelease(host));
	OK(cuMemRelease(device));
	EXPECT(100 + 5, world_word(at + 20));
	OK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(at + 4096)));
	OK(cuMemUnmap(at, CHUNK));
	OK(cuMemUnmap(window, CHUNK));
	world_map(at, CHUNK, again);
	EXPECT(100 + 5, world_word(at + 20));
	OK(cuMemUnmap(at, CHUNK));
	OK(cuMemRelease(again));
	EXPECT(BAD, cuMemMap(at, CHUNK, 0, again, 0));
}

/* What was put behind a closed gate looks at what is there when it runs. */
static void flips_behind_a_gate(void)
{
	uint32_t *gate, got[1024];
	cu_chunk a, b;
	CUdeviceptr at;
	void *p;

	world_open();
	OK(cuMemHostAlloc(&p, 4096, 0));
	gate = memset(p, 0, 4096);
	at = world_range(CHUNK);
	a = world_chunk(CU_LOCATION_DEVICE, CHUNK);
	b = world_chunk(CU_LOCATION_DEVICE, CHUNK);
	world_map(at, CHUNK, a);
	OK(cuStreamWaitValue32_v2(w.s, (uintptr_t)gate, 1, CU_WAIT_EQ));
	world_fill(at, 512, 1);
	OK(cuMemsetD32Async(at + 2048, 9, 512, w.s));
	OK(cuMemUnmap(at, CHUNK));
	world_map(at, CHUNK, b);
	atomic_store((_Atomic uint32_t *)gate, 1);
	OK(cuMemcpyDtoHAsync_v2(got, at, sizeof(got), w.s));
	OK(cuStreamSynchronize(w.s));
	EXPECT(1 + 511, got[511]);
	EXPECT(9, got[512]);
	OK(cuMemUnmap(at, CHUNK));
	world_map(at, CHUNK, a);
	EXPECT(0, world_word(at + 2044));
}

static unsigned attribute(int which, CUdeviceptr at)
{
	unsigned long long v = 0;

	OK(cuPointerGetAttribute(&v, which, at));
	return (unsigned)v;
}

/* As a driver 580 answered, for chunks on the device, on the host, and none. */
static void answers(void)
{
	CUdeviceptr at, base, value;
	struct cu_ipc ipc;
	int one = 1, fd = -1, types[2] = {CU_POINTER_TYPE, CU_POINTER_MAPPED};
	unsigned type = 9, mapped = 9;
	void *values[2] = {&type, &mapped};
	size_t size;

	world_open();
	at = world_range(3 * CHUNK);
	world_map(at, CHUNK, world_chunk(CU_LOCATION_DEVICE, CHUNK));
	world_map(at + CHUNK, CHUNK, world_chunk(CU_LOCATION_NUMA, CHUNK));
	EXPECT(CU_MEMORY_DEVICE, attribute(CU_POINTER_TYPE, at + 5));
	EXPECT(CU_MEMORY_HOST, attribute(CU_POINTER_TYPE, at + CHUNK + 5));
	EXPECT(BAD, cuPointerGetAttribute(&value, CU_POINTER_TYPE, at + 2 * CHUNK));
	EXPECT(1, attribute(CU_POINTER_MAPPED, at));
	EXPECT(BAD, cuPointerGetAttribute(&value, CU_POINTER_MAPPED, at + 2 * CHUNK));
	EXPECT(BAD, cuPointerSetAttribute(&one, CU_POINTER_SYNC, at + 2 * CHUNK));
	EXPECT(BAD, cuMemHostRegister_v2((void *)(uintptr_t)at, 4096, 0));
	EXPECT(CU_ACCESS_BOTH, attribute(CU_POINTER_ACCESS, at));
	EXPECT(0, attribute(CU_POINTER_IPC, at));
	EXPECT(3 * CHUNK, attribute(CU_POINTER_SIZE, at + CHUNK));
	OK(cuPointerGetAttribute(&value, CU_POINTER_START, at + CHUNK + 9));
	EXPECT(at, value);
	OK(cuPointerGetAttributes(2, types, values, at + CHUNK));
	EXPECT(CU_MEMORY_HOST, type);
	EXPECT(1, mapped);
	OK(cuPointerGetAttributes(2, types, values, (uintptr_t)&one));
	EXPECT(0, type);
	EXPECT(FM_CU_ERROR_NOT_SUPPORTED, cuPointerSetAttribute(&one, CU_POINTER_SYNC, at));
	OK(cuMemGetAddressRange_v2(&base, &size, at + 4096));
	EXPECT(at, base);
	EXPECT(CHUNK, size);
	OK(cuMemGetAddressRange_v2(&base, &size, at + CHUNK + 4096));
	EXPECT(1, base < at || base >= at + 3 * CHUNK);
	EXPECT(CHUNK, size);
	EXPECT(BAD, cuMemFree_v2(at));
	EXPECT(BAD, cuIpcGetMemHandle(&ipc, at));
	OK(cuMemGetHandleForAddressRange(&fd, at, CHUNK, 1, 0));
	OK(close(fd));
	EXPECT(BAD, cuMemGetHandleForAddressRange(&fd, at, 2 * CHUNK, 1, 0));
	EXPECT(BAD, cuMemGetHandleForAddressRange(&fd, at + CHUNK, CHUNK, 1, 0));
	OK(cuMemAlloc_v2(&value, 4096));
	OK(cuIpcGetMemHandle(&ipc, value));
	OK(cuPointerSetAttribute(&one, CU_POINTER_SYNC, value));
	EXPECT(BAD, cuMemRetainAllocationHandle(&(cu_chunk){0}, (void *)(uintptr_t)value));
}

static void shared(void)
{
	CUdeviceptr at, other;
	cu_chunk c, same;
	int fd, none;

	world_open();
	at = world_range(CHUNK);
	other = world_range(CHUNK);
	c = world_chunk(CU_LOCATION_DEVICE, CHUNK);
	world_map(at, CHUNK, c);
	EXPECT(BAD, cuMemExportToShareableHandle(
			    &none, world_chunk(CU_LOCATION_HOST, CHUNK), CU_HANDLE_FD, 0));
	OK(cuMemExportToShareableHandle(&fd, c, CU_HANDLE_FD, 0));
	EXPECT(BAD, cuMemImportFromShareableHandle(&same, (void *)(intptr_t)2, CU_HANDLE_FD));
	OK(cuMemImportFromShareableHandle(&same, (void *)(intptr_t)fd, CU_HANDLE_FD));
	OK(close(fd));
	world_fill(at, 64, 3);
	OK(cuStreamSynchronize(w.s));
	OK(cuMemUnmap(at, CHUNK));
	OK(cuMemRelease(c));
	world_map(other, CHUNK, same);
	EXPECT(3, world_word(other));
}

/* A call that names a hole fails at once, and harms nobody. */
static void holes_in_calls(void)
{
	struct cu_fill_node fill = {.value = 1, .width = 4, .n = 4, .height = 1};
	CUdeviceptr at, x;
	CUgraphNode node;
	CUgraph graph;
	uint32_t v = 1;

	world_open();
	OK(cuMemAlloc_v2(&x, 2 * CHUNK));
	at = world_range(2 * CHUNK);
	world_map(at, CHUNK, world_chunk(CU_LOCATION_DEVICE, CHUNK));
	for (CUdeviceptr hole = at + CHUNK - 2; hole < at + CHUNK + 10; hole += 6) {
		EXPECT(BAD, cuMemcpyHtoDAsync_v2(hole, &v, 4, w.s));
		EXPECT(BAD, cuMemcpyDtoHAsync_v2(&v, hole, 4, w.s));
		EXPECT(BAD, cuMemcpyDtoDAsync_v2(x, hole, 4, w.s));
		EXPECT(BAD, cuMemsetD8Async(hole, 1, 4, w.s));
	}
	EXPECT(BAD, cuMemcpyAsync(at + CHUNK - 2, x, 4, w.s));
	EXPECT(BAD, cuMemcpy(x, at + CHUNK - 2, 4));
	EXPECT(BAD, cuMemsetD32Async(at, 1, CHUNK / 4 + 1, w.s));
	EXPECT(BAD, cuMemcpyDtoDAsync_v2(at, x, CHUNK + 1, w.s));
	EXPECT(BAD, cuStreamWaitValue32_v2(w.s, at + CHUNK, 1, 0));
	EXPECT(BAD, cuStreamWriteValue32_v2(w.s, at + CHUNK, 1, 0));
	OK(cuGraphCreate(&graph, 0));
	fill.dst = at + CHUNK;
	EXPECT(BAD, cuGraphAddMemsetNode(&node, graph, NULL, 0, &fill, w.ctx));
	OK(cuMemsetD32Async(at, 5, CHUNK / 4, w.s));
	EXPECT(5, world_word(at + CHUNK - 4));
}

static void is_lost(void)
{
	CUdeviceptr d;

	EXPECT(CU_ILLEGAL_ADDRESS, cuStreamSynchronize(w.s));
	EXPECT(CU_ILLEGAL_ADDRESS, cuMemAlloc_v2(&d, 4));
	EXPECT(CU_ILLEGAL_ADDRESS, cuMemAddressReserve(&d, CHUNK, 0, 0, 0));
}

static void kernel_in_a_hole(void)
{
	CUdeviceptr at;

	world_open();
	at = world_range(2 * CHUNK);
	world_map(at, CHUNK, world_chunk(CU_LOCATION_DEVICE, CHUNK));
	world_fill(at + CHUNK - 64, 16, 0);
	OK(cuStreamSynchronize(w.s));
	world_fill(at + CHUNK - 64, 17, 0);
	is_lost();
}

static void kernel_that_may_not(void)
{
	struct cu_access read = {{CU_LOCATION_DEVICE, 0}, CU_ACCESS_READ};
	CUdeviceptr at;

	world_open();
	at = world_range(CHUNK);
	OK(cuMemMap(at, CHUNK, 0, world_chunk(CU_LOCATION_DEVICE, CHUNK), 0));
	OK(cuMemSetAccess(at, CHUNK, &read, 1));
	EXPECT(0, world_word(at));
	world_fill(at, 16, 0);
	is_lost();
}

/* A copy, a fill and a word that were right when they were put. */
static void late_hole(int what)
{
	CUdeviceptr at, x;
	uint32_t *gate;
	void *p;

	world_open();
	OK(cuMemHostAlloc(&p, 4096, 0));
	gate = memset(p, 0, 4096);
	OK(cuMemAlloc_v2(&x, 4096));
	at = world_range(CHUNK);
	world_map(at, CHUNK, world_chunk(CU_LOCATION_DEVICE, CHUNK));
	OK(cuStreamWaitValue32_v2(w.s, (uintptr_t)gate, 1, CU_WAIT_EQ));
	if (what == 0)
		OK(cuMemcpyDtoDAsync_v2(x, at, 4096, w.s));
	else if (what == 1)
		OK(cuMemsetD32Async(at, 1, 4, w.s));
	else
		OK(cuStreamWriteValue32_v2(w.s, at, 1, 0));
	OK(cuMemUnmap(at, CHUNK));
	atomic_store((_Atomic uint32_t *)gate, 1);
	is_lost();
}

static void copy_in_a_hole(void)
{
	late_hole(0);
}

static void fill_in_a_hole(void)
{
	late_hole(1);
}

static void word_in_a_hole(void)
{
	late_hole(2);
}

/* A copy that does not say what is where takes a hole for the device's. */
static void unified_copy(void)
{
	CUdeviceptr at, x;

	world_open();
	OK(cuMemAlloc_v2(&x, 4096));
	at = world_range(CHUNK);
	OK(cuMemcpyAsync(x, at, 4096, w.s));
	is_lost();
}

/* As driver 580 loses it. */
static void batch_with_pageable_memory(void)
{
	struct cu_copy_attributes attrs = {.order = 1};
	static char words[4096];
	CUdeviceptr at, from = (uintptr_t)words;
	size_t size = sizeof(words), first = 0;

	world_open();
	at = world_range(CHUNK);
	world_map(at, CHUNK, world_chunk(CU_LOCATION_NUMA, CHUNK));
	cuMemcpyBatchAsync_v2(&at, &from, &size, 1, &attrs, &first, 1, w.s);
	is_lost();
}

static void graph_in_a_hole(void)
{
	CUgraphExec exec;
	CUgraph graph;
	CUdeviceptr at;

	world_open();
	at = world_range(CHUNK);
	world_map(at, CHUNK, world_chunk(CU_LOCATION_DEVICE, CHUNK));
	OK(cuStreamBeginCapture_v2(w.s, CU_CAPTURE_RELAXED));
	world_fill(at, 16, 4);
	OK(cuMemsetD32Async(at + 64, 1, 4, w.s));
	OK(cuStreamEndCapture(w.s, &graph));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphLaunch(exec, w.s));
	EXPECT(4, world_word(at));
	EXPECT(1, world_word(at + 64));
	OK(cuMemUnmap(at, CHUNK));
	OK(cuGraphLaunch(exec, w.s));
	is_lost();
}

/* Blocks that go on for long, and say that they run. */
static void unmap_under_a_kernel(void)
{
	_Atomic uint32_t *arrived;
	uint32_t n = 256, steps = 100000000;
	CUdeviceptr at, d;
	void *p;

	world_open();
	OK(cuMemHostAlloc(&p, 4096, 0));
	arrived = memset(p, 0, 4096);
	d = (uintptr_t)p;
	at = world_range(2 * CHUNK);
	world_map(at, CHUNK, world_chunk(CU_LOCATION_DEVICE, CHUNK));
	world_map(at + CHUNK, CHUNK, world_chunk(CU_LOCATION_DEVICE, CHUNK));
	world_launch("relay", 2, w.s, (void *[]){&at, &n, &steps, &d});
	while (!atomic_load(arrived))
		usleep(100);
	OK(cuMemUnmap(at + CHUNK, CHUNK)); /* which it does not touch */
	cuMemUnmap(at, CHUNK);
}

static void test_unmap_under_a_kernel(void **state)
{
	world_dies(unmap_under_a_kernel, "is unmapped under a command that runs: relay");
}

static void unmap_under_a_wait(void)
{
	_Atomic uint32_t *begun;
	CUdeviceptr at;
	void *p;

	world_open();
	OK(cuMemHostAlloc(&p, 4096, 0));
	begun = memset(p, 0, 4096);
	at = world_range(CHUNK);
	world_map(at, CHUNK, world_chunk(CU_LOCATION_DEVICE, CHUNK));
	OK(cuStreamBatchMemOp_v2(w.s, 2,
		(union fm_cu_mem_op[]){{.op = {FM_CU_OP_WRITE_VALUE_32, (uintptr_t)p, 1, 0, 0}},
			{.op = {FM_CU_OP_WAIT_VALUE_32, at, 1, CU_WAIT_EQ, 0}}},
		0));
	while (!atomic_load(begun))
		usleep(100);
	cuMemUnmap(at, CHUNK);
}

static void test_unmap_under_a_wait(void **state)
{
	world_dies(unmap_under_a_wait, "an operation on words");
}

static void none(void)
{
	CUdeviceptr at;
	int has = 1;

	setenv("FAKE_CUDA_NO_VMM", "1", 1);
	world_open();
	OK(cuDeviceGetAttribute(&has, 102, 0));
	EXPECT(0, has);
	EXPECT(FM_CU_ERROR_NOT_SUPPORTED, cuMemAddressReserve(&at, CHUNK, 0, 0, 0));
}

static void of_the_device_alone(void)
{
	struct cu_chunk_prop prop = world_prop(CU_LOCATION_NUMA);
	cu_chunk c;

	setenv("FAKE_CUDA_NO_HOST_CHUNKS", "1", 1);
	world_open();
	world_chunk(CU_LOCATION_DEVICE, CHUNK);
	EXPECT(FM_CU_ERROR_NOT_SUPPORTED, cuMemCreate(&c, CHUNK, &prop, 0));
}

static void small_chunks(void)
{
	CUdeviceptr at;

	setenv("FAKE_CUDA_GRANULARITY", "65536", 1);
	world_open();
	at = world_range(65536);
	world_map(at, 65536, world_chunk(CU_LOCATION_DEVICE, 65536));
	world_fill(at, 16384, 2);
	EXPECT(2 + 16383, world_word(at + 65532));
}

/* What a mover does; how many of its calls went well. */
static int move(CUdeviceptr at, cu_chunk from, cu_chunk to)
{
	struct cu_access access = {{CU_LOCATION_DEVICE, 0}, CU_ACCESS_BOTH};

	if (cuMemUnmap(at, CHUNK))
		return 0;
	if (cuMemMap(at, CHUNK, 0, to, 0))
		return 1;
	if (cuMemSetAccess(at, CHUNK, &access, 1))
		return 2;
	return cuMemRelease(from) ? 3 : 4;
}

/* Each call fails once by its number, whatever its name. */
static void failures(void)
{
	CUdeviceptr at, x;
	cu_chunk a, b;

	world_open();
	OK(cuMemAlloc_v2(&x, 4096));
	at = world_range(CHUNK);
	for (unsigned n = 1; n <= 4; n++) {
		a = world_chunk(CU_LOCATION_DEVICE, CHUNK);
		b = world_chunk(CU_LOCATION_DEVICE, CHUNK);
		world_map(at, CHUNK, a);
		fake_cuda_fail("*", n, CU_OUT_OF_MEMORY);
		EXPECT(n - 1, move(at, a, b));
		EXPECT(n, fake_cuda_counted());
		fake_cuda_fail("*", 0, 0);
		OK(cuMemUnmap(at, CHUNK) && n != 2);
	}
	fake_cuda_fail("cuMemcpyDtoDAsync_v2", 2, CU_LAUNCH_FAILED);
	OK(cuMemsetD32Async(x, 1, 4, w.s));
	OK(cuMemcpyDtoDAsync_v2(x, x + 64, 64, w.s));
	EXPECT(CU_LAUNCH_FAILED, cuMemcpyDtoDAsync_v2(x, x + 64, 64, w.s));
	OK(cuMemcpyDtoDAsync_v2(x, x + 64, 64, w.s));
	OK(cuStreamSynchronize(w.s));
}

static void killed_in_a_call(void)
{
	CUdeviceptr at;

	world_open();
	at = world_range(CHUNK);
	fake_cuda_fail("cuMemMap", 1, -SIGKILL);
	world_map(at, CHUNK, world_chunk(CU_LOCATION_DEVICE, CHUNK));
}

static void test_killed_in_a_call(void **state)
{
	int status = world_child(killed_in_a_call, NULL, 0);

	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGKILL);
}

static void unmap_under_an_engine(void)
{
	CUdeviceptr at;

	world_open();
	at = world_range(2 * CHUNK);
	world_map(at, CHUNK, world_chunk(CU_LOCATION_DEVICE, CHUNK));
	world_map(at + CHUNK, CHUNK, world_chunk(CU_LOCATION_DEVICE, CHUNK));
	fake_cuda_engine(at, 4096, 1);
	fake_cuda_engine(at + CHUNK, 4096, 1);
	fake_cuda_engine(at, 4096, 0);
	OK(cuMemUnmap(at, CHUNK));
	cuMemUnmap(at + CHUNK, CHUNK);
}

static void test_unmap_under_an_engine(void **state)
{
	world_dies(unmap_under_an_engine, "another engine");
}

static void textures(void)
{
	struct cu_texture t = {.type = CU_TEXTURE_LINEAR};
	unsigned box[2] = {8, 8}, steps[2] = {1, 1};
	uint64_t size[2] = {64, 64}, strides[1] = {256}, texture;
	struct cu_tensor_map map, other;
	CUdeviceptr at;

	world_open();
	at = world_range(2 * CHUNK);
	world_map(at, CHUNK, world_chunk(CU_LOCATION_DEVICE, CHUNK));
	t.linear.d = at;
	t.linear.format = 0x20;
	t.linear.channels = 4;
	t.linear.size = CHUNK;
	OK(cuTexObjectCreate(&texture, &t, NULL, NULL));
	OK(cuTexObjectDestroy(texture));
	EXPECT(BAD, cuTexObjectDestroy(texture));
	t.linear.size = 2 * CHUNK; /* which may come later */
	OK(cuTexObjectCreate(&texture, &t, NULL, NULL));
	t.linear.d = (uintptr_t)&t;
	EXPECT(BAD, cuTexObjectCreate(&texture, &t, NULL, NULL));
	OK(cuTensorMapEncodeTiled(
		&map, 7, 2, (void *)(uintptr_t)at, size, strides, box, steps, 0, 0, 0, 0));
	OK(cuTensorMapEncodeTiled(
		&other, 7, 2, (void *)(uintptr_t)(at + 16), size, strides, box, steps, 0, 0, 0, 0));
	EXPECT(true, memcmp(&map, &other, sizeof(map)) != 0);
	OK(cuTensorMapEncodeTiled(&map, 7, 2, (void *)(uintptr_t)(at + CHUNK), size, strides, box,
		steps, 0, 0, 0, 0));
}

static void failures_by_the_environment(void)
{
	CUdeviceptr at;
	cu_chunk c;

	setenv("FAKE_CUDA_FAIL", "cuMemMap@2/0=2", 1);
	world_open();
	at = world_range(CHUNK);
	c = world_chunk(CU_LOCATION_DEVICE, CHUNK);
	OK(cuMemMap(at, CHUNK, 0, c, 0));
	OK(cuMemUnmap(at, CHUNK));
	EXPECT(CU_OUT_OF_MEMORY, cuMemMap(at, CHUNK, 0, c, 0));
	OK(cuMemMap(at, CHUNK, 0, c, 0));
}

CASE(failures)
CASE(unified_copy)
CASE(batch_with_pageable_memory)
CASE(textures)
CASE(failures_by_the_environment)
CASE(ranges)
CASE(chunks)
CASE(mappings)
CASE(flips)
CASE(flips_behind_a_gate)
CASE(answers)
CASE(shared)
CASE(holes_in_calls)
CASE(kernel_in_a_hole)
CASE(kernel_that_may_not)
CASE(copy_in_a_hole)
CASE(fill_in_a_hole)
CASE(word_in_a_hole)
CASE(graph_in_a_hole)
CASE(none)
CASE(of_the_device_alone)
CASE(small_chunks)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_chunks),
		cmocka_unit_test(test_mappings),
		cmocka_unit_test(test_flips),
		cmocka_unit_test(test_flips_behind_a_gate),
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_shared),
		cmocka_unit_test(test_holes_in_calls),
		cmocka_unit_test(test_kernel_in_a_hole),
		cmocka_unit_test(test_kernel_that_may_not),
		cmocka_unit_test(test_copy_in_a_hole),
		cmocka_unit_test(test_fill_in_a_hole),
		cmocka_unit_test(test_word_in_a_hole),
		cmocka_unit_test(test_graph_in_a_hole),
		cmocka_unit_test(test_unmap_under_a_kernel),
		cmocka_unit_test(test_unmap_under_a_wait),
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_of_the_device_alone),
		cmocka_unit_test(test_small_chunks),
		cmocka_unit_test(test_failures),
		cmocka_unit_test(test_unified_copy),
		cmocka_unit_test(test_batch_with_pageable_memory),
		cmocka_unit_test(test_killed_in_a_call),
		cmocka_unit_test(test_unmap_under_an_engine),
		cmocka_unit_test(test_textures),
		cmocka_unit_test(test_failures_by_the_environment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
