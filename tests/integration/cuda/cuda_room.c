/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that allocates memory of every kind as it is told (cuda_job.h), and answers "no memory"
 * where there is none. Each command makes one of that many MiB, and keeps it.
 *
 *   plain, pitch, pool, from (a pool of its own), array, mipmap, vmm, unified
 *   context N    one more context, N times
 *   launch N     a kernel that was not launched before, N times
 *   load N       a module, N times; library N: a library and its module
 *   green N      a green context, N times
 *   told 0       answers "told FREE TOTAL", in MiB, as the driver says it
 */
#include "cuda_job.h"

#define MIB ((size_t)1 << 20)

static void made(fm_cu_result rc)
{
	if (rc == CU_OUT_OF_MEMORY)
		puts("no memory");
	else
		cu_check(rc, "allocation", __FILE__, __LINE__);
}

static void do_plain(struct job *j, int mib)
{
	CUdeviceptr at;

	(void)j;
	made(cu.cuMemAlloc_v2(&at, (size_t)mib * MIB));
}

static void do_pitch(struct job *j, int mib)
{
	CUdeviceptr at;
	size_t pitch;

	(void)j;
	made(cu.cuMemAllocPitch_v2(&at, &pitch, 1024, (size_t)mib * MIB / 1024, 4));
}

static void do_pool(struct job *j, int mib)
{
	CUdeviceptr at;

	made(cu.cuMemAllocAsync(&at, (size_t)mib * MIB, j->s));
}

static void do_from(struct job *j, int mib)
{
	const struct cu_pool_prop prop = {
		.type = CU_CHUNK_PINNED, .location = {CU_LOCATION_DEVICE, j->c.dev}};
	CUmemoryPool pool;
	CUdeviceptr at;

	CU(cuMemPoolCreate(&pool, &prop));
	made(cu.cuMemAllocFromPoolAsync(&at, (size_t)mib * MIB, pool, j->s));
}

static struct cu_array texels(int mib)
{
	return (struct cu_array){
		.width = 1024, .height = (size_t)mib * 256, .format = 0x20, .channels = 1};
}

static void do_array(struct job *j, int mib)
{
	const struct cu_array what = texels(mib);
	CUarray array;

	(void)j;
	made(cu.cuArray3DCreate_v2(&array, &what));
}

static void do_mipmap(struct job *j, int mib)
{
	const struct cu_array what = texels(mib);
	CUmipmappedArray array;

	(void)j;
	made(cu.cuMipmappedArrayCreate(&array, &what, 1));
}

static void do_vmm(struct job *j, int mib)
{
	const struct cu_chunk_prop prop = {
		.type = CU_CHUNK_PINNED, .location = {CU_LOCATION_DEVICE, j->c.dev}};
	cu_chunk chunk;

	made(cu.cuMemCreate(&chunk, (size_t)mib * MIB, &prop, 0));
}

static void do_unified(struct job *j, int mib)
{
	CUdeviceptr at;

	(void)j;
	made(cu.cuMemAllocManaged(&at, (size_t)mib * MIB, 1));
}

static void do_context(struct job *j, int n)
{
	CUcontext ctx;

	while (n--)
		made(cu.cuCtxCreate_v2(&ctx, 0, j->c.dev));
	CU(cuCtxSetCurrent(j->c.ctx));
}

static void do_launch(struct job *j, int n)
{
	int words = 1, value = 7;

	while (n--)
		made(cu.cuLaunchKernel(j->c.fill, 1, 1, 1, 1, 1, 1, 0, j->s,
			(void *[]){&j->x, &words, &value}, NULL));
	CU(cuStreamSynchronize(j->s));
}

static void do_load(struct job *j, int n)
{
	CUmodule module;

	(void)j;
	while (n--)
		made(cu.cuModuleLoadData(&module, cuda_ptx));
}

static void do_library(struct job *j, int n)
{
	CUlibrary library;
	CUmodule module;

	(void)j;
	while (n--) {
		CU(cuLibraryLoadData(&library, cuda_ptx, NULL, NULL, 0, NULL, NULL, 0));
		made(cu.cuLibraryGetModule(&module, library));
	}
}

static void do_green(struct job *j, int n)
{
	struct cu_resource part;
	CUdevResourceDesc desc;
	CUgreenCtx green;

	CU(cuDeviceGetDevResource(j->c.dev, &part, CU_RESOURCE_SM));
	CU(cuDevResourceGenerateDesc(&desc, &part, 1));
	while (n--)
		made(cu.cuGreenCtxCreate(&green, desc, j->c.dev, CU_GREEN_DEFAULT_STREAM));
}

static void do_stream(struct job *j, int n)
{
	CUstream s;

	(void)j;
	while (n--) {
		made(cu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
		made(cu.cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, 0));
	}
}

static void do_told(struct job *j, int n)
{
	size_t left, total;

	(void)j, (void)n;
	CU(cuMemGetInfo_v2(&left, &total));
	printf("told %zu %zu\n", left / MIB, total / MIB);
}

int main(int argc, char **argv)
{
	static const struct command commands[] = {
		{"plain", do_plain},
		{"pitch", do_pitch},
		{"pool", do_pool},
		{"from", do_from},
		{"array", do_array},
		{"mipmap", do_mipmap},
		{"vmm", do_vmm},
		{"unified", do_unified},
		{"context", do_context},
		{"launch", do_launch},
		{"load", do_load},
		{"library", do_library},
		{"green", do_green},
		{"stream", do_stream},
		{"told", do_told},
		{0},
	};

	return job_main(argc, argv, commands);
}
