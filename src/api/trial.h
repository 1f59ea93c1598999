/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trial of a hwqueue's gates (struct fm_host_gate_ops), for levels(): a gate must stand, it must
 * open, and other queues must go on meanwhile. Queues share scarce resources of a driver, so a gate
 * in one may hold up another; which ones do so depends on how many there are. So each new queue is
 * tried against all that exist. These may have work of their own under way.
 *
 * Owns: the trackers of a trial, until the last of them has been told.
 * Locks: none. The caller sees to it that the operations may be called (hwqueue.h).
 * Threads: any. It blocks for a few milliseconds, and for at most FM_TRIAL_PASSES and
 * FM_TRIAL_OPENS; for twice that where another queue seems to stall.
 */
#pragma once
#include "api/hwqueue.h"

/* FM_TRIAL_HOLDS: the gates are good. REFUSED: an operation failed. PASSED: the queue went past the
 * closed gate. STAYS: it did not go on when the gate had opened. STALLS: another queue stood as
 * long as the gate was closed, and went on when it opened. */
enum fm_trial {
	FM_TRIAL_HOLDS,
	FM_TRIAL_REFUSED,
	FM_TRIAL_PASSED,
	FM_TRIAL_STAYS,
	FM_TRIAL_STALLS
};

/* Puts a tracker, as the operation of that name. */
struct fm_trial_queue {
	int (*track)(void *hwq, fm_reached_fn *reached, void *cookie);
	void *hwq;
};

/* Tries an idle hwqueue against n others. *stalled (may be NULL): the first that stood. Others that
 * are busy for the whole trial, or refuse, say nothing. */
enum fm_trial fm_gate_try(const struct fm_hw_ops *ops, void *hwq,
	const struct fm_trial_queue *others, unsigned n, unsigned *stalled);

/* Tries an idle hwqueue's gate once, alone, for so long: a driver may end what has stood for long.
 */
enum fm_trial fm_gate_stand(const struct fm_hw_ops *ops, void *hwq, uint64_t ns);
