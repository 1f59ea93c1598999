/* SPDX-License-Identifier: Apache-2.0 */
/* Constants of time of shims. As in src/xqueue/tune.h, each comment says what the constant is for,
 * and its unit. */
#pragma once
#include "base/clock.h"

/* [time] The end of a context waits this long for threads that end. What they put into their queues
 * may have to wait for room there. */
#define FM_SHIM_THREAD_END_MOST FM_S
/* [time] Between its looks. */
#define FM_SHIM_THREAD_END_LOOK (20 * FM_US)
