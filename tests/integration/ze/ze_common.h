/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs of Level Zero share: the loader's functions, linked or by dlsym; a device;
 * queues, lists and kernels of the driver of the tests (tests/fakes/ze). */
#pragma once
#include <dlfcn.h>
#include <level_zero/ze_api.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ZE_CALLS(X)                                   \
	X(zeInit)                                     \
	X(zeDriverGet)                                \
	X(zeDriverGetExtensionFunctionAddress)        \
	X(zeDeviceGet)                                \
	X(zeContextCreate)                            \
	X(zeContextDestroy)                           \
	X(zeCommandQueueCreate)                       \
	X(zeCommandQueueDestroy)                      \
	X(zeCommandQueueExecuteCommandLists)          \
	X(zeCommandQueueSynchronize)                  \
	X(zeCommandListCreate)                        \
	X(zeCommandListCreateImmediate)               \
	X(zeCommandListDestroy)                       \
	X(zeCommandListClose)                         \
	X(zeCommandListReset)                         \
	X(zeCommandListAppendLaunchKernel)            \
	X(zeCommandListAppendLaunchCooperativeKernel) \
	X(zeCommandListAppendMemoryCopy)              \
	X(zeCommandListAppendMemoryFill)              \
	X(zeCommandListAppendMemoryPrefetch)          \
	X(zeCommandListAppendBarrier)                 \
	X(zeCommandListAppendMemoryRangesBarrier)     \
	X(zeCommandListAppendSignalEvent)             \
	X(zeCommandListAppendWaitOnEvents)            \
	X(zeCommandListAppendEventReset)              \
	X(zeCommandListAppendWriteGlobalTimestamp)    \
	X(zeMemAllocShared)                           \
	X(zeMemFree)                                  \
	X(zeModuleCreate)                             \
	X(zeModuleDestroy)                            \
	X(zeKernelCreate)                             \
	X(zeKernelDestroy)                            \
	X(zeKernelSetArgumentValue)                   \
	X(zeKernelSetGroupSize)                       \
	X(zeEventPoolCreate)                          \
	X(zeEventPoolDestroy)                         \
	X(zeEventCreate)                              \
	X(zeEventDestroy)                             \
	X(zeEventHostSignal)                          \
	X(zeEventHostReset)                           \
	X(zeEventHostSynchronize)                     \
	X(zeEventQueryStatus)                         \
	X(zeFenceCreate)                              \
	X(zeFenceDestroy)                             \
	X(zeFenceReset)                               \
	X(zeFenceHostSynchronize)                     \
	X(zeFenceQueryStatus)

static struct {
#define MEMBER(name) __typeof__(name) *name;
	ZE_CALLS(MEMBER)
#undef MEMBER
} ze;

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	exit(1);
}

#define OK(call)                                                                           \
	do {                                                                               \
		ze_result_t ok_ = ze.call;                                                 \
		if (ok_)                                                                   \
			fail("%s:%d: %s: 0x%x", __FILE__, __LINE__, #call, (unsigned)ok_); \
	} while (0)

static inline void load(bool by_dlsym)
{
	void *h = by_dlsym ? dlopen("libze_loader.so.1", RTLD_NOW | RTLD_LOCAL) : NULL;

	if (by_dlsym && !h)
		fail("%s", dlerror());
#define FILL(name) ze.name = h ? (__typeof__(name) *)dlsym(h, #name) : name;
	ZE_CALLS(FILL)
#undef FILL
}

static struct {
	ze_driver_handle_t driver;
	ze_device_handle_t device;
	ze_context_handle_t context;
	ze_module_handle_t module;
	ze_event_pool_handle_t pool;
} gpu;

#define EVENTS 256
static inline void set_up(void)
{
	const ze_context_desc_t context = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
	const ze_module_desc_t module = {.stype = ZE_STRUCTURE_TYPE_MODULE_DESC,
		.format = ZE_MODULE_FORMAT_IL_SPIRV,
		.inputSize = sizeof("kernels"),
		.pInputModule = (const uint8_t *)"kernels"};
	const ze_event_pool_desc_t pool = {.stype = ZE_STRUCTURE_TYPE_EVENT_POOL_DESC,
		.flags = ZE_EVENT_POOL_FLAG_HOST_VISIBLE,
		.count = EVENTS};
	uint32_t one = 1;

	ze.zeInit(0);
	OK(zeDriverGet(&one, &gpu.driver));
	one = 1;
	OK(zeDeviceGet(gpu.driver, &one, &gpu.device));
	OK(zeContextCreate(gpu.driver, &context, &gpu.context));
	OK(zeModuleCreate(gpu.context, gpu.device, &module, &gpu.module, NULL));
	OK(zeEventPoolCreate(gpu.context, &pool, 1, &gpu.device, &gpu.pool));
}

static inline void tear_down(void)
{
	OK(zeEventPoolDestroy(gpu.pool));
	OK(zeModuleDestroy(gpu.module));
	OK(zeContextDestroy(gpu.context));
}

#define ASYNC   ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS
#define SYNC    ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS
#define DEFAULT ZE_COMMAND_QUEUE_MODE_DEFAULT
#define COMPUTE 0u
#define COPIES  1u

static inline ze_command_queue_desc_t queue_desc(ze_command_queue_mode_t mode, uint32_t ordinal)
{
	return (ze_command_queue_desc_t){
		.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC, .ordinal = ordinal, .mode = mode};
}

static inline ze_command_queue_handle_t queue_new(ze_command_queue_mode_t mode, uint32_t ordinal)
{
	const ze_command_queue_desc_t desc = queue_desc(mode, ordinal);
	ze_command_queue_handle_t q;

	OK(zeCommandQueueCreate(gpu.context, gpu.device, &desc, &q));
	return q;
}

static inline ze_command_list_handle_t immediate_new(ze_command_queue_mode_t mode, uint32_t ordinal)
{
	const ze_command_queue_desc_t desc = queue_desc(mode, ordinal);
	ze_command_list_handle_t l;

	OK(zeCommandListCreateImmediate(gpu.context, gpu.device, &desc, &l));
	return l;
}

static inline ze_command_list_handle_t list_new(uint32_t ordinal)
{
	const ze_command_list_desc_t desc = {
		.stype = ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC, .commandQueueGroupOrdinal = ordinal};
	ze_command_list_handle_t l;

	OK(zeCommandListCreate(gpu.context, gpu.device, &desc, &l));
	return l;
}

static inline ze_event_handle_t event_new(uint32_t index)
{
	const ze_event_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_EVENT_DESC,
		.index = index,
		.signal = ZE_EVENT_SCOPE_FLAG_HOST};
	ze_event_handle_t e;

	OK(zeEventCreate(gpu.pool, &desc, &e));
	return e;
}

static inline ze_fence_handle_t fence_new(ze_command_queue_handle_t q)
{
	const ze_fence_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_FENCE_DESC};
	ze_fence_handle_t f;

	OK(zeFenceCreate(q, &desc, &f));
	return f;
}

#define GROUPS 16u
#define WORDS  (64 * GROUPS)
static inline uint32_t *words_new(void)
{
	const ze_device_mem_alloc_desc_t device = {
		.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
	const ze_host_mem_alloc_desc_t host = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
	void *p;

	OK(zeMemAllocShared(gpu.context, &device, &host, WORDS * 4, 64, gpu.device, &p));
	memset(p, 0, WORDS * 4);
	return p;
}

static inline ze_kernel_handle_t kernel_new(const char *name)
{
	const ze_kernel_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_KERNEL_DESC, .pKernelName = name};
	ze_kernel_handle_t k;

	OK(zeKernelCreate(gpu.module, &desc, &k));
	OK(zeKernelSetGroupSize(k, 64, 1, 1));
	return k;
}

/* A kernel of two arguments, behind an event and in front of one. */
static inline void launch(ze_command_list_handle_t l, ze_kernel_handle_t k, void *a, uint64_t b,
	ze_event_handle_t signal, ze_event_handle_t wait)
{
	const ze_group_count_t groups = {GROUPS, 1, 1};

	OK(zeKernelSetArgumentValue(k, 0, 8, &a));
	OK(zeKernelSetArgumentValue(k, 1, 8, &b));
	OK(zeCommandListAppendLaunchKernel(
		l, k, &groups, signal, wait != NULL, wait ? &wait : NULL));
}

static inline void barrier(ze_command_list_handle_t l)
{
	OK(zeCommandListAppendBarrier(l, NULL, 0, NULL));
}

static inline void execute(
	ze_command_queue_handle_t q, ze_command_list_handle_t l, ze_fence_handle_t fence)
{
	OK(zeCommandQueueExecuteCommandLists(q, 1, &l, fence));
}

static inline uint32_t sum(const uint32_t *w)
{
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < WORDS; i++)
		h = (h ^ w[i]) * 16777619u;
	return h;
}
