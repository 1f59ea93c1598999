/* SPDX-License-Identifier: Apache-2.0 */
/* The optional operations of api/hwqueue.h: what is done with each, and what in its place. */
#include "xqueue_model.h"

#include "xqueue/segment.h"

#define ALL 40u

static struct fm_hw_ops ops; /* which the agent reads to the end */

static struct fm_xq *start(struct fm_hw_ops of, unsigned level)
{
	start_device(level);
	ops = of;
	return new_queue_by(&ops, false, 0);
}

static void over(struct fm_xq *q)
{
	unsigned gone = peer.queues_gone;

	w.pause = false;
	set_gate(q, FM_GATE_OPEN);
	fm_xq_close(q);
	eventually(peer.queues_gone == gone + 1);
	stop_device();
}

static void launch_all(struct fm_xq *q)
{
	for (unsigned i = 0; i < ALL; i++)
		assert_int_equal(launch(q, i), 0);
}

/* --- reap: the driver does not call back --- */

/* Somebody else waits for the device: the end is asked for, though the program never waits. */
static void ends_are_asked_for(unsigned level)
{
	struct fm_xq *q = start(model_reaped_ops(), level);

	atomic_store(&peer.board->contended, 1);
	launch_all(q);
	fm_client_wake(q->client);
	eventually(atomic_load(&q->slot->done) == ALL);
	assert_true(model.reaped > 0);
	assert_in_order(ALL);
	over(q);
	/* The agent's, behind what it tells. */
	eventually(model.closed == 1 && model.released == 1);
	assert_int_equal(model.orphaned, 0);
}

static void test_reap_at_level_1(void **state)
{
	ends_are_asked_for(1);
}

static void test_reap_at_level_2(void **state)
{
	ends_are_asked_for(2);
}

static void test_reap_by_a_wait(void **state)
{
	struct fm_xq *q = start(model_reaped_ops(), 2);

	launch_all(q);
	wait_all(q);
	assert_true(model.reaped > 0);
	over(q);
}

/* Its gate is closed over it: it comes to rest, and goes on. */
static void test_reap_behind_a_gate(void **state)
{
	struct fm_xq *q = start(model_reaped_ops(), 2);

	warm_up(q);
	pause_device();
	launch_all(q);
	set_gate(q, FM_GATE_CLOSED);
	w.pause = false;
	assert_rests(q, ALL);
	set_gate(q, FM_GATE_OPEN);
	wait_all(q);
	assert_in_order(ALL);
	over(q);
}

/* What the program closes with work under way nobody will ask for. */
static void test_reap_of_one_that_closes(void **state)
{
	struct fm_xq *q = start(model_reaped_ops(), 2);

	pause_device();
	launch_all(q);
	fm_xq_close(q);
	eventually(peer.queues_gone == 1);
	assert_int_equal(model.closed, 1);
	eventually(model.released == 1);
	w.pause = false;
	stop_device();
}

/* A device that turns out, while it is in use, not to look at gates: from then on the driver is
 * asked in the place of the word that it no longer writes. */
static int refuse_gate(void *hwq, const struct fm_gate_words *words, uint64_t n, bool sample)
{
	return -EOPNOTSUPP;
}

static void test_reap_when_the_device_looks_no_more(void **state)
{
	struct fm_hw_ops both = model_reaped_ops();
	struct fm_xq *q;

	both.host_gate = (struct fm_host_gate_ops){0};
	both.device_gate = model_ops().device_gate;
	both.device_gate.gate = refuse_gate;
	q = start(both, WORDS);
	assert_true(q->device_gates);
	assert_int_equal(fm_xq_level(q), FM_LEVEL_QUEUED);
	atomic_store(&peer.board->contended, 1);
	set_gate(q, FM_GATE_CLOSED);
	fm_xq_gate_in_order(q);
	assert_int_equal(fm_xq_level(q), FM_LEVEL_PENDING);
	assert_false(q->device_gates);
	set_gate(q, FM_GATE_OPEN);
	launch_all(q);
	fm_client_wake(q->client);
	eventually(atomic_load(&q->slot->done) == ALL);
	assert_true(model.reaped > 0);
	assert_in_order(ALL);
	over(q);
}

/* --- track: nobody tells an end but the program's own wait --- */

static void test_no_track(void **state)
{
	struct fm_hw_ops base = fm_simq_ops;
	struct fm_xq *q;

	base.track = NULL;
	base.host_gate = (struct fm_host_gate_ops){0};
	base.stop = (struct fm_stop_ops){0};
	q = start(base, 1);
	launch_all(q);
	assert_int_equal(fm_simq_ops.sync(q->hwq), 0);
	assert_int_equal(fm_slot_pending(q->slot), ALL);
	fm_xq_synced(q, fm_xq_mark(q));
	assert_int_equal(fm_slot_pending(q->slot), 0);
	over(q);
}

/* --- lost --- */

static void test_lost(void **state)
{
	struct fm_xq *q = start(model_ops(), WORDS);

	atomic_store(&peer.board->contended, 1);
	pause_device();
	launch_all(q);
	fm_client_wake(q->client);
	usleep(2 * FM_XQ_GIVE_UP / 1000);
	assert_int_equal(fm_slot_pending(q->slot), ALL);
	model.lost = true;
	eventually(!fm_slot_pending(q->slot));
	over(q);
}

/* The same of gates that this process opens: the queue counts as finished, and its gates open. */
static void test_lost_behind_own_gates(void **state)
{
	struct fm_hw_ops own = model_reaped_ops();
	struct fm_xq *q;

	own.lost = model_lost;
	q = start(own, 2);
	warm_up(q);
	atomic_store(&peer.board->contended, 1);
	pause_device();
	launch_all(q);
	fm_client_wake(q->client);
	usleep(2 * FM_XQ_GIVE_UP / 1000);
	assert_int_equal(fm_slot_pending(q->slot), ALL);
	assert_true(atomic_load(&q->gates_pending) > 0);
	model.lost = true;
	eventually(!fm_slot_pending(q->slot));
	eventually(!atomic_load(&q->gates_pending));
	over(q);
}

static void test_lost_at_level_1(void **state)
{
	struct fm_hw_ops own = model_reaped_ops();
	struct fm_xq *q;

	own.lost = model_lost;
	q = start(own, 1);
	atomic_store(&peer.board->contended, 1);
	pause_device();
	launch(q, 0);
	fm_client_wake(q->client);
	usleep(2 * FM_XQ_GIVE_UP / 1000);
	assert_int_equal(fm_slot_pending(q->slot), 1);
	model.lost = true;
	eventually(!fm_slot_pending(q->slot));
	over(q);
}

/* --- inner --- */

static void test_gates_in_graphs(void **state)
{
	struct fm_xq *q = start(model_ops(), WORDS);

	atomic_store(&peer.board->contended, 1);
	fm_est_put(COMMAND_NS, COMMAND_NS);
	for (unsigned i = 0; i < 200; i++)
		fm_xq_capture(q, COMMAND_NS, COMMAND_NS, 1, false);
	assert_true(model.inner > 0);
	assert_int_equal(model.seams, 0);
	assert_true(fm_xq_capture_seam(q));
	assert_int_equal(model.seams, 1);
	over(q);
}

static void test_no_gates_in_graphs(void **state)
{
	struct fm_xq *q = start(fm_simq_word_ops, WORDS);

	atomic_store(&peer.board->contended, 1);
	fm_est_put(COMMAND_NS, COMMAND_NS);
	for (unsigned i = 0; i < 200; i++)
		assert_false(fm_xq_capture(q, COMMAND_NS, COMMAND_NS, 1, false));
	assert_false(fm_xq_capture_seam(q));
	over(q);
}

/* --- query --- */

static void test_what_only_orders_is_work(void **state)
{
	struct fm_xq *q = start(model_ops(), WORDS);

	assert_false(fm_xq_is_at_work(q));
	assert_int_equal(fm_xq_at_work(q), 0);
	model.orders = true;
	assert_true(fm_xq_is_at_work(q));
	assert_int_equal(fm_xq_at_work(q), 1);
	assert_int_equal(model.asked, 0);
	fm_xq_crowded(q);
	eventually(model.asked == 1);
	model.orders = false;
	assert_int_equal(fm_xq_at_work(q), 0);
	over(q);
}

/* While a command is under way that is work anyway: the driver is not asked. */
static void test_not_asked_beside_commands(void **state)
{
	struct fm_xq *q = start(model_ops(), WORDS);

	model.orders = true;
	pause_device();
	launch(q, 0);
	fm_xq_crowded(q);
	eventually(!atomic_load(&q->client->crowded));
	assert_int_equal(fm_xq_at_work(q), 1);
	eventually(atomic_load(&q->client->board->agent_sleeps));
	assert_int_equal(model.asked, 0);
	over(q);
}

static void test_no_query(void **state)
{
	struct fm_xq *q = start(fm_simq_word_ops, WORDS);

	assert_false(fm_xq_is_at_work(q));
	fm_xq_crowded(q);
	eventually(!atomic_load(&q->client->crowded));
	over(q);
}

/* --- enter --- */

/* The scheduler has heard of the work when something is put in front of it. */
static void test_enters_first(void **state)
{
	struct fm_xq *q = start(model_ops(), WORDS);

	model.enters = true;
	atomic_store(&q->slot->bells, FM_BELL_READY);
	atomic_store(&q->slot->shares, FM_SHARES_FIRST);
	launch(q, 0);
	assert_int_equal(model.entered, 1);
	assert_int_equal(model.bells_then, 1);
	wait_all(q);
	over(q);
}

static void entered_never(enum fm_shares shares, bool enters)
{
	struct fm_xq *q = start(model_ops(), WORDS);

	model.enters = enters;
	atomic_store(&q->slot->shares, shares);
	launch(q, 0);
	wait_all(q);
	assert_int_equal(model.entered, 0);
	over(q);
}

static void test_enters_not_where_it_may_have_to_wait(void **state)
{
	entered_never(FM_SHARES, true);
}

static void test_enters_with_nothing_to_put(void **state)
{
	entered_never(FM_SHARES_FIRST, false);
}

/* --- stopped --- */

/* What has not gone on as it was is nobody's to take for ended: its slot is not given back. */
static void test_stopped_is_not_over(void **state)
{
	struct fm_xq *q = start(model_ops(), 3);
	struct fm_client *c = q->client;

	launch_all(q);
	wait_all(q);
	model.stopped = true;
	fm_xq_close(q);
	device_goes_on(50);
	assert_int_equal(peer.queues_gone, 0);
	model.stopped = false;
	fm_client_wake(c);
	eventually(peer.queues_gone == 1);
	stop_device();
}

/* --- quiesce --- */

static void test_quiesce_at_the_end(void **state)
{
	struct fm_xq *q = start(model_ops(), WORDS);

	assert_int_equal(model.quiesced, 0);
	fm_agent_stop(q->client); /* which waits for the agent, but not for ever */
	eventually(atomic_load(&q->client->stopped));
	assert_int_equal(model.quiesced, 1);
	stop_device();
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_reap_at_level_1),
	cmocka_unit_test(test_reap_at_level_2),
	cmocka_unit_test(test_reap_by_a_wait),
	cmocka_unit_test(test_reap_behind_a_gate),
	cmocka_unit_test(test_reap_of_one_that_closes),
	cmocka_unit_test(test_reap_when_the_device_looks_no_more),
	cmocka_unit_test(test_no_track),
	cmocka_unit_test(test_lost),
	cmocka_unit_test(test_lost_behind_own_gates),
	cmocka_unit_test(test_lost_at_level_1),
	cmocka_unit_test(test_gates_in_graphs),
	cmocka_unit_test(test_no_gates_in_graphs),
	cmocka_unit_test(test_what_only_orders_is_work),
	cmocka_unit_test(test_not_asked_beside_commands),
	cmocka_unit_test(test_no_query),
	cmocka_unit_test(test_enters_first),
	cmocka_unit_test(test_enters_not_where_it_may_have_to_wait),
	cmocka_unit_test(test_enters_with_nothing_to_put),
	cmocka_unit_test(test_stopped_is_not_over),
	cmocka_unit_test(test_quiesce_at_the_end),
};

int main(int argc, char **argv)
{
	return RUN_OWN_PROCESSES(tests, argc, argv);
}
