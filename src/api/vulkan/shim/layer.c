/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the loader asks of a layer (interface version 2): instances, and look-ups. A program gets
 * the layer's function for a row of the table where the driver has one. All else is the driver's.
 */
#include "vulkan.h"
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

struct fm_handles fm_vk_devices, fm_vk_timelines;
static struct fm_handles instances;

/* Of these maps, which are read without it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
FM_LOCK_RANK(lock, VK_LAYER);

void fm_vk_lock(void)
{
	pthread_mutex_lock(&lock);
}

void fm_vk_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

struct fm_vk_instance *fm_vk_instance_of(const void *dispatchable)
{
	return fm_handles_find(&instances, fm_vk_table_of(dispatchable));
}

/* --- instances --- */

static VkLayerInstanceCreateInfo *link_of(const VkInstanceCreateInfo *info)
{
	VkLayerInstanceCreateInfo *l = (VkLayerInstanceCreateInfo *)info->pNext;

	while (l && (l->sType != VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO ||
			    l->function != VK_LAYER_LINK_INFO))
		l = (VkLayerInstanceCreateInfo *)l->pNext;
	return l;
}

#define PROPERTIES_2 VK_KHR_GET_PHYSICAL_DEVICE_PROPERTIES_2_EXTENSION_NAME

static bool has_extension(const VkInstanceCreateInfo *info, const char *name)
{
	for (uint32_t i = 0; i < info->enabledExtensionCount; i++)
		if (!strcmp(info->ppEnabledExtensionNames[i], name))
			return true;
	return false;
}

/* An instance of Vulkan 1.0 says by an extension alone whether its devices have timeline
 * semaphores. If it is refused the program gets its instance as it wanted it. */
static VkResult create(PFN_vkCreateInstance next, const VkInstanceCreateInfo *info,
	const VkAllocationCallbacks *allocator, VkInstance *out, struct fm_vk_instance *i)
{
	VkLayerInstanceCreateInfo *link = link_of(info);
	VkLayerInstanceLink *below = link->u.pLayerInfo;
	VkInstanceCreateInfo more = *info;
	const VkInstance given = *out; /* the loader's own, which its end of the chain reads */
	const char **names;
	VkResult rc = VK_ERROR_EXTENSION_NOT_PRESENT;

	i->asks_features = i->version >= VK_API_VERSION_1_1 || has_extension(info, PROPERTIES_2);
	if (i->asks_features || fm_vk_switched_off())
		return next(info, allocator, out);
	names = malloc((info->enabledExtensionCount + 1) * sizeof(*names));
	if (names) {
		for (uint32_t n = 0; n < info->enabledExtensionCount; n++)
			names[n] = info->ppEnabledExtensionNames[n];
		names[more.enabledExtensionCount++] = PROPERTIES_2;
		more.ppEnabledExtensionNames = names;
		rc = next(&more, allocator, out);
		free(names);
	}
	if (rc == VK_SUCCESS) {
		i->asks_features = true;
		return rc;
	}
	link->u.pLayerInfo = below;
	*out = given;
	return next(info, allocator, out);
}

static void load(struct fm_vk_instance *i)
{
	const bool core = i->version >= VK_API_VERSION_1_1;

#define LOAD(symbol) i->next.symbol = (PFN_##symbol)i->get(i->handle, #symbol);
	FM_VK_INSTANCE_CALLS(LOAD)
	if (!i->asks_features)
		return;
	i->next.features = (PFN_vkGetPhysicalDeviceFeatures2)i->get(i->handle,
		core ? "vkGetPhysicalDeviceFeatures2" : "vkGetPhysicalDeviceFeatures2KHR");
	i->next.properties = (PFN_vkGetPhysicalDeviceProperties2)i->get(i->handle,
		core ? "vkGetPhysicalDeviceProperties2" : "vkGetPhysicalDeviceProperties2KHR");
}

VkResult fm_vkCreateInstance(
	const VkInstanceCreateInfo *info, const VkAllocationCallbacks *allocator, VkInstance *out)
{
	VkLayerInstanceCreateInfo *link = link_of(info);
	struct fm_vk_instance *i;
	PFN_vkCreateInstance next;
	VkResult rc;
	bool ok;

	if (!link || !link->u.pLayerInfo)
		return VK_ERROR_INITIALIZATION_FAILED;
	i = calloc(1, sizeof(*i));
	if (!i)
		return VK_ERROR_OUT_OF_HOST_MEMORY;
	fm_shim_hear_forks();
	i->get = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
	link->u.pLayerInfo = link->u.pLayerInfo->pNext;
	i->version = info->pApplicationInfo ? info->pApplicationInfo->apiVersion : 0;
	next = (PFN_vkCreateInstance)i->get(NULL, "vkCreateInstance");
	rc = next ? create(next, info, allocator, out, i) : VK_ERROR_INITIALIZATION_FAILED;
	if (rc != VK_SUCCESS) {
		free(i);
		return rc;
	}
	i->handle = *out;
	load(i);
	fm_vk_lock();
	ok = fm_handles_set(&instances, fm_vk_table_of(*out), i);
	fm_vk_unlock();
	if (ok)
		return rc;
	i->next.vkDestroyInstance(*out, allocator);
	free(i);
	return VK_ERROR_OUT_OF_HOST_MEMORY;
}

void fm_vkDestroyInstance(VkInstance instance, const VkAllocationCallbacks *allocator)
{
	struct fm_vk_instance *i = instance ? fm_vk_instance_of(instance) : NULL;

	if (!i)
		return;
	fm_vk_lock();
	fm_handles_erase(&instances, fm_vk_table_of(instance), i);
	fm_vk_unlock();
	fm_vk_forsake(fm_vk_table_of(instance));
	i->next.vkDestroyInstance(instance, allocator);
	free(i);
}

/* --- look-ups --- */

static const struct row {
	const char *symbol;
	PFN_vkVoidFunction ours;
} rows[] = {
#define ON_other(kind, symbol, ...) {#symbol, (PFN_vkVoidFunction)FM_VK(symbol)},
#include "api/vulkan/calls.def"
};

static PFN_vkVoidFunction ours(const char *name)
{
	for (size_t i = 0; i < FM_ARRAY_LEN(rows); i++)
		if (!strcmp(rows[i].symbol, name))
			return rows[i].ours;
	return NULL;
}

PFN_vkVoidFunction fm_vkGetDeviceProcAddr(VkDevice device, const char *name)
{
	struct fm_vk_device *dev = fm_vk_device_of(device);
	PFN_vkVoidFunction next = dev && name ? dev->next.vkGetDeviceProcAddr(device, name) : NULL;

	return next ? ours(name) ?: next : NULL;
}

/* The loader asks for these two before there is an instance: with none, or, of the uppermost layer,
 * with the one that is to be. */
static bool is_global(const char *name)
{
	return !strcmp(name, "vkCreateInstance") || !strcmp(name, "vkGetInstanceProcAddr");
}

PFN_vkVoidFunction fm_vkGetInstanceProcAddr(VkInstance instance, const char *name)
{
	struct fm_vk_instance *i;
	PFN_vkVoidFunction next;

	if (!name)
		return NULL;
	if (is_global(name))
		return ours(name);
	i = instance ? fm_vk_instance_of(instance) : NULL;
	next = i ? i->get(instance, name) : NULL;
	return next ? ours(name) ?: next : NULL;
}

EXPORT VkResult vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *version)
{
	if (!version || version->sType != LAYER_NEGOTIATE_INTERFACE_STRUCT ||
		version->loaderLayerInterfaceVersion < 2)
		return VK_ERROR_INITIALIZATION_FAILED;
	version->loaderLayerInterfaceVersion = 2;
	version->pfnGetInstanceProcAddr = fm_vkGetInstanceProcAddr;
	version->pfnGetDeviceProcAddr = fm_vkGetDeviceProcAddr;
	version->pfnGetPhysicalDeviceProcAddr = NULL;
	return VK_SUCCESS;
}
