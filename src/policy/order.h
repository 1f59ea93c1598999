/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the policies by priority have in common: the ready entities in order of key, 0 the most
 * urgent. Equals take turns of one slice. Aging is optional. O(log n) for an event and a decision.
 *
 * The heap breaks ties by order of insertion, which gives the round robin: an entity that has had
 * its turn is pushed anew.
 */
#pragma once
#include "aging.h"

struct fm_order {
	struct fm_heap ready; /* by key */
	struct fm_aging aging;
	size_t joined;
};

struct fm_order_ent {
	struct fm_heap_node node;
	struct fm_aging_ent age;
	struct fm_ent *ent;
	uint64_t used; /* of the current turn */
};

/* Why the chosen entity runs. HELD: none does, although one is ready. */
enum fm_order_why { FM_ORDER_EMPTY, FM_ORDER_HELD, FM_ORDER_FIRST, FM_ORDER_TURN, FM_ORDER_AGED };

/* For the table of settings, in the order in which fm_order_init() takes them. */
#define FM_ORDER_SLICE(who)                                                         \
	{                                                                           \
		"slice", "ms", "turn among " who, 100 * FM_US, 10 * FM_S, 5 * FM_MS \
	}
#define FM_ORDER_AGING(what)                                      \
	{                                                         \
		"aging", "ms", what "; 0: never", 0, 60 * FM_S, 0 \
	}

void fm_order_init(struct fm_order *o, const int64_t *params);
void fm_order_fini(struct fm_order *o);
int fm_order_join(struct fm_order *o, struct fm_order_ent *oe, struct fm_ent *e); /* or -ENOMEM */
void fm_order_leave(struct fm_order *o);
void fm_order_ready(struct fm_order *o, struct fm_order_ent *oe, uint64_t key, uint64_t now);
void fm_order_idle(struct fm_order *o, struct fm_order_ent *oe, uint64_t now);
void fm_order_charge(struct fm_order *o, struct fm_order_ent *oe, uint64_t ns);

/* For copy(), where self is a struct fm_order and each priv a struct fm_order_ent. */
int fm_order_copy(const void *self, void *to, struct fm_ent *twin);

/* Sets the key. If it is the same as before, no entity loses its turn. */
void fm_order_move(struct fm_order *o, struct fm_order_ent *oe, uint64_t key);

/* Fills in run and next. A key beyond `least` runs only by age. FM_NEVER: no such bound. */
enum fm_order_why fm_order_pick(
	struct fm_order *o, uint64_t least, uint64_t now, struct fm_choice *choice);

/* For rank(): with aging any entity may have to wait for any other. */
int64_t fm_order_rank(const struct fm_order *o, uint64_t key);

/* Would an entity of that key run before all ready ones if it became ready now? */
bool fm_order_beats(const struct fm_order *o, uint64_t key);
