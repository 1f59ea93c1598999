/* SPDX-License-Identifier: Apache-2.0 */
/* The bridge with boards of this process: what clients claim in, what they see on their boards out.
 */
#include "bridge_world.h"

static void the_urgent_stop_the_others(void **state)
{
	struct world *w = *state;

	two_on_a_device(w);
	begin(&w->a, 0, 3);
	ring(w, &w->a);
	assert_true(open_gate(&w->a, 0));
	pass(w, FM_MS);
	begin(&w->z, 5, 1);
	ring(w, &w->z);
	assert_false(open_gate(&w->a, 0));
	finish(w, &w->a, 0);
	begin(&w->a, 0, 1);
	pass(w, 10 * FM_MS);
	assert_true(open_gate(&w->z, 5));
	assert_false(open_gate(&w->a, 0));
	finish(w, &w->z, 5);
	ring(w, &w->z);
	pass(w, 10 * FM_MS);
	assert_true(open_gate(&w->a, 0));
}

/* Who does not sleep need not be rung for. */
static void work_is_seen_without_a_bell(void **state)
{
	struct world *w = *state;

	two_on_a_device(w);
	assert_false(fm_bridge_look(w->b, w->now));
	begin(&w->a, 0, 3);
	assert_true(fm_bridge_look(w->b, w->now));
	assert_false(fm_bridge_look(w->b, w->now)); /* once */
	begin(&w->z, 5, 1);
	assert_true(fm_bridge_look(w->b, w->now));
	assert_false(open_gate(&w->a, 0));
	ring(w, &w->z); /* the bell comes all the same */
	assert_false(open_gate(&w->a, 0));
	finish(w, &w->z, 5);
	ring(w, &w->z);
	pass(w, 10 * FM_MS);
	assert_true(open_gate(&w->a, 0));
	atomic_store(&w->z.board->slot[5].hold, FM_HOLD_RESTS);
	begin(&w->z, 5, 1);
	assert_false(fm_bridge_look(w->b, w->now)); /* the program itself has stopped it */
	fm_bridge_detach(w->b, w->z.c, w->now);
	finish(w, &w->a, 0);
	ring(w, &w->a);
	assert_false(fm_bridge_look(w->b, w->now));
}

static void on_note(void *ctx, const struct fm_bridge_note *n)
{
	struct fm_bridge_note *stall = ctx;

	if (n->event == FM_EV_stalled)
		*stall = *n;
}

/* a is stopped for the sake of z, and another has the device, too, when a comes to rest. */
static struct fm_bridge_group *cause_of_stop(struct world *w, bool gone)
{
	struct fm_bridge_note stall = {0};
	struct client m;

	two_on_a_device(w);
	fm_bridge_tracer(w->b, &(struct fm_bridge_tracer){.ctx = &stall, .note = on_note});
	assert_int_equal(attach(w, &m, ALICE, 33, "mid"), 0);
	assert_int_equal(add_queue(w, &m, 0), 0);
	begin(&w->a, 0, 1);
	ring(w, &w->a);
	begin(&w->z, 5, 1);
	ring(w, &w->z);
	begin(&m, 0, 1);
	ring(w, &m);
	if (gone)
		fm_bridge_detach(w->b, w->z.c, w->now);
	assert_false(open_gate(&w->a, 0));
	assert_null(stall.group);
	finish(w, &w->a, 0);
	atomic_fetch_add(&w->a.board->slot[0].begun, 1); /* behind the gate */
	pass(w, 20 * FM_MS);
	assert_ptr_equal(stall.group, group_of(&w->a, 0));
	fm_bridge_tracer(w->b, &(struct fm_bridge_tracer){0});
	fm_bridge_detach(w->b, m.c, w->now);
	fm_board_unmap(m.board);
	return stall.cause;
}

static void a_stop_has_a_cause(void **state)
{
	struct world *w = *state;

	assert_ptr_equal(cause_of_stop(w, false), group_of(&w->z, 0));
}

static void a_cause_that_is_gone_is_none(void **state)
{
	assert_null(cause_of_stop(*state, true));
}

static void sleepers_are_woken_once(void **state)
{
	struct world *w = *state;

	two_on_a_device(w);
	assert_int_equal(add_queue(w, &w->a, 1), 0);
	assert_int_equal(add_queue(w, &w->a, 2), 0);
	begin(&w->a, 0, 1);
	ring(w, &w->a);
	atomic_store(&w->a.board->agent_sleeps, 1);
	w->a.wakes = 0;
	begin(&w->z, 5, 1);
	ring(w, &w->z);
	assert_false(open_gate(&w->a, 1));
	assert_int_equal(w->a.wakes, 1);
	assert_int_equal(w->z.wakes, 0);
}

static void slots_are_taken_and_given_back(void **state)
{
	struct world *w = *state;
	union fm_msg gone = {.queue_gone = {.slot = 5}};

	two_on_a_device(w);
	assert_int_equal(add_queue(w, &w->a, 0), -EBADMSG);
	begin(&w->a, 0, 1);
	ring(w, &w->a);
	fm_bridge_group_suspend(w->b, group_of(&w->z, 0), true, w->now);
	assert_false(open_gate(&w->z, 5));
	assert_int_equal(tell(w, &w->z, gone, FM_MSG_QUEUE_GONE), 0);
	assert_true(open_gate(&w->z, 5));
	assert_int_equal(atomic_load(&w->z.board->slot[5].bells), 0);
	assert_int_equal(tell(w, &w->z, gone, FM_MSG_QUEUE_GONE), 0);
	assert_int_equal(add_queue(w, &w->z, 5), 0);
	assert_false(open_gate(&w->z, 5));
}

static void messages_of_a_daemon_are_lies(void **state)
{
	struct world *w = *state;

	assert_int_equal(tell(w, &w->a, (union fm_msg){0}, FM_MSG_WAKE), -EBADMSG);
	assert_int_equal(
		tell(w, &w->a, (union fm_msg){.refused = {.code = -1}}, FM_MSG_REFUSED), -EBADMSG);
}

static void devices_cannot_be_made_up_without_end(void **state)
{
	struct world *w = *state;
	char key[16];
	int rc = 0;

	for (unsigned i = 0; i < 100 && !rc; i++) {
		snprintf(key, sizeof(key), "sim:%u", i);
		rc = add_queue_on(w, &w->a, i, 0, key);
	}
	assert_int_equal(rc, -EDQUOT);
}

static void names_are_shared_within_a_user(void **state)
{
	struct world *w = *state;
	struct client bob = {0};
	struct fm_bridge_group_info i;

	assert_int_equal(add_queue(w, &w->a, 0), 0);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_WEIGHT, 77), 0);
	fm_bridge_group_info(group_of(&w->a, 0), &i);
	assert_string_equal(i.name, "alpha-11");
	assert_int_equal(name_group(w, &w->a, 0, "train"), 0); /* renamed: keeps what it is */
	assert_int_equal(add_queue(w, &w->z, 3), 0);
	assert_int_equal(name_group(w, &w->z, 0, "train"), 0); /* moves in with its queue */
	assert_ptr_equal(group_of(&w->a, 0), group_of(&w->z, 0));
	assert_int_equal(attach(w, &bob, BOB, 44, "bob"), 0);
	assert_int_equal(name_group(w, &bob, 0, "train"), 0);
	assert_ptr_not_equal(group_of(&w->a, 0), group_of(&bob, 0));
	fm_bridge_group_info(group_of(&w->a, 0), &i);
	assert_string_equal(i.name, "train");
	assert_int_equal(i.clients, 2);
	assert_int_equal(i.queues, 2);
	assert_int_equal(i.hints->value[FM_HINT_WEIGHT], 77);
	assert_int_equal(name_group(w, &w->z, 0, "solo"), 0); /* leaves: the other stays */
	fm_bridge_group_info(group_of(&w->a, 0), &i);
	assert_int_equal(i.clients, 1);
	assert_int_equal(i.queues, 1);
	fm_bridge_detach(w->b, bob.c, w->now);
	fm_board_unmap(bob.board);
}

static void a_name_from_comm_is_printable(void **state)
{
	struct world *w = *state;
	struct client c = {0};
	struct fm_bridge_group_info i;

	assert_int_equal(attach(w, &c, BOB, 7, "a b/\"\x1b[1m\xff"), 0);
	fm_bridge_group_info(group_of(&c, 0), &i);
	assert_string_equal(i.name, "a_b___[1m_-7");
	fm_bridge_detach(w->b, c.c, w->now);
	fm_board_unmap(c.board);
}

static void shared_groups_stop_and_go_together(void **state)
{
	struct world *w = *state;

	assert_int_equal(name_group(w, &w->a, 0, "pair"), 0);
	assert_int_equal(name_group(w, &w->z, 0, "pair"), 0);
	two_on_a_device(w);
	fm_bridge_group_suspend(w->b, group_of(&w->a, 0), true, w->now);
	assert_false(open_gate(&w->a, 0));
	assert_false(open_gate(&w->z, 5));
	fm_bridge_group_suspend(w->b, group_of(&w->a, 0), false, w->now);
	begin(&w->z, 5, 1);
	ring(w, &w->z);
	assert_true(open_gate(&w->a, 0));
	assert_true(open_gate(&w->z, 5));
}

static void the_departed_board_is_not_written(void **state)
{
	struct world *w = *state;
	struct client c = {0};
	struct fm_board *before = malloc(sizeof(*before));

	assert_int_equal(attach(w, &c, ALICE, 33, "c"), 0);
	two_on_a_device(w);
	for (uint32_t i = 0; i < 10; i++)
		assert_int_equal(add_queue_on(w, &c, i, i % 3, i & 1 ? DEVICE : "sim:1"), 0);
	begin(&w->z, 5, 1);
	ring(w, &w->z);
	begin(&c, 1, 1);
	ring(w, &c);
	assert_false(open_gate(&c, 1));
	memcpy(before, c.board, sizeof(*before));
	fm_bridge_detach(w->b, c.c, w->now);
	pass(w, FM_MS);
	assert_memory_equal(before, c.board, sizeof(*before));
	free(before);
	fm_board_unmap(c.board);
}

static void the_end_opens_every_gate(void **state)
{
	struct world *w = *state;

	two_on_a_device(w);
	fm_bridge_group_suspend(w->b, group_of(&w->a, 0), true, w->now);
	fm_bridge_group_suspend(w->b, group_of(&w->z, 0), true, w->now);
	assert_false(open_gate(&w->a, 0));
	assert_false(open_gate(&w->z, 5));
	atomic_store(&w->z.board->agent_sleeps, 1);
	w->z.wakes = 0;
	fm_bridge_free(w->b);
	w->b = NULL;
	assert_true(open_gate(&w->a, 0));
	assert_true(open_gate(&w->z, 5));
	assert_int_equal(w->z.wakes, 1);
	assert_int_equal(atomic_load(&w->a.board->contended), 0);
}

static void those_who_share_a_device_are_told(void **state)
{
	struct world *w = *state;

	assert_int_equal(add_queue(w, &w->a, 0), 0);
	assert_int_equal(atomic_load(&w->a.board->contended), 0);
	assert_int_equal(add_queue_on(w, &w->z, 0, 0, "sim:1"), 0);
	assert_int_equal(atomic_load(&w->a.board->contended), 0);
	atomic_store(&w->a.board->agent_sleeps, 1);
	w->a.wakes = 0;
	assert_int_equal(add_queue(w, &w->z, 1), 0);
	assert_int_equal(atomic_load(&w->a.board->contended), 1);
	assert_int_equal(w->a.wakes, 1); /* to watch for the end of what it has begun */
	assert_int_equal(atomic_load(&w->z.board->contended), 1);
	assert_int_equal(atomic_load(&w->z.board->makes_room), 0);
	assert_int_equal(give_hint(w, &w->z, FM_HINT_PRIORITY, -5), 0);
	assert_int_equal(atomic_load(&w->z.board->contended), FM_SHARES);
	assert_int_equal(atomic_load(&w->a.board->contended), FM_SHARES_FIRST);
	assert_int_equal(fm_sched_policy(fm_bridge_sched(w->b), "fair", NULL, 0, w->now, NULL), 0);
	pass(w, FM_MS);
	assert_int_equal(atomic_load(&w->a.board->contended), FM_SHARES); /* it may wait its turn */
	assert_int_equal(
		fm_sched_policy(fm_bridge_sched(w->b), "fixed-priority", NULL, 0, w->now, NULL), 0);
	pass(w, FM_MS);
	assert_int_equal(atomic_load(&w->a.board->contended), FM_SHARES_FIRST);
	assert_int_equal(segment(w, &w->z, 1, 10), 0);
	assert_int_equal(atomic_load(&w->a.board->contended), FM_SHARES);
	assert_int_equal(segment(w, &w->z, 0, 0), 0);
	assert_int_equal(atomic_load(&w->a.board->contended), FM_SHARES_FIRST);
	assert_int_equal(atomic_load(&w->z.board->makes_room), 1);
	assert_int_equal(atomic_load(&w->a.board->makes_room), 0);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_PRIORITY, -1), 0);
	assert_int_equal(atomic_load(&w->z.board->makes_room), 0);
	assert_int_equal(atomic_load(&w->a.board->makes_room), 0);
	assert_int_equal(
		tell(w, &w->z, (union fm_msg){.queue_gone = {.slot = 1}}, FM_MSG_QUEUE_GONE), 0);
	pass(w, STAYS); /* it may be back before long */
	assert_int_equal(atomic_load(&w->a.board->contended), 0);
	assert_int_equal(atomic_load(&w->z.board->contended), 0);
}

/* A server's groups: who is never stopped need not pay for gates, the others stop as soon as they
 * can. */
static void queues_of_a_client_are_told_apart(void **state)
{
	struct world *w = *state;
	struct fm_board *b = w->a.board;

	assert_int_equal(add_queue(w, &w->a, 0), 0);
	assert_int_equal(atomic_load(&b->slot[0].shares), FM_SHARES_NONE);
	assert_int_equal(name_group(w, &w->a, 1, "batch"), 0);
	assert_int_equal(add_queue_on(w, &w->a, 1, 1, DEVICE), 0);
	assert_int_equal(atomic_load(&b->slot[0].shares), FM_SHARES);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_PRIORITY, 5), 0);
	assert_int_equal(atomic_load(&b->slot[0].shares), FM_SHARES_FIRST);
	assert_int_equal(atomic_load(&b->slot[1].shares), FM_SHARES);
	assert_int_equal(atomic_load(&b->contended), FM_SHARES);
	pass(w, FM_MS);
}

/* With aging, whoever is first waits for others now and then; the active window is first. */
static void who_is_first_depends_on_the_policy(void **state)
{
	struct fm_sched *s = fm_bridge_sched(((struct world *)*state)->b);
	const char *aging = "aging=10";
	struct world *w = *state;

	assert_int_equal(add_queue(w, &w->a, 0), 0);
	assert_int_equal(add_queue(w, &w->z, 0), 0);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_PRIORITY, 5), 0);
	assert_int_equal(atomic_load(&w->a.board->contended), FM_SHARES_FIRST);
	assert_int_equal(fm_sched_policy(s, "fixed-priority", &aging, 1, w->now, NULL), 0);
	pass(w, FM_MS);
	assert_int_equal(atomic_load(&w->a.board->contended), FM_SHARES);
	assert_int_equal(fm_sched_policy(s, "foreground", NULL, 0, w->now, NULL), 0);
	pass(w, FM_MS);
	assert_int_equal(atomic_load(&w->a.board->contended), FM_SHARES);
	assert_int_equal(give_hint(w, &w->z, FM_HINT_FOREGROUND, 1), 0);
	assert_int_equal(atomic_load(&w->a.board->contended), FM_SHARES);
	assert_int_equal(atomic_load(&w->z.board->contended), FM_SHARES_FIRST);
}

/* One order over all devices stops one that is alone on its own: it is told that it counts as
 * sharing, and comes to rest as soon. */
static void a_lone_one_may_be_stopped_for_another_device(void **state)
{
	struct fm_sched *s = fm_bridge_sched(((struct world *)*state)->b);
	struct world *w = *state;

	assert_int_equal(add_queue_on(w, &w->z, 0, 0, "sim:1"), 0);
	assert_int_equal(fm_sched_policy(s, "heterogeneous-priority", NULL, 0, w->now, NULL), 0);
	pass(w, FM_MS);
	assert_int_equal(atomic_load(&w->z.board->contended), FM_SHARES);
	assert_int_equal(add_queue(w, &w->a, 0), 0);
	assert_int_equal(atomic_load(&w->a.board->contended), FM_SHARES);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_PRIORITY, 64), 0);
	begin(&w->z, 0, 3);
	ring(w, &w->z);
	assert_true(open_gate(&w->z, 0));
	begin(&w->a, 0, 3);
	ring(w, &w->a);
	assert_true(open_gate(&w->a, 0));
	assert_false(open_gate(&w->z, 0));
	w->now += FM_MS;
	finish(w, &w->a, 0);
	ring(w, &w->a);
	assert_false(open_gate(&w->z, 0)); /* it lingers */
	pass(w, FM_MS);
	assert_true(open_gate(&w->z, 0));
	assert_int_equal(fm_sched_policy(s, "fixed-priority", NULL, 0, w->now, NULL), 0);
	pass(w, FM_MS);
	assert_int_equal(atomic_load(&w->a.board->contended), FM_SHARES_NONE);
	assert_int_equal(atomic_load(&w->z.board->contended), 0);
}

/* Whose jobs are counted is heard also alone, save while it is suspended: then it keeps its
 * progress up to date again. */
static void a_lone_one_that_is_heard_again_is_told(void **state)
{
	struct world *w = *state;

	assert_int_equal(add_queue(w, &w->a, 0), 0);
	fm_bridge_group_suspend(w->b, group_of(&w->a, 0), true, w->now);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_DEADLINE, (int64_t)FM_S), 0);
	atomic_store(&w->a.board->agent_sleeps, 1);
	fm_bridge_group_suspend(w->b, group_of(&w->a, 0), false, w->now);
	assert_int_equal(atomic_load(&w->a.board->contended), FM_SHARES);
	assert_true(atomic_load(&w->a.board->slot[0].bells) & FM_BELL_READY);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_DEADLINE, 0), 0);
	assert_int_equal(atomic_load(&w->a.board->contended), 0);
}

static void a_liar_cannot_keep_the_urgent_out(void **state)
{
	struct world *w = *state;
	struct fm_slot *s = &w->a.board->slot[0];

	two_on_a_device(w);
	atomic_store(&s->begun, UINT64_MAX);
	atomic_store(&s->released, UINT64_MAX);
	atomic_store(&s->done_at, UINT64_MAX);
	ring(w, &w->a);
	begin(&w->z, 5, 1);
	ring(w, &w->z);
	pass(w, FM_MS);
	assert_false(open_gate(&w->a, 0));
	assert_true(open_gate(&w->z, 5));
	for (uint64_t i = 0; i < 1000; i++) {
		atomic_store(&s->done, i % 3 ? UINT64_MAX : i);
		atomic_store(&s->begun, i * UINT64_C(0x9e3779b97f4a7c15));
		ring(w, &w->a);
		pass(w, FM_US);
		assert_true(open_gate(&w->z, 5));
	}
}

/* It has work without end, and is honest. */
static void stall_or_go_on(struct world *w, struct client *c)
{
	struct fm_slot *s = &c->board->slot[0];
	bool runs = open_gate(c, 0);

	if (!runs) {
		finish(w, c, 0);
		begin(c, 0, 1);
	}
	atomic_store(&s->released, atomic_load(runs ? &s->begun : &s->done));
}

/* Who never comes to rest keeps the device from nobody: the others take turns as without it. */
static void a_liar_does_not_end_the_turns(void **state)
{
	static const char *const policies[] = {"round-robin", "fair"};
	struct world *w = *state;
	struct client m;

	assert_int_equal(attach(w, &m, BOB, 33, "mid"), 0);
	assert_int_equal(add_queue(w, &w->a, 0), 0);
	assert_int_equal(add_queue(w, &w->z, 0), 0);
	assert_int_equal(add_queue(w, &m, 0), 0);
	for (unsigned i = 0; i < FM_ARRAY_LEN(policies); i++) {
		unsigned z = 0, other = 0;

		assert_int_equal(
			fm_sched_policy(fm_bridge_sched(w->b), policies[i], NULL, 0, w->now, NULL),
			0);
		begin(&w->a, 0, 1);
		ring(w, &w->a);
		pass(w, 100 * FM_MS);
		begin(&w->z, 0, 1);
		ring(w, &w->z);
		begin(&m, 0, 1);
		ring(w, &m);
		for (unsigned n = 0; n < 10000; n++) {
			pass(w, FM_MS);
			stall_or_go_on(w, &w->z);
			stall_or_go_on(w, &m);
			z += open_gate(&w->z, 0);
			other += open_gate(&m, 0);
		}
		assert_true(z >= 2500 && other >= 2500);
		told(w, &w->a);
		told(w, &w->z);
		told(w, &m);
	}
	fm_bridge_detach(w->b, m.c, w->now);
	fm_board_unmap(m.board);
}

static void segments_belong_to_their_client(void **state)
{
	struct world *w = *state;
	int n = 0, rc;

	assert_int_equal(name_group(w, &w->a, 0, "pair"), 0);
	assert_int_equal(name_group(w, &w->z, 0, "pair"), 0);
	assert_int_equal(segment(w, &w->a, 0, 0), -EPERM);
	assert_int_equal(segment(w, &w->a, 1, FM_SEGMENT_KEEP), 0);
	assert_int_equal(segment(w, &w->z, 0, 0), -EPERM);
	assert_int_equal(name_group(w, &w->a, 0, "elsewhere"), -EPERM);
	assert_int_equal(segment(w, &w->a, 0, 0), 0);
	while ((rc = segment(w, &w->a, 1, 0)) == 0)
		assert_true(++n < 1000);
	assert_int_equal(rc, -EDQUOT);
	assert_in_range(n, 1, 999);
}

static int collect(void *arg, struct fm_bridge_group *g)
{
	struct fm_bridge_group **last = arg;

	*last = g;
	return 0;
}

static void targets_name_groups(void **state)
{
	struct world *w = *state;
	struct fm_bridge_group *g = NULL;
	char id[16];

	two_on_a_device(w);
	assert_int_equal(name_group(w, &w->a, 1, "22"), 0); /* reads like the pid of another */
	assert_int_equal(fm_bridge_target(w->b, "22", collect, &g), 1);
	assert_ptr_equal(g, group_of(&w->z, 0));
	assert_int_equal(fm_bridge_target(w->b, "11", collect, &g), 2);
	assert_int_equal(fm_bridge_target(w->b, "zeta-22", collect, &g), 1);
	snprintf(
		id, sizeof(id), "q%u", fm_list_first(&w->a.c->queues, struct queue, in_client)->id);
	assert_int_equal(fm_bridge_target(w->b, id, collect, &g), 1);
	assert_ptr_equal(g, group_of(&w->a, 0));
	assert_int_equal(fm_bridge_target(w->b, "", collect, &g), 0);
	assert_int_equal(fm_bridge_target(w->b, "q", collect, &g), 0);
	assert_int_equal(fm_bridge_target(w->b, "-1", collect, &g), 0);
	assert_int_equal(fm_bridge_target(w->b, "nobody", collect, &g), 0);
}

static void operators_hints_are_passed_on(void **state)
{
	struct fm_bridge_limits l = {
		.bounded = FM_HINT_BIT(FM_HINT_PRIORITY), .range[FM_HINT_PRIORITY] = {-5, 5}};
	struct world *w = *state;
	struct fm_err err;

	fm_bridge_set_limits(w->b, &l);
	assert_int_equal(name_group(w, &w->a, 3, "x"), 0);
	assert_int_equal(fm_bridge_group_hint(
				 w->b, group_of(&w->a, 3), &l, FM_HINT_PRIORITY, 9, w->now, &err),
		-EPERM);
	assert_int_equal(w->a.hints, 0);
	assert_int_equal(fm_bridge_group_hint(
				 w->b, group_of(&w->a, 3), NULL, FM_HINT_PRIORITY, 9, w->now, &err),
		0);
	assert_int_equal(w->a.hints, 1);
	assert_int_equal(w->a.hint_group, 3);
	assert_int_equal(w->a.hint_value, 9);
	assert_int_equal(w->z.hints, 0);
}

static void count_queue(void *arg, const struct fm_bqueue_info *i)
{
	*(unsigned *)arg += i->id && i->level <= FM_LEVEL_RUNNING && !strcmp(i->device, DEVICE);
}

static void reports_survive_nonsense(void **state)
{
	struct world *w = *state;
	unsigned queues = 0;
	struct fm_bcoverage calls;
	struct fm_call call;

	two_on_a_device(w);
	memset((void *)&w->a.board->agent_sleeps, 0xff,
		sizeof(*w->a.board) - offsetof(struct fm_board, agent_sleeps));
	assert_int_equal(add_queue(w, &w->a, 9), 0);
	begin(&w->z, 5, 1);
	ring(w, &w->a);
	ring(w, &w->z);
	pass(w, FM_MS);
	fm_bridge_group_each_queue(group_of(&w->a, 0), count_queue, &queues);
	assert_int_equal(queues, 2);
	assert_int_equal(running(w, &w->z), 1);
	assert_int_equal(name_group(w, &w->z, 1, "alpha-11"), 0);
	calls = fm_bridge_group_coverage(group_of(&w->a, 0));
	assert_true(calls.governed <= INT64_MAX && calls.ungoverned == INT64_MAX);
	assert_int_equal(fm_bridge_group_calls(group_of(&w->a, 0), &call, 1), 0);
}

static void calls_are_counted_past_the_end_of_a_client(void **state)
{
	struct world *w = *state;

	two_on_a_device(w);
	begin(&w->a, 0, 3);
	begin(&w->z, 5, 2);
	atomic_store(&w->a.board->ungoverned, 7);
	assert_int_equal(fm_bridge_coverage(w->b).governed, 5);
	fm_bridge_detach(w->b, w->a.c, w->now);
	assert_int_equal(fm_bridge_coverage(w->b).governed, 5);
	assert_int_equal(fm_bridge_coverage(w->b).ungoverned, 7);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_urgent_stop_the_others),
		TEST(work_is_seen_without_a_bell),
		TEST(calls_are_counted_past_the_end_of_a_client),
		TEST(a_stop_has_a_cause),
		TEST(a_cause_that_is_gone_is_none),
		TEST(sleepers_are_woken_once),
		TEST(slots_are_taken_and_given_back),
		TEST(messages_of_a_daemon_are_lies),
		TEST(devices_cannot_be_made_up_without_end),
		TEST(names_are_shared_within_a_user),
		TEST(a_name_from_comm_is_printable),
		TEST(shared_groups_stop_and_go_together),
		TEST(the_departed_board_is_not_written),
		TEST(the_end_opens_every_gate),
		TEST(those_who_share_a_device_are_told),
		TEST(queues_of_a_client_are_told_apart),
		TEST(who_is_first_depends_on_the_policy),
		TEST(a_lone_one_may_be_stopped_for_another_device),
		TEST(a_lone_one_that_is_heard_again_is_told),
		TEST(a_liar_cannot_keep_the_urgent_out),
		TEST(a_liar_does_not_end_the_turns),
		TEST(segments_belong_to_their_client),
		TEST(targets_name_groups),
		TEST(operators_hints_are_passed_on),
		TEST(reports_survive_nonsense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
