/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simulates one or many machines in virtual time: devices, the programs that use them, and between
 * the two the scheduler core and the policies that the daemon runs. There is no I/O, no clock and
 * no floating point. The result depends only on the plan and its seed, on every machine, to the
 * last bit.
 *
 * A plan describes one machine, and how many of it there are. Machines do not affect each other, so
 * they may be simulated in any order and by several threads; their results are added up.
 *
 * Programs. A group does one job at a time; its other jobs wait in the order in which they arrived.
 * A job is a sequence of commands on the group's device and of pauses between them. With several
 * devices it is the same sequence on each. A group is ready while a command of it waits or runs.
 *
 * Devices. A device runs one command at a time, or as many as it has slots, of groups whose gates
 * are open. It serves several groups first come, first served, command by command or by slices.
 * What a closed gate stops, and when, depends on the level. The core hears of every edge at once,
 * or after `react`.
 *
 * Processors. A group may have one of the machine's processors for the parts of a job that compute.
 * The highest priority runs, and equals one after the other. A group that spins occupies the
 * processor while the device works for it, too. A group without a processor has no such parts.
 *
 * Memory. A device with a size has memory that src/mem plans: groups' extents move by a link with
 * two engines, and a group waits while what it uses next is not on the device. Commands are slower
 * while copies run, and where the group has to read memory that stayed on the host.
 *
 * Owns: the machines that are simulated, until their results are added up.
 * Locks: one, of the crew of threads (run.c). It guards which thread takes which part next, and the
 * sums.
 * Threads: the caller's, and as many more as it asks for. Each simulates parts of its own.
 */
#pragma once
#include "mem/mem.h"
#include "policy/policy.h"
#include "sched/sched.h"
#include <fermata/rta.h>
#include <stdatomic.h>

#define FM_SIM_PLACES  16 /* device sections that a group names */
#define FM_SIM_BEFORE  8  /* groups whose jobs a group's job may wait for */
#define FM_SIM_STEPS   32
#define FM_SIM_CPUS    1024
#define FM_SIM_COMMAND UINT64_C(100) /* ns; the shortest command, and time between arrivals */

#define FM_SIM_POINTS 16 /* of a distribution that was measured */

enum fm_sim_shape {
	FM_SIM_FIXED,
	FM_SIM_UNIFORM,
	FM_SIM_EXP,
	FM_SIM_NORMAL,
	FM_SIM_PARETO,
	FM_SIM_MEASURED,
};

/* At each point, `part' of 2^32 of all draws are at most `ns' long. Both ascend, parts from 0 to
 * 2^32. Between two points all times are equally likely. */
struct fm_sim_points {
	uint32_t n; /* from 2 */
	struct {
		uint64_t part, ns;
	} point[FM_SIM_POINTS];
};

/* A time at random. uniform: from a to b. exp: mean a. normal: mean a, deviation b, never below 0;
 * it is the sum of twelve uniform ones. pareto: least a, exponent b / 1000; at most a million a. */
struct fm_sim_dist {
	enum fm_sim_shape shape;
	uint64_t a, b;
	struct fm_sim_points *points; /* FM_SIM_MEASURED; the plan's owner owns them */
};

/* Can the time be more than 0? */
static inline bool fm_sim_takes_time(const struct fm_sim_dist *d)
{
	return d->a || d->b || d->points;
}

uint64_t fm_sim_draw(const struct fm_sim_dist *d, struct fm_rta_random *r);
/* In parts of 2^32; of log2, 0 < v. */
uint64_t fm_sim_log2(uint64_t v);
uint64_t fm_sim_exp2(uint32_t fraction); /* 2^32 to 2^33 */

struct fm_sim_device {
	const char *name;
	uint32_t count, slots;
	uint32_t level;   /* 1, 2 or 3 */
	uint64_t launch;  /* before each command */
	uint64_t spacing; /* level 2: device time between two gates, as far as commands fit */
	uint32_t lead;    /* level 2: gates beyond the next that are open when the word closes */
	uint64_t gate;    /* level 2: the cost of an open gate */
	uint64_t window;  /* level 1: device time of commands in the driver when the gate closes */
	uint64_t flush;   /* level 3: from the stop until the device is free; no work is done */
	uint64_t swtch;   /* the cost of a switch to another group */
	uint64_t open;    /* from a gate's opening, or the end of a job's input, until it goes on */
	/* The device's own turns among several groups. A group whose gate has closed takes part
	 * until it has come to rest. 0: no turns: command by command, and no other group runs
	 * before a group whose gate has closed has come to rest. */
	struct fm_sim_dist slice;
	/* Fair turns as Linux has them. A turn ends at the first tick at which the slice is used
	 * up. A group that comes gets the device before that only as ticks.c says. 0: no ticks */
	uint64_t tick;
	bool fair; /* the smallest share has the next turn; a group that comes runs at once. One
		      slot */
	/* Bytes; 0: memory is not modelled. context: of each group, besides its memory. host: for
	 * what is out, and for kept copies. */
	uint64_t memory, context, host;
	struct fm_mem_link link;
	/* Devices with the same number, but for 0, are behind one bridge of that rate, both ways
	 * and all devices together; 0: that of the link, both ways. */
	uint32_t bridge;
	uint64_t bridge_rate;
	uint32_t copy_cost; /* percent by which commands are slower while copies run */
};

enum fm_sim_arrival {
	FM_SIM_CLOSED,   /* `time` after the end of the job before; 0: always busy */
	FM_SIM_PERIODIC, /* `time` after the job before, the first at `phase`, each up to `jitter`
			    late */
	FM_SIM_BURSTS,   /* the same, `burst` jobs at once */
	FM_SIM_TRACE,    /* at the recorded times */
	FM_SIM_CHAIN,    /* recorded jobs, each its pause after the end of the job before */
	FM_SIM_AFTER,    /* when each of the groups `before` has ended a job */
};

struct fm_sim_step {
	bool pause; /* the step does not need the device */
	bool cpu;   /* the pause needs the processor */
	uint32_t times;
	struct fm_sim_dist time;
};

/* A job of a recorded arrival. */
struct fm_sim_record {
	uint64_t at, length; /* since the group's start; length 0: as the steps say */
	uint64_t pause;      /* FM_SIM_CHAIN: since the end of the job before */
	uint32_t commands;   /* equal parts of the length, one after the other; 0: one */
};

/* A hint of a group changes while the group is there. */
struct fm_sim_change {
	uint64_t at; /* since the group's start */
	enum fm_hint hint;
	int64_t value;
};

struct fm_sim_group {
	const char *name;
	uint32_t count;
	uint32_t
		user; /* from 1; if any group has one, policies that can divide among users first */
	struct fm_hints hints;
	uint64_t start,
		stop; /* joins, leaves (not before its recorded jobs ended); FM_NEVER: stays */
	uint32_t place[FM_SIM_PLACES], places;
	bool everywhere; /* on all of its devices at once; else each instance is on one of them */
	bool has_cpu, spins;
	uint32_t cpu, cpu_priority; /* larger: more urgent */
	enum fm_sim_arrival arrival;
	struct fm_sim_dist time;
	uint64_t phase, jitter;
	bool random_phase; /* within one `time` */
	uint32_t burst;
	const struct fm_sim_record *record;
	size_t records;
	const struct fm_sim_change *change; /* by time */
	size_t changes;
	uint32_t before[FM_SIM_BEFORE], befores;
	uint32_t queue; /* jobs that may wait; further ones are dropped */
	struct fm_sim_step step[FM_SIM_STEPS];
	uint32_t steps;
	uint64_t input; /* device time of a separate command that begins each job; 0: none */
	struct fm_sim_dist
		extra;     /* additional device time of a job, spread evenly over its commands */
	uint64_t deadline; /* of the response, until a hint changes; 0: no deadline */
	/* Memory on its device. It uses the first `set' bytes of it, each within `gap' of device
	 * time again (0: with every command), and writes `dirty' percent of these. */
	uint64_t memory, set, gap;
	uint32_t dirty;
	uint64_t request, limit; /* limit 0: the device */
};

/* How memory is managed, on devices that have a size. */
struct fm_sim_memory {
	const struct fm_mem_policy *policy; /* NULL: all memory fits */
	uint64_t reserve;                   /* of each device; FM_NEVER: fm_mem_reserve() */
	bool keep;     /* copies on the host are kept while they are valid and there is room */
	bool overtime; /* a group computes on beside moves that are late for the next one */
	/* Groups begin before their memory is in: each command brings in what it uses, and waits
	 * for that. Under policies that move memory ahead. */
	bool early;
};

struct fm_sim_plan {
	const struct fm_policy_ops *policy;
	const char *const *params; /* "key=value" */
	size_t n_params;
	uint64_t linger; /* FM_LINGER_AUTO: learnt */
	uint64_t react, duration;
	uint64_t late;   /* the core is called this much later than it asked for */
	uint64_t warmup; /* the first part of the duration; its events are not counted */
	uint64_t seed;
	uint32_t machines;
	const struct fm_sim_device *device;
	uint32_t devices;
	const struct fm_sim_group *group;
	uint32_t groups;
	bool forecast; /* forecast the next turns at each decision, and count what comes true */
	struct fm_sim_memory memory;
};

/* Events, for a watcher. */
enum fm_sim_what {
	FM_SIM_THERE, /* a device, before all else */
	FM_SIM_JOINS,
	FM_SIM_LEAVES,
	FM_SIM_ARRIVES, /* a job */
	FM_SIM_DROPS,   /* a job, since too many wait */
	FM_SIM_ENDS,    /* a job; ns: since its arrival */
	FM_SIM_HINTED,  /* the group's hint `nth` has changed to ns, which is signed */
	FM_SIM_READY,
	FM_SIM_IDLE,
	FM_SIM_OPENS,  /* the gate; reason */
	FM_SIM_CLOSES, /* the gate; reason */
	FM_SIM_RUNS,   /* the device works for it from now on */
	FM_SIM_STOPS,  /* the device stops working for it, the nth time; ns: of its commands only */
	FM_SIM_RESTS,  /* it came to rest; ns: the time since its gate closed */
	FM_SIM_DECIDED, /* about the device: sdev has the decision; the group is the first chosen */
	/* When all is over: */
	FM_SIM_STAYS, /* the group is there, with this entity; ns: device time it used */
	FM_SIM_AGED,  /* the device: sdev knows how long stops took */
	FM_SIM_OVER,  /* the last event of all: sched knows how much work the core had */
	FM_SIM_WHATS
};
#define FM_SIM_BIT(what) (1u << (what))

/* Pointers are valid only during the call. */
struct fm_sim_event {
	enum fm_sim_what what;
	uint64_t at, ns;
	uint32_t machine;
	uint32_t group, instance;       /* group of the plan, and its instance; FM_SIM_NOBODY */
	uint32_t device;                /* of the machine; FM_SIM_NO_DEVICE: of the whole group */
	uint32_t cause, cause_instance; /* CLOSES, RESTS: the first chosen instead; FM_SIM_NOBODY */
	uint64_t since;                 /* STOPS: when the device began to work for it */
	uint64_t deadline;              /* ENDS: of the response; 0: none */
	uint32_t nth, commands;         /* STOPS: commands that ended */
	const char *reason;
	struct fm_sched_ent *sent; /* NULL: the event is not about an entity */
	const struct fm_sched_dev *sdev;
	const struct fm_sched *sched;
};
#define FM_SIM_NO_DEVICE UINT32_MAX
#define FM_SIM_NOBODY    UINT32_MAX

struct fm_sim_watch {
	void (*event)(void *ctx, const struct fm_sim_event *e);
	void *ctx;
	uint32_t wants; /* bits of enum fm_sim_what */
};

/* Watchers for all machines. Each part of them (a machine, or one device of it) is watched by
 * itself. Parts are begun in the order of their numbers, by any thread. Each part that was begun is
 * ended by the same thread, also after a failure; `failed' tells end() so. A negative errno from
 * either call ends the whole run. */
struct fm_sim_audience {
	int (*begin)(void *ctx, uint64_t part, struct fm_sim_watch *watch);
	int (*end)(void *ctx, uint64_t part, struct fm_sim_watch *watch, bool failed);
	void *ctx;
};

/* The results of all instances of a group, on all machines. Percentiles are of single jobs. */
struct fm_sim_group_result {
	uint64_t instances;
	uint64_t arrivals, dropped, jobs, late; /* late: past the deadline, of jobs that ended */
	uint64_t served, overhead;              /* device time: of commands; besides */
	uint64_t present;                       /* entities times the time they were there */
	uint64_t share_min, share_max;          /* of one entity's time there, parts per million */
	uint64_t waits, preemptions;            /* ready without a gate; gates closed while ready */
	uint64_t left;                          /* jobs not ended at the end */
	struct fm_hist response;                /* from the arrival, whether served then or not */
	struct fm_sim_moved {
		uint64_t in, out; /* bytes copied */
		uint64_t kept;    /* bytes that went out without being copied */
		uint64_t missed;  /* bytes that commands read from the host */
		uint64_t held;    /* ns for which it was to run and waited for its memory */
		uint64_t longest; /* ns for which it had work and did not run */
	} moved;
};

struct fm_sim_device_result {
	uint64_t devices, time; /* time: of all slots together */
	uint64_t served, overhead;
	uint64_t switches;   /* from one group to another */
	struct fm_hist stop; /* gate closed to device free, as the core sees it */
	/* plan.forecast. turns: turns that were forecast. right: turns that came next; off: the sum
	 * of their errors in time. wrong: turns instead of which another group's came. For the
	 * rest, a group came, went, began or ended a job, or changed its hints before they were
	 * due. */
	struct fm_sim_foretold {
		uint64_t turns, right, off, wrong;
	} foretold;
	/* exposed: ns for which the device stood still because a group's memory was not in. hidden:
	 * ns for which it worked while memory moved. residue: bytes that came in while it stood. */
	struct fm_sim_device_moved {
		uint64_t in, out, kept, exposed, hidden, residue;
		uint64_t peak; /* the most bytes of extents that were there while some moved */
	} moved;
};

struct fm_sim_result {
	uint64_t machines; /* by fm_sim_run() */
	uint64_t events;   /* events: arrivals, ends of commands and pauses, stops, ticks */
	struct fm_sched_stats core;
	uint32_t groups, devices;
	struct fm_sim_group_result *group; /* as in the plan */
	struct fm_sim_device_result *device;
};

int fm_sim_result_init(struct fm_sim_result *r, const struct fm_sim_plan *p);
void fm_sim_result_free(struct fm_sim_result *r);
void fm_sim_result_merge(struct fm_sim_result *into, const struct fm_sim_result *from);

/* Shared with the thread that waits for the run. */
struct fm_sim_control {
	_Atomic uint64_t done_us; /* virtual time done, of all devices together */
	_Atomic bool stop;        /* set to end the run soon, with -EINTR */
};

/* Simulates one machine from beginning to end, and adds to r. watch, control and err may be NULL.
 * -EINVAL with a text for a policy that does not start, -ENOMEM. */
int fm_sim_machine(const struct fm_sim_plan *p, uint32_t machine, const struct fm_sim_watch *watch,
	struct fm_sim_control *control, struct fm_sim_result *r, struct fm_err *err);
/* The deadline of the response by these hints; 0: none. */
uint64_t fm_sim_deadline(const struct fm_hints *hints);
/* Simulates all machines by `threads' threads. The result does not depend on their number. audience
 * may be NULL. */
int fm_sim_run(const struct fm_sim_plan *p, unsigned threads,
	const struct fm_sim_audience *audience, struct fm_sim_control *control,
	struct fm_sim_result *r, struct fm_err *err);

/* The number of a machine's devices, and the plan's section of the n-th. */
uint32_t fm_sim_devices(const struct fm_sim_plan *p);
uint32_t fm_sim_device_at(const struct fm_sim_plan *p, uint32_t n, uint32_t *instance);
/* The devices of a machine that a group names. places: how many they are. place: the n-th of them,
 * as a device of the machine; after the last comes the first again. offset: which of them `device'
 * is, or UINT32_MAX. A group that is everywhere has its k-th entity on the (instance + k)-th of
 * them; any other group has its only entity on the instance-th. */
uint32_t fm_sim_places(const struct fm_sim_plan *p, const struct fm_sim_group *g);
uint32_t fm_sim_place(const struct fm_sim_plan *p, const struct fm_sim_group *g, uint32_t n);
uint32_t fm_sim_offset(const struct fm_sim_plan *p, const struct fm_sim_group *g, uint32_t device);
