/* SPDX-License-Identifier: Apache-2.0 */
/*
 * P10: how long each call that moves memory takes while another thread of the process stands inside
 * a call that waits for a stream at a closed gate. The gate is opened after some time, so nothing
 * waits for ever; code is loaded lazily.
 */
#include "gpu.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BLOCK (2 * MiB)
enum { QUEUED = 20000 };

static struct {
	CUstream s, other, mover, launcher;
	struct gate gate;
	CUdeviceptr block, fixed;
	void *pinned, *pageable;
	CUevent event, own;
	CUmodule module;
	CUlibrary library;
	CUgraphExec exec;
	CUfunction f;
	size_t deep;
	char *ptx;
	int rc; /* of the call that waits */
	/* the mover's */
	CUdeviceptr home, window, spare;
	handle resident, chunk;
	void *host, *page;
	int mover_rc;
	CUcontext own_ctx; /* NULL: this driver makes none */
	CUstream own_stream;
	CUevent own_event;
} w;
static double hold_ms = 300;

/* --- calls that may wait: what they need is made first, with the gate open --- */

static int make_nothing(void)
{
	return 0;
}

static int make_block(void)
{
	return cu.cuMemAlloc_v2(&w.block, 4 * BLOCK);
}

static int make_pinned(void)
{
	return cu.cuMemHostAlloc(&w.pinned, BLOCK, 0);
}

static int make_module(void)
{
	int rc = cu.cuModuleLoadData(&w.module, w.ptx);

	return rc ? rc : cu.cuModuleGetFunction(&w.f, w.module, "mix");
}

static int make_unloaded_module(void)
{
	return cu.cuModuleLoadData(&w.module, w.ptx);
}

static int make_library(void)
{
	CUkernel k;
	int rc = cu.cuLibraryLoadData(&w.library, w.ptx, NULL, NULL, 0, NULL, NULL, 0);

	if (!rc)
		rc = cu.cuLibraryGetKernel(&k, w.library, "mix");
	w.f = rc ? NULL : (CUfunction)k; /* a kernel stands for its function in a launch */
	return rc;
}

/* A kernel that needs more local memory than any before it. */
static int make_deep(void)
{
	char text[1024];
	int rc;

	w.deep += 1024;
	snprintf(text, sizeof(text),
		".version 6.4\n.target sm_75\n.address_size 64\n"
		".visible .entry deep(.param .u64 out, .param .u32 k)\n{\n"
		".local .align 4 .b8 room[%zu];\n.reg .b32 %%r<4>;\n.reg .b64 %%rd<7>;\n"
		"ld.param.u64 %%rd1, [out];\nld.param.u32 %%r1, [k];\nmov.u64 %%rd2, room;\n"
		"mul.wide.u32 %%rd3, %%r1, 4;\nadd.s64 %%rd4, %%rd2, %%rd3;\nst.local.u32 [%%rd4], "
		"%%r1;\n"
		"ld.local.u32 %%r2, [%%rd4+4];\ncvta.to.global.u64 %%rd5, %%rd1;\n"
		"st.global.u32 [%%rd5], %%r2;\nret;\n}\n",
		w.deep);
	rc = cu.cuModuleLoadData(&w.module, text);
	return rc ? rc : cu.cuModuleGetFunction(&w.f, w.module, "deep");
}

static int make_stream(void)
{
	return cu.cuStreamCreate(&w.other, CU_STREAM_NON_BLOCKING);
}

/* A graph that copies to memory which is not page-locked. */
static int make_graph(void)
{
	CUgraph graph = NULL;
	int rc = cu.cuStreamBeginCapture_v2(w.launcher, CU_CAPTURE_RELAXED), end;

	if (rc)
		return rc;
	rc = cu.cuMemcpyAsync((CUdeviceptr)(uintptr_t)w.pageable, w.fixed, BLOCK, w.launcher);
	end = cu.cuStreamEndCapture(w.launcher, &graph);
	rc = rc ? rc : end;
	if (!rc)
		rc = cu.cuGraphInstantiateWithFlags(&w.exec, graph, 0);
	if (graph)
		cu.cuGraphDestroy(graph);
	return rc;
}

static int launch_on(CUfunction f, CUstream s)
{
	CUdeviceptr x = w.fixed;
	uint32_t none = 0;
	void *params[] = {&x, &none, &none, &none};

	return cu.cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, s, params, NULL);
}

static int do_free(void)
{
	return cu.cuMemFree_v2(w.block);
}
static int do_free_host(void)
{
	return cu.cuMemFreeHost(w.pinned);
}
static int do_first_launch(void)
{
	return launch_on(w.f, w.launcher);
}
static int do_get_function(void)
{
	return cu.cuModuleGetFunction(&w.f, w.module, "relay");
}
static int do_load(void)
{
	return cu.cuModuleLoadData(&w.module, w.ptx);
}
static int do_unload(void)
{
	return cu.cuModuleUnload(w.module);
}
static int do_sync(void)
{
	return cu.cuCtxSynchronize();
}
static int do_stream_sync(void)
{
	return cu.cuStreamSynchronize(w.s);
}
static int do_event_sync(void)
{
	return cu.cuEventSynchronize(w.event);
}
static int do_alloc(void)
{
	return cu.cuMemAlloc_v2(&w.block, 64 * MiB);
}
static int do_host_alloc(void)
{
	return cu.cuMemHostAlloc(&w.pinned, BLOCK, 0);
}
static int do_read(void)
{
	return cu.cuMemcpyDtoHAsync_v2(w.pageable, w.fixed, BLOCK, w.s);
}
static int do_write(void)
{
	return cu.cuMemcpyHtoDAsync_v2(w.fixed, w.pageable, BLOCK, w.s);
}
static int do_graph(void)
{
	return cu.cuGraphLaunch(w.exec, w.s);
}

static int do_instantiate(void)
{
	return make_graph();
}

static int do_destroy(void)
{
	return cu.cuStreamDestroy_v2(w.other);
}

static int set_limit(int limit, size_t step, size_t base)
{
	static size_t n;

	return vm.cuCtxSetLimit ? vm.cuCtxSetLimit(limit, base + step * (++n % 7 + 1)) : ABSENT;
}

static int do_stack(void)
{
	return set_limit(0, 512, 1024);
}
static int do_printf(void)
{
	return set_limit(1, MiB, MiB);
}
static int do_heap(void)
{
	return set_limit(2, 4 * MiB, 8 * MiB);
}

/* The queue becomes full: a launch waits for room in it. */
static int do_many(void)
{
	int rc = 0;

	for (int i = 0; i < QUEUED && !rc && !atomic_load(w.gate.word); i++)
		rc = launch_on(gpu.mix, w.s);
	return rc;
}

static void clean(void)
{
	if (w.module)
		cu.cuModuleUnload(w.module);
	if (w.library)
		cu.cuLibraryUnload(w.library);
	if (w.exec)
		cu.cuGraphExecDestroy(w.exec);
	w.module = NULL;
	w.library = NULL;
	w.exec = NULL;
}

static const struct wait {
	const char *name;
	int (*make)(void), (*call)(void);
	bool unloads; /* the module is gone afterwards */
} waits[] = {
	{"cuMemFree", make_block, do_free, false},
	{"cuMemFreeHost", make_pinned, do_free_host, false},
	{"lazy first launch (library)", make_library, do_first_launch, false},
	{"first launch (module)", make_module, do_first_launch, false},
	{"lazy cuModuleGetFunction", make_unloaded_module, do_get_function, false},
	{"cuModuleLoadData", make_nothing, do_load, false},
	{"cuModuleUnload", make_module, do_unload, true},
	{"launch that grows local memory", make_deep, do_first_launch, false},
	{"cuCtxSetLimit stack", make_nothing, do_stack, false},
	{"cuCtxSetLimit printf", make_nothing, do_printf, false},
	{"cuCtxSetLimit heap", make_nothing, do_heap, false},
	{"cuCtxSynchronize", make_nothing, do_sync, false},
	{"cuStreamSynchronize", make_nothing, do_stream_sync, false},
	{"cuEventSynchronize", make_nothing, do_event_sync, false},
	{"cuMemcpyDtoHAsync pageable", make_nothing, do_read, false},
	{"cuMemcpyHtoDAsync pageable", make_nothing, do_write, false},
	{"launches until the queue is full", make_nothing, do_many, false},
	{"cuMemAlloc", make_nothing, do_alloc, false},
	{"cuMemHostAlloc", make_nothing, do_host_alloc, false},
	{"cuStreamDestroy", make_stream, do_destroy, false},
	{"graph with a pageable copy", make_graph, do_graph, false},
	{"capture, cuGraphInstantiate", make_nothing, do_instantiate, false},
};
enum { WAITS = sizeof(waits) / sizeof(*waits) };

/* --- the mover's --- */

static int mv_create(void)
{
	return chunk_new(&w.chunk, ON_DEVICE, BLOCK);
}
static int mv_map(void)
{
	return vm.cuMemMap(w.home, BLOCK, 0, w.chunk, 0);
}
static int mv_access(void)
{
	return chunk_access(w.home, BLOCK);
}
static int mv_unmap(void)
{
	return vm.cuMemUnmap(w.home, BLOCK);
}
static int mv_release(void)
{
	return vm.cuMemRelease(w.chunk);
}
static int mv_create_host(void)
{
	return chunk_new(&w.chunk, ON_HOST, BLOCK);
}
static int mv_out(void)
{
	return cu.cuMemcpyDtoHAsync_v2(w.host, w.window, BLOCK, w.mover);
}
static int mv_in(void)
{
	return cu.cuMemcpyHtoDAsync_v2(w.window, w.host, BLOCK, w.mover);
}
static int mv_record(void)
{
	return cu.cuEventRecord(w.own, w.mover);
}
static int mv_sync(void)
{
	return cu.cuStreamSynchronize(w.mover);
}
static int mv_launch(void)
{
	return launch_on(gpu.mix, w.mover);
}
static int mv_register(void)
{
	return cu.cuMemHostRegister_v2(w.page, BLOCK, 1);
}
static int mv_unregister(void)
{
	return cu.cuMemHostUnregister(w.page);
}

static int mv_query(void)
{
	int rc = cu.cuEventQuery(w.own);

	return rc == FM_CU_ERROR_NOT_READY ? 0 : rc;
}

static int mv_reserve(void)
{
	return vm.cuMemAddressReserve(&w.spare, BLOCK, BLOCK, 0, 0);
}

static int mv_unreserve(void)
{
	return vm.cuMemAddressFree(w.spare, BLOCK);
}

static int mv_info(void)
{
	size_t left, total;

	return cu.cuMemGetInfo_v2(&left, &total);
}

static int in_own(int (*call)(void))
{
	CUcontext was;
	int rc;

	if (!w.own_ctx)
		return 0;
	CK(cu.cuCtxPushCurrent_v2(w.own_ctx));
	rc = call();
	CK(cu.cuCtxPopCurrent_v2(&was));
	return rc;
}

static int own_out(void)
{
	return cu.cuMemcpyDtoHAsync_v2(w.host, w.window, BLOCK, w.own_stream);
}

static int own_in(void)
{
	return cu.cuMemcpyHtoDAsync_v2(w.window, w.host, BLOCK, w.own_stream);
}

static int own_record(void)
{
	return cu.cuEventRecord(w.own_event, w.own_stream);
}

static int own_sync(void)
{
	return cu.cuEventSynchronize(w.own_event);
}

static void make_own(void)
{
	CUcontext was;

	if (cu.cuCtxCreate_v2(&w.own_ctx, 0, gpu.dev)) {
		w.own_ctx = NULL;
		return;
	}
	w.own_stream = gpu_stream();
	CK(cu.cuEventCreate(&w.own_event, CU_EVENT_DISABLE_TIMING));
	CK(cu.cuCtxPopCurrent_v2(&was));
}

static const struct move {
	const char *name;
	int (*call)(void);
	bool own; /* in a context of the mover's own */
} moves[] = {{"create", mv_create, false}, {"map", mv_map, false}, {"access", mv_access, false},
	{"unmap", mv_unmap, false}, {"release", mv_release, false},
	{"create host", mv_create_host, false}, {"release host", mv_release, false},
	{"copy out", mv_out, false}, {"copy in", mv_in, false}, {"record", mv_record, false},
	{"query", mv_query, false}, {"sync", mv_sync, false}, {"launch", mv_launch, false},
	{"reserve", mv_reserve, false}, {"unreserve", mv_unreserve, false},
	{"register", mv_register, false}, {"unregister", mv_unregister, false},
	{"get info", mv_info, false}, {"own: out", own_out, true}, {"own: in", own_in, true},
	{"own: rec", own_record, true}, {"own: sync", own_sync, true}};
enum { MOVES = sizeof(moves) / sizeof(*moves) };

static int make_move(const struct move *m)
{
	return m->own ? in_own(m->call) : m->call();
}

/* In us; negative: it stood until the gate was opened. Shared with the process that has the device.
 */
static struct times {
	double move[WAITS + 1][MOVES], wait[WAITS + 1];
	int rc[WAITS + 1];
} * times;

static void name(int i, char *out, size_t size)
{
	snprintf(out, size, "%s", i < WAITS ? waits[i].name : "nobody waits");
}

static char *ptx(void)
{
	FILE *f = fopen(CUDA_PTX, "r");
	char *text = calloc(1, MiB);

	if (!f || !text || !fread(text, 1, MiB - 1, f))
		_exit(3);
	fclose(f);
	return text;
}

static void begin(void)
{
	gpu_open(true);
	w.ptx = ptx();
	w.s = gpu_stream();
	w.mover = gpu_stream();
	w.launcher = gpu_stream();
	w.gate = gate_new();
	CK(cu.cuMemAlloc_v2(&w.fixed, BLOCK));
	w.pageable = malloc(BLOCK);
	memset(w.pageable, 1, BLOCK);
	CK(cu.cuEventCreate(&w.event, CU_EVENT_DISABLE_TIMING));
	CK(cu.cuEventCreate(&w.own, CU_EVENT_DISABLE_TIMING));
	w.home = gpu_reserve(BLOCK, BLOCK);
	w.window = gpu_reserve(BLOCK, BLOCK);
	CK(chunk_new(&w.resident, ON_DEVICE, BLOCK));
	CK(chunk_map(w.window, BLOCK, w.resident));
	w.host = host_registered(BLOCK);
	w.page = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	make_own();
	for (int k = 0; k < MOVES; k++) /* what is done for the first time takes its time */
		CK(make_move(&moves[k]));
	CK(cu.cuStreamSynchronize(w.mover));
}

static void wait_there(void *arg)
{
	const struct wait *what = arg;

	w.rc = what->call();
}

static void move(void *arg)
{
	const struct move *what = arg;

	w.mover_rc = make_move(what);
}

/* Closes the gate and lets a thread wait behind it. False: it does not wait. */
static bool begin_wait(const struct wait *what, struct outcome *o)
{
	o->rc = what->make();
	if (o->rc) {
		o->is = MISSING;
		snprintf(o->text, sizeof(o->text), "what it needs could not be made");
		return false;
	}
	CK(gate_close(&w.gate, w.s));
	CK(launch_on(gpu.mix, w.s));
	CK(cu.cuEventRecord(w.event, w.s));
	if (what->call == do_destroy)
		CK(cu.cuStreamWaitEvent(w.other, w.event, 0));
	helper_start(0, wait_there, (void *)(uintptr_t)what);
	return !helper_done(0, 40e3);
}

static void end_wait(const struct wait *what)
{
	gate_open(&w.gate);
	if (!helper_done(0, 4e6))
		_exit(SERIES_HUNG);
	CK(cu.cuStreamSynchronize(w.s));
	CK(cu.cuStreamSynchronize(w.launcher));
	if (what->unloads)
		w.module = NULL;
	clean();
}

static void one(int i, struct outcome *o)
{
	const struct wait *what = i < WAITS ? &waits[i] : NULL;
	bool waiting = false, stands;
	double hold = hold_ms;
	int stood = 0;

	o->is = NOTED;
	for (int k = 0; k < MOVES; k++) {
		if (what && !waiting) {
			waiting = begin_wait(what, o);
			if (!waiting)
				break;
		}
		helper_start(1, move, (void *)(uintptr_t)&moves[k]);
		stands = !helper_done(1, what ? hold * 1e3 : 2e6);
		if (stands) {
			end_wait(what);
			waiting = false;
			if (!helper_done(1, 4e6))
				_exit(SERIES_HUNG);
			hold = hold_ms / 3;
			stood++;
		}
		times->move[i][k] = stands ? -helper_took(1) : helper_took(1);
		o->rc = o->rc ? o->rc : w.mover_rc;
	}
	if (what && o->is != MISSING) {
		bool did = waiting || stood;

		if (waiting || !stood)
			end_wait(what);
		times->wait[i] = did ? -1 : helper_took(0);
		times->rc[i] = w.rc;
		if (did)
			snprintf(o->text, sizeof(o->text), "waits; %d of the mover's calls stood",
				stood);
		else
			snprintf(
				o->text, sizeof(o->text), "does not wait: %.0f us", helper_took(0));
	}
	CK(cu.cuStreamSynchronize(w.mover));
}

static void table(const struct outcome *o, int *waited, int *stood)
{
	printf("%-34s", "P10: us (STOOD: till it was opened)");
	for (int k = 0; k < MOVES; k++)
		printf(" %9.9s", moves[k].name);
	printf("\n");
	for (int i = 0; i <= WAITS; i++) {
		char what[100];
		int here = 0;

		name(i, what, sizeof(what));
		printf("%-34s", what);
		if (o[i].is == HUNG || o[i].is == LOST || o[i].is == NOT_RUN || o[i].is == MISSING)
			printf(" %s", outcome_names[o[i].is]);
		else if (i < WAITS && times->wait[i] >= 0)
			printf(" does not wait (%.0f us, %s)", times->wait[i],
				gpu_error(times->rc[i]));
		else
			for (int k = 0; k < MOVES; k++) {
				here += times->move[i][k] < 0;
				if (times->move[i][k] < 0)
					printf(" %9s", "STOOD");
				else
					printf(" %9.0f", times->move[i][k]);
			}
		*waited += i < WAITS && times->wait[i] < 0;
		*stood += here > 0;
		printf("\n");
	}
}

int probe_locks(int argc, char **argv)
{
	struct series s = {"P10", WAITS + 1, name, begin, one, 25, 70};
	struct outcome *o;
	int waited = 0, stood = 0;

	if (argc > 0)
		hold_ms = atof(argv[0]);
	times = mmap(
		NULL, sizeof(*times), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (times == MAP_FAILED)
		return 1;
	o = series_run(&s);
	if (!o)
		return 77;
	table(o, &waited, &stood);
	printf("== P10 %d of %d calls wait inside the driver; beside %d of them calls of the mover "
	       "stand\n",
		waited, (int)WAITS, stood);
	return 0;
}
