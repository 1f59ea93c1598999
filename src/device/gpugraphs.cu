// SPDX-License-Identifier: Apache-2.0
// What gpugraphs.h says, for devices. make-gpusched makes gpugraphs_text.c of it, which wants the device runtime.
#include "device/gpusched_lanes.h"

#define FM_GRAPHS_LAUNCH(graph) cudaGraphLaunch((cudaGraphExec_t)(graph), cudaStreamGraphTailLaunch)
#include "device/gpugraphs_warp.h"

extern "C" __global__ void fermata_graph(
	struct fm_graphs *s, struct fm_gs_task *to, uint32_t task, uint32_t what, uint64_t later)
{
	fm_graphs_run(s, to, task, what, later);
}
