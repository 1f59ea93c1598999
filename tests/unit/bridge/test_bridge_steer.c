// SPDX-License-Identifier: Apache-2.0
/* Programs with groups of their own, or on several devices, and queues that they hold themselves.
 */
#include "bridge_world.h"

static void hold(struct client *c, uint32_t slot, enum fm_hold hold)
{
	atomic_store(&c->board->slot[slot].hold, hold);
}

static int hint(struct world *w, struct client *c, uint32_t group, enum fm_hint h, int64_t v)
{
	union fm_msg m = {.hint = {.group = group, .hint = h, .value = v}};

	return tell(w, c, m, FM_MSG_HINT);
}

/* It has work, and its program keeps it from the device: others have that. */
static void a_held_queue_is_not_in_the_way(void **state)
{
	struct world *w = *state;

	assert_int_equal(add_queue(w, &w->a, 0), 0);
	assert_int_equal(add_queue(w, &w->z, 0), 0);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_PRIORITY, FM_PRIORITY_HIGH), 0);
	begin(&w->a, 0, 1);
	ring(w, &w->a);
	begin(&w->z, 0, 1);
	ring(w, &w->z);
	pass(w, FM_MS);
	assert_true(open_gate(&w->a, 0));
	assert_false(open_gate(&w->z, 0));
	hold(&w->a, 0, FM_HOLD_STOPS);
	ring(w, &w->a);
	pass(w, 10 * FM_MS);
	assert_false(open_gate(&w->z, 0));
	hold(&w->a, 0, FM_HOLD_RESTS);
	ring(w, &w->a);
	pass(w, 10 * FM_MS);
	assert_true(open_gate(&w->z, 0));
	hold(&w->a, 0, FM_HOLD_GOES_ON);
	ring(w, &w->a);
	pass(w, FM_MS);
	assert_true(open_gate(&w->a, 0));
	assert_false(open_gate(&w->z, 0));
}

/* Of several queues it is the others that count. */
static void one_of_two_queues_is_held(void **state)
{
	struct world *w = *state;

	assert_int_equal(add_queue(w, &w->a, 0), 0);
	assert_int_equal(add_queue(w, &w->a, 1), 0);
	assert_int_equal(add_queue(w, &w->z, 0), 0);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_PRIORITY, FM_PRIORITY_HIGH), 0);
	begin(&w->a, 0, 1);
	begin(&w->a, 1, 1);
	ring(w, &w->a);
	begin(&w->z, 0, 1);
	ring(w, &w->z);
	hold(&w->a, 0, FM_HOLD_RESTS);
	ring(w, &w->a);
	pass(w, 10 * FM_MS);
	assert_false(open_gate(&w->z, 0));
	finish(w, &w->a, 1);
	ring(w, &w->a);
	pass(w, 10 * FM_MS);
	assert_true(open_gate(&w->z, 0));
}

/* A gate that closes wakes nobody at level 2, unless somebody wants to hear of it. */
static void who_hears_is_woken(void **state)
{
	struct world *w = *state;
	unsigned before;

	assert_int_equal(add_queue(w, &w->a, 0), 0);
	assert_int_equal(add_queue(w, &w->z, 0), 0);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_PRIORITY, FM_PRIORITY_HIGH), 0);
	atomic_store(&w->z.board->slot[0].level, FM_LEVEL_QUEUED);
	atomic_store(&w->z.board->agent_sleeps, 1);
	for (unsigned hears = 0; hears < 2; hears++) {
		atomic_store(&w->z.board->slot[0].hears, hears);
		begin(&w->z, 0, 1);
		ring(w, &w->z);
		assert_true(open_gate(&w->z, 0));
		before = w->z.wakes;
		begin(&w->a, 0, 1);
		ring(w, &w->a);
		assert_false(open_gate(&w->z, 0));
		assert_int_equal(w->z.wakes - before, hears);
		finish(w, &w->a, 0);
		ring(w, &w->a);
		pass(w, 10 * FM_MS);
		finish(w, &w->z, 0);
		ring(w, &w->z);
	}
}

/* Two groups of one program share a device: the urgent one stops the other. It makes room for
 * nobody else as long as one of its groups is not in the background. */
static void groups_of_one_program(void **state)
{
	struct world *w = *state;

	assert_int_equal(name_group(w, &w->a, 1, "urgent"), 0);
	assert_int_equal(name_group(w, &w->a, 2, "batch"), 0);
	assert_int_equal(hint(w, &w->a, 1, FM_HINT_PRIORITY, FM_PRIORITY_HIGH), 0);
	assert_int_equal(hint(w, &w->a, 2, FM_HINT_PRIORITY, FM_PRIORITY_LOW), 0);
	assert_int_equal(add_queue_on(w, &w->a, 2, 2, DEVICE), 0);
	assert_int_equal(add_queue(w, &w->z, 0), 0);
	assert_int_equal(atomic_load(&w->a.board->makes_room), 1);
	assert_int_equal(add_queue_on(w, &w->a, 1, 1, DEVICE), 0);
	assert_int_equal(atomic_load(&w->a.board->makes_room), 0);
	begin(&w->a, 2, 1);
	ring(w, &w->a);
	assert_true(open_gate(&w->a, 2));
	begin(&w->a, 1, 1);
	ring(w, &w->a);
	pass(w, FM_MS);
	assert_true(open_gate(&w->a, 1));
	assert_false(open_gate(&w->a, 2));
}

static bool makes_room(const struct client *c)
{
	return atomic_load(&c->board->makes_room);
}

/* a's slice is that of all its channels: on sim:1 it would be beside z, which waits at gates. */
static void none_of_its_devices_has_another_in_the_background(void **state)
{
	struct world *w = *state;
	struct client b = {0};

	assert_int_equal(attach(w, &b, BOB, 33, "beta"), 0);
	assert_int_equal(add_queue_on(w, &b, 0, 0, "sim:0"), 0);
	assert_int_equal(add_queue_on(w, &w->z, 0, 0, "sim:1"), 0);
	assert_int_equal(add_queue_on(w, &w->a, 0, 0, "sim:0"), 0);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_PRIORITY, -1), 0);
	assert_true(makes_room(&w->a));
	assert_int_equal(add_queue_on(w, &w->a, 1, 0, "sim:1"), 0);
	assert_true(makes_room(&w->a));
	assert_int_equal(give_hint(w, &w->z, FM_HINT_PRIORITY, -1), 0);
	assert_false(makes_room(&w->a) || makes_room(&w->z));
	assert_int_equal(add_queue_on(w, &w->z, 1, 0, "sim:2"), 0);
	assert_false(makes_room(&w->z)); /* and alone on another */
	assert_int_equal(
		tell(w, &w->a, (union fm_msg){.queue_gone = {.slot = 1}}, FM_MSG_QUEUE_GONE), 0);
	assert_true(makes_room(&w->a)); /* with nothing more to do there */
	assert_int_equal(give_hint(w, &w->z, FM_HINT_PRIORITY, 0), 0);
	assert_false(makes_room(&w->z));
	fm_bridge_detach(w->b, b.c, w->now);
	fm_board_unmap(b.board);
}

/* Not for a moment, either: its agent would ask the driver for nothing. */
static void it_is_told_once_all_its_devices_were_looked_at(void **state)
{
	struct world *w = *state;
	struct client b = {0};

	assert_int_equal(attach(w, &b, BOB, 33, "beta"), 0);
	assert_int_equal(add_queue_on(w, &b, 0, 0, "sim:0"), 0);
	assert_int_equal(give_hint(w, &b, FM_HINT_PRIORITY, 10), 0);
	assert_int_equal(add_queue_on(w, &w->z, 0, 0, "sim:1"), 0);
	assert_int_equal(give_hint(w, &w->z, FM_HINT_PRIORITY, -1), 0);
	assert_int_equal(add_queue_on(w, &w->a, 0, 0, "sim:0"), 0);
	assert_int_equal(add_queue_on(w, &w->a, 1, 0, "sim:1"), 0);
	atomic_store(&w->a.board->agent_sleeps, 1);
	w->a.wakes = 0;
	assert_int_equal(give_hint(w, &w->a, FM_HINT_PRIORITY, -2), 0);
	assert_false(makes_room(&w->a));
	assert_int_equal(w->a.wakes, 0);
	fm_bridge_detach(w->b, b.c, w->now);
	fm_board_unmap(b.board);
}

/* They would take turns of a microsecond with each other. */
static void two_processes_of_a_group_in_the_background(void **state)
{
	struct world *w = *state;
	struct client b = {0}, c = {0};

	assert_int_equal(attach(w, &b, BOB, 33, "beta"), 0);
	assert_int_equal(add_queue(w, &b, 0), 0);
	assert_int_equal(attach(w, &c, ALICE, 34, "gamma"), 0);
	assert_int_equal(name_group(w, &c, 0, "batch"), 0);
	assert_int_equal(name_group(w, &w->a, 0, "batch"), 0);
	assert_int_equal(name_group(w, &w->z, 0, "batch"), 0);
	assert_int_equal(add_queue(w, &w->a, 0), 0);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_PRIORITY, -1), 0);
	assert_true(makes_room(&w->a));
	assert_int_equal(add_queue(w, &w->z, 0), 0);
	assert_false(makes_room(&w->a) || makes_room(&w->z));
	assert_int_equal(
		tell(w, &w->a, (union fm_msg){.queue_gone = {.slot = 0}}, FM_MSG_QUEUE_GONE), 0);
	assert_true(makes_room(&w->z));
	assert_int_equal(add_queue_on(w, &w->a, 0, 0, "sim:1"), 0);
	assert_true(makes_room(&w->z));
	assert_false(makes_room(&w->a)); /* alone there */
	assert_int_equal(add_queue(w, &c, 0), 0);
	assert_false(makes_room(&w->z) || makes_room(&c));
	fm_bridge_detach(w->b, c.c, w->now);
	assert_true(makes_room(&w->z));
	fm_board_unmap(c.board);
	fm_bridge_detach(w->b, b.c, w->now);
	assert_false(makes_room(&w->z));
	fm_board_unmap(b.board);
}

static int count(void *arg, struct fm_bridge_group *g)
{
	(*(unsigned *)arg)++;
	return 0;
}

/* Of a process of another namespace nothing is known but its user. */
static void nobody_is_process_zero(void **state)
{
	struct world *w = *state;
	struct client b = {0}, c = {0};
	unsigned n = 0;

	assert_int_equal(attach(w, &b, BOB, 0, ""), 0);
	assert_int_equal(attach(w, &c, BOB, 0, ""), 0);
	assert_string_equal(fm_bridge_group_name(group_of(&b, 0)), "unknown-u1001-3");
	assert_string_equal(fm_bridge_group_name(group_of(&c, 0)), "unknown-u1001-4");
	assert_int_equal(fm_bridge_target(w->b, "0", count, &n), 0);
	assert_int_equal(fm_bridge_target(w->b, "00", count, &n), 0);
	assert_int_equal(n, 0);
	assert_false(fm_bridge_group_is_own(group_of(&b, 0), 0));
	assert_int_equal(fm_bridge_target(w->b, "unknown-u1001-4", count, &n), 1);
	fm_bridge_detach(w->b, b.c, w->now);
	fm_bridge_detach(w->b, c.c, w->now);
	fm_board_unmap(b.board);
	fm_board_unmap(c.board);
}

static int not_of_bob(void *arg, struct fm_bridge_group *g)
{
	if (fm_bridge_group_uid(g) == BOB)
		return FM_TARGET_NOT;
	return count(arg, g);
}

/* Who may not see the process 33 is told of the group of that name. */
static void what_one_does_not_see_hides_nothing(void **state)
{
	struct world *w = *state;
	struct client b = {0};
	unsigned n = 0;

	assert_int_equal(attach(w, &b, BOB, 33, "bravo"), 0);
	assert_int_equal(name_group(w, &w->a, 0, "33"), 0);
	assert_int_equal(fm_bridge_target(w->b, "33", not_of_bob, &n), 1);
	assert_int_equal(n, 1);
	assert_int_equal(fm_bridge_target(w->b, "bravo-33", not_of_bob, &n), 0);
	assert_int_equal(fm_bridge_target(w->b, "33", count, &n), 1);
	fm_bridge_detach(w->b, b.c, w->now);
	fm_board_unmap(b.board);
}

/* Each is told once, in the order of their ids, wherever they are in the group. */
static void queues_are_told_in_parts(void **state)
{
	struct fm_bqueue_info info[FM_QUEUES_AT_ONCE];
	struct world *w = *state;
	uint32_t after = 0;
	unsigned n, all = 0;

	for (uint32_t slot = 0; slot < 35; slot++) {
		assert_int_equal(add_queue_on(w, &w->a, slot, 0, slot % 3 ? DEVICE : "sim:1"), 0);
		assert_int_equal(add_queue(w, &w->z, slot), 0);
	}
	assert_int_equal(name_group(w, &w->a, 0, "both"), 0);
	assert_int_equal(name_group(w, &w->z, 0, "both"), 0);
	do {
		n = fm_bridge_group_queues_after(group_of(&w->a, 0), after, info);
		for (unsigned i = 0; i < n; i++) {
			assert_true(info[i].id > after);
			after = info[i].id;
		}
		all += n;
	} while (n == FM_QUEUES_AT_ONCE);
	assert_int_equal(all, 70);
	assert_ptr_equal(fm_bridge_group_after(w->b, 0), group_of(&w->a, 0));
	assert_null(fm_bridge_group_after(w->b, fm_bridge_group_id(group_of(&w->a, 0))));
}

struct told {
	unsigned queues, gates;
};

static void on_note(void *ctx, const struct fm_bridge_note *n)
{
	struct told *t = ctx;

	t->queues += n->event == FM_EV_queue_added;
	if (n->event == FM_EV_gate_opened || n->event == FM_EV_gate_closed) {
		assert_true(t->queues >= 40 * (t->gates + 1)); /* after the group's queues */
		t->gates++;
	}
}

static void how_things_are_is_told_in_parts(void **state)
{
	struct world *w = *state;
	struct fm_bridge_told told = {0};
	struct told t = {0};
	unsigned parts = 0;

	for (uint32_t slot = 0; slot < 40; slot++) {
		assert_int_equal(add_queue(w, &w->a, slot), 0);
		assert_int_equal(add_queue(w, &w->z, slot), 0);
	}
	fm_bridge_tracer(w->b, &(struct fm_bridge_tracer){.ctx = &t, .note = on_note});
	while (fm_bridge_note_part(w->b, &told, w->now))
		parts++;
	assert_int_equal(parts, 4);
	assert_int_equal(t.queues, 80);
	assert_int_equal(t.gates, 2);
	fm_bridge_tracer(w->b, &(struct fm_bridge_tracer){0});
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_held_queue_is_not_in_the_way),
		TEST(one_of_two_queues_is_held),
		TEST(who_hears_is_woken),
		TEST(groups_of_one_program),
		TEST(none_of_its_devices_has_another_in_the_background),
		TEST(two_processes_of_a_group_in_the_background),
		TEST(it_is_told_once_all_its_devices_were_looked_at),
		TEST(nobody_is_process_zero),
		TEST(what_one_does_not_see_hides_nothing),
		TEST(queues_are_told_in_parts),
		TEST(how_things_are_is_told_in_parts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
