/* SPDX-License-Identifier: Apache-2.0 */
/* The software device in virtual time: order, turns, the three levels, faults, lifetimes. */
#include "sim_world.h"

static void test_time_passes_only_when_told(void **state)
{
	launch(0, "a", 100);
	advance(0);
	assert_int_equal(w.n, 0);
	advance(99);
	assert_int_equal(w.n, 0);
	advance(1);
	assert_story("a", 100);
	assert_int_equal(fm_simdev_now(w.dev), 100);
	advance(900);
	assert_int_equal(fm_simdev_now(w.dev), 1000);
	launch(0, "b", 0);
	advance(0);
	assert_story("ab", 100, 1000);
}

static void test_order_and_turns(void **state)
{
	launch(0, "a", 10);
	launch(0, "b", 10);
	launch(0, "c", 10);
	launch(1, "A", 5);
	launch(1, "B", 5);
	launch(2, "x", 1);
	advance(1000);
	assert_story("aAxbBc", 10, 15, 16, 26, 31, 41);
}

static void test_launch_cost(void **state)
{
	teardown(state);
	setup_with((struct fm_sim_options){.virtual_time = true, .launch_ns = 7}, 1);
	launch(0, "a", 3);
	launch(0, "b", 0);
	advance(100);
	assert_story("ab", 10, 17);
}

static void test_track(void **state)
{
	track(0, "0"); /* nothing is under way: reached at once */
	assert_story("0", 0);
	launch(0, "a", 10);
	track(0, "1");
	track(0, "2");
	launch(0, "b", 10);
	track(0, "3");
	advance(10);
	assert_story("0a12", 0, 10, 10, 10);
	advance(10);
	assert_story("0a12b3", 0, 10, 10, 10, 20, 20);
}

static void relaunch(void *arg)
{
	happened("r");
	assert_int_equal(launch(0, "b", 5), 0);
	assert_int_equal(track(0, "t"), 0);
	assert_int_equal(ops->sync(w.q[0]), -EDEADLK);
	assert_int_equal(fm_simdev_advance(w.dev, 1), -EDEADLK);
}

static void test_callbacks_may_use_the_device(void **state)
{
	struct fm_command c = {.device_ns = 10, .done = relaunch};

	ops->launch(w.q[0], &c);
	launch(1, "x", 1);
	advance(100);
	/* What the callback launches comes at the time of the callback, and takes its turn. */
	assert_story("rxbt", 10, 11, 16, 16);
}

static void test_gates(void **state)
{
	void *g1, *g2;

	assert_int_equal(ops->levels(w.q[0]), 1 << 1 | 1 << 2 | 1 << 3);
	launch(0, "a", 10);
	assert_int_equal(ops->host_gate.deactivate(w.q[0], &g1), 0);
	launch(0, "b", 10);
	assert_int_equal(ops->host_gate.deactivate(w.q[0], &g2), 0);
	track(0, "t");
	launch(0, "c", 10);
	launch(1, "x", 10);
	advance(100); /* the others run on */
	assert_story("ax", 10, 20);
	ops->host_gate.reactivate(w.q[0], g1);
	advance(100);
	assert_story("axb", 10, 20, 110);
	ops->host_gate.reactivate(w.q[0], g2);
	advance(100);
	assert_story("axbtc", 10, 20, 110, 200, 210);
}

static void test_gates_opened_in_any_order(void **state)
{
	void *g1, *g2;

	ops->host_gate.deactivate(w.q[0], &g1);
	launch(0, "a", 10);
	ops->host_gate.deactivate(w.q[0], &g2);
	launch(0, "b", 10);
	ops->host_gate.reactivate(w.q[0], g2); /* before the device comes to it */
	advance(50);
	assert_int_equal(w.n, 0);
	ops->host_gate.reactivate(w.q[0], g1);
	advance(50);
	assert_story("ab", 60, 70);
}

static void test_interrupt_keeps_what_was_done(void **state)
{
	launch(0, "a", 100);
	launch(1, "x", 10);
	advance(40);
	assert_int_equal(ops->stop.interrupt(w.q[0]), 0);
	assert_int_equal(ops->stop.interrupt(w.q[0]), 0);
	launch(0, "b", 5);
	advance(1000);
	assert_story("x", 50);
	assert_int_equal(ops->stop.restore(w.q[0]), 0);
	assert_int_equal(ops->stop.restore(w.q[0]), 0);
	advance(59);
	assert_story("x", 50);
	advance(6);
	assert_story("xab", 50, 1100, 1105);
}

static void test_interrupt_takes_time(void **state)
{
	teardown(state);
	setup_with((struct fm_sim_options){.virtual_time = true, .interrupt_ns = 25}, 2);
	launch(0, "a", 100);
	advance(50);
	launch(1, "x", 10);
	ops->stop.interrupt(w.q[0]);
	advance(24);
	ops->stop.interrupt(w.q[0]); /* stopped already: costs nothing more */
	advance(100);
	assert_story("x", 85);
	/* A queue that does not run is stopped for nothing. */
	ops->stop.interrupt(w.q[1]);
	ops->stop.restore(w.q[0]);
	advance(100);
	assert_story("xa", 85, 174 + 50);
}

static void test_suspension_changes_no_result(void **state)
{
	uint64_t busy = 0;
	void *gate = NULL;

	for (int i = 0; i < 20; i++) {
		launch(0, "a", 30);
		track(0, "t");
	}
	for (int step = 0; w.n < 40 && step < 1000; step++) {
		if (step % 3 == 1)
			ops->stop.interrupt(w.q[0]);
		else
			busy += 7;
		advance(7);
		if (step % 3 == 1)
			ops->stop.restore(w.q[0]);
		if (gate)
			ops->host_gate.reactivate(w.q[0], gate);
		gate = NULL;
		if (step % 5 == 0)
			assert_int_equal(ops->host_gate.deactivate(w.q[0], &gate), 0);
	}
	assert_int_equal(w.n, 40);
	assert_true(busy >= 600 && busy < 600 + 7); /* no work is lost, none is done twice */
	for (unsigned i = 0; i < w.n; i++)
		assert_int_equal(w.names[i], i % 2 ? 't' : 'a');
}

static void test_lesser_devices(void **state)
{
	static const unsigned levels[] = {14, 2, 6, 14};
	void *gate = NULL;

	teardown(state);
	for (unsigned max = 0; max <= 3; max++) {
		setup_with((struct fm_sim_options){.virtual_time = true, .max_level = max}, 1);
		assert_int_equal(ops->levels(w.q[0]), levels[max]);
		assert_int_equal(
			ops->host_gate.deactivate(w.q[0], &gate), max == 1 ? -EOPNOTSUPP : 0);
		assert_int_equal(ops->stop.interrupt(w.q[0]), max % 3 ? -EOPNOTSUPP : 0);
		assert_int_equal(ops->stop.restore(w.q[0]), max % 3 ? -EOPNOTSUPP : 0);
		assert_int_equal(launch(0, "a", 1), 0);
		teardown(state);
	}
	w.dev = (void *)1;
	assert_int_equal(fm_simdev_new(&w.dev, &(struct fm_sim_options){.max_level = 4}), -EINVAL);
	setup(state);
}

static void test_faults_are_reported_and_pass(void **state)
{
	void *gate;

	assert_int_equal(fm_simdev_fault(w.dev, FM_SIM_FAULT_COUNT, 1), -EINVAL);
	assert_int_equal(fm_simdev_fault(w.dev, (enum fm_sim_fault) - 1, 1), -EINVAL);
	for (unsigned f = FM_SIM_FAULT_LAUNCH; f <= FM_SIM_FAULT_TRACK; f++)
		assert_int_equal(fm_simdev_fault(w.dev, f, 2), 0);
	launch(1, "X", 0);
	assert_int_equal(launch(0, "a", 1), -EIO);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ops->host_gate.deactivate(w.q[0], &gate), -EIO);
		assert_int_equal(ops->stop.interrupt(w.q[0]), -EIO);
		assert_int_equal(track(0, "t"), -EIO);
	}
	advance(10);
	assert_int_equal(w.n, 0); /* nothing was half done */
	assert_int_equal(launch(0, "b", 1), 0);
	assert_int_equal(ops->host_gate.deactivate(w.q[0], &gate), 0);
	assert_int_equal(track(0, "t"), 0);
	launch(1, "x", 1);
	advance(10);
	assert_int_equal(w.n, 2);
	assert_int_equal(ops->stop.interrupt(w.q[0]), 0);
	ops->stop.restore(w.q[0]);
	ops->host_gate.reactivate(w.q[0], gate);
	advance(1);
	assert_story("bxt", 11, 12, 20);
}

static void test_hang(void **state)
{
	assert_int_equal(fm_simdev_fault(w.dev, FM_SIM_FAULT_HANG, 1), 0);
	launch(0, "h", 1);
	launch(0, "a", 10);
	launch(1, "x", 10);
	advance(1000);
	assert_int_equal(w.n, 0);
	ops->stop.interrupt(w.q[0]); /* the others get the device */
	advance(1000);
	assert_story("x", 1010);
	ops->stop.restore(w.q[0]); /* it hangs on */
	launch(1, "y", 10);
	advance(1000);
	assert_story("x", 1010);
	fm_simdev_reset(w.dev);
	advance(1000);
	assert_story("xhya", 1010, 3000, 3010, 3020);
}

static void test_release_lets_work_finish(void **state)
{
	void *gate;

	launch(0, "a", 10);
	ops->host_gate.deactivate(w.q[0], &gate);
	launch(0, "b", 10);
	track(0, "t");
	ops->stop.interrupt(w.q[0]);
	ops->release(w.q[0], false);
	w.q[0] = NULL;
	advance(100);
	assert_story("abt", 10, 20, 20);
}

static void test_device_goes_before_its_queues(void **state)
{
	launch(0, "a", 10);
	launch(1, "x", 10);
	ops->release(w.q[0], false); /* its work is dropped with the device */
	w.q[0] = NULL;
	fm_simdev_free(w.dev);
	w.dev = NULL;
	assert_int_equal(launch(1, "y", 10), 0);
	assert_int_equal(w.n, 0);
}

static void test_odd_times(void **state)
{
	launch(0, "a", UINT64_MAX);
	launch(1, "x", 5);
	advance(FM_S);
	ops->stop.interrupt(w.q[0]);
	advance(10);
	assert_story("x", (int)(FM_S + 5));
	assert_int_equal(fm_simdev_advance(w.dev, UINT64_MAX), -EOVERFLOW);
	assert_int_equal(fm_simdev_now(w.dev), FM_S + 10);
}

#define VIRTUAL(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		VIRTUAL(test_time_passes_only_when_told),
		VIRTUAL(test_order_and_turns),
		VIRTUAL(test_launch_cost),
		VIRTUAL(test_track),
		VIRTUAL(test_callbacks_may_use_the_device),
		VIRTUAL(test_gates),
		VIRTUAL(test_gates_opened_in_any_order),
		VIRTUAL(test_interrupt_keeps_what_was_done),
		VIRTUAL(test_interrupt_takes_time),
		VIRTUAL(test_suspension_changes_no_result),
		VIRTUAL(test_lesser_devices),
		VIRTUAL(test_faults_are_reported_and_pass),
		VIRTUAL(test_hang),
		VIRTUAL(test_release_lets_work_finish),
		VIRTUAL(test_device_goes_before_its_queues),
		VIRTUAL(test_odd_times),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
