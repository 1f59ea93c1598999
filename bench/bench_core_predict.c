/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What it costs to see which memory a launch names, by its parameters; beside it a copy of as many
 * bytes, which the driver makes of them anyway. Then the same launches by templates, beside what
 * they cost without: those that are a product of scalars, and those that look at all scalars. Then
 * the look into a copy that may be a table of pointers.
 *
 *   bench_core_predict [--seconds S]
 */
#include "base/clock.h"
#include "base/hist.h"
#include "base/util.h"
#include "predict/predict.h"
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

/* --- by templates --- */

static struct fm_predict predict = {.turn = 1};
static const uint32_t dims[6] = {8, 4, 1, 128, 1, 1};

static void name_parts(struct launch *l)
{
	struct fm_bound *b = fm_predict_find(&predict, l);
	struct fm_predicted p;

	if (!b || !fm_predict_begin(&predict, b, dims, l->params, &p))
		abort();
	fm_touch_params(&touch, b->rest, (void *[]){p.params});
	fm_predict_touch(&predict, &p, &touch);
}

/* At most eight pointers have templates: that many a kernel has. Each is of some pages. */
static void templates(struct launch *l, bool one, bool memo)
{
	static struct fm_template pointer[16][8];
	static struct fm_kernel_templates of[16];
	static struct fm_memo seen[16][8];
	static struct fm_span span = {0, 3 << 21};
	static unsigned next;
	struct fm_layout layout = {0};
	unsigned n = next++;
	struct fm_launch as = {dims, dims + 3, l->word, 8 * l->words};

	for (unsigned i = 0; i < (one ? 1 : l->words); i++)
		fm_layout_add(&layout, 8 * (size_t)i, one ? 8 * l->words : 8);
	of[n] = (struct fm_kernel_templates){.size = 8 * (uint32_t)l->words, .pointer = pointer[n]};
	for (unsigned i = 0; i < l->words && of[n].n < 8; i += 3)
		pointer[n][of[n].n++] = (struct fm_template){.at = 8 * i,
			.form = memo ? FM_FORM_MEMO : FM_FORM_LINEAR,
			.from = {.den = 1},
			.bytes = {.num = 4096,
				.den = 1,
				.n = 3,
				.of = {{FM_OPERAND_GRID, 0}, {FM_OPERAND_BLOCK, 0},
					{FM_OPERAND_U32, 8}}},
			.n = memo ? 1 : 0,
			.memo = &seen[n][of[n].n]};
	for (unsigned i = 0; i < of[n].n; i++)
		seen[n][i] = (struct fm_memo){fm_launch_key(&of[n], &as), 1, &span};
	if (fm_predict_bind(&predict, l, &of[n], &layout))
		abort();
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

static void template_rows(struct launch *l, const char *what, bool one, double seconds)
{
	static const char *const by[] = {"products", "memos"};

	for (unsigned memo = 0; memo < 2; memo++) {
		double it, whole;

		templates(l, one, memo);
		it = measure(name_parts, l, seconds);
		whole = measure(name, l, seconds);
		printf("%-22s by %-8s %7.1f ns, without %7.1f ns, more   %7.1f ns\n", what,
			by[memo], it, whole, it - whole);
	}
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
	template_rows(&l, "launch of 4 parameters", false, seconds);
	make(&l, 40, false);
	row("launch of 40 parameters", name, copy, &l, seconds);
	template_rows(&l, "launch of 40 params.", false, seconds);
	make(&l, 512, true);
	l.params[0] = l.word;
	row("launch of a struct of 4 KiB", name, copy, &l, seconds);
	template_rows(&l, "struct of 4 KiB", true, seconds);
	l.words = 128;
	row("copy of 1 KiB to the device", look, copy_table, &l, seconds);
	l.words = FM_TOUCH_TABLE / 8;
	row("copy of 64 KiB to the device", look, copy_table, &l, seconds);
	fm_touch_free(&touch);
	return 0;
}
