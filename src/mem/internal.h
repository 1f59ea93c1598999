/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this module share. */
#pragma once
#include "mem.h"

/* What the bytes of an extent count as. */
enum class { DIRTY, CLEAN, PINNED, HOST, COMING, GOING, EMPTY, CLASSES };

/* The extents of a group whose next use is in the same turn. Those of all groups that are in no
 * turn are together in the last span. */
struct span {
	uint64_t bytes[CLASSES]; /* DIRTY, CLEAN: only what may go out */
	uint32_t missing;        /* extents that are to come in, */
	uint64_t least;          /* and the smallest of them */
	bool planned;            /* room was looked for */
	/* Of its turn, as planned: bytes that come in before it, those that cannot, and when they
	 * are in. */
	uint64_t assigned, residue, takes, start;
};

struct cand {
	uint64_t key;
	unsigned id;
};

/* A heap: the least key first, of equal keys the least number. */
struct cands {
	struct cand *at;
	unsigned n;
};

struct member {
	unsigned lo, hi;   /* its turns in order[] */
	uint64_t resident; /* on the device */
	uint64_t guarded;  /* of that: what nobody else gets, for it is pinned or requested */
	uint64_t spare;    /* what may still go out, by its request */
	uint64_t out;      /* of its set: what is on the host, */
	uint64_t least;    /* and the smallest extent of that */
};

struct fm_mem_scratch {
	size_t turns, groups, extents, clients; /* allocated */
	struct span *span;
	unsigned *order; /* numbers of turns, by group */
	uint64_t *until; /* of order[]: device time of the group at its end */
	struct member *member;
	struct cand *cand;
	uint64_t *resident; /* of clients */
	unsigned *list;     /* in, out and drop */
	bool *told;         /* extents that go out, or whose copy is dropped */

	/* Of this plan. */
	const struct fm_mem_world *w;
	uint64_t occupied, going, guarded,
		outside;      /* outside: of the groups whose turn it is not */
	unsigned running;     /* groups */
	uint64_t room;        /* not promised to a turn yet */
	unsigned pool;        /* spans up to this number have room to give */
	struct cands victims; /* what is left of the last of them, */
	bool listed;          /* if it was listed */
	uint64_t host;        /* room left there */
};

/* plan.c: the number of the turn in which an extent is used next; of a group without turns,
 * turns + 1 for its set; all else, turns + 2. */
unsigned fm_mem_slot(const struct fm_mem_scratch *s, unsigned group, const struct fm_extent *e);

unsigned fm_mem_later(const struct fm_mem_world *w, unsigned k);

/* pick.c: which extents move: those that have to go out because the device has become smaller; and
 * then, in the order of turns, for turn k. *left: bytes that may still be told to move. */
void fm_mem_pick_begin(struct fm_mem_plan *p);
void fm_mem_pick(struct fm_mem_plan *p, unsigned k, uint64_t *left);

/* arrays.c: enough for this world, or -ENOMEM. */
int fm_mem_grow(struct fm_mem_plan *p, const struct fm_mem_world *w);
