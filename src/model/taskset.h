/* SPDX-License-Identifier: Apache-2.0 */
/* Files that describe sets of tasks. fermata-analyze(1) describes the format. */
#pragma once
#include "cmd/cli.h"
#include "json/json.h"
#include <fermata/rta.h>

#define TASKSET_TASKS \
	20000 /* more would take minutes, because each is compared with all before it */

#define TASKSET_CHUNKS 4096 /* of a job; slots, of a set: as in <fermata/gpu_sched.h> */
#define TASKSET_SLOTS  64

enum taskset_use {
	TASKSET_RTA,  /* fixed priorities: each task with priority and cpu */
	TASKSET_GEDF, /* global EDF: cpu_time and period, which is the deadline */
	TASKSET_GPU,  /* a set of a device: gpu_time, chunks; without a deadline, only waited for */
};

struct taskset {
	json_t *root; /* names live here */
	const char *unit;
	int64_t scale; /* ns in a unit */
	const char **name;
	struct fm_rta_task *task;
	struct fm_rta_segment *segment; /* of all tasks */
	struct fm_rta_set set;          /* computed from the above */
	uint32_t cpus, slots;           /* 0: the file does not say */
	struct fm_gedf_gpu_task *gpu;   /* TASKSET_GPU */
	char unknown[FM_JSON_UNKNOWN];  /* the first unknown key */
};

/* -EINVAL or -ENOMEM, with err. Its text begins with `name`, and the path within the file follows.
 */
int taskset_parse(struct taskset *ts, const char *name, const char *text, size_t size,
	enum taskset_use use, struct fm_err *err);
int taskset_load(struct taskset *ts, const char *file, enum taskset_use use, struct fm_err *err);
void taskset_free(struct taskset *ts);
#define TASKSET_CLEAN __attribute__((cleanup(taskset_free)))

/* Reports the first unknown key on stderr, if there is one. */
void taskset_tell_unknown(const struct taskset *ts, const char *file);

/* The name. A long one is cut between two characters. */
#define TASKSET_SHORT 61
const char *taskset_short(const struct taskset *ts, size_t task, char buf[TASKSET_SHORT]);

/* A time in the file's unit, exactly: "12.5". */
#define TASKSET_TIME 40
const char *taskset_time(const struct taskset *ts, int64_t ns, char buf[TASKSET_TIME]);
