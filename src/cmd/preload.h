/* SPDX-License-Identifier: Apache-2.0 */
/* For APIs without layers: a shim that is loaded before all else, by LD_PRELOAD. */
#pragma once
#include "base/err.h"
#include <limits.h>
#include <stdbool.h>

struct preload {
	const char *file;     /* of the shim */
	const char *name;     /* of the API: "CUDA" */
	const char *variable; /* 1 or 0 in it: whatever is there, or not */
};

/* Absolute path of the shim. -ENOENT, with where it looked: there is none; -EINVAL, with why: none
 * that LD_PRELOAD could name; -ENOTSUP: this build gives programs none. In a sanitized build the
 * runtime's path and a ':' stand before it. */
int preload_find(const struct preload *p, char path[PATH_MAX], struct fm_err *err);

/* Is it wanted? What p->variable says counts, else `wanted`. */
bool preload_wanted(const struct preload *p, bool wanted);

/* Into LD_PRELOAD, if it is wanted and not there. Without the shim programs of other APIs are
 * scheduled all the same: that is reported, and 0. */
int preload_inject(const struct preload *p, bool wanted, struct fm_err *err);

/* Is the file in a directory of $LD_LIBRARY_PATH? */
bool preload_in_library_path(const char *file);
