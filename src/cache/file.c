/* SPDX-License-Identifier: Apache-2.0 */
/* One file of the cache. */
#include "base/cleanup.h"
#include "base/lanes.h"
#include "base/util.h"
#include "cache.h"
#include "folder.h"
#include <errno.h>
#include <fcntl.h>
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
_Static_assert(sizeof(struct head) == FM_CACHE_HEAD, "room for it");

static void name_of(const uint8_t key[FM_HASH_BYTES], char name[FM_CACHE_NAME])
{
	for (unsigned i = 0; i < FM_HASH_BYTES; i++)
		snprintf(name + 2 * i, 3, "%02x", key[i]);
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
		(size_t)st.st_size < sizeof(struct head) || st.st_size > FM_CACHE_FILE)
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

int fm_cache_read(struct fm_cache *c, const uint8_t key[FM_HASH_BYTES], uint8_t **out, size_t *size)
{
	FM_CLEAN_FREE uint8_t *data = NULL;
	char name[FM_CACHE_NAME];
	struct head h;
	int rc;

	name_of(key, name);
	rc = read_all(c->dir, name, &h, &data, size);
	if (!rc && !is_for(&h, key, *size))
		rc = -EBADMSG;
	if (rc == -EBADMSG)
		unlinkat(c->dir, name, 0);
	if (!rc)
		*out = fm_take_ptr(data);
	return rc;
}

void fm_cache_remove(struct fm_cache *c, const uint8_t key[FM_HASH_BYTES])
{
	char name[FM_CACHE_NAME];

	name_of(key, name);
	unlinkat(c->dir, name, 0);
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
static int write_file(struct fm_cache *c, const char *name, const uint8_t *data, size_t size)
{
	unsigned n = atomic_fetch_add(&c->files, 1);
	FM_CLEAN_FD int fd = -1;
	struct rlimit limit;
	char fresh[64];
	int rc;

	/* Beyond the limit a write would be a signal, which ends the program. */
	if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < size)
		return -EFBIG;
	snprintf(fresh, sizeof(fresh), FM_CACHE_FRESH "%d-%u-%llx", (int)getpid(), n,
		(unsigned long long)(uintptr_t)c);
	fd = openat(c->dir, fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	rc = write_all(fd, data, size);
	if (!rc && renameat(c->dir, fresh, c->dir, name))
		rc = -errno;
	if (rc)
		unlinkat(c->dir, fresh, 0);
	return rc;
}

int fm_cache_write(struct fm_cache *c, const uint8_t key[FM_HASH_BYTES], uint8_t *data, size_t size)
{
	struct head h = {.magic = MAGIC, .size = size - sizeof(h)};
	char name[FM_CACHE_NAME];
	int rc;

	memcpy(h.key, key, sizeof(h.key));
	h.sum = sum_of(data + sizeof(h), h.size);
	memcpy(data, &h, sizeof(h));
	name_of(key, name);
	/* One that would push out most others is not worth it. */
	rc = size > c->max / 4 ? -EFBIG : write_file(c, name, data, size);
	if (!rc && atomic_fetch_add(&c->unchecked, size) + size >= c->max / 16) {
		atomic_store(&c->unchecked, 0);
		fm_cache_trim(c->dir, c->max - c->max / 8);
	}
	return rc;
}
