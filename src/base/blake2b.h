/* SPDX-License-Identifier: Apache-2.0 */
/* BLAKE2b (RFC 7693), 32 bytes of it, without a key: the name of some bytes by their contents. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#define FM_HASH_BYTES 32

struct fm_hash {
	uint64_t h[8];
	uint64_t total; /* so far, without what is in the block */
	uint8_t block[128];
	size_t in_block;
};

void fm_hash_begin(struct fm_hash *s);
void fm_hash_add(struct fm_hash *s, const void *data, size_t size);
void fm_hash_end(struct fm_hash *s, uint8_t out[FM_HASH_BYTES]);
