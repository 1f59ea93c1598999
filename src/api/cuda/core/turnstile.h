/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who calls the driver, in each context where launches are guarded. A driver may wait for the
 * device within a call, with a lock that nearly all calls take; and for the device to go on, where
 * launches have left blocks out, the agent has to make calls. So neither comes in where it would
 * wait for the other: while something is stopped no call begins that may wait, and nothing is
 * stopped while there is one.
 *
 * A NULL turnstile is one that everybody passes.
 */
#pragma once
#include "settle.h"

struct fm_cu_turnstile;

/* That of a context: made when the first asks, if `make`. NULL: there is none, or no room. */
struct fm_cu_turnstile *fm_cu_turnstile(CUcontext ctx, bool make);
/* Launches of its context that are to be gone past before anything is stopped. */
struct fm_cu_settle *fm_cu_turnstile_settle(struct fm_cu_turnstile *t);
/* The context has ended; in the child after a fork; the process exits: from now on everybody passes
 * all of them. */
void fm_cu_turnstile_forget(CUcontext ctx);
void fm_cu_turnstile_fork_child(void);
void fm_cu_turnstile_over(void);

/* A call that puts something into a stream. It may wait, too, where a channel is full: so it is
 * begun a little later while something is stopped, unless `anyway`. False: something still is; else
 * nothing is stopped before there was a moment without such calls. */
bool fm_cu_push_begin(struct fm_cu_turnstile *t, bool anyway);
void fm_cu_push_end(struct fm_cu_turnstile *t);

/* A call that may wait for all of the device. False: something was stopped for so long (FM_NEVER:
 * waits for it), and the call is not to be made; who waits for but a moment, waits not at all where
 * what is stopped most likely waits for the program. */
bool fm_cu_wait_begin(struct fm_cu_turnstile *t, uint64_t most);
void fm_cu_wait_end(struct fm_cu_turnstile *t);
/* Of all devices. */
void fm_cu_wait_begin_all(void);
void fm_cu_wait_end_all(void);

/* The agent. Something is to be stopped: false, not now. */
bool fm_cu_stop_begin(struct fm_cu_turnstile *t);
void fm_cu_stop_end(struct fm_cu_turnstile *t);
/* Other calls of the agent's. False: not now, it might wait. */
bool fm_cu_visit_begin(struct fm_cu_turnstile *t);
void fm_cu_visit_end(struct fm_cu_turnstile *t);
