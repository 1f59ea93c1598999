/* SPDX-License-Identifier: Apache-2.0 */
/* A policy by itself, with a random past: entities come and go, and are charged early and late. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/util.h"
#include "policy/policy.h"
#include <stdlib.h>
#include <string.h>

#define MANY 12 /* entities of a world, at most */

static uint64_t seed;

static inline uint64_t any(uint64_t n)
{
	uint64_t z = seed += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return (z ^ z >> 31) % n;
}

struct world {
	const struct fm_policy_ops *ops;
	bool users;
	void *self;
	uint64_t now;
	unsigned n; /* places */
	struct place {
		bool joined;
		struct fm_hints hints;
		struct fm_ent e;
		uint64_t left;
	} at[MANY];
};

static inline void random_hints(struct fm_hints *h)
{
	memset(h, 0, sizeof(*h));
	h->value[FM_HINT_PRIORITY] = (int64_t)any(3);
	h->value[FM_HINT_WEIGHT] = (int64_t)any(4) * 512;
	h->value[FM_HINT_SHARE] = any(2) ? (int64_t)any(60) : 0;
	h->value[FM_HINT_DEADLINE] = any(2) ? (int64_t)any(50 * FM_MS) : 0;
	h->value[FM_HINT_PERIOD] = any(4) ? 0 : (int64_t)any(100 * FM_MS);
	h->value[FM_HINT_RUNTIME] = any(3) ? 0 : (int64_t)any(20 * FM_MS);
	h->value[FM_HINT_SLICE] = any(3) ? 0 : (int64_t)any(9 * FM_MS);
	h->value[FM_HINT_LATENCY_NICE] = (int64_t)any(40) - 20;
	h->value[FM_HINT_FOREGROUND] = (int64_t)any(2);
}

static inline void go_idle(struct world *w, struct place *p)
{
	p->e.ready = p->e.running = false;
	if (w->ops->idle)
		w->ops->idle(w->self, &p->e, w->now);
}

static inline void charge(struct world *w, struct fm_ent *e, uint64_t ns)
{
	e->served_ns += ns;
	if (w->ops->charge)
		w->ops->charge(w->self, e, ns, w->now);
}

static inline void leave(struct world *w, struct place *p)
{
	if (p->e.ready)
		go_idle(w, p);
	if (w->ops->leave)
		w->ops->leave(w->self, &p->e, w->now);
	free(p->e.priv);
	p->joined = false;
}

static inline void join(struct world *w, struct place *p)
{
	memset(p, 0, sizeof(*p));
	random_hints(&p->hints);
	p->e.id = (uint64_t)(p - w->at);
	p->e.hints = &p->hints;
	p->e.user = w->users ? 1 + (uint32_t)any(3) : 0;
	p->e.priv = calloc(1, FM_MAX(w->ops->ent_size, (size_t)1));
	if (w->ops->join)
		assert_int_equal(w->ops->join(w->self, &p->e, w->now), 0);
	p->joined = true;
}

/* What happens to a policy but decisions. */
static inline void happen(struct world *w)
{
	struct place *p = &w->at[any(w->n)];

	w->now += any(FM_MS);
	if (!p->joined) {
		join(w, p);
	} else if (!p->e.ready && any(2)) {
		p->e.ready = true;
		p->e.ready_since = w->now - any(200 * FM_US);
		if (w->ops->ready)
			w->ops->ready(w->self, &p->e, w->now);
	} else if (p->e.ready && !any(4)) {
		go_idle(w, p);
		if (any(2)) /* its last command ended late */
			charge(w, &p->e, any(FM_MS));
	} else if (!any(6)) {
		random_hints(&p->hints);
		if (w->ops->hint)
			w->ops->hint(w->self, &p->e, w->now);
	} else if (p->e.ready && !any(8)) { /* a new job within its linger */
		p->e.ready_since = w->now;
		if (w->ops->hint)
			w->ops->hint(w->self, &p->e, w->now);
	} else if (!any(12)) {
		leave(w, p);
	}
}

static inline void decide(struct world *w, struct fm_choice *c)
{
	*c = (struct fm_choice){.next = FM_NEVER};
	w->ops->decide(w->self, w->now, c);
	for (unsigned i = 0; i < w->n; i++)
		w->at[i].e.running = c->all && w->at[i].e.ready;
	for (unsigned i = 0; !c->all && i < c->n; i++) {
		assert_true(c->run[i]->ready && !c->run[i]->running);
		c->run[i]->running = true;
	}
}

/* Decide, and run a while; the charge may come late, to whoever was stopped. */
static inline void live_on(struct world *w, unsigned steps)
{
	struct fm_choice c;
	uint64_t ns;

	for (unsigned s = 0; s < steps; s++) {
		happen(w);
		decide(w, &c);
		ns = any(8 * FM_MS) + 1;
		ns = any(2) && c.next != FM_NEVER && c.next > w->now ? c.next - w->now : ns;
		w->now += ns;
		for (unsigned i = 0; i < w->n; i++)
			if (w->at[i].joined && w->at[i].e.running)
				charge(w, &w->at[i].e, ns);
		if (any(4) == 0)
			decide(w, &c);
	}
}

struct subject {
	const char *policy, *setting[2];
	bool users;
};

static inline void begin(struct world *w, const struct subject *s, uint64_t from)
{
	int64_t params[FM_POLICY_PARAMS];

	seed = from;
	memset(w, 0, sizeof(*w));
	w->ops = fm_policy_find(s->policy);
	w->users = s->users;
	w->now = FM_S;
	w->n = 1 + (unsigned)any(MANY);
	w->self = calloc(1, FM_MAX(w->ops->size, (size_t)1));
	assert_int_equal(
		fm_policy_parse(w->ops, s->setting,
			(size_t)(s->setting[0] != NULL) + (s->setting[1] != NULL), params, NULL),
		0);
	if (w->ops->init)
		assert_int_equal(w->ops->init(w->self, params), 0);
	for (unsigned i = 0; i < w->n; i++)
		join(w, &w->at[i]);
	live_on(w, 40);
}

static inline void end(struct world *w)
{
	for (unsigned i = 0; i < w->n; i++)
		if (w->at[i].joined)
			leave(w, &w->at[i]);
	if (w->ops->fini)
		w->ops->fini(w->self);
	free(w->self);
}
