/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that do what they are told: they print "ready", obey lines on stdin, each a command and
 * a number, and answer each by its first word when what it started has finished. At the end of
 * stdin they end.
 *
 * usage: [--via link|dlsym|proc] [--ptds]
 */
#pragma once
#include "cuda_conform.h"
#include <signal.h>
#include <sys/prctl.h>

struct job {
	struct conform c;
	CUstream s;
	CUdeviceptr x, arrived;
};

struct command {
	const char *name;
	void (*run)(struct job *j, int n);
};

#define NODES 20

static inline void spins(struct job *j, unsigned blocks, uint64_t ns, int n)
{
	for (int i = 0; i < n; i++)
		launch(j->c.spin, blocks, 1, j->s, (void *[]){&j->x, &ns});
}

static inline CUgraph capture_of(struct job *j, unsigned blocks, uint64_t ns, int n)
{
	CUgraph graph;

	CU(cuStreamBeginCapture_v2(j->s, CU_CAPTURE_RELAXED));
	spins(j, blocks, ns, n);
	CU(cuStreamEndCapture(j->s, &graph));
	return graph;
}

static inline CUgraph capture(struct job *j)
{
	return capture_of(j, 1, 100000, NODES);
}

static inline size_t nodes_of(CUgraph graph)
{
	size_t n = 0;

	CU(cuGraphGetNodes(graph, NULL, &n));
	return n;
}

/* Launches of a kernel of 100 us, each waited for, until Fermata knows how long it takes: then what
 * is captured of it has gates. Its agent looks at times when it
 * has the time. Where nobody schedules it is never known. */
static inline void learn(struct job *j, int n)
{
	CUgraph graph;
	size_t nodes = NODES;

	for (int round = 0; nodes == NODES && round < 40; round++) {
		for (int i = 0; i < n; i++) {
			spin(&j->c, j->s, j->x, 100000);
			CU(cuStreamSynchronize(j->s));
		}
		usleep(1000 * round);
		CU(cuStreamBeginCapture_v2(j->s, CU_CAPTURE_RELAXED));
		spins(j, 1, 100000, NODES);
		CU(cuStreamEndCapture(j->s, &graph));
		nodes = nodes_of(graph);
		CU(cuGraphDestroy(graph));
	}
}

static inline CUgreenCtx new_green(struct job *j)
{
	struct cu_resource whole;
	CUdevResourceDesc desc;
	CUgreenCtx green;

	CU(cuDeviceGetDevResource(j->c.dev, &whole, CU_RESOURCE_SM));
	CU(cuDevResourceGenerateDesc(&desc, &whole, 1));
	CU(cuGreenCtxCreate(&green, desc, j->c.dev, CU_GREEN_DEFAULT_STREAM));
	return green;
}

static inline void begin(struct job *j)
{
	j->s = new_stream(CU_STREAM_NON_BLOCKING);
	j->x = new_words(1);
	j->arrived = new_words(2);
	mix(&j->c, j->s, j->x, 0);
	CU(cuStreamSynchronize(j->s));
}

static inline void obey(struct job *j, const struct command *commands, const char *name, int n)
{
	for (; commands->name; commands++) {
		if (strcmp(commands->name, name))
			continue;
		commands->run(j, n);
		CU(cuCtxSynchronize());
		printf("%s\n", name);
		return;
	}
	die("unknown command '%s'", name);
}

/* Ends with a command without a name. */
static inline int job_main(int argc, char **argv, const struct command *commands)
{
	static struct job j;
	char name[32];
	int n;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setvbuf(stdout, NULL, _IOLBF, 0);
	conform_options(&argc, &argv);
	conform_open(&j.c);
	begin(&j);
	puts("ready");
	while (scanf("%31s %d", name, &n) == 2)
		obey(&j, commands, name, n);
	return 0;
}
