/* SPDX-License-Identifier: Apache-2.0 */
/* The second half of the model of rests (rest_model.h): the mover, the exit of the process, whoever
 * writes the gate word; and the properties. */
#pragma once
#include "rest_model.h"

/* --- the mover: rest.c, still.c --- */

enum {
	M_ABLE,
	M_CLOSE,
	M_LOCK,
	M_HOLD,
	M_LOOK, /* is_still(): begun, finished, the device's word; then fm_xq_device_look() */
	M_FINISHED,
	M_STANDS,
	M_ASK,
	M_ALL,
	M_SECOND,
	M_MOVING,
	M_OVER,
	M_CALLS,
	M_UNMAP,
	M_MAPPING,
	M_MAP,
	M_OPEN,
	M_LET_GO,
	M_BACK,
	M_DONE
};

/* One queue has been looked at. */
static void looked_at(struct state *n, bool still)
{
	n->m_all &= still;
	n->m_at = n->m_q + 1 < QUEUES ? M_LOOK : M_ALL;
	n->m_q++;
}

static void look_from_the_first(struct state *n)
{
	n->m_at = M_LOOK;
	n->m_q = 0;
	n->m_all = 1;
}

static bool stands(const struct state *s, unsigned i)
{
	if (run.fault == OTHERS_GATE && s->q[!i].says & 1)
		return true;
	return s->q[i].says & 1;
}

static uint8_t finished(const struct queue *q)
{
	return run.fault == GUESS ? q->passed : q->says >> 1;
}

static void look(struct nexts *to, const struct state *s)
{
	struct state *n = next(to, s);
	struct queue *q = &n->q[s->m_q];

	if (!q->made) {
		looked_at(n, true);
		return;
	}
	n->m_at++;
	switch (s->m_at) {
	case M_LOOK:
		n->m_begun = q->begun;
		return;
	case M_FINISHED:
		if (finished(q) >= s->m_begun)
			looked_at(n, true);
		return;
	case M_STANDS:
		if (stands(s, s->m_q))
			looked_at(n, true);
		return;
	default:
		if (run.fault != NO_FENCE && q->fenced < q->passed) {
			push(q, FENCE, q->passed);
			q->fenced = q->passed;
		}
		looked_at(n, false);
		return;
	}
}

/* All queues were looked at: once, and with `leave` closed once more. */
static void looked_at_all(struct nexts *to, const struct state *s)
{
	struct state *n = next(to, s);

	if (s->m_all && (s->m_second || run.fault == ONE_LOOK)) {
		n->leave |= run.fault == ONE_LOOK;
		n->m_at = M_MOVING;
	} else if (s->m_all) {
		n->m_at = M_SECOND;
	} else {
		if (run.fault != LEAVE_STAYS && s->word != OPEN)
			n->leave = 0;
		n->m_second = 0;
		look_from_the_first(n);
		if (run.sc->gives_up)
			next(to, n)->m_at = M_OPEN;
	}
	if (s->over && run.fault != EXIT_UNSEEN)
		n->m_at = M_OPEN;
}

/* change(): the exit may have been there. */
static void change(struct state *n, enum word from, enum word word, unsigned then)
{
	if (n->word == from) {
		n->word = (uint8_t)word;
		n->m_at = (uint8_t)then;
	} else {
		n->m_at = M_DONE;
	}
}

static void move(struct nexts *to, const struct state *s)
{
	struct state *n;

	if (s->m_at == M_DONE || (s->m_at == M_LOCK && s->lock) ||
		((s->m_at == M_OPEN || s->m_at == M_SECOND) && s->lock))
		return;
	if (s->m_at >= M_LOOK && s->m_at <= M_ASK) {
		look(to, s);
		return;
	}
	if (s->m_at == M_ALL) {
		looked_at_all(to, s);
		return;
	}
	n = next(to, s);
	n->m_at++;
	switch (s->m_at) {
	case M_ABLE:
		if (s->over)
			n->m_at = M_DONE;
		return;
	case M_CLOSE:
		change(n, OPEN, CLOSED, M_LOCK);
		return;
	case M_LOCK:
		n->lock = 1;
		n->m_q = 0;
		return;
	case M_HOLD: /* hold_all() */
		if (s->word != OPEN || run.fault == HELD_LATE)
			n->q[s->m_q].held = n->q[s->m_q].made;
		n->m_at = M_HOLD;
		if (++n->m_q == QUEUES) {
			n->lock = 0;
			n->m_second = 0;
			look_from_the_first(n);
		}
		return;
	case M_SECOND: /* keep_from_leaving(), under the client's lock */
		if (s->word != OPEN || run.fault == LEAVE_LATE)
			n->leave = 1;
		n->m_second = 1;
		look_from_the_first(n);
		return;
	case M_MOVING:
		if (s->over && run.fault != EXIT_UNSEEN)
			n->m_at = M_OPEN;
		else
			change(n, CLOSED, MOVING, M_OVER);
		return;
	case M_OVER:
		if (s->over && run.fault != EXIT_UNSEEN)
			n->m_at = M_BACK;
		return;
	case M_CALLS: /* have_left() */
		if (s->inside && run.fault != CALLS_UNSEEN)
			n->m_at = M_BACK;
		return;
	case M_UNMAP:
		n->hole = 1;
		return;
	case M_MAPPING:
		change(n, MOVING, MAPPING, run.fault == OPENS_UNMAPPED ? M_OPEN : M_MAP);
		return;
	case M_MAP:
		n->hole = 0;
		return;
	case M_OPEN: /* open_word() */
		if (s->word == OPEN) {
			n->m_at = M_DONE;
			return;
		}
		n->lock = 1;
		n->word = OPEN;
		n->m_q = 0;
		return;
	case M_LET_GO:
		n->leave = 0;
		n->q[s->m_q].held = 0;
		n->m_at = M_LET_GO;
		if (++n->m_q == QUEUES) {
			n->lock = 0;
			n->m_at = --n->m_rests && !s->over ? M_ABLE : M_DONE;
		}
		return;
	case M_BACK:
		change(n, MOVING, CLOSED, s->over ? M_OPEN : M_MOVING);
		return;
	default:
		abort();
	}
}

/* --- the exit: fm_rest_exit() --- */

enum { X_WAITS, X_MEMORY, X_OVER, X_LET_GO, X_DONE };

static void an_exit(struct nexts *to, const struct state *s)
{
	bool opens = s->word == CLOSED || (s->word != OPEN && run.fault == EXIT_OPENS);
	struct state *n;

	if (!run.sc->exits || s->x_at == X_DONE)
		return;
	if (s->x_at == X_OVER && s->word != OPEN && (!opens || s->lock))
		return;
	n = next(to, s);
	switch (s->x_at) {
	case X_WAITS:
		n->over = 1;
		n->x_at = X_MEMORY;
		return;
	case X_MEMORY: /* fm_early_open() */
		if (run.fault != EXIT_HOLDS)
			n->memory = 0;
		n->x_at = X_OVER;
		return;
	case X_OVER:
		n->x_at = s->word == OPEN ? X_DONE : X_LET_GO;
		n->lock = s->word != OPEN;
		n->word = OPEN;
		return;
	default:
		n->leave = 0;
		for (unsigned i = 0; i < QUEUES; i++)
			n->q[i].held = 0;
		n->lock = 0;
		n->x_at = X_DONE;
		return;
	}
}

/* --- the mover, where the program starts early: fm_early_hold(), fm_early_open() --- */

enum { H_ABLE, H_HOLD, H_LOOK, H_BACK, H_OPEN };

static void an_early_start(struct nexts *to, const struct state *s)
{
	struct state *n;

	/* Once the process exits it may never come again. */
	if (!s->h_holds || (s->over && (s->h_at == H_ABLE || s->h_at == H_OPEN)))
		return;
	n = next(to, s);
	n->h_at++;
	switch (s->h_at) {
	case H_HOLD:
		n->memory = 1;
		return;
	case H_LOOK:
		if (!s->over || run.fault == HOLDS_AT_EXIT)
			n->h_at = H_OPEN;
		return;
	case H_BACK:
		n->memory = 0;
		return;
	case H_OPEN:
		n->memory = 0;
		n->h_at = H_ABLE;
		n->h_holds--;
		return;
	default:
		return;
	}
}

/* --- whoever writes the gate word --- */

static void a_daemon(struct nexts *to, const struct state *s)
{
	struct state *n;

	if (!s->toggles || (run.sc->shut && s->m_at != M_DONE))
		return;
	n = next(to, s);
	n->gate = !n->gate;
	n->toggles--;
}

static inline void successors(struct nexts *to, const struct state *s)
{
	to->n = 0;
	for (unsigned i = 0; i < QUEUES; i++)
		device(to, s, i);
	program(to, s);
	if (run.sc->calls)
		a_call(to, s);
	move(to, s);
	an_exit(to, s);
	if (run.sc->holds)
		an_early_start(to, s);
	a_daemon(to, s);
}

/* --- properties --- */

static inline bool is_end(const struct state *s)
{
	return run.sc->op[s->p_op] == END && s->m_at == M_DONE && s->word == OPEN && !s->hole &&
	       !s->leave && !s->memory && !s->q[0].held && !s->q[1].held && !s->gate &&
	       !s->q[0].n && !s->q[1].n && (!run.sc->calls || s->t_at == T_DONE) &&
	       (!run.sc->exits || s->x_at == X_DONE);
}

static inline void check(const struct state *s)
{
	for (unsigned i = 0; i < QUEUES; i++)
		if (s->q[i].running && s->hole)
			broken("the device runs while memory is missing");
	if (s->hole && s->word != MOVING && s->word != MAPPING)
		broken("it is open while memory is missing");
	if (s->hole && s->x_at == X_DONE)
		broken("the process ends while memory is missing");
}
