/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks: load, client, hints. */
#include "base/clock.h"
#include "base/parse.h"
#include "base/util.h"
#include "read.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRACE_MS  (BENCH_SECONDS * 1000.0)
#define BATCH_MAX 4096

static const struct {
	const char *name;
	enum bench_load load;
} loads[] = {{"continuous", BENCH_CLOSED}, {"periodic", BENCH_PERIODIC}, {"poisson", BENCH_POISSON},
	{"trace", BENCH_TRACE}, {"dependent", BENCH_DEPENDENT}};

const char *bench_load_name(enum bench_load load)
{
	for (size_t i = 0; i < FM_ARRAY_LEN(loads); i++)
		if (loads[i].load == load)
			return loads[i].name;
	return "?";
}

void bench_group(const struct bench_task *t, char name[BENCH_GROUP])
{
	snprintf(name, BENCH_GROUP, "bench-%s", t->id);
}

int64_t bench_task_hint(const struct bench_task *t, enum fm_hint hint)
{
	for (size_t i = 0; i < t->hints; i++)
		if (t->hint[i].hint == (int)hint)
			return t->hint[i].value;
	return 0;
}

void bench_task_set_hint(struct bench_task *t, enum fm_hint hint, int64_t value)
{
	size_t k = 0;

	while (k < t->hints && t->hint[k].hint != (int)hint)
		k++;
	t->hint[k] = (struct fm_bench_hint){.hint = (int)hint, .value = value};
	t->hints += k == t->hints;
}

static int read_rate(struct bench_place *p, const json_t *from, struct bench_task *t)
{
	const json_t *fraction = json_object_get(from, "rate_fraction");

	if (fraction && json_object_get(from, "frequency"))
		return fm_json_bad(&p->j, "rate_fraction", "and frequency: one of them, please");
	return fraction
		       ? fm_json_real(&p->j, from, "rate_fraction", 0.0001, 100, true, &t->fraction)
		       : fm_json_real(&p->j, from, "frequency", 0, BENCH_RATE, true, &t->rate);
}

static int by_time(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static int read_trace(struct bench_place *p, const json_t *from, struct bench_task *t)
{
	const json_t *list = json_object_get(from, "trace"), *ms;
	size_t k;

	if (!json_is_array(list))
		return fm_json_bad(&p->j, "trace", "is missing or not an array");
	t->trace = calloc(json_array_size(list) + 1, sizeof(*t->trace));
	if (!t->trace)
		return fm_err_set(p->j.err, -ENOMEM, "out of memory");
	json_array_foreach (list, k, ms) {
		double v = json_number_value(ms);

		if (!json_is_number(ms) || !(v >= 0 && v <= TRACE_MS)) {
			char key[40];

			snprintf(key, sizeof(key), "trace[%zu]", k);
			return fm_json_bad(&p->j, key,
				"is not a number of milliseconds from 0 to %g", TRACE_MS);
		}
		t->trace[t->traces++] = (uint64_t)(v * FM_MS + 0.5);
	}
	qsort(t->trace, t->traces, sizeof(*t->trace), by_time);
	return 0;
}

static int read_load(struct bench_place *p, const json_t *from, struct bench_task *t)
{
	static const char *const known[] = {
		"type", "frequency", "rate_fraction", "priority", "trace", "prev_task_ids", NULL};
	const char *type = json_string_value(json_object_get(from, "type"));
	int64_t priority = 0;
	size_t i = 0;

	if (fm_json_object(&p->j, from, known))
		return -EINVAL;
	if (!type)
		return fm_json_bad(&p->j, "type", "is missing or not a string");
	while (i < FM_ARRAY_LEN(loads) && strcmp(loads[i].name, type))
		i++;
	if (i == FM_ARRAY_LEN(loads))
		return fm_json_bad(&p->j, "type",
			"is neither continuous, periodic, poisson, trace nor dependent");
	t->load = loads[i].load;
	if (fm_json_whole(&p->j, from, "priority", INT32_MIN, INT32_MAX, false, &priority))
		return -EINVAL;
	t->realtime = t->load != BENCH_CLOSED && priority <= 0;
	if (t->load == BENCH_PERIODIC || t->load == BENCH_POISSON)
		return read_rate(p, from, t);
	return t->load == BENCH_TRACE ? read_trace(p, from, t) : 0;
}

static int read_client(struct bench_place *p, const json_t *from, struct bench_task *t)
{
	const json_t *model = json_object_get(from, "model_name");
	const json_t *name = json_object_get(from, "name");
	int64_t batch = 1;

	if (fm_json_object(&p->j, from, NULL))
		return -EINVAL;
	if (name && !json_is_string(name))
		return fm_json_bad(&p->j, "name", "is not a string");
	if (model && !json_is_string(model))
		return fm_json_bad(&p->j, "model_name", "is not a string");
	t->name = name ? json_string_value(name) : "Unknown"; /* as libdisb calls it */
	if (fm_json_whole(&p->j, from, "batch_size", 1, BATCH_MAX, false, &batch))
		return -EINVAL;
	t->batch = (uint32_t)batch;
	t->client = json_dumps(from, JSON_COMPACT);
	if (!t->client)
		return fm_err_set(p->j.err, -ENOMEM, "out of memory");
	return bench_find_model(
		p, "model_name", model ? json_string_value(model) : "default", t->batch, &t->model);
}

/* A number, or words as `fermata run' takes them. */
static int read_hint(
	struct bench_place *p, const char *key, const json_t *from, struct bench_task *t)
{
	const char *text = json_string_value(from);
	struct fm_err err = {0};
	enum fm_hint hint;
	char number[32];
	int64_t value;

	if (json_is_integer(from)) {
		snprintf(number, sizeof(number), "%" PRId64, (int64_t)json_integer_value(from));
		text = number;
	}
	if (!text)
		return fm_json_bad(&p->j, key, "is neither a string nor a whole number");
	if (fm_parse_hint(key, text, &hint, &value, &err))
		return fm_json_bad(&p->j, key, "%.110s", err.text);
	bench_task_set_hint(t, hint, value);
	return 0;
}

static int read_hints(struct bench_place *p, const json_t *from, struct bench_task *t)
{
	const json_t *hints = json_object_get(from, "hints");
	const char *key;
	json_t *value;
	int rc;

	if (!hints && t->realtime)
		bench_task_set_hint(t, FM_HINT_PRIORITY, FM_PRIORITY_HIGH);
	if (hints && !json_is_object(hints))
		return fm_json_bad(&p->j, "hints", "is not an object");
	json_object_foreach ((json_t *)hints, key, value) {
		struct bench_place at = *p;

		fm_json_at(&at.j, "%.120s.hints", p->j.path);
		rc = read_hint(&at, key, value, t);
		if (rc)
			return rc;
	}
	return 0;
}

/* Groups are called after tasks. */
static int read_id(struct bench_place *p, const json_t *from, struct bench_task *t)
{
	t->id = json_string_value(json_object_get(from, "id"));
	if (!t->id)
		return fm_json_bad(&p->j, "id", "is missing or not a string");
	if (!t->id[0] || strlen(t->id) >= BENCH_NAME)
		return fm_json_bad(&p->j, "id", "does not have 1 to %d characters", BENCH_NAME - 1);
	for (const char *c = t->id; *c; c++)
		if (*c <= ' ' || *c > '~' || strchr("/\"'`\\", *c))
			return fm_json_bad(&p->j, "id",
				"is not printable ASCII without spaces, '/', '\\' or quotes");
	return 0;
}

int bench_read_task(struct bench_place *p, const json_t *from, struct bench_task *t)
{
	static const char *const known[] = {"id", "load", "client", "hints", NULL};
	struct bench_place at = *p;
	int rc;

	if (fm_json_object(&p->j, from, known))
		return -EINVAL;
	rc = read_id(p, from, t);
	fm_json_at(&at.j, "%.120s.load", p->j.path);
	rc = rc ? rc : read_load(&at, json_object_get(from, "load"), t);
	fm_json_at(&at.j, "%.120s.client", p->j.path);
	rc = rc ? rc : read_client(&at, json_object_get(from, "client"), t);
	return rc ? rc : read_hints(p, from, t);
}

int bench_read_before(struct bench_place *p, const json_t *from, struct bench_task *t)
{
	const json_t *list = json_object_get(json_object_get(from, "load"), "prev_task_ids"), *one;
	const struct bench_workload *w = p->w;
	size_t k;

	if (t->load != BENCH_DEPENDENT)
		return 0;
	if (!json_is_array(list) || !json_array_size(list))
		return fm_json_bad(&p->j, "prev_task_ids", "is missing, empty or not an array");
	json_array_foreach (list, k, one) {
		const char *id = json_string_value(one);
		uint32_t i = 0;

		while (id && i < w->tasks && strcmp(w->task[i].id, id))
			i++;
		if (!id || i == w->tasks)
			return fm_json_bad(
				&p->j, "prev_task_ids", "no task '%.40s'", id ? id : "?");
		t->before |= UINT64_C(1) << i;
	}
	return 0;
}
