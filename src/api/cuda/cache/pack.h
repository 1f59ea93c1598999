/* SPDX-License-Identifier: Apache-2.0 */
/* A rewritten image as bytes, and back. */
#pragma once
#include "code/cuda/bytes.h"

/* Changes whenever what is in a file, or what would be made of an image, does. The guardian's code
 * is part of the key besides. */
#define FM_PACK_VERSION 8

void fm_pack(const struct fm_image *image, struct fm_buf *out);
/* -EBADMSG, -ENOMEM; the bytes may be anything. They are the image's from then on (malloc()),
 * unless it fails: what the driver is to get is what they begin with, and is not copied. */
int fm_unpack(uint8_t *data, size_t size, struct fm_image *out);
