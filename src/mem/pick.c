/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which extents move now. Those of the turn come in by their next use; those that go out are of the
 * latest turns, and there by their next use, the latest first. Of equals the one with a kept copy
 * goes first, then that with the least number.
 */
#include "internal.h"

static bool before(const struct cand *a, const struct cand *b)
{
	return a->key != b->key ? a->key < b->key : a->id < b->id;
}

static void sink(struct cands *h, unsigned i)
{
	struct cand c = h->at[i];
	unsigned child;

	while ((child = 2 * i + 1) < h->n) {
		if (child + 1 < h->n && before(&h->at[child + 1], &h->at[child]))
			child++;
		if (!before(&h->at[child], &c))
			break;
		h->at[i] = h->at[child];
		i = child;
	}
	h->at[i] = c;
}

/* What is in order already stays as it is. */
static void make_heap(struct cands *h)
{
	for (unsigned i = h->n / 2; i--;)
		sink(h, i);
}

static unsigned pop(struct cands *h)
{
	unsigned id = h->at[0].id;

	h->at[0] = h->at[--h->n];
	if (h->n)
		sink(h, 0);
	return id;
}

static void add(struct cands *h, uint64_t key, unsigned id)
{
	h->at[h->n++] = (struct cand){key, id};
}

/* Those of turn k that are on the host. */
static struct cands list_missing(struct fm_mem_scratch *s, unsigned k)
{
	const struct fm_mem_world *w = s->w;
	unsigned group = w->turn[k].group;
	const struct fm_mem_group *g = &w->group[group];
	struct cands h = {.at = s->cand};

	for (unsigned i = g->first; i < g->first + g->n; i++)
		if (w->extent[i].where == FM_ON_HOST && fm_mem_slot(s, group, &w->extent[i]) == k)
			add(&h, w->extent[i].next, i);
	make_heap(&h);
	return h;
}

static uint64_t key_of(const struct fm_mem_world *w, const struct fm_extent *e)
{
	uint64_t key = w->policy->victims == FM_VICTIMS_LAST ? e->last : ~e->next;

	return (key & ~UINT64_C(1)) | !e->kept;
}

static void list_group(
	struct fm_mem_scratch *s, struct cands *h, unsigned group, unsigned lo, unsigned hi)
{
	const struct fm_mem_world *w = s->w;
	const struct fm_mem_group *g = &w->group[group];
	unsigned slot;

	if (g->running || !s->member[group].spare)
		return;
	for (unsigned i = g->first; i < g->first + g->n; i++) {
		const struct fm_extent *e = &w->extent[i];

		if (e->where != FM_ON_DEVICE || e->pinned)
			continue;
		slot = fm_mem_slot(s, group, e);
		if (slot >= lo && slot <= hi)
			add(h, key_of(w, e), i);
	}
}

/* Those that go out before all that are in lower spans. Turn k is the one that needs room. */
static void list_victims(struct fm_mem_scratch *s, unsigned span, unsigned k)
{
	const struct fm_mem_world *w = s->w;
	bool by_turn = w->policy->victims == FM_VICTIMS_NEXT;
	unsigned spared = by_turn || !w->turns ? w->groups : w->turn[k].group;
	struct cands *h = &s->victims;

	*h = (struct cands){.at = s->cand + s->extents};
	for (unsigned i = 0; span == w->turns && i < w->groups; i++)
		if (i != spared)
			list_group(s, h, i, by_turn ? w->turns + 1 : 0, w->turns + 2);
	if (by_turn && span < w->turns)
		list_group(s, h, w->turn[span].group, span, span);
	make_heap(h);
}

/* Drops kept copies, of what goes out last first, until there is so much room on the host. */
static bool make_host_room(struct fm_mem_plan *p, uint64_t bytes, uint64_t *left)
{
	struct fm_mem_scratch *s = p->scratch;
	const struct fm_mem_world *w = s->w;

	for (unsigned k = 0; k < w->turns && *left < bytes; k++) {
		unsigned group = w->turn[k].group;
		const struct fm_mem_group *g = &w->group[group];

		if (s->order[s->member[group].lo] != k)
			continue;
		for (unsigned i = g->first; i < g->first + g->n && *left < bytes; i++) {
			const struct fm_extent *e = &w->extent[i];

			if (e->where != FM_ON_DEVICE || !e->kept || e->pinned || s->told[i])
				continue;
			s->told[i] = true;
			p->drop[p->n_drop++] = i;
			*left += e->bytes;
		}
	}
	return *left >= bytes;
}

/* May it go out? Then it does. */
static bool put_out(struct fm_mem_plan *p, unsigned id, uint64_t *host)
{
	struct fm_mem_scratch *s = p->scratch;
	const struct fm_extent *e = &s->w->extent[id];
	struct member *m = s->member;
	unsigned group = 0, hi = s->w->groups;

	while (hi - group > 1) {
		unsigned mid = group + (hi - group) / 2;

		if (s->w->group[mid].first <= id)
			group = mid;
		else
			hi = mid;
	}
	if (s->told[id] || e->bytes > m[group].spare)
		return false;
	if (!e->kept && e->bytes > *host && !make_host_room(p, e->bytes, host))
		return false;
	s->told[id] = true;
	*host -= e->kept ? 0 : e->bytes;
	m[group].spare -= e->bytes;
	p->group[group].held = true;
	p->out[p->n_out++] = id;
	return true;
}

/* Of the latest spans down to that of number `least'. */
static void pick_out(struct fm_mem_plan *p, unsigned k, unsigned least, uint64_t need)
{
	struct fm_mem_scratch *s = p->scratch;
	struct cands *h = &s->victims;

	for (; need && s->pool > least; s->pool--, s->listed = false) {
		if (!s->listed)
			list_victims(s, s->pool - 1, k);
		s->listed = true;
		while (need && h->n) {
			unsigned id = pop(h);

			if (put_out(p, id, &s->host))
				need = fm_sub_sat(need, s->w->extent[id].bytes);
		}
		if (!need)
			return;
	}
}

void fm_mem_pick_begin(struct fm_mem_plan *p)
{
	struct fm_mem_scratch *s = p->scratch;
	const struct fm_mem_world *w = s->w;
	uint64_t stays = s->occupied - s->going;

	memset(s->told, 0, w->extents * sizeof(*s->told));
	s->pool = w->turns + 1;
	s->listed = false;
	s->host = w->host_left;
	s->room = fm_sub_sat(w->capacity, stays);
	pick_out(p, 0, w->turns > 0, fm_sub_sat(stays, w->capacity));
}

void fm_mem_pick(struct fm_mem_plan *p, unsigned k, uint64_t *left)
{
	struct fm_mem_scratch *s = p->scratch;
	const struct fm_mem_world *w = s->w;
	struct cands h = list_missing(s, k);
	uint64_t budget = s->span[k].assigned, want = 0, free;

	while (h.n && *left) {
		unsigned id = pop(&h);
		uint64_t bytes = w->extent[id].bytes;

		if (bytes > budget)
			continue;
		budget -= bytes;
		want += bytes;
		*left = fm_sub_sat(*left, bytes);
		p->in[p->n_in++] = id;
	}
	free = FM_MIN(s->room, want);
	s->room -= free;
	if (w->policy->victims == FM_VICTIMS_ALL)
		want = w->window ? w->window : UINT64_MAX;
	else
		want -= free;
	pick_out(p, k, fm_mem_later(w, k), want);
}
