/* SPDX-License-Identifier: Apache-2.0 */
/* Which groups share a device, as clients are told: when they are to ring, and to make room. */
#include "internal.h"

static int64_t hint_of(const struct fm_bridge_group *g, enum fm_hint h)
{
	return fm_sched_group_hints(g->sgroup)->value[h];
}

bool ent_in_background(const struct ent *e)
{
	return hint_of(e->group, FM_HINT_PRIORITY) < 0;
}

static enum fm_shares shares_device(const struct ent *e)
{
	if (ent_is_alone(e))
		return FM_SHARES_NONE;
	return e->dev->first == e ? FM_SHARES_FIRST : FM_SHARES;
}

/* An entity that has to wait on one of several devices is not first. */
static enum fm_shares of_both(enum fm_shares a, enum fm_shares b)
{
	return a == FM_SHARES || b == FM_SHARES ? FM_SHARES : FM_MAX(a, b);
}

/* A gang that has to wait on one of its devices has to wait on all of them. An entity that is alone
 * is asked for bells where it can still be stopped: by a limit, or because of another device. */
enum fm_shares ent_shares(const struct ent *e)
{
	enum fm_shares shares = shares_device(e);
	const struct ent *o;

	if (hint_of(e->group, FM_HINT_GANG))
		fm_list_each (o, &e->group->ents, in_group)
			shares = of_both(shares, shares_device(o));
	return shares == FM_SHARES_NONE && e->bells ? FM_SHARES : shares;
}

/* A client makes room with all its queues, on every device. So all of them must be in the
 * background, and no device of theirs may have another background process. */
static bool is_to_make_room(const struct fm_bridge_client *c)
{
	bool for_others = false;
	struct queue *q;

	fm_list_each (q, &c->queues, in_client) {
		if (!ent_in_background(q->ent) || q->ent->dev->background > 1)
			return false;
		for_others = for_others || !ent_is_alone(q->ent);
	}
	return for_others;
}

void client_contended(struct fm_bridge *b, struct fm_bridge_client *c)
{
	enum fm_shares shares = FM_SHARES_NONE;
	bool makes_room = is_to_make_room(c);
	struct queue *q;

	fm_list_each (q, &c->queues, in_client) {
		atomic_store_explicit(&q->slot->shares, ent_shares(q->ent), memory_order_release);
		shares = of_both(shares, ent_shares(q->ent));
	}
	if (CLAIM(c->board->contended) != shares) {
		atomic_store_explicit(&c->board->contended, shares, memory_order_release);
		/* Its agent slept when the work began, and must now watch for the end. */
		if (shares != FM_SHARES_NONE)
			client_dirty(b, c);
	}
	c->makes_room = makes_room;
	if (CLAIM(c->board->makes_room) != makes_room) {
		atomic_store_explicit(&c->board->makes_room, makes_room, memory_order_release);
		client_dirty(b, c);
	}
}

/* The only entity with the highest rank; NULL if several have it. */
static struct ent *first_of(const struct bdevice *d)
{
	struct ent *e, *first = NULL;
	int64_t rank, top = INT64_MIN;
	bool alone = false;

	fm_list_each (e, &d->ents, in_device) {
		rank = fm_sched_rank(e->sent);
		if (!first || rank > top) {
			first = e;
			top = rank;
			alone = true;
		} else if (rank == top) {
			alone = false;
		}
	}
	return alone ? first : NULL;
}

void group_contended(struct fm_bridge *b, struct fm_bridge_group *g)
{
	struct queue *q;
	struct ent *e;

	fm_list_each (e, &g->ents, in_group)
		fm_list_each (q, &e->queues, in_ent)
			client_contended(b, q->client);
}

bool ent_has_several_clients(const struct ent *e)
{
	const struct queue *q;

	fm_list_each (q, &e->queues, in_ent)
		if (q->client != fm_list_first(&e->queues, struct queue, in_ent)->client)
			return true;
	return false;
}

static unsigned background_of(const struct bdevice *d)
{
	unsigned n = 0;
	struct ent *e;

	fm_list_each (e, &d->ents, in_device)
		if (n < 2 && ent_in_background(e))
			n += ent_has_several_clients(e) ? 2 : 1;
	return FM_MIN(n, 2u);
}

/* Clients are told anew when the device steps between one group and two (step), when the number of
 * background processes changes, or when another entity is first. */
void device_contended(struct fm_bridge *b, struct bdevice *d, bool step)
{
	struct ent *e, *first = first_of(d);
	unsigned background = background_of(d);

	step = step || background != d->background || first != d->first;
	d->background = background;
	d->first = first;
	if (step)
		fm_list_each (e, &d->ents, in_device)
			group_contended(b, e->group);
}

void policy_changed(struct fm_bridge *b)
{
	struct bdevice *d;

	note_policy(b, b->now);
	b->policies = fm_sched_policies(b->sched);
	fm_list_each (d, &b->devices, link)
		device_contended(b, d, true);
}

void group_hinted(struct fm_bridge *b, struct fm_bridge_group *g)
{
	struct ent *e;

	/* All devices first: what a client is told about one device depends on the others. */
	fm_list_each (e, &g->ents, in_group)
		e->dev->background = background_of(e->dev);
	fm_list_each (e, &g->ents, in_group)
		device_contended(b, e->dev, true);
}
