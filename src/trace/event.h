/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can be traced. This table feeds the writers, the probes, dumps, exports and docs/trace.md.
 * The order gives the numbers, so new events go to the end.
 *
 * A record names a group, a device and a queue if that makes sense, for which group it happened
 * (cause), and why (reason). In the daemon's records, group and cause are the daemon's numbers. In
 * a client's records, the group is the client's own index. Up to three arguments hold the rest.
 */
#pragma once
#include <stdint.h>

enum fm_trace_unit {
	FM_TU_NONE,  /* no such argument */
	FM_TU_COUNT, /* a number */
	FM_TU_NS,
	FM_TU_SIGNED,
	FM_TU_HINT, /* enum fm_hint */
};

/* X(name, what happened, first argument, its unit, second, its unit, third, its unit) */
#define FM_TRACE_EVENTS(X)                                                                         \
	/* The daemon's. served: device time that the group was charged on that device. */         \
	X(ready, "a group has work on a device", "pending", COUNT, "served", NS, "", NONE)         \
	X(idle, "a group's work on a device has ended", "", NONE, "served", NS, "keeps", NS)       \
	X(decided, "the policy has chosen; the group is the first chosen one", "chosen", COUNT,    \
		"ready", COUNT, "everybody", COUNT)                                                \
	X(gate_closed, "a group is stopped; the cause is the group that was chosen instead",       \
		"pending", COUNT, "served", NS, "queues", COUNT)                                   \
	X(gate_opened, "a group may run", "pending", COUNT, "served", NS, "queues", COUNT)         \
	X(stalled, "a group whose gates were closed has come to rest", "took", NS, "served", NS,   \
		"", NONE)                                                                          \
	X(declared_begin, "a declared stretch of device use begins", "priority", SIGNED, "", NONE, \
		"", NONE)                                                                          \
	X(declared_end, "a declared stretch of device use ends", "", NONE, "", NONE, "", NONE)     \
	X(job_late, "a job of an admitted task took longer than its bound", "response", NS,        \
		"bound", NS, "deadline", NS)                                                       \
	X(overrun, "a task used more device time than declared", "used", NS, "declared", NS, "",   \
		NONE)                                                                              \
	X(hint, "a hint was set", "hint", HINT, "value", SIGNED, "", NONE)                         \
	X(suspended, "a group was suspended by hand", "", NONE, "", NONE, "", NONE)                \
	X(resumed, "a group was resumed by hand", "", NONE, "", NONE, "", NONE)                    \
	X(policy, "a policy is in force or its settings changed; the reason is its name", "",      \
		NONE, "", NONE, "", NONE)                                                          \
	X(policy_dropped, "a user's policy has failed; the reason says why", "", NONE, "", NONE,   \
		"", NONE)                                                                          \
	X(joined, "a client joined a group", "pid", COUNT, "", NONE, "", NONE)                     \
	X(left, "a client left", "pid", COUNT, "", NONE, "", NONE)                                 \
	X(queue_added, "a queue was created, or moved to another group", "queue", COUNT, "pid",    \
		COUNT, "levels", COUNT)                                                            \
	X(queue_gone, "a queue is gone", "queue", COUNT, "pid", COUNT, "", NONE)                   \
	X(loop_slow, "the daemon was busy with one event for a long time", "took", NS, "", NONE,   \
		"", NONE)                                                                          \
	/* A client's. */                                                                          \
	X(segment_sealed, "a segment is full; later commands belong to the next one", "segment",   \
		COUNT, "commands", COUNT, "estimate", NS)                                          \
	X(segment_done, "the device has finished a segment", "segment", COUNT, "commands", COUNT,  \
		"took", NS)                                                                        \
	X(gate_placed, "a closed gate was placed in the queue", "gates", COUNT, "pending", COUNT,  \
		"", NONE)                                                                          \
	X(gates_passed, "gates were opened", "gates", COUNT, "pending", COUNT, "", NONE)           \
	X(rested, "the queue stands at a closed gate", "done", COUNT, "pending", COUNT, "", NONE)  \
	X(went_on, "the queue continues behind its gate", "done", COUNT, "pending", COUNT, "",     \
		NONE)                                                                              \
	X(hold_begin, "level 1: the caller has to wait", "estimate", NS, "pending", COUNT, "",     \
		NONE)                                                                              \
	X(hold_end, "level 1: the caller continues", "waited", NS, "pending", COUNT, "", NONE)     \
	X(interrupted, "level 3: the queue stopped in the middle of a command", "pending", COUNT,  \
		"", NONE, "", NONE)                                                                \
	X(restored, "level 3: that command continues", "stood", NS, "pending", COUNT, "", NONE)    \
	X(daemon_lost, "no daemon schedules the client any more", "", NONE, "", NONE, "", NONE)    \
	X(daemon_found, "a daemon schedules the client", "", NONE, "", NONE, "", NONE)             \
	/* The daemon's. */                                                                        \
	X(setting, "a setting of the policy in force, or the linger; the reason is its name",      \
		"value", SIGNED, "", NONE, "", NONE)                                               \
	X(deadline_missed, "a job took longer than the deadline hint of its group", "response",    \
		NS, "deadline", NS, "", NONE)                                                      \
	/* In simulations only: their programs report their jobs. */                               \
	X(job_arrived, "a job arrived", "", NONE, "", NONE, "", NONE)                              \
	X(job_dropped, "a job was dropped because too many wait", "", NONE, "", NONE, "", NONE)    \
	X(job_ended, "a job has ended", "response", NS, "deadline", NS, "", NONE)                  \
	/* A client's. */                                                                          \
	X(memory_mapped, "more or less of the client's memory runs from the host", "mapped",       \
		COUNT, "resident", COUNT, "", NONE)                                                \
	X(memory_rests, "the process is at rest, so that its memory can move", "took", NS, "",     \
		NONE, "", NONE)                                                                    \
	X(memory_moved, "some of the client's memory has gone out or come in", "out", COUNT, "in", \
		COUNT, "resident", COUNT)                                                          \
	X(memory_reached, "nothing is left to be moved for the client's share", "share", COUNT,    \
		"resident", COUNT, "", NONE)                                                       \
	X(memory_early, "the process goes on before its memory is there; or all of it is",         \
		"comes", COUNT, "", NONE, "", NONE)                                                \
	X(memory_goes_on, "the process goes on after its rest", "rested", NS, "", NONE, "", NONE)  \
	/* The daemon's. */                                                                        \
	X(memory_share, "a client is told how much of its memory may be on the device", "share",   \
		COUNT, "resident", COUNT, "movable", COUNT)                                        \
	X(memory_out, "memory of a group is to go out; the cause is the group that needs room",    \
		"out", COUNT, "resident", COUNT, "", NONE)                                         \
	X(memory_due, "a group's turn has come, and memory of it is not in", "missing", COUNT,     \
		"rate", COUNT, "capacity", COUNT)                                                  \
	X(memory_in, "all memory of a group is in, and it may run", "waited", NS, "stood", NS, "", \
		NONE)                                                                              \
	X(memory_missed, "the client has used memory from the host that no call had named",        \
		"late", NS, "changed", COUNT, "mapped", COUNT)                                     \
	/* A client's. */                                                                          \
	X(padded, "level 3: the queue goes on beside more urgent work, on some multiprocessors",   \
		"multiprocessors", COUNT, "of", COUNT, "pending", COUNT)                           \
	X(pad_ended, "level 3: it does so no more; so long it has in all", "padded", NS,           \
		"pending", COUNT, "", NONE)                                                        \
	/* The daemon's. */                                                                        \
	X(pad_chosen,                                                                              \
		"auto: a group pads on so many multiprocessors from now on; the cause is "         \
		"the group beside which it does",                                                  \
		"multiprocessors", COUNT, "padded", NS, "alone", NS)                               \
	/* A client's, of a set of tasks; told after each decision. */                             \
	X(task_released, "jobs of a set's task were released", "task", COUNT, "jobs", COUNT,       \
		"pending", COUNT)                                                                  \
	X(task_began, "a set's task runs", "task", COUNT, "pending", COUNT, "", NONE)              \
	X(task_stands, "a set's task has a job that is not complete, and does not run any more",   \
		"task", COUNT, "pending", COUNT, "", NONE)                                         \
	X(task_completed, "a job of a set's task is complete", "task", COUNT, "response", NS,      \
		"pending", COUNT)                                                                  \
	X(task_missed, "a job of a set's task was complete after its deadline", "task", COUNT,     \
		"late", NS, "stopped", COUNT)                                                      \
	/* A client's. */                                                                          \
	X(told_to_stop, "level 3: the queue is told to stop in the middle of a command", "took",   \
		NS, "pending", COUNT, "", NONE)

enum fm_trace_event {
	FM_EV_NONE,
#define FM_TRACE_ID(name, what, a, au, b, bu, c, cu) FM_EV_##name,
	FM_TRACE_EVENTS(FM_TRACE_ID)
#undef FM_TRACE_ID
		FM_EV_COUNT
};

#define FM_TRACE_ARGS 3

struct fm_trace_info {
	const char *name, *what;
	struct {
		const char *name;
		enum fm_trace_unit unit;
	} arg[FM_TRACE_ARGS];
};

/* NULL if no event has this number. */
const struct fm_trace_info *fm_trace_info(unsigned event);
const char *fm_trace_unit_name(enum fm_trace_unit unit);

#define FM_TRACE_NO_SLOT UINT16_MAX

/* As read from a ring, and as in files. */
struct fm_trace_rec {
	uint64_t position; /* in its lane of its ring (ring.h), from 0 */
	uint64_t at;       /* CLOCK_MONOTONIC */
	uint16_t event;    /* enum fm_trace_event */
	uint16_t slot;     /* of the client's board, or FM_TRACE_NO_SLOT */
	uint32_t group;    /* 0: none (daemon's records) */
	uint32_t device;   /* 0: none */
	uint32_t cause;    /* a group; 0: none, or a hidden one */
	uint32_t reason;   /* number of a name; 0: none */
	uint32_t lane;
	uint64_t arg[FM_TRACE_ARGS];
};

_Static_assert(sizeof(struct fm_trace_rec) == 64, "a record is a cache line");
