/* SPDX-License-Identifier: Apache-2.0 */
/*
 * VPI's types, and the functions of its library that Fermata calls itself, by its documentation
 * (https://docs.nvidia.com/vpi/). Handles have the names that its headers give them, so that
 * parameters can be compared.
 *
 * Owns: nothing.
 * Locks: none.
 * Threads: any.
 */
#pragma once
#include "api/own.h"
#include <stdbool.h>
#include <stdint.h>

/* The newest first; the last is of those who build. */
#define FM_VPI_LIBRARIES \
	"libnvvpi.so.4", "libnvvpi.so.3", "libnvvpi.so.2", "libnvvpi.so.1", "libnvvpi.so"

/* Streams of a machine share its vision engines, and no call says which one runs a command. */
#define FM_VPI_DEVICE "NVIDIA VPI"

typedef int VPIStatus;
typedef int VPIEnum; /* any enumeration */
typedef struct VPIStreamImpl *VPIStream;
typedef struct VPIEventImpl *VPIEvent;
typedef struct VPIContextImpl *VPIContext;
typedef struct VPIImageImpl *VPIImage;
typedef struct VPIArrayImpl *VPIArray;
typedef struct VPIPyramidImpl *VPIPyramid;
typedef struct VPIPayloadImpl *VPIPayload;
typedef struct CUstream_st *VPICUDAStream;
typedef void (*VPICUDAHostFunction)(VPICUDAStream stream, void *data);
/* What a parameter becomes that is an array of 3 or 2 times 3 numbers. */
typedef const float (*VPITransformArg)[3];
typedef const float (*VPIIntrinsicArg)[3];

enum { FM_VPI_SUCCESS = 0, FM_VPI_NOT_IMPLEMENTED = 1 };
enum { FM_VPI_EVENT_NOT_SIGNALED = 0 };

/* X(name, symbol, parameters): what even level 1 needs, and the rest. */
#define FM_VPI_NEEDED(X)                                                      \
	X(stream_sync, "vpiStreamSync", (VPIStream stream))                   \
	X(event_create, "vpiEventCreate", (uint64_t flags, VPIEvent * event)) \
	X(event_record, "vpiEventRecord", (VPIEvent event, VPIStream stream)) \
	X(event_query, "vpiEventQuery", (VPIEvent event, VPIEnum * state))    \
	X(context_current, "vpiContextGetCurrent", (VPIContext * context))    \
	X(context_push, "vpiContextPush", (VPIContext context))               \
	X(context_pop, "vpiContextPop", (VPIContext * context))
#define FM_VPI_WANTED(X)                              \
	X(status_peek, "vpiPeekAtLastStatus", (void)) \
	X(status_take, "vpiGetLastStatus", (void))
#define FM_VPI_DRIVER(X) FM_VPI_NEEDED(X) FM_VPI_WANTED(X)

struct fm_vpi_driver {
#define MEMBER(name, symbol, params) VPIStatus(*name) params;
	FM_VPI_DRIVER(MEMBER)
#undef MEMBER
	void (*event_destroy)(VPIEvent event); /* vpiEventDestroy, which is needed, too */
};

extern const struct fm_owns fm_vpi_owns;
