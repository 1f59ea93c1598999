/* SPDX-License-Identifier: Apache-2.0 */
#include "rewrite.h"
#include "api/cuda/cache/cache.h"
#include "args.h"
#include "base/cancel.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "guarded.h"
#include "predict/template.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76 }; /* CUdevice_attribute */

/* --- for which device --- */

/* 90 for compute capability 9.0; 0: not known. */
static unsigned capability(const struct fm_cu_driver *cu, CUdevice dev)
{
	int major, minor;

	if (!cu->device_get_attribute || cu->device_get_attribute(&major, CAPABILITY_MAJOR, dev) ||
		cu->device_get_attribute(&minor, CAPABILITY_MINOR, dev) || major < 0 || minor < 0 ||
		minor > 9)
		return 0;
	return (unsigned)major * 10 + (unsigned)minor;
}

/* Code that is loaded once for several contexts must fit all devices. */
static unsigned common_capability(const struct fm_cu_driver *cu)
{
	fm_cu_result (*count)(int *) = fm_cuda_symbol("cuDeviceGetCount");
	unsigned sm = 0;
	int n;

	if (!count || count(&n) || n < 1)
		return 0;
	for (CUdevice dev = 0; dev < n; dev++) {
		unsigned its = capability(cu, dev);

		if (!its || (sm && its != sm))
			return 0;
		sm = its;
	}
	return sm;
}

static unsigned wanted_sm(bool library)
{
	const struct fm_cu_driver *cu = fm_cuda_driver();
	CUdevice dev;

	if (!cu)
		return 0;
	if (library)
		return common_capability(cu);
	return cu->ctx_get_device && !cu->ctx_get_device(&dev) ? capability(cu, dev) : 0;
}

/* --- the cache --- */

static struct {
	struct fm_cache cache;
	dev_t dev; /* the file behind its descriptor: a program may close all descriptors that it
		      finds */
	ino_t ino;
	bool open;
} kept;

static void open_cache(void)
{
	struct stat st;

	if (fm_cache_open(&kept.cache, NULL, FM_CACHE_DEFAULT) || fstat(kept.cache.dir, &st))
		return;
	kept.dev = st.st_dev;
	kept.ino = st.st_ino;
	kept.open = true;
}

/* NULL: there is none. */
static struct fm_cache *cache(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct stat st;

	pthread_once(&once, open_cache);
	if (!kept.open || fstat(kept.cache.dir, &st) || st.st_dev != kept.dev ||
		st.st_ino != kept.ino)
		return NULL;
	return &kept.cache;
}

/* --- what came of it --- */

/* Launches rely on this, and a file of the cache could say otherwise. */
static bool kernel_sound(const struct fm_kernel *k)
{
	if (k->why)
		return true;
	if (k->n_params > FM_CUDA_PARAMS_MAX || k->guard_at != ((k->param_bytes + 7u) & ~7u))
		return false;
	for (unsigned i = 0; i < k->n_params; i++)
		if ((unsigned)k->params[i].at + k->params[i].size > k->param_bytes)
			return false;
	return true;
}

static bool sound(const struct fm_image *image)
{
	for (unsigned i = 0; i < image->n; i++)
		if (!kernel_sound(&image->kernel[i]))
			return false;
	return true;
}

static enum fm_image_why without(struct fm_image *out, enum fm_image_why why)
{
	fm_image_free(out);
	return out->why = why;
}

static _Atomic uint64_t took_ns;

uint64_t fm_cuda_rewrite_ns(void)
{
	return atomic_load(&took_ns);
}

/* The names of kernels of this image that may be killed, if there are any. */
static char *kill_names(const void *image, size_t size, unsigned sm, char id[FM_IMAGE_ID])
{
	const char *why;
	const void *part;
	size_t n;
	char *names;

	*id = '\0';
	if (!fm_cuda_kill_wished(&why) || fm_image_part(image, size, sm, &part, &n))
		return NULL;
	fm_image_id(id, part, n);
	names = fm_cuda_kill_names(id);
	if (!names)
		*id = '\0';
	return names;
}

static enum fm_image_why rewrite(
	const void *image, size_t size, bool library, char id[FM_IMAGE_ID], struct fm_image *out)
{
	struct fm_image_wishes wishes = {.loops = fm_cuda_loops()};
	FM_CLEAN_FREE char *names = NULL;
	unsigned sm = wanted_sm(library);

	*out = (struct fm_image){0};
	*id = '\0';
	if (!sm)
		return without(out, FM_IMAGE_DEVICE);
	if (!size)
		size = fm_image_extent(&image);
	if (!size)
		return without(out, FM_IMAGE_FOREIGN);
	wishes.kill = names = kill_names(image, size, sm, id);
	fm_cache_rewrite(cache(), image, size, sm, &wishes, out);
	if (!out->why && !sound(out))
		return without(out, FM_IMAGE_VERIFY);
	return out->why;
}

enum fm_image_why fm_cuda_rewrite(
	const void *image, size_t size, bool library, char id[FM_IMAGE_ID], struct fm_image *out)
{
	FM_NO_CANCEL;
	uint64_t start = fm_now();
	enum fm_image_why why = rewrite(image, size, library, id, out);

	atomic_fetch_add(&took_ns, fm_now() - start);
	return why;
}

/* Reads the whole file and adds a zero, which PTX may lack. */
static int read_file(const char *path, char **data, size_t *size)
{
	FM_CLEAN_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	FM_CLEAN_FREE char *to = NULL;
	struct stat st;
	size_t got = 0;

	if (fd < 0 || fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size <= 0 || st.st_size > FM_IMAGE_MAX)
		return -EINVAL;
	*size = (size_t)st.st_size;
	to = malloc(*size + 1);
	if (!to)
		return -ENOMEM;
	while (got < *size) {
		ssize_t n = read(fd, to + got, *size - got);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -EIO;
		got += (size_t)n;
	}
	to[got] = 0;
	*data = fm_take_ptr(to);
	return 0;
}

static bool image_id(const void *image, size_t size, bool library, char id[FM_IMAGE_ID])
{
	unsigned sm = wanted_sm(library);
	const void *part;
	size_t n;

	if (!size)
		size = fm_image_extent(&image);
	if (!sm || !size || fm_image_part(image, size, sm, &part, &n))
		return false;
	fm_image_id(id, part, n);
	return true;
}

bool fm_cuda_image_id(const void *image, const char *path, bool library, char id[FM_IMAGE_ID])
{
	FM_CLEAN_FREE char *data = NULL;
	size_t size = 0;

	if (path && read_file(path, &data, &size))
		return false;
	return (data || image) && image_id(data ? data : image, size, library, id);
}

bool fm_cuda_image_globals(
	const void *image, const char *path, bool library, bool unpack, uint64_t *bytes)
{
	FM_NO_CANCEL;
	FM_CLEAN_FREE char *data = NULL;
	unsigned sm = wanted_sm(library);
	size_t size = 0;

	if (!sm || (path && read_file(path, &data, &size)))
		return false;
	image = data ? data : image;
	if (image && !size)
		size = fm_image_extent(&image);
	return size && fm_image_globals(image, size, sm, unpack, bytes);
}

enum fm_image_why fm_cuda_rewrite_file(
	const char *path, bool library, char id[FM_IMAGE_ID], struct fm_image *out)
{
	FM_NO_CANCEL;
	FM_CLEAN_FREE char *data = NULL;
	size_t size = 0;

	*out = (struct fm_image){0};
	*id = '\0';
	if (read_file(path, &data, &size))
		return without(out, FM_IMAGE_FOREIGN);
	return fm_cuda_rewrite(data, size, library, id, out);
}
