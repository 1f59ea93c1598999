/* SPDX-License-Identifier: Apache-2.0 */
/* For the sets about guarded graphs. */
#pragma once
#include "cuda_guard.h"

static inline CUgraphExec instantiate(CUgraph graph)
{
	CUgraphExec exec;

	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	return exec;
}

static inline void begin(CUstream s)
{
	CU(cuStreamBeginCapture_v2(s, CU_CAPTURE_THREAD_LOCAL));
}

static inline CUgraph end(CUstream s)
{
	CUgraph graph;

	CU(cuStreamEndCapture(s, &graph));
	return graph;
}

struct witness {
	const uint32_t *words;
	uint32_t calls, sum;
};

static inline void on_host(void *arg)
{
	struct witness *w = arg;

	w->calls++;
	for (uint32_t i = 0; i < WORDS; i++)
		w->sum = w->sum * 31 + w->words[i];
}
