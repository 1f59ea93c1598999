/* SPDX-License-Identifier: Apache-2.0 */
/* Creation and end of the core, its devices and its entities, and what can be asked of them. */
#include "base/cleanup.h"
#include "core.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TURN_LEAST (100 * FM_US)

int fm_sched_new(struct fm_sched **out, const struct fm_sched_host *host, void *ctx)
{
	struct fm_sched *s;

	if (!host || !host->gate)
		return -EINVAL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->ops = fm_policy_find("fixed-priority");
	if (fm_core_new_shared(s->ops, &s->shared)) {
		free(s);
		return -ENOMEM;
	}
	s->host = *host;
	s->ctx = ctx;
	s->linger = FM_LINGER_AUTO;
	s->turns = FM_NEVER;
	fm_list_init(&s->devices);
	fm_list_init(&s->groups);
	fm_list_init(&s->stirred);
	fm_list_init(&s->decided);
	fm_list_init(&s->torn);
	s->yield_at = FM_NEVER;
	fm_policy_parse(s->ops, NULL, 0, s->params, NULL);
	*out = s;
	return 0;
}

static void free_ent(struct fm_sched_ent *e)
{
	for (unsigned i = 0; i < FM_SEATS; i++)
		free(e->seat[i].priv);
	fm_spend_free(e->spend);
	free(e);
}

static void free_device(struct fm_sched_dev *d)
{
	struct fm_sched_ent *e, *tmp;

	for (unsigned i = 0; i < FM_SEATS; i++)
		fm_seat_end(d, i, d->s->now);
	fm_list_each_safe (e, tmp, &d->ents, in_dev)
		free_ent(e);
	fm_hold_fini(&d->hold);
	free(d->held);
	free(d->key);
	free(d);
}

void fm_sched_free(struct fm_sched *s)
{
	struct fm_sched_dev *d, *dtmp;
	struct fm_sched_group *g, *gtmp;

	if (!s)
		return;
	fm_list_each_safe (d, dtmp, &s->devices, node)
		free_device(d);
	fm_list_each_safe (g, gtmp, &s->groups, node) {
		fm_who_put(g->who);
		free(g);
	}
	fm_heap_fini(&s->timers);
	fm_heap_fini(&s->lingers);
	fm_heap_fini(&s->awaiting);
	free(s->shared);
	free(s);
}

void fm_sched_turns(struct fm_sched *s, uint64_t ns)
{
	s->turns = FM_MAX(ns, TURN_LEAST);
}

void fm_sched_linger(struct fm_sched *s, uint64_t ns)
{
	s->linger = ns;
}

void fm_sched_dev_handover(struct fm_sched_dev *d, uint64_t ns)
{
	d->moves = ns;
}

uint64_t fm_sched_get_linger(const struct fm_sched *s)
{
	return s->linger;
}

bool fm_sched_exact(struct fm_sched *s, bool exact, uint64_t now)
{
	struct fm_sched_dev *d;

	now = fm_core_now(s, now);
	if (s->exact == exact)
		return false;
	s->exact = exact;
	fm_list_each (d, &s->devices, node)
		fm_core_touch_all(d);
	fm_list_each (d, &s->devices, node)
		fm_core_decide(d, now);
	return true;
}

int fm_sched_device_add(struct fm_sched *s, struct fm_sched_dev **out, const char *key)
{
	FM_CLEAN_FREE struct fm_sched_dev *d = calloc(1, sizeof(*d));
	FM_CLEAN_FREE char *name = strdup(key), *held = NULL;
	int rc;

	if (asprintf(&held, "held: its gang waits on device %s", key) < 0)
		held = NULL;
	if (!d || !name || !held || fm_heap_reserve(&s->timers, s->n_devices + 1))
		return -ENOMEM;
	d->s = s;
	fm_list_init(&d->ents);
	rc = fm_seat_make(d, FM_FIRST, s->now);
	if (rc)
		return rc;
	d->binds_alone = fm_core_binds_alone(s->ops, d->self[FM_FIRST]);
	fm_list_init(&d->active);
	fm_list_init(&d->hot);
	fm_list_init(&d->touched);
	fm_list_init(&d->stirred);
	fm_list_init(&d->decided);
	fm_hist_reset(&d->preempt);
	fm_linger_device(d);
	fm_list_add_tail(&s->devices, &d->node);
	fm_heap_push(&s->timers, &d->timer, FM_NEVER);
	s->n_devices++;
	d->key = fm_take_ptr(name);
	d->held = fm_take_ptr(held);
	*out = fm_take_ptr(d);
	return 0;
}

const char *fm_sched_dev_key(const struct fm_sched_dev *d)
{
	return d->key;
}

const struct fm_hist *fm_sched_dev_preempt_hist(const struct fm_sched_dev *d)
{
	return &d->preempt;
}

void *fm_sched_dev_first(const struct fm_sched_dev *d)
{
	return d->n_run ? d->run[0]->data : NULL;
}

void fm_sched_dev_decision(const struct fm_sched_dev *d, struct fm_decision *out)
{
	*out = (struct fm_decision){
		.first = fm_sched_dev_first(d),
		.chosen = d->n_run,
		.ready = d->n_ready,
		.all = d->all,
		.reason = d->reason,
	};
}

static struct fm_sched_ent *new_ent(
	struct fm_sched_group *g, struct fm_sched_dev *d, void *data, uint64_t now)
{
	FM_CLEAN_FREE struct fm_sched_ent *e = calloc(1, sizeof(*e));

	if (!e || fm_spend_new(&e->spend, now))
		return NULL;
	for (unsigned i = 0; i < FM_SEATS; i++) {
		e->seat[i].hints = &g->effective;
		e->seat[i].id = d->s->last_id + 1;
	}
	d->s->last_id++;
	e->d = d;
	e->g = g;
	e->data = data;
	e->fresh = true;
	fm_account_join(e);
	e->charged_to = now;
	fm_list_init(&e->active);
	fm_list_init(&e->hot);
	fm_list_init(&e->touched);
	return fm_take_ptr(e);
}

/* It joins idle, or ready when its group is inside a segment. */
static void enter(struct fm_sched_ent *e, uint64_t now)
{
	struct fm_sched_dev *d = e->d;

	if (d->n_ents == 2)
		fm_core_touch_all(d); /* no entity is alone any more: bells are wanted */
	fm_gang_enter(e, now);
	fm_core_touch(e);
	if (e->g->suspended || e->g->depth)
		fm_core_gate(e, false, "joins", now);
	if (!e->g->suspended && !e->g->depth)
		fm_core_heat(e, now);
	fm_core_refresh(e, now);
	fm_account_note(e, now);
	fm_core_decide(d, now);
}

static bool is_on(const struct fm_sched_group *g, const struct fm_sched_dev *d)
{
	const struct fm_sched_ent *e;

	fm_list_each (e, &g->ents, in_group)
		if (e->d == d)
			return true;
	return false;
}

/* Joins the instances that the device has. */
static int join(struct fm_sched_ent *e, uint64_t now)
{
	struct fm_sched_dev *d = e->d;
	int rc = 0;

	for (unsigned i = 0; i < FM_SEATS && !rc; i++) {
		if (d->self[i])
			rc = fm_seat_join(d->s->ops, d->self[i], e, i, now);
		if (rc && i)
			fm_seat_leave(d->s->ops, d->self[FM_FIRST], e, FM_FIRST, now);
	}
	return rc;
}

int fm_sched_ent_add(struct fm_sched *s, struct fm_sched_ent **out, struct fm_sched_group *g,
	struct fm_sched_dev *d, void *data, uint64_t now)
{
	struct fm_sched_ent *e;
	int rc;

	now = fm_core_now(s, now);
	if (is_on(g, d))
		return -EEXIST;
	rc = fm_heap_reserve(&s->lingers, s->n_ents + 1);
	rc = rc ? rc : fm_gang_prepare(g, d, now);
	if (rc)
		return rc;
	e = new_ent(g, d, data, now);
	fm_core_settle(d, now);
	fm_use_settle(d, now);
	rc = e ? join(e, now) : -ENOMEM;
	if (rc) {
		if (e)
			free_ent(e);
		fm_gang_trim(g, d, now);
		return rc;
	}
	if (s->host.usage)
		e->usage = s->host.usage(s->ctx, data, now);
	e->use_seen = s->host.usage ? e->usage : now;
	s->n_ents++;
	d->n_ents++;
	fm_list_add_tail(&d->ents, &e->in_dev);
	fm_list_add_tail(&g->ents, &e->in_group);
	*out = e;
	enter(e, now);
	return 0;
}

static void drop(struct fm_sched_ent **list, unsigned *n, const struct fm_sched_ent *e)
{
	for (unsigned i = *n; i-- > 0;)
		if (list[i] == e)
			list[i] = list[--*n];
}

static void unlink_ent(struct fm_sched_ent *e)
{
	struct fm_sched_dev *d = e->d;

	fm_core_cool(e);
	fm_list_del(&e->active);
	fm_list_del(&e->touched);
	fm_list_del(&e->in_dev);
	fm_list_del(&e->in_group);
	drop(d->run, &d->n_run, e);
	drop(d->claim, &d->n_claim, e);
	fm_account_leave(e);
	fm_core_drains(e, false);
	d->n_ents--;
	d->s->n_ents--;
}

void fm_sched_ent_del(struct fm_sched *s, struct fm_sched_ent *e, uint64_t now)
{
	struct fm_sched_group *g = e->g;
	struct fm_sched_dev *d = e->d;
	struct fm_sched_ent *last;

	now = fm_core_now(s, now);
	fm_core_settle_ent(e, now);
	fm_use_settle(d, now);
	fm_await_forget(e);
	if (e->ready)
		fm_core_unready(e, now);
	for (unsigned i = 0; i < FM_SEATS; i++)
		if (d->self[i])
			fm_seat_leave(s->ops, d->self[i], e, i, now);
	unlink_ent(e);
	free_ent(e);
	fm_gang_leave(g, d, now);
	if (d->n_ents == 1) { /* it is alone: its gate stands open and it needs no bells */
		last = fm_list_first(&d->ents, struct fm_sched_ent, in_dev);
		fm_core_touch(last);
		if (!last->ready && !last->g->suspended)
			fm_core_heat(last, now);
	}
	fm_core_decide(d, now);
}

void fm_sched_ent_info(const struct fm_sched_ent *e, uint64_t now, struct fm_ent_info *info)
{
	bool wants = e->work || e->g->depth;
	const char *held = wants && !e->gate_open ? fm_core_held_reason(e) : NULL;

	*info = (struct fm_ent_info){
		.gate_open = e->gate_open,
		.served_ns = e->seat[FM_FIRST].served_ns + fm_core_unsettled(e, now),
		.ready_wait_ns = fm_account_waited(e, now),
		.preemptions = e->preemptions,
		.reason = held ? held : e->reason,
	};
	if (e->g->suspended)
		info->state = FM_ENT_SUSPENDED;
	else if (wants)
		info->state = e->gate_open ? FM_ENT_RUNNING : FM_ENT_READY;
	else
		info->state = FM_ENT_IDLE;
}

struct fm_sched_dev *fm_sched_ent_device(const struct fm_sched_ent *e)
{
	return e->d;
}

/* Entities already seen go to the tail. So the walk ends at the first of them, whatever fn removes.
 */
void fm_sched_dev_each_active(
	struct fm_sched_dev *d, void (*fn)(void *arg, void *ent_data), void *arg)
{
	uint64_t visit = ++d->visit;
	struct fm_sched_ent *e;

	while (!fm_list_empty(&d->active)) {
		e = fm_list_first(&d->active, struct fm_sched_ent, active);
		if (e->visit == visit)
			return;
		e->visit = visit;
		fm_list_del(&e->active);
		fm_list_add_tail(&d->active, &e->active);
		fn(arg, e->data);
	}
}

void fm_sched_get_stats(const struct fm_sched *s, struct fm_sched_stats *st)
{
	*st = s->stats;
}
