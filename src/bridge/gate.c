/* SPDX-License-Identifier: Apache-2.0 */
/* The gate words. They are in the board, and in strict mode also in a page that the client cannot
 * write. */
#include "internal.h"

enum fm_gate gate_load(const struct queue *q)
{
	const struct fm_gates *g = q->client->gates;

	return g ? CLAIM(g->slot[q->number].gate) : CLAIM(q->slot->gate);
}

static void add_gone(struct fm_bridge *b, struct fm_bridge_client *c, unsigned slot, uint64_t now)
{
	c->gone[slot / 64] |= UINT64_C(1) << slot % 64;
	c->gone_at = now + GONE_GATE;
	fm_list_del(&c->in_gone);
	fm_list_add_tail(&b->gone, &c->in_gone);
}

void gate_leave(struct fm_bridge *b, struct queue *q, uint64_t now)
{
	if (!q->client->gates || gate_load(q) == FM_GATE_OPEN) {
		gate_store(q, FM_GATE_OPEN);
		return;
	}
	atomic_store_explicit(&q->slot->gate, FM_GATE_OPEN, memory_order_release);
	add_gone(b, q->client, q->number, now);
}

void fm_bridge_gates(
	struct fm_bridge *b, struct fm_bridge_client *c, struct fm_gates *gates, uint64_t now)
{
	c->gates = gates;
	for (unsigned i = 0; i < FM_BOARD_SLOTS; i++)
		if (CLAIM(gates->slot[i].gate) != FM_GATE_OPEN)
			add_gone(b, c, i, now);
}

void gate_enter(struct queue *q)
{
	q->client->gone[q->number / 64] &= ~(UINT64_C(1) << q->number % 64);
}

void gate_open_gone(struct fm_bridge_client *c)
{
	if (fm_list_empty(&c->in_gone))
		return;
	fm_list_del(&c->in_gone);
	for (unsigned i = 0; i < FM_BOARD_SLOTS; i++) {
		if (c->gone[i / 64] & UINT64_C(1) << i % 64)
			atomic_store_explicit(
				&c->gates->slot[i].gate, FM_GATE_OPEN, memory_order_release);
	}
	for (unsigned i = 0; i < FM_ARRAY_LEN(c->gone); i++)
		c->gone[i] = 0;
}

/* The list is in the order of gone_at. */
uint64_t gate_run(struct fm_bridge *b, uint64_t now)
{
	while (!fm_list_empty(&b->gone)) {
		struct fm_bridge_client *c =
			fm_list_first(&b->gone, struct fm_bridge_client, in_gone);

		if (c->gone_at > now)
			return c->gone_at;
		gate_open_gone(c);
	}
	return FM_NEVER;
}
