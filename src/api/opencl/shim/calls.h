/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every enqueue of OpenCL 3.0 (and of GL and EGL sharing) as one line: X(name, blocks, key, params,
 * args). blocks: does the call return only when its command has finished? key: the kind of command
 * (estimates). From this table come the layer's functions, its dispatch entries and the coverage
 * table of the docs.
 */
#pragma once
#include "api/opencl/opencl.h"
#include <stdint.h>

/* Functions of the program's that calls are given. */
typedef void(CL_CALLBACK *fm_cl_native_fn)(void *);
typedef void(CL_CALLBACK *fm_cl_svm_free_fn)(cl_command_queue, cl_uint, void **, void *);
typedef void(CL_CALLBACK *fm_cl_program_fn)(cl_program, void *);

/* Kinds of command. Copies cost alike by power of two of their size; kernels by kernel and work
 * size. */
static inline uint64_t key_bytes(unsigned op, size_t bytes)
{
	return 0x10000u + op * 64u + (bytes ? 63u - (unsigned)__builtin_clzll(bytes) : 0);
}

static inline uint64_t key_volume(unsigned op, const size_t region[3])
{
	return key_bytes(op, region ? region[0] * region[1] * region[2] : 0);
}

static inline uint64_t key_kernel(cl_kernel k, cl_uint dim, const size_t *global)
{
	uint64_t h = (uintptr_t)k;

	/* More dimensions than there can be: the driver will refuse, and global may hold fewer. */
	for (cl_uint i = 0; global && dim <= 3 && i < dim; i++)
		h = (h ^ global[i]) * UINT64_C(0x9e3779b97f4a7c15);
	return (h ^ h >> 29) | 1u << 31;
}

#define EVENTS     cl_uint n, const cl_event *wait, cl_event *event
#define EVENT_ARGS n, wait, event

/* clang-format off */
#define FM_CL_ENQUEUES(X) \
	X(clEnqueueTask, 0, key_kernel(kernel, 0, NULL), \
		(cl_command_queue queue, cl_kernel kernel, EVENTS), \
		(queue, kernel, EVENT_ARGS)) \
	X(clEnqueueNativeKernel, 0, (uintptr_t)fn | 1, \
		(cl_command_queue queue, void (CL_CALLBACK *fn)(void *), void *args, size_t cb, cl_uint mems, const cl_mem *mem, const void **loc, EVENTS), \
		(queue, fn, args, cb, mems, mem, loc, EVENT_ARGS)) \
	X(clEnqueueReadBuffer, blocking, key_bytes(1, size), \
		(cl_command_queue queue, cl_mem mem, cl_bool blocking, size_t offset, size_t size, void *ptr, EVENTS), \
		(queue, mem, blocking, offset, size, ptr, EVENT_ARGS)) \
	X(clEnqueueWriteBuffer, blocking, key_bytes(2, size), \
		(cl_command_queue queue, cl_mem mem, cl_bool blocking, size_t offset, size_t size, const void *ptr, EVENTS), \
		(queue, mem, blocking, offset, size, ptr, EVENT_ARGS)) \
	X(clEnqueueReadBufferRect, blocking, key_volume(3, region), \
		(cl_command_queue queue, cl_mem mem, cl_bool blocking, const size_t *bo, const size_t *ho, const size_t *region, size_t brp, size_t bsp, size_t hrp, size_t hsp, void *ptr, EVENTS), \
		(queue, mem, blocking, bo, ho, region, brp, bsp, hrp, hsp, ptr, EVENT_ARGS)) \
	X(clEnqueueWriteBufferRect, blocking, key_volume(4, region), \
		(cl_command_queue queue, cl_mem mem, cl_bool blocking, const size_t *bo, const size_t *ho, const size_t *region, size_t brp, size_t bsp, size_t hrp, size_t hsp, const void *ptr, EVENTS), \
		(queue, mem, blocking, bo, ho, region, brp, bsp, hrp, hsp, ptr, EVENT_ARGS)) \
	X(clEnqueueCopyBuffer, 0, key_bytes(5, size), \
		(cl_command_queue queue, cl_mem src, cl_mem dst, size_t so, size_t dof, size_t size, EVENTS), \
		(queue, src, dst, so, dof, size, EVENT_ARGS)) \
	X(clEnqueueCopyBufferRect, 0, key_volume(6, region), \
		(cl_command_queue queue, cl_mem src, cl_mem dst, const size_t *so, const size_t *dof, const size_t *region, size_t srp, size_t ssp, size_t drp, size_t dsp, EVENTS), \
		(queue, src, dst, so, dof, region, srp, ssp, drp, dsp, EVENT_ARGS)) \
	X(clEnqueueFillBuffer, 0, key_bytes(7, size), \
		(cl_command_queue queue, cl_mem mem, const void *pattern, size_t psize, size_t offset, size_t size, EVENTS), \
		(queue, mem, pattern, psize, offset, size, EVENT_ARGS)) \
	X(clEnqueueFillImage, 0, key_volume(8, region), \
		(cl_command_queue queue, cl_mem image, const void *color, const size_t *origin, const size_t *region, EVENTS), \
		(queue, image, color, origin, region, EVENT_ARGS)) \
	X(clEnqueueReadImage, blocking, key_volume(9, region), \
		(cl_command_queue queue, cl_mem image, cl_bool blocking, const size_t *origin, const size_t *region, size_t rp, size_t sp, void *ptr, EVENTS), \
		(queue, image, blocking, origin, region, rp, sp, ptr, EVENT_ARGS)) \
	X(clEnqueueWriteImage, blocking, key_volume(10, region), \
		(cl_command_queue queue, cl_mem image, cl_bool blocking, const size_t *origin, const size_t *region, size_t rp, size_t sp, const void *ptr, EVENTS), \
		(queue, image, blocking, origin, region, rp, sp, ptr, EVENT_ARGS)) \
	X(clEnqueueCopyImage, 0, key_volume(11, region), \
		(cl_command_queue queue, cl_mem src, cl_mem dst, const size_t *so, const size_t *dof, const size_t *region, EVENTS), \
		(queue, src, dst, so, dof, region, EVENT_ARGS)) \
	X(clEnqueueCopyImageToBuffer, 0, key_volume(12, region), \
		(cl_command_queue queue, cl_mem src, cl_mem dst, const size_t *so, const size_t *region, size_t dof, EVENTS), \
		(queue, src, dst, so, region, dof, EVENT_ARGS)) \
	X(clEnqueueCopyBufferToImage, 0, key_volume(13, region), \
		(cl_command_queue queue, cl_mem src, cl_mem dst, size_t so, const size_t *dof, const size_t *region, EVENTS), \
		(queue, src, dst, so, dof, region, EVENT_ARGS)) \
	X(clEnqueueMigrateMemObjects, 0, key_bytes(15, 0), \
		(cl_command_queue queue, cl_uint mems, const cl_mem *mem, cl_mem_migration_flags flags, EVENTS), \
		(queue, mems, mem, flags, EVENT_ARGS)) \
	X(clEnqueueMarkerWithWaitList, 0, key_bytes(16, 0), \
		(cl_command_queue queue, EVENTS), \
		(queue, EVENT_ARGS)) \
	X(clEnqueueMarker, 0, key_bytes(16, 0), \
		(cl_command_queue queue, cl_event *event), \
		(queue, event)) \
	X(clEnqueueSVMFree, 0, key_bytes(17, 0), \
		(cl_command_queue queue, cl_uint ptrs, void *ptr[], void (CL_CALLBACK *fn)(cl_command_queue, cl_uint, void *[], void *), void *user, EVENTS), \
		(queue, ptrs, ptr, fn, user, EVENT_ARGS)) \
	X(clEnqueueSVMMemcpy, blocking, key_bytes(18, size), \
		(cl_command_queue queue, cl_bool blocking, void *dst, const void *src, size_t size, EVENTS), \
		(queue, blocking, dst, src, size, EVENT_ARGS)) \
	X(clEnqueueSVMMemFill, 0, key_bytes(19, size), \
		(cl_command_queue queue, void *ptr, const void *pattern, size_t psize, size_t size, EVENTS), \
		(queue, ptr, pattern, psize, size, EVENT_ARGS)) \
	X(clEnqueueSVMMap, blocking, key_bytes(20, size), \
		(cl_command_queue queue, cl_bool blocking, cl_map_flags flags, void *ptr, size_t size, EVENTS), \
		(queue, blocking, flags, ptr, size, EVENT_ARGS)) \
	X(clEnqueueSVMUnmap, 0, key_bytes(14, 0), \
		(cl_command_queue queue, void *ptr, EVENTS), \
		(queue, ptr, EVENT_ARGS)) \
	X(clEnqueueSVMMigrateMem, 0, key_bytes(15, 0), \
		(cl_command_queue queue, cl_uint ptrs, const void **ptr, const size_t *sizes, cl_mem_migration_flags flags, EVENTS), \
		(queue, ptrs, ptr, sizes, flags, EVENT_ARGS)) \
	X(clEnqueueAcquireGLObjects, 0, key_bytes(21, 0), \
		(cl_command_queue queue, cl_uint mems, const cl_mem *mem, EVENTS), \
		(queue, mems, mem, EVENT_ARGS)) \
	X(clEnqueueReleaseGLObjects, 0, key_bytes(21, 0), \
		(cl_command_queue queue, cl_uint mems, const cl_mem *mem, EVENTS), \
		(queue, mems, mem, EVENT_ARGS)) \
	X(clEnqueueAcquireEGLObjectsKHR, 0, key_bytes(21, 0), \
		(cl_command_queue queue, cl_uint mems, const cl_mem *mem, EVENTS), \
		(queue, mems, mem, EVENT_ARGS)) \
	X(clEnqueueReleaseEGLObjectsKHR, 0, key_bytes(21, 0), \
		(cl_command_queue queue, cl_uint mems, const cl_mem *mem, EVENTS), \
		(queue, mems, mem, EVENT_ARGS))

/* The one that can be stopped in its middle: enqueue.c. */
#define FM_CL_RANGES(X) \
	X(clEnqueueNDRangeKernel, 0, key_kernel(kernel, dim, global), \
		(cl_command_queue queue, cl_kernel kernel, cl_uint dim, const size_t *offset, const size_t *global, const size_t *local, EVENTS), \
		(queue, kernel, dim, offset, global, local, EVENT_ARGS))

/* The one that must not stand behind a closed gate, with some drivers: enqueue.c. */
#define FM_CL_UNMAPS(X) \
	X(clEnqueueUnmapMemObject, 0, key_bytes(14, 0), \
		(cl_command_queue queue, cl_mem mem, void *ptr, EVENTS), \
		(queue, mem, ptr, EVENT_ARGS))

/* Those that order what comes after them, also in a queue that keeps no order by itself: enqueue.c. */
#define FM_CL_BARRIERS(X) \
	X(clEnqueueBarrierWithWaitList, 0, key_bytes(16, 0), \
		(cl_command_queue queue, EVENTS), \
		(queue, EVENT_ARGS)) \
	X(clEnqueueBarrier, 0, key_bytes(16, 0), \
		(cl_command_queue queue), \
		(queue)) \
	X(clEnqueueWaitForEvents, 0, key_bytes(16, 0), \
		(cl_command_queue queue, cl_uint n, const cl_event *wait), \
		(queue, n, wait))

/* Those that return a pointer, and their status through *err. */
#define FM_CL_MAPS(X) \
	X(clEnqueueMapBuffer, blocking, key_bytes(22, size), \
		(cl_command_queue queue, cl_mem mem, cl_bool blocking, cl_map_flags flags, size_t offset, size_t size, EVENTS, cl_int *err), \
		(queue, mem, blocking, flags, offset, size, EVENT_ARGS, err)) \
	X(clEnqueueMapImage, blocking, key_volume(23, region), \
		(cl_command_queue queue, cl_mem image, cl_bool blocking, cl_map_flags flags, const size_t *origin, const size_t *region, size_t *rp, size_t *sp, EVENTS, cl_int *err), \
		(queue, image, blocking, flags, origin, region, rp, sp, EVENT_ARGS, err))
/* clang-format on */

/* Calls about queues and waiting, each with its own function in layer.c, and what it is for. */
#define FM_CL_QUEUE_CALLS(X)                                                    \
	X(clCreateCommandQueue, "makes the XQueue")                             \
	X(clCreateCommandQueueWithProperties, "makes the XQueue (host queues)") \
	X(clRetainCommandQueue, "follows the queue's life")                     \
	X(clReleaseCommandQueue, "follows the queue's life")                    \
	X(clGetCommandQueueInfo, "reports the program's own reference count")   \
	X(clFinish, "learns that the queue is idle")                            \
	X(clWaitForEvents, "learns that a queue may be idle")

/* Likewise, a function for each loader. */
#define FM_CL_LOOK_UPS(X)                                                           \
	X(clGetExtensionFunctionAddress, "counts enqueues that cannot be governed") \
	X(clGetExtensionFunctionAddressForPlatform, "counts enqueues that cannot be governed")

/* Calls about programs and kernels, for level 3. Where that is not wanted they go straight to the
 * driver. */
#define FM_CL_PROGRAM_CALLS(X)                                                                    \
	X(clCreateProgramWithSource, "keeps the source for level 3")                              \
	X(clCreateProgramWithBinary, "finds the source that the binary was made of")              \
	X(clGetProgramInfo, "keeps the source on disk when the program asks for the binary")      \
	X(clCreateProgramWithBuiltInKernels, "kernels stay at level 2")                           \
	X(clCreateProgramWithIL, "kernels stay at level 2")                                       \
	X(clLinkProgram, "kernels stay at level 2")                                               \
	X(clRetainProgram, "follows the program's life")                                          \
	X(clReleaseProgram, "follows the program's life")                                         \
	X(clBuildProgram, "remembers devices and options; builds the rewritten program, too, if " \
			  "files are included")

#define FM_CL_KERNEL_CALLS(X)                                    \
	X(clCreateKernel, "follows the kernel's life")           \
	X(clCreateKernelsInProgram, "follows the kernel's life") \
	X(clCloneKernel, "follows the kernel's life")            \
	X(clRetainKernel, "follows the kernel's life")           \
	X(clReleaseKernel, "follows the kernel's life")          \
	X(clSetKernelArg, "remembers the argument")              \
	X(clSetKernelArgSVMPointer, "remembers the argument")    \
	X(clSetKernelExecInfo, "remembers the setting")
