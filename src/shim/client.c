/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "groups.h"
#include "local/local.h"
#include "shim.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

_Atomic(struct fm_client *) fm_shim_client_made;

static _Atomic(const char *) local_policy; /* kept for children, never freed */
static _Atomic uint64_t spin_ns;

static void fork_child(void)
{
	atomic_store(&fm_shim_client_made, NULL);
	fm_shim_groups_fork_child();
	if (fm_shim_api.fork_child)
		fm_shim_api.fork_child();
	if (fm_shim_api.fork_done)
		fm_shim_api.fork_done();
}

static void register_fork(void)
{
	pthread_atfork(fm_shim_api.fork_prepare, fm_shim_api.fork_done, fork_child);
}

void fm_shim_hear_forks(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, register_fork);
}

static void register_exit(void)
{
	if (fm_shim_api.at_exit)
		atexit(fm_shim_api.at_exit);
}

/* The client registers its own handlers after these, so its handlers run first at the process's
 * end, and before a fork. */
static void register_handlers(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	fm_shim_hear_forks();
	pthread_once(&once, register_exit);
}

struct fm_client *fm_shim_client(void)
{
	const struct fm_client_config config = {.api = fm_shim_api.name,
		.local = &fm_link_local,
		.local_policy = atomic_load(&local_policy),
		.spin_ns = atomic_load(&spin_ns),
		.makes_room = fm_shim_api.makes_room,
		.rests = fm_shim_api.rests && fm_shim_api.rests(),
		.keep_out = fm_shim_api.keep_out,
		.looked = fm_shim_api.looked,
		.gates_always = fm_shim_api.gates_always,
		.counts_memory = fm_shim_api.counts_memory};
	struct fm_client *c = fm_shim_has_client();

	if (c)
		return c;
	register_handlers();
	c = fm_client_get(&config);
	if (!c)
		return NULL;
	if (fm_shim_api.client_made)
		fm_shim_api.client_made(c);
	atomic_store_explicit(&fm_shim_client_made, c, memory_order_release);
	return c;
}

int fm_shim_choose(const char *policy, uint64_t spin)
{
	FM_CLEAN_FREE char *copy = NULL;
	int rc = policy ? fm_local_check(policy, NULL) : 0;

	if (rc)
		return rc == -ENOMEM ? rc : -EINVAL;
	if (policy) {
		copy = strdup(policy);
		if (!copy)
			return -ENOMEM;
	}
	atomic_store(&local_policy, fm_take_ptr(copy));
	atomic_store(&spin_ns, spin);
	return 0;
}

void fm_shim_ungoverned(const char *call)
{
	struct fm_client *c = fm_shim_has_client();

	if (c)
		fm_client_count_ungoverned(c, call);
}
