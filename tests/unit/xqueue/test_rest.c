/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rests (rest.h) over the software device, in each of its ways to stop. The device is slow where
 * it waits for a rest: it says that it goes on a tick after it has seen a gate open, and a released
 * queue's gates count as open, so what is said may be old as it may on a real one.
 */
#include "xqueue/rest.h"
#include "xqueue/tune.h"
#include "xqueue_world.h"
#include <pthread.h>

#define QUEUES 3

static struct {
	_Atomic bool refuses; /* what keep_out answers */
	_Atomic unsigned out, in;
} door;

static bool keep_out(bool out)
{
	if (out && door.refuses)
		return false;
	door.out += out;
	door.in += !out;
	return true;
}

static struct fm_client *resting(unsigned level)
{
	world_config.rests = true;
	world_config.keep_out = keep_out;
	start_device(level);
	return client(false);
}

static int begin(struct fm_client *c, uint64_t most, struct fm_err *why)
{
	uint64_t deadline = fm_now() + most;
	int rc;

	while ((rc = fm_rest_begin(c, deadline, why)) == -EAGAIN)
		usleep(50);
	return rc;
}

static void come_to_rest(struct fm_client *c)
{
	struct fm_err why = {0};
	int rc = begin(c, 60 * FM_S, &why);

	if (rc)
		fail_msg("%d: %s", rc, why.text);
}

static void move(struct fm_client *c)
{
	int rc;

	while ((rc = fm_rest_moving(c)) == -EAGAIN)
		usleep(50);
	assert_int_equal(rc, 0);
	assert_int_equal(fm_rest_state(c), FM_REST_MOVING);
}

static void end(struct fm_client *c)
{
	assert_int_equal(fm_rest_end(c), -EPERM);
	assert_int_equal(fm_rest_mapping(c), 0);
	assert_int_equal(fm_rest_end(c), 0);
	assert_int_equal(fm_rest_state(c), FM_REST_OPEN);
}

/* With time given to it the device begins nothing more. What had ended by then is told of. */
static void assert_nothing_runs(void)
{
	unsigned n;

	device_goes_on(2);
	n = w.n;
	device_goes_on(50);
	assert_int_equal(w.n, n);
}

/* --- the word --- */

static void test_not_all_can(void **state)
{
	struct fm_err why;
	struct fm_client *c;

	start_device(WORDS);
	c = client(false);
	assert_false(fm_rest_able(c));
	assert_int_equal(fm_rest_begin(c, FM_NEVER, &why), -EOPNOTSUPP);
	assert_true(why.text[0]);
	assert_int_equal(fm_rest_begin(NULL, FM_NEVER, NULL), -EOPNOTSUPP);
	assert_int_equal(fm_rest_state(c), FM_REST_OPEN);
	fm_rest_call_end(c, fm_rest_call_begin(c));
	stop_device();
}

static void test_states_in_their_order(void **state)
{
	struct fm_client *c = resting(WORDS);
	uint32_t first;

	assert_int_equal(fm_rest_moving(c), -EPERM);
	assert_int_equal(fm_rest_mapping(c), -EPERM);
	assert_int_equal(fm_rest_end(c), 0);
	come_to_rest(c);
	first = atomic_load(&fm_client_board(c)->rest);
	assert_int_equal(fm_rest_state(c), FM_REST_CLOSED);
	assert_int_equal(fm_rest_begin(c, 0, NULL), 0);
	assert_int_equal(fm_rest_mapping(c), -EPERM);
	assert_int_equal(fm_rest_end(c), 0);
	assert_int_equal(fm_rest_moving(c), -EPERM);

	come_to_rest(c);
	assert_true(atomic_load(&fm_client_board(c)->rest) > first);
	move(c);
	assert_int_equal(fm_rest_moving(c), 0);
	assert_int_equal(fm_rest_mapping(c), 0);
	assert_int_equal(fm_rest_mapping(c), 0);
	assert_int_equal(fm_rest_moving(c), 0); /* asked for again on the way back */
	end(c);
	assert_int_equal(door.out, 1);
	assert_int_equal(door.in, 2);
	assert_int_equal(atomic_load(&fm_client_board(c)->rest_leave), 0);
	stop_device();
}

static void test_refused_at_the_door(void **state)
{
	struct fm_client *c = resting(WORDS);

	come_to_rest(c);
	door.refuses = true;
	assert_int_equal(fm_rest_moving(c), -EAGAIN);
	assert_int_equal(fm_rest_state(c), FM_REST_CLOSED);
	door.refuses = false;
	move(c);
	end(c);
	stop_device();
}

static void *call(void *arg)
{
	struct fm_client *c = arg;

	fm_rest_call_end(c, fm_rest_call_begin(c));
	w.n++;
	return NULL;
}

static void test_calls_wait_and_are_waited_for(void **state)
{
	struct fm_client *c = resting(WORDS);
	unsigned at = fm_rest_call_begin(c);
	pthread_t thread;

	come_to_rest(c);
	assert_int_equal(fm_rest_moving(c), -EAGAIN);
	assert_int_equal(fm_rest_state(c), FM_REST_CLOSED);
	fm_rest_call_end(c, at);
	at = fm_rest_call_begin(c); /* nothing is missing yet */
	fm_rest_call_end(c, at);
	move(c);
	assert_int_equal(pthread_create(&thread, NULL, call, c), 0);
	usleep(20000);
	assert_int_equal(w.n, 0);
	assert_int_equal(fm_rest_mapping(c), 0);
	usleep(20000);
	assert_int_equal(w.n, 0);
	assert_int_equal(fm_rest_end(c), 0);
	pthread_join(thread, NULL);
	assert_int_equal(w.n, 1);
	stop_device();
}

/* --- queues come to rest, in each way --- */

static void rest_amid(struct fm_client *c, unsigned rounds, unsigned each)
{
	struct feeder f[QUEUES];
	struct fm_xq *q[QUEUES];
	unsigned seen = 0;

	for (unsigned i = 0; i < QUEUES; i++) {
		q[i] = new_queue(false, 0);
		f[i] = (struct feeder){.q = q[i], .to = each};
		start_feeder(&f[i]);
	}
	for (unsigned i = 0; i < rounds; i++) {
		come_to_rest(c);
		move(c);
		assert_nothing_runs();
		assert_true(w.n >= seen);
		seen = w.n;
		end(c);
		device_goes_on(10);
	}
	for (unsigned i = 0; i < QUEUES; i++) {
		pthread_join(f[i].thread, NULL);
		wait_all(q[i]);
		fm_xq_close(q[i]);
	}
	eventually(peer.queues_gone == QUEUES);
	eventually(w.n == QUEUES * each);
	stop_device();
}

static void test_device_gates(void **state)
{
	rest_amid(resting(WORDS), 40, 600);
}

static void test_gates_of_this_process(void **state)
{
	rest_amid(resting(2), 20, 300);
}

static void test_callers_that_are_held(void **state)
{
	rest_amid(resting(1), 20, 200);
}

static void test_stops_in_the_middle(void **state)
{
	rest_amid(resting(3), 20, 300);
}

/* Whoever opens the gate, nothing goes on. */
static void openers(unsigned level, void (*open)(struct fm_xq *q))
{
	struct fm_client *c = resting(level);
	struct fm_xq *q = new_queue(false, 0);
	struct feeder f = {.q = q, .to = 200};

	pause_device();
	start_feeder(&f);
	eventually(fm_slot_pending(q->slot));
	set_gate(q, FM_GATE_CLOSED);
	w.pause = false;
	come_to_rest(c);
	move(c);
	open(q);
	assert_nothing_runs();
	end(c);
	set_gate(q, FM_GATE_OPEN);
	pthread_join(f.thread, NULL);
	wait_all(q);
	eventually(w.n == 200);
	assert_in_order(200);
	stop_device();
}

static void by_the_daemon(struct fm_xq *q)
{
	set_gate(q, FM_GATE_OPEN);
}

static void by_its_death(struct fm_xq *q)
{
	peer.refuse = true;
	peer.gone = true;
	fm_client_wake(q->client);
	eventually(peer.closed && atomic_load(&q->slot->gate) == FM_GATE_OPEN);
}

static void by_the_next(struct fm_xq *q)
{
	by_its_death(q);
	peer.refuse = false;
	eventually(peer.opened == 2);
	set_gate(q, FM_GATE_CLOSED);
	set_gate(q, FM_GATE_OPEN);
}

static void by_the_program(struct fm_xq *q)
{
	set_gate(q, FM_GATE_OPEN);
	fm_xq_resume(q);
}

static void test_opened_by_the_daemon(void **state)
{
	openers(WORDS, by_the_daemon);
}

static void test_opened_by_its_death(void **state)
{
	openers(WORDS, by_its_death);
}

static void test_opened_by_the_next_daemon(void **state)
{
	openers(WORDS, by_the_next);
}

static void test_own_gates_opened_by_the_daemon(void **state)
{
	openers(2, by_the_daemon);
}

static void test_own_gates_opened_by_its_death(void **state)
{
	openers(2, by_its_death);
}

static void test_own_gates_opened_by_the_program(void **state)
{
	openers(2, by_the_program);
}

static void test_held_and_opened_by_its_death(void **state)
{
	openers(1, by_its_death);
}

static void test_stopped_and_opened_by_its_death(void **state)
{
	openers(3, by_its_death);
}

/* --- what comes while it rests --- */

static void what_comes(unsigned level)
{
	struct fm_client *c = resting(level);
	struct fm_xq *q = new_queue(false, 0), *late;
	struct feeder f[2] = {{.q = q, .to = 20}, {.to = 20}};

	launch(q, 0);
	wait_all(q);
	w.n = 0;
	come_to_rest(c);
	start_feeder(&f[0]); /* the queue is idle, and its gate open */
	move(c);
	late = new_queue(false, 0);
	f[1].q = late;
	start_feeder(&f[1]);
	eventually(fm_slot_pending(q->slot) && fm_slot_pending(late->slot));
	assert_nothing_runs();
	assert_int_equal(w.n, 0);
	end(c);
	for (unsigned i = 0; i < 2; i++) {
		pthread_join(f[i].thread, NULL);
		wait_all(f[i].q);
	}
	eventually(w.n == 40);
	stop_device();
}

static void test_what_comes_stands_at_device_gates(void **state)
{
	what_comes(WORDS);
}

static void test_what_comes_stands_at_own_gates(void **state)
{
	what_comes(2);
}

static void test_what_comes_is_held(void **state)
{
	what_comes(1);
}

static int no_part(void *hwq, const struct fm_gate_words *words, uint64_t finished, bool second)
{
	return 0;
}

/* What another thread launches between the two parts of a gate runs while the device says that it
 * stands there. It does so at the first of several such gates, too. */
static void test_launched_between_the_parts_of_gates(void **state)
{
	static struct fm_hw_ops ops;
	struct fm_client *c = resting(WORDS);
	struct fm_xq *q;

	ops = fm_simq_word_ops;
	ops.device_gate.part = no_part;
	q = new_queue_by(&ops, false, 0);
	pause_device();
	for (unsigned i = 0; i < 2; i++) {
		assert_true(fm_xq_part_begin(q));
		launch(q, i);
		fm_xq_part_end(q);
	}
	atomic_store(&q->slot->progress, 1); /* at the first */
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(fm_rest_begin(c, FM_NEVER, NULL), -EAGAIN);
	w.pause_at = 1;
	w.pause = false;
	eventually(w.pause);
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(fm_rest_begin(c, FM_NEVER, NULL), -EAGAIN);
	w.pause = false;
	come_to_rest(c);
	eventually(w.n == 2); /* the device says how far it is before that */
	assert_int_equal(fm_rest_end(c), 0);
	fm_xq_close(q);
	eventually(peer.queues_gone == 1);
	stop_device();
}

/* A queue that the program gives back takes nothing past its gates, though the device counts its
 * gates as open. */
static void test_given_back_while_it_rests(void **state)
{
	struct fm_client *c = resting(WORDS);
	struct fm_xq *q = new_queue(false, 0);

	pause_device();
	for (unsigned i = 0; i < 100; i++)
		launch(q, i);
	/* It is to rest before the device has come to the end. */
	assert_int_equal(fm_rest_begin(c, FM_NEVER, NULL), -EAGAIN);
	w.pause = false;
	come_to_rest(c);
	move(c);
	fm_xq_close(q);
	assert_nothing_runs();
	assert_true(w.n < 100);
	end(c);
	eventually(w.n == 100);
	eventually(peer.queues_gone == 1);
	come_to_rest(c);
	assert_int_equal(fm_rest_end(c), 0);
	stop_device();
}

/* The device stands still for so long that the end of the work is given up. */
static void test_given_back_and_not_over(void **state)
{
	struct fm_client *c = resting(WORDS);
	struct fm_xq *q = new_queue(false, 0);

	pause_device();
	for (unsigned i = 0; i < 10; i++)
		launch(q, i);
	fm_xq_close(q);
	eventually(peer.queues_gone == 1);
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(fm_rest_begin(c, FM_NEVER, NULL), -EAGAIN);
	assert_int_equal(begin(c, 0, NULL), -EBUSY);
	w.pause = false;
	eventually(w.n == 10);
	come_to_rest(c);
	assert_int_equal(fm_rest_end(c), 0);
	stop_device();
}

/* --- it cannot --- */

static void test_it_never_rests(void **state)
{
	struct fm_client *c = resting(WORDS);
	struct fm_xq *q = new_queue(false, 0);
	struct fm_err why = {0};

	assert_int_equal(fm_simdev_fault(w.dev, FM_SIM_FAULT_HANG, 1), 0);
	launch(q, 0);
	assert_int_equal(begin(c, 50 * FM_MS, &why), -EBUSY);
	assert_non_null(strstr(why.text, "queue 0 has run for"));
	assert_true(why.hint[0]);
	assert_int_equal(fm_rest_state(c), FM_REST_OPEN);
	fm_simdev_reset(w.dev);
	wait_all(q);
	come_to_rest(c);
	assert_int_equal(fm_rest_end(c), 0);
	launch(q, 1);
	wait_all(q);
	stop_device();
}

static void test_what_passes_no_queue(void **state)
{
	struct fm_client *c = resting(WORDS);
	struct fm_err why = {0};

	fm_client_count_ungoverned(c, "cuOther");
	assert_int_equal(begin(c, 60 * FM_S, &why), -EBUSY);
	assert_non_null(strstr(why.text, "1 call"));
	assert_int_equal(fm_rest_state(c), FM_REST_OPEN);
	stop_device();
}

static void *other_call(void *arg)
{
	fm_client_count_ungoverned(arg, "cuOther");
	w.n++;
	return NULL;
}

/* What no gate stops comes while it rests, and waits; after that it never rests again. */
static void test_what_passes_no_queue_waits(void **state)
{
	struct fm_client *c = resting(WORDS);
	struct fm_err why = {0};
	pthread_t thread;

	come_to_rest(c);
	move(c);
	assert_int_equal(pthread_create(&thread, NULL, other_call, c), 0);
	eventually(atomic_load(&fm_client_board(c)->ungoverned) == 1);
	usleep(20000);
	assert_int_equal(w.n, 0);
	end(c);
	pthread_join(thread, NULL);
	assert_int_equal(begin(c, 60 * FM_S, &why), -EBUSY);
	stop_device();
}

/* A gate could not be placed: the caller waits instead of its command. */
static void test_no_gate_could_be_placed(void **state)
{
	struct fm_client *c = resting(WORDS);
	struct fm_xq *q = new_queue(false, 0);
	struct feeder f = {.q = q, .to = 1};

	launch(q, 0);
	wait_all(q);
	w.n = 0;
	come_to_rest(c);
	move(c);
	assert_int_equal(fm_simdev_fault(w.dev, FM_SIM_FAULT_DEACTIVATE, 1), 0);
	start_feeder(&f);
	eventually(fm_slot_pending(q->slot));
	assert_nothing_runs();
	assert_int_equal(w.n, 0);
	end(c);
	pthread_join(f.thread, NULL);
	wait_all(q);
	eventually(w.n == 1);
	stop_device();
}

/* --- ends of processes --- */

#ifndef NO_THREADS_AFTER_FORK
static int rests_in_child(void *arg)
{
	struct fm_client *c = client(false);

	if (c == arg || fm_rest_state(c) != FM_REST_OPEN)
		return 2;
	if (fm_rest_state(arg) != FM_REST_OPEN || fm_rest_begin(arg, FM_NEVER, NULL) != -ESHUTDOWN)
		return 3;
	return begin(c, 20 * FM_S, NULL);
}

static void test_a_child_has_none(void **state)
{
	struct fm_client *c = resting(WORDS);
	struct fm_xq *q = new_queue(false, 0);

	launch(q, 0);
	wait_all(q);
	come_to_rest(c);
	move(c);
	assert_int_equal(in_child(rests_in_child, c), 0);
	assert_int_equal(fm_rest_state(c), FM_REST_MOVING);
	end(c);
	launch(q, 1);
	wait_all(q);
	stop_device();
}
#endif

static _Atomic bool mapped;

static void *mover(void *arg)
{
	struct fm_client *c = arg;

	while (!fm_rest_is_over(c))
		usleep(100);
	usleep(300000); /* longer than the agent is waited for */
	if (fm_rest_state(c) != FM_REST_MOVING || fm_rest_mapping(c) ||
		fm_rest_moving(c) != -ESHUTDOWN)
		_exit(3);
	mapped = true;
	fm_rest_end(c);
	return NULL;
}

/* Comes after the client's own handler. */
static void at_the_end(void)
{
	if (!mapped)
		_exit(4);
}

static void test_exit_waits_for_memory(void **state)
{
	pthread_t thread;
	struct fm_client *c;
	struct fm_xq *q;

	atexit(at_the_end);
	c = resting(WORDS);
	q = new_queue(false, 0);
	pause_device();
	for (unsigned i = 0; i < 100; i++)
		launch(q, i);
	w.pause = false;
	come_to_rest(c);
	move(c);
	assert_int_equal(pthread_create(&thread, NULL, mover, c), 0);
	pthread_detach(thread);
}

static void test_exit_ends_what_is_only_closed(void **state)
{
	struct fm_client *c;

	mapped = true;
	c = resting(WORDS);
	come_to_rest(c);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_not_all_can),
		cmocka_unit_test(test_states_in_their_order),
		cmocka_unit_test(test_refused_at_the_door),
		cmocka_unit_test(test_calls_wait_and_are_waited_for),
		cmocka_unit_test(test_device_gates),
		cmocka_unit_test(test_gates_of_this_process),
		cmocka_unit_test(test_callers_that_are_held),
		cmocka_unit_test(test_stops_in_the_middle),
		cmocka_unit_test(test_opened_by_the_daemon),
		cmocka_unit_test(test_opened_by_its_death),
		cmocka_unit_test(test_opened_by_the_next_daemon),
		cmocka_unit_test(test_own_gates_opened_by_the_daemon),
		cmocka_unit_test(test_own_gates_opened_by_its_death),
		cmocka_unit_test(test_own_gates_opened_by_the_program),
		cmocka_unit_test(test_held_and_opened_by_its_death),
		cmocka_unit_test(test_stopped_and_opened_by_its_death),
		cmocka_unit_test(test_what_comes_stands_at_device_gates),
		cmocka_unit_test(test_what_comes_stands_at_own_gates),
		cmocka_unit_test(test_what_comes_is_held),
		cmocka_unit_test(test_launched_between_the_parts_of_gates),
		cmocka_unit_test(test_given_back_while_it_rests),
		cmocka_unit_test(test_given_back_and_not_over),
		cmocka_unit_test(test_it_never_rests),
		cmocka_unit_test(test_what_passes_no_queue),
		cmocka_unit_test(test_what_passes_no_queue_waits),
		cmocka_unit_test(test_no_gate_could_be_placed),
#ifndef NO_THREADS_AFTER_FORK
		cmocka_unit_test(test_a_child_has_none),
#endif
		cmocka_unit_test(test_exit_waits_for_memory),
		cmocka_unit_test(test_exit_ends_what_is_only_closed),
	};

	return RUN_OWN_PROCESSES(tests, argc, argv);
}
