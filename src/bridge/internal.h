/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the bridge: who owns what. clients -> members -> groups -> entities -> queues <- clients.
 */
#pragma once
#include "base/clock.h"
#include "base/list.h"
#include "bridge.h"
#include "trace/trace.h"

/* A device lives as long as the bridge, so each user may introduce only so many. */
#define USER_DEVICES 32
/* Strict mode: the closed gate of a queue that is said to be gone opens when the client is next let
 * run, or after so long: gates in graphs may look at it, and a client may lie. */
#define GONE_GATE FM_S
/* So long an entity stays without queues: what its policy remembers of it, a debt, a budget, is not
 * to be forgotten where a program makes a queue for each of its jobs. */
#define STAYS FM_S
/* A device leaves the work of one process for that of another after so long: an H100 after 2 ms,
 * and it takes 0.15 ms for that. */
#define DEVICE_TURN (2200 * FM_US)
/* Entities whose boards are looked at while the owner waits for events. */
#define HEARD_BUDGET 32
/* Clients of a process that hear of a hint which another of them gave. */
#define SIBLINGS_TOLD 16
/* Entities looked at again within one call, before others get their turn. */
#define RECHECK_BUDGET 256

struct user {
	struct fm_list link;
	uid_t uid;
	uint32_t groups, queues, devices;
};

struct bdevice {
	struct fm_list link;
	struct fm_sched_dev *sdev;
	uint32_t id;
	const char *key;
	struct fm_list ents;
	unsigned n_ents;
	uint64_t round;      /* last fm_bridge.round that looked at it */
	unsigned background; /* processes of groups with a priority below 0: none, one, more */
	struct ent *first;   /* never waits for another; NULL: there is none */
};

/* One group on one device. */
struct ent {
	struct fm_list in_group, in_device, in_recheck;
	struct fm_list in_heard; /* it is idle, and a bell is asked for */
	struct fm_list in_left;  /* it has no queues, */
	uint64_t left_at;        /* since then */
	struct fm_bridge_group *group;
	struct bdevice *dev;
	struct fm_sched_ent *sent;
	struct fm_list queues;
	bool gate_open, works; /* works: as a trace was told */
	uint32_t bells;
	struct fm_bridge_group *closed_for; /* whom the policy chose instead, or NULL */
	uint64_t closed_at, ready_at;
	uint64_t quiet_done, quiet_since; /* closed: commands finished by then, and none since */
	uint64_t usage_gone;              /* of queues that left */
	uint64_t used, used_at, used_by;  /* told so far; when, and by which usage */
	uint64_t seen_used, seen_idle;    /* as it was last looked at */
	uint64_t dealt, dealt_at; /* of what it used, what its queues have been told; when */
	uint64_t unheard; /* device time while the core heard nothing and counted it as idle */
	uint64_t round;   /* last fm_bridge.round that looked at it */
};

struct queue {
	struct fm_list in_ent, in_client;
	struct fm_bridge_client *client;
	struct member *member;
	struct ent *ent;
	struct fm_slot *slot;
	uint32_t number, id, levels;
	uint32_t deepest;           /* as its board was told: at most; 0: as deep as it can */
	uint64_t since;             /* joined */
	uint64_t usage_base, usage; /* claimed when it joined; believed since, never falling */
	uint64_t device_ns;         /* its part of what its entity used, */
	uint64_t dealt;             /* by its usage, which was that much then */
};

/* Client and group: group index `index` of the client. */
struct member {
	struct fm_list in_group;
	struct fm_bridge_client *client;
	struct fm_bridge_group *group; /* NULL: the index is unused */
	uint32_t index;
	uint32_t segments; /* open */
	uint32_t beyond;   /* those that were too many: they end first */
	uint32_t said;     /* hints that the client gave it, bits */
};

struct fm_bridge_group {
	struct fm_list link;
	struct fm_bridge *bridge;
	struct fm_sched_group *sgroup;
	struct user *user;
	uint32_t mark;    /* of whoever records it */
	const char *name; /* the core keeps it */
	struct fm_list members, ents;
	uint64_t used_gone; /* charged on devices that it left */

	/* It is that of the clients of this process that name none. 0: it has a name, or the
	 * process is not known. */
	pid_t pid;
	uint32_t said;                /* hints that a client gave, bits, */
	int64_t first[FM_HINT_COUNT]; /* and what the first word on each was */

	/* watch.c */
	void *watch;
	bool busy;     /* as the watcher was told */
	bool declared; /* inside a declared segment since it became busy */
	/* Of one with a deadline (watch.c). */
	uint64_t deadline;    /* the hint; 0: none, and the rest is not kept up */
	bool works;           /* it is busy, */
	bool counts;          /* and was not when it got its deadline: this job can be judged, */
	uint64_t job_at;      /* which began then */
	struct fm_list ended; /* in that of the bridge: it seems to have ended, */
	uint64_t ended_at;
	uint64_t jobs, missed;
};

struct fm_bridge_client {
	struct fm_list link, in_dirty;
	struct fm_board *board;
	struct fm_gates *gates; /* strict mode, else NULL */
	struct fm_list in_gone;
	uint64_t gone[FM_BOARD_SLOTS / 64]; /* slots without a queue whose gate is closed, bits */
	uint64_t gone_at;                   /* when they open */
	struct user *user;
	pid_t pid;       /* 0: of another namespace, not known */
	uint32_t number; /* unique for the life of the bridge */
	char comm[16], api[16];
	void *ctx;
	struct fm_list queues;
	uint64_t device_gone; /* of queues that left */
	bool makes_room;      /* as its board was told */
	struct member first,
		*more; /* groups 0 and, if it ever names one, 1 to FM_BOARD_GROUPS - 1 */
};

/* NULL: a group that the client has not named. */
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
	struct fm_list clients, groups, devices, users;
	struct fm_list recheck; /* entities whose bells changed */
	struct fm_list heard;   /* entities whose next work is to be heard of, the latest first */
	struct fm_list dirty;   /* clients whose gates changed */
	struct fm_list ended;   /* groups whose job has, perhaps */
	struct fm_list gone;    /* clients with gates that no queue has */
	struct fm_list left;    /* entities without queues, in the order of their times */
	uint64_t policies; /* fm_sched_policies() when clients were last told what they share */
	uint64_t now;      /* of the call in progress, for callbacks without a time */
	uint64_t round;
	uint32_t next_queue, next_device, next_client;
	struct fm_bcoverage past; /* of clients that are gone */
	bool closing;             /* every gate is to stay open: decisions no longer count */
};

/* A board's word, read once. */
#define CLAIM(word) atomic_load_explicit(&(word), memory_order_acquire)

extern const struct fm_sched_host bridge_sched_host;

/* info.c */
void queue_info(const struct queue *q, struct fm_bqueue_info *info);
void client_coverage(const struct fm_bridge_client *c, struct fm_bcoverage *sum);

/* ent.c */
struct ent *ent_get(
	struct fm_bridge *b, struct fm_bridge_group *g, struct bdevice *d, uint64_t now);
void ent_put(struct fm_bridge *b, struct ent *e, uint64_t now); /* a queue has left it */
void ent_end(struct fm_bridge *b, struct ent *e, uint64_t now); /* it has none; frees it */
/* End those whose time is over. Returns when that is next. */
uint64_t ents_run(struct fm_bridge *b, uint64_t now);
void ent_refresh(struct fm_bridge *b, struct ent *e, uint64_t now);
void ents_forget(struct fm_bridge *b, const struct fm_bridge_group *g); /* it goes */
void ent_attach_queue(struct fm_bridge *b, struct ent *e, struct queue *q);
void ent_detach_queue(struct ent *e, struct queue *q, uint64_t now);
uint64_t queue_usage(struct queue *q, uint64_t now);
/* What it used of the device, dealt out to its queues up to now. */
uint64_t ent_deal(struct ent *e, uint64_t now);
/* Count what it did unheard: whenever somebody asks, and before the core hears of it again. */
void ent_look(struct ent *e, uint64_t now);
void client_contended(struct fm_bridge *b, struct fm_bridge_client *c);
void client_dirty(struct fm_bridge *b, struct fm_bridge_client *c); /* wake it, if it sleeps */
int64_t group_rank(const struct fm_bridge_group *g); /* by its hints, or the segment it is inside */
void group_hinted(struct fm_bridge *b, struct fm_bridge_group *g); /* another rank, perhaps */
void policy_changed(struct fm_bridge *b);
void device_refresh(struct fm_bridge *b, struct bdevice *d);

/* group.c */
struct member *member_make(struct fm_bridge_client *c, uint32_t index); /* NULL: out of memory */
struct user *user_get(struct fm_bridge *b, uid_t uid);
void user_put(struct user *u);
int member_get(struct fm_bridge *b, struct member *m, uint64_t now, struct fm_err *err);
int member_name(
	struct fm_bridge *b, struct member *m, const char *name, uint64_t now, struct fm_err *err);
void member_leave(struct fm_bridge *b, struct member *m, uint64_t now);

/* limits.c. Of a client's user; NULL: none. */
const struct fm_bridge_limits *client_limits(
	const struct fm_bridge *b, const struct fm_bridge_client *c);
/* A new group's hints: their defaults, or the nearest that the limits allow. */
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
/* The queue is gone, or is there. */
void gate_leave(struct fm_bridge *b, struct queue *q, uint64_t now);
void gate_enter(struct queue *q);
/* What no queue has opens: of this client; of all whose time has come. Returns when that is next.
 */
void gate_open_gone(struct fm_bridge_client *c);
uint64_t gate_run(struct fm_bridge *b, uint64_t now);

/* way.c: how its queues are stopped, to their boards: of one that came, of all. */
void way_store(struct fm_bridge *b, struct queue *q);
void group_ways(struct fm_bridge *b, struct fm_bridge_group *g);
static inline enum fm_level way_level(const struct queue *q)
{
	uint32_t level = FM_MIN(CLAIM(q->slot->level), (uint32_t)FM_LEVEL_RUNNING);

	return (enum fm_level)(q->deepest ? FM_MIN(level, q->deepest) : level);
}

/* watch.c: its deadline was set, or is set anew. */
void group_deadline(struct fm_bridge_group *g);
void group_end_jobs(struct fm_bridge *b); /* at the end of each call */
/* To whom it may concern. note: after whatever may have made a group busy or idle. */
void group_came(struct fm_bridge *b, struct fm_bridge_group *g);
void group_goes(struct fm_bridge *b, struct fm_bridge_group *g);
void group_edge(struct fm_bridge *b, struct fm_bridge_group *g, uint64_t at);
static inline void group_note(struct fm_bridge *b, struct fm_bridge_group *g, uint64_t at)
{
	if (g->watch || g->deadline)
		group_edge(b, g, at);
}
void group_rested(struct fm_bridge *b, struct fm_bridge_group *g, uint64_t took, uint64_t at);

/* note.c: what happened, for a trace. With nobody interested each is a probe and a branch. */
void note_out(struct fm_bridge *b, const struct fm_bridge_note *n);
void note_queue(struct fm_bridge *b, enum fm_trace_event event, const struct queue *q, uint64_t at);
void note_ent(struct fm_bridge *b, enum fm_trace_event event, const struct ent *e,
	struct fm_bridge_group *cause, const char *reason, uint64_t took, uint64_t at);

void note_policy(struct fm_bridge *b, uint64_t now);

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
/* took: where the event has that. */
#define NOTE_ENT(b, ev, e, cause, reason, took, at)                           \
	do {                                                                  \
		FM_PROBE(ev, (uint64_t)(at), (e)->group->name, (e)->dev->key, \
			(const char *)(reason), (uint64_t)(took), 0);         \
		if (NOTES(b))                                                 \
			note_ent(b, FM_EV_##ev, e, cause, reason, took, at);  \
	} while (0)
#define NOTE_QUEUE(b, ev, q, at)                                                        \
	do {                                                                            \
		FM_PROBE(ev, (uint64_t)(at), (q)->ent->group->name, (q)->ent->dev->key, \
			(const char *)NULL, (q)->id, (q)->client->pid);                 \
		if (NOTES(b))                                                           \
			note_queue(b, FM_EV_##ev, q, at);                               \
	} while (0)

/* bridge.c. Settle: look again where bells changed, wake whose gates changed. */
void queue_free(struct fm_bridge *b, struct queue *q, uint64_t now);
void bridge_settle(struct fm_bridge *b, uint64_t now);
