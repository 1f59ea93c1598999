/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"
#include <string.h>

enum {
	PITCH = 8192,
	WIDTH = 4096,
	BYTE = 0x5a,
	FILL_WORD = 0x12345678,
	WORD_AT = 2 * 1024 * 1024 + 64
};
#define WORD     0xabcdef01u
#define LARGE_AT (512 * 1024)
#define LARGE    (3 * MiB)

struct command commands[COMMANDS_MOST];

static const char *const how_names[] = {
	[SYNC] = "cuMemcpy",
	[SYNC_TYPED] = "cuMemcpy_typed",
	[SYNC_2D] = "cuMemcpy2D",
	[SYNC_3D] = "cuMemcpy3D",
	[COPY] = "cuMemcpyAsync",
	[COPY_TYPED] = "cuMemcpy_typedAsync",
	[COPY_2D] = "cuMemcpy2DAsync",
	[COPY_3D] = "cuMemcpy3DAsync",
	[COPY_BATCH] = "cuMemcpyBatchAsync",
	[COPY_PEER] = "cuMemcpyPeerAsync",
	[COPY_NODE] = "graph_copy_node",
	[COPY_CAPTURED] = "graph_captured_copy",
	[FILL8_SYNC] = "cuMemsetD8",
	[FILL2D_SYNC] = "cuMemsetD2D32",
	[FILL8] = "cuMemsetD8Async",
	[FILL16] = "cuMemsetD16Async",
	[FILL32] = "cuMemsetD32Async",
	[FILL2D] = "cuMemsetD2D8Async",
	[FILL_NODE] = "graph_fill_node",
	[KERNEL] = "kernel",
	[KERNEL_NODE] = "graph_kernel_node",
	[KERNEL_CAPTURED] = "graph_captured_kernel",
	[TEXTURE] = "texture",
	[TEXTURE_MADE] = "texture_made_late",
	[WRITE_WORD] = "cuStreamWriteValue32",
};
static const char *const place_names[] = {"T", "device", "pinned", "pageable"};

int commands_make(void)
{
	static const struct {
		enum place from, to;
		size_t from_at, to_at, n;
	} pairs[] = {{PINNED, T, LARGE_AT, LARGE_AT, LARGE},
		{PAGEABLE, T, LARGE_AT, LARGE_AT, LARGE}, {PINNED, T, FAR, FAR, 4096},
		{PAGEABLE, T, FAR, FAR, 4096}, {T, PINNED, LARGE_AT, LARGE_AT, LARGE},
		{T, PAGEABLE, LARGE_AT, LARGE_AT, LARGE}, {T, PAGEABLE, FAR, FAR, 4096},
		{PLAIN, T, LARGE_AT, LARGE_AT, LARGE}, {T, PLAIN, LARGE_AT, LARGE_AT, LARGE},
		{T, T, 0, CHUNK, 3 * MiB / 2}};
	int n = 0;

	for (enum how how = 0; how < COPIES; how++)
		for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
			bool plane = how == SYNC_2D || how == SYNC_3D || how == COPY_2D ||
				     how == COPY_3D;
			bool on_device = pairs[i].from <= PLAIN && pairs[i].to <= PLAIN;

			if ((plane && pairs[i].n < PITCH) || (how == COPY_PEER && !on_device))
				continue;
			commands[n++] = (struct command){how, pairs[i].from, pairs[i].to,
				pairs[i].from_at, pairs[i].to_at, pairs[i].n};
		}
	for (enum how how = COPIES; how <= WRITE_WORD; how++) {
		bool reads = how == TEXTURE || how == TEXTURE_MADE;

		commands[n++] =
			(struct command){how, T, reads ? PLAIN : T, LARGE_AT, LARGE_AT, LARGE};
	}
	commands[n++] = (struct command){FILL8, T, T, FAR, FAR, 4096};
	return n;
}

void command_name(const struct command *c, char *out, size_t size)
{
	const char *small = c->n <= 4096 ? " 4K" : "";

	if (c->how < COPIES)
		snprintf(out, size, "%s %s>%s%s", how_names[c->how], place_names[c->from],
			place_names[c->to], small);
	else
		snprintf(out, size, "%s%s", how_names[c->how], small);
}

bool command_waits(const struct command *c)
{
	return c->how <= SYNC_3D || c->how == FILL8_SYNC || c->how == FILL2D_SYNC;
}

CUstream command_stream(const struct command *c, const struct places *p)
{
	return command_waits(c) ? FM_CU_STREAM_LEGACY : p->s;
}

static CUdeviceptr at(const struct places *p, enum place which, size_t offset)
{
	switch (which) {
	case T:
		return p->t + offset;
	case PLAIN:
		return p->plain + offset;
	case PINNED:
		return (CUdeviceptr)(uintptr_t)p->pinned + offset;
	default:
		return (CUdeviceptr)(uintptr_t)p->pageable + offset;
	}
}

static struct cu_copy_2d plane_of(const struct command *c, const struct places *p)
{
	struct cu_copy_2d d = {
		.src_pitch = PITCH, .dst_pitch = PITCH, .width = WIDTH, .height = c->n / PITCH};

	d.src_type = c->from <= PLAIN ? CU_MEMORY_DEVICE : CU_MEMORY_HOST;
	d.dst_type = c->to <= PLAIN ? CU_MEMORY_DEVICE : CU_MEMORY_HOST;
	d.src_device = at(p, c->from, c->from_at);
	d.src_host = (void *)(uintptr_t)d.src_device;
	d.dst_device = at(p, c->to, c->to_at);
	d.dst_host = (void *)(uintptr_t)d.dst_device;
	return d;
}

static struct cu_copy_3d box_of(const struct command *c, const struct places *p)
{
	size_t rows = c->n / PITCH / 2;
	struct cu_copy_3d d = {.width = WIDTH, .height = rows, .depth = 2};

	d.src.type = c->from <= PLAIN ? CU_MEMORY_DEVICE : CU_MEMORY_HOST;
	d.dst.type = c->to <= PLAIN ? CU_MEMORY_DEVICE : CU_MEMORY_HOST;
	d.src.device = at(p, c->from, c->from_at);
	d.src.host = (void *)(uintptr_t)d.src.device;
	d.dst.device = at(p, c->to, c->to_at);
	d.dst.host = (void *)(uintptr_t)d.dst.device;
	d.src.pitch = d.dst.pitch = PITCH;
	d.src.height = d.dst.height = rows;
	return d;
}

/* One row, for the node of a graph. */
static struct cu_copy_3d row_of(const struct command *c, const struct places *p)
{
	struct cu_copy_3d d = box_of(c, p);

	d.width = c->n;
	d.height = d.depth = 1;
	d.src.pitch = d.dst.pitch = c->n;
	d.src.height = d.dst.height = 1;
	return d;
}

static int copy_typed(const struct command *c, const struct places *p, bool async)
{
	CUdeviceptr dst = at(p, c->to, c->to_at), src = at(p, c->from, c->from_at);
	void *to = (void *)(uintptr_t)dst, *from = (void *)(uintptr_t)src;

	if (c->from > PLAIN)
		return async ? cu.cuMemcpyHtoDAsync_v2(dst, from, c->n, p->s)
			     : cu.cuMemcpyHtoD_v2(dst, from, c->n);
	if (c->to > PLAIN)
		return async ? cu.cuMemcpyDtoHAsync_v2(to, src, c->n, p->s)
			     : cu.cuMemcpyDtoH_v2(to, src, c->n);
	return async ? cu.cuMemcpyDtoDAsync_v2(dst, src, c->n, p->s)
		     : cu.cuMemcpyDtoD_v2(dst, src, c->n);
}

static int copy_batch(const struct command *c, const struct places *p)
{
	CUdeviceptr dst[2], src[2];
	size_t half = c->n / 2, sizes[2] = {half, half}, first = 0, failed;
	struct cu_copy_attributes how = {.order = 1};

	for (size_t i = 0; i < 2; i++) {
		dst[i] = at(p, c->to, c->to_at + i * half);
		src[i] = at(p, c->from, c->from_at + i * half);
	}
	if (cu.cuMemcpyBatchAsync_v2)
		return cu.cuMemcpyBatchAsync_v2(dst, src, sizes, 2, &how, &first, 1, p->s);
	if (cu.cuMemcpyBatchAsync)
		return cu.cuMemcpyBatchAsync(dst, src, sizes, 2, &how, &first, 1, &failed, p->s);
	return ABSENT;
}

static int copy(const struct command *c, const struct places *p)
{
	CUdeviceptr dst = at(p, c->to, c->to_at), src = at(p, c->from, c->from_at);
	struct cu_copy_2d plane = plane_of(c, p);
	struct cu_copy_3d box = box_of(c, p);

	switch (c->how) {
	case SYNC:
		return cu.cuMemcpy(dst, src, c->n);
	case SYNC_TYPED:
		return copy_typed(c, p, false);
	case SYNC_2D:
		return cu.cuMemcpy2D_v2(&plane);
	case SYNC_3D:
		return cu.cuMemcpy3D_v2(&box);
	case COPY:
		return cu.cuMemcpyAsync(dst, src, c->n, p->s);
	case COPY_TYPED:
		return copy_typed(c, p, true);
	case COPY_2D:
		return cu.cuMemcpy2DAsync_v2(&plane, p->s);
	case COPY_3D:
		return cu.cuMemcpy3DAsync_v2(&box, p->s);
	case COPY_PEER:
		return cu.cuMemcpyPeerAsync(dst, gpu.ctx, src, gpu.ctx, c->n, p->s);
	default:
		return copy_batch(c, p);
	}
}

static int launch(const struct command *c, const struct places *p)
{
	CUdeviceptr x = at(p, c->to, c->to_at);
	uint32_t n = (uint32_t)(c->n / 4), number = 7, rounds = 3;
	void *params[] = {&x, &n, &number, &rounds};

	return cu.cuLaunchKernel(gpu.mix, 64, 1, 1, 256, 1, 1, 0, p->s, params, NULL);
}

static int make_texture(const struct command *c, const struct places *p, texture *t)
{
	enum { LINEAR = 2, UINT32 = 3, AS_INTEGER = 1 };
	struct texture_source from = {.type = LINEAR};
	struct texture_how how = {.flags = AS_INTEGER};

	if (!vm.cuTexObjectCreate || !gpu.textures)
		return ABSENT;
	from.linear.at = at(p, T, c->from_at);
	from.linear.format = UINT32;
	from.linear.channels = 4;
	from.linear.size = c->n;
	return vm.cuTexObjectCreate(t, &from, &how, NULL);
}

static int through_texture(const struct command *c, const struct places *p, texture t)
{
	CUdeviceptr out = at(p, c->to, c->to_at);
	uint32_t n = (uint32_t)(c->n / 16);
	void *params[] = {&out, &t, &n};

	return cu.cuLaunchKernel(gpu.through_texture, 64, 1, 1, 256, 1, 1, 0, p->s, params, NULL);
}

static int add_node(const struct command *c, const struct places *p, CUgraph graph)
{
	CUdeviceptr x = at(p, c->to, c->to_at);
	uint32_t n = (uint32_t)(c->n / 4), number = 7, rounds = 3;
	void *params[] = {&x, &n, &number, &rounds};
	struct cu_kernel_node kernel = {
		.f = gpu.mix, .grid = {64, 1, 1}, .block = {256, 1, 1}, .params = params};
	struct cu_fill_node fill = {.dst = x, .value = FILL_WORD, .width = 4, .n = n, .height = 1};
	struct cu_copy_3d row = row_of(c, p);
	CUgraphNode node;

	if (c->how == COPY_NODE)
		return cu.cuGraphAddMemcpyNode(&node, graph, NULL, 0, &row, gpu.ctx);
	if (c->how == FILL_NODE)
		return cu.cuGraphAddMemsetNode(&node, graph, NULL, 0, &fill, gpu.ctx);
	return cu.cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &kernel);
}

static int capture(const struct command *c, const struct places *p, struct prepared *r)
{
	CUdeviceptr dst = at(p, c->to, c->to_at), src = at(p, c->from, c->from_at);
	struct places own = *p;
	int rc, end;

	own.s = gpu_stream();
	r->step = "cuStreamBeginCapture";
	rc = cu.cuStreamBeginCapture_v2(own.s, CU_CAPTURE_RELAXED);
	if (!rc) {
		r->step = "the captured call";
		rc = c->how == COPY_CAPTURED ? cu.cuMemcpyAsync(dst, src, c->n, own.s)
					     : launch(c, &own);
		end = cu.cuStreamEndCapture(own.s, &r->graph);
		if (!rc && end) {
			r->step = "cuStreamEndCapture";
			rc = end;
		}
	}
	cu.cuStreamDestroy_v2(own.s);
	return rc;
}

int command_prepare(const struct command *c, const struct places *p, struct prepared *r)
{
	int rc;

	*r = (struct prepared){.step = "the call"};
	if (c->how == TEXTURE) {
		r->step = "cuTexObjectCreate";
		return make_texture(c, p, &r->t);
	}
	if (c->how == COPY_CAPTURED || c->how == KERNEL_CAPTURED) {
		rc = capture(c, p, r);
	} else if (c->how == COPY_NODE || c->how == FILL_NODE || c->how == KERNEL_NODE) {
		CK(cu.cuGraphCreate(&r->graph, 0));
		r->step = "adding the node";
		rc = add_node(c, p, r->graph);
	} else {
		return 0;
	}
	if (rc)
		return rc;
	r->step = "cuGraphInstantiate";
	rc = cu.cuGraphInstantiateWithFlags(&r->exec, r->graph, 0);
	if (!rc)
		r->step = "cuGraphLaunch";
	return rc;
}

static int fill(const struct command *c, const struct places *p)
{
	CUdeviceptr x = at(p, T, c->to_at);

	switch (c->how) {
	case FILL8_SYNC:
		return cu.cuMemsetD8_v2(x, BYTE, c->n);
	case FILL2D_SYNC:
		return vm.cuMemsetD2D32_v2
			       ? vm.cuMemsetD2D32_v2(x, PITCH, FILL_WORD, WIDTH / 4, c->n / PITCH)
			       : ABSENT;
	case FILL8:
		return cu.cuMemsetD8Async(x, BYTE, c->n, p->s);
	case FILL16:
		return vm.cuMemsetD16Async ? vm.cuMemsetD16Async(x, 0x1234, c->n / 2, p->s)
					   : ABSENT;
	case FILL32:
		return cu.cuMemsetD32Async(x, FILL_WORD, c->n / 4, p->s);
	default:
		return vm.cuMemsetD2D8Async
			       ? vm.cuMemsetD2D8Async(x, PITCH, BYTE, WIDTH, c->n / PITCH, p->s)
			       : ABSENT;
	}
}

int command_give(const struct command *c, const struct places *p, struct prepared *r)
{
	int rc;

	if (r->exec)
		return cu.cuGraphLaunch(r->exec, p->s);
	if (c->how < COPIES)
		return copy(c, p);
	if (c->how < FILL_NODE)
		return fill(c, p);
	if (c->how == KERNEL)
		return launch(c, p);
	if (c->how == WRITE_WORD)
		return cu.cuStreamWriteValue32_v2(p->s, p->t + WORD_AT, WORD, 0);
	if (c->how == TEXTURE_MADE) {
		r->step = "cuTexObjectCreate";
		rc = make_texture(c, p, &r->t);
		if (rc)
			return rc;
	}
	r->step = "the launch";
	return through_texture(c, p, r->t);
}

void command_clean(struct prepared *r)
{
	if (r->exec)
		cu.cuGraphExecDestroy(r->exec);
	if (r->graph)
		cu.cuGraphDestroy(r->graph);
	if (r->t)
		vm.cuTexObjectDestroy(r->t);
}

/* --- the same on the processor --- */

static void mix(uint32_t *x, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		x[i] ^= 7 + (uint32_t)i;
		for (int k = 0; k < 3; k++)
			x[i] = x[i] * 1664525u + 1013904223u;
	}
}

static void fill_words(char *p, size_t n, uint32_t v)
{
	for (size_t i = 0; i < n; i += 4)
		memcpy(p + i, &v, 4);
}

static void effect_of_fill(const struct command *c, char *to)
{
	bool plane = c->how == FILL2D || c->how == FILL2D_SYNC;
	size_t rows = plane ? c->n / PITCH : 1, width = plane ? WIDTH : c->n;

	for (size_t r = 0; r < rows; r++) {
		char *row = to + r * PITCH;

		if (c->how == FILL16)
			fill_words(row, width, 0x12341234);
		else if (c->how == FILL32 || c->how == FILL_NODE || c->how == FILL2D_SYNC)
			fill_words(row, width, FILL_WORD);
		else
			memset(row, BYTE, width);
	}
}

void command_effect(const struct command *c, char *const mem[PLACES])
{
	char *to = mem[c->to] + c->to_at;
	const char *from = mem[c->from] + c->from_at;
	uint32_t word = WORD;

	switch (c->how) {
	case SYNC_2D:
	case SYNC_3D:
	case COPY_2D:
	case COPY_3D:
		for (size_t at_ = 0; at_ + PITCH <= c->n; at_ += PITCH)
			memcpy(to + at_, from + at_, WIDTH);
		break;
	case KERNEL:
	case KERNEL_NODE:
	case KERNEL_CAPTURED:
		mix((uint32_t *)(void *)to, c->n / 4);
		break;
	case WRITE_WORD:
		memcpy(mem[T] + WORD_AT, &word, 4);
		break;
	default:
		if (c->how < COPIES || c->how == TEXTURE || c->how == TEXTURE_MADE)
			memcpy(to, from, c->n);
		else
			effect_of_fill(c, to);
	}
}

void pattern(char *p, size_t size, uint32_t number)
{
	uint32_t *w = (uint32_t *)(void *)p;

	for (size_t i = 0; i < size / 4; i++)
		w[i] = (uint32_t)i * 2654435761u ^ (number * 0x9e3779b9u + 1);
}
