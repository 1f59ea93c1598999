/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Constants of time of Vulkan alone. As src/xqueue/tune.h: each says what it is for and what a
 * larger value does; its unit is in its value, or in brackets.
 */
#pragma once
#include "base/clock.h"

/* [times] How much farther apart gates are while nobody waits for the device. Larger: they cost
 * less; but the first stop takes longer. A gate is two submissions to the driver, which are more
 * than those of other APIs. */
#define FM_VK_WIDE 4u

/* [commands] So many commands, trackers and gates may stand in a queue with a closed gate before
 * submissions wait for it. Larger: more can be submitted ahead; but a queue's room ends somewhere,
 * and a submission then waits in the driver. */
#define FM_VK_DEEP 256u
/* [commands] From there on nothing of ours is put there. More than FM_VK_DEEP, for what waits in
 * front of the gate for the program itself is not waited for. */
#define FM_VK_FULL 384u

/* [times] A signal that opens a gate, and that the driver refuses, is tried so often. Larger: it
 * opens although the driver has no memory for longer; the agent does nothing else meanwhile. */
#define FM_VK_SIGNAL_TRIES 8u
/* [time] It is tried so often. */
#define FM_VK_SIGNAL_LOOK FM_MS

/* [time] The end of a device waits so long until nothing of ours uses it any more. Larger: a
 * program whose device hangs ends later. */
#define FM_VK_END_MOST (2 * FM_S)
/* [time] It looks so often. */
#define FM_VK_END_LOOK (100 * FM_US)
