/* SPDX-License-Identifier: Apache-2.0 */
/* What a program says of its memory: what stays, what goes first, and where it is. */
#include "api/cuda/core/memory/hold.h"
#include "api/cuda/core/memory/want.h"
#include "memory_world.h"

#define REASON 3u /* any that is not 0 */
#define HELD   4u

static uint64_t kept;  /* as it is counted */
static uint64_t keeps; /* as the daemon was asked for it */

static void recount_(void *cookie, uint64_t bytes, unsigned from, unsigned to)
{
	(void)cookie;
	kept += (to == REASON ? bytes : 0) - (from == REASON ? bytes : 0);
	dev.pinned += (to ? bytes : 0) - (from ? bytes : 0);
}

static void unkept_(void *cookie, uint64_t bytes)
{
	(void)cookie;
	assert_true(keeps >= bytes);
	keeps -= bytes;
}

static void begin(void)
{
	kept = keeps = 0;
	start(4096 * MIB);
	a->use.recount = recount_;
	a->use.unkept = unkept_;
}

static struct fm_cu_want_sums sums(CUdeviceptr p, size_t size)
{
	struct fm_cu_want_sums s = {0};

	fm_cu_want_sum(a, p, size, &s);
	return s;
}

static uint64_t hot(void)
{
	struct fm_cu_arena_hot is;

	fm_cu_arena_hot(a, 1, &is);
	return is.known ? is.all : UINT64_MAX;
}

static void pin(CUdeviceptr p, size_t size, uint64_t expected)
{
	uint64_t bytes;

	assert_int_equal(fm_cu_want_pins(a, p, size, &bytes), 0);
	assert_int_equal(bytes, expected);
	assert_int_equal(fm_cu_want_pin(a, p, size, REASON), 0);
	keeps += bytes;
}

/* The same without the test of how much. */
static void pin_any(CUdeviceptr p, size_t size)
{
	uint64_t bytes;

	assert_int_equal(fm_cu_want_pins(a, p, size, &bytes), 0);
	pin(p, size, bytes);
}

static void out(void)
{
	assert_int_equal(fm_cu_move_out(m), 0);
}

static void in(void)
{
	assert_int_equal(fm_cu_move_in(m), 0);
}

static void what_is_pinned_stays_until_it_is_undone(void **state)
{
	CUdeviceptr p;

	(void)state;
	begin();
	fill(p = get(300 * MIB), 300 * MIB); /* 128, 128, 44 */
	pin(p + 130 * MIB, MIB, 128 * MIB);
	pin(p + 130 * MIB, MIB, 0);
	pin(p + 140 * MIB, MIB, 0);
	assert_int_equal(kept, 128 * MIB);
	out();
	assert_int_equal(sums(p, 300 * MIB).device, 128 * MIB);
	assert_int_equal(sums(p, 300 * MIB).pinned, 128 * MIB);
	assert_int_equal(sums(p, 300 * MIB).host, 172 * MIB);
	in();
	/* All of its pages have to be let go. */
	fm_cu_want_unpin(a, p + 130 * MIB, MIB, true);
	assert_int_equal(kept, 128 * MIB);
	fm_cu_want_unpin(a, p, 300 * MIB, true);
	fm_cu_want_unpin(a, p, 300 * MIB, true);
	assert_int_equal(kept, 0);
	out();
	assert_int_equal(sums(p, 300 * MIB).device, 0);
	in();
	check(p, 300 * MIB);
	give(p);
	end();
}

static void what_is_out_is_not_pinned(void **state)
{
	uint64_t bytes;
	CUdeviceptr p;

	(void)state;
	begin();
	fill(p = get(256 * MIB), 256 * MIB);
	set_share(128 * MIB);
	out();
	assert_int_equal(fm_cu_want_pins(a, p, 256 * MIB, &bytes), -EBUSY);
	assert_int_equal(fm_cu_want_pin(a, p, 256 * MIB, REASON), -EBUSY);
	assert_int_equal(kept, 0);
	set_share(0);
	out();
	in();
	check(p, 256 * MIB);
	end();
}

static void while_memory_moves_it_is_undone_later(void **state)
{
	CUdeviceptr p;

	(void)state;
	begin();
	fill(p = get(128 * MIB), 128 * MIB);
	pin(p, 1, 128 * MIB);
	fm_cu_want_unpin(a, p, 128 * MIB, false);
	out();
	assert_int_equal(sums(p, 128 * MIB).device, 128 * MIB);
	in();
	/* Said once more meanwhile: it stays. */
	pin(p, 1, 0);
	fm_cu_want_settle(a);
	assert_int_equal(kept, 128 * MIB);
	fm_cu_want_unpin(a, p, 128 * MIB, false);
	fm_cu_want_settle(a);
	assert_int_equal(kept, 0);
	end();
}

static void what_is_freed_is_not_kept(void **state)
{
	CUdeviceptr p, q, small;
	uint64_t bytes;

	(void)state;
	begin();
	get(64 * MIB);
	p = get(4 * MIB); /* a slab */
	q = get(4 * MIB); /* the same */
	small = get(4096);
	pin_any(p, 4 * MIB);
	bytes = kept;
	assert_true(bytes >= 8 * MIB);
	pin_any(q + MIB, 1);
	assert_int_equal(kept, bytes);
	give(p);
	assert_int_equal(kept, bytes);
	give(q);
	assert_int_equal(kept, 0);
	pin_any(small, 1);
	assert_true(kept);
	give(small);
	assert_int_equal(kept, 0);
	p = get(256 * MIB);
	pin(p, 256 * MIB, 256 * MIB);
	give(p);
	assert_int_equal(kept, 0);
	assert_int_equal(keeps, 0);
	end();
}

/* What other processes use must stay, also when the program does not keep it any more. */
static void another_reason_is_stronger(void **state)
{
	struct fm_cu_block b;
	uint64_t bytes;
	CUdeviceptr p;

	(void)state;
	begin();
	fill(p = get(128 * MIB), 128 * MIB);
	pin(p, 128 * MIB, 128 * MIB);
	assert_true(fm_cu_arena_find(a, p, &b) && !b.stays);
	assert_int_equal(fm_cu_arena_pin(a, p, 5, &bytes), 0);
	assert_int_equal(bytes, 128 * MIB); /* as if it had moved until now */
	dev.pinned += bytes;
	assert_int_equal(kept, 0);
	assert_int_equal(keeps, 0);
	assert_true(fm_cu_arena_find(a, p, &b) && b.stays == 5);
	pin(p, 128 * MIB, 0);
	fm_cu_want_unpin(a, p, 128 * MIB, true);
	out();
	assert_int_equal(sums(p, 128 * MIB).pinned, 128 * MIB);
	in();
	end();
}

static void what_is_cold_goes_first(void **state)
{
	CUdeviceptr p, q;

	(void)state;
	begin();
	fill(p = get(128 * MIB), 128 * MIB);
	fill(q = get(128 * MIB), 128 * MIB);
	set_share(128 * MIB);
	fm_cu_want_cold(a, p, 128 * MIB);
	fm_touch_word(&a->touch, p); /* a call names it all the same */
	assert_int_equal(hot(), 128 * MIB);
	out();
	assert_int_equal(sums(p, 128 * MIB).device, 0);
	assert_int_equal(sums(q, 128 * MIB).device, 128 * MIB);
	in();
	fm_cu_want_soon(a, p, 128 * MIB);
	fm_cu_want_cold(a, q, 128 * MIB);
	out();
	assert_int_equal(sums(p, 128 * MIB).device, 128 * MIB);
	in();
	/* Of a chunk, the pages that are left count. */
	fm_cu_want_soon(a, q, MIB);
	assert_int_equal(hot(), 256 * MIB);
	check(p, 128 * MIB);
	check(q, 128 * MIB);
	give(q);
	q = get(128 * MIB);
	assert_int_equal(hot(), 256 * MIB); /* another block begins anew */
	end();
}

static struct fm_cu_holds hold(CUdeviceptr p, size_t size, uint64_t expected)
{
	struct fm_cu_holds h = {0};
	uint64_t bytes;

	assert_int_equal(fm_cu_arena_hold(a, p, size, HELD, false, &h, &bytes), 0);
	assert_int_equal(bytes, expected);
	dev.pinned += bytes;
	return h;
}

static void let_go(struct fm_cu_holds *h, uint64_t expected)
{
	uint64_t bytes;

	fm_cu_arena_let_go(a, HELD, h, &bytes);
	assert_int_equal(bytes, expected);
	dev.pinned -= bytes;
	free(h->one);
}

static bool may_go(CUdeviceptr p, size_t size)
{
	bool goes;

	out();
	goes = !sums(p, size).device;
	in();
	return goes;
}

/* A network card holds it and the program keeps it: it stays until neither does, in any order. */
static void what_is_kept_and_held_stays_for_both(void **state)
{
	CUdeviceptr p;

	(void)state;
	for (unsigned order = 0; order < 4; order++) {
		struct fm_cu_holds h;

		begin();
		fill(p = get(128 * MIB), 128 * MIB);
		if (order & 1)
			h = hold(p, MIB, 128 * MIB);
		pin(p, MIB, 128 * MIB);
		if (!(order & 1))
			h = hold(p, MIB, 0);
		assert_false(may_go(p, 128 * MIB));
		if (order & 2)
			let_go(&h, 0);
		else
			fm_cu_want_unpin(a, p, 128 * MIB, true);
		assert_false(may_go(p, 128 * MIB));
		assert_int_equal(kept, order & 2 ? 128 * MIB : 0);
		assert_int_equal(keeps, kept);
		if (order & 2)
			fm_cu_want_unpin(a, p, 128 * MIB, true);
		else
			let_go(&h, 128 * MIB);
		assert_int_equal(kept, 0);
		assert_int_equal(keeps, 0);
		assert_true(may_go(p, 128 * MIB));
		give(p);
		end();
	}
}

static void sums_are_of_the_range(void **state)
{
	CUdeviceptr p;

	(void)state;
	begin();
	fill(p = get(130 * MIB), 130 * MIB);
	assert_int_equal(sums(p, 130 * MIB).device, 130 * MIB);
	assert_int_equal(sums(p + 5, 7).device, 7);
	assert_int_equal(sums(p + 128 * MIB - 1, 2).device, 2);
	assert_int_equal(sums(p, 2048 * MIB).device, 130 * MIB);
	assert_int_equal(sums(p + 130 * MIB, 64 * MIB).device, 0);
	assert_int_equal(sums(1, SIZE_MAX - 1).device, 130 * MIB);
	assert_int_equal(sums(p, 0).device, 0);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_pinned_stays_until_it_is_undone),
		cmocka_unit_test(what_is_out_is_not_pinned),
		cmocka_unit_test(while_memory_moves_it_is_undone_later),
		cmocka_unit_test(what_is_freed_is_not_kept),
		cmocka_unit_test(another_reason_is_stronger),
		cmocka_unit_test(what_is_cold_goes_first),
		cmocka_unit_test(what_is_kept_and_held_stays_for_both),
		cmocka_unit_test(sums_are_of_the_range),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
