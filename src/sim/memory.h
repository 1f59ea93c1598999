/* SPDX-License-Identifier: Apache-2.0 */
/* What memory.c, memory_make.c and memory_move.c share: the memory of one device. */
#pragma once
#include "internal.h"
#include "mem/mem.h"

#define TURNS 64 /* that are forecast at most */
#define AHEAD 2  /* extents that are told to move at a time */

/* One way of the link. It copies an extent, and then the extent changes its place. */
struct way {
	struct event ev;
	bool busy, copies;
	unsigned extent;
	uint64_t left, rate, since; /* of the copy: bytes, at this rate, since then */
	uint64_t moved;             /* bytes, in the counted time */
};

struct ent_memory {
	struct ent *e;
	unsigned number;               /* of its group in the plan, */
	unsigned first, n, set, dirty; /* and its extents; those that it uses, and writes */
	bool there, held;
	bool chosen;          /* it is its turn */
	bool takes_turns;     /* now or later, by the forecast */
	uint64_t held_to;     /* when the core lets it go */
	uint64_t deadline;    /* in its turn: when it runs whatever is missing; or FM_NEVER */
	uint64_t waits_from;  /* in its turn, if it has a deadline */
	uint64_t waited;      /* in earlier turns, since it last ran */
	uint64_t copied;      /* the device's clock of copies when its command went on */
	bool missed;          /* what the command reads from the host was counted */
	uint64_t clock;       /* device time of the group when its command went on */
	uint64_t waits_since; /* it has work and a closed gate; FM_NEVER: not so */
	uint64_t held_before; /* before the counted time */
	struct fm_sim_moved moved;
};

struct memory {
	struct device *d;
	struct fm_mem_world w;
	struct fm_mem_plan plan;
	struct fm_extent *extent;
	struct fm_mem_group *group;
	struct fm_mem_turn turn[TURNS];
	struct fm_sturn sturn[TURNS];
	struct fm_mem_past *past;
	struct ent_memory *ent;
	unsigned ents, at_in, at_out; /* what of the plan's lists was begun */
	struct way in, out;
	struct event again;
	bool stale, exposed, works;
	uint64_t period;  /* the millisecond of the last plan, */
	unsigned plans;   /* and the number of plans in it */
	uint64_t reserve; /* bytes that are not for extents, besides contexts */
	uint64_t copied;  /* for how long there were copies, up to `to' */
	uint64_t to;
	struct fm_sim_device_moved moved;
};

/* Of memory that leaves a device and stays mapped (docs/memory.md, Early start): the driver makes
 * it so fast, and nothing is known of what has not changed. */
#define EARLY_OUT UINT64_C(5000000000)

static inline bool is_early(const struct memory *mem)
{
	return mem->d->m->plan->memory.early && mem->w.policy->ahead;
}

/* Nothing of it works on the device, nor will: its memory may move. */
static inline bool at_rest(const struct ent *e)
{
	return !e->open && !device_holds(e);
}

/* memory_move.c: of devices behind the same bridge: its rate, and how many others copy now. */
uint64_t memory_bridge_rate(const struct memory *mem);
unsigned memory_others_copy(const struct memory *mem);
/* Bytes that have their place on the device; or on the host. */
uint64_t memory_sum(const struct memory *mem, bool device);
/* Begins moves that the plan wants and for which there is room; ends one. */
void memory_moves(struct memory *mem);
void memory_move_ends(struct memory *mem, struct way *way);
void memory_stop_moves(struct memory *mem, const struct ent_memory *em); /* it leaves */
