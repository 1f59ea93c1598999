/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Vulkan layer for behind ours, with which the device has no timeline semaphores: by default it
 * says that the feature is off; where OLD is "1.0" the device is one of Vulkan 1.0, without that
 * extension, and without functions of later versions for them. It ends a program in which somebody
 * uses them all the same. For programs with one instance and one device.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAYER old_
#include "../vulkan_layer.h"

/* The instance's, as looked up while it was made. */
static PFN_vkGetPhysicalDeviceProperties next_properties;
static PFN_vkGetPhysicalDeviceProperties2 next_properties_2;
static PFN_vkGetPhysicalDeviceFeatures2 next_features_2;
static PFN_vkEnumerateDeviceExtensionProperties next_extensions;

static bool is_first_version(void)
{
	const char *old = getenv("OLD");

	return old && !strcmp(old, "1.0");
}

static void need(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "a device without timeline semaphores: %s\n", what);
	abort();
}

static const void *find(const void *chain, VkStructureType type)
{
	const VkBaseInStructure *s = chain;

	while (s && s->sType != type)
		s = s->pNext;
	return s;
}

/* --- what the device says of itself --- */

static void old_vkGetPhysicalDeviceProperties(
	VkPhysicalDevice physical, VkPhysicalDeviceProperties *out)
{
	next_properties(physical, out);
	if (is_first_version())
		out->apiVersion = VK_API_VERSION_1_0;
}

static void old_vkGetPhysicalDeviceProperties2(
	VkPhysicalDevice physical, VkPhysicalDeviceProperties2 *out)
{
	next_properties_2(physical, out);
	if (is_first_version())
		out->properties.apiVersion = VK_API_VERSION_1_0;
}

static void old_vkGetPhysicalDeviceFeatures2(
	VkPhysicalDevice physical, VkPhysicalDeviceFeatures2 *out)
{
	VkPhysicalDeviceVulkan12Features *all;
	VkPhysicalDeviceTimelineSemaphoreFeatures *one;

	next_features_2(physical, out);
	all = (void *)find(out, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
	one = (void *)find(out, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES);
	if (all)
		all->timelineSemaphore = VK_FALSE;
	if (one)
		one->timelineSemaphore = VK_FALSE;
}

static VkResult old_vkEnumerateDeviceExtensionProperties(
	VkPhysicalDevice physical, const char *layer, uint32_t *n, VkExtensionProperties *out)
{
	VkExtensionProperties all[1024];
	uint32_t there = 1024, left = 0;
	VkResult rc = next_extensions(physical, layer, &there, all);

	if (rc < VK_SUCCESS)
		return rc;
	for (uint32_t i = 0; i < there; i++) {
		if (!strcmp(all[i].extensionName, VK_KHR_TIMELINE_SEMAPHORE_EXTENSION_NAME))
			continue;
		if (out && left < *n)
			out[left] = all[i];
		left++;
	}
	rc = out && left > *n ? VK_INCOMPLETE : VK_SUCCESS;
	*n = rc ? *n : left;
	return rc;
}

/* --- what nobody may do with it --- */

static VkResult old_vkCreateSemaphore(VkDevice device, const VkSemaphoreCreateInfo *info,
	const VkAllocationCallbacks *allocator, VkSemaphore *out)
{
	const VkSemaphoreTypeCreateInfo *t =
		find(info->pNext, VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO);

	need(!t || t->semaphoreType == VK_SEMAPHORE_TYPE_BINARY, "a semaphore is one");
	return NEXT(vkCreateSemaphore)(device, info, allocator, out);
}

static VkResult old_vkCreateDevice(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
	const VkAllocationCallbacks *allocator, VkDevice *out)
{
	const VkPhysicalDeviceVulkan12Features *all =
		find(info->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
	const VkPhysicalDeviceTimelineSemaphoreFeatures *one =
		find(info->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES);

	need(!all || !all->timelineSemaphore, "the feature is asked for");
	need(!one || !one->timelineSemaphore, "the feature is asked for");
	for (uint32_t i = 0; i < info->enabledExtensionCount; i++)
		need(strcmp(info->ppEnabledExtensionNames[i],
			     VK_KHR_TIMELINE_SEMAPHORE_EXTENSION_NAME),
			"the extension is asked for");
	link_device(info);
	return create_device(physical, info, allocator, out);
}

static VkResult old_vkCreateInstance(
	const VkInstanceCreateInfo *info, const VkAllocationCallbacks *allocator, VkInstance *out)
{
	VkResult rc = create_instance(info, allocator, out);

	if (rc != VK_SUCCESS)
		return rc;
	next_properties = NEXT_OF_INSTANCE(vkGetPhysicalDeviceProperties);
	next_extensions = NEXT_OF_INSTANCE(vkEnumerateDeviceExtensionProperties);
	next_properties_2 = NEXT_OF_INSTANCE(vkGetPhysicalDeviceProperties2);
	next_features_2 = NEXT_OF_INSTANCE(vkGetPhysicalDeviceFeatures2);
	if (!next_properties_2)
		next_properties_2 = NEXT_OF_INSTANCE(vkGetPhysicalDeviceProperties2KHR);
	if (!next_features_2)
		next_features_2 = NEXT_OF_INSTANCE(vkGetPhysicalDeviceFeatures2KHR);
	return rc;
}

/* --- look-ups --- */

static bool is_later(const char *name)
{
	return !strncmp(name, "vkSignalSemaphore", 17) || !strncmp(name, "vkWaitSemaphores", 16) ||
	       !strncmp(name, "vkGetSemaphoreCounterValue", 26);
}

static PFN_vkVoidFunction old_vkGetDeviceProcAddr(VkDevice device, const char *name)
{
	OURS(vkGetDeviceProcAddr)
	OURS(vkCreateSemaphore)
	return device && !(is_first_version() && is_later(name)) ? next_device(device, name) : NULL;
}

static PFN_vkVoidFunction old_vkGetInstanceProcAddr(VkInstance instance, const char *name)
{
	PFN_vkVoidFunction next = instance ? next_instance(instance, name) : NULL;

	OURS(vkGetInstanceProcAddr)
	OURS(vkCreateInstance)
	OURS(vkCreateDevice)
	OURS(vkGetDeviceProcAddr)
	OURS(vkGetPhysicalDeviceProperties)
	OURS(vkEnumerateDeviceExtensionProperties)
	if (next && !strncmp(name, "vkGetPhysicalDeviceProperties2", 30))
		return (PFN_vkVoidFunction)old_vkGetPhysicalDeviceProperties2;
	if (next && !strncmp(name, "vkGetPhysicalDeviceFeatures2", 28))
		return (PFN_vkVoidFunction)old_vkGetPhysicalDeviceFeatures2;
	return next;
}
