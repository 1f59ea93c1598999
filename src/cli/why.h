/* SPDX-License-Identifier: Apache-2.0 */
/* `fermata why`: what a group waits for, in words, and what would change it. */
#pragma once
#include "cmd/cli.h"

/* The daemon's reply, and of it the group that is asked about and one of its devices. */
struct why {
	const json_t *reply, *group, *device;
};

/* What would change that it waits there: objects with "text", and, where there is a command for
 * it, "argv" (of `fermata`). Added to the list, unless they are in it. */
void why_advise(const struct why *w, json_t *list);

/* That group on that device, or NULL. */
const json_t *why_on(const json_t *group, const char *device);

/* Does a user that is not its own have the device, under a policy that divides it among users
 * first?
 */
bool why_other_user(const struct why *w);

/* Whom it waits for, or did; NULL: not known, or gone. */
const json_t *why_culprit(const struct why *w);
