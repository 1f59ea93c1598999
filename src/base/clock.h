/* SPDX-License-Identifier: Apache-2.0 */
/* Time is a u64 of nanoseconds on CLOCK_MONOTONIC: the same clock in every process of one machine.
 */
#pragma once
#include <stdint.h>
#include <time.h>

#define FM_NEVER UINT64_MAX
#define FM_US    UINT64_C(1000)
#define FM_MS    UINT64_C(1000000)
#define FM_S     UINT64_C(1000000000)

/* Nanoseconds of processor time that this thread has had. */
static inline uint64_t fm_thread_time(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * FM_S + (uint64_t)ts.tv_nsec;
}

static inline uint64_t fm_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * FM_S + (uint64_t)ts.tv_nsec;
}

static inline struct timespec fm_timespec(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / FM_S), .tv_nsec = (long)(ns % FM_S)};
}
