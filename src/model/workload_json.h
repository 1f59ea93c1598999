/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workloads in JSON, with the same sections and keys as in INI.
 *
 *   {"workload": {KEY: VALUE...}, "device": {NAME: {KEY: VALUE...}...}, "group": ..., "policy":
 * ...}
 *
 * A value is a text as in INI, a number, true or false, or a list of these. For `commands', `job'
 * and `change' each item of a list is a line; for other keys the items are the words of one line.
 */
#pragma once
#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define WORKLOAD_PATH 200

struct workload_json {
	/* The caller's, as in struct fm_ini. */
	FILE *f;
	const char *file;
	int (*section)(void *ctx, const char *name, struct fm_err *err);
	int (*key)(void *ctx, const char *section, const char *key, const char *value,
		struct fm_err *err);
	void *ctx;

	uint32_t place; /* the present place: sections and values count from 1 */
	char path[WORKLOAD_PATH];
	struct json_t *root;
	uint32_t stop_at; /* the wanted place, or 0 */
};

/* 0, or a negative errno with "FILE: PATH: reason" in err, or "FILE:LINE: reason" if it is not
 * JSON. The caller frees it in any case. */
int workload_json_read(struct workload_json *j, struct fm_err *err);
/* Call it after reading. Puts "FILE: PATH: " of that place in front of err, or "FILE: " if the
 * place is 0. Returns rc. */
int workload_json_blame(struct workload_json *j, uint32_t place, int rc, struct fm_err *err);
void workload_json_free(struct workload_json *j);
