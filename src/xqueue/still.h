/* SPDX-License-Identifier: Apache-2.0 */
/* Within the module: is the process at rest? (rest.h) */
#pragma once
#include "base/err.h"
#include "segment.h"

/* The word is closed, since `since`, and each queue is held. 0: the device runs nothing of this
 * process; and nothing before the words open, if rest_leave was closed before, too. -EAGAIN: it
 * still does, or may. -EBUSY: this will not be known. `why` says what it is. */
int fm_still(struct fm_client *c, uint64_t since, struct fm_err *why);
