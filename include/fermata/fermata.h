/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fermata: preemptive multitasking for GPUs and other accelerators.
 *
 * With this library a program puts its own device queues under the scheduler, as XQueues: commands
 * are submitted by callbacks, and the queue is suspended and resumed by the policy (or by the
 * program). Programs that use OpenCL need no change and not this library: see fermata-run(1).
 *
 * Scheduling is by the daemon that the environment names (as fermata-run(1) sets it), or in this
 * process (fm_init with a local policy). With neither, everything runs at once, as without Fermata.
 * Switched off (FERMATA_DISABLE=1), commands go straight to the device: queues can be made,
 * submitted to and waited for; suspending one is -EOPNOTSUPP, groups, hints and segments are
 * -ENODEV.
 *
 * Errors: functions return 0 or a negative errno. Nothing prints, exits, or blocks without bound,
 * save the waits asked for. Times are nanoseconds on CLOCK_MONOTONIC. Every function may be called
 * from any thread. After fork() the child's handles of the parent are dead (-EBADF); it makes new
 * ones.
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

/* Optional, before anything else: -EBUSY afterwards. NULL: the defaults. */
struct fm_options {
	const char
		*local_policy; /* "fixed-priority", "fair slice=2", ...: schedule in this process */
};
int fm_init(const struct fm_options *options);
/* Is this process scheduled at present, by a daemon or by itself? */
bool fm_scheduled(void);

/*
 * Groups. NULL stands for the process's own group everywhere. A group made here with a name is
 * shared with other processes of the same user that use that name. It lives as long as the process.
 */
int fm_group_create(fm_group **group, const char *name);
int fm_group_hint(fm_group *group, enum fm_hint hint, int64_t value);

/* A declared stretch of device use: until its end the group counts as ready, between its commands
 * too. priority: of the segment, or FM_SEGMENT_KEEP. They nest. */
#define FM_SEGMENT_KEEP INT32_MIN
int fm_segment_begin(fm_group *group, int32_t priority);
int fm_segment_end(fm_group *group);

/*
 * Real-time tasks. A group declares what its jobs need, and the daemon admits it if every task
 * still keeps its deadline then, by response-time analysis over all of them. An admitted task comes
 * before all priorities, is held to its budget (the device time of its segments, in each period),
 * and watched against its bound: `fermata ps --tasks`. A job is as many stretches of device use as
 * the task has segments: declared ones, or from the first command until the device is idle. It
 * leaves with the process, or by fm_task_leave(); a daemon that is started anew knows nothing of
 * it. One task a group. fermata-admit(1) tells more.
 */
enum fm_task_overrun {  /* of who uses more, until its next period: */
	FM_TASK_DEMOTE, /* below all others */
	FM_TASK_STOP,   /* not at all */
	FM_TASK_REPORT, /* only told */
};
struct fm_task_segment {
	uint64_t gpu_ns, misc_ns; /* on the device; on the CPU, to launch and to copy */
};
#define FM_TASK_OWN_CPU (-1) /* no other task uses its CPU */
struct fm_task {
	size_t size; /* sizeof(struct fm_task) */
	const char *name;
	unsigned priority; /* 0 to 65535; equals: the shorter deadline first */
	int cpu;           /* its number, or FM_TASK_OWN_CPU */
	uint64_t period_ns, deadline_ns, cpu_ns; /* deadline 0: the period */
	const struct fm_task_segment *segments;
	size_t segment_count;
	enum fm_task_overrun overrun;
	bool gpu_priority;   /* all tasks may be given other GPU priorities, if that helps */
	uint64_t epsilon_ns; /* a change of the device's user; 0: the daemon knows */
};
struct fm_task_answer {
	size_t size; /* set by the caller: sizeof(struct fm_task_answer) */
	bool admitted;
	uint64_t bound_ns, slack_ns; /* response time; what is left to the deadline */
	char text[256];              /* else: who would miss, by how much; or what is wrong */
};
/* Waits for the daemon's answer, 5 s at most. 0: admitted. -EBUSY: refused, somebody would miss.
 * -ENODEV: no daemon. -EOPNOTSUPP: not under its policy. -ENODATA: nobody knows epsilon. -EPERM,
 * -EDQUOT, -EEXIST: not this user's, too many, the group has one. -EAGAIN: the daemon wants to be
 * left alone for a second. -EINVAL, -ETIMEDOUT. */
int fm_task_admit(fm_group *group, const struct fm_task *task, struct fm_task_answer *answer);
int fm_task_leave(const char *name); /* of this process; -ENOENT */

/*
 * Hwqueues from callbacks: for a program with its own device API. The ops are called with ctx, from
 * any thread, one at a time for one hwqueue save sync and launches, which may overlap everything.
 * launch is not among them: each command brings its own. They return 0 or a negative errno.
 */
struct fm_hwqueue_ops {
	size_t size; /* sizeof(struct fm_hwqueue_ops): later versions add fields at the end */
	/* Required: block until all that was launched before the call has finished. */
	int (*sync)(void *ctx);
	/* Level 1 and the scheduler's view of idleness without anyone waiting: arrange that
	 * reached(cookie) is called once when all that was launched so far has finished (from any
	 * thread, also from here). It may call reactivate and track, so hold no lock that they
	 * take. On an error it is never called. May be NULL: completion is then known only when the
	 * program waits. */
	int (*track)(void *ctx, void (*reached)(void *cookie), void *cookie);
	/* Level 2, both or none: a closed gate behind what was launched; open it again. */
	int (*deactivate)(void *ctx, void **gate);
	void (*reactivate)(void *ctx, void *gate);
	/* Level 3, both or none: stop and continue the running command. Idempotent. */
	int (*interrupt)(void *ctx);
	int (*restore)(void *ctx);
	/* The hwqueue is not used any more. May be NULL. */
	void (*release)(void *ctx);
};
/* device: names the device across processes ("vendor:0"); queues with equal names share one device.
 * At most 95 printable ASCII characters. */
int fm_hwqueue_create(
	fm_hwqueue **hwq, const char *device, const struct fm_hwqueue_ops *ops, void *ctx);
/* For one that no XQueue has taken over (else -EBUSY). Releases it. */
int fm_hwqueue_destroy(fm_hwqueue *hwq);

/*
 * A software device: hwqueues that execute commands of programmable length, one command at a time
 * per device, round robin over its queues as a GPU without preemption does. All three levels. For
 * tests, for learning, and as the reference for backends.
 */
typedef struct fm_sim_device fm_sim_device;
struct fm_sim_options {
	size_t size;           /* sizeof(struct fm_sim_options) */
	bool virtual_time;     /* time passes only in fm_sim_advance() */
	unsigned max_level;    /* pretend to be a lesser device: 1, 2 or 3; 0: 3 */
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
void fm_sim_device_destroy(fm_sim_device *dev); /* lives on for queues that are still there */
int fm_sim_fault(fm_sim_device *dev, enum fm_sim_fault fault, unsigned count);
void fm_sim_reset(fm_sim_device *dev); /* drop hung commands: they count as finished */
uint64_t fm_sim_now(fm_sim_device *dev);
/* Virtual time only, else -EINVAL. The callbacks of what finishes run in the caller. */
int fm_sim_advance(fm_sim_device *dev, uint64_t ns);
int fm_sim_hwqueue_create(fm_hwqueue **hwq, fm_sim_device *dev);

/*
 * XQueues. The XQueue takes the hwqueue over and releases it in the end; if it cannot be made, the
 * hwqueue stays the caller's. -ENOSPC beyond 128 XQueues in a process.
 */
struct fm_xqueue_options {
	size_t size; /* sizeof(struct fm_xqueue_options) */
	fm_group *group;
	unsigned level; /* deepest level to use, 0: what the device can */
};
int fm_xqueue_create(fm_xqueue **q, fm_hwqueue *hwq, const struct fm_xqueue_options *options);
/* Resumes it if fm_xqueue_suspend stopped it, waits for what was submitted, then frees, also when
 * that wait reports an error. */
int fm_xqueue_destroy(fm_xqueue *q);

/* One command: fn launches it into the device's own queue, asynchronously, in the caller's thread,
 * and returns 0 or a negative errno, which submit passes on. For a hwqueue of the software device
 * fn is NULL and device_ns is the length. Commands of equal kind are taken to cost alike (0: by
 * fn). */
struct fm_command {
	int (*fn)(void *ctx, void *arg); /* ctx: the hwqueue's */
	void *arg;
	uint64_t kind;
	uint64_t device_ns;      /* software device: how long it runs; others: ignored */
	void (*done)(void *arg); /* software device: called when it finishes; may be NULL */
};
/* Submit in order. *seq (may be NULL) is what to wait for. Blocks only at level 1: while the window
 * is full, and while the group or queue is suspended. */
int fm_xqueue_submit(fm_xqueue *q, const struct fm_command *command, uint64_t *seq);
int fm_xqueue_wait(fm_xqueue *q, uint64_t seq, uint64_t timeout_ns); /* -ETIMEDOUT */
int fm_xqueue_wait_all(fm_xqueue *q, uint64_t timeout_ns);

/* Suspend this queue alone, whatever the policy says; with wait, until the device has let go of it
 * (idle or stalled; -ETIMEDOUT after timeout_ns; -EOPNOTSUPP, suspended all the same, at level 2
 * without track, where nobody can tell). Idempotent. */
int fm_xqueue_suspend(fm_xqueue *q, bool wait, uint64_t timeout_ns);
int fm_xqueue_resume(fm_xqueue *q);

struct fm_xqueue_info {
	size_t size;            /* set by the caller: sizeof(struct fm_xqueue_info) */
	unsigned level, levels; /* in use; bits (1 << level) of what the device can do */
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
