/* SPDX-License-Identifier: Apache-2.0 */
#include "fake.h"
#include <stdlib.h>

CUcontext fk_ctx(void)
{
	return fk_self.depth ? fk_self.stack[fk_self.depth - 1] : NULL;
}

bool fk_ctx_known(CUcontext ctx)
{
	for (CUcontext c = fk.contexts; c; c = c->next)
		if (c == ctx)
			return c->live;
	return false;
}

static fm_cu_result revive(CUcontext c)
{
	bool listed = false;

	for (CUcontext o = fk.contexts; o; o = o->next)
		listed |= o == c;
	if (!listed) {
		c->next = fk.contexts;
		fk.contexts = c;
	}
	c->live = true;
	return fk_stream_new(c, FK_LEGACY, 0, &c->legacy);
}

/* What it was doing is finished first. */
static void kill_ctx(CUcontext ctx)
{
	fk_wait_ctx(ctx);
	ctx->live = false;
	for (CUstream s = fk.streams; s; s = s->next)
		if (s->ctx == ctx)
			s->live = false;
	fk_memory_ctx_gone(ctx);
}

static fm_cu_result push(CUcontext ctx)
{
	if (fk_self.depth == sizeof(fk_self.stack) / sizeof(*fk_self.stack))
		return CU_OUT_OF_MEMORY;
	fk_self.stack[fk_self.depth++] = ctx;
	return FM_CU_SUCCESS;
}

fm_cu_result cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice dev)
{
	fm_cu_result rc = FM_CU_SUCCESS;

	FK_TRY(fk_enter());
	if (!ctx || dev)
		return fk_leave(ctx ? CU_INVALID_DEVICE : FM_CU_ERROR_INVALID_VALUE);
	fk.primary.primary = true;
	if (!fk.primary.retained++)
		rc = revive(&fk.primary);
	*ctx = &fk.primary;
	return fk_leave(rc);
}

fm_cu_result cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	FK_TRY(fk_enter());
	if (dev)
		return fk_leave(CU_INVALID_DEVICE);
	if (!fk.primary.retained)
		return fk_leave(CU_INVALID_CONTEXT);
	if (!--fk.primary.retained)
		kill_ctx(&fk.primary);
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuDevicePrimaryCtxRelease(CUdevice dev)
{
	return cuDevicePrimaryCtxRelease_v2(dev);
}

fm_cu_result cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
	fm_cu_result rc = FM_CU_SUCCESS;

	FK_TRY(fk_enter());
	if (dev)
		return fk_leave(CU_INVALID_DEVICE);
	if (fk.primary.live) {
		kill_ctx(&fk.primary);
		rc = revive(&fk.primary);
	}
	return fk_leave(rc);
}

fm_cu_result cuDevicePrimaryCtxGetState(CUdevice dev, unsigned *flags, int *active)
{
	FK_TRY(fk_enter());
	*flags = 0;
	*active = fk.primary.live;
	return fk_leave(dev ? CU_INVALID_DEVICE : FM_CU_SUCCESS);
}

fm_cu_result cuCtxCreate_v2(CUcontext *ctx, unsigned flags, CUdevice dev)
{
	fm_cu_result rc;
	CUcontext c;

	FK_TRY(fk_enter());
	c = ctx && !dev ? calloc(1, sizeof(*c)) : NULL;
	if (!c)
		return fk_leave(dev ? CU_INVALID_DEVICE : FM_CU_ERROR_INVALID_VALUE);
	rc = revive(c);
	if (!rc)
		rc = push(c);
	*ctx = c;
	return fk_leave(rc);
}

fm_cu_result cuCtxCreate_v3(CUcontext *ctx, void *affinity, int n, unsigned flags, CUdevice dev)
{
	return cuCtxCreate_v2(ctx, flags, dev);
}

fm_cu_result cuCtxCreate_v4(CUcontext *ctx, void *how, unsigned flags, CUdevice dev)
{
	return cuCtxCreate_v2(ctx, flags, dev);
}

fm_cu_result cuCtxDestroy_v2(CUcontext ctx)
{
	FK_TRY(fk_enter());
	if (!fk_ctx_known(ctx) || ctx->primary)
		return fk_leave(CU_INVALID_CONTEXT);
	kill_ctx(ctx);
	if (fk_ctx() == ctx)
		fk_self.depth--;
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuCtxSetCurrent(CUcontext ctx)
{
	fm_cu_result rc = FM_CU_SUCCESS;

	FK_TRY(fk_enter());
	if (ctx && !fk_ctx_known(ctx))
		return fk_leave(CU_INVALID_CONTEXT);
	if (fk_self.depth)
		fk_self.depth--;
	if (ctx)
		rc = push(ctx);
	return fk_leave(rc);
}

fm_cu_result cuCtxGetCurrent(CUcontext *ctx)
{
	if (!ctx)
		return FM_CU_ERROR_INVALID_VALUE;
	FK_TRY(fk_enter());
	*ctx = fk_ctx();
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuCtxPushCurrent_v2(CUcontext ctx)
{
	FK_TRY(fk_enter());
	return fk_leave(fk_ctx_known(ctx) ? push(ctx) : CU_INVALID_CONTEXT);
}

fm_cu_result cuCtxPopCurrent_v2(CUcontext *ctx)
{
	FK_TRY(fk_enter());
	if (!fk_self.depth)
		return fk_leave(CU_INVALID_CONTEXT);
	fk_self.depth--;
	if (ctx)
		*ctx = fk_self.stack[fk_self.depth];
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuCtxGetDevice(CUdevice *dev)
{
	return cuCtxGetDevice_v2(dev, NULL);
}

/* NULL is the current one. */
fm_cu_result cuCtxGetDevice_v2(CUdevice *dev, CUcontext ctx)
{
	if (!dev)
		return FM_CU_ERROR_INVALID_VALUE;
	FK_TRY(fk_enter());
	if (!fk_ctx_known(ctx ? ctx : fk_ctx()))
		return fk_leave(CU_INVALID_CONTEXT);
	*dev = 0;
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuCtxGetApiVersion(CUcontext ctx, unsigned *version)
{
	*version = 3020;
	return FM_CU_SUCCESS;
}

fm_cu_result cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	FK_TRY(fk_enter_ctx());
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5;
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuCtxSynchronize(void)
{
	return cuCtxSynchronize_v2(NULL);
}

fm_cu_result cuCtxSynchronize_v2(CUcontext ctx)
{
	fm_cu_result rc;

	FK_TRY(fk_enter());
	ctx = ctx ? ctx : fk_ctx();
	if (!fk_ctx_known(ctx))
		return fk_leave(CU_INVALID_CONTEXT);
	rc = fk_unsafe();
	for (CUstream s = fk.streams; s && !rc; s = s->next)
		if (s->ctx == ctx)
			rc = fk_no_capture(s);
	if (!rc)
		fk_wait_ctx(ctx);
	return fk_leave(rc);
}
