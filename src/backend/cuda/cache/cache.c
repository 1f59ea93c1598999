/* SPDX-License-Identifier: Apache-2.0 */
#include "cache.h"
#include "backend/cuda/image/guardian.h"
#include "backend/cuda/image/ptx_loop.h"
#include "base/cleanup.h"
#include "base/util.h"
#include "folder.h"
#include "pack.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define MAGIC "FERMATA\n"

/* What a file begins with. */
struct head {
	char magic[8];
	uint8_t key[FM_HASH_BYTES];
	uint64_t sum; /* of what follows */
	uint64_t size;
};

static void name_of(const uint8_t key[FM_HASH_BYTES], char name[FM_CACHE_NAME])
{
	for (unsigned i = 0; i < FM_HASH_BYTES; i++)
		snprintf(name + 2 * i, 3, "%02x", key[i]);
}

bool fm_cache_key(
	const void *image, size_t size, unsigned sm, const char *loops, uint8_t key[FM_HASH_BYTES])
{
	uint64_t numbers[3] = {FM_PACK_VERSION, sm, loops ? strlen(loops) + 1 : 0};
	struct fm_hash h;
	const void *part;
	size_t n;

	if (fm_image_part(image, size, sm, &part, &n))
		return false;
	fm_hash_begin(&h);
	fm_hash_add(&h, numbers, sizeof(numbers));
	fm_hash_add(&h, fm_guardian_ptx, strlen(fm_guardian_ptx));
	for (unsigned i = 0; i < fm_n_guardians; i++)
		fm_hash_add(&h, fm_guardians[i].code, fm_guardians[i].words * sizeof(uint64_t));
	if (loops)
		fm_hash_add(&h, loops, strlen(loops));
	for (unsigned i = 0; loops && fm_ptx_loop_text[i]; i++)
		fm_hash_add(&h, fm_ptx_loop_text[i], strlen(fm_ptx_loop_text[i]));
	fm_hash_add(&h, part, n);
	fm_hash_end(&h, key);
	return true;
}

static int read_some(int fd, void *to, size_t size)
{
	size_t got = 0;

	while (got < size) {
		ssize_t n = read(fd, (uint8_t *)to + got, size - got);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EBADMSG;
		got += (size_t)n;
	}
	return 0;
}

/* Where all that is read is new, the pages of it cost more than the reading. */
static void *room_for(size_t size)
{
	enum { HUGE = 2 << 20 };
	void *to;

	if (size < 2 * HUGE)
		return malloc(size);
	size = (size + HUGE - 1) / HUGE * HUGE;
	to = aligned_alloc(HUGE, size);
	if (to)
		madvise(to, size, MADV_HUGEPAGE);
	return to;
}

/* All of a file, if it is one that this user alone can have written: its head, and the rest. */
static int read_all(int dir, const char *name, struct head *h, uint8_t **data, size_t *size)
{
	/* Not to wait for the other end of a pipe. */
	FM_CLEAN_FD int fd =
		openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	FM_CLEAN_FREE uint8_t *to = NULL;
	struct stat st;
	int rc;

	if (fd < 0)
		return errno == ELOOP ? -EBADMSG : -errno;
	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022) ||
		(size_t)st.st_size < sizeof(struct head) || st.st_size > FM_IMAGE_MAX)
		return -EBADMSG;
	*size = (size_t)st.st_size - sizeof(*h);
	to = room_for(*size + 1);
	if (!to)
		return -ENOMEM;
	rc = read_some(fd, h, sizeof(*h));
	rc = rc ? rc : read_some(fd, to, *size);
	if (rc)
		return rc;
	/* It was of use now. */
	futimens(fd, NULL);
	*data = fm_take_ptr(to);
	return 0;
}

static int check(
	const struct head *h, const uint8_t key[FM_HASH_BYTES], const uint8_t *data, size_t size)
{
	if (memcmp(h->magic, MAGIC, sizeof(h->magic)) || memcmp(h->key, key, sizeof(h->key)) ||
		h->size != size)
		return -EBADMSG;
	return fm_sum(data, size) == h->sum ? 0 : -EBADMSG;
}

int fm_cache_get(struct fm_cache *c, const uint8_t key[FM_HASH_BYTES], struct fm_image *out)
{
	FM_CLEAN_FREE uint8_t *data = NULL;
	char name[FM_CACHE_NAME];
	struct head h;
	size_t size = 0;
	int rc;

	*out = (struct fm_image){0};
	name_of(key, name);
	rc = read_all(c->dir, name, &h, &data, &size);
	if (!rc)
		rc = check(&h, key, data, size);
	if (!rc)
		rc = fm_unpack(data, size, out);
	if (!rc)
		data = NULL; /* the image's */
	if (rc == -EBADMSG)
		unlinkat(c->dir, name, 0);
	return rc;
}

static int write_all(int fd, const uint8_t *data, size_t size)
{
	while (size) {
		ssize_t n = write(fd, data, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -ENOSPC;
		data += n;
		size -= (size_t)n;
	}
	return 0;
}

/* Under another name first; what is there under the right one is whole. */
static int write_file(struct fm_cache *c, const char *name, const struct fm_buf *data)
{
	unsigned n = atomic_fetch_add(&c->files, 1);
	FM_CLEAN_FD int fd = -1;
	struct rlimit limit;
	char fresh[64];
	int rc;

	/* Beyond the limit a write would be a signal, which ends the program. */
	if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < data->size)
		return -EFBIG;
	snprintf(fresh, sizeof(fresh), FM_CACHE_FRESH "%d-%u-%llx", (int)getpid(), n,
		(unsigned long long)(uintptr_t)c);
	fd = openat(c->dir, fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	rc = write_all(fd, data->data, data->size);
	if (!rc && renameat(c->dir, fresh, c->dir, name))
		rc = -errno;
	if (rc)
		unlinkat(c->dir, fresh, 0);
	return rc;
}

int fm_cache_put(struct fm_cache *c, const uint8_t key[FM_HASH_BYTES], const struct fm_image *image)
{
	struct head h = {.magic = MAGIC};
	struct fm_buf data = {0};
	char name[FM_CACHE_NAME];
	int rc;

	if (image->why || !image->data)
		return -EINVAL;
	memcpy(h.key, key, sizeof(h.key));
	fm_buf_add(&data, &h, sizeof(h));
	fm_pack(image, &data);
	if (data.failed) {
		fm_buf_free(&data);
		return -ENOMEM;
	}
	h.size = data.size - sizeof(h);
	h.sum = fm_sum(data.data + sizeof(h), h.size);
	memcpy(data.data, &h, sizeof(h));
	name_of(key, name);
	/* One that would push out most others is not worth it. */
	rc = data.size > c->max / 4 ? -EFBIG : write_file(c, name, &data);
	if (!rc && atomic_fetch_add(&c->unchecked, data.size) + data.size >= c->max / 16) {
		atomic_store(&c->unchecked, 0);
		fm_cache_trim(c->dir, c->max - c->max / 8);
	}
	fm_buf_free(&data);
	return rc;
}

enum fm_image_why fm_cache_rewrite(struct fm_cache *c, const void *image, size_t size, unsigned sm,
	const char *loops, struct fm_image *out)
{
	uint8_t key[FM_HASH_BYTES];

	if (!c || !fm_cache_key(image, size, sm, loops, key))
		return fm_image_rewrite_loops(image, size, sm, loops, out);
	if (!fm_cache_get(c, key, out))
		return FM_IMAGE_OK;
	if (!fm_image_rewrite_loops(image, size, sm, loops, out))
		fm_cache_put(c, key, out);
	return out->why;
}
