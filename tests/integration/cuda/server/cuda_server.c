/* SPDX-License-Identifier: Apache-2.0 */
/* Two streams of one process stop each other, or the program stops one itself. */
#include "cuda_server.h"
#include "../../../fakes/cuda/fake_cuda.h"
#include <dlfcn.h>

/* The urgent stream has work: so the other one stops, in the middle of its queue. */
static void stops(void)
{
	bind_both(0);
	MUST(fm_cuda_scheduled());
	stand(batch);
	work(batch, out[1], KERNELS);
	stand(urgent);
	work(urgent, out[0], 1);
	EVENTUALLY(!info(batch).scheduled);
	MUST(!told.preempted);
	let_go(batch);
	EVENTUALLY(told.preempted);
	rests(batch, 1);
	MUST(words[1][0] != after(KERNELS));
	MUST(!told.resumed);
	MUST(info(batch).completed < KERNELS);
	MUST(!info(batch).suspended);
	MUST(info(batch).preemptions == 1);
	MUST(info(urgent).scheduled);
	let_go(urgent);
	CU(cuStreamSynchronize(urgent));
	CU(cuStreamSynchronize(batch));
	MUST(words[0][0] == after(1));
	MUST(words[1][0] == after(KERNELS));
	EVENTUALLY(told.resumed == told.preempted);
	MUST(!told.amiss);
}

/* Gates in a graph of so many kernels, captured on this stream; it is launched, too. */
static uint64_t gates_captured(CUstream s, CUdeviceptr d, unsigned kernels)
{
	uint64_t before = info(s).gates, gates;
	CUgraphExec exec;
	CUgraph graph;

	CU(cuStreamBeginCapture_v2(s, CU_CAPTURE_RELAXED));
	work(s, d, kernels);
	gates = info(s).gates - before;
	CU(cuStreamEndCapture(s, &graph));
	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CU(cuGraphLaunch(exec, s));
	CU(cuStreamSynchronize(s));
	CU(cuGraphExecDestroy(exec));
	CU(cuGraphDestroy(graph));
	return gates;
}

/* Of a graph: so many that it has gates, whatever is known of them. */
#define NODES 500

/* Who never waits for the other has few gates in its graphs. */
static void graphs(void)
{
	uint64_t few, many;

	stops();
	many = gates_captured(batch, out[1], NODES);
	few = gates_captured(urgent, out[0], NODES);
	MUST(many >= 8);
	MUST(few <= many / 4);
	MUST(words[0][0] == after(1 + NODES));
	MUST(words[1][0] == after(KERNELS + NODES));
}

/* Not before it has from the daemon what its gates are to wait for. */
static CUgraph with_gates(CUstream s)
{
	CUgraph graph;

	for (int tries = 0; tries < 5000; tries++) {
		CU(cuStreamBeginCapture_v2(s, CU_CAPTURE_RELAXED));
		work(s, out[0], NODES);
		CU(cuStreamEndCapture(s, &graph));
		if (info(s).gates)
			return graph;
		CU(cuGraphDestroy(graph));
		usleep(2000);
	}
	MUST(!"gates are captured");
	return NULL;
}

/* It has gates of the stream that it was captured on: another one that comes later has its own. */
static void graph_outlives_stream(void)
{
	struct fm_cuda_binding b = binding("batch", FM_PRIORITY_LOW), u = binding("urgent", 0);
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUgraphExec exec;
	CUgraph graph;

	IS(0, fm_cuda_bind(urgent, &u));
	IS(0, fm_cuda_bind(s, &u));
	graph = with_gates(s);
	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CU(cuStreamDestroy_v2(s));
	usleep(100000);
	IS(0, fm_cuda_bind(batch, &b));
	IS(0, fm_cuda_suspend(batch, true, FM_FOREVER));
	CU(cuGraphLaunch(exec, urgent));
	EVENTUALLY(words[0][0] == after(NODES));
	IS(0, fm_cuda_resume(batch));
	CU(cuGraphExecDestroy(exec));
	CU(cuGraphDestroy(graph));
}

static void suspends(void)
{
	bind_both(0);
	stand(batch);
	work(batch, out[1], KERNELS);
	IS(0, fm_cuda_suspend(batch, false, 0));
	let_go(batch);
	IS(0, fm_cuda_suspend(batch, true, FM_FOREVER));
	IS(0, fm_cuda_suspend(batch, true, 0));
	rests(batch, 1);
	MUST(words[1][0] != after(KERNELS));
	work(batch, out[1], KERNELS);
	rests(batch, 1);
	MUST(info(batch).suspended);
	MUST(info(batch).completed < info(batch).submitted);
	MUST(cu.cuStreamQuery(batch) == FM_CU_ERROR_NOT_READY);
	EVENTUALLY(told.preempted == 1);
	work(urgent, out[0], 10);
	CU(cuStreamSynchronize(urgent));
	rests(batch, 1);
	IS(0, fm_cuda_resume(batch));
	IS(0, fm_cuda_resume(batch));
	CU(cuStreamSynchronize(batch));
	MUST(words[1][0] == after(2 * KERNELS));
	MUST(!info(batch).suspended);
	EVENTUALLY(told.resumed == told.preempted);
	MUST(!told.amiss);
}

/* Who suspends a stream may put more into it than may be under way before letting it go on. */
static void suspended_far_ahead(void)
{
	bind_both(0);
	IS(0, fm_cuda_suspend(batch, true, FM_FOREVER));
	work(batch, out[1], 514);
	IS(0, fm_cuda_resume(batch));
	CU(cuStreamSynchronize(batch));
	MUST(words[1][0] == after(514));
}

/* How deep a group is stopped its program can say, too, as it runs. */
static void hinted(void)
{
	bind_both(0);
	MUST(info(batch).level == 3 && info(urgent).level == 3);
	IS(0, fm_cuda_hint(batch, FM_HINT_LEVEL, 2));
	EVENTUALLY(info(batch).level == 2);
	MUST(info(urgent).level == 3 && info(batch).levels & 1u << 3);
	IS(-ERANGE, fm_cuda_hint(batch, FM_HINT_LEVEL, 1));
	IS(0, fm_cuda_hint(batch, FM_HINT_LEVEL, 3));
	EVENTUALLY(info(batch).level == 3);
}

/* While it has not come to a gate nobody can say that it rests. */
static void suspend_takes_its_time(void)
{
	bind_both(0);
	stand(batch);
	work(batch, out[1], 1);
	IS(-ETIMEDOUT, fm_cuda_suspend(batch, true, 1000000));
	MUST(info(batch).suspended);
	let_go(batch);
	IS(0, fm_cuda_suspend(batch, true, FM_FOREVER));
	work(batch, out[1], 1);
	rests(batch, 1);
	IS(0, fm_cuda_resume(batch));
	CU(cuStreamSynchronize(batch));
	MUST(words[1][0] == after(2));
}

/* A stream of high priority that its program has suspended is in nobody's way. */
static void suspended_is_not_in_the_way(void)
{
	bind_both(0);
	IS(0, fm_cuda_suspend(urgent, true, FM_FOREVER));
	work(urgent, out[0], 10);
	work(batch, out[1], KERNELS);
	CU(cuStreamSynchronize(batch));
	MUST(words[1][0] == after(KERNELS));
	rests(urgent, 0);
	MUST(!words[0][0]);
	work(batch, out[1], KERNELS);
	IS(0, fm_cuda_resume(urgent));
	CU(cuStreamSynchronize(urgent));
	MUST(words[0][0] == after(10));
	CU(cuStreamSynchronize(batch));
}

static void *launch_one(void *launched)
{
	CU(cuCtxSetCurrent(c.ctx));
	work(batch, out[1], 1);
	*(_Atomic bool *)launched = true;
	return NULL;
}

static void at_level_1(void)
{
	_Atomic bool launched = false;
	pthread_t thread;

	bind_both(1);
	MUST(info(batch).level == 1);
	work(batch, out[1], 4);
	IS(0, fm_cuda_suspend(batch, true, FM_FOREVER));
	MUST(!pthread_create(&thread, NULL, launch_one, (void *)&launched));
	usleep(20000);
	MUST(!launched);
	IS(0, fm_cuda_resume(batch));
	pthread_join(thread, NULL);
	CU(cuStreamSynchronize(batch));
	MUST(words[1][0] == after(5));
}

/* While the test looks at it from outside. */
static void stays(void)
{
	char line[16];

	bind_both(0);
	work(urgent, out[0], 1);
	work(batch, out[1], 1);
	CU(cuStreamSynchronize(urgent));
	puts("ready");
	fflush(stdout);
	MUST(fgets(line, sizeof(line), stdin));
}

/* The streams may share a channel, in which the urgent one then stands behind the gates of the
 * other. */
static void in_one_channel(void)
{
	bind_both(0);
	work(batch, out[1], KERNELS);
	for (unsigned i = 0; i < 3; i++) {
		work(urgent, out[0], 1);
		CU(cuStreamSynchronize(urgent));
	}
	CU(cuStreamSynchronize(batch));
	MUST(words[0][0] == after(3));
	MUST(words[1][0] == after(KERNELS));
}

/* One stream's requests: in, kernels, out. */
struct requests {
	CUstream s;
	CUdeviceptr d;
	uint32_t *pinned;
	unsigned n;
};

static void *serve(void *arg)
{
	struct requests *r = arg;

	CU(cuCtxSetCurrent(c.ctx));
	for (unsigned i = 0; i < r->n; i++) {
		CU(cuMemcpyHtoDAsync_v2(r->d, r->pinned, BYTES, r->s));
		for (uint32_t j = 0; j < 10; j++)
			mix(&c, r->s, r->d, j);
		CU(cuMemcpyDtoHAsync_v2(r->pinned, r->d, BYTES, r->s));
		CU(cuStreamSynchronize(r->s));
	}
	return NULL;
}

/* All copies of a process share few channels, in whatever stream they are. */
#define SERVED 5
static void copies_of_many(void)
{
	struct fm_cuda_binding u = binding("urgent", FM_PRIORITY_HIGH),
			       b = binding("batch", FM_PRIORITY_LOW);
	struct requests r[SERVED];
	pthread_t t[SERVED];

	for (unsigned i = 0; i < SERVED; i++) {
		void *p;

		r[i].s = new_stream(CU_STREAM_NON_BLOCKING);
		r[i].n = 6;
		r[i].d = new_words(1);
		CU(cuMemHostAlloc(&p, BYTES, 0));
		r[i].pinned = p;
		seed_words(r[i].pinned, WORDS, 7);
		IS(0, fm_cuda_bind(r[i].s, i ? &b : &u));
	}
	for (unsigned i = 0; i < SERVED; i++)
		MUST(!pthread_create(&t[i], NULL, serve, &r[i]));
	for (unsigned i = 0; i < SERVED; i++)
		pthread_join(t[i], NULL);
	for (unsigned i = 1; i < SERVED; i++)
		MUST(!memcmp(r[i].pinned, r[0].pinned, BYTES));
}

static void *launch_and_tell(void *arg)
{
	CU(cuCtxSetCurrent(c.ctx));
	work(batch, out[1], 1);
	*(_Atomic bool *)arg = true;
	return NULL;
}

static void *capture(void *arg)
{
	CUgraph graph;

	CU(cuCtxSetCurrent(c.ctx));
	CU(cuStreamBeginCapture_v2(urgent, CU_CAPTURE_THREAD_LOCAL));
	EVENTUALLY(*(_Atomic bool *)arg);
	CU(cuStreamEndCapture(urgent, &graph));
	CU(cuGraphDestroy(graph));
	return NULL;
}

/* A capture begins while another thread's launch is in the driver, which waits for the device: it
 * has a gate behind it all the same, for nobody could put one there as long as the capture lasts.
 * Status 77: the launch did not wait. */
static void captures_beside_a_launch(void)
{
	_Atomic bool launched = false, over = false;
	pthread_t t[2];
	uint64_t gates;

	bind_both(0);
	stand(batch);
	MUST(!pthread_create(&t[0], NULL, launch_and_tell, &launched));
	EVENTUALLY(!info(batch).stalled);
	usleep(20000); /* it is in the driver */
	if (launched) {
		let_go(batch);
		CU(cuStreamSynchronize(batch));
		MUST(words[1][0] == after(1));
		pthread_join(t[0], NULL);
		exit(77);
	}
	gates = info(batch).gates;
	MUST(!pthread_create(&t[1], NULL, capture, &over));
	usleep(20000); /* it begins */
	let_go(batch);
	pthread_join(t[0], NULL);
	EVENTUALLY(launched);
	/* Where the capture came first nothing was guarded. */
	EVENTUALLY(!info(batch).guarded || info(batch).gates > gates);
	over = true;
	pthread_join(t[1], NULL);
	CU(cuStreamSynchronize(batch));
	MUST(words[1][0] == after(1));
}

static struct {
	CUgraphExec exec;
	_Atomic bool over;
} elsewhere;

static void *launch_elsewhere(void *unused)
{
	CU(cuCtxSetCurrent(c.ctx));
	CU(cuGraphLaunch(elsewhere.exec, urgent));
	elsewhere.over = true;
	return NULL;
}

/* Who launches a graph elsewhere may be the one to let the stream go on where it was launched last.
 */
static void graph_elsewhere(void)
{
	CUgraph graph;
	pthread_t t;

	bind_both(0);
	work(batch, out[1], 1);
	work(urgent, out[0], 1);
	CU(cuCtxSynchronize());
	CU(cuStreamBeginCapture_v2(batch, CU_CAPTURE_THREAD_LOCAL));
	work(batch, out[1], 6);
	CU(cuStreamEndCapture(batch, &graph));
	CU(cuGraphInstantiateWithFlags(&elsewhere.exec, graph, 0));
	CU(cuGraphLaunch(elsewhere.exec, batch));
	CU(cuCtxSynchronize());
	stand(batch); /* it is not stopped in its middle */
	CU(cuGraphLaunch(elsewhere.exec, batch));
	IS(0, fm_cuda_suspend(batch, false, 0));
	MUST(!pthread_create(&t, NULL, launch_elsewhere, NULL));
	EVENTUALLY(elsewhere.over);
	IS(0, fm_cuda_resume(batch));
	let_go(batch);
	pthread_join(t, NULL);
	CU(cuCtxSynchronize());
	MUST(words[1][0] == after(19));
}

static unsigned parameters_set;

static void on_set(void)
{
	parameters_set++;
}

/* Nodes of a graph of kernels, and a fill between them, captured on this stream; it is launched
 * there, too. Only the fake driver tells whether its kernels got parameters of ours. */
static size_t nodes_captured(CUstream s, CUdeviceptr d, bool fill, bool guarded)
{
	fake_cuda_at_fn *at;
	CUgraphExec exec;
	CUgraph graph;
	size_t n;

	*(void **)&at = dlsym(driver_handle(), "fake_cuda_at");
	CU(cuStreamBeginCapture_v2(s, CU_CAPTURE_THREAD_LOCAL));
	work(s, d, 2);
	if (fill)
		CU(cuMemsetD32Async(d + 4 * sizeof(uint32_t), 1, 1, s));
	work(s, d, 1);
	CU(cuStreamEndCapture(s, &graph));
	CU(cuGraphGetNodes(graph, NULL, &n));
	parameters_set = 0;
	if (at)
		at("cuGraphExecKernelNodeSetParams_v2", on_set);
	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	if (at)
		at("", NULL);
	MUST(!at || (parameters_set > 0) == guarded);
	CU(cuGraphLaunch(exec, s));
	CU(cuStreamSynchronize(s));
	CU(cuGraphExecDestroy(exec));
	CU(cuGraphDestroy(graph));
	return n;
}

/* What is not to be stopped in the middle of a kernel pays nothing for that in a graph either. */
static void captured_at_level_2(void)
{
	struct fm_cuda_binding u = binding("urgent", FM_PRIORITY_HIGH),
			       b = binding("batch", FM_PRIORITY_LOW);

	u.level = 2;
	IS(0, fm_cuda_bind(urgent, &u));
	IS(0, fm_cuda_bind(batch, &b));
	work(urgent, out[0], 1);
	work(batch, out[1], 1);
	CU(cuCtxSynchronize());
	MUST(info(urgent).level == 2 && info(batch).level == 3);
	MUST(nodes_captured(urgent, out[0], true, false) <
		nodes_captured(batch, out[1], true, true));
	nodes_captured(urgent, out[0], false, false);
	nodes_captured(batch, out[1], false, true);
	MUST(words[0][0] == after(7) && words[1][0] == after(7));
}

int main(int argc, char **argv)
{
	static const struct server_case cases[] = {
		{"stops", stops},
		{"graphs", graphs},
		{"graph-outlives-stream", graph_outlives_stream},
		{"suspends", suspends},
		{"suspended-far-ahead", suspended_far_ahead},
		{"hinted", hinted},
		{"graph-elsewhere", graph_elsewhere},
		{"captured-at-level-2", captured_at_level_2},
		{"suspend-takes-its-time", suspend_takes_its_time},
		{"suspended-is-not-in-the-way", suspended_is_not_in_the_way},
		{"at-level-1", at_level_1},
		{"stays", stays},
		{"in-one-channel", in_one_channel},
		{"copies-of-many", copies_of_many},
		{"captures-beside-a-launch", captures_beside_a_launch},
		{NULL, NULL},
	};

	return server_main(argc, argv, cases);
}
