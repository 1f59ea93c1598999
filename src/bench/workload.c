/* SPDX-License-Identifier: Apache-2.0 */
#include "workload.h"
#include "read.h"
#include <stdlib.h>
#include <string.h>

static int by_id(const void *a, const void *b)
{
	return strcmp(((const struct bench_task *)a)->id, ((const struct bench_task *)b)->id);
}

static int check_ids(const struct bench_workload *w, struct bench_place *p)
{
	for (uint32_t i = 1; i < w->tasks; i++)
		if (!strcmp(w->task[i - 1].id, w->task[i].id))
			return fm_json_bad(&p->j, "tasks", "two are called '%s'", w->task[i].id);
	return 0;
}

/* Nobody may wait for itself, by whatever way: take away who waits for nobody, until none is left.
 */
static int check_circles(const struct bench_workload *w, const struct bench_place *p)
{
	uint64_t left = w->tasks < 64 ? (UINT64_C(1) << w->tasks) - 1 : UINT64_MAX;

	for (bool found = true; found;) {
		found = false;
		for (uint32_t i = 0; i < w->tasks; i++)
			if (left >> i & 1 && !(w->task[i].before & left)) {
				left &= ~(UINT64_C(1) << i);
				found = true;
			}
	}
	return left ? fm_json_bad(&p->j, "tasks", "task '%s' waits for itself, or for who does",
			      w->task[__builtin_ctzll(left)].id)
		    : 0;
}

/* Where the file has it. */
static size_t place_of(const json_t *list, const char *id)
{
	size_t k = 0;

	while (strcmp(json_string_value(json_object_get(json_array_get(list, k), "id")), id))
		k++;
	return k;
}

static int read_dependencies(struct bench_workload *w, struct bench_place *p, const json_t *list)
{
	for (uint32_t i = 0; i < w->tasks; i++) {
		size_t k = place_of(list, w->task[i].id);
		int rc;

		fm_json_at(&p->j, "tasks[%zu].load", k);
		rc = bench_read_before(p, json_array_get(list, k), &w->task[i]);
		if (rc)
			return rc;
	}
	fm_json_at(&p->j, "%s", "");
	return check_circles(w, p);
}

static int read_tasks(struct bench_workload *w, struct bench_place *p)
{
	const json_t *list = json_object_get(w->root, "tasks");
	json_t *one;
	size_t k;
	int rc;

	if (!json_is_array(list) || !json_array_size(list))
		return fm_json_bad(&p->j, "tasks", "is missing, empty or not an array");
	if (json_array_size(list) > BENCH_TASKS)
		return fm_json_bad(&p->j, "tasks", "has more than %d", BENCH_TASKS);
	json_array_foreach (list, k, one) {
		fm_json_at(&p->j, "tasks[%zu]", k);
		rc = bench_read_task(p, one, &w->task[w->tasks++]);
		if (rc)
			return rc;
	}
	fm_json_at(&p->j, "%s", "");
	qsort(w->task, w->tasks, sizeof(w->task[0]), by_id);
	rc = check_ids(w, p);
	return rc ? rc : read_dependencies(w, p, list);
}

static int read_root(struct bench_place *p)
{
	static const char *const known[] = {"time", "tasks", "models", NULL};
	struct bench_workload *w = p->w;
	int rc = fm_json_object(&p->j, w->root, known);

	rc = rc ? rc
		: fm_json_real(&p->j, w->root, "time", 0.001, BENCH_SECONDS, true, &w->seconds);
	rc = rc ? rc : bench_read_models(p);
	return rc ? rc : read_tasks(w, p);
}

static struct bench_place place(struct bench_workload *w, const char *file, struct fm_err *err)
{
	return (struct bench_place){.j = {.file = file,
					    .hint = "fermata-lab-bench(1) describes the file",
					    .unknown = w->unknown,
					    .err = err},
		.w = w};
}

static int finish(struct bench_workload *w, int rc)
{
	if (rc)
		bench_workload_free(w);
	return rc;
}

int bench_workload_parse(struct bench_workload *w, const char *name, const char *text, size_t size,
	bool any_model, struct fm_err *err)
{
	struct bench_place p = place(w, name, err);
	int rc;

	*w = (struct bench_workload){.any_model = any_model};
	rc = fm_json_parse(&p.j, text, size, &w->root);
	return finish(w, rc ? rc : read_root(&p));
}

static int load_json(struct fm_json *j, json_t **root)
{
	if (strcmp(j->file, "-"))
		return fm_json_load(j, root);
	j->file = "standard input";
	return fm_json_read(j, stdin, root);
}

/* What the workload itself says of a model counts. */
static int merge_models(struct bench_workload *w, const char *file, struct fm_err *err)
{
	struct bench_place p = place(w, file, err);
	json_t *more, *own = json_object_get(w->root, "models");
	int rc = load_json(&p.j, &more);

	if (!rc && (own ? json_object_update_missing(own, more)
			: json_object_set(w->root, "models", more)))
		rc = fm_json_bad(&p.j, NULL, "the workload's models are not an object");
	json_decref(more);
	return rc;
}

int bench_workload_load(struct bench_workload *w, const char *file, const char *models,
	bool any_model, struct fm_err *err)
{
	struct bench_place p = place(w, file, err);
	int rc;

	*w = (struct bench_workload){.any_model = any_model};
	rc = load_json(&p.j, &w->root);
	if (!rc && models)
		rc = merge_models(w, models, err);
	return finish(w, rc ? rc : read_root(&p));
}

void bench_workload_free(struct bench_workload *w)
{
	json_decref(w->root);
	for (uint32_t i = 0; i < w->tasks; i++) {
		free(w->task[i].trace);
		free(w->task[i].client);
	}
	free(w->model);
	*w = (struct bench_workload){0};
}
