/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the analyses share: the prepared set, and sums that know what they are made of.
 *
 * Owns: what one analysis has prepared, until it ends. Nothing lasts between calls.
 * Locks: none.
 * Threads: any, each with a set of its own.
 */
#pragma once
#pragma GCC visibility push(default)
#include <fermata/rta.h>
#pragma GCC visibility pop

struct task {
	size_t origin; /* its place in the caller's set */
	int64_t priority, cpu;
	int64_t period, deadline;
	int64_t cpu_time;
	int64_t gpu;      /* G: all segments of a job */
	int64_t misc;     /* Gm: their part on the CPU */
	int64_t pure;     /* Ge: their part on the GPU */
	int64_t load;     /* C + Gm: what a job takes of its CPU when it suspends itself */
	int64_t segments; /* n */
	int64_t longest;  /* the longest segment */
	int64_t longest_misc;
	int64_t at_least;
	int64_t turns; /* slices that the pure parts take, each rounded up; 0 without a slice */
};

/* Real-time tasks from the highest priority down, then best effort. */
struct fm_rta {
	size_t tasks, real_time;
	int64_t epsilon, slice, theta;
	uint64_t effort; /* 0: as much as it takes */
	struct task task[];
};

/* Steps that an iteration may take over so many tasks: some seconds of work at most. */
static inline uint64_t steps_for(size_t tasks)
{
	uint64_t steps = UINT64_C(64) * FM_RTA_STEPS / (tasks + 1);

	return steps < 1024 ? 1024 : steps > FM_RTA_STEPS ? FM_RTA_STEPS : steps;
}

/* mpcp: how long a request waits does not depend on w, and is found once for a task. */
struct request {
	bool sought, found;
	int64_t window;
};

/* A sum of non-negative terms. Once it has failed it stays failed. */
struct sum {
	int64_t total;
	bool overflow;
	struct fm_rta_term *term; /* where the first `cap` terms are noted */
	size_t cap, terms;
	struct request *request;
};

/* count * each, on behalf of task h (NULL: the task's own). A count below 0 is 0. */
void sum_add(
	struct sum *s, enum fm_rta_kind kind, const struct task *h, int64_t count, int64_t each);

/* Checked; on overflow 0, and the sum has failed. */
int64_t sum_times(struct sum *s, int64_t a, int64_t b);
int64_t sum_plus(struct sum *s, int64_t a, int64_t b);

/* Jobs in a window with a release jitter: ceil((window + jitter) / period), at least 0. */
int64_t sum_jobs(struct sum *s, int64_t window, int64_t jitter, int64_t period);

/* What tasks above task i on its CPU take of that: all of a job, or with `busy` off what is left
 * when it suspends itself for the GPU. wcrt as below. */
void sum_cpu_above(const struct fm_rta *rta, size_t i, const int64_t *wcrt, bool busy, int64_t w,
	struct sum *s);

/* The right-hand side for task i of the bound's equation at W, added to s. wcrt[h]: the bounds of
 * tasks before i. */
typedef void rhs_fn(
	const struct fm_rta *rta, size_t i, const int64_t *wcrt, int64_t w, struct sum *s);
rhs_fn gcaps_suspend_rhs, gcaps_busy_rhs, rr_suspend_rhs, rr_busy_rhs, fmlp_suspend_rhs,
	fmlp_busy_rhs, mpcp_suspend_rhs, mpcp_busy_rhs;

/* The same of gcaps with GPU priorities: above[h] tells whether h's is higher than i's. */
void gcaps_above_rhs(
	const struct fm_rta *rta, size_t i, const bool *above, bool busy, int64_t w, struct sum *s);

static inline bool same_cpu(const struct task *a, const struct task *b)
{
	return a->cpu == b->cpu;
}

static inline bool best_effort(const struct task *t)
{
	return t->priority == FM_RTA_BEST_EFFORT;
}

/* The sign of sum(num/den) - whole, exactly. den: 1 to 2^126. */
struct fraction {
	unsigned __int128 num, den;
};
int fraction_sum_sign(struct fraction *f, size_t n, __int128 whole);

/* Tests of global EDF, on a set in which no task needs more than its period, and U <= m. scratch:
 * room for 2 * n + 2 fractions. */
struct gedf {
	const struct fm_gedf_task *task;
	size_t n;
	int64_t m;
	struct fraction *scratch;
	int64_t *slack; /* n */
	int64_t *more;  /* n */
};
int gedf_rta(const struct gedf *g, bool *passes);
int gedf_bar(const struct gedf *g, bool *passes);
