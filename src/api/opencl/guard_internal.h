/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by guard.c (a launch and its first pass) and guard_again.c (stops and further passes). */
#pragma once
#include "code/opencl/pass/guardian.h"
#include "guard.h"
#include <stdatomic.h>
#include <stdbool.h>

#define FM_CL_BLOCKS 4u /* kept for later launches */

struct block {
	cl_uint *m; /* shared with the device; guardian.h */
	size_t words;
};

struct fm_cl_guard {
	const cl_icd_dispatch *cl;
	cl_context context;
	cl_device_id device;
	_Atomic unsigned refs;
	_Atomic bool ended;
	void (*stands)(void *cookie);
	void (*gone)(void *cookie);
	void *cookie;
	_Atomic bool takes_gate; /* kernels read the gate word: a CPU device */
	_Atomic(cl_uint *) stop; /* shared with the device; NULL until the first launch */
	_Atomic cl_uint stopped; /* the value that it should have */
	cl_command_queue side;   /* further passes; used by go() alone */

	pthread_mutex_t lock;    /* all below */
	struct fm_list launches; /* with a closed latch */
	struct block free[FM_CL_BLOCKS];
};

/* At most two run at a time: one that cannot end, and one that runs the groups it waits for. */
#define PASSES 2u

struct launch;
struct pass {
	struct launch *l;
	bool under_way; /* under g->lock */
};

struct launch {
	struct fm_list link; /* in launches, until the latch opens */
	struct fm_cl_guard *g;
	_Atomic unsigned refs; /* one for each pass under way, one for the second command */
	struct fm_cl_guarded k;
	struct block block;
	size_t groups, offset[3], global[3], local[3];
	cl_event latch; /* under g->lock; NULL when it has opened */
	struct pass pass[PASSES];
	bool chosen; /* local: chosen by the driver */
	bool looked; /* seen since it may go on, with no groups left out yet */
	bool alone;  /* a second pass could not be enqueued */
};

static inline cl_uint word(const struct launch *l, unsigned at)
{
	return atomic_load((const _Atomic cl_uint *)&l->block.m[at]);
}

/* Has a pass left out groups that no pass has run since? */
static inline bool left_out(const struct launch *l)
{
	return word(l, FM_GUARD_LEFT) || word(l, FM_GUARD_LEFT + 1);
}

/* How many passes are under way. Lock held. */
static inline unsigned passes(const struct launch *l)
{
	return l->pass[0].under_way + l->pass[1].under_way;
}

/* Has every group at least begun? False is safe where the driver has chosen the group size. */
static inline bool all_begun(const struct launch *l)
{
	if (!left_out(l))
		return true;
	for (size_t i = 0; l->k.local && i < l->groups; i++)
		if (!word(l, (unsigned)(FM_GUARD_MARKS + i)))
			return false;
	return l->k.local;
}

/* Enqueues a command of the launch, with groups of that size. */
cl_int fm_cl_launch_enqueue(struct launch *l, cl_command_queue queue, const size_t *local,
	cl_uint n, const cl_event *wait, cl_event *event);
/* Makes pass i the next one of the kernel. */
bool fm_cl_launch_set_pass(struct launch *l, unsigned i);
/* Returns the latch if it is closed; the caller must open it. Lock held. */
cl_event fm_cl_launch_take_latch(struct launch *l);
/* Lets the second command run. complete: there is nothing left for it to do. */
void fm_cl_launch_open(struct launch *l, cl_event latch, bool complete);
void fm_cl_launch_unref(struct launch *l, unsigned n);
void fm_cl_pass_ended(struct pass *p, bool failed);
void CL_CALLBACK fm_cl_pass_over(cl_event event, cl_int status, void *pass);
