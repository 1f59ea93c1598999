/* SPDX-License-Identifier: Apache-2.0 */
/* Gives the kernels of a PTX text the guardian, as text that the driver compiles. */
#pragma once
#include "code/cuda/image.h"

/* `size` does not count a zero at the end, which may be there or not. */
bool fm_is_ptx(const void *text, size_t size);
/* Fills in out->why, data and kernels; out->sm is that of .target. */
enum fm_image_why fm_ptx_rewrite(const char *text, size_t size, unsigned sm,
	const struct fm_image_wishes *wishes, struct fm_image *out);
