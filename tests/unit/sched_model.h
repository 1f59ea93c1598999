/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device in virtual time, for tests of the scheduler core: it works for one client at a time,
 * starts only commands of open gates, and keeps a victim on the device for `late` after its gate
 * closed. Clients report their edges at once. There is no linger unless a test sets one.
 */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/util.h"
#include "sched/sched.h"
#include <string.h>

#define MODEL_STEP (50 * FM_US)
#define CLIENTS    8

struct client {
	struct fm_sgroup *g;
	struct fm_sent *e;
	struct model *m;
	bool open, bell_ready, bell_idle;
	uint64_t todo;      /* device time left of the current job */
	uint64_t starts;    /* when it first has work */
	uint64_t job, rest; /* endless repetition of jobs with rests between; rest 0: always busy */
	uint64_t next_job;
	uint64_t late;     /* how long after closing it stalls */
	uint64_t close_at; /* of the gate */
	uint64_t left_at;  /* when it last left the device */
	uint64_t served, gates;
};

struct model {
	struct fm_sched *s;
	struct fm_sdev *d;
	struct client c[CLIENTS];
	unsigned n;
	struct client *on; /* whom the device works for */
	uint64_t now, idle_ns;
	bool conserve_work; /* assert: someone has work -> some gate is open */
};

static inline void model_gate(void *ctx, void *data, bool open, const char *reason, uint64_t now)
{
	struct client *c = data;

	assert_non_null(reason);
	if (c->open && !open)
		c->close_at = now;
	c->open = open;
	c->gates++;
}

static inline bool model_stalled(void *ctx, void *data, uint64_t *since)
{
	struct client *c = data;

	assert_false(c->open);
	if (c->m->on == c)
		return false;
	*since = FM_MAX(c->left_at, c->close_at);
	return true;
}

static inline void model_bells(void *ctx, void *data, bool ready, bool idle)
{
	struct client *c = data;

	assert_true(c->bell_ready != ready || c->bell_idle != idle);
	c->bell_ready = ready;
	c->bell_idle = idle;
}

static const struct fm_sched_host model_host = {
	.gate = model_gate,
	.stalled = model_stalled,
	.bells = model_bells,
};

static inline void model_init(
	struct model *m, const char *policy, const char *const *params, size_t n)
{
	struct fm_err err = {0};

	memset(m, 0, sizeof(*m));
	m->now = FM_S;
	assert_int_equal(fm_sched_new(&m->s, &model_host, m), 0);
	fm_sched_linger(m->s, 0);
	assert_int_equal(fm_sched_policy(m->s, policy, params, n, m->now, &err), 0);
	assert_int_equal(fm_sched_device_add(m->s, &m->d, "model"), 0);
}

static inline struct client *model_client(
	struct model *m, uint64_t starts, uint64_t job, uint64_t rest)
{
	struct client *c = &m->c[m->n++];

	c->m = m;
	c->next_job = c->starts = m->now + starts;
	c->job = job;
	c->rest = rest;
	assert_int_equal(fm_sched_group_add(m->s, &c->g), 0);
	assert_int_equal(fm_sched_ent_add(m->s, &c->e, c->g, m->d, c, m->now), 0);
	return c;
}

static inline void model_arrivals(struct model *m)
{
	for (unsigned i = 0; i < m->n; i++) {
		struct client *c = &m->c[i];

		if (c->todo || m->now < c->next_job)
			continue;
		c->todo = c->job;
		fm_sched_ready(m->s, c->e, m->now, m->now);
	}
}

static inline void model_leave_device(struct model *m)
{
	struct client *c = m->on;

	if (!c || c->open || m->now < c->close_at + c->late)
		return;
	c->left_at = m->now;
	m->on = NULL;
}

/* Work for one step; returns whose work ended with it. */
static inline struct client *model_serve(struct model *m)
{
	struct client *c;

	for (unsigned i = 0; !m->on && i < m->n; i++)
		if (m->c[i].open && m->c[i].todo)
			m->on = &m->c[i];
	c = m->on;
	if (!c) {
		m->idle_ns += MODEL_STEP;
		return NULL;
	}
	c->served += MODEL_STEP;
	c->todo -= FM_MIN(c->todo, MODEL_STEP);
	if (!c->todo && !c->rest)
		c->todo = c->job; /* the next job was queued already */
	if (c->todo)
		return NULL;
	m->on = NULL;
	c->left_at = m->now + MODEL_STEP;
	c->next_job = c->left_at + c->rest;
	return c;
}

static inline void model_check(struct model *m)
{
	unsigned open = 0, work = 0;

	for (unsigned i = 0; i < m->n; i++) {
		work += m->c[i].todo > 0;
		open += m->c[i].open && m->c[i].todo;
	}
	assert_true(open <= 1);
	if (m->conserve_work && work)
		assert_int_equal(open, 1);
}

static inline void model_run(struct model *m, uint64_t ns)
{
	uint64_t end = m->now + ns;

	while (m->now < end) {
		struct client *done;

		model_arrivals(m);
		if (fm_sched_next(m->s) <= m->now)
			fm_sched_tick(m->s, m->now);
		model_leave_device(m);
		model_check(m);
		done = model_serve(m);
		m->now += MODEL_STEP;
		if (done)
			fm_sched_idle(m->s, done->e, m->now, m->now);
	}
}

static inline void model_hint(struct model *m, struct client *c, enum fm_hint h, int64_t v)
{
	assert_int_equal(fm_sched_hint(m->s, c->g, h, v, m->now), 0);
}

/* Percent of the time since `from` and `served` were taken. */
static inline double model_share(
	const struct model *m, const struct client *c, uint64_t from, uint64_t served)
{
	return 100.0 * (double)(c->served - served) / (double)(m->now - from);
}

static inline void assert_near(double v, double want, double tolerance)
{
	if (v < want - tolerance || v > want + tolerance)
		fail_msg("%.3f is not within %.3f of %.3f", v, tolerance, want);
}
