/* SPDX-License-Identifier: Apache-2.0 */
/* The sections and keys of workload files: one table. */
#pragma once
#include "workload.h"

enum workload_section { WL_WORKLOAD, WL_DEVICE, WL_GROUP, WL_MEMORY, WL_POLICY, WL_NONE };

struct workload_key;

/* The value goes to base + offset. For names of groups, `own' is what the plan does not have. */
struct workload_target {
	void *base;
	struct workload_group *own;
	uint32_t line;
};

/* Finds a key. NULL with an error that names a similar key. Hints are keys of a group that are not
 * in the table: for these *hint is set, and the result is NULL without an error. */
const struct workload_key *workload_key_find(
	enum workload_section section, const char *name, bool *hint, struct fm_err *err);
int workload_key_set(const struct workload_key *k, const struct workload_target *to,
	const char *value, struct fm_err *err);

/* workload_finish.c: called after the last line. *line: the line of the mistake; 0: no line. */
int workload_finish(struct workload *w, const char *folder, uint32_t *line, struct fm_err *err);
/* workload_memory.c: the same of memory. */
int workload_finish_memory(struct workload *w, uint32_t *line, struct fm_err *err);
