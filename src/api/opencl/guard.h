/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Level 3 for one command queue: launches of kernels that the guardian has rewritten. Such a launch
 * can be stopped between two work-groups.
 *
 * A guarded launch is two commands in the program's queue. The first, the *pass*, runs work-groups
 * for as long as the stop word (or the gate word) is zero. The second carries the program's event
 * and waits for an event of the guard, the *latch*. It runs the groups that are left, usually none.
 * If a pass ends with groups left, the launch *stands*: the latch stays closed and holds back
 * everything behind it in the queue, until a further pass, in a queue of the guard, has run the
 * rest. So the driver itself still keeps the order, the errors, the wait lists and the program's
 * events. If anything fails here, the latch opens and the second command does the work.
 *
 * Locks: g->lock is never held during a call of the driver, so the driver's callbacks may take it.
 */
#pragma once
#include "opencl.h"

struct fm_cl_guard;

struct fm_cl_guarded {
	cl_kernel kernel; /* rewritten, all arguments of the program's set */
	cl_uint args;     /* how many; the guardian's arguments follow */
	cl_uint dim;
	const size_t *offset, *global, *local; /* offset and local may be NULL */
	cl_uint n_wait;
	const cl_event *wait;
	/* The gate word of the queue, valid for as long as the process lives. On a CPU device the
	 * kernels read it themselves, so they stop without any action by this process. */
	_Atomic uint32_t *gate;
	cl_event *event;            /* the program's; may be NULL */
	void (*over)(void *cookie); /* the kernel is no longer used; called by any thread */
	void *cookie;
};

/* NULL if this queue cannot have one: *why gives the reason in a few words. */
struct fm_cl_guard *fm_cl_guard_new(const struct fm_cl_queue *q, const char **why);

/* To be called before the first launch. Any thread may call stands(), when a launch has come to
 * stand, and gone(), when the cookie is no longer used. */
void fm_cl_guard_on_stand(struct fm_cl_guard *g, void (*stands)(void *cookie),
	void (*gone)(void *cookie), void *cookie);

/* False: nothing was launched, and over() is never called. The caller then makes the program's own
 * call, whose error the program gets, if there is one. */
bool fm_cl_guard_launch(
	struct fm_cl_guard *g, cl_command_queue queue, const struct fm_cl_guarded *k);

/* Interrupt and restore (hwqueue.h). stop returns 0 if a launch stands, -EINPROGRESS if none does
 * yet; go returns 0, or -EAGAIN if it has to be called again soon. One call at a time for each
 * guard. */
int fm_cl_guard_stop(struct fm_cl_guard *g);
int fm_cl_guard_go(struct fm_cl_guard *g);

/* From now on there are no further passes: latches open, and the second commands do the rest. */
void fm_cl_guard_end(struct fm_cl_guard *g);

/* The owner gives up its reference. Launches under way go on, and no longer stand. */
void fm_cl_guard_release(struct fm_cl_guard *g);
