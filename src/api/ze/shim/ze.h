/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Level Zero's shim, within the module. Its hwqueues are in api/ze/core.
 *
 * Owns: an XQueue for each command queue and each immediate list that commands came to; what each
 * of them was made with; which lists stand behind closed gates.
 *
 * Locks: that of the engine's map (shim/queues.h); made.lock in queues.c, over changes of what was
 * made; those of a hwqueue (api/ze/core/core.h).
 *
 * Threads: the program's; the agent and the watcher (api/watch.h).
 */
#pragma once
#include "api/ze/core/core.h"
#include "base/list.h"
#include "shim/progress.h"

#define CALLS_DEF    "api/ze/calls.def"
#define CALLS_RESULT ze_result_t
#include "shim/calls/rows.h"

/* The functions that we call ourselves. NULL: no loader is there, or it lacks some. */
static inline const struct fm_ze_driver *fm_ze_driver(void)
{
	return fm_calls_driver();
}

/* --- queues.c --- */

struct fm_ze_queue {
	FM_SHIM_ENTRY;
	struct fm_list living; /* under made.lock, until its last reference */
	struct fm_ze_hwq hw;
	struct fm_shim_progress progress;
};

/* Is it an immediate list? */
bool fm_ze_is_immediate(ze_command_list_handle_t list);
/* What it was made with is known from now on; another one may have had the handle before. */
void fm_ze_made(const void *handle, const struct fm_ze_made *made);
/* The queue or immediate list is about to end. */
void fm_ze_queue_ends(const void *handle);
void fm_ze_context_ends(ze_context_handle_t context);

/* These lists are about to be executed on that queue, with its `submit` lock. */
void fm_ze_stands(struct fm_ze_queue *q, uint32_t n, ze_command_list_handle_t *lists);
/* The list is about to be used otherwise: waits while it stands behind a closed gate. */
void fm_ze_list_changes(ze_command_list_handle_t list);

/* --- capture.c --- */

/* Before the driver's call that begins to record the list: nothing of ours is under way into an
 * immediate list any more. */
void fm_ze_capture_begins(void);
void fm_ze_capture_begun(const void *list, ze_result_t rc);
/* Also of a list that is not recorded. */
void fm_ze_capture_ended(const void *list);
void fm_ze_captures_clear(void);

/* In a queue with a closed gate, with what is ours. */
static inline uint64_t fm_ze_backlog(const struct fm_ze_queue *q)
{
	uint64_t gates = atomic_load_explicit(&q->xq->gates_pending, memory_order_relaxed);

	return FM_LIKELY(!gates) ? 0 : fm_slot_pending(q->xq->slot) + 2 * gates;
}
