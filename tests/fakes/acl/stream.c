/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, events, captures, functions of the host, and values in memory. */
#include "fake.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUstream persistent[64];
static struct fa_event *events;

/* Puts `is` in the place of `was`; lock held. */
static bool swap(CUstream *of, CUstream was, CUstream is)
{
	for (size_t i = 0; i < 64; i++)
		if (of[i] == was) {
			of[i] = is;
			return true;
		}
	return false;
}

bool fa_is_persistent(CUstream s)
{
	bool is;

	pthread_mutex_lock(&lock);
	is = s && swap(persistent, s, s);
	pthread_mutex_unlock(&lock);
	return is;
}

fm_cu_result fa_stream(aclrtStream named, CUstream *s)
{
	CUcontext ctx = NULL;

	*s = named ? named : fa_default(fk_ctx());
	if (!*s || cuStreamGetCtx(*s, &ctx))
		return FM_CU_ERROR_INVALID_VALUE;
	return ctx == fk_ctx() ? FM_CU_SUCCESS : (fm_cu_result)ACL_ERROR_RT_STREAM_CONTEXT;
}

aclError aclrtCreateStream(aclrtStream *stream)
{
	return aclrtCreateStreamWithConfig(stream, 0, 0);
}

aclError aclrtCreateStreamWithConfig(aclrtStream *stream, uint32_t priority, uint32_t flags)
{
	fm_cu_result rc = fa_ready();

	rc = rc ?: cuStreamCreate((CUstream *)stream, CU_STREAM_NON_BLOCKING);
	pthread_mutex_lock(&lock);
	if (!rc && (flags & ACL_STREAM_PERSISTENT))
		swap(persistent, NULL, *stream);
	pthread_mutex_unlock(&lock);
	return fa_done(rc);
}

aclError aclrtStreamGetFlags(aclrtStream stream, uint32_t *flags)
{
	if (fk_env("FAKE_ACL_OLD"))
		return fa_done(FM_CU_ERROR_NOT_SUPPORTED);
	*flags = fa_is_persistent(stream) ? ACL_STREAM_PERSISTENT : 0;
	return fa_done(fa_ready());
}

/* Events in it that have not come never do. */
static void lose(CUstream s)
{
	pthread_mutex_lock(&lock);
	for (struct fa_event *e = events; e; e = e->next)
		if (e->stream == s)
			e->never = cuEventQuery(e->event) == FM_CU_ERROR_NOT_READY;
	pthread_mutex_unlock(&lock);
}

static fm_cu_result destroy(aclrtStream stream, bool force)
{
	CUstream s;

	FK_TRY(fa_ready());
	if (!stream || stream == fa_default(fk_ctx()))
		return FM_CU_ERROR_INVALID_VALUE;
	FK_TRY(fa_stream(stream, &s));
	if (force)
		lose(s);
	fk_enter();
	if (!force && !s->capture)
		fk_wait(fk_tail(s));
	fk_leave(FM_CU_SUCCESS);
	pthread_mutex_lock(&lock);
	swap(persistent, s, NULL);
	pthread_mutex_unlock(&lock);
	return cuStreamDestroy_v2(s);
}

aclError aclrtDestroyStream(aclrtStream stream)
{
	return fa_done(destroy(stream, false));
}

aclError aclrtDestroyStreamForce(aclrtStream stream)
{
	return fa_done(destroy(stream, true));
}

static fm_cu_result abort_stream(CUstream s)
{
	lose(s);
	return FM_CU_SUCCESS;
}

aclError aclrtStreamAbort(aclrtStream stream)
{
	FA_IN_STREAM(stream, abort_stream(s));
}

static fm_cu_result query(CUstream s, int *status)
{
	int was = fa_relax();
	fm_cu_result rc = cuStreamQuery(s);

	fk_self.capture_mode = was;
	*status = rc == FM_CU_ERROR_NOT_READY ? ACL_STREAM_NOT_READY : ACL_STREAM_COMPLETE;
	return rc == FM_CU_ERROR_NOT_READY ? FM_CU_SUCCESS : rc;
}

aclError aclrtStreamQuery(aclrtStream stream, int *status)
{
	FA_IN_STREAM(stream, query(s, status));
}

static fm_cu_result synchronize(CUstream s)
{
	FA_RELAXED(cuStreamSynchronize(s));
}

aclError aclrtSynchronizeStream(aclrtStream stream)
{
	FA_IN_STREAM(stream, synchronize(s));
}

/* Until `done` says something else than that it is not ready, or the time is over. */
static fm_cu_result within(
	int32_t timeout, fm_cu_result (*done)(void *of), void *of, fm_cu_result late)
{
	uint64_t until = fk_now() + (uint64_t)timeout * 1000000u;
	fm_cu_result rc;

	while ((rc = done(of)) == FM_CU_ERROR_NOT_READY && fk_now() < until)
		usleep(50);
	return rc == FM_CU_ERROR_NOT_READY ? late : rc;
}

static fm_cu_result stream_done(void *s)
{
	int status = 0;
	fm_cu_result rc = query(s, &status);

	return rc ? rc : status == ACL_STREAM_NOT_READY ? FM_CU_ERROR_NOT_READY : FM_CU_SUCCESS;
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout)
{
	if (timeout == -1)
		return aclrtSynchronizeStream(stream);
	FA_IN_STREAM(stream, timeout <= 0
				     ? FM_CU_ERROR_INVALID_VALUE
				     : within(timeout, stream_done, s,
					       (fm_cu_result)ACL_ERROR_RT_STREAM_SYNC_TIMEOUT));
}

/* --- values in memory --- */

aclError aclrtValueWrite(void *p, uint64_t value, uint32_t flags, aclrtStream stream)
{
	FA_IN_STREAM(stream, flags ? FM_CU_ERROR_INVALID_VALUE
				   : cuStreamWriteValue64_v2(s, FA_PTR(p), value, 0));
}

aclError aclrtValueWait(void *p, uint64_t value, uint32_t flags, aclrtStream stream)
{
	FA_IN_STREAM(stream, flags > ACL_WAIT_NOR
				     ? FM_CU_ERROR_INVALID_VALUE
				     : cuStreamWaitValue64_v2(s, FA_PTR(p), value, flags));
}

/* --- functions of the host --- */

static void run_fn(struct fk_work *w)
{
	fk_self.in_callback = true;
	w->host.fn(w->host.arg);
	fk_self.in_callback = false;
}

static fm_cu_result host_fn(CUstream s, aclrtCallback fn, void *arg)
{
	struct fk_work w = {.what = FK_HOST, .run = run_fn, .host = {.fn = fn, .arg = arg}};

	if (!fn)
		return FM_CU_ERROR_INVALID_VALUE;
	FK_TRY(fk_enter());
	return fk_leave(fk_enqueue(s, &w, NULL));
}

aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtCallback fn, void *arg)
{
	FA_IN_STREAM(stream, host_fn(s, fn, arg));
}

/* Callbacks: the stream puts a report down for the thread that is subscribed. */
struct report {
	struct report *next;
	aclrtCallback fn;
	void *arg;
	uint64_t thread;
	bool waits, taken, over;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct report *first;
	struct {
		CUstream stream;
		uint64_t thread;
	} of[64];
} reports = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void run_report(struct fk_work *w)
{
	struct report *r = w->host.arg, **at;

	pthread_mutex_lock(&reports.lock);
	for (at = &reports.first; *at;)
		at = &(*at)->next;
	*at = r;
	pthread_cond_broadcast(&reports.changed);
	while (r->waits && !r->over)
		pthread_cond_wait(&reports.changed, &reports.lock);
	if (r->waits)
		free(r);
	pthread_mutex_unlock(&reports.lock);
}

static uint64_t subscribed(CUstream s)
{
	uint64_t thread = 0;

	pthread_mutex_lock(&reports.lock);
	for (size_t i = 0; i < 64; i++)
		if (reports.of[i].stream == s)
			thread = reports.of[i].thread;
	pthread_mutex_unlock(&reports.lock);
	return thread;
}

static fm_cu_result callback(CUstream s, aclrtCallback fn, void *arg, int block)
{
	struct fk_work w = {.what = FK_HOST, .run = run_report};
	uint64_t thread = subscribed(s);
	struct report *r;

	if (!fn || !thread)
		return fn ? (fm_cu_result)ACL_ERROR_RT_STREAM_NO_CB_REG : FM_CU_ERROR_INVALID_VALUE;
	r = calloc(1, sizeof(*r));
	*r = (struct report){.fn = fn, .arg = arg, .thread = thread, .waits = block};
	w.host.arg = r;
	FK_TRY(fk_enter());
	return fk_leave(fk_enqueue(s, &w, NULL));
}

aclError aclrtLaunchCallback(aclrtCallback fn, void *arg, int block, aclrtStream stream)
{
	FA_IN_STREAM(stream, callback(s, fn, arg, block));
}

static fm_cu_result subscribe(CUstream s, uint64_t thread)
{
	fm_cu_result rc = FM_CU_ERROR_INVALID_VALUE;

	pthread_mutex_lock(&reports.lock);
	for (size_t i = 0; rc && i < 64; i++)
		if (reports.of[i].stream == (thread ? NULL : s)) {
			reports.of[i].stream = thread ? s : NULL;
			reports.of[i].thread = thread;
			rc = FM_CU_SUCCESS;
		}
	pthread_mutex_unlock(&reports.lock);
	return rc;
}

aclError aclrtSubscribeReport(uint64_t thread, aclrtStream stream)
{
	FA_IN_STREAM(stream, subscribe(s, thread));
}

aclError aclrtUnSubscribeReport(uint64_t thread, aclrtStream stream)
{
	FA_IN_STREAM(stream, subscribe(s, 0));
}

static struct report *next_report(void)
{
	struct report **at, *r;

	for (at = &reports.first; *at && (*at)->thread != (uint64_t)pthread_self();)
		at = &(*at)->next;
	r = *at;
	if (r)
		*at = r->next;
	return r;
}

aclError aclrtProcessReport(int32_t timeout)
{
	struct timespec until;
	struct report *r;
	int late = 0;
	bool waits;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += timeout / 1000;
	pthread_mutex_lock(&reports.lock);
	while (!(r = next_report()) && late != ETIMEDOUT)
		late = timeout < 0
			       ? pthread_cond_wait(&reports.changed, &reports.lock)
			       : pthread_cond_timedwait(&reports.changed, &reports.lock, &until);
	pthread_mutex_unlock(&reports.lock);
	if (!r)
		return 507012; /* ACL_ERROR_RT_REPORT_TIMEOUT */
	waits = r->waits;
	fk_self.in_callback = true;
	r->fn(r->arg);
	fk_self.in_callback = false;
	pthread_mutex_lock(&reports.lock);
	r->over = true;
	pthread_cond_broadcast(&reports.changed);
	pthread_mutex_unlock(&reports.lock);
	if (!waits)
		free(r);
	return ACL_SUCCESS;
}

/* --- events --- */

static fm_cu_result create_event(aclrtEvent *event, unsigned flags)
{
	struct fa_event *e = calloc(1, sizeof(*e));
	fm_cu_result rc =
		cuEventCreate(&e->event, flags & ACL_EVENT_TIME_LINE ? 0 : CU_EVENT_DISABLE_TIMING);

	if (rc) {
		free(e);
		return rc;
	}
	e->flags = flags;
	pthread_mutex_lock(&lock);
	e->next = events;
	events = e;
	pthread_mutex_unlock(&lock);
	*event = e;
	return FM_CU_SUCCESS;
}

aclError aclrtCreateEventWithFlag(aclrtEvent *event, uint32_t flags)
{
	FA_CALL(!event || !flags ? FM_CU_ERROR_INVALID_VALUE : create_event(event, flags));
}

aclError aclrtCreateEventExWithFlag(aclrtEvent *event, uint32_t flags)
{
	return aclrtCreateEventWithFlag(event, flags);
}

aclError aclrtCreateEvent(aclrtEvent *event)
{
	return aclrtCreateEventWithFlag(event, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE);
}

static fm_cu_result destroy_event(struct fa_event *e)
{
	fm_cu_result rc;
	struct fa_event **at;

	pthread_mutex_lock(&lock);
	for (at = &events; *at && *at != e;)
		at = &(*at)->next;
	if (*at)
		*at = e->next;
	else
		e = NULL;
	pthread_mutex_unlock(&lock);
	if (!e)
		return FM_CU_ERROR_INVALID_VALUE;
	rc = cuEventDestroy_v2(e->event);
	free(e);
	return rc;
}

aclError aclrtDestroyEvent(aclrtEvent event)
{
	FA_CALL(destroy_event(event));
}

static fm_cu_result record(struct fa_event *e, CUstream s)
{
	fm_cu_result rc = cuEventRecord(e->event, s);

	if (!rc) {
		e->stream = s;
		e->never = false;
	}
	return rc;
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream)
{
	if (fa_is_persistent(stream)) {
		fprintf(stderr, "an event in a stream of a model\n");
		abort();
	}
	FA_IN_STREAM(stream, record(event, s));
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event)
{
	struct fa_event *e = event;

	FA_IN_STREAM(stream, e->flags & ACL_EVENT_SYNC ? cuStreamWaitEvent(s, e->event, 0)
						       : FM_CU_ERROR_INVALID_VALUE);
}

static fm_cu_result event_done(void *event)
{
	struct fa_event *e = event;
	int was = fa_relax();
	fm_cu_result rc = e->never ? FM_CU_ERROR_NOT_READY : cuEventQuery(e->event);

	fk_self.capture_mode = was;
	return rc;
}

static fm_cu_result event_status(struct fa_event *e, int *status)
{
	fm_cu_result rc = event_done(e);

	*status = rc == FM_CU_ERROR_NOT_READY ? ACL_EVENT_NOT_READY : ACL_EVENT_COMPLETE;
	return rc == FM_CU_ERROR_NOT_READY ? FM_CU_SUCCESS : rc;
}

aclError aclrtQueryEventStatus(aclrtEvent event, int *status)
{
	FA_CALL(event_status(event, status));
}

aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout)
{
	FA_CALL(within(timeout < 0 ? INT32_MAX : timeout, event_done, event,
		(fm_cu_result)ACL_ERROR_RT_EVENT_SYNC_TIMEOUT));
}

aclError aclrtSynchronizeEvent(aclrtEvent event)
{
	return aclrtSynchronizeEventWithTimeout(event, -1);
}

aclError aclrtEventElapsedTime(float *ms, aclrtEvent start, aclrtEvent end)
{
	FA_CALL(cuEventElapsedTime(
		ms, ((struct fa_event *)start)->event, ((struct fa_event *)end)->event));
}

/* --- captures --- */

aclError aclmdlRICaptureThreadExchangeMode(int *mode)
{
	FA_CALL(cuThreadExchangeStreamCaptureMode(mode));
}

aclError aclmdlRICaptureBegin(aclrtStream stream, int mode)
{
	FA_IN_STREAM(stream, fk_env("FAKE_ACL_OLD") ? FM_CU_ERROR_NOT_SUPPORTED
						    : cuStreamBeginCapture_v2(s, mode));
}

static fm_cu_result capture_end(CUstream s, aclmdlRI *model)
{
	CUgraph graph;
	fm_cu_result rc;

	FK_TRY(cuStreamEndCapture(s, &graph));
	rc = cuGraphInstantiateWithFlags((CUgraphExec *)model, graph, 0);
	cuGraphDestroy(graph);
	return rc;
}

aclError aclmdlRICaptureEnd(aclrtStream stream, aclmdlRI *model)
{
	FA_IN_STREAM(stream, model ? capture_end(s, model) : FM_CU_ERROR_INVALID_VALUE);
}

static fm_cu_result info(CUstream s, int *status, aclmdlRI *model)
{
	*model = NULL;
	return cuStreamIsCapturing(s, status);
}

aclError aclmdlRICaptureGetInfo(aclrtStream stream, int *status, aclmdlRI *model)
{
	FA_IN_STREAM(stream,
		fk_env("FAKE_ACL_OLD") ? FM_CU_ERROR_NOT_SUPPORTED : info(s, status, model));
}

aclError aclmdlRIExecuteAsync(aclmdlRI model, aclrtStream stream)
{
	FA_IN_STREAM(stream, cuGraphLaunch(model, s));
}

/* In a stream of its own. */
static fm_cu_result execute(aclmdlRI model, int32_t timeout)
{
	fm_cu_result rc;
	CUstream s;

	if (timeout != -1 && timeout <= 0)
		return FM_CU_ERROR_INVALID_VALUE;
	FK_TRY(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	rc = cuGraphLaunch(model, s)
		     ?: within(timeout < 0 ? INT32_MAX : timeout, stream_done, s,
				(fm_cu_result)ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
	cuStreamDestroy_v2(s);
	return rc;
}

aclError aclmdlRIExecute(aclmdlRI model, int32_t timeout)
{
	FA_CALL(execute(model, timeout));
}

aclError aclmdlRIDestroy(aclmdlRI model)
{
	FA_CALL(cuGraphExecDestroy(model));
}
