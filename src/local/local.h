/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Local mode: a link whose other end is a bridge in this process, so that the groups of one program
 * are scheduled without a daemon. The same bridge, core and policies as the daemon's.
 *
 * Owns: the bridge, and with it the core, of this process.
 * Locks: one (local.c), over each use of the bridge. It may be taken under the client's lock, and
 * only tried where a bell is rung.
 * Threads: any that rings or sends, and the agent.
 */
#pragma once
#include "base/err.h"
#include "xqueue/link.h"

/* open()'s arg: "POLICY [key=value...]". -EINVAL for a policy or a setting that there is not. */
extern const struct fm_link_ops fm_link_local;

/* Would open() take this? 0 or negative errno with a text; err may be NULL. */
int fm_local_check(const char *policy, struct fm_err *err);
