/* SPDX-License-Identifier: Apache-2.0 */
/* Reports a machine's events to its watcher. */
#include "internal.h"
#include <stdlib.h>

static void tell(const struct machine *m, struct fm_sim_event *e)
{
	e->machine = m->index;
	m->watch->event(m->watch->ctx, e);
}

static struct fm_sim_event about(const struct group *g, enum fm_sim_what what, uint64_t at)
{
	return (struct fm_sim_event){
		.what = what,
		.at = at,
		.group = g ? g->section : FM_SIM_NOBODY,
		.instance = g ? g->instance : 0,
		.device = FM_SIM_NO_DEVICE,
		.cause = FM_SIM_NOBODY,
	};
}

void watch_group(const struct group *g, enum fm_sim_what what, uint64_t ns)
{
	struct fm_sim_event e = about(g, what, g->m->now);

	e.ns = ns;
	e.deadline = what == FM_SIM_ENDS ? g->deadline : 0;
	tell(g->m, &e);
}

void watch_hint(const struct group *g, enum fm_hint hint, int64_t value)
{
	struct fm_sim_event e = about(g, FM_SIM_HINTED, g->m->now);

	e.nth = (uint32_t)hint;
	e.ns = (uint64_t)value;
	tell(g->m, &e);
}

void watch_ent(
	const struct ent *ent, enum fm_sim_what what, uint64_t at, uint64_t ns, const char *reason)
{
	bool caused = what == FM_SIM_CLOSES || what == FM_SIM_RESTS;
	struct fm_sim_event e = about(ent->g, what, at);

	e.ns = ns;
	e.device = ent->d->index;
	e.reason = reason;
	e.sent = ent->sent;
	if (what == FM_SIM_STOPS) {
		e.since = ent->on_at;
		e.nth = ent->nth;
		e.commands = ent->commands;
	}
	if (caused && ent->closed_for && ent->closed_for != ent->g) {
		e.cause = ent->closed_for->section;
		e.cause_instance = ent->closed_for->instance;
	}
	tell(ent->g->m, &e);
}

static const struct group *first_of(const struct fm_sched_dev *sdev)
{
	struct fm_decision c;

	fm_sched_dev_decision(sdev, &c);
	return c.first ? ((const struct ent *)c.first)->g : NULL;
}

const struct group *watch_chosen(const struct ent *e)
{
	return first_of(e->d->sdev);
}

void watch_decision(struct machine *m, const struct fm_sched_dev *sdev)
{
	struct fm_sim_event e = about(first_of(sdev), FM_SIM_DECIDED, m->now);

	e.device = (uint32_t)strtoul(fm_sched_dev_key(sdev), NULL, 10); /* that is its key */
	e.sdev = sdev;
	tell(m, &e);
}

static void tell_devices(const struct machine *m, enum fm_sim_what what)
{
	struct fm_sim_event e = about(NULL, what, m->now);

	for (uint32_t i = 0; i < m->devices && watched(m, what); i++) {
		e.device = m->device[i].index;
		e.sdev = m->device[i].sdev;
		tell(m, &e);
	}
}

void watch_begin(struct machine *m)
{
	tell_devices(m, FM_SIM_THERE);
}

void watch_end(struct machine *m)
{
	struct fm_sim_event over = about(NULL, FM_SIM_OVER, m->now);

	tell_devices(m, FM_SIM_AGED);
	for (uint32_t i = 0; i < m->ents && watched(m, FM_SIM_STAYS); i++)
		if (m->ent[i].g->sgroup)
			watch_ent(&m->ent[i], FM_SIM_STAYS, m->now, device_usage(&m->ent[i]), NULL);
	over.sched = m->s;
	if (watched(m, FM_SIM_OVER))
		tell(m, &over);
}
