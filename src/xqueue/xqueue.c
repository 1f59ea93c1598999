/* SPDX-License-Identifier: Apache-2.0 */
/* The slow paths of begin and of the end of a wait (xqueue.h). */
#include "base/cancel.h"
#include "progress.h"

/* The scheduler or the agent may wait to hear that the queue is no longer idle (fm_xq_announce),
 * and a new segment begins. */
void fm_xq_edge(struct fm_xq *q, uint64_t now)
{
	struct fm_slot *s = q->slot;

	atomic_store_explicit(&q->seg_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&q->seg_n, 0, memory_order_relaxed);
	atomic_store(&q->edge_at, now);
	atomic_store(&q->edge_gates, atomic_load_explicit(&q->slot->gates, memory_order_relaxed));
	if (fm_xq_may_run(q))
		atomic_store(&s->busy_since, now);
	else if (q->level >= FM_LEVEL_QUEUED)
		XQ_TRACE(rested, now, q, atomic_load(&s->done), fm_slot_pending(s), 0);
	atomic_store(&q->announce, FM_TELL_ALL);
}

static void ring(struct fm_xq *q)
{
	if (atomic_load(&q->slot->bells) & FM_BELL_READY)
		fm_client_bell(q->client);
}

void fm_xq_announce(struct fm_xq *q)
{
	uint8_t whom = atomic_exchange(&q->announce, FM_TELL_NOBODY);

	if (!whom)
		return;
	if (whom == FM_TELL_ALL)
		ring(q);
	fm_watch_wake(q->client);
	/* While others wait for the device, or the queue is stopped, the agent watches for the
	 * queue's end, even if no thread of this process waits for it. */
	if (atomic_load_explicit(&q->client->board->contended, memory_order_relaxed) ||
		!fm_xq_may_run(q))
		fm_client_wake(q->client);
}

void fm_xq_end_slow(struct fm_xq *q)
{
	fm_xq_use(q);
	fm_count_raise(&q->slot->passed, fm_xq_is_own(q));
	fm_xq_announce(q);
	fm_xq_used(q);
}

void fm_xq_count(struct fm_xq *q)
{
	uint64_t before = atomic_fetch_add(&q->slot->begun, 1);

	if (fm_xq_was_idle(q, before))
		fm_xq_edge(q, fm_now());
	fm_xq_end_slow(q);
}

/* Other programs are to stop for the command that comes. So the scheduler is told first, and the
 * guardian puts something in front of a command that must find the whole device free. This
 * process's own threads are woken later. */
static void enter(struct fm_xq *q)
{
	uint8_t all = FM_TELL_ALL;

	if (!q->ops->guardian.enter || !fm_xq_is_first(q) || !q->ops->guardian.enter(q->hwq, false))
		return;
	FM_NO_CANCEL;
	if (atomic_compare_exchange_strong(&q->announce, &all, FM_TELL_OWN))
		ring(q);
	q->ops->guardian.enter(q->hwq, true);
}

/* Places a gate in front of a command that does not fit into the segment, that must not run now, or
 * that is to be timed. Returns the estimate to use. *none: the command must not run now, and there
 * is no gate in front of it.
 *
 * The gate word may be closed only now, or before the device comes to a gate at which it looks
 * itself, by a scheduler that takes the queue for idle. It is told before the launch: the driver's
 * call may wait for what is behind the gate, and would never come to fm_xq_end(). */
static uint64_t gate(struct fm_xq *q, uint64_t est, uint64_t now, bool *none)
{
	uint64_t interval = atomic_load(&q->interval), gates;
	bool curious = false, full, closed, device, placed;

	pthread_mutex_lock(&q->cold->lock);
	gates = atomic_load(&q->slot->gates);
	device = q->device_gates;
	if (est > FM_XQ_LONG && est != UINT64_MAX)
		atomic_store(
			&q->long_mark, atomic_load_explicit(&q->slot->begun, memory_order_relaxed));
	if (est != UINT64_MAX && est >= fm_xq_guard_from(q, 0))
		q->cold->guard_mark = atomic_load_explicit(&q->slot->begun, memory_order_relaxed);
	/* The command is alone in its segment, unless gates cost the device more than an error
	 * does. */
	if (device && est == UINT64_MAX) {
		est = q->spacing / FM_XQ_UNKNOWN_PARTS & ~UINT64_C(1); /* no bound */
		curious = fm_xq_device_curious(q);
	}
	full = atomic_load(&q->seg_n) &&
	       (fm_add_sat(atomic_load(&q->seg_ns), fm_xq_weight(est)) > interval ||
		       atomic_load(&q->seg_n) >= atomic_load(&q->seg_most));
	closed = !fm_xq_may_run(q) && !fm_xq_is_behind(q);
	if (full && !closed && !curious && device)
		full = !fm_xq_device_far(q, est, now);
	/* Another thread may just have found that there are no gates. */
	if ((full || closed || curious) && q->level >= FM_LEVEL_QUEUED)
		fm_xq_place_gate(q, curious, now);
	placed = atomic_load(&q->slot->gates) != gates;
	*none = closed && !placed;
	if (device && placed)
		q->cold->told_by--; /* this command has begun, and comes behind the gate */
	fm_xq_leave(q);
	if (placed || closed || !fm_xq_may_run(q))
		fm_xq_announce(q);
	return est;
}

uint64_t fm_xq_begin_slow(struct fm_xq *q, uint64_t before, uint64_t est, bool waits)
{
	bool none = false;
	uint64_t now;

	if (atomic_load(&q->client->dead))
		return est;
	now = fm_now();
	if (fm_xq_was_idle(q, before)) {
		fm_xq_edge(q, now);
		enter(q);
	}
	if (waits || q->level < FM_LEVEL_QUEUED || !fm_xq_may_run(q))
		fm_xq_announce(q);
	if (atomic_load(&q->interval) == UINT64_MAX && fm_xq_may_run(q))
		return est;
	if (q->level >= FM_LEVEL_QUEUED)
		est = gate(q, est, now, &none);
	/* It may just have turned out that gates do not work. */
	if (q->level < FM_LEVEL_QUEUED) {
		fm_xq_announce(q);
		fm_xq_hold(q, est, now);
	} else if (FM_UNLIKELY(none) && q->client->rests) {
		fm_rest_await(q);
	}
	return est;
}

/* While the program waits, the device works. If it waited for most of the time, that is the
 * device's time. */
static enum fm_took took_how(const struct fm_xq *q, uint64_t took, uint64_t waited)
{
	if (!waited && fm_xq_progress(q)->hears_gates)
		return FM_WITH_PAUSES;
	return 4 * waited >= 3 * took ? FM_EXACT : FM_AT_MOST;
}

void fm_xq_synced_slow(struct fm_xq *q, uint64_t mark, uint64_t since)
{
	struct fm_xq_cold *x = q->cold;
	uint64_t now, start, took, key[FM_SEG_KEYS], synced = atomic_load(&x->synced);
	unsigned n;

	if (atomic_load(&q->client->dead))
		return;
	now = fm_now();
	while (synced < mark && !atomic_compare_exchange_weak(&x->synced, &synced, mark))
		;
	if (atomic_load(&q->guessed)) { /* the lock covers a guess */
		pthread_mutex_lock(&x->lock);
		if (atomic_load(&x->synced) >= atomic_load(&q->slot->done))
			atomic_store(&q->guessed, false);
		fm_xq_leave(q);
	}
	if (atomic_load(&q->slot->done) >= mark)
		return; /* nothing else is new */
	fm_xq_advance(q, mark, now);
	if (mark != fm_xq_mark(q))
		return;
	pthread_mutex_lock(&x->lock);
	fm_xq_reap(q);
	/* Everything is done: what was launched since the last gate is a finished segment. */
	n = atomic_load_explicit(&q->seg_n, memory_order_relaxed);
	start = FM_MAX(atomic_load(&q->edge_at), x->segment_at);
	for (unsigned i = 0; i < FM_MIN(n, (unsigned)FM_SEG_KEYS); i++)
		key[i] = atomic_load_explicit(&q->seg_key[i], memory_order_relaxed);
	took = fm_sub_sat(now, start);
	/* Otherwise it is not known when the device passed its last gate. */
	if (fm_xq_progress(q)->hears_gates ||
		atomic_load(&q->slot->gates) == atomic_load(&q->edge_gates)) {
		if (n)
			XQ_TRACE(segment_done, now, q, 0, n, took);
		fm_xq_learn(q, key, n, took, took_how(q, took, since ? now - since : 0));
	}
	fm_xq_device_stopped(q, now);
	fm_xq_leave(q);
}

void fm_xq_nudge(struct fm_xq *q)
{
	struct fm_xq_cold *x = q->cold;

	if (!atomic_load_explicit(&q->client->board->contended, memory_order_relaxed) ||
		!fm_slot_pending(q->slot) || atomic_load(&q->client->dead))
		return;
	pthread_mutex_lock(&x->lock);
	if (!x->tracks && !q->closing)
		fm_xq_track(q, 0, false);
	fm_xq_leave(q);
}
