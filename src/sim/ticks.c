/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns on a device that checks at ticks which entity has it, as Linux shares a processor
 * since 6.12 (EEVDF). Each entity asks for a slice. Its deadline is the device time that it has
 * had, plus the slice. Of the entities that have had no more than the average, the one with the
 * earliest deadline is next.
 *
 * The running entity keeps the device until it has used what it asked for, and from then until the
 * next tick. An entity that comes and is next takes the device earlier, but not while the running
 * one has slice left and has had no more than the average.
 *
 * An entity that leaves the device before it had its share comes back with that much less. An
 * entity that leaves after it had more counts as there until its turn comes.
 */
#include "internal.h"

static uint64_t slice_of(const struct ent *e)
{
	return FM_MAX(fm_sim_draw(&e->d->plan->slice, &e->d->r), FM_SIM_COMMAND);
}

static uint64_t had(const struct ent *e)
{
	uint64_t served, overhead;

	device_progress(e, &served, &overhead);
	return e->had + served + overhead;
}

static void add(const struct ent *e, unsigned __int128 *sum, uint64_t *n)
{
	*sum += had(e);
	++*n;
}

/* What the entities that count as there have had on average. *n is their number. */
static uint64_t average(const struct device *d, uint64_t *n)
{
	const struct ent *e;
	unsigned __int128 sum = 0;

	*n = 0;
	fm_list_each (e, &d->queue, queue)
		add(e, &sum, n);
	fm_list_each (e, &d->away, away)
		add(e, &sum, n);
	if (d->running)
		add(d->running, &sum, n);
	return *n ? (uint64_t)(sum / *n) : d->average;
}

struct pick {
	const struct ent *best, *least;
	uint64_t mean;
};

static void consider(struct pick *p, const struct ent *e)
{
	if (!p->least || had(e) < had(p->least))
		p->least = e;
	if (had(e) <= p->mean && (!p->best || e->deadline < p->best->deadline))
		p->best = e;
}

/* Picks the next of all entities that count as there. */
static struct ent *pick(const struct device *d)
{
	struct pick p = {0};
	const struct ent *e;
	uint64_t n;

	p.mean = average(d, &n);
	fm_list_each (e, &d->queue, queue)
		consider(&p, e);
	fm_list_each (e, &d->away, away)
		consider(&p, e);
	if (d->running)
		consider(&p, d->running);
	return (struct ent *)(p.best ? p.best : p.least);
}

struct ent *ticks_next(struct device *d)
{
	struct ent *e;

	while ((e = pick(d)) && !fm_list_empty(&e->away))
		fm_list_del(&e->away);
	return e;
}

/* The first tick at or after `when'. */
static uint64_t tick_from(const struct device *d, uint64_t when)
{
	uint64_t tick = d->plan->tick, past = (when + tick - d->phase) % tick;

	return past ? fm_add_sat(when, tick - past) : when;
}

void ticks_begin(struct ent *e)
{
	e->keeps = e->deadline;
	e->turn_end = tick_from(e->d, fm_add_sat(e->d->m->now, fm_sub_sat(e->keeps, e->had)));
}

/* If the entity has used what it asked for, it asks for more. */
static void ask_again(struct ent *e)
{
	if (had(e) >= e->deadline)
		e->deadline = had(e) + slice_of(e);
}

bool ticks_goes_on(struct ent *e)
{
	ask_again(e);
	if (ticks_next(e->d) != e)
		return false;
	e->turn_end = tick_from(e->d, fm_add_sat(e->d->m->now, FM_SIM_COMMAND));
	return true;
}

void ticks_leave(struct ent *e)
{
	uint64_t n, mean = average(e->d, &n),
		    most = 2 * FM_MAX(e->d->plan->slice.a, e->d->plan->tick / 2);

	e->owed = FM_MIN(fm_sub_sat(mean, had(e)), most);
	if (had(e) > mean)
		fm_list_add_tail(&e->d->away, &e->away);
}

/* The entity left, but counted as there until now. If it has had its share, it goes on as it is. */
static bool comes_back(struct ent *e)
{
	uint64_t n;
	bool stays;

	if (fm_list_empty(&e->away))
		return false;
	stays = had(e) >= average(e->d, &n);
	fm_list_del(&e->away);
	return stays;
}

void ticks_come(struct ent *e)
{
	struct device *d = e->d;
	uint64_t n;

	if (comes_back(e))
		return;
	d->average = average(d, &n);
	if (n)
		e->had = fm_sub_sat(d->average, e->owed * (n + 1) / n);
	else
		e->had = FM_MAX(e->had, d->average);
	e->owed = 0;
	e->deadline = e->had + slice_of(e);
}

bool ticks_push_off(struct ent *on, const struct ent *e)
{
	uint64_t n, mean = average(on->d, &n);
	bool keeps = had(on) < on->keeps;

	if (keeps && had(on) <= mean)
		return false;
	ask_again(on);
	if (!keeps && n > 2)
		return ticks_next(on->d) != on;
	return pick(on->d) == e;
}
