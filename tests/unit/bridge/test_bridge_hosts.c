/* SPDX-License-Identifier: Apache-2.0 */
/* Budgets of the host's memory: what clients may have of it by user, by NUMA node, together, and by
 * what the machine has left; whatever their ledgers say. */
#include "bridge_world.h"

#define MIB  UINT64_C(0x100000)
#define GIB  UINT64_C(0x40000000)
#define MOST 4

/* A client that asks as the agent does: its pool holds what is out, and copies that it only keeps.
 */
struct owner {
	struct client c;
	struct fm_ledger *l;
};

struct machine {
	struct world w;
	struct owner o[MOST];
	unsigned n;
};

static uint64_t machine_left, process_has;

static uint64_t left(void)
{
	return machine_left;
}

static uint64_t own(void *client)
{
	(void)client;
	return process_has;
}

static void place(const char *bus, struct fm_bridge_place *p)
{
	p->node = bus[6] == '9' ? -1 : bus[6] - '0'; /* 9: not known */
	snprintf(p->link, sizeof(p->link), "pci0000:%c0", bus[5]);
}

static struct machine *start(bool looks)
{
	const struct fm_bridge_host host = {.wake = on_wake,
		.hint = on_hint,
		.place = place,
		.host_own = own,
		.host_left = looks ? left : NULL};
	struct machine *m = calloc(1, sizeof(*m));

	process_has = UINT64_MAX;
	m->w.now = T0;
	assert_int_equal(fm_bridge_new(&m->w.b, &host), 0);
	return m;
}

static void end(struct machine *m)
{
	fm_bridge_free(m->w.b);
	for (unsigned i = 0; i < m->n; i++) {
		fm_board_unmap(m->o[i].c.board);
		fm_ledger_unmap(m->o[i].l);
	}
	free(m);
}

static struct fm_ledger_device *row(const struct owner *o)
{
	return &o->l->device[0];
}

static void ring_it(struct machine *m, struct owner *o)
{
	assert_int_equal(tell(&m->w, &o->c, (union fm_msg){0}, FM_MSG_MEMORY_BELL), 0);
}

static struct owner *add(struct machine *m, uid_t uid, unsigned node)
{
	struct owner *o = &m->o[m->n++];
	char name[16];

	snprintf(name, sizeof(name), "p%u", m->n);
	assert_int_equal(attach(&m->w, &o->c, uid, (pid_t)(100 + m->n), name), 0);
	assert_int_equal(fm_ledger_create(&o->l, NULL), 0);
	o->l->managed = true;
	snprintf(row(o)->key, sizeof(row(o)->key), "sim:%u", node);
	snprintf(row(o)->bus, sizeof(row(o)->bus), "0000:0%u:00.0", node);
	atomic_store(&row(o)->claimed, 64 * GIB);
	atomic_store(&row(o)->kind[FM_MEM_MOVABLE], 64 * GIB);
	atomic_store(&row(o)->capacity, 80 * GIB);
	assert_int_equal(fm_bridge_ledger(m->w.b, o->c.c, o->l), 0);
	ring_it(m, o);
	return o;
}

/* As the agent asks. */
static bool take(struct machine *m, struct owner *o, uint64_t bytes)
{
	if (!fm_ledger_host_take(row(o), bytes)) {
		uint32_t number = fm_ledger_host_ask(row(o), bytes);

		ring_it(m, o);
		for (unsigned i = 0; i < 1000 && !fm_ledger_host_told(row(o), number); i++) {
			m->w.now += 5 * FM_MS;
			fm_bridge_run(m->w.b, m->w.now);
		}
		assert_true(fm_ledger_host_told(row(o), number));
		if (!fm_ledger_host_take(row(o), bytes))
			return false;
	}
	atomic_store(&row(o)->host_wants, 0);
	return true;
}

static void out(struct owner *o, uint64_t bytes)
{
	atomic_store(&row(o)->host, bytes);
}

static void pass_ms(struct machine *m, unsigned ms)
{
	for (unsigned i = 0; i < ms; i++) {
		m->w.now += FM_MS;
		fm_bridge_run(m->w.b, m->w.now);
	}
}

static void limit_users(struct machine *m, uint64_t bytes)
{
	fm_bridge_set_limits(m->w.b, &(struct fm_bridge_limits){.memory_host = bytes});
}

static void without_a_budget_any_amount_is_granted(void **state)
{
	struct machine *m = start(false);
	struct owner *a = add(m, ALICE, 0);

	(void)state;
	assert_true(atomic_load(&row(a)->host_may) == UINT64_MAX);
	assert_true(take(m, a, 500 * GIB));
	assert_int_equal(row(a)->host_asks, 0);
	end(m);
}

static void programs_of_a_user_share_its_budget(void **state)
{
	struct machine *m = start(false);
	struct owner *a, *b, *other;

	(void)state;
	limit_users(m, 10 * GIB);
	a = add(m, ALICE, 0);
	b = add(m, ALICE, 1);
	other = add(m, BOB, 0);
	assert_true(take(m, a, 6 * GIB));
	out(a, 6 * GIB);
	assert_true(take(m, b, 4 * GIB));
	out(b, 4 * GIB);
	assert_false(take(m, b, 4 * GIB + 2 * MIB));
	assert_false(take(m, a, 6 * GIB + 2 * MIB));
	assert_true(take(m, other, 10 * GIB));
	assert_false(take(m, other, 10 * GIB + 1));
	/* What one gives back the other has as soon as it rings, or a moment later. */
	assert_true(take(m, a, 2 * GIB));
	out(a, 2 * GIB);
	b->c.wakes = 0;
	pass_ms(m, 250);
	assert_true(b->c.wakes && atomic_load(&row(b)->host_may) >= 4 * GIB + 2 * MIB);
	assert_true(take(m, b, 8 * GIB));
	end(m);
}

static void nobody_has_more_than_there_is_in_any_order(void **state)
{
	uint64_t seed = 5;

	(void)state;
	for (unsigned round = 0; round < 4; round++) {
		struct machine *m = start(false);

		limit_users(m, 10 * GIB);
		fm_bridge_memory_settings(m->w.b, &(struct fm_bridge_memory){.away = 14 * GIB,
							  .node = {{0, 9 * GIB}, {1, 8 * GIB}},
							  .nodes = 2});
		for (unsigned i = 0; i < MOST; i++)
			add(m, i % 2 ? BOB : ALICE, i / 2);
		for (unsigned i = 0; i < 60; i++) {
			struct owner *o = &m->o[(seed >> 40) % MOST];
			uint64_t has[MOST], wants = (seed >> 20) % (12 * GIB);

			seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
			take(m, o, wants);
			out(o, FM_MIN(atomic_load(&row(o)->host_has), seed % (8 * GIB)));
			for (unsigned k = 0; k < MOST; k++)
				has[k] = atomic_load(&row(&m->o[k])->host_has);
			assert_true(has[0] + has[2] <= 10 * GIB && has[1] + has[3] <= 10 * GIB);
			assert_true(has[0] + has[1] <= 9 * GIB && has[2] + has[3] <= 8 * GIB);
			assert_true(has[0] + has[1] + has[2] + has[3] <= 14 * GIB);
		}
		end(m);
	}
}

static void copies_are_given_up_first(void **state)
{
	struct machine *m = start(false);
	struct owner *a, *b;
	uint32_t number;

	(void)state;
	limit_users(m, 10 * GIB);
	a = add(m, ALICE, 0);
	b = add(m, ALICE, 0);
	assert_true(take(m, a, 9 * GIB));
	out(a, 2 * GIB); /* the rest it only keeps */
	a->c.wakes = 0;
	number = fm_ledger_host_ask(row(b), 5 * GIB);
	ring_it(m, b);
	assert_true(a->c.wakes && atomic_load(&row(a)->host_may) <= 5 * GIB);
	assert_true(atomic_load(&row(a)->host_may) >= 2 * GIB);
	assert_false(fm_ledger_host_told(row(b), number)); /* it waits for that */
	assert_true(fm_ledger_host_take(row(a), atomic_load(&row(a)->host_may)));
	pass_ms(m, 20);
	assert_true(fm_ledger_host_told(row(b), number));
	assert_true(fm_ledger_host_take(row(b), 5 * GIB));
	/* What is out stays. */
	out(b, 5 * GIB);
	assert_false(take(m, b, 9 * GIB));
	assert_true(atomic_load(&row(a)->host_may) >= 2 * GIB);
	end(m);
}

static void who_gives_nothing_up_is_not_waited_for(void **state)
{
	struct machine *m = start(false);
	struct owner *a, *b;
	uint64_t before;

	(void)state;
	limit_users(m, 10 * GIB);
	a = add(m, ALICE, 0);
	b = add(m, ALICE, 0);
	assert_true(take(m, a, 9 * GIB));
	before = m->w.now;
	assert_false(take(m, b, 5 * GIB));
	assert_true(m->w.now - before >= 400 * FM_MS && m->w.now - before < 700 * FM_MS);
	/* Nor each time, if it asks again. */
	before = m->w.now;
	for (unsigned i = 0; i < 10; i++)
		assert_false(take(m, b, 5 * GIB - i));
	assert_true(m->w.now - before < 100 * FM_MS);
	/* When it does, the other is told. */
	b->c.wakes = 0;
	assert_true(fm_ledger_host_take(row(a), 0));
	pass_ms(m, 250);
	assert_true(b->c.wakes && take(m, b, 5 * GIB));
	end(m);
}

/* Whoever asks for all that there is takes nobody's copies for nothing. */
static void what_can_never_be_given_takes_no_copies(void **state)
{
	struct machine *m = start(false);
	struct owner *a, *greedy;

	(void)state;
	fm_bridge_memory_settings(m->w.b, &(struct fm_bridge_memory){.away = 10 * GIB});
	a = add(m, ALICE, 0);
	greedy = add(m, BOB, 0);
	assert_true(take(m, a, 9 * GIB));
	out(a, 2 * GIB); /* the rest it only keeps */
	assert_false(take(m, greedy, 9 * GIB));
	pass_ms(m, 500);
	assert_true(atomic_load(&row(a)->host_may) >= 9 * GIB);
	end(m);
}

/* All rows are looked at for each request: so it has to wait, and others are served. */
static void one_that_asks_on_and_on(void **state)
{
	struct machine *m = start(false);
	struct owner *rings, *bob;
	unsigned at_once = 0;
	uint32_t number = 0;

	(void)state;
	fm_bridge_memory_settings(m->w.b, &(struct fm_bridge_memory){.away = 10 * GIB});
	rings = add(m, ALICE, 0);
	bob = add(m, BOB, 0);
	for (unsigned i = 0; i < 1000; i++) {
		number = fm_ledger_host_ask(row(rings), GIB + i);
		ring_it(m, rings);
		at_once += fm_ledger_host_told(row(rings), number);
	}
	assert_true(at_once && at_once < 200);
	/* Nor where it does not ring, and the daemon looks by itself. */
	pass_ms(m, 20);
	at_once = 0;
	for (unsigned i = 0; i < 1000; i++) {
		number = fm_ledger_host_ask(row(rings), GIB + i);
		m->w.b->hosts_at = 0;
		fm_bridge_run(m->w.b, m->w.now);
		at_once += fm_ledger_host_told(row(rings), number);
	}
	assert_true(at_once && at_once < 200);
	number = fm_ledger_host_ask(row(bob), GIB);
	ring_it(m, bob);
	assert_true(fm_ledger_host_told(row(bob), number));
	number = fm_ledger_host_ask(row(rings), 2 * GIB);
	ring_it(m, rings);
	pass_ms(m, 20);
	assert_true(fm_ledger_host_told(row(rings), number));
	end(m);
}

static void nodes_have_budgets_of_their_own(void **state)
{
	struct machine *m = start(false);
	struct fm_bridge_host_short why;
	struct owner *a, *b, *nowhere;

	(void)state;
	fm_bridge_memory_settings(m->w.b,
		&(struct fm_bridge_memory){.node = {{0, 4 * GIB}, {1, 8 * GIB}}, .nodes = 2});
	a = add(m, ALICE, 0);
	b = add(m, BOB, 1);
	assert_true(take(m, a, 4 * GIB) && take(m, b, 6 * GIB));
	out(a, 4 * GIB);
	out(b, 6 * GIB);
	assert_false(take(m, a, 4 * GIB + MIB));
	hosts_look(m->w.b);
	assert_int_equal(hosts_room(m->w.b, a->c.c->memory, &a->c.c->memory->row[0], &why), 0);
	assert_true(why.by == FM_HOST_NODE && why.node == 0 && why.limit == 4 * GIB);
	/* A device that is nowhere counts everywhere: not to say so is no way out. */
	nowhere = add(m, BOB, 9);
	assert_false(take(m, nowhere, MIB));
	take(m, a, GIB);
	out(a, GIB);
	assert_true(take(m, nowhere, GIB));
	assert_false(take(m, nowhere, 3 * GIB));
	end(m);
}

static void the_machine_leaves_what_it_has(void **state)
{
	struct machine *m = start(true);
	struct owner *a, *b;

	(void)state;
	machine_left = 8 * GIB;
	a = add(m, ALICE, 0);
	b = add(m, BOB, 0);
	assert_true(take(m, a, 6 * GIB));
	machine_left = 2 * GIB; /* for a has what it was granted */
	out(a, 6 * GIB);
	pass_ms(m, 150);
	assert_false(take(m, b, 4 * GIB));
	machine_left = 5 * GIB;
	pass_ms(m, 250);
	assert_true(take(m, b, 4 * GIB));
	end(m);
}

/* It says that it has much, little, or what falls and rises: others have what they would have. */
static void who_lies_takes_from_its_own_user_alone(void **state)
{
	struct machine *m = start(false);
	struct owner *liar, *friend, *bob;

	(void)state;
	limit_users(m, 10 * GIB);
	fm_bridge_memory_settings(m->w.b, &(struct fm_bridge_memory){.away = 20 * GIB});
	liar = add(m, ALICE, 0);
	bob = add(m, BOB, 0);
	friend = add(m, ALICE, 0);
	atomic_store(&row(liar)->host_has, UINT64_MAX);
	atomic_store(&row(liar)->host, UINT64_MAX);
	atomic_store(&row(liar)->mapped, UINT64_MAX);
	atomic_store(&row(liar)->host_may, UINT64_MAX);
	assert_true(take(m, bob, 10 * GIB));
	/* It was granted all of its user's, and says that it has nothing: it counts. */
	assert_true(take(m, bob, 0));
	atomic_store(&row(liar)->host_has, 0);
	atomic_store(&row(liar)->mapped, 0);
	fm_ledger_host_ask(row(liar), 10 * GIB);
	ring_it(m, liar);
	atomic_store(&row(liar)->host, 10 * GIB);
	assert_false(take(m, friend, GIB));
	assert_true(take(m, bob, 10 * GIB));
	/* More than its process has at all counts no more than that. */
	atomic_store(&row(liar)->host_has, 10 * GIB);
	process_has = GIB;
	atomic_store(&row(liar)->host, 0);
	fm_ledger_host_ask(row(liar), 0);
	fm_bridge_memory_settings(m->w.b, &(struct fm_bridge_memory){.away = 20 * GIB});
	assert_true(take(m, friend, 4 * GIB));
	end(m);
}

static void a_budget_that_sinks_takes_copies(void **state)
{
	struct machine *m = start(false);
	struct owner *a;

	(void)state;
	a = add(m, ALICE, 0);
	assert_true(take(m, a, 9 * GIB));
	out(a, 2 * GIB);
	a->c.wakes = 0;
	limit_users(m, 4 * GIB);
	fm_bridge_memory_settings(m->w.b, &(struct fm_bridge_memory){0});
	assert_true(a->c.wakes && atomic_load(&row(a)->host_may) == 4 * GIB);
	limit_users(m, 0);
	fm_bridge_memory_settings(m->w.b, &(struct fm_bridge_memory){0});
	assert_true(atomic_load(&row(a)->host_may) == UINT64_MAX);
	end(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_budget_any_amount_is_granted),
		cmocka_unit_test(programs_of_a_user_share_its_budget),
		cmocka_unit_test(nobody_has_more_than_there_is_in_any_order),
		cmocka_unit_test(copies_are_given_up_first),
		cmocka_unit_test(who_gives_nothing_up_is_not_waited_for),
		cmocka_unit_test(what_can_never_be_given_takes_no_copies),
		cmocka_unit_test(one_that_asks_on_and_on),
		cmocka_unit_test(nodes_have_budgets_of_their_own),
		cmocka_unit_test(the_machine_leaves_what_it_has),
		cmocka_unit_test(who_lies_takes_from_its_own_user_alone),
		cmocka_unit_test(a_budget_that_sinks_takes_copies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
