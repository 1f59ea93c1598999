/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of an ELF rewritten, and what was made compared with what it was made of. */
#pragma once
#include "code/cuda/elf.h"
#include "device/guardian.h"

/* Parameters that are more than this are described, and before sm_90 placed, otherwise. */
#define FM_PARAMS_V1 4352
/* Where, then, before sm_90. */
#define FM_BASE_FAR   0x1a80
#define FM_PARAMS_MAX 32764

/* The rest of an image of which `in` is the ELF; out->why and kernels are filled in. */
enum fm_image_why fm_cubin_rewrite(const void *in, size_t len, struct fm_image *out);

/* `kernel` are those of the image, in the order of its symbols. */
bool fm_cubin_verify(const struct fm_elf *was, const void *made, size_t size,
	const struct fm_guardian *guardian, const struct fm_kernel *kernel);
