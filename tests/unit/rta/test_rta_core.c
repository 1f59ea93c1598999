/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounds of gcaps against the scheduler that they are to bound: random sets, as the studies have
 * them, run in virtual time under the daemon's core and its fixed-priority. Costs are drawn too,
 * and epsilon is their sum, as a user would reckon it.
 *
 *   test_rta_core               some seconds
 *   test_rta_core SETS [SEED]   prints what came of it
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/util.h"
#include "sim/sim.h"

#define ALL_HINTS(id, name, min, max, def, unit) [id] = def,
#define SETS                                     500
#define TASKS                                    32

struct tally {
	uint64_t sets, jobs, bounds, exceeded, first, near; /* near: nine tenths of the bound */
};

struct world {
	struct fm_rta_random r;
	struct fm_sim_device device[1];
	struct fm_sim_group group[TASKS];
	struct fm_sim_plan plan;
	struct fm_sim_result result;
};

static struct fm_sim_step step(bool cpu, int64_t ns)
{
	return (struct fm_sim_step){
		.cpu = cpu, .times = 1, .time = {FM_SIM_FIXED, (uint64_t)ns, 0}};
}

/* Computes a part of its time before each segment, and one at the end. */
static void add(struct world *w, const struct fm_rta_task *t, bool busy, bool sporadic)
{
	bool best_effort = t->priority == FM_RTA_BEST_EFFORT;
	uint64_t period = (uint64_t)t->period;
	int64_t part = t->cpu_time / (int64_t)(t->segments + 1);
	struct fm_sim_group *g = &w->group[w->plan.groups++];

	*g = (struct fm_sim_group){.name = "task",
		.count = 1,
		.places = 1,
		.stop = FM_NEVER,
		.queue = 100,
		.burst = 1,
		.hints.value = {FM_HINT_MAP(ALL_HINTS)},
		.has_cpu = true,
		.spins = busy,
		.cpu = (uint32_t)t->cpu,
		.cpu_priority = best_effort ? 0 : (uint32_t)t->priority,
		.arrival = FM_SIM_PERIODIC,
		.random_phase = sporadic,
		.time = {sporadic ? FM_SIM_UNIFORM : FM_SIM_FIXED, period, period * 5 / 4}};
	g->hints.value[FM_HINT_PRIORITY] =
		best_effort ? FM_PRIORITY_LOW : FM_PRIORITY_HIGH + t->priority;
	for (size_t s = 0; s < t->segments; s++) {
		g->step[g->steps++] = step(true, part);
		g->step[g->steps++] = step(true, t->segment[s].misc);
		g->step[g->steps++] = step(false, t->segment[s].gpu);
	}
	g->step[g->steps++] = step(true, t->cpu_time - part * (int64_t)t->segments);
}

static void run(struct world *w, const struct fm_rta_set *set, bool busy, bool sporadic)
{
	w->plan.groups = 0;
	for (size_t k = 0; k < set->tasks; k++)
		add(w, &set->task[k], busy, sporadic);
	w->plan.machines = sporadic ? 3 : 1;
	w->plan.duration = 3 * FM_S;
	w->plan.seed++;
	assert_int_equal(fm_sim_result_init(&w->result, &w->plan), 0);
	assert_int_equal(fm_sim_run(&w->plan, 1, NULL, NULL, &w->result, NULL), 0);
}

static void judge(struct world *w, const struct fm_rta_set *set, const struct fm_rta_bound *bound,
	uint64_t seed, struct tally *t)
{
	for (size_t k = 0; k < set->tasks; k++) {
		uint64_t worst = w->result.group[k].response.max;

		t->jobs += w->result.group[k].jobs;
		if (set->task[k].priority == FM_RTA_BEST_EFFORT)
			continue;
		t->bounds++;
		t->near += worst * 10 >= (uint64_t)bound[k].wcrt * 9;
		if (worst > (uint64_t)bound[k].wcrt)
			t->first = t->exceeded++ ? t->first : seed;
	}
	fm_sim_result_free(&w->result);
}

static struct fm_rta_set *draw_set(struct world *w, uint64_t seed)
{
	uint64_t react, flush, swtch;
	struct fm_rta_generator g;
	struct fm_rta_set *set;

	fm_rta_seed(&w->r, seed, 0);
	react = (uint64_t)fm_rta_uniform(&w->r, 0, 400000);
	flush = (uint64_t)fm_rta_uniform(&w->r, 0, 400000);
	swtch = (uint64_t)fm_rta_uniform(&w->r, 0, 200000);
	w->device[0] = (struct fm_sim_device){
		.name = "gpu", .count = 1, .slots = 1, .level = 3, .flush = flush, .swtch = swtch};
	w->plan = (struct fm_sim_plan){.policy = fm_policy_find("fixed-priority"),
		.react = react,
		.seed = seed,
		.device = w->device,
		.devices = 1,
		.group = w->group};
	fm_rta_generator_default(&g);
	g.cpus = (uint32_t)fm_rta_uniform(&w->r, 1, 4);
	g.tasks_per_cpu = (struct fm_rta_range){2, 4};
	g.best_effort = fm_rta_uniform(&w->r, 0, 1) * FM_RTA_ONE / 5;
	g.epsilon = (int64_t)(react + flush + swtch);
	assert_int_equal(fm_rta_generate(&g, &w->r, &set), 0);
	assert_true(set->tasks <= TASKS);
	return set;
}

static void one_set(uint64_t seed, struct tally *t)
{
	struct fm_rta_bound bound[TASKS];
	static struct world w;
	struct fm_rta_set *set = draw_set(&w, seed);
	fm_rta *rta;
	bool ok;

	assert_int_equal(fm_rta_new(&rta, set, NULL), 0);
	for (int busy = 0; busy < 2; busy++) {
		assert_int_equal(
			fm_rta_analyze(
				rta, busy ? FM_RTA_GCAPS_BUSY : FM_RTA_GCAPS_SUSPEND, bound, &ok),
			0);
		t->sets += ok;
		for (int sporadic = 0; ok && sporadic < 2; sporadic++) {
			run(&w, set, busy, sporadic);
			judge(&w, set, bound, seed, t);
		}
	}
	fm_rta_free(rta);
	fm_rta_set_free(set);
}

static struct tally try_sets(uint64_t seed, uint64_t n)
{
	struct tally t = {0};

	for (uint64_t i = 0; i < n; i++)
		one_set(seed + i, &t);
	return t;
}

static void the_core_keeps_bounds(void **state)
{
	struct tally t = try_sets(1, SETS);

	if (t.exceeded)
		fail_msg("set %llu", (unsigned long long)t.first);
	assert_true(t.sets > SETS / 2);
	assert_true(t.near > t.bounds / 10);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(the_core_keeps_bounds)};
	struct tally t;

	if (argc != 2 && argc != 3)
		return cmocka_run_group_tests(tests, NULL, NULL);
	t = try_sets(argc == 3 ? strtoull(argv[2], NULL, 10) : 1, strtoull(argv[1], NULL, 10));
	printf("gcaps, the core: %llu sets, %llu jobs, %llu bounds, %llu reached to nine tenths, "
	       "%llu exceeded",
		(unsigned long long)t.sets, (unsigned long long)t.jobs,
		(unsigned long long)t.bounds, (unsigned long long)t.near,
		(unsigned long long)t.exceeded);
	if (t.exceeded)
		printf("; set %llu", (unsigned long long)t.first);
	putchar('\n');
	return t.exceeded != 0;
}
