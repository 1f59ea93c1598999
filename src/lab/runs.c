/* SPDX-License-Identifier: Apache-2.0 */
/* Reads runs from files. Times of jobs are put into the buckets of fm_hist in both cases, so that
 * both runs have the same edges. */
#include "runs.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hist.h"
#include "base/util.h"
#include "cmd/trace_view.h"
#include "model/recorded.h"
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define GROUPS_MAX WORKLOAD_GROUPS
#define FILE_MAX   (INT64_C(1) << 30)

static int no_memory(const char *path, struct fm_err *err)
{
	return fm_err_set(err, -ENOMEM, "%.150s: out of memory", path);
}

static int not_a_run(const char *path, const char *what, struct fm_err *err)
{
	fm_err_set(err, -EINVAL, "%.150s: %s", path, what);
	return fm_err_hint(err, "runs are what `fermata-lab sim --json' prints, and files of "
				"`fermata trace record'");
}

void run_free(struct run *r)
{
	for (size_t i = 0; i < r->groups; i++) {
		free(r->group[i].name);
		free(r->group[i].sample);
	}
	free(r->group);
	*r = (struct run){0};
}

const struct run_group *run_find(const struct run *r, const char *name)
{
	for (size_t i = 0; i < r->groups; i++)
		if (!strcmp(r->group[i].name, name))
			return &r->group[i];
	return NULL;
}

uint64_t run_quantile(const struct run_group *g, double q)
{
	uint64_t rank = FM_MAX((uint64_t)(q * (double)g->jobs + 0.5), UINT64_C(1)), seen = 0;

	for (size_t i = 0; i < g->samples; i++) {
		seen += g->sample[i].jobs;
		if (seen >= rank)
			return g->sample[i].ns;
	}
	return g->samples ? g->sample[g->samples - 1].ns : 0;
}

static bool take_histogram(struct run_group *g, const struct fm_hist *h)
{
	uint64_t jobs, upto;

	g->sampled = true;
	g->jobs = h->count;
	g->sample = calloc(FM_HIST_BUCKETS, sizeof(*g->sample));
	if (!g->sample)
		return false;
	for (unsigned i = 0; i < FM_HIST_BUCKETS && h->count; i++) {
		jobs = fm_hist_bucket(h, i, &upto);
		if (jobs)
			g->sample[g->samples++] = (struct run_sample){upto, jobs};
	}
	return true;
}

/* Only jobs whose beginning and end were both seen. */
static bool group_of_trace(struct run_group *to, const struct recorded_group *g, struct fm_hist *h)
{
	fm_hist_reset(h);
	*to = (struct run_group){.name = strdup(g->name), .preemptions = g->preemptions};
	for (size_t i = 0; i < g->jobs; i++) {
		const struct recorded_job *j = &g->job[i];

		to->served = fm_add_sat(to->served, j->length);
		to->left += j->end == FM_NEVER;
		if (j->before || j->end == FM_NEVER)
			continue;
		fm_hist_add(h, j->end - j->at);
		to->late += j->deadline && j->end - j->at > j->deadline;
	}
	return to->name && take_histogram(to, h);
}

static int of_recorded(
	struct run *r, const struct recorded *rec, const char *path, struct fm_err *err)
{
	FM_CLEAN_FREE struct fm_hist *h = malloc(sizeof(*h));

	r->duration = FM_MAX(rec->end - rec->begin, UINT64_C(1));
	r->lost = rec->lost;
	r->seconds = (double)r->duration / FM_S;
	r->device_time = (double)r->duration * rec->devices;
	snprintf(r->policy, sizeof(r->policy), "%s", rec->policy);
	r->group = calloc(rec->groups + 1, sizeof(*r->group));
	if (!h || !r->group)
		return no_memory(path, err);
	for (uint32_t i = 0; i < rec->groups; i++) {
		r->groups++;
		if (!group_of_trace(&r->group[i], &rec->group[i], h))
			return no_memory(path, err);
	}
	return 0;
}

static int open_trace(struct run *r, const char *path, struct fm_err *err)
{
	RECORDED_CLEAN struct recorded rec = {0};
	struct fm_trace_file t;
	int rc = fm_trace_file_open(&t, path, err);

	if (rc)
		return rc;
	r->cut = t.cut_off_at || !t.ended;
	rc = recorded_read(&rec, &t, 0, err);
	fm_trace_file_close(&t);
	return rc ? rc : of_recorded(r, &rec, path, err);
}

/* A whole number of at least 0; false: it is not one. */
static bool count_of(const json_t *o, const char *key, uint64_t *v)
{
	const json_t *n = json_object_get(o, key);

	*v = json_is_integer(n) ? (uint64_t)json_integer_value(n) : 0;
	return json_is_integer(n) && json_integer_value(n) >= 0;
}

static int by_time(const void *a, const void *b)
{
	const struct run_sample *x = a, *y = b;

	return x->ns < y->ns ? -1 : x->ns > y->ns;
}

static bool sample_of(struct run_sample *s, const char *key, const json_t *jobs)
{
	char *end;

	errno = 0;
	s->ns = strtoull(key, &end, 10);
	s->jobs = json_is_integer(jobs) ? (uint64_t)json_integer_value(jobs) : 0;
	return isdigit((unsigned char)*key) && !*end && !errno && s->jobs >= 1 &&
	       s->jobs <= UINT32_MAX;
}

/* false: it is not one, or there is no memory. */
static bool samples_of(struct run_group *g, json_t *o)
{
	const char *key;
	uint64_t sum = 0;
	json_t *jobs;

	g->sample = calloc(json_object_size(o) + 1, sizeof(*g->sample));
	if (!g->sample || json_object_size(o) > FM_HIST_BUCKETS)
		return false;
	json_object_foreach (o, key, jobs) {
		if (!sample_of(&g->sample[g->samples], key, jobs))
			return false;
		sum += g->sample[g->samples++].jobs;
	}
	qsort(g->sample, g->samples, sizeof(*g->sample), by_time);
	g->sampled = true;
	return sum == g->jobs;
}

static bool group_of_json(struct run_group *g, const json_t *o)
{
	const char *name = json_string_value(json_object_get(o, "name"));
	json_t *histogram = json_object_get(o, "response_histogram");

	g->name = name ? strdup(name) : NULL;
	if (!g->name || !count_of(o, "jobs", &g->jobs) || !count_of(o, "late", &g->late) ||
		!count_of(o, "preemptions", &g->preemptions) || !count_of(o, "left", &g->left) ||
		!count_of(o, "served_ns", &g->served))
		return false;
	return !histogram || samples_of(g, histogram);
}

static bool devices_of_json(struct run *r, const json_t *devices)
{
	uint64_t time;

	for (size_t i = 0; i < json_array_size(devices); i++) {
		if (!count_of(json_array_get(devices, i), "time_ns", &time))
			return false;
		r->device_time += (double)time;
	}
	return json_is_array(devices);
}

int run_parse(struct run *r, const json_t *o, const char *path, struct fm_err *err)
{
	const json_t *groups = json_object_get(o, "groups");
	const char *policy = json_string_value(json_object_get(o, "policy"));
	uint64_t machines = 0, duration = 0, warmup = 0;
	size_t n = json_array_size(groups);

	r->simulated = true;
	snprintf(r->policy, sizeof(r->policy), "%s", policy ? policy : "");
	if (!policy || !json_is_array(groups) || n > GROUPS_MAX ||
		!count_of(o, "duration_ns", &duration) || !count_of(o, "warmup_ns", &warmup) ||
		!count_of(o, "machines", &machines) || duration <= warmup || !machines ||
		!devices_of_json(r, json_object_get(o, "devices")))
		return not_a_run(path, "this is not the output of `fermata-lab sim --json'", err);
	r->duration = duration - warmup;
	r->seconds = (double)r->duration / FM_S * (double)machines;
	r->group = calloc(n + 1, sizeof(*r->group));
	if (!r->group)
		return no_memory(path, err);
	for (size_t i = 0; i < n; i++) {
		r->groups++;
		if (!group_of_json(&r->group[i], json_array_get(groups, i)))
			return not_a_run(path,
				"a group that is not as `fermata-lab sim --json' prints it", err);
		for (size_t k = 0; k < i; k++)
			if (!strcmp(r->group[k].name, r->group[i].name))
				return not_a_run(path, "two groups of one name", err);
	}
	return 0;
}

static int open_json(struct run *r, FILE *f, const char *path, struct fm_err *err)
{
	json_error_t why;
	CLI_CLEAN_JSON json_t *o = json_loadf(f, JSON_REJECT_DUPLICATES, &why);

	if (o)
		return run_parse(r, o, path, err);
	fm_err_set(err, -EINVAL, "%.150s:%d: %.100s", path, why.line, why.text);
	return fm_err_hint(
		err, "a workload is no run: compare what `fermata-lab sim --json' makes of it");
}

int run_open(struct run *r, const char *path, struct fm_err *err)
{
	FM_CLEAN_FILE FILE *f = fopen(path, "re");
	char magic[sizeof(FM_TRACE_FILE_MAGIC)] = "";
	int rc = -errno;

	*r = (struct run){.path = path};
	if (!f)
		return fm_err_set(err, rc, "%.150s: %s", path, strerror(-rc));
	if (fseek(f, 0, SEEK_SET)) {
		rc = not_a_run(path, "this is not a regular file", err);
	} else if (fread(magic, sizeof(magic), 1, f) == 1 &&
		   !memcmp(magic, FM_TRACE_FILE_MAGIC, sizeof(magic))) {
		rc = open_trace(r, path, err);
	} else if (fseek(f, 0, SEEK_END) || ftell(f) > FILE_MAX || fseek(f, 0, SEEK_SET)) {
		rc = not_a_run(path, "this is no run", err);
	} else {
		rc = open_json(r, f, path, err);
	}
	if (rc)
		run_free(r);
	r->path = path;
	return rc;
}
