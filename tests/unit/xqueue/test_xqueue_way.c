// SPDX-License-Identifier: Apache-2.0
/* How a queue is stopped, as whoever schedules it says while it runs: at gates alone, or in the
 * middle of commands, from some length on. */
#include "xqueue_model.h"

#include "xqueue/segment.h"

#define LONG  (3600 * FM_S) /* of the device's time: it does not come to its end by itself */
#define LATER UINT32_MAX

/* The device takes its time to stand. */
static _Atomic bool slow;
static _Atomic unsigned asked;

static int interrupt(void *hwq)
{
	asked++;
	return slow ? -EINPROGRESS : fm_simq_ops.stop.interrupt(hwq);
}

/* A device that looks at gates itself, and stops commands. */
static struct fm_xq *divisible(void)
{
	static struct fm_hw_ops ops;
	struct fm_xq *q;

	start_device(3);
	ops = model_ops();
	ops.stop.interrupt = interrupt;
	q = new_queue_by(&ops, false, 0);
	assert_int_equal(fm_xq_level(q), FM_LEVEL_RUNNING);
	return q;
}

static void set_way(struct fm_xq *q, enum fm_level deepest, uint32_t guard_us)
{
	atomic_store(&q->slot->deepest, deepest);
	atomic_store(&q->slot->guard_us, guard_us);
	fm_client_wake(q->client);
}

/* A long command is under way, and the gate closes. */
static void close_over_a_long_one(struct fm_xq *q)
{
	uint64_t before = fm_simdev_now(w.dev);

	launch_of(q, LONG, 0);
	eventually(fm_simdev_now(w.dev) >= before + 10 * COMMAND_NS);
	set_gate(q, FM_GATE_CLOSED);
}

/* However long the agent is given: it was asleep and woke for the gate before. */
static void assert_left_alone(struct fm_xq *q)
{
	device_goes_on(100);
	eventually(atomic_load(&q->client->board->agent_sleeps));
	assert_int_equal(fm_xq_interrupts(q), 0);
	assert_false(fm_xq_stalled(q));
	assert_int_equal(w.n, 0);
}

static void let_end(struct fm_xq *q, unsigned n)
{
	set_gate(q, FM_GATE_OPEN);
	eventually((fm_simdev_advance(w.dev, LONG), w.n == n));
	wait_all(q);
	fm_xq_close(q);
	eventually(peer.queues_gone == 1);
	stop_device();
}

static void test_gates_alone(void **state)
{
	struct fm_xq *q = divisible();

	set_way(q, FM_LEVEL_QUEUED, 0);
	assert_int_equal(fm_xq_level(q), FM_LEVEL_QUEUED);
	assert_true(fm_xq_gates_only(q));
	close_over_a_long_one(q);
	assert_left_alone(q);
	let_end(q, 1);
}

/* Taken back while it still runs to its gate. */
static void test_taken_back(void **state)
{
	struct fm_xq *q = divisible();

	set_way(q, FM_LEVEL_QUEUED, 0);
	close_over_a_long_one(q);
	assert_left_alone(q);
	set_way(q, FM_LEVEL_NONE, 0);
	eventually(fm_xq_interrupts(q) == 1);
	assert_true(fm_xq_stalled(q));
	let_end(q, 1);
}

/* What stands in the middle of a command goes on from there, and is stopped at gates from then on.
 */
static void test_it_keeps_its_way(void **state)
{
	struct fm_xq *q = divisible();
	unsigned n;

	close_over_a_long_one(q);
	eventually(fm_xq_interrupts(q) == 1);
	set_way(q, FM_LEVEL_QUEUED, 0);
	n = w.n;
	device_goes_on(50);
	assert_true(fm_xq_stalled(q) && w.n == n);
	set_gate(q, FM_GATE_OPEN);
	eventually((fm_simdev_advance(w.dev, LONG), w.n == 1));
	wait_all(q);
	pause_device(); /* else all may have run before the gate closes */
	for (unsigned i = 1; i <= 100; i++)
		launch(q, i);
	set_gate(q, FM_GATE_CLOSED);
	w.pause = false;
	assert_rests(q, 101);
	assert_int_equal(fm_xq_interrupts(q), 1);
	let_end(q, 101);
}

static void test_what_has_begun_comes_to_its_end(void **state)
{
	struct fm_xq *q = divisible();

	slow = true;
	close_over_a_long_one(q);
	eventually(asked > 0);
	set_way(q, FM_LEVEL_QUEUED, LATER);
	slow = false;
	eventually(fm_xq_interrupts(q) == 1);
	let_end(q, 1);
}

/* Nothing is known of the command, and the time is not over. */
static void test_a_gate_is_waited_for(void **state)
{
	struct fm_xq *q = divisible();

	set_way(q, FM_LEVEL_NONE, LATER);
	close_over_a_long_one(q);
	assert_left_alone(q);
	set_way(q, FM_LEVEL_NONE, 0);
	eventually(fm_xq_interrupts(q) == 1);
	let_end(q, 1);
}

static void test_not_for_longer(void **state)
{
	struct fm_xq *q = divisible();

	set_way(q, FM_LEVEL_NONE, 1);
	close_over_a_long_one(q);
	eventually(fm_xq_interrupts(q) == 1);
	let_end(q, 1);
}

/* One that is known to be long is not waited for at all. */
static void test_not_for_a_long_one(void **state)
{
	struct fm_xq *q = divisible();

	fm_est_put(LONG, LATER * FM_US);
	set_way(q, FM_LEVEL_NONE, LATER);
	close_over_a_long_one(q);
	eventually(fm_xq_interrupts(q) == 1);
	let_end(q, 1);
}

/* Whoever schedules next says it anew. */
static void test_gone_with_the_daemon(void **state)
{
	struct fm_xq *q = divisible();

	set_way(q, FM_LEVEL_QUEUED, LATER);
	peer.gone = true;
	fm_client_wake(q->client);
	eventually(fm_xq_level(q) == FM_LEVEL_RUNNING);
	eventually(!atomic_load(&q->slot->guard_us));
	eventually(peer.opened == 2);
	let_end(q, 0);
}

/* For who decides at the launch. */
static void test_from_which_length_on(void **state)
{
	struct fm_xq *q = divisible();

	atomic_store(&peer.board->slot[0].shares, FM_SHARES);
	assert_true(fm_xq_is_shared(q));
	assert_int_equal(fm_xq_guard_from(q, 7), 7);
	set_way(q, FM_LEVEL_NONE, 3);
	assert_int_equal(fm_xq_guard_from(q, 7), 3000);
	assert_int_equal(fm_xq_guard_from(q, UINT64_MAX), UINT64_MAX);
	set_way(q, FM_LEVEL_QUEUED, 3);
	assert_int_equal(fm_xq_guard_from(q, 7), UINT64_MAX);
	assert_false(fm_xq_is_shared(q)); /* nothing is launched so that it can stop */
	set_way(q, FM_LEVEL_RUNNING, 0);
	assert_int_equal(fm_xq_guard_from(q, 7), 7);
	let_end(q, 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_gates_alone),
	cmocka_unit_test(test_taken_back),
	cmocka_unit_test(test_it_keeps_its_way),
	cmocka_unit_test(test_what_has_begun_comes_to_its_end),
	cmocka_unit_test(test_a_gate_is_waited_for),
	cmocka_unit_test(test_not_for_longer),
	cmocka_unit_test(test_not_for_a_long_one),
	cmocka_unit_test(test_gone_with_the_daemon),
	cmocka_unit_test(test_from_which_length_on),
};

int main(int argc, char **argv)
{
	return RUN_OWN_PROCESSES(tests, argc, argv);
}
