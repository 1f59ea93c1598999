/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver of one's own for fermata-lab-bench(1): the processor, in the client's thread, with
 * networks of fully connected layers. The workload says which: of a client whose model_name is
 * "mlp:WIDTH: LAYERS" each request is one pass of `batch_size` vectors through so many layers. What
 * the built-in drivers make of a model, kernels of a given length, this one does not look at.
 *
 *     cc -O2 -shared -fPIC cpu.c -o cpu.so $(pkg-config --cflags fermata)
 *     fermata-lab bench --native --driver ./cpu.so mlp.json
 *
 * A driver for a GPU has the same parts: open() loads the model and makes a queue, each phase ends
 * when the device has done it.
 */
#include <fermata/bench.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH_MAX  4096u
#define LAYERS_MAX 64u

struct client {
	unsigned width, layers, batch;
	float *weights; /* of one layer, used by all */
	float *input, *in, *out, *output;
};

static void mlp_close(void *client)
{
	struct client *c = client;

	free(c->weights);
	free(c->input);
	free(c->in);
	free(c->out);
	free(c->output);
	free(c);
}

/* Weights that keep values where they are: each row's sum is one. */
static const char *prepare(struct client *c)
{
	size_t vector = (size_t)c->width * c->batch;

	c->weights = malloc((size_t)c->width * c->width * sizeof(float));
	c->input = malloc(vector * sizeof(float));
	c->in = malloc(vector * sizeof(float));
	c->out = malloc(vector * sizeof(float));
	c->output = malloc(vector * sizeof(float));
	if (!c->weights || !c->input || !c->in || !c->out || !c->output)
		return "out of memory";
	for (size_t i = 0; i < (size_t)c->width * c->width; i++)
		c->weights[i] = 1.0f / (float)c->width;
	for (size_t i = 0; i < vector; i++)
		c->input[i] = 1;
	return NULL;
}

static const char *mlp_open(const struct fm_bench_driver *self, const struct fm_bench_open *how,
	void **client, struct fm_bench_device *device)
{
	struct client *c;
	const char *wrong;

	(void)self;
	if (how->device != 0)
		return "there is one processor: device 0";
	c = calloc(1, sizeof(*c));
	if (!c)
		return "out of memory";
	c->batch = how->model->batch;
	if (sscanf(how->model->name, "mlp:%u:%u", &c->width, &c->layers) != 2 || !c->width ||
		c->width > WIDTH_MAX || !c->layers || c->layers > LAYERS_MAX)
		wrong = "model_name is not mlp:WIDTH:LAYERS";
	else
		wrong = prepare(c);
	if (wrong) {
		mlp_close(c);
		return wrong;
	}
	strcpy(device->name, "processor");
	strcpy(device->platform, "fully connected layers");
	strcpy(device->driver, "1");
	*client = c;
	return NULL;
}

static void layer(struct client *c)
{
	float *last = c->in;

	for (unsigned b = 0; b < c->batch; b++)
		for (unsigned row = 0; row < c->width; row++) {
			const float *w = c->weights + (size_t)row * c->width;
			const float *x = c->in + (size_t)b * c->width;
			float sum = 0;

			for (unsigned i = 0; i < c->width; i++)
				sum += w[i] * x[i];
			c->out[(size_t)b * c->width + row] = sum;
		}
	c->in = c->out;
	c->out = last;
}

/* Ones stay ones, whatever the depth. */
static const char *check(const struct client *c)
{
	for (size_t i = 0; i < (size_t)c->width * c->batch; i++)
		if (c->output[i] < 0.99f || c->output[i] > 1.01f)
			return "the network computes wrongly";
	return NULL;
}

static const char *mlp_phase(void *client, enum fm_bench_phase phase)
{
	struct client *c = client;
	size_t bytes = (size_t)c->width * c->batch * sizeof(float);

	switch (phase) {
	case FM_BENCH_COPY_INPUT:
		memcpy(c->in, c->input, bytes);
		return NULL;
	case FM_BENCH_INFER:
		for (unsigned i = 0; i < c->layers; i++)
			layer(c);
		return NULL;
	case FM_BENCH_COPY_OUTPUT:
		memcpy(c->output, c->in, bytes);
		return NULL;
	case FM_BENCH_POSTPROCESS:
		return check(c);
	default:
		return NULL;
	}
}

const struct fm_bench_driver *fm_bench_driver(unsigned abi)
{
	static const struct fm_bench_driver driver = {.size = sizeof(driver),
		.abi = FM_BENCH_ABI,
		.name = "cpu",
		.open = mlp_open,
		.phase = mlp_phase,
		.close = mlp_close};

	return abi == FM_BENCH_ABI ? &driver : NULL;
}
