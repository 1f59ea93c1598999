/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Vulkan layers of the tests have in common that stand behind ours, for programs with one
 * instance and one device. Before this LAYER is defined, in front of which names of Vulkan's are
 * the layer's own: vkCreateInstance and vkCreateDevice, which begin by the functions here, and the
 * two look-ups.
 */
#pragma once
#include "vulkan_link.h"
#include <string.h>
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

static PFN_vkGetInstanceProcAddr next_instance;
static PFN_vkGetDeviceProcAddr next_device;
static VkInstance the_instance;
static VkDevice the_device;

/* The device's, behind the layer. */
#define NEXT(symbol) ((PFN_##symbol)next_device(the_device, #symbol))
/* The instance's. To be looked up while the instance is made: later the loader gives the uppermost
 * layer's. */
#define NEXT_OF_INSTANCE(symbol) ((PFN_##symbol)next_instance(the_instance, #symbol))

static inline VkResult create_instance(
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

/* To be called first, whatever becomes of the device. */
static inline void link_device(const VkDeviceCreateInfo *info)
{
	VkLayerDeviceCreateInfo *link =
		LINK(VkLayerDeviceCreateInfo, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO, info);

	next_device = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
	link->u.pLayerInfo = link->u.pLayerInfo->pNext;
}

static inline VkResult create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
	const VkAllocationCallbacks *allocator, VkDevice *out)
{
	VkResult rc = ((PFN_vkCreateDevice)next_instance(the_instance, "vkCreateDevice"))(
		physical, info, allocator, out);

	the_device = *out;
	return rc;
}

#define OWN__(layer, symbol) layer##symbol
#define OWN_(layer, symbol)  OWN__(layer, symbol)
#define OURS(symbol)                \
	if (!strcmp(name, #symbol)) \
		return (PFN_vkVoidFunction)OWN_(LAYER, symbol);

static PFN_vkVoidFunction OWN_(LAYER, vkGetInstanceProcAddr)(VkInstance instance, const char *name);
static PFN_vkVoidFunction OWN_(LAYER, vkGetDeviceProcAddr)(VkDevice device, const char *name);

__attribute__((visibility("default"))) VkResult vkNegotiateLoaderLayerInterfaceVersion(
	VkNegotiateLayerInterface *version)
{
	version->loaderLayerInterfaceVersion = 2;
	version->pfnGetInstanceProcAddr = OWN_(LAYER, vkGetInstanceProcAddr);
	version->pfnGetDeviceProcAddr = OWN_(LAYER, vkGetDeviceProcAddr);
	version->pfnGetPhysicalDeviceProcAddr = NULL;
	return VK_SUCCESS;
}
