/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of a PTX text given the guardian: as text, which the driver compiles. */
#pragma once
#include "code/cuda/image.h"

/* `size` without the zero at the end, which may follow or not. */
bool fm_is_ptx(const void *text, size_t size);
/* out->why, data and kernels; out->sm is that of .target. */
enum fm_image_why fm_ptx_rewrite(
	const char *text, size_t size, unsigned sm, const char *loops, struct fm_image *out);
