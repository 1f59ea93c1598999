/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Vulkan layer for behind ours, with which each family has two queues that share one of the
 * driver's: what stands in one holds up the other, as on a device with fewer channels than queues.
 * It ends a program that waits for a binary semaphore before all that its signal depends on has
 * been submitted (VUID-vkQueueSubmit-pWaitSemaphores-03238), as far as vkQueueSubmit shows. For
 * programs with one instance and one device.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAYER one_
#include "../vulkan_layer.h"

#define FAMILIES 16u

/* The instance's, as looked up while it was made. */
static PFN_vkGetPhysicalDeviceQueueFamilyProperties next_families;

/* The loader writes its table to the first word of what it takes for a queue. */
static struct one {
	void *table;
	VkQueue real;
} second[FAMILIES];
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static VkQueue real(VkQueue queue)
{
	struct one *o = (struct one *)queue;

	return o >= second && o < second + FAMILIES ? o->real : queue;
}

/* --- what has been submitted, of the first family --- */

#define MOST 100000u

struct point {
	VkSemaphore semaphore;
	uint64_t value;        /* 0: it is binary */
	unsigned queue, after; /* a signal: behind so many waits of this queue */
};
static struct point waits[2][MOST], signals[MOST];
static unsigned n_waits[2], passed[2], n_signals;

static bool reached(const struct point *p)
{
	uint64_t value = 0;

	return !p->value ||
	       (NEXT(vkGetSemaphoreCounterValue)(the_device, p->semaphore, &value) == VK_SUCCESS &&
		       value >= p->value);
}

static bool depends_on_nothing(unsigned queue, unsigned after, unsigned depth);

/* Is there a signal for it, whether or not it has happened? */
static bool will_come(const struct point *p, unsigned depth)
{
	if (p->value && reached(p))
		return true;
	for (unsigned i = n_signals; i-- > 0;)
		if (signals[i].semaphore == p->semaphore && signals[i].value >= p->value)
			return depends_on_nothing(signals[i].queue, signals[i].after, depth + 1);
	return false;
}

/* That has not been submitted. */
static bool depends_on_nothing(unsigned queue, unsigned after, unsigned depth)
{
	while (passed[queue] < n_waits[queue] && reached(&waits[queue][passed[queue]]))
		passed[queue]++;
	for (unsigned i = passed[queue]; i < after; i++)
		if (waits[queue][i].value && (depth > 100 || !will_come(&waits[queue][i], depth)))
			return false;
	return true;
}

static const VkTimelineSemaphoreSubmitInfo *values_of(const VkSubmitInfo *b)
{
	const VkBaseInStructure *s = b->pNext;

	while (s && s->sType != VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO)
		s = s->pNext;
	return (const void *)s;
}

static void note(unsigned queue, const VkSubmitInfo *b)
{
	const VkTimelineSemaphoreSubmitInfo *v = values_of(b);

	for (uint32_t i = 0; i < b->waitSemaphoreCount && n_waits[queue] < MOST; i++) {
		struct point p = {.semaphore = b->pWaitSemaphores[i],
			.value = v && i < v->waitSemaphoreValueCount ? v->pWaitSemaphoreValues[i]
								     : 0};

		if (!p.value && !will_come(&p, 0)) {
			fputs("a binary semaphore is waited for too early\n", stderr);
			abort();
		}
		waits[queue][n_waits[queue]++] = p;
	}
	for (uint32_t i = 0; i < b->signalSemaphoreCount && n_signals < MOST; i++)
		signals[n_signals++] = (struct point){b->pSignalSemaphores[i],
			v && i < v->signalSemaphoreValueCount ? v->pSignalSemaphoreValues[i] : 0,
			queue, n_waits[queue]};
}

static VkResult one_vkQueueSubmit(
	VkQueue queue, uint32_t n, const VkSubmitInfo *batches, VkFence fence)
{
	VkResult rc;

	pthread_mutex_lock(&one_at_a_time);
	for (uint32_t i = 0; i < n; i++)
		note(real(queue) != queue, &batches[i]);
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

static VkResult one_vkCreateInstance(
	const VkInstanceCreateInfo *info, const VkAllocationCallbacks *allocator, VkInstance *out)
{
	VkResult rc = create_instance(info, allocator, out);

	if (rc == VK_SUCCESS)
		next_families = NEXT_OF_INSTANCE(vkGetPhysicalDeviceQueueFamilyProperties);
	return rc;
}

static VkResult one_vkCreateDevice(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
	const VkAllocationCallbacks *allocator, VkDevice *out)
{
	VkDeviceQueueCreateInfo queues[FAMILIES];
	VkDeviceCreateInfo less = *info;

	link_device(info);
	for (uint32_t i = 0; i < info->queueCreateInfoCount && i < FAMILIES; i++) {
		queues[i] = info->pQueueCreateInfos[i];
		queues[i].queueCount = 1;
	}
	less.pQueueCreateInfos = queues;
	return create_device(physical, &less, allocator, out);
}

static PFN_vkVoidFunction one_vkGetDeviceProcAddr(VkDevice device, const char *name)
{
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
