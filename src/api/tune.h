/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Constants of time that several device APIs share. As src/xqueue/tune.h: each says what it is for
 * and what a larger value does; its unit is in its value, or in brackets.
 */
#pragma once
#include "base/clock.h"

/* [time] A driver that does not call back is asked for a tracker after a quarter of the time that
 * it has been under way, but no sooner than this and no later than the next. Larger: an end is
 * noticed later, at less cost. */
#define FM_WATCHED_LOOK_MIN (25 * FM_US)
#define FM_WATCHED_LOOK_MAX (10 * FM_MS)
/* [ms] At the end of the process it waits so long for the thread to leave the driver. */
#define FM_WATCHED_STOP_MS 100

/* [time] A trial of gates (trial.h): one must stand for this long. Larger: a queue is made later.
 */
#define FM_TRIAL_STANDS (2 * FM_MS)
/* [time] What does not pass within this time counts as standing. Larger: a device that has much to
 * do is not taken for one that stands, and a queue beside busy ones is made later. So long is
 * waited, too, for what stood with it when it has opened: less, and on a busy machine queues that
 * share a channel are not noticed. */
#define FM_TRIAL_PASSES (100 * FM_MS)
/* [time] What was behind the gate must have passed so long after it opened. One trial that fails
 * decides, so a machine that is busy just then must not look like one without gates. Larger: where
 * gates do not open, the first command comes later. */
#define FM_TRIAL_OPENS (2 * FM_S)
/* [times] A queue's gate must hold so often. Larger: a queue is made later; but gates that do not
 * hold are the less taken for some that do. */
#define FM_TRIAL_HELD 3u
/* [times] A queue that stood with the gate must do so each time. Larger: one that is only busy is
 * less often taken for one that stands with it. */
#define FM_TRIAL_STALLED 4u
/* [time] Between looks. */
#define FM_TRIAL_LOOK (50 * FM_US)
/* [times] A queue that another thread uses is asked so often. Larger: fewer are left out. */
#define FM_TRIAL_TRIES 20u
