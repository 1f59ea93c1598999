/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of tasks that decide on a device (docs/gpu-sched.md): the kernel, which is one warp, and
 * what it shares with the host. gpusched_warp.h has what it does, and gpusched.cu how devices do
 * it, around the text that processors run, too (gpusched/core.h); make-gpusched makes
 * gpusched_text.c of it.
 *
 *	fermata_set(struct fm_gates *set, struct fm_gs_task *to, uint64_t jobs, uint64_t chunks,
 *		uint32_t task, uint32_t what)
 *
 * It brings news of a task, and decides: so many jobs are released, so many chunks are in its
 * stream, and `what` else. The last that a task's stream does of a chunk is one that says
 * FM_GATES_ENDED. With `to`, which is memory of the host, it copies the words of all tasks there,
 * and behind them those of the set, as they are between two decisions.
 *
 * With FM_GATES_RESIDE it stays, and decides whenever there is something to decide, until
 *   - the set is parked, or is to be left (FM_GATES_PARK, FM_GATES_LEAVE), or
 *   - the host has written 0 into `until`, or
 *   - nothing is pending, nothing is released within `jobs` ns, and `chunks` is 0, which says that
 *     no task has a word, or
 *   - the time in `until` has passed: the host may stand in a call of the driver's that waits for
 *     the device. Then the set is left, too.
 *
 * With FM_GATES_CLOCK it tells the device's clock, and, if `chunks` is not 0, the set's clock is
 * `jobs` later from then on.
 *
 * Owns: nothing.
 * Locks: none; core.h says what guards the words.
 * Threads: any; one resident at a time.
 */
#pragma once
#include "gpusched/words.h"

#define FM_GATES_KERNEL "fermata_set"
#define FM_GATES_LANES  32
#define FM_GATES_TASKS  32   /* of a set, at most */
#define FM_GATES_NOTES  1024 /* a power of two */

/* What has become of a task with a decision; the numbers are those of enum fm_gpu_seat_event. */
enum fm_gates_event {
	FM_GATES_RELEASED,
	FM_GATES_BEGAN,
	FM_GATES_STANDS,
	FM_GATES_COMPLETED,
	FM_GATES_MISSED
};

struct fm_gates_note {
	uint64_t number; /* 1 + how many were before; written last */
	uint64_t at;     /* the set's clock */
	uint64_t what;   /* event << 32 | task */
	uint64_t b, c;
};

/* In memory of the host. Written by the decider, at each decision, after the gates are open. A
 * number that is seen here was true once. `decided` is written last, and releases: nobody reads it,
 * but a reader that sees anything of one decision sees all of those before. */
struct fm_gates_told {
	uint64_t done[FM_GATES_TASKS], dropped[FM_GATES_TASKS];
	/* Releases by the host that it has heard << 16 | jobs that are not complete. */
	uint64_t heard[FM_GATES_TASKS];
	uint64_t accepted[FM_GATES_TASKS]; /* jobs that were released, and not dropped */
	uint64_t pending, opened, wake, decided;
	uint64_t left;  /* by residents: how many have gone */
	uint64_t clock; /* by FM_GATES_CLOCK: the device's */
	uint64_t until; /* by the host */
	/* By residents: how often they have left the set, as `until` had passed. The host tells
	 * FM_GATES_STAY then. */
	uint64_t expired;
	uint64_t drained; /* by the decider: it has heard of FM_GATES_DRAIN */
	struct fm_gates_note note[FM_GATES_NOTES];
};

static inline uint64_t fm_gates_heard(uint64_t rung, uint64_t waits)
{
	return rung << 16 | waits;
}

/* A task as it was at the last decision. */
struct fm_gates_seen {
	uint64_t released, done, missed, missed_stopped, first;
	uint32_t runs;
};

/* In memory of the device; task and after point there, told to the host. */
struct fm_gates {
	struct fm_gs g;
	struct fm_gates_told *told;
	uint64_t clock; /* from the device's clock to that of the set's times */
	uint64_t notes; /* how many were written */
	uint32_t noted; /* are they to be? 1: from the next decision on */
	/* A resident's. */
	uint32_t looks, has_words, lent;
	uint64_t idle;
	struct fm_gates_seen seen[FM_GATES_TASKS];
};

enum {
	FM_GATES_KICK = 1,  /* decide; without it others are told first */
	FM_GATES_ENDED = 2, /* a chunk of the task */
	FM_GATES_OFF = 4,   /* the task, for good */
	FM_GATES_PARK = 8,
	FM_GATES_GO_ON = 16,
	FM_GATES_DRAIN = 32,
	FM_GATES_ACCEPT = 64, /* again, after a drain */
	FM_GATES_LEAVE = 128,
	FM_GATES_STAY = 256, /* again, after a leave */
	FM_GATES_RESIDE = 512,
	FM_GATES_CLOCK = 1024,
	FM_GATES_NOTE = 2048,  /* for traces, from now on */
	FM_GATES_QUIET = 4096, /* not any more */
	FM_GATES_ASIDE = 8192  /* with FM_GATES_PARK, of graphs: it is no stop */
};

extern const char fm_gates_text[]; /* PTX */
