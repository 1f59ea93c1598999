// SPDX-License-Identifier: Apache-2.0
/* XQueues stop and go on: by the gate word and by their own program, at each level. */
#include "xqueue/segment.h"
#include "xqueue_world.h"

static void gate_word_stops_the_queue(unsigned level)
{
	struct feeder f = {.from = 0, .to = 1500, .until = 400};
	uint64_t gates;

	start_device(level);
	f.q = new_queue(false, 0);
	assert_int_equal(f.q->level, level == WORDS ? 2 : level);
	assert_int_equal(atomic_load(&f.q->slot->level), f.q->level);
	warm_up(f.q);
	start_feeder(&f);
	for (unsigned part = 1; part <= 3; part++) {
		eventually(w.n >= 50 * part);
		set_gate(f.q, FM_GATE_CLOSED);
		assert_rests(f.q, 1500);
		f.until = part < 3 ? 400 * (part + 1) : 0;
		set_gate(f.q, FM_GATE_OPEN);
	}
	pthread_join(f.thread, NULL);
	wait_all(f.q);
	assert_in_order(1500);
	gates = atomic_load(&f.q->slot->gates);
	assert_true(level == 1 ? gates == 0 : gates > 10);
	assert_int_equal(fm_slot_done(f.q->slot), 1520);
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

static void test_gate_word_stops_words(void **state)
{
	gate_word_stops_the_queue(WORDS);
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
	pause_device();
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

static void test_queued_work_stops_words(void **state)
{
	queued_work_stops(WORDS);
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
	pause_device();
	for (unsigned i = 0; i < 100; i++)
		launch(q, i);
	w.pause_at = 5;
	w.pause = false;
	eventually(w.pause);
	set_gate(q, FM_GATE_CLOSED);
	w.pause = false;
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

static void test_launched_behind_a_stop_words(void **state)
{
	launched_behind_a_stop(WORDS);
}

static void test_launched_behind_a_stop_level_3(void **state)
{
	launched_behind_a_stop(3);
}

static void test_running_command_stops_level_3(void **state)
{
	const struct fm_command c = {.device_ns = 3600 * FM_S, .done = done};
	struct fm_xq *q, *other;

	start_device(3);
	q = new_queue(false, 0);
	other = new_queue(false, 0);
	fm_xq_begin(q, 1, true);
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

static void test_closed_while_idle_words(void **state)
{
	closed_while_idle(WORDS);
}

static void test_closed_while_idle_level_3(void **state)
{
	closed_while_idle(3);
}

/* What is under way does not move, for all that is known since it waits for the caller: who is held
 * stays so, and the queue counts as at rest, until its gate opens. */
static void test_waited_for_level_1(void **state)
{
	struct feeder f = {.from = 1, .to = 2};
	uint64_t since;

	start_device(1);
	f.q = new_queue(false, 0);
	warm_up(f.q);
	pause_device();
	launch(f.q, 0);
	since = fm_now();
	set_gate(f.q, FM_GATE_CLOSED);
	start_feeder(&f);
	eventually(fm_xq_stalled(f.q));
	assert_true(fm_now() - since >= FM_S);
	assert_int_equal(fm_xq_mark(f.q), 21);
	assert_int_equal(fm_slot_pending(f.q->slot), 2);
	set_gate(f.q, FM_GATE_OPEN);
	pthread_join(f.thread, NULL);
	set_gate(f.q, FM_GATE_CLOSED);
	assert_false(fm_xq_stalled(f.q));
	set_gate(f.q, FM_GATE_OPEN);
	w.pause = false;
	wait_all(f.q);
	assert_in_order(2);
	stop_device();
}

/* Each is of a kind of its own, so that it is alone in its part of the window. */
static void *feed_kinds(void *arg)
{
	struct feeder *f = arg;

	for (unsigned i = f->from; i < f->to; i++)
		assert_int_equal(launch_of(f->q, COMMAND_NS + 1 + i, i), 0);
	return NULL;
}

static bool holds_somebody(struct fm_xq *q)
{
	bool holds;

	pthread_mutex_lock(&q->cold->lock);
	holds = q->cold->holds;
	pthread_mutex_unlock(&q->cold->lock);
	return holds;
}

/* What is under way when the window is full: the next has begun, too. */
static uint64_t window_of(struct fm_xq *q, enum fm_shares shares, unsigned from)
{
	struct feeder f = {.q = q, .from = from, .to = from + 40};
	uint64_t pending;

	atomic_store(&q->slot->shares, shares);
	pause_device();
	assert_int_equal(pthread_create(&f.thread, NULL, feed_kinds, &f), 0);
	eventually(holds_somebody(q));
	pending = fm_slot_pending(q->slot) - 1;
	w.pause = false;
	pthread_join(f.thread, NULL);
	wait_all(q);
	return pending;
}

/* Of commands of which it is known what they take: how many, and how many trackers tell of it. */
static uint64_t window_of_known(
	struct fm_xq *q, enum fm_shares shares, unsigned from, uint64_t *tracks)
{
	struct feeder f = {.q = q, .from = from, .to = from + 200};
	uint64_t pending;

	eventually(nothing_is_tracked(q)); /* and so nothing more is learnt */
	fm_est_put(COMMAND_NS, 100 * FM_US);
	atomic_store(&q->slot->shares, shares);
	pause_device();
	start_feeder(&f);
	eventually(holds_somebody(q));
	pending = fm_slot_pending(q->slot) - 1;
	pthread_mutex_lock(&q->cold->lock);
	*tracks = q->cold->tracks;
	pthread_mutex_unlock(&q->cold->lock);
	w.pause = false;
	pthread_join(f.thread, NULL);
	wait_all(q);
	return pending;
}

/* 2 ms of them are under way in four segments; 8 ms, for who is never made to wait, in three, the
 * last of which ends behind that, and the rest of one that began before. */
static void test_window_of_known_level_1(void **state)
{
	uint64_t shared, own, tracks;
	struct fm_xq *q;

	setenv("FERMATA_INTERVAL_US", "1000000", 1); /* for patience */
	start_device(1);
	q = new_queue(false, 0);
	warm_up(q);
	shared = window_of_known(q, FM_SHARES, 0, &tracks);
	assert_in_range(shared, 15, 20);
	assert_in_range(tracks, 3, 4);
	own = window_of_known(q, FM_SHARES_NONE, 200, &tracks);
	assert_in_range(own, 75, 100);
	assert_in_range(tracks, 3, 4);
	shared = window_of_known(q, FM_SHARES, 400, &tracks);
	assert_in_range(shared, 15, 55); /* the first segment is one of before */
	shared = window_of_known(q, FM_SHARES, 600, &tracks);
	assert_in_range(shared, 15, 20);
	assert_in_order(800);
	fm_xq_close(q);
	eventually(peer.queues_gone == 1);
	unsetenv("FERMATA_INTERVAL_US");
	stop_device();
}

/* The window is of four parts; of four times as many for who is never made to wait for others. */
static void test_window_level_1(void **state)
{
	struct fm_xq *q;

	setenv("FERMATA_INTERVAL_US", "1000000", 1); /* for patience */
	start_device(1);
	q = new_queue(false, 0);
	warm_up(q);
	assert_int_equal(window_of(q, FM_SHARES, 0), 4);
	assert_int_equal(window_of(q, FM_SHARES_NONE, 40), 16);
	assert_int_equal(window_of(q, FM_SHARES_FIRST, 80), 16);
	assert_int_equal(window_of(q, FM_SHARES, 120), 4);
	assert_in_order(160);
	fm_xq_close(q);
	eventually(peer.queues_gone == 1);
	unsetenv("FERMATA_INTERVAL_US");
	stop_device();
}

static void own_suspension(unsigned level)
{
	struct feeder f = {.from = 0, .to = 1500, .until = 400};

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
		assert_rests(f.q, 1500);
		f.until = part < 2 ? 800 : 0;
		assert_int_equal(fm_xq_resume(f.q), 0);
		assert_int_equal(fm_xq_resume(f.q), 0);
	}
	pthread_join(f.thread, NULL);
	wait_all(f.q);
	assert_in_order(1500);
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

struct clear {
	pthread_t thread;
	struct fm_xq *q;
	_Atomic bool over;
};

static void *await_gates(void *arg)
{
	struct clear *c = arg;

	fm_xq_await_gates(c->q);
	c->over = true;
	return NULL;
}

/* Who must not stand behind a closed gate waits while the queue is stopped, and no longer. */
static void way_is_clear(unsigned level)
{
	struct clear c = {0};

	start_device(level);
	c.q = new_queue(false, 0);
	fm_xq_await_gates(c.q);
	warm_up(c.q);
	pause_device();
	for (unsigned i = 0; i < 100; i++)
		launch(c.q, i);
	set_gate(c.q, FM_GATE_CLOSED);
	w.pause = false;
	assert_rests(c.q, 100);
	assert_int_equal(pthread_create(&c.thread, NULL, await_gates, &c), 0);
	eventually(atomic_load(&c.q->cold->waiters));
	device_goes_on(100);
	assert_false(c.over);
	set_gate(c.q, FM_GATE_OPEN);
	pthread_join(c.thread, NULL);
	wait_all(c.q);
	assert_in_order(100);
	assert_int_equal(atomic_load(&c.q->gates_pending), 0);
	stop_device();
}

static void test_way_is_clear_level_2(void **state)
{
	way_is_clear(2);
}

static void test_way_is_clear_words(void **state)
{
	way_is_clear(WORDS);
}

/* The device waits for what this very thread does next: it is not kept for ever. */
static void test_way_is_never_clear(void **state)
{
	struct fm_xq *q;

	start_device(2);
	q = new_queue(false, 0);
	warm_up(q);
	pause_device();
	for (unsigned i = 0; i < 100; i++)
		launch(q, i);
	assert_true(atomic_load(&q->gates_pending));
	fm_xq_await_gates(q);
	assert_true(atomic_load(&q->gates_pending));
	w.pause = false;
	wait_all(q);
	assert_in_order(100);
	stop_device();
}

static _Atomic unsigned looks;

static void count_looks(void)
{
	looks++;
}

/* A caller that is held back at a closed gate has nothing to be looked after. */
static void test_held_back_it_costs_nothing(void **state)
{
	struct feeder f = {.to = 3};
	unsigned before;

	start_device(1);
	f.q = new_queue(false, 0);
	warm_up(f.q);
	set_gate(f.q, FM_GATE_CLOSED);
	start_feeder(&f);
	eventually(atomic_load(&f.q->cold->waiters));
	device_goes_on(20); /* the agent sleeps again */
	peer.looks = count_looks;
	before = looks;
	device_goes_on(500);
	assert_true(looks - before <= 20);
	set_gate(f.q, FM_GATE_OPEN);
	pthread_join(f.thread, NULL);
	wait_all(f.q);
	assert_in_order(3);
	stop_device();
}

/* The device has seen its gate open just before that closed, and says so a little later, when the
 * agent has looked, and once more before it sleeps: its end is noticed all the same. */
static struct {
	struct fm_xq *_Atomic q;
	uint64_t since; /* that it is closed */
	_Atomic unsigned looks;
} about_to_go;

static uint64_t seen_at_gate(struct fm_xq *q)
{
	uint64_t seen;

	pthread_mutex_lock(&q->cold->lock);
	seen = q->cold->seen_at_gate;
	fm_xq_leave(q);
	return seen;
}

/* The agent looks once more for a millisecond. It may take longer itself, so for it the queue has
 * come there only now. */
static void comes_there_now(struct fm_xq *q)
{
	pthread_mutex_lock(&q->cold->lock);
	if (q->cold->seen_at_gate >= about_to_go.since)
		q->cold->seen_at_gate = fm_now() + FM_S;
	fm_xq_leave(q);
}

static void says_it_stands(void)
{
	struct fm_xq *q = about_to_go.q;

	if (!q || atomic_load(&q->slot->gate) != FM_GATE_CLOSED)
		return;
	comes_there_now(q);
	atomic_store(&q->slot->waiting, ++about_to_go.looks <= 2);
}

static void test_passes_a_gate_that_closes(void **state)
{
	struct fm_xq *q;

	start_device(WORDS);
	q = new_queue(false, 0);
	set_gate(q, FM_GATE_CLOSED); /* it has come to a gate before */
	launch(q, 1);
	eventually(seen_at_gate(q));
	set_gate(q, FM_GATE_OPEN);
	wait_all(q);
	agent_looks(q);
	w.n = 0;
	pause_device();
	launch(q, 0);
	about_to_go.since = fm_now();
	about_to_go.q = q;
	peer.looks = says_it_stands;
	set_gate(q, FM_GATE_CLOSED);
	eventually(about_to_go.looks > 2);
	w.pause = false;
	eventually(!fm_slot_pending(q->slot));
	assert_int_equal(fm_simq_ops.sync(q->hwq), 0);
	assert_in_order(1);
	about_to_go.q = NULL;
	agent_looks(q);
	fm_xq_close(q);
	eventually(peer.queues_gone == 1);
	stop_device();
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_gate_word_stops_level_1),
	cmocka_unit_test(test_gate_word_stops_level_2),
	cmocka_unit_test(test_gate_word_stops_words),
	cmocka_unit_test(test_gate_word_stops_level_3),
	cmocka_unit_test(test_queued_work_stops_level_2),
	cmocka_unit_test(test_queued_work_stops_words),
	cmocka_unit_test(test_queued_work_stops_level_3),
	cmocka_unit_test(test_launched_behind_a_stop_level_2),
	cmocka_unit_test(test_launched_behind_a_stop_words),
	cmocka_unit_test(test_launched_behind_a_stop_level_3),
	cmocka_unit_test(test_running_command_stops_level_3),
	cmocka_unit_test(test_held_back_it_costs_nothing),
	cmocka_unit_test(test_passes_a_gate_that_closes),
	cmocka_unit_test(test_closed_while_idle_level_1),
	cmocka_unit_test(test_closed_while_idle_level_2),
	cmocka_unit_test(test_closed_while_idle_words),
	cmocka_unit_test(test_closed_while_idle_level_3),
	cmocka_unit_test(test_waited_for_level_1),
	cmocka_unit_test(test_window_level_1),
	cmocka_unit_test(test_window_of_known_level_1),
	cmocka_unit_test(test_own_suspension_level_1),
	cmocka_unit_test(test_own_suspension_level_2),
	cmocka_unit_test(test_own_suspension_level_3),
	cmocka_unit_test(test_unscheduled_has_no_gates),
	cmocka_unit_test(test_way_is_clear_level_2),
	cmocka_unit_test(test_way_is_clear_words),
	cmocka_unit_test(test_way_is_never_clear),
};

int main(int argc, char **argv)
{
	return RUN_OWN_PROCESSES(tests, argc, argv);
}
