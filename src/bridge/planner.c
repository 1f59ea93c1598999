/* SPDX-License-Identifier: Apache-2.0 */
/* Does what the plan says: shares, wishes, holds. */
#include "planner.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
 * memory of a program that Fermata does not know. That may end some time. */
#define FULL_AFTER  (20 * FM_MS)
#define FULL_MOST   FM_S /* though others' memory goes out meanwhile */
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

/* --- the link --- */

/* Others that move memory behind the same bridge; and the fastest link there. */
static unsigned others_on(struct fm_bridge *b, const struct bdevice *d, uint64_t *fastest)
{
	const struct bdevice *o;
	unsigned n = 0;

	*fastest = d->planner->rate;
	fm_list_each (o, &b->devices, link) {
		if (o == d || !o->planner || !*d->upstream || strcmp(o->upstream, d->upstream) != 0)
			continue;
		n += o->tight && o->moves;
		*fastest = FM_MAX(*fastest, o->planner->rate);
	}
	return n;
}

static struct fm_mem_link link_of(uint64_t rate)
{
	return (struct fm_mem_link){.in = rate, .out = rate, .both = rate + rate / 2};
}

/* Until it has been measured, the bridge is taken to carry what one device does, both ways. */
static void set_link(struct fm_bridge *b, struct bdevice *d)
{
	struct planner *p = d->planner;
	struct fm_mem_link alone;
	uint64_t fastest;

	p->others = others_on(b, d, &fastest);
	alone = link_of(p->rate);
	if (!p->others)
		p->w.link = alone;
	else if (p->beside)
		p->w.link = link_of(FM_MIN(p->beside, p->rate));
	else
		p->w.link = fm_mem_link_beside(&alone, link_of(fastest).both, p->others);
	if (p->one_way)
		p->w.link.both = p->w.link.in;
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
	p->one_way = b->memory.one_way;
	p->w.host_left = UINT64_MAX;
	p->w.slack = SLACK;
	if (!p->rate)
		p->rate = RATE;
	set_link(b, d);
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

/* How fast memory comes in, while it does: alone behind its bridge, or beside others. */
static void measure(struct planner *p, bool comes)
{
	uint64_t ns = p->w.now - p->rate_at, in = came_in(p), rate;
	uint64_t *of = p->others ? &p->beside : &p->rate;
	bool same = !p->others == !p->others_then;

	if (comes && p->rate_at && same && ns < RATE_OVER)
		return;
	if (comes && p->rate_at && same && in > p->rate_in) {
		rate = (uint64_t)((unsigned __int128)(in - p->rate_in) * FM_S / ns);
		rate = FM_MIN(FM_MAX(rate, RATE_LEAST), RATE_MOST);
		if (!*of)
			*of = rate;
		*of = *of - *of / 4 + rate / 4;
		p->measured = true;
	}
	p->rate_at = comes ? p->w.now : 0;
	p->rate_in = in;
	p->others_then = p->others;
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

static void store_share(struct fm_bridge *b, const struct planned_client *c)
{
	struct fm_ledger *l = c->client->memory->ledger;

	NOTE_MEMORY(b, memory_share, c->client->first.group, c->row->dev, NULL, c->share, c->here,
		c->here + c->missing);
	c->row->share = c->share;
	atomic_store(&l->device[c->row - c->client->memory->row].share, c->share);
}

static bool all_are_here(const struct planner *p)
{
	for (unsigned i = 0; i < p->w.groups; i++)
		if (p->of[i].group->demand.place != PLACE_HERE)
			return false;
	return true;
}

/* What runs from the host in a group that goes on running comes to the device by itself. So it does
 * in one that is idle, where nobody waits for the room. */
static void share_what_is_left(struct planner *p, uint64_t room)
{
	bool idle_too = all_are_here(p);

	for (unsigned i = 0; i < p->w.groups; i++)
		for (unsigned k = p->of[i].client; k < p->of[i].client + p->of[i].clients; k++) {
			struct planned_client *c = &p->client[k];
			uint64_t back = fm_sub_sat(c->here + c->missing, c->share);

			back = FM_MIN(c->back, back);
			back = FM_MIN(back, room);

			if (p->of[i].group->demand.place != PLACE_HERE ||
				!(p->group[i].running || idle_too))
				continue;
			room -= back;
			c->share += back;
		}
}

/* Nothing is to come in now: the link carries one way at a time, and something goes out. */
static bool goes_first(const struct planner *p)
{
	if (!p->one_way)
		return false;
	for (unsigned i = 0; i < p->w.extents; i++)
		if (p->extent[i].where == FM_GOING)
			return true;
	return p->plan.n_out;
}

/* What each client is to have: what it has or was promised, less what goes, and more for which
 * there is room now. */
static void set_shares(struct planner *p)
{
	uint64_t room = p->w.capacity;
	bool wait = goes_first(p);

	for (unsigned i = 0; i < p->w.clients; i++)
		p->client[i].share = 0;
	for (unsigned i = 0; i < p->w.extents; i++) {
		const struct fm_extent *x = &p->extent[i];

		if (fm_mem_is_on_device(x))
			room = fm_sub_sat(room, x->bytes);
		if (x->where == FM_ON_DEVICE || (x->where == FM_COMING && !wait))
			p->client[x->client].share += x->bytes;
	}
	for (unsigned i = 0; i < p->plan.n_out; i++) {
		const struct fm_extent *x = &p->extent[p->plan.out[i]];

		p->client[x->client].share -= x->bytes;
	}
	if (wait)
		return;
	for (unsigned i = 0; i < p->plan.n_in; i++) {
		const struct fm_extent *x = &p->extent[p->plan.in[i]];

		if (x->bytes > room)
			break;
		room -= x->bytes;
		p->client[x->client].share += x->bytes;
	}
	share_what_is_left(p, room);
}

static void mark_those_that_move(struct planner *p)
{
	for (unsigned k = 0; k < p->w.groups; k++) {
		const struct fm_mem_group *g = &p->group[k];

		for (unsigned i = 0; i < p->plan.n_out; i++)
			p->of[k].goes |= p->plan.out[i] - g->first < g->n;
		for (unsigned i = 0; i < p->plan.n_in; i++)
			p->of[k].comes |= p->plan.in[i] - g->first < g->n;
	}
}

/* For people: the group whose memory is to come in. */
static struct fm_bridge_group *cause_of(const struct planner *p)
{
	for (unsigned k = 0; k < p->w.turns; k++)
		if (p->plan.group[p->turn[k].group].missing)
			return p->of[p->turn[k].group].group;
	return NULL;
}

static void put_out(struct fm_bridge *b, struct planner *p, struct planned_group *of)
{
	struct fm_bridge_group *cause = cause_of(p);

	for (unsigned k = of->client; k < of->client + of->clients; k++)
		store_share(b, &p->client[k]);
	demand_go_out(b, of->group, FM_OUT_DEMAND, cause != of->group ? cause : NULL, p->w.now);
}

static void follow_due(struct fm_bridge *b, const struct bdevice *d, struct planned_group *of)
{
	const struct planner *p = d->planner;
	struct demand *x = &of->group->demand;

	if (x->place == PLACE_HERE || (!of->turn && x->due_on == d)) {
		x->due = 0;
	} else if (of->turn && of->missing && !x->due) {
		x->due = p->w.now;
		x->due_on = d;
		x->stood_from = d->exposed;
		NOTE_MEMORY(b, memory_due, of->group, d, NULL, of->missing, p->w.link.in,
			p->w.capacity);
	}
	if (x->due_on == d)
		x->stood = d->exposed - x->stood_from;
}

/* Is it to have all of its memory on this device that is not to be mapped from the host? */
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

/* At its place. What is to be mapped from the host is, when it has work; then it is in. */
static void let_in(struct fm_bridge *b, struct planner *p, const struct planned_group *of)
{
	if (!demand_missing(of->group, NULL))
		demand_is_in(b, of->group, p->shared, p->w.now);
	else if (of->listed)
		demand_bring_in(b, of->group, p->shared, p->w.now);
}

static void apply_here(struct fm_bridge *b, struct bdevice *d, unsigned i)
{
	struct planner *p = d->planner;
	struct planned_group *of = &p->of[i];

	/* What starts early gets its memory while it runs. */
	if (of->goes || (of->comes && of->missing && !p->group[i].early)) {
		put_out(b, p, of);
		return;
	}
	stop(b, d, of->group,
		p->plan.group[i].held && !demand_lacks(of->group) &&
			!(p->group[i].early && of->turn));
	for (unsigned k = of->client; k < of->client + of->clients; k++)
		if ((p->client[k].row->share != UINT64_MAX || p->group[i].early) &&
			p->client[k].row->share != p->client[k].share) {
			store_share(b, &p->client[k]);
			b->host.wake(p->client[k].client->ctx);
		}
}

static void apply(struct fm_bridge *b, struct bdevice *d, unsigned i)
{
	struct planner *p = d->planner;
	struct planned_group *of = &p->of[i];
	const struct fm_mem_state *state = &p->plan.group[i];
	struct fm_bridge_group *g = of->group;
	uint64_t now = p->w.now;

	follow_due(b, d, of);
	if (g->away != FM_MEM_STAY || g->demand.place == PLACE_COMING)
		return;
	if (g->demand.place == PLACE_HERE) {
		apply_here(b, d, i);
		return;
	}
	if (of->turn && g->demand.place == PLACE_OUT && fm_mem_starts_early(&p->plan, &p->w, i)) {
		demand_is_in(b, g, true, now);
		return;
	}
	/* What there is no room for whatever goes: the driver has the last word. */
	if (of->turn && of->missing && !state->missing) {
		demand_bring_in(b, g, true, now);
		return;
	}
	for (unsigned k = of->client; k < of->client + of->clients; k++)
		if (p->client[k].row->share != p->client[k].share) {
			g->demand.early |= p->client[k].share > p->client[k].here;
			store_share(b, &p->client[k]);
			b->host.wake(p->client[k].client->ctx);
		}
	if (of->goes && g->demand.place == PLACE_OUT)
		demand_goes_on(g, now);
	if (has_all(p, of) && !demand_set_missing(g, now) && !demand_gives(g))
		let_in(b, p, of);
}

/* --- a device that is fuller than it seems --- */

static bool finds_none_on(const struct fm_bridge_group *g, const struct bdevice *d)
{
	struct member *m;

	fm_list_each (m, &g->members, in_group)
		for (unsigned i = 0; demand_memory(m) && i < FM_LEDGER_DEVICES; i++)
			if (demand_memory(m)->row[i].dev == d &&
				CLAIM(demand_memory(m)->ledger->device[i].trouble) ==
					FM_MEM_DEVICE_FULL)
				return true;
	return false;
}

/* Memory of it is to come in there, and for a while the driver has had no room for it. */
static bool is_full(const struct fm_bridge_group *g, const struct bdevice *d, uint64_t now)
{
	const struct demand *x = &g->demand;
	uint64_t since = g->away == FM_MEM_IN ? g->coming_since : x->moved_at;

	if (g->away == FM_MEM_STAY ? x->place != PLACE_OUT && x->place != PLACE_COMING
				   : g->away != FM_MEM_IN)
		return false;
	if (now - since < FULL_MOST)
		since = FM_MAX(since, d->planner->left_at);
	return now - since >= FULL_AFTER && finds_none_on(g, d);
}

/* Of a group: where so much comes in, the rest of the device has to be that much emptier. */
static uint64_t bytes_in(const struct planner *p, unsigned group, enum fm_where where)
{
	const struct fm_mem_group *g = &p->group[group];
	uint64_t sum = 0;

	for (unsigned k = g->first; k < g->first + g->n; k++)
		if (p->extent[k].where == where)
			sum += p->extent[k].bytes;
	return sum;
}

/* What is refused does not come: somebody has to make room for it first. What comes in by hand has
 * no turn, and keeps its claim. */
static void stays_out(struct planner *p, unsigned group)
{
	const struct fm_mem_group *g = &p->group[group];

	for (unsigned k = g->first; k < g->first + g->n; k++)
		if (p->extent[k].where == FM_COMING && p->of[group].group->away == FM_MEM_STAY)
			p->extent[k].where = FM_ON_HOST;
}

/* While the driver has no room, what is there is all that there is room for: programs that Fermata
 * does not know have the rest of the device. That is never more than what is not there, for what is
 * there shows how much room there was. So a plan that goes by it finds the room with those that are
 * there, running or not; and what has none, even if all of them go, is not waited for. */
static void look_for_unseen(const struct bdevice *d)
{
	struct planner *p = d->planner;
	uint64_t there = 0, left;

	if (p->w.now - p->unseen_at >= UNSEEN_MOST)
		p->unseen = 0;
	for (unsigned i = 0; i < p->w.groups; i++)
		there = fm_add_sat(
			there, fm_add_sat(bytes_in(p, i, FM_ON_DEVICE), bytes_in(p, i, FM_GOING)));
	if (there < p->there)
		p->left_at = p->w.now;
	p->there = there;
	left = fm_sub_sat(p->w.capacity, there);
	p->unseen = FM_MIN(p->unseen, left);
	for (unsigned i = 0; i < p->w.groups; i++) {
		if (!bytes_in(p, i, FM_COMING) || !is_full(p->of[i].group, d, p->w.now))
			continue;
		if (left > p->unseen) {
			p->unseen = left;
			p->unseen_at = p->w.now;
		}
		stays_out(p, i);
	}
	p->w.capacity -= p->unseen;
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

/* The next turn of a group at its place that lacks something: nothing else wakes us then. */
static uint64_t next_turn(const struct planner *p)
{
	for (unsigned k = 0; k < p->w.turns; k++) {
		const struct planned_group *of = &p->of[p->turn[k].group];

		if (p->turn[k].from > p->w.now && of->missing &&
			of->group->demand.place == PLACE_HERE)
			return p->turn[k].from;
	}
	return FM_NEVER;
}

static uint64_t finish(struct bdevice *d)
{
	struct planner *p = d->planner;
	uint64_t turn = next_turn(p), next = FM_MIN(p->plan.next, p->back_at);
	bool moves = false, comes = false, waits = false;

	for (unsigned i = 0; i < p->w.extents; i++) {
		comes |= p->extent[i].where == FM_COMING;
		moves |= p->extent[i].where == FM_COMING || p->extent[i].where == FM_GOING;
	}
	for (unsigned i = 0; i < p->w.groups; i++)
		waits |= p->of[i].turn && p->of[i].missing;
	moves |= p->plan.n_in || p->plan.n_out;
	d->moves = moves;
	measure(p, comes);
	look_at_clock(d, moves, waits);
	next = FM_MIN(next, turn);
	return moves || waits ? FM_MIN(next, p->w.now + LOOK) : next;
}

uint64_t planner_run(struct fm_bridge *b, struct bdevice *d, uint64_t now)
{
	struct planner *p;
	bool tight;

	if (d->planner && !may_plan(d->planner, now))
		return d->planner->owes - PLAN_BURST;
	clock_to(d, now);
	d->tight = false;
	fm_sched_dev_handover(d->sdev, 0);
	if (make(b, d))
		return now + LOOK;
	p = d->planner;
	p->w.now = now;
	if (planner_world(b, d, &tight))
		return now + LOOK;
	if (!tight)
		return p->back_at;
	d->tight = true;
	count_plan(b, p);
	if (planner_turns(d))
		return now + LOOK;
	look_for_unseen(d);
	if (fm_mem_plan(&p->plan, &p->w))
		return now + LOOK;
	planner_note(p);
	fm_sched_dev_handover(d->sdev, fm_mem_handover_ns(p->over, p->contend, &p->w.link));
	set_shares(p);
	mark_those_that_move(p);
	for (unsigned i = 0; i < p->w.groups; i++) {
		const struct demand *x = &p->of[i].group->demand;
		enum place place = x->place;
		bool stopped = x->stopped;

		apply(b, d, i);
		/* To follow it there; and its memory may go as soon as it is stopped. */
		if (x->place != place || x->stopped != stopped)
			demand_kick(b);
	}
	return finish(d);
}
