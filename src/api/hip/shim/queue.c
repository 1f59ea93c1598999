/* SPDX-License-Identifier: Apache-2.0 */
/* The operations on one stream. */
#include "base/cancel.h"
#include "hip.h"
#include "proof/proof.h"
#include <errno.h>
#include <stdlib.h>
#include <time.h>

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

/* Only the thread itself can name its own default stream. */
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

/* A thread that puts more into a stream than it has room for waits in the runtime until some of
 * that is done. Behind a closed gate it waits until the gate opens. The agent opens the gate with
 * the XQueue's lock, and a thread holds that lock while it puts something of ours there. So nothing
 * of ours may be put into a full stream. */
static bool is_full(const struct fm_hip_queue *q)
{
	return q->xq && fm_hip_backlog(q) > FM_HIP_FULL;
}

/* The work in front of the gate may wait for this very thread. */
void fm_hip_await_room(struct fm_hip_queue *q)
{
	const struct timespec nap = {.tv_nsec = FM_HIP_DEEP_NAP};
	uint64_t done, seen = UINT64_MAX, until = 0;
	FM_NO_CANCEL;

	while (fm_hip_backlog(q) > FM_HIP_DEEP && !fm_client_exits(fm_shim_has_client())) {
		done = atomic_load(&q->xq->slot->done);
		if (done != seen || !fm_xq_may_run(q->xq))
			until = fm_now() + FM_HIP_DEEP_STILL;
		else if (fm_now() > until)
			return;
		seen = done;
		nanosleep(&nap, NULL);
	}
}

static int track(void *hwq, fm_reached_fn *reached, void *cookie)
{
	struct fm_hip_queue *q = hwq;
	hipEvent_t event;
	int rc;
	FM_NO_CANCEL;

	if (is_full(q))
		return -EBUSY;
	if (!is_named_here(q) || !fm_shim_touch())
		return -EPERM; /* that may last: its end counts as reached in time */
	rc = record(q, &event);
	fm_shim_untouch();
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
	char what[FM_PROOF_TEXT];

	fm_hip_proof(q->hip, q->device, what, sizeof(what));
	if (fm_proof_allows(what) && fm_hip_gates_hold(q->hip, q->device))
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

	if (is_full(q) || !is_named_here(q))
		return -EBUSY;
	return fm_hip_gate_put(q->hip, q->device, q->stream, q->word, gate);
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
