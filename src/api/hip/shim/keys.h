/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of command, for estimates: kernels are alike by function and number of threads. */
#pragma once
#include "api/hip/core/types.h"
#include "shim/calls/keys.h"

static inline uint64_t key_kernel(const void *f, uint64_t blocks, uint64_t threads)
{
	return key_mix((uintptr_t)f, blocks * threads);
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
