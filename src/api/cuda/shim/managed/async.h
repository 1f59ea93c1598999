/* SPDX-License-Identifier: Apache-2.0 */
/* Memory in the order of streams: what async.c and pools_kept.c share. */
#pragma once
#include "managed.h"
#include <pthread.h>

/* What is known of a pool whose blocks are ours. */
struct fm_cuda_pool {
	struct fm_cuda_pool *next;
	CUmemoryPool handle; /* NULL: destroyed; it goes with its last block */
	CUdevice dev;
	bool drivers; /* from now on */
	uint64_t used, used_high;
	uint64_t held, reserved_high; /* held: freed, and kept for the next */
	uint64_t threshold;
};

/* Over the pools, and what is freed. */
extern pthread_mutex_t fm_cuda_async_lock __attribute__((visibility("hidden")));
extern struct fm_cuda_pool *fm_cuda_pools __attribute__((visibility("hidden")));

/* The pool that the call means: NULL if what it gives is the driver's. */
struct fm_cuda_pool *fm_cuda_pool_of(CUmemoryPool handle, CUdevice dev);
/* With the lock. NULL: nothing of it is ours. */
struct fm_cuda_pool *fm_cuda_pool_known(CUmemoryPool handle);
/* With the lock. Pools that were destroyed go with their last block. */
void fm_cuda_pools_end(void);
