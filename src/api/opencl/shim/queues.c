/* SPDX-License-Identifier: Apache-2.0 */
#include "api/opencl/guard.h"
#include "layer.h"
#include <stdlib.h>

static void release(struct fm_cl_queue *hw)
{
	free(fm_container(hw, struct fm_opencl_queue, hw));
}

static cl_command_queue_properties properties_of(cl_command_queue queue)
{
	cl_command_queue_properties p = 0;

	fm_cl_layer.next.clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof(p), &p, NULL);
	return p;
}

static void stands(void *cookie)
{
	fm_xq_stands(cookie);
}

static void gone(void *cookie)
{
	fm_xq_unref(cookie);
}

/* The level is 2 until a launch has been found that can be stopped in its middle. */
static void guard(struct fm_opencl_queue *q, struct fm_client *c)
{
	q->guard_from = fm_opencl_guard_wanted() ? fm_client_guard_from(c) : UINT64_MAX;
	if (!q->hw.guard)
		return;
	fm_xq_keep(q->xq);
	fm_cl_guard_on_stand(q->hw.guard, stands, gone, q->xq);
	fm_xq_reaches(q->xq, FM_LEVEL_QUEUED);
}

struct fm_opencl_queue *fm_opencl_queue_add(
	cl_command_queue queue, cl_context context, cl_device_id device)
{
	struct fm_client *c = fm_shim_client();
	struct fm_opencl_queue *q = c ? calloc(1, sizeof(*q)) : NULL;
	char key[FM_DEVKEY_MAX];

	if (!q)
		return NULL;
	q->refs = 1;
	q->properties = properties_of(queue);
	q->in_order = !(q->properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
	fm_cl_queue_init(&q->hw, &fm_cl_layer.next, queue, context, q->in_order, release);
	fm_cl_device_key(&fm_cl_layer.next, device, key, sizeof(key));
	if (fm_xq_create(&q->xq, c,
		    &(struct fm_xq_config){.group = fm_shim_thread_group(c),
			    .device = key,
			    .ops = &fm_cl_ops,
			    .hwq = &q->hw,
			    .in_order = q->in_order})) {
		fm_cl_queue_drop(&q->hw);
		return NULL;
	}
	guard(q, c);
	q->key = (uintptr_t)queue;
	fm_shim_close(q->key, false);
	return (struct fm_opencl_queue *)fm_shim_enter(&q->entry, q->key);
}

void fm_opencl_queue_retain(cl_command_queue queue)
{
	struct fm_opencl_queue *q;

	fm_shim_lock();
	q = fm_opencl_find(queue);
	if (q)
		q->refs++;
	fm_shim_unlock();
}

void fm_opencl_queue_release(cl_command_queue queue)
{
	struct fm_opencl_queue *q;
	bool last;

	fm_shim_lock();
	q = fm_opencl_find(queue);
	last = q && --q->refs == 0;
	fm_shim_unlock();
	if (last)
		fm_shim_close((uintptr_t)queue, false);
}

unsigned fm_opencl_queue_refs(cl_command_queue queue)
{
	struct fm_opencl_queue *q;
	unsigned refs;

	fm_shim_lock();
	q = fm_opencl_find(queue);
	refs = q ? q->refs : 0;
	fm_shim_unlock();
	return refs;
}

void fm_opencl_queue_waited(cl_command_queue queue)
{
	struct fm_opencl_queue *q;
	struct fm_xq *xq = NULL;

	fm_shim_lock();
	q = fm_opencl_find(queue);
	if (q) {
		xq = q->xq;
		fm_xq_keep(xq);
	}
	fm_shim_unlock();
	if (!xq)
		return;
	fm_xq_nudge(xq);
	fm_xq_unref(xq);
}
