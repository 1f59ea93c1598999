/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Vulkan layer for behind ours, with which the device has sparse binding. Buffers made for it are
 * ordinary ones of the driver's. A bind is done by a thread: in the order of the calls, and after
 * the timeline semaphores that it waits for, but whatever the queue's commands do meanwhile, since
 * nothing else orders it. The thread binds the buffer's memory anew and signals. It ends a program
 * in which two threads use a queue at once. For programs with one instance, one device and one
 * queue, whose binds have timeline semaphores alone.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAYER sparse_
#include "../vulkan_layer.h"

#define SPARSE                                                                         \
	(VK_BUFFER_CREATE_SPARSE_BINDING_BIT | VK_BUFFER_CREATE_SPARSE_RESIDENCY_BIT | \
		VK_BUFFER_CREATE_SPARSE_ALIASED_BIT)
#define POINTS 4u

/* The instance's, as looked up while it was made. */
static PFN_vkGetPhysicalDeviceQueueFamilyProperties next_families;
static PFN_vkGetPhysicalDeviceFeatures next_features;
static VkQueue the_queue;

struct job {
	struct job *next;
	VkBuffer buffer;
	VkDeviceMemory memory;
	VkDeviceSize offset;
	uint32_t waits, signals;
	VkSemaphore wait[POINTS], signal[POINTS];
	uint64_t wait_value[POINTS], signal_value[POINTS];
	VkFence fence;
};

static struct {
	pthread_mutex_t lock; /* also of the queue, for the thread's own submissions */
	pthread_cond_t changed;
	struct job *head, **tail; /* what is done is taken out when it has ended */
	bool ends, runs;
	pthread_t thread;
} binds = {.lock = PTHREAD_MUTEX_INITIALIZER,
	.changed = PTHREAD_COND_INITIALIZER,
	.tail = &binds.head};

static void need(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "sparse: %s\n", what);
	abort();
}

static void perform(const struct job *j)
{
	const VkSemaphoreWaitInfo wait = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
		.semaphoreCount = j->waits,
		.pSemaphores = j->wait,
		.pValues = j->wait_value};

	if (j->waits)
		need(!NEXT(vkWaitSemaphores)(the_device, &wait, UINT64_MAX), "vkWaitSemaphores");
	if (j->buffer)
		need(!NEXT(vkBindBufferMemory)(the_device, j->buffer, j->memory, j->offset),
			"vkBindBufferMemory");
	for (uint32_t i = 0; i < j->signals; i++) {
		const VkSemaphoreSignalInfo signal = {
			.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO,
			.semaphore = j->signal[i],
			.value = j->signal_value[i]};

		need(!NEXT(vkSignalSemaphore)(the_device, &signal), "vkSignalSemaphore");
	}
}

static void *binder(void *arg)
{
	struct job *j;

	pthread_mutex_lock(&binds.lock);
	for (;;) {
		while (!binds.head && !binds.ends)
			pthread_cond_wait(&binds.changed, &binds.lock);
		j = binds.head;
		if (!j)
			break;
		pthread_mutex_unlock(&binds.lock);
		perform(j);
		pthread_mutex_lock(&binds.lock);
		if (j->fence)
			need(!NEXT(vkQueueSubmit)(the_queue, 0, NULL, j->fence), "a fence");
		binds.head = j->next;
		if (!binds.head)
			binds.tail = &binds.head;
		free(j);
		pthread_cond_broadcast(&binds.changed);
	}
	pthread_mutex_unlock(&binds.lock);
	return arg;
}

/* --- the queue --- */

static atomic_uint inside;

static void enter(void)
{
	need(!atomic_fetch_add(&inside, 1), "two threads use one queue");
	pthread_mutex_lock(&binds.lock);
}

static VkResult leave(VkResult rc)
{
	pthread_mutex_unlock(&binds.lock);
	atomic_fetch_sub(&inside, 1);
	return rc;
}

static VkResult sparse_vkQueueSubmit(
	VkQueue queue, uint32_t n, const VkSubmitInfo *batches, VkFence fence)
{
	enter();
	return leave(NEXT(vkQueueSubmit)(queue, n, batches, fence));
}

static struct job *job_of(const VkBindSparseInfo *b)
{
	const VkTimelineSemaphoreSubmitInfo *v = b->pNext;
	struct job *j = calloc(1, sizeof(*j));

	need(j && b->bufferBindCount <= 1 && !b->imageBindCount && !b->imageOpaqueBindCount &&
			b->waitSemaphoreCount <= POINTS && b->signalSemaphoreCount <= POINTS,
		"such a bind it does not know");
	need(!(b->waitSemaphoreCount || b->signalSemaphoreCount) ||
			(v && v->sType == VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO &&
				v->waitSemaphoreValueCount == b->waitSemaphoreCount &&
				v->signalSemaphoreValueCount == b->signalSemaphoreCount),
		"a bind with binary semaphores");
	if (b->bufferBindCount) {
		need(b->pBufferBinds->bindCount == 1, "a bind of parts");
		j->buffer = b->pBufferBinds->buffer;
		j->memory = b->pBufferBinds->pBinds->memory;
		j->offset = b->pBufferBinds->pBinds->memoryOffset;
	}
	for (; j->waits < b->waitSemaphoreCount; j->waits++) {
		j->wait[j->waits] = b->pWaitSemaphores[j->waits];
		j->wait_value[j->waits] = v->pWaitSemaphoreValues[j->waits];
	}
	for (; j->signals < b->signalSemaphoreCount; j->signals++) {
		j->signal[j->signals] = b->pSignalSemaphores[j->signals];
		j->signal_value[j->signals] = v->pSignalSemaphoreValues[j->signals];
	}
	return j;
}

static VkResult sparse_vkQueueBindSparse(
	VkQueue queue, uint32_t n, const VkBindSparseInfo *info, VkFence fence)
{
	struct job *j;

	enter();
	need(n, "a bind of nothing");
	the_queue = queue;
	for (uint32_t i = 0; i < n; i++) {
		j = job_of(&info[i]);
		j->fence = i + 1 == n ? fence : VK_NULL_HANDLE;
		*binds.tail = j;
		binds.tail = &j->next;
	}
	if (!binds.runs)
		need(!pthread_create(&binds.thread, NULL, binder, NULL), "no thread");
	binds.runs = true;
	pthread_cond_broadcast(&binds.changed);
	return leave(VK_SUCCESS);
}

static void await_binds(void)
{
	pthread_mutex_lock(&binds.lock);
	while (binds.head)
		pthread_cond_wait(&binds.changed, &binds.lock);
	pthread_mutex_unlock(&binds.lock);
}

static VkResult sparse_vkQueueWaitIdle(VkQueue queue)
{
	await_binds();
	return NEXT(vkQueueWaitIdle)(queue);
}

static VkResult sparse_vkDeviceWaitIdle(VkDevice device)
{
	await_binds();
	return NEXT(vkDeviceWaitIdle)(device);
}

static VkResult sparse_vkCreateBuffer(VkDevice device, const VkBufferCreateInfo *info,
	const VkAllocationCallbacks *allocator, VkBuffer *out)
{
	VkBufferCreateInfo plain = *info;

	plain.flags &= ~(VkBufferCreateFlags)SPARSE;
	return NEXT(vkCreateBuffer)(device, &plain, allocator, out);
}

/* --- the instance and the device --- */

static void sparse_vkGetPhysicalDeviceQueueFamilyProperties(
	VkPhysicalDevice physical, uint32_t *n, VkQueueFamilyProperties *out)
{
	next_families(physical, n, out);
	for (uint32_t i = 0; out && i < *n; i++)
		out[i].queueFlags |= VK_QUEUE_SPARSE_BINDING_BIT;
}

static void sparse_vkGetPhysicalDeviceFeatures(
	VkPhysicalDevice physical, VkPhysicalDeviceFeatures *out)
{
	next_features(physical, out);
	out->sparseBinding = VK_TRUE;
}

static VkResult sparse_vkCreateInstance(
	const VkInstanceCreateInfo *info, const VkAllocationCallbacks *allocator, VkInstance *out)
{
	VkResult rc = create_instance(info, allocator, out);

	if (rc != VK_SUCCESS)
		return rc;
	next_families = NEXT_OF_INSTANCE(vkGetPhysicalDeviceQueueFamilyProperties);
	next_features = NEXT_OF_INSTANCE(vkGetPhysicalDeviceFeatures);
	return rc;
}

static VkResult sparse_vkCreateDevice(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
	const VkAllocationCallbacks *allocator, VkDevice *out)
{
	VkDeviceCreateInfo less = *info;
	VkPhysicalDeviceFeatures features;

	link_device(info);
	if (info->pEnabledFeatures) {
		features = *info->pEnabledFeatures;
		features.sparseBinding = VK_FALSE;
		less.pEnabledFeatures = &features;
	}
	return create_device(physical, &less, allocator, out);
}

static void sparse_vkDestroyDevice(VkDevice device, const VkAllocationCallbacks *allocator)
{
	pthread_mutex_lock(&binds.lock);
	binds.ends = true;
	pthread_cond_broadcast(&binds.changed);
	pthread_mutex_unlock(&binds.lock);
	if (binds.runs)
		pthread_join(binds.thread, NULL);
	NEXT(vkDestroyDevice)(device, allocator);
}

static PFN_vkVoidFunction sparse_vkGetDeviceProcAddr(VkDevice device, const char *name)
{
	OURS(vkGetDeviceProcAddr)
	OURS(vkDestroyDevice)
	OURS(vkQueueSubmit)
	OURS(vkQueueBindSparse)
	OURS(vkQueueWaitIdle)
	OURS(vkDeviceWaitIdle)
	OURS(vkCreateBuffer)
	return device ? next_device(device, name) : NULL;
}

static PFN_vkVoidFunction sparse_vkGetInstanceProcAddr(VkInstance instance, const char *name)
{
	OURS(vkGetInstanceProcAddr)
	OURS(vkCreateInstance)
	OURS(vkCreateDevice)
	OURS(vkGetDeviceProcAddr)
	OURS(vkGetPhysicalDeviceQueueFamilyProperties)
	OURS(vkGetPhysicalDeviceFeatures)
	return instance ? next_instance(instance, name) : NULL;
}
