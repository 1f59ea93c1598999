// SPDX-License-Identifier: Apache-2.0
/*
 * Admission: does a set keep every deadline, whatever the phases are? Sufficient tests for EDF by
 * density, with charges for what the ideal scheduler does not have:
 *
 *   - before each chunk a decision: C + chunks * decision. In virtual time a decision is there at
 *     once, and what it opens begins that much later. Otherwise one about something else may be
 *     under way when a chunk ends, and is waited for: C + 2 * chunks * decision;
 *   - a chunk that runs is not stopped, so a job may wait for one of a later deadline, and for the
 *     decision that has just been made: B, of the longest such chunk.
 *
 * On one slot, for each deadline D: the densities up to it, and B / D, are at most 1. (Baker 1991,
 * "Stack-based scheduling of realtime processes".)
 *
 * On m slots a job may wait for such a chunk more than once, namely after each arrival of a more
 * urgent one, which takes its slot when its chunk ends while a later job's chunk still runs
 * elsewhere. It then waits for B, while all slots are taken, so the arrival counts as m B of work
 * more. So each job is charged m B, which covers its own waiting, too; and the densities' sum is at
 * most m - (m - 1) of the largest. (Goossens, Funk and Baruah 2003, with densities for
 * utilisations.)
 *
 * Densities are rounded up, to 2^-32.
 */
#include "base/util.h"
#include "task.h"
#include <errno.h>

#define ONE (UINT64_C(1) << 32)

/* As parts of ONE; a thousand of them do not overflow. */
static uint64_t density(unsigned __int128 cost, uint64_t time)
{
	unsigned __int128 parts = cost * ONE / time + 1; /* cost: less than 2^70 */

	return parts > 1024 * ONE ? 1024 * ONE : (uint64_t)parts;
}

/* What its chunks and their decisions take. */
static uint64_t cost_of(const struct fm_gpu_set *s, const struct fm_gs_task *t)
{
	uint64_t decisions = (s->host.is_virtual ? 1 : 2) * (uint64_t)t->chunks;

	return fm_add_sat(t->wcet, decisions * s->decision); /* each below 2^62, or refused */
}

static uint64_t chunk_of(const struct fm_gs_task *t)
{
	return t->wcet / t->chunks + (t->wcet % t->chunks != 0);
}

/* The longest that a job with that deadline waits for one with a later one; a task without a
 * deadline is later than all. Two decisions: the one before that chunk, and the one after it. */
static uint64_t blocking(const struct fm_gpu_set *s, uint64_t deadline)
{
	const struct fm_gs *g = &s->host.g;
	uint64_t most = 0;

	for (uint32_t i = 0; i < g->n; i++)
		if (!g->task[i].deadline || g->task[i].deadline > deadline)
			most = FM_MAX(most, chunk_of(&g->task[i]) + 2 * s->decision);
	return most;
}

static bool keeps_alone(const struct fm_gpu_set *s, uint32_t task)
{
	const struct fm_gs *g = &s->host.g;
	uint64_t deadline = g->task[task].deadline, sum;

	sum = density(blocking(s, deadline), deadline);
	for (uint32_t i = 0; i < g->n; i++)
		if (g->task[i].deadline && g->task[i].deadline <= deadline)
			sum += density(cost_of(s, &g->task[i]), g->task[i].deadline);
	return sum <= ONE;
}

/* Of the whole set; `largest` is the task to tell of. */
static bool keep_together(const struct fm_gpu_set *s, uint32_t *largest)
{
	const struct fm_gs *g = &s->host.g;
	uint64_t sum = 0, most = 0;

	for (uint32_t i = 0; i < g->n; i++) {
		const struct fm_gs_task *t = &g->task[i];
		uint64_t d;

		if (!t->deadline)
			continue;
		d = density(cost_of(s, t) + (unsigned __int128)g->slots * blocking(s, t->deadline),
			t->deadline);
		sum += d;
		if (d > most)
			*largest = i;
		most = FM_MAX(most, d);
	}
	return most <= ONE && sum + (g->slots - 1) * most <= g->slots * ONE;
}

/* What has a deadline must come with a least distance, and all must be bounded. */
static int check_known(struct fm_gpu_set *s)
{
	const struct fm_gs *g = &s->host.g;

	if (g->policy != FM_GS_EDF)
		return fm_gpu_fail(s, -EOPNOTSUPP, "admission is for the policies edf and k-edf");
	for (uint32_t i = 0; i < g->n; i++) {
		const struct fm_gs_task *t = &g->task[i];

		if (!t->wcet)
			return fm_gpu_fail(s, -EINVAL,
				"task %u \"%s\": admission needs its wcet_ns", i, s->work[i].name);
		if (t->deadline && (!t->period || t->n_after || s->work[i].has_word))
			return fm_gpu_fail(s, -EINVAL,
				"task %u \"%s\" has a deadline: admission needs releases by period "
				"alone",
				i, s->work[i].name);
	}
	return 0;
}

int fm_gpu_admit(struct fm_gpu_set *s)
{
	const struct fm_gs *g = &s->host.g;
	uint32_t task = 0;
	int rc = check_known(s);

	if (rc)
		return rc;
	if (g->slots == 1) {
		while (task < g->n && (!g->task[task].deadline || keeps_alone(s, task)))
			task++;
		if (task == g->n)
			return 0;
	} else if (keep_together(s, &task)) {
		return 0;
	}
	return fm_gpu_fail(s, -EDQUOT,
		"task %u \"%s\" may miss its deadline: shorter chunks, fewer tasks, or more slots",
		task, s->work[task].name);
}
