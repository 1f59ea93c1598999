/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON files as we read them all: one object, no member twice, numbers within their limits. A
 * mistake is told as "FILE: PATH.KEY: reason", or with line and column where it is no JSON; a
 * member that nobody knows is remembered, for who wants to say so. And what several commands print.
 *
 * Owns: nothing: files are read into Jansson's objects, which the caller owns.
 * Locks: none.
 * Threads: any, each with objects of its own.
 */
#pragma once
#include "base/err.h"
#include "base/hist.h"
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define FM_JSON_UNKNOWN 128

struct fm_json {
	/* Of the caller. */
	const char *file; /* as mistakes name it */
	const char *hint; /* of mistakes: what describes such files */
	char *unknown;    /* FM_JSON_UNKNOWN bytes, empty at first; or NULL */
	struct fm_err *err;

	char path[160]; /* where one is; "": at the top */
};

/* The root is an object. Of a text; of an open file; of the file of that name. -EINVAL. */
int fm_json_parse(struct fm_json *j, const char *text, size_t size, json_t **root);
int fm_json_read(struct fm_json *j, FILE *f, json_t **root);
int fm_json_load(struct fm_json *j, json_t **root);

void fm_json_at(struct fm_json *j, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* -EINVAL. key may be NULL. */
int fm_json_bad(const struct fm_json *j, const char *key, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* `from`, where one is, is an object; `known`, which ends with NULL, are its members, or it is
 * NULL. -EINVAL. */
int fm_json_object(const struct fm_json *j, const json_t *from, const char *const *known);

/* A number in [min, max]. -EINVAL; `*v` stays as it is where the member is missing and not
 * `required`. */
int fm_json_real(const struct fm_json *j, const json_t *from, const char *key, double min,
	double max, bool required, double *v);
int fm_json_whole(const struct fm_json *j, const json_t *from, const char *key, int64_t min,
	int64_t max, bool required, int64_t *v);

/* A text of somebody else's, that may be none: what is not UTF-8 in it becomes '?'. NULL without
 * memory. */
json_t *fm_json_text(const char *s);

/* {"nanoseconds": how many took at most so long}, each counted once, of the buckets that are not
 * empty. NULL without memory. */
json_t *fm_json_histogram(const struct fm_hist *h);
