/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core of sets (gpusched/core.h), explored to the end: its own text, over a memory that stops
 * at each access to a word which others use. All interleavings of calls that release, refill and
 * park, and of streams in which chunks begin and end. Memory is sequentially consistent,
 * as the words' operations are.
 *
 * A step of an actor is one access, with the accesses behind it that no other can tell from it: to
 * words that nobody else can read or write before this actor goes on. The text cannot be stopped in
 * the middle, so it is called anew for each step: it gets the answers that it has got before, and
 * then one more. The decider's fields are put back to what it was before the decision
 * (`kept`), and the text does to it again what it has done.
 *
 * The checker itself is tested: each fault that is planted in the memory, or in the actors, must be
 * found, by the property that it breaks.
 */
#pragma once
#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FM_GS_BACKLOG 2
#define FM_GS_BITS    0
#define FM_GS_BUCKETS 1 /* no time passes */

struct fm_gs;
static bool model_may_stop(void);
static bool model_stops(uint32_t task);
static void model_stop(uint32_t task);
static bool model_cut(uint32_t task);
static uint64_t model_load(const uint64_t *p);
static void model_store(uint64_t *p, uint64_t v);
static uint64_t model_add(uint64_t *p, uint64_t v);
static uint64_t model_swap(uint64_t *p, uint64_t v);

#define FM_GS_LOAD(p)          model_load(p)
#define FM_GS_SAME(x)          (x)
#define FM_GS_STORE(p, v)      model_store(p, v)
#define FM_GS_ADD(p, v)        model_add(p, v)
#define FM_GS_SWAP(p, v)       model_swap(p, v)
#define FM_GS_NOW              UINT64_C(0)
#define FM_GS_LANE             0u
#define FM_GS_LANES            1u
#define FM_GS_SYNC             ((void)0)
#define FM_GS_SUM(x)           (x)
#define FM_GS_LEAST(x)         (x)
#define FM_GS_CLZ(x)           __builtin_clzll(x)
#define FM_GS_FIRST(n, key, i) (i)
#define FM_GS_MAY_STOP(g, i)   model_may_stop()
#define FM_GS_STOPS(g, i)      model_stops(i)
#define FM_GS_STOP(g, i)       model_stop(i)
#define FM_GS_CUT(g, i)        model_cut(i)
#include "gpusched/core.h"

#define TASKS  3
#define ACTORS 6
#define LOG    40
#define OPS    3

enum fault {
	NO_FAULT,
	NO_SECOND_LOOK, /* a decider that lets go of the turn does not look at the bell again */
	NO_TURN,        /* several decide at once */
	BELL_FIRST,     /* the bell rings before the news is there */
	LOST_ADD,       /* releases are a load and a store */
	NO_KICK,        /* a chunk ends without a word */
	SILENT_UNPARK,  /* nobody decides when the park ends */
	SILENT_REFILL,  /* nor when there is more in a stream */
	PARK_UNSEEN,    /* decisions do not look at the park */
	QUEUED_UNSEEN,  /* nor at what stands in streams */
	WORD_UNSEEN,    /* the resident does not look at words */
	READER_UNSEEN,  /* nor whether somebody wants the turn */
	STAYS_PARKED,   /* nor at the park */
	NEVER_OVER,     /* decisions take a stop that has ended for one that goes on */
	STOP_UNSEEN,    /* nor do they take a stop for one */
	CUT_UNSEEN,     /* decisions take what was cut for complete */
	STOP_STAYS,     /* the stop word is not taken back */
	STOPS_ANOTHER,  /* it is told to another task's chunk */
	FAULTS
};

/* What an actor does, one after the other. A stream's own actor has no list. */
enum op {
	END,
	RELEASE0,
	RELEASE1,
	RELEASE2,
	REFILL0,
	PARK,
	UNPARK,
	WORD0, /* a store of code of the device, which tells nobody */
	WORD1,
	RESIDE,
	READ,
	GO, /* leave */
	STAY
};

struct scenario {
	const char *name;
	unsigned slots, chunks;
	unsigned queued[TASKS]; /* chunks that stand in streams already */
	enum op op[ACTORS - TASKS][OPS];
	bool stops; /* chunks that run may be told to */
	bool parks; /* so each may be told to, also when the park has ended since */
};

/* The operations of fm_gs_turn(), and of what calls it, each begun and ended where nothing of the
 * text's own is kept. */
enum phase { NEWS, TURN, HEAR, LOOK, LEAVE, STAYS, READS, HAS_READ };

struct actor {
	uint8_t at;             /* its operation */
	uint8_t phase;          /* enum phase */
	uint8_t n;              /* answers that it has got, in log[] */
	uint8_t parked_at_bell; /* was the park set when it last read the bell within a decision? */
	uint8_t resides;
	uint64_t heard;
	uint64_t log[LOG];
};

struct world {
	struct fm_gs g;
	struct fm_gs_task task[TASKS];
	uint64_t word[TASKS];
	uint64_t stop[TASKS], left[TASKS]; /* told to the chunk; by it, not all of it has run */
};

struct state {
	struct world w;
	struct world kept; /* when the turn was taken, or the last decision was made */
	struct actor a[ACTORS];
	uint8_t released[TASKS], whole[TASKS], cut[TASKS], opened_parked;
};

#define MANY 40000000 /* states, beyond which something is wrong with a scenario */

static struct {
	enum fault fault;
	const struct scenario *sc;
	const char *broken;
	bool cuts;  /* some chunk was cut */
	bool stops; /* some decision was one of a stop */
	struct state s;
	/* The step at hand. */
	struct actor *actor;
	unsigned read;
	bool spent;
	jmp_buf stop;
} run;

static void broken(const char *what)
{
	if (!run.broken)
		run.broken = what;
}

/* Has an actor one of these operations before it? */
static bool ahead(enum op least, enum op most)
{
	for (unsigned a = 0; a < ACTORS - TASKS; a++)
		for (unsigned i = run.s.a[TASKS + a].at; i < OPS; i++)
			if (run.sc->op[a][i] >= least && run.sc->op[a][i] <= most)
				return true;
	return false;
}

static bool chunk_runs(unsigned i)
{
	const struct fm_gs_task *t = &run.s.w.task[i];

	return t->gate > t->ended && t->queued > t->ended;
}

/* Can another actor tell when this word is read or written? The end of a chunk can come only while
 * the gate is open, and only the decider opens it. */
static bool is_shared(const uint64_t *p)
{
	const struct world *w = &run.s.w;

	if (p == &w->g.bell || p == &w->g.turn)
		return true;
	if (p == &w->g.park)
		return ahead(PARK, UNPARK);
	if (p == &w->g.leave)
		return ahead(GO, STAY);
	if (p == &w->g.readers)
		return ahead(READ, READ);
	for (unsigned i = 0; i < TASKS; i++) {
		if (p == &w->task[i].ended)
			return chunk_runs(i) || (run.s.a[i].phase == NEWS && run.s.a[i].n);
		if (p == &w->task[i].gate)
			return ahead(PARK, UNPARK);
		if (p == &w->task[i].rung)
			return ahead((enum op)(RELEASE0 + i), (enum op)(RELEASE0 + i));
		if (p == &w->task[i].queued)
			return i == 0 && ahead(REFILL0, REFILL0);
		if (p == &w->word[i])
			return ahead((enum op)(WORD0 + i), (enum op)(WORD0 + i));
		if (p == &w->stop[i] || p == &w->left[i])
			return chunk_runs(i) || (run.s.a[i].phase == NEWS && run.s.a[i].n);
	}
	return false;
}

/* A word of several sides: what is read of it is an answer, now and when the text does it again. */
static bool is_word(const uint64_t *p)
{
	const struct world *w = &run.s.w;

	if (p == &w->g.bell || p == &w->g.turn || p == &w->g.park || p == &w->g.leave ||
		p == &w->g.readers)
		return true;
	for (unsigned i = 0; i < TASKS; i++)
		if (p == &w->word[i] || p == &w->task[i].ended || p == &w->task[i].gate ||
			p == &w->task[i].rung || p == &w->task[i].queued || p == &w->stop[i] ||
			p == &w->left[i])
			return true;
	return false;
}

/* All but what others write, from another world. */
static void put_back(const struct world *from)
{
	struct world now = run.s.w;
	struct world *w = &run.s.w;

	*w = *from;
	w->g.bell = now.g.bell;
	w->g.turn = now.g.turn;
	w->g.park = now.g.park;
	w->g.leave = now.g.leave;
	w->g.readers = now.g.readers;
	memcpy(w->word, now.word, sizeof(now.word));
	memcpy(w->stop, now.stop, sizeof(now.stop));
	memcpy(w->left, now.left, sizeof(now.left));
	for (unsigned i = 0; i < TASKS; i++) {
		w->task[i].rung = now.task[i].rung;
		w->task[i].queued = now.task[i].queued;
		w->task[i].ended = now.task[i].ended;
	}
}

/* An answer that was given before; false: there is none, and this access is made now. */
static bool answered(const uint64_t *p, uint64_t *answer)
{
	if (run.read < run.actor->n) {
		*answer = run.actor->log[run.read++];
		return true;
	}
	if (run.spent && is_shared(p))
		longjmp(run.stop, 1);
	run.spent |= is_shared(p);
	return false;
}

static uint64_t answer(uint64_t value)
{
	struct actor *a = run.actor;

	if (a->n == LOG)
		abort();
	a->log[a->n++] = value;
	run.read++;
	return value;
}

static uint64_t model_load(const uint64_t *p)
{
	struct world *w = &run.s.w;
	uint64_t value = *p;

	if (!is_word(p))
		return value;
	if (answered(p, &value))
		return value;
	if (p == &w->task[0].queued && run.fault == QUEUED_UNSEEN)
		value++;
	if (p == &w->g.park && run.fault == PARK_UNSEEN)
		value = 0;
	if (p == &w->g.park && run.fault == STAYS_PARKED && run.actor->phase != HEAR)
		value = 0;
	if (p == &w->g.readers && run.fault == READER_UNSEEN)
		value = 0;
	if (p >= w->word && p < w->word + TASKS && run.fault == WORD_UNSEEN &&
		run.actor->phase == LOOK)
		value = w->task[p - w->word].seen_word;
	if (p == &w->g.bell && run.actor->phase == LEAVE && run.fault == NO_SECOND_LOOK)
		value = run.actor->heard;
	if (p == &w->g.bell)
		run.actor->parked_at_bell = w->g.park != 0;
	return answer(value);
}

static void check_gate(const uint64_t *gate, uint64_t value)
{
	const struct state *s = &run.s;
	unsigned i = 0, open = 0;

	while (gate != &s->w.task[i].gate)
		i++;
	if (value != *gate + 1)
		broken("a gate opened twice");
	if (s->w.stop[i] || s->w.left[i])
		broken("a chunk begins as one that is to stop");
	if (s->w.task[i].ended != *gate)
		broken("a task has two chunks");
	if (s->w.task[i].queued < value)
		broken("opened for nothing");
	for (unsigned k = 0; k < TASKS; k++)
		open += s->w.task[k].gate != s->w.task[k].ended;
	if (open >= run.sc->slots)
		broken("two jobs in a slot");
	if (!s->w.g.park)
		return;
	if (run.actor->parked_at_bell)
		broken("opened by a decision after the park");
	if (++run.s.opened_parked > run.sc->slots)
		broken("opened too much after the park");
}

/* Told by a decision, to what runs as far as that knows. */
static void check_stop(unsigned i)
{
	const struct world *w = &run.s.w;
	bool other = run.sc->parks;

	if (w->task[i].gate == w->task[i].seen_ended)
		broken("a chunk that does not run is told to stop");
	for (unsigned k = 0; k < TASKS; k++)
		other |= fm_gs_waits(&w->task[k]) && !fm_gs_runs(&w->task[k]) &&
			 w->task[k].priority > w->task[i].priority;
	if (!other)
		broken("a chunk is told to stop for nothing");
}

/* Once for each word of that. */
static void note_stop(const uint64_t *p)
{
	for (unsigned i = 0; i < TASKS; i++) {
		if (p == &run.s.w.stop[i])
			check_stop(i);
		if (p == &run.s.w.left[i])
			run.s.cut[i] = run.cuts = true;
	}
}

static void model_store(uint64_t *p, uint64_t v)
{
	struct world *w = &run.s.w;
	bool outside = p == &w->g.park || p == &w->g.leave ||
		       (p >= w->stop && p < w->stop + TASKS) ||
		       (p >= w->left && p < w->left + TASKS);
	uint64_t none;

	if (!is_word(p)) {
		*p = v;
		return;
	}
	if (answered(p, &none)) {
		if (!outside)
			*p = v; /* a gate, which is put back with what belongs to the turn */
		return;
	}
	for (unsigned i = 0; i < TASKS; i++)
		if (p == &run.s.w.task[i].gate)
			check_gate(p, v);
	if (v)
		note_stop(p);
	*p = v;
	answer(0);
}

static bool model_may_stop(void)
{
	return run.sc->stops;
}

static bool model_stops(uint32_t task)
{
	return run.sc->stops && model_load(&run.s.w.stop[task]);
}

static void model_stop(uint32_t task)
{
	model_store(&run.s.w.stop[run.fault == STOPS_ANOTHER ? (task + 1) % TASKS : task], 1);
}

static bool model_cut(uint32_t task)
{
	uint64_t left;

	if (!run.sc->stops)
		return false;
	left = model_load(&run.s.w.left[task]);
	model_store(&run.s.w.left[task], 0);
	if (run.fault != STOP_STAYS)
		model_store(&run.s.w.stop[task], 0);
	return left && run.fault != CUT_UNSEEN;
}

static uint64_t model_add(uint64_t *p, uint64_t v)
{
	uint64_t old;

	if (run.fault == LOST_ADD && p != &run.s.w.g.bell) {
		old = model_load(p);
		model_store(p, old + v);
		return old;
	}
	if (answered(p, &old))
		return old;
	old = *p;
	*p += v;
	return answer(old);
}

static uint64_t model_swap(uint64_t *p, uint64_t v)
{
	uint64_t old;

	if (answered(p, &old))
		return old;
	old = *p;
	*p = v;
	if (v && run.fault == NO_TURN)
		old = 0;
	if (v && !old)
		run.s.kept = run.s.w;
	return answer(old);
}

/* --- actors --- */

static unsigned number_of(const struct actor *a)
{
	return (unsigned)(a - run.s.a);
}

static enum op op_of(const struct actor *a)
{
	unsigned n = number_of(a);

	return n < TASKS || a->at == OPS ? END : run.sc->op[n - TASKS][a->at];
}

/* The first part: what is new, and the bell. Returns whether somebody is to decide. */
static bool bring_news(struct actor *a)
{
	struct world *w = &run.s.w;
	enum op op = op_of(a);
	bool kick = true;

	if (run.fault == BELL_FIRST)
		FM_GS_ADD(&w->g.bell, 1);
	if (number_of(a) < TASKS) {
		/* Its last look; later ones are those of another interleaving. */
		if (run.sc->stops && FM_GS_LOAD(&w->stop[number_of(a)]))
			FM_GS_STORE(&w->left[number_of(a)], 1);
		FM_GS_ADD(&w->task[number_of(a)].ended, 1);
		kick = run.fault != NO_KICK;
	} else if (op >= RELEASE0 && op <= RELEASE2) {
		FM_GS_ADD(&w->task[op - RELEASE0].rung, 1);
	} else if (op == REFILL0) {
		FM_GS_ADD(&w->task[0].queued, 1);
		kick = run.fault != SILENT_REFILL;
	} else if (op == WORD0 || op == WORD1) {
		FM_GS_ADD(&w->word[op - WORD0], 1);
		return false;
	} else if (op == GO || op == STAY) {
		FM_GS_STORE(&w->g.leave, op == GO);
	} else {
		FM_GS_STORE(&w->g.park, op == PARK);
		kick = op == UNPARK && run.fault != SILENT_UNPARK;
	}
	if (kick && run.fault != BELL_FIRST)
		FM_GS_ADD(&w->g.bell, 1);
	return kick;
}

static void next_op(struct actor *a)
{
	enum op op = op_of(a);

	if (op >= RELEASE0 && op <= RELEASE2)
		run.s.released[op - RELEASE0]++;
	if (op == WORD0 || op == WORD1)
		run.s.released[op - WORD0]++;
	if (op == UNPARK)
		run.s.opened_parked = 0;
	if (number_of(a) < TASKS) {
		run.s.whole[number_of(a)] += !run.s.cut[number_of(a)];
		run.s.cut[number_of(a)] = 0;
	}
	a->at += number_of(a) >= TASKS;
	a->phase = NEWS;
}

static void forget(struct actor *a)
{
	a->n = a->parked_at_bell = 0;
	memset(a->log, 0, sizeof(a->log));
}

/* It looks, and would find what it has found. */
static bool rests(const struct actor *a)
{
	const struct world *w = &run.s.w;

	if (!a->resides || a->phase != LOOK || a->n || w->g.bell != a->heard)
		return false;
	for (unsigned i = 0; i < TASKS; i++)
		if (w->word[i] != w->task[i].seen_word && run.fault != WORD_UNSEEN)
			return false;
	return (!w->g.park || run.fault == STAYS_PARKED) && !w->g.leave &&
	       (!w->g.readers || run.fault == READER_UNSEEN);
}

/* Residents come one after the other, as launches into one stream do. */
static bool another_resides(const struct actor *a)
{
	for (unsigned i = TASKS; i < ACTORS; i++)
		if (&run.s.a[i] != a && op_of(&run.s.a[i]) == RESIDE && run.s.a[i].phase != NEWS)
			return true;
	return false;
}

static bool can_step(unsigned n)
{
	const struct actor *a = &run.s.a[n];

	if (n < TASKS) /* its chunk may end, or is being ended */
		return a->phase != NEWS || a->n || chunk_runs(n);
	if (a->phase == READS && run.s.w.g.turn && run.fault != NO_TURN)
		return false;
	if (op_of(a) == RESIDE && a->phase == NEWS && another_resides(a))
		return false;
	return op_of(a) != END && !rests(a);
}

/* As the warp that reads the words does (device/gpusched_warp.h). */
static bool go_on_reading(struct actor *a)
{
	struct fm_gs *g = &run.s.w.g;

	if (a->phase == NEWS) {
		FM_GS_ADD(&g->readers, 1);
		a->phase = READS;
		return true;
	}
	if (a->phase == READS) {
		if (!FM_GS_SWAP(&g->turn, 1)) {
			a->heard = g->decided;
			a->phase = HAS_READ;
		}
		return true;
	}
	FM_GS_ADD(&g->readers, (uint64_t)-1);
	a->phase = TURN;
	if (fm_gs_leave(g, a->heard))
		return true;
	a->heard = 0;
	return false;
}

static bool take_turn(struct actor *a)
{
	struct fm_gs *g = &run.s.w.g;
	bool has;

	has = !(a->resides && FM_GS_LOAD(&g->readers)) && !FM_GS_SWAP(&g->turn, 1);
	a->phase = has ? HEAR : STAYS;
	return has || a->resides;
}

static bool stays(struct actor *a)
{
	struct fm_gs *g = &run.s.w.g;
	bool goes;

	a->phase = TURN;
	if (FM_GS_STAYS(g))
		return true;
	goes = FM_GS_LOAD(&g->leave) != 0;
	if (goes)
		FM_GS_ADD(&g->bell, 1);
	a->resides = false;
	return goes;
}

/* A decision was made: what it takes for a stop. */
static void check_stopped(struct fm_gs *g)
{
	if (run.fault == NEVER_OVER)
		g->stopped |= run.s.kept.g.stopped;
	if (run.fault == STOP_UNSEEN)
		g->stopped = 0;
	if (g->stopped && g->opened != run.s.kept.g.opened)
		broken("a decision of a stop opens a gate");
	if (!g->stopped && FM_GS_ROOM(g) && fm_gs_pick(g, 0) != g->n)
		broken("a gate stays closed, and it is no stop");
	run.stops |= g->stopped != 0;
}

/* What fm_gs_kick() does, and a resident, from one place to the next; what follows a return of the
 * text is of the same step. */
static void go_on(struct actor *a)
{
	static const uint8_t then[] = {
		[FM_GS_STILL] = LOOK, [FM_GS_HEAR] = HEAR, [FM_GS_LEAVE] = LEAVE};
	struct fm_gs *g = &run.s.w.g;
	bool more = true;

	if (op_of(a) == READ && (a->phase == NEWS || a->phase >= READS)) {
		more = go_on_reading(a);
	} else if (op_of(a) == RESIDE && a->phase == NEWS) {
		a->resides = true;
		a->phase = TURN;
	} else if (a->phase == NEWS) {
		more = bring_news(a);
		a->phase = TURN;
	} else if (a->phase == TURN) {
		more = take_turn(a);
	} else if (a->phase == HEAR) {
		put_back(&run.s.kept);
		fm_gs_hear(g, &a->heard);
		check_stopped(g);
		a->phase = LOOK;
		run.s.kept = run.s.w;
	} else if (a->phase == LOOK) {
		a->phase = then[fm_gs_look(g, a->heard, a->resides)];
	} else if (a->phase == STAYS) {
		more = stays(a);
	} else {
		more = fm_gs_leave(g, a->heard);
		a->heard = 0;
		a->phase = more || !a->resides ? TURN : STAYS;
		more |= a->resides;
	}
	forget(a);
	if (!more)
		next_op(a);
}

/* One access of one actor. */
static void step(unsigned n)
{
	run.actor = &run.s.a[n];
	run.read = 0;
	run.spent = false;
	if (setjmp(run.stop))
		return;
	go_on(run.actor);
}

static uint64_t known(const struct fm_gs_task *t)
{
	return t->accepted + t->stats.dropped;
}

static void check_end(void)
{
	const struct world *w = &run.s.w;
	bool resides = false;

	for (unsigned i = TASKS; i < ACTORS; i++) {
		const struct actor *a = &run.s.a[i];

		resides |= rests(a);
		if (op_of(a) != END && !rests(a) && !(op_of(a) == RESIDE && another_resides(a)))
			broken("somebody waits for ever");
	}
	if (w->g.stopped && !w->g.park)
		broken("a stop does not end");
	if (w->g.park && resides)
		broken("a resident is there, and the set is parked");
	/* When it is left, what comes late finds no chunk in the stream, or no room behind those
	 * that ran without a release, and the next resident looks at the word. */
	for (unsigned i = 0; i < TASKS && !w->g.park; i++)
		if ((w->g.leave ? known(&w->task[i]) + w->word[i] - w->task[i].seen_word
				: w->task[i].done) != run.s.released[i] + w->task[i].stats.spare)
			broken("a release was lost");
	for (unsigned i = 0; i < TASKS; i++) {
		if (run.s.whole[i] != w->task[i].done * run.sc->chunks + w->task[i].chunk)
			broken("a chunk that was cut counts as complete, or the other way round");
		if (w->stop[i] && !fm_gs_runs(&w->task[i]))
			broken("a stop word stays");
	}
	for (unsigned i = 0; i < TASKS && w->g.leave; i++)
		if (w->task[i].queued > w->task[i].ended)
			broken("a chunk stands there for ever");
	if (w->g.turn && !resides)
		broken("the turn was never let go");
}

/* --- all of it --- */

static uint64_t mix(uint64_t h, const void *p, size_t n)
{
	const unsigned char *c = p;
	uint64_t x;

	for (; n >= 8; n -= 8, c += 8) {
		memcpy(&x, c, 8);
		h = (h ^ x) * UINT64_C(0x9e3779b97f4a7c15);
		h ^= h >> 29;
	}
	for (; n; n--)
		h = (h ^ *c++) * UINT64_C(0x100000001b3);
	return h;
}

/* What may differ without a difference: counts of decisions; what was kept, while nobody has the
 * turn. */
static uint64_t hash_of(struct state *s)
{
	uint64_t h;

	s->w.g.decisions = s->kept.g.decisions = 0;
	if (!s->w.g.turn)
		memset(&s->kept, 0, sizeof(s->kept));
	h = mix(UINT64_C(0xcbf29ce484222325), s, offsetof(struct state, a));
	for (unsigned i = 0; i < ACTORS; i++)
		h = mix(h, &s->a[i], offsetof(struct actor, log) + s->a[i].n * sizeof(uint64_t));
	h = mix(h, s->released, sizeof(s->released));
	h = mix(h, s->whole, sizeof(s->whole));
	h = mix(h, s->cut, sizeof(s->cut));
	h = mix(h, &s->opened_parked, sizeof(s->opened_parked));
	return h ? h : 1;
}

static struct {
	uint64_t *at;
	size_t cap, n;
} seen;

static bool is_new(uint64_t h)
{
	size_t i;

	if (2 * seen.n >= seen.cap) {
		uint64_t *old = seen.at;
		size_t cap = seen.cap;

		seen.cap = cap ? 2 * cap : 1 << 16;
		seen.at = calloc(seen.cap, sizeof(*seen.at));
		seen.n = 0;
		for (size_t k = 0; k < cap; k++)
			if (old[k])
				is_new(old[k]);
		free(old);
	}
	for (i = h & (seen.cap - 1); seen.at[i]; i = (i + 1) & (seen.cap - 1))
		if (seen.at[i] == h)
			return false;
	seen.at[i] = h;
	seen.n++;
	return true;
}

static void begin(const struct scenario *sc)
{
	struct state *s = &run.s;

	memset(s, 0, sizeof(*s));
	s->w.g.n = TASKS;
	s->w.g.slots = sc->slots;
	s->w.g.task = s->w.task;
	for (unsigned i = 0; i < TASKS; i++) {
		s->w.task[i].queued = sc->queued[i];
		s->w.task[i].chunks = sc->chunks;
		s->w.task[i].weight = FM_GS_WEIGHT;
		s->w.task[i].next = FM_GS_NEVER;
		s->w.task[i].priority = (int32_t)i;
		if (ahead((enum op)(WORD0 + i), (enum op)(WORD0 + i)) && i < 2)
			s->w.task[i].word = &s->w.word[i];
	}
}

/* Returns the number of states; run.broken says what is wrong. */
static size_t explore(const struct scenario *sc, enum fault fault)
{
	struct state *stack = NULL, from;
	size_t n = 0, cap = 0, states;

	run.sc = sc;
	run.fault = fault;
	run.broken = NULL;
	run.cuts = run.stops = false;
	begin(sc);
	is_new(hash_of(&run.s));
	from = run.s;
	for (;;) {
		bool any = false;

		for (unsigned i = 0; i < ACTORS && !run.broken; i++) {
			run.s = from;
			if (!can_step(i))
				continue;
			any = true;
			step(i);
			if (!is_new(hash_of(&run.s)))
				continue;
			if (n == cap) {
				cap = cap ? 2 * cap : 256;
				stack = realloc(stack, cap * sizeof(*stack));
			}
			stack[n++] = run.s;
		}
		run.s = from;
		if (!any)
			check_end();
		if (seen.n > MANY)
			broken("too many states");
		if (run.broken || !n)
			break;
		from = stack[--n];
	}
	free(stack);
	free(seen.at);
	states = seen.n;
	memset(&seen, 0, sizeof(seen));
	return states;
}
