/* SPDX-License-Identifier: Apache-2.0 */
#include "cache.h"
#include "backend/cuda/image/guardian.h"
#include "backend/cuda/image/ptx_loop.h"
#include "base/cleanup.h"
#include "base/lanes.h"
#include "base/util.h"
#include "folder.h"
#include "pack.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define MAGIC "FERMATA\n"
/* So much is read, then summed while it is in the processor's cache. */
#define STEP (256u << 10)

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

bool fm_cache_key(
	const void *image, size_t size, unsigned sm, const char *loops, uint8_t key[FM_HASH_BYTES])
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	uint64_t numbers[3] = {FM_PACK_VERSION, sm, loops ? strlen(loops) + 1 : 0};
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
	if (loops)
		fm_hash_add(&h, loops, strlen(loops));
	for (unsigned i = 0; loops && fm_ptx_loop_text[i]; i++)
		fm_hash_add(&h, fm_ptx_loop_text[i], strlen(fm_ptx_loop_text[i]));
	fm_lanes_hash(part, n, of_part);
	fm_hash_add(&h, of_part, sizeof(of_part));
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

static int read_summed(int fd, uint8_t *to, size_t size, uint64_t *sum)
{
	*sum = 0;
	for (size_t at = 0; at < size; at += STEP) {
		size_t part = FM_MIN(size - at, (size_t)STEP);
		int rc = read_some(fd, to + at, part);

		if (rc)
			return rc;
		*sum = fm_lanes_sum(*sum, to + at, part);
	}
	return 0;
}

static uint64_t sum_of(const uint8_t *data, size_t size)
{
	uint64_t sum = 0;

	for (size_t at = 0; at < size; at += STEP)
		sum = fm_lanes_sum(sum, data + at, FM_MIN(size - at, (size_t)STEP));
	return sum;
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

/* All of a file, if it is one that this user alone can have written: its head, and the rest, whose
 * sum must be what the head says. */
static int read_all(int dir, const char *name, struct head *h, uint8_t **data, size_t *size)
{
	/* Not to wait for the other end of a pipe. */
	FM_CLEAN_FD int fd =
		openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	FM_CLEAN_FREE uint8_t *to = NULL;
	struct stat st;
	uint64_t sum;
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
	rc = rc ? rc : read_summed(fd, to, *size, &sum);
	if (rc)
		return rc;
	if (sum != h->sum)
		return -EBADMSG;
	/* It was of use now. */
	futimens(fd, NULL);
	*data = fm_take_ptr(to);
	return 0;
}

static bool is_for(const struct head *h, const uint8_t key[FM_HASH_BYTES], size_t size)
{
	return !memcmp(h->magic, MAGIC, sizeof(h->magic)) && !memcmp(h->key, key, sizeof(h->key)) &&
	       h->size == size;
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
	if (!rc && !is_for(&h, key, size))
		rc = -EBADMSG;
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
	h.sum = sum_of(data.data + sizeof(h), h.size);
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
