// SPDX-License-Identifier: Apache-2.0
/* Launches of all blocks or none among others that stop block by block, in any order: each does as
 * the one in front of it or decides for itself, by what stands between the two. CUDA_GUARD_SEED
 * says which order. */
#include "cuda_guard_graph.h"

#define TOO_MANY_THREADS 5000
#define MEETINGS         8 /* blocks */
#define TOGETHER         12
#define ROUNDS           3
#define MANY_BLOCKS      600000 /* more than there are bits for */

struct lane {
	struct conform *c;
	struct guard *g;
	CUstream s;
	CUdeviceptr x, y, arrived;
	void *pinned;
	struct witness w;
	uint32_t state, number;
};

static uint32_t dice(struct lane *l, uint32_t n)
{
	l->state ^= l->state << 13;
	l->state ^= l->state >> 17;
	l->state ^= l->state << 5;
	return l->state % n;
}

static void lane_open(struct lane *l, struct conform *c, struct guard *g, unsigned i)
{
	const char *seed = getenv("CUDA_GUARD_SEED");

	*l = (struct lane){.c = c, .g = g};
	l->state = ((seed ? (uint32_t)atoi(seed) : 1) + 100 * i) * 2654435761u | 1;
	l->s = new_stream(CU_STREAM_NON_BLOCKING);
	l->x = new_words(40 + i);
	l->y = new_words(50 + i);
	l->arrived = new_words(60 + i);
	CU(cuMemAllocHost_v2(&l->pinned, BYTES));
	memset(l->pinned, 0, BYTES);
	l->w.words = l->pinned;
	CU(cuCtxSynchronize());
}

static void lane_close(struct lane *l)
{
	note_words(l->c, "x", l->x, l->s);
	note_words(l->c, "y", l->y, l->s);
	note(l->c, "%u calls saw %08x", l->w.calls, l->w.sum);
	CU(cuMemFreeHost(l->pinned));
	free_all((CUdeviceptr[]){l->x, l->y, l->arrived}, 3);
	CU(cuStreamDestroy_v2(l->s));
}

/* --- what is launched --- */

static void block_by_block(struct lane *l)
{
	switch (dice(l, 4)) {
	case 0:
		toil(l->g, l->s, l->x);
		return;
	case 1:
		step(l->g, l->s, l->x);
		return;
	default:
		chain(l->g, l->s, l->x, l->number++);
	}
}

static void whole_chain(struct lane *l)
{
	uint32_t n = WORDS / 2, number = l->number++;
	void *params[] = {&l->x, &n, &number};

	CU(cuLaunchCooperativeKernel(l->g->chain, TOGETHER, 1, 1, BLOCK, 1, 1, 0, l->s, params));
}

static void meeting(struct lane *l)
{
	uint32_t n = WORDS / 2, rounds = ROUNDS;
	void *params[] = {&l->x, &n, &rounds, &l->arrived};

	CU(cuMemsetD32Async(l->arrived, 0, 1, l->s));
	if (dice(l, 2))
		chain(l->g, l->s, l->x, l->number++);
	CU(cuLaunchCooperativeKernel(l->g->meet, MEETINGS, 1, 1, BLOCK, 1, 1, 0, l->s, params));
}

static void many_blocks(struct lane *l)
{
	uint32_t n = WORDS / 2, number = l->number++;

	launch(l->g->chain, MANY_BLOCKS, BLOCK, l->s, (void *[]){&l->x, &n, &number});
}

static void all_or_none(struct lane *l)
{
	if (!dice(l, 60))
		many_blocks(l);
	else if (dice(l, 6))
		whole_chain(l);
	else
		meeting(l);
}

/* What needs all in front of it. */
static void other(struct lane *l)
{
	switch (dice(l, 5)) {
	case 0:
		CU(cuMemcpyDtoDAsync_v2(l->y, l->x, BYTES / 2, l->s));
		return;
	case 1:
		CU(cuMemsetD32Async(l->x + 4 * dice(l, 100), l->number, 40, l->s));
		return;
	case 2:
		join(l->c, l->s, l->y, l->x, l->y);
		return;
	case 3:
		mix(l->c, l->s, l->y, l->number);
		return;
	default:
		CU(cuMemcpyDtoHAsync_v2(l->pinned, l->x, BYTES, l->s));
		CU(cuLaunchHostFunc(l->s, on_host, &l->w));
	}
}

static void refused(struct lane *l)
{
	if (!cu.cuLaunchKernel(
		    l->g->step, 1, 1, 1, TOO_MANY_THREADS, 1, 1, 0, l->s, (void *[]){&l->x}, NULL))
		note(l->c, "%u threads", TOO_MANY_THREADS);
}

/* Mostly in pairs: the second does as the first. */
static void some(struct lane *l)
{
	uint32_t what = dice(l, 20);

	if (what < 10) {
		block_by_block(l);
		all_or_none(l);
	} else if (what < 14) {
		all_or_none(l);
	} else if (what < 18) {
		block_by_block(l);
	} else {
		other(l);
	}
}

static void streams(struct conform *c)
{
	struct lane l[2];
	struct guard g;

	guard_open(&g);
	lane_open(&l[0], c, &g, 0);
	lane_open(&l[1], c, &g, 1);
	for (unsigned i = 0; i < 300; i++) {
		struct lane *now = &l[dice(&l[0], 2)];

		some(now);
		if (!dice(now, 30))
			order(l[0].s, l[1].s);
		if (!dice(now, 30))
			refused(now);
		if (!dice(now, 60))
			CU(cuStreamSynchronize(now->s));
	}
	lane_close(&l[0]);
	lane_close(&l[1]);
	guard_close(&g);
}

/* --- graphs --- */

static CUgraph recorded(struct lane *l)
{
	begin(l->s);
	for (unsigned i = 0, n = 1 + dice(l, 24); i < n; i++)
		some(l);
	return end(l->s);
}

#define NODES_MOST 512

/* An H200 (580.159.04) says of a graph with a cooperative launch that is left out that it failed.
 */
static bool may_be_left_out(const struct cu_kernel_node *k)
{
	return k->grid[0] != TOGETHER && k->grid[0] != MEETINGS;
}

/* One of its kernels is left out from now on, or no more. There may be nodes of others in it. */
static void change(struct lane *l, CUgraphExec exec, CUgraph graph)
{
	struct cu_kernel_node params;
	CUgraphNode node[NODES_MOST];
	size_t n = NODES_MOST;
	uint32_t kernels = 0;

	CU(cuGraphGetNodes(graph, node, &n));
	for (size_t i = 0; i < n; i++)
		if (!cu.cuGraphKernelNodeGetParams_v2(node[i], &params) && may_be_left_out(&params))
			node[kernels++] = node[i];
	if (kernels)
		CU(cuGraphNodeSetEnabled(exec, node[dice(l, kernels)], dice(l, 2)));
}

#define GRAPHS 4

static void graphs(struct conform *c)
{
	CUgraphExec exec[GRAPHS];
	CUgraph graph[GRAPHS];
	struct guard g;
	struct lane l;

	guard_open(&g);
	lane_open(&l, c, &g, 2);
	for (unsigned i = 0; i < GRAPHS; i++) {
		graph[i] = recorded(&l);
		exec[i] = instantiate(graph[i]);
	}
	for (unsigned i = 0; i < 60; i++) {
		uint32_t which = dice(&l, GRAPHS);

		CU(cuGraphLaunch(exec[which], l.s));
		if (!dice(&l, 3))
			some(&l);
		if (i > 40 && which < 2 && !dice(&l, 4))
			change(&l, exec[which], graph[which]);
	}
	CU(cuStreamSynchronize(l.s));
	for (unsigned i = 0; i < GRAPHS; i++) {
		CU(cuGraphExecDestroy(exec[i]));
		CU(cuGraphDestroy(graph[i]));
	}
	lane_close(&l);
	guard_close(&g);
}

int main(int argc, char **argv)
{
	static const struct conform_case cases[] = {
		{"streams", streams},
		{"graphs", graphs},
		{NULL, NULL},
	};

	return conform_main(argc, argv, cases);
}
