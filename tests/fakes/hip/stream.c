/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, events, host functions, and operations on values in memory. */
#include "fake.h"
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

hipError_t hipStreamCreateWithPriority(hipStream_t *stream, unsigned flags, int priority)
{
	FH_CALL(cuStreamCreateWithPriority(stream, flags, priority));
}

hipError_t hipStreamCreateWithFlags(hipStream_t *stream, unsigned flags)
{
	return hipStreamCreateWithPriority(stream, flags, 0);
}

hipError_t hipStreamCreate(hipStream_t *stream)
{
	return hipStreamCreateWithPriority(stream, 0, 0);
}

/* What it holds is done first. */
static fm_cu_result drain(hipStream_t stream)
{
	fm_cu_result rc;
	CUstream s;

	if ((uintptr_t)stream <= (uintptr_t)HIP_STREAM_PER_THREAD)
		return CU_INVALID_HANDLE;
	FK_TRY(fk_enter_ctx());
	rc = fk_stream_find(stream, &s);
	if (!rc && !s->capture)
		fk_wait(fk_tail(s));
	return fk_leave(rc);
}

hipError_t hipStreamDestroy(hipStream_t stream)
{
	FH_CALL(drain(stream) ?: cuStreamDestroy_v2(stream));
}

hipError_t hipStreamQuery(hipStream_t stream)
{
	FH_CALL(cuStreamQuery(stream));
}

hipError_t hipStreamSynchronize(hipStream_t stream)
{
	FH_CALL(cuStreamSynchronize(stream));
}

hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags)
{
	FH_CALL(cuStreamWaitEvent(stream, event, flags));
}

hipError_t hipStreamGetFlags(hipStream_t stream, unsigned *flags)
{
	FH_CALL(cuStreamGetFlags(stream, flags));
}

hipError_t hipStreamGetPriority(hipStream_t stream, int *priority)
{
	FH_CALL(cuStreamGetPriority(stream, priority));
}

static fm_cu_result device_of(hipStream_t stream, hipDevice_t *device)
{
	CUcontext ctx;

	if (!device)
		return FM_CU_ERROR_INVALID_VALUE;
	FK_TRY(cuStreamGetCtx(stream, &ctx));
	*device = ctx->dev;
	return FM_CU_SUCCESS;
}

hipError_t hipStreamGetDevice(hipStream_t stream, hipDevice_t *device)
{
	FH_CALL(device_of(stream, device));
}

hipError_t hipStreamAddCallback(
	hipStream_t stream, hipStreamCallback_t fn, void *arg, unsigned flags)
{
	FH_CALL(cuStreamAddCallback(stream, fn, arg, flags));
}

hipError_t hipLaunchHostFunc(hipStream_t stream, hipHostFn_t fn, void *arg)
{
	FH_CALL(cuLaunchHostFunc(stream, fn, arg));
}

/* --- values in memory --- */

struct value_op {
	void *at;
	uint64_t value, mask;
	unsigned how;
	bool waits, wide;
};

static uint64_t load(const struct value_op *v)
{
	return v->wide ? atomic_load((_Atomic uint64_t *)v->at)
		       : atomic_load((_Atomic uint32_t *)v->at);
}

/* No comparison is cyclic. */
static bool reached(const struct value_op *v)
{
	uint64_t at = load(v) & v->mask;

	switch (v->how) {
	case HIP_WAIT_GTE:
		return at >= v->value;
	case HIP_WAIT_EQ:
		return at == v->value;
	case HIP_WAIT_AND:
		return at & v->value;
	}
	return ~(at | (v->value & v->mask)) & (v->wide ? UINT64_MAX : UINT32_MAX);
}

/* One that never comes keeps back its own stream, and those with the same queue. */
static void run_value(struct fk_work *w)
{
	const struct value_op *v = w->host.arg;
	bool leaks = fk_env("FAKE_HIP_LEAKY_WAIT");

	if (!v->waits && v->wide)
		atomic_store((_Atomic uint64_t *)v->at, v->value);
	else if (!v->waits)
		atomic_store((_Atomic uint32_t *)v->at, (uint32_t)v->value);
	for (unsigned n = 0; v->waits && !leaks && fk_touches(FH_PTR(v->at)) && !reached(v); n++)
		if (n < 50)
			sched_yield();
		else
			usleep(n < 500 ? 10 : 100);
}

static void end_value(struct fk_work *w)
{
	free(w->host.arg);
}

/* Signal memory is what hipExtMallocWithFlags() gives: here the only pinned memory of that size
 * that the host did not ask for as such; any memory that the runtime knows does elsewhere. */
static fm_cu_result check_value(hipStream_t stream, const struct value_op *v)
{
	CUstream s;

	if (!v->at || FH_PTR(v->at) % (v->wide ? 8 : 4) || v->how > HIP_WAIT_NOR)
		return FM_CU_ERROR_INVALID_VALUE;
	if (!fk_reachable(v->at))
		return FM_CU_ERROR_INVALID_VALUE;
	if (v->waits && fk_env("GPU_STREAMOPS_CP_WAIT") &&
		(fk_place(v->at) != FK_PINNED || !fk_within(v->at, 8) || fk_within(v->at, 9)))
		return FM_CU_ERROR_INVALID_VALUE;
	FK_TRY(fk_stream_find(stream, &s));
	if (s->capture)
		s->capture->invalid = true;
	return s->capture ? CU_CAPTURE_UNSUPPORTED : FM_CU_SUCCESS;
}

static fm_cu_result value_op(hipStream_t stream, const struct value_op *op)
{
	struct fk_work w = {.what = FK_WORDS, .run = run_value, .end = end_value};
	struct value_op *v;
	fm_cu_result rc;

	if (fk_env("FAKE_HIP_NO_WAIT_VALUE"))
		return FM_CU_ERROR_NOT_SUPPORTED;
	FK_TRY(fk_enter_ctx());
	rc = check_value(stream, op);
	if (rc)
		return fk_leave(rc);
	w.host.arg = v = malloc(sizeof(*v));
	if (!v)
		return fk_leave(CU_OUT_OF_MEMORY);
	*v = *op;
	return fk_leave(fk_enqueue(stream, &w, NULL));
}

hipError_t hipStreamWaitValue32(
	hipStream_t stream, void *p, uint32_t value, unsigned flags, uint32_t mask)
{
	struct value_op v = {p, value, mask, flags, true, false};

	FH_CALL(value_op(stream, &v));
}

hipError_t hipStreamWaitValue64(
	hipStream_t stream, void *p, uint64_t value, unsigned flags, uint64_t mask)
{
	struct value_op v = {p, value, mask, flags, true, true};

	FH_CALL(value_op(stream, &v));
}

hipError_t hipStreamWriteValue32(hipStream_t stream, void *p, uint32_t value, unsigned flags)
{
	struct value_op v = {.at = p, .value = value};

	FH_CALL(value_op(stream, &v));
}

hipError_t hipStreamWriteValue64(hipStream_t stream, void *p, uint64_t value, unsigned flags)
{
	struct value_op v = {.at = p, .value = value, .wide = true};

	FH_CALL(value_op(stream, &v));
}

/* --- events --- */

hipError_t hipEventCreateWithFlags(hipEvent_t *event, unsigned flags)
{
	FH_CALL(cuEventCreate(event, flags));
}

hipError_t hipEventCreate(hipEvent_t *event)
{
	return hipEventCreateWithFlags(event, 0);
}

hipError_t hipEventDestroy(hipEvent_t event)
{
	FH_CALL(cuEventDestroy_v2(event));
}

hipError_t hipEventQuery(hipEvent_t event)
{
	FH_CALL(cuEventQuery(event));
}

hipError_t hipEventSynchronize(hipEvent_t event)
{
	FH_CALL(cuEventSynchronize(event));
}

hipError_t hipEventElapsedTime(float *ms, hipEvent_t start, hipEvent_t stop)
{
	FH_CALL(cuEventElapsedTime(ms, start, stop));
}

static void take_long(struct fk_work *w)
{
	usleep(2000);
}

static fm_cu_result record(hipEvent_t event, hipStream_t stream)
{
	struct fk_work w = {.what = FK_WORDS, .run = take_long};
	fm_cu_result rc;
	CUstream s;

	if (fk_env("FAKE_HIP_SLOW_EVENTS")) {
		FK_TRY(fk_enter_ctx());
		rc = fk_stream_find(stream, &s);
		FK_TRY(fk_leave(rc || s->capture ? rc : fk_enqueue(stream, &w, NULL)));
	}
	return cuEventRecord(event, stream);
}

hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream)
{
	FH_CALL(record(event, stream));
}

HIP_STREAM_API(FH_NOTHING, FH_SPT)
