/* SPDX-License-Identifier: Apache-2.0 */
/* Copies and fills, with the rules for pageable memory of the host. */
#include "engines.h"
#include "vmm.h"
#include <stdlib.h>
#include <string.h>

#define STAGED_MAX 65536 /* larger copies from pageable memory wait for the stream */

static bool on_device(const void *p)
{
	bool yes;

	pthread_mutex_lock(&fk.lock);
	yes = fk_place(p) == FK_DEVICE;
	pthread_mutex_unlock(&fk.lock);
	return yes;
}

/* Within the device, and within the host, no engine is asked. */
static void take_time(const struct fk_work *w)
{
	bool from = !w->copy.staged && on_device(w->copy.src), to = on_device(w->copy.dst);

	if (from != to)
		fk_engine_copy(to ? FK_IN : FK_OUT, w->copy.width * w->copy.height);
}

#define WORDS 512 /* bytes: longer copies are not of words that somebody else changes */

/* Each word whole, as a device does. */
static void copy_row(char *dst, const char *src, size_t size)
{
	uint64_t word;

	if (size > WORDS || ((uintptr_t)dst | (uintptr_t)src | size) % 8 ||
		(dst < src + size && src < dst + size)) {
		memmove(dst, src, size);
		return;
	}
	for (size_t i = 0; i < size; i += 8) {
		word = __atomic_load_n((const uint64_t *)(src + i), __ATOMIC_RELAXED);
		__atomic_store_n((uint64_t *)(dst + i), word, __ATOMIC_RELAXED);
	}
}

static void run_copy(struct fk_work *w)
{
	const char *src = w->copy.staged ? w->copy.staged : w->copy.src;
	char *dst = w->copy.dst;

	if (fk_engine_takes_time())
		take_time(w);

	for (size_t y = 0; y < w->copy.height; y++)
		copy_row(dst + y * w->copy.dst_pitch, src + y * w->copy.src_pitch, w->copy.width);
}

static void end_copy(struct fk_work *w)
{
	free(w->copy.staged);
}

static fm_cu_result stage(struct fk_work *w)
{
	size_t pitch = w->copy.src_pitch;

	w->copy.staged = malloc(w->copy.width * w->copy.height);
	if (!w->copy.staged)
		return CU_OUT_OF_MEMORY;
	for (size_t y = 0; y < w->copy.height; y++)
		memcpy((char *)w->copy.staged + y * w->copy.width,
			(const char *)w->copy.src + y * pitch, w->copy.width);
	w->copy.src_pitch = w->copy.width;
	return FM_CU_SUCCESS;
}

/* What a call says of its addresses. */
enum naming {
	TYPED,   /* which one is the device's */
	UNIFIED, /* nothing */
	BATCH,   /* nothing, and there may be many */
};

static bool names_hole(const struct fk_work *w)
{
	size_t width = w->copy.width, n = w->copy.height;

	return fk_vmm_hole(w->copy.src, fk_extent(w->copy.src_pitch, width, n)) ||
	       fk_vmm_hole(w->copy.dst, fk_extent(w->copy.dst_pitch, width, n));
}

static bool in_range(const void *p)
{
	struct fk_mapped m;

	return fk_vmm_find(p, &m);
}

/* As driver 580 was seen to do: a call that says which address is the device's fails. One that does
 * not takes a hole for memory of the device, if the copy begins there, and loses it. */
static bool refused(const struct fk_work *w, enum naming how)
{
	const void *src = w->copy.src, *dst = w->copy.dst;

	if (how == BATCH || !names_hole(w))
		return false;
	return how == TYPED || (fk_place(src) != FK_HOLE && fk_place(dst) != FK_HOLE &&
				       !(in_range(src) && in_range(dst)));
}

/* From the host to the host, neither pageable: a call that returns when it is done. Those with
 * chunks do not, unless FAKE_CUDA_WITHIN_HOST has it so. */
static bool within_host(const struct fk_work *w, enum naming how)
{
	const void *src = w->copy.src, *dst = w->copy.dst;

	if (fk_place(src) == FK_DEVICE || fk_place(dst) == FK_DEVICE)
		return false;
	if (in_range(src) || in_range(dst))
		return fk_env("FAKE_CUDA_WITHIN_HOST");
	return how != BATCH && !fk.waits_unlocked && fk_reachable(src) && fk_reachable(dst);
}

static bool host_chunk(const void *p)
{
	return in_range(p) && fk_place(p) == FK_PINNED;
}

/* Driver 580 does not get on with chunks of the host and pageable memory in one batch. */
static bool loses(const struct fk_work *w, enum naming how)
{
	const void *src = w->copy.src, *dst = w->copy.dst;

	return how == BATCH && ((fk_place(src) == FK_PAGEABLE && host_chunk(dst)) ||
				       (fk_place(dst) == FK_PAGEABLE && host_chunk(src)));
}

static void run_lost(struct fk_work *w)
{
	pthread_mutex_lock(&fk.lock);
	fk_lose(CU_ILLEGAL_ADDRESS);
	pthread_mutex_unlock(&fk.lock);
}

/* It waits in the driver, and has the context's lock meanwhile. */
static void wait_inside(CUcontext ctx, struct fk_point at)
{
	bool held = fk_hw_hold(ctx);

	fk_wait(at);
	fk_hw_let_go(ctx, held);
}

/* May return before the copy is made when it is from a small piece of pageable memory: what that
 * held at the call is what is copied. Into pageable memory it returns with the copy made. */
static fm_cu_result copy(struct fk_work *w, CUstream handle, bool sync, enum naming how)
{
	bool from_pageable = fk_place(w->copy.src) == FK_PAGEABLE;
	bool to_pageable = fk_place(w->copy.dst) == FK_PAGEABLE;
	bool small = w->copy.width * w->copy.height <= STAGED_MAX && how != BATCH;
	bool on_device = fk_place(w->copy.src) == FK_DEVICE && fk_place(w->copy.dst) == FK_DEVICE;
	bool late = within_host(w, how);
	struct fk_point at;
	CUstream s;

	w->what = FK_COPY;
	w->run = loses(w, how) ? run_lost : run_copy;
	w->end = end_copy;
	if (!w->copy.width || !w->copy.height)
		return FM_CU_SUCCESS;
	if (!w->copy.src || !w->copy.dst || refused(w, how))
		return FM_CU_ERROR_INVALID_VALUE;
	FK_TRY(fk_stream_find(handle, &s));
	FK_TRY(fk_implicit(s));
	if (sync && from_pageable && !s->capture)
		fk_wait(fk_tail(s));
	if (from_pageable && small && !s->capture)
		FK_TRY(stage(w));
	FK_TRY(fk_enqueue(handle, w, &at));
	if (late)
		wait_inside(s->ctx, at);
	else if ((to_pageable && how != BATCH) || (from_pageable && !small) ||
		 (sync && !on_device && !from_pageable))
		fk_wait(at);
	return FM_CU_SUCCESS;
}

static fm_cu_result copy_1d(
	CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream s, bool sync, enum naming how)
{
	struct fk_work w = {.copy = {.dst = (void *)(uintptr_t)dst,
				    .src = (void *)(uintptr_t)src,
				    .dst_pitch = n,
				    .src_pitch = n,
				    .width = n,
				    .height = 1}};

	FK_TRY(fk_enter_ctx());
	return fk_leave(copy(&w, s, sync, how));
}

/* Its device side must be memory that the device can reach. */
static fm_cu_result check_device(CUdeviceptr d, size_t n)
{
	const void *p = (void *)(uintptr_t)d;
	bool ok;

	FK_TRY(fk_enter_ctx());
	ok = !n || (fk_reachable(p) && !fk_vmm_hole(p, n));
	return fk_leave(ok ? FM_CU_SUCCESS : FM_CU_ERROR_INVALID_VALUE);
}

fm_cu_result cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t size)
{
	return copy_1d(dst, src, size, NULL, true, UNIFIED);
}

/* All memory is the host's: between devices a copy is one like any other. */
static fm_cu_result copy_peer(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src,
	CUcontext src_ctx, size_t size, CUstream stream, bool sync)
{
	bool known;

	FK_TRY(fk_enter_ctx());
	known = fk_ctx_known(dst_ctx) && fk_ctx_known(src_ctx);
	FK_TRY(fk_leave(known ? FM_CU_SUCCESS : CU_INVALID_CONTEXT));
	return copy_1d(dst, src, size, stream, sync, TYPED);
}

fm_cu_result cuMemcpyPeer(
	CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx, size_t size)
{
	return copy_peer(dst, dst_ctx, src, src_ctx, size, NULL, true);
}

fm_cu_result cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src,
	CUcontext src_ctx, size_t size, CUstream stream)
{
	return copy_peer(dst, dst_ctx, src, src_ctx, size, stream, false);
}

fm_cu_result cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t size)
{
	FK_TRY(check_device(dst, size));
	return copy_1d(dst, (uintptr_t)src, size, NULL, true, TYPED);
}

fm_cu_result cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t size)
{
	FK_TRY(check_device(src, size));
	return copy_1d((uintptr_t)dst, src, size, NULL, true, TYPED);
}

fm_cu_result cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t size)
{
	FK_TRY(check_device(dst, size));
	FK_TRY(check_device(src, size));
	return copy_1d(dst, src, size, NULL, true, TYPED);
}

fm_cu_result cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream)
{
	FK_TRY(fk_fails(__func__));
	return copy_1d(dst, src, size, stream, false, UNIFIED);
}

fm_cu_result cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t size, CUstream stream)
{
	FK_TRY(fk_fails(__func__));
	FK_TRY(check_device(dst, size));
	return copy_1d(dst, (uintptr_t)src, size, stream, false, TYPED);
}

fm_cu_result cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t size, CUstream stream)
{
	FK_TRY(fk_fails(__func__));
	FK_TRY(check_device(src, size));
	return copy_1d((uintptr_t)dst, src, size, stream, false, TYPED);
}

fm_cu_result cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream)
{
	FK_TRY(fk_fails(__func__));
	FK_TRY(check_device(dst, size));
	FK_TRY(check_device(src, size));
	return copy_1d(dst, src, size, stream, false, TYPED);
}

static fm_cu_result copy_2d(const struct cu_copy_2d *c, CUstream stream, bool sync)
{
	struct fk_work w = {0};
	const char *src;
	char *dst;

	FK_TRY(fk_enter_ctx());
	if (!c || c->src_type == CU_MEMORY_ARRAY || c->dst_type == CU_MEMORY_ARRAY)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	src = c->src_type == CU_MEMORY_HOST ? c->src_host : (void *)(uintptr_t)c->src_device;
	dst = c->dst_type == CU_MEMORY_HOST ? c->dst_host : (void *)(uintptr_t)c->dst_device;
	w.copy.src = src + c->src_y * c->src_pitch + c->src_x;
	w.copy.dst = dst + c->dst_y * c->dst_pitch + c->dst_x;
	w.copy.src_pitch = c->src_pitch;
	w.copy.dst_pitch = c->dst_pitch;
	w.copy.width = c->width;
	w.copy.height = c->height;
	return fk_leave(copy(&w, stream, sync, TYPED));
}

fm_cu_result cuMemcpy2D_v2(const struct cu_copy_2d *c)
{
	return copy_2d(c, NULL, true);
}

fm_cu_result cuMemcpy2DAsync_v2(const struct cu_copy_2d *c, CUstream stream)
{
	return copy_2d(c, stream, false);
}

/* A plane after the other. */
static fm_cu_result copy_3d(const struct cu_copy_3d *c, CUstream stream, bool sync)
{
	for (size_t z = 0; c && z < c->depth; z++) {
		size_t from = (c->src.z + z) * c->src.pitch * c->src.height;
		size_t to = (c->dst.z + z) * c->dst.pitch * c->dst.height;
		struct cu_copy_2d plane = {.src_x = c->src.x,
			.src_y = c->src.y,
			.src_type = c->src.type,
			.src_host = (char *)c->src.host + from,
			.src_device = c->src.device + from,
			.src_pitch = c->src.pitch,
			.dst_x = c->dst.x,
			.dst_y = c->dst.y,
			.dst_type = c->dst.type,
			.dst_host = (char *)c->dst.host + to,
			.dst_device = c->dst.device + to,
			.dst_pitch = c->dst.pitch,
			.width = c->width,
			.height = c->height};

		FK_TRY(copy_2d(&plane, stream, sync));
	}
	return c ? FM_CU_SUCCESS : FM_CU_ERROR_INVALID_VALUE;
}

fm_cu_result cuMemcpy3D_v2(const struct cu_copy_3d *c)
{
	return copy_3d(c, NULL, true);
}

fm_cu_result cuMemcpy3DAsync_v2(const struct cu_copy_3d *c, CUstream stream)
{
	return copy_3d(c, stream, false);
}

/* One stream's copies, whose order among each other is free. The default streams are refused. */
fm_cu_result cuMemcpyBatchAsync_v2(CUdeviceptr *dst, CUdeviceptr *src, size_t *size, size_t n,
	struct cu_copy_attributes *attrs, size_t *attr_at, size_t attr_n, CUstream stream)
{
	if (!stream || stream == FM_CU_STREAM_LEGACY || stream == FM_CU_STREAM_PER_THREAD)
		return CU_INVALID_HANDLE;
	if (!n || !attr_n || !attrs || !attr_at || attr_at[0])
		return FM_CU_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < n; i++)
		FK_TRY(copy_1d(dst[i], src[i], size[i], stream, false, BATCH));
	return FM_CU_SUCCESS;
}

fm_cu_result cuMemcpyBatchAsync(CUdeviceptr *dst, CUdeviceptr *src, size_t *size, size_t n,
	struct cu_copy_attributes *attrs, size_t *attr_at, size_t attr_n, size_t *failed,
	CUstream stream)
{
	if (failed)
		*failed = SIZE_MAX;
	return cuMemcpyBatchAsync_v2(dst, src, size, n, attrs, attr_at, attr_n, stream);
}

static void run_set(struct fk_work *w)
{
	if (w->set.width == 1)
		memset(w->set.dst, (int)w->set.value, w->set.n);
	else
		for (size_t i = 0; i < w->set.n; i++)
			((uint32_t *)w->set.dst)[i] = w->set.value;
}

static fm_cu_result set(CUdeviceptr dst, unsigned value, unsigned width, size_t n, CUstream stream)
{
	struct fk_work w = {.what = FK_FILL,
		.run = run_set,
		.set = {.dst = (void *)(uintptr_t)dst, .n = n, .value = value, .width = width}};
	fm_cu_result rc;
	CUstream s;

	FK_TRY(check_device(dst, n * width));
	if (dst % width)
		return FM_CU_ERROR_INVALID_VALUE;
	FK_TRY(fk_enter_ctx());
	rc = fk_stream_find(stream, &s);
	rc = rc ? rc : fk_implicit(s);
	return fk_leave(rc || !n ? rc : fk_enqueue(stream, &w, NULL));
}

fm_cu_result cuMemsetD8_v2(CUdeviceptr dst, unsigned char v, size_t n)
{
	return set(dst, v, 1, n, NULL);
}

fm_cu_result cuMemsetD32_v2(CUdeviceptr dst, unsigned v, size_t n)
{
	return set(dst, v, 4, n, NULL);
}

fm_cu_result cuMemsetD8Async(CUdeviceptr dst, unsigned char v, size_t n, CUstream stream)
{
	FK_TRY(fk_fails(__func__));
	return set(dst, v, 1, n, stream);
}

/* As a driver of later years may have it, with one parameter more. */
fm_cu_result cuMemsetD8Async_v99(
	CUdeviceptr dst, unsigned char v, size_t n, unsigned flags, CUstream stream)
{
	return flags == 7 ? set(dst, v, 1, n, stream) : FM_CU_ERROR_INVALID_VALUE;
}

fm_cu_result cuMemsetD32Async(CUdeviceptr dst, unsigned v, size_t n, CUstream stream)
{
	FK_TRY(fk_fails(__func__));
	return set(dst, v, 4, n, stream);
}

/* --- as nodes of graphs --- */

static void *place_of(const struct cu_place_3d *p)
{
	return p->type == CU_MEMORY_HOST ? p->host : (void *)(uintptr_t)p->device;
}

bool fk_copy_1d(const struct cu_copy_3d *c, struct fk_work *w)
{
	if (c->height != 1 || c->depth != 1)
		return false;
	w->copy.src = place_of(&c->src);
	w->copy.dst = place_of(&c->dst);
	w->copy.src_pitch = w->copy.dst_pitch = w->copy.width = c->width;
	w->copy.height = 1;
	return true;
}

fm_cu_result cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
	size_t n, const struct cu_copy_3d *c, CUcontext ctx)
{
	struct fk_work w = {.what = FK_COPY, .run = run_copy, .end = end_copy};

	if (!c || !ctx || !fk_copy_1d(c, &w))
		return FM_CU_ERROR_INVALID_VALUE;
	FK_TRY(fk_enter());
	if (names_hole(&w))
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	return fk_leave(fk_graph_compose(node, graph, deps, n, &w));
}

fm_cu_result cuGraphMemcpyNodeGetParams(CUgraphNode node, struct cu_copy_3d *c)
{
	const struct fk_work *w = &node->work;

	FK_TRY(fk_enter());
	if (w->what != FK_COPY || w->copy.height != 1)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	*c = (struct cu_copy_3d){
		.src = {.type = CU_MEMORY_UNIFIED, .device = (uintptr_t)w->copy.src},
		.dst = {.type = CU_MEMORY_UNIFIED, .device = (uintptr_t)w->copy.dst},
		.width = w->copy.width,
		.height = 1,
		.depth = 1};
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
	size_t n, const struct cu_fill_node *fill, CUcontext ctx)
{
	struct fk_work w = {.what = FK_FILL, .run = run_set};

	if (!fill || !ctx || fill->height != 1 || (fill->width != 1 && fill->width != 4))
		return FM_CU_ERROR_INVALID_VALUE;
	w.set.dst = (void *)(uintptr_t)fill->dst;
	w.set.n = fill->n;
	w.set.value = fill->value;
	w.set.width = fill->width;
	FK_TRY(fk_enter());
	if (fk_vmm_hole(w.set.dst, w.set.n * w.set.width))
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	return fk_leave(fk_graph_compose(node, graph, deps, n, &w));
}

fm_cu_result cuGraphMemsetNodeGetParams(CUgraphNode node, struct cu_fill_node *fill)
{
	const struct fk_work *w = &node->work;

	FK_TRY(fk_enter());
	if (w->what != FK_FILL)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	*fill = (struct cu_fill_node){.dst = (uintptr_t)w->set.dst,
		.value = w->set.value,
		.width = w->set.width,
		.n = w->set.n,
		.height = 1};
	return fk_leave(FM_CU_SUCCESS);
}
