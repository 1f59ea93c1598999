/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What it costs to see which memory a launch names, by its parameters; beside it a copy of as many
 * bytes, which the driver makes of them anyway. Then the look into a copy that may be a table of
 * pointers.
 *
 *   bench_core_predict [--seconds S]
 */
#include "base/clock.h"
#include "base/hist.h"
#include "base/util.h"
#include "predict/args.h"
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BASE   (UINT64_C(0x7f) << 40)
#define PAGES  40960u /* 80 GiB */
#define MOST   512u   /* words of parameters */
#define BATCH  64u    /* launches between two looks at the clock */
#define BLOCKS 1000u

static struct fm_touch touch;
static struct fm_shapes shapes;

struct launch {
	uint64_t word[MOST];
	void *params[MOST];
	const struct fm_shape *shape;
	size_t words;
};

/* Parameters of a word each, or one struct of so many words; every third is a pointer. */
static void make(struct launch *l, unsigned words, bool one)
{
	struct fm_shape_making m = {0};

	l->words = words;
	for (unsigned i = 0; i < words; i++) {
		uint64_t page = i * UINT64_C(2654435761) % PAGES;

		l->word[i] = i % 3 ? i : BASE + page * FM_TOUCH_PAGE;
		l->params[i] = &l->word[i];
		if (!one)
			fm_shape_add(&m, i, 8 * (size_t)i, 8);
	}
	if (one)
		fm_shape_add(&m, 0, 0, 8 * (size_t)words);
	l->shape = fm_shapes_put(&shapes, l, &m);
	if (!l->shape)
		abort();
}

static void name(struct launch *l)
{
	const struct fm_shape *shape = fm_shapes_find(&shapes, l);

	fm_touch_params(&touch, shape, l->params);
}

static void copy(struct launch *l)
{
	static char to[MOST * 8];

	for (unsigned i = 0; i < l->words; i++)
		memcpy(to + 8 * (size_t)i, l->params[i], 8);
	__asm__ volatile("" : : "r"(to) : "memory");
}

static char table[FM_TOUCH_TABLE];

static void look(struct launch *l)
{
	fm_touch_points(&touch, BASE, table, l->words * 8);
}

static void copy_table(struct launch *l)
{
	static char to[FM_TOUCH_TABLE];

	memcpy(to, table, l->words * 8);
	__asm__ volatile("" : : "r"(to) : "memory");
}

/* The median of one call, ns. */
static double measure(void (*fn)(struct launch *l), struct launch *l, double seconds)
{
	uint64_t end = fm_now() + (uint64_t)(seconds * 1e9), start, took;
	struct fm_hist h = {0};

	while ((start = fm_now()) < end) {
		for (unsigned i = 0; i < BATCH; i++)
			fn(l);
		took = fm_now() - start;
		fm_hist_add(&h, took);
	}
	return (double)fm_hist_quantile(&h, 0.5) / BATCH;
}

static void row(const char *what, void (*fn)(struct launch *l), void (*other)(struct launch *l),
	struct launch *l, double seconds)
{
	double it = measure(fn, l, seconds), copied = measure(other, l, seconds);

	printf("%-32s %8.1f ns, copied %8.1f ns, ratio %5.2f\n", what, it, copied, it / copied);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"seconds", required_argument, NULL, 's'}, {0}};
	static struct launch l;
	double seconds = 0.3;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c != 's' || (seconds = atof(optarg)) <= 0) {
			fputs("usage: bench_core_predict [--seconds S]\n", stderr);
			return 2;
		}
	}
	if (fm_touch_init(&touch, BASE, PAGES * FM_TOUCH_PAGE))
		return 1;
	for (uint32_t i = 0; i < BLOCKS; i++)
		fm_touch_block(&touch, i * (PAGES / BLOCKS), PAGES / BLOCKS);
	make(&l, 4, false);
	row("launch of 4 parameters", name, copy, &l, seconds);
	make(&l, 40, false);
	row("launch of 40 parameters", name, copy, &l, seconds);
	make(&l, 512, true);
	l.params[0] = l.word;
	row("launch of a struct of 4 KiB", name, copy, &l, seconds);
	l.words = 128;
	row("copy of 1 KiB to the device", look, copy_table, &l, seconds);
	l.words = FM_TOUCH_TABLE / 8;
	row("copy of 64 KiB to the device", look, copy_table, &l, seconds);
	fm_touch_free(&touch);
	return 0;
}
