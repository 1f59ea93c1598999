/* SPDX-License-Identifier: Apache-2.0 */
/* Within the part. */
#pragma once
#include "arena.h"
#include "chunk.h"
#include "digests.h"
#include "places.h"
#include "predict/touch.h"
#include <pthread.h>

#define FM_CU_SMALL_MOST ((size_t)1 << 20) /* larger blocks take whole pages */
#define FM_CU_GRAIN      ((size_t)512)
#define FM_CU_CLASSES    40
#define FM_CU_SPARES     32
#define FM_CU_REACHING   16 /* devices that reach an arena's memory, its own the first */

/* A block of pages. */
struct fm_cu_paged {
	CUdeviceptr at;
	size_t size;
	uint64_t id;
	uint32_t page, pages;
};

/* A page of blocks of one size. */
struct fm_cu_small {
	struct fm_list with_room; /* of its class; alone: it has none */
	CUdeviceptr at;
	uint64_t id; /* of its blocks, in the upper half */
	uint32_t page;
	unsigned each, n, used; /* bytes of a block; how many there are, and are in use */
	uint64_t taken[FM_CU_PAGE / FM_CU_GRAIN / 64];
	uint32_t takes; /* blocks that there have been, by which no two have one id */
	struct {
		uint32_t size, take; /* as asked for; the how manieth it is */
	} block[];
};

struct fm_cu_arena {
	const struct fm_cu_driver *cu;
	struct fm_cu_arena_use use;
	CUdevice device;
	int handle_types; /* of its memory: others can be given it, if the driver can do that */
	bool cards;       /* network cards may reach it */
	CUdeviceptr base;
	size_t size;
	_Atomic(CUcontext) ctx;

	pthread_mutex_t lock; /* what follows, except while memory moves */
	struct fm_cu_places places;
	uintptr_t *table; /* for each page: a block of pages, or with the lowest bit a small page */
	struct fm_cu_chunk **chunk_of; /* for each page; NULL: none */
	uint32_t reached;              /* pages from here on were never in use */
	struct fm_touch touch;         /* what the program's work names of it */
	struct fm_list chunks;
	struct fm_cu_chunk window; /* flip.h: at the end of the addresses; no block is there */
	bool window_keeps;         /* what a flip has left there, for the next one */
	bool borrows;   /* new chunks are memory of the host where the device has no room */
	unsigned stays; /* of new chunks */
	struct fm_cu_memory_access reaching[FM_CU_REACHING];
	unsigned n_reaching;
	struct fm_list small[FM_CU_CLASSES];
	uint64_t slab_pages;
	struct {
		unsigned long long handle;
		unsigned pages;
		unsigned stays; /* what it is counted with, as of chunks */
	} spare[FM_CU_SPARES];
	unsigned spares;
	uint64_t spare_pages;
	struct fm_cu_host_pool host;
	struct fm_cu_digests *digests; /* NULL, or off: everything is copied, and nothing kept */
	bool digests_off;
	unsigned unchecked; /* chunks that ran from the host since one was looked at */
};

/* Ids of blocks: the driver's own are small numbers. */
uint64_t fm_cu_block_ids(unsigned n);

/* With the lock. The block around an address; what is said of it holds until the lock is free. */
bool fm_cu_block_find(const struct fm_cu_arena *a, CUdeviceptr p, struct fm_cu_block *block);

/* When any of these pages of a chunk was last named: those that the program does not use are not
 * among them. */
uint32_t fm_cu_want_named(const struct fm_cu_arena *a, const struct fm_cu_chunk *c, uint64_t pages);
/* When it was last named: what the program maps is named by addresses of its own, which nobody
 * follows, and counts as in use. */
static inline uint32_t fm_cu_chunk_named(const struct fm_cu_arena *a, const struct fm_cu_chunk *c)
{
	if (FM_UNLIKELY(c->cold))
		return fm_cu_want_named(a, c, UINT64_MAX);
	return c->of ? UINT32_MAX : fm_touch_last(&a->touch, c->page, c->pages);
}

/* --- slab.c; with the lock --- */

/* A chunk in a place that was taken; or NULL and *rc, and the place is given back. */
struct fm_cu_chunk *fm_cu_chunk_new(
	struct fm_cu_arena *a, uint32_t page, uint32_t pages, bool slab, int *rc);
/* The same, of memory that the program maps. */
struct fm_cu_chunk *fm_cu_chunk_new_of(
	struct fm_cu_arena *a, uint32_t page, uint32_t pages, struct fm_cu_vmm *of, int *rc);
/* The table has c for those pages from now on. */
void fm_cu_chunk_enter(
	struct fm_cu_arena *a, const struct fm_cu_chunk *pages, struct fm_cu_chunk *c);
/* Nothing in it is used any more. If the driver will not take it back, it stays as a slab without
 * blocks. */
void fm_cu_chunk_end(struct fm_cu_arena *a, struct fm_cu_chunk *c);
/* n pages of a slab. */
int fm_cu_slab_take(struct fm_cu_arena *a, unsigned n, uint32_t *page);
/* Pages of whatever chunks: those that have none left end. */
void fm_cu_pages_give(struct fm_cu_arena *a, uint32_t page, uint32_t n);
/* Bytes of the chunk count for another reason than before (0: they may move). */
static inline void fm_cu_recount(
	struct fm_cu_arena *a, const struct fm_cu_chunk *c, unsigned from, unsigned to)
{
	if (a->use.recount)
		a->use.recount(a->use.cookie, fm_cu_chunk_size(c), from, to);
}
bool fm_cu_spares_drop(struct fm_cu_arena *a); /* true: there were some */
bool fm_cu_spare_keep(struct fm_cu_arena *a, struct fm_cu_chunk *c);

/* --- small.c; with the lock --- */

int fm_cu_small_take(struct fm_cu_arena *a, size_t size, CUdeviceptr *at);
int fm_cu_small_give(struct fm_cu_arena *a, struct fm_cu_small *s, CUdeviceptr at);
bool fm_cu_small_find(const struct fm_cu_arena *a, const struct fm_cu_small *s, CUdeviceptr p,
	struct fm_cu_block *block);
/* Which class; *each becomes the size of its blocks. */
unsigned fm_cu_small_class(size_t size, unsigned *each);
