/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of ranges; templates fitted to launches, in files, and evaluated. */
#include "base/util.h"
#include "predict/template.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB   (INT64_C(1) << 20)
#define IMAGE "0123456789abcdef0123456789abcdef"
#define OTHER "fedcba9876543210fedcba9876543210"

static uint64_t state;
static uint64_t drawn(uint64_t below)
{
	state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (state >> 33) % below;
}

/* --- sets of ranges --- */

#define LINE 96
static void check_against(const struct fm_extents *e, const bool *in)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < e->n; i++) {
		assert_true(e->span[i].from < e->span[i].to);
		assert_true(!i || e->span[i - 1].to < e->span[i].from);
	}
	for (int64_t at = 0; at < LINE; at++) {
		assert_int_equal(fm_extents_has(e, at), in[at]);
		sum += in[at];
	}
	assert_int_equal(fm_extents_sum(e), sum);
}

static void test_extents(void **s)
{
	for (unsigned round = 0; round < 200; round++) {
		struct fm_extents e = {0};
		bool in[LINE] = {false};

		for (unsigned step = 0; step < 60; step++) {
			int64_t from = (int64_t)drawn(LINE), n = (int64_t)drawn(20);
			struct fm_span x = {from, FM_MIN(from + n, (int64_t)LINE)};
			bool add = drawn(2);
			int rc = add ? fm_extents_add(&e, x) : fm_extents_cut(&e, x);

			assert_int_equal(rc, x.from < x.to ? 0 : -EINVAL);
			for (int64_t at = x.from; at < x.to; at++)
				in[at] = add;
			check_against(&e, in);
		}
		fm_extents_free(&e);
	}
}

static void test_extents_close(void **s)
{
	struct fm_extents e = {0};

	fm_extents_add(&e, (struct fm_span){-10, 0});
	fm_extents_add(&e, (struct fm_span){4, 5});
	fm_extents_add(&e, (struct fm_span){10, 11});
	fm_extents_close(&e, 5);
	assert_int_equal(e.n, 2);
	assert_int_equal(e.span[0].to, 5);
	fm_extents_close(&e, 6);
	assert_int_equal(e.n, 1);
	assert_int_equal(fm_extents_sum(&e), 21);
	fm_extents_free(&e);
	fm_extents_add(&e, (struct fm_span){INT64_MIN, INT64_MAX});
	fm_extents_add(&e, (struct fm_span){INT64_MIN, 0});
	assert_int_equal(e.n, 1);
	assert_true(fm_extents_sum(&e) == UINT64_MAX);
	fm_extents_free(&e);
}

/* --- a program whose kernel touches what a drawn template says --- */

#define SIZE   64u
#define POINTS 0u /* the pointer; scalars from 8 on: four of 64 bits, and words of 32 from 40 */
struct launch {
	uint32_t grid[3], block[3];
	uint8_t params[SIZE];
};

static void draw_launch(struct launch *l)
{
	uint64_t pointer = drawn(UINT32_MAX) << 20;

	memset(l, 0, sizeof(*l));
	for (unsigned i = 0; i < 3; i++) {
		l->grid[i] = (uint32_t)drawn(60) + 1;
		l->block[i] = (uint32_t)drawn(30) + 1;
	}
	memcpy(l->params + POINTS, &pointer, 8);
	for (unsigned at = 8; at < 40; at += 8) {
		uint64_t wide = drawn(1000);

		memcpy(l->params + at, &wide, 8);
	}
	for (unsigned at = 40; at < SIZE; at += 4) {
		uint32_t word = (uint32_t)drawn(500);

		memcpy(l->params + at, &word, 4);
	}
}

static struct fm_launch view(const struct launch *l)
{
	return (struct fm_launch){l->grid, l->block, l->params, SIZE};
}

static struct fm_operand draw_operand(void)
{
	switch (drawn(4)) {
	case 0:
		return (struct fm_operand){FM_OPERAND_GRID, (uint16_t)drawn(3)};
	case 1:
		return (struct fm_operand){FM_OPERAND_BLOCK, (uint16_t)drawn(3)};
	case 2:
		return (struct fm_operand){FM_OPERAND_U64, (uint16_t)(8 + 8 * drawn(4))};
	default:
		return (struct fm_operand){FM_OPERAND_U32, (uint16_t)(40 + 4 * drawn(6))};
	}
}

static struct fm_linear draw_linear(int64_t plus, bool varies)
{
	struct fm_linear l = {.den = 1, .plus = plus};

	if (!varies)
		return l;
	l.n = 1 + (unsigned)drawn(FM_FACTORS);
	for (unsigned i = 0; i < l.n; i++)
		l.of[i] = draw_operand();
	l.num = 1 + (int64_t)drawn(64);
	return l;
}

static struct fm_template draw_template(enum fm_form form)
{
	struct fm_template t = {.at = POINTS, .form = (uint8_t)form};
	bool linear = form == FM_FORM_LINEAR;

	t.from = draw_linear((int64_t)drawn(100) * 4096 - 100000, linear && drawn(2));
	t.bytes = draw_linear(1 + (int64_t)drawn(1 << 20), linear);
	if (form == FM_FORM_STRIDED) {
		t.step = draw_linear(8 * MIB, drawn(2));
		t.count = (struct fm_linear){
			.num = 1, .den = 1, .plus = 1, .n = 1, .of = {{FM_OPERAND_GRID, 1}}};
	}
	return t;
}

static int observe(struct fm_fit *f, const char *name, const struct launch *l,
	const struct fm_span *span, unsigned n)
{
	const struct fm_kernel_id id = {IMAGE, name};
	const struct fm_observed p = {.at = POINTS, .spans = span, .n = n};
	struct fm_observation o = {
		.kernel = &id, .params = l->params, .size = SIZE, .pointers = &p};

	memcpy(o.grid, l->grid, sizeof(o.grid));
	memcpy(o.block, l->block, sizeof(o.block));
	o.n = 1;
	return fm_fit_add(f, &o);
}

static char *printed(struct fm_fit *f, size_t *size)
{
	char *text = NULL;
	FILE *to = open_memstream(&text, size);

	assert_non_null(to);
	assert_int_equal(fm_fit_print(f, IMAGE, to), 0);
	fclose(to);
	return text;
}

static void fitted(struct fm_fit *f, struct fm_templates *t)
{
	struct fm_err err = {0};
	size_t size;
	char *text = printed(f, &size);

	if (fm_templates_parse(t, IMAGE, "f", text, size, &err))
		fail_msg("%s\n%s", err.text, text);
	free(text);
}

static void observe_true(struct fm_fit *f, const struct fm_template *truth, const struct launch *l)
{
	const struct fm_launch as = view(l);
	struct fm_span span[FM_TEMPLATE_SPANS];
	int n = fm_template_spans(truth, &as, 0, span);

	assert_true(n >= 0);
	assert_int_equal(observe(f, "k", l, span, (unsigned)n), 0);
}

#define LAUNCHES 24
static void recover(enum fm_form form)
{
	struct fm_template truth = draw_template(form);
	struct fm_span want[FM_TEMPLATE_SPANS], got[FM_TEMPLATE_SPANS];
	struct fm_fit *f = fm_fit_new();
	const struct fm_kernel_templates *k;
	struct fm_templates t;
	struct launch l;

	for (unsigned i = 0; i < LAUNCHES; i++) {
		draw_launch(&l);
		observe_true(f, &truth, &l);
	}
	fitted(f, &t);
	k = fm_templates_find(&t, "k");
	assert_non_null(k);
	assert_int_equal(k->n, 1);
	assert_int_equal(k->failed, 0);
	assert_int_equal(k->launches, LAUNCHES);
	assert_string_equal(fm_form_name(k->pointer[0].form), fm_form_name(form));
	for (unsigned i = 0; i < 50; i++) {
		struct fm_launch as;
		int n;

		draw_launch(&l);
		as = view(&l);
		n = fm_template_spans(&truth, &as, 0, want);
		assert_int_equal(fm_template_spans(&k->pointer[0], &as, 0, got), n);
		assert_memory_equal(got, want, (size_t)n * sizeof(*want));
	}
	fm_templates_free(&t);
	fm_fit_free(f);
}

static void test_drawn_templates_are_recovered(void **s)
{
	for (unsigned round = 0; round < 60; round++) {
		recover(FM_FORM_FIXED);
		recover(FM_FORM_LINEAR);
		recover(FM_FORM_STRIDED);
	}
}

/* A third of a product: the pieces are as large as the product allows, rounded up. */
static void test_fractions(void **s)
{
	struct fm_template truth = {.form = FM_FORM_LINEAR,
		.from = {.den = 1},
		.bytes = {.num = 3, .den = 8, .plus = 7, .n = 1, .of = {{FM_OPERAND_U64, 8}}}};
	struct fm_fit *f = fm_fit_new();
	struct fm_templates t;
	struct launch l;

	for (uint64_t i = 1; i < LAUNCHES; i++) {
		uint64_t wide = 8 * i;

		draw_launch(&l);
		memcpy(l.params + 8, &wide, 8);
		observe_true(f, &truth, &l);
	}
	fitted(f, &t);
	assert_int_equal(t.kernel[0].pointer[0].bytes.num, 3);
	assert_int_equal(t.kernel[0].pointer[0].bytes.den, 8);
	assert_int_equal(t.kernel[0].pointer[0].bytes.plus, 7);
	fm_templates_free(&t);
	fm_fit_free(f);
}

static void test_noise_is_refused(void **s)
{
	struct fm_fit *f = fm_fit_new();
	struct fm_fit_counts counts;
	struct fm_templates t;
	struct launch l;

	for (unsigned i = 0; i < 100; i++) {
		int64_t from = (int64_t)drawn(1 << 30), bytes = 1 + (int64_t)drawn(1 << 30);

		draw_launch(&l);
		assert_int_equal(observe(f, "k", &l, &(struct fm_span){from, from + bytes}, 1), 0);
	}
	fitted(f, &t);
	assert_int_equal(t.kernel[0].pointer[0].form, FM_FORM_ANY);
	assert_int_equal(t.kernel[0].failed, 100);
	fm_fit_count(f, &counts);
	assert_int_equal(counts.launches, 100);
	assert_int_equal(counts.failed, 100);
	assert_int_equal(counts.pointers[FM_FORM_ANY], 1);
	fm_templates_free(&t);
	fm_fit_free(f);
}

/* A loop of a few different launches that follow no rule; and one of them is not always the same.
 */
static void test_memo(void **s)
{
	struct fm_span span[10], got[FM_TEMPLATE_SPANS];
	struct fm_fit *f = fm_fit_new();
	struct launch l[10], other;
	const struct fm_launch unseen = view(&other);
	struct fm_templates t;

	for (unsigned i = 0; i < 10; i++) {
		draw_launch(&l[i]);
		span[i].from = (int64_t)drawn(1 << 30);
		span[i].to = span[i].from + 1 + (int64_t)drawn(1 << 30);
	}
	for (unsigned round = 0; round < 5; round++)
		for (unsigned i = 0; i < 10; i++)
			assert_int_equal(observe(f, "k", &l[i], &span[i], 1), 0);
	assert_int_equal(observe(f, "k", &l[3], &(struct fm_span){0, 1}, 1), 0);
	fitted(f, &t);
	assert_int_equal(t.kernel[0].pointer[0].form, FM_FORM_MEMO);
	assert_int_equal(t.kernel[0].failed, 6);
	for (unsigned i = 0; i < 10; i++) {
		const struct fm_launch as = view(&l[i]);
		uint64_t pointer = drawn(UINT32_MAX), key;

		memcpy(l[i].params + POINTS, &pointer, 8); /* says nothing */
		key = fm_launch_key(&t.kernel[0], &as);
		assert_int_equal(
			fm_template_spans(&t.kernel[0].pointer[0], &as, key, got), i == 3 ? -1 : 1);
		assert_true(i == 3 || !memcmp(got, &span[i], sizeof(got[0])));
	}
	draw_launch(&other);
	assert_int_equal(fm_template_spans(&t.kernel[0].pointer[0], &unseen,
				 fm_launch_key(&t.kernel[0], &unseen), got),
		-1);
	fm_templates_free(&t);
	fm_fit_free(f);
}

/* Two points are on a line, whatever they are: what was seen is kept, and no rule is made of it. */
static void test_few_launches_make_no_rule(void **s)
{
	struct fm_fit *f = fm_fit_new();
	struct fm_templates t;
	struct launch l;

	for (unsigned i = 0; i < 2; i++) {
		draw_launch(&l);
		for (unsigned again = 0; again < 9; again++)
			assert_int_equal(
				observe(f, "k", &l, &(struct fm_span){0, 100 + 4 * i}, 1), 0);
	}
	fitted(f, &t);
	assert_int_equal(t.kernel[0].pointer[0].form, FM_FORM_MEMO);
	assert_int_equal(t.kernel[0].pointer[0].n, 2);
	fm_templates_free(&t);
	fm_fit_free(f);
}

static void test_order_does_not_matter(void **s)
{
	struct fm_template truth = draw_template(FM_FORM_LINEAR);
	static struct launch l[1200];
	char *text[2];
	size_t size[2];

	for (unsigned i = 0; i < FM_ARRAY_LEN(l); i++)
		draw_launch(&l[i]);
	for (unsigned turn = 0; turn < 2; turn++) {
		struct fm_fit *f = fm_fit_new();

		for (unsigned i = 0; i < FM_ARRAY_LEN(l); i++) {
			struct launch *at = &l[turn ? FM_ARRAY_LEN(l) - 1 - i : i];

			observe_true(f, &truth, at);
			assert_int_equal(
				observe(f, "noise", at,
					&(struct fm_span){at->grid[0], 5000 + at->params[8]}, 1),
				0);
		}
		text[turn] = printed(f, &size[turn]);
		fm_fit_free(f);
	}
	assert_string_equal(text[0], text[1]);
	free(text[0]);
	free(text[1]);
}

static void test_tensor_maps_are_boxes(void **s)
{
	const struct fm_kernel_id id = {IMAGE, "k"};
	const struct fm_span span = {0, 5};
	const struct fm_observed p[] = {{.at = 0, .map = true, .spans = &span, .n = 1},
		{.at = 128, .spans = &span, .n = 1}};
	uint8_t params[136] = {1};
	struct fm_observation o = {.kernel = &id,
		.grid = {1, 1, 1},
		.block = {1, 1, 1},
		.params = params,
		.size = sizeof(params),
		.pointers = p,
		.n = 2};
	struct fm_fit *f = fm_fit_new();
	struct fm_templates t;

	assert_int_equal(fm_fit_add(f, &o), 0);
	fitted(f, &t);
	assert_int_equal(t.kernel[0].pointer[0].form, FM_FORM_BOX);
	assert_int_equal(t.kernel[0].pointer[1].form, FM_FORM_MEMO);
	fm_templates_free(&t);
	fm_fit_free(f);
}

static void test_bad_observations(void **s)
{
	const struct fm_kernel_id good = {IMAGE, "k"}, no_image = {"0123", "k"},
				  no_name = {IMAGE, ""};
	const struct fm_span back = {5, 5}, far = {0, INT64_MAX}, two[] = {{0, 5}, {4, 9}};
	struct fm_observed p = {.at = 0};
	uint8_t params[16] = {0};
	struct fm_observation o = {
		.kernel = &good, .params = params, .size = 16, .pointers = &p, .n = 1};
	struct fm_fit *f = fm_fit_new();

#define REFUSES(change, back_again)                           \
	do {                                                  \
		change;                                       \
		assert_int_equal(fm_fit_add(f, &o), -EINVAL); \
		back_again;                                   \
	} while (0)
	REFUSES(o.kernel = &no_image, o.kernel = &good);
	REFUSES(o.kernel = &no_name, o.kernel = &good);
	REFUSES(o.size = 4097, o.size = 16);
	REFUSES(p.at = 4, p.at = 0);
	REFUSES(p.at = 16, p.at = 0);
	REFUSES(p.map = true, p.map = false);
	REFUSES((p.spans = &back, p.n = 1), p.n = 0);
	REFUSES((p.spans = &far, p.n = 1), p.n = 0);
	REFUSES((p.spans = two, p.n = 2), p.n = 0);
	assert_int_equal(fm_fit_add(f, &o), 0);
	REFUSES(o.size = 8, o.size = 16); /* it had 16 before */
	fm_fit_free(f);
	assert_int_equal(fm_fit_print(f = fm_fit_new(), IMAGE, stderr), -ENOENT);
	fm_fit_free(f);
}

/* --- numbers that do not fit --- */

static void test_overflow_foretells_nothing(void **s)
{
	static const struct fm_operand wide = {FM_OPERAND_U64, 0};
	const struct fm_linear one = {.den = 1, .plus = 1}, zero = {.den = 1};
	uint64_t params[2] = {UINT64_C(1) << 31, 0};
	uint32_t grid[3] = {1, 1, 1};
	const struct fm_launch l = {grid, grid, params, 8}, large = {grid, grid, params, 16};
	struct fm_span out[FM_TEMPLATE_SPANS];
	struct fm_template t = {.form = FM_FORM_LINEAR, .from = zero};

	t.bytes = (struct fm_linear){.num = 1, .den = 1, .n = 3, .of = {wide, wide, wide}};
	assert_int_equal(fm_template_spans(&t, &l, 0, out), -1);
	t.bytes.n = 2;
	assert_int_equal(fm_template_spans(&t, &l, 0, out), 1);
	assert_true(out[0].to == INT64_C(1) << 62);
	t.bytes.num = 4;
	assert_int_equal(fm_template_spans(&t, &l, 0, out), -1);
	t.bytes.num = -1;
	assert_int_equal(fm_template_spans(&t, &l, 0, out), -1);
	t.bytes.num = 1;
	t.from.plus = INT64_MAX;
	assert_int_equal(fm_template_spans(&t, &l, 0, out), -1);
	t.from = zero;
	t.bytes.of[1].at = 8; /* beyond the parameters */
	assert_int_equal(fm_template_spans(&t, &l, 0, out), -1);
	assert_int_equal(fm_template_spans(&t, &large, 0, out), 0); /* times 0 */
	params[1] = UINT64_C(1) << 63;
	t.bytes.n = 1;
	t.bytes.of[0].at = 8;
	assert_int_equal(fm_template_spans(&t, &large, 0, out), -1);

	t = (struct fm_template){.form = FM_FORM_STRIDED, .from = zero, .bytes = one, .step = one};
	t.count = (struct fm_linear){.den = 1, .plus = 65};
	assert_int_equal(fm_template_spans(&t, &l, 0, out), 1);
	assert_int_equal(out[0].to, 65);
	t.count.plus = INT64_MAX;
	t.step.plus = 3;
	assert_int_equal(fm_template_spans(&t, &l, 0, out), -1);
	t.step.plus = 0;
	assert_int_equal(fm_template_spans(&t, &l, 0, out), -1);
	t.count.plus = -1;
	assert_int_equal(fm_template_spans(&t, &l, 0, out), -1);
}

/* --- files --- */

static char *good_text(size_t *size)
{
	struct fm_template linear = draw_template(FM_FORM_LINEAR);
	struct fm_template strided = draw_template(FM_FORM_STRIDED);
	struct fm_fit *f = fm_fit_new();
	struct fm_span span[FM_TEMPLATE_SPANS];
	struct launch l;
	char *text;

	for (unsigned i = 0; i < LAUNCHES; i++) {
		struct fm_launch as;
		int n;

		draw_launch(&l);
		as = view(&l);
		observe_true(f, &linear, &l);
		n = fm_template_spans(&strided, &as, 0, span);
		assert_int_equal(observe(f, "s\"\\t", &l, span, (unsigned)n), 0);
		if (i < 3)
			assert_int_equal(observe(f, "memo", &l, span, i), 0);
	}
	text = printed(f, size);
	fm_fit_free(f);
	return text;
}

static void refuse(const char *text, size_t size, const char *why)
{
	struct fm_err err = {0};
	struct fm_templates t;

	if (fm_templates_parse(&t, IMAGE, "f", text, size, &err) != -EINVAL)
		fail_msg("taken: %.*s", (int)size, text);
	assert_int_equal(err.code, -EINVAL);
	assert_true(!strncmp(err.text, "f:", 2) && err.hint[0]);
	if (why && !strstr(err.text, why))
		fail_msg("%s: not %s", err.text, why);
	assert_int_equal(t.n, 0);
}

static void test_files_that_are_cut_off(void **s)
{
	struct fm_err err = {0};
	struct fm_templates t;
	size_t size;
	char *text = good_text(&size);

	assert_int_equal(fm_templates_parse(&t, IMAGE, "f", text, size, &err), 0);
	assert_int_equal(t.n, 3);
	assert_non_null(fm_templates_find(&t, "s\"\\t"));
	assert_null(fm_templates_find(&t, "s"));
	fm_templates_free(&t);
	for (size_t n = 0; n < size; n++)
		refuse(text, n, NULL);
	free(text);
}

#define HEAD(n) "{\"fermata_kernels\":1,\"image\":\"" IMAGE "\",\"kernels\":" n "}\n"
#define KERNEL(pointers) \
	"{\"kernel\":\"k\",\"size\":64,\"launches\":1,\"failed\":0,\"pointers\":[" pointers "]}\n"
#define FIXED(at) "{\"at\":" at ",\"form\":\"fixed\",\"from\":0,\"bytes\":1}"
#define OF(of)                                                                                \
	"{\"at\":0,\"form\":\"linear\",\"from\":0,\"bytes\":{\"num\":1,\"den\":1,\"of\":[" of \
	"],\"plus\":0}}"
static void test_bad_files(void **s)
{
	static const struct {
		const char *text, *why;
	} bad[] = {
		{"", "ends too early"},
		{"{\"fermata_kernels\":2,", "version 1"},
		{"{\"fermata_kernels\":1,\"image\":\"" OTHER "\"", "another image"},
		{HEAD("1000000000"), "out of range"},
		{HEAD("99999999999999999999"), "too large"},
		{HEAD("2") KERNEL(""), "ends too early"},
		{HEAD("0") KERNEL(""), "more than the first line"},
		{HEAD("2") KERNEL("") KERNEL(""), "do not rise"},
		{HEAD("01"), "number is missing"},
		{HEAD("1") "{\"kernel\":\"\"", "no name"},
		{HEAD("1") "{\"kernel\":\"a b\"", "other characters"},
		{HEAD("1") "{\"kernel\":\"k\",\"size\":4097", "out of range"},
		{HEAD("1") "{\"kernel\":\"k\",\"size\":8,\"launches\":1,\"failed\":2,", "failed"},
		{HEAD("1") KERNEL("{\"at\":0,\"form\":\"good\"}"), "no form"},
		{HEAD("1") KERNEL(FIXED("64")), "not within the parameters"},
		{HEAD("1") KERNEL(FIXED("4")), "not within the parameters"},
		{HEAD("1") KERNEL(FIXED("8") "," FIXED("8")), "out of range"},
		{HEAD("1") KERNEL("{\"at\":0,\"form\":\"box\"}"), "not within the parameters"},
		{HEAD("1") KERNEL(OF("\"u32@61\"")), "scalar"},
		{HEAD("1") KERNEL(OF("\"u32@64\"")), "scalar"},
		{HEAD("1") KERNEL(OF("\"u64@60\"")), "scalar"},
		{HEAD("1") KERNEL(OF("\"grid.w\"")), "axis"},
		{HEAD("1") KERNEL(OF("")), "not what"},
		{HEAD("1") KERNEL(OF("\"u32@8\",\"u32@8\",\"u32@8\",\"u32@8\"")), "three"},
		{HEAD("1") KERNEL("{\"at\":0,\"form\":\"memo\",\"seen\":[{\"key\":"
				  "\"00000000000000zz\""),
			"hexadecimal"},
		{HEAD("1") KERNEL("{\"at\":0,\"form\":\"memo\",\"seen\":[{\"key\":"
				  "\"0000000000000000\",\"spans\":[[5,5]]}]}"),
			"do not rise"},
	};

	for (unsigned i = 0; i < FM_ARRAY_LEN(bad); i++)
		refuse(bad[i].text, strlen(bad[i].text), bad[i].why);
}

/* Any byte that changes gives another file that is understood, or none. */
static void test_changed_files(void **s)
{
	size_t size;
	char *text = good_text(&size);

	for (unsigned i = 0; i < 20000; i++) {
		size_t at = drawn(size);
		char was = text[at];
		struct fm_templates t;
		struct fm_err err;

		text[at] = (char)drawn(256);
		if (!fm_templates_parse(&t, IMAGE, "f", text, size, &err))
			fm_templates_free(&t);
		text[at] = was;
	}
	free(text);
}

static int load(const char *dir, struct fm_err *err)
{
	struct fm_templates t;
	int rc = fm_templates_load(&t, IMAGE, dir, NULL, err);

	fm_templates_free(&t);
	return rc;
}

static void is_as_large_as_said(const char *dir, const char *file)
{
	struct fm_err err = {0};
	struct fm_templates t;
	struct stat st;
	size_t room;

	assert_int_equal(stat(file, &st), 0);
	room = (size_t)st.st_size - 1;
	assert_int_equal(fm_templates_load(&t, IMAGE, dir, &room, &err), -EFBIG);
	assert_int_equal(room, st.st_size - 1);
	room = (size_t)st.st_size + 7;
	assert_int_equal(fm_templates_load(&t, IMAGE, dir, &room, &err), 0);
	assert_int_equal(room, 7);
	fm_templates_free(&t);
}

static void test_folders(void **s)
{
	char dir[] = "/tmp/fermata-templates-XXXXXX", file[128], link[128];
	struct fm_template truth = draw_template(FM_FORM_FIXED);
	struct fm_fit *f = fm_fit_new();
	struct fm_err err = {0};
	struct launch l;

	assert_non_null(mkdtemp(dir));
	snprintf(file, sizeof(file), "%s/" IMAGE ".jsonl", dir);
	snprintf(link, sizeof(link), "%s/" OTHER ".jsonl", dir);
	draw_launch(&l);
	observe_true(f, &truth, &l);
	assert_int_equal(load(dir, &err), -ENOENT);
	assert_int_equal(fm_fit_write(f, "/tmp/no such folder", &err), -ENOENT);
	assert_int_equal(fm_fit_write(f, dir, &err), 0);
	assert_int_equal(fm_fit_write(f, dir, &err), 0); /* in the place of the first */
	assert_int_equal(load(dir, &err), 0);
	is_as_large_as_said(dir, file);
	chmod(file, 0664);
	assert_int_equal(load(dir, &err), -EPERM);
	assert_non_null(strstr(err.hint, "chmod"));
	chmod(file, 0644);
	chmod(dir, 0777);
	assert_int_equal(load(dir, &err), -EPERM);
	chmod(dir, 0755);
	if (geteuid() == 0) {
		assert_int_equal(chown(file, 4242, 4242), 0);
		assert_int_equal(load(dir, &err), -EPERM);
	}
	assert_int_equal(rename(file, link), 0);
	assert_int_equal(symlink(link, file), 0);
	assert_int_equal(load(dir, &err), -EPERM);
	unlink(file);
	assert_int_equal(mkfifo(file, 0600), 0);
	assert_int_equal(load(dir, &err), -EINVAL);
	unlink(file);
	unlink(link);
	assert_int_equal(rmdir(dir), 0);
	fm_fit_free(f);
}

static void test_image_ids(void **s)
{
	char a[FM_IMAGE_ID], b[FM_IMAGE_ID];

	fm_image_id(a, "one", 3);
	fm_image_id(b, "two", 3);
	assert_int_equal(strlen(a), 32);
	assert_int_equal(strspn(a, "0123456789abcdef"), 32);
	assert_string_not_equal(a, b);
	fm_image_id(b, "one", 3);
	assert_string_equal(a, b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_extents),
		cmocka_unit_test(test_extents_close),
		cmocka_unit_test(test_drawn_templates_are_recovered),
		cmocka_unit_test(test_fractions),
		cmocka_unit_test(test_noise_is_refused),
		cmocka_unit_test(test_memo),
		cmocka_unit_test(test_few_launches_make_no_rule),
		cmocka_unit_test(test_order_does_not_matter),
		cmocka_unit_test(test_tensor_maps_are_boxes),
		cmocka_unit_test(test_bad_observations),
		cmocka_unit_test(test_overflow_foretells_nothing),
		cmocka_unit_test(test_files_that_are_cut_off),
		cmocka_unit_test(test_bad_files),
		cmocka_unit_test(test_changed_files),
		cmocka_unit_test(test_folders),
		cmocka_unit_test(test_image_ids),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
