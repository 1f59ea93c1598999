/* SPDX-License-Identifier: Apache-2.0 */
/* `fermata run --guardian-kill': the list is looked at before the program starts. */
#pragma once
#include "cmd/cli.h"

/* Its path from the root, never to be freed. Ends the command if it is not to be believed. */
char *run_kill_list(const char *path, const struct argp_state *state);
