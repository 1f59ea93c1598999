/* SPDX-License-Identifier: Apache-2.0 */
#include "opencl.h"
#include "base/clock.h"
#include "guard.h"
#include "tune.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct waiter {
	fm_reached_fn *reached;
	void *cookie;
};

static void CL_CALLBACK on_complete(cl_event event, cl_int status, void *arg)
{
	struct waiter w = *(struct waiter *)arg;

	free(arg);
	w.reached(w.cookie, fm_now());
}

static int call_back(
	const cl_icd_dispatch *cl, cl_event event, fm_reached_fn *reached, void *cookie)
{
	struct waiter *w = malloc(sizeof(*w));

	if (!w)
		return -ENOMEM;
	*w = (struct waiter){reached, cookie};
	if (cl->clSetEventCallback(event, CL_COMPLETE, on_complete, w) == CL_SUCCESS)
		return 0;
	free(w);
	return -EIO;
}

static bool event_finished(struct fm_watched *w, void *event)
{
	struct fm_cl_queue *q = fm_container(w, struct fm_cl_queue, watch);
	cl_int status = CL_QUEUED;

	if (q->cl->clGetEventInfo(
		    event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status), &status, NULL))
		return true;
	return status <= CL_COMPLETE;
}

static void event_drop(struct fm_watched *w, void *event)
{
	fm_container(w, struct fm_cl_queue, watch)->cl->clReleaseEvent(event);
}

static const struct fm_watch_ops watch_ops = {event_finished, event_drop};

/* May a command of ours be put into the queue? Where calls that wait exclude others, it would wait
 * for the end of such a call, with the XQueue's lock; and the device may stand at a gate, which is
 * opened by a thread that needs that lock. */
static bool take(struct fm_cl_queue *q)
{
	bool mine;

	return !q->waits_exclude || (!fm_queue_lock_try(&q->waiting, &mine) && !mine);
}

static void give(struct fm_cl_queue *q)
{
	if (q->waits_exclude)
		fm_queue_lock_give(&q->waiting);
}

static int put_tracker(struct fm_cl_queue *q, fm_reached_fn *reached, void *cookie)
{
	cl_event marker;
	int rc;

	if (q->cl->clEnqueueMarkerWithWaitList(q->queue, 0, NULL, &marker))
		return -EIO;
	if (q->watched) {
		rc = fm_watch_event(&q->watch, marker, reached, cookie);
		if (rc)
			q->cl->clReleaseEvent(marker);
	} else {
		rc = call_back(q->cl, marker, reached, cookie);
		q->cl->clReleaseEvent(marker);
	}
	if (!rc)
		q->cl->clFlush(q->queue); /* without a flush a driver may keep it back */
	return rc;
}

static int track(void *hwq, fm_reached_fn *reached, void *cookie)
{
	int rc;

	if (!take(hwq))
		return -EBUSY;
	rc = put_tracker(hwq, reached, cookie);
	give(hwq);
	return rc;
}

static int sync_queue(void *hwq)
{
	struct fm_cl_queue *q = hwq;
	cl_int rc;

	fm_cl_wait_begin(q);
	rc = q->cl->clFinish(q->queue);
	fm_cl_wait_end(q);
	return rc ? -EIO : 0;
}

static int put_gate(struct fm_cl_queue *q, void **gate)
{
	cl_event wait[2];
	cl_int rc;

	wait[0] = q->cl->clCreateUserEvent(q->context, &rc);
	if (!wait[0])
		return -EIO;
	pthread_mutex_lock(&q->barrier_lock);
	wait[1] = q->barrier;
	rc = q->cl->clEnqueueBarrierWithWaitList(q->queue, q->barrier ? 2 : 1, wait, NULL);
	pthread_mutex_unlock(&q->barrier_lock);
	if (rc) {
		q->cl->clSetUserEventStatus(wait[0], CL_COMPLETE);
		q->cl->clReleaseEvent(wait[0]);
		return -EIO;
	}
	*gate = wait[0];
	return 0;
}

static int deactivate(void *hwq, void **gate)
{
	int rc;

	if (!take(hwq))
		return -EBUSY;
	rc = put_gate(hwq, gate);
	give(hwq);
	return rc;
}

static void replace_barrier(struct fm_cl_queue *q, cl_event event)
{
	cl_event old;

	pthread_mutex_lock(&q->barrier_lock);
	old = q->barrier;
	q->barrier = event;
	pthread_mutex_unlock(&q->barrier_lock);
	if (old)
		q->cl->clReleaseEvent(old);
}

void fm_cl_queue_barrier(struct fm_cl_queue *q, cl_event event)
{
	if (q->cl->clRetainEvent(event) == CL_SUCCESS)
		replace_barrier(q, event);
}

/* The status is always CL_COMPLETE: a negative one would fail the program's commands (and ends
 * PoCL 3.1). */
static void reactivate(void *hwq, void *gate)
{
	struct fm_cl_queue *q = hwq;
	cl_event user = gate;

	q->cl->clSetUserEventStatus(user, CL_COMPLETE);
	q->cl->clReleaseEvent(user);
	if (q->watched)
		fm_watch_stir(&q->watch);
}

/* Shared by the waiting thread and the driver's callback, which may come after the wait. */
struct trial {
	_Atomic unsigned refs;
	_Atomic uint64_t waited; /* of `called`: so long its thread waited for a processor */
	_Atomic uint64_t called; /* when; 0: not yet */
};

static void trial_unref(struct trial *t)
{
	if (atomic_fetch_sub(&t->refs, 1) == 1)
		free(t);
}

/* How long this thread has waited for a processor in its life. 0: the kernel does not say. */
static uint64_t waited_in_all(void)
{
	int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	char text[96], *end;
	ssize_t n;

	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	strtoull(text, &end, 10); /* on a processor */
	return strtoull(end, NULL, 10);
}

/* Since the thread's last callback, which a first one has none of: it waits for nothing. */
static uint64_t waited_since(void)
{
	static _Thread_local uint64_t last;
	uint64_t now = waited_in_all(), before = last;

	last = now;
	return before ? fm_sub_sat(now, before) : 0;
}

static void trial_called(void *cookie, uint64_t now)
{
	struct trial *t = cookie;

	atomic_store(&t->waited, waited_since());
	atomic_store(&t->called, now);
	trial_unref(t);
}

/* A call that the driver has not made after a while may wait for the processor that this loop is
 * on, so it is no longer a loop without sleep. */
static uint64_t trial_await(struct fm_cl_queue *q, struct trial *t, cl_event marker, uint64_t start)
{
	const struct timespec nap = {.tv_nsec = FM_CL_CALLBACK_LATE};
	uint64_t finished = 0, spent = 0;
	cl_int status = CL_QUEUED;

	while (!atomic_load(&t->called) && spent < FM_CL_CALLBACK_GIVE_UP) {
		if (spent > FM_CL_CALLBACK_POLL)
			nanosleep(&nap, NULL);
		q->cl->clGetEventInfo(
			marker, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status), &status, NULL);
		spent = fm_now() - start;
		if (status <= CL_COMPLETE && !finished)
			finished = start + spent;
	}
	return finished ? finished : start;
}

/* Waits until the driver has called back, or clearly does not. Returns how much later the callback
 * was than the event's status, without the time in which its thread waited for a processor: that is
 * the machine's, not the driver's. */
static uint64_t trial_wait(struct fm_cl_queue *q, struct trial *t, cl_event marker)
{
	uint64_t finished = trial_await(q, t, marker, fm_now()), called = atomic_load(&t->called);

	if (!called)
		return UINT64_MAX;
	return fm_sub_sat(fm_sub_sat(called, finished), atomic_load(&t->waited));
}

static uint64_t trial_run(struct fm_cl_queue *q)
{
	struct trial *t = calloc(1, sizeof(*t));
	uint64_t delay = UINT64_MAX;
	cl_event marker;

	if (!t || q->cl->clEnqueueMarkerWithWaitList(q->queue, 0, NULL, &marker)) {
		free(t);
		return delay;
	}
	atomic_init(&t->refs, 2);
	if (call_back(q->cl, marker, trial_called, t)) {
		trial_unref(t);
	} else {
		q->cl->clFlush(q->queue);
		delay = trial_wait(q, t, marker);
	}
	q->cl->clReleaseEvent(marker);
	trial_unref(t);
	return delay;
}

/* Does the driver's callback come late, compared with the event's status? Tried on an empty queue.
 * The majority of the tries decides: a slow driver is quick now and then, and a good one slow on a
 * busy machine. One before them is not counted: with it the account of the driver's thread begins.
 */
static bool mostly_late(struct fm_cl_queue *q)
{
	int late = 0, in_time = 0;

	trial_run(q);
	while (late <= FM_CL_CALLBACK_TRIES / 2 && in_time <= FM_CL_CALLBACK_TRIES / 2) {
		if (trial_run(q) > FM_CL_CALLBACK_LATE)
			late++;
		else
			in_time++;
	}
	return late > in_time;
}

/* The result is remembered for each device. CPU devices are not tried: their callbacks are late
 * when the machine is busy, and a polling thread would take time from the device itself. */
static bool callbacks_late(struct fm_cl_queue *q)
{
	static struct {
		pthread_mutex_t lock;
		cl_device_id device[16];
		bool late[16];
		unsigned n;
	} known = {.lock = PTHREAD_MUTEX_INITIALIZER};
	cl_device_id device = NULL;
	cl_device_type type = 0;
	bool late;

	q->cl->clGetCommandQueueInfo(q->queue, CL_QUEUE_DEVICE, sizeof(device), &device, NULL);
	q->cl->clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof(type), &type, NULL);
	if (type & CL_DEVICE_TYPE_CPU)
		return false;
	fm_lock_rank(&known.lock, CL_LATE);
	pthread_mutex_lock(&known.lock);
	for (unsigned i = 0; i < known.n; i++) {
		if (known.device[i] != device)
			continue;
		late = known.late[i];
		pthread_mutex_unlock(&known.lock);
		return late;
	}
	late = mostly_late(q);
	if (known.n < 16) {
		known.device[known.n] = device;
		known.late[known.n++] = late;
	}
	pthread_mutex_unlock(&known.lock);
	return late;
}

#define VENDOR_NVIDIA 0x10de

/* Known by the vendor, not by a trial: the defect depends on what else the program has mapped. */
static bool by_nvidia(struct fm_cl_queue *q)
{
	cl_device_id device = NULL;
	cl_uint vendor = 0;

	q->cl->clGetCommandQueueInfo(q->queue, CL_QUEUE_DEVICE, sizeof(device), &device, NULL);
	q->cl->clGetDeviceInfo(device, CL_DEVICE_VENDOR_ID, sizeof(vendor), &vendor, NULL);
	return vendor == VENDOR_NVIDIA;
}

#define RUSTICL_REPAIRED \
	25 /* later sources let go of the lock first; since when exactly is not known */

/* Rusticl (Mesa 22.3) has the lock of a queue's commands while clFinish and blocking calls wait. */
static bool by_old_rusticl(struct fm_cl_queue *q)
{
	char name[16] = "", version[64] = "";
	cl_platform_id platform = NULL;
	cl_device_id device = NULL;

	q->cl->clGetCommandQueueInfo(q->queue, CL_QUEUE_DEVICE, sizeof(device), &device, NULL);
	q->cl->clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof(platform), &platform, NULL);
	if (!platform || !q->cl->clGetPlatformInfo ||
		q->cl->clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof(name), name, NULL) ||
		strcmp(name, "rusticl"))
		return false;
	q->cl->clGetDeviceInfo(device, CL_DRIVER_VERSION, sizeof(version), version, NULL);
	return strtoul(version, NULL, 10) < RUSTICL_REPAIRED;
}

/* User events are tried: the driver of an OpenCL 1.0 device refuses them. */
static unsigned levels(void *hwq)
{
	struct fm_cl_queue *q = hwq;
	unsigned bits = 1u << 1;
	cl_event user;
	cl_int rc;

	if (!q->cl->clEnqueueBarrierWithWaitList || !q->cl->clEnqueueMarkerWithWaitList ||
		!q->cl->clCreateUserEvent || !q->cl->clSetUserEventStatus ||
		!q->cl->clSetEventCallback)
		return bits;
	user = q->cl->clCreateUserEvent(q->context, &rc);
	if (!user)
		return bits;
	if (q->cl->clSetUserEventStatus(user, CL_COMPLETE) == CL_SUCCESS)
		bits |= 1u << 2;
	q->cl->clReleaseEvent(user);
	q->watched = callbacks_late(q);
	q->unmaps_at_once = by_nvidia(q);
	q->waits_exclude = by_old_rusticl(q);
	if (bits & 1u << 2)
		q->guard = fm_cl_guard_new(q, &q->no_guard);
	return q->guard ? bits | 1u << 3 : bits;
}

static int interrupt(void *hwq)
{
	struct fm_cl_queue *q = hwq;

	return fm_cl_guard_stop(q->guard);
}

static int restore(void *hwq)
{
	struct fm_cl_queue *q = hwq;

	return fm_cl_guard_go(q->guard);
}

static void release(void *hwq, bool orphaned)
{
	struct fm_cl_queue *q = hwq;

	if (q->guard)
		fm_cl_guard_release(q->guard);
	replace_barrier(q, NULL);
	pthread_mutex_destroy(&q->barrier_lock);
	fm_queue_lock_destroy(&q->waiting);
	if (q->release)
		q->release(q);
}

static void quiesce(void *hwq)
{
	struct fm_cl_queue *q = hwq;

	if (q->guard)
		fm_cl_guard_end(q->guard);
	fm_watch_stop();
}

void fm_cl_queue_init(struct fm_cl_queue *q, const cl_icd_dispatch *cl, cl_command_queue queue,
	cl_context context, bool in_order, void (*on_release)(struct fm_cl_queue *q))
{
	*q = (struct fm_cl_queue){.cl = cl,
		.queue = queue,
		.context = context,
		.in_order = in_order,
		.release = on_release};
	pthread_mutex_init(&q->barrier_lock, NULL);
	fm_lock_rank(&q->barrier_lock, CL_BARRIER);
	fm_queue_lock_init(&q->waiting);
	fm_watch_init(&q->watch, &watch_ops);
}

void fm_cl_queue_drop(struct fm_cl_queue *q)
{
	release(q, false);
}

const struct fm_hw_ops fm_cl_ops = {
	.name = "opencl",
	.levels = levels,
	.sync = sync_queue,
	.track = track,
	.release = release,
	.quiesce = quiesce,
	.host_gate = {.deactivate = deactivate, .reactivate = reactivate},
	.stop = {.interrupt = interrupt, .restore = restore},
};
