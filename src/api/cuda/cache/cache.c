/* SPDX-License-Identifier: Apache-2.0 */
#include "cache.h"
#include "base/cleanup.h"
#include "base/lanes.h"
#include "code/cuda/pass/ptx_kill.h"
#include "code/cuda/pass/ptx_loop.h"
#include "device/guardian.h"
#include "pack.h"
#include <errno.h>
#include <pthread.h>
#include <string.h>

/* What is put into all images. */
static uint8_t guardians[FM_HASH_BYTES];

static void hash_guardians(void)
{
	struct fm_hash h;

	fm_hash_begin(&h);
	fm_hash_add(&h, fm_guardian_ptx, strlen(fm_guardian_ptx));
	for (unsigned i = 0; i < fm_n_guardians; i++)
		fm_hash_add(&h, fm_guardians[i].code, fm_guardians[i].words * sizeof(uint64_t));
	fm_hash_end(&h, guardians);
}

/* A list, and the text that it leads to. */
static void add_list(struct fm_hash *h, const char *list, const char *const *text)
{
	if (!list)
		return;
	fm_hash_add(h, list, strlen(list));
	for (unsigned i = 0; text[i]; i++)
		fm_hash_add(h, text[i], strlen(text[i]));
}

bool fm_cache_key(const void *image, size_t size, unsigned sm, const struct fm_image_wishes *wishes,
	uint8_t key[FM_HASH_BYTES])
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	static const struct fm_image_wishes none;
	const struct fm_image_wishes *w = wishes ? wishes : &none;
	uint64_t numbers[4] = {FM_PACK_VERSION, sm, w->loops ? strlen(w->loops) + 1 : 0,
		w->kill ? strlen(w->kill) + 1 : 0};
	uint8_t of_part[FM_HASH_BYTES];
	struct fm_hash h;
	const void *part;
	size_t n;

	if (fm_image_part(image, size, sm, &part, &n))
		return false;
	pthread_once(&once, hash_guardians);
	fm_hash_begin(&h);
	fm_hash_add(&h, numbers, sizeof(numbers));
	fm_hash_add(&h, guardians, sizeof(guardians));
	add_list(&h, w->loops, fm_ptx_loop_text);
	add_list(&h, w->kill, fm_ptx_kill_text);
	fm_lanes_hash(part, n, of_part);
	fm_hash_add(&h, of_part, sizeof(of_part));
	fm_hash_end(&h, key);
	return true;
}

int fm_cache_get(struct fm_cache *c, const uint8_t key[FM_HASH_BYTES], struct fm_image *out)
{
	FM_CLEAN_FREE uint8_t *data = NULL;
	size_t size = 0;
	int rc;

	*out = (struct fm_image){0};
	rc = fm_cache_read(c, key, &data, &size);
	if (rc)
		return rc;
	rc = fm_unpack(data, size, out);
	if (!rc)
		data = NULL; /* the image's */
	if (rc == -EBADMSG)
		fm_cache_remove(c, key);
	return rc;
}

int fm_cache_put(struct fm_cache *c, const uint8_t key[FM_HASH_BYTES], const struct fm_image *image)
{
	struct fm_buf data = {0};
	int rc;

	if (image->why || !image->data)
		return -EINVAL;
	fm_buf_add(&data, NULL, FM_CACHE_HEAD);
	fm_pack(image, &data);
	rc = data.failed ? -ENOMEM : fm_cache_write(c, key, data.data, data.size);
	fm_buf_free(&data);
	return rc;
}

enum fm_image_why fm_cache_rewrite(struct fm_cache *c, const void *image, size_t size, unsigned sm,
	const struct fm_image_wishes *wishes, struct fm_image *out)
{
	static const struct fm_image_wishes none;
	uint8_t key[FM_HASH_BYTES];

	wishes = wishes ? wishes : &none;
	if (!c || !fm_cache_key(image, size, sm, wishes, key))
		return fm_image_rewrite_as(image, size, sm, wishes, out);
	if (!fm_cache_get(c, key, out))
		return FM_IMAGE_OK;
	if (!fm_image_rewrite_as(image, size, sm, wishes, out))
		fm_cache_put(c, key, out);
	return out->why;
}

int fm_cache_open(struct fm_cache *c, const char *dir, uint64_t max)
{
	return fm_cache_open_as(c, dir, "images", max);
}
