/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a launch reads and writes lies in few cache lines, at places that no change may move
 * unnoticed. A commit that moves a member on purpose changes its place here, too, and measures what
 * it costs.
 */
#include "xqueue.h"

#define AT(type, member, place) \
	_Static_assert(offsetof(struct type, member) == (place), #type ": " #member)

/* The line that each launch reads or writes. */
AT(fm_xq, slot, 0);
AT(fm_xq, gate, 8);
AT(fm_xq, owner, 16);
AT(fm_xq, interval, 24);
AT(fm_xq, finishes, 32);
AT(fm_xq, seg_ns, 40);
AT(fm_xq, seg_n, 48);
AT(fm_xq, seg_most, 52);
AT(fm_xq, gates_pending, 56);
AT(fm_xq, announce, 60);
AT(fm_xq, held_by, 61);
AT(fm_xq, guessed, 62);
AT(fm_xq, steered, 63);

/* The line that is also read if launches are to stop in their middle, or a gate is closed. */
AT(fm_xq, cold, FM_CACHE_LINE);
AT(fm_xq, ops, FM_CACHE_LINE + 8);
AT(fm_xq, hwq, FM_CACHE_LINE + 16);
AT(fm_xq, client, FM_CACHE_LINE + 24);
AT(fm_xq, level, FM_CACHE_LINE + 32);
AT(fm_xq, stops_alone, FM_CACHE_LINE + 36);
AT(fm_xq, device_gates, FM_CACHE_LINE + 38);
AT(fm_xq, gate_mark, FM_CACHE_LINE + 56);
_Static_assert(_Alignof(struct fm_xq) == FM_CACHE_LINE, "its lines are lines");
_Static_assert(
	sizeof(struct fm_xq) == 13 * FM_CACHE_LINE, "two hot lines, and what is seldom read");

/* In the board: what submitting threads write is apart from what others write. */
AT(fm_slot, begun, FM_CACHE_LINE);
AT(fm_slot, passed, FM_CACHE_LINE + 8);
AT(fm_slot, done, 2 * FM_CACHE_LINE);
AT(fm_slot, gates, 3 * FM_CACHE_LINE);
AT(fm_slot, progress, 4 * FM_CACHE_LINE);

/* An estimate is looked for in one line. */
_Static_assert(sizeof(struct fm_est_set) == FM_CACHE_LINE, "four ways, a line");
