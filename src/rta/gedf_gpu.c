/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks of a device that order themselves by EDF, in chunks that are not stopped. Charged are
 * decisions for each chunk, and the chunk of a task with a later deadline for which a job may have
 * to wait: src/gpusched/admit.c says why, and does the same for one set that is to start.
 */
#include "internal.h"
#include <errno.h>
#include <stdlib.h>

/* What the tests need to know of a task. */
struct charged {
	int64_t cost;     /* of a job, with all that is charged */
	int64_t deadline; /* 0: none */
	int64_t chunk;    /* the longest */
	int64_t blocking;
	size_t blocker;
	bool meets;
};

static int add_times(int64_t *sum, int64_t count, int64_t each)
{
	int64_t more;

	if (__builtin_mul_overflow(count, each, &more) || __builtin_add_overflow(*sum, more, sum))
		return -EOVERFLOW;
	return 0;
}

static struct fraction part(const struct charged *t, uint64_t times)
{
	return (struct fraction){
		(unsigned __int128)t->cost * times, (unsigned __int128)t->deadline};
}

/* The longest chunk of a task with a later deadline, or none, and `each` for the decisions at
 * either end of it. */
static int find_blocking(struct charged *t, size_t n, size_t k, int64_t each)
{
	int64_t most = 0;

	t[k].blocker = FM_RTA_NONE;
	for (size_t i = 0; i < n; i++) {
		if (t[i].chunk <= most || (t[i].deadline && t[i].deadline <= t[k].deadline))
			continue;
		most = t[i].chunk;
		t[k].blocker = i;
	}
	t[k].blocking = most;
	return most ? add_times(&t[k].blocking, 1, each) : 0;
}

/* For each deadline: the densities of the tasks up to it and B / D, at most 1. */
static bool keeps_alone(const struct charged *t, size_t n, size_t k, struct fraction *f)
{
	size_t terms = 1;

	f[0] = (struct fraction){
		(unsigned __int128)t[k].blocking, (unsigned __int128)t[k].deadline};
	for (size_t i = 0; i < n; i++)
		if (t[i].deadline && t[i].deadline <= t[k].deadline)
			f[terms++] = part(&t[i], 1);
	return fraction_sum_sign(f, terms, 1) <= 0;
}

/* Densities, and (m - 1) of the largest, are at most m. Of the tests of gedf.c it is this one
 * alone: the others take for granted that a task is on one slot at a time, but a charge for a
 * chunk that all wait for is time of all slots at once. */
static bool keep_together(const struct charged *t, size_t n, uint32_t slots, struct fraction *f)
{
	size_t most = n, terms = 0;

	for (size_t k = 0; k < n; k++) {
		if (!t[k].deadline)
			continue;
		if (t[k].cost > t[k].deadline)
			return false;
		f[terms++] = part(&t[k], 1);
		if (most == n || (unsigned __int128)t[k].cost * t[most].deadline >
					 (unsigned __int128)t[most].cost * t[k].deadline)
			most = k;
	}
	if (most < n)
		f[terms++] = part(&t[most], slots - 1);
	return fraction_sum_sign(f, terms, slots) <= 0;
}

/* `each`: a decision at either end of a chunk that is waited for, together. */
static int run_test(struct charged *t, size_t n, uint32_t slots, int64_t each)
{
	struct fraction *f = calloc(n + 1, sizeof(*f));
	int rc = f ? 0 : -ENOMEM;
	bool together;

	for (size_t k = 0; !rc && k < n; k++) {
		rc = t[k].deadline ? find_blocking(t, n, k, each) : 0;
		if (!rc && slots > 1)
			rc = add_times(&t[k].cost, slots, t[k].blocking);
	}
	together = !rc && slots > 1 && keep_together(t, n, slots, f);
	for (size_t k = 0; !rc && k < n; k++)
		t[k].meets = !t[k].deadline || (slots > 1 ? together : keeps_alone(t, n, k, f));
	free(f);
	return rc;
}

static struct charged *new_charged(size_t n)
{
	struct charged *t = calloc(n + 1, sizeof(*t));

	for (size_t k = 0; t && k < n; k++)
		t[k].blocker = FM_RTA_NONE;
	return t;
}

static bool all_meet(const struct charged *t, size_t n)
{
	size_t k = 0;

	while (k < n && t[k].meets)
		k++;
	return k == n;
}

/* --- chunks of one length, a decision before each --- */

static int64_t chunks_of(int64_t time, int64_t chunk)
{
	return time / chunk + (time % chunk != 0);
}

static int charge_chunks(const struct fm_gedf_task *from, struct charged *to, size_t n,
	const struct fm_gedf_gpu *gpu)
{
	int rc = 0;

	for (size_t k = 0; !rc && k < n; k++) {
		if (from[k].period <= 0 || from[k].cpu_time < 0)
			return -EINVAL;
		to[k].deadline = from[k].period;
		to[k].cost = from[k].cpu_time;
		to[k].chunk = from[k].cpu_time < gpu->chunk ? from[k].cpu_time : gpu->chunk;
		rc = add_times(&to[k].cost, chunks_of(to[k].cost, gpu->chunk), gpu->decision);
	}
	return rc;
}

int fm_gedf_gpu_schedulable(const struct fm_gedf_task *task, size_t tasks,
	const struct fm_gedf_gpu *gpu, bool *schedulable)
{
	struct charged *own;
	int64_t each = 0;
	int rc;

	if (!gpu || !gpu->slots || gpu->slots > FM_GEDF_CPUS || gpu->chunk <= 0 ||
		gpu->decision < 0 || tasks >= SIZE_MAX / sizeof(struct charged) / 4)
		return -EINVAL;
	*schedulable = false;
	own = new_charged(tasks);
	rc = own ? charge_chunks(task, own, tasks, gpu) : -ENOMEM;
	if (!rc)
		rc = add_times(&each, 2, gpu->decision);
	if (!rc)
		rc = run_test(own, tasks, gpu->slots, each);
	if (!rc)
		*schedulable = all_meet(own, tasks);
	free(own);
	return rc;
}

/* --- a set, with what was measured --- */

static int charge_one(const struct fm_gedf_gpu_task *from, struct charged *to, int64_t decision,
	int64_t start, struct fm_gedf_gpu_charge *charge)
{
	uint32_t chunks = from->chunks ? from->chunks : 1;
	int rc;

	if (from->time < 0 || from->period < 0 || from->deadline < 0 ||
		from->deadline > from->period)
		return -EINVAL;
	*charge = (struct fm_gedf_gpu_charge){
		.decisions = 2 * (int64_t)chunks, .overhead = start, .blocker = FM_RTA_NONE};
	rc = add_times(&charge->overhead, charge->decisions - 1, decision);
	to->deadline = from->deadline;
	to->chunk = chunks_of(from->time, chunks);
	to->cost = from->time;
	return rc ? rc : add_times(&to->cost, 1, charge->overhead);
}

static int64_t parts(unsigned __int128 num, int64_t den)
{
	unsigned __int128 v = (num * (unsigned __int128)FM_RTA_ONE + (unsigned __int128)den - 1) /
			      (unsigned __int128)den;

	return v > INT64_MAX ? INT64_MAX : (int64_t)v;
}

/* For people; whether it is at most FM_RTA_ONE says the exact test. */
static int64_t load_of(const struct charged *t, size_t n, size_t k, uint32_t slots)
{
	int64_t sum;

	if (slots > 1)
		return parts((unsigned __int128)t[k].cost, t[k].deadline);
	sum = parts((unsigned __int128)t[k].blocking, t[k].deadline);
	for (size_t i = 0; i < n; i++)
		if (t[i].deadline && t[i].deadline <= t[k].deadline &&
			__builtin_add_overflow(
				sum, parts((unsigned __int128)t[i].cost, t[i].deadline), &sum))
			return INT64_MAX;
	return sum;
}

static void tell(const struct charged *t, size_t n, uint32_t slots, struct fm_gedf_gpu_charge *out)
{
	for (size_t k = 0; k < n; k++) {
		out[k].blocker = t[k].blocker;
		out[k].blocking = t[k].blocking;
		out[k].cost = t[k].cost;
		out[k].meets = t[k].meets;
		out[k].load = t[k].deadline ? load_of(t, n, k, slots) : 0;
	}
}

int fm_gedf_gpu_analyze(const struct fm_gedf_gpu_task *task, size_t tasks,
	const struct fm_gedf_gpu_costs *costs, struct fm_gedf_gpu_charge *charge, bool *schedulable)
{
	int64_t start, each;
	struct charged *own;
	int rc;

	*schedulable = false;
	if (!costs->slots || costs->slots > FM_GEDF_CPUS || costs->decision < 0 ||
		costs->start < 0 || tasks >= SIZE_MAX / sizeof(struct charged) / 4)
		return -EINVAL;
	start = each = costs->start > costs->decision ? costs->start : costs->decision;
	own = new_charged(tasks);
	rc = own ? add_times(&each, 1, costs->decision) : -ENOMEM;
	for (size_t k = 0; !rc && k < tasks; k++)
		rc = charge_one(&task[k], &own[k], costs->decision, start, &charge[k]);
	if (!rc)
		rc = run_test(own, tasks, costs->slots, each);
	if (!rc) {
		tell(own, tasks, costs->slots, charge);
		*schedulable = all_meet(own, tasks);
	}
	free(own);
	return rc;
}
