/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices in virtual time, for tests of the scheduler core: each works for one client at a time (or
 * for as many as `at_once` says), starts only commands of open gates, and keeps a victim on the
 * device for `late` after its gate closed. Clients report their edges at once. There is no linger
 * unless a test sets one.
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
#ifndef CLIENTS
#define CLIENTS 8
#endif
#define MODEL_DEVICES 2

struct client {
	struct fm_sched_group *g;
	struct fm_sched_ent *e;
	struct model *m;
	unsigned device;
	bool open, bell_ready, bell_idle;
	bool on;            /* the device works for it, or is still its */
	uint64_t todo;      /* device time left of the current job */
	uint64_t starts;    /* when it first has work */
	uint64_t job, rest; /* endless repetition of jobs with rests between; rest 0: always busy */
	uint64_t period;    /* jobs come so far apart, or at once when the one before is late */
	uint64_t next_job, arrived;
	uint64_t late;     /* how long after closing it stalls */
	uint64_t close_at; /* of the gate */
	uint64_t left_at;  /* when it last left the device */
	uint64_t served, gates;
	uint64_t waits_since;     /* it has work, and was served last */
	uint64_t jobs, responses; /* finished; sum of the times from arrival to end */
	uint64_t worst_response, worst_wait;
};

struct model {
	struct fm_sched *s;
	struct fm_sched_dev *d[MODEL_DEVICES];
	struct client c[CLIENTS];
	unsigned n, devices;
	unsigned at_once;
	uint32_t uid; /* of the clients that come next */
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
	if (c->on)
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

static inline void model_device(struct model *m)
{
	assert_int_equal(fm_sched_device_add(m->s, &m->d[m->devices++], "model"), 0);
}

static inline void model_policy(
	struct model *m, const char *policy, const char *const *params, size_t n)
{
	struct fm_err err = {0};

	if (fm_sched_policy(m->s, policy, params, n, m->now, &err))
		fail_msg("%s: %s", err.text, err.hint);
}

static inline void model_init(
	struct model *m, const char *policy, const char *const *params, size_t n)
{
	memset(m, 0, sizeof(*m));
	m->now = FM_S;
	m->at_once = 1;
	assert_int_equal(fm_sched_new(&m->s, &model_host, m), 0);
	fm_sched_linger(m->s, 0);
	model_policy(m, policy, params, n);
	model_device(m);
}

static inline struct client *model_client_on(
	struct model *m, unsigned device, uint64_t starts, uint64_t job, uint64_t rest)
{
	struct client *c = &m->c[m->n++];

	c->m = m;
	c->device = device;
	c->next_job = c->starts = m->now + starts;
	c->job = job;
	c->rest = rest;
	assert_int_equal(fm_sched_group_add(m->s, &c->g), 0);
	fm_sched_label(c->g, m->uid, "client");
	assert_int_equal(fm_sched_ent_add(m->s, &c->e, c->g, m->d[device], c, m->now), 0);
	return c;
}

static inline struct client *model_client(
	struct model *m, uint64_t starts, uint64_t job, uint64_t rest)
{
	return model_client_on(m, 0, starts, job, rest);
}

/* A job of that length in each period. */
static inline struct client *model_periodic(struct model *m, uint64_t job, uint64_t period)
{
	struct client *c = model_client(m, 0, job, MODEL_STEP);

	c->period = period;
	return c;
}

static inline void model_arrivals(struct model *m)
{
	for (unsigned i = 0; i < m->n; i++) {
		struct client *c = &m->c[i];

		if (c->todo || m->now < c->next_job)
			continue;
		c->todo = c->job;
		c->arrived = c->waits_since = m->now;
		fm_sched_ready(m->s, c->e, m->now, m->now);
	}
}

static inline void model_leave_device(struct model *m)
{
	for (unsigned i = 0; i < m->n; i++) {
		struct client *c = &m->c[i];

		if (!c->on || c->open || m->now < c->close_at + c->late)
			continue;
		c->left_at = m->now;
		c->on = false;
	}
}

/* Who is let onto the devices, in the order of the clients. */
static inline void model_enter(struct model *m)
{
	unsigned on[MODEL_DEVICES] = {0};

	for (unsigned i = 0; i < m->n; i++)
		on[m->c[i].device] += m->c[i].on;
	for (unsigned i = 0; i < m->n; i++) {
		struct client *c = &m->c[i];

		if (c->on || !c->open || !c->todo || on[c->device] == m->at_once)
			continue;
		c->on = true;
		on[c->device]++;
	}
	for (unsigned d = 0; d < m->devices; d++)
		m->idle_ns += on[d] ? 0 : MODEL_STEP;
}

static inline void model_finish(struct client *c, uint64_t at)
{
	uint64_t response = at - c->arrived;

	c->jobs++;
	c->responses += response;
	c->worst_response = FM_MAX(c->worst_response, response);
}

/* Work for one step; returns whether a job ended with it, and none follows. */
static inline bool model_serve(struct model *m, struct client *c)
{
	uint64_t end = m->now + MODEL_STEP;

	if (!c->on) {
		if (c->todo)
			c->worst_wait = FM_MAX(c->worst_wait, end - c->waits_since);
		return false;
	}
	c->served += MODEL_STEP;
	c->waits_since = end;
	c->todo -= FM_MIN(c->todo, MODEL_STEP);
	if (c->todo)
		return false;
	model_finish(c, end);
	if (!c->rest) { /* the next job was queued already */
		c->todo = c->job;
		c->arrived = end;
		return false;
	}
	c->on = false;
	c->left_at = end;
	c->next_job = c->period ? FM_MAX(end, c->arrived + c->period) : end + c->rest;
	return true;
}

static inline void model_check(struct model *m)
{
	for (unsigned d = 0; d < m->devices; d++) {
		unsigned open = 0, work = 0;

		for (unsigned i = 0; i < m->n; i++) {
			if (m->c[i].device != d)
				continue;
			work += m->c[i].todo > 0;
			open += m->c[i].open && m->c[i].todo;
		}
		assert_true(open <= m->at_once);
		if (m->conserve_work)
			assert_int_equal(open, FM_MIN(work, m->at_once));
	}
}

static inline void model_step(struct model *m)
{
	bool done[CLIENTS];

	model_arrivals(m);
	if (fm_sched_next(m->s) <= m->now)
		fm_sched_tick(m->s, m->now);
	model_leave_device(m);
	model_check(m);
	model_enter(m);
	for (unsigned i = 0; i < m->n; i++)
		done[i] = model_serve(m, &m->c[i]);
	m->now += MODEL_STEP;
	for (unsigned i = 0; i < m->n; i++)
		if (done[i])
			fm_sched_idle(m->s, m->c[i].e, m->now, m->now);
}

static inline void model_run(struct model *m, uint64_t ns)
{
	uint64_t end = m->now + ns;

	while (m->now < end)
		model_step(m);
}

/* Forget what was measured so far. */
static inline void model_mark(struct model *m)
{
	for (unsigned i = 0; i < m->n; i++) {
		struct client *c = &m->c[i];

		c->served = c->gates = c->jobs = c->responses = 0;
		c->worst_response = c->worst_wait = 0;
		c->waits_since = m->now;
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

#define PARAMS(...)                           \
	((const char *const[]){__VA_ARGS__}), \
		(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))
