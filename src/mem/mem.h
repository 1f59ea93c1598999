/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which memory is to be on a device, and when: pure functions of what is where, of the turns that
 * are forecast, and of the time that comes with them. No I/O, no clock, no floating point. The
 * daemon and the simulator are to call the same functions.
 *
 * Extents. The memory of a group is a list of extents: ranges that are used alike and move as a
 * whole. An extent is on the device or on the host, or it is empty: nothing was ever written to
 * it, so nothing has to be copied, and it never moves. A kept copy is a copy on the host that is
 * still equal to what is on the device: such an extent goes out without being copied.
 *
 * Turns. A group's extents have to be on the device while it has its turn. When an extent is used
 * next follows from the turns of its group: `next` is in the group's own device time.
 *
 * A plan says which extents come in and which go out now, in order. It is made anew whenever
 * something has changed: a turn began, a move ended, a group came to rest. It moves memory of
 * groups at rest only. Prediction decides only what is worth moving, never what is correct.
 *
 * Owns: the arrays of a plan.
 * Locks: none.
 * Threads: any, each with a plan of its own.
 */
#pragma once
#include "base/clock.h"
#include "base/util.h"
#include <stdbool.h>

enum fm_where {
	FM_ON_DEVICE,
	FM_ON_HOST,
	FM_EMPTY,
	FM_COMING, /* it is being moved in: it needs its place on the device already */
	FM_GOING,  /* it is being moved out: it has its place still */
	FM_WHERES
};

struct fm_extent {
	uint64_t bytes;
	/* Device time that its group will have used at the next use, counted from now. 0: it is
	 * used as soon as the group runs. FM_NEVER: it is cold. */
	uint64_t next;
	uint64_t last; /* time of its last use */
	uint32_t client;
	uint8_t where; /* enum fm_where */
	bool pinned;   /* it stays on the device */
	bool kept;     /* on the device, and its copy on the host is valid */
};

/* Does it need its place on the device? */
static inline bool fm_mem_is_on_device(const struct fm_extent *e)
{
	return e->where == FM_ON_DEVICE || e->where == FM_COMING || e->where == FM_GOING;
}

/* One group on the device. Its extents stand one behind the other. */
struct fm_mem_group {
	unsigned first, n;
	uint64_t turn;    /* device time of its usual turn: what it uses in that is its set */
	uint64_t request; /* it keeps that much on the device */
	uint64_t settles; /* when its set is in, it takes so long until it can run */
	bool running;     /* it is not at rest: nothing of it can be moved, */
	bool early; /* except that memory for its turn comes in. It runs without it till then */
	/* Memory for its next turn has begun to come in. So it goes on: it would otherwise be
	 * spread over all the time until then, and a delay at the end could not be made up for. */
	bool begun;
};

/* As struct fm_turn of policy/forecast.h, with the number of the group instead of an entity: this
 * module knows no policies. In the order of `from'. Turns that have begun are from now. */
struct fm_mem_turn {
	unsigned group;
	uint64_t from, until;
};

/* Bytes a second. both: the sum of both ways, while there are copies both ways. flip: ns in which
 * an extent changes its place, besides the copy. */
struct fm_mem_link {
	uint64_t in, out, both, flip;
};

/* Which extents go out first. */
enum fm_mem_victims {
	FM_VICTIMS_NEXT, /* that with the latest next use (Belady) */
	FM_VICTIMS_LAST, /* that with the oldest last use */
	FM_VICTIMS_ALL   /* everything of the other groups */
};

struct fm_mem_policy {
	const char *name, *summary;
	bool moves; /* memory moves at all */
	bool ahead; /* memory moves before its turn, beside the group that runs */
	enum fm_mem_victims victims;
};

/* Ends with NULL; the first is the default. */
extern const struct fm_mem_policy *const fm_mem_policies[];
const struct fm_mem_policy *fm_mem_policy_find(const char *name);

struct fm_mem_world {
	const struct fm_mem_policy *policy;
	uint64_t now;
	uint64_t capacity;  /* for all of these extents; what others have is taken off already */
	uint64_t host_left; /* for more copies on the host */
	struct fm_mem_link link;
	uint64_t slack; /* moves for a turn begin so long before they have to */
	/* As many bytes come in at a time, and as much room is made for more; 0: no limit. */
	uint64_t window;
	/* Ahead of time only: a group whose turn is over computes on while memory can come in for
	 * the next one beside it. False: its turn ends when it ends. */
	bool overtime;
	const struct fm_extent *extent;
	const struct fm_mem_group *group;
	const struct fm_mem_turn *turn;
	unsigned extents, groups, turns, clients;
};

/* Of a group. */
struct fm_mem_state {
	uint64_t set; /* bytes that it uses in its next turn, empty ones not counted */
	/* Of these: not on the device yet. Where all of the others goes out: and what is still
	 * there of them. */
	uint64_t missing;
	uint64_t remote; /* of these: there is no room for them; it runs without */
	/* When all that is missing will be in; now: nothing is missing. FM_NEVER: not foreseen. */
	uint64_t ready_at;
	bool held; /* it must not run now. For a running group: its gate is to be closed. */
};

struct fm_mem_plan {
	/* Numbers of extents, in the order in which they are to move. All others stay. */
	unsigned *in, *out, n_in, n_out;
	unsigned *drop, n_drop; /* kept copies to be dropped, because the host needs the room */
	struct fm_mem_state *group;
	uint64_t *grant; /* of each client: so much it may have on the device now */
	uint64_t next;   /* when to plan again if nothing else happens; FM_NEVER */
	/* Of the first turn for which something is missing: what can come in only when the group
	 * that runs is at rest, and how long after its time the turn will begin. */
	uint64_t residue, late;

	struct fm_mem_scratch *scratch;
};

/* 0, -EINVAL for a world that contradicts itself (numbers out of range, extents of two groups at
 * one place), or -ENOMEM. The plan is zeroed before its first use; it is used again. Sums that
 * overflow saturate. O((extents + turns) log extents). */
int fm_mem_plan(struct fm_mem_plan *p, const struct fm_mem_world *w);
void fm_mem_plan_free(struct fm_mem_plan *p);

/* Of a plan for that world: is a group whose turn has come, and that can run without all of its
 * memory, to begin at once? Not if it is to be in in a moment. */
bool fm_mem_starts_early(const struct fm_mem_plan *p, const struct fm_mem_world *w, unsigned group);

/* Time to copy so many bytes at that rate. Rate 0: FM_NEVER. */
uint64_t fm_mem_ns(uint64_t bytes, uint64_t rate);

/* link.c: what each gets of a rate that several share: all that it wants, or else as much as all
 * others that want more than that. The sum is at most the rate. */
void fm_mem_divide(uint64_t rate, const uint64_t *wants, unsigned n, uint64_t *part);
/* How long memory moves for one change of turns, if so many groups that take them have so many
 * bytes more than there is room for: the least that has to come in, while as much goes out. */
uint64_t fm_mem_handover_ns(uint64_t over, unsigned groups, const struct fm_mem_link *link);
/* The link of a device behind a bridge of that rate (both ways together), while so many other
 * devices behind it copy, too. */
struct fm_mem_link fm_mem_link_beside(
	const struct fm_mem_link *link, uint64_t bridge, unsigned others);

/* turns.c: turns of a device whose policy has no forecast, by the turns that there were: the group
 * in front has the device, then those that had it longest ago, each for its usual turn, until
 * `until' or `cap' turns are made. Returns their number. */
struct fm_mem_past {
	unsigned group;
	uint64_t ended; /* its last turn */
	uint64_t turn;  /* its usual turn, 0: not known */
};
unsigned fm_mem_guess(struct fm_mem_past *past, unsigned n, uint64_t now, uint64_t until,
	struct fm_mem_turn *out, unsigned cap);

/* commit.c: what may be promised. Sizes of one device. */
struct fm_mem_claim {
	uint64_t limit;     /* 0: the device's capacity */
	uint64_t request;   /* that much stays on the device */
	uint64_t committed; /* of all of its allocations */
};
struct fm_mem_budget {
	uint64_t capacity; /* of the device, without what is not managed */
	uint64_t reserve;  /* of that, for what nobody has planned */
	uint64_t host;     /* for what is out */
	const struct fm_mem_claim *claim;
	unsigned claims;
};
enum fm_mem_no { FM_MEM_YES, FM_MEM_LIMIT, FM_MEM_FULL };

/* 2 %, at least 512 MiB, but of a small device at most a sixteenth. */
uint64_t fm_mem_reserve(uint64_t capacity);
/* May a group commit so much more? LIMIT: its limit does not allow that. FM_FULL: device and host
 * together could not hold it. Then nothing is promised that has no place to go. */
enum fm_mem_no fm_mem_may_commit(const struct fm_mem_budget *b, unsigned claim, uint64_t bytes);
/* 0, or -ENOSPC with what is left for it: requests of all together must fit into the device. */
int fm_mem_may_request(
	const struct fm_mem_budget *b, unsigned claim, uint64_t request, uint64_t *left);
