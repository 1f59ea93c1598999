/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, events, and what runs on streams. */
#include "fake.h"
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static unsigned setting(const char *name)
{
	const char *value = getenv(name);

	return value ? (unsigned)strtoul(value, NULL, 10) : 0;
}

static void nap(unsigned us)
{
	const struct timespec t = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000L};

	if (us)
		nanosleep(&t, NULL);
}

/* --- streams --- */

VPIStatus vpiStreamCreate(uint64_t flags, VPIStream *stream)
{
	VPIStream s;

	fv_enter("vpiStreamCreate");
	if (!stream)
		return fv_done(VPI_INVALID_ARGUMENT);
	if (flags & VPI_OFA) /* this machine has none */
		return fv_done(VPI_INVALID_OPERATION);
	s = fv_new(FV_STREAM, sizeof(*s));
	s->backends = flags ? flags : VPI_CPU | VPI_CUDA | VPI_PVA | VPI_VIC;
	pthread_mutex_init(&s->lock, NULL);
	s->last = &s->first;
	if (cuStreamCreate(&s->cu, CU_STREAM_NON_BLOCKING)) {
		fv_gone(s);
		return fv_done(VPI_INVALID_OPERATION);
	}
	*stream = s;
	return fv_done(VPI_SUCCESS);
}

static void run(void *arg)
{
	struct fv_op *op = arg;

	if (op->is_slow)
		nap(setting("FAKE_VPI_US"));
	op->run(op);
	atomic_fetch_sub(&op->stream->held, 1);
	free(op);
}

static void flush(VPIStream s)
{
	struct fv_op *op, *next;

	pthread_mutex_lock(&s->lock);
	for (op = s->first; op; op = next) {
		next = op->next;
		if (cuLaunchHostFunc(s->cu, run, op))
			fv_die("the engine takes no command");
	}
	s->first = NULL;
	s->last = &s->first;
	pthread_mutex_unlock(&s->lock);
}

VPIStatus fv_submit(VPIStream s, uint64_t backend, struct fv_op op)
{
	unsigned depth = setting("FAKE_VPI_DEPTH");
	struct fv_op *copy;

	if (!fv_is(s, FV_STREAM))
		return VPI_INVALID_ARGUMENT;
	if (backend & ~s->backends)
		return VPI_INVALID_OPERATION;
	while (depth && atomic_load(&s->held) >= depth) {
		flush(s);
		nap(50);
	}
	copy = malloc(sizeof(*copy));
	if (!copy)
		fv_die("no memory");
	*copy = op;
	copy->stream = s;
	copy->next = NULL;
	atomic_fetch_add(&s->held, 1);
	pthread_mutex_lock(&s->lock);
	*s->last = copy;
	s->last = &copy->next;
	pthread_mutex_unlock(&s->lock);
	return VPI_SUCCESS;
}

VPIStatus vpiStreamFlush(VPIStream s)
{
	fv_enter("vpiStreamFlush");
	if (!fv_is(s, FV_STREAM))
		return fv_done(VPI_INVALID_ARGUMENT);
	flush(s);
	return fv_done(VPI_SUCCESS);
}

/* A thread that is cancelled meanwhile is so after the call. */
static fm_cu_result wait_for(CUstream cu)
{
	fm_cu_result rc;
	int was;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
	rc = cuStreamSynchronize(cu);
	pthread_setcancelstate(was, NULL);
	return rc;
}

VPIStatus vpiStreamSync(VPIStream s)
{
	fv_enter("vpiStreamSync");
	if (!fv_is(s, FV_STREAM))
		return fv_done(VPI_INVALID_ARGUMENT);
	flush(s);
	return fv_done(wait_for(s->cu) ? VPI_INVALID_OPERATION : s->status);
}

void vpiStreamDestroy(VPIStream s)
{
	fv_enter("vpiStreamDestroy");
	if (!fv_is(s, FV_STREAM))
		return;
	flush(s);
	cuStreamSynchronize(s->cu);
	cuStreamDestroy_v2(s->cu);
	fv_gone(s);
}

/* --- events --- */

VPIStatus vpiEventCreate(uint64_t flags, VPIEvent *event)
{
	VPIEvent e;

	fv_enter("vpiEventCreate");
	e = fv_new(FV_EVENT, sizeof(*e));
	if (cuEventCreate(&e->cu, 0)) {
		fv_gone(e);
		return fv_done(VPI_INVALID_OPERATION);
	}
	*event = e;
	return fv_done(VPI_SUCCESS);
}

void vpiEventDestroy(VPIEvent e)
{
	fv_enter("vpiEventDestroy");
	if (!fv_is(e, FV_EVENT))
		return;
	if (e->recorded && cuEventQuery(e->cu) == FM_CU_ERROR_NOT_READY)
		fv_die("an event ends that is still to come");
	cuEventDestroy_v2(e->cu);
	fv_gone(e);
}

static void be_late(void *unused)
{
	nap(setting("FAKE_VPI_LATE_US"));
}

VPIStatus vpiEventRecord(VPIEvent e, VPIStream s)
{
	fv_enter("vpiEventRecord");
	if (!fv_is(e, FV_EVENT) || !fv_is(s, FV_STREAM))
		return fv_done(VPI_INVALID_ARGUMENT);
	if (e->object.context != s->object.context)
		return fv_done(VPI_INVALID_CONTEXT);
	flush(s);
	if (setting("FAKE_VPI_LATE_US"))
		cuLaunchHostFunc(s->cu, be_late, NULL);
	e->recorded = true;
	return fv_done(cuEventRecord(e->cu, s->cu) ? VPI_INVALID_OPERATION : VPI_SUCCESS);
}

VPIStatus vpiStreamWaitEvent(VPIStream s, VPIEvent e)
{
	fv_enter("vpiStreamWaitEvent");
	if (!fv_is(e, FV_EVENT) || !fv_is(s, FV_STREAM))
		return fv_done(VPI_INVALID_ARGUMENT);
	if (e->object.context != s->object.context)
		return fv_done(VPI_INVALID_CONTEXT);
	flush(s);
	return fv_done(e->recorded && cuStreamWaitEvent(s->cu, e->cu, 0) ? VPI_INVALID_OPERATION
									 : VPI_SUCCESS);
}

VPIStatus vpiEventSync(VPIEvent e)
{
	fv_enter("vpiEventSync");
	if (!fv_is(e, FV_EVENT))
		return fv_done(VPI_INVALID_ARGUMENT);
	return fv_done(
		e->recorded && cuEventSynchronize(e->cu) ? VPI_INVALID_OPERATION : VPI_SUCCESS);
}

VPIStatus vpiEventQuery(VPIEvent e, int *state)
{
	bool is_late;

	fv_enter("vpiEventQuery");
	if (!fv_is(e, FV_EVENT) || !state)
		return fv_done(VPI_INVALID_ARGUMENT);
	is_late = (e->recorded && cuEventQuery(e->cu) == FM_CU_ERROR_NOT_READY) ||
		  fk_env("FAKE_VPI_DEAF");
	*state = is_late ? VPI_NOT_SIGNALED : VPI_SIGNALED;
	return fv_done(VPI_SUCCESS);
}

/* --- host functions --- */

static void run_host(struct fv_op *op)
{
	op->host(op->data);
}

static void run_host_ex(struct fv_op *op)
{
	op->stream->status = op->host_ex(op->stream, op->stream->status, op->data);
}

static void run_cuda(struct fv_op *op)
{
	op->cuda(op->stream->cu, op->data);
}

VPIStatus vpiSubmitHostFunction(VPIStream s, VPIHostFunction fn, void *data)
{
	fv_enter("vpiSubmitHostFunction");
	return fv_done(fv_submit(s, 0, (struct fv_op){.run = run_host, .host = fn, .data = data}));
}

VPIStatus vpiSubmitHostFunctionEx(VPIStream s, VPIHostFunctionEx fn, void *data)
{
	fv_enter("vpiSubmitHostFunctionEx");
	return fv_done(
		fv_submit(s, 0, (struct fv_op){.run = run_host_ex, .host_ex = fn, .data = data}));
}

VPIStatus vpiSubmitCUDAHostFunction(VPIStream s, VPICUDAHostFunction fn, void *data)
{
	fv_enter("vpiSubmitCUDAHostFunction");
	return fv_done(fv_submit(s, VPI_CUDA,
		(struct fv_op){.run = run_cuda, .is_slow = true, .cuda = fn, .data = data}));
}

/* --- algorithms --- */

static void run_mix(struct fv_op *op)
{
	for (unsigned i = 0; i < WORDS; i++)
		op->out->words[i] = 1664525u * op->in->words[i] + op->number;
}

static void run_copy(struct fv_op *op)
{
	for (unsigned i = 0; i < WORDS; i++)
		op->out->words[i] = op->in->words[i];
}

static VPIStatus algorithm(VPIStream s, uint64_t backend, void (*does)(struct fv_op *op),
	VPIImage in, VPIImage out, uint32_t number)
{
	if (!fv_is(s, FV_STREAM) || !fv_is(in, FV_IMAGE) || !fv_is(out, FV_IMAGE))
		return fv_done(VPI_INVALID_ARGUMENT);
	if (in->object.context != s->object.context || out->object.context != s->object.context)
		return fv_done(VPI_INVALID_CONTEXT);
	return fv_done(fv_submit(s, backend,
		(struct fv_op){
			.run = does, .is_slow = true, .in = in, .out = out, .number = number}));
}

VPIStatus vpiSubmitBoxFilter(VPIStream s, uint64_t backend, VPIImage in, VPIImage out,
	int32_t width, int32_t height, int border)
{
	fv_enter("vpiSubmitBoxFilter");
	return algorithm(s, backend, run_mix, in, out, (uint32_t)width);
}

VPIStatus vpiSubmitGaussianFilter(VPIStream s, uint64_t backend, VPIImage in, VPIImage out,
	int32_t width, int32_t height, float x, float y, int border)
{
	fv_enter("vpiSubmitGaussianFilter");
	return algorithm(s, backend, run_mix, in, out,
		(uint32_t)(x * 1000 + y) + (uint32_t)(width + 100 * height));
}

VPIStatus vpiSubmitConvertImageFormat(
	VPIStream s, uint64_t backend, VPIImage in, VPIImage out, const void *params)
{
	fv_enter("vpiSubmitConvertImageFormat");
	return algorithm(s, backend, run_copy, in, out, 0);
}

VPIStatus vpiSubmitEqualizeHist(
	VPIStream s, uint64_t backend, VPIPayload payload, VPIImage in, VPIImage out)
{
	fv_enter("vpiSubmitEqualizeHist");
	if (!fv_is(payload, FV_PAYLOAD))
		return fv_done(VPI_INVALID_ARGUMENT);
	return algorithm(s, backend, run_mix, in, out, 4711);
}

VPIStatus vpiSubmitMixChannels(VPIStream s, uint64_t backend, VPIImage *in, int n, VPIImage *out,
	int m, const int *from, const int *to, int pairs)
{
	fv_enter("vpiSubmitMixChannels");
	if (n < 1 || m < 1 || pairs < 1)
		return fv_done(VPI_INVALID_ARGUMENT);
	return algorithm(s, backend, run_mix, in[from[0]], out[to[0]], (uint32_t)pairs);
}
