/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the shims of all device APIs do alike, whatever the driver: the process's client, what
 * happens at fork() and at the process's end, and the count of what goes past.
 *
 * Owns: the pointer to the client as the shim knows it (the client itself is xqueue's), and the
 * settings that a program may choose before its first use.
 * Locks: none of its own.
 * Threads: any of the program's; the agent calls nothing here.
 * Fails open: without a client nothing is scheduled, and nothing is counted.
 */
#pragma once
#include "xqueue/xqueue.h"
#include <stdatomic.h>

/* What is different from API to API. Each shim defines one, as fm_shim_api. Members may be NULL
 * unless it says otherwise. */
struct fm_shim_api {
	const char *name;  /* as the daemon is told: "opencl". Not NULL */
	bool gates_always; /* fm_client_config */
	void (*makes_room)(enum fm_room room);

	/* The process has its client, for the first time or after a fork. Before anybody else sees
	 * it; by several threads that come at one time maybe. */
	void (*client_made)(struct fm_client *c);

	/*
	 * fork(), from the first call of fm_shim_hear() on. Where a child may go on to use what its
	 * parent has made, the shim's locks are held over it: taken by fork_prepare, left by
	 * fork_done in both processes. Else the child forgets all, by fork_child, and makes its
	 * locks anew.
	 */
	void (*fork_prepare)(void);
	void (*fork_done)(void);
	void (*fork_child)(void);

	/* The process exits: behind the agent's rest, before the driver's own end if the driver has
	 * been initialised by then. */
	void (*at_exit)(void);
};
extern const struct fm_shim_api fm_shim_api;

extern _Atomic(struct fm_client *) fm_shim_client_made __attribute__((visibility("hidden")));

/* The process's client, if it has one by now. */
static inline struct fm_client *fm_shim_has_client(void)
{
	return atomic_load_explicit(&fm_shim_client_made, memory_order_acquire);
}

/* The process's client, made at first use; NULL: switched off, or out of resources. */
struct fm_client *fm_shim_client(void);

/* What the program itself wishes, before its client is made. local_policy: NULL, or local mode with
 * that policy, whatever the environment says. spin_ns: 0, or as in fm_client_config. 0; -EINVAL: no
 * such policy; -ENOMEM. */
int fm_shim_choose(const char *local_policy, uint64_t spin_ns);

/* Hear of fork() and of the process's end from now on. Idempotent. */
void fm_shim_hear(void);

/* A call that goes past us, by its name. A program that never got as far as a client costs nothing,
 * this included. */
void fm_shim_ungoverned(const char *call);
