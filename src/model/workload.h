/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that describe a simulation. fermata-lab-sim(1) describes the format.
 *
 * Owns: the contents of files, as plans of the simulator.
 * Locks: none.
 * Threads: one reads a file; any may read the result.
 */
#pragma once
#include "base/err.h"
#include "base/util.h"
#include "sim/sim.h"
#include <stdio.h>

#define WORKLOAD_DEVICES  64
#define WORKLOAD_GROUPS   4096
#define WORKLOAD_PARAMS   32
#define WORKLOAD_NAME     32
#define WORKLOAD_POLICY   256
#define WORKLOAD_SETTING  96
#define WORKLOAD_ENTITIES 4000000 /* of one machine; as many devices */
#define WORKLOAD_RECORDS  10000000
#define WORKLOAD_CHANGES  100000               /* of one group */
#define WORKLOAD_TIME     (365 * 86400 * FM_S) /* no time is longer */
#define WORKLOAD_SIZE     (UINT64_C(1) << 50)  /* no memory is larger, no link is faster */
#define WORKLOAD_MEMORIES 512                  /* groups with memory on one device */

struct workload_param {
	char policy[WORKLOAD_NAME], setting[WORKLOAD_SETTING]; /* "key=value" */
};

/* A list of names, which are looked up when all names are known. */
struct workload_names {
	char text[200];
	uint32_t line; /* 0: none were given */
};

struct workload_group {
	char name[WORKLOAD_NAME];
	struct workload_names devices, after; /* `after': for a trace, its file */
	uint32_t line;
	struct fm_sim_record *record; /* recorded jobs, as the plan has them in the end */
	size_t records;
	uint32_t job_line; /* of the first one here; 0: none */
	struct fm_sim_change *change;
	size_t changes;
};

struct workload {
	struct fm_sim_plan plan; /* policy and params: by workload_policy() */
	struct fm_sim_device device[WORKLOAD_DEVICES];
	char device_name[WORKLOAD_DEVICES][WORKLOAD_NAME];
	struct fm_sim_group *group;
	struct workload_group *own; /* for each group, what the plan does not have */
	uint32_t cap;
	char policy[WORKLOAD_POLICY];                 /* "NAME [key=value...]" */
	uint32_t policy_line;                         /* 0: none was given */
	uint32_t memory_line;                         /* of [memory]; 0: none was given */
	struct workload_param param[WORKLOAD_PARAMS]; /* of sections [policy NAME] */
	unsigned params;

	/* For the plan; they point into words and param. */
	char words[WORKLOAD_POLICY];
	const char *setting[WORKLOAD_PARAMS + WORKLOAD_POLICY / 2];
};

/* INI, or JSON (workload_json.h). -EINVAL, -ERANGE, -E2BIG, -ENOMEM or -EIO, with "FILE:LINE:
 * reason" in err, or for JSON "FILE: PATH: reason"; *w is then empty. folder: the directory with
 * the recorded arrivals of traces; NULL: there are none. */
int workload_read(
	struct workload *w, FILE *f, const char *file, const char *folder, struct fm_err *err);
int workload_load(struct workload *w, const char *file, struct fm_err *err);
void workload_free(struct workload *w);
#define WORKLOAD_CLEAN __attribute__((cleanup(workload_free)))

/* Gives the plan this policy, "NAME [key=value...]". The parameters of its section come first. ops:
 * the policy if it is not built in, or NULL. */
int workload_policy(struct workload *w, const char *policy, const struct fm_policy_ops *ops,
	struct fm_err *err);

/* The policy of memory of that name. */
int workload_memory_policy(
	const char *name, const struct fm_mem_policy **policy, struct fm_err *err);

/* Sets an error: there is no policy of that name. The hint names a similar one. Returns -EINVAL. */
int workload_no_policy(const char *name, struct fm_err *err);

/* workload_value.c: single values. */
int workload_time(const char *word, uint64_t *ns, struct fm_err *err);
/* Bytes: "16G" and "16GiB" are 2^34, "8.5GB" is 8,500,000,000. */
int workload_size(const char *word, uint64_t *bytes, struct fm_err *err);
int workload_dist(const char *text, struct fm_sim_dist *d, struct fm_err *err); /* replaces it */
void workload_dist_free(struct fm_sim_dist *d);
int workload_commands(struct fm_sim_group *g, const char *text, struct fm_err *err);
/* names: of a job to wait for, or of a file. */
int workload_arrival(struct fm_sim_group *g, const char *text, char names[200], struct fm_err *err);
int workload_phase(struct fm_sim_group *g, const char *text, struct fm_err *err);

/* Recorded jobs come at their recorded times (false), or their recorded pause after the end of the
 * job before. -EINVAL if a pause is not known. */
int workload_closed(struct workload *w, bool closed, struct fm_err *err);

/* workload_trace.c: recorded jobs, "TIME [LENGTH [COMMANDS [PAUSE]]]". A missing pause is
 * WORKLOAD_NO_PAUSE. These append one line, or all lines of a file; *n counts them. The caller
 * frees them. */
#define WORKLOAD_NO_PAUSE UINT64_MAX
int workload_job(const char *text, struct fm_sim_record **at, size_t *n, struct fm_err *err);
/* "TIME HINT=VALUE": a change of a hint. */
int workload_change(const char *text, struct fm_sim_change **at, size_t *n, struct fm_err *err);
int workload_trace(
	FILE *f, const char *file, struct fm_sim_record **out, size_t *n, struct fm_err *err);
