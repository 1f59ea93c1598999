/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that forks while its threads, or Fermata's, are anywhere (forks.h): all of CUDA that it
 * uses is used in another thread. Its children, in which the driver answers with errors, call it
 * and <fermata/cuda.h>, end by exit(), or become another program.
 *
 * usage: no arguments; under `fermata run`, with libfake_park.so
 */
#define CUDA_NO_LINK
#define FERMATA_CUDA_OPTIONAL
#include "../integration/cuda/cuda_conform.h"
#include "forks.h"
#include <fermata/cuda.h>

#define LAUNCHES 20

static struct {
	struct conform c;
	CUstream s, t;
	CUevent e;
	CUdeviceptr x;
	CUgraph graph;
	CUgraphExec exec;
	bool open;
} w;

static void open_once(void)
{
	if (w.open)
		return;
	conform_open(&w.c);
	w.x = new_words(1);
	w.open = true;
}

static void steer(CUstream s)
{
	struct fm_cuda_binding b = {.size = sizeof(b), .group = "forks", .priority = 1};
	struct fm_cuda_info i = {.size = sizeof(i)};

	fm_cuda_bind(s, &b);
	fm_cuda_query(s, &i);
	fm_cuda_hint(s, FM_HINT_PRIORITY, 2);
	mix(&w.c, s, w.x, 1);
	fm_cuda_suspend(s, false, 0);
	mix(&w.c, s, w.x, 2);
	fm_cuda_resume(s);
	CU(cuStreamSynchronize(s));
	fm_cuda_unbind(s);
}

static void capture(CUstream s)
{
	CU(cuStreamBeginCapture_v2(s, CU_CAPTURE_RELAXED));
	for (uint32_t i = 0; i < LAUNCHES; i++)
		mix(&w.c, s, w.x, i);
	CU(cuMemsetD8Async(w.x, 1, 64, s));
	mix(&w.c, s, w.x, 1);
	CU(cuStreamEndCapture(s, &w.graph));
	CU(cuGraphInstantiateWithFlags(&w.exec, w.graph, 0));
	CU(cuGraphLaunch(w.exec, s));
	CU(cuGraphLaunch(w.exec, w.t));
	CU(cuCtxSynchronize());
	CU(cuGraphExecDestroy(w.exec));
	CU(cuGraphDestroy(w.graph));
}

static void load(void)
{
	CUmodule m;
	CUfunction f;

	CU(cuModuleLoadData(&m, cuda_ptx));
	CU(cuModuleGetFunction(&f, m, "mix"));
	CU(cuModuleUnload(m));
}

static void use(void)
{
	uint32_t words[WORDS];

	open_once();
	w.s = new_stream(CU_STREAM_NON_BLOCKING);
	w.t = new_stream(0);
	w.e = new_event();
	load();
	for (uint32_t i = 0; i < LAUNCHES; i++) {
		mix(&w.c, w.s, w.x, i);
		mix(&w.c, NULL, w.x, i);
		fill(&w.c, FM_CU_STREAM_PER_THREAD, w.x, i);
	}
	spin(&w.c, w.s, w.x, 3000000);
	CU(cuEventRecord(w.e, w.s));
	CU(cuStreamWaitEvent(w.t, w.e, 0));
	mix(&w.c, w.t, w.x, 1);
	CU(cuEventSynchronize(w.e));
	CU(cuMemcpyDtoHAsync_v2(words, w.x, BYTES, w.t));
	CU(cuStreamSynchronize(w.t));
	capture(w.s);
	steer(w.s);
	CU(cuEventDestroy_v2(w.e));
	CU(cuStreamDestroy_v2(w.s));
	CU(cuStreamDestroy_v2(w.t));
}

static void exits(void)
{
}

/* As destructors of objects do that the parent has made. */
static void calls_the_driver(void)
{
	uint32_t n = 0;
	CUgraphExec exec;
	CUstream s;
	CUevent e;

	cu.cuInit(0);
	cu.cuCtxSetCurrent(w.c.ctx);
	cu.cuStreamCreate(&s, 0);
	cu.cuEventCreate(&e, 0);
	cu.cuStreamQuery(w.s);
	cu.cuStreamSynchronize(w.s);
	cu.cuEventRecord(w.e, w.s);
	cu.cuStreamWaitEvent(w.s, w.e, 0);
	cu.cuLaunchKernel(w.c.mix, 1, 1, 1, 1, 1, 1, 0, w.s, (void *[]){&w.x, &n, &n, &n}, NULL);
	cu.cuLaunchKernel(w.c.mix, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&w.x, &n, &n, &n}, NULL);
	cu.cuMemcpyDtoH_v2(&n, w.x, sizeof(n));
	cu.cuStreamBeginCapture_v2(w.s, CU_CAPTURE_RELAXED);
	cu.cuGraphInstantiateWithFlags(&exec, w.graph, 0);
	cu.cuGraphLaunch(w.exec, w.s);
	cu.cuGraphExecDestroy(w.exec);
	cu.cuGraphDestroy(w.graph);
	cu.cuEventDestroy_v2(w.e);
	cu.cuStreamDestroy_v2(w.s);
	cu.cuModuleUnload(w.c.module);
	cu.cuCtxSynchronize();
	cu.cuDevicePrimaryCtxReset_v2(w.c.dev);
	cu.cuDevicePrimaryCtxRelease_v2(w.c.dev);
}

static void calls_fermata(void)
{
	struct fm_cuda_binding b = {.size = sizeof(b), .group = "child", .priority = 1};
	struct fm_cuda_info i = {.size = sizeof(i)};

	(void)fm_cuda_scheduled();
	fm_cuda_query(w.s, &i);
	fm_cuda_bind(w.s, &b);
	fm_cuda_hint(w.s, FM_HINT_PRIORITY, 1);
	fm_cuda_suspend(w.s, true, FM_FOREVER);
	fm_cuda_resume(w.s);
	fm_cuda_unbind(w.s);
}

int main(int argc, char **argv)
{
	static void (*const children[])(void) = {
		exits, calls_the_driver, calls_fermata, forks_exec, NULL};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	forks_find();
	conform_options(&argc, &argv);
	return forks_at_locks(use, children);
}
