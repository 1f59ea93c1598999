/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA program (cuda_job.h) that changes parts of an executable graph:
 *
 *   learn N       launches of a kernel of 100 us, each waited for
 *   parts N       the first time it makes the graph; then up to N - 1 times its part is captured
 *                 anew, and exchanged. With nodes of each kind that a part may have; the results
 *                 are of the last change
 *   kept N        likewise, where each part keeps an object of the program's; and what
 *                 the driver said to the last
 *   asked N       likewise, without objects
 *   another 1     a second context is made; the first one is current again
 *   green 1       a stream of a green context is made
 *   device N      the first time it makes a graph with a captured part, for launches by the device
 *                 itself; then likewise
 */
#include "../cuda_job.h"

#define PARTS 64u
#define MARKS 5 /* words of the results */

static bool with_objects;
static uint32_t marks[PARTS], gone[PARTS];

static void mark(void *at)
{
	*(uint32_t *)at += 1;
}

/* Kernels, one of them cooperative, a fill, a copy and a host function, on two streams; then a
 * graph inside. */
static CUgraph capture_kinds(struct job *j, uint32_t value)
{
	CUstream beside = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr last = j->arrived + 16;
	CUgraph graph, inner = capture(j);
	CUgraphNode node, first;
	uint32_t one = 1;
	size_t n = 1;

	CU(cuStreamBeginCapture_v2(j->s, CU_CAPTURE_RELAXED));
	CU(cuMemsetD32Async(j->arrived, value, 2, j->s));
	order(j->s, beside);
	CU(cuMemcpyDtoDAsync_v2(j->arrived + 8, j->arrived, 8, beside));
	spins(j, 1, 100000, NODES);
	CU(cuLaunchCooperativeKernel(
		j->c.fill, 1, 1, 1, 32, 1, 1, 0, j->s, (void *[]){&last, &one, &value}));
	order(beside, j->s);
	CU(cuLaunchHostFunc(j->s, mark, &marks[value]));
	CU(cuStreamEndCapture(j->s, &graph));
	CU(cuGraphGetNodes(graph, &first, &n));
	CU(cuGraphAddChildGraphNode(&node, graph, &first, 1, inner));
	CU(cuGraphDestroy(inner));
	CU(cuStreamDestroy_v2(beside));
	return graph;
}

static void keep_object(CUgraph graph, uint32_t value)
{
	CUuserObject object;

	CU(cuUserObjectCreate(&object, &gone[value], mark, 1, 1 /* no sync */));
	CU(cuGraphRetainUserObject(graph, object, 1, 1 /* it is the graph's own */));
}

/* An executable graph, and the node of its part. */
struct exec {
	CUgraphExec exec;
	CUgraphNode node;
};

static void make(struct exec *e, CUgraph part, unsigned long long flags)
{
	CUgraph graph;

	CU(cuGraphCreate(&graph, 0));
	CU(cuGraphAddChildGraphNode(&e->node, graph, NULL, 0, part));
	CU(cuGraphInstantiateWithFlags(&e->exec, graph, flags));
}

static fm_cu_result change(struct exec *e, CUgraph part, uint32_t value)
{
	struct cu_node what = {.type = 4 /* a graph */, .graph = part};

	return value & 1 ? cu.cuGraphExecChildGraphNodeSetParams(e->exec, e->node, part)
			 : cu.cuGraphExecNodeSetParams(e->exec, e->node, &what);
}

/* What the driver said to the last change. */
static fm_cu_result parts_of(struct job *j, struct exec *e, int n)
{
	fm_cu_result rc = 0;

	for (uint32_t i = e->exec ? 1 : 0; i < (uint32_t)n && i < PARTS; i++) {
		CUgraph part = capture_kinds(j, i);

		if (with_objects)
			keep_object(part, i);
		if (e->exec)
			rc = change(e, part, i);
		else
			make(e, part, 0);
		CU(cuGraphDestroy(part));
	}
	return rc;
}

static void parts(struct job *j, int n)
{
	static struct exec e;
	uint32_t result[MARKS], value = (uint32_t)n - 1;

	if (parts_of(j, &e, n))
		die("a part cannot be changed");
	marks[value] = 0;
	CU(cuGraphLaunch(e.exec, j->s));
	CU(cuStreamSynchronize(j->s));
	CU(cuMemcpyDtoH_v2(result, j->arrived, sizeof(result)));
	for (int i = 0; i < MARKS; i++)
		if (result[i] != value || marks[value] != 1)
			die("of change %u: %u, and %u marks", value, result[i], marks[value]);
}

static void asked(struct job *j, int n)
{
	static struct exec e;
	fm_cu_result rc = parts_of(j, &e, n);

	CU(cuGraphLaunch(e.exec, j->s));
	CU(cuStreamSynchronize(j->s));
	puts(!rc ? gone[n - 1] ? "taken without its object" : "taken" : "refused");
}

static void kept(struct job *j, int n)
{
	with_objects = true;
	asked(j, n);
}

static void another(struct job *j, int n)
{
	CUcontext ctx;

	CU(cuCtxCreate_v2(&ctx, 0, j->c.dev));
	CU(cuCtxSetCurrent(j->c.ctx));
}

static void green(struct job *j, int n)
{
	CUstream s;

	CU(cuGreenCtxStreamCreate(&s, new_green(j), CU_STREAM_NON_BLOCKING, 0));
}

static void device(struct job *j, int n)
{
	static struct exec e;

	for (int i = e.exec ? 1 : 0; i < n; i++) {
		CUgraph part = capture(j);

		if (!e.exec)
			make(&e, part, 4 /* by the device */);
		else if (change(&e, part, (uint32_t)i))
			die("a part cannot be changed");
		CU(cuGraphDestroy(part));
	}
	CU(cuGraphLaunch(e.exec, j->s));
}

static const struct command commands[] = {{"learn", learn}, {"parts", parts}, {"kept", kept},
	{"asked", asked}, {"another", another}, {"green", green}, {"device", device}, {NULL, NULL}};

int main(int argc, char **argv)
{
	return job_main(argc, argv, commands);
}
