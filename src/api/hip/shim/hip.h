/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HIP's shim and its hwqueues (levels 1 and 2), within the module.
 *
 * Owns: an XQueue for each stream that the program launches on; a word of signal memory for each
 * stream with gates.
 * Locks: those of the engine (shim/queues.h, shim/captures.h).
 * Threads: the program's; the agent and the watcher (api/watch.h), which call the runtime in the
 * relaxed mode of capture, on the queue's device.
 */
#pragma once
#include "api/hip/core/core.h"
#include "api/hip/core/tune.h"
#include "api/watch.h"
#include "shim/captures.h"
#include "shim/progress.h"

#define CALLS_DEF    "api/hip/calls.def"
#define CALLS_RESULT hipError_t
#include "shim/calls/rows.h"

/* The functions that we call ourselves. NULL: no runtime is loaded, or it lacks some that even
 * level 1 needs. */
static inline const struct fm_hip_driver *fm_hip_driver(void)
{
	return fm_calls_driver();
}

/* --- queue.c --- */

struct fm_hip_queue {
	FM_SHIM_ENTRY;
	struct fm_watched watch;
	const struct fm_hip_driver *hip;
	hipStream_t stream;
	int device;
	_Atomic bool thread_gone;
	struct fm_hip_word *word; /* of its gates; NULL: level 1 */

	struct fm_shim_progress progress;
	_Atomic uint64_t ours; /* trackers */
};

extern const struct fm_hw_ops fm_hw_hip;
void fm_hip_queue_init(struct fm_hip_queue *q);

/* The commands in the stream, including events and gates of ours. */
static inline uint64_t fm_hip_backlog(const struct fm_hip_queue *q)
{
	uint64_t gates = atomic_load_explicit(&q->xq->gates_pending, memory_order_relaxed);

	return FM_LIKELY(!gates) ? 0 : fm_slot_pending(q->xq->slot) + 2 * gates;
}
/* Waits before a launch into a stream with so many. */
FM_COLD void fm_hip_await_room(struct fm_hip_queue *q);

/* --- streams.c --- */

/* NULL means the device's stream, or the thread's own. */
static inline hipStream_t fm_hip_stream(hipStream_t stream, bool per_thread)
{
	if (FM_LIKELY(stream))
		return stream;
	return per_thread ? FM_HIP_STREAM_PER_THREAD : FM_HIP_STREAM_LEGACY;
}

static inline bool fm_hip_is_default(hipStream_t stream)
{
	return (uintptr_t)stream <= (uintptr_t)FM_HIP_STREAM_PER_THREAD;
}

FM_COLD bool fm_hip_capturing(hipStream_t stream); /* true also if that cannot be known */

/* Its key in the map; 0: it has none now. stream: from fm_hip_stream(). */
uintptr_t fm_hip_key(hipStream_t stream);
/* The queue of a stream for a launch, made at the first one. NULL: the call is not scheduled, and
 * is counted. */
struct fm_hip_queue *fm_hip_queue(hipStream_t stream, const char *call);
/* NULL: none. */
struct fm_hip_queue *fm_hip_find(hipStream_t stream);

static inline struct fm_shim_mark fm_hip_mark(struct fm_hip_queue *q)
{
	return fm_shim_mark(&q->entry, &q->progress, atomic_load(&q->ours));
}

/* Marks of the queues of the current device. */
void fm_hip_marks(struct fm_shim_marks *m);
void fm_hip_synced(const struct fm_shim_marks *m);
void fm_hip_close_device(void); /* the current one */
