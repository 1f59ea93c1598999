/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that programs call, by kinds of the table. */
#include "api/cuda/foreign.h"
#include "cudla.h"

/* A call, to be made by CUDA's shim. */
struct submission {
	cudlaStatus (*next)(cudlaDevHandle device, const cudlaTask *tasks, uint32_t n, void *stream,
		uint32_t flags);
	cudlaDevHandle device;
	const cudlaTask *tasks;
	uint32_t n, flags;
	void *stream;
};

static int submit(void *arg)
{
	struct submission *s = arg;

	return s->next(s->device, s->tasks, s->n, s->stream, s->flags);
}

/* Tasks of a module cost alike. */
static unsigned kind_of(const struct submission *s)
{
	uintptr_t module = s->n && s->tasks ? (uintptr_t)s->tasks->moduleHandle : 0;

	return (unsigned)(module * UINT64_C(0x9e3779b97f4a7c15) >> 58);
}

static cudlaStatus hybrid(struct submission *s, const char *call)
{
	if (fm_cuda_on_stream)
		return fm_cuda_on_stream(s->stream, kind_of(s), call, submit, s);
	if (fm_shim_client())
		fm_shim_ungoverned(call);
	return submit(s);
}

/* Tasks without tensors are only events for the next ones. */
static bool has_work(const struct submission *s)
{
	return s->n && s->tasks && (s->tasks->inputTensor || s->tasks->outputTensor);
}

static cudlaStatus standalone(struct submission *s, const char *call)
{
	struct fm_shim_entry *q = has_work(s) ? fm_shim_queue(s->device, call) : NULL;
	cudlaStatus rc;
	uint64_t mark;

	if (!q)
		return submit(s);
	mark = fm_xq_mark(q->xq);
	fm_xq_begin(q->xq, kind_of(s) + 1, true);
	rc = submit(s);
	fm_xq_end_synced(q->xq, mark);
	return rc;
}

#define ON_work(symbol, per_thread, name, since, note, params, handle, to)             \
	cudlaStatus symbol CALL_PARAMS(params)                                         \
	{                                                                              \
		struct submission s = {                                                \
			fm_calls_get(CALL_##symbol), device, tasks, n, flags, stream}; \
                                                                                       \
		return fm_cudla_is_standalone(handle) ? standalone(&s, #symbol)        \
						      : hybrid(&s, #symbol);           \
	}
#include "api/cudla/calls.def"

#define ON_make(symbol, per_thread, name, since, note, params, handle) \
	cudlaStatus symbol CALL_PARAMS(params)                         \
	{                                                              \
		cudlaStatus rc = NEXT(symbol, params);                 \
                                                                       \
		if (rc == FM_CUDLA_SUCCESS && (handle))                \
			fm_cudla_made(*(handle), number, flags);       \
		return rc;                                             \
	}
#include "api/cudla/calls.def"

#define ON_end(symbol, per_thread, name, since, note, params, handle) \
	cudlaStatus symbol CALL_PARAMS(params)                        \
	{                                                             \
		const uintptr_t as = fm_cudla_ends(handle);           \
		cudlaStatus rc = NEXT(symbol, params);                \
                                                                      \
		if (rc != FM_CUDLA_SUCCESS)                           \
			fm_cudla_stays(handle, as);                   \
		return rc;                                            \
	}
#include "api/cudla/calls.def"
