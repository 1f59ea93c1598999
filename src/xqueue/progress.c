/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"
#include <errno.h>

/* How far the hwqueue gets by itself. Work behind a closed gate of ours has not ended, however long
 * its end cannot be queried. */
static uint64_t let_past(struct fm_xq *q)
{
	uint64_t front;

	if (q->cold->interrupted)
		return atomic_load(&q->slot->done);
	front = fm_ring_front(q);
	return front == UINT64_MAX ? fm_xq_mark(q) : front;
}

/* Are all commands that have begun held in front of the driver? Then nothing can end until the gate
 * opens, and the agent is told of that. */
static bool all_are_held(struct fm_xq *q)
{
	uint64_t begun = atomic_load(&q->slot->begun);

	return !fm_xq_may_run(q) && q->cold->holds && begun - fm_xq_mark(q) == q->cold->holds;
}

/* A launch is under way, and usually over soon. But a call that waits for its end behind a closed
 * gate can take any time; it reports that end itself. */
static uint64_t after_launch(struct fm_xq_cold *x, uint64_t now)
{
	if (!x->launch_at)
		x->launch_at = now;
	return now + FM_MIN(FM_MAX(now - x->launch_at, FM_XQ_LAUNCH_LOOK), FM_XQ_LOOK_MAX);
}

/* When to query trackers that are under way. They are not queried where the driver calls back. */
static uint64_t ask_again(const struct fm_xq *q, uint64_t now)
{
	return q->ops->reap ? now + fm_xq_look(atomic_load(&q->edge_at), now) : FM_NEVER;
}

/* Puts a tracker behind the last command: at once when the gate is closed, else after an interval,
 * so that short bursts cost nothing. */
uint64_t fm_xq_watch_tail(struct fm_xq *q, uint64_t now)
{
	struct fm_xq_cold *x = q->cold;
	int rc;

	if (x->tracks || !fm_xq_end_matters(q)) {
		x->tail_at = x->launch_at = 0;
		return x->tracks && fm_xq_end_matters(q) ? ask_again(q, now) : FM_NEVER;
	}
	if (!fm_xq_may_run(q))
		x->tail_at = now;
	else if (!x->tail_at)
		x->tail_at = now + q->spacing;
	if (now < x->tail_at)
		return x->tail_at;
	x->tail_at = 0;
	if (fm_xq_mark(q) <= atomic_load(&q->slot->done))
		return all_are_held(q) ? FM_NEVER : after_launch(x, now);
	x->launch_at = 0;
	rc = fm_xq_track(q, 0, false);
	if (rc == -EBUSY) {
		x->tail_at = now;
		return now + fm_xq_look(atomic_load(&q->edge_at), now);
	}
	if (rc) {
		fm_xq_refused(q, let_past(q), now);
		return now + FM_XQ_LOOK_MAX;
	}
	return ask_again(q, now);
}

uint64_t fm_xq_look_for_loss(struct fm_xq *q, uint64_t now)
{
	struct fm_xq_cold *x = q->cold;
	uint64_t since = FM_MAX(x->progress_at, x->asked_at);

	since = FM_MAX(since, atomic_load(&q->edge_at));
	if (!q->ops->lost)
		return FM_NEVER;
	if (fm_sub_sat(now, since) < FM_XQ_GIVE_UP)
		return since + FM_XQ_GIVE_UP;
	x->asked_at = now;
	if (fm_xq_is_lost(q)) {
		fm_xq_advance(q, fm_xq_mark(q), now);
		fm_xq_open_all(q);
	}
	return now + FM_XQ_GIVE_UP;
}

/* A queue that stands at its gate is not expected to move. */
static bool should_move(struct fm_xq *q)
{
	return fm_xq_end_matters(q) &&
	       (fm_xq_may_run(q) || atomic_load(&q->slot->done) < let_past(q));
}

static uint64_t watch_trackers(struct fm_xq *q, uint64_t now)
{
	uint64_t next = fm_xq_watch_tail(q, now);

	return q->ops->lost && should_move(q) ? FM_MIN(next, fm_xq_look_for_loss(q, now)) : next;
}

static void look_by_tracker(struct fm_xq *q, uint64_t count, uint64_t now)
{
	if (!q->cold->tracks && fm_xq_mark(q) >= count)
		fm_xq_track(q, 0, false);
}

static bool behind_own_gate(const struct fm_xq *q)
{
	return atomic_load(&q->gates_pending);
}

/* The last commands are tracked while the hwqueue can still be used. If that is not possible nobody
 * will report their end. */
static void close_with_tracker(struct fm_xq *q, uint64_t now)
{
	if (fm_slot_pending(q->slot) && q->ops->track && fm_xq_track(q, 0, false))
		fm_xq_advance(q, fm_xq_mark(q), now);
}

/* No tracker will be queried any more, so everything counts as done. */
static void close_as_done(struct fm_xq *q, uint64_t now)
{
	fm_xq_advance(q, fm_xq_mark(q), now);
}

static bool no_tracker(const struct fm_xq *q)
{
	return !q->cold->tracks && fm_ring_is_empty(q);
}

const struct fm_progress fm_progress_callback = {
	.hears_gates = true,
	.watch = watch_trackers,
	.look = look_by_tracker,
	.behind_gate = behind_own_gate,
	.close = close_with_tracker,
	.told_all = no_tracker,
};

const struct fm_progress fm_progress_asked = {
	.polled = true,
	.hears_gates = true,
	.watch = watch_trackers,
	.look = look_by_tracker,
	.behind_gate = behind_own_gate,
	.close = close_as_done,
	.told_all = no_tracker,
};

static void look_at_word(struct fm_xq *q, uint64_t count, uint64_t now)
{
	fm_xq_device_look(q, now);
}

/* A gate that was just placed with no new work in front of it may not have been reached by the
 * device yet, and its progress does not tell. */
static bool behind_device_gate(const struct fm_xq *q)
{
	uint64_t fenced = q->cold->fenced;

	return fm_slot_progress(q->slot) < fenced ||
	       atomic_load_explicit(&q->slot->progress, memory_order_acquire) == 2 * fenced + 1;
}

static void close_with_word(struct fm_xq *q, uint64_t now)
{
	fm_xq_device_close(q);
}

/* Trackers may be under way as well (fm_xq_nudge). */
static bool word_is_written(const struct fm_xq *q)
{
	return no_tracker(q) && !fm_slot_pending(q->slot);
}

const struct fm_progress fm_progress_word = {
	.polled = true,
	.watch = fm_xq_device_pump,
	.look = look_at_word,
	.behind_gate = behind_device_gate,
	.close = close_with_word,
	.told_all = word_is_written,
};
