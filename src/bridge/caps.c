/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What clients may have on the device where a limit of their user or of a cgroup has sunk below
 * what is committed. Nothing is taken away from anybody: what exceeds the limit runs from the host.
 * Movable memory gives way, in proportion; the rest counts as it is.
 *
 * In a cgroup the claims of other users count as far as the bridge has allowed them (memory.c).
 * Each claim is read once in a run, and each sum is made once.
 */
#include "base/clock.h"
#include "demand.h"
#include <stdlib.h>

#define LOOK (200 * FM_MS) /* what is committed becomes less without a word */

/* A row, and what it counts: for its own user, and for others. */
struct claim {
	struct memory *m;
	struct memory_row *r;
	struct caps_sum own, marked;
	uint64_t cap;
};

static struct caps_sum split(const struct memory *m, const struct memory_row *r, uint64_t claimed)
{
	uint64_t moves = CLAIM(m->ledger->device[r - m->row].kind[FM_MEM_MOVABLE]);

	moves = m->managed ? FM_MIN(moves, claimed) : 0;
	return (struct caps_sum){.fixed = claimed - moves, .movable = moves};
}

static struct claim claim_of(struct memory *m, struct memory_row *r)
{
	uint64_t claimed = demand_most(CLAIM(m->ledger->device[r - m->row].claimed));
	struct claim c = {.m = m, .r = r, .own = split(m, r, claimed), .cap = UINT64_MAX};

	c.marked.movable = FM_MIN(c.own.movable, r->mark);
	c.marked.fixed = FM_MIN(c.own.fixed, r->mark - c.marked.movable);
	return c;
}

static void add(struct caps_sum *to, const struct caps_sum *s)
{
	to->movable = fm_add_sat(to->movable, s->movable);
	to->fixed = fm_add_sat(to->fixed, s->fixed);
}

static uint64_t part_of(const struct caps_sum *s, uint64_t limit, uint64_t own)
{
	uint64_t left = fm_sub_sat(limit, s->fixed);

	if (s->movable <= left)
		return UINT64_MAX;
	return (uint64_t)((unsigned __int128)own * left / s->movable);
}

#define each_claim(c, from, end) for (struct claim *c = from; c < (end); c++)
#define each_cgroup(g, c)                                       \
	for (struct fm_bridge_cgroup **at = (c)->m->cgroup, *g; \
		at < (c)->m->cgroup + (c)->m->cgroups && (g = *at, true); at++)

/* What the user's rows have in each of their cgroups beyond what counts for others. */
static void sum_beyond(struct claim *from, const struct claim *end)
{
	each_claim (c, from, end)
		each_cgroup (g, c)
			g->beyond = (struct caps_sum){0};
	each_claim (c, from, end) {
		struct caps_sum more = {.fixed = c->own.fixed - c->marked.fixed,
			.movable = c->own.movable - c->marked.movable};

		each_cgroup (g, c)
			add(&g->beyond, &more);
	}
}

/* The rows of one user on one device. */
static void cap_user(struct fm_bridge *b, struct claim *from, const struct claim *end)
{
	struct caps_sum all = {0};

	sum_beyond(from, end);
	each_claim (c, from, end)
		add(&all, &c->own);
	each_claim (c, from, end) {
		uint64_t limit = memory_user_limit(b, c->m->client);

		if (!c->own.movable)
			continue;
		if (limit != UINT64_MAX)
			c->cap = part_of(&all, limit, c->own.movable);
		each_cgroup (g, c) {
			struct caps_sum s = g->all;

			limit = cgroup_limit(g, c->r);
			add(&s, &g->beyond);
			if (limit != UINT64_MAX)
				c->cap = FM_MIN(c->cap, part_of(&s, limit, c->own.movable));
		}
	}
}

static struct claim *same(struct claim *from, struct claim *end, bool user)
{
	struct claim *c = from;

	while (c < end && c->r->dev == from->r->dev &&
		(!user || c->m->client->user == from->m->client->user))
		c++;
	return c;
}

/* The rows of one device. */
static void cap_device(struct fm_bridge *b, struct claim *from, struct claim *end)
{
	each_claim (c, from, end)
		each_cgroup (g, c)
			g->all = (struct caps_sum){0};
	each_claim (c, from, end)
		each_cgroup (g, c)
			add(&g->all, &c->marked);
	for (struct claim *next; from < end; from = next) {
		next = same(from, end, true);
		cap_user(b, from, next);
	}
}

static bool set_cap(struct fm_bridge *b, const struct claim *c)
{
	if (c->r->cap != c->cap) {
		c->r->cap = c->cap;
		atomic_store(&c->m->ledger->device[c->r - c->m->row].cap, c->cap);
		b->host.wake(c->m->client->ctx);
	}
	return c->cap != UINT64_MAX;
}

static int by_device_and_user(const void *a, const void *b)
{
	const struct claim *x = a, *y = b;

	if (x->r->dev != y->r->dev)
		return x->r->dev->id < y->r->dev->id ? -1 : 1;
	return (x->m->client->user->uid > y->m->client->user->uid) -
	       (x->m->client->user->uid < y->m->client->user->uid);
}

static unsigned count_rows(struct fm_bridge *b, struct claim *into)
{
	struct fm_bridge_client *c;
	unsigned n = 0;

	fm_list_each (c, &b->clients, link)
		for (unsigned i = 0; c->memory && i < FM_LEDGER_DEVICES; i++) {
			struct memory_row *r = &c->memory->row[i];

			if (r->dev && into)
				into[n] = claim_of(c->memory, r);
			n += r->dev != NULL;
		}
	return n;
}

uint64_t caps_run(struct fm_bridge *b, uint64_t now)
{
	struct claim *claims, *next;
	bool any = false;
	unsigned n;

	if (now < b->caps_at)
		return b->caps_at;
	n = count_rows(b, NULL);
	claims = n ? calloc(n, sizeof(*claims)) : NULL;
	b->caps_at = n && !claims ? now + LOOK : FM_NEVER;
	if (!claims)
		return b->caps_at;
	count_rows(b, claims);
	qsort(claims, n, sizeof(*claims), by_device_and_user);
	for (struct claim *c = claims; c < claims + n; c = next) {
		next = same(c, claims + n, false);
		cap_device(b, c, next);
	}
	each_claim (c, claims, claims + n)
		any |= set_cap(b, c);
	free(claims);
	if (any)
		b->caps_at = now + LOOK;
	return b->caps_at;
}
