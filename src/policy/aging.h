/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Aging, against starvation: a process that waits grows more urgent with time (Silberschatz, Galvin
 * and Gagne, Operating System Concepts, on priority scheduling). A ready entity waits from its
 * arrival or from its last turn on. When it has waited for its `delay` it has a turn of one slice,
 * whatever the policy's own order says.
 *
 * With delay = key x step, key 0 the most urgent, that is aging by one key a step: `lead` is
 * then the delay of whom the policy would run, and one who waits is due when its age has made up
 * the difference. The order of all who wait stays the same while they age, so a heap holds it:
 * O(log n) for an event.
 *
 * Turns by age are at least a slice apart, so that they have half of the device at most. An aged
 * turn ends early when someone comes who is more urgent than age had made its owner; the owner
 * keeps its age and the rest of its turn.
 */
#pragma once
#include "base/heap.h"
#include "policy.h"

struct fm_aging_ent {
	struct fm_heap_node node; /* in waiting; the key is when it is due, with no lead */
	uint64_t since, delay;
	uint64_t used; /* of a turn */
};

struct fm_aging {
	struct fm_heap waiting; /* the ready, but for the one that runs */
	struct fm_aging_ent *on;
	bool aged; /* on has its turn by age */
	uint64_t began, ended;
	uint64_t slice;
	uint64_t step; /* 0: no aging; the functions below then do nothing */
};

int fm_aging_reserve(struct fm_aging *a, size_t n);
void fm_aging_fini(struct fm_aging *a);
void fm_aging_ready(struct fm_aging *a, struct fm_aging_ent *e, uint64_t delay, uint64_t now);
void fm_aging_idle(struct fm_aging *a, struct fm_aging_ent *e, uint64_t now);
void fm_aging_charge(struct fm_aging *a, struct fm_aging_ent *e, uint64_t ns);
/* Of a ready entity: another delay, the same age. */
void fm_aging_move(struct fm_aging *a, struct fm_aging_ent *e, uint64_t delay);

/* A copy of all but those who are in it, and then of each of those. 0 or -ENOMEM. */
int fm_aging_copy(struct fm_aging *to, const struct fm_aging *a);
void fm_aging_copy_ent(struct fm_aging *to, struct fm_aging_ent *twin, const struct fm_aging *a,
	const struct fm_aging_ent *e);

/* Whom to run, given whom the policy would run by its own order (NULL: nobody). *next is lowered to
 * the time at which that may change. */
struct fm_aging_ent *fm_aging_pick(
	struct fm_aging *a, struct fm_aging_ent *own, uint64_t lead, uint64_t now, uint64_t *next);

/* Would one of that lead who came now end the turn by age, if there is one? */
bool fm_aging_yields(const struct fm_aging *a, uint64_t lead);
