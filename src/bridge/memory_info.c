/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What people are told of memory that is out: how much of it is missing, how long that will take,
 * which groups share the device, and when the group's next turn is. All of it is as the last plan
 * has it.
 */
#include "planner.h"

/* What a plan says of the group; NULL: nothing, or all memory of the device is where it is used. */
static const struct planned_group *planned(const struct fm_bridge_group *g, const struct bdevice *d)
{
	const struct planner *p = d->tight ? d->planner : NULL;

	for (unsigned i = 0; p && i < p->w.groups; i++)
		if (p->of[i].group == g)
			return &p->of[i];
	return NULL;
}

void planner_forget(const struct fm_bridge_group *g)
{
	const struct bdevice *d;

	fm_list_each (d, &g->bridge->devices, link)
		for (unsigned i = 0; d->planner && i < d->planner->w.groups; i++)
			if (d->planner->of[i].group == g)
				d->planner->of[i].group = NULL;
}

uint64_t planner_turn_of(const struct fm_bridge_group *g, const struct bdevice *d)
{
	const struct planned_group *of = planned(g, d);

	return of ? of->next : FM_NEVER;
}

/* --- of a plan --- */

static uint64_t bytes_of(const struct planner *p, unsigned group)
{
	const struct fm_mem_group *g = &p->group[group];
	uint64_t sum = 0;

	for (unsigned k = g->first; k < g->first + g->n; k++)
		sum = fm_add_sat(sum, p->extent[k].bytes);
	return sum;
}

void planner_note(struct planner *p)
{
	uint64_t sum = 0;

	p->contend = 0;
	for (unsigned i = 0; i < p->w.groups; i++) {
		const struct fm_mem_state *state = &p->plan.group[i];

		p->of[i].next = FM_NEVER;
		p->of[i].in = state->missing ? state->ready_at : FM_NEVER;
	}
	for (unsigned k = p->w.turns; k-- > 0;) {
		struct planned_group *of = &p->of[p->turn[k].group];

		if (of->next == FM_NEVER) {
			p->contend++;
			sum = fm_add_sat(sum, bytes_of(p, p->turn[k].group));
		}
		of->next = FM_MIN(of->next, p->turn[k].from);
	}
	/* One that pauses may have no turn just now. */
	for (unsigned i = 0; i < p->w.groups; i++)
		if (p->group[i].running && p->of[i].next == FM_NEVER) {
			p->contend++;
			sum = fm_add_sat(sum, bytes_of(p, i));
		}
	p->over = fm_sub_sat(sum, p->w.capacity);
}

/* --- of a group --- */

/* Is more of it told to come in than has come in? */
static bool comes(const struct fm_bridge_group *g, const struct bdevice *d)
{
	const struct member *m;

	if (demand_comes_in(g))
		return true;
	fm_list_each (m, &g->members, in_group)
		for (unsigned i = 0; demand_memory(m) && i < FM_LEDGER_DEVICES; i++) {
			const struct memory_row *r = &demand_memory(m)->row[i];
			struct sizes s = demand_row(demand_memory(m), r);

			if (r->dev == d && demand_share(demand_memory(m), r, &s) > s.here)
				return true;
		}
	return false;
}

/* All that is missing of it on one device. */
static void add_device(struct fm_bridge_out_info *i, const struct fm_bridge_group *g,
	const struct bdevice *d, uint64_t now)
{
	const struct planned_group *of = planned(g, d);
	uint64_t missing = demand_missing(g, d), in = FM_NEVER;
	bool moves = d->planner && d->planner->measured && comes(g, d);

	if (!missing)
		return;
	if (d->tight && d->planner && d->planner->host.bytes > i->host.bytes)
		i->host = d->planner->host;
	if (moves)
		in = fm_mem_ns(missing, d->planner->w.link.in);
	if (of && of->in != FM_NEVER && of->in > now)
		in = of->in - now;
	i->in = i->missing ? FM_MAX(i->in, in) : in;
	i->missing = fm_add_sat(i->missing, missing);
	i->rate = moves ? d->planner->w.link.in : i->rate;
	if (of && of->next != FM_NEVER && d->planner->over > i->over) {
		i->over = d->planner->over;
		i->together = d->planner->contend;
	}
}

void fm_bridge_group_out_info(
	const struct fm_bridge_group *g, uint64_t now, struct fm_bridge_out_info *i)
{
	const struct demand *x = &g->demand;
	const struct bdevice *d;

	*i = (struct fm_bridge_out_info){.why = g->away == FM_MEM_STAY ? x->why : FM_OUT_HAND,
		.moving = demand_comes_in(g) || x->place == PLACE_GOING,
		.since = x->at,
		.held_for = x->needs ? FM_MAX(fm_sub_sat(now, x->needs), UINT64_C(1)) : 0,
		.held = x->held,
		.cause = x->cause,
		.cause_uid = x->cause_uid,
		.apart = x->apart > now,
		.movable = demand_sizes(g, NULL).movable,
		.in = FM_NEVER};
	i->held += i->held_for;
	fm_list_each (d, &g->bridge->devices, link)
		add_device(i, g, d, now);
}
