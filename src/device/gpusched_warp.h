/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the warp of gpusched.h does, as text over the memory and the lanes that the including file
 * brings along: gpusched.cu, and the fake driver of the tests. Beside what gpusched/core.h wants:
 *
 *	FM_GATES_DEVICE_NOW	ns, on the clock of the device
 *	FM_GATES_SHOW(p, v)	a store into memory of the host, of the lane that does it
 *	FM_GATES_TAKE(p)	the old value of a word that lanes count up, each for itself
 *	FM_GATES_MORE(p, v)	adds to a word, before what follows of this lane's fences
 */
#pragma once
#include "device/gpusched.h"

#define FM_GATES_OF(g) ((struct fm_gates *)(g)) /* it is the first member */
#define FM_GATES_LOOKS 32u                      /* each so many-th look is at memory of the host */

static inline bool fm_gates_stays(struct fm_gates *s);
static inline void fm_gates_tell(struct fm_gates *s, uint64_t heard);

#define FM_GS_NOW            (FM_GATES_DEVICE_NOW + FM_GS_PEEK(&FM_GATES_OF(g)->clock))
#define FM_GS_STAYS(g)       fm_gates_stays(FM_GATES_OF(g))
#define FM_GS_TELL(g, heard) fm_gates_tell(FM_GATES_OF(g), heard)
#include "gpusched/core.h"

/* --- notes, for traces --- */

static inline void fm_gates_note(struct fm_gates *s, enum fm_gates_event event, uint32_t task,
	uint64_t now, uint64_t b, uint64_t c)
{
	uint64_t number = FM_GATES_TAKE(&s->notes);
	struct fm_gates_note *n = &s->told->note[number % FM_GATES_NOTES];

	FM_GATES_SHOW(&n->at, now);
	FM_GATES_SHOW(&n->what, (uint64_t)event << 32 | task);
	FM_GATES_SHOW(&n->b, b);
	FM_GATES_SHOW(&n->c, c);
	FM_GS_STORE(&n->number, number + 1);
}

static inline void fm_gates_note_end(struct fm_gates *s, uint32_t task, uint64_t now)
{
	const struct fm_gs_task *t = &s->g.task[task];
	const struct fm_gates_seen *seen = &s->seen[task];

	fm_gates_note(s, FM_GATES_COMPLETED, task, now, fm_gs_sub(now, seen->first),
		t->accepted - t->done);
	if (t->stats.missed != seen->missed)
		fm_gates_note(s, FM_GATES_MISSED, task, now,
			fm_gs_sub(now, fm_gs_add(seen->first, t->deadline)),
			t->stats.missed_stopped != seen->missed_stopped);
}

/* At most one job of a task is completed in a decision, and it was released before that. */
static inline void fm_gates_note_task(struct fm_gates *s, uint32_t task, uint64_t now)
{
	const struct fm_gs_task *t = &s->g.task[task];
	struct fm_gates_seen *seen = &s->seen[task];
	uint64_t pending = t->accepted - t->done;
	bool over = t->stats.done != seen->done, runs = fm_gs_runs(t);

	if (s->noted == 1)
		over = runs = false;
	else if (t->stats.released > seen->released)
		fm_gates_note(s, FM_GATES_RELEASED, task, now, t->stats.released - seen->released,
			pending);
	if (over)
		fm_gates_note_end(s, task, now);
	if (runs && (over || !seen->runs))
		fm_gates_note(s, FM_GATES_BEGAN, task, now, pending, 0);
	if (!fm_gs_runs(t) && seen->runs && !over && s->noted != 1)
		fm_gates_note(s, FM_GATES_STANDS, task, now, pending, 0);
	seen->released = t->stats.released;
	seen->done = t->stats.done;
	seen->missed = t->stats.missed;
	seen->missed_stopped = t->stats.missed_stopped;
	seen->first = t->release[t->done % FM_GS_BACKLOG];
	seen->runs = fm_gs_runs(t);
}

static inline void fm_gates_tell(struct fm_gates *s, uint64_t heard)
{
	struct fm_gs *g = &s->g;
	struct fm_gates_told *told = s->told;
	uint64_t now = s->noted ? FM_GS_NOW : 0;

	for (uint32_t i = FM_GS_LANE; i < g->n; i += FM_GS_LANES) {
		const struct fm_gs_task *t = &g->task[i];

		if (s->noted)
			fm_gates_note_task(s, i, now);
		FM_GATES_SHOW(&told->done[i], t->done);
		FM_GATES_SHOW(&told->dropped[i], t->stats.dropped);
		FM_GATES_SHOW(&told->accepted[i], t->accepted);
		FM_GATES_SHOW(&told->heard[i], fm_gates_heard(t->seen_rung, t->accepted - t->done));
	}
	FM_GS_SYNC;
	if (FM_GS_LANE)
		return;
	if (s->noted)
		s->noted = 2;
	FM_GATES_SHOW(&told->pending, g->pending);
	FM_GATES_SHOW(&told->opened, g->opened);
	FM_GATES_SHOW(&told->wake, g->wake);
	if (g->drained) /* a reader that sees it sees what that decision has told */
		FM_GS_STORE(&told->drained, g->drained);
	else
		FM_GATES_SHOW(&told->drained, g->drained);
	FM_GS_STORE(&told->decided, heard);
}

/* --- news --- */

static inline void fm_gates_hear(
	struct fm_gates *s, uint64_t jobs, uint64_t chunks, uint32_t task, uint32_t what)
{
	struct fm_gs *g = &s->g;
	struct fm_gs_task *t = &g->task[task];

	if (FM_GS_LANE)
		return;
	if (what & FM_GATES_ENDED)
		FM_GATES_MORE(&t->ended, 1);
	if (jobs)
		FM_GATES_MORE(&t->rung, jobs);
	if (chunks)
		FM_GATES_MORE(&t->queued, chunks);
	if (what & FM_GATES_OFF)
		FM_GS_STORE(&t->off, 1);
	if (what & (FM_GATES_PARK | FM_GATES_GO_ON))
		FM_GS_STORE(&g->park, (what & FM_GATES_PARK) != 0);
	if (what & (FM_GATES_DRAIN | FM_GATES_ACCEPT))
		FM_GS_STORE(&g->drain, (what & FM_GATES_DRAIN) != 0);
	if (what & (FM_GATES_LEAVE | FM_GATES_STAY))
		FM_GS_STORE(&g->leave, (what & FM_GATES_LEAVE) != 0);
}

/* The decider reads it: told under the turn's lock, as the decider's own words are. */
static inline bool fm_gates_switch_notes(struct fm_gates *s, bool on)
{
	struct fm_gs *g = &s->g;

	FM_GS_ADD(&g->readers, 1);
	while (FM_GS_SWAP(&g->turn, 1))
		;
	if (!FM_GS_LANE)
		s->noted = on;
	FM_GS_SYNC;
	FM_GS_ADD(&g->readers, (uint64_t)-1);
	return fm_gs_leave(g, FM_GS_SAME(FM_GS_LOAD(&g->decided)));
}

/* Between two decisions. Returns whether it must be decided again. */
static inline bool fm_gates_read(struct fm_gs *g, struct fm_gs_task *to)
{
	FM_GS_ADD(&g->readers, 1);
	while (FM_GS_SWAP(&g->turn, 1)) /* of a decision, or of a resident, which sees `readers' */
		;
	for (uint32_t i = 0; i < g->n; i++)
		for (uint32_t at = FM_GS_LANE; at < sizeof(*to) / 8; at += FM_GS_LANES)
			FM_GATES_SHOW(&((uint64_t *)&to[i])[at],
				FM_GS_PEEK(&((uint64_t *)&g->task[i])[at]));
	for (uint32_t at = FM_GS_LANE; at < sizeof(*g) / 8; at += FM_GS_LANES)
		FM_GATES_SHOW(&((uint64_t *)&to[g->n])[at], FM_GS_PEEK(&((uint64_t *)g)[at]));
	FM_GS_SYNC;
	FM_GS_ADD(&g->readers, (uint64_t)-1);
	return fm_gs_leave(g, FM_GS_SAME(FM_GS_LOAD(&g->decided)));
}

static inline void fm_gates_clock(struct fm_gates *s, uint64_t later, bool changes)
{
	if (FM_GS_LANE)
		return;
	if (changes)
		FM_GS_STORE(&s->clock, later);
	FM_GS_STORE(&s->told->clock, FM_GATES_DEVICE_NOW);
}

/* --- a resident --- */

/* `until' is of the host, and far away. Of lane 0. */
static inline bool fm_gates_is_lent(struct fm_gates *s, uint64_t now)
{
	uint64_t until = FM_GS_LOAD(&s->told->until);

	if (until && now >= until) { /* what waits for the device waits for all that stands there */
		FM_GS_STORE(&s->g.leave, 1);
		/* Behind that, as it is answered by FM_GATES_STAY. */
		FM_GS_STORE(&s->told->expired, FM_GS_LOAD(&s->told->expired) + 1);
	}
	return now < until;
}

static inline bool fm_gates_stays(struct fm_gates *s)
{
	struct fm_gs *g = &s->g;
	uint64_t park = FM_GS_PEEK(&g->park), leave = FM_GS_PEEK(&g->leave), now;

	if (FM_GS_LANE || park || leave)
		return false;
	now = FM_GS_NOW;
	if (s->looks++ % FM_GATES_LOOKS == 0)
		s->lent = fm_gates_is_lent(s, now);
	if (!s->lent) /* as the last look at it was, until there is another */
		return false;
	return s->has_words || FM_GS_PEEK(&g->pending) ||
	       FM_GS_PEEK(&g->wake) < fm_gs_add(now, s->idle);
}

/* Returns whether it is to decide. */
static inline bool fm_gates_begin(struct fm_gates *s, struct fm_gs_task *to, uint64_t jobs,
	uint64_t chunks, uint32_t task, uint32_t what)
{
	struct fm_gs *g = &s->g;

	if (to)
		return fm_gates_read(g, to);
	if (what & FM_GATES_RESIDE) {
		if (!FM_GS_LANE) {
			s->idle = jobs;
			s->has_words = chunks != 0;
			s->looks = 0;
		}
		FM_GS_SYNC;
		return true;
	}
	if (what & FM_GATES_CLOCK) {
		fm_gates_clock(s, jobs, chunks != 0);
		return false;
	}
	if (what & (FM_GATES_NOTE | FM_GATES_QUIET))
		return fm_gates_switch_notes(s, (what & FM_GATES_NOTE) != 0);
	fm_gates_hear(s, jobs, chunks, task, what);
	if (what & FM_GATES_KICK)
		FM_GS_BUMP(&g->bell);
	return (what & FM_GATES_KICK) != 0;
}

/* It goes. Returns whether the set is to be left, which must be decided, whoever wanted it. */
static inline bool fm_gates_goes(struct fm_gates *s)
{
	bool leave = FM_GS_SAME(FM_GS_LOAD(&s->g.leave)) != 0;

	if (leave)
		FM_GS_ADD(&s->g.bell, 1);
	return leave;
}

static inline void fm_gates_run(struct fm_gates *s, struct fm_gs_task *to, uint64_t jobs,
	uint64_t chunks, uint32_t task, uint32_t what)
{
	struct fm_gs *g = &s->g;
	bool resides = (what & FM_GATES_RESIDE) != 0;
	bool again = fm_gates_begin(s, to, jobs, chunks, task, what);

	while (again) {
		again = fm_gs_turn(g, resides);
		if (!resides || again)
			continue;
		resides = FM_GS_SAME(FM_GS_STAYS(g)) != 0;
		again = resides || fm_gates_goes(s);
	}
	if (what & FM_GATES_RESIDE && !FM_GS_LANE)
		FM_GS_STORE(&s->told->left, FM_GS_LOAD(&s->told->left) + 1);
}
