/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the OpenCL layer adds to a launch: clEnqueueNDRangeKernel through the layer against the same
 * call to the driver, on a queue that nobody contends for. The driver is one that does nothing at
 * all, so that the difference is the layer alone; rounds of both alternate, and each pair gives one
 * difference.
 *
 * usage: bench_opencl_shim [LAYER.so [TIMES]]
 * With TIMES it launches so often through the layer and measures nothing, so that instructions can
 * be counted. FERMATA_SOCKET etc. choose the daemon as for any program.
 */
#include <CL/cl_layer.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LAUNCHES 200000
#define ROUNDS   31

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* A driver whose commands are finished when they are enqueued. Handles are addresses of nothing. */
static char handles[4];

static cl_command_queue CL_API_CALL create_queue(
	cl_context c, cl_device_id d, const cl_queue_properties *p, cl_int *err)
{
	if (err)
		*err = CL_SUCCESS;
	return (cl_command_queue)(void *)&handles[0];
}

static cl_int CL_API_CALL queue_info(
	cl_command_queue q, cl_command_queue_info i, size_t size, void *value, size_t *ret)
{
	memset(value, 0, size);
	return CL_SUCCESS;
}

static cl_int CL_API_CALL device_info(
	cl_device_id d, cl_device_info i, size_t size, void *value, size_t *ret)
{
	memset(value, 0, size);
	return i == CL_DEVICE_PARENT_DEVICE ? CL_INVALID_VALUE : CL_SUCCESS;
}

static cl_int CL_API_CALL device_ids(
	cl_platform_id p, cl_device_type t, cl_uint n, cl_device_id *d, cl_uint *ret)
{
	return CL_DEVICE_NOT_FOUND;
}

static cl_int CL_API_CALL launch(cl_command_queue q, cl_kernel k, cl_uint dim, const size_t *offset,
	const size_t *global, const size_t *local, cl_uint n, const cl_event *wait, cl_event *event)
{
	__asm__ volatile("" ::: "memory");
	return CL_SUCCESS;
}

static cl_int CL_API_CALL marker(
	cl_command_queue q, cl_uint n, const cl_event *wait, cl_event *event)
{
	if (event)
		*event = (cl_event)(void *)&handles[1];
	return CL_SUCCESS;
}

static cl_int CL_API_CALL callback(
	cl_event e, cl_int type, void(CL_CALLBACK *fn)(cl_event, cl_int, void *), void *user)
{
	fn(e, CL_COMPLETE, user);
	return CL_SUCCESS;
}

static cl_event CL_API_CALL user_event(cl_context c, cl_int *err)
{
	*err = CL_SUCCESS;
	return (cl_event)(void *)&handles[2];
}

static cl_int CL_API_CALL event_status(cl_event e, cl_int status)
{
	return CL_SUCCESS;
}

static cl_int CL_API_CALL event_release(cl_event e)
{
	return CL_SUCCESS;
}

static cl_int CL_API_CALL queue_op(cl_command_queue q)
{
	return CL_SUCCESS;
}

static const cl_icd_dispatch driver = {
	.clCreateCommandQueueWithProperties = create_queue,
	.clGetCommandQueueInfo = queue_info,
	.clGetDeviceInfo = device_info,
	.clGetDeviceIDs = device_ids,
	.clEnqueueNDRangeKernel = launch,
	.clEnqueueMarkerWithWaitList = marker,
	.clEnqueueBarrierWithWaitList = marker,
	.clSetEventCallback = callback,
	.clCreateUserEvent = user_event,
	.clSetUserEventStatus = event_status,
	.clReleaseEvent = event_release,
	.clFlush = queue_op,
	.clFinish = queue_op,
	.clReleaseCommandQueue = queue_op,
};

static void launches(const cl_icd_dispatch *volatile cl, cl_command_queue q, int times)
{
	size_t global = 1024;

	for (int i = 0; i < times; i++)
		cl->clEnqueueNDRangeKernel(
			q, (cl_kernel)(void *)&handles[3], 1, NULL, &global, NULL, 0, NULL, NULL);
}

static double round_of(const cl_icd_dispatch *volatile cl, cl_command_queue q)
{
	double start = now_ns();

	launches(cl, q, LAUNCHES);
	return (now_ns() - start) / LAUNCHES;
}

/* A program that waits after each launch. */
static double synced_round_of(const cl_icd_dispatch *volatile cl, cl_command_queue q)
{
	size_t global = 1024;
	double start = now_ns();

	for (int i = 0; i < LAUNCHES; i++) {
		cl->clEnqueueNDRangeKernel(
			q, (cl_kernel)(void *)&handles[3], 1, NULL, &global, NULL, 0, NULL, NULL);
		cl->clFinish(q);
	}
	return (now_ns() - start) / LAUNCHES;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void measure(const char *what,
	double (*one)(const cl_icd_dispatch *volatile, cl_command_queue),
	const cl_icd_dispatch *layer, cl_command_queue q)
{
	double diff[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		double native = one(&driver, q);

		diff[i] = one(layer, q) - native;
	}
	qsort(diff, ROUNDS, sizeof(*diff), by_value);
	printf("%-28s %8.1f ns (min %.1f, max %.1f; %d rounds of %d)\n", what, diff[ROUNDS / 2],
		diff[0], diff[ROUNDS - 1], ROUNDS, LAUNCHES);
}

int main(int argc, char **argv)
{
	const char *path = argc > 1 ? argv[1] : "libfermata-opencl.so";
	void *so = dlopen(path, RTLD_NOW);
	pfn_clInitLayer init = so ? (pfn_clInitLayer)dlsym(so, "clInitLayer") : NULL;
	const cl_icd_dispatch *layer;
	cl_command_queue q;
	cl_uint n;
	cl_int err;

	if (!init || init(sizeof(driver) / sizeof(void *), &driver, &n, &layer)) {
		fprintf(stderr, "bench_opencl_shim: %s: %s\n", path, so ? "no layer" : dlerror());
		return 1;
	}
	q = layer->clCreateCommandQueueWithProperties(NULL, NULL, NULL, &err);
	if (argc > 2) {
		launches(layer, q, atoi(argv[2]));
		return 0;
	}
	round_of(layer, q);
	measure("layer, per launch", round_of, layer, q);
	measure("layer, per launch and finish", synced_round_of, layer, q);
	return 0;
}
