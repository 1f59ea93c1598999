// SPDX-License-Identifier: Apache-2.0
// What gpusched.h says, for devices: the core's text, as 32 lanes run it. make-gpusched makes gpusched_text.c of it.
#include "device/gpusched_lanes.h"
#include "device/gpusched_warp.h"

// One kernel, so that there is one copy of the core's text for the driver to compile.
extern "C" __global__ void fermata_set(
	struct fm_gates *s, struct fm_gs_task *to, uint64_t jobs, uint64_t chunks, uint32_t task, uint32_t what)
{
	fm_gates_run(s, to, jobs, chunks, task, what);
}
