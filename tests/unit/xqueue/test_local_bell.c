// SPDX-License-Identifier: Apache-2.0
/* Local mode: whoever has work stops the others by itself, and the agent may be busy. */
#include "local/local.h"
#include "xqueue_world.h"

static _Atomic bool agent_in, agent_may_go;

/* The agent tells of a turn, and stays here. */
static void turned(void *hwq, bool stopped, uint64_t now)
{
	agent_in = true;
	eventually(agent_may_go);
}

static struct fm_client *scheduled(void)
{
	const struct fm_client_config config = {
		.api = "test", .local = &fm_link_local, .local_policy = "fixed-priority"};

	return fm_client_get(&config);
}

static struct fm_xq *member(const char *group, int64_t priority, bool told)
{
	struct fm_client *c = scheduled();
	int index = fm_client_group_add(c, group);
	struct fm_simq *simq;
	struct fm_xq *q;

	assert_true(index > 0);
	assert_int_equal(fm_client_hint(c, (uint32_t)index, FM_HINT_PRIORITY, priority), 0);
	assert_int_equal(fm_simq_new(&simq, w.dev), 0);
	const struct fm_xq_config config = {.device = "sim",
		.ops = &fm_simq_word_ops,
		.hwq = simq,
		.group = (uint32_t)index,
		.in_order = true,
		.steered = told,
		.turned = told ? turned : NULL};
	assert_int_equal(fm_xq_create(&q, c, &config), 0);
	return q;
}

/* A queue that its program suspends is told so. */
static void keep_agent_busy(struct fm_xq *q)
{
	assert_int_equal(fm_xq_suspend(q), 0);
	launch(q, 0);
	eventually(agent_in);
}

static enum fm_gate gate_of(struct fm_xq *q)
{
	return atomic_load(&q->slot->gate);
}

static void test_stops_them_itself(void **state)
{
	struct fm_xq *low, *high, *busy;

	start_device(WORDS);
	low = member("low", FM_PRIORITY_LOW, false);
	high = member("high", FM_PRIORITY_HIGH, false);
	busy = member("busy", FM_PRIORITY_LOW - 1, true);
	keep_agent_busy(busy);
	w.pause = true;
	for (unsigned i = 1; i < 101; i++)
		launch(low, i);
	assert_int_equal(gate_of(low), FM_GATE_OPEN);
	launch(high, 101);
	eventually(gate_of(low) == FM_GATE_CLOSED);
	w.pause = false;
	agent_may_go = true;
	assert_int_equal(fm_xq_resume(busy), 0);
	wait_all(low);
	wait_all(busy);
	fm_xq_close(low);
	fm_xq_close(high);
	fm_xq_close(busy);
	stop_device();
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_stops_them_itself),
};

int main(int argc, char **argv)
{
	return RUN_OWN_PROCESSES(tests, argc, argv);
}
