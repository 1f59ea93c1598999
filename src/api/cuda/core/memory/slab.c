/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks that several blocks share, and memory that is kept for the next chunk.
 *
 * A slab grows with what there is: it has a quarter of the pages of all slabs, or as many as the
 * block needs, and 64 at most. So a small program has no more memory than it asks for, and a large
 * one moves in chunks of 128 MiB.
 */
#include "api/cuda/core/tune.h"
#include "arena_internal.h"
#include "base/util.h"
#include "want.h"
#include <errno.h>

/* --- spares --- */

bool fm_cu_spares_drop(struct fm_cu_arena *a)
{
	unsigned kept = 0, had = a->spares;

	a->spare_pages = 0;
	for (unsigned i = 0; i < had; i++) {
		if (!a->cu->mem_release(a->spare[i].handle)) {
			a->use.unclaim(
				a->use.cookie, a->spare[i].pages * FM_CU_PAGE, a->spare[i].stays);
			continue;
		}
		a->spare_pages += a->spare[i].pages;
		a->spare[kept++] = a->spare[i];
	}
	a->spares = kept;
	return kept < had;
}

bool fm_cu_spare_keep(struct fm_cu_arena *a, struct fm_cu_chunk *c)
{
	int rc = -ENOSPC;

	if (a->spares < FM_CU_SPARES && (a->spare_pages + c->pages) * FM_CU_PAGE <= FM_CU_SPARE)
		rc = a->use.claim(a->use.cookie, fm_cu_chunk_size(c), a->stays);
	if (rc > 0)
		a->use.unclaim(a->use.cookie, fm_cu_chunk_size(c), a->stays);
	if (rc)
		return false;
	a->spare[a->spares].handle = c->handle;
	a->spare[a->spares].stays = a->stays;
	a->spare[a->spares++].pages = c->pages;
	a->spare_pages += c->pages;
	return true;
}

/* --- chunks --- */

void fm_cu_chunk_enter(
	struct fm_cu_arena *a, const struct fm_cu_chunk *pages, struct fm_cu_chunk *c)
{
	for (uint32_t i = 0; i < pages->pages; i++)
		a->chunk_of[pages->page + i] = c;
}

static int claim(struct fm_cu_arena *a, uint64_t bytes)
{
	int rc = a->use.claim(a->use.cookie, bytes, a->stays);

	return rc < 0 && fm_cu_spares_drop(a) ? a->use.claim(a->use.cookie, bytes, a->stays) : rc;
}

static struct fm_cu_chunk *new_chunk(struct fm_cu_arena *a, uint32_t page, uint32_t pages,
	bool slab, struct fm_cu_vmm *of, int *rc)
{
	struct fm_cu_chunk *c = calloc(1, sizeof(*c));
	bool full;

	*rc = c ? claim(a, pages * FM_CU_PAGE) : -ENOMEM;
	full = *rc > 0 && !a->stays;
	if (*rc < 0) {
		fm_cu_places_give(&a->places, page, pages);
		free(c);
		return NULL;
	}
	c->page = page;
	c->pages = pages;
	c->at = a->base + page * FM_CU_PAGE;
	c->slab = slab;
	c->of = of;
	c->stays = a->stays;
	c->number = c->made_as = fm_cu_block_ids(1);
	c->used = slab ? 0 : fm_cu_run_mask(0, pages);
	fm_list_add_tail(&a->chunks, &c->all);
	fm_cu_chunk_enter(a, c, c);
	if (slab)
		a->slab_pages += pages;
	*rc = full ? -ENOMEM : fm_cu_chunk_map(a, c);
	if (*rc == -ENOMEM && (a->borrows || full))
		*rc = fm_cu_chunk_borrow(a, c);
	if (*rc) {
		fm_cu_chunk_end(a, c);
		return NULL;
	}
	a->reached = FM_MAX(a->reached, page + pages);
	return c;
}

struct fm_cu_chunk *fm_cu_chunk_new(
	struct fm_cu_arena *a, uint32_t page, uint32_t pages, bool slab, int *rc)
{
	return new_chunk(a, page, pages, slab, NULL, rc);
}

struct fm_cu_chunk *fm_cu_chunk_new_of(
	struct fm_cu_arena *a, uint32_t page, uint32_t pages, struct fm_cu_vmm *of, int *rc)
{
	return new_chunk(a, page, pages, false, of, rc);
}

void fm_cu_chunk_end(struct fm_cu_arena *a, struct fm_cu_chunk *c)
{
	if (!c->slab)
		a->slab_pages += c->pages;
	c->slab = true;
	fm_cu_want_gone(a, c, UINT64_MAX);
	c->used = 0;
	fm_cu_chunk_let_go(a, c);
	c->away = false;
	c->out = c->zero = 0;
	if (fm_cu_chunk_unmap(a, c, true))
		return;
	if (!c->lost || c->owed)
		a->use.unclaim(a->use.cookie, fm_cu_chunk_size(c), c->stays);
	a->slab_pages -= c->pages;
	fm_cu_chunk_enter(a, c, NULL);
	fm_list_del(&c->all);
	fm_cu_places_give(&a->places, c->page, c->pages);
	free(c->digests);
	free(c);
}

/* --- pages of slabs --- */

static bool take_from(struct fm_cu_chunk *c, unsigned n, uint32_t *page)
{
	int first = fm_cu_run_find(c->used | c->passed, c->pages, n);

	if (first < 0)
		return false;
	c->used |= fm_cu_run_mask((unsigned)first, n);
	*page = c->page + (unsigned)first;
	return true;
}

static struct fm_cu_chunk *new_slab(struct fm_cu_arena *a, unsigned pages, int *rc)
{
	struct fm_cu_chunk *c;
	uint32_t page;

	*rc = fm_cu_places_take(&a->places, pages, 1, &page);
	if (*rc) {
		*rc = -ENOMEM;
		return NULL;
	}
	c = fm_cu_chunk_new(a, page, pages, true, rc);
	return c;
}

static unsigned grown(const struct fm_cu_arena *a, unsigned n)
{
	unsigned part = (unsigned)FM_MIN(a->slab_pages / 4, (uint64_t)FM_CU_CHUNK_PAGES);

	return FM_MAX(n, part / n * n);
}

static struct fm_cu_chunk *take_from_any(
	struct fm_cu_arena *a, bool borrowed, unsigned n, uint32_t *page)
{
	struct fm_cu_chunk *c;

	fm_list_each (c, &a->chunks, all)
		if (c->slab && !c->of && fm_cu_chunk_here(c) && c->borrowed == borrowed &&
			take_from(c, n, page))
			return c;
	return NULL;
}

int fm_cu_slab_take(struct fm_cu_arena *a, unsigned n, uint32_t *page)
{
	unsigned pages = grown(a, n);
	struct fm_cu_chunk *slab;
	int rc;

	if (take_from_any(a, false, n, page) || (a->borrows && take_from_any(a, true, n, page)))
		return 0;
	slab = new_slab(a, pages, &rc);
	if (!slab && pages > n)
		slab = new_slab(a, n, &rc);
	if (!slab)
		return rc;
	take_from(slab, n, page);
	return 0;
}

void fm_cu_pages_give(struct fm_cu_arena *a, uint32_t page, uint32_t n)
{
	for (uint32_t end = page + n, next; page < end; page = next) {
		struct fm_cu_chunk *c = a->chunk_of[page];
		uint64_t gone;

		next = FM_MIN(c->page + c->pages, end);
		gone = fm_cu_run_mask(page - c->page, next - page);
		fm_cu_want_gone(a, c, gone);
		c->used &= ~gone;
		if (!c->used)
			fm_cu_chunk_end(a, c);
	}
}
