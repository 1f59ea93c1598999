/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gangs. The ranks of a collective wait for each other on the device itself. So a group that works
 * on several devices must not run on one while it is stopped on another: the running one would
 * spin.
 *
 * A *gang* is a group that counts as ready on several devices, unless its hint says otherwise. Each
 * device's policy decides about it there as about any group. A gang has a *claim* on each device
 * that chose it. It runs while it has a claim on each device on which it has work. Otherwise it is
 * *held*: it runs on no device, and the deputy's choice replaces it on the devices that chose it.
 * This takes a second instance of the policy, because an instance gives only one answer. Held gangs
 * are not charged, so a policy that counts turns by charges goes on choosing them: a claim is kept
 * until the other claims are there, too. So a gang gets the least of what its devices would give
 * it.
 *
 * Two gangs may each keep what the other needs. So a gang that keeps a claim and lacks another (it
 * is *torn*) may have to *stand back*: it then counts as ready only on the one device that refused
 * it. When that device chooses it, it counts as ready on all its devices again. It stands back
 *   - at once, if it is in a circle of gangs in which each waits for a claim of the next, and it is
 *     the one that had a turn last. The gang that waits longest never stands back, so it gets on;
 *   - when another gang needs a device that it claims, and its patience is over. Patience doubles
 *     each time that this happens, so that a gang that the policies choose one by one is at last
 *     chosen by all. Each turn halves it, because patience may leave a device unused.
 *
 * Convergence. A decision on one device changes others only through a group's `held`, or when a
 * group stands back or returns. `held` does not change what a first instance sees, so its effect
 * ends there. Within one call each gang stands back at most once in a circle, because this is
 * noted, and at most once for lost patience, because the patience that begins with a return is not
 * over yet. So it returns at most twice. If that takes more than LOOKS, with many gangs or with
 * policies whose answers do not repeat, the rest is left for NEXT later. Until then every device
 * goes by the same claims.
 */
#include "core.h"

#define PATIENCE_MIN FM_MS
#define TURN_MIN     FM_MS
#define PATIENCE_MAX FM_S
#define LOOKS        8 /* at each device, within one call */
#define NEXT         (10 * FM_US)

/* Would the group be a gang if it had work on all its devices? */
static bool willing(const struct fm_sched_group *g)
{
	return fm_gang_multi(g) && g->effective.value[FM_HINT_GANG];
}

bool fm_gang_but_for(const struct fm_sched_ent *e)
{
	return willing(e->g) && e->g->n_ready > 0;
}

bool fm_gang_shared(const struct fm_sched_ent *e)
{
	const struct fm_sched_ent *m;

	if (willing(e->g))
		fm_list_each (m, &e->g->ents, in_group)
			if (m->d->n_ents > 1 || m->d->binds_alone)
				return true;
	return false;
}

static bool lacks(const struct fm_sched_ent *e)
{
	return e->is_need && !e->is_claim;
}

static struct fm_sched_ent *first_lack(const struct fm_sched_group *g)
{
	struct fm_sched_ent *e;

	fm_list_each (e, &g->ents, in_group)
		if (lacks(e))
			return e;
	return NULL;
}

const char *fm_gang_reason(const struct fm_sched_ent *e)
{
	const struct fm_sched_ent *lack = e->g->back;

	if (!e->g->held || lack == e || (!lack && lacks(e)))
		return NULL;
	lack = lack ? lack : first_lack(e->g);
	return lack ? lack->d->held : NULL;
}

void fm_gang_stir(struct fm_sched_dev *d)
{
	if (d != d->s->deciding && fm_list_empty(&d->stirred))
		fm_list_add_tail(&d->s->stirred, &d->stirred);
}

static void touch_group(const struct fm_sched_group *g)
{
	struct fm_sched_ent *e;

	fm_list_each (e, &g->ents, in_group) {
		fm_core_touch(e);
		if (fm_gang_multi(g))
			fm_gang_stir(e->d);
	}
}

/* The number of the device's entities crossed one. */
static void fm_gang_touch(const struct fm_sched_dev *d)
{
	struct fm_sched_ent *e;

	fm_list_each (e, &d->ents, in_dev)
		touch_group(e->g);
}

/* Bring the counts up to date with one entity. Groups on one device are not counted. If all
 * entities run there is nothing to count, unless one of the group awaits a resource: its others
 * then wait with it. */
static void recount(struct fm_sched_ent *e)
{
	struct fm_sched_group *g = e->g;
	bool ready = fm_gang_multi(g) && e->ready && (!e->d->all || g->n_awaiting);
	bool need = ready && !fm_core_lingers(e);
	bool claim = need && (e->claimed || e->d->all) && !fm_core_awaits(e);
	bool rival = need && g->gang && fm_core_visible(e, FM_FIRST);

	g->n_ready += (unsigned)ready - e->is_ready;
	g->n_need += (unsigned)need - e->is_need;
	g->n_claim += (unsigned)claim - e->is_claim;
	e->d->n_gang += (unsigned)rival - e->is_rival;
	e->is_ready = ready;
	e->is_need = need;
	e->is_claim = claim;
	e->is_rival = rival;
}

static void note_torn(struct fm_sched_group *g, uint64_t now)
{
	struct fm_sched *s = fm_list_first(&g->ents, struct fm_sched_ent, in_group)->d->s;
	bool torn = g->gang && g->held && g->n_claim && !g->back, was = !fm_list_empty(&g->torn);

	if (torn == was)
		return;
	if (torn) {
		g->torn_since = now;
		g->patience = FM_MAX(g->patience, PATIENCE_MIN);
		fm_list_add_tail(&s->torn, &g->torn);
		s->n_torn++;
		return;
	}
	fm_list_del(&g->torn);
	s->n_torn--;
}

static void note_held(struct fm_sched_group *g, bool held, uint64_t now)
{
	if (!held && g->held) {
		g->whole_since = now;
	} else if (held && !g->held && now - g->whole_since >= TURN_MIN) {
		g->held_since = now;
		g->patience /= 2;
	}
	g->held = held;
}

static void set_state(
	struct fm_sched_group *g, bool gang, bool held, struct fm_sched_ent *back, uint64_t now)
{
	struct fm_sched_ent *e;

	if (gang == g->gang && held == g->held && back == g->back)
		return;
	note_held(g, held, now);
	e = fm_list_first(&g->ents, struct fm_sched_ent, in_group);
	e->d->s->spreads |= back != g->back;
	g->gang = gang;
	g->back = back;
	fm_list_each (e, &g->ents, in_group) {
		fm_core_show(e, now);
		recount(e);
		fm_account_note(e, now);
		fm_gang_stir(e->d);
		if (e->d->all)
			fm_core_touch(e);
	}
}

/* An entity that lingers counts while its group runs. While the group is held it keeps no device,
 * and the group's other entities need not wait for it. */
void fm_gang_review(struct fm_sched_group *g, uint64_t now)
{
	bool held = willing(g) && g->n_claim < g->n_need;
	bool gang = willing(g) && (held ? g->n_need : g->n_ready) > 1;
	struct fm_sched_ent *back = g->back;

	if (fm_list_empty(&g->ents))
		return;
	if (back && (!gang || !lacks(back)))
		back = NULL;
	set_state(g, gang, held, back, now);
	note_torn(g, now);
}

void fm_gang_recount(struct fm_sched_ent *e, uint64_t now)
{
	recount(e);
	fm_gang_review(e->g, now);
	fm_account_note(e, now);
}

static void trim(struct fm_sched_dev *d, uint64_t now)
{
	if (fm_core_may_wait(d) && d->n_ents > 1)
		return;
	fm_seat_end(d, FM_DEPUTY, now);
	d->stands_in = false;
	if (fm_core_may_wait(d))
		return;
	while (d->n_claim)
		d->claim[--d->n_claim]->claimed = false;
}

void fm_gang_trim(struct fm_sched_group *g, struct fm_sched_dev *d, uint64_t now)
{
	struct fm_sched_ent *e;

	trim(d, now);
	fm_list_each (e, &g->ents, in_group)
		trim(e->d, now);
}

/* Prepares for one more entity on d, of g. */
int fm_gang_prepare(struct fm_sched_group *g, struct fm_sched_dev *d, uint64_t now)
{
	struct fm_sched_ent *e;
	int rc = 0;

	if ((g->n_ents || fm_core_may_wait(d)) && d->n_ents && !d->self[FM_DEPUTY])
		rc = fm_seat_make(d, FM_DEPUTY, now);
	fm_list_each (e, &g->ents, in_group)
		if (!rc && e->d->n_ents > 1 && !e->d->self[FM_DEPUTY])
			rc = fm_seat_make(e->d, FM_DEPUTY, now);
	if (rc)
		fm_gang_trim(g, d, now);
	return rc;
}

void fm_gang_enter(struct fm_sched_ent *e, uint64_t now)
{
	struct fm_sched_group *g = e->g;
	struct fm_sched_ent *m;

	if (++g->n_ents == 2)
		fm_list_first(&g->ents, struct fm_sched_ent, in_group)->d->n_multi++;
	if (g->n_ents > 1) {
		e->d->n_multi++;
		fm_list_each (m, &g->ents, in_group)
			recount(m);
		fm_gang_review(g, now);
		touch_group(g);
	}
	if (e->d->n_ents == 2)
		fm_gang_touch(e->d);
}

void fm_gang_leave(struct fm_sched_group *g, struct fm_sched_dev *d, uint64_t now)
{
	struct fm_sched_ent *m;

	if (g->n_ents-- > 1)
		d->n_multi--;
	fm_list_each (m, &g->ents, in_group) {
		m->d->n_multi -= g->n_ents == 1;
		recount(m);
	}
	fm_gang_review(g, now);
	touch_group(g);
	fm_list_each (m, &g->ents, in_group)
		fm_gang_stir(m->d);
	if (d->n_ents == 1)
		fm_gang_touch(d);
	fm_gang_trim(g, d, now);
}

static void stand_back(struct fm_sched_group *g, uint64_t now)
{
	set_state(g, g->gang, g->held, first_lack(g), now);
	note_torn(g, now);
}

/* A gang whose claim keeps g waiting. */
static struct fm_sched_group *waits_for(const struct fm_sched_group *g)
{
	const struct fm_sched_ent *e;

	fm_list_each (e, &g->ents, in_group) {
		for (unsigned i = 0; lacks(e) && i < e->d->n_claim; i++) {
			struct fm_sched_group *other = e->d->claim[i]->g;

			if (other != g && !fm_list_empty(&other->torn))
				return other;
		}
	}
	return NULL;
}

/* The group that had a turn last in the circle that g is in. NULL: g is in none. */
static struct fm_sched_group *last_of_circle(struct fm_sched *s, struct fm_sched_group *g)
{
	struct fm_sched_group *last = g, *other = waits_for(g);

	for (unsigned i = 0; other && other != g; i++, other = waits_for(other)) {
		if (i == s->n_torn)
			return NULL;
		if (other->held_since >= last->held_since)
			last = other;
	}
	return other ? last : NULL;
}

static bool contested(const struct fm_sched_group *g)
{
	const struct fm_sched_ent *e;

	fm_list_each (e, &g->ents, in_group)
		if (e->is_claim && e->d->n_gang > 1)
			return true;
	return false;
}

/* Does a gang have to stand back? One at a time, because that changes which others have to. */
static bool yield(struct fm_sched *s, uint64_t now)
{
	struct fm_sched_group *g, *last;

	s->yield_at = FM_NEVER;
	fm_list_each (g, &s->torn, torn) {
		last = last_of_circle(s, g);
		if (last && last->circle != s->round) {
			last->circle = s->round;
			stand_back(last, now);
			return true;
		}
		if (!contested(g))
			continue;
		if (fm_sub_sat(now, g->torn_since) >= g->patience) {
			g->patience = FM_MIN(2 * g->patience, PATIENCE_MAX);
			stand_back(g, now);
			return true;
		}
		s->yield_at = FM_MIN(s->yield_at, g->torn_since + g->patience);
	}
	return false;
}

static void decided(struct fm_sched *s, struct fm_sched_dev *d)
{
	if (fm_list_empty(&d->decided))
		fm_list_add_tail(&s->decided, &d->decided);
}

/* The object that the instances of all devices share has changed. The other devices are asked only
 * once, because their answers change nothing more unless a gang stands back or returns. */
static void spread(struct fm_sched *s, const struct fm_sched_dev *from)
{
	struct fm_sched_dev *d;

	s->spreads = false;
	fm_list_each (d, &s->devices, node)
		if (d != from)
			fm_gang_stir(d);
}

static void choose(struct fm_sched *s, struct fm_sched_dev *d, uint64_t now)
{
	fm_list_del(&d->stirred);
	s->deciding = d;
	fm_core_choose(d, now);
	s->deciding = NULL;
	decided(s, d);
	if (d->others && s->shared && s->spreads)
		spread(s, d);
}

/* Devices that are too many for one call are decided by the existing claims for now. Their
 * decisions come late, but agree with each other. */
static void choose_all(struct fm_sched *s, uint64_t now)
{
	struct fm_sched_dev *d;

	s->round++;
	s->spreads = true;
	for (size_t looks = LOOKS * s->n_devices; looks; looks--) {
		if (!fm_list_empty(&s->stirred))
			choose(s, fm_list_first(&s->stirred, struct fm_sched_dev, stirred), now);
		else if (!yield(s, now))
			return;
	}
	s->yield_at = now + NEXT;
	fm_list_each (d, &s->stirred, stirred) {
		fm_core_settle(d, now);
		fm_core_fill(d, now);
		decided(s, d);
	}
}

/* Decide about every device that was stirred. bells() may report edges, which leads to decisions
 * inside this one; these leave the rest of the lists valid. */
void fm_gang_resolve(struct fm_sched *s, uint64_t now)
{
	struct fm_sched_dev *d;

	choose_all(s, now);
	fm_list_each (d, &s->decided, decided)
		fm_core_apply(d, now);
	while (!fm_list_empty(&s->decided)) {
		d = fm_list_first(&s->decided, struct fm_sched_dev, decided);
		fm_list_del(&d->decided);
		fm_core_ring(d);
	}
}
