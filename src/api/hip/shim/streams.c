/* SPDX-License-Identifier: Apache-2.0 */
/* From streams to queues, and the ends of queues. */
#include "hip.h"
#include <errno.h>
#include <stdlib.h>

/* Their addresses stand for the devices. */
static const _Alignas(16) char devices[FM_HIP_DEVICES][16];

static const void *current(void)
{
	const struct fm_hip_driver *hip = fm_hip_driver();
	int device;

	if (!hip || hip->get_device(&device) || device < 0 || device >= FM_HIP_DEVICES)
		return NULL;
	return devices[device];
}

uintptr_t fm_hip_key(hipStream_t stream)
{
	const void *device;

	if (!fm_hip_is_default(stream))
		return (uintptr_t)stream;
	device = current();
	if (!device)
		return 0;
	return stream == FM_HIP_STREAM_LEGACY ? fm_shim_default_key(device)
					      : fm_shim_thread_key(device);
}

struct fm_hip_queue *fm_hip_find(hipStream_t stream)
{
	return fm_shim_find(fm_hip_key(stream));
}

struct fm_hip_queue *fm_hip_queue(hipStream_t stream, const char *call)
{
	void *q = fm_shim_look_up(fm_hip_key(stream));

	if (FM_LIKELY(q && q != &fm_shim_refused))
		return q;
	/* A thread that captures may not make the calls that a new queue needs, so the queue is
	 * made later. */
	return (struct fm_hip_queue *)fm_shim_first(
		(uintptr_t)stream, q, atomic_load(&fm_shim_captures), call);
}

/* While a stream is captured, launches on it go into a graph, and are neither counted nor gated. */
bool fm_hip_capturing(hipStream_t stream)
{
	const struct fm_hip_driver *hip = fm_hip_driver();
	int status = 0;
	hipError_t rc, before;

	if (!hip || !hip->stream_capturing)
		return false;
	before = hip->peek_error();
	fm_hip_inside++;
	rc = hip->stream_capturing(stream, &status);
	fm_hip_inside--;
	if (!before && hip->peek_error())
		hip->take_error();
	/* An error means a capture that the device's stream would disturb, or an invalid stream. */
	return rc || status;
}

static bool where(struct fm_shim_place *at)
{
	const struct fm_hip_driver *hip = fm_hip_driver();
	hipStream_t stream = (hipStream_t)at->handle;
	int device = -1;

	if (!hip)
		return false;
	if (fm_hip_is_default(stream) || !hip->stream_device) {
		at->of = current();
	} else {
		if (hip->stream_device(stream, &device) || device < 0 || device >= FM_HIP_DEVICES)
			return false;
		at->of = devices[device];
	}
	at->key = fm_hip_key(stream);
	at->thread = stream == FM_HIP_STREAM_PER_THREAD ? fm_this_thread() : NULL;
	return at->of && at->key;
}

static bool init(struct fm_shim_entry *e, const struct fm_shim_place *at,
	struct fm_xq_config *config, char device[FM_DEVKEY_MAX])
{
	struct fm_hip_queue *q = fm_container(e, struct fm_hip_queue, entry);

	config->ops = &fm_hw_hip;
	q->hip = fm_hip_driver();
	q->stream = (hipStream_t)at->handle;
	/* NULL works everywhere, also with a runtime that does not know the other name. */
	if (q->stream == FM_HIP_STREAM_LEGACY)
		q->stream = NULL;
	q->device = (int)(((const char *)at->of - devices[0]) / (ptrdiff_t)sizeof(devices[0]));
	fm_hip_queue_init(q);
	fm_hip_device_key(q->hip, q->device, device, FM_DEVKEY_MAX);
	return true;
}

static bool add_mark(struct fm_shim_entry *e, void *arg)
{
	struct fm_hip_queue *q = fm_container(e, struct fm_hip_queue, entry);
	struct fm_shim_marks *m = arg;

	if (devices[q->device] == current() && m->n < FM_BOARD_SLOTS)
		m->of[m->n++] = fm_hip_mark(q);
	return true;
}

void fm_hip_marks(struct fm_shim_marks *m)
{
	fm_shim_marks(m, add_mark);
}

void fm_hip_synced(const struct fm_shim_marks *m)
{
	struct fm_shim_entry *e;

	fm_shim_lock();
	for (size_t i = 0; i < m->n; i++) {
		e = fm_shim_at(m->of[i].key);
		if (e && e->generation == m->of[i].generation)
			fm_shim_finished(e, &fm_container(e, struct fm_hip_queue, entry)->progress,
				&m->of[i], m->since);
	}
	fm_shim_unlock();
}

static bool of_device(struct fm_shim_entry *e, const void *device)
{
	return devices[fm_container(e, struct fm_hip_queue, entry)->device] == device;
}

void fm_hip_close_device(void)
{
	const void *device = current();

	if (!device || !fm_shim_has_client())
		return;
	fm_shim_close_if(of_device, device, fm_shim_default_key(device));
}

static bool of_thread(struct fm_shim_entry *e, const void *thread)
{
	if (e->thread != thread)
		return false;
	atomic_store(&fm_container(e, struct fm_hip_queue, entry)->thread_gone, true);
	return true;
}

static void thread_ends(bool may_call)
{
	fm_shim_close_if(of_thread, fm_this_thread(), 0);
}

/* The runtime does not survive a fork. */
static void fork_child(void)
{
	fm_hip_gates_fork_child();
	fm_calls_forget();
}

static int may_bind(uintptr_t handle)
{
	if (!fm_hip_driver())
		return -ENODEV;
	if (fm_hip_is_default((hipStream_t)handle))
		return -EINVAL;
	return atomic_load(&fm_shim_captures) ? -EBUSY : 0;
}

static const struct fm_shim_queue_ops queues = {
	.where = where,
	.size = sizeof(struct fm_hip_queue),
	.init = init,
	.may_bind = may_bind,
};

const struct fm_shim_api fm_shim_api = {
	.name = "hip",
	.queues = &queues,
	.thread_ends = thread_ends,
	.fork_child = fork_child,
};
