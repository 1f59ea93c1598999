/* SPDX-License-Identifier: Apache-2.0 */
#include "recorder.h"
#include "base/util.h"
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

#define ON_other(kind, symbol, per_thread, name, since, note, params, ...) \
	EXPORT hipError_t symbol CALL_PARAMS(params);
#include "api/hip/calls.def"

static const struct entry {
	const char *symbol;
	void *fn;
} entries[] = {
#define ON_other(kind, symbol, ...) {#symbol, (void *)symbol},
#include "api/hip/calls.def"
};

static __thread struct {
	bool on;
	unsigned id;
	hipError_t rc;
	struct rec_seen seen;
} expected;

/* What pointers point to: a stream stands wherever one is looked for. */
static hipStream_t into;
static struct fm_hip_launch_config one_config;
static struct fm_hip_drv_launch_config drv_config;
static struct fm_hip_launch_params one_launch;
static struct fm_hip_function_params one_function;
static struct fm_hip_instantiate one_upload;

EXPORT const void *rec_canary(const char *name, size_t size)
{
	static const void *const configs[] = {&one_config, &drv_config};
	static const void *const lists[] = {&one_launch, &one_function}, *const upload =
										 &one_upload;
	static const unsigned one = 1;
	static _Thread_local _Alignas(16) unsigned char bytes[16][32];
	static _Thread_local unsigned turn;
	static const int to_host = FM_HIP_COPY_TO_HOST;
	unsigned char *b = bytes[turn++ % 16];
	uint32_t h = 2166136261u;

	if (!strcmp(name, "stream"))
		return &into;
	if (!strcmp(name, "config"))
		return &configs[expected.id == REC_hipDrvLaunchKernelEx];
	if (!strcmp(name, "list"))
		return &lists[expected.id == REC_hipModuleLaunchCooperativeKernelMultiDevice];
	if (!strcmp(name, "n") && size == sizeof(one)) /* of streams in a list, if there is one */
		return &one;
	if (!strcmp(name, "upload"))
		return &upload;
	if (!strcmp(name, "how") && size == sizeof(to_host))
		return &to_host;
	for (const char *p = name; *p; p++)
		h = (h ^ (unsigned char)*p) * 16777619u;
	for (size_t i = 0; i < size; i++, h = h * 1664525u + 1013904223u)
		b[i] = (unsigned char)(h >> 24);
	return b;
}

EXPORT void rec_expect(unsigned id, hipStream_t s, hipError_t rc)
{
	expected.on = true;
	expected.id = id;
	expected.rc = rc;
	expected.seen = (struct rec_seen){0};
	into = one_config.stream = drv_config.stream = s;
	one_launch.stream = one_function.stream = one_upload.stream = s;
}

EXPORT struct rec_seen rec_seen(void)
{
	expected.on = false;
	return expected.seen;
}

EXPORT void *rec_own(unsigned id)
{
	return entries[id].fn;
}

struct arg {
	const char *name;
	const void *at;
	size_t size;
};

/* What the shim calls for itself. */
static bool is_shims(const char *symbol)
{
	static const char *const own[] = {
#define SYMBOL(name, symbol, params) symbol,
		FM_HIP_DRIVER(SYMBOL)
#undef SYMBOL
	};

	for (size_t i = 0; i < FM_ARRAY_LEN(own); i++)
		if (!strcmp(symbol, own[i]))
			return true;
	return false;
}

static hipError_t called(unsigned id, const struct arg *a, size_t n)
{
	if (!expected.on)
		return FM_HIP_SUCCESS;
	if (id != expected.id) {
		expected.seen.besides += !is_shims(entries[id].symbol);
		return FM_HIP_SUCCESS;
	}
	expected.seen.calls++;
	for (size_t i = 0; i < n; i++)
		expected.seen.differ +=
			memcmp(a[i].at, rec_canary(a[i].name, a[i].size), a[i].size) != 0;
	return expected.rc;
}

#define ARG(type, name)                    \
	{                                  \
#name, &name, sizeof(name) \
	}
#define WITH(symbol, params)                                     \
	hipError_t symbol CALL_PARAMS(params)                    \
	{                                                        \
		const struct arg a[] = {CALL_EACH(ARG, params)}; \
                                                                 \
		return called(REC_##symbol, a, FM_ARRAY_LEN(a)); \
	}
#define WITHOUT(symbol)                               \
	hipError_t symbol(void)                       \
	{                                             \
		return called(REC_##symbol, NULL, 0); \
	}
#define OF_QUEUE(symbol, params)                                        WITH(symbol, params)
#define OF_STREAM(symbol, params)                                       WITH(symbol, params)
#define OF_DEVICE(symbol, params)                                       WITHOUT(symbol)
#define ON_sync(symbol, per_thread, name, since, note, params, of, ...) OF_##of(symbol, params)
#define ON_end(symbol, per_thread, name, since, note, params, of, ...)  OF_##of(symbol, params)
#define OWN_LOOKUP(...)
#define OWN_MULTI(symbol, params)                                          WITH(symbol, params)
#define OWN_CONFIGURE(symbol, params)                                      WITH(symbol, params)
#define ON_own(symbol, per_thread, name, since, note, params, how)         OWN_##how(symbol, params)
#define ON_other(kind, symbol, per_thread, name, since, note, params, ...) WITH(symbol, params)
#include "api/hip/calls.def"

static hipError_t get(const char *name, void **fn, bool spt)
{
	char variant[64];

	*fn = NULL;
	snprintf(variant, sizeof(variant), "%s_spt", name);
	for (size_t i = 0; i < FM_ARRAY_LEN(entries); i++)
		if (!strcmp(entries[i].symbol, name) ||
			(spt && !strcmp(entries[i].symbol, variant)))
			*fn = *fn && !spt ? *fn : entries[i].fn;
	return *fn ? FM_HIP_SUCCESS : 1;
}

hipError_t hipGetProcAddress(const char *name, void **fn, int version, uint64_t flags, int *status)
{
	return get(name, fn, flags == FM_HIP_PROC_PER_THREAD);
}

hipError_t hipGetProcAddress_spt(
	const char *name, void **fn, int version, uint64_t flags, int *status)
{
	return get(name, fn, flags != 1);
}

hipError_t hipGetDriverEntryPoint(
	const char *name, void **fn, unsigned long long flags, int *status)
{
	return get(name, fn, flags == FM_HIP_PROC_PER_THREAD);
}

hipError_t hipGetDriverEntryPoint_spt(
	const char *name, void **fn, unsigned long long flags, int *status)
{
	return get(name, fn, flags != 1);
}

/* --- what is not in the table: X(symbol, parameters, what it does) --- */

/* clang-format off */
#define REST(X) \
	X(hipGetDevice, (int *device), *device = 0) \
	X(hipSetDevice, (int device), (void)0) \
	X(hipDeviceGetName, (char *name, int size, int device), snprintf(name, (size_t)size, "recorder")) \
	X(hipDeviceGetAttribute, (int *value, int which, int device), *value = 0) \
	X(hipPeekAtLastError, (void), (void)0) \
	X(hipGetLastError, (void), (void)0) \
	X(hipStreamGetDevice, (hipStream_t s, int *device), *device = 0) \
	X(hipStreamIsCapturing, (hipStream_t s, int *status), *status = 0) \
	X(hipEventCreateWithFlags, (hipEvent_t *event, unsigned flags), *event = (hipEvent_t)&into) \
	X(hipEventDestroy, (hipEvent_t event), (void)0) \
	X(hipEventQuery, (hipEvent_t event), (void)0)
/* clang-format on */

#define DEFINE(symbol, params, does)     \
	EXPORT hipError_t symbol params; \
	hipError_t symbol params         \
	{                                \
		does;                    \
		return FM_HIP_SUCCESS;   \
	}
REST(DEFINE)
