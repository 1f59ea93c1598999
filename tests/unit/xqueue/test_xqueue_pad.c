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
	_Atomic unsigned aheads, most,
		most_made;            /* asked to make all up to most; what can be made */
	_Atomic bool fewer;           /* as it was asked last */
	_Atomic bool later_than_made; /* a look has made it, and has asked for none ahead */
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

static int pad_ready(void *hwq, unsigned k, bool fewer, const char **why)
{
	t.tries++;
	*why = NULL;
	if (t.later || model.stopped)
		return -EAGAIN;
	t.k = k;
	t.fewer = fewer;
	t.made++; /* the test looks at this one first */
	return (int)(fewer && t.most_made && k > t.most_made ? t.most_made : k);
}

static int pad_ahead(void *hwq, unsigned most)
{
	t.most = most;
	return ++t.aheads < 4 ? -EAGAIN : 0;
}

static void looked(void *hwq)
{
	t.later_than_made |= t.made && !t.aheads;
}

static int pad(void *hwq, unsigned k)
{
	t.padded = k;
	t.pads++; /* the test looks at this one first */
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

/* Told to pad on K multiprocessors; on most, if the number changes by itself. */
static struct fm_xq *with_a_pad(unsigned most)
{
	static struct fm_hw_ops ops;
	struct fm_xq *q;

	start_device(3);
	w.looked = looked;
	ops = model_ops();
	ops.stop.interrupt = interrupt;
	ops.stop.restore = restore;
	ops.guardian.pad_ready = pad_ready;
	ops.guardian.pad_ahead = pad_ahead;
	ops.guardian.pad = pad;
	ops.guardian.pad_of = pad_of;
	t.rc = -EINPROGRESS;
	q = new_queue_by(&ops, false, 0);
	atomic_store(&q->slot->shares, FM_SHARES);
	atomic_store(&peer.board->contended, 1);
	atomic_store(&q->slot->pad_most, most);
	tell_pad(q, K);
	eventually(t.made == 1 && q->cold->pad_able);
	return q;
}

/* It has work, and is at rest at its gate, with a pad that it could have. */
static struct fm_xq *at_rest(void)
{
	struct fm_xq *q = with_a_pad(0);

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

static void tell_most(struct fm_xq *q, unsigned most)
{
	atomic_store(&q->slot->pad_most, most);
	fm_client_wake(q->client);
}

/* Where the number changes by itself, all is made ahead, once: not while its gate is closed, and it
 * has work. */
static void test_made_ahead(void **state)
{
	struct fm_xq *q = at_rest();

	tell_most(q, 8 * K);
	for (uint64_t until = fm_now() + 2 * FM_XQ_PAD_AHEAD; fm_now() < until; usleep(500))
		fm_client_wake(q->client);
	assert_int_equal(t.aheads, 0);
	set_gate(q, FM_GATE_OPEN);
	w.pause = false;
	wait_all(q);
	tell_most(q, 8 * K);
	eventually(t.aheads == 4);
	assert_int_equal(t.most, 8 * K);
	for (unsigned i = 0; i < 20; i++) {
		fm_client_wake(q->client);
		usleep(500);
	}
	assert_int_equal(t.aheads, 4);
	assert_int_equal(t.made, 1);
	over(q);
}

/* Nothing may wake the agent again, so all that it is told of it begins in the same look. */
static void test_made_ahead_at_once(void **state)
{
	struct fm_xq *q = with_a_pad(8 * K);

	eventually(t.aheads == 4);
	assert_int_equal(t.most, 8 * K);
	assert_false(t.later_than_made);
	fm_xq_close(q);
	eventually(peer.queues_gone == 1);
	stop_device();
}

/* It pads on fewer, if that will do. */
static void test_fewer_will_do(void **state)
{
	struct fm_xq *q = at_rest();

	assert_false(t.fewer);
	set_gate(q, FM_GATE_OPEN);
	w.pause = false;
	wait_all(q);
	t.most_made = K + 8;
	tell_most(q, 4 * K);
	tell_pad(q, 3 * K);
	eventually(t.made == 2 && q->cold->pad_able);
	assert_true(t.fewer);
	pause_device();
	launch(q, 9);
	set_gate(q, FM_GATE_CLOSED);
	eventually(atomic_load(&q->slot->asks_pad));
	set_gate(q, FM_GATE_PADS);
	eventually(atomic_load(&q->slot->padding));
	assert_int_equal(t.padded, K + 8);
	assert_int_equal(atomic_load(&q->slot->padding), K + 8);
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
	cmocka_unit_test(test_made_ahead),
	cmocka_unit_test(test_made_ahead_at_once),
	cmocka_unit_test(test_fewer_will_do),
	cmocka_unit_test(test_another_pads),
	cmocka_unit_test(test_is_made_again),
	cmocka_unit_test(test_says_that_it_does_not_ask),
};

int main(int argc, char **argv)
{
	return RUN_OWN_PROCESSES(tests, argc, argv);
}
