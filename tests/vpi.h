/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of VPI's API that the tests use, as its documentation has it
 * (https://docs.nvidia.com/vpi/): what the fake library (fakes/vpi) exports and what the programs
 * call. X(what it returns, symbol, parameters)
 */
#pragma once
#include <stdint.h>

#ifndef VPI_EXPORT
#define VPI_EXPORT
#endif

typedef int VPIStatus;
typedef struct VPIStreamImpl *VPIStream;
typedef struct VPIEventImpl *VPIEvent;
typedef struct VPIContextImpl *VPIContext;
typedef struct VPIImageImpl *VPIImage;
typedef struct VPIPayloadImpl *VPIPayload;
typedef void (*VPIHostFunction)(void *data);
typedef VPIStatus (*VPIHostFunctionEx)(VPIStream stream, VPIStatus status, void *data);
typedef void (*VPICUDAHostFunction)(void *cuda, void *data);

enum {
	VPI_SUCCESS = 0,
	VPI_NOT_IMPLEMENTED = 1,
	VPI_INVALID_ARGUMENT = 2,
	VPI_INVALID_OPERATION = 6,
	VPI_INVALID_CONTEXT = 7,
};
enum { VPI_CPU = 1, VPI_CUDA = 2, VPI_PVA = 4, VPI_VIC = 8, VPI_OFA = 32 };
enum { VPI_NOT_SIGNALED, VPI_SIGNALED };

/* clang-format off */
#define VPI_API(X) \
	X(VPIStatus, vpiGetLastStatus, (void)) \
	X(VPIStatus, vpiPeekAtLastStatus, (void)) \
	X(VPIStatus, vpiContextCreate, (uint64_t flags, VPIContext *context)) \
	X(void, vpiContextDestroy, (VPIContext context)) \
	X(VPIStatus, vpiContextGetCurrent, (VPIContext *context)) \
	X(VPIStatus, vpiContextSetCurrent, (VPIContext context)) \
	X(VPIStatus, vpiContextPush, (VPIContext context)) \
	X(VPIStatus, vpiContextPop, (VPIContext *context)) \
	X(VPIStatus, vpiStreamCreate, (uint64_t flags, VPIStream *stream)) \
	X(void, vpiStreamDestroy, (VPIStream stream)) \
	X(VPIStatus, vpiStreamFlush, (VPIStream stream)) \
	X(VPIStatus, vpiStreamSync, (VPIStream stream)) \
	X(VPIStatus, vpiStreamWaitEvent, (VPIStream stream, VPIEvent event)) \
	X(VPIStatus, vpiEventCreate, (uint64_t flags, VPIEvent *event)) \
	X(void, vpiEventDestroy, (VPIEvent event)) \
	X(VPIStatus, vpiEventRecord, (VPIEvent event, VPIStream stream)) \
	X(VPIStatus, vpiEventSync, (VPIEvent event)) \
	X(VPIStatus, vpiEventQuery, (VPIEvent event, int *state)) \
	X(VPIStatus, vpiImageCreate, (int32_t width, int32_t height, uint64_t format, uint64_t flags, VPIImage *image)) \
	X(void, vpiImageDestroy, (VPIImage image)) \
	X(VPIStatus, vpiCreateEqualizeHist, (uint64_t backends, uint64_t format, VPIPayload *payload)) \
	X(void, vpiPayloadDestroy, (VPIPayload payload)) \
	X(VPIStatus, vpiSubmitHostFunction, (VPIStream stream, VPIHostFunction fn, void *data)) \
	X(VPIStatus, vpiSubmitHostFunctionEx, (VPIStream stream, VPIHostFunctionEx fn, void *data)) \
	X(VPIStatus, vpiSubmitCUDAHostFunction, (VPIStream stream, VPICUDAHostFunction fn, void *data)) \
	X(VPIStatus, vpiSubmitBoxFilter, (VPIStream stream, uint64_t backend, VPIImage in, VPIImage out, int32_t width, int32_t height, int border)) \
	X(VPIStatus, vpiSubmitGaussianFilter, (VPIStream stream, uint64_t backend, VPIImage in, VPIImage out, int32_t width, int32_t height, float x, float y, int border)) \
	X(VPIStatus, vpiSubmitConvertImageFormat, (VPIStream stream, uint64_t backend, VPIImage in, VPIImage out, const void *params)) \
	X(VPIStatus, vpiSubmitEqualizeHist, (VPIStream stream, uint64_t backend, VPIPayload payload, VPIImage in, VPIImage out)) \
	X(VPIStatus, vpiSubmitMixChannels, (VPIStream stream, uint64_t backend, VPIImage *in, int n, VPIImage *out, int m, const int *from, const int *to, int pairs)) \
	X(uint32_t *, vpiFakeWords, (VPIImage image)) /* of the fake's own: what is in it */
/* clang-format on */

#define VPI_DECLARE(result, symbol, params) VPI_EXPORT result symbol params;
VPI_API(VPI_DECLARE)
#undef VPI_DECLARE
