/* SPDX-License-Identifier: Apache-2.0 */
/* Trying Vulkan's devices, in the probe's process. Besides the lines of doctor/probe.h:
 * {"step":"vulkan","error":...}, with "absent" where there is no loader. */
#include "doctor/probe.h"
#include "api/trial.h"
#include "api/watch.h"
#include "base/util.h"
#include "tool.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <vulkan/vulkan.h>

#define DEVICES  16u
#define FAMILIES 16u

#define INSTANCE_CALLS(X)                           \
	X(vkEnumeratePhysicalDevices)               \
	X(vkGetPhysicalDeviceProperties2)           \
	X(vkGetPhysicalDeviceFeatures2)             \
	X(vkGetPhysicalDeviceQueueFamilyProperties) \
	X(vkCreateDevice)                           \
	X(vkGetDeviceProcAddr)
#define DEVICE_CALLS(X)      \
	X(vkGetDeviceQueue)  \
	X(vkQueueSubmit)     \
	X(vkCreateSemaphore) \
	X(vkSignalSemaphore) \
	X(vkCreateFence)     \
	X(vkDestroyFence)    \
	X(vkGetFenceStatus)
#define MEMBER(name) PFN_##name name;

struct probe {
	FILE *out;
	PFN_vkGetInstanceProcAddr get;
	VkInstance instance;
	INSTANCE_CALLS(MEMBER)
};

struct device {
	VkDevice handle;
	DEVICE_CALLS(MEMBER)
};

/* Drivers on which `script/test' or `script/gpu-test' has run. */
static const VkDriverId tested[] = {VK_DRIVER_ID_MESA_LLVMPIPE};

/* --- a queue, as the layer uses it --- */

struct queue {
	struct fm_watched watch;
	const struct device *dev;
	VkQueue handle;
	VkSemaphore semaphore;
	uint64_t placed;
};

static int deactivate(void *hwq, void **gate)
{
	struct queue *q = hwq;
	const uint64_t value = q->placed + 1;
	const VkTimelineSemaphoreSubmitInfo values = {
		.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
		.waitSemaphoreValueCount = 1,
		.pWaitSemaphoreValues = &value};
	const VkPipelineStageFlags all = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
	const VkSubmitInfo batch = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
		.pNext = &values,
		.waitSemaphoreCount = 1,
		.pWaitSemaphores = &q->semaphore,
		.pWaitDstStageMask = &all};

	if (q->dev->vkQueueSubmit(q->handle, 1, &batch, VK_NULL_HANDLE) != VK_SUCCESS)
		return -EIO;
	*gate = (void *)(uintptr_t)++q->placed;
	return 0;
}

static void reactivate(void *hwq, void *gate)
{
	struct queue *q = hwq;
	const VkSemaphoreSignalInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO,
		.semaphore = q->semaphore,
		.value = (uintptr_t)gate};

	q->dev->vkSignalSemaphore(q->dev->handle, &info);
	fm_watch_stir(&q->watch);
}

static bool fence_finished(struct fm_watched *w, void *event)
{
	const struct device *dev = fm_container(w, struct queue, watch)->dev;

	return dev->vkGetFenceStatus(dev->handle, (VkFence)event) != VK_NOT_READY;
}

static void fence_drop(struct fm_watched *w, void *event)
{
	const struct device *dev = fm_container(w, struct queue, watch)->dev;

	dev->vkDestroyFence(dev->handle, (VkFence)event, NULL);
}

static const struct fm_watch_ops watch_ops = {fence_finished, fence_drop};

static int track(void *hwq, fm_reached_fn *reached, void *cookie)
{
	const VkFenceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
	struct queue *q = hwq;
	VkFence f;

	if (q->dev->vkCreateFence(q->dev->handle, &info, NULL, &f) != VK_SUCCESS)
		return -EIO;
	if (q->dev->vkQueueSubmit(q->handle, 0, NULL, f) != VK_SUCCESS)
		return -EIO;
	return fm_watch_event(&q->watch, (void *)f, reached, cookie);
}

static const struct fm_hw_ops ops = {.name = "vulkan",
	.track = track,
	.host_gate = {.deactivate = deactivate, .reactivate = reactivate}};

/* --- a device --- */

static bool queue_open(struct queue *q, const struct device *dev, uint32_t family)
{
	const VkSemaphoreTypeCreateInfo type = {
		.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
		.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
	const VkSemaphoreCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};

	*q = (struct queue){.dev = dev};
	fm_watch_init(&q->watch, &watch_ops);
	dev->vkGetDeviceQueue(dev->handle, family, 0, &q->handle);
	return q->handle &&
	       dev->vkCreateSemaphore(dev->handle, &info, NULL, &q->semaphore) == VK_SUCCESS;
}

/* One queue of each family. */
static bool device_open(
	struct probe *p, VkPhysicalDevice physical, uint32_t families, struct device *dev)
{
	static const float priority = 1;
	const VkPhysicalDeviceTimelineSemaphoreFeatures timelines = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES,
		.timelineSemaphore = VK_TRUE};
	VkDeviceQueueCreateInfo queues[FAMILIES];
	const VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
		.pNext = &timelines,
		.queueCreateInfoCount = families,
		.pQueueCreateInfos = queues};
	bool all = true;

	for (uint32_t f = 0; f < families; f++)
		queues[f] = (VkDeviceQueueCreateInfo){
			.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
			.queueFamilyIndex = f,
			.queueCount = 1,
			.pQueuePriorities = &priority};
	if (p->vkCreateDevice(physical, &info, NULL, &dev->handle) != VK_SUCCESS)
		return false;
#define LOAD(name)                                                          \
	dev->name = (PFN_##name)p->vkGetDeviceProcAddr(dev->handle, #name); \
	all = all && dev->name;
	DEVICE_CALLS(LOAD)
#undef LOAD
	return all;
}

/* Of the worst queue, as the layer would find it. */
static const char *said[] = {
	[FM_TRIAL_HOLDS] = "queues stall at a closed gate and go on when it opens",
	[FM_TRIAL_REFUSED] = "the driver takes no gates: submissions are held back",
	[FM_TRIAL_PASSED] = "queues do not stall at a closed gate: submissions are held back",
	[FM_TRIAL_STAYS] = "a queue did not go on when its gate opened",
	[FM_TRIAL_STALLS] =
		"a queue at a gate stops others of the device: submissions are held back"};

static enum fm_trial try_queues(const struct device *dev, uint32_t families)
{
	static struct queue q[FAMILIES]; /* late trackers use them */
	struct fm_trial_queue others[FAMILIES];
	enum fm_trial worst = FM_TRIAL_HOLDS;

	for (uint32_t f = 0; f < families; f++)
		if (!queue_open(&q[f], dev, f))
			return FM_TRIAL_REFUSED;
	for (uint32_t f = 0; f < families && worst == FM_TRIAL_HOLDS; f++) {
		unsigned n = 0;

		for (uint32_t o = 0; o < families; o++)
			if (o != f)
				others[n++] = (struct fm_trial_queue){track, &q[o]};
		worst = fm_gate_try(&ops, &q[f], others, n, NULL);
	}
	return worst;
}

static bool has_timelines(struct probe *p, VkPhysicalDevice physical, uint32_t version)
{
	VkPhysicalDeviceTimelineSemaphoreFeatures timelines = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES};
	VkPhysicalDeviceFeatures2 features = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &timelines};

	if (version < VK_API_VERSION_1_2)
		return false;
	p->vkGetPhysicalDeviceFeatures2(physical, &features);
	return timelines.timelineSemaphore;
}

static const char *type_of(VkPhysicalDeviceType type)
{
	return type == VK_PHYSICAL_DEVICE_TYPE_CPU ? "cpu"
	       : type == VK_PHYSICAL_DEVICE_TYPE_OTHER ||
			       type == VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU
		       ? "other"
		       : "gpu";
}

static void tell_levels(struct probe *p, enum fm_trial is, VkDriverId driver, const char *text)
{
	bool known = false;

	for (size_t i = 0; i < FM_ARRAY_LEN(tested); i++)
		known |= tested[i] == driver;
	probe_tell(p->out,
		json_pack("{s:s, s:o, s:s+}", "step", "levels", "levels",
			is == FM_TRIAL_STAYS   ? json_array()
			: is == FM_TRIAL_HOLDS ? json_pack("[i, i]", 1, 2)
					       : json_pack("[i]", 1),
			"text", text,
			known ? "" : "; unproven, since our tests have not run on this driver"));
}

static void try_device(struct probe *p, VkPhysicalDevice physical)
{
	VkPhysicalDeviceDriverProperties driver = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES};
	VkPhysicalDeviceProperties2 props = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &driver};
	VkQueueFamilyProperties family[FAMILIES];
	uint32_t families = FAMILIES;
	struct device dev = {0};
	enum fm_trial is;

	p->vkGetPhysicalDeviceProperties2(physical, &props);
	if (props.properties.apiVersion < VK_API_VERSION_1_2)
		driver.driverID = 0;
	probe_tell(p->out, json_pack("{s:s, s:s, s:s, s:s, s:s}", "step", "device", "name",
				   props.properties.deviceName, "platform", "Vulkan", "version",
				   *driver.driverInfo ? driver.driverInfo : "-", "type",
				   type_of(props.properties.deviceType)));
	p->vkGetPhysicalDeviceQueueFamilyProperties(physical, &families, family);
	if (!has_timelines(p, physical, props.properties.apiVersion)) {
		tell_levels(p, FM_TRIAL_REFUSED, driver.driverID,
			"no timeline semaphores of Vulkan 1.2: submissions are held back");
		return;
	}
	if (!device_open(p, physical, families, &dev)) {
		tell_levels(p, FM_TRIAL_STAYS, driver.driverID, "no device can be made");
		return;
	}
	/* The device ends with the process: late trackers use it. */
	is = try_queues(&dev, families);
	tell_levels(p, is, driver.driverID, said[is]);
}

/* --- the loader --- */

static void fail(struct probe *p, bool absent, const char *why)
{
	probe_tell(p->out,
		json_pack("{s:s, s:b, s:s}", "step", "vulkan", "absent", absent, "error", why));
}

static const char *make_instance(struct probe *p, const char *layer)
{
	static char text[64];
	const VkApplicationInfo app = {
		.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_2};
	const VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
		.pApplicationInfo = &app,
		.enabledLayerCount = layer != NULL,
		.ppEnabledLayerNames = &layer};
	PFN_vkCreateInstance create = (PFN_vkCreateInstance)p->get(NULL, "vkCreateInstance");
	VkResult rc = create ? create(&info, NULL, &p->instance) : VK_ERROR_INITIALIZATION_FAILED;

	if (rc == VK_ERROR_LAYER_NOT_PRESENT)
		return "the loader does not find the layer";
	if (rc == VK_ERROR_INCOMPATIBLE_DRIVER)
		return "no device: there is no driver that works";
	snprintf(text, sizeof(text), "no instance can be made: VkResult %d", rc);
	if (rc != VK_SUCCESS)
		return text;
#define LOAD(name)                                        \
	p->name = (PFN_##name)p->get(p->instance, #name); \
	if (!p->name)                                     \
		return "the loader lacks " #name " of Vulkan 1.2";
	INSTANCE_CALLS(LOAD)
#undef LOAD
	return NULL;
}

static void try_devices(FILE *out, const char *layer)
{
	struct probe p = {.out = out};
	void *lib = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
	VkPhysicalDevice device[DEVICES];
	uint32_t n = DEVICES;
	const char *error;

	if (lib)
		p.get = (PFN_vkGetInstanceProcAddr)dlsym(lib, "vkGetInstanceProcAddr");
	if (!p.get) {
		fail(&p, true, lib ? "it is no loader of Vulkan" : dlerror());
		return;
	}
	error = make_instance(&p, layer);
	if (!error && (p.vkEnumeratePhysicalDevices(p.instance, &n, device) < VK_SUCCESS || !n))
		error = "no device";
	if (error) {
		fail(&p, false, error);
		return;
	}
	probe_tell(out, json_pack("{s:s}", "step", "vulkan"));
	for (uint32_t i = 0; i < n; i++)
		try_device(&p, device[i]);
}

void tool_vulkan_probe(FILE *out)
{
	try_devices(out, NULL);
}

/* The same through our layer, which has no daemon here. */
void tool_vulkan_probe_layer(FILE *out)
{
	try_devices(out, TOOL_VULKAN_LAYER);
}
