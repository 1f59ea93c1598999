/* SPDX-License-Identifier: Apache-2.0 */
/*
 * INI files as we read them all, by inih, strictly: an indented line is a line like any other, one
 * that inih would cut is a mistake, and so is whatever is no [section], key = value or comment. A
 * section is told of where it begins, for it may hold no key; two of one name are one. A key
 * stands in a section once. The first mistake ends it, and is told as "FILE:LINE: reason".
 *
 * Owns: nothing: the caller is told what a file says, key by key.
 * Locks: none.
 * Threads: any. One call reads one file.
 */
#pragma once
#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define FM_INI_SECTION 50 /* longest name, with its NUL */

struct fm_ini {
	/* Of the caller. Both functions return 0, or a negative errno with the reason in err. */
	FILE *f;
	const char *file; /* as mistakes name it */
	int (*section)(void *ctx, const char *name, struct fm_err *err);
	int (*key)(void *ctx, const char *section, const char *key, const char *value,
		struct fm_err *err);
	void *ctx;
	const char *too_long;             /* what to do about a line that is; or NULL */
	bool (*repeats)(const char *key); /* may it stand there several times? NULL: none */

	uint32_t line; /* at hand, from 1 */

	int rc;
	struct fm_err *err;
	struct fm_ini_seen *seen; /* keys that were taken */
	size_t n_seen, room;
};

int fm_ini_read(struct fm_ini *in, struct fm_err *err);

/* Put "FILE:LINE: " in front of the reason, or "FILE: " where the line is 0. Returns rc. */
int fm_ini_blame(const char *file, uint32_t line, int rc, struct fm_err *err);
