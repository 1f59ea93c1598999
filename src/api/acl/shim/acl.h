/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AscendCL's shim and its hwqueues (level 1), within the module.
 *
 * Owns: an XQueue for each stream that the program launches on, and one for each thread that makes
 * calls without a stream, in each context; the set of streams that are no queues.
 *
 * Locks: the lock of the engine's map (shim/queues.h), also to look up a queue, since another
 * thread may end the device during a call; that of captures (shim/captures.h), held while the agent
 * puts an event of ours into a stream.
 *
 * Threads: the program's; the agent and the watcher (api/watch.h), which call the library in the
 * queue's context.
 */
#pragma once
#include "api/acl/core/core.h"
#include "api/acl/core/tune.h"
#include "api/watch.h"
#include "shim/captures.h"
#include "shim/progress.h"

#define CALLS_DEF    "api/acl/calls.def"
#define CALLS_RESULT aclError
#include "shim/calls/rows.h"

/* The functions that we call ourselves. NULL: no library is loaded, or it lacks some that even
 * level 1 needs. */
static inline const struct fm_acl_driver *fm_acl_driver(void)
{
	return fm_calls_driver();
}

/* The library may call our functions as part of another call, and so may we: such a call is not
 * counted. */
extern __thread unsigned fm_acl_inside __attribute__((tls_model("initial-exec")));
/* --- queue.c --- */

struct fm_acl_queue {
	FM_SHIM_ENTRY;
	struct fm_watched watch;
	const struct fm_acl_driver *acl;
	aclrtContext context;
	aclrtStream stream;
	int32_t device;
	/* No event is put there or asked for any more; none is destroyed. The queue's end waits
	 * for our calls. */
	_Atomic bool gone, left;
	_Atomic unsigned calls;
	_Atomic unsigned under_way; /* events */
	/* Calls of the program's that use the XQueue, and the map. disturbed: another thread has
	 * ended what is under way, perhaps during such calls. */
	_Atomic unsigned users;
	bool disturbed; /* under the lock of the map */

	struct fm_shim_progress progress;
	_Atomic uint64_t ours; /* events */
};

static inline struct fm_acl_queue *fm_acl_queue_of(struct fm_shim_entry *e)
{
	return fm_container(e, struct fm_acl_queue, entry);
}

extern const struct fm_hw_ops fm_hw_acl, fm_hw_acl_thread;
void fm_acl_queue_init(struct fm_acl_queue *q);
/* The library's call that ends it comes next: by then nothing of ours uses it. */
void fm_acl_queue_ends(struct fm_shim_entry *e, bool wait);

/* What the library keeps as the thread's last error is the program's. Ours may replace an error
 * that it has not asked for yet, but must not be the only one: around calls of ours that may fail.
 */
aclError fm_acl_last_error(const struct fm_acl_driver *acl);
void fm_acl_take_own_error(const struct fm_acl_driver *acl, aclError before);

/* --- streams.c --- */

/* The queue for a command, made at the first one. NULL: the call is not scheduled. It stays until
 * fm_acl_leave(). */
struct fm_acl_queue *fm_acl_enter(aclrtStream stream, const char *call);
void fm_acl_leave(struct fm_acl_queue *q);
/* One more call that only orders. A stream without commands has no state that it would change. */
void fm_acl_order(aclrtStream stream);

/* The program begins to wait for the stream. */
struct fm_shim_mark fm_acl_waits(aclrtStream stream, uint64_t now);
/* The library has said that everything before the mark is finished. */
void fm_acl_waited(const struct fm_shim_mark *m, uint64_t since);
/* The library has said so, and the program has put nothing there since; only we may have. */
bool fm_acl_idle_but_for_us(const struct fm_shim_mark *m);

/* Marks of the queues of the thread's context. */
void fm_acl_marks(struct fm_shim_marks *m);
void fm_acl_synced(const struct fm_shim_marks *m);

/* A stream was made, and is this new one; it ends, with this function before it does. */
void fm_acl_made(aclrtStream stream, uint32_t flags);
void fm_acl_ends(aclrtStream stream);
/* What is in it ends, with this function before that. Other threads may be in calls for it, as they
 * may when the device or everything ends. */
void fm_acl_aborts(aclrtStream stream);
void fm_acl_context_ends(aclrtContext context);
void fm_acl_device_ends(int32_t device);
void fm_acl_all_ends(void);

/* Which streams are being captured. */
FM_COLD bool fm_acl_capturing(aclrtStream stream); /* true also if that cannot be known */
void fm_acl_capture_begins(aclrtStream stream);    /* before the library's call */
void fm_acl_capture_begun(aclrtStream stream, aclError rc);
void fm_acl_capture_ended(aclrtStream stream, aclError rc);
