/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for an XQueue to move on. */
#include "segment.h"
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

void fm_turn_wake(struct fm_xq *q)
{
	struct fm_xq_cold *x = q->cold;
	int saved = errno;

	atomic_fetch_add(&x->turn, 1);
	if (atomic_load(&x->waiters))
		syscall(SYS_futex, &x->turn, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
	errno = saved;
}

void fm_turn_wait(struct fm_xq *q, uint32_t seen, uint64_t deadline)
{
	struct fm_xq_cold *x = q->cold;
	struct timespec ts = fm_timespec(deadline);
	int saved = errno;

	atomic_fetch_add(&x->waiters, 1);
	if (atomic_load(&x->turn) == seen)
		syscall(SYS_futex, &x->turn, FUTEX_WAIT_BITSET_PRIVATE, seen,
			deadline == FM_NEVER ? NULL : &ts, NULL, FUTEX_BITSET_MATCH_ANY);
	atomic_fetch_sub(&x->waiters, 1);
	errno = saved;
}
