/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of functions that a loader asks a driver for. What is in none of these it does not
 * have. */
#include "entry.h"
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* X(prefix of the name, the rest of it): both together are the function, the rest the table's
 * member. */
/* clang-format off */
#define GLOBAL(X) \
	X(ze, Init)
#define DRIVER(X) \
	X(zeDriver, Get) \
	X(zeDriver, GetApiVersion) \
	X(zeDriver, GetProperties) \
	X(zeDriver, GetExtensionProperties) \
	X(zeDriver, GetExtensionFunctionAddress)
#define DEVICE(X) \
	X(zeDevice, Get) \
	X(zeDevice, GetSubDevices) \
	X(zeDevice, GetProperties) \
	X(zeDevice, PciGetPropertiesExt) \
	X(zeDevice, GetCommandQueueGroupProperties)
#define CONTEXT(X) \
	X(zeContext, Create) \
	X(zeContext, Destroy)
#define QUEUE(X) \
	X(zeCommandQueue, Create) \
	X(zeCommandQueue, Destroy) \
	X(zeCommandQueue, Synchronize) \
	X(zeCommandQueue, ExecuteCommandLists)
#define LIST(X) \
	X(zeCommandList, Create) \
	X(zeCommandList, CreateImmediate) \
	X(zeCommandList, Destroy) \
	X(zeCommandList, Close) \
	X(zeCommandList, Reset) \
	X(zeCommandList, AppendLaunchKernel) \
	X(zeCommandList, AppendLaunchCooperativeKernel) \
	X(zeCommandList, AppendMemoryCopy) \
	X(zeCommandList, AppendMemoryFill) \
	X(zeCommandList, AppendBarrier) \
	X(zeCommandList, AppendMemoryRangesBarrier) \
	X(zeCommandList, AppendSignalEvent) \
	X(zeCommandList, AppendWaitOnEvents) \
	X(zeCommandList, AppendEventReset) \
	X(zeCommandList, AppendWriteGlobalTimestamp) \
	X(zeCommandList, AppendMemoryPrefetch)
#define FENCE(X) \
	X(zeFence, Create) \
	X(zeFence, Destroy) \
	X(zeFence, Reset) \
	X(zeFence, HostSynchronize) \
	X(zeFence, QueryStatus)
#define POOL(X) \
	X(zeEventPool, Create) \
	X(zeEventPool, Destroy)
#define EVENT(X) \
	X(zeEvent, Create) \
	X(zeEvent, Destroy) \
	X(zeEvent, HostSignal) \
	X(zeEvent, HostReset) \
	X(zeEvent, HostSynchronize) \
	X(zeEvent, QueryStatus)
#define MODULE(X) \
	X(zeModule, Create) \
	X(zeModule, Destroy)
#define KERNEL(X) \
	X(zeKernel, Create) \
	X(zeKernel, Destroy) \
	X(zeKernel, SetArgumentValue) \
	X(zeKernel, SetGroupSize)
#define MEM(X) \
	X(zeMem, AllocDevice) \
	X(zeMem, AllocHost) \
	X(zeMem, AllocShared) \
	X(zeMem, Free)
#define NONE(X)
/* clang-format on */

/* Names begin with the prefix, so that the compiler sees each function's type. */
#define DECLARE(prefix, rest) extern __typeof__(prefix##rest) fk_##prefix##rest;
#define SET(prefix, rest)     table->pfn##rest = fk_##prefix##rest;
#define TABLE(name, type, functions)                                                         \
	functions(DECLARE);                                                                  \
	EXPORT ze_result_t zeGet##name##ProcAddrTable(ze_api_version_t version, type *table) \
	{                                                                                    \
		functions(SET) return ZE_RESULT_SUCCESS;                                     \
	}
#define TABLES(X)                                                 \
	X(Global, ze_global_dditable_t, GLOBAL)                   \
	X(Driver, ze_driver_dditable_t, DRIVER)                   \
	X(Device, ze_device_dditable_t, DEVICE)                   \
	X(DeviceExp, ze_device_exp_dditable_t, NONE)              \
	X(Context, ze_context_dditable_t, CONTEXT)                \
	X(CommandQueue, ze_command_queue_dditable_t, QUEUE)       \
	X(CommandList, ze_command_list_dditable_t, LIST)          \
	X(Image, ze_image_dditable_t, NONE)                       \
	X(ImageExp, ze_image_exp_dditable_t, NONE)                \
	X(Fence, ze_fence_dditable_t, FENCE)                      \
	X(EventPool, ze_event_pool_dditable_t, POOL)              \
	X(Event, ze_event_dditable_t, EVENT)                      \
	X(EventExp, ze_event_exp_dditable_t, NONE)                \
	X(Module, ze_module_dditable_t, MODULE)                   \
	X(ModuleBuildLog, ze_module_build_log_dditable_t, NONE)   \
	X(Kernel, ze_kernel_dditable_t, KERNEL)                   \
	X(KernelExp, ze_kernel_exp_dditable_t, NONE)              \
	X(Sampler, ze_sampler_dditable_t, NONE)                   \
	X(PhysicalMem, ze_physical_mem_dditable_t, NONE)          \
	X(Mem, ze_mem_dditable_t, MEM)                            \
	X(VirtualMem, ze_virtual_mem_dditable_t, NONE)            \
	X(FabricVertexExp, ze_fabric_vertex_exp_dditable_t, NONE) \
	X(FabricEdgeExp, ze_fabric_edge_exp_dditable_t, NONE)
TABLES(TABLE)

/* What only the driver has. */
#define EXTENSIONS(X)                                  \
	X(zeCommandListImmediateAppendCommandListsExp) \
	X(zeCommandListBeginGraphCaptureExt)           \
	X(zeCommandListEndGraphCaptureExt)             \
	X(zeCommandListAppendGraphExt)                 \
	X(zeGraphInstantiateExt)                       \
	X(zeGraphDestroyExt)

void *fk_function(const char *name)
{
#define IS(function)                     \
	extern void fk_##function(void); \
	if (!strcmp(name, #function))    \
		return (void *)fk_##function;
	EXTENSIONS(IS)
	return NULL;
}
