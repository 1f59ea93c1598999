/* SPDX-License-Identifier: Apache-2.0 */
/* The part of NVML that there is a fake of, as its binary interface has it. */
#pragma once

enum {
	NVML_DONE,
	NVML_UNINITIALIZED,
	NVML_INVALID,
	NVML_NOT_FOUND = 6,
	NVML_TOO_SMALL = 7,
	NVML_OTHER_VERSION = 25
};

struct nvml_memory {
	unsigned long long total, free, used;
};

struct nvml_memory_v2 {
	unsigned version; /* NVML_MEMORY_V2 */
	unsigned long long total, reserved, free, used;
};
#define NVML_MEMORY_V2 ((unsigned)sizeof(struct nvml_memory_v2) | 2u << 24)

struct nvml_process {
	unsigned pid;
	unsigned long long used;
	unsigned instance, compute;
};

typedef struct nvmlDevice_st *nvmlDevice_t;

#ifndef NVML_EXPORT
#define NVML_EXPORT extern
#endif

NVML_EXPORT int nvmlInit_v2(void);
NVML_EXPORT int nvmlInit(void);
NVML_EXPORT int nvmlShutdown(void);
NVML_EXPORT const char *nvmlErrorString(int e);
NVML_EXPORT int nvmlDeviceGetCount_v2(unsigned *n);
NVML_EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *d);
NVML_EXPORT int nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *d);
NVML_EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *d);
NVML_EXPORT int nvmlDeviceGetUUID(nvmlDevice_t d, char *text, unsigned size);
NVML_EXPORT int nvmlDeviceGetMemoryInfo(nvmlDevice_t d, struct nvml_memory *m);
NVML_EXPORT int nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t d, struct nvml_memory_v2 *m);
NVML_EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(
	nvmlDevice_t d, unsigned *n, struct nvml_process *list);
