/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For drivers that do not call back, or late (NVIDIA's 580 for OpenCL: after 0.3 to 20 ms, while
 * the event's status is true at once): a thread asks them whether events have come, the less often
 * the longer one takes.
 *
 * Owns: the thread, started at first use and once more in a forked child that uses it, and what is
 * being watched.
 * Locks: one of its own, held while a driver is asked; not while trackers are told.
 */
#pragma once
#include "api/hwqueue.h"
#include "base/list.h"

struct fm_watched;

struct fm_watch_ops {
	/* Has it come? Also if it cannot be asked about any more. With the watcher's lock. */
	bool (*finished)(struct fm_watched *q, void *event);
	/* It is not needed any more; before its tracker is told. */
	void (*drop)(struct fm_watched *q, void *event);
};

/* Part of a hwqueue, which stays until its last tracker has been told. */
struct fm_watched {
	const struct fm_watch_ops *ops;
	struct fm_list trackers, in_watch;
	uint64_t since; /* the first tracker is on its way since */
};

void fm_watch_init(struct fm_watched *q, const struct fm_watch_ops *ops);

/* Call reached(cookie) soon after the event has come. Events of one queue come in the order in
 * which they are given to watch. Takes the event over, unless it fails. */
int fm_watch_event(struct fm_watched *q, void *event, fm_reached_fn *reached, void *cookie);

/* Something went on in that queue just now (a gate has opened): look at it more often again. */
void fm_watch_stir(struct fm_watched *q);

/* The process exits: no call of a driver from the thread any more. Bounded. */
void fm_watch_stop(void);
