/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An error as a value: a negative errno, what happened, and what to do next. For the daemon and the
 * command line; the library and the shims return the negative errno alone.
 */
#pragma once
#include <stddef.h>

struct fm_err {
	int code; /* negative errno; 0: no error */
	char text[256];
	char hint[256];
};

/* Fill err (may be NULL) and return code, so that callers write `return fm_err_set(err, -EINVAL,
 * ...)`. */
int fm_err_set(struct fm_err *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Add what to do next to an error already set; returns err->code (or 0 without err). */
int fm_err_hint(struct fm_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
