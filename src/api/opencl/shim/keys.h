/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of command, for estimates: of each row of calls.def that is a command. */
#pragma once
#include "api/opencl/opencl.h"
#include <stdint.h>

/* Copies cost alike by power of two of their size; kernels by kernel and work
 * size. */
static inline uint64_t key_bytes(unsigned op, size_t bytes)
{
	return 0x10000u + op * 64u + (bytes ? 63u - (unsigned)__builtin_clzll(bytes) : 0);
}

static inline uint64_t key_volume(unsigned op, const size_t region[3])
{
	return key_bytes(op, region ? region[0] * region[1] * region[2] : 0);
}

static inline uint64_t key_kernel(cl_kernel k, cl_uint dim, const size_t *global)
{
	uint64_t h = (uintptr_t)k;

	/* More dimensions than there can be: the driver will refuse, and global may hold fewer. */
	for (cl_uint i = 0; global && dim <= 3 && i < dim; i++)
		h = (h ^ global[i]) * UINT64_C(0x9e3779b97f4a7c15);
	return (h ^ h >> 29) | 1u << 31;
}
