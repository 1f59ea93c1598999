/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of one device at addresses of its own, so that it can leave the device and come back while
 * every pointer into it stays valid. The addresses are one reservation, made once. Blocks of 128
 * MiB and more have chunks of their own; smaller ones are dealt out of chunks that they share, so
 * that a program's memory moves in few and large chunks, whatever it asks for.
 *
 * Locks: `lock` of struct fm_cu_arena, over the tables, held over driver calls.
 * Threads: any; fm_cu_move_out() and fm_cu_move_in() (move.h) exclude all but fm_cu_arena_find().
 */
#pragma once
#include "api/cuda/core/driver.h"

struct fm_cu_arena;
struct fm_touch;

/* Who counts what the device has to hold. claim: 0, or -ENOMEM if a limit does not allow that. 1:
 * it is counted, and the device is to have none of it, but the host. pinned: why it is, or 0. */
struct fm_cu_arena_use {
	int (*claim)(void *cookie, uint64_t bytes, unsigned pinned);
	void (*unclaim)(void *cookie, uint64_t bytes, unsigned pinned);
	void *cookie;
	uint64_t host_most; /* bytes of the host */
	bool keeps; /* the host keeps copies of what has come in, and what is unchanged stays there
		       when it goes out again (digests.h) */
	/* So many bytes are pinned for another reason from now on; 0: they move. May be NULL. */
	void (*recount)(void *cookie, uint64_t bytes, unsigned from, unsigned to);
	/* The program keeps so many bytes no more (want.h), whatever else pins them. May be NULL.
	 */
	void (*unkept)(void *cookie, uint64_t bytes);
	/* Memory of the host: in all, as struct fm_cu_host_budget has it (NULL: any amount), with
	 * the cookie; and the NUMA node, -1: any. */
	bool (*host_take)(void *cookie, uint64_t bytes);
	uint64_t (*host_may)(void *cookie);
	int node;
};

/* An arena for a device and a context of it, which is current. 0; -ENOMEM: the driver reserves no
 * addresses; -EOPNOTSUPP: it lacks a function. An arena lives as long as the process. */
int fm_cu_arena_create(struct fm_cu_arena **arena, const struct fm_cu_driver *cu, CUcontext ctx,
	CUdevice device, const struct fm_cu_arena_use *use);
/* For tests: everything goes, and the arena with it. */
void fm_cu_arena_destroy(struct fm_cu_arena *a);

/* The context that the arena belongs to; NULL: it has ended. */
CUcontext fm_cu_arena_context(const struct fm_cu_arena *a);
/* The context has ended, and all blocks with it. */
void fm_cu_arena_context_gone(struct fm_cu_arena *a);
/* The arena is empty, and has a context from now on, which is current. keeps: as above. */
void fm_cu_arena_context_is(struct fm_cu_arena *a, CUcontext ctx, bool keeps);
/* The addresses never change. */
struct fm_cu_range {
	CUdeviceptr at;
	size_t size;
};
struct fm_cu_range fm_cu_arena_range(const struct fm_cu_arena *a);

/* 0 and *at, aligned to 512 bytes, or from 2 MiB on to 2 MiB. -ENOMEM: no memory, or a limit.
 * -EINVAL: no bytes. -EIO: the driver refuses. */
int fm_cu_arena_alloc(struct fm_cu_arena *a, size_t size, CUdeviceptr *at);
/* The same; but where the device has no memory left, it is the host's, mapped for the device. */
int fm_cu_arena_borrow(struct fm_cu_arena *a, size_t size, CUdeviceptr *at);
/* 0; -EINVAL: no block begins there. Nothing uses the block any more. */
int fm_cu_arena_free(struct fm_cu_arena *a, CUdeviceptr at);

/* The block around an address: false if there is none. */
struct fm_cu_block {
	CUdeviceptr at;
	size_t size;    /* as the program asked for it */
	uint64_t id;    /* no other block of the process has or ever had it */
	unsigned stays; /* why it is pinned, or 0 */
};
bool fm_cu_arena_find(struct fm_cu_arena *a, CUdeviceptr p, struct fm_cu_block *block);

/* The memory around that block never moves again, for a reason that is not 0: *bytes of it did
 * until now. -ENOENT: there is no block. -EBUSY: it is on the host; bring it in first. */
int fm_cu_arena_pin(struct fm_cu_arena *a, CUdeviceptr p, unsigned reason, uint64_t *bytes);
/* The same for all memory, also what is allocated later. -EBUSY. */
int fm_cu_arena_pin_all(struct fm_cu_arena *a, unsigned reason, uint64_t *bytes);

/* Another device reaches all of it from now on, also what is allocated or comes in later. 0; -EIO:
 * the driver refuses; -ENOSPC. Memory that is out is granted when it comes in. */
int fm_cu_arena_peer(struct fm_cu_arena *a, CUdevice device);

/* What another process needs of a block that is pinned: descriptors of the chunks that it is in, by
 * address, and where it begins in the first. */
#define FM_CU_SHARED_BYTES ((size_t)63 * ((size_t)128 << 20)) /* of a block, at most */
#define FM_CU_SHARED_MOST  256 /* chunks of it, which may have been cut (cut.h) */
struct fm_cu_shared {
	size_t size, offset;
	unsigned n;
	struct {
		int fd;
		size_t size;
	} part[FM_CU_SHARED_MOST];
};
/* Can that be, of any? */
bool fm_cu_arena_shares(const struct fm_cu_arena *a);
/* Could that block be, if it were pinned? What runs from the host is not the device's to pass on.
 */
bool fm_cu_arena_could_share(struct fm_cu_arena *a, const struct fm_cu_block *b);
/* 0, and the descriptors are the caller's. -ENOENT: there is no such block any more. -EBUSY: it is
 * not pinned. -E2BIG: it has too many chunks. -EIO: the driver refuses. */
int fm_cu_arena_share(
	struct fm_cu_arena *a, CUdeviceptr at, uint64_t id, struct fm_cu_shared *shared);

/* Bytes of chunks, of which: */
struct fm_cu_arena_sums {
	uint64_t all;
	uint64_t here;     /* on the device, */
	uint64_t host;     /* copied to the host; what is in neither has no content */
	uint64_t borrowed; /* memory of the host, mapped for the device */
	uint64_t pinned;
	uint64_t grain;   /* the largest chunk that moves */
	uint64_t strayed; /* memory of the host that is not on the device's node */
};
void fm_cu_arena_sum(struct fm_cu_arena *a, struct fm_cu_arena_sums *sums);

/* What the program's work names (predict/touch.h). It is there as long as the arena. */
struct fm_touch *fm_cu_arena_touch(struct fm_cu_arena *a);
/* Bytes of chunks that may move, and of which something was named in that turn or since; of all, if
 * it is not known of what. */
struct fm_cu_arena_hot {
	bool known;
	uint64_t all;
	uint64_t mapped; /* they run from the host */
	uint64_t out;    /* they are neither there nor on the device */
};
void fm_cu_arena_hot(struct fm_cu_arena *a, uint32_t since, struct fm_cu_arena_hot *hot);
