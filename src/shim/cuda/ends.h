/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that end: what they have under way in their default streams is looked after by calls to
 * the driver, of which the program knows nothing. So whoever ends a context waits for them.
 */
#pragma once

/* Around all of that, from before the thread's queues leave the map. */
void fm_cuda_ends_begin(void);
void fm_cuda_ends_end(void);
/* For those that have begun. */
void fm_cuda_ends_await(void);
void fm_cuda_ends_fork_child(void);
