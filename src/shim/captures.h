/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures, for APIs in which commands of a stream may be put into a graph instead of being run:
 * meanwhile nothing of ours is put there, and what the program launches there is not counted.
 *
 * Owns: the count of captures, and the streams at which they began.
 *
 * Locks: capture_lock, over the beginning of a capture, and while a thread that does not launch
 * puts something of ours into a stream. It is taken under an XQueue's lock.
 *
 * Threads: any.
 */
#pragma once
#include "base/util.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- a set of handles, without a lock --- */

#define FM_SHIM_SET 256

struct fm_shim_set {
	_Atomic unsigned n;
	_Atomic uintptr_t of[FM_SHIM_SET];
};

/* False: there is no room, or the handle is 0. */
bool fm_shim_set_add(struct fm_shim_set *s, uintptr_t handle);
/* Takes it out. False: it is not there. */
bool fm_shim_set_take(struct fm_shim_set *s, uintptr_t handle);
bool fm_shim_set_has(struct fm_shim_set *s, uintptr_t handle);
void fm_shim_set_clear(struct fm_shim_set *s);

/* --- captures --- */

/* So many are under way. While none is, launches need not ask whether their stream is captured. */
extern _Atomic unsigned fm_shim_captures;
/* This thread is about to launch on a stream that is not captured. */
extern __thread bool fm_shim_launches __attribute__((tls_model("initial-exec")));

/* Before the driver's call that begins one; and after it. origin: the stream, by its key. */
void fm_shim_capture_begins(void);
void fm_shim_capture_begun(uintptr_t origin, bool ok);
/* A capture ends at the stream where it began, or that stream ends. Else this does nothing. */
void fm_shim_capture_ended(uintptr_t origin);

/* For threads that may put something of ours into a stream: no capture begins until
 * fm_shim_untouch(). False: a capture is under way, so no stream may be touched. */
bool fm_shim_touch(void);
void fm_shim_untouch(void);

void fm_shim_captures_fork_child(void);
