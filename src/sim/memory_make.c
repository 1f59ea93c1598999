/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of devices, as the plan of a simulation has it. */
#include "memory.h"

#define CHUNK   (UINT64_C(128) << 20) /* an extent, unless a group would have too many of them */
#define EXTENTS 1024                  /* of a group */

static bool is_modelled(const struct device *d)
{
	return d->m->plan->memory.policy && d->plan->memory;
}

static unsigned extents_of(const struct fm_sim_group *g, uint64_t *size)
{
	*size = FM_MAX(CHUNK, g->memory / EXTENTS);
	return (unsigned)(g->memory / *size + (g->memory % *size > 0));
}

static int make_arrays(struct memory *mem, unsigned ents, unsigned extents)
{
	mem->extent = calloc(extents + 1u, sizeof(*mem->extent));
	mem->group = calloc(ents + 1u, sizeof(*mem->group));
	mem->past = calloc(ents + 1u, sizeof(*mem->past));
	mem->ent = calloc(ents + 1u, sizeof(*mem->ent));
	return mem->extent && mem->group && mem->past && mem->ent ? 0 : -ENOMEM;
}

static void make_ent(struct memory *mem, struct ent *e)
{
	const struct fm_sim_group *g = e->g->plan;
	struct ent_memory *em = &mem->ent[mem->ents];
	uint64_t size, set = g->set ? g->set : g->memory;
	unsigned n = extents_of(g, &size);

	*em = (struct ent_memory){.e = e,
		.number = mem->ents,
		.first = mem->w.extents,
		.n = n,
		.deadline = FM_NEVER,
		.waits_since = FM_NEVER};
	em->set = (unsigned)FM_MIN((uint64_t)n, set / size + (set % size > 0));
	em->dirty = (unsigned)(((uint64_t)em->set * g->dirty + 99) / 100);
	for (unsigned i = 0; i < n; i++)
		mem->extent[em->first + i] =
			(struct fm_extent){.bytes = i + 1 < n ? size : g->memory - (n - 1) * size,
				.client = mem->ents,
				.where = FM_EMPTY};
	mem->group[mem->ents] =
		(struct fm_mem_group){.first = em->first, .n = n, .request = g->request};
	mem->w.extents += n;
	mem->ents++;
	e->memory = em;
}

static int make_memory(struct device *d)
{
	struct machine *m = d->m;
	const struct fm_sim_plan *p = m->plan;
	struct memory *mem = d->memory = calloc(1, sizeof(*mem));
	unsigned ents = 0, extents = 0;
	uint64_t size;

	if (!mem)
		return -ENOMEM;
	for (uint32_t i = 0; i < m->ents; i++)
		if (m->ent[i].d == d) {
			ents++;
			extents += extents_of(m->ent[i].g->plan, &size);
		}
	if (make_arrays(mem, ents, extents))
		return -ENOMEM;
	mem->d = d;
	mem->in.ev.kind = EV_CAME;
	mem->out.ev.kind = EV_WENT;
	mem->again.kind = EV_PLAN;
	mem->reserve =
		p->memory.reserve == FM_NEVER ? fm_mem_reserve(d->plan->memory) : p->memory.reserve;
	mem->w = (struct fm_mem_world){.policy = p->memory.policy,
		.link = d->plan->link,
		.slack = 5 * FM_MS,
		.overtime = p->memory.overtime,
		.extent = mem->extent,
		.group = mem->group,
		.turn = mem->turn};
	for (uint32_t i = 0; i < m->ents; i++)
		if (m->ent[i].d == d)
			make_ent(mem, &m->ent[i]);
	mem->w.groups = mem->w.clients = mem->ents;
	for (unsigned i = 0; i < mem->w.extents; i++)
		mem->w.window = FM_MAX(mem->w.window, AHEAD * mem->extent[i].bytes);
	m->memory = true;
	return 0;
}

int memory_make(struct machine *m)
{
	int rc = 0;

	for (uint32_t i = 0; i < m->devices && !rc; i++)
		if (is_modelled(&m->device[i]))
			rc = make_memory(&m->device[i]);
	return rc;
}

void memory_free(struct machine *m)
{
	for (uint32_t i = 0; m->device && i < m->devices; i++) {
		struct memory *mem = m->device[i].memory;

		if (!mem)
			continue;
		fm_mem_plan_free(&mem->plan);
		free(mem->extent);
		free(mem->group);
		free(mem->past);
		free(mem->ent);
		free(mem);
	}
}
