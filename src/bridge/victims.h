/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose memory goes out when somebody needs room on a device: a pure function. Groups go as a
 * whole. Those that have been idle longest go first, then those whose turn was over first, and only
 * then one that runs, if it may be asked at all.
 *
 * Owns: nothing.
 * Locks: none.
 * Threads: any.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum victim_state { VICTIM_IDLE, VICTIM_STOPPED, VICTIM_RUNS };

struct victim {
	enum victim_state state;
	uint64_t since; /* it is idle, or its turn is over; or it began to run */
	uint64_t bytes; /* that leave the device with it */
	uint64_t keeps; /* it came in lately, and is to keep its memory until then */
	bool goes;      /* the answer */
	void *group;
};

/* What there may be on a device at a time. Others stay. */
#define VICTIMS_MOST 256

/* Chooses among them, so that `want' bytes become free, and no group goes without which that would
 * hold as well. If all of them have less than that, all go; but if that is less than `least', none
 * does. Then *when is the time at which another answer is to be expected because a group has kept
 * its memory for long enough; FM_NEVER: it is not. Returns the bytes that become free. */
uint64_t victims_choose(
	struct victim *v, unsigned n, uint64_t want, uint64_t least, uint64_t now, uint64_t *when);
