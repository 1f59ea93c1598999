/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that was used although nothing named it, while it ran from the host: what follows from
 * that. First what the program's calls name comes in whole, whatever was foretold of its parts; if
 * that does not help, all of its memory. After so many turns what its calls name is believed again.
 *
 * It is seen by time: commands that took longer than they are known to take; or by a digest: memory
 * that has changed. Pure: a turn at a time, no clock.
 *
 * Threads: one at a time.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define FM_MISS_BYTES ((uint64_t)32 << 20) /* read over the link, they are noticed by time */
#define FM_MISS_RATE  (UINT64_C(51) * 1000 * 1000 * 1000)         /* of that link, bytes a second */
#define FM_MISS_LATE  (FM_MISS_BYTES * 1000000000 / FM_MISS_RATE) /* ns */
#define FM_MISS_TURNS 64u

/* Of one turn. */
struct fm_miss_turn {
	uint64_t late;     /* ns in which its commands ran beyond their estimates */
	uint64_t mapped;   /* bytes that ran from the host, */
	uint64_t foretold; /* and of these what was known to be in use */
	unsigned writes;   /* pieces of memory that have changed though nothing named them */
};

enum fm_miss_act {
	FM_MISS_NOTHING,
	FM_MISS_NAMED, /* what is named comes in whole */
	FM_MISS_ALL,   /* all counts as used, from now on */
	FM_MISS_TRUST  /* what is named is believed again */
};

struct fm_miss {
	enum fm_miss_act is; /* NOTHING: it is believed; NAMED; ALL */
	unsigned left;       /* turns until it is believed */
	uint64_t missed;     /* so often */
	bool by_write;       /* the last one was seen by a digest */
};

/* A turn is over. What is to be done. */
enum fm_miss_act fm_miss_turn(struct fm_miss *m, const struct fm_miss_turn *t);
