/* SPDX-License-Identifier: Apache-2.0 */
/* A plan of devices and groups, put together by hand, and a digest of what happens. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/util.h"
#include "sim/sim.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* DEVICE() and GROUP() give defaults, and let a test give others. */
#pragma GCC diagnostic ignored "-Woverride-init"

#define ALL_HINTS(id, name, min, max, def, unit) [id] = def,
#define DEVICE(...)                                                                        \
	(struct fm_sim_device)                                                             \
	{                                                                                  \
		.name = "gpu", .count = 1, .slots = 1, .level = 2, .spacing = 500 * FM_US, \
		__VA_ARGS__                                                                \
	}
#define COMMANDS(n, ns) .steps = 1, .step = {{.times = n, .time = {FM_SIM_FIXED, ns, 0}}}
#define GROUP(...)                                                                                \
	(struct fm_sim_group)                                                                     \
	{                                                                                         \
		.name = "g", .count = 1, .places = 1, .stop = FM_NEVER, .queue = 100, .burst = 1, \
		.hints.value = {FM_HINT_MAP(ALL_HINTS)}, __VA_ARGS__                              \
	}
#define ONCE UINT64_C(1) << 50 /* between arrivals: there is no second */

struct world {
	struct fm_sim_device device[4];
	struct fm_sim_group group[8];
	struct fm_sim_plan plan;
	struct fm_sim_result r;
	uint64_t digest, ends[64], runs, stops_at[64];
	unsigned ended, stopped;
};

static inline void mix(struct world *w, uint64_t v)
{
	for (int i = 0; i < 8; i++, v >>= 8)
		w->digest = (w->digest ^ (v & 255)) * UINT64_C(0x100000001b3);
}

static inline void on_event(void *ctx, const struct fm_sim_event *e)
{
	struct world *w = ctx;

	mix(w, e->what);
	mix(w, e->at);
	mix(w, e->ns);
	mix(w, (uint64_t)e->group << 32 | e->instance);
	mix(w, e->device);
	if (e->what == FM_SIM_ENDS && w->ended < 64)
		w->ends[w->ended++] = e->at;
	if (e->what == FM_SIM_STOPS && w->stopped < 64)
		w->stops_at[w->stopped++] = e->at;
	w->runs += e->what == FM_SIM_RUNS;
}

static inline void plan(struct world *w, const char *policy, uint64_t duration)
{
	*w = (struct world){0};
	w->plan = (struct fm_sim_plan){.policy = fm_policy_find(policy),
		.duration = duration,
		.seed = 1,
		.machines = 1,
		.device = w->device,
		.group = w->group};
}

static inline void add(struct world *w, struct fm_sim_group g)
{
	w->group[w->plan.groups++] = g;
}

static inline void run(struct world *w)
{
	const struct fm_sim_watch watch = {on_event, w, ~0u};
	struct fm_err err = {0};

	if (!w->plan.devices) {
		w->device[0] = DEVICE();
		w->plan.devices = 1;
	}
	w->digest = UINT64_C(0xcbf29ce484222325);
	assert_int_equal(fm_sim_result_init(&w->r, &w->plan), 0);
	for (uint32_t i = 0; i < w->plan.machines; i++)
		if (fm_sim_machine(&w->plan, i, &watch, NULL, &w->r, &err))
			fail_msg("%s", err.text);
}

static inline void end(struct world *w)
{
	fm_sim_result_free(&w->r);
}

static inline void device(struct world *w, struct fm_sim_device d)
{
	w->device[w->plan.devices++] = d;
}
