/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rewritten images kept on disk (cache/cache.h), by the contents of what they were made of.
 *
 * Owns: nothing but what cache/cache.h owns.
 * Locks: none of its own.
 * Threads: any.
 */
#pragma once
#include "cache/cache.h"
#include "code/cuda/image.h"

#define FM_CACHE_DEFAULT (1024ull << 20)

/* fm_cache_open_as() "images". */
int fm_cache_open(struct fm_cache *c, const char *dir, uint64_t max);

/* What an image is found by: the bytes that matter on this device, and what would be made of them.
 * False: nothing would be. wishes: NULL for none. */
bool fm_cache_key(const void *image, size_t size, unsigned sm, const struct fm_image_wishes *wishes,
	uint8_t key[FM_HASH_BYTES]);

/* -ENOENT; -EBADMSG: there was one that is not to be believed, and which is gone now; or other
 * errors. Threads may use one cache at once. */
int fm_cache_get(struct fm_cache *c, const uint8_t key[FM_HASH_BYTES], struct fm_image *out);
/* Only of images that were rewritten. Others make room for it: those that were not used for
 * longest. */
int fm_cache_put(
	struct fm_cache *c, const uint8_t key[FM_HASH_BYTES], const struct fm_image *image);

/* fm_image_rewrite_as by way of the cache, which may be NULL. */
enum fm_image_why fm_cache_rewrite(struct fm_cache *c, const void *image, size_t size, unsigned sm,
	const struct fm_image_wishes *wishes, struct fm_image *out);
