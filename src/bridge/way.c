/* SPDX-License-Identifier: Apache-2.0 */
/* Which devices are one; at which level queues are stopped, and from which command length on they
 * are guarded. Both follow from the group's hints and the device's settings, and are written to the
 * board. The client acts on them. */
#include "base/parse.h"
#include "internal.h"
#include <fnmatch.h>

/* The most that the hint can be. */
#define GUARD_MAX (10 * FM_S)

static bool is_same(const char *patterns, const char *key)
{
	char word[FM_DEVKEY_MAX];

	while (fm_next_word(&patterns, word, sizeof(word)))
		if (!fnmatch(word, key, 0))
			return true;
	return false;
}

const char *way_device(const struct fm_bridge *b, const char *key)
{
	for (unsigned i = 0; i < b->n_ways; i++)
		if (is_same(b->ways[i].same, key))
			return b->ways[i].device;
	return key;
}

static struct fm_stop_rule of_device(const struct fm_bridge *b, const char *key)
{
	struct fm_stop_rule way = {.level = 0, .guard_ns = FM_NEVER, .pad = 0};

	for (unsigned i = 0; i < b->n_ways; i++) {
		const struct fm_stop_rule *w = &b->ways[i];

		if (fnmatch(w->device, key, 0))
			continue;
		way.level = way.level ? way.level : w->level;
		way.guard_ns = way.guard_ns != FM_NEVER ? way.guard_ns : w->guard_ns;
		way.pad = way.pad ? way.pad : w->pad;
	}
	way.guard_ns = way.guard_ns != FM_NEVER ? way.guard_ns : 0;
	return way;
}

/* The lesser of both levels; 0 if neither the device nor the hint sets a limit. */
static uint32_t lesser(uint32_t device, int64_t hint)
{
	uint32_t level = FM_MIN(device ? device : FM_LEVEL_RUNNING, (uint32_t)hint);

	return level < FM_LEVEL_RUNNING ? level : 0;
}

int64_t way_pad(const struct fm_bridge *b, const char *key)
{
	uint32_t pad = of_device(b, key).pad;

	return pad ? (int32_t)pad + FM_PAD_DEVICE : 0;
}

void way_store(struct fm_bridge *b, struct queue *q)
{
	const struct fm_hints *h = fm_sched_group_hints(q->ent->group->sgroup);
	struct fm_stop_rule way = of_device(b, q->ent->dev->key);
	int64_t hint = h->value[FM_HINT_GUARD_FROM];
	uint64_t guard = FM_MIN(hint ? (uint64_t)hint : way.guard_ns, GUARD_MAX);
	uint32_t deepest = lesser(way.level, h->value[FM_HINT_LEVEL]);
	uint32_t guard_us = (uint32_t)((guard + FM_US - 1) / FM_US);

	q->deepest = deepest;
	if (deepest == CLAIM(q->slot->deepest) && guard_us == CLAIM(q->slot->guard_us))
		return;
	atomic_store_explicit(&q->slot->guard_us, guard_us, memory_order_release);
	atomic_store_explicit(&q->slot->deepest, deepest, memory_order_release);
	/* The client may be about to wait for a gate that no longer needs a wait. */
	client_dirty(b, q->client);
}

void group_ways(struct fm_bridge *b, struct fm_bridge_group *g)
{
	struct queue *q;
	struct ent *e;

	fm_list_each (e, &g->ents, in_group) {
		pad_refresh(b, e);
		fm_list_each (q, &e->queues, in_ent)
			way_store(b, q);
	}
}

void fm_bridge_set_ways(
	struct fm_bridge *b, const struct fm_stop_rule *ways, unsigned n, uint64_t now)
{
	struct fm_bridge_group *g;

	b->now = now;
	b->ways = ways;
	b->n_ways = n;
	fm_list_each (g, &b->groups, link)
		group_ways(b, g);
	bridge_settle(b, now);
}
