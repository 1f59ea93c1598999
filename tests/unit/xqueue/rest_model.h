/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model of rests (xqueue/rest.h), explored to the end: every interleaving of the mover, a thread
 * that launches, makes a queue and waits for events, a thread in a call that names an address,
 * whoever writes the gate word (a daemon, its death, its successor: all the same store), the exit
 * of the process, and the device, whose writes come late.
 *
 * It is sound if nothing runs, and no call looks at what is mapped, while memory is missing; if
 * from each state all can come to its end, so that no order of events keeps anything closed; and if
 * there is no state without a next one. Steps stand as the code has them: one access to shared
 * memory each, save under a lock that all take who would see a difference. Host threads are
 * sequentially consistent, as their atomics are. A write of the device waits in a buffer of its
 * queue; a read of the device is made when that is empty, as a bus has it.
 *
 * The checker itself is tested: each fault that is planted, a step left out or out of order, must
 * be found in one of the scenarios, and by the property that it breaks.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum word { OPEN, CLOSED, MOVING, MAPPING };
enum kind { COMMAND = 1, GATE, FENCE, PART, EVENT, PART_END };

#define QUEUES 2
#define ROOM   8
#define NONE   0xff /* nothing in a device's buffer */

/* What may be done wrong. */
enum fault {
	NO_FAULT,
	GATES_ALONE,     /* the device waits for the daemon's word alone: each opener opens */
	NO_LEAVE,        /* it does not look again when it has said that it goes on */
	ONE_LOOK,        /* `leave` is closed without a second look */
	LEAVE_STAYS,     /* and stays closed when the second look finds somebody gone */
	READ_PASSES,     /* the device's reads overtake its writes */
	NO_BIT_IN_NEW,   /* a new queue is not held */
	BIT_BEFORE,      /* a launch looks whether it is held before it is counted */
	GUESS,           /* what was launched counts as finished after a while */
	OTHERS_GATE,     /* a queue counts as at rest when another stands */
	NO_FENCE,        /* nobody asks for the end of what has no gate behind it */
	NO_PART,         /* nothing says that a queue waits for an event */
	CALLS_UNSEEN,    /* memory moves without regard to calls that are inside */
	CALLS_LOOK_ONCE, /* a call looks at the state before it is counted */
	EXIT_OPENS,      /* the exit opens whatever the state is */
	EXIT_UNSEEN,     /* memory begins to move though the process exits */
	HELD_LATE,       /* queues are held though the exit has opened */
	LEAVE_LATE,      /* `leave` is closed though the exit has opened */
	OPENS_UNMAPPED,  /* the rest ends before all is mapped */
	HOLDS_AT_EXIT,   /* gates are told to wait for memory though the process exits */
	EXIT_HOLDS,      /* the exit does not open for them */
	FAULTS
};

/* What the threads do in a scenario. */
enum op { END, LAUNCH0, LAUNCH1, MAKE1, WAIT1 };
struct scenario {
	const char *name;
	enum op op[6];
	unsigned toggles; /* how often the gate word changes; it ends open */
	bool shut;        /* it is closed first, until the rest is over */
	bool calls;       /* a thread names an address */
	bool exits;       /* the process exits at some time */
	bool gives_up;    /* the mover may give up a rest that has not begun */
	unsigned holds;   /* so often gates are told to wait for memory (xqueue/early.h) */
	unsigned rests;
};

struct queue {
	uint8_t made, held, begun, passed, fenced, gate_mark, pending;
	uint8_t n, kind[ROOM], mark[ROOM]; /* in the hwqueue */
	/* The device: its place in the first entry; a write that is not seen yet. */
	uint8_t at, running, ran, says, buffer;
};

struct state {
	uint8_t word, leave, hole, gate, toggles, inside, over, lock;
	struct queue q[QUEUES];
	uint8_t p_op, p_at, p_closed, p_part;                 /* the program */
	uint8_t t_at;                                         /* a call */
	uint8_t m_at, m_q, m_begun, m_all, m_second, m_rests; /* the mover */
	uint8_t x_at;                                         /* the exit */
	uint8_t memory, h_at, h_holds; /* gates wait for memory; whoever says so */
};

static struct {
	enum fault fault;
	const struct scenario *sc;
	const char *broken; /* the property */
} run;

static void broken(const char *what)
{
	if (!run.broken)
		run.broken = what;
}

/* --- successors --- */

struct nexts {
	struct state s[32];
	unsigned n;
};

static struct state *next(struct nexts *to, const struct state *s)
{
	if (to->n == sizeof(to->s) / sizeof(to->s[0]))
		abort();
	to->s[to->n] = *s;
	return &to->s[to->n++];
}

static void push(struct queue *q, enum kind kind, uint8_t mark)
{
	if (q->n == ROOM)
		abort();
	q->kind[q->n] = (uint8_t)kind;
	q->mark[q->n++] = mark;
}

static void pop(struct queue *q)
{
	memmove(q->kind, q->kind + 1, ROOM - 1);
	memmove(q->mark, q->mark + 1, ROOM - 1);
	q->kind[ROOM - 1] = q->mark[ROOM - 1] = 0;
	q->n--;
	q->at = 0;
}

/* --- the device (a backend's gate: hwqueue.h) --- */

static bool reads(const struct queue *q)
{
	return q->buffer == NONE || run.fault == READ_PASSES;
}

static bool rest_is_open(const struct state *s)
{
	return s->word == OPEN || run.fault == GATES_ALONE;
}

/* The places of a gate: it says that it stands; waits for its memory, for the gate, for `rest`;
 * says that it goes on; waits for `leave`. */
static void device_at_gate(struct nexts *to, const struct state *s, unsigned i)
{
	const struct queue *q = &s->q[i];
	bool moves = false;

	if (q->at == 0 || q->at == 4)
		moves = q->buffer == NONE;
	else if (q->at == 1)
		moves = reads(q) && (!s->memory || q->kind[0] != GATE);
	else if (q->at == 2)
		moves = reads(q) && !s->gate;
	else if (q->at == 3)
		moves = reads(q) && rest_is_open(s);
	else
		moves = run.fault == NO_LEAVE || run.fault == GATES_ALONE ||
			(reads(q) && !s->leave);
	if (moves) {
		struct queue *n = &next(to, s)->q[i];

		if (q->at == 0 || q->at == 4)
			n->buffer = (uint8_t)(2 * q->mark[0] + (q->at == 0));
		if (q->at == 5)
			pop(n);
		else
			n->at += q->at == 0 && !run.sc->holds ? 2 : 1;
	}
}

static void device_at_command(struct nexts *to, const struct state *s, unsigned i)
{
	struct queue *n = &next(to, s)->q[i];

	n->running = !n->running;
	n->ran += !n->running;
	if (!n->running)
		pop(n);
}

static void device(struct nexts *to, const struct state *s, unsigned i)
{
	const struct queue *q = &s->q[i];
	struct queue *n;

	if (q->buffer != NONE) {
		n = &next(to, s)->q[i];
		n->says = q->buffer;
		n->buffer = NONE;
	}
	switch (q->n ? (enum kind)q->kind[0] : 0) {
	case COMMAND:
		device_at_command(to, s, i);
		return;
	case PART_END:
	case GATE:
		device_at_gate(to, s, i);
		return;
	case FENCE:
	case PART:
		if (q->buffer != NONE)
			return;
		n = &next(to, s)->q[i];
		n->buffer = (uint8_t)(2 * q->mark[0] + (q->kind[0] == PART));
		pop(n);
		return;
	case EVENT:
		if (s->q[0].ran >= q->mark[0])
			pop(&next(to, s)->q[i]);
		return;
	default:
		return;
	}
}

/* --- the program: fm_xq_begin(), the driver's call, fm_xq_end() --- */

static bool may_run(const struct state *s, const struct queue *q)
{
	return !s->gate && !q->held;
}

/* fm_xq_is_behind() */
static bool is_behind(const struct queue *q)
{
	return q->pending && (q->says >> 1 < q->gate_mark || q->says == 2 * q->gate_mark + 1);
}

/* note_fence(), and what stands with it in fm_xq_device_place() */
static void gate_placed(const struct state *s, struct queue *q, uint8_t mark)
{
	q->fenced = q->fenced > mark ? q->fenced : mark;
	q->gate_mark = mark;
	q->pending = !may_run(s, q);
}

enum { P_BEGUN, P_GATE, P_HELD, P_BEHIND, P_SLOW, P_LAUNCH, P_PASSED };

static void op_done(struct state *n)
{
	n->p_at = 0;
	n->p_closed = 0;
	n->p_op++;
}

static void launch(struct nexts *to, const struct state *s, unsigned i)
{
	struct state *n = next(to, s);
	struct queue *q = &n->q[i];
	unsigned at = s->p_at;

	/* The fault: these two in the other order. */
	if (run.fault == BIT_BEFORE && at <= P_HELD)
		at = at == P_BEGUN ? P_GATE : at == P_GATE ? P_HELD : P_BEGUN;
	n->p_at++;
	switch (at) {
	case P_BEGUN:
		q->begun++;
		return;
	case P_GATE:
		n->p_closed = s->gate;
		return;
	case P_HELD:
		n->p_closed |= q->held;
		return;
	case P_BEHIND:
		n->p_closed = n->p_closed && !is_behind(q);
		if (!n->p_closed) {
			n->p_at = P_LAUNCH;
			next(to, n)->p_at = P_SLOW; /* the segment is full, too */
			to->s[to->n - 1].p_closed = 2;
		}
		return;
	case P_SLOW: /* under the XQueue's lock */
		if (s->p_closed == 2 || (!may_run(s, q) && !is_behind(q))) {
			push(q, GATE, q->passed);
			gate_placed(n, q, q->passed);
		}
		return;
	case P_LAUNCH:
		push(q, COMMAND, 0);
		return;
	default:
		q->passed++;
		op_done(n);
		return;
	}
}

/* fm_xq_part_begin(), the driver's call, fm_xq_part_end(): for an event behind what queue 0 has. */
static void wait_for_event(struct nexts *to, const struct state *s)
{
	struct state *n = next(to, s);
	struct queue *q = &n->q[1];

	n->p_at++;
	if (s->p_at == 0 && run.fault != NO_PART)
		push(q, PART, q->passed);
	else if (s->p_at == 1)
		push(q, EVENT, s->q[0].passed);
	else if (s->p_at == 2) {
		if (run.fault != NO_PART) {
			push(q, PART_END, q->passed);
			gate_placed(n, q, q->passed);
		}
		op_done(n);
	}
}

static void program(struct nexts *to, const struct state *s)
{
	struct state *n;

	switch (run.sc->op[s->p_op]) {
	case LAUNCH0:
	case LAUNCH1:
		launch(to, s, run.sc->op[s->p_op] == LAUNCH1);
		return;
	case MAKE1: /* enter(), under the client's lock */
		if (s->lock)
			return;
		n = next(to, s);
		n->q[1].made = 1;
		n->q[1].held = s->word != OPEN && run.fault != NO_BIT_IN_NEW;
		op_done(n);
		return;
	case WAIT1:
		wait_for_event(to, s);
		return;
	default:
		return;
	}
}

/* --- a call that names an address: fm_rest_call_begin() and _end() --- */

static bool is_missing(const struct state *s)
{
	return s->word == MOVING || s->word == MAPPING;
}

enum { T_COUNT, T_LOOK, T_DRIVER, T_END, T_WAIT, T_DONE };

static void a_call(struct nexts *to, const struct state *s)
{
	bool swapped = run.fault == CALLS_LOOK_ONCE;
	struct state *n;

	if (s->t_at == T_DONE || (s->t_at == T_WAIT && is_missing(s)))
		return;
	n = next(to, s);
	n->t_at++;
	if (s->t_at == (swapped ? T_LOOK : T_COUNT)) {
		n->inside++;
	} else if (s->t_at == (swapped ? T_COUNT : T_LOOK)) {
		if (is_missing(s)) {
			n->inside -= !swapped;
			n->t_at = T_WAIT;
		}
	} else if (s->t_at == T_DRIVER) {
		if (s->hole)
			broken("a call looks at memory that is missing");
	} else if (s->t_at == T_END) {
		n->inside--;
		n->t_at = T_DONE;
	} else {
		n->t_at = T_COUNT;
	}
}
