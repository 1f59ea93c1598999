/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a trace shows about programs: their jobs, their hints, and when they were there. A job is a
 * stretch in which a group had work on a device, from its ready edge to its idle edge.
 */
#pragma once
#include "sim/sim.h"
#include "trace/file.h"
#include "workload.h"

#define RECORDED_POLICY 256

/* How a job's length was found: recorded_jobs.c, recorded_turns.c */
enum recorded_how { RECORDED_CHARGED, RECORDED_MEASURED, RECORDED_ELAPSED, RECORDED_APART };

struct recorded_job {
	uint64_t at, end; /* CLOCK_MONOTONIC; end: FM_NEVER, not before the recording's */
	uint64_t length;  /* device time */
	uint64_t alone;   /* device time of its segments that had the device to themselves */
	uint64_t first;   /* of these, the job's first segment, if it is one command */
	uint64_t deadline;
	uint32_t commands, counted; /* counted: in its segments */
	enum recorded_how how;
	bool before; /* it began before the recording */
};

/* A group on a device. If a group leaves and comes back, it is the same one. */
struct recorded_group {
	char name[WORKLOAD_NAME]; /* as workloads write it; unique */
	char label[FM_TRACE_TEXT];
	uint32_t device;      /* index */
	uint64_t start, stop; /* stop: FM_NEVER, it was there at the end */
	uint64_t away;        /* how often it left and came back */
	struct recorded_job *job;
	size_t jobs;
	struct fm_sim_change *change; /* `at': CLOCK_MONOTONIC */
	size_t changes;
	struct fm_hints hints;    /* at the end */
	uint64_t preemptions;     /* gates closed to it while it had work */
	uint64_t *first;          /* first segments of its jobs that are one command, */
	size_t n_first;           /* up to RECORDED_SAMPLES */
	uint64_t alone, commands; /* of the segments that had the device to themselves */
	uint64_t input;           /* length of a separate command that begins jobs; 0: none */
	bool elsewhere;           /* its programs use other devices, too */
	bool present;
};

struct recorded_device {
	uint32_t id;
	char name[WORKLOAD_NAME], label[FM_TRACE_TEXT];
	uint32_t levels;     /* bits of what queues can do */
	uint64_t stopped[4]; /* by level: how often a stop was seen */
	/* Samples; at most RECORDED_SAMPLES of each are kept. */
	uint64_t *took; /* lengths of segments */
	uint64_t *stop; /* lengths of stops */
	uint64_t *open; /* times from a gate's opening until the group there went on */
	uint64_t *turn; /* what others had of the device while a group came to rest */
	size_t n_took, n_stop, n_open, n_turn;
	uint64_t took_all, commands; /* of the segments in `took' */
	/* turns: the group that came to rest and the group that was chosen had the device in turns
	 * (recorded_turns.c). fair: the chosen group had the first turn more often. */
	bool turns, fair;
};
#define RECORDED_SAMPLES 4096u

struct recorded {
	uint64_t begin, end, linger;
	uint64_t *late; /* how long after the end of a claim the core looked */
	size_t n_late;
	char policy[RECORDED_POLICY]; /* "NAME [key=value...]"; "": not recorded */
	uint64_t policies;            /* how often it was set */
	struct recorded_device device[WORKLOAD_DEVICES];
	uint32_t devices;
	struct recorded_group *group;
	uint32_t groups, cap;
	uint64_t lost, unknown;
	uint64_t how[RECORDED_APART + 1]; /* jobs */
};

/* -EINVAL, -E2BIG or -ENOMEM with a text. until: when the recording ended; 0: at its last record.
 */
int recorded_read(
	struct recorded *r, const struct fm_trace_file *t, uint64_t until, struct fm_err *err);
void recorded_free(struct recorded *r);
#define RECORDED_CLEAN __attribute__((cleanup(recorded_free)))

/* The pause before a job after the first: the time since the end of the job before. */
uint64_t recorded_pause(const struct recorded_group *g, size_t job);

/* Do the group's jobs come by a clock, independently of the jobs before? Otherwise each follows the
 * one before. why: the reason in a few words. */
bool recorded_clocked(const struct recorded_group *g, const char **why);

/* The median of n values, and the value above `percent' of them. Both sort the values. */
uint64_t recorded_median(uint64_t *v, size_t n);
uint64_t recorded_quantile(uint64_t *v, size_t n, unsigned percent);

/* Writes a file that `fermata-lab sim` reads. how: a job comes at its recorded time ('o'), or its
 * recorded pause after the end of the job before ('c'), or as recorded_clocked() says ('a'). False:
 * not all could be written. */
bool recorded_write(const struct recorded *r, FILE *f, const char *from, char how);
