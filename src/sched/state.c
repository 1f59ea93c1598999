/* SPDX-License-Identifier: Apache-2.0 */
#include "core.h"

void fm_core_told(struct fm_sched_ent *e, uint64_t now)
{
	const struct fm_policy_ops *ops = e->d->s->ops;

	for (unsigned i = 0; i < FM_SEATS && ops->hint; i++)
		if (e->d->self[i])
			ops->hint(e->d->self[i], &e->seat[i], now);
}

static void show(struct fm_sched_ent *e, unsigned seat, bool ready, uint64_t now)
{
	const struct fm_policy_ops *ops = e->d->s->ops;
	void (*tell)(void *, struct fm_ent *, uint64_t) = ready ? ops->ready : ops->idle;
	struct fm_ent *seen = &e->seat[seat];

	if (seen->ready == ready)
		return;
	seen->ready = ready;
	if (ready)
		seen->ready_since = e->ready_since;
	else
		seen->running = false;
	if (tell)
		tell(e->d->self[seat], seen, now);
}

void fm_core_show(struct fm_sched_ent *e, uint64_t now)
{
	show(e, FM_FIRST, fm_core_visible(e, FM_FIRST), now);
	if (e->d->self[FM_DEPUTY])
		show(e, FM_DEPUTY, fm_core_visible(e, FM_DEPUTY), now);
}

void fm_core_cool(struct fm_sched_ent *e)
{
	if (fm_list_empty(&e->hot))
		return;
	fm_list_del(&e->hot);
	e->d->n_hot--;
}

static unsigned places_of(const struct fm_sched_dev *d, uint32_t uid)
{
	const struct fm_sched_ent *e;
	unsigned n = 0;

	fm_list_each (e, &d->hot, hot)
		n += e->g->who->uid == uid;
	return n;
}

/* The coldest entity of the user with the most hot entities. So no user takes the places of others
 * by going idle more often. */
static struct fm_sched_ent *coldest(const struct fm_sched_dev *d)
{
	struct fm_sched_ent *e, *found = NULL;
	unsigned n, most = 0;

	fm_list_each (e, &d->hot, hot) {
		n = found && e->g->who->uid == found->g->who->uid ? most
								  : places_of(d, e->g->who->uid);
		if (n < most)
			continue;
		most = n;
		found = e;
	}
	return found;
}

void fm_core_heat(struct fm_sched_ent *e, uint64_t now)
{
	struct fm_sched_dev *d = e->d;
	struct fm_sched_ent *last;

	fm_core_cool(e);
	fm_list_add_head(&d->hot, &e->hot);
	if (++d->n_hot <= FM_HOT_MAX)
		return;
	last = coldest(d);
	fm_core_cool(last);
	if (!d->all)
		fm_core_gate(last, false, "idle for long", now);
}

void fm_core_set_ready(struct fm_sched_ent *e, uint64_t at, uint64_t now)
{
	struct fm_sched_dev *d = e->d;

	fm_core_cool(e);
	e->ready = true;
	e->ready_since = at;
	d->n_ready++;
	if (fm_list_empty(&e->active) && e->gate_open) {
		fm_list_add_tail(&d->active, &e->active);
		e->charged_to = FM_MAX(e->charged_to, at);
		e->use_charged = e->used_ns;
		if (d->n_ents > 1)
			fm_use_begin(e, at);
	}
	fm_gang_count(e, now); /* before it is shown, because visibility depends on the count */
	fm_core_show(e, now);
	fm_account_note(e, at);
	fm_core_touch(e);
}

void fm_core_unready(struct fm_sched_ent *e, uint64_t now)
{
	struct fm_sched_dev *d = e->d;

	fm_heap_del(&d->s->lingers, &e->linger);
	e->ready = false;
	d->n_ready--;
	if (!e->draining)
		fm_list_del(&e->active);
	fm_gang_count(e, now);
	fm_core_show(e, now);
	fm_core_touch(e);
}

static void fm_core_set_idle(struct fm_sched_ent *e, uint64_t now)
{
	fm_core_unready(e, now);
	fm_core_heat(e, now);
}

/* A new job takes up the claim of the lingering entity again. */
static void end_linger(struct fm_sched_ent *e, uint64_t at, uint64_t now)
{
	fm_heap_del(&e->d->s->lingers, &e->linger);
	e->ready_since = at;
	for (unsigned i = 0; i < FM_SEATS; i++)
		e->seat[i].ready_since = at;
	fm_gang_count(e, now);
	fm_account_note(e, at);
	fm_core_told(e, now);
}

void fm_core_refresh(struct fm_sched_ent *e, uint64_t now)
{
	bool wants = e->work || e->g->depth;

	if (e->g->suspended)
		return;
	if (wants && fm_core_lingers(e))
		end_linger(e, now, now);
	else if (wants && !e->ready)
		fm_core_set_ready(e, now, now);
	else if (!wants && e->ready && !fm_core_lingers(e))
		fm_core_set_idle(e, now);
	fm_account_note(e, now);
}

void fm_sched_ready(struct fm_sched *s, struct fm_sched_ent *e, uint64_t at, uint64_t now)
{
	uint64_t stopped = s->stats.preemptions;
	enum fm_came came = FM_CAME_ELSE;

	now = fm_core_now(s, now);
	at = FM_MIN(at, now);
	if (e->work)
		return;
	s->stats.events++;
	if (e->idle_at)
		fm_linger_paused(e, fm_sub_sat(at, e->idle_at));
	fm_core_settle(e->d, at);
	e->work = true;
	if (e->g->suspended)
		return;
	fm_core_touch(e);
	if (fm_core_lingers(e) && e->gate_open)
		came = FM_CAME_KEPT;
	else if (!e->ready && e->d->n_ready)
		came = FM_CAME_WAITS;
	if (fm_core_lingers(e))
		end_linger(e, at, now);
	else if (!e->ready)
		fm_core_set_ready(e, at, now);
	fm_linger_begins(e, came, at);
	fm_core_decide(e->d, now);
	if (came == FM_CAME_WAITS && e->gate_open && s->stats.preemptions != stopped)
		fm_linger_begins(e, FM_CAME_FETCHED, at);
}

/* Only an entity that holds the device has something to keep, and only its pauses may be short. An
 * entity that is alone needs no claim, unless it holds back others on other devices. */
static bool may_linger(const struct fm_sched_ent *e)
{
	bool others = e->d->n_ents > 1 || e->d->s->shared;

	return e->ready && !e->g->depth && e->gate_open && !e->d->all && others;
}

void fm_sched_idle(struct fm_sched *s, struct fm_sched_ent *e, uint64_t at, uint64_t now)
{
	uint64_t until = 0;

	now = fm_core_now(s, now);
	at = FM_MIN(at, now);
	if (!e->work)
		return;
	s->stats.events++;
	fm_core_settle_ent(e, at);
	e->work = false;
	e->idle_at = at;
	fm_linger_ends(e, at);
	fm_account_note(e, at);
	fm_core_touch(e);
	if (e->draining)
		fm_core_drained(e, FM_MAX(at, e->closed_at));
	else
		fm_core_rests(e);
	if (may_linger(e))
		until = fm_add_sat(at, fm_linger_of(e));
	if (until > now) {
		fm_heap_push(&s->lingers, &e->linger, until); /* room was reserved when it joined */
		fm_gang_count(e, now);
		if (!fm_list_empty(&s->stirred))
			fm_gang_resolve(s, now);
		fm_core_ring(e->d);
		return;
	}
	if (e->ready && !e->g->depth)
		fm_core_set_idle(e, now);
	fm_core_decide(e->d, now);
}

static void end_claims(struct fm_sched *s, uint64_t now)
{
	struct fm_heap_node *n;
	struct fm_sched_ent *e;

	while ((n = fm_heap_min(&s->lingers)) && n->key <= now) {
		e = fm_container(n, struct fm_sched_ent, linger);
		fm_core_settle(e->d, n->key);
		fm_core_set_idle(e, now);
		fm_heap_rekey(&s->timers, &e->d->timer, now);
	}
}

void fm_sched_tick(struct fm_sched *s, uint64_t now)
{
	struct fm_heap_node *n;

	now = fm_core_now(s, now);
	end_claims(s, now);
	fm_await_end_due(s, now);
	/* This loop ends, because a decision sets its device's timer after now. */
	while ((n = fm_heap_min(&s->timers)) && n->key <= now)
		fm_core_decide(fm_container(n, struct fm_sched_dev, timer), now);
	if (s->yield_at <= now)
		fm_gang_resolve(s, now);
}

int64_t fm_sched_rank(const struct fm_sched_ent *e)
{
	const struct fm_policy_ops *ops = e->d->s->ops;

	return ops->rank ? ops->rank(e->d->self[FM_FIRST], &e->seat[FM_FIRST]) : 0;
}

uint64_t fm_sched_next(const struct fm_sched *s)
{
	const struct fm_heap_node *timer = fm_heap_min(&s->timers);
	const struct fm_heap_node *linger = fm_heap_min(&s->lingers);
	const struct fm_heap_node *awaits = fm_heap_min(&s->awaiting);
	uint64_t next = FM_MIN(timer ? timer->key : FM_NEVER, s->yield_at);

	next = awaits ? FM_MIN(next, awaits->key) : next;
	return linger ? FM_MIN(next, linger->key) : next;
}
