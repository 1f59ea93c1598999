/* SPDX-License-Identifier: Apache-2.0 */
#include "fake.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct fk fk = {.lock = PTHREAD_MUTEX_INITIALIZER};
_Thread_local struct fk_thread fk_self;

const char *fk_env(const char *name)
{
	const char *v = getenv(name);

	return v && *v && strcmp(v, "0") ? v : NULL;
}

uint64_t fk_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

/* The driver does not survive fork(): its threads are in the parent. */
static void in_child(void)
{
	fk.forked = fk.inited;
	pthread_mutex_init(&fk.lock, NULL);
}

static void at_fork(void)
{
	pthread_atfork(NULL, NULL, in_child);
}

fm_cu_result cuInit(unsigned flags)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (flags)
		return FM_CU_ERROR_INVALID_VALUE;
	if (fk.forked)
		return FM_CU_ERROR_NOT_INITIALIZED;
	pthread_once(&once, at_fork);
	pthread_mutex_lock(&fk.lock);
	fk.inited = true;
	return fk_leave(FM_CU_SUCCESS);
}

fm_cu_result fk_leave(fm_cu_result rc)
{
	pthread_mutex_unlock(&fk.lock);
	return rc;
}

fm_cu_result fk_enter(void)
{
	if (fk_self.in_callback)
		return CU_NOT_PERMITTED;
	if (fk.forked)
		return FM_CU_ERROR_NOT_INITIALIZED;
	pthread_mutex_lock(&fk.lock);
	return fk.inited ? FM_CU_SUCCESS : fk_leave(FM_CU_ERROR_NOT_INITIALIZED);
}

fm_cu_result fk_enter_ctx(void)
{
	FK_TRY(fk_enter());
	return fk_ctx() && fk_ctx()->live ? FM_CU_SUCCESS : fk_leave(CU_INVALID_CONTEXT);
}

fm_cu_result cuDriverGetVersion(int *version)
{
	if (!version)
		return FM_CU_ERROR_INVALID_VALUE;
	*version = fk_env("FAKE_CUDA_OLD") ? 11080 : 13000;
	return FM_CU_SUCCESS;
}

static const struct {
	fm_cu_result code;
	const char *name, *text;
} errors[] = {
	{FM_CU_SUCCESS, "CUDA_SUCCESS", "no error"},
	{FM_CU_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
	{CU_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
	{FM_CU_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
	{CU_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
	{CU_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
	{CU_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
	{CU_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
	{FM_CU_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
	{CU_NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
	{FM_CU_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
	{CU_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
		"operation not permitted when stream is capturing"},
};

static fm_cu_result error_text(fm_cu_result e, const char **out, bool name)
{
	if (!out)
		return FM_CU_ERROR_INVALID_VALUE;
	*out = NULL;
	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++)
		if (errors[i].code == e)
			*out = name ? errors[i].name : errors[i].text;
	return *out ? FM_CU_SUCCESS : FM_CU_ERROR_INVALID_VALUE;
}

fm_cu_result cuGetErrorName(fm_cu_result e, const char **name)
{
	return error_text(e, name, true);
}

fm_cu_result cuGetErrorString(fm_cu_result e, const char **text)
{
	return error_text(e, text, false);
}

/* There is one device, number 0. */
static fm_cu_result device(const void *out, CUdevice dev)
{
	FK_TRY(fk_enter());
	if (!out)
		return fk_leave(FM_CU_ERROR_INVALID_VALUE);
	return fk_leave(dev ? CU_INVALID_DEVICE : FM_CU_SUCCESS);
}

fm_cu_result cuDeviceGet(CUdevice *dev, int ordinal)
{
	FK_TRY(device(dev, ordinal));
	*dev = 0;
	return FM_CU_SUCCESS;
}

fm_cu_result cuDeviceGetCount(int *n)
{
	FK_TRY(device(n, 0));
	*n = 1;
	return FM_CU_SUCCESS;
}

fm_cu_result cuDeviceGetName(char *name, int size, CUdevice dev)
{
	FK_TRY(device(name, dev));
	snprintf(name, size > 0 ? (size_t)size : 0, "Fake CUDA device");
	return FM_CU_SUCCESS;
}

fm_cu_result cuDeviceGetUuid_v2(struct fm_cu_uuid *uuid, CUdevice dev)
{
	FK_TRY(device(uuid, dev));
	memcpy(uuid->bytes, "fermata-fake-gpu", sizeof(uuid->bytes));
	return FM_CU_SUCCESS;
}

fm_cu_result cuDeviceGetUuid(struct fm_cu_uuid *uuid, CUdevice dev)
{
	return cuDeviceGetUuid_v2(uuid, dev);
}

fm_cu_result cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
	FK_TRY(device(bytes, dev));
	*bytes = (size_t)1 << 32;
	return FM_CU_SUCCESS;
}

fm_cu_result cuDeviceGetAttribute(int *value, int which, CUdevice dev)
{
	static const short known[][2] = {{1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {10, 32},
		{16, 16}, {31, 1}, {39, 2048}, {41, 1}, {75, 9}, {76, 0}, {95, 1}, {99, 1},
		{106, 32}, {115, 1}};
	bool memops = !fk_env("FAKE_CUDA_NO_MEMOPS");

	FK_TRY(device(value, dev));
	*value = (which == 92 || which == 93 || which == 122) &&
		 memops; /* stream memory operations */
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (known[i][0] == which)
			*value = known[i][1];
	return FM_CU_SUCCESS;
}
