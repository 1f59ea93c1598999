/* SPDX-License-Identifier: Apache-2.0 */
/* The events of a machine, in order, and what stands between its programs and the core. */
#include "base/cleanup.h"
#include "internal.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_EVERY 65536 /* events between two looks at the control */

static void on_gate(void *ctx, void *data, bool open, const char *reason, uint64_t now)
{
	struct machine *m = ctx;
	struct ent *e = data;

	note(m, open ? FM_SIM_OPENS : FM_SIM_CLOSES, e->g, e->d, 0, reason);
	device_gate(e, open);
}

static bool on_stalled(void *ctx, void *data, uint64_t *since)
{
	const struct ent *e = data;

	if (e->state == ON)
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
}

static const struct fm_sched_host host = {
	.gate = on_gate,
	.stalled = on_stalled,
	.usage = on_usage,
	.rested = on_rested,
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
	note(m, work ? FM_SIM_READY : FM_SIM_IDLE, e->g, e->d, 0, NULL);
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
	case EV_LEAVE:
		jobs_leave(fm_container(ev, struct group, leave));
		break;
	case EV_TIMER: {
		struct ent *e = fm_container(ev, struct ent, timer);

		if (e->state == ON)
			device_event(e);
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
	}
}

/* What happens at one moment: first what happens, then what the core wants at that time. */
static void step(struct machine *m)
{
	struct fm_heap_node *n = fm_heap_min(&m->queue);
	uint64_t wish = fm_sched_next(m->s);

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
}

static uint64_t next_time(const struct machine *m)
{
	const struct fm_heap_node *n = fm_heap_min(&m->queue);

	return FM_MIN(n ? n->key : FM_NEVER, fm_sched_next(m->s));
}

static void progress(struct fm_sim_control *c, uint64_t *told, uint64_t now)
{
	if (!c)
		return;
	atomic_fetch_add_explicit(&c->done_us, (now - *told) / FM_US, memory_order_relaxed);
	*told += (now - *told) / FM_US * FM_US;
}

static int simulate(struct machine *m, struct fm_sim_control *c)
{
	uint64_t end = m->plan->duration, told = 0, look = LOOK_EVERY;

	while (!m->rc && next_time(m) < end) {
		step(m);
		if (m->events < look)
			continue;
		look += LOOK_EVERY;
		progress(c, &told, m->now);
		if (c && atomic_load_explicit(&c->stop, memory_order_relaxed))
			return -EINTR;
	}
	m->now = end;
	progress(c, &told, end);
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
		uint32_t which, section = fm_sim_device_at(p, i, &which);

		d->m = m;
		d->plan = &p->device[section];
		d->result = &m->result->device[section];
		d->index = i;
		fm_list_init(&d->queue);
		snprintf(key, sizeof(key), "%u", i);
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
	fm_list_init(&e->edge);
	fm_rta_seed(&e->r, g->m->plan->seed, stream);
}

/* Every group and each of its entities has random numbers of its own, so that what a program does
 * is the same whatever the policy, and whatever the others are. */
static uint32_t init_group(struct group *g, uint32_t section, uint32_t instance, uint32_t ents)
{
	struct machine *m = g->m;
	const struct fm_sim_group *plan = &m->plan->group[section];
	uint64_t stream = (uint64_t)m->index << 32 | (uint64_t)(g - m->group);
	uint32_t n = plan->everywhere ? fm_sim_places(m->plan, plan) : 1;

	g->plan = plan;
	g->result = &m->result->group[section];
	g->section = section;
	g->instance = instance;
	g->timer.kind = EV_GROUP;
	g->leave.kind = EV_LEAVE;
	g->ent = &m->ent[ents];
	fm_rta_seed(&g->r, m->plan->seed, ~stream);
	for (uint32_t k = 0; k < n; k++)
		init_ent(&g->ent[k], g, &m->device[fm_sim_place(m->plan, plan, instance + k)],
			stream + ((uint64_t)(k + 1) << 56));
	return g->ents = n;
}

static int make_groups(struct machine *m)
{
	const struct fm_sim_plan *p = m->plan;
	uint32_t ents = 0, n = 0;

	for (uint32_t s = 0; s < p->groups; s++) {
		const struct fm_sim_group *plan = &p->group[s];

		m->follows |= plan->arrival == FM_SIM_AFTER;
		for (uint32_t i = 0; i < plan->count; i++, n++) {
			struct group *g = &m->group[n];

			g->m = m;
			ents += init_group(g, s, i, ents);
			g->result->instances++;
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

static int make(struct machine *m, struct fm_err *err)
{
	const struct fm_sim_plan *p = m->plan;
	int rc;

	m->devices = fm_sim_devices(p);
	m->groups = fm_sim_groups(p, &m->ents);
	m->device = calloc(m->devices + 1, sizeof(*m->device));
	m->group = calloc(m->groups + 1, sizeof(*m->group));
	m->ent = calloc(m->ents + 1, sizeof(*m->ent));
	fm_list_init(&m->edges);
	if (!m->device || !m->group || !m->ent)
		return -ENOMEM;
	rc = fm_heap_reserve(&m->queue, 2 * ((size_t)m->groups + m->ents) + 1);
	rc = rc ? rc : fm_sched_new(&m->s, &host, m);
	if (rc)
		return rc;
	fm_sched_linger(m->s, p->linger);
	rc = make_devices(m);
	rc = rc ? rc : fm_sched_use(m->s, p->policy, p->params, p->n_params, 0, err);
	rc = rc ? rc : make_groups(m);
	m->count.kind = EV_COUNT;
	if (!rc && p->warmup)
		at(m, &m->count, p->warmup);
	else if (!rc)
		count_begin(m);
	return rc;
}

int fm_sim_machine(const struct fm_sim_plan *p, uint32_t machine, const struct fm_sim_watch *watch,
	struct fm_sim_control *control, struct fm_sim_result *r, struct fm_err *err)
{
	struct machine m = {.plan = p, .watch = watch, .result = r, .index = machine};
	struct fm_err own = {0};
	int rc = make(&m, &own);

	rc = rc ? rc : simulate(&m, control);
	if (!rc)
		count_end(&m);
	free_machine(&m);
	if (!rc)
		return 0;
	if (!own.code)
		fm_err_set(&own, rc, "the simulation: %s", strerror(-rc));
	if (err)
		*err = own;
	return rc;
}
