// SPDX-License-Identifier: Apache-2.0
/* XQueues in trouble and in numbers: faults, a scheduler that goes, threads, fork, bells, messages.
 */
#include "xqueue/segment.h"
#include "xqueue_world.h"
#include <stdio.h>
#include <sys/syscall.h>

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

/* Whoever adds up the board, at any time, finds each command once. */
static void test_commands_of_a_gone_queue_count_once(void **state)
{
	struct fm_board *board;
	struct fm_xq *q;
	unsigned slot;

	start_device(2);
	q = new_queue(false, 0);
	board = q->client->board;
	slot = q->slot_index;
	launch(q, 0);
	launch(q, 1);
	wait_all(q);
	assert_int_equal(board->governed + board->slot[slot].begun, 2);
	fm_xq_close(q);
	eventually(peer.queues_gone == 1);
	assert_int_equal(board->slot[slot].begun, 0);
	assert_int_equal(board->governed, 2);
	stop_device();
}

static void test_wait_has_a_limit(void **state)
{
	struct fm_xq *q;

	start_device(3);
	q = new_queue(false, 0);
	pause_device();
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
	struct feeder f = {.from = 0, .to = 1500, .until = 400};

	start_device(2);
	f.q = new_queue(false, 0);
	warm_up(f.q);
	start_feeder(&f);
	eventually(w.n >= 20);
	set_gate(f.q, FM_GATE_CLOSED);
	assert_rests(f.q, 1500);
	f.until = 0;
	peer.refuse = true;
	peer.gone = true;
	fm_client_wake(f.q->client);
	eventually(peer.closed == 1);
	eventually(atomic_load(&f.q->slot->gate) == FM_GATE_OPEN);
	peer.refuse = false;
	pthread_join(f.thread, NULL);
	wait_all(f.q);
	assert_in_order(1500);
	eventually(fm_client_connected(f.q->client));
	assert_int_equal(peer.opened, 2);
	eventually(peer.queues == 2); /* told again */
	f.from = 0;
	w.n = 0;
	set_gate(f.q, FM_GATE_CLOSED);
	start_feeder(&f);
	eventually(fm_slot_pending(f.q->slot) > 0);
	assert_rests(f.q, 1500);
	set_gate(f.q, FM_GATE_OPEN);
	pthread_join(f.thread, NULL);
	wait_all(f.q);
	assert_in_order(1500);
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
	pause_device();
	launch(q, 2);
	launch(q, 3);
	assert_true(peer.bells <= 1); /* the end of the launch before may be told of late */
	w.pause = false;
	wait_all(q);
	eventually(peer.bells >= 1);
	stop_device();
}

/* Two threads begin at one time: one is stopped as soon as it has counted its command, and when it
 * looks whether the queue was idle, the other's is over, who took it for busy. */
static void test_who_looks_last_tells(void **state)
{
	struct fm_xq *q;
	uint64_t before;

	start_device(2);
	q = new_queue(false, 0);
	warm_up(q);
	atomic_store(&q->slot->bells, FM_BELL_READY);
	before = atomic_fetch_add(&q->slot->begun, 1);
	launch(q, 0);
	wait_all(q);
	assert_int_equal(peer.bells, 0);
	assert_true(fm_xq_was_idle(q, before));
	fm_xq_begin_slow(q, before, COMMAND_NS, true);
	assert_int_equal(peer.bells, 1);
	fm_xq_end(q);
	wait_all(q);
	stop_device();
}

/* --- a gate that closes while a launch begins --- */

struct beginner {
	pthread_t thread;
	struct fm_xq *q;
	_Atomic pid_t tid;
	_Atomic bool began, go;
};

static void *begin_one(void *arg)
{
	struct beginner *b = arg;

	b->tid = (pid_t)syscall(SYS_gettid);
	fm_xq_begin(b->q, COMMAND_NS, false);
	b->began = true;
	while (!b->go)
		usleep(200);
	fm_xq_end(b->q);
	return NULL;
}

/* Does it wait in the kernel? */
static bool sleeps(pid_t tid)
{
	char path[64], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
	f = fopen(path, "r");
	if (f && fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	if (f)
		fclose(f);
	return state == 'S';
}

/* The scheduler takes the queue for idle, and closes its gate while the command is on its way to a
 * gate. What is put behind that one is told of before it is launched: the launch may wait for it in
 * the driver. */
static void tells_before_it_launches(unsigned level)
{
	struct beginner b = {0};

	start_device(level);
	b.q = new_queue(false, 0);
	warm_up(b.q);
	atomic_store(&b.q->slot->bells, FM_BELL_READY);
	pthread_mutex_lock(&b.q->cold->lock);
	assert_int_equal(pthread_create(&b.thread, NULL, begin_one, &b), 0);
	eventually(b.tid && fm_slot_pending(b.q->slot) && sleeps(b.tid)); /* for that lock */
	assert_int_equal(peer.bells, 0);
	atomic_store(&b.q->slot->gate, FM_GATE_CLOSED);
	fm_xq_leave(b.q);
	eventually(b.began);
	assert_int_equal(peer.bells, 1);
	set_gate(b.q, FM_GATE_OPEN);
	b.go = true;
	pthread_join(b.thread, NULL);
	assert_int_equal(peer.bells, 1);
	wait_all(b.q);
	stop_device();
}

static void test_tells_before_it_launches(void **state)
{
	tells_before_it_launches(2);
}

static void test_tells_before_it_launches_device_gates(void **state)
{
	tells_before_it_launches(WORDS);
}

/* A device that looks at gates itself may find one closed that was open when the command began. The
 * first command of a kind has a gate in front of it. */
static void test_tells_of_what_is_behind_a_gate(void **state)
{
	struct fm_xq *q;

	start_device(WORDS);
	q = new_queue(false, 0);
	atomic_store(&q->slot->bells, FM_BELL_READY);
	fm_xq_begin(q, COMMAND_NS, false);
	assert_int_equal(atomic_load(&q->slot->gates), 1);
	assert_int_equal(peer.bells, 1);
	fm_xq_end(q);
	assert_int_equal(peer.bells, 1);
	wait_all(q);
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

/* A call that waits behind a closed gate is looked at less and less often, and its end as soon as
 * it has begun to be one that can be asked for. */
static void test_launch_that_lasts(void **state)
{
	struct fm_xq *q;
	uint64_t now;

	start_device(2);
	q = new_queue(false, 0);
	warm_up(q);
	atomic_store(&peer.board->contended, FM_SHARES);
	set_gate(q, FM_GATE_CLOSED);
	fm_xq_begin(q, 1, true);
	eventually(nothing_is_tracked(q)); /* in front of its gate */
	pthread_mutex_lock(&q->cold->lock);
	now = fm_now();
	assert_in_range(fm_xq_watch_tail(q, now) - now, 1, FM_XQ_LOOK_MAX);
	now += 10 * FM_MS;
	assert_int_equal(fm_xq_watch_tail(q, now) - now, FM_XQ_LOOK_MAX);
	fm_xq_end(q);
	fm_xq_watch_tail(q, now);
	assert_int_equal(q->cold->tracks, 1);
	assert_int_equal(q->cold->launch_at, 0);
	fm_xq_leave(q);
	set_gate(q, FM_GATE_OPEN);
	wait_all(q);
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
	w.pause_at = 50;
	for (unsigned i = 0; i < 4; i++) {
		f[i] = (struct feeder){.q = f[0].q, .from = i * 100, .to = i * 100 + 100};
		start_feeder(&f[i]);
	}
	eventually(w.pause);
	set_gate(f[0].q, FM_GATE_CLOSED);
	w.pause = false;
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

static void test_close_idle_queue_of_a_stopped_group(void **state)
{
	struct fm_xq *q;

	start_device(2);
	q = new_queue(false, 0);
	launch(q, 0);
	wait_all(q);
	set_gate(q, FM_GATE_CLOSED);
	assert_int_equal(fm_xq_suspend(q), 0); /* leaves a closed gate at its end */
	fm_xq_close(q);
	eventually(peer.queues_gone == 1);
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

/* The next daemon hears of the segments that are open, as they are. */
static void test_segments_are_told_again(void **state)
{
	struct fm_client *c;

	start_device(2);
	c = client(false);
	assert_int_equal(fm_client_segment(c, 0, true, 5), 0);
	assert_int_equal(fm_client_segment(c, 0, true, 9), 0);
	assert_int_equal(fm_client_segment(c, 0, false, INT32_MIN), 0);
	assert_int_equal(peer.segments, 3);
	assert_int_equal(peer.priority, 9);
	peer.gone = true;
	fm_client_wake(c);
	eventually(peer.segments == 4);
	eventually(peer.priority == 5);
	stop_device();
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
		fm_xq_begin(q, 1, true);
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
	cmocka_unit_test(test_level_wish),
	cmocka_unit_test(test_commands_of_a_gone_queue_count_once),
	cmocka_unit_test(test_wait_has_a_limit),
	cmocka_unit_test(test_fault_deactivate),
	cmocka_unit_test(test_fault_interrupt),
	cmocka_unit_test(test_fault_track_level_1),
	cmocka_unit_test(test_fault_track_level_2),
	cmocka_unit_test(test_fault_launch),
	cmocka_unit_test(test_hang_hurts_nobody_else),
	cmocka_unit_test(test_fails_open_and_rejoins),
	cmocka_unit_test(test_bells),
	cmocka_unit_test(test_who_looks_last_tells),
	cmocka_unit_test(test_tells_before_it_launches),
	cmocka_unit_test(test_tells_before_it_launches_device_gates),
	cmocka_unit_test(test_tells_of_what_is_behind_a_gate),
	cmocka_unit_test(test_contended_queue_reports_its_end),
	cmocka_unit_test(test_launch_that_lasts),
	cmocka_unit_test(test_threads_on_one_queue),
	cmocka_unit_test(test_many_queues),
	cmocka_unit_test(test_close_idle_queue_of_a_stopped_group),
	cmocka_unit_test(test_messages),
	cmocka_unit_test(test_segments_are_told_again),
	cmocka_unit_test(test_disabled),
	cmocka_unit_test(test_fork),
};

int main(int argc, char **argv)
{
	return RUN_OWN_PROCESSES(tests, argc, argv);
}
