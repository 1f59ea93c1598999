/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of the recorder. */
#pragma once
#include <stdint.h>

/* [pieces] Cells of the table of marks, at most, 8 bytes each: 128 MiB of the device, and of the
 * host. A launch whose allocations have more than four bytes a cell is recorded coarsely. */
#define FM_RECORD_CELLS (UINT64_C(1) << 24)
/* [pieces] Spans of a launch; one with more counts as touching all of its allocations. */
#define FM_RECORD_SPANS (1u << 16)

/* [bytes] Memory of a launch that is tried, at most: the host keeps it three times. */
#define FM_RECORD_KEPT (UINT64_C(256) << 20)

/* [ns] A caller waits so long for a launch to end, and between looks at it. */
#define FM_RECORD_WAIT (UINT64_C(10) * 1000 * 1000 * 1000)
#define FM_RECORD_NAP  (UINT64_C(20) * 1000)

/* [bytes] Of a trace. */
#define FM_RECORD_MOST (UINT64_C(4) << 30)
