/* SPDX-License-Identifier: Apache-2.0 */
/* Within the room: the layer's state and the map from the program's queues to XQueues. */
#pragma once
#include "calls.h"
#include "xqueue/xqueue.h"

#define FM_CL_QUEUES \
	512 /* slots of the map, a power of two; FM_BOARD_SLOTS of them can be in use */

/* One command queue of the program. */
struct fm_shim_queue {
	struct fm_cl_queue hw;
	struct fm_xq *xq;
	bool in_order;
	unsigned refs; /* the program's; under the map's lock */
};

struct fm_cl_layer {
	cl_icd_dispatch next; /* the driver, or the layer below */
	cl_icd_dispatch own;
	_Atomic(struct fm_client *) client; /* of the first governed queue; NULL before */
};

/* The tables are set once, before the program's first call can arrive. */
extern struct fm_cl_layer fm_cl_layer;

/* queues.c */
struct fm_shim_queue *fm_shim_queue_add(
	cl_command_queue queue, cl_context context, cl_device_id device);
void fm_shim_queue_retain(cl_command_queue queue);
/* True when this was the program's last reference: the XQueue is closed, the driver's release
 * follows. */
bool fm_shim_queue_release(cl_command_queue queue);
unsigned fm_shim_queue_refs(cl_command_queue queue); /* 0: not governed */
void fm_shim_ungoverned(void);

/* The map is read at each launch, without a lock: keys are atomic, an entry is written before its
 * key. */
struct fm_shim_map {
	_Atomic(cl_command_queue) key[FM_CL_QUEUES];
	_Atomic(struct fm_shim_queue *) value[FM_CL_QUEUES];
};
extern struct fm_shim_map fm_shim_map;

static inline size_t fm_shim_hash(cl_command_queue queue)
{
	return (size_t)((uintptr_t)queue * UINT64_C(0x9e3779b97f4a7c15) >> 40) % FM_CL_QUEUES;
}

static inline struct fm_shim_queue *fm_shim_find(cl_command_queue queue)
{
	for (size_t i = 0, at = fm_shim_hash(queue); i < FM_CL_QUEUES; i++) {
		cl_command_queue key =
			atomic_load_explicit(&fm_shim_map.key[at], memory_order_acquire);

		if (FM_LIKELY(key == queue))
			return atomic_load_explicit(&fm_shim_map.value[at], memory_order_relaxed);
		if (!key)
			return NULL;
		at = (at + 1) % FM_CL_QUEUES;
	}
	return NULL;
}

/* enqueue.c: fill in the entries of FM_CL_ENQUEUES and FM_CL_MAPS. */
void fm_shim_enqueues(cl_icd_dispatch *own);
