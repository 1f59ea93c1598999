/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that programs call, by kinds of the table. */
#include "vulkan.h"

/* --- commands --- */

/* What a submission consists of. */
struct content {
	uint64_t key; /* what it costs like; 0: there is no command in it */
	bool signals_binary, waits_binary, waits_timeline;
};

static void add(struct content *c, uint64_t word)
{
	c->key = (c->key ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	c->key |= 1;
}

static bool is_binary(struct fm_vk_device *dev, VkSemaphore s)
{
	return !fm_handles_find(&fm_vk_timelines, fm_vk_semaphore_key(dev, s));
}

static void add_wait(struct content *c, struct fm_vk_device *dev, VkSemaphore s)
{
	if (is_binary(dev, s))
		c->waits_binary = true;
	else
		c->waits_timeline = true;
}

static void look_at_VkSubmitInfo(
	struct content *c, struct fm_vk_device *dev, uint32_t n, const VkSubmitInfo *b)
{
	for (; b && n; n--, b++) {
		for (uint32_t i = 0; i < b->commandBufferCount; i++)
			add(c, (uintptr_t)b->pCommandBuffers[i]);
		for (uint32_t i = 0; i < b->waitSemaphoreCount; i++)
			add_wait(c, dev, b->pWaitSemaphores[i]);
		for (uint32_t i = 0; i < b->signalSemaphoreCount; i++)
			c->signals_binary |= is_binary(dev, b->pSignalSemaphores[i]);
	}
}

static void look_at_VkSubmitInfo2(
	struct content *c, struct fm_vk_device *dev, uint32_t n, const VkSubmitInfo2 *b)
{
	for (; b && n; n--, b++) {
		for (uint32_t i = 0; i < b->commandBufferInfoCount; i++)
			add(c, (uintptr_t)b->pCommandBufferInfos[i].commandBuffer);
		for (uint32_t i = 0; i < b->waitSemaphoreInfoCount; i++)
			add_wait(c, dev, b->pWaitSemaphoreInfos[i].semaphore);
		for (uint32_t i = 0; i < b->signalSemaphoreInfoCount; i++)
			c->signals_binary |= is_binary(dev, b->pSignalSemaphoreInfos[i].semaphore);
	}
}

#define LOOK_AT(batches) \
	_Generic(batches, const VkSubmitInfo *           \
		 : look_at_VkSubmitInfo, const VkSubmitInfo2 * \
		 : look_at_VkSubmitInfo2)

struct launch {
	struct fm_vk_device *dev;
	struct fm_vk_queue *q; /* NULL: the call only goes to the driver */
	bool command;
};

/* A binary semaphore that a submission signals may be waited for in another queue, but not before
 * all that its signal depends on has been submitted, and a closed gate depends on a signal of ours.
 * So the caller is held until the gates are open. What the signal depends on may also be in another
 * queue, by a timeline semaphore, and may be submitted after the signal. So what waits for a binary
 * semaphore, too, is held, until the gates of all queues are open, once a program with several
 * queues has waited for a timeline semaphore in one. */
static void begin(struct launch *l, const struct content *c)
{
	struct fm_xq *xq = l->q->xq;

	if (FM_UNLIKELY(fm_vk_backlog(l->q) > FM_VK_DEEP))
		fm_xq_await_gates(xq);
	l->command = c->key;
	if (l->command)
		fm_xq_begin(xq, c->key, true);
	if (FM_UNLIKELY(c->signals_binary))
		fm_xq_await_gates(xq);
	if (FM_UNLIKELY(c->waits_timeline) && !atomic_load(&l->dev->orders))
		atomic_store(&l->dev->orders, true);
	if (FM_UNLIKELY(c->waits_binary) && atomic_load(&l->dev->orders))
		fm_vk_await_all(l->dev);
	fm_queue_lock_take(&l->q->submit);
}

static VkResult end(struct launch *l, VkResult rc)
{
	if (!l->q)
		return rc;
	fm_queue_lock_give(&l->q->submit);
	if (l->command)
		fm_xq_end(l->q->xq);
	return rc;
}

#define ON_work(symbol, per_thread, name, since, note, params, queue, n, batches) \
	VkResult FM_VK(symbol) CALL_PARAMS(params)                                \
	{                                                                         \
		struct launch l = {.dev = fm_vk_device_of(queue)};                \
		struct content c = {.key = 0};                                    \
                                                                                  \
		l.q = fm_vk_queue(queue, l.dev, #symbol);                         \
		if (FM_LIKELY(l.q)) {                                             \
			LOOK_AT(batches)(&c, l.dev, n, batches);                  \
			begin(&l, &c);                                            \
		}                                                                 \
		return end(&l, l.dev->next.symbol CALL_ARGS(params));             \
	}
#include "api/vulkan/calls.def"

/* --- what only needs the queue for itself --- */

static struct fm_vk_queue *take(VkQueue queue, bool hold)
{
	struct fm_vk_queue *q = fm_vk_find(queue);

	if (q && hold && !atomic_load(&q->dev->left)) {
		fm_xq_await_gates(q->xq);
		if (atomic_load(&q->dev->orders))
			fm_vk_await_all(q->dev);
	}
	if (q)
		fm_queue_lock_take(&q->submit);
	return q;
}

static void give(struct fm_vk_queue **q)
{
	if (*q)
		fm_queue_lock_give(&(*q)->submit);
}

#define ON_order(symbol, per_thread, name, since, note, params, result, queue, hold)              \
	result FM_VK(symbol) CALL_PARAMS(params)                                                  \
	{                                                                                         \
		__attribute__((cleanup(give), unused)) struct fm_vk_queue *q = take(queue, hold); \
                                                                                                  \
		return fm_vk_device_of(queue)->next.symbol CALL_ARGS(params);                     \
	}
#include "api/vulkan/calls.def"

/* --- waiting --- */

static VkResult wait_QUEUE(VkQueue queue)
{
	struct fm_vk_device *dev = fm_vk_device_of(queue);
	struct fm_vk_queue *q = fm_vk_find(queue);
	uint64_t mark, since;
	VkResult rc;

	if (!q)
		return dev->next.vkQueueWaitIdle(queue);
	fm_xq_use(q->xq);
	mark = fm_xq_mark(q->xq);
	since = fm_now();
	fm_xq_waits(q->xq, since);
	fm_queue_lock_take(&q->submit);
	rc = dev->next.vkQueueWaitIdle(queue);
	fm_queue_lock_give(&q->submit);
	if (rc == VK_SUCCESS)
		fm_xq_waited(q->xq, mark, since);
	fm_xq_used(q->xq);
	return rc;
}

static bool is_of(const struct fm_shim_entry *e, const void *dev)
{
	return fm_container(e, struct fm_vk_queue, entry)->dev == dev;
}

/* All queues of the device are this thread's meanwhile. */
static VkResult wait_DEVICE(VkDevice device)
{
	struct fm_vk_device *dev = fm_vk_device_of(device);
	struct fm_xq *xq[FM_BOARD_SLOTS];
	uint64_t mark[FM_BOARD_SLOTS], since = fm_now();
	VkResult rc;
	size_t n;

	if (!fm_vk_is_own(dev))
		return dev->next.vkDeviceWaitIdle(device);
	n = fm_shim_keep(xq, is_of, dev);
	for (size_t i = 0; i < n; i++) {
		mark[i] = fm_xq_mark(xq[i]);
		fm_xq_waits(xq[i], since);
	}
	pthread_rwlock_wrlock(&dev->idle);
	rc = dev->next.vkDeviceWaitIdle(device);
	pthread_rwlock_unlock(&dev->idle);
	for (size_t i = 0; i < n; i++) {
		if (rc == VK_SUCCESS)
			fm_xq_waited(xq[i], mark[i], since);
		fm_xq_unref(xq[i]);
	}
	return rc;
}

#define ON_sync(symbol, per_thread, name, since, note, params, what, of) \
	VkResult FM_VK(symbol) CALL_PARAMS(params)                       \
	{                                                                \
		return wait_##what(of);                                  \
	}
#include "api/vulkan/calls.def"

/* --- semaphores, and what other processes may wait for --- */

/* A program may end a device with semaphores that it has not destroyed, and others get their
 * handles. So what is known of the handle is always set. */
VkResult fm_vkCreateSemaphore(VkDevice device, const VkSemaphoreCreateInfo *info,
	const VkAllocationCallbacks *allocator, VkSemaphore *out)
{
	struct fm_vk_device *dev = fm_vk_device_of(device);
	VkResult rc = dev->next.vkCreateSemaphore(device, info, allocator, out);
	const VkSemaphoreTypeCreateInfo *t = info->pNext;

	while (t && t->sType != VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO)
		t = t->pNext;
	if (rc != VK_SUCCESS)
		return rc;
	fm_vk_lock();
	if (t && t->semaphoreType == VK_SEMAPHORE_TYPE_TIMELINE)
		fm_handles_set(&fm_vk_timelines, fm_vk_semaphore_key(dev, *out), dev);
	else
		fm_handles_erase(&fm_vk_timelines, fm_vk_semaphore_key(dev, *out), NULL);
	fm_vk_unlock();
	return rc;
}

void fm_vkDestroySemaphore(
	VkDevice device, VkSemaphore semaphore, const VkAllocationCallbacks *allocator)
{
	struct fm_vk_device *dev = fm_vk_device_of(device);

	if (semaphore) {
		fm_vk_lock();
		fm_handles_erase(&fm_vk_timelines, fm_vk_semaphore_key(dev, semaphore), dev);
		fm_vk_unlock();
	}
	dev->next.vkDestroySemaphore(device, semaphore, allocator);
}

#define SHARES_vkGetSemaphoreFdKHR    true
#define SHARES_vkImportSemaphoreFdKHR true
#define SHARES_vkGetFenceFdKHR        true
#define SHARES_vkImportFenceFdKHR     true
#define SHARES_vkGetMemoryFdKHR       (info->handleType == VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT)

#define OWN_SEMAPHORE(symbol, params)
#define OWN_LOOK_UP(symbol, params)
#define OWN_SHARE(symbol, params)                                   \
	VkResult FM_VK(symbol) CALL_PARAMS(params)                  \
	{                                                           \
		struct fm_vk_device *dev = fm_vk_device_of(device); \
                                                                    \
		if (SHARES_##symbol)                                \
			fm_vk_shared(dev);                          \
		return dev->next.symbol CALL_ARGS(params);          \
	}
#define ON_own(symbol, per_thread, name, since, note, params, what) OWN_##what(symbol, params)
#include "api/vulkan/calls.def"
