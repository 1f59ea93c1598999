/* SPDX-License-Identifier: Apache-2.0 */
#include "cut.h"
#include "api/cuda/core/tune.h"
#include "arena_internal.h"
#include "base/util.h"
#include <stdlib.h>
#include <string.h>

#define PART  ((unsigned)(FM_CU_PART / FM_CU_PAGE))
#define PARTS ((FM_CU_CHUNK_PAGES + PART - 1) / PART)

static bool is_out(const struct fm_cu_chunk *c)
{
	return c->away && !c->made && !c->waits && !c->stays && !c->holds && !c->of;
}

/* --- cut --- */

/* Which parts of the chunk are in use; a part that nobody has is as the one beside it. How many
 * there are. */
static unsigned look(
	const struct fm_cu_arena *a, const struct fm_cu_chunk *c, uint32_t since, bool used[PARTS])
{
	bool known = false;
	unsigned n = 0;

	for (unsigned at = 0; at < c->pages; at += PART, n++) {
		uint64_t pages = c->used & fm_cu_run_mask(at, FM_MIN(PART, c->pages - at));

		used[n] = pages ? fm_cu_want_named(a, c, pages) >= since : n && used[n - 1];
		for (unsigned k = n; pages && !known && k; k--)
			used[k - 1] = used[n];
		known |= pages != 0;
	}
	return n;
}

static uint64_t take_bits(uint64_t *of, unsigned at)
{
	uint64_t high = *of >> at;

	*of &= fm_cu_run_mask(0, at);
	return high;
}

static void cut_place(struct fm_cu_chunk *c, struct fm_cu_chunk *n, unsigned at)
{
	n->held = take_bits(&c->held, at);
	n->host = c->host;
	c->host.pages = (unsigned)__builtin_popcountll(c->held);
	n->host.first += c->host.pages;
	n->host.pages -= c->host.pages;
	if (!c->held)
		c->host = (struct fm_cu_host_run){0};
	if (!n->held)
		n->host = (struct fm_cu_host_run){0};
}

/* From that page on, it is another chunk. */
static bool cut_at(struct fm_cu_arena *a, struct fm_cu_chunk *c, unsigned at)
{
	struct fm_cu_chunk *n = calloc(1, sizeof(*n));

	if (!n || fm_cu_places_cut(&a->places)) {
		free(n);
		return false;
	}
	n->page = c->page + at;
	n->pages = c->pages - at;
	n->at = c->at + at * FM_CU_PAGE;
	n->slab = c->slab;
	n->away = true;
	n->number = fm_cu_block_ids(1);
	n->made_as = c->made_as;
	n->used = take_bits(&c->used, at);
	n->passed = take_bits(&c->passed, at);
	n->cold = take_bits(&c->cold, at);
	n->out = take_bits(&c->out, at);
	n->zero = take_bits(&c->zero, at);
	cut_place(c, n, at);
	fm_cu_pages_cut(c, n, at);
	c->pages = at;
	fm_list_add_head(&c->all, &n->all);
	fm_cu_chunk_enter(a, n, n);
	return true;
}

bool fm_cu_chunk_cut(struct fm_cu_arena *a, struct fm_cu_chunk *c, uint32_t since)
{
	bool used[PARTS], cut = false;
	unsigned n;

	if (!is_out(c) || c->pages <= PART)
		return false;
	pthread_mutex_lock(&a->lock);
	n = look(a, c, since, used);
	while (--n)
		if (used[n] != used[n - 1])
			cut |= cut_at(a, c, n * PART);
	pthread_mutex_unlock(&a->lock);
	return cut;
}

void fm_cu_chunks_cut(struct fm_cu_arena *a, uint32_t since)
{
	struct fm_cu_chunk *c;

	fm_list_each (c, &a->chunks, all)
		fm_cu_chunk_cut(a, c, since);
}

/* --- join --- */

static bool are_one(const struct fm_cu_arena *a, const struct fm_cu_chunk *c,
	const struct fm_cu_chunk *n, uint32_t since)
{
	return is_out(n) && c->made_as == n->made_as &&
	       (fm_cu_chunk_named(a, c) >= since) == (fm_cu_chunk_named(a, n) >= since);
}

static void copy_place(char **to, struct fm_cu_chunk *c, struct fm_cu_host_pool *host)
{
	size_t bytes = c->host.pages * FM_CU_PAGE;

	memcpy(*to, fm_cu_host_at(&c->host), bytes);
	*to += bytes;
	fm_cu_host_give(host, &c->host);
}

/* Both contents lie one behind the other afterwards. It is not worth that others give memory up for
 * it, or that anybody waits. */
static bool join_places(
	struct fm_cu_arena *a, struct fm_cu_chunk *c, struct fm_cu_chunk *n, unsigned *copies)
{
	unsigned pages = c->host.pages + n->host.pages;
	struct fm_cu_host_run run = {.of = c->host.of, .first = c->host.first, .pages = pages};
	char *to;

	if (!c->held)
		run = n->host;
	else if (n->held &&
		 (c->host.of != n->host.of || c->host.first + c->host.pages != n->host.first)) {
		if (pages > *copies || fm_cu_host_take_own(&a->host, a->cu, pages, &run))
			return false;
		*copies -= pages;
		to = fm_cu_host_at(&run);
		copy_place(&to, c, &a->host);
		copy_place(&to, n, &a->host);
	}
	c->host = run;
	c->held |= n->held << c->pages;
	return true;
}

static void join(struct fm_cu_arena *a, struct fm_cu_chunk *c, struct fm_cu_chunk *n)
{
	fm_cu_pages_join(c, n);
	c->used |= n->used << c->pages;
	c->passed |= n->passed << c->pages;
	c->cold |= n->cold << c->pages;
	c->out |= n->out << c->pages;
	c->zero |= n->zero << c->pages;
	c->pages += n->pages;
	fm_cu_chunk_enter(a, n, c);
	fm_cu_places_join(&a->places);
	fm_list_del(&n->all);
	free(n->digests);
	free(n);
}

void fm_cu_chunks_join(struct fm_cu_arena *a, uint32_t since)
{
	unsigned copies = FM_CU_CHUNK_PAGES; /* 15 ms: the rest is for another time */
	struct fm_cu_chunk *c, *n;

	if (!since) /* it is not known */
		return;
	pthread_mutex_lock(&a->lock);
	fm_list_each (c, &a->chunks, all)
		while (is_out(c) && (n = a->chunk_of[c->page + c->pages]) &&
			are_one(a, c, n, since) && join_places(a, c, n, &copies))
			join(a, c, n);
	pthread_mutex_unlock(&a->lock);
}
