/* SPDX-License-Identifier: Apache-2.0 */
#include "base/parse.h"
#include "core.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

int fm_sched_group_add(struct fm_sched *s, struct fm_sched_group **out)
{
	struct fm_sched_group *g = calloc(1, sizeof(*g));

	if (!g)
		return -ENOMEM;
	if (fm_who_new(&g->who, ++s->last_group)) {
		free(g);
		return -ENOMEM;
	}
#define HINT_DEFAULT(id, name, min, max, def, unit) g->hints.value[id] = def;
	FM_HINT_MAP(HINT_DEFAULT)
#undef HINT_DEFAULT
	g->effective = g->hints;
	fm_list_init(&g->ents);
	fm_list_init(&g->torn);
	fm_list_add_tail(&s->groups, &g->node);
	*out = g;
	return 0;
}

void fm_sched_group_del(struct fm_sched *s, struct fm_sched_group *g, uint64_t now)
{
	while (!fm_list_empty(&g->ents))
		fm_sched_ent_del(s, fm_list_first(&g->ents, struct fm_sched_ent, in_group), now);
	fm_list_del(&g->node);
	g->who->gone = true;
	fm_who_put(g->who);
	free(g);
}

const char *fm_sched_label(struct fm_sched_group *g, uint32_t uid, const char *name)
{
	g->who->uid = uid;
	snprintf(g->who->name, sizeof(g->who->name), "%s", name);
	return g->who->name;
}

uint64_t fm_sched_group_id(const struct fm_sched_group *g)
{
	return g->who->id;
}

const struct fm_hints *fm_sched_group_hints(const struct fm_sched_group *g)
{
	return &g->hints;
}

int64_t fm_sched_group_priority(const struct fm_sched_group *g)
{
	return g->effective.value[FM_HINT_PRIORITY];
}

bool fm_sched_group_suspended(const struct fm_sched_group *g)
{
	return g->by_hand;
}

bool fm_sched_group_busy(const struct fm_sched_group *g)
{
	const struct fm_sched_ent *e;

	fm_list_each (e, &g->ents, in_group)
		if (e->work)
			return true;
	return g->depth > 0;
}

/* Call this before anything changes that the charge depends on. */
static void settle_group(struct fm_sched_group *g, uint64_t now)
{
	struct fm_sched_ent *e;

	fm_list_each (e, &g->ents, in_group)
		fm_core_settle_ent(e, now);
}

/* The innermost segment that gives a priority overrides the group's own. A grant overrides both. */
static bool update_effective(struct fm_sched_group *g)
{
	struct fm_hints eff = g->hints;
	bool changed = false;

	for (unsigned i = 0; i < g->depth; i++)
		if (g->segment[i] != FM_KEEP16)
			eff.value[FM_HINT_PRIORITY] = g->segment[i];
	if (g->grant == FM_GRANT_PLACE)
		eff.value[FM_HINT_PRIORITY] = FM_PRIORITY_MAX + 1 + g->place;
	else if (g->grant == FM_GRANT_DEMOTED)
		eff.value[FM_HINT_PRIORITY] = FM_PRIORITY_MIN;
	for (unsigned i = 0; i < FM_HINT_COUNT; i++)
		changed |= eff.value[i] != g->effective.value[i];
	g->effective = eff;
	return changed;
}

/* After a change of hints or segments: tell the policy, count anew, decide. */
static void apply_group(struct fm_sched_group *g, bool hinted, uint64_t now)
{
	struct fm_sched_ent *e;

	fm_list_each (e, &g->ents, in_group) {
		if (hinted) {
			fm_core_told(e, now);
			fm_core_touch(e);
		}
		fm_core_refresh(e, now);
	}
	fm_gang_review(g, now);
	fm_list_each (e, &g->ents, in_group)
		fm_core_decide(e->d, now);
}

int fm_sched_hint(
	struct fm_sched *s, struct fm_sched_group *g, enum fm_hint h, int64_t v, uint64_t now)
{
	int rc = fm_hint_check(h, v, NULL);
	struct fm_sched_ent *e;

	now = fm_core_now(s, now);
	if (rc || g->hints.value[h] == v)
		return rc;
	settle_group(g, now);
	g->hints.value[h] = v;
	fm_list_each (e, &g->ents, in_group)
		e->pauses.fetches = false; /* it may not be so any more */
	if (update_effective(g))
		apply_group(g, true, now);
	return 0;
}

static void suspend_ent(struct fm_sched_ent *e, const char *reason, uint64_t now)
{
	/* Close the gate first: the entity then drains if it still runs, and is charged meanwhile.
	 */
	fm_core_gate(e, false, reason, now);
	if (e->ready)
		fm_core_unready(e, now);
	fm_core_cool(e);
}

/* A group is withheld by hand, by its grant, or by both. */
static void apply_suspended(struct fm_sched_group *g, const char *reason, uint64_t now)
{
	bool suspended = g->by_hand || g->grant == FM_GRANT_STOPPED;
	struct fm_sched_ent *e;

	if (g->suspended == suspended)
		return;
	settle_group(g, now);
	g->suspended = suspended;
	fm_list_each (e, &g->ents, in_group) {
		fm_core_touch(e);
		if (suspended)
			suspend_ent(e, reason, now);
		else if (e->work || g->depth)
			fm_core_set_ready(e, now, now);
		else
			fm_core_heat(e, now);
		fm_account_note(e, now);
	}
	fm_list_each (e, &g->ents, in_group)
		fm_core_decide(e->d, now);
}

void fm_sched_suspend(struct fm_sched *s, struct fm_sched_group *g, bool suspended, uint64_t now)
{
	g->by_hand = suspended;
	apply_suspended(g, "suspended", fm_core_now(s, now));
}

/* A grant bounds how long the entity keeps the device. This holds for a pause under way, too. */
static void bound_linger(struct fm_sched_ent *e)
{
	struct fm_heap *lingers = &e->d->s->lingers;

	if (fm_core_lingers(e))
		fm_heap_rekey(lingers, &e->linger,
			FM_MIN(e->linger.key, fm_add_sat(e->idle_at, fm_linger_of(e))));
}

void fm_sched_grant(struct fm_sched *s, struct fm_sched_group *g, enum fm_grant grant,
	int64_t place, uint64_t now)
{
	struct fm_sched_ent *e;

	now = fm_core_now(s, now);
	if (g->grant == grant && g->place == place)
		return;
	settle_group(g, now);
	g->grant = grant;
	g->place = place;
	fm_list_each (e, &g->ents, in_group) {
		fm_core_touch(e); /* its bells may change */
		bound_linger(e);
	}
	apply_suspended(g, "over its budget", now);
	apply_group(g, update_effective(g), now);
}

int fm_sched_segment_begin(
	struct fm_sched *s, struct fm_sched_group *g, int32_t priority, uint64_t now)
{
	now = fm_core_now(s, now);
	if (priority != FM_SEGMENT_KEEP && fm_hint_check(FM_HINT_PRIORITY, priority, NULL))
		return -ERANGE;
	_Static_assert(FM_PRIORITY_MIN > FM_KEEP16 && FM_PRIORITY_MAX <= INT16_MAX, "fits");
	if (g->depth >= FM_SEGMENT_DEPTH)
		return -EOVERFLOW;
	settle_group(g, now);
	g->segment[g->depth++] = priority == FM_SEGMENT_KEEP ? FM_KEEP16 : (int16_t)priority;
	apply_group(g, update_effective(g), now);
	return 0;
}

int fm_sched_segment_end(struct fm_sched *s, struct fm_sched_group *g, uint64_t now)
{
	now = fm_core_now(s, now);
	if (!g->depth)
		return -EINVAL;
	settle_group(g, now);
	g->depth--;
	apply_group(g, update_effective(g), now);
	return 0;
}
