/* SPDX-License-Identifier: Apache-2.0 */
/* What streams that share channels of the device must not be kept from: calls in the patterns of a
 * framework for learning, with its allocator, its threads and its streams for copies. */
#include "cuda_guard.h"

#define STREAMS 40
#define URGENT  -5 /* the highest priority of streams */

struct learner {
	struct conform *c;
	struct guard g;
	CUstream main, side;
	CUdeviceptr x, workspace;
	uint32_t *pinned;
	CUevent done;
};

static void learner_open(struct learner *l, struct conform *c, uint32_t seed)
{
	void *p;

	*l = (struct learner){.c = c,
		.main = new_stream(CU_STREAM_NON_BLOCKING),
		.side = new_stream(CU_STREAM_NON_BLOCKING),
		.x = new_words(seed),
		.done = new_event()};
	CU(cuMemAlloc_v2(&l->workspace, BYTES));
	CU(cuMemHostAlloc(&p, BYTES, 0));
	l->pinned = p;
	seed_words(l->pinned, WORDS, seed + 1);
	guard_open(&l->g);
}

static void learner_close(struct learner *l)
{
	note_words(l->c, "x", l->x, l->main);
	guard_close(&l->g);
	CU(cuMemFreeHost(l->pinned));
	free_all((CUdeviceptr[]){l->x, l->workspace}, 2);
	CU(cuEventDestroy_v2(l->done));
	CU(cuStreamDestroy_v2(l->side));
	CU(cuStreamDestroy_v2(l->main));
}

static void forward(struct learner *l, CUstream s, uint32_t i)
{
	CU(cuMemsetD32Async(l->workspace, i, WORDS, s));
	chain(&l->g, s, l->x, i);
	join(l->c, s, l->x, l->x, l->workspace);
	toil(&l->g, s, l->workspace);
}

/* One word, into memory that is not page-locked: the call waits for the stream. */
static uint32_t item(struct learner *l, CUstream s)
{
	uint32_t v;

	CU(cuMemcpyDtoHAsync_v2(&v, l->x, sizeof(v), s));
	CU(cuStreamSynchronize(s));
	return v;
}

static void items(struct conform *c)
{
	struct learner l;

	learner_open(&l, c, 1);
	for (uint32_t i = 0; i < 30; i++) {
		forward(&l, l.main, i);
		if (i % 3 == 0)
			note(c, "item %08x", item(&l, l.main));
	}
	learner_close(&l);
}

/* Memory is kept and given out again when an event says so, and given back at times. */
static void allocator(struct conform *c)
{
	CUdeviceptr block[8] = {0};
	CUevent used[8];
	struct learner l;

	learner_open(&l, c, 2);
	for (unsigned i = 0; i < 8; i++)
		used[i] = new_event();
	for (uint32_t i = 0; i < 48; i++) {
		unsigned n = i % 8;

		if (block[n] && cu.cuEventQuery(used[n]) == FM_CU_ERROR_NOT_READY)
			CU(cuEventSynchronize(used[n]));
		if (!block[n])
			CU(cuMemAlloc_v2(&block[n], BYTES));
		forward(&l, l.main, i);
		CU(cuMemcpyDtoDAsync_v2(block[n], l.x, BYTES, l.main));
		join(c, l.main, l.x, l.x, block[n]);
		CU(cuEventRecord(used[n], l.main));
		if (i % 16 == 7) {
			free_all(block, 8);
			memset(block, 0, sizeof(block));
		}
	}
	free_all(block, 8);
	for (unsigned i = 0; i < 8; i++)
		CU(cuEventDestroy_v2(used[i]));
	learner_close(&l);
}

/* Batches come by a stream of their own, which waits for the one that uses them, and the other way
 * round. */
static void loader(struct conform *c)
{
	CUdeviceptr batch[2] = {new_words(3), new_words(4)};
	struct learner l;

	learner_open(&l, c, 5);
	CU(cuCtxSynchronize());
	for (uint32_t i = 0; i < 30; i++) {
		CU(cuMemcpyHtoDAsync_v2(batch[i & 1], l.pinned, BYTES, l.side));
		mix(c, l.side, batch[i & 1], i);
		order(l.side, l.main);
		join(c, l.main, l.x, l.x, batch[i & 1]);
		forward(&l, l.main, i);
		order(l.main, l.side);
	}
	learner_close(&l);
	free_all(batch, 2);
}

/* The way back is launched by a thread of its own, into the same stream, and joined. */
static void *backward(void *arg)
{
	struct learner *l = arg;

	CU(cuCtxSetCurrent(l->c->ctx));
	for (uint32_t i = 0; i < 6; i++)
		forward(l, l->main, ~i);
	CU(cuEventRecord(l->done, l->main));
	return NULL;
}

static void autograd(struct conform *c)
{
	struct learner l;
	pthread_t t;

	learner_open(&l, c, 6);
	for (uint32_t i = 0; i < 8; i++) {
		for (uint32_t j = 0; j < 6; j++)
			forward(&l, l.main, j);
		if (pthread_create(&t, NULL, backward, &l))
			die("no thread");
		pthread_join(t, NULL);
		CU(cuStreamWaitEvent(l.side, l.done, 0));
		chain(&l.g, l.side, l.x, i);
		order(l.side, l.main);
		note(c, "loss %08x", item(&l, l.main));
	}
	learner_close(&l);
}

/* The legacy stream, to which all that block are ordered. */
static void legacy(struct conform *c)
{
	CUstream s = new_stream(0);
	struct learner l;

	learner_open(&l, c, 7);
	for (uint32_t i = 0; i < 20; i++) {
		chain(&l.g, s, l.x, i);
		forward(&l, FM_CU_STREAM_LEGACY, i);
		if (i % 4 == 0)
			CU(cuMemcpyHtoD_v2(l.workspace, l.pinned, BYTES));
		join(c, s, l.x, l.x, l.workspace);
		if (i % 5 == 0)
			note(c, "item %08x", item(&l, FM_CU_STREAM_LEGACY));
	}
	CU(cuStreamSynchronize(s));
	learner_close(&l);
	CU(cuStreamDestroy_v2(s));
}

/* More streams than there are channels, each with copies, and some of the highest priority. */
static void many_streams(struct conform *c)
{
	CUstream s[STREAMS];
	CUdeviceptr x[STREAMS];
	struct learner l;

	learner_open(&l, c, 8);
	for (unsigned i = 0; i < STREAMS; i++) {
		x[i] = new_words(i);
		CU(cuStreamCreateWithPriority(&s[i], CU_STREAM_NON_BLOCKING, i % 8 ? 0 : URGENT));
	}
	CU(cuCtxSynchronize());
	for (uint32_t round = 0; round < 3; round++) {
		for (unsigned i = 0; i < STREAMS; i++) {
			chain(&l.g, s[i], x[i], i + round);
			CU(cuMemcpyHtoDAsync_v2(x[i], l.pinned + i, 64 * sizeof(uint32_t), s[i]));
			chain(&l.g, s[i], x[i], round);
			if (i)
				order(s[i - 1], s[i]);
			join(c, s[i], x[i], x[i], x[i ? i - 1 : 0]);
			order(s[i], l.main);
		}
		for (unsigned i = 0; i < STREAMS; i++)
			order(l.main, s[i]);
	}
	for (unsigned i = 0; i < STREAMS; i++) {
		note_words(c, "of many", x[i], s[i]);
		CU(cuStreamDestroy_v2(s[i]));
	}
	free_all(x, STREAMS);
	learner_close(&l);
}

/* As many streams, each with kernels alone, of which none waits for those of another: what is gated
 * has kernels behind its gates, in all channels. */
static void kernels_of_many(struct conform *c)
{
	CUstream s[STREAMS];
	CUdeviceptr x[STREAMS];
	struct guard g;

	guard_open(&g);
	for (unsigned i = 0; i < STREAMS; i++) {
		x[i] = new_words(50 + i);
		CU(cuStreamCreateWithPriority(&s[i], CU_STREAM_NON_BLOCKING, i % 8 ? 0 : URGENT));
	}
	CU(cuCtxSynchronize());
	for (uint32_t round = 0; round < 4; round++) {
		for (uint32_t j = 0; j < 3; j++)
			for (unsigned i = 0; i < STREAMS; i++) {
				chain(&g, s[i], x[i], j);
				step(&g, s[i], x[i]);
			}
		for (unsigned i = round; i < STREAMS; i += 7)
			toil(&g, s[i], x[i]);
		CU(cuStreamSynchronize(s[round * 9]));
	}
	for (unsigned i = 0; i < STREAMS; i++) {
		note_words(c, "of many", x[i], s[i]);
		CU(cuStreamDestroy_v2(s[i]));
	}
	free_all(x, STREAMS);
	guard_close(&g);
}

/* --- kernels that are launched for the first time: some by themselves, some in a graph --- */

#define NEW 6 /* libraries for one stream */

struct news {
	CUlibrary from[NEW];
	struct guard g[NEW]; /* their kernels */
	CUstream capture;
	CUdeviceptr arrived;
};

static void kernel(CUfunction *f, CUlibrary l, const char *name)
{
	CU(cuLibraryGetKernel((CUkernel *)f, l, name));
}

static void news_open(struct news *n)
{
	n->capture = new_stream(CU_STREAM_NON_BLOCKING);
	CU(cuMemAlloc_v2(&n->arrived, sizeof(uint32_t)));
	for (unsigned i = 0; i < NEW; i++) {
		CU(cuLibraryLoadData(&n->from[i], guard_cubin, NULL, NULL, 0, NULL, NULL, 0));
		kernel(&n->g[i].step, n->from[i], "step");
		kernel(&n->g[i].chain, n->from[i], "chain");
		kernel(&n->g[i].toil, n->from[i], "toil");
		kernel(&n->g[i].meet, n->from[i], "meet");
	}
}

static void news_close(struct news *n)
{
	CU(cuMemFree_v2(n->arrived));
	CU(cuStreamDestroy_v2(n->capture));
	for (unsigned i = 0; i < NEW; i++)
		CU(cuLibraryUnload(n->from[i]));
}

static void together(struct news *n, struct guard *g, CUstream s, CUdeviceptr x)
{
	uint32_t half = WORDS / 2, steps = 2;

	CU(cuMemsetD32Async(n->arrived, 0, 1, s));
	CU(cuLaunchCooperativeKernel(
		g->meet, 4, 1, 1, BLOCK, 1, 1, 0, s, (void *[]){&x, &half, &steps, &n->arrived}));
}

static void in_a_graph(struct news *n, struct guard *g, CUstream s, CUdeviceptr x)
{
	CUgraphExec exec;
	CUgraph graph;

	CU(cuStreamBeginCapture_v2(n->capture, CU_CAPTURE_THREAD_LOCAL));
	chain(g, n->capture, x, 0);
	step(g, n->capture, x);
	CU(cuStreamEndCapture(n->capture, &graph));
	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CU(cuGraphLaunch(exec, s));
	CU(cuGraphLaunch(exec, s));
	CU(cuGraphExecDestroy(exec));
	CU(cuGraphDestroy(graph));
}

/* Of one library, each behind kernels that have been launched before. */
static void launch_new(struct news *n, unsigned i, struct guard *known, CUstream s, CUdeviceptr x)
{
	struct guard *g = &n->g[i];

	chain(known, s, x, i);
	if (i % 3 == 2) {
		in_a_graph(n, g, s, x);
		return;
	}
	step(g, s, x);
	chain(known, s, x, i + 1);
	chain(g, s, x, i);
	toil(known, s, x);
	toil(g, s, x);
	step(known, s, x);
	together(n, g, s, x);
}

/* In streams that do not wait for each other, but for the legacy one and one that blocks. */
static void new_kernels(struct conform *c)
{
	CUstream s[] = {new_stream(CU_STREAM_NON_BLOCKING), FM_CU_STREAM_LEGACY,
		new_stream(CU_STREAM_NON_BLOCKING), new_stream(0)};
	struct news n[4];
	CUdeviceptr x[4];
	struct guard g;

	guard_open(&g);
	for (unsigned i = 0; i < 4; i++) {
		x[i] = new_words(100 + i);
		news_open(&n[i]);
	}
	CU(cuCtxSynchronize());
	for (unsigned j = 0; j < NEW; j++)
		for (unsigned i = 0; i < 4; i++)
			launch_new(&n[i], j, &g, s[i], x[i]);
	for (unsigned i = 0; i < 4; i++) {
		note_words(c, "x", x[i], s[i]);
		news_close(&n[i]);
	}
	free_all(x, 4);
	for (unsigned i = 0; i < 4; i++)
		if (s[i] != FM_CU_STREAM_LEGACY)
			CU(cuStreamDestroy_v2(s[i]));
	guard_close(&g);
}

static void *launch_new_ones(void *arg)
{
	struct thread *t = arg;
	struct guard loaded;
	struct news n;
	CUstream s;

	CU(cuCtxSetCurrent(t->c->ctx));
	s = new_stream(CU_STREAM_NON_BLOCKING);
	news_open(&n);
	for (unsigned j = 0; j < NEW; j++)
		launch_new(&n, j, t->g, s, t->x);
	guard_open(&loaded); /* behind what is under way */
	step(&loaded, s, t->x);
	chain(&loaded, s, t->x, NEW);
	CU(cuStreamSynchronize(s));
	CU(cuModuleUnload(loaded.module));
	news_close(&n);
	CU(cuStreamDestroy_v2(s));
	return NULL;
}

static void new_kernels_of_threads(struct conform *c)
{
	in_threads(c, 3, launch_new_ones);
}

/* A library outlives the context, and its kernels are loaded anew in the next one of that name. */
static void new_contexts(struct conform *c)
{
	struct news n;

	news_open(&n);
	for (unsigned i = 0; i < NEW; i++) {
		CUstream busy = new_stream(CU_STREAM_NON_BLOCKING),
			 s = new_stream(CU_STREAM_NON_BLOCKING);
		CUdeviceptr x = new_words(110), y = new_words(111);

		toil(&n.g[0], s, y);
		for (unsigned k = 0; k < 80; k++)
			toil(&n.g[0], busy, x);
		usleep(10000);
		step(&n.g[0], s, y);
		chain(&n.g[0], s, y, i);
		note_words(c, "busy", x, busy);
		note_words(c, "first", y, s);
		CU(cuDevicePrimaryCtxReset_v2(c->dev));
		note(c, "released %d", conform_again(c));
	}
	for (unsigned i = 0; i < NEW; i++)
		CU(cuLibraryUnload(n.from[i]));
	conform_load(c);
}

/* As it is told, whatever that is; and what is beyond is the highest. */
static void priorities(struct conform *c)
{
	int least, greatest, got;
	CUstream s;

	CU(cuCtxGetStreamPriorityRange(&least, &greatest));
	note(c, "there is a higher one: %d", greatest < least);
	CU(cuCtxGetStreamPriorityRange(NULL, NULL));
	for (int p = greatest - 3; p <= least; p++) {
		CU(cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, p));
		CU(cuStreamGetPriority(s, &got));
		if (got != (p < greatest ? greatest : p))
			note(c, "asked for %d of %d to %d, got %d", p, least, greatest, got);
		CU(cuStreamDestroy_v2(s));
	}
}

static const struct conform_case cases[] = {
	{"items", items},
	{"allocator", allocator},
	{"loader", loader},
	{"autograd", autograd},
	{"legacy", legacy},
	{"many streams", many_streams},
	{"kernels of many", kernels_of_many},
	{"new kernels", new_kernels},
	{"new kernels of threads", new_kernels_of_threads},
	{"new contexts", new_contexts},
	{"priorities", priorities},
	{NULL, NULL},
};

int main(int argc, char **argv)
{
	return conform_main(argc, argv, cases);
}
