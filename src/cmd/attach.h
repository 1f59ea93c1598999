/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request for the next process of a group: `fermata run` is to give it an agent that looks at it
 * (`fermata-lab profile --attach-next`). It is a file in the user's runtime directory, with
 * variables for the environment of that process. Whoever takes it first has it alone.
 */
#pragma once
#include "base/err.h"
#include <stdbool.h>
#include <sys/types.h>

#define ATTACH_GROUP_MOST 63 /* characters of a group's name */

/* With these variables of our own environment, whose names begin with FERMATA_PROFILE; the list
 * ends with NULL. -EEXIST: somebody waits for the group's next process already. */
int attach_ask(const char *group, const char *const *names, struct fm_err *err);
/* True: nobody has taken it, and nobody will. */
bool attach_withdraw(const char *group);
/* Nobody has taken it as yet. */
bool attach_waits(const char *group);
/* The process that has taken a request whose records go to `dir'; 0: none as yet. */
pid_t attach_taken(const char *dir);

/* If there is a request for the group, the program that this process becomes is looked at. A
 * failure is reported, and no reason not to run it. */
void attach_take(const char *group);
