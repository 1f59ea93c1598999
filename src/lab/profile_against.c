/* SPDX-License-Identifier: Apache-2.0 */
/* `fermata-lab profile --against FILE': what templates foretell, beside what was seen. */
#include "base/cleanup.h"
#include "base/util.h"
#include "cmd/table.h"
#include "profile/against.h"
#include "profile_save.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct profile_against {
	const char *path;
	bool folder; /* its files are read when it is known of which images */
	unsigned n;
	struct fm_templates *image;
	const struct fm_profile *p;
	struct fm_against_sums *kernel; /* of each of p's */
	uint64_t unfit;                 /* launches that are not compared */
};

/* --- templates --- */

static int keep_image(void *arg, struct fm_templates *of, struct fm_err *err)
{
	struct profile_against *a = arg;
	struct fm_templates *more = realloc(a->image, (a->n + 1) * sizeof(*more));

	if (!more)
		return fm_err_set(err, -ENOMEM, "out of memory");
	a->image = more;
	a->image[a->n++] = *of;
	*of = (struct fm_templates){0};
	return 0;
}

void profile_against_free(struct profile_against *a)
{
	for (unsigned i = 0; a && i < a->n; i++)
		fm_templates_free(&a->image[i]);
	if (a) {
		free(a->image);
		free(a->kernel);
	}
	free(a);
}

struct profile_against *profile_against_new(const char *path, struct fm_err *err)
{
	struct profile_against *a = calloc(1, sizeof(*a));
	struct stat st;

	if (!a) {
		fm_err_set(err, -ENOMEM, "out of memory");
		return NULL;
	}
	a->path = path;
	a->folder = !stat(path, &st) && S_ISDIR(st.st_mode);
	if (!a->folder && profile_each_image(path, keep_image, a, err)) {
		profile_against_free(a);
		return NULL;
	}
	return a;
}

static const struct fm_templates *image_of(const struct profile_against *a, const char *id)
{
	for (unsigned i = 0; i < a->n; i++)
		if (!strcmp(a->image[i].image, id))
			return &a->image[i];
	return NULL;
}

/* That there is none of an image is no error. */
static int load_folder(struct profile_against *a, struct fm_err *err)
{
	for (unsigned i = 0; a->folder && i < a->p->n; i++) {
		struct fm_templates of = {0};
		int rc;

		if (image_of(a, a->p->kernel[i].image))
			continue;
		rc = fm_templates_load(&of, a->p->kernel[i].image, a->path, NULL, err);
		if (rc == -ENOENT) {
			*err = (struct fm_err){0};
			continue;
		}
		rc = rc ? rc : keep_image(a, &of, err);
		fm_templates_free(&of);
		if (rc)
			return rc;
	}
	return 0;
}

static const struct fm_kernel_templates *templates_of(
	const struct profile_against *a, const struct fm_profile_kernel *k)
{
	const struct fm_templates *image = image_of(a, k->image);

	return image ? fm_templates_find(image, k->name) : NULL;
}

/* --- comparing --- */

static int compare(void *arg, const struct fm_profile_launch *l)
{
	struct profile_against *a = arg;
	FM_CLEAN_FREE char *name = strndup(l->name, l->head->name);
	const struct fm_profile_kernel *k =
		name ? fm_profile_find(a->p, l->head->image, name) : NULL;

	if (!name)
		return -ENOMEM;
	if (k && profile_is_whole(k))
		return fm_against_add(&a->kernel[k - a->p->kernel], l, templates_of(a, k));
	a->unfit++;
	return 0;
}

static struct fm_against_sums sum_of(const struct profile_against *a)
{
	struct fm_against_sums all = {0};

	for (unsigned i = 0; i < a->p->n; i++) {
		const struct fm_against_sums *s = &a->kernel[i];

		all.launches = fm_add_sat(all.launches, s->launches);
		all.touched = fm_add_sat(all.touched, s->touched);
		all.foretold = fm_add_sat(all.foretold, s->foretold);
		all.missed = fm_add_sat(all.missed, s->missed);
		all.vain = fm_add_sat(all.vain, s->vain);
	}
	return all;
}

struct mix {
	uint64_t kernels[FM_AGAINST_FORMS], launches[FM_AGAINST_FORMS], all_kernels, all_launches;
};

static struct mix mix_of(const struct profile_against *a)
{
	struct mix m = {0};

	for (unsigned i = 0; i < a->p->n; i++) {
		enum fm_against_form form = fm_against_form(templates_of(a, &a->p->kernel[i]));

		if (!a->kernel[i].launches)
			continue;
		m.kernels[form]++;
		m.launches[form] += a->kernel[i].launches;
		m.all_kernels++;
		m.all_launches += a->kernel[i].launches;
	}
	return m;
}

/* --- for people --- */

static double percent(uint64_t part, uint64_t of)
{
	return of ? 100.0 * (double)part / (double)of : 0;
}

static void add_row(
	struct table *t, const char *name, const char *form, const struct fm_against_sums *s)
{
	table_add(t, "%s", name);
	table_add(t, "%s", form);
	table_add(t, "%" PRIu64, s->launches);
	table_add(t, "%" PRIu64, s->touched);
	table_add(t, "%" PRIu64, s->foretold);
	table_add(t, "%.2f", percent(s->missed, s->touched));
	table_add(t, "%.2f", percent(s->vain, s->foretold));
}

static int print_kernels(const struct profile_against *a)
{
	static const struct table_column columns[] = {{"KERNEL", false, true},
		{"FORM", false, false}, {"LAUNCHES", true, false}, {"TOUCHED", true, false},
		{"FORETOLD", true, false}, {"MISSED %", true, false}, {"VAIN %", true, false}};
	struct fm_against_sums all = sum_of(a);
	TABLE_CLEAN struct table t;

	table_init(&t, columns, FM_ARRAY_LEN(columns));
	for (unsigned i = 0; i < a->p->n; i++) {
		const struct fm_profile_kernel *k = &a->p->kernel[i];

		if (a->kernel[i].launches)
			add_row(&t, k->name, fm_against_name(fm_against_form(templates_of(a, k))),
				&a->kernel[i]);
	}
	add_row(&t, "(all)", "", &all);
	return table_print(&t);
}

static int print_mix(const struct profile_against *a)
{
	static const struct table_column columns[] = {{"FORM", false, false},
		{"KERNELS", true, false}, {"%", true, false}, {"LAUNCHES", true, false},
		{"%", true, false}};
	struct mix m = mix_of(a);
	TABLE_CLEAN struct table t;

	table_init(&t, columns, FM_ARRAY_LEN(columns));
	for (unsigned i = FM_AGAINST_FORMS; i--;) {
		if (!m.kernels[i])
			continue;
		table_add(&t, "%s", fm_against_name(i));
		table_add(&t, "%" PRIu64, m.kernels[i]);
		table_add(&t, "%.1f", percent(m.kernels[i], m.all_kernels));
		table_add(&t, "%" PRIu64, m.launches[i]);
		table_add(&t, "%.1f", percent(m.launches[i], m.all_launches));
	}
	printf("\n");
	return table_print(&t);
}

/* --- JSON --- */

static json_t *sums_json(const struct fm_against_sums *s)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I}", "launches", (json_int_t)s->launches,
		"touched", (json_int_t)s->touched, "foretold", (json_int_t)s->foretold, "missed",
		(json_int_t)s->missed, "vain", (json_int_t)s->vain);
}

static json_t *kernels_json(const struct profile_against *a)
{
	json_t *kernels = json_array();

	for (unsigned i = 0; i < a->p->n; i++) {
		const struct fm_profile_kernel *k = &a->p->kernel[i];
		json_t *one;

		if (!a->kernel[i].launches)
			continue;
		one = sums_json(&a->kernel[i]);
		json_object_set_new(one, "image", json_string(k->image));
		json_object_set_new(one, "name", json_string(k->name));
		json_object_set_new(one, "form",
			json_string(fm_against_name(fm_against_form(templates_of(a, k)))));
		json_array_append_new(kernels, one);
	}
	return kernels;
}

static json_t *against_json(const struct profile_against *a)
{
	CLI_CLEAN_JSON json_t *seen = profile_sums_json(a->p);
	struct fm_against_sums all = sum_of(a);
	struct mix m = mix_of(a);
	json_t *mix = json_object(), *json;

	for (unsigned i = FM_AGAINST_FORMS; i--;)
		json_object_set_new(mix, fm_against_name(i),
			json_pack("{s:I, s:I}", "kernels", (json_int_t)m.kernels[i], "launches",
				(json_int_t)m.launches[i]));
	json = json_pack("{s:o, s:o, s:o, s:I}", "kernels", kernels_json(a), "all", sums_json(&all),
		"mix", mix, "not_compared", (json_int_t)a->unfit);
	json_object_update(json, seen);
	return json;
}

/* --- all of it --- */

static int print(const struct profile_against *a, const struct profile_options *o)
{
	const struct profile_fit none = {.p = (struct fm_profile *)(uintptr_t)a->p};
	CLI_CLEAN_JSON json_t *json = NULL;

	profile_tell(&none, o);
	if (a->unfit)
		fprintf(stderr,
			"  not compared: %" PRIu64
			" launches of kernels that hashes alone have seen, or of which something "
			"was missed\n",
			a->unfit);
	if (!o->cli->json)
		return print_kernels(a) || print_mix(a) ? CLI_FAILED : CLI_OK;
	json = against_json(a);
	return json ? cli_print_json(json) : CLI_FAILED;
}

int profile_against(struct profile_against *a, const struct fm_profile *p, const char *dir,
	const struct profile_options *o, struct fm_err *err)
{
	int rc;

	a->p = p;
	a->kernel = calloc(p->n, sizeof(*a->kernel));
	if (!a->kernel)
		return fm_err_set(err, -ENOMEM, "out of memory");
	rc = load_folder(a, err);
	rc = rc ? rc : profile_read_records(NULL, dir, compare, a, err);
	return rc ? rc : print(a, o);
}
