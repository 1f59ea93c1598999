/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that has not changed, and memory that is all zeros: neither is copied. */
#include "memory_world.h"

static void what_has_not_changed_is_not_copied_again(void **state)
{
	CUdeviceptr p, q;

	(void)state;
	start_with(1024 * MIB, true);
	fill(p = get(300 * MIB), 300 * MIB);
	fill(q = get(20 * MIB), 20 * MIB);
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(dev.copied, 320 * MIB);
	assert_int_equal(told.kept, 0);
	assert_int_equal(fm_cu_move_in(m), 0);
	assert_int_equal(dev.copied, 640 * MIB);
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(dev.copied, 640 * MIB); /* nothing */
	assert_int_equal(dev.used, 0);
	assert_int_equal(told.kept, 320 * MIB);
	assert_int_equal(told.out, 320 * MIB);
	assert_int_equal(fm_cu_move_in(m), 0);
	marks(q + 4 * MIB)[1] ^= 1;
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(dev.copied, 960 * MIB + PAGE); /* the page that has changed */
	assert_int_equal(fm_cu_move_in(m), 0);
	marks(q + 4 * MIB)[1] ^= 1;
	check(p, 300 * MIB);
	check(q, 20 * MIB);
	end();
}

/* Within a rest nothing changes: what has come in early goes out again without a copy. */
static void an_early_load_in_vain_costs_one_copy(void **state)
{
	CUdeviceptr p;

	(void)state;
	start_with(1024 * MIB, true);
	fill(p = get(256 * MIB), 256 * MIB);
	assert_int_equal(fm_cu_move_out(m), 0);
	set_share(128 * MIB);
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(dev.copied, (256 + 128) * MIB);
	set_share(0);
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(dev.copied, (256 + 128) * MIB);
	assert_int_equal(fm_cu_move_in(m), 0);
	check(p, 256 * MIB);
	end();
}

static void zeros_are_not_copied(void **state)
{
	static const char zero[MARK];
	CUdeviceptr p;

	(void)state;
	start_with(1024 * MIB, true);
	p = get(256 * MIB);
	for (size_t i = 0; i < 256 * MIB; i += PAGE)
		memset(marks(p + i), 0, MARK);
	fill(p, 10 * MIB);
	fill(p + 100 * MIB, 2 * MIB);
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(dev.copied, 12 * MIB);
	assert_true(a->host.bytes < 256 * MIB);
	assert_int_equal(fm_cu_move_in(m), 0);
	assert_int_equal(dev.copied, 24 * MIB);
	for (size_t i = 0; i < 256 * MIB; i += PAGE)
		if (i >= 10 * MIB && i != 100 * MIB)
			assert_memory_equal(marks(p + i), zero, MARK);
	check(p, 10 * MIB);
	/* A page that was zeros, and has a content now. */
	fill(p + 50 * MIB, 2 * MIB);
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(fm_cu_move_in(m), 0);
	check(p, 10 * MIB);
	check(p + 50 * MIB, 2 * MIB);
	check(p + 100 * MIB, 2 * MIB);
	end();
}

/* A block that is another one now: its pages are what they are, not what they were. */
static void another_block_at_the_same_place_is_copied(void **state)
{
	CUdeviceptr p, q, r;

	(void)state;
	start_with(1024 * MIB, true);
	fill(p = get(20 * MIB), 20 * MIB);
	fill(q = get(20 * MIB), 20 * MIB);
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(fm_cu_move_in(m), 0);
	give(p);
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(fm_cu_move_in(m), 0);
	r = get(20 * MIB);
	assert_int_equal(r, p);
	for (size_t i = 0; i < 20 * MIB; i += PAGE)
		memset(marks(r + i), 0x77, MARK);
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(fm_cu_move_in(m), 0);
	for (size_t i = 0; i < 20 * MIB; i += PAGE)
		assert_int_equal(marks(r + i)[MARK - 1], 0x77);
	check(q, 20 * MIB);
	end();
}

/* The host has room for one of the two: the copy of what is on the device goes first. */
static void copies_make_room(void **state)
{
	CUdeviceptr p, q;

	(void)state;
	start_with(128 * MIB, true);
	fill(p = get(128 * MIB), 128 * MIB);
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(fm_cu_move_in(m), 0);
	assert_int_equal(a->host.bytes, 128 * MIB);
	fill(q = get(128 * MIB), 128 * MIB);
	assert_int_equal(fm_cu_move_out(m), -ENOMEM);
	assert_int_equal(dev.used, 128 * MIB);
	assert_int_equal(fm_cu_move_in(m), 0);
	check(p, 128 * MIB);
	check(q, 128 * MIB);
	/* The first has its copy still; without it there is room for the second. */
	assert_int_equal(fm_cu_arena_pin(a, p, 1, &(uint64_t){0}), 0);
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(dev.used, 128 * MIB);
	assert_int_equal(fm_cu_move_in(m), 0);
	check(q, 128 * MIB);
	end();
}

static void the_host_gets_its_memory_back_when_it_needs_it(void **state)
{
	CUdeviceptr p;

	(void)state;
	start_with(1024 * MIB, true);
	fill(p = get(128 * MIB), 128 * MIB);
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(fm_cu_move_in(m), 0);
	assert_true(fm_cu_move_trim(m));
	assert_int_equal(a->host.bytes, 128 * MIB);
	told.no_room = true;
	assert_false(fm_cu_move_trim(m));
	assert_int_equal(a->host.bytes, 0);
	told.no_room = false;
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(dev.copied, 384 * MIB);
	assert_int_equal(fm_cu_move_in(m), 0);
	check(p, 128 * MIB);
	end();
}

/* Digests that stand behind something of the program's: nothing is unmapped under them. After that
 * there are none. */
static void digests_that_do_not_end_let_nothing_out(void **state)
{
	CUdeviceptr p;

	(void)state;
	start_with(1024 * MIB, true);
	fill(p = get(128 * MIB), 128 * MIB);
	told.naps_most = UINT32_MAX;
	dev.stands = true;
	assert_int_equal(fm_cu_move_out(m), -EIO);
	assert_int_equal(dev.used, 128 * MIB);
	assert_int_equal(fm_cu_move_in(m), 0);
	dev.stands = false;
	for (int i = 1; i < 3; i++) {
		assert_int_equal(fm_cu_move_out(m), 0);
		assert_int_equal(dev.copied, (2 * i - 1) * 128 * MIB);
		assert_int_equal(fm_cu_move_in(m), 0);
	}
	check(p, 128 * MIB);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_has_not_changed_is_not_copied_again),
		cmocka_unit_test(an_early_load_in_vain_costs_one_copy),
		cmocka_unit_test(zeros_are_not_copied),
		cmocka_unit_test(another_block_at_the_same_place_is_copied),
		cmocka_unit_test(copies_make_room),
		cmocka_unit_test(the_host_gets_its_memory_back_when_it_needs_it),
		cmocka_unit_test(digests_that_do_not_end_let_nothing_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
