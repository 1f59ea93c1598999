// SPDX-License-Identifier: Apache-2.0
/* Launches that are left in the middle of their loops, too, and go on there. */
#include "guard_program.h"

static uint32_t *area(void)
{
	return (uint32_t *)(uintptr_t)p.q.guard->area;
}

static bool kept(void)
{
	for (unsigned i = 0; i < BLOCKS; i++)
		if (area()[i])
			return true;
	return false;
}

/* The stop comes when a block is in its loop, and others have to begin. */
static void stop_now(unsigned round)
{
	if (round != 10 || p.closed)
		return;
	set_gate(true);
	assert_int_equal(pump(), -EINPROGRESS);
	while (advance(p.q.guard->control))
		;
}

static void come_to_rest(void)
{
	for (unsigned i = 0; pump() == -EINPROGRESS; i++) {
		assert_true(i < 10000);
		advance_any(3);
	}
}

static void test_leaves_a_loop(void **state)
{
	dev.loops = 1000;
	start(1);
	dev.meanwhile = stop_now;
	make();
	launch();
	launch();
	cover();
	for (unsigned i = 0; i < 10000 && !p.closed; i++)
		advance_any(1);
	come_to_rest();
	assert_int_equal(
		pump(), 0); /* in the middle of a launch, although none of its blocks ended */
	assert_int_equal(dev.left_in_loops, 1);
	assert_true(kept());
	for (unsigned i = 0; i < BLOCKS; i++) {
		assert_int_equal(dev.runs[i], 0);
		assert_in_range(dev.rounds[i], 0, 10);
	}
	/* Again: all blocks but one begin at the beginning. */
	set_gate(false);
	dev.halted = true;
	assert_int_equal(pump(), -EAGAIN);
	dev.halted = false;
	for (unsigned i = 0; i < 10000 && !p.closed; i++)
		advance_any(1);
	come_to_rest();
	assert_int_equal(pump(), 0);
	assert_int_equal(dev.left_in_loops, 2);
	dev.meanwhile = NULL;
	finish();
	assert_exact();
	assert_false(kept());
	stop();
}

/* All blocks of a launch are left, one after the other, in stops that follow upon each other: each
 * of them has stood in the middle of it. */
static void test_stops_again_and_again(void **state)
{
	unsigned most = 0;

	dev.loops = 50;
	start(4);
	make();
	for (unsigned round = 0; p.inside < 200; round++) {
		assert_true(round < 4000);
		if (round % 16 == 0) {
			launch();
			launch();
			cover();
		}
		advance_any(5);
		set_gate(true);
		while (pump() == -EINPROGRESS)
			advance_any(3);
		most = dev.left_in_loops > most ? dev.left_in_loops : most;
		set_gate(false);
		pump();
	}
	assert_true(most > 20);
	finish();
	assert_exact();
	assert_false(kept());
	stop();
}

static void test_any_order_is_exact(void **state)
{
	unsigned inside = 0, left = 0;

	for (uint64_t seed = 1; seed <= 200; seed++) {
		dev.loops = 1 + (unsigned)(seed % 40);
		any_program(seed, seed % 3 ? (unsigned)(seed % 5) : 0);
		assert_false(kept());
		inside += p.inside;
		left += dev.left_in_loops;
		stop();
	}
	assert_true(inside > 200);
	assert_true(left > 200);
}

/* A driver that has no memory for an area, or cannot fill one: kernels stop between their blocks.
 */
static void test_without_an_area(void **state)
{
	static struct fm_cu_driver without;

	without = driver;
	without.fill = NULL;
	dev.loops = 20;
	start(5);
	p.q.cu = &without;
	make();
	assert_int_equal(p.q.guard->area, 0);
	for (unsigned i = 0; i < 200; i++) {
		launch();
		cover();
		set_gate(i % 2);
		pump();
		advance_any(10);
	}
	finish();
	assert_exact();
	assert_int_equal(dev.left_in_loops, 0);
	stop();
}

/* Whatever call of the driver's fails, all goes on. */
static void test_fails_open(void **state)
{
	dev.loops = 30;
	for (unsigned at = 1; at < 40; at++) {
		start(at);
		make();
		launch();
		launch();
		cover();
		advance_any(2);
		stop_failing(at);
		stop();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_leaves_a_loop),
		cmocka_unit_test(test_stops_again_and_again),
		cmocka_unit_test(test_any_order_is_exact),
		cmocka_unit_test(test_without_an_area),
		cmocka_unit_test(test_fails_open),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
