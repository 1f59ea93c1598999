/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, errors, and the look-up of functions. */
#include "fake.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

_Thread_local struct fh_thread fh_self;
_Atomic unsigned fh_resets[FK_DEVICES];

__attribute__((constructor)) static void choose_version(void)
{
	fk.waits_unlocked = !fk_env("FAKE_HIP_OLD");
	fk.one_by_one = true;
}

/* After a reset the context begins anew. */
fm_cu_result fh_ready(void)
{
	CUcontext ctx = fk_ctx();

	if (ctx && ctx->live && ctx == &fk.primary[fh_self.device])
		return fk_self.in_callback ? HIP_UNKNOWN : FM_CU_SUCCESS;
	FK_TRY(cuInit(0));
	FK_TRY(cuDevicePrimaryCtxRetain(&ctx, fh_self.device));
	return cuCtxSetCurrent(ctx);
}

hipError_t fh_done(fm_cu_result rc)
{
	if (rc == CU_NOT_PERMITTED) /* HIP has no word for it */
		rc = HIP_UNKNOWN;
	fh_self.latest = rc;
	if ((rc && rc != HIP_NOT_READY) || fk_env("FAKE_HIP_LAST_CALL"))
		fh_self.last = rc;
	return rc;
}

hipError_t hipInit(unsigned flags)
{
	return fh_done(cuInit(flags));
}

static hipError_t version(int *v)
{
	if (v)
		*v = fk_env("FAKE_HIP_OLD") ? 50522804 : 60443484; /* 5.5, 6.4 */
	return fh_done(v ? FM_CU_SUCCESS : FM_CU_ERROR_INVALID_VALUE);
}

hipError_t hipDriverGetVersion(int *v)
{
	return version(v);
}

hipError_t hipRuntimeGetVersion(int *v)
{
	return version(v);
}

hipError_t hipGetDeviceCount(int *n)
{
	return fh_done(cuInit(0) ?: cuDeviceGetCount(n));
}

hipError_t hipSetDevice(int device)
{
	int n = 0;

	if (cuInit(0) || cuDeviceGetCount(&n) || device < 0 || device >= n)
		return fh_done(CU_INVALID_DEVICE);
	fh_self.device = device;
	return fh_done(fh_ready());
}

hipError_t hipGetDevice(int *device)
{
	if (!device)
		return fh_done(FM_CU_ERROR_INVALID_VALUE);
	*device = fh_self.device;
	return fh_done(fh_ready());
}

hipError_t hipDeviceGetName(char *name, int size, hipDevice_t device)
{
	fm_cu_result rc = cuInit(0) ?: cuDeviceGetName(name, size, device);

	if (!rc && size > 0)
		snprintf(name, (size_t)size, "Fake HIP device");
	return fh_done(rc);
}

hipError_t hipDeviceGetPCIBusId(char *id, int size, int device)
{
	CUdevice dev;

	if (!id || size < 13)
		return fh_done(FM_CU_ERROR_INVALID_VALUE);
	snprintf(id, (size_t)size, "0000:%02x:00.0", (unsigned)device + 3);
	return fh_done(cuInit(0) ?: cuDeviceGet(&dev, device));
}

hipError_t hipDeviceGetUuid(hip_uuid *uuid, hipDevice_t device)
{
	return fh_done(cuInit(0) ?: cuDeviceGetUuid((struct fm_cu_uuid *)uuid, device));
}

hipError_t hipDeviceGetAttribute(int *value, int which, int device)
{
	CUdevice dev;

	if (!value)
		return fh_done(FM_CU_ERROR_INVALID_VALUE);
	*value = which == HIP_ATTRIBUTE_WAIT_VALUE && !fk_env("FAKE_HIP_NO_WAIT_VALUE");
	return fh_done(cuInit(0) ?: cuDeviceGet(&dev, device));
}

hipError_t hipDeviceGetStreamPriorityRange(int *least, int *greatest)
{
	if (least)
		*least = 1;
	if (greatest)
		*greatest = -1;
	return fh_done(fh_ready());
}

hipError_t hipDeviceSynchronize(void)
{
	FH_CALL(cuCtxSynchronize());
}

hipError_t hipDeviceReset(void)
{
	fh_resets[fh_self.device]++;
	FH_CALL(cuDevicePrimaryCtxReset_v2(fh_self.device));
}

/* --- errors --- */

hipError_t hipGetLastError(void)
{
	hipError_t rc = fh_self.last;

	fh_self.last = FM_CU_SUCCESS;
	return rc;
}

hipError_t hipPeekAtLastError(void)
{
	return fh_self.last;
}

hipError_t hipExtGetLastError(void)
{
	return fh_self.latest;
}

const char *hipGetErrorName(hipError_t error)
{
	return error ? "hipErrorUnknown" : "hipSuccess";
}

const char *hipGetErrorString(hipError_t error)
{
	return error ? "an error" : "no error";
}

/* --- look-ups: as the real one, through the dynamic linker, in its own file --- */

enum { FOUND, NO_SUCH };

static void *own(const char *symbol)
{
	static void *handle;
	Dl_info info;

	if (!handle && dladdr((void *)own, &info))
		handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	return handle ? dlsym(handle, symbol) : NULL;
}

static hipError_t look_up(const char *name, void **fn, uint64_t flags, int *status)
{
	char spt[128];

	if (!name || !*name || !fn || flags > HIP_PROC_PER_THREAD)
		return fh_done(FM_CU_ERROR_INVALID_VALUE);
	snprintf(spt, sizeof(spt), "%s_spt", name);
	*fn = flags == HIP_PROC_PER_THREAD ? own(spt) : NULL;
	*fn = *fn ?: own(name);
	if (status)
		*status = *fn ? FOUND : NO_SUCH;
	return fh_done(*fn ? FM_CU_SUCCESS : FM_CU_ERROR_INVALID_VALUE);
}

hipError_t hipGetProcAddress(const char *name, void **fn, int version_, uint64_t flags, int *status)
{
	return look_up(name, fn, flags, status);
}

hipError_t hipGetDriverEntryPoint(
	const char *name, void **fn, unsigned long long flags, int *status)
{
	return look_up(name, fn, flags, status);
}

hipError_t hipGetDriverEntryPoint_spt(
	const char *name, void **fn, unsigned long long flags, int *status)
{
	return look_up(name, fn, flags == HIP_PROC_DEFAULT ? HIP_PROC_PER_THREAD : flags, status);
}
