/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that uses a device by OpenCL, one by the public library and, with "cuda", one by CUDA:
 * in each round a command of each, which it waits for. It prints "ready", then "at ROUNDS" after
 * each round, and obeys lines on stdin:
 *
 *   priority N   by the library, of the process's own group
 *   become NAME  the library's queue is one of the group NAME from now on
 *   stop         print "done ROUNDS wrong 0" and exit
 */
#include "../../../bench/batch.h"
#include <dlfcn.h>
#include <fermata/fermata.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

struct program {
	struct ocl ocl;
	cl_command_queue q;
	struct batch batch;
	fm_sim_device *device;
	fm_xqueue *xq;
	bool cuda;
	void *stream;
	uint64_t words;
};

static struct {
	int (*cuInit)(unsigned flags);
	int (*cuDeviceGet)(int *dev, int ordinal);
	int (*cuCtxCreate_v2)(void **ctx, unsigned flags, int dev);
	int (*cuStreamCreate)(void **stream, unsigned flags);
	int (*cuMemAlloc_v2)(uint64_t *ptr, size_t size);
	int (*cuMemsetD32Async)(uint64_t ptr, unsigned value, size_t n, void *stream);
	int (*cuStreamSynchronize)(void *stream);
} cu;

static void *driver(const char *name)
{
	static void *lib;
	void *fn;

	lib = lib ? lib : dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	fn = lib ? dlsym(lib, name) : NULL;
	if (!fn)
		die("no %s", name);
	return fn;
}

#define FIND(name) (*(void **)&cu.name = driver(#name))

static void must(int rc, const char *what)
{
	if (rc)
		die("%s: %d", what, rc);
}

static void open_cuda(struct program *p)
{
	void *ctx;
	int dev;

	FIND(cuInit);
	FIND(cuDeviceGet);
	FIND(cuCtxCreate_v2);
	FIND(cuStreamCreate);
	FIND(cuMemAlloc_v2);
	FIND(cuMemsetD32Async);
	FIND(cuStreamSynchronize);
	must(cu.cuInit(0), "cuInit");
	must(cu.cuDeviceGet(&dev, 0), "cuDeviceGet");
	must(cu.cuCtxCreate_v2(&ctx, 0, dev), "cuCtxCreate");
	must(cu.cuStreamCreate(&p->stream, 1), "cuStreamCreate");
	must(cu.cuMemAlloc_v2(&p->words, 4096), "cuMemAlloc");
}

static void open_library(struct program *p, const char *group)
{
	struct fm_xqueue_options o = {.size = sizeof(o)};
	fm_hwqueue *hwq;

	if (group)
		must(fm_group_create(&o.group, group), "fm_group_create");
	must(fm_sim_hwqueue_create(&hwq, p->device), "fm_sim_hwqueue_create");
	must(fm_xqueue_create(&p->xq, hwq, &o), "fm_xqueue_create");
}

static void play(struct program *p)
{
	const struct fm_command command = {.device_ns = 200000};
	uint64_t seq;
	cl_event done;

	batch_enqueue(&p->batch, p->q, 1, &done);
	OCL(clWaitForEvents(1, &done));
	OCL(clReleaseEvent(done));
	must(fm_xqueue_submit(p->xq, &command, &seq), "submit");
	must(fm_xqueue_wait(p->xq, seq, UINT64_C(60000000000)), "wait");
	if (p->cuda) {
		must(cu.cuMemsetD32Async(p->words, 7, 1024, p->stream), "memset");
		must(cu.cuStreamSynchronize(p->stream), "synchronize");
	}
}

/* False: it was the end. */
static bool obey(struct program *p)
{
	char line[64], name[32];
	int value;

	if (!fgets(line, sizeof(line), stdin) || !strcmp(line, "stop\n"))
		return false;
	if (sscanf(line, "priority %d", &value) == 1) {
		must(fm_group_hint(NULL, FM_HINT_PRIORITY, value), "fm_group_hint");
	} else if (sscanf(line, "become %31s", name) == 1) {
		must(fm_xqueue_destroy(p->xq), "destroy");
		open_library(p, name);
	} else {
		die("unknown command: %s", line);
	}
	return true;
}

int main(int argc, char **argv)
{
	struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
	static struct program p; /* what it holds is not lost at the end */
	unsigned rounds = 0;

	p.cuda = argc > 1 && !strcmp(argv[1], "cuda");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setvbuf(stdout, NULL, _IOLBF, 0);
	setvbuf(stdin, NULL, _IONBF, 0);
	ocl_open(&p.ocl);
	p.q = ocl_queue(&p.ocl, 0);
	batch_open(&p.batch, &p.ocl, 64);
	must(fm_sim_device_create(&p.device, "shared:0", NULL), "fm_sim_device_create");
	open_library(&p, NULL);
	if (p.cuda)
		open_cuda(&p);
	puts("ready");
	do {
		play(&p);
		printf("at %u\n", ++rounds);
	} while (poll(&in, 1, 0) <= 0 || obey(&p));
	printf("done %u wrong %u\n", rounds, batch_check(&p.batch, p.q));
	return 0;
}
