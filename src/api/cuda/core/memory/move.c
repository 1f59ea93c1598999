/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies go in pieces, several under way in each direction, so that the link never idles and a copy
 * of the program's finds the engine free soon. A chunk changes its place when its last piece has
 * been copied.
 *
 * The file is long because all ways to move (out, in, to a share, home, to the host) are orders of
 * the same few steps on a chunk and its lane, which nobody else may call.
 */
#include "move.h"
#include "api/cuda/core/cuda.h"
#include "arena_internal.h"
#include "base/util.h"
#include "cut.h"
#include "exchange.h"
#include "flip.h"
#include <errno.h>

struct lane { /* one direction */
	CUstream stream;
	struct {
		CUevent event;
		struct fm_cu_chunk *chunk;
	} piece[FM_CU_PIECES];
	unsigned head, n;
};

struct fm_cu_move {
	struct fm_cu_arena *a;
	struct fm_cu_move_ops ops;
	struct lane out, in;
	bool ready, inside;
	bool digested;    /* in this rest: nothing has changed since */
	bool uncapped;    /* in this move: nothing runs from the host; */
	bool homeless;    /* the driver has no room for what does */
	bool unsorted;    /* there are chunks that are new */
	unsigned changed; /* chunks that have, though nothing named them */
	int failed;       /* of the copies under way */
	uint64_t left;    /* of the device, for what comes in */
	int mode;
};

struct fm_cu_move *fm_cu_move_create(struct fm_cu_arena *a, const struct fm_cu_move_ops *ops)
{
	struct fm_cu_move *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->a = a;
	m->ops = *ops;
	return m;
}

/* --- the driver --- */

static bool enter(struct fm_cu_move *m)
{
	const struct fm_cu_driver *cu = m->a->cu;
	CUcontext ctx = fm_cu_arena_context(m->a);

	while (!m->ops.enter(m->ops.cookie)) {
		if (!m->ops.goes_on(m->ops.cookie))
			return false;
		m->ops.nap(m->ops.cookie, FM_CU_PIECE_LOOK);
	}
	m->mode = fm_cu_enter(cu);
	m->inside = ctx && !cu->ctx_push(ctx);
	if (m->inside)
		return true;
	fm_cu_leave(cu, m->mode);
	m->ops.leave(m->ops.cookie);
	return false;
}

static void leave(struct fm_cu_move *m)
{
	CUcontext old;

	if (!m->inside)
		return;
	m->inside = false;
	m->a->cu->ctx_pop(&old);
	fm_cu_leave(m->a->cu, m->mode);
	m->ops.leave(m->ops.cookie);
}

static void end_lane(const struct fm_cu_driver *cu, struct lane *l)
{
	for (unsigned i = 0; i < FM_CU_PIECES; i++)
		if (l->piece[i].event)
			cu->event_destroy(l->piece[i].event);
	if (l->stream)
		cu->stream_destroy(l->stream);
	*l = (struct lane){0};
}

static int make_lane(const struct fm_cu_driver *cu, struct lane *l)
{
	int rc = cu->stream_create(&l->stream, FM_CU_STREAM_NON_BLOCKING, 0);

	if (rc)
		l->stream = NULL;
	for (unsigned i = 0; !rc && i < FM_CU_PIECES; i++) {
		rc = cu->event_create(&l->piece[i].event, FM_CU_EVENT_NO_TIMING);
		if (rc)
			l->piece[i].event = NULL;
	}
	if (rc)
		end_lane(cu, l);
	return rc ? -EIO : 0;
}

static int make_ready(struct fm_cu_move *m)
{
	int rc = m->ready ? 0 : make_lane(m->a->cu, &m->out);

	if (rc || m->ready)
		return rc;
	rc = make_lane(m->a->cu, &m->in);
	if (rc)
		end_lane(m->a->cu, &m->out);
	m->ready = !rc;
	return rc;
}

void fm_cu_move_end(struct fm_cu_move *m, bool context_gone)
{
	if (m->ready && !context_gone && enter(m)) {
		end_lane(m->a->cu, &m->out);
		end_lane(m->a->cu, &m->in);
		leave(m);
	}
	free(m);
}

/* --- a chunk has been copied --- */

/* What was named from that turn on is in use. */
static uint32_t in_use_since(const struct fm_cu_move *m)
{
	return m->ops.since ? m->ops.since(m->ops.cookie) : 0;
}

/* If the driver does not unmap it, or not for now, its content is where it was. */
static int went_out(struct fm_cu_move *m, struct fm_cu_chunk *c)
{
	uint64_t went = fm_cu_pages_same(c, c->out), pages = (uint64_t)__builtin_popcountll(c->out);
	uint64_t kept = (uint64_t)__builtin_popcountll(went | c->zero);
	int rc = m->failed;

	if (!rc)
		rc = fm_cu_chunk_unmap(m->a, c, false);
	c->away = !c->mapped;
	if (!c->away) {
		fm_cu_chunk_let_go(m->a, c);
		c->out = c->zero = 0;
		return rc;
	}
	fm_cu_pages_copied(c, c->out);
	m->unsorted |= fm_cu_chunk_cut(m->a, c, in_use_since(m));
	m->ops.moved(m->ops.cookie, true,
		(pages - (uint64_t)__builtin_popcountll(went)) * FM_CU_PAGE, kept * FM_CU_PAGE);
	return rc;
}

/* The copy on the host stays, as long as it is known to be one. */
static int came_in(struct fm_cu_move *m, struct fm_cu_chunk *c)
{
	uint64_t bytes = (uint64_t)__builtin_popcountll(c->out & c->used) * FM_CU_PAGE;

	if (m->failed) {
		fm_cu_chunk_unmap(m->a, c, false);
		return m->failed;
	}
	c->away = false;
	c->out = c->zero = 0;
	if (c->borrowed)
		fm_cu_pages_lent(c, atomic_load(&m->a->touch.turn));
	else
		fm_cu_pages_returned(c);
	if (c->borrowed || !c->digests || !c->digests->known)
		fm_cu_chunk_let_go(m->a, c);
	m->ops.moved(m->ops.cookie, false, bytes, 0);
	return 0;
}

static int arrived(struct fm_cu_move *m, struct lane *l, struct fm_cu_chunk *c)
{
	if (c->waits || !c->queued)
		return 0;
	c->queued = false;
	return l == &m->out ? went_out(m, c) : came_in(m, c);
}

/* --- pieces --- */

/* The driver does not say how far the copies are: none is under way after this. */
static void give_up(struct fm_cu_move *m, struct lane *l)
{
	m->failed = m->failed ? m->failed : -EIO;
	m->a->cu->stream_synchronize(l->stream);
}

/* The pieces that are finished, in their order; with `all`, waits for the rest of them. */
static int reap(struct fm_cu_move *m, struct lane *l, bool all)
{
	int rc = 0, now;

	while (l->n) {
		struct fm_cu_chunk *c = l->piece[l->head].chunk;
		fm_cu_result is = m->a->cu->event_query(l->piece[l->head].event);

		if (is == FM_CU_ERROR_NOT_READY && !all)
			return rc;
		if (is == FM_CU_ERROR_NOT_READY) {
			m->ops.nap(m->ops.cookie, FM_CU_PIECE_LOOK);
			continue;
		}
		if (is)
			give_up(m, l);
		l->head = (l->head + 1) % FM_CU_PIECES;
		l->n--;
		c->waits--;
		now = arrived(m, l, c);
		rc = rc ? rc : now;
	}
	return rc;
}

/* Where the content of an address of the chunk has its place on the host. */
static char *on_the_host(const struct fm_cu_chunk *c, size_t at)
{
	unsigned page = (unsigned)(at / FM_CU_PAGE);
	uint64_t before = c->held & (fm_cu_run_mask(0, page + 1) >> 1);

	return fm_cu_host_at(&c->host) + (size_t)__builtin_popcountll(before) * FM_CU_PAGE +
	       at % FM_CU_PAGE;
}

static int put_piece(
	struct fm_cu_move *m, struct lane *l, struct fm_cu_chunk *c, size_t at, size_t size)
{
	const struct fm_cu_driver *cu = m->a->cu;
	unsigned slot;
	int rc = 0;

	while (l->n == FM_CU_PIECES && !rc) {
		rc = reap(m, l, false);
		if (l->n == FM_CU_PIECES)
			m->ops.nap(m->ops.cookie, FM_CU_PIECE_LOOK);
	}
	if (rc)
		return rc;
	slot = (l->head + l->n) % FM_CU_PIECES;
	if (l == &m->out)
		rc = cu->copy_to_host(on_the_host(c, at), c->at + at, size, l->stream);
	else if (c->zero >> at / FM_CU_PAGE & 1)
		rc = cu->fill(c->at + at, 0, size / 4, l->stream);
	else
		rc = cu->copy_to_device(c->at + at, on_the_host(c, at), size, l->stream);
	if (!rc)
		rc = cu->event_record(l->piece[slot].event, l->stream);
	if (rc)
		return -EIO;
	l->piece[slot].chunk = c;
	l->n++;
	c->waits++;
	return 0;
}

static int put_pages(
	struct fm_cu_move *m, struct lane *l, struct fm_cu_chunk *c, unsigned first, unsigned n)
{
	size_t from = first * FM_CU_PAGE, end = from + n * FM_CU_PAGE;
	int rc = 0;

	for (size_t size; !rc && from < end; from += size) {
		size = FM_MIN(FM_CU_PIECE, end - from);
		rc = put_piece(m, l, c, from, size);
	}
	return rc;
}

/* All pieces of a chunk. After an error, those under way are waited for. */
static int put_chunk(struct fm_cu_move *m, struct lane *l, struct fm_cu_chunk *c, uint64_t pages)
{
	unsigned at = 0, n;
	int first, rc = 0;

	c->queued = false;
	while (!rc && (first = fm_cu_run_next(pages & ~c->zero, &at, &n)) >= 0)
		rc = put_pages(m, l, c, (unsigned)first, n);
	at = 0;
	while (!rc && (first = fm_cu_run_next(pages & c->zero, &at, &n)) >= 0)
		rc = put_pages(m, l, c, (unsigned)first, n);
	c->queued = true;
	if (rc) {
		give_up(m, l); /* a copy without its event, too */
		reap(m, l, true);
	}
	if (!c->waits && c->queued)
		return arrived(m, l, c);
	return rc;
}

/* --- all chunks --- */

/* A chunk, and when it was last named. */
struct named {
	struct fm_cu_chunk *chunk;
	uint32_t last, place;
};

static int by_name(const void *left, const void *right)
{
	const struct named *a = left, *b = right;

	if (a->last != b->last)
		return a->last > b->last ? -1 : 1;
	return a->place < b->place ? -1 : 1;
}

/* In the list those come first that are in use: they are to go out last, and to come in first. If
 * there is no memory for it, the list stays as it is. */
static void sort_chunks(struct fm_cu_arena *a)
{
	struct fm_cu_chunk *c;
	struct named *list;
	uint32_t n = 0;

	pthread_mutex_lock(&a->lock);
	fm_list_each (c, &a->chunks, all)
		n++;
	list = malloc((n + 1) * sizeof(*list));
	n = 0;
	fm_list_each (c, &a->chunks, all)
		if (list) {
			list[n] = (struct named){c, fm_cu_chunk_named(a, c), n};
			n++;
		}
	if (n)
		qsort(list, n, sizeof(*list), by_name);
	for (uint32_t i = 0; i < n; i++) {
		fm_list_del(&list[i].chunk->all);
		fm_list_add_tail(&a->chunks, &list[i].chunk->all);
	}
	pthread_mutex_unlock(&a->lock);
	free(list);
}

/* A copy of what is on the device makes room for what is to go out. */
static bool drop_a_copy(struct fm_cu_arena *a)
{
	struct fm_cu_chunk *c;

	fm_list_each (c, &a->chunks, all) {
		if (!c->held || c->away || c->waits)
			continue;
		fm_cu_chunk_let_go(a, c);
		return true;
	}
	return false;
}

/* A place on the host for these pages: the one that the chunk has, or another. */
static int take_place(struct fm_cu_arena *a, struct fm_cu_chunk *c, uint64_t pages)
{
	unsigned n = (unsigned)__builtin_popcountll(pages);

	if (!(pages & ~c->held))
		return 0;
	fm_cu_chunk_let_go(a, c);
	while (fm_cu_host_take(&a->host, a->cu, n, &c->host))
		if (!drop_a_copy(a))
			return -ENOMEM;
	c->held = pages;
	return 0;
}

static int one_out(struct fm_cu_move *m, struct fm_cu_chunk *c)
{
	uint64_t zero = fm_cu_pages_zero(c, c->used), pages = c->used & ~zero;

	if (c->away) /* of an attempt that failed, something may be left on the device */
		return fm_cu_chunk_unmap(m->a, c, false);
	if (c->stays || !fm_cu_chunk_on_device(c))
		return 0;
	if (take_place(m->a, c, pages))
		return -ENOMEM;
	c->out = pages;
	c->zero = zero;
	return put_chunk(m, &m->out, c, pages & ~fm_cu_pages_same(c, pages));
}

/* What nobody plans needs room, too: code that is loaded when it is first launched, memory of
 * threads, contexts. Its calls fail where the device is full to the brim. */
static uint64_t kept_free(uint64_t total)
{
	return FM_MIN(FM_CU_KEPT_FREE, total / 128);
}

static int map_beside_that(struct fm_cu_move *m, struct fm_cu_chunk *c)
{
	const struct fm_cu_driver *cu = m->a->cu;
	size_t left, total;
	int rc;

	if (!c->made && cu->mem_info && !cu->mem_info(&left, &total) &&
		left < fm_cu_chunk_size(c) + kept_free(total))
		return -ENOMEM;
	rc = fm_cu_chunk_map(m->a, c);
	if (!rc && m->ops.found)
		m->ops.found(m->ops.cookie);
	return rc;
}

/* The memory that it needs may be another process's just now. */
static int map_when_there_is_room(struct fm_cu_move *m, struct fm_cu_chunk *c)
{
	int rc;

	while ((rc = map_beside_that(m, c)) == -ENOMEM) {
		reap(m, &m->in, true);
		leave(m);
		if (!m->ops.goes_on(m->ops.cookie))
			return enter(m) ? rc : -ECANCELED;
		m->ops.nap(m->ops.cookie, FM_CU_ROOM_LOOK);
		if (!enter(m))
			return -ECANCELED;
	}
	return rc;
}

/* Of a chunk that could not go, something may be unmapped. One that is lost stays as it is. */
static bool is_whole(const struct fm_cu_chunk *c)
{
	return c->lost || !c->made || (!fm_cu_chunk_torn(c) && !c->aliases);
}

static int one_in(struct fm_cu_move *m, struct fm_cu_chunk *c)
{
	int rc;

	if (!c->away)
		return is_whole(c) ? 0 : fm_cu_chunk_mend(m->a, c);
	rc = map_when_there_is_room(m, c);
	return rc ? rc : put_chunk(m, &m->in, c, (c->out | c->zero) & c->used);
}

/* Its content comes to where it runs from the host. */
static int one_borrowed(struct fm_cu_move *m, struct fm_cu_chunk *c)
{
	int rc;

	if (!c->away)
		return is_whole(c) ? 0 : fm_cu_chunk_mend(m->a, c);
	rc = fm_cu_chunk_unmap(m->a, c, false); /* of an attempt that failed */
	if (!rc)
		rc = fm_cu_chunk_borrow(m->a, c);
	return rc ? rc : put_chunk(m, &m->in, c, (c->out | c->zero) & c->used);
}

/* So much of the device is this chunk's, as long as there is any left. */
static bool has_left(struct fm_cu_move *m, const struct fm_cu_chunk *c)
{
	if (fm_cu_chunk_size(c) > m->left)
		return false;
	m->left -= m->left == UINT64_MAX ? 0 : fm_cu_chunk_size(c);
	return true;
}

/* To the device, or to where it runs from the host: what is in use comes first in the list. A host
 * that has no room, or a driver that cannot do that, has it wait for the device. */
static int one_shared(struct fm_cu_move *m, struct fm_cu_chunk *c)
{
	int rc;

	if (!c->away || has_left(m, c))
		return one_in(m, c);
	rc = one_borrowed(m, c);
	return rc && c->away && !c->made ? one_in(m, c) : rc;
}

static bool is_in_use(const struct fm_cu_move *m, const struct fm_cu_chunk *c)
{
	return fm_cu_chunk_named(m->a, c) >= in_use_since(m);
}

/* Does it run from the host, although it is in use? */
static bool may_come_home(const struct fm_cu_move *m, const struct fm_cu_chunk *c)
{
	return c->borrowed && !c->away && !c->lost && !c->stays && !c->waits && is_in_use(m, c);
}

static int flip_home(struct fm_cu_move *m, struct fm_cu_chunk *c)
{
	int rc = fm_cu_flip(m->a, c, true, m->in.stream, &m->ops);

	if (rc)
		return rc;
	fm_cu_pages_returned(c);
	m->ops.moved(m->ops.cookie, false, fm_cu_chunk_size(c), 0);
	return 0;
}

static int one_home(struct fm_cu_move *m, struct fm_cu_chunk *c)
{
	return may_come_home(m, c) && has_left(m, c) ? flip_home(m, c) : 0;
}

static int each_chunk(struct fm_cu_move *m, int (*one)(struct fm_cu_move *m, struct fm_cu_chunk *c))
{
	struct fm_cu_chunk *c;
	int rc = 0, late;

	m->failed = 0;
	fm_list_each (c, &m->a->chunks, all) {
		if (!m->ops.goes_on(m->ops.cookie))
			rc = -ECANCELED;
		rc = rc ? rc : one(m, c);
		if (rc)
			break;
	}
	late = reap(m, &m->in, true);
	return rc ? rc : late;
}

/* Without them everything is copied. */
static int take_digests(struct fm_cu_move *m)
{
	struct fm_cu_arena *a = m->a;
	struct fm_cu_chunk *c;
	int rc = 0;

	if (!m->digested && a->digests && !a->digests_off)
		rc = fm_cu_digests_take(a, a->digests, &m->ops);
	if (!rc && !m->digested && a->digests && !a->digests_off)
		rc = fm_cu_digests_check(a, a->digests, &m->ops);
	m->digested = true;
	m->changed += rc > 0 ? (unsigned)rc : 0;
	if (rc >= 0)
		return 0;
	/* It cannot be ended here: that waits for the device. */
	a->digests_off = true;
	fm_list_each (c, &a->chunks, all)
		if (c->digests)
			c->digests->fresh = false;
	/* What has not ended may read this memory yet. */
	return rc == -EBUSY ? -EIO : 0;
}

/* --- towards a share --- */

static bool may_go_out(const struct fm_cu_chunk *c)
{
	return !c->stays && fm_cu_chunk_on_device(c) && !c->waits;
}

static bool may_come_in(const struct fm_cu_chunk *c)
{
	return c->away && !c->made && !c->waits;
}

/* On the device, once the copies under way have ended. */
static uint64_t will_be_here(const struct fm_cu_arena *a)
{
	const struct fm_cu_chunk *c;
	uint64_t bytes = 0;

	fm_list_each (c, &a->chunks, all)
		if (may_go_out(c) || (c->away && c->waits && !c->borrowed))
			bytes += fm_cu_chunk_size(c);
	return bytes;
}

/* The last comes out first, so that what is used first is the first that is in. */
static struct fm_cu_chunk *next_out(struct fm_cu_arena *a)
{
	struct fm_cu_chunk *c, *last = NULL;

	fm_list_each (c, &a->chunks, all) {
		/* Of an attempt that failed, something may be left on the device. */
		if (c->away && c->made && !c->waits)
			return c;
		last = may_go_out(c) ? c : last;
	}
	return last;
}

/* Without what is out the program does not go on. With what runs from the host it does, so that is
 * not waited for, nor does it take the room of the other. */
static struct fm_cu_chunk *next_in(const struct fm_cu_move *m, uint64_t most)
{
	struct fm_cu_chunk *c, *home = NULL;

	fm_list_each (c, &m->a->chunks, all) {
		if (may_come_in(c))
			return fm_cu_chunk_size(c) <= most ? c : NULL;
		if (!home && !m->homeless && !c->remains && may_come_home(m, c))
			home = c;
	}
	return home && fm_cu_chunk_size(home) <= most ? home : NULL;
}

/* What is not in use gives its place on the device to what runs from the host and is. */
static struct fm_cu_chunk *next_instead(const struct fm_cu_move *m, uint64_t most)
{
	struct fm_cu_chunk *c, *out = next_out(m->a);

	if (!out || out->away || m->homeless || is_in_use(m, out))
		return NULL;
	fm_list_each (c, &m->a->chunks, all)
		if (!c->remains && may_come_home(m, c))
			return fm_cu_chunk_size(c) <= most ? out : NULL;
	return NULL;
}

/* One look for room: the share may be another one by the next. */
static int one_early(struct fm_cu_move *m, struct fm_cu_chunk *c)
{
	int rc;

	if (!c->away) {
		rc = flip_home(m, c);
		c->remains = rc == -EIO && !fm_cu_chunk_torn(c);
		return rc == -ENOMEM ? -ENOSPC : c->remains ? 0 : rc;
	}
	rc = map_beside_that(m, c);
	if (rc)
		return rc == -ENOMEM ? -ENOSPC : rc;
	return put_chunk(m, &m->in, c, (c->out | c->zero) & c->used);
}

static int one_to_host(struct fm_cu_move *m, struct fm_cu_chunk *c);

static bool goes_out_mapped(const struct fm_cu_move *m)
{
	return m->ops.mapped && m->ops.mapped(m->ops.cookie);
}

/* Where that is refused it goes out as others do. */
static int one_out_mapped(struct fm_cu_move *m, struct fm_cu_chunk *c)
{
	int rc;

	if (c->away || !goes_out_mapped(m))
		return one_out(m, c);
	rc = one_to_host(m, c);
	return rc == -ENOMEM || (rc == -EIO && !fm_cu_chunk_torn(c)) ? one_out(m, c) : rc;
}

static uint64_t borrowed(const struct fm_cu_arena *a)
{
	const struct fm_cu_chunk *c;
	uint64_t bytes = 0;

	fm_list_each (c, &a->chunks, all)
		bytes += c->borrowed ? fm_cu_chunk_size(c) : 0;
	return bytes;
}

static struct fm_cu_chunk *next_beyond(const struct fm_cu_arena *a, uint64_t most)
{
	struct fm_cu_chunk *c;

	fm_list_each (c, &a->chunks, all)
		if (may_come_in(c))
			return fm_cu_chunk_size(c) <= most ? c : NULL;
	return NULL;
}

/* Within the share, and beyond what may be on the device. A host without room, or a driver that
 * cannot do that, is no reason to stand still. */
static int one_beyond(struct fm_cu_move *m, struct fm_cu_chunk *c)
{
	int rc = one_borrowed(m, c);

	if (!rc || !c->away || c->made)
		return rc;
	m->uncapped = true;
	return one_early(m, c);
}

/* Begins with the next chunk, or waits for what is under way. 1: there is nothing left to do. */
static int one_step(struct fm_cu_move *m)
{
	uint64_t share = m->ops.share ? m->ops.share(m->ops.cookie) : 0;
	bool capped = m->ops.most && !m->uncapped;
	uint64_t most = capped ? m->ops.most(m->ops.cookie) : UINT64_MAX;
	uint64_t here = will_be_here(m->a), may = FM_MIN(share, most);
	struct fm_cu_chunk *c, *out;
	int rc, in;

	if (m->unsorted)
		sort_chunks(m->a);
	m->unsorted = false;
	if (!m->ops.goes_on(m->ops.cookie))
		return -ECANCELED;
	c = here > may ? NULL : next_in(m, may - here);
	if (c) {
		rc = one_early(m, c);
		/* A program that does not start early would stand still for it. */
		m->homeless = rc == -ENOSPC && !c->away && !goes_out_mapped(m);
		return m->homeless ? 0 : rc;
	}
	out = here > may ? next_out(m->a) : next_instead(m, may);
	if (out)
		return one_out_mapped(m, out);
	c = share > may ? next_beyond(m->a, fm_sub_sat(share, here + borrowed(m->a))) : NULL;
	if (c)
		return one_beyond(m, c);
	rc = reap(m, &m->out, false);
	in = reap(m, &m->in, false);
	if (rc || in)
		return rc ? rc : in;
	if (!m->out.n && !m->in.n)
		return m->unsorted ? 0 : 1; /* a part of what has just gone may come in */
	m->ops.nap(m->ops.cookie, FM_CU_PIECE_LOOK);
	return 0;
}

static int towards_share(struct fm_cu_move *m)
{
	int rc = 0, out, in;

	m->failed = 0;
	m->uncapped = m->homeless = false;
	while (!rc)
		rc = one_step(m);
	out = reap(m, &m->out, true);
	in = reap(m, &m->in, true);
	if (rc == 1)
		rc = 0;
	return rc ? rc : out ? out : in;
}

int fm_cu_move_out(struct fm_cu_move *m)
{
	int rc;

	if (!enter(m))
		return -ECANCELED;
	fm_cu_spares_drop(m->a);
	fm_cu_chunks_cut(m->a, in_use_since(m));
	sort_chunks(m->a);
	rc = make_ready(m);
	if (!rc)
		rc = take_digests(m);
	if (!rc)
		rc = towards_share(m);
	if (!rc)
		fm_cu_chunks_join(m->a, in_use_since(m));
	leave(m);
	return rc;
}

/* Towards the device, of which so much may be used. */
static int come(struct fm_cu_move *m, uint64_t share,
	int (*one)(struct fm_cu_move *m, struct fm_cu_chunk *c))
{
	int rc;

	if (!enter(m))
		return -ECANCELED;
	m->digested = false;
	fm_cu_chunks_cut(m->a, in_use_since(m));
	sort_chunks(m->a);
	m->left = share == UINT64_MAX ? share : fm_sub_sat(share, will_be_here(m->a));
	rc = make_ready(m);
	if (!rc)
		rc = each_chunk(m, one);
	leave(m);
	return rc;
}

int fm_cu_move_in(struct fm_cu_move *m)
{
	return come(m, UINT64_MAX, one_in);
}

int fm_cu_move_in_part(struct fm_cu_move *m, uint64_t share)
{
	return come(m, share, one_shared);
}

int fm_cu_move_borrow(struct fm_cu_move *m)
{
	return come(m, UINT64_MAX, one_borrowed);
}

int fm_cu_move_home(struct fm_cu_move *m, uint64_t share)
{
	return come(m, share, one_home);
}

/* --- early start --- */

/* What waits for a chunk: segments from a number on, as their distance from one far behind all; 0:
 * all of them; UINT64_MAX: none. */
static uint64_t waits_for(
	const struct fm_cu_arena *a, const struct fm_cu_chunk *c, const struct fm_cu_early *e)
{
	uint32_t now = a->touch.segment ? atomic_load(a->touch.segment) : 0, segment;

	if (!fm_touch_known(&a->touch, atomic_load(&a->touch.turn)))
		return 0;
	if (!c->of && !c->cold && fm_touch_first(&a->touch, c->page, c->pages, &segment))
		return (uint64_t)(segment - (now - (UINT32_C(1) << 31))) + 1;
	return e->before ? 0 : UINT64_MAX;
}

/* The one that is waited for first; of several, the first in the list. */
static struct fm_cu_chunk *next_early(
	const struct fm_cu_move *m, const struct fm_cu_early *e, uint64_t *waits)
{
	struct fm_cu_chunk *c, *first = NULL;

	*waits = UINT64_MAX;
	fm_list_each (c, &m->a->chunks, all) {
		uint64_t is;

		if (!may_come_home(m, c) || c->remains)
			continue;
		is = waits_for(m->a, c, e);
		if (first && is >= *waits)
			continue;
		first = c;
		*waits = is;
	}
	return first;
}

/* What waits for what is left now. */
static void look_early(const struct fm_cu_move *m, struct fm_cu_early *e)
{
	uint32_t now = m->a->touch.segment ? atomic_load(m->a->touch.segment) : 0;
	uint64_t waits = UINT64_MAX;
	const struct fm_cu_chunk *c = next_early(m, e, &waits);

	e->left = c;
	e->fits = c && fm_cu_chunk_size(c) <= fm_sub_sat(e->share, will_be_here(m->a));
	e->wait = waits == UINT64_MAX ? FM_CU_EARLY_NONE
		  : waits             ? FM_CU_EARLY_FROM
				      : FM_CU_EARLY_ALL;
	e->segment = (uint32_t)(waits - 1) + (now - (UINT32_C(1) << 31));
}

void fm_cu_move_look_early(struct fm_cu_move *m, struct fm_cu_early *e)
{
	pthread_mutex_lock(&m->a->lock);
	look_early(m, e);
	pthread_mutex_unlock(&m->a->lock);
}

static uint64_t all_early(const struct fm_cu_move *m)
{
	const struct fm_cu_chunk *c;
	uint64_t bytes = 0;

	fm_list_each (c, &m->a->chunks, all)
		bytes += may_come_home(m, c) ? fm_cu_chunk_size(c) : 0;
	return bytes;
}

/* All that one segment waits for comes at one time: it can begin then, and not before. */
static int some_home(struct fm_cu_move *m, struct fm_cu_early *e)
{
	uint64_t first = UINT64_MAX, came = 0, most = FM_MIN(e->bytes, all_early(m) / 8);
	uint64_t waits = UINT64_MAX;
	struct fm_cu_chunk *c = next_early(m, e, &first);
	int rc = 0;

	look_early(m, e);
	waits = first;
	while (!rc && e->fits &&
		(came < most || !came || (waits == first && waits != UINT64_MAX))) {
		came += fm_cu_chunk_size(c);
		rc = m->ops.goes_on(m->ops.cookie) ? flip_home(m, c) : -ECANCELED;
		/* The others can come all the same. */
		c->remains = rc == -EIO && !fm_cu_chunk_torn(c);
		rc = c->remains ? 0 : rc;
		c = next_early(m, e, &waits);
		look_early(m, e);
	}
	return rc;
}

int fm_cu_move_home_early(struct fm_cu_move *m, struct fm_cu_early *e)
{
	int rc;

	if (!enter(m))
		return -ECANCELED;
	rc = make_ready(m);
	if (!rc)
		rc = some_home(m, e);
	leave(m);
	return rc;
}

/* The copy that the host may have is not looked at any more. */
static int one_to_host(struct fm_cu_move *m, struct fm_cu_chunk *c)
{
	int rc = m->ops.goes_on(m->ops.cookie) ? fm_cu_flip(m->a, c, false, m->out.stream, &m->ops)
					       : -ECANCELED;

	if (rc)
		return rc;
	fm_cu_chunk_let_go(m->a, c);
	m->ops.moved(m->ops.cookie, true, fm_cu_chunk_size(c), 0);
	return 0;
}

int fm_cu_move_shrink(struct fm_cu_move *m, uint64_t most)
{
	struct fm_cu_chunk *c;
	int rc;

	if (!enter(m))
		return -ECANCELED;
	sort_chunks(m->a);
	rc = make_ready(m);
	while (!rc && will_be_here(m->a) > most && (c = next_out(m->a)) && !c->away)
		rc = one_to_host(m, c);
	leave(m);
	return rc;
}

/* --- exchange --- */

static int come_for_it(struct fm_cu_move *m, struct fm_cu_chunk *c)
{
	int rc = m->ops.goes_on(m->ops.cookie) ? flip_home(m, c) : -ECANCELED;

	c->exchanged += !rc;
	c->remains = rc == -EIO && !fm_cu_chunk_torn(c); /* the others can come all the same */
	return c->remains ? 0 : rc;
}

/* No more than was there is on the device afterwards; `room' is what has gone and has nothing in
 * its place. */
static int exchange_some(struct fm_cu_move *m, uint32_t since)
{
	uint64_t room = 0, moved = 0;
	int rc = 0;

	while (!rc && moved < FM_CU_EXCHANGE_BYTES) {
		struct fm_cu_exchange e = fm_cu_exchange_next(m->a, since);
		bool home = e.home && fm_cu_chunk_size(e.home) <= room;

		if (!e.home)
			break;
		rc = home ? come_for_it(m, e.home) : one_to_host(m, e.out);
		if (!rc && home)
			room -= fm_cu_chunk_size(e.home);
		else if (!rc)
			room += fm_cu_chunk_size(e.out);
		moved += home ? fm_cu_chunk_size(e.home) : 0;
	}
	/* What has gone for one that is smaller. */
	for (struct fm_cu_chunk *c; !rc && (c = fm_cu_exchange_fill(m->a, since, room));) {
		room -= fm_cu_chunk_size(c);
		rc = come_for_it(m, c);
	}
	return rc;
}

int fm_cu_move_exchange(struct fm_cu_move *m)
{
	uint32_t since = in_use_since(m);
	int rc;

	if (!enter(m))
		return -ECANCELED;
	rc = make_ready(m);
	if (!rc && since) {
		fm_cu_flip_keep(m->a);
		rc = exchange_some(m, since);
		fm_cu_flip_end(m->a);
	}
	leave(m);
	return rc;
}

bool fm_cu_move_may_exchange(struct fm_cu_move *m)
{
	bool may;

	pthread_mutex_lock(&m->a->lock);
	may = fm_cu_exchange_look(m->a, in_use_since(m));
	pthread_mutex_unlock(&m->a->lock);
	return may;
}

void fm_cu_move_counts_no_more(struct fm_cu_move *m)
{
	fm_cu_exchange_end(m->a);
}

unsigned fm_cu_move_changed(struct fm_cu_move *m)
{
	unsigned changed = m->changed;

	m->changed = 0;
	return changed;
}

bool fm_cu_move_has_room(struct fm_cu_move *m, uint64_t share)
{
	struct fm_cu_arena *a = m->a;
	uint64_t least = UINT64_MAX;
	size_t left = 0, total = 0;
	struct fm_cu_chunk *c;

	pthread_mutex_lock(&a->lock);
	fm_list_each (c, &a->chunks, all)
		if (may_come_home(m, c))
			least = FM_MIN(least, (uint64_t)fm_cu_chunk_size(c));
	share = fm_sub_sat(share, will_be_here(a));
	pthread_mutex_unlock(&a->lock);
	if (least > share || !a->cu->mem_info || !enter(m))
		return false;
	if (a->cu->mem_info(&left, &total))
		left = 0;
	leave(m);
	return left >= fm_add_sat(least, kept_free(total));
}

bool fm_cu_move_exceeds(struct fm_cu_move *m)
{
	bool exceeds;

	pthread_mutex_lock(&m->a->lock);
	exceeds = fm_cu_host_excess(&m->a->host) > 0;
	pthread_mutex_unlock(&m->a->lock);
	return exceeds;
}

enum fm_cu_trimmed fm_cu_move_trim(struct fm_cu_move *m)
{
	struct fm_cu_arena *a = m->a;
	bool more, left;

	if (!enter(m))
		return FM_CU_TRIM_KEEPS;
	pthread_mutex_lock(&a->lock);
	if (!a->host.has_room(a->host.bytes, a->host.lent))
		while (drop_a_copy(a))
			;
	while (fm_cu_host_unused(&a->host) < fm_cu_host_excess(&a->host) && drop_a_copy(a))
		;
	more = fm_cu_host_trim(&a->host, a->cu);
	left = a->host.bytes;
	pthread_mutex_unlock(&a->lock);
	leave(m);
	return more ? FM_CU_TRIM_MORE : left ? FM_CU_TRIM_KEEPS : FM_CU_TRIM_ALL;
}
