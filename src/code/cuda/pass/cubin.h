/* SPDX-License-Identifier: Apache-2.0 */
/* Rewrites the kernels of an ELF, and compares the result with the original. */
#pragma once
#include "code/cuda/elf.h"
#include "device/guardian.h"

/* Parameters of more than this size are described in another way, and before sm_90 placed
 * elsewhere. */
#define FM_PARAMS_V1 4352
/* Their place before sm_90. */
#define FM_BASE_FAR   0x1a80
#define FM_PARAMS_MAX 32764

/* Completes an image whose ELF is `in`. Fills in out->why and the kernels. */
enum fm_image_why fm_cubin_rewrite(const void *in, size_t len, struct fm_image *out);

/* `kernel`: the kernels of the image, in the order of its symbols. */
bool fm_cubin_verify(const struct fm_elf *was, const void *made, size_t size,
	const struct fm_guardian *guardian, const struct fm_kernel *kernel);
