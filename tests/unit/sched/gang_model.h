/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices in virtual time, and programs on several of them whose ranks wait for each other: a step
 * counts as progress only where all ranks are on their devices at once, any other is spun away. A
 * device works for one at a time and starts nothing behind a closed gate. No linger.
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
#include <stdio.h>
#include <string.h>

#define STEP     (50 * FM_US)
#define DEVICES  4
#define PROGRAMS 40

struct program;

struct rank {
	struct program *p;
	struct fm_sched_ent *e; /* NULL: it is not on this device */
	bool open, work, on, bell_ready, bell_idle;
	unsigned gates;
};

struct program {
	struct fm_sched_group *g;
	struct rank rank[DEVICES];
	bool apart;                  /* told not to be a gang */
	uint64_t progress, ran, gap; /* ran: when it last made some; gap: the longest without */
};

struct world {
	struct fm_sched *s;
	struct fm_sched_dev *d[DEVICES];
	struct program p[PROGRAMS];
	unsigned n_devices, n;
	uint32_t uid; /* of the programs that come next */
	uint64_t now, spun, idle[DEVICES];
};

static inline void world_gate(void *ctx, void *data, bool open, const char *reason, uint64_t now)
{
	struct rank *r = data;

	assert_non_null(reason);
	r->open = open;
	r->gates++;
}

static inline void world_bells(void *ctx, void *data, bool ready, bool idle)
{
	struct rank *r = data;

	r->bell_ready = ready;
	r->bell_idle = idle;
}

static const struct fm_sched_host world_host = {.gate = world_gate, .bells = world_bells};

static inline void world_init(
	struct world *w, const char *policy, const char *param, unsigned n_devices)
{
	memset(w, 0, sizeof(*w));
	w->now = FM_S;
	w->n_devices = n_devices;
	assert_int_equal(fm_sched_new(&w->s, &world_host, w), 0);
	fm_sched_linger(w->s, 0);
	assert_int_equal(fm_sched_policy(w->s, policy, &param, param ? 1 : 0, w->now, NULL), 0);
	for (unsigned d = 0; d < n_devices; d++) {
		const char key[] = {(char)('A' + d), '\0'};

		assert_int_equal(fm_sched_device_add(w->s, &w->d[d], key), 0);
	}
}

enum { A = 1, B = 2, C = 4, D = 8 }; /* devices, as program_on() takes them */

/* devices: a bit for each. It has no work yet. */
static inline struct program *program_on(struct world *w, unsigned devices)
{
	struct program *p = &w->p[w->n++];

	assert_int_equal(fm_sched_group_add(w->s, &p->g), 0);
	fm_sched_label(p->g, w->uid, "program");
	p->ran = w->now;
	for (unsigned d = 0; d < w->n_devices; d++) {
		struct rank *r = &p->rank[d];

		r->p = p;
		if (devices & 1u << d)
			assert_int_equal(
				fm_sched_ent_add(w->s, &r->e, p->g, w->d[d], r, w->now), 0);
	}
	return p;
}

static inline void hint(struct world *w, struct program *p, enum fm_hint h, int64_t v)
{
	assert_int_equal(fm_sched_hint(w->s, p->g, h, v, w->now), 0);
	if (h == FM_HINT_GANG)
		p->apart = !v;
}

static inline struct program *with_priority(struct world *w, unsigned devices, int64_t priority)
{
	struct program *p = program_on(w, devices);

	hint(w, p, FM_HINT_PRIORITY, priority);
	return p;
}

/* A gang runs wherever it has work, or nowhere. */
static inline void check_whole(const struct world *w)
{
	for (const struct program *p = w->p; p < w->p + w->n; p++) {
		unsigned open = 0, closed = 0;

		for (const struct rank *r = p->rank; r < p->rank + DEVICES; r++) {
			open += r->work && r->open;
			closed += r->work && !r->open;
		}
		assert_true(p->apart || !open || !closed);
	}
}

static inline void set_work(struct world *w, struct program *p, unsigned devices, bool work)
{
	for (unsigned d = 0; d < w->n_devices; d++) {
		struct rank *r = &p->rank[d];

		if (!(devices & 1u << d) || !r->e || r->work == work)
			continue;
		r->work = work;
		if (work)
			fm_sched_ready(w->s, r->e, w->now, w->now);
		else
			fm_sched_idle(w->s, r->e, w->now, w->now);
		check_whole(w);
	}
}

static inline void start(struct world *w, struct program *p)
{
	set_work(w, p, ~0u, true);
}

static inline void stop(struct world *w, struct program *p)
{
	set_work(w, p, ~0u, false);
}

/* What one call may cost, whatever it sets off: looks at devices. */
static inline uint64_t decisions(const struct world *w)
{
	struct fm_sched_stats st;

	fm_sched_get_stats(w->s, &st);
	return st.decisions;
}

static inline void tick(struct world *w)
{
	uint64_t before = decisions(w);

	fm_sched_tick(w->s, w->now);
	assert_true(decisions(w) - before <= 8 * w->n_devices * (w->n_devices + 1));
}

/* One step of each device, for the first whose gate is open. */
static inline void serve(struct world *w)
{
	for (unsigned d = 0; d < w->n_devices; d++) {
		struct rank *on = NULL;

		for (unsigned i = 0; i < w->n; i++) {
			struct rank *r = &w->p[i].rank[d];

			r->on = !on && r->open && r->work;
			if (r->on)
				on = r;
		}
		if (!on)
			w->idle[d] += STEP;
	}
}

static inline void progress(struct world *w)
{
	for (struct program *p = w->p; p < w->p + w->n; p++) {
		unsigned on = 0, work = 0;

		for (const struct rank *r = p->rank; r < p->rank + DEVICES; r++) {
			on += r->on;
			work += r->work;
		}
		if (on && on == work) {
			p->progress += STEP;
			p->gap = FM_MAX(p->gap, w->now - p->ran);
			p->ran = w->now;
		} else if (on && !p->apart) {
			w->spun += STEP;
		}
	}
}

static inline void run(struct world *w, uint64_t ns)
{
	for (uint64_t end = w->now + ns; w->now < end;) {
		if (fm_sched_next(w->s) <= w->now)
			tick(w);
		check_whole(w);
		serve(w);
		progress(w);
		w->now += STEP;
	}
}

static inline bool runs(const struct program *p)
{
	for (const struct rank *r = p->rank; r < p->rank + DEVICES; r++)
		if (r->work && !r->open)
			return false;
	return true;
}

static inline struct fm_ent_info info(const struct world *w, const struct program *p, unsigned d)
{
	struct fm_ent_info i;

	fm_sched_ent_info(p->rank[d].e, w->now, &i);
	return i;
}

/* Percent of ns. */
static inline void assert_share(uint64_t time, uint64_t ns, double want, double tolerance)
{
	double v = 100.0 * (double)time / (double)ns;

	if (v < want - tolerance || v > want + tolerance)
		fail_msg("%.2f %% is not within %.2f of %.2f", v, tolerance, want);
}
