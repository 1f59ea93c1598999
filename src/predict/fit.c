/* SPDX-License-Identifier: Apache-2.0 */
/* What was seen of kernels, kept so that the order in which it comes does not matter. */
#include "fit.h"
#include "base/cleanup.h"
#include "base/util.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FURTHEST  (INT64_C(1) << 60) /* from a pointer */
#define SPANS     65536u             /* of a pointer, as observed */
#define KERNELS   (4 * FM_TEMPLATE_KERNELS)
#define FILE_NAME (FM_IMAGE_ID + sizeof(".jsonl"))

struct fm_fit {
	struct fm_fit_kernel **kernel; /* by image, then by name */
	size_t n, room;
};

struct fm_fit *fm_fit_new(void)
{
	return calloc(1, sizeof(struct fm_fit));
}

static void seen_free(struct fm_fit_seen *o)
{
	for (unsigned i = 0; o && i < o->n; i++)
		free(o->pointer[i].span);
	if (o)
		free(o->params);
	free(o);
}

static void kernel_free(struct fm_fit_kernel *k)
{
	for (unsigned i = 0; i < k->n; i++)
		seen_free(k->seen[i]);
	free(k->seen);
	free(k->name);
	free(k);
}

void fm_fit_free(struct fm_fit *f)
{
	for (size_t i = 0; f && i < f->n; i++)
		kernel_free(f->kernel[i]);
	if (f)
		free(f->kernel);
	free(f);
}

/* --- what is observed --- */

static bool are_spans(const struct fm_observed *p)
{
	if (p->n > SPANS || (p->n && !p->spans))
		return false;
	for (unsigned i = 0; i < p->n; i++)
		if (p->spans[i].from < -FURTHEST || p->spans[i].to > FURTHEST ||
			p->spans[i].from >= p->spans[i].to ||
			(i && p->spans[i].from < p->spans[i - 1].to))
			return false;
	return true;
}

static bool are_pointers(const struct fm_observation *o)
{
	uint64_t end = 0;

	if (o->n > FM_TEMPLATE_POINTERS || (o->n && !o->pointers))
		return false;
	for (unsigned i = 0; i < o->n; i++) {
		const struct fm_observed *p = &o->pointers[i];
		uint32_t bytes = fm_pointer_bytes(p->map ? FM_FORM_BOX : FM_FORM_ANY);

		if (p->at < end || p->at % (p->map ? 64 : 8) || p->at + (uint64_t)bytes > o->size ||
			!are_spans(p))
			return false;
		end = p->at + (uint64_t)bytes;
	}
	return true;
}

static bool is_name(const char *name)
{
	size_t n = name ? strnlen(name, FM_TEMPLATE_NAME + 1) : 0;

	for (size_t i = 0; i < n; i++)
		if ((unsigned char)name[i] <= ' ' || (unsigned char)name[i] > '~')
			return false;
	return n && n <= FM_TEMPLATE_NAME;
}

static bool is_image(const char *image)
{
	return strnlen(image, FM_IMAGE_ID) == FM_IMAGE_ID - 1 &&
	       strspn(image, "0123456789abcdef") == FM_IMAGE_ID - 1;
}

static bool is_sound(const struct fm_observation *o)
{
	return o->kernel && is_image(o->kernel->image) && is_name(o->kernel->name) &&
	       o->size <= FM_TEMPLATE_PARAMS && (o->params || !o->size) && are_pointers(o);
}

/* --- copies --- */

static bool copy_pointer(struct fm_fit_pointer *to, const struct fm_observed *from)
{
	struct fm_extents e = {0};
	bool good = true;

	for (unsigned i = 0; i < from->n && good; i++)
		good = !fm_extents_add(&e, from->spans[i]);
	fm_extents_close(&e, FM_TEMPLATE_HOLE);
	*to = (struct fm_fit_pointer){from->at, from->map, (unsigned)e.n, e.span};
	return good;
}

static void identify(struct fm_fit_seen *o, size_t size)
{
	struct fm_hash h;

	fm_hash_begin(&h);
	fm_hash_add(&h, o->grid, sizeof(o->grid));
	fm_hash_add(&h, o->block, sizeof(o->block));
	fm_hash_add(&h, o->params, size);
	for (unsigned i = 0; i < o->n; i++) {
		const struct fm_fit_pointer *p = &o->pointer[i];
		uint32_t head[3] = {p->at, p->map, p->n};

		fm_hash_add(&h, head, sizeof(head));
		if (p->n)
			fm_hash_add(&h, p->span, p->n * sizeof(*p->span));
	}
	fm_hash_end(&h, o->id);
}

static struct fm_fit_seen *copy(const struct fm_observation *o)
{
	struct fm_fit_seen *to = calloc(1, sizeof(*to) + o->n * sizeof(to->pointer[0]));
	bool good = to != NULL;

	if (!to)
		return NULL;
	memcpy(to->grid, o->grid, sizeof(to->grid));
	memcpy(to->block, o->block, sizeof(to->block));
	to->times = 1;
	to->params = malloc(o->size + 1);
	good = to->params != NULL;
	if (good && o->size)
		memcpy(to->params, o->params, o->size);
	for (; good && to->n < o->n; to->n++) {
		const struct fm_observed *p = &o->pointers[to->n];

		memset(to->params + p->at, 0, fm_pointer_bytes(p->map ? FM_FORM_BOX : FM_FORM_ANY));
		good = copy_pointer(&to->pointer[to->n], p);
	}
	if (good) {
		identify(to, o->size);
		return to;
	}
	seen_free(to);
	return NULL;
}

/* --- kernels --- */

static int compare(const struct fm_fit_kernel *k, const char *image, const char *name)
{
	int by_image = strcmp(k->image, image);

	return by_image ? by_image : strcmp(k->name, name);
}

/* Where it is, or belongs. */
static size_t place_of(const struct fm_fit *f, const char *image, const char *name)
{
	size_t low = 0, high = f->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (compare(f->kernel[mid], image, name) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static int new_kernel(struct fm_fit *f, size_t at, const struct fm_observation *o)
{
	struct fm_fit_kernel **more = f->kernel, *k;
	size_t room = f->room ? 2 * f->room : 64;

	if (f->n == KERNELS)
		return -ENOSPC;
	if (f->n == f->room) {
		more = reallocarray(f->kernel, room, sizeof(struct fm_fit_kernel *));
		if (!more)
			return -ENOMEM;
		f->kernel = more;
		f->room = room;
	}
	k = calloc(1, sizeof(*k));
	if (k)
		k->name = strdup(o->kernel->name);
	if (!k || !k->name) {
		free(k);
		return -ENOMEM;
	}
	memcpy(k->image, o->kernel->image, FM_IMAGE_ID);
	k->size = (uint32_t)o->size;
	memmove(&more[at + 1], &more[at], (f->n - at) * sizeof(struct fm_fit_kernel *));
	more[at] = k;
	f->n++;
	return 0;
}

/* Takes the copy. */
static int add_seen(struct fm_fit_kernel *k, struct fm_fit_seen *o)
{
	unsigned at = 0, room = k->room ? 2 * k->room : 8;
	struct fm_fit_seen **more;
	int differs = 1;

	while (at < k->n && (differs = memcmp(k->seen[at]->id, o->id, sizeof(o->id))) < 0)
		at++;
	if (at < k->n && !differs) {
		k->seen[at]->times++;
		seen_free(o);
		return 0;
	}
	if (at == FM_FIT_SEEN) {
		seen_free(o);
		return 0;
	}
	if (k->n == FM_FIT_SEEN)
		seen_free(k->seen[--k->n]);
	if (k->n == k->room) {
		more = reallocarray(k->seen, room, sizeof(struct fm_fit_seen *));
		if (!more) {
			seen_free(o);
			return -ENOMEM;
		}
		k->seen = more;
		k->room = room;
	}
	memmove(&k->seen[at + 1], &k->seen[at], (k->n - at) * sizeof(struct fm_fit_seen *));
	k->seen[at] = o;
	k->n++;
	return 0;
}

int fm_fit_add(struct fm_fit *f, const struct fm_observation *o)
{
	struct fm_fit_seen *seen;
	bool known;
	size_t at;
	int rc;

	if (!is_sound(o))
		return -EINVAL;
	at = place_of(f, o->kernel->image, o->kernel->name);
	known = at < f->n && !compare(f->kernel[at], o->kernel->image, o->kernel->name);
	if (known && f->kernel[at]->size != o->size)
		return -EINVAL;
	seen = copy(o);
	if (!seen)
		return -ENOMEM;
	rc = known ? 0 : new_kernel(f, at, o);
	if (rc) {
		seen_free(seen);
		return rc;
	}
	rc = add_seen(f->kernel[at], seen);
	f->kernel[at]->launches += rc ? 0 : 1;
	return rc;
}

/* --- what comes of it --- */

/* Calls fn for the templates of each kernel in [from, to). */
static int each_fitted(struct fm_fit *f, size_t from, size_t to,
	void (*fn)(const struct fm_kernel_templates *k, void *arg), void *arg)
{
	struct fm_kernel_templates k;
	int rc = 0;

	for (; from < to && !rc; from++) {
		rc = fm_fit_kernel(f->kernel[from], &k);
		if (rc)
			break;
		fn(&k, arg);
		fm_kernel_templates_free(&k);
	}
	return rc;
}

static void count(const struct fm_kernel_templates *k, void *arg)
{
	struct fm_fit_counts *c = arg;

	c->kernels++;
	c->launches += k->launches;
	c->failed += k->failed;
	for (unsigned i = 0; i < k->n; i++)
		c->pointers[k->pointer[i].form]++;
}

void fm_fit_count(struct fm_fit *f, struct fm_fit_counts *out)
{
	*out = (struct fm_fit_counts){0};
	each_fitted(f, 0, f->n, count, out);
}

static void print(const struct fm_kernel_templates *k, void *to)
{
	fm_templates_print(to, k);
}

/* The first kernel of another image, from there on. */
static size_t end_of(const struct fm_fit *f, size_t from)
{
	size_t end = from;

	while (end < f->n && !strcmp(f->kernel[end]->image, f->kernel[from]->image))
		end++;
	return end;
}

static int print_image(struct fm_fit *f, size_t from, FILE *to)
{
	size_t end = FM_MIN(end_of(f, from), from + FM_TEMPLATE_KERNELS);
	int rc;

	fm_templates_print_head(to, f->kernel[from]->image, end - from);
	rc = each_fitted(f, from, end, print, to);
	return rc ? rc : ferror(to) ? -EIO : 0;
}

int fm_fit_print(struct fm_fit *f, const char *image, FILE *to)
{
	size_t at = place_of(f, image, "");

	if (at == f->n || strcmp(f->kernel[at]->image, image))
		return -ENOENT;
	return print_image(f, at, to);
}

/* Under another name at first. */
static int write_image(struct fm_fit *f, size_t from, int dir)
{
	char name[FILE_NAME], fresh[FILE_NAME + 32];
	FM_CLEAN_FILE FILE *to = NULL;
	int fd, rc;

	snprintf(name, sizeof(name), "%s.jsonl", f->kernel[from]->image);
	snprintf(fresh, sizeof(fresh), ".%s.%d", name, (int)getpid());
	unlinkat(dir, fresh, 0);
	fd = openat(dir, fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0)
		return -errno;
	to = fdopen(fd, "w");
	rc = to && !fchmod(fd, 0644) ? print_image(f, from, to) : -errno;
	if (!to)
		close(fd);
	if (to && fflush(to) && !rc)
		rc = -errno;
	if (!rc && renameat(dir, fresh, dir, name))
		rc = -errno;
	if (rc)
		unlinkat(dir, fresh, 0);
	return rc;
}

int fm_fit_write(struct fm_fit *f, const char *dir, struct fm_err *err)
{
	FM_CLEAN_FD int at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc = 0;

	if (at < 0)
		return fm_err_set(err, -errno, "%.120s: cannot be opened: %m", dir);
	for (size_t i = 0; i < f->n && !rc; i = end_of(f, i))
		rc = write_image(f, i, at);
	if (rc)
		fm_err_set(err, rc, "%.120s: templates cannot be written: %s", dir, strerror(-rc));
	return rc;
}
