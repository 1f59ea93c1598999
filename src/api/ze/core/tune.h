/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Constants of time of Level Zero alone. As src/xqueue/tune.h: each says what it is for and what a
 * larger value does; its unit is in its value, or in brackets.
 */
#pragma once
#include "base/clock.h"

/* [times] How much farther apart gates are while nobody waits for the device. Larger: they cost
 * less; but the first stop takes longer. A gate is a list that is executed, more than a gate of
 * other APIs. */
#define FM_ZE_WIDE 4u

/* [gates] So many gates and trackers may be in a queue. Larger: more can be submitted ahead with
 * gates; each has an event, and on a queue a list. */
#define FM_ZE_SLOTS 256u
/* [trackers] Gates leave room for so many, by which it is known that gates have been passed.
 * Larger: fewer gates. */
#define FM_ZE_TRACKERS 64u

/* [commands] So many commands, trackers and gates may stand in a queue with a closed gate before
 * the program's calls wait for it. Larger: more can be submitted ahead; but a queue's room ends
 * somewhere, and a call then waits in the driver. */
#define FM_ZE_DEEP 256u

/* [times] A signal that opens a gate, and that the driver refuses, is tried so often. Larger: it
 * opens although the driver refuses for longer; nothing else is done meanwhile. */
#define FM_ZE_SIGNAL_TRIES 8u
/* [time] It is tried so often. */
#define FM_ZE_SIGNAL_LOOK FM_MS

/* [time] The end of a queue, or of a context, and the beginning of a recording wait so long until
 * nothing of ours uses it any more.
 * Larger: a program whose device hangs ends later. */
#define FM_ZE_END_MOST (2 * FM_S)
/* [time] It looks so often. */
#define FM_ZE_END_LOOK (100 * FM_US)
