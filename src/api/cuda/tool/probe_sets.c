// SPDX-License-Identifier: Apache-2.0
/* Sets of tasks that decide on the device (<fermata/gpu_sched.h>), in the probe's process: one of
 * each engine is made, of one task, and its kernel is launched; nothing is released. */
#include "api/cuda/gpusched/device_runtime.h"
#include "api/cuda/gpusched/gates.h"
#include "probe_cuda.h"
#include <limits.h>

/* 0 or a negative errno. */
static int try_set(const struct probe_cuda *c, unsigned kind)
{
	struct fm_gs_task task = {.chunks = 1, .weight = FM_GS_WEIGHT, .next = FM_GS_NEVER};
	const struct fm_gs set = {
		.n = 1, .slots = 1, .policy = FM_GS_EDF, .wake = FM_GS_NEVER, .task = &task};
	struct fm_cu_gates *g = NULL;
	int rc = fm_cu_gates_create(&c->cu, &set, 1, kind, &g, NULL);

	return rc ? rc : fm_cu_gates_destroy(g);
}

void probe_cuda_sets(const struct probe_cuda *c, FILE *out)
{
	char path[PATH_MAX], places[PATH_MAX];
	const char *runtime = fm_cu_device_runtime(path, sizeof(path));

	fm_cu_device_runtime_places(places, sizeof(places));
	probe_tell(out, json_pack("{s:s, s:i, s:i, s:s, s:s}", "step", "sets", "gates",
				try_set(c, 0), "graphs", try_set(c, FM_CU_GATES_GRAPHS), "runtime",
				runtime ? runtime : "", "places", places));
}
