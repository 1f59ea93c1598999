/* SPDX-License-Identifier: Apache-2.0 */
/* An owner of the scheduler core that keeps its own books of gates, work and stalls, and what must
 * hold between them after each event. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/util.h"
#include "sched/sched.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GROUPS  40
#define DEVICES 3
#define ENTS    120

#define DEPTH_MAX 32

struct group {
	struct fm_sched_group *g;
	unsigned depth;
	int32_t segment[DEPTH_MAX];
	bool suspended;
	bool apart; /* its devices decide each for itself */
};

struct ent {
	struct fm_sched_ent *e;
	unsigned group, device;
	bool told, open, work, bell_ready, bell_idle;
	bool stuck; /* after closing: does not come to rest */
	uint64_t close_at, joined;
	uint64_t ready_at; /* of the resource that it awaits; 0: it awaits none */
};

struct fuzz {
	struct fm_sched *s;
	struct fm_sched_dev *d[DEVICES];
	struct group group[GROUPS];
	struct ent ent[ENTS];
	uint64_t now, rnd;
	bool in_call, dense; /* dense: many entities on each device */
	bool awaits;         /* entities await resources now and then */
	/* What the policy promises: so many run at once, and somebody ready means somebody runs,
	 * on each device or over all of them; but for shares that are limits. */
	const char *policy;
	unsigned at_once;
	bool by_user, capped, aging, one_order;
};

static inline uint64_t rnd(struct fuzz *f, uint64_t below)
{
	f->rnd ^= f->rnd << 13;
	f->rnd ^= f->rnd >> 7;
	f->rnd ^= f->rnd << 17;
	return f->rnd % below;
}

static inline void on_gate(void *ctx, void *data, bool open, const char *reason, uint64_t now)
{
	struct fuzz *f = ctx;
	struct ent *e = data;

	assert_true(f->in_call);
	assert_non_null(reason);
	assert_non_null(e->e ? e->e : (void *)f);
	assert_true(!e->told || e->open != open);
	e->told = true;
	e->open = open;
	if (open)
		e->stuck = false;
	else
		e->stuck = e->work && rnd(f, 3);
	e->close_at = now;
}

static inline bool on_stalled(void *ctx, void *data, uint64_t *since)
{
	struct fuzz *f = ctx;
	struct ent *e = data;

	assert_false(e->open);
	if (e->stuck && e->work && rnd(f, 4))
		return false;
	e->stuck = false;
	*since = rnd(f, 2) ? f->now - rnd(f, 1000) : e->close_at;
	return true;
}

static inline void on_bells(void *ctx, void *data, bool ready, bool idle)
{
	struct ent *e = data;

	assert_true(e->bell_ready != ready || e->bell_idle != idle);
	e->bell_ready = ready;
	e->bell_idle = idle;
}

static inline uint64_t on_usage(void *ctx, void *data, uint64_t now)
{
	return rnd(ctx, 20) ? now / 2 : rnd(ctx, UINT64_MAX); /* clients lie */
}

static const struct fm_sched_host host = {
	.gate = on_gate, .stalled = on_stalled, .bells = on_bells, .usage = on_usage};

static inline bool wants(const struct fuzz *f, const struct ent *e)
{
	const struct group *g = &f->group[e->group];

	return !g->suspended && (e->work || g->depth);
}

/* What waits for a time is let go by a tick after it, and not before. */
static inline void tick(struct fuzz *f)
{
	for (struct ent *e = f->ent; e < f->ent + ENTS; e++)
		if (e->ready_at <= f->now)
			e->ready_at = 0;
	fm_sched_tick(f->s, f->now);
}

/* What else its group has: work, or a gate that is open all the same, for a while. */
static inline bool is_single(const struct fuzz *f, const struct ent *e)
{
	if (e->ready_at || f->group[e->group].apart)
		return !e->ready_at;
	for (const struct ent *o = f->ent; o < f->ent + ENTS; o++)
		if (o->e && o != e && o->group == e->group && (wants(f, o) || o->open))
			return false;
	return true;
}

/* It awaits a resource, or its gang does. */
static inline bool is_held(const struct fuzz *f, const struct ent *e)
{
	if (e->ready_at || f->group[e->group].apart)
		return e->ready_at;
	for (const struct ent *o = f->ent; o < f->ent + ENTS; o++)
		if (o->e && o->group == e->group && wants(f, o) && o->ready_at)
			return true;
	return false;
}

/* A gang runs on all the devices on which it has work, or on none. */
static inline void check_gangs(const struct fuzz *f)
{
	unsigned open[GROUPS] = {0}, closed[GROUPS] = {0};

	for (const struct ent *e = f->ent; e < f->ent + ENTS; e++) {
		if (!e->e || !wants(f, e))
			continue;
		open[e->group] += e->open;
		closed[e->group] += !e->open;
	}
	for (unsigned i = 0; i < GROUPS; i++)
		assert_false(open[i] && closed[i] && !f->group[i].apart);
}

/* Somebody whose devices need not agree about it has the device. */
static inline void check_idle(const struct fuzz *f)
{
	bool runs[DEVICES] = {false}, single[DEVICES] = {false};

	for (const struct ent *e = f->ent; e < f->ent + ENTS; e++) {
		if (!e->e || !wants(f, e))
			continue;
		runs[e->device] |= e->open;
		single[e->device] |= is_single(f, e);
	}
	for (unsigned d = 0; d < DEVICES; d++)
		assert_true(runs[d] || !single[d]);
}

/* The groups that wait although nobody runs on any of the devices on which they have work, and not
 * for a resource. */
static inline void find_stuck(const struct fuzz *f, bool *stuck)
{
	bool runs[DEVICES] = {false};

	memset(stuck, 0, GROUPS * sizeof(*stuck));
	for (const struct ent *e = f->ent; e < f->ent + ENTS; e++) {
		if (!e->e || !wants(f, e))
			continue;
		stuck[e->group] = true;
		runs[e->device] |= e->open;
	}
	for (const struct ent *e = f->ent; e < f->ent + ENTS; e++)
		if (e->e && wants(f, e) && (runs[e->device] || e->ready_at))
			stuck[e->group] = false;
}

/* If nothing happens but time, a gang that could run does so, at the latest when the patience of
 * another is over. */
static inline void check_patience(struct fuzz *f)
{
	uint64_t since[GROUPS], end = f->now + 4 * FM_S;
	bool stuck[GROUPS];

	for (unsigned g = 0; g < GROUPS; g++)
		since[g] = f->now;
	for (;;) {
		find_stuck(f, stuck);
		for (unsigned g = 0; g < GROUPS; g++) {
			if (!stuck[g])
				since[g] = f->now;
			assert_true(f->now - since[g] < 2 * FM_S);
			assert_false(stuck[g] && fm_sched_next(f->s) == FM_NEVER);
		}
		if (fm_sched_next(f->s) >= end)
			return;
		f->now = FM_MAX(f->now, fm_sched_next(f->s));
		tick(f);
		check_gangs(f);
	}
}

static inline uint64_t waits(const struct fm_account *a)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < FM_WAITS; i++)
		sum += a->wait_ns[i];
	return sum;
}

/* All of its time is accounted for, and of what it waited, for whom. */
static inline void get_account(struct fuzz *f, struct ent *e, struct fm_account *a)
{
	uint64_t blamed;

	fm_sched_ent_account(e->e, f->now, a);
	assert_int_equal(a->age_ns, f->now - e->joined);
	assert_int_equal(
		a->ran_ns + a->idle_ns + a->by_hand_ns + a->over_budget_ns + waits(a), a->age_ns);
	blamed = a->others_ns;
	assert_true(a->n_culprits <= FM_CULPRITS);
	for (unsigned i = 0; i < a->n_culprits; i++) {
		assert_true(!i || a->culprit[i].ns <= a->culprit[i - 1].ns);
		assert_int_equal(a->culprit[i].who->name[0], 'g');
		for (unsigned k = 0; k < i; k++)
			assert_ptr_not_equal(a->culprit[i].who, a->culprit[k].who);
		blamed += a->culprit[i].ns;
	}
	assert_int_equal(blamed, waits(a));
	assert_true(a->wait_p50 <= a->wait_p99 && a->wait_p99 <= a->wait_max);
	assert_true(a->wait_max <= waits(a) && a->waits <= waits(a));
}

/* And the time that passes now is put to what it does. */
static inline void check_account(struct fuzz *f, struct ent *e)
{
	const struct group *g = &f->group[e->group];
	struct fm_account a, b;

	get_account(f, e, &a);
	f->now += 1000;
	get_account(f, e, &b);
	assert_int_equal(b.by_hand_ns - a.by_hand_ns, g->suspended ? 1000 : 0);
	assert_int_equal(b.idle_ns - a.idle_ns, g->suspended || wants(f, e) ? 0 : 1000);
	assert_int_equal(b.ran_ns + waits(&b) - a.ran_ns - waits(&a), wants(f, e) ? 1000 : 0);
	if (!wants(f, e) || (!strcmp(f->policy, "fifo") && !is_held(f, e)))
		assert_int_equal(waits(&b), waits(&a));
	if (wants(f, e) && !e->open)
		assert_int_equal(b.wait_ns[FM_WAIT_DRAINING], a.wait_ns[FM_WAIT_DRAINING]);
	if (!e->ready_at)
		assert_int_equal(b.wait_ns[FM_WAIT_RESOURCE], a.wait_ns[FM_WAIT_RESOURCE]);
	else if (wants(f, e) && !strcmp(f->policy, "fifo")) /* or it comes to rest as yet */
		assert_int_equal(b.wait_ns[FM_WAIT_RESOURCE] - a.wait_ns[FM_WAIT_RESOURCE] +
					 b.ran_ns - a.ran_ns,
			1000);
}

static inline bool has_deadline(const struct group *g)
{
	return fm_sched_group_hints(g->g)->value[FM_HINT_DEADLINE] > 0;
}

static inline void check_ent(struct fuzz *f, struct ent *e)
{
	const struct group *g = &f->group[e->group];
	struct fm_ent_info i;

	fm_sched_ent_info(e->e, f->now, &i);
	assert_true(e->told);
	assert_int_equal(i.gate_open, e->open);
	assert_int_equal(i.state == FM_ENT_SUSPENDED, g->suspended);
	assert_int_equal(i.state == FM_ENT_RUNNING, wants(f, e) && e->open);
	assert_int_equal(i.state == FM_ENT_READY, wants(f, e) && !e->open);
	assert_false((g->suspended || e->ready_at) && e->open);
	assert_false(e->bell_ready && e->work);
	assert_false(e->bell_idle && !e->work);
	if (has_deadline(g) && !g->suspended) { /* heard in any case */
		assert_true(e->bell_ready == !e->work);
		assert_true(e->bell_idle || !e->work || !e->open);
	}
	assert_true(i.served_ns <= f->now && i.ready_wait_ns <= f->now);
	if (!rnd(f, 20))
		check_account(f, e);
}

static inline bool is_lone(const struct fuzz *f, const struct ent *e)
{
	for (const struct ent *o = f->ent; o < f->ent + ENTS; o++)
		if (o->e && o != e && o->group == e->group && !f->group[e->group].apart)
			return false;
	return true;
}

static inline void check_device(struct fuzz *f, unsigned d)
{
	unsigned n = 0, ready = 0, running = 0, open_idle = 0, closed = 0, single = 0;
	struct ent *last = NULL;

	for (struct ent *e = f->ent; e < f->ent + ENTS; e++) {
		if (!e->e || e->device != d)
			continue;
		check_ent(f, e);
		n++;
		last = e;
		ready += wants(f, e) && !is_held(f, e);
		single += wants(f, e) && is_single(f, e);
		running += wants(f, e) && e->open;
		open_idle += !wants(f, e) && e->open;
		closed += f->group[e->group].suspended || is_held(f, e);
	}
	if (!strcmp(f->policy, "fifo")) {
		assert_int_equal(running, ready);
		assert_int_equal(running + open_idle, n - closed);
		return;
	}
	assert_true(running <= f->at_once);
	assert_true(open_idle <= 16 + f->at_once); /* the hot, and those that linger */
	if (f->one_order)
		return;
	if (single && !f->capped)
		assert_true(running >= 1 || open_idle >= 1); /* or someone's linger holds it */
	if (n == 1 && !ready && !closed && is_single(f, last))
		assert_true(last->open);
	if (n == 1 && !f->capped)
		assert_false((last->bell_idle || last->bell_ready) && is_lone(f, last) &&
			     !last->ready_at && !has_deadline(&f->group[last->group]));
}

static inline int64_t priority(const struct group *g)
{
	int64_t p = fm_sched_group_hints(g->g)->value[FM_HINT_PRIORITY];

	for (unsigned i = 0; i < g->depth; i++)
		if (g->segment[i] != FM_SEGMENT_KEEP)
			p = g->segment[i];
	return p;
}

/* One order over all devices: who runs is of the highest priority, and all devices that have
 * somebody of it work for it, unless that is a gang that waits. */
static inline void check_one_order(struct fuzz *f)
{
	unsigned running[DEVICES] = {0}, highest[DEVICES] = {0}, gangs[DEVICES] = {0};
	int64_t best = INT64_MIN;

	for (struct ent *e = f->ent; e < f->ent + ENTS; e++)
		if (e->e && wants(f, e))
			best = FM_MAX(best, priority(&f->group[e->group]));
	for (struct ent *e = f->ent; e < f->ent + ENTS; e++) {
		if (!e->e || f->group[e->group].suspended)
			continue;
		/* Asleep behind an open gate: it would run at once, so it is as urgent. */
		assert_false(e->open && priority(&f->group[e->group]) < best);
		if (!wants(f, e))
			continue;
		highest[e->device] += priority(&f->group[e->group]) == best;
		gangs[e->device] += !is_single(f, e);
		running[e->device] += e->open;
	}
	for (unsigned d = 0; d < DEVICES; d++)
		assert_true(running[d] == (highest[d] > 0) || (gangs[d] && !running[d]));
}

/* Who sleeps behind an open gate, because it would run at once, does when it wakes: asked anew, for
 * the answer was true when it was given. */
static inline void check_preempts(struct fuzz *f)
{
	struct ent *e = &f->ent[rnd(f, ENTS)];
	struct group *g = &f->group[e->group];
	int64_t slice;

	if (!e->e || wants(f, e) || g->suspended)
		return;
	slice = fm_sched_group_hints(g->g)->value[FM_HINT_SLICE];
	assert_int_equal(
		fm_sched_hint(f->s, g->g, FM_HINT_SLICE, slice == FM_MS ? 0 : FM_MS, f->now), 0);
	if (!e->open)
		return;
	e->work = true;
	fm_sched_ready(f->s, e->e, f->now, f->now);
	if (!e->open)
		fail_msg("%s: stopped at once", f->policy);
	e->work = false;
	fm_sched_idle(f->s, e->e, f->now, f->now);
}

/* When every linger is over: as many run as may, and who is idle is known so. */
static inline void check_rest(struct fuzz *f)
{
	for (int i = 0; i < 1000 && fm_sched_next(f->s) <= f->now + FM_LINGER_MOST; i++) {
		f->now = FM_MAX(f->now, fm_sched_next(f->s));
		tick(f);
	}
	if (f->one_order && !f->aging)
		check_one_order(f);
	if (!f->one_order && !f->capped)
		check_idle(f);
	for (int i = 0; i < 8; i++)
		check_preempts(f);
}
