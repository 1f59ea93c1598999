/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that the recorder stands in front of: rows of the table of calls that give a stream
 * work, make memory or end it; and these. */
#pragma once
#include "api/calls.h"
#include "record.h"

/* X(symbol, name, since, parameters) */
/* clang-format off */
#define FM_RECORD_OWN(X) \
	X(cuGetProcAddress, cuGetProcAddress, 11030, (const char *name, void **fn, int version, uint64_t flags)) \
	X(cuGetProcAddress_v2, cuGetProcAddress, 12000, (const char *name, void **fn, int version, uint64_t flags, unsigned *status)) \
	X(cuModuleLoad, cuModuleLoad, 2000, (CUmodule *module, const char *path)) \
	X(cuModuleLoadData, cuModuleLoadData, 2000, (CUmodule *module, const void *image)) \
	X(cuModuleLoadDataEx, cuModuleLoadDataEx, 2010, (CUmodule *module, const void *image, unsigned n, int *options, void **values)) \
	X(cuModuleLoadFatBinary, cuModuleLoadFatBinary, 2000, (CUmodule *module, const void *image)) \
	X(cuModuleUnload, cuModuleUnload, 2000, (CUmodule module)) \
	X(cuModuleGetFunction, cuModuleGetFunction, 2000, (CUfunction *f, CUmodule module, const char *name)) \
	X(cuLibraryLoadData, cuLibraryLoadData, 12000, (CUlibrary *library, const void *image, int *jit, void **jit_values, unsigned n_jit, int *options, void **values, unsigned n)) \
	X(cuLibraryLoadFromFile, cuLibraryLoadFromFile, 12000, (CUlibrary *library, const char *path, int *jit, void **jit_values, unsigned n_jit, int *options, void **values, unsigned n)) \
	X(cuLibraryUnload, cuLibraryUnload, 12000, (CUlibrary library)) \
	X(cuLibraryGetKernel, cuLibraryGetKernel, 12000, (CUkernel *k, CUlibrary library, const char *name)) \
	X(cuLibraryGetModule, cuLibraryGetModule, 12000, (CUmodule *module, CUlibrary library)) \
	X(cuKernelGetFunction, cuKernelGetFunction, 12000, (CUfunction *f, CUkernel k)) \
	X(cuCtxDestroy, cuCtxDestroy, 2000, (CUcontext ctx)) \
	X(cuCtxDestroy_v2, cuCtxDestroy, 4000, (CUcontext ctx)) \
	X(cuCtxDetach, cuCtxDetach, 2000, (CUcontext ctx)) \
	X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease, 7000, (CUdevice dev)) \
	X(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease, 11000, (CUdevice dev)) \
	X(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset, 7000, (CUdevice dev)) \
	X(cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset, 11000, (CUdevice dev)) \
	X(cuIpcGetMemHandle, cuIpcGetMemHandle, 4010, (struct fm_cu_ipc_handle *handle, CUdeviceptr p)) \
	X(cuMemGetHandleForAddressRange, cuMemGetHandleForAddressRange, 11070, (void *handle, CUdeviceptr p, size_t size, int type, unsigned long long flags)) \
	X(cuMemPoolExportToShareableHandle, cuMemPoolExportToShareableHandle, 11020, (void *handle, CUmemoryPool pool, int type, unsigned long long flags))
/* clang-format on */

#define FM_RECORD_EXPORT __attribute__((visibility("default")))
#define ON_ROW(symbol, per_thread, name, since, note, params, ...) \
	FM_RECORD_EXPORT fm_cu_result symbol CALL_PARAMS(params);
#include "rows.h"
#define OWN_DECLARED(symbol, name, since, params) FM_RECORD_EXPORT fm_cu_result symbol params;
FM_RECORD_OWN(OWN_DECLARED)
#undef OWN_DECLARED

enum fm_record_call {
#define ON_ROW(symbol, ...) FM_RECORD_##symbol,
#include "rows.h"
#define OWN_ID(symbol, name, since, params) FM_RECORD_##symbol,
	FM_RECORD_OWN(OWN_ID)
#undef OWN_ID
		FM_RECORD_CALLS
};
#define NEXT(symbol, args) (((__typeof__(&symbol))fm_tap_next(FM_RECORD_##symbol))args)
