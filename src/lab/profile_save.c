/* SPDX-License-Identifier: Apache-2.0 */
/* What was seen becomes templates: in a file, or in the user's own folder of kernels. */
#include "profile_save.h"
#include "base/cleanup.h"
#include "base/util.h"
#include "cmd/outfile.h"
#include "predict/template_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void drop_templates(struct fm_templates *t)
{
	fm_templates_free(t);
}
#define CLEAN_TEMPLATES __attribute__((cleanup(drop_templates)))

/* --- fitting --- */

/* Hashes see writes alone, and a kernel of which they have seen more than the other source has is
 * not understood: its launches name whole allocations, as if it had not been profiled. */
bool profile_is_whole(const struct fm_profile_kernel *k)
{
	bool missed = false;

	for (unsigned i = 0; i < k->n; i++)
		missed |= k->pointer[i].missed > 0;
	return !missed && !k->by[FM_SOURCE_HASH];
}

int profile_fit_add(void *arg, const struct fm_profile_launch *l)
{
	struct profile_fit *f = arg;
	struct fm_observed pointer[FM_PROFILE_POINTERS];
	struct fm_kernel_id id;
	struct fm_observation o = {.kernel = &id,
		.params = l->params,
		.size = l->head->size,
		.pointers = pointer,
		.n = l->head->n};
	FM_CLEAN_FREE char *name = strndup(l->name, l->head->name);
	const struct fm_profile_kernel *k =
		name ? fm_profile_find(f->p, l->head->image, name) : NULL;
	const struct fm_record_span *s = l->span;
	int rc;

	if (!k || !profile_is_whole(k))
		return 0;
	memcpy(id.image, l->head->image, sizeof(id.image));
	id.name = name;
	memcpy(o.grid, l->head->grid, sizeof(o.grid));
	memcpy(o.block, l->head->block, sizeof(o.block));
	for (unsigned i = 0; i < o.n; i++) {
		pointer[i] = (struct fm_observed){.at = l->pointer[i].at,
			.map = l->pointer[i].map,
			.spans = (const struct fm_span *)s,
			.n = l->pointer[i].n};
		s += l->pointer[i].n;
	}
	rc = fm_fit_add(f->fit, &o);
	return rc == -ENOMEM ? rc : 0;
}
_Static_assert(sizeof(struct fm_span) == sizeof(struct fm_record_span), "spans are the same");

/* --- merging --- */

/* Kernels that are in `old` alone are added. */
static int merge(struct fm_templates *t, struct fm_templates *old)
{
	struct fm_kernel_templates *all = calloc(t->n + old->n + 1, sizeof(*all));
	unsigned n = 0, i = 0, k = 0;

	if (!all)
		return -ENOMEM;
	while (i < t->n || k < old->n) {
		int cmp = i == t->n     ? 1
			  : k == old->n ? -1
					: strcmp(t->kernel[i].name, old->kernel[k].name);

		if (!cmp)
			fm_kernel_templates_free(&old->kernel[k++]);
		all[n++] = cmp > 0 ? old->kernel[k++] : t->kernel[i++];
	}
	free(t->kernel);
	free(old->kernel);
	old->kernel = NULL;
	old->n = 0;
	t->kernel = all;
	t->n = n;
	return 0;
}

static int print_all(const struct fm_templates *t, FILE *to)
{
	fm_templates_print_head(to, t->image, t->n);
	for (unsigned i = 0; i < t->n; i++)
		fm_templates_print(to, &t->kernel[i]);
	return fflush(to) || ferror(to) ? -EIO : 0;
}

static int write_file(const struct fm_templates *t, const char *dir, struct fm_err *err)
{
	FM_CLEAN_FREE char *path = NULL, *fresh = NULL;
	FM_CLEAN_FILE FILE *to = NULL;
	int fd, rc;

	if (asprintf(&path, "%s/%s.jsonl", dir, t->image) < 0 ||
		asprintf(&fresh, "%s/.%s.XXXXXX", dir, t->image) < 0)
		return fm_err_set(err, -ENOMEM, "out of memory");
	fd = mkostemp(fresh, O_CLOEXEC); /* 0600 */
	to = fd < 0 ? NULL : fdopen(fd, "w");
	if (!to)
		return fm_err_set(err, -errno, "cannot write to %.150s: %m", dir);
	rc = print_all(t, to);
	if (rc || fsync(fd) || rename(fresh, path)) {
		rc = fm_err_set(err, rc ? rc : -errno, "cannot write %.150s: %m", path);
		unlink(fresh);
	}
	return rc;
}

/* --- the user's folder --- */

static int make_folders(char *path, struct fm_err *err)
{
	for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = 0;
		if (mkdir(path, 0700) && errno != EEXIST)
			break;
		*slash = '/';
	}
	if (mkdir(path, 0700) && errno != EEXIST)
		return fm_err_set(err, -errno, "cannot make the folder %.150s: %m", path);
	return 0;
}

static int kernels_folder(char path[PATH_MAX], struct fm_err *err)
{
	const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
	int n;

	if (data && *data == '/')
		n = snprintf(path, PATH_MAX, "%s/fermata/kernels", data);
	else if (home && *home == '/')
		n = snprintf(path, PATH_MAX, "%s/.local/share/fermata/kernels", home);
	else
		n = PATH_MAX;
	if (n >= PATH_MAX) {
		fm_err_set(err, -ENOENT, "there is no folder of your own for the result");
		return fm_err_hint(err, "set HOME or XDG_DATA_HOME, or say -o FILE");
	}
	return make_folders(path, err);
}

static int save_image(struct fm_templates *t, const char *dir, struct fm_err *err)
{
	CLEAN_TEMPLATES struct fm_templates old = {0};
	int rc = fm_templates_load(&old, t->image, dir, NULL, err);

	if (rc && rc != -ENOENT)
		return rc;
	rc = rc ? 0 : merge(t, &old);
	return rc ? fm_err_set(err, rc, "out of memory") : write_file(t, dir, err);
}

/* --- of one image --- */

static int take(struct fm_fit *fit, const char *image, struct fm_templates *t, struct fm_err *err)
{
	FM_CLEAN_FREE char *text = NULL;
	size_t size = 0;
	FILE *to = open_memstream(&text, &size);
	int rc = to ? fm_fit_print(fit, image, to) : -ENOMEM;

	if (to && fclose(to))
		rc = -ENOMEM;
	if (rc)
		return rc == -ENOENT ? rc : fm_err_set(err, rc, "out of memory");
	return fm_templates_parse(t, image, "the result", text, size, err);
}

static void keep_forms(struct fm_profile *p, const struct fm_templates *t)
{
	for (unsigned i = 0; i < p->n; i++) {
		struct fm_profile_kernel *k = &p->kernel[i];
		const struct fm_kernel_templates *its =
			strcmp(k->image, t->image) ? NULL : fm_templates_find(t, k->name);

		for (unsigned n = 0; its && n < its->n; n++)
			for (unsigned w = 0; w < k->n; w++)
				if (k->pointer[w].at == its->pointer[n].at)
					k->pointer[w].form = fm_form_name(its->pointer[n].form);
		if (its && its->launches)
			k->held = 100.0 *
				  (double)(its->launches - FM_MIN(its->failed, its->launches)) /
				  (double)its->launches;
	}
}

/* The first kernel of its image? */
static bool is_first(const struct fm_profile *p, unsigned i)
{
	for (unsigned k = 0; k < i; k++)
		if (!strcmp(p->kernel[k].image, p->kernel[i].image))
			return false;
	return true;
}

int profile_save(struct profile_fit *f, struct outfile *out, struct fm_err *err)
{
	struct fm_profile *p = f->p;
	char dir[PATH_MAX];
	int rc = out->path ? 0 : kernels_folder(dir, err);

	for (unsigned i = 0; i < p->n && !rc; i++) {
		CLEAN_TEMPLATES struct fm_templates t = {0};

		if (!is_first(p, i))
			continue;
		rc = take(f->fit, p->kernel[i].image, &t, err);
		if (rc == -ENOENT) {
			rc = 0;
			continue;
		}
		if (rc)
			break;
		keep_forms(p, &t);
		f->images++;
		f->kernels += t.n;
		rc = out->path ? print_all(&t, out->f) : save_image(&t, dir, err);
		if (rc && !err->code)
			fm_err_set(err, rc, "cannot write %.150s: %s", out->path, strerror(-rc));
	}
	if (!rc && !out->path)
		snprintf(f->where, sizeof(f->where), "%s", dir);
	return rc;
}
