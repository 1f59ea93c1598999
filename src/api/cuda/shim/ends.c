/* SPDX-License-Identifier: Apache-2.0 */
#include "ends.h"
#include "base/cancel.h"
#include "shim.h"
#include <pthread.h>
#include <time.h>

/* A thread that ends puts a word into its stream, for which there may be no room for long. */
#define MOST FM_S

static _Atomic unsigned ending;
static pthread_key_t key;
static bool made;

/* As the process exits the driver may have ended, too. */
static void ended(void *unused)
{
	fm_cuda_captures_of_thread_end();
	atomic_fetch_add(&ending, 1);
	if (fm_shim_has_client() && !fm_client_exits(fm_shim_client()))
		fm_cuda_close_thread();
	atomic_fetch_sub(&ending, 1);
}

/* Before the driver makes its own, if it can be: threads then end for us first. */
__attribute__((constructor)) static void begin(void)
{
	made = !pthread_key_create(&key, ended);
}

bool fm_cuda_ends_hear(void)
{
	return made && !pthread_setspecific(key, &key);
}

void fm_cuda_ends_await(void)
{
	const struct timespec nap = {.tv_nsec = 20 * FM_US};
	uint64_t until = fm_now() + MOST;
	FM_NO_CANCEL;

	while (atomic_load(&ending) && fm_now() < until)
		nanosleep(&nap, NULL);
}

void fm_cuda_ends_fork_child(void)
{
	atomic_store(&ending, 0);
}
