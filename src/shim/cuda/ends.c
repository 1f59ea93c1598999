/* SPDX-License-Identifier: Apache-2.0 */
#include "ends.h"
#include "base/cancel.h"
#include "base/clock.h"
#include <stdatomic.h>
#include <time.h>

/* A thread that ends puts a word into its stream, for which there may be no room for long. */
#define MOST FM_S

static _Atomic unsigned ending;

void fm_cuda_ends_begin(void)
{
	atomic_fetch_add(&ending, 1);
}

void fm_cuda_ends_end(void)
{
	atomic_fetch_sub(&ending, 1);
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
