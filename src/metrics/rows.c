/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's objects become rows, each with its labels; they are written as often as wanted. */
#include "rows.h"
#include "base/user.h"
#include "base/util.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct user {
	uid_t uid;
	char name[FM_USER];
};

struct builder {
	struct fm_rows *rows;
	const struct fm_sources *from;
	struct fm_places *places;
	struct fm_gpus gpus;
	struct user *user;
	size_t users;
	size_t limit, left_out[ROW_KINDS];
	json_t *devices; /* by name: counts of groups */
	bool failed;     /* out of memory */
};

static const char *text(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

static json_int_t integer(const json_t *o, const char *key)
{
	return json_integer_value(json_object_get(o, key));
}

/* How long the UTF-8 character is that begins here; 0: it is none. */
static size_t character(const unsigned char *s)
{
	size_t n = s[0] < 0x80   ? 1
		   : s[0] < 0xc2 ? 0
		   : s[0] < 0xe0 ? 2
		   : s[0] < 0xf0 ? 3
		   : s[0] < 0xf5 ? 4
				 : 0;

	for (size_t i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	/* Overlong, a surrogate, or beyond Unicode. */
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
		(s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return n;
}

void fm_label(FILE *f, const char *name, const char *value)
{
	if (!*value)
		return;
	fprintf(f, "%s=\"", name);
	while (*value) {
		size_t n = character((const unsigned char *)value);

		if (*value == '\n')
			fputs("\\n", f);
		else if (*value == '"' || *value == '\\')
			fprintf(f, "\\%c", *value);
		else if (!n || (unsigned char)*value < ' ' || *value == 0x7f)
			fputc('?', f);
		else
			fwrite(value, 1, n, f);
		value += n ? n : 1;
	}
	fputc('"', f);
}

static void label(FILE *f, const char *name, const char *value)
{
	if (*value && ftell(f) > 0)
		fputc(',', f);
	fm_label(f, name, value);
}

static void label_number(FILE *f, const char *name, json_int_t n)
{
	char value[24];

	snprintf(value, sizeof(value), "%" JSON_INTEGER_FORMAT, n);
	label(f, name, value);
}

static void add_row(struct builder *b, enum row_kind kind, char *labels, json_t *of, json_int_t uid)
{
	struct rows_list *l = &b->rows->list[kind];

	if (labels && l->n == l->cap) {
		size_t cap = l->cap ? 2 * l->cap : 64;
		struct row *more = realloc(l->row, cap * sizeof(*more));

		if (more) {
			l->row = more;
			l->cap = cap;
		}
	}
	if (!labels || l->n == l->cap) {
		free(labels);
		b->failed = true;
		return;
	}
	l->row[l->n++] = (struct row){.labels = labels, .of = json_incref(of), .uid = (uid_t)uid};
}

/* Of labels that are written to *f; the row is added when they are done. */
struct labels {
	char *text;
	size_t size;
	FILE *f;
};

static bool labels_begin(struct builder *b, struct labels *l)
{
	*l = (struct labels){0};
	l->f = open_memstream(&l->text, &l->size);
	b->failed = b->failed || !l->f;
	return l->f != NULL;
}

static void labels_end(
	struct builder *b, struct labels *l, enum row_kind kind, json_t *of, json_int_t uid)
{
	if (!fclose(l->f)) {
		add_row(b, kind, l->text, of, uid);
		return;
	}
	free(l->text);
	b->failed = true;
}

/* "": it has none. */
static const char *user_name(struct builder *b, const json_t *of)
{
	json_int_t uid = integer(of, "uid");
	struct user *more;

	if (!json_object_get(of, "uid"))
		return "";

	for (size_t i = 0; i < b->users; i++)
		if (b->user[i].uid == (uid_t)uid)
			return b->user[i].name;
	more = realloc(b->user, (b->users + 1) * sizeof(*more));
	if (!more)
		return "?";
	b->user = more;
	more += b->users++;
	more->uid = (uid_t)uid;
	fm_user_name(b->from->passwd, more->uid, more->name);
	return more->name;
}

static void label_device(struct builder *b, FILE *f, const char *device)
{
	const char *uuid = fm_device_uuid(device);
	int gpu = uuid ? fm_gpu_index(&b->gpus, b->from, uuid) : -1;

	label(f, "device", device);
	if (gpu >= 0)
		label_number(f, "gpu", gpu);
	if (uuid)
		label(f, "UUID", uuid);
}

static void label_place(FILE *f, json_int_t pid, const struct fm_place *p)
{
	if (pid > 0)
		label_number(f, "pid", pid);
	label(f, "container", p->container);
	label(f, "pod", p->pod);
	label(f, "namespace", p->space);
}

/* Of a group: the process, if there is one alone, and the place, if it is that of all. A process
 * has a client for each API that it uses. */
static json_int_t group_place(struct builder *b, const json_t *group, struct fm_place *out)
{
	const json_t *list = json_object_get(group, "processes"), *process;
	json_int_t pid = integer(json_array_get(list, 0), "pid");
	bool alone = json_array_size(list) && !integer(group, "more_processes");
	struct fm_place other;
	size_t i;

	*out = (struct fm_place){.container = ""};
	json_array_foreach (list, i, process) {
		alone = alone && integer(process, "pid") == pid;
		fm_place_of(b->places, (pid_t)integer(process, "pid"), i ? &other : out);
		if (!i || (!strcmp(other.container, out->container) &&
				  !strcmp(other.pod, out->pod) && !strcmp(other.space, out->space)))
			continue;
		*out = (struct fm_place){.container = ""};
		return 0;
	}
	return alone ? pid : 0;
}

/* How many groups are in which state, told with the device; those that have no rows, too. */
static void count_state(struct builder *b, const json_t *entity)
{
	json_t *counts = json_object_get(b->devices, text(entity, "device"));
	const char *state = text(entity, "state");

	if (counts)
		json_object_set_new(counts, state, json_integer(integer(counts, state) + 1));
}

/* A second client of the process by the same API: two series with the same labels would spoil the
 * whole. */
static bool is_double(const json_t *list, size_t at)
{
	const json_t *p = json_array_get(list, at), *o;

	for (size_t i = 0; i < at; i++) {
		o = json_array_get(list, i);
		if (integer(o, "pid") == integer(p, "pid") &&
			!strcmp(text(o, "api"), text(p, "api")) &&
			!strcmp(text(o, "program"), text(p, "program")))
			return true;
	}
	return false;
}

static void add_processes(struct builder *b, json_t *group)
{
	json_t *list = json_object_get(group, "processes"), *process;
	json_int_t uid = integer(group, "uid");
	struct fm_place place;
	struct labels l;
	size_t i;

	b->left_out[ROW_PROCESS] += (size_t)FM_MAX(integer(group, "more_processes"), 0);
	json_array_foreach (list, i, process) {
		if (!json_object_get(process, "program")) /* told with another group */
			continue;
		if (integer(process, "pid") <= 0) /* not known: nothing tells it from others */
			continue;
		if (b->rows->list[ROW_PROCESS].n >= b->limit || is_double(list, i)) {
			b->left_out[ROW_PROCESS]++;
			continue;
		}
		if (!labels_begin(b, &l))
			return;
		fm_place_of(b->places, (pid_t)integer(process, "pid"), &place);
		label(l.f, "group", text(group, "name"));
		label(l.f, "user", user_name(b, group));
		label(l.f, "program", text(process, "program"));
		label(l.f, "api", text(process, "api"));
		label_place(l.f, integer(process, "pid"), &place);
		labels_end(b, &l, ROW_PROCESS, process, uid);
	}
}

/* As many processes as clients, but for those that come again. Of what is not known nothing tells
 * which are one. */
static void count_processes(json_t *group)
{
	const json_t *list = json_object_get(group, "processes");
	json_int_t again = 0;

	for (size_t i = 0; i < json_array_size(list); i++) {
		json_int_t pid = integer(json_array_get(list, i), "pid");
		size_t k = 0;

		while (k < i && integer(json_array_get(list, k), "pid") != pid)
			k++;
		again += k < i && pid > 0;
	}
	if (again)
		json_object_set_new(
			group, "clients", json_integer(integer(group, "clients") - again));
}

/* What a list of the group has for each device. */
static void add_on_devices(struct builder *b, const json_t *group, const char *key,
	enum row_kind kind, json_int_t pid, const struct fm_place *place)
{
	json_t *list = json_object_get(group, key), *one;
	struct labels l;
	size_t i;

	json_array_foreach (list, i, one) {
		if (!labels_begin(b, &l))
			return;
		label(l.f, "group", text(group, "name"));
		label(l.f, "user", user_name(b, group));
		label_device(b, l.f, text(one, "device"));
		label_place(l.f, pid, place);
		labels_end(b, &l, kind, one, integer(group, "uid"));
	}
}

static void add_group(struct builder *b, json_t *group)
{
	json_int_t pid;
	struct fm_place place;
	struct labels l;

	pid = group_place(b, group, &place);
	count_processes(group);
	if (!labels_begin(b, &l))
		return;
	label(l.f, "group", text(group, "name"));
	label(l.f, "user", user_name(b, group));
	label_place(l.f, pid, &place);
	labels_end(b, &l, ROW_GROUP, group, integer(group, "uid"));
	add_on_devices(b, group, "devices", ROW_ENTITY, pid, &place);
	add_on_devices(b, group, "memory", ROW_MEMORY, pid, &place);
}

static int same_name(const void *a, const void *b)
{
	const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
	json_int_t u = integer(x, "uid"), v = integer(y, "uid");

	return u != v ? (u < v ? -1 : 1) : strcmp(text(x, "name"), text(y, "name"));
}

/* A group that a program names "COMM-PID" may have the name that the daemon gives to another. Two
 * series with the same labels would spoil the whole: the first alone is shown. */
static void mark_doubles(struct builder *b, json_t *groups)
{
	size_t n = json_array_size(groups);
	json_t **sorted = calloc(n + 1, sizeof(json_t *));

	b->failed = b->failed || !sorted;
	for (size_t i = 0; sorted && i < n; i++) {
		sorted[i] = json_array_get(groups, i);
		json_object_set_new(sorted[i], "place", json_integer((json_int_t)i));
	}
	if (sorted)
		qsort(sorted, n, sizeof(json_t *), same_name);
	for (size_t i = 1; sorted && i < n; i++)
		if (!same_name(&sorted[i - 1], &sorted[i]))
			json_object_set_new(
				integer(sorted[i - 1], "place") < integer(sorted[i], "place")
					? sorted[i]
					: sorted[i - 1],
				"double", json_true());
	free(sorted);
}

/* Those that have been there longest have rows: who is shown does not change while others come.
 * Programs that name a group have one without queues and memory besides, which nobody is
 * interested in. */
static void add_groups(struct builder *b, json_t *groups)
{
	json_t *group, *entity;
	size_t i, k, shown = 0;

	mark_doubles(b, groups);
	json_array_foreach (groups, i, group) {
		json_array_foreach (json_object_get(group, "devices"), k, entity)
			count_state(b, entity);
		add_processes(b, group);
		if (!json_array_size(json_object_get(group, "devices")) &&
			!json_array_size(json_object_get(group, "memory")))
			continue;
		if (shown >= b->limit || json_object_get(group, "double")) {
			b->left_out[ROW_GROUP]++;
			continue;
		}
		shown++;
		add_group(b, group);
	}
}

static void add_devices(struct builder *b, json_t *devices)
{
	json_t *device, *counts;
	struct labels l;
	size_t i;

	json_array_foreach (devices, i, device) {
		if (!json_object_get(device, "groups")) {
			counts = json_pack("{s:i, s:i, s:i, s:i}", "idle", 0, "ready", 0, "running",
				0, "suspended", 0);
			json_object_set_new(b->devices, text(device, "device"), counts);
			json_object_set(device, "groups", counts);
		}
		if (!labels_begin(b, &l))
			return;
		label_device(b, l.f, text(device, "device"));
		labels_end(b, &l, ROW_DEVICE, device, 0);
	}
}

static void add_tasks(struct builder *b, json_t *tasks)
{
	struct fm_place place;
	struct labels l;
	json_t *task;
	size_t i;

	json_array_foreach (tasks, i, task) {
		json_int_t uid = integer(task, "uid"), pid = integer(task, "pid");

		if (i >= b->limit) {
			b->left_out[ROW_TASK]++;
			continue;
		}
		if (!labels_begin(b, &l))
			return;
		fm_place_of(b->places, (pid_t)pid, &place);
		label_number(l.f, "id", integer(task, "id"));
		label(l.f, "task", text(task, "name"));
		label(l.f, "group", text(task, "group"));
		label(l.f, "user", user_name(b, task));
		label_place(l.f, pid, &place);
		labels_end(b, &l, ROW_TASK, task, uid);
	}
}

static void add_exporter(struct builder *b, const struct fm_snapshot *s)
{
	json_t *o = json_pack("{s:i}", "up", s != NULL);

	if (s) {
		json_object_set_new(o, "took_ns", json_integer((json_int_t)s->took_ns));
		json_object_set_new(o, "left_out",
			json_pack("{s:i, s:i, s:i}", "groups", (int)b->left_out[ROW_GROUP],
				"processes", (int)b->left_out[ROW_PROCESS], "tasks",
				(int)b->left_out[ROW_TASK]));
	}
	add_row(b, ROW_EXPORTER, strdup(""), o, 0);
	json_decref(o);
}

static void build(struct builder *b, const struct fm_snapshot *s)
{
	json_int_t limit = s ? integer(json_object_get(s->daemon, "settings"), "limit") : 0;

	b->limit = limit > 0 ? (size_t)limit : 1000;
	if (s) {
		b->left_out[ROW_GROUP] = s->more_groups;
		b->rows->bounds = json_incref(json_object_get(s->daemon, "bounds_ns"));
		b->rows->wait_bounds = json_incref(json_object_get(s->daemon, "wait_bounds_ns"));
		add_row(b, ROW_DAEMON, strdup(""), s->daemon, 0);
		add_devices(b, s->devices);
		add_groups(b, s->groups);
		add_tasks(b, s->tasks);
	}
	add_exporter(b, s);
}

struct fm_rows *fm_rows_new(const struct fm_snapshot *s, const struct fm_sources *from)
{
	struct builder b = {.from = from, .places = fm_places_new(from), .devices = json_object()};

	b.rows = calloc(1, sizeof(*b.rows));
	b.failed = !b.rows || !b.places || !b.devices;
	if (!b.failed)
		build(&b, s);
	if (b.failed) {
		fm_rows_free(b.rows);
		b.rows = NULL;
	}
	fm_places_free(b.places);
	json_decref(b.devices);
	free(b.user);
	return b.rows;
}

void fm_rows_free(struct fm_rows *r)
{
	if (!r)
		return;
	for (size_t k = 0; k < ROW_KINDS; k++) {
		for (size_t i = 0; i < r->list[k].n; i++) {
			free(r->list[k].row[i].labels);
			json_decref(r->list[k].row[i].of);
		}
		free(r->list[k].row);
	}
	json_decref(r->bounds);
	json_decref(r->wait_bounds);
	free(r);
}

const char *row_labels(enum row_kind kind)
{
	static const char *const of[ROW_KINDS] = {
		[ROW_EXPORTER] = "",
		[ROW_DAEMON] = "",
		[ROW_DEVICE] = "device gpu UUID",
		[ROW_GROUP] = "group user pid container pod namespace",
		[ROW_ENTITY] = "group user device gpu UUID pid container pod namespace",
		[ROW_MEMORY] = "group user device gpu UUID pid container pod namespace",
		[ROW_PROCESS] = "group user program api pid container pod namespace",
		[ROW_TASK] = "id task group user pid container pod namespace",
	};

	return of[kind];
}
