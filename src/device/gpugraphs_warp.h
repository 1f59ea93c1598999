/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the warp of gpugraphs.h does, as text over the memory and the lanes that the including file
 * brings along: gpugraphs.cu, and the fake driver of the tests. Beside what gpusched_warp.h wants:
 *
 *	FM_GRAPHS_LAUNCH(graph)
 *		a tail launch of that graph, by one lane: 0, or the device runtime's error
 */
#pragma once
#include "device/gpugraphs.h"

static inline bool fm_graphs_may_stop(const struct fm_graphs *s, uint32_t task);
static inline bool fm_graphs_stops(const struct fm_graphs *s, uint32_t task);
static inline void fm_graphs_stop(struct fm_graphs *s, uint32_t task);
static inline bool fm_graphs_cut(struct fm_graphs *s, uint32_t task);

#define FM_GRAPHS_OF(g)      ((struct fm_graphs *)(g)) /* it is the first member */
#define FM_GS_PARKED(g)      (FM_GS_LOAD(&(g)->park) || !FM_GRAPHS_OF(g)->opens)
#define FM_GS_OPENED(g, i)   (FM_GRAPHS_OF(g)->opened = (i))
#define FM_GS_MAY_STOP(g, i) fm_graphs_may_stop(FM_GRAPHS_OF(g), i)
#define FM_GS_STOPS(g, i)    fm_graphs_stops(FM_GRAPHS_OF(g), i)
#define FM_GS_STOP(g, i)     fm_graphs_stop(FM_GRAPHS_OF(g), i)
#define FM_GS_CUT(g, i)      fm_graphs_cut(FM_GRAPHS_OF(g), i)
#include "device/gpusched_warp.h"

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

/* With the turn. Returns whether the host has asked for anything new. */
static inline bool fm_graphs_hear(struct fm_graphs *s)
{
	struct fm_gs *g = &s->s.g;
	uint32_t news = 0;

	for (uint32_t i = FM_GS_LANE; i < g->n; i += FM_GS_LANES) {
		uint64_t jobs = FM_GS_LOAD(&s->asked->jobs[i]);

		news |= jobs != g->task[i].rung;
		FM_GS_STORE(&g->task[i].rung, jobs);
	}
	if (!FM_GS_LANE) {
		uint64_t park = FM_GS_LOAD(&s->asked->park);

		news |= park != g->park;
		FM_GS_STORE(&g->park, park);
	}
	FM_GS_SYNC;
	return FM_GS_ANY(news);
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
	return (uint32_t)FM_GS_SAME(s->opened);
}

/* With the turn: nothing is to be launched. Returns whether there is news all the same. */
static inline bool fm_graphs_rest(struct fm_graphs *s)
{
	if (!FM_GS_LANE)
		FM_GS_STORE(&s->said->rests, ++s->rests);
	FM_GS_ADD(&s->s.g.bell, 1); /* with a fence on both sides */
	return fm_graphs_hear(s);
}

/* Of one slot: while a chunk runs, nothing else does. */
static inline uint32_t fm_graphs_next(struct fm_graphs *s, bool hears, bool opens)
{
	struct fm_gs *g = &s->s.g;
	uint32_t opened, looks = 0;

	while (FM_GS_SWAP(&g->turn, 1)) /* of a reader, or of who hears */
		;
	if (hears)
		fm_graphs_hear(s);
	do {
		opened = fm_graphs_decide(s, opens);
	} while (opens && opened == g->n && !FM_GS_SAME(g->running) && fm_graphs_rest(s) &&
		 ++looks < FM_GRAPHS_LOOKS);
	FM_GS_SWAP(&g->turn, 0);
	return opened;
}

static inline void fm_graphs_launch(struct fm_graphs *s, uint32_t task)
{
	const struct fm_graphs_task *of = &s->of[task];
	uint64_t error;

	if (FM_GS_LANE)
		return;
	error = (uint64_t)FM_GRAPHS_LAUNCH(of->chunk[s->s.g.task[task].chunk]);
	if (!error && of->end)
		error = (uint64_t)FM_GRAPHS_LAUNCH(of->end);
	if (error)
		FM_GS_STORE(&s->said->error, error);
}

static inline void fm_graphs_run(
	struct fm_graphs *s, struct fm_gs_task *to, uint32_t task, uint32_t what)
{
	struct fm_gs *g = &s->s.g;
	bool opens = (what & (FM_GATES_ENDED | FM_GRAPHS_BEGIN)) != 0;
	uint32_t opened;

	if (to)
		fm_gates_read(g, to);
	else if (what & (FM_GATES_NOTE | FM_GATES_QUIET))
		fm_gates_switch_notes(&s->s, (what & FM_GATES_NOTE) != 0);
	if (!opens && !(what & FM_GRAPHS_HEAR))
		return;
	if (what & FM_GATES_ENDED && s->of[task].block)
		FM_GS_ADD(&g->task[task].ended, 1); /* behind what its kernels have left */
	else if (what & FM_GATES_ENDED && !FM_GS_LANE)
		FM_GATES_MORE(&g->task[task].ended, 1);
	FM_GS_ADD(&g->bell, 1);
	opened = fm_graphs_next(s, !(what & FM_GATES_ENDED), opens);
	if (opened != g->n)
		fm_graphs_launch(s, opened);
}
