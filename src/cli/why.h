/* SPDX-License-Identifier: Apache-2.0 */
/* `fermata why`: what a group waits for, in words, and what would change it. */
#pragma once
#include "cmd/cli.h"

/* The daemon's reply; in it the group that is asked about, and one of its devices. */
struct why {
	const json_t *reply, *group, *device;
};

/* Adds advice on how to make the group wait less there, unless the list has it already. Each item
 * is an object with "text" and, where there is a command for it, "argv" (of `fermata`). */
void why_advise(const struct why *w, json_t *list);

/* why_memory.c: prints which allocations were refused, why, and what would change that. */
void why_show_memory(const json_t *group);
/* What keeps others' memory on the device that the group waits for, if it is the host. */
void why_show_host(const json_t *group);
/* Where it is if the group's memory is out, and not by hand; or NULL. */
const json_t *why_memory_out(const json_t *group);
/* Of such a group: how much of its memory is where, and because of whom. time: for how long it has
 * waited for it, "" if it does not wait. The caller owns the result. */
json_t *why_where_memory_is(const struct why *w, const char *start, const char *time);
/* ", for about 62 ms more, at 50G a second", as far as that is known. */
#define WHY_WHEN 96
const char *why_when_in(const json_t *group, char text[WHY_WHEN]);

/* That group on that device, or NULL. */
const json_t *why_on(const json_t *group, const char *device);

/* Does another user have the device, under a policy that first divides it among users?
 */
bool why_other_user(const struct why *w);

/* The group that it waits for, or waited for; NULL: not known, or gone. */
const json_t *why_culprit(const struct why *w);
