/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Constants of time, and counts that stand for time, of CUDA alone. As src/xqueue/tune.h: each says
 * what it is for and what a larger value does; its unit is in its value, or in brackets.
 */
#pragma once
#include "base/clock.h"

/* --- gates --- */

/* [time] Device time between gates, where nobody wishes another (a gate costs about 4 us). Larger:
 * fewer gates, and a longer wait for a stop at one. */
#define FM_CU_INTERVAL (180 * FM_US)
/* [time] Likewise where processes share one context (MPS): a change between them costs nothing, and
 * shorter segments pay. */
#define FM_CU_INTERVAL_SHARED (50 * FM_US)
/* [time] So long the host's clock and the device's go together, and a float has what lies between.
 */
#define FM_CU_CLOCKS_TOGETHER (60 * FM_S)

/* --- the lock of driver calls --- */

/* [time] How often those look that wait for it. */
#define FM_CU_CALL_NAP (50 * FM_US)
/* [time] The agent waits so long for a moment in which nobody is inside. It holds the lock of the
 * queue that is to stop, which one of those may want to put a gate: then it is asked again. */
#define FM_CU_CALL_SPIN (20 * FM_US)
/* [time] What is being stopped may itself wait for something that the program is to put into a
 * stream next, and come to no rest before. Others wait so long for it. */
#define FM_CU_PUSH_MOST (20 * FM_MS)

/* --- the guardian --- */

/* [time] The agent waits so long for a step of a stop on the spot. */
#define FM_CU_STEP_SPIN (30 * FM_US)
/* [time] A graph waits so long for what is stopped, to allocate memory; */
#define FM_CU_GRAPH_MEMORY_MOST (100 * FM_MS)
/* [time] and a new queue. Then it does without a guard. */
#define FM_CU_GUARD_MEMORY_MOST FM_S
/* [time] A launch of a graph elsewhere waits so long for the one before, which may wait for it. */
#define FM_CU_OUTLAST_MOST (250 * FM_MS)
/* [launches] A channel takes about a thousand commands before the driver waits for the device.
 * Streams share channels, and so they share this; but each may be ahead by the second. Larger: a
 * launch may block in the driver, with locks that a stop needs. */
#define FM_CU_AHEAD       512u
#define FM_CU_AHEAD_LEAST 16u
/* [launches] One that has more than an equal part of it is told anew after so many. */
#define FM_CU_AHEAD_TOLD 16u
/* [launches] To leave one out takes the device, and to make it again the agent, two to three
 * microseconds: no more between two gates. */
#define FM_CU_UNFENCED_MOST 128u
/* [time] The next copy waits so long for what is in front of it, */
#define FM_CU_COPY_IDLE_MOST (250 * FM_MS)
/* [time] and for what is stopped elsewhere. */
#define FM_CU_COPY_WAIT_MOST (20 * FM_MS)
/* [time] How often those look that wait for a channel, or for what is in front of a copy. */
#define FM_CU_WAIT_LOOK (50 * FM_US)
/* [time] A launch waits so long for a channel while something is stopped, */
#define FM_CU_CHANNEL_MOST (2 * FM_S)
/* [time] and a first launch for what is stopped. */
#define FM_CU_FIRST_MOST (2 * FM_S)

/* --- ends --- */

/* [time] Another thread may have been given a new context of that address before the old one is
 * forgotten: it waits so long for that, */
#define FM_CU_CONTEXT_END_MOST FM_S
/* [time] and looks so often. */
#define FM_CU_CONTEXT_END_LOOK (20 * FM_US)
/* [time] At the end of the process what it has under way may take so long, */
#define FM_CU_GIVE_BACK_MOST FM_S
/* [time] and is looked at so often. */
#define FM_CU_GIVE_BACK_LOOK FM_MS
