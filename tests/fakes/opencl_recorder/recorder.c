/* SPDX-License-Identifier: Apache-2.0 */
#include "recorder.h"
#include "base/util.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT    __attribute__((visibility("default")))
#define LATE_MOST 4096
#define PARAMETERS                                                                    \
	300 /* of each kernel: also of those with the highest number that a test sets \
	     */

EXPORT rec_expect_fn rec_expect;
EXPORT rec_late_fn rec_late;
EXPORT rec_events_fn rec_events;
EXPORT rec_dispatch_fn rec_dispatch;

static __thread struct rec_call *expected;
static cl_icd_dispatch dispatch;
static struct rec_object platform = {.dispatch = &dispatch}, device = {.dispatch = &dispatch};

/* --- events --- */

struct callback {
	cl_event event;
	void(CL_CALLBACK *fn)(cl_event, cl_int, void *);
	void *cookie;
};

/* Events stay in memory when they have no references any more, so that a release too many shows. */
static struct {
	pthread_mutex_t lock;
	unsigned made, wrong;
	struct rec_object *event[1 << 16];
	bool late;
	unsigned n_waiting;
	struct callback waiting[LATE_MOST];
} events = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct rec_object *new_event(cl_command_queue queue)
{
	struct rec_object *e = calloc(1, sizeof(*e));

	if (!e)
		abort();
	e->dispatch = &dispatch;
	e->queue = queue;
	atomic_init(&e->refs, 1);
	pthread_mutex_lock(&events.lock);
	if (events.made == FM_ARRAY_LEN(events.event))
		abort();
	events.event[events.made++] = e;
	pthread_mutex_unlock(&events.lock);
	return e;
}

void rec_events(unsigned *live, unsigned *wrong)
{
	*live = 0;
	pthread_mutex_lock(&events.lock);
	for (unsigned i = 0; i < events.made; i++)
		*live += atomic_load(&events.event[i]->refs) > 0;
	*wrong = events.wrong;
	pthread_mutex_unlock(&events.lock);
}

static void tell(const struct callback *c)
{
	c->fn(c->event, CL_COMPLETE, c->cookie);
}

void rec_late(bool late)
{
	struct callback now[LATE_MOST];
	unsigned n;

	pthread_mutex_lock(&events.lock);
	events.late = late;
	n = late ? 0 : events.n_waiting;
	memcpy(now, events.waiting, n * sizeof(*now));
	if (!late)
		events.n_waiting = 0;
	pthread_mutex_unlock(&events.lock);
	for (unsigned i = 0; i < n; i++)
		tell(&now[i]);
}

/* --- what the driver does for the layer, and for the test's own needs --- */

static cl_int put(const void *from, size_t n, size_t size, void *value, size_t *size_ret)
{
	if (value && size < n)
		return CL_INVALID_VALUE;
	if (value)
		memcpy(value, from, n);
	if (size_ret)
		*size_ret = n;
	return CL_SUCCESS;
}

#define PUT(value_) put(&(__typeof__(value_)){value_}, sizeof(value_), size, value, size_ret)

static cl_int CL_API_CALL get_platforms(cl_uint n, cl_platform_id *list, cl_uint *n_ret)
{
	if (list && n)
		list[0] = (cl_platform_id)&platform;
	if (n_ret)
		*n_ret = 1;
	return CL_SUCCESS;
}

static cl_int CL_API_CALL get_platform_info(
	cl_platform_id of, cl_platform_info name, size_t size, void *value, size_t *size_ret)
{
	const char *text = name == CL_PLATFORM_EXTENSIONS       ? "cl_khr_icd"
			   : name == CL_PLATFORM_ICD_SUFFIX_KHR ? "REC"
			   : name == CL_PLATFORM_VERSION        ? "OpenCL 3.0 recorder"
								: "recorder";

	return put(text, strlen(text) + 1, size, value, size_ret);
}

static cl_int CL_API_CALL get_devices(
	cl_platform_id of, cl_device_type type, cl_uint n, cl_device_id *list, cl_uint *n_ret)
{
	if (list && n)
		list[0] = (cl_device_id)&device;
	if (n_ret)
		*n_ret = 1;
	return CL_SUCCESS;
}

/* A processor: the layer does not try how soon such devices tell of finished commands. */
static cl_int CL_API_CALL get_device_info(
	cl_device_id of, cl_device_info name, size_t size, void *value, size_t *size_ret)
{
	switch (name) {
	case CL_DEVICE_TYPE:
		return PUT((cl_device_type)CL_DEVICE_TYPE_CPU);
	case CL_DEVICE_PLATFORM:
		return PUT((cl_platform_id)&platform);
	case CL_DEVICE_VENDOR_ID:
		return PUT((cl_uint)0);
	case CL_DEVICE_NAME:
		return put("Recorder", sizeof("Recorder"), size, value, size_ret);
	default:
		return CL_INVALID_VALUE;
	}
}

static cl_int CL_API_CALL get_queue_info(
	cl_command_queue of, cl_command_queue_info name, size_t size, void *value, size_t *size_ret)
{
	const struct rec_object *q = (const void *)of;

	switch (name) {
	case CL_QUEUE_PROPERTIES:
		return PUT(q->properties);
	case CL_QUEUE_DEVICE:
		return PUT((cl_device_id)&device);
	case CL_QUEUE_REFERENCE_COUNT:
		return PUT((cl_uint)77);
	default:
		return CL_INVALID_VALUE;
	}
}

static cl_int CL_API_CALL get_kernel_info(
	cl_kernel of, cl_kernel_info name, size_t size, void *value, size_t *size_ret)
{
	switch (name) {
	case CL_KERNEL_FUNCTION_NAME:
		return put("k", sizeof("k"), size, value, size_ret);
	case CL_KERNEL_NUM_ARGS:
		return PUT((cl_uint)PARAMETERS);
	default:
		return CL_INVALID_VALUE;
	}
}

static cl_int CL_API_CALL get_event_info(
	cl_event of, cl_event_info name, size_t size, void *value, size_t *size_ret)
{
	const struct rec_object *e = (const void *)of;

	switch (name) {
	case CL_EVENT_COMMAND_QUEUE:
		return PUT(e->queue);
	case CL_EVENT_COMMAND_EXECUTION_STATUS:
		return PUT((cl_int)CL_COMPLETE);
	default:
		return CL_INVALID_VALUE;
	}
}

static cl_int CL_API_CALL set_callback(cl_event event, cl_int status,
	void(CL_CALLBACK *fn)(cl_event, cl_int, void *), void *cookie)
{
	const struct callback c = {event, fn, cookie};
	bool late;

	pthread_mutex_lock(&events.lock);
	late = events.late;
	if (late && events.n_waiting == LATE_MOST)
		abort();
	if (late)
		events.waiting[events.n_waiting++] = c;
	pthread_mutex_unlock(&events.lock);
	if (!late)
		tell(&c);
	return CL_SUCCESS;
}

static cl_int CL_API_CALL retain_event(cl_event event)
{
	struct rec_object *e = (void *)event;

	atomic_fetch_add(&e->refs, 1);
	return CL_SUCCESS;
}

static cl_int CL_API_CALL release_event(cl_event event)
{
	struct rec_object *e = (void *)event;

	if (atomic_fetch_sub(&e->refs, 1) > 0)
		return CL_SUCCESS;
	pthread_mutex_lock(&events.lock);
	events.wrong++;
	pthread_mutex_unlock(&events.lock);
	return CL_INVALID_EVENT;
}

static cl_event CL_API_CALL new_user_event(cl_context context, cl_int *err)
{
	if (err)
		*err = CL_SUCCESS;
	return (cl_event)new_event(NULL);
}

static cl_int CL_API_CALL set_user_event(cl_event event, cl_int status)
{
	return CL_SUCCESS;
}

static cl_int CL_API_CALL order(
	cl_command_queue queue, cl_uint n, const cl_event *wait, cl_event *event)
{
	if (event)
		*event = (cl_event)new_event(queue);
	return CL_SUCCESS;
}

static cl_int CL_API_CALL on_queue(cl_command_queue queue)
{
	return CL_SUCCESS;
}

static cl_int CL_API_CALL on_program(cl_program program)
{
	return CL_SUCCESS;
}

static cl_int CL_API_CALL on_kernel(cl_kernel kernel)
{
	return CL_SUCCESS;
}

static void recorded(void)
{
}

static void *CL_API_CALL get_function(const char *name)
{
	if (!strcmp(name, "clIcdGetPlatformIDsKHR"))
		return get_platforms;
	if (!strcmp(name, "clGetPlatformInfo"))
		return get_platform_info;
	return strncmp(name, "clHas", strlen("clHas")) ? NULL : recorded;
}

static void *CL_API_CALL get_function_for(cl_platform_id of, const char *name)
{
	return get_function(name);
}

/* Of entries that are absent here nothing is done: they fail. */
static const cl_icd_dispatch does = {
	.clGetPlatformIDs = get_platforms,
	.clGetPlatformInfo = get_platform_info,
	.clGetDeviceIDs = get_devices,
	.clGetDeviceInfo = get_device_info,
	.clRetainCommandQueue = on_queue,
	.clReleaseCommandQueue = on_queue,
	.clGetCommandQueueInfo = get_queue_info,
	.clFlush = on_queue,
	.clFinish = on_queue,
	.clRetainProgram = on_program,
	.clReleaseProgram = on_program,
	.clRetainKernel = on_kernel,
	.clReleaseKernel = on_kernel,
	.clGetKernelInfo = get_kernel_info,
	.clGetEventInfo = get_event_info,
	.clSetEventCallback = set_callback,
	.clRetainEvent = retain_event,
	.clReleaseEvent = release_event,
	.clCreateUserEvent = new_user_event,
	.clSetUserEventStatus = set_user_event,
	.clEnqueueMarkerWithWaitList = order,
	.clEnqueueBarrierWithWaitList = order,
	.clGetExtensionFunctionAddress = get_function,
	.clGetExtensionFunctionAddressForPlatform = get_function_for,
};

/* --- what is noted --- */

void rec_expect(struct rec_call *call)
{
	expected = call;
}

static unsigned differing(const struct rec_call *c, const uint64_t *word)
{
	unsigned differs = 0;

	for (unsigned i = 0; i < c->n; i++) {
		uint64_t mask = c->size[i] == 8 ? UINT64_MAX : (UINT64_C(1) << 8 * c->size[i]) - 1;

		differs |= (unsigned)((word[i] & mask) != (c->word[i] & mask)) << i;
	}
	return differs;
}

static void write_out(const struct rec_out *o, const uint64_t *word, const void *from)
{
	if (o->at >= 0 && word[o->at])
		memcpy((void *)(uintptr_t)word[o->at], from, o->size);
}

static uint64_t answer(struct rec_call *c, const uint64_t *word)
{
	const size_t other = REC_OTHER;

	write_out(&c->status, word, &c->err);
	if (c->err)
		return c->result;
	write_out(&c->other, word, &other);
	if (c->event.at >= 0 && word[c->event.at]) {
		c->made = new_event((cl_command_queue)(uintptr_t)word[0]);
		write_out(&c->event, word, &c->made);
	}
	return c->result;
}

static uint64_t called(unsigned entry, const uint64_t *w)
{
	struct rec_call *c = expected;
	unsigned differs = c && c->entry == entry ? differing(c, w) : 0;
	rec_fn *fn;

	if (c && c->entry == entry && !(differs & ~c->may_differ)) {
		c->calls++;
		c->differs |= differs;
		return answer(c, w);
	}
	if (c && c->n_besides < REC_BESIDES_MOST)
		c->besides[c->n_besides++] = entry;
	memcpy(&fn, (const char *)&does + entry * sizeof(fn), sizeof(fn));
	if (!fn)
		return (uint64_t)CL_INVALID_OPERATION;
	return fn(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12],
		w[13]);
}

/* --- the dispatch table: X(place) for 160 places --- */

/* clang-format off */
#define TEN(X, tens) \
	X(tens##0) X(tens##1) X(tens##2) X(tens##3) X(tens##4) \
	X(tens##5) X(tens##6) X(tens##7) X(tens##8) X(tens##9)
#define PLACES(X) \
	TEN(X, ) TEN(X, 1) TEN(X, 2) TEN(X, 3) TEN(X, 4) TEN(X, 5) TEN(X, 6) TEN(X, 7) \
	TEN(X, 8) TEN(X, 9) TEN(X, 10) TEN(X, 11) TEN(X, 12) TEN(X, 13) TEN(X, 14) TEN(X, 15)
/* clang-format on */
_Static_assert(REC_ENTRIES <= 160, "the dispatch table has more entries: PLACES");

#define DEFINE(place)                                                    \
	static uint64_t entry_##place(REC_WORD_PARAMS)                   \
	{                                                                \
		return called(place, (const uint64_t[]){REC_WORD_ARGS}); \
	}
PLACES(DEFINE)

static rec_fn *const entries[] = {
#define PLACE(place) entry_##place,
	PLACES(PLACE)};

__attribute__((constructor)) static void begin(void)
{
	memcpy(&dispatch, entries, sizeof(dispatch));
}

const cl_icd_dispatch *rec_dispatch(void)
{
	return &dispatch;
}

/* What the loader looks up in the library itself. */
EXPORT CL_API_ENTRY void *CL_API_CALL clGetExtensionFunctionAddress(const char *name)
{
	return dispatch.clGetExtensionFunctionAddress(name);
}
