/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA program that does what it is told (cuda_job.h), so that a test can see how each call is
 * counted:
 *
 *   kernels N     N launches of a kernel
 *   old N         the same by the call of before CUDA 4.0
 *   several N     the same by the call for several devices
 *   streams N     N more streams, a fill and two kernels on each
 *   composed N    a graph of twenty kernels of 100 us, node by node; N launches, each waited for
 *   captured N    the same graph, captured
 *   updates N     the same captured N times more, each an update of the first, in 5 ms each
 *   sizes N       the same of kernels of one to N blocks, those of more than one short; each is an
 *                 update of the first
 *   clone N       a clone of the captured one
 *   child N       a graph whose one node is the captured one
 *   device N      the captured one, as one that the device itself could launch
 *   bodies 1      the captured one added to a part of another graph, and how many nodes it has
 *                 there, and itself
 *   frees 1       kernels captured with memory that they allocate and free, which the device cannot
 *                 launch, and what that has changed
 *   later N       the captured one, made while it has no gates, and N - 1 captured anew, each an
 *                 update of it; and how many nodes there are, before and after, in one of another
 *                 shape, that the driver refuses
 *   nested N      a captured launch of the captured one
 *   learn N       launches of a kernel of 100 us, each waited for, until what is captured has gates
 *   inside 1      captures kernels into a graph of its own and into a part of another, and says how
 *                 many nodes each has then
 *   unended N     N captures that nobody ends: of a stream, and of this thread's default stream, in
 *                 turn; each time the context is reset, and begun anew
 *   threads N     N captures of threads' own default streams, that end with the threads
 *   green N       N captures of streams of green contexts, that end with these
 *   default N     N launches in the legacy stream of the context that is current
 *   another HOW   another context becomes current: 1 made, 2 pushed, 3 set, 4 pushed, of green
 *   newer 1       a fill by a function that cuGetProcAddress gives for a later version of CUDA, and
 *                 a look at a name that means another function since a version
 */
#include "cuda_job.h"

static void kernels(struct job *j, int n)
{
	for (int i = 0; i < n; i++)
		mix(&j->c, j->s, j->x, (uint32_t)i);
}

static void old(struct job *j, int n)
{
	struct {
		CUdeviceptr x;
		uint32_t n, number, rounds;
	} __attribute__((packed)) p = {j->x, WORDS, 0, 40};

	CU(cuFuncSetBlockShape(j->c.mix, BLOCK, 1, 1));
	CU(cuParamSetSize(j->c.mix, sizeof(p)));
	CU(cuParamSetv(j->c.mix, 0, &p, sizeof(p)));
	for (int i = 0; i < n; i++)
		CU(cuLaunchGridAsync(j->c.mix, GRID, 1, j->s));
}

static void several(struct job *j, int n)
{
	uint32_t words = WORDS / 2, steps = 9;
	struct cu_launch_params one = {.f = j->c.relay,
		.grid = {8, 1, 1},
		.block = {BLOCK, 1, 1},
		.stream = j->s,
		.params = (void *[]){&j->x, &words, &steps, &j->arrived}};

	for (int i = 0; i < n; i++) {
		CU(cuMemsetD32Async(j->arrived, 0, 1, j->s));
		CU(cuLaunchCooperativeKernelMultiDevice(&one, 1, 0));
	}
}

static void streams(struct job *j, int n)
{
	for (int i = 0; i < n; i++) {
		CUstream s = new_stream(CU_STREAM_NON_BLOCKING);

		CU(cuMemsetD32Async(j->arrived, 7, 1, s));
		mix(&j->c, s, j->x, 1);
		mix(&j->c, s, j->x, 2);
	}
}

/* Launched by N, one after the other; the graph is gone then. */
static void replay(struct job *j, CUgraph graph, int n)
{
	CUgraphExec exec;

	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CU(cuGraphDestroy(graph));
	for (int i = 0; i < n; i++) {
		CU(cuGraphLaunch(exec, j->s));
		CU(cuStreamSynchronize(j->s));
	}
	CU(cuGraphExecDestroy(exec));
}

static void composed(struct job *j, int n)
{
	uint64_t ns = 100000;
	struct cu_kernel_node kernel = {.f = j->c.spin,
		.grid = {1, 1, 1},
		.block = {1, 1, 1},
		.params = (void *[]){&j->x, &ns}};
	CUgraphNode node = NULL, last;
	CUgraph graph;

	CU(cuGraphCreate(&graph, 0));
	for (int i = 0; i < NODES; i++) {
		last = node;
		CU(cuGraphAddKernelNode_v2(&node, graph, &last, last != NULL, &kernel));
	}
	replay(j, graph, n);
}

static void captured(struct job *j, int n)
{
	replay(j, capture(j), n);
}

static void updates(struct job *j, int n)
{
	static CUgraphExec exec;
	struct cu_update u = {0};
	CUgraph graph;

	for (int i = 0; i < n; i++) {
		graph = capture(j);
		if (!exec)
			CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
		CU(cuGraphExecUpdate_v2(exec, graph, &u));
		CU(cuGraphDestroy(graph));
		usleep(5000);
	}
	CU(cuGraphLaunch(exec, j->s));
}

static void sizes(struct job *j, int n)
{
	CUgraphExec exec = NULL;
	struct cu_update u;
	CUgraph graph;

	for (int k = 1; k <= n; k++) {
		for (int i = 0; i < 8; i++) {
			spins(j, (unsigned)k, k > 1 ? 1000 : 100000, 1);
			CU(cuStreamSynchronize(j->s));
		}
		graph = capture_of(j, (unsigned)k, k > 1 ? 1000 : 100000, NODES);
		if (!exec)
			CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
		u = (struct cu_update){0};
		CU(cuGraphExecUpdate_v2(exec, graph, &u));
		CU(cuGraphDestroy(graph));
		CU(cuGraphLaunch(exec, j->s));
	}
	CU(cuStreamSynchronize(j->s));
	CU(cuGraphExecDestroy(exec));
}

static void cloned(struct job *j, int n)
{
	CUgraph graph = capture(j), clone;

	CU(cuGraphClone(&clone, graph));
	CU(cuGraphDestroy(graph));
	replay(j, clone, n);
}

static void child(struct job *j, int n)
{
	CUgraph graph, part = capture(j);
	CUgraphNode node;

	CU(cuGraphCreate(&graph, 0));
	CU(cuGraphAddChildGraphNode(&node, graph, NULL, 0, part));
	CU(cuGraphDestroy(part));
	replay(j, graph, n);
}

static void by_device(struct job *j, int n)
{
	CUgraph graph = capture(j);
	struct cu_instantiate how = {.flags = 4 /* by the device */, .upload = j->s};
	CUgraphExec exec;

	if (n & 1)
		CU(cuGraphInstantiateWithFlags(&exec, graph, how.flags));
	else
		CU(cuGraphInstantiateWithParams(&exec, graph, &how));
	printf("for the device: %zu\n", nodes_of(graph));
	CU(cuGraphDestroy(graph));
	for (int i = 0; i < n; i++)
		CU(cuGraphLaunch(exec, j->s));
	CU(cuStreamSynchronize(j->s));
	CU(cuGraphExecDestroy(exec));
}

static void bodies(struct job *j, int n)
{
	CUgraph graph, empty, body, part = capture(j);
	CUgraphNode node;

	CU(cuGraphCreate(&empty, 0));
	CU(cuGraphCreate(&graph, 0));
	CU(cuGraphAddChildGraphNode(&node, graph, NULL, 0, empty));
	CU(cuGraphChildGraphNodeGetGraph(node, &body));
	CU(cuGraphAddChildGraphNode(&node, body, NULL, 0, part));
	CU(cuGraphChildGraphNodeGetGraph(node, &body));
	printf("in a body: %zu of %zu\n", nodes_of(body), nodes_of(part));
}

static size_t edges_of(CUgraph graph)
{
	size_t n = nodes_of(graph), edges = 0, deps;
	CUgraphNode *node = calloc(n, sizeof(*node));

	CU(cuGraphGetNodes(graph, node, &n));
	for (size_t i = 0; i < n; i++, edges += deps)
		CU(cuGraphNodeGetDependencies(node[i], NULL, &deps));
	free(node);
	return edges;
}

static void frees(struct job *j, int n)
{
	CUgraphExec exec;
	CUdeviceptr x;
	CUgraph graph;
	size_t edges;

	CU(cuStreamBeginCapture_v2(j->s, CU_CAPTURE_RELAXED));
	spins(j, 1, 100000, NODES);
	CU(cuMemAllocAsync(&x, 64, j->s));
	CU(cuMemFreeAsync(x, j->s));
	CU(cuStreamEndCapture(j->s, &graph));
	edges = edges_of(graph);
	if (!cu.cuGraphInstantiateWithFlags(&exec, graph, 4 /* by the device */))
		die("the device itself could free memory");
	printf("frees: %zu edges more\n", edges_of(graph) - edges);
	CU(cuGraphDestroy(graph));
}

static void later(struct job *j, int n)
{
	static CUgraphExec exec;
	struct cu_update u = {0};
	CUgraph graph = capture(j);
	size_t before;

	if (!exec)
		CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CU(cuGraphDestroy(graph));
	for (int i = 1; i < n; i++) {
		graph = capture(j);
		CU(cuGraphExecUpdate_v2(exec, graph, &u));
		CU(cuGraphDestroy(graph));
	}
	graph = capture_of(j, 1, 100000, NODES + 1);
	before = nodes_of(graph);
	if (cu.cuGraphExecUpdate_v2(exec, graph, &u) != CU_UPDATE_FAILURE)
		die("another shape is the same");
	printf("another shape: %zu, %zu\n", before, nodes_of(graph));
	CU(cuGraphDestroy(graph));
	CU(cuGraphLaunch(exec, j->s));
}

static void nested(struct job *j, int n)
{
	CUgraph graph = capture(j);
	CUgraphExec exec;

	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CU(cuGraphDestroy(graph));
	CU(cuStreamBeginCapture_v2(j->s, CU_CAPTURE_RELAXED));
	CU(cuGraphLaunch(exec, j->s));
	CU(cuStreamEndCapture(j->s, &graph));
	replay(j, graph, n);
	CU(cuGraphExecDestroy(exec));
}

static size_t capture_into(struct job *j, CUgraph graph)
{
	CUgraph same;

	CU(cuStreamBeginCaptureToGraph(j->s, graph, NULL, NULL, 0, CU_CAPTURE_RELAXED));
	spins(j, 1, 100000, NODES);
	CU(cuStreamEndCapture(j->s, &same));
	return nodes_of(graph);
}

static void inside(struct job *j, int n)
{
	CUgraph own, empty, part;
	CUgraphNode node;

	CU(cuGraphCreate(&empty, 0));
	CU(cuGraphCreate(&own, 0));
	CU(cuGraphAddChildGraphNode(&node, own, NULL, 0, empty));
	CU(cuGraphChildGraphNodeGetGraph(node, &part));
	printf("a part: %zu\n", capture_into(j, part));
	printf("its own: %zu\n", capture_into(j, empty));
	CU(cuGraphDestroy(own));
	CU(cuGraphDestroy(empty));
}

static void unended(struct job *j, int n)
{
	for (int i = 0; i < n; i++) {
		CUstream s = i % 2 ? FM_CU_STREAM_PER_THREAD : new_stream(CU_STREAM_NON_BLOCKING);

		CU(cuStreamBeginCapture_v2(s, CU_CAPTURE_RELAXED));
		mix(&j->c, s, j->x, (uint32_t)i);
		CU(cuDevicePrimaryCtxReset_v2(j->c.dev));
		conform_again(&j->c);
		conform_load(&j->c);
		begin(j);
	}
}

static void *capture_and_end(void *arg)
{
	struct job *j = arg;

	CU(cuCtxSetCurrent(j->c.ctx));
	CU(cuStreamBeginCapture_v2(FM_CU_STREAM_PER_THREAD, CU_CAPTURE_RELAXED));
	return NULL;
}

static void threads(struct job *j, int n)
{
	for (int i = 0; i < n; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, capture_and_end, j))
			die("no thread");
		pthread_join(thread, NULL);
	}
}

static void green(struct job *j, int n)
{
	for (int i = 0; i < n; i++) {
		CUgreenCtx green = new_green(j);
		CUstream s;

		CU(cuGreenCtxStreamCreate(&s, green, CU_STREAM_NON_BLOCKING, 0));
		CU(cuStreamBeginCapture_v2(s, CU_CAPTURE_RELAXED));
		mix(&j->c, s, j->x, (uint32_t)i);
		CU(cuGreenCtxDestroy(green));
	}
}

static void in_default(struct job *j, int n)
{
	for (int i = 0; i < n; i++)
		mix(&j->c, FM_CU_STREAM_LEGACY, j->x, (uint32_t)i);
}

static CUcontext primary_of_last(void)
{
	CUcontext ctx;
	int n;

	CU(cuDevicePrimaryCtxRetain(&ctx, last_device(&n)));
	return ctx;
}

static void another(struct job *j, int how)
{
	CUcontext ctx;

	if (how == 1) {
		CU(cuCtxCreate_v2(&ctx, 0, j->c.dev));
	} else if (how == 4) {
		CU(cuCtxFromGreenCtx(&ctx, new_green(j)));
		CU(cuCtxPushCurrent_v2(ctx));
	} else if (how == 3) {
		CU(cuCtxSetCurrent(primary_of_last()));
	} else {
		CU(cuCtxPushCurrent_v2(primary_of_last()));
	}
	conform_load(&j->c);
	j->x = new_words(2);
}

static void newer(struct job *j, int n)
{
	fm_cu_result (*set)(CUdeviceptr, unsigned char, size_t, unsigned, CUstream);
	unsigned char byte = 0;
	void *fn = NULL;

	CU(cuGetProcAddress_v2("cuMemsetD8Async", &fn, 99000, 0, &(int){0}));
	*(void **)&set = fn;
	if (set(j->x, 0x5a, BYTES, 7, j->s))
		die("the newer function is called with other parameters");
	CU(cuMemcpyDtoHAsync_v2(&byte, j->x, 1, j->s));
	if (byte != 0x5a)
		die("the newer function did something else");
	CU(cuGetProcAddress_v2("cuGraphInstantiate", &fn, 12000, 0, &(int){0}));
	if (fn != (void *)cu.cuGraphInstantiateWithFlags)
		die("a name that has come to mean another function gives neither");
}

static const struct command commands[] = {{"kernels", kernels}, {"old", old}, {"several", several},
	{"streams", streams}, {"composed", composed}, {"captured", captured}, {"updates", updates},
	{"sizes", sizes}, {"clone", cloned}, {"child", child}, {"nested", nested},
	{"device", by_device}, {"bodies", bodies}, {"frees", frees}, {"later", later},
	{"learn", learn}, {"inside", inside}, {"unended", unended}, {"threads", threads},
	{"green", green}, {"default", in_default}, {"another", another}, {"newer", newer},
	{NULL, NULL}};

int main(int argc, char **argv)
{
	return job_main(argc, argv, commands);
}
