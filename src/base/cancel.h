/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread of the program's that is told to end (pthread_cancel) does so in the next call of the
 * system's that may wait. That must be none of ours, nor of the driver's for us: it would end with
 * locks, in the middle of a call that waits for nothing.
 */
#pragma once
#include <pthread.h>

static inline int fm_cancel_off(void)
{
	int was;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
	return was;
}

static inline void fm_cancel_as(const int *was)
{
	pthread_setcancelstate(*was, NULL);
}

/* Not here, to the end of the scope. */
#define FM_NO_CANCEL int no_cancel_ __attribute__((cleanup(fm_cancel_as), unused)) = fm_cancel_off()
