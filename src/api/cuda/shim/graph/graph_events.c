/* SPDX-License-Identifier: Apache-2.0 */
#include "graph_events.h"

#define NO_TIMING 2u /* a flag of an event */

static bool record(const struct fm_cu_driver *cu, CUstream stream, CUevent *event)
{
	CUevent made = NULL;

	if (!*event && cu->event_create(&made, NO_TIMING))
		return false;
	if (!cu->event_record(*event ? *event : made, stream)) {
		*event = *event ? *event : made;
		return true;
	}
	if (made)
		cu->event_destroy(made);
	return false;
}

/* A query of the legacy stream invalidates captures, and so does anything that is put into it. */
bool fm_cuda_behind(CUcontext ctx, CUstream stream, CUevent *event)
{
	const struct fm_cu_driver *cu = fm_cuda_driver();
	bool recorded = false;
	CUcontext was;
	int mode;

	if (atomic_load(&fm_cu_captures) &&
		(stream == FM_CU_STREAM_LEGACY || fm_cuda_capturing(stream)))
		return false;
	mode = fm_cu_enter(cu);
	if (!cu->ctx_push(ctx)) {
		recorded = record(cu, stream, event);
		cu->ctx_pop(&was);
	}
	fm_cu_leave(cu, mode);
	return recorded;
}

void fm_cuda_behind_wait(CUstream stream, CUevent event)
{
	fm_cu_result (*wait)(CUstream, CUevent, unsigned) =
		(fm_cu_result(*)(CUstream, CUevent, unsigned))fm_cuda_symbol("cuStreamWaitEvent");

	fm_cu_inside++;
	if (wait && event)
		wait(stream, event, 0);
	fm_cu_inside--;
}

bool fm_cuda_behind_passed(CUcontext ctx, CUevent event)
{
	const struct fm_cu_driver *cu = fm_cuda_driver();
	int mode = fm_cu_enter(cu);
	bool passed = false;
	CUcontext was;

	if (!cu->ctx_push(ctx)) {
		passed = !cu->event_query(event);
		cu->ctx_pop(&was);
	}
	fm_cu_leave(cu, mode);
	return passed;
}

void fm_cuda_behind_end(CUevent event)
{
	const struct fm_cu_driver *cu = fm_cuda_driver();
	int mode;

	if (!event)
		return;
	mode = fm_cu_enter(cu);
	cu->event_destroy(event);
	fm_cu_leave(cu, mode);
}
