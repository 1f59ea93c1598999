/* SPDX-License-Identifier: Apache-2.0 */
/* Images of code by their handles, and functions with their parameters. */
#include "base/cleanup.h"
#include "base/lockorder.h"
#include "base/util.h"
#include "code/cuda/fatbin.h"
#include "code/cuda/image.h"
#include "code/cuda/pass/marks.h"
#include "code/cuda/pass/nature.h"
#include "code/cuda/pass/ptx.h"
#include "predict/template.h"
#include "record.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
FM_LOCK_RANK(lock, RECORD_CODE);

/* Never freed: functions point to it. */
struct code {
	char hash[33];
	void *handle;
	bool library, marked;
	struct fm_natures natures;
	struct fm_image guarded;
};

struct entry {
	struct entry *next;
	uintptr_t handle;
	struct code *code;                   /* of a module, library, or what belongs to one */
	struct fm_record_function *function; /* of a function; or NULL */
};
#define BUCKETS 4096u
static struct entry *bucket[BUCKETS];

static struct entry **place_of(uintptr_t handle)
{
	return &bucket[(handle * UINT64_C(0x9e3779b97f4a7c15) >> 40) % BUCKETS];
}

static struct entry *find(void *handle)
{
	struct entry *e = *place_of((uintptr_t)handle);

	while (e && e->handle != (uintptr_t)handle)
		e = e->next;
	return e;
}

static struct entry *find_or_make(void *handle)
{
	struct entry *e = find(handle), **at = place_of((uintptr_t)handle);

	if (e)
		return e;
	e = calloc(1, sizeof(*e));
	if (!e)
		return NULL;
	e->handle = (uintptr_t)handle;
	e->next = *at;
	return *at = e;
}

/* --- images --- */

void fm_record_mark(const void *image, struct fm_record_marked *out)
{
	const struct fm_record_driver *cu = fm_tap_wanted() ? fm_record_driver() : NULL;
	struct fm_fatbin_pick pick = {0};
	size_t size;

	*out = (struct fm_record_marked){0};
	if (!cu || fm_tap_inside || !image)
		return;
	size = fm_image_extent(&image);
	if (fm_is_fatbin(image, size) &&
		!fm_fatbin_text(image, size, fm_tap_capability(cu->attribute, cu->device), &pick)) {
		image = pick.data;
		size = strnlen((const char *)pick.data, pick.size);
	}
	if (size && fm_is_ptx(image, size) && !fm_ptx_natures(image, size, &out->natures) &&
		fm_ptx_marks_kinds(image, size, &out->text))
		out->text = NULL;
	if (out->text && fm_record_tries())
		fm_image_rewrite(
			image, size, fm_tap_capability(cu->attribute, cu->device), &out->guarded);
	free(pick.unpacked);
}

void fm_record_mark_free(struct fm_record_marked *m)
{
	free(m->text);
	fm_natures_free(&m->natures);
	fm_image_free(&m->guarded);
}

/* Takes what is known of the text. */
static struct code *new_code(const struct fm_record_driver *cu, void *handle, const void *image,
	struct fm_record_marked *marked, bool library)
{
	struct code *c = calloc(1, sizeof(*c));
	size_t size = fm_image_extent(&image), part_size;
	const void *part;

	if (!c)
		return NULL;
	if (size && !fm_image_part(image, size, fm_tap_capability(cu->attribute, cu->device), &part,
			    &part_size))
		fm_image_id(c->hash, part, part_size);
	c->handle = handle;
	c->library = library;
	if (marked) {
		c->marked = true;
		c->natures = marked->natures;
		marked->natures = (struct fm_natures){0};
		c->guarded = marked->guarded;
		marked->guarded = (struct fm_image){0};
	}
	return c;
}

/* Handles may mean something else from now on. Under `lock'. */
static void forget_code(const struct code *gone)
{
	for (unsigned i = 0; gone && i < BUCKETS; i++)
		for (struct entry *of = bucket[i]; of; of = of->next)
			if (of->code == gone) {
				of->code = NULL;
				of->function = NULL;
			}
}

void fm_record_loaded(
	void *handle, const void *image, struct fm_record_marked *marked, bool library)
{
	const struct fm_record_driver *cu = fm_tap_wanted() ? fm_record_driver() : NULL;
	struct code *c =
		cu && !fm_tap_inside && image ? new_code(cu, handle, image, marked, library) : NULL;
	struct entry *e;

	if (!cu || fm_tap_inside)
		return;
	pthread_mutex_lock(&lock);
	e = find_or_make(handle);
	if (e) {
		forget_code(e->code); /* it ended with its context */
		e->code = c;
		e->function = NULL;
	}
	pthread_mutex_unlock(&lock);
}

void *fm_record_file(const char *path)
{
	FM_CLEAN_FD int fd = fm_tap_wanted() && path
				     ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
				     : -1;
	struct stat st;
	char *data;

	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size <= 0 ||
		st.st_size > FM_IMAGE_MAX)
		return NULL;
	data = malloc((size_t)st.st_size + 1);
	if (!data || read(fd, data, (size_t)st.st_size) != st.st_size) {
		free(data);
		return NULL;
	}
	data[st.st_size] = 0;
	return data;
}

void fm_record_belongs(void *handle, void *to)
{
	struct entry *e, *of;

	if (!fm_tap_wanted() || fm_tap_inside)
		return;
	pthread_mutex_lock(&lock);
	of = find(to);
	e = of ? find_or_make(handle) : NULL;
	if (e && e->code != of->code) {
		e->code = of->code;
		e->function = NULL;
	}
	pthread_mutex_unlock(&lock);
}

void fm_record_unloaded(void *handle)
{
	struct entry *e;

	if (!fm_tap_wanted() || fm_tap_inside)
		return;
	pthread_mutex_lock(&lock);
	e = find(handle);
	forget_code(e ? e->code : NULL);
	pthread_mutex_unlock(&lock);
}

/* --- functions --- */

/* Without a name for its code, another one would have its key. */
static struct code *learn_code(struct fm_record_function *k, void *handle, void *of)
{
	struct entry *e;
	struct code *c;

	pthread_mutex_lock(&lock);
	e = find(handle);
	if (!e || !e->code)
		e = find(of);
	c = e ? e->code : NULL;
	pthread_mutex_unlock(&lock);
	k->nature = FM_NATURE_STRANGE | FM_NATURE_DYNAMIC;
	if (!c)
		return NULL;
	memcpy(k->hash, c->hash, sizeof(k->hash));
	k->code = c->marked && c->hash[0] ? c : NULL;
	for (unsigned i = 0; k->name && i < c->natures.n; i++)
		if (!strcmp(c->natures.kernel[i].name, k->name))
			k->nature = c->natures.kernel[i].is;
	return c;
}

static struct code *learn(
	struct fm_record_function *k, const struct fm_record_driver *cu, CUfunction f)
{
	void *of = NULL;
	const char *name = NULL;

	if (cu->func_module && cu->func_name && !cu->func_module((CUmodule *)&of, f) &&
		!cu->func_name(&name, f)) {
		k->known = fm_tap_params_learn(&k->params, cu->func_param, f);
	} else if (cu->kernel_library && cu->kernel_name &&
		   !cu->kernel_library((CUlibrary *)&of, (CUkernel)f) &&
		   !cu->kernel_name(&name, (CUkernel)f)) {
		k->known = fm_tap_params_learn(&k->params,
			(fm_cu_result(*)(CUfunction, size_t, size_t *, size_t *))cu->kernel_param,
			f);
	}
	k->name = name ? strdup(name) : NULL;
	return learn_code(k, f, of);
}

const struct fm_record_function *fm_record_function(const struct fm_record_driver *cu, CUfunction f)
{
	struct fm_record_function *k;
	struct code *c;
	struct entry *e;

	pthread_mutex_lock(&lock);
	e = find(f);
	k = e ? e->function : NULL;
	pthread_mutex_unlock(&lock);
	if (k)
		return k;
	k = calloc(1, sizeof(*k));
	if (!k)
		return NULL;
	c = learn(k, cu, f);
	pthread_mutex_lock(&lock);
	e = find_or_make(f);
	if (e) {
		e->function = k;
		e->code = c; /* it ends with that */
	}
	pthread_mutex_unlock(&lock);
	return k;
}

const struct fm_image *fm_record_guarded(const struct fm_record_function *k)
{
	const struct code *c = k->code;

	return c && c->guarded.data ? &c->guarded : NULL;
}

CUdeviceptr fm_record_word(const struct fm_record_driver *cu, const struct fm_record_function *k)
{
	const struct code *c = k->code;
	CUdeviceptr at = 0;
	size_t size = 0;

	if (!c || (c->library ? !cu->library_global : !cu->module_global))
		return 0;
	if (c->library ? cu->library_global(&at, &size, c->handle, FM_ACCESSED_TABLE)
		       : cu->module_global(&at, &size, c->handle, FM_ACCESSED_TABLE))
		return 0;
	return size == 8 ? at : 0;
}
