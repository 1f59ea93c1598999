// SPDX-License-Identifier: Apache-2.0
/* Which queues may go on beside more urgent work, as it comes to the boards. */
#include "bridge_world.h"

#define BATCH  0u
#define URGENT 1u /* slots of client a, and its groups */

static struct fm_slot *slot(const struct client *c, unsigned n)
{
	return &c->board->slot[n];
}

static int hint_of(struct world *w, struct client *c, uint32_t group, enum fm_hint h, int64_t v)
{
	return tell(
		w, c, (union fm_msg){.hint = {.group = group, .hint = h, .value = v}}, FM_MSG_HINT);
}

/* A batch and an urgent group in one context of client a. */
static void two_in_one(struct world *w, int64_t pad)
{
	assert_int_equal(name_group(w, &w->a, URGENT, "urgent"), 0);
	assert_int_equal(hint_of(w, &w->a, BATCH, FM_HINT_PRIORITY, FM_PRIORITY_LOW), 0);
	assert_int_equal(hint_of(w, &w->a, BATCH, FM_HINT_PAD, pad), 0);
	assert_int_equal(hint_of(w, &w->a, URGENT, FM_HINT_PRIORITY, FM_PRIORITY_HIGH), 0);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(add_queue_on(w, &w->a, i, i, DEVICE), 0);
		atomic_store(&slot(&w->a, i)->domain, 77);
	}
	atomic_store(&slot(&w->a, BATCH)->sms, 132);
}

static void works(struct world *w, struct client *c, uint32_t n)
{
	begin(c, n, 10);
	ring(w, c);
}

/* It has come to rest in the middle of a kernel, and could pad. */
static void rests(struct world *w)
{
	struct fm_slot *s = slot(&w->a, BATCH);

	atomic_store(&s->asks_pad, 1);
	atomic_store(&s->released, atomic_load(&s->done));
	pass(w, 10 * FM_MS);
	ring(w, &w->a);
}

static enum fm_gate gate(const struct client *c, unsigned n)
{
	return atomic_load(&slot(c, n)->gate);
}

static void test_pads_beside_its_own_process(void **state)
{
	struct world *w = *state;

	two_in_one(w, 16);
	assert_int_equal(atomic_load(&slot(&w->a, BATCH)->pad_most), 0);
	assert_int_equal(atomic_load(&slot(&w->a, BATCH)->pad), 16);
	assert_int_equal(atomic_load(&slot(&w->a, URGENT)->pad), 0);
	works(w, &w->a, BATCH);
	works(w, &w->a, URGENT);
	assert_int_equal(gate(&w->a, BATCH), FM_GATE_CLOSED);
	w->a.wakes = 0;
	atomic_store(&w->a.board->agent_sleeps, 1);
	rests(w);
	assert_int_equal(gate(&w->a, BATCH), FM_GATE_PADS);
	assert_true(w->a.wakes > 0);
	/* It does not ask any more. */
	atomic_store(&slot(&w->a, BATCH)->asks_pad, 0);
	ring(w, &w->a);
	assert_int_equal(gate(&w->a, BATCH), FM_GATE_CLOSED);
	atomic_store(&slot(&w->a, BATCH)->asks_pad, 1);
	ring(w, &w->a);
	assert_int_equal(gate(&w->a, BATCH), FM_GATE_PADS);
	finish(w, &w->a, URGENT);
	ring(w, &w->a);
	pass(w, 10 * FM_MS);
	assert_int_equal(gate(&w->a, BATCH), FM_GATE_OPEN);
}

static void test_not_when_suspended(void **state)
{
	struct world *w = *state;

	two_in_one(w, 16);
	works(w, &w->a, BATCH);
	works(w, &w->a, URGENT);
	rests(w);
	assert_int_equal(gate(&w->a, BATCH), FM_GATE_PADS);
	fm_bridge_group_suspend(w->b, group_of(&w->a, BATCH), true, w->now);
	assert_int_equal(gate(&w->a, BATCH), FM_GATE_CLOSED);
	fm_bridge_group_suspend(w->b, group_of(&w->a, BATCH), false, w->now);
	assert_int_equal(gate(&w->a, BATCH), FM_GATE_PADS);
	assert_int_equal(hint_of(w, &w->a, BATCH, FM_HINT_PAD, 0), 0);
	assert_int_equal(gate(&w->a, BATCH), FM_GATE_CLOSED);
	assert_int_equal(atomic_load(&slot(&w->a, BATCH)->pad), 0);
}

static void note_apart(void *arg, const struct fm_bqueue_info *i)
{
	*(bool *)arg |= i->pad_apart;
}

static bool is_apart(const struct client *c, unsigned group)
{
	bool apart = false;

	fm_bridge_group_each_queue(group_of(c, group), note_apart, &apart);
	return apart;
}

/* An urgent program beside it: the device would take turns between the two. */
static void test_not_beside_another_domain(void **state)
{
	struct world *w = *state;

	two_in_one(w, 16);
	assert_int_equal(add_queue(w, &w->z, 3), 0);
	atomic_store(&slot(&w->z, 3)->domain, 77); /* a number of its own */
	assert_int_equal(give_hint(w, &w->z, FM_HINT_PRIORITY, FM_PRIORITY_REALTIME), 0);
	works(w, &w->a, BATCH);
	works(w, &w->a, URGENT);
	rests(w);
	assert_int_equal(gate(&w->a, BATCH), FM_GATE_PADS);
	assert_false(is_apart(&w->a, BATCH));
	works(w, &w->z, 3);
	assert_int_equal(gate(&w->a, BATCH), FM_GATE_CLOSED);
	assert_true(is_apart(&w->a, BATCH));
	assert_false(is_apart(&w->a, URGENT));
	/* All of one server's do run side by side. */
	for (uint32_t i = 0; i < 2; i++)
		atomic_store(&slot(&w->a, i)->domain, FM_DOMAIN_SERVER | 1);
	atomic_store(&slot(&w->z, 3)->domain, FM_DOMAIN_SERVER | 1);
	ring(w, &w->a);
	assert_int_equal(gate(&w->a, BATCH), FM_GATE_PADS);
	assert_false(is_apart(&w->a, BATCH));
	atomic_store(&slot(&w->z, 3)->domain, 0);
	ring(w, &w->a);
	assert_int_equal(gate(&w->a, BATCH), FM_GATE_CLOSED);
}

/* Not beside an equal, which has the device for its turn. */
static void test_not_beside_an_equal(void **state)
{
	struct world *w = *state;

	two_in_one(w, 16);
	assert_int_equal(hint_of(w, &w->a, URGENT, FM_HINT_PRIORITY, FM_PRIORITY_LOW), 0);
	works(w, &w->a, URGENT);
	works(w, &w->a, BATCH);
	rests(w);
	assert_int_not_equal(gate(&w->a, BATCH), FM_GATE_PADS);
}

static void test_by_the_device(void **state)
{
	static const struct fm_stop_rule ways[] = {
		{.device = "other", .guard_ns = FM_NEVER, .pad = 8 - FM_PAD_DEVICE},
		{.device = "sim*", .guard_ns = FM_NEVER, .pad = 24 - FM_PAD_DEVICE},
		{.device = "*", .guard_ns = FM_NEVER, .pad = 32 - FM_PAD_DEVICE},
	};
	struct world *w = *state;

	two_in_one(w, FM_PAD_DEVICE);
	assert_int_equal(atomic_load(&slot(&w->a, BATCH)->pad), 0);
	fm_bridge_set_ways(w->b, ways, 3, w->now);
	assert_int_equal(atomic_load(&slot(&w->a, BATCH)->pad), 24);
	assert_int_equal(hint_of(w, &w->a, BATCH, FM_HINT_PAD, 0), 0);
	assert_int_equal(atomic_load(&slot(&w->a, BATCH)->pad), 0);
	assert_int_equal(hint_of(w, &w->a, BATCH, FM_HINT_PAD, 40), 0);
	assert_int_equal(atomic_load(&slot(&w->a, BATCH)->pad), 40);
	fm_bridge_set_ways(w->b, NULL, 0, w->now);
	assert_int_equal(atomic_load(&slot(&w->a, BATCH)->pad), 40);
	assert_int_equal(atomic_load(&slot(&w->a, URGENT)->pad), 0);
}

static uint64_t served(struct world *w)
{
	return told(w, &w->a).ent.served_ns;
}

/* Time there is charged by its part of the multiprocessors, and no more than has passed. */
static void test_is_charged_its_part(void **state)
{
	struct fm_slot *s;
	struct world *w = *state;
	uint64_t before;

	two_in_one(w, 32);
	s = slot(&w->a, BATCH);
	works(w, &w->a, BATCH);
	works(w, &w->a, URGENT);
	rests(w);
	before = served(w);
	w->now += 132 * FM_MS;
	atomic_fetch_add(&s->padded_ns, 132 * FM_MS);
	ring(w, &w->a);
	assert_in_range(served(w) - before, 31900 * FM_US, 32 * FM_MS);
	before = served(w);
	w->now += 132 * FM_US;
	atomic_store(&s->padded_ns, UINT64_MAX);
	ring(w, &w->a);
	assert_in_range(served(w) - before, 1, 32 * FM_US);
	before = served(w);
	atomic_store(&s->padded_ns, 5);
	atomic_store(&s->sms, 0);
	w->now += FM_MS;
	ring(w, &w->a);
	assert_int_equal(served(w), before);
}

static void urgent_job(struct world *w, uint64_t takes)
{
	works(w, &w->a, URGENT);
	rests(w);
	w->now += takes - 10 * FM_MS;
	finish(w, &w->a, URGENT);
	ring(w, &w->a);
	pass(w, 10 * FM_MS);
	atomic_store(&slot(&w->a, BATCH)->asks_pad, 0);
	atomic_store(&slot(&w->a, BATCH)->released, UINT64_MAX);
}

/* Jobs that take no longer for it: it grows; and it shrinks when they do. */
static void test_auto(void **state)
{
	struct world *w = *state;
	_Atomic uint32_t *k;

	two_in_one(w, FM_PAD_AUTO);
	k = &slot(&w->a, BATCH)->pad;
	assert_int_equal(*k, 0);
	/* How far it may go is told at once. */
	assert_int_equal(atomic_load(&slot(&w->a, BATCH)->pad_most), 64);
	assert_int_equal(atomic_load(&slot(&w->a, URGENT)->pad_most), 0);
	works(w, &w->a, BATCH);
	for (unsigned i = 0; i < 20; i++)
		urgent_job(w, 20 * FM_MS);
	assert_int_equal(*k, 64);
	for (unsigned i = 0; i < 6; i++)
		urgent_job(w, *k > 16 ? 25 * FM_MS : 20 * FM_MS);
	assert_true(*k < 64);
	for (unsigned i = 0; i < 20; i++)
		urgent_job(w, *k > 16 ? 25 * FM_MS : 20 * FM_MS);
	assert_int_equal(*k, 16);
	assert_int_equal(hint_of(w, &w->a, BATCH, FM_HINT_PAD, 8), 0);
	assert_int_equal(atomic_load(&slot(&w->a, BATCH)->pad_most), 0);
}

/* The urgent job under way when the batch comes says nothing of how long such jobs take. */
static void test_a_job_without_beginning_teaches_nothing(void **state)
{
	struct world *w = *state;
	_Atomic uint32_t *k;

	two_in_one(w, 0);
	k = &slot(&w->a, BATCH)->pad;
	works(w, &w->a, BATCH);
	works(w, &w->a, URGENT);
	assert_int_equal(hint_of(w, &w->a, BATCH, FM_HINT_PAD, FM_PAD_AUTO), 0);
	pass(w, 10 * FM_MS);
	finish(w, &w->a, URGENT);
	ring(w, &w->a);
	pass(w, 10 * FM_MS);
	for (unsigned i = 0; i < 40; i++)
		urgent_job(w, *k ? 30 * FM_MS : 20 * FM_MS);
	assert_int_equal(*k, 0);
}

/* Another user has as many groups as it likes that may pad. */
static void test_others_padders_cost_nothing(void **state)
{
	struct world *w = *state;
	struct client m[3] = {0};

	for (uint32_t i = 0; i < 3 * 15; i++) {
		struct client *c = &m[i / 15];
		char name[16];

		if (i % 15 == 0)
			assert_int_equal(attach(w, c, BOB, (pid_t)(100 + i), "many"), 0);
		snprintf(name, sizeof(name), "g%u", i);
		assert_int_equal(name_group(w, c, 1 + i % 15, name), 0);
		assert_int_equal(hint_of(w, c, 1 + i % 15, FM_HINT_PAD, 8), 0);
		assert_int_equal(add_queue_on(w, c, i % 15, 1 + i % 15, DEVICE), 0);
	}
	assert_int_equal(atomic_load(&slot(&m[0], 0)->pad), 8);
	assert_int_equal(atomic_load(&slot(&m[2], 14)->pad), 0);
	two_in_one(w, 16);
	works(w, &w->a, BATCH);
	works(w, &w->a, URGENT);
	rests(w);
	assert_int_equal(gate(&w->a, BATCH), FM_GATE_PADS);
	for (unsigned i = 0; i < 3; i++) {
		fm_bridge_detach(w->b, m[i].c, w->now);
		fm_board_unmap(m[i].board);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_pads_beside_its_own_process, setup, teardown),
		cmocka_unit_test_setup_teardown(test_not_when_suspended, setup, teardown),
		cmocka_unit_test_setup_teardown(test_not_beside_another_domain, setup, teardown),
		cmocka_unit_test_setup_teardown(test_not_beside_an_equal, setup, teardown),
		cmocka_unit_test_setup_teardown(test_by_the_device, setup, teardown),
		cmocka_unit_test_setup_teardown(test_is_charged_its_part, setup, teardown),
		cmocka_unit_test_setup_teardown(test_auto, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_a_job_without_beginning_teaches_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(test_others_padders_cost_nothing, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
