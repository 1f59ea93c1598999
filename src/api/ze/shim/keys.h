/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of command, for estimates: kernels are alike by kernel and number of groups, lists by their
 * handles. */
#pragma once
#include "api/ze/core/types.h"
#include "shim/calls/keys.h"

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
