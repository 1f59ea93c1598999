/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Level 3 for one command queue: launches of kernels that the guardian has rewritten, which stop
 * between two work-groups.
 *
 * A guarded launch is two commands in the program's queue. The first, the *pass*, runs the groups,
 * as long as the stop word, or the gate word, is zero. The second carries the program's event and
 * waits for an event of ours, the *latch*; it runs what is left, and mostly that is nothing. When a
 * pass has ended and groups are left, the launch *stands*: the latch stays closed, and with it all
 * that is behind in the queue, until a further pass, on a queue of ours, has run the rest. So
 * order, errors, wait lists and the program's events stay the driver's; and whatever fails here,
 * the latch opens and the second command does the work.
 *
 * Locks: g->lock is held over no call of the driver, so that its callbacks may take it.
 */
#pragma once
#include "opencl.h"

struct fm_cl_guard;

struct fm_cl_guarded {
	cl_kernel kernel; /* rewritten, all arguments of the program's set */
	cl_uint args;     /* so many; the guardian's come next */
	cl_uint dim;
	const size_t *offset, *global, *local; /* offset and local may be NULL */
	cl_uint n_wait;
	const cl_event *wait;
	/* What closes the queue, and is there for good: where the device is the processor kernels
	 * look at this word themselves, so that nobody in this process has to act to stop them. */
	_Atomic uint32_t *gate;
	cl_event *event;            /* the program's; may be NULL */
	void (*over)(void *cookie); /* the kernel is not used any more; any thread */
	void *cookie;
};

/* NULL: this queue cannot have one; *why says so in a few words. */
struct fm_cl_guard *fm_cl_guard_new(const struct fm_cl_queue *q, const char **why);

/* Before the first launch. stands is told, from any thread, that a launch has come to stand; gone,
 * that the cookie is not used any more. */
void fm_cl_guard_on_stand(struct fm_cl_guard *g, void (*stands)(void *cookie),
	void (*gone)(void *cookie), void *cookie);

/* True: launched. False: nothing was, for a reason that the driver may tell the program when it
 * makes the call as the program did; over() was not, and will not be, called. */
bool fm_cl_guard_launch(
	struct fm_cl_guard *g, cl_command_queue queue, const struct fm_cl_guarded *k);

/* Level 3 of the backend. stop: 0 if a launch stands, -EINPROGRESS if none does yet. go: 0, or
 * -EAGAIN: look once more before long. Of one guard one at a time. */
int fm_cl_guard_stop(struct fm_cl_guard *g);
int fm_cl_guard_go(struct fm_cl_guard *g);

/* No passes any more: latches open, the program's own commands do what is left. */
void fm_cl_guard_end(struct fm_cl_guard *g);

/* The owner lets go; what is under way goes on, and stands no more. */
void fm_cl_guard_release(struct fm_cl_guard *g);
