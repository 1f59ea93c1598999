/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the bridge, by ownership: clients -> members -> groups -> entities -> queues <- clients.
 */
#pragma once
#include "base/clock.h"
#include "base/list.h"
#include "bridge.h"
#include "pad_auto.h"
#include "trace/trace.h"

/* The most devices that one user may introduce: a device lives as long as the bridge. */
#define USER_DEVICES 32
/* Strict mode: a client may report a queue as gone whose gate is closed. The gate stays closed,
 * since the client may lie, but gates in graphs may still look at it: so it opens when another gate
 * of the client opens, or after this time. */
#define GONE_GATE FM_S
/* An entity without queues is kept for this long. A program may make a queue for each of its jobs,
 * and the policy must not forget the entity's debt or budget in between. */
#define STAYS FM_S
/* A device switches from one process's work to another's after this time. An H100 does it after
 * 2 ms, and the switch takes 0.15 ms. */
#define DEVICE_TURN (2200 * FM_US)
/* The most entities whose boards one fm_bridge_look() reads. */
#define HEARD_BUDGET 32
/* The most clients of a process that are told of a hint that another of its clients gave. */
#define SIBLINGS_TOLD 16
/* The most entities that one call looks at again. The others must get their turn. */
#define RECHECK_BUDGET 256

/* hosts.c: memory of the host that rows have, or may take; what of it only keeps copies. */
struct host_sum {
	uint64_t taken, spare;
};

struct user {
	struct fm_list link;
	uid_t uid;
	uint32_t groups, queues, devices;
	uint64_t rings;      /* demand.c: its bells are paid for up to then, in the daemon's time */
	unsigned lack_looks; /* demand.c: so many of its allocations were looked at in this look */
	struct fm_list memories; /* of its clients */
	uint64_t map_rate; /* bytes a second at which they map memory from the host; 0: not known */
	struct host_sum host; /* hosts.c */
	unsigned padders;     /* pad.c: entities that may pad */
};

struct bdevice {
	struct fm_list link;
	struct fm_sched_dev *sdev;
	uint32_t id;
	const char *key;
	struct fm_list ents;
	unsigned n_ents;
	uint64_t round;      /* the last fm_bridge.round that looked at it */
	unsigned background; /* processes of groups with a priority below 0: 0, 1, or 2 for more */
	struct ent *first;   /* the entity that never waits for another, or NULL */

	/* planner.c */
	struct planner *planner; /* NULL: no memory of it has ever moved */
	uint64_t roomed_at;      /* demand.c: an allocation has last got room there */
	bool tight;              /* memory is missing: what is chosen, and what runs, matters */
	bool moves;              /* memory of it comes in or goes out, as of the last plan */
	char upstream[FM_PCI_BRIDGE]; /* its bridge, as the first client says that does; or "" */
	/* Time in which the device stood still because memory was missing, and in which memory
	 * moved beside a group that ran; up to clock_at, and what counts from then on. */
	uint64_t exposed, hidden, clock_at;
	bool stands, hides;
};

/* One group on one device. */
struct ent {
	struct fm_list in_group, in_device, in_recheck;
	struct fm_list in_heard; /* linked while its ready bell is asked for */
	struct fm_list in_left;  /* linked while it has no queues, */
	uint64_t left_at;        /* which began at this time */
	struct fm_bridge_group *group;
	struct bdevice *dev;
	struct fm_sched_ent *sent;
	struct fm_list queues;
	bool gate_open, works; /* works: the state last reported to a trace */
	uint32_t bells;
	struct fm_bridge_group *closed_for; /* the group that the policy chose instead, or NULL */
	uint64_t closed_at, ready_at;
	uint64_t quiet_done, quiet_since; /* gate closed: finished commands; unchanged since when */
	uint64_t usage_gone;              /* usage of queues that left */
	uint64_t used, used_at, used_by;  /* device time so far; at which time and usage */
	uint64_t seen_used, seen_idle;    /* both as of the last ent_look() */
	uint64_t dealt, dealt_at;         /* the part of its time dealt out to its queues; when */
	uint64_t unheard; /* device time while the core heard nothing and counted it as idle */
	uint64_t round;   /* the last fm_bridge.round that looked at it */

	/* pad.c */
	struct fm_list in_pads; /* linked while it may pad */
	int64_t pad;            /* FM_HINT_PAD, with the device's setting applied */
	unsigned pad_k;         /* multiprocessors, now; 0: none */
	bool padded;            /* beside the urgent group's job under way */
	/* Its own job: since when (0: that is not known); commands finished before it. */
	uint64_t job_from, job_first;
	struct pad_auto pad_auto;
};

struct queue {
	struct fm_list in_ent, in_client;
	struct fm_bridge_client *client;
	struct member *member;
	struct ent *ent;
	struct fm_slot *slot;
	uint32_t number, id, levels;
	uint32_t deepest;           /* the deepest level, as in its board; 0: no limit */
	uint64_t since;             /* when it joined */
	uint64_t usage_base, usage; /* claimed when it joined; believed since, never falling */
	uint64_t device_ns;         /* its part of its entity's device time */
	uint64_t dealt;             /* its usage when that part was last dealt out */
	uint64_t padded, padded_at; /* claimed; believed up to then */
	bool pad_apart;             /* it could pad, but urgent work is not of its domain */
};

struct caps_sum {
	uint64_t fixed, movable;
};

struct fm_bridge_cgroup {
	struct fm_list link;
	unsigned refs, n;
	uint64_t memory;
	struct fm_bridge_dmem dmem[FM_BRIDGE_REGIONS];
	struct caps_sum all, beyond; /* caps.c: while it counts */
	char path[];
};

/* A client's memory on one device. */
struct memory_row {
	struct bdevice *dev; /* NULL: the row is not in use, or not sound */
	bool seen;
	char bus[FM_BUS_MAX];       /* "": not known */
	uint64_t capacity, claimed; /* as last read, and bounded */
	uint64_t allowed;           /* what its ledger says; the client cannot change it here */
	uint32_t request;           /* the newest that was answered, */
	uint64_t granted;           /* and what it may claim by that; 0: it was refused */
	uint64_t mark;              /* for other users it has claimed so much at most */
	bool free;                  /* nothing limited it when it was answered */
	/* demand.c: the allocation that waits for room, since when, and whether others have gone
	 * out for it; for the answer to the last one, so much counts as taken until that time. */
	uint32_t lacking;
	uint64_t lack_at, lack_first; /* lack_first: since when any request of it waits */
	uint64_t promised, promised_until;
	uint64_t lack_look; /* the last demand_looks in which it was looked at */
	/* At so many looks in a row it was found that it can never be given, last at that time. */
	unsigned lack_never;
	uint64_t lack_never_at;
	uint64_t lack_used; /* the least that the device was full with when it was told to try */
	/* Its own memory is out or on its way since then, 0: it is not; and was before, for so long
	 * since lack_first. */
	uint64_t lack_own, lack_apart;
	bool lack_moved, lack_again;
	uint64_t share;   /* what its ledger says */
	uint32_t keeping; /* keeps.c: the newest request that was answered, */
	uint64_t keeps;   /* and what the program may keep on the device */
	uint64_t cap;     /* what its ledger says */
	/* hosts.c: where the device is; memory of the host that the client has, may have, and is
	 * believed to have at most; the newest request for more, since when it waits, and whether
	 * it was told so. */
	struct fm_bridge_place place;
	uint64_t host_has, host_may, host_mark, host_since;
	uint32_t host_asks;
	bool host_begun, host_waits, host_told;
	/* planner_world.c: of what is on the host, so much is to be mapped from there; and before
	 * that time nothing of what is mapped is brought to the device. */
	uint64_t maps, back_at;
	/* While it has that much on the device, nothing of it fits into so much more. */
	uint64_t no_fit, no_fit_here;
	/* As last read, never falling. */
	uint64_t refused, went_out, came_in, kept, missed, exchanged;
	bool lies; /* it has said what cannot be */
};

/* A client's ledger. It belongs to the client's group 0. */
struct memory {
	struct fm_list in_user;
	struct fm_bridge_client *client;
	struct fm_ledger *ledger;
	bool managed;
	bool early; /* what is out runs from the host, so it can go on at once (FM_LEDGER_EARLY) */
	struct fm_bridge_cgroup *cgroup[FM_BRIDGE_CGROUPS];
	unsigned cgroups;
	uint64_t own, own_at; /* hosts.c: memory of its process's own, as of that time */
	struct memory_row row[FM_LEDGER_DEVICES];
};

/* What clients that are gone have counted in a group on a device. */
struct memory_past {
	struct fm_list link;
	struct bdevice *dev;
	uint64_t refused, went_out, came_in, kept, missed, exchanged;
};

/* Where the memory of a group is by demand (demand.c). OUT: it is at rest, and has its shares.
 * GOING: the same, and more than that is on the device. */
enum place { PLACE_HERE, PLACE_GOING, PLACE_OUT, PLACE_COMING };
struct demand {
	enum place place;
	enum fm_bridge_out why;
	uint64_t at;             /* since when it is in that place */
	uint64_t left, moved_at; /* while it moves: bytes still to move, and when they changed */
	uint64_t first;          /* and how many they were, */
	uint64_t from;           /* for what is told to come in: at this time */
	unsigned backs;          /* so often it has stepped back since it was last in */
	uint64_t stuck;          /* until then what it has on the device counts as staying there */
	unsigned late;  /* so often it has not gone out in time, less what went well since */
	uint64_t keeps; /* its memory stays until then, unless it is idle */
	uint64_t apart; /* until then it is asked for nothing */
	uint64_t needs; /* it waits for its memory since then; 0: it does not */
	uint64_t due;   /* its turn has come then, and memory is missing; 0: not so; */
	const struct bdevice *due_on; /* by the plan of this device: others say nothing of it */
	uint64_t stood_from, stood;   /* so long nothing ran on the device since then */
	/* A call of it waits for memory: so it has work, which its queues do not show. Also for a
	 * moment after its memory has come in: 0: it is not in. */
	bool expects;
	uint64_t expects_until;
	/* It comes in, and so much of it is to be mapped from the host; whether it shares its turn
	 * with others; and until then all of it is to be on the device, for that has failed. */
	uint64_t maps, whole_until;
	bool shares;
	bool early;                 /* it is out, and has begun to come in for its next turn */
	bool for_lack;              /* it goes out for an allocation */
	bool stopped;               /* its memory is here, and the room for another's is needed: */
	struct bdevice *stopped_by; /* on this device; the plans of others say nothing of it */
	uint64_t held;              /* it has waited for so long before */
	char cause[FM_NAME_MAX];    /* the group that needed the room, or "" */
	uid_t cause_uid;            /* and whose it is */
};

/* Client and group: group index `index` of the client. */
struct member {
	struct fm_list in_group;
	struct fm_bridge_client *client;
	struct fm_bridge_group *group; /* NULL: the index is unused */
	uint32_t index;
	uint32_t segments; /* open segments */
	uint32_t beyond;   /* open segments beyond the limit; they end first */
	uint32_t said;     /* bits of the hints that the client gave it */
};

struct fm_bridge_group {
	struct fm_list link;
	struct fm_bridge *bridge;
	struct fm_sched_group *sgroup;
	struct user *user;
	uint32_t mark;    /* the tracer's own word */
	const char *name; /* the core keeps it */
	struct fm_list members, ents;
	struct fm_list memory_past; /* struct memory_past */
	uint64_t used_gone;         /* charged on devices that it left */

	/* The process whose clients are in this group unless they name another. 0: the group has a
	 * name, or the process is not known. */
	pid_t pid;
	uint32_t said;                /* bits of the hints that a client gave */
	int64_t first[FM_HINT_COUNT]; /* the first value given for each of them */

	/* watch.c */
	void *watch;
	bool busy;     /* the state last reported to the watcher */
	bool declared; /* it was inside a declared segment since it became busy */
	/* Jobs of a group with a deadline (watch.c). */
	uint64_t deadline;    /* the hint; 0: none, and the fields below are not kept up */
	bool works;           /* the group is busy */
	bool counts;          /* the job began after the deadline was set, so it can be judged */
	uint64_t job_at;      /* when the job began */
	struct fm_list ended; /* in the bridge's list: the job seems to have ended, */
	uint64_t ended_at;    /* at this time */
	uint64_t jobs, missed;

	/* away.c */
	enum fm_mem_wish away; /* where its memory is to be */
	struct fm_list coming; /* in the bridge's list: its memory comes in */
	uint64_t coming_since;
	bool goes_on; /* when its memory is in: nobody has suspended it since it was resumed */
	bool bounded; /* it comes in as far as there is room; its clients are told to be out */
	/* While it is bounded: bytes that had no room when its shares last grew, and when that was.
	 */
	uint64_t untold, grew_at;
	struct demand demand;
};

struct fm_bridge_client {
	struct fm_list link, in_dirty;
	struct fm_board *board;
	struct fm_gates *gates; /* strict mode, else NULL */
	struct memory *memory;  /* NULL: it has no ledger */
	struct fm_list in_gone;
	uint64_t gone[FM_BOARD_SLOTS / 64]; /* bits of slots with a closed gate and no queue */
	uint64_t gone_at;                   /* when those gates open */
	struct user *user;
	pid_t pid;       /* 0: not known, it is of another namespace */
	uint32_t number; /* unique for the life of the bridge */
	char comm[16], api[16];
	void *ctx;
	struct fm_list queues;
	uint64_t device_gone; /* device time of queues that left */
	bool makes_room;      /* the value in its board */
	struct member first,
		*more; /* groups 0 and, if it ever names one, 1 to FM_BOARD_GROUPS - 1 */
};

/* NULL: the client has not named that group. */
static inline struct member *member_at(struct fm_bridge_client *c, uint32_t index)
{
	if (!index)
		return &c->first;
	return c->more ? &c->more[index - 1] : NULL;
}

struct fm_bridge {
	struct fm_bridge_host host;
	struct fm_bridge_watcher watcher;
	struct fm_bridge_tracer tracer;
	struct fm_bridge_limits limits;
	const struct fm_stop_rule *ways;
	unsigned n_ways;
	struct fm_sched *sched;
	struct fm_list clients, groups, devices, users, cgroups;
	struct fm_list recheck; /* entities whose bells changed */
	struct fm_list heard;   /* entities whose ready bell is asked for, the latest first */
	struct fm_list dirty;   /* clients whose gates changed */
	struct fm_list ended;   /* groups whose job has perhaps ended */
	struct fm_list gone;    /* clients with closed gates that have no queue */
	struct fm_list padders; /* entities that may pad */
	struct fm_list left;    /* entities without queues, in the order of left_at */
	struct fm_list coming;  /* groups whose memory comes in, */
	uint64_t coming_at;     /* and when to look at them */
	uint64_t demand_at;     /* when demand_run() has something to do, */
	uint64_t demand_costs;  /* what that takes, about, */
	uint64_t demand_looks;  /* and how often it was done */
	unsigned host_waiting, host_round; /* hosts.c: so many rows waited last; looks at them */
	uint64_t caps_at;                  /* when caps_run() has something to do */
	uint64_t hosts_at;                 /* when hosts_run() has; and its sums, */
	struct host_sum hosts, host_node[FM_BRIDGE_NODES];
	uint64_t host_promised;           /* of these: granted, and not taken yet */
	uint64_t host_left, host_left_at; /* what the machine has left; as of that time */
	uint64_t policies; /* fm_sched_policies() when clients were last told what they share */
	uint64_t now;      /* time of the call in progress, for callbacks without a time */
	uint64_t round;
	uint32_t next_queue, next_device, next_client;
	struct fm_bridge_memory memory;
	struct fm_bcoverage past; /* of clients that are gone */
	bool closing;             /* every gate is to stay open: decisions no longer count */
};

/* Reads a word of a board once. */
#define CLAIM(word) atomic_load_explicit(&(word), memory_order_acquire)

extern const struct fm_sched_host bridge_sched_host;

/* info.c */
void queue_info(const struct queue *q, struct fm_bqueue_info *info);
void client_coverage(const struct fm_bridge_client *c, struct fm_bcoverage *sum);

/* ent.c */
struct ent *ent_get(
	struct fm_bridge *b, struct fm_bridge_group *g, struct bdevice *d, uint64_t now);
void ent_put(struct fm_bridge *b, struct ent *e, uint64_t now); /* a queue has left it */
void ent_end(struct fm_bridge *b, struct ent *e, uint64_t now); /* it has no queues; frees it */
/* Ends the entities that have been without queues for long enough. Returns when the next is due. */
uint64_t ents_run(struct fm_bridge *b, uint64_t now);
void ent_refresh(struct fm_bridge *b, struct ent *e, uint64_t now);
void ents_forget(struct fm_bridge *b, const struct fm_bridge_group *g); /* the group goes */
void ent_attach_queue(struct fm_bridge *b, struct ent *e, struct queue *q);
void ent_detach_queue(struct ent *e, struct queue *q, uint64_t now);
uint64_t queue_usage(struct queue *q, uint64_t now);
/* pad.c. pad_refresh: the entity's settings may have changed. pad_forget: it ends. pad_enter: the
 * queue has joined its entity, or that has another number. pad_settle: which queues may pad may
 * have changed. pad_job_begins, pad_job_ends: an entity has work, or has had it until then. */
void pad_refresh(struct fm_bridge *b, struct ent *e);
void pad_forget(struct ent *e);
void pad_enter(struct fm_bridge *b, struct queue *q);
void pad_settle(struct fm_bridge *b);
void pad_job_begins(struct fm_bridge *b, struct ent *e);
void pad_job_ends(struct fm_bridge *b, struct ent *e, uint64_t at);
/* way.c: the key under which the device with this key is scheduled. */
const char *way_device(const struct fm_bridge *b, const char *key);
/* FM_HINT_PAD by the device's settings. */
int64_t way_pad(const struct fm_bridge *b, const char *key);
/* away.c */
/* What its clients are told. */
enum fm_mem_wish away_wish(const struct fm_bridge_group *g);
void away_begin(struct memory *m);                    /* a ledger is known */
uint64_t away_run(struct fm_bridge *b, uint64_t now); /* returns when to call again */
/* What the group's clients are asked for, without that being a wish by hand. */
void away_tell(struct fm_bridge *b, struct fm_bridge_group *g, enum fm_mem_wish what);
void away_tell_client(struct memory *m, enum fm_mem_wish what);
/* Another group of a process of this group that may run: all of the process would rest. Or NULL. */
const struct fm_bridge_group *away_other(const struct fm_bridge_group *g);
/* demand.c. kick: something has changed: look at the next run. ring: the same, said by a client: as
 * long as that user's clients do not say so too often. ends: the group's memory is asked
 * for by hand from now on. joined: this member is in the group from now on, with its ledger. */
uint64_t demand_run(struct fm_bridge *b, uint64_t now); /* returns when to call again */
void demand_kick(struct fm_bridge *b);
void demand_ring(struct fm_bridge *b, struct user *u, uint64_t now);
/* When what that user's clients say is looked at: now, if they do not say so too often. And: it is
 * looked at now; false: it is too early for that. */
uint64_t demand_paid(const struct user *u, uint64_t now);
bool demand_pay(const struct fm_bridge *b, struct user *u, uint64_t now);
void demand_ends(struct fm_bridge *b, struct fm_bridge_group *g, uint64_t now);
void demand_joined(struct fm_bridge *b, struct member *m);
enum fm_mem_wish demand_wish(const struct fm_bridge_group *g);
static inline bool demand_holds(const struct fm_bridge_group *g)
{
	return g->demand.place != PLACE_HERE || g->demand.stopped;
}
/* planner.c. Returns when to call again. */
uint64_t planner_run(struct fm_bridge *b, struct bdevice *d, uint64_t now);
void planner_free(struct bdevice *d);
/* A gate has changed, or the choice. */
static inline void planner_kick(struct fm_bridge *b, const struct bdevice *d)
{
	if (d->tight)
		demand_kick(b);
}
/* Deals the entity's device time out to its queues, up to now. Returns that time. */
uint64_t ent_deal(struct ent *e, uint64_t now);
/* Counts what the entity did unheard. Called when that is asked for, and before the core hears of
 * the entity again. */
void ent_look(struct ent *e, uint64_t now);
bool ent_is_alone(const struct ent *e);                             /* on its device */
void client_dirty(struct fm_bridge *b, struct fm_bridge_client *c); /* wake it, if it sleeps */
int64_t group_rank(const struct fm_bridge_group *g); /* by its hints, or the segment it is inside */
void device_refresh(struct fm_bridge *b, struct bdevice *d);

/* contended.c. step: whether the device steps between one group and two. */
void client_contended(struct fm_bridge *b, struct fm_bridge_client *c);
void device_contended(struct fm_bridge *b, struct bdevice *d, bool step);
void group_contended(struct fm_bridge *b, struct fm_bridge_group *g);
enum fm_shares ent_shares(const struct ent *e);
bool ent_in_background(const struct ent *e);
bool ent_has_several_clients(const struct ent *e);
void group_hinted(struct fm_bridge *b, struct fm_bridge_group *g); /* its rank may have changed */
void policy_changed(struct fm_bridge *b);

/* message.c: the device with this key, made if the user may introduce another. */
int device_get(struct fm_bridge *b, struct bdevice **out, struct user *u, const char *key,
	struct fm_err *err);

/* group.c */
struct member *member_make(struct fm_bridge_client *c, uint32_t index); /* NULL: out of memory */
struct user *user_get(struct fm_bridge *b, uid_t uid);
void user_put(struct user *u);
int member_get(struct fm_bridge *b, struct member *m, uint64_t now, struct fm_err *err);
int member_name(
	struct fm_bridge *b, struct member *m, const char *name, uint64_t now, struct fm_err *err);
void member_leave(struct fm_bridge *b, struct member *m, uint64_t now);

/* memory.c. bell: a client wants more memory, or has a new device. reset: limits have changed, so
 * that each client of the group, or of the user, must ask before it claims more. */
void memory_bell(struct fm_bridge *b, struct fm_bridge_client *c);
void memory_end(struct fm_bridge_client *c);
/* What the group has requested of a device that it is on. */
uint64_t memory_requested(const struct fm_bridge_group *g, const struct bdevice *d);
/* Answers what the client wants to keep on the device of a row. */
void keeps_answer(struct fm_bridge *b, struct memory *m, struct memory_row *r);
/* What the groups but for one have requested on the device, or keep there. device: how large it is,
 * as the least of these and that one say: no other can make it larger. */
uint64_t keeps_others(struct fm_bridge *b, const struct fm_bridge_group *own,
	const struct bdevice *d, uint64_t *device);
/* Of a device: the largest that anybody says, at most what is set; 0: not known. And the same of
 * the clients of one group; 0: the group is not there. */
uint64_t memory_capacity(struct fm_bridge *b, const struct bdevice *d);
uint64_t memory_capacity_of(const struct fm_bridge_group *g, const struct bdevice *d);
void memory_reset_group(struct fm_bridge_group *g);
void memory_reset(struct memory *m); /* of one client */
/* UINT64_MAX: any amount */
uint64_t memory_user_limit(const struct fm_bridge *b, const struct fm_bridge_client *c);
/* caps.c: what exceeds a limit that has sunk is to leave the device. When to look again. */
uint64_t caps_run(struct fm_bridge *b, uint64_t now);
/* hosts.c: memory of the host for what is not on devices. attach: a ledger is known; settings: the
 * budgets have changed. bell: the client has a new device, or wants more. run: when to call again.
 * look: before others ask; what clients have is read. room: so much more of what the row has on its
 * device may leave it; *why: what keeps the rest. */
void hosts_attach(struct fm_bridge *b, struct memory *m);
void hosts_settings(struct fm_bridge *b);
void hosts_look(struct fm_bridge *b);
void hosts_bell(struct fm_bridge *b, struct memory *m);
uint64_t hosts_run(struct fm_bridge *b, uint64_t now);
uint64_t hosts_room(struct fm_bridge *b, const struct memory *m, const struct memory_row *r,
	struct fm_bridge_host_short *why);
/* Of a group's rows together, on one device or on all (NULL). */
uint64_t hosts_room_of(const struct fm_bridge_group *g, const struct bdevice *d);
/* cgroups.c: what a cgroup may have on the device of a row, UINT64_MAX: any amount; is it the
 * client's? */
uint64_t cgroup_limit(const struct fm_bridge_cgroup *g, const struct memory_row *r);
bool cgroup_has(const struct fm_bridge_cgroup *g, const struct memory *m);
void memory_forget_group(struct fm_bridge_group *g);

/* limits.c: the limits of the client's user; NULL: no limits. */
const struct fm_bridge_limits *client_limits(
	const struct fm_bridge *b, const struct fm_bridge_client *c);
/* Sets a new group's hints to their defaults, or to the nearest values that the limits allow. */
void limits_start(struct fm_bridge *b, struct fm_bridge_group *g, const struct fm_bridge_limits *l);

/* gate.c: the gate words of a queue, wherever they are. */
static inline void gate_store(struct queue *q, enum fm_gate gate)
{
	struct fm_gates *g = q->client->gates;

	if (g)
		atomic_store_explicit(&g->slot[q->number].gate, gate, memory_order_release);
	atomic_store_explicit(&q->slot->gate, gate, memory_order_release);
}
enum fm_gate gate_load(const struct queue *q);
/* The queue is gone; the queue is there. */
void gate_leave(struct fm_bridge *b, struct queue *q, uint64_t now);
void gate_enter(struct queue *q);
/* Opens the gates that no queue has: those of this client. */
void gate_open_gone(struct fm_bridge_client *c);
/* The same for all clients whose time has come. Returns when the next is due. */
uint64_t gate_run(struct fm_bridge *b, uint64_t now);

/* way.c: writes to the board how a queue is stopped: of one queue, of all queues of the group. */
void way_store(struct fm_bridge *b, struct queue *q);
void group_ways(struct fm_bridge *b, struct fm_bridge_group *g);
static inline enum fm_level way_level(const struct queue *q)
{
	uint32_t level = FM_MIN(CLAIM(q->slot->level), (uint32_t)FM_LEVEL_RUNNING);

	return (enum fm_level)(q->deepest ? FM_MIN(level, q->deepest) : level);
}

/* watch.c: the group's deadline was set, for the first time or again. */
void group_deadline(struct fm_bridge_group *g);
void group_end_jobs(struct fm_bridge *b); /* at the end of each call */
/* Tell the watcher, if there is one. group_note() comes after anything that may have made a group
 * busy or idle. */
void group_came(struct fm_bridge *b, struct fm_bridge_group *g);
void group_goes(struct fm_bridge *b, struct fm_bridge_group *g);
void group_edge(struct fm_bridge *b, struct fm_bridge_group *g, uint64_t at);
static inline void group_note(struct fm_bridge *b, struct fm_bridge_group *g, uint64_t at)
{
	if (g->watch || g->deadline)
		group_edge(b, g, at);
}
void group_rested(struct fm_bridge *b, struct fm_bridge_group *g, uint64_t took, uint64_t at);

/* note.c: what happened, for a trace. Without a tracer each note costs a probe and a branch. */
void note_out(struct fm_bridge *b, const struct fm_bridge_note *n);
void note_queue(struct fm_bridge *b, enum fm_trace_event event, const struct queue *q, uint64_t at);
void note_ent(struct fm_bridge *b, enum fm_trace_event event, const struct ent *e,
	struct fm_bridge_group *cause, const char *reason, uint64_t took, uint64_t at);

void note_policy(struct fm_bridge *b, uint64_t now);
void note_memory(struct fm_bridge *b, enum fm_trace_event event, struct fm_bridge_group *g,
	const struct bdevice *d, struct fm_bridge_group *cause, const uint64_t *arg);

#define NOTES(b) FM_UNLIKELY((b)->tracer.note != NULL)
/* g and d may be NULL constants of their types. */
#define NOTE_GROUP(b, ev, g, at_, reason_, a, b_, c)                                             \
	do {                                                                                     \
		FM_PROBE(ev, (uint64_t)(at_), (g)->name, (const char *)NULL,                     \
			(const char *)(reason_), (uint64_t)(a), (uint64_t)(b_));                 \
		if (NOTES(b))                                                                    \
			note_out(b,                                                              \
				&(struct fm_bridge_note){.event = FM_EV_##ev,                    \
					.at = at_,                                               \
					.group = g,                                              \
					.reason = reason_,                                       \
					.arg = {(uint64_t)(a), (uint64_t)(b_), (uint64_t)(c)}}); \
	} while (0)
/* took: for the events that have a duration. */
#define NOTE_ENT(b, ev, e, cause, reason, took, at)                           \
	do {                                                                  \
		FM_PROBE(ev, (uint64_t)(at), (e)->group->name, (e)->dev->key, \
			(const char *)(reason), (uint64_t)(took), 0);         \
		if (NOTES(b))                                                 \
			note_ent(b, FM_EV_##ev, e, cause, reason, took, at);  \
	} while (0)
/* d and cause may be NULL. */
#define NOTE_MEMORY(b, ev, g, d, cause, a, b_, c)                                       \
	do {                                                                            \
		FM_PROBE(ev, (uint64_t)(b)->now, (g)->name, (const char *)NULL,         \
			(const char *)NULL, (uint64_t)(a), (uint64_t)(b_));             \
		if (NOTES(b))                                                           \
			note_memory(b, FM_EV_##ev, g, d, cause,                         \
				(const uint64_t[FM_TRACE_ARGS]){                        \
					(uint64_t)(a), (uint64_t)(b_), (uint64_t)(c)}); \
	} while (0)
#define NOTE_QUEUE(b, ev, q, at)                                                        \
	do {                                                                            \
		FM_PROBE(ev, (uint64_t)(at), (q)->ent->group->name, (q)->ent->dev->key, \
			(const char *)NULL, (q)->id, (q)->client->pid);                 \
		if (NOTES(b))                                                           \
			note_queue(b, FM_EV_##ev, q, at);                               \
	} while (0)

/* bridge.c. Settle: look again at entities whose bells changed, wake clients whose gates changed.
 */
void queue_free(struct fm_bridge *b, struct queue *q, uint64_t now);
void bridge_settle(struct fm_bridge *b, uint64_t now);
