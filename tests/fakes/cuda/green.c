/* SPDX-License-Identifier: Apache-2.0 */
/* Green contexts: a primary context with some of its multiprocessors, one behind the other. */
#include "fake.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct CUdevResourceDesc_st {
	unsigned first, sms;
	CUdevResourceDesc next;
};

/* All that were ever given out: there is no call to give one back. */
static _Atomic(CUdevResourceDesc) descriptors;

/* As on sm_90; who ignores that some have to be scheduled together may have smaller parts. */
enum { SMS_LEAST = 8, SMS_LEAST_ALONE = 2, SPLIT_ALONE = 1, SPLIT_FLAGS = 3 };

/* A part of a device has a part of them. */
static unsigned sms(void)
{
	return fk_env("FAKE_CUDA_MIG") ? FK_SMS / 8 / SMS_LEAST * SMS_LEAST : FK_SMS;
}

static struct cu_resource resource(unsigned first, unsigned count)
{
	struct cu_resource r = {
		.type = count ? CU_RESOURCE_SM : 0, .sm = {count, SMS_LEAST, SMS_LEAST}};

	memcpy(r.pad, &first, sizeof(first));
	return r;
}

static unsigned first_of(const struct cu_resource *r)
{
	unsigned first;

	memcpy(&first, r->pad, sizeof(first));
	return first;
}

fm_cu_result cuDeviceGetDevResource(CUdevice dev, struct cu_resource *r, int type)
{
	fm_cu_result rc;

	FK_TRY(fk_fails(__func__));
	FK_TRY(fk_enter());
	rc = fk_device(r, dev);
	if (!rc && type != CU_RESOURCE_SM)
		rc = CU_INVALID_RESOURCE_TYPE;
	if (!rc)
		*r = resource(0, sms());
	return fk_leave(rc);
}

/* Without `parts`, *n becomes how many there could be. */
fm_cu_result cuDevSmResourceSplitByCount(struct cu_resource *parts, unsigned *n,
	const struct cu_resource *whole, struct cu_resource *rest, unsigned flags, unsigned least)
{
	unsigned step = flags & SPLIT_ALONE ? SMS_LEAST_ALONE : SMS_LEAST, each, most;

	if (!n || !whole || flags > SPLIT_FLAGS || (parts && !*n))
		return FM_CU_ERROR_INVALID_VALUE;
	if (whole->type != CU_RESOURCE_SM)
		return CU_INVALID_RESOURCE_TYPE;
	each = least ? (least + step - 1) / step * step : step;
	most = whole->sm.count / each;
	if (!most)
		return CU_INVALID_RESOURCE_CONFIGURATION;
	*n = parts && *n < most ? *n : most;
	for (unsigned i = 0; parts && i < *n; i++)
		parts[i] = resource(first_of(whole) + i * each, each);
	if (rest)
		*rest = resource(first_of(whole) + *n * each, whole->sm.count - *n * each);
	return FM_CU_SUCCESS;
}

fm_cu_result cuDevResourceGenerateDesc(CUdevResourceDesc *desc, struct cu_resource *r, unsigned n)
{
	if (!desc || !r || !n)
		return FM_CU_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < n; i++)
		if (r[i].type != CU_RESOURCE_SM)
			return CU_INVALID_RESOURCE_TYPE;
	*desc = calloc(1, sizeof(**desc));
	if (!*desc)
		return CU_OUT_OF_MEMORY;
	(*desc)->first = first_of(r);
	for (unsigned i = 0; i < n; i++)
		(*desc)->sms += r[i].sm.count;
	(*desc)->next = atomic_load(&descriptors);
	while (!atomic_compare_exchange_weak(&descriptors, &(*desc)->next, *desc))
		;
	return FM_CU_SUCCESS;
}

static CUgreenCtx find(CUgreenCtx green)
{
	for (CUcontext c = fk.contexts; c; c = c->next)
		if (c->green && c->green == green && c->live)
			return green;
	return NULL;
}

#define GREEN_US 10000

static void wait_for(CUcontext ctx)
{
	bool held = fk_hw_hold(ctx);

	fk_wait_ctx(ctx);
	fk_hw_let_go(ctx, held);
}

/* It takes a while, and waits for what the context's streams then have to do, as the driver does.
 */
fm_cu_result cuGreenCtxCreate(
	CUgreenCtx *green, CUdevResourceDesc desc, CUdevice dev, unsigned flags)
{
	fm_cu_result rc;
	CUgreenCtx g;

	usleep(GREEN_US);
	FK_TRY(fk_fails(__func__));
	FK_TRY(fk_enter());
	rc = fk_device(green, dev);
	if (!rc && (!desc || flags != CU_GREEN_DEFAULT_STREAM))
		rc = FM_CU_ERROR_INVALID_VALUE;
	g = rc ? NULL : calloc(1, sizeof(*g));
	if (!g)
		return fk_leave(rc ? rc : CU_OUT_OF_MEMORY);
	g->ctx.green = g;
	g->ctx.dev = dev;
	g->first = desc->first;
	g->sms = desc->sms;
	rc = fk_primary_retain(dev);
	if (!rc) {
		rc = fk_ctx_revive(&g->ctx);
		if (rc)
			fk_primary_release(dev);
		else
			wait_for(&fk.primary[dev]);
	}
	if (rc)
		free(g);
	else
		*green = g;
	return fk_leave(rc);
}

/* Streams that were made in it are not destroyed, and good for nothing. */
fm_cu_result cuGreenCtxDestroy(CUgreenCtx green)
{
	FK_TRY(fk_enter());
	if (!find(green))
		return fk_leave(CU_INVALID_CONTEXT);
	fk_ctx_kill(&green->ctx);
	fk_primary_release(green->ctx.dev);
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuCtxFromGreenCtx(CUcontext *ctx, CUgreenCtx green)
{
	FK_TRY(fk_enter());
	if (!ctx || !find(green))
		return fk_leave(ctx ? CU_INVALID_CONTEXT : FM_CU_ERROR_INVALID_VALUE);
	*ctx = &green->ctx;
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuGreenCtxStreamCreate(
	CUstream *stream, CUgreenCtx green, unsigned flags, int priority)
{
	fm_cu_result rc;

	FK_TRY(fk_enter());
	if (!stream || flags != CU_STREAM_NON_BLOCKING || !find(green))
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	rc = fk_stream_new(&green->ctx, FK_OWN, flags, stream);
	if (!rc)
		(*stream)->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
	return fk_leave(rc);
}

fm_cu_result cuGreenCtxGetDevResource(CUgreenCtx green, struct cu_resource *r, int type)
{
	FK_TRY(fk_enter());
	if (!r || !find(green))
		return fk_leave(r ? CU_INVALID_CONTEXT : FM_CU_ERROR_INVALID_VALUE);
	if (type != CU_RESOURCE_SM)
		return fk_leave(CU_INVALID_RESOURCE_TYPE);
	*r = resource(green->first, green->sms);
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result cuCtxGetDevResource(CUcontext ctx, struct cu_resource *r, int type)
{
	FK_TRY(fk_enter());
	if (!r || !fk_ctx_known(ctx))
		return fk_leave(r ? CU_INVALID_CONTEXT : FM_CU_ERROR_INVALID_VALUE);
	if (type != CU_RESOURCE_SM)
		return fk_leave(CU_INVALID_RESOURCE_TYPE);
	*r = ctx->green ? resource(ctx->green->first, ctx->green->sms) : resource(0, sms());
	return fk_leave(FM_CU_SUCCESS);
}
