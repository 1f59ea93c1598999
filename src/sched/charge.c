/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which entity is charged for the device, and for how long.
 *
 * A device works for one entity at a time. While an entity drains, it still has the device: the one
 * that was let in is charged from the other's stall on. So a late stall costs the late entity.
 */
#include "core.h"

/* The most usage that is carried on because a client's wall time did not cover it yet: reports come
 * in lumps. */
#define CARRY_MAX (100 * FM_MS)

/* The pauses of an entity that is alone are not reported, so its own measure bounds its charge. The
 * same holds under native order, where all ready entities occupy the device at once. */
static bool is_measured(const struct fm_sched_dev *d)
{
	return d->all || (d->n_ready <= 1 && !d->n_draining);
}

/* The claim of a lingering entity costs something only if others wait for it. */
static bool claims_free(const struct fm_sched_ent *e)
{
	return fm_core_lingers(e) && e->d->n_ready == 1;
}

/* What the entity used as far as that is known, and all the time after that. If several run at once
 * on purpose, each is charged for all of the time. So is one that does not come to rest. */
static uint64_t occupied(const struct fm_sched_ent *e, uint64_t t)
{
	if (!e->work || e->stuck || e->d->n_run > 1)
		return fm_sub_sat(t, e->charged_to);
	return e->used_ns - e->use_charged + fm_sub_sat(t, FM_MAX(e->charged_to, e->d->used_to));
}

static uint64_t due(const struct fm_sched_ent *e, uint64_t t, bool measured, uint64_t *usage)
{
	const struct fm_sched *s = e->d->s;
	uint64_t ns = measured ? fm_sub_sat(t, e->charged_to) : occupied(e, t), used;

	*usage = e->usage;
	if (s->host.usage) {
		*usage = used = s->host.usage(s->ctx, e->data, t);
		if (measured) {
			ns = FM_MIN(ns, fm_sub_sat(used, e->usage));
			*usage = FM_MAX(e->usage + ns, fm_sub_sat(used, CARRY_MAX));
		}
	}
	return claims_free(e) ? 0 : ns;
}

static void charge(struct fm_sched_ent *e, uint64_t t, bool measured)
{
	struct fm_sched_dev *d = e->d;
	const struct fm_policy_ops *ops = d->s->ops;
	uint64_t ns, usage;

	if (t <= e->charged_to && e->used_ns == e->use_charged)
		return;
	ns = due(e, t, measured, &usage);
	e->usage = usage;
	e->charged_to = FM_MAX(e->charged_to, t);
	e->use_charged = e->used_ns;
	if (!ns)
		return;
	e->seat[FM_FIRST].served_ns += ns;
	if (ops->charge)
		ops->charge(d->self[FM_FIRST], &e->seat[FM_FIRST], ns, t);
	if (!d->self[FM_DEPUTY])
		return;
	e->seat[FM_DEPUTY].served_ns += ns;
	if (ops->charge)
		ops->charge(d->self[FM_DEPUTY], &e->seat[FM_DEPUTY], ns, t);
}

/* Device time up to t that fm_core_settle() would charge. */
uint64_t fm_core_unsettled(const struct fm_sched_ent *e, uint64_t t)
{
	const struct fm_sched_dev *d = e->d;
	uint64_t usage;

	if (fm_list_empty(&e->active) || t <= e->charged_to)
		return 0;
	if (!e->draining && d->n_late && d->n_run <= 1)
		return 0;
	return due(e, t, is_measured(d), &usage);
}

/* Entities that were at rest at once do not count, because they needed no poll. */
static void learn_rest(struct fm_sched_dev *d, uint64_t took)
{
	if (took)
		d->rests = (3 * d->rests + FM_MIN(took, FM_POLL_MAX)) / 4;
}

void fm_core_drained(struct fm_sched_ent *e, uint64_t since)
{
	const struct fm_sched *s = e->d->s;
	uint64_t took = fm_sub_sat(since, e->closed_at);

	fm_hist_add(&e->d->preempt, took);
	learn_rest(e->d, took);
	fm_linger_drained(e->d, took);
	if (s->host.rested)
		s->host.rested(s->ctx, e->data, took, since);
	fm_core_rests(e);
	fm_list_del(&e->active);
	fm_core_touch(e);
	fm_account_note(e, since);
	fm_account_device(e->d, since);
}

/* It has not come to rest by t. Returns until when it had the device for itself. */
static uint64_t own_until(struct fm_sched_ent *e, uint64_t t)
{
	uint64_t most = fm_add_sat(e->closed_at, fm_sub_sat(FM_LATE_MOST, e->late));

	if (e->stuck)
		return 0;
	if (t < most)
		return t;
	e->d->n_late--;
	e->stuck = true;
	fm_account_device(e->d, most);
	return FM_MIN(most, t);
}

/* Which of the draining entities have come to rest by t? */
void fm_core_look_for_rest(struct fm_sched_dev *d, uint64_t t)
{
	const struct fm_sched *s = d->s;
	struct fm_sched_ent *e;

	fm_list_each (e, &d->active, active) {
		if (!e->draining)
			continue;
		e->rest_at = t;
		if (s->host.stalled && !s->host.stalled(s->ctx, e->data, &e->rest_at))
			e->rest_at = FM_NEVER;
	}
}

/* Returns the time from which the device is free for others: the last stall, or t while an entity
 * drains. */
static uint64_t settle_draining(struct fm_sched_dev *d, uint64_t t)
{
	uint64_t free_from = 0, since;
	struct fm_sched_ent *e, *tmp;

	fm_list_each_safe (e, tmp, &d->active, active) {
		if (!e->draining)
			continue;
		if (e->rest_at > t) {
			charge(e, t, false);
			free_from = FM_MAX(free_from, own_until(e, t));
			continue;
		}
		d->silent = e->rest_at == t;
		since = FM_MAX(e->rest_at, e->closed_at);
		charge(e, since, false);
		free_from = e->stuck ? free_from : FM_MAX(free_from, since);
		fm_core_drained(e, since);
	}
	return free_from;
}

void fm_core_settle_each(struct fm_sched_dev *d, uint64_t t)
{
	bool measured = is_measured(d);
	uint64_t free_from;
	struct fm_sched_ent *e;

	if (d->n_draining)
		fm_core_look_for_rest(d, t);
	fm_use_settle(d, t);
	free_from = d->n_draining ? settle_draining(d, t) : 0;
	fm_list_each (e, &d->active, active) {
		if (e->draining)
			continue;
		if (d->n_run <= 1 && !d->all)
			e->charged_to = FM_MAX(e->charged_to, free_from);
		charge(e, t, measured);
	}
}

void fm_core_settle(struct fm_sched_dev *d, uint64_t t)
{
	if (!d->all) {
		fm_core_settle_each(d, t);
		return;
	}
	fm_use_now_and_then(d, t);
	if (d->n_draining) {
		fm_core_look_for_rest(d, t);
		settle_draining(d, t);
	}
}

void fm_core_settle_ent(struct fm_sched_ent *e, uint64_t t)
{
	fm_core_settle(e->d, t);
	if (e->d->all && !fm_list_empty(&e->active) && !e->draining)
		charge(e, t, true);
}

void fm_sched_beside(struct fm_sched *s, struct fm_sched_ent *e, uint64_t ns, uint64_t now)
{
	struct fm_sched_dev *d = e->d;
	const struct fm_policy_ops *ops = s->ops;

	for (unsigned i = 0; ns && i < FM_SEATS; i++) {
		if (i && !d->self[i])
			continue;
		e->seat[i].served_ns += ns;
		if (ops->charge)
			ops->charge(d->self[i], &e->seat[i], ns, fm_core_now(s, now));
	}
}
