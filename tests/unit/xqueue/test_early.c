/* SPDX-License-Identifier: Apache-2.0 */
/* Early start (early.h) over the software device: gates wait for memory, whoever else opens them
 * or puts the process to rest. */
#include "xqueue/early.h"
#include "xqueue/rest.h"
#include "xqueue_world.h"

#define N 10

static struct fm_client *starting(const char *early)
{
	setenv("FERMATA_MEMORY_EARLY", early, 1);
	world_config.rests = true;
	start_device(WORDS);
	return client(false);
}

static uint32_t word_of(struct fm_client *c)
{
	return atomic_load(&fm_client_board(c)->memory);
}

/* N commands behind a closed gate, whose number is returned. */
static uint32_t behind_a_gate(struct fm_xq *q)
{
	set_gate(q, FM_GATE_CLOSED);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(launch(q, i), 0);
	return atomic_load(&fm_early_number);
}

static void assert_nothing_runs(void)
{
	device_goes_on(50);
	assert_int_equal(w.n, 0);
}

static void all_run(struct fm_xq *q)
{
	wait_all(q);
	assert_in_order(N);
	fm_xq_close(q);
	eventually(peer.queues_gone == 1);
	stop_device();
}

static void come_to_rest(struct fm_client *c)
{
	struct fm_err why = {0};
	int rc;

	while ((rc = fm_rest_begin(c, fm_now() + 60 * FM_S, &why)) == -EAGAIN)
		usleep(50);
	assert_int_equal(rc, 0);
	while ((rc = fm_rest_moving(c)) == -EAGAIN)
		usleep(50);
	assert_int_equal(rc, 0);
}

static void end_rest(struct fm_client *c)
{
	assert_int_equal(fm_rest_mapping(c), 0);
	assert_int_equal(fm_rest_end(c), 0);
}

static void test_off(void **state)
{
	struct fm_client *c = starting("0");
	struct fm_xq *q = new_queue(false, 0);

	(void)state;
	assert_false(fm_early_able(c));
	assert_int_equal(behind_a_gate(q), 0);
	fm_early_hold_all(c);
	assert_false(fm_early_waits(c, 1));
	set_gate(q, FM_GATE_OPEN);
	all_run(q);
}

static void test_gates_wait_for_memory(void **state)
{
	struct fm_client *c = starting("1");
	struct fm_xq *q = new_queue(false, 0);
	uint32_t number;
	uint64_t passed;

	(void)state;
	assert_true(fm_early_able(c));
	number = behind_a_gate(q);
	assert_true(number > 0);
	assert_false(fm_early_waits(c, number));
	fm_early_hold_all(c);
	assert_true(fm_early_waits(c, 1) && fm_early_waits(c, number));
	fm_early_hold(c, 1);
	assert_true(fm_early_waits(c, 1) && !fm_early_waits(c, 0));
	set_gate(q, FM_GATE_OPEN);
	assert_nothing_runs();
	assert_true(fm_early_stands(c, &passed));
	assert_int_equal(passed, 0);
	fm_early_hold(c, number + 1);
	all_run(q);
	assert_false(fm_early_stands(c, &passed));
}

/* It is at rest as long as it waits, and stays so when the memory has come. */
static void test_rests_while_it_waits(void **state)
{
	struct fm_client *c = starting("1");
	struct fm_xq *q = new_queue(false, 0);

	(void)state;
	behind_a_gate(q);
	fm_early_hold_all(c);
	set_gate(q, FM_GATE_OPEN);
	for (unsigned i = 0; i < 20; i++) {
		come_to_rest(c);
		if (i == 19)
			fm_early_open(c);
		assert_nothing_runs();
		end_rest(c);
	}
	all_run(q);
}

/* A gate that is closed meanwhile is closed. */
static void test_closed_while_it_waits(void **state)
{
	struct fm_client *c = starting("1");
	struct fm_xq *q = new_queue(false, 0);

	(void)state;
	behind_a_gate(q);
	fm_early_hold_all(c);
	set_gate(q, FM_GATE_OPEN);
	assert_nothing_runs();
	set_gate(q, FM_GATE_CLOSED);
	fm_early_open(c);
	assert_nothing_runs();
	assert_true(fm_xq_stalled(q));
	set_gate(q, FM_GATE_OPEN);
	all_run(q);
}

/* The word is the client's: it waits on, until its own mover opens. */
static void test_the_daemon_dies(void **state)
{
	struct fm_client *c = starting("1");
	struct fm_xq *q = new_queue(false, 0);

	(void)state;
	behind_a_gate(q);
	fm_early_hold_all(c);
	peer.refuse = true;
	peer.gone = true;
	fm_client_wake(c);
	eventually(peer.closed && atomic_load(&q->slot->gate) == FM_GATE_OPEN);
	assert_nothing_runs();
	fm_early_open(c);
	wait_all(q);
	assert_in_order(N);
	stop_device();
}

static void test_an_open_word_stays_in_front(void **state)
{
	struct fm_client *c = starting("1");
	struct fm_xq *q = new_queue(false, 0);
	uint32_t word;

	(void)state;
	/* Before an end of numbers, and behind it. */
	for (unsigned i = 0; i < 16; i++) {
		word = word_of(c);
		atomic_store(&fm_early_number, (i + 1) * (UINT32_C(1) << 28) - 1);
		w.n = 0;
		behind_a_gate(q);
		assert_true(word_of(c) != word);
		assert_false(fm_early_waits(c, atomic_load(&fm_early_number)));
		set_gate(q, FM_GATE_OPEN);
		wait_all(q);
		assert_int_equal(w.n, N);
	}
	/* One that holds is left alone. */
	fm_early_hold(c, 7);
	atomic_store(&fm_early_number, (UINT32_C(1) << 20) - 1);
	w.n = 0;
	behind_a_gate(q);
	assert_int_equal(word_of(c), 6);
	set_gate(q, FM_GATE_OPEN);
	assert_nothing_runs();
	fm_early_open(c);
	all_run(q);
}

static struct fm_client *leaves;

/* Comes after the client's own handler. */
static void at_the_end(void)
{
	if (fm_early_waits(leaves, 1))
		_exit(4);
	fm_early_hold_all(leaves);
	if (fm_early_waits(leaves, 1))
		_exit(5);
}

static void test_exit_opens(void **state)
{
	(void)state;
	atexit(at_the_end);
	leaves = starting("1");
	fm_early_hold_all(leaves);
	assert_true(fm_early_waits(leaves, 1));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_off),
		cmocka_unit_test(test_gates_wait_for_memory),
		cmocka_unit_test(test_rests_while_it_waits),
		cmocka_unit_test(test_closed_while_it_waits),
		cmocka_unit_test(test_the_daemon_dies),
		cmocka_unit_test(test_an_open_word_stays_in_front),
		cmocka_unit_test(test_exit_opens),
	};

	return RUN_OWN_PROCESSES(tests, argc, argv);
}
