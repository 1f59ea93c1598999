/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The closed gates of a queue whose gates this process opens, oldest first.
 *
 * They have a lock of their own, which is held over no call of the driver. A thread that has the
 * XQueue's lock may wait in the driver until the device goes on, because the queue in the driver is
 * full, and the device may stand at one of these gates. So the agent and the driver's callbacks
 * open gates without the XQueue's lock if they cannot have it.
 */
#include "segment.h"
#include <errno.h>
#include <stdlib.h>

/* Lock of gates held, as in all functions of this kind. */
static struct fm_xq_gate *nth(struct fm_xq_cold *x, size_t i)
{
	return &x->gate[(x->gate_head + i) % x->gate_cap];
}

static int grow(struct fm_xq_cold *x)
{
	size_t cap = x->gate_cap ? 2 * x->gate_cap : 16;
	struct fm_xq_gate *ring = malloc(cap * sizeof(*ring));

	if (!ring)
		return -ENOMEM;
	for (size_t i = 0; i < x->gate_n; i++)
		ring[i] = *nth(x, i);
	free(x->gate);
	x->gate = ring;
	x->gate_head = 0;
	x->gate_cap = cap;
	return 0;
}

/* Tells the board how far the hwqueue may get once the first `opened` gates are open. */
static void publish(struct fm_xq *q, size_t opened)
{
	struct fm_xq_cold *x = q->cold;
	uint64_t front = opened < x->gate_n ? nth(x, opened)->before : UINT64_MAX;

	/* A queue that is stopped in the middle of a command gets no further. */
	if (x->interrupted)
		front = FM_MIN(front, atomic_load(&q->slot->done));
	atomic_store(&q->slot->released, front);
}

/* What is out of the ring and not open yet still stops what is launched. */
static void count_pending(struct fm_xq *q)
{
	atomic_store(&q->gates_pending, (uint32_t)(q->cold->gate_n + q->cold->opening));
}

int fm_ring_push(struct fm_xq *q, struct fm_xq_gate g)
{
	struct fm_xq_cold *x = q->cold;
	int rc = 0;

	pthread_mutex_lock(&x->gates);
	if (x->gate_n == x->gate_cap)
		rc = grow(x);
	if (!rc) {
		*nth(x, x->gate_n) = g;
		x->gate_n++;
		publish(q, 0);
		count_pending(q);
	}
	pthread_mutex_unlock(&x->gates);
	return rc;
}

void fm_xq_publish_gates(struct fm_xq *q)
{
	struct fm_xq_cold *x = q->cold;

	pthread_mutex_lock(&x->gates);
	publish(q, 0);
	count_pending(q);
	pthread_mutex_unlock(&x->gates);
}

/* Publish first, then look at the gate word once more: a scheduler that closes the word and then
 * reads that the queue is stalled can rely on it. */
static bool may_pass(struct fm_xq *q)
{
	publish(q, 1);
	if (fm_xq_may_run(q))
		return true;
	publish(q, 0);
	return false;
}

static bool take_front(struct fm_xq *q, uint64_t up_to, bool anyway, void **token)
{
	struct fm_xq_cold *x = q->cold;
	bool takes;

	pthread_mutex_lock(&x->gates);
	takes = x->gate_n && nth(x, 0)->index <= up_to && (anyway || may_pass(q));
	if (takes) {
		*token = nth(x, 0)->token;
		x->gate_head = (x->gate_head + 1) % x->gate_cap;
		x->gate_n--;
		x->opening++;
		publish(q, 0);
	}
	pthread_mutex_unlock(&x->gates);
	return takes;
}

/* The hwqueue is not released before this. */
static void is_open(struct fm_xq *q)
{
	struct fm_xq_cold *x = q->cold;

	pthread_mutex_lock(&x->gates);
	x->opening--;
	count_pending(q);
	pthread_mutex_unlock(&x->gates);
}

bool fm_ring_open(struct fm_xq *q, uint64_t up_to, bool anyway)
{
	void *token;

	if (!take_front(q, up_to, anyway, &token))
		return false;
	q->ops->host_gate.reactivate(q->hwq, token);
	is_open(q);
	return true;
}

uint64_t fm_ring_front(struct fm_xq *q)
{
	struct fm_xq_cold *x = q->cold;
	uint64_t before;

	pthread_mutex_lock(&x->gates);
	before = x->gate_n ? nth(x, 0)->before : UINT64_MAX;
	pthread_mutex_unlock(&x->gates);
	return before;
}

bool fm_ring_is_empty(const struct fm_xq *q)
{
	struct fm_xq_cold *x = q->cold;
	bool empty;

	pthread_mutex_lock(&x->gates);
	empty = !x->gate_n && !x->opening;
	pthread_mutex_unlock(&x->gates);
	return empty;
}
