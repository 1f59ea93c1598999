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

#define LAYER faults_
#include "../vulkan_layer.h"

#define REFUSED VK_ERROR_OUT_OF_HOST_MEMORY
#define LOOK    2000000u /* ns between two looks whether it is lost */

/* Most calls in a row fail, so that one retry is not enough. */
static bool fails(const char *name)
{
	static _Atomic unsigned calls;
	const char *names = getenv("FAULTS");

	return names && strstr(names, name) && atomic_fetch_add(&calls, 1) % 4 != 3;
}

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

static VkResult faults_vkCreateInstance(
	const VkInstanceCreateInfo *info, const VkAllocationCallbacks *allocator, VkInstance *out)
{
	VkResult rc = create_instance(info, allocator, out);

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

	link_device(info);
	if (wants_timelines(info) && fails("device"))
		return VK_ERROR_FEATURE_NOT_PRESENT;
	return create_device(physical, info, allocator, out);
}

static PFN_vkVoidFunction faults_vkGetDeviceProcAddr(VkDevice device, const char *name)
{
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
