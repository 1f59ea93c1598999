/* SPDX-License-Identifier: Apache-2.0 */
/* AscendCL's types as its binary interface has them, and the functions that we call ourselves. By
 * the reference of its API (https://gitcode.com/cann/runtime, docs/zh/api_ref). No header of CANN
 * is needed. */
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef int aclError;
typedef void *aclrtStream;
typedef void *aclrtEvent;
typedef void *aclrtContext;
typedef void *aclrtNotify;
typedef void *aclrtCntNotify;
typedef void *aclrtFuncHandle;
typedef void *aclrtArgsHandle;
typedef void *aclmdlRI;
typedef void *aclrtMemPool;
typedef void (*fm_acl_fn)(void *arg);
typedef uint16_t aclFloat16;
typedef struct aclOpExecutor aclOpExecutor;
typedef struct aclrtLaunchKernelCfg aclrtLaunchKernelCfg;
typedef struct aclrtPlaceHolderInfo aclrtPlaceHolderInfo;
typedef struct aclrtMemcpyBatchAttr aclrtMemcpyBatchAttr;
typedef struct aclrtRandomNumTaskInfo aclrtRandomNumTaskInfo;
typedef struct aclrtTaskUpdateInfo aclrtTaskUpdateInfo;
typedef struct aclrtCntNotifyRecordInfo aclrtCntNotifyRecordInfo;
typedef struct aclrtCntNotifyWaitInfo aclrtCntNotifyWaitInfo;
typedef struct aclrtStreamConfigHandle aclrtStreamConfigHandle;
typedef struct aclrtBarrierTaskInfo aclrtBarrierTaskInfo;
typedef struct aclmdlDataset aclmdlDataset;
typedef struct aclmdlExecConfigHandle aclmdlExecConfigHandle;
typedef struct aclopHandle aclopHandle;
typedef struct aclopAttr aclopAttr;
typedef struct aclTensorDesc aclTensorDesc;
typedef struct aclDataBuffer aclDataBuffer;

/* dim3 */
struct fm_acl_dim3 {
	uint32_t x, y, z;
};

/* aclrtMemManagedLocation */
struct fm_acl_location {
	int type;
	int32_t id;
};

enum {
	FM_ACL_SUCCESS = 0,
	FM_ACL_UNINITIALIZED = 100001, /* ACL_ERROR_UNINITIALIZE */
	FM_ACL_EVENT_NOT_READY = 0,    /* ACL_EVENT_RECORDED_STATUS_NOT_READY */
	FM_ACL_EVENT_OF_PROGRESS = 2,  /* ACL_EVENT_CAPTURE_STREAM_PROGRESS */
	FM_ACL_STREAM_COMPLETE = 0,    /* ACL_STREAM_STATUS_COMPLETE */
	FM_ACL_STREAM_NOT_READY = 1,   /* ACL_STREAM_STATUS_NOT_READY */
	FM_ACL_STREAM_IS_NO_QUEUE =
		0x34u,        /* ACL_STREAM_PERSISTENT, _CPU_SCHEDULE, _DEVICE_USE_ONLY:
				 what is put there does not run, or not for us */
	FM_ACL_OF_THREAD = 0, /* ACL_RT_THREAD_LEVEL */
};
/* In the place of the stream of calls that have none: they wait for what they begin. */
#define FM_ACL_NO_STREAM ((aclrtStream)(uintptr_t)-1)

/* X(name here, symbol, parameters): what even level 1 needs, and what older libraries do not have.
 */
#define FM_ACL_NEEDED(X)                                                                  \
	X(get_context, "aclrtGetCurrentContext", (aclrtContext * context))                \
	X(set_context, "aclrtSetCurrentContext", (aclrtContext context))                  \
	X(get_device, "aclrtGetDevice", (int32_t * device))                               \
	X(stream_synchronize, "aclrtSynchronizeStream", (aclrtStream stream))             \
	X(event_create, "aclrtCreateEventWithFlag", (aclrtEvent * event, uint32_t flags)) \
	X(event_destroy, "aclrtDestroyEvent", (aclrtEvent event))                         \
	X(event_record, "aclrtRecordEvent", (aclrtEvent event, aclrtStream stream))       \
	X(event_status, "aclrtQueryEventStatus", (aclrtEvent event, int *status))
#define FM_ACL_WANTED(X)                                                                  \
	X(default_stream, "aclrtCtxGetCurrentDefaultStream", (aclrtStream * stream))      \
	X(stream_flags, "aclrtStreamGetFlags", (aclrtStream stream, uint32_t * flags))    \
	X(capture_info, "aclmdlRICaptureGetInfo",                                         \
		(aclrtStream stream, int *status, aclmdlRI *model))                       \
	X(peek_error, "aclrtPeekAtLastError", (int level))                                \
	X(take_error, "aclrtGetLastError", (int level))                                   \
	X(device_pci, "aclrtDeviceGetPCIBusId", (int32_t device, char *id, int32_t size)) \
	X(device_number, "aclrtGetPhyDevIdByUserDevId", (int32_t device, int32_t * number))
#define FM_ACL_DRIVER(X) FM_ACL_NEEDED(X) FM_ACL_WANTED(X)

struct fm_acl_driver {
#define MEMBER(name, symbol, params) aclError(*name) params;
	FM_ACL_DRIVER(MEMBER)
#undef MEMBER
	const char *(*soc_name)(void); /* aclrtGetSocName */
};
