/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock of driver calls, in each context where launches are guarded. A driver may wait for the
 * device within a call, while it holds a lock that nearly all calls take. But for the device to go
 * on, the agent has to make calls if launches have left blocks out. So neither side enters where it
 * would wait for the other: while something is stopped no call begins that may wait, and nothing is
 * stopped while there is such a call.
 *
 * A NULL turnstile lets every call pass.
 */
#pragma once
#include "settle.h"

struct fm_cu_turnstile;

/* The turnstile of a context; with `make`, it is made if there is none yet. NULL: there is none, or
 * no place for one. */
struct fm_cu_turnstile *fm_cu_turnstile(CUcontext ctx, bool make);
/* The launches of its context that the device must have passed before anything is stopped. */
struct fm_cu_settle *fm_cu_turnstile_settle(struct fm_cu_turnstile *t);
/* In order: the context has ended; in the child after a fork; the process exits, and from now on
 * every call passes all turnstiles. */
void fm_cu_turnstile_forget(CUcontext ctx);
void fm_cu_turnstile_fork_child(void);
void fm_cu_turnstile_over(void);
bool fm_cu_turnstile_is_over(void);

/* A call that puts something into a stream. It may also wait, if a channel is full. So it begins a
 * little later while something is stopped, unless `anyway`. False: something is still stopped.
 * True: nothing is stopped until there was a moment without such calls. */
bool fm_cu_push_begin(struct fm_cu_turnstile *t, bool anyway);
void fm_cu_push_end(struct fm_cu_turnstile *t);

/* A call that may wait for all of the device. False: something was stopped for all that time, and
 * the call must not be made. `most` is that time; FM_NEVER: no limit. A call with a short limit
 * does not wait at all if what is stopped most likely waits for the program. */
bool fm_cu_wait_begin(struct fm_cu_turnstile *t, uint64_t most);
void fm_cu_wait_end(struct fm_cu_turnstile *t);
/* For all devices. */
void fm_cu_wait_begin_all(void);
void fm_cu_wait_end_all(void);

/*
 * All of that for a time that may be long: memory moves (xqueue/rest.h), and calls of the mover's
 * must not wait for one of the program's. True: in no context is a call inside, and none comes in
 * before fm_cu_keep_out(false). Only one thread calls this at a time.
 */
bool fm_cu_keep_out(bool out);
/* Is it so? Then calls that put something into a stream wait outside, too. */
bool fm_cu_kept_out(void);
/* Does a thread wait to come in? */
bool fm_cu_waits_outside(void);

/* Agent only. Something is to be stopped; false: not now. */
bool fm_cu_stop_begin(struct fm_cu_turnstile *t);
void fm_cu_stop_end(struct fm_cu_turnstile *t);
/* Is something stopped? fm_cu_awaited: does a call wait for that to be over? fm_cu_stop_lets_in:
 * what is stopped goes on all the same, so calls with a short limit do not wait for it. */
bool fm_cu_is_stopped(struct fm_cu_turnstile *t);
bool fm_cu_awaited(struct fm_cu_turnstile *t);
void fm_cu_stop_lets_in(struct fm_cu_turnstile *t);
/* Other calls of the agent. False: not now, because the call might wait. */
bool fm_cu_visit_begin(struct fm_cu_turnstile *t);
void fm_cu_visit_end(struct fm_cu_turnstile *t);
