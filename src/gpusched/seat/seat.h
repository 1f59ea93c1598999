/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set's seat (gpusched/seat.h) in a process that is a client of the daemon: an XQueue whose
 * device is the set. Jobs are its commands. The set looks at the gate word before each chunk, and
 * writes the queue's progress itself, so the gates that the XQueue places are nothing to it.
 *
 * Owns: the XQueue of each set, and what the agent knows of the set.
 * Locks: one for each seat, over the agent's call into the set.
 * Threads: the program's; the decider's; the agent.
 */
#pragma once
#include "base/lockorder.h"
#include "gpusched/seat.h"
#include "xqueue/xqueue.h"
#include <pthread.h>

struct fm_gpu_seat {
	struct fm_xq *xq;
	/* The decider's. Rows of the board, of the set and of its first tasks: 1 + the row; 0: not
	 * taken yet; -1: there was none. */
	uint64_t begun;
	int row, task[FM_BOARD_TASKS];
	pthread_mutex_t lock;
	void (*look)(void *arg); /* NULL: the set is gone */
	void *arg;
};
