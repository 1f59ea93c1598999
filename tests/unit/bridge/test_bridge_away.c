/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is put out by hand: what clients are asked for, and when their groups go on. */
#include "bridge_world.h"

static struct fm_ledger *give_ledger(struct world *w, struct client *c, bool managed)
{
	struct fm_ledger *l;

	assert_int_equal(fm_ledger_create(&l, NULL), 0);
	l->managed = managed;
	atomic_store(&l->device[0].wish, FM_MEM_OUT); /* of an earlier daemon */
	snprintf(l->device[0].key, sizeof(l->device[0].key), "%s", DEVICE);
	atomic_store(&l->device[0].kind[FM_MEM_MOVABLE], 100);
	atomic_store(&l->device[0].resident, 100);
	atomic_store(&l->device[0].capacity, 1000);
	assert_int_equal(fm_bridge_ledger(w->b, c->c, l), 0);
	assert_int_equal(atomic_load(&l->device[0].wish), FM_MEM_STAY);
	return l;
}

static void goes_out(struct fm_ledger *l)
{
	atomic_store(&l->device[0].resident, 0);
	atomic_store(&l->device[0].host, 100);
}

static void comes_in(struct fm_ledger *l)
{
	atomic_store(&l->device[0].host, 0);
	atomic_store(&l->device[0].resident, 100);
}

static int out(struct world *w, struct client *c)
{
	struct fm_err err = {0};
	int rc = fm_bridge_group_out(w->b, group_of(c, 0), w->now, &err);

	assert_true(!rc || (err.text[0] && err.hint[0]));
	return rc;
}

static void a_group_goes_on_when_its_memory_is_in(void **state)
{
	struct world *w = *state;
	struct fm_bridge_away a;
	struct fm_ledger *l;

	assert_int_equal(add_queue(w, &w->a, 0), 0);
	l = give_ledger(w, &w->a, true);
	w->a.wakes = 0;
	assert_int_equal(out(w, &w->a), 0);
	assert_false(open_gate(&w->a, 0));
	assert_int_equal(atomic_load(&l->device[0].wish), FM_MEM_OUT);
	assert_true(w->a.wakes);
	goes_out(l);
	fm_bridge_group_away(group_of(&w->a, 0), &a);
	assert_int_equal(a.wish, FM_MEM_OUT);
	assert_int_equal(a.host, 100);
	assert_int_equal(a.resident, 0);
	w->a.wakes = 0;
	assert_true(fm_bridge_group_back(w->b, group_of(&w->a, 0), w->now));
	assert_int_equal(atomic_load(&l->device[0].wish), FM_MEM_IN);
	assert_true(w->a.wakes);
	pass(w, FM_S);
	assert_false(open_gate(&w->a, 0));
	comes_in(l);
	pass(w, 10 * FM_MS);
	assert_true(open_gate(&w->a, 0));
	assert_int_equal(atomic_load(&l->device[0].wish), FM_MEM_STAY);
	assert_false(fm_bridge_group_back(w->b, group_of(&w->a, 0), w->now));
	assert_int_equal(fm_bridge_run(w->b, w->now) > w->now + FM_S, true); /* looks no more */
}

static void claim(struct fm_ledger *l, uint64_t bytes)
{
	atomic_store(&l->device[0].claimed, bytes);
	atomic_store(&l->device[0].kind[FM_MEM_MOVABLE], bytes);
	atomic_store(&l->device[0].resident, bytes);
}

/* On a device that counts as smaller than it is, of which another has most. */
static void it_comes_in_as_there_is_room(void **state)
{
	static const struct fm_bridge_memory small = {.device = 150}, large = {.device = 0};
	struct fm_bridge_group *g;
	struct world *w = *state;
	struct fm_ledger *a, *b;
	struct fm_bridge_away away;

	fm_bridge_memory_settings(w->b, &small);
	assert_int_equal(add_queue(w, &w->a, 0), 0);
	assert_int_equal(add_queue(w, &w->z, 0), 0);
	g = group_of(&w->a, 0);
	a = give_ledger(w, &w->a, true);
	claim(a, 100);
	assert_int_equal(out(w, &w->a), 0);
	goes_out(a);
	b = give_ledger(w, &w->z, false);
	claim(b, 90);
	assert_true(fm_bridge_group_back(w->b, g, w->now));
	pass(w, 10 * FM_MS);
	assert_int_equal(atomic_load(&a->device[0].wish), FM_MEM_OUT);
	assert_int_equal(atomic_load(&a->device[0].share), 60);
	fm_bridge_group_away(g, &away);
	assert_int_equal(away.wish, FM_MEM_IN);
	assert_int_equal(away.trouble, FM_MEM_DEVICE_FULL);
	atomic_store(&a->device[0].resident, 60);
	atomic_store(&a->device[0].host, 40);
	pass(w, FM_S);
	assert_int_equal(atomic_load(&a->device[0].share), 60);
	assert_false(open_gate(&w->a, 0));
	claim(b, 70);
	pass(w, FM_S);
	assert_int_equal(atomic_load(&a->device[0].share), 80);
	claim(b, 50);
	pass(w, FM_S);
	assert_int_equal(atomic_load(&a->device[0].wish), FM_MEM_IN);
	comes_in(a);
	pass(w, FM_S);
	assert_int_equal(atomic_load(&a->device[0].wish), FM_MEM_STAY);
	assert_true(open_gate(&w->a, 0));
	/* More than the device counts as having: it is not kept out for ever. */
	assert_int_equal(out(w, &w->a), 0);
	claim(a, 200);
	atomic_store(&a->device[0].resident, 0);
	atomic_store(&a->device[0].host, 200);
	assert_true(fm_bridge_group_back(w->b, g, w->now));
	pass(w, 10 * FM_MS);
	assert_int_equal(atomic_load(&a->device[0].wish), FM_MEM_IN);
	fm_bridge_memory_settings(w->b, &large);
	fm_bridge_detach(w->b, w->a.c, w->now);
	fm_bridge_detach(w->b, w->z.c, w->now);
	fm_ledger_unmap(a);
	fm_ledger_unmap(b);
	assert_int_equal(attach(w, &w->a, ALICE, 33, "beta"), 0);
	assert_int_equal(attach(w, &w->z, ALICE, 34, "zeta"), 0);
}

/* A claim that nobody can have holds it for some seconds. */
static void no_claim_keeps_it_out(void **state)
{
	static const struct fm_bridge_memory small = {.device = 150}, large = {.device = 0};
	struct world *w = *state;
	struct fm_bridge_group *g;
	struct fm_ledger *a, *b;

	fm_bridge_memory_settings(w->b, &small);
	assert_int_equal(add_queue(w, &w->a, 0), 0);
	g = group_of(&w->a, 0);
	a = give_ledger(w, &w->a, true);
	claim(a, 100);
	assert_int_equal(out(w, &w->a), 0);
	goes_out(a);
	b = give_ledger(w, &w->z, false);
	claim(b, 90);
	assert_true(fm_bridge_group_back(w->b, g, w->now));
	pass(w, 4 * FM_S);
	assert_int_equal(atomic_load(&a->device[0].share), 60);
	claim(b, 70);
	pass(w, 4 * FM_S);
	assert_int_equal(atomic_load(&a->device[0].share), 80);
	claim(b, UINT64_MAX);
	pass(w, 4 * FM_S);
	assert_int_equal(atomic_load(&a->device[0].wish), FM_MEM_IN);
	comes_in(a);
	pass(w, FM_S);
	assert_int_equal(atomic_load(&a->device[0].wish), FM_MEM_STAY);
	assert_true(open_gate(&w->a, 0));
	fm_bridge_memory_settings(w->b, &large);
	fm_bridge_detach(w->b, w->a.c, w->now);
	fm_bridge_detach(w->b, w->z.c, w->now);
	fm_ledger_unmap(a);
	fm_ledger_unmap(b);
	assert_int_equal(attach(w, &w->a, ALICE, 33, "beta"), 0);
	assert_int_equal(attach(w, &w->z, ALICE, 34, "zeta"), 0);
}

static void out_again_while_it_comes_in(void **state)
{
	struct world *w = *state;
	struct fm_ledger *l;

	assert_int_equal(add_queue(w, &w->a, 0), 0);
	l = give_ledger(w, &w->a, true);
	assert_int_equal(out(w, &w->a), 0);
	goes_out(l);
	assert_true(fm_bridge_group_back(w->b, group_of(&w->a, 0), w->now));
	assert_int_equal(out(w, &w->a), 0);
	assert_int_equal(atomic_load(&l->device[0].wish), FM_MEM_OUT);
	comes_in(l); /* late */
	pass(w, FM_S);
	assert_false(open_gate(&w->a, 0));
}

/* Whoever suspends it while its memory comes in wants it suspended. */
static void suspended_while_it_comes_in(void **state)
{
	struct world *w = *state;
	struct fm_ledger *l;

	assert_int_equal(add_queue(w, &w->a, 0), 0);
	l = give_ledger(w, &w->a, true);
	assert_int_equal(out(w, &w->a), 0);
	goes_out(l);
	assert_true(fm_bridge_group_back(w->b, group_of(&w->a, 0), w->now));
	fm_bridge_group_suspend(w->b, group_of(&w->a, 0), true, w->now);
	comes_in(l);
	pass(w, FM_S);
	assert_int_equal(atomic_load(&l->device[0].wish), FM_MEM_STAY);
	assert_false(open_gate(&w->a, 0));
	assert_false(fm_bridge_group_back(w->b, group_of(&w->a, 0), w->now));
	fm_bridge_group_suspend(w->b, group_of(&w->a, 0), false, w->now);
	assert_true(open_gate(&w->a, 0));
}

/* And resumed once more, it goes on. */
static void resumed_twice_while_it_comes_in(void **state)
{
	struct world *w = *state;
	struct fm_ledger *l;

	assert_int_equal(add_queue(w, &w->a, 0), 0);
	l = give_ledger(w, &w->a, true);
	assert_int_equal(out(w, &w->a), 0);
	goes_out(l);
	assert_true(fm_bridge_group_back(w->b, group_of(&w->a, 0), w->now));
	fm_bridge_group_suspend(w->b, group_of(&w->a, 0), true, w->now);
	assert_true(fm_bridge_group_back(w->b, group_of(&w->a, 0), w->now));
	pass(w, FM_S);
	assert_false(open_gate(&w->a, 0));
	comes_in(l);
	pass(w, 10 * FM_MS);
	assert_true(open_gate(&w->a, 0));
}

/* The daemon looks ever less often at one that never answers. */
static void a_client_that_never_answers_costs_little(void **state)
{
	struct world *w = *state;
	struct fm_ledger *l;
	unsigned looks = 0;

	assert_int_equal(add_queue(w, &w->a, 0), 0);
	l = give_ledger(w, &w->a, true);
	assert_int_equal(out(w, &w->a), 0);
	goes_out(l);
	assert_true(fm_bridge_group_back(w->b, group_of(&w->a, 0), w->now));
	for (uint64_t end = w->now + 60 * FM_S; w->now < end; looks++) {
		uint64_t due = fm_bridge_run(w->b, w->now);

		assert_true(due > w->now && due <= w->now + 200 * FM_MS);
		w->now = due;
	}
	assert_true(looks < 2000);
	comes_in(l);
	pass(w, 200 * FM_MS);
	assert_true(open_gate(&w->a, 0));
}

static uint32_t wish_of(const struct fm_ledger *l)
{
	return atomic_load(&l->device[0].wish);
}

/* Memory is where that of its group is to be: with what joins, and with what leaves. */
static void a_client_changes_its_group(void **state)
{
	struct world *w = *state;
	struct client b = {0};
	struct fm_ledger *l, *m;

	assert_int_equal(add_queue(w, &w->a, 0), 0);
	l = give_ledger(w, &w->a, true);
	assert_int_equal(name_group(w, &w->a, 0, "out"), 0);
	assert_int_equal(out(w, &w->a), 0);
	assert_int_equal(attach(w, &b, ALICE, 33, "beta"), 0);
	m = give_ledger(w, &b, true);
	b.wakes = 0;
	assert_int_equal(name_group(w, &b, 0, "out"), 0);
	assert_int_equal(wish_of(m), FM_MEM_OUT);
	assert_true(b.wakes);
	w->a.wakes = 0;
	assert_int_equal(name_group(w, &w->a, 0, "here"), 0);
	assert_int_equal(wish_of(l), FM_MEM_STAY);
	assert_int_equal(wish_of(m), FM_MEM_OUT);
	assert_true(w->a.wakes);
	/* An index of its own is no matter of its memory. */
	assert_int_equal(name_group(w, &w->a, 1, "out"), 0);
	assert_int_equal(wish_of(l), FM_MEM_STAY);
	fm_bridge_detach(w->b, b.c, w->now);
	fm_board_unmap(b.board);
	fm_ledger_unmap(m);
}

static void what_is_not_managed_is_refused(void **state)
{
	struct world *w = *state;
	struct fm_bridge_away a;
	struct fm_ledger *l;

	assert_int_equal(add_queue(w, &w->a, 0), 0);
	assert_int_equal(out(w, &w->a), -EOPNOTSUPP);
	l = give_ledger(w, &w->a, false);
	assert_int_equal(out(w, &w->a), -EOPNOTSUPP);
	assert_true(open_gate(&w->a, 0));
	assert_int_equal(add_queue(w, &w->z, 0), 0);
	l = give_ledger(w, &w->z, true);
	atomic_store(&l->device[0].trouble, FM_MEM_REFUSED_RANKS);
	assert_int_equal(out(w, &w->z), -EOPNOTSUPP);
	assert_int_equal(atomic_load(&l->device[0].wish), FM_MEM_STAY);
	/* What one device cannot, or has no addresses for, keeps nothing of another. */
	for (unsigned i = 0; i < 2; i++) {
		atomic_store(&l->device[0].trouble,
			(uint32_t)(i ? FM_MEM_REFUSED_ADDRESSES : FM_MEM_REFUSED));
		fm_bridge_group_away(group_of(&w->z, 0), &a);
		assert_true(a.trouble == FM_MEM_FINE && a.processes == 1);
		atomic_store(&l->device[0].kind[FM_MEM_MOVABLE], 0);
		fm_bridge_group_away(group_of(&w->z, 0), &a);
		assert_true(a.trouble == (i ? FM_MEM_REFUSED_ADDRESSES : FM_MEM_REFUSED));
		assert_int_equal(out(w, &w->z), -EOPNOTSUPP);
		atomic_store(&l->device[0].kind[FM_MEM_MOVABLE], 100);
	}
	/* What is no reason that is known is none. */
	atomic_store(&l->device[0].trouble, 12345);
	fm_bridge_group_away(group_of(&w->z, 0), &a);
	assert_int_equal(a.trouble, FM_MEM_FINE);
	assert_int_equal(out(w, &w->z), 0);
}

/* A wish of now, and one that a program began with. */
static void what_is_to_stay_is_refused(void **state)
{
	struct world *w = *state;
	struct fm_bridge_away a;
	struct fm_ledger *l;

	assert_int_equal(add_queue(w, &w->a, 0), 0);
	l = give_ledger(w, &w->a, true);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_MEMORY_PIN, 1), 0);
	assert_int_equal(out(w, &w->a), -EPERM);
	assert_int_equal(atomic_load(&l->device[0].wish), FM_MEM_STAY);
	assert_true(open_gate(&w->a, 0));
	assert_int_equal(give_hint(w, &w->a, FM_HINT_MEMORY_PIN, 0), 0);
	atomic_store(&l->device[0].kind[FM_MEM_PIN_WISH], 50);
	fm_bridge_group_away(group_of(&w->a, 0), &a);
	assert_true(a.wished == 50 && a.stays == 50 && a.movable == 100);
	assert_int_equal(out(w, &w->a), 0); /* another process has some that moves */
	assert_true(fm_bridge_group_back(w->b, group_of(&w->a, 0), w->now));
	atomic_store(&l->device[0].kind[FM_MEM_MOVABLE], 0);
	assert_int_equal(out(w, &w->a), -EPERM);
}

/* One process of several that cannot be moved keeps nothing of the others. */
static void what_can_be_moved_of_a_group_is(void **state)
{
	struct world *w = *state;
	struct fm_bridge_away a;
	struct fm_ledger *refused, *plain, *l;
	struct client c = {0};

	assert_int_equal(add_queue(w, &w->a, 0), 0);
	refused = give_ledger(w, &w->a, true);
	assert_int_equal(attach(w, &c, ALICE, 11, "alpha"), 0);
	plain = give_ledger(w, &c, false);
	atomic_store(&refused->device[0].kind[FM_MEM_MOVABLE], 0);
	atomic_store(&plain->device[0].kind[FM_MEM_MOVABLE], 0);
	atomic_store(&refused->device[0].trouble, FM_MEM_REFUSED_IPC);
	assert_int_equal(name_group(w, &w->a, 0, "all"), 0);
	assert_int_equal(name_group(w, &c, 0, "all"), 0);
	assert_int_equal(out(w, &w->a), -EOPNOTSUPP);
	l = give_ledger(w, &w->z, true);
	assert_int_equal(name_group(w, &w->z, 0, "all"), 0);
	assert_int_equal(out(w, &w->a), 0);
	assert_int_equal(wish_of(l), FM_MEM_OUT);
	assert_int_equal(wish_of(plain), FM_MEM_STAY);
	fm_bridge_group_away(group_of(&w->a, 0), &a);
	assert_int_equal(a.processes, 1);
	assert_int_equal(a.trouble, FM_MEM_REFUSED_IPC);
	assert_false(a.pinned || a.goes_on);
	atomic_store(&l->device[0].kind[FM_MEM_PIN_UNKNOWN], 5 << 20);
	atomic_store(&l->device[0].kind[FM_MEM_POOL], 1 << 20);
	fm_bridge_group_away(group_of(&w->a, 0), &a);
	assert_true(a.pinned == 5 << 20 && a.stays >= 6 << 20);
	atomic_store(&l->device[0].trouble, FM_MEM_HOST_FULL);
	fm_bridge_group_away(group_of(&w->a, 0), &a);
	assert_int_equal(a.trouble, FM_MEM_HOST_FULL);
	fm_bridge_detach(w->b, c.c, w->now);
	fm_board_unmap(c.board);
	fm_ledger_unmap(plain);
}

/* All of a process would rest. */
static void a_process_of_two_groups_needs_both(void **state)
{
	struct world *w = *state;

	assert_int_equal(add_queue(w, &w->a, 0), 0);
	assert_int_equal(name_group(w, &w->a, 1, "other"), 0);
	assert_int_equal(add_queue_on(w, &w->a, 1, 1, DEVICE), 0);
	give_ledger(w, &w->a, true);
	assert_int_equal(out(w, &w->a), -EBUSY);
	assert_true(open_gate(&w->a, 0));
	fm_bridge_group_suspend(w->b, group_of(&w->a, 1), true, w->now);
	assert_int_equal(out(w, &w->a), 0);
}

/* A group goes on when the memory of its processes is in, whichever group that went out for. */
static void both_groups_of_a_process_need_its_memory(void **state)
{
	struct world *w = *state;
	struct fm_ledger *l;

	assert_int_equal(add_queue(w, &w->a, 0), 0);
	assert_int_equal(name_group(w, &w->a, 1, "other"), 0);
	assert_int_equal(add_queue_on(w, &w->a, 1, 1, DEVICE), 0);
	l = give_ledger(w, &w->a, true);
	fm_bridge_group_suspend(w->b, group_of(&w->a, 1), true, w->now);
	assert_int_equal(out(w, &w->a), 0);
	goes_out(l);
	assert_true(fm_bridge_group_back(w->b, group_of(&w->a, 1), w->now));
	assert_int_equal(wish_of(l), FM_MEM_IN);
	pass(w, FM_S);
	assert_false(open_gate(&w->a, 1));
	comes_in(l);
	pass(w, 10 * FM_MS);
	assert_true(open_gate(&w->a, 1));
	assert_false(open_gate(&w->a, 0));
	assert_true(fm_bridge_group_back(w->b, group_of(&w->a, 0), w->now));
	pass(w, 10 * FM_MS);
	assert_int_equal(wish_of(l), FM_MEM_STAY);
	fm_bridge_group_suspend(w->b, group_of(&w->a, 1), true, w->now);
	assert_true(open_gate(&w->a, 0));
}

/* A lie keeps its own group suspended, and nobody else; sums stay within what can be. */
static void lies_harm_their_own_group(void **state)
{
	struct world *w = *state;
	struct fm_bridge_away a;
	struct fm_ledger *l;

	two_on_a_device(w);
	l = give_ledger(w, &w->a, true);
	assert_int_equal(out(w, &w->a), 0);
	for (unsigned i = 0; i < FM_LEDGER_DEVICES; i++) {
		atomic_store(&l->device[i].host, UINT64_MAX);
		atomic_store(&l->device[i].resident, UINT64_MAX);
		for (unsigned k = 0; k < FM_MEM_KINDS; k++)
			atomic_store(&l->device[i].kind[k], UINT64_MAX);
	}
	fm_bridge_group_away(group_of(&w->a, 0), &a);
	assert_true(a.host <= a.movable && a.resident <= a.movable);
	assert_true(fm_bridge_group_back(w->b, group_of(&w->a, 0), w->now));
	pass(w, FM_S);
	assert_false(open_gate(&w->a, 0));
	assert_true(open_gate(&w->z, 5));
}

static void a_group_may_end_meanwhile(void **state)
{
	struct world *w = *state;
	struct fm_ledger *l;

	assert_int_equal(add_queue(w, &w->a, 0), 0);
	l = give_ledger(w, &w->a, true);
	assert_int_equal(out(w, &w->a), 0);
	goes_out(l);
	assert_true(fm_bridge_group_back(w->b, group_of(&w->a, 0), w->now));
	fm_bridge_detach(w->b, w->a.c, w->now);
	pass(w, 2 * FM_S);
	assert_int_equal(attach(w, &w->a, ALICE, 33, "beta"), 0);
	fm_ledger_unmap(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_group_goes_on_when_its_memory_is_in, setup, teardown),
		cmocka_unit_test_setup_teardown(it_comes_in_as_there_is_room, setup, teardown),
		cmocka_unit_test_setup_teardown(no_claim_keeps_it_out, setup, teardown),
		cmocka_unit_test_setup_teardown(out_again_while_it_comes_in, setup, teardown),
		cmocka_unit_test_setup_teardown(suspended_while_it_comes_in, setup, teardown),
		cmocka_unit_test_setup_teardown(resumed_twice_while_it_comes_in, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_client_that_never_answers_costs_little, setup, teardown),
		cmocka_unit_test_setup_teardown(a_client_changes_its_group, setup, teardown),
		cmocka_unit_test_setup_teardown(
			both_groups_of_a_process_need_its_memory, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_not_managed_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_to_stay_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(what_can_be_moved_of_a_group_is, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_process_of_two_groups_needs_both, setup, teardown),
		cmocka_unit_test_setup_teardown(lies_harm_their_own_group, setup, teardown),
		cmocka_unit_test_setup_teardown(a_group_may_end_meanwhile, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
