/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of what the program has allocated: by its address, or by the handle that names it. A
 * look-up takes constant time, and a table that many blocks come to and leave does not slow down:
 * an erased block leaves no mark behind.
 *
 * Owns: the slots of one table. Its user has the lock, and gives back what blocks count.
 * Locks: none of its own.
 * Threads: one at a time.
 */
#pragma once
#include "board/ledger.h"
#include <stddef.h>
#include <stdint.h>

/* What a key is. */
enum fm_cuda_space {
	FM_CUDA_ADDRESS, /* of device memory, where it begins */
	FM_CUDA_GRANULE, /* of the driver's, 2 MiB of addresses that small allocations share */
	FM_CUDA_ARRAY,   /* CUarray, CUmipmappedArray */
	FM_CUDA_HANDLE,  /* CUmemGenericAllocationHandle */
	FM_CUDA_MAPPING, /* the address where such memory is mapped */
	FM_CUDA_POOL,    /* CUmemoryPool */
	FM_CUDA_GRAPHS,  /* device + 1: what the driver keeps for graphs */
	FM_CUDA_CONTEXT, /* CUcontext */
	/* Variables of code, globals.c: */
	FM_CUDA_MODULE,  /* CUmodule */
	FM_CUDA_LIBRARY, /* CUlibrary; it counts where it is used: */
	FM_CUDA_USED,    /* a hash of library and context */
	FM_CUDA_GLOBAL,  /* the address of a variable whose module or library was not understood */
};

struct fm_cuda_block {
	uint64_t key;  /* never 0 */
	int64_t bytes; /* that count; of what shares a granule, its size */
	uint64_t of;   /* the context that it ends with, its pool, or its struct fm_cuda_vmm */
	uint64_t used; /* of a pool or granule: bytes of the blocks in it; of code: its handle */
	uint32_t refs; /* of a granule: blocks; of an import: openings */
	int16_t dev;   /* CUdevice */
	uint8_t space; /* enum fm_cuda_space */
	uint8_t kind;  /* enum fm_mem_kind */
};

struct fm_cuda_blocks {
	struct fm_cuda_block *slot; /* key 0: free */
	unsigned bits;              /* 2^bits slots, if there are any */
	size_t live;
};

/* NULL: it is not there. A pointer is good until the table is changed. */
struct fm_cuda_block *fm_cuda_blocks_find(
	const struct fm_cuda_blocks *t, enum fm_cuda_space space, uint64_t key);
/* Replaces a block with the same key. NULL: out of memory, or the key is 0. */
struct fm_cuda_block *fm_cuda_blocks_put(struct fm_cuda_blocks *t, const struct fm_cuda_block *b);
void fm_cuda_blocks_erase(struct fm_cuda_blocks *t, struct fm_cuda_block *b);

/* The first block at or behind slot *at; NULL: there is none. Who erases it looks at *at again;
 * else the next look is behind it, at *at + 1. Each block is seen at least once in that way. */
struct fm_cuda_block *fm_cuda_blocks_next(const struct fm_cuda_blocks *t, size_t *at);
