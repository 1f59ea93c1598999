/* SPDX-License-Identifier: Apache-2.0 */
/* Where the parts of Fermata lie: beside this program, in the build tree as in an installation. */
#pragma once
#include "base/err.h"
#include <limits.h>
#include <stdbool.h>

#define PLACE_LIBRARY_FILE "libfermata.so.0"

/* Absolute path of one of our libraries: in $FERMATA_LIBDIR, else in the library directory beside
 * this program. self: where this program lies, if that had to be asked, else "". */
bool place_file(const char *file, char path[PATH_MAX], char self[PATH_MAX]);

/* Absolute path of the library of XQueues. False: it is where the loader finds it, or not
 * at all. */
bool place_library(char path[PATH_MAX]);

/* The daemon's program: beside this one, else "fermatad" for a search in $PATH. */
void place_daemon(char path[PATH_MAX]);

/* Absolute path of another program of Fermata's, which lies beside this one: links to this one do
 * not matter. -ENOENT or another negative errno, with where it looked. */
int place_program(const char *name, char path[PATH_MAX], struct fm_err *err);
