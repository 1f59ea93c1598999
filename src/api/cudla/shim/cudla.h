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
 * Locks: those of the engine (shim/queues.h).
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

bool fm_cudla_is_standalone(cudlaDevHandle device);
void fm_cudla_made(cudlaDevHandle device, uint64_t number, uint32_t flags);
/* The handle is about to end, and another one may have its address as soon as it has. What it was
 * made as, for fm_cudla_stays(): the library has refused. */
uintptr_t fm_cudla_ends(cudlaDevHandle device);
void fm_cudla_stays(cudlaDevHandle device, uintptr_t as);
