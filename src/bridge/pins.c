/* SPDX-License-Identifier: Apache-2.0 */
/* What pins the memory of groups, by name, as their clients say. */
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
