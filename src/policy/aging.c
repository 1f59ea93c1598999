/* SPDX-License-Identifier: Apache-2.0 */
#include "aging.h"

int fm_aging_reserve(struct fm_aging *a, size_t n)
{
	return a->step ? fm_heap_reserve(&a->waiting, n) : 0;
}

void fm_aging_fini(struct fm_aging *a)
{
	fm_heap_fini(&a->waiting);
}

/* Cannot fail: room was reserved. */
static void wait_on(struct fm_aging *a, struct fm_aging_ent *e)
{
	fm_heap_push(&a->waiting, &e->node, fm_add_sat(e->since, e->delay));
}

void fm_aging_ready(struct fm_aging *a, struct fm_aging_ent *e, uint64_t delay, uint64_t now)
{
	if (!a->step)
		return;
	e->since = now;
	e->delay = delay;
	e->used = 0;
	wait_on(a, e);
}

/* An aged turn that was interrupted goes on as soon as it may. */
static void leave_turn(struct fm_aging *a, bool over, uint64_t now)
{
	if (a->aged && over)
		a->ended = now;
	a->aged = false;
	a->on = NULL;
}

void fm_aging_idle(struct fm_aging *a, struct fm_aging_ent *e, uint64_t now)
{
	fm_heap_del(&a->waiting, &e->node);
	if (a->on == e)
		leave_turn(a, true, now);
}

void fm_aging_charge(struct fm_aging *a, struct fm_aging_ent *e, uint64_t ns)
{
	if (a->on == e)
		e->used = fm_add_sat(e->used, ns);
}

void fm_aging_move(struct fm_aging *a, struct fm_aging_ent *e, uint64_t delay)
{
	if (!a->step)
		return;
	e->delay = delay;
	if (a->on == e) {
		e->node.key = fm_add_sat(e->since, delay);
		return;
	}
	fm_heap_del(&a->waiting, &e->node);
	wait_on(a, e);
}

int fm_aging_copy(struct fm_aging *to, const struct fm_aging *a)
{
	*to = *a;
	to->on = NULL;
	return fm_heap_copy(&to->waiting, &a->waiting);
}

void fm_aging_copy_ent(struct fm_aging *to, struct fm_aging_ent *twin, const struct fm_aging *a,
	const struct fm_aging_ent *e)
{
	*twin = *e;
	fm_heap_copy_node(&to->waiting, &twin->node, &e->node);
	if (a->on == e)
		to->on = twin;
}

/* An entity that ran by the policy's own order has had its turn, however short. One that was chosen
 * but got no device time, such as a gang held for another device, has not had it. */
static void put_back(struct fm_aging *a, uint64_t now)
{
	struct fm_aging_ent *e = a->on;
	bool over;

	if (!e)
		return;
	over = a->aged ? e->used >= a->slice : e->used > 0;
	if (over) {
		e->since = now;
		e->used = 0;
	}
	leave_turn(a, over, now);
	wait_on(a, e);
}

static void take(struct fm_aging *a, struct fm_aging_ent *e, bool aged, uint64_t now)
{
	put_back(a, now);
	if (e)
		fm_heap_del(&a->waiting, &e->node);
	a->on = e;
	a->aged = aged;
	a->began = now;
}

/* When the first waiting entity may have a turn by age. An entity that is as urgent as the one that
 * the policy would run gets its turns from the policy. */
static uint64_t due_at(const struct fm_aging *a, uint64_t lead)
{
	const struct fm_heap_node *n = fm_heap_min(&a->waiting);

	if (!n || fm_container(n, struct fm_aging_ent, node)->delay <= lead)
		return FM_NEVER;
	return FM_MAX(fm_sub_sat(n->key, lead), a->ended ? fm_add_sat(a->ended, a->slice) : 0);
}

struct fm_aging_ent *fm_aging_pick(
	struct fm_aging *a, struct fm_aging_ent *own, uint64_t lead, uint64_t now, uint64_t *next)
{
	if (!a->step)
		return own;
	if (a->aged && (a->on->used >= a->slice || fm_aging_yields(a, lead)))
		put_back(a, now);
	if (!a->aged && due_at(a, lead) <= now)
		take(a, fm_container(fm_heap_min(&a->waiting), struct fm_aging_ent, node), true,
			now);
	else if (!a->aged && a->on != own)
		take(a, own, false, now);
	if (a->aged)
		*next = FM_MIN(*next, now + (a->slice - a->on->used));
	else
		*next = FM_MIN(*next, due_at(a, lead));
	return a->on;
}

bool fm_aging_yields(const struct fm_aging *a, uint64_t lead)
{
	return !a->aged || fm_sub_sat(a->on->node.key, lead) > a->began;
}
