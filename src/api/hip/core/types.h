/* SPDX-License-Identifier: Apache-2.0 */
/* HIP's types as its binary interface has them, and the functions of the runtime that we call
 * ourselves. No header of ROCm is needed. */
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef int hipError_t;
typedef struct ihipStream_t *hipStream_t;
typedef struct ihipEvent_t *hipEvent_t;
typedef struct ihipModuleSymbol_t *hipFunction_t;
typedef struct ihipGraph *hipGraph_t;
typedef struct hipGraphExec *hipGraphExec_t;
typedef struct hipGraphNode *hipGraphNode_t;
typedef void (*fm_hip_host_fn)(void *arg);
typedef void (*fm_hip_callback)(hipStream_t stream, hipError_t status, void *arg);
struct ihipMemPoolHandle_t;
struct hip_Memcpy2D;
struct hipMemcpy3DParms;
struct HIP_MEMCPY3D;
struct hipGraphEdgeData;
struct hipArray;
struct hipArrayMapInfo;
struct hipExternalSemaphoreSignalParams_st;
struct hipExternalSemaphoreWaitParams_st;
struct _hipGraphicsResource;
union hipStreamBatchMemOpParams_union;
struct fm_hip_peer_copy;       /* hipMemcpy3DPeerParms */
struct fm_hip_batch_copy;      /* hipMemcpy3DBatchOp */
struct fm_hip_copy_attributes; /* hipMemcpyAttributes */

struct fm_hip_dim3 {
	uint32_t x, y, z;
};

/* hipLaunchConfig_t */
struct fm_hip_launch_config {
	struct fm_hip_dim3 grid, block;
	size_t shared;
	hipStream_t stream;
	void *attrs;
	unsigned n_attrs;
};

/* HIP_LAUNCH_CONFIG */
struct fm_hip_drv_launch_config {
	unsigned grid[3], block[3], shared;
	hipStream_t stream;
	void *attrs;
	unsigned n_attrs;
};

/* hipLaunchParams */
struct fm_hip_launch_params {
	void *f;
	struct fm_hip_dim3 grid, block;
	void **args;
	size_t shared;
	hipStream_t stream;
};

/* hipFunctionLaunchParams */
struct fm_hip_function_params {
	hipFunction_t f;
	unsigned grid[3], block[3], shared;
	hipStream_t stream;
	void **params;
};

/* hipGraphInstantiateParams */
struct fm_hip_instantiate {
	hipGraphNode_t failed;
	unsigned long long flags;
	int result;
	hipStream_t stream;
};

/* hipPitchedPtr */
struct fm_hip_pitched {
	void *p;
	size_t pitch, x, y;
};

/* hipExtent */
struct fm_hip_extent {
	size_t width, height, depth;
};

/* hipMemLocation */
struct fm_hip_location {
	int type, id;
};

enum {
	FM_HIP_SUCCESS = 0,
	FM_HIP_NOT_INITIALIZED = 3,
	FM_HIP_NOT_READY = 600,
	FM_HIP_COPY_TO_HOST = 2,        /* hipMemcpyDeviceToHost */
	FM_HIP_STREAM_NON_BLOCKING = 1, /* hipStreamNonBlocking */
	FM_HIP_EVENT_UNTIMED = 2,       /* hipEventDisableTiming */
	FM_HIP_CAPTURE_RELAXED = 2,     /* hipStreamCaptureModeRelaxed */
	FM_HIP_SIGNAL_MEMORY = 2,       /* hipMallocSignalMemory */
	FM_HIP_WAIT_GTE = 0,            /* hipStreamWaitValueGte */
	FM_HIP_CAN_WAIT_VALUE = 10013,  /* hipDeviceAttributeCanUseStreamWaitValue */
	FM_HIP_ROCM_5_6 = 50600000,     /* hipRuntimeGetVersion() */
	FM_HIP_PROC_PER_THREAD = 2,     /* HIP_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM */
};
#define FM_HIP_STREAM_LEGACY     ((hipStream_t)1)
#define FM_HIP_STREAM_PER_THREAD ((hipStream_t)2)

/* X(name here, symbol, parameters): what even level 1 needs, and the rest. */
#define FM_HIP_NEEDED(X)                                                                 \
	X(get_device, "hipGetDevice", (int *device))                                     \
	X(set_device, "hipSetDevice", (int device))                                      \
	X(device_name, "hipDeviceGetName", (char *name, int size, int device))           \
	X(peek_error, "hipPeekAtLastError", (void))                                      \
	X(take_error, "hipGetLastError", (void))                                         \
	X(stream_synchronize, "hipStreamSynchronize", (hipStream_t stream))              \
	X(event_create, "hipEventCreateWithFlags", (hipEvent_t * event, unsigned flags)) \
	X(event_destroy, "hipEventDestroy", (hipEvent_t event))                          \
	X(event_record, "hipEventRecord", (hipEvent_t event, hipStream_t stream))        \
	X(event_query, "hipEventQuery", (hipEvent_t event))
#define FM_HIP_WANTED(X)                                                                       \
	X(device_place, "hipDeviceGetPCIBusId", (char *id, int size, int device))              \
	X(runtime_version, "hipRuntimeGetVersion", (int *version))                             \
	X(device_attribute, "hipDeviceGetAttribute", (int *value, int which, int device))      \
	X(stream_create, "hipStreamCreateWithFlags", (hipStream_t * stream, unsigned flags))   \
	X(stream_destroy, "hipStreamDestroy", (hipStream_t stream))                            \
	X(stream_device, "hipStreamGetDevice", (hipStream_t stream, int *device))              \
	X(stream_query, "hipStreamQuery", (hipStream_t stream))                                \
	X(stream_capturing, "hipStreamIsCapturing", (hipStream_t stream, int *status))         \
	X(capture_mode, "hipThreadExchangeStreamCaptureMode", (int *mode))                     \
	X(malloc_with_flags, "hipExtMallocWithFlags", (void **p, size_t size, unsigned flags)) \
	X(wait_value, "hipStreamWaitValue64",                                                  \
		(hipStream_t stream, void *p, uint64_t value, unsigned how, uint64_t mask))
#define FM_HIP_DRIVER(X) FM_HIP_NEEDED(X) FM_HIP_WANTED(X)

struct fm_hip_driver {
#define MEMBER(name, symbol, params) hipError_t(*name) params;
	FM_HIP_DRIVER(MEMBER)
#undef MEMBER
};
