/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Within the part: a chunk changes between memory of the device and memory of the host, both mapped
 * at its own address. The content is copied first, to memory that is mapped elsewhere for that
 * time, so the chunk is without its content at no moment, and where a call of the driver fails it
 * has the memory that it had.
 *
 * The caller sees to what move.h says. The arena's context is current.
 *
 * Owns: the arena's window.
 * Locks: none.
 * Threads: one at a time.
 */
#pragma once
#include "chunk.h"
#include "move.h"

/* home: to the device; else to the host. The chunk is mapped, or torn. 0: it is there, and is what
 * it was. -ENOMEM: no room there. -EIO: the driver refuses. */
int fm_cu_flip(struct fm_cu_arena *a, struct fm_cu_chunk *c, bool home, CUstream stream,
	const struct fm_cu_move_ops *ops);
/* From now on the memory that a chunk has left stays for the next flip, which mostly is one in the
 * other direction: nobody else gets it between the two, and it need not be made anew. */
void fm_cu_flip_keep(struct fm_cu_arena *a);
/* The window is empty, as far as the driver lets us. */
int fm_cu_flip_end(struct fm_cu_arena *a);
