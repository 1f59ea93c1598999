/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which memory of a device is where, by turns: the ledgers and the core's forecast as a world of
 * src/mem, and its plan as shares, wishes and holds.
 *
 * planner_world.c makes the world, planner_turns.c its turns, planner.c does what the plan says.
 */
#pragma once
#include "demand.h"
#include "mem/mem.h"

#define PLANNER_TURNS   64
#define PLANNER_EXTENTS 32768 /* of a device */

/* A group has its memory for so long before it gives way to another one that has its turn at the
 * same time. */
#define PLANNER_KEEPS (500 * FM_MS)

struct planned_client {
	struct fm_bridge_client *client;
	struct memory_row *row;
	uint64_t here, missing; /* of its movable memory; missing: to be brought in */
	uint64_t hot;           /* of what is here: what is in use */
	uint64_t cold;          /* of what is missing: what is not in use */
	uint64_t back;          /* of what is missing: it runs from the host */
	uint64_t maps;          /* not missing: it is to be mapped from the host */
	uint64_t share;         /* what it will have; and once the plan is made, is to have */
	uint64_t stays;         /* of what is here: the host has no room for it */
};

struct planned_group {
	struct fm_bridge_group *group;
	unsigned client, clients; /* its first, and how many */
	uint64_t missing;
	bool goes;   /* the plan takes memory from it, */
	bool comes;  /* or has some come in */
	bool turn;   /* its turn has come */
	bool listed; /* it will have a turn */
	/* For people, once the plan is made. When its next turn begins, and when all of it is in;
	 * FM_NEVER: not foreseen. */
	uint64_t next, in;
};

struct planner {
	struct fm_mem_world w;
	struct fm_mem_plan plan;
	struct planned_group *of; /* as w.group */
	struct planned_client *client;
	struct fm_extent *extent;
	struct fm_mem_group *group;
	struct fm_mem_turn turn[PLANNER_TURNS];
	struct fm_sturn sturn[PLANNER_TURNS];
	unsigned extents_room, groups_room, clients_room;
	uint64_t owes;    /* plans are paid for up to then, in the daemon's time */
	uint64_t back_at; /* when to look again at what runs from the host and is in use */
	bool one_way;     /* nothing comes in while something goes out */
	bool shared;      /* several have their turn at once, and give way to each other */

	/* Of the link, bytes a second: what has come in since then. */
	uint64_t rate, rate_at, rate_in;
	bool measured; /* `rate' is no guess any more */
	/* The same while other devices behind its bridge move memory, too, 0: not known; and how
	 * many they are now, and were when the count of what has come in began. */
	uint64_t beside;
	unsigned others, others_then;
	uint64_t unseen; /* bytes of programs that Fermata does not know */
	uint64_t unseen_at;
	/* Memory on the device at the last plan, and when there last was less than before: a group
	 * that was refused before that may find room now. */
	uint64_t there, left_at;

	/* For people: those that have turns, how many they are, and how many bytes they have more
	 * than there is room for. */
	unsigned contend;
	uint64_t over;
	/* The most memory that one client has here and that the host has no room for, and why. */
	struct fm_bridge_host_short host;
};

/* 0, or -ENOMEM. *tight: something is missing, or has no room: a plan is needed. */
int planner_world(struct fm_bridge *b, struct bdevice *d, bool *tight);
int planner_turns(struct bdevice *d);
/* memory_info.c: what people are told of the plan that was just made. */
void planner_note(struct planner *p);
/* Whatever of it is not on the device runs from the host, so that it can go on at once. */
bool planner_is_early(const struct planner *p, const struct planned_group *of);
/* It works on a device, or did a moment ago. */
bool planner_works(const struct fm_bridge_group *g, uint64_t now);
