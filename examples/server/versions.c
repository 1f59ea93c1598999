/* SPDX-License-Identifier: Apache-2.0 */
#define FERMATA_CUDA_OPTIONAL /* nothing is linked */
#include "versions.h"
#include "model.h"
#include <string.h>

enum { SHARED_BYTES = 1, NUMBER_OF_REGS = 4 }; /* CUfunction_attribute */
enum { ROUNDS = 3, LAUNCHES = 4 }; /* launches behind each other hide their beginnings */

#define NAME(name, rows, columns) #name,
const char *const version_names[CONV_N_VERSIONS] = {CONV_VERSIONS(NAME)};
#undef NAME

int versions_find(const char *name)
{
	for (int i = 0; i < CONV_N_VERSIONS; i++)
		if (!strcmp(name, version_names[i]))
			return i;
	return -1;
}

void versions_set(struct model *m, unsigned kernel)
{
	for (unsigned i = 0; i < m->net.layers; i++)
		if (m->net.layer[i].kind == LAYER_CONV)
			m->versions[i] = (struct versions){.n = 1, .kernel = {kernel}};
}

struct clock {
	CUstream stream;
	CUevent start, end;
};

static const char *time_one(const struct clock *c, struct model *m, const struct layer *l,
	unsigned kernel, uint64_t *ns)
{
	float ms = 0;

	TRY(model_conv(m, &m->room[0], l, kernel, c->stream));
	*ns = UINT64_MAX;
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t took;

		CU(cuEventRecord(c->start, c->stream));
		for (int i = 0; i < LAUNCHES; i++)
			TRY(model_conv(m, &m->room[0], l, kernel, c->stream));
		CU(cuEventRecord(c->end, c->stream));
		CU(cuEventSynchronize(c->end));
		CU(cuEventElapsedTime(&ms, c->start, c->end));
		took = (uint64_t)((double)ms * 1e6 / LAUNCHES);
		*ns = took < *ns ? took : *ns;
	}
	*ns = *ns ? *ns : 1;
	return NULL;
}

static const char *measure(const struct clock *c, struct model *m, const struct layer *l,
	unsigned kernel, unsigned sms, struct fm_cuda_version *v)
{
	CUfunction f = m->kernels->conv[kernel];
	unsigned grid[3], threads = model_conv_shape(l, kernel, grid);
	int registers, shared, each;
	uint64_t waves;

	CU(cuFuncGetAttribute(&registers, NUMBER_OF_REGS, f));
	CU(cuFuncGetAttribute(&shared, SHARED_BYTES, f));
	CU(cuOccupancyMaxActiveBlocksPerMultiprocessor(&each, f, (int)threads, 0));
	*v = (struct fm_cuda_version){.registers = (unsigned)registers, /* Fermata */
		.shared = (unsigned)shared,
		.threads = threads,
		.blocks = grid[0] * grid[1] * grid[2],
		.per_multiprocessor = each > 0 ? (unsigned)each : 1};
	TRY(time_one(c, m, l, kernel, &v->time_ns));
	waves = (v->blocks - 1) / ((uint64_t)v->per_multiprocessor * sms) + 1;
	v->block_ns = v->time_ns / waves;
	return NULL;
}

/* Keeps those that no other one dominates. */
static const char *prune(struct versions *v)
{
	bool kept[CONV_N_VERSIONS];
	unsigned n = 0;
	int rc = fm_cuda_prune(v->version, v->n, kept); /* Fermata */

	if (rc < 0)
		return wrong("fm_cuda_prune: %s; --versions needs Fermata in the process",
			strerror(-rc));
	for (unsigned i = 0; i < v->n; i++) {
		if (!kept[i])
			continue;
		v->version[n] = v->version[i];
		v->kernel[n++] = v->kernel[i];
	}
	v->n = n;
	for (unsigned i = 0; i < n; i++)
		if (v->version[i].time_ns < v->version[v->fastest].time_ns)
			v->fastest = i;
	return NULL;
}

static const char *measure_layers(const struct clock *c, struct model *m, unsigned sms)
{
	for (unsigned i = 0; i < m->net.layers; i++) {
		struct versions *v = &m->versions[i];

		if (m->net.layer[i].kind != LAYER_CONV)
			continue;
		for (unsigned kernel = 0; kernel < CONV_N_VERSIONS; kernel++) {
			v->kernel[v->n] = kernel;
			TRY(measure(c, m, &m->net.layer[i], kernel, sms, &v->version[v->n++]));
		}
		TRY(prune(v));
	}
	return NULL;
}

const char *versions_measure(struct model *m, const struct device *d)
{
	struct clock c;
	const char *failed;

	CU(cuStreamCreateWithPriority(&c.stream, STREAM_NON_BLOCKING, d->greatest));
	CU(cuEventCreate(&c.start, 0));
	CU(cuEventCreate(&c.end, 0));
	failed = measure_layers(&c, m, (unsigned)d->sms);
	CU(cuStreamSynchronize(c.stream));
	cu.cuEventDestroy_v2(c.start);
	cu.cuEventDestroy_v2(c.end);
	cu.cuStreamDestroy_v2(c.stream);
	return failed;
}

uint64_t versions_kernel_ns(const struct model *m)
{
	uint64_t sum = 0, n = 0;

	for (unsigned i = 0; i < m->net.layers; i++) {
		const struct versions *v = &m->versions[i];

		sum += v->n ? v->version[v->fastest].time_ns : 0;
		n += v->n > 0;
	}
	return n ? sum / n : 0;
}

/* What waits runs later, and as a rule on the whole device. */
unsigned versions_choose(const struct versions *v, CUstream s, uint64_t block_ns)
{
	struct fm_cuda_room room = {.size = sizeof(room)}; /* Fermata */
	int i = -1;

	if (!v->n)
		return 0;
	if (s && !fm_cuda_room(s, &room) && room.urgent)            /* Fermata */
		i = fm_cuda_fit(v->version, v->n, &room, block_ns); /* Fermata */
	return v->kernel[i < 0 ? v->fastest : (unsigned)i];
}
