/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Constants of AscendCL alone. As src/xqueue/tune.h: each says what it is for and what a larger
 * value does; its unit is in its value, or in brackets.
 */
#pragma once
#include "base/clock.h"

/* [commands] With so many in a stream no further event of ours is put there, where the call may
 * wait for room. Larger: such a call may wait where a stream is shorter. */
#define FM_ACL_FULL 400u
/* [looks] A stream that ends waits so often for its events of ours to be gone, which the watcher
 * sees to at once. Larger: where the watcher does not come to it, the end takes longer; the events
 * are left to the library then. */
#define FM_ACL_END_LOOKS 2000
/* [time] Between two looks. */
#define FM_ACL_END_LOOK (50 * FM_US)
