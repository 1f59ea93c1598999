/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fermata: preemptive multitasking for GPUs and other accelerators.
 *
 * With this library a program puts its own device queues under the scheduler, as XQueues: commands
 * are submitted by callbacks, and the policy (or the program) suspends and resumes the queue.
 * Programs that use CUDA or OpenCL need neither this library nor a change: see fermata-run(1).
 *
 * Scheduling is by the daemon that the environment names (as fermata-run(1) sets it), or in this
 * process (fm_init with a local policy). With neither, everything runs at once, as without Fermata.
 * If Fermata is switched off (FERMATA_DISABLE=1), commands go directly to the device: queues can be
 * made, submitted to and waited for; suspending a queue is -EOPNOTSUPP; groups, hints and segments
 * are -ENODEV.
 *
 * Errors: functions return 0 or a negative errno. No function prints, exits, or blocks without
 * bound, except for the waits asked for.
 * Units: times are nanoseconds on CLOCK_MONOTONIC.
 * Threads: every function may be called from any thread. In the child of a fork() the parent's
 * handles are dead (-EBADF); the child makes new ones.
 *
 * The levels of preemption are those of XSched (Shen et al., OSDI 2025); segments are those of
 * GCAPS (Wang et al., ECRTS 2024).
 */
#ifndef FERMATA_H
#define FERMATA_H
#include <fermata/hint.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fm_group fm_group;     /* the unit that is suspended */
typedef struct fm_xqueue fm_xqueue;   /* a preemptible queue */
typedef struct fm_hwqueue fm_hwqueue; /* a device's own queue, as an XQueue uses it */

#define FM_FOREVER UINT64_MAX

const char *fm_version(void);

/* Optional; must be the first call, otherwise -EBUSY. NULL: the defaults. */
struct fm_options {
	const char
		*local_policy; /* "fixed-priority", "fair slice=2", ...: schedule in this process */
};
int fm_init(const struct fm_options *options);
/* Returns whether this process is scheduled at present, by a daemon or by itself. */
bool fm_scheduled(void);

/*
 * Groups. NULL stands for the process's own group everywhere. A group made here with a name is
 * shared with other processes of the same user that use that name. It lives as long as the process.
 */
int fm_group_create(fm_group **group, const char *name);
int fm_group_hint(fm_group *group, enum fm_hint hint, int64_t value);

/* A segment is a declared stretch of device use: until its end the group counts as ready, also
 * between its commands. priority: of the segment, or FM_SEGMENT_KEEP. Segments nest. */
#define FM_SEGMENT_KEEP INT32_MIN
int fm_segment_begin(fm_group *group, int32_t priority);
int fm_segment_end(fm_group *group);

/*
 * Real-time tasks. A group declares the needs of its jobs, and the daemon admits the task if every
 * task then still keeps its deadline, by response-time analysis over all tasks. An admitted task
 * comes before all priorities. It is limited to its budget (the device time of its segments, in
 * each period), and its response times are compared with its bound: `fermata ps --tasks`. A job is
 * as many stretches of device use as the task has segments: declared ones, or from the first
 * command until the device is idle. The task ends with the process, or by fm_task_leave(); a
 * restarted daemon does not know it. A group has at most one task. fermata-admit(1) has the
 * details.
 */
enum fm_task_overrun {  /* a task that uses more is, until its next period: */
	FM_TASK_DEMOTE, /* below all others */
	FM_TASK_STOP,   /* stopped */
	FM_TASK_REPORT, /* only reported */
};
struct fm_task_segment {
	uint64_t gpu_ns, misc_ns; /* on the device; on the CPU, to launch and to copy */
};
#define FM_TASK_OWN_CPU (-1) /* no other task uses its CPU */
struct fm_task {
	size_t size; /* sizeof(struct fm_task) */
	const char *name;
	unsigned priority; /* 0 to 65535; among equals the shorter deadline comes first */
	int cpu;           /* number of its CPU, or FM_TASK_OWN_CPU */
	uint64_t period_ns, deadline_ns, cpu_ns; /* deadline 0: the period */
	const struct fm_task_segment *segments;
	size_t segment_count;
	enum fm_task_overrun overrun;
	bool gpu_priority;   /* allow the daemon to assign new GPU priorities to all tasks */
	uint64_t epsilon_ns; /* cost of a switch between programs; 0: the daemon's */
};
struct fm_task_answer {
	size_t size; /* set by the caller: sizeof(struct fm_task_answer) */
	bool admitted;
	uint64_t bound_ns, slack_ns; /* of the response time; from there to the deadline */
	char text[256];              /* if not admitted: the task that would miss, or the error */
};
/* Waits for the daemon's answer, at most 5 s. 0: admitted. -EBUSY: refused, a task would miss its
 * deadline. -ENODEV: no daemon. -EOPNOTSUPP: not under this policy. -ENODATA: epsilon is not known.
 * -EPERM: another user's group. -EDQUOT: too many tasks. -EEXIST: the group has a task. -EAGAIN:
 * ask again in a second. -EINVAL, -ETIMEDOUT. */
int fm_task_admit(fm_group *group, const struct fm_task *task, struct fm_task_answer *answer);
int fm_task_leave(const char *name); /* end a task of this process; -ENOENT */

/*
 * Hwqueues from callbacks: for a program with its own device API. The ops are called with ctx, from
 * any thread, one at a time for each hwqueue, except sync and launches, which may overlap all
 * others. There is no launch op: each command has its own function. Ops return 0 or a negative
 * errno.
 */
struct fm_hwqueue_ops {
	size_t size; /* sizeof(struct fm_hwqueue_ops): later versions add fields at the end */
	/* Required: block until all commands that were launched before the call have finished. */
	int (*sync)(void *ctx);
	/* For level 1, and to learn that the queue is idle without waiting: arrange that
	 * reached(cookie) is called once when all commands launched so far have finished (from any
	 * thread, also from inside track). reached may call reactivate and track, so hold no lock
	 * that they take. After an error reached is never called. May be NULL: completion is then
	 * known only when the program waits. */
	int (*track)(void *ctx, void (*reached)(void *cookie), void *cookie);
	/* Level 2, both or none: place a closed gate behind the launched commands; open it. */
	int (*deactivate)(void *ctx, void **gate);
	void (*reactivate)(void *ctx, void *gate);
	/* Level 3, both or none: stop and continue the running command. Idempotent. */
	int (*interrupt)(void *ctx);
	int (*restore)(void *ctx);
	/* Called when the hwqueue is not used any more. May be NULL. */
	void (*release)(void *ctx);
};
/* device: names the device across processes ("vendor:0"); queues with equal names share one device.
 * At most 95 printable ASCII characters. */
int fm_hwqueue_create(
	fm_hwqueue **hwq, const char *device, const struct fm_hwqueue_ops *ops, void *ctx);
/* Releases a hwqueue that no XQueue has taken over (else -EBUSY). */
int fm_hwqueue_destroy(fm_hwqueue *hwq);

/*
 * A software device: hwqueues that execute commands of programmable length, one command at a time
 * per device, round robin over its queues as a GPU without preemption does. It has all three levels
 * and is meant for tests, for learning, and as the reference for device APIs.
 */
typedef struct fm_sim_device fm_sim_device;
struct fm_sim_options {
	size_t size;           /* sizeof(struct fm_sim_options) */
	bool virtual_time;     /* time passes only in fm_sim_advance() */
	unsigned max_level;    /* deepest level that the device has: 1, 2 or 3; 0: 3 */
	uint64_t launch_ns;    /* cost of a launch on the device, before it runs */
	uint64_t interrupt_ns; /* time that interrupt takes to stop a command */
};
enum fm_sim_fault { /* the next `count` operations of that kind fail with -EIO (or are late) */
	FM_SIM_FAULT_LAUNCH,
	FM_SIM_FAULT_DEACTIVATE,
	FM_SIM_FAULT_INTERRUPT,
	FM_SIM_FAULT_TRACK,
	FM_SIM_FAULT_HANG, /* a command that never ends, interrupted or not, until the device is
			      reset */
	FM_SIM_FAULT_COUNT
};
int fm_sim_device_create(
	fm_sim_device **dev, const char *name, const struct fm_sim_options *options);
void fm_sim_device_destroy(fm_sim_device *dev); /* freed with the last of its queues */
int fm_sim_fault(fm_sim_device *dev, enum fm_sim_fault fault, unsigned count);
void fm_sim_reset(fm_sim_device *dev); /* drop hung commands: they count as finished */
uint64_t fm_sim_now(fm_sim_device *dev);
/* Virtual time only, else -EINVAL. Callbacks of commands that finish run in the caller's thread. */
int fm_sim_advance(fm_sim_device *dev, uint64_t ns);
int fm_sim_hwqueue_create(fm_hwqueue **hwq, fm_sim_device *dev);

/*
 * XQueues. The XQueue owns the hwqueue and releases it in the end; if the XQueue cannot be made,
 * the hwqueue stays the caller's. -ENOSPC beyond 128 XQueues in a process.
 */
struct fm_xqueue_options {
	size_t size; /* sizeof(struct fm_xqueue_options) */
	fm_group *group;
	unsigned level; /* deepest level to use, 0: the deepest that the device can do */
};
int fm_xqueue_create(fm_xqueue **q, fm_hwqueue *hwq, const struct fm_xqueue_options *options);
/* Resumes the queue if fm_xqueue_suspend stopped it, waits for its commands, then frees it, also
 * if that wait reports an error. */
int fm_xqueue_destroy(fm_xqueue *q);

/* One command: fn launches it into the device's own queue, asynchronously, in the caller's thread,
 * and returns 0 or a negative errno, which submit passes on. For a hwqueue of the software device
 * fn is NULL and device_ns is the length. Commands of equal kind are expected to take equally long
 * (kind 0: commands of equal fn). */
struct fm_command {
	int (*fn)(void *ctx, void *arg); /* ctx: the hwqueue's */
	void *arg;
	uint64_t kind;
	uint64_t device_ns;      /* software device: how long it runs; others: ignored */
	void (*done)(void *arg); /* software device: called when it finishes; may be NULL */
};
/* Submits in order. *seq (may be NULL) is the number to wait for. Blocks only at level 1: while the
 * window is full, and while the group or queue is suspended. */
int fm_xqueue_submit(fm_xqueue *q, const struct fm_command *command, uint64_t *seq);
int fm_xqueue_wait(fm_xqueue *q, uint64_t seq, uint64_t timeout_ns); /* -ETIMEDOUT */
int fm_xqueue_wait_all(fm_xqueue *q, uint64_t timeout_ns);

/* Suspends only this queue, independently of the policy. With wait, returns when the queue is idle
 * or stalled: -ETIMEDOUT after timeout_ns; -EOPNOTSUPP at level 2 without track, where that cannot
 * be known. The queue is suspended in both cases. Idempotent. */
int fm_xqueue_suspend(fm_xqueue *q, bool wait, uint64_t timeout_ns);
int fm_xqueue_resume(fm_xqueue *q);

struct fm_xqueue_info {
	size_t size;            /* set by the caller: sizeof(struct fm_xqueue_info) */
	unsigned level, levels; /* in use; bits (1 << level) of the levels that the device has */
	uint64_t submitted, completed, device_ns, gates;
	bool suspended; /* by fm_xqueue_suspend */
	bool stalled;   /* at rest: idle, or stopped at a gate */
	bool scheduled; /* its group may run */
};
int fm_xqueue_query(fm_xqueue *q, struct fm_xqueue_info *info);

#ifdef __cplusplus
}
#endif
#endif
