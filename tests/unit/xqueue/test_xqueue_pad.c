// SPDX-License-Identifier: Apache-2.0
/* A queue that is stopped in the middle of a command, and goes on beside the work for which it was
 * stopped: as the scheduler and the hwqueue have it. */
#include "xqueue_model.h"

#include "xqueue/segment.h"

#define K 16u

static struct {
	_Atomic bool later;                   /* nothing can be made just now */
	_Atomic int rc;                       /* what pad() returns */
	_Atomic unsigned stops, made, k;      /* told to stop; made how often, and for how many */
	_Atomic unsigned pads, tries, padded; /* steps; asked to make it; the last step's number */
} t;

static int interrupt(void *hwq)
{
	model.stopped = true;
	t.stops++;
	return -EALREADY;
}

static int restore(void *hwq)
{
	model.stopped = false;
	return 0;
}

static int pad_ready(void *hwq, unsigned k, const char **why)
{
	t.tries++;
	*why = NULL;
	if (t.later || model.stopped)
		return -EAGAIN;
	t.made++;
	t.k = k;
	return 0;
}

static int pad(void *hwq, unsigned k)
{
	t.pads++;
	t.padded = k;
	return t.rc;
}

static unsigned pad_of(void *hwq)
{
	return 132;
}

static void tell_pad(struct fm_xq *q, unsigned k)
{
	atomic_store(&q->slot->pad, k);
	fm_client_wake(q->client);
}

/* It has work, and is at rest at its gate, with a pad that it could have. */
static struct fm_xq *at_rest(void)
{
	static struct fm_hw_ops ops;
	struct fm_xq *q;

	start_device(3);
	ops = model_ops();
	ops.stop.interrupt = interrupt;
	ops.stop.restore = restore;
	ops.guardian.pad_ready = pad_ready;
	ops.guardian.pad = pad;
	ops.guardian.pad_of = pad_of;
	t.rc = -EINPROGRESS;
	q = new_queue_by(&ops, false, 0);
	atomic_store(&q->slot->shares, FM_SHARES);
	atomic_store(&peer.board->contended, 1);
	tell_pad(q, K);
	eventually(t.made == 1 && q->cold->pad_able);
	pause_device();
	for (unsigned i = 0; i < 3; i++)
		launch(q, i);
	set_gate(q, FM_GATE_CLOSED);
	eventually(atomic_load(&q->slot->asks_pad));
	return q;
}

static void over(struct fm_xq *q)
{
	set_gate(q, FM_GATE_OPEN);
	eventually(!model.stopped);
	w.pause = false;
	wait_all(q);
	fm_xq_close(q);
	eventually(peer.queues_gone == 1);
	stop_device();
}

static void test_pads(void **state)
{
	struct fm_xq *q = at_rest();

	set_gate(q, FM_GATE_PADS);
	eventually(t.pads > 3);
	assert_int_equal(t.padded, K);
	assert_int_equal(atomic_load(&q->slot->padding), K);
	assert_int_equal(atomic_load(&q->slot->sms), 132);
	eventually(atomic_load(&q->slot->padded_ns));
	set_gate(q, FM_GATE_OPEN);
	eventually(!model.stopped);
	assert_int_equal(atomic_load(&q->slot->padding), 0);
	eventually(!atomic_load(&q->slot->asks_pad));
	over(q);
}

/* What it could have now is more than it may. */
static void test_not_on_more_than_it_may(void **state)
{
	struct fm_xq *q = at_rest();
	unsigned stops;

	set_gate(q, FM_GATE_PADS);
	eventually(atomic_load(&q->slot->padding));
	tell_pad(q, 2 * K); /* it goes on with what it has */
	stops = t.pads;
	eventually(t.tries > 2 && t.pads > stops);
	assert_int_equal(atomic_load(&q->slot->padding), K);
	stops = t.stops;
	tell_pad(q, K / 2);
	eventually(t.stops > stops);
	assert_int_equal(atomic_load(&q->slot->padding), 0);
	assert_int_equal(t.made, 1);
	set_gate(q, FM_GATE_OPEN);
	eventually(t.made == 2);
	assert_int_equal(t.k, K / 2);
	over(q);
}

static uint64_t counted(const char *name)
{
	struct fm_call call;

	for (unsigned i = 0; i < FM_BOARD_CALLS; i++)
		if (fm_board_call_read(&peer.board->call[i], &call) && !strcmp(call.name, name))
			return call.undivided;
	return 0;
}

static void test_another_pads(void **state)
{
	struct fm_xq *q = at_rest();

	t.rc = -EBUSY;
	set_gate(q, FM_GATE_PADS);
	eventually(t.pads > 2);
	assert_int_equal(counted("pad (another queue pads)"), 1);
	assert_int_equal(atomic_load(&q->slot->padding), 0);
	t.rc = -EINPROGRESS;
	eventually(atomic_load(&q->slot->padding));
	over(q);
}

/* Another queue has made it for another number: it is made again, when nothing is stopped. */
static void test_is_made_again(void **state)
{
	struct fm_xq *q = at_rest();

	t.rc = -ESTALE;
	set_gate(q, FM_GATE_PADS);
	eventually(t.pads);
	eventually(t.tries > 1);
	assert_int_equal(t.made, 1);
	t.rc = -EINPROGRESS;
	set_gate(q, FM_GATE_OPEN);
	eventually(t.made == 2);
	assert_int_equal(t.k, K);
	set_gate(q, FM_GATE_CLOSED);
	eventually(atomic_load(&q->slot->asks_pad));
	set_gate(q, FM_GATE_PADS);
	eventually(atomic_load(&q->slot->padding));
	over(q);
}

/* The scheduler lets it pad as it goes on: it hears that at once. */
static void test_says_that_it_does_not_ask(void **state)
{
	struct fm_xq *q = at_rest();
	unsigned bells;

	pthread_mutex_lock(&q->cold->lock);
	bells = peer.bells;
	atomic_store(&q->slot->gate, FM_GATE_PADS);
	fm_xq_pad_asks(q, false);
	pthread_mutex_unlock(&q->cold->lock);
	eventually(peer.bells > bells);
	over(q);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_pads),
	cmocka_unit_test(test_not_on_more_than_it_may),
	cmocka_unit_test(test_another_pads),
	cmocka_unit_test(test_is_made_again),
	cmocka_unit_test(test_says_that_it_does_not_ask),
};

int main(int argc, char **argv)
{
	return RUN_OWN_PROCESSES(tests, argc, argv);
}
