/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the module: the state of the layer, and of each command queue of the program.
 *
 * Owns: an entry for each command queue, the loaders' tables, and what is known of programs and
 * kernels (objects.h).
 * Locks: those of shim/queues.h, of the list of loaders (layer.c), and of programs and kernels
 * (objects.h).
 * Threads: any of the program's, in calls that it makes; the agent, in the hwqueues' operations;
 * callbacks of the driver.
 */
#pragma once
#include "keys.h"
#include "shim/queues.h"
#include "shim/shim.h"

/* One command queue of the program. */
struct fm_opencl_queue {
	FM_SHIM_ENTRY;
	bool in_order;
	cl_command_queue_properties properties;
	uint64_t guard_from; /* kernels that take longer are guarded, if possible */
	unsigned refs;       /* the program's; under the engine's lock */
	struct fm_cl_queue hw;
};

struct fm_cl_layer {
	cl_icd_dispatch next; /* of the first loader: the driver, or the layer below */
};

/* next is set once, before the program's first call can arrive. */
extern struct fm_cl_layer fm_cl_layer;

/* queues.c */
struct fm_opencl_queue *fm_opencl_queue_add(
	cl_command_queue queue, cl_context context, cl_device_id device);
void fm_opencl_queue_retain(cl_command_queue queue);
/* With the program's last reference the XQueue is closed. The driver's release follows. */
void fm_opencl_queue_release(cl_command_queue queue);
unsigned fm_opencl_queue_refs(cl_command_queue queue); /* 0: not scheduled */
/* The program has waited for an event of the queue. Another thread may be releasing the queue. */
void fm_opencl_queue_waited(cl_command_queue queue);

/* Over fork(), so that the child finds whole what is kept of its parent's objects, which it may let
 * go of: the table of programs and kernels. */
void fm_opencl_table_lock(void);
void fm_opencl_table_unlock(void);

static inline struct fm_opencl_queue *fm_opencl_find(cl_command_queue queue)
{
	return fm_shim_look_up((uintptr_t)queue);
}

/* Fill in the layer's functions for rows of calls.def: commands (enqueue.c), those that are about
 * programs (programs.c) and about kernels (kernels.c). */
void fm_opencl_enqueues(cl_icd_dispatch *own);
void fm_opencl_programs(cl_icd_dispatch *own);
void fm_opencl_kernels(cl_icd_dispatch *own);

/* An entry that the driver lacks stays absent. */
#define FM_CL_ENTRY(symbol, ...) \
	if (own->symbol)         \
		own->symbol = shim_##symbol;

/* guard.c: a launch as the program makes it. */
struct fm_opencl_range {
	cl_kernel kernel;
	cl_uint dim;
	const size_t *offset, *global, *local;
	cl_uint n_wait;
	const cl_event *wait;
	cl_event *event;
};

/* Does the environment allow level 3? */
bool fm_opencl_guard_wanted(void);
/* Launches the kernel so that it can be stopped in its middle. For a queue that is scheduled.
 * False: nothing was done, and the caller makes the program's own call. */
bool fm_opencl_guarded(
	struct fm_opencl_queue *q, const struct fm_opencl_range *r, uint64_t key, uint64_t est);
/* The program can set arguments unseen by the layer: from now on no launch is guarded. */
void fm_opencl_blind(void);
