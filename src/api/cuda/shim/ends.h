/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that end: their default streams end with them, and captures of those. What they have
 * under way there is looked after by calls to the driver, of which the program knows nothing: so
 * whoever ends a context waits for them.
 */
#pragma once
#include <stdbool.h>

/* This thread is one whose end matters. False: nobody would hear of it. */
bool fm_cuda_ends_hear(void);
/* A context is about to end, none of whose queues is in the map any more: for threads that have
 * begun to end. */
void fm_cuda_ends_await(void);
void fm_cuda_ends_fork_child(void);
