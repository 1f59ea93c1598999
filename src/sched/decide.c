/* SPDX-License-Identifier: Apache-2.0 */
#include "core.h"

#define NEXT_HELD FM_MS /* the turn of a chosen entity does not pass while it has to wait */

void fm_core_touch(struct fm_sched_ent *e)
{
	if (fm_list_empty(&e->touched))
		fm_list_add_tail(&e->d->touched, &e->touched);
}

void fm_core_touch_all(struct fm_sched_dev *d)
{
	struct fm_sched_ent *e;

	fm_list_each (e, &d->ents, in_dev)
		fm_core_touch(e);
}

/* Each poll is a wake-up, and a poll before the usual time to rest is in vain. An entity that
 * reports when it came to rest is charged right however late the poll is. One that does not should
 * be polled soon after. */
static void start_drain(struct fm_sched_ent *e, uint64_t now)
{
	struct fm_sched_dev *d = e->d;
	uint64_t first = d->silent ? d->rests - d->rests / 4 : 2 * d->rests;

	first = FM_MIN(FM_MAX(first, FM_POLL_MIN), FM_POLL_MAX);
	fm_core_drains(e, true);
	d->poll_at = now + first;
	d->poll_every = d->silent ? FM_MAX(first / 6, FM_POLL_MIN / 2) : first;
}

static void closed(struct fm_sched_ent *e, uint64_t now)
{
	e->closed_at = now;
	e->pauses.came = FM_CAME_ELSE;
	if (e->work) {
		e->preemptions++;
		e->d->s->stats.preemptions++;
	}
	if (fm_list_empty(&e->active))
		return;
	if (e->work)
		start_drain(e, now);
	else
		fm_list_del(&e->active);
}

static void opened(struct fm_sched_ent *e, uint64_t now)
{
	struct fm_sched_dev *d = e->d;

	if (e->draining) { /* it never came to rest: it goes on, and there is nothing to measure */
		e->late = fm_add_sat(e->late, fm_sub_sat(now, e->closed_at));
		fm_core_drains(e, false);
		if (!e->ready)
			fm_list_del(&e->active);
	} else if (e->ready) {
		fm_list_add_tail(&d->active, &e->active);
		e->charged_to = now;
		e->use_charged = e->used_ns;
		fm_use_begin(e, now);
	}
}

void fm_core_gate(struct fm_sched_ent *e, bool open, const char *reason, uint64_t now)
{
	struct fm_sched *s = e->d->s;
	bool fresh = e->fresh;

	if (e->gate_open == open && !fresh)
		return;
	e->fresh = false;
	if (e->gate_open != open) {
		e->gate_open = open;
		if (open)
			opened(e, now);
		else
			closed(e, now);
	}
	e->reason = reason;
	s->stats.gate_stores++;
	if (e->ready)
		fm_account_note(e, now);
	/* An idle entity's gate does not tell which bells it needs. */
	if (e->ready || e->draining || fresh)
		fm_core_touch(e);
	s->host.gate(s->ctx, e->data, open, reason, now);
}

/* A group whose jobs are counted is always heard. */
static bool is_watched(const struct fm_sched_group *g)
{
	return g->grant != FM_GRANT_NONE || g->hints.value[FM_HINT_DEADLINE] > 0;
}

static void set_bells(struct fm_sched_ent *e)
{
	const struct fm_sched_dev *d = e->d;
	struct fm_sched *s = d->s;
	bool watched = is_watched(e->g);
	bool held = fm_core_awaits(e);
	bool shared = d->n_ents > 1 || d->binds_alone || watched || held || fm_gang_shared(e);
	bool heard = !e->g->suspended && (s->exact || (shared && (!d->all || watched || held)));
	bool exact = s->ops->exact_jobs || watched || s->exact;
	bool others = d->binds_alone || exact || d->n_ready > e->ready;
	bool ready = heard && !e->work;
	bool idle = heard && e->work && others && !fm_list_empty(&e->active);

	if (ready == e->bell_ready && idle == e->bell_idle)
		return;
	e->bell_ready = ready;
	e->bell_idle = idle;
	if (s->host.bells)
		s->host.bells(s->ctx, e->data, ready, idle);
}

/* The owner may report an edge from within bells(), which makes a new decision. So each round takes
 * the first of the list, and nothing depends on what the list was before the call. */
void fm_core_ring(struct fm_sched_dev *d)
{
	struct fm_sched_ent *e;

	while (!fm_list_empty(&d->touched)) {
		e = fm_list_first(&d->touched, struct fm_sched_ent, touched);
		fm_list_del(&e->touched);
		fm_account_wait(e, d->s->now);
		set_bells(e);
	}
}

static void set_running(struct fm_sched_ent *e, bool running)
{
	e->seat[FM_FIRST].running = running;
	if (e->d->self[FM_DEPUTY])
		e->seat[FM_DEPUTY].running = running;
}

/* Takes the chosen entities, without those that a policy must not choose: idle ones, entities of
 * other devices, and duplicates. */
static unsigned take(
	struct fm_sched_dev *d, unsigned seat, const struct fm_choice *c, struct fm_sched_ent **to)
{
	unsigned n = FM_MIN(c->n, (unsigned)FM_RUN_MAX), taken = 0;

	d->asked++;
	for (unsigned i = 0; i < n; i++) {
		struct fm_sched_ent *e = c->run[i] ? fm_sched_ent_of(c->run[i], seat) : NULL;

		if (!e || e->d != d || !e->seat[seat].ready || e->asked == d->asked)
			continue;
		e->asked = d->asked;
		to[taken++] = e;
	}
	return taken;
}

static void clear_run(struct fm_sched_dev *d)
{
	for (unsigned i = 0; i < d->n_run; i++)
		set_running(d->run[i], false);
	d->n_run = 0;
	d->stands_in = false;
	d->epoch++;
}

static void let_run(struct fm_sched_dev *d, struct fm_sched_ent *e)
{
	if (e->epoch == d->epoch)
		return;
	e->epoch = d->epoch;
	set_running(e, true);
	d->run[d->n_run++] = e;
}

static void set_claimed(struct fm_sched_ent *e, bool claimed, uint64_t now)
{
	e->claimed = claimed;
	fm_gang_count(e, now);
	if (fm_core_awaits(e))
		fm_account_note(e, now);
}

/* Sets the claims by the first instance's choice. Only entities that lose or get one are counted
 * anew. */
static void set_claims(
	struct fm_sched_dev *d, struct fm_sched_ent *const *to, unsigned n, uint64_t now)
{
	for (unsigned i = 0; i < d->n_claim; i++)
		if (d->claim[i]->asked != d->asked)
			set_claimed(d->claim[i], false, now);
	for (unsigned i = 0; i < n; i++) {
		d->claim[i] = to[i];
		if (!to[i]->claimed)
			set_claimed(to[i], true, now);
	}
	d->n_claim = n;
}

/* The deputy's choice replaces the entities that the policy chose and that have to wait. */
static void stand_in(struct fm_sched_dev *d, uint64_t now)
{
	struct fm_sched *s = d->s;
	struct fm_choice c = {.next = FM_NEVER, .reason = s->ops->name};
	struct fm_sched_ent *taken[FM_RUN_MAX];
	unsigned n;

	d->wish = FM_MAX(d->wish, now + NEXT_HELD);
	if (!d->self[FM_DEPUTY])
		return;
	s->ops->decide(d->self[FM_DEPUTY], now, &c);
	n = take(d, FM_DEPUTY, &c, taken);
	d->stands_in = !d->n_run;
	d->others |= c.others;
	for (unsigned i = 0; i < n && d->n_run < d->n_claim; i++)
		let_run(d, taken[i]);
	d->wish = FM_MIN(d->wish, c.next);
	if (n)
		d->reason = c.reason;
}

static bool may_run(const struct fm_sched_ent *e)
{
	return !e->g->held && !fm_core_awaits(e) && e->seat[FM_FIRST].ready;
}

void fm_core_fill(struct fm_sched_dev *d, uint64_t now)
{
	if (d->all)
		return;
	clear_run(d);
	for (unsigned i = 0; i < d->n_claim; i++)
		if (may_run(d->claim[i]))
			let_run(d, d->claim[i]);
	if (d->n_run < d->n_claim)
		stand_in(d, now);
}

static void take_choice(struct fm_sched_dev *d, const struct fm_choice *c, uint64_t now)
{
	struct fm_sched_ent *taken[FM_RUN_MAX];

	if (fm_core_may_wait(d)) {
		set_claims(d, taken, take(d, FM_FIRST, c, taken), now);
		fm_core_fill(d, now);
		return;
	}
	clear_run(d);
	d->n_run = take(d, FM_FIRST, c, d->run);
	for (unsigned i = 0; i < d->n_run; i++) {
		d->run[i]->epoch = d->epoch;
		set_running(d->run[i], true);
	}
}

/* From a choice to all entities, or back. */
static void turn(struct fm_sched_dev *d, bool all, uint64_t now)
{
	struct fm_sched_ent *e;

	if (!all)
		fm_core_settle_each(d, now);
	clear_run(d);
	for (unsigned i = 0; i < d->n_claim; i++)
		d->claim[i]->claimed = false;
	d->n_claim = 0;
	d->all = all;
	d->turned = true;
	fm_list_each (e, &d->ents, in_dev) {
		fm_core_touch(e);
		fm_gang_count(e, now);
		fm_account_note(e, now);
	}
}

void fm_core_choose(struct fm_sched_dev *d, uint64_t now)
{
	struct fm_sched *s = d->s;
	struct fm_choice c = {.next = FM_NEVER, .reason = s->ops->name};

	fm_core_settle(d, now);
	s->stats.decisions++;
	s->ops->decide(d->self[FM_FIRST], now, &c);
	d->wish = c.next;
	d->reason = c.reason;
	d->others = c.others;
	if (c.all != d->all)
		turn(d, c.all, now);
	if (!c.all)
		take_choice(d, &c, now);
}

/* Why a gate is closed. */
static const char *refusal(const struct fm_sched_ent *e)
{
	const char *held = fm_core_held_reason(e);

	return held ? held : e->d->reason;
}

static void apply_all(struct fm_sched_dev *d, uint64_t now)
{
	struct fm_sched_ent *e, *tmp;

	d->turned = false;
	fm_list_each_safe (e, tmp, &d->touched, touched) {
		bool open = !fm_core_held_back(e);

		set_running(e, e->ready && open);
		if (!e->g->suspended)
			fm_core_gate(e, open, open ? d->reason : refusal(e), now);
	}
}

/* Idle entities that are not hot have open gates only because of `all`. */
static void leave_all(struct fm_sched_dev *d, uint64_t now)
{
	struct fm_sched_ent *e;

	d->turned = false;
	fm_list_each (e, &d->ents, in_dev) {
		set_running(e, e->ready && e->epoch == d->epoch);
		if (!e->ready && fm_list_empty(&e->hot))
			fm_core_gate(e, false, d->reason, now);
	}
}

/* Would it run at once if it became ready now? An entity that would then be in a gang has to be
 * chosen by the first instance. For others the deputy's choice is enough while it stands in. */
static bool would_run(struct fm_sched_dev *d, struct fm_sched_ent *e, uint64_t now)
{
	const struct fm_policy_ops *ops = d->s->ops;

	if (ops->preempts(d->self[FM_FIRST], &e->seat[FM_FIRST], now))
		return true;
	return d->stands_in && !fm_gang_but_for(e) &&
	       ops->preempts(d->self[FM_DEPUTY], &e->seat[FM_DEPUTY], now);
}

/* On an idle device nothing holds an entity back, except another device. */
static void ask_hot(struct fm_sched_dev *d, uint64_t now)
{
	bool free = !d->n_ready && !d->s->shared, preempts = d->s->ops->preempts;
	bool waits = fm_core_may_wait(d);
	struct fm_sched_ent *e;

	fm_list_each (e, &d->hot, hot) {
		e->wants_open = free || (preempts && would_run(d, e, now));
		e->wants_open &= !waits || !(e->g->held || fm_core_awaits(e));
		if (!e->wants_open)
			fm_core_gate(e, false, "would not run at once", now);
	}
}

static void apply_run(struct fm_sched_dev *d, uint64_t now)
{
	struct fm_sched_ent *e, *tmp;

	if (d->turned)
		leave_all(d, now);
	fm_list_each_safe (e, tmp, &d->active, active) {
		fm_core_touch(e);
		if (e->gate_open && e->epoch != d->epoch)
			fm_core_gate(e, false, refusal(e), now);
	}
	ask_hot(d, now);
	for (unsigned i = 0; i < d->n_run; i++)
		fm_core_gate(d->run[i], true, d->reason, now);
	fm_list_each (e, &d->hot, hot)
		if (e->wants_open)
			fm_core_gate(
				e, true, d->n_ready ? "would run at once" : "device idle", now);
}

static void arm(struct fm_sched_dev *d, uint64_t now)
{
	uint64_t at = FM_MAX(d->wish, now + FM_DECIDE_LEAST);

	if (d->n_draining) {
		if (d->poll_at <= now) {
			d->poll_every = FM_MIN(2 * d->poll_every, FM_POLL_MAX);
			d->poll_at = now + d->poll_every;
		}
		at = FM_MIN(at, d->poll_at);
	}
	fm_heap_rekey(&d->s->timers, &d->timer, at);
}

/* Sets gates and timer as chosen. */
void fm_core_apply(struct fm_sched_dev *d, uint64_t now)
{
	if (d->s->host.decided)
		d->s->host.decided(d->s->ctx, d, now);
	if (d->all)
		apply_all(d, now);
	else
		apply_run(d, now);
	fm_account_device(d, now);
	/* An entity with nothing in flight is at rest already, so it needs no poll later. */
	if (d->n_draining)
		fm_core_settle(d, now);
	arm(d, now);
}

void fm_core_decide(struct fm_sched_dev *d, uint64_t now)
{
	if (fm_core_may_wait(d) || !fm_list_empty(&d->s->stirred) || d->s->shared) {
		fm_gang_stir(d);
		fm_gang_resolve(d->s, now);
		return;
	}
	fm_core_choose(d, now);
	fm_core_apply(d, now);
	fm_core_ring(d);
}
