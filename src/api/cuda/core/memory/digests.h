/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Within the part: digests of pages (device/digest.h), by which memory is known that has not
 * changed since it was copied to the host, and memory that is all zeros. Neither is copied. The
 * device computes them, some 3 TB/s, before memory goes out.
 *
 * What is needed is made with the arena: a driver may wait for the device to load code and to make
 * memory, which must not happen during a rest.
 *
 * Threads: as move.h.
 */
#pragma once
#include "api/cuda/core/driver.h"
#include "chunk.h"
#include "device/digest.h"
#include "move.h"

struct fm_cu_digests;

/* Of pages of a chunk, in its own memory. */
struct fm_cu_page_digests {
	uint64_t known; /* pages whose copy in the host's run has the digest `then` */
	bool fresh;     /* `now` is of the present content */
	uint64_t
		lent; /* pages that run from the host, and had the digest `then` when that began, */
	uint32_t turn;         /* in this turn of what is named */
	struct fm_digest *now; /* behind `then` */
	struct fm_digest then[];
};

/* With the context current, which has begun no work that must not be waited for. NULL: the driver
 * lacks something, and all memory is copied. */
struct fm_cu_digests *fm_cu_digests_create(const struct fm_cu_driver *cu);
/* context_gone: nothing of it is the driver's any more. */
void fm_cu_digests_end(struct fm_cu_digests *d, bool context_gone);

/* Does the device compute for so many pages what the processor does for the same bytes of the host?
 * 0; -EILSEQ: something else; -EIO: the driver refuses. -EBUSY: it is not finished in
 * FM_CU_DIGEST_MOST, and may still read this memory. */
int fm_cu_digests_try(struct fm_cu_digests *d, CUdeviceptr at, const void *host, unsigned pages);

/* Digests of all pages of all chunks that may go out, from the first in the list on; chunks that
 * find no memory for theirs have none that is fresh. 0. -EIO: the driver refuses. -EBUSY: it is not
 * finished in FM_CU_DIGEST_MOST: the device may still read this memory, so nothing must be unmapped
 * before the program's work goes on. Call it no more then. */
int fm_cu_digests_take(
	struct fm_cu_arena *a, struct fm_cu_digests *d, const struct fm_cu_move_ops *ops);

/* Of the pages in `used`: those that are zeros; those that are as their copy. 0 if not fresh. */
uint64_t fm_cu_pages_zero(const struct fm_cu_chunk *c, uint64_t used);
uint64_t fm_cu_pages_same(const struct fm_cu_chunk *c, uint64_t used);
/* The host has what was digested, for these pages alone. */
void fm_cu_pages_copied(struct fm_cu_chunk *c, uint64_t pages);
/* Pages that run from the host, of chunks that nothing has named since they do: have they changed?
 * One chunk in FM_CU_CHECK_EVERY is looked at, each time that this is called. Returns how many
 * have, and those count as named. -EIO, -EBUSY: as above. */
int fm_cu_digests_check(
	struct fm_cu_arena *a, struct fm_cu_digests *d, const struct fm_cu_move_ops *ops);
/* The chunk runs from the host from now on; or it does no more. */
void fm_cu_pages_lent(struct fm_cu_chunk *c, uint32_t turn);
void fm_cu_pages_returned(struct fm_cu_chunk *c);
/* From page `at' on, what is known of c is n's, which has nothing yet; or n's is behind c's, which
 * has so many pages still. What finds no memory is not known any more. */
void fm_cu_pages_cut(struct fm_cu_chunk *c, struct fm_cu_chunk *n, unsigned at);
void fm_cu_pages_join(struct fm_cu_chunk *c, struct fm_cu_chunk *n);
/* There is no copy any more. */
void fm_cu_pages_forget(struct fm_cu_chunk *c);
