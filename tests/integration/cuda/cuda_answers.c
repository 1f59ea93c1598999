/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the driver answers about streams that are at work, where somebody could take them for idle:
 * a case for each way.
 */
#include "../../fakes/cuda/fake_cuda.h"
#include "cuda_conform.h"

/* A stream that waits for a word of the host's, in a host function. */
struct stalled {
	CUstream s, other;
	CUdeviceptr x;
	_Atomic uint32_t *word;
	CUevent e;
};

static struct stalled open_idle(struct conform *c)
{
	struct stalled w = {.s = new_stream(CU_STREAM_NON_BLOCKING),
		.other = new_stream(CU_STREAM_NON_BLOCKING),
		.e = new_event()};

	w.x = new_words(1);
	w.word = calloc(1, sizeof(*w.word));
	if (!w.word)
		die("out of memory");
	mix(c, w.s, w.x, 1);
	CU(cuCtxSynchronize());
	mix(c, w.other, w.x, 1);
	CU(cuCtxSynchronize());
	return w;
}

static void await(void *word)
{
	while (!atomic_load((_Atomic uint32_t *)word))
		usleep(100);
}

static void stall(struct stalled *w, CUstream s)
{
	CU(cuLaunchHostFunc(s, await, (void *)w->word));
}

static void go_on(struct conform *c, struct stalled *w)
{
	note(c, "at work: %d", cu.cuStreamQuery(w->s));
	atomic_store(w->word, 1);
	CU(cuStreamSynchronize(w->s));
	note(c, "at its end: %d", cu.cuStreamQuery(w->s));
	note_words(c, "x", w->x, w->s);
	CU(cuStreamSynchronize(w->other));
	CU(cuEventDestroy_v2(w->e));
	CU(cuStreamDestroy_v2(w->s));
	CU(cuStreamDestroy_v2(w->other));
	free((void *)w->word);
	CU(cuMemFree_v2(w->x));
}

/* --- events that are recorded in one stream by a call, and then in another without --- */

static struct stalled open_recorded(struct conform *c)
{
	struct stalled w = open_idle(c);

	stall(&w, w.s);
	mix(c, w.s, w.x, 2);
	CU(cuEventRecord(w.e, w.s));
	note(c, "event: %d", cu.cuEventQuery(w.e));
	return w;
}

static void recorded_anew(struct conform *c, struct stalled *w)
{
	CU(cuStreamSynchronize(w->other));
	CU(cuEventSynchronize(w->e));
	note(c, "event: %d", cu.cuEventQuery(w->e));
	go_on(c, w);
}

static void launch_graph(CUgraph graph, CUstream s)
{
	CUgraphExec exec;

	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CU(cuGraphLaunch(exec, s));
	CU(cuGraphExecDestroy(exec));
	CU(cuGraphDestroy(graph));
}

static void event_captured(struct conform *c)
{
	struct stalled w = open_recorded(c);
	CUgraph graph;

	CU(cuStreamBeginCapture_v2(w.other, CU_CAPTURE_THREAD_LOCAL));
	CU(cuEventRecordWithFlags(w.e, w.other, CU_EVENT_EXTERNAL));
	CU(cuStreamEndCapture(w.other, &graph));
	CU(cuEventRecord(w.e, w.s));
	launch_graph(graph, w.other);
	recorded_anew(c, &w);
}

static void event_composed(struct conform *c)
{
	struct stalled w = open_recorded(c);
	CUgraphNode node;
	CUgraph graph;

	CU(cuGraphCreate(&graph, 0));
	CU(cuGraphAddEventRecordNode(&node, graph, NULL, 0, w.e));
	launch_graph(graph, w.other);
	recorded_anew(c, &w);
}

static void event_of_any_node(struct conform *c)
{
	struct stalled w = open_recorded(c);
	struct cu_node what = {.type = 7, .event = w.e};
	CUgraphNode node;
	CUgraph graph;

	CU(cuGraphCreate(&graph, 0));
	CU(cuGraphAddNode(&node, graph, NULL, 0, &what));
	launch_graph(graph, w.other);
	recorded_anew(c, &w);
}

/* When its kernel has ended, or begun. */
static void event_of_launch(struct conform *c)
{
	static const int how[] = {CU_LAUNCH_EVENT, CU_LAUNCH_BEGUN_EVENT};

	for (int i = 0; i < 2; i++) {
		struct stalled w = open_recorded(c);
		CUdeviceptr y = new_words(2);
		uint32_t n = WORDS, value = 7;
		struct cu_launch_attribute attr = {.id = how[i], .value.event = w.e};
		struct cu_launch_config config = {.grid = {GRID, 1, 1},
			.block = {BLOCK, 1, 1},
			.stream = w.other,
			.attrs = &attr,
			.attr_count = 1};

		CU(cuLaunchKernelEx(&config, c->fill, (void *[]){&y, &n, &value}, NULL));
		recorded_anew(c, &w);
		CU(cuMemFree_v2(y));
	}
}

/* --- streams that had something before anybody looked --- */

static void host_function_first(struct conform *c)
{
	struct stalled w = open_idle(c);
	CUstream known = w.s;
	CUgraph graph;

	w.s = new_stream(CU_STREAM_NON_BLOCKING);
	CU(cuLaunchHostFunc(w.s, await, (void *)w.word));
	CU(cuStreamBeginCapture_v2(w.s, CU_CAPTURE_THREAD_LOCAL));
	mix(c, w.s, w.x, 3);
	CU(cuStreamEndCapture(w.s, &graph));
	note(c, "behind a host function: %d", cu.cuStreamQuery(w.s));
	atomic_store(w.word, 1);
	launch_graph(graph, w.s);
	CU(cuStreamSynchronize(w.s));
	go_on(c, &w);
	CU(cuStreamDestroy_v2(known));
}

/* By a call of a driver to come, that nobody here knows. The stream waits for the legacy one. */
static void unknown_call(struct conform *c)
{
	fm_cu_result (*call)(CUdeviceptr, unsigned char, size_t, unsigned, CUstream);
	struct stalled w = open_idle(c);
	void *fn = NULL;

	CU(cuStreamDestroy_v2(w.s));
	w.s = new_stream(0);
	mix(c, w.s, w.x, 4);
	CU(cuStreamSynchronize(w.s));
	CU(cuStreamSynchronize(w.s)); /* with what was put there while it was waited for */
	note(c, "idle: %d", cu.cuStreamQuery(w.s));
	setenv("FAKE_CUDA_NEW", "1", true);
	if (cu.cuGetProcAddress_v2("cuMemsetD8Async", &fn, 99000, 0, &(int){0}) || !fn)
		fn = (void *)cu.cuMemsetD8Async;
	unsetenv("FAKE_CUDA_NEW");
	stall(&w, FM_CU_STREAM_LEGACY);
	if (fn == (void *)cu.cuMemsetD8Async)
		CU(cuMemsetD8Async(w.x, 9, 64, w.s));
	*(void **)&call = fn;
	if (fn != (void *)cu.cuMemsetD8Async && call(w.x, 9, 64, 7, w.s))
		die("the newer function fails");
	go_on(c, &w);
}

/* --- what is captured twice is the same graph --- */

static CUgraph capture_many(struct conform *c, CUstream s, CUdeviceptr x)
{
	CUgraph graph;

	CU(cuStreamBeginCapture_v2(s, CU_CAPTURE_THREAD_LOCAL));
	for (uint32_t i = 0; i < 400; i++)
		mix(c, s, x, i);
	CU(cuStreamEndCapture(s, &graph));
	return graph;
}

/* In a stream where nothing was launched before the first time. */
static void captured_anew(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(5);
	struct cu_update u = {0};
	CUgraph graph = capture_many(c, s, x), anew;
	CUgraphExec exec;

	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CU(cuGraphLaunch(exec, s));
	anew = capture_many(c, s, x);
	note(c, "updated: %d", cu.cuGraphExecUpdate_v2(exec, anew, &u));
	CU(cuGraphLaunch(exec, s));
	note_words(c, "x", x, s);
	CU(cuGraphExecDestroy(exec));
	CU(cuGraphDestroy(graph));
	CU(cuGraphDestroy(anew));
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

/* --- another thread comes in the middle of a call --- */

static fake_cuda_at_fn *at; /* NULL: another driver than the fake one */

static struct {
	CUcontext ctx;
	CUstream s;
	CUevent e;
	int answer;
} asked;

static void *ask(void *unused)
{
	CU(cuCtxSetCurrent(asked.ctx));
	asked.answer = cu.cuStreamQuery(asked.s);
	return NULL;
}

static void *record(void *unused)
{
	CU(cuCtxSetCurrent(asked.ctx));
	CU(cuEventRecord(asked.e, asked.s));
	CU(cuStreamSynchronize(asked.s));
	return NULL;
}

static void elsewhere(void *(*run)(void *))
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, NULL))
		die("no thread");
	pthread_join(thread, NULL);
}

static void ask_elsewhere(void)
{
	elsewhere(ask);
}

static void record_elsewhere(void)
{
	elsewhere(record);
}

static void in_call(struct conform *c, const char *call, void (*fn)(void), CUstream s)
{
	asked.ctx = c->ctx;
	asked.s = s;
	asked.answer = -1;
	*(void **)&at = dlsym(driver_handle(), "fake_cuda_at");
	if (at)
		at(call, fn);
}

/* What the other thread has heard was true, and is not any more. */
static void asked_before(struct conform *c)
{
	struct stalled w = open_idle(c);

	stall(&w, w.other);
	CU(cuEventRecord(w.e, w.other));
	in_call(c, "cuStreamWaitEvent", ask_elsewhere, w.s);
	CU(cuStreamWaitEvent(w.s, w.e, 0));
	if (at && asked.answer)
		die("the other thread was told %d", asked.answer);
	go_on(c, &w);
}

/* The stream has it, and the other thread may know that. */
static void asked_behind(struct conform *c)
{
	struct stalled w = open_idle(c);
	CUgraphExec exec;
	CUgraph graph;

	CU(cuStreamBeginCapture_v2(w.other, CU_CAPTURE_THREAD_LOCAL));
	CU(cuLaunchHostFunc(w.other, await, (void *)w.word));
	CU(cuStreamEndCapture(w.other, &graph));
	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	in_call(c, "cuGraphLaunch, behind", ask_elsewhere, w.s);
	CU(cuGraphLaunch(exec, w.s));
	if (at && asked.answer != FM_CU_ERROR_NOT_READY)
		die("the other thread was told %d of a graph", asked.answer);
	go_on(c, &w);
	CU(cuGraphExecDestroy(exec));
	CU(cuGraphDestroy(graph));
}

/* Where the other thread records it is idle. */
static void recorded_behind(struct conform *c)
{
	struct stalled w = open_recorded(c);

	asked.e = w.e;
	in_call(c, "cuEventRecord, behind", record_elsewhere, w.other);
	CU(cuEventRecord(w.e, w.s));
	if (!at)
		CU(cuEventRecord(w.e, w.other));
	recorded_anew(c, &w);
}

static void recorded_before(struct conform *c)
{
	struct stalled w = open_recorded(c);

	asked.e = w.e;
	in_call(c, "cuEventQuery", record_elsewhere, w.other);
	note(c, "event: %d", at ? cu.cuEventQuery(w.e) : 0);
	CU(cuEventRecord(w.e, w.other));
	recorded_anew(c, &w);
}

int main(int argc, char **argv)
{
	static const struct conform_case cases[] = {
		{"event captured", event_captured},
		{"event composed", event_composed},
		{"event of any node", event_of_any_node},
		{"event of a launch", event_of_launch},
		{"host function first", host_function_first},
		{"unknown call", unknown_call},
		{"captured anew", captured_anew},
		{"asked before", asked_before},
		{"asked behind", asked_behind},
		{"recorded behind", recorded_behind},
		{"recorded before", recorded_before},
		{NULL, NULL},
	};

	return conform_main(argc, argv, cases);
}
