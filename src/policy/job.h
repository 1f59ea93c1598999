/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a group's jobs are, in device time: as its runtime hint says, or as the jobs before
 * were. The mean is exponential with factor 1/2, the textbook's (Silberschatz, Galvin and Gagne);
 * the longest is forgotten by an eighth with each shorter job.
 *
 * A job is what lies between the edges ready and idle: policies that use this ask for both
 * (exact_jobs). Of a group that is alone on its device the edges are not reported all the same, so
 * what it does then teaches nothing.
 */
#pragma once
#include "base/util.h"
#include "policy.h"

struct fm_job {
	uint64_t used;          /* by the job at hand or, while idle, the last one */
	uint64_t mean, longest; /* of the jobs before; 0: nothing is known */
	uint64_t arrival;       /* its ready_since, to know a new one by */
	bool blurred;           /* alone on the device for a while */
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

/* Its ready edge, or a new job within its linger. */
static inline void fm_job_begin(struct fm_job *j, const struct fm_ent *e, bool alone)
{
	fm_job_learn(j);
	j->used = 0;
	j->arrival = e->ready_since;
	j->blurred = alone;
}

/* Ready, and alone on the device until now: where in its job it is, nobody knows. */
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

/* What a job that has used so much of what was expected has left. One that has outlived that is
 * taken to have as much before it as behind it: the mean residual life of the heavy-tailed lengths
 * that jobs have. */
static inline uint64_t fm_job_remaining(uint64_t used, uint64_t expected)
{
	return used < expected ? expected - used : used;
}
