/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entities that await a resource. The policy is not told: it chooses such an entity as usual, and
 * goes on choosing it, because it is not charged. The deputy does not see it and chooses the entity
 * that runs instead (core.h). So it keeps its place in the order, and runs as soon as the resource
 * is ready. If the policy were told that it is idle, it would have to queue again each time.
 *
 * A device on which no entity awaits a resource has no deputy for that and keeps no claims. A
 * decision there does nothing more than it would without this file.
 */
#include "core.h"
#include <errno.h>

const char *fm_await_reason(const struct fm_sched_ent *e)
{
	return fm_core_awaits(e) ? "held: it waits for a resource" : NULL;
}

/* The entity has begun to await a resource, or has stopped. */
static void note(struct fm_sched_ent *e, uint64_t now)
{
	struct fm_sched_ent *m;

	fm_list_each (m, &e->g->ents, in_group)
		fm_gang_count(m, now);
	fm_core_show(e, now);
	fm_account_note(e, now);
	fm_core_touch(e);
}

static int begin(struct fm_sched_ent *e, uint64_t ready_at, uint64_t now)
{
	struct fm_sched_dev *d = e->d;
	struct fm_sched *s = d->s;
	int rc = fm_heap_reserve(&s->awaiting, s->awaiting.n + 1);

	if (!rc && d->n_ents > 1 && !d->self[FM_DEPUTY])
		rc = fm_seat_make(d, FM_DEPUTY, now);
	if (rc)
		return rc;
	fm_heap_push(&s->awaiting, &e->awaits, ready_at);
	d->n_awaiting++;
	e->g->n_awaiting++;
	note(e, now);
	return 0;
}

void fm_await_forget(struct fm_sched_ent *e)
{
	e->d->n_awaiting -= fm_core_awaits(e);
	e->g->n_awaiting -= fm_core_awaits(e);
	fm_heap_del(&e->d->s->awaiting, &e->awaits);
}

static void end(struct fm_sched_ent *e, uint64_t now)
{
	fm_await_forget(e);
	note(e, now);
	fm_gang_trim(e->g, e->d, now);
}

void fm_await_end_due(struct fm_sched *s, uint64_t now)
{
	struct fm_heap_node *n;
	struct fm_sched_ent *e;

	while ((n = fm_heap_min(&s->awaiting)) && n->key <= now) {
		e = fm_container(n, struct fm_sched_ent, awaits);
		fm_core_settle_ent(e, now);
		end(e, now);
		fm_heap_rekey(&s->timers, &e->d->timer, now);
	}
}

bool fm_sched_claims(const struct fm_sched_ent *e)
{
	return fm_core_awaits(e) && e->claimed;
}

int fm_sched_ready_at(struct fm_sched *s, struct fm_sched_ent *e, uint64_t ready_at, uint64_t now)
{
	bool awaits = ready_at > fm_core_now(s, now);
	int rc = 0;

	now = fm_core_now(s, now);
	if (awaits && fm_core_awaits(e))
		fm_heap_rekey(&s->awaiting, &e->awaits, ready_at);
	if (awaits == fm_core_awaits(e))
		return 0;
	fm_core_settle_ent(e, now);
	if (awaits)
		rc = begin(e, ready_at, now);
	else
		end(e, now);
	if (!rc)
		fm_core_decide(e->d, now);
	return rc;
}
