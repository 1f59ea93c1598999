/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Level Zero as we call it ourselves: the hwqueue of a command queue or of an immediate command
 * list, for the shim, and for commands that try what a device can do.
 *
 * A gate is a barrier that waits for an event which the host signals: it "blocks all following
 * commands from beginning" (zeCommandListAppendBarrier). A tracker is a barrier that signals an
 * event when "all previous commands are completed". On a command queue a list with that barrier is
 * executed; to an immediate list the barrier is appended. Events of a queue are used in turn: as
 * soon as a tracker has come, all that stands in front of it has been passed.
 *
 * Owns: an event pool for each hwqueue, with its events and lists; what trials have shown.
 * Locks: of a hwqueue: `submit` (api/queue_lock.h), which is taken over the driver's calls that put
 * something there, and `gate`, over a signal; one in trial.c, over a trial.
 * Threads: any.
 */
#pragma once
#include "api/hwqueue.h"
#include "api/own.h"
#include "api/queue_lock.h"
#include "api/watch.h"
#include "base/util.h"
#include "tune.h"
#include "types.h"
#include <pthread.h>

#define FM_ZE_LOADER "libze_loader.so.1"

/* What a queue or an immediate list was made with. */
struct fm_ze_made {
	ze_context_handle_t context;
	ze_device_handle_t device;
	ze_command_queue_desc_t desc;
	bool immediate;
};

struct fm_ze_slot {
	ze_event_handle_t event;
	ze_command_list_handle_t list[2]; /* of a queue: with the tracker, with the gate */
	bool closed;                      /* a gate that is not open; under `gate` */
};

struct fm_ze_hwq {
	const struct fm_ze_driver *ze;
	struct fm_ze_made made;
	ze_command_queue_handle_t queue; /* NULL: an immediate list */
	ze_command_list_handle_t list;
	struct fm_watched watch;
	struct fm_queue_lock submit;
	pthread_mutex_t gate;
	ze_event_pool_handle_t pool;
	/* The slot of number n is n % FM_ZE_SLOTS. */
	struct fm_ze_slot slot[FM_ZE_SLOTS];
	_Atomic uint64_t placed;  /* the last number; raised under `submit` */
	_Atomic uint64_t passed;  /* the device has passed all up to this one */
	_Atomic uint32_t closed;  /* gates that are not open */
	_Atomic bool ours;        /* a thread puts something of ours there, with `submit` */
	_Atomic bool ends;        /* nothing of ours is put there any more */
	_Atomic bool gone, stuck; /* its context has ended; it did not come to its end in time */
	_Atomic bool lost;        /* the device, as the driver has said */
	_Atomic unsigned refs;    /* its owner, and each tracker under way */
	bool unproven;            /* level 1, since gates have not been proven on the device */
	void (*free)(struct fm_ze_hwq *q);
};

extern const struct fm_owns fm_ze_owns;

/* The same text for the same device in every process: a GPU's UUID, as of OpenCL and Vulkan, or
 * else its name and its place on the bus. False: the driver does not say its name. */
bool fm_ze_device_key(
	const struct fm_ze_driver *ze, ze_device_handle_t device, char *key, size_t size);

/* For `proof/proof.h`: this device with this driver. False: it has no name. */
bool fm_ze_proof(const struct fm_ze_driver *ze, ze_device_handle_t device, char *text, size_t size);

/* --- queue.c --- */

/* So many lists are being recorded into graphs. Another immediate list may become a part of that by
 * an event, so meanwhile nothing of ours is put into any. Raised by fm_ze_capture_begins(). */
extern _Atomic unsigned fm_ze_captures;

/* A synchronous queue, in which each call waits for its command, has level 1 alone: nothing of ours
 * is put there. */
const struct fm_hw_ops *fm_ze_ops(const struct fm_ze_hwq *q);
/* q is zero. handle: a ze_command_queue_handle_t or, if it was made immediate, a list. free: called
 * once, by any thread, when nothing uses it any more. */
void fm_ze_hwq_init(struct fm_ze_hwq *q, const struct fm_ze_driver *ze,
	const struct fm_ze_made *made, void *handle, void (*free)(struct fm_ze_hwq *q));
void fm_ze_ref(struct fm_ze_hwq *q);
void fm_ze_unref(struct fm_ze_hwq *q);
/* The driver's queue is about to end: opens all gates, and waits until nothing of ours is in it.
 * Bounded. */
void fm_ze_end(struct fm_ze_hwq *q);
/* Is a gate with that number, or one in front of it, closed? */
bool fm_ze_is_behind(struct fm_ze_hwq *q, uint64_t number);

/* --- trial.c --- */

/* Does a queue like this one stand at a gate, and go on when it opens, while this one passes? Tried
 * once for each kind of queue, on a queue of our own. */
bool fm_ze_gates_hold(struct fm_ze_hwq *q);
/* The same of this idle queue itself, for so long; only for a command. */
bool fm_ze_gates_stand(struct fm_ze_hwq *q, uint64_t ns);
void fm_ze_trials_fork_child(void);
