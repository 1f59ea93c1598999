// SPDX-License-Identifier: Apache-2.0
/* How far apart gates stand in graphs: where all that is in them can be stopped in its middle,
 * farther. */
#include "xqueue_world.h"

#include "xqueue/segment.h"

static unsigned inner; /* gates in graphs */

static int put_inner(void *hwq, const struct fm_gate_words *words)
{
	inner++;
	return 0;
}

/* What a command takes is known. */
static struct fm_xq *shared_queue(unsigned level)
{
	static struct fm_backend_ops ops;
	struct fm_simq *simq;
	struct fm_xq *q;

	start_device(level);
	ops = fm_simq_word_ops;
	ops.interrupt = fm_simq_ops.interrupt;
	ops.restore = fm_simq_ops.restore;
	ops.inner = put_inner;
	assert_int_equal(fm_simq_new(&simq, w.dev), 0);
	const struct fm_xq_config config = {
		.device = "sim", .ops = &ops, .hwq = simq, .in_order = true};
	assert_int_equal(fm_xq_create(&q, client(false), &config), 0);
	atomic_store(&q->slot->shares, FM_SHARES);
	fm_est_put(fm_estimates, COMMAND_NS, COMMAND_NS);
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

/* Gates in a graph of so many commands. */
static unsigned captured(struct fm_xq *q, uint64_t graph, unsigned n, bool divisible)
{
	unsigned before = inner;

	for (unsigned i = 0; i < n; i++)
		fm_xq_capture(q, COMMAND_NS, graph, divisible);
	return inner - before;
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

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_in_graphs),
	cmocka_unit_test(test_in_graphs_with_other_nodes),
	cmocka_unit_test(test_in_graphs_at_level_2),
};

int main(int argc, char **argv)
{
	return RUN_OWN_PROCESSES(tests, argc, argv);
}
