/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bridge passes what boards show to the scheduler core, and the core's decisions back to the
 * boards. The daemon and local mode use the same code: the daemon with clients of other processes,
 * local mode with those of its own. It uses no sockets and no clock.
 *
 * What a board says is a claim of its client. It is read once and clamped, and it can harm only
 * that client.
 *
 * Owns: the core, the groups, the devices, and its side of each client's board.
 * Locks: none.
 * Threads: one at a time, its owner. That is the daemon's loop, or in local mode the holder of the
 * link's lock.
 */
#pragma once
#include "base/pci.h"
#include "board/board.h"
#include "board/gates.h"
#include "board/ledger.h"
#include "board/proto.h"
#include "sched/sched.h"
#include "trace/event.h"
#include <sys/types.h>

struct fm_bridge;
struct fm_bridge_client; /* one board */
/* One scheduling group: the queues of the clients of one process, or of all clients of one user
 * that give the group's name. */
struct fm_bridge_group;

/* Where a device is: its NUMA node, -1: not known; and the bridge between it and the host, which
 * devices share that have the same, "": not known. */
struct fm_bridge_place {
	int node;
	char link[FM_PCI_BRIDGE];
};

struct fm_bridge_host {
	/* A gate of this client changed while its agent slept (board->agent_sleeps): wake it. */
	void (*wake)(void *client_ctx);
	/* A hint of a group of this client has another value than the client last gave: tell the
	 * client, so that it can tell the next daemon. May be NULL. */
	void (*hint)(void *client_ctx, uint32_t group, enum fm_hint h, int64_t value);
	/* The other client has the same pid and user. Is it of the same process, and is that client
	 * still there? The pid may belong to another process by now. NULL: the answer is no. */
	bool (*one_process)(void *client_ctx, void *other_ctx);
	/* The limits of the client's user; it returns NULL where there are no limits. If this is
	 * NULL, the limits of fm_bridge_set_limits() hold. */
	const struct fm_bridge_limits *(*limits)(void *client_ctx);
	/* Memory that the machine has left for what leaves devices; UINT64_MAX: not known. NULL: it
	 * is not looked at. */
	uint64_t (*host_left)(void);
	/* So much memory the client's process has of its own at most; UINT64_MAX: not known. May be
	 * NULL. */
	uint64_t (*host_own)(void *client_ctx);
	/* Where a device is, by its address on the bus. NULL: not known. */
	void (*place)(const char *bus, struct fm_bridge_place *place);
};

#define FM_HINT_BIT(h) (1u << (h))

/* The limits of a user, over all its clients (uid 0 has none). All zero: no limits. */
struct fm_bridge_limits {
	uint32_t groups, queues; /* 0: any number */
	uint64_t memory;         /* on each device, of all groups together; 0: any amount */
	uint64_t memory_host;    /* of the host, for what is not on devices; 0: any amount */
	uint32_t forbidden;      /* bits of hints that the user may not set */
	uint32_t bounded;        /* bits of hints that must stay within range[] */
	/* Bits of hints whose range has an end that is only the default for ordinary users. Members
	 * of the Unix group `group` are not bound by such an end; "": there is no such group. */
	uint32_t ordinary;
	const char *group;
	struct {
		int64_t min, max;
	} range[FM_HINT_COUNT];
};

#define FM_SAME_MAX 512

/* How commands are stopped on the devices whose key matches (fnmatch(3)). */
struct fm_stop_rule {
	char device[FM_DEVKEY_MAX];
	/* Patterns between spaces: devices whose keys match one are this device, which `device'
	 * names then. No other rule's `same' matches them. "": none. */
	char same[FM_SAME_MAX];
	uint32_t level;    /* the deepest level; 0: not set */
	uint64_t guard_ns; /* FM_HINT_GUARD_FROM; FM_NEVER: not set */
	uint32_t pad;      /* FM_HINT_PAD, less FM_PAD_DEVICE; 0: not set */
};

int fm_bridge_new(struct fm_bridge **out, const struct fm_bridge_host *host);
void fm_bridge_free(struct fm_bridge *b); /* opens every gate first */
struct fm_sched *fm_bridge_sched(struct fm_bridge *b);
/* Sets the limits of every user, for hosts without limits(). What was granted before stays. */
void fm_bridge_set_limits(struct fm_bridge *b, const struct fm_bridge_limits *l);

/* Sets the rules of devices. For each setting the first matching rule that has it counts. Queues
 * that are there stay on their device, whatever `same' says since. A group's hints may override it
 * (FM_HINT_LEVEL: the lesser level holds; FM_HINT_GUARD_FROM). The rules hold from now on, also for
 * existing queues. The array must live until the next call. */
void fm_bridge_set_ways(
	struct fm_bridge *b, const struct fm_stop_rule *ways, unsigned n, uint64_t now);

/* Copies a comm and makes it printable. Programs choose their comm, and it gets into names, reports
 * and the log. */
void fm_bridge_plain(char *to, size_t size, const char *from);

/* Adds a client with its board and its group 0. That group is named "COMM-PID" and belongs to the
 * process: its other clients are in it, too, until they name another. Where the pid is not known
 * (0), the name is "COMM-uUID-N", with an N of the client's own; then no target and no task can
 * mean this process. The board stays mapped until detach.
 */
int fm_bridge_attach(struct fm_bridge *b, struct fm_bridge_client **out, struct fm_board *board,
	uid_t uid, pid_t pid, const char *comm, const char *api, void *client_ctx, uint64_t now);
/* Strict mode, before the client's first queue: its gate words are in this page, which stays mapped
 * until detach. The board's gate words say the same, for gates that were placed before the client
 * had the page. A gate that is closed in the page stays closed until a queue comes to it, or for a
 * second. */
void fm_bridge_gates(
	struct fm_bridge *b, struct fm_bridge_client *c, struct fm_gates *gates, uint64_t now);
/* Before the client's first message: the ledger of its device memory, which stays mapped until
 * detach. -ENOMEM. */
int fm_bridge_ledger(struct fm_bridge *b, struct fm_bridge_client *c, struct fm_ledger *ledger);
/*
 * Limits of cgroups, beside those of groups and users: each is of all its clients together. memory:
 * on each device; dmem: on devices by their address on the bus, as "0000:3b:00.0", of which at most
 * FM_BRIDGE_REGIONS count; UINT64_MAX: no limit. A cgroup is there until it was put as often as it
 * was got, and no client is in it then. True: the limit is another one, and its clients ask anew.
 */
#define FM_BRIDGE_CGROUPS 8 /* of a client */
#define FM_BRIDGE_REGIONS 16
struct fm_bridge_cgroup;
struct fm_bridge_dmem {
	char bus[FM_BUS_MAX]; /* the rest is zeros */
	uint64_t most;
};
struct fm_bridge_cgroup *fm_bridge_cgroup_get(struct fm_bridge *b, const char *path);
const char *fm_bridge_cgroup_path(const struct fm_bridge_cgroup *g);
void fm_bridge_cgroup_put(struct fm_bridge_cgroup *g);
bool fm_bridge_cgroup_limit(struct fm_bridge *b, struct fm_bridge_cgroup *g, uint64_t memory,
	const struct fm_bridge_dmem *dmem, unsigned n);
/* The same, but of `memory' alone. */
bool fm_bridge_cgroup_memory(struct fm_bridge *b, struct fm_bridge_cgroup *g, uint64_t memory);
/* The client is in these from now on, and no others. After fm_bridge_ledger(). */
void fm_bridge_client_cgroups(
	struct fm_bridge_client *c, struct fm_bridge_cgroup *const *list, unsigned n);
/* Removes the client's queues, and its groups unless another client shares them. Writes neither to
 * the board nor to the gates. */
void fm_bridge_detach(struct fm_bridge *b, struct fm_bridge_client *c, uint64_t now);

/* The work that is under way now, by the client's board. */
struct fm_bridge_client_work {
	uint64_t commands;
	bool stopped; /* some of it stands at a closed gate */
};
struct fm_bridge_client_work fm_bridge_client_work(const struct fm_bridge_client *c);

/* Handles one checked message: GROUP, HINT, QUEUE, QUEUE_GONE, SEGMENT, bells. Returns 0, or a
 * negative errno with text: -EBADMSG: the message is a lie, end the session; -EPERM, -EDQUOT,
 * -EEXIST, -ENOSPC, -ERANGE: refused, the session goes on.
 */
int fm_bridge_message(struct fm_bridge *b, struct fm_bridge_client *c, const union fm_msg *m,
	uint64_t now, struct fm_err *err);

/* Looks at this client's board: it rang, or a look is due. Part of fm_bridge_message(BELL). */
void fm_bridge_bell(struct fm_bridge *b, struct fm_bridge_client *c, uint64_t now);

/* For an owner that waits without sleeping. Has one of the entities that became idle last work
 * again, although its bell has not come yet? If so, it is handled as if the bell had come. */
bool fm_bridge_look(struct fm_bridge *b, uint64_t now);

/* Does what is due. Returns when to call again (absolute; FM_NEVER: no need). Call it after any of
 * the above. */
uint64_t fm_bridge_run(struct fm_bridge *b, uint64_t now);

/* For people: walk groups, their devices and queues. */
struct fm_bridge_group_info {
	const char *name;
	uint64_t id; /* as in struct fm_who; rising in the order of the walk */
	uid_t uid;
	const struct fm_hints *hints;
	int64_t priority; /* as policies see it: that of its segment or task, if it has one */
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
	uint32_t pad, padding, sms; /* as in the board, and bounded */
	uint64_t padded_ns;
	bool pad_apart; /* it could pad, but the urgent work is in another context */
	bool gate_open;
	const struct fm_board *board; /* of its client */
};
struct fm_bdevice_info {
	const char *key;
	uint32_t id; /* from 1 */
	const struct fm_hist *preempt;
	/* ns in which the device stood still because memory was missing, and in which memory moved
	 * beside a group that ran. */
	uint64_t exposed, hidden;
};
struct fm_bridge_group *fm_bridge_group_next(
	struct fm_bridge *b, struct fm_bridge_group *prev); /* NULL: first */
/* The first whose id is above `after`, or NULL. */
struct fm_bridge_group *fm_bridge_group_after(struct fm_bridge *b, uint64_t after);
uint64_t fm_bridge_group_id(const struct fm_bridge_group *g);
void fm_bridge_group_info(const struct fm_bridge_group *g, struct fm_bridge_group_info *info);
/* How a group kept its hint `deadline`. A job is a stretch in which the group has work on a device,
 * or is inside a declared segment. A job that was under way when the hint was set does not count. A
 * job that outlasts its deadline counts as missed from that moment, and as ended once it ends. */
struct fm_bridge_group_jobs {
	uint64_t deadline; /* ns; 0: none */
	uint64_t ended, missed;
};
struct fm_bridge_group_jobs fm_bridge_group_jobs(const struct fm_bridge_group *g, uint64_t now);

/* A group on a device. The core hears nothing of a group that is alone there, or under an order in
 * which no group waits. Then its boards say what it does, and how long it has run is taken from
 * them.
 */
struct fm_bent_info {
	const char *device;
	struct fm_ent_info ent;
	struct fm_account account;
	struct fm_linger linger;
	uint64_t device_ns;             /* device time used; never falling */
	uint64_t waits[FM_WAIT_BOUNDS]; /* fm_sched_ent_waits() */
};
void fm_bridge_group_each_ent(struct fm_bridge_group *g, uint64_t now,
	void (*fn)(void *arg, const struct fm_bent_info *info), void *arg);
void fm_bridge_group_each_queue(struct fm_bridge_group *g,
	void (*fn)(void *arg, const struct fm_bqueue_info *info), void *arg);
/* Stores a part of the group's queues: those with the lowest ids above `after`, in the order of
 * their ids. Returns how many; if fewer than FM_QUEUES_AT_ONCE, there are no more. */
#define FM_QUEUES_AT_ONCE 32
unsigned fm_bridge_group_queues_after(
	struct fm_bridge_group *g, uint32_t after, struct fm_bqueue_info info[FM_QUEUES_AT_ONCE]);
void fm_bridge_each_device(
	struct fm_bridge *b, void (*fn)(void *arg, const struct fm_bdevice_info *info), void *arg);
/* Calls that went through an XQueue, and calls that could not. Counted for the group's clients, or
 * for all clients that there have been. */
struct fm_bcoverage {
	uint64_t governed, ungoverned, undivided; /* undivided: part of governed, as in board.h */
	uint64_t images, images_left, kernels, kernels_left, images_ns;
};
struct fm_bcoverage fm_bridge_group_coverage(struct fm_bridge_group *g);
struct fm_bcoverage fm_bridge_coverage(struct fm_bridge *b);
/* A process of a group. Its usage and calls are those in all its groups, and are reported with only
 * one of them (own). */
struct fm_bprocess_info {
	pid_t pid;
	const char *comm, *api;
	bool own;
	struct fm_bcoverage calls;
	uint64_t device_ns; /* its part of what its groups used; never falling */
};
void fm_bridge_group_each_process(struct fm_bridge_group *g, uint64_t now,
	void (*fn)(void *arg, const struct fm_bprocess_info *info), void *arg);
/* The device memory of a group on one device, as its clients claim it. All sizes are of all its
 * clients together. */
struct fm_bmemory_info {
	const char *device;
	uint64_t capacity;
	uint64_t committed; /* at most the sum of the kinds, and of what is on its way */
	uint64_t kind[FM_MEM_KINDS];
	uint64_t peak;           /* at most: the clients' own peaks added up */
	uint64_t resident, host; /* of movable memory; */
	uint64_t mapped;         /* and what of it runs from the host */
	uint64_t hot;     /* of movable memory: what was named lately, as far as that is known */
	bool hot_unknown; /* of some client it is not, and all of its memory counts */
	uint64_t limit, request;                     /* 0: none */
	uint64_t refused;                            /* allocations; never falling */
	uint64_t went_out, came_in, kept, exchanged; /* bytes; never falling */
	/* So often memory was used that nothing had named, while it ran from the host; never
	 * falling. It was seen because it had changed; and all memory came in then. */
	uint64_t missed;
	bool by_write, all_came;
	/* Memory of the host that its clients have for what is not on the device, with copies that
	 * they only keep; of that, what is not on the device's NUMA node; and that node, or -1. */
	uint64_t host_has, host_strayed;
	int node;
	bool managed;     /* it may be moved */
	bool early;       /* what is out runs from the host, and comes while the program runs */
	uint32_t trouble; /* enum fm_mem_trouble: the worst of its clients */
	bool lies; /* a client has said what cannot be: counters that fall, more than there is */
	uint64_t turn; /* when its next turn begins, where memory is planned; FM_NEVER: not known */
};
void fm_bridge_group_each_memory(struct fm_bridge_group *g,
	void (*fn)(void *arg, const struct fm_bmemory_info *info), void *arg);
/* What pins memory of the group's processes, by name, each once: as they say. Returns how many. */
#define FM_BPINS 32
unsigned fm_bridge_group_pins(const struct fm_bridge_group *g, struct fm_mem_pin pins[FM_BPINS]);
/* What is known of its processes' kernels, as they say, together. False: nothing. */
bool fm_bridge_group_foretold(const struct fm_bridge_group *g, uint64_t foretold[FM_MEM_FORETOLDS]);
/* 0: not known, or not set. host: beyond it and the device's memory no limit can be set. device: a
 * device counts as having no more. */
struct fm_mem_policy;
#define FM_BRIDGE_NODES 16
struct fm_bridge_memory {
	uint64_t host, device;
	const struct fm_mem_policy *policy; /* NULL: the default */
	/* A group's turn ends when it ends, though memory for the next one could come in beside
	 * it. */
	bool turns;
	/* Nothing comes in to a device while something goes out of it. */
	bool one_way;
	/* A group that others have waited for keeps its memory for this part of that time. */
	uint32_t keep_percent;
	/* Memory of the host for what is not on devices, of all users together: in all, 0: as the
	 * machine has room; and of NUMA nodes. */
	uint64_t away;
	struct fm_bridge_node {
		int node;
		uint64_t most;
	} node[FM_BRIDGE_NODES];
	unsigned nodes;
};
/* Sets them, and lets each client ask again: the limits of users may have changed, too. */
void fm_bridge_memory_settings(struct fm_bridge *b, const struct fm_bridge_memory *m);
/* The names and counts of the ungoverned and undivided calls, of the group's clients together.
 * Stores at most max; returns how many.
 */
unsigned fm_bridge_group_calls(struct fm_bridge_group *g, struct fm_call *calls, unsigned max);

/* Calls fn for each group that TARGET names: a pid (all groups of that process), a group name, or a
 * queue id written "qN". Returns how many. fn returns 0 to go on, FM_TARGET_NOT to go on as if this
 * group were not there, anything else to stop. */
#define FM_TARGET_NOT 1
int fm_bridge_target(struct fm_bridge *b, const char *target,
	int (*fn)(void *arg, struct fm_bridge_group *g), void *arg);
/* Sets a hint; -EPERM outside the limits of the user who asks (NULL: no limits). */
int fm_bridge_group_hint(struct fm_bridge *b, struct fm_bridge_group *g,
	const struct fm_bridge_limits *by, enum fm_hint h, int64_t v, uint64_t now,
	struct fm_err *err);
/* Would fm_bridge_group_hint() take the value? Both must say so: by the limits of the user; and by
 * the memory that there is, for a group or for one that does not exist yet (NULL). */
int fm_bridge_allows(
	const struct fm_bridge_limits *by, enum fm_hint h, int64_t v, struct fm_err *err);
int fm_bridge_memory_allows(struct fm_bridge *b, const struct fm_bridge_group *g, enum fm_hint h,
	int64_t v, struct fm_err *err);
void fm_bridge_group_suspend(
	struct fm_bridge *b, struct fm_bridge_group *g, bool suspended, uint64_t now);

/* Suspends a group, and asks its clients to move their memory to the host. -EOPNOTSUPP: none of it
 * can be moved. -EPERM: it is to stay (memory-pin). -EBUSY: a process of it works for another
 * group, too, which is not suspended. */
int fm_bridge_group_out(
	struct fm_bridge *b, struct fm_bridge_group *g, uint64_t now, struct fm_err *err);
/* The opposite: the group goes on when all of its memory is in, unless it is suspended once more
 * before. False: none of it was put out, for it or for another group of its processes. */
bool fm_bridge_group_back(struct fm_bridge *b, struct fm_bridge_group *g, uint64_t now);
/* Where the memory of its clients is, as they claim. All sizes in bytes. */
struct fm_bridge_away {
	enum fm_mem_wish wish;
	unsigned processes;               /* with memory that can be moved */
	uint64_t movable, resident, host; /* what is neither resident nor on the host is empty */
	uint64_t stays;                   /* all other memory; */
	uint64_t pinned, wished;          /* of that: pinned; and by memory-pin */
	bool goes_on;                     /* once its memory is in */
	enum fm_mem_trouble trouble;      /* what one of them says */
};
void fm_bridge_group_away(const struct fm_bridge_group *g, struct fm_bridge_away *a);

/* Memory that cannot leave a device: a budget of the host's memory is used up. */
enum fm_host_by {
	FM_HOST_FREE, /* none is */
	FM_HOST_USER, /* memory_host in [limits]: that of `uid' */
	FM_HOST_NODE, /* host_nodes in [memory]: that of `node' */
	FM_HOST_ALL,  /* host in [memory] */
	FM_HOST_LEFT  /* what the machine has left */
};
struct fm_bridge_host_short {
	enum fm_host_by by;
	uint64_t bytes, limit; /* that cannot go; and what there is in all */
	uid_t uid;             /* whose memory it is */
	int node;
};

/* Why the memory of a group is out. */
enum fm_bridge_out { FM_OUT_NOT, FM_OUT_HAND, FM_OUT_IDLE, FM_OUT_DEMAND };
struct fm_bridge_out_info {
	enum fm_bridge_out why;
	bool moving;       /* on its way out or in */
	uint64_t since;    /* by demand or idle: when it was asked to go out, or in */
	uint64_t held_for; /* it waits for its memory for so long now; 0: it does not wait */
	uint64_t held;     /* all such times together; never falling */
	const char *cause; /* the group that needed the room, or "" */
	uid_t cause_uid;   /* whose that is */
	bool apart;        /* it did not go out in time, and counts as pinned for a while */

	uint64_t missing, movable; /* bytes that are not on the devices, of so many */
	/* Until they are: as planned, or as fast as memory comes in now; FM_NEVER: not foreseen. */
	uint64_t in;
	uint64_t rate; /* bytes a second, where memory of it comes in; 0: none does, or not known */
	/* Those that have turns on its device, it included, and how much more they have than there
	 * is room for. 0: memory has room, or is out for other reasons. */
	unsigned together;
	uint64_t over;
	/* Memory of another group, or of its own, stays on the device, for the host has no room for
	 * it; by: whose budget that is. */
	struct fm_bridge_host_short host;
};
void fm_bridge_group_out_info(
	const struct fm_bridge_group *g, uint64_t now, struct fm_bridge_out_info *i);

/*
 * For an admission control, which watches groups and grants places to them (fm_sched_grant()).
 * Callbacks come during a call and must not call back; only group() may watch, unwatch and grant.
 */
struct fm_bridge_group_edge {
	uint64_t at;
	bool busy;     /* it works on a device, or is inside a declared segment */
	bool declared; /* if no longer busy: it was inside a declared segment meanwhile */
};
struct fm_bridge_watcher {
	void *ctx;
	/* A group came into being, or its name or clients changed; or it ends. */
	void (*group)(void *ctx, struct fm_bridge_group *g, bool ends);
	void (*edge)(void *ctx, void *watch, const struct fm_bridge_group_edge *edge);
	/* A group was suspended by hand, or goes on. */
	void (*suspended)(void *ctx, struct fm_bridge_group *g);
	/* A group came to rest, `took' after its gates were closed. */
	void (*rested)(void *ctx, const struct fm_bridge_group *g, uint64_t took, uint64_t at);
};
void fm_bridge_watcher(struct fm_bridge *b, const struct fm_bridge_watcher *w);
/* watch is what edge() receives. NULL ends the watch, and the grant with it. A group has only one
 * watch. */
void fm_bridge_group_watch(
	struct fm_bridge *b, struct fm_bridge_group *g, void *watch, uint64_t now);
void *fm_bridge_group_watched(const struct fm_bridge_group *g);
void fm_bridge_group_grant(struct fm_bridge *b, struct fm_bridge_group *g, enum fm_grant grant,
	int64_t place, uint64_t now);
/* The device time that the group was charged, never falling, and the number of its devices. */
uint64_t fm_bridge_group_used(const struct fm_bridge_group *g, uint64_t now, unsigned *devices);
bool fm_bridge_group_is(const struct fm_bridge_group *g, uid_t uid, const char *name);
bool fm_bridge_group_is_own(
	const struct fm_bridge_group *g, pid_t pid); /* is it that process's group 0? */

/*
 * For a trace: everything that happens here, as it happens (trace/event.h). Callbacks come during a
 * call and must not call back, except to ask about what they are handed.
 */
struct fm_bridge_note {
	enum fm_trace_event event;
	uint64_t at;
	struct fm_bridge_group *group, *cause; /* or NULL */
	uint32_t device;                       /* 0: none */
	const char *device_key, *reason;       /* or NULL; the reason lives only for this call */
	const struct fm_bqueue_info *queue;
	uint64_t arg[FM_TRACE_ARGS];
};
struct fm_bridge_tracer {
	void *ctx;
	void (*note)(void *ctx, const struct fm_bridge_note *n); /* NULL: no tracer */
};
void fm_bridge_tracer(struct fm_bridge *b, const struct fm_bridge_tracer *t);
/* Hears of each job at once, also of a group that is alone on a device. This costs two bells for
 * each job. */
void fm_bridge_exact(struct fm_bridge *b, bool exact, uint64_t now);
/* Tell the tracer, which must be set, how things are now: the policy, then the groups, a part with
 * each call. Of a group its queues come first, then what it does. Zero the struct before the first
 * part. False: that was the last part. */
struct fm_bridge_told {
	uint64_t groups; /* all groups up to this number were told */
	uint64_t inside; /* this group was begun, if it is the next: */
	uint32_t queues; /* its queues up to this number were told */
};
void fm_bridge_note_policy(struct fm_bridge *b, uint64_t now);
bool fm_bridge_note_part(struct fm_bridge *b, struct fm_bridge_told *told, uint64_t now);
uid_t fm_bridge_group_uid(const struct fm_bridge_group *g);
const char *fm_bridge_group_name(const struct fm_bridge_group *g);
/* The tracer's own word about a group. It starts as 0, and is 0 again when the group's name
 * changes. */
uint32_t *fm_bridge_group_mark(struct fm_bridge_group *g);
