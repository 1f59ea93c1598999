/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Constants of time, and counts that stand for time, in the code that is loaded into programs. Each
 * comment says what the constant is for and what a larger value does. The unit is in the value
 * (FM_US, FM_MS, FM_S), or in brackets. No two constants have one name. Constants of a single
 * device API are in that API's tune.h.
 */
#pragma once
#include "base/clock.h"

/* --- defaults of settings --- */

/* [time] A segment's device time. Larger: fewer gates, and a longer wait for a stop at a gate. */
#define FM_XQ_DEFAULT_INTERVAL (500 * FM_US)
/* [time] Device time that may be under way at level 1. Larger: the device runs empty less often,
 * and a newcomer waits longer. */
#define FM_XQ_DEFAULT_WINDOW (2 * FM_MS)
/* [time] Commands that take at least this long can be stopped in their middle. Larger: fewer such
 * commands. */
#define FM_XQ_DEFAULT_GUARD (1 * FM_MS)
/* [segments] Opened ahead of the one that runs. Larger: a stop takes that much longer. */
#define FM_XQ_DEFAULT_LEAD 1

/* --- limits of memory --- */

/* [time] An allocation waits this long for the daemon's word, then it is allowed. Larger: a daemon
 * that hangs delays it more; smaller: one that comes late has not been asked. */
#define FM_ACCOUNT_WAIT (2 * FM_S)
/* [time] Between two looks for the answer: at first, and at most. Larger: it is noticed later. */
#define FM_ACCOUNT_LOOK      (20 * FM_US)
#define FM_ACCOUNT_LOOK_MOST FM_MS
/* [times] An allocation asks again if other threads have taken what it was given. */
#define FM_ACCOUNT_TRIES 16

/* [time] An allocation for which the driver has no memory waits this long for others to make room.
 * Larger: it waits longer where they do not come to rest. The daemon answers at once if nobody can.
 */
#define FM_ACCOUNT_ROOM_MOST (60 * FM_S)

/* --- estimates --- */

/* [ns] Least estimate of a command. Larger: short commands weigh more. */
#define FM_EST_MIN UINT64_C(100)
/* [times] An estimate changes by no more at once. Larger: it learns faster, and errs more. */
#define FM_EST_RATIO_MOST 8
/* [parts] A segment is late if it takes longer than its estimate by more than one part in so many.
 * Larger: a device whose clock has fallen looks like one that waits for memory. */
#define FM_EST_LATE_PART 4

/* --- level 1: callers are held --- */

/* [parts] The window consists of this many parts, with a tracker each. Larger: it is finer, and
 * costs more. */
#define FM_XQ_WINDOW_PARTS 4
/* [windows] Window of a queue that never has to wait for others. A device that runs empty while the
 * program computes is lost to that program. A newcomer waits for the larger window once. */
#define FM_XQ_UNSTOPPED_WINDOWS 4u
/* [parts] Length of that queue's segments. They end before held callers lose their patience, and a
 * tracker costs as much as some launches. */
#define FM_XQ_UNSTOPPED_PARTS 6u
/* [trackers] This many are under way before their ends are asked for, while nothing waits for those
 * ends. */
#define FM_XQ_UNSTOPPED_TRACKS 4u
/* [segments] Then one segment in this many teaches the estimates, if all kinds in it are known,
 * because asking also costs as much as some launches. */
#define FM_XQ_LEARN_EVERY 8
/* [time] A held caller looks again after this time, where callbacks wake it. Larger: a lost wake-up
 * costs more. */
#define FM_XQ_HOLD_NAP (10 * FM_MS)
/* [time] Likewise where nothing wakes it. Larger: it is held longer than necessary, at less
 * cost. */
#define FM_XQ_POLL_NAP (30 * FM_US)
/* [time] Likewise while the gate is closed, so that no command passes. */
#define FM_XQ_CLOSED_NAP (500 * FM_US)
/* [time] Others wait this long for a queue that does not move. Then it counts as at rest, since it
 * may wait for the very caller that is held. */
#define FM_XQ_HELD_STILL_MOST FM_S
/* [time] A queue that no gate holds, and that does not move for this long in total, waits for
 * something else, perhaps for this caller. Larger than the turns of other programs, which are
 * milliseconds each. */
#define FM_XQ_AWAIT_GATES_MOST (250 * FM_MS)

/* [time] Likewise for a call that may wait in the driver. Larger: such a call returns later when
 * the program itself has to do something first. */
#define FM_XQ_AWAIT_END_MOST (100 * FM_MS)
/* [time] Between looks of a call that waits until a stream is idle. Larger: it returns later, and
 * asks the driver less often. */
#define FM_XQ_AWAIT_OVER_LOOK (50 * FM_US)

/* --- gates of this process --- */

/* [segments] Opened ahead while no other program waits for the device, so that the device never
 * waits for us. */
#define FM_XQ_LEAD_ALONE 16u
/* [intervals] An out-of-order hwqueue can wait for something that a later command triggers. If
 * nothing moves for this long, the next gate opens all the same. */
#define FM_XQ_PATIENCE 20

/* --- gates of the device --- */

/* [times the interval] Gates are this much farther apart while the queue need not be stopped,
 * because its group is alone on the device or first. A newcomer waits once for what has been
 * launched. */
#define FM_XQ_UNSTOPPED_SPACING 32
/* Likewise for gates that stay as they are, in graphs captured at such a time; for a queue that the
 * program may stop; and for launches that wait to hear of progress, which is reported at gates
 * (level 3). */
#define FM_XQ_UNSTOPPED_SPACING_LESS 8
/* [time] If all commands since the last gate can be stopped in their middle, gates do not stop the
 * queue. But the queue comes to rest at the next gate, and commands up to it are launched again. So
 * gates are no farther apart than this. */
#define FM_XQ_UNFENCED_SPACING_MOST FM_MS
/* [time] Gates are that far apart only if the queue was not stopped in its middle for this long. A
 * queue that is stopped often must come to rest soon. */
#define FM_XQ_CALM FM_S
/* [gates] One segment in this many is timed, which costs as much as a gate. Larger: estimates are
 * corrected later. */
#define FM_XQ_SAMPLE_EVERY 16
/* [commands] This many commands of a kind not seen before make up a segment. Larger: they count as
 * shorter. */
#define FM_XQ_UNKNOWN_PARTS 8
/* [commands] Likewise in a graph. Programs launch commands as a graph that are too short to be
 * launched alone: the 158 kernels of a decoder of GPT-2's size took 3.4 us each on an H200. */
#define FM_XQ_GRAPH_PARTS 53
/* [time] Strict mode: if the driver could not be asked whether the device reaches the page of
 * gates, it is asked again after this time. */
#define FM_XQ_REACH_AGAIN (2 * FM_MS)
/* [time] A queue's end counts as reached if it cannot be queried for this long: its stream belongs
 * to another thread, or is closed and makes no progress because the program has destroyed the
 * context. */
#define FM_XQ_GIVE_UP (50 * FM_MS)
/* [time] A closed queue with calls of the program's under way is looked at so often after that.
 * Larger: its slot is used again later. */
#define FM_XQ_CALLS_LOOK (100 * FM_MS)

/* --- how often a queue is looked at whose end is not reported --- */

/* [time] A queue is looked at after an eighth of the time that it has been busy, but no sooner than
 * the first and no later than the second. Larger: its end is noticed later, at less cost. */
#define FM_XQ_LOOK     (100 * FM_US)
#define FM_XQ_LOOK_MAX (2 * FM_MS)
/* [time] A queue that reports that it is at a gate is looked at for this long, because it may have
 * gone past. */
#define FM_XQ_LATE_LOOK FM_MS
/* [time] First look while a launch is under way. */
#define FM_XQ_LAUNCH_LOOK (50 * FM_US)
/* [time] Between looks for a program that waits until a queue that it has suspended is at rest. */
#define FM_XQ_REST_LOOK (50 * FM_US)
/* [time] Between looks for a program that waits for a command of the library's. */
#define FM_XQ_COMMAND_LOOK (50 * FM_US)

/* --- level 3: stops in the middle of a command --- */

/* [time] A command that takes longer than this is worth stopping in its middle. */
#define FM_XQ_LONG FM_MS
/* [time] A queue that could not be told to stop just now, or that is to go on, is looked at no
 * sooner than this. */
#define FM_XQ_STOP_LOOK_MIN (20 * FM_US)
/* [time] While a queue pads, between looks of the agent. Larger: the pad is empty for longer
 * between two segments. */
#define FM_XQ_PAD_LOOK (50 * FM_US)
/* [time] Two queues that pad on different numbers take turns with what they share: each makes it
 * anew no sooner than this. */
#define FM_XQ_PAD_MADE (100 * FM_MS)
/* [time] What keeps a queue from padding just now is looked at again after this time. */
#define FM_XQ_PAD_AGAIN (2 * FM_MS)
/* [time] What a queue may need to pad is made ahead when its process has nothing under way, or
 * after this time when nothing more urgent has. Longer: what always has work is without it for
 * longer. */
#define FM_XQ_PAD_AHEAD (100 * FM_MS)
/* [time] Whether it has is looked at again after this time. */
#define FM_XQ_PAD_CALM (10 * FM_MS)
/* [time] A queue that goes on is looked at again after this time, if it was not known yet whether
 * it needs help. */
#define FM_XQ_STUCK_LOOK (10 * FM_MS)
/* [time] Between looks of threads that wait until fewer commands are under way. The device does not
 * wake them. */
#define FM_XQ_AHEAD_LOOK (100 * FM_US)
/* [time] A queue that may run, and does not move for this long, waits for something else. */
#define FM_XQ_AHEAD_MOST FM_S
/* [gates] Least number of gates among the commands of a queue that may get no further ahead. */
#define FM_XQ_AHEAD_GATES 4u
/* [looks] One in this many also asks whether the device is lost. */
#define FM_XQ_LOSS_LOOKS 500u

/* --- queues of one process that stand in each other's way (yield.c) --- */

/* [time] A queue that may run and does not move lets others go on after the first. The time shrinks
 * if that has helped, but never below the second. Larger: queues that block each other do so for
 * longer. */
#define FM_XQ_YIELD_STILL_MOST  FM_S
#define FM_XQ_YIELD_STILL_LEAST (20 * FM_MS)
/* [time] Likewise while a call of ours is in the driver and waits for all queues. Larger: what that
 * call holds up waits for longer. Smaller: kernels of that length are taken for queues that are
 * held up. */
#define FM_XQ_YIELD_BLOCKED (2 * FM_MS)
/* [time] Between looks at a queue that may have to yield, and whose driver calls back. Larger: it
 * yields later. Less than the next. */
#define FM_XQ_YIELD_LOOK (20 * FM_MS)
/* [time] If a queue was not looked at for this long, it is not known how long it has stood
 * still. */
#define FM_XQ_YIELD_UNSEEN (50 * FM_MS)
/* [time] Yielding has helped if the queue moves within this time. */
#define FM_XQ_YIELD_HELPED (20 * FM_MS)

/* --- rests --- */

/* [time] Between looks of a call that waits for memory to come back, and of the exit. A mover may
 * use it, too. Larger: what waits goes on later. */
#define FM_REST_LOOK (200 * FM_US)
/* [time] Calls that name an address end soon, unless the driver makes them wait. After this time
 * they count as such, and memory does not move. */
#define FM_REST_CALLS_MOST FM_MS
/* [time] When the process exits it waits this long for memory to come back. Mapping takes up to a
 * second for 16 GiB, and copies as much again. */
#define FM_REST_EXIT_MOST (10 * FM_S)

/* [trackers] Kept by a queue, to use them again. Larger: fewer allocations when a queue
 * has gone on that had many segments in the driver. */
#define FM_XQ_SPARES 32

/* --- the agent --- */

/* [time] The agent tries for this long to get a queue's lock, which is usually free soon. If it
 * could not have it the last time, it tries for a tenth of that. */
#define FM_XQ_LOCK_MOST (50 * FM_US)
/* [time] Between two queries to the driver about queues that may only have something that orders
 * commands. */
#define FM_CLIENT_QUERY_EVERY (200 * FM_US)
/* [time] Between checks whether the program has closed our descriptors, where a forked child holds
 * them, too. */
#define FM_CLIENT_FORKED_LOOK (100 * FM_MS)
/* [ms] When the process exits it waits this long for the agent, */
#define FM_CLIENT_STOP_MS 200
/* [ms] and the agent waits this long for stopped commands to go on. */
#define FM_CLIENT_LAST_MS 100
/* [ms] What must know at once whether the daemon is strict waits so long for it to say so; longer:
 * a start waits for a daemon that hangs; shorter: one that is busy counts as not strict for a
 * moment.
 */
#define FM_CLIENT_JOIN_MS 1000u
/* [time] Between two attempts to find a daemon: the first, and the most. */
#define FM_CLIENT_BACKOFF_MIN (50 * FM_MS)
#define FM_CLIENT_BACKOFF_MAX (5 * FM_S)
/* [time] Between checks whether the daemon still listens, while there is work. */
#define FM_CLIENT_WATCH_EVERY FM_S
/* [looks] After this many checks in vain the daemon counts as gone. */
#define FM_CLIENT_WATCH_LOOKS (FM_SILENCE_MAX_S - 1)
/* [time] A stop shorter than this is not worth making room in the middle of a command, */
#define FM_CLIENT_SHORT_STOP FM_MS
/* [time] and this is the time between looks for such a stop. */
#define FM_CLIENT_ROOM_LOOK (500 * FM_US)
