/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Constants of time of HIP alone. As src/xqueue/tune.h: each says what it is for and what a larger
 * value does; its unit is in its value, or in brackets.
 */
#pragma once
#include "base/clock.h"

/* [time] In the trial of a gate what is behind it must stand for so long. Larger: the first queue
 * of a device is made later. */
#define FM_HIP_TRIAL_STANDS (2 * FM_MS)
/* [time] What should pass an open gate then may take so long. It is tried once, so a machine that
 * is busy just then must not look like one without gates. Larger: where gates keep back others, the
 * first queue of a device is made later. */
#define FM_HIP_TRIAL_PASSES (2 * FM_S)
/* [time] How often the trial looks whether it has. */
#define FM_HIP_TRIAL_LOOK (50 * FM_US)
