// SPDX-License-Identifier: Apache-2.0
/* What ends, begins or is counted while launches that were stopped wait to be made again: streams,
 * contexts, libraries, captures, children; and streams that several threads use. */
#include "../../../fakes/cuda/fake_cuda.h"
#include "cuda_guard.h"
#include <sys/wait.h>

/* The driver carries on with what is in a stream that is destroyed. */
static void streams_destroyed(struct conform *c)
{
	CUdeviceptr x = new_words(1);
	struct guard g;

	guard_open(&g);
	CU(cuCtxSynchronize());
	for (uint32_t i = 0; i < 12; i++) {
		CUstream s = new_stream(CU_STREAM_NON_BLOCKING);

		toil(&g, s, x);
		chain(&g, s, x, i);
		toil(&g, s, x);
		CU(cuStreamDestroy_v2(s));
		CU(cuCtxSynchronize());
	}
	note_words(c, "x", x, NULL);
	guard_close(&g);
	CU(cuMemFree_v2(x));
}

/* And nobody waits for it, but for what another stream does behind an event. */
static void destroyed_behind_an_event(struct conform *c)
{
	CUstream other = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(2);
	struct guard g;

	guard_open(&g);
	CU(cuCtxSynchronize());
	for (uint32_t i = 0; i < 12; i++) {
		CUstream s = new_stream(CU_STREAM_NON_BLOCKING);

		order(other, s);
		toil(&g, s, x);
		order(s, other);
		CU(cuStreamDestroy_v2(s));
		chain(&g, other, x, i);
	}
	note_words(c, "x", x, other);
	guard_close(&g);
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(other));
}

static void takes_long(void *unused)
{
	usleep(300000);
}

/* Long before the device gets to what is in it; another stream comes meanwhile. */
static void destroyed_long_before(struct conform *c)
{
	CUstream other = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(8);
	struct guard g;

	guard_open(&g);
	CU(cuCtxSynchronize());
	for (uint32_t i = 0; i < 3; i++) {
		CUstream s = new_stream(CU_STREAM_NON_BLOCKING), next;

		CU(cuLaunchHostFunc(other, takes_long, NULL));
		order(other, s);
		step(&g, s, x);
		order(s, other);
		CU(cuStreamDestroy_v2(s));
		usleep(100000);
		next = new_stream(CU_STREAM_NON_BLOCKING);
		order(other, next);
		for (int k = 0; k < 4; k++) {
			step(&g, next, x);
			usleep(5000);
		}
		CU(cuStreamSynchronize(next));
		CU(cuStreamDestroy_v2(next));
	}
	note_words(c, "x", x, other);
	guard_close(&g);
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(other));
}

struct beside {
	CUcontext ctx;
	_Atomic bool stop;
};

/* It waits for the device, each time. */
static void *frees(void *arg)
{
	struct beside *b = arg;
	CUdeviceptr d;

	CU(cuCtxSetCurrent(b->ctx));
	while (!atomic_load(&b->stop)) {
		CU(cuMemAlloc_v2(&d, 4096));
		CU(cuMemFree_v2(d));
	}
	return NULL;
}

/* Another thread waits for the device meanwhile. */
static void destroyed_beside_others(struct conform *c)
{
	struct beside b = {.ctx = c->ctx};
	CUdeviceptr x = new_words(9);
	struct guard g;
	pthread_t id;

	guard_open(&g);
	CU(cuCtxSynchronize());
	if (pthread_create(&id, NULL, frees, &b))
		die("no thread");
	for (uint32_t i = 0; i < 20; i++) {
		CUstream s = new_stream(CU_STREAM_NON_BLOCKING);

		for (int k = 0; k < 4; k++)
			toil(&g, s, x);
		CU(cuStreamDestroy_v2(s));
		CU(cuCtxSynchronize());
	}
	atomic_store(&b.stop, true);
	pthread_join(id, NULL);
	note_words(c, "x", x, NULL);
	guard_close(&g);
	CU(cuMemFree_v2(x));
}

/* A capture begins while launches are under way, on its stream and on another. */
static void captures_between(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING), o = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(3), y = new_words(4);
	struct guard g;

	guard_open(&g);
	CU(cuCtxSynchronize());
	for (uint32_t i = 0; i < 12; i++) {
		CUgraph graph;
		CUgraphExec exec;

		toil(&g, s, x);
		toil(&g, o, y);
		CU(cuStreamBeginCapture_v2(s, CU_CAPTURE_THREAD_LOCAL));
		chain(&g, s, x, 2 * i);
		toil(&g, o, y);
		toil(&g, s, x);
		CU(cuStreamEndCapture(s, &graph));
		CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
		chain(&g, s, x, 2 * i + 1);
		CU(cuGraphLaunch(exec, s));
		toil(&g, s, x);
		chain(&g, o, y, i);
		CU(cuStreamSynchronize(s));
		CU(cuGraphExecDestroy(exec));
		CU(cuGraphDestroy(graph));
	}
	note_words(c, "x", x, s);
	note_words(c, "y", y, o);
	guard_close(&g);
	free_all((CUdeviceptr[]){x, y}, 2);
	CU(cuStreamDestroy_v2(s));
	CU(cuStreamDestroy_v2(o));
}

struct sharer {
	CUcontext ctx;
	struct guard *g;
	CUstream s;
	CUdeviceptr x;
};

static void *share(void *arg)
{
	struct sharer *t = arg;

	CU(cuCtxSetCurrent(t->ctx));
	for (int i = 0; i < 60; i++)
		step(t->g, t->s, t->x);
	CU(cuStreamSynchronize(t->s));
	return NULL;
}

/* Their launches come in any order, and each once. */
static void shared_stream(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(5);
	struct guard g;
	struct sharer t = {c->ctx, &g, s, x};
	pthread_t id[3];

	guard_open(&g);
	CU(cuCtxSynchronize());
	for (int i = 0; i < 3; i++)
		if (pthread_create(&id[i], NULL, share, &t))
			die("no thread");
	for (int i = 0; i < 3; i++)
		pthread_join(id[i], NULL);
	note_words(c, "180 steps", x, s);
	guard_close(&g);
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

/* A child has no device of its parent's, and leaves it alone. */
static void children(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(6);
	struct guard g;

	guard_open(&g);
	for (uint32_t i = 0; i < 6; i++) {
		int status = -1;
		pid_t pid;

		toil(&g, s, x);
		pid = fork();
		if (!pid)
			_exit(3);
		toil(&g, s, x);
		waitpid(pid, &status, 0);
		note(c, "status %d", WEXITSTATUS(status));
		chain(&g, s, x, i);
	}
	note_words(c, "x", x, s);
	guard_close(&g);
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

/* The context ends soon after its streams, and another of the same name comes. */
static void contexts_between(struct conform *c)
{
	for (uint32_t i = 0; i < 8; i++) {
		CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
		CUdeviceptr x = new_words(10 + i);
		struct guard g;

		guard_open(&g);
		CU(cuCtxSynchronize());
		for (int k = 0; k < 6; k++)
			toil(&g, s, x);
		note_words(c, "x", x, s);
		toil(&g, s, x);
		CU(cuStreamDestroy_v2(s));
		CU(cuDevicePrimaryCtxReset_v2(c->dev));
		note(c, "released %d", conform_again(c));
	}
	conform_load(c);
}

/* With launches in its default stream, which is another stream for the one that is current then. */
static void ends_beside_another(struct conform *c)
{
	CUdeviceptr x = new_words(8);
	struct guard g;

	guard_open(&g);
	CU(cuCtxSynchronize());
	for (uint32_t i = 0; i < 3; i++) {
		CUcontext other, was;
		struct guard h;
		CUdeviceptr y;

		CU(cuCtxCreate_v2(&other, 0, c->dev));
		guard_open(&h);
		y = new_words(9);
		CU(cuCtxSynchronize());
		toil(&h, FM_CU_STREAM_LEGACY, y);
		CU(cuCtxPopCurrent_v2(&was));
		CU(cuLaunchHostFunc(FM_CU_STREAM_LEGACY, takes_long, NULL));
		toil(&g, FM_CU_STREAM_LEGACY, x);
		CU(cuCtxDestroy_v2(other));
		note_words(c, "x", x, FM_CU_STREAM_LEGACY);
	}
	guard_close(&g);
	CU(cuMemFree_v2(x));
}

/* A kernel without our parameters in between, and one that the driver refuses. */
static void refused(struct conform *c)
{
	CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr x = new_words(7);
	struct guard g;

	guard_open(&g);
	for (uint32_t i = 0; i < 20; i++) {
		toil(&g, s, x);
		note(c, "%d",
			cu.cuLaunchKernel(g.step, 1, 1, 1, 2048, 1, 1, 0, s, (void *[]){&x}, NULL));
		mix(c, s, x, i);
		note(c, "%d",
			cu.cuLaunchKernel(g.step, 0, 1, 1, 32, 1, 1, 0, s, (void *[]){&x}, NULL));
		step(&g, s, x);
	}
	note_words(c, "x", x, s);
	guard_close(&g);
	CU(cuMemFree_v2(x));
	CU(cuStreamDestroy_v2(s));
}

/* One stream may be far ahead while others, which have been used as well, have nothing under way.
 * CUDA_GUARD_AHEAD: by how many launches. */
static void far_ahead(struct conform *c)
{
	enum { STREAMS = 4 };
	const char *ahead = getenv("CUDA_GUARD_AHEAD");
	uint32_t launches = ahead ? (uint32_t)atoi(ahead) : 200;
	CUstream s[STREAMS];
	CUdeviceptr x = new_words(8), d;

	uint32_t *word = mapped_words(&d);
	struct guard g;

	guard_open(&g);
	for (unsigned i = 0; i < STREAMS; i++) {
		s[i] = new_stream(CU_STREAM_NON_BLOCKING);
		chain(&g, s[i], x, i);
		CU(cuStreamSynchronize(s[i]));
	}
	CU(cuStreamWaitValue32_v2(s[0], d, 1, CU_WAIT_EQ));
	for (uint32_t i = 0; i < launches; i++)
		chain(&g, s[0], x, i);
	atomic_store((_Atomic uint32_t *)word, 1);
	note_words(c, "x", x, s[0]);
	guard_close(&g);
	for (unsigned i = 0; i < STREAMS; i++)
		CU(cuStreamDestroy_v2(s[i]));
	CU(cuMemFreeHost(word));
	CU(cuMemFree_v2(x));
}

/* A context of a thread's own, which may be given an address that another one has just had. */
static struct {
	fake_cuda_at_fn *at; /* NULL: the driver is none of ours */
	CUdevice dev;
	CUcontext ctx;
	pthread_t thread;
	_Atomic bool begun, made, loaded;
	uint32_t words[WORDS];
} anew;

static void is_made(void)
{
	atomic_store(&anew.made, true);
}

static void *make_anew(void *unused)
{
	CUdeviceptr x;
	struct guard g;
	CUstream s;

	CU(cuCtxCreate_v2(&anew.ctx, 0, anew.dev));
	guard_open(&g);
	atomic_store(&anew.loaded, true);
	s = new_stream(CU_STREAM_NON_BLOCKING);
	x = new_words(12);
	for (uint32_t i = 0; i < 20; i++)
		chain(&g, s, x, i);
	CU(cuMemcpyDtoHAsync_v2(anew.words, x, BYTES, s));
	CU(cuStreamSynchronize(s));
	CU(cuCtxDestroy_v2(anew.ctx));
	return NULL;
}

static void begin_anew(void)
{
	atomic_store(&anew.begun, true);
	if (anew.at)
		anew.at("cuCtxCreate, behind", is_made);
	if (pthread_create(&anew.thread, NULL, make_anew, NULL))
		die("no thread");
	while (anew.at && !atomic_load(&anew.made))
		usleep(100);
	/* It uses its context, if it will, before the thread that has ended the other goes on. */
	for (int i = 0; anew.at && i < 500 && !atomic_load(&anew.loaded); i++)
		usleep(100);
}

static void made_anew(struct conform *c)
{
	CUcontext ctx;
	CUdeviceptr x;
	struct guard g;

	memset(&anew, 0, sizeof(anew));
	anew.dev = c->dev;
	*(void **)&anew.at = dlsym(driver_handle(), "fake_cuda_at");
	CU(cuCtxCreate_v2(&ctx, 0, c->dev));
	guard_open(&g);
	x = new_words(11);
	for (uint32_t i = 0; i < 20; i++)
		chain(&g, FM_CU_STREAM_LEGACY, x, i);
	note_words(c, "x", x, NULL);
	if (anew.at)
		anew.at("cuCtxDestroy, behind", begin_anew);
	CU(cuCtxDestroy_v2(ctx));
	if (!atomic_load(&anew.begun))
		begin_anew();
	pthread_join(anew.thread, NULL);
	if (anew.at && anew.ctx != ctx)
		die("it is another address");
	note(c, "y: %016llx", (unsigned long long)digest(anew.words, BYTES));
}

int main(int argc, char **argv)
{
	static const struct conform_case cases[] = {
		{"streams destroyed", streams_destroyed},
		{"destroyed behind an event", destroyed_behind_an_event},
		{"destroyed long before", destroyed_long_before},
		{"destroyed beside others", destroyed_beside_others},
		{"captures between", captures_between},
		{"shared stream", shared_stream},
		{"children", children},
		{"contexts between", contexts_between},
		{"made anew", made_anew},
		{"ends beside another", ends_beside_another},
		{"refused", refused},
		{"far ahead", far_ahead},
		{NULL, NULL},
	};

	return conform_main(argc, argv, cases);
}
