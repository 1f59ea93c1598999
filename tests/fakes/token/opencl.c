/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A layer for OpenCL's loader, for below ours: the driver's commands have the token (token.h) while
 * they are executed. Each command waits for a user event besides what the program has it wait for.
 * A thread for each queue sets that when what is in front of the command has finished and the token
 * is there, and gives the token back at the command's end. For queues that keep their order.
 *
 * Commands are kernels, and reads, writes, copies and fills of buffers. What a gate is made of is
 * none: it takes no device.
 */
#include "token.h"
#include <CL/cl_layer.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT  __attribute__((visibility("default")))
#define WAITERS 64u
#define QUEUES  64u

struct job {
	struct job *next;
	cl_event ready, start, end;
	bool told; /* end is known, or there is none since the driver has refused */
};

static struct queue {
	cl_command_queue handle;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct job *head, **tail;
} queues[QUEUES];
static unsigned n_queues;
static pthread_mutex_t queues_lock = PTHREAD_MUTEX_INITIALIZER;

static struct token *token;
static const cl_icd_dispatch *next;
static cl_icd_dispatch own;

static void must(cl_int rc, const char *what)
{
	if (!rc)
		return;
	fprintf(stderr, "token: %s: %d\n", what, rc);
	abort();
}

/* An event of a command that failed is an end, too. */
static void await(cl_event e)
{
	next->clWaitForEvents(1, &e);
	must(next->clReleaseEvent(e), "clReleaseEvent");
}

static void serve(struct queue *q, struct job *j)
{
	cl_event end;

	await(j->ready);
	token_take(token);
	must(next->clSetUserEventStatus(j->start, CL_COMPLETE), "clSetUserEventStatus");
	pthread_mutex_lock(&q->lock);
	while (!j->told)
		pthread_cond_wait(&q->changed, &q->lock);
	end = j->end;
	pthread_mutex_unlock(&q->lock);
	if (end)
		await(end);
	token_give(token);
	must(next->clReleaseEvent(j->start), "clReleaseEvent");
}

static void *worker(void *arg)
{
	struct queue *q = arg;
	struct job *j;

	for (;;) {
		pthread_mutex_lock(&q->lock);
		while (!q->head)
			pthread_cond_wait(&q->changed, &q->lock);
		j = q->head;
		pthread_mutex_unlock(&q->lock);
		serve(q, j);
		pthread_mutex_lock(&q->lock);
		q->head = j->next;
		if (!q->head)
			q->tail = &q->head;
		pthread_mutex_unlock(&q->lock);
		free(j);
	}
	return NULL;
}

/* A handle that is used again is the same queue here. */
static struct queue *queue_of(cl_command_queue handle)
{
	struct queue *q = NULL;
	pthread_t t;

	pthread_mutex_lock(&queues_lock);
	for (unsigned i = 0; i < n_queues && !q; i++)
		q = queues[i].handle == handle ? &queues[i] : NULL;
	if (!q && n_queues < QUEUES) {
		q = &queues[n_queues++];
		q->handle = handle;
		q->tail = &q->head;
		pthread_mutex_init(&q->lock, NULL);
		pthread_cond_init(&q->changed, NULL);
		must(pthread_create(&t, NULL, worker, q), "pthread_create");
		pthread_detach(t);
	}
	pthread_mutex_unlock(&queues_lock);
	must(!q, "too many queues");
	return q;
}

struct command {
	struct queue *q;
	struct job *job;
	cl_event wait[WAITERS + 1], end;
	cl_uint n;
};

/* False: the driver is to say what is wrong with it. */
static bool begin(struct command *c, cl_command_queue handle, cl_uint n, const cl_event *wait)
{
	cl_context ctx;
	cl_int rc;

	*c = (struct command){.n = n + 1};
	if (n > WAITERS || !n != !wait ||
		next->clGetCommandQueueInfo(
			handle, CL_QUEUE_CONTEXT, sizeof(ctx), (void *)&ctx, NULL))
		return false;
	c->job = calloc(1, sizeof(*c->job));
	must(!c->job, "no memory");
	if (next->clEnqueueMarkerWithWaitList(handle, n, wait, &c->job->ready)) {
		free(c->job);
		return false;
	}
	c->job->start = next->clCreateUserEvent(ctx, &rc);
	must(rc, "clCreateUserEvent");
	if (n)
		memcpy(c->wait, wait, n * sizeof(*wait));
	c->wait[n] = c->job->start;
	c->q = queue_of(handle);
	pthread_mutex_lock(&c->q->lock);
	*c->q->tail = c->job;
	c->q->tail = &c->job->next;
	pthread_cond_broadcast(&c->q->changed);
	pthread_mutex_unlock(&c->q->lock);
	return true;
}

static cl_int end(struct command *c, cl_event *event, cl_int rc)
{
	if (!rc && event) {
		must(next->clRetainEvent(c->end), "clRetainEvent");
		*event = c->end;
	}
	pthread_mutex_lock(&c->q->lock);
	c->job->end = rc ? NULL : c->end;
	c->job->told = true;
	pthread_cond_broadcast(&c->q->changed);
	pthread_mutex_unlock(&c->q->lock);
	return rc;
}

/* The arguments in front of the events are in brackets. */
#define COMMAND(name, params, args)                                                \
	static cl_int CL_API_CALL token_##name params                              \
	{                                                                          \
		struct command c;                                                  \
                                                                                   \
		if (!begin(&c, queue, n, wait))                                    \
			return next->name(WITH args, n, wait, event);              \
		return end(&c, event, next->name(WITH args, c.n, c.wait, &c.end)); \
	}
#define WITH(...) __VA_ARGS__
#define EVENTS    cl_uint n, const cl_event *wait, cl_event *event

COMMAND(clEnqueueNDRangeKernel,
	(cl_command_queue queue, cl_kernel kernel, cl_uint dim, const size_t *offset,
		const size_t *global, const size_t *local, EVENTS),
	(queue, kernel, dim, offset, global, local))
COMMAND(clEnqueueTask, (cl_command_queue queue, cl_kernel kernel, EVENTS), (queue, kernel))
COMMAND(clEnqueueReadBuffer,
	(cl_command_queue queue, cl_mem mem, cl_bool blocking, size_t at, size_t size, void *to,
		EVENTS),
	(queue, mem, blocking, at, size, to))
COMMAND(clEnqueueWriteBuffer,
	(cl_command_queue queue, cl_mem mem, cl_bool blocking, size_t at, size_t size,
		const void *from, EVENTS),
	(queue, mem, blocking, at, size, from))
COMMAND(clEnqueueCopyBuffer,
	(cl_command_queue queue, cl_mem from, cl_mem to, size_t at, size_t to_at, size_t size,
		EVENTS),
	(queue, from, to, at, to_at, size))
COMMAND(clEnqueueFillBuffer,
	(cl_command_queue queue, cl_mem mem, const void *pattern, size_t length, size_t at,
		size_t size, EVENTS),
	(queue, mem, pattern, length, at, size))

/* --- what the device is --- */

static cl_int answer(const void *what, size_t n, size_t size, void *value, size_t *size_ret)
{
	if (value && size < n)
		return CL_INVALID_VALUE;
	if (value)
		memcpy(value, what, n);
	if (size_ret)
		*size_ret = n;
	return CL_SUCCESS;
}

static cl_int CL_API_CALL token_clGetDeviceInfo(
	cl_device_id device, cl_device_info what, size_t size, void *value, size_t *size_ret)
{
	const char *part = getenv("FERMATA_TOKEN_PART"); /* as Intel's driver says it */
	unsigned char uuid[CL_UUID_SIZE_KHR + 1] = TOKEN_UUID;
	cl_device_type type = CL_DEVICE_TYPE_GPU;
	cl_uint vendor = part ? 0x8086 : 0x10de;

	if (part)
		uuid[CL_UUID_SIZE_KHR - 1] = (unsigned char)atoi(part);
	switch (what) {
	case CL_DEVICE_VENDOR_ID:
		return answer(&vendor, sizeof(vendor), size, value, size_ret);
	case CL_DEVICE_TYPE:
		return answer(&type, sizeof(type), size, value, size_ret);
	case CL_DEVICE_UUID_KHR:
		return answer(uuid, CL_UUID_SIZE_KHR, size, value, size_ret);
	default:
		return next->clGetDeviceInfo(device, what, size, value, size_ret);
	}
}

EXPORT cl_int CL_API_CALL clGetLayerInfo(
	cl_layer_info what, size_t size, void *value, size_t *size_ret)
{
	cl_uint version = CL_LAYER_API_VERSION_100;

	return what == CL_LAYER_API_VERSION
		       ? answer(&version, sizeof(version), size, value, size_ret)
		       : CL_INVALID_VALUE;
}

EXPORT cl_int CL_API_CALL clInitLayer(
	cl_uint n, const cl_icd_dispatch *target, cl_uint *n_ret, const cl_icd_dispatch **layer)
{
	cl_uint known = sizeof(own) / sizeof(void *);

	token = token_open();
	next = target;
	memcpy(&own, target, (n < known ? n : known) * sizeof(void *));
	if (token) {
		own.clGetDeviceInfo = token_clGetDeviceInfo;
		own.clEnqueueNDRangeKernel = token_clEnqueueNDRangeKernel;
		own.clEnqueueTask = token_clEnqueueTask;
		own.clEnqueueReadBuffer = token_clEnqueueReadBuffer;
		own.clEnqueueWriteBuffer = token_clEnqueueWriteBuffer;
		own.clEnqueueCopyBuffer = token_clEnqueueCopyBuffer;
		own.clEnqueueFillBuffer = token_clEnqueueFillBuffer;
	}
	*layer = &own;
	*n_ret = n < known ? n : known;
	return CL_SUCCESS;
}
