/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bridge carries what boards show to the scheduler core, and the core's decisions back to the
 * boards. The daemon drives it with clients of other processes, local mode with its own: one code
 * for both. No sockets, no clock.
 *
 * What a board says is a claim of its client: it is read once, clamped and can harm that client
 * alone.
 *
 * Owns: the core, the groups, the devices, and its side of each client's board.
 * Locks: none.
 * Threads: one at a time, its owner: the daemon's loop, or the holder of the link's lock in local
 * mode.
 */
#pragma once
#include "board/board.h"
#include "board/gates.h"
#include "board/proto.h"
#include "sched/sched.h"
#include "trace/event.h"
#include <sys/types.h>

struct fm_bridge;
struct fm_bridge_client; /* one board */
/* One scheduling group: the queues of the clients of one process, or of all clients of a user that
 * give its name. */
struct fm_bridge_group;

struct fm_bridge_host {
	/* A gate of this client changed while its agent slept (board->agent_sleeps): wake it. */
	void (*wake)(void *client_ctx);
	/* An operator changed a hint of a group of this client: let the client know, so that it can
	 * tell the next daemon. May be NULL. */
	void (*hint)(void *client_ctx, uint32_t group, enum fm_hint h, int64_t value);
	/* Is the client of the same process as this other one of its pid and user, and is the other
	 * still there? The pid may be that of another process by now. NULL: it never is. */
	bool (*one_process)(void *client_ctx, void *other_ctx);
	/* What the client's user may have; NULL: anything. Without it: fm_bridge_set_limits(). */
	const struct fm_bridge_limits *(*limits)(void *client_ctx);
};

#define FM_HINT_BIT(h) (1u << (h))

/* What a user may have, over all clients (uid 0 is not limited). All zero: anything. */
struct fm_bridge_limits {
	uint32_t groups, queues; /* 0: any number */
	uint32_t forbidden;      /* bits of hints that are not theirs to set */
	uint32_t bounded;        /* bits of those that must stay within range[] */
	/* Bits of those with an end that is only the default for ordinary users, and the group
	 * whose members have none; "": there is no such group. */
	uint32_t ordinary;
	const char *group;
	struct {
		int64_t min, max;
	} range[FM_HINT_COUNT];
};

/* How commands are stopped on the devices whose key matches (fnmatch(3)). */
struct fm_stop_rule {
	char device[FM_DEVKEY_MAX];
	uint32_t level;    /* at most; 0: not said */
	uint64_t guard_ns; /* FM_HINT_GUARD_FROM; FM_NEVER: not said */
};

int fm_bridge_new(struct fm_bridge **out, const struct fm_bridge_host *host);
void fm_bridge_free(struct fm_bridge *b); /* opens every gate first */
struct fm_sched *fm_bridge_sched(struct fm_bridge *b);
/* Of every user, where the host does not say. What was granted before stays. */
void fm_bridge_set_limits(struct fm_bridge *b, const struct fm_bridge_limits *l);

/* Of each thing the first that says it counts; groups may say otherwise (FM_HINT_LEVEL: the lesser;
 * FM_HINT_GUARD_FROM). From now on, also for queues that are there. Kept until the next call. */
void fm_bridge_set_ways(
	struct fm_bridge *b, const struct fm_stop_rule *ways, unsigned n, uint64_t now);

/* Programs choose their comm: what reaches names, reports and the log is printable. */
void fm_bridge_plain(char *to, size_t size, const char *from);

/* A client with its board and its group 0, named "COMM-PID": that of its process, which its other
 * clients are in until they name another. Or "COMM-uUID-N", N its own, where the pid is not known
 * (0): then no target and no task is this process. The board stays mapped until detach.
 */
int fm_bridge_attach(struct fm_bridge *b, struct fm_bridge_client **out, struct fm_board *board,
	uid_t uid, pid_t pid, const char *comm, const char *api, void *client_ctx, uint64_t now);
/* Strict mode, before its first queue: its gate words are in this page, which stays mapped until
 * detach; those of the board say the same, for gates that were placed before the client had it.
 * What is closed there stays so, until a queue comes to it, or for a second. */
void fm_bridge_gates(
	struct fm_bridge *b, struct fm_bridge_client *c, struct fm_gates *gates, uint64_t now);
/* Its queues leave, its groups too unless another client shares them. Writes nothing to the board,
 * or to the gates. */
void fm_bridge_detach(struct fm_bridge *b, struct fm_bridge_client *c, uint64_t now);

/* What its board says is under way now. */
struct fm_bridge_client_work {
	uint64_t commands;
	bool stopped; /* some of it at a closed gate */
};
struct fm_bridge_client_work fm_bridge_client_work(const struct fm_bridge_client *c);

/* One checked message of GROUP, HINT, QUEUE, QUEUE_GONE, SEGMENT, BELL. 0; or a negative errno with
 * text: -EBADMSG, a lie (end the session); -EPERM, -EDQUOT, -EEXIST: refused, the session goes on.
 */
int fm_bridge_message(struct fm_bridge *b, struct fm_bridge_client *c, const union fm_msg *m,
	uint64_t now, struct fm_err *err);

/* Look at this client's board: it rang, or it is time. Part of fm_bridge_message(BELL). */
void fm_bridge_bell(struct fm_bridge *b, struct fm_bridge_client *c, uint64_t now);

/* For who waits without sleeping: has one of those that were idle last work, of which no bell has
 * come yet? Then it is as if one had. */
bool fm_bridge_look(struct fm_bridge *b, uint64_t now);

/* Do what is due; returns when to call again (absolute, FM_NEVER: no need). Call after any of the
 * above. */
uint64_t fm_bridge_run(struct fm_bridge *b, uint64_t now);

/* For people: walk groups, their devices and queues. */
struct fm_bridge_group_info {
	const char *name;
	uint64_t id; /* as in struct fm_who; rising in the order of the walk */
	uid_t uid;
	const struct fm_hints *hints;
	int64_t priority; /* as policies see it: of a segment or a task, if it has one */
	bool suspended;
	unsigned clients, queues;
};
struct fm_bqueue_info {
	uint32_t id; /* unique for the life of the bridge: the queue id of the command line */
	pid_t pid;
	const char *comm, *api, *device;
	void *client_ctx;
	uint32_t slot, device_id;
	uint64_t since;
	uint32_t levels, level;
	uint64_t begun, done, device_ns, gates, held_ns, interrupts;
	bool gate_open;
};
struct fm_bdevice_info {
	const char *key;
	uint32_t id; /* from 1 */
	const struct fm_hist *preempt;
};
struct fm_bridge_group *fm_bridge_group_next(
	struct fm_bridge *b, struct fm_bridge_group *prev); /* NULL: first */
/* The first whose id is above `after`, or NULL. */
struct fm_bridge_group *fm_bridge_group_after(struct fm_bridge *b, uint64_t after);
uint64_t fm_bridge_group_id(const struct fm_bridge_group *g);
void fm_bridge_group_info(const struct fm_bridge_group *g, struct fm_bridge_group_info *info);
/* What became of a group's hint `deadline`. A job is a stretch in which the group has work on a
 * device, or is inside a declared segment; those that were under way when the hint was set do not
 * count. One that outlasts its deadline is missed from then on, and counts among the ended when it
 * has. */
struct fm_bridge_group_jobs {
	uint64_t deadline; /* ns; 0: none */
	uint64_t ended, missed;
};
struct fm_bridge_group_jobs fm_bridge_group_jobs(const struct fm_bridge_group *g, uint64_t now);

/* A group on a device. Of one that is alone there, or under an order in which nobody waits, the
 * core hears nothing: what it does then its boards say, and it runs, and has run, by what they say.
 */
struct fm_bent_info {
	const char *device;
	struct fm_ent_info ent;
	struct fm_account account;
	struct fm_linger linger;
	uint64_t device_ns;             /* that it used; never falling */
	uint64_t waits[FM_WAIT_BOUNDS]; /* fm_sched_ent_waits() */
};
void fm_bridge_group_each_ent(struct fm_bridge_group *g, uint64_t now,
	void (*fn)(void *arg, const struct fm_bent_info *info), void *arg);
void fm_bridge_group_each_queue(struct fm_bridge_group *g,
	void (*fn)(void *arg, const struct fm_bqueue_info *info), void *arg);
/* A part of its queues: those with the lowest ids above `after`, in the order of their ids. Returns
 * how many; fewer than FM_QUEUES_AT_ONCE: there are no more. */
#define FM_QUEUES_AT_ONCE 32
unsigned fm_bridge_group_queues_after(
	struct fm_bridge_group *g, uint32_t after, struct fm_bqueue_info info[FM_QUEUES_AT_ONCE]);
void fm_bridge_each_device(
	struct fm_bridge *b, void (*fn)(void *arg, const struct fm_bdevice_info *info), void *arg);
/* Calls that went through an XQueue, and calls that could not: of the group's clients; of all
 * clients there have been. */
struct fm_bcoverage {
	uint64_t governed, ungoverned, undivided; /* the last: of the first, as in board.h */
	uint64_t images, images_left, kernels, kernels_left, images_ns;
};
struct fm_bcoverage fm_bridge_group_coverage(struct fm_bridge_group *g);
struct fm_bcoverage fm_bridge_coverage(struct fm_bridge *b);
/* Its processes. What they have used and called is that of all their groups, and told with one of
 * these alone (own). */
struct fm_bprocess_info {
	pid_t pid;
	const char *comm, *api;
	bool own;
	struct fm_bcoverage calls;
	uint64_t device_ns; /* its part of what its groups used; never falling */
};
void fm_bridge_group_each_process(struct fm_bridge_group *g, uint64_t now,
	void (*fn)(void *arg, const struct fm_bprocess_info *info), void *arg);
/* Which calls the last two are, of the group's clients together: at most max names, and how many.
 */
unsigned fm_bridge_group_calls(struct fm_bridge_group *g, struct fm_call *calls, unsigned max);

/* Groups that TARGET names: a pid (all groups of that process), a group name, a queue id written
 * "qN". Calls fn for each; returns how many. fn returns 0; FM_TARGET_NOT: as if this group were not
 * there; anything else: it was the last. */
#define FM_TARGET_NOT 1
int fm_bridge_target(struct fm_bridge *b, const char *target,
	int (*fn)(void *arg, struct fm_bridge_group *g), void *arg);
/* Set a hint within the limits of who asks (NULL: none); -EPERM outside. Suspend, resume. */
int fm_bridge_group_hint(struct fm_bridge *b, struct fm_bridge_group *g,
	const struct fm_bridge_limits *by, enum fm_hint h, int64_t v, uint64_t now,
	struct fm_err *err);
/* Would fm_bridge_group_hint() take it? */
int fm_bridge_allows(
	const struct fm_bridge_limits *by, enum fm_hint h, int64_t v, struct fm_err *err);
void fm_bridge_group_suspend(
	struct fm_bridge *b, struct fm_bridge_group *g, bool suspended, uint64_t now);

/*
 * For an admission control, which watches groups and grants places to them (fm_sched_grant()).
 * Callbacks come in the midst of a call and must not call back, save that group() may watch and
 * unwatch, and grant.
 */
struct fm_bridge_group_edge {
	uint64_t at;
	bool busy;     /* works on a device, or is inside a declared segment */
	bool declared; /* of one that ends: a declared segment ended with it */
};
struct fm_bridge_watcher {
	void *ctx;
	/* A group came into being, has another name or one more client; or it ends. */
	void (*group)(void *ctx, struct fm_bridge_group *g, bool ends);
	void (*edge)(void *ctx, void *watch, const struct fm_bridge_group_edge *edge);
	/* A group whose gates were closed came to rest, so long after it. */
	void (*rested)(void *ctx, const struct fm_bridge_group *g, uint64_t took, uint64_t at);
};
void fm_bridge_watcher(struct fm_bridge *b, const struct fm_bridge_watcher *w);
/* watch is what edge() receives; NULL ends it, and with it the grant. A group is watched once. */
void fm_bridge_group_watch(
	struct fm_bridge *b, struct fm_bridge_group *g, void *watch, uint64_t now);
void *fm_bridge_group_watched(const struct fm_bridge_group *g);
void fm_bridge_group_grant(struct fm_bridge *b, struct fm_bridge_group *g, enum fm_grant grant,
	int64_t place, uint64_t now);
/* Device time that it was charged, never falling, and how many devices it is on. */
uint64_t fm_bridge_group_used(const struct fm_bridge_group *g, uint64_t now, unsigned *devices);
bool fm_bridge_group_is(const struct fm_bridge_group *g, uid_t uid, const char *name);
bool fm_bridge_group_is_own(
	const struct fm_bridge_group *g, pid_t pid); /* that process's group 0 */

/*
 * For a trace: everything that happens here, as it happens (trace/event.h). Callbacks come in the
 * midst of a call and must not call back, save for questions about what they are handed.
 */
struct fm_bridge_note {
	enum fm_trace_event event;
	uint64_t at;
	struct fm_bridge_group *group, *cause; /* or NULL */
	uint32_t device;                       /* 0: none */
	const char *device_key, *reason;       /* or NULL; the reason lives as long as this call */
	const struct fm_bqueue_info *queue;
	uint64_t arg[FM_TRACE_ARGS];
};
struct fm_bridge_tracer {
	void *ctx;
	void (*note)(void *ctx, const struct fm_bridge_note *n); /* NULL: nobody is interested */
};
void fm_bridge_tracer(struct fm_bridge *b, const struct fm_bridge_tracer *t);
/* Hear of each job at once, also of who is alone on a device. It costs two bells for each. */
void fm_bridge_exact(struct fm_bridge *b, bool exact, uint64_t now);
/* Tell the tracer, which there is, how things are now: the policy; then of groups a part at a time.
 * Of a group first its queues, then what it does. Zeroed before the first part; false: that was the
 * last. */
struct fm_bridge_told {
	uint64_t groups; /* those up to this number, whole, */
	uint64_t inside; /* and of this one, if it is the next, */
	uint32_t queues; /* the queues up to this number */
};
void fm_bridge_note_policy(struct fm_bridge *b, uint64_t now);
bool fm_bridge_note_part(struct fm_bridge *b, struct fm_bridge_told *told, uint64_t now);
uid_t fm_bridge_group_uid(const struct fm_bridge_group *g);
const char *fm_bridge_group_name(const struct fm_bridge_group *g);
/* The tracer's own word about a group, which starts as 0, and is again when it has another name. */
uint32_t *fm_bridge_group_mark(struct fm_bridge_group *g);
