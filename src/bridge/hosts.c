/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the host for what is not on devices: how much of it users may have, all of them
 * together, and on each NUMA node. A client asks before it takes more (ledger.h); what it keeps as
 * copies of what is on the device is a cache, and goes first when others need the room.
 *
 * What a client says it has counts for others no more than what it was granted. So a client that
 * lies takes room within its own user's budget alone. It cannot say that it has less than it was
 * granted, for that counts until it is taken back.
 *
 * Owns: what rows may have.
 * Locks: none.
 * Threads: the bridge's.
 */
#include "demand.h"

#define LOOK      (100 * FM_MS) /* while somebody waits for room */
#define SOON      (5 * FM_MS)   /* while copies are on their way out for it */
#define PATIENCE  (500 * FM_MS) /* a request waits for them so long */
#define LEFT_LOOK (100 * FM_MS)
/* Of the rows that wait, so many at a time have others asked to give up memory. */
#define RECLAIMS 16
/* A client says what it has before it has it, and the kernel's figures lag behind. */
#define OWN_LAG  (UINT64_C(512) << 20)
#define OWN_LOOK (20 * FM_MS)
/* A client gets more than it asks for, so that it asks seldom. */
#define STEP_MOST (UINT64_C(1) << 30)
#define STEP_PART 4

/* --- what there is --- */

static uint64_t user_limit(const struct fm_bridge *b, const struct memory *m)
{
	const struct fm_bridge_limits *l = client_limits(b, m->client);

	return l && l->memory_host ? l->memory_host : UINT64_MAX;
}

static bool is_bound(const struct fm_bridge *b, const struct memory *m)
{
	return m->managed && (b->memory.away || b->memory.nodes || b->host.host_left ||
				     user_limit(b, m) != UINT64_MAX);
}

/* Is that node's budget one of the row's? Of a device that is nowhere, each is. */
static bool is_on(const struct fm_bridge *b, const struct memory_row *r, unsigned node)
{
	return r->place.node < 0 || r->place.node == b->memory.node[node].node;
}

/* What it has for memory that is nowhere else. */
static uint64_t content_of(const struct memory *m, const struct memory_row *r)
{
	const struct fm_ledger_device *row = &m->ledger->device[r - m->row];
	uint64_t movable = demand_most(CLAIM(row->kind[FM_MEM_MOVABLE]));
	uint64_t host = FM_MIN(CLAIM(row->host), movable);

	return host + FM_MIN(CLAIM(row->mapped), movable - host);
}

/* More than its process has at all it has not: for that, the kernel's figures are looked at. What
 * is mapped from there is the driver's, and in none of these. */
static uint64_t bounded(struct fm_bridge *b, struct memory *m, uint64_t said)
{
	if (said <= OWN_LAG || !b->host.host_own)
		return said;
	if (said - OWN_LAG > m->own && b->now - m->own_at >= OWN_LOOK) {
		m->own = b->host.host_own(m->client->ctx);
		m->own_at = b->now;
	}
	return FM_MIN(said, fm_add_sat(m->own, OWN_LAG));
}

static void read_row(struct fm_bridge *b, struct memory *m, struct memory_row *r)
{
	const struct fm_ledger_device *row = &m->ledger->device[r - m->row];
	uint64_t said = demand_most(CLAIM(row->host_has));
	uint64_t mapped = FM_MIN(demand_most(CLAIM(row->mapped)), said);

	r->host_has = mapped + bounded(b, m, said - mapped);
	r->lies |= said - r->host_has > OWN_LAG;
	/* What is out is somewhere. */
	if (r->host_may != UINT64_MAX)
		r->host_has = FM_MAX(r->host_has, FM_MIN(content_of(m, r), r->host_may));
	r->host_mark = FM_MIN(r->host_mark, FM_MAX(r->host_may, r->host_has));
}

/* What it counts for all budgets. */
static uint64_t counted(const struct memory_row *r)
{
	if (r->host_may == UINT64_MAX)
		return r->host_has;
	return FM_MAX(r->host_may, FM_MIN(r->host_has, r->host_mark));
}

/* What it can give back: not what it has been told to, and has not. */
static uint64_t spare(const struct memory *m, const struct memory_row *r)
{
	uint64_t all = counted(r);

	if (r->host_may == UINT64_MAX || r->host_may < all)
		return 0;
	return fm_sub_sat(all, FM_MIN(content_of(m, r), r->host_has));
}

static void add(struct host_sum *s, uint64_t taken, uint64_t more)
{
	s->taken = fm_add_sat(s->taken, taken);
	s->spare = fm_add_sat(s->spare, more);
}

static void add_row(struct fm_bridge *b, struct memory *m, struct memory_row *r)
{
	uint64_t all, more;

	all = counted(r);
	more = spare(m, r);
	add(&b->hosts, all, more);
	add(&m->client->user->host, all, more);
	for (unsigned i = 0; i < b->memory.nodes; i++)
		if (is_on(b, r, i))
			add(&b->host_node[i], all, more);
	if (r->host_may != UINT64_MAX)
		b->host_promised =
			fm_add_sat(b->host_promised, fm_sub_sat(r->host_may, r->host_has));
}

static void forget_sums(struct fm_bridge *b)
{
	struct user *u;

	b->hosts = (struct host_sum){0};
	b->host_promised = 0;
	for (unsigned i = 0; i < FM_BRIDGE_NODES; i++)
		b->host_node[i] = (struct host_sum){0};
	fm_list_each (u, &b->users, link)
		u->host = (struct host_sum){0};
}

#define each_host_row(b, c, m, r)                                                                \
	fm_list_each (c, &(b)->clients, link)                                                    \
		for (struct memory *m = c->memory; m && m->managed; m = NULL)                    \
			for (struct memory_row *r = m->row; r < m->row + FM_LEDGER_DEVICES; r++) \
				if (r->dev)

static void sum(struct fm_bridge *b)
{
	struct fm_bridge_client *c;

	forget_sums(b);
	each_host_row(b, c, m, r) add_row(b, m, r);
}

void hosts_look(struct fm_bridge *b)
{
	struct fm_bridge_client *c;

	each_host_row(b, c, m, r) read_row(b, m, r);
	if (b->host.host_left && b->now - b->host_left_at >= LEFT_LOOK) {
		b->host_left = b->host.host_left();
		b->host_left_at = b->now;
	}
	sum(b);
}

/* --- what a row may have --- */

/* In all. own: what the row counts, and can give back itself. */
static void within(uint64_t limit, const struct host_sum *s, const struct host_sum *own,
	bool reclaims, enum fm_host_by by, uint64_t *most, struct fm_bridge_host_short *why)
{
	uint64_t others = fm_sub_sat(s->taken, own->taken), left;

	if (reclaims)
		others = fm_sub_sat(others, fm_sub_sat(s->spare, own->spare));
	left = fm_sub_sat(limit, others);
	if (limit == UINT64_MAX || left >= *most)
		return;
	*most = left;
	why->by = by;
	why->limit = limit;
}

/* What the machine has left is less by what others were granted and have not taken. own: what of
 * the sum the row could give back itself. */
static void within_machine(const struct fm_bridge *b, const struct memory_row *r, uint64_t own,
	uint64_t *most, struct fm_bridge_host_short *why)
{
	uint64_t promised = fm_sub_sat(b->host_promised, fm_sub_sat(r->host_may, r->host_has));
	uint64_t left = fm_sub_sat(b->host_left, promised);

	left = fm_add_sat(fm_add_sat(r->host_has, left), fm_sub_sat(b->hosts.spare, own));
	if (left >= *most || b->host_left == UINT64_MAX)
		return;
	*most = left;
	why->by = FM_HOST_LEFT;
	why->limit = b->host_left;
}

static uint64_t most_of(struct fm_bridge *b, const struct memory *m, const struct memory_row *r,
	bool reclaims, struct fm_bridge_host_short *why)
{
	struct host_sum own = {counted(r), spare(m, r)};
	uint64_t most = UINT64_MAX;

	*why = (struct fm_bridge_host_short){.uid = m->client->user->uid, .node = -1};
	if (!is_bound(b, m))
		return most;
	within(user_limit(b, m), &m->client->user->host, &own, reclaims, FM_HOST_USER, &most, why);
	for (unsigned i = 0; i < b->memory.nodes; i++) {
		uint64_t before = most;

		if (is_on(b, r, i))
			within(b->memory.node[i].most, &b->host_node[i], &own, reclaims,
				FM_HOST_NODE, &most, why);
		if (most < before)
			why->node = b->memory.node[i].node;
	}
	if (b->memory.away)
		within(b->memory.away, &b->hosts, &own, reclaims, FM_HOST_ALL, &most, why);
	else if (b->host.host_left)
		within_machine(b, r, reclaims ? own.spare : UINT64_MAX, &most, why);
	return most;
}

static void allow(struct fm_bridge *b, struct memory *m, struct memory_row *r, uint64_t may)
{
	r->host_may = may;
	if (may != UINT64_MAX)
		r->host_mark = FM_MAX(r->host_mark, may);
	r->host_has = demand_most(fm_ledger_host_allow(&m->ledger->device[r - m->row], may));
	if (r->host_has > may)
		b->host.wake(m->client->ctx);
}

/* --- requests --- */

/* While its memory is out the driver gives nothing back. */
static bool gives_back(const struct memory *m)
{
	return (CLAIM(m->client->board->rest) & FM_REST_STATE) < FM_REST_MOVING;
}

/* Those that share the budget that has no room for it give up what they can. True: some is on its
 * way, now or since an earlier time. */
static bool reclaim(struct fm_bridge *b, const struct memory *own, const struct memory_row *but,
	const struct fm_bridge_host_short *why, uint64_t bytes)
{
	struct fm_bridge_client *c;
	bool any = false;

	each_host_row(b, c, m, r)
	{
		uint64_t more = FM_MIN(spare(m, r), bytes), slack;

		if (r == but || (why->by == FM_HOST_USER && c->user != own->client->user) ||
			(why->by == FM_HOST_NODE && r->place.node >= 0 &&
				r->place.node != why->node))
			continue;
		any |= r->host_may != UINT64_MAX && r->host_has > r->host_may && gives_back(m);
		if (!more)
			continue;
		bytes -= more;
		slack = fm_sub_sat(r->host_may, r->host_has);
		allow(b, m, r, counted(r) - more);
		any |= more > slack && gives_back(m);
	}
	sum(b);
	return any;
}

static uint64_t step(uint64_t wants, uint64_t most)
{
	return wants + FM_MIN(STEP_MOST, (most - wants) / STEP_PART);
}

static void answer(struct memory *m, struct memory_row *r, bool waits)
{
	r->host_waits = waits;
	r->host_told = true;
	fm_ledger_host_answer(&m->ledger->device[r - m->row], r->host_asks);
}

/* What it wants, if there is room; else others are asked to give some up, for a while. */
static uint64_t serve(struct fm_bridge *b, struct memory *m, struct memory_row *r, bool reclaims)
{
	uint64_t wants = demand_most(CLAIM(m->ledger->device[r - m->row].host_wants)), most, more;
	struct fm_bridge_host_short why, none;
	bool comes = !reclaims, was_told = r->host_told;

	if (!wants) {
		answer(m, r, false);
		return FM_NEVER;
	}
	most = most_of(b, m, r, false, &why);
	/* For what can never be given nobody gives anything up. */
	if (wants > most && reclaims) {
		more = wants <= most_of(b, m, r, true, &none) ? wants - most : 0;
		comes = reclaim(b, m, r, &why, more);
		most = most_of(b, m, r, false, &why);
	}
	if (wants <= most) {
		allow(b, m, r, most == UINT64_MAX ? most : step(wants, most));
		sum(b);
		answer(m, r, false);
		if (was_told)
			b->host.wake(m->client->ctx);
		return FM_NEVER;
	}
	if (!was_told && comes && b->now - r->host_since < PATIENCE)
		return b->now + SOON;
	answer(m, r, true);
	return b->now + LOOK;
}

/* A row that was never granted anything, or has more than it was: it is what it is, as far as the
 * budgets allow that. */
static void take_over(struct fm_bridge *b, struct memory *m, struct memory_row *r)
{
	struct fm_bridge_host_short why;
	uint64_t most = most_of(b, m, r, false, &why);

	allow(b, m, r, most == UINT64_MAX ? most : FM_MIN(most, r->host_has));
	sum(b);
}

/* Is something new in the row? */
static bool is_new(const struct memory *m, const struct memory_row *r)
{
	return r->dev &&
	       (!r->host_begun || CLAIM(m->ledger->device[r - m->row].host_asks) != r->host_asks);
}

static void look_at_row(struct fm_bridge *b, struct memory *m, struct memory_row *r)
{
	uint32_t number = CLAIM(m->ledger->device[r - m->row].host_asks);

	if (!r->host_begun)
		take_over(b, m, r);
	r->host_begun = true;
	if (number == r->host_asks)
		return;
	r->host_asks = number;
	/* A client that was refused, and asks again at once, has waited for others already. */
	if (!r->host_waits || !r->host_told)
		r->host_since = b->now;
	r->host_waits = true;
	r->host_told = false;
	b->hosts_at = FM_MIN(b->hosts_at, serve(b, m, r, true));
}

static bool has_new(const struct memory *m)
{
	bool any = false;

	for (unsigned i = 0; m->managed && i < FM_LEDGER_DEVICES; i++)
		any |= is_new(m, &m->row[i]);
	return any;
}

static void look_at_new(struct fm_bridge *b, struct memory *m)
{
	for (unsigned i = 0; i < FM_LEDGER_DEVICES; i++)
		if (is_new(m, &m->row[i]))
			look_at_row(b, m, &m->row[i]);
}

/* All rows are looked at for it: so a user whose clients ask on and on is served later. */
static bool has_its_turn(struct fm_bridge *b, struct memory *m)
{
	struct user *u = m->client->user;

	if (!has_new(m))
		return false;
	if (demand_pay(b, u, b->now))
		return true;
	b->hosts_at = FM_MIN(b->hosts_at, demand_paid(u, b->now));
	return false;
}

void hosts_bell(struct fm_bridge *b, struct memory *m)
{
	if (!has_its_turn(b, m))
		return;
	hosts_look(b);
	look_at_new(b, m);
}

/* Where many wait, each has others asked in its turn. */
static void look_at_waiting(struct fm_bridge *b)
{
	unsigned parts = b->host_waiting / RECLAIMS + 1, n = 0;
	struct fm_bridge_client *c;

	b->host_round++;
	each_host_row(b, c, m, r) if (r->host_waits) b->hosts_at =
		FM_MIN(b->hosts_at, serve(b, m, r, n++ % parts == b->host_round % parts));
	b->host_waiting = n;
}

void hosts_attach(struct fm_bridge *b, struct memory *m)
{
	for (unsigned i = 0; i < FM_LEDGER_DEVICES; i++) {
		m->row[i].host_may = is_bound(b, m) ? 0 : UINT64_MAX;
		fm_ledger_host_allow(&m->ledger->device[i], m->row[i].host_may);
	}
	hosts_bell(b, m);
}

void hosts_settings(struct fm_bridge *b)
{
	struct fm_bridge_client *c;

	b->hosts_at = b->host_left_at = 0;
	each_host_row(b, c, m, r) r->host_may = r->host_mark = 0;
	hosts_look(b);
	each_host_row(b, c, m, r) take_over(b, m, r);
	demand_kick(b);
}

uint64_t hosts_run(struct fm_bridge *b, uint64_t now)
{
	struct fm_bridge_client *c;

	if (now < b->hosts_at)
		return b->hosts_at;
	b->hosts_at = FM_NEVER;
	hosts_look(b);
	fm_list_each (c, &b->clients, link)
		if (c->memory && has_its_turn(b, c->memory))
			look_at_new(b, c->memory);
	look_at_waiting(b);
	return b->hosts_at;
}

/* --- for plans --- */

uint64_t hosts_room(struct fm_bridge *b, const struct memory *m, const struct memory_row *r,
	struct fm_bridge_host_short *why)
{
	const struct fm_ledger_device *row = &m->ledger->device[r - m->row];
	struct fm_bridge_host_short none;
	uint64_t room = most_of(b, m, r, true, why ? why : &none), grain = CLAIM(row->grain);

	room = fm_sub_sat(room, content_of(m, r));
	/* A part of a chunk does not go out. */
	return room < CLAIM(row->resident) && grain ? room - room % grain : room;
}

uint64_t hosts_room_of(const struct fm_bridge_group *g, const struct bdevice *d)
{
	uint64_t sum_of = 0;
	struct member *m;

	fm_list_each (m, &g->members, in_group)
		for (unsigned i = 0; demand_memory(m) && i < FM_LEDGER_DEVICES; i++) {
			const struct memory_row *r = &demand_memory(m)->row[i];

			if (r->dev && (!d || r->dev == d) && demand_memory(m)->managed)
				sum_of = fm_add_sat(
					sum_of, hosts_room(g->bridge, demand_memory(m), r, NULL));
		}
	return sum_of;
}
