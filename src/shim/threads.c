/* SPDX-License-Identifier: Apache-2.0 */
#include "threads.h"
#include "base/cancel.h"
#include "shim.h"
#include "tune.h"
#include <pthread.h>
#include <time.h>

static _Atomic unsigned ending;
static pthread_key_t key;
static bool made;

static void thread_ended(void *unused)
{
	struct fm_client *c = fm_shim_has_client();

	atomic_fetch_add(&ending, 1);
	fm_shim_api.thread_ends(c && !fm_client_exits(c));
	atomic_fetch_sub(&ending, 1);
}

__attribute__((constructor)) static void make_key(void)
{
	if (fm_shim_api.thread_ends)
		made = !pthread_key_create(&key, thread_ended);
}

bool fm_shim_thread_hear(void)
{
	return made && !pthread_setspecific(key, &key);
}

void fm_shim_threads_await(void)
{
	const struct timespec nap = {.tv_nsec = FM_SHIM_THREAD_END_LOOK};
	uint64_t until = fm_now() + FM_SHIM_THREAD_END_MOST;
	FM_NO_CANCEL;

	while (atomic_load(&ending) && fm_now() < until)
		nanosleep(&nap, NULL);
}

void fm_shim_threads_fork_child(void)
{
	atomic_store(&ending, 0);
}
