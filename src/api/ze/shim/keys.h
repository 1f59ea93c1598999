/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of command, for estimates. The table of calls computes them from the parameters: copies are
 * alike by powers of two of their size, kernels by kernel and number of groups, lists by their
 * handles. */
#pragma once
#include "api/ze/core/types.h"

static inline uint64_t key_bytes(unsigned op, size_t bytes)
{
	return UINT64_C(0x30000) + op * 64u + (bytes ? 63u - (unsigned)__builtin_clzll(bytes) : 0);
}

static inline uint64_t key_mix(uint64_t h, uint64_t word)
{
	h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return (h ^ h >> 29) | 1u << 31;
}

static inline uint64_t key_kernel(ze_kernel_handle_t kernel, const ze_group_count_t *groups)
{
	return key_mix((uintptr_t)kernel, groups ? (uint64_t)groups->x * groups->y * groups->z : 0);
}

static inline uint64_t key_lists(uint32_t n, ze_command_list_handle_t *lists)
{
	uint64_t h = n;

	for (uint32_t i = 0; lists && i < n; i++)
		h = key_mix(h, (uintptr_t)lists[i]);
	return h;
}
