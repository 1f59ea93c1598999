/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps what the events of a simulation show, as they come. */
#include "lab_internal.h"
#include <string.h>

static uint32_t ents_of(const struct fm_sim_group *g)
{
	return g->everywhere ? g->places : 1;
}

void lab_watch_begin(struct lab *l)
{
	memset(l->ent, 0, sizeof(l->ent));
	memset(l->seen, 0, sizeof(l->seen));
	memset(l->apart_since, 0, sizeof(l->apart_since));
	l->shut = l->together = l->both_since = l->apart = 0;
	for (uint32_t i = 0; i < l->plan.devices; i++)
		l->seen[i].slots = l->device[i].slots;
	for (uint32_t i = 0; i < l->plan.groups; i++)
		l->first[i + 1] = l->first[i] + l->group[i].count * ents_of(&l->group[i]);
}

/* A state that lasts no time is in the middle of a decision, and does not count. */
static void pass_time(struct lab_device *d, uint64_t now)
{
	if (now > d->since)
		d->most = FM_MAX(d->most, d->let);
	if (d->on < FM_MIN(d->ready, d->slots))
		d->wasted += now - d->since;
	d->since = now;
}

static void end_hunger(struct lab_ent *e, uint64_t now)
{
	if (e->ready && !e->on)
		e->starved = FM_MAX(e->starved, now - e->hungry);
}

/* In the laboratory's plans a section has one device. */
static struct lab_ent *ent_of(struct lab *l, const struct fm_sim_event *e, uint32_t device)
{
	const struct fm_sim_group *g = &l->group[e->group];
	uint32_t i = l->first[e->group] + e->instance * ents_of(g);

	for (uint32_t k = 0; k < ents_of(g); k++)
		if (g->place[k] == device)
			return i + k < LAB_ENTS ? &l->ent[i + k] : NULL;
	return NULL;
}

static bool is_apart(const struct lab *l, uint32_t group)
{
	uint32_t n = ents_of(&l->group[group]);

	for (uint32_t i = l->first[group]; i < l->first[group + 1]; i += n) {
		uint32_t ready = 0, let = 0;

		for (uint32_t k = i; k < i + n; k++) {
			ready += l->ent[k].ready;
			let += l->ent[k].ready && l->ent[k].open;
		}
		if (let && let < ready)
			return true;
	}
	return false;
}

static void note_apart(struct lab *l, uint32_t group, uint64_t now)
{
	if (!l->group[group].everywhere)
		return;
	if (is_apart(l, group))
		l->apart += now - l->apart_since[group];
	l->apart_since[group] = now;
}

static bool on_device(const struct lab *l, unsigned group)
{
	for (uint32_t i = l->first[group]; i < l->first[group + 1]; i++)
		if (l->ent[i].on)
			return true;
	return false;
}

static void note_both(struct lab *l, uint64_t now)
{
	if (l->a == l->b || l->plan.groups <= FM_MAX(l->a, l->b))
		return;
	if (on_device(l, l->a) && on_device(l, l->b))
		l->together += now - l->both_since;
	l->both_since = now;
}

static void change(struct lab_device *d, struct lab_ent *e, const struct fm_sim_event *ev)
{
	d->ready -= e->ready;
	d->on -= e->on;
	d->let -= e->ready && e->open;
	switch (ev->what) {
	case FM_SIM_READY:
	case FM_SIM_IDLE:
		e->ready = ev->what == FM_SIM_READY;
		e->hungry = ev->at;
		break;
	case FM_SIM_OPENS:
	case FM_SIM_CLOSES:
		e->open = ev->what == FM_SIM_OPENS;
		break;
	case FM_SIM_RUNS:
	case FM_SIM_STOPS:
		e->on = ev->what == FM_SIM_RUNS;
		e->hungry = ev->at;
		break;
	case FM_SIM_LEAVES:
		e->ready = e->open = e->on = false;
		break;
	default:
		break;
	}
	d->ready += e->ready;
	d->on += e->on;
	d->let += e->ready && e->open;
}

static void on_device_event(struct lab *l, const struct fm_sim_event *ev, uint32_t device)
{
	struct lab_ent *e = ent_of(l, ev, device);

	if (!e || device >= LAB_DEVICES)
		return;
	l->shut += ev->what == FM_SIM_CLOSES && e->ready;
	note_both(l, ev->at);
	note_apart(l, ev->group, ev->at);
	pass_time(&l->seen[device], ev->at);
	end_hunger(e, ev->at);
	change(&l->seen[device], e, ev);
}

void lab_watch(void *ctx, const struct fm_sim_event *ev)
{
	struct lab *l = ctx;

	if (ev->what != FM_SIM_LEAVES) {
		on_device_event(l, ev, ev->device);
		return;
	}
	for (uint32_t k = 0; k < ents_of(&l->group[ev->group]); k++)
		on_device_event(l, ev, l->group[ev->group].place[k]);
}

void lab_watch_end(struct lab *l)
{
	uint64_t now = l->plan.duration;

	note_both(l, now);
	for (uint32_t i = 0; i < l->plan.groups; i++)
		note_apart(l, i, now);
	for (unsigned i = 0; i < LAB_DEVICES; i++)
		pass_time(&l->seen[i], now);
	for (unsigned i = 0; i < LAB_ENTS; i++)
		end_hunger(&l->ent[i], now);
}

uint64_t lab_starved(const struct lab *l, uint32_t group)
{
	uint64_t most = 0;

	for (uint32_t i = l->first[group]; i < l->first[group + 1] && i < LAB_ENTS; i++)
		most = FM_MAX(most, l->ent[i].starved);
	return most;
}
