/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hints of `fermata run': what the program is given, and what the daemon says of it beforehand.
 */
#pragma once
#include "base/err.h"
#include "policy/policy.h"
#include <fermata/hint.h>

#define ANSWER_MS 1000 /* that a daemon is waited for */

struct run_hints {
	struct {
		bool set;
		int64_t value;
	} of[FM_HINT_COUNT];
	uint32_t given; /* on this command line, as FM_READS() */
};

/* Puts them, and those of an outer `fermata run', into the environment. */
int run_hints_set(struct run_hints *hints, struct fm_err *err);

/* Reports hints that the daemon in that directory will refuse in that group ("": one of its own),
 * and those of `read' that its policy does not read. */
void run_hints_tell(struct run_hints *hints, const char *dir, const char *group, uint32_t read,
	const char *command);

/* Sets FERMATA_MEMORY if that daemon manages the memory of such programs, or if it is 1 already;
 * and then FERMATA_MEMORY_TABLES, FERMATA_MEMORY_TEMPLATES and FERMATA_MEMORY_EARLY as the daemon
 * has them, unless they are set. group: NULL: none is given. */
int run_ask_managed(const char *dir, const char *group, const char *command, struct fm_err *err);
