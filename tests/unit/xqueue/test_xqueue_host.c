/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gates that this process opens, on a device that is as hard as a driver may be: one thread calls
 * back for all queues, late; a queue belongs to one thread at a time, so what comes from another
 * is refused meanwhile (api/queue_lock.h); and what is put into a full queue waits in the driver
 * until the device goes on.
 */
#include "api/queue_lock.h"
#include "xqueue_model.h"

#include "xqueue/segment.h"

#define ALL      40u
#define MOST_HWQ 4u
#define LATE_US  2000

/* A tracker that the device has reached, and of which nobody has been told yet. */
struct late {
	fm_reached_fn *reached;
	void *cookie;
	_Atomic(struct late *) next;
};

static struct {
	struct hwq {
		struct fm_simq *q;
		struct fm_queue_lock lock;
	} hwq[MOST_HWQ];
	unsigned n;
	_Atomic(struct late *) come;     /* the newest first */
	_Atomic bool full, silent, lost; /* silent: the thread calls nobody */
	_Atomic unsigned busy, waits;    /* refused; inside the driver because it is full */
	_Atomic bool over;
	pthread_t teller;
} hard;

static struct fm_queue_lock *lock_of(void *simq)
{
	for (unsigned i = 0; i < hard.n; i++)
		if (hard.hwq[i].q == simq)
			return &hard.hwq[i].lock;
	fail_msg("no such hwqueue");
	return NULL;
}

static void comes(void *cookie, uint64_t now)
{
	struct late *l = cookie, *seen = hard.come;

	do
		l->next = seen;
	while (!atomic_compare_exchange_weak(&hard.come, &seen, l));
}

static void *tell(void *arg)
{
	while (!hard.over) {
		struct late *l = hard.silent ? NULL : atomic_exchange(&hard.come, NULL);
		struct late *first = NULL, *next;

		usleep(LATE_US);
		for (; l; l = next) {
			next = l->next;
			l->next = first;
			first = l;
		}
		for (; first; first = next) {
			next = first->next;
			first->reached(first->cookie, fm_now());
			free(first);
		}
	}
	return NULL;
}

static int hard_track(void *hwq, fm_reached_fn *reached, void *cookie)
{
	struct fm_queue_lock *l = lock_of(hwq);
	struct late *t = malloc(sizeof(*t));
	bool mine;
	int rc;

	*t = (struct late){.reached = reached, .cookie = cookie};
	if (fm_queue_lock_try(l, &mine)) {
		hard.busy++;
		free(t);
		return -EBUSY;
	}
	rc = fm_simq_ops.track(hwq, comes, t);
	fm_queue_lock_untry(l, mine);
	return rc;
}

static int hard_deactivate(void *hwq, void **gate)
{
	struct fm_queue_lock *l = lock_of(hwq);
	bool mine;
	int rc;

	if (fm_queue_lock_try(l, &mine)) {
		hard.busy++;
		return -EBUSY;
	}
	if (hard.full) {
		hard.waits++;
		eventually(!hard.full);
	}
	rc = fm_simq_ops.host_gate.deactivate(hwq, gate);
	fm_queue_lock_untry(l, mine);
	return rc;
}

static bool hard_lost(void *hwq)
{
	return hard.lost;
}

static _Atomic(void *) in_way_of; /* the hwqueue that a call of ours is in the way of; NULL: none */

static bool is_blocked(void *hwq)
{
	return hwq == atomic_load(&in_way_of);
}

static struct fm_hw_ops ops;

static void start(void)
{
	start_device(2);
	ops = fm_simq_ops;
	ops.track = hard_track;
	ops.host_gate.deactivate = hard_deactivate;
	ops.host_gate.unlocked = true;
	ops.lost = hard_lost;
	ops.guardian.blocked = is_blocked;
	atomic_store(&in_way_of, NULL);
	assert_int_equal(pthread_create(&hard.teller, NULL, tell, NULL), 0);
}

static struct fm_xq *hard_queue(void)
{
	struct hwq *h = &hard.hwq[hard.n];
	struct fm_xq *q;

	fm_queue_lock_init(&h->lock);
	assert_int_equal(fm_simq_new(&h->q, w.dev), 0);
	hard.n++;
	const struct fm_xq_config config = {
		.device = "sim", .ops = &ops, .hwq = h->q, .in_order = true};
	assert_int_equal(fm_xq_create(&q, client(false), &config), 0);
	assert_int_equal(fm_xq_level(q), FM_LEVEL_QUEUED);
	return q;
}

/* The shim takes the lock around begin, the driver's call and end. */
static void hard_launch(struct fm_xq *q, unsigned i)
{
	fm_queue_lock_take(lock_of(q->hwq));
	assert_int_equal(launch(q, i), 0);
	fm_queue_lock_give(lock_of(q->hwq));
}

static void hard_close(struct fm_xq *q)
{
	struct fm_queue_lock *lock = lock_of(q->hwq);
	unsigned gone = peer.queues_gone;

	set_gate(q, FM_GATE_OPEN);
	fm_queue_lock_take(lock);
	fm_xq_close(q);
	fm_queue_lock_give(lock);
	eventually(peer.queues_gone == gone + 1);
}

static void over(void)
{
	w.pause = false;
	hard.over = true;
	pthread_join(hard.teller, NULL);
	stop_device();
}

static void learn(struct fm_xq *q)
{
	fm_est_put(COMMAND_NS, COMMAND_NS);
	atomic_store(&peer.board->contended, 1);
}

static void ends(struct fm_xq *q, unsigned n)
{
	eventually(!fm_slot_pending(q->slot));
	assert_in_order(n);
}

/* Late callbacks alone: it stops, goes on, and ends. */
static void test_late(void **state)
{
	struct fm_xq *q;

	start();
	q = hard_queue();
	learn(q);
	pause_device();
	for (unsigned i = 0; i < ALL; i++)
		hard_launch(q, i);
	set_gate(q, FM_GATE_CLOSED);
	w.pause = false;
	assert_rests(q, ALL);
	set_gate(q, FM_GATE_OPEN);
	ends(q, ALL);
	hard_close(q);
	over();
}

/* The agent wants to know the end while the queue is another thread's, for longer than an end that
 * cannot be asked for is waited for. Nothing counts as finished. */
static void test_busy(void **state)
{
	struct fm_xq *q;

	start();
	q = hard_queue();
	atomic_store(&peer.board->contended, 1);
	pause_device();
	hard_launch(q, 0);
	fm_queue_lock_take(lock_of(q->hwq));
	fm_client_wake(q->client);
	eventually(hard.busy > 3);
	usleep(2 * FM_XQ_GIVE_UP / 1000);
	eventually(hard.busy > 6);
	assert_int_equal(fm_slot_pending(q->slot), 1);
	fm_queue_lock_give(lock_of(q->hwq));
	w.pause = false;
	ends(q, 1);
	hard_close(q);
	over();
}

/* A gate that cannot be put now is put by the next launch, and the segment goes on until then. */
static void *launch_by_another(void *arg)
{
	struct fm_xq *q = arg;

	fm_xq_suspend(q);
	return NULL;
}

static void test_no_gate_while_busy(void **state)
{
	pthread_t other;
	struct fm_xq *q;

	start();
	q = hard_queue();
	learn(q);
	pause_device();
	hard_launch(q, 0);
	fm_queue_lock_take(lock_of(q->hwq));
	assert_int_equal(pthread_create(&other, NULL, launch_by_another, q), 0);
	pthread_join(other, NULL);
	assert_true(hard.busy > 0);
	assert_int_equal(atomic_load(&q->gates_pending), 0);
	fm_queue_lock_give(lock_of(q->hwq));
	hard_launch(q, 1);
	assert_int_equal(atomic_load(&q->gates_pending), 1);
	w.pause = false;
	eventually(w.n == 1);
	assert_rests(q, 2);
	assert_int_equal(fm_xq_resume(q), 0);
	ends(q, 2);
	hard_close(q);
	over();
}

/* A thread waits in the driver, with the XQueue's lock, until the device goes on, and the device
 * stands at a gate. The agent, which cannot have the lock, opens it. */
static void *feed_hard(void *arg)
{
	struct feeder *f = arg;

	for (unsigned i = f->from; i < f->to; i++)
		hard_launch(f->q, i);
	return NULL;
}

static void blocked(bool by_callback)
{
	struct feeder f = {.from = ALL, .to = 2 * ALL};
	unsigned closed;

	start();
	f.q = hard_queue();
	learn(f.q);
	pause_device();
	for (unsigned i = 0; i < ALL; i++)
		hard_launch(f.q, i);
	if (!by_callback)
		set_gate(f.q, FM_GATE_CLOSED);
	closed = atomic_load(&f.q->gates_pending);
	assert_true(closed > 1);
	hard.full = true;
	assert_int_equal(pthread_create(&f.thread, NULL, feed_hard, &f), 0);
	eventually(by_callback ? hard.waits == 1 : true);
	if (!by_callback) { /* behind closed gates no more are put */
		w.pause = false;
		assert_rests(f.q, 2 * ALL);
		set_gate(f.q, FM_GATE_OPEN);
	}
	w.pause = false;
	eventually(atomic_load(&f.q->gates_pending) < closed);
	eventually(w.n >= ALL);
	hard.full = false;
	pthread_join(f.thread, NULL);
	ends(f.q, 2 * ALL);
	hard_close(f.q);
	over();
}

static void test_opens_while_a_submit_waits(void **state)
{
	blocked(true);
}

static void test_goes_on_though_it_is_full(void **state)
{
	blocked(false);
}

/* A lost device, and nobody calls back. */
static void test_lost(void **state)
{
	struct fm_xq *q;

	start();
	q = hard_queue();
	learn(q);
	pause_device();
	hard.silent = true;
	for (unsigned i = 0; i < ALL; i++)
		hard_launch(q, i);
	fm_client_wake(q->client);
	assert_true(atomic_load(&q->gates_pending) > 0);
	hard.lost = true;
	eventually(!fm_slot_pending(q->slot) && !atomic_load(&q->gates_pending));
	hard.silent = false;
	w.pause = false;
	hard_close(q);
	over();
}

/* A gate counts as closed until it is open, also if one behind it has opened before. */
static struct {
	struct fm_xq *q;
	_Atomic bool began, ended;
	_Atomic uint32_t pending;
} early;

static void opens_the_others_first(void *hwq, void *gate)
{
	bool first = early.q && !atomic_exchange(&early.began, true);

	while (first && fm_ring_open(early.q, UINT64_MAX, true))
		;
	if (first)
		early.pending = early.q->gates_pending;
	fm_simq_ops.host_gate.reactivate(hwq, gate);
	if (first)
		early.ended = true;
}

static void test_pending_until_open(void **state)
{
	struct fm_xq *q;

	start();
	ops.host_gate.reactivate = opens_the_others_first;
	q = hard_queue();
	learn(q);
	pause_device();
	set_gate(q, FM_GATE_CLOSED);
	for (unsigned i = 0; i < ALL; i++)
		hard_launch(q, i);
	assert_true(atomic_load(&q->gates_pending) > 1);
	early.q = q;
	set_gate(q, FM_GATE_OPEN);
	eventually(early.ended);
	assert_int_equal(early.pending, 1);
	eventually(!atomic_load(&q->gates_pending));
	w.pause = false;
	ends(q, ALL);
	hard_close(q);
	over();
}

static unsigned tracks_of(struct fm_xq *q)
{
	unsigned n;

	pthread_mutex_lock(&q->cold->lock);
	n = q->cold->tracks;
	fm_xq_leave(q);
	return n;
}

/* A queue that had many segments in the driver does not keep the memory for as many. */
static void test_keeps_few_trackers(void **state)
{
	const unsigned n = 2 * FM_XQ_SPARES;
	struct fm_track *t;
	unsigned kept = 0;
	struct fm_xq *q;

	start();
	q = hard_queue();
	learn(q);
	fm_est_put(COMMAND_NS, 2 * FM_XQ_DEFAULT_INTERVAL);
	pause_device();
	for (unsigned i = 0; i < n; i++)
		hard_launch(q, i);
	assert_true(tracks_of(q) > FM_XQ_SPARES);
	w.pause = false;
	ends(q, n);
	eventually(!tracks_of(q));
	pthread_mutex_lock(&q->cold->lock);
	for (t = q->cold->spare; t; t = t->next)
		kept++;
	assert_int_equal(kept, q->cold->spares);
	pthread_mutex_unlock(&q->cold->lock);
	assert_int_equal(kept, FM_XQ_SPARES);
	hard_close(q);
	over();
}

/* A queue that may run and does not move gives way, if another queue of its process stands at a
 * gate: it may be behind that one in a channel. */
#define LONG (3600 * FM_S)

static uint32_t hold_of(struct fm_xq *q)
{
	return atomic_load(&q->slot->hold);
}

static void test_yields(void **state)
{
	struct fm_xq *stopped, *stuck;

	start();
	stopped = hard_queue();
	stuck = hard_queue();
	learn(stopped);
	set_gate(stopped, FM_GATE_CLOSED);
	hard_launch(stopped, 0);
	eventually(fm_xq_stalled(stopped));
	/* As where it has helped before: a busy machine may never let the agent look for a whole
	 * second without a gap, behind which it begins anew. */
	pthread_mutex_lock(&stuck->cold->lock);
	stuck->cold->patience = FM_XQ_YIELD_STILL_LEAST;
	fm_xq_leave(stuck);
	fm_queue_lock_take(lock_of(stuck->hwq));
	launch_of(stuck, LONG, 1);
	fm_queue_lock_give(lock_of(stuck->hwq));
	fm_client_wake(stuck->client);
	eventually(hold_of(stuck) == FM_HOLD_RESTS);
	assert_int_equal(hold_of(stopped), FM_HOLD_NONE);
	set_gate(stopped, FM_GATE_OPEN);
	eventually((fm_simdev_advance(w.dev, LONG), w.n == 2));
	eventually(hold_of(stuck) == FM_HOLD_NONE);
	hard_close(stopped);
	hard_close(stuck);
	over();
}

/* A call of ours is in the way: it yields at once, and that says nothing of the next time. */
static void test_yields_to_a_call_of_ours(void **state)
{
	struct fm_xq *stopped, *stuck;

	start();
	stopped = hard_queue();
	stuck = hard_queue();
	learn(stopped);
	set_gate(stopped, FM_GATE_CLOSED);
	hard_launch(stopped, 0);
	eventually(fm_xq_stalled(stopped));
	atomic_store(&in_way_of, stuck->hwq);
	fm_queue_lock_take(lock_of(stuck->hwq));
	launch_of(stuck, LONG, 1);
	fm_queue_lock_give(lock_of(stuck->hwq));
	fm_client_wake(stuck->client);
	eventually(hold_of(stuck) == FM_HOLD_RESTS);
	set_gate(stopped, FM_GATE_OPEN);
	eventually((fm_simdev_advance(w.dev, LONG), w.n == 2));
	eventually(hold_of(stuck) == FM_HOLD_NONE);
	pthread_mutex_lock(&stuck->cold->lock);
	assert_true(stuck->cold->yields_blocked);
	assert_int_equal(stuck->cold->patience, FM_XQ_YIELD_STILL_MOST);
	pthread_mutex_unlock(&stuck->cold->lock);
	hard_close(stopped);
	hard_close(stuck);
	over();
}

/* Nobody stands: however long its command takes, it keeps its place. */
static void test_yields_to_nobody(void **state)
{
	struct fm_xq *other, *slow;

	start();
	other = hard_queue();
	slow = hard_queue();
	learn(other);
	set_gate(other, FM_GATE_CLOSED); /* it has no work */
	launch_of(slow, LONG, 0);
	for (unsigned i = 0; i < 65; i++) {
		fm_client_wake(slow->client);
		usleep(20 * 1000);
	}
	assert_int_equal(hold_of(slow), FM_HOLD_NONE);
	eventually((fm_simdev_advance(w.dev, LONG), w.n == 1));
	hard_close(other);
	hard_close(slow);
	over();
}

/* Wide gates: while nobody shares the device they are farther apart, and fewer are open ahead. What
 * is closed then is still bounded. */
#define WIDE 4u

static void assert_gates(struct fm_xq *q, unsigned from, unsigned n, unsigned each)
{
	uint64_t before = atomic_load(&q->slot->gates), gates;

	for (unsigned i = 0; i < n; i++)
		hard_launch(q, from + i);
	gates = atomic_load(&q->slot->gates) - before;
	assert_in_range(gates, n / each - 2, n / each + 1);
}

static void test_wide(void **state)
{
	const unsigned segment = FM_XQ_DEFAULT_INTERVAL / COMMAND_NS, far = WIDE * segment,
		       n = 10 * far;
	struct fm_xq *q;

	start();
	ops.host_gate.wide = WIDE;
	q = hard_queue();
	fm_est_put(COMMAND_NS, COMMAND_NS);
	pause_device();
	assert_gates(q, 0, n, far);
	/* About as much is open ahead as with narrow gates. */
	assert_in_range(
		atomic_load(&q->slot->released), far, (FM_XQ_LEAD_ALONE + WIDE + 1) * segment);
	atomic_store(&q->slot->shares, FM_SHARES);
	atomic_store(&peer.board->contended, FM_SHARES);
	fm_client_wake(q->client);
	eventually(atomic_load(&q->interval) == FM_XQ_DEFAULT_INTERVAL);
	assert_gates(q, n, 10 * segment, segment);
	set_gate(q, FM_GATE_CLOSED);
	w.pause = false;
	assert_rests(q, n);
	set_gate(q, FM_GATE_OPEN);
	ends(q, n + 10 * segment);
	hard_close(q);
	over();
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_late),
	cmocka_unit_test(test_busy),
	cmocka_unit_test(test_no_gate_while_busy),
	cmocka_unit_test(test_opens_while_a_submit_waits),
	cmocka_unit_test(test_goes_on_though_it_is_full),
	cmocka_unit_test(test_lost),
	cmocka_unit_test(test_pending_until_open),
	cmocka_unit_test(test_keeps_few_trackers),
	cmocka_unit_test(test_yields),
	cmocka_unit_test(test_yields_to_a_call_of_ours),
	cmocka_unit_test(test_yields_to_nobody),
	cmocka_unit_test(test_wide),
};

int main(int argc, char **argv)
{
	return RUN_OWN_PROCESSES(tests, argc, argv);
}
