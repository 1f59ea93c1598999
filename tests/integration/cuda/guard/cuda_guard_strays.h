/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of cuda_guard_execs: graphs launched in the default stream of a thread, which has no guard,
 * and that nobody else can name. */
#pragma once
#include "cuda_guard_graph.h"

static inline CUgraph long_one(struct guard *g, CUstream s, CUdeviceptr x, uint32_t number)
{
	begin(s);
	toil(g, s, x);
	for (uint32_t i = 0; i < 4; i++)
		chain(g, s, x, number + i);
	return end(s);
}

struct stray {
	struct guard g;
	CUstream s;
	CUdeviceptr x, y, word_at;
	volatile uint32_t *word;
	CUgraph graph[2]; /* of the one, and of the other words */
};

static inline void stray_open(struct stray *t)
{
	guard_open(&t->g);
	t->x = new_words(46);
	t->y = new_words(47);
	t->word = mapped_words(&t->word_at);
	t->s = new_stream(CU_STREAM_NON_BLOCKING);
	t->graph[0] = long_one(&t->g, t->s, t->x, 3);
	t->graph[1] = long_one(&t->g, t->s, t->y, 30);
}

static inline void stray_close(struct conform *c, struct stray *t)
{
	CU(cuCtxSynchronize());
	note_words(c, "x", t->x, NULL);
	note_words(c, "y", t->y, NULL);
	for (int i = 0; i < 2; i++)
		CU(cuGraphDestroy(t->graph[i]));
	guard_close(&t->g);
	CU(cuMemFreeHost((void *)t->word));
	free_all((CUdeviceptr[]){t->x, t->y}, 2);
	CU(cuStreamDestroy_v2(t->s));
}

/* Others are made meanwhile, and launched where they may be stopped. */
static inline void destroyed_under_way(struct conform *c)
{
	CUgraphExec exec, other[4];
	struct stray t;

	stray_open(&t);
	for (int round = 0; round < 6; round++) {
		*t.word = 0;
		exec = instantiate(t.graph[0]);
		CU(cuGraphLaunch(exec, FM_CU_STREAM_PER_THREAD));
		CU(cuStreamWaitValue32_v2(FM_CU_STREAM_PER_THREAD, t.word_at, 1, CU_WAIT_GEQ));
		CU(cuGraphLaunch(exec, FM_CU_STREAM_PER_THREAD));
		CU(cuGraphExecDestroy(exec));
		for (int i = 0; i < 4; i++) {
			other[i] = instantiate(t.graph[1]);
			CU(cuGraphLaunch(other[i], t.s));
		}
		*t.word = 1;
		for (int i = 0; i < 4; i++)
			CU(cuGraphExecDestroy(other[i]));
		CU(cuStreamSynchronize(FM_CU_STREAM_PER_THREAD));
	}
	stray_close(c, &t);
}

/* A capture forbids to destroy what was launched, and to ask about events, and its thread launches
 * elsewhere meanwhile. */
static inline void beside_a_capture(struct conform *c)
{
	CUgraph graph = NULL;
	CUgraphExec exec[2];
	struct stray t;
	fm_cu_result rc;

	stray_open(&t);
	for (int i = 0; i < 2; i++) {
		exec[i] = instantiate(t.graph[0]);
		CU(cuGraphLaunch(exec[i], FM_CU_STREAM_PER_THREAD));
	}
	CU(cuStreamBeginCapture_v2(t.s, CU_CAPTURE_GLOBAL));
	chain(&t.g, t.s, t.y, 1);
	CU(cuGraphLaunch(exec[1], FM_CU_STREAM_PER_THREAD));
	rc = cu.cuGraphExecDestroy(exec[0]);
	note(c, "destroyed %d, ended %d", rc, cu.cuStreamEndCapture(t.s, &graph));
	if (graph)
		CU(cuGraphDestroy(graph));
	if (rc)
		CU(cuGraphExecDestroy(exec[0]));
	CU(cuGraphLaunch(exec[1], t.s));
	CU(cuGraphExecDestroy(exec[1]));
	stray_close(c, &t);
}

/* Where the driver takes that: a launch that is captured is no launch. */
static inline void strayed_captured(struct conform *c)
{
	CUgraphExec exec, outer;
	fm_cu_result launched, ended;
	CUgraph graph = NULL;
	struct stray t;

	stray_open(&t);
	exec = instantiate(t.graph[0]);
	CU(cuGraphLaunch(exec, FM_CU_STREAM_PER_THREAD));
	begin(FM_CU_STREAM_PER_THREAD);
	launched = cu.cuGraphLaunch(exec, FM_CU_STREAM_PER_THREAD);
	ended = cu.cuStreamEndCapture(FM_CU_STREAM_PER_THREAD, &graph);
	note(c, "captured %d, ended %d", launched, ended);
	CU(cuGraphLaunch(exec, FM_CU_STREAM_PER_THREAD));
	CU(cuGraphExecDestroy(exec));
	CU(cuStreamSynchronize(FM_CU_STREAM_PER_THREAD));
	if (!launched && !ended) {
		size_t nodes;

		CU(cuGraphGetNodes(graph, NULL, &nodes));
		note(c, "%zu nodes", nodes);
		outer = instantiate(graph);
		CU(cuGraphLaunch(outer, t.s));
		CU(cuGraphExecDestroy(outer));
		CU(cuGraphDestroy(graph));
	}
	stray_close(c, &t);
}

/* Whose context ends first, and what is made then may have the names of what was there. */
static inline void strayed_context_ends(struct conform *c)
{
	CUgraphExec exec[8], last;
	CUevent event[16];
	CUcontext other, was;
	CUgraph graph;
	struct stray t;
	struct guard g;
	CUdeviceptr x;

	stray_open(&t);
	CU(cuCtxCreate_v2(&other, 0, c->dev));
	guard_open(&g);
	x = new_words(48);
	graph = long_one(&g, FM_CU_STREAM_PER_THREAD, x, 20);
	for (int i = 0; i < 8; i++) {
		exec[i] = instantiate(graph);
		CU(cuGraphLaunch(exec[i], FM_CU_STREAM_PER_THREAD));
		if (i < 4)
			CU(cuGraphExecDestroy(exec[i]));
	}
	CU(cuCtxSynchronize());
	note_words(c, "x", x, NULL);
	CU(cuCtxPopCurrent_v2(&was));
	CU(cuCtxDestroy_v2(other));
	for (int i = 0; i < 16; i++)
		CU(cuEventCreate(&event[i], 0));
	for (int i = 4; i < 8; i++)
		note(c, "%d", cu.cuGraphExecDestroy(exec[i]));
	last = instantiate(t.graph[0]);
	CU(cuGraphLaunch(last, FM_CU_STREAM_PER_THREAD));
	CU(cuGraphExecDestroy(last));
	for (int i = 0; i < 16; i++) {
		CU(cuEventRecord(event[i], t.s));
		CU(cuEventSynchronize(event[i]));
		CU(cuEventDestroy_v2(event[i]));
	}
	CU(cuGraphDestroy(graph));
	stray_close(c, &t);
}
