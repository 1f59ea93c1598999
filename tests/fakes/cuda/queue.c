/* SPDX-License-Identifier: Apache-2.0 */
/* Streams as queues, each with a thread that executes what is in it, in order. */
#include "capacity.h"
#include "fake.h"
#include <stdlib.h>
#include <string.h>

#define AFTER_MAX 256

struct fk_point fk_tail(CUstream s)
{
	return (struct fk_point){s, s->submitted};
}

bool fk_passed(struct fk_point at)
{
	return !at.stream || at.stream->done >= at.seq;
}

/* A device that is lost gets to no point any more. */
void fk_wait(struct fk_point at)
{
	while (!fk_passed(at) && !fk.lost)
		pthread_cond_wait(&at.stream->changed, &fk.lock);
}

void fk_wake_all(void)
{
	for (CUstream s = fk.streams; s; s = s->next)
		pthread_cond_broadcast(&s->changed);
	fk_hw_wake_all();
}

/* The primary context stands for the green ones as well. */
static bool belongs(CUstream s, CUcontext ctx)
{
	return s->ctx == ctx || (ctx->primary && s->ctx->green && s->ctx->dev == ctx->dev);
}

/* Of a context, what was submitted until now. The list only grows, at its head. */
void fk_wait_ctx(CUcontext ctx)
{
	struct fk_point at[AFTER_MAX];
	unsigned n = 0;

	for (CUstream s = fk.streams; s; s = s->next)
		if (belongs(s, ctx) && !fk_passed(fk_tail(s)) && n < AFTER_MAX)
			at[n++] = fk_tail(s);
	while (n)
		fk_wait(at[--n]);
}

void fk_work_end(struct fk_work *w)
{
	if (w->end)
		w->end(w);
}

void fk_work_share(struct fk_work *copy)
{
	if (copy->share)
		copy->share(copy);
}

_Thread_local CUstream fk_worker;

static void *worker(void *arg)
{
	CUstream s = arg;
	struct fk_op *op;

	fk_worker = s;
	pthread_mutex_lock(&fk.lock);
	for (;;) {
		while (!s->head)
			pthread_cond_wait(&s->wake, &fk.lock);
		op = s->head;
		fk_hw_turn(op);
		for (unsigned i = 0; i < op->n; i++)
			fk_wait(op->after[i]);
		while (fk.lost)
			pthread_cond_wait(&s->wake, &fk.lock);
		fk_guard_check(s, &op->work);
		fk_hw_begins(op);
		fk_freeze_begins(&op->work);
		pthread_mutex_unlock(&fk.lock);
		fk_run_work(&op->work);
		pthread_mutex_lock(&fk.lock);
		fk_hw_ended(op);
		fk_freeze_ended(&op->work);
		pthread_mutex_unlock(&fk.lock);
		fk_work_end(&op->work);
		pthread_mutex_lock(&fk.lock);
		s->head = op->next;
		if (!s->head)
			s->tail = &s->head;
		s->done++;
		if (s->done == s->submitted)
			fk_hw_idle(s);
		free(op);
		pthread_cond_broadcast(&s->changed);
	}
	return NULL;
}

static CUstream start_stream(void)
{
	CUstream s = calloc(1, sizeof(*s));
	pthread_t t;

	if (!s)
		return NULL;
	pthread_cond_init(&s->wake, NULL);
	pthread_cond_init(&s->changed, NULL);
	s->tail = &s->head;
	if (pthread_create(&t, NULL, worker, s)) {
		free(s);
		return NULL;
	}
	pthread_detach(t);
	s->next = fk.streams;
	fk.streams = s;
	return s;
}

/* The context keeps it when the stream has ended. */
static bool take_memory(CUcontext ctx)
{
	const char *given = fk_env("FAKE_CUDA_STREAM");
	uint64_t bytes = given ? fk_bytes(given) : 0;

	if (bytes && !fk_memory_take(ctx->dev, bytes))
		return false;
	ctx->bytes += bytes;
	return true;
}

fm_cu_result fk_stream_new(CUcontext ctx, enum fk_kind kind, unsigned flags, CUstream *stream)
{
	static uint64_t ids;
	CUstream s = fk.streams;

	if (kind == FK_OWN && (fk.refuse[FAKE_CUDA_STREAMS] || !take_memory(ctx)))
		return CU_OUT_OF_MEMORY;
	while (s && (s->live || s->capture || !fk_passed(fk_tail(s))))
		s = s->next;
	if (!s)
		s = start_stream();
	if (!s)
		return CU_OUT_OF_MEMORY;
	s->ctx = ctx;
	s->kind = kind;
	s->id = ++ids;
	s->flags = flags;
	s->priority = 0;
	s->guard = NULL;
	s->guard_of_graph = false;
	s->live = true;
	*stream = s;
	return FM_CU_SUCCESS;
}

/* A thread's default streams end with it. */
static pthread_key_t thread_key;

static void thread_gone(void *self)
{
	pthread_mutex_lock(&fk.lock);
	for (CUstream s = fk.streams; s; s = s->next)
		if (s->kind == FK_PER_THREAD && s->thread == self) {
			fk_capture_leave(s);
			s->live = false;
		}
	pthread_mutex_unlock(&fk.lock);
}

static void make_thread_key(void)
{
	pthread_key_create(&thread_key, thread_gone);
}

static fm_cu_result per_thread(CUstream *stream)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	fm_cu_result rc;

	for (CUstream s = fk.streams; s; s = s->next) {
		if (s->live && s->kind == FK_PER_THREAD && s->thread == &fk_self &&
			s->ctx == fk_ctx()) {
			*stream = s;
			return FM_CU_SUCCESS;
		}
	}
	pthread_once(&once, make_thread_key);
	pthread_setspecific(thread_key, &fk_self);
	rc = fk_stream_new(fk_ctx(), FK_PER_THREAD, 0, stream);
	if (!rc)
		(*stream)->thread = &fk_self;
	return rc;
}

fm_cu_result fk_stream_find(CUstream handle, CUstream *stream)
{
	bool own = handle == FM_CU_STREAM_PER_THREAD || (!handle && fk_self.per_thread);

	if (!handle || handle == FM_CU_STREAM_LEGACY || own) {
		if (!fk_ctx_known(fk_ctx()))
			return fk_ctx() ? CU_CONTEXT_IS_DESTROYED : CU_INVALID_CONTEXT;
		*stream = fk_ctx()->legacy;
		return own ? per_thread(stream) : FM_CU_SUCCESS;
	}
	for (CUstream s = fk.streams; s; s = s->next) {
		if (s != handle || s->kind != FK_OWN)
			continue;
		if (s->live)
			*stream = s;
		else if (s->ctx->green && !s->ctx->live)
			return CU_CONTEXT_IS_DESTROYED;
		return s->live ? FM_CU_SUCCESS : CU_INVALID_HANDLE;
	}
	return CU_INVALID_HANDLE;
}

/* The legacy stream waits for all blocking streams of its context, and they for it. */
static unsigned implicit_order(CUstream s, struct fk_point *after)
{
	unsigned n = 0;

	if (s->flags & CU_STREAM_NON_BLOCKING)
		return 0;
	if (s->kind != FK_LEGACY) {
		after[0] = fk_tail(s->ctx->legacy);
		return !fk_passed(after[0]);
	}
	for (CUstream o = fk.streams; o && n < AFTER_MAX; o = o->next)
		if (o != s && o->ctx == s->ctx && !(o->flags & CU_STREAM_NON_BLOCKING) &&
			!fk_passed(fk_tail(o)))
			after[n++] = fk_tail(o);
	return n;
}

fm_cu_result fk_submit(CUstream s, const struct fk_work *work, const struct fk_point *after,
	unsigned n, struct fk_point *at)
{
	struct fk_point implicit[AFTER_MAX + 1];
	struct fk_channel *channel = fk_hw_room(s, work);
	unsigned more = implicit_order(s, implicit);
	struct fk_op *op;

	more += fk_hw_after(s->ctx, implicit + more);
	op = calloc(1, sizeof(*op) + (n + more) * sizeof(*after));
	if (!op)
		return CU_OUT_OF_MEMORY;
	op->work = *work;
	op->n = n + more;
	if (n)
		memcpy(op->after, after, n * sizeof(*after));
	memcpy(op->after + n, implicit, more * sizeof(*after));
	fk_hw_put(s, op, channel);
	*s->tail = op;
	s->tail = &op->next;
	s->submitted++;
	pthread_cond_signal(&s->wake);
	if (at)
		*at = fk_tail(s);
	return FM_CU_SUCCESS;
}

static fm_cu_result enqueue(CUstream handle, const struct fk_work *work, struct fk_point *at)
{
	CUstream s;

	FK_TRY(fk_stream_find(handle, &s));
	FK_TRY(fk_implicit(s));
	return s->capture ? fk_capture_add(s, work) : fk_submit(s, work, NULL, 0, at);
}

fm_cu_result fk_enqueue(CUstream handle, struct fk_work *work, struct fk_point *at)
{
	fm_cu_result rc;

	if (at)
		*at = (struct fk_point){0};
	rc = enqueue(handle, work, at);
	if (rc)
		fk_work_end(work);
	return rc;
}
