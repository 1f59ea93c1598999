/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between probe.c (what the driver and its devices can do), probe_sets.c (sets of tasks that decide
 * on the device), probe_guard.c (the guardian) and probe_memory.c (memory that is managed). Besides
 * the lines of doctor/probe.h they write:
 *
 *   {"step":"cuda","version":...,"number":N}        of which version the driver is, or why it does
 *   {"step":"cuda","error":...,"absent":bool,"code":CUresult}                         not start
 *   {"step":"gates","refused":...,"code":CUresult}  why a device has no level 2
 *   {"step":"strict","works":bool,"error":...}      level 2 in strict mode, too?
 *   {"step":"slices","groups":N,"refused":bool}     could time slices be set?
 *   {"step":"partition","error":...,"sms":N,"rest":N}   the smallest partition
 *   {"step":"sets","gates":-errno,"graphs":-errno,"failed":...,"runtime":...,"places":...}
 *                                                   by engine, 0: they decide there; what graphs
 *                                                   have failed at; the device runtime's file, and
 *                                                   where it is looked for
 *   {"step":"shared"}                               its contexts are those of MPS
 *   {"step":"guardian","reason":...,"text":...,"code":CUresult,"blocks":N,"shared":bool}
 *                                                   "guardian": reason: ""; it works
 *   {"step":"cache","error":...}                    "guardian": rewritten kernels on disk
 *   {"step":"vmm","refused":...,"error":...,"code":CUresult,"bytes":N,"unit":N,"addresses":N,
 *    "total":N,"map_ns":N,"unmap_ns":N}             "memory": a chunk; refused: ""; it works
 *   {"step":"copies","refused":...,"error":...,"host":bool,"bytes":N,"in":GB/S,"out":GB/S}
 *                                                   "memory"
 *   {"step":"mapped","refused":...,"error":...,"bytes":N,"out":GB/S}   "memory": of the host
 *   {"step":"digest","refused":...,"wrong":bool}    "memory"
 *   {"step":"nvml","total":N,"used":N,"nvml_used":N,"reserved":N}   "memory": bytes, as CUDA has
 *                                                   them, and as NVML has them
 */
#pragma once
#include "api/cuda/core/driver.h"
#include "base/clock.h"
#include "doctor/probe.h"
#include "tool.h"

#define PROBE_DEVICES   16
#define PROBE_PAGE      4096
#define PROBE_FINISH_NS (5 * FM_S)

#define PROBE_CUDA_FUNCTIONS(X)                                                 \
	X(init, "cuInit", (unsigned flags))                                     \
	X(driver_version, "cuDriverGetVersion", (int *version))                 \
	X(device_count, "cuDeviceGetCount", (int *n))                           \
	X(device_name, "cuDeviceGetName", (char *name, int size, CUdevice d))   \
	X(retain, "cuDevicePrimaryCtxRetain", (CUcontext * ctx, CUdevice d))    \
	X(set_current, "cuCtxSetCurrent", (CUcontext ctx))                      \
	X(stream_create, "cuStreamCreate", (CUstream * stream, unsigned flags)) \
	X(error_name, "cuGetErrorName", (fm_cu_result rc, const char **name))

struct probe_cuda {
	struct fm_cu_driver cu;
#define MEMBER(name, symbol, params) fm_cu_result(*name) params;
	PROBE_CUDA_FUNCTIONS(MEMBER)
#undef MEMBER
};

/* Load the driver; false: told why not. Start it: how many devices; 0: told why. */
bool probe_cuda_load(struct probe_cuda *c, FILE *out);
int probe_cuda_start(struct probe_cuda *c, FILE *out);
void *probe_cuda_symbol(const char *name);
const char *probe_cuda_error(struct probe_cuda *c, fm_cu_result rc);
/* Its primary context, which becomes current, and a stream. */
fm_cu_result probe_cuda_open(struct probe_cuda *c, CUdevice d, CUcontext *ctx, CUstream *stream);
/* Where streams have gates, with the context current. */
void probe_cuda_sets(const struct probe_cuda *c, FILE *out);
