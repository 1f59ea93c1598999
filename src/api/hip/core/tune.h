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
/* [times] A device's gates must hold so often. Larger: the first queue of a device is made later;
 * but gates that do not hold are the less taken for some that do. */
#define FM_HIP_TRIALS 4u
/* [time] What should pass an open gate then may take so long. One trial that fails decides, so a
 * machine that is busy just then must not look like one without gates. Larger: where gates keep
 * back others, the first queue of a device is made later. */
#define FM_HIP_TRIAL_PASSES (2 * FM_S)
/* [time] How often the trial looks whether it has. */
#define FM_HIP_TRIAL_LOOK (50 * FM_US)

/* [commands] So many commands, and events and gates of ours, may stand in a stream with a closed
 * gate before launches wait for it. Larger: more can be launched ahead; but a stream's room ends
 * somewhere, at some thousand kernels with their parameters. Streams that share a queue of the
 * device share its 16384 packets, too: they are enough for 27 streams in one queue. */
#define FM_HIP_DEEP 400u
/* [commands] From there on nothing of ours is put there. More than FM_HIP_DEEP, for what waits in
 * front of the gate for the program itself is not waited for. */
#define FM_HIP_FULL 600u
/* [time] That is known when so long nothing has moved though the stream may run. Larger: such a
 * program waits longer at each launch. */
#define FM_HIP_DEEP_STILL (10 * FM_MS)
/* [time] A launch that waits for room looks so often. */
#define FM_HIP_DEEP_NAP (100 * FM_US)
