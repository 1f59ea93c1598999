/* SPDX-License-Identifier: Apache-2.0 */
#include "pools.h"
#include <stdlib.h>

bool fk_event_known(CUevent event)
{
	for (CUevent e = fk.events; e; e = e->next)
		if (e == event)
			return true;
	return false;
}

static fm_cu_result find(CUevent event)
{
	FK_TRY(fk_enter());
	fk_hw_lock(fk_ctx());
	return fk_event_known(event) ? FM_CU_SUCCESS : fk_leave(CU_INVALID_HANDLE);
}

void fk_record_put(struct fk_record *r)
{
	if (r && atomic_fetch_sub(&r->refs, 1) == 1)
		free(r);
}

static CUcontext base_of(CUcontext ctx)
{
	return ctx->green ? &fk.primary[ctx->dev] : ctx;
}

fm_cu_result cuEventCreate(CUevent *event, unsigned flags)
{
	FK_TRY(fk_fails(__func__));
	FK_TRY(fk_enter_ctx());
	*event = fk.refuse[FAKE_CUDA_EVENTS] ? NULL : calloc(1, sizeof(**event));
	if (!*event)
		return fk_leave(CU_OUT_OF_MEMORY);
	(*event)->ctx = base_of(fk_ctx());
	(*event)->flags = flags;
	(*event)->next = fk.events;
	fk.events = *event;
	return fk_leave(FM_CU_SUCCESS);
}

static void end_event(CUevent *at)
{
	CUevent event = *at;

	*at = event->next;
	fk_record_put(event->record);
	fk_capture_forget(event);
	free(event);
}

void fk_events_ctx_gone(CUcontext ctx)
{
	for (CUevent *at = &fk.events; *at;) {
		if ((*at)->ctx == ctx)
			end_event(at);
		else
			at = &(*at)->next;
	}
}

fm_cu_result cuEventDestroy_v2(CUevent event)
{
	CUevent *at = &fk.events;

	FK_TRY(find(event));
	while (*at != event)
		at = &(*at)->next;
	end_event(at);
	return fk_leave(FM_CU_SUCCESS);
}

static void run_record(struct fk_work *w)
{
	w->record.record->ns = fk_now();
}

static void end_record(struct fk_work *w)
{
	fk_record_put(w->record.record);
}

fm_cu_result fk_record_on(CUevent e, CUstream s)
{
	struct fk_work w = {.what = FK_RECORD, .run = run_record, .end = end_record};
	struct fk_record *r = calloc(1, sizeof(*r));
	fm_cu_result rc;

	if (!r)
		return CU_OUT_OF_MEMORY;
	r->refs = 2; /* the event's and the command's */
	w.record.record = r;
	rc = fk_submit(s, &w, NULL, 0, &r->at);
	if (rc) {
		free(r);
		return rc;
	}
	fk_record_put(e->record);
	e->record = r;
	return FM_CU_SUCCESS;
}

fm_cu_result cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags)
{
	struct fk_work external = {.record.event = event};
	fm_cu_result rc;
	CUstream s;

	FK_TRY(fk_fails("cuEventRecord"));
	if (flags > CU_EVENT_EXTERNAL)
		return FM_CU_ERROR_INVALID_VALUE;
	FK_TRY(find(event));
	rc = fk_stream_find(stream, &s);
	rc = rc ? rc : fk_implicit(s);
	if (!rc && event->ctx != base_of(s->ctx))
		rc = CU_INVALID_HANDLE;
	if (rc)
		return fk_leave(rc);
	if (s->capture && flags)
		return fk_leave(fk_capture_add(s, &external));
	if (s->capture)
		return fk_leave(fk_capture_event(s, event));
	fk_capture_forget(event);
	return fk_leave(fk_record_on(event, s));
}

/* FAKE_CUDA_THIN: nothing is timed by it, so that nobody ever asks. */
static bool is_nothing(CUevent event)
{
	return fk_thin() && (event->flags & CU_EVENT_DISABLE_TIMING);
}

fm_cu_result cuEventRecord(CUevent event, CUstream stream)
{
	fm_cu_result rc;

	if (is_nothing(event))
		return FM_CU_SUCCESS;
	rc = cuEventRecordWithFlags(event, stream, 0);
	fk_at("cuEventRecord, behind");
	return rc;
}

fm_cu_result cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
	struct fk_work nothing = {0};
	struct fk_point at;
	fm_cu_result rc;
	CUstream s;

	if (is_nothing(event))
		return FM_CU_SUCCESS;
	if (flags > CU_EVENT_EXTERNAL)
		return FM_CU_ERROR_INVALID_VALUE;
	fk_at("cuStreamWaitEvent");
	FK_TRY(find(event));
	rc = fk_stream_find(stream, &s);
	rc = rc ? rc : fk_implicit(s);
	if (rc)
		return fk_leave(rc);
	if (event->capture && !flags)
		return fk_leave(fk_capture_wait(s, event));
	if (s->capture) { /* the event is of no capture: nothing in a graph may wait for it */
		s->capture->invalid = true;
		return fk_leave(CU_CAPTURE_ISOLATION);
	}
	if (!event->record)
		return fk_leave(FM_CU_SUCCESS);
	at = event->record->at;
	return fk_leave(fk_submit(s, &nothing, &at, 1, NULL));
}

/* What asks about a captured event is answered by nobody, and spoils the capture. */
static fm_cu_result ask(CUevent event)
{
	FK_TRY(find(event));
	if (event->capture && !event->capture->ended) {
		event->capture->invalid = true;
		return fk_leave(CU_CAPTURED_EVENT);
	}
	if (fk_unsafe())
		return fk_leave(CU_CAPTURE_UNSUPPORTED);
	return FM_CU_SUCCESS;
}

fm_cu_result cuEventQuery(CUevent event)
{
	fk_at("cuEventQuery");
	FK_TRY(fk_fails(__func__));
	FK_TRY(ask(event));
	return fk_leave(event->record && !fk_passed(event->record->at) ? FM_CU_ERROR_NOT_READY
								       : FM_CU_SUCCESS);
}

fm_cu_result cuEventSynchronize(CUevent event)
{
	FK_TRY(fk_fails(__func__));
	FK_TRY(ask(event));
	if (event->record)
		fk_wait(event->record->at);
	fk_pools_synced();
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end)
{
	FK_TRY(find(start));
	if (!fk_event_known(end) || !start->record || !end->record ||
		((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING))
		return fk_leave(CU_INVALID_HANDLE);
	if (!fk_passed(start->record->at) || !fk_passed(end->record->at))
		return fk_leave(FM_CU_ERROR_NOT_READY);
	*ms = (float)((double)(int64_t)(end->record->ns - start->record->ns) / 1e6);
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
	return cuEventElapsedTime_v2(ms, start, end);
}
