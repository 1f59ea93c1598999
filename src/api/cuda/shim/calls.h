/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every call of the CUDA driver API that puts something onto a stream, as one line:
 *
 *   X(name, suffix, clone, since, stream, work, waits, key, params, args)
 *
 * The symbol is name##suffix; it has a clone name##suffix##_##clone, in which the NULL stream is
 * the thread's own instead of the context's. cuGetProcAddress gives this symbol for `name` to those
 * who ask for version `since` or later. work: a kernel, copy or fill, as opposed to what only
 * orders them. waits: does the call return only when its command has finished? key: the kind of
 * command (estimates), 0 for what only orders.
 *
 * From these tables come the shim's functions, what dlsym and cuGetProcAddress answer, and
 * docs/cuda-coverage.md (script/cuda-coverage), which also names the calls that are left alone.
 */
#pragma once
#include "keys.h"

#define DIMS                                                                          \
	unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, \
		unsigned shared
#define DIM_ARGS gx, gy, gz, bx, by, bz, shared
#define KEY_DIMS key_kernel(f, (uint64_t)gx *gy *gz, (uint64_t)bx *by *bz)

/* clang-format off */
#define FM_CUDA_LAUNCHES(X) \
	FM_CUDA_KERNELS(X) FM_CUDA_KERNELS_EX(X) FM_CUDA_COOPERATIVE(X) FM_CUDA_OTHER_WORK(X)

/* All but kernels. */
#define FM_CUDA_OTHER_WORK(X) \
	FM_CUDA_COPIES(X) FM_CUDA_COPIES_ASYNC(X) FM_CUDA_SETS(X) FM_CUDA_MEMORY(X) FM_CUDA_ORDER(X)

/* Kernels: the key's and the program's parameters are `f`, `params` and `extra` (kernels.c). */
#define FM_CUDA_KERNELS(X) \
	X(cuLaunchKernel, , ptsz, 4000, stream, 1, 0, KEY_DIMS, \
		(CUfunction f, DIMS, CUstream stream, void **params, void **extra), \
		(f, DIM_ARGS, stream, params, extra))

/* The same with a `config`. */
#define FM_CUDA_KERNELS_EX(X) \
	X(cuLaunchKernelEx, , ptsz, 11060, config_stream(config), 1, 0, key_config(f, config), \
		(const struct CUlaunchConfig_st *config, CUfunction f, void **params, void **extra), \
		(config, f, params, extra))

/* The same without `extra`. */
#define FM_CUDA_COOPERATIVE(X) \
	X(cuLaunchCooperativeKernel, , ptsz, 9000, stream, 1, 0, KEY_DIMS, \
		(CUfunction f, DIMS, CUstream stream, void **params), \
		(f, DIM_ARGS, stream, params))

/* Kernels whose parameters were given before. Without clones:
 * X(name, suffix, since, stream, work, waits, key, params, args). */
#define FM_CUDA_KERNELS_OLD(X) \
	X(cuLaunch, , 2000, NULL, 1, 0, key_grid(f, 1, 1), \
		(CUfunction f), \
		(f)) \
	X(cuLaunchGrid, , 2000, NULL, 1, 0, key_grid(f, w, h), \
		(CUfunction f, int w, int h), \
		(f, w, h)) \
	X(cuLaunchGridAsync, , 2000, stream, 1, 0, key_grid(f, w, h), \
		(CUfunction f, int w, int h, CUstream stream), \
		(f, w, h, stream))

#define FM_CUDA_COPIES(X) \
	X(cuMemcpy, , ptds, 4000, NULL, 1, 0, key_bytes(1, n), \
		(CUdeviceptr dst, CUdeviceptr src, size_t n), \
		(dst, src, n)) \
	X(cuMemcpyPeer, , ptds, 4000, NULL, 1, 0, key_bytes(2, n), \
		(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx, size_t n), \
		(dst, dst_ctx, src, src_ctx, n)) \
	X(cuMemcpyHtoD, _v2, ptds, 3020, NULL, 1, 0, key_bytes(3, n), \
		(CUdeviceptr dst, const void *src, size_t n), \
		(dst, src, n)) \
	X(cuMemcpyDtoH, _v2, ptds, 3020, NULL, 1, 1, key_bytes(4, n), \
		(void *dst, CUdeviceptr src, size_t n), \
		(dst, src, n)) \
	X(cuMemcpyDtoD, _v2, ptds, 3020, NULL, 1, 0, key_bytes(5, n), \
		(CUdeviceptr dst, CUdeviceptr src, size_t n), \
		(dst, src, n)) \
	X(cuMemcpyDtoA, _v2, ptds, 3020, NULL, 1, 0, key_bytes(6, n), \
		(CUarray dst, size_t at, CUdeviceptr src, size_t n), \
		(dst, at, src, n)) \
	X(cuMemcpyAtoD, _v2, ptds, 3020, NULL, 1, 0, key_bytes(7, n), \
		(CUdeviceptr dst, CUarray src, size_t at, size_t n), \
		(dst, src, at, n)) \
	X(cuMemcpyHtoA, _v2, ptds, 3020, NULL, 1, 0, key_bytes(8, n), \
		(CUarray dst, size_t at, const void *src, size_t n), \
		(dst, at, src, n)) \
	X(cuMemcpyAtoH, _v2, ptds, 3020, NULL, 1, 1, key_bytes(9, n), \
		(void *dst, CUarray src, size_t at, size_t n), \
		(dst, src, at, n)) \
	X(cuMemcpyAtoA, _v2, ptds, 3020, NULL, 1, 0, key_bytes(10, n), \
		(CUarray dst, size_t dst_at, CUarray src, size_t src_at, size_t n), \
		(dst, dst_at, src, src_at, n)) \
	X(cuMemcpy2D, _v2, ptds, 3020, NULL, 1, to_host_2d(copy), key_2d(11, copy), \
		(const struct CUDA_MEMCPY2D_st *copy), \
		(copy)) \
	X(cuMemcpy2DUnaligned, _v2, ptds, 3020, NULL, 1, to_host_2d(copy), key_2d(12, copy), \
		(const struct CUDA_MEMCPY2D_st *copy), \
		(copy)) \
	X(cuMemcpy3D, _v2, ptds, 3020, NULL, 1, to_host_3d(copy), key_3d(13, copy), \
		(const struct CUDA_MEMCPY3D_st *copy), \
		(copy)) \
	X(cuMemcpy3DPeer, , ptds, 4000, NULL, 1, 0, key_3d(14, copy), \
		(const struct CUDA_MEMCPY3D_PEER_st *copy), \
		(copy))

#define FM_CUDA_COPIES_ASYNC(X) \
	X(cuMemcpyAsync, , ptsz, 4000, stream, 1, 0, key_bytes(1, n), \
		(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream), \
		(dst, src, n, stream)) \
	X(cuMemcpyPeerAsync, , ptsz, 4000, stream, 1, 0, key_bytes(2, n), \
		(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx, size_t n, CUstream stream), \
		(dst, dst_ctx, src, src_ctx, n, stream)) \
	X(cuMemcpyHtoDAsync, _v2, ptsz, 3020, stream, 1, 0, key_bytes(3, n), \
		(CUdeviceptr dst, const void *src, size_t n, CUstream stream), \
		(dst, src, n, stream)) \
	X(cuMemcpyDtoHAsync, _v2, ptsz, 3020, stream, 1, 0, key_bytes(4, n), \
		(void *dst, CUdeviceptr src, size_t n, CUstream stream), \
		(dst, src, n, stream)) \
	X(cuMemcpyDtoDAsync, _v2, ptsz, 3020, stream, 1, 0, key_bytes(5, n), \
		(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream), \
		(dst, src, n, stream)) \
	X(cuMemcpyHtoAAsync, _v2, ptsz, 3020, stream, 1, 0, key_bytes(8, n), \
		(CUarray dst, size_t at, const void *src, size_t n, CUstream stream), \
		(dst, at, src, n, stream)) \
	X(cuMemcpyAtoHAsync, _v2, ptsz, 3020, stream, 1, 0, key_bytes(9, n), \
		(void *dst, CUarray src, size_t at, size_t n, CUstream stream), \
		(dst, src, at, n, stream)) \
	X(cuMemcpy2DAsync, _v2, ptsz, 3020, stream, 1, 0, key_2d(11, copy), \
		(const struct CUDA_MEMCPY2D_st *copy, CUstream stream), \
		(copy, stream)) \
	X(cuMemcpy3DAsync, _v2, ptsz, 3020, stream, 1, 0, key_3d(13, copy), \
		(const struct CUDA_MEMCPY3D_st *copy, CUstream stream), \
		(copy, stream)) \
	X(cuMemcpy3DPeerAsync, , ptsz, 4000, stream, 1, 0, key_3d(14, copy), \
		(const struct CUDA_MEMCPY3D_PEER_st *copy, CUstream stream), \
		(copy, stream)) \
	X(cuMemcpyBatchAsync, , ptsz, 12080, stream, 1, 0, key_batch(15, sizes, n), \
		(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t n, struct CUmemcpyAttributes_st *attrs, size_t *indices, size_t n_attrs, size_t *failed, CUstream stream), \
		(dsts, srcs, sizes, n, attrs, indices, n_attrs, failed, stream)) \
	X(cuMemcpyBatchAsync, _v2, ptsz, 13000, stream, 1, 0, key_batch(15, sizes, n), \
		(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t n, struct CUmemcpyAttributes_st *attrs, size_t *indices, size_t n_attrs, CUstream stream), \
		(dsts, srcs, sizes, n, attrs, indices, n_attrs, stream)) \
	X(cuMemcpy3DBatchAsync, , ptsz, 12080, stream, 1, 0, key_bytes(16, n), \
		(size_t n, struct CUDA_MEMCPY3D_BATCH_OP_st *ops, size_t *failed, unsigned long long flags, CUstream stream), \
		(n, ops, failed, flags, stream)) \
	X(cuMemcpy3DBatchAsync, _v2, ptsz, 13000, stream, 1, 0, key_bytes(16, n), \
		(size_t n, struct CUDA_MEMCPY3D_BATCH_OP_st *ops, unsigned long long flags, CUstream stream), \
		(n, ops, flags, stream)) \
	X(cuMemcpyWithAttributesAsync, , ptsz, 13020, stream, 1, 0, key_bytes(1, n), \
		(CUdeviceptr dst, CUdeviceptr src, size_t n, struct CUmemcpyAttributes_st *attrs, CUstream stream), \
		(dst, src, n, attrs, stream)) \
	X(cuMemcpy3DWithAttributesAsync, , ptsz, 13020, stream, 1, 0, key_op(13, op), \
		(struct CUDA_MEMCPY3D_BATCH_OP_st *op, unsigned long long flags, CUstream stream), \
		(op, flags, stream))

#define FM_CUDA_SETS(X) \
	X(cuMemsetD8, _v2, ptds, 3020, NULL, 1, 0, key_bytes(20, n), \
		(CUdeviceptr dst, unsigned char value, size_t n), \
		(dst, value, n)) \
	X(cuMemsetD16, _v2, ptds, 3020, NULL, 1, 0, key_bytes(20, 2 * n), \
		(CUdeviceptr dst, unsigned short value, size_t n), \
		(dst, value, n)) \
	X(cuMemsetD32, _v2, ptds, 3020, NULL, 1, 0, key_bytes(20, 4 * n), \
		(CUdeviceptr dst, unsigned value, size_t n), \
		(dst, value, n)) \
	X(cuMemsetD2D8, _v2, ptds, 3020, NULL, 1, 0, key_bytes(21, w * h), \
		(CUdeviceptr dst, size_t pitch, unsigned char value, size_t w, size_t h), \
		(dst, pitch, value, w, h)) \
	X(cuMemsetD2D16, _v2, ptds, 3020, NULL, 1, 0, key_bytes(21, 2 * w * h), \
		(CUdeviceptr dst, size_t pitch, unsigned short value, size_t w, size_t h), \
		(dst, pitch, value, w, h)) \
	X(cuMemsetD2D32, _v2, ptds, 3020, NULL, 1, 0, key_bytes(21, 4 * w * h), \
		(CUdeviceptr dst, size_t pitch, unsigned value, size_t w, size_t h), \
		(dst, pitch, value, w, h)) \
	X(cuMemsetD8Async, , ptsz, 3020, stream, 1, 0, key_bytes(20, n), \
		(CUdeviceptr dst, unsigned char value, size_t n, CUstream stream), \
		(dst, value, n, stream)) \
	X(cuMemsetD16Async, , ptsz, 3020, stream, 1, 0, key_bytes(20, 2 * n), \
		(CUdeviceptr dst, unsigned short value, size_t n, CUstream stream), \
		(dst, value, n, stream)) \
	X(cuMemsetD32Async, , ptsz, 3020, stream, 1, 0, key_bytes(20, 4 * n), \
		(CUdeviceptr dst, unsigned value, size_t n, CUstream stream), \
		(dst, value, n, stream)) \
	X(cuMemsetD2D8Async, , ptsz, 3020, stream, 1, 0, key_bytes(21, w * h), \
		(CUdeviceptr dst, size_t pitch, unsigned char value, size_t w, size_t h, CUstream stream), \
		(dst, pitch, value, w, h, stream)) \
	X(cuMemsetD2D16Async, , ptsz, 3020, stream, 1, 0, key_bytes(21, 2 * w * h), \
		(CUdeviceptr dst, size_t pitch, unsigned short value, size_t w, size_t h, CUstream stream), \
		(dst, pitch, value, w, h, stream)) \
	X(cuMemsetD2D32Async, , ptsz, 3020, stream, 1, 0, key_bytes(21, 4 * w * h), \
		(CUdeviceptr dst, size_t pitch, unsigned value, size_t w, size_t h, CUstream stream), \
		(dst, pitch, value, w, h, stream))

#define FM_CUDA_MEMORY(X) \
	X(cuMemAllocAsync, , ptsz, 11020, stream, 0, 0, 0, \
		(CUdeviceptr *ptr, size_t n, CUstream stream), \
		(ptr, n, stream)) \
	X(cuMemAllocFromPoolAsync, , ptsz, 11020, stream, 0, 0, 0, \
		(CUdeviceptr *ptr, size_t n, CUmemoryPool pool, CUstream stream), \
		(ptr, n, pool, stream)) \
	X(cuMemFreeAsync, , ptsz, 11020, stream, 0, 0, 0, \
		(CUdeviceptr ptr, CUstream stream), \
		(ptr, stream)) \
	X(cuMemMapArrayAsync, , ptsz, 11010, stream, 0, 0, 0, \
		(struct CUarrayMapInfo_st *list, unsigned n, CUstream stream), \
		(list, n, stream)) \
	X(cuMemPrefetchAsync, , ptsz, 8000, stream, 1, 0, key_bytes(24, n), \
		(CUdeviceptr ptr, size_t n, CUdevice dst, CUstream stream), \
		(ptr, n, dst, stream)) \
	X(cuMemPrefetchAsync, _v2, ptsz, 12020, stream, 1, 0, key_bytes(24, n), \
		(CUdeviceptr ptr, size_t n, struct fm_cu_location to, unsigned flags, CUstream stream), \
		(ptr, n, to, flags, stream)) \
	X(cuMemPrefetchBatchAsync, , ptsz, 13000, stream, 1, 0, key_batch(24, sizes, n), \
		(CUdeviceptr *ptrs, size_t *sizes, size_t n, struct fm_cu_location *to, size_t *indices, size_t n_to, unsigned long long flags, CUstream stream), \
		(ptrs, sizes, n, to, indices, n_to, flags, stream)) \
	X(cuMemDiscardBatchAsync, , ptsz, 13000, stream, 0, 0, 0, \
		(CUdeviceptr *ptrs, size_t *sizes, size_t n, unsigned long long flags, CUstream stream), \
		(ptrs, sizes, n, flags, stream)) \
	X(cuMemDiscardAndPrefetchBatchAsync, , ptsz, 13000, stream, 1, 0, key_batch(24, sizes, n), \
		(CUdeviceptr *ptrs, size_t *sizes, size_t n, struct fm_cu_location *to, size_t *indices, size_t n_to, unsigned long long flags, CUstream stream), \
		(ptrs, sizes, n, to, indices, n_to, flags, stream)) \
	X(cuMemBatchDecompressAsync, , ptsz, 12060, stream, 1, 0, key_bytes(25, n), \
		(struct CUmemDecompressParams_st *list, size_t n, unsigned flags, size_t *failed, CUstream stream), \
		(list, n, flags, failed, stream)) \
	X(cuStreamAttachMemAsync, , ptsz, 6000, stream, 0, 0, 0, \
		(CUstream stream, CUdeviceptr ptr, size_t n, unsigned flags), \
		(stream, ptr, n, flags))

#define FM_CUDA_ORDER(X) \
	X(cuStreamWaitEvent, , ptsz, 3020, stream, 0, 0, 0, \
		(CUstream stream, CUevent event, unsigned flags), \
		(stream, event, flags)) \
	X(cuLaunchHostFunc, , ptsz, 10000, stream, 0, 0, 0, \
		(CUstream stream, fm_cu_host_fn fn, void *user), \
		(stream, fn, user)) \
	X(cuLaunchHostFunc, _v2, ptsz, 13020, stream, 0, 0, 0, \
		(CUstream stream, fm_cu_host_fn fn, void *user, unsigned mode), \
		(stream, fn, user, mode)) \
	X(cuStreamAddCallback, , ptsz, 5000, stream, 0, 0, 0, \
		(CUstream stream, fm_cu_stream_callback fn, void *user, unsigned flags), \
		(stream, fn, user, flags)) \
	X(cuStreamWaitValue32, , ptsz, 8000, stream, 0, 0, 0, \
		(CUstream stream, CUdeviceptr at, uint32_t value, unsigned flags), \
		(stream, at, value, flags)) \
	X(cuStreamWaitValue32, _v2, ptsz, 11070, stream, 0, 0, 0, \
		(CUstream stream, CUdeviceptr at, uint32_t value, unsigned flags), \
		(stream, at, value, flags)) \
	X(cuStreamWaitValue64, , ptsz, 9000, stream, 0, 0, 0, \
		(CUstream stream, CUdeviceptr at, uint64_t value, unsigned flags), \
		(stream, at, value, flags)) \
	X(cuStreamWaitValue64, _v2, ptsz, 11070, stream, 0, 0, 0, \
		(CUstream stream, CUdeviceptr at, uint64_t value, unsigned flags), \
		(stream, at, value, flags)) \
	X(cuStreamWriteValue32, , ptsz, 8000, stream, 0, 0, 0, \
		(CUstream stream, CUdeviceptr at, uint32_t value, unsigned flags), \
		(stream, at, value, flags)) \
	X(cuStreamWriteValue32, _v2, ptsz, 11070, stream, 0, 0, 0, \
		(CUstream stream, CUdeviceptr at, uint32_t value, unsigned flags), \
		(stream, at, value, flags)) \
	X(cuStreamWriteValue64, , ptsz, 9000, stream, 0, 0, 0, \
		(CUstream stream, CUdeviceptr at, uint64_t value, unsigned flags), \
		(stream, at, value, flags)) \
	X(cuStreamWriteValue64, _v2, ptsz, 11070, stream, 0, 0, 0, \
		(CUstream stream, CUdeviceptr at, uint64_t value, unsigned flags), \
		(stream, at, value, flags)) \
	X(cuStreamBatchMemOp, , ptsz, 8000, stream, 0, 0, 0, \
		(CUstream stream, unsigned n, union fm_cu_mem_op *ops, unsigned flags), \
		(stream, n, ops, flags)) \
	X(cuStreamBatchMemOp, _v2, ptsz, 11070, stream, 0, 0, 0, \
		(CUstream stream, unsigned n, union fm_cu_mem_op *ops, unsigned flags), \
		(stream, n, ops, flags)) \
	X(cuSignalExternalSemaphoresAsync, , ptsz, 10000, stream, 0, 0, 0, \
		(const CUexternalSemaphore *list, const struct CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS_st *params, unsigned n, CUstream stream), \
		(list, params, n, stream)) \
	X(cuWaitExternalSemaphoresAsync, , ptsz, 10000, stream, 0, 0, 0, \
		(const CUexternalSemaphore *list, const struct CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS_st *params, unsigned n, CUstream stream), \
		(list, params, n, stream)) \
	X(cuGraphicsMapResources, , ptsz, 3000, stream, 0, 0, 0, \
		(unsigned n, CUgraphicsResource *list, CUstream stream), \
		(n, list, stream)) \
	X(cuGraphicsUnmapResources, , ptsz, 3000, stream, 0, 0, 0, \
		(unsigned n, CUgraphicsResource *list, CUstream stream), \
		(n, list, stream)) \
	X(cuGLMapBufferObject, _v2, ptds, 3020, NULL, 0, 0, 0, \
		(CUdeviceptr *ptr, size_t *n, unsigned buffer), \
		(ptr, n, buffer)) \
	X(cuGLMapBufferObjectAsync, _v2, ptsz, 3020, stream, 0, 0, 0, \
		(CUdeviceptr *ptr, size_t *n, unsigned buffer, CUstream stream), \
		(ptr, n, buffer, stream))

/* The same without clones: X(name, suffix, since, stream, work, waits, key, params, args). */
#define FM_CUDA_SINGLES(X) \
	FM_CUDA_KERNELS_OLD(X) FM_CUDA_OTHER_SINGLES(X)

#define FM_CUDA_OTHER_SINGLES(X) \
	X(cuGLUnmapBufferObject, , 2000, NULL, 0, 0, 0, \
		(unsigned buffer), \
		(buffer)) \
	X(cuGLUnmapBufferObjectAsync, , 2030, stream, 0, 0, 0, \
		(unsigned buffer, CUstream stream), \
		(buffer, stream))

/* On several streams at once, without clones: X(name, suffix, since, params). Each has a function
 * in launch.c. */
#define FM_CUDA_MULTIS(X) \
	X(cuLaunchCooperativeKernelMultiDevice, , 9000, \
		(struct CUDA_LAUNCH_PARAMS_st *list, unsigned n, unsigned flags))

/* As FM_CUDA_LAUNCHES, and besides remember what the event stands behind. */
#define FM_CUDA_RECORDS(X) \
	X(cuEventRecord, , ptsz, 2000, stream, 0, 0, 0, \
		(CUevent event, CUstream stream), \
		(event, stream)) \
	X(cuEventRecordWithFlags, , ptsz, 11010, stream, 0, 0, 0, \
		(CUevent event, CUstream stream, unsigned flags), \
		(event, stream, flags))

/* The same, and besides count graphs that are long and hold no gates. */
#define FM_CUDA_GRAPHS(X) \
	X(cuGraphLaunch, , ptsz, 10000, stream, 1, 0, (uintptr_t)graph | 1, \
		(CUgraphExec graph, CUstream stream), \
		(graph, stream))

/* Other calls with clones: F(name, suffix, clone, since, what for, params, args). Each has a
 * function in stream.c or graph.c. */
#define FM_CUDA_STREAM_CALLS(F) \
	F(cuStreamSynchronize, , ptsz, 2000, "learns that the stream is idle", (CUstream stream), (stream)) \
	F(cuStreamQuery, , ptsz, 2000, "learns that the stream is idle", (CUstream stream), (stream)) \
	F(cuStreamBeginCapture, , ptsz, 10000, "stands back while a graph is captured", (CUstream stream), (stream)) \
	F(cuStreamBeginCapture, _v2, ptsz, 10010, "stands back while a graph is captured", (CUstream stream, unsigned mode), (stream, mode)) \
	F(cuStreamBeginCaptureToGraph, , ptsz, 12030, "stands back while a graph is captured", \
		(CUstream stream, CUgraph graph, const CUgraphNode *deps, const struct CUgraphEdgeData_st *data, size_t n, unsigned mode), \
		(stream, graph, deps, data, n, mode)) \
	F(cuStreamBeginRecaptureToGraph, , ptsz, 13030, "stands back while a graph is captured", \
		(CUstream stream, unsigned mode, CUgraph graph, void (*differs)(void), void *user), \
		(stream, mode, graph, differs, user)) \
	F(cuStreamBeginCaptureToCig, , ptsz, 13010, "stands back while commands are captured", \
		(CUstream stream, struct CUstreamCigCaptureParams_st *how), (stream, how)) \
	F(cuStreamEndCaptureToCig, , ptsz, 13010, "they are captured", (CUstream stream), (stream)) \
	F(cuStreamEndCapture, , ptsz, 10000, "the graph is captured", (CUstream stream, CUgraph *graph), (stream, graph)) \
	F(cuGraphUpload, , ptsz, 11010, "uploads what is launched", (CUgraphExec graph, CUstream stream), (graph, stream)) \
	F(cuGraphInstantiateWithParams, , ptsz, 12000, "knows whether the graph holds gates", \
		(CUgraphExec *exec, CUgraph graph, struct CUDA_GRAPH_INSTANTIATE_PARAMS_st *how), (exec, graph, how))

/* Other calls, without clones: F(name, suffix, since, what for, params). */
#define FM_CUDA_OTHER_CALLS(F) \
	F(cuGetProcAddress, , 11030, "hands out the shim's functions", \
		(const char *name, void **fn, int version, uint64_t flags)) \
	F(cuGetProcAddress, _v2, 12000, "hands out the shim's functions", \
		(const char *name, void **fn, int version, uint64_t flags, unsigned *status)) \
	F(cuStreamCreate, , 2000, "follows the stream's life", (CUstream *stream, unsigned flags)) \
	F(cuStreamCreateWithPriority, , 5050, "follows the stream's life", (CUstream *stream, unsigned flags, int priority)) \
	F(cuGreenCtxStreamCreate, , 12050, "follows the stream's life", (CUstream *stream, CUgreenCtx ctx, unsigned flags, int priority)) \
	F(cuStreamDestroy, , 2000, "follows the stream's life", (CUstream stream)) \
	F(cuStreamDestroy, _v2, 4000, "follows the stream's life", (CUstream stream)) \
	F(cuCtxCreate, , 2000, "knows which contexts are current", (CUcontext *ctx, unsigned flags, CUdevice dev)) \
	F(cuCtxCreate, _v2, 3020, "knows which contexts are current", (CUcontext *ctx, unsigned flags, CUdevice dev)) \
	F(cuCtxCreate, _v3, 11040, "knows which contexts are current", \
		(CUcontext *ctx, struct CUexecAffinityParam_st *affinity, int n, unsigned flags, CUdevice dev)) \
	F(cuCtxCreate, _v4, 12050, "knows which contexts are current", \
		(CUcontext *ctx, struct CUctxCreateParams_st *how, unsigned flags, CUdevice dev)) \
	F(cuGLCtxCreate, , 2000, "knows which contexts are current", (CUcontext *ctx, unsigned flags, CUdevice dev)) \
	F(cuGLCtxCreate, _v2, 3020, "knows which contexts are current", (CUcontext *ctx, unsigned flags, CUdevice dev)) \
	F(cuVDPAUCtxCreate, , 3010, "knows which contexts are current", \
		(CUcontext *ctx, unsigned flags, CUdevice dev, uint32_t vdp, void *get)) \
	F(cuVDPAUCtxCreate, _v2, 3020, "knows which contexts are current", \
		(CUcontext *ctx, unsigned flags, CUdevice dev, uint32_t vdp, void *get)) \
	F(cuCtxSetCurrent, , 4000, "knows which contexts are current", (CUcontext ctx)) \
	F(cuCtxPushCurrent, , 2000, "knows which contexts are current", (CUcontext ctx)) \
	F(cuCtxPushCurrent, _v2, 4000, "knows which contexts are current", (CUcontext ctx)) \
	F(cuCtxAttach, , 2000, "follows the context's life", (CUcontext *ctx, unsigned flags)) \
	F(cuCtxDetach, , 2000, "follows the context's life", (CUcontext ctx)) \
	F(cuCtxDestroy, , 2000, "follows the context's life", (CUcontext ctx)) \
	F(cuCtxDestroy, _v2, 4000, "follows the context's life", (CUcontext ctx)) \
	F(cuDevicePrimaryCtxRetain, , 7000, "follows the context's life", (CUcontext *ctx, CUdevice dev)) \
	F(cuDevicePrimaryCtxRelease, , 7000, "follows the context's life", (CUdevice dev)) \
	F(cuDevicePrimaryCtxRelease, _v2, 11000, "follows the context's life", (CUdevice dev)) \
	F(cuDevicePrimaryCtxReset, , 7000, "follows the context's life", (CUdevice dev)) \
	F(cuDevicePrimaryCtxReset, _v2, 11000, "follows the context's life", (CUdevice dev)) \
	F(cuGreenCtxDestroy, , 12040, "follows the context's life", (CUgreenCtx ctx)) \
	F(cuCtxSynchronize, , 2000, "learns that all streams are idle", (void)) \
	F(cuCtxSynchronize, _v2, 13000, "learns that all streams are idle", (CUcontext ctx)) \
	F(cuGraphCreate, , 10000, "knows whether the graph holds gates", (CUgraph *graph, unsigned flags)) \
	F(cuGraphClone, , 10000, "knows whether the graph holds gates", (CUgraph *graph, CUgraph from)) \
	F(cuGraphAddChildGraphNode, , 10000, "knows whether the graph holds gates", \
		(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n, CUgraph child)) \
	F(cuGraphAddEventRecordNode, , 11010, "knows that graphs record events", \
		(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n, CUevent event)) \
	F(cuGraphAddNode, , 12020, "knows whether the graph holds gates", \
		(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n, struct CUgraphNodeParams_st *what)) \
	F(cuGraphAddNode, _v2, 12030, "knows whether the graph holds gates", \
		(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, const struct CUgraphEdgeData_st *data, size_t n, struct CUgraphNodeParams_st *what)) \
	F(cuGraphDestroy, , 10000, "follows the graph's life", (CUgraph graph)) \
	F(cuGraphRetainUserObject, , 11030, "knows that graphs keep objects of the program's", \
		(CUgraph graph, CUuserObject object, unsigned count, unsigned flags)) \
	F(cuGraphInstantiate, , 10000, "knows whether the graph holds gates", \
		(CUgraphExec *exec, CUgraph graph, CUgraphNode *node, char *log, size_t size)) \
	F(cuGraphInstantiate, _v2, 11000, "knows whether the graph holds gates", \
		(CUgraphExec *exec, CUgraph graph, CUgraphNode *node, char *log, size_t size)) \
	F(cuGraphInstantiateWithFlags, , 11040, "knows whether the graph holds gates", \
		(CUgraphExec *exec, CUgraph graph, unsigned long long flags)) \
	F(cuGraphExecChildGraphNodeSetParams, , 11010, "knows whether the graph holds gates", \
		(CUgraphExec exec, CUgraphNode node, CUgraph child)) \
	F(cuGraphExecNodeSetParams, , 12020, "knows whether the graph holds gates; adds the shim's parameters", \
		(CUgraphExec exec, CUgraphNode node, struct CUgraphNodeParams_st *what)) \
	F(cuGraphExecUpdate, , 10020, "knows whether the graph holds gates", \
		(CUgraphExec exec, CUgraph graph, CUgraphNode *node, int *result)) \
	F(cuGraphExecUpdate, _v2, 12000, "knows whether the graph holds gates", \
		(CUgraphExec exec, CUgraph graph, struct CUgraphExecUpdateResultInfo_st *result)) \
	F(cuGraphExecDestroy, , 10000, "follows the graph's life", (CUgraphExec exec)) \
	F(cuEventSynchronize, , 2000, "learns what the event stands behind", (CUevent event)) \
	F(cuEventQuery, , 2000, "learns what the event stands behind", (CUevent event)) \
	F(cuEventDestroy, , 2000, "follows the event's life", (CUevent event)) \
	F(cuEventDestroy, _v2, 4000, "follows the event's life", (CUevent event)) \
	F(cuCtxRecordEvent, , 12050, "follows the event's life", (CUcontext ctx, CUevent event)) \
	F(cuGreenCtxRecordEvent, , 12040, "follows the event's life", (CUgreenCtx ctx, CUevent event))

/* What loads code, gives its functions, and gives them parameters elsewhere than in a launch: of
 * use only where images are rewritten (modules.c, nodes.c). As the table above. */
#define FM_CUDA_CODE_CALLS(F) \
	F(cuMemFree, , 2000, "waits for guarded launches", (CUdeviceptr_v1 ptr)) \
	F(cuMemFree, _v2, 3020, "waits for guarded launches", (CUdeviceptr ptr)) \
	F(cuMemFreeHost, , 2000, "waits for guarded launches", (void *ptr)) \
	F(cuMemHostUnregister, , 4000, "waits for guarded launches", (void *ptr)) \
	F(cuArrayDestroy, , 2000, "waits for guarded launches", (CUarray array)) \
	F(cuMipmappedArrayDestroy, , 5000, "waits for guarded launches", (struct CUmipmappedArray_st *array)) \
	F(cuModuleLoad, , 2000, "rewrites the image", (CUmodule *module, const char *path)) \
	F(cuModuleLoadData, , 2000, "rewrites the image", (CUmodule *module, const void *image)) \
	F(cuModuleLoadDataEx, , 2010, "rewrites the image", \
		(CUmodule *module, const void *image, unsigned n, int *options, void **values)) \
	F(cuModuleLoadFatBinary, , 2000, "rewrites the image", (CUmodule *module, const void *image)) \
	F(cuModuleUnload, , 2000, "follows the module's life", (CUmodule module)) \
	F(cuModuleGetFunction, , 2000, "knows rewritten kernels", (CUfunction *f, CUmodule module, const char *name)) \
	F(cuModuleEnumerateFunctions, , 12040, "knows rewritten kernels", (CUfunction *f, unsigned n, CUmodule module)) \
	F(cuLibraryLoadData, , 12000, "rewrites the image", \
		(CUlibrary *library, const void *image, int *jit, void **jit_values, unsigned n_jit, int *options, void **values, unsigned n)) \
	F(cuLibraryLoadFromFile, , 12000, "rewrites the image", \
		(CUlibrary *library, const char *path, int *jit, void **jit_values, unsigned n_jit, int *options, void **values, unsigned n)) \
	F(cuLibraryUnload, , 12000, "follows the library's life", (CUlibrary library)) \
	F(cuLibraryGetKernel, , 12000, "knows rewritten kernels", (CUkernel *k, CUlibrary library, const char *name)) \
	F(cuLibraryEnumerateKernels, , 12040, "knows rewritten kernels", (CUkernel *k, unsigned n, CUlibrary library)) \
	F(cuLibraryGetModule, , 12000, "knows rewritten kernels", (CUmodule *module, CUlibrary library)) \
	F(cuKernelGetFunction, , 12000, "knows rewritten kernels", (CUfunction *f, CUkernel k)) \
	F(cuFuncGetParamInfo, , 12040, "hides the shim's parameters", (CUfunction f, size_t i, size_t *at, size_t *size)) \
	F(cuFuncGetParamCount, , 13020, "hides the shim's parameters", (CUfunction f, size_t *n)) \
	F(cuKernelGetParamInfo, , 12040, "hides the shim's parameters", (CUkernel k, size_t i, size_t *at, size_t *size)) \
	F(cuKernelGetParamCount, , 13020, "hides the shim's parameters", (CUkernel k, size_t *n)) \
	F(cuGraphAddKernelNode, , 10000, "adds the shim's parameters", \
		(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n, const struct CUDA_KERNEL_NODE_PARAMS_st *what)) \
	F(cuGraphAddKernelNode, _v2, 12000, "adds the shim's parameters", \
		(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n, const struct CUDA_KERNEL_NODE_PARAMS_v2_st *what)) \
	F(cuGraphKernelNodeSetParams, , 10000, "adds the shim's parameters", \
		(CUgraphNode node, const struct CUDA_KERNEL_NODE_PARAMS_st *what)) \
	F(cuGraphKernelNodeSetParams, _v2, 12000, "adds the shim's parameters", \
		(CUgraphNode node, const struct CUDA_KERNEL_NODE_PARAMS_v2_st *what)) \
	F(cuGraphExecKernelNodeSetParams, , 10010, "adds the shim's parameters", \
		(CUgraphExec exec, CUgraphNode node, const struct CUDA_KERNEL_NODE_PARAMS_st *what)) \
	F(cuGraphExecKernelNodeSetParams, _v2, 12000, "adds the shim's parameters", \
		(CUgraphExec exec, CUgraphNode node, const struct CUDA_KERNEL_NODE_PARAMS_v2_st *what)) \
	F(cuCtxGetStreamPriorityRange, , 5050, "keeps the highest for the shim", (int *least, int *greatest)) \
	F(cuGraphExecMemcpyNodeSetParams, , 10020, "follows what is guarded", \
		(CUgraphExec exec, CUgraphNode node, const struct CUDA_MEMCPY3D_st *what, CUcontext ctx)) \
	F(cuGraphExecMemsetNodeSetParams, , 10020, "follows what is guarded", \
		(CUgraphExec exec, CUgraphNode node, const struct CUDA_MEMSET_NODE_PARAMS_st *what, CUcontext ctx)) \
	F(cuGraphExecHostNodeSetParams, , 10020, "follows what is guarded", \
		(CUgraphExec exec, CUgraphNode node, const struct CUDA_HOST_NODE_PARAMS_st *what)) \
	F(cuGraphExecBatchMemOpNodeSetParams, , 11070, "follows what is guarded", \
		(CUgraphExec exec, CUgraphNode node, const struct fm_cu_words_node *what)) \
	F(cuGraphNodeSetEnabled, , 11060, "follows what is guarded", (CUgraphExec exec, CUgraphNode node, unsigned enabled)) \
	F(cuGraphNodeSetParams, , 12020, "adds the shim's parameters", (CUgraphNode node, struct CUgraphNodeParams_st *what))

/* What may load code, and wait for the device in that: likewise. F(name, suffix, since, what for,
 * whose code (NULL: nobody knows), params, args). Each has a function in first.c. */
#define FM_CUDA_LOAD_CALLS(F) \
	F(cuFuncGetAttribute, , 2020, "may load a function", f, (int *value, int which, CUfunction f), (value, which, f)) \
	F(cuFuncSetAttribute, , 9000, "may load a function", f, (CUfunction f, int which, int value), (f, which, value)) \
	F(cuFuncSetCacheConfig, , 3000, "may load a function", f, (CUfunction f, int config), (f, config)) \
	F(cuFuncSetSharedMemConfig, , 4020, "may load a function", f, (CUfunction f, int config), (f, config)) \
	F(cuFuncLoad, , 12040, "loads a function", f, (CUfunction f), (f)) \
	F(cuKernelGetAttribute, , 12000, "may load a function", k, \
		(int *value, int which, CUkernel k, CUdevice dev), (value, which, k, dev)) \
	F(cuKernelSetAttribute, , 12000, "may load a function", k, \
		(int which, int value, CUkernel k, CUdevice dev), (which, value, k, dev)) \
	F(cuKernelSetCacheConfig, , 12000, "may load a function", k, (CUkernel k, int config, CUdevice dev), (k, config, dev)) \
	F(cuOccupancyMaxActiveBlocksPerMultiprocessor, , 6050, "may load a function", f, \
		(int *n, CUfunction f, int threads, size_t shared), (n, f, threads, shared)) \
	F(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, , 7000, "may load a function", f, \
		(int *n, CUfunction f, int threads, size_t shared, unsigned flags), (n, f, threads, shared, flags)) \
	F(cuOccupancyMaxPotentialBlockSize, , 6050, "may load a function", f, \
		(int *grid, int *block, CUfunction f, size_t (*shared_of)(int threads), size_t shared, int most), \
		(grid, block, f, shared_of, shared, most)) \
	F(cuOccupancyMaxPotentialBlockSizeWithFlags, , 7000, "may load a function", f, \
		(int *grid, int *block, CUfunction f, size_t (*shared_of)(int threads), size_t shared, int most, unsigned flags), \
		(grid, block, f, shared_of, shared, most, flags)) \
	F(cuOccupancyAvailableDynamicSMemPerBlock, , 10020, "may load a function", f, \
		(size_t *bytes, CUfunction f, int blocks, int threads), (bytes, f, blocks, threads)) \
	F(cuOccupancyMaxPotentialClusterSize, , 11070, "may load a function", f, \
		(int *n, CUfunction f, const struct CUlaunchConfig_st *config), (n, f, config)) \
	F(cuOccupancyMaxActiveClusters, , 11070, "may load a function", f, \
		(int *n, CUfunction f, const struct CUlaunchConfig_st *config), (n, f, config)) \
	F(cuModuleGetGlobal, , 2000, "may load a module", NULL, \
		(CUdeviceptr_v1 *at, unsigned *size, CUmodule module, const char *name), (at, size, module, name)) \
	F(cuModuleGetGlobal, _v2, 3020, "may load a module", NULL, \
		(CUdeviceptr *at, size_t *size, CUmodule module, const char *name), (at, size, module, name)) \
	F(cuModuleGetTexRef, , 2000, "may load a module", NULL, \
		(CUtexref *texture, CUmodule module, const char *name), (texture, module, name)) \
	F(cuModuleGetSurfRef, , 3000, "may load a module", NULL, \
		(CUsurfref *surface, CUmodule module, const char *name), (surface, module, name)) \
	F(cuLibraryGetGlobal, , 12000, "may load a module", NULL, \
		(CUdeviceptr *at, size_t *size, CUlibrary library, const char *name), (at, size, library, name)) \
	F(cuLibraryGetManaged, , 12000, "may load a module", NULL, \
		(CUdeviceptr *at, size_t *size, CUlibrary library, const char *name), (at, size, library, name)) \
	F(cuLibraryGetUnifiedFunction, , 12000, "may load a module", NULL, \
		(void **fn, CUlibrary library, const char *name), (fn, library, name))
/* clang-format on */
