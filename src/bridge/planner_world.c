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

/* Nothing tells that there is room for what runs from the host. */
#define BACK_LOOK     (200 * FM_MS)
#define USE_LOOK      FM_S                  /* nor that it has come to be in use */
#define GRAIN         (UINT64_C(128) << 20) /* of a client that does not say it */
#define EXTENTS_MOST  1024                  /* of a client, */
#define EXTENTS_LEAST 16                    /* however many there are */
#define WINDOW        3                     /* extents that are told to move at a time */
/* A group that had work so lately has its next soon. */
#define PAUSE (50 * FM_MS)
/* Memory that is not in use stays on the host, mapped for the device, so that its program runs
 * without it. To make and map such memory takes ten times as long as to copy it to the device, but
 * once, and a copy is made in each turn, and back. What was not used for some turns is taken not to
 * be used for as many again. A group waits no longer than the last of these at a time; the rest of
 * it is copied, until a later turn. Where there is room that nobody needs, it is copied anyway. */
#define MAP_RATE  (UINT64_C(4) << 30) /* bytes a second, until it has been measured */
#define MAP_TURNS 8
#define MAP_FOR   (2 * FM_S)
#define MAP_LEAST (UINT64_C(64) << 20) /* bytes; less is copied, if it is a small part */

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

/* Of a client's memory, by place. What is in use is in front, as its list of chunks is. */
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
	enum fm_mem_wish wish = away_wish(g);
	uint64_t here = c->here, missing = c->missing + c->maps;
	uint64_t coming = FM_MIN(fm_sub_sat(c->share, here), missing);

	if (wish == FM_MEM_STAY)
		return (struct parts){.on = here, .host = missing};
	/* By hand it is to come in whole, though for now its share may be small. */
	if (is_awaited(g, now))
		return (struct parts){.on = here, .coming = missing};
	if (wish == FM_MEM_IN && g->away == FM_MEM_STAY)
		return (struct parts){.on = here, .coming = coming, .host = missing - coming};
	if (wish == FM_MEM_IN)
		return (struct parts){.on = here, .host = missing};
	if (c->share < here)
		return (struct parts){.on = c->share, .going = here - c->share, .host = missing};
	return (struct parts){.on = here, .coming = coming, .host = missing - coming};
}

/* None is as small as `least', but where that is all. */
static void add_extents(struct planner *p, const struct fm_extent *as, uint64_t bytes,
	uint64_t each, uint64_t least)
{
	while (bytes) {
		struct fm_extent *x = &p->extent[p->w.extents++];

		*x = *as;
		x->bytes = FM_MIN(bytes, each);
		if (bytes - x->bytes <= least)
			x->bytes = bytes;
		bytes -= x->bytes;
	}
}

static uint64_t grain_of(const struct planned_client *c)
{
	const struct memory *m = c->client->memory;
	uint64_t grain = demand_most(CLAIM(m->ledger->device[c->row - m->row].grain));

	return grain ? grain : GRAIN;
}

/* At that place; so much of it is in use. */
static void add_part(struct planner *p, struct fm_extent *as, enum fm_where where, uint64_t bytes,
	uint64_t hot, uint64_t each)
{
	uint64_t used = FM_MIN(hot, bytes), least = 0;

	if (where == FM_ON_HOST)
		least = p->client[as->client].row->no_fit;
	each = FM_MAX(each, fm_add_sat(least, least > 0));

	as->where = (uint8_t)where;
	as->next = 0;
	add_extents(p, as, used, each, least);
	as->next = FM_NEVER;
	add_extents(p, as, bytes - used, each, least);
}

/* Of what is on the device: what is in use is the last to go, so it is what stays. */
static void add_here(struct planner *p, const struct planned_client *c, struct fm_extent *x,
	uint64_t bytes, uint64_t each)
{
	uint64_t stays = x->pinned ? 0 : FM_MIN(c->stays, bytes);
	bool pinned = x->pinned;

	x->pinned |= stays > 0;
	add_part(p, x, FM_ON_DEVICE, stays, c->hot, each);
	x->pinned = pinned;
	add_part(p, x, FM_ON_DEVICE, bytes - stays, fm_sub_sat(c->hot, stays), each);
}

static int add_client(
	struct planner *p, unsigned client, const struct fm_bridge_group *g, uint64_t now)
{
	const struct planned_client *c = &p->client[client];
	struct parts is = parts_of(c, g, now);
	uint64_t all = c->here + c->missing + c->maps, each, hot = c->hot;
	uint64_t needed, back;
	uint64_t grain = grain_of(c);
	struct fm_extent x = {.client = client,
		.pinned = is_pinned(g, now),
		.last = planner_works(g, now) ? now : demand_idle_since(g, now)};
	unsigned most = FM_MIN(PLANNER_EXTENTS / p->w.clients, (unsigned)EXTENTS_MOST);

	most = FM_MAX(most, (unsigned)EXTENTS_LEAST);
	grain = FM_MIN(grain, all);
	each = FM_MAX(grain, all / most + 1);
	p->w.window = FM_MAX(p->w.window, WINDOW * each);
	if (grow((void **)&p->extent, &p->extents_room, p->w.extents + most + 16, sizeof(x)))
		return -ENOMEM;
	add_here(p, c, &x, is.on, each);
	add_part(p, &x, FM_COMING, is.coming, is.coming, each);
	add_part(p, &x, FM_GOING, is.going, fm_sub_sat(hot, is.on), each);
	/* Of what is on the host all is needed but for what is mapped. What is out has extents of
	 * its own: the last of them may find room where none of what runs from the host does. */
	needed = fm_sub_sat(is.host, c->maps);
	back = FM_MIN(c->back, needed);
	add_part(p, &x, FM_ON_HOST, needed - back, needed - back, each);
	add_part(p, &x, FM_ON_HOST, is.host - (needed - back), back, each);
	return 0;
}

/* --- the world --- */

/* What the host has no room for stays on the device. */
static void look_at_host(struct fm_bridge *b, struct planner *p, struct planned_client *c)
{
	struct fm_bridge_host_short why;
	uint64_t room = hosts_room(b, c->client->memory, c->row, &why);

	c->stays = fm_sub_sat(c->here, room);
	why.bytes = c->stays;
	if (why.bytes > p->host.bytes)
		p->host = why;
}

/* A part of a chunk does not come in. Which sizes there are the client alone knows: it says that it
 * has reached its share, though that is more than it has. So much room is of no use to it. */
static void look_for_no_fit(const struct memory *m, struct memory_row *r, const struct sizes *s)
{
	if (r->no_fit_here != s->here)
		r->no_fit = 0;
	r->no_fit_here = s->here;
	if (CLAIM(m->ledger->device[r - m->row].reached) == r->share && r->share < s->movable)
		r->no_fit = FM_MAX(r->no_fit, fm_sub_sat(r->share, s->here));
}

static int list_client(
	struct planner *p, struct fm_bridge_client *client, struct memory_row *r, bool here)
{
	struct sizes s = demand_row(client->memory, r);
	uint64_t back = client->memory->early ? s.back : demand_back(r, &s, p->w.now);
	struct planned_client *c;

	if (s.back)
		p->back_at = FM_MIN(p->back_at, back ? p->w.now + BACK_LOOK : r->back_at);
	if (!s.movable && !back)
		return 0;
	if (grow((void **)&p->client, &p->clients_room, p->w.clients + 1, sizeof(*c)))
		return -ENOMEM;
	c = &p->client[p->w.clients++];
	*c = (struct planned_client){.client = client,
		.row = r,
		.here = s.here,
		.hot = s.hot_here,
		.cold = s.movable - s.here - s.hot_out,
		.back = back};
	c->share = demand_share(client->memory, r, &s);
	look_for_no_fit(client->memory, r, &s);
	if (here) {
		c->here = s.movable;
		c->hot = fm_add_sat(s.hot_here, s.hot_out);
		c->cold = 0;
	}
	c->missing = s.movable - c->here + back;
	if (c->cold <= FM_MIN(s.movable / 16, (uint64_t)MAP_LEAST))
		c->cold = 0;
	if (p->w.policy->victims == FM_VICTIMS_ALL) {
		c->hot = c->here;
		c->cold = 0;
	}
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
	return 0;
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

/* --- what is mapped from the host --- */

static uint64_t map_rate(const struct planned_client *c)
{
	uint64_t rate = c->client->user->map_rate;

	return rate ? rate : MAP_RATE;
}

/* What of a client is mapped: what is on the host, and is not in use. *room: what nobody needs. */
static uint64_t maps_of(const struct planner *p, const struct planned_client *c, uint64_t *room)
{
	uint64_t rate = map_rate(c), most = rate / FM_S * MAP_FOR, copies, grain;

	if (c->cold <= *room) {
		*room -= c->cold;
		return 0;
	}
	if (rate * 2 * MAP_TURNS < p->w.link.in)
		most = 0;
	grain = FM_MIN(grain_of(c), GRAIN);
	copies = fm_sub_sat(c->cold, most);
	/* A part of a chunk does not come in. */
	copies = most ? copies / grain * grain : copies;
	return c->cold - copies;
}

/* What is not in use of groups that may come in. Who is told to come in is told that, too. */
static void set_maps(struct fm_bridge *b, struct bdevice *d, struct planner *p)
{
	uint64_t used = fm_add_sat(foreign(b, d, p->w.now), p->unseen), room;

	for (unsigned k = 0; k < p->w.clients; k++) {
		const struct planned_client *c = &p->client[k];

		used = fm_add_sat(used, fm_add_sat(c->here, c->missing - c->cold));
	}
	room = fm_sub_sat(memory_capacity(b, d), used);
	for (unsigned i = 0; i < p->w.groups; i++) {
		struct planned_group *of = &p->of[i];
		const struct demand *x = &of->group->demand;
		bool maps = x->whole_until <= p->w.now && of->group->away == FM_MEM_STAY;

		for (unsigned k = of->client; k < of->client + of->clients; k++) {
			struct planned_client *c = &p->client[k];

			if (x->place != PLACE_COMING)
				c->row->maps =
					maps && x->place != PLACE_HERE ? maps_of(p, c, &room) : 0;
			c->maps = FM_MIN(c->row->maps, c->cold);
			/* What would have to be copied again is as good as in use. */
			if (c->maps < c->cold || x->whole_until > p->w.now)
				c->hot = c->here;
			c->missing -= c->maps;
			of->missing = fm_add_sat(of->missing, c->missing);
		}
	}
}

bool planner_is_early(const struct planner *p, const struct planned_group *of)
{
	for (unsigned k = of->client; k < of->client + of->clients; k++)
		if (!p->client[k].client->memory->early ||
			p->client[k].missing != p->client[k].back)
			return false;
	return true;
}

static int fill_group(struct planner *p, unsigned i, const struct bdevice *d, uint64_t now)
{
	const struct planned_group *of = &p->of[i];
	int64_t request = demand_hint(of->group, FM_HINT_MEMORY_REQUEST);
	int rc = 0;

	p->group[i] = (struct fm_mem_group){.first = p->w.extents,
		.turn = 1,
		.request = (uint64_t)FM_MAX(request, INT64_C(0)),
		.running = stands_still(of->group, d, now),
		.early = planner_is_early(p, of),
		.begun = of->group->demand.early};
	for (unsigned k = of->client; k < of->client + of->clients && !rc; k++) {
		p->group[i].settles = fm_add_sat(
			p->group[i].settles, fm_mem_ns(p->client[k].maps, map_rate(&p->client[k])));
		/* Whatever a client says, others do not wait longer for it. */
		p->group[i].settles = FM_MIN(p->group[i].settles, MAP_FOR);
		rc = add_client(p, k, of->group, now);
	}
	p->group[i].n = p->w.extents - p->group[i].first;
	return rc;
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
	uint64_t now = p->w.now;
	struct fm_bridge_group *g;
	int rc = 0;

	p->w.groups = p->w.clients = p->w.extents = 0;
	p->w.window = 0;
	p->back_at = FM_NEVER;
	*tight = false;
	fm_list_each (g, &b->groups, link) {
		if (demand_sizes(g, d).mapped)
			p->back_at = FM_MIN(p->back_at, now + USE_LOOK);
		if (rc || !demand_moves(g))
			continue;
		rc = list_group(p, g, d);
		*tight |= demand_holds(g) || g->away != FM_MEM_STAY;
	}
	for (unsigned k = 0; k < p->w.clients; k++)
		*tight |= p->client[k].back > 0;
	p->host = (struct fm_bridge_host_short){0};
	if (rc || !*tight)
		return rc;
	hosts_look(b);
	for (unsigned k = 0; k < p->w.clients; k++)
		look_at_host(b, p, &p->client[k]);
	set_maps(b, d, p);
	for (unsigned i = 0; i < p->w.groups && !rc; i++)
		rc = fill_group(p, i, d, p->w.now);
	p->w.extent = p->extent;
	p->w.group = p->group;
	set_capacity(b, d, p);
	return rc;
}
