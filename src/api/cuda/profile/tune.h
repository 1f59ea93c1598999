/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of the profiler. */
#pragma once
#include <stdint.h>

/* [times] A kernel is looked at so often with the same numbers, grid and block: more finds kernels
 * that go by what their memory holds; each costs the time of a launch, some copies and a wait. */
#define FM_PROFILE_AGAIN 2u
/* [trials] With so many sets of numbers. More fits better, and makes programs whose numbers rise
 * with each step slower for longer. */
#define FM_PROFILE_KEYS 48u

/* [parts] Copies of so many graphs are kept at a time. More takes more memory of the host, about 1
 * KiB for each node. */
#define FM_PROFILE_GRAPHS 1024u
/* [parts] Graphs of more nodes are launched as they are. More takes longer: some 0.1 ms a node,
 * twice. */
#define FM_PROFILE_NODES 8192u

/* [pieces] Cells of the table of marks, 8 bytes each: 32 MiB of the device, and of the host. Fewer
 * makes spans coarser where a kernel is given many large blocks. */
#define FM_PROFILE_TABLE_CELLS (1u << 22)

/* [pieces] That are hashed, 40 bytes each: fewer makes them larger. */
#define FM_PROFILE_PIECES (1u << 16)
/* [bytes] The smallest of these. Smaller: spans of writes are finer, and hashes take longer. */
#define FM_PROFILE_PIECE ((uint64_t)64 << 10)
/* [bytes] Regions of so many together are copied and compared instead. Twice that on the host. */
#define FM_PROFILE_COPY ((uint64_t)8 << 20)

/* [ns] A caller waits so long for a launch to end, and between looks at it. A kernel that takes
 * longer is not looked at again. */
#define FM_PROFILE_WAIT (UINT64_C(10) * 1000 * 1000 * 1000)
#define FM_PROFILE_NAP  (UINT64_C(20) * 1000)
/* [launches] Such kernels of a context until nothing is looked at there any more: each may keep a
 * table. */
#define FM_PROFILE_LOST 3u

/* [times] A kernel is timed so often with the same grid, block and shared memory, on each number of
 * multiprocessors: more makes the median better, and the program has to launch it as often. At most
 * FM_TIMED_SAMPLES. */
#define FM_PROFILE_TIMES 3u
/* [ns] The device is kept busy in front of a launch that is timed, so that it begins when all is
 * queued. Longer than some five calls of the driver take. */
#define FM_PROFILE_AHEAD (UINT64_C(60) * 1000)
/* [ns] For so long a launch that is to be timed waits for others of the context to end. */
#define FM_PROFILE_ALONE (UINT64_C(1) * 1000 * 1000 * 1000)
/* [pieces] Streams with launches that were not timed, which are waited for. Fewer: some that still
 * run beside a timed launch are forgotten. */
#define FM_PROFILE_STREAMS 64u
