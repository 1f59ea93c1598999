/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who will have a device next, and when: a copy of the policy is played forward. The policy itself
 * is not touched and answers afterwards as it would have.
 *
 * What is promised: as long as nobody becomes ready or idle (but for jobs that end as `left` says),
 * no hint changes, and each entity is charged the wall time for which it runs, the policy's
 * decisions give exactly these turns. A scheduler that charges otherwise, because the entity that
 * was stopped takes time to come to rest, gives the same turns that much later.
 *
 * There is no forecast of a policy without copy(): of one that reckons with other devices, and of
 * plug-ins, whose interface has no copy.
 */
#pragma once
#include "policy.h"

/* How sure a turn is, in percent. Of the policy alone nothing is in doubt: 100. The length of a job
 * is an estimate, so each job that is taken to have ended by the end of a turn, that turn's own
 * included, makes it FM_SURE_JOB percent as sure as it was. It is a weight, not a probability. */
#define FM_SURE     100
#define FM_SURE_JOB 80

/* One entity has the device. Turns come in the order of `from`. They overlap where several run at
 * once. A turn ends because another begins, because its job does, or because the forecast does. */
struct fm_turn {
	struct fm_ent *ent;
	uint64_t from, until; /* until FM_NEVER: for as long as it has work */
	uint8_t sure;
};

struct fm_foresight {
	uint64_t now, until; /* now: not before the last event that the policy was told */
	/* Device time that the present job of a ready entity still needs: FM_NEVER where that is
	 * not known, 0 where it is about to end. Asked once for each. Under native order nobody
	 * knows whose job the device does, so jobs do not end. NULL: no length is known. */
	uint64_t (*left)(const void *ctx, const struct fm_ent *e);
	const void *ctx;
};

/*
 * The turns from now on, at most cap of them, in out. ent: all n entities that self knows; those
 * that are idle may be left out. Their `index` is written, and nothing else. Returns how many turns
 * there are, -ENOTSUP where there is no forecast, or -ENOMEM.
 *
 * O((n + turns) log n) for a policy whose decisions are O(log n), as all that are built in. Between
 * the begin of one turn and that of the next it is asked at most FM_FORECAST_ASKS times, which is
 * more than a second of the shortest slices; where that does not suffice it ends earlier. Memory:
 * of the size of the policy.
 */
#define FM_FORECAST_ASKS 16384
int fm_policy_forecast(const struct fm_policy_ops *ops, const void *self, struct fm_ent *const *ent,
	unsigned n, const struct fm_foresight *f, struct fm_turn *out, unsigned cap);
