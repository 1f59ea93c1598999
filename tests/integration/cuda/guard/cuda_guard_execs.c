// SPDX-License-Identifier: Apache-2.0
/* Guarded graphs of which the shim may launch another one than the program's: what the program does
 * with its own, and what comes of that. */
#include "../../../fakes/cuda/fake_cuda.h"
#include "cuda_guard_strays.h"

/* A kernel of which the order of others can be told: numbers are not exchangeable. */
static CUgraph numbered(struct guard *g, CUstream s, CUdeviceptr x, uint32_t number)
{
	begin(s);
	for (uint32_t i = 0; i < 4; i++)
		chain(g, s, x, number + i);
	return end(s);
}

static CUgraphNode node_of(CUgraph graph, int type, unsigned nth)
{
	CUgraphNode all[64];
	size_t n = 64;

	CU(cuGraphGetNodes(graph, all, &n));
	for (size_t i = 0; i < n; i++) {
		int is;

		CU(cuGraphNodeGetType(all[i], &is));
		if (is == type && !nth--)
			return all[i];
	}
	die("no such node");
}

static CUgraphNode words_node(CUgraph graph, CUdeviceptr at)
{
	for (unsigned i = 0;; i++) {
		CUgraphNode node = node_of(graph, 12, i);
		struct cu_words_node w = {0};

		CU(cuGraphBatchMemOpNodeGetParams(node, &w));
		if (w.n == 1 && w.op[0].op.address == at)
			return node;
	}
}

static void change_kernel(
	struct guard *g, CUgraphExec exec, CUgraphNode node, CUdeviceptr x, uint32_t number)
{
	uint32_t n = WORDS / 2;
	struct cu_kernel_node k = {.f = g->chain,
		.grid = {16, 1, 1},
		.block = {BLOCK, 1, 1},
		.params = (void *[]){&x, &n, &number}};

	CU(cuGraphExecKernelNodeSetParams_v2(exec, node, &k));
}

enum { COPY = 1, FILL, HOST };

struct mixed {
	CUgraph graph;
	CUgraphNode copy, fill, host, words;
	CUdeviceptr x, y;
	struct witness w[2];
};

static void mixed_open(struct conform *c, struct guard *g, struct mixed *m, CUstream s)
{
	CUdeviceptr at;

	m->x = new_words(40);
	m->y = new_words(41);
	memset(m->w, 0, sizeof(m->w));
	m->w[0].words = m->w[1].words = mapped_words(&at);
	begin(s);
	toil(g, s, m->x);
	chain(g, s, m->x, 1);
	CU(cuMemcpyDtoDAsync_v2(m->y, m->x, BYTES / 2, s));
	chain(g, s, m->y, 2);
	CU(cuMemsetD32Async(m->x + 80, 5, 40, s));
	chain(g, s, m->x, 3);
	CU(cuLaunchHostFunc(s, on_host, &m->w[0]));
	chain(g, s, m->x, 4);
	CU(cuStreamWriteValue32_v2(s, m->y + 8, 6, 0));
	chain(g, s, m->y, 5);
	chain(g, s, m->x, 6);
	m->graph = end(s);
	m->copy = node_of(m->graph, COPY, 0);
	m->fill = node_of(m->graph, FILL, 0);
	m->host = node_of(m->graph, HOST, 0);
	m->words = words_node(m->graph, m->y + 8);
}

/* Nodes that are no kernels, by each of the calls, for launches from then on. */
static void change_other(struct conform *c, struct mixed *m, CUgraphExec exec, int which)
{
	struct cu_copy_3d copy = {.src = {.type = CU_MEMORY_DEVICE, .device = m->x + BYTES / 2},
		.dst = {.type = CU_MEMORY_DEVICE, .device = m->y},
		.width = BYTES / 2,
		.height = 1,
		.depth = 1};
	struct cu_fill_node fill = {m->x, 0, 77, 4, WORDS, 1};
	struct cu_host_node host = {on_host, &m->w[1]};
	union fm_cu_mem_op op = {.op = {FM_CU_OP_WRITE_VALUE_32, m->y + 8, 99, 0, 0}};
	struct cu_words_node words = {c->ctx, 1, &op, 0};

	if (which == 0)
		CU(cuGraphExecMemcpyNodeSetParams(exec, m->copy, &copy, c->ctx));
	if (which == 1)
		CU(cuGraphExecMemsetNodeSetParams(exec, m->fill, &fill, c->ctx));
	if (which == 2)
		CU(cuGraphExecHostNodeSetParams(exec, m->host, &host));
	if (which == 3)
		CU(cuGraphExecBatchMemOpNodeSetParams(exec, m->words, &words));
}

static void other_nodes_changed(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	struct mixed m;
	struct guard g;

	guard_open(&g);
	mixed_open(c, &g, &m, s);
	for (int which = 0; which < 4; which++) {
		CUgraphExec exec = instantiate(m.graph);

		CU(cuGraphLaunch(exec, s));
		change_other(c, &m, exec, which);
		for (int i = 0; i < 2; i++)
			CU(cuGraphLaunch(exec, s));
		note_words(c, "x", m.x, s);
		note_words(c, "y", m.y, s);
		note(c, "%u and %u calls", m.w[0].calls, m.w[1].calls);
		CU(cuGraphExecDestroy(exec));
	}
	CU(cuGraphDestroy(m.graph));
	guard_close(&g);
	CU(cuMemFreeHost((void *)m.w[0].words));
	free_all((CUdeviceptr[]){m.x, m.y}, 2);
	CU(cuStreamDestroy_v2(s));
}

/* --- in which order --- */

/* A launch of a graph that stands behind a wait for a word, its nodes changed, and another launch
 * elsewhere, which has to wait for it. */
struct behind {
	struct guard g;
	CUstream s[2];
	CUdeviceptr x, word_at;
	uint32_t *word;
	CUgraph graph;
	CUgraphExec exec;
	pthread_t lets_go;
};

/* What does not wait has time to be seen. */
static void *let_go(void *arg)
{
	struct behind *b = arg;

	usleep(30000);
	atomic_store((_Atomic uint32_t *)b->word, 1);
	return NULL;
}

static void behind_open(struct behind *b, CUstream first)
{
	guard_open(&b->g);
	b->x = new_words(42);
	b->word = mapped_words(&b->word_at);
	b->s[0] = first ? first : new_stream(CU_STREAM_NON_BLOCKING);
	b->s[1] = new_stream(CU_STREAM_NON_BLOCKING);
	b->graph = numbered(&b->g, b->s[1], b->x, 10);
	b->exec = instantiate(b->graph);
	CU(cuGraphLaunch(b->exec, b->s[1]));
	CU(cuGraphLaunch(b->exec, b->s[0]));
	CU(cuStreamSynchronize(b->s[0]));
	CU(cuStreamWaitValue32_v2(b->s[0], b->word_at, 1, CU_WAIT_GEQ));
	CU(cuGraphLaunch(b->exec, b->s[0]));
	if (pthread_create(&b->lets_go, NULL, let_go, b))
		die("no thread");
}

static void behind_change(struct behind *b)
{
	change_kernel(&b->g, b->exec, node_of(b->graph, 0, 2), b->x, 99);
}

static void behind_close(struct conform *c, struct behind *b)
{
	pthread_join(b->lets_go, NULL);
	CU(cuCtxSynchronize());
	note_words(c, "x", b->x, NULL);
	CU(cuGraphExecDestroy(b->exec));
	CU(cuGraphDestroy(b->graph));
	guard_close(&b->g);
	CU(cuMemFreeHost(b->word));
	CU(cuMemFree_v2(b->x));
	CU(cuStreamDestroy_v2(b->s[1]));
}

static void behind_another(struct conform *c)
{
	struct behind b;

	behind_open(&b, NULL);
	behind_change(&b);
	CU(cuGraphLaunch(b.exec, b.s[1]));
	behind_close(c, &b);
	CU(cuStreamDestroy_v2(b.s[0]));
}

static void behind_one_destroyed(struct conform *c)
{
	struct behind b;

	behind_open(&b, NULL);
	CU(cuStreamDestroy_v2(b.s[0]));
	behind_change(&b);
	CU(cuGraphLaunch(b.exec, b.s[1]));
	behind_close(c, &b);
}

/* It goes on being captured, and nothing else becomes a part of that. */
static void behind_one_captured(struct conform *c)
{
	CUgraphExec captured;
	struct behind b;
	CUgraph graph;

	behind_open(&b, NULL);
	begin(b.s[0]);
	chain(&b.g, b.s[0], b.x, 1);
	behind_change(&b);
	CU(cuGraphLaunch(b.exec, b.s[1]));
	chain(&b.g, b.s[0], b.x, 2);
	graph = end(b.s[0]);
	CU(cuStreamSynchronize(b.s[1]));
	captured = instantiate(graph);
	CU(cuGraphLaunch(captured, b.s[1]));
	CU(cuStreamSynchronize(b.s[1]));
	CU(cuGraphExecDestroy(captured));
	CU(cuGraphDestroy(graph));
	behind_close(c, &b);
	CU(cuStreamDestroy_v2(b.s[0]));
}

static void *launch_there(void *arg)
{
	struct behind *b = arg;
	CUcontext ctx;

	CU(cuStreamGetCtx(b->s[1], &ctx));
	CU(cuCtxSetCurrent(ctx));
	CU(cuGraphLaunch(b->exec, FM_CU_STREAM_PER_THREAD));
	return NULL;
}

/* The default streams of two threads have the same name. */
static void behind_a_threads(struct conform *c)
{
	struct behind b;
	pthread_t t;

	behind_open(&b, FM_CU_STREAM_PER_THREAD);
	behind_change(&b);
	if (pthread_create(&t, NULL, launch_there, &b))
		die("no thread");
	pthread_join(t, NULL);
	behind_close(c, &b);
}

static void behind_the_legacy(struct conform *c)
{
	struct behind b;

	behind_open(&b, FM_CU_STREAM_LEGACY);
	behind_change(&b);
	CU(cuGraphLaunch(b.exec, b.s[1]));
	behind_close(c, &b);
}

/* While another context is current than the streams'. */
static void in_another_context(struct conform *c)
{
	struct behind b;
	CUcontext other, was;

	behind_open(&b, NULL);
	behind_change(&b);
	CU(cuCtxCreate_v2(&other, 0, c->dev));
	CU(cuGraphLaunch(b.exec, b.s[1]));
	CU(cuCtxPopCurrent_v2(&was));
	behind_close(c, &b);
	CU(cuStreamDestroy_v2(b.s[0]));
	CU(cuCtxDestroy_v2(other));
}

/* Where the driver takes that: another graph has it as a part. */
static void captured_elsewhere(struct conform *c)
{
	fm_cu_result launched, ended;
	CUgraph graph = NULL;
	struct behind b;
	CUgraphExec outer;

	behind_open(&b, NULL);
	note(c, "no stream: %d", cu.cuStreamDestroy_v2(NULL));
	behind_change(&b);
	begin(b.s[1]);
	launched = cu.cuGraphLaunch(b.exec, b.s[1]);
	ended = cu.cuStreamEndCapture(b.s[1], &graph);
	note(c, "captured %d, ended %d", launched, ended);
	CU(cuStreamSynchronize(b.s[0]));
	if (!launched && !ended) {
		outer = instantiate(graph);
		CU(cuGraphLaunch(outer, b.s[0]));
		CU(cuGraphExecDestroy(outer));
		CU(cuGraphDestroy(graph));
	}
	behind_close(c, &b);
	CU(cuStreamDestroy_v2(b.s[0]));
}

/* With all that was put behind its launches; the graphs are given back after. */
static void context_ends(struct conform *c)
{
	CUcontext other, was;
	CUgraphExec exec;
	CUgraph graph;
	struct guard g;
	CUdeviceptr x;
	CUstream s;

	for (int i = 0; i < 3; i++) {
		CU(cuCtxCreate_v2(&other, 0, c->dev));
		guard_open(&g);
		x = new_words(44);
		s = new_stream(CU_STREAM_NON_BLOCKING);
		graph = numbered(&g, s, x, 20);
		exec = instantiate(graph);
		CU(cuGraphLaunch(exec, s));
		change_kernel(&g, exec, node_of(graph, 0, 1), x, 50);
		if (i == 1)
			CU(cuStreamDestroy_v2(s));
		CU(cuCtxSynchronize());
		note_words(c, "x", x, NULL);
		CU(cuCtxPopCurrent_v2(&was));
		CU(cuCtxDestroy_v2(other));
		note(c, "%d", cu.cuGraphExecDestroy(exec));
		CU(cuGraphDestroy(graph));
	}
}

static struct {
	CUcontext ctx;
	pthread_t thread;
	bool begun;
	_Atomic bool gone;
} ending;

static void *end_context(void *unused)
{
	CU(cuCtxDestroy_v2(ending.ctx));
	ending.gone = true;
	return NULL;
}

/* In the middle of a call, which would take so long if the context did not end. */
static void begin_to_end(void)
{
	if (pthread_create(&ending.thread, NULL, end_context, NULL))
		die("no thread");
	ending.begun = true;
	for (int i = 0; i < 300 && !ending.gone; i++)
		usleep(1000);
}

/* By another thread, while this one begins a capture elsewhere. */
static void context_ends_beside(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x, y = new_words(53);
	CUgraph graph, captured;
	fake_cuda_at_fn *at;
	CUcontext was;
	struct guard g;

	*(void **)&at = dlsym(driver_handle(), "fake_cuda_at");
	mix(c, s, y, 1);
	memset(&ending, 0, sizeof(ending));
	CU(cuCtxCreate_v2(&ending.ctx, 0, c->dev));
	guard_open(&g);
	x = new_words(54);
	graph = numbered(&g, new_stream(CU_STREAM_NON_BLOCKING), x, 20);
	CU(cuGraphLaunch(instantiate(graph), FM_CU_STREAM_LEGACY));
	CU(cuCtxSynchronize());
	note_words(c, "x", x, NULL);
	CU(cuCtxPopCurrent_v2(&was));
	if (at)
		at("cuCtxPushCurrent", begin_to_end);
	begin(s);
	if (at)
		at("", NULL);
	mix(c, s, y, 2);
	captured = end(s);
	if (!ending.begun)
		begin_to_end();
	pthread_join(ending.thread, NULL);
	CU(cuGraphLaunch(instantiate(captured), s));
	note_words(c, "y", y, s);
	CU(cuGraphDestroy(graph));
	CU(cuGraphDestroy(captured));
	CU(cuMemFree_v2(y));
	CU(cuStreamDestroy_v2(s));
}

/* Kernels with data of their own that may overlap: their edges say so, and it is as natively. */
static void overlap(struct conform *c)
{
	struct cu_launch_attribute early = {
		.id = CU_LAUNCH_SERIALIZATION, .value.serialization = 1};
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	uint32_t n = WORDS / 16, number = 3;
	CUdeviceptr x = new_words(45);
	CUgraphExec exec;
	struct guard g;

	guard_open(&g);
	launches_apart(1);
	begin(s);
	for (unsigned i = 0; i < 8; i++) {
		CUdeviceptr part = x + i * 2 * n * sizeof(n);
		struct cu_launch_config config = {.grid = {16, 1, 1},
			.block = {BLOCK, 1, 1},
			.stream = s,
			.attrs = &early,
			.attr_count = 1};

		CU(cuLaunchKernelEx(&config, g.chain, (void *[]){&part, &n, &number}, NULL));
	}
	exec = instantiate(end(s));
	launches_apart(0);
	for (unsigned i = 0; i < 5; i++)
		CU(cuGraphLaunch(exec, s));
	note_words(c, "x", x, s);
	CU(cuGraphExecDestroy(exec));
	guard_close(&g);
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

/* An upload is put behind launches in other streams. */
static void uploaded(struct conform *c)
{
	struct behind b;

	behind_open(&b, NULL);
	CU(cuGraphUpload(b.exec, b.s[1]));
	chain(&b.g, b.s[1], b.x, 7);
	behind_close(c, &b);
	CU(cuStreamDestroy_v2(b.s[0]));
}

/* Without a change between: also where the driver refuses a launch of ours. */
static void refused_once(struct conform *c)
{
	struct behind b;

	behind_open(&b, NULL);
	CU(cuGraphLaunch(b.exec, b.s[1]));
	CU(cuGraphLaunch(b.exec, b.s[1]));
	behind_close(c, &b);
	CU(cuStreamDestroy_v2(b.s[0]));
}

/* Four launches of each graph; with one that is refused, and made otherwise, there are five calls.
 */
static void refused_often(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(43);
	CUgraph graph;
	struct guard g;

	guard_open(&g);
	begin(s);
	toil(&g, s, x);
	step(&g, s, x);
	chain(&g, s, x, 1);
	CU(cuLaunchCooperativeKernel(g.step, 100, 1, 1, 32, 1, 1, 0, s, (void *[]){&x}));
	graph = end(s);
	for (int i = 0; i < 20; i++) {
		CUgraphExec exec = instantiate(graph);

		for (int k = 0; k < 4; k++) {
			CU(cuGraphLaunch(exec, s));
			toil(&g, s, x);
		}
		CU(cuGraphExecDestroy(exec));
	}
	note_words(c, "x", x, s);
	CU(cuGraphDestroy(graph));
	guard_close(&g);
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

/* Launched again, in another stream, by the thread that its first launch waits for. */
static void awaits_its_thread(struct conform *c)
{
	CUdeviceptr x = new_words(52), at;
	volatile uint32_t *word = (volatile uint32_t *)mapped_words(&at);
	CUgraphExec exec;
	CUstream s[2];
	CUgraph graph;
	struct guard g;

	guard_open(&g);
	for (int i = 0; i < 2; i++)
		s[i] = new_stream(CU_STREAM_NON_BLOCKING);
	begin(s[0]);
	for (uint32_t i = 0; i < 6; i++) {
		if (i == 3)
			CU(cuStreamWaitValue32_v2(s[0], at, 1, 0));
		chain(&g, s[0], x, i);
	}
	graph = end(s[0]);
	exec = instantiate(graph);
	for (int i = 0; i < 3; i++) {
		*word = 0;
		CU(cuGraphLaunch(exec, s[0]));
		CU(cuGraphLaunch(exec, s[1]));
		*word = 1;
		CU(cuStreamSynchronize(s[1]));
	}
	note_words(c, "x", x, s[0]);
	CU(cuGraphExecDestroy(exec));
	CU(cuGraphDestroy(graph));
	guard_close(&g);
	CU(cuMemFree_v2(x));
	for (int i = 0; i < 2; i++)
		CU(cuStreamDestroy_v2(s[i]));
}

int main(int argc, char **argv)
{
	static const struct conform_case cases[] = {
		{"other nodes changed", other_nodes_changed},
		{"behind another", behind_another},
		{"behind one destroyed", behind_one_destroyed},
		{"behind one captured", behind_one_captured},
		{"behind a thread's", behind_a_threads},
		{"behind the legacy", behind_the_legacy},
		{"in another context", in_another_context},
		{"captured elsewhere", captured_elsewhere},
		{"context ends", context_ends},
		{"context ends beside", context_ends_beside},
		{"uploaded", uploaded},
		{"overlap", overlap},
		{"awaits its thread", awaits_its_thread},
		{"destroyed under way", destroyed_under_way},
		{"beside a capture", beside_a_capture},
		{"strayed, captured", strayed_captured},
		{"strayed, context ends", strayed_context_ends},
		{"refused once", refused_once},
		{"refused often", refused_often},
		{NULL, NULL},
	};

	return conform_main(argc, argv, cases);
}
