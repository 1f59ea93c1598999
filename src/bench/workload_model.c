/* SPDX-License-Identifier: Apache-2.0 */
/* Models: the member "models" of a workload, and those that are built in. */
#include "base/clock.h"
#include "load/load.h"
#include "read.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define KERNEL_US 10000000.0 /* ten seconds */
#define BYTES     (1 << 30)

static int add_model(struct bench_place *p, const struct bench_model *m)
{
	struct bench_workload *w = p->w;
	struct bench_model *more = realloc(w->model, (w->models + 1) * sizeof(*more));

	if (!more)
		return fm_err_set(p->j.err, -ENOMEM, "out of memory");
	w->model = more;
	w->model[w->models++] = *m;
	return 0;
}

static int add_kernel(struct bench_place *p, const struct fm_bench_kernel *k)
{
	if (p->w->kernels == BENCH_KERNELS)
		return fm_json_bad(
			&p->j, NULL, "more than %d kernels in all models", BENCH_KERNELS);
	p->w->kernel[p->w->kernels++] = *k;
	return 0;
}

static int read_kernel(struct bench_place *p, const json_t *from)
{
	static const char *const known[] = {"count", "us", "blocks", NULL};
	int64_t count = 1, blocks = 0;
	double us = 0;
	int rc;

	if (fm_json_object(&p->j, from, known))
		return -EINVAL;
	rc = fm_json_real(&p->j, from, "us", 0.001, KERNEL_US, true, &us);
	rc = rc ? rc : fm_json_whole(&p->j, from, "count", 1, BENCH_COUNT, false, &count);
	rc = rc ? rc : fm_json_whole(&p->j, from, "blocks", 0, LOAD_BLOCKS, false, &blocks);
	return rc ? rc
		  : add_kernel(p, &(struct fm_bench_kernel){.ns = (uint64_t)(us * FM_US + 0.5),
					  .count = (uint32_t)count,
					  .blocks = (uint32_t)blocks});
}

static int read_model(struct bench_place *p, const char *name, const json_t *from)
{
	static const char *const known[] = {"kernels", "input_bytes", "output_bytes", NULL};
	const json_t *list = json_object_get(from, "kernels"), *one;
	struct bench_model m = {.name = name, .batch = 1, .kernel = p->w->kernels};
	int64_t in = 0, out = 0;
	size_t k;
	int rc;

	if (fm_json_object(&p->j, from, known))
		return -EINVAL;
	rc = fm_json_whole(&p->j, from, "input_bytes", 0, BYTES, false, &in);
	rc = rc ? rc : fm_json_whole(&p->j, from, "output_bytes", 0, BYTES, false, &out);
	if (rc)
		return rc;
	if (!json_is_array(list) || !json_array_size(list))
		return fm_json_bad(&p->j, "kernels", "is missing, empty or not an array");
	json_array_foreach (list, k, one) {
		fm_json_at(&p->j, "models.%.60s.kernels[%zu]", name, k);
		rc = read_kernel(p, one);
		if (rc)
			return rc;
	}
	m.input_bytes = (uint64_t)in;
	m.output_bytes = (uint64_t)out;
	m.kernels = p->w->kernels - m.kernel;
	return add_model(p, &m);
}

int bench_read_models(struct bench_place *p)
{
	const json_t *models = json_object_get(p->w->root, "models");
	const char *name;
	json_t *one;
	int rc;

	if (models && !json_is_object(models))
		return fm_json_bad(&p->j, "models", "is not an object");
	json_object_foreach ((json_t *)models, name, one) {
		fm_json_at(&p->j, "models.%.60s", name);
		rc = read_model(p, name, one);
		if (rc)
			return rc;
	}
	fm_json_at(&p->j, "%s", "");
	return 0;
}

static int add_built_in(struct bench_place *p, const struct bench_built_in *b)
{
	struct bench_model m = {.name = b->name,
		.built_in = true,
		.batch = 1,
		.input_bytes = b->input_bytes,
		.output_bytes = b->output_bytes,
		.kernel = p->w->kernels};

	for (size_t i = 0; i < sizeof(b->part) / sizeof(b->part[0]) && b->part[i].count; i++) {
		int rc = add_kernel(p, &(struct fm_bench_kernel){.ns = b->part[i].us * FM_US,
					       .count = b->part[i].count});

		if (rc)
			return rc;
	}
	m.kernels = p->w->kernels - m.kernel;
	return add_model(p, &m);
}

static int add_batch(struct bench_place *p, uint32_t of, uint32_t batch)
{
	struct bench_model m = p->w->model[of];
	uint32_t from = m.kernel;

	m.batch = batch;
	m.input_bytes *= batch;
	m.output_bytes *= batch;
	m.kernel = p->w->kernels;
	for (uint32_t i = 0; i < m.kernels; i++) {
		struct fm_bench_kernel k = p->w->kernel[from + i];
		int rc;

		k.ns *= batch;
		rc = add_kernel(p, &k);
		if (rc)
			return rc;
	}
	return add_model(p, &m);
}

static bool find(const struct bench_workload *w, const char *name, bool built_in, uint32_t batch,
	uint32_t *index)
{
	for (*index = 0; *index < w->models; ++*index) {
		const struct bench_model *m = &w->model[*index];

		if (m->built_in == built_in && m->batch == batch && !strcmp(m->name, name))
			return true;
	}
	return false;
}

/* For batches of one: of the workload, else built in, else the driver's business. */
static int find_single(struct bench_place *p, const char *key, const char *name, uint32_t *index)
{
	const struct bench_built_in *b = bench_built_in_find(name);
	int rc;

	if (find(p->w, name, false, 1, index) || (b && find(p->w, b->name, true, 1, index)))
		return 0;
	if (!b && !p->w->any_model) {
		fm_json_bad(&p->j, key, "no model '%.60s'", name);
		fm_err_hint(p->j.err,
			"give it in \"models\", as fermata-lab-bench(1) tells, or name one "
			"that is built in");
		return -EINVAL;
	}
	rc = b ? add_built_in(p, b) : add_model(p, &(struct bench_model){.name = name, .batch = 1});
	*index = p->w->models - 1;
	return rc;
}

int bench_find_model(
	struct bench_place *p, const char *key, const char *name, uint32_t batch, uint32_t *index)
{
	const struct bench_model *one;
	int rc = find_single(p, key, name, index);

	if (rc || batch == 1)
		return rc;
	one = &p->w->model[*index];
	if (find(p->w, one->name, one->built_in, batch, index))
		return 0;
	find(p->w, one->name, one->built_in, 1, index);
	rc = add_batch(p, *index, batch);
	*index = p->w->models - 1;
	return rc;
}
