/* SPDX-License-Identifier: Apache-2.0 */
/* What all calls do alike, contexts, images and payloads. */
#include "fake.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
	pthread_mutex_t lock;
	struct fv_object *first;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local struct {
	VPIContext stack[8];
	unsigned depth;
	VPIStatus last;
	bool ready;
} self;

void fv_die(const char *text)
{
	fprintf(stderr, "fake VPI: %s\n", text);
	abort();
}

void fv_enter(const char *call)
{
	CUcontext ctx;

	if (fk_self.in_callback)
		fv_die("a function on a stream calls VPI");
	if (self.ready && fk_ctx())
		return;
	self.ready = !cuInit(0) && !cuDevicePrimaryCtxRetain(&ctx, 0) && !cuCtxSetCurrent(ctx);
	if (!self.ready)
		fprintf(stderr, "fake VPI: %s without an engine\n", call);
}

/* A forked child has no engine. */
VPIStatus fv_done(VPIStatus rc)
{
	return self.last = self.ready ? rc : VPI_INVALID_OPERATION;
}

VPIStatus vpiGetLastStatus(void)
{
	VPIStatus rc = self.last;

	self.last = VPI_SUCCESS;
	return rc;
}

VPIStatus vpiPeekAtLastStatus(void)
{
	return self.last;
}

static VPIContext current(void)
{
	return self.depth ? self.stack[self.depth - 1] : NULL;
}

void *fv_new(enum fv_kind kind, size_t size)
{
	struct fv_object *o = calloc(1, size);

	if (!o)
		fv_die("no memory");
	o->kind = kind;
	o->context = current();
	pthread_mutex_lock(&all.lock);
	o->next = all.first;
	all.first = o;
	pthread_mutex_unlock(&all.lock);
	return o;
}

bool fv_is(const void *object, enum fv_kind kind)
{
	const struct fv_object *o = object;

	if (o && o->kind != kind)
		fv_die("something is used that has ended, or that is none of its kind");
	return o;
}

void fv_gone(void *object)
{
	((struct fv_object *)object)->kind = FV_GONE;
}

/* --- contexts --- */

VPIStatus vpiContextCreate(uint64_t flags, VPIContext *context)
{
	fv_enter("vpiContextCreate");
	*context = fv_new(FV_CONTEXT, sizeof(**context));
	return fv_done(VPI_SUCCESS);
}

static struct fv_object *next_of(VPIContext context)
{
	struct fv_object *o;

	pthread_mutex_lock(&all.lock);
	for (o = all.first;
		o && (o->context != context || o->kind == FV_GONE || o->kind == FV_CONTEXT);
		o = o->next)
		;
	pthread_mutex_unlock(&all.lock);
	return o;
}

void vpiContextDestroy(VPIContext context)
{
	struct fv_object *o;

	fv_enter("vpiContextDestroy");
	if (!fv_is(context, FV_CONTEXT))
		return;
	for (o = next_of(context); o; o = next_of(context)) {
		if (o->kind == FV_STREAM)
			vpiStreamDestroy((VPIStream)o);
		else if (o->kind == FV_EVENT)
			vpiEventDestroy((VPIEvent)o);
		else
			fv_gone(o);
	}
	fv_gone(context);
	if (current() == context)
		self.depth--;
}

VPIStatus vpiContextGetCurrent(VPIContext *context)
{
	fv_enter("vpiContextGetCurrent");
	*context = current();
	return fv_done(VPI_SUCCESS);
}

VPIStatus vpiContextSetCurrent(VPIContext context)
{
	fv_enter("vpiContextSetCurrent");
	if (!context)
		self.depth = 0;
	else if (fv_is(context, FV_CONTEXT))
		self.stack[self.depth ? self.depth - 1 : self.depth++] = context;
	return fv_done(VPI_SUCCESS);
}

VPIStatus vpiContextPush(VPIContext context)
{
	fv_enter("vpiContextPush");
	if (!fv_is(context, FV_CONTEXT))
		return fv_done(VPI_INVALID_ARGUMENT);
	if (self.depth == 8)
		return fv_done(VPI_INVALID_OPERATION);
	self.stack[self.depth++] = context;
	return fv_done(VPI_SUCCESS);
}

VPIStatus vpiContextPop(VPIContext *context)
{
	fv_enter("vpiContextPop");
	if (!self.depth)
		return fv_done(VPI_INVALID_OPERATION);
	self.depth--;
	if (context)
		*context = self.stack[self.depth];
	return fv_done(VPI_SUCCESS);
}

/* --- what commands work on --- */

VPIStatus vpiImageCreate(
	int32_t width, int32_t height, uint64_t format, uint64_t flags, VPIImage *image)
{
	fv_enter("vpiImageCreate");
	*image = fv_new(FV_IMAGE, sizeof(**image));
	return fv_done(VPI_SUCCESS);
}

void vpiImageDestroy(VPIImage image)
{
	fv_enter("vpiImageDestroy");
	if (fv_is(image, FV_IMAGE))
		fv_gone(image);
}

uint32_t *vpiFakeWords(VPIImage image)
{
	return fv_is(image, FV_IMAGE) ? image->words : NULL;
}

VPIStatus vpiCreateEqualizeHist(uint64_t backends, uint64_t format, VPIPayload *payload)
{
	fv_enter("vpiCreateEqualizeHist");
	*payload = fv_new(FV_PAYLOAD, sizeof(**payload));
	return fv_done(VPI_SUCCESS);
}

void vpiPayloadDestroy(VPIPayload payload)
{
	fv_enter("vpiPayloadDestroy");
	if (fv_is(payload, FV_PAYLOAD))
		fv_gone(payload);
}
