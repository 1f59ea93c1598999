/* SPDX-License-Identifier: Apache-2.0 */
/* Trials of gates (api/trial.h), on the software device and on some that are wrong. */
#include "../xqueue/xqueue_world.h"
#include "api/trial.h"

static struct fm_simq *q[2];

static void start(void)
{
	start_device(2);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(fm_simq_new(&q[i], w.dev), 0);
}

static void over(void)
{
	for (unsigned i = 0; i < 2; i++)
		fm_simq_ops.release(q[i], false);
	stop_device();
}

static const struct fm_trial_queue *other(void)
{
	static struct fm_trial_queue o;

	o = (struct fm_trial_queue){fm_simq_ops.track, q[1]};
	return &o;
}

static void test_holds(void **state)
{
	start();
	assert_int_equal(fm_gate_try(&fm_simq_ops, q[0], other(), 1, NULL), FM_TRIAL_HOLDS);
	assert_int_equal(fm_gate_try(&fm_simq_ops, q[0], NULL, 0, NULL), FM_TRIAL_HOLDS);
	over();
}

/* Another queue with work that takes longer than the trial says nothing. */
static void test_busy_other(void **state)
{
	const struct fm_command c = {.device_ns = 3600 * FM_S, .done = done};

	start();
	assert_int_equal(fm_simq_ops.launch(q[1], &c), 0);
	assert_int_equal(fm_gate_try(&fm_simq_ops, q[0], other(), 1, NULL), FM_TRIAL_HOLDS);
	eventually((fm_simdev_advance(w.dev, 3600 * FM_S), w.n == 1));
	over();
}

static int no_gate(void *hwq, void **gate)
{
	return -EIO;
}

static int open_gate(void *hwq, void **gate)
{
	*gate = NULL;
	return 0;
}

static void *shut;

static void never_opens(void *hwq, void *gate)
{
	shut = gate;
}

static void opens_nothing(void *hwq, void *gate)
{
}

static enum fm_trial wrong(int (*put)(void *, void **), void (*open)(void *, void *))
{
	struct fm_hw_ops ops = fm_simq_ops;

	ops.host_gate.deactivate = put;
	ops.host_gate.reactivate = open;
	return fm_gate_try(&ops, q[0], other(), 1, NULL);
}

static _Atomic bool passed;

static void passed_by(void *cookie, uint64_t now)
{
	atomic_store(&passed, true);
}

static void test_wrong(void **state)
{
	start();
	assert_int_equal(wrong(no_gate, opens_nothing), FM_TRIAL_REFUSED);
	assert_int_equal(wrong(open_gate, opens_nothing), FM_TRIAL_PASSED);
	assert_int_equal(wrong(fm_simq_ops.host_gate.deactivate, never_opens), FM_TRIAL_STAYS);
	fm_simq_ops.host_gate.reactivate(q[0], shut);
	/* The trial's tracker comes before this one, and frees the trial. */
	assert_int_equal(fm_simq_ops.track(q[0], passed_by, NULL), 0);
	eventually(atomic_load(&passed));
	over();
}

/* Both are one channel. */
static void test_stalls(void **state)
{
	struct fm_trial_queue o[2];
	unsigned which = 9;

	start();
	o[0] = *other();
	o[1] = (struct fm_trial_queue){fm_simq_ops.track, q[0]};
	assert_int_equal(fm_gate_try(&fm_simq_ops, q[0], o, 2, &which), FM_TRIAL_STALLS);
	assert_int_equal(which, 1);
	over();
}

/* The other has work, and ends it just when the gate opens; the next time it has none. */
static struct {
	fm_reached_fn *reached;
	void *cookie;
	unsigned tracked;
} busy;

static int ends_with_the_gate(void *hwq, fm_reached_fn *reached, void *cookie)
{
	if (busy.tracked++) {
		reached(cookie, fm_now());
		return 0;
	}
	busy.reached = reached;
	busy.cookie = cookie;
	return 0;
}

static void opens_and_ends(void *hwq, void *gate)
{
	fm_simq_ops.host_gate.reactivate(hwq, gate);
	if (busy.reached)
		busy.reached(busy.cookie, fm_now());
	busy.reached = NULL;
}

static void test_ends_by_chance(void **state)
{
	const struct fm_trial_queue o = {ends_with_the_gate, NULL};
	struct fm_hw_ops ops = fm_simq_ops;

	start();
	ops.host_gate.reactivate = opens_and_ends;
	assert_int_equal(fm_gate_try(&ops, q[0], &o, 1, NULL), FM_TRIAL_HOLDS);
	assert_int_equal(busy.tracked, 2);
	over();
}

/* What passes a closed gate, and is heard of late the first time. */
static unsigned rounds;

static int late_at_first(void *hwq, fm_reached_fn *reached, void *cookie)
{
	/* Two trackers each time: in front of the gate, and behind it. */
	if (rounds++ == 1)
		return fm_simq_ops.track(q[1], reached, cookie);
	reached(cookie, fm_now());
	return 0;
}

static int holds_the_other(void *hwq, void **gate)
{
	return fm_simq_ops.host_gate.deactivate(q[1], gate);
}

static void opens_the_other(void *hwq, void *gate)
{
	fm_simq_ops.host_gate.reactivate(q[1], gate);
}

static void test_heard_late(void **state)
{
	struct fm_hw_ops ops = fm_simq_ops;

	start();
	ops.track = late_at_first;
	ops.host_gate.deactivate = holds_the_other;
	ops.host_gate.reactivate = opens_the_other;
	assert_int_equal(fm_gate_try(&ops, q[0], NULL, 0, NULL), FM_TRIAL_PASSED);
	assert_int_equal(rounds, 4);
	over();
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_holds),
	cmocka_unit_test(test_busy_other),
	cmocka_unit_test(test_wrong),
	cmocka_unit_test(test_stalls),
	cmocka_unit_test(test_ends_by_chance),
	cmocka_unit_test(test_heard_late),
};

int main(int argc, char **argv)
{
	return RUN_OWN_PROCESSES(tests, argc, argv);
}
