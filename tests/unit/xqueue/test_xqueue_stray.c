/* SPDX-License-Identifier: Apache-2.0 */
/* A queue that is told to stop in the middle of a command, and comes to rest at a gate alone: there
 * is one behind those commands in the end, and it goes on from there, whoever says meanwhile that
 * all has finished. */
#include "xqueue_model.h"

#include "xqueue/segment.h"

/* As a device's that leaves commands out: what has been told to stop is at rest at a gate. */
static _Atomic bool refuses;
static _Atomic bool dead; /* the driver refuses for good */
static _Atomic unsigned told, restored, refused;
static struct fm_xq *put_in;
static _Atomic bool unsaid;      /* the device does not say what is finished in front of a gate */
static _Atomic bool for_nothing; /* the queue was to stand somewhere, and had no work then */

static int interrupt(void *hwq)
{
	bool was = model.stopped;

	model.stopped = true;
	told += !was; /* the test looks at this one first */
	return model.unfenced ? -EINPROGRESS : -EALREADY;
}

static int restore(void *hwq)
{
	bool was = model.stopped;

	if (was && model.unfenced)
		return -EAGAIN;
	model.stopped = false;
	restored += was;
	return 0;
}

static int put(int rc)
{
	if (!rc)
		model.unfenced = false;
	return rc;
}

static int gate(void *hwq, const struct fm_gate_words *words, uint64_t finished, bool sample)
{
	return put(fm_simq_word_ops.device_gate.gate(hwq, words, finished, sample));
}

static int write_fence(void *hwq, const struct fm_gate_words *words, uint64_t finished)
{
	static _Atomic uint64_t elsewhere;
	struct fm_gate_words gate_words = *words;
	bool refused_now = refuses; /* before the others, which the test sets in front of it */

	if (dead) {
		refused++;
		return -EIO;
	}
	if (unsaid)
		gate_words.progress = &elsewhere;
	/* What a wait of the program's has finished since the agent looked is counted at the next
	 * try. */
	for_nothing |= !refused_now && model.unfenced && !fm_slot_pending(put_in->slot);
	return refused_now
		       ? -EAGAIN
		       : put(fm_simq_word_ops.device_gate.write_fence(hwq, &gate_words, finished));
}

/* It has work, is told to stop, and nobody gets to put a gate behind that. */
static struct fm_xq *told_to_stop(void)
{
	static struct fm_hw_ops ops;
	struct fm_xq *q;

	start_device(3);
	ops = model_ops();
	ops.stop.interrupt = interrupt;
	ops.stop.restore = restore;
	ops.device_gate.gate = gate;
	ops.device_gate.write_fence = write_fence;
	put_in = q = new_queue_by(&ops, false, 0);
	atomic_store(&q->slot->shares, FM_SHARES);
	atomic_store(&peer.board->contended, 1);
	refuses = true;
	model.unfenced = true;
	for (unsigned i = 0; i < 3; i++)
		launch(q, i);
	model.unfenced = true; /* whatever gate there was at the start */
	set_gate(q, FM_GATE_CLOSED);
	eventually(told == 1);
	return q;
}

static void over(struct fm_xq *q)
{
	set_gate(q, FM_GATE_OPEN);
	eventually(restored == 1);
	assert_false(model.stopped || model.unfenced);
	fm_xq_close(q);
	eventually(peer.queues_gone == 1);
	stop_device();
}

static void test_a_gate_comes(void **state)
{
	struct fm_xq *q = told_to_stop();

	refuses = false;
	eventually(!model.unfenced);
	over(q);
}

/* A wait of the program's that the driver ends then. */
static void test_a_gate_comes_behind_what_has_finished(void **state)
{
	struct fm_xq *q = told_to_stop();

	fm_xq_synced(q, fm_xq_mark(q));
	refuses = false;
	fm_client_wake(q->client);
	eventually(!model.unfenced);
	over(q);
}

/* Likewise when it may run again: there it is no less stopped. */
static void test_a_gate_comes_when_it_may_run(void **state)
{
	struct fm_xq *q = told_to_stop();

	fm_xq_synced(q, fm_xq_mark(q));
	set_gate(q, FM_GATE_OPEN);
	device_goes_on(20);
	assert_int_equal(restored, 0);
	refuses = false;
	over(q);
}

/* The scheduler hears that it has work, for else it would not open that gate; and once, however
 * often the gate is refused. */
static void test_it_has_work_where_it_stands(void **state)
{
	struct fm_xq *q = told_to_stop();
	unsigned bells = peer.bells;

	atomic_store(&q->slot->bells, FM_BELL_READY);
	fm_xq_synced(q, fm_xq_mark(q));
	fm_client_wake(q->client);
	eventually(peer.bells > bells);
	device_goes_on(20);
	refuses = false;
	fm_client_wake(q->client);
	eventually(!model.unfenced);
	assert_false(for_nothing);
	assert_int_equal(atomic_load(&q->slot->begun), 4);
	eventually(!fm_slot_pending(q->slot));
	over(q);
}

/* Nor does it help that it still has work in front of the last gate. */
static void test_it_has_work_behind_its_last_gate(void **state)
{
	struct fm_xq *q = told_to_stop();

	pthread_mutex_lock(&q->cold->lock);
	q->cold->fenced = fm_xq_mark(q);
	pthread_mutex_unlock(&q->cold->lock);
	assert_true(fm_slot_pending(q->slot));
	refuses = false;
	fm_client_wake(q->client);
	eventually(!model.unfenced);
	assert_int_equal(atomic_load(&q->slot->begun), 4);
	over(q);
}

/* A gate of the program's own thread. One command comes in front of it; the device here may be past
 * that at once, and then another one comes behind. */
static void test_it_has_work_at_any_gate(void **state)
{
	struct fm_xq *q = told_to_stop();

	fm_xq_synced(q, fm_xq_mark(q));
	pthread_mutex_lock(&q->cold->order);
	fm_xq_cover_in_order(q);
	assert_in_range(atomic_load(&q->slot->begun), 4, 5);
	pthread_mutex_unlock(&q->cold->order);
	refuses = false;
	over(q);
}

/* As a device that stands at its gate and has left out commands in front of it, which it does not
 * say. */
static void stands_with_its_gate(struct fm_xq *q)
{
	unsaid = true;
	refuses = false;
	fm_client_wake(q->client);
	eventually(!model.unfenced);
	refuses = true;
	assert_true(fm_slot_pending(q->slot));
}

static void goes_on(struct fm_xq *q)
{
	unsaid = false;
	refuses = false;
	over(q);
}

/* A wait of the program's ends between the agent's look, when there was work in front of the gate,
 * and that gate. */
static void test_it_has_work_when_a_wait_ends_late(void **state)
{
	struct fm_xq *q = told_to_stop();

	stands_with_its_gate(q);
	fm_xq_synced(q, fm_xq_mark(q));
	assert_int_equal(atomic_load(&q->slot->begun), 4);
	assert_int_equal(fm_slot_pending(q->slot), 1);
	goes_on(q);
}

/* It was stopped for another reason than its gate, which closes before it has gone on. */
static void test_it_has_work_when_its_gate_closes_late(void **state)
{
	struct fm_xq *q = told_to_stop();

	atomic_fetch_or(&q->held_by, FM_XQ_BY_REST);
	set_gate(q, FM_GATE_OPEN);
	stands_with_its_gate(q);
	fm_xq_synced(q, fm_xq_mark(q));
	assert_int_equal(fm_slot_pending(q->slot), 0);
	atomic_store(&q->slot->gate, FM_GATE_CLOSED);
	atomic_fetch_and(&q->held_by, (uint8_t)~FM_XQ_BY_REST);
	fm_client_wake(q->client);
	eventually(fm_slot_pending(q->slot));
	goes_on(q);
}

/* A device that has failed: all of its work counts as finished, and no command is counted anew. */
static void test_no_work_where_the_driver_refuses(void **state)
{
	struct fm_xq *q;

	dead = true;
	q = told_to_stop();
	eventually(refused >= 20);
	assert_in_range(atomic_load(&q->slot->begun), 3, 4);
	assert_int_equal(fm_slot_pending(q->slot), 0);
	dead = false;
	goes_on(q);
}

/* It fails while the queue stands at its gate. */
static void test_no_work_where_it_stood_when_the_driver_failed(void **state)
{
	struct fm_xq *q = told_to_stop();

	stands_with_its_gate(q);
	dead = true;
	fm_xq_synced(q, fm_xq_mark(q)); /* one command stands for the others */
	fm_client_wake(q->client);
	eventually(refused && !fm_slot_pending(q->slot));
	fm_xq_synced(q, fm_xq_mark(q));
	assert_int_equal(atomic_load(&q->slot->begun), 4);
	dead = false;
	goes_on(q);
}

/* Nor is it given back, whatever has finished: what it has left out would be lost. */
static void test_it_goes_on_before_it_is_gone(void **state)
{
	struct fm_xq *q = told_to_stop();

	fm_xq_synced(q, fm_xq_mark(q));
	refuses = false;
	fm_xq_keep(q); /* set_gate() looks at it when it may be gone */
	fm_xq_close(q);
	device_goes_on(20);
	assert_int_equal(peer.queues_gone, 0);
	set_gate(q, FM_GATE_OPEN);
	eventually(peer.queues_gone == 1);
	assert_int_equal(restored, 1);
	fm_xq_unref(q);
	stop_device();
}

/* A call of the program's wants a gate behind what has finished by now, or around a wait, just when
 * the scheduler has closed the queue's and the agent has not seen that. It does not come to stand
 * there without work. */
static struct fm_xq *idle_and_closed(int level, const struct fm_hw_ops *ops)
{
	struct fm_xq *q;

	start_device((unsigned)level);
	put_in = q = new_queue_by(ops, false, 0);
	launch(q, 0);
	assert_int_equal(fm_simq_ops.sync(q->hwq), 0);
	fm_xq_synced(q, fm_xq_mark(q));
	assert_int_equal(fm_slot_pending(q->slot), 0);
	atomic_store(&peer.board->contended, 1);
	atomic_store(&q->slot->gate, FM_GATE_CLOSED);
	return q;
}

static void assert_stands_with_work(struct fm_xq *q)
{
	eventually(fm_slot_waits(q->slot));
	assert_int_equal(fm_slot_pending(q->slot), 1);
	set_gate(q, FM_GATE_OPEN);
	eventually(!fm_slot_pending(q->slot));
	fm_xq_close(q);
	eventually(peer.queues_gone == 1);
	stop_device();
}

static void test_covered_while_it_is_idle(void **state)
{
	static struct fm_hw_ops ops;
	struct fm_xq *q;

	ops = model_ops();
	ops.device_gate.gate = gate;
	q = idle_and_closed(3, &ops);
	model.unfenced = true;
	fm_xq_cover(q);
	assert_false(model.unfenced);
	assert_stands_with_work(q);
}

/* Nothing waits there: both parts come one after the other. */
static int part(void *hwq, const struct fm_gate_words *words, uint64_t finished, bool second)
{
	return second ? fm_simq_word_ops.device_gate.gate(hwq, words, finished, false) : 0;
}

static void test_waits_while_it_is_idle(void **state)
{
	static struct fm_hw_ops ops;
	struct fm_xq *q;

	ops = model_ops();
	ops.device_gate.part = part;
	world_config.rests = true;
	q = idle_and_closed(2, &ops);
	assert_true(fm_xq_part_begin(q));
	fm_xq_part_end(q);
	assert_stands_with_work(q);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_a_gate_comes),
	cmocka_unit_test(test_a_gate_comes_behind_what_has_finished),
	cmocka_unit_test(test_a_gate_comes_when_it_may_run),
	cmocka_unit_test(test_it_has_work_where_it_stands),
	cmocka_unit_test(test_it_has_work_behind_its_last_gate),
	cmocka_unit_test(test_it_has_work_at_any_gate),
	cmocka_unit_test(test_it_has_work_when_a_wait_ends_late),
	cmocka_unit_test(test_it_has_work_when_its_gate_closes_late),
	cmocka_unit_test(test_no_work_where_the_driver_refuses),
	cmocka_unit_test(test_no_work_where_it_stood_when_the_driver_failed),
	cmocka_unit_test(test_it_goes_on_before_it_is_gone),
	cmocka_unit_test(test_covered_while_it_is_idle),
	cmocka_unit_test(test_waits_while_it_is_idle),
};

int main(int argc, char **argv)
{
	return RUN_OWN_PROCESSES(tests, argc, argv);
}
