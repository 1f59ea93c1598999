/* SPDX-License-Identifier: Apache-2.0 */
#include "templates.h"
#include "api/cuda/shim/guard/rewrite.h"
#include "base/cancel.h"
#include "base/cleanup.h"
#include "base/lockorder.h"
#include "managed.h"
#include "xqueue/account.h"
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define SYSTEM "/usr/share/fermata/kernels"
#define IMAGES 4096u
/* Bytes of a file, and of all files. In memory they are up to ten times as much. */
#define FILE_MOST ((size_t)4 << 20)
#define ALL_MOST  ((size_t)32 << 20)

struct fm_predict fm_cuda_predict = {.turn = 1};
_Atomic bool fm_cuda_templates_any;

/* --- whether, and where --- */

static struct {
	char own[PATH_MAX]; /* "": there is none */
	bool system, wanted, off;
} places;

static bool has_files(const char *dir)
{
	FM_CLEAN_DIR DIR *d = opendir(dir);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (strlen(e->d_name) == FM_IMAGE_ID - 1 + strlen(".jsonl") &&
			!strcmp(e->d_name + FM_IMAGE_ID - 1, ".jsonl"))
			return true;
	return false;
}

static void set_own(const char *base, const char *below)
{
	int n = snprintf(places.own, sizeof(places.own), "%s%s", base, below);

	if (*base != '/' || n < 0 || (size_t)n >= sizeof(places.own) || !has_files(places.own))
		places.own[0] = '\0';
}

static void look_for_files(void)
{
	const char *said = secure_getenv("FERMATA_MEMORY_TEMPLATES");
	const char *dir = secure_getenv("FERMATA_KERNELS");
	const char *data = secure_getenv("XDG_DATA_HOME"), *home = secure_getenv("HOME");

	places.off = said && (!strcmp(said, "off") || !strcmp(said, "0"));
	if (!fm_cuda_managed_wished() || places.off)
		return;
	if (dir && *dir) {
		set_own(dir, "");
	} else {
		if (data && *data == '/')
			set_own(data, "/fermata/kernels");
		else if (home)
			set_own(home, "/.local/share/fermata/kernels");
		places.system = has_files(SYSTEM);
	}
	places.wanted = places.own[0] || places.system;
}

static void look_once(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, look_for_files);
}

bool fm_cuda_templates_wanted(void)
{
	look_once();
	return places.wanted;
}

bool fm_cuda_templates_boxes(void)
{
	look_once();
	return !places.off;
}

/* --- images --- */

struct kernels { /* of one image, as often as it is loaded */
	struct kernels *next;
	char image[FM_IMAGE_ID];
	bool read;
	struct fm_templates of;
};

static struct {
	pthread_mutex_t lock;
	struct {
		const void *handle; /* NULL: free */
		bool library;
		struct kernels *of;
	} loaded[IMAGES];
	unsigned n;
	struct kernels *all; /* they stay: functions may be bound to them */
	unsigned n_all;
	_Atomic bool unread; /* something is to be read */
} images = {.lock = PTHREAD_MUTEX_INITIALIZER};
FM_LOCK_RANK(images.lock, CUDA_TEMPLATES);

/* Lock held. */
static struct kernels *kernels_of(const char *image)
{
	struct kernels *k = images.all;

	while (k && strcmp(k->image, image) != 0)
		k = k->next;
	if (k || images.n_all == IMAGES || !(k = calloc(1, sizeof(*k))))
		return k;
	images.n_all++;
	memcpy(k->image, image, FM_IMAGE_ID);
	k->next = images.all;
	images.all = k;
	atomic_store(&images.unread, true);
	return k;
}

void fm_cuda_templates_loaded(const void *handle, bool library, const void *image, const char *path)
{
	char id[FM_IMAGE_ID];
	unsigned i = 0;
	FM_NO_CANCEL;

	if (!fm_cuda_templates_wanted() || !fm_cuda_image_id(image, path, library, id))
		return;
	pthread_mutex_lock(&images.lock);
	while (i < images.n && images.loaded[i].handle && images.loaded[i].handle != handle)
		i++;
	if (i < IMAGES) {
		images.loaded[i].handle = handle;
		images.loaded[i].library = library;
		images.loaded[i].of = kernels_of(id);
		images.n = FM_MAX(images.n, i + 1);
	}
	pthread_mutex_unlock(&images.lock);
}

void fm_cuda_templates_unloaded(const void *handle)
{
	FM_NO_CANCEL;

	if (!fm_cuda_templates_wanted())
		return;
	pthread_mutex_lock(&images.lock);
	for (unsigned i = 0; i < images.n; i++)
		if (handle ? images.loaded[i].handle == handle : !images.loaded[i].library)
			images.loaded[i].handle = NULL;
	pthread_mutex_unlock(&images.lock);
	fm_predict_forget(&fm_cuda_predict);
}

/* --- functions --- */

/* Functions that were launched and have no templates, since files were last read. */
static _Atomic uint32_t without;

static const char *name_of(const void *function, bool library)
{
	fm_cu_result (*get)(const char **name, const void *f) =
		fm_cuda_symbol(library ? "cuKernelGetName" : "cuFuncGetName");
	const char *name = NULL;

	return get && !get(&name, function) ? name : NULL;
}

/* Lock held. Functions of a library's kernels are of modules that the driver has made. No two
 * libraries have a kernel of that name, or else it is nobody's. */
static const struct fm_kernel_templates *of_any_library(const char *name)
{
	const struct fm_kernel_templates *found = NULL, *is;

	for (unsigned i = 0; i < images.n; i++) {
		if (!images.loaded[i].handle || !images.loaded[i].library || !images.loaded[i].of)
			continue;
		is = fm_templates_find(&images.loaded[i].of->of, name);
		if (is && found && is != found)
			return NULL;
		found = is ? is : found;
	}
	return found;
}

static const struct fm_kernel_templates *find(const void *handle, const char *name)
{
	const struct fm_kernel_templates *found = NULL;
	bool known = false;

	pthread_mutex_lock(&images.lock);
	for (unsigned i = 0; i < images.n && !known; i++) {
		known = images.loaded[i].handle == handle;
		if (known && images.loaded[i].of)
			found = fm_templates_find(&images.loaded[i].of->of, name);
	}
	if (!known)
		found = of_any_library(name);
	pthread_mutex_unlock(&images.lock);
	return found;
}

void fm_cuda_templates_learnt(
	const void *function, const void *handle, bool library, const struct fm_layout *layout)
{
	const struct fm_kernel_templates *of;
	const char *name;

	if (!fm_cuda_templates_wanted() || !handle)
		return;
	name = name_of(function, library);
	of = name ? find(handle, name) : NULL;
	if (of && !fm_predict_bind(&fm_cuda_predict, function, of, layout))
		atomic_store(&fm_cuda_templates_any, true);
	else
		atomic_fetch_add(&without, 1);
}

/* --- files --- */

static _Atomic uint32_t refused; /* files */

static bool read_from(const char *dir, const char *image, struct fm_templates *t)
{
	static size_t left = ALL_MOST; /* of the agent */
	size_t room = FM_MIN(left, FILE_MOST), had = room;
	struct fm_err err;
	int rc = fm_templates_load(t, image, dir, &room, &err);

	left -= had - room;
	if (rc && rc != -ENOENT)
		atomic_fetch_add(&refused, 1);
	return !rc;
}

static bool read_file(const char *image, struct fm_templates *t)
{
	return (places.own[0] && read_from(places.own, image, t)) ||
	       (places.system && read_from(SYSTEM, image, t));
}

/* The next that has not been read yet; NULL: all are. */
static struct kernels *next_unread(void)
{
	struct kernels *k;

	pthread_mutex_lock(&images.lock);
	k = images.all;
	while (k && k->read)
		k = k->next;
	pthread_mutex_unlock(&images.lock);
	return k;
}

bool fm_cuda_templates_look(void)
{
	struct fm_templates t;
	struct kernels *k;
	bool read;

	if (!atomic_load_explicit(&images.unread, memory_order_relaxed))
		return false;
	atomic_store(&images.unread, false);
	k = next_unread();
	if (!k)
		return false;
	read = read_file(k->image, &t);
	pthread_mutex_lock(&images.lock);
	k->read = true;
	if (read)
		k->of = t;
	pthread_mutex_unlock(&images.lock);
	atomic_store(&images.unread, true); /* there may be another, for the next look */
	if (read)
		atomic_store(&without, 0);
	fm_cuda_templates_tell();
	return read;
}

_Static_assert((int)FM_FORETOLD_ANY + (int)FM_FORM_MEMO == (int)FM_FORETOLD_MEMO &&
		       (int)FM_FORETOLD_ANY + (int)FM_FORM_BOX == (int)FM_FORETOLD_BOX,
	"the forms in their order");

void fm_cuda_templates_tell(void)
{
	struct fm_client *c = places.wanted ? fm_shim_has_client() : NULL;
	uint32_t n[FM_MEM_FORETOLDS] = {0};
	struct fm_predict_counts p;

	if (!c)
		return;
	fm_predict_count(&fm_cuda_predict, &p);
	n[FM_FORETOLD_TRIAL] = p.trial;
	n[FM_FORETOLD_TRUSTED] = p.trusted;
	n[FM_FORETOLD_DISTRUSTED] = p.distrusted;
	n[FM_FORETOLD_NOT] = atomic_load(&without);
	n[FM_FORETOLD_REFUSED] = atomic_load(&refused);
	for (unsigned i = 0; i < FM_FORMS; i++)
		n[FM_FORETOLD_ANY + i] = p.pointers[i];
	fm_account_foretold(c, n);
}

/* What the parent has read stays; its code is not the child's. */
void fm_cuda_templates_fork_child(void)
{
	images.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	for (unsigned i = 0; i < images.n; i++)
		images.loaded[i].handle = NULL;
	fm_predict_forget(&fm_cuda_predict);
}
