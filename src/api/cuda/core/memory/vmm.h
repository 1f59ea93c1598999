/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that the program maps itself, by a handle: at addresses of the program's, at several of
 * them or at none, with the access that it grants. It is made of chunks of an arena, each with a
 * home there where copies find it; so it goes out and comes back as the rest of the arena does. Its
 * mappings are unmapped before a chunk goes, and made again, with what was granted, when it is
 * back.
 *
 * Such memory is zeros when it is new, and belongs to no context: it outlives that of its arena,
 * and stays on the device until the arena has another.
 *
 * Locks: the arena's. Functions that change mappings are called by one thread at a time, and not
 * while memory moves (xqueue/rest.h).
 */
#pragma once
#include "arena.h"
#include "chunk.h"

struct fm_cu_vmm {
	struct fm_cu_arena *a;
	struct fm_cu_memory_kind kind; /* as the program wants it */
	size_t size;
	uint64_t id; /* no block of the process has or ever had it */
	void *cookie;
	unsigned n;
	struct fm_cu_chunk *chunk[];
};

/* A chunk, or a part of one, at another address. */
struct fm_cu_alias {
	struct fm_cu_alias *next; /* of the chunk */
	struct fm_cu_chunk *chunk;
	const struct fm_cu_mapping *of;
	CUdeviceptr at;
	size_t offset, size;
	bool mapped, reachable; /* what the driver has done */
};

struct fm_cu_mapping {
	struct fm_cu_vmm *of;
	CUdeviceptr at;
	size_t size;
	struct fm_cu_memory_access *granted; /* at most one of each location */
	unsigned n_granted, room;
	unsigned n;
	struct fm_cu_alias alias[];
};

/* Can memory of that kind be moved? Not what is compressed or made for sparse arrays; nor what can
 * be handed to other processes if it is larger than a chunk, for it has a single handle there. */
bool fm_cu_vmm_able(const struct fm_cu_memory_kind *kind, size_t size);
/* 0; -ENOMEM: no memory, or a limit; -EIO: the driver refuses. borrows: it may be memory of the
 * host. */
int fm_cu_vmm_create(struct fm_cu_arena *a, size_t size, const struct fm_cu_memory_kind *kind,
	bool borrows, struct fm_cu_vmm **vmm);
/* It is mapped nowhere, and v must not be used again. */
void fm_cu_vmm_end(struct fm_cu_vmm *v);

/* The part [offset, offset + size) at an address. What the driver says; or out of memory. */
fm_cu_result fm_cu_vmm_map(struct fm_cu_vmm *v, CUdeviceptr at, size_t size, size_t offset,
	struct fm_cu_mapping **mapping);
/* The driver has unmapped it, and the mapping must not be used again. */
void fm_cu_vmm_unmapped(struct fm_cu_mapping *m);
/* Makes sure that the next n grants find memory. -ENOMEM. */
int fm_cu_vmm_grant_ready(struct fm_cu_mapping *m, size_t n);
/* The driver has granted it. */
void fm_cu_vmm_granted(struct fm_cu_mapping *m, const struct fm_cu_memory_access *what, size_t n);

/* It never moves again, for a reason that is not 0: *bytes of it did until now. borrowed: nor does
 * what runs from the host. -EBUSY: it is not on the device. */
int fm_cu_vmm_pin(struct fm_cu_vmm *v, unsigned reason, bool borrowed, uint64_t *bytes);

/* --- within the part --- */

/* As fm_cu_chunk_map() and fm_cu_chunk_unmap(), which call them: the chunk is at its home. */
int fm_cu_aliases_map(const struct fm_cu_arena *a, struct fm_cu_chunk *c);
int fm_cu_aliases_unmap(const struct fm_cu_arena *a, struct fm_cu_chunk *c);
