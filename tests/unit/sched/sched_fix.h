/* SPDX-License-Identifier: Apache-2.0 */
/* A core with one device and an owner that keeps books: what test_sched.c plays with by hand. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "sched/sched.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define T0 (10 * FM_S)

struct ent {
	struct fm_sched_group *g;
	struct fm_sched_ent *e;
	bool open, told, bell_ready, bell_idle, report_in_bell;
	bool stalled;
	uint64_t since, usage;
	unsigned gates, bells;
};

struct fix {
	struct fm_sched *s;
	struct fm_sched_dev *d;
	char log[256]; /* gates in order: "-a" closed, "+b" opened */
	struct ent ent[26];
	unsigned n;
};

static inline void on_gate(void *ctx, void *data, bool open, const char *reason, uint64_t now)
{
	struct fix *f = ctx;
	struct ent *e = data;
	size_t len = strlen(f->log);

	assert_non_null(reason);
	assert_true(!e->told || e->open != open);
	e->told = true;
	e->open = open;
	e->gates++;
	snprintf(f->log + len, sizeof(f->log) - len, "%c%c", open ? '+' : '-',
		(char)('a' + (e - f->ent)));
}

static inline bool on_stalled(void *ctx, void *data, uint64_t *since)
{
	struct ent *e = data;

	assert_false(e->open);
	*since = e->since;
	return e->stalled;
}

static inline void on_bells(void *ctx, void *data, bool ready, bool idle)
{
	struct fix *f = ctx;
	struct ent *e = data;

	assert_true(e->bell_ready != ready || e->bell_idle != idle);
	e->bell_ready = ready;
	e->bell_idle = idle;
	e->bells++;
	if (e->report_in_bell && ready) {
		e->report_in_bell = false;
		fm_sched_ready(f->s, e->e, T0, T0);
	}
}

static inline uint64_t on_usage(void *ctx, void *data, uint64_t now)
{
	return ((struct ent *)data)->usage;
}

static const struct fm_sched_host host = {
	.gate = on_gate, .stalled = on_stalled, .bells = on_bells};
static const struct fm_sched_host host_usage = {
	.gate = on_gate, .stalled = on_stalled, .bells = on_bells, .usage = on_usage};

static inline void policy(struct fix *f, const char *name, uint64_t now)
{
	assert_int_equal(fm_sched_policy(f->s, name, NULL, 0, now, NULL), 0);
}

static inline void setup(struct fix *f, const struct fm_sched_host *h, const char *name)
{
	memset(f, 0, sizeof(*f));
	assert_int_equal(fm_sched_new(&f->s, h, f), 0);
	if (name)
		policy(f, name, T0);
	assert_int_equal(fm_sched_device_add(f->s, &f->d, "dev"), 0);
}

static inline struct ent *add(struct fix *f, int64_t priority)
{
	struct ent *e = &f->ent[f->n++];

	e->stalled = true; /* nothing in flight */
	assert_int_equal(fm_sched_group_add(f->s, &e->g), 0);
	assert_int_equal(fm_sched_hint(f->s, e->g, FM_HINT_PRIORITY, priority, T0), 0);
	assert_int_equal(fm_sched_ent_add(f->s, &e->e, e->g, f->d, e, T0), 0);
	assert_true(e->told);
	return e;
}

static inline void ready(struct fix *f, struct ent *e, uint64_t t)
{
	fm_sched_ready(f->s, e->e, t, t);
}

static inline void idle(struct fix *f, struct ent *e, uint64_t t)
{
	fm_sched_idle(f->s, e->e, t, t);
}

static inline struct fm_ent_info info(struct ent *e, uint64_t t)
{
	struct fm_ent_info i;

	fm_sched_ent_info(e->e, t, &i);
	return i;
}
