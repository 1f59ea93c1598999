/* SPDX-License-Identifier: Apache-2.0 */
/*
 * P8: what each call that names an address answers where nothing is mapped: nowhere (hole), or in
 * the second chunk only (half); beside what it answers where all is mapped. Then whether the
 * context still works.
 */
#include "commands.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum state { MAPPED, HOLE, HALF, STATES };
static const char *const state_names[] = {"mapped", "hole", "half"};
static int n_commands;
static struct {
	struct places p;
	handle chunks[2];
	struct prepared r;
	const struct command *c;
	int rc;
} w;

/* --- calls that are no commands --- */

static int attribute(int which)
{
	uint64_t value[2] = {0};

	return cu.cuPointerGetAttribute(value, which, w.p.t + FAR);
}

static int many_attributes(void)
{
	int which[3] = {2, 8, 9};
	uint64_t values[3] = {0};
	void *at[3] = {&values[0], &values[1], &values[2]};

	return vm.cuPointerGetAttributes ? vm.cuPointerGetAttributes(3, which, at, w.p.t + FAR)
					 : ABSENT;
}

static int sync_memops(void)
{
	unsigned on = 1;

	return vm.cuPointerSetAttribute ? vm.cuPointerSetAttribute(&on, 6, w.p.t + FAR) : ABSENT;
}

static int address_range(void)
{
	CUdeviceptr base;
	size_t size;

	return vm.cuMemGetAddressRange_v2 ? vm.cuMemGetAddressRange_v2(&base, &size, w.p.t + FAR)
					  : ABSENT;
}

static int memory_free(void)
{
	return cu.cuMemFree_v2(w.p.t);
}

static int memory_free_async(void)
{
	return cu.cuMemFreeAsync ? cu.cuMemFreeAsync(w.p.t, w.p.s) : ABSENT;
}

static int ipc_handle(void)
{
	char out[64];

	return vm.cuIpcGetMemHandle ? vm.cuIpcGetMemHandle(out, w.p.t) : ABSENT;
}

static int dma_buf(void)
{
	int fd = -1, rc = ABSENT;

	if (vm.cuMemGetHandleForAddressRange)
		rc = vm.cuMemGetHandleForAddressRange(&fd, w.p.t, RANGE, 1, 0);
	if (!rc)
		close(fd);
	return rc;
}

static int retain(void)
{
	handle h = 0;
	int rc = ABSENT;

	if (vm.cuMemRetainAllocationHandle)
		rc = vm.cuMemRetainAllocationHandle(&h, (void *)(uintptr_t)(w.p.t + CHUNK));
	if (!rc)
		vm.cuMemRelease(h);
	return rc;
}

static int get_access(void)
{
	struct cu_location where = {ON_DEVICE, gpu.dev};
	unsigned long long flags;

	return vm.cuMemGetAccess ? vm.cuMemGetAccess(&flags, &where, w.p.t + CHUNK) : ABSENT;
}

static int set_access(void)
{
	return chunk_access(w.p.t, RANGE);
}

static int tensor_map(void)
{
	_Alignas(64) char map[128];
	uint64_t dims[2] = {1024, 512}, strides[1] = {4096};
	uint32_t box[2] = {64, 64}, steps[2] = {1, 1};

	if (!vm.cuTensorMapEncodeTiled)
		return ABSENT;
	return vm.cuTensorMapEncodeTiled(
		map, 2, 2, (void *)(uintptr_t)w.p.t, dims, strides, box, steps, 0, 0, 0, 0);
}

static int texture_plane(void)
{
	enum { PLANE = 3, UINT32 = 3, AS_INTEGER = 1 };
	struct texture_source from = {.type = PLANE};
	struct texture_how how = {.flags = AS_INTEGER};
	texture t;
	int rc;

	if (!vm.cuTexObjectCreate)
		return ABSENT;
	from.plane.at = w.p.t;
	from.plane.format = UINT32;
	from.plane.channels = 4;
	from.plane.width = 512;
	from.plane.height = 384;
	from.plane.pitch = 8192;
	rc = vm.cuTexObjectCreate(&t, &from, &how, NULL);
	if (!rc)
		vm.cuTexObjectDestroy(t);
	return rc;
}

static int wait_word(void)
{
	return cu.cuStreamWaitValue32_v2(w.p.s, w.p.t + CHUNK, 0, CU_WAIT_GEQ);
}

static int batch_words(void)
{
	union fm_cu_mem_op ops[2] = {{.op = {FM_CU_OP_WAIT_VALUE_32, w.p.t + CHUNK, 0, 0, 0}},
		{.op = {FM_CU_OP_WRITE_VALUE_32, w.p.t + CHUNK, 1, 0, 0}}};

	return cu.cuStreamBatchMemOp_v2(w.p.s, 2, ops, 0);
}

static int host_register(void)
{
	int rc = cu.cuMemHostRegister_v2((void *)(uintptr_t)w.p.t, RANGE, 0);

	if (!rc)
		cu.cuMemHostUnregister((void *)(uintptr_t)w.p.t);
	return rc;
}

static int device_pointer(void)
{
	CUdeviceptr p;

	return cu.cuMemHostGetDevicePointer_v2(&p, (void *)(uintptr_t)w.p.t, 0);
}

/* A kernel that is given the address, and does not use it. */
static int kernel_unused(void)
{
	CUdeviceptr x = w.p.t;
	uint32_t none = 0;
	void *params[] = {&x, &none, &none, &none};

	return cu.cuLaunchKernel(gpu.mix, 1, 1, 1, 32, 1, 1, 0, w.p.s, params, NULL);
}

/* The node of a graph is given another target. */
static int set_copy_node(enum place was, enum place is)
{
	const struct command to = {COPY_NODE, PINNED, was, FAR, FAR, 4096};
	struct cu_copy_3d row = {
		.src = {.type = CU_MEMORY_HOST, .host = w.p.pinned, .pitch = 4096, .height = 1},
		.dst = {.type = CU_MEMORY_DEVICE, .pitch = 4096, .height = 1},
		.width = 4096,
		.height = 1,
		.depth = 1};
	struct prepared r;
	CUgraphNode node;
	size_t one = 1;
	int rc = command_prepare(&to, &w.p, &r);

	row.dst.device = is == T ? w.p.t : w.p.plain;
	if (!rc && !cu.cuGraphExecMemcpyNodeSetParams)
		rc = ABSENT;
	if (!rc) {
		CK(cu.cuGraphGetNodes(r.graph, &node, &one));
		rc = cu.cuGraphExecMemcpyNodeSetParams(r.exec, node, &row, gpu.ctx);
	}
	command_clean(&r);
	return rc;
}

static int set_plain_to_plain(void)
{
	return set_copy_node(PLAIN, PLAIN);
}

static int set_plain_to_t(void)
{
	return set_copy_node(PLAIN, T);
}

static int set_t_to_plain(void)
{
	return set_copy_node(T, PLAIN);
}

static int set_t_to_t(void)
{
	return set_copy_node(T, T);
}

static int unmap_again(void)
{
	return vm.cuMemUnmap(w.p.t, RANGE);
}

static const struct {
	const char *name;
	int (*call)(void);
} others[] = {{"cuPointerGetAttributes", many_attributes},
	{"cuPointerSetAttribute SYNC_MEMOPS", sync_memops}, {"cuMemGetAddressRange", address_range},
	{"cuMemFree", memory_free}, {"cuMemFreeAsync", memory_free_async},
	{"cuIpcGetMemHandle", ipc_handle}, {"cuMemGetHandleForAddressRange", dma_buf},
	{"cuMemRetainAllocationHandle", retain}, {"cuMemGetAccess", get_access},
	{"cuMemSetAccess", set_access}, {"cuTensorMapEncodeTiled", tensor_map},
	{"cuTexObjectCreate pitch2D", texture_plane}, {"cuStreamWaitValue32", wait_word},
	{"cuStreamBatchMemOp", batch_words}, {"cuMemHostRegister", host_register},
	{"cuMemHostGetDevicePointer", device_pointer},
	{"kernel that does not use it", kernel_unused},
	{"cuGraphExecMemcpyNodeSetParams device>device", set_plain_to_plain},
	{"cuGraphExecMemcpyNodeSetParams device>T", set_plain_to_t},
	{"cuGraphExecMemcpyNodeSetParams T>device", set_t_to_plain},
	{"cuGraphExecMemcpyNodeSetParams T>T", set_t_to_t}, {"cuMemUnmap", unmap_again}};
enum { OTHERS = sizeof(others) / sizeof(*others), ATTRIBUTES = 21 };

static int per_state(void)
{
	return ATTRIBUTES + OTHERS + n_commands;
}

static void what_name(int k, char *out, size_t size)
{
	if (k < ATTRIBUTES)
		snprintf(out, size, "cuPointerGetAttribute %d", k + 1);
	else if (k < ATTRIBUTES + OTHERS)
		snprintf(out, size, "%s", others[k - ATTRIBUTES].name);
	else
		command_name(&commands[k - ATTRIBUTES - OTHERS], out, size);
}

static void name(int i, char *out, size_t size)
{
	char what[100];

	what_name(i % per_state(), what, sizeof(what));
	snprintf(out, size, "%s %s", state_names[i / per_state()], what);
}

static void begin(void)
{
	gpu_open(false);
	w.p.s = gpu_stream();
	w.p.t = gpu_reserve(RANGE, CHUNK);
	for (int k = 0; k < 2; k++)
		CK(chunk_new(&w.chunks[k], ON_DEVICE, CHUNK));
	CK(cu.cuMemAlloc_v2(&w.p.plain, RANGE));
	w.p.pinned = host_pinned(RANGE);
	w.p.pageable = malloc(RANGE);
	memset(w.p.pageable, 1, RANGE);
}

static void give(void *arg)
{
	(void)arg;
	w.rc = command_prepare(w.c, &w.p, &w.r);
	if (!w.rc)
		w.rc = command_give(w.c, &w.p, &w.r);
}

static void one(int i, struct outcome *o)
{
	enum state state = (enum state)(i / per_state());
	int k = i % per_state();

	if (state != HOLE)
		CK(chunk_map(w.p.t, CHUNK, w.chunks[0]));
	if (state == MAPPED)
		CK(chunk_map(w.p.t + CHUNK, CHUNK, w.chunks[1]));
	o->is = NOTED;
	w.r = (struct prepared){0};
	w.c = NULL;
	if (k < ATTRIBUTES) {
		w.rc = attribute(k + 1);
	} else if (k < ATTRIBUTES + OTHERS) {
		w.rc = others[k - ATTRIBUTES].call();
	} else {
		w.c = &commands[k - ATTRIBUTES - OTHERS];
		helper_start(0, give, NULL);
		if (!helper_done(0, 2e6)) {
			_exit(SERIES_HUNG);
		}
		if (w.rc)
			snprintf(o->text, sizeof(o->text), "by %s", w.r.step);
	}
	o->rc = w.rc;
	if (o->rc == ABSENT)
		o->is = MISSING;
	o->after = cu.cuStreamSynchronize(w.p.s);
	if (!o->after)
		o->after = cu.cuCtxSynchronize();
	if (w.c && w.c->how != KERNEL)
		command_clean(&w.r);
	if (state != HOLE)
		vm.cuMemUnmap(w.p.t, CHUNK);
	if (state == MAPPED)
		vm.cuMemUnmap(w.p.t + CHUNK, CHUNK);
}

/* A line for each call: what each state gave. */
static int table(const struct outcome *o)
{
	int lost = 0;

	printf("%-44s %-24s %-34s %-34s\n", "P8: code of the call; then", "mapped", "hole", "half");
	for (int k = 0; k < per_state(); k++) {
		char what[100];

		what_name(k, what, sizeof(what));
		printf("%-44s", what);
		for (int s = 0; s < STATES; s++) {
			const struct outcome *one_ = &o[s * per_state() + k];
			char cell[80];

			if (one_->signal)
				snprintf(cell, sizeof(cell), "SIGNAL %d", one_->signal);
			else if (one_->is == HUNG || one_->is == NOT_RUN)
				snprintf(cell, sizeof(cell), "%s", outcome_names[one_->is]);
			else
				snprintf(cell, sizeof(cell), "%s%s%s%s", gpu_error(one_->rc),
					one_->after ? "; " : "",
					one_->after ? gpu_error(one_->after) : "",
					one_->is == LOST ? " (lost)" : "");
			printf(" %-*s", s ? 34 : 24, cell);
			lost += s != MAPPED && one_->is == LOST;
		}
		printf("\n");
	}
	return lost;
}

int probe_holes(int argc, char **argv)
{
	struct series s = {"P8", 0, name, begin, one, 5, argc > 0 ? atof(argv[0]) : 40};
	struct outcome *o;
	int lost, refused = 0, accepted = 0;

	n_commands = commands_make();
	s.n = STATES * per_state();
	o = series_run(&s);
	if (!o)
		return 77;
	lost = table(o);
	for (int i = per_state(); i < s.n; i++) {
		refused += o[i].is == NOTED && o[i].rc;
		accepted += o[i].is == NOTED && !o[i].rc;
	}
	printf("== P8 calls on holes: %d refused, %d accepted without harm, %d lost the context\n",
		refused, accepted, lost);
	return 0;
}
