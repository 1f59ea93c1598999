/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Within the part: of a program that has more memory than there is room for on the device, which
 * chunk that runs from the host is to have the place of which chunk on the device. The one
 * that is named more often. Nothing is foretold: a chunk comes when it has been read over the link
 * so often, beyond what the other would have been, that to bring it then costs less than that did.
 * So memory that is used in turn, all of it as often, stays where it is.
 *
 * Counts begin anew when what runs from the host has been used often, and has stayed there for all
 * that: others may be used from now on. A chunk that has come once needs twice as many uses for the
 * next time, so what comes and goes does so less and less.
 *
 * Locks: fm_cu_exchange_look() is called with the arena's.
 * Threads: as move.h.
 */
#pragma once
#include "chunk.h"

struct fm_cu_exchange {
	struct fm_cu_chunk *home, *out; /* NULL: there is none */
};

/* since: what was named in that turn or later is in use. */
struct fm_cu_exchange fm_cu_exchange_next(struct fm_cu_arena *a, uint32_t since);
/* The one that runs from the host, is used most, and has room in so many bytes; or NULL. */
struct fm_cu_chunk *fm_cu_exchange_fill(struct fm_cu_arena *a, uint32_t since, uint64_t room);
/* Is there anything to be exchanged? Counts from now on, or anew, if it is time. */
bool fm_cu_exchange_look(struct fm_cu_arena *a, uint32_t since);
/* Nothing is counted any more. */
void fm_cu_exchange_end(struct fm_cu_arena *a);
