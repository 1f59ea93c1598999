/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pass. For each byte: the last operation that wrote it, the last that certainly did so first
 * (K), and the last that read it behind that. When a byte is written that was read since its last
 * K, the starts from behind that K to the read are forbidden for good; so they are when a byte is
 * read that was written since its last K, but perhaps not first. start(k) is the last start up to k
 * that is not forbidden, found by a forest whose roots are those.
 *
 * Bytes of the same history are one piece of a treap; a K makes one piece of many.
 */
#include "base/util.h"
#include "idem.h"
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define NONE 0u /* no piece */

struct piece {
	uint64_t from, to;
	uint32_t left, right, weight;
	int32_t written, first, read; /* -1: none; read: behind `first' */
};
struct pass {
	struct piece *piece;
	uint32_t n, room, unused, root;
	uint64_t random;
	int32_t *below;    /* [k + 1]: itself while start k is allowed, else one in front */
	struct piece *now; /* what is being changed */
	size_t n_now, now_room;
};

/* --- starts --- */

static int32_t allowed(int32_t *below, int32_t at)
{
	while (below[at] != at) {
		below[at] = below[below[at]];
		at = below[at];
	}
	return at;
}

/* Those in (after, upto]. */
static void forbid(struct pass *p, int32_t after, int32_t upto)
{
	for (int32_t at = allowed(p->below, upto + 1); at > after + 1; at = allowed(p->below, at))
		p->below[at] = at - 1;
}

/* --- pieces --- */

/* The author of a trace must not know the weights: with them it could make the treap as deep as it
 * has pieces. (splitmix64) */
static uint32_t next_weight(struct pass *p)
{
	uint64_t x = p->random += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return (uint32_t)(x >> 32);
}

static uint32_t new_piece(struct pass *p, const struct piece *like)
{
	uint32_t at = p->unused;

	if (at) {
		p->unused = p->piece[at].left;
	} else {
		if (p->n == p->room) {
			uint32_t room = p->room ? p->room * 2 : 1024;
			struct piece *more = reallocarray(p->piece, room, sizeof(*more));

			if (!more)
				return NONE;
			p->piece = more;
			p->room = room;
			p->n = FM_MAX(p->n, 1u);
		}
		at = p->n++;
	}
	p->piece[at] = *like;
	p->piece[at].weight = next_weight(p);
	p->piece[at].left = p->piece[at].right = NONE;
	return at;
}

static uint32_t join(struct pass *p, uint32_t a, uint32_t b)
{
	if (!a || !b)
		return a ? a : b;
	if (p->piece[a].weight > p->piece[b].weight) {
		p->piece[a].right = join(p, p->piece[a].right, b);
		return a;
	}
	p->piece[b].left = join(p, a, p->piece[b].left);
	return b;
}

/* Pieces that begin in front of `at', and the others. */
static void part(struct pass *p, uint32_t tree, uint64_t at, uint32_t *a, uint32_t *b)
{
	if (!tree) {
		*a = *b = NONE;
	} else if (p->piece[tree].from < at) {
		part(p, p->piece[tree].right, at, &p->piece[tree].right, b);
		*a = tree;
	} else {
		part(p, p->piece[tree].left, at, a, &p->piece[tree].left);
		*b = tree;
	}
}

/* No piece reaches over `at' any more. */
static int cut(struct pass *p, uint32_t *tree, uint64_t at)
{
	uint32_t last = *tree, fits = NONE, a, b;
	struct piece behind;

	while (last) {
		bool in_front = p->piece[last].from < at;

		fits = in_front ? last : fits;
		last = in_front ? p->piece[last].right : p->piece[last].left;
	}
	if (!fits || p->piece[fits].to <= at)
		return 0;
	behind = p->piece[fits];
	behind.from = at;
	last = new_piece(p, &behind);
	if (!last)
		return -ENOMEM;
	p->piece[fits].to = at;
	part(p, *tree, at, &a, &b);
	*tree = join(p, join(p, a, last), b);
	return 0;
}

static int push_now(struct pass *p, const struct piece *one)
{
	struct piece *last = p->n_now ? &p->now[p->n_now - 1] : NULL;

	if (last && last->written == one->written && last->first == one->first &&
		last->read == one->read) {
		last->to = one->to;
		return 0;
	}
	if (p->n_now == p->now_room) {
		size_t room = p->now_room ? p->now_room * 2 : 64;
		struct piece *more = reallocarray(p->now, room, sizeof(*more));

		if (!more)
			return -ENOMEM;
		p->now = more;
		p->now_room = room;
	}
	p->now[p->n_now++] = *one;
	return 0;
}

/* What one operation does to the bytes of a piece. */
enum access { READ, WRITE, WRITE_FIRST };
static void change(struct pass *p, struct piece *one, enum access access, int32_t k)
{
	if (access == READ) {
		if (one->written > one->first)
			forbid(p, one->first, one->written);
		one->read = k;
		return;
	}
	if (one->read > one->first)
		forbid(p, one->first, one->read);
	one->written = k;
	if (access == WRITE_FIRST) {
		one->first = k;
		one->read = -1;
	}
}

/* Takes the tree apart, in order; changes its pieces. */
static int change_all(struct pass *p, uint32_t tree, enum access access, int32_t k)
{
	int rc = 0;

	p->n_now = 0;
	while (tree && !rc) { /* rotate left children up: no recursion, no parents */
		uint32_t left = p->piece[tree].left;
		struct piece one;

		if (left) {
			p->piece[tree].left = p->piece[left].right;
			p->piece[left].right = tree;
			tree = left;
			continue;
		}
		one = p->piece[tree];
		p->piece[tree].left = p->unused;
		p->unused = tree;
		tree = one.right;
		change(p, &one, access, k);
		rc = push_now(p, &one);
	}
	return rc;
}

static int change_span(struct pass *p, const struct fm_idem_span *s, enum access access, int32_t k)
{
	uint32_t before, in, behind;
	int rc = cut(p, &p->root, s->from);

	rc = rc ? rc : cut(p, &p->root, s->to);
	if (rc)
		return rc;
	part(p, p->root, s->to, &in, &behind);
	part(p, in, s->from, &before, &in);
	rc = change_all(p, in, access, k);
	for (size_t i = 0; i < p->n_now && !rc; i++) {
		uint32_t at = new_piece(p, &p->now[i]);

		rc = at ? 0 : -ENOMEM;
		before = join(p, before, at);
	}
	p->root = join(p, before, behind);
	return rc;
}

static int change_set(
	struct pass *p, const struct fm_idem_span *s, size_t n, enum access access, int32_t k)
{
	int rc = 0;

	for (size_t i = 0; i < n && !rc; i++)
		rc = change_span(p, &s[i], access, k);
	return rc;
}

/* --- the pass --- */

static int take_op(struct pass *p, const struct fm_idem_trace *t, const struct fm_idem_op *o,
	int32_t k, struct fm_idem_set *later)
{
	const struct fm_idem_span *w = fm_idem_spans(t, o, FM_IDEM_W);
	const struct fm_idem_span *first = fm_idem_spans(t, o, FM_IDEM_K);
	int rc = change_set(p, fm_idem_spans(t, o, FM_IDEM_R), o->n[FM_IDEM_R], READ, k);

	rc = rc ? rc : fm_idem_set_minus(later, w, o->n[FM_IDEM_W], first, o->n[FM_IDEM_K]);
	rc = rc ? rc : change_set(p, later->span, later->n, WRITE, k);
	return rc ? rc : change_set(p, first, o->n[FM_IDEM_K], WRITE_FIRST, k);
}

static int begin(struct pass *p, size_t n)
{
	const struct piece all = {.to = FM_IDEM_END, .written = -1, .first = -1, .read = -1};

	if (getentropy(&p->random, sizeof(p->random)))
		p->random = 1;
	p->below = reallocarray(NULL, n + 1, sizeof(*p->below));
	if (!p->below)
		return -ENOMEM;
	for (size_t i = 0; i <= n; i++)
		p->below[i] = (int32_t)i;
	p->n_now = 0;
	p->root = new_piece(p, &all);
	return p->root ? 0 : -ENOMEM;
}

int fm_idem_forward(const struct fm_idem_trace *t, const uint32_t *op, size_t n, int32_t *start)
{
	FM_IDEM_CLEAN struct fm_idem_set later = {0};
	struct pass p = {0};
	int32_t barred = -1;
	int rc = begin(&p, n);

	for (size_t k = 0; k < n && !rc; k++) {
		const struct fm_idem_op *o = &t->op[op[k]];
		int32_t at;

		if (fm_idem_bars(o)) {
			start[op[k]] = FM_IDEM_NOT_AGAIN;
			barred = (int32_t)k;
			continue;
		}
		rc = take_op(&p, t, o, (int32_t)k, &later);
		at = allowed(p.below, (int32_t)k + 1) - 1;
		start[op[k]] = at > barred && (int32_t)k - at < (int32_t)FM_IDEM_GROUP
				       ? (int32_t)op[at]
				       : FM_IDEM_NO_GROUP;
	}
	free(p.piece);
	free(p.below);
	free(p.now);
	return rc;
}
