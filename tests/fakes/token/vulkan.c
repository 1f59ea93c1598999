/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Vulkan layer for below ours: the driver's commands have the token (token.h) while they are
 * executed. A batch with command buffers becomes two: one that waits for what the program has it
 * wait for and signals a timeline semaphore, and one with the command buffers, which waits for
 * another such semaphore. A thread for each queue signals that when the first has come and the
 * token is there, and gives the token back at the second's end.
 *
 * Timeline semaphores are switched on where nothing in the program's chain speaks of them. Of a
 * batch's own chain the values of semaphores are kept. For programs of Vulkan 1.2 and later.
 */
#include "../vulkan_link.h"
#include "token.h"
#include <string.h>
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#define EXPORT     __attribute__((visibility("default")))
#define DEVICES    32u
#define QUEUES     64u
#define SEMAPHORES 32u
#define BATCHES    16u

static struct token *token;

/* The first word of a handle that is dispatched by is its instance's, or its device's. */
static void *table_of(const void *handle)
{
	return *(void *const *)handle;
}

/* Their functions are looked up while they are made: later the loader gives the uppermost layer's.
 */
static struct instance {
	void *table;
	VkInstance handle;
	PFN_vkGetInstanceProcAddr next;
	PFN_vkGetPhysicalDeviceProperties vkGetPhysicalDeviceProperties;
	PFN_vkGetPhysicalDeviceProperties2 vkGetPhysicalDeviceProperties2;
	PFN_vkCreateDevice vkCreateDevice;
	PFN_vkDestroyInstance vkDestroyInstance;
} instances[DEVICES];

static struct device {
	void *table;
	VkDevice handle;
	PFN_vkGetDeviceProcAddr next;
	PFN_vkQueueSubmit vkQueueSubmit;
	PFN_vkQueueSubmit2 vkQueueSubmit2;
	PFN_vkWaitSemaphores vkWaitSemaphores;
	PFN_vkSignalSemaphore vkSignalSemaphore;
	PFN_vkCreateSemaphore vkCreateSemaphore;
	PFN_vkDestroySemaphore vkDestroySemaphore;
	PFN_vkDestroyDevice vkDestroyDevice;
} devices[DEVICES];

static struct queue {
	struct device *device;
	VkQueue handle;
	VkSemaphore come, go; /* come: 2 n - 1 before the n-th command, 2 n behind it; go: n */
	uint64_t submitted, served;
	bool ends;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t thread;
} queues[QUEUES];
static pthread_mutex_t tables_lock = PTHREAD_MUTEX_INITIALIZER;

static void must(VkResult rc, const char *what)
{
	if (rc == VK_SUCCESS)
		return;
	fprintf(stderr, "token: %s: %d\n", what, rc);
	abort();
}

static void must_have(const void *p, const char *what)
{
	must(p ? VK_SUCCESS : VK_ERROR_UNKNOWN, what);
}

/* NULL for the table: a place that is free. */
static struct instance *find_instance(const void *table)
{
	for (unsigned i = 0; i < DEVICES; i++)
		if (instances[i].table == table)
			return &instances[i];
	must_have(NULL, "no such instance, or too many");
	return NULL;
}

static struct instance *instance_of(const void *handle)
{
	struct instance *found;

	pthread_mutex_lock(&tables_lock);
	found = find_instance(table_of(handle));
	pthread_mutex_unlock(&tables_lock);
	return found;
}

static struct device *device_of(const void *handle)
{
	struct device *found = NULL;

	pthread_mutex_lock(&tables_lock);
	for (unsigned i = 0; i < DEVICES && !found; i++)
		if (devices[i].table == table_of(handle))
			found = &devices[i];
	pthread_mutex_unlock(&tables_lock);
	must_have(found, "an unknown device");
	return found;
}

/* --- the queue's thread --- */

static void await(struct queue *q, uint64_t value)
{
	const VkSemaphoreWaitInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
		.semaphoreCount = 1,
		.pSemaphores = &q->come,
		.pValues = &value};

	must(q->device->vkWaitSemaphores(q->device->handle, &info, UINT64_MAX), "vkWaitSemaphores");
}

static void serve(struct queue *q, uint64_t n)
{
	const VkSemaphoreSignalInfo info = {
		.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO, .semaphore = q->go, .value = n};

	await(q, 2 * n - 1);
	token_take(token);
	must(q->device->vkSignalSemaphore(q->device->handle, &info), "vkSignalSemaphore");
	await(q, 2 * n);
	token_give(token);
}

static void *worker(void *arg)
{
	struct queue *q = arg;
	bool more;

	for (;;) {
		pthread_mutex_lock(&q->lock);
		while (q->served == q->submitted && !q->ends)
			pthread_cond_wait(&q->changed, &q->lock);
		more = q->served < q->submitted;
		pthread_mutex_unlock(&q->lock);
		if (!more)
			return NULL;
		serve(q, ++q->served);
	}
}

static VkSemaphore timeline_new(struct device *d)
{
	const VkSemaphoreTypeCreateInfo type = {
		.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
		.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
	const VkSemaphoreCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
	VkSemaphore s;

	must(d->vkCreateSemaphore(d->handle, &info, NULL, &s), "vkCreateSemaphore");
	return s;
}

static struct queue *queue_of(VkQueue handle)
{
	struct device *d = device_of(handle);
	struct queue *q = NULL;

	pthread_mutex_lock(&tables_lock);
	for (unsigned i = 0; i < QUEUES && !q; i++)
		if (queues[i].device == d && queues[i].handle == handle)
			q = &queues[i];
	for (unsigned i = 0; i < QUEUES && !q; i++) {
		if (queues[i].device)
			continue;
		q = &queues[i];
		*q = (struct queue){.device = d,
			.handle = handle,
			.come = timeline_new(d),
			.go = timeline_new(d)};
		pthread_mutex_init(&q->lock, NULL);
		pthread_cond_init(&q->changed, NULL);
		must(pthread_create(&q->thread, NULL, worker, q) ? VK_ERROR_UNKNOWN : VK_SUCCESS,
			"pthread_create");
	}
	pthread_mutex_unlock(&tables_lock);
	must_have(q, "too many queues");
	return q;
}

/* A queue is one thread's at a time, and so is `submitted` but for its own thread. */
static void submitted(struct queue *q, uint64_t n)
{
	pthread_mutex_lock(&q->lock);
	q->submitted += n;
	pthread_cond_signal(&q->changed);
	pthread_mutex_unlock(&q->lock);
}

static void end(struct queue *q)
{
	pthread_mutex_lock(&q->lock);
	q->ends = true;
	pthread_cond_signal(&q->changed);
	pthread_mutex_unlock(&q->lock);
	pthread_join(q->thread, NULL);
	q->device->vkDestroySemaphore(q->device->handle, q->come, NULL);
	q->device->vkDestroySemaphore(q->device->handle, q->go, NULL);
}

/* --- vkQueueSubmit --- */

/* The n-th command's two batches, and what they point to. */
struct pair {
	VkSubmitInfo batch[2];
	VkTimelineSemaphoreSubmitInfo values[2];
	VkPipelineStageFlags stages[SEMAPHORES];
	VkSemaphore signals[SEMAPHORES];
	uint64_t zeros[SEMAPHORES], signal_values[SEMAPHORES], before, go;
};

static const VkTimelineSemaphoreSubmitInfo *values_of(const VkSubmitInfo *b)
{
	const VkBaseInStructure *s = b->pNext;

	while (s && s->sType != VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO)
		s = s->pNext;
	return (const void *)s;
}

static void split(struct queue *q, const VkSubmitInfo *b, uint64_t n, struct pair *p)
{
	const VkTimelineSemaphoreSubmitInfo *v = values_of(b);
	uint32_t waits = b->waitSemaphoreCount, signals = b->signalSemaphoreCount;
	bool wait_values = v && v->waitSemaphoreValueCount == waits;

	if (waits > SEMAPHORES || signals >= SEMAPHORES)
		must(VK_ERROR_UNKNOWN, "too many semaphores");
	memset(p, 0, sizeof(*p));
	p->before = 2 * n - 1;
	p->go = n;
	for (uint32_t i = 0; i < waits; i++)
		p->stages[i] = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
	for (uint32_t i = 0; i < signals; i++) {
		p->signals[i] = b->pSignalSemaphores[i];
		if (v && i < v->signalSemaphoreValueCount)
			p->signal_values[i] = v->pSignalSemaphoreValues[i];
	}
	p->signals[signals] = q->come;
	p->signal_values[signals] = 2 * n;
	p->values[0] = (VkTimelineSemaphoreSubmitInfo){
		.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
		.waitSemaphoreValueCount = waits,
		.pWaitSemaphoreValues = wait_values ? v->pWaitSemaphoreValues : p->zeros,
		.signalSemaphoreValueCount = 1,
		.pSignalSemaphoreValues = &p->before};
	p->batch[0] = (VkSubmitInfo){.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
		.pNext = &p->values[0],
		.waitSemaphoreCount = waits,
		.pWaitSemaphores = b->pWaitSemaphores,
		.pWaitDstStageMask = p->stages,
		.signalSemaphoreCount = 1,
		.pSignalSemaphores = &q->come};
	p->values[1] = (VkTimelineSemaphoreSubmitInfo){
		.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
		.waitSemaphoreValueCount = 1,
		.pWaitSemaphoreValues = &p->go,
		.signalSemaphoreValueCount = signals + 1,
		.pSignalSemaphoreValues = p->signal_values};
	p->stages[0] = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
	p->batch[1] = (VkSubmitInfo){.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
		.pNext = &p->values[1],
		.waitSemaphoreCount = 1,
		.pWaitSemaphores = &q->go,
		.pWaitDstStageMask = p->stages,
		.commandBufferCount = b->commandBufferCount,
		.pCommandBuffers = b->pCommandBuffers,
		.signalSemaphoreCount = signals + 1,
		.pSignalSemaphores = p->signals};
}

static VkResult token_vkQueueSubmit(
	VkQueue queue, uint32_t n, const VkSubmitInfo *batches, VkFence fence)
{
	struct queue *q = queue_of(queue);
	struct pair pairs[BATCHES];
	VkSubmitInfo now[2 * BATCHES];
	uint32_t k = 0, commands = 0;
	VkResult rc;

	must(n > BATCHES ? VK_ERROR_UNKNOWN : VK_SUCCESS, "too many batches");
	for (uint32_t i = 0; i < n; i++) {
		if (!batches[i].commandBufferCount) {
			now[k++] = batches[i];
			continue;
		}
		split(q, &batches[i], q->submitted + ++commands, &pairs[i]);
		now[k++] = pairs[i].batch[0];
		now[k++] = pairs[i].batch[1];
	}
	rc = q->device->vkQueueSubmit(queue, k, now, fence);
	if (rc == VK_SUCCESS)
		submitted(q, commands);
	return rc;
}

/* --- vkQueueSubmit2 --- */

struct pair2 {
	VkSubmitInfo2 batch[2];
	VkSemaphoreSubmitInfo signals[SEMAPHORES], before, go;
};

static VkSemaphoreSubmitInfo point(VkSemaphore s, uint64_t value)
{
	return (VkSemaphoreSubmitInfo){.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO,
		.semaphore = s,
		.value = value,
		.stageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT};
}

static void split2(struct queue *q, const VkSubmitInfo2 *b, uint64_t n, struct pair2 *p)
{
	uint32_t signals = b->signalSemaphoreInfoCount;

	must(signals >= SEMAPHORES ? VK_ERROR_UNKNOWN : VK_SUCCESS, "too many semaphores");
	p->before = point(q->come, 2 * n - 1);
	p->go = point(q->go, n);
	if (signals)
		memcpy(p->signals, b->pSignalSemaphoreInfos, signals * sizeof(p->signals[0]));
	p->signals[signals] = point(q->come, 2 * n);
	p->batch[0] = (VkSubmitInfo2){.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO_2,
		.waitSemaphoreInfoCount = b->waitSemaphoreInfoCount,
		.pWaitSemaphoreInfos = b->pWaitSemaphoreInfos,
		.signalSemaphoreInfoCount = 1,
		.pSignalSemaphoreInfos = &p->before};
	p->batch[1] = (VkSubmitInfo2){.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO_2,
		.waitSemaphoreInfoCount = 1,
		.pWaitSemaphoreInfos = &p->go,
		.commandBufferInfoCount = b->commandBufferInfoCount,
		.pCommandBufferInfos = b->pCommandBufferInfos,
		.signalSemaphoreInfoCount = signals + 1,
		.pSignalSemaphoreInfos = p->signals};
}

static VkResult token_vkQueueSubmit2(
	VkQueue queue, uint32_t n, const VkSubmitInfo2 *batches, VkFence fence)
{
	struct queue *q = queue_of(queue);
	struct pair2 pairs[BATCHES];
	VkSubmitInfo2 now[2 * BATCHES];
	uint32_t k = 0, commands = 0;
	VkResult rc;

	must(n > BATCHES ? VK_ERROR_UNKNOWN : VK_SUCCESS, "too many batches");
	for (uint32_t i = 0; i < n; i++) {
		if (!batches[i].commandBufferInfoCount) {
			now[k++] = batches[i];
			continue;
		}
		split2(q, &batches[i], q->submitted + ++commands, &pairs[i]);
		now[k++] = pairs[i].batch[0];
		now[k++] = pairs[i].batch[1];
	}
	rc = q->device->vkQueueSubmit2(queue, k, now, fence);
	if (rc == VK_SUCCESS)
		submitted(q, commands);
	return rc;
}

/* --- what the device is --- */

static void token_vkGetPhysicalDeviceProperties(
	VkPhysicalDevice physical, VkPhysicalDeviceProperties *out)
{
	const struct instance *i = instance_of(physical);

	i->vkGetPhysicalDeviceProperties(physical, out);
	if (token)
		out->deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
}

static void token_vkGetPhysicalDeviceProperties2(
	VkPhysicalDevice physical, VkPhysicalDeviceProperties2 *out)
{
	const struct instance *i = instance_of(physical);

	i->vkGetPhysicalDeviceProperties2(physical, out);
	if (!token)
		return;
	out->properties.deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
	for (VkBaseOutStructure *s = out->pNext; s; s = s->pNext) {
		if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES)
			memcpy(((VkPhysicalDeviceIDProperties *)s)->deviceUUID, TOKEN_UUID,
				VK_UUID_SIZE);
		if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES)
			memcpy(((VkPhysicalDeviceVulkan11Properties *)s)->deviceUUID, TOKEN_UUID,
				VK_UUID_SIZE);
	}
}

/* --- instances and devices --- */

static void open_token(void)
{
	token = token_open();
}

static VkResult token_vkCreateInstance(
	const VkInstanceCreateInfo *info, const VkAllocationCallbacks *allocator, VkInstance *out)
{
	VkLayerInstanceCreateInfo *link = LINK(
		VkLayerInstanceCreateInfo, VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO, info);
	PFN_vkGetInstanceProcAddr next = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct instance *i;
	VkResult rc;

	pthread_once(&once, open_token);
	link->u.pLayerInfo = link->u.pLayerInfo->pNext;
	rc = ((PFN_vkCreateInstance)next(NULL, "vkCreateInstance"))(info, allocator, out);
	if (rc != VK_SUCCESS)
		return rc;
	pthread_mutex_lock(&tables_lock);
	i = find_instance(NULL);
	*i = (struct instance){.table = table_of(*out), .handle = *out, .next = next};
#define LOAD_I(symbol) i->symbol = (PFN_##symbol)next(*out, #symbol);
	LOAD_I(vkGetPhysicalDeviceProperties)
	LOAD_I(vkGetPhysicalDeviceProperties2)
	LOAD_I(vkCreateDevice)
	LOAD_I(vkDestroyInstance)
	pthread_mutex_unlock(&tables_lock);
	return rc;
}

static void token_vkDestroyInstance(VkInstance instance, const VkAllocationCallbacks *allocator)
{
	struct instance *i = instance ? instance_of(instance) : NULL;
	PFN_vkDestroyInstance destroy;

	if (!i)
		return;
	destroy = i->vkDestroyInstance;
	pthread_mutex_lock(&tables_lock);
	i->table = NULL;
	pthread_mutex_unlock(&tables_lock);
	destroy(instance, allocator);
}

/* Does anything in the chain speak of timeline semaphores? */
static bool speaks(const void *chain)
{
	const VkBaseInStructure *s = chain;

	while (s && s->sType != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES &&
		s->sType != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES)
		s = s->pNext;
	return s;
}

static void load(struct device *d)
{
#define LOAD(symbol) d->symbol = (PFN_##symbol)d->next(d->handle, #symbol);
	LOAD(vkQueueSubmit)
	LOAD(vkQueueSubmit2)
	LOAD(vkWaitSemaphores)
	LOAD(vkSignalSemaphore)
	LOAD(vkCreateSemaphore)
	LOAD(vkDestroySemaphore)
	LOAD(vkDestroyDevice)
	if (!d->vkQueueSubmit2)
		d->vkQueueSubmit2 = (PFN_vkQueueSubmit2)d->next(d->handle, "vkQueueSubmit2KHR");
	must_have((void *)d->vkWaitSemaphores, "vkWaitSemaphores");
}

static VkResult token_vkCreateDevice(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
	const VkAllocationCallbacks *allocator, VkDevice *out)
{
	VkLayerDeviceCreateInfo *link =
		LINK(VkLayerDeviceCreateInfo, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO, info);
	struct instance *i = instance_of(physical);
	PFN_vkGetDeviceProcAddr next = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
	VkPhysicalDeviceTimelineSemaphoreFeatures timelines = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES,
		.pNext = (void *)info->pNext,
		.timelineSemaphore = VK_TRUE};
	VkDeviceCreateInfo more = *info;
	struct device *d = NULL;
	VkResult rc;

	link->u.pLayerInfo = link->u.pLayerInfo->pNext;
	if (token && !speaks(info->pNext))
		more.pNext = &timelines;
	rc = i->vkCreateDevice(physical, &more, allocator, out);
	if (rc != VK_SUCCESS)
		return rc;
	pthread_mutex_lock(&tables_lock);
	for (unsigned k = 0; k < DEVICES && !d; k++)
		if (!devices[k].table)
			d = &devices[k];
	must_have(d, "too many devices");
	*d = (struct device){.table = table_of(*out), .handle = *out, .next = next};
	load(d);
	pthread_mutex_unlock(&tables_lock);
	return rc;
}

/* The program has waited for all that it submitted. */
static void token_vkDestroyDevice(VkDevice device, const VkAllocationCallbacks *allocator)
{
	struct device *d = device ? device_of(device) : NULL;
	PFN_vkDestroyDevice destroy;

	if (!d)
		return;
	for (unsigned k = 0; k < QUEUES; k++)
		if (queues[k].device == d)
			end(&queues[k]);
	destroy = d->vkDestroyDevice;
	pthread_mutex_lock(&tables_lock);
	for (unsigned k = 0; k < QUEUES; k++)
		if (queues[k].device == d)
			queues[k].device = NULL;
	d->table = NULL;
	pthread_mutex_unlock(&tables_lock);
	destroy(device, allocator);
}

static PFN_vkVoidFunction token_vkGetInstanceProcAddr(VkInstance instance, const char *name);

static PFN_vkVoidFunction token_vkGetDeviceProcAddr(VkDevice device, const char *name)
{
#define OURS(symbol)                \
	if (!strcmp(name, #symbol)) \
		return (PFN_vkVoidFunction)token_##symbol;
	OURS(vkGetDeviceProcAddr)
	OURS(vkDestroyDevice)
	if (token) {
		OURS(vkQueueSubmit)
		OURS(vkQueueSubmit2)
		if (!strcmp(name, "vkQueueSubmit2KHR"))
			return (PFN_vkVoidFunction)token_vkQueueSubmit2;
	}
	return device ? device_of(device)->next(device, name) : NULL;
}

static PFN_vkVoidFunction token_vkGetInstanceProcAddr(VkInstance instance, const char *name)
{
	OURS(vkGetInstanceProcAddr)
	OURS(vkCreateInstance)
	OURS(vkDestroyInstance)
	OURS(vkCreateDevice)
	OURS(vkGetPhysicalDeviceProperties)
	OURS(vkGetPhysicalDeviceProperties2)
	if (!strcmp(name, "vkGetPhysicalDeviceProperties2KHR"))
		return (PFN_vkVoidFunction)token_vkGetPhysicalDeviceProperties2;
	OURS(vkGetDeviceProcAddr)
	return instance ? instance_of(instance)->next(instance, name) : NULL;
}

EXPORT VkResult vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *version)
{
	version->loaderLayerInterfaceVersion = 2;
	version->pfnGetInstanceProcAddr = token_vkGetInstanceProcAddr;
	version->pfnGetDeviceProcAddr = token_vkGetDeviceProcAddr;
	version->pfnGetPhysicalDeviceProcAddr = NULL;
	return VK_SUCCESS;
}
