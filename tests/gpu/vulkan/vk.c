/* SPDX-License-Identifier: Apache-2.0 */
#include "vk.h"
#include "../../integration/vulkan/vulkan_steps.h"
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

_Noreturn void die(const char *what, int rc)
{
	fflush(stdout);
	fprintf(stderr, "gpu_vulkan: %s: %d\n", what, rc);
	_exit(1); /* the driver may never come to an end with what waits for us */
}

uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 * MS + (uint64_t)t.tv_nsec;
}

void sleep_ns(uint64_t ns)
{
	struct timespec t = {(time_t)(ns / (1000 * MS)), (long)(ns % (1000 * MS))};

	nanosleep(&t, NULL);
}

/* --- the device --- */

static void make_instance(struct gpu *g, const char *layer)
{
	const VkApplicationInfo app = {
		.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_2};
	const VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
		.pApplicationInfo = &app,
		.enabledLayerCount = layer != NULL,
		.ppEnabledLayerNames = &layer};
	VkPhysicalDevice all[16];
	uint32_t n = 16;

#ifdef __SANITIZE_ADDRESS__
	dlopen("libvulkan_lvp.so", RTLD_LAZY | RTLD_NODELETE); /* so that its leaks have its name */
#endif
	VK(vkCreateInstance(&info, NULL, &g->instance));
	if (vkEnumeratePhysicalDevices(g->instance, &n, all) < 0 || !n) {
		fputs("gpu_vulkan: there is no device\n", stderr);
		exit(77);
	}
	g->physical = all[0];
	vkGetPhysicalDeviceProperties(g->physical, &g->properties);
	/* Also where it passes for a GPU (tests/fakes/token). */
	g->processor = g->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU ||
		       !strncmp(g->properties.deviceName, "llvmpipe", 8);
}

static void find_families(struct gpu *g)
{
	g->families = FAMILIES;
	vkGetPhysicalDeviceQueueFamilyProperties(g->physical, &g->families, g->family);
	for (g->compute = 0; g->compute < g->families; g->compute++)
		if (g->family[g->compute].queueFlags & VK_QUEUE_COMPUTE_BIT)
			return;
	die("no queues that compute", 0);
}

static void make_device(struct gpu *g, uint32_t most)
{
	static const float priority[QUEUES] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
	const VkPhysicalDeviceTimelineSemaphoreFeatures timelines = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES,
		.timelineSemaphore = VK_TRUE};
	VkDeviceQueueCreateInfo queues[FAMILIES] = {0};
	VkPhysicalDeviceFeatures can, features = {0};
	VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
		.pNext = &timelines,
		.pQueueCreateInfos = queues,
		.pEnabledFeatures = &features};

	vkGetPhysicalDeviceFeatures(g->physical, &can);
	features.sparseBinding = can.sparseBinding;
	g->sparse = can.sparseBinding;
	for (uint32_t f = 0; f < g->families; f++) {
		uint32_t n = g->family[f].queueCount;

		if (most < QUEUES && !(g->family[f].queueFlags & VK_QUEUE_COMPUTE_BIT))
			continue;
		g->queues[f] = n < most ? n : most;
		queues[info.queueCreateInfoCount++] = (VkDeviceQueueCreateInfo){
			.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
			.queueFamilyIndex = f,
			.queueCount = g->queues[f],
			.pQueuePriorities = priority};
	}
	VK(vkCreateDevice(g->physical, &info, NULL, &g->device));
	g->submit = (PFN_vkQueueSubmit)vkGetDeviceProcAddr(g->device, "vkQueueSubmit");
}

static void make_pipeline(struct gpu *g)
{
	const VkDescriptorSetLayoutBinding binding = {
		.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
		.descriptorCount = 1,
		.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
	const VkDescriptorSetLayoutCreateInfo set = {
		.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
		.bindingCount = 1,
		.pBindings = &binding};
	const VkPushConstantRange push = {VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(uint32_t)};
	VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
		.setLayoutCount = 1,
		.pushConstantRangeCount = 1,
		.pPushConstantRanges = &push};
	const VkShaderModuleCreateInfo code = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
		.codeSize = sizeof(vulkan_steps),
		.pCode = vulkan_steps};
	VkComputePipelineCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
		.stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
			.stage = VK_SHADER_STAGE_COMPUTE_BIT,
			.pName = "main"}};

	VK(vkCreateDescriptorSetLayout(g->device, &set, NULL, &g->set_layout));
	layout.pSetLayouts = &g->set_layout;
	VK(vkCreatePipelineLayout(g->device, &layout, NULL, &g->layout));
	VK(vkCreateShaderModule(g->device, &code, NULL, &info.stage.module));
	info.layout = g->layout;
	VK(vkCreateComputePipelines(g->device, NULL, 1, &info, NULL, &g->pipeline));
	vkDestroyShaderModule(g->device, info.stage.module, NULL);
}

void gpu_open(struct gpu *g, const char *layer, uint32_t queues)
{
	make_instance(g, layer);
	find_families(g);
	make_device(g, queues);
	make_pipeline(g);
}

void gpu_close(struct gpu *g)
{
	vkDestroyPipeline(g->device, g->pipeline, NULL);
	vkDestroyPipelineLayout(g->device, g->layout, NULL);
	vkDestroyDescriptorSetLayout(g->device, g->set_layout, NULL);
	vkDestroyDevice(g->device, NULL);
	vkDestroyInstance(g->instance, NULL);
}

VkSemaphore timeline_new(struct gpu *g)
{
	const VkSemaphoreTypeCreateInfo type = {
		.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
		.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
	const VkSemaphoreCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
	VkSemaphore s;

	VK(vkCreateSemaphore(g->device, &info, NULL, &s));
	return s;
}

VkSemaphore binary_new(struct gpu *g)
{
	const VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO};
	VkSemaphore s;

	VK(vkCreateSemaphore(g->device, &info, NULL, &s));
	return s;
}

void semaphore_end(struct gpu *g, VkSemaphore s)
{
	VK(vkDeviceWaitIdle(g->device));
	vkDestroySemaphore(g->device, s, NULL);
}

void timeline_signal(struct gpu *g, VkSemaphore s, uint64_t value)
{
	const VkSemaphoreSignalInfo info = {
		.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO, .semaphore = s, .value = value};

	VK(vkSignalSemaphore(g->device, &info));
}

/* --- lanes --- */

/* Of the device, if the host sees its memory. */
static uint32_t memory_type(const struct gpu *g, uint32_t bits)
{
	const VkMemoryPropertyFlags host =
		VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
	VkMemoryPropertyFlags want = host | VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
	VkPhysicalDeviceMemoryProperties p;

	vkGetPhysicalDeviceMemoryProperties(g->physical, &p);
	for (int tries = 0; tries < 2; tries++, want = host)
		for (uint32_t i = 0; i < p.memoryTypeCount; i++)
			if (bits & 1u << i && (p.memoryTypes[i].propertyFlags & want) == want)
				return i;
	die("no memory that the host sees", 0);
}

/* The words may be used by all families. */
static void make_buffer(struct lane *l)
{
	struct gpu *g = l->g;
	uint32_t family[FAMILIES], n = 0;
	VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
		.size = l->words * sizeof(uint32_t),
		.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT,
		.pQueueFamilyIndices = family};
	VkMemoryAllocateInfo memory = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
	VkMemoryRequirements needs;

	for (uint32_t f = 0; f < g->families; f++)
		if (g->queues[f])
			family[n++] = f;
	info.sharingMode = n > 1 ? VK_SHARING_MODE_CONCURRENT : VK_SHARING_MODE_EXCLUSIVE;
	info.queueFamilyIndexCount = n;
	VK(vkCreateBuffer(g->device, &info, NULL, &l->buffer));
	vkGetBufferMemoryRequirements(g->device, l->buffer, &needs);
	memory.allocationSize = needs.size;
	memory.memoryTypeIndex = memory_type(g, needs.memoryTypeBits);
	VK(vkAllocateMemory(g->device, &memory, NULL, &l->memory));
	VK(vkBindBufferMemory(g->device, l->buffer, l->memory, 0));
	VK(vkMapMemory(g->device, l->memory, 0, VK_WHOLE_SIZE, 0, (void **)&l->word));
	for (uint32_t i = 0; i < l->words; i++)
		l->word[i] = i;
}

static void *new_memory(struct gpu *g, VkMemoryRequirements needs, VkDeviceMemory *memory)
{
	const VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
		.allocationSize = needs.size,
		.memoryTypeIndex = memory_type(g, needs.memoryTypeBits)};
	void *at;

	VK(vkAllocateMemory(g->device, &info, NULL, memory));
	VK(vkMapMemory(g->device, *memory, 0, VK_WHOLE_SIZE, 0, &at));
	return at;
}

static void make_set(struct lane *l)
{
	const VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1};
	const VkDescriptorPoolCreateInfo pool = {
		.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
		.maxSets = 1,
		.poolSizeCount = 1,
		.pPoolSizes = &size};
	VkDescriptorSetAllocateInfo set = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
		.descriptorSetCount = 1,
		.pSetLayouts = &l->g->set_layout};
	const VkDescriptorBufferInfo range = {l->buffer, 0, VK_WHOLE_SIZE};
	VkWriteDescriptorSet write = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
		.descriptorCount = 1,
		.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
		.pBufferInfo = &range};

	VK(vkCreateDescriptorPool(l->g->device, &pool, NULL, &l->sets));
	set.descriptorPool = l->sets;
	VK(vkAllocateDescriptorSets(l->g->device, &set, &l->set));
	write.dstSet = l->set;
	vkUpdateDescriptorSets(l->g->device, 1, &write, 0, NULL);
}

void lane_open(struct lane *l, struct gpu *g, uint32_t family, uint32_t index, uint32_t words)
{
	const VkCommandPoolCreateInfo pool = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, .queueFamilyIndex = family};

	*l = (struct lane){.g = g, .family = family, .words = words};
	vkGetDeviceQueue(g->device, family, index, &l->queue);
	VK(vkCreateCommandPool(g->device, &pool, NULL, &l->pool));
	l->timeline = timeline_new(g);
	make_buffer(l);
	make_set(l);
}

void lane_sparse(struct lane *l, uint32_t *word[2], VkDeviceMemory memory[2])
{
	const VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
		.flags = VK_BUFFER_CREATE_SPARSE_BINDING_BIT,
		.size = l->words * sizeof(uint32_t),
		.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT};
	struct gpu *g = l->g;
	VkMemoryRequirements needs;

	vkDestroyDescriptorPool(g->device, l->sets, NULL);
	vkDestroyBuffer(g->device, l->buffer, NULL);
	VK(vkCreateBuffer(g->device, &info, NULL, &l->buffer));
	vkGetBufferMemoryRequirements(g->device, l->buffer, &needs);
	for (int i = 0; i < 2; i++) {
		word[i] = new_memory(g, needs, &memory[i]);
		for (uint32_t k = 0; k < l->words; k++)
			word[i][k] = k;
	}
	l->size = needs.size;
	make_set(l);
}

void lane_bind(struct lane *l, VkDeviceMemory memory, const struct order *o, uint64_t signal_value)
{
	const VkSparseMemoryBind bind = {.size = l->size, .memory = memory};
	const VkSparseBufferMemoryBindInfo buffer = {
		.buffer = l->buffer, .bindCount = 1, .pBinds = &bind};
	const VkTimelineSemaphoreSubmitInfo values = {
		.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
		.waitSemaphoreValueCount = o->wait != VK_NULL_HANDLE,
		.pWaitSemaphoreValues = &o->wait_value,
		.signalSemaphoreValueCount = 1,
		.pSignalSemaphoreValues = &signal_value};
	const VkBindSparseInfo info = {.sType = VK_STRUCTURE_TYPE_BIND_SPARSE_INFO,
		.pNext = &values,
		.waitSemaphoreCount = o->wait != VK_NULL_HANDLE,
		.pWaitSemaphores = &o->wait,
		.bufferBindCount = 1,
		.pBufferBinds = &buffer,
		.signalSemaphoreCount = 1,
		.pSignalSemaphores = &o->signal};

	VK(vkQueueBindSparse(l->queue, 1, &info, VK_NULL_HANDLE));
}

void lane_close(struct lane *l)
{
	VkDevice d = l->g->device;

	VK(vkQueueWaitIdle(l->queue));
	vkDestroyDescriptorPool(d, l->sets, NULL);
	vkDestroyBuffer(d, l->buffer, NULL);
	vkFreeMemory(d, l->memory, NULL);
	vkDestroySemaphore(d, l->timeline, NULL);
	vkDestroyCommandPool(d, l->pool, NULL);
}

static void compute(struct lane *l, VkCommandBuffer c, unsigned dispatches, uint32_t steps)
{
	const VkMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
		.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
		.dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
				 VK_ACCESS_HOST_READ_BIT};

	vkCmdBindPipeline(c, VK_PIPELINE_BIND_POINT_COMPUTE, l->g->pipeline);
	vkCmdBindDescriptorSets(
		c, VK_PIPELINE_BIND_POINT_COMPUTE, l->g->layout, 0, 1, &l->set, 0, NULL);
	vkCmdPushConstants(c, l->g->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(steps), &steps);
	for (unsigned i = 0; i < dispatches; i++) {
		vkCmdDispatch(c, l->words / 64, 1, 1);
		vkCmdPipelineBarrier(c, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
			VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_HOST_BIT, 0, 1,
			&barrier, 0, NULL, 0, NULL);
	}
}

VkCommandBuffer lane_record(struct lane *l, unsigned dispatches, uint32_t steps)
{
	const VkCommandBufferAllocateInfo info = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
		.commandPool = l->pool,
		.commandBufferCount = 1};
	const VkCommandBufferBeginInfo begin = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
		.flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT};
	VkQueueFlags can = l->g->family[l->family].queueFlags;
	VkCommandBuffer c;

	VK(vkAllocateCommandBuffers(l->g->device, &info, &c));
	VK(vkBeginCommandBuffer(c, &begin));
	if (can & VK_QUEUE_COMPUTE_BIT)
		compute(l, c, dispatches, steps);
	else if (can & (VK_QUEUE_TRANSFER_BIT | VK_QUEUE_GRAPHICS_BIT))
		vkCmdFillBuffer(c, l->buffer, 0, VK_WHOLE_SIZE, steps);
	VK(vkEndCommandBuffer(c));
	return c;
}

uint64_t lane_submit(struct lane *l, const struct order *o)
{
	const uint64_t to[] = {++l->value, 0};
	const VkSemaphore signal[] = {l->timeline, o->signal};
	const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
	const VkTimelineSemaphoreSubmitInfo values = {
		.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
		.waitSemaphoreValueCount = o->wait != VK_NULL_HANDLE,
		.pWaitSemaphoreValues = &o->wait_value,
		.signalSemaphoreValueCount = 1 + (o->signal != VK_NULL_HANDLE),
		.pSignalSemaphoreValues = to};
	const VkSubmitInfo batch = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
		.pNext = &values,
		.waitSemaphoreCount = o->wait != VK_NULL_HANDLE,
		.pWaitSemaphores = &o->wait,
		.pWaitDstStageMask = &stage,
		.commandBufferCount = o->commands != NULL,
		.pCommandBuffers = &o->commands,
		.signalSemaphoreCount = 1 + (o->signal != VK_NULL_HANDLE),
		.pSignalSemaphores = signal};

	VK(l->g->submit(l->queue, 1, &batch, VK_NULL_HANDLE));
	return l->value;
}

bool lane_wait(struct lane *l, uint64_t value, uint64_t ns)
{
	const VkSemaphoreWaitInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
		.semaphoreCount = 1,
		.pSemaphores = &l->timeline,
		.pValues = &value};
	VkResult rc = vkWaitSemaphores(l->g->device, &info, ns);

	if (rc != VK_TIMEOUT)
		VK(rc);
	return rc == VK_SUCCESS;
}

uint64_t lane_at(struct lane *l)
{
	uint64_t value;

	VK(vkGetSemaphoreCounterValue(l->g->device, l->timeline, &value));
	return value;
}

/* n steps of x -> a x + c are one such step. */
uint32_t lane_wrong(const struct lane *l, uint64_t steps)
{
	uint32_t a = 1664525, c = 1013904223, all_a = 1, all_c = 0, wrong = 0;

	for (; steps; steps /= 2) {
		if (steps & 1) {
			all_c = a * all_c + c;
			all_a *= a;
		}
		c = a * c + c;
		a *= a;
	}
	for (uint32_t i = 0; i < l->words; i++)
		wrong += l->word[i] != all_a * i + all_c;
	return wrong;
}

/* The shortest of some tries. */
static double took_ns(struct lane *l, VkCommandBuffer c)
{
	double best = 1e18;

	for (int i = 0; i < 10; i++) {
		uint64_t from = now_ns();

		if (!lane_wait(l, lane_run(l, c), 30000 * MS))
			die("a dispatch does not end", 0);
		best = (double)(now_ns() - from) < best ? (double)(now_ns() - from) : best;
	}
	return best;
}

/* Until it is the same twice, for a device that was idle runs faster and faster. */
uint32_t lane_steps(struct lane *l, uint64_t ns)
{
	const uint32_t few = l->g->processor ? 200 : 5000;
	VkCommandBuffer some = lane_record(l, 1, few), more = lane_record(l, 1, 5 * few);
	double each = -1, before = 0;

	for (int i = 0; i < 20 && !(each > 0 && fabs(each - before) < 0.02 * each); i++) {
		before = each;
		each = (took_ns(l, more) - took_ns(l, some)) / (4 * few);
	}
	return each > 0 && (double)ns / each >= 1 ? (uint32_t)((double)ns / each) : 1;
}
