/* SPDX-License-Identifier: Apache-2.0 */
/* Does what the plan says: shares, wishes, holds. */
#include "planner.h"
#include <errno.h>
#include <stdlib.h>

/* Of the daemon's time, about: a plan, and for each extent in it. So much of it at once; then plans
 * wait, so that clients that ring on and on do not keep the daemon busy. */
#define PLAN_COST   (10 * FM_US)
#define EXTENT_COST UINT64_C(200)
#define PLAN_BURST  (4 * FM_MS)
/* Of the link, until something has moved. Less than it has: memory comes in too early then, which
 * costs less than too late. */
#define RATE       (UINT64_C(20) << 30)
#define RATE_LEAST (UINT64_C(1) << 30)
#define RATE_MOST  (UINT64_C(400) << 30)
#define RATE_OVER  (20 * FM_MS) /* it is measured over so long */
#define SLACK      (5 * FM_MS)
#define LOOK       (2 * FM_MS) /* while memory moves */
/* A client that comes in and finds the device full, though by the ledgers there is room, has found
 * memory of somebody whom nobody knows. That may end some time. */
#define FULL_AFTER  (20 * FM_MS)
#define UNSEEN_MOST (10 * FM_S)

void planner_free(struct bdevice *d)
{
	struct planner *p = d->planner;

	if (!p)
		return;
	fm_mem_plan_free(&p->plan);
	free(p->of);
	free(p->client);
	free(p->extent);
	free(p->group);
	free(p);
	d->planner = NULL;
}

static int make(struct fm_bridge *b, struct bdevice *d)
{
	struct planner *p = d->planner;

	if (!p)
		p = d->planner = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->w.policy = b->memory.policy ? b->memory.policy : fm_mem_policies[0];
	p->w.overtime = !b->memory.turns;
	p->w.host_left = UINT64_MAX;
	p->w.slack = SLACK;
	if (!p->rate)
		p->rate = RATE;
	p->w.link =
		(struct fm_mem_link){.in = p->rate, .out = p->rate, .both = p->rate + p->rate / 2};
	return 0;
}

/* --- what is seen --- */

static uint64_t came_in(const struct planner *p)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < p->w.clients; i++) {
		const struct planned_client *c = &p->client[i];
		const struct fm_ledger *l = c->client->memory->ledger;

		sum = fm_add_sat(sum, CLAIM(l->device[c->row - c->client->memory->row].came_in));
	}
	return sum;
}

/* How fast memory comes in, while it does. */
static void measure(struct planner *p, bool comes)
{
	uint64_t ns = p->w.now - p->rate_at, in = came_in(p), rate;

	if (comes && p->rate_at && ns < RATE_OVER)
		return;
	if (comes && p->rate_at && in > p->rate_in) {
		rate = (uint64_t)((unsigned __int128)(in - p->rate_in) * FM_S / ns);
		rate = FM_MIN(FM_MAX(rate, RATE_LEAST), RATE_MOST);
		p->rate = p->rate - p->rate / 4 + rate / 4;
	}
	p->rate_at = comes ? p->w.now : 0;
	p->rate_in = in;
}

static bool works(const struct bdevice *d)
{
	const struct ent *e;

	fm_list_each (e, &d->ents, in_device)
		if (e->gate_open && demand_has_work(e))
			return true;
	return false;
}

static void clock_to(struct bdevice *d, uint64_t now)
{
	uint64_t ns = fm_sub_sat(now, d->clock_at);

	d->exposed += d->stands ? ns : 0;
	d->hidden += d->hides ? ns : 0;
	d->clock_at = now;
	d->stands = d->hides = false;
}

/* What counts from now on. */
static void look_at_clock(struct bdevice *d, bool moves, bool waits)
{
	bool busy = works(d);

	d->hides = moves && busy;
	d->stands = waits && !busy;
}

/* --- what is done --- */

static void store_share(struct fm_bridge *b, const struct planned_client *c, uint64_t share)
{
	struct fm_ledger *l = c->client->memory->ledger;

	if (c->row->share == share)
		return;
	c->row->share = share;
	atomic_store(&l->device[c->row - c->client->memory->row].share, share);
	b->host.wake(c->client->ctx);
}

/* What each client is to have: what it has or was promised, less what goes, and more for which
 * there is room now. */
static void set_shares(struct planner *p)
{
	uint64_t room = p->w.capacity;

	for (unsigned i = 0; i < p->w.clients; i++)
		p->client[i].share = 0;
	for (unsigned i = 0; i < p->w.extents; i++) {
		const struct fm_extent *x = &p->extent[i];

		if (fm_mem_is_on_device(x))
			room = fm_sub_sat(room, x->bytes);
		if (x->where == FM_ON_DEVICE || x->where == FM_COMING)
			p->client[x->client].share += x->bytes;
	}
	for (unsigned i = 0; i < p->plan.n_out; i++) {
		const struct fm_extent *x = &p->extent[p->plan.out[i]];

		p->client[x->client].share -= x->bytes;
	}
	for (unsigned i = 0; i < p->plan.n_in; i++) {
		const struct fm_extent *x = &p->extent[p->plan.in[i]];

		if (x->bytes > room)
			break;
		room -= x->bytes;
		p->client[x->client].share += x->bytes;
	}
}

static void mark_those_that_go(struct planner *p)
{
	for (unsigned i = 0; i < p->plan.n_out; i++)
		for (unsigned k = 0; k < p->w.groups; k++) {
			const struct fm_mem_group *g = &p->group[k];

			if (p->plan.out[i] >= g->first && p->plan.out[i] < g->first + g->n)
				p->of[k].goes = true;
		}
}

/* For people: the group whose memory is to come in. */
static const struct fm_bridge_group *cause_of(const struct planner *p)
{
	for (unsigned k = 0; k < p->w.turns; k++)
		if (p->plan.group[p->turn[k].group].missing)
			return p->of[p->turn[k].group].group;
	return NULL;
}

static void put_out(struct fm_bridge *b, struct planner *p, struct planned_group *of)
{
	const struct fm_bridge_group *cause = cause_of(p);

	for (unsigned k = of->client; k < of->client + of->clients; k++) {
		const struct planned_client *c = &p->client[k];

		c->row->share = c->share;
		atomic_store(
			&c->client->memory->ledger->device[c->row - c->client->memory->row].share,
			c->share);
	}
	demand_go_out(b, of->group, FM_OUT_DEMAND, cause != of->group ? cause : NULL, p->w.now);
}

static void follow_due(struct planned_group *of, uint64_t now)
{
	struct demand *x = &of->group->demand;

	if (!of->turn || x->place == PLACE_HERE)
		x->due = 0;
	else if (!x->due)
		x->due = now;
}

/* Is it to have all of its memory on this device? */
static bool has_all(const struct planner *p, const struct planned_group *of)
{
	for (unsigned k = of->client; k < of->client + of->clients; k++)
		if (p->client[k].share < p->client[k].here + p->client[k].missing)
			return false;
	return true;
}

/* A group of several processes may be on several devices: it is let go where it was stopped. */
static void stop(struct fm_bridge *b, struct bdevice *d, struct fm_bridge_group *g, bool held)
{
	if (held && !g->demand.stopped)
		g->demand.stopped_by = d;
	if (g->demand.stopped_by == d)
		demand_stop(b, g, held, d->planner->w.now);
}

static void apply(struct fm_bridge *b, struct bdevice *d, unsigned i)
{
	struct planner *p = d->planner;
	struct planned_group *of = &p->of[i];
	const struct fm_mem_state *state = &p->plan.group[i];
	struct fm_bridge_group *g = of->group;
	uint64_t now = p->w.now;

	follow_due(of, now);
	if (g->away != FM_MEM_STAY || g->demand.place == PLACE_COMING)
		return;
	if (g->demand.place == PLACE_HERE) {
		if (of->goes)
			put_out(b, p, of);
		else
			stop(b, d, g, state->held && !demand_lacks(g));
		return;
	}
	/* What there is no room for whatever goes: the driver has the last word. */
	if (of->turn && of->missing && !state->missing && !p->unseen) {
		demand_bring_in(b, g, now);
		return;
	}
	for (unsigned k = of->client; k < of->client + of->clients; k++)
		store_share(b, &p->client[k], p->client[k].share);
	if (of->goes && g->demand.place == PLACE_OUT)
		demand_goes_on(g, now);
	if (has_all(p, of) && !demand_missing(g, NULL) && !demand_gives(g))
		demand_is_in(b, g, p->shared, now);
}

/* --- a device that is fuller than it seems --- */

static bool is_full(const struct planned_group *of, uint64_t now)
{
	const struct demand *x = &of->group->demand;
	struct fm_bridge_away a;

	if (x->place != PLACE_OUT || now - x->moved_at < FULL_AFTER)
		return false;
	fm_bridge_group_away(of->group, &a);
	return a.trouble == FM_MEM_DEVICE_FULL;
}

/* Of a group: where so much comes in, the rest of the device has to be that much emptier. */
static uint64_t bytes_in(const struct planner *p, unsigned group, enum fm_where where)
{
	const struct fm_mem_group *g = &p->group[group];
	uint64_t sum = 0;

	for (unsigned k = g->first; k < g->first + g->n; k++)
		sum += p->extent[k].where == where ? p->extent[k].bytes : 0;
	return sum;
}

/* By how much a device is smaller, for that group, than the largest that anybody says: a false
 * capacity is unseen memory, too. */
static uint64_t boasted(struct fm_bridge *b, const struct bdevice *d, unsigned group)
{
	const struct planner *p = d->planner;
	const struct planned_group *of = &p->of[group];
	uint64_t own = 0;

	for (unsigned k = of->client; k < of->client + of->clients; k++)
		own = FM_MAX(own, p->client[k].row->capacity);
	return fm_sub_sat(memory_capacity(b, d), own);
}

/* What is unseen takes room from groups that can go, and never from the one that comes in. While
 * the driver has no room, it is all that is not there of those that are known. */
static void look_for_unseen(struct fm_bridge *b, const struct bdevice *d)
{
	struct planner *p = d->planner;
	uint64_t stays = 0, there = 0, left;

	if (p->w.now - p->unseen_at >= UNSEEN_MOST)
		p->unseen = 0;
	for (unsigned i = 0; i < p->w.groups; i++)
		there = fm_add_sat(
			there, fm_add_sat(bytes_in(p, i, FM_ON_DEVICE), bytes_in(p, i, FM_GOING)));
	for (unsigned i = 0; i < p->w.groups; i++) {
		uint64_t coming = bytes_in(p, i, FM_COMING);
		bool full = coming && is_full(&p->of[i], p->w.now);
		uint64_t least = FM_MAX(coming, fm_sub_sat(p->w.capacity, there));
		uint64_t unseen = full ? fm_add_sat(least, boasted(b, d, i)) : 0;

		if (unseen > p->unseen) {
			p->unseen = unseen;
			p->unseen_at = p->w.now;
		}
		if (coming || p->group[i].running || p->of[i].turn)
			stays = fm_add_sat(stays, fm_add_sat(coming, bytes_in(p, i, FM_ON_DEVICE)));
		if (coming || p->of[i].turn)
			stays = fm_add_sat(stays, bytes_in(p, i, FM_ON_HOST));
	}
	left = FM_MAX(fm_sub_sat(p->w.capacity, p->unseen), stays);
	p->w.capacity = FM_MIN(p->w.capacity, left);
}

/* --- a plan --- */

/* Holding a group changes which group runs, and that changes the plan. */
static bool may_plan(const struct planner *p, uint64_t now)
{
	return p->owes <= now + PLAN_BURST;
}

/* Devices share what plans may cost: a client may have introduced some. */
static void count_plan(struct fm_bridge *b, struct planner *p)
{
	const struct bdevice *d;
	unsigned n = 0;

	fm_list_each (d, &b->devices, link)
		n += d->tight;
	p->owes = FM_MAX(p->owes, p->w.now) + (PLAN_COST + p->w.extents * EXTENT_COST) * n;
}

static uint64_t finish(struct bdevice *d)
{
	struct planner *p = d->planner;
	bool moves = false, comes = false, waits = false;

	for (unsigned i = 0; i < p->w.extents; i++) {
		comes |= p->extent[i].where == FM_COMING;
		moves |= p->extent[i].where == FM_COMING || p->extent[i].where == FM_GOING;
	}
	for (unsigned i = 0; i < p->w.groups; i++)
		waits |= p->of[i].turn && p->of[i].missing;
	moves |= p->plan.n_in || p->plan.n_out;
	measure(p, comes);
	look_at_clock(d, moves, waits);
	return moves || waits ? FM_MIN(p->plan.next, p->w.now + LOOK) : p->plan.next;
}

uint64_t planner_run(struct fm_bridge *b, struct bdevice *d, uint64_t now)
{
	struct planner *p;
	bool tight;

	if (d->planner && !may_plan(d->planner, now))
		return d->planner->owes - PLAN_BURST;
	clock_to(d, now);
	d->tight = false;
	if (make(b, d))
		return now + LOOK;
	p = d->planner;
	p->w.now = now;
	if (planner_world(b, d, &tight))
		return now + LOOK;
	if (!tight)
		return FM_NEVER;
	d->tight = true;
	count_plan(b, p);
	if (planner_turns(d))
		return now + LOOK;
	look_for_unseen(b, d);
	if (fm_mem_plan(&p->plan, &p->w))
		return now + LOOK;
	set_shares(p);
	mark_those_that_go(p);
	for (unsigned i = 0; i < p->w.groups; i++) {
		enum place place = p->of[i].group->demand.place;

		apply(b, d, i);
		if (p->of[i].group->demand.place != place)
			demand_kick(b); /* to follow it there */
	}
	return finish(d);
}
