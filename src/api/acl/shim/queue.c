/* SPDX-License-Identifier: Apache-2.0 */
/* The operations on a queue, and the events of ours that they put into streams. */
#include "acl.h"
#include "base/cancel.h"
#include <errno.h>
#include <stdlib.h>
#include <time.h>

aclError fm_acl_last_error(const struct fm_acl_driver *acl)
{
	return acl && acl->peek_error ? acl->peek_error(FM_ACL_OF_THREAD) : 0;
}

void fm_acl_take_own_error(const struct fm_acl_driver *acl, aclError before)
{
	if (acl && acl->take_error && !before && fm_acl_last_error(acl))
		acl->take_error(FM_ACL_OF_THREAD);
}

struct visit {
	aclrtContext was;
	aclError error;
};

static struct visit enter(const struct fm_acl_queue *q)
{
	struct visit v = {.was = NULL};

	fm_acl_inside++;
	v.error = fm_acl_last_error(q->acl);
	if (q->acl->get_context(&v.was))
		v.was = NULL;
	if (v.was != q->context)
		q->acl->set_context(q->context);
	return v;
}

static void leave(const struct fm_acl_queue *q, struct visit v)
{
	if (v.was && v.was != q->context)
		q->acl->set_context(v.was);
	fm_acl_take_own_error(q->acl, v.error);
	fm_acl_inside--;
}

/* A call of ours for a queue may wait for room in its stream, so no lock is held over it: other
 * streams go on. False: it is over with such calls. */
static bool call_begins(struct fm_acl_queue *q, _Atomic bool *over)
{
	atomic_fetch_add(&q->calls, 1);
	if (!atomic_load(over))
		return true;
	atomic_fetch_sub(&q->calls, 1);
	return false;
}

static void call_ends(struct fm_acl_queue *q)
{
	atomic_fetch_sub(&q->calls, 1);
}

static bool event_finished(struct fm_watched *w, void *event)
{
	struct fm_acl_queue *q = fm_container(w, struct fm_acl_queue, watch);
	int status = !FM_ACL_EVENT_NOT_READY;
	struct visit v;

	if (!call_begins(q, &q->gone))
		return true;
	v = enter(q);
	if (q->acl->event_status(event, &status))
		status = !FM_ACL_EVENT_NOT_READY;
	leave(q, v);
	call_ends(q);
	return status != FM_ACL_EVENT_NOT_READY;
}

static void event_drop(struct fm_watched *w, void *event)
{
	struct fm_acl_queue *q = fm_container(w, struct fm_acl_queue, watch);
	struct visit v;

	if (call_begins(q, &q->left)) {
		v = enter(q);
		q->acl->event_destroy(event);
		leave(q, v);
		call_ends(q);
	}
	atomic_fetch_sub(&q->under_way, 1);
}

static const struct fm_watch_ops watch_ops = {event_finished, event_drop};

static int record(struct fm_acl_queue *q, aclrtEvent *event)
{
	struct visit v = enter(q);
	int rc = q->acl->event_create(event, FM_ACL_EVENT_OF_PROGRESS) ? -EIO : 0;

	atomic_fetch_add(&q->ours, 1);
	if (!rc && q->acl->event_record(*event, q->stream)) {
		q->acl->event_destroy(*event);
		rc = -EIO;
	}
	leave(q, v);
	return rc;
}

static int put_there(struct fm_acl_queue *q, aclrtEvent *event)
{
	int rc;

	if (!call_begins(q, &q->gone))
		return -EPERM;
	rc = record(q, event);
	call_ends(q);
	return rc;
}

/* An event of ours in a stream that is captured would be part of the model. A thread that launches
 * has asked about its own stream. For others no capture is under way, and none begins meanwhile. */
static int put_event(struct fm_acl_queue *q, aclrtEvent *event)
{
	int rc;

	if (fm_shim_launches)
		return put_there(q, event);
	if (!fm_shim_touch())
		return -EPERM; /* that may last: its end counts as reached in time */
	rc = put_there(q, event);
	fm_shim_untouch();
	return rc;
}

/* A full stream keeps back whoever puts more there: with an event under way one can wait for that.
 */
static int track(void *hwq, fm_reached_fn *reached, void *cookie)
{
	struct fm_acl_queue *q = hwq;
	aclrtEvent event;
	int rc;
	FM_NO_CANCEL;

	if (q->xq && atomic_load(&q->under_way) && fm_slot_pending(q->xq->slot) > FM_ACL_FULL)
		return -EBUSY;
	rc = put_event(q, &event);
	if (rc)
		return rc;
	atomic_fetch_add(&q->under_way, 1);
	rc = fm_watch_event(&q->watch, event, reached, cookie);
	if (rc)
		event_drop(&q->watch, event);
	return rc;
}

static unsigned levels(void *hwq)
{
	return 1u << FM_LEVEL_PENDING;
}

static int sync_stream(void *hwq)
{
	struct fm_acl_queue *q = hwq;
	struct visit v = enter(q);
	aclError rc = q->acl->stream_synchronize(q->stream);

	leave(q, v);
	return rc ? -EIO : 0;
}

/* Each call has waited for what it began. */
static int sync_thread(void *hwq)
{
	return 0;
}

static void release(void *hwq, bool orphaned)
{
	free(hwq);
}

static void quiesce(void *hwq)
{
	fm_watch_stop();
}

const struct fm_hw_ops fm_hw_acl = {.name = "acl",
	.levels = levels,
	.sync = sync_stream,
	.track = track,
	.release = release,
	.quiesce = quiesce};

const struct fm_hw_ops fm_hw_acl_thread = {
	.name = "acl", .levels = levels, .sync = sync_thread, .release = release};

void fm_acl_queue_init(struct fm_acl_queue *q)
{
	fm_watch_init(&q->watch, &watch_ops);
}

static void await(const _Atomic unsigned *n, bool exits_too)
{
	const struct timespec look = {.tv_nsec = FM_ACL_END_LOOK};

	for (unsigned i = 0; i < FM_ACL_END_LOOKS && atomic_load(n); i++) {
		if (!exits_too && fm_client_exits(fm_shim_has_client()))
			return;
		nanosleep(&look, NULL);
	}
}

/* The library's call that ends it comes next: by then nothing of ours uses it. The events are
 * destroyed soon, and left to the library if they are not: at the process's exit nobody does. */
void fm_acl_queue_ends(struct fm_shim_entry *e, bool wait)
{
	struct fm_acl_queue *q = fm_acl_queue_of(e);
	FM_NO_CANCEL;

	atomic_store(&q->gone, true);
	fm_watch_stir(&q->watch);
	await(&q->under_way, false);
	atomic_store(&q->left, true);
	await(&q->calls, true);
}
