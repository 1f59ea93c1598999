/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is the device done with this process, for as long as the word of the rest is closed? Memory is
 * unmapped by the answer, so it is never a guess: what counts as finished because its end could not
 * be asked for, and a queue that has not moved for a while, are not at rest. Each queue is, if
 *
 *   - all its commands have finished, as the device or the driver has said; or
 *   - the device stands at one of its gates, as the device says. Both words of the rest were closed
 *     before that was read, and the device waits for the second when it has said that it goes on
 *     (hwqueue.h). So what it says may be old only if the device waits there; or
 *   - its gates are this process's own, the commands in front of the first are finished, and it was
 *     looked at under the lock under which gates are opened; or
 *   - callers are held in front of the driver (level 1), each that has begun a command; or
 *   - it was stopped in the middle of a command, and does not go on before it may run.
 *
 * A gate within a graph says nothing here: it writes the word of the queue on which it was
 * captured, and the graph may have other branches that run. The queue has to come to a gate of its
 * own behind the graph.
 *
 * What was found of one queue stays true while the next is looked at: each was told to hold before,
 * and a launch either sees that, and goes behind a gate, or was counted in `begun` before this read
 * it.
 */
#include "still.h"
#include "progress.h"
#include <errno.h>

/* How many commands have finished for certain. */
static uint64_t finished(const struct fm_xq *q)
{
	uint64_t said = FM_MAX(atomic_load(&q->cold->synced), fm_slot_progress(q->slot));

	if (q->device_gates || atomic_load(&q->guessed))
		return said;
	return FM_MAX(said, atomic_load(&q->slot->done));
}

/* A queue with a guard also says that it stands while launches are made again that were left out
 * (guard.h); only when it is stopped, or was not, that is over. */
static bool is_made_again(struct fm_xq *q)
{
	int rc;

	if (!fm_xq_is_stopped(q))
		return false;
	rc = q->closing ? -EAGAIN : q->ops->stop.interrupt(q->hwq);
	return rc && rc != -EALREADY;
}

static bool at_device_gate(struct fm_xq *q)
{
	struct fm_xq_cold *x = q->cold;
	uint64_t says = atomic_load(&q->slot->progress);

	return says & 1 && !x->parts && says > x->vague && !is_made_again(q);
}

static bool at_own_gate(struct fm_xq *q, uint64_t done)
{
	return q->cold->interrupted || done >= fm_ring_front(q);
}

/* Each caller that has begun a command waits in front of the driver. */
static bool all_are_held(struct fm_xq *q, uint64_t begun, uint64_t done)
{
	uint64_t passed = fm_xq_mark(q);

	return done >= passed && begun - passed == q->cold->holds;
}

/* Lock held. What begins after `begun` was read is held. */
static bool is_still(struct fm_xq *q)
{
	uint64_t begun = atomic_load(&q->slot->begun), done = finished(q);

	if (q->cold->gone) /* its hwqueue may be, too */
		return atomic_load(&q->cold->passed);
	if (done >= begun)
		return !is_made_again(q);
	if (q->device_gates)
		return at_device_gate(q);
	if (q->level >= FM_LEVEL_QUEUED)
		return at_own_gate(q, done);
	return q->cold->interrupted || all_are_held(q, begun, done);
}

/* Sees to it that the end of what is under way becomes known. Lock held. */
static void ask_for_its_end(struct fm_xq *q)
{
	uint64_t now = fm_now();

	if (q->closing)
		return;
	if (q->device_gates)
		fm_xq_device_look(q, now);
	else
		fm_xq_watch_tail(q, now);
}

/* The thread that has the lock may wait in the driver. */
static bool take(struct fm_xq *q)
{
	uint64_t until = fm_now() + FM_XQ_LOCK_MOST;

	while (pthread_mutex_trylock(&q->cold->lock))
		if (fm_now() > until)
			return false;
	return true;
}

static bool look_at(struct fm_xq *q)
{
	bool still;

	if (!take(q))
		return false;
	fm_xq_reap(q);
	still = is_still(q);
	if (!still && !q->cold->gone)
		ask_for_its_end(q);
	fm_xq_leave(q);
	return still;
}

static int say_which(const struct fm_xq *q, uint64_t since, struct fm_err *why)
{
	double s = (double)fm_sub_sat(fm_now(), since) / (double)FM_S;

	fm_err_set(why, -EAGAIN, "queue %u has run for %.1f s and has not come to a gate",
		q->slot_index, s);
	fm_err_hint(why,
		"memory moves between commands: a kernel that never ends, or waits for another, "
		"keeps it in place (memory-pin says so beforehand)");
	return -EAGAIN;
}

/* Queues with a reference each, because locks of queues are not taken under the client's. */
static unsigned keep_all(struct fm_client *c, struct fm_xq *kept[FM_CLIENT_QUEUES])
{
	unsigned n = 0;

	pthread_mutex_lock(&c->lock);
	for (unsigned i = 0; i < FM_CLIENT_QUEUES; i++) {
		if (!c->queue[i])
			continue;
		fm_xq_keep(c->queue[i]);
		kept[n++] = c->queue[i];
	}
	pthread_mutex_unlock(&c->lock);
	return n;
}

static int look_at_all(struct fm_client *c, uint64_t since, struct fm_err *why)
{
	struct fm_xq *kept[FM_CLIENT_QUEUES];
	unsigned n = keep_all(c, kept);
	int rc = 0;

	for (unsigned i = 0; i < n; i++) {
		if (!look_at(kept[i]) && !rc)
			rc = say_which(kept[i], since, why);
		fm_xq_unref(kept[i]);
	}
	return rc;
}

/* A queue that was given back may have had work whose end was given up. The slot is not another's
 * before the device has said that all of it is over; what the slot counts is reset before that. */
void fm_rest_left(struct fm_xq *q)
{
	uint64_t begun = atomic_load(&q->slot->begun);

	q->client->unsure[q->slot_index] = finished(q) < begun ? begun : 0;
}

static int look_at_left(struct fm_client *c, struct fm_err *why)
{
	int rc = 0;

	pthread_mutex_lock(&c->lock);
	for (unsigned i = 0; i < FM_CLIENT_QUEUES; i++) {
		if (!c->unsure[i])
			continue;
		if (fm_slot_progress(&c->board->slot[i]) >= c->unsure[i])
			c->unsure[i] = 0;
		else
			rc = -EAGAIN;
	}
	pthread_mutex_unlock(&c->lock);
	if (rc)
		fm_err_set(why, rc, "work of a queue that is gone may still be under way");
	return rc;
}

static int look_for_others(struct fm_client *c, struct fm_err *why)
{
	uint64_t n = atomic_load(&c->board->ungoverned);

	if (!n)
		return 0;
	fm_err_set(why, -EBUSY, "%llu calls have not passed a queue of Fermata's",
		(unsigned long long)n);
	fm_err_hint(why, "`fermata ps --calls` names them");
	return -EBUSY;
}

int fm_still(struct fm_client *c, uint64_t since, struct fm_err *why)
{
	int rc = look_for_others(c, why);

	if (!rc)
		rc = look_at_all(c, since, why);
	return rc ? rc : look_at_left(c, why);
}
