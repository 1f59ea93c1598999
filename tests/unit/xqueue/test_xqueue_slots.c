// SPDX-License-Identifier: Apache-2.0
/* Slots of the board that a device still looks at when their queue is gone: a stream was destroyed
 * long before the device gets to what is in it, and its end could not be asked for. */
#include "xqueue_model.h"

#include "xqueue/link.h"
#include "xqueue/segment.h"

static int make(struct fm_xq **q)
{
	static struct fm_hw_ops ops;
	struct fm_simq *simq;
	int rc;

	if (!ops.name) /* the agent reads them from then on */
		ops = model_ops();
	assert_int_equal(fm_simq_new(&simq, w.dev), 0);
	const struct fm_xq_config config = {
		.device = "sim", .ops = &ops, .hwq = simq, .in_order = true};
	rc = fm_xq_create(q, client(false), &config);
	if (rc)
		fm_simq_ops.release(simq, false);
	return rc;
}

static struct fm_xq *queue(void)
{
	struct fm_xq *q;

	assert_int_equal(make(&q), 0);
	return q;
}

/* What the agent writes is read as it would. */
#define LOCKED(q, type, field)                          \
	({                                              \
		type v_;                                \
		pthread_mutex_lock(&(q)->cold->lock);   \
		v_ = (q)->cold->field;                  \
		pthread_mutex_unlock(&(q)->cold->lock); \
		v_;                                     \
	})

/* What is in front of all gates, and is no command: the device waits there. */
static void stand(struct fm_xq *q)
{
	const struct fm_command c = {.device_ns = COMMAND_NS, .done = done};

	pause_device();
	assert_int_equal(fm_simq_ops.launch(q->hwq, &c), 0);
}

/* One gate, in front of the command. */
static void launch_behind_a_gate(struct fm_xq *q)
{
	uint64_t gates = atomic_load(&q->slot->gates);

	set_gate(q, FM_GATE_CLOSED);
	launch(q, 1);
	assert_int_equal(atomic_load(&q->slot->gates), gates + 1);
}

static void close_untold(struct fm_xq *q, int fence_rc)
{
	unsigned gone = peer.queues_gone;

	model.fence = fence_rc;
	set_gate(q, FM_GATE_OPEN);
	fm_xq_close(q);
	eventually(peer.queues_gone == gone + 1);
	model.fence = 0;
}

static void close_all(struct fm_xq **q, unsigned n)
{
	unsigned gone = peer.queues_gone;

	for (unsigned i = 0; i < n; i++)
		fm_xq_close(q[i]);
	eventually(peer.queues_gone == gone + n);
}

/* How many queues there is a slot for; one of them is this one. */
static unsigned fill(unsigned slot, bool *has)
{
	struct fm_xq *q[FM_BOARD_SLOTS], *more;
	unsigned n = 0;

	*has = false;
	while (n < FM_BOARD_SLOTS && !make(&q[n]))
		*has |= q[n++]->slot_index == slot;
	assert_int_equal(make(&more), -ENOSPC);
	close_all(q, n);
	return n;
}

/* Whether one of the queues that there are slots for has this one. */
static void serves(unsigned slot, bool yes)
{
	bool has;

	assert_int_equal(fill(slot, &has), FM_BOARD_SLOTS - !yes);
	assert_int_equal(has, yes);
}

/* A queue whose end cannot be asked for, from the beginning; 0: it can. */
static struct fm_xq *begin(int fence_rc)
{
	start_device(WORDS);
	model.fence = fence_rc;
	return queue();
}

/* The first gate of all has nothing finished in front of it: what the device says does not tell
 * whether it was passed. */
static void first_gate(int tell_rc)
{
	struct fm_xq *q = begin(tell_rc);
	unsigned slot = q->slot_index;

	stand(q);
	launch_behind_a_gate(q);
	assert_int_equal(LOCKED(q, uint64_t, fenced), 0);
	close_untold(q, tell_rc);
	serves(slot, false);
	assert_int_equal(model.orphaned, 1);
	w.pause = false;
	eventually(w.n == 2);
	serves(slot, false);
	stop_device();
}

static void test_first_gate_in_a_capture(void **state)
{
	first_gate(-EBUSY);
}

static void test_first_gate_beside_a_call_that_waits(void **state)
{
	first_gate(-EAGAIN);
}

/* Likewise one behind what the device has said before. */
static void test_gate_behind_what_was_told(void **state)
{
	struct fm_xq *q = begin(0);
	unsigned slot = q->slot_index;

	launch(q, 0);
	wait_all(q);
	eventually(LOCKED(q, uint64_t, fenced) == 1);
	model.fence = -EBUSY;
	stand(q);
	launch_behind_a_gate(q);
	assert_int_equal(LOCKED(q, uint64_t, fenced), 1);
	close_untold(q, -EBUSY);
	serves(slot, false);
	assert_int_equal(model.orphaned, 1);
	stop_device();
}

/* Unless it was seen to stand there. */
static void test_gate_where_it_stood(void **state)
{
	struct fm_xq *q = begin(-EAGAIN); /* which nobody gives up, however late the device comes */
	unsigned slot = q->slot_index;

	launch_behind_a_gate(q);
	assert_int_equal(LOCKED(q, uint64_t, fenced), 0);
	eventually(LOCKED(q, enum fm_pass, pass) == FM_PASS_SAID);
	close_untold(q, -EAGAIN);
	assert_int_equal(model.orphaned, 0);
	serves(slot, true);
	stop_device();
}

/* Of two at one place nobody knows at which it stood. */
static void test_two_gates_at_one_place(void **state)
{
	struct fm_xq *q = begin(-EAGAIN);
	unsigned slot = q->slot_index;

	set_gate(q, FM_GATE_CLOSED);
	fm_xq_begin(q, COMMAND_NS, true);
	fm_xq_order_take(q);
	fm_xq_gate_in_order(q);
	fm_xq_order_give(q);
	fm_xq_end(q);
	eventually(LOCKED(q, uint64_t, seen_at_gate));
	close_untold(q, -EAGAIN);
	serves(slot, false);
	assert_int_equal(model.orphaned, 1);
	stop_device();
}

/* Or the program has waited for all that was launched. */
static void test_gate_that_was_waited_for(void **state)
{
	struct fm_xq *q = begin(-EBUSY);
	unsigned slot = q->slot_index;

	stand(q);
	launch_behind_a_gate(q);
	set_gate(q, FM_GATE_OPEN);
	w.pause = false;
	assert_int_equal(fm_simq_ops.sync(q->hwq), 0);
	fm_xq_synced(q, fm_xq_mark(q)); /* whatever was guessed meanwhile */
	close_untold(q, -EBUSY);
	assert_int_equal(model.orphaned, 0);
	serves(slot, true);
	stop_device();
}

/* To wait for less than was guessed says nothing of the rest. */
static void test_gate_behind_what_was_waited_for(void **state)
{
	struct fm_xq *q = begin(-EBUSY);
	unsigned slot = q->slot_index;

	stand(q);
	launch_behind_a_gate(q);
	eventually(q->guessed);
	fm_xq_synced(q, 0);
	set_gate(q, FM_GATE_OPEN);
	w.pause = false;
	assert_int_equal(fm_simq_ops.sync(q->hwq), 0);
	(void)LOCKED(q, bool, gave_up); /* what the agent does while it stands is done */
	fm_xq_synced(q, fm_xq_mark(q));
	close_untold(q, -EBUSY);
	assert_int_equal(model.orphaned, 0);
	serves(slot, true);
	stop_device();
}

/* All commands have finished, and been waited for. What the device is yet to write behind them
 * would be taken for the progress of the next queue. */
static void test_word_behind_what_was_waited_for(void **state)
{
	struct fm_xq *q = begin(0);
	unsigned slot = q->slot_index;

	launch(q, 0);
	assert_int_equal(fm_simq_ops.sync(q->hwq), 0);
	stand(q);
	assert_int_equal(fm_xq_wait(q, 1, 0), -ETIMEDOUT); /* asks the device for its word */
	assert_int_equal(LOCKED(q, uint64_t, fenced), 1);
	fm_xq_synced(q, 1);
	close_untold(q, 0);
	assert_int_equal(model.orphaned, 0);
	serves(slot, false);
	w.pause = false;
	eventually(atomic_load(&peer.board->slot[slot].progress) == 2);
	serves(slot, true);
	stop_device();
}

/* Nothing tells whether a gate was passed that writes what was written before. So when the queue is
 * closed the device is to write that it has left the slot. */
static void test_device_says_that_it_has_left(void **state)
{
	struct fm_xq *q = begin(0);
	unsigned slot = q->slot_index;

	launch(q, 0);
	wait_all(q);
	eventually(LOCKED(q, uint64_t, fenced) == 1 && atomic_load(&q->slot->progress) == 2);
	stand(q);
	fm_xq_order_take(q);
	fm_xq_gate_in_order(q);
	fm_xq_order_give(q);
	assert_int_equal(LOCKED(q, enum fm_pass, pass), FM_PASS_SEEN);
	atomic_store(&q->cold->synced, 1);
	close_untold(q, 0);
	serves(slot, false);
	w.pause = false;
	eventually(atomic_load(&peer.board->slot[slot].left) == FM_SLOT_LEFT);
	serves(slot, true);
	stop_device();
}

/* Where the device says that it has passed the last gate the slot serves again from then on. */
static void test_slot_serves_again(void **state)
{
	struct fm_xq *q = begin(0);
	unsigned slot = q->slot_index;

	model.fence = -EBUSY; /* so that the gate stands where none was told of */
	stand(q);
	launch(q, 0);
	launch_behind_a_gate(q);
	assert_int_equal(LOCKED(q, uint64_t, fenced), 1);
	close_untold(q, -EBUSY);
	serves(slot, false);
	assert_int_equal(model.orphaned, 0);
	w.pause = false;
	eventually(atomic_load(&peer.board->slot[slot].progress) == 2);
	serves(slot, true);
	stop_device();
}

/* While it is still there, the gate open again, it has not gone past. */
static void test_stands_at_the_last_gate(void **state)
{
	struct fm_xq *q, *next;
	unsigned slot;

	start_device(WORDS);
	q = queue();
	slot = q->slot_index;
	model.fence = -EBUSY;
	launch(q, 0);
	launch_behind_a_gate(q);
	eventually(atomic_load(&q->slot->progress) == 3);
	pause_device();
	close_untold(q, -EBUSY);
	next = queue();
	assert_int_not_equal(next->slot_index, slot);
	w.pause = false;
	fm_xq_close(next);
	eventually(peer.queues_gone == 2);
	stop_device();
}

/* Where gates of graphs look nobody else is stopped, while there are other slots. */
static void test_gates_in_graphs(void **state)
{
	struct fm_xq *q = begin(0), *next;
	unsigned slot = q->slot_index;

	while (!fm_xq_capture(q, COMMAND_NS, COMMAND_NS, 1, false))
		;
	close_untold(q, 0);
	next = queue();
	assert_int_not_equal(next->slot_index, slot);
	close_untold(next, 0);
	serves(slot, true);
	stop_device();
}

/* A scheduler that has not read that the queue is gone closes its gate, and is gone itself: graphs
 * have gates that look there. */
static void test_gates_in_graphs_open(void **state)
{
	struct fm_xq *q = begin(0), *other = queue();
	_Atomic uint32_t *gate = &q->slot->gate;

	while (!fm_xq_capture(q, COMMAND_NS, COMMAND_NS, 1, false))
		;
	close_untold(q, 0);
	atomic_store(gate, FM_GATE_CLOSED);
	peer.gone = true;
	fm_client_wake(other->client);
	eventually(atomic_load(gate) == FM_GATE_OPEN);
	/* It had its old session in hand when we came anew. */
	eventually(peer.opened == 2);
	atomic_store(gate, FM_GATE_CLOSED);
	fm_client_lax(other->client);
	assert_int_equal(atomic_load(gate), FM_GATE_OPEN);
	fm_xq_close(other);
	eventually(peer.queues_gone == 2);
	stop_device();
}

/* Who waits for the gates of a queue that is gone does not wait for those of the next one. */
static void test_awaits_nobody(void **state)
{
	struct fm_xq *q = begin(0), *next;

	launch(q, 0);
	launch_behind_a_gate(q);
	set_gate(q, FM_GATE_OPEN);
	wait_all(q);
	fm_xq_keep(q);
	close_untold(q, 0);
	next = queue();
	assert_int_equal(next->slot_index, q->slot_index);
	launch_behind_a_gate(next);
	eventually(fm_slot_waits(next->slot));
	fm_xq_await_gates(q);
	fm_xq_unref(q);
	close_untold(next, 0);
	stop_device();
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_first_gate_in_a_capture),
	cmocka_unit_test(test_first_gate_beside_a_call_that_waits),
	cmocka_unit_test(test_gate_behind_what_was_told),
	cmocka_unit_test(test_gate_where_it_stood),
	cmocka_unit_test(test_two_gates_at_one_place),
	cmocka_unit_test(test_gate_that_was_waited_for),
	cmocka_unit_test(test_gate_behind_what_was_waited_for),
	cmocka_unit_test(test_word_behind_what_was_waited_for),
	cmocka_unit_test(test_device_says_that_it_has_left),
	cmocka_unit_test(test_slot_serves_again),
	cmocka_unit_test(test_stands_at_the_last_gate),
	cmocka_unit_test(test_gates_in_graphs),
	cmocka_unit_test(test_gates_in_graphs_open),
	cmocka_unit_test(test_awaits_nobody),
};

int main(int argc, char **argv)
{
	return RUN_OWN_PROCESSES(tests, argc, argv);
}
