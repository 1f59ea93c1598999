/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When each group needs its memory: the turns of the core's forecast. Where several have their turn
 * at once, and not all of their memory is there, they give way to each other: one that has had its
 * memory for long enough, to the one that has waited longest. So do groups of which the policy
 * knows no work, because a call waits for their memory.
 */
#include "base/cleanup.h"
#include "planner.h"
#include <errno.h>

#define NO_GROUP UINT32_MAX

static unsigned number_of(const struct planner *p, const struct fm_bridge_group *g)
{
	for (unsigned i = 0; i < p->w.groups; i++)
		if (p->of[i].group == g)
			return i;
	return NO_GROUP;
}

static bool is_in(const struct planner *p, unsigned i)
{
	return p->of[i].group->demand.place == PLACE_HERE;
}

/* It is not to come in for now, or not at all; or it has no work: the core does not hear of the end
 * of work of a group that is alone. */
static bool is_left(const struct fm_bridge_group *g, uint64_t now)
{
	if (g->demand.place == PLACE_HERE ? !planner_works(g, now) : !g->demand.needs)
		return true;
	return g->away != FM_MEM_STAY || fm_sched_group_suspended(g->sgroup) ||
	       (g->demand.place != PLACE_HERE && g->demand.apart > now);
}

/* It has work, and is to wait for a while: others go on. */
static bool planned_to_wait(const struct fm_bridge_group *g)
{
	return g->demand.place != PLACE_HERE && g->demand.needs;
}

static void add_turn(struct planner *p, unsigned group, uint64_t from, uint64_t until)
{
	unsigned k = p->w.turns;

	if (k == PLANNER_TURNS)
		return;
	for (; k && p->turn[k - 1].from > from; k--)
		p->turn[k] = p->turn[k - 1];
	p->turn[k] = (struct fm_mem_turn){group, from, FM_MAX(from, until)};
	p->w.turns++;
}

/* Without a forecast all that have work are taken to have their turn. */
static void add_all_that_work(struct planner *p)
{
	for (unsigned i = 0; i < p->w.groups; i++)
		if (!is_left(p->of[i].group, p->w.now) && demand_busy(p->of[i].group))
			add_turn(p, i, p->w.now, FM_NEVER);
}

/* A group that is left for a while keeps its place with the policy, and what comes behind it would
 * always come later: it has its turn as if that one had none. */
static void close_up(struct planner *p, int left, int n)
{
	const struct fm_sturn *gone = &p->sturn[left];
	uint64_t from = FM_MAX(gone->from, p->w.now), until = gone->until;

	if (until == FM_NEVER)
		return;
	for (int i = left + 1; i < n; i++) {
		struct fm_sturn *t = &p->sturn[i];

		if (t->from < until)
			continue;
		t->from -= FM_MIN(fm_sub_sat(until, from), fm_sub_sat(t->from, p->w.now));
		if (t->until != FM_NEVER)
			t->until = fm_sub_sat(t->until, fm_sub_sat(until, from));
	}
}

static int forecast(struct bdevice *d, struct planner *p)
{
	const struct fm_sforesight f = {.now = p->w.now, .until = FM_NEVER};
	unsigned most = FM_MIN(2 * p->w.groups + 2, (unsigned)PLANNER_TURNS);
	int n = fm_sched_dev_forecast(d->sdev, &f, p->sturn, most);

	if (n == -ENOMEM)
		return n;
	if (n < 0)
		add_all_that_work(p);
	for (int i = 0; i < n; i++) {
		const struct ent *e = p->sturn[i].data;
		unsigned group = number_of(p, e->group);

		if (group != NO_GROUP && is_left(e->group, p->w.now) && planned_to_wait(e->group))
			close_up(p, i, n);
		else if (group != NO_GROUP && !is_left(e->group, p->w.now))
			add_turn(p, group, FM_MAX(p->sturn[i].from, p->w.now), p->sturn[i].until);
	}
	return 0;
}

/* --- groups that have their turn at once --- */

static uint64_t keeps_until(const struct fm_bridge_group *g)
{
	return FM_MAX(g->demand.keeps, g->demand.at + PLANNER_KEEPS);
}

static bool has_turn(const struct planner *p, unsigned i)
{
	for (unsigned k = 0; k < p->w.turns; k++)
		if (p->turn[k].group == i)
			return true;
	return false;
}

/* A call waits for its memory, and the policy knows of no work. */
static bool only_misses(const struct planner *p, unsigned i)
{
	const struct fm_bridge_group *g = p->of[i].group;

	return !has_turn(p, i) && !is_in(p, i) && g->demand.needs && !is_left(g, p->w.now);
}

/* Those whose turn it is, and those that only miss their memory and come no later by rank: in
 * `now'. Returns how many. The others of the second kind come when those have no work. Where it is
 * nobody's turn, one that had work a moment ago has it. */
static unsigned list_now(struct planner *p, bool *now)
{
	int64_t rank = INT64_MIN;
	unsigned n = 0;

	for (unsigned k = 0; k < p->w.turns && p->turn[k].from <= p->w.now; k++) {
		unsigned i = p->turn[k].group;

		n += !now[i];
		now[i] = true;
		rank = FM_MAX(rank, demand_rank(p->of[i].group));
	}
	for (unsigned i = 0; i < p->w.groups && !n; i++)
		if (is_in(p, i) && p->group[i].running && planner_works(p->of[i].group, p->w.now)) {
			now[i] = true;
			rank = FM_MAX(rank, demand_rank(p->of[i].group));
		}
	for (unsigned i = 0; i < p->w.groups; i++)
		n += now[i] && is_in(p, i) && !has_turn(p, i);
	for (unsigned i = 0; i < p->w.groups; i++)
		if (only_misses(p, i) && demand_rank(p->of[i].group) >= rank) {
			now[i] = true;
			n++;
		}
	return n;
}

static uint64_t waits_since(const struct planner *p, unsigned i)
{
	uint64_t needs = p->of[i].group->demand.needs;

	return needs ? needs : p->w.now;
}

/* Of those in `now': the first that may give way, and the one that has waited longest. */
static void look_at_both(const struct planner *p, const bool *now, unsigned *gives, unsigned *waits)
{
	*gives = *waits = NO_GROUP;
	for (unsigned i = 0; i < p->w.groups; i++) {
		const struct fm_bridge_group *g = p->of[i].group;

		if (!now[i])
			continue;
		if (is_in(p, i) &&
			(*gives == NO_GROUP || keeps_until(g) < keeps_until(p->of[*gives].group)))
			*gives = i;
		if (!is_in(p, i) &&
			(*waits == NO_GROUP || waits_since(p, i) < waits_since(p, *waits)))
			*waits = i;
	}
}

/* One after the other: `first' now, then all others in `now', the one that gives way last. */
static void take_turns(struct planner *p, const bool *now, unsigned first, unsigned last)
{
	uint64_t from = p->w.now;
	unsigned n = 0;

	for (unsigned k = 0; k < p->w.turns; k++)
		if (p->turn[k].from > p->w.now)
			p->turn[n++] = p->turn[k];
	p->w.turns = n;
	add_turn(p, first, from, from + PLANNER_KEEPS);
	for (unsigned i = 0; i < p->w.groups; i++) {
		if (!now[i] || i == first || i == last)
			continue;
		from += PLANNER_KEEPS;
		add_turn(p, i, from, from + PLANNER_KEEPS);
	}
	from += PLANNER_KEEPS;
	if (last != NO_GROUP && last != first)
		add_turn(p, last, from, from + PLANNER_KEEPS);
}

static void share_turns(struct planner *p, const bool *now)
{
	unsigned gives, waits;
	uint64_t at;

	look_at_both(p, now, &gives, &waits);
	if (waits == NO_GROUP)
		return;
	p->shared = true;
	at = gives == NO_GROUP ? p->w.now : keeps_until(p->of[gives].group);
	if (gives != NO_GROUP && at > p->w.now) { /* the one that waits comes next */
		take_turns(p, now, gives, NO_GROUP);
		for (unsigned k = 0; k < p->w.turns; k++)
			if (p->turn[k].group == waits)
				p->turn[k].from = at;
		return;
	}
	if (gives != NO_GROUP && !demand_lacks(p->of[gives].group))
		p->group[gives].running = false;
	take_turns(p, now, waits, gives);
}

/* A group that another has waited for runs for as long as that has taken. */
static void keep_what_came_in(struct planner *p)
{
	for (unsigned i = 0; i < p->w.groups; i++) {
		const struct fm_bridge_group *g = p->of[i].group;

		if (!is_in(p, i) || g->demand.keeps <= p->w.now || !p->group[i].running)
			continue;
		for (unsigned k = 0; k < p->w.turns; k++) {
			struct fm_mem_turn *t = &p->turn[k];
			const struct fm_bridge_group *other = p->of[t->group].group;

			if (t->group == i || is_in(p, t->group) ||
				demand_rank(other) > demand_rank(g))
				continue;
			t->from = FM_MAX(t->from, g->demand.keeps);
			t->until = FM_MAX(t->until, t->from);
		}
	}
}

static void sort_turns(struct planner *p)
{
	for (unsigned k = 1; k < p->w.turns; k++) {
		struct fm_mem_turn t = p->turn[k];
		unsigned i = k;

		for (; i && p->turn[i - 1].from > t.from; i--)
			p->turn[i] = p->turn[i - 1];
		p->turn[i] = t;
	}
}

int planner_turns(struct bdevice *d)
{
	struct planner *p = d->planner;
	FM_CLEAN_FREE bool *now = calloc(p->w.groups + 1u, sizeof(*now));
	int rc;

	if (!now)
		return -ENOMEM;
	p->w.turns = 0;
	p->w.turn = p->turn;
	p->shared = false;
	rc = forecast(d, p);
	if (rc)
		return rc;
	if (list_now(p, now) > 1)
		share_turns(p, now);
	else
		for (unsigned i = 0; i < p->w.groups; i++)
			if (now[i] && only_misses(p, i))
				add_turn(p, i, p->w.now, p->w.now + PLANNER_KEEPS);
	keep_what_came_in(p);
	sort_turns(p);
	for (unsigned k = 0; k < p->w.turns; k++) {
		p->of[p->turn[k].group].listed = true;
		p->of[p->turn[k].group].turn |= p->turn[k].from <= p->w.now;
	}
	return 0;
}
