/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine does with one stream. */
#include "hip.h"
#include <errno.h>
#include <stdlib.h>

static bool event_finished(struct fm_watched *w, void *event)
{
	struct fm_hip_queue *q = fm_container(w, struct fm_hip_queue, watch);
	struct fm_hip_visit v = fm_hip_enter(q->hip, q->device);
	hipError_t rc = q->hip->event_query(event);

	fm_hip_leave(q->hip, q->device, v);
	return rc != FM_HIP_NOT_READY;
}

static void event_drop(struct fm_watched *w, void *event)
{
	struct fm_hip_queue *q = fm_container(w, struct fm_hip_queue, watch);
	struct fm_hip_visit v = fm_hip_enter(q->hip, q->device);

	q->hip->event_destroy(event);
	fm_hip_leave(q->hip, q->device, v);
}

static const struct fm_watch_ops watch_ops = {event_finished, event_drop};

/* Only its own thread can name a thread's stream. */
static bool is_named_here(const struct fm_hip_queue *q)
{
	return !q->thread || (q->thread == fm_this_thread() && !atomic_load(&q->thread_gone));
}

static int record(struct fm_hip_queue *q, hipEvent_t *event)
{
	struct fm_hip_visit v = fm_hip_enter(q->hip, q->device);
	int rc = q->hip->event_create(event, FM_HIP_EVENT_UNTIMED) ? -EIO : 0;

	atomic_fetch_add(&q->ours, 1);
	if (!rc && q->hip->event_record(*event, q->stream)) {
		q->hip->event_destroy(*event);
		rc = -EIO;
	}
	fm_hip_leave(q->hip, q->device, v);
	return rc;
}

static int track(void *hwq, fm_reached_fn *reached, void *cookie)
{
	struct fm_hip_queue *q = hwq;
	hipEvent_t event;
	int rc;

	if (!is_named_here(q) || !fm_hip_touch())
		return -EBUSY;
	rc = record(q, &event);
	fm_hip_untouch();
	if (rc)
		return rc;
	rc = fm_watch_event(&q->watch, event, reached, cookie);
	if (rc)
		event_drop(&q->watch, event);
	return rc;
}

static unsigned levels(void *hwq)
{
	struct fm_hip_queue *q = hwq;

	if (fm_hip_gates_hold(q->hip, q->device))
		q->word = fm_hip_word_get(q->hip, q->device);
	return 1u << FM_LEVEL_PENDING | (q->word ? 1u << FM_LEVEL_QUEUED : 0);
}

static int sync_stream(void *hwq)
{
	struct fm_hip_queue *q = hwq;

	return q->hip->stream_synchronize(q->stream) ? -EIO : 0;
}

static int deactivate(void *hwq, void **gate)
{
	struct fm_hip_queue *q = hwq;

	return is_named_here(q) ? fm_hip_gate_put(q->hip, q->device, q->stream, q->word, gate)
				: -EBUSY;
}

static void reactivate(void *hwq, void *gate)
{
	struct fm_hip_queue *q = hwq;

	fm_hip_gate_open(q->word, gate);
	fm_watch_stir(&q->watch);
}

static void release(void *hwq, bool orphaned)
{
	struct fm_hip_queue *q = hwq;

	fm_hip_word_put(q->word);
	free(q);
}

static void quiesce(void *hwq)
{
	fm_watch_stop();
}

void fm_hip_queue_init(struct fm_hip_queue *q)
{
	fm_watch_init(&q->watch, &watch_ops);
}

const struct fm_hw_ops fm_hw_hip = {
	.name = "hip",
	.levels = levels,
	.sync = sync_stream,
	.track = track,
	.release = release,
	.quiesce = quiesce,
	.host_gate = {deactivate, reactivate},
};
