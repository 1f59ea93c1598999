/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program says of its memory (fermata/memory.h), and where its memory is. Addresses are the
 * arena's own. What is said of a page ends when the page is free.
 *
 * Locks: the arena's.
 * Threads: any; fm_cu_want_pin() is not called while memory moves (xqueue/rest.h).
 */
#pragma once
#include "arena.h"
#include "chunk.h"

/* These pages leave the device first and come in last (cold), or they are in use (soon), whatever
 * work names. */
void fm_cu_want_cold(struct fm_cu_arena *a, CUdeviceptr at, size_t size);
void fm_cu_want_soon(struct fm_cu_arena *a, CUdeviceptr at, size_t size);

/* So many bytes of chunks would be pinned by that which are not pinned now. -EBUSY: some of it is
 * not on the device. */
int fm_cu_want_pins(struct fm_cu_arena *a, CUdeviceptr at, size_t size, uint64_t *bytes);
/* The chunks around these pages stay on the device, for a reason that is not 0, until
 * fm_cu_want_unpin() was said of all that were pinned so. -EBUSY: nothing has changed. */
int fm_cu_want_pin(struct fm_cu_arena *a, CUdeviceptr at, size_t size, unsigned reason);
/* now: memory does not move. Else it is done by the next fm_cu_want_settle(), for whoever moves
 * memory must not see that more of it may. */
void fm_cu_want_unpin(struct fm_cu_arena *a, CUdeviceptr at, size_t size, bool now);
/* Memory does not move. */
void fm_cu_want_settle(struct fm_cu_arena *a);

/* Bytes of the range that somebody has allocated, by pages; added to what is there. */
struct fm_cu_want_sums {
	uint64_t device, host, mapped, empty;
	uint64_t pinned; /* of those on the device, for any reason */
};
void fm_cu_want_sum(
	struct fm_cu_arena *a, CUdeviceptr at, size_t size, struct fm_cu_want_sums *sums);

/* --- within the part; with the lock --- */

/* Nobody has these pages of the chunk any more. */
void fm_cu_want_gone(struct fm_cu_arena *a, struct fm_cu_chunk *c, uint64_t pages);
/* Why the chunk stays for good; 0: it does not, though the program may keep it for now, or a card
 * hold it. */
static inline unsigned fm_cu_chunk_fixed(const struct fm_cu_chunk *c)
{
	return c->kept || c->stays_held ? 0 : c->stays;
}
/* A chunk that the program keeps is to stay for good, for another reason: it is counted as movable
 * until then. */
void fm_cu_want_fixed(struct fm_cu_arena *a, struct fm_cu_chunk *c);
