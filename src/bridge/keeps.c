/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What programs keep on a device by themselves (fermata/memory.h). All of it together, and what
 * other groups have requested, fits on the device: so whatever a program says, others have what
 * they were promised. What was granted is remembered here; a ledger can only say that it has become
 * less.
 */
#include "internal.h"

static bool may_pin(const struct fm_bridge *b, const struct fm_bridge_client *c)
{
	return !fm_bridge_allows(client_limits(b, c), FM_HINT_MEMORY_PIN, 1, NULL);
}

static uint64_t kept(const struct memory *m, struct memory_row *r)
{
	r->keeps = FM_MIN(r->keeps, CLAIM(m->ledger->device[r - m->row].keeps));
	return r->keeps;
}

/* Of a group on that device, but for one row. */
static uint64_t group_keeps(
	const struct fm_bridge_group *g, const struct bdevice *d, const struct memory_row *but)
{
	struct member *m;
	uint64_t sum = 0;

	fm_list_each (m, &g->members, in_group) {
		struct memory *of = m->index ? NULL : m->client->memory;

		for (unsigned i = 0; of && i < FM_LEDGER_DEVICES; i++)
			if (of->row[i].dev == d && &of->row[i] != but)
				sum = fm_add_sat(sum, kept(of, &of->row[i]));
	}
	return sum;
}

/* A group's request is where it keeps memory. */
uint64_t keeps_others(struct fm_bridge *b, const struct fm_bridge_group *own,
	const struct bdevice *d, uint64_t *device)
{
	uint64_t sum = 0, least = own ? memory_capacity_of(own, d) : 0;
	struct fm_bridge_group *g;

	if (!least)
		least = memory_capacity(b, d);
	fm_list_each (g, &b->groups, link) {
		uint64_t taken =
			g == own ? 0 : FM_MAX(group_keeps(g, d, NULL), memory_requested(g, d));

		if (!taken)
			continue;
		sum = fm_add_sat(sum, taken);
		least = FM_MIN(least, memory_capacity_of(g, d));
	}
	*device = least;
	return sum;
}

/* What is left of the device for one row. */
static uint64_t left_for(
	struct fm_bridge *b, const struct fm_bridge_group *own, const struct memory_row *r)
{
	uint64_t device, taken = keeps_others(b, own, r->dev, &device);

	return fm_sub_sat(device, fm_add_sat(taken, group_keeps(own, r->dev, r)));
}

void keeps_answer(struct fm_bridge *b, struct memory *m, struct memory_row *r)
{
	struct fm_ledger_device *row = &m->ledger->device[r - m->row];
	uint32_t number = CLAIM(row->keeping);
	uint64_t wanted;
	bool granted;

	if (number == r->keeping)
		return;
	r->keeping = number;
	wanted = FM_MIN(CLAIM(row->keeps), (uint64_t)FM_MEMORY_MAX);
	granted = wanted <= r->keeps || (may_pin(b, m->client) && m->client->first.group &&
						wanted <= left_for(b, m->client->first.group, r));
	if (granted)
		r->keeps = wanted;
	fm_ledger_keep_answer(row, number, granted);
}
