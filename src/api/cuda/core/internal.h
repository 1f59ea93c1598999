/* SPDX-License-Identifier: Apache-2.0 */
/* Within the module. */
#pragma once
#include "cuda.h"

/* visit.c */
/* Only its own thread can name this stream: it is a default stream of the thread, or of a green
 * context, which is current to one thread alone. */
bool fm_cu_bound(const struct fm_cu_queue *q);
/* Call this before touching streams from any thread: `base` becomes current, and no capture begins
 * meanwhile. */
int fm_cu_visit(struct fm_cu_queue *q);
/* A thread that ends can still name its default stream, unless the driver has ended that already;
 * then the driver would make another one. */
int fm_cu_visit_own(struct fm_cu_queue *q);
void fm_cu_leave_own(struct fm_cu_queue *q);
void fm_cu_visit_fork_child(void);
/* Around what any thread puts into the stream: no capture begins meanwhile, and the stream's
 * context is current. 0; -EBUSY when the stream must not be touched from here just now, -EAGAIN
 * when the call might wait for the device, -EIO when the driver refuses. */
int fm_cu_touch(struct fm_cu_queue *q);
void fm_cu_untouch(struct fm_cu_queue *q);

/* Is the board known to the driver in the queue's context? */
bool fm_cu_reaches(const struct fm_cu_queue *q);

/* spread.c: try it with the first queue of a context, which is current; and hwqueue.h, enter. */
void fm_cu_spread_try(struct fm_cu_queue *q);
bool fm_cu_enter_first(void *hwq, bool to_be_put);

/* sample.c: the gate that is placed next ends the sample under way, and begins one. */
void fm_cu_sample_end(struct fm_cu_queue *q);
void fm_cu_sample_begin(struct fm_cu_queue *q);
int fm_cu_sampled(void *hwq, uint64_t *ns, bool *exact);
void fm_cu_sample_close(struct fm_cu_queue *q);

/* track.c: the ops of level 1. */
int fm_cu_track(void *hwq, fm_reached_fn *reached, void *cookie);
void fm_cu_reap(void *hwq);
void fm_cu_track_close(struct fm_cu_queue *q);
