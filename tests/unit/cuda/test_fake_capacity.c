/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of the fake CUDA driver's devices: how much there is, for all processes together. */
#include "../../fakes/nvml/nvml.h"
#include "fake_world.h"
#include <time.h>

#define CAPACITY  (64 * MIB)
#define FOR_A_CTX (CAPACITY / 128)

static char *file; /* of the device that processes share */

static void open_world(void)
{
	setenv("FAKE_CUDA_CAPACITY", "64M", 1);
	world_open();
}

static size_t left(void)
{
	size_t n, total;

	OK(cuMemGetInfo_v2(&n, &total));
	EXPECT(CAPACITY, total);
	return n;
}

static void allocations(void)
{
	struct cu_array_2d shape = {1024, 1024, 0x20, 1};
	CUdeviceptr d[3];
	CUarray array;
	size_t all;

	open_world();
	OK(cuDeviceTotalMem_v2(&all, 0));
	EXPECT(CAPACITY, all);
	all = left();
	EXPECT(CAPACITY - FOR_A_CTX, all);
	OK(cuMemAlloc_v2(&d[0], 1));
	EXPECT(all - 512, left());
	OK(cuMemAlloc_v2(&d[1], 60 * MIB));
	EXPECT(CU_OUT_OF_MEMORY, cuMemAlloc_v2(&d[2], 4 * MIB));
	EXPECT(CU_OUT_OF_MEMORY, cuArrayCreate_v2(&array, &shape));
	EXPECT(CU_OUT_OF_MEMORY, cuMemAlloc_v2(&d[2], (size_t)1 << 63));
	EXPECT(all - 512 - 60 * MIB, left());
	OK(cuMemFree_v2(d[1]));
	OK(cuArrayCreate_v2(&array, &shape));
	EXPECT(all - 512 - 4 * MIB, left());
	OK(cuArrayDestroy(array));
	EXPECT(CU_INVALID_HANDLE, cuArrayDestroy(array));
	OK(cuMemFree_v2(d[0]));
	EXPECT(all, left());
}

static void chunks(void)
{
	struct cu_chunk_prop prop = world_prop(CU_LOCATION_DEVICE);
	cu_chunk c[40], last;
	unsigned n = 0;
	CUdeviceptr at;
	size_t all;

	open_world();
	all = left();
	world_chunk(CU_LOCATION_NUMA, 256 * MIB); /* which is the host's */
	while (!cuMemCreate(&c[n], CHUNK, &prop, 0))
		n++;
	EXPECT(31, n);
	EXPECT(CU_OUT_OF_MEMORY, cuMemCreate(&last, CHUNK, &prop, 0));
	at = world_range(CHUNK);
	world_map(at, CHUNK, c[0]);
	for (unsigned i = 0; i < n; i++)
		OK(cuMemRelease(c[i]));
	EXPECT(all - CHUNK, left()); /* it is mapped still */
	OK(cuMemUnmap(at, CHUNK));
	EXPECT(all, left());
}

static void contexts(void)
{
	CUcontext one = NULL, more;
	CUdeviceptr d;
	size_t all;

	setenv("FAKE_CUDA_CONTEXT", "4M", 1);
	open_world();
	all = left();
	EXPECT(CAPACITY - 4 * MIB, all);
	OK(cuCtxCreate_v2(&one, 0, 0));
	EXPECT(all - 4 * MIB, left());
	OK(cuMemAlloc_v2(&d, 55 * MIB));
	EXPECT(CU_OUT_OF_MEMORY, cuCtxCreate_v2(&more, 0, 0));
	OK(cuCtxDestroy_v2(one)); /* with what it has */
	OK(cuCtxSetCurrent(w.ctx));
	EXPECT(all, left());
}

static void garbage(void)
{
	CUdeviceptr d;
	CUdeviceptr at;

	setenv("FAKE_CUDA_DIRTY", "1", 1);
	open_world();
	OK(cuMemAlloc_v2(&d, 4096));
	EXPECT(0xdbdbdbdb, world_word(d + 4092));
	at = world_range(CHUNK);
	world_map(at, CHUNK, world_chunk(CU_LOCATION_DEVICE, CHUNK));
	EXPECT(0, world_word(at + 4092));
}

/* --- several processes --- */

struct other {
	pid_t pid;
	int in, out;
};

/* One that has so much, until it is told to end. */
static struct other start_other(size_t bytes)
{
	int to[2], from[2];
	struct other o;
	CUdeviceptr d;
	char c;

	OK(pipe(to) | pipe(from));
	o.pid = fork();
	if (!o.pid) {
		close(to[1]);
		open_world();
		OK(cuMemAlloc_v2(&d, bytes));
		EXPECT(1, write(from[1], "!", 1));
		EXPECT(1, read(to[0], &c, 1));
		exit(0);
	}
	close(to[0]);
	close(from[1]);
	o.in = to[1];
	o.out = from[0];
	EXPECT(1, read(o.out, &c, 1));
	return o;
}

static void share(void)
{
	char path[] = "/tmp/fake-cuda-XXXXXX";
	int fd = mkstemp(path);

	if (fd < 0)
		_exit(1);
	close(fd);
	file = strdup(path);
	setenv("FAKE_CUDA_DEVICE", file, 1);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static void others(void)
{
	struct other o;
	CUdeviceptr d;
	size_t all;
	int status;

	share();
	o = start_other(40 * MIB);
	open_world();
	all = left();
	EXPECT(CAPACITY - 2 * FOR_A_CTX - 40 * MIB, all);
	EXPECT(CU_OUT_OF_MEMORY, cuMemAlloc_v2(&d, 30 * MIB));
	OK(cuMemAlloc_v2(&d, 20 * MIB));
	EXPECT(1, write(o.in, "!", 1));
	EXPECT(o.pid, waitpid(o.pid, &status, 0));
	EXPECT(0, status);
	EXPECT(CAPACITY - FOR_A_CTX - 20 * MIB, left());
	unlink(file);
}

static void one_is_killed(void)
{
	struct other o;
	CUdeviceptr d;
	uint64_t since;

	share();
	o = start_other(40 * MIB);
	open_world();
	since = now_ns();
	kill(o.pid, SIGKILL); /* and nobody waits for it */
	while (cuMemAlloc_v2(&d, 30 * MIB))
		usleep(2000);
	EXPECT(1, now_ns() - since >= 100000000);
	EXPECT(CAPACITY - FOR_A_CTX - 30 * MIB, left());
	unlink(file);
}

static void seen_by_nvml(void)
{
	struct nvml_memory_v2 v2 = {.version = NVML_MEMORY_V2};
	struct nvml_process who[2];
	struct nvml_memory m;
	char uuid[96];
	nvmlDevice_t d, same;
	struct other o;
	unsigned n;

	share();
	setenv("FAKE_CUDA_CAPACITY", "64M", 1);
	EXPECT(NVML_UNINITIALIZED, nvmlDeviceGetCount_v2(&n));
	OK(nvmlInit_v2());
	OK(nvmlDeviceGetCount_v2(&n));
	EXPECT(1, n);
	EXPECT(NVML_INVALID, nvmlDeviceGetHandleByIndex_v2(1, &d));
	OK(nvmlDeviceGetHandleByIndex_v2(0, &d));
	EXPECT(NVML_TOO_SMALL, nvmlDeviceGetUUID(d, uuid, 20));
	OK(nvmlDeviceGetUUID(d, uuid, sizeof(uuid)));
	OK(nvmlDeviceGetHandleByUUID(uuid, &same));
	EXPECT(d, same);
	EXPECT(NVML_NOT_FOUND, nvmlDeviceGetHandleByUUID("GPU-0", &same));
	OK(nvmlDeviceGetMemoryInfo(d, &m));
	EXPECT(CAPACITY, m.free);
	o = start_other(40 * MIB);
	OK(nvmlDeviceGetMemoryInfo(d, &m));
	EXPECT(40 * MIB + FOR_A_CTX, m.used);
	OK(nvmlDeviceGetMemoryInfo_v2(d, &v2));
	EXPECT(m.free, v2.free);
	v2.version = 1;
	EXPECT(NVML_OTHER_VERSION, nvmlDeviceGetMemoryInfo_v2(d, &v2));
	n = 2;
	OK(nvmlDeviceGetComputeRunningProcesses_v3(d, &n, who));
	EXPECT(1, n);
	EXPECT(o.pid, who[0].pid);
	EXPECT(m.used, who[0].used);
	OK(nvmlShutdown());
	kill(o.pid, SIGKILL);
	unlink(file);
}

static void nvml_of_one_process(void)
{
	struct nvml_memory m;
	nvmlDevice_t d;

	open_world();
	OK(nvmlInit_v2());
	OK(nvmlDeviceGetHandleByIndex_v2(0, &d));
	OK(nvmlDeviceGetMemoryInfo(d, &m));
	EXPECT(FOR_A_CTX, m.used);
	EXPECT(left(), m.free);
}

CASE(allocations)
CASE(chunks)
CASE(contexts)
CASE(garbage)
CASE(others)
CASE(one_is_killed)
CASE(seen_by_nvml)
CASE(nvml_of_one_process)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_allocations),
		cmocka_unit_test(test_chunks),
		cmocka_unit_test(test_contexts),
		cmocka_unit_test(test_garbage),
		cmocka_unit_test(test_others),
		cmocka_unit_test(test_one_is_killed),
		cmocka_unit_test(test_seen_by_nvml),
		cmocka_unit_test(test_nvml_of_one_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
