/* SPDX-License-Identifier: Apache-2.0 */
/* The operations on one queue or immediate list. */
#include "base/cancel.h"
#include "board/board.h"
#include "core.h"
#include <errno.h>
#include <time.h>

_Atomic unsigned fm_ze_captures;

/* `submit` held, and `ours` set: a thread that raises the number waits for that afterwards. */
static bool is_recorded(const struct fm_ze_hwq *q)
{
	return !q->queue && FM_UNLIKELY(atomic_load(&fm_ze_captures));
}

static ze_result_t heard(struct fm_ze_hwq *q, ze_result_t rc)
{
	if (rc == FM_ZE_DEVICE_LOST)
		atomic_store(&q->lost, true);
	return rc;
}

static struct fm_ze_slot *slot_of(struct fm_ze_hwq *q, uint64_t number)
{
	return &q->slot[number % FM_ZE_SLOTS];
}

/* --- what is ours in the queue --- */

static bool make_pool(struct fm_ze_hwq *q)
{
	const struct fm_ze_pool_desc desc = {
		.stype = FM_ZE_TYPE_POOL, .flags = FM_ZE_HOST_VISIBLE, .count = FM_ZE_SLOTS};
	ze_event_pool_handle_t pool = NULL;

	if (q->pool)
		return true;
	if (heard(q, q->ze->pool_create(q->made.context, &desc, 1, &q->made.device, &pool)))
		return false;
	q->pool = pool;
	return true;
}

/* Its event, unsignalled. */
static bool make_event(struct fm_ze_hwq *q, struct fm_ze_slot *s)
{
	const struct fm_ze_event_desc desc = {
		.stype = FM_ZE_TYPE_EVENT, .index = (uint32_t)(s - q->slot)};
	ze_event_handle_t event = NULL;

	if (s->event)
		return !heard(q, q->ze->event_reset(s->event));
	if (!make_pool(q) || heard(q, q->ze->event_create(q->pool, &desc, &event)))
		return false;
	s->event = event;
	return true;
}

static ze_result_t barrier(
	struct fm_ze_hwq *q, ze_command_list_handle_t list, struct fm_ze_slot *s, bool gate)
{
	return heard(q,
		q->ze->list_barrier(list, gate ? NULL : s->event, gate, gate ? &s->event : NULL));
}

static bool make_list(struct fm_ze_hwq *q, struct fm_ze_slot *s, bool gate)
{
	const struct fm_ze_list_desc desc = {
		.stype = FM_ZE_TYPE_LIST, .ordinal = q->made.desc.ordinal};
	ze_command_list_handle_t list = NULL;

	if (s->list[gate])
		return true;
	if (heard(q, q->ze->list_create(q->made.context, q->made.device, &desc, &list)))
		return false;
	if (barrier(q, list, s, gate) || heard(q, q->ze->list_close(list))) {
		q->ze->list_destroy(list);
		return false;
	}
	s->list[gate] = list;
	return true;
}

static void set_closed(struct fm_ze_hwq *q, struct fm_ze_slot *s, bool closed)
{
	pthread_mutex_lock(&q->gate);
	s->closed = closed;
	atomic_fetch_add(&q->closed, closed ? 1 : -1u);
	pthread_mutex_unlock(&q->gate);
}

/* There is no memory for the event of number n: the first one is used again, if nothing of ours is
 * in the queue any more. Returns its number; 0: not now. */
static uint64_t begin_again(struct fm_ze_hwq *q, uint64_t n)
{
	if (!q->slot[1].event || atomic_load(&q->passed) != n - 1 ||
		(q->queue && q->ze->queue_wait(q->queue, 0)))
		return 0;
	n += FM_ZE_SLOTS + 1 - n % FM_ZE_SLOTS;
	atomic_store(&q->placed, n - 1);
	atomic_store(&q->passed, n - 1);
	return n;
}

/* `submit` held. */
static int put_there(struct fm_ze_hwq *q, bool gate, uint64_t *number)
{
	uint64_t n = atomic_load(&q->placed) + 1;
	struct fm_ze_slot *s = slot_of(q, n);
	ze_result_t rc;

	/* A tracker comes before the list ends that it is in: its own place is not free yet. */
	if (n - atomic_load(&q->passed) >= FM_ZE_SLOTS - (gate ? FM_ZE_TRACKERS : 0))
		return -EBUSY;
	if (!make_event(q, s)) {
		n = begin_again(q, n);
		s = slot_of(q, n);
		if (!n || !make_event(q, s))
			return -ENOMEM;
	}
	if (q->queue && !make_list(q, s, gate))
		return -ENOMEM;
	if (gate && !slot_of(q, n + 1)->event && !make_event(q, slot_of(q, n + 1)))
		return -ENOMEM; /* there must be one for a tracker behind it */
	if (gate)
		set_closed(q, s, true);
	rc = q->queue ? heard(q, q->ze->queue_execute(q->queue, 1, &s->list[gate], NULL))
		      : barrier(q, q->list, s, gate);
	if (rc && gate)
		set_closed(q, s, false);
	if (rc)
		return -EIO;
	atomic_store(&q->placed, n);
	*number = n;
	return 0;
}

static int put(struct fm_ze_hwq *q, bool gate, uint64_t *number)
{
	bool mine;
	int rc;
	FM_NO_CANCEL;

	if (fm_queue_lock_try(&q->submit, &mine) || mine)
		return -EBUSY;
	atomic_store(&q->ours, true);
	if (is_recorded(q))
		rc = -EBUSY;
	else
		rc = atomic_load(&q->ends) ? -EPERM : put_there(q, gate, number);
	atomic_store(&q->ours, false);
	fm_queue_lock_give(&q->submit);
	return rc;
}

/* --- trackers --- */

/* A lost device has finished all that it had. */
static bool event_finished(struct fm_watched *w, void *number)
{
	struct fm_ze_hwq *q = fm_container(w, struct fm_ze_hwq, watch);

	return atomic_load(&q->lost) || atomic_load(&q->gone) || atomic_load(&q->stuck) ||
	       heard(q, q->ze->event_query(slot_of(q, (uintptr_t)number)->event)) !=
		       FM_ZE_NOT_READY;
}

static void event_drop(struct fm_watched *w, void *number)
{
	struct fm_ze_hwq *q = fm_container(w, struct fm_ze_hwq, watch);

	if (!atomic_load(&q->lost))
		atomic_store(&q->passed, (uintptr_t)number);
	fm_ze_unref(q);
}

static const struct fm_watch_ops watch_ops = {event_finished, event_drop};

static int track(void *hwq, fm_reached_fn *reached, void *cookie)
{
	struct fm_ze_hwq *q = hwq;
	uint64_t number;
	int rc;

	if (atomic_load(&q->lost)) {
		reached(cookie, fm_now());
		return 0;
	}
	rc = put(q, false, &number);
	if (rc == -EBUSY && is_recorded(q))
		return -EPERM; /* that may last: its end counts as reached in time */
	if (rc)
		return rc;
	fm_ze_ref(q);
	rc = fm_watch_event(&q->watch, (void *)(uintptr_t)number, reached, cookie);
	if (rc)
		fm_ze_unref(q);
	return rc;
}

/* --- gates --- */

static int deactivate(void *hwq, void **gate)
{
	uint64_t number;
	int rc = put(hwq, true, &number);

	*gate = (void *)(uintptr_t)number;
	return rc;
}

/* A signal that fails is tried again, since nobody else opens the gate. `gate` held. */
static void open_gate(struct fm_ze_hwq *q, struct fm_ze_slot *s)
{
	const struct timespec look = {.tv_nsec = FM_ZE_SIGNAL_LOOK};

	if (!s->closed)
		return;
	for (unsigned i = 0; i < FM_ZE_SIGNAL_TRIES && !atomic_load(&q->lost); i++) {
		if (i)
			nanosleep(&look, NULL);
		if (!heard(q, q->ze->event_signal(s->event)))
			break;
	}
	s->closed = false;
	atomic_fetch_sub(&q->closed, 1);
}

static void reactivate(void *hwq, void *gate)
{
	struct fm_ze_hwq *q = hwq;

	pthread_mutex_lock(&q->gate);
	if (!atomic_load(&q->gone))
		open_gate(q, slot_of(q, (uintptr_t)gate));
	pthread_mutex_unlock(&q->gate);
	fm_watch_stir(&q->watch);
}

bool fm_ze_is_behind(struct fm_ze_hwq *q, uint64_t number)
{
	uint64_t from;
	bool behind = false;

	pthread_mutex_lock(&q->gate);
	from = atomic_load(&q->passed) + 1;
	for (uint64_t n = from; n <= number && n < from + FM_ZE_SLOTS && !behind; n++)
		behind = slot_of(q, n)->closed;
	pthread_mutex_unlock(&q->gate);
	return behind;
}

/* --- the rest --- */

static unsigned levels(void *hwq)
{
	struct fm_ze_hwq *q = hwq;

	return 1u << FM_LEVEL_PENDING |
	       (!q->unproven && fm_ze_gates_hold(q) ? 1u << FM_LEVEL_QUEUED : 0);
}

static unsigned levels_synchronous(void *hwq)
{
	return 1u << FM_LEVEL_PENDING;
}

/* Nothing of ours can be waited for after the queue's end. */
static int sync_queue(void *hwq)
{
	struct fm_ze_hwq *q = hwq;
	uint64_t number;

	if (q->queue)
		return heard(q, q->ze->queue_wait(q->queue, UINT64_MAX)) ? -EIO : 0;
	if (put(q, false, &number))
		return -EBUSY;
	return heard(q, q->ze->event_wait(slot_of(q, number)->event, UINT64_MAX)) ? -EIO : 0;
}

static bool lost(void *hwq)
{
	struct fm_ze_hwq *q = hwq;

	return atomic_load(&q->lost);
}

static void release(void *hwq, bool orphaned)
{
	fm_ze_unref(hwq);
}

static void quiesce(void *hwq)
{
	fm_watch_stop();
}

static const struct fm_hw_ops ops = {
	.name = "ze",
	.levels = levels,
	.sync = sync_queue,
	.track = track,
	.release = release,
	.quiesce = quiesce,
	.lost = lost,
	.host_gate = {.deactivate = deactivate,
		.reactivate = reactivate,
		.unlocked = true,
		.wide = FM_ZE_WIDE},
};

static const struct fm_hw_ops ops_synchronous = {
	.name = "ze",
	.levels = levels_synchronous,
	.sync = sync_queue,
	.release = release,
	.lost = lost,
};

const struct fm_hw_ops *fm_ze_ops(const struct fm_ze_hwq *q)
{
	return q->made.desc.mode == FM_ZE_MODE_ASYNCHRONOUS ? &ops : &ops_synchronous;
}

void fm_ze_hwq_init(struct fm_ze_hwq *q, const struct fm_ze_driver *ze,
	const struct fm_ze_made *made, void *handle, void (*free)(struct fm_ze_hwq *q))
{
	q->ze = ze;
	q->made = *made;
	if (made->immediate)
		q->list = handle;
	else
		q->queue = handle;
	q->free = free;
	atomic_init(&q->refs, 1);
	fm_queue_lock_init(&q->submit);
	pthread_mutex_init(&q->gate, NULL);
	fm_lock_rank(&q->gate, ZE_GATE);
	fm_watch_init(&q->watch, &watch_ops);
}

/* What the driver may still use, or has already freed, is left. */
static void destroy(struct fm_ze_hwq *q)
{
	for (size_t i = 0; i < FM_ZE_SLOTS; i++) {
		for (int gate = 0; gate < 2; gate++)
			if (q->slot[i].list[gate])
				q->ze->list_destroy(q->slot[i].list[gate]);
		if (q->slot[i].event)
			q->ze->event_destroy(q->slot[i].event);
	}
	if (q->pool)
		q->ze->pool_destroy(q->pool);
}

void fm_ze_ref(struct fm_ze_hwq *q)
{
	atomic_fetch_add(&q->refs, 1);
}

void fm_ze_unref(struct fm_ze_hwq *q)
{
	if (atomic_fetch_sub(&q->refs, 1) != 1)
		return;
	if (!atomic_load(&q->gone) && !atomic_load(&q->stuck))
		destroy(q);
	fm_queue_lock_destroy(&q->submit);
	pthread_mutex_destroy(&q->gate);
	q->free(q);
}

static bool is_through(struct fm_ze_hwq *q, uint64_t last)
{
	if (!last)
		return true;
	if (q->queue)
		return !heard(q, q->ze->queue_wait(q->queue, FM_ZE_END_MOST));
	return !heard(q, q->ze->event_wait(slot_of(q, last)->event, FM_ZE_END_MOST));
}

/* On an immediate list the last tracker comes when the device has passed everything of ours. Where
 * there is no memory for one more, what was put there last is a tracker. */
void fm_ze_end(struct fm_ze_hwq *q)
{
	uint64_t last;
	FM_NO_CANCEL;

	fm_queue_lock_take(&q->submit);
	last = atomic_load(&q->placed);
	atomic_store(&q->ours, true);
	if (!q->queue && last && !atomic_load(&q->ends) && !is_recorded(q))
		put_there(q, false, &last);
	atomic_store(&q->ours, false);
	atomic_store(&q->ends, true);
	fm_queue_lock_give(&q->submit);
	pthread_mutex_lock(&q->gate);
	for (size_t i = 0; i < FM_ZE_SLOTS; i++)
		open_gate(q, &q->slot[i]);
	pthread_mutex_unlock(&q->gate);
	if (!is_through(q, last))
		atomic_store(&q->stuck, true);
	fm_watch_stir(&q->watch);
}
