/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a device as src/mem sees it. What clients say is bounded: a client can have no more
 * movable memory than it claims, and no more on the device than that. What others claim takes no
 * room from what is on the device now; so a false ledger can keep memory from coming in beside what
 * runs, but puts nobody's out.
 */
#include "base/cleanup.h"
#include "planner.h"
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#define GRAIN         (UINT64_C(128) << 20) /* of a client that does not say it */
#define EXTENTS_MOST  1024                  /* of a client, */
#define EXTENTS_LEAST 16                    /* however many there are */
#define WINDOW        3                     /* extents that are told to move at a time */
/* A group that had work so lately has its next soon. */
#define PAUSE (50 * FM_MS)

static int grow(void **array, unsigned *room, unsigned n, size_t size)
{
	void *more;

	if (n <= *room)
		return 0;
	more = n > UINT_MAX / 2 || size > SIZE_MAX / 2 / n ? NULL
							   : realloc(*array, 2 * (size_t)n * size);
	if (!more)
		return -ENOMEM;
	*array = more;
	*room = 2 * n;
	return 0;
}

/* --- groups --- */

static bool runs_on(const struct fm_bridge_group *g, const struct bdevice *d)
{
	const struct ent *e;

	fm_list_each (e, &g->ents, in_group)
		if (e->dev == d && e->gate_open)
			return true;
	return false;
}

bool planner_works(const struct fm_bridge_group *g, uint64_t now)
{
	const struct ent *e;

	fm_list_each (e, &g->ents, in_group)
		if (demand_has_work(e))
			return true;
	return now - demand_idle_since(g, now) < PAUSE;
}

/* Nothing of it may move now: it runs, or is about to; an allocation of it waits; it has come in
 * lately; or it comes in by hand. */
static bool stands_still(const struct fm_bridge_group *g, const struct bdevice *d, uint64_t now)
{
	if (g->away == FM_MEM_IN)
		return true;
	if (g->demand.place != PLACE_HERE || g->demand.stopped || g->away != FM_MEM_STAY)
		return false;
	if (demand_lacks(g))
		return true;
	return planner_works(g, now) && (runs_on(g, d) || g->demand.keeps > now);
}

static bool is_pinned(const struct fm_bridge_group *g, uint64_t now)
{
	if (g->away != FM_MEM_STAY)
		return false;
	return g->demand.stuck > now ||
	       (g->demand.place == PLACE_HERE && (g->demand.apart > now || demand_pins(g)));
}

/* --- extents --- */

struct parts {
	uint64_t on, coming, going, host;
};

/* What is told to come in by hand has its room for a while. */
static bool is_awaited(const struct fm_bridge_group *g, uint64_t now)
{
	return g->away == FM_MEM_IN && demand_is_awaited(g, now);
}

static struct parts parts_of(
	const struct planned_client *c, const struct fm_bridge_group *g, uint64_t now)
{
	enum fm_mem_wish wish = g->away != FM_MEM_STAY ? g->away : demand_wish(g);
	uint64_t here = c->here, missing = c->missing;

	if (wish == FM_MEM_STAY)
		return (struct parts){.on = here + missing};
	if (wish == FM_MEM_IN && (g->away == FM_MEM_STAY || is_awaited(g, now)))
		return (struct parts){.on = here, .coming = missing};
	if (wish == FM_MEM_IN)
		return (struct parts){.on = here, .host = missing};
	if (c->share < here)
		return (struct parts){.on = c->share, .going = here - c->share, .host = missing};
	return (struct parts){.on = here,
		.coming = FM_MIN(c->share - here, missing),
		.host = missing - FM_MIN(c->share - here, missing)};
}

static void add_extents(
	struct planner *p, const struct fm_extent *as, uint64_t bytes, uint64_t each)
{
	while (bytes) {
		struct fm_extent *x = &p->extent[p->w.extents++];

		*x = *as;
		x->bytes = FM_MIN(bytes, each);
		bytes -= x->bytes;
	}
}

static int add_client(
	struct planner *p, unsigned client, const struct fm_bridge_group *g, uint64_t now)
{
	const struct planned_client *c = &p->client[client];
	const struct fm_ledger_device *row =
		&c->client->memory->ledger->device[c->row - c->client->memory->row];
	struct parts is = parts_of(c, g, now);
	uint64_t grain = demand_most(CLAIM(row->grain)), all = c->here + c->missing, each;
	struct fm_extent x = {.client = client,
		.pinned = is_pinned(g, now),
		.last = planner_works(g, now) ? now : demand_idle_since(g, now)};
	unsigned most = FM_MIN(PLANNER_EXTENTS / p->w.clients, (unsigned)EXTENTS_MOST);

	most = FM_MAX(most, (unsigned)EXTENTS_LEAST);
	grain = FM_MIN(grain ? grain : GRAIN, all);
	each = FM_MAX(grain, all / most + 1);
	p->w.window = FM_MAX(p->w.window, WINDOW * each);
	if (grow((void **)&p->extent, &p->extents_room, p->w.extents + most + 8, sizeof(x)))
		return -ENOMEM;
	x.where = FM_ON_DEVICE;
	add_extents(p, &x, is.on, each);
	x.where = FM_COMING;
	add_extents(p, &x, is.coming, each);
	x.where = FM_GOING;
	add_extents(p, &x, is.going, each);
	x.where = FM_ON_HOST;
	add_extents(p, &x, is.host, each);
	return 0;
}

/* --- the world --- */

static int list_client(
	struct planner *p, struct fm_bridge_client *client, struct memory_row *r, bool here)
{
	struct sizes s = demand_row(client->memory, r);
	struct planned_client *c;

	if (!s.movable)
		return 0;
	if (grow((void **)&p->client, &p->clients_room, p->w.clients + 1, sizeof(*c)))
		return -ENOMEM;
	c = &p->client[p->w.clients++];
	*c = (struct planned_client){.client = client, .row = r, .here = s.here};
	c->share = demand_share(client->memory, r, &s);
	if (here)
		c->here = s.movable;
	c->missing = s.movable - c->here;
	return 0;
}

static int list_group(struct planner *p, struct fm_bridge_group *g, struct bdevice *d)
{
	unsigned first = p->w.clients, room = p->groups_room;
	bool here = g->demand.place == PLACE_HERE && g->away == FM_MEM_STAY;
	struct planned_group *of;
	struct member *m;
	int rc = 0;

	fm_list_each (m, &g->members, in_group)
		for (unsigned i = 0; demand_memory(m) && i < FM_LEDGER_DEVICES && !rc; i++)
			if (demand_memory(m)->row[i].dev == d && demand_memory(m)->managed)
				rc = list_client(p, m->client, &demand_memory(m)->row[i], here);
	if (rc || p->w.clients == first)
		return rc;
	if (grow((void **)&p->of, &room, p->w.groups + 1, sizeof(*p->of)) ||
		grow((void **)&p->group, &p->groups_room, p->w.groups + 1, sizeof(*p->group)))
		return -ENOMEM;
	of = &p->of[p->w.groups++];
	*of = (struct planned_group){.group = g, .client = first, .clients = p->w.clients - first};
	for (unsigned i = first; i < p->w.clients; i++)
		of->missing = fm_add_sat(of->missing, p->client[i].missing);
	return 0;
}

static int fill_group(struct planner *p, unsigned i, const struct bdevice *d, uint64_t now)
{
	const struct planned_group *of = &p->of[i];
	int64_t request = demand_hint(of->group, FM_HINT_MEMORY_REQUEST);
	int rc = 0;

	p->group[i] = (struct fm_mem_group){.first = p->w.extents,
		.turn = 1,
		.request = (uint64_t)FM_MAX(request, INT64_C(0)),
		.running = stands_still(of->group, d, now)};
	for (unsigned k = of->client; k < of->client + of->clients && !rc; k++)
		rc = add_client(p, k, of->group, now);
	p->group[i].n = p->w.extents - p->group[i].first;
	return rc;
}

/* What is claimed on the device and not in the world, and what allocations are promised. */
static uint64_t foreign(struct fm_bridge *b, const struct bdevice *d, uint64_t now)
{
	struct fm_bridge_client *c;
	uint64_t sum = 0;

	fm_list_each (c, &b->clients, link)
		for (unsigned i = 0; c->memory && i < FM_LEDGER_DEVICES; i++) {
			const struct memory_row *r = &c->memory->row[i];
			const struct fm_bridge_group *g = c->first.group;
			struct sizes s;

			if (r->dev != d)
				continue;
			s = demand_row(c->memory, r);
			sum = fm_add_sat(sum, s.all - (g && demand_moves(g) ? s.movable : 0));
			sum = fm_add_sat(sum, demand_promised(c->memory, r, now));
		}
	return sum;
}

static void set_capacity(struct fm_bridge *b, struct bdevice *d, struct planner *p)
{
	uint64_t all = memory_capacity(b, d), has = 0;

	for (unsigned i = 0; i < p->w.groups; i++)
		for (unsigned k = p->group[i].first; k < p->group[i].first + p->group[i].n; k++)
			if (p->extent[k].where == FM_ON_DEVICE ||
				(p->extent[k].where == FM_COMING &&
					p->of[i].group->away == FM_MEM_STAY))
				has = fm_add_sat(has, p->extent[k].bytes);
	p->w.capacity = fm_sub_sat(all, foreign(b, d, p->w.now));
	p->w.capacity = FM_MAX(p->w.capacity, FM_MIN(has, all));
}

int planner_world(struct fm_bridge *b, struct bdevice *d, bool *tight)
{
	struct planner *p = d->planner;
	struct fm_bridge_group *g;
	int rc = 0;

	p->w.groups = p->w.clients = p->w.extents = 0;
	p->w.window = 0;
	*tight = false;
	fm_list_each (g, &b->groups, link) {
		if (rc || !demand_moves(g))
			continue;
		rc = list_group(p, g, d);
		*tight |= demand_holds(g) || g->away != FM_MEM_STAY;
	}
	if (rc || !*tight)
		return rc;
	for (unsigned i = 0; i < p->w.groups && !rc; i++)
		rc = fill_group(p, i, d, p->w.now);
	p->w.extent = p->extent;
	p->w.group = p->group;
	set_capacity(b, d, p);
	return rc;
}
