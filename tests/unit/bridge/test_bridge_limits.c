/* SPDX-License-Identifier: Apache-2.0 */
/* What users may have, and may say about their groups. */
#include "bridge_world.h"

static void limits_bind_users_but_not_root(void **state)
{
	struct fm_bridge_limits l = {.groups = 3,
		.queues = 2,
		.bounded = FM_HINT_BIT(FM_HINT_PRIORITY),
		.range[FM_HINT_PRIORITY] = {-10, 10}};
	struct world *w = *state;
	struct client more = {0}, bob = {0}, root = {0};

	fm_bridge_set_limits(w->b, &l);
	assert_int_equal(name_group(w, &w->a, 1, "third"), 0);
	assert_int_equal(name_group(w, &w->a, 2, "fourth"), -EDQUOT);
	assert_int_equal(name_group(w, &w->z, 2, "third"), 0);
	assert_int_equal(attach(w, &more, ALICE, 33, "more"), -EDQUOT);
	assert_int_equal(attach(w, &bob, BOB, 44, "bob"), 0);
	assert_int_equal(add_queue(w, &w->a, 0), 0);
	assert_int_equal(add_queue(w, &w->z, 0), 0);
	assert_int_equal(add_queue(w, &w->a, 1), -EDQUOT);
	assert_true(open_gate(&w->a, 1));
	assert_int_equal(add_queue(w, &bob, 1), 0);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_PRIORITY, 11), -EPERM);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_PRIORITY, -11), -EPERM);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_PRIORITY, 10), 0);
	assert_int_equal(segment(w, &w->a, 1, 11), -EPERM);
	assert_int_equal(attach(w, &root, 0, 55, "root"), 0);
	for (uint32_t i = 1; i < FM_BOARD_GROUPS; i++)
		assert_int_equal(add_queue_on(w, &root, i, i, DEVICE), 0);
	assert_int_equal(give_hint(w, &root, FM_HINT_PRIORITY, 255), 0);
	fm_bridge_detach(w->b, bob.c, w->now);
	fm_bridge_detach(w->b, root.c, w->now);
	fm_board_unmap(bob.board);
	fm_board_unmap(root.board);
	fm_board_unmap(more.board);
}

/* A queue that joins a group beyond the limit stays scheduled, in the client's own group; one that
 * is refused when it comes again in its slot is as if it had never been there. */
static void queues_beyond_the_limit_of_groups(void **state)
{
	const union fm_msg gone = {.queue_gone = {.slot = 1}};
	struct fm_bridge_limits l = {.groups = 2};
	struct world *w = *state;
	struct fm_slot *s;

	fm_bridge_set_limits(w->b, &l);
	assert_int_equal(add_queue(w, &w->a, 1), 0);
	assert_int_equal(add_queue(w, &w->z, 0), 0);
	assert_int_equal(tell(w, &w->a, gone, FM_MSG_QUEUE_GONE), 0);
	assert_int_equal(name_group(w, &w->a, 2, "third"), -EDQUOT);
	assert_int_equal(add_queue_on(w, &w->a, 1, 2, DEVICE), 0);
	fm_bridge_group_suspend(w->b, group_of(&w->a, 0), true, w->now);
	assert_false(open_gate(&w->a, 1));
	s = &w->a.board->slot[1];
	assert_int_equal(atomic_load(&s->shares), FM_SHARES);
	l.queues = 2;
	fm_bridge_set_limits(w->b, &l);
	assert_int_equal(tell(w, &w->a, gone, FM_MSG_QUEUE_GONE), 0);
	assert_int_equal(add_queue(w, &w->z, 1), 0);
	assert_int_equal(add_queue(w, &w->a, 1), -EDQUOT);
	assert_true(open_gate(&w->a, 1));
	assert_int_equal(atomic_load(&s->shares), FM_SHARES_NONE);
}

/* The program is inside it all the same, and ends it: not the one around it. */
static void refused_segments_end_themselves(void **state)
{
	struct fm_bridge_limits l = {
		.bounded = FM_HINT_BIT(FM_HINT_PRIORITY), .range[FM_HINT_PRIORITY] = {-10, 10}};
	struct world *w = *state;
	const struct fm_sched_group *g;

	fm_bridge_set_limits(w->b, &l);
	assert_int_equal(segment(w, &w->a, 1, 7), 0);
	g = group_of(&w->a, 0)->sgroup;
	assert_int_equal(segment(w, &w->a, 1, 11), -EPERM);
	assert_int_equal(fm_sched_group_priority(g), 7);
	assert_int_equal(segment(w, &w->a, 0, 0), 0);
	assert_true(fm_sched_group_busy(g));
	assert_int_equal(fm_sched_group_priority(g), 7);
	assert_int_equal(segment(w, &w->a, 0, 0), 0);
	assert_false(fm_sched_group_busy(g));
	assert_int_equal(segment(w, &w->a, 0, 0), -EPERM);
}

static int64_t hint_now(struct client *c, enum fm_hint h)
{
	struct fm_bridge_group_info info;

	fm_bridge_group_info(group_of(c, 0), &info);
	return info.hints->value[h];
}

static void hints_stay_within_the_limits(void **state)
{
	struct fm_bridge_limits l = {.forbidden = FM_HINT_BIT(FM_HINT_FOREGROUND),
		.bounded = FM_HINT_BIT(FM_HINT_WEIGHT) | FM_HINT_BIT(FM_HINT_DEADLINE),
		.range = {[FM_HINT_WEIGHT] = {10, 200}, [FM_HINT_DEADLINE] = {FM_MS, FM_S}}};
	struct world *w = *state;
	struct fm_err err;

	fm_bridge_set_limits(w->b, &l);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_FOREGROUND, 1), -EPERM);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_FOREGROUND, 0), -EPERM);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_SLICE, FM_MS), 0);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_WEIGHT, 201), -EPERM);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_WEIGHT, 9), -EPERM);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_WEIGHT, 10), 0);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_WEIGHT, 0), 0); /* that of others, 100 */
	assert_int_equal(give_hint(w, &w->a, FM_HINT_DEADLINE, FM_MS - 1), -EPERM);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_DEADLINE, FM_S + 1), -EPERM);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_DEADLINE, FM_S), 0);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_DEADLINE, 0), 0); /* none any more */
	assert_int_equal(fm_bridge_allows(&l, FM_HINT_DEADLINE, 2 * FM_S, &err), -EPERM);
	assert_string_equal(err.text, "deadline 2000 ms is outside your limits");
	assert_non_null(strstr(err.hint, "1 to 1000 ms"));
	assert_int_equal(fm_bridge_allows(NULL, FM_HINT_DEADLINE, 2 * FM_S, NULL), 0);
	assert_int_equal(fm_bridge_allows(&l, FM_HINT_WEIGHT, 9, NULL), -EPERM);
}

/* No limit of one's own is more than any that there may be; no request is less. */
static void amounts_of_memory_stay_within_the_limits(void **state)
{
	const int64_t gib = INT64_C(1) << 30;
	struct fm_bridge_limits l = {
		.bounded = FM_HINT_BIT(FM_HINT_MEMORY_LIMIT) | FM_HINT_BIT(FM_HINT_MEMORY_REQUEST),
		.range = {[FM_HINT_MEMORY_LIMIT] = {0, 16 * gib},
			[FM_HINT_MEMORY_REQUEST] = {gib, 3 * gib / 2}}};
	struct world *w = *state;
	struct client c = {0};
	struct fm_err err;

	fm_bridge_set_limits(w->b, &l);
	assert_int_equal(fm_bridge_allows(&l, FM_HINT_MEMORY_LIMIT, 0, &err), -EPERM);
	assert_string_equal(err.text, "no memory-limit is outside your limits");
	assert_int_equal(fm_bridge_allows(&l, FM_HINT_MEMORY_LIMIT, 40 * gib, &err), -EPERM);
	assert_string_equal(err.text, "memory-limit 40G is outside your limits");
	assert_non_null(strstr(err.hint, "stay within 0 to 16G, or"));
	assert_int_equal(fm_bridge_allows(&l, FM_HINT_MEMORY_LIMIT, 16 * gib, NULL), 0);
	assert_int_equal(fm_bridge_allows(&l, FM_HINT_MEMORY_REQUEST, 0, NULL), 0);
	assert_int_equal(fm_bridge_allows(&l, FM_HINT_MEMORY_REQUEST, 2 * gib, &err), -EPERM);
	assert_non_null(strstr(err.hint, "stay within 1G to 1536M, or"));
	assert_int_equal(attach(w, &c, BOB, 33, "c"), 0);
	assert_true(hint_now(&c, FM_HINT_MEMORY_LIMIT) == 16 * gib);
	assert_int_equal(hint_now(&c, FM_HINT_MEMORY_REQUEST), 0);
}

/* Saying nothing gives no more than may be asked for. */
static void a_group_starts_within_the_limits(void **state)
{
	struct fm_bridge_limits l = {
		.bounded = FM_HINT_BIT(FM_HINT_PRIORITY) | FM_HINT_BIT(FM_HINT_WEIGHT) |
			   FM_HINT_BIT(FM_HINT_DEADLINE) | FM_HINT_BIT(FM_HINT_GANG),
		.range = {[FM_HINT_PRIORITY] = {-255, -64},
			[FM_HINT_WEIGHT] = {1, 50},
			[FM_HINT_DEADLINE] = {FM_MS, FM_S}}};
	struct world *w = *state;
	struct client c = {0}, root = {0};

	fm_bridge_set_limits(w->b, &l);
	assert_int_equal(attach(w, &c, BOB, 33, "c"), 0);
	assert_int_equal(hint_now(&c, FM_HINT_PRIORITY), -64);
	assert_int_equal(hint_now(&c, FM_HINT_WEIGHT), 50);
	assert_int_equal(hint_now(&c, FM_HINT_DEADLINE), 0);
	assert_int_equal(hint_now(&c, FM_HINT_GANG), 0);
	assert_int_equal(hint_now(&w->a, FM_HINT_PRIORITY), 0); /* came before the limits */
	assert_int_equal(give_hint(w, &c, FM_HINT_WEIGHT, 0), -EPERM);
	assert_int_equal(give_hint(w, &c, FM_HINT_PRIORITY, 0), -EPERM);
	assert_int_equal(attach(w, &root, 0, 34, "root"), 0);
	assert_int_equal(hint_now(&root, FM_HINT_PRIORITY), 0);
	fm_bridge_detach(w->b, c.c, w->now);
	fm_bridge_detach(w->b, root.c, w->now);
	fm_board_unmap(c.board);
	fm_board_unmap(root.board);
}

static void what_left_no_longer_counts(void **state)
{
	struct fm_bridge_limits l = {.groups = 3, .queues = 1};
	struct world *w = *state;
	struct client c = {0};

	fm_bridge_set_limits(w->b, &l);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(attach(w, &c, ALICE, 33, "c"), 0);
		assert_int_equal(add_queue(w, &c, 0), 0);
		assert_int_equal(add_queue(w, &c, 1), -EDQUOT);
		fm_bridge_detach(w->b, c.c, w->now);
		fm_board_unmap(c.board);
	}
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(limits_bind_users_but_not_root),
		TEST(queues_beyond_the_limit_of_groups),
		TEST(refused_segments_end_themselves),
		TEST(hints_stay_within_the_limits),
		TEST(amounts_of_memory_stay_within_the_limits),
		TEST(a_group_starts_within_the_limits),
		TEST(what_left_no_longer_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
