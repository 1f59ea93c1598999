/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion by watching. Some drivers tell of an event's end only when a thread of theirs gets
 * round to it (NVIDIA's 580: after 0.3 to 20 ms), while the event's status is true at once. For
 * such a device a thread of ours looks at the status of the trackers under way, the less often the
 * longer one takes.
 */
#pragma once
#include "opencl.h"

/* Call reached(cookie) when event has finished. Takes over the reference of event. 0 or negative
 * errno, the event is then still the caller's. */
int fm_cl_watch(struct fm_cl_queue *q, cl_event event, fm_reached_fn *reached, void *cookie);
/* A gate of the queue opened: what is watched there moves again. */
void fm_cl_watch_stir(struct fm_cl_queue *q);
/* The process exits: no more calls to the driver from here. */
void fm_cl_watch_stop(void);
