/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of launches: whatever a program passes, only what it has passed is read, and nothing
 * is named but blocks that are there. */
#include "predict/args.h"
#include <stdlib.h>
#include <string.h>

#define BASE  (UINT64_C(0x7000) << 21)
#define PAGES 256u
#define MOST  64u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *p, *end;
};

static void must(bool ok)
{
	if (!ok)
		abort();
}

static uint8_t take(struct input *in)
{
	return in->p < in->end ? *in->p++ : 0;
}

/* Mostly near the range of addresses. */
static uint64_t take_word(struct input *in)
{
	uint8_t n = take(in);
	uint64_t v = BASE + (uint64_t)n * FM_TOUCH_PAGE;

	switch (take(in) % 4) {
	case 0:
		return v + take(in) * UINT64_C(8192);
	case 1:
		return v - FM_TOUCH_PAGE;
	case 2:
		return BASE + PAGES * FM_TOUCH_PAGE - 1 + n % 2;
	default:
		for (unsigned i = 0; i < 8; i++)
			v = v << 8 | take(in);
		return v;
	}
}

/* Of exactly that size, so that who reads more is found out. */
static unsigned char *take_bytes(struct input *in, size_t n)
{
	unsigned char *b = malloc(n ? n : 1);
	uint64_t word;

	must(b);
	memset(b, 0, n);
	for (size_t i = 0; i + 8 <= n; i += 8) {
		word = take_word(in);
		memcpy(b + i, &word, 8);
	}
	return b;
}

struct world {
	struct fm_touch t;
	struct fm_tensor_maps *maps;
	struct fm_shapes *shapes;
	bool there[PAGES];
	bool first[PAGES];
};

static void block(struct world *w, struct input *in)
{
	uint32_t at = take(in) % PAGES, n = take(in) % 16 + 1;

	for (uint32_t i = at; i < at + n; i++)
		if (i >= PAGES || w->there[i])
			return;
	w->first[at] = true;
	memset(&w->there[at], true, n);
	fm_touch_block(&w->t, at, n);
}

static void gone(struct world *w, struct input *in)
{
	uint32_t at = take(in) % PAGES, n = 1;

	if (!w->first[at])
		return;
	while (at + n < PAGES && w->there[at + n] && !w->first[at + n])
		n++;
	w->first[at] = false;
	memset(&w->there[at], false, n);
	fm_touch_gone(&w->t, at, n);
}

static void see(void *t, uint64_t word)
{
	fm_touch_keep(t, word);
}

static void launch(struct world *w, struct input *in)
{
	struct fm_shape_making m = {0};
	const struct fm_shape *s;
	void *params[MOST];
	unsigned n = take(in) % MOST;
	size_t at = 0, size;

	for (unsigned i = 0; i < n; i++) {
		at += take(in) % 8;
		size = take(in);
		fm_shape_add(&m, i, at, size);
		params[i] = take_bytes(in, size);
		at += size;
	}
	s = fm_shapes_put(w->shapes, (void *)(uintptr_t)(16 * (take(in) + 1)), &m);
	if (s) {
		fm_touch_params(&w->t, s, params);
		fm_params_words(s, params, w->maps, see, &w->t);
	}
	for (unsigned i = 0; i < n; i++)
		free(params[i]);
}

static void buffer(struct world *w, struct input *in)
{
	size_t n = (size_t)take(in) * (take(in) % 3 + 1);
	unsigned char *b = take_bytes(in, n);
	uint64_t at = take_word(in);

	if (take(in) % 2)
		fm_touch_points(&w->t, at, b, n);
	else
		fm_touch_buffer(&w->t, b, n);
	fm_buffer_words(b, n, w->maps, see, &w->t);
	if (n >= FM_TENSOR_MAP) {
		uint64_t address = take_word(in);

		fm_tensor_map_put(w->maps, b, address, take_word(in));
		w->t.parts = !w->t.parts;
	}
	free(b);
}

/* Encoded with any sizes and strides, it reaches as far as its last element, or it is not known. */
static void encode(struct world *w, struct input *in)
{
	unsigned rank = take(in) % 7;
	int type = (int)(take(in) % 16) - 1;
	uint64_t sizes[7], strides[7], bytes, at = take_word(in);
	unsigned char map[FM_TENSOR_MAP];
	unsigned __int128 most = 0;

	for (unsigned i = 0; i < 7; i++) {
		sizes[i] = take_word(in) >> take(in) % 64;
		strides[i] = take_word(in) >> take(in) % 64;
		if (i && i < rank && sizes[i])
			most += (unsigned __int128)(sizes[i] - 1) * strides[i - 1];
	}
	bytes = fm_tensor_map_bytes(type, rank, sizes, strides);
	must(!bytes || (rank && rank <= 5 && bytes >= most + sizes[0] &&
			       bytes <= most + (unsigned __int128)sizes[0] * 8));
	memset(map, take(in), sizeof(map));
	fm_tensor_map_put(w->maps, map, at, bytes);
	w->t.parts = true;
	fm_touch_buffer(&w->t, map, sizeof(map));
}

static void step(struct world *w, struct input *in)
{
	uint64_t at;

	switch (take(in) % 9) {
	case 0:
		block(w, in);
		break;
	case 1:
		gone(w, in);
		break;
	case 2:
	case 3:
		launch(w, in);
		break;
	case 4:
		buffer(w, in);
		break;
	case 5:
		at = take_word(in);
		fm_touch_range(&w->t, at, take_word(in));
		break;
	case 6:
		at = take_word(in);
		fm_touch_copied(&w->t, at, take(in) * UINT64_C(100), take_word(in));
		break;
	case 7:
		encode(w, in);
		break;
	default:
		fm_touch_turn(&w->t);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct fm_shapes shapes;
	static struct fm_tensor_maps maps;
	struct world w = {.shapes = &shapes, .maps = &maps};
	struct input in = {data, data + size};

	fm_shapes_forget(&shapes);
	memset(&maps, 0, sizeof(maps));
	must(!fm_touch_init(&w.t, BASE, PAGES * FM_TOUCH_PAGE));
	w.t.maps = &maps;
	while (in.p < in.end)
		step(&w, &in);
	for (uint32_t i = 0; i < PAGES; i++) {
		uint32_t last = fm_touch_last(&w.t, i, 1);

		must(last <= atomic_load(&w.t.turn) && (w.there[i] || !last));
	}
	must(atomic_load(&w.t.any) <= atomic_load(&w.t.turn));
	fm_touch_free(&w.t);
	return 0;
}
