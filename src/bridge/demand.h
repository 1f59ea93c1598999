/* SPDX-License-Identifier: Apache-2.0 */
/* What demand.c (which group's memory is where), need.c (what allocations need, and which groups
 * may go for them) and planner.c (whose memory is where by turns) share.
 */
#pragma once
#include "internal.h"

/* Without what runs from the host, mapped for the device: that takes no room. */
struct sizes {
	uint64_t all, movable, here; /* here: of the movable */
	uint64_t hot_here, hot_out;  /* of what is here, and of the rest: what is in use */
	uint64_t mapped, back;       /* back: of what is mapped: what is in use */
};

static inline uint64_t demand_most(uint64_t bytes)
{
	return FM_MIN(bytes, (uint64_t)FM_MEMORY_MAX);
}

/* The member's ledger, if it belongs to the member's group. */
static inline struct memory *demand_memory(const struct member *m)
{
	return m->index ? NULL : m->client->memory;
}

static inline int64_t demand_hint(const struct fm_bridge_group *g, enum fm_hint h)
{
	return fm_sched_group_hints(g->sgroup)->value[h];
}

/* Of a row, bounded. */
struct sizes demand_row(const struct memory *m, const struct memory_row *r);
/* Of a row: what it will have on the device, once the client has done what it is told. */
uint64_t demand_share(const struct memory *m, const struct memory_row *r, const struct sizes *s);
/* What its allocation that waits is to have. */
uint64_t demand_promised(const struct memory *m, const struct memory_row *r, uint64_t now);
/* Of a group on one device; d NULL: on all. */
struct sizes demand_sizes(const struct fm_bridge_group *g, const struct bdevice *d);
uint64_t demand_missing(const struct fm_bridge_group *g, const struct bdevice *d);
/* On all devices, but for what is to be mapped from the host. */
uint64_t demand_set_missing(const struct fm_bridge_group *g, uint64_t now);
/* What of the row runs from the host, and is to come to the device. */
uint64_t demand_back(const struct memory_row *r, const struct sizes *s, uint64_t now);
/* What the device is taken to be full with. A group that comes in will have all of its memory. */
uint64_t demand_used(struct fm_bridge *b, const struct bdevice *d, uint64_t now);
/* The same without what is only promised, whether it was claimed meanwhile or not. */
uint64_t demand_surely_used(const struct fm_bridge *b, const struct bdevice *d, uint64_t now);
/* It has memory that can be moved, or that runs from the host and is in use. The plan says nothing
 * of the others, so nothing holds them. */
bool demand_moves(const struct fm_bridge_group *g);
/* It is told to have less than it has, on any device. */
bool demand_gives(const struct fm_bridge_group *g);
/* By hand or by demand. */
bool demand_is_out(const struct fm_bridge_group *g);
bool demand_comes_in(const struct fm_bridge_group *g);

/* An allocation waits for room, or a call waits for memory that is out. */
bool demand_wants(const struct fm_bridge_group *g);
bool demand_busy(const struct fm_bridge_group *g);
bool demand_has_work(const struct ent *e);
/* A call waits for memory that is out. */
bool demand_misses(const struct fm_bridge_group *g);
/* An allocation waits for an answer. */
bool demand_lacks(const struct fm_bridge_group *g);
/* By its hint, or because a process of it works for another group, too. */
bool demand_pins(const struct fm_bridge_group *g);
int64_t demand_rank(const struct fm_bridge_group *g);
/* By hand it has all the time that it takes, but others do not wait for it as long. */
bool demand_is_awaited(const struct fm_bridge_group *g, uint64_t now);
/* The end of the last work of a group that has none now. */
uint64_t demand_idle_since(const struct fm_bridge_group *g, uint64_t now);
/* Does the group's memory stay, whatever happens? Whether it is `apart' is not looked at. */
bool demand_stays(const struct fm_bridge_group *g, const struct bdevice *d, uint64_t now);
/* Has the policy chosen the group on that device, although it is held? */
bool demand_chosen(const struct fm_bridge_group *g, const struct bdevice *d);

/* A choice for one need: the group g needs `want' bytes on d; with less than `least' it would not
 * be helped. */
struct need {
	struct fm_bridge *b;
	struct fm_bridge_group *g;
	const struct bdevice *d;
	uint64_t want, least, now;
	/* Until then it can wait for a group that has not gone out in time, and is asked again
	 * later. 0: such groups stay. */
	uint64_t patience;
	/* The answer: another one is to be expected then. FM_NEVER: that is not known. */
	uint64_t when;
};
/* True: somebody goes out. */
bool demand_choose(struct need *need);
/* The group lacks `bytes'. Would there be too little even if all others gave what they can give,
 * once what is being allocated and moved now has come to rest? As they say, and each word is read
 * at another moment: what is so only once may be so between two of them. */
bool demand_never(const struct need *need, uint64_t bytes, uint64_t capacity);

/* demand.c. The group's rows have their shares already, and it goes out as far as they say. */
void demand_go_out(struct fm_bridge *b, struct fm_bridge_group *g, enum fm_bridge_out why,
	struct fm_bridge_group *cause, uint64_t now);
/* It is out, and has lost some of its shares. */
void demand_goes_on(struct fm_bridge_group *g, uint64_t now);
/* All of it is in, so it goes on. It keeps its memory for as long as others have waited for that;
 * shared: for longer. */
void demand_is_in(struct fm_bridge *b, struct fm_bridge_group *g, bool shared, uint64_t now);
/* All of it is to come in, whether there is room or not, but for what is to be mapped from the
 * host. */
void demand_bring_in(struct fm_bridge *b, struct fm_bridge_group *g, bool shares, uint64_t now);
/* It is held although its memory is in, or no longer. */
void demand_stop(struct fm_bridge *b, struct fm_bridge_group *g, bool stop, uint64_t now);

/* memory_info.c. The plan's group ends. */
void planner_forget(const struct fm_bridge_group *g);
/* When its next turn on the device begins; FM_NEVER: that is not foreseen, or no memory is missing
 * there. */
uint64_t planner_turn_of(const struct fm_bridge_group *g, const struct bdevice *d);
