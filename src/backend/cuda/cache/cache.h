/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rewritten images kept on disk, by the contents of what they were made of: a file for each, in a
 * folder of the user's own. Any number of processes use it at once. A file appears whole or not at
 * all, is read once and checked by its sum, and is believed only if nobody but the user could have
 * written it; whatever is wrong with one, it is removed and the image is rewritten again.
 *
 * Nothing here has to succeed: without a folder, space or memory images are rewritten each time.
 */
#pragma once
#include "backend/cuda/image/image.h"
#include "base/blake2b.h"
#include <stdatomic.h>

#define FM_CACHE_DEFAULT (1024ull << 20)

struct fm_cache {
	int dir;
	uint64_t max;               /* bytes of all files */
	_Atomic uint64_t unchecked; /* written since the folder was looked at */
	_Atomic unsigned files;     /* names of files in the making */
};

/* `dir` NULL: fermata/images in $XDG_CACHE_HOME, else in ~/.cache. It is made if need be, but not
 * what is above it (other than ~/.cache). -EPERM: it is not the user's, or others may write there.
 */
int fm_cache_open(struct fm_cache *c, const char *dir, uint64_t max);
void fm_cache_close(struct fm_cache *c);

/* What an image is found by: the bytes that matter on this device, and what would be made of them.
 * False: nothing would be. */
bool fm_cache_key(
	const void *image, size_t size, unsigned sm, const char *loops, uint8_t key[FM_HASH_BYTES]);

/* -ENOENT; -EBADMSG: there was one that is not to be believed, and which is gone now; or other
 * errors. Threads may use one cache at once. */
int fm_cache_get(struct fm_cache *c, const uint8_t key[FM_HASH_BYTES], struct fm_image *out);
/* Only of images that were rewritten. Others make room for it: those that were not used for
 * longest. */
int fm_cache_put(
	struct fm_cache *c, const uint8_t key[FM_HASH_BYTES], const struct fm_image *image);

/* fm_image_rewrite_loops by way of the cache, which may be NULL. */
enum fm_image_why fm_cache_rewrite(struct fm_cache *c, const void *image, size_t size, unsigned sm,
	const char *loops, struct fm_image *out);
