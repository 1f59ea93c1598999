// SPDX-License-Identifier: Apache-2.0
// What gpugraphs.h says of chains, for devices. make-gpusched makes gpugraphs_text.c of it, which wants the device runtime.
#include "device/gpusched_lanes.h"

#define FM_GRAPHS_LAUNCH(graph) cudaGraphLaunch((cudaGraphExec_t)(graph), cudaStreamGraphTailLaunch)
#include "device/gpugraphs_warp.h"

extern "C" __global__ void fermata_graph(struct fm_graphs *s, uint32_t task, uint32_t what)
{
	fm_graphs_run(s, task, what);
}
