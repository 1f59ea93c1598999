// SPDX-License-Identifier: Apache-2.0
/* Who makes room for others is told to do so at any moment, or at its next gate (slice_mode.c). */
#include "xqueue_world.h"

#define LONG_NS (60 * COMMAND_NS)

static void ask_for_room(struct fm_xq *q, bool yes)
{
	atomic_store(&peer.board->makes_room, yes);
	fm_client_wake(q->client);
}

static struct fm_xq *busy_queue(uint64_t ns, unsigned commands)
{
	struct fm_xq *q;

	start_device(WORDS);
	q = new_queue(false, 0);
	pause_device(); /* else it may wait for this thread, and that would count */
	for (unsigned i = 0; i < 40; i++) /* the device tells what it takes */
		launch_of(q, ns, i);
	w.pause = false;
	wait_all(q);
	pause_device();
	for (unsigned i = 0; i < commands; i++)
		launch_of(q, ns, i);
	ask_for_room(q, true);
	eventually(peer.room == FM_SLICE_AT_ONCE);
	return q;
}

static void finish(struct fm_xq *q)
{
	w.pause = false;
	set_gate(q, FM_GATE_OPEN);
	wait_all(q);
	ask_for_room(q, false);
	eventually(peer.room == FM_SLICE_NONE);
	fm_xq_close(q);
	eventually(peer.queues_gone == 1);
	stop_device();
}

static void test_on_its_way_to_a_gate_it_stays(void **state)
{
	struct fm_xq *q = busy_queue(COMMAND_NS, 1000);

	for (unsigned i = 0; i < 3; i++) {
		set_gate(q, FM_GATE_CLOSED);
		eventually(peer.room == FM_SLICE_AT_GATE);
		w.pause = false; /* it comes to its gate */
		eventually(fm_slot_waits(q->slot));
		eventually(peer.room == FM_SLICE_AT_ONCE);
		pause_device();
		set_gate(q, FM_GATE_OPEN);
		fm_simdev_advance(w.dev, 1); /* it sees that, and does no more */
		assert_false(fm_slot_waits(q->slot));
		assert_true(fm_slot_pending(q->slot));
	}
	finish(q);
}

static void test_long_commands_make_room_in_their_middle(void **state)
{
	struct fm_xq *q = busy_queue(LONG_NS, 50);

	set_gate(q, FM_GATE_CLOSED);
	eventually(peer.room == FM_SLICE_AT_ONCE);
	usleep(20000);
	assert_int_equal(peer.rooms, 1);
	finish(q);
	assert_int_equal(peer.rooms, 2);
}

static void test_not_asked_of_who_wishes_less(void **state)
{
	struct fm_xq *q;

	setenv("FERMATA_LEVEL", "2", 1);
	start_device(WORDS);
	q = new_queue(false, 0);
	ask_for_room(q, true);
	launch(q, 0);
	wait_all(q);
	usleep(10000);
	assert_int_equal(peer.rooms, 0);
	fm_xq_close(q);
	eventually(peer.queues_gone == 1);
	stop_device();
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_on_its_way_to_a_gate_it_stays),
	cmocka_unit_test(test_long_commands_make_room_in_their_middle),
	cmocka_unit_test(test_not_asked_of_who_wishes_less),
};

int main(int argc, char **argv)
{
	return RUN_OWN_PROCESSES(tests, argc, argv);
}
