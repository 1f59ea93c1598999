/* SPDX-License-Identifier: Apache-2.0 */
#include "capacity.h"
#include "fake.h"
#include "pools.h"
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

/* Channels, page tables, and what else it needs. */
static bool take_memory(CUcontext c)
{
	const char *given = fk_env(c->green ? "FAKE_CUDA_GREEN" : "FAKE_CUDA_CONTEXT");
	uint64_t bytes = given ? fk_bytes(given) : c->green ? 0 : fk_capacity_total() / 128;

	if (!fk_memory_take(c->dev, bytes))
		return false;
	c->bytes = bytes;
	return true;
}

static bool is_listed(CUcontext c)
{
	CUcontext o = fk.contexts;

	while (o && o != c)
		o = o->next;
	return o;
}

fm_cu_result fk_ctx_revive(CUcontext c)
{
	if (!take_memory(c))
		return CU_OUT_OF_MEMORY;
	if (!is_listed(c)) {
		c->next = fk.contexts;
		fk.contexts = c;
	}
	c->live = true;
	fk_hw_open(c);
	if (!c->green)
		fk_channels_open(c);
	return fk_stream_new(c, FK_LEGACY, 0, &c->legacy);
}

/* What it was doing is finished first. */
void fk_ctx_kill(CUcontext ctx)
{
	fk_wait_ctx(ctx);
	ctx->live = false;
	if (!ctx->green)
		fk_channels_close(ctx);
	for (CUstream s = fk.streams; s; s = s->next)
		if (s->ctx == ctx)
			s->live = false;
	fk_captures_ctx_gone(ctx);
	fk_events_ctx_gone(ctx);
	if (!fk.lost) { /* else its threads may be in the middle of kernels, which nothing ends */
		fk_modules_ctx_gone(ctx);
		fk_memory_ctx_gone(ctx);
	}
	fk_memory_give(ctx->dev, ctx->bytes);
	ctx->bytes = 0;
}

/* A green context is current to one thread at a time. */
static fm_cu_result push(CUcontext ctx)
{
	if (fk_self.depth == sizeof(fk_self.stack) / sizeof(*fk_self.stack))
		return CU_OUT_OF_MEMORY;
	if (ctx->green && ctx->current && ctx->current != &fk_self)
		return CU_INVALID_CONTEXT;
	ctx->current = &fk_self;
	ctx->stacked++;
	fk_self.stack[fk_self.depth++] = ctx;
	return FM_CU_SUCCESS;
}

static CUcontext pop(void)
{
	CUcontext ctx = fk_self.stack[--fk_self.depth];

	ctx->stacked--;
	for (unsigned i = 0; i < fk_self.depth; i++)
		if (fk_self.stack[i] == ctx)
			return ctx;
	ctx->current = NULL;
	return ctx;
}

fm_cu_result fk_primary_retain(CUdevice dev)
{
	CUcontext c = &fk.primary[dev];

	c->primary = true;
	c->dev = dev;
	if (!c->live)
		FK_TRY(fk_ctx_revive(c));
	c->retained++;
	return FM_CU_SUCCESS;
}

void fk_primary_release(CUdevice dev)
{
	if (!--fk.primary[dev].retained && fk.primary[dev].live)
		fk_ctx_kill(&fk.primary[dev]);
}

fm_cu_result cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice dev)
{
	fm_cu_result rc;

	FK_TRY(fk_enter());
	rc = fk_device(ctx, dev);
	rc = rc ? rc : fk_primary_retain(dev);
	if (!rc)
		*ctx = &fk.primary[dev];
	return fk_leave(rc);
}

fm_cu_result cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	fm_cu_result rc;

	FK_TRY(fk_enter());
	rc = fk_device(&dev, dev);
	if (!rc && !fk.primary[dev].retained)
		rc = CU_INVALID_CONTEXT;
	if (!rc)
		fk_primary_release(dev);
	return fk_leave(rc);
}

fm_cu_result cuDevicePrimaryCtxRelease(CUdevice dev)
{
	return cuDevicePrimaryCtxRelease_v2(dev);
}

/* Nobody's retain ends with it. The context stays current where it was, and is destroyed there
 * until somebody retains it once more. */
static bool has_green(CUdevice dev)
{
	for (CUcontext c = fk.contexts; c; c = c->next)
		if (c->green && c->live && c->dev == dev)
			return true;
	return false;
}

fm_cu_result cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
	fm_cu_result rc;

	FK_TRY(fk_enter());
	rc = fk_device(&dev, dev);
	if (!rc && has_green(dev))
		rc = CU_NOT_PERMITTED;
	if (!rc && fk.primary[dev].live)
		fk_ctx_kill(&fk.primary[dev]);
	return fk_leave(rc);
}

fm_cu_result cuDevicePrimaryCtxReset(CUdevice dev)
{
	return cuDevicePrimaryCtxReset_v2(dev);
}

fm_cu_result cuDevicePrimaryCtxGetState(CUdevice dev, unsigned *flags, int *active)
{
	fm_cu_result rc;

	FK_TRY(fk_enter());
	rc = fk_device(flags, dev);
	if (!rc) {
		*flags = 0;
		*active = fk.primary[dev].live;
	}
	return fk_leave_any(rc);
}

/* One that was destroyed, where no thread can name it: an address serves again. Or a new one. */
static CUcontext unused(void)
{
	for (CUcontext c = fk.contexts; c; c = c->next)
		if (!c->live && !c->primary && !c->green && !c->stacked)
			return c;
	return calloc(1, sizeof(struct CUctx_st));
}

fm_cu_result cuCtxCreate_v2(CUcontext *ctx, unsigned flags, CUdevice dev)
{
	fm_cu_result rc;
	CUcontext c;

	FK_TRY(fk_enter());
	rc = fk_device(ctx, dev);
	c = rc ? NULL : unused();
	if (!c)
		return fk_leave(rc ? rc : CU_OUT_OF_MEMORY);
	c->dev = dev;
	rc = fk_ctx_revive(c);
	if (rc && !is_listed(c))
		free(c);
	if (!rc)
		rc = push(c);
	if (!rc)
		*ctx = c;
	rc = fk_leave(rc);
	fk_at("cuCtxCreate, behind");
	return rc;
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
	fk_at("cuCtxDestroy");
	FK_TRY(fk_enter());
	if (!fk_ctx_known(ctx) || ctx->primary || ctx->green)
		return fk_leave(CU_INVALID_CONTEXT);
	fk_ctx_kill(ctx);
	if (fk_ctx() == ctx)
		pop();
	FK_TRY(fk_leave(FM_CU_SUCCESS));
	fk_at("cuCtxDestroy, behind");
	return FM_CU_SUCCESS;
}

fm_cu_result cuCtxSetCurrent(CUcontext ctx)
{
	fm_cu_result rc = FM_CU_SUCCESS;

	FK_TRY(fk_enter());
	if (ctx && !fk_ctx_known(ctx))
		return fk_leave_any(CU_INVALID_CONTEXT);
	if (fk_self.depth)
		pop();
	if (ctx)
		rc = push(ctx);
	return fk_leave_any(rc);
}

fm_cu_result cuCtxGetCurrent(CUcontext *ctx)
{
	if (!ctx)
		return FM_CU_ERROR_INVALID_VALUE;
	FK_TRY(fk_enter());
	*ctx = fk_ctx();
	return fk_leave_any(FM_CU_SUCCESS);
}

/* Whoever ends a context sees to it that no call is about it meanwhile. */
fm_cu_result cuCtxPushCurrent_v2(CUcontext ctx)
{
	bool was;

	FK_TRY(fk_enter());
	was = fk_ctx_known(ctx);
	fk_leave_any(FM_CU_SUCCESS);
	fk_at("cuCtxPushCurrent");
	FK_TRY(fk_enter());
	if (was && !fk_ctx_known(ctx))
		fk_die("a context has ended in the middle of a call about it");
	return fk_leave_any(fk_ctx_known(ctx) ? push(ctx) : CU_INVALID_CONTEXT);
}

fm_cu_result cuCtxPopCurrent_v2(CUcontext *ctx)
{
	CUcontext top;

	FK_TRY(fk_enter());
	if (!fk_self.depth)
		return fk_leave_any(CU_INVALID_CONTEXT);
	top = pop();
	if (ctx)
		*ctx = top;
	return fk_leave_any(FM_CU_SUCCESS);
}

fm_cu_result cuCtxGetDevice(CUdevice *dev)
{
	return cuCtxGetDevice_v2(dev, NULL);
}

/* NULL is the current one, which may have ended. */
static fm_cu_result find(CUcontext *ctx)
{
	bool current = !*ctx;

	if (current)
		*ctx = fk_ctx();
	if (fk_ctx_known(*ctx))
		return FM_CU_SUCCESS;
	return current && *ctx ? CU_CONTEXT_IS_DESTROYED : CU_INVALID_CONTEXT;
}

fm_cu_result cuCtxGetDevice_v2(CUdevice *dev, CUcontext ctx)
{
	fm_cu_result rc;

	if (!dev)
		return FM_CU_ERROR_INVALID_VALUE;
	FK_TRY(fk_enter());
	rc = find(&ctx);
	if (rc)
		return fk_leave_any(rc);
	*dev = ctx->dev;
	return fk_leave_any(FM_CU_SUCCESS);
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
		*greatest = FK_PRIORITY_GREATEST;
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuCtxSynchronize(void)
{
	return cuCtxSynchronize_v2(NULL);
}

fm_cu_result cuCtxSynchronize_v2(CUcontext ctx)
{
	fm_cu_result rc;

	FK_TRY(fk_fails("cuCtxSynchronize"));
	FK_TRY(fk_enter());
	rc = find(&ctx);
	rc = rc ? rc : fk_unsafe();
	for (CUstream s = fk.streams; s && !rc; s = s->next)
		if (s->ctx == ctx)
			rc = fk_no_capture(s);
	if (!rc)
		fk_wait_ctx(ctx);
	fk_pools_synced();
	return fk_leave(rc);
}

fm_cu_result cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
	FK_TRY(fk_enter_ctx());
	if (!fk_ctx_known(peer) || flags)
		return fk_leave(flags ? FM_CU_ERROR_INVALID_VALUE : CU_INVALID_CONTEXT);
	return fk_leave(peer->dev == fk_ctx()->dev ? CU_INVALID_DEVICE : FM_CU_SUCCESS);
}

/* Room for the stacks of all threads is made anew, when nobody uses it. */
fm_cu_result cuCtxSetLimit(int limit, size_t value)
{
	FK_TRY(fk_fails(__func__));
	FK_TRY(fk_enter_ctx());
	if (limit < 0 || limit >= FK_LIMITS)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	if (!limit) /* that of the stack */
		fk_wait_device();
	fk_ctx()->limit[limit] = value;
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuCtxGetLimit(size_t *value, int limit)
{
	FK_TRY(fk_enter_ctx());
	if (!value || limit < 0 || limit >= FK_LIMITS)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	*value = fk_ctx()->limit[limit];
	return fk_leave(FM_CU_SUCCESS);
}
