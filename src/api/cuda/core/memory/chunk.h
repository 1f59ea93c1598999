/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Within the part: a chunk is memory of the device that is made, mapped and moved as one, at most
 * 128 MiB. Its address never changes. Each step that the driver has done is noted, and only that;
 * so after a call that failed the notes are still true, and the same function can be called again.
 *
 * A chunk is in one of these places:
 *
 *	device      memory of the device is mapped at its address.
 *	out         nothing is mapped; the content is in registered memory of the host (host.h).
 *	empty       the same, and there is no content.
 *	borrowed    memory of the host is mapped at its address, and the device reaches it there
 *over the link, many times slower: for what must run and has no room (flip.h). torn        the
 *memory that has the content is made, and is not mapped: the driver has refused twice in a flip.
 *fm_cu_chunk_mend() maps it.
 */
#pragma once
#include "api/cuda/core/driver.h"
#include "base/list.h"
#include "host.h"
#include <stdatomic.h>

#define FM_CU_PAGE        ((size_t)2 << 20)
#define FM_CU_CHUNK_PAGES 64u

struct fm_cu_arena;
struct fm_cu_page_digests;
struct fm_cu_vmm;
struct fm_cu_alias;

struct fm_cu_chunk {
	struct fm_list all; /* of the arena, by age */
	CUdeviceptr at;
	uint32_t page, pages; /* the place in the arena */
	/* What the driver has done. */
	bool made, mapped, reachable;
	bool borrowed;             /* what is made is memory of the host */
	unsigned long long handle; /* if made */

	struct fm_cu_vmm *of;        /* it is the program's to map (vmm.h); else NULL */
	struct fm_cu_alias *aliases; /* where it is mapped, too */

	bool slab;       /* dealt out by pages; else it belongs to one allocation */
	bool away;       /* the content is on the host; what is mapped, if anything, is not it */
	bool lost;       /* nowhere, and never comes in (lost.h) */
	bool owed;       /* lost, and counted: the driver has not taken back what is made */
	unsigned stays;  /* nonzero: pinned for that reason, and never moved; or, if stays_held, */
	bool stays_held; /* as long as it is held (hold.h) */
	unsigned holds, held_for, kept_for; /* how often, and the reasons of either */
	uint64_t number;                    /* no other chunk of the process has or ever had it */
	uint64_t made_as; /* the number of that of which it is a part (cut.h), or its own */
	uint64_t used;    /* pages that belong to somebody. Others have no content */
	uint64_t kept;    /* the program keeps these on the device (want.h), and `stays' says so */
	uint64_t leaving; /* of those: no longer, once memory does not move any more */
	uint64_t passed;  /* pages that another process may have: they serve no other block */
	uint64_t cold;    /* the program does not use these for a while */
	uint64_t out;     /* while it is away: pages whose content is on the host, */
	uint64_t zero;    /* and pages that were all zeros */
	uint64_t held;    /* pages that have a place on the host: there one behind the other, */
	struct fm_cu_host_run host;         /* in this run, also while the chunk is on the device */
	struct fm_cu_page_digests *digests; /* digests.h; may be NULL */
	unsigned waits;                     /* pieces of it that are being copied */
	bool remains; /* it runs from the host, and the driver did not let it come home */
	bool queued;  /* all of its pieces have been put */
	/* exchange.h: so often has it come in the place of another; and how often it was named, as
	 * last looked at. */
	unsigned exchanged;
	uint64_t uses;
};

static inline size_t fm_cu_chunk_size(const struct fm_cu_chunk *c)
{
	return c->pages * FM_CU_PAGE;
}
/* Is it mapped, so that the device can use it? */
static inline bool fm_cu_chunk_here(const struct fm_cu_chunk *c)
{
	return c->made && c->mapped && c->reachable && !c->away;
}
static inline bool fm_cu_chunk_on_device(const struct fm_cu_chunk *c)
{
	return fm_cu_chunk_here(c) && !c->borrowed;
}
static inline bool fm_cu_chunk_torn(const struct fm_cu_chunk *c)
{
	return c->made && !c->away && !fm_cu_chunk_here(c);
}

/* The chunk has no place on the host any more. */
void fm_cu_chunk_let_go(struct fm_cu_arena *a, struct fm_cu_chunk *c);

/* 0: memory of the device is mapped at its address. -ENOMEM: the device has none left. -EIO: the
 * driver refuses. Then everything that was done is undone, as far as the driver lets us. */
int fm_cu_chunk_map(struct fm_cu_arena *a, struct fm_cu_chunk *c);
/* The same with memory of the host. -ENOMEM: the host has no room. */
int fm_cu_chunk_borrow(struct fm_cu_arena *a, struct fm_cu_chunk *c);
/* 0: what is made is mapped at its address. If not, nothing is undone. */
int fm_cu_chunk_mend(const struct fm_cu_arena *a, struct fm_cu_chunk *c);
/* Nothing is mapped at its address; what is made stays. 0; -EIO. */
int fm_cu_chunk_lift(const struct fm_cu_arena *a, struct fm_cu_chunk *c);
/* The opposite of the first two. 0; -EIO: not all of it could be done, call it again. The memory
 * goes back to the driver, or with `keep`, to the spares of the arena if they have room. */
int fm_cu_chunk_unmap(struct fm_cu_arena *a, struct fm_cu_chunk *c, bool keep);
