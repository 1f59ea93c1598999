/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set of tasks that orders itself: what decides which task's next chunk runs, as text over a
 * memory that the including file brings along. Processors bring it in host.c, and the model check
 * in tests/unit/gpusched one that stops at each access.
 *
 * What is to be there before this text is included:
 *   FM_GS_LANE, FM_GS_LANES, FM_GS_SYNC
 *		the lane's number and their number; what they wrote is seen by all
 *   FM_GS_LOAD(p), FM_GS_STORE(p, v)
 *		of words that several sides use, in one order; of the lane that does it
 *   FM_GS_ADD(p, v), FM_GS_SWAP(p, v)
 *		likewise, but once for all lanes, which all get the old value; each
 *		acquires and releases
 *   FM_GS_SAME(x)	that of lane 0
 *   FM_GS_FIRST(n, key, i), FM_GS_SUM(x), FM_GS_LEAST(x)
 *		over the lanes; i of n tasks, n for none
 *   FM_GS_NOW		ns, on the clock of the set's times
 *   FM_GS_CLZ(x)	leading zeros of 64 bits
 *
 * What may be left out:
 *   FM_GS_NEWS(p), FM_GS_SHOW(p, v)
 *		loads and stores of one lane without an order of their own, with the turn:
 *		the bell is read before them, and what comes behind them orders
 *   FM_GS_BUMP(p)	adds one, once for all lanes, and releases
 *   FM_GS_OPEN(p, v)	as FM_GS_STORE, of a gate
 *   FM_GS_TOUCH(t)	much of this task is read soon
 *   FM_GS_COUNT(p)	one more in a word on which nothing else depends
 *   FM_GS_PARKED(g)	may no gate be opened? As the word `park', which it is otherwise
 *   FM_GS_OPENS(g)	may this decision open gates, if it is not parked?
 *   FM_GS_TELL(g, heard)
 *		after each decision, by all lanes: for readers that do not reach the words
 *   FM_GS_MAY_STOP(g, i), FM_GS_STOP(g, i), FM_GS_STOPS(g, i), FM_GS_CUT(g, i)
 *		where a chunk that runs can be told to stop, all four: may that of task i be
 *		told, which runs; tells it, if it has not been told; has it been told since
 *		its gate was opened; and, once for each chunk that has ended: has it stopped
 *		before it was complete?
 *
 * Each task has a stream, and each chunk of its jobs stands there behind a gate, which is open for
 * as many chunks as the word `gate` says. News is stored into a word of its own (a release into
 * `rung`, a chunk's end into `ended`, more chunks in a stream into `queued`), and then fm_gs_kick()
 * is called. The call that gets the turn is the decider. Another call returns at once, because the
 * decider looks again. So nothing waits, no news is lost, and nothing needs to be resident.
 *
 * Memory order. A call with news stores it, adds to `bell`, and then swaps `turn`; the decider
 * swaps `turn` before it reads `bell` again. Both change one word, in one order: either the call
 * comes first, and what it did before is seen behind the decider's swap, or it finds the turn
 * free. So it is enough that these acquire and release, on a device in the scope of that device. A
 * decision reads `bell` first, which acquires, and then the news, in any order. The decider's
 * fields are plain memory: `turn` is their lock.
 *
 * Stops. A chunk that runs is told to stop when a more urgent job is ready, and no other is told
 * already, and when the set is parked. It ends then as any chunk does. If it was not complete, it
 * is the next one of its job again. What is told and what it answers belongs to the turn.
 *
 * Park. While `park` is set no gate is opened. A decision that has already read it as 0 may still
 * open gates, up to the number of slots; what is open runs to its chunk's end. Whoever sets it, or
 * takes it back, rings the bell behind that.
 *
 * Stopped. A stop is a row of decisions that find `park` to be FM_GS_STOP_PARK: from the time of
 * the first of them to that of the first one behind them, which may open gates. Each decision reads
 * `park` once, for this and for its gates, so none opens a gate in a stop. A
 * missed job counts once more if its deadline is in a stop, whichever that is. All of that is the
 * decider's, at its own times: the host writes the word `park` alone, which has no order with
 * others to keep. So a stop begins and ends later by as much as it takes to be heard of.
 *
 * Resident. What releases by itself (periods, words) is seen by a call of fm_gs_turn() that
 * resides, and by whatever decides for another reason. That call has the turn while it stays, and
 * decides about all news, so that other calls only ring the bell. It lets go of the turn when it
 * may not stay, and while there are readers, which add to `readers` before they try for the turn,
 * and look at the bell when they let go of it.
 *
 * Leave. While `leave` is set, a job is released for each that stands in a stream in advance: a
 * chunk behind a gate cannot be taken back, and what waits for the streams would wait for it.
 *
 * Drain. The first decision that sees `drain` looks at words once more; from then on nothing is
 * released by a period or a word. What is added to a word later stays there.
 *
 * Owns: the words of a set, which the engine has allocated, zeroed and described.
 * Locks: `turn`, a word; tried, never waited for, except by fm_gs_host_enter().
 * Threads: any, at any time; the end of a task's chunk, and what is queued, by one at a time.
 */
#pragma once
#include "words.h"

#ifndef FM_GS_TELL
#define FM_GS_TELL(g, heard) ((void)0)
#endif
#ifndef FM_GS_OPENED
#define FM_GS_OPENED(g, i) ((void)0)
#endif
#ifndef FM_GS_STAYS
#define FM_GS_STAYS(g) (!FM_GS_LOAD(&(g)->park) && !FM_GS_LOAD(&(g)->leave))
#endif
#ifndef FM_GS_PEEK
#define FM_GS_PEEK(p) FM_GS_LOAD(p)
#endif
#ifndef FM_GS_NEWS
#define FM_GS_NEWS(p)    FM_GS_LOAD(p)
#define FM_GS_SHOW(p, v) FM_GS_STORE(p, v)
#endif
#ifndef FM_GS_PARKED
#define FM_GS_PARKED(g) FM_GS_NEWS(&(g)->park)
#endif
#ifndef FM_GS_OPENS
#define FM_GS_OPENS(g) true
#endif
#ifndef FM_GS_BUMP
#define FM_GS_BUMP(p) ((void)FM_GS_ADD(p, 1))
#endif
#ifndef FM_GS_OPEN
#define FM_GS_OPEN(p, v) FM_GS_STORE(p, v)
#endif
#ifndef FM_GS_TOUCH
#define FM_GS_TOUCH(t) ((void)0)
#define FM_GS_COUNT(p) ((void)(*(p))++)
#endif
#ifndef FM_GS_CUT
#define FM_GS_CUT(g, i) false
#endif
#ifndef FM_GS_ROOM /* may another gate be opened? */
#define FM_GS_ROOM(g) ((g)->running < (g)->slots)
#endif
#ifndef FM_GS_ANY
#define FM_GS_ANY(x) (FM_GS_SUM(x) != 0)
#endif

static inline bool fm_gs_waits(const struct fm_gs_task *t)
{
	return t->accepted != t->done;
}

static inline bool fm_gs_runs(const struct fm_gs_task *t)
{
	return t->gate != t->seen_ended;
}

/* Which bucket a time is in, and the last value of one. */
static inline uint32_t fm_gs_bucket(uint64_t ns)
{
	uint32_t exp;

	if (ns >> FM_GS_BITS == 0)
		return (uint32_t)ns;
	exp = 63 - FM_GS_BITS - (uint32_t)FM_GS_CLZ(ns);
	return (exp << FM_GS_BITS) + (uint32_t)(ns >> exp);
}

static inline uint64_t fm_gs_bucket_last(uint32_t bucket)
{
	uint32_t exp = bucket >> FM_GS_BITS ? (bucket >> FM_GS_BITS) - 1 : 0;

	return (((uint64_t)bucket - (exp << FM_GS_BITS) + 1) << exp) - 1;
}

/* One more job, released at that time. */
static inline void fm_gs_accept(struct fm_gs *g, struct fm_gs_task *t, uint64_t at)
{
	if (!fm_gs_waits(t))
		t->vtime = t->vtime > g->vtime ? t->vtime : g->vtime;
	t->release[t->accepted % FM_GS_BACKLOG] = at;
	t->accepted++;
	t->stats.released++;
}

/* `count` more, of which the first is released at `at`, and the others each `step` later. */
static inline void fm_gs_release(
	struct fm_gs *g, struct fm_gs_task *t, uint64_t count, uint64_t at, uint64_t step)
{
	uint64_t room = FM_GS_BACKLOG - (t->accepted - t->done);
	uint64_t taken = t->is_off ? 0 : count < room ? count : room;

	for (uint64_t i = 0; i < taken; i++)
		fm_gs_accept(g, t, at + i * step);
	t->stats.dropped = fm_gs_add(t->stats.dropped, count - taken);
}

/* The device time that a job is expected to need: what was said, or the longest one before, or half
 * of its deadline. */
static inline uint64_t fm_gs_need(const struct fm_gs_task *t)
{
	if (t->wcet)
		return t->wcet;
	return t->longest ? t->longest : t->deadline / 2;
}

static inline struct fm_gs_job fm_gs_first(const struct fm_gs_task *t)
{
	struct fm_gs_job j = {.release = t->release[t->done % FM_GS_BACKLOG],
		.need = fm_gs_need(t),
		.used = t->used,
		.vtime = t->vtime,
		.priority = t->priority};

	j.deadline = t->deadline ? fm_gs_add(j.release, t->deadline) : FM_GS_NEVER;
	return j;
}

/* Is the first job late, and has its deadline passed in a stop? */
static inline bool fm_gs_late(const struct fm_gs_task *t, uint64_t deadline, uint64_t stop)
{
	return deadline >= stop || (t->late >> t->done % FM_GS_BACKLOG & 1);
}

/* A stop has ended: what is not complete, and has its deadline there. */
static inline void fm_gs_note_late(struct fm_gs_task *t, uint64_t stop, uint64_t now)
{
	for (uint64_t i = t->done; t->deadline && i != t->accepted; i++) {
		uint64_t deadline = fm_gs_add(t->release[i % FM_GS_BACKLOG], t->deadline);

		if (deadline >= stop && deadline < now)
			t->late |= UINT64_C(1) << i % FM_GS_BACKLOG;
	}
}

static inline void fm_gs_complete(struct fm_gs_task *t, uint64_t now, uint64_t stop)
{
	struct fm_gs_job j = fm_gs_first(t);
	uint64_t response = fm_gs_sub(now, j.release);

	t->stats.done++;
	if (now > j.deadline) {
		t->stats.missed++;
		t->stats.missed_stopped += fm_gs_late(t, j.deadline, stop);
	}
	if (t->late)
		t->late &= ~(UINT64_C(1) << t->done % FM_GS_BACKLOG);
	t->stats.overruns += t->wcet && t->used > t->wcet;
	FM_GS_COUNT(&t->stats.response[fm_gs_bucket(response)]);
	if (response > t->stats.response_max)
		t->stats.response_max = response;
	if (t->used > t->longest)
		t->longest = t->used;
	t->used = t->chunk = 0;
	FM_GS_SHOW(&t->done, t->done + 1);
}

/* What has ended of a task, and what it was told by its engine. */
static inline void fm_gs_take_ends(const struct fm_gs *g, uint32_t i, uint64_t now, uint64_t stop)
{
	struct fm_gs_task *t = &g->task[i];
	uint64_t ended = FM_GS_NEWS(&t->ended), queued = FM_GS_NEWS(&t->queued);
	uint64_t off = FM_GS_NEWS(&t->off), rung = FM_GS_NEWS(&t->rung), ns;

	t->heard_rung = rung;
	t->in_stream = queued;
	t->is_off = off != 0;
	if (ended != t->seen_ended && fm_gs_runs(t)) {
		t->seen_ended++; /* whatever the word says: one gate was open */
		ns = fm_gs_sub(now, fm_gs_add(t->opened_at, g->gap));
		t->used = fm_gs_add(t->used, ns);
		t->stats.device_ns = fm_gs_add(t->stats.device_ns, ns);
		t->vtime = fm_gs_add(t->vtime, fm_gs_virtual(ns, t->weight));
		if (!FM_GS_CUT(g, i) && ++t->chunk == t->chunks)
			fm_gs_complete(t, now, stop);
	}
}

/* Jobs that other tasks release: the k-th, when each of these has completed its k-th. */
static inline void fm_gs_take_after(struct fm_gs *g, struct fm_gs_task *t, uint64_t now)
{
	uint64_t least = FM_GS_NEVER, done;

	for (uint32_t i = 0; i < t->n_after; i++) {
		done = g->task[g->after[t->first_after + i]].done;
		least = done < least ? done : least;
	}
	if (!t->n_after || least == t->seen_after)
		return;
	fm_gs_release(g, t, least - t->seen_after, now, 0);
	t->seen_after = least;
}

static inline void fm_gs_take_period(struct fm_gs *g, struct fm_gs_task *t, uint64_t now)
{
	uint64_t count;

	if (t->next > now)
		return;
	count = (now - t->next) / t->period + 1;
	fm_gs_release(g, t, count, t->next, t->period);
	t->next += count * t->period;
}

static inline uint64_t fm_gs_word(const struct fm_gs *g, const struct fm_gs_task *t)
{
	return t->word && !g->drained ? FM_GS_LOAD(t->word) : t->seen_word;
}

/* The chunks in the stream beyond those of released jobs get jobs. A job that was put there in part
 * gets one, too. Those of a task that comes after others are released by these. Where the engine
 * has opened the gate for good, chunks run by themselves. */
static inline void fm_gs_take_spare(struct fm_gs *g, struct fm_gs_task *t, uint64_t now)
{
	uint64_t standing = t->in_stream - t->gate, of_jobs, jobs;

	of_jobs = (t->accepted - t->done) * t->chunks - t->chunk - fm_gs_runs(t);
	if (t->is_off || t->n_after || t->gate > t->in_stream || standing <= of_jobs)
		return;
	jobs = (standing - of_jobs + t->chunks - 1) / t->chunks;
	t->stats.spare = fm_gs_add(t->stats.spare, jobs);
	fm_gs_release(g, t, jobs, now, 0);
}

static inline void fm_gs_take_releases(struct fm_gs *g, struct fm_gs_task *t, uint64_t now)
{
	uint64_t rung = t->heard_rung, word = fm_gs_word(g, t);

	if (rung != t->seen_rung) {
		fm_gs_release(g, t, rung - t->seen_rung, now, 0);
		t->seen_rung = rung;
	}
	if (word != t->seen_word) {
		fm_gs_release(g, t, word - t->seen_word, now, 0);
		t->seen_word = word;
	}
	fm_gs_take_after(g, t, now);
	if (t->next != FM_GS_NEVER)
		fm_gs_take_period(g, t, now);
	/* Of a task that is off nothing waits, once its chunk has ended. */
	if (t->is_off && fm_gs_waits(t) && !fm_gs_runs(t)) {
		t->stats.dropped = fm_gs_add(t->stats.dropped, t->accepted - t->done);
		t->stats.released -= t->accepted - t->done;
		t->accepted = t->done;
		t->used = t->chunk = 0;
		t->late = 0;
	}
}

/* The ready task that comes first; n if there is none. One lane looks at each FM_GS_LANES-th. */
static inline uint32_t fm_gs_pick(const struct fm_gs *g, uint64_t now)
{
	struct fm_gs_key best = {FM_GS_NEVER, FM_GS_NEVER};
	uint32_t at = g->n;

	for (uint32_t i = FM_GS_LANE; i < g->n; i += FM_GS_LANES) {
		const struct fm_gs_task *t = &g->task[i];
		struct fm_gs_job j;
		struct fm_gs_key key;

		if (!fm_gs_waits(t) || fm_gs_runs(t) || t->in_stream == t->gate)
			continue;
		j = fm_gs_first(t);
		key = fm_gs_key(g->policy, &j, now);
		if (at == g->n || fm_gs_before(&key, i, &best, at)) {
			best = key;
			at = i;
		}
	}
	return FM_GS_FIRST(g->n, best, at);
}

static inline void fm_gs_open(struct fm_gs *g, uint32_t i, uint64_t now)
{
	struct fm_gs_task *t = &g->task[i];

	t->opened_at = now;
	g->running++;
	g->opened++;
	FM_GS_OPEN(&t->gate, t->gate + 1);
	FM_GS_OPENED(g, i);
}

static inline void fm_gs_sums(struct fm_gs *g)
{
	uint64_t pending = 0, wake = FM_GS_NEVER, vtime = FM_GS_NEVER;
	uint32_t running = 0;

	for (uint32_t i = FM_GS_LANE; i < g->n; i += FM_GS_LANES) {
		const struct fm_gs_task *t = &g->task[i];

		running += fm_gs_runs(t);
		pending += t->accepted - t->done;
		wake = t->next < wake ? t->next : wake;
		if (fm_gs_waits(t))
			vtime = t->vtime < vtime ? t->vtime : vtime;
	}
	running = (uint32_t)FM_GS_SUM(running);
	pending = FM_GS_SUM(pending);
	wake = FM_GS_LEAST(wake);
	vtime = FM_GS_LEAST(vtime);
	if (FM_GS_LANE)
		return;
	g->running = running;
	if (vtime != FM_GS_NEVER && vtime > g->vtime)
		g->vtime = vtime;
	FM_GS_SHOW(&g->pending, pending);
	FM_GS_SHOW(&g->wake, wake);
}

/* Gates are opened for as long as there is a free slot and a ready task. */
static inline void fm_gs_fill(struct fm_gs *g, uint64_t now)
{
	uint32_t i;

	while (FM_GS_ROOM(g)) {
		i = fm_gs_pick(g, now);
		if (i == g->n)
			break;
		if (!FM_GS_LANE)
			fm_gs_open(g, i, now);
		FM_GS_SYNC;
	}
}

#ifdef FM_GS_STOP
/* Of a task that has a job; what a chunk that runs has used counts. */
static inline struct fm_gs_key fm_gs_key_now(const struct fm_gs *g, uint32_t i, uint64_t now)
{
	const struct fm_gs_task *t = &g->task[i];
	struct fm_gs_job j = fm_gs_first(t);

	if (fm_gs_runs(t))
		j.used = fm_gs_add(j.used, fm_gs_sub(now, fm_gs_add(t->opened_at, g->gap)));
	return fm_gs_key(g->policy, &j, now);
}

/* Of the tasks whose chunks run and may be stopped the last, if it comes behind `first', whatever
 * its number; else FM_GS_NEVER. */
static inline uint64_t fm_gs_last(const struct fm_gs *g, uint32_t first, uint64_t now)
{
	struct fm_gs_key of = fm_gs_key_now(g, first, now), last = {0, 0};
	uint64_t at = FM_GS_NEVER, found;

	for (uint32_t i = FM_GS_LANE; i < g->n; i += FM_GS_LANES) {
		struct fm_gs_key key;

		if (!fm_gs_runs(&g->task[i]) || !FM_GS_MAY_STOP(g, i))
			continue;
		key = fm_gs_key_now(g, i, now);
		if (fm_gs_before(&of, 1, &key, 0) &&
			(at == FM_GS_NEVER || fm_gs_before(&last, 0, &key, 0))) {
			last = key;
			at = i;
		}
	}
	found = FM_GS_LEAST(at == FM_GS_NEVER ? FM_GS_NEVER : ~last.first);
	at = ~last.first == found ? at : FM_GS_NEVER;
	found = FM_GS_LEAST(at == FM_GS_NEVER ? FM_GS_NEVER : ~last.second);
	at = ~last.second == found ? at : FM_GS_NEVER;
	return FM_GS_LEAST(at);
}

/* A chunk is a turn of `fair', and is stopped for no other task. */
static inline void fm_gs_stop(struct fm_gs *g, uint64_t now)
{
	bool park = FM_GS_SAME(FM_GS_NEWS(&g->park)) != 0;
	uint32_t may = 0, told = 0, first;
	uint64_t last = FM_GS_NEVER;

	for (uint32_t i = FM_GS_LANE; i < g->n; i += FM_GS_LANES) {
		if (!fm_gs_runs(&g->task[i]) || !FM_GS_MAY_STOP(g, i))
			continue;
		may = 1;
		told |= FM_GS_STOPS(g, i);
		if (park)
			FM_GS_STOP(g, i);
	}
	if (park || g->running < g->slots || g->policy == FM_GS_FAIR || !FM_GS_ANY(may) ||
		FM_GS_ANY(told))
		return;
	first = fm_gs_pick(g, now);
	if (first != g->n)
		last = fm_gs_last(g, first, now);
	if (last != FM_GS_NEVER && !FM_GS_LANE)
		FM_GS_STOP(g, (uint32_t)last);
}
#else
static inline void fm_gs_stop(struct fm_gs *g, uint64_t now)
{
	(void)g;
	(void)now;
}
#endif

/* When the stop began which goes on, or ends with this decision; FM_GS_NEVER: there is none. */
static inline uint64_t fm_gs_stop_from(const struct fm_gs *g, bool stops, uint64_t now)
{
	if (g->stopped)
		return g->stop_from;
	return stops ? now : FM_GS_NEVER;
}

/* One decision, with the turn. */
static inline void fm_gs_decide(struct fm_gs *g)
{
	uint64_t drains, leaves, parks, now, stop, ns;
	bool drain, leave, stops, goes_on;

	for (uint32_t i = FM_GS_LANE; i < g->n; i += FM_GS_LANES)
		FM_GS_TOUCH(&g->task[i]);
	drains = FM_GS_NEWS(&g->drain);
	leaves = FM_GS_NEWS(&g->leave);
	parks = FM_GS_PARKED(g);
	now = FM_GS_SAME(FM_GS_NOW);
	drain = FM_GS_SAME(drains) != 0;
	leave = FM_GS_SAME(leaves) != 0;
	parks = FM_GS_SAME(parks);
	stops = parks == FM_GS_STOP_PARK;
	stop = fm_gs_stop_from(g, stops, now);
	goes_on = g->stopped && !stops;
	if (!FM_GS_LANE)
		g->drained &= drain;
	for (uint32_t i = FM_GS_LANE; i < g->n; i += FM_GS_LANES)
		fm_gs_take_ends(g, i, now, stop);
	FM_GS_SYNC;
	for (uint32_t i = FM_GS_LANE; i < g->n; i += FM_GS_LANES) {
		if (drain)
			g->task[i].next = FM_GS_NEVER;
		fm_gs_take_releases(g, &g->task[i], now);
		if (leave)
			fm_gs_take_spare(g, &g->task[i], now);
		if (goes_on)
			fm_gs_note_late(&g->task[i], stop, now);
	}
	FM_GS_SYNC;
	fm_gs_sums(g);
	FM_GS_SYNC;
	if (!parks && FM_GS_OPENS(g))
		fm_gs_fill(g, now);
	fm_gs_stop(g, now);
	if (FM_GS_LANE)
		return;
	g->drained = drain;
	g->stopped = stops;
	if (stops)
		g->stop_from = stop;
	ns = fm_gs_sub(FM_GS_NOW, now);
	g->decisions++;
	g->decision_ns += ns;
	g->decision_max = ns > g->decision_max ? ns : g->decision_max;
}

/* A decision about all that the bell told until now. */
static inline void fm_gs_hear(struct fm_gs *g, uint64_t *heard)
{
	*heard = FM_GS_SAME(FM_GS_LOAD(&g->bell));
	fm_gs_decide(g);
	if (!FM_GS_LANE)
		FM_GS_SHOW(&g->decided, *heard);
	FM_GS_TELL(g, *heard);
}

/* Lets go; true: there was news meanwhile, and somebody must try for the turn again. */
static inline bool fm_gs_leave(struct fm_gs *g, uint64_t heard)
{
	FM_GS_SWAP(&g->turn, 0);
	return FM_GS_SAME(FM_GS_LOAD(&g->bell)) != heard;
}

/* Of tasks: is there news that rings no bell? Looks are hints: a decision reads it all again. */
static inline bool fm_gs_is_due(const struct fm_gs *g)
{
	uint64_t now = FM_GS_NOW;
	uint32_t due = 0;

	for (uint32_t i = FM_GS_LANE; i < g->n; i += FM_GS_LANES) {
		const struct fm_gs_task *t = &g->task[i];

		due |= t->next <= now ||
		       (t->word && !g->drained && FM_GS_PEEK(t->word) != t->seen_word);
	}
	return FM_GS_ANY(due);
}

enum fm_gs_look { FM_GS_STILL, FM_GS_HEAR, FM_GS_LEAVE };

/* One look of the one that has the turn, and has heard so much. */
static inline enum fm_gs_look fm_gs_look(struct fm_gs *g, uint64_t heard, bool resides)
{
	uint64_t readers = FM_GS_PEEK(&g->readers), bell = FM_GS_PEEK(&g->bell);
	enum fm_gs_look look = bell != heard ? FM_GS_HEAR : FM_GS_STILL;

	if (resides && (!FM_GS_STAYS(g) || readers))
		look = FM_GS_LEAVE;
	look = (enum fm_gs_look)FM_GS_SAME(look);
	if (look != FM_GS_STILL)
		return look;
	if (!resides)
		return FM_GS_LEAVE;
	return fm_gs_is_due(g) ? FM_GS_HEAR : FM_GS_STILL;
}

/* The turn, if it is free. Returns as fm_gs_leave() does. A resident keeps it until it may not
 * stay, or readers want it. */
static inline bool fm_gs_turn(struct fm_gs *g, bool resides)
{
	enum fm_gs_look look = FM_GS_HEAR;
	uint64_t heard = 0;

	if (resides && FM_GS_SAME(FM_GS_LOAD(&g->readers)))
		return false;
	if (FM_GS_SWAP(&g->turn, 1))
		return false;
	while (look != FM_GS_LEAVE) {
		if (look == FM_GS_HEAR)
			fm_gs_hear(g, &heard);
		look = fm_gs_look(g, heard, resides);
	}
	return fm_gs_leave(g, heard);
}

static inline bool fm_gs_try(struct fm_gs *g)
{
	return fm_gs_turn(g, false);
}

/* There is news. */
static inline void fm_gs_kick(struct fm_gs *g)
{
	FM_GS_BUMP(&g->bell);
	while (fm_gs_try(g))
		;
}

/* The end of the chunk that runs: the last that its stream does of it. */
static inline void fm_gs_end(struct fm_gs *g, uint32_t task)
{
	FM_GS_BUMP(&g->task[task].ended);
	fm_gs_kick(g);
}
