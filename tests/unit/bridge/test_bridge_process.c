/* SPDX-License-Identifier: Apache-2.0 */
/* The clients of one process that name no group are one group. */
#include "bridge_world.h"

#define PID 11 /* of w->a */

static const struct client *left; /* its process is another one by now */

static bool one_process(void *ctx, void *other)
{
	return ctx != left && other != left;
}

static int setup_processes(void **state)
{
	static const struct fm_bridge_host host = {
		.wake = on_wake, .hint = on_hint, .one_process = one_process};
	struct world *w = calloc(1, sizeof(*w));

	w->now = T0;
	left = NULL;
	assert_int_equal(fm_bridge_new(&w->b, &host), 0);
	assert_int_equal(attach(w, &w->a, ALICE, PID, "alpha"), 0);
	assert_int_equal(attach(w, &w->z, ALICE, 22, "zeta"), 0);
	*state = w;
	return 0;
}

static void leave(struct world *w, struct client *c)
{
	fm_bridge_detach(w->b, c->c, w->now);
	fm_board_unmap(c->board);
}

static unsigned clients_of(struct client *c)
{
	struct fm_bridge_group_info info;

	fm_bridge_group_info(group_of(c, 0), &info);
	return info.clients;
}

static int64_t hint_of(struct client *c, enum fm_hint h)
{
	struct fm_bridge_group_info info;

	fm_bridge_group_info(group_of(c, 0), &info);
	return info.hints->value[h];
}

static void they_share_it(void **state)
{
	struct world *w = *state;
	struct client b = {0};
	struct fm_bcoverage calls;

	assert_int_equal(attach(w, &b, ALICE, PID, "renamed"), 0);
	assert_ptr_equal(group_of(&w->a, 0), group_of(&b, 0));
	assert_ptr_not_equal(group_of(&w->a, 0), group_of(&w->z, 0));
	assert_string_equal(fm_bridge_group_name(group_of(&b, 0)), "alpha-11");
	assert_int_equal(clients_of(&b), 2);
	assert_true(fm_bridge_group_is_own(group_of(&b, 0), PID));
	atomic_store(&w->a.board->ungoverned, 3);
	atomic_store(&b.board->ungoverned, 4);
	calls = fm_bridge_group_coverage(group_of(&b, 0));
	assert_int_equal(calls.ungoverned, 7);
	leave(w, &b);
	assert_int_equal(clients_of(&w->a), 1);
}

/* Neither of another user, as after setuid(2), nor of a process that had the pid before, nor where
 * the pid is not known. */
static void others_do_not(void **state)
{
	struct world *w = *state;
	struct client b = {0}, c = {0}, d = {0}, e = {0};

	assert_int_equal(attach(w, &b, BOB, PID, "alpha"), 0);
	assert_ptr_not_equal(group_of(&w->a, 0), group_of(&b, 0));
	left = &w->a;
	assert_int_equal(attach(w, &c, ALICE, PID, "alpha"), 0);
	assert_ptr_not_equal(group_of(&w->a, 0), group_of(&c, 0));
	assert_int_equal(attach(w, &d, ALICE, 0, ""), 0);
	assert_int_equal(attach(w, &e, ALICE, 0, ""), 0);
	assert_ptr_not_equal(group_of(&d, 0), group_of(&e, 0));
	leave(w, &d);
	leave(w, &e);
	/* The next of the living process finds that one's group, beside the dead one's. */
	assert_int_equal(attach(w, &d, ALICE, PID, "alpha"), 0);
	assert_ptr_equal(group_of(&d, 0), group_of(&c, 0));
	leave(w, &b);
	leave(w, &c);
	leave(w, &d);
}

static void a_group_is_charged_once(void **state)
{
	static const struct fm_bridge_limits two = {.groups = 2};
	struct world *w = *state;
	struct client b = {0}, c = {0};

	fm_bridge_set_limits(w->b, &two);
	assert_int_equal(attach(w, &b, ALICE, PID, "alpha"), 0);
	assert_int_equal(attach(w, &c, ALICE, 33, "gamma"), -EDQUOT);
	fm_board_unmap(c.board);
	leave(w, &b);
	leave(w, &w->a);
	assert_int_equal(attach(w, &w->a, ALICE, 33, "gamma"), 0);
}

static void who_names_one_leaves_the_others(void **state)
{
	struct world *w = *state;
	struct client b = {0}, c = {0};
	struct fm_bridge_group *own = group_of(&w->a, 0);

	assert_int_equal(add_queue(w, &w->a, 0), 0);
	assert_int_equal(attach(w, &b, ALICE, PID, "alpha"), 0);
	assert_int_equal(add_queue(w, &b, 0), 0);
	assert_int_equal(name_group(w, &w->a, 0, "team"), 0);
	assert_string_equal(fm_bridge_group_name(group_of(&w->a, 0)), "team");
	assert_ptr_equal(group_of(&b, 0), own);
	assert_int_equal(attach(w, &c, ALICE, PID, "alpha"), 0);
	assert_ptr_equal(group_of(&c, 0), own);
	leave(w, &b);
	/* The last of them takes the group along, which is the process's no more. */
	assert_int_equal(name_group(w, &c, 0, "crew"), 0);
	assert_ptr_equal(group_of(&c, 0), own);
	assert_int_equal(attach(w, &b, ALICE, PID, "alpha"), 0);
	assert_ptr_not_equal(group_of(&b, 0), own);
	assert_string_equal(fm_bridge_group_name(group_of(&b, 0)), "alpha-11");
	leave(w, &b);
	leave(w, &c);
}

static void the_death_of_one_leaves_the_others(void **state)
{
	struct world *w = *state;
	struct client b = {0};

	assert_int_equal(attach(w, &b, ALICE, PID, "alpha"), 0);
	assert_int_equal(add_queue(w, &w->a, 0), 0);
	assert_int_equal(add_queue(w, &b, 0), 0);
	assert_int_equal(add_queue(w, &w->z, 0), 0);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_PRIORITY, 5), 0);
	assert_int_equal(segment(w, &w->a, 1, 50), 0);
	begin(&b, 0, 1);
	ring(w, &b);
	assert_int_equal(give_hint(w, &w->z, FM_HINT_PRIORITY, 20), 0);
	begin(&w->z, 0, 1);
	ring(w, &w->z);
	assert_true(open_gate(&b, 0) && !open_gate(&w->z, 0));
	leave(w, &w->a); /* its segment ends with it, its hint was the group's */
	assert_true(open_gate(&w->z, 0) && !open_gate(&b, 0));
	assert_int_equal(hint_of(&b, FM_HINT_PRIORITY), 5);
	finish(w, &w->z, 0);
	ring(w, &w->z);
	pass(w, FM_MS);
	assert_true(open_gate(&b, 0));
	assert_int_equal(attach(w, &w->a, ALICE, PID, "alpha"), 0);
	assert_ptr_equal(group_of(&w->a, 0), group_of(&b, 0));
	leave(w, &b);
}

static int count(void *arg, struct fm_bridge_group *g)
{
	(*(unsigned *)arg)++;
	return 0;
}

static void they_stop_together(void **state)
{
	struct world *w = *state;
	struct client b = {0};
	unsigned n = 0;

	assert_int_equal(attach(w, &b, ALICE, PID, "alpha"), 0);
	assert_int_equal(add_queue(w, &w->a, 0), 0);
	assert_int_equal(add_queue(w, &b, 0), 0);
	assert_int_equal(fm_bridge_target(w->b, "11", count, &n), 1);
	assert_int_equal(n, 1);
	fm_bridge_group_suspend(w->b, group_of(&b, 0), true, w->now);
	assert_false(open_gate(&w->a, 0) || open_gate(&b, 0));
	fm_bridge_group_suspend(w->b, group_of(&b, 0), false, w->now);
	assert_true(open_gate(&w->a, 0) && open_gate(&b, 0));
	leave(w, &b);
}

static void the_last_word_holds(void **state)
{
	struct world *w = *state;
	struct client b = {0};

	assert_int_equal(attach(w, &b, ALICE, PID, "alpha"), 0);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_WEIGHT, 200), 0);
	assert_int_equal(hint_of(&b, FM_HINT_WEIGHT), 200);
	assert_int_equal(b.hints, 1); /* for the next daemon */
	assert_int_equal(b.hint_value, 200);
	assert_int_equal(give_hint(w, &b, FM_HINT_WEIGHT, 300), 0);
	assert_int_equal(hint_of(&w->a, FM_HINT_WEIGHT), 300);
	assert_int_equal(w->a.hint_value, 300);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_WEIGHT, 200), 0);
	assert_int_equal(hint_of(&b, FM_HINT_WEIGHT), 200);
	assert_int_equal(w->z.hints, 0);
	assert_int_equal(w->a.hints, 1); /* never of its own word */
	leave(w, &b);
}

/* It comes with the hints of an environment that the others had, too. */
static void a_latecomer_undoes_nothing(void **state)
{
	struct world *w = *state;
	struct client b = {0}, c = {0};

	assert_int_equal(give_hint(w, &w->a, FM_HINT_WEIGHT, 200), 0); /* the environment */
	assert_int_equal(give_hint(w, &w->a, FM_HINT_WEIGHT, 300), 0); /* the program */
	assert_int_equal(attach(w, &b, ALICE, PID, "alpha"), 0);
	assert_int_equal(give_hint(w, &b, FM_HINT_WEIGHT, 200), 0);
	assert_int_equal(hint_of(&b, FM_HINT_WEIGHT), 300);
	assert_int_equal(b.hint_value, 300);
	assert_int_equal(give_hint(w, &b, FM_HINT_SHARE, 20), 0); /* of which nobody spoke yet */
	assert_int_equal(hint_of(&w->a, FM_HINT_SHARE), 20);
	assert_int_equal(give_hint(w, &b, FM_HINT_WEIGHT, 200), 0); /* now it means it */
	assert_int_equal(hint_of(&w->a, FM_HINT_WEIGHT), 200);
	assert_int_equal(fm_bridge_group_hint(
				 w->b, group_of(&b, 0), NULL, FM_HINT_WEIGHT, 400, w->now, NULL),
		0);
	assert_int_equal(attach(w, &c, ALICE, PID, "alpha"), 0);
	assert_int_equal(give_hint(w, &c, FM_HINT_WEIGHT, 200), 0);
	assert_int_equal(hint_of(&b, FM_HINT_WEIGHT), 400);
	assert_int_equal(give_hint(w, &c, FM_HINT_WEIGHT, 500), 0);
	assert_int_equal(hint_of(&b, FM_HINT_WEIGHT), 500);
	leave(w, &b);
	leave(w, &c);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup_processes, teardown)
	const struct CMUnitTest tests[] = {
		CASE(they_share_it),
		CASE(others_do_not),
		CASE(a_group_is_charged_once),
		CASE(who_names_one_leaves_the_others),
		CASE(the_death_of_one_leaves_the_others),
		CASE(they_stop_together),
		CASE(the_last_word_holds),
		CASE(a_latecomer_undoes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
