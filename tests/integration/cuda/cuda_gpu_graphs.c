/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of tasks that launch themselves on the device (<fermata/gpu_sched.h>, engine "graphs"), as a
 * program uses them: one case of those below, "worker", "slots-worker" or "resident-worker", which
 * test_cuda_gpu_graphs.py drives, or "measure TASKS".
 * Whatever is not as it should be ends it with a text. Exit status 77: no device, or no device
 * runtime.
 */
#include "cuda_gpu_set.h"

/* Notes its number behind those that have run. */
static const char text[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry graph_chunk(.param .u64 log, .param .u64 number)\n{\n.reg .b64 %rd<7>;\n"
	"ld.param.u64 %rd1, [log];\nld.param.u64 %rd2, [number];\natom.add.u64 %rd3, [%rd1], 1;\n"
	"and.b64 %rd4, %rd3, 4095;\nshl.b64 %rd5, %rd4, 3;\nadd.u64 %rd6, %rd1, %rd5;\n"
	"st.u64 [%rd6+8], %rd2;\nret;\n}\n"
	".visible .entry graph_meet(.param .u64 at, .param .u64 most)\n{\n.reg .b64 %rd<5>;\n"
	".reg .pred %p<2>;\nld.param.u64 %rd1, [at];\nld.param.u64 %rd2, [most];\n"
	"atom.add.u64 %rd3, [%rd1], 1;\nLOOP:\nld.acquire.gpu.u64 %rd4, [%rd1];\n"
	"setp.lt.u64 %p1, %rd4, %rd2;\n@%p1 bra LOOP;\nret;\n}\n";

#define LOG 4096

static struct {
	CUcontext ctx;
	CUmodule module;
	CUfunction chunk, meet;
	CUdeviceptr log, met;
	uint64_t ran, order[LOG];
} m;

static void open_context(void)
{
	m.ctx = begin();
	MUST(!cuModuleLoadData(&m.module, text));
	MUST(!cuModuleGetFunction(&m.chunk, m.module, "graph_chunk"));
	MUST(!cuModuleGetFunction(&m.meet, m.module, "graph_meet"));
	MUST(!cuMemAlloc_v2(&m.met, 8) && !cuMemsetD8_v2(m.met, 0, 8));
	MUST(!cuMemAlloc_v2(&m.log, (1 + LOG) * 8) && !cuMemsetD8_v2(m.log, 0, (1 + LOG) * 8));
	MUST(!cuCtxSynchronize()); /* the set's streams do not wait for that one */
}

/* When nothing runs. */
static void read_log(void)
{
	MUST(!cuMemcpyDtoH_v2(&m.ran, m.log, (1 + LOG) * 8));
}

static void clear_log(void)
{
	MUST(!cuMemsetD8_v2(m.log, 0, (1 + LOG) * 8) && !cuCtxSynchronize());
}

static int launch_chunk(CUstream stream, uint64_t number)
{
	void *params[] = {&m.log, &number};

	return cuLaunchKernel(m.chunk, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL) ? -EIO : 0;
}

/* The number of a task, and of its chunk. */
static int put(struct CUstream_st *stream, unsigned chunk, void *ctx)
{
	struct task *t = ctx;

	return t->first ? t->first(stream) : launch_chunk(stream, t->number << 8 | chunk);
}

static int add_period(uint64_t period, unsigned chunks)
{
	struct fm_gpu_task t = {
		.size = sizeof(t), .enqueue = put, .n_chunks = chunks, .period_ns = period};
	static unsigned n = TASKS / 2;
	unsigned number = n++ % TASKS;

	task[number] = (struct task){.number = number, .chunks = chunks};
	t.ctx = &task[number];
	return fm_gpu_task_add(set, &t);
}

static int add_graphs(unsigned chunks, int priority, const unsigned *after, CUgraphExec *graph)
{
	struct fm_gpu_task t = {.size = sizeof(t),
		.enqueue = graph ? NULL : put,
		.graph = graph,
		.n_chunks = chunks,
		.priority = priority,
		.after = after,
		.n_after = after != NULL};
	static unsigned n;
	unsigned number = n++ % TASKS;

	task[number] = (struct task){.number = number, .chunks = chunks};
	t.ctx = &task[number];
	return fm_gpu_task_add(set, &t);
}

static unsigned slots = 1;

static void new_set(const char *policy)
{
	int error = 0;

	set = make(policy, slots, &error);
	if (!set)
		die("no set: %d", error);
}

/* One that is there, and does not work, is a failure. */
static void skip_without_runtime(int rc)
{
	if (rc == -ENOSYS && strstr(why(), "there is no device runtime"))
		exit(77);
}

static void start_set(void)
{
	int rc = fm_gpu_set_start(set);

	skip_without_runtime(rc);
	IS(0, rc);
}

static void make_set(unsigned n)
{
	new_set("fixed-priority");
	for (unsigned i = 0; i < n; i++)
		IS((int)i, add_graphs(1 + i % 3, (int)i, NULL, NULL));
	start_set();
}

/* A graph as a program has it. */
static CUgraphExec own_graph(uint64_t number, unsigned flags, bool host)
{
	struct cu_instantiate how = {.flags = flags};
	CUgraphExec exec;
	CUgraph graph;
	CUstream s;

	MUST(!cuStreamCreate(&s, 1) && !cuStreamBeginCapture_v2(s, 2));
	IS(0, launch_chunk(s, number));
	if (host)
		MUST(!cuLaunchHostFunc(s, run_chunk, &task[0]));
	MUST(!cuStreamEndCapture(s, &graph) && !cuGraphInstantiateWithParams(&exec, graph, &how));
	MUST(!cuGraphDestroy(graph) && !cuStreamDestroy_v2(s));
	return exec;
}

/* --- cases --- */

static void refusals(void)
{
	struct fm_gpu_set_options options = {
		.size = sizeof(options), .policy = "edf", .slots = 17, .engine = "graphs"};
	struct fm_gpu_task t = {.size = sizeof(t), .wcet_ns = 1};
	CUgraphExec none[1] = {NULL}, host, other;
	uint64_t *word;
	int error = 0;

	MUST(!fm_gpu_set_new(&options, &error) && error == -EOPNOTSUPP);
	options.slots = 1;
	MUST(!fm_gpu_set_new(&options, &error) && error == -ENODEV);
	open_context();
	new_set("edf");
	IS(-EINVAL, fm_gpu_task_add(set, &t));
	t.graph = none;
	IS(-EINVAL, fm_gpu_task_add(set, &t));
	MUST(strstr(why(), "chunk 0 has no graph"));
	t.enqueue = put;
	IS(-EINVAL, fm_gpu_task_add(set, &t));
	t.enqueue = NULL;
	t.period_ns = 1000000;
	t.graph = &host;
	host = own_graph(1, 0, false);
	IS(-EINVAL, fm_gpu_task_add(set, &t));
	t.period_ns = 0;
	IS(0, fm_gpu_task_add(set, &t));
	IS(-EINVAL, fm_gpu_release_word(set, 0, &word));
	IS(-EINVAL, fm_gpu_set_start(set));
	MUST(strstr(why(), "was not instantiated for launch by the device"));
	fm_gpu_set_free(set);
	other = (CUgraphExec)(uintptr_t)&options; /* what is no graph */
	new_set("edf");
	IS(0, add_graphs(1, 0, NULL, &other));
	IS(-EINVAL, fm_gpu_set_start(set));
	MUST(strstr(why(), "is no executable graph"));
	fm_gpu_set_free(set);
	MUST(!cuGraphExecDestroy(host));
	new_set("fifo");
	for (int i = 0; i < TASKS; i++)
		IS(i, add_graphs(1, 0, NULL, NULL));
	IS(-E2BIG, add_graphs(1, 0, NULL, NULL));
	start_set(); /* they need no channels */
	fm_gpu_set_free(set);
}

static void the_policy_orders(void)
{
	open_context();
	make_set(4);
	IS(0, fm_gpu_set_suspend(set));
	for (unsigned i = 0; i < 4; i++)
		IS(0, fm_gpu_release(set, i, 2));
	IS(-ETIMEDOUT, fm_gpu_set_drain(set, 20000000));
	read_log();
	MUST(!m.ran);
	IS(-ESHUTDOWN, fm_gpu_release(set, 0, 1));
	IS(0, fm_gpu_set_resume(set));
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	read_log();
	MUST(m.ran == 14);
	for (unsigned i = 0; i < 14; i++) { /* 2 x 1, 3, 2, 1 chunks, each job's in order */
		unsigned of = i < 2 ? 3 : i < 8 ? 2 : i < 12 ? 1 : 0, chunks = 1 + of % 3;
		unsigned from = i < 2 ? 0 : i < 8 ? 2 : i < 12 ? 8 : 12;
		unsigned chunk = (i - from) % chunks;

		MUST(m.order[i] == (of << 8 | chunk));
	}
	MUST(stats(2).done == 2 && stats(FM_GPU_SET).started == 14);
	MUST(stats(FM_GPU_SET).decisions >= 14 && stats(2).response_max_ns);
	IS(0, fm_gpu_set_start(set)); /* again, and one more task before */
	IS(-EBUSY, add_graphs(1, 0, NULL, NULL));
	IS(0, fm_gpu_release(set, 2, 1));
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	read_log();
	MUST(stats(2).done == 3 && m.ran == 17);
	IS(4, add_graphs(1, 0, NULL, NULL));
	IS(0, fm_gpu_set_start(set));
	IS(0, fm_gpu_release(set, 4, 500)); /* more than wait */
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	MUST(stats(4).done + stats(4).dropped == 500 && stats(4).done >= 64);
	fm_gpu_set_free(set);
}

/* The program's own graphs, of which one is launched for two chunks, and beside one of enqueue. */
static void own_graphs(void)
{
	enum { BY_DEVICE = 4, JOBS = 5 };
	const unsigned after[] = {0};
	CUgraphExec graph[3], one;

	open_context();
	graph[0] = graph[2] = own_graph(100, BY_DEVICE, false);
	graph[1] = own_graph(101, BY_DEVICE, false);
	one = own_graph(102, BY_DEVICE, false);
	new_set("fifo");
	IS(0, add_graphs(3, 0, NULL, graph));
	IS(1, add_graphs(1, 0, after, &one));
	IS(2, add_graphs(2, 0, NULL, NULL));
	start_set();
	IS(0, fm_gpu_set_suspend(set));
	IS(0, fm_gpu_release(set, 0, JOBS));
	IS(0, fm_gpu_release(set, 2, JOBS));
	IS(0, fm_gpu_set_resume(set));
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	MUST(stats(0).done == JOBS && stats(1).done == JOBS && stats(2).done == JOBS);
	fm_gpu_set_free(set);
	read_log();
	MUST(m.ran == 6 * JOBS);
	for (unsigned i = 0, seen[3] = {0}; i < 6 * JOBS; i++) {
		uint64_t n = m.order[i];
		unsigned of = n >= 256 ? 2 : n == 102, at = seen[of]++;
		bool second = at & 1, middle = at - at / 3 * 3 == 1;

		MUST(of != 0 || n == (middle ? 101 : 100));
		MUST(of != 1 || seen[1] <= seen[0] / 3);
		MUST(of != 2 || (n & 255) == second);
	}
	MUST(!cuGraphExecDestroy(graph[0]) && !cuGraphExecDestroy(graph[1]));
	MUST(!cuGraphExecDestroy(one));
}

static int fail(struct CUstream_st *stream)
{
	(void)stream;
	return -ENOTTY;
}

static int synchronise(struct CUstream_st *stream)
{
	MUST(cuStreamSynchronize(stream) == 800);
	MUST(cuCtxSynchronize() == 800);
	return 0; /* it does not care */
}

static int call_host(struct CUstream_st *stream)
{
	return cuLaunchHostFunc(stream, run_chunk, &task[0]) ? -EIO : 0;
}

static int copy_from_host(struct CUstream_st *stream)
{
	static uint64_t word;

	return cuMemcpyHtoDAsync_v2(m.log, &word, sizeof(word), stream) ? -EIO : 0;
}

static int end_capture(struct CUstream_st *stream)
{
	CUgraph graph = NULL;

	if (!cuStreamEndCapture(stream, &graph) && graph)
		MUST(!cuGraphDestroy(graph));
	return 0;
}

static int destroy_stream(struct CUstream_st *stream)
{
	MUST(cuStreamDestroy_v2(stream) == 800);
	return 0;
}

/* It is called when the set starts, and that is what fails. */
static void enqueues_that_fail(void)
{
	static const struct {
		int (*enqueue)(struct CUstream_st *stream);
		int error;
		const char *why;
	} way[] = {
		{fail, -ENOTTY, "\", chunk 0: its enqueue has failed"},
		{synchronise, -EDEADLK, "has waited for the device"},
		{call_host, -EINVAL, "a host function is nothing that the device can launch"},
		{copy_from_host, -EINVAL, "is nothing that the device can launch"},
		{end_capture, -EINVAL, "cannot be captured"},
		{launch_nothing, 0, ""},
		{destroy_stream, 0, ""},
	};
	CUdeviceptr d;

	open_context();
	for (size_t i = 0; i < sizeof(way) / sizeof(*way); i++) {
		int rc;

		clear_log();
		new_set("fifo");
		IS(0, add_graphs(1, 0, NULL, NULL));
		IS(1, add_graphs(2, 0, NULL, NULL));
		task[(2 * i) % TASKS].first = way[i].enqueue;
		rc = fm_gpu_set_start(set);
		skip_without_runtime(rc);
		IS(way[i].error, rc);
		MUST(strstr(why(), way[i].why));
		MUST(!cuMemAlloc_v2(&d, 4096) && !cuMemFree_v2(d) && !cuCtxSynchronize());
		if (rc) {
			IS(-ESHUTDOWN, fm_gpu_release(set, 1, 1));
			task[(2 * i) % TASKS].first = NULL;
			start_set(); /* that is mended */
		}
		IS(0, fm_gpu_release(set, 0, 2));
		IS(0, fm_gpu_release(set, 1, 2));
		IS(0, fm_gpu_set_drain(set, PATIENCE));
		read_log();
		MUST(stats(0).done == 2 && stats(1).done == 2 && !stats(0).error);
		MUST(m.ran == (rc ? 6u : 4u));
		fm_gpu_set_free(set);
	}
}

/* A call that waits for the device comes when a chunk has ended, and the set goes on behind it. */
static void calls_that_wait(void)
{
	CUdeviceptr d;

	open_context();
	make_set(5);
	for (unsigned round = 0; round < 20; round++) {
		MUST(!cuMemAlloc_v2(&d, 4096));
		for (unsigned i = 0; i < 5; i++)
			IS(0, fm_gpu_release(set, i, 3));
		MUST(!cuMemFree_v2(d));
	}
	IS(0, fm_gpu_set_suspend(set));
	for (unsigned i = 0; i < 5; i++)
		IS(0, fm_gpu_release(set, i, 3));
	MUST(!cuMemAlloc_v2(&d, 4096) && !cuMemFree_v2(d));
	IS(0, fm_gpu_set_resume(set));
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	read_log();
	for (unsigned i = 0; i < 5; i++)
		MUST(stats(i).done == 63);
	MUST(m.ran == 63 * (1 + 2 + 3 + 1 + 2));
	MUST(!cuCtxSynchronize());
	fm_gpu_set_free(set);
}

static void contexts_end(void)
{
	struct fm_gpu_set *first;
	CUcontext one;

	open_context();
	one = m.ctx;
	make_set(3);
	first = set;
	open_context();
	make_set(2);
	IS(0, fm_gpu_release(first, 1, 5));
	IS(0, fm_gpu_release(set, 1, 5));
	MUST(!cuCtxDestroy_v2(one));
	IS(-ENODEV, fm_gpu_release(first, 0, 1));
	IS(-ENODEV, fm_gpu_set_drain(first, PATIENCE));
	IS(-ENODEV, fm_gpu_set_start(first));
	fm_gpu_set_free(first);
	IS(0, fm_gpu_release(set, 0, 3));
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	MUST(stats(FM_GPU_SET).done == 8);
	fm_gpu_set_free(set);
	MUST(!cuCtxDestroy_v2(m.ctx));
}

static void forks(void)
{
	int status;
	pid_t child;

	open_context();
	make_set(2);
	IS(0, fm_gpu_release(set, 0, 5));
	child = fork();
	if (!child) {
		fm_gpu_set_free(set);
		_exit(fm_gpu_release(set, 0, 1) == -EBADF ? 7 : 1);
	}
	MUST(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	MUST(stats(0).done == 5);
	fm_gpu_set_free(set);
}

/* The process ends, and its set has work, which waits. */
static void exits(void)
{
	open_context();
	make_set(3);
	IS(0, fm_gpu_set_suspend(set));
	for (unsigned i = 0; i < 3; i++)
		IS(0, fm_gpu_release(set, i, 20));
}

static void free_late(void)
{
	fm_gpu_set_free(set);
}

static void exits_and_frees(void)
{
	MUST(!atexit(free_late));
	exits();
}

/* No chunk begins any more, and those that wait never run. */
static void free_at_work(void)
{
	open_context();
	make_set(3);
	for (unsigned i = 0; i < 3; i++)
		IS(0, fm_gpu_release(set, i, 20));
	fm_gpu_set_free(set);
	MUST(!cuCtxSynchronize());
	read_log();
	MUST(m.ran <= 120);
}

/* Several threads release, and it rests and begins again all the time: none is lost. */
static void *release_one(void *arg)
{
	unsigned of = (unsigned)(uintptr_t)arg;

	for (unsigned i = 0; i < 300; i++) {
		IS(0, fm_gpu_release(set, of, 1));
		while (stats(of).done + 1 < i)
			sched_yield();
	}
	return NULL;
}

static void begins_again(void)
{
	pthread_t thread[3];

	open_context();
	make_set(3);
	for (uintptr_t i = 0; i < 3; i++)
		MUST(!pthread_create(&thread[i], NULL, release_one, (void *)i));
	for (unsigned i = 0; i < 3; i++)
		MUST(!pthread_join(thread[i], NULL));
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	read_log();
	MUST(stats(FM_GPU_SET).done == 900 && m.ran == 300 * (1 + 2 + 3));
	fm_gpu_set_free(set);
}

/* A release is told while the chain has other jobs, and is held there until that has rested, as it
 * says, and has gone on with what was released. Before anything else the set is parked: nothing
 * begins when the device has heard of that. */
static struct {
	uint64_t first; /* done, and it rests */
	_Atomic bool held, goes_on, over;
} held;

static void hold(void)
{
	held.held = true;
	while (!held.goes_on)
		sched_yield();
}

static void *park_held(void *arg)
{
	while (!held.held && !held.over)
		sched_yield();
	IS(0, fm_gpu_set_suspend(set));
	return arg;
}

static void *let_go(void *arg)
{
	while (!held.over && (!held.held || stats(0).done < held.first))
		sched_yield();
	held.goes_on = true;
	return arg;
}

static void parks(void)
{
	enum { ROUNDS = 10, JOBS = 60, MANY = 400 };
	void *(*const does[])(void *) = {park_held, let_go};
	pthread_t thread[2];

	MUST(fake_cuda_at);
	open_context();
	new_set("fifo");
	IS(0, add_graphs(MANY / 10, 0, NULL, NULL));
	IS(1, add_graphs(MANY, 0, NULL, NULL));
	start_set();
	for (unsigned i = 1; i <= ROUNDS; i++) {
		uint64_t started = stats(FM_GPU_SET).started;

		held.first = i * JOBS;
		held.held = held.goes_on = held.over = false;
		for (unsigned k = 0; k < 2; k++)
			MUST(!pthread_create(&thread[k], NULL, does[k], NULL));
		IS(0, fm_gpu_release(set, 0, JOBS));
		while (stats(FM_GPU_SET).started == started)
			sched_yield();
		fake_cuda_at("cuLaunchKernelEx", hold);
		IS(0, fm_gpu_release(set, 1, JOBS));
		fake_cuda_at(NULL, hold);
		held.over = true; /* if it rested before, nothing was held */
		for (unsigned k = 0; k < 2; k++)
			MUST(!pthread_join(thread[k], NULL));
		started = stats(FM_GPU_SET).started; /* behind the news of the park */
		for (unsigned k = 0; k < 3; k++)
			MUST(stats(FM_GPU_SET).started == started);
		IS(0, fm_gpu_set_resume(set));
		while (stats(1).done < held.first)
			sched_yield();
	}
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	fm_gpu_set_free(set);
}

/* Whichever call fails: an error is told, or nobody needs to know, and nothing hangs. */
static void each_call_fails(void)
{
	unsigned told = 0, n = 0;

	MUST(fake_cuda_fail);
	open_context();
	for (unsigned nth = 1; !n || nth <= n; nth++) {
		int error = 0, rc;
		unsigned counted;
		uint64_t *word;

		fake_cuda_fail("*", nth, 999);
		set = make("fifo", slots, &error);
		MUST(set || error);
		if (!set) {
			told++;
			continue;
		}
		add_graphs(2, 0, NULL, NULL);
		add_graphs(1, 0, NULL, NULL);
		rc = resident ? fm_gpu_release_word(set, 1, &word) : 0;
		rc = rc ? rc : fm_gpu_set_start(set);
		if (!rc) {
			rc = fm_gpu_release(set, 0, 2) | fm_gpu_release(set, 1, 1);
			rc |= fm_gpu_set_drain(set, PATIENCE);
			MUST(rc || stats(FM_GPU_SET).done == 3);
		}
		told += rc != 0;
		fm_gpu_set_free(set);
		counted = fake_cuda_counted();
		fake_cuda_fail("", 0, 0);
		if (counted < nth)
			break;
		n = nth + 1;
		MUST(nth < 2000);
	}
	MUST(told > 10);
	fake_cuda_fail("", 0, 0);
	make_set(2);
	IS(0, fm_gpu_release(set, 0, 2));
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	fm_gpu_set_free(set);
}

static void does_not_start(const char *reason)
{
	open_context();
	new_set("fifo");
	IS(0, add_graphs(1, 0, NULL, NULL));
	IS(-ENOSYS, fm_gpu_set_start(set));
	MUST(strstr(why(), reason));
	fm_gpu_set_free(set);
}

static void no_runtime(void)
{
	does_not_start("there is no device runtime");
}

static void refused_runtime(void)
{
	does_not_start("the driver does not take the kernel that launches graphs: cuLinkAddFile is "
		       "error 200 (error   : it is no library), with the device runtime /");
}

/* --- sets that are resident --- */

static CUstream stores; /* code of the device */
static uint64_t stored[TASKS];

static void add_to(uint64_t *word, unsigned of, unsigned jobs)
{
	stored[of] += jobs;
	MUST(!cuStreamWriteValue64_v2(stores, (CUdeviceptr)(uintptr_t)word, stored[of], 0));
	MUST(!cuStreamSynchronize(stores));
}

static void await(unsigned of, uint64_t done)
{
	double end = seconds() + 120;

	while (stats(of).done < done) {
		MUST(seconds() < end);
		usleep(1000);
	}
}

static void new_resident(void)
{
	resident = true;
	open_context();
	MUST(!cuStreamCreate(&stores, 1));
	new_set("edf");
}

/* By period and by word, and what comes after both; calls that wait for the device meanwhile. */
static void periods_and_words(void)
{
	const unsigned after[] = {1};
	uint64_t *word, periods;
	CUdeviceptr d;

	new_resident();
	IS(0, add_graphs(2, 0, NULL, NULL));
	IS(1, add_period(5000000, 1));
	IS(2, add_graphs(1, 0, after, NULL));
	IS(0, fm_gpu_release_word(set, 0, &word));
	add_to(word, 0, 1); /* before the start */
	start_set();
	await(0, 1);
	await(2, 3);
	for (unsigned i = 0; i < 20; i++) {
		MUST(!cuMemAlloc_v2(&d, 4096));
		add_to(word, 0, 1 + i % 3);
		await(0, stored[0]);
		IS(0, fm_gpu_release(set, 1, 1)); /* more than by period */
		MUST(!cuMemFree_v2(d));
		MUST(i & 3 || !cuCtxSynchronize());
	}
	IS(0, fm_gpu_set_suspend(set));
	while (stats(FM_GPU_SET).running) /* behind the news of that */
		usleep(1000);
	add_to(word, 0, 2);
	periods = stats(1).released;
	while (stats(1).released < periods + 3) /* in time, though nothing runs */
		usleep(1000);
	MUST(!stats(FM_GPU_SET).running);
	IS(0, fm_gpu_set_resume(set));
	await(0, stored[0]);
	IS(0, fm_gpu_set_suspend(set));
	stats(0);
	add_to(word, 0, 1);
	IS(-ETIMEDOUT, fm_gpu_set_drain(set, 1000000));
	stats(0);
	stats(0); /* behind the news of the drain, and the decision about it */
	add_to(word, 0, 4);
	periods = stats(1).released;
	IS(0, fm_gpu_set_resume(set));
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	MUST(stats(0).done == stored[0] - 4 && stats(1).done == periods && !stats(1).spare);
	MUST(came_after(2, 1));
	read_log();
	MUST(m.ran == 2 * stats(0).done + periods + stats(2).done);
	start_set(); /* what came in the drain, and the next periods */
	await(0, stored[0]);
	await(1, periods + 2);
	fm_gpu_set_free(set);
	MUST(!cuCtxSynchronize());
}

/* It ends with its context, or with the process, while a chain stays. */
static void resident_ends(void)
{
	uint64_t *word;

	new_resident();
	IS(0, add_graphs(1, 0, NULL, NULL));
	IS(0, fm_gpu_release_word(set, 0, &word));
	start_set();
	add_to(word, 0, 3);
	await(0, 3);
	MUST(!cuCtxDestroy_v2(m.ctx));
	IS(-ENODEV, fm_gpu_set_drain(set, PATIENCE));
	fm_gpu_set_free(set);
	new_resident();
	IS(0, add_graphs(1, 0, NULL, NULL));
	IS(0, fm_gpu_release_word(set, 0, &word));
	start_set();
}

/* --- several slots --- */

/* One graph is at work once. */
static void own_graphs_on_slots(void)
{
	enum { BY_DEVICE = 4 };
	CUgraphExec graph[2], other[2];

	slots = 2;
	open_context();
	graph[0] = graph[1] = other[1] = own_graph(7, BY_DEVICE, false);
	other[0] = own_graph(8, BY_DEVICE, false);
	new_set("edf");
	IS(0, add_graphs(2, 0, NULL, graph)); /* one task's chunks run one after the other */
	IS(1, add_graphs(2, 0, NULL, other));
	IS(-EINVAL, fm_gpu_set_start(set));
	MUST(strstr(why(), "task 1 \"task1\", chunk 1: its graph is that of another task, too"));
	fm_gpu_set_free(set);
	other[1] = other[0];
	new_set("edf");
	IS(0, add_graphs(2, 0, NULL, graph));
	IS(1, add_graphs(2, 0, NULL, other));
	start_set();
	for (unsigned i = 0; i < 30; i++)
		IS(0, fm_gpu_release(set, i % 2, 1));
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	read_log();
	MUST(m.ran == 60 && stats(0).done == 15 && stats(1).done == 15);
	fm_gpu_set_free(set);
}

/* Waits until it has been launched so often. */
static int launch_meet(struct CUstream_st *stream)
{
	static const uint64_t most = 3;
	void *params[] = {&m.met, (void *)(uintptr_t)&most};

	return cuLaunchKernel(m.meet, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL) ? -EIO : 0;
}

/* The end of one job releases three, which run at once; what the host releases does, too. */
static void slots_run_at_once(void)
{
	const unsigned after[] = {3};

	slots = 3;
	for (unsigned round = 0; round < 2; round++) {
		open_context();
		new_set("fifo");
		for (unsigned i = 0; i < 3; i++) {
			IS((int)i, add_graphs(1, 0, round ? after : NULL, NULL));
			task[round * 4 + i].first = launch_meet;
		}
		IS(3, add_graphs(1, 0, NULL, NULL));
		start_set();
		for (unsigned i = 0; i < 3 && !round; i++)
			IS(0, fm_gpu_release(set, i, 1));
		IS(0, fm_gpu_release(set, 3, 1));
		IS(0, fm_gpu_set_drain(set, PATIENCE));
		MUST(stats(FM_GPU_SET).done == 4);
		fm_gpu_set_free(set);
	}
}

/* A task after another on each slot, and threads that release: none is lost, and each chunk runs
 * once, in the order of its job's. */
static void many_on_slots(void)
{
	const unsigned after[] = {0};
	unsigned next[4] = {0};
	pthread_t thread[3];

	slots = 3;
	open_context();
	new_set("fixed-priority");
	for (unsigned i = 0; i < 3; i++)
		IS((int)i, add_graphs(1 + i % 3, (int)i, NULL, NULL));
	IS(3, add_graphs(2, 5, after, NULL));
	start_set();
	for (uintptr_t i = 0; i < 3; i++)
		MUST(!pthread_create(&thread[i], NULL, release_one, (void *)i));
	for (unsigned i = 0; i < 3; i++)
		MUST(!pthread_join(thread[i], NULL));
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	for (unsigned i = 0; i < 4; i++)
		MUST(stats(i).done == 300);
	read_log();
	MUST(m.ran == 300 * (1 + 2 + 3 + 2));
	for (unsigned i = 0; i < m.ran; i++) {
		unsigned of = (unsigned)(m.order[i] >> 8) & 3, chunks = of == 3 ? 2 : 1 + of;

		MUST(m.order[i] == (of << 8 | next[of]));
		next[of] = next[of] + 1 == chunks ? 0 : next[of] + 1;
	}
	MUST(!cuCtxSynchronize());
	fm_gpu_set_free(set);
}

/* --- until it is told to stop --- */

static void worker(unsigned jobs)
{
	const unsigned after[] = {0}, clock = 5;
	uint64_t told = 0, chunks = 0, done = 0;
	unsigned wrong = 0;

	open_context();
	new_set("fair");
	for (unsigned i = 0; i < 5; i++)
		IS((int)i, add_graphs(1 + i % 3, 0, i == 4 ? after : NULL, NULL));
	if (resident)
		IS((int)clock, add_period(3000000, 1));
	start_set();
	puts("ready");
	fflush(stdout);
	if (jobs && getchar() == EOF) /* until it is known */
		return;
	for (unsigned n = 0; jobs ? n < jobs : !told_to_stop(); n++) {
		for (unsigned i = 0; i < 4; i++)
			if (stats(i).released - stats(i).done < 32)
				IS(0, fm_gpu_release(set, i, 1));
		done = stats(FM_GPU_SET).done;
		if (done != told)
			printf("at %llu %f\n", (unsigned long long)(told = done), seconds());
		fflush(stdout);
	}
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	for (unsigned i = 0; i < 5; i++)
		chunks += stats(i).done * (1 + i % 3);
	read_log();
	chunks += resident ? stats(clock).done : 0;
	wrong += WRONG_UNLESS(m.ran == chunks);
	wrong += WRONG_UNLESS(came_after(4, 0));
	fm_gpu_set_free(set);
	printf("done %llu %f %u\n", (unsigned long long)m.ran, seconds(), wrong);
}

/* --- what it costs: chunks without work, so that all of their time is the set's --- */

/* A line: tasks, us of a chunk with its decision while jobs wait, us of a decision (mean, maximum),
 * us from the call that releases a job of an idle set to its end (P50, P99). */
static void measure(unsigned n)
{
	enum { JOBS = 64, ONES = 400 };
	struct fm_gpu_stats s;
	double took[ONES], from, cycle;

	open_context();
	new_set("fixed-priority");
	for (unsigned i = 0; i < n; i++) {
		IS((int)i, add_graphs(1 + i % 3, (int)i, NULL, NULL));
		task[i].first = launch_nothing;
	}
	start_set();
	IS(0, fm_gpu_release(set, 0, 1));
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	IS(0, fm_gpu_set_start(set));
	from = seconds();
	for (unsigned i = 0; i < n; i++)
		IS(0, fm_gpu_release(set, i, JOBS));
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	s = stats(FM_GPU_SET);
	cycle = (seconds() - from) / (double)s.started;
	IS(0, fm_gpu_set_start(set));
	for (unsigned i = 0; i < ONES; i++) {
		uint64_t done = stats(0).done;

		from = seconds();
		IS(0, fm_gpu_release(set, 0, 1));
		while (stats(0).done == done)
			;
		took[i] = seconds() - from;
	}
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	qsort(took, ONES, sizeof(*took), by_time);
	printf("row %u %.2f %.2f %.2f %.1f %.1f\n", n, cycle * 1e6,
		(double)s.decision_ns / (double)s.decisions / 1000,
		(double)s.decision_max_ns / 1000, took[ONES / 2] * 1e6,
		took[ONES * 99 / 100] * 1e6);
	fm_gpu_set_free(set);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{"refusals", refusals},
	{"order", the_policy_orders},
	{"own", own_graphs},
	{"enqueues", enqueues_that_fail},
	{"waits", calls_that_wait},
	{"contexts", contexts_end},
	{"forks", forks},
	{"exits", exits},
	{"exits-and-frees", exits_and_frees},
	{"free", free_at_work},
	{"again", begins_again},
	{"parks", parks},
	{"fails", each_call_fails},
	{"no-runtime", no_runtime},
	{"refused-runtime", refused_runtime},
	{"resident-fails", each_call_fails},
	{"resident", periods_and_words},
	{"resident-ends", resident_ends},
	{"slots-own", own_graphs_on_slots},
	{"slots", many_on_slots},
	{"slots-at-once", slots_run_at_once},
};

int main(int argc, char **argv)
{
	engine = "graphs";
	if (argc < 2)
		return 2;
	if (cuInit(0))
		return 77; /* no device */
	if (!strcmp(argv[1], "measure")) {
		measure(argc > 2 ? (unsigned)atoi(argv[2]) : 2);
		return 0;
	}
	if (strstr(argv[1], "-worker") || strstr(argv[1], "-fails")) {
		resident = !strncmp(argv[1], "resident", 8);
		slots = 2;
	}
	if (strstr(argv[1], "worker")) {
		worker(argc > 2 ? (unsigned)atoi(argv[2]) : 0);
		return 0;
	}
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		if (!strcmp(argv[1], cases[i].name)) {
			cases[i].run();
			puts("ok");
			return 0;
		}
	return 2;
}
