/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA driver API, as far as it is used here, found at run time: no toolkit is needed to build.
 * Errors are texts, as in all of this program: NULL is none, and one stays valid until the calling
 * thread's next.
 */
#pragma once
#include <stddef.h>

typedef struct CUstream_st *CUstream;
typedef struct CUctx_st *CUcontext;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef unsigned long long CUdeviceptr;

enum { STREAM_NON_BLOCKING = 1 };
enum { CAPTURE_MODE_THREAD_LOCAL = 1 };
enum { EVENT_BLOCKING_SYNC = 1, EVENT_DISABLE_TIMING = 2 };
enum { MULTIPROCESSOR_COUNT = 16 };

#define CU_FUNCTIONS(X)                                                                         \
	X(cuInit, (unsigned flags))                                                             \
	X(cuDeviceGet, (int *device, int index))                                                \
	X(cuDeviceGetName, (char *name, int size, int device))                                  \
	X(cuDevicePrimaryCtxRetain, (CUcontext * ctx, int device))                              \
	X(cuCtxSetCurrent, (CUcontext ctx))                                                     \
	X(cuCtxGetStreamPriorityRange, (int *least, int *greatest))                             \
	X(cuDeviceGetAttribute, (int *value, int attribute, int device))                        \
	X(cuModuleLoadData, (CUmodule * module, const void *image))                             \
	X(cuModuleGetFunction, (CUfunction * f, CUmodule module, const char *name))             \
	X(cuMemAlloc_v2, (CUdeviceptr * p, size_t size))                                        \
	X(cuMemFree_v2, (CUdeviceptr p))                                                        \
	X(cuMemHostAlloc, (void **p, size_t size, unsigned flags))                              \
	X(cuMemFreeHost, (void *p))                                                             \
	X(cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t size))                     \
	X(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t size, CUstream s))    \
	X(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t size, CUstream s))          \
	X(cuStreamCreateWithPriority, (CUstream * s, unsigned flags, int priority))             \
	X(cuStreamDestroy_v2, (CUstream s))                                                     \
	X(cuStreamSynchronize, (CUstream s))                                                    \
	X(cuEventCreate, (CUevent * e, unsigned flags))                                         \
	X(cuEventRecord, (CUevent e, CUstream s))                                               \
	X(cuEventSynchronize, (CUevent e))                                                      \
	X(cuEventElapsedTime, (float *ms, CUevent start, CUevent end))                          \
	X(cuFuncGetAttribute, (int *value, int attribute, CUfunction f))                        \
	X(cuOccupancyMaxActiveBlocksPerMultiprocessor,                                          \
		(int *n, CUfunction f, int threads, size_t shared))                             \
	X(cuEventDestroy_v2, (CUevent e))                                                       \
	X(cuStreamBeginCapture_v2, (CUstream s, int mode))                                      \
	X(cuStreamEndCapture, (CUstream s, CUgraph * graph))                                    \
	X(cuGraphInstantiateWithFlags,                                                          \
		(CUgraphExec * exec, CUgraph graph, unsigned long long flags))                  \
	X(cuGraphDestroy, (CUgraph graph))                                                      \
	X(cuGraphExecDestroy, (CUgraphExec exec))                                               \
	X(cuGraphLaunch, (CUgraphExec exec, CUstream s))                                        \
	X(cuGetErrorString, (int error, const char **text))                                     \
	X(cuLaunchKernel,                                                                       \
		(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, \
			unsigned bz, unsigned shared, CUstream s, void **params, void **extra))

struct cu {
#define CU_MEMBER(symbol, params) int(*symbol) params;
	CU_FUNCTIONS(CU_MEMBER)
#undef CU_MEMBER
};
extern struct cu cu;

/* A text for people: printf into the calling thread's own buffer. */
const char *wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *cu_wrong(const char *what, int error);

/* For functions that return a text. */
#define CU(call)                                     \
	do {                                         \
		int rc_ = cu.call;                   \
		if (rc_)                             \
			return cu_wrong(#call, rc_); \
	} while (0)
#define TRY(call)                            \
	do {                                 \
		const char *wrong_ = (call); \
		if (wrong_)                  \
			return wrong_;       \
	} while (0)

/* One device, with its primary context, which becomes current to the calling thread. */
struct device {
	CUcontext ctx;
	int least, greatest; /* priorities of streams */
	int sms;             /* multiprocessors */
	char name[128];
};
const char *driver_load(void);
const char *device_open(struct device *d, int index);
/* For a thread that has not opened it. */
const char *device_use(const struct device *d);
