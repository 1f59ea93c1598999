/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A context may die while its memory is out: a kernel went wrong before, the device fell off the
 * bus, another thread has destroyed it. The driver then refuses everything, so memory never comes
 * in; and a program that waits for that would wait for ever, where it is to see the driver's error.
 *
 * Threads: that which moves the arena's memory.
 */
#pragma once
#include "arena.h"

/* Does the driver have an error for all that is asked of that context? */
bool fm_cu_context_lost(const struct fm_cu_driver *cu, CUcontext ctx);

/* Is anything out? */
bool fm_cu_arena_away(struct fm_cu_arena *a);
/* What is out never comes in. Its content is gone, it counts no more, and an access to it is one to
 * nothing: the driver says so. */
void fm_cu_arena_lose(struct fm_cu_arena *a);
