/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of cgroups: each is of all clients together that are in it, or in one below it. Which
 * cgroups there are, and what they may have, the host knows: nothing is read here.
 */
#include "internal.h"
#include <stdlib.h>
#include <string.h>

struct fm_bridge_cgroup *fm_bridge_cgroup_get(struct fm_bridge *b, const char *path)
{
	struct fm_bridge_cgroup *g;

	fm_list_each (g, &b->cgroups, link) {
		if (strcmp(g->path, path) != 0)
			continue;
		g->refs++;
		return g;
	}
	g = calloc(1, sizeof(*g) + strlen(path) + 1);
	if (!g)
		return NULL;
	strcpy(g->path, path);
	g->memory = UINT64_MAX;
	g->refs = 1;
	fm_list_add_tail(&b->cgroups, &g->link);
	return g;
}

const char *fm_bridge_cgroup_path(const struct fm_bridge_cgroup *g)
{
	return g->path;
}

void fm_bridge_cgroup_put(struct fm_bridge_cgroup *g)
{
	if (--g->refs)
		return;
	fm_list_del(&g->link);
	free(g);
}

static void ask_again(struct fm_bridge *b, const struct fm_bridge_cgroup *g)
{
	struct fm_bridge_client *c;

	fm_list_each (c, &b->clients, link)
		for (unsigned i = 0; c->memory && i < c->memory->cgroups; i++)
			if (c->memory->cgroup[i] == g)
				memory_reset(c->memory);
}

bool fm_bridge_cgroup_limit(struct fm_bridge *b, struct fm_bridge_cgroup *g, uint64_t memory,
	const struct fm_bridge_dmem *dmem, unsigned n)
{
	n = FM_MIN(n, (unsigned)FM_BRIDGE_REGIONS);
	if (g->memory == memory && g->n == n && (!n || !memcmp(g->dmem, dmem, n * sizeof(*dmem))))
		return false;
	g->memory = memory;
	g->n = n;
	if (n)
		memcpy(g->dmem, dmem, n * sizeof(*dmem));
	ask_again(b, g);
	return true;
}

bool fm_bridge_cgroup_memory(struct fm_bridge *b, struct fm_bridge_cgroup *g, uint64_t memory)
{
	if (g->memory == memory)
		return false;
	g->memory = memory;
	ask_again(b, g);
	return true;
}

void fm_bridge_client_cgroups(
	struct fm_bridge_client *c, struct fm_bridge_cgroup *const *list, unsigned n)
{
	struct memory *m = c->memory;

	if (!m)
		return;
	m->cgroups = FM_MIN(n, (unsigned)FM_BRIDGE_CGROUPS);
	for (unsigned i = 0; i < m->cgroups; i++)
		m->cgroup[i] = list[i];
	memory_reset(m);
}

uint64_t cgroup_limit(const struct fm_bridge_cgroup *g, const struct memory_row *r)
{
	uint64_t most = g->memory;

	for (unsigned i = 0; i < g->n && *r->bus; i++)
		if (!strcmp(g->dmem[i].bus, r->bus))
			most = FM_MIN(most, g->dmem[i].most);
	return most;
}

bool cgroup_has(const struct fm_bridge_cgroup *g, const struct memory *m)
{
	for (unsigned i = 0; i < m->cgroups; i++)
		if (m->cgroup[i] == g)
			return true;
	return false;
}
