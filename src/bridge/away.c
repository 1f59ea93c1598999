/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is put out by hand. The group is suspended, and its clients are asked to move their
 * memory to the host. On the way back the group stays suspended until they have said that all of it
 * is in: it could not run before, and would only take a turn from another.
 *
 * What a client says is a claim. One that never says so keeps its own group suspended.
 */
#include "internal.h"
#include <errno.h>

/* Between looks at clients whose memory comes in: a part of the time that it has taken already, so
 * that a client that never answers costs little. */
#define COMING_LOOK (2 * FM_MS)
#define COMING_MOST (100 * FM_MS)
#define COMING_PART 128

static bool is_managed(const struct member *m)
{
	return m->client->memory && m->client->memory->managed;
}

static uint64_t claimed(const struct memory *mem, unsigned row, enum fm_mem_kind kind)
{
	return FM_MIN(CLAIM(mem->ledger->device[row].kind[kind]), (uint64_t)1 << 50);
}

/* It asked for memory that can be moved, and was refused; on all its devices, if it is the device
 * that cannot. */
static bool is_refused(const struct memory *mem)
{
	bool device = false, moves = false;

	for (unsigned i = 0; i < FM_LEDGER_DEVICES; i++) {
		uint32_t trouble = CLAIM(mem->ledger->device[i].trouble);

		if (trouble > FM_MEM_REFUSED && trouble < FM_MEM_TROUBLES)
			return true;
		device |= trouble == FM_MEM_REFUSED;
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
	if (!trouble || trouble >= FM_MEM_TROUBLES ||
		(trouble == FM_MEM_REFUSED && !is_refused(mem)))
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

static void wish(struct fm_bridge *b, struct fm_bridge_group *g, enum fm_mem_wish what)
{
	g->away = what;
	away_tell(b, g, what);
}

/* An earlier daemon may have wished something; and its group may be out. */
void away_begin(struct memory *m)
{
	const struct fm_bridge_group *g = m->client->first.group;

	away_tell_client(m, g->away != FM_MEM_STAY ? g->away : demand_wish(g));
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
	wish(b, g, FM_MEM_OUT);
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

bool fm_bridge_group_back(struct fm_bridge *b, struct fm_bridge_group *g, uint64_t now)
{
	if (!is_away(g))
		return false;
	wish(b, g, FM_MEM_IN);
	fm_list_del(&g->coming);
	fm_list_add_tail(&b->coming, &g->coming);
	demand_kick(b);
	g->goes_on = true;
	g->coming_since = b->coming_at = now;
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

	if (fm_list_empty(&b->coming))
		return FM_NEVER;
	if (now < b->coming_at)
		return b->coming_at;
	fm_list_each_safe (g, next, &b->coming, coming) {
		if (!is_in(g)) {
			due = FM_MIN(due, look_after(g, now));
			continue;
		}
		fm_list_del(&g->coming);
		wish(b, g, FM_MEM_STAY);
		if (g->goes_on)
			fm_bridge_group_suspend(b, g, false, now);
	}
	b->coming_at = due;
	return due;
}
