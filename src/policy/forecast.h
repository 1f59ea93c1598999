/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which entities will have a device next, and when: a copy of the policy is played forward. The
 * policy itself is not touched and answers afterwards as it would have.
 *
 * The promise: the policy's decisions give exactly these turns as long as no entity becomes ready
 * or idle (except for jobs that end as `left` says), no hint changes, and each entity is charged
 * the wall time for which it runs. A scheduler charges otherwise if the entity that was stopped
 * takes time to come to rest; it gives the same turns that much later.
 *
 * There is no forecast for a policy without copy(). These are policies that depend on other
 * devices, and plug-ins, because their interface has no copy.
 */
#pragma once
#include "policy.h"

/* How sure a turn is, in percent. A turn that depends on the policy only is 100. The length of a
 * job is an estimate. So each job that is taken to have ended by the end of a turn, including the
 * turn's own job, makes the turn FM_SURE_JOB percent as sure. It is a weight, not a probability. */
#define FM_SURE     100
#define FM_SURE_JOB 80

/* One entity has the device. Turns come in the order of `from`. They overlap if several run at
 * once. A turn ends because another begins, its job ends, or the forecast ends. */
struct fm_turn {
	struct fm_ent *ent;
	uint64_t from, until; /* until FM_NEVER: for as long as it has work */
	uint8_t sure;
};

struct fm_foresight {
	uint64_t now, until; /* now: not before the policy's last event */
	/* Device time that the present job of a ready entity still needs: FM_NEVER if it is not
	 * known, 0 if the job is about to end. Asked once for each. Under native order it is not
	 * known which job the device works on, so jobs do not end. NULL: no length is known. */
	uint64_t (*left)(const void *ctx, const struct fm_ent *e);
	const void *ctx;
};

/*
 * Writes the turns from now on to out, at most cap of them. ent: all n entities that self knows;
 * idle ones may be left out. Only their `index` is written. Returns the number of turns, -ENOTSUP
 * if there is no forecast, or -ENOMEM.
 *
 * O((n + turns) log n) for a policy whose decisions are O(log n), as those of all built-in policies
 * are. Between the beginnings of two turns the copy is asked at most FM_FORECAST_ASKS times, which
 * is more than a second of the shortest slices. If that is not enough the forecast ends earlier.
 * Memory: the size of the policy.
 */
#define FM_FORECAST_ASKS 16384
int fm_policy_forecast(const struct fm_policy_ops *ops, const void *self, struct fm_ent *const *ent,
	unsigned n, const struct fm_foresight *f, struct fm_turn *out, unsigned cap);
