/* SPDX-License-Identifier: Apache-2.0 */
/* Which memory is named: words of parameters, copies, tables of pointers, tensor maps; and turns.
 */
#include "predict/args.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BASE  (UINT64_C(0x700000) << 21)
#define PAGES 64u
#define AT(p) (BASE + (p)*FM_TOUCH_PAGE)

static struct fm_tensor_maps maps;
static struct fm_shapes shapes;

/* Blocks of 1, 4 and 8 pages, and one of a page. Nothing of them is named in the present turn. */
static struct fm_touch *make(void)
{
	struct fm_touch *t = calloc(1, sizeof(*t));

	assert_non_null(t);
	assert_int_equal(fm_touch_init(t, BASE, PAGES * FM_TOUCH_PAGE), 0);
	t->maps = &maps;
	fm_touch_block(t, 0, 1);
	fm_touch_block(t, 4, 4);
	fm_touch_block(t, 8, 8);
	fm_touch_block(t, 20, 1);
	fm_touch_turn(t);
	return t;
}

static void end(struct fm_touch *t)
{
	fm_touch_free(t);
	free(t);
}

static bool named(const struct fm_touch *t, uint32_t page)
{
	return fm_touch_last(t, page, 1) >= fm_touch_since(t, 1);
}

static void a_word_names_its_block(void **state)
{
	struct fm_touch *t = make();

	(void)state;
	assert_false(named(t, 0) || named(t, 4) || named(t, 8));
	fm_touch_word(t, AT(6) + 12345);
	for (uint32_t i = 4; i < 8; i++)
		assert_true(named(t, i));
	assert_false(named(t, 0) || named(t, 8));
	end(t);
}

static void others_name_nothing(void **state)
{
	struct fm_touch *t = make();
	const uint64_t words[] = {
		0, 1, BASE - 1, BASE + PAGES * FM_TOUCH_PAGE, UINT64_MAX, AT(1), AT(63)};

	(void)state;
	fm_touch_words(t, words, FM_ARRAY_LEN(words));
	fm_touch_range(t, BASE - 8, 8);
	fm_touch_range(t, AT(0), 0);
	for (uint32_t i = 0; i < PAGES; i++)
		assert_false(named(t, i));
	assert_int_equal(fm_touch_turn(t), 2); /* so it was no turn */
	end(t);
}

static void a_copy_names_its_pages(void **state)
{
	struct fm_touch *t = make();

	(void)state;
	fm_touch_range(t, AT(9) + 5, FM_TOUCH_PAGE);
	assert_true(named(t, 9) && named(t, 10));
	assert_false(named(t, 8) || named(t, 11));
	fm_touch_range(t, AT(15), UINT64_MAX);
	assert_true(named(t, 15) && named(t, 20));
	end(t);
}

static void turns_pass(void **state)
{
	struct fm_touch *t = make();

	(void)state;
	assert_int_equal(fm_touch_last(t, 4, 4), 1);
	for (int i = 0; i < 5; i++)
		assert_int_equal(fm_touch_turn(t), 2); /* nothing is named */
	fm_touch_word(t, AT(4));
	assert_int_equal(fm_touch_turn(t), 3);
	fm_touch_word(t, AT(8));
	assert_int_equal(fm_touch_turn(t), 4);
	assert_int_equal(fm_touch_last(t, 0, PAGES), 3);
	assert_int_equal(fm_touch_since(t, 3), 2);
	assert_int_equal(fm_touch_since(t, 9), 1);
	assert_true(fm_touch_known(t, 1));
	fm_touch_all(t);
	assert_false(fm_touch_known(t, fm_touch_since(t, 1)));
	assert_int_equal(fm_touch_turn(t), 5);
	assert_true(fm_touch_known(t, fm_touch_since(t, 1)));
	assert_false(fm_touch_known(t, fm_touch_since(t, 2)));
	end(t);
}

static void what_is_kept_is_no_turn(void **state)
{
	struct fm_touch *t = make();

	(void)state;
	fm_touch_keep(t, AT(9));
	fm_touch_keep(t, AT(1)); /* nothing is there */
	fm_touch_keep(t, 7);
	assert_true(named(t, 8));
	assert_int_equal(fm_touch_turn(t), 2);
	end(t);
}

static void what_is_gone_is_not_named(void **state)
{
	struct fm_touch *t = make();

	(void)state;
	fm_touch_gone(t, 4, 4);
	fm_touch_word(t, AT(5));
	assert_false(named(t, 5));
	fm_touch_block(t, 4, 2);
	assert_true(named(t, 4) && named(t, 5)); /* as new */
	assert_false(named(t, 6));
	end(t);
}

/* --- parameters --- */

static const struct fm_shape *shape_of(const void *f, const size_t (*param)[2], size_t n)
{
	struct fm_shape_making m = {0};

	for (size_t i = 0; i < n; i++)
		fm_shape_add(&m, i, param[i][0], param[i][1]);
	return fm_shapes_put(&shapes, f, &m);
}

static void parameters_by_pointers(void **state)
{
	/* An integer, a pointer, a struct at 20 of which a word is aligned, and a byte. */
	static const size_t param[][2] = {{0, 4}, {8, 8}, {20, 16}, {36, 1}};
	struct fm_touch *t = make();
	uint32_t number = 7;
	uint64_t pointer = AT(4), within = AT(8) + 8;
	char packed[16] = {0};
	void *params[] = {&number, &pointer, packed, NULL};
	const struct fm_shape *s = shape_of((void *)0x1000, param, 4);

	(void)state;
	memcpy(packed + 4, &within, 8);
	assert_non_null(s);
	assert_int_equal(s->n, 2);
	fm_touch_params(t, s, params);
	assert_true(named(t, 4) && named(t, 8));
	assert_false(named(t, 0));
	params[1] = NULL; /* the driver says what that is */
	fm_touch_params(t, s, params);
	end(t);
}

static void parameters_in_a_buffer(void **state)
{
	struct fm_touch *t = make();
	uint64_t buffer[4] = {1, AT(4) + 1, 3, AT(8)};

	(void)state;
	fm_touch_buffer(t, (char *)buffer, sizeof(buffer) - 1); /* the last one is no word */
	assert_true(named(t, 4));
	assert_false(named(t, 8));
	end(t);
}

static void shapes_are_found_by_function(void **state)
{
	static const size_t one[][2] = {{0, 8}}, two[][2] = {{0, 8}, {8, 8}};
	const struct fm_shape *a = shape_of((void *)0x2000, one, 1);

	(void)state;
	assert_ptr_equal(shape_of((void *)0x3000, one, 1), a); /* one for both */
	assert_ptr_not_equal(shape_of((void *)0x4000, two, 2), a);
	assert_ptr_equal(fm_shapes_find(&shapes, (void *)0x2000), a);
	assert_ptr_equal(fm_shapes_find(&shapes, (void *)0x3000), a);
	assert_null(fm_shapes_find(&shapes, (void *)0x5000));
	fm_shapes_unknown(&shapes, (void *)0x5000);
	assert_ptr_equal(fm_shapes_find(&shapes, (void *)0x5000), FM_SHAPE_UNKNOWN);
	fm_shapes_unknown(&shapes, NULL);
	assert_int_equal(shape_of((void *)0x5000, NULL, 0)->n, 0);
	assert_ptr_not_equal(shape_of((void *)0x6000, NULL, 0), FM_SHAPE_UNKNOWN);
	fm_shapes_forget(&shapes);
	assert_null(fm_shapes_find(&shapes, (void *)0x2000));
	assert_null(shape_of((void *)(UINT64_MAX - 8), one, 1)); /* no handle is like that */
	assert_null(shape_of(NULL, one, 1));
}

static void many_functions(void **state)
{
	static const size_t one[][2] = {{0, 8}};
	unsigned found = 0;

	(void)state;
	for (uintptr_t i = 1; i <= 4096; i++)
		assert_non_null(shape_of((void *)(i * 176), one, 1));
	for (uintptr_t i = 1; i <= 4096; i++)
		found += fm_shapes_find(&shapes, (void *)(i * 176)) != NULL;
	assert_true(found > 3500);
	fm_shapes_forget(&shapes);
}

static void shapes_have_bounds(void **state)
{
	struct fm_shape_making m = {0};

	(void)state;
	fm_shape_add(&m, 65536, 0, 8);
	assert_true(m.failed);
	assert_null(fm_shapes_put(&shapes, (void *)0x6000, &m));
	for (size_t i = 0; i < FM_SHAPES + 10; i++) {
		const size_t param[][2] = {{0, 8 * (i % 4000 + 1)}, {i / 4000 * 8, 8}};
		const struct fm_shape *s = shape_of((void *)0x7000, param, 2);

		assert_true(s || i > FM_SHAPES - 10);
	}
	fm_shapes_forget(&shapes);
}

/* --- words that are looked at later --- */

static void count_word(void *sum, uint64_t word)
{
	*(uint64_t *)sum += word;
}

static void words_are_seen(void **state)
{
	static const size_t param[][2] = {{0, 4}, {8, 16}};
	struct fm_shape_making m = {0};
	uint64_t two[] = {5, 7}, sum = 0;
	const struct fm_shape *s;
	int number = 3;
	void *params[] = {&number, two};

	(void)state;
	for (size_t i = 0; i < 2; i++)
		fm_shape_add(&m, i, param[i][0], param[i][1]);
	s = fm_shapes_put(&shapes, (void *)0x9000, &m);
	fm_params_words(s, params, &maps, count_word, &sum);
	assert_int_equal(sum, 12);
	params[1] = NULL;
	fm_params_words(s, params, &maps, count_word, &sum);
	fm_buffer_words(two, 15, &maps, count_word, &sum);
	assert_int_equal(sum, 17);
}

/* --- tables of pointers --- */

static void a_table_names_what_it_points_at(void **state)
{
	struct fm_touch *t = make();
	uint64_t table[3] = {AT(4), 5, AT(9)};

	(void)state;
	fm_touch_points(t, AT(0) + 512, table, sizeof(table));
	assert_false(named(t, 4) || named(t, 8));
	fm_touch_word(t, AT(0));
	assert_true(named(t, 0) && named(t, 4) && named(t, 8));
	assert_false(named(t, 20));
	fm_touch_turn(t);
	table[0] = table[2] = 0;
	fm_touch_points(t, AT(0) + 512, table, sizeof(table)); /* no more */
	fm_touch_word(t, AT(0));
	assert_false(named(t, 4) || named(t, 8));
	end(t);
}

static void tables_of_tables(void **state)
{
	struct fm_touch *t = make();
	const uint64_t first = AT(4), second = AT(8), back = AT(0);

	(void)state;
	fm_touch_points(t, AT(0), &first, 8);
	fm_touch_points(t, AT(4), &second, 8);
	fm_touch_points(t, AT(8), &back, 8); /* a ring */
	fm_touch_word(t, AT(0));
	assert_true(named(t, 4) && named(t, 8));
	assert_true(fm_touch_known(t, 1));
	end(t);
}

/* There are 31^3 ways of three steps. */
static void tables_that_point_at_each_other(void **state)
{
	struct fm_touch *t = make();
	uint64_t table[FM_TOUCH_TARGETS];

	(void)state;
	for (uint32_t i = 0; i < FM_ARRAY_LEN(table); i++) {
		fm_touch_block(t, 24 + i, 1);
		table[i] = AT(24 + i);
	}
	for (uint32_t i = 0; i < FM_ARRAY_LEN(table); i++)
		fm_touch_points(t, table[i], table, sizeof(table));
	fm_touch_turn(t);
	assert_true(fm_touch_known(t, fm_touch_since(t, 1)));
	fm_touch_word(t, AT(24));
	assert_false(fm_touch_known(t, fm_touch_since(t, 1)));
	end(t);
}

static void too_many_pointers(void **state)
{
	struct fm_touch *t = make();
	uint64_t table[FM_TOUCH_TARGETS + 1], one = AT(4);

	(void)state;
	for (uint32_t i = 0; i < FM_ARRAY_LEN(table); i++) {
		fm_touch_block(t, 24 + i, 1);
		table[i] = AT(24 + i);
	}
	fm_touch_turn(t);
	fm_touch_points(t, AT(0), table, sizeof(table));
	fm_touch_word(t, AT(20));
	assert_true(fm_touch_known(t, fm_touch_since(t, 1)));
	fm_touch_word(t, AT(0)); /* to more than is remembered */
	assert_false(fm_touch_known(t, fm_touch_since(t, 1)));
	fm_touch_turn(t);
	for (uint32_t i = 0; i < 100; i++)
		fm_touch_points(t, AT(20) + 8 * i, &one, 8);
	fm_touch_word(t, AT(20)); /* more tables than are remembered */
	assert_false(fm_touch_known(t, fm_touch_since(t, 1)));
	fm_touch_gone(t, 20, 1);
	fm_touch_block(t, 20, 1);
	fm_touch_turn(t);
	fm_touch_word(t, AT(20));
	assert_false(named(t, 4));
	assert_true(fm_touch_known(t, fm_touch_since(t, 1)));
	end(t);
}

static void a_table_is_copied(void **state)
{
	struct fm_touch *t = make();
	const uint64_t to = AT(4);

	(void)state;
	fm_touch_points(t, AT(0) + 64, &to, 8);
	fm_touch_copied(t, AT(20), 64, AT(0));
	fm_touch_word(t, AT(20));
	assert_true(fm_touch_known(t, fm_touch_since(t, 1))); /* the table lies behind it */
	fm_touch_copied(t, AT(20), 128, AT(0));
	fm_touch_word(t, AT(20));
	assert_false(fm_touch_known(t, fm_touch_since(t, 1)));
	fm_touch_turn(t);
	fm_touch_copied(t, AT(0), 4096, 0); /* a fill */
	fm_touch_word(t, AT(0));
	assert_false(named(t, 4));
	end(t);
}

/* --- tensor maps --- */

static void maps_name_their_memory(void **state)
{
	static const size_t param[][2] = {{0, 64 + 128}};
	struct fm_touch *t = make();
	unsigned char what[192], map[128];
	void *params[] = {what};
	const struct fm_shape *s = shape_of((void *)0x8000, param, 1);

	(void)state;
	memset(what, 9, sizeof(what));
	memset(map, 0x5a, sizeof(map));
	fm_touch_params(t, s, params);
	fm_tensor_map_put(&maps, map, AT(8), 0);
	fm_touch_params(t, s, params);
	assert_false(named(t, 8));
	memcpy(what + 64, map, sizeof(map));
	fm_touch_params(t, s, params);
	assert_true(named(t, 8));
	fm_touch_turn(t);
	fm_touch_buffer(t, what, sizeof(what));
	assert_true(named(t, 8));
	fm_touch_turn(t);
	fm_touch_points(t, AT(0), what, sizeof(what)); /* it is in device memory */
	assert_false(named(t, 8));
	fm_touch_word(t, AT(0));
	assert_true(named(t, 8));
	end(t);
}

/* Of any sizes and strides: as far as its last element, or 0 if that does not fit. */
static void tensor_maps_of_any_size(void **state)
{
	static const unsigned shift[] = {0, 1, 31, 32, 47, 61, 63};
	uint64_t drawn = 1, sizes[5], strides[4];
	unsigned fit = 0;

	(void)state;
	for (unsigned i = 0; i < 200000; i++) {
		unsigned rank = 1 + i % 5;
		unsigned __int128 reach;
		bool none = false;

		for (unsigned k = 0; k < 5; k++) {
			drawn = drawn * UINT64_C(6364136223846793005) + 1442695040888963407;
			sizes[k] = drawn >> 33 >> (i % 3 ? 20 : 0);
			sizes[k] <<= i % 7 ? 0 : shift[(drawn >> 20) % FM_ARRAY_LEN(shift)];
			none |= k < rank && !sizes[k];
			if (k < 4)
				strides[k] = (drawn << 20 >> 20) >> (i % 40);
		}
		reach = (unsigned __int128)sizes[0] * 4;
		for (unsigned k = 1; k < rank && !none; k++)
			reach += (unsigned __int128)(sizes[k] - 1) * strides[k - 1];
		if (none || reach > UINT64_MAX)
			reach = 0;
		fit += reach > 0;
		assert_true(fm_tensor_map_bytes(7, rank, sizes, strides) == reach);
	}
	assert_in_range(fit, 50000, 190000);
}

/* What a map reaches by its sizes and strides, and no more of the block, though an address of it
 * may stand in the map. */
static void a_tensor_map_names_its_box(void **state)
{
	static const uint64_t sizes[] = {1000, 100, 3}, strides[] = {4096, FM_TOUCH_PAGE},
			      large[] = {UINT64_MAX, 2}, none[] = {5, 0};
	const size_t param[][2] = {{0, 128}};
	unsigned char map[128];
	uint64_t bytes = fm_tensor_map_bytes(7, 3, sizes, strides), at = AT(9);
	void *params[] = {map};
	const struct fm_shape *s = shape_of((void *)0x9000, param, 1);
	struct fm_touch *t = make();

	(void)state;
	assert_int_equal(bytes, 4000 + 99 * 4096 + 2 * FM_TOUCH_PAGE);
	assert_int_equal(fm_tensor_map_bytes(0, 1, sizes, NULL), 1000);
	assert_int_equal(fm_tensor_map_bytes(0, 2, sizes, NULL), 0);
	assert_int_equal(fm_tensor_map_bytes(13, 1, sizes, NULL), 0); /* packed */
	assert_int_equal(fm_tensor_map_bytes(-1, 1, sizes, NULL), 0);
	assert_int_equal(fm_tensor_map_bytes(4, 1, large, strides), 0);
	assert_int_equal(fm_tensor_map_bytes(0, 2, large, strides), 0);
	assert_int_equal(fm_tensor_map_bytes(0, 2, none, strides), 0);
	assert_int_equal(fm_tensor_map_bytes(0, 6, sizes, strides), 0);
	memset(map, 0x5b, sizeof(map));
	memcpy(map, &at, 8);
	fm_tensor_map_put(&maps, map, at, bytes);
	t->parts = true;
	fm_touch_params(t, s, params);
	for (uint32_t i = 8; i < 16; i++)
		assert_int_equal(named(t, i), i >= 9 && i <= 11);
	t->parts = false;
	fm_touch_turn(t);
	fm_touch_params(t, s, params);
	assert_true(named(t, 8) && named(t, 15));
	end(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_word_names_its_block),
		cmocka_unit_test(tensor_maps_of_any_size),
		cmocka_unit_test(a_tensor_map_names_its_box),
		cmocka_unit_test(others_name_nothing),
		cmocka_unit_test(a_copy_names_its_pages),
		cmocka_unit_test(turns_pass),
		cmocka_unit_test(what_is_kept_is_no_turn),
		cmocka_unit_test(what_is_gone_is_not_named),
		cmocka_unit_test(parameters_by_pointers),
		cmocka_unit_test(parameters_in_a_buffer),
		cmocka_unit_test(shapes_are_found_by_function),
		cmocka_unit_test(many_functions),
		cmocka_unit_test(words_are_seen),
		cmocka_unit_test(a_table_names_what_it_points_at),
		cmocka_unit_test(tables_of_tables),
		cmocka_unit_test(tables_that_point_at_each_other),
		cmocka_unit_test(too_many_pointers),
		cmocka_unit_test(a_table_is_copied),
		cmocka_unit_test(maps_name_their_memory),
		cmocka_unit_test(shapes_have_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
