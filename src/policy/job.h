/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a group's jobs are, in device time: what its runtime hint says, or the lengths of the
 * jobs before. The mean is exponential with factor 1/2, as in the textbook (Silberschatz, Galvin
 * and Gagne). With each shorter job the longest falls by an eighth of the difference.
 *
 * A job lasts from the ready edge to the idle edge. Policies that use this ask for both edges
 * (exact_jobs). Nevertheless the edges of a group that is alone on its device are not reported, so
 * nothing is learnt from its jobs then.
 */
#pragma once
#include "base/util.h"
#include "policy.h"

struct fm_job {
	uint64_t used;          /* by the present job or, while idle, the last one */
	uint64_t mean, longest; /* of the jobs before; 0: nothing is known */
	uint64_t arrival;       /* the job's ready_since; a new job has another */
	bool blurred;           /* it was alone on the device for a while */
};

static inline void fm_job_learn(struct fm_job *j)
{
	if (!j->used || j->blurred)
		return;
	j->mean = j->mean ? j->mean / 2 + j->used / 2 : j->used;
	if (j->used >= j->longest)
		j->longest = j->used;
	else
		j->longest -= (j->longest - j->used) / 8;
}

/* Call this at its ready edge, or when a new job comes while it lingers. */
static inline void fm_job_begin(struct fm_job *j, const struct fm_ent *e, bool alone)
{
	fm_job_learn(j);
	j->used = 0;
	j->arrival = e->ready_since;
	j->blurred = alone;
}

/* It is ready, and was alone on the device until now: how far its job has got is not known. */
static inline void fm_job_blur(struct fm_job *j)
{
	j->used = 0;
	j->blurred = true;
}

static inline bool fm_job_is_new(const struct fm_job *j, const struct fm_ent *e)
{
	return e->ready_since != j->arrival;
}

static inline void fm_job_charge(struct fm_job *j, uint64_t ns)
{
	j->used = fm_add_sat(j->used, ns);
}

/* How much a job has left of the expected length. A job that has outlived it is taken to need as
 * much again as it has used: this is the mean residual life of the heavy-tailed lengths that jobs
 * have. */
static inline uint64_t fm_job_remaining(uint64_t used, uint64_t expected)
{
	return used < expected ? expected - used : used;
}
