/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, contexts, and errors. */
#include "fake.h"
#include <stdio.h>

static _Thread_local aclError last;
static _Atomic bool inited;

/* Contexts that live, and their default streams. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	CUcontext ctx;
	CUstream stream;
} contexts[64];
static unsigned set[FK_DEVICES]; /* aclrtSetDevice() less aclrtResetDevice() */

fm_cu_result fa_ready(void)
{
	CUcontext ctx = fk_ctx();

	if (!atomic_load(&inited) || fk.forked)
		return ACL_ERROR_UNINITIALIZE;
	if (fk_self.in_callback)
		return ACL_ERROR_INTERNAL_ERROR;
	return ctx && ctx->live ? FM_CU_SUCCESS : ACL_ERROR_RT_CONTEXT_NULL;
}

aclError fa_done(fm_cu_result rc)
{
	static const struct {
		fm_cu_result from;
		aclError to;
	} words[] = {
		{FM_CU_ERROR_INVALID_VALUE, ACL_ERROR_RT_PARAM_INVALID},
		{CU_INVALID_HANDLE, ACL_ERROR_RT_PARAM_INVALID},
		{CU_OUT_OF_MEMORY, ACL_ERROR_RT_MEMORY_ALLOCATION},
		{CU_INVALID_DEVICE, ACL_ERROR_RT_INVALID_DEVICEID},
		{CU_INVALID_CONTEXT, ACL_ERROR_RT_CONTEXT_NULL},
		{FM_CU_ERROR_NOT_SUPPORTED, ACL_ERROR_RT_FEATURE_NOT_SUPPORT},
		{CU_CAPTURE_UNSUPPORTED, ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT},
		{CU_CAPTURE_INVALIDATED, ACL_ERROR_RT_STREAM_CAPTURED},
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if ((int)rc == (int)words[i].from)
			rc = (fm_cu_result)words[i].to;
	if (rc && (int)rc < 10000)
		rc = (fm_cu_result)ACL_ERROR_INTERNAL_ERROR;
	if (rc)
		last = (aclError)rc;
	return (aclError)rc;
}

aclError aclrtPeekAtLastError(int level)
{
	return last;
}

aclError aclrtGetLastError(int level)
{
	aclError rc = last;

	last = ACL_SUCCESS;
	return rc;
}

aclError aclInit(const char *config)
{
	if (atomic_exchange(&inited, true))
		return ACL_ERROR_REPEAT_INITIALIZE;
	fk.waits_unlocked = fk.one_by_one = true;
	return fa_done(cuInit(0));
}

/* --- contexts and their default streams --- */

CUstream fa_default(CUcontext ctx)
{
	CUstream s = NULL;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < 64; i++)
		if (ctx && contexts[i].ctx == ctx)
			s = contexts[i].stream;
	pthread_mutex_unlock(&lock);
	return s;
}

void fa_context_begins(CUcontext ctx)
{
	if (fa_default(ctx))
		return;
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < 64; i++)
		if (!contexts[i].ctx) {
			contexts[i].ctx = ctx;
			cuStreamCreate(&contexts[i].stream, CU_STREAM_NON_BLOCKING);
			break;
		}
	pthread_mutex_unlock(&lock);
}

void fa_context_ends(CUcontext ctx)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < 64; i++)
		if (contexts[i].ctx == ctx)
			contexts[i].ctx = NULL;
	pthread_mutex_unlock(&lock);
}

aclError aclrtCreateContext(aclrtContext *context, int32_t device)
{
	CUcontext ctx;
	fm_cu_result rc;

	if (!context || !atomic_load(&inited))
		return fa_done(context ? ACL_ERROR_UNINITIALIZE : ACL_ERROR_RT_PARAM_INVALID);
	rc = cuCtxCreate_v2(&ctx, 0, device);
	if (!rc) {
		/* There is one current context, and no stack. */
		fk_self.stack[0] = ctx;
		fk_self.depth = 1;
		fa_context_begins(ctx);
		*context = ctx;
	}
	return fa_done(rc);
}

static fm_cu_result destroy(CUcontext ctx)
{
	if (!ctx || !fk_ctx_known(ctx) || ctx->primary)
		return (fm_cu_result)ACL_ERROR_RT_PARAM_INVALID;
	fa_context_ends(ctx);
	return cuCtxDestroy_v2(ctx);
}

aclError aclrtDestroyContext(aclrtContext context)
{
	return fa_done(destroy(context));
}

aclError aclrtSetCurrentContext(aclrtContext context)
{
	CUcontext ctx = context;

	if (!atomic_load(&inited) || fk.forked || !ctx || !fk_ctx_known(ctx))
		return fa_done((fm_cu_result)ACL_ERROR_RT_PARAM_INVALID);
	return fa_done(cuCtxSetCurrent(ctx));
}

static fm_cu_result get_current(aclrtContext *context)
{
	*context = fk_ctx();
	return FM_CU_SUCCESS;
}

aclError aclrtGetCurrentContext(aclrtContext *context)
{
	FA_CALL(get_current(context));
}

static fm_cu_result get_default(aclrtStream *stream)
{
	if (fk_env("FAKE_ACL_OLD"))
		return FM_CU_ERROR_NOT_SUPPORTED;
	*stream = fa_default(fk_ctx());
	return FM_CU_SUCCESS;
}

aclError aclrtCtxGetCurrentDefaultStream(aclrtStream *stream)
{
	FA_CALL(get_default(stream));
}

/* --- devices --- */

aclError aclrtGetDeviceCount(uint32_t *n)
{
	return fa_done(atomic_load(&inited) ? cuDeviceGetCount((int *)n)
					    : (fm_cu_result)ACL_ERROR_UNINITIALIZE);
}

aclError aclrtSetDevice(int32_t device)
{
	CUcontext ctx;
	fm_cu_result rc;

	if (!atomic_load(&inited) || fk.forked)
		return fa_done((fm_cu_result)ACL_ERROR_UNINITIALIZE);
	rc = cuDevicePrimaryCtxRetain(&ctx, device) ?: cuCtxSetCurrent(ctx);
	if (!rc) {
		fa_context_begins(ctx);
		pthread_mutex_lock(&lock);
		set[device]++;
		pthread_mutex_unlock(&lock);
	}
	return fa_done(rc);
}

static fm_cu_result get_device(int32_t *device)
{
	*device = fk_ctx()->dev;
	return FM_CU_SUCCESS;
}

aclError aclrtGetDevice(int32_t *device)
{
	FA_CALL(get_device(device));
}

/* The streams are waited for. */
static fm_cu_result reset(int32_t device, bool force)
{
	fm_cu_result rc = FM_CU_SUCCESS;
	unsigned n;

	if (!atomic_load(&inited) || fk.forked || device < 0 || device >= FK_DEVICES)
		return (fm_cu_result)ACL_ERROR_RT_INVALID_DEVICEID;
	pthread_mutex_lock(&lock);
	n = set[device];
	set[device] = force || !n ? 0 : n - 1;
	pthread_mutex_unlock(&lock);
	if (!n)
		return (fm_cu_result)ACL_ERROR_RT_INVALID_DEVICEID;
	if (!force && n > 1)
		return cuDevicePrimaryCtxRelease_v2(device);
	fk_enter();
	fk_wait_ctx(&fk.primary[device]);
	fk_leave_any(FM_CU_SUCCESS);
	fa_context_ends(&fk.primary[device]);
	for (; n && !rc; n--)
		rc = cuDevicePrimaryCtxRelease_v2(device);
	return rc;
}

aclError aclrtResetDevice(int32_t device)
{
	return fa_done(reset(device, false));
}

aclError aclrtResetDeviceForce(int32_t device)
{
	return fa_done(reset(device, true));
}

aclError aclFinalize(void)
{
	for (int device = 0; device < FK_DEVICES; device++)
		if (set[device])
			reset(device, true);
	return atomic_exchange(&inited, false) ? ACL_SUCCESS : ACL_ERROR_UNINITIALIZE;
}

aclError aclrtDeviceGetPCIBusId(int32_t device, char *id, int32_t size)
{
	if (!id || size < 13)
		return fa_done((fm_cu_result)ACL_ERROR_RT_PARAM_INVALID);
	snprintf(id, (size_t)size, "0000:%02x:00.0", (unsigned)device + 0x81);
	return ACL_SUCCESS;
}

const char *aclrtGetSocName(void)
{
	return "Fake Ascend";
}

/* --- waits for all streams of the thread's context --- */

static fm_cu_result synchronize(void)
{
	FA_RELAXED(cuCtxSynchronize());
}

aclError aclrtSynchronizeDevice(void)
{
	FA_CALL(synchronize());
}

aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout)
{
	if (timeout < -1 || !timeout)
		return fa_done((fm_cu_result)ACL_ERROR_RT_PARAM_INVALID);
	FA_CALL(synchronize()); /* in any time */
}
