/* SPDX-License-Identifier: Apache-2.0 */
/* The policy's forecast in terms of the core's entities. */
#include "policy/forecast.h"
#include "base/cleanup.h"
#include "core.h"
#include <errno.h>
#include <stdlib.h>

static uint64_t left_of(const void *ctx, const struct fm_ent *seen)
{
	const struct fm_sched_ent *e = fm_container(seen, struct fm_sched_ent, seat[FM_FIRST]);
	const struct fm_sforesight *f = ctx;

	if (fm_core_lingers(e))
		return fm_sub_sat(e->linger.key, e->d->s->now);
	return f->left ? f->left(f->ctx, e->data) : FM_NEVER;
}

/* Collects the ready entities. -ENOTSUP: one of them is in a gang. */
static int list_ready(const struct fm_sched_dev *d, struct fm_ent **ent)
{
	struct fm_sched_ent *e;
	int n = 0;

	fm_list_each (e, &d->ents, in_dev) {
		if (e->ready && e->g->gang)
			return -ENOTSUP;
		if (e->seat[FM_FIRST].ready)
			ent[n++] = &e->seat[FM_FIRST];
	}
	return n;
}

int fm_sched_dev_forecast(
	struct fm_sched_dev *d, const struct fm_sforesight *f, struct fm_sturn *out, unsigned cap)
{
	FM_CLEAN_FREE struct fm_ent **ent = calloc(d->n_ents + 1u, sizeof(struct fm_ent *));
	FM_CLEAN_FREE struct fm_turn *turn = calloc(cap + 1u, sizeof(*turn));
	struct fm_foresight seen = {
		.now = fm_core_now(d->s, f->now), .until = f->until, .left = left_of, .ctx = f};
	int n;

	if (!ent || !turn)
		return -ENOMEM;
	if (!d->all && d->used_to < seen.now) /* a decision has done that already */
		fm_core_settle(d, seen.now);
	n = list_ready(d, ent);
	if (n >= 0)
		n = fm_policy_forecast(
			d->s->ops, d->self[FM_FIRST], ent, (unsigned)n, &seen, turn, cap);
	for (int i = 0; i < n; i++)
		out[i] = (struct fm_sturn){.data = fm_sched_ent_of(turn[i].ent, FM_FIRST)->data,
			.from = turn[i].from,
			.until = turn[i].until,
			.sure = turn[i].sure};
	return n;
}
