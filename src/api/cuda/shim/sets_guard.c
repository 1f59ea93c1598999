// SPDX-License-Identifier: Apache-2.0
#include "sets_guard.h"
#include "api/cuda/core/guard/guard.h"
#include "api/cuda/shim/graph/graph_guard.h"
#include "device/gpugraphs.h"

#define ROW 3 /* the guardian's mode (guardian.ptx) */

static bool takes(const struct fm_cuda_kernel *kernel, const struct fm_cu_launch_config *config,
	bool cooperative)
{
	bool whole = cooperative;

	return fm_cuda_exec_takes(kernel, config) && kernel->mode != FM_GUARD_GRID &&
	       fm_cu_guard_repeats(config, &whole) && !whole &&
	       (uint64_t)config->grid[0] * config->grid[1] * config->grid[2] <= FM_GRAPHS_BLOCKS;
}

/* Of a chunk one launch of which is not guarded none is stopped. */
FM_COLD void fm_cuda_set_guard(const struct fm_cuda_kernel *kernel,
	const struct fm_cu_launch_config *config, bool cooperative, CUstream stream,
	struct fm_cuda_args *a)
{
	struct fm_cu_gates_guard *guard = fm_cuda_enqueues->guard;
	uint64_t ours[FM_GUARD_PARAMS];

	if (!guard)
		return;
	if (stream != fm_cuda_enqueues->stream || !takes(kernel, config, cooperative)) {
		guard->whole = true;
		return;
	}
	ours[0] = fm_cu_gates_guard_stop(guard);
	ours[1] = guard->block;
	ours[2] = ++guard->kernels << 2 | ROW;
	fm_cuda_args_put(a, kernel->image, ours);
}
