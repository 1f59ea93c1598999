/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that does to its memory what the standard input says, a line each. Memory has numbers:
 *
 *   alloc BYTES          one more, to which something is copied
 *   run KERNEL OUT IN N  a kernel of the PTX file that is the first argument, in blocks of 64
 *   fill X  copy TO FROM  up X  down X  free X
 *   record  wait  host  sync  write X
 *   stream K             what follows is of that stream, 0 to 3
 *   graph OUT IN N       a graph of again_plain is captured and launched
 *   idle KERNEL OUT IN   a block of it, without anything to do
 *   reset                ends the context; there is another one, without memory
 *   export X             other processes may touch it
 *   import 0             tries to open what another process may have given
 *   machine PATH X N     N blocks of the kernel `step' of an image of machine code
 *
 * At the end it prints a hash of each memory that is left.
 */
#include "api/cuda/core/driver.h"
#include "api/cuda/core/types.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMORIES 64
#define THREADS  64u

typedef struct CUgraphExec_st *CUgraphExec;
fm_cu_result cuInit(unsigned flags);
fm_cu_result cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice dev);
fm_cu_result cuDevicePrimaryCtxReset_v2(CUdevice dev);
fm_cu_result cuCtxSetCurrent(CUcontext ctx);
fm_cu_result cuIpcGetMemHandle(struct fm_cu_ipc_handle *handle, CUdeviceptr p);
fm_cu_result cuIpcOpenMemHandle_v2(CUdeviceptr *p, struct fm_cu_ipc_handle handle, unsigned flags);
fm_cu_result cuIpcCloseMemHandle(CUdeviceptr p);
fm_cu_result cuModuleLoad(CUmodule *module, const char *path);
fm_cu_result cuModuleGetFunction(CUfunction *f, CUmodule module, const char *name);
fm_cu_result cuMemAlloc_v2(CUdeviceptr *p, size_t n);
fm_cu_result cuMemFree_v2(CUdeviceptr p);
fm_cu_result cuMemsetD32Async(CUdeviceptr p, unsigned value, size_t n, CUstream stream);
fm_cu_result cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream stream);
fm_cu_result cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t n, CUstream stream);
fm_cu_result cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t n, CUstream stream);
fm_cu_result cuStreamCreate(CUstream *stream, unsigned flags);
fm_cu_result cuStreamSynchronize(CUstream stream);
fm_cu_result cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags);
fm_cu_result cuStreamWriteValue32_v2(
	CUstream stream, CUdeviceptr at, uint32_t value, unsigned flags);
fm_cu_result cuLaunchHostFunc(CUstream stream, void (*fn)(void *user), void *user);
fm_cu_result cuEventCreate(CUevent *event, unsigned flags);
fm_cu_result cuEventRecord(CUevent event, CUstream stream);
fm_cu_result cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
	unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params, void **extra);
fm_cu_result cuStreamBeginCapture_v2(CUstream stream, int mode);
fm_cu_result cuStreamEndCapture(CUstream stream, CUgraph *graph);
fm_cu_result cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, uint64_t flags);
fm_cu_result cuGraphLaunch(CUgraphExec exec, CUstream stream);
fm_cu_result cuCtxSynchronize(void);

static struct {
	CUdeviceptr at[MEMORIES];
	size_t bytes[MEMORIES];
	int n;
	CUmodule module;
	CUstream of[4], stream;
	CUevent event;
} the;

static void need(fm_cu_result rc, const char *what)
{
	if (!rc)
		return;
	fprintf(stderr, "%s: error %d\n", what, rc);
	exit(1);
}
#define NEED(call) need(call, #call)

static void nothing(void *user)
{
	(void)user;
}

static void launch(const char *kernel, int out, int in, uint32_t n)
{
	void *params[] = {&the.at[out], &the.at[in], &n};
	unsigned blocks = n ? (n + THREADS - 1) / THREADS : 1;
	CUfunction f;

	NEED(cuModuleGetFunction(&f, the.module, kernel));
	NEED(cuLaunchKernel(f, blocks, 1, 1, THREADS, 1, 1, 0, the.stream, params, NULL));
}

static void machine(const char *path, int x, uint32_t n)
{
	void *params[] = {&the.at[x]};
	CUmodule module;
	CUfunction f;

	NEED(cuModuleLoad(&module, path));
	NEED(cuModuleGetFunction(&f, module, "step"));
	NEED(cuLaunchKernel(f, n, 1, 1, THREADS, 1, 1, 0, the.stream, params, NULL));
}

static void graph(int out, int in, uint32_t n)
{
	CUgraph captured;
	CUgraphExec exec;

	NEED(cuStreamBeginCapture_v2(the.stream, 0));
	launch("again_plain", out, in, n);
	NEED(cuStreamEndCapture(the.stream, &captured));
	NEED(cuGraphInstantiateWithFlags(&exec, captured, 0));
	NEED(cuGraphLaunch(exec, the.stream));
}

static void copy_host(int x, bool up)
{
	static uint32_t data[1 << 16];

	for (uint32_t i = 0; up && i < 1 << 16; i++)
		data[i] = i * 2654435761u;
	if (up)
		NEED(cuMemcpyHtoDAsync_v2(the.at[x], data, the.bytes[x], the.stream));
	else
		NEED(cuMemcpyDtoHAsync_v2(data, the.at[x], the.bytes[x], the.stream));
	NEED(cuStreamSynchronize(the.stream));
}

static void export(int x)
{
	struct fm_cu_ipc_handle handle;

	NEED(cuIpcGetMemHandle(&handle, the.at[x]));
}

static void import(int x)
{
	struct fm_cu_ipc_handle handle = {0};
	CUdeviceptr at;

	if (!cuIpcOpenMemHandle_v2(&at, handle, 1))
		NEED(cuIpcCloseMemHandle(at));
}

static void take(int x)
{
	NEED(cuStreamSynchronize(the.stream));
	NEED(cuMemFree_v2(the.at[x]));
	the.bytes[x] = 0;
}

static int order(const char *what, int x)
{
	if (!strcmp(what, "record"))
		NEED(cuEventRecord(the.event, the.stream));
	else if (!strcmp(what, "wait"))
		NEED(cuStreamWaitEvent(the.stream, the.event, 0));
	else if (!strcmp(what, "sync"))
		NEED(cuStreamSynchronize(the.stream));
	else if (!strcmp(what, "host"))
		NEED(cuLaunchHostFunc(the.stream, nothing, NULL));
	else if (!strcmp(what, "write"))
		NEED(cuStreamWriteValue32_v2(the.stream, the.at[x], 5, 0));
	else if (!strcmp(what, "stream"))
		the.stream = the.of[x];
	else
		return 0;
	return 1;
}

static int memory(const char *what, int x, int y)
{
	if (!strcmp(what, "alloc")) {
		the.bytes[the.n] = (size_t)x;
		NEED(cuMemAlloc_v2(&the.at[the.n], (size_t)x));
		copy_host(the.n++, true);
	} else if (!strcmp(what, "fill")) {
		NEED(cuMemsetD32Async(the.at[x], 3, the.bytes[x] / 4, the.stream));
	} else if (!strcmp(what, "copy")) {
		NEED(cuMemcpyDtoDAsync_v2(the.at[x], the.at[y], the.bytes[x], the.stream));
	} else if (!strcmp(what, "up") || !strcmp(what, "down")) {
		copy_host(x, *what == 'u');
	} else if (!strcmp(what, "free")) {
		take(x);
	} else if (!strcmp(what, "export")) {
		export(x);
	} else if (!strcmp(what, "import")) {
		import(x);
	} else {
		return 0;
	}
	return 1;
}

static void begin(const char *ptx)
{
	CUcontext ctx;

	NEED(cuInit(0));
	NEED(cuDevicePrimaryCtxRetain(&ctx, 0));
	NEED(cuCtxSetCurrent(ctx));
	NEED(cuModuleLoad(&the.module, ptx));
	NEED(cuEventCreate(&the.event, 0));
	for (int i = 1; i < 4; i++)
		NEED(cuStreamCreate(&the.of[i], FM_CU_STREAM_NON_BLOCKING));
}

static void reset(const char *ptx)
{
	NEED(cuCtxSynchronize());
	NEED(cuDevicePrimaryCtxReset_v2(0));
	memset(the.bytes, 0, sizeof(the.bytes));
	the.stream = NULL;
	begin(ptx);
}

static void tell(void)
{
	static unsigned char data[1 << 18];

	NEED(cuCtxSynchronize());
	for (int i = 0; i < the.n; i++) {
		uint32_t h = 2166136261u;

		if (!the.bytes[i])
			continue;
		NEED(cuMemcpyDtoHAsync_v2(data, the.at[i], the.bytes[i], NULL));
		NEED(cuStreamSynchronize(NULL));
		for (size_t k = 0; k < the.bytes[i]; k++)
			h = (h ^ data[k]) * 16777619u;
		printf("%d %08x\n", i, h);
	}
}

int main(int argc, char **argv)
{
	char line[512], what[64], text[256];
	int x = 0, y = 0;
	unsigned n;

	if (argc < 2)
		return 2;
	begin(argv[1]);
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "run %63s %d %d %u", text, &x, &y, &n) == 4)
			launch(text, x, y, n);
		else if (sscanf(line, "idle %63s %d %d", text, &x, &y) == 3)
			launch(text, x, y, 0);
		else if (!strcmp(line, "reset\n"))
			reset(argv[1]);
		else if (sscanf(line, "machine %255s %d %u", text, &x, &n) == 3)
			machine(text, x, n);
		else if (sscanf(line, "graph %d %d %u", &x, &y, &n) == 3)
			graph(x, y, n);
		else if (sscanf(line, "%63s %d %d", what, &x, &y) < 1 ||
			 (!memory(what, x, y) && !order(what, x)))
			need(1, line);
	}
	tell();
	return 0;
}
