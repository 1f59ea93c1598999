/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was measured of a machine and one device of it, for analyses: the file that `fermata
 * calibrate` writes. fermata-calibrate(1) has the format. Whoever reads one trusts the numbers as
 * far as it trusts who may write the file; what is checked here is that they are numbers that an
 * analysis can take.
 *
 * Owns: nothing: the caller owns what was read.
 * Locks: none.
 * Threads: any, each with a struct of its own.
 */
#pragma once
#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FM_PLATFORM_VERSION 1
#define FM_PLATFORM_UNSET   INT64_C(-1)
#define FM_PLATFORM_MAX     INT64_C(3600000000000) /* an hour: no time in a file is longer */

/* Sets of tasks that schedule themselves (<fermata/gpu_sched.h>): what is charged to sets of up to
 * so many tasks, by engine. */
#define FM_PLATFORM_SETS_VERSION 1
#define FM_PLATFORM_ROWS         32
#define FM_PLATFORM_TASKS_MAX    1024 /* of a set */
#define FM_PLATFORM_TEXT         128

struct fm_platform_row {
	int64_t tasks;
	int64_t decision; /* from a chunk's end to the next one's begin */
	int64_t start;    /* from the release of a job, where nothing runs, to its begin */
};

enum fm_platform_engine_id {
	FM_PLATFORM_CPU,
	FM_PLATFORM_GATES,
	FM_PLATFORM_GRAPHS,
	FM_PLATFORM_ENGINES
};

struct fm_platform_engine {
	unsigned rows;                                /* 0: not measured */
	struct fm_platform_row row[FM_PLATFORM_ROWS]; /* by the number of tasks, each larger */
	char skipped[FM_PLATFORM_TEXT];               /* why it was not measured; may be "" */
};

/* Times in nanoseconds, or FM_PLATFORM_UNSET where they were not measured; at least one is set, or
 * an engine has rows. */
struct fm_platform {
	int64_t epsilon; /* to change who uses the device, at worst */
	int64_t slice;   /* the driver's own time slice; above 0 */
	int64_t theta;   /* what a change between slices costs */
	bool has_sets;   /* the file has the part about sets */
	struct fm_platform_engine engine[FM_PLATFORM_ENGINES];
};

/* "cpu", "gates", "graphs"; NULL outside the enum. -ENOENT for an unknown name. */
const char *fm_platform_engine_name(unsigned engine);
int fm_platform_engine_find(const char *name, enum fm_platform_engine_id *engine);

/* What is charged to a set of so many tasks: the first row of as many or more. NULL: there is none.
 */
const struct fm_platform_row *fm_platform_row(const struct fm_platform_engine *e, size_t tasks);

/* -EINVAL or -ENOMEM, with err, whose text begins with `name`. On error *p is untouched. */
int fm_platform_parse(
	struct fm_platform *p, const char *name, const char *text, size_t size, struct fm_err *err);

/* Also what keeps the file from being read: -ENOENT, -EACCES and the like. Only plain files are
 * opened, and no large ones: a daemon may be told any name. */
int fm_platform_load(struct fm_platform *p, const char *file, struct fm_err *err);
