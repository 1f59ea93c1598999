/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The OpenCL layer (CL/cl_layer.h): the loader hands us the dispatch table of what lies below, we
 * hand back one with our own entries. Until the program makes a queue nothing else happens.
 */
#include "layer.h"
/* What the loader looks up; everything else in this object is hidden. */
#pragma GCC visibility push(default)
#include <CL/cl_layer.h>
#pragma GCC visibility pop
#include <pthread.h>
#include <string.h>

struct fm_cl_layer fm_cl_layer;

#define NEXT fm_cl_layer.next

static CL_API_ENTRY cl_command_queue CL_API_CALL shim_clCreateCommandQueue(cl_context context,
	cl_device_id device, cl_command_queue_properties properties, cl_int *err)
{
	cl_command_queue queue = NEXT.clCreateCommandQueue(context, device, properties, err);

	if (queue)
		fm_shim_queue_add(queue, context, device);
	return queue;
}

/* A queue on the device itself is filled by kernels: the host sees none of its commands. */
static bool on_device(const cl_queue_properties *p)
{
	for (; p && p[0]; p += 2)
		if (p[0] == CL_QUEUE_PROPERTIES)
			return p[1] & CL_QUEUE_ON_DEVICE;
	return false;
}

static CL_API_ENTRY cl_command_queue CL_API_CALL shim_clCreateCommandQueueWithProperties(
	cl_context context, cl_device_id device, const cl_queue_properties *properties, cl_int *err)
{
	cl_command_queue queue =
		NEXT.clCreateCommandQueueWithProperties(context, device, properties, err);

	if (queue && !on_device(properties))
		fm_shim_queue_add(queue, context, device);
	return queue;
}

static CL_API_ENTRY cl_int CL_API_CALL shim_clRetainCommandQueue(cl_command_queue queue)
{
	cl_int rc = NEXT.clRetainCommandQueue(queue);

	if (rc == CL_SUCCESS)
		fm_shim_queue_retain(queue);
	return rc;
}

static CL_API_ENTRY cl_int CL_API_CALL shim_clReleaseCommandQueue(cl_command_queue queue)
{
	fm_shim_queue_release(queue);
	return NEXT.clReleaseCommandQueue(queue);
}

/* The driver counts our markers' references too; the program hears of its own. */
static CL_API_ENTRY cl_int CL_API_CALL shim_clGetCommandQueueInfo(cl_command_queue queue,
	cl_command_queue_info name, size_t size, void *value, size_t *size_ret)
{
	cl_int rc = NEXT.clGetCommandQueueInfo(queue, name, size, value, size_ret);
	cl_uint refs = rc == CL_SUCCESS && name == CL_QUEUE_REFERENCE_COUNT && value
			       ? fm_shim_queue_refs(queue)
			       : 0;

	if (refs)
		memcpy(value, &refs, sizeof(refs));
	return rc;
}

static CL_API_ENTRY cl_int CL_API_CALL shim_clFinish(cl_command_queue queue)
{
	struct fm_shim_queue *q = fm_shim_find(queue);
	uint64_t mark = q ? fm_xq_mark(q->xq) : 0;
	cl_int rc = NEXT.clFinish(queue);

	if (q && rc == CL_SUCCESS)
		fm_xq_synced(q->xq, mark);
	return rc;
}

static CL_API_ENTRY cl_int CL_API_CALL shim_clWaitForEvents(cl_uint n, const cl_event *events)
{
	cl_int rc = NEXT.clWaitForEvents(n, events);

	for (cl_uint i = 0; rc == CL_SUCCESS && i < FM_MIN(n, 8u); i++) {
		cl_command_queue queue = NULL;

		NEXT.clGetEventInfo(events[i], CL_EVENT_COMMAND_QUEUE, sizeof(queue), &queue, NULL);
		if (queue)
			fm_shim_queue_waited(queue);
	}
	return rc;
}

/* What a program enqueues through an extension's own function goes past us: the look-up is counted,
 * by that function's name. */
static void note_extension(const char *name, const void *function)
{
	if (!function || !name)
		return;
	if (strstr(name, "Enqueue") || strstr(name, "CommandBuffer"))
		fm_shim_ungoverned(name);
	if (strstr(name, "SetKernelArg") || strstr(name, "SetKernelExec"))
		fm_shim_blind();
}

static CL_API_ENTRY void *CL_API_CALL shim_clGetExtensionFunctionAddress(const char *name)
{
	void *function = NEXT.clGetExtensionFunctionAddress(name);

	note_extension(name, function);
	return function;
}

static CL_API_ENTRY void *CL_API_CALL shim_clGetExtensionFunctionAddressForPlatform(
	cl_platform_id platform, const char *name)
{
	void *function = NEXT.clGetExtensionFunctionAddressForPlatform(platform, name);

	note_extension(name, function);
	return function;
}

CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(
	cl_layer_info name, size_t size, void *value, size_t *size_ret)
{
	static const char layer_name[] = "fermata";
	static const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
	const void *from;
	size_t n;

	if (name == CL_LAYER_API_VERSION) {
		from = &version;
		n = sizeof(version);
	} else if (name == CL_LAYER_NAME) {
		from = layer_name;
		n = sizeof(layer_name);
	} else {
		return CL_INVALID_VALUE;
	}
	if (value && size < n)
		return CL_INVALID_VALUE;
	if (value)
		memcpy(value, from, n);
	if (size_ret)
		*size_ret = n;
	return CL_SUCCESS;
}

static void fork_prepare(void)
{
	fm_shim_queues_lock();
	fm_shim_table_lock();
}

static void fork_done(void)
{
	fm_shim_table_unlock();
	fm_shim_queues_unlock();
}

static void handlers(void)
{
	pthread_atfork(fork_prepare, fork_done, fork_done);
}

CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint num_entries, const cl_icd_dispatch *target,
	cl_uint *num_entries_ret, const cl_icd_dispatch **layer)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	/* A loader with a longer table knows calls that we do not; those go past us. A shorter
	 * table, of an older loader, lacks the calls at its end. */
	cl_uint known = sizeof(fm_cl_layer.own) / sizeof(void *);

	if (!target || !layer || !num_entries_ret)
		return CL_INVALID_VALUE;
	pthread_once(&once, handlers);
	memset(&fm_cl_layer, 0, sizeof(fm_cl_layer));
	memcpy(&fm_cl_layer.next, target, FM_MIN(num_entries, known) * sizeof(void *));
	fm_cl_layer.own = fm_cl_layer.next;
	fm_shim_enqueues(&fm_cl_layer.own);
#define ENTRY(name, what)         \
	if (fm_cl_layer.own.name) \
		fm_cl_layer.own.name = shim_##name;
	FM_CL_QUEUE_CALLS(ENTRY)
	if (fm_shim_guard_wanted()) {
		fm_shim_programs(&fm_cl_layer.own);
		fm_shim_kernels(&fm_cl_layer.own);
	}
	*layer = &fm_cl_layer.own;
	*num_entries_ret = FM_MIN(num_entries, known);
	return CL_SUCCESS;
}
