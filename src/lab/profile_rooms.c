/* SPDX-License-Identifier: Apache-2.0 */
#include "profile_rooms.h"
#include "base/cleanup.h"
#include "base/util.h"
#include "cmd/inject.h"
#include "cmd/table.h"
#include "json/json.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT    "fermata_rooms"
#define VERSION   1
#define ROOM_MOST 65536u

bool profile_rooms_parse(struct profile_options *o, const char *text)
{
	char *end = (char *)(uintptr_t)text;

	o->n_rooms = 0;
	do {
		unsigned long k = *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : 0;

		if (!k || k > ROOM_MOST || o->n_rooms == FM_PROFILE_ROOMS ||
			(o->n_rooms && k <= o->room[o->n_rooms - 1]))
			return false;
		o->room[o->n_rooms++] = (unsigned)k;
		text = end + 1;
	} while (*end == ',');
	return !*end;
}

int profile_rooms_set(const struct profile_options *o, struct fm_err *err)
{
	char text[16 * (FM_PROFILE_ROOMS + 1)] = "0";

	for (unsigned i = 0; i < o->n_rooms; i++)
		sprintf(text + strlen(text), ",%u", o->room[i]);
	return inject_set(FM_PROFILE_TIMED, text, err);
}

/* --- JSON --- */

static json_t *rooms_json(const struct fm_timed *k)
{
	json_t *rooms = json_array();

	for (unsigned i = 0; i < k->n; i++)
		json_array_append_new(rooms,
			json_pack("{s:I, s:I, s:I}", "multiprocessors", (json_int_t)k->room[i].on,
				"ns", (json_int_t)fm_timed_on(k, k->room[i].on), "samples",
				(json_int_t)k->room[i].n));
	return rooms;
}

static json_t *kernel_json(const struct fm_timed *k)
{
	const struct fm_record_timed *r = &k->is;
	json_t *j = json_pack("{s:s, s:o, s:s, s:[I,I,I], s:[I,I,I]}", "image", r->image, "name",
		fm_json_text(k->name), "device", r->device, "grid", (json_int_t)r->grid[0],
		(json_int_t)r->grid[1], (json_int_t)r->grid[2], "block", (json_int_t)r->block[0],
		(json_int_t)r->block[1], (json_int_t)r->block[2]);
	const struct {
		const char *key;
		uint64_t value;
	} numbers[] = {{"shared", r->shared}, {"static_shared", r->fixed},
		{"registers", r->registers}, {"local", r->local},
		{"per_multiprocessor", r->per_multiprocessor},
		{"multiprocessors", r->multiprocessors}, {"waves", fm_timed_waves(k)},
		{"block_ns", fm_timed_block(k)}};

	for (size_t i = 0; i < FM_ARRAY_LEN(numbers); i++)
		json_object_set_new(j, numbers[i].key, json_integer((json_int_t)numbers[i].value));
	json_object_set_new(j, "on", rooms_json(k));
	return j;
}

static json_t *times_json(const struct fm_times *t)
{
	json_t *kernels = json_array();

	for (unsigned i = 0; i < t->n; i++)
		json_array_append_new(kernels, kernel_json(&t->timed[i]));
	return json_pack("{s:i, s:o}", FORMAT, VERSION, "kernels", kernels);
}

/* --- a table --- */

struct rooms {
	unsigned n, on[FM_PROFILE_ROOMS];
};

/* The parts of the device that there are times of. */
static void find_rooms(const struct fm_times *t, struct rooms *r)
{
	r->n = 0;
	for (unsigned i = 0; i < t->n; i++)
		for (unsigned k = 0; k < t->timed[i].n; k++) {
			unsigned on = t->timed[i].room[k].on, at = 0;

			if (on == t->timed[i].is.multiprocessors)
				continue;
			while (at < r->n && r->on[at] < on)
				at++;
			if ((at < r->n && r->on[at] == on) || r->n == FM_PROFILE_ROOMS)
				continue;
			memmove(&r->on[at + 1], &r->on[at], (r->n - at) * sizeof(r->on[0]));
			r->on[at] = on;
			r->n++;
		}
}

static void add_us(struct table *t, uint64_t ns)
{
	if (ns)
		table_add(t, "%.1f", (double)ns / 1e3);
	else
		table_add(t, "-");
}

static void add_shape(struct table *t, const uint32_t shape[3])
{
	if (shape[1] == 1 && shape[2] == 1)
		table_add(t, "%u", shape[0]);
	else
		table_add(t, "%ux%ux%u", shape[0], shape[1], shape[2]);
}

static void add_kernel(struct table *t, const struct fm_timed *k, const struct rooms *r)
{
	table_add(t, "%s", k->name);
	add_shape(t, k->is.grid);
	add_shape(t, k->is.block);
	table_add(t, "%u", k->is.registers);
	table_add(t, "%" PRIu64, (uint64_t)k->is.shared + k->is.fixed);
	table_add(t, "%u", k->is.per_multiprocessor);
	table_add(t, "%" PRIu64, fm_timed_waves(k));
	add_us(t, fm_timed_block(k));
	add_us(t, fm_timed_on(k, k->is.multiprocessors));
	for (unsigned i = 0; i < r->n; i++)
		add_us(t, fm_timed_on(k, r->on[i]));
}

static int print(const struct fm_times *times)
{
	static const struct table_column fixed[] = {{"KERNEL", false, true}, {"GRID", true, false},
		{"BLOCK", true, false}, {"REGS", true, false}, {"SHARED", true, false},
		{"PER SM", true, false}, {"WAVES", true, false}, {"BLOCK us", true, false},
		{"ALONE us", true, false}};
	struct table_column column[FM_ARRAY_LEN(fixed) + FM_PROFILE_ROOMS];
	char head[FM_PROFILE_ROOMS][16];
	TABLE_CLEAN struct table t;
	struct rooms rooms;

	find_rooms(times, &rooms);
	memcpy(column, fixed, sizeof(fixed));
	for (unsigned i = 0; i < rooms.n; i++) {
		snprintf(head[i], sizeof(head[i]), "ON %u", rooms.on[i]);
		column[FM_ARRAY_LEN(fixed) + i] = (struct table_column){head[i], true, false};
	}
	table_init(&t, column, FM_ARRAY_LEN(fixed) + rooms.n);
	for (unsigned i = 0; i < times->n; i++)
		add_kernel(&t, &times->timed[i], &rooms);
	return table_print(&t) ? CLI_FAILED : CLI_OK;
}

/* --- the end of a program --- */

static void tell(const struct profile_options *o, const struct fm_profile *p)
{
	unsigned few = 0;

	fprintf(stderr, "%s: %" PRIu64 " launches, %" PRIu64 " of %u kinds timed, in %.1f s\n",
		cli_name(), p->launches, p->seen, p->times->n, (double)p->ns / 1e9);
	for (unsigned i = 0; i < p->times->n; i++)
		few += p->times->timed[i].n < 1 + o->n_rooms;
	if (few)
		fprintf(stderr,
			"  %u of these not everywhere: launched too seldom, larger than the part, "
			"or "
			"with blocks that may wait for each other\n",
			few);
	if (p->rooms)
		fprintf(stderr, "  on parts of the device: %s\n", fm_rooms_text(p->rooms));
	for (unsigned i = 0; i < FM_UNSEENS; i++)
		if (p->unseen[i])
			fprintf(stderr, "  not timed: %" PRIu64 " %s\n", p->unseen[i],
				i == FM_UNSEEN_BUSY ? "beside others that did not end in time"
						    : fm_unseen_text(i));
	if (p->broken)
		fprintf(stderr, "  the records of %u processes make no sense from some place on\n",
			p->broken);
}

static int nothing(const struct profile_options *o, const struct fm_profile *p, struct fm_err *err)
{
	if (!p->launches) {
		fm_err_set(err, -ENODATA, "'%.100s' launched no kernel", o->command[0]);
		return fm_err_hint(err, "is there a device? `fermata doctor' says what is wrong; a "
					"program that is linked statically cannot be looked into");
	}
	tell(o, p);
	fm_err_set(err, -ENODATA, "none of %" PRIu64 " launches could be timed", p->launches);
	if (p->unseen[FM_UNSEEN_GRAPH] == p->launches)
		return fm_err_hint(err, "let the program run without CUDA graphs");
	return fm_err_hint(err, "a kernel's first launch is not timed: let the program run longer");
}

static int write_file(json_t *json, struct outfile *out, struct fm_err *err)
{
	if (json_dumpf(json, out->f, JSON_INDENT(1)) || fputc('\n', out->f) == EOF)
		return fm_err_set(err, -EIO, "cannot write %.150s: %m", out->path);
	return outfile_close(out, true, err);
}

int profile_rooms(const struct profile_options *o, const struct fm_profile *p, struct outfile *out,
	struct fm_err *err)
{
	CLI_CLEAN_JSON json_t *json = NULL, *sums = NULL;
	int rc;

	if (!p->times->n)
		return nothing(o, p, err);
	json = times_json(p->times);
	if (!json)
		return fm_err_set(err, -ENOMEM, "out of memory");
	rc = out->path ? write_file(json, out, err) : 0;
	if (rc)
		return rc;
	tell(o, p);
	if (!o->cli->json)
		return print(p->times);
	sums = profile_sums_json(p);
	json_object_update(json, sums);
	json_object_set_new(json, "rooms", json_string(fm_rooms_text(p->rooms)));
	return cli_print_json(json);
}

/* --- a file --- */

bool profile_rooms_is_file(const char *path)
{
	FM_CLEAN_FILE FILE *f = fopen(path, "re");
	char head[64] = "";

	return f && fread(head, 1, sizeof(head) - 1, f) && strstr(head, "\"" FORMAT "\"");
}

static int whole(const struct fm_json *j, const json_t *from, const char *key, int64_t least,
	int64_t most, void *to, size_t size)
{
	int64_t v = 0;
	int rc = fm_json_whole(j, from, key, least, most, true, &v);
	uint32_t v32 = (uint32_t)v;

	memcpy(to, size == sizeof(v32) ? (void *)&v32 : (void *)&v, size);
	return rc;
}

static int read_shape(const struct fm_json *j, const json_t *from, const char *key, uint32_t to[3])
{
	const json_t *a = json_object_get(from, key);

	if (!json_is_array(a) || json_array_size(a) != 3)
		return fm_json_bad(j, key, "give three numbers");
	for (size_t i = 0; i < 3; i++) {
		json_int_t v = json_integer_value(json_array_get(a, i));

		if (v < 1 || v > UINT32_MAX)
			return fm_json_bad(j, key, "give three numbers from 1 on");
		to[i] = (uint32_t)v;
	}
	return 0;
}

static int read_text(
	const struct fm_json *j, const json_t *from, const char *key, char *to, size_t size)
{
	const char *text = json_string_value(json_object_get(from, key));

	if (!text || strlen(text) >= size)
		return fm_json_bad(j, key, "give a text of less than %zu bytes", size);
	strcpy(to, text);
	return 0;
}

static int read_rooms(const struct fm_json *j, const json_t *from, struct fm_record_timed *r,
	const char *name, struct fm_times *t)
{
	const json_t *on = json_object_get(from, "on"), *one;
	int64_t n;
	size_t i;
	int rc;

	if (!json_is_array(on) || !json_array_size(on))
		return fm_json_bad(j, "on", "give times");
	r->name = (uint32_t)strlen(name);
	json_array_foreach (on, i, one) {
		rc = fm_json_object(j, one, NULL);
		rc = rc ? rc : whole(j, one, "multiprocessors", 1, ROOM_MOST, &r->on, 4);
		rc = rc ? rc : whole(j, one, "ns", 1, INT64_MAX / 4, &r->ns, 8);
		rc = rc ? rc : whole(j, one, "samples", 1, FM_TIMED_SAMPLES, &n, 8);
		if (rc)
			return rc;
		if (!fm_timed_makes_sense(r))
			return fm_json_bad(j, "on", "it makes no sense");
		for (rc = 0; n-- && !rc;)
			rc = fm_times_add(t, r, name);
		if (rc)
			return fm_err_set(j->err, -ENOMEM, "out of memory");
	}
	return 0;
}

static int read_kernel(struct fm_json *j, const json_t *from, struct fm_times *t)
{
	struct fm_record_timed r = {.name = 0};
	char name[FM_PROFILE_NAME + 1];
	const struct {
		const char *key;
		uint32_t *to;
	} numbers[] = {{"shared", &r.shared}, {"static_shared", &r.fixed},
		{"registers", &r.registers}, {"local", &r.local},
		{"per_multiprocessor", &r.per_multiprocessor},
		{"multiprocessors", &r.multiprocessors}};
	int rc = fm_json_object(j, from, NULL);

	rc = rc ? rc : read_text(j, from, "image", r.image, sizeof(r.image));
	rc = rc ? rc : read_text(j, from, "device", r.device, sizeof(r.device));
	rc = rc ? rc : read_text(j, from, "name", name, sizeof(name));
	rc = rc ? rc : read_shape(j, from, "grid", r.grid);
	rc = rc ? rc : read_shape(j, from, "block", r.block);
	for (size_t i = 0; i < FM_ARRAY_LEN(numbers); i++)
		rc = rc ? rc : whole(j, from, numbers[i].key, 0, UINT32_MAX, numbers[i].to, 4);
	return rc ? rc : read_rooms(j, from, &r, name, t);
}

static int read_file(const char *path, struct fm_times *t, struct fm_err *err)
{
	struct fm_json j = {
		.file = path, .hint = "fermata-lab-profile(1) describes it", .err = err};
	CLI_CLEAN_JSON json_t *root = NULL;
	const json_t *kernels, *one;
	int64_t version;
	size_t i;
	int rc = fm_json_load(&j, &root);

	rc = rc ? rc : whole(&j, root, FORMAT, 1, INT32_MAX, &version, 8);
	if (rc)
		return rc;
	if (version > VERSION)
		return fm_json_bad(
			&j, FORMAT, "version %lld is newer than %d", (long long)version, VERSION);
	kernels = json_object_get(root, "kernels");
	if (!json_is_array(kernels))
		return fm_json_bad(&j, "kernels", "give a list");
	json_array_foreach (kernels, i, one) {
		fm_json_at(&j, "kernels[%zu]", i);
		rc = read_kernel(&j, one, t);
		if (rc)
			return rc;
	}
	return 0;
}

int profile_rooms_show(const struct profile_options *o)
{
	CLI_CLEAN_JSON json_t *json = NULL;
	struct fm_times t = {0};
	struct fm_err err = {0};
	int rc = read_file(o->show, &t, &err) ? cli_report(&err) : CLI_OK;

	if (!rc && o->cli->json) {
		json = times_json(&t);
		rc = json ? cli_print_json(json) : CLI_FAILED;
	} else if (!rc) {
		rc = print(&t);
	}
	fm_times_free(&t);
	return rc;
}
