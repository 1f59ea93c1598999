/* SPDX-License-Identifier: Apache-2.0 */
/* Lifetimes, queries and errors: what is released early, what is asked, what is refused. */
#include "conform.h"
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static void CL_CALLBACK on_destroyed(cl_mem m, void *arg)
{
	atomic_fetch_add((_Atomic int *)arg, 1);
}

static void wait_count(_Atomic int *n, int goal)
{
	uint64_t deadline = now_ns() + UINT64_C(60000000000);

	while (atomic_load(n) < goal) {
		if (now_ns() > deadline)
			die("only %d of %d came", atomic_load(n), goal);
		usleep(200);
	}
}

/* The queue keeps alive what its commands use. */
static void release_memory(struct conform *c)
{
	cl_command_queue q = ocl_queue(&c->o, 0);
	cl_mem out = new_words(c, 1);
	_Atomic int destroyed = 0;

	for (cl_uint i = 0; i < 20; i++) {
		cl_mem m = new_words(c, i + 2);

		OCL(clSetMemObjectDestructorCallback(m, on_destroyed, &destroyed));
		enqueue_mix(c, q, m, i, 0, NULL, NULL);
		enqueue_join(c, q, out, out, m, 0, NULL, NULL);
		OCL(clReleaseMemObject(m));
	}
	note_buffer(c, "out", q, out);
	wait_count(&destroyed, 20);
	note(c, "destroyed %d", destroyed);
	OCL(clReleaseMemObject(out));
	OCL(clReleaseCommandQueue(q));
}

/* Everything is released while the work is pending; the event alone is left. */
static void release_all(struct conform *c)
{
	uint32_t host[WORDS];

	for (int round = 0; round < 5; round++) {
		struct conform own = {.notes = c->notes, .name = c->name};
		cl_command_queue q;
		cl_event e;
		cl_mem m;

		conform_open(&own);
		q = ocl_queue(&own.o, 0);
		m = new_words(&own, 3);
		for (cl_uint i = 0; i < 50; i++)
			enqueue_mix(&own, q, m, i, 0, NULL, NULL);
		OCL(clEnqueueReadBuffer(q, m, CL_FALSE, 0, BYTES, host, 0, NULL, &e));
		OCL(clReleaseMemObject(m));
		OCL(clReleaseCommandQueue(q));
		conform_close(&own);
		OCL(clWaitForEvents(1, &e));
		note(c, "status %d", event_status(e));
		OCL(clReleaseEvent(e));
		note_data(c, "host", host, BYTES);
	}
}

static void *wait_for(void *event)
{
	cl_event e = event;

	OCL(clWaitForEvents(1, &e));
	return NULL;
}

/* Two threads wait for a command; the one that is back releases the queue, under the other. */
static void release_under_a_waiter(struct conform *c)
{
	cl_mem m = new_words(c, 5);

	for (cl_uint i = 0; i < 40; i++) {
		cl_command_queue q = ocl_queue(&c->o, 0);
		pthread_t other;
		cl_event e;

		enqueue_mix(c, q, m, i, 0, NULL, &e);
		if (pthread_create(&other, NULL, wait_for, e))
			die("no thread");
		OCL(clWaitForEvents(1, &e));
		OCL(clReleaseCommandQueue(q));
		pthread_join(other, NULL);
		note(c, "status %d", event_status(e));
		OCL(clReleaseEvent(e));
	}
	OCL(clReleaseMemObject(m));
}

/* More queues than a board has slots, at one time; and one after the other. */
static void many_queues(struct conform *c)
{
	enum { N = 150 };
	cl_command_queue q[N];
	cl_mem m = new_words(c, 4);
	cl_event last = NULL, next;

	for (int i = 0; i < N; i++)
		q[i] = ocl_queue(&c->o, 0);
	for (cl_uint i = 0; i < N; i++) {
		enqueue_mix(c, q[i], m, i, last ? 1 : 0, last ? &last : NULL, &next);
		if (last)
			OCL(clReleaseEvent(last));
		OCL(clFlush(q[i]));
		last = next;
	}
	OCL(clWaitForEvents(1, &last));
	OCL(clReleaseEvent(last));
	for (int i = 0; i < N; i++)
		OCL(clReleaseCommandQueue(q[i]));
	for (cl_uint i = 0; i < N; i++) {
		cl_command_queue short_lived = ocl_queue(&c->o, 0);

		enqueue_mix(c, short_lived, m, i, 0, NULL, NULL);
		OCL(clFinish(short_lived));
		OCL(clReleaseCommandQueue(short_lived));
	}
	q[0] = ocl_queue(&c->o, 0);
	note_buffer(c, "m", q[0], m);
	OCL(clReleaseCommandQueue(q[0]));
	OCL(clReleaseMemObject(m));
}

static cl_uint references(cl_command_queue q)
{
	cl_uint n;

	OCL(clGetCommandQueueInfo(q, CL_QUEUE_REFERENCE_COUNT, sizeof(n), &n, NULL));
	return n;
}

static void queue_info(struct conform *c)
{
	cl_queue_properties asked[] = {CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE, 0}, got[8];
	cl_command_queue_properties props;
	cl_command_queue q;
	cl_context ctx;
	cl_device_id dev;
	size_t size = 0;

	OCL_NEW(q, clCreateCommandQueueWithProperties(c->o.ctx, c->o.dev, asked, &rc_));
	OCL(clGetCommandQueueInfo(q, CL_QUEUE_CONTEXT, sizeof(ctx), &ctx, NULL));
	OCL(clGetCommandQueueInfo(q, CL_QUEUE_DEVICE, sizeof(dev), &dev, NULL));
	OCL(clGetCommandQueueInfo(q, CL_QUEUE_PROPERTIES, sizeof(props), &props, NULL));
	note(c, "context %d device %d properties %lx", ctx == c->o.ctx, dev == c->o.dev,
		(unsigned long)props);
	OCL(clGetCommandQueueInfo(q, CL_QUEUE_PROPERTIES_ARRAY, sizeof(got), got, &size));
	note_data(c, "properties", got, size);
	note(c, "references %u", references(q));
	OCL(clRetainCommandQueue(q));
	note(c, "references %u", references(q));
	OCL(clReleaseCommandQueue(q));
	note(c, "references %u", references(q));
	note(c, "no such query %d", clGetCommandQueueInfo(q, 0x7777, sizeof(got), got, NULL));
	note(c, "too small %d", clGetCommandQueueInfo(q, CL_QUEUE_CONTEXT, 1, got, NULL));
	OCL(clReleaseCommandQueue(q));
	OCL_NEW(q, clCreateCommandQueue(
			   c->o.ctx, c->o.dev, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &rc_));
	OCL(clGetCommandQueueInfo(q, CL_QUEUE_PROPERTIES, sizeof(props), &props, NULL));
	note(c, "of old %lx", (unsigned long)props);
	OCL(clReleaseCommandQueue(q));
}

/* Not the reference count: drivers keep events of their own accord for a while. */
static void note_event(struct conform *c, const char *what, cl_command_queue q, cl_event e)
{
	cl_command_queue own;
	cl_context ctx;
	cl_command_type type;

	OCL(clGetEventInfo(e, CL_EVENT_COMMAND_QUEUE, sizeof(own), &own, NULL));
	OCL(clGetEventInfo(e, CL_EVENT_CONTEXT, sizeof(ctx), &ctx, NULL));
	OCL(clGetEventInfo(e, CL_EVENT_COMMAND_TYPE, sizeof(type), &type, NULL));
	OCL(clWaitForEvents(1, &e));
	note(c, "%s: queue %d context %d type %x status %d", what, own == q, ctx == c->o.ctx, type,
		event_status(e));
	OCL(clReleaseEvent(e));
}

static void event_info(struct conform *c)
{
	cl_command_queue q = ocl_queue(&c->o, 0);
	cl_mem m = new_words(c, 5), n = new_words(c, 6);
	uint32_t host[16] = {0};
	cl_event e;
	void *p;

	enqueue_mix(c, q, m, 1, 0, NULL, &e);
	note_event(c, "kernel", q, e);
	OCL(clEnqueueReadBuffer(q, m, CL_FALSE, 0, 64, host, 0, NULL, &e));
	note_event(c, "read", q, e);
	OCL(clEnqueueWriteBuffer(q, m, CL_TRUE, 0, 64, host, 0, NULL, &e));
	note_event(c, "write", q, e);
	OCL(clEnqueueCopyBuffer(q, m, n, 0, 0, 64, 0, NULL, &e));
	note_event(c, "copy", q, e);
	OCL(clEnqueueFillBuffer(q, m, host, 4, 0, 64, 0, NULL, &e));
	note_event(c, "fill", q, e);
	OCL_NEW(p, clEnqueueMapBuffer(q, m, CL_FALSE, CL_MAP_READ, 0, 64, 0, NULL, &e, &rc_));
	note_event(c, "map", q, e);
	OCL(clEnqueueUnmapMemObject(q, m, p, 0, NULL, &e));
	note_event(c, "unmap", q, e);
	OCL(clEnqueueMarkerWithWaitList(q, 0, NULL, &e));
	note_event(c, "marker", q, e);
	OCL(clEnqueueBarrierWithWaitList(q, 0, NULL, &e));
	note_event(c, "barrier", q, e);
	OCL(clEnqueueMigrateMemObjects(q, 1, &m, 0, 0, NULL, &e));
	note_event(c, "migrate", q, e);
	OCL(clSetKernelArg(c->one, 0, sizeof(m), &m));
	OCL(clEnqueueTask(q, c->one, 0, NULL, &e));
	note_event(c, "task", q, e);
	OCL(clReleaseMemObject(m));
	OCL(clReleaseMemObject(n));
	OCL(clReleaseCommandQueue(q));
}

/* Refused: the same code, and the event that the caller has is not touched. */
static void note_refused(struct conform *c, const char *what, cl_int rc, cl_event *e)
{
	note(c, "%s: %d, event %s", what, rc, *e == (cl_event)e ? "untouched" : "touched");
	*e = (cl_event)e;
}

static void bad_arguments(struct conform *c)
{
	cl_command_queue q = ocl_queue(&c->o, 0);
	cl_mem m = new_words(c, 7);
	size_t global = WORDS, group = 1 << 20;
	cl_event e = (cl_event)&e;
	uint32_t host[4];
	cl_int rc;

	OCL(clSetKernelArg(c->one, 0, sizeof(m), &m));
	note_refused(c, "kernel, no queue",
		clEnqueueNDRangeKernel(NULL, c->one, 1, NULL, &global, NULL, 0, NULL, &e), &e);
	note_refused(c, "kernel, no dimensions",
		clEnqueueNDRangeKernel(q, c->one, 0, NULL, &global, NULL, 0, NULL, &e), &e);
	note_refused(c, "kernel, four dimensions",
		clEnqueueNDRangeKernel(q, c->one, 4, NULL, &global, NULL, 0, NULL, &e), &e);
	global = 1 << 20;
	note_refused(c, "kernel, group too large",
		clEnqueueNDRangeKernel(q, c->one, 1, NULL, &global, &group, 0, NULL, &e), &e);
	note_refused(c, "read, no memory",
		clEnqueueReadBuffer(q, NULL, CL_TRUE, 0, 16, host, 0, NULL, &e), &e);
	note_refused(c, "read, no host memory",
		clEnqueueReadBuffer(q, m, CL_TRUE, 0, 16, NULL, 0, NULL, &e), &e);
	note_refused(c, "read, too far",
		clEnqueueReadBuffer(q, m, CL_TRUE, BYTES, 16, host, 0, NULL, &e), &e);
	note_refused(c, "write, no queue",
		clEnqueueWriteBuffer(NULL, m, CL_FALSE, 0, 16, host, 0, NULL, &e), &e);
	note_refused(
		c, "copy, too far", clEnqueueCopyBuffer(q, m, m, 0, BYTES, 16, 0, NULL, &e), &e);
	note_refused(
		c, "fill, no pattern", clEnqueueFillBuffer(q, m, NULL, 4, 0, 64, 0, NULL, &e), &e);
	note_refused(
		c, "fill, odd pattern", clEnqueueFillBuffer(q, m, host, 3, 0, 63, 0, NULL, &e), &e);
	note_refused(c, "unmap, not mapped", clEnqueueUnmapMemObject(q, m, host, 0, NULL, &e), &e);
	note(c, "map, too far: %d",
		(clEnqueueMapBuffer(q, m, CL_TRUE, CL_MAP_READ, BYTES, 16, 0, NULL, NULL, &rc),
			rc));
	note(c, "flush, finish, wait: %d %d %d", clFlush(NULL), clFinish(NULL),
		clWaitForEvents(0, NULL));
	note_buffer(c, "still works", q, m);
	OCL(clReleaseMemObject(m));
	OCL(clReleaseCommandQueue(q));
}

static void bad_wait_lists(struct conform *c)
{
	cl_command_queue q = ocl_queue(&c->o, 0);
	cl_mem m = new_words(c, 8);
	cl_event e = (cl_event)&e, hole[2] = {NULL, NULL}, foreign;
	struct ocl other = c->o;
	uint32_t host[4];

	OCL(clSetKernelArg(c->one, 0, sizeof(m), &m));
	note_refused(c, "read, count without list",
		clEnqueueReadBuffer(q, m, CL_FALSE, 0, 16, host, 1, NULL, &e), &e);
	note_refused(c, "copy, list without count",
		clEnqueueCopyBuffer(q, m, m, 0, 64, 16, 0, hole, &e), &e);
	note_refused(c, "read, hole in the list",
		clEnqueueReadBuffer(q, m, CL_FALSE, 0, 16, host, 2, hole, &e), &e);
	note_refused(
		c, "marker, list without count", clEnqueueMarkerWithWaitList(q, 0, hole, &e), &e);
	note_refused(
		c, "barrier, count without list", clEnqueueBarrierWithWaitList(q, 3, NULL, &e), &e);
	OCL_NEW(other.ctx, clCreateContext(NULL, 1, &other.dev, NULL, NULL, &rc_));
	OCL_NEW(foreign, clCreateUserEvent(other.ctx, &rc_));
	note_refused(c, "read, event of another context",
		clEnqueueReadBuffer(q, m, CL_FALSE, 0, 16, host, 1, &foreign, &e), &e);
	OCL(clSetUserEventStatus(foreign, CL_COMPLETE));
	OCL(clReleaseEvent(foreign));
	OCL(clReleaseContext(other.ctx));
	OCL(clFinish(q));
	OCL(clReleaseMemObject(m));
	OCL(clReleaseCommandQueue(q));
}

static void bad_queues(struct conform *c)
{
	cl_queue_properties unknown[] = {0x7777, 1, 0}, bits[] = {CL_QUEUE_PROPERTIES, 1u << 20, 0};
	cl_command_queue q;
	cl_int rc = 1;

	q = clCreateCommandQueueWithProperties(NULL, c->o.dev, NULL, &rc);
	note(c, "no context: %d %d", q == NULL, rc);
	q = clCreateCommandQueueWithProperties(c->o.ctx, NULL, NULL, &rc);
	note(c, "no device: %d %d", q == NULL, rc);
	q = clCreateCommandQueueWithProperties(c->o.ctx, c->o.dev, unknown, &rc);
	note(c, "unknown property: %d %d", q == NULL, rc);
	q = clCreateCommandQueueWithProperties(c->o.ctx, c->o.dev, bits, &rc);
	note(c, "unknown bit: %d %d", q == NULL, rc);
	q = clCreateCommandQueueWithProperties(c->o.ctx, c->o.dev, NULL, NULL);
	note(c, "nowhere to put the code: %d", q != NULL);
	OCL(clReleaseCommandQueue(q));
	note(c, "retain, release nothing: %d %d", clRetainCommandQueue(NULL),
		clReleaseCommandQueue(NULL));
}

/* Work on a device's halves: other devices, other queues, one context. The halves are never
 * released: PoCL 3.1 frees a sub-device while its worker threads still let go of the last event. */
static void sub_devices(struct conform *c)
{
	const cl_device_partition_property by[] = {CL_DEVICE_PARTITION_EQUALLY, 1, 0};
	static cl_device_id half[64];
	static cl_uint n;
	struct conform own = {.notes = c->notes, .name = c->name};
	cl_command_queue q[2];
	cl_mem m[2];

	if (!n && clCreateSubDevices(c->o.dev, by, 64, half, &n) != CL_SUCCESS)
		n = 0;
	note(c, "%u parts", n);
	if (n < 2)
		return;
	own.o = c->o;
	OCL_NEW(own.o.ctx, clCreateContext(NULL, 2, half, NULL, NULL, &rc_));
	OCL_NEW(own.program, clCreateProgramWithSource(
				     own.o.ctx, 1, (const char *[]){conform_source}, NULL, &rc_));
	OCL(clBuildProgram(own.program, 2, half, "", NULL, NULL));
	own.mix = ocl_kernel(own.program, "scramble");
	for (int i = 0; i < 2; i++) {
		own.o.dev = half[i];
		q[i] = ocl_queue(&own.o, 0);
		m[i] = new_words(&own, 9 + (uint32_t)i);
	}
	for (cl_uint i = 0; i < 60; i++)
		enqueue_mix(&own, q[i & 1], m[i & 1], i, 0, NULL, NULL);
	for (int i = 0; i < 2; i++) {
		note_buffer(&own, i ? "second" : "first", q[i], m[i]);
		OCL(clReleaseMemObject(m[i]));
		OCL(clReleaseCommandQueue(q[i]));
	}
	OCL(clReleaseKernel(own.mix));
	OCL(clReleaseProgram(own.program));
	OCL(clReleaseContext(own.o.ctx));
}

int main(int argc, char **argv)
{
	static const struct conform_case cases[] = {
		{"release memory", release_memory},
		{"release all", release_all},
		{"release under a waiter", release_under_a_waiter},
		{"many queues", many_queues},
		{"queue info", queue_info},
		{"event info", event_info},
		{"bad arguments", bad_arguments},
		{"bad wait lists", bad_wait_lists},
		{"bad queues", bad_queues},
		{"sub-devices", sub_devices},
		{NULL, NULL},
	};

	return conform_main(argc, argv, cases);
}
