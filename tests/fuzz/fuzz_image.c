/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever the image: it is left alone with a reason, or what is made of it passes its own check,
 * and is not rewritten again. The first byte is the device. */
#include "api/cuda/cache/pack.h"
#include "base/util.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

static void look(const struct fm_image *image)
{
	unsigned rewritten = 0;

	must(image->why < FM_IMAGE_WHYS && fm_image_reason(image->why)[0] != '?');
	must(image->why != FM_IMAGE_VERIFY);
	must((image->why == FM_IMAGE_OK) == (image->data != NULL));
	for (unsigned i = 0; i < image->n; i++) {
		const struct fm_kernel *k = &image->kernel[i];
		unsigned end = 0;

		must(k->name && k->why < FM_KERNEL_WHYS);
		must(k->traits < 1u << FM_KERNEL_TRAITS);
		if (k->why)
			continue;
		rewritten++;
		must(k->guard_at % 8 == 0 && k->guard_at >= k->param_bytes &&
			k->guard_at < k->param_bytes + 8);
		for (unsigned p = 0; p < k->n_params; p++) {
			must(k->params[p].at >= end);
			end = k->params[p].at + k->params[p].size;
		}
		must(end <= k->param_bytes);
		must(k->loops < FM_LOOP_WHYS && fm_loop_reason(k->loops)[0] != '?');
		must((k->loops == FM_LOOP_POLLED) == (k->n_loops > 0));
		must(k->loops == FM_LOOP_POLLED || !k->save_bytes);
		must(k->save_bytes % 8 == 0 && k->save_bytes <= 1024);
	}
	must(rewritten == image->n_rewritten);
}

/* Whether or not kernels are to be left in loops: the same kernels, with the same parameters. */
static void look_at_loops(const uint8_t *data, size_t size, unsigned sm, const struct fm_image *is)
{
	struct fm_image image, again;

	fm_image_rewrite_loops(data, size, sm, "*", &image);
	look(&image);
	must(image.why == is->why && image.n == is->n && image.size >= is->size);
	for (unsigned i = 0; i < image.n; i++) {
		const struct fm_kernel *k = &image.kernel[i];

		must(k->why == is->kernel[i].why && k->guard_at == is->kernel[i].guard_at);
		must(k->why || k->loops != FM_LOOP_UNASKED);
		must(image.text || k->loops <= FM_LOOP_CODE);
	}
	if (!image.why && image.text) {
		fm_image_rewrite_loops(image.data, image.size, sm, "*", &again);
		must(again.why == FM_IMAGE_TEXT);
		fm_image_free(&again);
	}
	fm_image_free(&image);
}

/* If it can be told what variables take without unpacking, it is the same with it. */
static void look_at_globals(const uint8_t *data, size_t size, unsigned sm)
{
	uint64_t bytes = 0, all = 0;
	bool known = fm_image_globals(data, size, sm, false, &bytes);

	must(fm_image_globals(data, size, sm, true, &all) || !known);
	must(!known || bytes == all);
}

/* Likewise killed: all kernels, one after the other. */
static void look_at_kills(const uint8_t *data, size_t size, unsigned sm, const struct fm_image *is)
{
	for (unsigned n = 0; n < is->n && n < 4; n++) {
		const struct fm_image_wishes wishes = {.kill = is->kernel[n].name};
		struct fm_image image;

		fm_image_rewrite_as(data, size, sm, &wishes, &image);
		look(&image);
		must(image.why == is->why && image.n == is->n && image.size >= is->size);
		for (unsigned i = 0; i < image.n; i++) {
			const struct fm_kernel *k = &image.kernel[i];

			must(k->kill < FM_KILL_WHYS && fm_kill_reason(k->kill)[0] != '?');
			must((k->kill == FM_KILL_ABLE) == (k->n_kills > 0));
			must(k->kill == FM_KILL_ABLE || !k->bases);
			must(image.text || k->kill <= FM_KILL_CODE);
		}
		fm_image_free(&image);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const unsigned devices[] = {90, 80, 86, 87, 89, 100, 75};
	struct fm_image image, again;
	uint8_t *held;
	unsigned sm;

	if (!size)
		return 0;
	sm = devices[data[0] % FM_ARRAY_LEN(devices)];
	fm_image_rewrite(data + 1, size - 1, sm, &image);
	look(&image);
	look_at_loops(data + 1, size - 1, sm, &image);
	look_at_globals(data + 1, size - 1, sm);
	look_at_kills(data + 1, size - 1, sm, &image);
	if (!image.why) {
		fm_image_rewrite(image.data, image.size, sm, &again);
		look(&again);
		must(again.why == (image.text ? FM_IMAGE_TEXT : FM_IMAGE_NO_KERNEL));
		fm_image_free(&again);
	}
	fm_image_free(&image);
	/* The same as what a cache holds. */
	held = malloc(size);
	must(held != NULL);
	memcpy(held, data + 1, size - 1);
	if (fm_unpack(held, size - 1, &image))
		free(held);
	else
		fm_image_free(&image);
	return 0;
}
