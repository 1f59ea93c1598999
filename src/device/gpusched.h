/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of tasks that decide on a device (docs/gpu-sched.md): the kernel, which is one warp, and
 * what it shares with the host. gpusched.cu has it, around the text that processors run, too
 * (gpusched/core.h); make-gpusched makes gpusched_text.c of it.
 *
 *	fermata_set(struct fm_gates *set, struct fm_gs_task *to, uint64_t jobs, uint64_t chunks,
 *		uint32_t task, uint32_t what)
 *
 * It brings news of a task, and decides: so many jobs are released, so many chunks are in its
 * stream, and `what` else. The last that a task's stream does of a chunk is one that says
 * FM_GATES_ENDED. With `to`, which is memory of the host, it copies the words of all tasks there,
 * as they are between two decisions.
 *
 * Owns: nothing.
 * Locks: none; core.h says what guards the words.
 * Threads: any.
 */
#pragma once
#include "gpusched/words.h"

#define FM_GATES_KERNEL "fermata_set"
#define FM_GATES_LANES  32
#define FM_GATES_TASKS  32 /* of a set, at most */

/* In memory of the host. Written by the decider, at each decision, after the gates are open; a
 * number that is seen here was true once, and `decided` is written last. */
struct fm_gates_told {
	uint64_t done[FM_GATES_TASKS], dropped[FM_GATES_TASKS];
	uint64_t pending, opened, decided;
};

/* In memory of the device; task and after point there, told to the host. */
struct fm_gates {
	struct fm_gs g;
	struct fm_gates_told *told;
};

enum {
	FM_GATES_KICK = 1,  /* decide; without it others are told first */
	FM_GATES_ENDED = 2, /* a chunk of the task */
	FM_GATES_OFF = 4,   /* the task, for good */
	FM_GATES_PARK = 8,
	FM_GATES_GO_ON = 16,
	FM_GATES_DRAIN = 32,
	FM_GATES_ACCEPT = 64 /* again, after a drain */
};

extern const char fm_gates_text[]; /* PTX */
