/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that the agent stands in front of. */
#pragma once
#include "agent.h"

/* X(symbol, name, is the NULL stream the thread's own, since, parameters) */
/* clang-format off */
#define FM_PROFILE_CALLS(X) \
	X(cuInit, cuInit, false, 2000, (unsigned flags)) \
	X(cuGetProcAddress, cuGetProcAddress, false, 11030, (const char *name, void **fn, int version, uint64_t flags)) \
	X(cuGetProcAddress_v2, cuGetProcAddress, false, 12000, (const char *name, void **fn, int version, uint64_t flags, unsigned *status)) \
	X(cuModuleLoad, cuModuleLoad, false, 2000, (CUmodule *module, const char *path)) \
	X(cuModuleLoadData, cuModuleLoadData, false, 2000, (CUmodule *module, const void *image)) \
	X(cuModuleLoadDataEx, cuModuleLoadDataEx, false, 2010, (CUmodule *module, const void *image, unsigned n, int *options, void **values)) \
	X(cuModuleLoadFatBinary, cuModuleLoadFatBinary, false, 2000, (CUmodule *module, const void *image)) \
	X(cuModuleUnload, cuModuleUnload, false, 2000, (CUmodule module)) \
	X(cuModuleGetFunction, cuModuleGetFunction, false, 2000, (CUfunction *f, CUmodule module, const char *name)) \
	X(cuLibraryLoadData, cuLibraryLoadData, false, 12000, (CUlibrary *library, const void *image, int *jit, void **jit_values, unsigned n_jit, int *options, void **values, unsigned n)) \
	X(cuLibraryLoadFromFile, cuLibraryLoadFromFile, false, 12000, (CUlibrary *library, const char *path, int *jit, void **jit_values, unsigned n_jit, int *options, void **values, unsigned n)) \
	X(cuLibraryUnload, cuLibraryUnload, false, 12000, (CUlibrary library)) \
	X(cuLibraryGetKernel, cuLibraryGetKernel, false, 12000, (CUkernel *k, CUlibrary library, const char *name)) \
	X(cuLibraryGetModule, cuLibraryGetModule, false, 12000, (CUmodule *module, CUlibrary library)) \
	X(cuKernelGetFunction, cuKernelGetFunction, false, 12000, (CUfunction *f, CUkernel k)) \
	X(cuTensorMapEncodeTiled, cuTensorMapEncodeTiled, false, 12000, (void *map, unsigned type, unsigned rank, void *at, const uint64_t *dim, const uint64_t *stride, const unsigned *box, const unsigned *step, int interleave, int swizzle, int promotion, int fill)) \
	X(cuTensorMapEncodeIm2col, cuTensorMapEncodeIm2col, false, 12000, (void *map, unsigned type, unsigned rank, void *at, const uint64_t *dim, const uint64_t *stride, const int *lower, const int *upper, unsigned channels, unsigned pixels, const unsigned *step, int interleave, int swizzle, int promotion, int fill)) \
	X(cuTensorMapEncodeIm2colWide, cuTensorMapEncodeIm2colWide, false, 12080, (void *map, unsigned type, unsigned rank, void *at, const uint64_t *dim, const uint64_t *stride, int lower, int upper, unsigned channels, unsigned pixels, const unsigned *step, int interleave, int mode, int swizzle, int promotion, int fill)) \
	X(cuTensorMapReplaceAddress, cuTensorMapReplaceAddress, false, 12000, (void *map, void *at)) \
	X(cuLaunchKernel, cuLaunchKernel, false, 4000, (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params, void **extra)) \
	X(cuLaunchKernel_ptsz, cuLaunchKernel, true, 7000, (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params, void **extra)) \
	X(cuLaunchKernelEx, cuLaunchKernelEx, false, 11060, (const struct fm_cu_launch_config *config, CUfunction f, void **params, void **extra)) \
	X(cuLaunchKernelEx_ptsz, cuLaunchKernelEx, true, 11060, (const struct fm_cu_launch_config *config, CUfunction f, void **params, void **extra)) \
	X(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel, false, 9000, (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params)) \
	X(cuLaunchCooperativeKernel_ptsz, cuLaunchCooperativeKernel, true, 9000, (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params)) \
	X(cuStreamDestroy_v2, cuStreamDestroy, false, 4000, (CUstream stream)) \
	X(cuCtxDestroy_v2, cuCtxDestroy, false, 4000, (CUcontext ctx)) \
	X(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset, false, 7000, (CUdevice dev)) \
	X(cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset, false, 11000, (CUdevice dev)) \
	X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, false, 7000, (CUcontext *ctx, CUdevice dev)) \
	X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease, false, 7000, (CUdevice dev)) \
	X(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease, false, 11000, (CUdevice dev)) \
	X(cuGraphInstantiate, cuGraphInstantiate, false, 10000, (CUgraphExec *exec, CUgraph graph, CUgraphNode *node, char *log, size_t size)) \
	X(cuGraphInstantiate_v2, cuGraphInstantiate, false, 11000, (CUgraphExec *exec, CUgraph graph, CUgraphNode *node, char *log, size_t size)) \
	X(cuGraphInstantiateWithFlags, cuGraphInstantiate, false, 12000, (CUgraphExec *exec, CUgraph graph, unsigned long long flags)) \
	X(cuGraphInstantiateWithParams, cuGraphInstantiateWithParams, false, 12000, (CUgraphExec *exec, CUgraph graph, void *how)) \
	X(cuGraphInstantiateWithParams_ptsz, cuGraphInstantiateWithParams, true, 12000, (CUgraphExec *exec, CUgraph graph, void *how)) \
	X(cuGraphExecUpdate, cuGraphExecUpdate, false, 10020, (CUgraphExec exec, CUgraph graph, CUgraphNode *node, int *result)) \
	X(cuGraphExecUpdate_v2, cuGraphExecUpdate, false, 12000, (CUgraphExec exec, CUgraph graph, void *result)) \
	X(cuGraphExecDestroy, cuGraphExecDestroy, false, 10000, (CUgraphExec exec)) \
	X(cuGraphExecKernelNodeSetParams, cuGraphExecKernelNodeSetParams, false, 10010, (CUgraphExec exec, CUgraphNode node, const void *what)) \
	X(cuGraphExecKernelNodeSetParams_v2, cuGraphExecKernelNodeSetParams, false, 12000, (CUgraphExec exec, CUgraphNode node, const void *what)) \
	X(cuGraphExecMemcpyNodeSetParams, cuGraphExecMemcpyNodeSetParams, false, 10020, (CUgraphExec exec, CUgraphNode node, const void *what, CUcontext ctx)) \
	X(cuGraphExecMemsetNodeSetParams, cuGraphExecMemsetNodeSetParams, false, 10020, (CUgraphExec exec, CUgraphNode node, const void *what, CUcontext ctx)) \
	X(cuGraphExecNodeSetParams, cuGraphExecNodeSetParams, false, 12020, (CUgraphExec exec, CUgraphNode node, void *what)) \
	X(cuGraphNodeSetEnabled, cuGraphNodeSetEnabled, false, 11060, (CUgraphExec exec, CUgraphNode node, unsigned enabled)) \
	X(cuGraphLaunch, cuGraphLaunch, false, 10000, (CUgraphExec graph, CUstream stream)) \
	X(cuGraphLaunch_ptsz, cuGraphLaunch, true, 10000, (CUgraphExec graph, CUstream stream))
/* clang-format on */

#define FM_PROFILE_EXPORT                          __attribute__((visibility("default")))
#define DECLARED(symbol, name, own, since, params) FM_PROFILE_EXPORT fm_cu_result symbol params;
FM_PROFILE_CALLS(DECLARED)
#undef DECLARED

enum fm_profile_call {
#define ID(symbol, name, own, since, params) FM_PROFILE_##symbol,
	FM_PROFILE_CALLS(ID)
#undef ID
		FM_PROFILE_N_CALLS
};
#define NEXT(symbol, args) (((__typeof__(&symbol))fm_tap_next(FM_PROFILE_##symbol))args)
