/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the wall time of each entity went: each moment since it joined counts as one of enum
 * fm_spent, to the nanosecond. Waiting time is told apart by the group that held the device.
 *
 * No entity is visited because another one waits. A device has a table with places for a few
 * groups. It counts how long each of these groups has held it, and all other groups together.
 * An entity that begins to wait subtracts these counts from its own; when its wait ends, it adds
 * what they are by then. Places change hands seldom. Each change has a number, by which a waiting
 * entity notices it. Time that was reported too late to be counted right goes to the group that
 * the entity waited for most, so sums are always exact.
 */
#include "core.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A group takes the place of another group that still exists at most this often. */
#define PLACE_EVERY (100 * FM_MS)

const char *fm_wait_name(enum fm_wait w)
{
	static const char *const names[FM_WAITS] = {
		[FM_WAIT_POLICY] = "policy",
		[FM_WAIT_NOBODY] = "nobody",
		[FM_WAIT_GANG] = "gang",
		[FM_WAIT_DEMOTED] = "demoted",
		[FM_WAIT_DRAINING] = "draining",
		[FM_WAIT_RESOURCE] = "resource",
	};

	return (unsigned)w < FM_WAITS ? names[w] : "?";
}

int fm_who_new(struct fm_who **out, uint64_t id)
{
	struct fm_who *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	w->id = id;
	w->refs = 1;
	*out = w;
	return 0;
}

void fm_who_put(struct fm_who *w)
{
	if (w && !--w->refs)
		free(w);
}

static void set_who(struct fm_who **place, struct fm_who *w)
{
	if (w)
		w->refs++;
	fm_who_put(*place);
	*place = w;
}

void fm_hold_fini(struct fm_hold *h)
{
	for (unsigned i = 0; i < FM_PLACES; i++)
		fm_who_put(h->who[i]);
}

int fm_spend_new(struct fm_spend **out, uint64_t now)
{
	struct fm_spend *p = aligned_alloc(_Alignof(struct fm_spend), sizeof(*p));

	if (!p)
		return -ENOMEM;
	memset(p, 0, sizeof(*p));
	p->joined = p->to = now;
	*out = p;
	return 0;
}

void fm_spend_free(struct fm_spend *p)
{
	struct fm_blame *b = p ? p->blame : NULL;

	for (unsigned i = 0; b && i < FM_PLACES; i++)
		fm_who_put(b->who[i]);
	for (unsigned i = 0; b && i < FM_CULPRITS; i++)
		fm_who_put(b->past[i].who);
	free(b);
	free(p);
}

struct fm_blame *fm_blame_of(struct fm_spend *p)
{
	if (!p->blame)
		p->blame = calloc(1, sizeof(*p->blame));
	return p->blame;
}

/* Several holders at once share the time. */
static void advance_many(struct fm_hold *h, uint64_t ns)
{
	uint64_t part = ns / h->n;

	h->ns[h->by[0]] += ns - part * (h->n - 1);
	for (unsigned i = 1; i < h->n; i++)
		h->ns[h->by[i]] += part;
}

static inline void advance(struct fm_hold *h, uint64_t t)
{
	uint64_t ns = fm_sub_sat(t, h->at);

	if (!ns)
		return;
	h->at = t;
	if (h->n == 1)
		h->ns[h->by[0]] += ns;
	else if (!h->n)
		h->nobody += ns;
	else
		advance_many(h, ns);
}

static bool holds(const struct fm_hold *h, unsigned place)
{
	for (unsigned i = 0; i < h->n; i++)
		if (h->by[i] == place)
			return true;
	return false;
}

/* A free place, or that of the group that has held the device least of late and does not hold it
 * now. FM_PLACES: it is too early to take one. */
static unsigned spare_place(struct fm_hold *h, uint64_t t)
{
	uint64_t least = UINT64_MAX, score;
	unsigned best = FM_PLACES;

	for (unsigned i = 0; i < FM_PLACES; i++)
		if (!h->who[i] || (h->who[i]->gone && !holds(h, i)))
			return i;
	if (t < h->change_at)
		return FM_PLACES;
	h->change_at = t + PLACE_EVERY;
	for (unsigned i = 0; i < FM_PLACES; i++) {
		h->rated[i] += (h->ns[i] - h->rated[i]) / 16;
		score = h->ns[i] - h->rated[i];
		if (holds(h, i) || score >= least)
			continue;
		least = score;
		best = i;
	}
	return best;
}

static bool has_place(const struct fm_hold *h, const struct fm_sched_ent *e)
{
	return h->who[e->place] == e->g->who;
}

static unsigned place_of(struct fm_hold *h, struct fm_sched_ent *e, uint64_t t)
{
	unsigned i = e->place;

	if (has_place(h, e))
		return i;
	i = spare_place(h, t);
	if (i == FM_PLACES)
		return FM_OTHERS;
	e->place = (uint8_t)i;
	set_who(&h->who[i], e->g->who);
	h->taken[i] = h->rated[i] = h->ns[i];
	h->before[i] = h->since[i];
	h->since[i] = ++h->changes;
	return i;
}

/* The group may have a place already, from an earlier entity. */
void fm_account_join(struct fm_sched_ent *e)
{
	const struct fm_hold *h = &e->d->hold;

	for (unsigned i = 0; i < FM_PLACES; i++)
		if (h->who[i] == e->g->who)
			e->place = (uint8_t)i;
}

/* Clears run[], because another entity may be made at the same address. */
void fm_account_leave(struct fm_sched_ent *e)
{
	struct fm_hold *h = &e->d->hold;

	h->waiting -= e->counts;
	e->counts = false;
	for (unsigned i = 0; i < FM_RUN_MAX; i++)
		if (h->run[i] == e)
			h->run[i] = NULL;
}

static void hold_many(struct fm_hold *h, struct fm_sched_ent *const *by, unsigned n, uint64_t t)
{
	h->n = 0;
	/* Entities that have a place keep it; the others look for one after that. */
	for (unsigned i = 0; i < n; i++)
		if (has_place(h, by[i]))
			h->by[h->n++] = by[i]->place;
	for (unsigned i = 0; i < n && h->n < n; i++)
		if (!has_place(h, by[i]) || !holds(h, by[i]->place)) {
			uint8_t place = (uint8_t)place_of(h, by[i], t);

			h->by[h->n++] = place;
		}
}

static void hold(struct fm_hold *h, struct fm_sched_ent *const *by, unsigned n, uint64_t t)
{
	advance(h, t);
	for (unsigned i = 0; i < n; i++)
		h->run[i] = by[i];
	if (n == 1 && has_place(h, by[0])) {
		h->n = 1;
		h->by[0] = by[0]->place;
		return;
	}
	hold_many(h, by, n, t);
}

/* While an entity drains, the device still counts as held by it. */
static unsigned holders(const struct fm_sched_dev *d, struct fm_sched_ent **by)
{
	struct fm_sched_ent *e;
	unsigned n = 0;

	if (!fm_account_late(d)) {
		for (; n < d->n_run; n++)
			by[n] = d->run[n];
		return n;
	}
	fm_list_each (e, &d->active, active)
		if (e->draining && !e->stuck && n < FM_RUN_MAX)
			by[n++] = e;
	return n;
}

void fm_account_holder(struct fm_sched_dev *d, uint64_t t)
{
	bool late = fm_account_late(d), was = d->hold.late;
	struct fm_sched_ent *by[FM_RUN_MAX];
	unsigned n = holders(d, by);

	d->hold.late = late;
	hold(&d->hold, by, n, t);
	for (unsigned i = 0; (late || was) && i < d->n_run; i++)
		fm_account_note(d->run[i], t);
}

static void blame(struct fm_spend *p, struct fm_who *w, uint64_t ns)
{
	struct fm_past *past = p->blame->past, *least = past, *q;

	if (!ns)
		return;
	for (q = past; q < past + FM_CULPRITS; q++) {
		if (!q->who || q->who == w) {
			set_who(&q->who, w);
			q->ns += ns;
			return;
		}
		if (q->ns < least->ns)
			least = q;
	}
	if (least->ns >= ns) {
		p->others += ns;
		return;
	}
	p->others += least->ns;
	set_who(&least->who, w);
	least->ns = ns;
}

/* Places have changed hands since the entity last looked. Where one changed hands more than once
 * during this wait, the time of each group is not known; it counts for the others. */
static void follow(struct fm_sched_ent *e)
{
	const struct fm_hold *h = &e->d->hold;
	struct fm_spend *p = e->spend;
	struct fm_blame *b = p->blame;

	for (unsigned i = 0; i < FM_PLACES; i++) {
		uint64_t ns = p->held[i] + (e->counts ? h->taken[i] : 0);

		if (h->since[i] <= p->changes)
			continue;
		if (b->who[i] && (!e->counts || h->before[i] <= p->changes))
			blame(p, b->who[i], ns);
		else
			p->others += ns;
		p->held[i] = e->counts ? -h->taken[i] : 0;
		set_who(&b->who[i], h->who[i]);
	}
	p->changes = h->changes;
}

void fm_account_begin(struct fm_sched_ent *e, uint64_t now)
{
	struct fm_hold *h = &e->d->hold;
	struct fm_spend *p = e->spend;

	if (!fm_blame_of(p))
		return;
	if (!h->waiting) {
		h->at = now;
		fm_account_holder(e->d, now);
	}
	h->waiting++;
	advance(h, now);
	if (p->changes != h->changes)
		follow(e);
	for (unsigned i = 0; i <= FM_OTHERS; i++)
		p->held[i] -= h->ns[i];
	p->nobody = h->nobody;
	e->counts = true;
}

/* The wait ends at t. Returns for how long of it no entity held the device. */
static uint64_t end_count(struct fm_sched_ent *e, uint64_t t)
{
	struct fm_hold *h = &e->d->hold;
	struct fm_spend *p = e->spend;

	if (!e->counts)
		return 0;
	advance(h, t);
	if (p->changes != h->changes)
		follow(e);
	for (unsigned i = 0; i <= FM_OTHERS; i++)
		p->held[i] += h->ns[i];
	e->counts = false;
	h->waiting--;
	return h->nobody - p->nobody;
}

static void settle(struct fm_sched_ent *e, uint64_t t)
{
	struct fm_spend *p = e->spend;
	uint64_t ns = fm_sub_sat(t, p->to), nobody;

	p->to += ns;
	if (fm_spent_waits(e->spends)) {
		nobody = FM_MIN(end_count(e, t), ns);
		if (e->spends == FM_SPENT_WAIT + FM_WAIT_POLICY) {
			p->ns[FM_SPENT_WAIT + FM_WAIT_NOBODY] += nobody;
			ns -= nobody;
		} else {
			p->others += nobody;
		}
	}
	p->ns[e->spends] += ns;
}

void fm_account_spends_on(struct fm_sched_ent *e, enum fm_spent on, uint64_t t)
{
	struct fm_spend *p = e->spend;
	bool waits = fm_spent_waits(on), has_waited = fm_spent_waits(e->spends);

	settle(e, t);
	if (waits && !has_waited)
		p->since = p->to;
	else if (has_waited && on == FM_SPENT_RAN)
		fm_waits_add(p, p->to - p->since);
	e->spends = (uint8_t)on;
	if (waits)
		fm_core_touch(e); /* the wait counts once its device has been decided about */
}

static void put(struct fm_account *a, const struct fm_who *w, uint64_t ns)
{
	unsigned i = a->n_culprits;

	if (i == FM_CULPRITS) {
		i--;
		if (a->culprit[i].ns >= ns) {
			a->others_ns += ns;
			return;
		}
		a->others_ns += a->culprit[i].ns;
	} else {
		a->n_culprits++;
	}
	for (; i && a->culprit[i - 1].ns < ns; i--)
		a->culprit[i] = a->culprit[i - 1];
	a->culprit[i] = (struct fm_culprit){.who = w, .ns = ns};
}

static void list_culprits(const struct fm_spend *p, struct fm_account *a)
{
	const struct fm_blame *b = p->blame;
	const struct fm_past *q;
	uint64_t ns;

	if (!b)
		return;
	for (q = b->past; q < b->past + FM_CULPRITS; q++) {
		ns = q->ns;
		for (unsigned i = 0; i < FM_PLACES; i++)
			ns += q->who && b->who[i] == q->who ? p->held[i] : 0;
		if (ns)
			put(a, q->who, ns);
	}
	for (unsigned i = 0; i < FM_PLACES; i++) {
		bool listed = !b->who[i] || !p->held[i];

		for (q = b->past; q < b->past + FM_CULPRITS; q++)
			listed |= q->who == b->who[i];
		if (!listed)
			put(a, b->who[i], p->held[i]);
	}
}

/* The first culprit's time was reduced: move it down to where it belongs. */
static void sink(struct fm_account *a)
{
	struct fm_culprit less = a->culprit[0];
	unsigned i = 0;

	for (; i + 1 < a->n_culprits && a->culprit[i + 1].ns > less.ns; i++)
		a->culprit[i] = a->culprit[i + 1];
	a->culprit[i] = less;
	if (!a->culprit[a->n_culprits - 1].ns)
		a->n_culprits--;
}

/* Late reports leave time uncounted, or counted twice. This makes the sum equal the time waited. */
static void make_exact(struct fm_account *a)
{
	uint64_t waited = 0, known = a->others_ns, less;

	for (unsigned i = 0; i < FM_WAITS; i++)
		waited += a->wait_ns[i];
	for (unsigned i = 0; i < a->n_culprits; i++)
		known += a->culprit[i].ns;
	if (waited >= known) {
		*(a->n_culprits ? &a->culprit[0].ns : &a->others_ns) += waited - known;
		return;
	}
	less = FM_MIN(known - waited, a->others_ns);
	a->others_ns -= less;
	known -= less;
	while (known > waited) {
		less = FM_MIN(known - waited, a->culprit[0].ns);
		a->culprit[0].ns -= less;
		known -= less;
		sink(a);
	}
}

static void tell_now(struct fm_sched_ent *e, struct fm_account *a)
{
	struct fm_sched_ent *by[FM_RUN_MAX];

	if (!fm_spent_waits(e->spends))
		return;
	a->waiting = true;
	a->why = (enum fm_wait)(e->spends - FM_SPENT_WAIT);
	a->waiting_ns = e->spend->to - e->spend->since;
	a->rule = e->d->reason;
	if (holders(e->d, by))
		a->holder = by[0]->g->who;
	else if (a->why == FM_WAIT_POLICY)
		a->why = FM_WAIT_NOBODY;
}

void fm_sched_ent_account(struct fm_sched_ent *e, uint64_t now, struct fm_account *a)
{
	const struct fm_spend *p = e->spend;

	now = fm_core_now(e->d->s, now);
	settle(e, now);
	*a = (struct fm_account){
		.age_ns = p->to - p->joined,
		.ran_ns = p->ns[FM_SPENT_RAN],
		.idle_ns = p->ns[FM_SPENT_IDLE],
		.by_hand_ns = p->ns[FM_SPENT_BY_HAND],
		.over_budget_ns = p->ns[FM_SPENT_OVER_BUDGET],
		.others_ns = p->others + p->held[FM_OTHERS] + p->ns[FM_SPENT_WAIT + FM_WAIT_NOBODY],
	};
	fm_waits_tell(p, a);
	for (unsigned i = 0; i < FM_WAITS; i++)
		a->wait_ns[i] = p->ns[FM_SPENT_WAIT + i];
	list_culprits(p, a);
	make_exact(a);
	tell_now(e, a);
	fm_account_wait(e, now);
}

uint64_t fm_sched_ent_idle(const struct fm_sched_ent *e, uint64_t now)
{
	const struct fm_spend *p = e->spend;
	uint64_t more = e->spends == FM_SPENT_IDLE ? fm_sub_sat(now, p->to) : 0;

	return p->ns[FM_SPENT_IDLE] + more;
}

/* How long it was ready with its gate closed, up to t. */
uint64_t fm_account_waited(const struct fm_sched_ent *e, uint64_t t)
{
	const struct fm_spend *p = e->spend;
	uint64_t ns = 0;

	for (unsigned i = 0; i < FM_WAITS; i++)
		if (i != FM_WAIT_DRAINING)
			ns += p->ns[FM_SPENT_WAIT + i];
	if (fm_spent_waits(e->spends) && e->spends != FM_SPENT_WAIT + FM_WAIT_DRAINING)
		ns += fm_sub_sat(t, p->to);
	return ns;
}
