/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Vulkan layer for behind ours, in which calls that ours makes fail for lack of memory as often
 * as not. $FAULTS names them, in any order: signal, status, submit, fence, device. The program must
 * not make such calls itself. Where the file $LOST is, the device is lost, and all say so.
 * What the driver has is then done before the device ends, for which gates in it have to open. The
 * program is to end no other object of its own. Semaphores have their highest value then if
 * $FAULTS names "highest". What is asked to be passed on to other processes is taken for done. For
 * programs with one instance and one device.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#define EXPORT  __attribute__((visibility("default")))
#define REFUSED VK_ERROR_OUT_OF_HOST_MEMORY
#define LOOK    2000000u /* ns between two looks whether it is lost */

static PFN_vkGetInstanceProcAddr next_instance;
static PFN_vkGetDeviceProcAddr next_device;
static VkInstance the_instance;
static VkDevice the_device;

/* Most calls in a row fail, so that one retry is not enough. */
static bool fails(const char *name)
{
	static _Atomic unsigned calls;
	const char *names = getenv("FAULTS");

	return names && strstr(names, name) && atomic_fetch_add(&calls, 1) % 4 != 3;
}

#define NEXT(symbol) ((PFN_##symbol)next_device(the_device, #symbol))

static bool lost(void)
{
	const char *file = getenv("LOST");

	return file && !access(file, F_OK);
}

static VkResult faults_vkSignalSemaphore(VkDevice device, const VkSemaphoreSignalInfo *info)
{
	VkResult rc = fails("signal") ? REFUSED : NEXT(vkSignalSemaphore)(device, info);

	return lost() ? VK_ERROR_DEVICE_LOST : rc;
}

static VkResult faults_vkGetSemaphoreCounterValue(
	VkDevice device, VkSemaphore semaphore, uint64_t *value)
{
	const char *names = getenv("FAULTS");

	if (!lost())
		return NEXT(vkGetSemaphoreCounterValue)(device, semaphore, value);
	*value = UINT64_MAX;
	return names && strstr(names, "highest") ? VK_SUCCESS : VK_ERROR_DEVICE_LOST;
}

static VkResult faults_vkGetFenceStatus(VkDevice device, VkFence fence)
{
	if (lost())
		return VK_ERROR_DEVICE_LOST;
	return fails("status") ? REFUSED : NEXT(vkGetFenceStatus)(device, fence);
}

static VkResult faults_vkWaitForFences(
	VkDevice device, uint32_t n, const VkFence *fence, VkBool32 all, uint64_t timeout)
{
	VkResult rc = VK_TIMEOUT;

	if (timeout != UINT64_MAX)
		return NEXT(vkWaitForFences)(device, n, fence, all, timeout);
	while (rc == VK_TIMEOUT && !lost())
		rc = NEXT(vkWaitForFences)(device, n, fence, all, LOOK);
	return lost() ? VK_ERROR_DEVICE_LOST : rc;
}

static VkResult faults_vkDeviceWaitIdle(VkDevice device)
{
	return lost() ? VK_ERROR_DEVICE_LOST : NEXT(vkDeviceWaitIdle)(device);
}

/* What the driver has may still use it. */
#define ENDS(symbol, object)                                                            \
	static void faults_##symbol(                                                    \
		VkDevice device, object handle, const VkAllocationCallbacks *allocator) \
	{                                                                               \
		if (!lost())                                                            \
			NEXT(symbol)(device, handle, allocator);                        \
	}
ENDS(vkDestroySemaphore, VkSemaphore)
ENDS(vkDestroyFence, VkFence)

static void faults_vkDestroyDevice(VkDevice device, const VkAllocationCallbacks *allocator)
{
	if (lost())
		NEXT(vkDeviceWaitIdle)(device);
	NEXT(vkDestroyDevice)(device, allocator);
}

static VkResult faults_vkQueueSubmit(
	VkQueue queue, uint32_t n, const VkSubmitInfo *batches, VkFence fence)
{
	bool ours = !n || !batches->commandBufferCount;

	if (lost())
		return VK_ERROR_DEVICE_LOST;
	return ours && fails("submit") ? REFUSED : NEXT(vkQueueSubmit)(queue, n, batches, fence);
}

static VkResult faults_vkCreateFence(VkDevice device, const VkFenceCreateInfo *info,
	const VkAllocationCallbacks *allocator, VkFence *out)
{
	static atomic_bool program_has_its_own;

	return atomic_exchange(&program_has_its_own, true) && fails("fence")
		       ? REFUSED
		       : NEXT(vkCreateFence)(device, info, allocator, out);
}

#define SHARE(symbol, params)                  \
	static VkResult faults_##symbol params \
	{                                      \
		return VK_SUCCESS;             \
	}
SHARE(vkGetSemaphoreFdKHR, (VkDevice device, const VkSemaphoreGetFdInfoKHR *info, int *fd))
SHARE(vkImportSemaphoreFdKHR, (VkDevice device, const VkImportSemaphoreFdInfoKHR *info))
SHARE(vkGetFenceFdKHR, (VkDevice device, const VkFenceGetFdInfoKHR *info, int *fd))
SHARE(vkImportFenceFdKHR, (VkDevice device, const VkImportFenceFdInfoKHR *info))
SHARE(vkGetMemoryFdKHR, (VkDevice device, const VkMemoryGetFdInfoKHR *info, int *fd))

/* The first struct of the chain that is the loader's, whose kind it is. */
#define LINK(layer_info, type, info)                                                      \
	({                                                                                \
		layer_info *l_ = (layer_info *)(info)->pNext;                             \
		while (l_ && (l_->sType != (type) || l_->function != VK_LAYER_LINK_INFO)) \
			l_ = (layer_info *)l_->pNext;                                     \
		l_;                                                                       \
	})

static VkResult faults_vkCreateInstance(
	const VkInstanceCreateInfo *info, const VkAllocationCallbacks *allocator, VkInstance *out)
{
	VkLayerInstanceCreateInfo *link = LINK(
		VkLayerInstanceCreateInfo, VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO, info);
	VkResult rc;

	next_instance = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
	link->u.pLayerInfo = link->u.pLayerInfo->pNext;
	rc = ((PFN_vkCreateInstance)next_instance(NULL, "vkCreateInstance"))(info, allocator, out);
	the_instance = *out;
	return rc;
}

static bool wants_timelines(const VkDeviceCreateInfo *info)
{
	const VkBaseInStructure *s = info->pNext;

	while (s && s->sType != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES)
		s = s->pNext;
	return s;
}

static VkResult faults_vkCreateDevice(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
	const VkAllocationCallbacks *allocator, VkDevice *out)
{
	VkLayerDeviceCreateInfo *link =
		LINK(VkLayerDeviceCreateInfo, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO, info);
	PFN_vkCreateDevice create =
		(PFN_vkCreateDevice)next_instance(the_instance, "vkCreateDevice");
	VkResult rc;

	next_device = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
	link->u.pLayerInfo = link->u.pLayerInfo->pNext;
	if (wants_timelines(info) && fails("device"))
		return VK_ERROR_FEATURE_NOT_PRESENT;
	rc = create(physical, info, allocator, out);
	the_device = *out;
	return rc;
}

static PFN_vkVoidFunction faults_vkGetInstanceProcAddr(VkInstance instance, const char *name);

static PFN_vkVoidFunction faults_vkGetDeviceProcAddr(VkDevice device, const char *name)
{
#define OURS(symbol)                \
	if (!strcmp(name, #symbol)) \
		return (PFN_vkVoidFunction)faults_##symbol;
	OURS(vkGetDeviceProcAddr)
	OURS(vkSignalSemaphore)
	OURS(vkGetSemaphoreCounterValue)
	OURS(vkGetFenceStatus)
	OURS(vkWaitForFences)
	OURS(vkDeviceWaitIdle)
	OURS(vkDestroySemaphore)
	OURS(vkDestroyFence)
	OURS(vkDestroyDevice)
	OURS(vkQueueSubmit)
	OURS(vkCreateFence)
	OURS(vkGetSemaphoreFdKHR)
	OURS(vkImportSemaphoreFdKHR)
	OURS(vkGetFenceFdKHR)
	OURS(vkImportFenceFdKHR)
	OURS(vkGetMemoryFdKHR)
	return device ? next_device(device, name) : NULL;
}

static PFN_vkVoidFunction faults_vkGetInstanceProcAddr(VkInstance instance, const char *name)
{
	OURS(vkGetInstanceProcAddr)
	OURS(vkCreateInstance)
	OURS(vkCreateDevice)
	OURS(vkGetDeviceProcAddr)
	return instance ? next_instance(instance, name) : NULL;
}

EXPORT VkResult vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *version)
{
	version->loaderLayerInterfaceVersion = 2;
	version->pfnGetInstanceProcAddr = faults_vkGetInstanceProcAddr;
	version->pfnGetDeviceProcAddr = faults_vkGetDeviceProcAddr;
	version->pfnGetPhysicalDeviceProcAddr = NULL;
	return VK_SUCCESS;
}
