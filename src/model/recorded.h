/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a trace tells of programs: their jobs, hints, and when they were there. A job is a stretch
 * in which a group had work on a device, from its ready edge to its idle one.
 */
#pragma once
#include "sim/sim.h"
#include "trace/file.h"
#include "workload.h"

#define RECORDED_POLICY 256

/* What a job's length is: recorded_jobs.c, recorded_turns.c */
enum recorded_how { RECORDED_CHARGED, RECORDED_MEASURED, RECORDED_ELAPSED, RECORDED_APART };

struct recorded_job {
	uint64_t at, end; /* CLOCK_MONOTONIC; end: FM_NEVER, not before the recording's */
	uint64_t length;  /* device time */
	uint64_t alone;   /* of its segments, of those that had the device to themselves */
	uint64_t first;   /* of these the first of all, if it is one command */
	uint64_t deadline;
	uint32_t commands, counted; /* counted: in its segments */
	enum recorded_how how;
	bool before; /* it began before the recording */
};

/* A group on a device; one that went and came again is the same. */
struct recorded_group {
	char name[WORKLOAD_NAME]; /* as workloads write it, and no other has it */
	char label[FM_TRACE_TEXT];
	uint32_t device;      /* index */
	uint64_t start, stop; /* stop: FM_NEVER, it was there at the end */
	uint64_t away;        /* times that it was not there meanwhile */
	struct recorded_job *job;
	size_t jobs;
	struct fm_sim_change *change; /* at: CLOCK_MONOTONIC */
	size_t changes;
	struct fm_hints hints;    /* at the end */
	uint64_t preemptions;     /* gates closed to it while it had work */
	uint64_t *first;          /* of its jobs the first segments, where they are one command, */
	size_t n_first;           /* up to RECORDED_SAMPLES */
	uint64_t alone, commands; /* of the segments that had the device to themselves */
	uint64_t input;           /* by itself, with which jobs begin; 0: they do not */
	bool elsewhere;           /* its programs use other devices, too */
	bool present;
};

struct recorded_device {
	uint32_t id;
	char name[WORKLOAD_NAME], label[FM_TRACE_TEXT];
	uint32_t levels;     /* bits of what queues can do */
	uint64_t stopped[4]; /* by level: how often one was seen to stop */
	/* As many as there were, and at most RECORDED_SAMPLES kept. */
	uint64_t *took; /* of segments, */
	uint64_t *stop; /* stops, */
	uint64_t *open; /* from a gate's opening until who stood there went on, */
	uint64_t *turn; /* and what others had of the device while somebody came to rest */
	size_t n_took, n_stop, n_open, n_turn;
	uint64_t took_all, commands; /* of the segments in `took' */
	/* Who came to rest and who was chosen had the device in turns: recorded_turns.c. And did he
	 * come first? */
	bool turns, fair;
};
#define RECORDED_SAMPLES 4096u

struct recorded {
	uint64_t begin, end, linger;
	uint64_t *late; /* how long after the end of a claim the core looked */
	size_t n_late;
	char policy[RECORDED_POLICY]; /* "NAME [key=value...]"; "": it was not told */
	uint64_t policies;            /* changes of it */
	struct recorded_device device[WORKLOAD_DEVICES];
	uint32_t devices;
	struct recorded_group *group;
	uint32_t groups, cap;
	uint64_t lost, unknown;
	uint64_t how[RECORDED_APART + 1]; /* jobs */
};

/* -EINVAL, -E2BIG or -ENOMEM with a text. until: when the recording ended, or 0: with its last
 * record. */
int recorded_read(
	struct recorded *r, const struct fm_trace_file *t, uint64_t until, struct fm_err *err);
void recorded_free(struct recorded *r);
#define RECORDED_CLEAN __attribute__((cleanup(recorded_free)))

/* Of a job after the first: since the end of the one before. */
uint64_t recorded_pause(const struct recorded_group *g, size_t job);

/* Do its jobs come by a clock, whatever becomes of those before? Else they follow each other. why:
 * a few words. */
bool recorded_clocked(const struct recorded_group *g, const char **why);

/* The median of n, which are put into order. And what is above so many hundredths of them. */
uint64_t recorded_median(uint64_t *v, size_t n);
uint64_t recorded_quantile(uint64_t *v, size_t n, unsigned percent);

/* As a file that `fermata-lab sim` reads. how: a job comes when it came ('o'), or so long after the
 * end of the one before ('c'), or either as recorded_clocked() says ('a'). false: it could not all
 * be written. */
bool recorded_write(const struct recorded *r, FILE *f, const char *from, char how);
