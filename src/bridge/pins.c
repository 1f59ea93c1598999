/* SPDX-License-Identifier: Apache-2.0 */
/* What pins the memory of groups, by name, and what is foretold of it, as their clients say. */
#include "internal.h"
#include <string.h>

static bool same(const struct fm_mem_pin *a, const struct fm_mem_pin *b)
{
	return a->kind == b->kind && !strcmp(a->what, b->what) && !strcmp(a->by, b->by);
}

unsigned fm_bridge_group_pins(const struct fm_bridge_group *g, struct fm_mem_pin pins[FM_BPINS])
{
	unsigned n = 0, k;
	struct member *m;

	fm_list_each (m, &g->members, in_group) {
		const struct memory *mem = m->client->memory;

		if (m->index || !mem)
			continue;
		for (unsigned i = 0; i < FM_LEDGER_PINS && n < FM_BPINS; i++) {
			if (!fm_ledger_pinned(&mem->ledger->pins, i, &pins[n]))
				continue;
			for (k = 0; k < n && !same(&pins[k], &pins[n]); k++)
				;
			n += k == n;
		}
	}
	return n;
}

bool fm_bridge_group_foretold(const struct fm_bridge_group *g, uint64_t foretold[FM_MEM_FORETOLDS])
{
	struct member *m;
	bool any = false;

	memset(foretold, 0, FM_MEM_FORETOLDS * sizeof(*foretold));
	fm_list_each (m, &g->members, in_group) {
		const struct memory *mem = m->client->memory;

		for (unsigned i = 0; !m->index && mem && i < FM_MEM_FORETOLDS; i++) {
			foretold[i] += atomic_load(&mem->ledger->foretold[i]);
			any |= foretold[i] != 0;
		}
	}
	return any;
}
