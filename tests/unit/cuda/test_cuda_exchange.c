/* SPDX-License-Identifier: Apache-2.0 */
/* A program with more memory than there is room for on the device: what is used most has the room,
 * what is used in turn stays where it is, and each call of the driver fails once. */
#include "api/cuda/core/tune.h"
#include "memory_world.h"

#define SIZE (128 * MIB)

static CUdeviceptr p[4];

static bool runs_from_host(CUdeviceptr at)
{
	struct fm_cu_chunk *c;

	fm_list_each (c, &a->chunks, all)
		if (at - c->at < fm_cu_chunk_size(c))
			return c->borrowed && fm_cu_chunk_here(c);
	return false;
}

static uint64_t borrowed(void)
{
	struct fm_cu_arena_sums s;

	fm_cu_arena_sum(a, &s);
	return s.borrowed;
}

/* n blocks, of which two have room on the device; uses are counted. */
static void begin(int n, size_t rest)
{
	start(1024 * MIB);
	dev.most = 2 * SIZE;
	a->borrows = true;
	for (int i = 0; i < n; i++) {
		size_t size = i < 2 ? SIZE : rest;

		if (i < 2)
			p[i] = get(size);
		else
			assert_int_equal(fm_cu_arena_borrow(a, size, &p[i]), 0);
		fill(p[i], size);
		assert_int_equal(runs_from_host(p[i]), i >= 2);
	}
	told.since = 1;
	assert_false(fm_cu_move_may_exchange(m));
}

static void use(int i, unsigned times)
{
	while (times--)
		fm_touch_word(fm_cu_arena_touch(a), p[i] + MIB);
}

static void ends(int n, size_t rest)
{
	for (int i = 0; i < n; i++)
		check(p[i], i < 2 ? SIZE : rest);
	assert_false(a->window.made);
	end();
}

static void what_is_used_in_turn_stays(void **state)
{
	(void)state;
	begin(4, SIZE);
	for (int pass = 0; pass < 300; pass++)
		for (int i = 0; i < 4; i++) {
			use(i, 7);
			assert_false(fm_cu_move_may_exchange(m));
		}
	assert_int_equal(told.in + told.out, 0);
	ends(4, SIZE);
}

static void what_is_used_more_has_the_room(void **state)
{
	(void)state;
	begin(3, SIZE);
	use(0, 40);
	use(2, FM_CU_EXCHANGE_USES - 1);
	assert_false(fm_cu_move_may_exchange(m));
	use(2, 1);
	assert_true(fm_cu_move_may_exchange(m));
	assert_int_equal(fm_cu_move_exchange(m), 0);
	assert_true(!runs_from_host(p[2]) && runs_from_host(p[1]) && !runs_from_host(p[0]));
	assert_int_equal(told.in, SIZE);
	assert_int_equal(told.out, SIZE);
	assert_false(fm_cu_move_may_exchange(m));
	ends(3, SIZE);
}

/* Twice as much for the second time, and it is told by what was used since the first. */
static void what_comes_and_goes_does_so_less_and_less(void **state)
{
	unsigned needs[8];

	(void)state;
	begin(3, SIZE);
	for (int k = 0; k < 8; k++) {
		int i = runs_from_host(p[2]) ? 2 : 1;

		use(0, 1000000);
		for (needs[k] = 0; !fm_cu_move_may_exchange(m); needs[k]++)
			use(i, 1);
		assert_int_equal(fm_cu_move_exchange(m), 0);
		assert_false(runs_from_host(p[i]));
	}
	assert_true(needs[2] > needs[0] && needs[4] > needs[2]);
	assert_true(needs[7] <= 6 * (FM_CU_EXCHANGE_USES << FM_CU_EXCHANGE_DEARER));
	ends(3, SIZE);
}

static void what_was_used_once_is_forgotten(void **state)
{
	unsigned n = 0;

	(void)state;
	begin(3, SIZE);
	use(0, 1000000);
	use(1, 1000000);
	for (; !fm_cu_move_may_exchange(m); n++)
		use(2, 1);
	assert_in_range(n, 4 * FM_CU_EXCHANGE_USES, 6 * FM_CU_EXCHANGE_USES);
	assert_int_equal(fm_cu_move_exchange(m), 0);
	assert_false(runs_from_host(p[2]));
	ends(3, SIZE);
}

/* A large one goes for several that fill half of its place, and not for less. */
static void the_room_is_not_wasted(void **state)
{
	const size_t tail = 40 * MIB; /* a chunk of its own */

	(void)state;
	begin(4, SIZE + tail);
	use(0, 100);
	for (unsigned i = 0; i < 50; i++)
		fm_touch_range(fm_cu_arena_touch(a), p[2] + SIZE, tail);
	assert_false(fm_cu_move_may_exchange(m));
	for (unsigned i = 0; i < 50; i++)
		fm_touch_range(fm_cu_arena_touch(a), p[3] + SIZE, tail);
	assert_true(fm_cu_move_may_exchange(m));
	assert_int_equal(fm_cu_move_exchange(m), 0);
	assert_true(runs_from_host(p[1]) && runs_from_host(p[2]) && runs_from_host(p[3]));
	assert_true(!runs_from_host(p[2] + SIZE) && !runs_from_host(p[3] + SIZE));
	assert_int_equal(borrowed(), 3 * SIZE);
	ends(4, SIZE + tail);
}

static void not_where_it_is_not_known_what_is_used(void **state)
{
	(void)state;
	begin(3, SIZE);
	use(2, 100);
	told.since = 0;
	assert_false(fm_cu_move_may_exchange(m));
	assert_int_equal(fm_cu_move_exchange(m), 0);
	assert_true(runs_from_host(p[2]));
	told.since = 1;
	assert_true(fm_cu_move_may_exchange(m));
	fm_cu_move_counts_no_more(m);
	use(2, 100);
	assert_false(fm_cu_move_may_exchange(m)); /* from here on it is counted again */
	assert_false(fm_cu_move_may_exchange(m));
	ends(3, SIZE);
}

/* A copy counts for as much of a page as it is of. */
static void copies_count_by_their_bytes(void **state)
{
	(void)state;
	begin(3, SIZE);
	for (unsigned i = 0; i < 100000; i++)
		fm_touch_range(fm_cu_arena_touch(a), p[2], 64);
	assert_false(fm_cu_move_may_exchange(m));
	for (unsigned i = 0; i < FM_CU_EXCHANGE_USES; i++) {
		assert_false(fm_cu_move_may_exchange(m));
		fm_touch_range(fm_cu_arena_touch(a), p[2], SIZE);
	}
	assert_true(fm_cu_move_may_exchange(m));
	ends(3, SIZE);
}

static void a_host_without_room_leaves_all_where_it_is(void **state)
{
	(void)state;
	begin(3, SIZE);
	use(2, 100);
	told.no_room = true;
	assert_int_equal(fm_cu_move_exchange(m), -ENOMEM);
	assert_true(runs_from_host(p[2]));
	assert_int_equal(told.in + told.out, 0);
	ends(3, SIZE);
}

static bool with_a_fault(unsigned at)
{
	bool failed;

	begin(4, SIZE);
	use(2, 100);
	use(3, 100);
	dev.fails_at = dev.calls + at;
	fm_cu_move_exchange(m);
	failed = dev.failed;
	dev.fails_at = 0;
	assert_true(dev.used <= 2 * SIZE);
	assert_int_equal(fm_cu_move_in(m), 0); /* mends */
	fm_cu_move_exchange(m);
	assert_true(dev.used <= 2 * SIZE);
	for (int i = 0; i < 4; i++)
		check(p[i], SIZE);
	dev.most = UINT64_MAX / 2;
	assert_int_equal(fm_cu_move_home(m, UINT64_MAX), 0);
	ends(4, SIZE);
	return failed;
}

static void each_call_of_the_driver_may_fail_once(void **state)
{
	unsigned at = 1;

	(void)state;
	while (with_a_fault(at))
		at++;
	assert_true(at > 20);
}

/* What runs from the host, is in use and has no room in the share is not waited for. */
static void what_is_out_comes_in_first(void **state)
{
	CUdeviceptr small;

	(void)state;
	begin(3, SIZE);
	dev.most = UINT64_MAX / 2;
	fill(small = get(2 * MIB), 2 * MIB);
	fm_touch_turn(fm_cu_arena_touch(a));
	use(2, 1);
	fm_touch_word(fm_cu_arena_touch(a), small);
	set_share(0);
	assert_int_equal(fm_cu_move_out(m), 0);
	set_share(8 * MIB);
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_true(dev.used >= 2 * MIB);
	set_share(UINT64_MAX / 2);
	dev.most = UINT64_MAX / 2;
	assert_int_equal(fm_cu_move_in(m), 0);
	check(small, 2 * MIB);
	ends(3, SIZE);
}

/* It has room in the share, and the driver has none: it is not waited for, either. */
static void what_runs_from_the_host_is_not_waited_for(void **state)
{
	(void)state;
	begin(3, SIZE);
	fm_touch_turn(fm_cu_arena_touch(a));
	use(2, 1);
	set_share(0);
	assert_int_equal(fm_cu_move_out(m), 0);
	set_share(3 * SIZE);
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_int_equal(dev.used, 2 * SIZE);
	assert_true(runs_from_host(p[2]));
	told.mapped = true; /* one that starts early has its share sooner than all of it is there */
	assert_int_equal(fm_cu_move_out(m), -ENOSPC);
	told.mapped = false;
	dev.most = 3 * SIZE;
	assert_int_equal(fm_cu_move_out(m), 0);
	assert_false(runs_from_host(p[2]));
	ends(3, SIZE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_used_in_turn_stays),
		cmocka_unit_test(what_is_used_more_has_the_room),
		cmocka_unit_test(what_comes_and_goes_does_so_less_and_less),
		cmocka_unit_test(what_was_used_once_is_forgotten),
		cmocka_unit_test(the_room_is_not_wasted),
		cmocka_unit_test(not_where_it_is_not_known_what_is_used),
		cmocka_unit_test(copies_count_by_their_bytes),
		cmocka_unit_test(a_host_without_room_leaves_all_where_it_is),
		cmocka_unit_test(each_call_of_the_driver_may_fail_once),
		cmocka_unit_test(what_is_out_comes_in_first),
		cmocka_unit_test(what_runs_from_the_host_is_not_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
