/* SPDX-License-Identifier: Apache-2.0 */
#include "taskset.h"
#include "base/cleanup.h"
#include "base/util.h"
#include "cmd/table.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>

static int find_unit(struct taskset *ts, const struct fm_json *p)
{
	static const struct {
		const char *name;
		int64_t scale;
	} units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}};
	const char *unit = json_string_value(json_object_get(ts->root, "unit"));

	for (size_t k = 0; unit && k < FM_ARRAY_LEN(units); k++) {
		if (strcmp(unit, units[k].name))
			continue;
		ts->unit = units[k].name;
		ts->scale = units[k].scale;
		return 0;
	}
	return fm_json_bad(p, "unit", "is missing, or neither \"ns\", \"us\" nor \"ms\"");
}

#define EXACT 9007199254740992.0 /* 2^53 */

/* A decimal of JSON has become the nearest double. It meant a whole number of nanoseconds if that
 * number, divided, gives the same double. Beyond 2^53 some numbers cannot be told apart. */
static int from_real(const struct taskset *ts, double value, int64_t *ns)
{
	double scaled = value * (double)ts->scale;

	if (!(scaled > -EXACT && scaled < EXACT))
		return -ERANGE;
	*ns = (int64_t)(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
	return (double)*ns / (double)ts->scale == value ? 0 : -EINVAL;
}

static int read_time(const struct taskset *ts, const struct fm_json *p, const json_t *value,
	const char *key, int64_t *ns)
{
	int rc;

	if (!json_is_number(value))
		return fm_json_bad(p, key, value ? "is not a number" : "is missing");
	if (json_is_integer(value))
		rc = __builtin_mul_overflow(json_integer_value(value), ts->scale, ns) ? -ERANGE : 0;
	else
		rc = from_real(ts, json_real_value(value), ns);
	if (rc == -ERANGE)
		return fm_json_bad(p, key, "overflow: does not fit 64 bits of nanoseconds");
	if (rc)
		return fm_json_bad(p, key, "is not a whole number of nanoseconds");
	return *ns < 0 ? fm_json_bad(p, key, "is negative") : 0;
}

static int optional_time(const struct taskset *ts, const struct fm_json *p, const json_t *from,
	const char *key, int64_t *ns)
{
	const json_t *value = json_object_get(from, key);

	*ns = FM_RTA_UNSET;
	return value && !json_is_null(value) ? read_time(ts, p, value, key, ns) : 0;
}

static int read_segment(
	struct taskset *ts, const struct fm_json *p, const json_t *from, struct fm_rta_segment *s)
{
	static const char *const known[] = {"total", "misc", "gpu", NULL};
	int rc;

	if (fm_json_object(p, from, known))
		return -EINVAL;
	rc = read_time(ts, p, json_object_get(from, "total"), "total", &s->total);
	if (!rc)
		rc = read_time(ts, p, json_object_get(from, "misc"), "misc", &s->misc);
	return rc ? rc : read_time(ts, p, json_object_get(from, "gpu"), "gpu", &s->gpu);
}

/* Writes a task's segments to *next, and advances it. */
static int read_segments(struct taskset *ts, size_t task, struct fm_json *p, const json_t *from,
	struct fm_rta_segment **next)
{
	const json_t *list = json_object_get(from, "segments");
	json_t *s;
	size_t k;
	int rc;

	if (list && !json_is_array(list))
		return fm_json_bad(p, "segments", "is not an array");
	ts->task[task].segment = *next;
	ts->task[task].segments = json_array_size(list);
	json_array_foreach (list, k, s) {
		fm_json_at(p, "tasks[%zu].segments[%zu]", task, k);
		rc = read_segment(ts, p, s, (*next)++);
		if (rc)
			return rc;
	}
	fm_json_at(p, "tasks[%zu]", task);
	return 0;
}

static int read_name(struct taskset *ts, size_t task, const struct fm_json *p, const json_t *from)
{
	const char *name = json_string_value(json_object_get(from, "name"));

	if (!name || !name[0])
		return fm_json_bad(p, "name", "is missing, empty or not a string");
	ts->name[task] = name;
	return 0;
}

/* Only `fermata admit' uses these, but all commands check them in the same way. */
static int check_text(const struct fm_json *p, const json_t *from, const char *key)
{
	const json_t *value = json_object_get(from, key);

	return value && !json_is_string(value) ? fm_json_bad(p, key, "is not a string") : 0;
}

static int read_times(
	struct taskset *ts, const struct fm_json *p, const json_t *from, struct fm_rta_task *t)
{
	int rc = read_time(ts, p, json_object_get(from, "period"), "period", &t->period);

	if (!rc)
		rc = read_time(ts, p, json_object_get(from, "deadline"), "deadline", &t->deadline);
	if (!rc)
		rc = read_time(ts, p, json_object_get(from, "cpu_time"), "cpu_time", &t->cpu_time);
	return rc ? rc : optional_time(ts, p, from, "gpu_total", &t->gpu_total);
}

static int check_gedf(const struct fm_json *p, const struct fm_rta_task *t)
{
	if (!t->period)
		return fm_json_bad(p, "period", "is not above 0");
	if (t->deadline != t->period)
		return fm_json_bad(
			p, "deadline", "is not the period, for which no test of gedf holds");
	return 0;
}

/* A task of a device's set: its deadline is the period, if nothing else is said. Where there is
 * neither it has none. */
static int read_gpu(
	struct taskset *ts, const struct fm_json *p, const json_t *from, struct fm_gedf_gpu_task *t)
{
	int64_t chunks = 1;
	int rc = optional_time(ts, p, from, "period", &t->period);

	if (!rc)
		rc = optional_time(ts, p, from, "deadline", &t->deadline);
	if (!rc)
		rc = read_time(ts, p, json_object_get(from, "gpu_time"), "gpu_time", &t->time);
	if (!rc)
		rc = fm_json_whole(p, from, "chunks", 1, TASKSET_CHUNKS, false, &chunks);
	if (rc)
		return rc;
	t->chunks = (uint32_t)chunks;
	if (t->period == 0 || t->deadline == 0)
		return fm_json_bad(p, t->period ? "deadline" : "period", "is not above 0");
	if (t->period == FM_RTA_UNSET && t->deadline != FM_RTA_UNSET)
		return fm_json_bad(p, "period", "is missing, for a task with a deadline");
	if (t->deadline > t->period)
		return fm_json_bad(p, "deadline", "is beyond the period");
	if (t->deadline == FM_RTA_UNSET)
		t->deadline = t->period;
	if (t->period == FM_RTA_UNSET)
		t->period = t->deadline = 0;
	return 0;
}

static int read_task(struct taskset *ts, size_t task, struct fm_json *p, const json_t *from,
	enum taskset_use use, struct fm_rta_segment **next)
{
	static const char *const known[] = {"name", "priority", "cpu", "period", "deadline",
		"cpu_time", "segments", "gpu_total", "gpu_time", "chunks", "group", "overrun",
		NULL};
	struct fm_rta_task *t = &ts->task[task];
	int rc;

	fm_json_at(p, "tasks[%zu]", task);
	if (fm_json_object(p, from, known))
		return -EINVAL;
	rc = read_name(ts, task, p, from);
	if (!rc)
		rc = check_text(p, from, "group");
	if (!rc)
		rc = check_text(p, from, "overrun");
	if (!rc && use == TASKSET_RTA)
		rc = fm_json_whole(p, from, "priority", INT64_MIN, INT64_MAX, true, &t->priority);
	if (!rc && use == TASKSET_RTA)
		rc = fm_json_whole(p, from, "cpu", INT64_MIN, INT64_MAX, true, &t->cpu);
	if (!rc && use == TASKSET_GPU)
		return read_gpu(ts, p, from, &ts->gpu[task]);
	if (!rc)
		rc = read_times(ts, p, from, t);
	if (!rc && use == TASKSET_GEDF)
		rc = check_gedf(p, t);
	return rc ? rc : read_segments(ts, task, p, from, next);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int check_names(const struct taskset *ts, struct fm_json *p)
{
	size_t n = ts->set.tasks;
	FM_CLEAN_FREE const char **sorted = calloc(n + 1, sizeof(*sorted));

	if (!sorted)
		return fm_err_set(p->err, -ENOMEM, "out of memory");
	if (n)
		memcpy(sorted, ts->name, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), by_name);
	fm_json_at(p, "tasks");
	for (size_t k = 1; k < n; k++)
		if (!strcmp(sorted[k - 1], sorted[k]))
			return fm_json_bad(p, NULL, "two are called '%.40s'", sorted[k]);
	return 0;
}

static int read_head(struct taskset *ts, const struct fm_json *p)
{
	static const char *const known[] = {
		"unit", "epsilon", "slice", "theta", "cpus", "slots", "tasks", NULL};
	const json_t *cpus = json_object_get(ts->root, "cpus");
	int64_t n = json_integer_value(cpus), slots = 0;
	int rc = fm_json_object(p, ts->root, known);

	if (!rc)
		rc = find_unit(ts, p);
	if (!rc)
		rc = optional_time(ts, p, ts->root, "epsilon", &ts->set.epsilon);
	if (!rc)
		rc = optional_time(ts, p, ts->root, "slice", &ts->set.slice);
	if (!rc)
		rc = optional_time(ts, p, ts->root, "theta", &ts->set.theta);
	if (!rc && cpus && (n < 1 || n > FM_GEDF_CPUS))
		rc = fm_json_bad(p, "cpus", "is not a number from 1 to %d", FM_GEDF_CPUS);
	if (!rc)
		rc = fm_json_whole(p, ts->root, "slots", 1, TASKSET_SLOTS, false, &slots);
	ts->cpus = cpus ? (uint32_t)n : 0;
	ts->slots = (uint32_t)slots;
	return rc;
}

static size_t count_segments(const json_t *tasks)
{
	size_t n = 0, k;
	json_t *t;

	json_array_foreach (tasks, k, t)
		n += json_array_size(json_object_get(t, "segments"));
	return n;
}

static int read_tasks(struct taskset *ts, struct fm_json *p, enum taskset_use use)
{
	const json_t *tasks = json_object_get(ts->root, "tasks");
	struct fm_rta_segment *next;
	json_t *t;
	size_t k;
	int rc;

	if (!json_is_array(tasks))
		return fm_json_bad(p, "tasks", "is missing or not an array");
	if (json_array_size(tasks) > TASKSET_TASKS)
		return fm_json_bad(
			p, "tasks", "are %zu, more than %d", json_array_size(tasks), TASKSET_TASKS);
	ts->set.tasks = json_array_size(tasks);
	ts->name = calloc(ts->set.tasks + 1, sizeof(*ts->name));
	ts->task = calloc(ts->set.tasks + 1, sizeof(*ts->task));
	ts->segment = next = calloc(count_segments(tasks) + 1, sizeof(*ts->segment));
	ts->gpu = calloc(ts->set.tasks + 1, sizeof(*ts->gpu));
	if (!ts->name || !ts->task || !ts->segment || !ts->gpu)
		return fm_err_set(p->err, -ENOMEM, "out of memory");
	ts->set.task = ts->task;
	json_array_foreach (tasks, k, t) {
		rc = read_task(ts, k, p, t, use, &next);
		if (rc)
			return rc;
	}
	return check_names(ts, p);
}

static struct fm_json place(struct taskset *ts, const char *file, struct fm_err *err)
{
	*ts = (struct taskset){0};
	return (struct fm_json){.file = file,
		.hint = "fermata-analyze(1) describes the file",
		.unknown = ts->unknown,
		.err = err};
}

static int finish(struct taskset *ts, struct fm_json *p, enum taskset_use use, int rc)
{
	rc = rc ? rc : read_head(ts, p);
	rc = rc ? rc : read_tasks(ts, p, use);
	if (rc)
		taskset_free(ts);
	return rc;
}

int taskset_parse(struct taskset *ts, const char *name, const char *text, size_t size,
	enum taskset_use use, struct fm_err *err)
{
	struct fm_json p = place(ts, name, err);

	return finish(ts, &p, use, fm_json_parse(&p, text, size, &ts->root));
}

int taskset_load(struct taskset *ts, const char *file, enum taskset_use use, struct fm_err *err)
{
	struct fm_json p = place(ts, file, err);

	return finish(ts, &p, use, fm_json_load(&p, &ts->root));
}

void taskset_free(struct taskset *ts)
{
	json_decref(ts->root);
	free(ts->name);
	free(ts->task);
	free(ts->segment);
	free(ts->gpu);
	*ts = (struct taskset){0};
}

const char *taskset_time(const struct taskset *ts, int64_t ns, char buf[TASKSET_TIME])
{
	uint64_t size = ns < 0 ? -(uint64_t)ns : (uint64_t)ns, scale = (uint64_t)ts->scale;
	int digits = ts->scale == 1 ? 0 : ts->scale == 1000 ? 3 : 6;
	uint64_t part = size % scale;
	int n;

	n = snprintf(buf, TASKSET_TIME, "%s%" PRIu64, ns < 0 ? "-" : "", size / scale);
	if (!part)
		return buf;
	n += snprintf(buf + n, TASKSET_TIME - (size_t)n, ".%0*" PRIu64, digits, part);
	while (buf[n - 1] == '0')
		buf[--n] = '\0';
	return buf;
}

void taskset_tell_unknown(const struct taskset *ts, const char *file)
{
	char key[sizeof(ts->unknown)];

	if (!ts->unknown[0])
		return;
	snprintf(key, sizeof(key), "%s", ts->unknown);
	table_clean(key);
	fprintf(stderr, "fermata: %s: %s: unknown key, ignored\n", file, key);
}

const char *taskset_short(const struct taskset *ts, size_t task, char buf[TASKSET_SHORT])
{
	const char *name = ts->name[task];
	size_t n = strlen(name);

	if (n >= TASKSET_SHORT)
		for (n = TASKSET_SHORT - 1; n && ((unsigned char)name[n] & 0xc0) == 0x80; n--)
			;
	snprintf(buf, TASKSET_SHORT, "%.*s", (int)n, name);
	return buf;
}
