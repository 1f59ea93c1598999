// SPDX-License-Identifier: Apache-2.0
/* How far apart gates stand on a device that looks at them itself: where all in front of the next
 * one can be stopped in its middle, farther. */
#include "xqueue_model.h"

#include "xqueue/segment.h"

#define COMMANDS 40u
#define NEAR     7u /* gates among them, one in 500 us */
#define FAR      3u /* one in a millisecond */

/* What a command takes is known. */
static struct fm_xq *shared_queue(unsigned level)
{
	static struct fm_hw_ops ops;
	struct fm_xq *q;

	start_device(level);
	ops = model_ops();
	q = new_queue_by(&ops, false, 0);
	atomic_store(&q->slot->shares, FM_SHARES);
	fm_est_put(COMMAND_NS, COMMAND_NS);
	model.max_unfenced = UINT32_MAX;
	return q;
}

static void over(struct fm_xq *q)
{
	w.pause = false;
	wait_all(q);
	fm_xq_close(q);
	eventually(peer.queues_gone == 1);
	stop_device();
}

/* Gates among so many commands that are launched at one time. */
static uint64_t gates(struct fm_xq *q, unsigned n)
{
	uint64_t before = atomic_load(&q->slot->gates);

	pause_device();
	for (unsigned i = 0; i < n; i++)
		launch(q, i);
	return atomic_load(&q->slot->gates) - before;
}

static void test_farther_apart(void **state)
{
	struct fm_xq *q = shared_queue(3);

	assert_int_equal(gates(q, COMMANDS), FAR);
	over(q);
}

/* Who is never stopped, 16 ms; where the program may stop it itself, or it is stopped in its
 * middle, four. */
static void test_unstopped(void **state)
{
	struct fm_xq *q = shared_queue(WORDS);
	uint64_t n;

	model.max_unfenced = 0;
	fm_est_put(COMMAND_NS, FM_MS);
	for (unsigned i = 0; i < 3; i++) {
		q->steered = i == 1;
		q->level = i == 2 ? FM_LEVEL_RUNNING : FM_LEVEL_QUEUED;
		atomic_store(&q->slot->shares, FM_SHARES_FIRST);
		gates(q, 40); /* from the next one on; and what ran before is learnt of */
		fm_est_put(COMMAND_NS, FM_MS);
		n = gates(q, 64); /* one more where a segment had begun */
		assert_in_range(n, i ? 16 : 4, i ? 17 : 5);
		w.pause = false;
		wait_all(q);
	}
	q->level = FM_LEVEL_QUEUED;
	over(q);
}

static void test_so_many_commands(void **state)
{
	struct fm_xq *q = shared_queue(3);

	model.max_unfenced = 7;
	assert_int_equal(gates(q, COMMANDS), (COMMANDS - 1) / 7);
	over(q);
}

static void test_not_of_others(void **state)
{
	struct fm_xq *q = shared_queue(3);

	model.max_unfenced = 0;
	assert_int_equal(gates(q, COMMANDS), NEAR);
	over(q);
}

static void test_not_where_gates_are_waited_for(void **state)
{
	struct fm_xq *q = shared_queue(3);

	atomic_store(&q->slot->guard_us, 200);
	assert_int_equal(gates(q, COMMANDS), NEAR);
	over(q);
}

static void test_not_where_gates_alone_stop_it(void **state)
{
	struct fm_xq *q = shared_queue(3);

	atomic_store(&q->slot->deepest, FM_LEVEL_QUEUED);
	assert_int_equal(gates(q, COMMANDS), NEAR);
	over(q);
}

/* One that the agent puts behind the last command ends the segment as any other: what comes then
 * has its own. */
static void test_the_last_gate_ends_it(void **state)
{
	struct fm_xq *q = shared_queue(3);

	gates(q, 8);
	model.unfenced = true;
	w.pause = false;
	wait_all(q);
	model.unfenced = false;
	model.max_unfenced = 0;
	assert_int_equal(gates(q, COMMANDS), NEAR);
	over(q);
}

static void test_bounds_count_half(void **state)
{
	struct fm_xq *q = shared_queue(WORDS);

	model.max_unfenced = 0;
	fm_est_put(COMMAND_NS, COMMAND_NS | 1);
	assert_int_equal(gates(q, COMMANDS), NEAR / 2);
	over(q);
}

/* Not of one that was stopped in the middle of a command a moment ago. */
static void test_not_of_who_was_just_stopped(void **state)
{
	struct fm_xq *q = shared_queue(3);

	q->cold->stood_at = fm_now();
	assert_int_equal(gates(q, COMMANDS), NEAR);
	over(q);
}

/* --- graphs --- */

/* Gates in a graph of so many commands. */
static unsigned captured(struct fm_xq *q, uint64_t graph, unsigned n, bool divisible)
{
	unsigned before = model.inner;

	for (unsigned i = 0; i < n; i++)
		fm_xq_capture(q, COMMAND_NS, COMMAND_NS, graph, divisible);
	return model.inner - before;
}

/* 500 us, and eight times as much; and the same each time. */
static void test_in_graphs(void **state)
{
	struct fm_xq *q = shared_queue(3);

	atomic_store(&peer.board->contended, 1);
	for (unsigned graph = 1; graph < 10; graph += 3) {
		assert_int_equal(captured(q, graph, 100, true), 2);
		assert_int_equal(captured(q, graph + 1, 100, false), 19);
		/* From there on. */
		assert_int_equal(captured(q, graph + 2, 20, true), 0);
		assert_int_equal(captured(q, graph + 2, 1, false), 1);
		assert_int_equal(captured(q, graph + 2, 10, true), 2);
	}
	over(q);
}

static void test_in_graphs_with_other_nodes(void **state)
{
	struct fm_xq *q = shared_queue(3);

	atomic_store(&peer.board->contended, 1);
	fm_xq_capture_whole(q, 1);
	assert_int_equal(captured(q, 1, 100, true), 19);
	assert_int_equal(captured(q, 2, 100, true), 2);
	over(q);
}

/* Whatever is said of the commands. */
static void test_in_graphs_at_level_2(void **state)
{
	struct fm_xq *q = shared_queue(WORDS);

	atomic_store(&peer.board->contended, 1);
	assert_int_equal(captured(q, 1, 100, true), 19);
	over(q);
}

/* Of what nothing is known, or no more than a bound, 53 make a segment; of a bound below that,
 * twice as many as it says. */
static void test_in_graphs_of_what_is_not_known(void **state)
{
	struct fm_xq *q = shared_queue(WORDS);
	const uint64_t key = UINT64_C(1) << 40, bound = 400 * FM_US | 1, low = 10 * FM_US | 1;
	unsigned n[3] = {0};

	atomic_store(&peer.board->contended, 1);
	fm_est_put(key + 1, bound);
	fm_est_put(key + 2, low);
	for (unsigned i = 0; i < 3; i++)
		for (unsigned k = 0; k < 54 + 47 * (i == 2); k++)
			n[i] += fm_xq_capture(q, key + i, key + i, i + 1, true);
	assert_int_equal(n[0], 1);
	assert_int_equal(n[1], 1);
	assert_int_equal(n[2], 1);
	over(q);
}

/* The places of gates in a graph of 100 commands of two kinds in turn, of which those of the second
 * are of some size. */
static void places(struct fm_xq *q, uint64_t graph, uint64_t kind, uint64_t key, bool *at)
{
	for (unsigned i = 0; i < 100; i++)
		at[i] = i & 1 ? fm_xq_capture(q, key, kind, graph, false)
			      : fm_xq_capture(q, COMMAND_NS, COMMAND_NS, graph, false);
}

/* One of larger commands updates one of small ones, and has its gates; one of other commands has
 * what it needs. */
static void test_in_graphs_of_other_sizes(void **state)
{
	struct fm_xq *q = shared_queue(WORDS);
	const uint64_t key = UINT64_C(1) << 41, kind = key + 7;
	bool small[100], large[100], other[100];
	unsigned n = 0;

	atomic_store(&peer.board->contended, 1);
	fm_est_put(key, FM_US & ~1);
	fm_est_put(key + 1, 400 * FM_US);
	places(q, 1, kind, key, small);
	places(q, 2, kind, key + 1, large);
	assert_memory_equal(small, large, sizeof(small));
	places(q, 3, kind + 1, key + 1, other);
	for (unsigned i = 0; i < 100; i++)
		n += small[i];
	assert_in_range(n, 1, 15);
	for (unsigned i = 0; i < 100; i++)
		n += other[i];
	assert_true(n > 40);
	over(q);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_farther_apart),
	cmocka_unit_test(test_unstopped),
	cmocka_unit_test(test_in_graphs_of_what_is_not_known),
	cmocka_unit_test(test_bounds_count_half),
	cmocka_unit_test(test_so_many_commands),
	cmocka_unit_test(test_not_of_others),
	cmocka_unit_test(test_not_where_gates_are_waited_for),
	cmocka_unit_test(test_not_where_gates_alone_stop_it),
	cmocka_unit_test(test_the_last_gate_ends_it),
	cmocka_unit_test(test_not_of_who_was_just_stopped),
	cmocka_unit_test(test_in_graphs),
	cmocka_unit_test(test_in_graphs_with_other_nodes),
	cmocka_unit_test(test_in_graphs_at_level_2),
	cmocka_unit_test(test_in_graphs_of_other_sizes),
};

int main(int argc, char **argv)
{
	return RUN_OWN_PROCESSES(tests, argc, argv);
}
