/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <fermata/bind.h> in a shim: its queues in groups of the program's choice. Contract of its
 * functions: the public header.
 *
 * Owns: this shim's entry in the process's registry (bind/bind.h).
 *
 * Locks: none; those of queues.h and groups.h inside.
 *
 * Threads: any thread of the program; the agent does not come here.
 */
#pragma once
#include "bind/bind.h"
#include "shim.h"

/* The group of what this thread begins, as fm_thread_bind() says; 0: the process's own. */
unsigned fm_shim_thread_group(struct fm_client *c);

/* Gives a group the hints of a binding. */
void fm_shim_give_hints(struct fm_client *c, unsigned group, const struct fm_binding *b);

/* Returns a queue to the process's own group, whatever the API. -ENOENT. */
int fm_shim_unbind(uintptr_t handle);
