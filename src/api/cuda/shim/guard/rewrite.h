/* SPDX-License-Identifier: Apache-2.0 */
/* What the program hands to the driver, rewritten by way of the cache on disk. */
#pragma once
#include "code/cuda/image.h"

/* size 0: as the image says. library: for all devices of the process, else for that of the current
 * context. To be freed. */
enum fm_image_why fm_cuda_rewrite(
	const void *image, size_t size, bool library, struct fm_image *out);
/* All calls of it have taken so long, together. */
uint64_t fm_cuda_rewrite_ns(void);
enum fm_image_why fm_cuda_rewrite_file(const char *path, bool library, struct fm_image *out);
