/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of cuDLA's API that the tests use, as its documentation has it
 * (https://docs.nvidia.com/cuda/cudla-api/): what the fake library (fakes/cudla) exports and what
 * the programs call. X(symbol, parameters)
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifndef CUDLA_EXPORT
#define CUDLA_EXPORT
#endif

typedef int cudlaStatus;
typedef struct cudlaDevHandle_t *cudlaDevHandle;
typedef struct cudlaModule_t *cudlaModule;
typedef struct {
	void *fence;
	int type;
} cudla_fence;
typedef struct {
	uint64_t *const *objects;
	cudla_fence *fences;
	uint32_t n;
} cudla_signals;
typedef struct {
	cudlaModule module;
	uint64_t *const *outputs;
	uint32_t n_outputs, n_inputs;
	const uint64_t *const *inputs;
	const void *waits;
	cudla_signals *signals;
} cudla_task;

enum { CUDLA_SUCCESS = 0, CUDLA_INVALID_PARAM = 1, CUDLA_UNSUPPORTED = 4, CUDLA_CUDA_ERROR = 7 };
enum { CUDLA_HYBRID = 0, CUDLA_STANDALONE = 1 };
#define CUDLA_WORDS 64

/* clang-format off */
#define CUDLA_API(X) \
	X(cudlaDeviceGetCount, (uint64_t *n)) \
	X(cudlaCreateDevice, (uint64_t number, cudlaDevHandle *device, uint32_t flags)) \
	X(cudlaDestroyDevice, (cudlaDevHandle device)) \
	X(cudlaModuleLoadFromMemory, (cudlaDevHandle device, const uint8_t *bytes, size_t size, cudlaModule *module, uint32_t flags)) \
	X(cudlaModuleUnload, (cudlaModule module, uint32_t flags)) \
	X(cudlaMemRegister, (cudlaDevHandle device, const uint64_t *p, size_t size, uint64_t **registered, uint32_t flags)) \
	X(cudlaSubmitTask, (cudlaDevHandle device, const cudla_task *tasks, uint32_t n, void *stream, uint32_t flags))
/* clang-format on */

#define CUDLA_DECLARE(symbol, params) CUDLA_EXPORT cudlaStatus symbol params;
CUDLA_API(CUDLA_DECLARE)
#undef CUDLA_DECLARE

/* Of the fake library alone: before it does anything for a task, it calls this. Nonzero: the task
 * is refused. NULL: it calls nothing. */
CUDLA_EXPORT void fake_cudla_inside(int (*inside)(void));
