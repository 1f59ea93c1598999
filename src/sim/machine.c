/* SPDX-License-Identifier: Apache-2.0 */
/* The events of a machine, in order, and the link between its programs and the core. */
#include "base/cleanup.h"
#include "internal.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_EVERY 65536                /* events between two looks at the control */
#define TURNS      UINT64_C(0x7475726e) /* so that devices draw nothing that groups draw */

static void on_gate(void *ctx, void *data, bool open, const char *reason, uint64_t now)
{
	const struct machine *m = ctx;
	struct ent *e = data;

	if (!open && FM_UNLIKELY(m->wants))
		e->closed_for = watch_chosen(e);
	note_ent(e, open ? FM_SIM_OPENS : FM_SIM_CLOSES, 0, reason);
	device_gate(e, open);
}

static bool on_stalled(void *ctx, void *data, uint64_t *since)
{
	const struct ent *e = data;

	if (device_holds(e))
		return false;
	*since = FM_MAX(e->off_at, e->closed_at);
	return true;
}

static uint64_t on_usage(void *ctx, void *data, uint64_t now)
{
	return device_usage(data);
}

static void on_rested(void *ctx, void *data, uint64_t took, uint64_t rested)
{
	const struct machine *m = ctx;
	const struct ent *e = data;

	if (m->counts)
		fm_hist_add(&e->d->result->stop, took);
	if (watched(m, FM_SIM_RESTS))
		watch_ent(e, FM_SIM_RESTS, rested, took, NULL);
}

static struct device *device_of(struct machine *m, const struct fm_sched_dev *sdev)
{
	return &m->device[strtoul(fm_sched_dev_key(sdev), NULL, 10) -
			  m->first]; /* that is its key */
}

static void on_decided(void *ctx, const struct fm_sched_dev *sdev, uint64_t now)
{
	struct machine *m = ctx;

	if (m->plan->forecast)
		forecast_decided(device_of(m, sdev));
	if (m->memory)
		memory_stale(device_of(m, sdev));
	if (watched(m, FM_SIM_DECIDED))
		watch_decision(m, sdev);
}

static const struct fm_sched_host host = {
	.gate = on_gate,
	.stalled = on_stalled,
	.usage = on_usage,
	.rested = on_rested,
};

static const struct fm_sched_host host_of_decisions = {
	.gate = on_gate,
	.stalled = on_stalled,
	.usage = on_usage,
	.rested = on_rested,
	.decided = on_decided,
};

void machine_edge(struct ent *e)
{
	if (has_work(e) != e->reported && fm_list_empty(&e->edge))
		fm_list_add_tail(&e->g->m->edges, &e->edge);
}

static void report(struct ent *e, uint64_t when)
{
	struct machine *m = e->g->m;
	bool work = has_work(e);

	if (work == e->reported)
		return;
	e->reported = work;
	forecast_over(e->g);
	note_ent(e, work ? FM_SIM_READY : FM_SIM_IDLE, 0, NULL);
	if (work)
		fm_sched_ready(m->s, e->sent, when, m->now);
	else
		fm_sched_idle(m->s, e->sent, when, m->now);
}

static void tell_edges(struct machine *m)
{
	uint64_t react = m->plan->react;
	struct ent *e;

	while (!fm_list_empty(&m->edges)) {
		e = fm_list_first(&m->edges, struct ent, edge);
		fm_list_del(&e->edge);
		if (!react) {
			report(e, m->now);
		} else if (has_work(e) != e->reported && !fm_heap_has(&e->report.node)) {
			e->edge_at = m->now;
			at(m, &e->report, m->now + react);
		}
	}
}

static void group_event(struct machine *m, struct group *g)
{
	int rc;

	if (g->sgroup) {
		jobs_arrival(g);
		return;
	}
	rc = jobs_join(g);
	m->rc = rc ? rc : m->rc;
}

static void dispatch(struct machine *m, struct event *ev)
{
	switch (ev->kind) {
	case EV_GROUP:
		group_event(m, fm_container(ev, struct group, timer));
		break;
	case EV_CHANGE:
		jobs_change(fm_container(ev, struct group, change));
		break;
	case EV_LEAVE:
		jobs_leave(fm_container(ev, struct group, leave));
		break;
	case EV_TIMER: {
		struct ent *e = fm_container(ev, struct ent, timer);

		if (e->state == ON)
			device_event(e);
		else if (e->state == COMPUTES)
			cpu_event(e);
		else if (e->state == WAITS)
			device_goes_on(e);
		else
			jobs_resume(e);
		break;
	}
	case EV_REPORT: {
		struct ent *e = fm_container(ev, struct ent, report);

		report(e, e->edge_at);
		break;
	}
	case EV_COUNT:
		count_begin(m);
		break;
	case EV_CAME:
	case EV_WENT:
	case EV_PLAN:
		memory_event(m, ev);
		break;
	}
}

static uint64_t next_wish(const struct machine *m)
{
	return fm_add_sat(fm_sched_next(m->s), m->plan->late);
}

/* Handles one moment: first the events, then what the core wants at that time. */
static void step(struct machine *m)
{
	struct fm_heap_node *n = fm_heap_min(&m->queue);
	uint64_t wish = next_wish(m);

	m->events++;
	if (!n || wish < n->key) {
		m->now = FM_MAX(m->now, wish);
		fm_sched_tick(m->s, m->now);
	} else {
		m->now = n->key;
		fm_heap_del(&m->queue, n);
		dispatch(m, fm_container(n, struct event, node));
	}
	tell_edges(m);
	if (m->memory)
		memory_step(m);
}

static uint64_t next_time(const struct machine *m)
{
	const struct fm_heap_node *n = fm_heap_min(&m->queue);

	return FM_MIN(n ? n->key : FM_NEVER, next_wish(m));
}

static void progress(struct machine *m, struct fm_sim_control *c, uint64_t *told)
{
	uint64_t us = (m->now - *told) / FM_US;

	*told += us * FM_US;
	if (c)
		atomic_fetch_add_explicit(&c->done_us, us * m->devices, memory_order_relaxed);
}

static int simulate(struct machine *m, struct fm_sim_control *c)
{
	uint64_t end = m->plan->duration, told = 0, look = LOOK_EVERY;

	while (!m->rc && next_time(m) < end) {
		step(m);
		if (m->events < look)
			continue;
		look += LOOK_EVERY;
		progress(m, c, &told);
		if (c && atomic_load_explicit(&c->stop, memory_order_relaxed))
			return -EINTR;
	}
	m->now = end;
	progress(m, c, &told);
	return m->rc;
}

static void free_machine(struct machine *m)
{
	fm_sched_free(m->s);
	fm_heap_fini(&m->queue);
	for (uint32_t i = 0; m->group && i < m->groups; i++) {
		free(m->group[i].queue);
		free(m->group[i].followed);
	}
	cpu_free(m);
	memory_free(m);
	free(m->group);
	free(m->device);
	free(m->ent);
}

static int make_devices(struct machine *m)
{
	const struct fm_sim_plan *p = m->plan;
	char key[32];
	int rc = 0;

	for (uint32_t i = 0; i < m->devices && !rc; i++) {
		struct device *d = &m->device[i];
		uint32_t which, section = fm_sim_device_at(p, m->first + i, &which);

		d->m = m;
		d->plan = &p->device[section];
		d->result = &m->result->device[section];
		d->index = m->first + i;
		fm_list_init(&d->queue);
		fm_list_init(&d->away);
		if (fm_sim_takes_time(&d->plan->slice))
			fm_sched_turns(m->s, d->plan->slice.a);
		fm_rta_seed(&d->r, p->seed ^ TURNS, (uint64_t)m->index << 32 | d->index);
		if (d->plan->tick)
			d->phase = (uint64_t)fm_rta_uniform(&d->r, 0, (int64_t)d->plan->tick - 1);
		snprintf(key, sizeof(key), "%u", d->index);
		rc = fm_sched_device_add(m->s, &d->sdev, key);
	}
	return rc;
}

static void init_ent(struct ent *e, struct group *g, struct device *d, uint64_t stream)
{
	e->g = g;
	e->d = d;
	e->timer.kind = EV_TIMER;
	e->report.kind = EV_REPORT;
	fm_list_init(&e->queue);
	fm_list_init(&e->away);
	fm_list_init(&e->edge);
	fm_rta_seed(&e->r, g->m->plan->seed, stream);
}

/* Each group and each entity has its own random numbers, so that a program does the same whatever
 * the policy and the other groups are. number: counted over the whole machine. */
static void init_group(struct group *g, uint32_t section, uint32_t instance, uint32_t number)
{
	struct machine *m = g->m;
	const struct fm_sim_group *plan = &m->plan->group[section];
	uint64_t stream = (uint64_t)m->index << 32 | number;

	g->plan = plan;
	g->result = &m->result->group[section];
	g->section = section;
	g->instance = instance;
	g->timer.kind = EV_GROUP;
	g->leave.kind = EV_LEAVE;
	g->change.kind = EV_CHANGE;
	g->ent = &m->ent[m->ents];
	g->ents = plan->everywhere ? fm_sim_places(m->plan, plan) : 1;
	m->ents += g->ents;
	fm_rta_seed(&g->r, m->plan->seed, ~stream);
	for (uint32_t k = 0; k < g->ents; k++)
		init_ent(&g->ent[k], g,
			&m->device[fm_sim_place(m->plan, plan, instance + k) - m->first],
			stream + ((uint64_t)(k + 1) << 56));
	g->result->instances++;
}

/* The instances of a group that are simulated here: *first, and then every n-th. Returns n. */
static uint32_t instances(const struct machine *m, const struct fm_sim_group *g, uint32_t *first)
{
	*first = 0;
	if (m->whole)
		return 1;
	*first = fm_sim_offset(m->plan, g, m->first);
	return *first == UINT32_MAX ? 1 : fm_sim_places(m->plan, g);
}

static void count_members(const struct machine *m, size_t *groups, size_t *ents)
{
	const struct fm_sim_plan *p = m->plan;

	*groups = *ents = 0;
	for (uint32_t s = 0; s < p->groups; s++) {
		const struct fm_sim_group *g = &p->group[s];
		uint32_t first, every = instances(m, g, &first);
		size_t n = first < g->count ? (g->count - first - 1) / every + 1 : 0;

		*groups += n;
		*ents += n * (g->everywhere ? fm_sim_places(p, g) : 1);
	}
}

static int make_groups(struct machine *m)
{
	const struct fm_sim_plan *p = m->plan;
	uint32_t number = 0;

	for (uint32_t s = 0; s < p->groups; number += p->group[s++].count) {
		const struct fm_sim_group *plan = &p->group[s];
		uint32_t i, every = instances(m, plan, &i);

		m->follows |= plan->arrival == FM_SIM_AFTER;
		for (; i < plan->count; i += every) {
			struct group *g = &m->group[m->groups++];

			g->m = m;
			init_group(g, s, i, number + i);
			g->followed =
				plan->befores ? calloc(plan->befores, sizeof(*g->followed)) : NULL;
			if (plan->befores && !g->followed)
				return -ENOMEM;
			if (plan->start < p->duration)
				at(m, &g->timer, plan->start);
		}
	}
	return 0;
}

static bool tells_users_apart(const struct fm_sim_plan *p)
{
	for (uint32_t i = 0; i < p->groups; i++)
		if (p->group[i].user)
			return true;
	return false;
}

static int make(struct machine *m, struct fm_err *err)
{
	const struct fm_sim_plan *p = m->plan;
	size_t groups, ents;
	bool decided;
	int rc;

	count_members(m, &groups, &ents);
	m->device = calloc(m->devices + 1, sizeof(*m->device));
	m->group = calloc(groups + 1, sizeof(*m->group));
	m->ent = calloc(ents + 1, sizeof(*m->ent));
	fm_list_init(&m->edges);
	if (!m->device || !m->group || !m->ent)
		return -ENOMEM;
	rc = fm_heap_reserve(&m->queue, 3 * (groups + ents + m->devices) + 1);
	decided = p->forecast || p->memory.policy || watched(m, FM_SIM_DECIDED);
	rc = rc ? rc : fm_sched_new(&m->s, decided ? &host_of_decisions : &host, m);
	if (rc)
		return rc;
	fm_sched_linger(m->s, p->linger);
	fm_sched_fair_by(m->s, tells_users_apart(p));
	rc = make_devices(m);
	if (!rc)
		watch_begin(m);
	rc = rc ? rc : fm_sched_use(m->s, p->policy, p->params, p->n_params, 0, err);
	rc = rc ? rc : make_groups(m);
	rc = rc ? rc : cpu_make(m);
	rc = rc ? rc : memory_make(m);
	m->count.kind = EV_COUNT;
	if (!rc && p->warmup)
		at(m, &m->count, p->warmup);
	else if (!rc)
		count_begin(m);
	return rc;
}

static int run_machine(struct machine *m, struct fm_sim_control *control, struct fm_err *err)
{
	struct fm_err own = {0};
	int rc;

	m->wants = m->watch ? m->watch->wants : 0;
	rc = make(m, &own);

	rc = rc ? rc : simulate(m, control);
	if (!rc)
		count_end(m);
	if (!rc && m->wants)
		watch_end(m);
	free_machine(m);
	if (!rc)
		return 0;
	if (!own.code)
		fm_err_set(&own, rc, "the simulation: %s", strerror(-rc));
	if (err)
		*err = own;
	return rc;
}

int fm_sim_machine(const struct fm_sim_plan *p, uint32_t machine, const struct fm_sim_watch *watch,
	struct fm_sim_control *control, struct fm_sim_result *r, struct fm_err *err)
{
	struct machine m = {.plan = p,
		.watch = watch,
		.result = r,
		.index = machine,
		.whole = true,
		.devices = fm_sim_devices(p)};

	return run_machine(&m, control, err);
}

int fm_sim_island(const struct fm_sim_plan *p, uint32_t machine, uint32_t device,
	const struct fm_sim_watch *watch, struct fm_sim_control *control, struct fm_sim_result *r,
	struct fm_err *err)
{
	struct machine m = {.plan = p,
		.watch = watch,
		.result = r,
		.index = machine,
		.first = device,
		.devices = 1};

	return run_machine(&m, control, err);
}
