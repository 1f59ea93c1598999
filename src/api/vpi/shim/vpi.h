/* SPDX-License-Identifier: Apache-2.0 */
/*
 * VPI's shim and its hwqueues (level 1), within the module.
 *
 * A tracker is an event that is recorded on the stream: it "is considered signaled when all the
 * tasks captured [...] are completed". Its events are used in turn, and end before the stream does.
 *
 * Owns: an XQueue for each stream that algorithms were submitted to, with its events; the context
 * that each stream was made in.
 *
 * Locks: those of the engine (shim/queues.h); that of each hwqueue, over its events, which is taken
 * under an XQueue's lock and the watcher's.
 *
 * Threads: the program's; the agent and the watcher (api/watch.h).
 */
#pragma once
#include "api/calls.h"
#include "api/vpi/core/core.h"
#include "api/vpi/core/tune.h"
#include "api/watch.h"
#include "shim/queues.h"
#include <pthread.h>

#define CALLS_DEF           "api/vpi/calls.def"
#define CALLS_RESULT        VPIStatus
#define CALLS_RESULT_OF_end void
#include "shim/calls/rows.h"

/* The functions that we call ourselves. NULL: no library is loaded, or it lacks some. */
static inline const struct fm_vpi_driver *fm_vpi_driver(void)
{
	return fm_calls_driver();
}

/* --- streams.c --- */

struct fm_vpi_queue {
	FM_SHIM_ENTRY;
	struct fm_watched watch;
	const struct fm_vpi_driver *vpi;
	VPIStream stream;
	VPIContext context; /* NULL: the one that all threads share */
	pthread_mutex_t lock;
	bool gone;                     /* the stream ends, and no event is left */
	uint64_t recorded, passed;     /* trackers */
	VPIEvent event[FM_VPI_EVENTS]; /* of tracker n: n % FM_VPI_EVENTS */
	_Atomic unsigned refs;         /* its owner's, and one for each tracker on its way */
};

/* The program may ask this thread for the status of its last call: nothing of ours is called. */
extern __thread bool fm_vpi_hushed __attribute__((tls_model("initial-exec")));

/* This thread has just made it; another one may have had the handle before. */
void fm_vpi_stream_made(VPIStream stream);
void fm_vpi_stream_ends(VPIStream stream);
void fm_vpi_context_ends(VPIContext context);
