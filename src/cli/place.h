/* SPDX-License-Identifier: Apache-2.0 */
/* Where the parts of Fermata lie: beside this program, in the build tree as in an installation. */
#pragma once
#include "base/err.h"
#include <limits.h>

#define PLACE_LAYER_FILE "libfermata-opencl.so"

/* Absolute path of the OpenCL layer: in $FERMATA_LIBDIR, else in the library directory beside this
 * program. -ENOENT, with where it looked. */
int place_layer(char path[PATH_MAX], struct fm_err *err);

/* The daemon's program: beside this one, else "fermatad" for a search in $PATH. */
void place_daemon(char path[PATH_MAX]);
