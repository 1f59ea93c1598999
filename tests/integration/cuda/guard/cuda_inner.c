// SPDX-License-Identifier: Apache-2.0
/*
 * How many nodes has a graph in which so many kernels are captured? Gates make them more. Of
 * kernels that were never launched, so that what they take is not known.
 *
 * On stdin, each answered by "nodes N":
 *   kernels N   one behind the other
 *   fill N      behind a fill
 *   fork N      behind a kernel that another stream's runs beside
 *   beside N    likewise, and another graph is captured meanwhile
 */
#include "cuda_guard.h"
#include <signal.h>
#include <sys/prctl.h>

struct job {
	struct conform c;
	struct guard g;
	CUstream s, other, third;
	CUevent event[2];
	CUdeviceptr x;
};

static void forked(struct job *j)
{
	CU(cuEventRecord(j->event[0], j->s));
	CU(cuStreamWaitEvent(j->other, j->event[0], 0));
	step(&j->g, j->other, j->x);
	step(&j->g, j->s, j->x);
	CU(cuEventRecord(j->event[1], j->other));
	CU(cuStreamWaitEvent(j->s, j->event[1], 0));
}

static void another(struct job *j)
{
	CUgraph graph;

	CU(cuStreamBeginCapture_v2(j->third, CU_CAPTURE_THREAD_LOCAL));
	step(&j->g, j->third, j->x);
	CU(cuStreamEndCapture(j->third, &graph));
	CU(cuGraphDestroy(graph));
}

static size_t nodes(struct job *j, const char *what, unsigned kernels)
{
	CUgraph graph;
	size_t n = 0;

	CU(cuStreamBeginCapture_v2(j->s, CU_CAPTURE_THREAD_LOCAL));
	if (!strcmp(what, "fill"))
		CU(cuMemsetD32Async(j->x, 0, 1, j->s));
	if (!strcmp(what, "fork") || !strcmp(what, "beside"))
		forked(j);
	for (unsigned i = 0; i < kernels; i++) {
		if (i == kernels / 2 && !strcmp(what, "beside"))
			another(j);
		step(&j->g, j->s, j->x);
	}
	CU(cuStreamEndCapture(j->s, &graph));
	CU(cuGraphGetNodes(graph, NULL, &n));
	CU(cuGraphDestroy(graph));
	return n;
}

/* All that the graphs are to be made with is there before. */
static void begin(struct job *j)
{
	conform_open(&j->c);
	guard_open(&j->g);
	j->s = new_stream(CU_STREAM_NON_BLOCKING);
	j->other = new_stream(CU_STREAM_NON_BLOCKING);
	j->third = new_stream(CU_STREAM_NON_BLOCKING);
	j->x = new_words(1);
	for (int i = 0; i < 2; i++)
		CU(cuEventCreate(&j->event[i], 0));
	launch(j->g.tick, 1, 1, j->s, NULL);
	launch(j->g.tick, 1, 1, j->other, NULL);
	CU(cuCtxSynchronize());
	puts("ready");
	fflush(stdout);
}

static void end(struct job *j)
{
	CU(cuMemFree_v2(j->x));
	for (int i = 0; i < 2; i++)
		CU(cuEventDestroy_v2(j->event[i]));
	guard_close(&j->g);
	CU(cuStreamDestroy_v2(j->s));
	CU(cuStreamDestroy_v2(j->other));
	CU(cuStreamDestroy_v2(j->third));
	conform_close(&j->c);
}

int main(void)
{
	char what[16];
	unsigned n;
	struct job j;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	load_dlsym(false);
	begin(&j);
	while (scanf("%15s %u", what, &n) == 2) {
		printf("nodes %zu\n", nodes(&j, what, n));
		fflush(stdout);
	}
	end(&j);
	return 0;
}
