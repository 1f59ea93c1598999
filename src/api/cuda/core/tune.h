/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Constants of time, and counts that stand for time, for CUDA alone. As in src/xqueue/tune.h, each
 * comment says what the constant is for and what a larger value does; the unit is in the value, or
 * in brackets.
 */
#pragma once
#include "base/clock.h"

/* --- gates --- */

/* [time] Device time between gates, unless something else sets it (a gate costs about 4 us).
 * Larger: fewer gates, and a longer wait for a stop at one. */
#define FM_CU_INTERVAL (180 * FM_US)
/* [time] Likewise where processes share one context (MPS): a change between them costs nothing, and
 * shorter segments pay. */
#define FM_CU_INTERVAL_SHARED (50 * FM_US)
/* [time] For this long the host's clock and the device's agree, and a float is precise enough for
 * the difference. */
#define FM_CU_CLOCKS_TOGETHER (60 * FM_S)

/* --- the lock of driver calls --- */

/* [time] Between looks of threads that wait for it. */
#define FM_CU_CALL_NAP (50 * FM_US)
/* [time] The agent waits this long for a moment in which no call is inside. It holds the lock of
 * the queue that is to stop, and such a call may need that lock to place a gate. After this time
 * the agent gives up and is asked again. */
#define FM_CU_CALL_SPIN (20 * FM_US)
/* [time] What is being stopped may itself wait for something that the program puts into a stream
 * next, and come to rest only then. Other calls wait this long for the stop. */
#define FM_CU_PUSH_MOST (20 * FM_MS)

/* --- the guardian --- */

/* [time] The agent polls this long for a step of a stop. */
#define FM_CU_STEP_SPIN (30 * FM_US)
/* [time] Moving what was left out to other multiprocessors takes up to 40 us. What runs in a pad
 * and has less than ten times that left ends there. Larger: it runs on few multiprocessors for
 * longer than it has to. */
#define FM_CU_MOVE_WORTH (400 * FM_US)
/* [time] Between looks of a context's end whether a thread still makes its pad, for which it waits
 * this long, since the driver may wait for all work of the context; and [bytes] of that thread's
 * stack. Larger: a driver that never comes back keeps the program longer. */
#define FM_CU_PAD_NAP      FM_MS
#define FM_CU_PAD_END_MOST (5 * FM_S)
#define FM_CU_PAD_STACK    (256 * 1024)
/* [times] A launch whose blocks begin anew when they are killed is stopped so often in this way:
 * more makes more stops short, and loses more work. test_cuda_kill.py. */
#define FM_CU_KILLS_MOST 4u
/* [time] A graph waits this long for what is stopped, to allocate memory, */
#define FM_CU_GRAPH_MEMORY_MOST (100 * FM_MS)
/* [time] and a new queue waits this long. After that it has no guard. */
#define FM_CU_GUARD_MEMORY_MOST FM_S
/* [time] A launch of a graph in another stream waits this long for the previous launch, which may
 * wait for it. */
#define FM_CU_OUTLAST_MOST (250 * FM_MS)
/* [launches] A channel takes about a thousand commands before the driver waits for the device.
 * Streams share channels, and so they share this number; but each stream may be ahead by the second
 * number. Larger: a launch may block in the driver, with locks that a stop needs. */
#define FM_CU_AHEAD       512u
#define FM_CU_AHEAD_LEAST 16u
/* [launches] A stream that has more than an equal share is given a new share after this many. */
#define FM_CU_AHEAD_TOLD 16u
/* [launches] Skipping a launch costs the device, and making it again costs the agent, two to three
 * microseconds each. So there are no more than this many between two gates. */
#define FM_CU_UNFENCED_MOST 128u
/* [time] The next copy waits this long for what is in front of it, if that does not move, */
#define FM_CU_COPY_IDLE_MOST (250 * FM_MS)
/* [time] and this long for what is stopped elsewhere. */
#define FM_CU_COPY_WAIT_MOST (20 * FM_MS)
/* [time] A copy for which the driver waits waits outside for what is in front of it, in a process
 * whose memory can move. It waits for so long in which its queue makes no progress though the gate
 * is open. Longer than most kernels. Larger: the memory of more programs can go out at any time;
 * and a copy goes on later if its stream waits for the very thread that copies. */
#define FM_CU_BEFORE_MOST (2 * FM_S)
/* [time] One look counts as at most that. */
#define FM_CU_BEFORE_LOOK_MOST FM_MS
/* [time] Between looks of threads that wait for a channel, or for what is in front of a copy. */
#define FM_CU_WAIT_LOOK (50 * FM_US)
/* [looks] The first of these come without a pause. Larger: a short wait ends sooner, at more cost.
 */
#define FM_CU_WAIT_LOOKS 200u
/* [time] A launch waits this long for a channel while something is stopped, */
#define FM_CU_CHANNEL_MOST (2 * FM_S)
/* [time] and a first launch waits this long for what is stopped. */
#define FM_CU_FIRST_MOST (2 * FM_S)

/* --- memory that moves --- */

/* [turns] Memory that was not named in so many turns is not in use. More: what a program has
 * finished with stays on the device for longer. */
#define FM_CU_NAMED_TURNS 3u
/* [time] A program that does not come to a rest has turns of this length. Longer: it is seen later
 * that it uses other memory. Shorter: memory that it uses in each of its steps seems not to be in
 * use, if these are long. */
#define FM_CU_NAMED_TURN (2 * FM_S)

/* [bytes] Of a chunk that is out, parts of this size may have a chunk of their own: those that are
 * in use, or those that are not. Smaller: less is moved in vain, at more calls of the driver, and
 * copies do not reach the rate of the link (57 GB/s, 73 for 128 MiB). */
#define FM_CU_PART ((size_t)32 << 20)

/* [bytes] Copies are made in pieces of this size. Larger: a copy of the program's waits longer for
 * the copy engine. */
#define FM_CU_PIECE ((size_t)16 << 20)
/* [pieces] So many are under way in each direction. Fewer: the link idles between two. */
#define FM_CU_PIECES 4
/* [bytes] Device memory that is kept for the next allocation when nothing needs it. */
#define FM_CU_SPARE ((uint64_t)64 << 20)
/* [time] Between looks of the thread that moves memory: at its copies, */
#define FM_CU_PIECE_LOOK (20 * FM_US)
/* [time] and for room on the device, which others are giving back. */
#define FM_CU_ROOM_LOOK FM_MS
/* [bytes] Memory that comes in leaves so much of the device, or its 128th part, for what nobody
 * plans: code, memory of threads. Less: launches fail, and are tried again. */
#define FM_CU_KEPT_FREE ((uint64_t)256 << 20)
/* [threads] Host memory is populated by so many at most. More: it is ready earlier, at the cost of
 * the processors that the program uses. */
#define FM_CU_POPULATE_THREADS 8
/* [time] Digests of memory that goes out are ready after a few milliseconds, later where others
 * keep the device or the processors busy. If they are not after this time, something of the program
 * is in front of them, and its memory cannot move. */
#define FM_CU_DIGEST_MOST (20 * FM_S)
/* [pieces] Of memory that runs from the host one chunk in so many is looked at, at a rest, whether
 * it has changed. Larger: what was not foretold is found later. Smaller: rests take longer, 3 ms
 * for each. */
#define FM_CU_CHECK_EVERY 64u
/* [segments] Host memory, 128 MiB each, goes back to the system in parts: 2 ms each. Larger: a
 * launch that comes just then waits longer. */
#define FM_CU_TRIM_SEGMENTS 4
/* [bytes] Of host memory, so much is left to others. */
#define FM_CU_HOST_LEFT ((uint64_t)256 << 20)

/* [time] A rest that does not come within this time is given up, and the program goes on; */
#define FM_CU_REST_MOST (2 * FM_S)
/* [time] after this time it is tried again. */
#define FM_CU_REST_AGAIN FM_S
/* [time] While memory is out: between looks whether the process exits, or the daemon is gone. */
#define FM_CU_OUT_LOOK (20 * FM_MS)
/* [time] The daemon is told of each chunk that has moved, but not more often than this. Longer:
 * what waits for its room comes in later. */
#define FM_CU_TELL_EACH (500 * FM_US)
/* [time] Between attempts to bring memory in where the device has no room. */
#define FM_CU_ROOM_MOST (200 * FM_MS)
/* [time] A program that waits for its memory runs from the host when the device has had no room for
 * so long, unless FERMATA_MEMORY_WAIT says otherwise. Larger: it stands still for longer, where
 * others might have ended. */
#define FM_CU_FULL_MOST (10 * FM_S)
/* [time] The same without a daemon, which alone makes others give their memory up; and at exit. */
#define FM_CU_FULL_ALONE (2 * FM_S)
/* [time] Either counts while the driver refuses it at least that often. Larger: time counts in
 * which others have their turn. */
#define FM_CU_FULL_GAP FM_S
/* [time] Memory that runs from the host and is to be registered with another device is waited for:
 * it comes home by the second look for room. In vain: not again before another time, since programs
 * register much at once. */
#define FM_CU_HOLD_MOST  (4 * FM_S)
#define FM_CU_HOLD_AGAIN (60 * FM_S)
#define FM_CU_HOLD_LOOK  (5 * FM_MS)
/* [time] Between looks whether there is room for what runs from the host. What is there at two
 * looks in a row is not on its way to another. */
#define FM_CU_HOME_LOOK FM_S
/* [time] A rest for that is given up after so long: the program stands still in vain meanwhile. */
#define FM_CU_HOME_REST (500 * FM_MS)
/* [time] After that it is tried again, each time twice as long after, up to 64 times as long. */
#define FM_CU_HOME_AGAIN (10 * FM_S)
/* [times] What runs from the host has the place of what is on the device when it has been used so
 * often more. To bring a chunk of 128 MiB, and to take one out, costs as much as to read it some
 * four times over the link. Smaller: more comes that is not used again. */
#define FM_CU_EXCHANGE_USES 16u
/* [times] That is twice as much for a chunk that has come before, so many times at most. */
#define FM_CU_EXCHANGE_DEARER 4
/* [bytes] So much comes while the program stands still. Larger: it stands for longer. */
#define FM_CU_EXCHANGE_BYTES ((uint64_t)1 << 30)
/* [bytes] Early start: so much comes to the device while the program stands still. Larger: what
 * runs already stands for longer. */
#define FM_CU_EARLY_BYTES ((uint64_t)256 << 20)
/* [time] Then it runs for so long, unless all of it waits for memory. Longer: what is in waits less
 * for what is not, which waits longer. */
#define FM_CU_EARLY_EACH (5 * FM_MS)
#define FM_CU_EARLY_LOOK (200 * FM_US)
/* [time] If no room has come for so long, it runs from the host what is not there yet. */
#define FM_CU_EARLY_ROOM (20 * FM_MS)
/* [time] If the driver refuses for so long to bring memory in, and does not say that the context is
 * dead, it is taken to be. Shorter: a program may lose memory that would have come in. */
#define FM_CU_REFUSED_MOST (10 * FM_S)
/* [time] Memory of the host is kept for the next time for so long; after that the process is looked
 * at this often, until it has no work. */
#define FM_CU_HOST_KEPT (10 * FM_S)
#define FM_CU_TRIM_LOOK FM_S
/* [time] Between two parts of it: launches go on there. */
#define FM_CU_TRIM_NEXT (50 * FM_MS)

/* --- sets of tasks --- */

/* [time] Between looks of a set's thread at what has run. Longer: its streams may run dry. */
#define FM_CU_SET_LOOK (200 * FM_US)
/* [time] The same at what runs on after a park, and at whether a park is over, if nobody says so.
 */
#define FM_CU_SET_STOPS  FM_MS
#define FM_CU_SET_PARKED (5 * FM_MS)
/* [time] The same while the resident of a set is there, and nothing is pending. Longer: that jobs
 * have been released is known later. */
#define FM_CU_SET_IDLE_LOOK FM_MS
/* [time] So long the resident of a set stays without news of the host. Longer: a call that waits
 * for the device, and of which nobody knew, takes longer. Shorter: a process that does not run for
 * that long loses it. */
#define FM_CU_SET_LEASE (2 * FM_S)
/* [time] The resident of a set goes when nothing is released for so long, and is launched again by
 * the second time before that. */
#define FM_CU_SET_IDLE (3 * FM_MS)
#define FM_CU_SET_LEAD FM_MS
/* Looks at a device's clock before a set starts; the narrowest counts. [time] Between later ones:
 * meanwhile clocks drift apart by some us a second. */
#define FM_CU_SET_CLOCK_LOOKS 16u
#define FM_CU_SET_CLOCK       (250 * FM_MS)
/* [time] Between looks of a call that waits for the device whether a stream is being filled. */
#define FM_CU_SET_NAP (200 * FM_US)
/* [time] An `enqueue` that takes longer has waited for something, and its task is off. */
#define FM_CU_SET_ENQUEUE_MOST (10 * FM_S)
/* [time] Between looks at a set's words for people (`fermata ps'). Each waits for a launch of one
 * warp, and meanwhile nothing is put into the set's streams. Longer: what is shown is older. */
#define FM_CU_SET_SHOW (250 * FM_MS)
/* [time] A set that ends at work waits so long for its group's gate, before what is left runs, */
#define FM_CU_SET_END_MOST (10 * FM_S)
/* [time] with this time between looks. */
#define FM_CU_SET_END_LOOK FM_MS

/* --- memory that is passed on to another process --- */

/* [time] Its owner may take so long for all of its answer, */
#define FM_CU_IPC_ANSWER (5 * FM_S)
/* [time] and whoever asks for it, to say for which. */
#define FM_CU_IPC_QUESTION (1 * FM_S)

/* --- ends --- */

/* [time] Another thread may get a new context at the address of an old one before the old one is
 * forgotten. It waits this long for that, */
#define FM_CU_CONTEXT_END_MOST FM_S
/* [time] with this time between looks. */
#define FM_CU_CONTEXT_END_LOOK (20 * FM_US)
/* [time] At the end of the process, its work under way may take this long, */
#define FM_CU_GIVE_BACK_MOST FM_S
/* [time] with this time between looks. */
#define FM_CU_GIVE_BACK_LOOK FM_MS
