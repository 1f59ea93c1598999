/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policies by users (<fermata/policy.h>), each in a process of its own. To the core a plug-in is a
 * table of operations like any other; they send events, and ask, with a limit on the time. When a
 * plug-in fails its table goes on and lets the group run that became ready first, until its owner
 * has looked at fm_plugin_failure() and changed the policy.
 *
 * Owns: the process of the policy, and the socket to it.
 * Locks: none.
 * Threads: one, the daemon's loop. The policy itself runs in its own process.
 */
#pragma once
#include "base/err.h"
#include "policy/policy.h"

#define FM_PLUGIN_NAME 32
#define FM_PLUGIN_LOAD (2 * FM_S) /* how long loading and init may take */

struct fm_plugin;

struct fm_plugin_source {
	const char *folder;
	const char *host;   /* an executable that calls fm_plugin_host() when told --policy-host */
	uint64_t budget_ns; /* for an answer */
	bool replay;        /* time is virtual: how long an answer took changes nothing */
};

/* -ENOENT: there is no such file in the folder. */
int fm_plugin_open(struct fm_plugin **out, const struct fm_plugin_source *src, const char *name,
	struct fm_err *err);

/* After the core has let go of its table. NULL does nothing. */
void fm_plugin_close(struct fm_plugin *p);

const struct fm_policy_ops *fm_plugin_ops(const struct fm_plugin *p);

/* From now on a device can be added although the plug-in has failed. */
void fm_plugin_adopted(struct fm_plugin *p);

/* It was late. Takes the next such warning, in the order in which they came; false: there is none.
 */
#define FM_PLUGIN_WARNING 160
bool fm_plugin_warning(struct fm_plugin *p, char text[FM_PLUGIN_WARNING]);

/* Why it must not be asked any more; NULL: it is well. */
const char *fm_plugin_failure(const struct fm_plugin *p);

/* The names that the folder has files for; whether they can be loaded is another question. */
void fm_plugin_each(const char *folder, void (*fn)(void *arg, const char *name), void *arg);

/* The process of a plug-in: never returns to the daemon's code. */
int fm_plugin_host(void);

/* file.c: the object, opened, if none but root and this user could have written it; and is it a
 * name of one? */
int fm_plugin_file(const char *folder, const char *name, struct fm_err *err);
bool fm_plugin_name_ok(const char *name);
