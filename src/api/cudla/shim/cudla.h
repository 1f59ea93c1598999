/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuDLA's shim, within the module. In hybrid mode a task is a command of the CUDA stream that it is
 * submitted to, and CUDA's shim does the rest (api/cuda/foreign.h). In standalone mode a handle of
 * a device is a hwqueue of level 1. No call says when its tasks have ended, so they count as
 * finished when the call has returned: a program that may not run submits no more.
 *
 * Owns: an XQueue for each standalone handle that tasks were submitted to; mode and device of each
 * handle.
 *
 * Locks: that of the engine's map (shim/queues.h); made.lock in devices.c, over changes of what was
 * made.
 *
 * Threads: the program's; the agent.
 */
#pragma once
#include "api/calls.h"
#include "api/cudla/core/types.h"
#include "shim/queues.h"

#define CALLS_DEF    "api/cudla/calls.def"
#define CALLS_RESULT cudlaStatus
#include "shim/calls/rows.h"

/* --- devices.c --- */

struct fm_cudla_queue {
	FM_SHIM_ENTRY;
};

bool fm_cudla_is_standalone(cudlaDevHandle device);
/* The queue of a standalone handle, made at the first task. NULL: the call is not scheduled, and is
 * counted. */
struct fm_cudla_queue *fm_cudla_queue(cudlaDevHandle device, const char *call);
void fm_cudla_made(cudlaDevHandle device, uint64_t number, uint32_t flags);
void fm_cudla_ends(cudlaDevHandle device);
