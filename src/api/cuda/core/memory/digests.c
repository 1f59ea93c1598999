/* SPDX-License-Identifier: Apache-2.0 */
#include "digests.h"
#include "api/cuda/core/cuda.h"
#include "api/cuda/core/tune.h"
#include "arena_internal.h"
#include "base/clock.h"
#include "base/util.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Pages of one go. */
#define PAGES  8192u
#define BLOCKS 8u /* of a page */
/* GRND_NONBLOCK of headers that older machines lack. */
#define NONBLOCK 1u

struct fm_cu_digests {
	const struct fm_cu_driver *cu;
	CUfunction kernel;
	CUstream stream;
	CUdeviceptr out;        /* of the device, */
	struct fm_digest *host; /* and what is copied from there */
	struct fm_digest_key key;
};

static bool has_driver(const struct fm_cu_driver *cu)
{
	return cu->module_load && cu->module_function && cu->launch && cu->fill && cu->mem_alloc &&
	       cu->mem_free && cu->host_alloc && cu->host_free && cu->copy_to_host &&
	       cu->stream_create && cu->stream_destroy && cu->stream_query &&
	       cu->stream_synchronize;
}

static void draw_key(struct fm_digest_key *key)
{
	uint64_t random[2] = {fm_now(), (uintptr_t)key};

	/* Without random numbers it is a key all the same. */
	if (syscall(SYS_getrandom, random, sizeof(random), NONBLOCK) < 0)
		random[1] ^= (uintptr_t)&random;
	fm_digest_key(key, random);
}

static int launch(struct fm_cu_digests *d, CUdeviceptr at, unsigned pages, unsigned first)
{
	const struct fm_cu_launch_config config = {.grid = {BLOCKS, FM_MAX(pages, 1u), 1},
		.block = {FM_DIGEST_THREADS, 1, 1},
		.stream = d->stream};
	uint64_t tiles = pages ? FM_CU_PAGE / FM_DIGEST_TILE : 0;
	CUdeviceptr out = d->out + first * sizeof(struct fm_digest);
	void *params[] = {&at, &tiles, &out, &d->key};

	return d->cu->launch(&config, d->kernel, params, NULL) ? -EIO : 0;
}

static int wait_for(struct fm_cu_digests *d, const struct fm_cu_move_ops *ops)
{
	uint64_t until = fm_now() + FM_CU_DIGEST_MOST;
	fm_cu_result rc;

	while ((rc = d->cu->stream_query(d->stream)) == FM_CU_ERROR_NOT_READY) {
		if (fm_now() > until)
			return -EBUSY;
		ops->nap(ops->cookie, FM_CU_PIECE_LOOK);
	}
	return rc ? -EIO : 0;
}

/* Code may be loaded at its first launch. */
static bool try_kernel(struct fm_cu_digests *d)
{
	return !launch(d, d->out, 0, 0) && !d->cu->stream_synchronize(d->stream);
}

static bool make(struct fm_cu_digests *d, const struct fm_cu_driver *cu)
{
	CUmodule module;
	void *host = NULL;

	if (cu->stream_create(&d->stream, FM_CU_STREAM_NON_BLOCKING, 0))
		d->stream = NULL;
	if (cu->mem_alloc(&d->out, PAGES * sizeof(struct fm_digest)))
		d->out = 0;
	if (!cu->host_alloc(&host, PAGES * sizeof(struct fm_digest), 0))
		d->host = host;
	return d->stream && d->out && d->host && !cu->module_load(&module, fm_digest_image) &&
	       !cu->module_function(&d->kernel, module, FM_DIGEST_KERNEL) && try_kernel(d);
}

struct fm_cu_digests *fm_cu_digests_create(const struct fm_cu_driver *cu)
{
	struct fm_cu_digests *d = has_driver(cu) ? calloc(1, sizeof(*d)) : NULL;
	bool made;
	int mode;

	if (!d)
		return NULL;
	d->cu = cu;
	draw_key(&d->key);
	mode = fm_cu_enter(cu);
	made = make(d, cu);
	fm_cu_leave(cu, mode);
	if (made)
		return d;
	fm_cu_digests_end(d, false);
	return NULL;
}

void fm_cu_digests_end(struct fm_cu_digests *d, bool context_gone)
{
	if (d && !context_gone) {
		if (d->out)
			d->cu->mem_free(d->out);
		if (d->host)
			d->cu->host_free(d->host);
		if (d->stream)
			d->cu->stream_destroy(d->stream);
	}
	free(d);
}

/* --- on trial --- */

static void nap(void *cookie, uint64_t ns)
{
	const struct timespec pause = fm_timespec(ns);

	(void)cookie;
	nanosleep(&pause, NULL);
}

int fm_cu_digests_try(struct fm_cu_digests *d, CUdeviceptr at, const void *host, unsigned pages)
{
	const struct fm_cu_move_ops ops = {.nap = nap};
	size_t size = pages * sizeof(struct fm_digest);
	fm_cu_result rc = d->cu->fill(d->out, 0, size / 4, d->stream);
	int ended;

	rc = rc ? rc : launch(d, at, pages, 0);
	rc = rc ? rc : d->cu->copy_to_host(d->host, d->out, size, d->stream);
	ended = wait_for(d, &ops);
	if (ended || rc)
		return ended ? ended : -EIO;
	for (unsigned i = 0; i < pages; i++) {
		struct fm_digest own = {{0}, 0};

		fm_digest_add(&own, &d->key, (const char *)host + i * FM_CU_PAGE, FM_CU_PAGE);
		if (!fm_digest_equal(&own, &d->host[i]))
			return -EILSEQ;
	}
	return 0;
}

/* --- pages of a chunk --- */

static struct fm_cu_page_digests *make_pages(unsigned pages)
{
	struct fm_cu_page_digests *p = calloc(1, sizeof(*p) + 2 * pages * sizeof(struct fm_digest));

	if (p)
		p->now = p->then + pages;
	return p;
}

static struct fm_cu_page_digests *pages_of(struct fm_cu_chunk *c)
{
	if (!c->digests)
		c->digests = make_pages(c->pages);
	return c->digests;
}

uint64_t fm_cu_pages_zero(const struct fm_cu_chunk *c, uint64_t used)
{
	const struct fm_cu_page_digests *p = c->digests;
	uint64_t zero = 0;

	for (unsigned i = 0; p && p->fresh && i < c->pages; i++)
		zero |= (uint64_t)!p->now[i].ones << i;
	return zero & used;
}

uint64_t fm_cu_pages_same(const struct fm_cu_chunk *c, uint64_t used)
{
	const struct fm_cu_page_digests *p = c->digests;
	uint64_t same = 0;

	for (unsigned i = 0; p && p->fresh && i < c->pages; i++)
		same |= (uint64_t)fm_digest_equal(&p->now[i], &p->then[i]) << i;
	return p ? same & p->known & used : 0;
}

void fm_cu_pages_copied(struct fm_cu_chunk *c, uint64_t pages)
{
	struct fm_cu_page_digests *p = c->digests;

	if (!p)
		return;
	p->known = p->fresh ? pages : 0;
	if (p->fresh)
		memcpy(p->then, p->now, c->pages * sizeof(*p->then));
}

void fm_cu_pages_forget(struct fm_cu_chunk *c)
{
	if (c->digests)
		c->digests->known = 0;
}

/* --- chunks that become two, or one --- */

/* n pages, from one place of the one to another of the other. */
static void copy_pages(struct fm_cu_page_digests *to, unsigned at,
	const struct fm_cu_page_digests *from, unsigned first, unsigned n)
{
	uint64_t pages = fm_cu_run_mask(first, n);

	memcpy(to->then + at, from->then + first, n * sizeof(*to->then));
	memcpy(to->now + at, from->now + first, n * sizeof(*to->now));
	to->known |= (from->known & pages) >> first << at;
	to->lent |= (from->lent & pages) >> first << at;
}

void fm_cu_pages_cut(struct fm_cu_chunk *c, struct fm_cu_chunk *n, unsigned at)
{
	struct fm_cu_page_digests *p = c->digests;

	n->digests = p ? make_pages(n->pages) : NULL;
	if (n->digests) {
		copy_pages(n->digests, 0, p, at, n->pages);
		n->digests->fresh = p->fresh;
		n->digests->turn = p->turn;
	}
	if (!p)
		return;
	p->known &= fm_cu_run_mask(0, at);
	p->lent &= fm_cu_run_mask(0, at);
}

void fm_cu_pages_join(struct fm_cu_chunk *c, struct fm_cu_chunk *n)
{
	const struct fm_cu_page_digests *first = c->digests, *second = n->digests;
	struct fm_cu_page_digests *p = first && second ? make_pages(c->pages + n->pages) : NULL;

	if (p) {
		copy_pages(p, 0, first, 0, c->pages);
		copy_pages(p, c->pages, second, 0, n->pages);
		p->fresh = first->fresh && second->fresh;
		p->turn = FM_MIN(first->turn, second->turn);
	}
	free(c->digests);
	c->digests = p;
}

/* --- all of them --- */

static bool may_go(const struct fm_cu_chunk *c)
{
	return !c->stays && fm_cu_chunk_on_device(c) && c->used;
}

/* From that chunk on, until there are PAGES: *next is the first that is left. */
static int take_some(struct fm_cu_arena *a, struct fm_cu_digests *d, struct fm_cu_chunk *from,
	struct fm_cu_chunk **next, const struct fm_cu_move_ops *ops)
{
	struct fm_cu_chunk *c;
	unsigned n = 0;
	int rc;

	rc = d->cu->fill(d->out, 0, PAGES * sizeof(struct fm_digest) / 4, d->stream) ? -EIO : 0;
	for (c = from; !rc && &c->all != &a->chunks && n + c->pages <= PAGES;
		c = fm_list_first(&c->all, struct fm_cu_chunk, all)) {
		if (!may_go(c) || !pages_of(c))
			continue;
		rc = launch(d, c->at, c->pages, n);
		n += c->pages;
	}
	*next = c;
	if (!rc && d->cu->copy_to_host(d->host, d->out, n * sizeof(struct fm_digest), d->stream))
		rc = -EIO;
	/* After an error, too: what was launched reads this memory. */
	rc = FM_MIN(wait_for(d, ops), rc);
	n = 0;
	for (c = from; !rc && c != *next; c = fm_list_first(&c->all, struct fm_cu_chunk, all)) {
		if (!may_go(c) || !c->digests)
			continue;
		memcpy(c->digests->now, d->host + n, c->pages * sizeof(*d->host));
		c->digests->fresh = true;
		n += c->pages;
	}
	return rc;
}

int fm_cu_digests_take(
	struct fm_cu_arena *a, struct fm_cu_digests *d, const struct fm_cu_move_ops *ops)
{
	struct fm_cu_chunk *c;
	int rc = 0;

	fm_list_each (c, &a->chunks, all)
		if (c->digests)
			c->digests->fresh = false;
	c = fm_list_first(&a->chunks, struct fm_cu_chunk, all);
	while (!rc && &c->all != &a->chunks)
		rc = take_some(a, d, c, &c, ops);
	return rc;
}

/* --- what runs from the host --- */

void fm_cu_pages_lent(struct fm_cu_chunk *c, uint32_t turn)
{
	if (!c->digests)
		return;
	c->digests->lent = c->digests->known;
	c->digests->turn = turn;
}

void fm_cu_pages_returned(struct fm_cu_chunk *c)
{
	if (c->digests)
		c->digests->lent = 0;
}

/* What was named since may have been written. */
static bool may_check(const struct fm_cu_arena *a, struct fm_cu_chunk *c)
{
	if (!c->digests || !c->borrowed || c->away || c->stays || !fm_cu_chunk_here(c))
		return false;
	if (fm_cu_chunk_named(a, c) >= c->digests->turn ||
		!fm_touch_known(&a->touch, c->digests->turn))
		c->digests->lent = 0;
	return c->digests->lent & c->used;
}

/* 1: the chunk has changed. */
static int check_one(struct fm_cu_arena *a, struct fm_cu_digests *d, struct fm_cu_chunk *c,
	const struct fm_cu_move_ops *ops)
{
	struct fm_cu_page_digests *p = c->digests;
	size_t size = c->pages * sizeof(*d->host);
	bool differs = false;
	int rc, ended;

	rc = d->cu->fill(d->out, 0, size / 4, d->stream) ? -EIO : 0;
	rc = rc ? rc : launch(d, c->at, c->pages, 0);
	if (!rc && d->cu->copy_to_host(d->host, d->out, size, d->stream))
		rc = -EIO;
	ended = wait_for(d, ops);
	if (rc || ended)
		return ended ? ended : rc;
	for (unsigned i = 0; i < c->pages; i++)
		differs |=
			(p->lent & c->used) >> i & 1 && !fm_digest_equal(&d->host[i], &p->then[i]);
	if (!differs)
		return 0;
	p->lent = 0;
	fm_touch_range(&a->touch, c->at, fm_cu_chunk_size(c));
	return 1;
}

int fm_cu_digests_check(
	struct fm_cu_arena *a, struct fm_cu_digests *d, const struct fm_cu_move_ops *ops)
{
	struct fm_cu_chunk *c;
	int differ = 0, rc = 0;

	fm_list_each (c, &a->chunks, all) {
		if (!may_check(a, c) || ++a->unchecked < FM_CU_CHECK_EVERY)
			continue;
		a->unchecked = 0;
		rc = check_one(a, d, c, ops);
		if (rc < 0)
			return rc;
		differ += rc;
	}
	return differ;
}
