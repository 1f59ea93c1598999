// SPDX-License-Identifier: Apache-2.0
// What gpugraphs.h says of what the host tells, for devices. make-gpusched makes gpugraphs_heard_text.c of it. It is a module
// of its own, as it may not call cudaGraphLaunch.
#include "device/gpusched_lanes.h"
#include "device/gpugraphs_warp.h"

extern "C" __global__ void fermata_graphs_heard(
	struct fm_graphs *s, struct fm_gs_task *to, uint64_t later, uint32_t what)
{
	fm_graphs_heard(s, to, what, later);
}
