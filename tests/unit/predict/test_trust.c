/* SPDX-License-Identifier: Apache-2.0 */
/* Templates in use: which pages a launch names, and how far a kernel's templates are trusted. */
#include "base/util.h"
#include "predict/predict.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define BASE  (UINT64_C(0x700000) << 21)
#define PAGES 1024u
#define AT(p) (BASE + (p)*FM_TOUCH_PAGE)
#define PAGE  ((int64_t)FM_TOUCH_PAGE)

/* A kernel (x, y, n) that touches n pages of x from the second on, whatever y is. */
static struct fm_template pointers[] = {{.at = 0,
	.form = FM_FORM_LINEAR,
	.from = {.den = 1, .plus = PAGE},
	.bytes = {.num = PAGE, .den = 1, .n = 1, .of = {{FM_OPERAND_U32, 16}}}}};
static const struct fm_kernel_templates kernel = {
	.name = (char[]){"k"}, .size = 20, .n = 1, .pointer = pointers};
static const struct fm_layout layout = {.n = 3, .param = {{0, 8}, {8, 8}, {16, 4}}};
static const uint32_t dims[6] = {1, 1, 1, 1, 1, 1};
static int function;

struct world {
	struct fm_touch touch;
	struct fm_predict predict;
};

static struct world *make(void)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	assert_int_equal(fm_touch_init(&w->touch, BASE, PAGES * FM_TOUCH_PAGE), 0);
	fm_touch_block(&w->touch, 2, 500);
	fm_touch_block(&w->touch, 600, 4);
	fm_touch_turn(&w->touch);
	atomic_store(&w->predict.turn, 1);
	return w;
}

static void end(struct world *w)
{
	for (unsigned i = 0; i < atomic_load(&w->predict.n); i++) {
		struct fm_bound *b = atomic_load(&w->predict.bound[i]);

		free(b->rest);
		free(b->layout);
		free(b);
	}
	fm_touch_free(&w->touch);
	free(w);
}

static bool launch(struct world *w, uint64_t x, uint64_t y, uint32_t n)
{
	struct fm_bound *b = fm_predict_find(&w->predict, &function);
	void *params[] = {&x, &y, &n};
	struct fm_predicted l;

	if (!fm_predict_begin(&w->predict, b, dims, params, &l))
		return false;
	fm_touch_params(&w->touch, b->rest, (void *[]){l.params});
	fm_predict_touch(&w->predict, &l, &w->touch);
	return true;
}

static unsigned named(const struct world *w)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < PAGES; i++)
		n += fm_touch_last(&w->touch, i, 1) == atomic_load(&w->touch.turn);
	return n;
}

static void turn(struct world *w)
{
	fm_touch_turn(&w->touch);
	fm_predict_turn(&w->predict);
}

static void test_a_launch_names_parts(void **s)
{
	struct world *w = make();

	assert_int_equal(fm_predict_bind(&w->predict, &function, &kernel, &layout), 0);
	for (uint32_t n = 0; n < 499; n += 7) {
		assert_true(launch(w, AT(2), 0, n));
		assert_int_equal(named(w), n);
		assert_true(!n ||
			    (fm_touch_last(&w->touch, 3, 1) && fm_touch_last(&w->touch, 2 + n, 1)));
		turn(w);
	}
	assert_true(launch(w, AT(2) + 5, AT(601), 1)); /* the other one has no template */
	assert_int_equal(named(w), 2 + 4);
	turn(w);
	assert_true(launch(w, 77, 88, 5)); /* no addresses */
	assert_int_equal(named(w), 0);
	end(w);
}

static void count(struct world *w, struct fm_predict_counts *c)
{
	fm_predict_count(&w->predict, c);
}

static void test_what_leads_outside_is_distrusted(void **s)
{
	struct fm_predict_counts c;
	struct world *w = make();

	fm_predict_bind(&w->predict, &function, &kernel, &layout);
	assert_true(launch(w, AT(600), 0, 4)); /* one page too many */
	assert_int_equal(named(w), 4);
	count(w, &c);
	assert_int_equal(c.distrusted, 1);
	assert_false(launch(w, AT(600), 0, 1));
	end(w);
}

static void test_trust_comes_and_goes(void **s)
{
	struct fm_predict_counts c;
	struct world *w = make();
	unsigned turns;

	fm_predict_bind(&w->predict, &function, &kernel, &layout);
	count(w, &c);
	assert_int_equal(c.trial + c.trusted + c.distrusted, 0); /* never launched */
	assert_int_equal(fm_predict_distrust(&w->predict, 3), 0);
	for (unsigned i = 0; i < FM_PREDICT_TRIAL; i++) {
		count(w, &c);
		assert_int_equal(c.trial, i ? 1 : 0);
		assert_true(launch(w, AT(2), 0, 1));
	}
	count(w, &c);
	assert_int_equal(c.trusted, 1);
	assert_int_equal(c.pointers[FM_FORM_LINEAR], 1);
	for (unsigned i = 0; i < 5; i++)
		turn(w);
	assert_int_equal(fm_predict_distrust(&w->predict, 3), 0); /* too long ago */
	for (unsigned times = 0; times < 3; times++) {
		launch(w, AT(2), 0, 1);
		turn(w);
		assert_int_equal(fm_predict_distrust(&w->predict, 3), 1);
		assert_int_equal(fm_predict_distrust(&w->predict, 3), 0); /* it is already */
		for (turns = 0; !launch(w, AT(2), 0, 1); turns++)
			turn(w);
		assert_int_equal(turns, FM_PREDICT_DISTRUST << times);
	}
	for (unsigned i = 0; i < FM_PREDICT_TRIAL; i++)
		launch(w, AT(2), 0, 1);
	assert_int_equal(fm_predict_distrust(&w->predict, 3), 1);
	for (turns = 0; !launch(w, AT(2), 0, 1); turns++)
		turn(w);
	assert_int_equal(turns, FM_PREDICT_DISTRUST);
	end(w);
}

static void test_other_parameters_are_not_bound(void **s)
{
	static struct fm_layout other = {.n = 2, .param = {{0, 8}, {8, 8}}}, many = {.n = 0};
	static struct fm_template any[] = {{.at = 0, .form = FM_FORM_ANY}};
	const struct fm_kernel_templates useless = {
		.name = (char[]){"k"}, .size = 20, .n = 1, .pointer = any};
	struct world *w = make();

	assert_int_equal(fm_predict_bind(&w->predict, &function, &kernel, &other), -EINVAL);
	assert_int_equal(fm_predict_bind(&w->predict, &function, &useless, &layout), -EINVAL);
	for (unsigned i = 0; i <= FM_PREDICT_PARAMS; i++)
		fm_layout_add(&many, 0, 4);
	assert_int_equal(fm_predict_bind(&w->predict, &function, &kernel, &many), -EINVAL);
	assert_null(fm_predict_find(&w->predict, &function));
	assert_int_equal(fm_predict_bind(&w->predict, &function, &kernel, &layout), 0);
	assert_non_null(fm_predict_find(&w->predict, &function));
	fm_predict_forget(&w->predict);
	assert_null(fm_predict_find(&w->predict, &function));
	end(w);
}

/* Spans of any size around any address name the block's pages that they are in, and no others. */
static void test_spans_are_clamped(void **s)
{
	static const int64_t edge[] = {INT64_MIN, -(INT64_C(1) << 50), -PAGE, -1, 0, 1, PAGE,
		63 * PAGE, 64 * PAGE + 1, 200 * PAGE, 499 * PAGE, 500 * PAGE, 501 * PAGE,
		INT64_MAX};
	static const uint64_t at[] = {0, 5, 70 * FM_TOUCH_PAGE, 500 * FM_TOUCH_PAGE - 1};
	struct world *w = make();

	for (unsigned i = 0; i < FM_ARRAY_LEN(edge); i++)
		for (unsigned k = i + 1; k < FM_ARRAY_LEN(edge); k++)
			for (unsigned a = 0; a < FM_ARRAY_LEN(at); a++) {
				const struct fm_span x = {edge[i], edge[k]};
				__int128 from = (__int128)at[a] + x.from,
					 to = (__int128)at[a] + x.to;
				bool within = from >= 0 && to <= 500 * PAGE;

				turn(w);
				assert_int_equal(
					fm_touch_spans(&w->touch, AT(2) + at[a], &x, 1), within);
				from = from < 0 ? 0 : from;
				to = to > 500 * PAGE ? 500 * PAGE : to;
				assert_int_equal(named(w),
					from < to ? (to - 1) / PAGE - from / PAGE + 1 : 0);
			}
	end(w);
}

/* --- what no template is for --- */

static bool is_in(const struct fm_layout *l, uint32_t at, unsigned *whose)
{
	for (*whose = 0; *whose < l->n; (*whose)++)
		if (at >= l->param[*whose].at &&
			at + 8 <= l->param[*whose].at + (uint32_t)l->param[*whose].size)
			return true;
	return false;
}

/* Each aligned word within a parameter that has no template is looked at once, and no other; a
 * place for a tensor map is within one parameter. */
static void assert_rest(const struct fm_bound *b, const struct fm_kernel_templates *of)
{
	const struct fm_layout *l = b->layout;
	unsigned seen[FM_TEMPLATE_PARAMS / 8] = {0}, whose = 0;

	for (unsigned i = 0; i < b->rest->n; i++) {
		const struct fm_shape_part *p = &b->rest->part[i];

		assert_int_equal(p->param, 0);
		assert_int_equal(p->skip % 8, 0);
		for (unsigned w = 0; w < p->words; w++)
			seen[p->skip / 8 + w]++;
		if (p->map)
			for (unsigned k = 0; k < l->n; k++)
				if (l->param[k].at <= p->map - 1u)
					whose = k;
		if (p->map)
			assert_true(p->map - 1u + FM_TENSOR_MAP <=
				    l->param[whose].at + (uint32_t)l->param[whose].size);
	}
	for (uint32_t at = 0; at < FM_TEMPLATE_PARAMS; at += 8) {
		bool rest = is_in(l, at, &whose);

		for (unsigned i = 0; i < of->n; i++)
			rest &= at != of->pointer[i].at;
		assert_int_equal(seen[at / 8], rest);
	}
}

static void test_rest_of_drawn_layouts(void **s)
{
	static struct fm_kernel_templates of[400];
	static struct fm_template pointer[400][8];
	static const uint16_t sizes[] = {8, 8, 8, 8, 8, 8, 4, 4, 2, 1, 12, 24, 128, 192};
	static int handle[400];
	struct world *w = make();
	uint32_t drawn = 1;

	for (unsigned k = 0; k < FM_ARRAY_LEN(of); k++) {
		struct fm_layout l = {0};
		uint32_t at = 0;

		of[k].pointer = pointer[k];
		for (unsigned i = 0; i < 1 + k % 60; i++) {
			uint16_t size = sizes[(drawn = drawn * 1664525 + 1013904223) / 65536 %
					      FM_ARRAY_LEN(sizes)];
			uint32_t align = k % 3 == 0 ? 1 : size % 64 == 0 ? 64 : size % 8 ? 4 : 8;

			at = (at + align - 1) / align * align;
			if (at + size > FM_TEMPLATE_PARAMS)
				break;
			fm_layout_add(&l, at, size);
			if (size == 8 && at % 8 == 0 && of[k].n < 8 && (drawn >> 8) % 4 == 0)
				pointer[k][of[k].n++] = (struct fm_template){.at = at,
					.form = FM_FORM_FIXED,
					.from = {.den = 1},
					.bytes = {.den = 1, .plus = 8}};
			at += size;
		}
		of[k].size = at;
		if (of[k].n) {
			assert_int_equal(fm_predict_bind(&w->predict, &handle[k], &of[k], &l), 0);
			assert_rest(fm_predict_find(&w->predict, &handle[k]), &of[k]);
		}
	}
	assert_true(atomic_load(&w->predict.n) > 200);
	end(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_launch_names_parts),
		cmocka_unit_test(test_what_leads_outside_is_distrusted),
		cmocka_unit_test(test_trust_comes_and_goes),
		cmocka_unit_test(test_other_parameters_are_not_bound),
		cmocka_unit_test(test_spans_are_clamped),
		cmocka_unit_test(test_rest_of_drawn_layouts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
