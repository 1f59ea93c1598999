// SPDX-License-Identifier: Apache-2.0
/* Device time of a queue whose gates the device itself looks at: none of it is at a closed gate. */
#include "xqueue_world.h"

#define LONG (3600 * FM_S) /* of the device's time */

static struct fm_xq *queue(void)
{
	struct fm_simq *simq;
	struct fm_xq *q;

	assert_int_equal(fm_simq_new(&simq, w.dev), 0);
	const struct fm_xq_config config = {
		.device = "sim", .ops = &fm_simq_word_ops, .hwq = simq, .in_order = true};
	assert_int_equal(fm_xq_create(&q, client(false), &config), 0);
	return q;
}

static void end(struct fm_xq *q)
{
	unsigned gone = peer.queues_gone;

	fm_xq_close(q);
	eventually(peer.queues_gone > gone);
	stop_device();
}

static uint64_t busy_since(struct fm_xq *q)
{
	return atomic_load(&q->slot->busy_since);
}

/* The device has gone on behind its gate, and stops there with a command that takes long. */
static void goes_on(struct fm_xq *q)
{
	set_gate(q, FM_GATE_OPEN);
	eventually(!fm_slot_waits(q->slot));
	pause_device();
}

/* Work that began behind a closed gate counts from when the gate is open, and no more when it is
 * closed again and the device stands there. */
static void device_time_is_between_gates(void **state)
{
	struct fm_xq *q;

	start_device(WORDS);
	q = queue();
	atomic_store(&peer.board->contended, FM_SHARES);
	set_gate(q, FM_GATE_CLOSED);
	agent_looks(q); /* it may have seen the gate open before, and would count what comes now */
	launch_of(q, LONG, 0);
	eventually(fm_slot_waits(q->slot));
	assert_int_equal(busy_since(q), 0);
	goes_on(q);
	eventually(busy_since(q));
	fm_simdev_advance(w.dev, LONG);
	w.pause = false;
	wait_all(q);
	set_gate(q, FM_GATE_CLOSED);
	launch(q, 1);
	eventually(fm_slot_waits(q->slot));
	eventually(!busy_since(q));
	set_gate(q, FM_GATE_OPEN);
	wait_all(q);
	end(q);
}

/* Nor is the time in which it stands at one that has closed on its way. */
static void a_gate_that_closes_ends_it(void **state)
{
	struct fm_xq *q;

	start_device(WORDS);
	q = queue();
	atomic_store(&peer.board->contended, FM_SHARES);
	set_gate(q, FM_GATE_OPEN);
	pause_device();
	launch(q, 0);
	assert_true(busy_since(q) > 0);
	set_gate(q, FM_GATE_CLOSED);
	launch(q, 1);
	w.pause = false;
	eventually(fm_slot_waits(q->slot));
	eventually(!busy_since(q));
	set_gate(q, FM_GATE_OPEN);
	wait_all(q);
	end(q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(device_time_is_between_gates),
		cmocka_unit_test(a_gate_that_closes_ends_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
