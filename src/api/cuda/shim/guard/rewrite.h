/* SPDX-License-Identifier: Apache-2.0 */
/* Rewrites what the program hands to the driver, through the cache on disk. */
#pragma once
#include "code/cuda/image.h"

/* size 0: as the image says. library: for all devices of the process, else for the current
 * context's device. id: its name, as below; empty where no kernel of it may be killed. The result
 * must be freed. */
enum fm_image_why fm_cuda_rewrite(
	const void *image, size_t size, bool library, char id[33], struct fm_image *out);
/* How long all calls have taken together. */
uint64_t fm_cuda_rewrite_ns(void);
enum fm_image_why fm_cuda_rewrite_file(
	const char *path, bool library, char id[33], struct fm_image *out);

/* The name of an image, or of a file, as templates have it (predict/template.h). False: it is not
 * understood, or not made for the device. */
bool fm_cuda_image_id(const void *image, const char *path, bool library, char id[33]);

/* How much the variables of an image, or of a file, take of a device. unpack: also if the image has
 * to be unpacked for that. False: it is not understood, or not made for the device. */
bool fm_cuda_image_globals(
	const void *image, const char *path, bool library, bool unpack, uint64_t *bytes);
