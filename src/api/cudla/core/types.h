/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuDLA's types, by its documentation (https://docs.nvidia.com/cuda/cudla-api/), as its binary
 * interface has them, with the names that its header gives them.
 *
 * Owns: nothing.
 * Locks: none.
 * Threads: any.
 */
#pragma once
#include <stdint.h>

/* The last is of those who build. */
#define FM_CUDLA_LIBRARIES "libcudla.so.1", "libcudla.so"

typedef int cudlaStatus;
typedef struct cudlaDevHandle_t *cudlaDevHandle;
typedef struct cudlaModule_t *cudlaModule;

typedef struct cudlaTask_t {
	cudlaModule moduleHandle;
	uint64_t *const *outputTensor;
	uint32_t numOutputTensors, numInputTensors;
	const uint64_t *const *inputTensor;
	const void *waitEvents;
	void *signalEvents;
} cudlaTask;

enum { FM_CUDLA_SUCCESS = 0, FM_CUDLA_UNSUPPORTED = 4 };
enum { FM_CUDLA_HYBRID = 0, FM_CUDLA_STANDALONE = 1 }; /* flags of a device */
