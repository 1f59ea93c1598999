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
#include <stddef.h>
#include <stdint.h>

#define FM_PLATFORM_VERSION 1
#define FM_PLATFORM_UNSET   INT64_C(-1)
#define FM_PLATFORM_MAX     INT64_C(3600000000000) /* an hour: no time in a file is longer */

/* Times in nanoseconds, or FM_PLATFORM_UNSET where they were not measured; at least one is set. */
struct fm_platform {
	int64_t epsilon; /* to change who uses the device, at worst */
	int64_t slice;   /* the driver's own time slice; above 0 */
	int64_t theta;   /* what a change between slices costs */
};

/* -EINVAL or -ENOMEM, with err, whose text begins with `name`. On error *p is untouched. */
int fm_platform_parse(
	struct fm_platform *p, const char *name, const char *text, size_t size, struct fm_err *err);

/* Also what keeps the file from being read: -ENOENT, -EACCES and the like. Only plain files are
 * opened, and no large ones: a daemon may be told any name. */
int fm_platform_load(struct fm_platform *p, const char *file, struct fm_err *err);
