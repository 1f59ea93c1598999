/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much device time each entity used. A moment in which the device works belongs to the entity
 * that it works for, or in equal parts to those that it works for in turn. So the use of all
 * entities adds up to the time in which the device was busy. The charge (charge.c) differs: it is
 * what a policy counts, and includes the pauses in which an entity keeps the device from others.
 *
 * If the core hears of every edge, it knows which entity occupied the device and when. If it does
 * not, because one entity is alone or all run as they like, it has the clients' own measures. It is
 * not known when these overlap, so they are taken to be independent of each other.
 */
#include "core.h"

/* How much measured time that did not fit into the wall time is carried on: reports come in lumps.
 */
#define CARRY_MAX (100 * FM_MS)

/* While all entities run, events settle all of them at most this often. */
#define ALL_EVERY (100 * FM_MS)

/* Nodes and weights of an integral from 0 to 1, exact for polynomials up to the degree 15. */
#define NODES 8
static const double node[NODES] = {0.0198550717512319, 0.1016667612931866, 0.2372337950418355,
	0.4082826787521751, 0.5917173212478249, 0.7627662049581645, 0.8983332387068134,
	0.9801449282487681};
static const double weight[NODES] = {0.0506142681451880, 0.1111905172266872, 0.1568533229389437,
	0.1813418916891810, 0.1813418916891810, 0.1568533229389437, 0.1111905172266872,
	0.0506142681451880};

static uint64_t measure(const struct fm_sched_ent *e, uint64_t t)
{
	const struct fm_sched *s = e->d->s;

	return s->host.usage ? s->host.usage(s->ctx, e->data, t) : t;
}

void fm_use_begin(struct fm_sched_ent *e, uint64_t t)
{
	if (!e->d->all)
		e->use_seen = FM_MAX(e->use_seen, measure(e, t));
}

/* How much of the last `most` ns the entity used by its own measure. */
static uint64_t take_measured(struct fm_sched_ent *e, uint64_t t, uint64_t most)
{
	uint64_t used = measure(e, t);
	uint64_t ns = FM_MIN(fm_sub_sat(used, e->use_seen), most);

	if (e->g->suspended || !e->gate_open) {
		e->use_seen = FM_MAX(e->use_seen, used);
		return 0;
	}
	e->use_seen = FM_MAX(e->use_seen + ns, fm_sub_sat(used, CARRY_MAX));
	return ns;
}

/* Each entity was at work for a part p of the time. Its average share while it is at work is the
 * integral over x from 0 to 1 of the product of 1 - p + p x over the other entities. */
static void share_out(struct fm_sched_dev *d, uint64_t most)
{
	double all[NODES], idle = 1, sum = 0;
	struct fm_sched_ent *e;

	for (unsigned k = 0; k < NODES; k++)
		all[k] = weight[k];
	fm_list_each (e, &d->ents, in_dev) {
		idle *= 1 - e->use_part;
		for (unsigned k = 0; k < NODES; k++)
			all[k] *= 1 - e->use_part + e->use_part * node[k];
	}
	fm_list_each (e, &d->ents, in_dev) {
		double part = 0;

		for (unsigned k = 0; k < NODES; k++)
			part += all[k] / (1 - e->use_part + e->use_part * node[k]);
		e->use_part *= part;
		sum += e->use_part;
	}
	if (sum <= 0)
		return;
	fm_list_each (e, &d->ents, in_dev)
		e->used_ns += (uint64_t)(e->use_part / sum * (1 - idle) * (double)most);
}

static void use_all(struct fm_sched_dev *d, uint64_t t, uint64_t most)
{
	struct fm_sched_ent *e;

	fm_list_each (e, &d->ents, in_dev)
		e->use_part = (double)take_measured(e, t, most) / (double)most;
	share_out(d, most);
}

static void use_alone(struct fm_sched_dev *d, uint64_t t, uint64_t most)
{
	struct fm_sched_ent *e;

	if (d->n_ents == 1) {
		e = fm_list_first(&d->ents, struct fm_sched_ent, in_dev);
		e->used_ns += take_measured(e, t, most);
		return;
	}
	fm_list_each (e, &d->active, active)
		if (e->work)
			e->used_ns += take_measured(e, t, most);
}

/* Until when the entity occupies the device; 0: it does not. */
static uint64_t use_end(const struct fm_sched_ent *e, uint64_t t)
{
	if (!e->work || (e->draining && e->stuck))
		return 0;
	return e->draining ? FM_MIN(e->rest_at, t) : t;
}

/* The entities that occupy the device at a time, and which of them have the turn. */
struct who {
	unsigned drain, run;
	uint64_t since; /* when the last of the draining ones was stopped */
	bool drainers, runners;
};

static bool has(const struct fm_sched_ent *e, const struct who *w, uint64_t at, uint64_t t)
{
	return use_end(e, t) > at && (e->draining ? w->drainers : w->runners);
}

/* A draining entity keeps the device from the one that was let in meanwhile. If the device has
 * turns, it does so only for the rest of its turn, taken to be half of one, and then they
 * alternate. Several entities of either kind share the device evenly. Returns until when this holds
 * at most. */
static uint64_t whose_turn(const struct fm_sched_dev *d, struct who *w, uint64_t at, uint64_t t)
{
	uint64_t turn = d->s->turns, begin, n;
	bool even = d->n_run > 1 || (w->drain > 1 && turn != FM_NEVER);

	w->drainers = w->runners = true;
	if (!w->drain || !w->run || even)
		return t;
	begin = fm_add_sat(w->since, turn / 2);
	if (at < begin) {
		w->runners = false;
		return FM_MIN(begin, t);
	}
	n = (at - begin) / turn;
	w->runners = !(n & 1);
	w->drainers = !w->runners;
	return FM_MIN(begin + (n + 1) * turn, t);
}

/* Attributes the time until the device next changes hands, and returns when that is. */
static uint64_t use_stretch(struct fm_sched_dev *d, uint64_t from, uint64_t t)
{
	uint64_t to = t, each, rest;
	struct who w = {0};
	struct fm_sched_ent *e;
	unsigned n = 0;

	fm_list_each (e, &d->active, active) {
		if (use_end(e, t) <= from)
			continue;
		w.drain += e->draining;
		w.run += !e->draining;
		w.since = e->draining ? FM_MAX(w.since, e->closed_at) : w.since;
		to = FM_MIN(to, use_end(e, t));
	}
	to = whose_turn(d, &w, from, to);
	fm_list_each (e, &d->active, active)
		n += has(e, &w, from, t);
	if (!n)
		return to;
	each = (to - from) / n;
	rest = (to - from) % n;
	fm_list_each (e, &d->active, active) {
		if (!has(e, &w, from, t))
			continue;
		e->used_ns += each + (rest ? 1 : 0);
		rest -= rest ? 1 : 0;
	}
	return to;
}

static void use_by_edges(struct fm_sched_dev *d, uint64_t t)
{
	struct fm_sched_ent *e;

	for (uint64_t from = d->used_to; from < t;)
		from = use_stretch(d, from, t);
	fm_list_each (e, &d->active, active)
		e->use_seen = FM_MAX(e->use_seen, measure(e, t));
}

void fm_use_settle(struct fm_sched_dev *d, uint64_t t)
{
	uint64_t most = fm_sub_sat(t, d->used_to);

	if (!most)
		return;
	if (d->all)
		use_all(d, t, most);
	else if (!d->n_draining && (d->n_ready <= 1 || d->n_ents == 1))
		use_alone(d, t, most);
	else
		use_by_edges(d, t);
	d->used_to = t;
}

void fm_use_now_and_then(struct fm_sched_dev *d, uint64_t t)
{
	if (fm_sub_sat(t, d->used_to) >= ALL_EVERY)
		fm_use_settle(d, t);
}

uint64_t fm_sched_ent_used(struct fm_sched_ent *e, uint64_t now)
{
	struct fm_sched_dev *d = e->d;

	if (d->n_draining)
		fm_core_look_for_rest(d, fm_core_now(d->s, now));
	fm_use_settle(d, fm_core_now(d->s, now));
	return e->used_ns;
}
