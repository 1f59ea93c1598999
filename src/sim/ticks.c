/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns on a device that looks at ticks who has it, as Linux shares a processor since 6.6 (EEVDF).
 * Who is there asks for a slice, to be had by a deadline: what he has had, and the slice. Of those
 * who have had no more than the average, whoever has the earliest deadline is next. Who has it
 * keeps it until what he asked for then is used up, and until a tick, or until somebody else comes.
 * Who leaves the device before he had his share, has that much less when he comes again.
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

/* What those have had on the average who are there; *n counts them. */
static uint64_t average(const struct device *d, uint64_t *n)
{
	const struct ent *e;
	unsigned __int128 sum = 0;

	*n = 0;
	fm_list_each (e, &d->queue, queue) {
		sum += e->had;
		++*n;
	}
	if (d->running) {
		sum += had(d->running);
		++*n;
	}
	return *n ? (uint64_t)(sum / *n) : d->average;
}

static const struct ent *sooner(const struct ent *a, const struct ent *b)
{
	return !a || b->deadline < a->deadline ? b : a;
}

struct ent *ticks_next(struct device *d)
{
	const struct ent *e, *best = NULL, *least = NULL;
	uint64_t n, mean = average(d, &n);

	fm_list_each (e, &d->queue, queue) {
		if (!least || e->had < least->had)
			least = e;
		if (e->had <= mean)
			best = sooner(best, e);
	}
	if (d->running && had(d->running) <= mean)
		best = sooner(best, d->running);
	return (struct ent *)(best ? best : least);
}

/* The first tick from then on. */
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

/* Who has it may have used up what he asked for: then he asks for more. */
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
}

void ticks_come(struct ent *e)
{
	struct device *d = e->d;
	uint64_t n;

	d->average = average(d, &n);
	if (e->owed && n)
		e->had = fm_sub_sat(d->average, e->owed * (n + 1) / n);
	else
		e->had = FM_MAX(e->had, d->average);
	e->owed = 0;
	e->deadline = e->had + slice_of(e);
}

bool ticks_push_off(struct ent *on)
{
	uint64_t n;

	if (had(on) < on->keeps && had(on) <= average(on->d, &n))
		return false;
	ask_again(on);
	return ticks_next(on->d) != on;
}
