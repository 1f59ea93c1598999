/* SPDX-License-Identifier: Apache-2.0 */
/* Handles of devices: what they were made for, and those in standalone mode as hwqueues. */
#include "board/board.h"
#include "cudla.h"
#include <stdio.h>
#include <stdlib.h>

/* What a handle was made as: four times the device's number, more by 2 if it is standalone, and
 * by 1.
 */
static uintptr_t made_as(cudlaDevHandle device)
{
	return (uintptr_t)fm_shim_made_with(device);
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

static bool where(struct fm_shim_place *at)
{
	at->key = at->handle;
	at->of = (void *)made_as((cudlaDevHandle)at->handle);
	return at->of;
}

static bool init(struct fm_shim_entry *e, const struct fm_shim_place *at,
	struct fm_xq_config *config, char device[FM_DEVKEY_MAX])
{
	config->ops = &ops;
	snprintf(device, FM_DEVKEY_MAX, "NVIDIA DLA %u", (unsigned)((uintptr_t)at->of >> 2));
	return true;
}

/* --- lives --- */

void fm_cudla_made(cudlaDevHandle device, uint64_t number, uint32_t flags)
{
	fm_shim_made(device,
		(void *)((uintptr_t)number << 2 | (flags == FM_CUDLA_STANDALONE ? 2 : 0) | 1));
}

uintptr_t fm_cudla_ends(cudlaDevHandle device)
{
	const uintptr_t as = made_as(device);

	if (fm_shim_has_client())
		fm_shim_close((uintptr_t)device, false);
	fm_shim_made(device, NULL);
	return as;
}

/* Its queue is made anew at the next task. */
void fm_cudla_stays(cudlaDevHandle device, uintptr_t as)
{
	if (as)
		fm_shim_made(device, (void *)as);
}

static const struct fm_shim_queue_ops queues = {
	.where = where,
	.size = sizeof(struct fm_shim_entry),
	.init = init,
};

const struct fm_shim_api fm_shim_api = {
	.name = "cudla",
	.queues = &queues,
	.fork_child = fm_calls_forget,
};
