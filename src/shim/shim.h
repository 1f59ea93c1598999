/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the shims of all device APIs do alike: the process's client, what happens at fork() and at
 * the process's end, and the count of calls that bypass us. Queues are in queues.h, the ends of
 * threads in threads.h.
 *
 * Owns: the pointer to the client (the client itself is xqueue's), and the settings that a program
 * may choose before its first use.
 *
 * Locks: none.
 *
 * Threads: any thread of the program; the agent does not come here.
 *
 * Fails open: without a client nothing is scheduled, and nothing is counted.
 */
#pragma once
#include "xqueue/xqueue.h"
#include <stdatomic.h>

struct fm_shim_queue_ops; /* queues.h */

/* What differs between APIs. Each shim defines one, as fm_shim_api. All but the name may be NULL.
 */
struct fm_shim_api {
	const char *name;                 /* the name that the daemon is told: "opencl". Not NULL */
	bool gates_always, counts_memory; /* fm_client_config */
	void (*makes_room)(enum fm_slice_mode room);

	/* Can this process rest (xqueue/rest.h)? And what its client is told for that
	 * (fm_client_config). */
	bool (*rests)(void);
	bool (*keep_out)(bool out);
	void (*looked)(struct fm_client *c);

	/* The process has its client, or a forked child its own. Other threads do not see it yet.
	 * Threads that come at the same time may each call this. */
	void (*client_made)(struct fm_client *c);

	/*
	 * For fork(), from the first call of fm_shim_hear_forks() or of fm_shim_client() on. If a
	 * child may go on to use what its parent has made, the shim's locks are held over the fork:
	 * fork_prepare takes them, and fork_done releases them in both processes. Otherwise
	 * fork_child makes the locks anew, and forgets everything.
	 */
	void (*fork_prepare)(void);
	void (*fork_done)(void);
	void (*fork_child)(void);

	/* The process exits. All gates are open, and the agent has come to rest. The driver has not
	 * ended yet, if it was initialised before the client was made. */
	void (*at_exit)(void);

	/* This thread, which has called fm_shim_thread_hear(), ends. closes: there is a client, and
	 * the process does not exit, so that the driver may be called. */
	void (*thread_ends)(bool closes);

	const struct fm_shim_queue_ops *queues; /* where queues.h is used */
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

/* The program's own settings, before its client is made. local_policy: force local mode with this
 * policy; NULL: as $FERMATA_LOCAL says. spin_ns: as in struct fm_client_config. 0; -EINVAL: there
 * is no such policy; -ENOMEM. */
int fm_shim_choose(const char *local_policy, uint64_t spin_ns);

/* Handles fork() from now on, for a shim that keeps something before there is a client. May be
 * called any number of times. */
void fm_shim_hear_forks(void);

/* Counts a call of that name as one that bypasses us. Without a client it costs nothing. */
void fm_shim_ungoverned(const char *call);
