/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that goes out because somebody needs the room, and comes in because its group has work. A
 * group is held by the core from the time when it is asked to give memory up until its clients have
 * said that all of it is in: it is not charged, the policy goes on choosing it, and another runs
 * meanwhile. At rest it may have a part of its memory on the device: its shares.
 *
 * There are two needs. An allocation for which the driver has no memory waits in its program, until
 * others have made room or it is plain that they cannot (ledger.h, `lacks`). And a group whose
 * memory is out has its turn, or will have it: the planner moves memory for that before the turn
 * comes, beside the group that runs (planner.h). What goes for either is no more than is needed.
 *
 * A group that has come in keeps its memory for as long as others have waited for that. Where the
 * policy lets several run at once, for twice that time, and at least for PLANNER_KEEPS: otherwise
 * two groups could throw each other out without running. The same holds for a group for whose
 * allocation others went out.
 *
 * What clients say are claims. A false one can have groups put out that might have stayed, but
 * never for longer than they have no work, and it cannot keep one out: a group that needs its
 * memory is brought in even where by these figures there is no room, if nobody can go. The driver
 * has the last word.
 */
#include "planner.h"
#include <stdio.h>

/* Between looks at memory that moves, and at groups that wait for others to give theirs up. */
#define RUN_LEAST    (20 * FM_US)
#define MOVING_LOOK  (2 * FM_MS)
#define WAITING_LOOK (10 * FM_MS)
/* A group that does not come to rest for so long, or whose memory does not move for so long once it
 * is at rest, counts as pinned, for the third time. */
#define RESTS_WITHIN FM_S
#define MOVES_WITHIN (10 * FM_S)
/* What moves slower than this counts as not moving. And what has not moved by then, however it
 * progresses: nothing else moves on the device meanwhile, and what is left is a claim. */
#define MOVES_LEAST (UINT64_C(256) << 20)
#define MOVES_MOST  (30 * FM_S)
#define APART       (5 * FM_S)
/* A call that waited for memory gives its work to the device within this time. */
#define EXPECTS (20 * FM_MS)
/* The driver has refused to move it: there is no point in asking soon. */
#define APART_LONG (60 * FM_S)
/* Each time that this happens again it is for twice as long, so often. */
#define APART_DOUBLES 3
/* For an allocation nobody is waited for any longer; and the room that it was promised is kept. */
#define LACK_MOST    (8 * FM_S)
#define PROMISE_MOST FM_S
/* For a group that comes in by hand others wait so long. */
#define HAND_MOST (5 * FM_S)

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
	g->demand.for_lack = g->demand.stopped = false;
}

static void tell(struct fm_bridge *b, struct fm_bridge_group *g, enum fm_mem_wish what)
{
	struct member *m;

	fm_list_each (m, &g->members, in_group) {
		struct memory *mem = demand_memory(m);

		for (unsigned i = 0; mem && mem->managed && i < FM_LEDGER_DEVICES; i++)
			atomic_store(&mem->ledger->device[i].wish, (uint32_t)what);
		if (mem && mem->managed)
			b->host.wake(m->client->ctx);
	}
}

void demand_go_out(struct fm_bridge *b, struct fm_bridge_group *g, enum fm_bridge_out why,
	const struct fm_bridge_group *cause, uint64_t now)
{
	bool was_here = g->demand.place == PLACE_HERE;

	put(g, PLACE_GOING, now);
	if (was_here) {
		g->demand.why = why;
		g->demand.needs = demand_busy(g) ? now : 0;
		snprintf(g->demand.cause, sizeof(g->demand.cause), "%s", cause ? cause->name : "");
		hold(b, g, true, now);
	}
	tell(b, g, FM_MEM_OUT);
}

void demand_goes_on(struct fm_bridge_group *g, uint64_t now)
{
	put(g, PLACE_GOING, now);
}

/* All of it. */
static void put_out(
	struct fm_bridge *b, struct fm_bridge_group *g, enum fm_bridge_out why, uint64_t now)
{
	away_tell(b, g, FM_MEM_OUT);
	demand_go_out(b, g, why, NULL, now);
}

void demand_stop(struct fm_bridge *b, struct fm_bridge_group *g, bool stop, uint64_t now)
{
	if (g->demand.stopped == stop)
		return;
	g->demand.stopped = stop;
	hold(b, g, stop, now);
}

static void end_need(struct fm_bridge_group *g, uint64_t now)
{
	if (g->demand.needs)
		g->demand.held += fm_sub_sat(now, g->demand.needs);
	g->demand.needs = g->demand.due = 0;
}

/* The policy is to know that it has work, or that it has none. */
static void set_expects(struct fm_bridge *b, struct fm_bridge_group *g, bool expects, uint64_t now)
{
	struct ent *e;

	if (g->demand.expects == expects)
		return;
	g->demand.expects = expects;
	g->demand.expects_until = 0;
	fm_list_each (e, &g->ents, in_group)
		ent_refresh(b, e, now);
}

static void is_here(struct fm_bridge *b, struct fm_bridge_group *g, uint64_t now)
{
	end_need(g, now);
	put(g, PLACE_HERE, now);
	g->demand.why = FM_OUT_NOT;
	g->demand.expects_until = now + EXPECTS;
	away_tell(b, g, FM_MEM_STAY);
	hold(b, g, false, now);
}

void demand_is_in(struct fm_bridge *b, struct fm_bridge_group *g, bool shared, uint64_t now)
{
	uint64_t took = g->demand.due ? now - g->demand.due : 0;
	uint64_t keeps = took / 100 * b->memory.keep_percent;

	is_here(b, g, now);
	g->demand.keeps = now + (shared ? FM_MAX(2 * took, (uint64_t)PLANNER_KEEPS) : keeps);
}

void demand_bring_in(struct fm_bridge *b, struct fm_bridge_group *g, uint64_t now)
{
	put(g, PLACE_COMING, now);
	away_tell(b, g, FM_MEM_IN);
}

void demand_ends(struct fm_bridge *b, struct fm_bridge_group *g, uint64_t now)
{
	if (!demand_holds(g))
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

/* For a client that moves a byte now and then, too. */
static bool takes_too_long(const struct demand *x, uint64_t now)
{
	uint64_t most = MOVES_WITHIN + fm_mem_ns(fm_sub_sat(x->first, x->left), MOVES_LEAST);

	return now - x->at >= FM_MIN(most, (uint64_t)MOVES_MOST);
}

/* What is left has to become less than it ever was, within that time. */
static bool progresses(struct demand *x, uint64_t left, uint64_t within, uint64_t now)
{
	if (x->left == UINT64_MAX)
		x->first = left;
	if (left < x->left)
		x->moved_at = now;
	x->left = FM_MIN(x->left, left);
	return now - x->moved_at < within && !takes_too_long(x, now);
}

/* It has not gone out in time. */
static void is_late(struct demand *x, bool for_long, uint64_t now)
{
	x->apart = x->stuck = now + ((for_long ? APART_LONG : APART) << x->late);
	x->late = FM_MIN(x->late + 1, (unsigned)APART_DOUBLES);
}

struct ways {
	uint64_t out, in; /* bytes that the clients are told to move, and have not moved yet */
};

static struct ways ways_of(const struct fm_bridge_group *g)
{
	struct ways w = {0};
	struct member *m;

	fm_list_each (m, &g->members, in_group)
		for (unsigned i = 0; demand_memory(m) && i < FM_LEDGER_DEVICES; i++) {
			const struct memory *mem = demand_memory(m);
			const struct memory_row *r = &mem->row[i];
			struct sizes s = demand_row(mem, r);
			uint64_t share = demand_share(mem, r, &s);

			if (!r->dev)
				continue;
			w.out = fm_add_sat(w.out, fm_sub_sat(s.here, share));
			w.in = fm_add_sat(w.in, fm_sub_sat(share, s.here));
		}
	return w;
}

/* Its shares are what it has. */
static void stays_as_it_is(struct fm_bridge *b, struct fm_bridge_group *g, uint64_t now)
{
	struct member *m;

	fm_list_each (m, &g->members, in_group)
		for (unsigned i = 0; demand_memory(m) && i < FM_LEDGER_DEVICES; i++) {
			struct memory *mem = demand_memory(m);

			mem->row[i].share = demand_row(mem, &mem->row[i]).here;
			atomic_store(&mem->ledger->device[i].share, mem->row[i].share);
		}
	put(g, PLACE_OUT, now);
	tell(b, g, FM_MEM_OUT);
}

static uint64_t follow_going(struct fm_bridge *b, struct fm_bridge_group *g, uint64_t now)
{
	uint64_t left = ways_of(g).out;
	struct fm_bridge_away a;

	fm_bridge_group_away(g, &a);
	if (!left || a.trouble == FM_MEM_HOST_FULL) {
		if (a.trouble == FM_MEM_HOST_FULL)
			g->demand.apart = now + APART;
		else
			g->demand.late -= g->demand.late > 0;
		put(g, PLACE_OUT, now);
		return now;
	}
	if (a.trouble < FM_MEM_DRIVER &&
		progresses(&g->demand, left, rests(g) ? MOVES_WITHIN : RESTS_WITHIN, now))
		return now + MOVING_LOOK;
	is_late(&g->demand, a.trouble >= FM_MEM_DRIVER || takes_too_long(&g->demand, now), now);
	if (a.host)
		stays_as_it_is(b, g, now);
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

/* It makes room for others, and waits behind them. */
static void step_back(struct fm_bridge *b, struct fm_bridge_group *g, uint64_t now)
{
	end_need(g, now);
	g->demand.needs = now;
	g->demand.apart = now + APART / 5;
	if (g->demand.place != PLACE_COMING) {
		stays_as_it_is(b, g, now);
		return;
	}
	put(g, PLACE_GOING, now);
	away_tell(b, g, FM_MEM_OUT);
}

/* One that does not come any further makes room for others, and waits again. */
static uint64_t follow_coming(struct fm_bridge *b, struct fm_bridge_group *g, uint64_t now)
{
	struct fm_bridge_away a;

	fm_bridge_group_away(g, &a);
	if (!a.host) {
		demand_is_in(b, g, true, now);
		return now;
	}
	if (!progresses(&g->demand, a.host, RESTS_WITHIN, now) && others_wait(b, g))
		step_back(b, g, now);
	return now + MOVING_LOOK;
}

/* Its turn has come: what is missing has to become less, and not for ever. */
static bool comes_further(struct demand *x, uint64_t missing, uint64_t now)
{
	if (missing < x->left)
		x->moved_at = now;
	x->left = FM_MIN(x->left, missing);
	return now - x->moved_at < RESTS_WITHIN && (!x->due || now - x->due < MOVES_MOST);
}

static uint64_t follow_out(struct fm_bridge *b, struct fm_bridge_group *g, uint64_t now)
{
	struct fm_bridge_away a;

	fm_bridge_group_away(g, &a);
	/* Nothing of it comes in if its contexts have died. */
	if (!demand_moves(g) || (a.trouble == FM_MEM_DRIVER && !demand_missing(g, NULL))) {
		is_here(b, g, now);
		return now;
	}
	if (!g->demand.needs && demand_busy(g))
		g->demand.needs = now;
	set_expects(b, g, demand_misses(g), now);
	if (!ways_of(g).in)
		g->demand.moved_at = now;
	else if (!comes_further(&g->demand, demand_missing(g, NULL), now) && others_wait(b, g))
		step_back(b, g, now);
	return g->demand.needs ? now + WAITING_LOOK : FM_NEVER;
}

/* Memory that is out although nobody wishes so comes in by itself: an earlier daemon has put it
 * out. From now on that goes in turn. */
static bool adopt(struct fm_bridge *b, struct fm_bridge_group *g, uint64_t now)
{
	struct fm_bridge_away a;

	fm_bridge_group_away(g, &a);
	if (!a.host || !demand_missing(g, NULL) || g->away != FM_MEM_STAY || !a.processes ||
		a.trouble >= FM_MEM_PINNED_ALL)
		return false;
	hold(b, g, true, now);
	g->demand.why = FM_OUT_DEMAND;
	g->demand.needs = now;
	stays_as_it_is(b, g, now);
	return true;
}

/* When it has been idle for as long as its hint says. */
static uint64_t follow_here(struct fm_bridge *b, struct fm_bridge_group *g, uint64_t now)
{
	uint64_t after = (uint64_t)demand_hint(g, FM_HINT_IDLE_OUT), at;

	if (adopt(b, g, now))
		return now;
	if (g->demand.stopped &&
		(!demand_moves(g) || !demand_sizes(g, g->demand.stopped_by).movable))
		demand_stop(b, g, false, now);
	if (g->demand.expects && now < g->demand.expects_until)
		return g->demand.expects_until;
	set_expects(b, g, false, now);
	if (!after)
		return FM_NEVER;
	if (demand_busy(g) || g->demand.apart > now || demand_stays(g, NULL, now))
		return now + FM_MAX(after, (uint64_t)WAITING_LOOK);
	at = demand_idle_since(g, now) + after;
	if (at > now)
		return at;
	put_out(b, g, FM_OUT_IDLE, now);
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
		m->client->first.group->demand.keeps = now + PLANNER_KEEPS;
	r->lack_at = 0;
}

/* What it lacks, at most as much as it could be allowed. 0: nothing waits. */
static uint64_t lack_of(struct fm_bridge *b, struct memory *m, struct memory_row *r, uint64_t now)
{
	struct fm_ledger_device *row = &m->ledger->device[r - m->row];
	uint32_t number = CLAIM(row->lacking);
	uint64_t bytes = demand_most(CLAIM(row->lacks));

	bytes = bytes ? FM_MIN(bytes, memory_capacity(b, r->dev)) : 0;
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
	used = fm_sub_sat(fm_add_sat(used, bytes), capacity);
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

bool demand_is_awaited(const struct fm_bridge_group *g, uint64_t now)
{
	return g->away == FM_MEM_STAY || now - g->coming_since < HAND_MOST;
}

/* Is somebody on the way out for an allocation? Then the rest of them wait. */
static bool makes_room_on(struct fm_bridge *b, const struct bdevice *d)
{
	struct fm_bridge_group *g;

	fm_list_each (g, &b->groups, link)
		if (g->demand.place == PLACE_GOING && g->demand.for_lack && demand_sizes(g, d).here)
			return true;
	return false;
}

static uint64_t serve(struct fm_bridge *b, struct bdevice *d, uint64_t now)
{
	uint64_t due = makes_room_on(b, d) ? now + MOVING_LOOK : serve_lacks(b, d, now);

	return FM_MIN(due, planner_run(b, d, now));
}

uint64_t demand_run(struct fm_bridge *b, uint64_t now)
{
	uint64_t due = FM_NEVER;
	struct fm_bridge_group *g;
	struct bdevice *d;

	if (now < b->demand_at)
		return b->demand_at;
	b->demand_at = FM_NEVER;
	fm_list_each (g, &b->groups, link) {
		uint64_t at = follow(b, g, now);

		/* It has come to another place: there may be more to do there. */
		due = FM_MIN(due, at > now ? at : follow(b, g, now));
	}
	fm_list_each (d, &b->devices, link)
		due = FM_MIN(due, serve(b, d, now));
	/* What was held or let go meanwhile may have changed what there is to do. */
	b->demand_at = FM_MAX(FM_MIN(due, b->demand_at), now + RUN_LEAST);
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
