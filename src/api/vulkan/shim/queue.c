/* SPDX-License-Identifier: Apache-2.0 */
/* The operations on one queue. */
#include "api/trial.h"
#include "base/cancel.h"
#include "vulkan.h"
#include <errno.h>
#include <stdlib.h>
#include <time.h>

/* --- fences --- */

static VkFence fence_get(struct fm_vk_queue *q)
{
	const VkFenceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
	VkFence f = VK_NULL_HANDLE;

	pthread_mutex_lock(&q->gate);
	if (q->spares)
		f = q->spare[--q->spares];
	pthread_mutex_unlock(&q->gate);
	if (!f)
		q->dev->next.vkCreateFence(q->dev->handle, &info, NULL, &f);
	return f;
}

/* signalled: it may have been given to the driver. */
static void fence_put(struct fm_vk_queue *q, VkFence f, bool signalled)
{
	const struct fm_vk_next *vk = &q->dev->next;

	if (signalled && vk->vkResetFences(q->dev->handle, 1, &f) != VK_SUCCESS) {
		vk->vkDestroyFence(q->dev->handle, f, NULL);
		return;
	}
	pthread_mutex_lock(&q->gate);
	if (q->spares < FM_ARRAY_LEN(q->spare)) {
		q->spare[q->spares++] = f;
		f = VK_NULL_HANDLE;
	}
	pthread_mutex_unlock(&q->gate);
	if (f)
		vk->vkDestroyFence(q->dev->handle, f, NULL);
}

static VkResult heard(struct fm_vk_device *dev, VkResult rc)
{
	if (rc == VK_ERROR_DEVICE_LOST)
		atomic_store(&dev->lost, true);
	return rc;
}

/* A lost device has finished all that it had. A driver that has no memory for the answer is asked
 * again. */
static bool fence_finished(struct fm_watched *w, void *event)
{
	struct fm_vk_device *dev = fm_container(w, struct fm_vk_queue, watch)->dev;
	VkResult rc;

	if (atomic_load(&dev->gone) || atomic_load(&dev->lost))
		return true;
	rc = heard(dev, dev->next.vkGetFenceStatus(dev->handle, (VkFence)event));
	return rc != VK_NOT_READY && rc != VK_ERROR_OUT_OF_HOST_MEMORY &&
	       rc != VK_ERROR_OUT_OF_DEVICE_MEMORY;
}

static void fence_drop(struct fm_watched *w, void *event)
{
	struct fm_vk_queue *q = fm_container(w, struct fm_vk_queue, watch);

	if (!atomic_load(&q->dev->gone))
		fence_put(q, (VkFence)event, true);
}

static const struct fm_watch_ops watch_ops = {fence_finished, fence_drop};

/* --- submissions of ours --- */

/* The queue for a submission of ours, if nobody else uses it or waits for its device. A full queue
 * might make us wait in the driver until a gate opens; and the gate may be opened by this thread,
 * or by one that waits for it. */
static bool take(struct fm_vk_queue *q)
{
	bool mine;

	if (atomic_load(&q->dev->gone) || (q->xq && fm_vk_backlog(q) > FM_VK_FULL) ||
		pthread_rwlock_tryrdlock(&q->dev->idle))
		return false;
	if (!fm_queue_lock_try(&q->submit, &mine) && !mine)
		return true;
	pthread_rwlock_unlock(&q->dev->idle);
	return false;
}

static void give(struct fm_vk_queue *q)
{
	fm_queue_lock_give(&q->submit);
	pthread_rwlock_unlock(&q->dev->idle);
}

static int track(void *hwq, fm_reached_fn *reached, void *cookie)
{
	struct fm_vk_queue *q = hwq;
	VkFence f = VK_NULL_HANDLE;
	bool ok;
	int rc;
	FM_NO_CANCEL;

	if (atomic_load(&q->dev->lost)) {
		reached(cookie, fm_now());
		return 0;
	}
	if (!take(q))
		return -EBUSY;
	f = fence_get(q);
	ok = f && heard(q->dev, q->dev->next.vkQueueSubmit(q->handle, 0, NULL, f)) == VK_SUCCESS;
	give(q);
	if (!ok) {
		if (f)
			fence_put(q, f, false);
		return -EIO;
	}
	rc = fm_watch_event(&q->watch, (void *)f, reached, cookie);
	/* The fence is in the driver: it ends with the device. */
	return rc;
}

static VkResult put_gate(struct fm_vk_queue *q, uint64_t value, VkFence fence)
{
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

	return heard(q->dev, q->dev->next.vkQueueSubmit(q->handle, 1, &batch, fence));
}

static int deactivate(void *hwq, void **gate)
{
	struct fm_vk_queue *q = hwq;
	VkResult rc;
	FM_NO_CANCEL;

	if (atomic_load(&q->dev->left) || !take(q))
		return -EBUSY;
	rc = put_gate(q, q->placed + 1, VK_NULL_HANDLE);
	if (rc == VK_SUCCESS) {
		pthread_mutex_lock(&q->gate);
		*gate = (void *)(uintptr_t)++q->placed;
		pthread_mutex_unlock(&q->gate);
	}
	give(q);
	/* Another thread may just have said that nothing is scheduled any more, and opened the
	 * gates that it saw. */
	if (rc == VK_SUCCESS && atomic_load(&q->dev->left))
		fm_vk_queue_open(q);
	return rc == VK_SUCCESS ? 0 : -EIO;
}

/* A signal that fails (there is no memory for it) is tried again, since nobody else opens the gate.
 * If it fails for long, later gates and lost() try once more. `gate` held. */
static void signal_wanted(struct fm_vk_queue *q)
{
	const VkSemaphoreSignalInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO,
		.semaphore = q->semaphore,
		.value = q->wanted};
	const struct timespec look = {.tv_nsec = FM_VK_SIGNAL_LOOK};
	VkResult rc;

	for (unsigned i = 0; q->wanted > q->opened && i < FM_VK_SIGNAL_TRIES; i++) {
		if (atomic_load(&q->dev->gone))
			return;
		if (i)
			nanosleep(&look, NULL);
		rc = heard(q->dev, q->dev->next.signal(q->dev->handle, &info));
		if (rc == VK_SUCCESS || rc == VK_ERROR_DEVICE_LOST)
			q->opened = q->wanted;
	}
}

/* Gates open in the order in which they stand in the queue; what is in front of one has opened by
 * then. */
static void open_up_to(struct fm_vk_queue *q, uint64_t value)
{
	pthread_mutex_lock(&q->gate);
	q->wanted = FM_MAX(q->wanted, value);
	signal_wanted(q);
	pthread_mutex_unlock(&q->gate);
}

static void reactivate(void *hwq, void *gate)
{
	struct fm_vk_queue *q = hwq;

	open_up_to(q, (uintptr_t)gate);
	fm_watch_stir(&q->watch);
}

void fm_vk_queue_open(struct fm_vk_queue *q)
{
	uint64_t placed;

	pthread_mutex_lock(&q->gate);
	placed = q->placed;
	pthread_mutex_unlock(&q->gate);
	open_up_to(q, placed);
	fm_watch_stir(&q->watch);
}

void fm_vk_drain(struct fm_vk_device *dev, VkQueue queue, uint64_t until)
{
	const VkFenceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
	VkFence f = VK_NULL_HANDLE;

	if (dev->next.vkCreateFence(dev->handle, &info, NULL, &f) != VK_SUCCESS)
		return;
	if (dev->next.vkQueueSubmit(queue, 0, NULL, f) == VK_SUCCESS)
		dev->next.vkWaitForFences(dev->handle, 1, &f, VK_TRUE, fm_sub_sat(until, fm_now()));
	dev->next.vkDestroyFence(dev->handle, f, NULL);
}

/* --- which level --- */

/* A tracker of a trial's, which may come long after it, keeps the device. */
struct visit {
	struct fm_vk_device *dev;
	fm_reached_fn *reached;
	void *cookie;
};

static void visited(void *arg, uint64_t now)
{
	struct visit *v = arg;

	v->reached(v->cookie, now);
	atomic_fetch_sub(&v->dev->live, 1);
	free(v);
}

static int track_in_trial(void *hwq, fm_reached_fn *reached, void *cookie)
{
	struct fm_vk_queue *q = hwq;
	struct visit *v = malloc(sizeof(*v));
	int rc;

	if (!v)
		return -ENOMEM;
	*v = (struct visit){q->dev, reached, cookie};
	atomic_fetch_add(&q->dev->live, 1);
	rc = track(q, visited, v);
	if (rc) {
		atomic_fetch_sub(&q->dev->live, 1);
		free(v);
	}
	return rc;
}

/* The device's other queues; the caller frees them. */
static unsigned others_of(struct fm_vk_queue *q, struct fm_trial_queue **others)
{
	struct fm_vk_device *dev = q->dev;
	unsigned n = 0, most = 0;

	pthread_mutex_lock(&dev->lock);
	for (struct fm_vk_queue *o = dev->queues; o; o = o->next_of_device)
		most += o != q && atomic_load(&o->made);
	*others = most ? calloc(most, sizeof(**others)) : NULL;
	for (struct fm_vk_queue *o = dev->queues; o && *others && n < most; o = o->next_of_device)
		if (o != q && atomic_load(&o->made))
			(*others)[n++] = (struct fm_trial_queue){track_in_trial, o};
	pthread_mutex_unlock(&dev->lock);
	return n;
}

/* Each queue is tried beside those that there are, in the program's own call. A device without
 * gates is not tried again. A queue that holds up others has none, and they keep theirs. */
static bool gates_hold(struct fm_vk_queue *q)
{
	static const struct fm_hw_ops ops = {.name = "vulkan",
		.track = track_in_trial,
		.host_gate = {.deactivate = deactivate, .reactivate = reactivate}};
	struct fm_trial_queue *others;
	enum fm_trial is;
	unsigned n;

	if (atomic_load(&q->dev->gates) == FM_VK_GATES_NONE)
		return false;
	n = others_of(q, &others);
	is = fm_gate_try(&ops, q, others, n, NULL);
	free(others);
	if (is == FM_TRIAL_HOLDS)
		atomic_store(&q->dev->gates, FM_VK_GATES_HOLD);
	else if (is != FM_TRIAL_STALLS && atomic_load(&q->dev->gates) == FM_VK_GATES_UNTRIED)
		atomic_store(&q->dev->gates, FM_VK_GATES_NONE);
	return is == FM_TRIAL_HOLDS;
}

static unsigned levels(void *hwq)
{
	const VkSemaphoreTypeCreateInfo type = {
		.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
		.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
	const VkSemaphoreCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
	struct fm_vk_queue *q = hwq;
	const struct fm_vk_next *vk = &q->dev->next;

	if (q->dev->timelines && vk->signal &&
		vk->vkCreateSemaphore(q->dev->handle, &info, NULL, &q->semaphore) == VK_SUCCESS &&
		gates_hold(q))
		return 1u << FM_LEVEL_PENDING | 1u << FM_LEVEL_QUEUED;
	return 1u << FM_LEVEL_PENDING;
}

static int sync_queue(void *hwq)
{
	struct fm_vk_queue *q = hwq;

	return q->dev->next.vkQueueWaitIdle(q->handle) == VK_SUCCESS ? 0 : -EIO;
}

/* --- its life --- */

struct fm_vk_queue *fm_vk_queue_new(struct fm_vk_device *dev, VkQueue handle)
{
	struct fm_vk_queue *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	q->dev = dev;
	q->handle = handle;
	fm_queue_lock_init(&q->submit);
	pthread_mutex_init(&q->gate, NULL);
	fm_lock_rank(&q->gate, VK_GATE);
	fm_watch_init(&q->watch, &watch_ops);
	atomic_fetch_add(&dev->live, 1);
	pthread_mutex_lock(&dev->lock);
	q->next_of_device = dev->queues;
	dev->queues = q;
	pthread_mutex_unlock(&dev->lock);
	return q;
}

/* The driver may still have gates of it, so its semaphore ends with the device. */
static void release(void *hwq, bool orphaned)
{
	struct fm_vk_queue *q = hwq;

	atomic_store(&q->made, false); /* trials of other queues leave it out */
	atomic_fetch_sub(&q->dev->live, 1);
}

void fm_vk_queue_end(struct fm_vk_queue *q)
{
	const struct fm_vk_next *vk = &q->dev->next;

	pthread_mutex_lock(&q->gate);
	while (q->spares)
		vk->vkDestroyFence(q->dev->handle, q->spare[--q->spares], NULL);
	if (q->semaphore)
		vk->vkDestroySemaphore(q->dev->handle, q->semaphore, NULL);
	q->semaphore = VK_NULL_HANDLE;
	pthread_mutex_unlock(&q->gate);
}

void fm_vk_queue_free(struct fm_vk_queue *q)
{
	fm_queue_lock_destroy(&q->submit);
	pthread_mutex_destroy(&q->gate);
	free(q);
}

/* Some drivers set all semaphores to their highest value then. */
static bool lost(void *hwq)
{
	struct fm_vk_queue *q = hwq;
	struct fm_vk_device *dev = q->dev;
	uint64_t value = 0;

	if (!q->semaphore || !dev->next.reached || atomic_load(&dev->gone))
		return atomic_load(&dev->lost);
	pthread_mutex_lock(&q->gate);
	signal_wanted(q);
	if (heard(dev, dev->next.reached(dev->handle, q->semaphore, &value)) == VK_SUCCESS &&
		value > q->placed + 1)
		atomic_store(&dev->lost, true);
	pthread_mutex_unlock(&q->gate);
	return atomic_load(&dev->lost);
}

static void quiesce(void *hwq)
{
	fm_watch_stop();
}

const struct fm_hw_ops fm_hw_vulkan = {
	.name = "vulkan",
	.levels = levels,
	.sync = sync_queue,
	.track = track,
	.release = release,
	.quiesce = quiesce,
	.lost = lost,
	.host_gate = {.deactivate = deactivate,
		.reactivate = reactivate,
		.unlocked = true,
		.wide = FM_VK_WIDE},
};
