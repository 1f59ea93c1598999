// SPDX-License-Identifier: Apache-2.0
/*
 * Streams that wait for a thread, in the middle of what it has launched into them, and that thread
 * has to make calls first which are not made while a stream is stopped in the middle of a kernel.
 *
 * It says "waits" when the device has come to where it waits for the thread, makes these calls at
 * the end of stdin's next line, and notes what all has come to.
 *
 * usage: WHERE CALL
 */
#include "cuda_guard.h"
#include <signal.h>
#include <sys/prctl.h>

#define STREAMS 7

struct job {
	struct conform c;
	struct guard known, fresh;
	CUstream s[STREAMS];
	CUdeviceptr x[STREAMS];
	_Atomic uint32_t *word; /* where a stream has come to, and what it waits for */
	CUdeviceptr at;
};

enum { THERE, GO };

static void await(void *word)
{
	_Atomic uint32_t *go = (_Atomic uint32_t *)word + GO;

	while (!atomic_load(go))
		usleep(100);
}

/* --- where --- */

static void there(struct job *j, CUstream s)
{
	CU(cuStreamWriteValue32_v2(s, j->at + THERE * sizeof(uint32_t), 1, 0));
}

static void in_host_function(struct job *j, CUstream s)
{
	there(j, s);
	CU(cuLaunchHostFunc(s, await, (void *)j->word));
}

static void at_word(struct job *j, CUstream s)
{
	there(j, s);
	CU(cuStreamWaitValue32_v2(s, j->at + GO * sizeof(uint32_t), 1, CU_WAIT_EQ));
}

static void more(struct job *j, unsigned i)
{
	toil(&j->known, j->s[i], j->x[i]);
	chain(&j->known, j->s[i], j->x[i], 1);
	toil(&j->known, j->s[i], j->x[i]);
}

static void host_function(struct job *j)
{
	chain(&j->known, j->s[0], j->x[0], 0);
	in_host_function(j, j->s[0]);
	more(j, 0);
}

static void word(struct job *j)
{
	chain(&j->known, j->s[0], j->x[0], 0);
	at_word(j, j->s[0]);
	more(j, 0);
}

/* Of a stream that waits itself. */
static void event(struct job *j)
{
	chain(&j->known, j->s[1], j->x[1], 0);
	in_host_function(j, j->s[0]);
	order(j->s[0], j->s[2]);
	order(j->s[2], j->s[1]);
	more(j, 1);
}

/* Without being told to: the legacy stream, for one that blocks, and that one for it. */
static void legacy(struct job *j)
{
	in_host_function(j, j->s[STREAMS - 1]);
	toil(&j->known, FM_CU_STREAM_LEGACY, j->x[0]);
	toil(&j->known, FM_CU_STREAM_LEGACY, j->x[0]);
}

static void blocking(struct job *j)
{
	in_host_function(j, FM_CU_STREAM_LEGACY);
	more(j, STREAMS - 1);
}

/* Beside one that is stopped inside its kernels. */
static void beside(struct job *j)
{
	host_function(j);
	for (unsigned i = 0; i < 60; i++)
		toil(&j->known, j->s[1], j->x[1]);
}

/* For longer than anybody waits, in a kernel that cannot be left. */
static void long_kernel(struct job *j)
{
	there(j, j->s[0]);
	spin(&j->c, j->s[0], j->x[0], UINT64_C(4000000000));
	CU(cuMemsetD32Async(j->x[0], 1, 1, j->s[0]));
	more(j, 0);
}

/* Four streams, and some more than leave channels for a stop. */
static void four(struct job *j)
{
	for (unsigned i = 0; i < 4; i++) {
		chain(&j->known, j->s[i], j->x[i], i);
		in_host_function(j, j->s[i]);
		more(j, i);
	}
}

/* The first launch of a graph is as that of a kernel: the second one can be stopped. */
static void launch_twice(struct job *j, CUgraph graph)
{
	CUgraphExec exec;

	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	atomic_store(&j->word[GO], 1);
	CU(cuGraphLaunch(exec, j->s[0]));
	CU(cuStreamSynchronize(j->s[0]));
	atomic_store(&j->word[GO], 0);
	atomic_store(&j->word[THERE], 0);
	CU(cuGraphLaunch(exec, j->s[0]));
	CU(cuGraphExecDestroy(exec));
	CU(cuGraphDestroy(graph));
}

/* With a branch: it is not guarded. */
static void graph(struct job *j)
{
	CUgraph graph;

	CU(cuStreamBeginCapture_v2(j->s[0], CU_CAPTURE_THREAD_LOCAL));
	step(&j->known, j->s[0], j->x[0]);
	CU(cuMemsetD32Async(j->x[1], 0, 1, j->s[0]));
	in_host_function(j, j->s[0]);
	order(j->s[0], j->s[1]);
	step(&j->known, j->s[0], j->x[0]);
	step(&j->known, j->s[1], j->x[1]);
	order(j->s[1], j->s[0]);
	CU(cuStreamEndCapture(j->s[0], &graph));
	launch_twice(j, graph);
	more(j, 0);
}

/* It is guarded, and waits in front of its kernels, between them and behind them. */
static void chain_graph(struct job *j, bool before, bool between, bool behind)
{
	CUgraph graph;

	CU(cuStreamBeginCapture_v2(j->s[0], CU_CAPTURE_THREAD_LOCAL));
	if (before)
		in_host_function(j, j->s[0]);
	step(&j->known, j->s[0], j->x[0]);
	toil(&j->known, j->s[0], j->x[0]);
	if (between)
		in_host_function(j, j->s[0]);
	toil(&j->known, j->s[0], j->x[0]);
	CU(cuMemsetD32Async(j->x[0], 1, 1, j->s[0]));
	chain(&j->known, j->s[0], j->x[0], 2);
	if (behind)
		in_host_function(j, j->s[0]);
	CU(cuStreamEndCapture(j->s[0], &graph));
	launch_twice(j, graph);
	more(j, 0);
}

static void graph_begins(struct job *j)
{
	chain_graph(j, true, false, false);
}

static void graph_between(struct job *j)
{
	chain_graph(j, false, true, false);
}

static void graph_ends(struct job *j)
{
	chain_graph(j, false, false, true);
}

/* --- what the thread does first --- */

static void launches(struct job *j)
{
	step(&j->fresh, j->s[5], j->x[5]);
}

static void launches_and_waits(struct job *j)
{
	launches(j);
	CU(cuStreamSynchronize(j->s[5]));
}

static void loads(struct job *j)
{
	CUlibrary library;

	CU(cuLibraryLoadData(&library, guard_cubin, NULL, NULL, 0, NULL, NULL, 0));
}

/* Into streams that have no channel yet. */
static void uses_others(struct job *j)
{
	for (unsigned i = 4; i < STREAMS - 1; i++)
		chain(&j->known, j->s[i], j->x[i], i);
	chain(&j->known, FM_CU_STREAM_LEGACY, j->x[6], 6);
}

/* There they stay, at no gate. */
static void orders_others(struct job *j)
{
	for (unsigned i = 4; i < STREAMS; i++)
		order(j->s[0], j->s[i]);
}

static const struct {
	const char *name;
	void (*make)(struct job *j);
} parts[] = {
	{"host-function", host_function},
	{"word", word},
	{"event", event},
	{"legacy", legacy},
	{"blocking", blocking},
	{"beside", beside},
	{"long-kernel", long_kernel},
	{"four", four},
	{"graph", graph},
	{"graph-begins", graph_begins},
	{"graph-between", graph_between},
	{"graph-ends", graph_ends},
	{"launches", launches},
	{"launches-and-waits", launches_and_waits},
	{"loads", loads},
	{"uses-others", uses_others},
	{"orders-others", orders_others},
};

static void do_part(struct job *j, const char *name)
{
	for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (!strcmp(parts[i].name, name)) {
			parts[i].make(j);
			return;
		}
	die("no such part: %s", name);
}

/* Each stream has its queue before, and each kernel of `known` was launched. */
static void begin(struct job *j)
{
	conform_open(&j->c);
	guard_open(&j->known);
	guard_open(&j->fresh);
	for (unsigned i = 0; i < STREAMS; i++) {
		j->s[i] = new_stream(i < STREAMS - 1 ? CU_STREAM_NON_BLOCKING : 0);
		j->x[i] = new_words(i);
		step(&j->known, j->s[i], j->x[i]);
		more(j, i);
	}
	step(&j->known, FM_CU_STREAM_LEGACY, j->x[STREAMS - 1]);
	spin(&j->c, j->s[1], j->x[1], 1);
	j->word = (_Atomic uint32_t *)mapped_words(&j->at);
	CU(cuCtxSynchronize());
}

static void end(struct job *j)
{
	CU(cuCtxSynchronize());
	j->c.notes = stdout;
	j->c.name = "x";
	for (unsigned i = 0; i < STREAMS; i++) {
		note_words(&j->c, "x", j->x[i], j->s[i]);
		CU(cuMemFree_v2(j->x[i]));
		CU(cuStreamDestroy_v2(j->s[i]));
	}
	CU(cuMemFreeHost((void *)j->word));
	guard_close(&j->fresh);
	guard_close(&j->known);
	conform_close(&j->c);
}

int main(int argc, char **argv)
{
	char line[16];
	struct job j;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (argc != 3)
		die("usage: WHERE CALL");
	load_dlsym(false);
	begin(&j);
	do_part(&j, argv[1]);
	while (!atomic_load(&j.word[THERE]))
		usleep(100);
	puts("waits");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 3;
	do_part(&j, argv[2]);
	atomic_store(&j.word[GO], 1);
	end(&j);
	return 0;
}
