/* SPDX-License-Identifier: Apache-2.0 */
/* Where the parts of Fermata lie: beside this program, in the build tree as in an installation. */
#pragma once
#include "base/err.h"
#include <limits.h>
#include <stdbool.h>

#define PLACE_LAYER_FILE   "libfermata-opencl.so"
#define PLACE_CUDA_FILE    "libfermata-cuda.so"
#define PLACE_LIBRARY_FILE "libfermata.so.0"

/* Absolute path of the OpenCL layer: in $FERMATA_LIBDIR, else in the library directory beside this
 * program. -ENOENT, with where it looked. */
int place_layer(char path[PATH_MAX], struct fm_err *err);

#define PLACE_CUDA_NODE "/dev/nvidiactl" /* where NVIDIA's driver is */

/* Absolute path of the CUDA shim, likewise. -ENOENT, with where it looked: there is none; -EINVAL,
 * with why: none that LD_PRELOAD could name; -ENOTSUP: this build gives programs none. In a
 * sanitized build the runtime's path and a ':' stand before it. */
int place_cuda(char path[PATH_MAX], struct fm_err *err);

/* What LD_PRELOAD is to name, likewise: the shim by a path that only a dynamic linker expands for
 * whose programs it is made. For 32-bit programs it leads to an object without code, other C
 * libraries find nothing there, and say nothing. The shim's own path where that is not installed.
 */
int place_preload(char path[PATH_MAX], struct fm_err *err);

/* May programs here use CUDA: a device node of a driver that has it, or what makes one when it is
 * first used, or a driver in $LD_LIBRARY_PATH? */
bool place_has_cuda(void);

/* Absolute path of the library of XQueues, likewise. False: it is where the loader finds it, or not
 * at all. */
bool place_library(char path[PATH_MAX]);

/* The daemon's program: beside this one, else "fermatad" for a search in $PATH. */
void place_daemon(char path[PATH_MAX]);
