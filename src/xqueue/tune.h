/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Constants of time, and counts that stand for time, of what is loaded into programs. Each says
 * what it is for and what a larger value does; its unit is in its value (FM_US, FM_MS, FM_S), or in
 * brackets. No two have one name. Those of one device API alone are in that API's tune.h.
 */
#pragma once
#include "base/clock.h"

/* --- defaults of settings --- */

/* [time] A segment's device time. Larger: fewer gates, and a longer wait for a stop at a gate. */
#define FM_XQ_DEFAULT_INTERVAL (500 * FM_US)
/* [time] Device time that may be under way at level 1. Larger: a device that runs empty less often,
 * and a longer wait for whoever comes. */
#define FM_XQ_DEFAULT_WINDOW (2 * FM_MS)
/* [time] Commands from here on can be stopped in their middle. Larger: fewer such commands. */
#define FM_XQ_DEFAULT_GUARD (1 * FM_MS)
/* [segments] Opened ahead of the one that runs. Larger: a stop takes that much longer. */
#define FM_XQ_DEFAULT_LEAD 1

/* --- estimates --- */

/* [ns] No kind of command takes less. Larger: short commands weigh more. */
#define FM_EST_MIN UINT64_C(100)
/* [times] An estimate changes by no more at once. Larger: it learns faster, and errs more. */
#define FM_EST_RATIO_MOST 8

/* --- level 1: callers are held --- */

/* [parts] The window is counted in so many, a tracker each. Larger: it is finer, and costs more. */
#define FM_XQ_WINDOW_PARTS 4
/* [windows] Of one that is never made to wait for others: a device that runs empty while the
 * program computes is lost to it, and the first who comes finds that once. */
#define FM_XQ_UNSTOPPED_WINDOWS 4u
/* [parts] The length of its segments, which end before those that are held lose their patience: a
 * tracker costs as much as some launches. */
#define FM_XQ_UNSTOPPED_PARTS 6u
/* [trackers] Under way before their ends are asked for, where nobody has to hear of them. */
#define FM_XQ_UNSTOPPED_TRACKS 4u
/* [segments] One in so many teaches the estimates then, where all in it is known: to look at it
 * costs as much as some launches, too. */
#define FM_XQ_LEARN_EVERY 8
/* [time] A caller that is held looks again, where callbacks wake it. Larger: a lost wake-up costs
 * more. */
#define FM_XQ_HOLD_NAP (10 * FM_MS)
/* [time] Likewise where nobody wakes it. Larger: it is held longer than it must, at less cost. */
#define FM_XQ_POLL_NAP (30 * FM_US)
/* [time] Likewise while the gate is closed, so that nothing is passed. */
#define FM_XQ_CLOSED_NAP (500 * FM_US)
/* [time] Others wait so long for a queue to come to rest that does not move; then it counts as at
 * rest, since it may wait for the very caller that is held. */
#define FM_XQ_HELD_STILL_MOST FM_S
/* [time] A queue that is held at no gate, and does not move for so long in all, waits for something
 * else: for this caller, perhaps. Larger than other programs' turns, of milliseconds each. */
#define FM_XQ_AWAIT_GATES_MOST (250 * FM_MS)

/* --- gates of this process --- */

/* [segments] Opened ahead while nobody waits for the device, so that it never waits for us. */
#define FM_XQ_LEAD_ALONE 16u
/* [intervals] An out-of-order hwqueue can wait for what a later command sets off: if nothing moves
 * for so long, the next gate opens all the same. */
#define FM_XQ_PATIENCE 20

/* --- gates of the device --- */

/* [times the interval] Gates stand so much farther apart when nobody may stop the queue, for its
 * group is alone on the device or first: whoever comes waits once for what has been launched. */
#define FM_XQ_UNSTOPPED_SPACING 32
/* Likewise where gates stay as they are, in graphs that are captured then; where the program may
 * stop the queue; and where launches wait to hear of progress, which is told at gates (level 3). */
#define FM_XQ_UNSTOPPED_SPACING_LESS 8
/* [time] Where all since the last gate can be stopped in its middle gates are not what stops it;
 * but there it comes to rest, and is launched again up to there. Gates stand no farther apart. */
#define FM_XQ_UNFENCED_SPACING_MOST FM_MS
/* [time] Only for one that was not stopped in its middle for so long: one that is stopped often
 * shall be at rest soon. */
#define FM_XQ_CALM FM_S
/* [gates] One segment in so many is timed, which costs as much as a gate. Larger: estimates are
 * corrected later. */
#define FM_XQ_SAMPLE_EVERY 16
/* [commands] So many of a kind not seen before make up a segment. Larger: they are taken for
 * shorter. */
#define FM_XQ_UNKNOWN_PARTS 8
/* [commands] Likewise of a graph. What is launched as a graph is too short to be launched by
 * itself: the 158 kernels of a decoder of GPT-2's size took 3.4 us each on an H200. */
#define FM_XQ_GRAPH_PARTS 53
/* [time] Strict mode: the driver could not be asked whether the device reaches the page of gates,
 * and is asked again. */
#define FM_XQ_REACH_AGAIN (2 * FM_MS)
/* [time] A queue's end counts as come when nobody can say it for so long: its stream is one of
 * another thread, or is closed and makes no progress, for the program has destroyed the context. */
#define FM_XQ_GIVE_UP (50 * FM_MS)

/* --- how often a queue is looked at, of which nobody tells --- */

/* [time] An eighth of the time that it has been busy, but no less than this and no more than the
 * next. Larger: its end is noticed later, at less cost. */
#define FM_XQ_LOOK     (100 * FM_US)
#define FM_XQ_LOOK_MAX (2 * FM_MS)
/* [time] One that is at a gate, as it says, is looked at for so long: it may have gone past. */
#define FM_XQ_LATE_LOOK FM_MS
/* [time] While a launch is under way, at first. */
#define FM_XQ_LAUNCH_LOOK (50 * FM_US)
/* [time] For a program that waits until a queue rests which it has suspended. */
#define FM_XQ_REST_LOOK (50 * FM_US)
/* [time] For a program that waits for a command of the library's. */
#define FM_XQ_COMMAND_LOOK (50 * FM_US)

/* --- level 3: stops in the middle of a command --- */

/* [time] A command that takes longer is worth stopping in its middle. */
#define FM_XQ_LONG FM_MS
/* [time] One that could not be told to stop just now, or that is to go on, is looked at no sooner.
 */
#define FM_XQ_STOP_LOOK_MIN (20 * FM_US)
/* [time] One that goes on is looked at again, when it could not be said yet whether it needs help.
 */
#define FM_XQ_STUCK_LOOK (10 * FM_MS)
/* [time] How often those look that wait until fewer commands are under way: the device wakes
 * nobody. */
#define FM_XQ_AHEAD_LOOK (100 * FM_US)
/* [time] A queue that may run, and does not move for so long, waits for something else. */
#define FM_XQ_AHEAD_MOST FM_S
/* [gates] At least among the commands of one that may not be further ahead. */
#define FM_XQ_AHEAD_GATES 4u
/* [looks] One in so many also asks whether the device is lost. */
#define FM_XQ_LOSS_LOOKS 500u

/* --- queues of one process that stand in each other's way (yield.c) --- */

/* [time] One that may run and does not move lets others go on after so long; less where that has
 * helped, but never less than the second. Larger: queues that block each other do so for longer. */
#define FM_XQ_YIELD_STILL_MOST  FM_S
#define FM_XQ_YIELD_STILL_LEAST (20 * FM_MS)
/* [time] Nobody knows since when it stands still, if it was not looked at for so long. */
#define FM_XQ_YIELD_UNSEEN (50 * FM_MS)
/* [time] It has helped if the queue moves within so long. */
#define FM_XQ_YIELD_HELPED (20 * FM_MS)

/* --- the agent --- */

/* [time] It tries so long to get a queue's lock, which is mostly free soon. */
#define FM_XQ_LOCK_MOST (50 * FM_US)
/* [time] Between two questions to the driver about queues that may have only what orders commands.
 */
#define FM_CLIENT_QUERY_EVERY (200 * FM_US)
/* [time] How often it looks whether the program has closed our descriptors, where a forked child
 * holds them, too. */
#define FM_CLIENT_FORKED_LOOK (100 * FM_MS)
/* [ms] The process exits: so long it waits for the agent; */
#define FM_CLIENT_STOP_MS 200
/* [ms] and the agent for what was stopped to go on. */
#define FM_CLIENT_LAST_MS 100
/* [time] Between two attempts to find a daemon: at first, and at most. */
#define FM_CLIENT_BACKOFF_MIN (50 * FM_MS)
#define FM_CLIENT_BACKOFF_MAX (5 * FM_S)
/* [time] How often it looks whether the daemon still listens, while there is work. */
#define FM_CLIENT_WATCH_EVERY FM_S
/* [looks] So many in vain, and the daemon is gone. */
#define FM_CLIENT_WATCH_LOOKS (FM_SILENCE_MAX_S - 1)
/* [time] A stop that is over sooner is not worth making room in the middle of a command; */
#define FM_CLIENT_SHORT_STOP FM_MS
/* [time] and how often it looks whether there is one. */
#define FM_CLIENT_ROOM_LOOK (500 * FM_US)
