/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the room: table.c admits, job.c watches and enforces. */
#pragma once
#include "admit.h"
#include "base/clock.h"
#include "base/heap.h"

struct fm_atask {
	struct fm_admit_spec spec;
	uint32_t slot;
	int64_t order;         /* of declared priorities */
	int64_t place;         /* as the host was told: order, or a GPU priority */
	int64_t bound, budget; /* response time; device time in a period */
	struct fm_heap_node due;
	enum fm_astate state;
	bool admitted; /* and not being asked about */
	size_t asked;  /* among those with which it came */
	bool there;    /* its group is */

	/* Its group, as it was told. */
	bool busy;
	bool resting; /* idle since idle_at, and the stretch may go on */
	bool declared;
	uint64_t idle_at;

	/* The budget. */
	uint64_t period_at; /* FM_NEVER: none has begun */
	uint64_t used_at;   /* device time at its begin, or of its group when that came */
	uint64_t used_gone; /* in this period, of groups that left */
	bool over;

	/* The job. */
	bool job, reported, early;
	uint64_t began;
	size_t stretches; /* that have ended */
	uint64_t overran_at;
	bool suspended;
	uint64_t suspended_to; /* when that ended last */

	uint64_t jobs, overruns, violations, misses;
	struct fm_hist *response;
	char why[FM_ADMIT_WHY], why_own[FM_ADMIT_WHY];
};

struct fm_admit {
	struct fm_admit_host host;
	void *ctx;
	struct fm_admit_config config;
	struct fm_atask **task; /* by order, the most urgent first */
	size_t n, cap;
	struct fm_heap due;
	uint64_t slot[FM_ADMIT_TASKS / 64]; /* in use */
	uint64_t version;                   /* of the tasks and what their bounds hang on */
	int64_t epsilon;                    /* FM_RTA_UNSET: nobody knows */
	bool by_level;
	bool grows; /* bounds are of a set that has only grown since: none can fall */

	/* The last stop that took longer than epsilon. */
	char late_who[FM_ADMIT_NAME];
	uint32_t late_user;
	uint64_t late_ns, late_at;
};

/* job.c */
void atask_place(struct fm_admit *a, struct fm_atask *t, enum fm_astate state, uint64_t now);
