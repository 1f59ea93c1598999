/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Level 1: work that cannot be stopped in the driver's queue is held back before it gets there. At
 * most a window of device time may be under way. The caller waits while the window is full, or
 * while its group may not run.
 */
#include "progress.h"
#include <errno.h>

/* The work under way may wait for something that this very caller does next (set a user event, or
 * what a host function waits for). So this counts for how long callers have been held while nothing
 * moved. Lock held. */
static void look_still(struct fm_xq *q, uint64_t now)
{
	struct fm_xq_cold *x = q->cold;
	uint64_t done = atomic_load(&q->slot->done);

	if (done != x->held_done || done >= fm_xq_mark(q))
		x->held_still = 0;
	else if (x->holds)
		x->held_still += fm_sub_sat(now, x->held_seen);
	x->held_done = done;
	x->held_seen = now;
}

static bool is_stopped(const struct fm_xq *q)
{
	return atomic_load_explicit(&q->slot->shares, memory_order_relaxed) == FM_SHARES;
}

/* A segment ends. It takes as many parts of the window as it is long, or one if its length is not
 * known. The next segment is longer if nothing waits for its end. Lock held. If the segment is to
 * teach the estimates, the lock is dropped for a moment, to see whether the device has begun it. */
static void seal(struct fm_xq *q)
{
	uint64_t part = q->client->set.window_ns / FM_XQ_WINDOW_PARTS, ns, index;
	uint64_t most = atomic_load(&q->interval);
	struct fm_xq_cold *x = q->cold;
	bool learns = atomic_load(&q->seg_ns) > most || is_stopped(q) ||
		      ++x->unsampled >= FM_XQ_LEARN_EVERY;

	if (learns)
		fm_xq_reap(q);
	ns = atomic_load(&q->seg_ns);
	index = x->gate_index + (ns > most ? 1 : FM_MAX(1u, (ns + part - 1) / part));
	/* The segment goes on, and the next launch tries again. */
	if (fm_xq_track(q, index, learns) == -EBUSY)
		return;
	x->gate_index = index;
	x->unsampled = learns ? 0 : x->unsampled;
	atomic_store(&q->seg_ns, 0);
	atomic_store(&q->seg_n, 0);
	if (most != UINT64_MAX)
		atomic_store(&q->interval, part * (is_stopped(q) ? 1 : FM_XQ_UNSTOPPED_PARTS));
}

/* Is as much under way as the window allows? If nothing moves for FM_XQ_PATIENCE intervals, the
 * window does not count until something does. Lock held. */
static bool window_full(struct fm_xq *q)
{
	unsigned parts = FM_XQ_WINDOW_PARTS * (is_stopped(q) ? 1 : FM_XQ_UNSTOPPED_WINDOWS);
	struct fm_xq_cold *x = q->cold;

	return !fm_client_free_run(q->client) && x->gate_index >= x->segments_done + parts &&
	       x->held_still < FM_XQ_PATIENCE * q->spacing;
}

/* Must it be known now which segments have ended? If not, it is cheaper to ask for several at once.
 * Lock held. */
static bool asks(struct fm_xq *q, bool run)
{
	return !run || q->cold->tracks >= FM_XQ_UNSTOPPED_TRACKS || window_full(q) ||
	       atomic_load_explicit(&q->client->board->contended, memory_order_relaxed);
}

/* Publishes how far the queue may get. A group that may not run is held for as long as that lasts.
 * But a queue that waits for this caller would never come to rest: it would keep all others from
 * the device, and so never get it back. After FM_XQ_HELD_STILL_MOST it counts as at rest, until it
 * moves. Lock held. */
static void publish(struct fm_xq *q, bool run, uint64_t now)
{
	struct fm_slot *s = q->slot;

	if (run || q->cold->held_still < FM_XQ_HELD_STILL_MOST)
		atomic_store(&s->released, run ? UINT64_MAX : fm_xq_mark(q));
	else if (atomic_load(&s->released) != q->cold->held_done)
		fm_xq_note_rest(q, now);
}

static uint64_t hold_nap(const struct fm_xq *q)
{
	return fm_xq_progress(q)->polled ? FM_XQ_POLL_NAP : FM_XQ_HOLD_NAP;
}

void fm_xq_hold(struct fm_xq *q, uint64_t est, uint64_t start)
{
	struct fm_xq_cold *x = q->cold;
	struct fm_client *c = q->client;
	uint64_t seg = fm_add_sat(atomic_load(&q->seg_ns), fm_xq_weight(est)), now = start;
	bool held = false, counted = seg <= atomic_load(&q->interval);

	for (;; now = fm_now()) {
		uint32_t turn = atomic_load(&x->turn);
		bool run, waits;

		pthread_mutex_lock(&x->lock);
		run = fm_xq_may_run(q); /* the lock's holder sees whether this caller is held */
		if (!counted && atomic_load(&q->seg_n))
			seal(q);
		counted = true;
		if (asks(q, run))
			fm_xq_reap(q);
		look_still(q, now);
		waits = (!run || window_full(q)) && !atomic_load(&c->dead);
		x->holds += (unsigned)waits - held;
		publish(q, run, now);
		fm_xq_leave(q);
		if (!waits)
			break;
		if (!held)
			XQ_TRACE(hold_begin, now, q, est, fm_slot_pending(q->slot), 0);
		held = true;
		fm_turn_wait(q, turn, fm_now() + (run ? hold_nap(q) : FM_XQ_HOLD_NAP));
	}
	if (held) {
		XQ_TRACE(hold_end, now, q, now - start, fm_slot_pending(q->slot), 0);
		atomic_fetch_add_explicit(&q->slot->held_ns, now - start, memory_order_relaxed);
		fm_client_wake(c); /* the agent slept, and the gate may be closed again */
	}
	if (!atomic_load(&q->slot->busy_since))
		atomic_store(&q->slot->busy_since, now);
}

/* If nothing wakes this thread, it looks at a closed gate less often. */
static uint64_t await_nap(const struct fm_xq *q, bool run)
{
	return fm_xq_progress(q)->polled && !run ? FM_XQ_CLOSED_NAP : hold_nap(q);
}

/* As above, the work under way may wait for this very caller, so the wait is bounded. The time at a
 * closed gate does not count, unless the program itself has suspended the queue: then this thread
 * may be the one that resumes it. A device that looks at gates itself does not report when it has
 * passed one. */
void fm_xq_await_gates(struct fm_xq *q)
{
	struct fm_xq_cold *x = q->cold;
	uint64_t now = fm_now(), still = 0, moved = 0;

	while (!atomic_load(&q->client->dead) && !fm_xq_own_suspended(q)) {
		uint32_t turn = atomic_load(&x->turn);
		uint64_t done = fm_slot_done(q->slot);
		bool run = fm_xq_may_run(q), is_free = fm_xq_free(q), behind;

		if (done != moved)
			still = 0;
		moved = done;
		pthread_mutex_lock(&x->lock);
		fm_xq_reap(q);
		behind = !x->gone &&
			 (fm_xq_progress(q)->behind_gate(q) ||
				 (q->steered && !run && !x->padding && fm_slot_pending(q->slot)));
		fm_xq_leave(q);
		if (!behind || (is_free && still >= FM_XQ_AWAIT_GATES_MOST))
			break;
		fm_turn_wait(q, turn, fm_now() + await_nap(q, run));
		still += fm_xq_free_ns(q, is_free, &now);
	}
}

/* A queue without work never gets its gate opened, so it counts as free. */
static bool is_unheld(struct fm_xq *q)
{
	return fm_xq_free(q) || !fm_slot_pending(q->slot);
}

void fm_xq_await_over(struct fm_xq *q, uint64_t most, bool (*over)(void *hwq))
{
	uint64_t now = fm_now(), still = 0, before;

	while (!over(q->hwq) && still < most && !atomic_load(&q->client->dead)) {
		bool was_free = is_unheld(q);

		fm_turn_wait(q, atomic_load(&q->cold->turn), now + FM_XQ_AWAIT_OVER_LOOK);
		before = now;
		now = fm_now();
		still += was_free && is_unheld(q) ? now - before : 0;
	}
}

/* Bounded in the same way, by less. Here only the time counts in which the queue may run: if the
 * caller went into the driver while work comes to a closed gate, it would stay there. */
void fm_xq_await_end(struct fm_xq *q)
{
	uint64_t mark = fm_xq_mark(q), now = fm_now(), still = 0;
	struct fm_xq_cold *x = q->cold;

	while (fm_slot_done(q->slot) < mark && still < FM_XQ_AWAIT_END_MOST &&
		!atomic_load(&q->client->dead) && !fm_xq_own_suspended(q)) {
		uint32_t turn = atomic_load(&x->turn);
		bool run = fm_xq_may_run(q);

		pthread_mutex_lock(&x->lock);
		if (!x->gone && !q->closing)
			fm_xq_progress(q)->look(q, mark, now);
		if (!x->gone)
			fm_xq_reap(q);
		fm_xq_leave(q);
		fm_turn_wait(q, turn, fm_now() + FM_XQ_LOOK);
		still += run && fm_xq_may_run(q) ? fm_sub_sat(fm_now(), now) : 0;
		now = fm_now();
	}
}
