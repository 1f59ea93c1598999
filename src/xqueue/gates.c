/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gates, trackers and the rules of when they open.
 *
 * Locks: x->lock guards the cold half and is held over driver calls. Driver callbacks (reached)
 * only try it, so that they never wait for a thread that waits for the driver. They advance the
 * board's counters, and the thread that holds the lock, or takes it next, takes the tracker over.
 * c->lock may be taken while x->lock is held, never the other way round.
 */
#include "base/cancel.h"
#include "segment.h"
#include <errno.h>
#include <stdlib.h>

FM_HOT bool fm_xq_may_run(struct fm_xq *q)
{
	return atomic_load(atomic_load(&q->gate)) == FM_GATE_OPEN && !atomic_load(&q->held_by);
}

void fm_xq_advance(struct fm_xq *q, uint64_t done, uint64_t now)
{
	struct fm_slot *s = q->slot;
	uint64_t seen = atomic_load(&s->done), busy, after;
	bool rests;

	fm_xq_may_finish(q, done);
	while (seen < done && !atomic_compare_exchange_weak(&s->done, &seen, done))
		;
	if (seen >= done)
		return;
	atomic_store_explicit(&s->done_at, now, memory_order_relaxed);
	/* busy_since is read before `begun`: a launch after that read sets a new value, and the
	 * exchange fails. */
	busy = atomic_load(&s->busy_since);
	rests = atomic_load(&s->begun) == done;
	after = rests || done >= atomic_load(&s->released) ? 0 : now;
	if (!after && !rests && q->level >= FM_LEVEL_QUEUED)
		XQ_TRACE(rested, now, q, done, fm_slot_pending(s), 0);
	if (busy && atomic_compare_exchange_strong(&s->busy_since, &busy, after) && now > busy)
		atomic_fetch_add_explicit(&s->device_ns, now - busy, memory_order_relaxed);
	if (rests && atomic_load(&s->bells) & FM_BELL_IDLE)
		fm_client_bell(q->client);
	fm_turn_wake(q);
}

static void reached(void *cookie, uint64_t now);

/* Any thread. */
static void segments_done(struct fm_xq_cold *x, uint64_t index)
{
	uint64_t seen = atomic_load(&x->segments_done);

	while (seen < index && !atomic_compare_exchange_weak(&x->segments_done, &seen, index))
		;
}

/* A queue has few trackers under way, and uses them again. A queue that is stopped may have many,
 * and keeps only some of them when it has gone on. Lock held. */
static struct fm_track *take_tracker(struct fm_xq_cold *x)
{
	struct fm_track *t = x->spare;

	if (!t)
		return malloc(sizeof(*t));
	x->spare = t->next;
	x->spares--;
	return t;
}

static void give_tracker(struct fm_xq_cold *x, struct fm_track *t)
{
	if (x->spares == FM_XQ_SPARES) {
		free(t);
		return;
	}
	t->next = x->spare;
	x->spare = t;
	x->spares++;
}

/* Around calls that put something into the hwqueue. Either a callback that comes meanwhile sees
 * that they are made, and opens the next gate itself, or what it has left is seen here. */
static void enter_driver(struct fm_xq *q)
{
	atomic_store(&q->cold->in_driver, true);
	if (atomic_load(&q->cold->reached))
		fm_xq_open_alone(q, fm_now());
}

static void leave_driver(struct fm_xq *q)
{
	atomic_store(&q->cold->in_driver, false);
}

int fm_xq_track(struct fm_xq *q, uint64_t index, bool learns)
{
	struct fm_xq_cold *x = q->cold;
	struct fm_track *t = q->ops->track && !q->closing ? take_tracker(x) : NULL;
	int rc;

	if (!t) {
		segments_done(x, index);
		return -ENOMEM;
	}
	t->q = q;
	t->index = index;
	t->done = fm_xq_mark(q);
	t->learns = learns;
	t->exact = x->segments_done < x->track_index;
	t->n = index ? atomic_load_explicit(&q->seg_n, memory_order_relaxed) : 0;
	for (unsigned i = 0; learns && i < FM_MIN(t->n, (unsigned)FM_SEG_KEYS); i++)
		t->key[i] = atomic_load_explicit(&q->seg_key[i], memory_order_relaxed);
	x->tracks++;
	atomic_fetch_add(&q->refs, 1);
	enter_driver(q);
	rc = q->ops->track(q->hwq, reached, t);
	leave_driver(q);
	if (rc != -EBUSY)
		x->track_index = FM_MAX(x->track_index, index);
	if (!rc)
		return 0;
	x->tracks--;
	if (rc != -EBUSY)
		segments_done(x, index);
	atomic_fetch_sub(&q->refs, 1);
	give_tracker(x, t);
	return rc;
}

/* How many segments may be open ahead of the one that runs. If no other program waits, more may be:
 * then the device never waits for us, and a newcomer waits for a few segments once. */
static unsigned lead(struct fm_xq *q)
{
	struct fm_client *c = q->client;
	bool contended = atomic_load_explicit(&c->board->contended, memory_order_relaxed);
	unsigned alone = (FM_XQ_LEAD_ALONE + fm_xq_wide(q) - 1) / fm_xq_wide(q);

	return contended ? c->set.lead : FM_MAX(c->set.lead, alone);
}

/* Opens the gates that are due; returns how many. With the lock of the XQueue or without. */
static unsigned open_due(struct fm_xq *q, uint64_t now)
{
	struct fm_xq_cold *x = q->cold;
	bool stuck = !q->in_order && fm_sub_sat(now, x->progress_at) > FM_XQ_PATIENCE * q->spacing;
	unsigned opened = 0;

	while (fm_xq_may_run(q)) {
		uint64_t due = fm_xq_ungated(q) || stuck ? UINT64_MAX : x->segments_done + lead(q);

		if (!fm_ring_open(q, due, false))
			break;
		opened++;
		stuck = false;
	}
	return opened;
}

/* The queue had come to rest at the gate: the segment behind it begins now. */
static void goes_on(struct fm_xq *q, unsigned opened, uint64_t now)
{
	uint64_t none = 0;

	XQ_TRACE(gates_passed, now, q, opened, fm_slot_pending(q->slot), 0);
	q->cold->progress_at = now;
	if (fm_slot_pending(q->slot) &&
		atomic_compare_exchange_strong(&q->slot->busy_since, &none, now)) {
		q->cold->segment_at = now;
		XQ_TRACE(went_on, now, q, atomic_load(&q->slot->done), fm_slot_pending(q->slot), 0);
	}
	fm_turn_wake(q);
}

void fm_xq_open_gates(struct fm_xq *q, uint64_t now)
{
	unsigned opened = atomic_load(&q->gates_pending) ? open_due(q, now) : 0;

	if (opened)
		goes_on(q, opened, now);
}

void fm_xq_open_all(struct fm_xq *q)
{
	segments_done(q->cold, q->cold->gate_index);
	while (fm_ring_open(q, UINT64_MAX, true))
		;
}

/* A driver may call back while a gate is opened, in the same thread. Then the outer call goes on
 * for the inner one. */
void fm_xq_open_alone(struct fm_xq *q, uint64_t now)
{
	struct fm_xq_cold *x = q->cold;
	unsigned calls = 1;

	if (!fm_xq_opens_alone(q) || atomic_fetch_add(&x->alone, 1))
		return;
	do {
		fm_xq_open_gates(q, now);
		calls = atomic_fetch_sub(&x->alone, calls) - calls;
	} while (calls);
}

/* Takes over what callbacks left, oldest first. Returns how many references to drop. Lock held. */
static unsigned collect(struct fm_xq *q)
{
	struct fm_xq_cold *x = q->cold;
	struct fm_track *list = atomic_exchange(&x->reached, NULL), *ordered = NULL, *next;
	unsigned n = 0;

	for (; list; list = next) {
		next = list->next;
		list->next = ordered;
		ordered = list;
	}
	for (; ordered; ordered = next, n++) {
		struct fm_track *t = ordered;
		uint64_t start = FM_MAX(atomic_load(&q->edge_at), x->segment_at);

		next = t->next;
		if (t->index) {
			XQ_TRACE(segment_done, t->at, q, t->index, t->n, fm_sub_sat(t->at, start));
			if (t->learns)
				fm_xq_learn(q, t->key, t->n, fm_sub_sat(t->at, start),
					t->exact ? FM_EXACT : FM_AT_MOST);
			x->segment_at = FM_MAX(x->segment_at, t->at);
		}
		x->progress_at = FM_MAX(x->progress_at, t->at);
		x->tracks--;
		give_tracker(x, t);
	}
	return n;
}

void fm_xq_reap(struct fm_xq *q)
{
	if (!q->ops->reap || !q->cold->tracks)
		return;
	q->ops->reap(q->hwq);
	fm_xq_leave(q);
	pthread_mutex_lock(&q->cold->lock);
}

void fm_xq_refused(struct fm_xq *q, uint64_t mark, uint64_t now)
{
	struct fm_xq_cold *x = q->cold;

	if (x->refused != mark) {
		x->refused = mark;
		x->refused_at = now;
	}
	if (now - x->refused_at <= FM_XQ_GIVE_UP)
		return;
	atomic_store(&q->guessed, true);
	fm_xq_advance(q, mark, now);
}

bool fm_xq_end_matters(struct fm_xq *q)
{
	return !q->closing && fm_slot_pending(q->slot) &&
	       (!fm_xq_may_run(q) || atomic_load(&q->client->board->contended) ||
		       (q->device_gates && q->cold->asked));
}

/* Wakes the agent for work that only the agent does. */
void fm_xq_leave(struct fm_xq *q)
{
	struct fm_xq_cold *x = q->cold;
	struct fm_client *c = q->client;
	bool agent;

	do {
		unsigned drop = collect(q);
		bool stands = atomic_exchange(&x->stands, false);

		if (drop)
			fm_xq_open_gates(q, fm_now());
		/* Only the agent lets the queue go on. */
		if (stands && !fm_xq_may_run(q))
			fm_xq_interrupt(q, fm_now());
		agent = drop && !x->tracks && (q->closing || fm_xq_end_matters(q));
		if (stands && fm_xq_may_run(q)) {
			x->asked = true;
			agent = true;
		}
		pthread_mutex_unlock(&x->lock);
		if (drop)
			fm_turn_wake(q);
		while (drop--)
			fm_xq_unref(q);
		if (agent)
			fm_client_wake(c);
	} while ((atomic_load(&x->reached) || atomic_load(&x->stands)) &&
		 pthread_mutex_trylock(&x->lock) == 0);
}

/*
 * The device has reached a tracker. The next gate opens right here, in the driver's callback, so
 * that no thread must be woken between two segments. If the lock is taken, the thread that holds it
 * does the rest (fm_xq_leave()). But that thread may wait in the driver until the device goes on.
 */
static void reached(void *cookie, uint64_t now)
{
	struct fm_track *t = cookie;
	struct fm_xq *q = t->q;

	/* The tracker's reference is dropped with the tracker, maybe before this function ends. */
	atomic_fetch_add(&q->refs, 1);
	t->at = now;
	fm_xq_advance(q, t->done, now);
	segments_done(q->cold, t->index);
	t->next = atomic_load(&q->cold->reached);
	while (!atomic_compare_exchange_weak(&q->cold->reached, &t->next, t))
		;
	if (pthread_mutex_trylock(&q->cold->lock) == 0)
		fm_xq_leave(q);
	else if (atomic_load(&q->cold->in_driver))
		fm_xq_open_alone(q, now);
	fm_xq_unref(q);
}

void fm_xq_place_gate(struct fm_xq *q, bool curious, uint64_t now)
{
	struct fm_xq_cold *x = q->cold;
	uint64_t index = x->gate_index + 1;
	struct fm_xq_gate g = {.index = index, .before = fm_xq_mark(q)};
	int rc;
	FM_NO_CANCEL;

	if (q->closing) /* the hwqueue may be gone */
		return;
	if (q->device_gates) {
		fm_xq_device_place(q, curious, now);
		return;
	}
	/* The segment goes on, and the next launch tries again. */
	if (fm_xq_track(q, index, true) == -EBUSY)
		return;
	XQ_TRACE(segment_sealed, now, q, index,
		atomic_load_explicit(&q->seg_n, memory_order_relaxed),
		atomic_load_explicit(&q->seg_ns, memory_order_relaxed));
	x->gate_index = index;
	atomic_store_explicit(&q->seg_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&q->seg_n, 0, memory_order_relaxed);
	if (fm_xq_is_widened(q))
		fm_xq_set_interval(q);
	enter_driver(q);
	rc = q->ops->host_gate.deactivate(q->hwq, &g.token);
	leave_driver(q);
	if (rc)
		return;
	if (!atomic_load(&q->gates_pending))
		x->progress_at = now;
	if (fm_ring_push(q, g)) {
		q->ops->host_gate.reactivate(q->hwq, g.token);
		return;
	}
	atomic_fetch_add_explicit(&q->slot->gates, 1, memory_order_relaxed);
	XQ_TRACE(gate_placed, now, q, atomic_load_explicit(&q->slot->gates, memory_order_relaxed),
		fm_slot_pending(q->slot), 0);
	fm_xq_open_gates(q, now);
}

void fm_xq_note_rest(struct fm_xq *q, uint64_t now)
{
	uint64_t busy;

	atomic_store(&q->slot->released, atomic_load(&q->slot->done));
	busy = atomic_exchange(&q->slot->busy_since, 0);
	if (busy && now > busy)
		atomic_fetch_add(&q->slot->device_ns, now - busy);
	atomic_store(&q->slot->done_at, now);
}

void fm_xq_note_stand(struct fm_xq *q)
{
	struct fm_xq_cold *x = q->cold;
	uint64_t now = fm_now();

	x->interrupted = true;
	x->stood_at = now;
	fm_xq_note_rest(q, now);
	atomic_fetch_add_explicit(&q->slot->interrupts, 1, memory_order_relaxed);
	XQ_TRACE(interrupted, now, q, fm_slot_pending(q->slot), 0, 0);
}

/* When to look again at a queue that was told to stop, or to go on, and has not done so yet. soon:
 * something waits for it meanwhile, or the device does. */
static uint64_t look_again(struct fm_xq *q, bool open, bool soon, uint64_t now)
{
	struct fm_xq_cold *x = q->cold;
	uint64_t at;

	if (!q->device_gates)
		return open ? now + FM_XQ_STUCK_LOOK : FM_NEVER;
	if (!x->stop_at || x->stop_open != open)
		x->stop_at = now;
	x->stop_open = open;
	at = now + fm_xq_look(x->stop_at, now);
	return soon ? FM_MIN(at, now + FM_MAX((now - x->stop_at) / 8, FM_XQ_STOP_LOOK_MIN)) : at;
}

/* The queue seems to be at a gate. That may have been true only until just now. */
static uint64_t look_once_more(struct fm_xq *q, uint64_t now)
{
	uint64_t at = look_again(q, false, false, now);

	return now - q->cold->stop_at < FM_XQ_LATE_LOOK ? at : FM_NEVER;
}

static uint64_t go_on(struct fm_xq *q, uint64_t now)
{
	struct fm_xq_cold *x = q->cold;
	int rc;

	x->shut_at = 0;
	x->told = false;
	fm_xq_pad_asks(q, false);
	if (x->padding) {
		fm_xq_pad_ends(q, now);
		x->interrupted = true; /* in the pad, or about to be */
	}
	/* If a gate closes and opens again, perhaps only the device sees it. */
	if (!x->asked && !x->interrupted && !q->partly) {
		x->stop_at = 0;
		return FM_NEVER;
	}
	rc = q->ops->stop.restore(q->hwq);
	x->asked = rc == -EAGAIN;
	if (x->interrupted) {
		x->interrupted = false;
		XQ_TRACE(restored, now, q, fm_sub_sat(now, x->stood_at), fm_slot_pending(q->slot),
			0);
		/* The segment's time does not include the time in which it was stopped. */
		x->segment_at = FM_MAX(atomic_load(&q->edge_at), x->segment_at) +
				fm_sub_sat(now, x->stood_at);
		fm_xq_publish_gates(q);
		if (fm_slot_pending(q->slot))
			atomic_store(&q->slot->busy_since, now);
	}
	return x->asked ? look_again(q, true, true, now) : FM_NEVER;
}

/*
 * Is a stop in the middle of a command to begin now? It does not begin if gates alone are to stop
 * the queue. Nor does it begin while a gate is near: no command that is known to take longer is
 * under way, and not enough time has passed. Then *look is when that may have changed. These rules
 * do not concern a stop that has begun, which goes on to its end, nor what a device does by itself
 * (partly).
 */
static bool to_begin(struct fm_xq *q, uint64_t now, uint64_t *look)
{
	struct fm_xq_cold *x = q->cold;
	uint64_t from = fm_xq_guard_from(q, 0);

	*look = FM_NEVER;
	if (x->asked || q->partly)
		return true;
	if (from == UINT64_MAX)
		return false;
	x->shut_at = x->shut_at ? x->shut_at : now;
	if (!q->device_gates || fm_slot_done(q->slot) < x->guard_mark || now >= x->shut_at + from)
		return true;
	*look = x->shut_at + from;
	return false;
}

uint64_t fm_xq_interrupt(struct fm_xq *q, uint64_t now)
{
	struct fm_xq_cold *x = q->cold;
	const bool device = q->device_gates;
	uint64_t look;
	int rc;

	if (q->level < FM_LEVEL_RUNNING || x->gone)
		return FM_NEVER;
	if (fm_xq_may_run(q))
		return go_on(q, now);
	if (FM_UNLIKELY(x->pad_able) && fm_xq_pads(q) && (x->padding || fm_xq_is_stopped(q)))
		return fm_xq_pad(q, now);
	if (x->padding) {
		fm_xq_pad_ends(q, now);
		x->asked = true;
	}
	/* Work that was told to stop comes to a gate, whatever is under way by then. */
	if (x->interrupted || (!fm_slot_pending(q->slot) && !(x->asked && device)))
		return FM_NEVER;
	if (!to_begin(q, now, &look))
		return look;
	rc = q->ops->stop.interrupt(q->hwq);
	if (!x->told && (!rc || rc == -EINPROGRESS)) {
		x->told = true;
		XQ_TRACE(told_to_stop, now, q, fm_sub_sat(fm_now(), now), fm_slot_pending(q->slot),
			0);
	}
	x->asked |= rc == -EINPROGRESS || fm_xq_is_stopped(q);
	fm_xq_pad_asks(q, (!rc || rc == -EALREADY) && fm_xq_is_stopped(q));
	if (!rc)
		fm_xq_note_stand(q);
	if (device && rc == -EALREADY)
		return look_once_more(q, now);
	if (rc == -EAGAIN)
		return look_again(q, false, true, now);
	return rc == -EINPROGRESS ? look_again(q, false, false, now) : FM_NEVER;
}

void fm_xq_stands(struct fm_xq *q)
{
	atomic_fetch_add(&q->refs, 1);
	atomic_store(&q->cold->stands, true);
	if (pthread_mutex_trylock(&q->cold->lock) == 0)
		fm_xq_leave(q);
	fm_xq_unref(q);
}
