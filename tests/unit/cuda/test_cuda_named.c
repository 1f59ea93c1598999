/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which memory goes out and comes in: by when it was last named. */
#include "memory_world.h"

/* Is that block on the device? */
static bool is_here(CUdeviceptr p)
{
	struct fm_cu_chunk *c;

	fm_list_each (c, &a->chunks, all)
		if (p - c->at < fm_cu_chunk_size(c))
			return fm_cu_chunk_here(c);
	return false;
}

static void what_is_named_goes_last_and_comes_first(void **state)
{
	struct fm_touch *t;
	CUdeviceptr p[4];

	(void)state;
	start(400 * MIB);
	t = fm_cu_arena_touch(a);
	for (int i = 0; i < 4; i++)
		fill(p[i] = get(128 * MIB), 128 * MIB);
	fm_touch_turn(t);
	assert_int_equal(fm_cu_arena_hot(a, fm_touch_since(t, 1)), 0);
	fm_touch_word(t, p[0] + 64 * MIB);
	fm_touch_turn(t);
	fm_touch_range(t, p[2] + 5, 4096);
	assert_int_equal(fm_cu_arena_hot(a, fm_touch_since(t, 1)), 128 * MIB);
	assert_int_equal(fm_cu_arena_hot(a, fm_touch_since(t, 2)), 256 * MIB);
	assert_int_equal(fm_cu_move_out(m), -ENOMEM);
	assert_true(is_here(p[2]));
	assert_false(is_here(p[0]) || is_here(p[1]) || is_here(p[3]));
	dev.most = 256 * MIB;
	told.naps_most = told.naps + 100;
	assert_int_equal(fm_cu_move_in(m), -ENOMEM);
	assert_true(is_here(p[2]) && is_here(p[0]));
	told.naps_most = 1000000;
	dev.most = UINT64_MAX / 2;
	assert_int_equal(fm_cu_move_in(m), 0);
	for (int i = 0; i < 4; i++)
		check(p[i], 128 * MIB);
	fm_touch_all(t);
	assert_true(fm_cu_arena_hot(a, fm_touch_since(t, 1)) == UINT64_MAX);
	end();
}

static void small_blocks_are_named_by_page(void **state)
{
	struct fm_touch *t;
	CUdeviceptr p, q, large;
	uint64_t bytes;

	(void)state;
	start(400 * MIB);
	t = fm_cu_arena_touch(a);
	p = get(4096);
	q = get(8192);
	large = get(128 * MIB);
	fm_touch_turn(t);
	fm_touch_word(t, q);
	assert_int_equal(fm_cu_arena_hot(a, fm_touch_since(t, 1)), 2 * MIB);
	fm_touch_turn(t);
	give(q);
	fm_touch_word(t, q); /* nothing is there */
	assert_int_equal(fm_cu_arena_hot(a, fm_touch_since(t, 1)), 0);
	give(large);
	large = get(128 * MIB); /* as good as named */
	assert_int_equal(fm_cu_arena_hot(a, fm_touch_since(t, 1)), 128 * MIB);
	assert_int_equal(fm_cu_arena_pin(a, large, 3, &bytes), 0);
	assert_int_equal(fm_cu_arena_hot(a, fm_touch_since(t, 1)), 0);
	give(p);
	give(large);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_named_goes_last_and_comes_first),
		cmocka_unit_test(small_blocks_are_named_by_page),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
