/* SPDX-License-Identifier: Apache-2.0 */
/* Streams captured into graphs, and graphs launched among other work. */
#include "cuda_conform.h"

static CUgraphExec instantiate(CUgraph graph)
{
	CUgraphExec exec;

	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CU(cuGraphDestroy(graph));
	return exec;
}

static CUgraphExec end_capture(CUstream s)
{
	CUgraph graph;

	CU(cuStreamEndCapture(s, &graph));
	return instantiate(graph);
}

static void chain(struct conform *c, CUstream s, CUdeviceptr x)
{
	for (uint32_t i = 0; i < 10; i++)
		mix(c, s, x, i);
}

/* The same work launched, and captured and replayed, gives the same. */
static void linear(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(1), y = new_words(1);
	CUgraphExec exec;

	for (int i = 0; i < 50; i++)
		chain(c, s, x);
	CU(cuStreamBeginCapture_v2(s, CU_CAPTURE_GLOBAL));
	chain(c, s, y);
	exec = end_capture(s);
	note_words(c, "captured alone changes nothing", y, s);
	for (int i = 0; i < 50; i++)
		CU(cuGraphLaunch(exec, s));
	note_words(c, "launched", x, s);
	note_words(c, "replayed", y, s);
	CU(cuGraphExecDestroy(exec));
	free_all((CUdeviceptr[]){x, y}, 2);
	CU(cuStreamDestroy_v2(s));
}

/* Two more streams fork off the one that is captured, and join it again. */
static void diamond(struct conform *c, CUstream *s, CUdeviceptr *d)
{
	for (uint32_t i = 0; i < 4; i++) {
		mix(c, s[0], d[0], i);
		order(s[0], s[1]);
		order(s[0], s[2]);
		mix(c, s[1], d[1], i);
		join(c, s[2], d[2], d[0], d[2]);
		order(s[1], s[0]);
		order(s[2], s[0]);
		join(c, s[0], d[0], d[1], d[2]);
	}
}

static void fork_join(struct conform *c)
{
	CUdeviceptr d[3] = {new_words(2), new_words(3), new_words(4)};
	CUstream s[3];
	CUgraphExec exec;
	CUgraph graph;
	size_t n = 0;

	for (int i = 0; i < 3; i++)
		s[i] = new_stream(CU_STREAM_NON_BLOCKING);
	diamond(c, s, d);
	note_words(c, "launched", d[0], s[0]);
	CU(cuStreamBeginCapture_v2(s[0], CU_CAPTURE_THREAD_LOCAL));
	diamond(c, s, d);
	CU(cuStreamEndCapture(s[0], &graph));
	CU(cuGraphGetNodes(graph, NULL, &n));
	note(c, "%s",
		n >= 16 ? "all nodes are there" : "nodes are missing"); /* gates are nodes, too */
	CU(cuGraphInstantiate_v2(&exec, graph, NULL, NULL, 0));
	CU(cuGraphDestroy(graph));
	CU(cuGraphUpload(exec, s[0]));
	for (uint32_t i = 0; i < 30; i++) {
		CU(cuGraphLaunch(exec, s[i % 3]));
		mix(c, s[i % 3], d[1], i);
		order(s[i % 3], s[(i + 1) % 3]);
	}
	for (int i = 0; i < 3; i++)
		note_words(c, "after 30 replays", d[i], s[0]);
	CU(cuGraphExecDestroy(exec));
	free_all(d, 3);
	for (int i = 0; i < 3; i++)
		CU(cuStreamDestroy_v2(s[i]));
}

/* Long enough for gates, on each of the three streams. */
static void long_diamond(struct conform *c, CUstream *s, CUdeviceptr *d)
{
	for (int i = 0; i < 3; i++) {
		spin(c, s[0], d[0], 300000);
		diamond(c, s, d);
		order(s[0], s[2]);
		spin(c, s[2], d[2], 300000);
		order(s[2], s[0]);
	}
}

/* One that the device itself could launch: only such nodes are in it. Its order is the same. */
static void by_the_device(struct conform *c)
{
	CUdeviceptr d[3] = {new_words(7), new_words(8), new_words(9)};
	CUstream s[3];
	CUgraphExec exec;
	CUgraph graph;

	for (int i = 0; i < 3; i++)
		s[i] = new_stream(CU_STREAM_NON_BLOCKING);
	for (int i = 0; i < 4; i++) {
		spin(c, s[0], d[0], 300000);
		CU(cuStreamSynchronize(s[0]));
	}
	long_diamond(c, s, d);
	CU(cuStreamBeginCapture_v2(s[0], CU_CAPTURE_THREAD_LOCAL));
	long_diamond(c, s, d);
	CU(cuStreamEndCapture(s[0], &graph));
	note(c, "instantiated %d", cu.cuGraphInstantiateWithFlags(&exec, graph, 4));
	CU(cuGraphDestroy(graph));
	for (int i = 0; i < 3; i++)
		CU(cuGraphLaunch(exec, s[0]));
	CU(cuStreamSynchronize(s[0]));
	for (int i = 0; i < 3; i++)
		note_words(c, "after 3 replays", d[i], s[0]);
	CU(cuGraphExecDestroy(exec));
	free_all(d, 3);
	for (int i = 0; i < 3; i++)
		CU(cuStreamDestroy_v2(s[i]));
}

struct tally {
	const uint32_t *seen;
	uint32_t calls, sum;
};

static void on_host(void *arg)
{
	struct tally *t = arg;

	t->sum = t->sum * 31 + t->seen[t->calls++ % WORDS];
}

/* Copies, fills and host functions as nodes; words that the stream waits for around the launch. */
static void all_nodes(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(5), y = new_words(6), word;
	struct tally t = {0};
	CUgraphExec exec;
	void *pinned;

	CU(cuMemHostAlloc(&pinned, BYTES, 2));
	CU(cuMemHostGetDevicePointer_v2(&word, pinned, 0));
	t.seen = pinned;
	CU(cuStreamBeginCapture_v2(s, CU_CAPTURE_GLOBAL));
	mix(c, s, x, 1);
	CU(cuMemcpyDtoDAsync_v2(y, x, BYTES / 2, s));
	CU(cuMemsetD32Async(x, 9, 100, s));
	CU(cuMemcpyDtoHAsync_v2(pinned, y, BYTES, s));
	CU(cuLaunchHostFunc(s, on_host, &t));
	mix(c, s, y, 2);
	CU(cuMemcpyHtoDAsync_v2(x + BYTES / 2, pinned, BYTES / 2, s));
	exec = end_capture(s);
	for (uint32_t i = 0; i < 20; i++) {
		mix(c, s, x, i);
		CU(cuGraphLaunch(exec, s));
		CU(cuStreamWriteValue32_v2(s, word, i, 0));
		CU(cuStreamWaitValue32_v2(s, word, i, CU_WAIT_EQ));
	}
	CU(cuGraphExecDestroy(exec)); /* while it runs */
	CU(cuStreamSynchronize(s));
	note(c, "%u calls saw %u", t.calls, t.sum);
	note_words(c, "x", x, s);
	note_words(c, "y", y, s);
	CU(cuMemFreeHost(pinned));
	free_all((CUdeviceptr[]){x, y}, 2);
	CU(cuStreamDestroy_v2(s));
}

/* One graph in the legacy stream, in a blocking one, in the thread's own: never twice at once. */
static void many_streams(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING), t = new_stream(0);
	CUstream where[4] = {s, t, FM_CU_STREAM_LEGACY, FM_CU_STREAM_PER_THREAD};
	CUdeviceptr x = new_words(7);
	CUgraphExec exec;

	CU(cuStreamBeginCapture_v2(s, CU_CAPTURE_RELAXED));
	chain(c, s, x);
	exec = end_capture(s);
	for (int i = 0; i < 40; i++)
		CU(cuGraphLaunch(exec, where[i & 3]));
	CU(cuCtxSynchronize());
	note_words(c, "x", x, s);
	CU(cuGraphExecDestroy(exec));
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
	CU(cuStreamDestroy_v2(t));
}

/* What a stream is told of its capture. */
static void info(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING), t = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(8), y = new_words(9);
	int in = -1, out = -1;
	uint64_t id[2] = {0};
	size_t n = 0;
	CUgraphExec exec;

	CU(cuStreamIsCapturing(s, &out));
	note(c, "before %d", out);
	CU(cuStreamBeginCapture_v2(s, CU_CAPTURE_THREAD_LOCAL));
	note(c, "twice %d", cu.cuStreamBeginCapture_v2(s, CU_CAPTURE_THREAD_LOCAL));
	mix(c, s, x, 1);
	mix(c, t, y, 2); /* goes on as ever */
	CU(cuStreamIsCapturing(t, &out));
	CU(cuStreamGetCaptureInfo_v2(s, &in, &id[0], NULL, NULL, &n));
	note(c, "captured %d, with %zu ends; beside it %d", in, n, out);
	order(s, t);
	mix(c, t, y, 3); /* part of the capture */
	CU(cuStreamGetCaptureInfo_v2(t, &in, &id[1], NULL, NULL, &n));
	note(c, "joined %d, the same: %s", in, id[0] == id[1] ? "yes" : "no");
	order(t, s);
	exec = end_capture(s);
	CU(cuStreamIsCapturing(t, &out));
	note(c, "after %d", out);
	note_words(c, "not launched", x, s);
	note_words(c, "launched beside", y, t);
	CU(cuGraphLaunch(exec, t));
	note_words(c, "launched", x, t);
	note_words(c, "launched", y, t);
	CU(cuGraphExecDestroy(exec));
	free_all((CUdeviceptr[]){x, y}, 2);
	CU(cuStreamDestroy_v2(s));
	CU(cuStreamDestroy_v2(t));
}

/* What a capture forbids, and what becomes of the capture. */
static void note_end(struct conform *c, const char *what, fm_cu_result rc, CUstream s)
{
	CUgraph graph = NULL;
	fm_cu_result end = cu.cuStreamEndCapture(s, &graph);

	note(c, "%s %d, the end %d", what, rc, end);
	if (!end && graph)
		CU(cuGraphDestroy(graph));
}

static void forbidden(struct conform *c)
{
	CUstream s = new_stream(0), t = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(10), y;
	uint32_t n = WORDS, number = 1, rounds = 1;
	void *params[] = {&x, &n, &number, &rounds};
	CUevent e = new_event();

	CU(cuEventRecord(e, t));
	CU(cuCtxSynchronize());
	CU(cuStreamBeginCapture_v2(s, CU_CAPTURE_GLOBAL));
	note_end(c, "query of the stream", cu.cuStreamQuery(s), s);
	CU(cuStreamBeginCapture_v2(s, CU_CAPTURE_GLOBAL));
	note_end(c, "wait for the stream", cu.cuStreamSynchronize(s), s);
	CU(cuStreamBeginCapture_v2(s, CU_CAPTURE_GLOBAL));
	note_end(c, "query of an event", cu.cuEventQuery(e), s);
	CU(cuStreamBeginCapture_v2(s, CU_CAPTURE_RELAXED));
	note_end(c, "the same, relaxed", cu.cuEventQuery(e), s);
	CU(cuStreamBeginCapture_v2(s, CU_CAPTURE_GLOBAL));
	note_end(c, "allocation", cu.cuMemAlloc_v2(&y, 4096), s);
	CU(cuStreamBeginCapture_v2(s, CU_CAPTURE_GLOBAL));
	note_end(c, "query of the legacy stream", cu.cuStreamQuery(FM_CU_STREAM_LEGACY), s);
	CU(cuStreamBeginCapture_v2(s, CU_CAPTURE_RELAXED));
	note_end(c, "legacy stream",
		cu.cuLaunchKernel(c->mix, 1, 1, 1, 1, 1, 1, 0, FM_CU_STREAM_LEGACY, params, NULL),
		s);
	CU(cuStreamBeginCapture_v2(s, CU_CAPTURE_RELAXED));
	note_end(c, "launch without a grid",
		cu.cuLaunchKernel(c->mix, 0, 1, 1, 1, 1, 1, 0, s, params, NULL), s);
	CU(cuStreamBeginCapture_v2(s, CU_CAPTURE_RELAXED));
	CU(cuEventRecord(e, s));
	CU(cuStreamWaitEvent(t, e, 0));
	mix(c, t, x, 5);
	note_end(c, "never joined", 0, s);
	note(c, "legacy stream itself %d",
		cu.cuStreamBeginCapture_v2(FM_CU_STREAM_LEGACY, CU_CAPTURE_RELAXED));
	mix(c, s, x, 1);
	note_words(c, "still works", x, s);
	CU(cuEventDestroy_v2(e));
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
	CU(cuStreamDestroy_v2(t));
}

struct beside {
	struct conform *c;
	CUstream s;
	CUdeviceptr x;
	_Atomic bool stop;
	uint32_t done;
};

/* Works on while another thread captures: launches, records, and nothing that captures forbid. */
static void *beside_main(void *arg)
{
	struct beside *b = arg;
	CUevent e;

	CU(cuCtxSetCurrent(b->c->ctx));
	CU(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
	while (!atomic_load(&b->stop) || b->done < 100) {
		mix(b->c, b->s, b->x, b->done++);
		CU(cuEventRecord(e, b->s));
		CU(cuStreamWaitEvent(b->s, e, 0));
		if (b->done % 50 == 0)
			usleep(500);
	}
	CU(cuEventDestroy_v2(e));
	return NULL;
}

/* The digest of x after as many kernels as the thread made, by the same kernels once more. */
static void note_beside(struct conform *c, struct beside *b)
{
	CUdeviceptr again = new_words(11);
	uint32_t got[WORDS], expected[WORDS];

	for (uint32_t i = 0; i < b->done; i++)
		mix(c, b->s, again, i);
	CU(cuMemcpyDtoHAsync_v2(expected, again, BYTES, b->s));
	CU(cuMemcpyDtoHAsync_v2(got, b->x, BYTES, b->s));
	note(c, "beside the captures: %s", memcmp(got, expected, BYTES) ? "wrong" : "right");
	CU(cuMemFree_v2(again));
}

static void captures_beside_work(struct conform *c)
{
	struct beside b = {.c = c, .s = new_stream(CU_STREAM_NON_BLOCKING), .x = new_words(11)};
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(12);
	pthread_t id;

	if (pthread_create(&id, NULL, beside_main, &b))
		die("no thread");
	for (int i = 0; i < 20; i++) {
		CUgraphExec exec;

		CU(cuStreamBeginCapture_v2(s, i % 3));
		chain(c, s, x);
		exec = end_capture(s);
		CU(cuGraphLaunch(exec, s));
		CU(cuGraphExecDestroy(exec));
	}
	atomic_store(&b.stop, true);
	pthread_join(id, NULL);
	note_words(c, "x", x, s);
	note_beside(c, &b);
	free_all((CUdeviceptr[]){x, b.x}, 2);
	CU(cuStreamDestroy_v2(s));
	CU(cuStreamDestroy_v2(b.s));
}

/* A stream whose very first work is captured, and a thread's own default stream. */
static void first_of_all(struct conform *c)
{
	CUdeviceptr x = new_words(13);

	for (int i = 0; i < 10; i++) {
		CUstream s = i & 1 ? FM_CU_STREAM_PER_THREAD : new_stream(CU_STREAM_NON_BLOCKING);
		CUgraphExec exec;

		CU(cuStreamBeginCapture_v2(s, CU_CAPTURE_GLOBAL));
		chain(c, s, x);
		exec = end_capture(s);
		CU(cuGraphLaunch(exec, s));
		note_words(c, "x", x, s);
		CU(cuGraphExecDestroy(exec));
		if (!(i & 1))
			CU(cuStreamDestroy_v2(s));
	}
	CU(cuMemFree_v2(x));
}

/* An event that each launch of the graph records. */
static void external_event(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING), t = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(14);
	CUevent e = new_event();
	CUgraphExec exec;

	CU(cuStreamBeginCapture_v2(s, CU_CAPTURE_GLOBAL));
	mix(c, s, x, 1);
	CU(cuEventRecordWithFlags(e, s, CU_EVENT_EXTERNAL));
	exec = end_capture(s);
	for (uint32_t i = 0; i < 20; i++) {
		CU(cuGraphLaunch(exec, s));
		CU(cuStreamWaitEvent(t, e, 0));
		mix(c, t, x, i);
		order(t, s);
	}
	CU(cuEventSynchronize(e));
	note(c, "recorded %d", cu.cuEventQuery(e));
	note_words(c, "x", x, t);
	CU(cuGraphExecDestroy(exec));
	CU(cuEventDestroy_v2(e));
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
	CU(cuStreamDestroy_v2(t));
}

/* Ten kernels, one after the other. */
static CUgraph by_node(struct conform *c, CUdeviceptr x, uint32_t first)
{
	uint32_t n = WORDS, number, rounds = 40;
	struct cu_kernel_node kernel = {.f = c->mix,
		.grid = {GRID, 1, 1},
		.block = {BLOCK, 1, 1},
		.params = (void *[]){&x, &n, &number, &rounds}};
	CUgraphNode node = NULL, last;
	CUgraph graph;

	CU(cuGraphCreate(&graph, 0));
	for (number = first; number < first + 10; number++) {
		last = node;
		CU(cuGraphAddKernelNode_v2(&node, graph, &last, last != NULL, &kernel));
	}
	return graph;
}

static void composed(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(15);
	CUgraph graph = by_node(c, x, 0), other = by_node(c, x, 100), clone;
	struct cu_instantiate how = {0};
	struct cu_update result;
	CUgraphExec exec[3];

	CU(cuGraphClone(&clone, graph));
	CU(cuGraphInstantiateWithFlags(&exec[0], graph, 0));
	CU(cuGraphInstantiate_v2(&exec[1], clone, NULL, NULL, 0));
	CU(cuGraphInstantiateWithParams(&exec[2], clone, &how));
	for (int i = 0; i < 30; i++) {
		CU(cuGraphLaunch(exec[i % 3], s));
		if (i == 15)
			CU(cuGraphExecUpdate_v2(exec[0], other, &result));
	}
	note_words(c, "launched", x, s);
	for (int i = 0; i < 3; i++)
		CU(cuGraphExecDestroy(exec[i]));
	CU(cuGraphDestroy(graph));
	CU(cuGraphDestroy(clone));
	CU(cuGraphDestroy(other));
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

/* A graph as a node of another, and a capture into one that is there. */
static void graphs_in_graphs(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(16);
	CUgraph child = by_node(c, x, 0), graph, captured, twice;
	CUgraphExec outer;
	CUgraphNode node, second;

	CU(cuGraphCreate(&graph, 0));
	CU(cuGraphAddChildGraphNode(&node, graph, NULL, 0, child));
	CU(cuGraphDestroy(child));
	CU(cuStreamBeginCaptureToGraph(s, graph, &node, NULL, 1, CU_CAPTURE_RELAXED));
	chain(c, s, x);
	CU(cuStreamEndCapture(s, &captured));
	note(c, "the same graph: %s", captured == graph ? "yes" : "no");
	CU(cuGraphCreate(&twice, 0));
	CU(cuGraphAddChildGraphNode(&node, twice, NULL, 0, graph));
	CU(cuGraphAddChildGraphNode(&second, twice, &node, 1, graph));
	CU(cuGraphDestroy(graph));
	outer = instantiate(twice);
	for (int i = 0; i < 20; i++)
		CU(cuGraphLaunch(outer, s));
	note_words(c, "launched", x, s);
	CU(cuGraphExecDestroy(outer));
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

/* A launch of a graph that is captured: drivers refuse it, or make a node of it. */
static void launches_captured(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(18);
	CUgraphExec inner = instantiate(by_node(c, x, 0)), outer;
	CUgraph graph = NULL;
	fm_cu_result launched, ended;

	CU(cuStreamBeginCapture_v2(s, CU_CAPTURE_GLOBAL));
	mix(c, s, x, 1);
	launched = cu.cuGraphLaunch(inner, s);
	if (!launched)
		mix(c, s, x, 2);
	ended = cu.cuStreamEndCapture(s, &graph);
	note(c, "captured %d, ended %d", launched, ended);
	if (!launched && !ended) {
		outer = instantiate(graph);
		for (int i = 0; i < 20; i++)
			CU(cuGraphLaunch(outer, s));
		CU(cuGraphExecDestroy(outer));
	}
	CU(cuGraphLaunch(inner, s));
	note_words(c, "launched", x, s);
	CU(cuGraphExecDestroy(inner));
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

int main(int argc, char **argv)
{
	static const struct conform_case cases[] = {
		{"linear", linear},
		{"fork join", fork_join},
		{"by the device", by_the_device},
		{"all nodes", all_nodes},
		{"many streams", many_streams},
		{"info", info},
		{"forbidden", forbidden},
		{"captures beside work", captures_beside_work},
		{"first of all", first_of_all},
		{"external event", external_event},
		{"composed", composed},
		{"graphs in graphs", graphs_in_graphs},
		{"launches captured", launches_captured},
		{NULL, NULL},
	};

	return conform_main(argc, argv, cases);
}
