/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a CUDA program sees when things fail: each case prints what it saw, which must be the same
 * with and without Fermata. Where the case has come to its point it prints "point" and reads a
 * line. For the fake driver, which fails when it is told to (fakes/cuda/fake_cuda.h).
 *
 * usage: CASE [NUMBER]
 */
#define CUDA_NO_LINK
#include "../fakes/cuda/fake_cuda.h"
#include "../integration/cuda/cuda_conform.h"
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define KERNELS 50

static struct {
	fake_cuda_refuse_fn *refuse;
	fake_cuda_lose_fn *lose;
	fake_cuda_at_fn *at;
} fake;
static int number;

static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	fflush(stdout);
}

/* At the end of the input the test is over, or has failed. */
static void point(void)
{
	char line[32];

	say("point");
	if (!fgets(line, sizeof(line), stdin))
		_exit(3);
}

#define SAY(call) say("%s: %d", #call, cu.call)

static void mix_many(struct conform *c, CUstream s, CUdeviceptr x)
{
	for (uint32_t i = 0; i < KERNELS; i++)
		mix(c, s, x, i);
}

static void say_words(CUdeviceptr x, CUstream s)
{
	uint32_t words[WORDS];

	CU(cuMemcpyDtoHAsync_v2(words, x, BYTES, s));
	say("words %016llx", (unsigned long long)digest(words, BYTES));
}

/* Streams at work, one of them behind a long kernel; then nothing is as it was. */
static void device_lost(struct conform *c)
{
	CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(0);
	CUdeviceptr x = new_words(1), y = new_words(2);
	CUevent e = new_event();
	uint32_t word;
	CUgraph graph;
	CUcontext ctx;

	mix_many(c, a, x);
	spin(c, b, y, 3600u * UINT64_C(1000000000));
	CU(cuEventRecord(e, b));
	mix_many(c, b, y);
	point();
	fake.lose(number);
	point();
	SAY(cuStreamQuery(a));
	SAY(cuStreamSynchronize(b));
	SAY(cuEventQuery(e));
	SAY(cuEventSynchronize(e));
	SAY(cuLaunchKernel(c->mix, 1, 1, 1, 1, 1, 1, 0, a, NULL, NULL));
	SAY(cuMemcpyDtoH_v2(&word, x, 4));
	SAY(cuMemsetD8Async(x, 0, 4, b));
	SAY(cuMemAlloc_v2(&y, 4));
	SAY(cuEventRecord(e, a));
	SAY(cuStreamWaitEvent(b, e, 0));
	SAY(cuStreamBeginCapture_v2(a, CU_CAPTURE_GLOBAL));
	SAY(cuStreamEndCapture(a, &graph));
	SAY(cuStreamCreate(&b, 0));
	SAY(cuLaunchKernel(c->mix, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	SAY(cuCtxSynchronize());
	SAY(cuCtxGetCurrent(&ctx));
	point();
	SAY(cuEventDestroy_v2(e));
	SAY(cuStreamDestroy_v2(a));
	SAY(cuMemFree_v2(x));
	SAY(cuModuleUnload(c->module));
	SAY(cuDevicePrimaryCtxReset_v2(c->dev));
	SAY(cuDevicePrimaryCtxRelease_v2(c->dev));
}

static void out_of_memory(struct conform *c)
{
	CUstream s = new_stream(0), t;
	CUdeviceptr x = new_words(3), y;
	CUevent e;
	void *p;

	for (int i = 0; i < FAKE_CUDA_THINGS; i++)
		fake.refuse((enum fake_cuda_thing)i, 1);
	SAY(cuMemAlloc_v2(&y, 4096));
	SAY(cuMemHostAlloc(&p, 4096, 0));
	SAY(cuMemAllocAsync(&y, 4096, s));
	SAY(cuEventCreate(&e, 0));
	SAY(cuStreamCreate(&t, 0));
	SAY(cuStreamCreateWithPriority(&t, 0, -1));
	mix_many(c, s, x);
	mix_many(c, NULL, x);
	point(); /* nothing of ours can be had, and the work goes on */
	for (int i = 0; i < 20; i++)
		mix_many(c, s, x);
	say_words(x, s);
	for (int i = 0; i < FAKE_CUDA_THINGS; i++)
		fake.refuse((enum fake_cuda_thing)i, 0);
	SAY(cuStreamCreate(&t, 0));
	SAY(cuEventCreate(&e, 0));
	mix_many(c, t, x);
	SAY(cuEventRecord(e, t));
	SAY(cuEventSynchronize(e));
	say_words(x, t);
	conform_close(c);
}

/* Launches that never were, in between and in front of others, and at the end. */
static void refused_launches(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING), t = new_stream(CU_STREAM_NON_BLOCKING);
	uint32_t n = WORDS, value = 5;
	CUdeviceptr x = new_words(4);
	void *params[] = {&x, &n, &value};
	CUgraph graph;

	SAY(cuLaunchKernel(c->fill, 1, 1, 1, 4096, 1, 1, 0, t, params, NULL));
	for (uint32_t i = 0; i < KERNELS; i++) {
		mix(c, s, x, i);
		if (cu.cuLaunchKernel(c->fill, 0, 1, 1, 1, 1, 1, 0, s, params, NULL) != 1 ||
			cu.cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, s, params, NULL) != 400 ||
			cu.cuMemcpyDtoDAsync_v2(x, 64, BYTES, s) != 1 ||
			cu.cuMemsetD32Async(x + 1, 0, 4, s) != 1)
			die("another error than natively");
	}
	SAY(cuStreamBeginCapture_v2(t, CU_CAPTURE_RELAXED));
	SAY(cuLaunchKernel(c->fill, 1, 1, 1, 4096, 1, 1, 0, t, params, NULL));
	SAY(cuStreamEndCapture(t, &graph));
	SAY(cuLaunchKernel(c->fill, 1, 1, 1, 4096, 1, 1, 0, t, params, NULL));
	SAY(cuLaunchKernel(c->fill, GRID, 1, 1, BLOCK, 1, 1, 0, (CUstream)&c, params, NULL));
	point(); /* nobody waits for anything */
	CU(cuCtxSynchronize());
	SAY(cuLaunchKernel(c->fill, 0, 1, 1, 1, 1, 1, 0, s, params, NULL));
	mix_many(c, t, x);
	say_words(x, t);
	conform_close(c);
}

/* A program that closes what it does not know, at a moment when its agent sleeps. */
static void closed_descriptors(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(5);
	pid_t child = 0;

	mix_many(c, s, x);
	say_words(x, s);
	if (number) { /* somebody else has them, too */
		child = fork();
		if (!child) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			pause();
			_exit(0);
		}
	}
	point();
	closefrom(3);
	point();
	for (int i = 0; i < 20; i++)
		mix_many(c, s, x);
	say_words(x, s);
	if (child)
		kill(child, SIGKILL);
	conform_close(c);
}

/* Green contexts whose streams are used after their end, which is an error of the program's. */
static void streams_without_context(struct conform *c)
{
	struct cu_resource whole;
	CUdeviceptr x = new_words(6);
	CUdevResourceDesc desc;
	CUgreenCtx green;
	CUstream s;

	CU(cuDeviceGetDevResource(c->dev, &whole, CU_RESOURCE_SM));
	CU(cuDevResourceGenerateDesc(&desc, &whole, 1));
	CU(cuGreenCtxCreate(&green, desc, c->dev, CU_GREEN_DEFAULT_STREAM));
	CU(cuGreenCtxStreamCreate(&s, green, CU_STREAM_NON_BLOCKING, 0));
	mix_many(c, s, x);
	SAY(cuGreenCtxDestroy(green));
	SAY(cuStreamQuery(s));
	SAY(cuMemsetD8Async(x, 0, 4, s));
	SAY(cuStreamSynchronize(s));
	SAY(cuStreamDestroy_v2(s));
	mix_many(c, NULL, x);
	point();
	mix_many(c, NULL, x);
	say_words(x, NULL);
	conform_close(c);
}

/* The primary context ends, and there is another one of the same name. */
static void context_again(struct conform *c)
{
	CUdeviceptr x = new_words(10);

	mix_many(c, NULL, x);
	say_words(x, NULL);
	conform_close(c);
	conform_open(c);
	x = new_words(10);
	mix_many(c, NULL, x);
	mix_many(c, new_stream(0), x);
	point();
	say_words(x, NULL);
	conform_close(c);
}

/* Before anything was launched; nobody ends it but the end of its context. */
static void capture_first(struct conform *c)
{
	CUdeviceptr x;

	CU(cuStreamBeginCapture_v2(new_stream(CU_STREAM_NON_BLOCKING), CU_CAPTURE_RELAXED));
	CU(cuDevicePrimaryCtxReset_v2(c->dev));
	SAY(cuDevicePrimaryCtxRelease_v2(c->dev));
	conform_open(c);
	x = new_words(14);
	mix_many(c, NULL, x);
	point();
	say_words(x, NULL);
	conform_close(c);
}

/* The thread's own default stream is one that nobody else can ask about; in graphs the device tells
 * of no progress. It is busy for longer than anybody waits to hear of it. */
static void own_stream(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(11);
	CUgraphExec exec;
	CUgraph graph;

	for (int i = 0; i < 40; i++)
		spin(c, NULL, x, 5000000);
	say_words(x, NULL);
	mix_many(c, s, x);
	CU(cuStreamSynchronize(s));
	CU(cuStreamBeginCapture_v2(s, CU_CAPTURE_RELAXED));
	for (int i = 0; i < 40; i++)
		spin(c, s, x, 5000000);
	CU(cuStreamEndCapture(s, &graph));
	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CU(cuGraphLaunch(exec, NULL));
	CU(cuGraphLaunch(exec, NULL));
	usleep(150000);
	point();
	CU(cuStreamSynchronize(NULL)); /* nothing is launched that would tell of work */
	say_words(x, NULL);
	conform_close(c);
}

static struct {
	struct conform *c;
	CUdeviceptr word;
} short_lived;

static void *live_short(void *unused)
{
	CU(cuCtxSetCurrent(short_lived.c->ctx));
	for (int i = 0; i < 4; i++)
		spin(short_lived.c, FM_CU_STREAM_PER_THREAD, short_lived.word, 500000);
	return NULL;
}

/* Threads that launch into their own default streams, and end before that has: so many at a time.
 */
static void short_threads(struct conform *c)
{
	CUdeviceptr x = new_words(12);

	short_lived.c = c;
	for (int i = 0; i < 5; i++) {
		for (int n = 0; n < number; n++) {
			pthread_t thread;

			short_lived.word = x + (unsigned)n * sizeof(uint32_t);
			if (pthread_create(&thread, NULL, live_short, NULL))
				die("no thread");
			pthread_join(thread, NULL);
		}
		CU(cuCtxSynchronize());
		point();
	}
	say_words(x, NULL);
	conform_close(c);
}

static struct {
	struct conform c; /* of a context of their own */
	CUdeviceptr x, at;
	_Atomic bool ends, gone;
} late;
static _Thread_local bool ends_late;

/* A call about the context takes so long if nobody ends the context meanwhile. By the clock, not by
 * naps: on a busy machine many naps would take longer than the end of the context waits. */
static void in_the_middle(void)
{
	if (!ends_late) {
		fake.at("cuCtxPushCurrent", in_the_middle);
		return;
	}
	late.ends = true;
	for (uint64_t until = now_ns() + 50000000; now_ns() < until && !late.gone;)
		usleep(1000);
}

static void *ends_at_work(void *unused)
{
	CU(cuCtxSetCurrent(late.c.ctx));
	CU(cuStreamWaitValue32_v2(FM_CU_STREAM_PER_THREAD, late.at, 1, CU_WAIT_EQ));
	mix(&late.c, FM_CU_STREAM_PER_THREAD, late.x, 1);
	ends_late = true;
	fake.at("cuCtxPushCurrent", in_the_middle);
	return NULL;
}

/* A thread that ends with work under way makes no call any more, as far as its program knows, which
 * may end the context. */
static void context_of_who_ends(struct conform *c)
{
	for (int i = 0; i < number; i++) {
		bool joined = false;
		_Atomic uint32_t *word;
		pthread_t thread;

		late.c = *c;
		late.ends = late.gone = false;
		CU(cuCtxCreate_v2(&late.c.ctx, 0, c->dev));
		conform_load(&late.c);
		late.x = new_words(13);
		word = (_Atomic uint32_t *)mapped_words(&late.at);
		mix(&late.c, NULL, late.x, 1);
		CU(cuCtxSynchronize());
		if (pthread_create(&thread, NULL, ends_at_work, NULL))
			die("no thread");
		while (!late.ends && !joined) {
			joined = !pthread_tryjoin_np(thread, NULL);
			usleep(100);
		}
		atomic_store(word, 1);
		CU(cuCtxDestroy_v2(late.c.ctx));
		late.gone = true;
		if (!joined)
			pthread_join(thread, NULL);
		fake.at("", NULL);
		CU(cuCtxSetCurrent(c->ctx));
		point();
	}
	conform_close(c);
}

static struct {
	struct conform *c;
	CUstream s;
	CUdeviceptr x, y;
	bool through;
} cancelled;

/* What it calls waits for nothing, and so ends no thread. */
static void *is_cancelled(void *unused)
{
	struct conform *c = cancelled.c;
	CUmodule module;
	CUevent e;

	pthread_cancel(pthread_self());
	CU(cuCtxSetCurrent(c->ctx));
	CU(cuMemsetD32Async(cancelled.x, 1, WORDS, cancelled.s));
	mix_many(c, cancelled.s, cancelled.x);
	fill(c, FM_CU_STREAM_PER_THREAD, cancelled.y, 1);
	CU(cuEventCreate(&e, 0));
	CU(cuEventRecord(e, cancelled.s));
	CU(cuStreamWaitEvent(FM_CU_STREAM_PER_THREAD, e, 0));
	cu.cuEventQuery(e);
	CU(cuEventDestroy_v2(e));
	CU(cuModuleLoadData(&module, cuda_ptx));
	mix_many(c, cancelled.s, cancelled.x);
	cancelled.through = true;
	pthread_testcancel();
	return NULL;
}

/* Threads that are told to end, and do so where they say: one of them is the first to launch. */
static void threads_cancelled(struct conform *c)
{
	cancelled.c = c;
	CU(cuMemAlloc_v2(&cancelled.x, BYTES));
	CU(cuMemAlloc_v2(&cancelled.y, BYTES));
	cancelled.s = new_stream(CU_STREAM_NON_BLOCKING);
	for (int i = 0; i < number; i++) {
		pthread_t thread;
		void *end = NULL;

		cancelled.through = false;
		if (pthread_create(&thread, NULL, is_cancelled, NULL))
			die("no thread");
		pthread_join(thread, &end);
		if (!cancelled.through || end != PTHREAD_CANCELED)
			die("thread %d did not get through its calls", i);
		mix_many(c, cancelled.s, cancelled.x);
		CU(cuStreamSynchronize(cancelled.s));
		point();
	}
	say_words(cancelled.x, cancelled.s);
	conform_close(c);
}

/* In a child whose parent has initialized CUDA every call fails, and none waits for ever. */
static int child_of_initialized(struct conform *c, CUstream s, CUdeviceptr x)
{
	uint32_t word = 0;
	CUgraph graph;
	CUstream t;
	CUevent e;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	SAY(cuInit(0));
	SAY(cuStreamBeginCapture_v2(s, CU_CAPTURE_GLOBAL));
	SAY(cuLaunchKernel(
		c->mix, 1, 1, 1, 1, 1, 1, 0, s, (void *[]){&x, &word, &word, &word}, NULL));
	SAY(cuStreamEndCapture(s, &graph));
	SAY(cuLaunchKernel(
		c->mix, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&x, &word, &word, &word}, NULL));
	SAY(cuMemcpyDtoH_v2(&word, x, 4));
	SAY(cuEventCreate(&e, 0));
	SAY(cuStreamCreate(&t, 0));
	SAY(cuStreamQuery(s));
	SAY(cuStreamSynchronize(s));
	SAY(cuStreamDestroy_v2(s));
	SAY(cuCtxSynchronize());
	SAY(cuCtxDestroy_v2(c->ctx));
	SAY(cuDevicePrimaryCtxReset_v2(c->dev));
	SAY(cuDevicePrimaryCtxRelease_v2(c->dev));
	exit(0); /* with all exit handlers that are there */
}

static void await(pid_t child)
{
	int status;

	if (waitpid(child, &status, 0) != child || status)
		die("a child ended with status %x", status);
}

/* Where others share the device the agent asks for the end of what was launched, after a while. */
static void forks(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(7);

	for (int i = 0; i < number; i++) {
		pid_t child;

		mix_many(c, s, x);
		spin(c, s, x, 20000000);
		usleep(5000);
		child = fork();
		if (!child)
			child_of_initialized(c, s, x);
		await(child);
	}
	say_words(x, s);
	conform_close(c);
}

/* The parent has loaded the driver, and no more: its children are programs like any other. */
static void forks_first(struct conform *c)
{
	for (int i = 0; i < number; i++) {
		pid_t child = fork();

		if (!child) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			conform_open(c);
			{
				CUdeviceptr x = new_words(8);

				mix_many(c, NULL, x);
				say("child %d", (int)getpid());
				point();
				mix_many(c, NULL, x);
				say_words(x, NULL);
			}
			conform_close(c);
			exit(0);
		}
		await(child);
	}
}

/* What it becomes is another program. */
static void execs(struct conform *c)
{
	char *argv[] = {"cuda_faults", "forks first", "1", NULL};
	CUdeviceptr x = new_words(9);

	mix_many(c, NULL, x);
	say_words(x, NULL);
	spin(c, NULL, x, 1000000);
	execv("/proc/self/exe", argv);
	die("no exec");
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(struct conform *c);
		bool open;
	} cases[] = {
		{"device lost", device_lost, true},
		{"out of memory", out_of_memory, true},
		{"refused launches", refused_launches, true},
		{"closed descriptors", closed_descriptors, true},
		{"streams without context", streams_without_context, true},
		{"context again", context_again, true},
		{"capture first", capture_first, true},
		{"own stream", own_stream, true},
		{"short threads", short_threads, true},
		{"context of who ends", context_of_who_ends, true},
		{"threads cancelled", threads_cancelled, true},
		{"forks", forks, true},
		{"forks first", forks_first, false},
		{"execs", execs, true},
	};
	struct conform c = {0};
	void *handle;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	number = argc > 2 ? atoi(argv[2]) : 0;
	load_proc(argc > 1 && !strcmp(argv[1], "own stream"));
	handle = driver_handle();
	*(void **)&fake.refuse = dlsym(handle, "fake_cuda_refuse");
	*(void **)&fake.lose = dlsym(handle, "fake_cuda_lose");
	*(void **)&fake.at = dlsym(handle, "fake_cuda_at");
	if (!fake.refuse || !fake.lose || !fake.at)
		die("another driver than the fake one");
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		if (argc < 2 || strcmp(argv[1], cases[i].name))
			continue;
		if (cases[i].open)
			conform_open(&c);
		cases[i].run(&c);
		say("end");
		return 0;
	}
	die("no such case");
}
