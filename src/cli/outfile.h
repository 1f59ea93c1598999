/* SPDX-License-Identifier: Apache-2.0 */
/* Files that commands write in one piece: never half of one, nor in place of what is no file. */
#pragma once
#include "base/err.h"
#include <stdbool.h>
#include <stdio.h>

/* Before anything is done for nothing. -EINVAL: what is there is no regular file; -EEXIST: it is to
 * stay, unless `force`. */
int outfile_check(const char *path, bool force, struct fm_err *err);

/* A file beside `path', with its name but for what mkstemp() makes of the end; the name is freed by
 * the caller. */
int outfile_open(const char *path, char **fresh, FILE **f, struct fm_err *err);

/* Closes it, and puts it in its place where all of it is `good' and could be written; else it is
 * removed. Without `force' what came there meanwhile stays. */
int outfile_close(
	const char *path, const char *fresh, FILE *f, bool good, bool force, struct fm_err *err);

/* Is it the same file, by whatever name? */
bool outfile_same(const char *a, const char *b);
