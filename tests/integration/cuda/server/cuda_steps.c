/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA program whose device can be watched without its help: each kernel makes one step, from v
 * to 3 v + 1, in the first word of FILE, which the device writes itself. It prints "ready", obeys
 * lines on stdin, and answers each by its first word when its kernels have run:
 *
 *   stream N US    N kernels of US us in a stream; it says "launched" when all of them are there
 *   captured N US  a graph of such kernels, captured, launched once
 *   composed N US  the same, node by node
 *   both N US      N kernels on this device, and N on another, which steps the 17th word
 *   fault N US     N kernels, then one that writes where nothing is; and what the driver says to
 *                  that, and to what comes then
 *
 * At the end of stdin it ends.
 *
 * usage: FILE [DEVICE]
 */
#define CUDA_NO_LINK
#include "../cuda_conform.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>

struct job {
	struct conform c;
	CUstream s;
	CUdeviceptr word;
};

static void say(const char *what)
{
	puts(what);
	fflush(stdout);
}

static void kernels(struct job *j, int n, uint64_t ns)
{
	for (int i = 0; i < n; i++)
		spin(&j->c, j->s, j->word, ns);
}

static void stream(struct job *j, int n, uint64_t ns)
{
	kernels(j, n, ns);
	say("launched");
	CU(cuStreamSynchronize(j->s));
}

static void replay(struct job *j, CUgraph graph)
{
	CUgraphExec exec;

	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CU(cuGraphDestroy(graph));
	CU(cuGraphLaunch(exec, j->s));
	CU(cuStreamSynchronize(j->s));
	CU(cuGraphExecDestroy(exec));
}

static void captured(struct job *j, int n, uint64_t ns)
{
	CUgraph graph;

	CU(cuStreamBeginCapture_v2(j->s, CU_CAPTURE_RELAXED));
	kernels(j, n, ns);
	CU(cuStreamEndCapture(j->s, &graph));
	replay(j, graph);
}

static void composed(struct job *j, int n, uint64_t ns)
{
	struct cu_kernel_node kernel = {.f = j->c.spin,
		.grid = {1, 1, 1},
		.block = {1, 1, 1},
		.params = (void *[]){&j->word, &ns}};
	CUgraphNode node = NULL, last;
	CUgraph graph;

	CU(cuGraphCreate(&graph, 0));
	for (int i = 0; i < n; i++) {
		last = node;
		CU(cuGraphAddKernelNode_v2(&node, graph, &last, last != NULL, &kernel));
	}
	replay(j, graph);
}

/* The process has work on two devices. */
static void both(struct job *j, int n, uint64_t ns)
{
	struct job other = {.word = j->word + 64};
	int devices;

	CU(cuDeviceGetCount(&devices));
	conform_open_on(&other.c, (j->c.dev + 1) % devices);
	other.s = new_stream(CU_STREAM_NON_BLOCKING);
	kernels(&other, n, ns);
	CU(cuCtxSetCurrent(j->c.ctx));
	kernels(j, n, ns);
	CU(cuStreamSynchronize(j->s));
	CU(cuCtxSetCurrent(other.c.ctx));
	CU(cuStreamSynchronize(other.s));
	CU(cuStreamDestroy_v2(other.s));
	conform_close(&other.c);
	CU(cuCtxSetCurrent(j->c.ctx));
}

#define SAY(call) printf("%s: %d\n", #call, cu.call)

static void fault(struct job *j, int n, uint64_t ns)
{
	CUevent e = new_event();
	CUdeviceptr x;
	uint32_t word;

	kernels(j, n, ns);
	spin(&j->c, j->s, 64, 0);  /* where nothing is */
	cu.cuEventRecord(e, j->s); /* before it runs, or after */
	SAY(cuStreamSynchronize(j->s));
	SAY(cuStreamQuery(j->s));
	SAY(cuEventSynchronize(e));
	SAY(cuLaunchKernel(j->c.spin, 1, 1, 1, 1, 1, 1, 0, j->s, (void *[]){&j->word, &ns}, NULL));
	SAY(cuMemcpyDtoH_v2(&word, j->word, 4));
	SAY(cuMemAlloc_v2(&x, 4));
	SAY(cuStreamCreate(&j->s, 0));
	SAY(cuCtxSynchronize());
}

static void begin(struct job *j, const char *path, int device)
{
	int fd = open(path, O_RDWR);
	void *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (fd < 0 || p == MAP_FAILED)
		die("%s cannot be mapped", path);
	load_proc(false);
	CU(cuInit(0));
	conform_open_on(&j->c, device);
	CU(cuMemHostRegister_v2(p, BYTES, 3 /* portable, mapped */));
	CU(cuMemHostGetDevicePointer_v2(&j->word, p, 0));
	j->s = new_stream(CU_STREAM_NON_BLOCKING);
	kernels(j, 1, 1000);
	CU(cuStreamSynchronize(j->s));
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(struct job *j, int n, uint64_t ns);
	} commands[] = {
		{"stream", stream},
		{"captured", captured},
		{"composed", composed},
		{"both", both},
		{"fault", fault},
	};
	struct job j = {0};
	char name[16];
	int n, us;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (argc < 2)
		die("usage: FILE [DEVICE]");
	begin(&j, argv[1], argc > 2 ? atoi(argv[2]) : 0);
	say("ready");
	while (scanf("%15s %d %d", name, &n, &us) == 3) {
		for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++)
			if (!strcmp(commands[i].name, name))
				commands[i].run(&j, n, (uint64_t)us * 1000);
		say(name);
	}
	return 0;
}
