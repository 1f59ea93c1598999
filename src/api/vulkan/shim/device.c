/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, from vkCreateDevice to vkDestroyDevice, and their queues. */
#include "vulkan.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct fm_vk_device *devices; /* under fm_vk_lock() */

/* --- queues --- */

struct fm_vk_queue *fm_vk_find(VkQueue handle)
{
	return fm_shim_find((uintptr_t)handle);
}

/* So that its entry is taken out of the map with the device, whether or not it is refused. */
static bool remember(struct fm_vk_device *dev, VkQueue handle)
{
	VkQueue *more;
	bool ok = true;

	pthread_mutex_lock(&dev->lock);
	for (size_t i = 0; i < dev->used_n; i++)
		if (dev->used[i] == handle)
			goto out;
	more = realloc(dev->used, (dev->used_n + 1) * sizeof(VkQueue));
	ok = more;
	if (ok) {
		dev->used = more;
		dev->used[dev->used_n++] = handle;
	}
out:
	pthread_mutex_unlock(&dev->lock);
	return ok;
}

struct fm_vk_queue *fm_vk_queue(VkQueue handle, struct fm_vk_device *dev, const char *call)
{
	const char *left = atomic_load_explicit(&dev->left, memory_order_relaxed);
	struct fm_vk_queue *q;

	if (FM_UNLIKELY(left)) {
		if (*left)
			fm_shim_ungoverned(left);
		return NULL;
	}
	q = fm_shim_look_up((uintptr_t)handle);
	if (FM_LIKELY(q && (void *)q != &fm_shim_refused))
		return q;
	if (!q && (!fm_vk_is_own(dev) || !remember(dev, handle)))
		return NULL;
	return (struct fm_vk_queue *)fm_shim_first((uintptr_t)handle, q, false, call);
}

static bool where(struct fm_shim_place *at)
{
	at->of = fm_vk_device_of((const void *)at->handle);
	at->key = at->handle;
	return at->of;
}

static struct fm_shim_entry *make(struct fm_client *c, const struct fm_shim_place *at)
{
	struct fm_vk_device *dev = fm_vk_device_of((const void *)at->handle);
	struct fm_vk_queue *q = fm_vk_queue_new(dev, (VkQueue)at->handle);

	if (!q)
		return NULL;
	q->key = at->key;
	if (!fm_xq_create(&q->xq, c,
		    &(struct fm_xq_config){.group = at->group,
			    .device = dev->key,
			    .ops = &fm_hw_vulkan,
			    .hwq = q,
			    .in_order = true})) {
		atomic_store(&q->made, true);
		return &q->entry;
	}
	fm_hw_vulkan.release(q, false);
	return NULL;
}

static int may_bind(uintptr_t handle)
{
	struct fm_vk_device *dev = fm_vk_device_of((const void *)handle);

	if (!dev)
		return -EINVAL;
	if (atomic_load(&dev->left) || !fm_vk_is_own(dev))
		return -EOPNOTSUPP;
	return remember(dev, (VkQueue)handle) ? 0 : -ENOSPC;
}

static void fork_prepare(void)
{
	fm_lock_fork_begin();
	fm_vk_lock();
	fm_lock_fork_end();
}

static void fork_child(void)
{
	fm_shim_forget_queues();
}

static const struct fm_shim_queue_ops queues = {
	.where = where,
	.make = make,
	.may_bind = may_bind,
};

const struct fm_shim_api fm_shim_api = {
	.name = "vulkan",
	.queues = &queues,
	.fork_prepare = fork_prepare,
	.fork_done = fm_vk_unlock,
	.fork_child = fork_child,
};

static bool is_queue_of(const struct fm_shim_entry *e, const void *dev)
{
	return fm_container(e, struct fm_vk_queue, entry)->dev == dev;
}

void fm_vk_await_all(struct fm_vk_device *dev)
{
	struct fm_xq *xq[FM_BOARD_SLOTS];
	size_t n = fm_shim_keep(xq, is_queue_of, dev);

	for (size_t i = 0; i < n; i++) {
		if (n > 1)
			fm_xq_await_gates(xq[i]);
		fm_xq_unref(xq[i]);
	}
}

/* --- the beginning of a device --- */

static VkLayerDeviceCreateInfo *link_of(const VkDeviceCreateInfo *info)
{
	VkLayerDeviceCreateInfo *l = (VkLayerDeviceCreateInfo *)info->pNext;

	while (l && (l->sType != VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO ||
			    l->function != VK_LAYER_LINK_INFO))
		l = (VkLayerDeviceCreateInfo *)l->pNext;
	return l;
}

/* As the program wants it, and more; or as the program wants it. Layers below move the link on,
 * wherever they find it. */
static VkResult create(PFN_vkCreateDevice next, struct fm_vk_wish *w, VkPhysicalDevice physical,
	const VkDeviceCreateInfo *info, const VkAllocationCallbacks *allocator, VkDevice *out)
{
	VkLayerDeviceCreateInfo *link = link_of(info);
	VkLayerDeviceLink *below = link->u.pLayerInfo;
	VkResult rc;

	if (w->asks) {
		rc = next(physical, &w->info, allocator, out);
		if (rc == VK_SUCCESS)
			return rc;
		w->timelines = false;
		link->u.pLayerInfo = below;
	}
	return next(physical, info, allocator, out);
}

static void load(struct fm_vk_device *dev, PFN_vkGetDeviceProcAddr get)
{
	struct fm_vk_next *vk = &dev->next;

#define LOAD(symbol) vk->symbol = (PFN_##symbol)get(dev->handle, #symbol);
#define ON_make(symbol, ...)
#define ON_other(kind, symbol, ...) LOAD(symbol)
#include "api/vulkan/calls.def"
	FM_VK_OURS(LOAD)
	vk->signal = (PFN_vkSignalSemaphore)get(dev->handle, "vkSignalSemaphore");
	if (!vk->signal)
		vk->signal = (PFN_vkSignalSemaphore)get(dev->handle, "vkSignalSemaphoreKHR");
	vk->reached =
		(PFN_vkGetSemaphoreCounterValue)get(dev->handle, "vkGetSemaphoreCounterValue");
	if (!vk->reached)
		vk->reached = (PFN_vkGetSemaphoreCounterValue)get(
			dev->handle, "vkGetSemaphoreCounterValueKHR");
	vk->vkGetDeviceProcAddr = get;
}

static struct fm_vk_device *device_new(void)
{
	struct fm_vk_device *dev = calloc(1, sizeof(*dev));

	if (!dev)
		return NULL;
	dev->pid = getpid();
	pthread_rwlock_init(&dev->idle, NULL);
	pthread_mutex_init(&dev->lock, NULL);
	fm_lock_rank(&dev->lock, VK_DEVICE);
	return dev;
}

static void device_free(struct fm_vk_device *dev)
{
	pthread_rwlock_destroy(&dev->idle);
	pthread_mutex_destroy(&dev->lock);
	free(dev->used);
	free(dev);
}

/* Why the layer leaves it alone; "": that is not to be counted; NULL: it does not. */
static const char *left_alone(const VkDeviceCreateInfo *info)
{
	const char *why;

	if (fm_vk_switched_off())
		return "";
	why = fm_vk_left_alone(info);
	if (why)
		fm_shim_client(); /* `fermata ps' shows what is not scheduled */
	return why;
}

VkResult fm_vkCreateDevice(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
	const VkAllocationCallbacks *allocator, VkDevice *out)
{
	VkLayerDeviceCreateInfo *link = link_of(info);
	const struct fm_vk_instance *i = fm_vk_instance_of(physical);
	PFN_vkGetInstanceProcAddr get_instance;
	PFN_vkGetDeviceProcAddr get;
	PFN_vkCreateDevice next;
	struct fm_vk_device *dev;
	struct fm_vk_wish w = {.asks = false};
	VkResult rc;
	bool ok;

	if (!link || !link->u.pLayerInfo || !i)
		return VK_ERROR_INITIALIZATION_FAILED;
	dev = device_new();
	if (!dev)
		return VK_ERROR_OUT_OF_HOST_MEMORY;
	get_instance = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
	get = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
	link->u.pLayerInfo = link->u.pLayerInfo->pNext;
	next = (PFN_vkCreateDevice)get_instance(i->handle, "vkCreateDevice");
	atomic_init(&dev->left, left_alone(info));
	if (!atomic_load(&dev->left)) {
		fm_vk_wish(&w, i, physical, info);
		fm_vk_device_key(i, physical, dev->key);
	}
	rc = next ? create(next, &w, physical, info, allocator, out)
		  : VK_ERROR_INITIALIZATION_FAILED;
	dev->timelines = w.timelines;
	fm_vk_wish_free(&w);
	if (rc != VK_SUCCESS) {
		device_free(dev);
		return rc;
	}
	dev->handle = *out;
	dev->instance = fm_vk_table_of(physical);
	load(dev, get);
	fm_vk_lock();
	ok = fm_handles_set(&fm_vk_devices, fm_vk_table_of(*out), dev);
	if (ok) {
		dev->next_device = devices;
		devices = dev;
	}
	fm_vk_unlock();
	if (ok)
		return rc;
	dev->next.vkDestroyDevice(*out, allocator);
	device_free(dev);
	return VK_ERROR_OUT_OF_HOST_MEMORY;
}

/* --- its end --- */

static bool is_of(struct fm_shim_entry *e, const void *dev)
{
	return fm_container(e, struct fm_vk_queue, entry)->dev == dev;
}

static bool open_gates(struct fm_shim_entry *e, void *dev)
{
	if (is_of(e, dev))
		fm_vk_queue_open(fm_container(e, struct fm_vk_queue, entry));
	return true;
}

/* Gates that stand closed open. What comes is not scheduled, and so there are no more. */
void fm_vk_shared(struct fm_vk_device *dev)
{
	const char *none = NULL;

	if (!fm_vk_wants_all() &&
		atomic_compare_exchange_strong(&dev->left, &none, "vkQueueSubmit (shared)"))
		fm_shim_each(open_gates, dev);
}

/* No other thread of ours calls the driver for it. */
static void end_objects(struct fm_vk_device *dev, uint64_t until)
{
	for (size_t i = 0; i < dev->used_n; i++)
		fm_vk_drain(dev, dev->used[i], until);
	for (struct fm_vk_queue *q = dev->queues; q; q = q->next_of_device)
		fm_vk_queue_end(q);
}

/* The watcher asks about fences with its lock held. So if the lock can be taken, it does not ask
 * about those of a device that was marked as gone before. */
static void await_watcher(void)
{
	struct fm_watched none;

	fm_watch_init(&none, NULL);
	fm_watch_stir(&none);
}

/* The program says that nothing of its own is under way. False: something of ours still is, and
 * may be for ever. Then the device is not called any more. */
static bool end_queues(struct fm_vk_device *dev)
{
	const struct timespec look = {.tv_nsec = FM_VK_END_LOOK};
	uint64_t until = fm_now() + FM_VK_END_MOST;

	fm_shim_each(open_gates, dev);
	for (size_t i = 0; i < dev->used_n; i++)
		fm_shim_close((uintptr_t)dev->used[i], false);
	while (atomic_load(&dev->live)) {
		struct fm_client *c = fm_shim_has_client();
		bool exits = !c || fm_client_exits(c);

		if (exits || fm_now() > until) {
			atomic_store(&dev->gone, true);
			await_watcher();
			if (exits)
				end_objects(dev, until);
			return false;
		}
		nanosleep(&look, NULL);
	}
	end_objects(dev, until);
	return true;
}

static void free_queues(struct fm_vk_device *dev)
{
	struct fm_vk_queue *q, *next;

	for (q = dev->queues; q; q = next) {
		next = q->next_of_device;
		fm_vk_queue_free(q);
	}
}

/* Under fm_vk_lock(). */
static void take_out(struct fm_vk_device *dev)
{
	struct fm_vk_device **at = &devices;

	while (*at && *at != dev)
		at = &(*at)->next_device;
	if (*at)
		*at = dev->next_device;
}

void fm_vk_forsake(uintptr_t instance)
{
	struct fm_vk_device *dev, *next;
	bool any = false;

	fm_vk_lock();
	for (dev = devices; dev; dev = next) {
		next = dev->next_device;
		if (dev->instance != instance)
			continue;
		take_out(dev);
		atomic_store(&dev->gone, true);
		any |= fm_vk_is_own(dev);
	}
	fm_vk_unlock();
	if (any)
		await_watcher();
}

void fm_vkDestroyDevice(VkDevice device, const VkAllocationCallbacks *allocator)
{
	struct fm_vk_device *dev = device ? fm_vk_device_of(device) : NULL;
	PFN_vkDestroyDevice destroy;
	bool ended;

	if (!dev)
		return;
	destroy = dev->next.vkDestroyDevice;
	ended = fm_vk_is_own(dev) && end_queues(dev);
	if (ended)
		free_queues(dev);
	fm_vk_lock();
	take_out(dev);
	fm_handles_erase(&fm_vk_devices, fm_vk_table_of(device), dev);
	fm_vk_unlock();
	destroy(device, allocator);
	if (ended)
		device_free(dev);
}
