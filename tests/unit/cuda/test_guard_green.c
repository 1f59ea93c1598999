// SPDX-License-Identifier: Apache-2.0
/* Launches in a stream of a green context: they are made again in a stream of that. */
#include "guard_program.h"

enum { CONTROL = 1, AGAIN, GREEN }; /* streams of ours, in the order in which they are made */

static const CUgreenCtx green = (CUgreenCtx)24;

static void begin(uint64_t seed)
{
	start(seed);
	dev.green = green;
}

static void end(void)
{
	dev.green = NULL;
	stop();
}

static void test_made_again_in_their_own(void **state)
{
	unsigned inside = 0;

	for (uint64_t seed = 1; seed <= 60; seed++) {
		dev.green = green;
		any_program(seed, seed % 4);
		inside += p.inside;
		assert_int_equal(dev.streams, GREEN + 1);
		assert_int_equal(dev.stream[AGAIN].n, 0);
		assert_true(dev.stream[GREEN].n || !p.inside);
		end();
	}
	assert_true(inside > 100);
}

/* What is stopped in one needs a channel more. */
static void test_needs_a_channel(void **state)
{
	unsigned most = 0;

	while (fm_cu_channels_left(most + 1))
		most++;
	begin(1);
	make();
	assert_true(fm_cu_channels_left(most - 1));
	assert_false(fm_cu_channels_left(most));
	end();
	assert_true(fm_cu_channels_left(most));
}

/* It ends while something that it was to do has not: that is done beside it. */
static void test_ends_before_its_stream(void **state)
{
	begin(2);
	make();
	launch();
	launch();
	cover();
	assert_true(fm_cu_guard_green_base(green) == (CUcontext)8);
	fm_cu_guard_green_ends(&driver, green);
	assert_null(fm_cu_guard_green_base(green));
	assert_int_equal(dev.destroyed, 1);
	while (!dev.runs[0] && !dev.runs[1])
		assert_true(advance(&dev.stream[0]));
	set_gate(true);
	assert_int_equal(pump(), -EINPROGRESS);
	assert_true(advance(&dev.stream[CONTROL])); /* the stop word is set */
	while (pump() == -EINPROGRESS)
		advance_any(1);
	assert_int_equal(p.inside, 1);
	finish();
	assert_exact();
	assert_int_equal(dev.stream[GREEN].n, 0);
	assert_true(dev.stream[AGAIN].n);
	end();
}

/* A guard that is given back serves a stream of another one, or of none. */
static void test_serves_elsewhere(void **state)
{
	struct fm_cu_guard *g;

	begin(3);
	make();
	g = p.q.guard;
	assert_true(fm_cu_guard_again(g) == &dev.stream[GREEN]);
	fm_cu_guard_release(g);
	assert_true(fm_cu_guard_new(&driver, (CUcontext)8, NULL, false) == g);
	assert_true(fm_cu_guard_again(g) == &dev.stream[AGAIN]);
	fm_cu_guard_release(g);
	assert_true(fm_cu_guard_new(&driver, (CUcontext)8, (CUgreenCtx)32, false) == g);
	assert_true(fm_cu_guard_again(g) == &dev.stream[GREEN + 1]);
	/* The one of the first is there still. */
	fm_cu_guard_release(g);
	assert_true(fm_cu_guard_new(&driver, (CUcontext)8, green, false) == g);
	assert_true(fm_cu_guard_again(g) == &dev.stream[GREEN]);
	assert_int_equal(dev.streams, GREEN + 2);
	end();
}

/* No graph, whose nodes run where they were captured. */
static void test_no_graph(void **state)
{
	const struct fm_cu_launch_config config = {.grid = {BLOCKS, 1, 1}, .block = {1, 1, 1}};
	const struct fm_cu_guarded l = {(CUfunction)16, &config, 8 + FM_GUARD_BYTES, false};
	struct fm_cu_graph *g;
	CUdeviceptr block;

	begin(4);
	make();
	g = fm_cu_graph_new(&driver, (CUcontext)8, &(struct fm_cu_chain){&l, NULL, 1, 0, NULL});
	assert_non_null(g);
	assert_false(fm_cu_guard_graph(p.q.guard, g, &dev.stream[0]));
	block = g->block;
	fm_cu_graph_put(g);
	fm_cu_graphs_forget((CUcontext)8);
	free((void *)(uintptr_t)block);
	end();
}

/* Without a stream there the queue has no guard; what was made serves others. */
static void test_no_stream(void **state)
{
	struct fm_cu_guard *g;

	begin(5);
	dev.no_green = true;
	assert_int_equal(ops->levels(&p.q), 1u << 1 | 1u << 2);
	assert_null(p.q.guard);
	assert_int_equal(fm_cu_places(), 0);
	dev.no_green = false;
	dev.green = NULL;
	g = fm_cu_guard_new(&driver, (CUcontext)8, NULL, false);
	assert_int_equal(dev.streams, GREEN);
	p.q.guard = g;
	stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_made_again_in_their_own),
		cmocka_unit_test(test_needs_a_channel),
		cmocka_unit_test(test_ends_before_its_stream),
		cmocka_unit_test(test_serves_elsewhere),
		cmocka_unit_test(test_no_graph),
		cmocka_unit_test(test_no_stream),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
