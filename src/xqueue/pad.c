/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Padding: while its gate is closed for more urgent work of the same domain, a queue that was
 * stopped in the middle of a command goes on beside that, on few of the device's multiprocessors
 * (hwqueue.h, guardian.pad).
 *
 * The scheduler says on how many (`pad` of the board), and the agent makes that possible. Once the
 * queue is at rest, and is held by other means than the gate word, it says so (`asks_pad`). Then
 * the scheduler may make the gate word FM_GATE_PADS. The queue pads as long as that lasts, and does
 * not count as at rest meanwhile. Its device time counts by its part of the multiprocessors.
 */
#include "segment.h"
#include <errno.h>

#define NO_PAD UINT32_MAX /* has to be made again */

/* Is this a moment at which the device driver may wait for what the process has under way? At
 * first only if that is nothing; then also if nothing more urgent is under way. */
static bool is_calm(struct fm_xq *q, uint64_t now)
{
	struct fm_xq_cold *x = q->cold;

	if (!fm_xq_at_work(q))
		return true;
	if (!x->pad_ahead_since)
		x->pad_ahead_since = now;
	return now - x->pad_ahead_since >= FM_XQ_PAD_AHEAD && fm_xq_may_run(q);
}

/* A number that changes by itself is not to be waited for each time. */
static uint64_t make_ahead(struct fm_xq *q, uint64_t now)
{
	uint32_t most = atomic_load_explicit(&q->slot->pad_most, memory_order_relaxed);
	struct fm_xq_cold *x = q->cold;
	bool calm;

	if (most == x->pad_ahead || !q->ops->guardian.pad_ahead)
		return FM_NEVER;
	if (now < x->pad_ahead_again)
		return x->pad_ahead_again;
	calm = is_calm(q, now);
	if (!calm || q->ops->guardian.pad_ahead(q->hwq, most) == -EAGAIN) {
		x->pad_ahead_again = now + (calm ? FM_XQ_PAD_AGAIN : FM_XQ_PAD_CALM);
		return x->pad_ahead_again;
	}
	x->pad_ahead = most;
	x->pad_ahead_since = 0;
	return FM_NEVER;
}

static uint64_t make_ready(struct fm_xq *q, uint32_t k, uint64_t now)
{
	bool fewer = atomic_load_explicit(&q->slot->pad_most, memory_order_relaxed);
	struct fm_xq_cold *x = q->cold;
	const char *why = NULL;
	int rc;

	/* What has just gone on may be stopped again soon. */
	if (now < x->pad_again && (x->pad_told == NO_PAD || fm_xq_is_stopped(q)))
		return x->pad_again;
	rc = q->ops->guardian.pad_ready(q->hwq, k, fewer, &why);
	if (rc == -EAGAIN) {
		x->pad_again = now + FM_XQ_PAD_AGAIN;
		return x->pad_again;
	}
	x->pad_told = k;
	x->pad_k = rc < 0 ? k : (uint32_t)rc;
	atomic_store(&x->pad_able, rc > 0);
	atomic_store(&q->slot->sms, q->ops->guardian.pad_of(q->hwq));
	if (rc < 0 && why != x->pad_why)
		fm_client_count_left(q->client, "pad", why, 1);
	x->pad_why = rc < 0 ? why : NULL;
	return FM_NEVER;
}

uint64_t fm_xq_pad_prepare(struct fm_xq *q, uint64_t now)
{
	uint32_t k = atomic_load_explicit(&q->slot->pad, memory_order_relaxed);
	uint64_t next = FM_NEVER;

	if (!q->ops->guardian.pad_ready || q->level < FM_LEVEL_RUNNING ||
		atomic_load_explicit(&q->closing, memory_order_relaxed))
		return FM_NEVER;
	if (k != q->cold->pad_told)
		next = make_ready(q, k, now);
	return k == q->cold->pad_told ? make_ahead(q, now) : next;
}

/* In strict mode the gate word lies elsewhere, and nothing pads. Nor does a queue that is to take
 * fewer multiprocessors than it could have now: it may be stopped for so long that the number
 * cannot change before it would do harm. */
bool fm_xq_pads(struct fm_xq *q)
{
	_Atomic uint32_t *gate = atomic_load(&q->gate);

	return gate == &q->slot->gate && atomic_load(gate) == FM_GATE_PADS &&
	       atomic_load_explicit(&q->slot->pad, memory_order_relaxed) >= q->cold->pad_k &&
	       !atomic_load(&q->held_by) && !q->closing;
}

unsigned fm_xq_pad_on(struct fm_xq *q)
{
	uint32_t k = atomic_load_explicit(&q->cold->pad_k, memory_order_relaxed);

	return atomic_load_explicit(&q->cold->pad_able, memory_order_relaxed) && k != NO_PAD ? k
											     : 0;
}

bool fm_xq_may_pad(struct fm_xq *q)
{
	return !atomic_load(&q->held_by) &&
	       (atomic_load_explicit(&q->slot->gate, memory_order_relaxed) == FM_GATE_PADS ||
		       !atomic_load_explicit(&q->slot->asks_pad, memory_order_relaxed));
}

/* The scheduler sees this before it sees that the queue is at rest. It is told, too, when a queue
 * that is let pad does not ask any more: its gates do not hold it then. */
void fm_xq_pad_asks(struct fm_xq *q, bool held)
{
	struct fm_slot *s = q->slot;
	bool asks = held && q->cold->pad_able && !q->closing;

	if (atomic_load_explicit(&s->asks_pad, memory_order_relaxed) == asks)
		return;
	atomic_store(&s->asks_pad, asks);
	if (asks || atomic_load(&s->gate) == FM_GATE_PADS)
		fm_client_bell(q->client);
}

static void account(struct fm_xq *q, uint64_t now)
{
	uint64_t ns = fm_sub_sat(now, q->cold->pad_at);

	q->cold->pad_at = now;
	atomic_fetch_add_explicit(&q->slot->padded_ns, ns, memory_order_relaxed);
}

static void begin(struct fm_xq *q, uint64_t now)
{
	struct fm_xq_cold *x = q->cold;

	x->padding = true;
	x->pad_busy = false;
	x->pad_at = now;
	x->interrupted = false;
	atomic_store(&q->slot->padding, x->pad_k);
	fm_xq_publish_gates(q);
	XQ_TRACE(padded, now, q, x->pad_k, atomic_load(&q->slot->sms), fm_slot_pending(q->slot));
}

void fm_xq_pad_ends(struct fm_xq *q, uint64_t now)
{
	struct fm_xq_cold *x = q->cold;

	if (!x->padding)
		return;
	account(q, now);
	x->padding = false;
	atomic_store(&q->slot->padding, 0);
	XQ_TRACE(pad_ended, now, q, atomic_load(&q->slot->padded_ns), fm_slot_pending(q->slot), 0);
}

/* Once each time. */
static void note_busy(struct fm_xq *q)
{
	if (!q->cold->pad_busy)
		fm_client_count_left(q->client, "pad", "another queue pads", 1);
	q->cold->pad_busy = true;
}

/* When it is at rest again although it may pad, a call of the program waits for that, or another
 * queue pads. */
uint64_t fm_xq_pad(struct fm_xq *q, uint64_t now)
{
	struct fm_xq_cold *x = q->cold;
	int rc = q->ops->guardian.pad(q->hwq, x->pad_k);

	if (rc == -EINPROGRESS) {
		if (!x->padding)
			begin(q, now);
		account(q, now);
		x->asked = true;
		return now + FM_XQ_PAD_LOOK;
	}
	fm_xq_pad_ends(q, now);
	if (rc == -EBUSY)
		note_busy(q);
	if (rc == -ESTALE && x->pad_k != NO_PAD) {
		x->pad_k = x->pad_told = NO_PAD;
		x->pad_ahead = 0;
		x->pad_again = now + FM_XQ_PAD_MADE;
	}
	if (rc != -EALREADY && !x->interrupted && fm_slot_pending(q->slot))
		fm_xq_note_stand(q);
	return now + FM_XQ_PAD_AGAIN;
}
