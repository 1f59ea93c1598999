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

static uint64_t hot(struct fm_cu_arena *of, const struct fm_touch *t, uint32_t turns)
{
	struct fm_cu_arena_hot is;

	fm_cu_arena_hot(of, fm_touch_since(t, turns), &is);
	assert_true(!is.mapped && !is.out);
	return is.known ? is.all : UINT64_MAX;
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
	assert_int_equal(hot(a, t, 1), 0);
	fm_touch_word(t, p[0] + 64 * MIB);
	fm_touch_turn(t);
	fm_touch_range(t, p[2] + 5, 4096);
	assert_int_equal(hot(a, t, 1), 128 * MIB);
	assert_int_equal(hot(a, t, 2), 256 * MIB);
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
	assert_true(hot(a, t, 1) == UINT64_MAX);
	end();
}

/* A chunk of a block that a template names goes last and comes first, and it alone. */
static void parts_of_a_block_are_named(void **state)
{
	const struct fm_span part = {-4096, 3 * (int64_t)MIB}, all = {-(1 << 30), 1 << 30};
	struct fm_touch *t;
	CUdeviceptr p;

	(void)state;
	start(400 * MIB);
	t = fm_cu_arena_touch(a);
	fill(p = get(512 * MIB), 512 * MIB);
	fm_touch_turn(t);
	assert_true(fm_touch_spans(t, p + 300 * MIB, &part, 1));
	assert_int_equal(hot(a, t, 1), 128 * MIB);
	assert_int_equal(
		fm_cu_move_out(m), -ENOMEM); /* three chunks are all that the host has room for */
	assert_true(is_here(p + 256 * MIB));
	assert_false(is_here(p) || is_here(p + 128 * MIB) || is_here(p + 384 * MIB));
	assert_int_equal(fm_cu_move_in(m), 0);
	check(p, 512 * MIB);
	assert_false(fm_touch_spans(t, p + 300 * MIB, &all, 1));
	assert_int_equal(hot(a, t, 1), 512 * MIB);
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
	assert_int_equal(hot(a, t, 1), 2 * MIB);
	fm_touch_turn(t);
	give(q);
	fm_touch_word(t, q); /* nothing is there */
	assert_int_equal(hot(a, t, 1), 0);
	give(large);
	large = get(128 * MIB); /* as good as named */
	assert_int_equal(hot(a, t, 1), 128 * MIB);
	assert_int_equal(fm_cu_arena_pin(a, large, 3, &bytes), 0);
	assert_int_equal(hot(a, t, 1), 0);
	give(p);
	give(large);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_named_goes_last_and_comes_first),
		cmocka_unit_test(parts_of_a_block_are_named),
		cmocka_unit_test(small_blocks_are_named_by_page),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
