/* SPDX-License-Identifier: Apache-2.0 */
#include "core.h"

#define NEXT_MIN                                                                         \
	(10 * FM_US) /* a policy that wishes for the past is called again a little later \
		      */

void fm_core_touch(struct fm_sent *e)
{
	if (fm_list_empty(&e->touched))
		fm_list_add_tail(&e->d->touched, &e->touched);
}

void fm_core_touch_all(struct fm_sdev *d)
{
	struct fm_sent *e;

	fm_list_each (e, &d->ents, in_dev)
		fm_core_touch(e);
}

static void start_drain(struct fm_sent *e, uint64_t now)
{
	struct fm_sdev *d = e->d;

	e->draining = true;
	d->n_draining++;
	d->poll_every = FM_POLL_MIN;
	d->poll_at = now + FM_POLL_MIN;
}

static void closed(struct fm_sent *e, uint64_t now)
{
	e->closed_at = now;
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

static void opened(struct fm_sent *e, uint64_t now)
{
	struct fm_sdev *d = e->d;

	if (e->draining) { /* never came to rest: it goes on, and there is nothing to measure */
		e->draining = false;
		d->n_draining--;
		if (!e->pub.ready)
			fm_list_del(&e->active);
	} else if (e->pub.ready) {
		fm_list_add_tail(&d->active, &e->active);
		e->charged_to = now;
	}
}

void fm_core_gate(struct fm_sent *e, bool open, const char *reason, uint64_t now)
{
	struct fm_sched *s = e->d->s;

	if (e->gate_open == open && !e->fresh)
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
	fm_core_note_wait(e, now);
	fm_core_touch(e);
	s->host.gate(s->ctx, e->data, open, reason, now);
}

static void set_bells(struct fm_sent *e)
{
	const struct fm_sdev *d = e->d;
	struct fm_sched *s = d->s;
	bool heard = !d->all && !e->g->suspended && (d->n_ents > 1 || d->binds_alone);
	bool others = d->binds_alone || s->ops->exact_jobs || d->n_ready > e->pub.ready;
	bool ready = heard && !e->work;
	bool idle = heard && e->work && others && !fm_list_empty(&e->active);

	if (ready == e->bell_ready && idle == e->bell_idle)
		return;
	e->bell_ready = ready;
	e->bell_idle = idle;
	if (s->host.bells)
		s->host.bells(s->ctx, e->data, ready, idle);
}

/* The owner may report an edge from within bells(), and that decides anew: each round takes the
 * first of the list, so nothing depends on what the list was before the call. */
void fm_core_ring(struct fm_sdev *d)
{
	struct fm_sent *e;

	while (!fm_list_empty(&d->touched)) {
		e = fm_list_first(&d->touched, struct fm_sent, touched);
		fm_list_del(&e->touched);
		set_bells(e);
	}
}

/* Note the chosen, dropping what a policy must not choose: the idle, the strangers and the doubles.
 */
static void take_choice(struct fm_sdev *d, const struct fm_choice *c)
{
	unsigned n = FM_MIN(c->n, (unsigned)FM_RUN_MAX);

	for (unsigned i = 0; i < d->n_run; i++)
		d->run[i]->pub.running = false;
	d->n_run = 0;
	d->epoch++;
	for (unsigned i = 0; i < n; i++) {
		struct fm_sent *e = c->run[i] ? fm_sent_of(c->run[i]) : NULL;

		if (!e || e->d != d || !e->pub.ready || e->epoch == d->epoch)
			continue;
		e->epoch = d->epoch;
		e->pub.running = true;
		d->run[d->n_run++] = e;
	}
}

static void apply_all(struct fm_sdev *d, const char *reason, uint64_t now)
{
	struct fm_sent *e, *tmp;

	if (!d->all) {
		fm_core_touch_all(d);
		d->all = true;
		d->n_run = 0;
	}
	fm_list_each_safe (e, tmp, &d->touched, touched) {
		e->pub.running = e->pub.ready;
		if (!e->g->suspended)
			fm_core_gate(e, true, reason, now);
	}
}

/* The idle that are not hot have been let run by `all`, and by no one else. */
static void leave_all(struct fm_sdev *d, const char *reason, uint64_t now)
{
	struct fm_sent *e;

	fm_core_settle_each(d, now);
	d->all = false;
	fm_core_touch_all(d);
	fm_list_each (e, &d->ents, in_dev) {
		e->pub.running = e->pub.ready && e->epoch == d->epoch;
		if (!e->pub.ready && fm_list_empty(&e->hot))
			fm_core_gate(e, false, reason, now);
	}
}

static bool hot_wants_open(struct fm_sdev *d, struct fm_sent *e, uint64_t now)
{
	const struct fm_policy_ops *ops = d->s->ops;

	/* Unless another device may hold it back, nothing does on an idle one. */
	if (!d->n_ready && !d->s->shared)
		return true;
	return ops->preempts && ops->preempts(d->self, &e->pub, now);
}

static void apply_run(struct fm_sdev *d, const char *reason, uint64_t now)
{
	struct fm_sent *e, *tmp;

	if (d->all)
		leave_all(d, reason, now);
	fm_list_each_safe (e, tmp, &d->active, active) {
		fm_core_touch(e);
		if (e->gate_open && e->epoch != d->epoch)
			fm_core_gate(e, false, reason, now);
	}
	fm_list_each (e, &d->hot, hot) {
		e->wants_open = hot_wants_open(d, e, now);
		if (!e->wants_open)
			fm_core_gate(e, false, "would not run at once", now);
	}
	for (unsigned i = 0; i < d->n_run; i++)
		fm_core_gate(d->run[i], true, reason, now);
	fm_list_each (e, &d->hot, hot)
		if (e->wants_open)
			fm_core_gate(
				e, true, d->n_ready ? "would run at once" : "device idle", now);
}

static void arm(struct fm_sdev *d, uint64_t now)
{
	uint64_t at = FM_MAX(d->wish, now + NEXT_MIN);

	if (d->n_draining) {
		if (d->poll_at <= now) {
			d->poll_every = FM_MIN(2 * d->poll_every, FM_POLL_MAX);
			d->poll_at = now + d->poll_every;
		}
		at = FM_MIN(at, d->poll_at);
	}
	fm_heap_rekey(&d->s->timers, &d->timer, at);
}

/* Returns whether the other devices are to be asked as well. */
static bool decide_one(struct fm_sdev *d, uint64_t now)
{
	struct fm_sched *s = d->s;
	struct fm_choice c = {.next = FM_NEVER, .reason = s->ops->name};

	fm_core_settle(d, now);
	s->stats.decisions++;
	s->ops->decide(d->self, now, &c);
	d->wish = c.next;
	if (c.all) {
		apply_all(d, c.reason, now);
	} else {
		take_choice(d, &c);
		apply_run(d, c.reason, now);
	}
	/* What had nothing in flight has come to rest already: no need to come back for it. */
	if (d->n_draining)
		fm_core_settle(d, now);
	arm(d, now);
	fm_core_ring(d);
	return c.others && s->shared;
}

/* What the others answer changes nothing for the rest: they are asked once. */
void fm_core_decide(struct fm_sdev *d, uint64_t now)
{
	struct fm_sdev *other;

	if (!decide_one(d, now))
		return;
	fm_list_each (other, &d->s->devices, node)
		if (other != d)
			decide_one(other, now);
}
