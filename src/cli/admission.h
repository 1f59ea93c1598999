/* SPDX-License-Identifier: Apache-2.0 */
/* Asking the daemon to admit tasks: what `fermata admit` and `fermata run` share. */
#pragma once
#include "cmd/ctl.h"
#include <fermata/rta.h>

/* A task as the request has it. group and overrun may be NULL. */
json_t *admission_task(
	const char *name, const char *group, const char *overrun, const struct fm_rta_task *t);

/* Sends the request. 0: *reply, which is the caller's, says whether the tasks were admitted.
 * Otherwise the error has been reported, and the result is the exit code. */
int admission_ask(const struct cli *cli, json_t *request, json_t **reply, char found[CTL_PATH]);

/* Warns if `who`, for example a file, gives another epsilon than the daemon's settings. */
void admission_warn(const json_t *reply, const char *who, int64_t epsilon);

/* Prints the admitted tasks with bound and slack, or the tasks that would miss their deadlines.
 * Returns 0, or CLI_NO if the tasks were refused. */
int admission_show(const json_t *reply, bool quiet);

/* "demote", "stop" or "report", or wrong usage. */
void admission_check_overrun(const struct argp_state *state, const char *name);
