/* SPDX-License-Identifier: Apache-2.0 */
/* What was seen, for people and as JSON. */
#include "base/cleanup.h"
#include "base/util.h"
#include "cmd/table.h"
#include "profile_save.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static double share(uint64_t part, uint64_t of)
{
	return of ? 100.0 * (double)part / (double)of : 0;
}

static void add_bytes(struct table *t, uint64_t bytes)
{
	static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
	double n = (double)bytes;
	unsigned i = 0;

	for (; n >= 1024 && i + 1 < FM_ARRAY_LEN(unit); i++)
		n /= 1024;
	table_add(t, i ? "%.1f %s" : "%.0f %s", n, unit[i]);
}

static void add_sources(struct table *t, const struct fm_profile_kernel *k)
{
	char text[64] = "";

	for (unsigned s = 0; s < FM_SOURCES; s++)
		if (k->by[s])
			sprintf(text + strlen(text), "%s%s", *text ? "," : "", fm_source_name(s));
	table_add(t, "%s", text);
}

int profile_print(const struct fm_profile *p)
{
	static const struct table_column columns[] = {{"KERNEL", false, true},
		{"POINTER", true, false}, {"TOUCHED", true, false}, {"OF", true, false},
		{"%", true, false}, {"MISSED", true, false}, {"FORM", false, false},
		{"LAUNCHES", true, false}, {"BY", false, false}};
	TABLE_CLEAN struct table t;

	table_init(&t, columns, FM_ARRAY_LEN(columns));
	for (unsigned i = 0; i < p->n; i++) {
		const struct fm_profile_kernel *k = &p->kernel[i];

		for (unsigned n = 0; n < k->n; n++) {
			const struct fm_profile_pointer *w = &k->pointer[n];

			table_add(&t, "%s", n ? "" : k->name);
			table_add(&t, w->map ? "%u (map)" : "%u", w->at);
			add_bytes(&t, w->bytes / k->launches);
			add_bytes(&t, w->behind / k->launches);
			table_add(&t, "%.1f", share(w->bytes, w->behind));
			if (k->checked)
				add_bytes(&t, w->missed);
			else
				table_add(&t, "-");
			table_add(&t, "%s", w->form ? w->form : "-");
			table_add(&t, "%" PRIu64, k->launches);
			add_sources(&t, k);
		}
	}
	return table_print(&t) ? CLI_FAILED : CLI_OK;
}

/* --- JSON --- */

static json_t *pointer_json(const struct fm_profile_pointer *w)
{
	json_t *spans = json_array();

	for (unsigned i = 0; i < w->n; i++)
		json_array_append_new(spans, json_pack("[I, I]", (json_int_t)w->span[i].from,
						     (json_int_t)w->span[i].to));
	return json_pack("{s:i, s:b, s:s?, s:I, s:I, s:I, s:I, s:o}", "at", (int)w->at, "map",
		w->map, "form", w->form, "launches", (json_int_t)w->launches, "bytes",
		(json_int_t)w->bytes, "behind", (json_int_t)w->behind, "missed",
		(json_int_t)w->missed, "spans", spans);
}

static json_t *kernel_json(const struct fm_profile_kernel *k)
{
	json_t *pointers = json_array(), *by = json_object();

	for (unsigned i = 0; i < k->n; i++)
		json_array_append_new(pointers, pointer_json(&k->pointer[i]));
	for (unsigned i = 0; i < FM_SOURCES; i++)
		if (k->by[i])
			json_object_set_new(
				by, fm_source_name(i), json_integer((json_int_t)k->by[i]));
	return json_pack("{s:s, s:s, s:I, s:f, s:o, s:I, s:I, s:I, s:o}", "image", k->image, "name",
		k->name, "launches", (json_int_t)k->launches, "held", k->held, "by", by, "outside",
		(json_int_t)k->outside, "checked", (json_int_t)k->checked, "coarse",
		(json_int_t)k->coarse, "pointers", pointers);
}

static json_t *forms_json(const struct profile_fit *f)
{
	json_t *forms = json_object();
	struct fm_fit_counts counts;

	fm_fit_count(f->fit, &counts);
	for (unsigned i = 0; i < FM_FORMS; i++)
		json_object_set_new(
			forms, fm_form_name(i), json_integer((json_int_t)counts.pointers[i]));
	return forms;
}

json_t *profile_sums_json(const struct fm_profile *p)
{
	json_t *unseen = json_object();

	for (unsigned i = 0; i < FM_UNSEENS; i++)
		if (p->unseen[i])
			json_object_set_new(
				unseen, fm_unseen_name(i), json_integer((json_int_t)p->unseen[i]));
	return json_pack("{s:i, s:i, s:I, s:I, s:o, s:I, s:I, s:i, s:i, s:s, s:f}", "processes",
		(int)p->processes, "broken", (int)p->broken, "launches", (json_int_t)p->launches,
		"seen", (json_int_t)p->seen, "unseen", unseen, "modules", (json_int_t)p->modules,
		"patched", (json_int_t)p->patched, "sanitizer", (int)p->sanitizer, "patch_error",
		(int)p->patch_error, "why", p->why, "seconds", (double)p->ns / 1e9);
}

json_t *profile_json(const struct profile_fit *f)
{
	const struct fm_profile *p = f->p;
	CLI_CLEAN_JSON json_t *sums = profile_sums_json(p);
	json_t *kernels = json_array(), *json;

	for (unsigned i = 0; i < p->n; i++)
		json_array_append_new(kernels, kernel_json(&p->kernel[i]));
	json = json_pack("{s:o, s:o}", "kernels", kernels, "forms", forms_json(f));
	json_object_update(json, sums);
	return json;
}

/* --- for people --- */

static void tell_sums(const struct fm_profile *p)
{
	uint64_t outside = 0, missed = 0, coarse = 0;

	for (unsigned i = 0; i < p->n; i++) {
		const struct fm_profile_kernel *k = &p->kernel[i];

		outside += k->outside;
		coarse += k->coarse;
		for (unsigned n = 0; n < k->n; n++)
			missed = fm_add_sat(missed, k->pointer[n].missed);
	}
	if (outside)
		fprintf(stderr, "  %" PRIu64 " of them touched memory that no argument names\n",
			outside);
	if (coarse)
		fprintf(stderr, "  %" PRIu64 " were seen by whole pieces, and for writes alone\n",
			coarse);
	if (missed)
		fprintf(stderr, "  MISSED: %" PRIu64 " bytes were written that were not seen\n",
			missed);
}

static void tell_forms(const struct profile_fit *f, const struct profile_options *o)
{
	struct fm_fit_counts counts;

	if (!f->fit)
		return;
	fm_fit_count(f->fit, &counts);
	fprintf(stderr, "  templates for %u of %u kernels", f->kernels, f->p->n);
	if (o->out && !f->kernels)
		fprintf(stderr, ", so %s is not made", o->out);
	else
		fprintf(stderr, ", in %s:", o->out ? o->out : f->where);
	for (unsigned i = 0; i < FM_FORMS; i++)
		if (counts.pointers[i])
			fprintf(stderr, " %" PRIu64 " %s", counts.pointers[i], fm_form_name(i));
	fprintf(stderr, "\n");
	if (f->kernels < f->p->n)
		fprintf(stderr,
			"  none for kernels that hashes alone have seen, or of which something "
			"was missed\n");
}

void profile_tell(const struct profile_fit *f, const struct profile_options *o)
{
	const struct fm_profile *p = f->p;

	fprintf(stderr,
		"%s: %" PRIu64 " launches, %" PRIu64 " of %u kernels looked at, in %.1f s\n",
		cli_name(), p->launches, p->seen, p->n, (double)p->ns / 1e9);
	tell_forms(f, o);
	tell_sums(p);
	for (unsigned i = 0; i < FM_UNSEENS; i++)
		if (p->unseen[i])
			fprintf(stderr, "  not looked at: %" PRIu64 " %s\n", p->unseen[i],
				fm_unseen_text(i));
	if (p->sanitizer && *p->why)
		fprintf(stderr, "  without the Compute Sanitizer: %s\n", p->why);
	if (p->patch_error)
		fprintf(stderr,
			"  the Compute Sanitizer did not instrument %" PRIu64 " of %" PRIu64
			" modules (error %d)\n",
			p->modules - p->patched, p->modules, (int)p->patch_error);
	if (p->broken)
		fprintf(stderr, "  the records of %u processes make no sense from some place on\n",
			p->broken);
}

int profile_nothing(
	const struct profile_fit *f, const struct profile_options *o, struct fm_err *err)
{
	const struct fm_profile *p = f->p;

	if (!p->processes) {
		fm_err_set(err, -ENODATA, "'%.100s' did not use CUDA",
			o->attach ? o->attach : o->command[0]);
		return fm_err_hint(err,
			"a program that is linked statically, or runs with other rights than its "
			"caller, cannot be looked into; for a script, profile what it starts");
	}
	if (!p->launches) {
		fm_err_set(err, -ENODATA, "'%.100s' launched no kernel",
			o->attach ? o->attach : o->command[0]);
		return fm_err_hint(err, "is there a device? `fermata doctor' says what is wrong");
	}
	profile_tell(f, o);
	fm_err_set(err, -ENODATA, "none of %" PRIu64 " launches could be looked at", p->launches);
	if (p->unseen[FM_UNSEEN_GRAPH] == p->launches)
		return fm_err_hint(err, "let the program run without CUDA graphs");
	if (o->by != 1u << FM_SOURCE_HASH)
		return fm_err_hint(err, "--by hash needs nothing of a toolkit");
	return fm_err_hint(err, "`fermata doctor' says what the driver lacks");
}

/* --- a file of templates --- */

#define HEAD       "{\"fermata_kernels\":"
#define IMAGE      "\"image\":\""
#define FILE_LIMIT ((off_t)1 << 30)

static void add_templates(struct table *t, const struct fm_templates *of)
{
	for (unsigned i = 0; i < of->n; i++) {
		const struct fm_kernel_templates *k = &of->kernel[i];

		for (unsigned n = 0; n < k->n; n++) {
			table_add(t, "%s", n ? "" : k->name);
			table_add(t, "%u", k->pointer[n].at);
			table_add(t, "%s", fm_form_name(k->pointer[n].form));
			table_add(t, "%.1f %%",
				share(k->launches - FM_MIN(k->failed, k->launches), k->launches));
			table_add(t, "%" PRIu64, k->launches);
		}
	}
}

static json_t *templates_json(const struct fm_templates *of)
{
	json_t *kernels = json_array();

	for (unsigned i = 0; i < of->n; i++) {
		const struct fm_kernel_templates *k = &of->kernel[i];
		json_t *pointers = json_array();

		for (unsigned n = 0; n < k->n; n++)
			json_array_append_new(
				pointers, json_pack("{s:i, s:s}", "at", (int)k->pointer[n].at,
						  "form", fm_form_name(k->pointer[n].form)));
		json_array_append_new(
			kernels, json_pack("{s:s, s:s, s:I, s:I, s:o}", "image", of->image, "name",
					 k->name, "launches", (json_int_t)k->launches, "failed",
					 (json_int_t)k->failed, "pointers", pointers));
	}
	return kernels;
}

static int read_all(const char *path, char **text, size_t *size, struct fm_err *err)
{
	FM_CLEAN_FILE FILE *f = fopen(path, "re");
	FILE *to = f ? open_memstream(text, size) : NULL;
	char some[65536];
	size_t n;

	if (!f)
		return fm_err_set(err, -errno, "%.200s: %m", path);
	while (to && (n = fread(some, 1, sizeof(some), f)) && *size <= (size_t)FILE_LIMIT)
		if (fwrite(some, 1, n, to) != n || fflush(to))
			break;
	if (!to || ferror(f) || !feof(f) || fclose(to))
		return fm_err_set(err, -EIO, "%.200s: cannot be read", path);
	return 0;
}

/* A file has one image behind another, each with a head. */
int profile_each_image(const char *path, profile_image *image, void *arg, struct fm_err *err)
{
	FM_CLEAN_FREE char *text = NULL;
	size_t size = 0;
	int rc = read_all(path, &text, &size, err);
	char *end = text + size;

	for (char *at = text, *next; !rc && at < end; at = next) {
		char *name = memmem(at, FM_MIN(256, end - at), IMAGE, strlen(IMAGE));
		struct fm_templates of = {0};
		char id[FM_IMAGE_ID] = "";

		next = memmem(at + 1, (size_t)(end - at - 1), "\n" HEAD, strlen("\n" HEAD));
		next = next ? next + 1 : end;
		if (name && end - name > (ptrdiff_t)(strlen(IMAGE) + FM_IMAGE_ID))
			memcpy(id, name + strlen(IMAGE), FM_IMAGE_ID - 1);
		rc = fm_templates_parse(&of, id, path, at, (size_t)(next - at), err);
		rc = rc ? rc : image(arg, &of, err);
		fm_templates_free(&of);
	}
	return rc;
}

struct shown {
	struct table *t;
	json_t *json;
};

static int show_image(void *arg, struct fm_templates *of, struct fm_err *err)
{
	struct shown *s = arg;
	json_t *more;

	(void)err;
	if (!s->json) {
		add_templates(s->t, of);
		return 0;
	}
	more = templates_json(of);
	json_array_extend(s->json, more);
	json_decref(more);
	return 0;
}

int profile_show(const struct profile_options *o)
{
	static const struct table_column columns[] = {{"KERNEL", false, true},
		{"POINTER", true, false}, {"FORM", false, false}, {"COVERAGE", true, false},
		{"LAUNCHES", true, false}};
	CLI_CLEAN_JSON json_t *json = o->cli->json ? json_array() : NULL;
	TABLE_CLEAN struct table t;
	struct shown shown = {&t, json};
	struct fm_err err = {0};

	table_init(&t, columns, FM_ARRAY_LEN(columns));
	if (profile_each_image(o->show, show_image, &shown, &err))
		return cli_report(&err);
	if (json)
		return cli_print_json(json);
	return table_print(&t) ? CLI_FAILED : CLI_OK;
}
