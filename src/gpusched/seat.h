/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a set is among the programs of the machine: a queue of the scheduler's, in a group. A
 * library that has a client of the daemon brings these operations along (gpusched/seat); without
 * them a set is alone.
 *
 * To the scheduler, a job is a command, which begins when it is released; and the set is a device
 * that looks at the gate itself, before each chunk.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct fm_gpu_seat;
struct fm_xq;

struct fm_gpu_seat_wish {
	const char *group;  /* NULL: the process's own */
	const char *device; /* NULL: one of its own */
	/* The agent's: it may be that the set may run again. */
	void (*look)(void *arg);
	void *arg;
};

/* For people. */
struct fm_gpu_seat_set {
	const char *policy;
	uint32_t slots, tasks;
	uint32_t running; /* 1 + the number of a task of which a chunk runs; 0: none */
	bool stopped, resident;
	uint64_t decisions;
};
struct fm_gpu_seat_task {
	const char *name;
	uint64_t released, done, missed, missed_stopped, dropped, response_max;
	bool runs;
};

/* What has become of a task with a decision. The numbers are those of the trace's events task_*. */
enum fm_gpu_seat_event {
	FM_GPU_RELEASED,
	FM_GPU_BEGAN,
	FM_GPU_STANDS,
	FM_GPU_COMPLETED,
	FM_GPU_MISSED,
};

struct fm_gpu_seat_ops {
	/* *seat NULL: no daemon schedules. -EINVAL: no such name; -ENOSPC: too many
	 * queues, or groups; -ENOMEM. */
	int (*take)(struct fm_gpu_seat **seat, const struct fm_gpu_seat_wish *wish);
	/* Nothing of the set runs, and nothing is decided any more. `look` is not called after
	 * that. */
	void (*leave)(struct fm_gpu_seat *seat);
	bool (*may_run)(struct fm_gpu_seat *seat);
	/* By the decider. So many jobs have been released, and are over, in all; the set stands: it
	 * has jobs, none runs, and it looks at the gate again before one does. */
	void (*told)(struct fm_gpu_seat *seat, uint64_t begun, uint64_t done, bool stands);
	/* By the decider: how things are after a decision. Of tasks only what has changed. */
	void (*show)(struct fm_gpu_seat *seat, const struct fm_gpu_seat_set *set);
	void (*show_task)(
		struct fm_gpu_seat *seat, uint32_t number, const struct fm_gpu_seat_task *task);
	/* By the decider, for traces. */
	void (*trace)(struct fm_gpu_seat *seat, enum fm_gpu_seat_event event, uint32_t task,
		uint64_t b, uint64_t c);
	/* For a set that is a queue of another kind: does anybody record, and the same as trace(),
	 * of that time. Any thread. */
	bool (*traces)(void);
	void (*note)(const struct fm_xq *q, enum fm_gpu_seat_event event, uint64_t at,
		uint32_t task, uint64_t b, uint64_t c);
	/* The program suspends the set itself, or resumes it. */
	void (*hold)(struct fm_gpu_seat *seat, bool held);
};
extern const struct fm_gpu_seat_ops fm_gpu_seat_ops __attribute__((weak));
