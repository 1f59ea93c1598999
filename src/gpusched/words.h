/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of a set of tasks, in memory that processors and, with some engines, devices share.
 * core.h says which side writes which word, and in what order.
 */
#pragma once
#include "keys.h"

#ifndef FM_GS_BACKLOG
#define FM_GS_BACKLOG 64 /* jobs of a task that are released and not complete, at most */
#define FM_GS_BITS    4  /* response times in buckets of 2^-4 of their length */
#define FM_GS_BUCKETS ((64 - FM_GS_BITS + 1) << FM_GS_BITS)
#endif

/* The word `park': parked because somebody has stopped the set, be it the scheduler or the program.
 * Other values but 0 park it as well, and are no stop. */
#define FM_GS_STOP_PARK 1u

struct fm_gs_stats {
	uint64_t released, done, missed;
	uint64_t missed_stopped; /* of those missed: the deadline has passed in a stop (core.h) */
	uint64_t dropped;        /* releases beyond FM_GS_BACKLOG, and of a task that is off */
	uint64_t overruns;       /* jobs longer than the task's wcet */
	uint64_t spare; /* jobs that stood in the stream in advance, and ran without a release */
	uint64_t device_ns;
	uint64_t response_max;
	uint32_t response[FM_GS_BUCKETS];
};

struct fm_gs_task {
	/* Of all; each is written by one side. */
	uint64_t rung;   /* jobs asked for: added to, by the host or by code of the device */
	uint64_t queued; /* chunks in the stream */
	uint64_t ended;  /* chunks that have ended */
	uint64_t off;    /* not 0: nothing of it runs any more */
	uint64_t gate;   /* by the decider: chunks that may run */
	uint64_t done;   /* by the decider: jobs that are complete */

	/* Of the set's making. */
	uint64_t *word;                         /* another one that any code adds to; NULL: none */
	uint64_t period, deadline, phase, wcet; /* ns; 0: none */
	uint32_t chunks, weight, first_after, n_after;
	int32_t priority;

	/* The decider's. */
	uint32_t chunk;      /* of the first job: how many have ended */
	uint32_t is_off;     /* as it was at this decision */
	uint64_t heard_rung; /* likewise */
	uint64_t in_stream, seen_ended, seen_rung, seen_word, seen_after;
	uint64_t accepted;  /* jobs released; those from `done` on wait, or run */
	uint64_t next;      /* release by period; FM_GS_NEVER: none */
	uint64_t opened_at; /* the last gate */
	uint64_t used, longest, vtime;
	/* A bit for each place in `release`: the deadline of the job there has passed in a stop
	 * that is over. Only for jobs that are not complete. */
	uint64_t late;
	uint64_t release[FM_GS_BACKLOG];
	struct fm_gs_stats stats;
};

struct fm_gs {
	/* Of all. */
	uint64_t bell, turn, park, drain;
	uint64_t leave;   /* not 0: what stands in streams runs, and nothing resides (core.h) */
	uint64_t readers; /* how many wait for the turn: a resident lets go of it */
	uint64_t decided; /* by the decider: the bell that it has heard */
	uint64_t pending; /* likewise: jobs that are released and not complete */
	uint64_t wake;    /* likewise: when a job is released by period; FM_GS_NEVER */

	uint32_t n, slots;
	uint64_t gap; /* from a gate's opening to the chunk's begin: not device time of the task */
	enum fm_gs_policy policy;

	/* The decider's. */
	uint32_t running;
	uint64_t vtime; /* least of the tasks that have jobs; never falls */
	uint64_t decisions, decision_ns, decision_max, opened;
	uint64_t drained;   /* not 0: a decision has heard of `drain' */
	uint64_t stopped;   /* not 0: the last decision was one of a stop, */
	uint64_t stop_from; /* and the first of that stop was then */

	uint32_t *after; /* [first_after, +n_after) of each task */
	struct fm_gs_task *task;
};
