/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* kernels.ptx, as text. SERVER_PTX: its path, from the build. */
extern const char server_ptx[];
__asm__(".section .rodata\n"
	".type server_ptx, @object\n"
	"server_ptx: .incbin \"" SERVER_PTX "\"\n"
	".byte 0\n"
	".size server_ptx, . - server_ptx\n"
	".previous");

const char *kernels_load(struct kernels *k, const void *image)
{
	CUmodule module;

	CU(cuModuleLoadData(&module, image ? image : server_ptx));
	for (unsigned i = 0; i < CONV_N_VERSIONS; i++)
		CU(cuModuleGetFunction(&k->conv[i], module, version_names[i]));
	CU(cuModuleGetFunction(&k->finish, module, "net_finish"));
	CU(cuModuleGetFunction(&k->pool, module, "net_pool"));
	CU(cuModuleGetFunction(&k->mean, module, "net_mean"));
	CU(cuModuleGetFunction(&k->input, module, "net_input"));
	return NULL;
}

static uint32_t scramble(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

/* So that what goes through many layers neither grows nor fades: of as many inputs as a layer has,
 * each half of the time cut off. */
static void make_layer(const struct layer *l, float *all, uint32_t *state)
{
	uint64_t inputs = (uint64_t)l->shape.kernel * l->shape.kernel * l->shape.inputs;
	float scale = sqrtf(6.0f / (float)inputs) / 2147483648.0f;
	float *w = all + l->weights, *bias = all + l->bias;

	for (uint64_t i = 0; i < inputs * l->shape.outputs; i++)
		w[i] = (float)(int32_t)scramble(state) * scale;
	for (unsigned i = 0; i < l->shape.outputs; i++)
		bias[i] = (float)(int32_t)scramble(state) / 2147483648.0f / 16.0f;
}

static const char *make_weights(struct model *m)
{
	float *all = malloc(m->net.weights * sizeof(float));
	const char *failed = NULL;
	uint32_t state = 1;
	int rc;

	if (!all)
		return "out of memory";
	for (unsigned i = 0; i < m->net.layers; i++)
		if (m->net.layer[i].kind == LAYER_CONV)
			make_layer(&m->net.layer[i], all, &state);
	rc = cu.cuMemcpyHtoD_v2(m->weights, all, m->net.weights * sizeof(float));
	/* It returns before all of it is there; other streams would not wait. */
	rc = rc ? rc : cu.cuStreamSynchronize(NULL);
	if (rc)
		failed = cu_wrong("cuMemcpyHtoD_v2", rc);
	free(all);
	return failed;
}

static const char *make_room(struct room *r, const struct net *n)
{
	CU(cuMemAlloc_v2(&r->part, n->part * sizeof(float)));
	CU(cuMemAlloc_v2(&r->input, n->input));
	for (int i = 0; i < NET_BUFFERS; i++)
		if (n->buffer[i])
			CU(cuMemAlloc_v2(&r->buffer[i], n->buffer[i] * sizeof(float)));
	CU(cuMemHostAlloc(&r->host_input, n->input, 0));
	CU(cuMemHostAlloc((void **)&r->host_output, n->output * sizeof(float), 0));
	return NULL;
}

const char *model_load(struct model *m, const struct kernels *k, unsigned rooms)
{
	m->kernels = k;
	CU(cuMemAlloc_v2(&m->weights, m->net.weights * sizeof(float)));
	for (unsigned i = 0; i < rooms; i++)
		TRY(make_room(&m->room[i], &m->net));
	return make_weights(m);
}

static void free_on_device(CUdeviceptr p)
{
	if (p)
		cu.cuMemFree_v2(p);
}

static void free_room(struct room *r)
{
	free_on_device(r->part);
	free_on_device(r->input);
	for (int i = 0; i < NET_BUFFERS; i++)
		free_on_device(r->buffer[i]);
	if (r->graph)
		cu.cuGraphExecDestroy(r->graph);
	if (r->host_input)
		cu.cuMemFreeHost(r->host_input);
	if (r->host_output)
		cu.cuMemFreeHost(r->host_output);
}

void model_free(struct model *m)
{
	free_on_device(m->weights);
	for (unsigned i = 0; i < MODEL_ROOMS; i++)
		free_room(&m->room[i]);
	memset(m, 0, sizeof(*m));
}

static unsigned blocks(uint64_t n, unsigned each)
{
	return (unsigned)((n + each - 1) / each);
}

static const char *each(CUfunction f, uint64_t n, CUstream s, void **params)
{
	CU(cuLaunchKernel(
		f, blocks(n, EACH_THREADS), 1, 1, EACH_THREADS, 1, 1, 0, s, params, NULL));
	return NULL;
}

unsigned model_conv_shape(const struct layer *l, unsigned kernel, unsigned grid[3])
{
#define TILE(name, rows, columns) {rows, columns},
	static const unsigned tile[CONV_N_VERSIONS][2] = {CONV_VERSIONS(TILE)};
#undef TILE

	grid[0] = blocks(l->rows, tile[kernel][0]);
	grid[1] = blocks(l->shape.outputs, tile[kernel][1]);
	grid[2] = l->parts;
	return CONV_THREADS_OF(tile[kernel][0], tile[kernel][1]);
}

const char *model_conv(
	const struct model *m, struct room *r, const struct layer *l, unsigned kernel, CUstream s)
{
	CUdeviceptr weights = m->weights + l->weights * sizeof(float);
	struct conv_shape shape = l->shape;
	unsigned grid[3], threads = model_conv_shape(l, kernel, grid);
	void *a[] = {&r->part, &r->buffer[l->from], &weights, &shape};

	CU(cuLaunchKernel(
		m->kernels->conv[kernel], grid[0], grid[1], grid[2], threads, 1, 1, 0, s, a, NULL));
	return NULL;
}

static const char *run_conv(struct model *m, const struct launcher *how, unsigned i, CUstream s)
{
	const struct layer *l = &m->net.layer[i];
	struct room *r = &m->room[how->room];
	CUdeviceptr bias = m->weights + l->bias * sizeof(float);
	CUdeviceptr residual = l->residual == NET_NONE ? 0 : r->buffer[l->residual];
	struct finish_shape finish = {.count = (unsigned)(l->rows * l->shape.outputs),
		.outputs = l->shape.outputs,
		.parts = l->parts,
		.relu = l->relu};
	void *b[] = {&r->buffer[l->to], &r->part, &bias, &residual, &finish};
	unsigned kernel = versions_choose(&m->versions[i], how->chooses ? s : NULL, how->block_ns);

	TRY(model_conv(m, r, l, kernel, s));
	atomic_fetch_add_explicit(&m->launched[kernel], 1, memory_order_relaxed);
	return each(m->kernels->finish, finish.count, s, b);
}

static const char *run_layer(struct model *m, const struct launcher *how, unsigned i, CUstream s)
{
	const struct layer *l = &m->net.layer[i];
	struct room *r = &m->room[how->room];
	struct pool_shape shape = {
		l->shape.batch, l->shape.height, l->shape.width, l->shape.inputs};
	void *params[] = {&r->buffer[l->to], &r->buffer[l->from], &shape};

	if (l->kind == LAYER_CONV)
		return run_conv(m, how, i, s);
	return each(l->kind == LAYER_POOL ? m->kernels->pool : m->kernels->mean,
		l->rows * shape.channels, s, params);
}

static const char *run_input(const struct model *m, struct room *r, uint32_t picture, CUstream s)
{
	struct input_shape shape = {(unsigned)m->net.input, m->net.o.batch};
	void *params[] = {&r->buffer[0], &r->input, &shape};
	uint32_t state = picture * 2654435761u + 1, *words = r->host_input;
	unsigned char *bytes = r->host_input;

	state = state ? state : 1;
	for (size_t i = 0; i < m->net.input / 4; i++)
		words[i] = scramble(&state);
	for (size_t i = m->net.input / 4 * 4; i < m->net.input; i++)
		bytes[i] = (unsigned char)scramble(&state);
	CU(cuMemcpyHtoDAsync_v2(r->input, r->host_input, m->net.input, s));
	return each(m->kernels->input, m->net.input * m->net.o.batch, s, params);
}

static void read_answer(const struct model *m, const struct room *r, struct answer *a)
{
	const unsigned char *bytes = (const unsigned char *)r->host_output;
	uint64_t word;

	a->class = 0;
	for (unsigned i = 1; i < NET_CLASSES; i++)
		if (r->host_output[i] > r->host_output[a->class])
			a->class = i;
	a->digest = 14695981039346656037u;
	for (size_t i = 0; i + sizeof(word) <= m->net.output * sizeof(float); i += sizeof(word)) {
		memcpy(&word, bytes + i, sizeof(word));
		a->digest = (a->digest ^ word) * 1099511628211u;
		a->digest ^= a->digest >> 29;
	}
}

static const char *run_layers(struct model *m, const struct launcher *l)
{
	CUstream s;

	for (unsigned i = 0; i < m->net.layers; i++) {
		TRY(l->stream(l->ctx, &s));
		TRY(run_layer(m, l, i, s));
	}
	return NULL;
}

/* What is launched for the first time may have to be loaded: not while a stream is captured. */
static const char *make_graph(struct model *m, const struct launcher *l, CUstream s)
{
	struct room *r = &m->room[l->room];
	const char *failed;
	CUgraph graph;
	int rc;

	CU(cuStreamBeginCapture_v2(s, CAPTURE_MODE_THREAD_LOCAL));
	failed = run_layers(m, l);
	CU(cuStreamEndCapture(s, &graph));
	if (failed) {
		cu.cuGraphDestroy(graph);
		return failed;
	}
	rc = cu.cuGraphInstantiateWithFlags(&r->graph, graph, 0);
	cu.cuGraphDestroy(graph);
	return rc ? cu_wrong("cuGraphInstantiateWithFlags", rc) : NULL;
}

static const char *run_all(struct model *m, const struct launcher *l, CUstream s)
{
	struct room *r = &m->room[l->room];

	if (!l->graph || !r->warm) {
		r->warm = true;
		return run_layers(m, l);
	}
	if (!r->graph)
		TRY(make_graph(m, l, s));
	CU(cuGraphLaunch(r->graph, s));
	return NULL;
}

static const char *wait_for(const struct launcher *l, CUstream s)
{
	if (!l->asleep) {
		CU(cuStreamSynchronize(s));
		return NULL;
	}
	CU(cuEventRecord(l->asleep, s));
	CU(cuEventSynchronize(l->asleep));
	return NULL;
}

const char *model_run(
	struct model *m, const struct launcher *l, uint32_t picture, struct answer *answer)
{
	struct room *r = &m->room[l->room];
	CUstream s;

	TRY(l->stream(l->ctx, &s));
	TRY(run_input(m, r, picture, s));
	TRY(run_all(m, l, s));
	TRY(l->stream(l->ctx, &s));
	CU(cuMemcpyDtoHAsync_v2(
		r->host_output, r->buffer[m->net.last], m->net.output * sizeof(float), s));
	TRY(wait_for(l, s));
	read_answer(m, r, answer);
	return NULL;
}
