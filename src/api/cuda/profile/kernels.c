/* SPDX-License-Identifier: Apache-2.0 */
/* Images of code by their handles, functions with their parameters, tensor maps. */
#include "agent.h"
#include "base/cleanup.h"
#include "base/lockorder.h"
#include "base/util.h"
#include "code/cuda/image.h"
#include "predict/args.h"
#include "predict/template.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
FM_LOCK_RANK(lock, PROFILE_CODE);

/* --- handles --- */

struct entry {
	struct entry *next;
	uintptr_t handle;
	char image[FM_PROFILE_IMAGE];         /* or "" */
	CUdeviceptr marks;                    /* of its module */
	struct fm_profile_function *function; /* of a function; or NULL */
};
#define BUCKETS 4096u
static struct entry *bucket[BUCKETS];

static struct entry **place_of(uintptr_t handle)
{
	return &bucket[(handle * UINT64_C(0x9e3779b97f4a7c15) >> 40) % BUCKETS];
}

static struct entry *find(uintptr_t handle)
{
	struct entry *e = *place_of(handle);

	while (e && e->handle != handle)
		e = e->next;
	return e;
}

static struct entry *find_or_make(uintptr_t handle)
{
	struct entry *e = find(handle), **at = place_of(handle);

	if (e)
		return e;
	e = calloc(1, sizeof(*e));
	if (!e)
		return NULL;
	e->handle = handle;
	e->next = *at;
	return *at = e;
}

/* --- images --- */

/* --- whose blocks wait for each other --- */

/* Of each image, by its id, while launches are timed. Never freed. */
static struct nature {
	struct nature *next;
	char image[FM_PROFILE_IMAGE];
	struct fm_image is; /* without its data */
} * natures;

/* Lock held. */
static struct nature *nature_of(const char *image)
{
	struct nature *n = natures;

	while (n && strcmp(n->image, image))
		n = n->next;
	return n;
}

/* As the guardian finds out which kernels run all of their blocks or none. */
static void learn_nature(const char *image, const void *part, size_t size, unsigned sm)
{
	struct nature *n;
	bool known;

	if (!fm_profile_wish()->times)
		return;
	pthread_mutex_lock(&lock);
	known = nature_of(image);
	pthread_mutex_unlock(&lock);
	n = known ? NULL : calloc(1, sizeof(*n));
	if (!n)
		return;
	memcpy(n->image, image, sizeof(n->image));
	fm_image_rewrite(part, size, sm, &n->is);
	free(n->is.data);
	n->is.data = NULL;
	pthread_mutex_lock(&lock);
	n->next = natures;
	natures = n;
	pthread_mutex_unlock(&lock);
}

/* So is what is not known. */
static bool is_together(const struct fm_profile_function *k)
{
	bool together = true;
	struct nature *n;

	pthread_mutex_lock(&lock);
	n = nature_of(k->image);
	for (unsigned i = 0; n && i < n->is.n; i++)
		if (!strcmp(n->is.kernel[i].name, k->name) && !n->is.kernel[i].why)
			together = fm_kernel_mode(n->is.kernel[i].traits) == FM_GUARD_GRID;
	pthread_mutex_unlock(&lock);
	return together;
}

static void loaded(void *handle, const void *image, size_t size, CUdeviceptr marks)
{
	const struct fm_profile_driver *cu = fm_tap_wanted() ? fm_profile_driver() : NULL;
	char id[FM_PROFILE_IMAGE] = "";
	const void *part;
	size_t part_size;
	struct entry *e;

	if (!cu || fm_tap_inside || !image)
		return;
	size = size ? size : fm_image_extent(&image);
	if (size && !fm_image_part(image, size, fm_tap_capability(cu->attribute, cu->device), &part,
			    &part_size)) {
		fm_image_id(id, part, part_size);
		learn_nature(id, part, part_size, fm_tap_capability(cu->attribute, cu->device));
	}
	pthread_mutex_lock(&lock);
	e = find_or_make((uintptr_t)handle);
	if (e) {
		memcpy(e->image, id, sizeof(id));
		e->marks = marks;
		e->function = NULL;
	}
	pthread_mutex_unlock(&lock);
}

void fm_profile_loaded(void *handle, const void *image, CUdeviceptr marks)
{
	loaded(handle, image, 0, marks);
}

void fm_profile_loaded_file(void *handle, const char *path)
{
	FM_CLEAN_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	FM_CLEAN_FREE char *data = NULL;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size <= 0 ||
		st.st_size > FM_IMAGE_MAX)
		return;
	data = malloc((size_t)st.st_size + 1);
	if (!data || read(fd, data, (size_t)st.st_size) != st.st_size)
		return;
	data[st.st_size] = 0;
	loaded(handle, data, (size_t)st.st_size, 0);
}

void fm_profile_belongs(void *handle, void *to)
{
	struct entry *e, *of;

	if (!fm_tap_wanted() || fm_tap_inside)
		return;
	pthread_mutex_lock(&lock);
	of = find((uintptr_t)to);
	e = of ? find_or_make((uintptr_t)handle) : NULL;
	if (e && of && (strcmp(e->image, of->image) || e->marks != of->marks)) {
		memcpy(e->image, of->image, sizeof(e->image));
		e->marks = of->marks;
		e->function = NULL;
	}
	pthread_mutex_unlock(&lock);
}

/* Handles may mean something else from now on. What is no longer found is learnt again. */
void fm_profile_unloaded(void *handle)
{
	struct entry *e;
	char gone[FM_PROFILE_IMAGE];

	if (!fm_tap_wanted() || fm_tap_inside)
		return;
	pthread_mutex_lock(&lock);
	e = find((uintptr_t)handle);
	memcpy(gone, e ? e->image : "", e ? sizeof(gone) : 1);
	for (unsigned i = 0; e && *gone && i < BUCKETS; i++)
		for (struct entry *of = bucket[i]; of; of = of->next)
			if (!strcmp(of->image, gone)) {
				*of->image = 0;
				of->function = NULL;
			}
	pthread_mutex_unlock(&lock);
}

static bool image_of(struct fm_profile_function *k, uintptr_t handle)
{
	struct entry *e;

	pthread_mutex_lock(&lock);
	e = find(handle);
	memcpy(k->image, e ? e->image : "", e ? FM_PROFILE_IMAGE : 1);
	k->marks = e ? e->marks : 0;
	pthread_mutex_unlock(&lock);
	return *k->image;
}

/* --- functions --- */

static bool learn_kernel(
	struct fm_profile_function *k, const struct fm_profile_driver *cu, CUfunction f)
{
	CUlibrary library;
	const char *name;

	if (!cu->kernel_library || !cu->kernel_name || !cu->kernel_function ||
		cu->kernel_library(&library, (CUkernel)f) || cu->kernel_name(&name, (CUkernel)f) ||
		cu->kernel_function(&k->function, (CUkernel)f))
		return false;
	k->name = strdup(name);
	return k->name && (image_of(k, (uintptr_t)f) || image_of(k, (uintptr_t)library)) &&
	       fm_tap_params_learn(&k->params,
		       (fm_cu_result(*)(CUfunction, size_t, size_t *, size_t *))cu->kernel_param,
		       f);
}

static bool learn(struct fm_profile_function *k, const struct fm_profile_driver *cu, CUfunction f)
{
	CUmodule module;
	const char *name;

	if (!cu->func_module || !cu->func_name || cu->func_module(&module, f) ||
		cu->func_name(&name, f))
		return learn_kernel(k, cu, f);
	k->function = f;
	k->name = strdup(name);
	return k->name && (image_of(k, (uintptr_t)f) || image_of(k, (uintptr_t)module)) &&
	       fm_tap_params_learn(&k->params, cu->func_param, f);
}

/* Under `looking', or `timing'. */
static struct fm_profile_times *times_of(const struct fm_profile_function *k)
{
	static struct fm_profile_times *all;
	struct fm_profile_times *t;

	for (t = all; t; t = t->next)
		if (!strcmp(t->of->name, k->name) && !strcmp(t->of->image, k->image))
			return t;
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->of = k;
	t->next = all;
	return all = t;
}

static struct fm_profile_function *functions; /* all, under `looking' */

struct fm_profile_function *fm_profile_function(CUfunction f)
{
	const struct fm_profile_driver *cu = fm_profile_driver();
	struct fm_profile_function *k;
	struct entry *e;

	pthread_mutex_lock(&lock);
	e = find((uintptr_t)f);
	k = e ? e->function : NULL;
	pthread_mutex_unlock(&lock);
	if (k)
		return k;
	k = calloc(1, sizeof(*k));
	if (!k)
		return NULL;
	k->next = functions;
	functions = k;
	k->handle = (uintptr_t)f;
	k->known = cu && learn(k, cu, f) && fm_profile_is_name(k->name, strlen(k->name)) &&
		   (k->times = times_of(k));
	k->together = k->known && fm_profile_wish()->times && is_together(k);
	pthread_mutex_lock(&lock);
	e = find_or_make((uintptr_t)f);
	if (e)
		e->function = k;
	pthread_mutex_unlock(&lock);
	return e ? k : NULL;
}

/* --- tensor maps --- */

#define MAP_BYTES 128u
#define MAPS      4096u /* lossy */

static struct map {
	unsigned char bytes[MAP_BYTES];
	struct fm_profile_map is;
} maps[MAPS];

static struct map *map_at(const void *map)
{
	uint64_t hash = 0, word;

	for (unsigned i = 0; i < MAP_BYTES / 8; i++) {
		memcpy(&word, (const char *)map + 8 * i, 8);
		hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
		hash ^= hash >> 29;
	}
	return &maps[hash % MAPS];
}

void fm_profile_map_moved(const void *map, uint64_t at, uint64_t bytes)
{
	struct map *m;

	if (!map || !fm_tap_wanted())
		return;
	pthread_mutex_lock(&lock);
	m = map_at(map);
	memcpy(m->bytes, map, MAP_BYTES);
	m->is = (struct fm_profile_map){at, bytes};
	pthread_mutex_unlock(&lock);
}

void fm_profile_map_made(const void *map, unsigned type, unsigned rank, uint64_t at,
	const uint64_t *dim, const uint64_t *stride)
{
	fm_profile_map_moved(map, at, fm_tensor_map_bytes((int)type, rank, dim, stride));
}

bool fm_profile_map_find(const void *map, struct fm_profile_map *out)
{
	struct map *m;
	bool is;

	pthread_mutex_lock(&lock);
	m = map_at(map);
	is = m->is.at && !memcmp(m->bytes, map, MAP_BYTES);
	*out = m->is;
	pthread_mutex_unlock(&lock);
	return is;
}
