/* SPDX-License-Identifier: Apache-2.0 */
/* Asking the daemon to admit tasks: what `fermata admit` and `fermata run` share. */
#pragma once
#include "cmd/ctl.h"
#include <fermata/rta.h>

/* A task as the request has it. group and overrun may be NULL. */
json_t *admission_task(
	const char *name, const char *group, const char *overrun, const struct fm_rta_task *t);

/* Send; *reply is the caller's. 0: it says whether they were admitted; else reported already, and
 * this is the exit code. */
int admission_ask(const struct cli *cli, json_t *request, json_t **reply, char found[CTL_PATH]);

/* Warn where `who` says another epsilon than the daemon's settings. */
void admission_warn(const json_t *reply, const char *who, int64_t epsilon);

/* Print who is admitted with bound and slack, or who would miss. 0; CLI_NO where refused. */
int admission_show(const json_t *reply, bool quiet);

/* "demote", "stop" or "report", or wrong usage. */
void admission_check_overrun(const struct argp_state *state, const char *name);
