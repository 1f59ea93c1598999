/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The groups that a program's queues join by name, in all ways that a program may choose one.
 *
 * Owns: the names of the client's groups.
 *
 * Locks: one, over the names. The client's lock is taken inside.
 *
 * Threads: any thread of the program; the agent does not come here.
 */
#pragma once
#include "shim.h"

/* The index of the group with this name, which the client joins if it has not yet; NULL: 0, the
 * process's own. -EINVAL, -ENOSPC. */
int fm_shim_group(struct fm_client *c, const char *name);

/* Are the hints with this serial newer than those that the group was last given here? If so they
 * are taken to be given now. Serials rise in the process. */
bool fm_shim_group_news(struct fm_client *c, unsigned index, uint64_t serial);

void fm_shim_groups_fork_child(void);
