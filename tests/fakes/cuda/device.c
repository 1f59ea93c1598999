/* SPDX-License-Identifier: Apache-2.0 */
#include "fake.h"
#include <stdarg.h>
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

static struct {
	_Atomic(const char *) call;
	void (*fn)(void);
} at;

void fake_cuda_at(const char *call, void (*fn)(void))
{
	at.fn = fn;
	at.call = call;
}

void fk_at(const char *call)
{
	const char *asked = at.call;

	if (asked && !strcmp(asked, call) && atomic_compare_exchange_strong(&at.call, &asked, NULL))
		at.fn();
}

void fk_defined(const void *handle)
{
	if (handle == FK_UNDEFINED)
		fk_die("what a call that failed would have returned is used");
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
	fk_fails_in_child();
}

static void at_fork(void)
{
	fk_memory_init();
	pthread_atfork(NULL, NULL, in_child);
}

fm_cu_result cuInit(unsigned flags)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	const char *fails = fk_env("FAKE_CUDA_INIT"), *lost = fk_env("FAKE_CUDA_LOST");

	if (flags)
		return FM_CU_ERROR_INVALID_VALUE;
	if (fails)
		return atoi(fails);
	if (fk.forked)
		return FM_CU_ERROR_NOT_INITIALIZED;
	pthread_once(&once, at_fork);
	pthread_mutex_lock(&fk.lock);
	fk.inited = true;
	if (lost && strstr(lost, "@0"))
		fk_lose(atoi(lost));
	return fk_leave_any(FM_CU_SUCCESS);
}

fm_cu_result fk_leave_any(fm_cu_result rc)
{
	pthread_mutex_unlock(&fk.lock);
	return rc;
}

fm_cu_result fk_leave(fm_cu_result rc)
{
	return fk_leave_any(fk.lost ? fk.lost : rc);
}

fm_cu_result fk_enter(void)
{
	if (fk_self.in_callback)
		return CU_NOT_PERMITTED;
	if (fk.forked)
		return FM_CU_ERROR_NOT_INITIALIZED;
	pthread_mutex_lock(&fk.lock);
	return fk.inited ? FM_CU_SUCCESS : fk_leave_any(FM_CU_ERROR_NOT_INITIALIZED);
}

fm_cu_result fk_enter_ctx(void)
{
	FK_TRY(fk_enter());
	fk_hw_lock(fk_ctx());
	if (fk.lost || !fk_ctx())
		return fk_leave(CU_INVALID_CONTEXT);
	return fk_ctx()->live ? FM_CU_SUCCESS : fk_leave(CU_CONTEXT_IS_DESTROYED);
}

void fk_die(const char *fmt, ...)
{
	va_list ap;

	fputs("fake_cuda: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	abort();
}

void fk_lose(fm_cu_result rc)
{
	if (!fk.lost)
		fk.lost = rc;
	fk_wake_all();
}

void fake_cuda_lose(int error)
{
	pthread_mutex_lock(&fk.lock);
	fk_lose(error);
	pthread_mutex_unlock(&fk.lock);
}

void fake_cuda_refuse(enum fake_cuda_thing thing, int yes)
{
	fk.refuse[thing] = yes;
}

fm_cu_result cuDriverGetVersion(int *version)
{
	if (!version)
		return FM_CU_ERROR_INVALID_VALUE;
	*version = fk_env("FAKE_CUDA_OLD") ? 11080 : fk_env("FAKE_CUDA_NEW") ? 99000 : 13000;
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
	{34, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
	{46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
	{CU_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
	{CU_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
	{CU_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
	{CU_ECC_UNCORRECTABLE, "CUDA_ERROR_ECC_UNCORRECTABLE",
		"uncorrectable ECC error encountered"},
	{CU_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
	{CU_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
	{FM_CU_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
	{CU_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS",
		"an illegal memory access was encountered"},
	{CU_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
	{CU_NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
	{FM_CU_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
	{802, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
	{803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
		"system has unsupported display driver / cuda driver combination"},
	{804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
		"forward compatibility was attempted on non supported HW"},
	{805, "CUDA_ERROR_MPS_CONNECTION_FAILED",
		"MPS client failed to connect to the MPS control daemon"},
	{807, "CUDA_ERROR_MPS_SERVER_NOT_READY",
		"MPS server is not ready to accept new MPS client requests"},
	{810, "CUDA_ERROR_MPS_CLIENT_TERMINATED",
		"the MPS client has been terminated by the server"},
	{CU_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
		"operation not permitted when stream is capturing"},
	{999, "CUDA_ERROR_UNKNOWN", "unknown error"},
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
