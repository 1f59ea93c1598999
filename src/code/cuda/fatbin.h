/* SPDX-License-Identifier: Apache-2.0 */
/* Fatbins: one file with images for several architectures, each packed or not. */
#pragma once
#include "bytes.h"

#define FM_FATBIN_MAGIC   0xba55ed50u
#define FM_FATBIN_WRAPPER 0x466243b1u

/* The entry that the driver would use for a device. */
struct fm_fatbin_pick {
	const uint8_t *data; /* as in the fatbin, or unpacked */
	size_t size;
	uint8_t *unpacked; /* to be freed */
	unsigned sm;
	bool text;
};

bool fm_is_fatbin(const void *image, size_t size);
enum fm_image_why fm_fatbin_pick(
	const void *image, size_t size, unsigned sm, struct fm_fatbin_pick *out);

/* The same of its PTX alone, if it is of the architecture of the entry that would be used: else it
 * may have been compiled of other lines. */
enum fm_image_why fm_fatbin_text(
	const void *image, size_t size, unsigned sm, struct fm_fatbin_pick *out);

/* Does the entry that would be used have to be unpacked? Also if there is none. */
bool fm_fatbin_is_packed(const void *image, size_t size, unsigned sm);

/* The bytes of the entry that would be used, with its header. */
enum fm_image_why fm_fatbin_entry(
	const void *image, size_t size, unsigned sm, const void **entry, size_t *entry_size);

/* Unpacks exactly *size bytes. -EILSEQ, -ENOMEM. */
int fm_unpack_lz4(const uint8_t *packed, size_t n, uint8_t *out, size_t size);
int fm_unpack_zstd(const uint8_t *packed, size_t n, uint8_t *out, size_t size);
