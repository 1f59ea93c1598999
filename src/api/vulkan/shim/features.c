/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is to be known of a device before it is made: whether it is scheduled at all, and how
 * timeline semaphores are switched on in it. The program's structs are never written to, because
 * they may be constants, or another thread's as well.
 */
#include "base/uuid.h"
#include "vulkan.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- which devices are left alone --- */

bool fm_vk_switched_off(void)
{
	const char *wish = getenv("FERMATA_VULKAN");

	return fm_client_switched_off() || (wish && !strcmp(wish, "0"));
}

bool fm_vk_wants_all(void)
{
	const char *wish = getenv("FERMATA_VULKAN");

	return wish && !strcmp(wish, "all");
}

static const void *find(const void *chain, VkStructureType type)
{
	const VkBaseInStructure *s = chain;

	while (s && s->sType != type)
		s = s->pNext;
	return s;
}

static bool has_extension(const VkDeviceCreateInfo *info, const char *name)
{
	for (uint32_t i = 0; i < info->enabledExtensionCount; i++)
		if (!strcmp(info->ppEnabledExtensionNames[i], name))
			return true;
	return false;
}

const char *fm_vk_left_alone(const VkDeviceCreateInfo *info)
{
	const VkDeviceGroupDeviceCreateInfo *group =
		find(info->pNext, VK_STRUCTURE_TYPE_DEVICE_GROUP_DEVICE_CREATE_INFO);

	if (group && group->physicalDeviceCount > 1)
		return "vkQueueSubmit (device group)";
	for (uint32_t i = 0; i < info->queueCreateInfoCount; i++)
		if (info->pQueueCreateInfos[i].flags & VK_DEVICE_QUEUE_CREATE_PROTECTED_BIT)
			return "vkQueueSubmit (protected)";
	if (has_extension(info, VK_KHR_SWAPCHAIN_EXTENSION_NAME) && !fm_vk_wants_all())
		return "vkQueueSubmit (swapchain)";
	return NULL;
}

/* --- timeline semaphores --- */

#define CORE_FROM VK_API_VERSION_1_2 /* before, they are an extension */

static uint32_t min_version(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* Of the device, as this instance may use it. */
static uint32_t version_of(const struct fm_vk_instance *i, VkPhysicalDevice physical)
{
	VkPhysicalDeviceProperties p = {0};

	if (i->next.vkGetPhysicalDeviceProperties)
		i->next.vkGetPhysicalDeviceProperties(physical, &p);
	return min_version(p.apiVersion, i->version ? i->version : VK_API_VERSION_1_0);
}

static bool offers_extension(const struct fm_vk_instance *i, VkPhysicalDevice physical)
{
	PFN_vkEnumerateDeviceExtensionProperties list =
		i->next.vkEnumerateDeviceExtensionProperties;
	VkExtensionProperties *all;
	uint32_t n = 0;
	bool yes = false;

	if (!list || list(physical, NULL, &n, NULL) != VK_SUCCESS || !n)
		return false;
	all = calloc(n, sizeof(*all));
	if (all && list(physical, NULL, &n, all) >= VK_SUCCESS)
		for (uint32_t k = 0; k < n; k++)
			yes |= !strcmp(
				all[k].extensionName, VK_KHR_TIMELINE_SEMAPHORE_EXTENSION_NAME);
	free(all);
	return yes;
}

static bool offers_feature(const struct fm_vk_instance *i, VkPhysicalDevice physical)
{
	VkPhysicalDeviceTimelineSemaphoreFeatures timeline = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES};
	VkPhysicalDeviceFeatures2 f = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &timeline};

	if (i->next.features)
		i->next.features(physical, &f);
	return timeline.timelineSemaphore;
}

/* --- a chain in which one struct is replaced --- */

/* Structs that may stand in front of it. A struct whose size is not known cannot be copied. */
static size_t size_of(VkStructureType type)
{
	static const struct {
		VkStructureType type;
		size_t size;
	} known[] = {
		{VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO, sizeof(VkLayerDeviceCreateInfo)},
		{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, sizeof(VkPhysicalDeviceFeatures2)},
		{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
			sizeof(VkPhysicalDeviceVulkan11Features)},
		{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
			sizeof(VkPhysicalDeviceVulkan12Features)},
		{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES,
			sizeof(VkPhysicalDeviceVulkan13Features)},
		{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES,
			sizeof(VkPhysicalDeviceTimelineSemaphoreFeatures)},
		{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SYNCHRONIZATION_2_FEATURES,
			sizeof(VkPhysicalDeviceSynchronization2Features)},
		{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DYNAMIC_RENDERING_FEATURES,
			sizeof(VkPhysicalDeviceDynamicRenderingFeatures)},
		{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES,
			sizeof(VkPhysicalDevice16BitStorageFeatures)},
		{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES,
			sizeof(VkPhysicalDevice8BitStorageFeatures)},
		{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES,
			sizeof(VkPhysicalDeviceShaderFloat16Int8Features)},
		{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES,
			sizeof(VkPhysicalDeviceBufferDeviceAddressFeatures)},
		{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DESCRIPTOR_INDEXING_FEATURES,
			sizeof(VkPhysicalDeviceDescriptorIndexingFeatures)},
		{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES,
			sizeof(VkPhysicalDeviceMaintenance4Features)},
		{VK_STRUCTURE_TYPE_DEVICE_GROUP_DEVICE_CREATE_INFO,
			sizeof(VkDeviceGroupDeviceCreateInfo)},
	};

	for (size_t i = 0; i < FM_ARRAY_LEN(known); i++)
		if (known[i].type == type)
			return known[i].size;
	return 0;
}

#define ROUNDED(size) (((size) + 15) & ~(size_t)15)

/* Copies the chain up to `last`, which is in it, and sets the bit in the copy of that. */
static bool copy_up_to(struct fm_vk_wish *w, const void *chain, const VkBaseInStructure *last)
{
	const VkBaseInStructure *s;
	const void **link = &w->info.pNext;
	size_t size = 0;
	char *at;

	for (s = chain; s; s = s == last ? NULL : s->pNext) {
		if (!size_of(s->sType))
			return false;
		size += ROUNDED(size_of(s->sType));
	}
	at = w->copies = malloc(size);
	if (!at)
		return false;
	for (s = chain; s; s = s == last ? NULL : s->pNext) {
		VkBaseInStructure *copy = memcpy(at, s, size_of(s->sType));

		at += ROUNDED(size_of(s->sType));
		*link = copy;
		link = (const void **)&copy->pNext;
		if (s != last)
			continue;
		if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES)
			((VkPhysicalDeviceVulkan12Features *)copy)->timelineSemaphore = VK_TRUE;
		else
			((VkPhysicalDeviceTimelineSemaphoreFeatures *)copy)->timelineSemaphore =
				VK_TRUE;
	}
	return true;
}

/* Vulkan has two structs for this feature, of which a chain may have one. `on`: the program has
 * switched it on itself. */
static bool switch_on(struct fm_vk_wish *w, const VkDeviceCreateInfo *info, bool *on)
{
	const VkPhysicalDeviceVulkan12Features *all =
		find(info->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
	const VkPhysicalDeviceTimelineSemaphoreFeatures *one =
		find(info->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES);

	*on = (all && all->timelineSemaphore) || (one && one->timelineSemaphore);
	if (*on)
		return true;
	if (all || one)
		return copy_up_to(w, info->pNext,
			all ? (const VkBaseInStructure *)all : (const VkBaseInStructure *)one);
	w->feature = (VkPhysicalDeviceTimelineSemaphoreFeatures){
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES,
		.pNext = (void *)info->pNext,
		.timelineSemaphore = VK_TRUE};
	w->info.pNext = &w->feature;
	return true;
}

static bool add_extension(struct fm_vk_wish *w, const VkDeviceCreateInfo *info)
{
	uint32_t n = info->enabledExtensionCount;

	w->extensions = malloc((n + 1) * sizeof(*w->extensions));
	if (!w->extensions)
		return false;
	for (uint32_t i = 0; i < n; i++)
		w->extensions[i] = info->ppEnabledExtensionNames[i];
	w->extensions[n] = VK_KHR_TIMELINE_SEMAPHORE_EXTENSION_NAME;
	w->info.ppEnabledExtensionNames = w->extensions;
	w->info.enabledExtensionCount = n + 1;
	return true;
}

void fm_vk_wish(struct fm_vk_wish *w, const struct fm_vk_instance *i, VkPhysicalDevice physical,
	const VkDeviceCreateInfo *info)
{
	bool core = version_of(i, physical) >= CORE_FROM, has, on = false;

	*w = (struct fm_vk_wish){.info = *info};
	has = core || has_extension(info, VK_KHR_TIMELINE_SEMAPHORE_EXTENSION_NAME);
	if ((!has && !offers_extension(i, physical)) || !offers_feature(i, physical))
		return;
	if (!switch_on(w, info, &on) || (!has && !add_extension(w, info))) {
		w->info = *info;
		return;
	}
	w->timelines = true;
	w->asks = !has || !on;
}

void fm_vk_wish_free(struct fm_vk_wish *w)
{
	free(w->extensions);
	free(w->copies);
}

/* --- a name that is the same in every process --- */

static bool uuid_of(const struct fm_vk_instance *i, VkPhysicalDevice physical, uint8_t *uuid)
{
	VkPhysicalDeviceIDProperties id = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES};
	VkPhysicalDeviceProperties2 p = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &id};
	static const uint8_t zero[VK_UUID_SIZE];

	if (!i->next.properties)
		return false;
	i->next.properties(physical, &p);
	memcpy(uuid, id.deviceUUID, VK_UUID_SIZE);
	return memcmp(uuid, zero, sizeof(zero));
}

/* Its place among the devices of the same name. */
static unsigned ordinal_of(
	const struct fm_vk_instance *i, VkPhysicalDevice physical, const char *name)
{
	PFN_vkEnumeratePhysicalDevices list = i->next.vkEnumeratePhysicalDevices;
	VkPhysicalDevice all[64];
	VkPhysicalDeviceProperties p;
	uint32_t n = FM_ARRAY_LEN(all);
	unsigned before = 0;

	if (!list || list(i->handle, &n, all) < VK_SUCCESS)
		return 0;
	for (uint32_t k = 0; k < n && all[k] != physical; k++) {
		i->next.vkGetPhysicalDeviceProperties(all[k], &p);
		before += !strcmp(p.deviceName, name);
	}
	return before;
}

/* By its UUID alone it is the same device in CUDA, Level Zero and OpenCL. */
void fm_vk_device_key(const struct fm_vk_instance *i, VkPhysicalDevice physical, char *key)
{
	PFN_vkGetPhysicalDeviceProperties get = i->next.vkGetPhysicalDeviceProperties;
	VkPhysicalDeviceProperties p = {.deviceName = "device"};
	uint8_t uuid[VK_UUID_SIZE];
	char text[FM_UUID_TEXT];

	if (get)
		get(physical, &p);
	if (p.deviceType != VK_PHYSICAL_DEVICE_TYPE_CPU && uuid_of(i, physical, uuid)) {
		snprintf(key, FM_DEVKEY_MAX, "GPU-%s", fm_uuid_text(uuid, text));
		return;
	}
	for (char *c = p.deviceName; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '_';
	snprintf(key, FM_DEVKEY_MAX, "%.47s#%u", p.deviceName,
		get ? ordinal_of(i, physical, p.deviceName) : 0);
}
