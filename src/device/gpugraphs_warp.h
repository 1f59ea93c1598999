/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the warp of gpugraphs.h does, as text over the memory and the lanes that the including file
 * brings along: gpugraphs.cu, gpugraphs_heard.cu, and the fake driver of the tests. Beside what
 * gpusched_warp.h wants:
 *
 *	FM_GRAPHS_LAUNCH(graph)
 *		a tail launch of that graph, by one lane: 0, or the device runtime's error. Left
 *		out, there is fm_graphs_heard() alone
 *	FM_GS_FENCE
 *		of the whole system, between what is stored before and what is loaded behind it
 *	FM_GRAPHS_PAUSE
 *		between two looks of a chain that stays; may be left out
 */
#pragma once
#include "device/gpugraphs.h"

static inline bool fm_graphs_may_stop(const struct fm_graphs *s, uint32_t task);
static inline bool fm_graphs_stops(const struct fm_graphs *s, uint32_t task);
static inline void fm_graphs_stop(struct fm_graphs *s, uint32_t task);
static inline bool fm_graphs_cut(struct fm_graphs *s, uint32_t task);

#define FM_GRAPHS_OF(g)      ((struct fm_graphs *)(g)) /* it is the first member */
#define FM_GS_OPENS(g)       (FM_GRAPHS_OF(g)->opens != 0)
#define FM_GS_OPENED(g, i)   (FM_GRAPHS_OF(g)->opened = (i))
#define FM_GS_MAY_STOP(g, i) fm_graphs_may_stop(FM_GRAPHS_OF(g), i)
#define FM_GS_STOPS(g, i)    fm_graphs_stops(FM_GRAPHS_OF(g), i)
#define FM_GS_STOP(g, i)     fm_graphs_stop(FM_GRAPHS_OF(g), i)
#define FM_GS_CUT(g, i)      fm_graphs_cut(FM_GRAPHS_OF(g), i)
/* One for the slot that decides. */
#define FM_GS_ROOM(g) ((g)->running < (g)->slots && FM_GRAPHS_OF(g)->opened == (g)->n)
#include "device/gpusched_warp.h"

#ifndef FM_GRAPHS_PAUSE
#define FM_GRAPHS_PAUSE ((void)0)
#endif

/* --- stops inside kernels: with the turn, each of one lane --- */

static inline bool fm_graphs_may_stop(const struct fm_graphs *s, uint32_t task)
{
	const struct fm_graphs_task *of = &s->of[task];

	return of->block && of->stops[s->s.g.task[task].chunk] &&
	       FM_GS_PEEK(&s->s.g.park) != FM_GRAPHS_CLOSE;
}

/* The word is taken back at the chunk's end alone. */
static inline bool fm_graphs_stops(const struct fm_graphs *s, uint32_t task)
{
	return s->of[task].block && FM_GS_PEEK(&s->of[task].block->stop);
}

static inline void fm_graphs_stop(struct fm_graphs *s, uint32_t task)
{
	FM_GS_STORE(&s->of[task].block->stop, 1);
}

/* Its kernels have all ended, and nothing of it is launched before this decider lets go. */
static inline bool fm_graphs_cut(struct fm_graphs *s, uint32_t task)
{
	struct fm_graphs_block *b = s->of[task].block;
	uint64_t first = b ? FM_GS_LOAD(&b->first) : 0;

	if (!b)
		return false;
	FM_GS_STORE(&b->from, first);
	FM_GS_STORE(&b->first, 0);
	FM_GS_STORE(&b->stop, 0);
	return first != 0;
}

/* Of one lane: what was asked becomes the set's. Returns whether it is new. */
static inline bool fm_graphs_take(uint64_t *to, uint64_t asked)
{
	bool news = asked != *to;

	FM_GS_SHOW(to, asked);
	return news;
}

/* With the turn. Returns whether the host has asked for anything new. Memory of the host is far
 * away, so all that is read there is on its way before the first of it is used. */
static inline bool fm_graphs_hear(struct fm_graphs *s)
{
	const struct fm_graphs_asked *asked = s->asked;
	struct fm_gs *g = &s->s.g;
	uint64_t park = FM_GS_NEWS(&asked->park), drain = FM_GS_NEWS(&asked->drain);
	uint64_t idle = FM_GS_NEWS(&asked->idle), has_words = FM_GS_NEWS(&asked->has_words);
	uint32_t news = 0;

	for (uint32_t i = FM_GS_LANE; i < g->n; i += FM_GS_LANES)
		news |= fm_graphs_take(&g->task[i].rung, FM_GS_NEWS(&asked->jobs[i]));
	if (!FM_GS_LANE) {
		news |= fm_graphs_take(&g->park, park);
		news |= fm_graphs_take(&g->drain, drain);
		s->s.idle = idle; /* of a resident set: how long a chain stays */
		s->s.has_words = has_words != 0;
	}
	FM_GS_SYNC;
	return FM_GS_ANY(news);
}

/* With the turn, after a decision: for chains that stay. */
static inline void fm_graphs_show(struct fm_graphs *s)
{
	struct fm_gs *g = &s->s.g;
	uint64_t more = 0;

	if (g->slots == 1 && !s->resides)
		return;
	if (g->running < g->slots && !FM_GS_SAME(FM_GS_NEWS(&g->park)))
		more = fm_gs_pick(g, FM_GS_SAME(FM_GS_NOW)) != g->n;
	if (FM_GS_LANE)
		return;
	FM_GS_SHOW(&s->more, more);
	FM_GS_SHOW(&s->busy, (uint64_t)g->running);
}

/* One decision, with the turn. Returns the task whose chunk is to be launched; n: none. */
static inline uint32_t fm_graphs_decide(struct fm_graphs *s, bool opens)
{
	struct fm_gs *g = &s->s.g;
	uint64_t heard;

	if (!FM_GS_LANE) {
		s->opened = g->n;
		s->opens = opens;
	}
	FM_GS_SYNC;
	fm_gs_hear(g, &heard);
	FM_GS_SYNC;
	fm_graphs_show(s);
	return (uint32_t)FM_GS_SAME(s->opened);
}

/* Waits while a decision is made, or words are read or heard. */
static inline void fm_graphs_enter(struct fm_gs *g)
{
	while (FM_GS_SWAP(&g->turn, 1))
		;
}

/* What the host tells, which no graph is launched for. */
static inline void fm_graphs_heard(
	struct fm_graphs *s, struct fm_gs_task *to, uint32_t what, uint64_t later)
{
	struct fm_gs *g = &s->s.g;

	if (to)
		fm_gates_read(g, to);
	else if (what & (FM_GATES_NOTE | FM_GATES_QUIET))
		fm_gates_switch_notes(&s->s, (what & FM_GATES_NOTE) != 0);
	else if (what & FM_GATES_CLOCK)
		fm_gates_clock(&s->s, later, (what & FM_GRAPHS_LATER) != 0);
	if (!(what & FM_GRAPHS_HEAR))
		return;
	FM_GS_ADD(&g->bell, 1);
	fm_graphs_enter(g);
	fm_graphs_hear(s);
	fm_graphs_decide(s, false);
	FM_GS_SWAP(&g->turn, 0);
}

#ifdef FM_GRAPHS_LAUNCH
/* With the turn: nothing is to be launched. Returns whether there is news all the same. */
static inline bool fm_graphs_rest(struct fm_graphs *s, uint32_t slot)
{
	if (!FM_GS_LANE)
		FM_GS_STORE(&s->said->rests[slot], ++s->rests[slot]);
	/* The host asks, and then looks at `rests'. This tells `rests', and then looks at what it
	 * asks. */
	FM_GS_FENCE;
	FM_GS_ADD(&s->s.g.bell, 1);
	return fm_graphs_hear(s);
}

/* May a chain that has nothing to run stay? `lent': as the last look at the host's memory was. */
static inline bool fm_graphs_stays(struct fm_graphs *s, uint32_t look, bool *lent)
{
	struct fm_gs *g = &s->s.g;
	uint64_t now;

	if (FM_GS_LANE || FM_GS_PEEK(&g->park))
		return false;
	if (g->slots > 1 && FM_GS_PEEK(&s->busy))
		return true;
	if (!s->resides)
		return false;
	now = FM_GS_NOW;
	if (look % FM_GATES_LOOKS == 0)
		*lent = now < FM_GS_LOAD(&s->s.told->until);
	return *lent && ((s->s.has_words && !FM_GS_PEEK(&g->drained)) ||
				FM_GS_PEEK(&g->wake) < fm_gs_add(now, s->s.idle));
}

/* Without the turn: until there is something for it, or it may not stay. Looks are hints: what
 * follows decides. */
static inline void fm_graphs_stay(struct fm_graphs *s)
{
	bool lent = false;

	for (uint32_t look = 0; FM_GS_SAME(fm_graphs_stays(s, look, &lent)); look++) {
		if (FM_GS_SAME(FM_GS_PEEK(&s->more)) || fm_gs_is_due(&s->s.g))
			break;
		FM_GRAPHS_PAUSE;
	}
}

/* With the turn, which it lets go of while it stays: the slot has nothing to run. Returns whether
 * it is to be decided again. */
static inline bool fm_graphs_idles(struct fm_graphs *s, uint32_t slot, uint32_t *looks)
{
	bool lent = false;

	if (s->s.g.slots == 1 && FM_GS_SAME(s->s.g.running))
		return false; /* the end of that chunk decides */
	if (!FM_GS_SAME(fm_graphs_stays(s, 0, &lent)))
		return fm_graphs_rest(s, slot) && ++*looks < FM_GRAPHS_LOOKS;
	FM_GS_SWAP(&s->s.g.turn, 0);
	fm_graphs_stay(s);
	fm_graphs_enter(&s->s.g);
	return true;
}

/* Returns what the slot is to run; n: nothing. */
static inline uint32_t fm_graphs_next(struct fm_graphs *s, uint32_t slot, bool begins)
{
	struct fm_gs *g = &s->s.g;
	uint32_t opened, looks = 0;

	fm_graphs_enter(g);
	if (begins)
		fm_graphs_hear(s);
	do {
		opened = fm_graphs_decide(s, true);
	} while (opened == g->n && fm_graphs_idles(s, slot, &looks));
	FM_GS_SWAP(&g->turn, 0);
	return opened;
}

static inline void fm_graphs_launch(struct fm_graphs *s, uint32_t slot, uint32_t task)
{
	const struct fm_graphs_task *of = &s->of[task];
	uint64_t error, end = s->s.g.slots > 1 ? s->end[slot] : of->end;

	if (FM_GS_LANE)
		return;
	s->on[slot] = task;
	error = (uint64_t)FM_GRAPHS_LAUNCH(of->chunk[s->s.g.task[task].chunk]);
	if (!error && end)
		error = (uint64_t)FM_GRAPHS_LAUNCH(end);
	if (error)
		FM_GS_STORE(&s->said->error, error);
}

/* Of a chain: it begins, or a chunk of it has ended. */
static inline void fm_graphs_run(struct fm_graphs *s, uint32_t task, uint32_t what)
{
	struct fm_gs *g = &s->s.g;
	bool begins = (what & FM_GATES_ENDED) == 0;
	uint32_t opened, slot = what & FM_GRAPHS_SLOT ? task : 0;

	if (!(what & (FM_GATES_ENDED | FM_GRAPHS_BEGIN)))
		return;
	if (!begins && s->of[task].block)
		FM_GS_ADD(&g->task[task].ended, 1); /* behind what its kernels have left */
	else if (!begins && !FM_GS_LANE)
		FM_GATES_MORE(&g->task[what & FM_GRAPHS_SLOT ? s->on[slot] : task].ended, 1);
	FM_GS_ADD(&g->bell, 1);
	opened = fm_graphs_next(s, slot, begins);
	if (opened != g->n)
		fm_graphs_launch(s, slot, opened);
}
#endif
