// SPDX-License-Identifier: Apache-2.0
/*
 * XQueues over the software device, with this test in the scheduler's place: it writes the gates of
 * the board itself. Every case runs in a process of its own (this program, with its name as the
 * argument), since a process has one client. The device is in virtual time, driven by a ticker that
 * can stand still, so what is asserted does not hang on how fast the machine is.
 */
#include "backend/sim/sim.h"
#include "own_process.h"
#include "xqueue/xqueue.h"
#include <errno.h>
#include <pthread.h>
#include <string.h>

#define COMMAND_NS (100 * FM_US)
#define TICK_US    50
#define MOST       2000

/* The link: to this test. */
static struct {
	struct fm_board *board;
	_Atomic bool refuse, gone;
	_Atomic unsigned opened, closed, bells, queues, queues_gone, hints, groups, segments;
} peer;

struct fm_link {
	int unused;
};

static struct fm_link the_link;

static int peer_open(struct fm_link **out, struct fm_client *c, const char *arg,
        struct fm_board *board, int fd, const char *api)
{
	if (peer.refuse)
		return -ECONNREFUSED;
	peer.board = board;
	peer.gone = false;
	peer.opened++;
	*out = &the_link;
	return 0;
}

static void peer_close(struct fm_link *l)
{
	peer.closed++;
}

static int peer_send(struct fm_link *l, const union fm_msg *m)
{
	peer.queues += m->head.type == FM_MSG_QUEUE;
	peer.queues_gone += m->head.type == FM_MSG_QUEUE_GONE;
	peer.hints += m->head.type == FM_MSG_HINT;
	peer.groups += m->head.type == FM_MSG_GROUP;
	peer.segments += m->head.type == FM_MSG_SEGMENT;
	return 0;
}

static void peer_bell(struct fm_link *l)
{
	peer.bells++;
}

static int peer_fd(const struct fm_link *l)
{
	return -1;
}

static uint64_t peer_service(struct fm_link *l, uint64_t now)
{
	return peer.gone ? 0 : FM_NEVER;
}

static const struct fm_link_ops peer_link = {
        .open = peer_open,
        .close = peer_close,
        .send = peer_send,
        .bell = peer_bell,
        .fd = peer_fd,
        .service = peer_service,
};

static struct fm_client *client(bool gates_always)
{
	const struct fm_client_config config = {.api = "test",
	        .local = &peer_link,
	        .local_policy = "test",
	        .gates_always = gates_always};

	return fm_client_get(&config);
}

/* The device and what came out of it. */
static struct {
	struct fm_simdev *dev;
	pthread_t ticker;
	_Atomic bool stop, pause;
	_Atomic unsigned n;
	_Atomic unsigned result[MOST];
} w;

static void *tick(void *arg)
{
	while (!w.stop) {
		if (!w.pause)
			fm_simdev_advance(w.dev, COMMAND_NS);
		usleep(TICK_US);
	}
	return NULL;
}

static void start_device(unsigned max_level)
{
	const struct fm_sim_options o = {.virtual_time = true, .max_level = max_level};

	memset(&w, 0, sizeof(w));
	assert_int_equal(fm_simdev_new(&w.dev, &o), 0);
	assert_int_equal(pthread_create(&w.ticker, NULL, tick, NULL), 0);
}

static void stop_device(void)
{
	w.stop = true;
	pthread_join(w.ticker, NULL);
	fm_simdev_free(w.dev);
}

static void done(void *arg)
{
	w.result[w.n++] = (unsigned)(uintptr_t)arg;
}

static struct fm_xq *new_queue(bool gates_always, unsigned wish)
{
	struct fm_simq *simq;
	struct fm_xq *q;

	assert_int_equal(fm_simq_new(&simq, w.dev), 0);
	const struct fm_xq_config config = {.device = "sim",
	        .ops = &fm_simq_ops,
	        .hwq = simq,
	        .level_wish = (enum fm_level)wish,
	        .in_order = true};
	assert_int_equal(fm_xq_create(&q, client(gates_always), &config), 0);
	return q;
}

static int launch(struct fm_xq *q, unsigned i)
{
	const struct fm_command c = {
	        .device_ns = COMMAND_NS, .done = done, .arg = (void *)(uintptr_t)i};
	int rc;

	fm_xq_begin(q, 1);
	rc = fm_simq_ops.launch(q->hwq, &c);
	fm_xq_end(q);
	return rc;
}

static void wait_all(struct fm_xq *q)
{
	assert_int_equal(fm_xq_wait(q, fm_xq_mark(q), 60 * FM_S), 0);
}

/* Commands that teach the estimate, one by one. */
static void warm_up(struct fm_xq *q)
{
	for (unsigned i = 0; i < 20; i++) {
		launch(q, i);
		wait_all(q);
	}
	assert_int_equal(w.n, 20);
	w.n = 0;
}

static void device_goes_on(unsigned ticks)
{
	uint64_t until = fm_simdev_now(w.dev) + ticks * COMMAND_NS;

	eventually(fm_simdev_now(w.dev) >= until);
}

static void set_gate(struct fm_xq *q, enum fm_gate gate)
{
	atomic_store(&q->slot->gate, gate);
	fm_client_wake(q->client);
}

struct feeder {
	pthread_t thread;
	struct fm_xq *q;
	unsigned from, to;
};

static void *feed(void *arg)
{
	struct feeder *f = arg;

	for (unsigned i = f->from; i < f->to; i++)
		assert_int_equal(launch(f->q, i), 0);
	return NULL;
}

static void start_feeder(struct feeder *f)
{
	assert_int_equal(pthread_create(&f->thread, NULL, feed, f), 0);
}

static void assert_in_order(unsigned n)
{
	assert_int_equal(w.n, n);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(w.result[i], i);
}

/* The device rests: with time given to it, nothing more comes out. */
static void assert_rests(struct fm_xq *q, unsigned all)
{
	unsigned n;

	eventually(fm_xq_stalled(q));
	device_goes_on(2); /* what had finished then has been told */
	n = w.n;
	device_goes_on(100);
	assert_int_equal(w.n, n);
	assert_true(fm_xq_stalled(q));
	assert_true(n < all);
}

static void gate_word_stops_the_queue(unsigned level)
{
	struct feeder f = {.from = 0, .to = 300};
	uint64_t gates;

	start_device(level);
	f.q = new_queue(false, 0);
	assert_int_equal(f.q->level, level);
	assert_int_equal(atomic_load(&f.q->slot->level), level);
	warm_up(f.q);
	start_feeder(&f);
	for (unsigned part = 1; part <= 3; part++) {
		eventually(w.n >= 50 * part);
		set_gate(f.q, FM_GATE_CLOSED);
		assert_rests(f.q, 300);
		set_gate(f.q, FM_GATE_OPEN);
	}
	pthread_join(f.thread, NULL);
	wait_all(f.q);
	assert_in_order(300);
	gates = atomic_load(&f.q->slot->gates);
	assert_true(level == 1 ? gates == 0 : gates > 10);
	assert_int_equal(atomic_load(&f.q->slot->done), 320);
	assert_int_equal(fm_slot_pending(f.q->slot), 0);
	assert_true(fm_xq_stalled(f.q));
	fm_xq_close(f.q);
	eventually(peer.queues_gone == 1);
	stop_device();
}

static void test_gate_word_stops_level_1(void **state)
{
	gate_word_stops_the_queue(1);
}

static void test_gate_word_stops_level_2(void **state)
{
	gate_word_stops_the_queue(2);
}

static void test_gate_word_stops_level_3(void **state)
{
	gate_word_stops_the_queue(3);
}

/* All is in the driver before the gate closes: level 2 and 3 need nobody in this process to act. */
static void queued_work_stops(unsigned level)
{
	struct fm_xq *q;

	start_device(level);
	q = new_queue(false, 0);
	warm_up(q);
	w.pause = true;
	for (unsigned i = 0; i < 300; i++)
		launch(q, i);
	set_gate(q, FM_GATE_CLOSED);
	w.pause = false;
	assert_rests(q, 300);
	set_gate(q, FM_GATE_OPEN);
	wait_all(q);
	assert_in_order(300);
	fm_xq_close(q);
	eventually(peer.queues_gone == 1);
	stop_device();
}

static void test_queued_work_stops_level_2(void **state)
{
	queued_work_stops(2);
}

static void test_queued_work_stops_level_3(void **state)
{
	queued_work_stops(3);
}

/* What is launched behind a stopped queue waits, too, and the queue still counts as stopped. */
static void launched_behind_a_stop(unsigned level)
{
	struct fm_xq *q;

	start_device(level);
	q = new_queue(false, 0);
	warm_up(q);
	w.pause = true;
	for (unsigned i = 0; i < 100; i++)
		launch(q, i);
	w.pause = false;
	eventually(w.n >= 5);
	set_gate(q, FM_GATE_CLOSED);
	assert_rests(q, 100);
	for (unsigned i = 100; i < 200; i++)
		launch(q, i);
	assert_true(fm_xq_stalled(q));
	assert_rests(q, 100);
	set_gate(q, FM_GATE_OPEN);
	wait_all(q);
	assert_in_order(200);
	stop_device();
}

static void test_launched_behind_a_stop_level_2(void **state)
{
	launched_behind_a_stop(2);
}

static void test_running_command_stops_level_3(void **state)
{
	const struct fm_command c = {.device_ns = 3600 * FM_S, .done = done};
	struct fm_xq *q, *other;

	start_device(3);
	q = new_queue(false, 0);
	other = new_queue(false, 0);
	fm_xq_begin(q, 1);
	fm_simq_ops.launch(q->hwq, &c);
	fm_xq_end(q);
	device_goes_on(1);
	set_gate(q, FM_GATE_CLOSED);
	eventually(fm_xq_stalled(q));
	launch(other, 7);
	wait_all(other);
	assert_int_equal(w.n, 1);
	assert_int_equal(w.result[0], 7);
	assert_int_equal(fm_slot_pending(q->slot), 1);
	stop_device();
}

/* A queue whose gate is closed while it is empty: its first command waits. */
static void closed_while_idle(unsigned level)
{
	struct feeder f = {.from = 0, .to = 40};

	start_device(level);
	f.q = new_queue(false, 0);
	warm_up(f.q);
	set_gate(f.q, FM_GATE_CLOSED);
	assert_true(fm_xq_stalled(f.q));
	start_feeder(&f);
	eventually(fm_slot_pending(f.q->slot) > 0);
	device_goes_on(50);
	assert_true(w.n < 40);
	assert_rests(f.q, 40);
	set_gate(f.q, FM_GATE_OPEN);
	pthread_join(f.thread, NULL);
	wait_all(f.q);
	assert_in_order(40);
	stop_device();
}

static void test_closed_while_idle_level_1(void **state)
{
	closed_while_idle(1);
}

static void test_closed_while_idle_level_2(void **state)
{
	closed_while_idle(2);
}

static void test_closed_while_idle_level_3(void **state)
{
	closed_while_idle(3);
}

static void own_suspension(unsigned level)
{
	struct feeder f = {.from = 0, .to = 200};

	peer.refuse = true; /* nobody schedules: the program's own wish counts all the same */
	start_device(level);
	f.q = new_queue(true, 0);
	assert_false(fm_client_connected(f.q->client));
	warm_up(f.q);
	start_feeder(&f);
	for (unsigned part = 1; part <= 2; part++) {
		eventually(w.n >= 50 * part);
		assert_int_equal(fm_xq_suspend(f.q), 0);
		assert_int_equal(fm_xq_suspend(f.q), 0);
		assert_rests(f.q, 201); /* it may have come to its end before */
		assert_int_equal(fm_xq_resume(f.q), 0);
		assert_int_equal(fm_xq_resume(f.q), 0);
	}
	pthread_join(f.thread, NULL);
	wait_all(f.q);
	assert_in_order(200);
	stop_device();
}

static void test_own_suspension_level_1(void **state)
{
	own_suspension(1);
}

static void test_own_suspension_level_2(void **state)
{
	own_suspension(2);
}

static void test_own_suspension_level_3(void **state)
{
	own_suspension(3);
}

static void test_unscheduled_has_no_gates(void **state)
{
	struct fm_xq *q;

	peer.refuse = true;
	start_device(3);
	q = new_queue(false, 0);
	for (unsigned i = 0; i < 200; i++)
		launch(q, i);
	wait_all(q);
	assert_in_order(200);
	assert_int_equal(atomic_load(&q->slot->gates), 0);
	stop_device();
}

static void test_level_wish(void **state)
{
	start_device(3);
	for (unsigned wish = 0; wish <= 3; wish++) {
		struct fm_xq *q = new_queue(false, wish);

		assert_int_equal(q->level, wish ? wish : 3);
		assert_int_equal(q->levels, 14);
		fm_xq_close(q);
	}
	eventually(peer.queues_gone == 4);
	stop_device();
}

static void test_wait_has_a_limit(void **state)
{
	struct fm_xq *q;

	start_device(3);
	q = new_queue(false, 0);
	w.pause = true;
	launch(q, 0);
	assert_int_equal(fm_xq_wait(q, 1, 0), -ETIMEDOUT);
	assert_int_equal(fm_xq_wait(q, 1, FM_MS), -ETIMEDOUT);
	assert_int_equal(fm_xq_wait(q, 0, 0), 0);
	w.pause = false;
	assert_int_equal(fm_xq_wait(q, 1, FM_NEVER), 0);
	assert_int_equal(w.n, 1);
	stop_device();
}

/* Whatever the device refuses to do, the commands run, all and in order, and nothing hangs. */
static void faulty(enum fm_sim_fault fault, unsigned level)
{
	struct feeder f = {.from = 0, .to = 300};

	start_device(level);
	f.q = new_queue(false, 0);
	warm_up(f.q);
	fm_simdev_fault(w.dev, fault, 30);
	start_feeder(&f);
	for (unsigned part = 1; part <= 2; part++) {
		eventually(w.n >= 50 * part);
		set_gate(f.q, FM_GATE_CLOSED);
		device_goes_on(20);
		set_gate(f.q, FM_GATE_OPEN);
	}
	pthread_join(f.thread, NULL);
	wait_all(f.q);
	assert_in_order(300);
	fm_xq_close(f.q);
	eventually(peer.queues_gone == 1);
	stop_device();
}

static void test_fault_deactivate(void **state)
{
	faulty(FM_SIM_FAULT_DEACTIVATE, 2);
}

static void test_fault_interrupt(void **state)
{
	faulty(FM_SIM_FAULT_INTERRUPT, 3);
}

static void test_fault_track_level_1(void **state)
{
	faulty(FM_SIM_FAULT_TRACK, 1);
}

static void test_fault_track_level_2(void **state)
{
	faulty(FM_SIM_FAULT_TRACK, 2);
}

static void test_fault_launch(void **state)
{
	struct fm_xq *q;
	unsigned failed = 0;

	start_device(2);
	q = new_queue(false, 0);
	warm_up(q);
	fm_simdev_fault(w.dev, FM_SIM_FAULT_LAUNCH, 3);
	for (unsigned i = 0; i < 50; i++)
		failed += launch(q, i) == -EIO;
	wait_all(q);
	assert_int_equal(failed, 3);
	assert_int_equal(w.n, 47);
	assert_int_equal(fm_slot_pending(q->slot), 0); /* those that never were are done, too */
	stop_device();
}

static void test_hang_hurts_nobody_else(void **state)
{
	struct fm_xq *q, *other;

	start_device(3);
	q = new_queue(false, 0);
	other = new_queue(false, 0);
	fm_simdev_fault(w.dev, FM_SIM_FAULT_HANG, 1);
	launch(q, 0);
	device_goes_on(2);
	launch(other, 1);
	device_goes_on(5);
	assert_int_equal(w.n, 0);
	assert_int_equal(fm_xq_wait(q, 1, FM_MS), -ETIMEDOUT);
	assert_int_equal(fm_xq_suspend(q), 0);
	wait_all(other);
	assert_int_equal(w.result[0], 1);
	assert_int_equal(fm_xq_resume(q), 0);
	fm_simdev_reset(w.dev);
	wait_all(q);
	assert_int_equal(w.n, 2);
	stop_device();
}

/* The scheduler goes away while the gate is closed: everything runs; it comes back: it is obeyed.
 */
static void test_fails_open_and_rejoins(void **state)
{
	struct feeder f = {.from = 0, .to = 400};

	start_device(2);
	f.q = new_queue(false, 0);
	warm_up(f.q);
	start_feeder(&f);
	eventually(w.n >= 20);
	set_gate(f.q, FM_GATE_CLOSED);
	assert_rests(f.q, 400);
	peer.refuse = true;
	peer.gone = true;
	fm_client_wake(f.q->client);
	eventually(w.n >= 100);
	assert_int_equal(peer.closed, 1);
	assert_int_equal(atomic_load(&f.q->slot->gate), FM_GATE_OPEN);
	peer.refuse = false;
	pthread_join(f.thread, NULL);
	wait_all(f.q);
	assert_in_order(400);
	eventually(fm_client_connected(f.q->client));
	assert_int_equal(peer.opened, 2);
	eventually(peer.queues == 2); /* told again */
	f.from = w.n = 0;
	set_gate(f.q, FM_GATE_CLOSED);
	start_feeder(&f);
	eventually(fm_slot_pending(f.q->slot) > 0);
	assert_rests(f.q, 400);
	set_gate(f.q, FM_GATE_OPEN);
	pthread_join(f.thread, NULL);
	wait_all(f.q);
	assert_in_order(400);
	stop_device();
}

static void test_bells(void **state)
{
	struct fm_xq *q;

	start_device(2);
	q = new_queue(false, 0);
	warm_up(q);
	assert_int_equal(peer.bells, 0);
	atomic_store(&q->slot->bells, FM_BELL_READY);
	launch(q, 0);
	assert_int_equal(peer.bells, 1);
	launch(q, 1);
	wait_all(q);
	assert_true(peer.bells <= 2); /* the second launch may have found the queue idle, or not */
	atomic_store(&q->slot->bells, FM_BELL_IDLE);
	peer.bells = 0;
	w.pause = true;
	launch(q, 2);
	launch(q, 3);
	assert_int_equal(peer.bells, 0);
	w.pause = false;
	wait_all(q);
	eventually(peer.bells == 1);
	stop_device();
}

/* While others wait for the device, the end of the work is noticed though nobody here waits for it.
 */
static void test_contended_queue_reports_its_end(void **state)
{
	struct fm_xq *q;

	start_device(2);
	q = new_queue(false, 0);
	atomic_store(&peer.board->contended, 1);
	atomic_store(&q->slot->bells, FM_BELL_IDLE);
	launch(q, 0);
	launch(q, 1);
	eventually(fm_slot_pending(q->slot) == 0);
	eventually(peer.bells >= 1);
	stop_device();
}

static void test_threads_on_one_queue(void **state)
{
	struct feeder f[4];
	bool seen[400] = {false};
	unsigned last[4] = {0};

	start_device(3);
	f[0].q = new_queue(false, 0);
	warm_up(f[0].q);
	for (unsigned i = 0; i < 4; i++) {
		f[i] = (struct feeder){.q = f[0].q, .from = i * 100, .to = i * 100 + 100};
		start_feeder(&f[i]);
	}
	eventually(w.n >= 50);
	set_gate(f[0].q, FM_GATE_CLOSED);
	assert_rests(f[0].q, 400);
	set_gate(f[0].q, FM_GATE_OPEN);
	for (unsigned i = 0; i < 4; i++)
		pthread_join(f[i].thread, NULL);
	wait_all(f[0].q);
	assert_int_equal(w.n, 400);
	for (unsigned i = 0; i < 400; i++) {
		unsigned r = w.result[i], t = r / 100;

		assert_false(seen[r]);
		seen[r] = true;
		assert_true(r % 100 >= last[t]); /* each thread's own order is kept */
		last[t] = r % 100;
	}
	stop_device();
}

static void test_many_queues(void **state)
{
	struct fm_xq *q[FM_BOARD_SLOTS];
	struct fm_xq *extra;

	start_device(2);
	for (unsigned i = 0; i < FM_BOARD_SLOTS; i++) {
		q[i] = new_queue(false, 0);
		launch(q[i], i);
	}
	const struct fm_xq_config config = {
	        .device = "sim", .ops = &fm_simq_ops, .hwq = q[0]->hwq, .in_order = true};
	assert_int_equal(fm_xq_create(&extra, client(false), &config), -ENOSPC);
	for (unsigned i = 0; i < FM_BOARD_SLOTS; i++)
		fm_xq_close(q[i]); /* with work under way */
	eventually(peer.queues_gone == FM_BOARD_SLOTS);
	assert_int_equal(w.n, FM_BOARD_SLOTS);
	for (unsigned i = 0; i < 200; i++) {
		q[0] = new_queue(false, 0);
		launch(q[0], i);
		fm_xq_close(q[0]);
		eventually(peer.queues_gone == FM_BOARD_SLOTS + i + 1);
	}
	assert_int_equal(w.n, FM_BOARD_SLOTS + 200);
	stop_device();
}

static void test_messages(void **state)
{
	struct fm_client *c = client(false);
	unsigned groups;

	groups = peer.groups;
	assert_int_equal(fm_client_group_add(c, "has space"), -EINVAL);
	assert_int_equal(fm_client_group_add(c, ""), -EINVAL);
	assert_int_equal(fm_client_group_add(c, "one"), 1);
	assert_int_equal(peer.groups, groups + 1);
	assert_int_equal(fm_client_hint(c, 1, FM_HINT_PRIORITY, 1000), -ERANGE);
	assert_int_equal(fm_client_hint(c, 1, FM_HINT_PRIORITY, 10), 0);
	assert_int_equal(peer.hints, 1);
	assert_int_equal(fm_client_segment(c, 1, false, FM_PRIORITY_NORMAL), -EINVAL);
	assert_int_equal(fm_client_segment(c, 1, true, FM_PRIORITY_HIGH), 0);
	assert_int_equal(fm_client_segment(c, 1, false, FM_PRIORITY_NORMAL), 0);
	assert_int_equal(peer.segments, 2);
	for (unsigned i = 2; i < FM_BOARD_GROUPS; i++)
		assert_int_equal(fm_client_group_add(c, "more"), i);
	assert_int_equal(fm_client_group_add(c, "more"), -ENOSPC);
}

static void test_disabled(void **state)
{
	setenv("FERMATA_DISABLE", "1", 1);
	assert_null(client(false));
	setenv("FERMATA_DISABLE", "0", 1);
	assert_non_null(client(false));
}

/* The parent's queue is dead here: it neither blocks nor shows in the parent's board. */
static int use_dead_queue(void *arg)
{
	struct fm_xq *q = arg;
	unsigned opened = peer.opened;

	for (unsigned i = 0; i < 100; i++) {
		fm_xq_begin(q, 1);
		fm_xq_end(q);
		fm_xq_synced(q, fm_xq_mark(q));
	}
	fm_xq_close(q);
	return peer.opened == opened ? 0 : 1;
}

#ifdef NO_THREADS_AFTER_FORK
#define use_new_queue use_dead_queue
#else
static int use_new_queue(void *arg)
{
	struct fm_xq *q = arg;
	unsigned opened = peer.opened;
	struct fm_xq *mine;

	start_device(2);
	mine = new_queue(false, 0);
	for (unsigned i = 0; i < 50; i++)
		launch(mine, i);
	if (peer.opened != opened + 1 || mine->slot == q->slot)
		return 1;
	return fm_xq_wait(mine, 50, 60 * FM_S) || w.n != 50 ? 2 : 0;
}
#endif

static void test_fork(void **state)
{
	struct fm_xq *q;
	uint64_t begun;

	start_device(2);
	q = new_queue(false, 0);
	warm_up(q);
	set_gate(q, FM_GATE_CLOSED);
	begun = atomic_load(&q->slot->begun);
	assert_int_equal(in_child(use_dead_queue, q), 0);
	assert_int_equal(in_child(use_new_queue, q), 0);
	assert_int_equal(atomic_load(&q->slot->begun), begun);
	assert_int_equal(atomic_load(&q->slot->gate), FM_GATE_CLOSED);
	set_gate(q, FM_GATE_OPEN);
	for (unsigned i = 0; i < 50; i++)
		launch(q, i);
	wait_all(q);
	assert_in_order(50);
	stop_device();
}

static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gate_word_stops_level_1),
        cmocka_unit_test(test_gate_word_stops_level_2),
        cmocka_unit_test(test_gate_word_stops_level_3),
        cmocka_unit_test(test_queued_work_stops_level_2),
        cmocka_unit_test(test_queued_work_stops_level_3),
        cmocka_unit_test(test_launched_behind_a_stop_level_2),
        cmocka_unit_test(test_running_command_stops_level_3),
        cmocka_unit_test(test_closed_while_idle_level_1),
        cmocka_unit_test(test_closed_while_idle_level_2),
        cmocka_unit_test(test_closed_while_idle_level_3),
        cmocka_unit_test(test_own_suspension_level_1),
        cmocka_unit_test(test_own_suspension_level_2),
        cmocka_unit_test(test_own_suspension_level_3),
        cmocka_unit_test(test_unscheduled_has_no_gates),
        cmocka_unit_test(test_level_wish),
        cmocka_unit_test(test_wait_has_a_limit),
        cmocka_unit_test(test_fault_deactivate),
        cmocka_unit_test(test_fault_interrupt),
        cmocka_unit_test(test_fault_track_level_1),
        cmocka_unit_test(test_fault_track_level_2),
        cmocka_unit_test(test_fault_launch),
        cmocka_unit_test(test_hang_hurts_nobody_else),
        cmocka_unit_test(test_fails_open_and_rejoins),
        cmocka_unit_test(test_bells),
        cmocka_unit_test(test_contended_queue_reports_its_end),
        cmocka_unit_test(test_threads_on_one_queue),
        cmocka_unit_test(test_many_queues),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_disabled),
        cmocka_unit_test(test_fork),
};

int main(int argc, char **argv)
{
	return RUN_OWN_PROCESSES(tests, argc, argv);
}
