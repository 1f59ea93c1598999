/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends of programs, threads and parents:
 *
 *   exit     ends with work under way, by exit()
 *   threads  its threads launch on their own streams, and end with that under way
 *   fork     forks with work under way; the child, in which the runtime answers with errors, ends
 *            by exit(), and the parent goes on
 *   exec     the child becomes a program that uses HIP
 *   graph    launches a long graph, again and again
 *   deep     says "ready", and upon a line puts more into a stream than that has room for
 *   reset    says "ready", and upon a line resets the device with work under way, and goes on
 *
 * It prints "right" if all is as it should be.
 */
#define CONFORM_HIP
#include "../cuda/cuda_conform.h"
#include <sys/wait.h>

static CUdeviceptr x;

static void busy(struct conform *c, CUstream s, unsigned n)
{
	for (uint32_t i = 0; i < n; i++) {
		spin(c, s, x, 300000);
		mix(c, s, x, i);
	}
}

static void *in_thread(void *arg)
{
	struct conform *c = arg;

	CU(cuCtxSetCurrent(c->ctx));
	busy(c, FM_CU_STREAM_PER_THREAD, 20);
	return NULL;
}

static void threads(struct conform *c)
{
	pthread_t t[4];

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 4; i++)
			if (pthread_create(&t[i], NULL, in_thread, c))
				die("no thread");
		for (int i = 0; i < 4; i++)
			pthread_join(t[i], NULL);
	}
	CU(cuCtxSynchronize());
}

static void child(const char *self)
{
	uint32_t n = WORDS;

	if (self) {
		execl(self, self, "threads", NULL);
		_exit(9);
	}
	if (!cu.cuMemsetD32Async(x, 1, n, NULL) || !cu.cuCtxSynchronize())
		_exit(8);
	exit(0);
}

static void forks(struct conform *c, CUstream s, const char *self)
{
	int status;
	pid_t pid = fork();

	if (!pid)
		child(self);
	busy(c, s, 20);
	if (waitpid(pid, &status, 0) != pid || status)
		die("the child ended with %#x", status);
	busy(c, s, 20);
	CU(cuStreamSynchronize(s));
	CU(cuStreamDestroy_v2(s));
}

static void long_graph(struct conform *c, CUstream s)
{
	CUgraphExec exec;
	CUgraph graph;

	CU(cuStreamBeginCapture_v2(s, HIP_CAPTURE_RELAXED));
	busy(c, s, 20);
	CU(cuStreamEndCapture(s, &graph));
	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (int i = 0; i < 20; i++) {
		CU(cuGraphLaunch(exec, s));
		CU(cuStreamSynchronize(s));
	}
}

static void deep(struct conform *c, CUstream s)
{
	CU(cuStreamSynchronize(s));
	puts("ready");
	fflush(stdout);
	getchar();
	busy(c, s, 700);
	CU(cuStreamSynchronize(s));
}

int hipDeviceReset(void);

static void reset(struct conform *c, CUstream s)
{
	CU(cuStreamSynchronize(s));
	puts("ready");
	fflush(stdout);
	getchar();
	busy(c, s, 20);
	if (hipDeviceReset())
		die("no reset");
	x = new_words(1); /* kernels are gone */
	for (int i = 0; i < 20; i++)
		CU(cuMemsetD32Async(x, 7, 1, s = i ? s : new_stream(0)));
	CU(cuStreamSynchronize(s));
}

int main(int argc, char **argv)
{
	struct conform c = {0};
	CUstream s;

	if (argc < 2)
		return 2;
	load_linked(false);
	conform_open(&c);
	x = new_words(1);
	s = new_stream(0);
	busy(&c, s, 40);
	if (!strcmp(argv[1], "threads"))
		threads(&c);
	else if (!strcmp(argv[1], "graph"))
		long_graph(&c, s);
	else if (!strcmp(argv[1], "reset"))
		reset(&c, s);
	else if (!strcmp(argv[1], "deep"))
		deep(&c, s);
	else if (strcmp(argv[1], "exit"))
		forks(&c, s, strcmp(argv[1], "exec") ? NULL : argv[0]);
	puts("right");
	exit(0);
}
