/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ends of threads. A thread's default queue ends with the thread. Until the driver has been
 * told, other threads must not end the context: fm_shim_threads_await().
 *
 * Owns: a key of thread-specific data. It is made when the shim is loaded, before the driver makes
 * its own if possible, so that a thread ends for the shim first.
 *
 * Locks: none.
 *
 * Threads: each thread for itself, at its end.
 *
 * Fails open: without the key a thread's default queue is refused.
 */
#pragma once
#include <stdbool.h>

/* The end of this thread matters (thread_ends of struct fm_shim_api). False: its end would not be
 * noticed. */
bool fm_shim_thread_hear(void);
/* Something is about to end, and none of its queues is in the map any more. Waits for threads that
 * have begun to end, for a second at most. */
void fm_shim_threads_await(void);
/* For fork_child. */
void fm_shim_threads_fork_child(void);
