/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of one program that do everything at once, each with data of its own: streams, graphs,
 * contexts, modules and threads come and go with work under way. What becomes of the data depends
 * on the seed alone. It prints "ready", begins with the first line of stdin, and prints the
 * digests.
 *
 * usage: SEED THREADS STEPS [STEP...]
 */
#define CUDA_NO_LINK
#include "../integration/cuda/cuda_conform.h"
#include <signal.h>
#include <sys/prctl.h>

static struct conform all;

struct life {
	pthread_t thread;
	struct conform c;
	uint64_t seed, hash;
	CUstream s, t;
	CUdeviceptr x;
	uint32_t n;
};

static uint32_t draw(struct life *l, uint32_t below)
{
	l->seed = l->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(l->seed >> 33) % below;
}

static void work(struct life *l, CUstream s, unsigned n)
{
	while (n--)
		mix(&l->c, s, l->x, l->n++);
}

static void fold(struct life *l, CUdeviceptr x, CUstream s)
{
	uint32_t words[WORDS];

	CU(cuMemcpyDtoHAsync_v2(words, x, BYTES, s));
	CU(cuStreamSynchronize(s));
	l->hash = l->hash * 31 + digest(words, BYTES);
}

static void launches(struct life *l)
{
	work(l, l->s, 1 + draw(l, 40));
}

static void streams(struct life *l)
{
	CUstream t = new_stream(draw(l, 2));

	order(l->s, t);
	work(l, t, 1 + draw(l, 9));
	order(t, l->s);
	CU(cuStreamDestroy_v2(t));
}

static CUgraph capture(struct life *l, unsigned n)
{
	CUgraph graph;

	CU(cuStreamBeginCapture_v2(l->s, CU_CAPTURE_THREAD_LOCAL));
	work(l, l->s, n);
	CU(cuStreamEndCapture(l->s, &graph));
	return graph;
}

static void graphs(struct life *l)
{
	unsigned n = 1 + draw(l, 30), launches = draw(l, 4);
	CUgraph graph = capture(l, n), other = capture(l, n);
	struct cu_update u = {0};
	CUgraphExec exec;

	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (unsigned i = 0; i < launches; i++) {
		CU(cuGraphLaunch(exec, draw(l, 2) ? l->s : l->t));
		order(l->t, l->s);
		order(l->s, l->t);
	}
	CU(cuGraphExecUpdate_v2(exec, other, &u));
	CU(cuGraphLaunch(exec, l->s));
	if (draw(l, 2))
		CU(cuStreamSynchronize(l->s));
	CU(cuGraphExecDestroy(exec));
	CU(cuGraphDestroy(graph));
	CU(cuGraphDestroy(other));
	order(l->s, l->t);
}

static void graph_of_thread(struct life *l)
{
	CUgraph graph = capture(l, 1 + draw(l, 9));
	CUgraphExec exec;

	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	order(l->s, FM_CU_STREAM_PER_THREAD);
	CU(cuGraphLaunch(exec, FM_CU_STREAM_PER_THREAD));
	order(FM_CU_STREAM_PER_THREAD, l->s);
	CU(cuGraphExecDestroy(exec));
	CU(cuGraphDestroy(graph));
}

static void contexts(struct life *l)
{
	struct life own = *l;
	CUgraphExec exec;
	CUcontext was;
	CUgraph graph;

	CU(cuCtxCreate_v2(&own.c.ctx, 0, l->c.dev));
	conform_load(&own.c);
	own.x = new_words(draw(l, 100));
	own.s = new_stream(CU_STREAM_NON_BLOCKING);
	work(&own, own.s, 1 + draw(l, 20));
	graph = capture(&own, 5);
	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CU(cuGraphLaunch(exec, own.s));
	CU(cuGraphLaunch(exec, FM_CU_STREAM_LEGACY));
	CU(cuCtxSynchronize());
	fold(&own, own.x, own.s);
	l->hash = l->hash * 7 + own.hash;
	if (draw(l, 2))
		CU(cuGraphExecDestroy(exec));
	CU(cuGraphDestroy(graph));
	work(&own, own.s, draw(l, 3));
	work(&own, FM_CU_STREAM_PER_THREAD, draw(l, 3));
	if (draw(l, 2))
		CU(cuStreamDestroy_v2(own.s));
	CU(cuCtxPopCurrent_v2(&was));
	CU(cuCtxDestroy_v2(own.c.ctx));
}

static void modules(struct life *l)
{
	struct life own = *l;

	conform_load(&own.c);
	work(&own, own.s, 1 + draw(l, 9));
	l->n = own.n;
	if (draw(l, 2))
		CU(cuStreamSynchronize(l->s));
	CU(cuStreamSynchronize(l->s));
	CU(cuModuleUnload(own.c.module));
}

struct brief {
	struct life *l;
	CUevent before, after;
};

static void *live_short(void *arg)
{
	struct brief *b = arg;

	CU(cuCtxSetCurrent(all.ctx));
	CU(cuStreamWaitEvent(FM_CU_STREAM_PER_THREAD, b->before, 0));
	work(b->l, FM_CU_STREAM_PER_THREAD, 4);
	CU(cuEventRecord(b->after, FM_CU_STREAM_PER_THREAD));
	return NULL;
}

static void threads(struct life *l)
{
	struct brief b = {l, new_event(), new_event()};
	pthread_t t;

	CU(cuEventRecord(b.before, l->s));
	if (pthread_create(&t, NULL, live_short, &b))
		die("no thread");
	pthread_join(t, NULL);
	CU(cuStreamWaitEvent(l->s, b.after, 0));
	CU(cuEventDestroy_v2(b.before));
	CU(cuEventDestroy_v2(b.after));
}

static void memory(struct life *l)
{
	CUdeviceptr y, z;

	CU(cuMemAlloc_v2(&y, BYTES));
	CU(cuMemAllocAsync(&z, BYTES, l->s));
	CU(cuMemcpyDtoDAsync_v2(y, l->x, BYTES, l->s));
	CU(cuMemcpyDtoDAsync_v2(z, y, BYTES, l->s));
	work(l, l->s, 3);
	join(&l->c, l->s, l->x, y, z);
	CU(cuMemFreeAsync(z, l->s));
	CU(cuMemFree_v2(y));
}

static void on_host(void *word)
{
	atomic_fetch_add((_Atomic uint32_t *)word, 1);
}

static void host(struct life *l)
{
	_Atomic uint32_t word = 0;

	work(l, l->s, draw(l, 9));
	CU(cuLaunchHostFunc(l->s, on_host, (void *)&word));
	work(l, l->s, draw(l, 9));
	while (cu.cuStreamQuery(l->s) == FM_CU_ERROR_NOT_READY)
		usleep(50);
	if (word != 1)
		die("a stream is idle that is not");
}

static const struct {
	const char *name;
	void (*run)(struct life *l);
} steps[] = {{"launches", launches}, {"streams", streams}, {"graphs", graphs},
	{"graph of thread", graph_of_thread}, {"contexts", contexts}, {"modules", modules},
	{"threads", threads}, {"memory", memory}, {"host", host}};
#define STEPS (sizeof(steps) / sizeof(*steps))

static unsigned n_steps;
static char **only;

static bool chosen(const char *name)
{
	return conform_chosen(only, name);
}

static void *live(void *arg)
{
	struct life *l = arg;

	CU(cuCtxSetCurrent(all.ctx));
	l->s = new_stream(CU_STREAM_NON_BLOCKING);
	l->t = new_stream(CU_STREAM_NON_BLOCKING);
	l->x = new_words((uint32_t)l->seed);
	for (unsigned i = 0; i < n_steps; i++) {
		uint32_t k = draw(l, STEPS);

		while (!chosen(steps[k].name))
			k = (k + 1) % STEPS;
		steps[k].run(l);
		fold(l, l->x, l->s);
	}
	CU(cuMemFree_v2(l->x));
	CU(cuStreamDestroy_v2(l->s));
	CU(cuStreamDestroy_v2(l->t));
	return NULL;
}

int main(int argc, char **argv)
{
	struct life l[16] = {0};
	unsigned n;
	char line[16];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (argc < 4)
		die("usage: SEED THREADS STEPS [STEP...]");
	n = (unsigned)atoi(argv[2]);
	n_steps = (unsigned)atoi(argv[3]);
	only = argv + 4;
	load_proc(false);
	conform_open(&all);
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 3;
	for (unsigned i = 0; i < n; i++) {
		l[i].c = all;
		l[i].seed = (uint64_t)atoi(argv[1]) * 1000 + i + 1;
		if (pthread_create(&l[i].thread, NULL, live, &l[i]))
			die("no thread");
	}
	for (unsigned i = 0; i < n; i++) {
		pthread_join(l[i].thread, NULL);
		printf("%u %016llx\n", i, (unsigned long long)l[i].hash);
	}
	conform_close(&all);
	puts("end");
	return 0;
}
