/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rest: a time in which the device runs nothing of this process, so that memory of the process
 * can be unmapped, mapped and copied. It is the process's own: a word of its board that only this
 * process writes, and for which the device itself waits at each gate. So whatever else opens gates
 * (the daemon, its successor, the agent when there is no daemon, the program), the device passes
 * none of them before the process has ended the rest.
 *
 *	OPEN     no rest. The device runs what gates let through.
 *	CLOSED   what is under way comes to its gates. Memory is as it was.
 *	MOVING   memory may be missing: nothing of the program runs, and no thread of it is inside
 *	         a driver call that names an address. It may last as long as memory is out.
 *	MAPPING  the same, on the way back: what is missing is being mapped.
 *
 *	OPEN -> CLOSED -> MOVING <-> MAPPING -> OPEN, and CLOSED -> OPEN when it took too long.
 *
 * The thread that moves memory calls in this order:
 *
 *	while ((rc = fm_rest_begin(c, deadline, &why)) == -EAGAIN)
 *		its own nap, FM_REST_LOOK or so
 *	if (rc)
 *		nothing is closed any more, and `why` says what keeps the process from resting
 *	fm_rest_moving(c), also -EAGAIN while a thread is inside a call; then unmap, copy, ...
 *		(if that lasts for 100 ms, the thread waits for the device: end, and begin anew)
 *	fm_rest_mapping(c); everything that was unmapped is mapped again
 *	fm_rest_end(c)
 *
 * The daemon, or a person, only asks for a rest (by the ledger): these calls are the answer.
 * Nothing but fm_rest_end() opens, save the end of the process while it is CLOSED. When
 * fm_rest_is_over() is true, memory must come back and the rest end, whatever was asked before.
 *
 * Only processes whose client was made with config.rests have any of this; elsewhere gates and
 * launches are as they are without it, and fm_rest_begin() gives -EOPNOTSUPP.
 *
 * Owns: the words (rest and rest_leave of struct fm_board) and their epoch; the counts of calls
 * that are inside.
 * Locks: the client's, to close and to open; an XQueue's, to look at it. None is held on return.
 * Threads: one at a time begins, moves and ends (the mover has a lock of its own for that). Any
 * thread of the program enters and leaves calls.
 */
#pragma once
#include "base/err.h"
#include "board/board.h"
#include "tune.h"
#include <stdbool.h>

struct fm_client;

/* Has the process been made so that it can rest? */
bool fm_rest_able(const struct fm_client *c);
enum fm_rest fm_rest_state(const struct fm_client *c);

/* One look, without waiting: closes at the first call, and sees to it that each queue with work has
 * a gate that it will come to. 0: the process is at rest, and stays so until fm_rest_end().
 * -EAGAIN: not yet, call again. These open again before they return:
 * -EBUSY: not before the deadline (fm_now()), or never, because something cannot be stopped; `why`
 * has the reason for people, and a remedy. It may be different a moment later: a stream can be held
 * by another with which it shares a channel of the device, and then nothing tells that it stands.
 * So several attempts of some 500 ms each are better than a long one.
 * -ESHUTDOWN: the process exits, or is a child that has no client.
 * -EOPNOTSUPP: see above. */
int fm_rest_begin(struct fm_client *c, uint64_t deadline, struct fm_err *why);

/* CLOSED, at rest, or MAPPING: memory may be unmapped from now on. -EAGAIN: a thread is inside a
 * call that names an address; the state is as before. It waits for such threads for
 * FM_REST_CALLS_MOST. -EPERM: the process is not at rest. -ESHUTDOWN: fm_rest_is_over(). */
int fm_rest_moving(struct fm_client *c);
/* MOVING: no more is unmapped from now on. -EPERM in other states. */
int fm_rest_mapping(struct fm_client *c);
/* Everything is mapped: the device goes on, and calls that waited do. Ends a CLOSED rest, too.
 * -EPERM while MOVING: say fm_rest_mapping() first, and mean it. */
int fm_rest_end(struct fm_client *c);

/* The rest must end as soon as memory is back: the process exits. At exit the process waits for
 * that at most FM_REST_EXIT_MOST, and then ends with its gates closed. */
bool fm_rest_is_over(const struct fm_client *c);

/*
 * Around a driver's call that names addresses of device memory (a copy, a fill, a texture, a node
 * of a graph), for the driver looks at what is mapped there within the call. While memory is
 * missing the call waits here, outside the driver. A thread that moves memory itself is not to come
 * here. The value is for fm_rest_call_end(). Nothing is to be waited for between the two but that
 * call.
 */
unsigned fm_rest_call_begin(struct fm_client *c);
/* The same, but it does not wait. False: memory is missing, and there is nothing to end. */
bool fm_rest_call_try(struct fm_client *c, unsigned *shard);
/* A thread waits somewhere else for memory that is missing, or no longer. */
void fm_rest_miss(struct fm_client *c, bool waits);
/* Does a thread wait because memory is missing? */
bool fm_rest_is_missed(const struct fm_client *c);
void fm_rest_call_end(struct fm_client *c, unsigned shard);
