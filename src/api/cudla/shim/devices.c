/* SPDX-License-Identifier: Apache-2.0 */
/* Handles of devices: what they were made for, and those in standalone mode as hwqueues. */
#include "base/lockorder.h"
#include "board/board.h"
#include "cudla.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static struct fm_cudla_queue refused;

/* By handle: four times the device's number, more by 2 if it is standalone, and by 1. */
static struct {
	pthread_mutex_t lock; /* over changes */
	struct fm_handles as;
} made = {.lock = PTHREAD_MUTEX_INITIALIZER};
FM_LOCK_RANK(made.lock, CUDLA_MADE);

static uintptr_t made_as(cudlaDevHandle device)
{
	return (uintptr_t)fm_handles_find(&made.as, (uintptr_t)device);
}

bool fm_cudla_is_standalone(cudlaDevHandle device)
{
	return made_as(device) & 2;
}

/* --- operations --- */

static unsigned levels(void *hwq)
{
	return 1u << FM_LEVEL_PENDING;
}

/* All that can be known to be finished is so when its call returns. */
static int sync_nothing(void *hwq)
{
	return 0;
}

static void release(void *hwq, bool orphaned)
{
	free(hwq);
}

static const struct fm_hw_ops ops = {
	.name = "cudla",
	.levels = levels,
	.sync = sync_nothing,
	.release = release,
};

/* --- queues --- */

struct fm_cudla_queue *fm_cudla_queue(cudlaDevHandle device, const char *call)
{
	struct fm_cudla_queue *q = fm_shim_look_up((uintptr_t)device);

	if (FM_LIKELY(q && q != &refused))
		return q;
	return (struct fm_cudla_queue *)fm_shim_first((uintptr_t)device, q, false, call);
}

static bool where(struct fm_shim_place *at)
{
	at->key = at->handle;
	at->of = (void *)made_as((cudlaDevHandle)at->handle);
	return at->of;
}

static struct fm_shim_entry *make(struct fm_client *c, const struct fm_shim_place *at)
{
	struct fm_cudla_queue *q = calloc(1, sizeof(*q));
	char key[FM_DEVKEY_MAX];
	const struct fm_xq_config config = {
		.group = at->group, .device = key, .ops = &ops, .hwq = q, .in_order = true};

	if (!q)
		return NULL;
	q->key = at->key;
	snprintf(key, sizeof(key), "NVIDIA DLA %u", (unsigned)((uintptr_t)at->of >> 2));
	if (!fm_xq_create(&q->xq, c, &config))
		return &q->entry;
	free(q);
	return NULL;
}

/* --- lives --- */

static void set(cudlaDevHandle device, uintptr_t as)
{
	pthread_mutex_lock(&made.lock);
	if (as)
		fm_handles_set(&made.as, (uintptr_t)device, (void *)as);
	else
		fm_handles_erase(&made.as, (uintptr_t)device, NULL);
	pthread_mutex_unlock(&made.lock);
}

void fm_cudla_made(cudlaDevHandle device, uint64_t number, uint32_t flags)
{
	fm_shim_hear_forks();
	set(device, (uintptr_t)number << 2 | (flags == FM_CUDLA_STANDALONE ? 2 : 0) | 1);
}

void fm_cudla_ends(cudlaDevHandle device)
{
	if (fm_shim_has_client())
		fm_shim_close((uintptr_t)device, false);
	set(device, 0);
}

/* The library does not survive a fork. */
static void fork_child(void)
{
	fm_shim_forget_queues();
	made.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	atomic_store(&made.as.table, NULL);
	made.as.live = 0;
	fm_calls_fork_child();
}

static const struct fm_shim_queue_ops queues = {
	.refused = &refused.entry,
	.where = where,
	.make = make,
};

const struct fm_shim_api fm_shim_api = {
	.name = "cudla",
	.queues = &queues,
	.fork_child = fork_child,
};
