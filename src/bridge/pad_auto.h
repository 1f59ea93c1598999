/* SPDX-License-Identifier: Apache-2.0 */
/*
 * On how many multiprocessors a group pads, by what that costs the urgent group beside it: a pure
 * function of the urgent group's jobs. Each 16th of them runs alone; its time, by kinds of jobs, is
 * what the others are compared with. While they take less than half of the target longer, the
 * number grows by eight; when they take longer than the target it falls by eight, and that number
 * is not tried again for a while.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define PAD_STEP  8u
#define PAD_MOST  64u
#define PAD_EVERY 16u /* each such job runs alone */
#define PAD_KINDS 8u

struct pad_auto {
	unsigned k;      /* the number now */
	unsigned target; /* parts of a million: jobs take so much longer at most */
	struct {
		uint64_t kind, ns; /* of a job that runs alone, on average; 0: not known */
	} plain[PAD_KINDS];
	unsigned next;      /* of plain[], to be replaced */
	unsigned jobs;      /* since the last one that ran alone */
	uint64_t noise;     /* by how much jobs that run alone differ, in parts of a million */
	uint64_t sum;       /* of padded jobs with k: how long they took compared, */
	unsigned n;         /* and how many they were */
	unsigned ceiling;   /* this number was too much; 0: none was */
	unsigned patience;  /* it is not tried before so many more jobs, */
	unsigned forbidden; /* and the last time it was so many */
	uint64_t padded_ns,
		alone_ns; /* of the last decision: a job's time, and what it would take */
};

void pad_auto_init(struct pad_auto *a, unsigned percent);
/* Is the urgent group's next job to run alone? */
bool pad_auto_alone(const struct pad_auto *a);
/* A job of this kind took so long, beside a group that padded, or alone. True: k has changed. */
bool pad_auto_job(struct pad_auto *a, uint64_t kind, uint64_t ns, bool padded);
