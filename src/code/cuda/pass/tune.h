/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of the passes over device code that may be changed. Tests of the text change them there.
 */
#pragma once

/* [instructions] The weight of a loop, that passes between two looks at the stop word
 * of a kernel that may be killed: less makes a stop sooner and loops slower. Where a look is a
 * barrier of the block, all its warps wait for one load. */
#define FM_KILL_WHOLE_LOOK 8192
/* Likewise, where each thread looks. */
#define FM_KILL_SINGLE_LOOK 2048
