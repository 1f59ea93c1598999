/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that goes out because somebody needs the room, and comes in because its group has work. A
 * group goes as a whole, and is held by the core from the time when it is asked to go out until its
 * clients have said that all of it is in: it is not charged, the policy goes on choosing it, and
 * another runs meanwhile.
 *
 * There are two needs. An allocation for which the driver has no memory waits in its program, until
 * others have made room or it is plain that they cannot (ledger.h, `lacks`). And a group whose
 * memory is out gets work. On each device one group comes in at a time: two that share the room
 * that is left would wait for each other.
 *
 * A group that has come in keeps its memory for a while even if another is chosen: for twice the
 * time in which it came in, and at least for KEEPS. Otherwise two groups could throw each other out
 * without running. The same holds for a group for whose allocation others went out.
 *
 * What clients say are claims. A false one can have groups put out that might have stayed, but
 * never for longer than they have no work, and it cannot keep one out: a group that needs its
 * memory is brought in even where by these figures there is no room, if nobody can go. The driver
 * has the last word.
 */
#include "demand.h"
#include <stdio.h>

/* Between looks at memory that moves, and at groups that wait for others to give theirs up. */
#define MOVING_LOOK  (2 * FM_MS)
#define WAITING_LOOK (10 * FM_MS)
/* The least time for which a group keeps its memory once that is in. */
#define KEEPS (500 * FM_MS)
/* A group that does not come to rest for so long, or whose memory does not move for so long once it
 * is at rest, counts as pinned, for the third time. */
#define RESTS_WITHIN FM_S
#define MOVES_WITHIN (10 * FM_S)
/* And what has not moved by then, however it progresses: nothing else moves on the device
 * meanwhile, and what is left is a claim. */
#define MOVES_MOST (30 * FM_S)
#define APART      (5 * FM_S)
/* The driver has refused to move it: there is no point in asking soon. */
#define APART_LONG (60 * FM_S)
/* For an allocation nobody is waited for any longer; and the room that it was promised is kept. */
#define LACK_MOST    (8 * FM_S)
#define PROMISE_MOST FM_S
/* For a group that comes in by hand others wait so long. */
#define HAND_MOST (5 * FM_S)
/* A group that comes in where the device is full: others are asked after this time. */
#define FULL_AFTER (20 * FM_MS)

void demand_kick(struct fm_bridge *b)
{
	b->demand_at = 0;
}

enum fm_mem_wish demand_wish(const struct fm_bridge_group *g)
{
	switch (g->demand.place) {
	case PLACE_GOING:
	case PLACE_OUT:
		return FM_MEM_OUT;
	case PLACE_COMING:
		return FM_MEM_IN;
	default:
		return FM_MEM_STAY;
	}
}

/* --- going out and coming in --- */

static void hold(struct fm_bridge *b, struct fm_bridge_group *g, bool holds, uint64_t now)
{
	struct ent *e;

	fm_list_each (e, &g->ents, in_group)
		fm_sched_ready_at(b->sched, e->sent, holds ? FM_NEVER : now, now);
}

static void put(struct fm_bridge_group *g, enum place place, uint64_t now)
{
	g->demand.place = place;
	g->demand.at = g->demand.moved_at = now;
	g->demand.left = UINT64_MAX;
}

void demand_put_out(struct fm_bridge *b, struct fm_bridge_group *g, enum fm_bridge_out why,
	const struct fm_bridge_group *cause, uint64_t now)
{
	put(g, PLACE_GOING, now);
	g->demand.why = why;
	g->demand.needs = demand_busy(g) ? now : 0;
	snprintf(g->demand.cause, sizeof(g->demand.cause), "%s", cause ? cause->name : "");
	hold(b, g, true, now);
	away_tell(b, g, FM_MEM_OUT);
}

static void end_need(struct fm_bridge_group *g, uint64_t now)
{
	if (g->demand.needs)
		g->demand.held += fm_sub_sat(now, g->demand.needs);
	g->demand.needs = 0;
}

static void is_here(struct fm_bridge *b, struct fm_bridge_group *g, uint64_t now)
{
	end_need(g, now);
	put(g, PLACE_HERE, now);
	g->demand.why = FM_OUT_NOT;
	away_tell(b, g, FM_MEM_STAY);
	hold(b, g, false, now);
}

void demand_ends(struct fm_bridge *b, struct fm_bridge_group *g, uint64_t now)
{
	if (g->demand.place == PLACE_HERE)
		return;
	end_need(g, now);
	put(g, PLACE_HERE, now);
	g->demand.why = FM_OUT_NOT;
	hold(b, g, false, now);
}

void demand_joined(struct fm_bridge *b, struct member *m)
{
	struct memory *mem = demand_memory(m);
	enum fm_mem_wish wish =
		m->group->away != FM_MEM_STAY ? m->group->away : demand_wish(m->group);

	if (mem && mem->managed) {
		away_tell_client(mem, wish);
		b->host.wake(m->client->ctx);
	}
	demand_kick(b);
}

/* --- how far they are --- */

/* Are all processes of the group that have something to move at rest? Each says so itself. */
static bool rests(const struct fm_bridge_group *g)
{
	const struct member *m;

	fm_list_each (m, &g->members, in_group) {
		const struct memory *mem = demand_memory(m);
		uint32_t word = CLAIM(m->client->board->rest);

		if (mem && mem->managed && (word & FM_REST_STATE) < FM_REST_MOVING)
			return false;
	}
	return true;
}

/* What is left has to become less than it ever was, within that time. */
static bool progresses(struct demand *x, uint64_t left, uint64_t within, uint64_t now)
{
	if (left < x->left)
		x->moved_at = now;
	x->left = FM_MIN(x->left, left);
	return now - x->moved_at < within && now - x->at < MOVES_MOST;
}

static bool takes_too_long(const struct demand *x, uint64_t now)
{
	return now - x->at >= MOVES_MOST;
}

static uint64_t follow_going(struct fm_bridge *b, struct fm_bridge_group *g, uint64_t now)
{
	struct fm_bridge_away a;

	fm_bridge_group_away(g, &a);
	if (!a.resident || a.trouble == FM_MEM_HOST_FULL) {
		put(g, PLACE_OUT, now);
		return now;
	}
	if (a.trouble < FM_MEM_DRIVER &&
		progresses(&g->demand, a.resident, rests(g) ? MOVES_WITHIN : RESTS_WITHIN, now))
		return now + MOVING_LOOK;
	g->demand.apart =
		now + (a.trouble >= FM_MEM_DRIVER || takes_too_long(&g->demand, now) ? APART_LONG
										     : APART);
	if (a.host)
		put(g, PLACE_OUT, now);
	else
		is_here(b, g, now);
	return now;
}

static bool others_wait(struct fm_bridge *b, const struct fm_bridge_group *but)
{
	struct fm_bridge_group *g;

	fm_list_each (g, &b->groups, link)
		if (g != but && (demand_wants(g) || (demand_is_out(g) && g->demand.needs)))
			return true;
	return false;
}

/* One that does not come any further makes room for others, and waits again. */
static uint64_t follow_coming(struct fm_bridge *b, struct fm_bridge_group *g, uint64_t now)
{
	uint64_t took = now - g->demand.at;
	struct fm_bridge_away a;

	fm_bridge_group_away(g, &a);
	if (!a.host) {
		is_here(b, g, now);
		g->demand.keeps = now + FM_MAX(2 * took, (uint64_t)KEEPS);
		return now;
	}
	if (!progresses(&g->demand, a.host, RESTS_WITHIN, now) && others_wait(b, g)) {
		put(g, PLACE_GOING, now);
		end_need(g, now);
		g->demand.needs = now; /* behind the others */
		g->demand.apart = now + APART / 5;
		away_tell(b, g, FM_MEM_OUT);
	}
	return now + MOVING_LOOK;
}

static uint64_t follow_out(struct fm_bridge *b, struct fm_bridge_group *g, uint64_t now)
{
	struct fm_bridge_away a;

	fm_bridge_group_away(g, &a);
	/* Nothing of it comes in if its contexts have died. */
	if (!a.processes || (a.trouble == FM_MEM_DRIVER && !demand_missing(g, NULL))) {
		is_here(b, g, now);
		return now;
	}
	if (!g->demand.needs && demand_busy(g))
		g->demand.needs = now;
	return g->demand.needs ? now + WAITING_LOOK : FM_NEVER;
}

/* Memory that is out although nobody wishes so comes in by itself: an earlier daemon has put it
 * out. From now on that goes in turn. */
static bool adopt(struct fm_bridge *b, struct fm_bridge_group *g, uint64_t now)
{
	struct fm_bridge_away a;

	fm_bridge_group_away(g, &a);
	if (!a.host || g->away != FM_MEM_STAY)
		return false;
	demand_put_out(b, g, FM_OUT_DEMAND, NULL, now);
	g->demand.needs = now;
	return true;
}

/* When it has been idle for as long as its hint says. */
static uint64_t follow_here(struct fm_bridge *b, struct fm_bridge_group *g, uint64_t now)
{
	uint64_t after = (uint64_t)demand_hint(g, FM_HINT_IDLE_OUT), at;

	if (adopt(b, g, now))
		return now;
	if (!after)
		return FM_NEVER;
	if (demand_busy(g) || g->demand.apart > now || demand_stays(g, NULL, now))
		return now + FM_MAX(after, (uint64_t)WAITING_LOOK);
	at = demand_idle_since(g, now) + after;
	if (at > now)
		return at;
	demand_put_out(b, g, FM_OUT_IDLE, NULL, now);
	return now + MOVING_LOOK;
}

static uint64_t follow(struct fm_bridge *b, struct fm_bridge_group *g, uint64_t now)
{
	switch (g->demand.place) {
	case PLACE_GOING:
		return follow_going(b, g, now);
	case PLACE_OUT:
		return follow_out(b, g, now);
	case PLACE_COMING:
		return follow_coming(b, g, now);
	default:
		return follow_here(b, g, now);
	}
}

/* --- allocations that wait --- */

static void answer(struct memory *m, struct memory_row *r, bool room, uint64_t bytes, uint64_t now)
{
	fm_ledger_room(&m->ledger->device[r - m->row], r->lacking, room);
	r->lack_again = room;
	r->promised = bytes;
	r->promised_until = room ? now + PROMISE_MOST : 0;
	if (room && m->client->first.group)
		m->client->first.group->demand.keeps = now + KEEPS;
	r->lack_at = 0;
}

/* What it lacks, at most as much as it could be allowed. 0: nothing waits. */
static uint64_t lack_of(struct fm_bridge *b, struct memory *m, struct memory_row *r, uint64_t now)
{
	struct fm_ledger_device *row = &m->ledger->device[r - m->row];
	uint32_t number = CLAIM(row->lacking);
	uint64_t bytes = demand_most(CLAIM(row->lacks)), capacity = memory_capacity(b, r->dev);

	bytes = FM_MIN(bytes, capacity);
	if (!bytes) {
		r->promised = r->promised_until = 0;
		r->lack_again = false;
	}
	if (r->promised_until <= now)
		r->promised = 0;
	if (number != r->lacking) {
		r->lacking = number;
		r->lack_at = now;
		r->lack_moved = false;
		r->promised_until = 0;
	}
	return r->lack_at ? bytes : 0;
}

/* The driver had no memory. Where by the figures there should have been enough, something else has
 * it, and that much more has to go. */
static uint64_t serve_lack(
	struct fm_bridge *b, struct memory *m, struct memory_row *r, uint64_t now)
{
	uint64_t bytes = lack_of(b, m, r, now), capacity, used;
	struct need need = {b, m->client->first.group, r->dev, .now = now};

	if (!bytes || !need.g)
		return FM_NEVER;
	/* All that it has is out, or on its way: it tries again when that is in. */
	if (need.g->demand.place != PLACE_HERE) {
		fm_ledger_room(&m->ledger->device[r - m->row], r->lacking, true);
		r->lack_at = 0;
		return FM_NEVER;
	}
	if (r->lack_moved) {
		answer(m, r, true, bytes, now);
		return now;
	}
	capacity = memory_capacity(b, r->dev);
	used = demand_used(b, r->dev, now);
	used = fm_sub_sat(used + bytes, capacity);
	need.patience = r->lack_at + LACK_MOST;
	need.least = FM_MIN(used, bytes);
	/* Where it is not the driver that has none, the figures tell how much there is. */
	if (b->memory.device && !need.least && !r->lack_again) {
		answer(m, r, true, bytes, now);
		return now;
	}
	need.want = need.least && !r->lack_again ? need.least : bytes;
	if (demand_choose(&need)) {
		r->lack_moved = true;
		return now + MOVING_LOOK;
	}
	if ((need.when == FM_NEVER && !need.later) || now - r->lack_at > LACK_MOST) {
		answer(m, r, false, 0, now);
		return FM_NEVER;
	}
	return FM_MIN(need.when, now + WAITING_LOOK);
}

static uint64_t serve_lacks(struct fm_bridge *b, const struct bdevice *d, uint64_t now)
{
	uint64_t due = FM_NEVER;
	struct fm_bridge_client *c;

	fm_list_each (c, &b->clients, link)
		for (unsigned i = 0; c->memory && i < FM_LEDGER_DEVICES; i++)
			if (c->memory->row[i].dev == d)
				due = FM_MIN(
					due, serve_lack(b, c->memory, &c->memory->row[i], now));
	return due;
}

/* --- groups that come in --- */

/* By hand it has all the time that it takes, but others do not wait for it as long. */
static bool is_awaited(const struct fm_bridge_group *g, uint64_t now)
{
	return g->away == FM_MEM_STAY || now - g->coming_since < HAND_MOST;
}

static struct fm_bridge_group *coming_on(struct fm_bridge *b, const struct bdevice *d, uint64_t now)
{
	struct fm_bridge_group *g;

	fm_list_each (g, &b->groups, link)
		if (demand_comes_in(g) && demand_missing(g, d) && is_awaited(g, now))
			return g;
	return NULL;
}

/* That which the policy has chosen, or else that which has waited longest. */
static struct fm_bridge_group *next_on(struct fm_bridge *b, const struct bdevice *d, uint64_t now)
{
	struct fm_bridge_group *g, *next = NULL;

	fm_list_each (g, &b->groups, link) {
		if (g->demand.place != PLACE_OUT || !g->demand.needs || g->demand.apart > now ||
			!demand_missing(g, d))
			continue;
		if (demand_chosen(g, d))
			return g;
		if (!next || g->demand.needs < next->demand.needs)
			next = g;
	}
	return next;
}

static uint64_t serve_coming(
	struct fm_bridge *b, struct fm_bridge_group *g, const struct bdevice *d, uint64_t now)
{
	uint64_t bytes = demand_missing(g, d),
		 lack = fm_sub_sat(demand_used(b, d, now), memory_capacity(b, d));
	struct need need = {b, g, d, .want = bytes, .now = now};
	struct fm_bridge_away a;

	lack = FM_MIN(lack, bytes);
	need.least = FM_MAX(lack, UINT64_C(1));
	fm_bridge_group_away(g, &a);
	if (a.trouble == FM_MEM_DEVICE_FULL && now - g->demand.at >= FULL_AFTER)
		demand_choose(&need);
	return now + MOVING_LOOK;
}

static void bring_in(struct fm_bridge *b, struct fm_bridge_group *g, uint64_t now)
{
	put(g, PLACE_COMING, now);
	away_tell(b, g, FM_MEM_IN);
}

/* By the figures the device must have room for it; unless no group could ever go. */
static uint64_t serve_next(
	struct fm_bridge *b, struct fm_bridge_group *g, const struct bdevice *d, uint64_t now)
{
	uint64_t bytes = demand_missing(g, d), used = demand_used(b, d, now);
	uint64_t lack = fm_sub_sat(used + bytes, memory_capacity(b, d));
	struct need need = {b, g, d, .now = now};

	lack = FM_MIN(lack, bytes);
	need.want = need.least = lack;
	if (lack && demand_choose(&need))
		return now + MOVING_LOOK;
	if (lack && (need.when != FM_NEVER || need.later))
		return FM_MIN(need.when, now + WAITING_LOOK);
	bring_in(b, g, now);
	return now + MOVING_LOOK;
}

static bool goes_out_on(struct fm_bridge *b, const struct bdevice *d)
{
	struct fm_bridge_group *g;

	fm_list_each (g, &b->groups, link)
		if (g->demand.place == PLACE_GOING && demand_sizes(g, d).here)
			return true;
	return false;
}

static uint64_t serve(struct fm_bridge *b, const struct bdevice *d, uint64_t now)
{
	struct fm_bridge_group *g;
	uint64_t due;

	if (goes_out_on(b, d))
		return now + MOVING_LOOK;
	due = serve_lacks(b, d, now);
	if (goes_out_on(b, d))
		return due;
	g = coming_on(b, d, now);
	if (g)
		return FM_MIN(due, serve_coming(b, g, d, now));
	g = next_on(b, d, now);
	return g ? FM_MIN(due, serve_next(b, g, d, now)) : due;
}

uint64_t demand_run(struct fm_bridge *b, uint64_t now)
{
	uint64_t due = FM_NEVER;
	struct fm_bridge_group *g;
	struct bdevice *d;

	if (now < b->demand_at)
		return b->demand_at;
	fm_list_each (g, &b->groups, link) {
		uint64_t at = follow(b, g, now);

		/* It has come to another place: there may be more to do there. */
		due = FM_MIN(due, at > now ? at : follow(b, g, now));
	}
	fm_list_each (d, &b->devices, link)
		due = FM_MIN(due, serve(b, d, now));
	b->demand_at = FM_MAX(due, now + 1);
	return b->demand_at;
}

/* --- for people --- */

void fm_bridge_group_out_info(
	const struct fm_bridge_group *g, uint64_t now, struct fm_bridge_out_info *i)
{
	const struct demand *x = &g->demand;

	*i = (struct fm_bridge_out_info){.why = g->away == FM_MEM_STAY ? x->why : FM_OUT_HAND,
		.moving = demand_comes_in(g) || x->place == PLACE_GOING,
		.since = x->at,
		.held_for = x->needs ? FM_MAX(fm_sub_sat(now, x->needs), UINT64_C(1)) : 0,
		.held = x->held,
		.cause = x->cause,
		.apart = x->apart > now};
	i->held += i->held_for;
}
