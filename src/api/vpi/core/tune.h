/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Constants of VPI alone. As src/xqueue/tune.h: each says what it is for and what a larger value
 * does; its unit is in its value, or in brackets.
 */
#pragma once

/* [trackers] So many may be on their way in a stream; the agent comes again for one more. Larger:
 * more ends are heard of while much is under way; each has an event. */
#define FM_VPI_EVENTS 16u
