/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the results of a simulation. */
#include "internal.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MILLION UINT64_C(1000000)

static void booked(const struct ent *e, uint64_t *served, uint64_t *overhead)
{
	device_progress(e, served, overhead);
	*served += e->served;
	*overhead += e->overhead;
}

static void begin_ent(struct ent *e, uint64_t now)
{
	struct fm_ent_info info;

	fm_sched_ent_info(e->sent, now, &info);
	booked(e, &e->served_before, &e->overhead_before);
	e->counted_from = now;
	e->waits_before = info.ready_wait_ns;
	e->stops_before = info.preemptions;
}

void count_begin(struct machine *m)
{
	m->counts = true;
	fm_sched_get_stats(m->s, &m->stats);
	for (uint32_t i = 0; i < m->devices; i++) {
		struct device *d = &m->device[i];

		d->served_before = d->served;
		d->overhead_before = d->overhead;
		d->switches_before = d->switches;
	}
	for (uint32_t i = 0; i < m->ents; i++) {
		struct ent *e = &m->ent[i];
		uint64_t served, overhead;

		device_progress(e, &served, &overhead);
		e->d->served_before += served;
		e->d->overhead_before += overhead;
		if (e->g->sgroup)
			begin_ent(e, m->now);
	}
	memory_count(m);
}

static void count_ent(const struct ent *e, struct fm_sim_group_result *r)
{
	uint64_t now = e->g->m->now, there = now - e->counted_from, served, overhead, share;
	struct fm_ent_info info;

	fm_sched_ent_info(e->sent, now, &info);
	booked(e, &served, &overhead);
	served -= e->served_before;
	r->served += served;
	r->overhead += overhead - e->overhead_before;
	r->present += there;
	r->waits += info.ready_wait_ns - e->waits_before;
	r->preemptions += info.preemptions - e->stops_before;
	if (e->memory)
		memory_count_ent(e);
	share = there ? (uint64_t)((unsigned __int128)served * MILLION / there) : 0;
	r->share_min = FM_MIN(r->share_min, share);
	r->share_max = FM_MAX(r->share_max, share);
}

void count_group(struct group *g)
{
	if (!g->m->counts)
		return;
	g->result->left += g->waiting + g->has_job;
	for (uint32_t i = 0; i < g->ents; i++)
		count_ent(&g->ent[i], g->result);
}

static void count_device(struct machine *m, struct device *d)
{
	const struct fm_sim_plan *p = m->plan;
	struct fm_sim_device_result *r = d->result;

	r->devices++;
	r->time += (p->duration - p->warmup) * d->plan->slots;
	r->served += d->served - d->served_before;
	r->overhead += d->overhead - d->overhead_before;
	r->switches += d->switches - d->switches_before;
}

static void add_stats(struct fm_sched_stats *to, const struct fm_sched_stats *more)
{
	to->events += more->events;
	to->decisions += more->decisions;
	to->preemptions += more->preemptions;
	to->gate_stores += more->gate_stores;
}

void count_end(struct machine *m)
{
	struct fm_sim_result *r = m->result;
	struct fm_sched_stats stats;

	for (uint32_t i = 0; i < m->groups; i++)
		if (m->group[i].sgroup)
			count_group(&m->group[i]);
	for (uint32_t i = 0; i < m->ents; i++) {
		struct ent *e = &m->ent[i];
		uint64_t served, overhead;

		device_progress(e, &served, &overhead);
		e->d->served += served;
		e->d->overhead += overhead;
	}
	for (uint32_t i = 0; i < m->devices; i++)
		count_device(m, &m->device[i]);
	memory_count_end(m);
	fm_sched_get_stats(m->s, &stats);
	stats.events -= m->stats.events;
	stats.decisions -= m->stats.decisions;
	stats.preemptions -= m->stats.preemptions;
	stats.gate_stores -= m->stats.gate_stores;
	add_stats(&r->core, &stats);
	r->events += m->events;
}

int fm_sim_result_init(struct fm_sim_result *r, const struct fm_sim_plan *p)
{
	*r = (struct fm_sim_result){.groups = p->groups, .devices = p->devices};
	r->group = calloc(p->groups + 1, sizeof(*r->group));
	r->device = calloc(p->devices + 1, sizeof(*r->device));
	if (!r->group || !r->device) {
		fm_sim_result_free(r);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < r->groups; i++) {
		r->group[i].share_min = UINT64_MAX;
		fm_hist_reset(&r->group[i].response);
	}
	for (uint32_t i = 0; i < r->devices; i++)
		fm_hist_reset(&r->device[i].stop);
	return 0;
}

void fm_sim_result_free(struct fm_sim_result *r)
{
	free(r->group);
	free(r->device);
	*r = (struct fm_sim_result){0};
}

static void merge_group(struct fm_sim_group_result *to, const struct fm_sim_group_result *from)
{
	to->instances += from->instances;
	to->arrivals += from->arrivals;
	to->dropped += from->dropped;
	to->jobs += from->jobs;
	to->late += from->late;
	to->served += from->served;
	to->overhead += from->overhead;
	to->present += from->present;
	to->share_min = FM_MIN(to->share_min, from->share_min);
	to->share_max = FM_MAX(to->share_max, from->share_max);
	to->waits += from->waits;
	to->preemptions += from->preemptions;
	to->left += from->left;
	to->moved.in += from->moved.in;
	to->moved.out += from->moved.out;
	to->moved.kept += from->moved.kept;
	to->moved.missed += from->moved.missed;
	to->moved.held += from->moved.held;
	to->moved.longest = FM_MAX(to->moved.longest, from->moved.longest);
	fm_hist_merge(&to->response, &from->response);
}

static void merge_device(struct fm_sim_device_result *to, const struct fm_sim_device_result *from)
{
	to->devices += from->devices;
	to->time += from->time;
	to->served += from->served;
	to->overhead += from->overhead;
	to->switches += from->switches;
	fm_hist_merge(&to->stop, &from->stop);
	to->foretold.turns += from->foretold.turns;
	to->foretold.right += from->foretold.right;
	to->foretold.off += from->foretold.off;
	to->foretold.wrong += from->foretold.wrong;
	to->moved.in += from->moved.in;
	to->moved.out += from->moved.out;
	to->moved.kept += from->moved.kept;
	to->moved.exposed += from->moved.exposed;
	to->moved.hidden += from->moved.hidden;
	to->moved.residue += from->moved.residue;
	to->moved.peak = FM_MAX(to->moved.peak, from->moved.peak);
}

void fm_sim_result_merge(struct fm_sim_result *into, const struct fm_sim_result *from)
{
	into->machines += from->machines;
	into->events += from->events;
	add_stats(&into->core, &from->core);
	for (uint32_t i = 0; i < into->groups; i++)
		merge_group(&into->group[i], &from->group[i]);
	for (uint32_t i = 0; i < into->devices; i++)
		merge_device(&into->device[i], &from->device[i]);
}
