/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Vulkan layer and its hwqueues (levels 1 and 2), within the module.
 *
 * A gate is an empty batch that waits for a timeline semaphore, which the host signals: all that
 * comes later in the queue waits with it. A tracker is a fence behind an empty submission, about
 * which the watcher (api/watch.h) asks. The program's own submissions reach the driver as they are.
 *
 * Owns: an entry for each instance, device, and queue that commands were submitted to; a timeline
 * semaphore for each queue with gates.
 * Locks: that of the maps (layer.c); of a queue: `submit` (api/queue_lock.h), which is taken over
 * the driver's calls alone, so that the agent can put trackers there while the program is held, and
 * `gate`, over a signal; of a device: `lock`, over lists, and `idle`, which a wait for the whole
 * device takes and a thread that submits for us only tries.
 * Threads: the program's; the agent, which submits trackers and opens gates; the watcher.
 */
#pragma once
#include "api/calls.h"
#include "api/queue_lock.h"
#include "api/watch.h"
#include "base/lockorder.h"
#include "shim/queues.h"
#include "tune.h"
#include <pthread.h>
#include <unistd.h>
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

/* The layer's function for each row of the table has the name of the call, with this in front. */
#define FM_VK(symbol) fm_##symbol

/* Instances are known by the loader's table, to which their physical devices point, too; and so are
 * devices and their queues. */
static inline uintptr_t fm_vk_table_of(const void *dispatchable)
{
	return *(const uintptr_t *)dispatchable;
}

struct fm_vk_instance {
	VkInstance handle;
	uint32_t version; /* that the program asked for */
	bool asks_features;
	PFN_vkGetInstanceProcAddr get;
	/* Looked up while the instance is made: later some loaders (1.3.239) give the uppermost
	 * layer's functions to every caller. NULL where there is none. */
	struct {
#define FM_VK_INSTANCE_CALLS(X)                 \
	X(vkDestroyInstance)                    \
	X(vkEnumeratePhysicalDevices)           \
	X(vkEnumerateDeviceExtensionProperties) \
	X(vkGetPhysicalDeviceProperties)
#define FM_VK_MEMBER(symbol) PFN_##symbol symbol;
		FM_VK_INSTANCE_CALLS(FM_VK_MEMBER)
		PFN_vkGetPhysicalDeviceFeatures2 features;     /* by either name */
		PFN_vkGetPhysicalDeviceProperties2 properties; /* by either name */
	} next;
};

enum fm_vk_gates { FM_VK_GATES_UNTRIED, FM_VK_GATES_HOLD, FM_VK_GATES_NONE };

/* Calls of the driver, or of the next layer: those of the table, and those that we make. NULL where
 * there is none. */
struct fm_vk_next {
#define ON_other(kind, symbol, ...) PFN_##symbol symbol;
#include "api/vulkan/calls.def"
#define FM_VK_OURS(X)       \
	X(vkCreateFence)    \
	X(vkDestroyFence)   \
	X(vkGetFenceStatus) \
	X(vkResetFences)    \
	X(vkWaitForFences)
	FM_VK_OURS(FM_VK_MEMBER)
	PFN_vkSignalSemaphore signal;           /* by either name */
	PFN_vkGetSemaphoreCounterValue reached; /* by either name */
};

struct fm_vk_queue;

struct fm_vk_device {
	VkDevice handle;
	pid_t pid;          /* of the process that made it; see fm_vk_is_own() */
	uintptr_t instance; /* its table */
	struct fm_vk_device *next_device;
	struct fm_vk_next next;
	char key[FM_DEVKEY_MAX]; /* for the scheduler */
	/* Left alone: its calls go to the driver and are counted as this. NULL: it is scheduled. */
	_Atomic(const char *) left;
	bool timelines; /* are switched on */
	_Atomic enum fm_vk_gates gates;
	_Atomic bool orders;   /* the program orders commands by timeline semaphores */
	_Atomic bool lost;     /* as the driver has said */
	_Atomic bool gone;     /* it ends, and that could not be waited for: we do not call it */
	_Atomic unsigned live; /* queues that an XQueue still uses */
	pthread_rwlock_t idle;
	pthread_mutex_t lock;
	struct fm_vk_queue *queues; /* that were made for it */
	VkQueue *used;              /* that commands came to */
	size_t used_n;
};

struct fm_vk_queue {
	FM_SHIM_ENTRY;
	struct fm_watched watch;
	struct fm_vk_device *dev;
	VkQueue handle;
	_Atomic bool made; /* its XQueue is there */
	struct fm_queue_lock submit;
	pthread_mutex_t gate;
	VkSemaphore semaphore;           /* of its gates; VK_NULL_HANDLE: level 1 */
	uint64_t placed, wanted, opened; /* gates: there, to be open, open; under `gate` */
	VkFence spare[8];                /* unsignalled; under `gate` */
	unsigned spares;
	struct fm_vk_queue *next_of_device;
};

/* --- layer.c --- */

extern struct fm_handles fm_vk_devices;   /* by their tables */
extern struct fm_handles fm_vk_timelines; /* semaphores of programs that are timelines */
static inline uintptr_t fm_vk_semaphore_key(const struct fm_vk_device *dev, VkSemaphore s)
{
	return (uintptr_t)s ^ (uintptr_t)dev * UINT64_C(0x9e3779b97f4a7c15);
}
void fm_vk_lock(void);
void fm_vk_unlock(void);
struct fm_vk_instance *fm_vk_instance_of(const void *dispatchable);
static inline struct fm_vk_device *fm_vk_device_of(const void *dispatchable)
{
	return fm_handles_find(&fm_vk_devices, fm_vk_table_of(dispatchable));
}

/* --- features.c: vkCreateDevice with timeline semaphores --- */

/* What the layer puts in the place of the program's struct. */
struct fm_vk_wish {
	VkDeviceCreateInfo info;
	VkPhysicalDeviceTimelineSemaphoreFeatures feature;
	const char **extensions; /* to be freed */
	void *copies;            /* to be freed */
	bool asks;               /* `info` differs from what the program gave */
	bool timelines;          /* they are there if the call succeeds */
};
void fm_vk_wish(struct fm_vk_wish *w, const struct fm_vk_instance *i, VkPhysicalDevice physical,
	const VkDeviceCreateInfo *info);
void fm_vk_wish_free(struct fm_vk_wish *w);
/* Does the user want nothing scheduled? */
bool fm_vk_switched_off(void);
/* Why this device is left alone, in the words of a call that is counted; NULL: it is not. */
const char *fm_vk_left_alone(const VkDeviceCreateInfo *info);
/* Is everything scheduled that can be, because the user wants it so? */
bool fm_vk_wants_all(void);
void fm_vk_device_key(const struct fm_vk_instance *i, VkPhysicalDevice physical, char *key);

/* --- queue.c --- */

extern const struct fm_hw_ops fm_hw_vulkan;
struct fm_vk_queue *fm_vk_queue_new(struct fm_vk_device *dev, VkQueue handle);
/* What was made for it in the driver ends. */
void fm_vk_queue_end(struct fm_vk_queue *q);
void fm_vk_queue_free(struct fm_vk_queue *q);
/* Opens all gates that were ever put there. */
void fm_vk_queue_open(struct fm_vk_queue *q);
/* Waits until the device has passed all that was submitted, but not longer than to that time. */
void fm_vk_drain(struct fm_vk_device *dev, VkQueue queue, uint64_t until);

/* In a queue with a closed gate, with what is ours. */
static inline uint64_t fm_vk_backlog(const struct fm_vk_queue *q)
{
	uint64_t gates = atomic_load_explicit(&q->xq->gates_pending, memory_order_relaxed);

	return FM_LIKELY(!gates) ? 0 : fm_slot_pending(q->xq->slot) + 2 * gates;
}

/* --- device.c --- */

/* A forked child has devices of its parent's, but none of its threads, and maybe locks that those
 * had. What it does with them goes to the driver. */
static inline bool fm_vk_is_own(const struct fm_vk_device *dev)
{
	return dev->pid == getpid();
}
/* The instance with this table ends. Devices of it that the program has not ended are not called
 * any more. */
void fm_vk_forsake(uintptr_t instance);
/* Another process may wait for the device from now on. */
void fm_vk_shared(struct fm_vk_device *dev);
/* Until no queue of the device has a closed gate, if there are several. */
void fm_vk_await_all(struct fm_vk_device *dev);
/* The queue for a command. NULL: it is not scheduled, and was counted. */
struct fm_vk_queue *fm_vk_queue(VkQueue handle, struct fm_vk_device *dev, const char *call);
/* NULL: no command came to it, or it is not scheduled. */
struct fm_vk_queue *fm_vk_find(VkQueue handle);

#define ON_other(kind, symbol, per_thread, name, since, note, params, ...) \
	__typeof__(*(PFN_##symbol)NULL) FM_VK(symbol);
#include "api/vulkan/calls.def"
