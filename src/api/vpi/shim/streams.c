/* SPDX-License-Identifier: Apache-2.0 */
/* Streams as hwqueues, from handles to queues, and the ends of streams and contexts. */
#include "base/cancel.h"
#include "base/lockorder.h"
#include "board/board.h"
#include "vpi.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* In the place of its context, of a stream that was made in the shared one. */
static char shared;

/* --- operations --- */

/* An error of ours is not the program's; its own last call has succeeded. */
static int own_error(struct fm_vpi_queue *q)
{
	if (q->vpi->status_take)
		q->vpi->status_take();
	return -EIO;
}

/* In the stream's context. The shared one cannot be made current beside another one, but it is to
 * the agent. */
static int make_event(struct fm_vpi_queue *q, VPIEvent *event)
{
	VPIContext is = NULL;
	VPIStatus rc;

	if (q->vpi->context_current(&is))
		return own_error(q);
	if (is == q->context)
		return q->vpi->event_create(0, event) ? own_error(q) : 0;
	if (!q->context)
		return -EBUSY;
	if (q->vpi->context_push(q->context))
		return own_error(q);
	rc = q->vpi->event_create(0, event);
	q->vpi->context_pop(&is);
	return rc ? own_error(q) : 0;
}

/* q->lock held. Recording also has the library begin what it has kept back so far. */
static int record(struct fm_vpi_queue *q, uint64_t number)
{
	VPIEvent *event = &q->event[number % FM_VPI_EVENTS];
	int rc = 0;

	if (q->gone)
		return -EPERM;
	if (number - q->passed > FM_VPI_EVENTS)
		return -EBUSY;
	if (!*event)
		rc = make_event(q, event);
	if (rc)
		return rc;
	if (q->vpi->event_record(*event, q->stream))
		return own_error(q);
	q->recorded = number;
	return 0;
}

static void unref(struct fm_vpi_queue *q)
{
	if (atomic_fetch_sub(&q->refs, 1) != 1)
		return;
	pthread_mutex_destroy(&q->lock);
	free(q);
}

static bool event_finished(struct fm_watched *w, void *number)
{
	struct fm_vpi_queue *q = fm_container(w, struct fm_vpi_queue, watch);
	VPIEnum state = FM_VPI_EVENT_NOT_SIGNALED;
	bool finished;

	pthread_mutex_lock(&q->lock);
	finished = q->gone ||
		   q->vpi->event_query(q->event[(uintptr_t)number % FM_VPI_EVENTS], &state) ||
		   state != FM_VPI_EVENT_NOT_SIGNALED;
	pthread_mutex_unlock(&q->lock);
	return finished;
}

static void event_drop(struct fm_watched *w, void *number)
{
	struct fm_vpi_queue *q = fm_container(w, struct fm_vpi_queue, watch);

	pthread_mutex_lock(&q->lock);
	q->passed = (uintptr_t)number;
	pthread_mutex_unlock(&q->lock);
	unref(q);
}

static const struct fm_watch_ops watch_ops = {event_finished, event_drop};

static int track(void *hwq, fm_reached_fn *reached, void *cookie)
{
	struct fm_vpi_queue *q = hwq;
	uint64_t number;
	int rc;
	FM_NO_CANCEL;

	if (fm_vpi_hushed)
		return -EBUSY;
	pthread_mutex_lock(&q->lock);
	number = q->recorded + 1;
	rc = record(q, number);
	pthread_mutex_unlock(&q->lock);
	if (rc)
		return rc;
	atomic_fetch_add(&q->refs, 1);
	rc = fm_watch_event(&q->watch, (void *)(uintptr_t)number, reached, cookie);
	if (rc)
		event_drop(&q->watch, (void *)(uintptr_t)number);
	return rc;
}

static unsigned levels(void *hwq)
{
	return 1u << FM_LEVEL_PENDING;
}

static int sync_stream(void *hwq)
{
	struct fm_vpi_queue *q = hwq;

	return q->vpi->stream_sync(q->stream) ? -EIO : 0;
}

static void release(void *hwq, bool orphaned)
{
	unref(hwq);
}

static void quiesce(void *hwq)
{
	fm_watch_stop();
}

static const struct fm_hw_ops ops = {
	.name = "vpi",
	.levels = levels,
	.sync = sync_stream,
	.track = track,
	.release = release,
	.quiesce = quiesce,
};

/* --- queues --- */

static bool where(struct fm_shim_place *at)
{
	at->key = at->handle;
	at->of = fm_shim_made_with((void *)at->handle);
	return at->of && fm_vpi_driver();
}

static bool init(struct fm_shim_entry *e, const struct fm_shim_place *at,
	struct fm_xq_config *config, char device[FM_DEVKEY_MAX])
{
	struct fm_vpi_queue *q = fm_container(e, struct fm_vpi_queue, entry);

	config->ops = &ops;
	snprintf(device, FM_DEVKEY_MAX, "%s", FM_VPI_DEVICE);
	q->vpi = fm_vpi_driver();
	q->stream = (VPIStream)at->handle;
	q->context = at->of == &shared ? NULL : (VPIContext)(uintptr_t)at->of;
	atomic_init(&q->refs, 1);
	pthread_mutex_init(&q->lock, NULL);
	fm_lock_rank(&q->lock, VPI_QUEUE);
	fm_watch_init(&q->watch, &watch_ops);
	return true;
}

/* The stream is about to end, which waits for all that it has; so do we, since an event that is
 * still to come may not be destroyed. */
static void closing(struct fm_shim_entry *e, bool wait)
{
	struct fm_vpi_queue *q = fm_container(e, struct fm_vpi_queue, entry);
	FM_NO_CANCEL;

	pthread_mutex_lock(&q->lock);
	q->gone = true;
	wait = q->recorded > 0;
	pthread_mutex_unlock(&q->lock);
	if (!wait)
		return;
	q->vpi->stream_sync(q->stream);
	pthread_mutex_lock(&q->lock);
	for (size_t i = 0; i < FM_VPI_EVENTS; i++)
		if (q->event[i])
			q->vpi->event_destroy(q->event[i]);
	pthread_mutex_unlock(&q->lock);
	fm_watch_stir(&q->watch);
}

/* --- lives --- */

void fm_vpi_stream_made(VPIStream stream)
{
	const struct fm_vpi_driver *vpi = fm_client_switched_off() ? NULL : fm_vpi_driver();
	VPIContext context = NULL;

	if (!vpi || vpi->context_current(&context))
		return;
	fm_shim_made(stream, context ? (void *)context : &shared);
}

void fm_vpi_stream_ends(VPIStream stream)
{
	if (fm_shim_has_client())
		fm_shim_close((uintptr_t)stream, false);
	fm_shim_made(stream, NULL);
}

static bool of_context(struct fm_shim_entry *e, const void *context)
{
	return fm_container(e, struct fm_vpi_queue, entry)->context == context;
}

/* With streams that the program has not ended. */
void fm_vpi_context_ends(VPIContext context)
{
	if (context && fm_shim_has_client())
		fm_shim_close_if(of_context, context, 0);
}

static const struct fm_shim_queue_ops queues = {
	.where = where,
	.size = sizeof(struct fm_vpi_queue),
	.init = init,
	.closing = closing,
};

const struct fm_shim_api fm_shim_api = {
	.name = "vpi",
	.queues = &queues,
	.fork_child = fm_calls_forget,
};
