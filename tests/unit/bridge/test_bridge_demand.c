/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that goes out on demand, in virtual time. The clients' movers are played by hand: a device
 * of 1000 bytes, and groups with 600 each. */
#include "bridge_world.h"

/* What can never be given is refused so soon. */
#define SOON (40 * FM_MS)

static struct fm_ledger *give_ledger_of(
	struct world *w, struct client *c, uint64_t bytes, bool managed)
{
	struct fm_ledger *l;

	assert_int_equal(fm_ledger_create(&l, NULL), 0);
	l->managed = managed;
	snprintf(l->device[0].key, sizeof(l->device[0].key), "%s", DEVICE);
	atomic_store(&l->device[0].claimed, bytes);
	atomic_store(&l->device[0].kind[managed ? FM_MEM_MOVABLE : FM_MEM_PLAIN], bytes);
	atomic_store(&l->device[0].resident, managed ? bytes : 0);
	atomic_store(&l->device[0].capacity, 1000);
	assert_int_equal(fm_bridge_ledger(w->b, c->c, l), 0);
	return l;
}

static struct fm_ledger *give_ledger(struct world *w, struct client *c, uint64_t bytes)
{
	return give_ledger_of(w, c, bytes, true);
}

/* IN: more of it is to come in, early or for good. */
static enum fm_mem_wish wish(const struct fm_ledger *l)
{
	const struct fm_ledger_device *d = &l->device[0];

	if (atomic_load(&d->wish) == FM_MEM_OUT &&
		atomic_load(&d->share) > atomic_load(&d->resident))
		return FM_MEM_IN;
	return (enum fm_mem_wish)atomic_load(&d->wish);
}

static uint64_t share(const struct fm_ledger *l)
{
	return atomic_load(&l->device[0].share);
}

static void mem_bell(struct world *w, struct client *c)
{
	assert_int_equal(tell(w, c, (union fm_msg){0}, FM_MSG_MEMORY_BELL), 0);
	pass(w, 0);
}

static void has_on_device(struct fm_ledger *l, uint64_t bytes)
{
	atomic_store(&l->device[0].resident, bytes);
	atomic_store(&l->device[0].host, atomic_load(&l->device[0].kind[FM_MEM_MOVABLE]) - bytes);
}

/* It does what it is told. */
static void went_out(struct fm_ledger *l)
{
	has_on_device(l, FM_MIN(share(l), atomic_load(&l->device[0].resident)));
	atomic_store(&l->device[0].reached, share(l));
}

static void came_in(struct fm_ledger *l)
{
	has_on_device(l, atomic_load(&l->device[0].kind[FM_MEM_MOVABLE]));
	atomic_store(&l->device[0].misses, 0);
}

/* Returns when that was wished. */
static uint64_t until(
	struct world *w, const struct fm_ledger *l, enum fm_mem_wish what, uint64_t most)
{
	uint64_t end = w->now + most;

	while (wish(l) != what && w->now < end)
		pass(w, 10 * FM_MS);
	assert_int_equal(wish(l), what);
	return w->now;
}

/* 0: no answer yet; 1: there is room; -1: there is none. */
static int answer(const struct fm_ledger *l, uint32_t number)
{
	bool room;

	return !fm_ledger_roomed(&l->device[0], number, &room) ? 0 : room ? 1 : -1;
}

static struct fm_bridge_out_info out_of(const struct world *w, const struct client *c)
{
	struct fm_bridge_out_info i;

	fm_bridge_group_out_info(group_of(c, 0), w->now, &i);
	return i;
}

static void free_all(struct world *w, struct fm_ledger *a, struct fm_ledger *z)
{
	fm_bridge_detach(w->b, w->a.c, w->now);
	fm_bridge_detach(w->b, w->z.c, w->now);
	assert_int_equal(attach(w, &w->a, ALICE, 33, "alpha"), 0);
	assert_int_equal(attach(w, &w->z, ALICE, 44, "zeta"), 0);
	fm_ledger_unmap(a);
	fm_ledger_unmap(z);
}

/* a comes back beside z, which has all the rest: most of what a has runs from the host. */
static void what_runs_from_the_host_needs_no_room(void **state)
{
	struct world *w = *state;
	struct fm_ledger *a, *z;
	uint32_t number;

	two_on_a_device(w);
	a = give_ledger(w, &w->a, 600);
	atomic_store(&a->device[0].mapped, 500);
	atomic_store(&a->device[0].resident, 100);
	z = give_ledger(w, &w->z, 100);
	pass(w, FM_S);
	number = fm_ledger_lack(&z->device[0], 700);
	mem_bell(w, &w->z);
	assert_int_equal(wish(a), FM_MEM_OUT);
	went_out(a);
	pass(w, 10 * FM_MS);
	assert_int_equal(answer(z, number), 1);
	atomic_store(&z->device[0].lacks, 0);
	atomic_store(&z->device[0].claimed, 800);
	atomic_store(&z->device[0].kind[FM_MEM_MOVABLE], 800);
	atomic_store(&z->device[0].resident, 800);
	pass(w, 2 * FM_S);
	atomic_store(&a->device[0].misses, 1);
	mem_bell(w, &w->a);
	assert_int_equal(wish(a), FM_MEM_IN);
	assert_int_equal(wish(z), FM_MEM_STAY);
	came_in(a);
	pass(w, 10 * FM_MS);
	assert_int_equal(out_of(w, &w->a).why, FM_OUT_NOT);
	free_all(w, a, z);
}

/* z allocates, and the idle a goes out for it; then a has work, and z goes out. */
static void idle_memory_goes_out_and_comes_back(void **state)
{
	struct world *w = *state;
	struct fm_ledger *a, *z;
	uint32_t number;

	two_on_a_device(w);
	a = give_ledger(w, &w->a, 600);
	z = give_ledger(w, &w->z, 100);
	pass(w, FM_S);
	number = fm_ledger_lack(&z->device[0], 500);
	mem_bell(w, &w->z);
	assert_int_equal(wish(a), FM_MEM_OUT);
	assert_int_equal(wish(z), FM_MEM_STAY);
	assert_int_equal(answer(z, number), 0);
	assert_int_equal(out_of(w, &w->a).why, FM_OUT_DEMAND);
	went_out(a);
	pass(w, 10 * FM_MS);
	assert_int_equal(answer(z, number), 1);
	atomic_store(&z->device[0].lacks, 0);
	atomic_store(&z->device[0].claimed, 600);
	atomic_store(&z->device[0].kind[FM_MEM_MOVABLE], 600);
	atomic_store(&z->device[0].resident, 600);
	pass(w, 2 * FM_S);
	assert_int_equal(wish(a), FM_MEM_OUT); /* it needs nothing */
	assert_false(open_gate(&w->a, 0));

	atomic_store(&a->device[0].misses, 1);
	mem_bell(w, &w->a);
	assert_int_equal(wish(z), FM_MEM_OUT);
	assert_true(out_of(w, &w->a).held_for);
	pass(w, 10 * FM_MS);
	assert_int_equal(wish(a), FM_MEM_OUT); /* not before there is room */
	went_out(z);
	pass(w, 10 * FM_MS);
	assert_int_equal(wish(a), FM_MEM_IN);
	came_in(a);
	pass(w, 10 * FM_MS);
	assert_int_equal(wish(a), FM_MEM_STAY);
	assert_int_equal(out_of(w, &w->a).why, FM_OUT_NOT);
	assert_true(out_of(w, &w->a).held >= 20 * FM_MS);
	assert_true(open_gate(&w->a, 0));
	free_all(w, a, z);
}

/* Nobody can go: the answer comes soon. */
static void refused_where_nobody_can_go(void **state)
{
	struct world *w = *state;
	struct fm_ledger *a, *z;
	uint32_t number;

	two_on_a_device(w);
	a = give_ledger(w, &w->a, 600);
	z = give_ledger(w, &w->z, 100);
	pass(w, FM_S);
	for (int i = 0; i < 4; i++) {
		give_hint(w, &w->a, FM_HINT_MEMORY_PIN, i == 0);
		give_hint(w, &w->a, FM_HINT_MEMORY_REQUEST, i == 1 ? 600 : 0);
		atomic_store(&a->device[0].trouble,
			(uint32_t)(i == 2 ? FM_MEM_REFUSED_RANKS : FM_MEM_FINE));
		/* In the last round: even with all of a out it is too much. */
		number = fm_ledger_lack(&z->device[0], i == 3 ? 950 : 500);
		mem_bell(w, &w->z);
		pass(w, SOON);
		assert_int_equal(answer(z, number), -1);
		assert_int_equal(wish(a), FM_MEM_STAY);
	}
	free_all(w, a, z);
}

/* The driver refuses although by the figures there was room: somebody else has it. */
static void more_goes_where_the_driver_still_refuses(void **state)
{
	struct world *w = *state;
	struct fm_ledger *a, *z;
	uint32_t number;

	two_on_a_device(w);
	a = give_ledger(w, &w->a, 300);
	z = give_ledger(w, &w->z, 100);
	pass(w, FM_S);
	number = fm_ledger_lack(&z->device[0], 200);
	mem_bell(w, &w->z);
	assert_int_equal(wish(a), FM_MEM_OUT);
	assert_int_equal(share(a), 100);
	went_out(a);
	pass(w, 10 * FM_MS);
	assert_int_equal(answer(z, number), 1);
	number = fm_ledger_lack(&z->device[0], 200);
	mem_bell(w, &w->z);
	assert_int_equal(share(a), 0);
	went_out(a);
	pass(w, 10 * FM_MS);
	assert_int_equal(answer(z, number), 1);
	number = fm_ledger_lack(&z->device[0], 200);
	mem_bell(w, &w->z);
	pass(w, SOON);
	assert_int_equal(answer(z, number), -1);
	free_all(w, a, z);
}

/* One that does not move counts as pinned, and the other is answered. */
static void what_does_not_move_is_left_alone(void **state)
{
	struct world *w = *state;
	struct fm_ledger *a, *z;
	uint32_t number;

	two_on_a_device(w);
	a = give_ledger(w, &w->a, 600);
	z = give_ledger(w, &w->z, 100);
	pass(w, FM_S);
	number = fm_ledger_lack(&z->device[0], 500);
	mem_bell(w, &w->z);
	pass(w, 900 * FM_MS);
	assert_int_equal(answer(z, number), 0);
	pass(w, 200 * FM_MS);
	assert_true(answer(z, number) != 0);
	assert_int_equal(wish(a), FM_MEM_STAY);
	assert_true(out_of(w, &w->a).apart);
	assert_true(open_gate(&w->a, 0));
	free_all(w, a, z);
}

/* The allocation that tries again waits until the other is asked once more. */
static void what_is_slow_to_rest_is_asked_again(void **state)
{
	struct world *w = *state;
	struct fm_ledger *a, *z;
	uint32_t number;

	two_on_a_device(w);
	a = give_ledger(w, &w->a, 600);
	z = give_ledger(w, &w->z, 100);
	pass(w, FM_S);
	number = fm_ledger_lack(&z->device[0], 500);
	mem_bell(w, &w->z);
	pass(w, 1100 * FM_MS);
	assert_int_equal(answer(z, number), 1);
	assert_int_equal(wish(a), FM_MEM_STAY);
	number = fm_ledger_lack(&z->device[0], 500);
	mem_bell(w, &w->z);
	assert_int_equal(answer(z, number), 0);
	until(w, a, FM_MEM_OUT, 6 * FM_S);
	went_out(a);
	pass(w, 10 * FM_MS);
	assert_int_equal(answer(z, number), 1);
	free_all(w, a, z);
}

/* Memory may take longer to move than a process to come to rest. */
static void what_is_at_rest_has_longer(void **state)
{
	struct world *w = *state;
	struct fm_ledger *a, *z;
	uint32_t number;

	two_on_a_device(w);
	a = give_ledger(w, &w->a, 600);
	z = give_ledger(w, &w->z, 100);
	pass(w, FM_S);
	number = fm_ledger_lack(&z->device[0], 500);
	mem_bell(w, &w->z);
	atomic_store(&w->a.board->rest, 4 | FM_REST_MOVING);
	pass(w, 5 * FM_S);
	assert_int_equal(wish(a), FM_MEM_OUT);
	assert_int_equal(answer(z, number), 0);
	pass(w, 6 * FM_S);
	assert_int_equal(wish(a), FM_MEM_STAY);
	assert_true(answer(z, number) != 0);
	free_all(w, a, z);
}

/* A group that came in keeps its memory for half a second while it works. */
static void they_do_not_throw_each_other_out(void **state)
{
	struct world *w = *state;
	struct fm_ledger *a, *z;
	uint64_t began;

	two_on_a_device(w);
	give_hint(w, &w->a, FM_HINT_PRIORITY, FM_PRIORITY_HIGH);
	a = give_ledger(w, &w->a, 600);
	z = give_ledger(w, &w->z, 600);
	pass(w, FM_S);
	atomic_store(&a->device[0].misses, 0);
	fm_ledger_lack(&z->device[0], 1);
	mem_bell(w, &w->z); /* a goes out */
	assert_int_equal(wish(a), FM_MEM_OUT);
	went_out(a);
	pass(w, 10 * FM_MS);
	atomic_store(&z->device[0].lacks, 0);
	began = w->now;
	begin(&w->z, 5, 1);
	ring(w, &w->z);
	begin(&w->a, 0, 1);
	ring(w, &w->a);
	atomic_store(&a->device[0].misses, 1);
	mem_bell(w, &w->a);
	assert_in_range(until(w, z, FM_MEM_OUT, 10 * FM_S) - began, 400 * FM_MS, 2 * FM_S);
	free_all(w, a, z);
}

/* A group of a lower rank waits until the other has no work. */
static void the_lower_waits_for_the_higher(void **state)
{
	struct world *w = *state;
	struct fm_ledger *a, *z;

	two_on_a_device(w);
	a = give_ledger(w, &w->a, 600);
	z = give_ledger(w, &w->z, 600);
	pass(w, FM_S);
	fm_ledger_lack(&z->device[0], 1);
	mem_bell(w, &w->z);
	went_out(a);
	pass(w, 10 * FM_MS);
	atomic_store(&z->device[0].lacks, 0);
	begin(&w->z, 5, 1);
	ring(w, &w->z);
	begin(&w->a, 0, 1);
	ring(w, &w->a);
	pass(w, 20 * FM_S);
	assert_int_equal(wish(z), FM_MEM_STAY);
	assert_true(open_gate(&w->z, 5));
	assert_true(out_of(w, &w->a).held_for >= 20 * FM_S);
	finish(w, &w->z, 5);
	ring(w, &w->z);
	until(w, z, FM_MEM_OUT, FM_S);
	free_all(w, a, z);
}

/* a asks beside the higher z, which runs: it waits for what z could give, and not for more. */
static void what_can_never_be_given_is_not_waited_for(void **state)
{
	struct world *w = *state;
	struct fm_ledger *a, *z;
	uint32_t number;

	two_on_a_device(w);
	a = give_ledger(w, &w->a, 100);
	z = give_ledger(w, &w->z, 400);
	begin(&w->z, 5, 1);
	ring(w, &w->z);
	pass(w, FM_S);
	number = fm_ledger_lack(&a->device[0], 600);
	mem_bell(w, &w->a);
	pass(w, 2 * FM_S);
	assert_int_equal(answer(a, number), 0);
	number = fm_ledger_lack(&a->device[0], 950);
	mem_bell(w, &w->a);
	pass(w, SOON);
	assert_int_equal(answer(a, number), -1);
	assert_int_equal(wish(z), FM_MEM_STAY);
	free_all(w, a, z);
}

static void allocates(struct fm_ledger *l, uint64_t bytes)
{
	atomic_fetch_add(&l->device[0].kind[FM_MEM_MOVABLE], bytes);
	atomic_fetch_add(&l->device[0].claimed, bytes);
}

/* The driver has given a what it has claimed, and a has not said so yet. Then it can go; unless it
 * is pinned meanwhile. */
static void what_is_being_allocated_is_waited_for(void **state)
{
	struct world *w = *state;
	struct fm_ledger *a, *z;
	uint32_t number;

	for (int pinned = 0; pinned < 2; pinned++) {
		if (!pinned)
			two_on_a_device(w);
		a = give_ledger(w, &w->a, 0);
		z = give_ledger(w, &w->z, 100);
		pass(w, FM_S);
		allocates(a, 600);
		number = fm_ledger_lack(&z->device[0], 500);
		mem_bell(w, &w->z);
		pass(w, FM_S);
		assert_int_equal(answer(z, number), 0);
		assert_int_equal(wish(a), FM_MEM_STAY);
		give_hint(w, &w->a, FM_HINT_MEMORY_PIN, pinned);
		has_on_device(a, 600);
		pass(w, SOON);
		assert_int_equal(wish(a), pinned ? FM_MEM_STAY : FM_MEM_OUT);
		assert_int_equal(answer(z, number), pinned ? -1 : 0);
		went_out(a);
		pass(w, 10 * FM_MS);
		assert_int_equal(answer(z, number), pinned ? -1 : 1);
		free_all(w, a, z);
	}
}

/* What it says of itself at one moment: it has freed memory, and has claimed some that the driver
 * does not give it. */
static void one_look_refuses_nothing(void **state)
{
	struct world *w = *state;
	struct fm_ledger *a, *z;
	uint32_t number;

	two_on_a_device(w);
	a = give_ledger(w, &w->a, 600);
	z = give_ledger_of(w, &w->z, 100, false);
	pass(w, FM_S);
	give_hint(w, &w->a, FM_HINT_MEMORY_PIN, 1);
	for (int i = 0; i < 50; i++) {
		number = i ? number : fm_ledger_lack(&z->device[0], 500);
		mem_bell(w, &w->z);
		give_hint(w, &w->a, FM_HINT_MEMORY_PIN, i % 2);
		atomic_store(&a->device[0].trouble, (uint32_t)FM_MEM_FINE);
		if (wish(a) == FM_MEM_OUT)
			break;
		assert_int_equal(answer(z, number), 0);
		pass(w, 2 * FM_MS);
	}
	assert_int_equal(wish(a), FM_MEM_OUT);
	free_all(w, a, z);
}

/* The driver had none while a went out for something else. Now there is room, and nobody to go: z
 * tries once more, and then no more. */
static void what_went_out_meanwhile_is_tried(void **state)
{
	struct world *w = *state;
	struct fm_ledger *a, *z;
	uint32_t number;

	two_on_a_device(w);
	a = give_ledger(w, &w->a, 600);
	z = give_ledger(w, &w->z, 100);
	give_hint(w, &w->a, FM_HINT_IDLE_OUT, FM_S);
	until(w, a, FM_MEM_OUT, 5 * FM_S);
	number = fm_ledger_lack(&z->device[0], 700);
	went_out(a);
	mem_bell(w, &w->z);
	assert_int_equal(answer(z, number), 1);
	number = fm_ledger_lack(&z->device[0], 700);
	mem_bell(w, &w->z);
	pass(w, SOON);
	assert_int_equal(answer(z, number), -1);
	free_all(w, a, z);
}

/* z is promised room, and has claimed it; the driver says once more that there is none. What it had
 * claimed does not count against the third. */
static void what_is_claimed_in_vain_refuses_nobody(void **state)
{
	struct world *w = *state;
	struct client third = {0};
	struct fm_ledger *a, *z, *l;
	uint32_t number;

	two_on_a_device(w);
	assert_int_equal(attach(w, &third, ALICE, 55, "third"), 0);
	a = give_ledger(w, &w->a, 300);
	z = give_ledger_of(w, &w->z, 100, false);
	l = give_ledger(w, &third, 0);
	pass(w, FM_S);
	number = fm_ledger_lack(&z->device[0], 650);
	mem_bell(w, &w->z);
	assert_int_equal(share(a), 250);
	went_out(a);
	pass(w, 10 * FM_MS);
	assert_int_equal(answer(z, number), 1);
	atomic_fetch_add(&z->device[0].claimed, 650);
	number = fm_ledger_lack(&l->device[0], 300);
	mem_bell(w, &third);
	pass(w, 4 * SOON);
	assert_int_equal(answer(l, number), 0);
	atomic_fetch_sub(&z->device[0].claimed, 650);
	atomic_store(&z->device[0].lacks, 0);
	pass(w, SOON);
	assert_int_equal(share(a), 0);
	went_out(a);
	pass(w, 10 * FM_MS);
	assert_int_equal(answer(l, number), 1);
	fm_bridge_detach(w->b, third.c, w->now);
	fm_board_unmap(third.board);
	fm_ledger_unmap(l);
	free_all(w, a, z);
}

/* a comes in, and nothing of it is there yet: once it is in it can go again. */
static void who_comes_in_can_go_again(void **state)
{
	struct world *w = *state;
	struct client third = {0};
	struct fm_ledger *a, *z, *l;
	uint32_t number;

	two_on_a_device(w);
	assert_int_equal(attach(w, &third, ALICE, 55, "third"), 0);
	a = give_ledger(w, &w->a, 600);
	z = give_ledger(w, &w->z, 100);
	l = give_ledger(w, &third, 0);
	give_hint(w, &w->a, FM_HINT_IDLE_OUT, FM_S);
	until(w, a, FM_MEM_OUT, 5 * FM_S);
	went_out(a);
	give_hint(w, &w->a, FM_HINT_IDLE_OUT, 0);
	pass(w, 10 * FM_MS);
	atomic_store(&a->device[0].misses, 1);
	mem_bell(w, &w->a);
	assert_int_equal(wish(a), FM_MEM_IN);
	give_hint(w, &w->z, FM_HINT_MEMORY_PIN, 1);
	number = fm_ledger_lack(&l->device[0], 500);
	mem_bell(w, &third);
	pass(w, 4 * SOON);
	assert_int_equal(answer(l, number), 0);
	came_in(a);
	for (int i = 0; i < 500 && share(a) >= 600; i++)
		pass(w, 10 * FM_MS);
	went_out(a);
	pass(w, 10 * FM_MS);
	assert_int_equal(answer(l, number), 1);
	fm_bridge_detach(w->b, third.c, w->now);
	fm_board_unmap(third.board);
	fm_ledger_unmap(l);
	free_all(w, a, z);
}

/* z was out for a minute while it allocated: that is not for how long it has waited for others. */
static void who_was_out_has_not_waited(void **state)
{
	struct world *w = *state;
	struct fm_ledger *a, *z;
	uint32_t number;

	two_on_a_device(w);
	a = give_ledger(w, &w->a, 600);
	z = give_ledger(w, &w->z, 100);
	give_hint(w, &w->a, FM_HINT_PRIORITY, FM_PRIORITY_HIGH);
	give_hint(w, &w->z, FM_HINT_PRIORITY, FM_PRIORITY_LOW);
	give_hint(w, &w->z, FM_HINT_IDLE_OUT, FM_S);
	until(w, z, FM_MEM_OUT, 5 * FM_S);
	went_out(z);
	give_hint(w, &w->z, FM_HINT_IDLE_OUT, 0);
	begin(&w->a, 0, 1);
	ring(w, &w->a);
	pass(w, 10 * FM_MS);
	number = fm_ledger_lack(&z->device[0], 500);
	mem_bell(w, &w->z);
	assert_int_equal(answer(z, number), 1);
	pass(w, 60 * FM_S);
	came_in(z);
	pass(w, FM_S);
	assert_int_equal(wish(z), FM_MEM_STAY);
	number = fm_ledger_lack(&z->device[0], 500);
	mem_bell(w, &w->z);
	pass(w, FM_S);
	assert_int_equal(answer(z, number), 0);
	finish(w, &w->a, 0);
	ring(w, &w->a);
	until(w, a, FM_MEM_OUT, FM_S);
	free_all(w, a, z);
}

#define CROWD 24

/* Bob's allocations wait, and have the daemon's places: a, who comes behind them, is looked at. And
 * who was refused is behind all others if it asks again. */
static void a_crowd_that_waits_keeps_nobody_from_room(void **state)
{
	struct world *w = *state;
	struct client bob[CROWD] = {0};
	struct fm_ledger *a, *z, *l[CROWD];
	uint32_t number;

	two_on_a_device(w);
	a = give_ledger(w, &w->a, 100);
	z = give_ledger(w, &w->z, 400);
	give_hint(w, &w->a, FM_HINT_MEMORY_PIN, 1);
	begin(&w->z, 5, 1);
	ring(w, &w->z);
	for (unsigned i = 0; i < CROWD; i++) {
		assert_int_equal(attach(w, &bob[i], BOB, (pid_t)(50 + i), "bob"), 0);
		l[i] = give_ledger(w, &bob[i], 0);
	}
	pass(w, FM_S);
	for (unsigned round = 0; round < 2; round++) {
		/* These wait; or were refused, and have not noticed. */
		for (unsigned i = 0; i < CROWD; i++) {
			fm_ledger_lack(&l[i]->device[0], 600);
			mem_bell(w, &bob[i]);
		}
		pass(w, round ? 60 * FM_S : FM_S);
		number = fm_ledger_lack(&a->device[0], 950);
		mem_bell(w, &w->a);
		pass(w, SOON);
		assert_int_equal(answer(a, number), -1);
		atomic_store(&a->device[0].lacks, 0);
	}
	/* Each asks again before it is looked at, on and on, without a bell. */
	number = fm_ledger_lack(&a->device[0], 950);
	for (unsigned k = 0; k < 10; k++) {
		for (unsigned i = 0; i < CROWD; i++)
			fm_ledger_lack(&l[i]->device[0], 950);
		mem_bell(w, &w->a);
		pass(w, 10 * FM_MS);
	}
	assert_int_equal(answer(a, number), -1);
	for (unsigned i = 0; i < CROWD; i++) {
		fm_bridge_detach(w->b, bob[i].c, w->now);
		fm_board_unmap(bob[i].board);
		fm_ledger_unmap(l[i]);
	}
	free_all(w, a, z);
}

static void idle_for_as_long_as_the_hint_says(void **state)
{
	struct world *w = *state;
	struct fm_ledger *a, *z;

	two_on_a_device(w);
	a = give_ledger(w, &w->a, 600);
	z = give_ledger(w, &w->z, 100);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_IDLE_OUT, (int64_t)(10 * FM_S)), 0);
	begin(&w->a, 0, 1);
	ring(w, &w->a);
	pass(w, 30 * FM_S);
	assert_int_equal(wish(a), FM_MEM_STAY);
	finish(w, &w->a, 0);
	ring(w, &w->a);
	pass(w, 9 * FM_S);
	assert_int_equal(wish(a), FM_MEM_STAY);
	until(w, a, FM_MEM_OUT, 12 * FM_S);
	assert_int_equal(out_of(w, &w->a).why, FM_OUT_IDLE);
	assert_int_equal(wish(z), FM_MEM_STAY);
	went_out(a);
	pass(w, 60 * FM_S);
	assert_int_equal(wish(a), FM_MEM_OUT);
	begin(&w->a, 0, 1);
	ring(w, &w->a);
	pass(w, 20 * FM_MS);
	assert_int_equal(wish(a), FM_MEM_IN);
	free_all(w, a, z);
}

/* A client that comes to a group whose memory is out has its own put out. */
static void who_comes_later_goes_out_too(void **state)
{
	struct world *w = *state;
	struct client late = {0};
	struct fm_ledger *a, *l;

	two_on_a_device(w);
	a = give_ledger(w, &w->a, 600);
	assert_int_equal(name_group(w, &w->a, 0, "out"), 0);
	give_hint(w, &w->a, FM_HINT_IDLE_OUT, FM_S);
	until(w, a, FM_MEM_OUT, 5 * FM_S);
	went_out(a);
	pass(w, 10 * FM_MS);
	assert_int_equal(attach(w, &late, ALICE, 55, "late"), 0);
	l = give_ledger(w, &late, 100);
	late.wakes = 0;
	assert_int_equal(name_group(w, &late, 0, "out"), 0);
	assert_true(late.wakes);
	assert_int_equal(wish(l), FM_MEM_OUT);
	fm_bridge_detach(w->b, late.c, w->now);
	fm_board_unmap(late.board);
	fm_ledger_unmap(l);
	fm_bridge_detach(w->b, w->a.c, w->now);
	assert_int_equal(attach(w, &w->a, ALICE, 33, "alpha"), 0);
	fm_ledger_unmap(a);
}

/* Two that never come in take turns, and do not keep out a third. */
static void who_does_not_come_in_waits_behind_others(void **state)
{
	struct world *w = *state;
	struct client *c[3] = {&w->a, &w->z, &(struct client){0}};
	struct fm_ledger *l[3];

	two_on_a_device(w);
	assert_int_equal(attach(w, c[2], ALICE, 55, "third"), 0);
	assert_int_equal(add_queue(w, c[2], 0), 0);
	for (int i = 0; i < 3; i++) {
		l[i] = give_ledger(w, c[i], 300);
		give_hint(w, c[i], FM_HINT_IDLE_OUT, FM_S);
	}
	for (int i = 0; i < 3; i++) {
		until(w, l[i], FM_MEM_OUT, 5 * FM_S);
		went_out(l[i]);
	}
	pass(w, 10 * FM_MS);
	for (int i = 0; i < 3; i++) {
		atomic_store(&l[i]->device[0].misses, 1);
		mem_bell(w, c[i]);
		pass(w, 100 * FM_MS);
	}
	until(w, l[2], FM_MEM_IN, 10 * FM_S);
	fm_bridge_detach(w->b, c[2]->c, w->now);
	fm_board_unmap(c[2]->board);
	fm_ledger_unmap(l[2]);
	free_all(w, l[0], l[1]);
}

/* One that says again and again that it has moved a little keeps nobody waiting. */
static void false_progress_is_not_waited_for(void **state)
{
	struct world *w = *state;
	struct fm_ledger *a, *z;
	uint32_t number;

	two_on_a_device(w);
	a = give_ledger(w, &w->a, 600);
	z = give_ledger(w, &w->z, 100);
	pass(w, FM_S);
	number = fm_ledger_lack(&z->device[0], 500);
	mem_bell(w, &w->z);
	assert_int_equal(wish(a), FM_MEM_OUT);
	for (int i = 0; i < 300 && !answer(z, number); i++) { /* back and forth */
		atomic_store(&a->device[0].resident, 500 + i % 2);
		pass(w, 10 * FM_MS);
	}
	assert_true(answer(z, number));
	assert_int_equal(wish(a), FM_MEM_STAY);

	atomic_store(&a->device[0].claimed, UINT64_C(1) << 40);
	atomic_store(&a->device[0].kind[FM_MEM_MOVABLE], UINT64_C(1) << 40);
	atomic_store(&a->device[0].resident, UINT64_C(1) << 40);
	pass(w, 10 * FM_S);
	number = fm_ledger_lack(&z->device[0], 500);
	mem_bell(w, &w->z);
	assert_int_equal(wish(a), FM_MEM_OUT);
	for (int i = 0; i < 4000 && !answer(z, number); i++) { /* by bytes */
		atomic_fetch_sub(&a->device[0].resident, 1);
		pass(w, 10 * FM_MS);
	}
	assert_true(answer(z, number));
	free_all(w, a, z);
}

/* A program that was stopped by a signal, and is resumed by hand, does not come in. */
static void one_that_stands_keeps_nobody_out(void **state)
{
	struct world *w = *state;
	struct fm_err err = {0};
	struct fm_ledger *a, *z;

	two_on_a_device(w);
	a = give_ledger(w, &w->a, 600);
	z = give_ledger(w, &w->z, 300);
	give_hint(w, &w->z, FM_HINT_IDLE_OUT, FM_S);
	until(w, z, FM_MEM_OUT, 5 * FM_S);
	went_out(z);
	assert_int_equal(fm_bridge_group_out(w->b, group_of(&w->a, 0), w->now, &err), 0);
	went_out(a);
	pass(w, FM_S);
	assert_true(fm_bridge_group_back(w->b, group_of(&w->a, 0), w->now));
	atomic_store(&z->device[0].misses, 1);
	mem_bell(w, &w->z);
	until(w, z, FM_MEM_IN, 10 * FM_S);
	free_all(w, a, z);
}

/* Figures that cannot be keep nobody's memory out. */
static void lies_keep_nobody_out(void **state)
{
	struct world *w = *state;
	struct fm_ledger *a, *z;

	two_on_a_device(w);
	a = give_ledger(w, &w->a, 600);
	z = give_ledger(w, &w->z, 100);
	assert_int_equal(give_hint(w, &w->a, FM_HINT_IDLE_OUT, (int64_t)FM_S), 0);
	until(w, a, FM_MEM_OUT, 3 * FM_S);
	went_out(a);
	pass(w, 10 * FM_MS);
	give_hint(w, &w->z, FM_HINT_MEMORY_PIN, 1);
	for (unsigned k = 0; k < FM_MEM_KINDS; k++)
		atomic_store(&z->device[0].kind[k], UINT64_MAX);
	atomic_store(&z->device[0].claimed, UINT64_MAX);
	atomic_store(&z->device[0].lacks, UINT64_MAX);
	atomic_store(&a->device[0].misses, 1);
	mem_bell(w, &w->a);
	assert_int_equal(wish(a), FM_MEM_IN);
	came_in(a);
	pass(w, 10 * FM_MS);
	assert_int_equal(wish(a), FM_MEM_STAY);
	free_all(w, a, z);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			idle_memory_goes_out_and_comes_back, setup, teardown),
		cmocka_unit_test_setup_teardown(
			what_runs_from_the_host_needs_no_room, setup, teardown),
		cmocka_unit_test_setup_teardown(refused_where_nobody_can_go, setup, teardown),
		cmocka_unit_test_setup_teardown(
			more_goes_where_the_driver_still_refuses, setup, teardown),
		cmocka_unit_test_setup_teardown(what_does_not_move_is_left_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(
			what_is_slow_to_rest_is_asked_again, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_at_rest_has_longer, setup, teardown),
		cmocka_unit_test_setup_teardown(they_do_not_throw_each_other_out, setup, teardown),
		cmocka_unit_test_setup_teardown(the_lower_waits_for_the_higher, setup, teardown),
		cmocka_unit_test_setup_teardown(
			what_can_never_be_given_is_not_waited_for, setup, teardown),
		cmocka_unit_test_setup_teardown(
			what_is_being_allocated_is_waited_for, setup, teardown),
		cmocka_unit_test_setup_teardown(one_look_refuses_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(what_went_out_meanwhile_is_tried, setup, teardown),
		cmocka_unit_test_setup_teardown(
			what_is_claimed_in_vain_refuses_nobody, setup, teardown),
		cmocka_unit_test_setup_teardown(who_comes_in_can_go_again, setup, teardown),
		cmocka_unit_test_setup_teardown(who_was_out_has_not_waited, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_crowd_that_waits_keeps_nobody_from_room, setup, teardown),
		cmocka_unit_test_setup_teardown(idle_for_as_long_as_the_hint_says, setup, teardown),
		cmocka_unit_test_setup_teardown(who_comes_later_goes_out_too, setup, teardown),
		cmocka_unit_test_setup_teardown(
			who_does_not_come_in_waits_behind_others, setup, teardown),
		cmocka_unit_test_setup_teardown(false_progress_is_not_waited_for, setup, teardown),
		cmocka_unit_test_setup_teardown(one_that_stands_keeps_nobody_out, setup, teardown),
		cmocka_unit_test_setup_teardown(lies_keep_nobody_out, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
