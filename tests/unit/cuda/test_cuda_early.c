/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that goes out mapped, and comes home in the order in which segments need it; and each call
 * of the driver failing once. */
#include "memory_world.h"

#define N    4
#define SIZE (128 * MIB)

static CUdeviceptr p[N];
static struct fm_touch *t;
static _Atomic uint32_t segment;

static uint64_t borrowed(void)
{
	struct fm_cu_arena_sums s;

	fm_cu_arena_sum(a, &s);
	assert_int_equal(s.host, 0);
	return s.borrowed;
}

static bool runs_from_host(unsigned i)
{
	struct fm_cu_chunk *c;

	fm_list_each (c, &a->chunks, all)
		if (p[i] - c->at < fm_cu_chunk_size(c))
			return c->borrowed && fm_cu_chunk_here(c);
	return false;
}

/* N blocks, out, in a turn in which nothing is named yet. */
static void start_out(void)
{
	start(2048 * MIB);
	told.mapped = true;
	told.since = 1;
	t = fm_cu_arena_touch(a);
	t->segment = &segment;
	segment = 100;
	for (unsigned i = 0; i < N; i++)
		fill(p[i] = get(SIZE), SIZE);
	assert_int_equal(fm_cu_move_out(m), 0);
	fm_touch_turn(t);
}

static void finish(void)
{
	for (unsigned i = 0; i < N; i++)
		check(p[i], SIZE);
	end();
}

static struct fm_cu_early home(uint64_t bytes, bool before)
{
	struct fm_cu_early e = {.share = UINT64_MAX, .bytes = bytes, .before = before};

	assert_int_equal(fm_cu_move_home_early(m, &e), 0);
	return e;
}

static void goes_out_mapped(void **state)
{
	(void)state;
	start_out();
	assert_int_equal(borrowed(), N * SIZE);
	assert_int_equal(dev.used, 0);
	assert_int_equal(fm_cu_move_in(m), 0); /* nothing is missing */
	assert_int_equal(borrowed(), N * SIZE);
	finish();
}

/* A share of it stays; and where the host has no room, it goes out as it does without. */
static void as_far_as_the_host_has_room(void **state)
{
	struct fm_cu_arena_sums s;

	(void)state;
	start(2048 * MIB);
	told.mapped = true;
	set_share(SIZE);
	dev.host_most = 2 * SIZE;
	for (unsigned i = 0; i < N; i++)
		fill(p[i] = get(SIZE), SIZE);
	assert_int_equal(fm_cu_move_out(m), 0);
	fm_cu_arena_sum(a, &s);
	assert_int_equal(s.here, SIZE);
	assert_true(s.borrowed >= SIZE && s.host >= SIZE);
	assert_int_equal(s.here + s.borrowed + s.host, N * SIZE);
	assert_int_equal(fm_cu_move_in(m), 0);
	finish();
}

static void in_the_order_of_segments(void **state)
{
	static const unsigned order[N] = {2, 0, 3, 1};
	struct fm_cu_early e = {.share = UINT64_MAX};

	(void)state;
	start_out();
	for (unsigned k = 0; k < N; k++) {
		segment++;
		fm_touch_word(t, p[order[k]]);
		fm_touch_word(t, p[order[0]]); /* it counts where it came first */
	}
	fm_cu_move_look_early(m, &e);
	assert_true(e.left && e.fits);
	assert_int_equal(e.wait, FM_CU_EARLY_FROM);
	assert_int_equal(e.segment, 101);
	for (unsigned k = 0; k < N; k++) {
		assert_true(runs_from_host(order[k]));
		e = home(1, false);
		assert_false(runs_from_host(order[k]));
		assert_int_equal(borrowed(), (N - 1 - k) * SIZE);
		assert_int_equal(e.left, k < N - 1);
		assert_int_equal(e.wait, k < N - 1 ? FM_CU_EARLY_FROM : FM_CU_EARLY_NONE);
		assert_true(k == N - 1 || e.segment == 102 + k);
	}
	assert_false(home(1, false).left);
	finish();
}

/* Numbers wrap around. */
static void across_the_end_of_numbers(void **state)
{
	struct fm_cu_early e;

	(void)state;
	start_out();
	segment = UINT32_MAX;
	fm_touch_word(t, p[3]);
	segment++;
	fm_touch_word(t, p[1]);
	e = home(1, false);
	assert_false(runs_from_host(3));
	assert_int_equal(e.wait, FM_CU_EARLY_FROM);
	assert_int_equal(e.segment, 0);
	finish();
}

/* All that one segment names comes before it begins. */
static void what_a_segment_waits_for_comes_at_once(void **state)
{
	struct fm_cu_early e;

	(void)state;
	start_out();
	segment++;
	fm_touch_word(t, p[1]);
	fm_touch_word(t, p[3]);
	segment++;
	fm_touch_word(t, p[0]);
	e = home(1, false);
	assert_true(!runs_from_host(1) && !runs_from_host(3) && runs_from_host(0));
	assert_int_equal(e.segment, 102);
	/* What nothing has named in this turn comes last, and nothing waits for it. */
	e = home(1, false);
	assert_true(!runs_from_host(0) && runs_from_host(2));
	assert_true(e.left && e.wait == FM_CU_EARLY_NONE);
	assert_false(home(1, false).left);
	finish();
}

/* Work of an earlier turn may have to run yet, and it is not known what of it needs what. */
static void what_was_named_before_comes_first(void **state)
{
	struct fm_cu_early e = {.share = UINT64_MAX, .before = true};

	(void)state;
	start_out();
	segment++;
	fm_touch_word(t, p[0]);
	fm_cu_move_look_early(m, &e);
	assert_int_equal(e.wait, FM_CU_EARLY_ALL);
	e = home(1, true);
	assert_int_equal(borrowed(), SIZE);
	assert_true(runs_from_host(0));
	assert_int_equal(e.wait, FM_CU_EARLY_FROM);
	assert_int_equal(e.segment, 101);
	finish();
}

/* Of a kernel it is not known what it names: all segments wait for all. */
static void what_is_not_known_waits_for_all(void **state)
{
	(void)state;
	start_out();
	segment++;
	fm_touch_word(t, p[0]);
	fm_touch_all(t);
	assert_false(home(1, false).left);
	assert_int_equal(borrowed(), 0);
	finish();
}

static void within_the_share_and_the_device(void **state)
{
	struct fm_cu_early e = {.share = 2 * SIZE, .bytes = UINT64_MAX};

	(void)state;
	start_out();
	fm_touch_all(t);
	assert_int_equal(fm_cu_move_home_early(m, &e), 0);
	assert_int_equal(borrowed(), 2 * SIZE);
	assert_true(e.left && !e.fits && e.wait == FM_CU_EARLY_ALL);
	dev.most = 3 * SIZE;
	e.share = UINT64_MAX;
	assert_int_equal(fm_cu_move_home_early(m, &e), -ENOMEM);
	assert_int_equal(borrowed(), SIZE);
	assert_true(e.left);
	finish();
}

/* --- each call of the driver fails once --- */

static bool with_a_fault(unsigned at)
{
	struct fm_cu_early e;

	start(2048 * MIB);
	told.mapped = true;
	told.since = 1;
	t = fm_cu_arena_touch(a);
	t->segment = &segment;
	for (unsigned i = 0; i < N; i++)
		fill(p[i] = get(SIZE), SIZE);
	dev.fails_at = dev.calls + at;
	fm_cu_move_out(m);
	if (fm_cu_move_in_part(m, 0))
		assert_int_equal(fm_cu_move_in_part(m, 0), 0);
	for (unsigned i = 0; i < 2 * N; i++) {
		e = (struct fm_cu_early){.share = UINT64_MAX, .bytes = 1};
		fm_cu_move_home_early(m, &e);
		/* As when a rest ends: what is torn is mended. */
		if (fm_cu_move_in(m))
			assert_int_equal(fm_cu_move_in(m), 0);
		for (unsigned k = 0; k < N; k++)
			check(p[k], SIZE);
	}
	at = dev.failed;
	finish();
	return at;
}

static void each_call_of_the_driver_may_fail_once(void **state)
{
	unsigned at = 1;

	(void)state;
	while (with_a_fault(at))
		at++;
	assert_true(at > 40);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(goes_out_mapped),
		cmocka_unit_test(as_far_as_the_host_has_room),
		cmocka_unit_test(in_the_order_of_segments),
		cmocka_unit_test(across_the_end_of_numbers),
		cmocka_unit_test(what_a_segment_waits_for_comes_at_once),
		cmocka_unit_test(what_was_named_before_comes_first),
		cmocka_unit_test(what_is_not_known_waits_for_all),
		cmocka_unit_test(within_the_share_and_the_device),
		cmocka_unit_test(each_call_of_the_driver_may_fail_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
