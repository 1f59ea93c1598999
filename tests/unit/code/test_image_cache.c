/* SPDX-License-Identifier: Apache-2.0 */
/* Rewritten images on disk: found again, by several processes at once, and never believed if wrong.
 */
#include "api/cuda/cache/cache.h"
#include "base/cleanup.h"
#include "cache/folder.h"
#include "image_files.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

static char place[64];
static size_t disk = SIZE_MAX; /* bytes that may still be written */

ssize_t __real_write(int fd, const void *data, size_t size);
ssize_t __wrap_write(int fd, const void *data, size_t size);

/* A disk with so much room; what does not fit is written as far as it does, as disks do. */
ssize_t __wrap_write(int fd, const void *data, size_t size)
{
	if (disk == SIZE_MAX)
		return __real_write(fd, data, size);
	if (!disk) {
		errno = ENOSPC;
		return -1;
	}
	size = size < disk ? size : disk;
	disk -= size;
	return __real_write(fd, data, size);
}

static int fresh(void **state)
{
	strcpy(place, "/tmp/fermata-cache-XXXXXX");
	return !mkdtemp(place);
}

static int clean(void **state)
{
	DIR *d = opendir(place);
	struct dirent *e;

	while (d && (e = readdir(d)))
		unlinkat(dirfd(d), e->d_name, 0);
	if (d)
		closedir(d);
	return rmdir(place);
}

static struct fm_cache cache(uint64_t max)
{
	struct fm_cache c;

	assert_int_equal(fm_cache_open(&c, place, max), 0);
	return c;
}

/* How many files there are, and of what size together, besides the lock. */
static unsigned files(uint64_t *bytes)
{
	FM_CLEAN_DIR DIR *d = opendir(place);
	struct dirent *e;
	struct stat st;
	unsigned n = 0;

	*bytes = 0;
	while ((e = readdir(d))) {
		if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) || S_ISDIR(st.st_mode) ||
			!strcmp(e->d_name, ".lock"))
			continue;
		n++;
		*bytes += (uint64_t)st.st_size;
	}
	return n;
}

static void path_of(const uint8_t key[FM_HASH_BYTES], char path[256])
{
	int n = snprintf(path, 256, "%s/", place);

	for (unsigned i = 0; i < FM_HASH_BYTES; i++)
		n += snprintf(path + n, 256 - (size_t)n, "%02x", key[i]);
}

/* An image that was rewritten, and its key. */
static struct fm_image one(const char *name, uint8_t key[FM_HASH_BYTES])
{
	struct file f = load(name);
	struct fm_image image;

	assert_int_equal(fm_image_rewrite(f.data, f.size, 90, &image), FM_IMAGE_OK);
	assert_true(fm_cache_key(f.data, f.size, 90, NULL, key));
	free(f.data);
	return image;
}

static void found_again(void **state)
{
	static const char *const names[] = {
		"sm80.cubin", "sm90-abi7.cubin", "pack-lz4.fatbin", "kernels.ptx"};

	for (size_t i = 0; i < 4; i++) {
		struct fm_cache c = cache(1 << 20), other = cache(1 << 20);
		struct fm_image made, got;
		uint8_t key[FM_HASH_BYTES];

		made = one(names[i], key);
		assert_int_equal(fm_cache_get(&c, key, &got), -ENOENT);
		assert_int_equal(fm_cache_put(&c, key, &made), 0);
		assert_int_equal(fm_cache_get(&other, key, &got), 0);
		same_image(&made, &got);
		fm_image_free(&got);
		fm_image_free(&made);
		fm_cache_close(&c);
		fm_cache_close(&other);
	}
}

static void by_the_way(void **state)
{
	struct fm_cache c = cache(1 << 20);
	struct file f = load("sm90.cubin");
	struct fm_image a, b;
	uint64_t bytes;

	assert_int_equal(fm_cache_rewrite(&c, f.data, f.size, 90, NULL, &a), FM_IMAGE_OK);
	assert_int_equal(files(&bytes), 1);
	assert_int_equal(fm_cache_rewrite(&c, f.data, f.size, 90, NULL, &b), FM_IMAGE_OK);
	same_image(&a, &b);
	fm_image_free(&b);
	assert_int_equal(fm_cache_rewrite(NULL, f.data, f.size, 90, NULL, &b), FM_IMAGE_OK);
	same_image(&a, &b);
	fm_image_free(&a);
	fm_image_free(&b);
	/* What is left as it is, is not kept. */
	f.data[18] ^= 1;
	assert_int_equal(fm_cache_rewrite(&c, f.data, f.size, 90, NULL, &a), FM_IMAGE_FOREIGN);
	assert_int_equal(fm_cache_put(&c, (uint8_t[FM_HASH_BYTES]){0}, &a), -EINVAL);
	fm_image_free(&a);
	assert_int_equal(files(&bytes), 1);
	free(f.data);
	fm_cache_close(&c);
}

static void keys(void **state)
{
	uint8_t a[FM_HASH_BYTES], b[FM_HASH_BYTES];
	struct file f = load("pack-none.fatbin");

	assert_true(fm_cache_key("image", 5, 90, NULL, a));
	assert_true(fm_cache_key("image", 5, 90, NULL, b));
	assert_memory_equal(a, b, sizeof(a));
	assert_true(fm_cache_key("image", 5, 80, NULL, b));
	assert_memory_not_equal(a, b, sizeof(a));
	assert_true(fm_cache_key("imagf", 5, 90, NULL, b));
	assert_memory_not_equal(a, b, sizeof(a));
	assert_true(fm_cache_key("image", 4, 90, NULL, b));
	assert_memory_not_equal(a, b, sizeof(a));
	/* Of a fatbin the entry that is taken counts: here the first, its last byte not being the
	 * file's. */
	assert_true(fm_cache_key(f.data, f.size, 80, NULL, a));
	f.data[f.size - 1] ^= 1;
	assert_true(fm_cache_key(f.data, f.size, 80, NULL, b));
	assert_memory_equal(a, b, sizeof(a));
	f.data[16 + 64 + 100] ^= 1;
	assert_true(fm_cache_key(f.data, f.size, 80, NULL, b));
	assert_memory_not_equal(a, b, sizeof(a));
	assert_false(fm_cache_key(f.data, f.size, 75, NULL, b));
	free(f.data);
}

/* Whatever byte is wrong, or is missing: it is not believed, is removed, and can be written again.
 */
static void corrupted(void **state)
{
	struct fm_cache c = cache(1 << 20);
	struct fm_image made, got;
	uint8_t key[FM_HASH_BYTES];
	char path[256];
	struct stat st;

	made = one("pack-zstd.fatbin", key);
	path_of(key, path);
	assert_int_equal(fm_cache_put(&c, key, &made), 0);
	assert_int_equal(stat(path, &st), 0);
	for (off_t at = 0; at < st.st_size; at += at < 200 ? 1 : 97) {
		int fd = open(path, O_RDWR);
		uint8_t byte;

		assert_int_equal(pread(fd, &byte, 1, at), 1);
		byte ^= 0x40;
		assert_int_equal(pwrite(fd, &byte, 1, at), 1);
		close(fd);
		assert_int_equal(fm_cache_get(&c, key, &got), -EBADMSG);
		assert_null(got.data);
		assert_int_equal(access(path, F_OK), -1);
		assert_int_equal(fm_cache_put(&c, key, &made), 0);
		assert_int_equal(truncate(path, at), 0);
		assert_int_equal(fm_cache_get(&c, key, &got), -EBADMSG);
		assert_int_equal(access(path, F_OK), -1);
		assert_int_equal(fm_cache_put(&c, key, &made), 0);
	}
	assert_int_equal(fm_cache_get(&c, key, &got), 0);
	same_image(&made, &got);
	fm_image_free(&got);
	fm_image_free(&made);
	fm_cache_close(&c);
}

/* One of several pieces, as the sum is made, and in large pages: each piece counts, and their
 * order.
 */
static void large(void **state)
{
	enum { PIECE = 256 << 10, SIZE = (5 << 20) + 77 };
	struct fm_kernel kernel = {.name = "k", .why = FM_KERNEL_ENTRY};
	struct fm_image made = {.size = SIZE, .sm = 90, .n = 1, .kernel = &kernel}, got;
	uint8_t key[FM_HASH_BYTES] = {1}, *data = malloc(SIZE), *piece = malloc(2 * PIECE);
	struct fm_cache c = cache(64 << 20);
	char path[256];
	int fd;

	assert_non_null(data);
	assert_non_null(piece);
	for (size_t i = 0; i < SIZE; i++)
		data[i] = (uint8_t)(i * 2654435761u >> 13);
	made.data = data;
	path_of(key, path);
	assert_int_equal(fm_cache_put(&c, key, &made), 0);
	assert_int_equal(fm_cache_get(&c, key, &got), 0);
	same_image(&made, &got);
	fm_image_free(&got);
	for (off_t at = 100; at < SIZE; at += PIECE - 1) {
		fd = open(path, O_RDWR);
		assert_int_equal(pwrite(fd, &(uint8_t){(uint8_t)~data[at]}, 1, 56 + at), 1);
		close(fd);
		assert_int_equal(fm_cache_get(&c, key, &got), -EBADMSG);
		assert_int_equal(fm_cache_put(&c, key, &made), 0);
	}
	fd = open(path, O_RDWR);
	assert_int_equal(pread(fd, piece, 2 * PIECE, 56), 2 * PIECE);
	assert_int_equal(pwrite(fd, piece + PIECE, PIECE, 56), PIECE);
	assert_int_equal(pwrite(fd, piece, PIECE, 56 + PIECE), PIECE);
	close(fd);
	assert_int_equal(fm_cache_get(&c, key, &got), -EBADMSG);
	fm_cache_close(&c);
	free(data);
	free(piece);
}

/* The sum of a file is right, and yet what is in it is not what was asked for. */
static void of_another(void **state)
{
	struct fm_cache c = cache(1 << 20);
	struct fm_image made, got;
	uint8_t key[FM_HASH_BYTES], other[FM_HASH_BYTES] = {1, 2, 3};
	char from[256], to[256];

	made = one("sm80-abi7.cubin", key);
	assert_int_equal(fm_cache_put(&c, key, &made), 0);
	path_of(key, from);
	path_of(other, to);
	assert_int_equal(link(from, to), 0);
	assert_int_equal(fm_cache_get(&c, other, &got), -EBADMSG);
	assert_int_equal(fm_cache_get(&c, key, &got), 0);
	fm_image_free(&got);
	fm_image_free(&made);
	fm_cache_close(&c);
}

/* What others could have written is not believed, whatever is in it; and nothing makes it wait. */
static void of_others(void **state)
{
	struct fm_cache c = cache(1 << 20), refused;
	struct fm_image made, got;
	uint8_t key[FM_HASH_BYTES];
	char path[256], aside[256];

	made = one("sm80-abi7.cubin", key);
	path_of(key, path);
	snprintf(aside, sizeof(aside), "%s/aside", place);
	assert_int_equal(fm_cache_put(&c, key, &made), 0);
	assert_int_equal(chmod(path, 0620), 0);
	assert_int_equal(fm_cache_get(&c, key, &got), -EBADMSG);
	assert_int_equal(fm_cache_put(&c, key, &made), 0);
	assert_int_equal(rename(path, aside), 0);
	assert_int_equal(symlink(aside, path), 0);
	assert_int_equal(fm_cache_get(&c, key, &got), -EBADMSG);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(fm_cache_get(&c, key, &got), -EBADMSG);
	assert_int_equal(fm_cache_put(&c, key, &made), 0);
	if (!geteuid() && !chown(path, 1, 1))
		assert_int_equal(fm_cache_get(&c, key, &got), -EBADMSG);
	fm_cache_close(&c);

	assert_int_equal(chmod(place, 0770), 0);
	assert_int_equal(fm_cache_open(&refused, place, 1 << 20), -EPERM);
	assert_int_equal(chmod(place, 0700), 0);
	if (!geteuid() && !chown(place, 1, 1)) {
		assert_int_equal(fm_cache_open(&refused, place, 1 << 20), -EPERM);
		assert_int_equal(chown(place, 0, 0), 0);
	}
	fm_image_free(&made);
}

static void nothing_there(const struct fm_cache *c, const uint8_t key[FM_HASH_BYTES])
{
	struct fm_cache own = *c;
	struct fm_image got;
	uint64_t bytes;

	assert_int_equal(fm_cache_get(&own, key, &got), -ENOENT);
	assert_int_equal(files(&bytes), 0);
}

static void full_disk(void **state)
{
	struct fm_cache c = cache(1 << 20);
	struct fm_image made, got;
	struct rlimit was, little;
	uint8_t key[FM_HASH_BYTES];

	made = one("sm80-abi7.cubin", key);
	for (size_t room = 0; room < made.size; room += made.size / 5) {
		disk = room;
		assert_int_equal(fm_cache_put(&c, key, &made), -ENOSPC);
		disk = SIZE_MAX;
		nothing_there(&c, key);
	}
	/* A limit of the process: beyond it a write would end the program. */
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
	little = (struct rlimit){4096, was.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
	assert_int_equal(fm_cache_put(&c, key, &made), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
	nothing_there(&c, key);
	assert_int_equal(fm_cache_put(&c, key, &made), 0);
	assert_int_equal(fm_cache_get(&c, key, &got), 0);
	fm_image_free(&got);
	fm_image_free(&made);
	fm_cache_close(&c);
}

/* The folder stays below its bound, and what was used last stays in it. */
static void bounded(void **state)
{
	struct fm_image made;
	uint8_t key[FM_HASH_BYTES], name[FM_HASH_BYTES] = {0};
	struct fm_cache c;
	uint64_t bytes, size;
	char path[256];

	made = one("sm80-abi7.cubin", key);
	c = cache(1 << 30);
	assert_int_equal(fm_cache_put(&c, name, &made), 0);
	files(&size);
	fm_cache_close(&c);
	c = cache(16 * size);
	for (unsigned i = 0; i < 40; i++) {
		struct timespec used[2] = {{.tv_sec = 1000 + i}, {.tv_sec = 1000 + i}};

		name[0] = (uint8_t)i;
		assert_int_equal(fm_cache_put(&c, name, &made), 0);
		path_of(name, path);
		assert_int_equal(utimensat(AT_FDCWD, path, used, 0), 0);
		assert_true(files(&bytes) <= 16 && bytes <= 16 * size);
	}
	fm_cache_trim(c.dir, 3 * size);
	assert_int_equal(files(&bytes), 3);
	for (unsigned i = 37; i < 40; i++) {
		name[0] = (uint8_t)i;
		path_of(name, path);
		assert_int_equal(access(path, F_OK), 0);
	}
	fm_cache_close(&c);
	/* One that is too large for it is not kept at all. */
	c = cache(3 * size);
	assert_int_equal(fm_cache_put(&c, name, &made), -EFBIG);
	fm_cache_close(&c);
	fm_image_free(&made);
}

/* Reading makes it used. */
static void use_counts(void **state)
{
	struct fm_cache c = cache(1 << 30);
	struct fm_image made, got;
	uint8_t key[FM_HASH_BYTES], name[FM_HASH_BYTES] = {0};
	uint64_t bytes, size;
	char path[256];

	made = one("sm80-abi7.cubin", key);
	for (unsigned i = 0; i < 3; i++) {
		struct timespec used[2] = {{.tv_sec = 1000 + i}, {.tv_sec = 1000 + i}};

		name[0] = (uint8_t)i;
		assert_int_equal(fm_cache_put(&c, name, &made), 0);
		path_of(name, path);
		assert_int_equal(utimensat(AT_FDCWD, path, used, 0), 0);
	}
	name[0] = 0;
	assert_int_equal(fm_cache_get(&c, name, &got), 0);
	fm_image_free(&got);
	size = (files(&bytes), bytes / 3);
	fm_cache_trim(c.dir, size);
	assert_int_equal(files(&bytes), 1);
	assert_int_equal(fm_cache_get(&c, name, &got), 0);
	fm_image_free(&got);
	fm_image_free(&made);
	fm_cache_close(&c);
}

/* Left by processes that were killed: removed when they are old, and not before. */
static void leftovers(void **state)
{
	struct fm_cache c = cache(1 << 20);
	struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
	uint64_t bytes;
	char path[256];

	for (unsigned i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/.new-1-%u", place, i);
		close(open(path, O_CREAT | O_WRONLY, 0600));
	}
	assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
	fm_cache_trim(c.dir, 1 << 20);
	assert_int_equal(files(&bytes), 1);
	assert_int_equal(access(path, F_OK), -1);
	fm_cache_close(&c);
}

/* A child that writes and reads the same few as its siblings, in a folder too small for all of
 * them. */
static int child(const struct fm_image made[3], uint8_t key[3][FM_HASH_BYTES], unsigned who)
{
	struct fm_cache c;
	int seen = 0;

	if (fm_cache_open(&c, place, 200 << 10))
		return 1;
	for (unsigned i = 0; i < 150; i++) {
		unsigned which = (i * 7 + who) % 3;
		struct fm_image got;
		int rc = fm_cache_get(&c, key[which], &got);

		if (!rc) {
			seen++;
			if (got.size != made[which].size || got.n != made[which].n ||
				memcmp(got.data, made[which].data, got.size))
				return 2;
			fm_image_free(&got);
		} else if (rc != -ENOENT) {
			return 3;
		}
		if (i % 3 == who % 3 && fm_cache_put(&c, key[which], &made[which]))
			return 4;
		if (i % 10 == who)
			fm_cache_trim(c.dir, 60 << 10);
	}
	return seen ? 0 : 5;
}

static void processes(void **state)
{
	static const char *const names[] = {
		"sm80-abi7.cubin", "pack-none.fatbin", "sm86-abi7.cubin"};
	struct fm_image made[3];
	uint8_t key[3][FM_HASH_BYTES];
	struct fm_cache c;
	uint64_t bytes;
	pid_t pid[4];

	for (unsigned i = 0; i < 3; i++)
		made[i] = one(names[i], key[i]);
	for (unsigned i = 0; i < 4; i++) {
		pid[i] = fork();
		assert_true(pid[i] >= 0);
		if (!pid[i])
			_exit(child(made, key, i));
	}
	for (unsigned i = 0; i < 4; i++) {
		int status;

		assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 0);
	}
	/* None has left anything in the making. */
	assert_true(files(&bytes) <= 3);
	c = cache(1 << 20);
	fm_cache_trim(c.dir, 0);
	assert_int_equal(files(&bytes), 0);
	fm_cache_close(&c);
	for (unsigned i = 0; i < 3; i++)
		fm_image_free(&made[i]);
}

static void default_place(void **state)
{
	struct fm_cache c;
	struct stat st;
	char path[256];

	assert_int_equal(setenv("XDG_CACHE_HOME", place, 1), 0);
	assert_int_equal(fm_cache_open(&c, NULL, FM_CACHE_DEFAULT), 0);
	fm_cache_close(&c);
	snprintf(path, sizeof(path), "%s/fermata/images", place);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	rmdir(path);
	snprintf(path, sizeof(path), "%s/fermata", place);
	rmdir(path);
	unsetenv("XDG_CACHE_HOME");
	setenv("HOME", place, 1);
	assert_int_equal(fm_cache_open(&c, NULL, FM_CACHE_DEFAULT), 0);
	fm_cache_close(&c);
	snprintf(path, sizeof(path), "%s/.cache/fermata/images", place);
	assert_int_equal(rmdir(path), 0);
	snprintf(path, sizeof(path), "%s/.cache/fermata", place);
	rmdir(path);
	snprintf(path, sizeof(path), "%s/.cache", place);
	rmdir(path);
	setenv("HOME", "relative", 1);
	assert_int_equal(fm_cache_open(&c, NULL, FM_CACHE_DEFAULT), -ENOENT);
	assert_int_equal(fm_cache_open(&c, "/proc/nowhere/at/all", 1), -ENOENT);
}

#define IN_PLACE(test) cmocka_unit_test_setup_teardown(test, fresh, clean)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_PLACE(found_again),
		IN_PLACE(by_the_way),
		cmocka_unit_test(keys),
		IN_PLACE(corrupted),
		IN_PLACE(large),
		IN_PLACE(of_another),
		IN_PLACE(of_others),
		IN_PLACE(full_disk),
		IN_PLACE(bounded),
		IN_PLACE(use_counts),
		IN_PLACE(leftovers),
		IN_PLACE(processes),
		IN_PLACE(default_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
