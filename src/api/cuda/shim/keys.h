/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kinds of command, for estimates, as the table of calls reads them from the parameters of each.
 * Copies cost alike by power of two of their size; kernels by kernel and number of threads.
 */
#pragma once
#include "api/cuda/core/types.h"

#define KEY_BYTES UINT64_C(0x10000)

static inline uint64_t key_bytes(unsigned op, size_t bytes)
{
	return KEY_BYTES + op * 64u + (bytes ? 63u - (unsigned)__builtin_clzll(bytes) : 0);
}

/* May the call wait for the device? One that copies or fills may; launches of kernels and graphs,
 * whose keys hold an address, do not. */
static inline bool key_waits(uint64_t key)
{
	return key / KEY_BYTES == 1;
}

static inline uint64_t key_kernel(CUfunction f, uint64_t grid, uint64_t block)
{
	uint64_t h = ((uintptr_t)f ^ grid * block) * UINT64_C(0x9e3779b97f4a7c15);

	return (h ^ h >> 29) | 1u << 31;
}

static inline uint64_t key_config(CUfunction f, const struct CUlaunchConfig_st *config)
{
	const struct fm_cu_launch_config *c = (const void *)config;

	if (!c)
		return 1;
	return key_kernel(f, (uint64_t)c->grid[0] * c->grid[1] * c->grid[2],
		(uint64_t)c->block[0] * c->block[1] * c->block[2]);
}

static inline uint64_t key_grid(CUfunction f, int w, int h)
{
	return key_kernel(f, (uint64_t)(unsigned)w * (unsigned)h, 1);
}

static inline CUstream config_stream(const struct CUlaunchConfig_st *config)
{
	const struct fm_cu_launch_config *c = (const void *)config;

	return c ? c->stream : NULL;
}

static inline uint64_t key_2d(unsigned op, const struct CUDA_MEMCPY2D_st *copy)
{
	const struct fm_cu_copy_2d *c = (const void *)copy;

	return key_bytes(op, c ? c->width * c->height : 0);
}

static inline uint64_t key_3d(unsigned op, const void *copy)
{
	const struct fm_cu_copy_3d *c = copy;

	return key_bytes(op, c ? c->width * c->height * c->depth : 0);
}

/* A copy to the host's memory ends before the call that is not asynchronous does. */
static inline bool to_host_2d(const struct CUDA_MEMCPY2D_st *copy)
{
	return ((const struct fm_cu_copy_2d *)(const void *)copy)->dst.type == FM_CU_MEMORY_HOST;
}

static inline bool to_host_3d(const void *copy)
{
	return ((const struct fm_cu_copy_3d *)copy)->dst.type == FM_CU_MEMORY_HOST;
}

static inline uint64_t key_op(unsigned op, const struct CUDA_MEMCPY3D_BATCH_OP_st *copy)
{
	const struct fm_cu_copy_op *c = (const void *)copy;

	return key_bytes(op, c ? c->width * c->height * c->depth : 0);
}

static inline uint64_t key_batch(unsigned op, const size_t *sizes, size_t n)
{
	size_t sum = 0;

	for (size_t i = 0; sizes && i < n; i++)
		sum += sizes[i];
	return key_bytes(op, sum);
}
