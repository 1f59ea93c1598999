/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Constants of time of OpenCL alone. As src/xqueue/tune.h: each says what it is for and what a
 * larger value does; its unit is in its value, or in brackets.
 */
#pragma once
#include "base/clock.h"

/* [time] Callbacks later than this are not used: a good driver needs a few microseconds. */
#define FM_CL_CALLBACK_LATE (50 * FM_US)
/* [time] So long a trial asks without a pause. More: a processor is busy for longer with a driver
 * that is slow. */
#define FM_CL_CALLBACK_POLL (1 * FM_MS)
/* [time] A trial of a callback takes no longer. Less: on a machine that is very busy a driver whose
 * thread has no processor counts as slow, and its kernels are not stopped. */
#define FM_CL_CALLBACK_GIVE_UP (250 * FM_MS)
/* [trials] Odd: the majority decides. */
#define FM_CL_CALLBACK_TRIES 5
