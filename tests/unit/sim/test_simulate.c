/* SPDX-License-Identifier: Apache-2.0 */
/* Machines in virtual time: what a level, a cost and an arrival mean, to the nanosecond. */
#include "simulate_world.h"

/* A job of a hundred commands from 0 on, and one that preempts it from 10 ms on. */
static void two(struct world *w, struct fm_sim_device d, uint64_t command)
{
	struct fm_sim_group low =
		GROUP(.arrival = FM_SIM_PERIODIC, .time.a = ONCE, COMMANDS(100, command));
	struct fm_sim_group high = GROUP(.arrival = FM_SIM_PERIODIC, .time.a = ONCE,
		.phase = 10 * FM_MS + 1000, COMMANDS(1, FM_MS));

	plan(w, "fixed-priority", FM_S);
	device(w, d);
	high.hints.value[FM_HINT_PRIORITY] = FM_PRIORITY_HIGH;
	add(w, low);
	add(w, high);
	run(w);
	assert_int_equal(w->r.group[0].jobs, 1);
	assert_int_equal(w->r.group[1].jobs, 1);
	assert_int_equal(w->r.group[0].served, 100 * command);
	assert_int_equal(w->r.device[0].served, 100 * command + FM_MS);
	assert_int_equal(w->r.group[0].preemptions, 1);
}

static void level_1_ends_what_the_driver_has(void **state)
{
	struct world w;

	/* Commands end at 200 us and so on; the gate closes at 10001 us; the window is over at
	 * 11001 us, within the command that ends at 11200. */
	two(&w, DEVICE(.level = 1, .window = FM_MS), 200 * FM_US);
	assert_int_equal(w.stops_at[0], 11200 * FM_US);
	assert_int_equal(w.r.group[1].response.max, 11200 * FM_US + FM_MS - 10001 * FM_US);
	assert_int_equal(w.r.group[0].response.max, 21 * FM_MS);
	assert_int_equal(w.r.device[0].stop.max, 1199 * FM_US);
	end(&w);
}

static void level_2_ends_the_segment(void **state)
{
	struct world w;

	/* As many commands as fit between two gates: at 10000, 10400. */
	two(&w, DEVICE(.level = 2, .spacing = 500 * FM_US), 200 * FM_US);
	assert_int_equal(w.stops_at[0], 10400 * FM_US);
	end(&w);
	/* The gate after the next is open already. */
	two(&w, DEVICE(.level = 2, .lead = 1, .spacing = 600 * FM_US), 200 * FM_US);
	assert_int_equal(w.stops_at[0], 10800 * FM_US);
	end(&w);
	/* A command that is longer than the spacing is a segment. */
	two(&w, DEVICE(.level = 2, .spacing = 500 * FM_US), 7 * FM_MS);
	assert_int_equal(w.stops_at[0], 14 * FM_MS);
	end(&w);
}

static void level_3_ends_in_the_middle(void **state)
{
	struct world w;

	two(&w, DEVICE(.level = 3, .flush = 40 * FM_US), 7 * FM_MS);
	assert_int_equal(w.stops_at[0], 10041 * FM_US);
	assert_int_equal(w.r.device[0].overhead, 40 * FM_US);
	assert_int_equal(w.r.group[0].response.max, 701 * FM_MS + 40 * FM_US);
	end(&w);
}

static void costs_are_paid(void **state)
{
	struct world w;

	/* A hundred commands and one, three switches, and a gate after each third command. */
	two(&w,
		DEVICE(.level = 2, .spacing = 620 * FM_US, .launch = 3 * FM_US, .gate = 5 * FM_US,
			.swtch = 70 * FM_US),
		200 * FM_US);
	assert_int_equal(w.r.device[0].switches, 3);
	assert_true(w.r.device[0].overhead >= 101 * 3 * FM_US + 3 * 70 * FM_US + 30 * 5 * FM_US);
	assert_true(w.r.device[0].overhead <= 101 * 3 * FM_US + 3 * 70 * FM_US + 33 * 5 * FM_US);
	assert_int_equal(w.r.group[0].overhead + w.r.group[1].overhead, w.r.device[0].overhead);
	end(&w);
}

/* Turns of 3 ms among two who compute always, in the middle of commands of 5 ms, and a third who
 * comes with two of 2 ms: it waits for the rest of one turn, has one, waits for two, and ends. */
static void a_driver_has_slices(void **state)
{
	struct world w;

	plan(&w, "fifo", 101 * FM_MS);
	device(&w, DEVICE(.slice.a = 3 * FM_MS, .swtch = 10));
	add(&w, GROUP(.count = 2, COMMANDS(100, 5 * FM_MS)));
	add(&w, GROUP(.arrival = FM_SIM_PERIODIC, .time.a = ONCE, .phase = 19 * FM_MS,
			COMMANDS(2, 2 * FM_MS)));
	run(&w);
	assert_in_range(w.stops_at[0], 3 * FM_MS + 10, 3 * FM_MS + 10);
	assert_in_range(w.stops_at[5], 18 * FM_MS + 60, 18 * FM_MS + 60);
	/* 19 ms: within the turn that ends at 21; then its own, one of each other, and one of 1 ms.
	 */
	assert_int_equal(w.r.group[1].jobs, 1);
	assert_in_range(w.r.group[1].response.max, 15 * FM_MS, 15 * FM_MS + 200);
	assert_in_range(w.r.group[0].share_min, 460000, 500000);
	assert_int_equal(w.r.device[0].served + w.r.device[0].overhead, 101 * FM_MS);
	end(&w);
	/* Alone, a turn after the other without a change; and where one at a time may run there are
	 * none. */
	plan(&w, "round-robin", 100 * FM_MS);
	device(&w, DEVICE(.slice.a = FM_MS, .level = 3));
	add(&w, GROUP(COMMANDS(100, 5 * FM_MS)));
	add(&w, GROUP(COMMANDS(100, 5 * FM_MS)));
	run(&w);
	assert_in_range(w.r.device[0].switches, 20, 21);
	end(&w);
}

/* Who is stopped goes on beside the newcomer until it has come to rest. */
static void a_stop_takes_turns(void **state)
{
	struct world w;

	/* Its turn ends at 10.5 ms, with its command; it has one more, after the newcomer's turn.
	 */
	two(&w, DEVICE(.lead = 1, .slice.a = 700 * FM_US), 500 * FM_US);
	assert_int_equal(w.stops_at[0], 10500 * FM_US);
	assert_int_equal(w.r.device[0].stop.max, 1699 * FM_US);
	assert_int_equal(w.r.group[1].response.max, 1999 * FM_US);
	end(&w);
	/* The newcomer has the first turn; then there are 499 us left of the other's command. */
	two(&w, DEVICE(.slice.a = 700 * FM_US, .fair = true), 500 * FM_US);
	assert_int_equal(w.stops_at[0], 10001 * FM_US);
	assert_int_equal(w.stops_at[1], 10701 * FM_US);
	assert_int_equal(w.r.device[0].stop.max, 1199 * FM_US);
	assert_int_equal(w.r.group[1].response.max, 1499 * FM_US);
	end(&w);
	/* At level 3 nothing of it is left. */
	two(&w, DEVICE(.level = 3, .slice.a = 700 * FM_US, .fair = true), 2 * FM_MS);
	assert_int_equal(w.r.group[1].response.max, FM_MS);
	end(&w);
}

/* Of three who have had as much, a fourth is the last to be served, and then has as much as they.
 */
static void turns_are_fair(void **state)
{
	struct world w;

	plan(&w, "fifo", 100 * FM_MS);
	device(&w, DEVICE(.slice = {FM_SIM_UNIFORM, FM_MS, 3 * FM_MS}, .fair = true));
	add(&w, GROUP(.count = 3, COMMANDS(1000, FM_MS)));
	add(&w, GROUP(.start = 40 * FM_MS, COMMANDS(1000, FM_MS)));
	run(&w);
	assert_in_range(w.r.group[1].served, 13 * FM_MS, 17 * FM_MS);
	assert_in_range(w.r.group[0].share_min, 260000, 300000);
	assert_in_range(w.r.group[0].share_max, 260000, 310000);
	assert_int_equal(w.r.device[0].served, 100 * FM_MS);
	end(&w);
	/* Who comes, and has had less than who is there, has it at once: not so in order. */
	for (unsigned fair = 0; fair < 2; fair++) {
		plan(&w, "fifo", 100 * FM_MS);
		device(&w, DEVICE(.slice.a = 5 * FM_MS, .fair = fair));
		add(&w, GROUP(COMMANDS(1000, FM_MS)));
		add(&w, GROUP(.arrival = FM_SIM_PERIODIC, .time.a = ONCE, .phase = 12 * FM_MS + 1,
				COMMANDS(2, FM_MS)));
		run(&w);
		assert_int_equal(w.r.group[1].response.max, fair ? 2 * FM_MS : 5 * FM_MS - 1);
		end(&w);
	}
}

/* The linger of who pauses runs out at 2.1 ms; 30 us later it has come back, and keeps its turn if
 * nobody has looked. */
static void a_core_that_looks_late_hears_first(void **state)
{
	struct world w;

	for (unsigned late = 0; late < 2; late++) {
		plan(&w, "round-robin", 14 * FM_MS);
		w.plan.linger = 100 * FM_US;
		w.plan.late = late * 50 * FM_US;
		device(&w, DEVICE(.level = 3));
		add(&w, GROUP(.steps = 2,
				.step = {{.times = 1, .time.a = 2 * FM_MS},
					{.pause = true, .times = 1, .time.a = 130 * FM_US}}));
		add(&w, GROUP(.start = FM_MS, COMMANDS(1, 2 * FM_MS)));
		run(&w);
		assert_int_equal(w.ends[0], 2130 * FM_US);
		assert_int_equal(w.ends[1], late ? 4260 * FM_US : 4100 * FM_US);
		end(&w);
	}
}

static void who_stands_at_a_gate_hears_late_of_it(void **state)
{
	struct world w;

	/* The high one is never stopped; the other goes on 50 us after it: 10.4 to 11.45. */
	two(&w, DEVICE(.level = 2, .spacing = 500 * FM_US, .open = 50 * FM_US), 200 * FM_US);
	assert_int_equal(w.r.group[1].response.max, FM_MS + 399 * FM_US);
	assert_int_equal(w.r.group[0].response.max, 21 * FM_MS + 50 * FM_US);
	end(&w);
}

/* An input of 10 us, a segment by itself: behind it an open gate is heard of; what waited at a
 * closed one comes with it. */
static void jobs_begin_with_an_input(void **state)
{
	struct fm_sim_group high = GROUP(.arrival = FM_SIM_PERIODIC, .time.a = ONCE,
				    COMMANDS(1, 5 * FM_MS)),
			    low = GROUP(.arrival = FM_SIM_PERIODIC, .time.a = ONCE,
				    .input = 10 * FM_US, COMMANDS(2, 100 * FM_US));
	const struct fm_sim_record record = {.length = 310 * FM_US, .commands = 4};
	struct world w;

	for (uint32_t level = 2; level <= 3; level++) {
		plan(&w, "fifo", FM_S);
		device(&w, DEVICE(.level = level, .open = 50 * FM_US));
		add(&w, low);
		run(&w);
		assert_int_equal(w.ends[0], level == 2 ? 260 * FM_US : 210 * FM_US);
		assert_int_equal(w.r.device[0].served, 210 * FM_US);
		end(&w);
	}
	plan(&w, "fixed-priority", FM_S);
	device(&w, DEVICE(.open = 50 * FM_US));
	high.hints.value[FM_HINT_PRIORITY] = FM_PRIORITY_HIGH;
	low.phase = FM_MS;
	add(&w, high);
	add(&w, low);
	run(&w);
	assert_int_equal(w.ends[1], 5260 * FM_US);
	end(&w);
	/* It is one of the commands of a recorded job, within its length. */
	plan(&w, "fifo", FM_S);
	device(&w, DEVICE());
	add(&w, GROUP(.arrival = FM_SIM_TRACE, .record = &record, .records = 1, .input = 10 * FM_US,
			COMMANDS(1, FM_MS)));
	run(&w);
	assert_int_equal(w.ends[0], 310 * FM_US);
	assert_int_equal(w.r.device[0].served, 310 * FM_US);
	end(&w);
}

static void slots_work_side_by_side(void **state)
{
	struct world w;

	plan(&w, "fifo", FM_S);
	device(&w, DEVICE(.slots = 2));
	add(&w, GROUP(.count = 3, COMMANDS(1, FM_MS)));
	run(&w);
	assert_int_equal(w.r.device[0].time, 2 * FM_S);
	assert_in_range(w.r.device[0].served, 2 * FM_S - 3 * FM_MS, 2 * FM_S);
	assert_in_range(w.r.group[0].share_min, 663000, 667000);
	assert_in_range(w.r.group[0].share_max, 666000, 670000);
	end(&w);
}

static void arrivals_come_when_they_should(void **state)
{
	static const struct fm_sim_record record[] = {
		{.at = FM_MS}, {.at = FM_MS, .length = 5 * FM_MS}, {.at = 20 * FM_MS}};
	static const uint64_t ends[] = {3, 8, 22};
	struct world w;

	plan(&w, "fixed-priority", FM_S);
	add(&w, GROUP(.arrival = FM_SIM_TRACE, .record = record, .records = 3, COMMANDS(2, FM_MS)));
	run(&w);
	assert_int_equal(w.ended, 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(w.ends[i], ends[i] * FM_MS);
	end(&w);

	plan(&w, "fixed-priority", 100 * FM_MS);
	add(&w, GROUP(.arrival = FM_SIM_CLOSED, .time.a = 3 * FM_MS, .phase = FM_MS,
			COMMANDS(2, FM_MS)));
	run(&w);
	assert_int_equal(w.r.group[0].jobs, 20);
	assert_int_equal(w.ends[1], 8 * FM_MS);
	end(&w);

	/* Three at once, room for two; five come while the first runs. */
	plan(&w, "fixed-priority", 100 * FM_MS);
	add(&w, GROUP(.arrival = FM_SIM_BURSTS, .burst = 5, .queue = 2, .time.a = 50 * FM_MS,
			.deadline = 3 * FM_MS / 2, COMMANDS(1, FM_MS)));
	run(&w);
	assert_int_equal(w.r.group[0].arrivals, 10);
	assert_int_equal(w.r.group[0].dropped, 6);
	assert_int_equal(w.r.group[0].jobs, 4);
	assert_int_equal(w.r.group[0].late, 2);
	end(&w);
}

static void followers_wait_for_all(void **state)
{
	struct world w;

	plan(&w, "fixed-priority", 100 * FM_MS);
	add(&w, GROUP(.arrival = FM_SIM_PERIODIC, .time.a = 20 * FM_MS, COMMANDS(1, FM_MS)));
	add(&w, GROUP(.arrival = FM_SIM_PERIODIC, .time.a = 40 * FM_MS, .phase = 30 * FM_MS,
			COMMANDS(1, FM_MS)));
	add(&w, GROUP(.arrival = FM_SIM_AFTER, .before = {0, 1}, .befores = 2,
			COMMANDS(1, 2 * FM_MS)));
	run(&w);
	assert_int_equal(w.r.group[0].jobs, 5);
	assert_int_equal(w.r.group[1].jobs, 2);
	assert_int_equal(w.r.group[2].jobs, 2);
	assert_int_equal(w.r.group[2].response.max, 2 * FM_MS);
	end(&w);
}

/* Dealt out to commands, not to pauses; at random once for each job. */
static void jobs_take_longer(void **state)
{
	struct world w;

	plan(&w, "fifo", 10 * FM_S);
	add(&w, GROUP(.arrival = FM_SIM_PERIODIC, .time.a = 100 * FM_MS, .queue = 10, .steps = 2,
			.step = {{.times = 1, .pause = true, .time.a = FM_MS},
				{.times = 10, .time.a = FM_MS}},
			.extra.a = 5 * FM_MS));
	run(&w);
	assert_int_equal(w.r.group[0].jobs, 100);
	assert_int_equal(w.r.group[0].response.max, 16 * FM_MS);
	assert_int_equal(w.r.group[0].served, 100 * 15 * FM_MS);
	end(&w);
	plan(&w, "fifo", 1000 * FM_S);
	add(&w, GROUP(.arrival = FM_SIM_PERIODIC, .time.a = 100 * FM_MS, .queue = 10,
			COMMANDS(10, FM_MS), .extra = {FM_SIM_UNIFORM, 0, 20 * FM_MS}));
	run(&w);
	assert_in_range(w.r.group[0].response.max, 295 * FM_MS / 10, 30 * FM_MS);
	assert_in_range(w.r.group[0].response.sum / 10000, 198 * FM_MS / 10, 202 * FM_MS / 10);
	end(&w);
}

static void pauses_leave_the_device(void **state)
{
	struct world w;

	plan(&w, "fixed-priority", FM_S);
	add(&w, GROUP(.arrival = FM_SIM_PERIODIC, .time.a = 100 * FM_MS, .steps = 3,
			.step = {{.times = 1, .time.a = FM_MS},
				{.pause = true, .times = 2, .time.a = 4 * FM_MS},
				{.times = 1, .time.a = FM_MS}}));
	run(&w);
	assert_int_equal(w.r.group[0].response.min, 10 * FM_MS);
	assert_int_equal(w.r.group[0].response.max, 10 * FM_MS);
	assert_int_equal(w.r.group[0].served, 20 * FM_MS);
	assert_int_equal(w.runs, 20);
	end(&w);
}

static void who_leaves_is_gone(void **state)
{
	struct world w;

	plan(&w, "round-robin", FM_S);
	add(&w, GROUP(.stop = 600 * FM_MS, COMMANDS(1, FM_MS)));
	add(&w, GROUP(.start = 200 * FM_MS, COMMANDS(1, FM_MS)));
	run(&w);
	/* 200 ms alone, 400 ms together, 400 ms alone. */
	assert_in_range(w.r.group[0].served, 395 * FM_MS, 405 * FM_MS);
	assert_in_range(w.r.group[1].served, 595 * FM_MS, 605 * FM_MS);
	assert_int_equal(w.r.group[0].present, 600 * FM_MS);
	assert_int_equal(w.r.group[1].present, 800 * FM_MS);
	assert_in_range(w.r.device[0].served, 999 * FM_MS, FM_S);
	end(&w);
}

static void gangs_run_everywhere_or_nowhere(void **state)
{
	struct world w;

	plan(&w, "fixed-priority", FM_S);
	device(&w, DEVICE(.count = 2));
	add(&w, GROUP(.everywhere = true, .arrival = FM_SIM_PERIODIC, .time.a = 50 * FM_MS,
			COMMANDS(10, FM_MS)));
	add(&w, GROUP(.arrival = FM_SIM_PERIODIC, .time.a = 100 * FM_MS, .phase = 5 * FM_MS,
			COMMANDS(20, FM_MS)));
	w.group[1].hints.value[FM_HINT_PRIORITY] = FM_PRIORITY_HIGH;
	run(&w);
	assert_int_equal(w.r.group[0].jobs, 20);
	/* Every other job is stopped on both, for the 20 ms that somebody has one of them. */
	assert_in_range(w.r.group[0].response.max, 29 * FM_MS, 31 * FM_MS);
	assert_int_equal(w.r.group[0].served, 2 * 20 * 10 * FM_MS);
	end(&w);
}

static void the_warm_up_does_not_count(void **state)
{
	struct world w;

	plan(&w, "round-robin", FM_S);
	w.plan.warmup = 500 * FM_MS;
	add(&w, GROUP(.stop = 400 * FM_MS, COMMANDS(1, FM_MS)));
	add(&w, GROUP(.count = 2, COMMANDS(1, FM_MS)));
	run(&w);
	assert_int_equal(w.r.group[0].jobs, 0);
	assert_int_equal(w.r.group[0].served, 0);
	assert_int_equal(w.r.group[1].served, 500 * FM_MS);
	assert_int_equal(w.r.device[0].time, 500 * FM_MS);
	assert_int_equal(w.r.device[0].served, 500 * FM_MS);
	end(&w);
}

/* The core hears late, and the programs wait so much longer. */
static void the_core_reacts_late(void **state)
{
	struct world w;

	plan(&w, "fixed-priority", FM_S);
	w.plan.react = 50 * FM_US;
	add(&w, GROUP(.arrival = FM_SIM_PERIODIC, .time.a = 10 * FM_MS, COMMANDS(1, FM_MS)));
	add(&w, GROUP(.phase = FM_MS / 2, COMMANDS(1, 100 * FM_US)));
	w.group[0].hints.value[FM_HINT_PRIORITY] = FM_PRIORITY_LOW;
	w.group[1].stop = 5 * FM_MS;
	run(&w);
	assert_int_equal(w.stops_at[0], FM_MS);
	assert_in_range(w.r.group[0].response.max, FM_MS, 5500 * FM_US);
	end(&w);
}

/* Poisson arrivals at one server, exponential lengths: the mean response is 1 / (mu - lambda). */
static void queueing_theory_holds(void **state)
{
	struct world w;
	uint64_t mean;

	plan(&w, "fifo", 2000 * FM_S);
	w.plan.warmup = FM_S;
	add(&w, GROUP(.arrival = FM_SIM_PERIODIC, .time = {FM_SIM_EXP, 10 * FM_MS, 0},
			.random_phase = true, .queue = 1000000, .steps = 1,
			.step = {{.times = 1, .time = {FM_SIM_EXP, 5 * FM_MS, 0}}}));
	run(&w);
	mean = w.r.group[0].response.sum / w.r.group[0].response.count;
	assert_in_range(mean, 9700 * FM_US, 10300 * FM_US);
	assert_in_range(w.r.device[0].served, 990 * FM_S, 1010 * FM_S);
	end(&w);
}

#define PART (UINT64_C(1) << 32)

/* Of what was measured: a half is from 0 to 400 us, 0.4 from there to 1 ms, the rest to 11 ms. */
static struct fm_sim_points measured_points = {
	4, {{0, 0}, {PART / 2, 400 * FM_US}, {PART / 10 * 9, FM_MS}, {PART, 11 * FM_MS}}};
static const struct fm_sim_dist measured = {.shape = FM_SIM_MEASURED, .points = &measured_points};

static void draws_have_their_mean(void **state)
{
	const struct fm_sim_dist known[] = {
		{FM_SIM_FIXED, 1000000, 0, NULL},
		{FM_SIM_UNIFORM, 500000, 1500000, NULL},
		{FM_SIM_EXP, 1000000, 0, NULL},
		{FM_SIM_NORMAL, 1000000, 200000, NULL},
		{FM_SIM_PARETO, 600000, 2500, NULL},
	};
	struct fm_rta_random r;

	for (size_t k = 0; k < FM_ARRAY_LEN(known); k++) {
		uint64_t sum = 0;

		fm_rta_seed(&r, 7, k);
		for (unsigned i = 0; i < 400000; i++)
			sum += fm_sim_draw(&known[k], &r);
		assert_in_range(sum / 400000, 990000, 1010000);
	}
}

static void draws_are_as_measured(void **state)
{
	unsigned half = 0, most = 0, n = 400000;
	struct fm_rta_random r;
	uint64_t sum = 0, v;

	fm_rta_seed(&r, 13, 0);
	for (unsigned i = 0; i < n; i++) {
		v = fm_sim_draw(&measured, &r);
		assert_in_range(v, 0, 11 * FM_MS);
		half += v < 400 * FM_US;
		most += v >= FM_MS;
		sum += v;
	}
	assert_in_range(half, n / 2 - n / 100, n / 2 + n / 100);
	assert_in_range(most, n / 10 - n / 100, n / 10 + n / 100);
	assert_in_range(sum / n, 970 * FM_US, 990 * FM_US); /* 100 + 280 + 600 us */
}

/* The same numbers on every machine, whatever its compiler and its C library. */
static void draws_are_known(void **state)
{
	const struct fm_sim_dist known[] = {
		{FM_SIM_FIXED, 1000000, 0, NULL},
		{FM_SIM_UNIFORM, 500000, 1500000, NULL},
		{FM_SIM_EXP, 1000000, 0, NULL},
		{FM_SIM_NORMAL, 1000000, 900000, NULL},
		{FM_SIM_PARETO, 600000, 1001, NULL},
		measured,
	};
	struct world w = {.digest = UINT64_C(0xcbf29ce484222325)};
	struct fm_rta_random r;

	for (size_t k = 0; k < FM_ARRAY_LEN(known); k++) {
		fm_rta_seed(&r, 11, k);
		for (unsigned i = 0; i < 10000; i++)
			mix(&w, fm_sim_draw(&known[k], &r));
	}
	assert_int_equal(w.digest, UINT64_C(0xa35a7ba67f39cc00));
}

static void logarithms_are_near(void **state)
{
	struct fm_rta_random r;

	fm_rta_seed(&r, 3, 0);
	for (int i = 0; i < 100000; i++) {
		uint64_t v = fm_rta_next(&r) >> (i % 60) | 1;
		double got = (double)fm_sim_log2(v) / 4294967296.0;
		uint32_t f = (uint32_t)fm_rta_next(&r);
		double power = (double)fm_sim_exp2(f) / 4294967296.0;

		assert_true(fabs(got - log2((double)v)) < 3e-6);
		assert_true(fabs(power - exp2(f / 4294967296.0)) < 1e-8);
	}
	assert_int_equal(fm_sim_log2(1), 0);
	assert_int_equal(fm_sim_exp2(0), UINT64_C(1) << 32);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(level_1_ends_what_the_driver_has),
		cmocka_unit_test(level_2_ends_the_segment),
		cmocka_unit_test(level_3_ends_in_the_middle),
		cmocka_unit_test(costs_are_paid),
		cmocka_unit_test(a_driver_has_slices),
		cmocka_unit_test(a_stop_takes_turns),
		cmocka_unit_test(turns_are_fair),
		cmocka_unit_test(a_core_that_looks_late_hears_first),
		cmocka_unit_test(who_stands_at_a_gate_hears_late_of_it),
		cmocka_unit_test(jobs_begin_with_an_input),
		cmocka_unit_test(slots_work_side_by_side),
		cmocka_unit_test(arrivals_come_when_they_should),
		cmocka_unit_test(followers_wait_for_all),
		cmocka_unit_test(jobs_take_longer),
		cmocka_unit_test(pauses_leave_the_device),
		cmocka_unit_test(who_leaves_is_gone),
		cmocka_unit_test(gangs_run_everywhere_or_nowhere),
		cmocka_unit_test(the_warm_up_does_not_count),
		cmocka_unit_test(the_core_reacts_late),
		cmocka_unit_test(queueing_theory_holds),
		cmocka_unit_test(draws_have_their_mean),
		cmocka_unit_test(draws_are_as_measured),
		cmocka_unit_test(draws_are_known),
		cmocka_unit_test(logarithms_are_near),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
