/* SPDX-License-Identifier: Apache-2.0 */
/* Processors in the simulation: who runs on them and until when, to the nanosecond. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/util.h"
#include "sim/sim.h"

/* GROUP() gives defaults, and lets a test give others. */
#pragma GCC diagnostic ignored "-Woverride-init"

#define ALL_HINTS(id, name, min, max, def, unit) [id] = def,
#define ONCE                                     (UINT64_C(1) << 50) /* between arrivals: there is no second */
#define CPU(ms)                                                                  \
	{                                                                        \
		.times = 1, .cpu = true, .time = { FM_SIM_FIXED, (ms)*FM_MS, 0 } \
	}
#define COMMAND(ms)                                                 \
	{                                                           \
		.times = 1, .time = { FM_SIM_FIXED, (ms)*FM_MS, 0 } \
	}
#define GROUP(...)                                                                                \
	(struct fm_sim_group)                                                                     \
	{                                                                                         \
		.name = "g", .count = 1, .places = 1, .stop = FM_NEVER, .queue = 100, .burst = 1, \
		.arrival = FM_SIM_PERIODIC, .time.a = ONCE, .has_cpu = true,                      \
		.hints.value = {FM_HINT_MAP(ALL_HINTS)}, __VA_ARGS__                              \
	}

struct world {
	struct fm_sim_device device[1];
	struct fm_sim_group group[4];
	struct fm_sim_plan plan;
	struct fm_sim_result r;
	uint64_t end[4]; /* of each group's last job */
};

static void on_event(void *ctx, const struct fm_sim_event *e)
{
	struct world *w = ctx;

	if (e->what == FM_SIM_ENDS)
		w->end[e->group] = e->at;
}

static void plan(struct world *w)
{
	*w = (struct world){.device = {{.name = "gpu", .count = 1, .slots = 1, .level = 3}}};
	w->plan = (struct fm_sim_plan){.policy = fm_policy_find("fixed-priority"),
		.duration = FM_S,
		.seed = 1,
		.machines = 1,
		.device = w->device,
		.devices = 1,
		.group = w->group};
}

static void add(struct world *w, struct fm_sim_group g)
{
	w->group[w->plan.groups++] = g;
}

static void run(struct world *w)
{
	const struct fm_sim_watch watch = {on_event, w, FM_SIM_BIT(FM_SIM_ENDS)};

	assert_int_equal(fm_sim_result_init(&w->r, &w->plan), 0);
	assert_int_equal(fm_sim_machine(&w->plan, 0, &watch, NULL, &w->r, NULL), 0);
	fm_sim_result_free(&w->r);
}

static void ends(const struct world *w, uint64_t a, uint64_t b, uint64_t c)
{
	assert_int_equal(w->end[0], a * FM_MS);
	assert_int_equal(w->end[1], b * FM_MS);
	assert_int_equal(w->end[2], c * FM_MS);
}

static void the_urgent_come_first(void **state)
{
	struct world w;

	plan(&w);
	add(&w, GROUP(.steps = 1, .step = {CPU(10)}, .cpu_priority = 1));
	add(&w, GROUP(.steps = 1, .step = {CPU(3)}, .cpu_priority = 3, .phase = 4 * FM_MS));
	add(&w, GROUP(.steps = 1, .step = {CPU(5)}, .cpu_priority = 2, .phase = 5 * FM_MS));
	run(&w);
	ends(&w, 18, 7, 12);
}

static void equals_go_as_they_came(void **state)
{
	struct world w;

	plan(&w);
	add(&w, GROUP(.steps = 1, .step = {CPU(10)}, .phase = FM_MS));
	add(&w, GROUP(.steps = 1, .step = {CPU(3)}));
	add(&w, GROUP(.steps = 1, .step = {CPU(2)}, .phase = 2 * FM_MS));
	add(&w, GROUP(.steps = 1, .step = {CPU(1)}, .cpu_priority = 9, .phase = 5 * FM_MS));
	run(&w); /* the one that was interrupted keeps its place */
	ends(&w, 14, 3, 16);
}

/* Jobs without a pause between them line up again: nobody has the processor for good. */
static void the_next_job_lines_up(void **state)
{
	struct world w;

	plan(&w);
	add(&w, GROUP(.steps = 1, .step = {CPU(4)}, .arrival = FM_SIM_CLOSED, .time.a = 0));
	add(&w, GROUP(.steps = 1, .step = {CPU(4)}, .arrival = FM_SIM_CLOSED, .time.a = 0));
	run(&w);
	assert_int_equal(w.end[0], 996 * FM_MS);
	assert_int_equal(w.end[1], 992 * FM_MS);
}

static void processors_are_apart(void **state)
{
	struct world w;

	plan(&w);
	add(&w, GROUP(.steps = 1, .step = {CPU(10)}, .cpu = 7));
	add(&w, GROUP(.steps = 1, .step = {CPU(3)}, .cpu = 2, .cpu_priority = 5));
	add(&w, GROUP(.steps = 1, .step = {COMMAND(5)}, .has_cpu = false));
	run(&w);
	ends(&w, 10, 3, 5);
}

/* A job at the device leaves the processor, or spins there; its command does not care. */
static void who_waits_leaves_or_spins(void **state)
{
	for (int spins = 0; spins < 2; spins++) {
		struct world w;

		plan(&w);
		add(&w, GROUP(.steps = 3, .step = {CPU(2), COMMAND(6), CPU(1)}, .spins = spins,
				.cpu_priority = 2));
		add(&w, GROUP(.steps = 1, .step = {CPU(5)}, .cpu_priority = 1));
		add(&w, GROUP(.steps = 1, .step = {CPU(3)}, .cpu_priority = 3, .phase = 7 * FM_MS));
		run(&w);
		if (spins) /* the command ends at 8, while the third one runs */
			ends(&w, 11, 16, 10);
		else
			ends(&w, 11, 7, 10);
	}
}

/* What ends at the moment in which somebody more urgent comes has ended. */
static void an_end_is_an_end(void **state)
{
	struct world w;

	plan(&w);
	add(&w, GROUP(.steps = 2, .step = {CPU(5), COMMAND(4)}, .cpu_priority = 1));
	add(&w, GROUP(.steps = 1, .step = {CPU(3)}, .cpu_priority = 2, .phase = 5 * FM_MS));
	add(&w, GROUP(.steps = 1, .step = {CPU(1)}));
	run(&w);
	ends(&w, 9, 8, 9);
}

static void who_leaves_makes_room(void **state)
{
	struct world w;

	plan(&w);
	add(&w, GROUP(.steps = 1, .step = {CPU(50)}, .cpu_priority = 9, .stop = 7 * FM_MS));
	add(&w, GROUP(.steps = 1, .step = {CPU(5)}));
	run(&w);
	ends(&w, 0, 12, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_urgent_come_first),
		cmocka_unit_test(equals_go_as_they_came),
		cmocka_unit_test(the_next_job_lines_up),
		cmocka_unit_test(processors_are_apart),
		cmocka_unit_test(who_waits_leaves_or_spins),
		cmocka_unit_test(an_end_is_an_end),
		cmocka_unit_test(who_leaves_makes_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
