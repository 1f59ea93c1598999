/* SPDX-License-Identifier: Apache-2.0 */
/* From marks to spans behind pointers, and records that make no sense. */
#include "profile/against.h"
#include "profile/profile.h"
#include "profile/spans.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* last */
#include <cmocka.h>

#define CELLS (4 * FM_TOUCHED_CELLS)

static struct fm_touched *new_table(const struct fm_touched_region *r, unsigned n)
{
	struct fm_touched *t = calloc(1, sizeof(*t) + CELLS * sizeof(t->cell[0]));
	uint32_t first = 0;

	assert_non_null(t);
	for (unsigned i = 0; i < n; i++) {
		t->region[i] = r[i];
		t->region[i].shift = fm_touched_shift(r[i].size);
		t->region[i].first = first;
		first += fm_touched_cells(&t->region[i]);
	}
	assert_true(first <= CELLS);
	t->n = n;
	return t;
}

static void spans_of(struct fm_word *w, unsigned n, const struct fm_touched *t)
{
	struct fm_ranges touched = {0};

	fm_ranges_marked(&touched, t);
	fm_words_spans(w, n, t, &touched);
	assert_false(touched.failed);
	fm_ranges_free(&touched);
}

static void assert_span(const struct fm_word *w, unsigned i, int64_t from, int64_t to)
{
	assert_true(i < w->n);
	assert_int_equal(w->span[i].from, from);
	assert_int_equal(w->span[i].to, to);
}

/* Granules grow with the region, and there are never too many. */
static void granules(void **state)
{
	for (uint64_t size = 1; size < UINT64_C(1) << 42; size = size * 3 + 7) {
		struct fm_touched_region r = {.size = size, .shift = fm_touched_shift(size)};

		assert_in_range(fm_touched_cells(&r), 1, FM_TOUCHED_CELLS);
		assert_true(r.shift == FM_TOUCHED_FINEST ||
			    (size - 1) >> (r.shift - 1) >= FM_TOUCHED_CELLS);
	}
}

/* Ends are exact, whatever the granules; holes as large as one are seen. */
static void ends_are_exact(void **state)
{
	struct fm_touched *t =
		new_table((struct fm_touched_region[]){{.at = 0x10000, .size = 100000}}, 1);
	struct fm_word w = {.value = 0x10000 + 1000};

	fm_touched_mark(t, 0x10000 + 1003, 1);
	fm_touched_mark(t, 0x10000 + 1004, 5000);
	fm_touched_mark(t, 0x10000 + 9000, 4);
	fm_touched_mark(t, 0x10000 + 99999, 100); /* what is behind the region is not counted */
	fm_touched_mark(t, 0x10000 + 200000, 4);
	spans_of(&w, 1, t);
	assert_int_equal(w.n, 3);
	assert_span(&w, 0, 3, 5004);
	assert_span(&w, 1, 8000, 8004);
	assert_span(&w, 2, 98999, 99000);
	assert_int_equal(t->outside, 1);
	free(t);
}

/* A byte belongs to the last pointer in front of it; what is in front of all, to the first. */
static void whose_it_is(void **state)
{
	struct fm_touched *t = new_table((struct fm_touched_region[]){{.at = 4096, .size = 8192},
						 {.at = 1 << 20, .size = 4096}},
		2);
	struct fm_word w[] = {{.value = 4096 + 4096}, {.value = 4096 + 1024},
		{.value = 4096 + 4096}, {.value = 1 << 20, .region = 1},
		{.value = 4096, .map = true, .n = 1}};

	fm_touched_mark(t, 4096, 8);           /* in front of all */
	fm_touched_mark(t, 4096 + 1024, 7168); /* over both */
	spans_of(w, 5, t);
	assert_int_equal(w[1].n, 2);
	assert_span(&w[1], 0, -1024, -1016);
	assert_span(&w[1], 1, 0, 3072);
	assert_int_equal(w[0].n, 1);
	assert_span(&w[0], 0, 0, 4096);
	assert_span(&w[2], 0, 0, 4096);
	assert_int_equal(w[3].n, 0);
	assert_int_equal(w[4].n, 1); /* of a map: as it was */
	assert_ptr_equal(fm_words_owner(w, 5, t, 4096 + 5000), &w[0]);
	assert_ptr_equal(fm_words_owner(w, 5, t, 4096 + 10), &w[1]);
	assert_null(fm_words_owner(w, 5, t, 4096 + 8192));
	free(t);
}

/* Too many pieces are joined, the same way from one end to the other. */
static void many_pieces(void **state)
{
	struct fm_touched *t =
		new_table((struct fm_touched_region[]){{.at = 1 << 20, .size = 1 << 20}}, 1);
	struct fm_word w = {.value = 1 << 20};

	for (unsigned i = 0; i < 100; i++)
		fm_touched_mark(t, (1 << 20) + i * 4096, 4);
	fm_touched_mark(t, (1 << 20) + 900000, 4);
	spans_of(&w, 1, t);
	assert_int_equal(w.n, 2);
	assert_span(&w, 0, 0, 99 * 4096 + 4);
	assert_span(&w, 1, 900000, 900004);
	free(t);
}

static void misses(void **state)
{
	struct fm_ranges r = {0};

	fm_ranges_append(&r, 10, 20);
	fm_ranges_append(&r, 20, 25);
	fm_ranges_append(&r, 40, 50);
	assert_int_equal(r.n, 2);
	assert_true(fm_ranges_miss(&r, 0, 10));
	assert_true(fm_ranges_miss(&r, 25, 40));
	assert_true(fm_ranges_miss(&r, 50, 60));
	assert_false(fm_ranges_miss(&r, 24, 26));
	assert_false(fm_ranges_miss(&r, 0, 100));
	fm_ranges_free(&r);
}

/* --- records --- */

struct launch {
	struct fm_record head;
	struct fm_record_launch launch;
	struct fm_record_pointer pointer[2];
	struct fm_record_span span[3];
	char params[24], name[8];
};

static struct launch a_launch(void)
{
	struct launch l = {.head = {.magic = FM_RECORD_MAGIC,
				   .version = FM_RECORD_VERSION,
				   .kind = FM_RECORD_LAUNCH,
				   .bytes = sizeof(l) - sizeof(l.head)},
		.launch = {.size = 24, .name = 4, .n = 2, .spans = 3},
		.pointer = {{.at = 0, .n = 1, .after = 100}, {.at = 16, .n = 2, .after = 200}},
		.span = {{0, 50}, {-8, 8}, {16, 32}},
		.name = "fill"};

	memset(l.launch.image, 'a', FM_PROFILE_IMAGE - 1);
	return l;
}

static void sums(void **state)
{
	struct launch l[2] = {a_launch(), a_launch()};
	struct fm_profile p = {0};
	const struct fm_profile_kernel *k;

	l[1].span[0].to = 70;
	l[1].launch.flags = FM_LAUNCH_OUTSIDE;
	assert_int_equal(fm_profile_add(&p, l, sizeof(l), NULL, NULL), 0);
	assert_int_equal(p.n, 1);
	assert_int_equal(p.broken, 0);
	k = fm_profile_find(&p, l[0].launch.image, "fill");
	assert_non_null(k);
	assert_null(fm_profile_find(&p, l[0].launch.image, "fil"));
	assert_int_equal(k->launches, 2);
	assert_int_equal(k->outside, 1);
	assert_int_equal(k->pointer[0].bytes, 120);
	assert_int_equal(k->pointer[0].behind, 200);
	assert_int_equal(k->pointer[1].at, 16);
	assert_int_equal(k->pointer[1].n, 2);
	fm_profile_free(&p);
}

static void refuse(struct launch *l, size_t size)
{
	struct fm_profile p = {0};

	assert_int_equal(fm_profile_add(&p, l, size, NULL, NULL), 0);
	assert_int_equal(p.n, 0);
	assert_int_equal(p.broken, 1);
	fm_profile_free(&p);
	*l = a_launch();
}

/* What the program may have written is not believed. */
static void nonsense(void **state)
{
	struct launch l = a_launch();

	for (size_t cut = 1; cut < sizeof(l); cut++)
		refuse(&l, cut);
#define REFUSED(change) \
	change;         \
	refuse(&l, sizeof(l))
	REFUSED(l.head.magic++);
	REFUSED(l.name[1] = '\n');
	REFUSED(l.name[2] = '\x1b');
	REFUSED(l.name[0] = (char)0xc3);
	REFUSED(l.head.version++);
	REFUSED(l.head.kind = 9);
	REFUSED(l.head.bytes += 8);
	REFUSED(l.head.bytes -= 4);
	REFUSED(l.launch.n = 3);
	REFUSED(l.launch.n = UINT32_MAX);
	REFUSED(l.launch.spans = UINT32_MAX);
	REFUSED(l.launch.spans = 2);
	REFUSED(l.launch.size = UINT32_MAX);
	REFUSED(l.launch.name = 0);
	REFUSED(l.launch.name = 5); /* with a zero in it */
	REFUSED(l.launch.source = FM_SOURCES);
	REFUSED(l.launch.image[3] = '/');
	REFUSED(l.launch.image[31] = 0);
	REFUSED(l.pointer[1].at = 24);
	REFUSED(l.pointer[1].at = 12);
	REFUSED(l.pointer[1].at = 0);
	REFUSED(l.pointer[1].n = 3);
	REFUSED(l.pointer[0].after = UINT64_MAX);
	REFUSED(l.span[2].from = 8);
	REFUSED(l.span[0].to = 0);
}

/* --- beside templates --- */

#define MIB 1048576

/* A launch with two pointers to one allocation of 16 MiB, at 1 and 9 MiB, and a tensor map. */
static struct fm_against_sums beside(const struct fm_kernel_templates *of, int64_t first_to)
{
	static const uint64_t params[2 + 6 + 16] = {0x10100000, 0x10900000};
	const struct fm_record_launch h = {
		.grid = {2, 1, 1}, .block = {1, 1, 1}, .size = sizeof(params), .n = 3, .spans = 4};
	const struct fm_record_pointer pointer[] = {
		{.at = 0, .n = 1, .before = 1 * MIB, .after = 15 * MIB},
		{.at = 8, .n = 2, .before = 9 * MIB, .after = 7 * MIB},
		{.at = 64, .n = 1, .map = 1, .before = 0, .after = 64 * MIB},
	};
	const struct fm_record_span span[] = {
		{-MIB, first_to}, {-1, 1}, {7 * MIB - 1, 7 * MIB}, {0, 4 * MIB}};
	const struct fm_profile_launch l = {&h, pointer, span, params, "k"};
	struct fm_against_sums sums = {0};

	assert_int_equal(fm_against_add(&sums, &l, of), 0);
	assert_int_equal(sums.launches, 1);
	return sums;
}

static void assert_sums(struct fm_against_sums s, uint64_t touched, uint64_t foretold,
	uint64_t missed, uint64_t vain)
{
	assert_int_equal(s.touched, touched);
	assert_int_equal(s.foretold, foretold);
	assert_int_equal(s.missed, missed);
	assert_int_equal(s.vain, vain);
}

static void templates_beside(void **state)
{
	struct fm_template at[] = {
		{.at = 0,
			.form = FM_FORM_FIXED,
			.from = {.den = 1, .plus = -MIB},
			.bytes = {.den = 1, .plus = MIB}},
		{.at = 8,
			.form = FM_FORM_LINEAR,
			.from = {.den = 1},
			.bytes = {.num = MIB, .den = 1, .n = 1, .of = {{FM_OPERAND_GRID, 0}}}},
		{.at = 64, .form = FM_FORM_BOX},
	};
	struct fm_kernel_templates of = {.name = (char[]){"k"}, .size = 192, .n = 3, .pointer = at};

	/* 0; 4 and 7; the map's two. None: all eight of the allocation. */
	assert_sums(beside(NULL, 0), 5, 10, 0, 5);
	/* 0; 4 and 5. */
	assert_sums(beside(&of, 0), 5, 5, 1, 1);
	/* A chunk that both pointers touch is one. */
	assert_sums(beside(&of, 8 * MIB), 8, 5, 4, 1);
	/* Beyond the allocation it is nobody's. */
	assert_sums(beside(&of, INT64_MAX), 10, 5, 5, 0);
	/* A template that leads outside of it, and products that do not fit, foretell all. */
	at[1].bytes.num = 4 * MIB;
	assert_sums(beside(&of, 0), 5, 10, 0, 5);
	at[1].bytes.num = INT64_MAX;
	assert_sums(beside(&of, 0), 5, 10, 0, 5);
	/* So do those of a kernel with other parameters. */
	at[1].bytes.num = 0;
	assert_sums(beside(&of, 0), 5, 3, 2, 0);
	of.size = 200;
	assert_sums(beside(&of, 0), 5, 10, 0, 5);

	assert_int_equal(fm_against_form(&of), FM_AGAINST_LINEAR);
	at[0].form = FM_FORM_MEMO;
	assert_int_equal(fm_against_form(&of), FM_AGAINST_MEMO);
	of.n = 0;
	assert_int_equal(fm_against_form(&of), FM_AGAINST_NOTHING);
	assert_int_equal(fm_against_form(NULL), FM_AGAINST_UNKNOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(granules),
		cmocka_unit_test(ends_are_exact),
		cmocka_unit_test(whose_it_is),
		cmocka_unit_test(many_pieces),
		cmocka_unit_test(misses),
		cmocka_unit_test(sums),
		cmocka_unit_test(nonsense),
		cmocka_unit_test(templates_beside),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
