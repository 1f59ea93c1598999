/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is put out by hand. The group is suspended, and its clients are asked to move their
 * memory to the host. On the way back the group stays suspended until they have said that all of it
 * is in: it could not run before, and would only take a turn from another. On a device that counts
 * as having less than it has, memory comes in as there is room: clients are told to be out, with a
 * share that grows, until all of it has room.
 *
 * What a client says is a claim. One that never says so keeps its own group suspended. Others that
 * claim all of a device keep nobody out for ever: a group whose share does not grow any more is
 * brought in whole, and demand finds the room.
 */
#include "demand.h"
#include <errno.h>

/* Between looks at clients whose memory comes in: a part of the time that it has taken already, so
 * that a client that never answers costs little. */
#define COMING_LOOK (2 * FM_MS)
#define COMING_MOST (100 * FM_MS)
#define COMING_PART 128
/* A group whose shares have not grown by one part in so many for so long comes in whole. */
#define GROW_MOST  (5 * FM_S)
#define GROW_PARTS 32

static bool is_managed(const struct member *m)
{
	return m->client->memory && m->client->memory->managed;
}

static uint64_t claimed(const struct memory *mem, unsigned row, enum fm_mem_kind kind)
{
	return FM_MIN(CLAIM(mem->ledger->device[row].kind[kind]), (uint64_t)1 << 50);
}

/* The memory of the client's other devices may still move. */
static bool is_of_a_device(uint32_t trouble)
{
	return trouble == FM_MEM_REFUSED || trouble == FM_MEM_REFUSED_ADDRESSES;
}

/* It asked for memory that can be moved, and was refused; on all its devices, if it is the device
 * that cannot. */
static bool is_refused(const struct memory *mem)
{
	bool device = false, moves = false;

	for (unsigned i = 0; i < FM_LEDGER_DEVICES; i++) {
		uint32_t trouble = CLAIM(mem->ledger->device[i].trouble);

		if (trouble > FM_MEM_REFUSED && trouble < FM_MEM_TROUBLES &&
			!is_of_a_device(trouble))
			return true;
		device |= is_of_a_device(trouble);
		moves |= claimed(mem, i, FM_MEM_MOVABLE);
	}
	return device && !moves;
}

static void add_row(struct fm_bridge_away *a, const struct memory *mem, unsigned row)
{
	const struct fm_ledger_device *d = &mem->ledger->device[row];
	uint32_t trouble = CLAIM(d->trouble);
	uint64_t movable = claimed(mem, row, FM_MEM_MOVABLE);
	uint64_t host = FM_MIN(CLAIM(d->host), movable);

	a->movable = fm_add_sat(a->movable, movable);
	a->host = fm_add_sat(a->host, host);
	a->resident = fm_add_sat(a->resident, FM_MIN(CLAIM(d->resident), movable - host));
	for (enum fm_mem_kind k = 0; k < FM_MEM_KINDS; k++) {
		uint64_t bytes = k == FM_MEM_MOVABLE ? 0 : claimed(mem, row, k);

		a->stays = fm_add_sat(a->stays, bytes);
		a->pinned = fm_add_sat(a->pinned, fm_mem_pinned(k) ? bytes : 0);
	}
	a->wished = fm_add_sat(a->wished, claimed(mem, row, FM_MEM_PIN_WISH));
	if (!trouble || trouble >= FM_MEM_TROUBLES || (is_of_a_device(trouble) && !is_refused(mem)))
		return;
	/* What keeps memory that can be moved says more than that other memory cannot. */
	if (!a->trouble || (a->trouble >= FM_MEM_REFUSED && trouble < FM_MEM_REFUSED))
		a->trouble = (enum fm_mem_trouble)trouble;
}

void fm_bridge_group_away(const struct fm_bridge_group *g, struct fm_bridge_away *a)
{
	const struct member *m;

	*a = (struct fm_bridge_away){
		.wish = g->away != FM_MEM_STAY ? g->away : demand_wish(g), .goes_on = g->goes_on};
	fm_list_each (m, &g->members, in_group) {
		const struct memory *mem = m->client->memory;

		a->processes += is_managed(m) && !is_refused(mem);
		for (unsigned i = 0; mem && i < FM_LEDGER_DEVICES; i++)
			add_row(a, mem, i);
	}
	if (g->bounded && !a->trouble)
		a->trouble = FM_MEM_DEVICE_FULL;
}

void away_tell_client(struct memory *m, enum fm_mem_wish what)
{
	for (unsigned i = 0; i < FM_LEDGER_DEVICES; i++) {
		m->row[i].share = what == FM_MEM_OUT ? 0 : UINT64_MAX;
		atomic_store(&m->ledger->device[i].share, m->row[i].share);
		atomic_store(&m->ledger->device[i].wish, (uint32_t)what);
	}
}

void away_tell(struct fm_bridge *b, struct fm_bridge_group *g, enum fm_mem_wish what)
{
	struct member *m;

	fm_list_each (m, &g->members, in_group) {
		if (!is_managed(m))
			continue;
		away_tell_client(m->client->memory, what);
		b->host.wake(m->client->ctx);
	}
}

enum fm_mem_wish away_wish(const struct fm_bridge_group *g)
{
	if (g->away == FM_MEM_STAY)
		return demand_wish(g);
	return g->bounded ? FM_MEM_OUT : g->away;
}

static void wish(
	struct fm_bridge *b, struct fm_bridge_group *g, enum fm_mem_wish what, bool bounded)
{
	g->away = what;
	g->bounded = bounded;
	away_tell(b, g, away_wish(g));
}

/* An earlier daemon may have wished something; and its group may be out. */
void away_begin(struct memory *m)
{
	away_tell_client(m, away_wish(m->client->first.group));
}

/* Another group of the same process that may run: all of the process would rest. */
const struct fm_bridge_group *away_other(const struct fm_bridge_group *g)
{
	const struct member *m;

	fm_list_each (m, &g->members, in_group)
		for (uint32_t i = 0; is_managed(m) && i < FM_BOARD_GROUPS; i++) {
			const struct member *other = member_at(m->client, i);
			const struct fm_bridge_group *is = other ? other->group : NULL;

			if (is && is != g && !fm_list_empty(&is->ents) &&
				!fm_sched_group_suspended(is->sgroup))
				return is;
		}
	return NULL;
}

static int nothing_to_move(const struct fm_bridge_group *g, struct fm_err *err)
{
	struct fm_bridge_away a;

	fm_bridge_group_away(g, &a);
	if (a.trouble >= FM_MEM_REFUSED) {
		fm_err_set(err, -EOPNOTSUPP, "the memory of '%s' cannot be moved: %s", g->name,
			fm_mem_trouble_text(a.trouble));
		return fm_err_hint(err, "%s", fm_mem_trouble_remedy(a.trouble));
	}
	fm_err_set(err, -EOPNOTSUPP, "the memory of '%s' is not managed, and cannot be moved",
		g->name);
	return fm_err_hint(err, "start the CUDA program anew, with `fermata run --memory'; what "
				"runs stays as it is");
}

/* It is the group's own wish that its memory stays, or that of an operator. Its own counts from the
 * start of a program, when memory is pinned for good; or from now on. */
static int stays_by_wish(
	const struct fm_bridge_group *g, const struct fm_bridge_away *a, struct fm_err *err)
{
	bool hinted = fm_sched_group_hints(g->sgroup)->value[FM_HINT_MEMORY_PIN];

	if (!hinted && (a->movable || !a->wished))
		return 0;
	fm_err_set(
		err, -EPERM, "the memory of '%s' stays on the device, as memory-pin says", g->name);
	return a->wished ? fm_err_hint(err, "start the program without --memory-pin")
			 : fm_err_hint(err, "first: fermata hint %s memory-pin=0", g->name);
}

int fm_bridge_group_out(
	struct fm_bridge *b, struct fm_bridge_group *g, uint64_t now, struct fm_err *err)
{
	const struct fm_bridge_group *other = away_other(g);
	struct fm_bridge_away a;

	fm_bridge_group_away(g, &a);
	if (!a.processes)
		return nothing_to_move(g, err);
	if (stays_by_wish(g, &a, err))
		return -EPERM;
	if (other) {
		fm_err_set(
			err, -EBUSY, "a process of '%s' works for '%s', too", g->name, other->name);
		return fm_err_hint(err, "first: fermata suspend %s", other->name);
	}
	fm_list_del(&g->coming);
	fm_bridge_group_suspend(b, g, true, now);
	demand_ends(b, g, now);
	wish(b, g, FM_MEM_OUT, false);
	return 0;
}

/* Is memory of its processes out, or on its way in, for this group or for another one of theirs? */
static bool is_away(const struct fm_bridge_group *g)
{
	const struct member *m;

	fm_list_each (m, &g->members, in_group)
		for (uint32_t i = 0; is_managed(m) && i < FM_BOARD_GROUPS; i++) {
			const struct member *one = member_at(m->client, i);

			if (one && one->group && one->group->away != FM_MEM_STAY)
				return true;
		}
	return g->away != FM_MEM_STAY;
}

/* --- as there is room --- */

/* A driver says itself that a device is full. But one that counts as having less than it has is as
 * full as the ledgers say. Memory that belongs to another group of the process has its shares from
 * there. */
static bool is_bounded(const struct fm_bridge *b, const struct fm_bridge_group *g)
{
	const struct member *m;

	fm_list_each (m, &g->members, in_group)
		if (m->index && is_managed(m))
			return false;
	return b->memory.device;
}

/* More than a device has at all will not come in as there is room: the driver has the last word. */
static bool never_fits(
	struct fm_bridge *b, const struct fm_bridge_group *g, const struct bdevice *d)
{
	return demand_sizes(g, d).all > memory_capacity(b, d);
}

/* Of a row's movable memory: so much is there, or told to come in. */
static uint64_t told(const struct memory_row *r, const struct sizes *s)
{
	return FM_MAX(s->here, FM_MIN(r->share, s->movable));
}

struct course {
	uint64_t untold; /* bytes that are still to be told to come in, */
	uint64_t room;   /* and what has room now, beside what others have or will have */
};

static struct course course_on(
	struct fm_bridge *b, const struct fm_bridge_group *g, const struct bdevice *d, uint64_t now)
{
	uint64_t others = demand_used(b, d, now), own = 0;
	struct course c = {0};
	struct member *m;

	fm_list_each (m, &g->members, in_group)
		for (unsigned i = 0; demand_memory(m) && i < FM_LEDGER_DEVICES; i++) {
			const struct memory_row *r = &demand_memory(m)->row[i];
			struct sizes s = demand_row(demand_memory(m), r);

			if (r->dev != d)
				continue;
			/* As demand_used() counts it: a chunk may be larger than the share. */
			others = fm_sub_sat(others,
				FM_MIN(s.all - s.movable +
						FM_MAX(s.here,
							demand_share(demand_memory(m), r, &s)),
					r->capacity));
			own = fm_add_sat(own, s.all - s.movable + told(r, &s));
			c.untold = fm_add_sat(c.untold, s.movable - told(r, &s));
		}
	c.room = fm_sub_sat(memory_capacity(b, d), fm_add_sat(others, own));
	return c;
}

/* Its shares on that device grow by so much. */
static void grow(
	struct fm_bridge *b, struct fm_bridge_group *g, const struct bdevice *d, uint64_t room)
{
	struct member *m;

	fm_list_each (m, &g->members, in_group)
		for (unsigned i = 0; demand_memory(m) && i < FM_LEDGER_DEVICES; i++) {
			struct memory *mem = demand_memory(m);
			struct memory_row *r = &mem->row[i];
			struct sizes s = demand_row(mem, r);
			uint64_t more = FM_MIN(room, s.movable - told(r, &s));

			if (r->dev != d || !more)
				continue;
			room -= more;
			r->share = told(r, &s) + more;
			atomic_store(&mem->ledger->device[i].share, r->share);
			b->host.wake(m->client->ctx);
		}
}

/* Does all of it have room? The first that waits gets what there is. Those behind it come in only
 * as a whole: several could have a part each, and none all of it. */
static bool gets_room(struct fm_bridge *b, struct fm_bridge_group *g, bool first, uint64_t now)
{
	uint64_t untold = 0, movable = demand_sizes(g, NULL).movable;
	struct bdevice *d;
	bool all = true;

	fm_list_each (d, &b->devices, link) {
		struct course c;

		if (never_fits(b, g, d))
			continue;
		c = course_on(b, g, d, now);
		all &= c.room >= c.untold;
		untold = fm_add_sat(untold, fm_sub_sat(c.untold, c.room));
		if (first)
			grow(b, g, d, c.room);
	}
	if (!first || g->untold > fm_add_sat(untold, movable / GROW_PARTS)) {
		g->untold = first ? untold : UINT64_MAX;
		g->grew_at = now;
	}
	return all || now - g->grew_at >= GROW_MOST;
}

bool fm_bridge_group_back(struct fm_bridge *b, struct fm_bridge_group *g, uint64_t now)
{
	if (!is_away(g))
		return false;
	wish(b, g, FM_MEM_IN, is_bounded(b, g));
	fm_list_del(&g->coming);
	fm_list_add_tail(&b->coming, &g->coming);
	demand_kick(b);
	g->goes_on = true;
	g->coming_since = g->grew_at = b->coming_at = now;
	g->untold = UINT64_MAX;
	return true;
}

static bool is_in(const struct fm_bridge_group *g)
{
	const struct member *m;

	fm_list_each (m, &g->members, in_group)
		for (unsigned i = 0; m->client->memory && i < FM_LEDGER_DEVICES; i++)
			if (CLAIM(m->client->memory->ledger->device[i].host) &&
				claimed(m->client->memory, i, FM_MEM_MOVABLE))
				return false;
	return true;
}

static uint64_t look_after(const struct fm_bridge_group *g, uint64_t now)
{
	uint64_t part = fm_sub_sat(now, g->coming_since) / COMING_PART;

	return now + FM_MIN(FM_MAX(part, COMING_LOOK), COMING_MOST);
}

/* Returns when to look again. A group that was suspended once more meanwhile stays so. */
uint64_t away_run(struct fm_bridge *b, uint64_t now)
{
	struct fm_bridge_group *g, *next;
	uint64_t due = FM_NEVER;
	bool waits = false;

	if (fm_list_empty(&b->coming))
		return FM_NEVER;
	if (now < b->coming_at)
		return b->coming_at;
	fm_list_each_safe (g, next, &b->coming, coming) {
		if (g->bounded && gets_room(b, g, !waits, now))
			wish(b, g, FM_MEM_IN, false);
		waits |= g->bounded;
		if (!is_in(g) || g->bounded) {
			due = FM_MIN(due, look_after(g, now));
			continue;
		}
		fm_list_del(&g->coming);
		wish(b, g, FM_MEM_STAY, false);
		if (g->goes_on)
			fm_bridge_group_suspend(b, g, false, now);
	}
	b->coming_at = due;
	return due;
}
