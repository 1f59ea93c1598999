/* SPDX-License-Identifier: Apache-2.0 */
/* What takes time in the fake CUDA driver, and who waits for whom. */
#include "fake_world.h"
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

static _Atomic uint32_t *gate; /* everything in w.s waits for it */
static _Atomic bool done;
static sem_t inside;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static void *pinned(size_t size)
{
	void *p;

	OK(cuMemHostAlloc(&p, size, 0));
	return memset(p, 0, size);
}

static void open_world(void)
{
	world_open();
	gate = pinned(4096);
}

static void close_gate(void)
{
	atomic_store(gate, 0);
	OK(cuStreamWaitValue32_v2(w.s, (uintptr_t)gate, 1, CU_WAIT_EQ));
}

static void open_gate(void)
{
	atomic_store(gate, 1);
}

/* --- calls that wait --- */

static void note_inside(void)
{
	sem_post(&inside);
}

static pthread_t start(void *(*run)(void *), void *arg)
{
	pthread_t t;

	OK(pthread_create(&t, NULL, run, arg));
	return t;
}

static void *free_memory(void *d)
{
	OK(cuCtxSetCurrent(w.ctx));
	OK(cuMemFree_v2((uintptr_t)d));
	return NULL;
}

static void *unload(void *module)
{
	OK(cuCtxSetCurrent(w.ctx));
	OK(cuModuleUnload(module));
	return NULL;
}

static void *load(void *unused)
{
	CUmodule module;

	OK(cuCtxSetCurrent(w.ctx));
	OK(cuModuleLoadData(&module, fake_ptx));
	return unused;
}

static void *set_limit(void *unused)
{
	OK(cuCtxSetCurrent(w.ctx));
	OK(cuCtxSetLimit(0, 65536));
	return unused;
}

/* In another stream, which waits for nothing. */
static void *launch_first(void *d)
{
	CUdeviceptr x = (uintptr_t)d;
	uint32_t n = 4, value = 1;
	CUstream s;

	OK(cuCtxSetCurrent(w.ctx));
	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	world_launch("fill", 1, s, (void *[]){&x, &n, &value});
	return NULL;
}

struct mapping {
	CUdeviceptr at;
	cu_chunk chunk;
};

static void *map(void *mapping)
{
	struct mapping *m = mapping;

	OK(cuCtxSetCurrent(w.ctx));
	OK(cuMemMap(m->at, CHUNK, 0, m->chunk, 0));
	done = true;
	return NULL;
}

/* While one thread waits in the driver, another that would map memory does not get in. */
static void locks_out(void *(*wait)(void *), void *arg)
{
	struct mapping m = {world_range(CHUNK), world_chunk(CU_LOCATION_DEVICE, CHUNK)};
	pthread_t waiter, mapper;

	sem_init(&inside, 0, 0);
	close_gate();
	fake_cuda_at("the wait for the device", note_inside);
	waiter = start(wait, arg);
	sem_wait(&inside);
	mapper = start(map, &m);
	for (int i = 0; i < 20; i++) {
		usleep(2000);
		EXPECT(false, done);
	}
	open_gate();
	pthread_join(waiter, NULL);
	pthread_join(mapper, NULL);
	EXPECT(true, done);
	done = false;
}

static void context_lock(void)
{
	CUmodule other;
	CUdeviceptr x, y;

	setenv("FAKE_CUDA_LOCK", "1", 1);
	setenv("FAKE_CUDA_FIRST", "wait", 1);
	open_world();
	OK(cuMemAlloc_v2(&x, 4096));
	OK(cuMemAlloc_v2(&y, 4096));
	OK(cuModuleLoadData(&other, fake_ptx));
	locks_out(free_memory, (void *)(uintptr_t)x);
	locks_out(unload, other);
	locks_out(load, NULL);
	locks_out(set_limit, NULL);
	locks_out(launch_first, (void *)(uintptr_t)y);
}

/* --- copies within the host --- */

struct copy {
	CUdeviceptr from;
	void *host;
};

static void *copy_out(void *copy)
{
	struct copy *c = copy;

	OK(cuCtxSetCurrent(w.ctx));
	OK(cuMemcpyDtoHAsync_v2(c->host, c->from, 4096, w.s));
	done = true;
	return NULL;
}

/* It returns when it is done. */
static void comes_late(CUdeviceptr from)
{
	struct copy c = {from, pinned(4096)};
	pthread_t t;

	done = false;
	close_gate();
	t = start(copy_out, &c);
	for (int i = 0; i < 20; i++) {
		usleep(2000);
		EXPECT(false, done);
	}
	open_gate();
	pthread_join(t, NULL);
	OK(cuStreamSynchronize(w.s));
	EXPECT(8 + 3, ((uint32_t *)c.host)[3]);
}

static CUdeviceptr host_chunk(void)
{
	CUdeviceptr at = world_range(CHUNK);

	world_map(at, CHUNK, world_chunk(CU_LOCATION_NUMA, CHUNK));
	world_fill(at, 1024, 8);
	return at;
}

/* Those of page-locked memory alone do. */
static void copies_within_the_host(void)
{
	CUdeviceptr chunk, d;
	void *p;

	open_world();
	chunk = host_chunk();
	OK(cuMemAlloc_v2(&d, 4096));
	p = pinned(4096);
	world_fill((uintptr_t)p, 1024, 8);
	comes_late((uintptr_t)p);
	close_gate();
	OK(cuMemcpyDtoHAsync_v2(p, d, 4096, w.s));
	OK(cuMemcpyDtoHAsync_v2(p, chunk, 4096, w.s));
	OK(cuMemcpyHtoDAsync_v2(chunk, p, 4096, w.s));
	open_gate();
	OK(cuStreamSynchronize(w.s));
	EXPECT(8 + 3, ((uint32_t *)p)[3]);
}

static void copies_of_chunks_within_the_host(void)
{
	setenv("FAKE_CUDA_WITHIN_HOST", "1", 1);
	open_world();
	comes_late(host_chunk());
}

/* --- time --- */

#define MS UINT64_C(1000000)

static void copy_engines(void)
{
	CUdeviceptr a, b;
	uint64_t since;
	CUstream t;
	void *in, *out;

	setenv("FAKE_CUDA_COPY", "0.1:0.1:0.1", 1);
	open_world();
	OK(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
	in = pinned(4 * MIB);
	out = pinned(4 * MIB);
	OK(cuMemAlloc_v2(&a, 4 * MIB));
	OK(cuMemAlloc_v2(&b, 4 * MIB));
	since = now_ns();
	memset(in, 7, 4 * MIB);
	OK(cuMemcpyHtoDAsync_v2(a, in, 4 * MIB, w.s));
	OK(cuStreamSynchronize(w.s));
	EXPECT(true, now_ns() - since >= 41 * MS);
	OK(cuMemcpyDtoDAsync_v2(b, a, 4 * MIB, w.s));
	OK(cuStreamSynchronize(w.s));
	since = now_ns();
	OK(cuMemcpyHtoDAsync_v2(a, in, 4 * MIB, w.s));
	OK(cuMemcpyDtoHAsync_v2(out, b, 4 * MIB, t));
	OK(cuStreamSynchronize(w.s));
	OK(cuStreamSynchronize(t));
	EXPECT(true, now_ns() - since >= 82 * MS); /* one after the other, or each at half speed */
	EXPECT(7, ((char *)out)[4 * MIB - 1]);
}

static void calls_for_chunks(void)
{
	uint64_t since;
	cu_chunk c;
	CUdeviceptr at;

	setenv("FAKE_CUDA_VMM_US", "10000:20000:30000:40000", 1);
	setenv("FAKE_CUDA_MAKE", "0.1", 1);
	open_world();
	at = world_range(CHUNK);
	since = now_ns();
	c = world_chunk(CU_LOCATION_DEVICE, CHUNK);
	EXPECT(true, now_ns() - since >= 10 * MS);
	since = now_ns();
	world_map(at, CHUNK, c);
	EXPECT(true, now_ns() - since >= 50 * MS);
	since = now_ns();
	OK(cuMemUnmap(at, CHUNK));
	EXPECT(true, now_ns() - since >= 40 * MS);
	since = now_ns();
	world_chunk(CU_LOCATION_NUMA, 2 * CHUNK);
	EXPECT(true, now_ns() - since >= 10 * MS + 41 * MS);
}

/* What is behind a wait in its batch comes late, though the wait is over. */
static void late_words(void)
{
	uint64_t since, all = 0;

	setenv("FAKE_CUDA_LATE_US", "10000", 1);
	open_world();
	for (int i = 0; i < 20; i++) {
		atomic_store(gate, 0);
		atomic_store(gate + 1, 1);
		OK(cuStreamBatchMemOp_v2(w.s, 2,
			(union fm_cu_mem_op[]){
				{.op = {FM_CU_OP_WAIT_VALUE_32, (uintptr_t)gate, 1, CU_WAIT_EQ, 0}},
				{.op = {FM_CU_OP_WRITE_VALUE_32, (uintptr_t)(gate + 1), 0, 0, 0}}},
			0));
		since = now_ns();
		open_gate();
		while (atomic_load(gate + 1))
			usleep(50);
		all += now_ns() - since;
	}
	EXPECT(true, all >= 20 * 2 * MS); /* 5 ms each, as they are drawn */
}

CASE(context_lock)
CASE(copies_within_the_host)
CASE(copies_of_chunks_within_the_host)
CASE(copy_engines)
CASE(calls_for_chunks)
CASE(late_words)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_context_lock),
		cmocka_unit_test(test_copies_within_the_host),
		cmocka_unit_test(test_copies_of_chunks_within_the_host),
		cmocka_unit_test(test_copy_engines),
		cmocka_unit_test(test_calls_for_chunks),
		cmocka_unit_test(test_late_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
