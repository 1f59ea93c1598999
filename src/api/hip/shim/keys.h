/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of command, for estimates. The table of calls computes them from the parameters: copies are
 * alike by powers of two of their size, kernels by function and number of threads. */
#pragma once
#include "api/hip/core/types.h"

static inline uint64_t key_bytes(unsigned op, size_t bytes)
{
	return UINT64_C(0x20000) + op * 64u + (bytes ? 63u - (unsigned)__builtin_clzll(bytes) : 0);
}

static inline uint64_t key_kernel(const void *f, uint64_t blocks, uint64_t threads)
{
	uint64_t h = ((uintptr_t)f ^ blocks * threads) * UINT64_C(0x9e3779b97f4a7c15);

	return (h ^ h >> 29) | 1u << 31;
}

static inline uint64_t key_dim3(const void *f, struct fm_hip_dim3 g, struct fm_hip_dim3 b)
{
	return key_kernel(f, (uint64_t)g.x * g.y * g.z, (uint64_t)b.x * b.y * b.z);
}

static inline uint64_t key_config(const void *f, const struct fm_hip_launch_config *c)
{
	return c ? key_dim3(f, c->grid, c->block) : 1;
}

static inline uint64_t key_drv_config(const void *f, const struct fm_hip_drv_launch_config *c)
{
	return c ? key_kernel(f, (uint64_t)c->grid[0] * c->grid[1] * c->grid[2],
			   (uint64_t)c->block[0] * c->block[1] * c->block[2])
		 : 1;
}
