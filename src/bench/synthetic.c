/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The drivers that are built in: a request copies its input, launches the model's kernels one after
 * the other, waits for the last, and copies its output back.
 */
#include "base/util.h"
#include "driver.h"
#include "load/load.h"
#include <stdlib.h>

#define APIS 16

struct client {
	struct load load;
	const struct fm_bench_model *model;
};

struct synthetic {
	struct fm_bench_driver driver;
	const struct load_ops *load;
};

static void close_client(void *client)
{
	struct client *c = client;

	c->load.ops->close(&c->load);
	free(c);
}

static const char *open_client(const struct fm_bench_driver *self, const struct fm_bench_open *how,
	void **client, struct fm_bench_device *device)
{
	const struct synthetic *s = fm_container(self, struct synthetic, driver);
	struct client *c = calloc(1, sizeof(*c));
	const char *wrong;

	if (!c)
		return "out of memory";
	c->model = how->model;
	c->load = (struct load){.ops = s->load,
		.libfermata = how->libfermata,
		.group = how->group,
		.hint = how->hint,
		.hints = how->hints};
	wrong = s->load->open(&c->load, how->device);
	*device = c->load.about;
	*client = c;
	if (wrong) {
		close_client(c);
		*client = NULL;
	}
	return wrong;
}

static const char *calibrate(void *client, struct fm_bench_kernel *kernel, size_t n)
{
	struct client *c = client;
	const char *wrong = NULL;

	for (size_t i = 0; !wrong && i < n; i++) {
		struct fm_bench_kernel *k = &kernel[i];
		size_t same = 0;

		while (same < i && (kernel[same].ns != k->ns || kernel[same].blocks != k->blocks))
			same++;
		if (same == i) {
			wrong = load_size(&c->load, k->ns, k->blocks, &k->amount, &k->measured);
			continue;
		}
		k->amount = kernel[same].amount;
		k->measured = kernel[same].measured;
	}
	return wrong;
}

static const char *infer(struct client *c)
{
	const struct fm_bench_model *m = c->model;
	const char *wrong = NULL;

	for (size_t i = 0; i < m->kernels; i++) {
		const struct fm_bench_kernel *k = &m->kernel[i];

		for (uint32_t n = 0; !wrong && n < k->count; n++) {
			bool last = i + 1 == m->kernels && n + 1 == k->count;

			wrong = c->load.ops->launch(
				&c->load, last ? 0 : LOAD_NEVER, k->amount, k->blocks);
		}
	}
	return wrong || !m->kernels ? wrong : c->load.ops->wait(&c->load, 0);
}

static const char *copy(struct client *c, bool back, uint64_t bytes)
{
	return bytes && c->load.ops->copy ? c->load.ops->copy(&c->load, back, bytes) : NULL;
}

static const char *phase(void *client, enum fm_bench_phase phase)
{
	struct client *c = client;

	switch (phase) {
	case FM_BENCH_COPY_INPUT:
		return copy(c, false, c->model->input_bytes);
	case FM_BENCH_INFER:
		return infer(c);
	case FM_BENCH_COPY_OUTPUT:
		return copy(c, true, c->model->output_bytes);
	default:
		return NULL;
	}
}

const struct fm_bench_driver *bench_synthetic(const struct load_ops *load)
{
	static struct synthetic made[APIS];
	size_t i = 0;

	while (i < APIS && made[i].load && made[i].load != load)
		i++;
	if (i == APIS)
		return NULL;
	made[i] = (struct synthetic){.driver = {.size = sizeof(struct fm_bench_driver),
					     .abi = FM_BENCH_ABI,
					     .name = load->kind,
					     .open = open_client,
					     .calibrate = calibrate,
					     .phase = phase,
					     .close = close_client},
		.load = load};
	return &made[i].driver;
}
