/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of tasks that decide on the device (<fermata/gpu_sched.h>, engine "gates"), as a program
 * uses them: one case of those below, "worker", which test_cuda_gpu_set.py drives, or "measure
 * TASKS". Whatever is not as it should be ends it with a text. It is linked with libfermata; what
 * is preloaded has the engine.
 */
#include "cuda_gpu_set.h"

static void make_set(unsigned n, unsigned slots)
{
	int error;

	set = make("fixed-priority", slots, &error);
	if (!set)
		die("no set: %d", error);
	for (unsigned i = 0; i < n; i++)
		IS((int)i, add(set, 1 + i % 3, (int)i, NULL));
	IS(0, fm_gpu_set_start(set));
}

/* --- cases --- */

static void refusals(void)
{
	struct fm_gpu_set_options options = {
		.size = sizeof(options), .policy = "edf", .slots = 1, .engine = "gates"};
	struct fm_gpu_task t = {.size = sizeof(t), .wcet_ns = 1};
	struct CUgraphExec_st *graph[1] = {NULL};
	int error = 0;

	MUST(!cuInit(0));
	MUST(!fm_gpu_set_new(&options, &error) && error == -ENODEV);
	begin();
	options.virtual_time = true;
	MUST(!fm_gpu_set_new(&options, &error) && error == -EOPNOTSUPP);
	options.virtual_time = false;
	options.group = "robots";
	MUST(!fm_gpu_set_new(&options, &error) && error == -EOPNOTSUPP);
	options.group = NULL;
	options.device = "arm";
	MUST(!fm_gpu_set_new(&options, &error) && error == -EOPNOTSUPP);
	options.device = NULL;
	options.engine = "grids";
	MUST(!fm_gpu_set_new(&options, &error) && error == -EINVAL);
	options.engine = NULL;
	set = fm_gpu_set_new(&options, &error);
	MUST(set && !error);
	IS(-EINVAL, fm_gpu_task_add(set, &t));
	t.graph = graph;
	IS(-EOPNOTSUPP, fm_gpu_task_add(set, &t));
	for (int i = 0; i < TASKS; i++)
		IS(i, add(set, 1, 0, NULL));
	IS(-E2BIG, add(set, 1, 0, NULL));
	MUST(strstr(why(), "32 tasks at most"));
	IS(-E2BIG, fm_gpu_set_start(set)); /* 32 channels, of which some are kept */
	MUST(strstr(why(), "32 tasks, and room for "));
	fm_gpu_set_free(set);
}

/* The program has launched something by itself. */
static void have_a_queue(void)
{
	CUstream own;
	CUdeviceptr d;

	MUST(!cuStreamCreate(&own, 1) && !cuMemAlloc_v2(&d, 4096));
	MUST(!cuMemsetD8Async(d, 0, 4096, own) && !cuStreamSynchronize(own));
}

static void the_policy_orders(void)
{
	begin();
	have_a_queue();
	make_set(4, 1);
	IS(0, fm_gpu_set_suspend(set));
	for (unsigned i = 0; i < 4; i++)
		IS(0, fm_gpu_release(set, i, 2));
	IS(-ETIMEDOUT, fm_gpu_set_drain(set, 20000000));
	MUST(!ran);
	IS(-ESHUTDOWN, fm_gpu_release(set, 0, 1));
	IS(0, fm_gpu_set_resume(set));
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	for (unsigned i = 0; i < 14; i++) /* 2 x 1, 3, 2, 1 chunks */
		MUST(order[i] == (i < 2 ? 3u : i < 8 ? 2u : i < 12 ? 1u : 0u));
	MUST(ran == 14);
	MUST(stats(2).done == 2 && stats(FM_GPU_SET).started == 14);
	MUST(stats(FM_GPU_SET).decisions >= 14 && stats(2).response_max_ns);
	IS(0, fm_gpu_set_start(set)); /* again, and one more task before */
	IS(-EBUSY, add(set, 1, 0, NULL));
	IS(0, fm_gpu_release(set, 2, 1));
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	MUST(stats(2).done == 3 && ran == 17);
	IS(4, add(set, 1, 0, NULL));
	IS(0, fm_gpu_set_start(set));
	IS(0, fm_gpu_release(set, 4, 500)); /* more than wait */
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	MUST(stats(4).done + stats(4).dropped == 500 && stats(4).done >= 64);
	fm_gpu_set_free(set);
}

/* The jobs of one that comes after another are dropped, as the other goes on: nothing is left of
 * these, for which calls would wait. */
static void drops_what_comes_after(void)
{
	const unsigned after[] = {0};
	CUdeviceptr d;
	int error = 0;

	begin();
	set = make("fixed-priority", 1, &error);
	MUST(set);
	IS(0, add(set, 2, 1, NULL));
	IS(1, add(set, 1, 0, after));
	IS(0, fm_gpu_set_start(set));
	while (!stats(1).dropped)
		if (stats(0).released - stats(0).done < 40)
			IS(0, fm_gpu_release(set, 0, 20));
	while (stats(0).done != stats(0).released ||
		stats(1).done + stats(1).dropped != stats(0).done)
		sched_yield();
	MUST(!cuMemAlloc_v2(&d, 4096) && !cuMemFree_v2(d));
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	MUST(task[1].ran == stats(1).done);
	IS(0, fm_gpu_set_start(set)); /* what was dropped before does not count */
	IS(0, fm_gpu_release(set, 0, 1));
	while (stats(1).done + stats(1).dropped != stats(0).released)
		sched_yield();
	MUST(!cuMemAlloc_v2(&d, 4096) && !cuMemFree_v2(d));
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	IS(0, fm_gpu_set_start(set));
	IS(0, fm_gpu_release(set, 0, 500));
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	MUST(stats(0).dropped);
	IS(0, fm_gpu_set_start(set));
	IS(0, fm_gpu_release(set, 0, 1));
	MUST(!cuMemAlloc_v2(&d, 4096) && !cuMemFree_v2(d));
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	MUST(task[0].ran == 2 * stats(0).done && task[1].ran == stats(1).done);
	fm_gpu_set_free(set);
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

static int release_memory(struct CUstream_st *stream)
{
	CUdeviceptr d;

	(void)stream;
	MUST(!cuMemAlloc_v2(&d, 4096));
	MUST(cuMemFree_v2(d) == 800);
	return 0;
}

static int leave_capture(struct CUstream_st *stream)
{
	return cuStreamBeginCapture_v2(stream, 2) ? -EIO : 0;
}

static int capture_whole(struct CUstream_st *stream)
{
	CUgraphExec exec;
	CUgraph graph;
	int rc = cuStreamBeginCapture_v2(stream, 2) ||
		 cuLaunchHostFunc(stream, run_chunk, &task[0]) ||
		 cuStreamEndCapture(stream, &graph);

	rc = rc || cuGraphInstantiateWithFlags(&exec, graph, 0) || cuGraphLaunch(exec, stream) ||
	     cuGraphExecDestroy(exec) || cuGraphDestroy(graph);
	return rc ? -EIO : 0;
}

static int destroy_stream(struct CUstream_st *stream)
{
	MUST(cuStreamDestroy_v2(stream) == 800);
	return 0;
}

static void enqueues_that_fail(void)
{
	static const struct {
		int (*enqueue)(struct CUstream_st *stream);
		int error;
		const char *why;
	} way[] = {
		{fail, -ENOTTY, "has failed"},
		{synchronise, -EDEADLK, "has waited for the device"},
		{release_memory, -EDEADLK, "has waited for the device"},
		{leave_capture, -EINVAL, "in a capture"},
		{launch_nothing, 0, ""},
		{destroy_stream, 0, ""},
		{capture_whole, 0, ""},
	};
	CUdeviceptr d;
	int rc;

	begin();
	for (size_t i = 0; i < sizeof(way) / sizeof(*way); i++) {
		ran = 0;
		make_set(2, 1);
		task[(2 * i) % TASKS].first = way[i].enqueue;
		rc = fm_gpu_release(set, 0, 2);
		while (way[i].error && !rc) { /* a thread of the set may be in enqueue just now */
			usleep(200);
			rc = fm_gpu_release(set, 0, 1);
		}
		IS(way[i].error, rc);
		MUST(strstr(why(), way[i].why));
		MUST(!cuMemAlloc_v2(&d, 4096) && !cuMemFree_v2(d) && !cuCtxSynchronize());
		IS(way[i].error, fm_gpu_release(set, 0, 1));
		IS(0, fm_gpu_release(set, 1, 2));
		IS(0, fm_gpu_set_drain(set, PATIENCE));
		MUST(stats(0).done == (way[i].error ? 0u : 3u));
		MUST(stats(0).error == way[i].error && stats(1).done == 2);
		fm_gpu_set_free(set);
	}
}

/* What waits for the device and holds a lock of the driver's comes when nothing stands there. */
static void calls_that_wait(void)
{
	CUdeviceptr d;

	begin();
	make_set(5, 2);
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
	for (unsigned i = 0; i < 5; i++)
		MUST(stats(i).done == 63 && task[i].ran == 63 * task[i].chunks && !task[i].wrong);
	MUST(!cuCtxSynchronize());
	fm_gpu_set_free(set);
}

static void contexts_end(void)
{
	CUcontext one = begin(), two;
	struct fm_gpu_set *first;

	make_set(3, 1);
	first = set;
	two = begin();
	make_set(2, 1);
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
	MUST(!cuCtxDestroy_v2(two));
}

static CUfunction spin;

static int write_at(struct CUstream_st *stream, CUdeviceptr at)
{
	uint64_t ns = 0;

	return cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&at, &ns}, NULL) ? -EIO
											     : 0;
}

static CUdeviceptr there;

static int write_there(struct CUstream_st *stream)
{
	return write_at(stream, there);
}

static void run_on_all(void)
{
	uint64_t done = stats(FM_GPU_SET).done;

	for (unsigned i = 0; i < TASKS; i++)
		task[i].first = write_there;
	for (unsigned i = 0; i < 3; i++)
		IS(0, fm_gpu_release(set, i, 2));
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	MUST(stats(FM_GPU_SET).done == done + 6);
	IS(0, fm_gpu_set_start(set));
}

/* The driver loads a kernel when it is launched first, and waits for the device, on which chunks
 * stand at gates of the set. It was loaded before: as the set was started, or when the program got
 * it. */
static void launches_for_the_first_time(void)
{
	CUmodule before, meanwhile;

	begin();
	MUST(!cuMemAlloc_v2(&there, 4096));
	MUST(!cuModuleLoad(&before, CUDA_PTX) && !cuModuleGetFunction(&spin, before, "spin"));
	make_set(3, 1);
	run_on_all();
	MUST(!cuModuleLoad(&meanwhile, CUDA_PTX));
	MUST(!cuModuleGetFunction(&spin, meanwhile, "spin"));
	run_on_all();
	MUST(!cuModuleUnload(before));
	run_on_all();
	fm_gpu_set_free(set);
}

/* Likewise by a driver that has libraries, of which no module is known. */
static void launches_of_a_library(void)
{
	CUlibrary library;

	begin();
	MUST(!cuMemAlloc_v2(&there, 4096));
	MUST(!cuLibraryLoadFromFile(&library, CUDA_PTX, NULL, NULL, 0, NULL, NULL, 0));
	MUST(!cuLibraryGetKernel((CUkernel *)&spin, library, "spin"));
	make_set(3, 1);
	run_on_all();
	MUST(!cuLibraryUnload(library));
	MUST(!cuLibraryLoadFromFile(&library, CUDA_PTX, NULL, NULL, 0, NULL, NULL, 0));
	MUST(!cuLibraryGetKernel((CUkernel *)&spin, library, "spin"));
	run_on_all();
	fm_gpu_set_free(set);
}

static int write_nowhere(struct CUstream_st *stream)
{
	return write_at(stream, 64);
}

/* The set is over, and says so from then on; the program ends as it likes. */
static void traps(void)
{
	CUmodule module;
	CUdeviceptr d;
	int rc;

	begin();
	MUST(!cuModuleLoad(&module, CUDA_PTX) && !cuModuleGetFunction(&spin, module, "spin"));
	MUST(!cuMemAlloc_v2(&d, 4096) && !write_at(NULL, d) && !cuCtxSynchronize());
	make_set(3, 1);
	IS(0, fm_gpu_release(set, 0, 5));
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	IS(0, fm_gpu_set_start(set));
	for (unsigned i = 0; i < TASKS; i++)
		task[i].first = i % 3 == 2 ? write_nowhere : NULL;
	rc = fm_gpu_release(set, 2, 1);
	while (!rc)
		rc = fm_gpu_release(set, 0, 1);
	MUST(rc == -ENODEV && *why());
	IS(-ENODEV, fm_gpu_set_drain(set, PATIENCE));
	MUST(fm_gpu_set_start(set) < 0 && cuCtxSynchronize());
	fm_gpu_set_free(set);
}

static void *destroy(void *ctx)
{
	MUST(!cuCtxDestroy_v2(ctx));
	return NULL;
}

/* A thread ends the context while another one frees the set. */
static void contexts_end_and_sets(void)
{
	pthread_t thread;

	for (unsigned i = 0; i < 20; i++) {
		CUcontext ctx = begin();

		make_set(2, 1);
		IS(0, fm_gpu_release(set, 1, 3));
		MUST(!pthread_create(&thread, NULL, destroy, ctx));
		if (i % 2)
			sched_yield();
		fm_gpu_set_free(set);
		MUST(!pthread_join(thread, NULL) && !cuCtxPopCurrent_v2(&ctx));
	}
}

static void forks(void)
{
	int status;
	pid_t child;

	begin();
	make_set(2, 1);
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

/* The process ends, and its set has work, which stands. */
static void exits(void)
{
	begin();
	make_set(3, 1);
	IS(0, fm_gpu_set_suspend(set));
	for (unsigned i = 0; i < 3; i++)
		IS(0, fm_gpu_release(set, i, 20));
}

static void free_late(void)
{
	fm_gpu_set_free(set);
}

/* Likewise, and what the program has registered before it made the set frees it. */
static void exits_and_frees(void)
{
	MUST(!atexit(free_late));
	exits();
}

static void free_at_work(void)
{
	begin();
	make_set(3, 1);
	for (unsigned i = 0; i < 3; i++)
		IS(0, fm_gpu_release(set, i, 20));
	fm_gpu_set_free(set);
	MUST(!cuCtxSynchronize());
}

static void run_one(void)
{
	uint64_t done = stats(0).done;

	IS(0, fm_gpu_release(set, 0, 1));
	while (stats(0).done == done)
		sched_yield();
}

static void ends_without_a_turn(void)
{
	begin();
	make_set(2, 1);
	drains_in_time(run_one);
	run_one();
	idle();
	fm_gpu_set_free(set);
}

/* Whichever call fails: an error is told, or nobody needs to know, and nothing hangs. */
static void each_call_fails(void)
{
	unsigned told = 0, n = 0;

	MUST(fake_cuda_fail);
	begin();
	for (unsigned nth = 1; !n || nth <= n; nth++) {
		int error = 0, rc;
		unsigned counted;

		fake_cuda_fail("*", nth, 999);
		set = make("fifo", 1, &error);
		MUST(set || error);
		if (!set) {
			told++;
			continue;
		}
		add(set, 2, 0, NULL);
		add(set, 1, 0, NULL);
		rc = fm_gpu_set_start(set);
		if (!rc) {
			rc = fm_gpu_release(set, 0, 2) | fm_gpu_release(set, 1, 1);
			rc |= fm_gpu_set_drain(set, PATIENCE);
			/* A thread of the set may have put a chunk, and then that has the error. */
			rc |= stats(FM_GPU_SET).error;
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
	make_set(2, 1);
	IS(0, fm_gpu_release(set, 0, 2));
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	fm_gpu_set_free(set);
}

/* --- until it is told to stop --- */

static void worker(unsigned jobs)
{
	const unsigned after[] = {0};
	unsigned wrong = 0, told = 0;
	int error;

	begin();
	set = make("fair", 2, &error);
	MUST(set);
	for (unsigned i = 0; i < 5; i++)
		IS((int)i, add(set, 1 + i % 3, 0, i == 4 ? after : NULL));
	IS(0, fm_gpu_set_start(set));
	puts("ready");
	fflush(stdout);
	if (jobs && getchar() == EOF) /* until it is known */
		return;
	for (unsigned n = 0; jobs ? n < jobs : !told_to_stop(); n++) {
		for (unsigned i = 0; i < 4; i++)
			if (stats(i).released - stats(i).done < 32)
				IS(0, fm_gpu_release(set, i, 1));
		if (ran != told)
			printf("at %u %f\n", told = ran, seconds());
		fflush(stdout);
	}
	IS(0, fm_gpu_set_drain(set, PATIENCE));
	for (unsigned i = 0; i < 5; i++)
		wrong +=
			task[i].wrong + WRONG_UNLESS(task[i].ran == stats(i).done * task[i].chunks);
	wrong += WRONG_UNLESS(came_after(4, 0));
	fm_gpu_set_free(set);
	printf("done %u %f %u\n", ran, seconds(), wrong);
}

/* --- what it costs: chunks without work, so that all of their time is the set's --- */

/* A line: tasks, us of a chunk with its decision while jobs wait, us of a decision (mean, maximum),
 * us from the call that releases a job of an idle set to its end (P50, P99). */
static void measure(unsigned n)
{
	enum { JOBS = 64, ONES = 400 };
	struct fm_gpu_stats s;
	double took[ONES], from, cycle;

	begin();
	make_set(n, 1);
	for (unsigned i = 0; i < TASKS; i++)
		task[i].first = launch_nothing;
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
	{"drops", drops_what_comes_after},
	{"enqueues", enqueues_that_fail},
	{"waits", calls_that_wait},
	{"traps", traps},
	{"first", launches_for_the_first_time},
	{"library", launches_of_a_library},
	{"contexts", contexts_end},
	{"contexts-and-sets", contexts_end_and_sets},
	{"forks", forks},
	{"exits", exits},
	{"exits-and-frees", exits_and_frees},
	{"free", free_at_work},
	{"fails", each_call_fails},
	{"idles", ends_without_a_turn},
};

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	if (cuInit(0))
		return 77; /* no device */
	if (!strcmp(argv[1], "measure")) {
		measure(argc > 2 ? (unsigned)atoi(argv[2]) : 2);
		return 0;
	}
	if (!strcmp(argv[1], "worker")) {
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
