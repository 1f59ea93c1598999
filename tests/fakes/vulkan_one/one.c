/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Vulkan layer for behind ours, with which each family has two queues that share one of the
 * driver's: what stands in one holds up the other, as on a device with fewer channels than queues.
 * For programs with one instance and one device.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#define EXPORT   __attribute__((visibility("default")))
#define FAMILIES 16u

static PFN_vkGetInstanceProcAddr next_instance;
static PFN_vkGetDeviceProcAddr next_device;
/* Looked up while the instance is made: later the loader gives the uppermost layer's. */
static PFN_vkGetPhysicalDeviceQueueFamilyProperties next_families;
static VkInstance the_instance;
static VkDevice the_device;

/* The loader writes its table to the first word of what it takes for a queue. */
static struct one {
	void *table;
	VkQueue real;
} second[FAMILIES];
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

#define NEXT(symbol) ((PFN_##symbol)next_device(the_device, #symbol))

static VkQueue real(VkQueue queue)
{
	struct one *o = (struct one *)queue;

	return o >= second && o < second + FAMILIES ? o->real : queue;
}

static VkResult one_vkQueueSubmit(
	VkQueue queue, uint32_t n, const VkSubmitInfo *batches, VkFence fence)
{
	VkResult rc;

	pthread_mutex_lock(&one_at_a_time);
	rc = NEXT(vkQueueSubmit)(real(queue), n, batches, fence);
	pthread_mutex_unlock(&one_at_a_time);
	return rc;
}

static VkResult one_vkQueueWaitIdle(VkQueue queue)
{
	return NEXT(vkQueueWaitIdle)(real(queue));
}

static void one_vkGetDeviceQueue(VkDevice device, uint32_t family, uint32_t index, VkQueue *out)
{
	NEXT(vkGetDeviceQueue)(device, family, 0, out);
	if (!index)
		return;
	second[family] = (struct one){.table = *(void **)*out, .real = *out};
	*out = (VkQueue)&second[family];
}

static void one_vkGetPhysicalDeviceQueueFamilyProperties(
	VkPhysicalDevice physical, uint32_t *n, VkQueueFamilyProperties *out)
{
	next_families(physical, n, out);
	for (uint32_t i = 0; out && i < *n; i++)
		out[i].queueCount = 2;
}

/* The first struct of the chain that is the loader's, whose kind it is. */
#define LINK(layer_info, type, info)                                                      \
	({                                                                                \
		layer_info *l_ = (layer_info *)(info)->pNext;                             \
		while (l_ && (l_->sType != (type) || l_->function != VK_LAYER_LINK_INFO)) \
			l_ = (layer_info *)l_->pNext;                                     \
		l_;                                                                       \
	})

static VkResult one_vkCreateInstance(
	const VkInstanceCreateInfo *info, const VkAllocationCallbacks *allocator, VkInstance *out)
{
	VkLayerInstanceCreateInfo *link = LINK(
		VkLayerInstanceCreateInfo, VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO, info);
	VkResult rc;

	next_instance = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
	link->u.pLayerInfo = link->u.pLayerInfo->pNext;
	rc = ((PFN_vkCreateInstance)next_instance(NULL, "vkCreateInstance"))(info, allocator, out);
	the_instance = *out;
	if (rc == VK_SUCCESS)
		next_families = (PFN_vkGetPhysicalDeviceQueueFamilyProperties)next_instance(
			*out, "vkGetPhysicalDeviceQueueFamilyProperties");
	return rc;
}

static VkResult one_vkCreateDevice(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
	const VkAllocationCallbacks *allocator, VkDevice *out)
{
	VkLayerDeviceCreateInfo *link =
		LINK(VkLayerDeviceCreateInfo, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO, info);
	PFN_vkCreateDevice create =
		(PFN_vkCreateDevice)next_instance(the_instance, "vkCreateDevice");
	VkDeviceQueueCreateInfo queues[FAMILIES];
	VkDeviceCreateInfo less = *info;
	VkResult rc;

	next_device = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
	link->u.pLayerInfo = link->u.pLayerInfo->pNext;
	for (uint32_t i = 0; i < info->queueCreateInfoCount && i < FAMILIES; i++) {
		queues[i] = info->pQueueCreateInfos[i];
		queues[i].queueCount = 1;
	}
	less.pQueueCreateInfos = queues;
	rc = create(physical, &less, allocator, out);
	the_device = *out;
	return rc;
}

static PFN_vkVoidFunction one_vkGetInstanceProcAddr(VkInstance instance, const char *name);

static PFN_vkVoidFunction one_vkGetDeviceProcAddr(VkDevice device, const char *name)
{
#define OURS(symbol)                \
	if (!strcmp(name, #symbol)) \
		return (PFN_vkVoidFunction)one_##symbol;
	OURS(vkGetDeviceProcAddr)
	OURS(vkQueueSubmit)
	OURS(vkQueueWaitIdle)
	OURS(vkGetDeviceQueue)
	return device ? next_device(device, name) : NULL;
}

static PFN_vkVoidFunction one_vkGetInstanceProcAddr(VkInstance instance, const char *name)
{
	OURS(vkGetInstanceProcAddr)
	OURS(vkCreateInstance)
	OURS(vkCreateDevice)
	OURS(vkGetDeviceProcAddr)
	OURS(vkGetPhysicalDeviceQueueFamilyProperties)
	return instance ? next_instance(instance, name) : NULL;
}

EXPORT VkResult vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *version)
{
	version->loaderLayerInterfaceVersion = 2;
	version->pfnGetInstanceProcAddr = one_vkGetInstanceProcAddr;
	version->pfnGetDeviceProcAddr = one_vkGetDeviceProcAddr;
	version->pfnGetPhysicalDeviceProcAddr = NULL;
	return VK_SUCCESS;
}
