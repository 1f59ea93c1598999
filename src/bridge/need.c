/* SPDX-License-Identifier: Apache-2.0 */
/* What a need on a device comes to, and whose memory may go out for it. */
#include "base/cleanup.h"
#include "demand.h"
#include "victims.h"
#include <stdlib.h>

/* A group without work for so long is idle. */
#define IDLE_AFTER (50 * FM_MS)

/* --- sizes --- */

struct sizes demand_row(const struct memory *m, const struct memory_row *r)
{
	const struct fm_ledger_device *row = &m->ledger->device[r - m->row];
	struct sizes s = {.all = demand_most(CLAIM(row->claimed))};
	uint64_t mapped, hot;

	if (!m->managed)
		return s;
	s.movable = FM_MIN(CLAIM(row->kind[FM_MEM_MOVABLE]), s.all);
	mapped = FM_MIN(CLAIM(row->mapped), s.movable);
	s.all -= mapped;
	s.movable -= mapped;
	s.here = FM_MIN(CLAIM(row->resident), s.movable);
	s.mapped = mapped;
	s.back = FM_MIN(CLAIM(row->hot_mapped), mapped);
	hot = CLAIM(row->hot);
	s.hot_out = s.movable - s.here;
	if (hot != UINT64_MAX)
		s.hot_out = FM_MIN(CLAIM(row->hot_out), s.hot_out);
	s.hot_here = FM_MIN(fm_sub_sat(hot, fm_add_sat(s.back, s.hot_out)), s.here);
	return s;
}

uint64_t demand_back(const struct memory_row *r, const struct sizes *s, uint64_t now)
{
	return now >= r->back_at ? s->back : 0;
}

/* On one device; d NULL: on all. */
struct sizes demand_sizes(const struct fm_bridge_group *g, const struct bdevice *d)
{
	struct sizes sum = {0};
	struct member *m;

	fm_list_each (m, &g->members, in_group)
		for (unsigned i = 0; demand_memory(m) && i < FM_LEDGER_DEVICES; i++) {
			const struct memory_row *r = &demand_memory(m)->row[i];
			struct sizes s = {0};

			if (r->dev && (!d || r->dev == d))
				s = demand_row(demand_memory(m), r);
			sum.all = fm_add_sat(sum.all, s.all);
			sum.movable = fm_add_sat(sum.movable, s.movable);
			sum.here = fm_add_sat(sum.here, s.here);
			sum.mapped = fm_add_sat(sum.mapped, s.mapped);
			sum.back = fm_add_sat(sum.back, s.back);
		}
	return sum;
}

uint64_t demand_missing(const struct fm_bridge_group *g, const struct bdevice *d)
{
	struct sizes s = demand_sizes(g, d);

	return s.movable - s.here;
}

uint64_t demand_set_missing(const struct fm_bridge_group *g, uint64_t now)
{
	uint64_t sum = 0;
	struct member *m;

	fm_list_each (m, &g->members, in_group)
		for (unsigned i = 0; demand_memory(m) && i < FM_LEDGER_DEVICES; i++) {
			const struct memory *mem = demand_memory(m);
			const struct memory_row *r = &mem->row[i];
			struct sizes s;

			if (!r->dev)
				continue;
			s = demand_row(mem, r);
			sum = fm_add_sat(sum, fm_sub_sat(s.movable - s.here, r->maps));
			/* What it cannot bring to the device runs from the host. */
			if (CLAIM(mem->ledger->device[i].reached) != r->share)
				sum = fm_add_sat(sum, demand_back(r, &s, now));
		}
	return sum;
}

bool demand_moves(const struct fm_bridge_group *g)
{
	struct sizes s = demand_sizes(g, NULL);
	struct fm_bridge_away a;

	fm_bridge_group_away(g, &a);
	return a.processes && a.trouble < FM_MEM_PINNED_ALL && (s.movable || s.back);
}

bool demand_gives(const struct fm_bridge_group *g)
{
	struct member *m;

	fm_list_each (m, &g->members, in_group)
		for (unsigned i = 0; demand_memory(m) && i < FM_LEDGER_DEVICES; i++) {
			const struct memory_row *r = &demand_memory(m)->row[i];
			struct sizes s = demand_row(demand_memory(m), r);

			if (r->dev && demand_share(demand_memory(m), r, &s) < s.here)
				return true;
		}
	return false;
}

/* By hand or by demand. */
bool demand_is_out(const struct fm_bridge_group *g)
{
	return (g->away != FM_MEM_STAY ? g->away : demand_wish(g)) == FM_MEM_OUT;
}

bool demand_comes_in(const struct fm_bridge_group *g)
{
	return (g->away != FM_MEM_STAY ? g->away : demand_wish(g)) == FM_MEM_IN;
}

uint64_t demand_share(const struct memory *m, const struct memory_row *r, const struct sizes *s)
{
	const struct fm_ledger_device *row = &m->ledger->device[r - m->row];

	/* A chunk that does not fit into the share stays where it is. */
	return CLAIM(row->reached) == r->share ? s->here : FM_MIN(r->share, s->movable + s->back);
}

uint64_t demand_promised(const struct memory *m, const struct memory_row *r, uint64_t now)
{
	uint64_t lacks = demand_most(CLAIM(m->ledger->device[r - m->row].lacks));

	if (r->lack_at && r->lack_moved)
		return FM_MIN(lacks, r->capacity);
	return r->promised_until > now && lacks ? r->promised : 0;
}

/* So much of the device the row has, or will have once the client has done what it is told.
 * Whatever it claims, it has no more than there is. */
static uint64_t row_has(const struct memory *m, const struct memory_row *r, const struct sizes *s)
{
	const struct fm_bridge_group *g = m->client->first.group;
	uint64_t has = s->all;

	if (g && (demand_is_out(g) || g->bounded))
		has -= s->movable - FM_MAX(s->here, demand_share(m, r, s));
	return FM_MIN(has, r->capacity);
}

/* What the device is taken to be full with. promises: and with what those will have that are
 * promised room. Otherwise without it, also where it may be there by now: memory that does not move
 * is claimed before the driver is asked for it, which may say again that there is none. */
static uint64_t used_on(
	const struct fm_bridge *b, const struct bdevice *d, bool promises, uint64_t now)
{
	struct fm_bridge_client *c;
	uint64_t sum = 0;

	fm_list_each (c, &b->clients, link)
		for (unsigned i = 0; c->memory && i < FM_LEDGER_DEVICES; i++) {
			const struct memory_row *r = &c->memory->row[i];
			uint64_t has, promised;
			struct sizes s;

			if (r->dev != d)
				continue;
			s = demand_row(c->memory, r);
			has = row_has(c->memory, r, &s);
			promised = demand_promised(c->memory, r, now);
			if (promises)
				has = fm_add_sat(has, promised);
			else if (!c->memory->managed)
				has = fm_sub_sat(has, promised);
			sum = fm_add_sat(sum, has);
		}
	return sum;
}

uint64_t demand_used(struct fm_bridge *b, const struct bdevice *d, uint64_t now)
{
	return used_on(b, d, true, now);
}

uint64_t demand_surely_used(const struct fm_bridge *b, const struct bdevice *d, uint64_t now)
{
	return used_on(b, d, false, now);
}

/* --- which groups may go --- */

bool demand_has_work(const struct ent *e)
{
	const struct queue *q;

	fm_list_each (q, &e->queues, in_ent)
		if (fm_slot_pending(q->slot) && CLAIM(q->slot->hold) != FM_HOLD_RESTS)
			return true;
	return false;
}

/* An allocation waits for room, or a call waits for memory that is out. */
bool demand_wants(const struct fm_bridge_group *g)
{
	struct member *m;

	fm_list_each (m, &g->members, in_group)
		for (unsigned i = 0; demand_memory(m) && i < FM_LEDGER_DEVICES; i++) {
			const struct fm_ledger_device *row = &demand_memory(m)->ledger->device[i];

			if (CLAIM(row->lacks) || CLAIM(row->misses))
				return true;
		}
	return false;
}

bool demand_misses(const struct fm_bridge_group *g)
{
	struct member *m;

	fm_list_each (m, &g->members, in_group)
		for (unsigned i = 0; demand_memory(m) && i < FM_LEDGER_DEVICES; i++)
			if (demand_memory(m)->row[i].dev &&
				CLAIM(demand_memory(m)->ledger->device[i].misses))
				return true;
	return false;
}

bool demand_lacks(const struct fm_bridge_group *g)
{
	struct member *m;

	fm_list_each (m, &g->members, in_group)
		for (unsigned i = 0; demand_memory(m) && i < FM_LEDGER_DEVICES; i++)
			if (demand_memory(m)->row[i].lack_at &&
				CLAIM(demand_memory(m)->ledger->device[i].lacks))
				return true;
	return false;
}

bool demand_pins(const struct fm_bridge_group *g)
{
	return demand_hint(g, FM_HINT_MEMORY_PIN) || away_other(g);
}

bool demand_busy(const struct fm_bridge_group *g)
{
	const struct member *m;
	const struct ent *e;

	fm_list_each (m, &g->members, in_group)
		if (m->segments)
			return true;
	fm_list_each (e, &g->ents, in_group)
		if (demand_has_work(e))
			return true;
	return demand_wants(g);
}

static uint64_t later(uint64_t a, uint64_t b, uint64_t c)
{
	b = FM_MAX(b, c);
	return FM_MAX(a, b);
}

/* The end of the last work of a group that has none now. The boards are looked at: the core hears
 * nothing of a group that is alone. */
uint64_t demand_idle_since(const struct fm_bridge_group *g, uint64_t now)
{
	uint64_t last = g->demand.at;
	const struct queue *q;
	const struct ent *e;

	fm_list_each (e, &g->ents, in_group)
		fm_list_each (q, &e->queues, in_ent)
			last = later(last, CLAIM(q->slot->done_at), q->since);
	return FM_MIN(last, now);
}

static void look_at_state(struct victim *v, const struct fm_bridge_group *g, uint64_t now)
{
	const struct ent *e;
	bool busy = demand_busy(g);

	v->since = demand_idle_since(g, now);
	v->state = VICTIM_IDLE;
	if (!busy && now - v->since < IDLE_AFTER)
		v->state = VICTIM_STOPPED;
	if (!busy)
		return;
	v->state = fm_sched_group_suspended(g->sgroup) ? VICTIM_IDLE : VICTIM_STOPPED;
	v->since = g->demand.at;
	fm_list_each (e, &g->ents, in_group) {
		v->since = later(v->since, e->closed_at, 0);
		if (e->gate_open && demand_has_work(e))
			v->state = VICTIM_RUNS;
	}
}

/* Whatever moves meanwhile. */
static bool stays_for_good(
	const struct fm_bridge_group *g, const struct bdevice *d, const struct fm_bridge_away *a)
{
	int64_t request = demand_hint(g, FM_HINT_MEMORY_REQUEST);

	if (d && request > 0 && demand_sizes(g, d).all <= (uint64_t)request)
		return true;
	return demand_pins(g) || !a->processes || a->trouble >= FM_MEM_PINNED_ALL;
}

/* Does the group's memory stay, whatever happens? */
bool demand_stays(const struct fm_bridge_group *g, const struct bdevice *d, uint64_t now)
{
	struct fm_bridge_away a;

	if ((g->demand.place != PLACE_HERE && g->demand.place != PLACE_OUT) ||
		g->away != FM_MEM_STAY)
		return true;
	fm_bridge_group_away(g, &a);
	return !a.resident || stays_for_good(g, d, &a);
}

/* Has the policy chosen the group on that device, although it is held? */
bool demand_chosen(const struct fm_bridge_group *g, const struct bdevice *d)
{
	const struct ent *e;

	fm_list_each (e, &g->ents, in_group)
		if (e->dev == d)
			return fm_sched_claims(e->sent);
	return false;
}

int64_t demand_rank(const struct fm_bridge_group *g)
{
	return fm_list_empty(&g->ents) ? demand_hint(g, FM_HINT_PRIORITY) : group_rank(g);
}

/* May a group that runs go out for that one? Only if that one comes first for the policy. Where the
 * policy lets all of them run, or cannot choose a program that allocates because it has no work
 * yet, they take turns. */
static bool goes_before(const struct fm_bridge_group *g, const struct fm_bridge_group *runs,
	const struct bdevice *d)
{
	int64_t mine = demand_rank(g), other = demand_rank(runs);
	struct fm_decision c;

	fm_sched_dev_decision(d->sdev, &c);
	if (demand_chosen(g, d) || mine > other)
		return true;
	return mine == other && (c.chosen > 1 || g->demand.place == PLACE_HERE);
}

static unsigned find_victims(struct need *need, struct victim *v)
{
	struct fm_bridge_group *g;
	unsigned n = 0;

	fm_list_each (g, &need->b->groups, link) {
		struct victim *is = &v[n];

		if (n == VICTIMS_MOST || g == need->g || demand_stays(g, need->d, need->now))
			continue;
		if (g->demand.apart > need->now && g->demand.apart > need->patience)
			continue;
		*is = (struct victim){.group = g, .bytes = demand_sizes(g, need->d).here};
		/* What the host has no room for stays. */
		is->bytes = FM_MIN(is->bytes, hosts_room_of(g, need->d));
		if (!is->bytes)
			continue;
		look_at_state(is, g, need->now);
		is->keeps = is->state == VICTIM_IDLE ? 0 : g->demand.keeps;
		is->keeps = FM_MAX(is->keeps, g->demand.apart);
		if (is->state != VICTIM_RUNS || goes_before(need->g, g, need->d))
			n++;
	}
	return n;
}

/* --- what can never be given --- */

struct gifts {
	uint64_t bytes; /* what others could give, once they have come to rest, */
	uint64_t stuck; /* of these: what the host has no room for, as things are; */
	bool moves;     /* and while something moves that may change */
};

static bool moves_now(const struct fm_bridge_group *g, const struct fm_bridge_away *a)
{
	if (g->away != FM_MEM_STAY)
		return g->away == FM_MEM_IN || (a->resident && !a->trouble);
	return g->demand.place == PLACE_GOING || g->demand.place == PLACE_COMING;
}

static bool never_gives(
	const struct need *need, const struct fm_bridge_group *g, const struct fm_bridge_away *a)
{
	if (g == need->g || g->bounded || stays_for_good(g, need->d, a))
		return true;
	if (g->away != FM_MEM_STAY && a->trouble)
		return true;
	return g->demand.apart > need->now && g->demand.apart > need->patience;
}

/* What of the group's memory used_on() counts, and can go some time: what is being allocated or
 * comes in will be there, what goes out will have gone. */
static void add_gifts(struct gifts *all, const struct need *need, const struct fm_bridge_group *g)
{
	struct fm_bridge_away a;
	struct member *m;

	fm_bridge_group_away(g, &a);
	all->moves |= moves_now(g, &a);
	if (never_gives(need, g, &a))
		return;
	fm_list_each (m, &g->members, in_group)
		for (unsigned i = 0; demand_memory(m) && i < FM_LEDGER_DEVICES; i++) {
			const struct memory_row *r = &demand_memory(m)->row[i];
			struct sizes s = {0};
			uint64_t gives;

			if (r->dev != need->d)
				continue;
			s = demand_row(demand_memory(m), r);
			gives = fm_sub_sat(row_has(demand_memory(m), r, &s), s.all - s.movable);
			all->bytes = fm_add_sat(all->bytes, gives);
			all->moves |= g->demand.place == PLACE_OUT &&
				      demand_share(demand_memory(m), r, &s) != s.here;
		}
	all->stuck = fm_add_sat(
		all->stuck, fm_sub_sat(demand_sizes(g, need->d).here, hosts_room_of(g, need->d)));
}

bool demand_never(const struct need *need, uint64_t bytes, uint64_t capacity)
{
	uint64_t used = demand_surely_used(need->b, need->d, need->now), least;
	const struct fm_bridge_group *g;
	struct gifts gifts = {0};

	least = FM_MIN(fm_sub_sat(fm_add_sat(used, bytes), capacity), bytes);
	fm_list_each (g, &need->b->groups, link)
		add_gifts(&gifts, need, g);
	if (!gifts.moves)
		gifts.bytes = fm_sub_sat(gifts.bytes, gifts.stuck);
	return gifts.bytes < FM_MAX(least, UINT64_C(1));
}

/* --- the choice --- */

/* So much of the group's memory goes, or all of it that is there. */
static void take_from(struct need *need, struct fm_bridge_group *g, uint64_t bytes)
{
	struct member *m;

	fm_list_each (m, &g->members, in_group)
		for (unsigned i = 0; demand_memory(m) && i < FM_LEDGER_DEVICES; i++) {
			struct memory *mem = demand_memory(m);
			struct memory_row *r = &mem->row[i];
			uint64_t here = demand_row(mem, r).here, take = FM_MIN(here, bytes);

			if (r->dev != need->d || !mem->managed)
				continue;
			bytes -= take;
			r->share = here - take;
			atomic_store(&mem->ledger->device[i].share, r->share);
		}
	demand_go_out(need->b, g, FM_OUT_DEMAND, need->g, need->now);
	g->demand.for_lack = true;
}

/* True: somebody goes out. Of the last of them only what is needed. */
bool demand_choose(struct need *need)
{
	FM_CLEAN_FREE struct victim *v = calloc(VICTIMS_MOST, sizeof(*v));
	uint64_t got;
	unsigned n;

	need->when = FM_NEVER;
	if (!v)
		return false;
	hosts_look(need->b);
	n = find_victims(need, v);
	got = victims_choose(v, n, need->want, need->least, need->now, &need->when);
	if (!got)
		return false;
	for (unsigned i = n; i-- > 0;) {
		uint64_t stays = FM_MIN(fm_sub_sat(got, need->want), v[i].bytes);

		if (!v[i].goes)
			continue;
		got -= stays;
		if (stays < v[i].bytes)
			take_from(need, v[i].group, v[i].bytes - stays);
	}
	return true;
}
