// SPDX-License-Identifier: Apache-2.0
/* A program that suspends its own queue, where the device looks at gates itself (steer.c). */
#include "xqueue_world.h"

static struct {
	_Atomic unsigned stopped, resumed;
	_Atomic bool amiss;
} told;

static void turned(void *hwq, bool stopped, uint64_t now)
{
	if (stopped)
		told.stopped++;
	else
		told.resumed++;
	if (told.stopped - told.resumed > 1 || now > fm_now()) /* in turns */
		told.amiss = true;
}

static struct fm_xq *steered(void)
{
	struct fm_simq *simq;
	struct fm_xq *q;

	start_device(WORDS);
	assert_int_equal(fm_simq_new(&simq, w.dev), 0);
	const struct fm_xq_config config = {.device = "sim",
		.ops = &fm_simq_word_ops,
		.hwq = simq,
		.in_order = true,
		.steered = true,
		.turned = turned};
	assert_int_equal(fm_xq_create(&q, client(false), &config), 0);
	return q;
}

static void finish(struct fm_xq *q, unsigned all)
{
	wait_all(q);
	eventually(w.n == all); /* a command is told of after its end is known */
	assert_in_order(all);
	fm_xq_close(q);
	eventually(peer.queues_gone == 1);
	assert_false(told.amiss);
	stop_device();
}

/* Suspended with so many commands launched, of which the device has begun with none. */
static void suspend_with(struct fm_xq *q, unsigned commands)
{
	pause_device();
	for (unsigned i = 0; i < commands; i++)
		launch(q, i);
	assert_int_equal(fm_xq_suspend(q), 0);
	w.pause = false;
}

static enum fm_hold hold(const struct fm_xq *q)
{
	return atomic_load(&q->slot->hold);
}

static void test_it_rests_and_says_so(void **state)
{
	struct fm_xq *q = steered();
	unsigned bells;

	bells = peer.bells;
	suspend_with(q, 200);
	assert_int_equal(fm_xq_wait_rest(q, 60 * FM_S), 0);
	assert_rests(q, 200);
	eventually(hold(q) == FM_HOLD_RESTS && peer.bells > bells);
	eventually(told.stopped == 1);
	for (unsigned i = 200; i < 300; i++)
		launch(q, i);
	assert_rests(q, 300);
	bells = peer.bells;
	assert_int_equal(fm_xq_resume(q), 0);
	assert_true(peer.bells > bells);
	assert_int_equal(hold(q), FM_HOLD_NONE);
	wait_all(q);
	eventually(told.resumed == 1);
	finish(q, 300);
}

static void test_idle_it_rests_at_once(void **state)
{
	struct fm_xq *q = steered();

	assert_int_equal(fm_xq_suspend(q), 0);
	assert_int_equal(fm_xq_suspend(q), 0);
	assert_int_equal(hold(q), FM_HOLD_RESTS);
	assert_int_equal(fm_xq_wait_rest(q, 0), 0);
	launch(q, 0);
	eventually(fm_slot_waits(q->slot));
	assert_rests(q, 1);
	assert_int_equal(hold(q), FM_HOLD_RESTS);
	assert_int_equal(fm_xq_resume(q), 0);
	assert_int_equal(fm_xq_wait_rest(q, 60 * FM_S), -ECANCELED);
	finish(q, 1);
}

/* Resumed while its group is stopped it has work, and runs no command before its gate opens. */
static void test_goes_on_with_its_gate(void **state)
{
	struct fm_xq *q = steered();

	suspend_with(q, 100);
	assert_int_equal(fm_xq_wait_rest(q, 60 * FM_S), 0);
	assert_rests(q, 100);
	set_gate(q, FM_GATE_CLOSED);
	assert_int_equal(fm_xq_resume(q), 0);
	assert_int_equal(hold(q), FM_HOLD_GOES_ON);
	assert_rests(q, 100);
	set_gate(q, FM_GATE_OPEN);
	eventually(hold(q) == FM_HOLD_NONE);
	finish(q, 100);
}

static void test_nobody_schedules_it(void **state)
{
	struct fm_xq *q;

	peer.refuse = true;
	q = steered();
	suspend_with(q, 100);
	assert_rests(q, 100);
	assert_int_equal(fm_xq_resume(q), 0);
	wait_all(q);
	eventually(w.n == 100);
	assert_in_order(100);
	fm_xq_close(q);
	stop_device();
}

static void test_closed_it_is_let_go(void **state)
{
	struct fm_xq *q = steered();

	suspend_with(q, 100);
	assert_int_equal(fm_xq_wait_rest(q, 60 * FM_S), 0);
	fm_xq_close(q);
	eventually(peer.queues_gone == 1);
	eventually(w.n == 100);
	assert_in_order(100);
	stop_device();
}

/* The scheduler's stops are told as well, and the agent is woken for them. */
static void test_stops_are_told(void **state)
{
	struct fm_xq *q = steered();

	assert_true(atomic_load(&q->slot->hears));
	set_gate(q, FM_GATE_CLOSED);
	device_goes_on(20); /* the agent sleeps again */
	launch(q, 0);
	eventually(told.stopped == 1);
	assert_int_equal(told.resumed, 0);
	set_gate(q, FM_GATE_OPEN);
	eventually(told.resumed == 1);
	finish(q, 1);
}

static void test_what_is_not_steered(void **state)
{
	struct fm_xq *q;

	start_device(WORDS);
	q = new_queue(false, 0);
	assert_int_equal(fm_xq_suspend(q), -EOPNOTSUPP);
	launch(q, 0);
	finish(q, 1);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_it_rests_and_says_so),
	cmocka_unit_test(test_idle_it_rests_at_once),
	cmocka_unit_test(test_goes_on_with_its_gate),
	cmocka_unit_test(test_nobody_schedules_it),
	cmocka_unit_test(test_closed_it_is_let_go),
	cmocka_unit_test(test_stops_are_told),
	cmocka_unit_test(test_what_is_not_steered),
};

int main(int argc, char **argv)
{
	return RUN_OWN_PROCESSES(tests, argc, argv);
}
