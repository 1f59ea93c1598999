/* SPDX-License-Identifier: Apache-2.0 */
/* Groups on several devices: they run on all on which they have work, or on none. */
#include "gang_model.h"
#include <errno.h>

#define WAITS_ON(key) "held: its gang waits on device " key

/* g on A and B, somebody less urgent on B and somebody more urgent on A. */
struct trio {
	struct world w;
	struct program *g, *other, *urgent;
};

static void setup(struct trio *t)
{
	world_init(&t->w, "fixed-priority", NULL, 2);
	t->g = with_priority(&t->w, A | B, 0);
	t->other = with_priority(&t->w, B, -1);
	t->urgent = with_priority(&t->w, A, 10);
	start(&t->w, t->g);
	start(&t->w, t->other);
}

static void urgent_work_on_one_device_stops_it_on_both(void **state)
{
	struct trio t;

	setup(&t);
	for (int i = 0; i < 3; i++) {
		assert_true(runs(t.g) && !runs(t.other));
		start(&t.w, t.urgent);
		assert_true(t.urgent->rank[0].open);
		assert_false(t.g->rank[0].open || t.g->rank[1].open);
		assert_true(runs(t.other));
		assert_int_equal(info(&t.w, t.g, 1).state, FM_ENT_READY);
		assert_string_equal(info(&t.w, t.g, 1).reason, WAITS_ON("A"));
		assert_string_equal(info(&t.w, t.g, 0).reason, "highest priority");
		assert_int_equal(info(&t.w, t.g, 1).preemptions, i + 1);
		stop(&t.w, t.urgent);
	}
	assert_true(runs(t.g) && !runs(t.other));
	assert_int_equal(fm_sched_next(t.w.s), FM_NEVER);
	fm_sched_free(t.w.s);
}

static void refused_where_it_comes_to(void **state)
{
	struct program *g, *x, *y;
	struct world w;

	world_init(&w, "fixed-priority", NULL, 2);
	g = with_priority(&w, A | B, 0);
	x = with_priority(&w, A, -1);
	y = with_priority(&w, B, 1);
	start(&w, x);
	start(&w, y);
	set_work(&w, g, A, true);
	assert_true(runs(g) && !runs(x));
	set_work(&w, g, B, true);
	assert_true(!g->rank[0].open && runs(x) && runs(y));
	assert_string_equal(info(&w, g, 0).reason, WAITS_ON("B"));
	set_work(&w, g, B, false);
	assert_true(runs(g) && !runs(x) && runs(y));
	fm_sched_free(w.s);
}

static void hint_takes_it_apart(void **state)
{
	struct trio t;

	setup(&t);
	start(&t.w, t.urgent);
	hint(&t.w, t.g, FM_HINT_GANG, 0);
	assert_true(!t.g->rank[0].open && t.g->rank[1].open && !runs(t.other));
	stop(&t.w, t.urgent);
	start(&t.w, t.urgent);
	assert_true(!t.g->rank[0].open && t.g->rank[1].open);
	hint(&t.w, t.g, FM_HINT_GANG, 1);
	assert_true(!t.g->rank[1].open && runs(t.other));
	assert_int_equal(fm_sched_hint(t.w.s, t.g->g, FM_HINT_GANG, 2, t.w.now), -ERANGE);
	fm_sched_free(t.w.s);
}

static void idle_it_has_no_open_gate_while_it_waits(void **state)
{
	struct trio t;

	setup(&t);
	set_work(&t.w, t.g, B, false);
	assert_true(t.g->rank[1].open); /* it would run at once */
	start(&t.w, t.urgent);
	assert_false(t.g->rank[1].open); /* it would not */
	assert_int_equal(info(&t.w, t.g, 1).state, FM_ENT_IDLE);
	set_work(&t.w, t.g, B, true);
	assert_true(!t.g->rank[1].open && runs(t.other));
	set_work(&t.w, t.g, B, false);
	stop(&t.w, t.urgent);
	assert_true(runs(t.g) && t.g->rank[1].open);
	fm_sched_free(t.w.s);
}

static void alone_on_a_device_it_is_heard_if_others_are_on_another(void **state)
{
	struct program *g, *u;
	struct world w;

	world_init(&w, "fixed-priority", NULL, 2);
	g = program_on(&w, A | B);
	for (unsigned d = 0; d < 2; d++)
		assert_true(g->rank[d].open && !g->rank[d].bell_ready && !g->rank[d].bell_idle);
	u = with_priority(&w, A, 10);
	assert_true(g->rank[0].bell_ready && g->rank[1].bell_ready);
	hint(&w, g, FM_HINT_GANG, 0);
	assert_true(g->rank[0].bell_ready && !g->rank[1].bell_ready);
	hint(&w, g, FM_HINT_GANG, 1);
	assert_true(g->rank[1].bell_ready);
	set_work(&w, g, A, true);
	start(&w, u);
	assert_false(g->rank[0].open || g->rank[1].open);
	set_work(&w, g, B, true);
	assert_false(g->rank[1].open);
	fm_sched_group_del(w.s, u->g, w.now);
	w.n--; /* u was the last */
	assert_true(runs(g));
	stop(&w, g);
	assert_false(g->rank[0].bell_ready || g->rank[1].bell_ready);
	u = program_on(&w, A);
	assert_true(g->rank[0].bell_ready && g->rank[1].bell_ready);
	fm_sched_group_del(w.s, u->g, w.now);
	w.n--;
	assert_false(g->rank[0].bell_ready || g->rank[1].bell_ready);
	fm_sched_free(w.s);
}

static void held_time_is_waiting_and_not_charged(void **state)
{
	struct trio t;
	uint64_t served;

	setup(&t);
	run(&t.w, 10 * FM_MS);
	start(&t.w, t.urgent);
	served = info(&t.w, t.g, 1).served_ns;
	assert_int_equal(served, 10 * FM_MS);
	run(&t.w, 10 * FM_MS);
	for (unsigned d = 0; d < 2; d++) {
		assert_int_equal(info(&t.w, t.g, d).served_ns, served);
		assert_int_equal(info(&t.w, t.g, d).ready_wait_ns, 10 * FM_MS);
	}
	assert_int_equal(info(&t.w, t.other, 1).served_ns, 10 * FM_MS);
	fm_sched_free(t.w.s);
}

/* What lingers has no work: where it is refused, nobody needs to wait for it. */
static void lingering_ranks_stop_nobody(void **state)
{
	struct program *g, *y;
	struct world w;

	world_init(&w, "fixed-priority", NULL, 2);
	fm_sched_linger(w.s, FM_MS);
	g = program_on(&w, A | B);
	y = with_priority(&w, B, 10);
	program_on(&w, A);
	start(&w, g);
	set_work(&w, g, B, false);
	assert_true(runs(g) && g->rank[1].open);
	start(&w, y);
	assert_true(g->rank[0].open && !g->rank[1].open && runs(y));
	set_work(&w, g, B, true);
	assert_false(g->rank[0].open || g->rank[1].open);
	stop(&w, y);
	assert_false(g->rank[0].open); /* y lingers */
	w.now += FM_MS;
	tick(&w);
	assert_true(runs(g));
	fm_sched_free(w.s);
}

/* A pause on one device, while another has the turn there that it needs: it keeps nothing, and is
 * no reason to leave that other device idle. */
static void held_it_lingers_nowhere(void **state)
{
	struct program *g, *first, *other;
	struct world w;

	world_init(&w, "fixed-priority", NULL, 3);
	fm_sched_linger(w.s, FM_MS);
	g = with_priority(&w, A | B, 0);
	first = with_priority(&w, B | C, 1);
	other = with_priority(&w, C, 2);
	program_on(&w, A);
	start(&w, g);
	assert_true(runs(g));
	set_work(&w, g, A, false);
	assert_true(g->rank[0].open);
	start(&w, other);
	start(&w, first);
	assert_true(runs(other) && !runs(first)); /* first has B, and waits for C */
	assert_true(g->rank[1].open);
	set_work(&w, g, A, true);
	assert_false(g->rank[0].open || g->rank[1].open);
	fm_sched_free(w.s);
}

static void suspended_by_hand_it_is_nobodys_gang(void **state)
{
	struct trio t;

	setup(&t);
	fm_sched_suspend(t.w.s, t.g->g, true, t.w.now);
	assert_true(!t.g->rank[0].open && !t.g->rank[1].open && runs(t.other));
	assert_int_equal(info(&t.w, t.g, 1).state, FM_ENT_SUSPENDED);
	start(&t.w, t.urgent);
	fm_sched_suspend(t.w.s, t.g->g, false, t.w.now);
	assert_true(!t.g->rank[0].open && !t.g->rank[1].open && runs(t.other));
	fm_sched_suspend(t.w.s, t.urgent->g, true, t.w.now);
	assert_true(runs(t.g) && !runs(t.other));
	fm_sched_free(t.w.s);
}

static void segment_takes_all_its_devices_or_none(void **state)
{
	struct program *g, *u, *v;
	struct world w;

	world_init(&w, "fixed-priority", NULL, 2);
	g = program_on(&w, A | B);
	u = with_priority(&w, A, 10);
	v = with_priority(&w, B, 20);
	start(&w, u);
	start(&w, v);
	assert_int_equal(fm_sched_segment_begin(w.s, g->g, 15, w.now), 0);
	assert_true(runs(u) && runs(v) && !g->rank[0].open);
	assert_int_equal(fm_sched_segment_begin(w.s, g->g, 30, w.now), 0);
	assert_true(!runs(u) && !runs(v) && g->rank[0].open && g->rank[1].open);
	assert_int_equal(fm_sched_segment_end(w.s, g->g, w.now), 0);
	assert_true(runs(u) && runs(v));
	assert_int_equal(fm_sched_segment_end(w.s, g->g, w.now), 0);
	fm_sched_free(w.s);
}

static void leaving_the_device_that_refuses_it_frees_it(void **state)
{
	struct trio t;

	setup(&t);
	start(&t.w, t.urgent);
	fm_sched_ent_del(t.w.s, t.g->rank[0].e, t.w.now);
	t.g->rank[0] = (struct rank){.p = t.g};
	assert_true(t.g->rank[1].open && !runs(t.other));
	fm_sched_group_del(t.w.s, t.g->g, t.w.now);
	t.g->rank[1] = (struct rank){.p = t.g};
	assert_true(runs(t.other) && runs(t.urgent));
	fm_sched_free(t.w.s);
}

static void another_policy_begins_anew(void **state)
{
	struct trio t;

	setup(&t);
	start(&t.w, t.urgent);
	assert_int_equal(fm_sched_policy(t.w.s, "fifo", NULL, 0, t.w.now, NULL), 0);
	assert_true(runs(t.g) && runs(t.other) && runs(t.urgent));
	assert_int_equal(fm_sched_policy(t.w.s, "fixed-priority", NULL, 0, t.w.now, NULL), 0);
	assert_true(!t.g->rank[0].open && !t.g->rank[1].open && runs(t.other));
	assert_int_equal(fm_sched_policy(t.w.s, "round-robin", NULL, 0, t.w.now, NULL), 0);
	check_whole(&t.w);
	fm_sched_free(t.w.s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(urgent_work_on_one_device_stops_it_on_both),
		cmocka_unit_test(refused_where_it_comes_to),
		cmocka_unit_test(hint_takes_it_apart),
		cmocka_unit_test(idle_it_has_no_open_gate_while_it_waits),
		cmocka_unit_test(alone_on_a_device_it_is_heard_if_others_are_on_another),
		cmocka_unit_test(held_time_is_waiting_and_not_charged),
		cmocka_unit_test(lingering_ranks_stop_nobody),
		cmocka_unit_test(held_it_lingers_nowhere),
		cmocka_unit_test(suspended_by_hand_it_is_nobodys_gang),
		cmocka_unit_test(segment_takes_all_its_devices_or_none),
		cmocka_unit_test(leaving_the_device_that_refuses_it_frees_it),
		cmocka_unit_test(another_policy_begins_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
