// SPDX-License-Identifier: Apache-2.0
/* Launches that stop between two blocks and are made again. */
#include "guard_program.h"

static void test_stops_inside_a_kernel(void **state)
{
	unsigned sum = 0;

	start(1);
	make();
	launch();
	launch();
	for (unsigned i = 0; i < 3; i++)
		assert_true(advance(&dev.stream[0]));
	set_gate(true);
	assert_int_equal(pump(), -EINPROGRESS);
	cover();
	while (pump() == -EINPROGRESS)
		advance_any(1);
	assert_int_equal(p.inside, 1);
	/* Three blocks of the first kernel ran, maybe some that came in between, and no other. */
	for (unsigned i = 0; i < BLOCKS; i++)
		sum += dev.runs[i];
	assert_in_range(sum, 3, BLOCKS - 1);
	/* It waits, and nothing is finished. */
	assert_int_equal(atomic_load(&board.words.progress), 1);
	finish();
	assert_exact();
	stop();
}

/* At a gate there is nothing to stop, and nothing to be opened by the agent. */
static void test_leaves_alone_what_waits(void **state)
{
	start(2);
	make();
	set_gate(true);
	put_gate();
	launch();
	while (advance(&dev.stream[0]))
		;
	assert_int_equal(pump(), -EALREADY);
	assert_int_equal(p.q.guard->shared->hold, 0);
	set_gate(false);
	while (advance(&dev.stream[0]))
		;
	assert_int_equal(dev.runs[0], 1);
	finish();
	assert_exact();
	stop();
}

/* It has seen the last gate open just before that closed, and says so while a stop begins. */
static bool is_over_meanwhile(struct fm_cu_queue *q)
{
	set_gate(false);
	while (advance(&dev.stream[0]))
		;
	set_gate(true);
	return true;
}

/* There is nothing to stop any more, and no gate for it to come to. */
static void test_leaves_alone_what_is_over(void **state)
{
	start(12);
	make();
	p.q.has_room = is_over_meanwhile;
	launch();
	cover();
	set_gate(true);
	assert_int_equal(pump(), -EALREADY);
	assert_false(ops->guardian.stopped(&p.q));
	assert_int_equal(p.q.guard->shared->hold, 0);
	assert_true(fm_cu_wait_begin(p.q.turnstile, 0));
	fm_cu_wait_end(p.q.turnstile);
	finish();
	assert_exact();
	stop();
}

/* The gate opens before the queue has come to rest: nothing runs ahead of what was left out. */
static void test_opens_too_soon(void **state)
{
	start(3);
	make();
	launch();
	launch();
	cover();
	launch();
	advance(&dev.stream[0]);
	set_gate(true);
	assert_int_equal(pump(), -EINPROGRESS);
	set_gate(false);
	assert_int_equal(ops->stop.restore(&p.q), -EAGAIN);
	finish();
	assert_exact();
	stop();
}

/* A call of the program's is inside the driver, maybe to wait for the device: nothing is begun, and
 * what asks may ask again at once. */
static void test_is_put_off_for_a_call(void **state)
{
	start(14);
	make();
	launch();
	advance(&dev.stream[0]);
	set_gate(true);
	fm_cu_push_begin(p.q.guard->turnstile, true);
	assert_int_equal(pump(), -EAGAIN);
	assert_int_equal(p.q.guard->shared->hold, 0);
	assert_false(ops->guardian.stopped(&p.q));
	fm_cu_push_end(p.q.guard->turnstile);
	assert_int_equal(pump(), -EINPROGRESS);
	assert_true(ops->guardian.stopped(&p.q));
	finish();
	assert_exact();
	stop();
}

/* Nor while the stream may wait for the program, which may wait for nothing to be stopped: it is
 * stopped when it has gone past that. */
static void test_is_put_off_for_the_program(void **state)
{
	struct fm_cu_turnstile *t;

	start(17);
	make();
	t = p.q.guard->turnstile;
	launch();
	put_wait();
	launch();
	while (advance(&dev.stream[0]))
		;
	assert_true(awaits_program());
	set_gate(true);
	assert_int_equal(pump(), -EAGAIN);
	assert_int_equal(p.q.guard->shared->hold, 0);
	assert_false(ops->guardian.stopped(&p.q));
	assert_true(fm_cu_wait_begin(t, 0));
	fm_cu_wait_end(t);
	set_gate(false);
	give();
	assert_true(advance(&dev.stream[0]));
	set_gate(true);
	assert_int_equal(pump(), -EAGAIN); /* it has not said so yet */
	assert_true(advance(&dev.stream[0]));
	assert_int_equal(pump(), -EINPROGRESS);
	assert_true(ops->guardian.stopped(&p.q));
	finish();
	assert_exact();
	stop();
}

/* In front of that it may be stopped as ever, and does not come there before it goes on. */
static void test_stops_in_front_of_a_wait(void **state)
{
	start(18);
	make();
	launch();
	put_wait();
	launch();
	for (unsigned i = 0; i < 3; i++)
		assert_true(advance(&dev.stream[0]));
	set_gate(true);
	assert_int_equal(pump(), -EINPROGRESS);
	assert_true(advance(&dev.stream[1])); /* the stop word is set */
	while (pump() == -EINPROGRESS)
		advance_any(1);
	assert_int_equal(p.inside, 1);
	finish();
	assert_exact();
	stop();
}

/* The driver refuses the mark: as without. */
static void test_no_mark(void **state)
{
	start(19);
	make();
	dev.fails_at = dev.calls + 1;
	assert_false(fm_cu_guard_mark(p.q.guard, &dev.stream[0]));
	dev.fails_at = 0;
	launch();
	assert_true(advance(&dev.stream[0]));
	set_gate(true);
	assert_int_equal(pump(), -EINPROGRESS);
	finish();
	assert_exact();
	stop();
}

/* Stopped again while what was left out is made good. */
static void test_stops_again_and_again(void **state)
{
	start(4);
	make();
	for (unsigned round = 0; p.inside < 20; round++) {
		assert_true(round < 2000);
		if (round % 5 == 0) {
			launch();
			launch();
			cover();
		}
		advance_any(20);
		set_gate(true);
		while (pump() == -EINPROGRESS)
			advance_any(3);
		set_gate(false);
		pump();
	}
	finish();
	assert_exact();
	stop();
}

static void test_any_order_is_exact(void **state)
{
	unsigned inside = 0;

	for (uint64_t seed = 1; seed <= 400; seed++) {
		any_program(seed, seed % 3 ? (unsigned)(seed % 5) : 0);
		inside += p.inside;
		stop();
	}
	assert_true(inside > 400);
}

/* Records of so many launches: what finds no room goes unguarded. */
static void test_full_ring(void **state)
{
	start(5);
	make();
	for (unsigned i = 0; i < FM_CU_RECORDS + 50; i++) {
		launch();
		if (i % 2 == 0)
			put_gate();
	}
	assert_true(p.unguarded > 0);
	advance_any(100);
	set_gate(true);
	for (unsigned i = 0; i < 100; i++) {
		pump();
		advance_any(10);
	}
	finish();
	assert_exact();
	p.unguarded = 0;
	launch(); /* the gate behind it shows that there is room again */
	put_gate();
	launch();
	assert_int_equal(p.unguarded, 0);
	finish();
	stop();
}

/* More launches behind each other than are made again at a time. */
static void test_many_left_out(void **state)
{
	start(6);
	make();
	for (unsigned i = 0; i < 900; i++)
		launch();
	advance_any(3);
	set_gate(true);
	pump();
	cover();
	while (pump() == -EINPROGRESS)
		advance_any(50);
	finish();
	assert_exact();
	stop();
}

static void another_queue(void)
{
	fm_cu_queue_init(&p.q, &driver, (CUcontext)8, (CUcontext)8, &dev.stream[0], NULL);
	p.q.guarded = true;
	fm_cu_queue_words(&p.q, &board, sizeof(board));
	p.counted = 0;
}

/* A guard serves another queue of the context, with what the first has left in its block. */
static void test_serves_again(void **state)
{
	struct fm_cu_guard *first;

	start(7);
	make();
	p.whole = 1;
	launch();
	cover();
	finish();
	first = p.q.guard;
	ops->release(&p.q, false);
	another_queue();
	atomic_store(&board.words.progress, 0);
	make();
	assert_ptr_equal(p.q.guard, first);
	launch();
	advance(&dev.stream[0]);
	set_gate(true);
	pump();
	finish();
	assert_exact();
	stop();
}

/* What the driver does when the context ends. */
static void free_memory(struct fm_cu_guard *g)
{
	free((void *)(uintptr_t)g->block);
	free(g->shared);
}

/* But none at whose gate a stream may still come to stand, of which nobody hears any more. */
static void test_serves_when_its_gate_is_passed(void **state)
{
	struct fm_cu_guard *first, *second;

	start(15);
	make();
	p.counted = 1; /* and was not guarded */
	put_gate();
	first = p.q.guard;
	ops->release(&p.q, false);
	another_queue();
	make();
	second = p.q.guard;
	assert_ptr_not_equal(second, first);
	while (advance(&dev.stream[0]))
		;
	p.q.guard = fm_cu_guard_new(&driver, (CUcontext)8, NULL, false);
	assert_ptr_equal(p.q.guard, first);
	assert_false(fm_cu_guard_uncovered(first));
	fm_cu_guard_release(second);
	free_memory(second);
	stop();
}

/* Nor one at whose gate it stands, though the device has said all that it will. */
static void test_serves_not_while_it_stands(void **state)
{
	struct fm_cu_guard *first, *second;

	start(18);
	make();
	p.counted = 1;
	put_gate();
	while (advance(&dev.stream[0]))
		;
	set_gate(true);
	put_gate();
	while (advance(&dev.stream[0]))
		;
	assert_int_equal(atomic_load(&board.words.progress), 3);
	first = p.q.guard;
	ops->release(&p.q, false);
	another_queue();
	make();
	second = p.q.guard;
	assert_ptr_not_equal(second, first);
	set_gate(false);
	while (advance(&dev.stream[0]))
		;
	p.q.guard = fm_cu_guard_new(&driver, (CUcontext)8, NULL, false);
	assert_ptr_equal(p.q.guard, first);
	fm_cu_guard_release(second);
	free_memory(second);
	stop();
}

/* And none when nobody will hear whether that gate has been passed: it is the first of all. */
static void test_serves_nobody_when_adrift(void **state)
{
	struct fm_cu_guard *first;

	start(16);
	make();
	put_gate();
	first = p.q.guard;
	ops->release(&p.q, true);
	another_queue();
	make();
	assert_ptr_not_equal(p.q.guard, first);
	while (advance(&dev.stream[0]))
		;
	assert_int_equal(atomic_load(&first->shared->hold), 0);
	free_memory(first);
	stop();
}

/* And none of a context that has ended, though it was still in use then: another context of that
 * name has guards of its own. What is said of it later touches nothing that the context had. */
static void test_serves_no_other_context(void **state)
{
	struct fm_cu_guard *g;
	struct fm_cu_shared *shared;

	start(17);
	make();
	launch();
	cover();
	finish();
	g = p.q.guard;
	shared = g->shared;
	fm_cu_guards_end((CUcontext)8);
	assert_int_equal(ops->stop.interrupt(&p.q), -EALREADY);
	end_context();
	free((void *)(uintptr_t)g->block);
	shared->hold = 3;
	ops->release(&p.q, true);
	assert_int_equal(shared->hold, 3);
	free(shared);
	another_queue();
	make();
	assert_false(atomic_load(&p.q.guard->broken));
	stop();
}

/* The driver fails from some call on: nobody is held for ever. */
static void test_fails_open(void **state)
{
	for (unsigned at = 1; at < 40; at++) {
		start(at);
		make();
		for (unsigned i = 0; i < 5; i++)
			launch();
		cover();
		advance(&dev.stream[0]);
		stop_failing(at);
		stop();
	}
}

/* What takes part in the making may be refused. */
static void test_no_guard(void **state)
{
	for (unsigned at = 1; at < 9; at++) {
		start(at);
		dev.fails_at = at;
		ops->levels(&p.q);
		if (p.q.guard)
			stop();
		else
			end_context();
	}
	start(9);
	p.q.guarded = false;
	assert_int_equal(ops->levels(&p.q), 1u << 1 | 1u << 2);
	assert_null(p.q.guard);
	assert_int_equal(ops->stop.interrupt(&p.q), -EALREADY);
	assert_int_equal(ops->stop.restore(&p.q), 0);
	end_context();
}

/* Launches that record an event cannot be made again. */
static void test_attributes(void **state)
{
	struct fm_cu_attribute a[2] = {{.id = FM_CU_LAUNCH_PRIORITY}, {.id = 12}};
	struct fm_cu_launch_config config = {.grid = {1, 1, 1}, .attributes = a, .n_attributes = 2};
	struct fm_cu_guarded l = {(CUfunction)16, &config, 32, false};
	uint64_t ours[3];

	start(10);
	make();
	assert_null(fm_cu_guard_begin(p.q.guard, &l, ours));
	config.n_attributes = 1;
	assert_non_null(fm_cu_guard_begin(p.q.guard, &l, ours));
	assert_int_equal(ours[2] & 3, FM_GUARD_BLOCK);
	a[0].id = FM_CU_LAUNCH_COOPERATIVE;
	a[0].value[0] = 1;
	assert_non_null(fm_cu_guard_begin(p.q.guard, &l, ours));
	assert_int_equal(ours[2] & 3, FM_GUARD_GRID);
	a[0].value[0] = 0;
	config.grid[0] = 1u << 20;
	assert_non_null(fm_cu_guard_begin(p.q.guard, &l, ours));
	assert_int_equal(ours[2] & 3, FM_GUARD_GRID);
	l.bytes = 1u << 20;
	assert_null(fm_cu_guard_begin(p.q.guard, &l, ours));
	stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stops_inside_a_kernel),
		cmocka_unit_test(test_leaves_alone_what_waits),
		cmocka_unit_test(test_leaves_alone_what_is_over),
		cmocka_unit_test(test_opens_too_soon),
		cmocka_unit_test(test_is_put_off_for_a_call),
		cmocka_unit_test(test_is_put_off_for_the_program),
		cmocka_unit_test(test_stops_in_front_of_a_wait),
		cmocka_unit_test(test_no_mark),
		cmocka_unit_test(test_stops_again_and_again),
		cmocka_unit_test(test_any_order_is_exact),
		cmocka_unit_test(test_full_ring),
		cmocka_unit_test(test_many_left_out),
		cmocka_unit_test(test_serves_again),
		cmocka_unit_test(test_serves_when_its_gate_is_passed),
		cmocka_unit_test(test_serves_not_while_it_stands),
		cmocka_unit_test(test_serves_nobody_when_adrift),
		cmocka_unit_test(test_serves_no_other_context),
		cmocka_unit_test(test_fails_open),
		cmocka_unit_test(test_no_guard),
		cmocka_unit_test(test_attributes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
