/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Aging, against starvation: a process that waits grows more urgent with time (Silberschatz, Galvin
 * and Gagne, Operating System Concepts, on priority scheduling). A ready entity waits from its
 * arrival or from its last turn on. When it has waited for its `delay` it has a turn of one slice,
 * whatever the policy's own order says.
 *
 * With delay = key x step, key 0 the most urgent, this is aging by one key a step. `lead` is then
 * the delay of the entity that the policy would run. A waiting entity is due when its age has made
 * up the difference. The order of all waiting entities stays the same while they age, so a heap
 * holds it: O(log n) for an event.
 *
 * Turns by age are at least a slice apart, so they have at most half of the device. An aged turn
 * ends early when an entity comes that is more urgent than age had made the turn's owner. The owner
 * keeps its age and the rest of its turn.
 */
#pragma once
#include "base/heap.h"
#include "policy.h"

struct fm_aging_ent {
	struct fm_heap_node node; /* in waiting; the key is when it is due with a lead of 0 */
	uint64_t since, delay;
	uint64_t used; /* of a turn */
};

struct fm_aging {
	struct fm_heap waiting; /* the ready entities, without the one that runs */
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
/* Sets another delay for a ready entity, and keeps its age. */
void fm_aging_move(struct fm_aging *a, struct fm_aging_ent *e, uint64_t delay);

/* The first copies all but the entities in it, the second copies one of these. 0 or -ENOMEM. */
int fm_aging_copy(struct fm_aging *to, const struct fm_aging *a);
void fm_aging_copy_ent(struct fm_aging *to, struct fm_aging_ent *twin, const struct fm_aging *a,
	const struct fm_aging_ent *e);

/* The entity to run, given the one that the policy would run by its own order (NULL: none). *next
 * is lowered to the time at which that may change. */
struct fm_aging_ent *fm_aging_pick(
	struct fm_aging *a, struct fm_aging_ent *own, uint64_t lead, uint64_t now, uint64_t *next);

/* Would an entity of that lead end the present turn by age, if there is one, if it came now? */
bool fm_aging_yields(const struct fm_aging *a, uint64_t lead);
