// SPDX-License-Identifier: Apache-2.0
/* How queues are stopped, by the hints of their group and the settings of their device, as it comes
 * to the boards. */
#include "bridge_world.h"

#define OTHER "sim:1"

static void assert_way(const struct client *c, unsigned slot, enum fm_level deepest, uint32_t us)
{
	const struct fm_slot *s = &c->board->slot[slot];

	assert_int_equal(atomic_load(&s->deepest), deepest);
	assert_int_equal(atomic_load(&s->guard_us), us);
}

static void add_queues(struct world *w)
{
	assert_int_equal(add_queue(w, &w->a, 0), 0);
	assert_int_equal(add_queue_on(w, &w->a, 1, 0, OTHER), 0);
	assert_int_equal(add_queue(w, &w->z, 0), 0);
	assert_way(&w->a, 0, FM_LEVEL_NONE, 0);
}

static void a_hint_reaches_its_groups_queues(void **state)
{
	struct world *w = *state;

	add_queues(w);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_LEVEL, 2), 0);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_GUARD_FROM, 1500), 0);
	assert_way(&w->a, 0, FM_LEVEL_QUEUED, 2); /* not sooner than was said */
	assert_way(&w->a, 1, FM_LEVEL_QUEUED, 2);
	assert_way(&w->z, 0, FM_LEVEL_NONE, 0);
	assert_int_equal(add_queue(w, &w->a, 2), 0);
	assert_way(&w->a, 2, FM_LEVEL_QUEUED, 2);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_LEVEL, 3), 0);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_GUARD_FROM, 0), 0);
	for (unsigned slot = 0; slot < 3; slot++)
		assert_way(&w->a, slot, FM_LEVEL_NONE, 0);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_GUARD_FROM, 10 * FM_S), 0);
	assert_way(&w->a, 0, FM_LEVEL_NONE, 10000000);
}

static void look_at_device(void *arg, const struct fm_bdevice_info *info)
{
	strcat(arg, info->key);
	strcat(arg, " ");
}

static void names_of_one_device(void **state)
{
	static const struct fm_stop_rule ways[] = {
		{.device = "card", .same = "no* sim?1  *:2", .level = 2, .guard_ns = FM_NEVER},
		{.device = "*", .guard_ns = FM_NEVER},
	};
	struct world *w = *state;
	char keys[256] = "";

	assert_int_equal(add_queue_on(w, &w->a, 0, 0, OTHER), 0); /* it stays there */
	fm_bridge_set_ways(w->b, ways, 2, w->now);
	assert_int_equal(add_queue(w, &w->a, 1), 0);
	assert_int_equal(add_queue_on(w, &w->a, 2, 0, OTHER), 0);
	assert_int_equal(add_queue_on(w, &w->z, 0, 0, "sim:2"), 0);
	assert_int_equal(add_queue_on(w, &w->z, 1, 0, "card"), 0);
	fm_bridge_each_device(w->b, look_at_device, keys);
	assert_string_equal(keys, OTHER " sim:0 card ");
	assert_way(&w->a, 0, FM_LEVEL_NONE, 0);
	assert_way(&w->a, 2, FM_LEVEL_QUEUED, 0);
	assert_way(&w->z, 1, FM_LEVEL_QUEUED, 0);
}

static void devices_say_it_for_all(void **state)
{
	static const struct fm_stop_rule ways[] = {
		{.device = "*:1", .guard_ns = 3 * FM_US},
		{.device = "sim*", .level = 2, .guard_ns = FM_NEVER},
		{.device = "*", .level = 3, .guard_ns = 5 * FM_US},
	};
	struct world *w = *state;

	add_queues(w);
	fm_bridge_set_ways(w->b, ways, 3, w->now);
	assert_way(&w->a, 0, FM_LEVEL_QUEUED, 5);
	assert_way(&w->a, 1, FM_LEVEL_QUEUED, 3);
	assert_way(&w->z, 0, FM_LEVEL_QUEUED, 5);
	assert_int_equal(add_queue(w, &w->z, 1), 0);
	assert_way(&w->z, 1, FM_LEVEL_QUEUED, 5);
	/* The group's length comes first, and of the levels the lesser. */
	assert_int_equal(give_hint(w, &w->a, FM_HINT_GUARD_FROM, 9 * FM_US), 0);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_LEVEL, 3), 0);
	assert_way(&w->a, 1, FM_LEVEL_QUEUED, 9);
	fm_bridge_set_ways(w->b, ways + 2, 1, w->now);
	assert_way(&w->a, 0, FM_LEVEL_NONE, 9);
	assert_way(&w->z, 0, FM_LEVEL_NONE, 5);
	assert_int_equal(give_hint(w, &w->z, FM_HINT_LEVEL, 2), 0);
	assert_way(&w->z, 0, FM_LEVEL_QUEUED, 5);
}

/* Else it would wait for a gate that it need not wait for any more. */
static void who_sleeps_is_woken(void **state)
{
	struct world *w = *state;
	unsigned wakes;

	add_queues(w);
	atomic_store(&w->a.board->agent_sleeps, 1);
	wakes = w->a.wakes;
	assert_int_equal(give_hint(w, &w->a, FM_HINT_LEVEL, 2), 0);
	assert_int_equal(w->a.wakes, wakes + 1);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_LEVEL, 2), 0);
	assert_int_equal(w->a.wakes, wakes + 1);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_LEVEL, 3), 0);
	assert_int_equal(w->a.wakes, wakes + 2);
}

static void a_queue_takes_that_of_its_new_group(void **state)
{
	struct world *w = *state;

	add_queues(w);
	assert_int_equal(name_group(w, &w->a, 0, "first"), 0);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_LEVEL, 2), 0);
	assert_int_equal(name_group(w, &w->z, 0, "first"), 0);
	assert_way(&w->z, 0, FM_LEVEL_QUEUED, 0);
	assert_int_equal(name_group(w, &w->z, 0, "second"), 0);
	assert_way(&w->z, 0, FM_LEVEL_NONE, 0);
}

static void level_of(void *arg, const struct fm_bqueue_info *info)
{
	*(uint32_t *)arg = info->level;
}

static void people_see_what_is_in_use(void **state)
{
	struct world *w = *state;
	uint32_t level = 0;

	assert_int_equal(add_queue(w, &w->a, 0), 0);
	atomic_store(&w->a.board->slot[0].level, FM_LEVEL_RUNNING);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_LEVEL, 2), 0);
	fm_bridge_group_each_queue(group_of(&w->a, 0), level_of, &level);
	assert_int_equal(level, FM_LEVEL_QUEUED);
	atomic_store(&w->a.board->slot[0].deepest, 0); /* whatever its board says */
	fm_bridge_group_each_queue(group_of(&w->a, 0), level_of, &level);
	assert_int_equal(level, FM_LEVEL_QUEUED);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_LEVEL, 3), 0);
	fm_bridge_group_each_queue(group_of(&w->a, 0), level_of, &level);
	assert_int_equal(level, FM_LEVEL_RUNNING);
}

static void nothing_is_left_behind(void **state)
{
	struct world *w = *state;

	add_queues(w);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_LEVEL, 2), 0);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_GUARD_FROM, FM_MS), 0);
	fm_bridge_free(w->b);
	w->b = NULL;
	assert_way(&w->a, 0, FM_LEVEL_NONE, 0);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_hint_reaches_its_groups_queues),
		TEST(devices_say_it_for_all),
		TEST(names_of_one_device),
		TEST(who_sleeps_is_woken),
		TEST(a_queue_takes_that_of_its_new_group),
		TEST(people_see_what_is_in_use),
		TEST(nothing_is_left_behind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
