/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Local mode: a link whose other end is a bridge in this process, so that the groups of one program
 * are scheduled without a daemon. It has the same bridge, core and policies as the daemon.
 *
 * Owns: the bridge, and with it the core, of this process.
 *
 * Locks: one (local.c), over each use of the bridge. It may be taken under the client's lock, and a
 * thread that rings only tries it.
 *
 * Threads: any thread that rings or sends, and the agent.
 */
#pragma once
#include "base/err.h"
#include "xqueue/link.h"

/* open()'s arg: "POLICY [key=value...]". -EINVAL if the policy or a setting does not exist. */
extern const struct fm_link_ops fm_link_local;

/* Would open() accept this? 0 or negative errno with a text; err may be NULL. */
int fm_local_check(const char *policy, struct fm_err *err);
