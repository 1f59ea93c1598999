/* SPDX-License-Identifier: Apache-2.0 */
/* Processors. On each, the entity with the highest priority runs; equals run one after the other,
 * in the order in which they came. An entity that computes is interrupted and goes on later. An
 * entity that spins only occupies the processor. */
#include "internal.h"

static bool wants_cpu(const struct ent *e)
{
	return e->state == COMPUTES || (e->g->plan->spins && has_work(e));
}

/* Takes the entity off the processor. Work that is complete at this very moment still ends now. */
static void stand_back(struct ent *e)
{
	struct machine *m = e->g->m;

	if (e->state != COMPUTES)
		return;
	e->left -= m->now - e->begin;
	e->begin = m->now;
	if (e->left)
		fm_heap_del(&m->queue, &e->timer.node);
}

static void compute(struct ent *e)
{
	struct machine *m = e->g->m;

	if (e->state != COMPUTES || fm_heap_has(&e->timer.node))
		return;
	e->begin = m->now;
	at(m, &e->timer, fm_add_sat(m->now, e->left));
}

static void choose(struct cpu *c)
{
	struct fm_heap_node *n = fm_heap_min(&c->queue);
	struct ent *e = n ? fm_container(n, struct ent, place) : NULL;

	if (c->on && c->on != e && fm_heap_has(&c->on->place))
		stand_back(c->on);
	c->on = e;
	if (e)
		compute(e);
}

void cpu_settle(struct ent *e)
{
	struct cpu *c = e->cpu;
	bool wants;

	if (!c)
		return;
	wants = wants_cpu(e);
	if (wants == fm_heap_has(&e->place)) {
		if (wants)
			choose(c);
		return;
	}
	if (wants)
		fm_heap_push(&c->queue, &e->place, UINT32_MAX - e->g->plan->cpu_priority);
	else
		fm_heap_del(&c->queue, &e->place);
	choose(c);
}

void cpu_leave(struct ent *e)
{
	if (!e->cpu || !fm_heap_has(&e->place))
		return;
	fm_heap_del(&e->cpu->queue, &e->place);
	choose(e->cpu);
}

void cpu_event(struct ent *e)
{
	e->left = 0;
	e->state = IDLE;
	jobs_next(e);
	machine_edge(e);
}

int cpu_make(struct machine *m)
{
	const struct fm_sim_plan *p = m->plan;
	uint32_t n = 0;
	int rc = 0;

	for (uint32_t i = 0; i < p->groups; i++)
		if (p->group[i].has_cpu)
			n = FM_MAX(n, p->group[i].cpu + 1);
	m->cpu = calloc(n + 1, sizeof(*m->cpu));
	if (!m->cpu)
		return -ENOMEM;
	m->cpus = n;
	for (uint32_t i = 0; i < m->ents; i++)
		if (m->ent[i].g->plan->has_cpu)
			m->cpu[m->ent[i].g->plan->cpu].users++;
	for (uint32_t i = 0; i < n && !rc; i++)
		rc = fm_heap_reserve(&m->cpu[i].queue, m->cpu[i].users);
	for (uint32_t i = 0; i < m->ents; i++)
		if (m->ent[i].g->plan->has_cpu)
			m->ent[i].cpu = &m->cpu[m->ent[i].g->plan->cpu];
	return rc;
}

void cpu_free(struct machine *m)
{
	for (uint32_t i = 0; i < m->cpus; i++)
		fm_heap_fini(&m->cpu[i].queue);
	free(m->cpu);
}
