/* SPDX-License-Identifier: Apache-2.0 */
#include "want.h"
#include "arena_internal.h"
#include "base/util.h"
#include <errno.h>

/* The pages of the chunk in the range. */
static uint64_t pages_in(const struct fm_cu_chunk *c, CUdeviceptr at, size_t size)
{
	CUdeviceptr end = at + size, ends = c->at + fm_cu_chunk_size(c);
	unsigned first, last;

	if (!size || at >= ends || end <= c->at)
		return 0;
	first = at > c->at ? (unsigned)((at - c->at) / FM_CU_PAGE) : 0;
	last = (unsigned)((FM_MIN(end, ends) - 1 - c->at) / FM_CU_PAGE);
	return fm_cu_run_mask(first, last - first + 1);
}

/* --- what is in use --- */

void fm_cu_want_cold(struct fm_cu_arena *a, CUdeviceptr at, size_t size)
{
	struct fm_cu_chunk *c;

	pthread_mutex_lock(&a->lock);
	fm_list_each (c, &a->chunks, all)
		c->cold |= pages_in(c, at, size) & c->used;
	pthread_mutex_unlock(&a->lock);
}

void fm_cu_want_soon(struct fm_cu_arena *a, CUdeviceptr at, size_t size)
{
	struct fm_cu_chunk *c;

	pthread_mutex_lock(&a->lock);
	fm_list_each (c, &a->chunks, all)
		c->cold &= ~pages_in(c, at, size);
	pthread_mutex_unlock(&a->lock);
	fm_touch_range(&a->touch, at, size);
}

uint32_t fm_cu_want_named(const struct fm_cu_arena *a, const struct fm_cu_chunk *c, uint64_t pages)
{
	unsigned at = 0, n;
	uint32_t last = 0;
	int first;

	if (c->of)
		return c->used & ~c->cold ? UINT32_MAX : 0;
	pages &= c->used & ~c->cold;
	while ((first = fm_cu_run_next(pages, &at, &n)) >= 0)
		last = FM_MAX(last, fm_touch_last(&a->touch, c->page + (unsigned)first, n));
	return last;
}

/* --- what stays --- */

static void let_go(struct fm_cu_arena *a, struct fm_cu_chunk *c, uint64_t pages)
{
	if (!c->kept)
		return;
	c->kept &= ~pages;
	c->leaving &= c->kept;
	if (c->kept)
		return;
	if (a->use.unkept)
		a->use.unkept(a->use.cookie, fm_cu_chunk_size(c));
	if (c->stays_held)
		return;
	/* What holds it beside the program still does. */
	fm_cu_recount(a, c, c->stays, c->holds ? c->held_for : 0);
	c->stays = c->holds ? c->held_for : 0;
	c->stays_held = c->holds;
}

void fm_cu_want_fixed(struct fm_cu_arena *a, struct fm_cu_chunk *c)
{
	let_go(a, c, UINT64_MAX);
}

void fm_cu_want_gone(struct fm_cu_arena *a, struct fm_cu_chunk *c, uint64_t pages)
{
	c->cold &= ~pages;
	let_go(a, c, pages);
}

/* Would the program's word be the first? What stays for good needs none. */
static bool is_new(const struct fm_cu_chunk *c)
{
	return !c->kept && (!c->stays || c->stays_held);
}

/* Lock held. */
static int look(struct fm_cu_arena *a, CUdeviceptr at, size_t size, uint64_t *bytes)
{
	struct fm_cu_chunk *c;

	*bytes = 0;
	fm_list_each (c, &a->chunks, all) {
		if (!(pages_in(c, at, size) & c->used) || !is_new(c))
			continue;
		if (!fm_cu_chunk_on_device(c))
			return -EBUSY;
		*bytes += fm_cu_chunk_size(c);
	}
	return 0;
}

int fm_cu_want_pins(struct fm_cu_arena *a, CUdeviceptr at, size_t size, uint64_t *bytes)
{
	int rc;

	pthread_mutex_lock(&a->lock);
	rc = look(a, at, size, bytes);
	pthread_mutex_unlock(&a->lock);
	return rc;
}

static void keep(struct fm_cu_arena *a, struct fm_cu_chunk *c, uint64_t pages, unsigned reason)
{
	if (!pages || (!c->kept && !is_new(c)))
		return;
	if (!c->stays)
		fm_cu_recount(a, c, 0, reason);
	if (!c->stays_held)
		c->stays = reason;
	c->kept_for = reason;
	c->kept |= pages;
	c->leaving &= ~pages;
	c->cold &= ~pages;
}

int fm_cu_want_pin(struct fm_cu_arena *a, CUdeviceptr at, size_t size, unsigned reason)
{
	struct fm_cu_chunk *c;
	uint64_t bytes;
	int rc;

	pthread_mutex_lock(&a->lock);
	rc = look(a, at, size, &bytes);
	if (!rc)
		fm_list_each (c, &a->chunks, all)
			keep(a, c, pages_in(c, at, size) & c->used, reason);
	pthread_mutex_unlock(&a->lock);
	return rc;
}

void fm_cu_want_unpin(struct fm_cu_arena *a, CUdeviceptr at, size_t size, bool now)
{
	struct fm_cu_chunk *c;

	pthread_mutex_lock(&a->lock);
	fm_list_each (c, &a->chunks, all) {
		c->leaving |= pages_in(c, at, size) & c->kept;
		if (now)
			let_go(a, c, c->leaving);
	}
	pthread_mutex_unlock(&a->lock);
}

void fm_cu_want_settle(struct fm_cu_arena *a)
{
	fm_cu_want_unpin(a, a->base, 0, true);
}

/* --- where it is --- */

/* The part of a page that is in the range. */
static uint64_t bytes_in(CUdeviceptr page, CUdeviceptr at, size_t size)
{
	return FM_MIN(at + size, page + FM_CU_PAGE) - FM_MAX(at, page);
}

/* A chunk that moves at this moment is told as it was, or as it will be. */
static uint64_t *place_of(const struct fm_cu_chunk *c, uint64_t bit, struct fm_cu_want_sums *sums)
{
	if (!c->away)
		return c->borrowed ? &sums->mapped : &sums->device;
	return c->out & bit ? &sums->host : &sums->empty;
}

void fm_cu_want_sum(
	struct fm_cu_arena *a, CUdeviceptr at, size_t size, struct fm_cu_want_sums *sums)
{
	struct fm_cu_chunk *c;

	pthread_mutex_lock(&a->lock);
	fm_list_each (c, &a->chunks, all) {
		uint64_t pages = pages_in(c, at, size) & c->used;

		for (; pages; pages &= pages - 1) {
			unsigned page = (unsigned)__builtin_ctzll(pages);
			uint64_t bytes = bytes_in(c->at + page * FM_CU_PAGE, at, size);

			*place_of(c, UINT64_C(1) << page, sums) += bytes;
			if (c->stays && fm_cu_chunk_on_device(c))
				sums->pinned += bytes;
		}
	}
	pthread_mutex_unlock(&a->lock);
}
