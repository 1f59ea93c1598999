/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues of one process share scarce resources of the driver: the channels of the device. Commands
 * in a channel wait in order, whatever queue they belong to. So a queue that may run can end up
 * behind another that the scheduler has stopped for its sake, and both would stand still for ever.
 * That cannot be observed directly. But a queue that has work, may run and does not move, while
 * other queues of the process are stalled at their gates, may be in this place. It then reports
 * that it has no use for the device, until it moves again: the others go on, and it goes on with
 * them.
 *
 * If the queue's command merely takes longer than that, yielding costs the queue its precedence
 * within the process. So a queue yields late, and sooner where yielding has helped.
 */
#include "segment.h"

/* Has it come to rest in the driver's queue, at a gate of either kind? */
static bool is_at_gate(const struct fm_xq *q)
{
	return q->device_gates ? fm_slot_waits(q->slot)
			       : q->level >= FM_LEVEL_QUEUED && fm_slot_stalled(q->slot);
}

static bool stands(const struct fm_xq *q)
{
	return q && fm_slot_pending(q->slot) && is_at_gate(q) &&
	       atomic_load(atomic_load(&q->gate)) != FM_GATE_OPEN;
}

/* The device has come to this queue's gate, which is open: nothing is in its way. It would stand
 * there for ever if the queue yielded now, since then that gate holds it. */
static bool passes(const struct fm_xq *q)
{
	return q->device_gates && is_at_gate(q);
}

static bool somebody_stands(struct fm_xq *q)
{
	struct fm_client *c = q->client;
	bool yes = false;

	pthread_mutex_lock(&c->lock);
	for (unsigned i = 0; i < FM_CLIENT_QUEUES && !yes; i++)
		yes = c->queue[i] != q && stands(c->queue[i]);
	pthread_mutex_unlock(&c->lock);
	return yes;
}

static bool set(struct fm_xq *q, bool yields, uint64_t now)
{
	uint32_t is = yields ? FM_HOLD_NONE : FM_HOLD_RESTS;
	struct fm_xq_cold *x = q->cold;

	if (x->yields == yields)
		return false;
	x->yields = yields;
	x->yields_since = now;
	if (!fm_xq_own_suspended(q))
		atomic_compare_exchange_strong(
			&q->slot->hold, &is, yields ? FM_HOLD_RESTS : FM_HOLD_NONE);
	return true;
}

/* Adapts how long this queue waits before it yields the next time. That a call of ours was in the
 * way says nothing of other times. */
static void learn(struct fm_xq_cold *x, uint64_t now)
{
	bool helped = now - x->yields_since < FM_XQ_YIELD_HELPED;

	x->patience = helped ? FM_MAX(x->patience / 2, FM_XQ_YIELD_STILL_LEAST)
			     : FM_MIN(x->patience * 2, FM_XQ_YIELD_STILL_MOST);
}

/* Where a call of ours is in the way it is known what the queue waits for. */
static bool is_blocked(const struct fm_xq *q)
{
	return q->ops->guardian.blocked && q->ops->guardian.blocked(q->hwq);
}

/* Has it been patient for long enough? */
static bool has_waited(struct fm_xq *q, uint64_t now)
{
	struct fm_xq_cold *x = q->cold;
	uint64_t still = now - x->still_since;

	if (!x->patience)
		x->patience = FM_XQ_YIELD_STILL_MOST;
	x->yields_blocked = still < x->patience;
	return !x->yields_blocked || (still >= FM_XQ_YIELD_BLOCKED && is_blocked(q));
}

uint64_t fm_xq_yield_look(struct fm_xq *q, uint64_t now)
{
	bool looks = !q->device_gates && q->level >= FM_LEVEL_QUEUED && fm_slot_pending(q->slot) &&
		     fm_xq_may_run(q);

	return looks && (q->cold->yields || somebody_stands(q)) ? now + FM_XQ_YIELD_LOOK : FM_NEVER;
}

bool fm_xq_yield(struct fm_xq *q, bool locked, uint64_t now)
{
	uint64_t progress = atomic_load_explicit(&q->slot->progress, memory_order_acquire);
	uint64_t done = fm_slot_done(q->slot);
	struct fm_xq_cold *x = q->cold;
	bool unseen = now - x->still_seen > FM_XQ_YIELD_UNSEEN;

	x->still_seen = now;

	if (q->level < FM_LEVEL_QUEUED || !fm_slot_pending(q->slot) || !fm_xq_may_run(q) ||
		unseen || progress != x->still_progress || done != x->still_done) {
		if (x->yields && !locked)
			return false;
		if (x->yields && !x->yields_blocked)
			learn(x, now);
		x->still_since = now;
		x->still_progress = progress;
		x->still_done = done;
		return set(q, false, now);
	}
	return !x->yields && !passes(q) && has_waited(q, now) && somebody_stands(q) &&
	       set(q, true, now);
}
