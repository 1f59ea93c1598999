/* SPDX-License-Identifier: Apache-2.0 */
#include "give_back.h"
#include "api/cuda/core/guard/guard_internal.h"
#include "cuda.h"
#include "reach.h"

bool fm_cu_has_of(CUcontext ctx)
{
	return fm_cu_reach_known(ctx);
}

CUcontext fm_cu_has_of_any(void)
{
	return fm_cu_reach_any();
}

/* The registrations are given back last, because they tell whether there is anything. */
bool fm_cu_give_back(const struct fm_cu_driver *cu, CUcontext ctx)
{
	bool ok = false;
	CUcontext old;
	int mode;

	if (!cu->host_unregister || !cu->ctx_push || !cu->ctx_pop || !cu->stream_query)
		return false;
	mode = fm_cu_enter(cu);
	if (!cu->ctx_push(ctx)) {
		ok = fm_cu_guard_streams_idle(cu, ctx);
		if (ok) {
			fm_cu_graphs_give_back(cu, ctx);
			fm_cu_guards_give_back(ctx);
			fm_cu_guard_streams_give_back(cu, ctx);
			fm_cu_reach_give_back(cu, ctx);
		}
		cu->ctx_pop(&old);
	}
	fm_cu_leave(cu, mode);
	return ok;
}
