/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Within the part: chunks that are out are cut where use differs, and joined where it does not. So
 * of a large buffer those parts come to the device that are used. The driver has nothing of a chunk
 * that is out, so this is a matter of notes: its content stays where it is on the host, except
 * where two contents that are to be one lie apart.
 *
 * Parts begin at multiples of FM_CU_PART from the beginning of what was allocated as one. Memory
 * that the program maps itself is not cut: its handles are the program's.
 *
 * Locks: takes the arena's.
 * Threads: as move.h; no copy of these chunks is under way.
 */
#pragma once
#include "chunk.h"

/* A chunk that is out becomes several if some of its parts were named in that turn or since, and
 * others were not. True: it has; they follow it in the list. Without memory it stays as it is. */
bool fm_cu_chunk_cut(struct fm_cu_arena *a, struct fm_cu_chunk *c, uint32_t since);
/* The same for all chunks that are out: what is in use is said meanwhile, too (want.h). */
void fm_cu_chunks_cut(struct fm_cu_arena *a, uint32_t since);
/* Parts of what was one, out and side by side, become one if both were named, or neither. Others
 * stay what they are: small chunks are moved for what is in them alone. */
void fm_cu_chunks_join(struct fm_cu_arena *a, uint32_t since);
