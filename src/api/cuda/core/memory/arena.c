/* SPDX-License-Identifier: Apache-2.0 */
#include "able.h"
#include "arena_internal.h"
#include "base/lockorder.h"
#include "base/util.h"
#include "flip.h"
#include "want.h"
#include <errno.h>
#include <stdlib.h>

uint64_t fm_cu_block_ids(unsigned n)
{
	static _Atomic uint64_t next = UINT64_C(1) << 40;

	return atomic_fetch_add(&next, n);
}

/* --- lives --- */

static int init(struct fm_cu_arena *a)
{
	uint32_t pages;
	int rc = fm_cu_memory_reserve(a->cu, &a->base, &a->size);

	if (rc)
		return rc;
	pages = (uint32_t)(a->size / FM_CU_PAGE);
	/* Pages of it that are never used are never there; and tools that look for leaks see that
	 * blocks are reached from here. */
	a->table = calloc(pages, sizeof(*a->table));
	a->chunk_of = calloc(pages, sizeof(*a->chunk_of));
	a->window.at = a->base + (pages - FM_CU_CHUNK_PAGES) * FM_CU_PAGE;
	if (a->table && a->chunk_of && !fm_touch_init(&a->touch, a->base, pages * FM_CU_PAGE)) {
		if (!fm_cu_places_init(&a->places, pages - FM_CU_CHUNK_PAGES))
			return 0;
		fm_touch_free(&a->touch);
	}
	free(a->chunk_of);
	free(a->table);
	a->cu->mem_unreserve(a->base, a->size);
	return -ENOMEM;
}

static struct fm_cu_memory_access reaches(CUdevice device)
{
	return (struct fm_cu_memory_access){
		{FM_CU_LOCATION_DEVICE, device}, FM_CU_MEMORY_READ_WRITE};
}

int fm_cu_arena_create(struct fm_cu_arena **arena, const struct fm_cu_driver *cu, CUcontext ctx,
	CUdevice device, const struct fm_cu_arena_use *use)
{
	struct fm_cu_arena *a;
	int rc;

	if (!fm_cu_memory_functions(cu))
		return -EOPNOTSUPP;
	a = calloc(1, sizeof(*a));
	if (!a)
		return -ENOMEM;
	a->cu = cu;
	a->use = *use;
	a->device = device;
	a->handle_types = fm_cu_memory_shares(cu, device) ? FM_CU_MEMORY_FD : 0;
	a->cards = fm_cu_memory_for_cards(cu, device);
	a->reaching[a->n_reaching++] = reaches(device);
	atomic_store(&a->ctx, ctx);
	pthread_mutex_init(&a->lock, NULL);
	fm_lock_rank(&a->lock, CU_ARENA);
	fm_list_init(&a->chunks);
	for (unsigned i = 0; i < FM_CU_CLASSES; i++)
		fm_list_init(&a->small[i]);
	fm_cu_host_init(&a->host, use->host_most);
	a->host.budget = (struct fm_cu_host_budget){use->host_take, use->host_may, use->cookie};
	a->host.node = use->node;
	rc = init(a);
	if (!rc) {
		a->digests = use->keeps ? fm_cu_digests_create(cu) : NULL;
		*arena = a;
		return 0;
	}
	pthread_mutex_destroy(&a->lock);
	free(a);
	return rc;
}

CUcontext fm_cu_arena_context(const struct fm_cu_arena *a)
{
	return atomic_load(&a->ctx);
}

void fm_cu_arena_context_is(struct fm_cu_arena *a, CUcontext ctx, bool keeps)
{
	a->digests = keeps ? fm_cu_digests_create(a->cu) : NULL;
	a->digests_off = false;
	atomic_store(&a->ctx, ctx);
}

/* The table names a block once for each of its pages, which follow each other. */
static void forget_blocks(struct fm_cu_arena *a)
{
	uintptr_t last = 0;

	fm_touch_gone(&a->touch, 0, a->reached);
	for (uint32_t i = 0; i < a->reached; i++) {
		if (a->table[i] != last)
			free((void *)(last & ~(uintptr_t)1));
		last = a->table[i];
		a->table[i] = 0;
	}
	free((void *)(last & ~(uintptr_t)1));
	for (unsigned i = 0; i < FM_CU_CLASSES; i++)
		fm_list_init(&a->small[i]);
}

static void end_chunks(struct fm_cu_arena *a)
{
	struct fm_cu_chunk *c, *next;

	fm_list_each_safe (c, next, &a->chunks, all) {
		if (c->of) /* of no context: what the host has of it goes alone */
			fm_cu_chunk_let_go(a, c);
		else
			fm_cu_chunk_end(a, c);
	}
	fm_cu_flip_end(a);
	fm_cu_spares_drop(a);
}

void fm_cu_arena_context_gone(struct fm_cu_arena *a)
{
	pthread_mutex_lock(&a->lock);
	forget_blocks(a);
	end_chunks(a);
	fm_cu_host_trim(&a->host, NULL);
	fm_cu_digests_end(a->digests, true);
	a->digests = NULL;
	atomic_store(&a->ctx, NULL);
	pthread_mutex_unlock(&a->lock);
}

void fm_cu_arena_destroy(struct fm_cu_arena *a)
{
	fm_cu_digests_end(a->digests, false);
	a->digests = NULL;
	fm_cu_arena_context_gone(a);
	a->cu->mem_unreserve(a->base, a->size);
	free(a->chunk_of);
	free(a->table);
	fm_touch_free(&a->touch);
	fm_cu_places_end(&a->places);
	pthread_mutex_destroy(&a->lock);
	free(a);
}

struct fm_cu_range fm_cu_arena_range(const struct fm_cu_arena *a)
{
	return (struct fm_cu_range){a->base, a->size};
}

/* --- blocks --- */

static void enter_pages(struct fm_cu_arena *a, struct fm_cu_paged *b, uintptr_t value)
{
	for (uint32_t i = 0; i < b->pages; i++)
		a->table[b->page + i] = value;
}

/* Each chunk gives its own part of the place back. */
static int take_own(struct fm_cu_arena *a, struct fm_cu_paged *b)
{
	unsigned parts = (b->pages + FM_CU_CHUNK_PAGES - 1) / FM_CU_CHUNK_PAGES;
	uint32_t done = 0, n = 0;
	int rc = fm_cu_places_take(&a->places, b->pages, parts, &b->page);

	if (rc)
		return -ENOMEM;
	for (; done < b->pages && !rc; done += n) {
		n = FM_MIN(b->pages - done, FM_CU_CHUNK_PAGES);
		fm_cu_chunk_new(a, b->page + done, n, false, &rc);
	}
	if (!rc)
		return 0;
	fm_cu_pages_give(a, b->page, done - n); /* the last one was not made */
	for (; done < b->pages; done += n) {
		n = FM_MIN(b->pages - done, FM_CU_CHUNK_PAGES);
		fm_cu_places_give(&a->places, b->page + done, n);
	}
	return rc;
}

static int take_pages(struct fm_cu_arena *a, size_t size, CUdeviceptr *at)
{
	struct fm_cu_paged *b = calloc(1, sizeof(*b));
	int rc;

	if (!b)
		return -ENOMEM;
	b->size = size;
	b->pages = (uint32_t)((size + FM_CU_PAGE - 1) / FM_CU_PAGE);
	rc = b->pages < FM_CU_CHUNK_PAGES ? fm_cu_slab_take(a, b->pages, &b->page) : take_own(a, b);
	if (rc) {
		free(b);
		return rc;
	}
	b->at = a->base + b->page * FM_CU_PAGE;
	b->id = fm_cu_block_ids(1);
	enter_pages(a, b, (uintptr_t)b);
	fm_touch_block(&a->touch, b->page, b->pages);
	*at = b->at;
	return 0;
}

static int alloc(struct fm_cu_arena *a, size_t size, bool borrows, CUdeviceptr *at)
{
	int rc;

	if (!size)
		return -EINVAL;
	if (size > a->size)
		return -ENOMEM;
	pthread_mutex_lock(&a->lock);
	a->borrows = borrows && !a->stays;
	rc = size <= FM_CU_SMALL_MOST ? fm_cu_small_take(a, size, at) : take_pages(a, size, at);
	pthread_mutex_unlock(&a->lock);
	return rc;
}

int fm_cu_arena_alloc(struct fm_cu_arena *a, size_t size, CUdeviceptr *at)
{
	return alloc(a, size, false, at);
}

int fm_cu_arena_borrow(struct fm_cu_arena *a, size_t size, CUdeviceptr *at)
{
	return alloc(a, size, true, at);
}

static uintptr_t entry_of(const struct fm_cu_arena *a, CUdeviceptr p)
{
	return p - a->base < a->size ? a->table[(p - a->base) / FM_CU_PAGE] : 0;
}

static int give_pages(struct fm_cu_arena *a, struct fm_cu_paged *b, CUdeviceptr at)
{
	if (!b || b->at != at)
		return -EINVAL;
	enter_pages(a, b, 0);
	fm_touch_gone(&a->touch, b->page, b->pages);
	fm_cu_pages_give(a, b->page, b->pages);
	free(b);
	return 0;
}

int fm_cu_arena_free(struct fm_cu_arena *a, CUdeviceptr at)
{
	uintptr_t it;
	int rc;

	pthread_mutex_lock(&a->lock);
	it = entry_of(a, at);
	rc = it & 1 ? fm_cu_small_give(a, (struct fm_cu_small *)(it - 1), at)
		    : give_pages(a, (struct fm_cu_paged *)it, at);
	pthread_mutex_unlock(&a->lock);
	return rc;
}

/* 0: a part of it moves. */
static unsigned fixed_of(const struct fm_cu_arena *a, const struct fm_cu_paged *b)
{
	unsigned fixed = 0;

	for (uint32_t page = b->page; page < b->page + b->pages;) {
		const struct fm_cu_chunk *c = a->chunk_of[page];

		fixed = fm_cu_chunk_fixed(c);
		if (!fixed)
			return 0;
		page = c->page + c->pages;
	}
	return fixed;
}

static bool paged_find(const struct fm_cu_arena *a, const struct fm_cu_paged *b, CUdeviceptr p,
	struct fm_cu_block *block)
{
	if (!b || p - b->at >= b->size)
		return false;
	*block = (struct fm_cu_block){b->at, b->size, b->id, fixed_of(a, b)};
	return true;
}

bool fm_cu_block_find(const struct fm_cu_arena *a, CUdeviceptr p, struct fm_cu_block *block)
{
	uintptr_t it = entry_of(a, p);

	return it & 1 ? fm_cu_small_find(a, (struct fm_cu_small *)(it - 1), p, block)
		      : paged_find(a, (struct fm_cu_paged *)it, p, block);
}

bool fm_cu_arena_find(struct fm_cu_arena *a, CUdeviceptr p, struct fm_cu_block *block)
{
	bool found;

	if (p - a->base >= a->size)
		return false;
	pthread_mutex_lock(&a->lock);
	found = fm_cu_block_find(a, p, block);
	pthread_mutex_unlock(&a->lock);
	return found;
}

/* --- all of it --- */

/* Lock held. The chunks around [at, at + size). */
static int pin(struct fm_cu_arena *a, CUdeviceptr at, size_t size, unsigned reason, uint64_t *bytes)
{
	struct fm_cu_chunk *c;

	*bytes = 0;
	fm_list_each (c, &a->chunks, all)
		if (at < c->at + fm_cu_chunk_size(c) && c->at < at + size && c->away)
			return -EBUSY;
	fm_list_each (c, &a->chunks, all) {
		if (at >= c->at + fm_cu_chunk_size(c) || c->at >= at + size || c->lost)
			continue;
		fm_cu_want_fixed(a, c);
		c->stays_held = false; /* it stays when it is let go */
		if (c->stays)
			continue;
		c->stays = reason;
		*bytes += fm_cu_chunk_size(c);
	}
	return 0;
}

int fm_cu_arena_pin(struct fm_cu_arena *a, CUdeviceptr p, unsigned reason, uint64_t *bytes)
{
	struct fm_cu_block b;
	int rc = -ENOENT;

	*bytes = 0;
	pthread_mutex_lock(&a->lock);
	if (fm_cu_block_find(a, p, &b))
		rc = pin(a, b.at, b.size, reason, bytes);
	pthread_mutex_unlock(&a->lock);
	return rc;
}

int fm_cu_arena_pin_all(struct fm_cu_arena *a, unsigned reason, uint64_t *bytes)
{
	int rc;

	pthread_mutex_lock(&a->lock);
	rc = pin(a, a->base, a->size, reason, bytes);
	if (!rc)
		a->stays = reason;
	pthread_mutex_unlock(&a->lock);
	return rc;
}

int fm_cu_arena_peer(struct fm_cu_arena *a, CUdevice device)
{
	struct fm_cu_memory_access more = reaches(device);
	struct fm_cu_chunk *c;
	int rc = 0;

	pthread_mutex_lock(&a->lock);
	for (unsigned i = 0; i < a->n_reaching && !rc; i++)
		rc = a->reaching[i].location.id == device ? 1 : 0;
	if (!rc && a->n_reaching == FM_CU_REACHING)
		rc = -ENOSPC;
	if (!rc)
		a->reaching[a->n_reaching++] = more;
	fm_list_each (c, &a->chunks, all)
		if (!rc && c->reachable && a->cu->mem_access(c->at, fm_cu_chunk_size(c), &more, 1))
			rc = -EIO;
	if (rc == -EIO)
		a->n_reaching--;
	pthread_mutex_unlock(&a->lock);
	return rc > 0 ? 0 : rc;
}

void fm_cu_arena_sum(struct fm_cu_arena *a, struct fm_cu_arena_sums *sums)
{
	struct fm_cu_chunk *c;

	pthread_mutex_lock(&a->lock);
	*sums = (struct fm_cu_arena_sums){.all = a->spare_pages * FM_CU_PAGE};
	fm_list_each (c, &a->chunks, all) {
		if (c->lost && !c->owed)
			continue;
		sums->all += fm_cu_chunk_size(c);
		sums->here += fm_cu_chunk_on_device(c) ? fm_cu_chunk_size(c) : 0;
		sums->borrowed += c->borrowed ? fm_cu_chunk_size(c) : 0;
		sums->pinned += c->stays && !c->borrowed ? fm_cu_chunk_size(c) : 0;
		if (!c->stays)
			sums->grain = FM_MAX(sums->grain, (uint64_t)fm_cu_chunk_size(c));
		/* While it is being copied it is still on the device. */
		if (c->away)
			sums->host += (uint64_t)__builtin_popcountll(c->out) * FM_CU_PAGE;
	}
	sums->strayed = atomic_load(&a->host.strayed);
	pthread_mutex_unlock(&a->lock);
}

/* --- what is named --- */

struct fm_touch *fm_cu_arena_touch(struct fm_cu_arena *a)
{
	return &a->touch;
}

void fm_cu_arena_hot(struct fm_cu_arena *a, uint32_t since, struct fm_cu_arena_hot *hot)
{
	struct fm_cu_chunk *c;

	*hot = (struct fm_cu_arena_hot){.known = fm_touch_known(&a->touch, since)};
	pthread_mutex_lock(&a->lock);
	fm_list_each (c, &a->chunks, all) {
		uint64_t bytes = fm_cu_chunk_size(c);

		if (c->stays || c->lost || (hot->known && fm_cu_chunk_named(a, c) < since))
			continue;
		hot->all += bytes;
		hot->out += c->away ? bytes : 0;
		hot->mapped += c->borrowed && !c->away ? bytes : 0;
	}
	pthread_mutex_unlock(&a->lock);
}
