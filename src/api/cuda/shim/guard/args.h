/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parameters of a launch of a rewritten kernel: the program's own, and behind them three of
 * ours. The program gives its parameters in one of two forms: a pointer to each, or one packed
 * buffer that a list of words (`extra`) names. Nothing is allocated: what the driver is given is in
 * room that the caller provides, on its stack.
 */
#pragma once
#include "api/cuda/core/driver.h"
#include "code/cuda/image.h"
#include <string.h>

/* A kernel with more parameters is not launched by us: its image stays as it is. */
#define FM_CUDA_PARAMS_MAX 4096u

struct fm_cuda_args {
	void **params, **extra; /* for the driver, instead of the program's */
	uint64_t ours[FM_GUARD_PARAMS];
	size_t size;
	void *list[5];
};

/* Bytes of room that fm_cuda_args() and fm_cuda_args_again() need, a multiple of 8: less than 34
 * KiB, usually less than 300 bytes. */
size_t fm_cuda_args_room(const struct fm_kernel *k, bool packed);

/*
 * Makes what the driver is given for the program's params and extra, either of which may be NULL.
 * `a` and `room` (of fm_cuda_args_room(k, extra != NULL), aligned to 8) are used by the driver's
 * call. False: the driver would not take the program's own parameters. Then the call fails with
 * FM_CU_ERROR_INVALID_VALUE, and the driver is not called, because it would read arbitrary values
 * for ours.
 */
bool fm_cuda_args(struct fm_cuda_args *a, const struct fm_kernel *k, void **params, void **extra,
	const uint64_t ours[FM_GUARD_PARAMS], void *room);

/* Replaces our parameters. */
static inline void fm_cuda_args_put(
	struct fm_cuda_args *a, const struct fm_kernel *k, const uint64_t ours[FM_GUARD_PARAMS])
{
	memcpy(a->ours, ours, sizeof(a->ours));
	if (a->extra)
		memcpy((char *)a->list[1] + k->guard_at, ours, sizeof(a->ours));
}

/* Bytes of a copy of all parameters, ours included: less than 33 KiB. */
static inline size_t fm_cuda_args_bytes(const struct fm_kernel *k)
{
	return (size_t)k->guard_at + FM_GUARD_BYTES;
}

/* Copies the program's parameters to their places for the kernel. Ours, from k->guard_at on, are
 * not written. False as above. */
bool fm_cuda_args_copy(const struct fm_kernel *k, void **params, void **extra, void *copy);

/* For a launch from such a copy; its room is that of fm_cuda_args_room(k, false). It uses no
 * `extra`, because not all calls take one. */
void fm_cuda_args_again(struct fm_cuda_args *a, const struct fm_kernel *k, void *copy,
	const uint64_t ours[FM_GUARD_PARAMS], void *room);
