/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of command, for estimates: kernels are alike by function and number of blocks, operators by
 * name and by powers of two of their workspace. */
#pragma once
#include "api/acl/core/types.h"
#include "shim/calls/keys.h"

static inline uint64_t key_op(unsigned call, uint64_t workspace)
{
	return key_bytes(1024 + call, workspace);
}

/* what: a function, a model, the name of an operator. */
static inline uint64_t key_of(uintptr_t what, uint64_t blocks)
{
	return key_mix(what, blocks * UINT64_C(0x100000001b3));
}

static inline uint64_t key_kernel(const void *f, uint64_t blocks)
{
	return key_of((uintptr_t)f, blocks);
}

static inline uint64_t key_dim3(const void *f, struct fm_acl_dim3 grid, struct fm_acl_dim3 block)
{
	return key_of(
		(uintptr_t)f, (uint64_t)grid.x * grid.y * grid.z * block.x * block.y * block.z);
}

static inline uint64_t key_name(const char *type, int inputs)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (; type && *type; type++)
		h = (h ^ (unsigned char)*type) * UINT64_C(0x100000001b3);
	return key_of((uintptr_t)h, (uint64_t)inputs);
}
