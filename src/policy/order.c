/* SPDX-License-Identifier: Apache-2.0 */
#include "order.h"

void fm_order_init(struct fm_order *o, const int64_t *params)
{
	o->aging.slice = (uint64_t)params[0];
	o->aging.step = (uint64_t)params[1];
}

void fm_order_fini(struct fm_order *o)
{
	fm_heap_fini(&o->ready);
	fm_aging_fini(&o->aging);
}

int fm_order_join(struct fm_order *o, struct fm_order_ent *oe, struct fm_ent *e)
{
	size_t n = o->joined + 1;

	if (fm_heap_reserve(&o->ready, n) || fm_aging_reserve(&o->aging, n))
		return -ENOMEM;
	oe->ent = e;
	o->joined = n;
	return 0;
}

void fm_order_leave(struct fm_order *o)
{
	o->joined--;
}

/* This does not overflow: keys are a few hundred at most, and steps a minute. */
static uint64_t delay_of(const struct fm_order *o, uint64_t key)
{
	return key * o->aging.step;
}

/* Cannot fail: join reserved the room. */
static void enqueue(struct fm_order *o, struct fm_order_ent *oe, uint64_t key)
{
	oe->used = 0;
	fm_heap_push(&o->ready, &oe->node, key);
}

void fm_order_ready(struct fm_order *o, struct fm_order_ent *oe, uint64_t key, uint64_t now)
{
	enqueue(o, oe, key);
	fm_aging_ready(&o->aging, &oe->age, delay_of(o, key), now);
}

void fm_order_idle(struct fm_order *o, struct fm_order_ent *oe, uint64_t now)
{
	fm_heap_del(&o->ready, &oe->node);
	fm_aging_idle(&o->aging, &oe->age, now);
}

void fm_order_charge(struct fm_order *o, struct fm_order_ent *oe, uint64_t ns)
{
	if (!oe->ent->running)
		return;
	oe->used = fm_add_sat(oe->used, ns);
	fm_aging_charge(&o->aging, &oe->age, ns);
}

void fm_order_move(struct fm_order *o, struct fm_order_ent *oe, uint64_t key)
{
	if (!oe->ent->ready || oe->node.key == key)
		return;
	fm_heap_del(&o->ready, &oe->node);
	enqueue(o, oe, key);
	fm_aging_move(&o->aging, &oe->age, delay_of(o, key));
}

int fm_order_copy(const void *self, void *to, struct fm_ent *twin)
{
	const struct fm_order *o = self;
	struct fm_order *t = to;

	t->joined = o->joined;
	if (fm_heap_copy(&t->ready, &o->ready) | fm_aging_copy(&t->aging, &o->aging))
		return -ENOMEM;
	for (size_t i = 0; i < o->ready.n; i++) {
		const struct fm_order_ent *oe =
			fm_container(o->ready.at[i], struct fm_order_ent, node);
		struct fm_ent *e = &twin[oe->ent->index];
		struct fm_order_ent *te = e->priv;

		te->ent = e;
		te->used = oe->used;
		fm_heap_copy_node(&t->ready, &te->node, &oe->node);
		fm_aging_copy_ent(&t->aging, &te->age, &o->aging, &oe->age);
	}
	return 0;
}

/* Does another entity have the least key? If so, one of depth one has it, because in a heap no
 * parent is larger than its child. */
static bool has_peer(const struct fm_heap *h)
{
	for (size_t i = 1; i < h->n && i <= 2; i++)
		if (h->at[i]->key == h->at[0]->key)
			return true;
	return false;
}

static struct fm_order_ent *first(struct fm_order *o)
{
	return fm_container(fm_heap_min(&o->ready), struct fm_order_ent, node);
}

/* The first in the order, after a change of turns if one is due. */
static struct fm_order_ent *turn(struct fm_order *o, bool peer)
{
	struct fm_order_ent *oe = first(o);

	if (!peer || oe->used < o->aging.slice)
		return oe;
	fm_heap_del(&o->ready, &oe->node);
	enqueue(o, oe, oe->node.key);
	return first(o);
}

enum fm_order_why fm_order_pick(
	struct fm_order *o, uint64_t least, uint64_t now, struct fm_choice *choice)
{
	struct fm_order_ent *own = NULL, *chosen;
	struct fm_aging_ent *age;
	uint64_t key;
	bool peer;

	if (!o->ready.n)
		return FM_ORDER_EMPTY;
	key = FM_MIN(fm_heap_min(&o->ready)->key, least);
	peer = has_peer(&o->ready);
	if (fm_heap_min(&o->ready)->key <= least)
		own = turn(o, peer);
	age = fm_aging_pick(
		&o->aging, own ? &own->age : NULL, delay_of(o, key), now, &choice->next);
	if (!age)
		return FM_ORDER_HELD;
	chosen = fm_container(age, struct fm_order_ent, age);
	choice->run[choice->n++] = chosen->ent;
	if (o->aging.aged)
		return FM_ORDER_AGED;
	if (!peer)
		return FM_ORDER_FIRST;
	choice->next = FM_MIN(choice->next, now + fm_sub_sat(o->aging.slice, chosen->used));
	return FM_ORDER_TURN;
}

int64_t fm_order_rank(const struct fm_order *o, uint64_t key)
{
	return o->aging.step ? 0 : -(int64_t)key;
}

bool fm_order_beats(const struct fm_order *o, uint64_t key)
{
	const struct fm_heap_node *top = fm_heap_min(&o->ready);

	return (!top || key < top->key) && fm_aging_yields(&o->aging, delay_of(o, key));
}
