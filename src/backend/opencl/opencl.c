/* SPDX-License-Identifier: Apache-2.0 */
#include "opencl.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include <errno.h>
#include <stdlib.h>

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

static int track(void *hwq, fm_reached_fn *reached, void *cookie)
{
	struct fm_cl_queue *q = hwq;
	struct waiter *w = malloc(sizeof(*w));
	cl_event marker;
	cl_int rc;

	if (!w)
		return -ENOMEM;
	*w = (struct waiter){reached, cookie};
	if (q->cl->clEnqueueMarkerWithWaitList(q->queue, 0, NULL, &marker)) {
		free(w);
		return -EIO;
	}
	rc = q->cl->clSetEventCallback(marker, CL_COMPLETE, on_complete, w);
	if (rc)
		free(w);
	else
		q->cl->clFlush(q->queue); /* a driver may keep back what nobody flushes */
	q->cl->clReleaseEvent(marker);
	return rc ? -EIO : 0;
}

static int sync_queue(void *hwq)
{
	struct fm_cl_queue *q = hwq;

	return q->cl->clFinish(q->queue) ? -EIO : 0;
}

static int deactivate(void *hwq, void **gate)
{
	struct fm_cl_queue *q = hwq;
	cl_int rc;
	cl_event user = q->cl->clCreateUserEvent(q->context, &rc);

	if (!user)
		return -EIO;
	rc = q->cl->clEnqueueBarrierWithWaitList(q->queue, 1, &user, NULL);
	if (rc) {
		q->cl->clSetUserEventStatus(user, CL_COMPLETE);
		q->cl->clReleaseEvent(user);
		return -EIO;
	}
	*gate = user;
	return 0;
}

/* Only ever CL_COMPLETE: a negative status would fail the program's commands (and ends PoCL 3.1).
 */
static void reactivate(void *hwq, void *gate)
{
	struct fm_cl_queue *q = hwq;
	cl_event user = gate;

	q->cl->clSetUserEventStatus(user, CL_COMPLETE);
	q->cl->clReleaseEvent(user);
}

/* Tried, not assumed: an OpenCL 1.0 device has no user events, and its driver says so. */
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
	return bits;
}

static void release(void *hwq)
{
	struct fm_cl_queue *q = hwq;

	if (q->release)
		q->release(q);
}

const struct fm_backend_ops fm_backend_opencl = {
        .name = "opencl",
        .levels = levels,
        .sync = sync_queue,
        .track = track,
        .deactivate = deactivate,
        .reactivate = reactivate,
        .release = release,
};
