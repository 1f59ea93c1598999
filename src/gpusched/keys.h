/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order in which the tasks of a set run: the ready task with the least key, and of equal keys
 * the one with the least number. Integers, no memory, no calls: the same text is compiled for
 * processors and for devices.
 *
 * What src/policy decides about groups, by events and in heaps, is here a key that is computed at
 * each decision, since a lane of a warp computes one as fast as it reads one. tests/unit/gpusched
 * compares the choices of both.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define FM_GS_NEVER  UINT64_MAX
#define FM_GS_WEIGHT 1024 /* of a task that has none of its own */

/* The numbers stand in the memory that is shared with devices. */
enum fm_gs_policy {
	FM_GS_FIXED_PRIORITY,
	FM_GS_EDF, /* k-edf, too: on how many slots, is not a matter of keys */
	FM_GS_LEAST_LAXITY,
	FM_GS_FIFO,
	FM_GS_FAIR,
	FM_GS_POLICIES
};

/* The first job of a task that is not yet complete. */
struct fm_gs_job {
	uint64_t release;
	uint64_t deadline; /* absolute; FM_GS_NEVER: none */
	uint64_t need;     /* device time that it takes as a whole, as far as is known */
	uint64_t used;     /* of that, until now */
	uint64_t vtime;    /* of the task: its device time so far, less for a larger weight */
	int32_t priority;  /* of the task: larger is more urgent */
};

struct fm_gs_key {
	uint64_t first, second;
};

static inline uint64_t fm_gs_add(uint64_t a, uint64_t b)
{
	return a + b < a ? FM_GS_NEVER : a + b;
}

static inline uint64_t fm_gs_sub(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* A job that has outlived what it was taken to need is taken to need as much again as it has used
 * (policy/job.h). */
static inline uint64_t fm_gs_latest_start(const struct fm_gs_job *j)
{
	uint64_t left = j->used < j->need ? j->need - j->used : j->used;

	return j->deadline == FM_GS_NEVER ? FM_GS_NEVER : fm_gs_sub(j->deadline, left);
}

/* A larger priority gives a smaller number, above `base`. */
static inline uint64_t fm_gs_rank(const struct fm_gs_job *j, uint64_t base)
{
	return base + (uint64_t)((int64_t)INT32_MAX - j->priority);
}

/* A job whose laxity is used up runs first, the least first; else the highest priority, and among
 * equals the least laxity (policy/least_laxity.c). */
static inline struct fm_gs_key fm_gs_laxity_key(const struct fm_gs_job *j, uint64_t now)
{
	struct fm_gs_key key = {0, fm_gs_latest_start(j)};

	if (key.second > now)
		key.first = fm_gs_rank(j, 1);
	return key;
}

static inline struct fm_gs_key fm_gs_key(
	enum fm_gs_policy policy, const struct fm_gs_job *j, uint64_t now)
{
	struct fm_gs_key key = {0, 0};

	if (policy == FM_GS_FIXED_PRIORITY)
		key.second = fm_gs_rank(j, 0);
	else if (policy == FM_GS_EDF)
		key.second = j->deadline;
	else if (policy == FM_GS_LEAST_LAXITY)
		key = fm_gs_laxity_key(j, now);
	else if (policy == FM_GS_FIFO)
		key.second = j->release;
	else
		key.second = j->vtime;
	return key;
}

/* Does the task of number i, with key a, come before that of number k, with key b? */
static inline bool fm_gs_before(
	const struct fm_gs_key *a, uint32_t i, const struct fm_gs_key *b, uint32_t k)
{
	if (a->first != b->first)
		return a->first < b->first;
	return a->second != b->second ? a->second < b->second : i < k;
}

/* How far the virtual time of a task of that weight goes in ns of device time. A weight is at most
 * 2^20, and a single stretch is cut at 2^53 ns, a hundred days. */
static inline uint64_t fm_gs_virtual(uint64_t ns, uint32_t weight)
{
	if (weight == FM_GS_WEIGHT) /* devices divide slowly */
		return ns >> 53 ? UINT64_C(1) << 53 : ns;
	return (ns >> 53 ? UINT64_C(1) << 53 : ns) * FM_GS_WEIGHT / weight;
}
