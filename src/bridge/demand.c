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
#include <limits.h>
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
/* What comes in for a turn has the link to itself: for so long, and for as long as the bytes take
 * that have come in, at MOVES_LEAST. */
#define COMES_WITHIN (4 * FM_S)
/* A call that waited for memory gives its work to the device within this time. */
#define EXPECTS (20 * FM_MS)
/* The driver has refused to move it: there is no point in asking soon. */
#define APART_LONG (60 * FM_S)
/* Each time that this happens again it is for twice as long, so often. */
#define APART_DOUBLES 3
/* For an allocation nobody is waited for any longer, since it was made or since another one got
 * room, nor for longer than the second; and the room that it was promised is kept. So many of those
 * that wait are looked at at a time, and so many of each user before others of its. */
#define LACK_MOST  (8 * FM_S)
#define LACK_LONG  (45 * FM_S)
#define LACK_LOOKS 16
#define LACK_EACH  4
/* It can never be given if that is so at so many looks in a row, at least that far apart: figures
 * are of one moment, in which others may just be about to say what they have. */
#define LACK_NEVER   3
#define PROMISE_MOST FM_S
/* A look costs the daemon so much, and so much for each group; and the bells of one user may take
 * one part in so many of its time, so much of it at once. */
#define LOOK_COST  (10 * FM_US)
#define GROUP_COST (FM_US / 2)
#define RING_PARTS 4
#define RING_BURST (2 * FM_MS)
/* A group whose memory could not be mapped from the host has all of it on the device for so long.
 */
#define WHOLE_MOST (60 * FM_S)
/* What has found no way to the device is not asked to come there again before this time. */
#define BACK_AGAIN (2 * FM_S)
/* A rate that is measured, bytes a second. */
#define MAP_LEAST (UINT64_C(1) << 30)
#define MAP_MOST  (UINT64_C(200) << 30)
/* For a group that comes in by hand others wait so long. */
#define HAND_MOST (5 * FM_S)

void demand_kick(struct fm_bridge *b)
{
	b->demand_at = 0;
}

uint64_t demand_paid(const struct user *u, uint64_t now)
{
	return u->rings > fm_add_sat(now, RING_BURST) ? u->rings - RING_BURST : now;
}

bool demand_pay(const struct fm_bridge *b, struct user *u, uint64_t now)
{
	if (demand_paid(u, now) > now)
		return false;
	u->rings = FM_MAX(u->rings, now) + FM_MAX(b->demand_costs, LOOK_COST) * RING_PARTS;
	return true;
}

void demand_ring(struct fm_bridge *b, struct user *u, uint64_t now)
{
	if (demand_pay(b, u, now))
		demand_kick(b);
	else
		b->demand_at = FM_MIN(b->demand_at, demand_paid(u, now));
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
	g->demand.at = g->demand.moved_at = g->demand.from = now;
	g->demand.first = 0;
	g->demand.left = UINT64_MAX;
	g->demand.for_lack = g->demand.stopped = g->demand.early = false;
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

void demand_go_out(struct fm_bridge *b, struct fm_bridge_group *g, enum fm_bridge_out why,
	struct fm_bridge_group *cause, uint64_t now)
{
	bool was_here = g->demand.place == PLACE_HERE;

	NOTE_MEMORY(b, memory_out, g, NULL, cause, ways_of(g).out, demand_sizes(g, NULL).here, 0);
	put(g, PLACE_GOING, now);
	if (was_here) {
		g->demand.why = why;
		g->demand.needs = demand_busy(g) ? now : 0;
		snprintf(g->demand.cause, sizeof(g->demand.cause), "%s", cause ? cause->name : "");
		g->demand.cause_uid = cause ? cause->user->uid : 0;
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

/* What runs from the host stays there until the plan has room for it. */
static void let_run(struct fm_bridge *b, struct fm_bridge_group *g, uint64_t now)
{
	struct member *m;

	fm_list_each (m, &g->members, in_group)
		for (unsigned i = 0; demand_memory(m) && i < FM_LEDGER_DEVICES; i++) {
			struct memory *mem = demand_memory(m);
			struct memory_row *r = &mem->row[i];
			struct sizes s = {0};

			r->maps = 0;
			if (r->dev && mem->managed)
				s = demand_row(mem, r);
			if (!s.mapped)
				continue;
			r->back_at = s.back ? now + BACK_AGAIN : 0;
			r->share = s.here;
			atomic_store(&mem->ledger->device[i].share, r->share);
			atomic_store(&mem->ledger->device[i].wish, (uint32_t)FM_MEM_IN);
			b->host.wake(m->client->ctx);
		}
}

static void is_here(struct fm_bridge *b, struct fm_bridge_group *g, uint64_t now)
{
	end_need(g, now);
	put(g, PLACE_HERE, now);
	g->demand.why = FM_OUT_NOT;
	g->demand.backs = 0;
	g->demand.expects_until = now + EXPECTS;
	away_tell(b, g, FM_MEM_STAY);
	let_run(b, g, now);
	hold(b, g, false, now);
}

void demand_is_in(struct fm_bridge *b, struct fm_bridge_group *g, bool shared, uint64_t now)
{
	uint64_t took = g->demand.due ? now - g->demand.due : 0;
	uint64_t keeps = took / 100 * b->memory.keep_percent;

	NOTE_MEMORY(b, memory_in, g, NULL, NULL, took, took ? g->demand.stood : 0, 0);
	is_here(b, g, now);
	g->demand.keeps = now + (shared ? FM_MAX(2 * took, (uint64_t)PLANNER_KEEPS) : keeps);
}

void demand_bring_in(struct fm_bridge *b, struct fm_bridge_group *g, bool shares, uint64_t now)
{
	struct member *m;
	uint64_t maps = 0;

	away_tell(b, g, FM_MEM_IN);
	fm_list_each (m, &g->members, in_group)
		for (unsigned i = 0; demand_memory(m) && i < FM_LEDGER_DEVICES; i++) {
			struct memory *mem = demand_memory(m);
			struct memory_row *r = &mem->row[i];
			struct sizes s;

			if (!r->dev || !mem->managed || !r->maps)
				continue;
			s = demand_row(mem, r);
			r->share = s.movable - FM_MIN(r->maps, s.movable - s.here);
			maps = fm_add_sat(maps, s.movable - r->share);
			atomic_store(&mem->ledger->device[i].share, r->share);
		}
	put(g, PLACE_COMING, now);
	g->demand.maps = maps;
	g->demand.shares = shares;
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

	if (mem && mem->managed) {
		away_tell_client(mem, away_wish(m->group));
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

static bool is_host_full(enum fm_mem_trouble t)
{
	return t == FM_MEM_HOST_FULL || t == FM_MEM_HOST_BUDGET;
}

static uint64_t follow_going(struct fm_bridge *b, struct fm_bridge_group *g, uint64_t now)
{
	uint64_t left = ways_of(g).out;
	struct fm_bridge_away a;

	fm_bridge_group_away(g, &a);
	if (!left || is_host_full(a.trouble)) {
		if (is_host_full(a.trouble))
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
	g->demand.apart = now + ((APART / 5) << g->demand.backs);
	g->demand.backs = FM_MIN(g->demand.backs + 1, (unsigned)APART_DOUBLES);
	if (g->demand.place != PLACE_COMING) {
		stays_as_it_is(b, g, now);
		return;
	}
	if (g->demand.maps)
		g->demand.whole_until = now + WHOLE_MOST;
	put(g, PLACE_GOING, now);
	away_tell(b, g, FM_MEM_OUT);
}

/* How fast a user's clients map memory from the host. Others do not go by what they say. */
static void measure(struct user *u, const struct demand *x, uint64_t now)
{
	uint64_t ns = FM_MAX(fm_sub_sat(now, x->at), FM_US), rate;

	rate = (uint64_t)FM_MIN(
		(unsigned __int128)x->maps * FM_S / ns, (unsigned __int128)MAP_MOST);
	rate = FM_MAX(rate, MAP_LEAST);
	u->map_rate = u->map_rate ? u->map_rate - u->map_rate / 4 + rate / 4 : rate;
}

/* One that does not come any further makes room for others, and waits again. */
static uint64_t follow_coming(struct fm_bridge *b, struct fm_bridge_group *g, uint64_t now)
{
	uint64_t within = RESTS_WITHIN;
	struct fm_bridge_away a;

	fm_bridge_group_away(g, &a);
	if (!a.host) {
		if (g->demand.maps)
			measure(g->user, &g->demand, now);
		demand_is_in(b, g, g->demand.shares, now);
		return now;
	}
	/* One that finds no room stays for longer each time: at last it runs from the host. */
	if (a.trouble == FM_MEM_DEVICE_FULL)
		within <<= g->demand.backs;
	if (!progresses(&g->demand, a.host, within, now) && (g->demand.maps || others_wait(b, g)))
		step_back(b, g, now);
	return now + MOVING_LOOK;
}

/* It is told to come in: what is missing has to become less, as fast as is worth the link, and not
 * for ever. */
static bool comes_further(struct demand *x, uint64_t missing, uint64_t now)
{
	uint64_t most;

	if (missing < x->left)
		x->moved_at = now;
	x->left = FM_MIN(x->left, missing);
	most = COMES_WITHIN + fm_mem_ns(fm_sub_sat(x->first, x->left), MOVES_LEAST);
	return now - x->moved_at < RESTS_WITHIN && now - x->from < most &&
	       (!x->due || now - x->due < MOVES_MOST);
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
	if (!ways_of(g).in) {
		g->demand.moved_at = g->demand.from = now;
		g->demand.first = demand_set_missing(g, now);
	} else if (!comes_further(&g->demand, demand_set_missing(g, now), now)) {
		/* All that could still come runs from the host: it can do so a while longer. */
		if (!demand_missing(g, NULL)) {
			is_here(b, g, now);
			return now;
		}
		if (others_wait(b, g))
			step_back(b, g, now);
	}
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
	hosts_look(b);
	if (!hosts_room_of(g, NULL))
		return now + FM_MAX(after, (uint64_t)WAITING_LOOK);
	put_out(b, g, FM_OUT_IDLE, now);
	return now + MOVING_LOOK;
}

/* Of a group that is held the core hears nothing: if work of it has ended meanwhile, it would keep
 * its place with the policy, could not run, and those behind it would wait for ever. */
static uint64_t look_at_held(struct fm_bridge *b, struct fm_bridge_group *g, uint64_t now)
{
	uint64_t due = FM_NEVER;
	struct ent *e;

	if (!demand_holds(g) || g->demand.expects)
		return FM_NEVER;
	fm_list_each (e, &g->ents, in_group) {
		if (e->works && !demand_has_work(e))
			ent_refresh(b, e, now);
		due = e->works ? now + WAITING_LOOK : due;
	}
	return due;
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

static void answer(struct fm_bridge *b, struct memory *m, struct memory_row *r, bool room,
	uint64_t bytes, uint64_t now)
{
	if (room)
		r->lack_used = FM_MIN(r->lack_used, demand_surely_used(b, r->dev, now));
	fm_ledger_room(&m->ledger->device[r - m->row], r->lacking, room);
	r->lack_again = room;
	r->promised = bytes;
	r->promised_until = room ? now + PROMISE_MOST : 0;
	if (room && m->client->first.group)
		m->client->first.group->demand.keeps = now + PLANNER_KEEPS;
	if (room)
		r->dev->roomed_at = now;
	r->lack_at = 0;
	/* If it asks again it is at the end of those that wait. */
	if (!room)
		r->lack_first = 0;
}

/* What it lacks, at most as much as it could be allowed. 0: nothing waits. */
static uint64_t lack_of(struct fm_bridge *b, struct memory *m, struct memory_row *r, uint64_t now)
{
	struct fm_ledger_device *row = &m->ledger->device[r - m->row];
	uint32_t number = CLAIM(row->lacking);
	uint64_t bytes = demand_most(CLAIM(row->lacks));

	bytes = bytes ? FM_MIN(bytes, memory_capacity(b, r->dev)) : 0;
	if (!bytes) {
		r->promised = r->promised_until = r->lack_first = 0;
		r->lack_own = r->lack_apart = 0;
		r->lack_used = UINT64_MAX;
		r->lack_again = false;
	}
	if (r->promised_until <= now)
		r->promised = 0;
	if (number != r->lacking) {
		r->lacking = number;
		r->lack_at = now;
		r->lack_first = r->lack_first ? r->lack_first : now;
		r->lack_moved = false;
		r->lack_never = 0;
		r->promised_until = 0;
		/* It did not wait for others while its own memory was out. */
		if (r->lack_own)
			r->lack_apart += now - r->lack_own;
		r->lack_own = 0;
	}
	return r->lack_at ? bytes : 0;
}

/* Where several wait each gets its room when the ones before it have theirs. */
static bool waits_too_long(const struct memory_row *r, uint64_t now)
{
	uint64_t since = FM_MAX(r->lack_at, r->dev->roomed_at);

	return now - FM_MIN(since, now) > LACK_MOST ||
	       fm_sub_sat(now - r->lack_first, r->lack_apart) > LACK_LONG;
}

/* Nobody goes for it now. Will it never be given, however long it waits? */
static bool is_never_given(
	struct memory_row *r, const struct need *need, uint64_t bytes, uint64_t capacity)
{
	if (!demand_never(need, bytes, capacity))
		r->lack_never = 0;
	else if (!r->lack_never || need->now - r->lack_never_at >= WAITING_LOOK) {
		r->lack_never++;
		r->lack_never_at = need->now;
	}
	return r->lack_never >= LACK_NEVER;
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
		r->lack_own = now;
		return FM_NEVER;
	}
	if (r->lack_moved) {
		answer(b, m, r, true, bytes, now);
		return now;
	}
	capacity = memory_capacity(b, r->dev);
	used = demand_used(b, r->dev, now);
	used = fm_sub_sat(fm_add_sat(used, bytes), capacity);
	need.patience = r->lack_at + LACK_MOST;
	need.least = FM_MIN(used, bytes);
	/* Where it is not the driver that has none, the figures tell how much there is. */
	if (b->memory.device && !need.least && !r->lack_again) {
		answer(b, m, r, true, bytes, now);
		return now;
	}
	need.want = need.least && !r->lack_again ? need.least : bytes;
	if (demand_choose(&need)) {
		r->lack_moved = true;
		return now + MOVING_LOOK;
	}
	/* The driver has refused it before that room was there. */
	if (!need.least && demand_surely_used(b, r->dev, now) < r->lack_used) {
		answer(b, m, r, true, bytes, now);
		return now;
	}
	/* What can never be given is not waited for. */
	if (is_never_given(r, &need, bytes, capacity) || waits_too_long(r, now)) {
		answer(b, m, r, false, 0, now);
		return FM_NEVER;
	}
	return FM_MIN(need.when, now + WAITING_LOOK);
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

/* The one that waits longest, of those that were not looked at yet. */
struct lack {
	struct memory *m;
	struct memory_row *r;
	uint64_t since;
	uint32_t client;
};

static bool comes_later(const struct lack *a, const struct lack *b)
{
	return a->since != b->since     ? a->since > b->since
	       : a->client != b->client ? a->client > b->client
					: a->m == b->m && a->r > b->r;
}

static bool next_lack(struct fm_bridge *b, const struct bdevice *d, unsigned each, struct lack *l)
{
	struct fm_bridge_client *c;

	*l = (struct lack){.since = FM_NEVER, .client = UINT32_MAX};
	fm_list_each (c, &b->clients, link)
		for (unsigned i = 0; c->memory && i < FM_LEDGER_DEVICES; i++) {
			struct lack is = {c->memory, &c->memory->row[i],
				c->memory->row[i].lack_first, c->number};

			if (is.r->dev == d && is.since && is.r->lack_at &&
				is.r->lack_look != b->demand_looks && c->user->lack_looks < each &&
				comes_later(l, &is))
				*l = is;
		}
	if (!l->r)
		return false;
	l->r->lack_look = b->demand_looks;
	l->m->client->user->lack_looks++;
	return true;
}

static void look_at_lacks(struct fm_bridge *b, const struct bdevice *d, uint64_t now)
{
	struct fm_bridge_client *c;
	struct user *u;

	fm_list_each (u, &b->users, link)
		u->lack_looks = 0;
	fm_list_each (c, &b->clients, link)
		for (unsigned i = 0; c->memory && i < FM_LEDGER_DEVICES; i++)
			if (c->memory->row[i].dev == d)
				lack_of(b, c->memory, &c->memory->row[i], now);
}

/* In the order in which they have begun to wait: whose list is first would otherwise have all. The
 * first of each user come before the rest, so that nobody else's can take all places. What has no
 * place is looked at when these have been answered. */
static uint64_t serve_lacks(struct fm_bridge *b, const struct bdevice *d, uint64_t now)
{
	uint64_t due = FM_NEVER;
	struct lack l;

	look_at_lacks(b, d, now);
	for (unsigned n = 0; next_lack(b, d, LACK_EACH, &l) || next_lack(b, d, UINT_MAX, &l); n++) {
		if (n == LACK_LOOKS)
			return FM_MIN(due, now + WAITING_LOOK);
		due = FM_MIN(due, serve_lack(b, l.m, l.r, now));
		if (makes_room_on(b, d))
			return FM_MIN(due, now + MOVING_LOOK);
	}
	return due;
}

/* --- groups that come in --- */

bool demand_is_awaited(const struct fm_bridge_group *g, uint64_t now)
{
	return g->away == FM_MEM_STAY || now - g->coming_since < HAND_MOST;
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
	b->demand_costs = LOOK_COST;
	b->demand_looks++;
	fm_list_each (g, &b->groups, link) {
		uint64_t at = follow(b, g, now);

		b->demand_costs += GROUP_COST;
		/* It has come to another place: there may be more to do there. */
		due = FM_MIN(due, at > now ? at : follow(b, g, now));
		due = FM_MIN(due, look_at_held(b, g, now));
	}
	fm_list_each (d, &b->devices, link)
		due = FM_MIN(due, serve(b, d, now));
	/* What was held or let go meanwhile may have changed what there is to do. */
	b->demand_at = FM_MAX(FM_MIN(due, b->demand_at), now + RUN_LEAST);
	return b->demand_at;
}
