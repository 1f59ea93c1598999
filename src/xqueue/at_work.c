/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues of one process share the few channels of the device (yield.c). What the agent puts on a
 * device during a stop needs a channel, too, so the queues that have work are counted. A queue may
 * have commands, or only things that order commands. The end of the latter is not reported, so the
 * driver is asked where it matters.
 */
#include "segment.h"

/* Is something under way that only orders commands? */
static bool only_orders(struct fm_xq *q, bool ask)
{
	return q->ops->guardian.query && q->ops->guardian.query(q->hwq, fm_slot_done(q->slot),
						 fm_xq_own_mark(q, fm_xq_mark(q)), ask);
}

bool fm_xq_is_at_work(struct fm_xq *q)
{
	return fm_slot_pending(q->slot) || only_orders(q, false);
}

unsigned fm_xq_at_work(struct fm_xq *q)
{
	struct fm_client *c = q->client;
	unsigned n = 0;

	pthread_mutex_lock(&c->lock);
	for (unsigned i = 0; i < FM_CLIENT_QUEUES; i++)
		n += c->queue[i] && fm_xq_is_at_work(c->queue[i]);
	pthread_mutex_unlock(&c->lock);
	return n;
}

void fm_xq_crowded(struct fm_xq *q)
{
	if (!atomic_exchange(&q->client->crowded, true))
		fm_client_wake(q->client);
}

void fm_xq_ask(struct fm_xq *q)
{
	if (pthread_mutex_trylock(&q->cold->lock))
		return;
	if (!q->closing && !q->cold->gone && !fm_slot_pending(q->slot))
		only_orders(q, true);
	fm_xq_leave(q);
}

bool fm_client_asks(struct fm_client *c, uint64_t now)
{
	if (!atomic_load(&c->crowded) || now < c->ask_at)
		return false;
	atomic_store(&c->crowded, false);
	c->ask_at = now + FM_CLIENT_QUERY_EVERY;
	return true;
}
