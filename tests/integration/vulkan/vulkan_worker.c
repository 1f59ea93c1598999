/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch job for Vulkan: commands that each take a buffer of words some steps further. It prints
 * "ready", then "at COMMANDS" now and then; on "stop", or after COUNT commands, "done COMMANDS
 * wrong WORDS". At the end of stdin it exits at once.
 *
 *   vulkan_worker [OPTION]... STEPS [COUNT]
 *
 *   devices=N     so many instances, each with a device and a thread of its own
 *   api=MINOR     Vulkan 1.MINOR; 2
 *   timeline=none|one|all|off|off12
 *                 how the program itself asks for timeline semaphores: not; in the struct for them;
 *                 in that of Vulkan 1.2; in either of them, switched off. The structs are in memory
 *                 that cannot be written
 *   depth=N       commands submitted ahead; 8
 *   how=1|2       vkQueueSubmit or vkQueueSubmit2
 *   chain=binary|timeline|none
 *                 what orders the commands, besides a barrier
 *   wait=fence|queue|device|value
 *                 by what it waits for the end of so many commands
 *   swapchain     the device has the extension
 *   late          the (one) device is ended by a function that exit() calls
 *   fork          at the end a child does `depth` commands on a device of its own
 *   share=NAME    told "x", it calls that function of the (one) device's, for a dma-buf if it is of
 *                 memory; "opaque" is vkGetMemoryFdKHR for an opaque descriptor
 *   lost          the (one) device will be: then it waits for "stop", and ends that alone
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vulkan/vulkan.h>

#include "vulkan_steps.h"

#define WORDS 4096u

static struct {
	unsigned devices, api, depth, how, steps;
	uint64_t count;
	const char *timeline, *chain, *wait, *share;
	bool swapchain, fork, late, lost;
} opt = {.devices = 1,
	.api = 2,
	.depth = 8,
	.how = 1,
	.timeline = "none",
	.chain = "none",
	.wait = "fence",
	.share = ""};

static volatile bool stop;

struct job {
	VkInstance instance;
	VkPhysicalDevice physical;
	VkDevice device;
	VkQueue queue;
	VkBuffer buffer;
	VkDeviceMemory memory;
	uint32_t *word;
	VkPipelineLayout layout;
	VkDescriptorSetLayout set_layout;
	VkDescriptorPool sets;
	VkDescriptorSet set;
	VkShaderModule module;
	VkPipeline pipeline;
	VkCommandPool pool;
	VkCommandBuffer commands;
	VkFence fence;
	VkSemaphore chain; /* binary or a timeline */
	bool signalled;
	uint64_t value, done;
	unsigned wrong;
	pthread_t thread;
};

static bool is(const char *a, const char *b)
{
	return !strcmp(a, b);
}

static void lose(void);

static void must(VkResult rc, const char *what)
{
	if (rc == VK_SUCCESS)
		return;
	if (rc == VK_ERROR_DEVICE_LOST && opt.lost)
		lose();
	printf("failed %s: %d\n", what, rc);
	exit(3);
}
#define MUST(call) must(call, #call)

static void say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	flockfile(stdout);
	vprintf(fmt, ap);
	fflush(stdout);
	funlockfile(stdout);
	va_end(ap);
}

/* --- the device --- */

static void make_instance(struct job *j)
{
	const VkApplicationInfo app = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
		.apiVersion = VK_MAKE_API_VERSION(0, 1, opt.api, 0)};
	const char *const names[] = {VK_KHR_SURFACE_EXTENSION_NAME};
	const VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
		.pApplicationInfo = &app,
		.enabledExtensionCount = opt.swapchain,
		.ppEnabledExtensionNames = names};
	VkPhysicalDevice all[16];
	VkPhysicalDeviceProperties p;
	uint32_t n = 16;

	MUST(vkCreateInstance(&info, NULL, &j->instance));
	if (vkEnumeratePhysicalDevices(j->instance, &n, all) < 0 || !n) {
		say("no device\n");
		exit(77);
	}
	j->physical = all[0];
	for (uint32_t i = 0; i < n; i++) {
		vkGetPhysicalDeviceProperties(all[i], &p);
		if (p.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU)
			j->physical = all[i];
	}
}

/* The program's own structs, as constants. */
static const void *features(void)
{
	struct all {
		VkPhysicalDeviceFeatures2 first;
		VkPhysicalDeviceTimelineSemaphoreFeatures one;
		VkPhysicalDeviceVulkan12Features all;
		VkPhysicalDeviceSynchronization2Features sync2;
	} *f = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *next = NULL;

	f->first =
		(VkPhysicalDeviceFeatures2){.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
	f->one = (VkPhysicalDeviceTimelineSemaphoreFeatures){
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES,
		.timelineSemaphore = is(opt.timeline, "one")};
	f->all = (VkPhysicalDeviceVulkan12Features){
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
		.timelineSemaphore = is(opt.timeline, "all")};
	f->sync2 = (VkPhysicalDeviceSynchronization2Features){
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SYNCHRONIZATION_2_FEATURES,
		.synchronization2 = VK_TRUE};
	if (opt.how == 2)
		next = &f->sync2;
	if (is(opt.timeline, "one") || is(opt.timeline, "off")) {
		f->one.pNext = next;
		next = &f->one;
	} else if (is(opt.timeline, "all") || is(opt.timeline, "off12")) {
		f->all.pNext = next;
		next = &f->all;
	}
	if (opt.api > 0 && next) {
		f->first.pNext = next;
		next = &f->first;
	}
	mprotect(f, 4096, PROT_READ);
	return next;
}

static void make_device(struct job *j)
{
	const float priority = 1;
	const VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
		.queueCount = 1,
		.pQueuePriorities = &priority};
	const char *names[2];
	VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
		.pNext = features(),
		.queueCreateInfoCount = 1,
		.pQueueCreateInfos = &queue,
		.ppEnabledExtensionNames = names};

	if (opt.swapchain)
		names[info.enabledExtensionCount++] = VK_KHR_SWAPCHAIN_EXTENSION_NAME;
	MUST(vkCreateDevice(j->physical, &info, NULL, &j->device));
	vkGetDeviceQueue(j->device, 0, 0, &j->queue);
}

static uint32_t memory_type(struct job *j, uint32_t bits)
{
	const VkMemoryPropertyFlags want =
		VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
	VkPhysicalDeviceMemoryProperties p;
	uint32_t i = 0;

	vkGetPhysicalDeviceMemoryProperties(j->physical, &p);
	while (!(bits & 1u << i) || (p.memoryTypes[i].propertyFlags & want) != want)
		i++;
	return i;
}

static void make_buffer(struct job *j)
{
	const VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
		.size = WORDS * sizeof(uint32_t),
		.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT};
	VkMemoryAllocateInfo memory = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
	VkMemoryRequirements needs;

	MUST(vkCreateBuffer(j->device, &info, NULL, &j->buffer));
	vkGetBufferMemoryRequirements(j->device, j->buffer, &needs);
	memory.allocationSize = needs.size;
	memory.memoryTypeIndex = memory_type(j, needs.memoryTypeBits);
	MUST(vkAllocateMemory(j->device, &memory, NULL, &j->memory));
	MUST(vkBindBufferMemory(j->device, j->buffer, j->memory, 0));
	MUST(vkMapMemory(j->device, j->memory, 0, VK_WHOLE_SIZE, 0, (void **)&j->word));
	for (uint32_t i = 0; i < WORDS; i++)
		j->word[i] = i;
}

static void make_set(struct job *j)
{
	const VkDescriptorSetLayoutBinding binding = {
		.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
		.descriptorCount = 1,
		.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
	const VkDescriptorSetLayoutCreateInfo layout = {
		.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
		.bindingCount = 1,
		.pBindings = &binding};
	const VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1};
	const VkDescriptorPoolCreateInfo pool = {
		.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
		.maxSets = 1,
		.poolSizeCount = 1,
		.pPoolSizes = &size};
	VkDescriptorSetAllocateInfo set = {
		.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO, .descriptorSetCount = 1};
	const VkDescriptorBufferInfo range = {j->buffer, 0, VK_WHOLE_SIZE};
	VkWriteDescriptorSet write = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
		.descriptorCount = 1,
		.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
		.pBufferInfo = &range};

	MUST(vkCreateDescriptorSetLayout(j->device, &layout, NULL, &j->set_layout));
	MUST(vkCreateDescriptorPool(j->device, &pool, NULL, &j->sets));
	set.descriptorPool = j->sets;
	set.pSetLayouts = &j->set_layout;
	MUST(vkAllocateDescriptorSets(j->device, &set, &j->set));
	write.dstSet = j->set;
	vkUpdateDescriptorSets(j->device, 1, &write, 0, NULL);
}

static void make_pipeline(struct job *j)
{
	const VkPushConstantRange push = {VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(uint32_t)};
	const VkPipelineLayoutCreateInfo layout = {
		.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
		.setLayoutCount = 1,
		.pSetLayouts = &j->set_layout,
		.pushConstantRangeCount = 1,
		.pPushConstantRanges = &push};
	const VkShaderModuleCreateInfo module = {
		.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
		.codeSize = sizeof(vulkan_steps),
		.pCode = vulkan_steps};
	VkComputePipelineCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
		.stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
			.stage = VK_SHADER_STAGE_COMPUTE_BIT,
			.pName = "main"}};

	MUST(vkCreatePipelineLayout(j->device, &layout, NULL, &j->layout));
	MUST(vkCreateShaderModule(j->device, &module, NULL, &j->module));
	info.stage.module = j->module;
	info.layout = j->layout;
	MUST(vkCreateComputePipelines(j->device, NULL, 1, &info, NULL, &j->pipeline));
}

static void record(struct job *j)
{
	const VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
	VkCommandBufferAllocateInfo info = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandBufferCount = 1};
	const VkCommandBufferBeginInfo begin = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
		.flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT};
	const VkMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
		.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
		.dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
				 VK_ACCESS_HOST_READ_BIT};

	MUST(vkCreateCommandPool(j->device, &pool, NULL, &j->pool));
	info.commandPool = j->pool;
	MUST(vkAllocateCommandBuffers(j->device, &info, &j->commands));
	MUST(vkBeginCommandBuffer(j->commands, &begin));
	vkCmdBindPipeline(j->commands, VK_PIPELINE_BIND_POINT_COMPUTE, j->pipeline);
	vkCmdBindDescriptorSets(
		j->commands, VK_PIPELINE_BIND_POINT_COMPUTE, j->layout, 0, 1, &j->set, 0, NULL);
	vkCmdPushConstants(j->commands, j->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
		sizeof(opt.steps), &opt.steps);
	vkCmdDispatch(j->commands, WORDS / 64, 1, 1);
	vkCmdPipelineBarrier(j->commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
		VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier,
		0, NULL, 0, NULL);
	MUST(vkEndCommandBuffer(j->commands));
}

static void make_sync(struct job *j)
{
	const VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
	const VkSemaphoreTypeCreateInfo type = {
		.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
		.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
	const VkSemaphoreCreateInfo chain = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO,
		.pNext = is(opt.chain, "timeline") ? &type : NULL};

	MUST(vkCreateFence(j->device, &fence, NULL, &j->fence));
	if (!is(opt.chain, "none"))
		MUST(vkCreateSemaphore(j->device, &chain, NULL, &j->chain));
}

static void end(struct job *j)
{
	VkDevice d = j->device;

	vkDestroySemaphore(d, j->chain, NULL);
	vkDestroyFence(d, j->fence, NULL);
	vkDestroyCommandPool(d, j->pool, NULL);
	vkDestroyPipeline(d, j->pipeline, NULL);
	vkDestroyShaderModule(d, j->module, NULL);
	vkDestroyPipelineLayout(d, j->layout, NULL);
	vkDestroyDescriptorPool(d, j->sets, NULL);
	vkDestroyDescriptorSetLayout(d, j->set_layout, NULL);
	vkDestroyBuffer(d, j->buffer, NULL);
	vkFreeMemory(d, j->memory, NULL);
	vkDestroyDevice(d, NULL);
	vkDestroyInstance(j->instance, NULL);
}

/* --- its work --- */

static void submit_1(struct job *j, VkFence fence)
{
	const uint64_t to = j->value + 1;
	const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
	const VkTimelineSemaphoreSubmitInfo values = {
		.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
		.waitSemaphoreValueCount = 1,
		.pWaitSemaphoreValues = &j->value,
		.signalSemaphoreValueCount = 1,
		.pSignalSemaphoreValues = &to};
	const VkSubmitInfo batch = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
		.pNext = is(opt.chain, "timeline") ? &values : NULL,
		.waitSemaphoreCount = j->signalled,
		.pWaitSemaphores = &j->chain,
		.pWaitDstStageMask = &stage,
		.commandBufferCount = 1,
		.pCommandBuffers = &j->commands,
		.signalSemaphoreCount = !is(opt.chain, "none"),
		.pSignalSemaphores = &j->chain};

	MUST(vkQueueSubmit(j->queue, 1, &batch, fence));
}

static void submit_2(struct job *j, VkFence fence)
{
	PFN_vkQueueSubmit2 submit =
		(PFN_vkQueueSubmit2)vkGetDeviceProcAddr(j->device, "vkQueueSubmit2");
	const VkCommandBufferSubmitInfo commands = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_SUBMIT_INFO,
		.commandBuffer = j->commands};
	VkSemaphoreSubmitInfo wait = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO,
		.semaphore = j->chain,
		.value = j->value,
		.stageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT};
	VkSemaphoreSubmitInfo signal = wait;
	const VkSubmitInfo2 batch = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO_2,
		.waitSemaphoreInfoCount = j->signalled,
		.pWaitSemaphoreInfos = &wait,
		.commandBufferInfoCount = 1,
		.pCommandBufferInfos = &commands,
		.signalSemaphoreInfoCount = !is(opt.chain, "none"),
		.pSignalSemaphoreInfos = &signal};

	signal.value++;
	MUST(submit(j->queue, 1, &batch, fence));
}

static void wait_value(struct job *j)
{
	const VkSemaphoreWaitInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
		.semaphoreCount = 1,
		.pSemaphores = &j->chain,
		.pValues = &j->value};

	MUST(vkWaitSemaphores(j->device, &info, UINT64_MAX));
}

static void some(struct job *j)
{
	const bool by_fence = is(opt.wait, "fence");

	for (unsigned i = 0; i < opt.depth; i++) {
		VkFence fence = by_fence && i + 1 == opt.depth ? j->fence : VK_NULL_HANDLE;

		(opt.how == 2 ? submit_2 : submit_1)(j, fence);
		j->signalled = !is(opt.chain, "none");
		j->value++;
	}
	if (by_fence) {
		MUST(vkWaitForFences(j->device, 1, &j->fence, VK_TRUE, UINT64_MAX));
		MUST(vkResetFences(j->device, 1, &j->fence));
	} else if (is(opt.wait, "queue")) {
		MUST(vkQueueWaitIdle(j->queue));
	} else if (is(opt.wait, "device")) {
		MUST(vkDeviceWaitIdle(j->device));
	} else {
		wait_value(j);
	}
	j->done += opt.depth;
}

/* n steps of x -> a x + c are one such step. */
static unsigned wrong_words(struct job *j)
{
	uint32_t a = 1664525, c = 1013904223, all_a = 1, all_c = 0;
	unsigned wrong = 0;

	for (uint64_t n = j->done * opt.steps; n; n /= 2) {
		if (n & 1) {
			all_c = a * all_c + c;
			all_a *= a;
		}
		c = a * c + c;
		a *= a;
	}
	for (uint32_t i = 0; i < WORDS; i++)
		wrong += j->word[i] != all_a * i + all_c;
	return wrong;
}

static void *work(void *arg)
{
	struct job *j = arg;
	unsigned rounds = 0;

	while (!stop && (!opt.count || j->done < opt.count)) {
		some(j);
		if (!opt.count)
			say("at %llu 0\n", (unsigned long long)j->done);
		if (!rounds++)
			say("first\n");
	}
	j->wrong = wrong_words(j);
	return NULL;
}

static struct job *only; /* the one there is, for `share` and `lost` */

/* What the program has on the device is over, with an error. */
static void lose(void)
{
	say("lost %d\n", vkDeviceWaitIdle(only->device));
	while (!stop)
		usleep(1000);
	vkDestroyDevice(only->device, NULL);
	vkDestroyInstance(only->instance, NULL);
	free(only);
	say("done 0 wrong 0\n");
	exit(0);
}

static VkResult share(void)
{
	const bool opaque = is(opt.share, "opaque");
	const VkMemoryGetFdInfoKHR memory = {.sType = VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR,
		.memory = only->memory,
		.handleType = opaque ? VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT
				     : VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT};
	const VkSemaphoreGetFdInfoKHR semaphore = {
		.sType = VK_STRUCTURE_TYPE_SEMAPHORE_GET_FD_INFO_KHR, .semaphore = only->chain};
	const VkImportSemaphoreFdInfoKHR import_semaphore = {
		.sType = VK_STRUCTURE_TYPE_IMPORT_SEMAPHORE_FD_INFO_KHR, .semaphore = only->chain};
	const VkFenceGetFdInfoKHR fence = {
		.sType = VK_STRUCTURE_TYPE_FENCE_GET_FD_INFO_KHR, .fence = only->fence};
	const VkImportFenceFdInfoKHR import_fence = {
		.sType = VK_STRUCTURE_TYPE_IMPORT_FENCE_FD_INFO_KHR, .fence = only->fence};
	int fd;

#define CALL(symbol, ...)           \
	if (is(opt.share, #symbol)) \
	return ((PFN_##symbol)vkGetDeviceProcAddr(only->device, #symbol))(only->device, __VA_ARGS__)
	CALL(vkGetSemaphoreFdKHR, &semaphore, &fd);
	CALL(vkImportSemaphoreFdKHR, &import_semaphore);
	CALL(vkGetFenceFdKHR, &fence, &fd);
	CALL(vkImportFenceFdKHR, &import_fence);
	return ((PFN_vkGetMemoryFdKHR)vkGetDeviceProcAddr(only->device, "vkGetMemoryFdKHR"))(
		only->device, &memory, &fd);
}

/* Not by stdio: a thread that reads stdin has its lock, and newer C libraries take that in exit().
 */
static void *listen(void *arg)
{
	char c, last = '\n';

	for (; read(STDIN_FILENO, &c, 1) == 1; last = c) {
		if (last == '\n' && c == 's')
			stop = true;
		else if (last == '\n' && c == 'x')
			say("shared %d\n", share());
	}
	if (!stop && !opt.count)
		_exit(4);
	return NULL;
}

static void read_option(const char *arg)
{
	const char *value = strchr(arg, '=') ? strchr(arg, '=') + 1 : "";

#define NUMBER(name)                                 \
	if (!strncmp(arg, #name "=", sizeof(#name))) \
		opt.name = (unsigned)atoi(value);
#define WORD(name)                                   \
	if (!strncmp(arg, #name "=", sizeof(#name))) \
		opt.name = value;
	NUMBER(devices)
	NUMBER(api)
	NUMBER(depth)
	NUMBER(how)
	WORD(timeline)
	WORD(chain)
	WORD(wait)
	WORD(share)
	if (is(arg, "swapchain"))
		opt.swapchain = true;
	if (is(arg, "fork"))
		opt.fork = true;
	if (is(arg, "late"))
		opt.late = true;
	if (is(arg, "lost"))
		opt.lost = true;
}

static void make(struct job *j)
{
	make_instance(j);
	make_device(j);
	make_buffer(j);
	make_set(j);
	make_pipeline(j);
	record(j);
	make_sync(j);
}

static struct job *late;

static void end_late(void)
{
	end(late);
	free(late);
}

/* Only with what it makes itself: lavapipe's threads for its parent's device are not there. */
static bool child_works(void)
{
	struct job j = {.done = 0};
	int status = 1;
	pid_t pid = fork();

	if (!pid) {
		make(&j);
		some(&j);
		j.wrong = wrong_words(&j);
		end(&j);
		_exit(j.wrong != 0);
	}
	return waitpid(pid, &status, 0) == pid && !status;
}

int main(int argc, char **argv)
{
	struct job *job;
	pthread_t listener;
	unsigned long long done = 0;
	unsigned wrong = 0;
	int i = 1;

	for (; i < argc && (argv[i][0] < '0' || argv[i][0] > '9'); i++)
		read_option(argv[i]);
	opt.steps = i < argc ? (unsigned)atoi(argv[i]) : 100;
	opt.count = i + 1 < argc ? strtoull(argv[i + 1], NULL, 10) : 0;
	/* Stays loaded, so that a leak checker knows whose its leaks are. */
	dlopen("libvulkan_lvp.so", RTLD_LAZY | RTLD_NODELETE);
	only = job = calloc(opt.devices, sizeof(*job));
	if (opt.late) {
		late = job;
		atexit(end_late);
	}
	for (unsigned k = 0; k < opt.devices; k++)
		make(&job[k]);
	say("ready\n");
	pthread_create(&listener, NULL, listen, NULL);
	pthread_detach(listener);
	for (unsigned k = 0; k < opt.devices; k++)
		pthread_create(&job[k].thread, NULL, work, &job[k]);
	for (unsigned k = 0; k < opt.devices; k++)
		pthread_join(job[k].thread, NULL);
	if (opt.fork) {
		wrong += !child_works();
		done += opt.depth;
	}
	for (unsigned k = 0; k < opt.devices; k++) {
		done += job[k].done;
		wrong += job[k].wrong;
		if (!opt.late)
			end(&job[k]);
	}
	if (!opt.late)
		free(job);
	say("done %llu wrong %u\n", done, wrong);
	return wrong != 0;
}
