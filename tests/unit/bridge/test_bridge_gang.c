/* SPDX-License-Identifier: Apache-2.0 */
/* Clients of one group, each on a device of its own: what they see on their boards. */
#include "bridge_world.h"

static void gather(struct world *w)
{
	assert_int_equal(name_group(w, &w->a, 0, "ranks"), 0);
	assert_int_equal(name_group(w, &w->z, 0, "ranks"), 0);
	assert_int_equal(add_queue_on(w, &w->a, 0, 0, "sim:0"), 0);
	assert_int_equal(add_queue_on(w, &w->z, 0, 0, "sim:1"), 0);
}

static struct client *come(struct world *w, struct client *c, const char *device, int64_t priority)
{
	assert_int_equal(attach(w, c, BOB, 33, "beta"), 0);
	assert_int_equal(give_hint(w, c, FM_HINT_PRIORITY, priority), 0);
	assert_int_equal(add_queue_on(w, c, 0, 0, device), 0);
	return c;
}

static void go(struct world *w, struct client *c)
{
	fm_bridge_detach(w->b, c->c, w->now);
	fm_board_unmap(c->board);
}

static void work(struct world *w, struct client *c)
{
	begin(c, 0, 1);
	ring(w, c);
}

static void rest(struct world *w, struct client *c)
{
	finish(w, c, 0);
	ring(w, c);
	pass(w, FM_MS);
}

static void find_reason(void *arg, const struct fm_bent_info *i)
{
	if (!strcmp(i->device, "sim:1"))
		*(const char **)arg = i->ent.reason;
}

static void ranks_stop_and_go_together(void **state)
{
	struct world *w = *state;
	const char *reason = NULL;
	struct client b = {0};

	gather(w);
	come(w, &b, "sim:0", 10);
	work(w, &w->a);
	work(w, &w->z);
	assert_true(open_gate(&w->a, 0) && open_gate(&w->z, 0));
	work(w, &b);
	assert_false(open_gate(&w->a, 0) || open_gate(&w->z, 0));
	fm_bridge_group_each_ent(group_of(&w->z, 0), w->now, find_reason, &reason);
	assert_string_equal(reason, "held: its gang waits on device sim:0");
	rest(w, &b);
	assert_true(open_gate(&w->a, 0) && open_gate(&w->z, 0));
	assert_int_equal(give_hint(w, &w->z, FM_HINT_GANG, 0), 0);
	work(w, &b);
	assert_true(!open_gate(&w->a, 0) && open_gate(&w->z, 0));
	go(w, &b);
}

static void one_process_is_a_gang_of_its_devices(void **state)
{
	struct world *w = *state;
	struct client b = {0};

	assert_int_equal(add_queue_on(w, &w->a, 0, 0, "sim:0"), 0);
	assert_int_equal(add_queue_on(w, &w->a, 1, 0, "sim:1"), 0);
	come(w, &b, "sim:0", 10);
	begin(&w->a, 0, 1);
	begin(&w->a, 1, 1);
	ring(w, &w->a);
	assert_true(open_gate(&w->a, 0) && open_gate(&w->a, 1));
	work(w, &b);
	assert_false(open_gate(&w->a, 0) || open_gate(&w->a, 1));
	finish(w, &w->a, 0); /* its work on the contended device is done after all */
	ring(w, &w->a);
	assert_true(open_gate(&w->a, 1));
	go(w, &b);
}

/* z has sim:1 for itself, but is stopped when a is: it must ring, and be quick to stop. */
static void the_lonely_rank_is_told_of_its_siblings_company(void **state)
{
	struct world *w = *state;
	struct client b = {0};

	gather(w);
	assert_int_equal(atomic_load(&w->z.board->contended), FM_SHARES_NONE);
	assert_int_equal(atomic_load(&w->z.board->slot[0].bells), 0);
	come(w, &b, "sim:0", 10);
	assert_int_equal(atomic_load(&w->a.board->contended), FM_SHARES);
	assert_int_equal(atomic_load(&w->z.board->contended), FM_SHARES);
	assert_int_equal(atomic_load(&w->z.board->slot[0].bells), FM_BELL_READY);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_GANG, 0), 0);
	assert_int_equal(atomic_load(&w->a.board->contended), FM_SHARES);
	assert_int_equal(atomic_load(&w->z.board->contended), FM_SHARES_NONE);
	assert_int_equal(atomic_load(&w->z.board->slot[0].bells), 0);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_GANG, 1), 0);
	assert_int_equal(atomic_load(&w->z.board->contended), FM_SHARES);
	/* A small time slice is for who shares a device, and z does not. */
	assert_int_equal(give_hint(w, &w->a, FM_HINT_PRIORITY, -1), 0);
	assert_int_equal(atomic_load(&w->a.board->makes_room), 1);
	assert_int_equal(atomic_load(&w->z.board->makes_room), 0);
	go(w, &b);
	assert_int_equal(atomic_load(&w->z.board->contended), FM_SHARES_NONE);
	assert_int_equal(atomic_load(&w->z.board->slot[0].bells), 0);
}

/* First on its own device, z is stopped all the same, since a is not first on its. */
static void who_is_first_on_one_device_may_wait_for_the_other(void **state)
{
	struct world *w = *state;
	struct client b = {0}, c = {0};

	gather(w);
	come(w, &b, "sim:0", 10);
	assert_int_equal(attach(w, &c, BOB, 34, "gamma"), 0);
	assert_int_equal(add_queue_on(w, &c, 0, 0, "sim:1"), 0);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_PRIORITY, 5), 0);
	assert_int_equal(atomic_load(&w->z.board->contended), FM_SHARES);
	assert_int_equal(atomic_load(&b.board->contended), FM_SHARES_FIRST);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_PRIORITY, 11), 0);
	assert_int_equal(atomic_load(&w->z.board->contended), FM_SHARES_FIRST);
	assert_int_equal(give_hint(w, &b, FM_HINT_PRIORITY, 12), 0);
	assert_int_equal(atomic_load(&w->z.board->contended), FM_SHARES);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_GANG, 0), 0);
	assert_int_equal(atomic_load(&w->z.board->contended), FM_SHARES_FIRST);
	go(w, &c);
	go(w, &b);
}

static void a_late_rank_is_told_as_well(void **state)
{
	struct world *w = *state;
	struct client b = {0};

	come(w, &b, "sim:0", 10);
	assert_int_equal(name_group(w, &w->z, 0, "ranks"), 0);
	assert_int_equal(add_queue_on(w, &w->z, 0, 0, "sim:1"), 0);
	assert_int_equal(atomic_load(&w->z.board->contended), FM_SHARES_NONE);
	assert_int_equal(name_group(w, &w->a, 0, "ranks"), 0);
	assert_int_equal(add_queue_on(w, &w->a, 0, 0, "sim:0"), 0);
	assert_int_equal(atomic_load(&w->z.board->contended), FM_SHARES);
	fm_bridge_detach(w->b, w->a.c, w->now);
	assert_int_equal(atomic_load(&w->z.board->contended), FM_SHARES_NONE);
	go(w, &b);
}

/* A rank that dies while the gang waits for its device: the others wait for nothing then. */
static void the_death_of_a_rank_frees_the_others(void **state)
{
	struct world *w = *state;
	struct client b = {0};

	gather(w);
	come(w, &b, "sim:0", 10);
	work(w, &b);
	work(w, &w->a);
	work(w, &w->z);
	assert_false(open_gate(&w->z, 0));
	fm_bridge_detach(w->b, w->a.c, w->now);
	assert_true(open_gate(&w->z, 0));
	go(w, &b);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ranks_stop_and_go_together),
		TEST(one_process_is_a_gang_of_its_devices),
		TEST(the_lonely_rank_is_told_of_its_siblings_company),
		TEST(who_is_first_on_one_device_may_wait_for_the_other),
		TEST(a_late_rank_is_told_as_well),
		TEST(the_death_of_a_rank_frees_the_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
