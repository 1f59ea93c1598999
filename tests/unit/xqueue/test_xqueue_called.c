// SPDX-License-Identifier: Apache-2.0
/* XQueues that are closed by one thread while another is in a call for them. Each call is held open
 * by the test itself, for as long as it needs to see what the agent does meanwhile. */
#include "xqueue/segment.h"
#include "xqueue_world.h"

static _Atomic unsigned looks;

static void count_look(void)
{
	looks++;
}

static struct fm_xq *closed_in_a_launch(unsigned level)
{
	struct fm_xq *q;

	peer.looks = count_look;
	start_device(level);
	q = new_queue(false, 0);
	fm_xq_begin(q, COMMAND_NS, true);
	fm_xq_close(q);
	return q;
}

/* The agent has looked at the queue again, and more than once. */
static void assert_stays(const struct fm_xq *q)
{
	unsigned seen = looks;

	eventually(looks > seen + 5);
	assert_int_equal(peer.queues_gone, 0);
	assert_ptr_equal(q->client->queue[q->slot_index], q);
}

static void stays_while_launched(unsigned level)
{
	struct fm_xq *q = closed_in_a_launch(level);

	assert_stays(q);
	fm_xq_end(q);
	eventually(peer.queues_gone == 1);
	stop_device();
}

static void test_launch_level_1(void **state)
{
	stays_while_launched(1);
}

static void test_launch_level_2(void **state)
{
	stays_while_launched(2);
}

static void test_launch_level_3(void **state)
{
	stays_while_launched(3);
}

static void test_launch_device_gates(void **state)
{
	stays_while_launched(WORDS);
}

/* What comes after the launch is a part of the call. */
static void test_launch_that_has_waited(void **state)
{
	struct fm_xq *q = closed_in_a_launch(2);
	uint64_t before = fm_xq_mark(q);

	fm_xq_use(q);
	fm_xq_end(q);
	assert_stays(q);
	fm_xq_synced(q, before + 1);
	fm_xq_used(q);
	eventually(peer.queues_gone == 1);
	stop_device();
}

static void test_wait(void **state)
{
	struct fm_xq *q;

	peer.looks = count_look;
	start_device(2);
	q = new_queue(false, 0);
	launch(q, 0);
	wait_all(q);
	fm_xq_use(q);
	fm_xq_close(q);
	assert_stays(q);
	fm_xq_used(q);
	eventually(peer.queues_gone == 1);
	stop_device();
}

/* A thread that was cancelled never leaves its call. Nobody waits for that. */
static void test_call_that_never_ends(void **state)
{
	struct fm_xq *q = closed_in_a_launch(2);

	eventually(!fm_slot_pending(q->slot));
	assert_stays(q);
	stop_device();
}

/* Nor does the time of a call that has ended count for the next one: a queue whose device has not
 * finished stays in between. */
static void test_calls_one_after_the_other(void **state)
{
	struct fm_xq *q;
	uint64_t since;
	unsigned seen;

	peer.looks = count_look;
	start_device(2);
	q = new_queue(false, 0);
	pause_device();
	launch(q, 0);
	fm_xq_use(q);
	fm_xq_close(q);
	assert_stays(q);
	pthread_mutex_lock(&q->cold->lock);
	since = q->cold->calls_since;
	fm_xq_leave(q);
	assert_true(since);
	fm_xq_used(q);
	seen = looks;
	eventually((fm_client_wake(q->client), looks > seen + 2));
	pthread_mutex_lock(&q->cold->lock);
	since = q->cold->calls_since;
	fm_xq_leave(q);
	assert_int_equal(since, 0);
	w.pause = false;
	eventually(peer.queues_gone == 1);
	stop_device();
}

/* But a caller that is held back is no such thread. */
static void test_call_that_is_held(void **state)
{
	struct fm_xq *q;
	uint64_t until;

	peer.looks = count_look;
	start_device(1);
	q = new_queue(false, 0);
	atomic_store(&q->slot->gate, FM_GATE_CLOSED);
	atomic_fetch_add(&q->slot->begun, 1); /* as fm_xq_begin() does before it holds the caller */
	fm_xq_close(q);
	assert_stays(q);
	until = fm_now() + 3 * FM_XQ_GIVE_UP;
	eventually(fm_now() > until);
	assert_stays(q);
	assert_int_equal(fm_slot_pending(q->slot), 1);
	set_gate(q, FM_GATE_OPEN);
	fm_xq_end(q);
	eventually(peer.queues_gone == 1);
	stop_device();
}

/* Nothing is put into the hwqueue of a queue that is closed: neither a gate nor a tracker. */
static void test_closed_while_it_begins(void **state)
{
	struct fm_xq *q = closed_in_a_launch(2);
	uint64_t gates = atomic_load(&q->slot->gates);

	atomic_store(&q->slot->gate, FM_GATE_CLOSED);
	pthread_mutex_lock(&q->cold->lock);
	fm_xq_place_gate(q, false, fm_now());
	assert_int_equal(q->cold->tracks, 0);
	fm_xq_leave(q);
	assert_int_equal(atomic_load(&q->slot->gates), gates);
	assert_int_equal(fm_xq_track(q, 0, false), -ENOMEM);
	set_gate(q, FM_GATE_OPEN);
	fm_xq_end(q);
	eventually(peer.queues_gone == 1);
	stop_device();
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_launch_level_1),
	cmocka_unit_test(test_launch_level_2),
	cmocka_unit_test(test_launch_level_3),
	cmocka_unit_test(test_launch_device_gates),
	cmocka_unit_test(test_launch_that_has_waited),
	cmocka_unit_test(test_wait),
	cmocka_unit_test(test_call_that_never_ends),
	cmocka_unit_test(test_calls_one_after_the_other),
	cmocka_unit_test(test_call_that_is_held),
	cmocka_unit_test(test_closed_while_it_begins),
};

int main(int argc, char **argv)
{
	return RUN_OWN_PROCESSES(tests, argc, argv);
}
